//! Small datagrams of connections as whole Ethernet frames: by a packet socket, past the kernel's UDP and IP layers.
//!
//! Owns: the packet socket, the headers of the frames, and how long a way is good. It saves a fifth of a small message's time between two hosts
//! whose interfaces queue nothing (two ends of a veth: a container, a network namespace), and more for a run of packets. It takes CAP_NET_RAW,
//! which root of a namespace and most containers have; without it all is as before.
//!
//! *What the kernel knows stays true.* A way is good for [`GOOD`] at most, then a datagram goes by UDP, which asks the firewall for what leaves, keeps the
//! neighbour's entry alive and tells errors; only once that has gone, the route, the neighbour and the interface are asked for anew ([`hop`]). So
//! a rule, a route or an address that changes is followed within that time. What a connection loses meanwhile it sends again, and while the
//! other side is silent ([`Frames::doubt`]) nothing goes this way. Queueing disciplines and captures of the interface see frames as they see datagrams.
//!
//! *Order.* What goes by two sockets keeps its order on an interface that queues nothing; further on it may not while queues are long. So for [`QUIET`]
//! after what is too large to go this way, nothing else does. Must not know: what is sent.

use super::hop::{self, Hop};
use super::netlink::Questions;
use super::{guarded, last_errno, options, system};
use crate::Error;
use crate::host::ForkFd;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};

/// The most bytes of a call: more is gathered by those who want bandwidth, for whom pages are lent.
const MOST_BYTES: usize = 16 << 10;
/// How long a way is good, in milliseconds: what it costs to ask anew, some 10 us, is a part in ten thousand.
const GOOD: u64 = 100;
/// How long after large ones nothing goes this way: milliseconds, some ticks of the clock.
const QUIET: u64 = 12;
/// Datagrams that make a way worth asking for, and those by it that make it worth asking anew at once.
const WORTH: u32 = 64;
/// Milliseconds until the next attempt after one that led to nothing, and the most that they come to by doubling after doubts.
const LATER: u64 = 1_000;
const MUCH_LATER: u64 = 1 << 16;
/// Destinations of a socket.
const WAYS: usize = 16;

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
    /// The packet socket, bound to an interface.
    socket: Option<(ForkFd, u32)>,
    ways: Vec<Way>,
    /// The kernel does not cut frames of UDP apart.
    no_batch: bool,
    /// How long the last doubt put it off; 0: there was none.
    doubted: u64,
}

