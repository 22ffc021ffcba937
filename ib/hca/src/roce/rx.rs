//! Receiving: datagrams to packets, packets to queue pairs.
//!
//! Owns the buffers of one round and the lock under which a process's packets are handled, which keeps each queue pair's in order.
//! Must not know what a packet means. Every byte comes from a stranger: what is not whole, not for us or not from whom it claims is counted
//! and dropped.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrayvec::ArrayVec;
use ferriband_admin::Counter;
use ferriband_cm::Route;
use ferriband_memory::host::HAND_OVER_HEAD;
use ferriband_memory::net::{RxMeta, RxRing, RxSocket};
use ferriband_transport::types::{AddressVector, Instant};
use ferriband_transport::{GRH_BYTES, PacketMeta};
use ferriband_wire::capture::Fate;
use ferriband_wire::mad::GSI_QKEY;
use ferriband_wire::{
    Bth, Gid, Grh, Ipv4, NextHeader, Opcode, Packet, RoceHeaders, RoceIp, RunIcrc, Sl,
    check_datagram,
};

use super::join::Probe;
use super::local::{LocalPort, NativeMeta};
use super::tx::ICRC_BYTES;
use super::{BACKLOG_ROUNDS, GSI, Roce, SOME_ROUNDS};
use crate::base::limits;
use crate::cm::{MAD, Owner, Refused, owner_of_mad};
use crate::cq::Catch;
use crate::device::counters::PortCounts;
use crate::device::{self, address_of, gid_of};
use crate::progress::Engine;
use crate::qp::Qp;

mod alone;
mod flows;
mod native;

use flows::Flows;
pub(crate) use flows::MOST_FLOWS;

/// Datagrams (each a run of packets) taken in one round.
const ROUND_DATAGRAMS: usize = 8;
/// A message longer than this is a run of packets: more may be right behind it.
const RUN_BYTES: usize = 4096;
/// What takes so long to handle that a look at another socket is little beside it.
const STREAM_BYTES: usize = 32 << 10;
/// Both congestion bits: a switch on the way was congested.
const CE: u8 = 3;
/// A UDP header.
const UDP_BYTES: usize = 8;
/// The queue pair number of packets for a group.
const MULTICAST_QPN: u32 = 0xff_ffff;
/// Queue pairs whose answers wait for the end of a round.
const TOUCHED: usize = 16;

/// A run of packets as it came.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arrived {
    /// By UDP.
    Roce(RxMeta),
    /// By the InfiniBand port.
    Native(NativeMeta),
}

impl Arrived {
    /// Bytes of each packet but the last; never 0.
    pub fn segment(&self) -> usize {
        let segment = match self {
            Arrived::Roce(meta) => meta.segment,
            Arrived::Native(meta) => meta.segment,
        };
        usize::from(segment.max(1))
    }

    /// One of them, alone.
    pub fn one(&self, bytes: usize) -> Self {
        let segment = bytes as u16;
        match *self {
            Arrived::Roce(meta) => Arrived::Roce(RxMeta { segment, ..meta }),
            Arrived::Native(meta) => Arrived::Native(NativeMeta { segment, ..meta }),
        }
    }
}

/// What came; what became of it is counted with the port.
#[derive(Debug, Default)]
pub(crate) struct RxCounters {
    /// Packets that were ever taken from the sockets.
    pub packets: AtomicU64,
}

fn count(counter: &AtomicU64, by: u64) {
    // one thread at a time counts, under the lock of the round
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

/// The state of a round.
pub(crate) struct RxSide {
    hands: Hands,
    /// Room for a message of the InfiniBand port, once one may come.
    room: Vec<u8>,
    /// Of the sockets of all senders.
    pace: Pace,
    flows: Flows,
}

/// What takes datagrams from sockets and gives packets to queue pairs.
struct Hands {
    ring: RxRing,
    inner: Inner,
    /// Bytes that were ever taken.
    bytes: u64,
}

/// What looks at a socket found of late.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    /// The last one found something.
    found: bool,
    /// What was found last was several messages, or a run: more may be right behind it.
    run: bool,
    /// It was several messages, or a long one.
    stream: bool,
    /// Looks in vain since.
    misses: u32,
}

