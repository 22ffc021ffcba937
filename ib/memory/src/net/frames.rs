//! Small datagrams of connections as whole Ethernet frames: by a packet socket, past the kernel's UDP and IP layers.
//!
//! Owns: the packet socket, the headers of the frames, and how long a way is good. It saves a fifth of a small message's time between two hosts
//! whose interfaces queue nothing (two ends of a veth: a container, a network namespace), and more for a run of packets. It takes CAP_NET_RAW,
//! which root of a namespace and most containers have; without it all is as before.
//!
//! *What the kernel does is what is done.* A way is what the kernel itself made of an empty datagram, as the interface got it ([`Sent`]): the headers are copied from
//! that frame, and there is no way if they are not those of the datagram (it was translated, encrypted, tunnelled), or if it did not go at once. A way
//! is good for [`GOOD`] at most; then a datagram goes by UDP, which tells errors, and the kernel is asked anew. So a firewall, a route or a neighbour that changes is
//! followed within that time; a firewall that counts datagrams or bytes sees those that went by UDP alone. What a connection loses meanwhile it sends again,
//! and while the other side is silent ([`Frames::doubt`]) nothing goes this way to it. Queueing disciplines and captures of the interface see frames as they see datagrams.
//!
//! *Order.* What goes by two sockets keeps its order on an interface that queues nothing; further on it may not while queues are long. So for [`QUIET`]
//! after what is large nothing goes this way. Must not know: what is sent.

use super::netdev::mtu_if_direct;
use super::netlink::Questions;
use super::number::Sent;
use super::{guarded, last_errno, options, system};
use crate::Error;
use crate::host::ForkFd;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};

/// The most bytes of a call: beyond it UDP is as fast.
const MOST_BYTES: usize = 6 << 10;
/// More than this is gathered by those who want bandwidth, for whom pages are lent.
const LARGE: usize = 16 << 10;
/// How long a way is good, in milliseconds: what it costs to ask anew, some microseconds, is less than a part in ten thousand.
const GOOD: u64 = 100;
/// How long after large ones nothing goes this way: milliseconds, some ticks of the clock.
const QUIET: u64 = 12;
/// Datagrams that make a way worth asking for, and those by it that make it worth asking anew at once.
const WORTH: u32 = 64;
/// Milliseconds for which a destination in doubt is left alone, and the most that they come to by doubling.
const LATER: u64 = 1_000;
const MUCH_LATER: u64 = 1 << 16;
/// A destination that was silent again within so many times as long as it was left alone last is left alone for longer.
const CALM: u64 = 8;
/// Destinations of a socket.
const WAYS: usize = 16;
/// Destinations that are left alone.
const NONE: usize = 64;
/// How long it is good that there is no way, and what is known of an interface, in milliseconds: to ask for that takes a lock that all of the system's interfaces share.
const KNOWN: u64 = 10_000;

// linux/if_packet.h, linux/virtio_net.h, asm-generic/socket.h.
const PACKET_VNET_HDR: i32 = 15;
const SO_NETNS_COOKIE: i32 = 71;
const NEEDS_CSUM: u8 = 1;
const GSO_UDP_L4: u8 = 5;
/// struct virtio_net_hdr, Ethernet, IPv4, UDP.
const VNET: usize = 10;
const ETHERNET: usize = 14;
const IPV4: usize = 20;
const UDP: usize = 8;
const HEAD: usize = VNET + ETHERNET + IPV4 + UDP;
const IP_AT: usize = VNET + ETHERNET;
const UDP_AT: usize = IP_AT + IPV4;
const DONT_FRAGMENT: u16 = 0x4000;
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];

/// How a sending socket's datagrams look below their bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// Source address and port.
    pub from: SocketAddrV4,
    /// Type of service.
    pub tos: u8,
    /// Time to live; 0: the system's, which is not known here.
    pub hop_limit: u8,
}

/// The ways of one sending socket.
#[derive(Debug, Default)]
pub(super) struct Frames {
    state: RwLock<State>,
    /// Nothing goes this way any more.
    off: AtomicBool,
    /// Until when nothing does: milliseconds of the coarse clock.
    quiet_until: AtomicU64,
    /// Datagrams that could have gone this way and went by UDP since the last attempt.
    missed: AtomicU32,
}

