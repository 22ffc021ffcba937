//! The floors of the wire between hosts: what plain UDP does over the same veth pair, with no transport on top. The denominators of
//! `ferriband demo --wire roce`.
//!
//! Owns: the measurements and their medians. Must not know: verbs. Datagrams are as long as the adapter's packets of the same
//! message, headers included; rates count every byte of them, so that the floor is rather too high than too low.

use super::pair::{Affinity, Mapping, Placement, run_pair};
use super::{bytes_per_second, median};
use crate::failure::Failure;
use crate::netns::{Host, TwoHosts};
use crate::progress::Progress;
use crate::text::{Table, bandwidth, duration};
use ferriband_wire::{RoceHeaders, RoceIp, RunIcrc};
use serde::Serialize;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use std::{io, mem, ptr};

/// BTH, 8 bytes, ICRC.
const SMALL: usize = 24;
/// BTH, DETH, 1 KiB, ICRC.
const DATAGRAM: usize = 12 + 8 + 1024 + 4;
/// BTH, 1 KiB, ICRC: what the path MTU of a usual interface allows.
const SEGMENT: usize = 12 + 1024 + 4;
const ICRC_BYTES: usize = 4;
/// Packets of a 4 KiB message.
const PAGE_SEGMENTS: usize = 4;
/// Packets of one call with segmentation: the kernel takes 64, and 64 KiB.
const BATCH_SEGMENTS: usize = 62;
/// Messages of one call without.
const MANY: usize = 64;
/// Bytes that sockets may hold, if the system allows it.
const BUFFER_BYTES: libc::c_int = 4 << 20;
/// A datagram may be lost: without an answer for so long a measurement has failed.
const PATIENCE: Duration = Duration::from_secs(2);

/// Every floor, each the median of several rounds; latencies are nanoseconds one way.
#[derive(Debug, Clone, Default, Serialize)]
pub struct UdpFloors {
    /// Rounds of which each figure is the median.
    pub rounds: usize,
    /// 24 bytes, both sides poll.
    pub small_ns: Option<f64>,
    /// 24 bytes, both sides sleep.
    pub small_asleep_ns: Option<f64>,
    /// 1048 bytes, both sides poll.
    pub datagram_ns: Option<f64>,
    /// 1048 bytes, both sides sleep.
    pub datagram_asleep_ns: Option<f64>,
    /// 4 datagrams of 1040 bytes in one call, both sides poll.
    pub page_ns: Option<f64>,
    /// The same, both sides sleep.
    pub page_asleep_ns: Option<f64>,
    /// Bytes per second of a stream that arrives, 62 datagrams of 1040 bytes in one call (GSO and GRO).
    pub stream: Option<f64>,
    /// The same with sendmmsg and recvmmsg.
    pub stream_without_gso: Option<f64>,
    /// Datagrams of 24 bytes per second, 62 in one call.
    pub messages: Option<f64>,
}

#[derive(Clone, Copy)]
enum What {
    PingPong {
        segment: usize,
        count: usize,
        polls: bool,
    },
    Stream {
        segment: usize,
        gso: bool,
    },
}

#[derive(Clone, Copy)]
enum Unit {
    Nanoseconds,
    Bytes,
    Messages,
}

type Entry = (
    &'static str,
    What,
    Unit,
    fn(&mut UdpFloors) -> &mut Option<f64>,
);

const fn ping_pong(segment: usize, count: usize, polls: bool) -> What {
    What::PingPong {
        segment,
        count,
        polls,
    }
}

