//! A switch (papers/000 II-E, IBA 18): input buffers, forwarding, SL2VL, and who of the inputs is let through to an output.
//!
//! Owns the frames between their coming and their going, and the counters of ports. Must not know credits (its driver says whether a packet may go)
//! nor who made its tables. Cut-through: [`Switch::arrives`] is called when a frame's header has come and was looked at, not its tail.

use crate::arbiter::{Arbiter, Tables};
use crate::congestion::{Marker, Marking};
use crate::credit::MOST_DATA_VLS;
use crate::frame::{Frame, FrameKind};
use crate::random::Random;
use crate::time::{ByteTime, LinkRate, Time};

mod forwarding;
mod pass;
mod port_set;
mod queues;
mod tables;

use forwarding::Forwarding;
pub use port_set::PortSet;
use port_set::{after, has, is_empty, members, put, take};
use queues::{Cell, Queues};

/// First multicast LID (IBA 4.1.3).
pub const FIRST_MULTICAST: u32 = 0xc000;
/// Last one; 0xffff is the permissive LID.
pub const LAST_MULTICAST: u32 = 0xfffe;
/// A linear table's "no port": the packet is dropped (IBA 14.2.5.10).
pub const NO_PORT: u8 = 255;
/// Bytes of a local route header: what must have come before a packet is forwarded.
pub const HEADER_BYTES: u32 = 8;
const NONE: u32 = u32::MAX;

/// How the input buffers are built.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Buffering {
    /// A FIFO for each VL of an input, one packet leaves an input at a time: who waits at its head blocks those behind (papers/000 Fig. 12).
    Fifo,
    /// A queue for each output at each input, read at as many outputs at a time as want to: nobody blocks others.
    #[default]
    VirtualOutput,
}

/// What joins inputs and outputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Crossbar {
    /// Any free output with any input.
    #[default]
    Full,
    /// One packet at a time in the whole switch, inputs in turn: an input's share is that of its turn, whatever output its packet wants. What
    /// papers/000 presumes in the fourth step of its example (Fig. 12), where it caps all that leaves port y at y's share of port r.
    Shared,
}

/// Who of the inputs comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pick {
    /// Packet by packet in turn.
    #[default]
    RoundRobin,
    /// Any, each as likely.
    Random,
}

/// How a switch is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchModel {
    /// Data VLs, 1 ..= 15.
    pub data_vls: u8,
    /// Input buffers.
    pub buffering: Buffering,
    /// What is behind them.
    pub crossbar: Crossbar,
    /// Who comes next.
    pub pick: Pick,
    /// From a header's last bit to its decision.
    pub latency: Time,
    /// Where packets are marked; none are if this is none.
    pub marking: Option<Marking>,
}

impl SwitchModel {
    /// An output that is asked and sends nothing is as it was, and what it would send depends on no other output.
    pub(crate) fn looks_change_nothing(&self) -> bool {
        self.buffering == Buffering::VirtualOutput
            && self.crossbar == Crossbar::Full
            && self.pick == Pick::RoundRobin
    }
}

impl Default for SwitchModel {
    fn default() -> Self {
        SwitchModel {
            data_vls: 1,
            buffering: Buffering::default(),
            crossbar: Crossbar::default(),
            pick: Pick::default(),
            latency: Time::from_ns(100),
            marking: None,
        }
    }
}

/// Counters of a port, as PerfMgt knows them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortCounters {
    /// Bytes sent, LRH to VCRC. (PortXmitData counts 4-byte words.)
    pub xmit_bytes: u64,
    /// Packets sent.
    pub xmit_packets: u64,
    /// Bytes received.
    pub rcv_bytes: u64,
    /// Packets received. (A switch leaves what is received to its driver, which counts it where it looks anyway.)
    pub rcv_packets: u64,
    /// Time with a packet to send that lacked credits, while nothing was sent.
    pub xmit_wait: Time,
    /// Packets that were to leave here and were dropped: no VL for them, or back where they came from.
    pub xmit_discards: u64,
    /// Packets that came and were dropped: no route for them, or no room.
    pub rcv_discards: u64,
    /// Packets that came with an error.
    pub rcv_errors: u64,
    /// Packets that were marked with FECN.
    pub marked: u64,
}

