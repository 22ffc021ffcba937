//! When a server can be called, seen from outside and without calling it.
//!
//! Owns: the signs. A listener of TCP and a socket of UDP stand in /proc, a service of the connection manager in the host's
//! registry, a member of a multicast group in either. Must not know: what the programs are.

use crate::members;
use ferriband_memory::host::{Host, SERVICE_LISTENS};
use std::cell::OnceCell;
use std::fs;
use std::net::IpAddr;

/// Looks at one server.
pub struct Lookout {
    /// The registry of this host's adapters, as soon as there are any; without it the signs of the system are left.
    host: OnceCell<Host>,
    /// How often its multicast groups had changed when we came.
    groups_before: u64,
    port: u16,
    group: Option<IpAddr>,
}

impl Lookout {
    /// Begins before the server does: it will serve at `port`, or join a group that its words name (`-m GROUP`).
    pub fn new(port: u16, words: &[String]) -> Self {
        // A member that answers nobody must not be the first: who cannot look into us would find no registry. It joins when others
        // are there, who answer for it.
        let host = OnceCell::new();
        if has_members("thread-self")
            && let Ok(joined) = members::join()
        {
            host.get_or_init(|| joined);
        }
        let group = words
            .iter()
            .skip_while(|word| *word != "-m")
            .nth(1)
            .and_then(|word| word.parse().ok())
            .filter(IpAddr::is_multicast);
        Lookout {
            groups_before: host.get().map_or(0, |host| host.multicast_epoch()),
            host,
            port,
            group,
        }
    }

    /// True once the server, process `pid`, can be called.
    pub fn can_be_called(&self, pid: u32) -> bool {
        match self.group {
            Some(group) => self.has_joined(pid, group),
            None => {
                is_listening(pid, self.port) || is_bound(pid, self.port) || self.has_service(pid)
            }
        }
    }

    fn registry(&self, pid: u32) -> Option<&Host> {
        if self.host.get().is_none()
            && has_members(&pid.to_string())
            && let Ok(joined) = members::join()
        {
            self.host.get_or_init(|| joined);
        }
        self.host.get()
    }

    fn has_service(&self, pid: u32) -> bool {
        let Some(host) = self.registry(pid) else {
            return false;
        };
        host.services()
            .iter()
            .filter(|entry| entry.service.flags & SERVICE_LISTENS != 0)
            .filter_map(|entry| host.member(entry.process))
            .any(|member| member.identity.pid == pid)
    }

    fn has_joined(&self, pid: u32, group: IpAddr) -> bool {
        let in_registry = self
            .registry(pid)
            .is_some_and(|host| host.multicast_epoch() != self.groups_before);
        in_registry || has_group(pid, group)
    }
}

/// Whether a socket of the network of process `pid` has joined a group, as the system sees it.
fn has_group(pid: u32, group: IpAddr) -> bool {
    // the kernel prints the bytes of an IPv4 group as a number of the machine
    let (table, column, wanted) = match group {
        IpAddr::V4(v4) => (
            "igmp",
            0,
            format!("{:08X}", u32::from_ne_bytes(v4.octets())),
        ),
        IpAddr::V6(v6) => ("igmp6", 2, format!("{:032x}", u128::from(v6))),
    };
    table_of(pid, table)
        .lines()
        .any(|line| line.split_ascii_whitespace().nth(column) == Some(&wanted))
}

/// Whether adapters of the network of a process (a name in /proc) can be asked for their registry: the names of the sockets on which
/// members listen end in `s` and a number.
fn has_members(process: &str) -> bool {
    let table = fs::read_to_string(format!("/proc/{process}/net/unix")).unwrap_or_default();
    let names = table.lines().filter_map(|line| line.split_once('@'));
    names.into_iter().any(|(_, name)| {
        name.starts_with("ferriband/")
            && name
                .rsplit('/')
                .next()
                .and_then(|last| last.strip_prefix('s'))
                .is_some_and(|slot| slot.parse::<u32>().is_ok())
    })
}

/// A table of the network of process `pid`; empty when there is none.
fn table_of(pid: u32, table: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default()
}

/// Whether one of the sockets in a table has this port and a state that is wanted.
fn has_socket(pid: u32, tables: [&str; 2], port: u16, state: Option<&str>) -> bool {
    tables.iter().any(|table| {
        table_of(pid, table).lines().skip(1).any(|line| {
            let mut fields = line.split_ascii_whitespace().skip(1);
            let local = fields.next().and_then(|address| address.rsplit(':').next());
            let of_socket = fields.nth(1);
            local.is_some_and(|hex| u16::from_str_radix(hex, 16) == Ok(port))
                && (state.is_none() || state == of_socket)
        })
    })
}

/// Whether somebody listens on a TCP port of the network of process `pid`: read from /proc, because a trial connection would be
/// taken for the client.
pub fn is_listening(pid: u32, port: u16) -> bool {
    has_socket(pid, ["tcp", "tcp6"], port, Some("0A"))
}

/// The same of a UDP port.
fn is_bound(pid: u32, port: u16) -> bool {
    has_socket(pid, ["udp", "udp6"], port, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener, UdpSocket};
    use std::thread;
    use std::time::{Duration, Instant};

    /// A process that another test forks meanwhile holds a copy of a socket for a moment.
    fn soon(mut done: impl FnMut() -> bool) -> bool {
        let end = Instant::now() + Duration::from_secs(20);
        while Instant::now() < end {
            if done() {
                return true;
            }
            thread::sleep(Duration::from_millis(5));
        }
        false
    }

    #[test]
    fn a_listening_port_is_seen_without_touching_it() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let own = std::process::id();
        assert!(is_listening(own, port));
        drop(listener);
        assert!(soon(|| !is_listening(own, port)));
    }

    #[test]
    fn a_socket_of_datagrams_and_a_group_are_seen() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let port = socket.local_addr().expect("it is bound").port();
        let own = std::process::id();
        assert!(Lookout::new(port, &[]).can_be_called(own));
        // by the system's tables alone: other processes' groups are in the registry, too
        let group = IpAddr::V4(Ipv4Addr::new(239, 77, 1, 200));
        assert!(!has_group(own, group));
        socket
            .join_multicast_v4(&Ipv4Addr::new(239, 77, 1, 200), &Ipv4Addr::LOCALHOST)
            .expect("loopback takes groups");
        assert!(has_group(own, group));
        drop(socket);
        assert!(soon(|| !is_bound(own, port)));
    }
}
