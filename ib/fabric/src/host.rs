//! An adapter's port: who sends what, and how fast after it was told of congestion.
//!
//! Owns the flows of a host and what is told of those that arrive. Must not know routes nor credits. A packet is made when it goes, so what waits at a
//! source is a time and not a queue: a saturated source needs no memory.

use crate::arbiter::{Arbiter, Tables};
use crate::congestion::{Index, Scope, Throttle};
use crate::credit::{BLOCK_BYTES, MOST_DATA_VLS};
use crate::frame::{Frame, FrameKind};
use crate::random::Random;
use crate::switch::{Departure, HEADER_BYTES, Next, PortCounters, Wires};
use crate::time::{ByteTime, LinkRate, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of a congestion notification packet: LRH, BTH, 16 of payload, ICRC, VCRC (IBA A10.3.2).
pub const CNP_BYTES: u16 = 42;
/// LRH, BTH, ICRC and VCRC: what a packet has besides its data.
pub const PACKET_OVERHEAD: u16 = 8 + 12 + 4 + 2;
/// A frame's handle: whether it is the last of its message on top, then the flow of its sender, its birth in nanoseconds below.
const BIRTH_BITS: u32 = 40;
const BIRTH_MASK: u64 = (1 << BIRTH_BITS) - 1;
const LAST: u64 = 1 << 63;
/// Notifications that wait for the wire; more are not sent, the next mark brings another.
const MOST_ANSWERS: usize = 64;

/// Where a flow's packets go.
#[derive(Clone, Debug)]
pub enum Target {
    /// All to one LID.
    One(u32),
    /// Each to any of a list, as likely; never to the sender itself.
    Any(Arc<[u32]>),
    /// One after the other, around, beginning at an index; the sender is passed over.
    Turns(Arc<[u32]>, u32),
    /// These messages, at their times, ascending: [`FlowSpec::pace`], `message_bytes` and `packets` say nothing then.
    Listed(Arc<[Post]>),
}

/// A message that is sent once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Post {
    /// Not before.
    pub at: Time,
    /// Where to.
    pub lid: u32,
    /// Its data; a message without is one packet.
    pub bytes: u32,
}

/// When a flow's messages are born.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pace {
    /// As fast as they go.
    Saturated,
    /// One every so often.
    Every(Time),
    /// At random (a Poisson process), one in so long a time on average.
    About(Time),
}

/// What a host sends.
#[derive(Clone, Debug)]
pub struct FlowSpec {
    /// Where to.
    pub target: Target,
    /// Service level.
    pub sl: u8,
    /// Largest packet, LRH to VCRC, in bytes.
    pub length_bytes: u16,
    /// Data of a message, in bytes: as many packets as it takes, all to one destination and born together. None: a message is one packet.
    pub message_bytes: Option<u32>,
    /// How often a message is born.
    pub pace: Pace,
    /// When the first may be born.
    pub start: Time,
    /// How many packets, if not for ever.
    pub packets: Option<u64>,
}

impl FlowSpec {
    /// Messages may be of several packets.
    pub(crate) fn has_several(&self) -> bool {
        let of = |bytes: u32| Cut::of(bytes, self.length_bytes).packets > 1;
        match &self.target {
            Target::Listed(posts) => posts.iter().any(|post| of(post.bytes)),
            _ => self.message_bytes.is_some_and(of),
        }
    }

    /// The time between packets that takes a share of a link: 1 is all of it.
    pub fn gap(rate: &LinkRate, length_bytes: u16, load: f64) -> Time {
        let wire = rate.wire_time(length_bytes.into()).0 as f64;
        Time((wire / load.max(1e-9)).round() as u64)
    }

    /// The same between messages of so much data in such packets.
    pub fn message_gap(rate: &LinkRate, length_bytes: u16, message_bytes: u32, load: f64) -> Time {
        let cut = Cut::of(message_bytes, length_bytes);
        let whole = rate.wire_time(length_bytes.into()).0 as f64;
        let last = rate.wire_time(cut.last_bytes.into()).0 as f64;
        let wire = whole * f64::from(cut.packets - 1) + last;
        Time((wire / load.max(1e-9)).round() as u64)
    }
}