/// What became of a frame that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// It is in the buffer.
    Kept,
    /// It goes to a faster link and must wait until it can go without a gap: let it arrive once more then.
    Later(Time),
    /// There is no way for it: its buffer is free at once.
    Dropped,
}

/// Buffer space that becomes free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Release {
    /// At the input of this port.
    pub port: u8,
    /// Of this VL.
    pub vl: u8,
    /// So many blocks.
    pub blocks: u16,
    /// At this time.
    pub at: Time,
}

/// A frame that leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Departure {
    /// The frame, with the VL of the link that it goes to.
    pub frame: Frame,
    /// By this port.
    pub port: u8,
    /// Its first bit goes.
    pub start: Time,
    /// Its last has gone.
    pub end: Time,
    /// What it leaves free; nothing while copies of it are to go elsewhere, nothing for management.
    pub release: Option<Release>,
}

/// What an output does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// A frame goes.
    Sent(Departure),
    /// Ask again at that time: the wire, or all that could go, is busy until then.
    Until(Time),
    /// Frames are there, but no credits for them. What is busy until that time (or never) may go then.
    Blocked(Time),
    /// Nothing is there.
    Idle,
}

/// What a machine's driver knows of the wires behind its ports.
pub trait Wires {
    /// When the wire of a port is free: flow-control packets may be on it.
    fn free_at(&self, port: u8) -> Time;
    /// A packet of so many blocks of a data VL may go by a port: there are credits for it.
    fn may_send(&self, port: u8, vl: u8, blocks: u16) -> bool;
}

/// The copies of a multicast frame that are still to go.
#[derive(Clone, Copy, Debug)]
struct Copies {
    to: PortSet,
    left: u32,
    until: Time,
}

/// An output's lane.
#[derive(Clone, Debug)]
struct Lane {
    /// Inputs that have a frame for it which may be taken.
    asks: PortSet,
    /// The input that was served last; of the first lane it is in [`Output`].
    last: u8,
    /// A frame waits for credits.
    starved: bool,
    /// Blocks that wait for it in the whole switch.
    waiting: u32,
    marker: Marker,
}

/// What a packet that passes changes of a port: half a line of memory.
#[derive(Clone, Debug)]
#[repr(align(32))]
struct Output {
    /// The end of its last packet.
    free_at: Time,
    /// The part of [`PortCounters`] that each packet counts in here.
    xmit_bytes: u64,
    xmit_packets: u64,
    /// Lanes with frames, VL15 the last.
    lanes: u16,
    /// The input that its first lane served last.
    last: u8,
    up: bool,
    victim_mask: bool,
    /// It lacks credits, since [`Switch::blocked_since`].
    blocked: bool,
}

const _: () = assert!(size_of::<Output>() == 32);

/// A switch. Ports count from 1. What a packet that passes looks at comes first, in few lines of memory.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Switch {
    linear: Forwarding,
    outputs: Vec<Output>,
    /// By lane and port: those of the first lie together.
    lanes: Vec<Lane>,
    /// Lanes of a port: data VLs and VL15.
    lanes_each: usize,
    /// An idle output has nothing to decide about: see [`Self::may_pass`].
    passes: bool,
    /// All its links are as fast: the first of [`Self::bytes`] is that of all.
    even: bool,
    ports: u8,
    model: SwitchModel,
    /// By input, output and SL; empty: the SL is the VL, as far as there are VLs.
    sl2vl: Vec<[u8; 16]>,
    /// By port; empty where there is one data VL.
    arbiters: Vec<Option<Box<Arbiter>>>,
    pokes: Vec<(u8, Time)>,
    queues: Queues,
    /// When an input FIFO's port to the crossbar is free.
    input_free: Vec<Time>,
    shared_free: Time,
    shared_last: u8,
    /// By port.
    bytes: Vec<ByteTime>,
    /// By port: since when it lacks credits, or never.
    blocked_since: Vec<Time>,
    /// What seldom changes of a port's counters; the rest is in [`Output`].
    counters: Vec<PortCounters>,
    multicast: Vec<PortSet>,
    copies: Vec<Copies>,
    free_copies: Vec<u32>,
    random: Random,
}