#[derive(Debug, Default)]
struct State {
    socket: Option<ForkFd>,
    ways: Vec<Way>,
    /// Destinations to which there is no way, and until when none is looked for.
    none: Vec<(SocketAddrV4, u64)>,
    /// What is known of interfaces: the longest IP packet of those that frames may go by, and until when that is known.
    links: Vec<(u32, Option<u32>, u64)>,
    /// The kernel does not cut frames of UDP apart.
    no_batch: bool,
    /// Destinations that were in doubt, when last, and for how long they were left alone then.
    doubted: Vec<(SocketAddrV4, u64, u64)>,
}

#[derive(Debug)]
struct Way {
    to: SocketAddrV4,
    /// All headers; what depends on the length is 0.
    head: [u8; HEAD],
    /// Sums of what the checksums of IP and of UDP's pseudo header cover, without the length.
    ip_sum: u32,
    udp_sum: u32,
    ifindex: u32,
    mtu: usize,
    until: u64,
    /// What went by it.
    used: AtomicU32,
}

impl Frames {
    /// A datagram or batch of connections of this length could go this way: if not by [`Frames::send`], then [`Frames::missed`] hears of it.
    #[inline]
    pub fn is_for(&self, length: usize) -> bool {
        if self.off.load(Relaxed) {
            return false;
        }
        if length > LARGE {
            self.quiet_until.fetch_max(now() + QUIET, Relaxed);
        }
        length <= MOST_BYTES
    }

    /// Sends `bytes` cut into `segment`, if there is a good way to `to`. False if nothing was sent.
    #[inline]
    pub fn send(&self, to: SocketAddrV4, bytes: &[u8], segment: u16) -> bool {
        let Ok(state) = self.state.try_read() else {
            return false;
        };
        let (Some(way), Some(socket)) = (state.way(to), &state.socket) else {
            return false;
        };
        let time = now();
        if time >= way.until || time < self.quiet_until.load(Relaxed) {
            return false;
        }
        let segment = match usize::from(segment) {
            segment if segment != 0 && segment < bytes.len() => Some(segment),
            _ => None,
        };
        if segment.is_some() && state.no_batch {
            return false;
        }
        let longest = segment.unwrap_or(bytes.len());
        if longest + IPV4 + UDP > way.mtu {
            return false;
        }
        let head = way.head_of(bytes.len(), segment);
        match transmit(socket.get_or_closed(), way.ifindex, &head, bytes) {
            Ok(()) => {
                // a count that two threads lose between them is no matter
                way.used
                    .store(way.used.load(Relaxed).wrapping_add(1), Relaxed);
                true
            }
            // as by UDP, where it is told
            Err(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::EINTR) => false,
            Err(errno) => {
                drop(state);
                self.failed(to, errno, segment.is_some());
                false
            }
        }
    }

    /// A datagram of a connection that could have gone this way to `to` has gone by `udp`, without an error. Looks for a way, if it is time; `seen` sends an
    /// empty datagram there and says what the kernel made of it.
    #[inline]
    pub fn missed(
        &self,
        udp: BorrowedFd<'_>,
        look: impl FnOnce() -> Option<Look>,
        to: SocketAddrV4,
        seen: impl FnOnce() -> Option<Sent>,
    ) {
        // a count that two threads lose between them is no matter
        let missed = self.missed.load(Relaxed) + 1;
        self.missed.store(missed, Relaxed);
        let used = || {
            let state = self.state.try_read();
            state.is_ok_and(|state| {
                let way = state.way(to);
                way.is_some_and(|way| way.used.load(Relaxed) >= WORTH)
            })
        };
        if missed >= WORTH || used() {
            self.missed.store(0, Relaxed);
            self.look_for(udp, look, to, seen);
        }
    }

