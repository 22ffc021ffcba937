//! The receiving socket of a process on the shared port, and the buffers that it fills.
//!
//! Owns: options, steering program, groups, recvmmsg, and what the kernel says of each datagram. Must not know: what is in one.

use super::{FilterStep, guarded, last_errno, options, system, udp_socket};
use crate::host::ForkFd;
use crate::{Error, Room};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Messages that one call can receive. A message is one datagram, or a batch of datagrams of one sender that the kernel has
/// put together (UDP_GRO).
pub const RX_MESSAGES: usize = 8;
/// Room for one message: the longest batch that the kernel makes.
pub const RX_BUFFER_BYTES: usize = 65_536;

/// Room for the control messages of one message: four of at most 40 bytes.
const CONTROL_WORDS: usize = 32;

// Not in libc, or not under these names, for every target that we compile for: linux/udp.h, linux/in6.h.
const UDP_NO_CHECK6_RX: i32 = 102;
const IPV6_MULTICAST_ALL: i32 = 29;
const SO_MEMINFO: i32 = 55;
/// Index of the count of dropped datagrams in what SO_MEMINFO gives (linux/sock_diag.h).
const MEMINFO_DROPS: usize = 8;

/// What the kernel says of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RxMeta {
    /// Who sent it.
    pub source: IpAddr,
    /// From which port.
    pub source_port: u16,
    /// To which of our addresses, or to which group.
    pub destination: IpAddr,
    /// On which interface it came: also the scope of link-local addresses.
    pub ifindex: u32,
    /// IPv4 type of service or IPv6 traffic class: DSCP and ECN.
    pub tos: u8,
    /// IPv4 time to live or IPv6 hop limit.
    pub hop_limit: u8,
    /// Bytes of each datagram of a batch but the last, which may be shorter; of a single datagram, all. Never 0.
    pub segment: u16,
}

impl RxMeta {
    const NONE: RxMeta = RxMeta {
        source: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        source_port: 0,
        destination: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        ifindex: 0,
        tos: 0,
        hop_limit: 0,
        segment: 1,
    };
}

/// A process's socket on the shared port, for one family; or one beside it for a single sender ([`RxSocket::bind_flow`]).
#[derive(Debug)]
pub struct RxSocket {
    pub(super) fd: ForkFd,
    pub(super) v6: bool,
    /// What is known beforehand of all that comes here: the kernel is not asked for it.
    pub(super) known: Option<RxMeta>,
}

impl RxSocket {
    /// Binds the wildcard address and `port` (0: the kernel chooses one) together with the sockets of the same user that are bound
    /// so already, and asks for a buffer of `buffer_bytes` ([`RxSocket::buffer_bytes`] tells what was granted). The kernel puts the
    /// new socket at the end of the group's array.
    ///
    /// # Errors
    /// `System` with EADDRINUSE if the port is somebody else's: another user's, a kernel driver's; EAFNOSUPPORT or
    /// EADDRNOTAVAIL without IPv6; EMFILE and the like.
    pub fn bind(v6: bool, port: u16, buffer_bytes: usize) -> Result<RxSocket, Error> {
        let wildcard: IpAddr = if v6 {
            Ipv6Addr::UNSPECIFIED.into()
        } else {
            Ipv4Addr::UNSPECIFIED.into()
        };
        RxSocket::bind_to(&SocketAddr::new(wildcard, port), buffer_bytes)
    }

    pub(super) fn bind_to(local: &SocketAddr, buffer_bytes: usize) -> Result<RxSocket, Error> {
        let v6 = local.is_ipv6();
        let fd = guarded(|| {
            let fd = udp_socket(v6)?;
            prepare(&fd, v6, buffer_bytes)?;
            rustix::net::bind(&fd, local)
                .map_err(|e| system("bind of the RoCE port", e.raw_os_error()))?;
            Ok(fd)
        })?;
        Ok(RxSocket {
            fd,
            v6,
            known: None,
        })
    }

    /// True for an IPv6 socket.
    pub fn is_v6(&self) -> bool {
        self.v6
    }

