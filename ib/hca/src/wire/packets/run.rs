//! Packets gathered into runs that the kernel cuts apart.
//!
//! Owns the buffer of a run. Must not know: queue pairs' state. All packets of a run are of one
//! size but the last, which may be shorter (UDP_SEGMENT); the IPv4 identification, which the ICRC
//! covers, counts up within a run, from 0 or from where the socket says. Runs of the InfiniBand
//! port are the same, but go to another process as they are.

use std::cell::RefCell;

use ferriband_admin::Counter;
use ferriband_memory::Room;
use ferriband_memory::net::Gone;
use ferriband_wire::RunIcrc;

use super::arrived::ICRC_BYTES;
use super::path::{Carrier, TxPath};

/// Bytes of a run, at the most: what one UDP datagram could hold.
const RUN_BYTES: usize = 65_000;
/// Packets of a run (the kernel's UDP_MAX_SEGMENTS is 64 in older kernels).
const RUN_PACKETS: usize = 64;
/// Room that must be left for a packet before it is made: the largest with its ICRC.
const PACKET_ROOM: usize = ferriband_transport::MAX_PACKET_BYTES + ICRC_BYTES;

/// A run of packets to one destination.
#[derive(Debug)]
pub(crate) struct Run {
    bytes: Room,
    len: usize,
    segment: usize,
    count: usize,
    closed: bool,
    icrc: RunIcrc,
    /// Packets that the kernel did not take.
    pub lost: u64,
    /// Packets and system calls.
    pub packets: u64,
    pub calls: u64,
}

impl Run {
    fn new() -> Self {
        Run {
            bytes: Room::new(RUN_BYTES + PACKET_ROOM),
            len: 0,
            segment: 0,
            count: 0,
            closed: false,
            icrc: RunIcrc::new(),
            lost: 0,
            packets: 0,
            calls: 0,
        }
    }

