//! What the network wire needs: UDP port 4791, and room in its sockets.

use super::{Finding, State};
use std::fs;
use std::mem::size_of_val;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd};

/// Where RoCEv2 packets go.
const ROCE_PORT: u16 = 4791;
/// What a receiving socket asks for.
const WANTED_BYTES: u64 = 4 << 20;

/// Whether this user can have the port: others of the same user share it.
pub(super) fn port() -> Finding {
    const NAME: &str = "UDP port 4791";
    match share_port(ROCE_PORT) {
        Ok(_) => Finding::fine(NAME, "free, or shared with processes of yours"),
        Err(error) if error.raw_os_error() == Some(libc::EADDRINUSE) => {
            Finding::new(NAME, State::Degraded, format!("taken by {}", holder()))
                .cost("no packets to or from other hosts: the Ethernet devices (ferri_*) do not work; ferri0 does")
                .remedy("end what has it, or run in a network namespace of your own (unshare -rn)")
        }
        Err(error) => Finding::new(NAME, State::Degraded, format!("cannot be bound: {error}"))
            .cost("no packets to or from other hosts"),
    }
}

/// Binds a port as an adapter does, to be shared with others of the same user.
fn share_port(port: u16) -> std::io::Result<UdpSocket> {
    // SAFETY: a plain system call.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and ours.
    let socket = unsafe { UdpSocket::from_raw_fd(fd) };
    let on: libc::c_int = 1;
    // SAFETY: the value lives through the call.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_REUSEPORT,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    // SAFETY: plain bytes, of which zeros are the wildcard address.
    let mut address: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    address.sin_family = libc::AF_INET as libc::sa_family_t;
    address.sin_port = port.to_be();
    // SAFETY: the address lives through the call.
    let bound = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as libc::socklen_t,
        )
    };
    if set != 0 || bound != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(socket)
}

/// Who has the port, as far as the kernel says: a user, or the kernel itself (its own Soft-RoCE).
fn holder() -> String {
    for table in ["/proc/net/udp", "/proc/net/udp6"] {
        let text = fs::read_to_string(table).unwrap_or_default();
        for line in text.lines().skip(1) {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let (Some(local), Some(uid), Some(inode)) =
                (columns.get(1), columns.get(7), columns.get(9))
            else {
                continue;
            };
            if !local.ends_with(&format!(":{ROCE_PORT:04X}")) {
                continue;
            }
            return if *inode == "0" {
                "the kernel itself: Soft-RoCE (rdma_rxe) is configured here".into()
            } else {
                format!("a program of user {uid}")
            };
        }
    }
    "somebody whom this process cannot see".into()
}

/// Whether a burst of packets fits a socket.
pub(super) fn socket_room() -> Finding {
    const NAME: &str = "socket buffers";
    let most = fs::read_to_string("/proc/sys/net/core/rmem_max")
        .ok()
        .and_then(|text| text.trim().parse::<u64>().ok())
        .unwrap_or(0);
    let found = format!("net.core.rmem_max {} KiB", most >> 10);
    if most >= WANTED_BYTES {
        return Finding::fine(NAME, found);
    }
    Finding::new(NAME, State::Note, found)
        .cost("less is sent at once over the network, so that bursts are not lost")
        .remedy(format!("sysctl -w net.core.rmem_max={WANTED_BYTES}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_shared_with_ones_own_processes_and_not_with_who_does_not_share() {
        let alone = UdpSocket::bind("0.0.0.0:0").expect("a port is free");
        let port = alone.local_addr().expect("bound").port();
        let refused = share_port(port).expect_err("its owner does not share");
        assert_eq!(refused.raw_os_error(), Some(libc::EADDRINUSE));
        drop(alone);
        let first = share_port(port).expect("the port is free again");
        let second = share_port(port).expect("shared");
        drop((first, second));
    }
}