const ENTRIES: [Entry; 9] = [
    (
        "UDP 24 B, polled, one way",
        ping_pong(SMALL, 1, true),
        Unit::Nanoseconds,
        |f| &mut f.small_ns,
    ),
    (
        "UDP 24 B, asleep, one way",
        ping_pong(SMALL, 1, false),
        Unit::Nanoseconds,
        |f| &mut f.small_asleep_ns,
    ),
    (
        "UDP 1048 B, polled, one way",
        ping_pong(DATAGRAM, 1, true),
        Unit::Nanoseconds,
        |f| &mut f.datagram_ns,
    ),
    (
        "UDP 1048 B, asleep, one way",
        ping_pong(DATAGRAM, 1, false),
        Unit::Nanoseconds,
        |f| &mut f.datagram_asleep_ns,
    ),
    (
        "UDP 4 x 1040 B, polled, one way",
        ping_pong(SEGMENT, PAGE_SEGMENTS, true),
        Unit::Nanoseconds,
        |f| &mut f.page_ns,
    ),
    (
        "UDP 4 x 1040 B, asleep, one way",
        ping_pong(SEGMENT, PAGE_SEGMENTS, false),
        Unit::Nanoseconds,
        |f| &mut f.page_asleep_ns,
    ),
    (
        "UDP 1040 B in a stream, GSO and GRO",
        What::Stream {
            segment: SEGMENT,
            gso: true,
        },
        Unit::Bytes,
        |f| &mut f.stream,
    ),
    (
        "UDP 1040 B in a stream, sendmmsg",
        What::Stream {
            segment: SEGMENT,
            gso: false,
        },
        Unit::Bytes,
        |f| &mut f.stream_without_gso,
    ),
    (
        "UDP 24 B in a stream, GSO and GRO",
        What::Stream {
            segment: SMALL,
            gso: true,
        },
        Unit::Messages,
        |f| &mut f.messages,
    ),
];

/// How much of a floor is measured.
#[derive(Clone, Copy)]
struct Length {
    /// Round trips while both sides poll.
    polled: u32,
    /// The same while both sides sleep.
    asleep: u32,
    stream: Duration,
}

const SHORT: Length = Length {
    polled: 20_000,
    asleep: 3_000,
    stream: Duration::from_millis(150),
};

/// Twice that is about as long as a program of perftest takes that is compared with it.
const LONG: Length = Length {
    polled: 60_000,
    asleep: 10_000,
    stream: Duration::from_millis(500),
};

/// A floor of [`measure_at_length`]: its place among [`ENTRIES`].
#[derive(Clone, Copy)]
pub enum AtLength {
    /// [`UdpFloors::small_ns`].
    Small = 0,
    /// [`UdpFloors::stream`].
    Stream = 6,
    /// [`UdpFloors::stream_without_gso`].
    StreamWithoutGso = 7,
}

/// How many steps [`measure`] reports.
pub fn steps(rounds: usize) -> u64 {
    (ENTRIES.len() * rounds.max(1)) as u64
}

/// Measures every floor `rounds` times between two hosts, interleaved.
pub fn measure(hosts: &TwoHosts, rounds: usize, progress: &Progress) -> Result<UdpFloors, Failure> {
    let rounds = rounds.max(1);
    let cores = Affinity::save()?.processors().len();
    let mut samples = vec![Vec::with_capacity(rounds); ENTRIES.len()];
    for round in 0..rounds {
        for ((name, what, ..), samples) in ENTRIES.iter().zip(&mut samples) {
            progress.step(&format!("floor {}/{rounds}: {name}", round + 1));
            samples.extend(sample(hosts, *what, cores, SHORT)?);
        }
    }
    Ok(gather(rounds, samples))
}

/// Measures one floor once, about as long as a program takes that is compared with it. Where neighbours take a machine's caches and cores for fractions
/// of a second, a short look and a long run see different machines.
pub fn measure_at_length(hosts: &TwoHosts, which: AtLength) -> Result<Option<f64>, Failure> {
    let cores = Affinity::save()?.processors().len();
    let (_, what, ..) = ENTRIES[which as usize];
    sample(hosts, what, cores, LONG)
}

/// Bytes per second of a stream of runs whose packets have their ICRCs made at one end and checked at the other, as the adapter makes and checks them.
pub fn stream_with_icrc(hosts: &TwoHosts) -> Result<Option<f64>, Failure> {
    Affinity::save()?;
    stream_rate(hosts, SEGMENT, Carries::SealedRuns, LONG.stream)
}