    /// The port.
    ///
    /// # Errors
    /// `System`: in a forked child.
    pub fn port(&self) -> Result<u16, Error> {
        let name = rustix::net::getsockname(self.as_fd())
            .map_err(|e| system("getsockname", e.raw_os_error()))?;
        let address =
            SocketAddr::try_from(name).map_err(|e| system("getsockname", e.raw_os_error()))?;
        Ok(address.port())
    }

    /// Bytes of buffer that the kernel granted; net.core.rmem_max bounds them. The kernel's own bookkeeping comes out of as
    /// much again.
    pub fn buffer_bytes(&self) -> usize {
        // Linux doubles what is asked for and reports that.
        rustix::net::sockopt::socket_recv_buffer_size(self.as_fd()).unwrap_or(0) / 2
    }

    /// Datagrams that the kernel dropped here because the buffer was full or a checksum wrong; modulo 2^32.
    pub fn drops(&self) -> u32 {
        match options::get::<16>(self.as_fd(), libc::SOL_SOCKET, SO_MEMINFO, "SO_MEMINFO") {
            Ok((words, count)) if count > MEMINFO_DROPS => words[MEMINFO_DROPS],
            _ => 0,
        }
    }

    /// Gives the group of sockets on the port a program that says which one gets a datagram; offset 0 is the first byte after
    /// the UDP header. An index that no socket has stands for the kernel's own choice. Any member may do so; the last one counts.
    ///
    /// # Errors
    /// `System`: ENOMEM beyond what net.core.optmem_max allows (try a shorter program), EINVAL for one that is not valid.
    pub fn attach(&self, program: &[FilterStep]) -> Result<(), Error> {
        options::attach(
            self.as_fd(),
            libc::SO_ATTACH_REUSEPORT_CBPF,
            program,
            "SO_ATTACH_REUSEPORT_CBPF",
        )
    }

    /// Receives what is sent to a group on an interface, too. Each socket that joined gets its own copy, whatever the program says.
    ///
    /// # Errors
    /// `System`: EADDRINUSE if joined already, ENODEV, ENOBUFS beyond net.ipv4.igmp_max_memberships.
    pub fn join_group(&self, group: IpAddr, ifindex: u32) -> Result<(), Error> {
        use rustix::net::sockopt;
        let fd = self.as_fd();
        match group {
            IpAddr::V4(g) => {
                sockopt::set_ip_add_membership_with_ifindex(fd, &g, &Ipv4Addr::UNSPECIFIED, ifindex)
            }
            IpAddr::V6(g) => sockopt::set_ipv6_add_membership(fd, &g, ifindex),
        }
        .map_err(|e| system("joining of a group", e.raw_os_error()))
    }

    /// Undoes [`RxSocket::join_group`].
    ///
    /// # Errors
    /// `System`: EADDRNOTAVAIL if not joined.
    pub fn leave_group(&self, group: IpAddr, ifindex: u32) -> Result<(), Error> {
        use rustix::net::sockopt;
        let fd = self.as_fd();
        match group {
            IpAddr::V4(g) => sockopt::set_ip_drop_membership_with_ifindex(
                fd,
                &g,
                &Ipv4Addr::UNSPECIFIED,
                ifindex,
            ),
            IpAddr::V6(g) => sockopt::set_ipv6_drop_membership(fd, &g, ifindex),
        }
        .map_err(|e| system("leaving of a group", e.raw_os_error()))
    }

