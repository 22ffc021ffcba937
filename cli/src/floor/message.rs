//! What a small message takes between two hosts by the kernel alone, in the ways in which MPIs use
//! it: the floors of `ferriband-dev bench --mpi --wire roce`.
//!
//! Owns: the measurements. Must not know: verbs, MPI. Both sides poll, each on a core of its own; 8 bytes by TCP, and by UDP as many as
//! the adapter's packet of such a message has.

use super::Floor;
use super::pair::{Placement, run_pair};
use crate::failure::Failure;
use crate::netns::{Host, TwoHosts};
use std::io::{self, Read, Write};
use std::mem::{self, MaybeUninit};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::{Duration, Instant};

/// What an MPI sends by TCP: the message alone, without any envelope.
const TCP_BYTES: usize = 8;
/// BTH, RETH, 48 bytes of envelope, message and trailer, ICRC.
const UDP_BYTES: usize = 12 + 16 + 48 + 4;
/// BTH, 1 KiB, ICRC: what the path MTU of a usual interface allows.
const SEGMENT: usize = 12 + 1024 + 4;
/// BTH, what is left of a message with its envelope, ICRC.
const LAST: usize = 12 + 24 + 4;
/// The longest message by UDP.
const LONGEST: usize = 4 * SEGMENT + LAST;
/// Round trips of a batch, and batches, of which the first is not counted.
const BATCH: u32 = 500;
const BATCHES: usize = 61;
/// Without an answer for so long a measurement has failed.
const PATIENCE: Duration = Duration::from_secs(2);

/// A way of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// `recv` of a UDP socket that knows its one peer.
    UdpConnected,
    /// UDP as RoCEv2 needs it: one socket for all peers, which says of each datagram where it comes from, where it was sent to, its TOS and TTL.
    UdpRoce,
    /// The same, sent by a socket that is connected.
    UdpRoceConnected,
    /// The same, received by one that is connected to the sender, too, and asked for the TOS and how runs are cut alone.
    UdpRoceFlow,
    /// The same, received by `recv`: nothing is asked for but bytes.
    UdpRocePlain,
    /// As [`Way::UdpRoceFlow`], so many packets in one call and as one run: a message of 1, 2, 4 KiB and its envelope.
    UdpRoceRun(usize),
    /// `recv` of a TCP connection.
    Tcp,
    /// `epoll_wait` first, as MPIs do that have many connections.
    TcpEpoll,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 10] = [
        Way::UdpConnected,
        Way::UdpRoce,
        Way::UdpRoceConnected,
        Way::UdpRoceFlow,
        Way::UdpRocePlain,
        Way::UdpRoceRun(2),
        Way::UdpRoceRun(3),
        Way::UdpRoceRun(5),
        Way::Tcp,
        Way::TcpEpoll,
    ];

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Way::UdpConnected => "UDP, connected, recv",
            Way::UdpRoce => "UDP as RoCEv2 needs it",
            Way::UdpRoceConnected => "UDP as RoCEv2 needs it, from a connected socket",
            Way::UdpRoceFlow => "UDP as RoCEv2 needs it, both sockets connected",
            Way::UdpRocePlain => "UDP as RoCEv2 needs it, both sockets connected, recv",
            Way::UdpRoceRun(2) => "the same for 1 KiB, a run of 2 packets",
            Way::UdpRoceRun(3) => "the same for 2 KiB, a run of 3 packets",
            Way::UdpRoceRun(_) => "the same for 4 KiB, a run of 5 packets",
            Way::Tcp => "TCP, recv",
            Way::TcpEpoll => "TCP, epoll_wait and recv",
        }
    }

    /// Bytes of a message by UDP.
    fn udp_bytes(self) -> usize {
        match self {
            Way::UdpRoceRun(packets) => (packets - 1) * SEGMENT + LAST,
            _ => UDP_BYTES,
        }
    }
}

/// What the kernel says of a datagram.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Nothing,
    /// TOS, and how a run is cut.
    Little,
    /// Who sent it, where to, TTL as well.
    All,
}