/// How a stream goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Carries {
    /// Many datagrams with one call.
    Datagrams,
    /// Runs that the kernel cuts.
    Runs,
    /// The same, with ICRCs.
    SealedRuns,
}

/// Measures one floor. None if it cannot be measured here.
fn sample(
    hosts: &TwoHosts,
    what: What,
    cores: usize,
    length: Length,
) -> Result<Option<f64>, Failure> {
    match what {
        What::PingPong { polls: true, .. } if cores < 2 => Ok(None),
        What::PingPong {
            segment,
            count,
            polls,
        } => ping_pong_ns(hosts, segment, count, polls, length),
        What::Stream { segment, gso } => {
            let carries = if gso {
                Carries::Runs
            } else {
                Carries::Datagrams
            };
            stream_rate(hosts, segment, carries, length.stream)
        }
    }
}

/// The medians, each in its field.
fn gather(rounds: usize, samples: Vec<Vec<f64>>) -> UdpFloors {
    let mut floors = UdpFloors {
        rounds,
        ..UdpFloors::default()
    };
    for ((_, what, unit, pick), samples) in ENTRIES.iter().zip(samples) {
        let value = median(samples);
        *pick(&mut floors) = match (unit, what) {
            (Unit::Messages, What::Stream { segment, .. }) => {
                value.map(|bytes| bytes / *segment as f64)
            }
            _ => value,
        };
    }
    floors
}

/// The table that people read.
pub fn table(floors: &UdpFloors) -> Table {
    let mut floors = floors.clone();
    let mut table = Table::new(["floor of this wire", "figure"]).right_align(&[1]);
    for (name, _, unit, pick) in &ENTRIES {
        let figure = match (*pick(&mut floors), unit) {
            (None, _) => "not possible here".to_owned(),
            (Some(ns), Unit::Nanoseconds) => duration(ns),
            (Some(rate), Unit::Bytes) => bandwidth(rate),
            (Some(rate), Unit::Messages) => format!("{:.2} M/s", rate / 1e6),
        };
        table.row([(*name).to_owned(), figure]);
    }
    table
}

/// Two sockets that are connected to one another.
fn sockets(hosts: &TwoHosts) -> Result<(UdpSocket, UdpSocket), Failure> {
    let open = |host: &Host| -> io::Result<_> {
        host.enter()?;
        let socket = UdpSocket::bind((host.address, 0))?;
        set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, BUFFER_BYTES)?;
        set(&socket, libc::SOL_SOCKET, libc::SO_SNDBUF, BUFFER_BYTES)?;
        Ok((socket.local_addr()?, socket))
    };
    let join = || -> io::Result<_> {
        let (far, there) = open(&hosts.second)?;
        let (near, here) = open(&hosts.first)?;
        here.connect(far)?;
        there.connect(near)?;
        here.set_read_timeout(Some(PATIENCE))?;
        there.set_read_timeout(Some(PATIENCE))?;
        Ok((here, there))
    };
    join().map_err(|error| Failure::io("open", "UDP sockets between the two hosts", &error))
}

