//! Receiving RoCEv2's packets: datagrams from sockets, packets to queue pairs.
//!
//! Owns the buffers of one round and how often a socket is looked at. Must not know what a packet
//! means. What is not whole, not for us or not from whom it claims is counted and dropped.

use std::sync::Arc;

use ferriband_admin::Counter;
use ferriband_memory::net::{RxMeta, RxRing, RxSocket};
use ferriband_transport::PacketMeta;
use ferriband_transport::types::Instant;
use ferriband_wire::capture::Fate;
use ferriband_wire::{Bth, Opcode, Packet, RoceHeaders, RunIcrc};

use super::head::{header_kind, headers_of, network_header, write_meta};
use super::join::Probe;
use crate::device::counters::PortCounts;
use crate::objects::catch::Catch;
use crate::process::numbers::owner_of_packets;
use crate::wire::packets::arrived::{Arrived, GSI, MULTICAST_QPN, destination};
use crate::wire::packets::batch::{Batch, count};
use crate::wire::packets::ways::{BACKLOG_ROUNDS, SOME_ROUNDS, Ways};
use crate::wire::to::{Deliver, Incoming, Queue, To};

/// Datagrams (each a run of packets) taken in one round.
pub(in crate::wire) const ROUND_DATAGRAMS: usize = 8;
/// A message longer than this is a run of packets: more may be right behind it.
const RUN_BYTES: usize = 4096;
/// What takes so long to handle that a look at another socket is little beside it.
const STREAM_BYTES: usize = 32 << 10;
/// Both congestion bits: a switch on the way was congested.
pub(in crate::wire) const CE: u8 = 3;

/// What takes datagrams from sockets and gives packets to queue pairs.
pub(in crate::wire) struct Hands<D: Deliver> {
    pub(in crate::wire) ring: RxRing,
    pub(in crate::wire) batch: Batch<D>,
    /// Bytes that were ever taken.
    bytes: u64,
}

/// What looks at a socket found of late.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::wire) struct Pace {
    /// The last one found something.
    pub(in crate::wire) found: bool,
    /// What was found last was several messages, or a run: more may be right behind it.
    pub(in crate::wire) run: bool,
    /// It was several messages, or a long one.
    pub(in crate::wire) stream: bool,
    /// Looks in vain since.
    pub(in crate::wire) misses: u32,
}

impl<D: Deliver> Hands<D> {
    pub(in crate::wire) fn new() -> Self {
        Hands {
            ring: RxRing::new(),
            batch: Batch::new(),
            bytes: 0,
        }
    }

    /// Takes what has arrived at a socket. True if anything had.
    pub(in crate::wire) fn take(
        &mut self,
        to: To<'_, D>,
        roce: &Ways,
        (socket, pace): (&RxSocket, &mut Pace),
        catch: &mut Catch<'_>,
    ) -> bool {
        // where messages are few and small, looking for a second one is a look in vain, on the way
        // of the first
        let most = match (pace.run, pace.found) {
            (true, _) => ROUND_DATAGRAMS,
            (false, true) => 2,
            (false, false) => 1,
        };
        let Ok(messages) = socket.receive(&mut self.ring, most) else {
            return false;
        };
        pace.found = messages > 0;
        if messages == 0 {
            pace.misses = pace.misses.saturating_add(1);
            return false;
        }
        pace.misses = 0;
        let longest = self.give(to, roce, catch);
        pace.run = messages > 1 || longest > RUN_BYTES;
        pace.stream = messages > 1 || longest > STREAM_BYTES;
        true
    }

    /// Gives what lies in the ring to queue pairs. Returns the bytes of the longest message.
    pub(in crate::wire) fn give(
        &mut self,
        to: To<'_, D>,
        roce: &Ways,
        catch: &mut Catch<'_>,
    ) -> usize {
        let mut longest = 0;
        for (meta, bytes) in self.ring.messages() {
            self.bytes += bytes.len() as u64;
            longest = longest.max(bytes.len());
            let came = Arrived::Roce(*meta);
            self.batch.run(to, roce, &came, bytes, true, catch);
        }
        self.batch.turn(to, catch);
        longest
    }

    /// Takes all that lies in a socket. First in, first out: what comes meanwhile, be it without
    /// end, lies behind what was there.
    pub(in crate::wire) fn drain(
        &mut self,
        to: To<'_, D>,
        roce: &Ways,
        (socket, pace): (&RxSocket, &mut Pace),
    ) {
        let (begun, mut rounds) = (self.bytes, 0);
        while self.take(to, roce, (socket, pace), &mut Catch::nobody()) {
            rounds += 1;
            let taken = self.bytes - begun;
            if rounds == BACKLOG_ROUNDS
                || rounds.is_multiple_of(SOME_ROUNDS) && taken > 2 * socket.buffer_bytes() as u64
            {
                break;
            }
        }
    }
}