/// The bit of a service level that says: slow lane. Levels below it are the fast lanes'.
pub const SLOW: u8 = 8;

/// A message cut into packets.
#[derive(Clone, Copy, Debug)]
struct Cut {
    packets: u32,
    /// The last one's, LRH to VCRC.
    last_bytes: u16,
}

impl Cut {
    fn of(bytes: u32, length_bytes: u16) -> Cut {
        let data = u32::from(length_bytes.saturating_sub(PACKET_OVERHEAD)).max(1);
        let packets = bytes.div_ceil(data).max(1);
        let last = bytes - (packets - 1) * data;
        Cut {
            packets,
            last_bytes: (last as u16).saturating_add(PACKET_OVERHEAD),
        }
    }
}

/// A flow: what each packet looks at comes first, in two lines of memory.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Flow {
    /// The next packet's.
    birth: Time,
    left: u64,
    random: Random,
    dlid: u32,
    /// Packets of the message at hand that are still to go, and of how many that is.
    in_message: u32,
    of_message: u32,
    turn: u32,
    length_bytes: u16,
    last_bytes: u16,
    sl: u8,
    vl: u8,
    /// Its own LID is one of its targets.
    among: bool,
    pace: Pace,
    target: Target,
    index: Index,
    /// The service level of its own, and when its first message may be born.
    own_sl: u8,
    start: Time,
}

const _: () = assert!(std::mem::offset_of!(Flow, target) == 64);

impl Flow {
    fn blocks(&self) -> u16 {
        self.next_bytes().div_ceil(BLOCK_BYTES)
    }

    #[inline]
    fn next_bytes(&self) -> u16 {
        match self.in_message {
            1 => self.last_bytes,
            _ => self.length_bytes,
        }
    }

    /// Where the next message goes, and of how many packets it is.
    #[inline]
    fn draw(&mut self, own: u32) {
        match &self.target {
            Target::One(lid) => self.dlid = *lid,
            Target::Any(lids) => {
                // The sender's own place is taken by the last of the list.
                let others = lids.len() as u32 - u32::from(self.among);
                let lid = lids[self.random.below(others) as usize];
                self.dlid = if lid == own {
                    lids[lids.len() - 1]
                } else {
                    lid
                };
            }
            Target::Turns(lids, _) => {
                for _ in 0..2 {
                    self.dlid = lids[self.turn as usize % lids.len()];
                    self.turn = self.turn.wrapping_add(1);
                    if self.dlid != own {
                        break;
                    }
                }
            }
            Target::Listed(posts) => {
                let post = posts[self.turn as usize];
                self.turn += 1;
                let cut = Cut::of(post.bytes, self.length_bytes);
                (self.of_message, self.last_bytes) = (cut.packets, cut.last_bytes);
                (self.dlid, self.birth) = (post.lid, post.at.max(self.start));
            }
        }
        self.in_message = self.of_message;
    }
}

/// What an arrival asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// The flow of its sender.
    pub flow: u32,
    /// When it was born, to the nanosecond.
    pub birth: Time,
    /// It was a notification, no packet of a flow.
    pub notification: bool,
    /// It was the last packet of its message.
    pub last: bool,
    /// The adapter has something to send now that it had not before.
    pub poke: bool,
}

/// An adapter with one port: three lines of memory that each packet looks at, of which what arrives meets the first.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Adapter {
    free_at: Time,
    byte: ByteTime,
    /// The part of [`PortCounters`] that each packet counts in.
    xmit_bytes: u64,
    xmit_packets: u64,
    rcv_bytes: u64,
    rcv_packets: u64,
    cold: Box<Cold>,
    lid: u32,
    data_vls: u8,
    flags: u8,
    /// Mostly it has one.
    first: Option<Flow>,
}

