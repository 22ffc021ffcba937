//! The sockets that packets are sent from: one for each source address, source port and traffic class in use.
//!
//! Owns: their options, and the one system call that sends a datagram or a batch of them. Nothing is ever received here. Must not
//! know: what is sent.

use super::frames::{Frames, Look};
use super::number::Numbering;
use super::trouble::{Trouble, Troubles};
use super::{FilterStep, guarded, last_errno, options, system, udp_socket};
use crate::Error;
use crate::host::ForkFd;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Datagrams in one batch at most: what every kernel with UDP_SEGMENT takes.
pub const TX_SEGMENTS: usize = 64;

/// What a sending socket is made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct TxOptions {
    /// Source address.
    pub source: IpAddr,
    /// Interface: the scope of a link-local source address, and the one that groups are sent on; 0 lets the kernel choose.
    pub ifindex: u32,
    /// Source port; 0 lets the kernel choose.
    pub port: u16,
    /// IPv4 type of service or IPv6 traffic class: DSCP and ECN.
    pub tos: u8,
    /// IPv4 time to live or IPv6 hop limit, also of what goes to groups; 0 leaves the system's (for groups: 1).
    pub hop_limit: u8,
    /// Small datagrams of connections may go as whole frames, past the kernel's IP layer, where that is allowed.
    pub frames: bool,
}

/// Why nothing was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SendError {
    /// The socket's buffer or the interface's queue is full: wait until the socket is writable.
    #[error("no room for more at present")]
    Again,
    /// A datagram is longer than the interface's MTU.
    #[error("longer than the interface's MTU")]
    TooBig,
    /// There is no way to the destination.
    #[error("the destination cannot be reached: {}", std::io::Error::from_raw_os_error(*.0))]
    Unreachable(i32),
    /// The kernel does not take this batch (an old one, or a way that cannot carry it): send its datagrams one by one.
    #[error("the kernel does not take a batch of datagrams here")]
    NoBatch,
    /// Anything else: EPERM of a firewall, EBADF in a forked child.
    #[error("sending failed: {}", std::io::Error::from_raw_os_error(*.0))]
    Other(i32),
}

/// A socket to send from.
#[derive(Debug)]
pub struct TxPort {
    fd: ForkFd,
    how: TxOptions,
    port: u16,
    /// The one destination that the socket is connected to: the kernel looks for the way there once.
    peer: Option<SocketAddr>,
    numbering: Numbering,
    pub(super) frames: Frames,
    troubles: Troubles,
}

/// How a batch has gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gone {
    /// By the kernel's UDP.
    Copied,
    /// The kernel has a copy, and its IP layer did not see it.
    Framed,
}

impl TxPort {
    /// Binds source address and port, for this socket alone: nothing is received here, so a port that it shared would take from others
    /// what is theirs. Datagrams carry "don't fragment", and with it the IPv4 identification 0 (in a batch 0, 1, 2..), unless
    /// they go by [`TxPort::send_flow`].
    ///
    /// # Errors
    /// `System`: EADDRINUSE if somebody has the port, EADDRNOTAVAIL if the address is not ours, EMFILE and the like.
    pub fn bind(how: &TxOptions) -> Result<TxPort, Error> {
        let v6 = how.source.is_ipv6();
        let mut port = how.port;
        let fd = guarded(|| {
            let fd = udp_socket(v6)?;
            prepare(&fd, how)?;
            let local = match how.source {
                IpAddr::V4(address) => SocketAddr::new(address.into(), how.port),
                IpAddr::V6(address) if address.is_unicast_link_local() => {
                    SocketAddrV6::new(address, how.port, 0, how.ifindex).into()
                }
                IpAddr::V6(address) => SocketAddr::new(address.into(), how.port),
            };
            let bound = rustix::net::bind(&fd, &local)
                .and_then(|()| rustix::net::getsockname(&fd))
                .and_then(SocketAddr::try_from)
                .map_err(|e| system("bind of a source port", e.raw_os_error()))?;
            port = bound.port();
            Ok(fd)
        })?;
        Ok(TxPort {
            fd,
            how: *how,
            port,
            peer: None,
            numbering: Numbering::default(),
            frames: Frames::default(),
            troubles: Troubles::default(),
        })
    }