impl Switch {
    /// A switch of `rates.len()` ports, whose links are so fast, without tables: it drops everything.
    pub fn new(model: SwitchModel, rates: &[LinkRate], seed: u64) -> Switch {
        let model = SwitchModel {
            data_vls: model.data_vls.clamp(1, MOST_DATA_VLS),
            ..model
        };
        let ports = rates.len().min(254) as u8;
        let slots = usize::from(ports) + 1;
        let lanes_each = usize::from(model.data_vls) + 1;
        let byte = |port: usize| rates[port.saturating_sub(1).min(rates.len() - 1)].byte_time();
        let output = Output {
            free_at: Time::ZERO,
            xmit_bytes: 0,
            xmit_packets: 0,
            lanes: 0,
            last: 0,
            up: true,
            victim_mask: false,
            blocked: false,
        };
        let lane = Lane {
            asks: [0; 4],
            last: 0,
            starved: false,
            waiting: 0,
            marker: Marker::default(),
        };
        let mut made = Switch {
            model,
            ports,
            lanes_each,
            passes: model.looks_change_nothing(),
            even: rates
                .windows(2)
                .all(|two| two[0].byte_time() == two[1].byte_time()),
            linear: Forwarding::default(),
            multicast: Vec::new(),
            sl2vl: Vec::new(),
            outputs: vec![output; slots],
            bytes: (0..slots).map(byte).collect(),
            blocked_since: vec![Time::NEVER; slots],
            arbiters: Vec::new(),
            lanes: vec![lane; slots * lanes_each],
            queues: Queues::new(),
            copies: Vec::new(),
            free_copies: Vec::new(),
            input_free: vec![Time::ZERO; slots],
            shared_free: Time::ZERO,
            shared_last: 0,
            random: Random::new(seed, 0),
            counters: vec![PortCounters::default(); slots],
            pokes: Vec::new(),
        };
        if model.data_vls > 1 {
            let even = Tables::even(model.data_vls);
            (1..=ports).for_each(|port| made.set_arbitration(port, &even));
        }
        made
    }

    /// A port's counters, but for what it received; those of port 0 count nothing.
    pub fn counters(&self, port: u8) -> PortCounters {
        let at = usize::from(port);
        let (Some(seldom), Some(output)) = (self.counters.get(at), self.outputs.get(at)) else {
            return PortCounters::default();
        };
        PortCounters {
            xmit_bytes: output.xmit_bytes,
            xmit_packets: output.xmit_packets,
            ..*seldom
        }
    }

    /// The same, with the time that the port lacks credits until now.
    pub fn counters_at(&self, port: u8, now: Time) -> PortCounters {
        let mut counters = self.counters(port);
        if let Some(since) = self.blocked_since.get(usize::from(port)) {
            // never is later than any now
            counters.xmit_wait += now.since(*since);
        }
        counters
    }

    /// Counts from 0 again, as of now.
    pub fn clear_counters(&mut self, now: Time) {
        self.counters.fill(PortCounters::default());
        for since in &mut self.blocked_since {
            *since = match *since {
                Time::NEVER => Time::NEVER,
                _ => now,
            };
        }
        for output in &mut self.outputs {
            (output.xmit_bytes, output.xmit_packets) = (0, 0);
        }
    }

    /// Counts an error that the link found in a packet to this port.
    pub fn receive_error(&mut self, port: u8) {
        if let Some(counters) = self.counters.get_mut(usize::from(port)) {
            counters.rcv_errors += 1;
        }
    }

    /// External ports.
    pub const fn ports(&self) -> u8 {
        self.ports
    }

    /// How it is built.
    pub const fn model(&self) -> &SwitchModel {
        &self.model
    }