#[derive(Debug)]
struct Way {
    to: SocketAddrV4,
    /// All headers; what depends on the length is 0.
    head: [u8; HEAD],
    /// Sums of what the checksums of IP and of UDP's pseudo header cover, without the length.
    ip_sum: u32,
    udp_sum: u32,
    hop: Hop,
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
        if length > MOST_BYTES {
            self.quiet_until.fetch_max(now() + QUIET, Relaxed);
            return false;
        }
        true
    }

    /// Sends `bytes` cut into `segment`, if there is a good way to `to`. False if nothing was sent.
    #[inline]
    pub fn send(&self, to: SocketAddrV4, bytes: &[u8], segment: u16) -> bool {
        let Ok(state) = self.state.try_read() else {
            return false;
        };
        let Some((way, socket)) = state.way(to) else {
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
        if longest + IPV4 + UDP > way.hop.mtu as usize {
            return false;
        }
        let head = way.head_of(bytes.len(), segment);
        match transmit(socket, &head, bytes) {
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

    /// A datagram of a connection that could have gone this way has gone by `udp`, without an error. Looks for a way, if it is time.
    #[inline]
    pub fn missed(
        &self,
        udp: BorrowedFd<'_>,
        look: impl FnOnce() -> Option<Look>,
        to: SocketAddrV4,
    ) {
        // a count that two threads lose between them is no matter
        let missed = self.missed.load(Relaxed) + 1;
        self.missed.store(missed, Relaxed);
        let known = || {
            let state = self.state.try_read();
            state.is_ok_and(|state| {
                let used = |way: &Way| way.to == to && way.used.load(Relaxed) >= WORTH;
                state.ways.iter().any(used)
            })
        };
        if missed >= WORTH || known() {
            self.look_for(udp, look, to);
        }
    }

    #[cold]
    fn look_for(&self, udp: BorrowedFd<'_>, look: impl FnOnce() -> Option<Look>, to: SocketAddrV4) {
        let time = now();
        if time < self.quiet_until.load(Relaxed) {
            return;
        }
        self.missed.store(0, Relaxed);
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let Some(look) = look().filter(|look| look.hop_limit != 0) else {
            self.off.store(true, Relaxed);
            return;
        };
        state.ways.retain(|way| way.to != to);
        match state.prepare(udp, &look, to) {
            Ok(Some(hop)) => {
                if state.ways.len() == WAYS {
                    state.ways.remove(0);
                }
                state.doubted /= 2;
                state.ways.push(Way::new(&look, to, hop, time + GOOD));
            }
            Ok(None) => {
                self.quiet_until.fetch_max(time + LATER, Relaxed);
            }
            Err(_) => self.off.store(true, Relaxed),
        }
    }

    /// A peer seems not to get what is sent: for a second nothing goes this way, and each time for twice as long.
    #[cold]
    pub fn doubt(&self) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.ways.is_empty() {
            return;
        }
        state.ways.clear();
        state.doubted = (state.doubted * 2).clamp(LATER, MUCH_LATER);
        self.quiet_until.fetch_max(now() + state.doubted, Relaxed);
    }

    #[cold]
    fn failed(&self, to: SocketAddrV4, errno: i32, batch: bool) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if batch && matches!(errno, libc::EINVAL | libc::EOPNOTSUPP) {
            state.no_batch = true;
            return;
        }
        state.ways.retain(|way| way.to != to);
        if matches!(errno, libc::EBADF | libc::EPERM | libc::EACCES) {
            self.off.store(true, Relaxed);
        }
    }
}

impl State {
    #[inline]
    fn way(&self, to: SocketAddrV4) -> Option<(&Way, BorrowedFd<'_>)> {
        let way = self.ways.iter().find(|way| way.to == to)?;
        let (socket, ifindex) = self.socket.as_ref()?;
        (*ifindex == way.hop.ifindex).then(|| (way, socket.get_or_closed()))
    }

    /// The next hop to `to`, with a packet socket at its interface. None if there is none at present.
    ///
    /// # Errors
    /// There will not be one: no permission, no packet sockets, another namespace than that of `udp`.
    fn prepare(
        &mut self,
        udp: BorrowedFd<'_>,
        look: &Look,
        to: SocketAddrV4,
    ) -> Result<Option<Hop>, Error> {
        let here = namespace(udp)?;
        let kernel = Questions::open()?;
        if namespace(kernel.as_fd())? != here {
            return Err(system("packet socket: another namespace", libc::EXDEV));
        }
        let Some(hop) = hop::next_hop(&kernel, look.from, to, look.tos) else {
            return Ok(None);
        };
        if self
            .socket
            .as_ref()
            .is_none_or(|(_, at)| *at != hop.ifindex)
        {
            self.socket = None;
            let socket = packet_socket(hop.ifindex)?;
            if namespace(socket.get_or_closed())? != here {
                return Err(system("packet socket: another namespace", libc::EXDEV));
            }
            // queueing disciplines class both alike
            let (priority, _) =
                options::get::<1>(udp, libc::SOL_SOCKET, libc::SO_PRIORITY, "SO_PRIORITY")?;
            options::set(
                socket.get_or_closed(),
                libc::SOL_SOCKET,
                libc::SO_PRIORITY,
                priority[0] as i32,
                "SO_PRIORITY",
            )?;
            self.ways.clear();
            self.socket = Some((socket, hop.ifindex));
        }
        Ok(Some(hop))
    }
}