/// What a round knows of queue pairs.
#[derive(Default)]
struct Inner {
    /// Where the last packet went, with the version of the table in which it was found.
    last: Option<(u64, Arc<Qp>)>,
    touched: ArrayVec<Arc<Qp>, TOUCHED>,
    /// Queue pairs that keep an acknowledgement back.
    owing: ArrayVec<Arc<Qp>, TOUCHED>,
    icrc: RunIcrc,
    /// The IPv4 identification that the next datagram probably has.
    likely: u16,
    /// What is looked at came by a sender's own socket; and something of it was another process's.
    by_flow: bool,
    foreign: bool,
}

impl std::fmt::Debug for RxSide {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RxSide")
    }
}

impl RxSide {
    pub fn new() -> Self {
        RxSide {
            hands: Hands {
                ring: RxRing::new(),
                inner: Inner::default(),
                bytes: 0,
            },
            room: Vec::new(),
            pace: Pace::default(),
            flows: Flows::default(),
        }
    }

    /// Nothing came: acknowledgements that no reply took along go now.
    pub fn idle(&mut self, engine: &Engine) {
        for qp in self.hands.inner.owing.drain(..) {
            qp.send_owed(engine);
        }
    }

    /// Takes what has arrived at a socket of all senders. True if anything had.
    pub fn take(
        &mut self,
        engine: &Engine,
        roce: &Roce,
        socket: &RxSocket,
        catch: &mut Catch<'_>,
    ) -> bool {
        let found = self
            .hands
            .take(engine, roce, (socket, &mut self.pace), catch);
        if found && catch.somebody_polls() && self.note_sender() {
            self.open_flow(engine, roce, socket);
        }
        found
    }

    /// Takes all that lies in a socket of all senders.
    pub fn drain(&mut self, engine: &Engine, roce: &Roce, socket: &RxSocket) {
        self.hands.drain(engine, roce, (socket, &mut self.pace));
    }

    /// Takes what has come by the InfiniBand port. True if anything had.
    pub fn take_local(
        &mut self,
        engine: &Engine,
        roce: &Roce,
        local: &LocalPort,
        catch: &mut Catch<'_>,
    ) -> bool {
        let RxSide { room, hands, .. } = self;
        let inner = &mut hands.inner;
        let mut worked = false;
        for _ in 0..ROUND_DATAGRAMS {
            let Some((length, from)) = local.receive(room) else {
                break;
            };
            worked = true;
            let (head, bytes) = room[..length].split_at(HAND_OVER_HEAD);
            match NativeMeta::read(head, from) {
                Some(meta) => {
                    inner.run(engine, roce, &Arrived::Native(meta), bytes, true, catch);
                }
                None => roce.ports.counts.of(0).add(Counter::RcvErrors, 1),
            }
        }
        if worked {
            inner.turn(engine, catch);
        }
        let wire = local.fabric.as_ref();
        if wire.is_some_and(crate::device::fabric::Wire::has_new_pkeys) {
            engine.tell_of_pkeys();
        }
        worked
    }

    /// Takes a run of packets that another process got and handed over.
    pub fn take_handed(
        &mut self,
        engine: &Engine,
        roce: &Roce,
        head: &[u8],
        body: &[u8],
        catch: &mut Catch<'_>,
    ) {
        if let Some(meta) = read_meta(head) {
            // what is handed over once more might go round for ever
            let inner = &mut self.hands.inner;
            inner.run(engine, roce, &Arrived::Roce(meta), body, false, catch);
            inner.turn(engine, catch);
        }
    }

    /// Takes a packet that a fault had held back.
    pub fn take_held(
        &mut self,
        engine: &Engine,
        roce: &Roce,
        came: &Arrived,
        packet: &[u8],
        catch: &mut Catch<'_>,
    ) -> Fate {
        let inner = &mut self.hands.inner;
        let fate = inner.deliver(engine, roce, came, packet, true, catch);
        inner.turn(engine, catch);
        fate
    }
}

impl Hands {
    /// Takes what has arrived at a socket. True if anything had.
    fn take(
        &mut self,
        engine: &Engine,
        roce: &Roce,
        (socket, pace): (&RxSocket, &mut Pace),
        catch: &mut Catch<'_>,
    ) -> bool {
        // where messages are few and small, looking for a second one is a look in vain, on the way of the first
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
        let longest = self.give(engine, roce, catch);
        pace.run = messages > 1 || longest > RUN_BYTES;
        pace.stream = messages > 1 || longest > STREAM_BYTES;
        true
    }