    /// Blocks of 64 bytes that wait for an output, or for all of them, copies counted each.
    pub fn waiting_blocks(&self, port: Option<u8>) -> u64 {
        let of = |port: u8| {
            let lanes = (0..self.lanes_each as u8).map(|lane| self.lane_index(port, lane));
            lanes
                .map(|lane| u64::from(self.lanes[lane].waiting))
                .sum::<u64>()
        };
        match port {
            Some(port) if port <= self.ports => of(port),
            Some(_) => 0,
            None => (0..=self.ports).map(of).sum(),
        }
    }

    /// Outputs that are to be asked by [`Self::next`], each with the time for it. To be emptied after each call that changes something.
    #[inline]
    pub fn pop_poke(&mut self) -> Option<(u8, Time)> {
        self.pokes.pop()
    }

    /// The end of a port's last packet.
    pub(crate) fn free_at(&self, port: u8) -> Time {
        let output = self.outputs.get(usize::from(port));
        output.map_or(Time::ZERO, |output| output.free_at)
    }

    /// An output has frames that could be asked for.
    #[inline]
    pub fn has_work(&self, port: u8) -> bool {
        self.outputs[usize::from(port)].lanes != 0
    }

    fn plain_vl(&self, sl: u8) -> u8 {
        sl.min(self.model.data_vls - 1)
    }

    /// The lane behind an output: a data VL, VL15's, or none.
    #[inline]
    fn lane_for(&self, input: u8, output: u8, frame: &Frame) -> Option<u8> {
        if frame.kind == FrameKind::Management {
            return Some(self.model.data_vls);
        }
        let vl = match self.sl2vl.is_empty() {
            true => self.plain_vl(frame.sl),
            false => {
                let row = usize::from(input) * (usize::from(self.ports) + 1) + usize::from(output);
                self.sl2vl[row][usize::from(frame.sl & 15)]
            }
        };
        (vl < self.model.data_vls).then_some(vl)
    }

    #[inline]
    fn lane_index(&self, port: u8, lane: u8) -> usize {
        usize::from(lane) * (usize::from(self.ports) + 1) + usize::from(port)
    }

    /// The queue of a frame that came by `input` with `lane_in` and goes to `output` on `lane_out`.
    #[inline]
    fn queue_index(&self, input: u8, lane_in: u8, output: u8, lane_out: u8) -> usize {
        match self.model.buffering {
            Buffering::Fifo => self.lane_index(input, lane_in),
            Buffering::VirtualOutput => {
                let slots = usize::from(self.ports) + 1;
                let pair = usize::from(input) * slots + usize::from(output);
                match lane_out == self.model.data_vls {
                    true => slots * slots * usize::from(self.model.data_vls) + pair,
                    false => pair * usize::from(self.model.data_vls) + usize::from(lane_out),
                }
            }
        }
    }

    /// The lane that a frame came by: VL15's is the last.
    #[inline]
    fn lane_in(&self, frame: &Frame) -> u8 {
        match frame.kind {
            FrameKind::Management => self.model.data_vls,
            FrameKind::Data => frame.vl.min(self.model.data_vls - 1),
        }
    }

    /// A frame's header has come by a port, at `header_at` (before now only for one that was told [`Arrival::Later`]). The driver has taken its
    /// blocks from the port's buffer already, and gives them back when it is dropped.
    #[inline]
    pub fn arrives(&mut self, now: Time, header_at: Time, input: u8, frame: Frame) -> Arrival {
        if (FIRST_MULTICAST..=LAST_MULTICAST).contains(&frame.dlid)
            && self.linear.lids() <= FIRST_MULTICAST
        {
            return self.spread(now, header_at, input, frame);
        }
        let out = self.linear.get(frame.dlid).unwrap_or(NO_PORT);
        if out == 0 || out > self.ports {
            self.counters[usize::from(input)].rcv_discards += 1;
            return Arrival::Dropped;
        }
        let lane = self.lane_for(input, out, &frame);
        let goes = out != input && self.outputs[usize::from(out)].up;
        let Some(lane) = lane.filter(|_| goes) else {
            self.counters[usize::from(out)].xmit_discards += 1;
            return Arrival::Dropped;
        };
        let later = header_at + self.lead(input, out, &frame);
        if later > now {
            return Arrival::Later(later);
        }
        self.keep(now, input, out, lane, frame, NONE);
        Arrival::Kept
    }