/// One side's sockets.
enum End {
    Udp {
        from: UdpSocket,
        at: UdpSocket,
        to: SocketAddr,
        connected: bool,
        told: Told,
        bytes: usize,
    },
    Tcp {
        stream: TcpStream,
        epoll: Option<OwnedFd>,
    },
}

/// Nanoseconds one way, the median of sixty batches. None if nothing can be measured: on one core, or without an answer.
///
/// # Errors
/// Sockets cannot be opened.
pub fn measure(hosts: &TwoHosts, way: Way) -> Result<Floor, Failure> {
    if super::Affinity::save()?.processors().len() < 2 {
        return Ok(None);
    }
    let ends = match way {
        Way::Tcp | Way::TcpEpoll => tcp(hosts, way == Way::TcpEpoll),
        _ => udp(hosts, way),
    };
    // this process goes on as the first host
    let back = hosts.first.enter();
    let (mut here, mut there) = ends
        .and_then(|ends| back.map(|()| ends))
        .map_err(|error| Failure::io("open", "sockets between the two hosts", &error))?;
    run_pair(
        Placement::TwoCores,
        |_| (0..BATCHES).all(|_| (0..BATCH).all(|_| there.take() && there.give())),
        |_| {
            let batches = (0..BATCHES).map(|_| {
                let begun = Instant::now();
                let answered = (0..BATCH).all(|_| here.give() && here.take());
                answered.then(|| begun.elapsed().as_nanos() as f64 / f64::from(BATCH) / 2.0)
            });
            let batches: Option<Vec<f64>> = batches.collect();
            super::median(batches?.split_off(1))
        },
    )
}

fn tcp(hosts: &TwoHosts, epoll: bool) -> io::Result<(End, End)> {
    hosts.second.enter()?;
    let listener = TcpListener::bind((hosts.second.address, 0))?;
    hosts.first.enter()?;
    let here = TcpStream::connect(listener.local_addr()?)?;
    let (there, _) = listener.accept()?;
    let end = |stream: TcpStream| {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let epoll = epoll.then(|| watch(&stream)).transpose()?;
        io::Result::Ok(End::Tcp { stream, epoll })
    };
    Ok((end(here)?, end(there)?))
}

/// An epoll that watches a stream.
fn watch(stream: &TcpStream) -> io::Result<OwnedFd> {
    // SAFETY: no precondition.
    let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, nobody else's.
    let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: 0,
    };
    // SAFETY: both descriptors are open, and the event lives through the call.
    let added = unsafe { libc::epoll_ctl(fd, libc::EPOLL_CTL_ADD, stream.as_raw_fd(), &mut event) };
    match added {
        0 => Ok(epoll),
        _ => Err(io::Error::last_os_error()),
    }
}