    /// Gives what lies in the ring to queue pairs. Returns the bytes of the longest message.
    fn give(&mut self, engine: &Engine, roce: &Roce, catch: &mut Catch<'_>) -> usize {
        let mut longest = 0;
        for (meta, bytes) in self.ring.messages() {
            self.bytes += bytes.len() as u64;
            longest = longest.max(bytes.len());
            let came = Arrived::Roce(*meta);
            self.inner.run(engine, roce, &came, bytes, true, catch);
        }
        self.inner.turn(engine, catch);
        longest
    }

    /// Takes all that lies in a socket. First in, first out: what comes meanwhile, be it without end, lies behind what was there.
    fn drain(&mut self, engine: &Engine, roce: &Roce, (socket, pace): (&RxSocket, &mut Pace)) {
        let (begun, mut rounds) = (self.bytes, 0);
        while self.take(engine, roce, (socket, pace), &mut Catch::nobody()) {
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

impl Inner {
    /// A run of packets from one source, by the hooks if there are any.
    fn run(
        &mut self,
        engine: &Engine,
        roce: &Roce,
        came: &Arrived,
        bytes: &[u8],
        may_hand_over: bool,
        catch: &mut Catch<'_>,
    ) {
        if !roce.hooks.active() {
            self.deliver(engine, roce, came, bytes, may_hand_over, catch);
            return;
        }
        roce.hooks
            .receive(engine, came, bytes, &mut |came, datagram| {
                self.deliver(engine, roce, came, datagram, may_hand_over, catch)
            });
    }

    /// Gives a run of packets to their queue pairs. Says what became of the last one.
    fn deliver(
        &mut self,
        engine: &Engine,
        roce: &Roce,
        came: &Arrived,
        bytes: &[u8],
        may_hand_over: bool,
        catch: &mut Catch<'_>,
    ) -> Fate {
        let version = engine.qps_version.load(Ordering::Acquire);
        if self
            .last
            .as_ref()
            .is_some_and(|(found_in, _)| *found_in != version)
        {
            self.last = None;
        }
        match came {
            Arrived::Roce(meta) => {
                self.deliver_roce(engine, roce, meta, bytes, may_hand_over, catch)
            }
            Arrived::Native(meta) => self.deliver_native(engine, roce, meta, bytes, catch),
        }
    }

    /// The queue pair of a device of this kind that takes the packets for a number; found once for a run.
    fn find(&mut self, engine: &Engine, qpn: u32, ethernet: bool) -> Option<&Arc<Qp>> {
        let right = |qp: &Qp| qp.ctx.device.is_ethernet() == ethernet;
        if !matches!(&self.last, Some((_, qp)) if qp.qpn == qpn && right(qp)) {
            let version = engine.qps_version.load(Ordering::Acquire);
            let found = engine.qp_of_packets(qpn).filter(|qp| right(qp));
            self.last = found.map(|qp| (version, qp));
        }
        self.last.as_ref().map(|(_, qp)| qp)
    }

    fn deliver_roce(
        &mut self,
        engine: &Engine,
        roce: &Roce,
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
        let now = Engine::now();
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
                let probe =
                    port.map(|port| port.take_probe(&engine.registry, v6, meta.source, datagram));
                if probe == Some(Probe::Moved) {
                    roce.went_astray(engine);
                }
                // this protocol's own
                packets -= 1;
                length -= datagram.len();
                continue;
            }
            if qpn == GSI.0 {
                let patience = if may_hand_over {
                    Patience::Fresh
                } else {
                    Patience::Handed
                };
                let taken = self
                    .icrc
                    .check(&headers, 0, datagram)
                    .is_ok_and(|(transport, _)| {
                        general_services(engine, meta, datagram, transport, patience)
                    });
                fate = if taken { Fate::Passed } else { Fate::Refused };
                if !taken {
                    port.add(Counter::UnknownQp, 1);
                }
                continue;
            }
            if qpn == MULTICAST_QPN {
                fate = Fate::Passed;
                if !self.deliver_to_group(engine, roce, (&headers, meta), now, datagram, catch) {
                    fate = Fate::NoQueuePair;
                    port.add(Counter::UnknownQp, 1);
                }
                continue;
            }
            self.find(engine, qpn, true);
            let Some((_, qp)) = &self.last else {
                let owner = engine.owner_of_packets(qpn);
                match owner.filter(|owner| may_hand_over && *owner != engine.registry.me()) {
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
                        let handed = engine
                            .post_box()
                            .is_ok_and(|post| post.send(owner, &head, run).is_ok());
                        port.add(Counter::HandedOver, u64::from(handed));
                        self.foreign |= self.by_flow;
                        if !self.by_flow {
                            roce.went_astray(engine);
                        }
                    }
                    None => port.add(Counter::UnknownQp, 1),
                }
                fate = Fate::NoQueuePair;
                continue;
            };
            let (more, bytes, became, then) = take_run(
                engine,
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
                self.touch(engine, qp, catch);
            }
            if then == Then::Now {
                // what a NAK asks for is on its way while the rest of the round is looked at
                self.turn(engine, catch);
            }
        }
        count(&roce.counters.packets, packets);
        if !may_hand_over {
            // whoever took it from the socket has counted it
            return fate;
        }
        // what a host sends to itself comes by another interface than its device's
        let device = self.last.as_ref().map(|(_, qp)| &qp.ctx.device.info);
        let port = device.map_or(port, |info| roce.ports.counts.of(info.ifindex));
        port.add(Counter::RcvPackets, packets);
        port.add(Counter::RcvData, length as u64 / 4);
        fate
    }