    /// What a byte takes on a port's link.
    #[inline]
    fn byte_of(&self, port: u8) -> ByteTime {
        self.bytes[if self.even { 0 } else { usize::from(port) }]
    }

    /// How long after its header a packet may begin to go so that a faster output does not run dry.
    #[inline]
    fn lead(&self, input: u8, out: u8, frame: &Frame) -> Time {
        if self.even {
            return Time::ZERO;
        }
        let rate_in = self.byte_of(input);
        let rate_out = self.byte_of(out);
        if !rate_out.faster_than(rate_in) {
            return Time::ZERO;
        }
        let length = u32::from(frame.length_bytes);
        let header = rate_in.wire_time(HEADER_BYTES.min(length));
        rate_in
            .wire_time(length)
            .since(header)
            .since(rate_out.wire_time(length))
    }

    /// Puts a frame, or a copy of it, into its queue.
    #[inline]
    fn keep(&mut self, now: Time, input: u8, out: u8, lane: u8, frame: Frame, copies: u32) {
        let at = self.lane_index(out, lane);
        self.lanes[at].waiting += u32::from(frame.blocks());
        let queue = self.queue_index(input, self.lane_in(&frame), out, lane);
        let cell = Cell {
            frame,
            copies,
            out,
            out_lane: lane,
        };
        if self.queues.append(queue, cell) {
            self.expose(now, input, queue);
        }
    }

    /// A multicast frame: a copy for each port of its row but that by which it came.
    fn spread(&mut self, now: Time, header_at: Time, input: u8, frame: Frame) -> Arrival {
        let row = (frame.dlid - FIRST_MULTICAST) as usize;
        let mut to = self.multicast.get(row).copied().unwrap_or_default();
        take(&mut to, input);
        let mut later = header_at;
        for port in members(to) {
            if port == 0 || port > self.ports {
                take(&mut to, port);
                continue;
            }
            let up = self.outputs[usize::from(port)].up;
            if !up || self.lane_for(input, port, &frame).is_none() {
                self.counters[usize::from(port)].xmit_discards += 1;
                take(&mut to, port);
                continue;
            }
            later = later.max(header_at + self.lead(input, port, &frame));
        }
        if is_empty(&to) {
            self.counters[usize::from(input)].rcv_discards += 1;
            return Arrival::Dropped;
        }
        if later > now {
            return Arrival::Later(later);
        }
        let copies = Copies {
            to,
            left: members(to).count() as u32,
            until: now,
        };
        let index = match self.free_copies.pop() {
            Some(index) => {
                self.copies[index as usize] = copies;
                index
            }
            None => {
                self.copies.push(copies);
                self.copies.len() as u32 - 1
            }
        };
        match self.model.buffering {
            Buffering::VirtualOutput => {
                for port in members(to) {
                    if let Some(lane) = self.lane_for(input, port, &frame) {
                        self.keep(now, input, port, lane, frame, index);
                    }
                }
            }
            Buffering::Fifo => {
                for port in members(to) {
                    if let Some(lane) = self.lane_for(input, port, &frame) {
                        let at = self.lane_index(port, lane);
                        self.lanes[at].waiting += u32::from(frame.blocks());
                    }
                }
                let queue = self.lane_index(input, self.lane_in(&frame));
                let cell = Cell {
                    frame,
                    copies: index,
                    out: 0,
                    out_lane: 0,
                };
                if self.queues.append(queue, cell) {
                    self.expose(now, input, queue);
                }
            }
        }
        Arrival::Kept
    }