    /// Room for the next packet, from BTH.
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.len..self.len + PACKET_ROOM - ICRC_BYTES]
    }

    /// Packets that wait for [`Run::flush`].
    pub fn gathered(&self) -> usize {
        self.count
    }

    /// The packet of `len` bytes that was written to the room goes to `path`, soon: all packets of
    /// a run have one path, so [`Run::flush`] comes before another's.
    pub fn push(&mut self, path: &TxPath, len: usize) {
        let whole = len + ICRC_BYTES;
        if self.count > 0 && (self.closed || whole > self.segment || self.count == RUN_PACKETS) {
            self.send_off(path, len);
        }
        if self.count == 0 {
            self.segment = whole;
        }
        let (at, place) = (self.len, self.count);
        let (packet, trailer) = self.bytes[at..at + whole].split_at_mut(len);
        let icrc = match &path.carrier {
            // the kernel counts the packets of a run up from identification 0
            Carrier::Udp { headers, .. } => self.icrc.icrc(headers, place as u16, packet),
            Carrier::Host(path) => path
                .headers()
                .icrc(len)
                .ok()
                .map(|begun| begun.finish_with(packet)),
        };
        let icrc = icrc.expect("a packet has a BTH and fits a datagram");
        trailer.copy_from_slice(&icrc.to_le_bytes());
        self.len += whole;
        self.count += 1;
        self.closed = whole < self.segment;
        // the next is no longer than this one, or begins another run
        if self.len + self.segment > RUN_BYTES {
            self.closed = true;
        }
    }

    /// Places for more packets of the size that this run's have, behind it: the length of each
    /// without its ICRC, and from where to where they are apart; `most` at the most. None if it has
    /// no room, or begins anew.
    pub fn places(&mut self, most: usize) -> Option<(&mut [u8], usize, usize)> {
        let (stride, at) = (self.segment, self.len);
        if self.closed || self.count == 0 {
            return None;
        }
        let room = (RUN_BYTES.saturating_sub(at) / stride).min(RUN_PACKETS - self.count);
        let end = at + most.min(room) * stride;
        (end > at).then(|| (&mut self.bytes[at..end], stride - ICRC_BYTES, stride))
    }

    /// The first `count` of [`Run::places`] hold packets for `path` now; `sums` are the CRCs of
    /// their payloads, if there are as many.
    pub fn push_alike(&mut self, path: &TxPath, count: usize, sums: &[u32]) {
        if count == 0 {
            return;
        }
        let (stride, len) = (self.segment, self.segment - ICRC_BYTES);
        let Carrier::Udp { headers, .. } = &path.carrier else {
            (0..count).for_each(|_| self.push(path, len));
            return;
        };
        let end = self.len + count * stride;
        let packets = self.bytes[self.len..end].chunks_mut(stride);
        let packets = (self.count as u16..).zip(packets.map(|packet| packet.split_at_mut(len)));
        const LIKE_THE_ONE_BEFORE: &str = "which had a BTH and fitted a datagram";
        if sums.len() == count {
            let mut summed = self.icrc.summed(headers, len).expect(LIKE_THE_ONE_BEFORE);
            for ((place, (packet, trailer)), crc) in packets.zip(sums) {
                let header = packet.first_chunk().expect(LIKE_THE_ONE_BEFORE);
                trailer.copy_from_slice(&summed.icrc(place, header, *crc).to_le_bytes());
            }
        } else {
            let alike = self.icrc.alike(headers, len).expect(LIKE_THE_ONE_BEFORE);
            for (place, (packet, trailer)) in packets {
                let icrc = alike.icrc(place, packet).expect("a run's place and length");
                trailer.copy_from_slice(&icrc.to_le_bytes());
            }
        }
        self.len = end;
        self.count += count;
        self.closed |= self.len + self.segment > RUN_BYTES;
    }

    /// Sends what is gathered. A packet that the kernel does not take is lost, as on any wire: the
    /// transport tries again.
    pub fn flush(&mut self, path: &TxPath) {
        if self.count > 0 {
            self.send_off(path, 0);
        }
    }

    /// As [`Self::flush`]; a packet of `behind` bytes lies behind the run already and begins the
    /// next.
    fn send_off(&mut self, path: &TxPath, behind: usize) {
        self.calls += 1;
        self.packets += self.count as u64;
        let length = self.len;
        let bytes = &mut self.bytes[..length];
        let (lost, gone) = if path.hooks.active() {
            (path.hooks.send(path, bytes, self.segment), None)
        } else {
            match path.transmit_flow(bytes, self.segment, &mut self.icrc) {
                None => (self.count as u64, None),
                gone => (0, gone),
            }
        };
        self.bytes.copy_within(length..length + behind, 0);
        if lost > 0 {
            self.lost += lost;
            path.counts.add(Counter::SendErr, 1);
            path.counts.add(Counter::XmitDiscards, lost);
            self.len = self.len.saturating_sub(lost as usize * self.segment);
        }
        path.counts.add(
            Counter::XmitPackets,
            (self.count as u64).saturating_sub(lost),
        );
        path.counts.add(Counter::XmitData, self.len as u64 / 4);
        if gone == Some(Gone::Framed) {
            path.counts.add(Counter::Frames, self.count as u64);
        }
        (self.len, self.count, self.closed) = (0, 0, false);
    }
}

thread_local! {
    static RUN: RefCell<Option<Box<Run>>> = const { RefCell::new(None) };
}

/// Gives this thread's run, empty, to `fill`.
pub(crate) fn with_run<T>(fill: impl FnOnce(&mut Run) -> T) -> T {
    // a thread that ends, in a destructor of the program, has none any more
    let kept = RUN.try_with(|place| place.borrow_mut().take());
    let mut run = kept.ok().flatten().unwrap_or_else(|| Box::new(Run::new()));
    let value = fill(&mut run);
    let _ = RUN.try_with(|place| *place.borrow_mut() = Some(run));
    value
}