    #[cold]
    fn look_for(
        &self,
        udp: BorrowedFd<'_>,
        look: impl FnOnce() -> Option<Look>,
        to: SocketAddrV4,
        seen: impl FnOnce() -> Option<Sent>,
    ) {
        let time = now();
        if time < self.quiet_until.load(Relaxed) {
            return;
        }
        let Ok(mut state) = self.state.try_write() else {
            return;
        };
        state.none.retain(|(_, until)| time < *until);
        let known = |way: &Way| way.to == to && time < way.until;
        if state.none.len() == NONE
            || state.none.iter().any(|(at, _)| *at == to)
            || state.ways.iter().any(known)
        {
            return;
        }
        state.ways.retain(|way| time < way.until);
        if state.ways.len() == WAYS {
            return;
        }
        let way = state.prepare(udp).and_then(|()| {
            let (look, sent) = (look(), seen());
            let Some((look, sent)) = look.zip(sent) else {
                return Ok(None);
            };
            let mtu = state.mtu_of(sent.ifindex, time)?;
            Ok(mtu.and_then(|mtu| Way::new(&look, to, &sent, mtu, time + GOOD)))
        });
        match way {
            Ok(Some(way)) => state.ways.push(way),
            Ok(None) => state.leave(to, time + KNOWN),
            Err(error) => match error.errno() {
                libc::EPERM | libc::EACCES | libc::EAFNOSUPPORT | libc::ENOPROTOOPT => {
                    self.off.store(true, Relaxed);
                }
                libc::EXDEV => state.leave(to, time + MUCH_LATER),
                _ => state.leave(to, time + KNOWN),
            },
        }
    }

    /// `to` seems not to get what is sent: for a second nothing goes this way to it, and for twice as long if it was so a short time ago.
    #[cold]
    pub fn doubt(&self, to: SocketAddrV4) {
        self.doubt_at(to, now());
    }

    fn doubt_at(&self, to: SocketAddrV4, time: u64) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.way(to).is_none() {
            return;
        }
        state
            .doubted
            .retain(|(_, at, put_off)| time < at + CALM * put_off);
        let last = state.doubted.iter().position(|(at, ..)| *at == to);
        let last = last.map(|place| state.doubted.remove(place).2);
        let put_off = last.map_or(LATER, |last| (last * 2).min(MUCH_LATER));
        if state.doubted.len() < NONE {
            state.doubted.push((to, time, put_off));
        }
        state.leave(to, time + put_off);
    }

    /// Routes have changed: each way is asked for anew.
    #[cold]
    pub fn forget(&self) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.ways.clear();
        state.none.clear();
        state.links.clear();
    }

    /// The kernel cuts frames of UDP apart (Linux 6.2).
    #[cfg(test)]
    pub fn cuts(&self) -> bool {
        !self.state.read().unwrap().no_batch
    }

    #[cold]
    fn failed(&self, to: SocketAddrV4, errno: i32, batch: bool) {
        if errno == libc::EBADF {
            // a forked child, in which somebody may hold the lock for ever
            self.off.store(true, Relaxed);
            return;
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if batch && matches!(errno, libc::EINVAL | libc::EOPNOTSUPP) {
            state.no_batch = true;
            return;
        }
        state.leave(to, now() + KNOWN);
        // what is known of its interface is no longer so
        state.links.clear();
        if matches!(errno, libc::EPERM | libc::EACCES) {
            self.off.store(true, Relaxed);
        }
    }
}

impl State {
    #[inline]
    fn way(&self, to: SocketAddrV4) -> Option<&Way> {
        self.ways.iter().find(|way| way.to == to)
    }

    /// Nothing goes this way to `to` until then.
    fn leave(&mut self, to: SocketAddrV4, until: u64) {
        self.ways.retain(|way| way.to != to);
        if self.none.len() == NONE {
            self.none.remove(0);
        }
        self.none.push((to, until));
    }

    /// Opens the packet socket, if there is none.
    ///
    /// # Errors
    /// No permission, no packet sockets; a thread that is in another namespace than `udp` was made in.
    fn prepare(&mut self, udp: BorrowedFd<'_>) -> Result<(), Error> {
        if self.socket.is_some() {
            return Ok(());
        }
        let socket = packet_socket()?;
        let fd = socket.get_or_closed();
        if namespace(fd)? != namespace(udp)? {
            return Err(system("packet socket", libc::EXDEV));
        }
        // queueing disciplines class both alike
        let (priority, _) =
            options::get::<1>(udp, libc::SOL_SOCKET, libc::SO_PRIORITY, "SO_PRIORITY")?;
        let priority = priority[0] as i32;
        options::set(
            fd,
            libc::SOL_SOCKET,
            libc::SO_PRIORITY,
            priority,
            "SO_PRIORITY",
        )?;
        self.socket = Some(socket);
        Ok(())
    }