    /// The head of a queue asks for its output, or outputs.
    #[inline]
    fn expose(&mut self, now: Time, input: u8, queue: usize) {
        let Some(cell) = self.queues.head(queue) else {
            return;
        };
        if cell.copies == NONE || self.model.buffering == Buffering::VirtualOutput {
            let (out, lane) = (cell.out, cell.out_lane);
            return self.ask(now, input, out, lane);
        }
        let cell = *cell;
        let to = self.copies[cell.copies as usize].to;
        for port in members(to) {
            if let Some(lane) = self.lane_for(input, port, &cell.frame) {
                self.ask(now, input, port, lane);
            }
        }
    }

    #[inline]
    fn ask(&mut self, now: Time, input: u8, out: u8, lane: u8) {
        let at = self.lane_index(out, lane);
        put(&mut self.lanes[at].asks, input);
        let output = &mut self.outputs[usize::from(out)];
        output.lanes |= 1 << lane;
        let mut when = now.max(output.free_at);
        if self.model.buffering == Buffering::Fifo {
            when = when.max(self.input_free[usize::from(input)]);
        }
        self.pokes.push((out, when.max(self.shared_free)));
    }

    /// The next frame of an output. Management asks for no credits. (With a shared crossbar it may go by another port than the one that was asked.)
    #[inline]
    pub fn next(&mut self, now: Time, port: u8, wires: &impl Wires) -> Next {
        if self.model.crossbar == Crossbar::Shared {
            return self.next_shared(now, wires);
        }
        let output = &self.outputs[usize::from(port)];
        if output.lanes == 0 {
            return Next::Idle;
        }
        if output.free_at > now {
            return Next::Until(output.free_at);
        }
        if output.lanes.is_power_of_two() {
            let lane = output.lanes.trailing_zeros() as u8;
            if self.arbiters.is_empty() || lane == self.model.data_vls {
                return self.next_of_one(now, port, lane, wires);
            }
        }
        let (mut ready, mut until, mut starved) = (0u16, Time::NEVER, false);
        let mut chosen = [(0u8, 0u16); 16];
        let mut lanes = output.lanes;
        while lanes != 0 {
            let lane = lanes.trailing_zeros() as u8;
            lanes &= lanes - 1;
            let at = self.lane_index(port, lane);
            let Some(input) = self.candidate(now, port, lane, &mut until) else {
                continue;
            };
            let blocks = self.blocks_of(input, port, lane);
            if lane < self.model.data_vls && !wires.may_send(port, lane, blocks) {
                self.lanes[at].starved = true;
                starved = true;
                continue;
            }
            ready |= 1 << lane;
            chosen[usize::from(lane)] = (input, blocks);
        }
        if ready != 0
            && let Some(lane) = self.arbitrate(port, ready, &chosen)
        {
            let input = chosen[usize::from(lane)].0;
            return Next::Sent(self.send(now, input, port, lane, wires.free_at(port)));
        }
        if starved {
            self.starve(now, port);
            return Next::Blocked(until);
        }
        match until {
            Time::NEVER => Next::Idle,
            until => Next::Until(until),
        }
    }

    /// The same where only one lane has frames, and there is nothing to arbitrate.
    #[inline]
    fn next_of_one(&mut self, now: Time, port: u8, lane: u8, wires: &impl Wires) -> Next {
        let mut until = Time::NEVER;
        let Some(input) = self.candidate(now, port, lane, &mut until) else {
            return match until {
                Time::NEVER => Next::Idle,
                until => Next::Until(until),
            };
        };
        let blocks = self.blocks_of(input, port, lane);
        if lane < self.model.data_vls && !wires.may_send(port, lane, blocks) {
            let at = self.lane_index(port, lane);
            self.lanes[at].starved = true;
            self.starve(now, port);
            return Next::Blocked(until);
        }
        Next::Sent(self.send(now, input, port, lane, wires.free_at(port)))
    }

    fn starve(&mut self, now: Time, port: u8) {
        self.outputs[usize::from(port)].blocked = true;
        let since = &mut self.blocked_since[usize::from(port)];
        *since = now.min(*since);
    }

