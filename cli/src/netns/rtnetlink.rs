//! The few requests of rtnetlink(7) that two hosts need.
//!
//! Owns: their encoding. Every request is acknowledged before the next.

use std::ffi::CString;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A header of netlink: length, kind, flags, sequence, port.
const HEADER_BYTES: usize = 16;
/// Attributes of linux/if_link.h and linux/veth.h that libc does not name.
const VETH_INFO_PEER: u16 = 1;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
const IN6_ADDR_GEN_MODE_NONE: u8 = 1;
/// An attribute that holds attributes.
const NESTED: u16 = libc::NLA_F_NESTED as u16;

/// A socket of the calling thread's network namespace.
pub struct Socket {
    fd: OwnedFd,
    sequence: u32,
}

/// A request under construction.
struct Request(Vec<u8>);

impl Request {
    fn new(kind: u16, flags: libc::c_int) -> Self {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        let flags = (flags | libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        Request(bytes)
    }

    /// An ifinfomsg.
    fn link(mut self, index: u32, flags: u32, change: u32) -> Self {
        self.0.extend([libc::AF_UNSPEC as u8, 0, 0, 0]);
        for word in [index, flags, change] {
            self.0.extend(word.to_ne_bytes());
        }
        self
    }

    /// An attribute; its own are added by `fill`.
    fn nest(mut self, kind: u16, fill: impl FnOnce(Self) -> Self) -> Self {
        let at = self.0.len();
        self.0.extend([0; 4]);
        self = fill(self);
        let length = (self.0.len() - at) as u16;
        self.0[at..at + 2].copy_from_slice(&length.to_ne_bytes());
        self.0[at + 2..at + 4].copy_from_slice(&kind.to_ne_bytes());
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn attribute(self, kind: u16, bytes: &[u8]) -> Self {
        self.nest(kind, |mut request| {
            request.0.extend(bytes);
            request
        })
    }
}

impl Socket {
    /// Opens it.
    pub fn open() -> io::Result<Self> {
        // SAFETY: socket takes numbers.
        let fd = unsafe {
            libc::socket(
                libc::AF_NETLINK,
                libc::SOCK_RAW | libc::SOCK_CLOEXEC,
                libc::NETLINK_ROUTE,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Socket { fd, sequence: 0 })
    }

    /// Makes a pair of interfaces: one here, its peer in another namespace.
    pub fn add_veth(&mut self, here: &str, there: &str, peer: BorrowedFd<'_>) -> io::Result<()> {
        let name = |name: &str| format!("{name}\0").into_bytes();
        let request = Request::new(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL)
            .link(0, 0, 0)
            .attribute(libc::IFLA_IFNAME, &name(here))
            .nest(libc::IFLA_LINKINFO | NESTED, |info| {
                info.attribute(libc::IFLA_INFO_KIND, b"veth").nest(
                    libc::IFLA_INFO_DATA | NESTED,
                    |data| {
                        data.nest(VETH_INFO_PEER, |other| {
                            other
                                .link(0, 0, 0)
                                .attribute(libc::IFLA_IFNAME, &name(there))
                                .attribute(libc::IFLA_NET_NS_FD, &peer.as_raw_fd().to_ne_bytes())
                        })
                    },
                )
            });
        self.ask(request)
    }

    /// Link up, or down.
    pub fn set_link(&mut self, index: u32, is_up: bool) -> io::Result<()> {
        let up = libc::IFF_UP as u32;
        let flags = if is_up { up } else { 0 };
        self.ask(Request::new(libc::RTM_NEWLINK, 0).link(index, flags, up))
    }

    /// Leaves the interface without the address that the kernel gives it. Where there is no IPv6 there is none.
    pub fn no_automatic_address(&mut self, index: u32) -> io::Result<()> {
        let request = Request::new(libc::RTM_NEWLINK, 0).link(index, 0, 0).nest(
            libc::IFLA_AF_SPEC | NESTED,
            |families| {
                families.nest(libc::AF_INET6 as u16 | NESTED, |inet6| {
                    inet6.attribute(IFLA_INET6_ADDR_GEN_MODE, &[IN6_ADDR_GEN_MODE_NONE])
                })
            },
        );
        match self.ask(request) {
            Err(error) if super::no_ipv6(&error) => Ok(()),
            other => other,
        }
    }

    /// Adds an address, usable at once.
    pub fn add_address(&mut self, index: u32, address: IpAddr, prefix: u8) -> io::Result<()> {
        let (family, bytes) = match address {
            IpAddr::V4(v4) => (libc::AF_INET, v4.octets().to_vec()),
            IpAddr::V6(v6) => (libc::AF_INET6, v6.octets().to_vec()),
        };
        let mut request = Request::new(libc::RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
        // an ifaddrmsg: no duplicate can be on a wire with two ends
        request.0.extend([
            family as u8,
            prefix,
            libc::IFA_F_NODAD as u8,
            libc::RT_SCOPE_UNIVERSE,
        ]);
        request.0.extend(index.to_ne_bytes());
        self.ask(
            request
                .attribute(libc::IFA_LOCAL, &bytes)
                .attribute(libc::IFA_ADDRESS, &bytes),
        )
    }

    /// Sends a request and waits for its acknowledgement.
    fn ask(&mut self, Request(mut bytes): Request) -> io::Result<()> {
        self.sequence += 1;
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
        let fd = self.fd.as_raw_fd();
        // SAFETY: the buffer lives through the call, which only reads it.
        if unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut answer = [0u8; 4096];
        // SAFETY: the buffer lives through the call, and is as long as is said.
        let got = unsafe { libc::recv(fd, answer.as_mut_ptr().cast(), answer.len(), 0) };
        if got < 0 {
            return Err(io::Error::last_os_error());
        }
        let answer = &answer[..got as usize];
        let kind = answer
            .get(4..6)
            .map(|kind| u16::from_ne_bytes([kind[0], kind[1]]));
        match (kind, answer.get(HEADER_BYTES..HEADER_BYTES + 4)) {
            (Some(kind), Some(&[a, b, c, d])) if kind == libc::NLMSG_ERROR as u16 => {
                match i32::from_ne_bytes([a, b, c, d]) {
                    0 => Ok(()),
                    code => Err(io::Error::from_raw_os_error(-code)),
                }
            }
            _ => Err(io::Error::other("rtnetlink answered strangely")),
        }
    }
}

/// The index of an interface of the calling thread's namespace.
pub fn index_of(name: &str) -> io::Result<u32> {
    let name = CString::new(name).map_err(io::Error::other)?;
    // SAFETY: a C string that lives through the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}