fn udp(hosts: &TwoHosts, way: Way) -> io::Result<(End, End)> {
    let told = match way {
        Way::UdpConnected | Way::UdpRocePlain => Told::Nothing,
        Way::UdpRoceFlow | Way::UdpRoceRun(_) => Told::Little,
        _ => Told::All,
    };
    let open = |host: &Host| -> io::Result<_> {
        host.enter()?;
        let at = UdpSocket::bind((host.address, 0))?;
        at.set_nonblocking(true)?;
        if told == Told::All {
            for option in [libc::IP_PKTINFO, libc::IP_RECVTTL] {
                super::udp::set(&at, libc::IPPROTO_IP, option, 1)?;
            }
        }
        if told != Told::Nothing {
            super::udp::set(&at, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
            super::udp::set(&at, libc::SOL_UDP, libc::UDP_GRO, 1)?;
        }
        let from = UdpSocket::bind((host.address, 0))?;
        super::udp::set(
            &from,
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            libc::IP_PMTUDISC_PROBE,
        )?;
        if let Way::UdpRoceRun(_) = way {
            let segment = SEGMENT as libc::c_int;
            super::udp::set(&from, libc::SOL_UDP, libc::UDP_SEGMENT, segment)?;
        }
        Ok((from, at))
    };
    let (there_from, there_at) = open(&hosts.second)?;
    let (here_from, here_at) = open(&hosts.first)?;
    let connected = way != Way::UdpRoce;
    let end = |from: UdpSocket, at: UdpSocket, peer: (&UdpSocket, &UdpSocket)| {
        let to = peer.1.local_addr()?;
        if connected {
            from.connect(to)?;
        }
        if told != Told::All {
            at.connect(peer.0.local_addr()?)?;
        }
        io::Result::Ok(End::Udp {
            from,
            at,
            to,
            connected,
            told,
            bytes: way.udp_bytes(),
        })
    };
    let (here, there) = (
        (here_from.try_clone()?, here_at.try_clone()?),
        (there_from.try_clone()?, there_at.try_clone()?),
    );
    Ok((
        end(here.0, here.1, (&there_from, &there_at))?,
        end(there.0, there.1, (&here_from, &here_at))?,
    ))
}

impl End {
    /// Sends a message.
    fn give(&mut self) -> bool {
        match self {
            End::Udp {
                from,
                to,
                connected,
                bytes,
                ..
            } => {
                let message = &[1; LONGEST][..*bytes];
                let sent = match connected {
                    true => from.send(message),
                    false => from.send_to(message, *to),
                };
                sent.is_ok()
            }
            End::Tcp { stream, .. } => stream.write_all(&[1; TCP_BYTES]).is_ok(),
        }
    }

    /// Waits for a message.
    fn take(&mut self) -> bool {
        let (mut got, mut misses, mut since) = (0, 0_u32, None);
        loop {
            let (now, wanted) = match self {
                End::Udp {
                    at, told, bytes, ..
                } if *told != Told::Nothing => (receive_told(at, *told == Told::All), *bytes),
                End::Udp { at, bytes, .. } => (plain(at), *bytes),
                End::Tcp { stream, epoll } => {
                    let ready = epoll.as_ref().is_none_or(is_ready);
                    let bytes = || stream.read(&mut [0; 2048]).ok();
                    (ready.then(bytes).flatten(), TCP_BYTES)
                }
            };
            got += now.unwrap_or(0);
            if got >= wanted {
                return true;
            }
            misses += 1;
            if misses.is_multiple_of(1 << 14)
                && since.get_or_insert_with(Instant::now).elapsed() > PATIENCE
            {
                return false;
            }
        }
    }
}

/// Receives a datagram's bytes.
fn plain(at: &UdpSocket) -> Option<usize> {
    at.recv(&mut [0; 2048]).ok()
}

fn is_ready(epoll: &OwnedFd) -> bool {
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    // SAFETY: room for one event, which lives through the call.
    unsafe { libc::epoll_wait(epoll.as_raw_fd(), &mut event, 1, 0) > 0 }
}

/// Receives a datagram with all that the kernel says of it, and who sent it if that is asked for.
fn receive_told(at: &UdpSocket, sender: bool) -> Option<usize> {
    let mut bytes = [MaybeUninit::<u8>::uninit(); LONGEST];
    let mut control = [0_u64; 32];
    // SAFETY: all-zero is a value: the family AF_UNSPEC.
    let mut name: libc::sockaddr_storage = unsafe { mem::zeroed() };
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: all-zero is a value: null pointers and lengths of 0.
    let mut head: libc::msghdr = unsafe { mem::zeroed() };
    if sender {
        head.msg_name = ptr::from_mut(&mut name).cast();
        head.msg_namelen = mem::size_of_val(&name) as libc::socklen_t;
    }
    head.msg_iov = &mut part;
    head.msg_iovlen = 1;
    head.msg_control = control.as_mut_ptr().cast();
    head.msg_controllen = mem::size_of_val(&control) as _;
    // SAFETY: head points to a name, one part and control space of the lengths it says, which outlive the call.
    let got = unsafe { libc::recvmsg(at.as_raw_fd(), &mut head, libc::MSG_DONTWAIT) };
    usize::try_from(got).ok()
}