    #[inline]
    fn arbitrate(&mut self, port: u8, ready: u16, chosen: &[(u8, u16); 16]) -> Option<u8> {
        let management = self.model.data_vls;
        if ready >> management & 1 == 1 {
            return Some(management);
        }
        match self
            .arbiters
            .get_mut(usize::from(port))
            .and_then(Option::as_mut)
        {
            None => Some(ready.trailing_zeros() as u8),
            Some(arbiter) => arbiter.next(ready, |vl| chosen[usize::from(vl)].1),
        }
    }

    /// The input that an output's lane served last.
    #[inline]
    fn last(&self, port: u8, lane: u8) -> u8 {
        match lane {
            0 => self.outputs[usize::from(port)].last,
            _ => self.lanes[self.lane_index(port, lane)].last,
        }
    }

    #[inline]
    fn set_last(&mut self, port: u8, lane: u8, input: u8) {
        let at = self.lane_index(port, lane);
        match lane {
            0 => self.outputs[usize::from(port)].last = input,
            _ => self.lanes[at].last = input,
        }
    }

    /// The input that is served next among those that ask for a lane and are free; `until` falls to when the first other will be.
    #[inline]
    fn candidate(&mut self, now: Time, port: u8, lane: u8, until: &mut Time) -> Option<u8> {
        let mut set = self.lanes[self.lane_index(port, lane)].asks;
        if self.model.buffering == Buffering::Fifo {
            for input in members(set) {
                let free = self.input_free[usize::from(input)];
                if free > now {
                    take(&mut set, input);
                    *until = free.min(*until);
                }
            }
        }
        match self.model.pick {
            Pick::RoundRobin => after(&set, self.last(port, lane)),
            Pick::Random => {
                let count: u32 = set.iter().map(|word| word.count_ones()).sum();
                if count == 0 {
                    return None;
                }
                let which = self.random.below(count);
                members(set).nth(which as usize)
            }
        }
    }

    /// The queue of an input whose head asks for an output's lane, and that frame's cell.
    #[inline]
    fn head_of(&self, input: u8, port: u8, lane: u8) -> (usize, &Cell) {
        if self.model.buffering == Buffering::VirtualOutput {
            let queue = self.queue_index(input, 0, port, lane);
            if let Some(head) = self.queues.head(queue) {
                return (queue, head);
            }
        }
        self.head_of_fifos(input, port, lane)
    }

    fn head_of_fifos(&self, input: u8, port: u8, lane: u8) -> (usize, &Cell) {
        let queues = (0..self.lanes_each).map(|own| self.lane_index(input, own as u8));
        for queue in queues {
            if let Some(head) = self.queues.head(queue)
                && self.wants(input, head, port, lane)
            {
                return (queue, head);
            }
        }
        unreachable!("an input asks for an output while the head of one of its queues goes there")
    }

    /// Blocks of the frame that an input has for an output's lane.
    #[inline]
    fn blocks_of(&self, input: u8, port: u8, lane: u8) -> u16 {
        let (_, head) = self.head_of(input, port, lane);
        head.frame.blocks()
    }