    /// The same for what is sent to `to`, an IPv6 address, more than elsewhere: the kernel keeps the way there, which saves looking for it with
    /// each datagram, and looks anew when its tables change. If there is no way at present, it is as without. For IPv4 it is as
    /// without, too: see [`TxPort::send_flow`].
    ///
    /// # Errors
    /// As [`TxPort::bind`].
    pub fn bind_for(how: &TxOptions, to: &SocketAddr) -> Result<TxPort, Error> {
        let port = TxPort::bind(how)?;
        let connected = to.is_ipv6() && rustix::net::connect(port.as_fd(), to).is_ok();
        Ok(TxPort {
            peer: connected.then_some(*to),
            ..port
        })
    }

    /// The source port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sends `bytes` as one datagram, or, if they are more than `segment`, as a batch of datagrams of `segment` bytes of which
    /// the last may be shorter: at most [`TX_SEGMENTS`] of them, and 65,507 bytes together. All of it or nothing. Never waits. The IPv4
    /// identification is 0, in a batch 0, 1, 2..
    ///
    /// # Errors
    /// As [`SendError`] says.
    pub fn send(&self, to: &SocketAddr, bytes: &[u8], segment: u16) -> Result<(), SendError> {
        let state = self.numbering.read();
        if state.is_plain() {
            return self.send_plain(to, bytes, segment);
        }
        drop(state);
        let mut state = self.numbering.write();
        state.give_up(self.as_fd());
        self.send_plain(to, bytes, segment)
    }

    /// The same of a flow whose identifications may be others: once a socket has sent many datagrams of connections (which `lasting` says
    /// of these), the kernel keeps the way to where they go. `renumber` makes of bytes whose identifications are 0, 1, 2.. those of `n`,
    /// `n` + 1, .. modulo 2^16; done once more with the same `n`, it undoes that. What is small goes as whole frames, with the identifications 0, 1, 2.., where [`Frames`] has a way.
    ///
    /// # Errors
    /// As [`SendError`] says.
    pub fn send_flow(
        &self,
        to: &SocketAddr,
        bytes: &mut [u8],
        segment: u16,
        lasting: bool,
        renumber: impl FnMut(u16, &mut [u8]),
    ) -> Result<Gone, SendError> {
        let frames = match to {
            SocketAddr::V4(to) if lasting && self.how.frames && self.frames.is_for(bytes.len()) => {
                Some(*to)
            }
            _ => None,
        };
        if frames.is_some_and(|to| self.frames.send(to, bytes, segment)) {
            return Ok(Gone::Framed);
        }
        let sent = self.send_datagrams(to, bytes, segment, lasting, renumber);
        if let Some(to) = frames.filter(|_| sent.is_ok()) {
            let seen = || {
                self.numbering
                    .seen_to(self.as_fd(), to, || self.clear_errors())
            };
            self.frames.missed(self.as_fd(), || self.look(), to, seen);
        }
        sent
    }

    /// What the network said is kept, and nothing lies in the queue of errors.
    fn clear_errors(&self) {
        self.troubles.hear(self.as_fd());
    }

    /// How its datagrams look.
    fn look(&self) -> Option<Look> {
        let IpAddr::V4(address) = self.how.source else {
            return None;
        };
        Some(Look {
            from: SocketAddrV4::new(address, self.port),
            tos: self.how.tos,
            hop_limit: self.how.hop_limit,
        })
    }

    /// [`TxPort::send_flow`] by UDP.
    fn send_datagrams(
        &self,
        to: &SocketAddr,
        bytes: &mut [u8],
        segment: u16,
        lasting: bool,
        mut renumber: impl FnMut(u16, &mut [u8]),
    ) -> Result<Gone, SendError> {
        let SocketAddr::V4(to_v4) = to else {
            return self.send_plain(to, bytes, segment).map(copied);
        };
        let plain = match self.numbering.probably_counts() {
            true => None,
            false => Some(self.numbering.read()).filter(|state| state.is_plain()),
        };
        if let Some(state) = plain {
            let sent = self.send_plain(to, bytes, segment);
            drop(state);
            if lasting && sent.is_ok() && self.numbering.is_worth() {
                self.numbering
                    .begin(self.as_fd(), *to_v4, || self.clear_errors());
            }
            return sent.map(copied);
        }
        let mut state = self.numbering.write();
        let Some((first, kept)) = state.next(to) else {
            self.numbering.note(false);
            return self.send_plain(to, bytes, segment).map(copied);
        };
        self.numbering.note(true);
        renumber(first, bytes);
        let Err(errno) = self.send_now(to, bytes, segment, kept) else {
            state.sent(self.as_fd(), is_batch(bytes, segment));
            return Ok(Gone::Copied);
        };
        // whether it took a number is not said
        self.troubles.failed(self.as_fd(), to, errno);
        state.give_up(self.as_fd());
        renumber(first, bytes);
        self.send_plain(to, bytes, segment).map(copied)
    }