/// A flow's lane is always the same.
const FIXED: u8 = 1;
/// It has one flow, and nobody slows it down.
const SINGLE: u8 = 2;
/// Notifications wait for the wire.
const ANSWERS: u8 = 4;
/// It lacks credits, since [`Cold::blocked_since`].
const BLOCKED: u8 = 8;

/// What few packets look at, and none of an adapter that has one flow, one lane and no congestion control.
#[derive(Clone, Debug)]
struct Cold {
    answers: VecDeque<Frame>,
    arbiter: Option<Box<Arbiter>>,
    throttle: Option<Arc<Throttle>>,
    /// The flow that sent last.
    last: usize,
    /// Flows behind the first.
    others: Vec<Flow>,
    rate: LinkRate,
    sl2vl: [u8; 16],
    /// The service level for each destination, by LID; empty: each flow has its own for all.
    path_levels: Arc<[u8]>,
    /// By LID: flows to it go in the slow lane.
    slow: Arc<[bool]>,
    /// By SL, if indices are per SL.
    levels: Vec<Index>,
    /// Since when it lacks credits, or never.
    blocked_since: Time,
    /// The rest of its counters.
    counters: PortCounters,
}

const _: () = assert!(size_of::<Option<Flow>>() == 128);
const _: () = assert!(size_of::<Adapter>() == 192);

impl Adapter {
    /// An adapter of a LID at a link.
    pub fn new(lid: u32, rate: LinkRate, data_vls: u8) -> Adapter {
        let data_vls = data_vls.clamp(1, MOST_DATA_VLS);
        Adapter {
            free_at: Time::ZERO,
            byte: rate.byte_time(),
            xmit_bytes: 0,
            xmit_packets: 0,
            rcv_bytes: 0,
            rcv_packets: 0,
            cold: Box::new(Cold {
                answers: VecDeque::new(),
                arbiter: (data_vls > 1).then(|| Box::new(Arbiter::new(&Tables::even(data_vls)))),
                throttle: None,
                last: 0,
                others: Vec::new(),
                rate,
                sl2vl: std::array::from_fn(|sl| (sl as u8).min(data_vls - 1)),
                path_levels: Arc::new([]),
                slow: Arc::new([]),
                levels: Vec::new(),
                blocked_since: Time::NEVER,
                counters: PortCounters::default(),
            }),
            lid,
            data_vls,
            flags: FIXED,
            first: None,
        }
    }

    #[inline]
    const fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    const fn set(&mut self, flag: u8, to: bool) {
        match to {
            true => self.flags |= flag,
            false => self.flags &= !flag,
        }
    }

    fn flow_count(&self) -> usize {
        usize::from(self.first.is_some()) + self.cold.others.len()
    }

    #[inline]
    fn flow(&self, at: usize) -> Option<&Flow> {
        match at.checked_sub(1) {
            None => self.first.as_ref(),
            Some(other) => self.cold.others.get(other),
        }
    }

    #[inline]
    fn flow_mut(&mut self, at: usize) -> Option<&mut Flow> {
        match at.checked_sub(1) {
            None => self.first.as_mut(),
            Some(other) => self.cold.others.get_mut(other),
        }
    }

    /// SL to VL. What names no data VL of the link never goes.
    pub fn set_sl2vl(&mut self, map: [u8; 16]) {
        self.cold.sl2vl = map;
        self.set_lanes();
    }

    /// The service level that packets to each LID must have, whatever their flow says: what a path record would tell. Empty: each flow's own.
    pub fn set_path_levels(&mut self, levels: &Arc<[u8]>) {
        self.cold.path_levels = levels.clone();
        self.set_lanes();
    }

    /// Packets to these LIDs go at their service level with [`SLOW`] from now on, and to others at their own.
    pub fn set_slow(&mut self, slow: &Arc<[bool]>) {
        self.cold.slow = slow.clone();
        self.set_lanes();
    }