    /// A packet has reached a queue pair: its answers and completions come at the end of the batch.
    fn touch(&mut self, engine: &Engine, qp: Arc<Qp>, catch: &mut Catch<'_>) {
        if self.touched.iter().any(|other| Arc::ptr_eq(other, &qp)) {
            return;
        }
        if self.touched.is_full() {
            self.turn(engine, catch);
        }
        self.touched.push(qp);
    }

    /// A packet for a group: the kernel gives each process that has joined it a copy, and here each queue pair that is attached gets
    /// one, but the one that has sent it. False if nobody wants it.
    fn deliver_to_group(
        &mut self,
        engine: &Engine,
        roce: &Roce,
        (headers, meta): (&RoceHeaders, &RxMeta),
        now: Instant,
        datagram: &[u8],
        catch: &mut Catch<'_>,
    ) -> bool {
        let members = roce.attached(meta.destination, meta.ifindex);
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
            let found = engine.qp_by_number(qpn);
            let Some(qp) = found.filter(|qp| qp.ctx.device.is_ethernet()) else {
                continue;
            };
            let own = sender == Some(qpn) && qp.has_address(meta.source);
            if own {
                continue;
            }
            let marked = meta.tos & 3 == CE;
            qp.packets_in(engine, now, (meta.source, false), |incoming| {
                incoming.take(marked, &about, &packet);
            });
            taken = true;
            self.touch(engine, qp, catch);
        }
        taken
    }

    fn turn(&mut self, engine: &Engine, catch: &mut Catch<'_>) {
        turn(engine, &mut self.touched, &mut self.owing, catch);
    }
}

/// What may still be done with a packet for queue pair 1.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// It has just come.
    Fresh,
    /// Another process handed it over: going round once is enough.
    Handed,
    /// It has waited for a listener, and waits on if there is none.
    Waiting,
    /// It has waited long enough.
    Over,
}