    /// Lets a frame go.
    #[inline]
    fn send(&mut self, now: Time, input: u8, port: u8, lane: u8, wire_free: Time) -> Departure {
        let (queue, cell) = self.head_of(input, port, lane);
        let mut frame = cell.frame;
        let copies_of = cell.copies;
        let lane_in = self.lane_in(&frame);
        let blocks = frame.blocks();
        let length = u32::from(frame.length_bytes);
        let at = self.lane_index(port, lane);
        let start = now.max(wire_free);
        let end = start + self.byte_of(port).wire_time(length);
        let output = &mut self.outputs[usize::from(port)];
        output.free_at = end;
        output.xmit_packets += 1;
        output.xmit_bytes += u64::from(length);
        let counters = &mut self.counters[usize::from(port)];
        if std::mem::take(&mut output.blocked) {
            let since = &mut self.blocked_since[usize::from(port)];
            counters.xmit_wait += now.since(std::mem::replace(since, Time::NEVER));
        }
        let victim_mask = output.victim_mask;
        let own = &mut self.lanes[at];
        let starved = std::mem::take(&mut own.starved);
        if let Some(rule) = &self.model.marking
            && frame.kind == FrameKind::Data
            && own.marker.mark(
                rule,
                own.waiting,
                frame.length_bytes,
                !starved || victim_mask,
            )
        {
            frame.fecn = true;
            counters.marked += 1;
        }
        own.waiting -= u32::from(blocks);
        take(&mut own.asks, input);
        self.set_last(port, lane, input);
        if self.model.buffering == Buffering::Fifo {
            self.input_free[usize::from(input)] = end;
        }
        if self.model.crossbar == Crossbar::Shared {
            self.shared_free = end;
            self.shared_last = input;
        }
        let mut free_at = end;
        let mut last = true;
        if copies_of != NONE {
            let copies = &mut self.copies[copies_of as usize];
            take(&mut copies.to, port);
            copies.left -= 1;
            copies.until = copies.until.max(end);
            free_at = copies.until;
            last = copies.left == 0;
            if last {
                self.free_copies.push(copies_of);
            }
        }
        if (last || self.model.buffering == Buffering::VirtualOutput) && self.queues.remove(queue) {
            self.expose(now, input, queue);
        }
        self.ask_again(input, port, lane);
        if is_empty(&self.lanes[at].asks) {
            self.outputs[usize::from(port)].lanes &= !(1 << lane);
        }
        let data = frame.kind == FrameKind::Data;
        if data {
            frame.vl = lane;
        }
        if self.model.crossbar == Crossbar::Shared {
            let waits = |port: &u8| self.outputs[usize::from(*port)].lanes != 0;
            if let Some(port) = (1..=self.ports).find(waits) {
                self.pokes.push((port, end));
            }
        }
        Departure {
            frame,
            port,
            start,
            end,
            release: (last && data).then_some(Release {
                port: input,
                vl: lane_in,
                blocks,
                at: free_at,
            }),
        }
    }

    /// Another VL of a FIFO input may ask for the same lane of the output: its bit was taken with that of the frame that went.
    #[inline]
    fn ask_again(&mut self, input: u8, port: u8, lane: u8) {
        if self.model.buffering != Buffering::Fifo || self.model.data_vls == 1 {
            return;
        }
        for own in 0..self.lanes_each {
            let Some(head) = self.queues.head(self.lane_index(input, own as u8)) else {
                continue;
            };
            if self.wants(input, head, port, lane) {
                let at = self.lane_index(port, lane);
                put(&mut self.lanes[at].asks, input);
            }
        }
    }

    /// The head of a FIFO, or a copy of it, goes to an output's lane.
    #[inline]
    fn wants(&self, input: u8, cell: &Cell, port: u8, lane: u8) -> bool {
        if cell.copies == NONE {
            return (cell.out, cell.out_lane) == (port, lane);
        }
        has(&self.copies[cell.copies as usize].to, port)
            && self.lane_for(input, port, &cell.frame) == Some(lane)
    }

    /// The shared crossbar: inputs in turn, one packet at a time.
    fn next_shared(&mut self, now: Time, wires: &impl Wires) -> Next {
        if self.shared_free > now {
            return Next::Until(self.shared_free);
        }
        let mut starved = false;
        for step in 1..=self.ports {
            let input = (u16::from(self.shared_last) + u16::from(step) - 1) % u16::from(self.ports);
            let input = input as u8 + 1;
            for port in 1..=self.ports {
                let lanes = self.outputs[usize::from(port)].lanes;
                for lane in (0..self.lanes_each as u8).filter(|lane| lanes >> lane & 1 == 1) {
                    let at = self.lane_index(port, lane);
                    if !has(&self.lanes[at].asks, input) {
                        continue;
                    }
                    let blocks = self.blocks_of(input, port, lane);
                    if lane < self.model.data_vls && !wires.may_send(port, lane, blocks) {
                        self.lanes[at].starved = true;
                        starved = true;
                        self.starve(now, port);
                        continue;
                    }
                    return Next::Sent(self.send(now, input, port, lane, wires.free_at(port)));
                }
            }
        }
        if starved {
            Next::Blocked(Time::NEVER)
        } else {
            Next::Idle
        }
    }
}