    /// The longest IP packet of an interface that frames may go by.
    ///
    /// # Errors
    /// The kernel cannot be asked; a thread that is in another namespace than the socket.
    fn mtu_of(&mut self, ifindex: u32, time: u64) -> Result<Option<usize>, Error> {
        self.links.retain(|(_, _, until)| time < *until);
        let known = self.links.iter().find(|(index, ..)| *index == ifindex);
        let mtu = match known {
            Some((_, mtu, _)) => *mtu,
            None => {
                let kernel = Questions::open()?;
                let socket = self.socket.as_ref();
                let here = socket.map(|socket| namespace(socket.get_or_closed()));
                if here.transpose()? != Some(namespace(kernel.as_fd())?) {
                    return Err(system("rtnetlink", libc::EXDEV));
                }
                let mtu = mtu_if_direct(&kernel, ifindex);
                self.links.push((ifindex, mtu, time + KNOWN));
                mtu
            }
        };
        Ok(mtu.map(|mtu| mtu as usize))
    }
}

impl Way {
    /// The way that the kernel sent an empty datagram, if it looked as it should.
    fn new(look: &Look, to: SocketAddrV4, sent: &Sent, mtu: usize, until: u64) -> Option<Way> {
        let mut head = [0; HEAD];
        let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &[NEEDS_CSUM]);
        // where the checksum of UDP begins and where it is put, from Ethernet on
        put(6, &((UDP_AT - VNET) as u16).to_ne_bytes());
        put(8, &6u16.to_ne_bytes());
        put(VNET, &sent.head[..ETHERNET - 2]);
        put(IP_AT - 2, &ETHERTYPE_IPV4);
        put(IP_AT, &[0x45, look.tos]);
        put(IP_AT + 6, &DONT_FRAGMENT.to_be_bytes());
        put(IP_AT + 8, &[look.hop_limit, libc::IPPROTO_UDP as u8]);
        put(IP_AT + 12, &look.from.ip().octets());
        put(IP_AT + 16, &to.ip().octets());
        put(UDP_AT, &look.from.port().to_be_bytes());
        put(UDP_AT + 2, &to.port().to_be_bytes());
        // but for lengths, sums and the identification; a group's address has the lowest bit of its first byte
        let same = |from: usize, to: usize| head[from..to] == sent.head[from - VNET..to - VNET];
        let alike = same(IP_AT - 2, IP_AT + 2)
            && same(IP_AT + 6, IP_AT + 10)
            && same(IP_AT + 12, UDP_AT + 4)
            && head[VNET] & 1 == 0;
        let words = |from: usize, to: usize| {
            let pairs = head[from..to].chunks_exact(2);
            pairs
                .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
                .sum::<u32>()
        };
        let udp_sum = words(IP_AT + 12, IP_AT + 20) + libc::IPPROTO_UDP as u32;
        alike.then(|| Way {
            ip_sum: words(IP_AT, UDP_AT),
            udp_sum,
            to,
            head,
            ifindex: sent.ifindex,
            mtu,
            until,
            used: AtomicU32::new(0),
        })
    }

    /// The headers of `length` bytes, to be cut into `segment` if that is given.
    #[inline]
    fn head_of(&self, length: usize, segment: Option<usize>) -> [u8; HEAD] {
        let mut head = self.head;
        let udp_bytes = (UDP + length) as u16;
        let ip_bytes = IPV4 as u16 + udp_bytes;
        if let Some(segment) = segment {
            head[1] = GSO_UDP_L4;
            head[2..4].copy_from_slice(&((HEAD - VNET) as u16).to_ne_bytes());
            head[4..6].copy_from_slice(&(segment as u16).to_ne_bytes());
        }
        head[IP_AT + 2..IP_AT + 4].copy_from_slice(&ip_bytes.to_be_bytes());
        let ip_check = !folded(self.ip_sum + u32::from(ip_bytes));
        head[IP_AT + 10..IP_AT + 12].copy_from_slice(&ip_check.to_be_bytes());
        head[UDP_AT + 4..UDP_AT + 6].copy_from_slice(&udp_bytes.to_be_bytes());
        // the rest of the sum is the interface's to make, or the other end's to do without
        let begun = folded(self.udp_sum + u32::from(udp_bytes));
        head[UDP_AT + 6..UDP_AT + 8].copy_from_slice(&begun.to_be_bytes());
        head
    }
}