    /// Addresses or routes have changed: no frame goes by a way of before.
    pub fn forget_ways(&self) {
        self.frames.forget();
    }

    /// `to` seems not to understand what is sent from here.
    pub fn doubt(&self, to: &SocketAddr) {
        if let SocketAddr::V4(to) = to {
            self.frames.doubt(*to);
        }
        if !self.numbering.read().is_plain() {
            self.numbering.doubt(self.as_fd());
        }
    }

    /// Sends, and once more if what failed was not this datagram.
    fn send_plain(&self, to: &SocketAddr, bytes: &[u8], segment: u16) -> Result<(), SendError> {
        let send = || self.send_now(to, bytes, segment, self.peer.as_ref() == Some(to));
        let Err(first) = send() else {
            return Ok(());
        };
        self.troubles.failed(self.as_fd(), to, first);
        let errno = match first {
            // An error that ICMP brought is told once, in place of the next call: it is not about this datagram.
            libc::ECONNREFUSED | libc::EINTR => match send() {
                Ok(()) => return Ok(()),
                Err(errno) => errno,
            },
            errno => errno,
        };
        Err(classify(errno, is_batch(bytes, segment)))
    }

    /// One call; `kept` says that the socket is connected to `to`.
    fn send_now(&self, to: &SocketAddr, bytes: &[u8], segment: u16, kept: bool) -> Result<(), i32> {
        if is_batch(bytes, segment) {
            self.send_batch(to, bytes, segment, kept)
        } else {
            self.send_one(to, bytes, kept)
        }
    }

    /// What the network and the kernel said lately of datagrams sent from here, the newest last. Processes that have the same address
    /// and port share what comes by ICMP: each message is told to one of them.
    pub fn troubles(&self) -> Vec<Trouble> {
        // not while somebody waits there for a copy of what he sent
        let _nobody = self.numbering.read();
        self.troubles.hear(self.as_fd());
        self.troubles.all()
    }

    fn send_one(&self, to: &SocketAddr, bytes: &[u8], kept: bool) -> Result<(), i32> {
        if kept {
            rustix::net::send(self.as_fd(), bytes, FLAGS)
        } else {
            rustix::net::sendto(self.as_fd(), bytes, FLAGS, to)
        }
        .map(|_| ())
        .map_err(|e| e.raw_os_error())
    }

    fn send_batch(
        &self,
        to: &SocketAddr,
        bytes: &[u8],
        segment: u16,
        kept: bool,
    ) -> Result<(), i32> {
        let mut name = Name::of(to);
        let mut part = libc::iovec {
            // The kernel only reads it.
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        // struct cmsghdr: its length without the padding, level and type, then the segment's size.
        let mut control = [
            16 + size_of::<u16>() as u64,
            libc::SOL_UDP as u64 | (libc::UDP_SEGMENT as u64) << 32,
            u64::from(segment),
        ];
        // SAFETY: all-zero is a value: null pointers and lengths of 0.
        let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
        if !kept {
            (head.msg_name, head.msg_namelen) = name.raw();
        }
        head.msg_iov = &raw mut part;
        head.msg_iovlen = 1;
        head.msg_control = (&raw mut control).cast();
        head.msg_controllen = size_of_val(&control) as _;
        // SAFETY: head points to a name, one part and control space of the lengths it says, which outlive the call; the kernel
        // reads them only.
        let sent = unsafe {
            libc::sendmsg(
                self.as_fd().as_raw_fd(),
                &raw const head,
                FLAGS.bits() as i32,
            )
        };
        if sent < 0 { Err(last_errno()) } else { Ok(()) }
    }
}

/// Writable when there is room again. In a fork's child it is a number that is never open: EBADF.
impl AsFd for TxPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.get_or_closed()
    }
}

const FLAGS: rustix::net::SendFlags =
    rustix::net::SendFlags::DONTWAIT.union(rustix::net::SendFlags::NOSIGNAL);

fn copied((): ()) -> Gone {
    Gone::Copied
}

/// True for more than one datagram.
fn is_batch(bytes: &[u8], segment: u16) -> bool {
    segment != 0 && bytes.len() > usize::from(segment)
}

