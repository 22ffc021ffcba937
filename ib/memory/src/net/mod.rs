//! The sockets under the RoCE wire.
//!
//! Owns: the system calls that send and receive UDP datagrams with what RoCEv2 needs around them (steering, offload of
//! segmentation both ways, traffic class, groups), and what the kernel says of network interfaces. Works for any port, in any
//! network namespace, without privilege; with CAP_NET_RAW small datagrams take a shorter way ([`frames`]). Must not know: packets' headers, queue pairs, who the peers are.
//!
//! *Fork.* The sockets do not live on in a forked child ([`crate::host::ForkFd`]); the objects that it inherits
//! answer with errors.

mod flow;
mod frames;
mod netdev;
mod netlink;
mod number;
mod options;
mod rx;
#[cfg(test)]
mod tests;
mod trouble;
mod tx;

pub use netdev::{NetAddress, NetChanges, NetWatch, Netdev, netdevs};
pub use rx::{RX_BUFFER_BYTES, RX_MESSAGES, RxMeta, RxRing, RxSocket};
pub use trouble::{Trouble, TroubleKind};
pub use tx::{Gone, SendError, TX_SEGMENTS, TxOptions, TxPort};

use crate::Error;
use crate::host::{ForkFd, HostError};
use std::os::fd::OwnedFd;

/// UDP port of RoCEv2 (IBA A17.4.2).
pub const ROCE_PORT: u16 = 4791;

/// One instruction of a classic BPF program, as the kernel's `sock_filter` has it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterStep {
    /// What it does.
    pub code: u16,
    /// Instructions to skip if a condition holds.
    pub jt: u8,
    /// Instructions to skip if it does not.
    pub jf: u8,
    /// Its operand.
    pub k: u32,
}

const _: () = assert!(size_of::<FilterStep>() == size_of::<libc::sock_filter>());
const _: () = assert!(align_of::<FilterStep>() == align_of::<libc::sock_filter>());

/// Makes a descriptor that children do not keep.
fn guarded(make: impl FnOnce() -> Result<OwnedFd, Error>) -> Result<ForkFd, Error> {
    match ForkFd::make(|| Ok(Some(make()?))) {
        Ok(Some(fd)) => Ok(fd),
        Ok(None) => unreachable!("the closure always gives a descriptor"),
        Err(HostError::Memory(error)) => Err(error),
        Err(other) => Err(system("descriptor of a socket", other.errno())),
    }
}

/// A new UDP socket: nonblocking, close-on-exec.
fn udp_socket(v6: bool) -> Result<OwnedFd, Error> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto};
    let family = if v6 {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, SocketType::DGRAM, flags, Some(ipproto::UDP))
        .map_err(|e| system("socket", e.raw_os_error()))
}

#[cold]
fn system(call: &'static str, errno: i32) -> Error {
    Error::from_errno(call, errno, 0)
}

#[cold]
fn last_errno() -> i32 {
    std::io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EIO)
}