    /// Receives up to `most` messages (at least 1, at most [`RX_MESSAGES`]) into the ring, whose former content is gone. Never waits:
    /// 0 if there are none.
    ///
    /// # Errors
    /// `System`: EBADF in a forked child; ENOMEM. A socket that is not connected gets no errors of the network.
    pub fn receive(&self, ring: &mut RxRing, most: usize) -> Result<usize, Error> {
        ring.filled = 0;
        let count = most.clamp(1, RX_MESSAGES);
        // a look at an empty socket is what a polling program does most: only the heads that are used are written
        let mut parts = [const { MaybeUninit::<libc::iovec>::uninit() }; RX_MESSAGES];
        let mut heads = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; RX_MESSAGES];
        let (names, control) = (&mut ring.names, &mut ring.control);
        let buffers = ring.bytes.chunks_exact_mut(RX_BUFFER_BYTES);
        for (index, buffer) in buffers.enumerate().take(count) {
            parts[index].write(libc::iovec {
                iov_base: buffer.as_mut_ptr().cast(),
                iov_len: buffer.len(),
            });
            // SAFETY: all-zero is a value: null pointers and lengths of 0.
            let head = &mut heads[index].write(unsafe { std::mem::zeroed() }).msg_hdr;
            if self.known.is_none() {
                names[index].ss_family = libc::AF_UNSPEC as _;
                head.msg_name = (&raw mut names[index]).cast();
                head.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            }
            head.msg_iov = parts[index].as_mut_ptr();
            head.msg_iovlen = 1;
            head.msg_control = (&raw mut control[index]).cast();
            head.msg_controllen = size_of::<[u64; CONTROL_WORDS]>() as _;
        }
        let fd = self.fd.get_or_closed().as_raw_fd();
        let got = if count == 1 {
            receive_one(fd, &mut heads[0])
        } else {
            // SAFETY: the first `count` heads were written; they point to names, parts, buffers and control space of the lengths they
            // say, each used by one head alone; all of them outlive the call. The call never waits, so it need be no point of
            // cancellation, which the C library's function is and which costs two atomic operations.
            unsafe {
                libc::syscall(
                    libc::SYS_recvmmsg,
                    fd,
                    heads.as_mut_ptr(),
                    count,
                    libc::MSG_DONTWAIT,
                    std::ptr::null_mut::<libc::timespec>(),
                )
            }
        };
        if got < 0 {
            return match last_errno() {
                libc::EAGAIN | libc::EINTR => Ok(0),
                errno => Err(system("receiving of datagrams", errno)),
            };
        }
        let got = (got as usize).min(count);
        for index in 0..got {
            // SAFETY: index < got <= count: it was written.
            let head = unsafe { heads[index].assume_init_ref() };
            ring.lengths[index] = 0;
            ring.metas[index] = RxMeta::NONE;
            let length = (head.msg_len as usize).min(RX_BUFFER_BYTES);
            let cut = head.msg_hdr.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
            let used = head.msg_hdr.msg_controllen.min(CONTROL_WORDS * 8) / 8;
            let meta = match self.known {
                Some(known) => Some(known),
                None => named(&names[index]),
            };
            let known = self.known.is_some();
            let meta = meta.and_then(|m| read_meta(m, known, &control[index][..used], length));
            match meta {
                Some(meta) if !cut => {
                    ring.metas[index] = meta;
                    ring.lengths[index] = length;
                }
                _ => ring.refused += 1,
            }
        }
        ring.filled = got;
        Ok(got)
    }
}

/// Receives one message, or says -1; an eighth less of a look at an empty socket than recvmmsg of one.
fn receive_one(fd: i32, head: &mut MaybeUninit<libc::mmsghdr>) -> i64 {
    // SAFETY: as for recvmmsg: the head was written, and what it points to outlives the call.
    let head = unsafe { head.assume_init_mut() };
    // SAFETY: the same.
    let length = unsafe {
        libc::syscall(
            libc::SYS_recvmsg,
            fd,
            &raw mut head.msg_hdr,
            libc::MSG_DONTWAIT,
        )
    };
    match u32::try_from(length) {
        Ok(length) => {
            head.msg_len = length;
            1
        }
        Err(_) => -1,
    }
}

/// Readable when messages wait. In a fork's child it is a number that is never open: EBADF.
impl AsFd for RxSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.get_or_closed()
    }
}