#[cold]
fn classify(errno: i32, batch: bool) -> SendError {
    match errno {
        libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM => SendError::Again,
        libc::EMSGSIZE => SendError::TooBig,
        libc::ENETUNREACH
        | libc::EHOSTUNREACH
        | libc::ENETDOWN
        | libc::EADDRNOTAVAIL
        | libc::ECONNREFUSED => SendError::Unreachable(errno),
        libc::EINVAL | libc::EIO | libc::EOPNOTSUPP if batch => SendError::NoBatch,
        _ => SendError::Other(errno),
    }
}

fn prepare(fd: &OwnedFd, how: &TxOptions) -> Result<(), Error> {
    use libc::{IPPROTO_IP, IPPROTO_IPV6};
    let fd = fd.as_fd();
    let (tos, hops) = (i32::from(how.tos), i32::from(how.hop_limit));
    // Whatever somebody sends here is dropped before it takes memory. RET 0.
    let nothing = [FilterStep {
        code: 0x06,
        jt: 0,
        jf: 0,
        k: 0,
    }];
    options::attach(fd, libc::SO_ATTACH_FILTER, &nothing, "SO_ATTACH_FILTER")?;
    if how.source.is_ipv6() {
        options::set(fd, IPPROTO_IPV6, libc::IPV6_V6ONLY, 1, "IPV6_V6ONLY")?;
        let probe = libc::IPV6_PMTUDISC_PROBE;
        options::set(
            fd,
            IPPROTO_IPV6,
            libc::IPV6_MTU_DISCOVER,
            probe,
            "IPV6_MTU_DISCOVER",
        )?;
        options::set(fd, IPPROTO_IPV6, libc::IPV6_TCLASS, tos, "IPV6_TCLASS")?;
        options::set(fd, IPPROTO_IPV6, libc::IPV6_RECVERR, 1, "IPV6_RECVERR")?;
        if hops != 0 {
            options::set(
                fd,
                IPPROTO_IPV6,
                libc::IPV6_UNICAST_HOPS,
                hops,
                "IPV6_UNICAST_HOPS",
            )?;
            options::set(
                fd,
                IPPROTO_IPV6,
                libc::IPV6_MULTICAST_HOPS,
                hops,
                "IPV6_MULTICAST_HOPS",
            )?;
        }
        if how.ifindex != 0 {
            let ifindex = how.ifindex as i32;
            options::set(
                fd,
                IPPROTO_IPV6,
                libc::IPV6_MULTICAST_IF,
                ifindex,
                "IPV6_MULTICAST_IF",
            )?;
        }
    } else {
        // As "probe" the kernel sets DF and keeps to the interface's MTU, but neither learns nor obeys what ICMP, which anybody can
        // forge, says of the path's.
        let probe = libc::IP_PMTUDISC_PROBE;
        options::set(
            fd,
            IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            probe,
            "IP_MTU_DISCOVER",
        )?;
        options::set(fd, IPPROTO_IP, libc::IP_TOS, tos, "IP_TOS")?;
        // What ICMP says is kept for explanations. Without it the kernel tells a socket that is not connected nothing.
        options::set(fd, IPPROTO_IP, libc::IP_RECVERR, 1, "IP_RECVERR")?;
        if hops != 0 {
            options::set(fd, IPPROTO_IP, libc::IP_TTL, hops, "IP_TTL")?;
            options::set(
                fd,
                IPPROTO_IP,
                libc::IP_MULTICAST_TTL,
                hops,
                "IP_MULTICAST_TTL",
            )?;
        }
        if how.ifindex != 0 {
            options::set_group_interface(fd, how.ifindex)?;
        }
    }
    Ok(())
}

/// A destination as the kernel reads it.
enum Name {
    V4(libc::sockaddr_in),
    V6(libc::sockaddr_in6),
}

impl Name {
    fn of(to: &SocketAddr) -> Name {
        match to {
            SocketAddr::V4(v4) => Name::V4(libc::sockaddr_in {
                sin_family: libc::AF_INET as _,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(v4.ip().octets()),
                },
                sin_zero: [0; 8],
            }),
            SocketAddr::V6(v6) => Name::V6(libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as _,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr {
                    s6_addr: v6.ip().octets(),
                },
                sin6_scope_id: v6.scope_id(),
            }),
        }
    }

    fn raw(&mut self) -> (*mut libc::c_void, libc::socklen_t) {
        match self {
            Name::V4(name) => ((&raw mut *name).cast(), size_of_val(name) as _),
            Name::V6(name) => ((&raw mut *name).cast(), size_of_val(name) as _),
        }
    }
}