/// Looks again whether somebody listens for a request that was kept. False if nobody does and it is to wait on; never if this is the
/// last time.
pub(crate) fn ask_again(
    engine: &Engine,
    head: &[u8; HAND_OVER_HEAD],
    datagram: &[u8],
    last: bool,
) -> bool {
    let patience = if last {
        Patience::Over
    } else {
        Patience::Waiting
    };
    if let Some(meta) = NativeMeta::read(head, None) {
        return native::ask_again(engine, &meta, datagram, patience) || last;
    }
    let Some(meta) = read_meta(head) else {
        return true;
    };
    let whole = headers_of(&meta).and_then(|headers| check_datagram(&headers, datagram).ok());
    let Some((transport, _)) = whole else {
        return true;
    };
    general_services(engine, &meta, datagram, transport, patience) || last
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

/// The packets at the head of a run that are for one queue pair: how many, of how many bytes, what became of the last one, and when the
/// queue pair has something to say.
fn take_run<'a>(
    engine: &Engine,
    (qp, icrc, port): (&Arc<Qp>, &mut RunIcrc, &PortCounts),
    (headers, meta, now): (&RoceHeaders, &RxMeta, Instant),
    identification: &mut u16,
    datagrams: impl Iterator<Item = &'a [u8]>,
) -> (u64, usize, Fate, Then) {
    let (mut packets, mut length, mut fate) = (0, 0, Fate::NoQueuePair);
    let mut then = Then::Soon;
    let marked = meta.tos & 3 == CE;
    let theirs = datagrams.take_while(|datagram| destination(datagram) == Some(qp.qpn));
    let mut theirs = theirs.peekable();
    // who reacts to congestion (ECT or CE) is not Soft-RoCE, which alone is so slow from packet to packet that a program sees between them
    let together = meta.tos & 3 != 0;
    qp.packets_in(engine, now, (meta.source, together), |incoming| {
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
            // those that follow, as long as they are like it; the first that is not is looked at above
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

/// The management datagram in a packet from queue pair 1 to queue pair 1.
fn mad_of(transport: &[u8]) -> Option<[u8; MAD]> {
    let packet = Packet::parse(transport).ok()?;
    let asks = packet
        .ext()
        .deth
        .is_some_and(|deth| deth.qkey == GSI_QKEY && deth.src_qpn == GSI);
    let pkey = packet.bth().pkey.0 & 0x7fff == limits::DEFAULT_PKEY & 0x7fff;
    let right = packet.opcode() == Opcode::UdSendOnly && asks && pkey;
    packet.payload.try_into().ok().filter(|_| right)
}

/// A packet for queue pair 1: a message of the connection manager, or nobody's. False if it is not taken.
fn general_services(
    engine: &Engine,
    meta: &RxMeta,
    datagram: &[u8],
    transport: &[u8],
    patience: Patience,
) -> bool {
    let Some(mad) = mad_of(transport) else {
        return false;
    };
    let mad = &mad;
    let to = gid_of(meta.destination);
    // the datagram as it is: the answer goes back over the network
    let head = || write_meta(meta, datagram.len() as u16);
    match (owner_of_mad(engine, &to, mad), patience) {
        (_, Patience::Handed)
        | (Owner::Here | Owner::Nobody, _)
        | (Owner::Unheard, Patience::Over) => {}
        (Owner::Other(slot), _) => match engine.hand_to(slot, &head(), datagram) {
            Ok(()) => return true,
            Err(Refused::Full | Refused::Unsent) => return false,
            // it has died, and the registry lists it for a moment longer
            Err(Refused::Gone) => {}
        },
        (Owner::Unheard, Patience::Waiting) => return false,
        (Owner::Unheard, Patience::Fresh) => {
            // refused at once if too many wait already
            if engine.cm().keep_packet(engine, &head(), datagram) {
                return true;
            }
        }
    }
    // what is nobody's may have come to a process that has no device there: it is answered for the
    // host
    let Some((device, index)) = device::answering(meta.destination, meta.ifindex) else {
        return false;
    };
    let from = Route::Gsi {
        device: device.info.index as u16,
        sgid_index: index,
        av: AddressVector {
            dgid: gid_of(meta.source),
            sgid_index: index,
            traffic_class: meta.tos & !3,
            hop_limit: 64,
            is_global: true,
            port_num: 1,
            ..AddressVector::default()
        },
    };
    engine.cm().message(engine, from, Some(to), mad);
    true
}

/// True if a packet is to be handed over to another process.
#[cold]
pub(super) fn is_anothers(engine: &Engine, meta: &RxMeta, datagram: &[u8]) -> bool {
    match destination(datagram) {
        Some(qpn) if qpn == GSI.0 => {
            let to = gid_of(meta.destination);
            let mad = datagram
                .get(..datagram.len().saturating_sub(ICRC_BYTES))
                .and_then(|transport| Packet::parse(transport).ok())
                .and_then(|packet| <&[u8; MAD]>::try_from(packet.payload).ok());
            mad.is_some_and(|mad| matches!(owner_of_mad(engine, &to, mad), Owner::Other(_)))
        }
        Some(qpn) => {
            let owner = engine.owner_of_packets(qpn);
            owner.is_some_and(|owner| owner != engine.registry.me())
        }
        None => false,
    }
}

/// The destination queue pair in a packet's base transport header.
pub(super) fn destination(datagram: &[u8]) -> Option<u32> {
    let bytes = datagram.get(5..8)?;
    Some(u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]))
}

/// What the kernel said of a run, for the process that it is handed over to; `segment` is the length of its packets.
fn write_meta(meta: &RxMeta, segment: u16) -> [u8; HAND_OVER_HEAD] {
    let mut head = [0; HAND_OVER_HEAD];
    head[0] = if meta.source.is_ipv6() { 6 } else { 4 };
    (head[1], head[2]) = (meta.tos, meta.hop_limit);
    head[4..6].copy_from_slice(&meta.source_port.to_be_bytes());
    head[6..8].copy_from_slice(&segment.to_be_bytes());
    head[8..12].copy_from_slice(&meta.ifindex.to_be_bytes());
    head[16..32].copy_from_slice(&gid_of(meta.source).0);
    head[32..48].copy_from_slice(&gid_of(meta.destination).0);
    head
}

fn read_meta(head: &[u8]) -> Option<RxMeta> {
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let address = |at: usize| -> Option<IpAddr> {
        let bytes: [u8; 16] = head[at..at + 16].try_into().ok()?;
        let address = address_of(&Gid(bytes));
        (address.is_ipv6() == (head[0] == 6)).then_some(address)
    };
    Some(RxMeta {
        source: address(16)?,
        source_port: word(4),
        destination: address(32)?,
        ifindex: u32::from(word(8)) << 16 | u32::from(word(10)),
        tos: head[1],
        hop_limit: head[2],
        segment: word(6),
    })
}

/// What a batch of packets brought is answered and told.
fn turn(
    engine: &Engine,
    touched: &mut ArrayVec<Arc<Qp>, TOUCHED>,
    owing: &mut ArrayVec<Arc<Qp>, TOUCHED>,
    catch: &mut Catch<'_>,
) {
    for qp in touched.drain(..) {
        if !qp.turn_packets(engine, catch) || owing.iter().any(|other| Arc::ptr_eq(other, &qp)) {
            continue;
        }
        if let Err(full) = owing.try_push(qp) {
            full.element().send_owed(engine);
        }
    }
}

/// What stands for the service level in the completion of a RoCEv2 datagram, which has none: the kind of its network header, as ConnectX adapters
/// report it. A completion has no other place for what annex A17 (A17.4.5.1) asks it to tell, and UCX before 1.14 reads it there.
fn header_kind(meta: &RxMeta) -> Sl {
    const UDP: u8 = 8;
    const IPV6: u8 = 1;
    const IPV4: u8 = 2;
    Sl(UDP | if meta.source.is_ipv4() { IPV4 } else { IPV6 })
}

/// What the kernel shows of the headers below the packets of a run.
fn headers_of(meta: &RxMeta) -> Option<RoceHeaders> {
    let ip = match (meta.source, meta.destination) {
        (IpAddr::V4(from), IpAddr::V4(to)) => RoceIp::v4(from, to, 0),
        (IpAddr::V6(from), IpAddr::V6(to)) => RoceIp::v6(from, to),
        _ => return None,
    };
    Some(RoceHeaders {
        ip,
        source_port: meta.source_port,
    })
}

/// The network header as it stands before a received datagram's payload; an IPv4 header takes the place of the last twenty bytes
/// (annex A17).
fn network_header(
    headers: &RoceHeaders,
    meta: &RxMeta,
    datagram_bytes: usize,
) -> [u8; GRH_BYTES as usize] {
    let mut grh = [0; GRH_BYTES as usize];
    let udp_bytes = UDP_BYTES + datagram_bytes;
    let written = match headers.ip.with_traffic_class(meta.tos) {
        RoceIp::V4(header) => {
            let at = grh.len() - headers.ip.wire_len();
            let header = Ipv4 {
                ttl: meta.hop_limit,
                ..header
            };
            header.emit(udp_bytes, &mut grh[at..]).map(|_| ())
        }
        RoceIp::V6(header) => {
            let header = Grh {
                hop_limit: meta.hop_limit,
                ..header
            };
            header
                .emit(NextHeader::Udp, udp_bytes, &mut grh)
                .map(|_| ())
        }
    };
    debug_assert!(written.is_ok(), "a datagram's length fits its headers");
    grh
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_head_of_a_hand_over_is_read_or_refused_and_a_right_one_comes_back() {
        let mut state = 7u64;
        let mut next = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u8
        };
        let (mut read, mut refused) = (0, 0);
        for round in 0..100_000 {
            let mut head = [0; HAND_OVER_HEAD];
            head.fill_with(&mut next);
            if round % 2 == 0 {
                // addresses of the family that it says, both or one of them
                head[0] = 4;
                for at in [16, 32] {
                    head[at..at + 12].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255]);
                }
                head[16] = u8::from(round % 4 == 0);
            }
            match read_meta(&head) {
                Some(meta) => {
                    read += 1;
                    assert_eq!(read_meta(&write_meta(&meta, meta.segment)), Some(meta));
                }
                None => refused += 1,
            }
        }
        assert!(read > 10_000 && refused > 10_000, "{read} {refused}");
    }
}