/// Buffers for [`RxSocket::receive`], used again and again.
pub struct RxRing {
    bytes: Room,
    names: Box<[libc::sockaddr_storage; RX_MESSAGES]>,
    control: Box<[[u64; CONTROL_WORDS]; RX_MESSAGES]>,
    metas: [RxMeta; RX_MESSAGES],
    lengths: [usize; RX_MESSAGES],
    filled: usize,
    refused: u64,
}

impl RxRing {
    /// [`RX_MESSAGES`] buffers of [`RX_BUFFER_BYTES`], whose pages are allocated when they are first filled.
    pub fn new() -> RxRing {
        // SAFETY: all-zero is a value: the family AF_UNSPEC.
        let names = unsafe { std::mem::zeroed() };
        RxRing {
            bytes: Room::new(RX_MESSAGES * RX_BUFFER_BYTES),
            names: Box::new(names),
            control: Box::new([[0; CONTROL_WORDS]; RX_MESSAGES]),
            metas: [RxMeta::NONE; RX_MESSAGES],
            lengths: [0; RX_MESSAGES],
            filled: 0,
            refused: 0,
        }
    }

    /// The messages of the last [`RxSocket::receive`], in the order of arrival. `bytes.chunks(meta.segment)` are the datagrams.
    pub fn messages(&self) -> impl Iterator<Item = (&RxMeta, &[u8])> {
        (0..self.filled).filter_map(|index| self.message(index))
    }

    /// Message `index` of the last [`RxSocket::receive`]; None if there is none, or if it had been cut off.
    pub fn message(&self, index: usize) -> Option<(&RxMeta, &[u8])> {
        if index >= self.filled || self.lengths[index] == 0 {
            return None;
        }
        let start = index * RX_BUFFER_BYTES;
        Some((
            &self.metas[index],
            &self.bytes[start..start + self.lengths[index]],
        ))
    }

    /// Room for one message, and nothing in the ring.
    #[inline]
    pub(super) fn first_room(&mut self) -> &mut [u8] {
        self.filled = 0;
        &mut self.bytes[..RX_BUFFER_BYTES]
    }

    /// A datagram of `length` bytes lies there, and nothing else in the ring.
    #[inline]
    pub(super) fn fill_first(&mut self, known: RxMeta, length: usize) {
        let length = length.min(RX_BUFFER_BYTES);
        let segment = u16::try_from(length).unwrap_or(u16::MAX);
        self.metas[0] = RxMeta { segment, ..known };
        self.lengths[0] = length;
        self.filled = 1;
        self.refused += u64::from(length == 0);
    }

    /// Messages so far that were passed over: empty, cut off, or without what the kernel should have said of them.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

impl std::fmt::Debug for RxRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RxRing")
            .field("filled", &self.filled)
            .field("refused", &self.refused)
            .finish_non_exhaustive()
    }
}

impl Default for RxRing {
    fn default() -> RxRing {
        RxRing::new()
    }
}

fn prepare(fd: &OwnedFd, v6: bool, buffer_bytes: usize) -> Result<(), Error> {
    use libc::{IPPROTO_IP, IPPROTO_IPV6, SOL_SOCKET, SOL_UDP};
    let fd = fd.as_fd();
    options::set(fd, SOL_SOCKET, libc::SO_REUSEPORT, 1, "SO_REUSEPORT")?;
    let bytes = i32::try_from(buffer_bytes).unwrap_or(i32::MAX);
    options::set(fd, SOL_SOCKET, libc::SO_RCVBUF, bytes, "SO_RCVBUF")?;
    options::set(fd, SOL_UDP, libc::UDP_GRO, 1, "UDP_GRO")?;
    if v6 {
        options::set(fd, IPPROTO_IPV6, libc::IPV6_V6ONLY, 1, "IPV6_V6ONLY")?;
        options::set(
            fd,
            IPPROTO_IPV6,
            libc::IPV6_RECVPKTINFO,
            1,
            "IPV6_RECVPKTINFO",
        )?;
        options::set(
            fd,
            IPPROTO_IPV6,
            libc::IPV6_RECVTCLASS,
            1,
            "IPV6_RECVTCLASS",
        )?;
        options::set(
            fd,
            IPPROTO_IPV6,
            libc::IPV6_RECVHOPLIMIT,
            1,
            "IPV6_RECVHOPLIMIT",
        )?;
        options::set(
            fd,
            IPPROTO_IPV6,
            IPV6_MULTICAST_ALL,
            0,
            "IPV6_MULTICAST_ALL",
        )?;
        // RoCE adapters send UDP checksums of 0 (IBA A17.4.5.2); without this the kernel drops those over IPv6.
        options::set(fd, SOL_UDP, UDP_NO_CHECK6_RX, 1, "UDP_NO_CHECK6_RX")?;
    } else {
        options::set(fd, IPPROTO_IP, libc::IP_PKTINFO, 1, "IP_PKTINFO")?;
        options::set(fd, IPPROTO_IP, libc::IP_RECVTOS, 1, "IP_RECVTOS")?;
        options::set(fd, IPPROTO_IP, libc::IP_RECVTTL, 1, "IP_RECVTTL")?;
        options::set(
            fd,
            IPPROTO_IP,
            libc::IP_MULTICAST_ALL,
            0,
            "IP_MULTICAST_ALL",
        )?;
    }
    Ok(())
}