    fn set_lanes(&mut self) {
        let fixed = self.cold.path_levels.is_empty() && self.cold.slow.is_empty();
        self.set(FIXED, fixed);
        for at in 0..self.flow_count() {
            self.set_lane(at);
        }
    }

    /// The lane of a flow's next packet.
    #[inline]
    fn set_lane(&mut self, at: usize) {
        let Cold {
            others,
            path_levels,
            slow,
            sl2vl,
            ..
        } = &mut *self.cold;
        let flow = match at.checked_sub(1) {
            None => self.first.as_mut(),
            Some(other) => others.get_mut(other),
        };
        let Some(flow) = flow else {
            return;
        };
        let level = path_levels.get(flow.dlid as usize);
        flow.sl = level.map_or(flow.own_sl, |level| *level) & 15;
        if slow.get(flow.dlid as usize) == Some(&true) {
            flow.sl |= SLOW;
        }
        flow.vl = sl2vl[usize::from(flow.sl)];
    }

    /// VL arbitration. With one data VL there is nothing to arbitrate.
    pub fn set_arbitration(&mut self, tables: &Tables) {
        if self.data_vls > 1 {
            self.cold.arbiter = Some(Box::new(Arbiter::new(tables)));
        }
    }

    /// It slows down by this when it is told.
    pub fn set_throttle(&mut self, throttle: &Arc<Throttle>) {
        self.cold.levels = vec![Index::new(throttle); 16];
        for flow in self.first.iter_mut().chain(&mut self.cold.others) {
            flow.index = Index::new(throttle);
        }
        self.cold.throttle = Some(throttle.clone());
        self.set(SINGLE, false);
    }

    /// A flow more; its number at this adapter.
    pub fn add_flow(&mut self, spec: FlowSpec, seed: u64) -> u32 {
        let number = self.flow_count();
        let somewhere = match &spec.target {
            Target::One(_) => true,
            Target::Any(lids) | Target::Turns(lids, _) => lids.iter().any(|lid| *lid != self.lid),
            Target::Listed(posts) => !posts.is_empty(),
        };
        let mut random = Random::new(seed, u64::from(self.lid) << 24 | number as u64);
        let turn = match &spec.target {
            Target::Turns(_, begin) => *begin,
            _ => 0,
        };
        let birth = match spec.pace {
            Pace::Saturated | Pace::Every(_) => spec.start,
            Pace::About(mean) => spec.start + exponential(&mut random, mean),
        };
        let cut = match spec.message_bytes {
            Some(bytes) => Cut::of(bytes, spec.length_bytes),
            None => Cut {
                packets: 1,
                last_bytes: spec.length_bytes,
            },
        };
        let data = u32::from(spec.length_bytes.saturating_sub(PACKET_OVERHEAD));
        let packets_of = |posts: &[Post]| {
            let of = |post: &Post| u64::from(post.bytes.div_ceil(data.max(1)).max(1));
            posts.iter().map(of).sum()
        };
        let left = match (&spec.target, somewhere) {
            (_, false) => 0,
            (Target::Listed(posts), _) => packets_of(posts),
            _ => spec.packets.unwrap_or(u64::MAX),
        };
        let mut flow = Flow {
            birth,
            left,
            dlid: 0,
            in_message: 0,
            of_message: cut.packets,
            length_bytes: spec.length_bytes,
            last_bytes: cut.last_bytes,
            sl: 0,
            vl: 0,
            among: match &spec.target {
                Target::Any(lids) => lids.contains(&self.lid),
                _ => false,
            },
            turn,
            random,
            index: self
                .cold
                .throttle
                .as_deref()
                .map(Index::new)
                .unwrap_or_default(),
            pace: spec.pace,
            own_sl: spec.sl,
            start: spec.start,
            target: spec.target,
        };
        if left > 0 {
            flow.draw(self.lid);
        }
        match self.first {
            None => self.first = Some(flow),
            Some(_) => self.cold.others.push(flow),
        }
        let single = self.flow_count() == 1 && self.cold.throttle.is_none();
        self.set(SINGLE, single);
        self.set_lane(number);
        number as u32
    }