/// Sets an option that is an int.
pub(super) fn set(
    socket: &UdpSocket,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the value is an int that lives through the call, and its length is given.
    let rc = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            ptr::from_ref(&value).cast(),
            mem::size_of_val(&value) as libc::socklen_t,
        )
    };
    match rc {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Cut what is sent into datagrams of `segment` bytes, and take many at once.
fn segment(socket: &UdpSocket, segment: usize) -> Result<(), Failure> {
    set(
        socket,
        libc::SOL_UDP,
        libc::UDP_SEGMENT,
        segment as libc::c_int,
    )
    .and_then(|()| set(socket, libc::SOL_UDP, libc::UDP_GRO, 1))
    .map_err(|error| Failure::io("use", "UDP segmentation offload", &error))
}

fn ping_pong_ns(
    hosts: &TwoHosts,
    segment_bytes: usize,
    count: usize,
    polls: bool,
    length: Length,
) -> Result<Option<f64>, Failure> {
    const WARM_UP: u32 = 200;
    let rounds = if polls { length.polled } else { length.asleep };
    let (here, there) = sockets(hosts)?;
    if count > 1 {
        segment(&here, segment_bytes)?;
        segment(&there, segment_bytes)?;
    }
    let length = segment_bytes * count;
    let placement = if polls {
        Placement::TwoCores
    } else {
        Placement::Anywhere
    };
    let (mut buffer, mut other) = (vec![1u8; 65_536], vec![2u8; 65_536]);
    run_pair(
        placement,
        |_| {
            (0..rounds + WARM_UP).all(|_| {
                take(&there, &mut other, length, polls) && there.send(&other[..length]).is_ok()
            })
        },
        |_| {
            let mut begun = Instant::now();
            for round in 0..rounds + WARM_UP {
                if round == WARM_UP {
                    begun = Instant::now();
                }
                let answered =
                    here.send(&buffer[..length]).is_ok() && take(&here, &mut buffer, length, polls);
                if !answered {
                    return None;
                }
            }
            Some(begun.elapsed().as_nanos() as f64 / f64::from(rounds) / 2.0)
        },
    )
}

/// Receives `length` bytes.
fn take(socket: &UdpSocket, buffer: &mut [u8], length: usize, polls: bool) -> bool {
    let mut got = 0;
    let mut misses = 0u32;
    let mut since = None;
    while got < length {
        let flags = if polls { libc::MSG_DONTWAIT } else { 0 };
        // SAFETY: the buffer lives through the call and is as long as is said.
        let n = unsafe {
            libc::recv(
                socket.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                flags,
            )
        };
        if n > 0 {
            got += n as usize;
            continue;
        }
        if !polls {
            return false;
        }
        misses += 1;
        if misses.is_multiple_of(1 << 14)
            && since.get_or_insert_with(Instant::now).elapsed() > PATIENCE
        {
            return false;
        }
    }
    true
}

/// Bytes per second that arrive while the other side sends as fast as it can.
fn stream_rate(
    hosts: &TwoHosts,
    segment_bytes: usize,
    carries: Carries,
    duration: Duration,
) -> Result<Option<f64>, Failure> {
    let (here, there) = sockets(hosts)?;
    let gso = carries != Carries::Datagrams;
    let ends = |socket: &UdpSocket| Some((socket.peer_addr().ok()?, socket.local_addr().ok()?));
    let ends = ends(&here).filter(|_| carries == Carries::SealedRuns);
    let headers = ends.and_then(|(from, to)| match (from.ip(), to.ip()) {
        (IpAddr::V4(ours), IpAddr::V4(theirs)) => Some(RoceHeaders {
            ip: RoceIp::v4(ours, theirs, 0),
            source_port: from.port(),
        }),
        _ => None,
    });
    if carries == Carries::SealedRuns && headers.is_none() {
        return Ok(None);
    }
    if gso {
        segment(&here, segment_bytes)?;
        segment(&there, segment_bytes)?;
    }
    let shared = Mapping::shared(4096)?;
    let stop = shared.word(0);
    let mut batch = Batch::new(segment_bytes);
    let mut inbox = Batch::new(2048);
    let length = segment_bytes * BATCH_SEGMENTS;
    let (mut makes, mut checks) = (RunIcrc::new(), RunIcrc::new());
    run_pair(
        Placement::TwoCores,
        |_| {
            while stop.load(Ordering::Acquire) == 0 {
                if let Some(headers) = &headers {
                    seal(
                        &mut makes,
                        headers,
                        &mut batch.bytes[..length],
                        segment_bytes,
                    );
                }
                // an error is a full buffer, or a port that has just closed
                if gso {
                    let _ = there.send(&batch.bytes[..length]);
                } else {
                    batch.send(&there);
                }
            }
            true
        },
        |_| {
            let mut are_right = true;
            let mut receive = |socket: &UdpSocket| match gso {
                true => {
                    let got = socket.recv(&mut inbox.bytes).unwrap_or(0);
                    let run = &inbox.bytes[..got];
                    are_right &= headers
                        .as_ref()
                        .is_none_or(|headers| is_sealed(&mut checks, headers, run, segment_bytes));
                    got
                }
                false => inbox.receive(socket),
            };
            // what came while this side was started is not counted
            (0..16).for_each(|_| {
                receive(&here);
            });
            let begun = Instant::now();
            let mut bytes = 0;
            while begun.elapsed() < duration {
                match receive(&here) {
                    0 => break,
                    got => bytes += got,
                }
            }
            let elapsed = begun.elapsed();
            stop.store(1, Ordering::Release);
            // a wrong ICRC makes it no measurement
            (bytes > 0 && are_right).then(|| bytes_per_second(bytes, elapsed.as_nanos() as f64))
        },
    )
}

/// Writes the ICRCs of a run.
fn seal(icrc: &mut RunIcrc, headers: &RoceHeaders, run: &mut [u8], segment: usize) {
    let Some(alike) = icrc.alike(headers, segment - ICRC_BYTES) else {
        return;
    };
    for (place, packet) in run.chunks_exact_mut(segment).enumerate() {
        let (transport, room) = packet.split_at_mut(segment - ICRC_BYTES);
        if let Some(sum) = alike.icrc(place as u16, transport) {
            room.copy_from_slice(&sum.to_le_bytes());
        }
    }
}

/// True if all ICRCs of a run are right.
fn is_sealed(icrc: &mut RunIcrc, headers: &RoceHeaders, run: &[u8], segment: usize) -> bool {
    let Some(alike) = icrc.alike(headers, segment - ICRC_BYTES) else {
        return false;
    };
    run.chunks(segment)
        .enumerate()
        .all(|(place, packet)| alike.check(place as u16, packet).is_ok())
}

/// Messages of one sendmmsg or recvmmsg.
struct Batch {
    bytes: Vec<u8>,
    vectors: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

impl Batch {
    fn new(message_bytes: usize) -> Self {
        let mut bytes = vec![3u8; (MANY * message_bytes).max(65_536)];
        let mut vectors: Vec<libc::iovec> = bytes
            .chunks_exact_mut(message_bytes)
            .take(MANY)
            .map(|message| libc::iovec {
                iov_base: message.as_mut_ptr().cast(),
                iov_len: message.len(),
            })
            .collect();
        let headers = vectors
            .iter_mut()
            .map(|vector| {
                // SAFETY: mmsghdr is plain data for which all zeroes is a value: no address, no control data.
                let mut header: libc::mmsghdr = unsafe { mem::zeroed() };
                header.msg_hdr.msg_iov = vector;
                header.msg_hdr.msg_iovlen = 1;
                header
            })
            .collect();
        Batch {
            bytes,
            vectors,
            headers,
        }
    }

    fn send(&mut self, socket: &UdpSocket) {
        let count = self.vectors.len() as libc::c_uint;
        // SAFETY: headers point to vectors and those to bytes, whose heap blocks live and stay as long as self.
        unsafe { libc::sendmmsg(socket.as_raw_fd(), self.headers.as_mut_ptr(), count, 0) };
    }

    /// Bytes received, 0 if none came in time.
    fn receive(&mut self, socket: &UdpSocket) -> usize {
        let count = self.vectors.len() as libc::c_uint;
        // SAFETY: as in send; the kernel writes at most the lengths of the vectors.
        let got = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count,
                libc::MSG_WAITFORONE,
                ptr::null_mut(),
            )
        };
        let got = usize::try_from(got).unwrap_or(0);
        self.headers[..got]
            .iter()
            .map(|header| header.msg_len as usize)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_at_length_are_those_of_their_names() {
        let name = |which: AtLength| ENTRIES[which as usize].0;
        assert_eq!(name(AtLength::Small), "UDP 24 B, polled, one way");
        assert!(name(AtLength::Stream).ends_with("GSO and GRO"));
        assert!(name(AtLength::StreamWithoutGso).ends_with("sendmmsg"));
    }
}