/// Who sent a message; nothing else is known yet.
fn named(name: &libc::sockaddr_storage) -> Option<RxMeta> {
    let (source, source_port) = read_name(name)?;
    Some(RxMeta {
        source,
        source_port,
        ..RxMeta::NONE
    })
}

/// Adds what the kernel said of a message of `length` bytes to what is known; None if something is missing. `known`: where it went to is.
fn read_meta(mut meta: RxMeta, mut known: bool, control: &[u64], length: usize) -> Option<RxMeta> {
    if length == 0 {
        return None;
    }
    meta.segment = u16::try_from(length).unwrap_or(u16::MAX);
    let mut rest = control;
    // struct cmsghdr: length of all (8 bytes), level, type (4 each), then the data; the next one begins at a multiple of 8.
    while let [size, kind, data @ ..] = rest {
        let words = usize::try_from(*size).ok()?.div_ceil(8);
        if *size < 16 || words > rest.len() {
            break;
        }
        let (level, name) = (*kind as u32 as i32, (*kind >> 32) as i32);
        let first = data.first().copied().unwrap_or(0);
        match (level, name) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) if data.len() >= 2 => {
                // Interface, local address, destination of the header.
                meta.ifindex = first as u32;
                meta.destination = Ipv4Addr::from((data[1] as u32).to_ne_bytes()).into();
                known = true;
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) if data.len() >= 3 => {
                let mut address = [0; 16];
                address[..8].copy_from_slice(&data[0].to_ne_bytes());
                address[8..].copy_from_slice(&data[1].to_ne_bytes());
                meta.destination = Ipv6Addr::from(address).into();
                meta.ifindex = data[2] as u32;
                known = true;
            }
            (libc::IPPROTO_IP, libc::IP_TOS) => meta.tos = first as u8,
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => meta.tos = first as u8,
            (libc::IPPROTO_IP, libc::IP_TTL) => meta.hop_limit = first as u8,
            (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => meta.hop_limit = first as u8,
            (libc::SOL_UDP, libc::UDP_GRO) => {
                let segment = first as u32 as usize;
                if segment != 0 && segment < length {
                    meta.segment = u16::try_from(segment).ok()?;
                }
            }
            _ => {}
        }
        rest = &rest[words..];
    }
    known.then_some(meta)
}

pub(super) fn read_name(name: &libc::sockaddr_storage) -> Option<(IpAddr, u16)> {
    match i32::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: sockaddr_storage is at least as large and as aligned, and the family says which one it holds; every bit
            // pattern is a value.
            let v4 = unsafe { &*(&raw const *name).cast::<libc::sockaddr_in>() };
            let address = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Some((address.into(), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { &*(&raw const *name).cast::<libc::sockaddr_in6>() };
            let address = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some((address.into(), u16::from_be(v6.sin6_port)))
        }
        _ => None,
    }
}