impl<D: Deliver> Batch<D> {
    /// A run of packets that came by UDP. Says what became of the last one.
    pub(in crate::wire) fn deliver_roce(
        &mut self,
        to: To<'_, D>,
        roce: &Ways,
        meta: &RxMeta,
        bytes: &[u8],
        may_hand_over: bool,
        catch: &mut Catch<'_>,
    ) -> Fate {
        let port = roce.ports.counts.of(meta.ifindex);
        let segment = usize::from(meta.segment.max(1));
        let Some(headers) = headers_of(meta) else {
            port.add(Counter::RcvErrors, 1);
            return Fate::Malformed;
        };
        let now = ferriband_memory::wait::now();
        // the sender's kernel counts the packets of a run
        let mut identification = self.likely.wrapping_sub(1);
        let (mut rest, mut packets, mut length) = (bytes, 0, 0);
        let mut fate = Fate::Passed;
        while !rest.is_empty() {
            let whole = rest;
            let (datagram, after) = rest.split_at(segment.min(rest.len()));
            rest = after;
            packets += 1;
            length += datagram.len();
            fate = Fate::Malformed;
            let Some(qpn) = destination(datagram) else {
                port.add(Counter::RcvErrors, 1);
                continue;
            };
            if qpn == 0 {
                let v6 = meta.destination.is_ipv6();
                // one that came to a sender's socket says nothing of where the socket of all is
                let port = roce.port.get().filter(|_| !self.by_flow);
                let probe = port.map(|port| {
                    port.take_probe(&to.adapter.process().registry, v6, meta.source, datagram)
                });
                if probe == Some(Probe::Moved) {
                    roce.was_misrouted(to.adapter.process());
                }
                // this protocol's own
                packets -= 1;
                length -= datagram.len();
                continue;
            }
            if qpn == GSI.0 {
                let taken = self
                    .icrc
                    .check(&headers, 0, datagram)
                    .is_ok_and(|(transport, _)| {
                        to.services.came(meta, datagram, transport, !may_hand_over)
                    });
                fate = if taken { Fate::Passed } else { Fate::Refused };
                if !taken {
                    port.add(Counter::UnknownQp, 1);
                }
                continue;
            }
            if qpn == MULTICAST_QPN {
                fate = Fate::Passed;
                if !self.deliver_to_group(to, roce, (&headers, meta), now, datagram, catch) {
                    fate = Fate::NoQueuePair;
                    port.add(Counter::UnknownQp, 1);
                }
                continue;
            }
            self.find(to, qpn, true);
            let Some((_, qp)) = &self.last else {
                let owner = owner_of_packets(&to.adapter.process().registry, qpn);
                match owner
                    .filter(|owner| may_hand_over && *owner != to.adapter.process().registry.me())
                {
                    Some(owner) => {
                        // what came together goes together: a post box takes few messages
                        let more = rest
                            .chunks(segment)
                            .take_while(|next| destination(next) == Some(qpn))
                            .map(<[u8]>::len)
                            .sum::<usize>();
                        let run = &whole[..datagram.len() + more];
                        rest = &rest[more..];
                        packets += more.div_ceil(segment) as u64;
                        length += more;
                        let head = write_meta(meta, segment as u16);
                        let handed = to.adapter.hand_over(owner, &head, run);
                        port.add(Counter::HandedOver, u64::from(handed));
                        self.foreign |= self.by_flow;
                        if !self.by_flow {
                            roce.was_misrouted(to.adapter.process());
                        }
                    }
                    None => port.add(Counter::UnknownQp, 1),
                }
                fate = Fate::NoQueuePair;
                continue;
            };
            let (more, bytes, became, then) = take_run(
                to,
                (qp, &mut self.icrc, port),
                (&headers, meta, now),
                &mut identification,
                whole.chunks(segment),
            );
            fate = became;
            let Some(beyond) = more.checked_sub(1) else {
                // it has not been connected yet, or not any more
                port.add(Counter::UnknownQp, 1);
                continue;
            };
            if length == datagram.len() {
                // and perhaps runs, too
                self.likely = match identification.wrapping_sub(beyond as u16) {
                    0 => 0,
                    first => first.wrapping_add(1),
                };
            }
            (rest, packets) = (&whole[bytes..], packets + beyond);
            length += bytes - datagram.len();
            if then == Then::Nothing {
                continue;
            }
            if !self.touched.iter().any(|other| Arc::ptr_eq(other, qp)) {
                let qp = qp.clone();
                self.touch_first(to, qp, catch);
            }
            if then == Then::Now {
                // what a NAK asks for is on its way while the rest of the round is looked at
                self.turn(to, catch);
            }
        }
        count(&roce.counters.packets, packets);
        if !may_hand_over {
            // whoever took it from the socket has counted it
            return fate;
        }
        // what a host sends to itself comes by another interface than its device's
        let device = self.last.as_ref().map(|(_, qp)| &qp.device().info);
        let port = device.map_or(port, |info| roce.ports.counts.of(info.ifindex));
        port.add(Counter::RcvPackets, packets);
        port.add(Counter::RcvData, length as u64 / 4);
        fate
    }