    /// Its LID.
    pub const fn lid(&self) -> u32 {
        self.lid
    }

    /// Its link.
    pub fn rate(&self) -> &LinkRate {
        &self.cold.rate
    }

    /// The end of its last packet.
    pub(crate) const fn free_at(&self) -> Time {
        self.free_at
    }

    /// Its port's counters, with the time that it lacks credits until now.
    pub fn counters_at(&self, now: Time) -> PortCounters {
        PortCounters {
            xmit_bytes: self.xmit_bytes,
            xmit_packets: self.xmit_packets,
            rcv_bytes: self.rcv_bytes,
            rcv_packets: self.rcv_packets,
            // never is later than any now
            xmit_wait: self.cold.counters.xmit_wait + now.since(self.cold.blocked_since),
            ..self.cold.counters
        }
    }

    /// Counts from 0 again, as of now.
    pub fn clear_counters(&mut self, now: Time) {
        self.cold.counters = PortCounters::default();
        (self.xmit_bytes, self.xmit_packets) = (0, 0);
        (self.rcv_bytes, self.rcv_packets) = (0, 0);
        if self.cold.blocked_since != Time::NEVER {
            self.cold.blocked_since = now;
        }
    }

    /// Counts an error that the link found in a packet.
    pub fn receive_error(&mut self) {
        self.cold.counters.rcv_errors += 1;
    }

    /// The congestion control index of a flow now; 0 without congestion control.
    pub fn ccti(&mut self, now: Time, flow: u32) -> u16 {
        let Some(rule) = self.cold.throttle.clone() else {
            return 0;
        };
        self.index(flow as usize)
            .map_or(0, |index| index.now(&rule, now))
    }

    fn index(&mut self, flow: usize) -> Option<&mut Index> {
        match self.cold.throttle.as_ref()?.scope {
            Scope::QueuePair => Some(&mut self.flow_mut(flow)?.index),
            Scope::ServiceLevel => {
                let level = self.flow(flow)?.sl;
                self.cold.levels.get_mut(usize::from(level))
            }
        }
    }

    /// When a packet's last bit comes, by its link.
    #[inline]
    pub(crate) fn tail(&self, frame: &Frame, header_at: Time) -> Time {
        let first = header_at.since(self.byte.wire_time(HEADER_BYTES));
        first + self.byte.wire_time(frame.length_bytes.into())
    }

    /// A frame's header has come. It is taken as fast as it comes.
    #[inline]
    pub fn arrives(&mut self, now: Time, frame: &Frame) -> Delivery {
        self.rcv_packets += 1;
        self.rcv_bytes += u64::from(frame.length_bytes);
        let flow = ((frame.handle & !LAST) >> BIRTH_BITS) as u32;
        let mut poke = false;
        if frame.becn
            && let Some(rule) = self.cold.throttle.clone()
            && let Some(index) = self.index(flow as usize)
        {
            index.becn(&rule, now);
        }
        if frame.fecn && !frame.becn && self.cold.answers.len() < MOST_ANSWERS {
            let back = self.cold.path_levels.get(frame.slid as usize);
            self.cold.answers.push_back(Frame {
                dlid: frame.slid,
                slid: self.lid,
                sl: back.map_or(frame.sl, |level| *level),
                length_bytes: CNP_BYTES,
                fecn: false,
                becn: true,
                ..*frame
            });
            self.set(ANSWERS, true);
            poke = true;
        }
        Delivery {
            flow,
            birth: Time::from_ns(frame.handle & BIRTH_MASK),
            notification: frame.becn,
            last: frame.handle & LAST != 0,
            poke,
        }
    }