impl Way {
    fn new(look: &Look, to: SocketAddrV4, hop: Hop, until: u64) -> Way {
        let mut head = [0; HEAD];
        let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &[NEEDS_CSUM]);
        put(VNET, &hop.next);
        put(VNET + 6, &hop.own);
        put(VNET + 12, &[0x08, 0x00]);
        put(IP_AT, &[0x45, look.tos]);
        put(IP_AT + 6, &DONT_FRAGMENT.to_be_bytes());
        put(IP_AT + 8, &[look.hop_limit, libc::IPPROTO_UDP as u8]);
        put(IP_AT + 12, &look.from.ip().octets());
        put(IP_AT + 16, &to.ip().octets());
        put(UDP_AT, &look.from.port().to_be_bytes());
        put(UDP_AT + 2, &to.port().to_be_bytes());
        // where the checksum of UDP begins and where it is put, from Ethernet on
        put(6, &((UDP_AT - VNET) as u16).to_ne_bytes());
        put(8, &6u16.to_ne_bytes());
        let words = |from: usize, to: usize| {
            let pairs = head[from..to].chunks_exact(2);
            pairs
                .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
                .sum::<u32>()
        };
        let udp_sum = words(IP_AT + 12, IP_AT + 20) + libc::IPPROTO_UDP as u32;
        Way {
            ip_sum: words(IP_AT, UDP_AT),
            udp_sum,
            to,
            head,
            hop,
            until,
            used: AtomicU32::new(0),
        }
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

/// A socket that sends frames by an interface, with how to finish them before; it receives nothing.
fn packet_socket(ifindex: u32) -> Result<ForkFd, Error> {
    let socket = guarded(|| {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // protocol 0: nothing comes in
        rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)
            .map_err(|e| system("packet socket", e.raw_os_error()))
    })?;
    let fd = socket.get_or_closed();
    options::set(fd, libc::SOL_PACKET, PACKET_VNET_HDR, 1, "PACKET_VNET_HDR")?;
    // SAFETY: all-zero is a value.
    let mut at: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    at.sll_family = libc::AF_PACKET as u16;
    at.sll_ifindex = ifindex as i32;
    let length = size_of_val(&at) as libc::socklen_t;
    // SAFETY: the address is ours and as long as `length` says.
    if unsafe { libc::bind(fd.as_raw_fd(), (&raw const at).cast(), length) } != 0 {
        return Err(system("bind of a packet socket", last_errno()));
    }
    Ok(socket)
}

fn transmit(socket: BorrowedFd<'_>, head: &[u8; HEAD], bytes: &[u8]) -> Result<(), i32> {
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
    message.msg_iov = (&raw mut parts).cast();
    message.msg_iovlen = parts.len();
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the message names two parts of the lengths they say, which outlive the call.
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

    fn way() -> Way {
        let hop = Hop {
            ifindex: 7,
            own: [2, 0, 0, 0, 0, 1],
            next: [2, 0, 0, 0, 0, 2],
            mtu: 1500,
        };
        Way::new(&LOOK, "10.9.0.2:4791".parse().unwrap(), hop, 0)
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
    fn doubts_put_it_off_for_longer_each_time_and_large_ones_for_a_moment() {
        let frames = Frames::default();
        frames.doubt();
        assert_eq!(frames.quiet_until.load(Relaxed), 0, "nothing went this way");
        let mut before = 0;
        for expected in [1_000, 2_000, 4_000, 8_000] {
            frames.state.write().unwrap().ways.push(way());
            frames.doubt();
            let state = frames.state.read().unwrap();
            assert!(state.ways.is_empty());
            assert_eq!(state.doubted, expected);
            drop(state);
            let until = frames.quiet_until.load(Relaxed);
            assert!(until > before);
            before = until;
        }
        let frames = Frames::default();
        assert!(frames.is_for(MOST_BYTES) && !frames.is_for(MOST_BYTES + 1));
        let until = frames.quiet_until.load(Relaxed);
        assert!((1..=now() + QUIET).contains(&until));
    }
}