/// A sum of 16-bit words with its carries.
#[inline]
fn folded(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

/// Milliseconds of a clock that costs little and moves by some of them.
#[inline]
fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// A number of the network namespace that a socket is in.
fn namespace(fd: BorrowedFd<'_>) -> Result<[u32; 2], Error> {
    let (cookie, words) =
        options::get::<2>(fd, libc::SOL_SOCKET, SO_NETNS_COOKIE, "SO_NETNS_COOKIE")?;
    match words {
        2 => Ok(cookie),
        _ => Err(system("SO_NETNS_COOKIE", libc::EOPNOTSUPP)),
    }
}

/// A socket that sends frames, with how to finish them before; it receives nothing.
fn packet_socket() -> Result<ForkFd, Error> {
    let socket = guarded(|| {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // protocol 0: nothing comes in
        rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)
            .map_err(|e| system("packet socket", e.raw_os_error()))
    })?;
    let fd = socket.get_or_closed();
    options::set(fd, libc::SOL_PACKET, PACKET_VNET_HDR, 1, "PACKET_VNET_HDR")?;
    Ok(socket)
}

fn transmit(
    socket: BorrowedFd<'_>,
    ifindex: u32,
    head: &[u8; HEAD],
    bytes: &[u8],
) -> Result<(), i32> {
    // SAFETY: all-zero is a value.
    let mut at: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    at.sll_family = libc::AF_PACKET as u16;
    at.sll_protocol = (libc::ETH_P_IP as u16).to_be();
    at.sll_ifindex = ifindex as i32;
    // the kernel only reads them
    let mut parts = [
        libc::iovec {
            iov_base: head.as_ptr().cast_mut().cast(),
            iov_len: HEAD,
        },
        libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        },
    ];
    // SAFETY: all-zero is a value: null pointers and lengths of 0.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = (&raw mut at).cast();
    message.msg_namelen = size_of_val(&at) as libc::socklen_t;
    message.msg_iov = (&raw mut parts).cast();
    message.msg_iovlen = parts.len();
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the message names an address and two parts of the lengths they say, which outlive the call.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) };
    if sent < 0 { Err(last_errno()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Look = Look {
        from: SocketAddrV4::new(std::net::Ipv4Addr::new(10, 9, 0, 1), 0xc123),
        tos: 0x6a,
        hop_limit: 64,
    };

    const TO: SocketAddrV4 = SocketAddrV4::new(std::net::Ipv4Addr::new(10, 9, 0, 2), 4791);

    /// What the kernel made of an empty datagram.
    fn sent() -> Sent {
        let mut head = [0; 42];
        head[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
        head[14..34].copy_from_slice(&[
            0x45, 0x6a, 0, 28, 0xbe, 0xef, 0x40, 0, 64, 17, 1, 2, 10, 9, 0, 1, 10, 9, 0, 2,
        ]);
        head[34..].copy_from_slice(&[0xc1, 0x23, 0x12, 0xb7, 0, 8, 3, 4]);
        Sent { head, ifindex: 7 }
    }

    fn way() -> Way {
        Way::new(&LOOK, TO, &sent(), 1500, u64::MAX).unwrap()
    }

    #[test]
    fn what_the_kernel_changed_on_its_way_out_is_no_way() {
        assert_eq!(way().head[VNET..IP_AT], sent().head[..14]);
        // another protocol than IPv4, options, another class, a fragment, another hop limit, ESP, other addresses and ports (NAT), a group's address
        for at in [12, 14, 15, 20, 22, 23, 26, 29, 30, 33, 34, 37, 0] {
            let mut other = sent();
            other.head[at] ^= 1;
            assert!(Way::new(&LOOK, TO, &other, 1500, 0).is_none(), "byte {at}");
        }
        // lengths, sums, numbers and neighbours are the datagram's own
        for at in [1, 11, 17, 18, 24, 39, 41] {
            let mut other = sent();
            other.head[at] ^= 1;
            assert!(Way::new(&LOOK, TO, &other, 1500, 0).is_some(), "byte {at}");
        }
    }

    /// The sum over bytes as RFC 1071 says it, in another way than above.
    fn sum(bytes: &[u8]) -> u16 {
        bytes.chunks(2).fold(0u16, |sum, pair| {
            let word = u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]);
            let (sum, carry) = sum.overflowing_add(word);
            sum + u16::from(carry)
        })
    }

    #[test]
    fn headers_have_the_lengths_and_sums_that_the_standards_want() {
        for length in [1usize, 8, 28, 1024, 1472, 16_000] {
            let head = way().head_of(length, None);
            let ip = &head[IP_AT..UDP_AT];
            assert_eq!(sum(ip), 0xffff, "RFC 791, {length}");
            assert_eq!(
                u16::from_be_bytes([ip[2], ip[3]]) as usize,
                28 + length,
                "total length"
            );
            assert_eq!((ip[1], ip[8], ip[9]), (0x6a, 64, 17));
            assert_eq!(&ip[4..8], [0, 0, 0x40, 0]);
            let udp = &head[UDP_AT..];
            assert_eq!(&udp[..4], [0xc1, 0x23, 0x12, 0xb7]);
            assert_eq!(u16::from_be_bytes([udp[4], udp[5]]) as usize, 8 + length);
            // RFC 768's pseudo header
            let mut pseudo = ip[12..].to_vec();
            pseudo.extend([0, 17]);
            pseudo.extend(((8 + length) as u16).to_be_bytes());
            assert_eq!(udp[6..8], sum(&pseudo).to_be_bytes());
            assert_eq!((head[0], head[1], &head[2..6]), (1, 0, &[0; 4][..]));
        }
        let cut = way().head_of(3000, Some(1068));
        assert_eq!(cut[1], GSO_UDP_L4);
        assert_eq!(u16::from_ne_bytes([cut[2], cut[3]]), 42);
        assert_eq!(u16::from_ne_bytes([cut[4], cut[5]]), 1068);
    }

    #[test]
    fn doubts_that_follow_soon_put_it_off_for_longer_and_another_destination_goes_on() {
        let frames = Frames::default();
        let other: SocketAddrV4 = "10.9.0.3:4791".parse().unwrap();
        let again = |time| {
            let mut state = frames.state.write().unwrap();
            state.ways = vec![way(), Way { to: other, ..way() }];
            drop(state);
            frames.doubt_at(TO, time);
            let state = frames.state.read().unwrap();
            assert!(state.way(TO).is_none() && state.way(other).is_some());
            let (to, until) = *state.none.last().unwrap();
            assert_eq!(to, TO);
            until - time
        };
        frames.doubt_at(TO, 5);
        assert!(
            frames.state.read().unwrap().none.is_empty(),
            "there was no way"
        );
        assert_eq!(again(10_000), LATER);
        assert_eq!(again(12_000), 2 * LATER);
        assert_eq!(again(20_000), 4 * LATER);
        // long after the last it is as the first
        assert_eq!(again(20_000 + CALM * 4 * LATER), LATER);
        let mut time = 100_000;
        for _ in 0..20 {
            time += again(time) + 1;
        }
        assert_eq!(again(time), MUCH_LATER);
        assert!(frames.state.read().unwrap().none.len() <= NONE);
    }

    #[test]
    fn large_ones_keep_others_from_it_for_a_moment() {
        let frames = Frames::default();
        assert!(frames.is_for(MOST_BYTES) && !frames.is_for(LARGE));
        assert_eq!(frames.quiet_until.load(Relaxed), 0);
        assert!(!frames.is_for(LARGE + 1));
        let until = frames.quiet_until.load(Relaxed);
        assert!((1..=now() + QUIET).contains(&until));
    }
}