    /// When [`Self::next`] has something to send if nothing else happens.
    #[inline]
    pub fn wakes_at(&self) -> Time {
        if self.is(ANSWERS) {
            return self.free_at;
        }
        let of = |flow: &Flow| {
            if flow.left == 0 || flow.vl >= self.data_vls {
                return Time::NEVER;
            }
            let delayed = match self.cold.throttle.as_ref().map(|rule| rule.scope) {
                None => Time::ZERO,
                Some(Scope::QueuePair) => flow.index.not_before(),
                Some(Scope::ServiceLevel) => self.cold.levels[usize::from(flow.sl)].not_before(),
            };
            flow.birth.max(delayed).max(self.free_at)
        };
        match &self.first {
            Some(flow) if self.is(SINGLE) => {
                if flow.left == 0 || flow.vl >= self.data_vls {
                    return Time::NEVER;
                }
                flow.birth.max(self.free_at)
            }
            first => {
                let flows = first.iter().chain(&self.cold.others);
                flows.map(of).min().unwrap_or(Time::NEVER)
            }
        }
    }

    /// The next frame, as of [`crate::switch::Switch::next`]; its port is 1.
    #[inline]
    pub fn next(&mut self, now: Time, wires: &impl Wires) -> Next {
        if self.free_at > now {
            return Next::Until(self.free_at);
        }
        if self.is(ANSWERS)
            && let Some(answer) = self.next_answer(now, wires)
        {
            return answer;
        }
        self.next_of_flows(now, wires)
    }

    #[cold]
    fn next_answer(&mut self, now: Time, wires: &impl Wires) -> Option<Next> {
        let frame = self.cold.answers.front()?;
        let vl = self.cold.sl2vl[usize::from(frame.sl & 15)];
        let goes = vl < self.data_vls;
        if goes && !wires.may_send(1, vl, frame.blocks()) {
            return Some(self.blocked(now, Time::NEVER));
        }
        let frame = Frame { vl, ..*frame };
        self.cold.answers.pop_front();
        let more = !self.cold.answers.is_empty();
        self.set(ANSWERS, more);
        goes.then(|| Next::Sent(self.go(now, wires.free_at(1), frame)))
    }

    #[inline]
    fn next_of_flows(&mut self, now: Time, wires: &impl Wires) -> Next {
        if self.is(SINGLE) {
            return self.next_of_one(now, wires);
        }
        let count = self.flow_count();
        let (mut ready, mut until, mut starved) = (0u16, Time::NEVER, 0u16);
        let mut chosen = [(0usize, 0u16); 16];
        for step in 1..=count {
            let mut at = self.cold.last + step;
            if at >= count {
                at -= count;
            }
            let Some(flow) = self.flow(at) else {
                continue;
            };
            let lane = 1u16 << (flow.vl & 15);
            // One flow of a VL is enough, and no other goes before one that waits for credits.
            if flow.left == 0 || flow.vl >= self.data_vls || (ready | starved) & lane != 0 {
                continue;
            }
            let mut when = flow.birth;
            if let Some(rule) = &self.cold.throttle {
                let index = match rule.scope {
                    Scope::QueuePair => &flow.index,
                    Scope::ServiceLevel => &self.cold.levels[usize::from(flow.sl)],
                };
                when = when.max(index.not_before());
            }
            if when > now {
                until = until.min(when);
                continue;
            }
            let blocks = flow.blocks();
            if wires.may_send(1, flow.vl, blocks) {
                ready |= lane;
                chosen[usize::from(flow.vl)] = (at, blocks);
            } else {
                starved |= lane;
            }
        }
        let lane = match &mut self.cold.arbiter {
            _ if ready == 0 => None,
            None => Some(ready.trailing_zeros() as u8),
            Some(arbiter) => arbiter.next(ready, |vl| chosen[usize::from(vl)].1),
        };
        let Some(lane) = lane else {
            return match (starved, until) {
                (0, Time::NEVER) => Next::Idle,
                (0, until) => Next::Until(until),
                (_, until) => self.blocked(now, until),
            };
        };
        let at = chosen[usize::from(lane)].0;
        self.cold.last = at;
        let Some(frame) = self.make(now, at) else {
            return Next::Idle;
        };
        let departure = self.go(now, wires.free_at(1), frame);
        if let Some(rule) = self.cold.throttle.clone()
            && let Some(index) = self.index(at)
        {
            index.sent(&rule, departure.start, departure.end);
        }
        Next::Sent(departure)
    }