    /// A packet for a group: the kernel gives each process that has joined it a copy, and here each
    /// queue pair that is attached gets one, but the one that has sent it. False if nobody wants
    /// it.
    fn deliver_to_group(
        &mut self,
        to: To<'_, D>,
        roce: &Ways,
        (headers, meta): (&RoceHeaders, &RxMeta),
        now: Instant,
        datagram: &[u8],
        catch: &mut Catch<'_>,
    ) -> bool {
        let members = roce.attached.of(meta.destination, meta.ifindex);
        if members.is_empty() {
            return false;
        }
        // a sender's runs to groups are of one packet each
        let Ok((transport, _)) = self.icrc.check(headers, 0, datagram) else {
            return false;
        };
        let Ok(packet) = Packet::parse(transport) else {
            return false;
        };
        let grh = network_header(headers, meta, datagram.len());
        let about = PacketMeta {
            sl: header_kind(meta),
            grh: Some(&grh),
            ..PacketMeta::default()
        };
        let sender = packet.ext().deth.map(|deth| deth.src_qpn.0);
        let mut taken = false;
        for qpn in members {
            let found = to.adapter.queue(qpn);
            let Some(qp) = found.filter(|qp| qp.device().is_ethernet()) else {
                continue;
            };
            let own = sender == Some(qpn) && qp.has_address(meta.source);
            if own {
                continue;
            }
            let marked = meta.tos & 3 == CE;
            qp.packets_in(to.adapter, now, (meta.source, false), |incoming| {
                incoming.take(marked, &about, &packet);
            });
            taken = true;
            self.touch(to, qp, catch);
        }
        taken
    }
}

/// What a queue pair has to say after packets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Nothing,
    /// At the end of the round.
    Soon,
    Now,
}

/// Packets of long messages, which come one after the other.
fn is_bulk(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::RcSendMiddle | Opcode::RcWriteMiddle)
}

/// The packets at the head of a run that are for one queue pair: how many, of how many bytes, what
/// became of the last one, and when the queue pair has something to say.
fn take_run<'a, D: Deliver>(
    to: To<'_, D>,
    (qp, icrc, port): (&Arc<D::Queue>, &mut RunIcrc, &PortCounts),
    (headers, meta, now): (&RoceHeaders, &RxMeta, Instant),
    identification: &mut u16,
    datagrams: impl Iterator<Item = &'a [u8]>,
) -> (u64, usize, Fate, Then) {
    let (mut packets, mut length, mut fate) = (0, 0, Fate::NoQueuePair);
    let mut then = Then::Soon;
    let marked = meta.tos & 3 == CE;
    let theirs = datagrams.take_while(|datagram| destination(datagram) == Some(qp.number()));
    let mut theirs = theirs.peekable();
    // who reacts to congestion (ECT or CE) is not Soft-RoCE, which alone is so slow from packet to
    // packet that a program sees between them
    let together = meta.tos & 3 != 0;
    qp.packets_in(to.adapter, now, (meta.source, together), |incoming| {
        while let Some(datagram) = theirs.next() {
            packets += 1;
            length += datagram.len();
            fate = Fate::Malformed;
            let likely = identification.wrapping_add(1);
            let Ok((transport, found)) = icrc.check(headers, likely, datagram) else {
                port.add(Counter::RcvErrors, 1);
                port.add(Counter::IcrcErrors, 1);
                continue;
            };
            *identification = found;
            // looked at where it lies: a move costs as much as its parsing
            let parsed = Packet::parse(transport);
            let Ok(packet) = &parsed else {
                port.add(Counter::RcvErrors, 1);
                continue;
            };
            let grh = qp
                .is_datagram()
                .then(|| network_header(headers, meta, datagram.len()));
            let about = PacketMeta {
                sl: header_kind(meta),
                grh: grh.as_ref(),
                ..PacketMeta::default()
            };
            let taken = incoming.take(marked, &about, packet);
            fate = if taken { Fate::Passed } else { Fate::Refused };
            // one with a pad is not in the middle of anything, and marks are counted one by one
            let likely_more = taken && !marked && is_bulk(packet.opcode());
            if !likely_more {
                continue;
            }
            let (Some(header), Some(alike)) = (
                transport.first_chunk(),
                icrc.alike(headers, transport.len()),
            ) else {
                continue;
            };
            // those that follow, as long as they are like it; the first that is not is looked at
            // above
            while let Some(next) = theirs.next_if(|next| {
                let checked = alike.check(identification.wrapping_add(1), next);
                checked.is_ok_and(|(transport, found)| {
                    *identification = found;
                    Bth::alike(transport, header).is_some_and(|(psn, ack_req, payload)| {
                        incoming.take_alike(packet.opcode(), (psn, ack_req), payload)
                    })
                })
            }) {
                packets += 1;
                length += next.len();
            }
        }
        then = match (incoming.owes_more(), incoming.is_settled()) {
            (true, _) => Then::Now,
            (false, settled) if settled => Then::Nothing,
            _ => Then::Soon,
        };
    });
    (packets, length, fate, then)
}