    /// The same of a single flow that nobody slows down.
    #[inline]
    fn next_of_one(&mut self, now: Time, wires: &impl Wires) -> Next {
        let Some(flow) = &self.first else {
            return Next::Idle;
        };
        if flow.left == 0 || flow.vl >= self.data_vls {
            return Next::Idle;
        }
        if flow.birth > now {
            return Next::Until(flow.birth);
        }
        let blocks = flow.blocks();
        if !wires.may_send(1, flow.vl, blocks) {
            return self.blocked(now, Time::NEVER);
        }
        if self.data_vls > 1
            && let Some(arbiter) = &mut self.cold.arbiter
            && arbiter.next(1 << flow.vl, |_| blocks).is_none()
        {
            return Next::Idle;
        }
        match self.make(now, 0) {
            Some(frame) => Next::Sent(self.go(now, wires.free_at(1), frame)),
            None => Next::Idle,
        }
    }

    fn blocked(&mut self, now: Time, until: Time) -> Next {
        self.set(BLOCKED, true);
        self.cold.blocked_since = now.min(self.cold.blocked_since);
        Next::Blocked(until)
    }

    /// The next packet of a flow.
    #[inline]
    fn make(&mut self, now: Time, at: usize) -> Option<Frame> {
        let own = self.lid;
        let flow = self.flow_mut(at)?;
        let begins = flow.in_message == flow.of_message;
        let listed = matches!(flow.target, Target::Listed(_));
        if begins && !listed && matches!(flow.pace, Pace::Saturated) {
            flow.birth = now.max(flow.birth);
        }
        let birth = (flow.birth.0 / 1_000) & BIRTH_MASK;
        let length_bytes = flow.next_bytes();
        let last = flow.in_message == 1;
        let frame = Frame {
            handle: (at as u64) << BIRTH_BITS | birth | if last { LAST } else { 0 },
            dlid: flow.dlid,
            slid: own,
            length_bytes,
            sl: flow.sl,
            vl: flow.vl,
            kind: FrameKind::Data,
            fecn: false,
            becn: false,
        };
        flow.left -= 1;
        flow.in_message -= 1;
        if last {
            match flow.pace {
                Pace::Saturated => {}
                Pace::Every(gap) => flow.birth += gap,
                Pace::About(mean) => flow.birth += exponential(&mut flow.random, mean),
            }
            if flow.left > 0 {
                flow.draw(own);
                if !self.is(FIXED) {
                    self.set_lane(at);
                }
            }
        }
        Some(frame)
    }

    #[inline]
    fn go(&mut self, now: Time, wire_free: Time, frame: Frame) -> Departure {
        let start = now.max(wire_free);
        let end = start + self.byte.wire_time(frame.length_bytes.into());
        self.free_at = end;
        if self.is(BLOCKED) {
            self.set(BLOCKED, false);
            let since = std::mem::replace(&mut self.cold.blocked_since, Time::NEVER);
            self.cold.counters.xmit_wait += now.since(since);
        }
        self.xmit_packets += 1;
        self.xmit_bytes += u64::from(frame.length_bytes);
        Departure {
            frame,
            port: 1,
            start,
            end,
            release: None,
        }
    }
}

/// A time between two events of a Poisson process.
#[inline]
fn exponential(random: &mut Random, mean: Time) -> Time {
    let unit = 1.0 - random.unit();
    Time((-unit.ln() * mean.0 as f64) as u64)
}
