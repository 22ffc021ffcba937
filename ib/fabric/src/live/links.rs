//! Packets with data on the links of a live fabric: queues for each lane at each output, the arbiter, and credits, so that nothing is sent that the other end has no room for.
//!
//! Owns what waits at outputs and lies in input buffers, and when something happens next. The rules are those of [`crate::credit`] and [`crate::arbiter`], the same machines that the simulator runs;
//! tables, states and counters are the [`Plane`]'s. Time is fabric time: a link without a pace takes none, a paced one its rate times the scale. A switch takes a packet whole before it sends it on.
//! Must not know who takes what has arrived: its blocks are free again when [`Links::taken`] says so.

mod congestion;
mod line;
#[cfg(test)]
mod tests;

use line::Line;

use super::taps::Taps;
use super::{load_of, set_lane};
use crate::credit::{BLOCK_BYTES, Flow, LinkEnd};
use crate::manage::{Crossing, Hop, Load, Place, Plane, is_group};
use crate::time::{LinkRate, Time};
use ferriband_topology::{NodeKind, PortId};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

/// Lanes for data of a link: as many as its ports have.
const LANES: u8 = 8;
/// Blocks of the buffer of a lane at the end of a link: 32 KiB, seven packets of the largest MTU.
pub const BUFFER_BLOCKS: u16 = 512;
/// Bytes that wait at an adapter's output at the most before no more are taken from it.
const ADAPTER_BYTES: usize = 64 << 10;
/// A flow-control packet is sent when it says something; none is lost on the way, so none is repeated after 65,536 symbol times: the symbols of this link last for hours.
const NEVER_REPEATED: LinkRate = LinkRate::new(1, 1);
/// A tick of PortXmitWait: the time in which the link carries so many bytes (the unit of PortXmitData).
const TICK_BYTES: u32 = 4;
/// LifeTimeValue codes up to this limit how long a packet lives in a switch, 4.096 us times 2 to the power of it (IBA 14.2.5.4); with those above it lives for ever.
const LONGEST_LIFE_CODE: u8 = 19;

/// A packet that has come to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrived {
    /// The end.
    pub at: Place,
    /// LRH to VCRC, as it was on the last link.
    pub bytes: Vec<u8>,
    /// The room that it takes in the port's buffer, to be given back by [`super::Fabric::taken`]; None if it passed no link.
    pub room: Option<Room>,
}

/// Room in an input buffer.
#[derive(PartialEq, Eq, Debug, Clone, Copy)]
pub struct Room(u32);

/// How the credits of all links stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Credits {
    /// Lanes, counted for each direction, that have carried packets since their link came up.
    pub lanes: u64,
    /// Blocks of their buffers that are taken.
    pub taken_blocks: u64,
    /// Lanes whose sender has another number of credits than there is room at the other end, or whose buffer holds other packets than it counts: there must be none. Lanes with
    /// something on the wire are not looked at.
    pub wrong: u64,
    /// Packets that wait for a wire or for credits.
    pub waiting: u64,
}

#[derive(Clone, Debug)]
struct Carried {
    bytes: Vec<u8>,
    load: Load,
}

/// A packet that waits at an output.
#[derive(Debug)]
struct Waiting {
    packet: Arc<Carried>,
    came_by: u8,
    hops: usize,
    since: Time,
    /// Its place in the buffer of the input that it came by; an adapter's own packets have none.
    room: Option<Room>,
}

impl Waiting {
    fn blocks(&self) -> u16 {
        blocks_of(&self.packet)
    }
}

fn blocks_of(packet: &Carried) -> u16 {
    // a packet is shorter than 2^16
    packet.load.length.div_ceil(BLOCK_BYTES.into()) as u16
}

/// The room of a packet in a buffer, which several copies of it share.
#[derive(Clone, Copy, Debug)]
struct Held {
    cable: usize,
    side: usize,
    generation: u32,
    lane: u8,
    blocks: u16,
    copies: u16,
}

#[derive(Debug)]
enum Event {
    /// A wire is free.
    Wire { cable: usize, side: usize },
    /// A packet may have lived too long.
    Age { cable: usize, side: usize },
    /// A packet comes to the other end.
    Comes {
        hop: Hop,
        cable: usize,
        side: usize,
        generation: u32,
        packet: Arc<Carried>,
        hops: usize,
    },
    /// A packet has left the buffer that it lay in.
    Left { room: Room },
    /// A flow-control packet comes to the other end of `side`; `echo`: that end is to answer.
    Flow {
        cable: usize,
        side: usize,
        generation: u32,
        flow: Flow,
        echo: bool,
    },
}

/// What happens at a time; of the same time first what was said first.
#[derive(Debug)]
struct Timed {
    at: Time,
    number: u64,
    event: Event,
}

impl PartialEq for Timed {
    fn eq(&self, other: &Timed) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}
impl Eq for Timed {}
impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Timed) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Timed {
    fn cmp(&self, other: &Timed) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// All links.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// How fast links are, of their own rates; None: they take no time.
    scale: Option<f64>,
    /// By cable; those that carried nothing have none.
    lines: Vec<Option<Box<Line>>>,
    /// What happens later.
    events: BinaryHeap<Reverse<Timed>>,
    /// What happens now, in the order of having been said: without a pace nearly everything.
    soon: VecDeque<Timed>,
    number: u64,
    clock: Time,
    held: Vec<Held>,
    free: Vec<u32>,
    arrived: VecDeque<Arrived>,
    /// What adapters know of congestion.
    adapters: congestion::Adapters,
    /// Packets that were let go of on their way.
    pub dropped: u64,
}

impl Links {
    pub fn set_scale(&mut self, scale: Option<f64>) {
        self.scale = scale.filter(|scale| *scale > 0.0);
    }

    /// When something happens next.
    pub fn next(&self) -> Option<Time> {
        if !self.arrived.is_empty() {
            return Some(self.clock);
        }
        let later = self.events.peek().map(|Reverse(next)| next.at);
        let soon = self.soon.front().map(|next| next.at);
        later.into_iter().chain(soon).min()
    }

    /// Puts a packet, LRH to VCRC, where it begins. False if it is none: nobody takes it.
    pub fn send(&mut self, now: Time, plane: &mut Plane, from: Place, bytes: Vec<u8>) -> bool {
        let Some(load) = load_of(&bytes) else {
            self.dropped += 1;
            return false;
        };
        self.clock = self.clock.max(now);
        let node = plane.node(from.node);
        if plane.is_off(from.node) || usize::from(from.port) >= node.ports.len() {
            self.dropped += 1;
            return true;
        }
        let own = node.port_of_lid(load.dlid) == Some(from.port) && !is_group(load.dlid);
        let is_switch = node.kind == NodeKind::Switch;
        let packet = Arc::new(Carried { bytes, load });
        if own {
            self.arrives(from, Arc::unwrap_or_clone(packet).bytes, None);
        } else if is_switch {
            let at = PortId {
                node: from.node,
                port: 0,
            };
            self.through(plane, at, &packet, 0, None);
        } else {
            let by = PortId {
                node: from.node,
                port: from.port,
            };
            self.queue(plane, by, 0, 0, &packet, None);
        }
        true
    }

    /// True if an adapter may send more.
    pub fn has_room(&self, plane: &Plane, from: Place) -> bool {
        let by = PortId {
            node: from.node,
            port: from.port,
        };
        let Some((cable, side)) = way_out(plane, by) else {
            return true;
        };
        let line = self.lines.get(cable).and_then(Option::as_deref);
        line.is_none_or(|line| line.outputs[side].bytes < ADAPTER_BYTES)
    }

    /// The next packet that has come to its end by `now`.
    pub fn poll(&mut self, now: Time, plane: &mut Plane, taps: &mut Taps) -> Option<Arrived> {
        loop {
            if let Some(arrived) = self.arrived.pop_front() {
                return Some(arrived);
            }
            let Some(Timed { at, event, .. }) = self.next_event(now) else {
                self.clock = self.clock.max(now);
                return None;
            };
            self.clock = self.clock.max(at);
            self.handle(plane, taps, event);
        }
    }

    /// Takes what happens next, if it does by `now`.
    fn next_event(&mut self, now: Time) -> Option<Timed> {
        let later = self.events.peek().map(|Reverse(next)| next);
        let is_later = match (later, self.soon.front()) {
            (Some(later), Some(soon)) => later < soon,
            (later, _) => later.is_some(),
        };
        match is_later {
            true => {
                later.filter(|later| later.at <= now)?;
                self.events.pop().map(|Reverse(next)| next)
            }
            false => {
                self.soon.front().filter(|soon| soon.at <= now)?;
                self.soon.pop_front()
            }
        }
    }

    /// What has arrived was taken: its room is free.
    pub fn taken(&mut self, room: Room) {
        let Some(held) = self.held.get_mut(room.0 as usize) else {
            return;
        };
        held.copies = held.copies.saturating_sub(1);
        if held.copies > 0 {
            return;
        }
        let held = *held;
        self.free.push(room.0);
        if let Some(line) = self.lines[held.cable].as_mut()
            && line.generation == held.generation
        {
            line.ends[held.side].freed(held.lane, held.blocks);
            self.tell(held.cable, held.side, false);
        }
    }

    /// Links that went down or were trained anew: what waited for them is gone, and credits begin again.
    pub fn renew(&mut self, plane: &mut Plane, cables: impl Iterator<Item = usize>) {
        for cable in cables {
            let Some(line) = self.lines.get_mut(cable).and_then(Option::as_mut) else {
                continue;
            };
            line.generation += 1;
            line.rate = rate_of(plane, cable);
            (line.flying, line.used) = ([0; 2], [0; 2]);
            line.ends =
                [(); 2].map(|()| LinkEnd::new(self.clock, LANES, BUFFER_BLOCKS, &NEVER_REPEATED));
            line.begin(self.clock);
            for side in 0..2 {
                let by = plane.topology().cables()[cable].ends[side];
                self.note_wait(plane, cable, side);
                self.empty(plane, by, cable, side);
                if let Some(line) = self.lines[cable].as_mut() {
                    line.outputs[side].wire_free = self.clock;
                }
            }
        }
    }

    /// How credits stand.
    pub fn credits(&mut self) -> Credits {
        let mut sum = Credits::default();
        let mut blocks = vec![[[0u64; LANES as usize]; 2]; self.lines.len()];
        let free: std::collections::BTreeSet<u32> = self.free.iter().copied().collect();
        for (number, held) in self.held.iter().enumerate() {
            let line = self.lines[held.cable].as_ref();
            if !free.contains(&(number as u32))
                && line.is_some_and(|line| line.generation == held.generation)
            {
                blocks[held.cable][held.side][usize::from(held.lane)] += u64::from(held.blocks);
            }
        }
        for (line, blocks) in self.lines.iter_mut().zip(&blocks) {
            let Some(line) = line else { continue };
            for (side, blocks) in blocks.iter().enumerate() {
                let queues = line.outputs[side].queues.iter();
                sum.waiting += queues.map(|queue| queue.len() as u64).sum::<u64>();
                for (lane, held) in (0..LANES).zip(blocks) {
                    let sender = line.ends[1 - side].sender(lane).map(|own| *own);
                    let receiver = line.ends[side].receiver(lane).map(|own| *own);
                    let (Some(sender), Some(receiver)) = (sender, receiver) else {
                        continue;
                    };
                    sum.lanes += u64::from(line.used[1 - side] >> lane & 1);
                    let taken = BUFFER_BLOCKS - receiver.free_blocks();
                    sum.taken_blocks += u64::from(taken);
                    let right =
                        sender.credits() == receiver.free_blocks() && *held == u64::from(taken);
                    sum.wrong += u64::from(!right && line.flying == [0; 2]);
                }
            }
        }
        sum
    }

    fn handle(&mut self, plane: &mut Plane, taps: &mut Taps, event: Event) {
        match event {
            Event::Wire { cable, side } => {
                if let Some(line) = self.lines[cable].as_mut() {
                    line.outputs[side].woken = false;
                }
                self.go(plane, taps, cable, side);
            }
            Event::Age { cable, side } => {
                if let Some(line) = self.lines[cable].as_mut() {
                    line.outputs[side].aged = false;
                }
                self.age(plane, cable, side);
                self.go(plane, taps, cable, side);
            }
            Event::Comes {
                hop,
                cable,
                side,
                generation,
                packet,
                hops,
            } => self.comes(plane, hop, (cable, side), generation, packet, hops),
            Event::Left { room } => self.taken(room),
            Event::Flow {
                cable,
                side,
                generation,
                flow,
                echo,
            } => {
                let Some(line) = self.lines[cable].as_mut() else {
                    return;
                };
                if line.generation != generation {
                    return;
                }
                line.flying[side] -= 1;
                line.ends[1 - side].heard(self.clock, flow);
                if echo {
                    line.ends[1 - side].freed(flow.vl, 0);
                    self.tell(cable, 1 - side, false);
                }
                self.go(plane, taps, cable, 1 - side);
            }
        }
    }

    /// A packet has come by a link.
    fn comes(
        &mut self,
        plane: &mut Plane,
        hop: Hop,
        (cable, side): (usize, usize),
        generation: u32,
        packet: Arc<Carried>,
        hops: usize,
    ) {
        let Some(line) = self.lines[cable].as_mut() else {
            return;
        };
        if line.generation != generation {
            self.dropped += 1;
            return;
        }
        line.flying[side] -= 1;
        let blocks = blocks_of(&packet);
        let fits = line.ends[1 - side].receiver(hop.vl.0);
        if !fits.is_some_and(|receiver| receiver.received(blocks)) {
            // its sender did not keep to its credits; ours does
            self.dropped += 1;
            return;
        }
        let room = self.hold(Held {
            cable,
            side: 1 - side,
            generation,
            lane: hop.vl.0,
            blocks,
            copies: 1,
        });
        let (node, port) = (hop.to.node, hop.to.port);
        let there = plane.node(node);
        if there.kind == NodeKind::Switch {
            self.through(plane, hop.to, &packet, hops + 1, Some(room));
        } else if is_group(packet.load.dlid) || there.port_of_lid(packet.load.dlid) == Some(port) {
            // nobody else has it but where it goes to several
            let mut packet = Arc::unwrap_or_clone(packet);
            set_lane(&mut packet.bytes, hop.vl);
            self.hear(plane, hop.to, &packet);
            self.arrives(Place { node, port }, packet.bytes, Some(room));
        } else {
            plane.node_mut(node).ports[usize::from(port)]
                .counters
                .came_wrong();
            self.dropped += 1;
            self.taken(room);
        }
    }

    /// Through a switch, from the port that it came by.
    fn through(
        &mut self,
        plane: &mut Plane,
        at: PortId,
        packet: &Arc<Carried>,
        hops: usize,
        room: Option<Room>,
    ) {
        let onward = plane.onward(at, packet.load, hops);
        let copies = onward.leave.len() + usize::from(onward.here);
        if let Some(room) = room {
            match copies {
                0 => {
                    self.dropped += 1;
                    return self.taken(room);
                }
                // a switch has fewer than 255 ports
                some => self.held[room.0 as usize].copies = some as u16,
            }
        } else if copies == 0 {
            self.dropped += 1;
        }
        if onward.here {
            let own = Place {
                node: at.node,
                port: 0,
            };
            self.arrives(own, packet.bytes.clone(), room);
        }
        for port in onward.leave {
            let by = PortId {
                node: at.node,
                port,
            };
            self.queue(plane, by, at.port, hops, packet, room);
        }
    }

    fn arrives(&mut self, at: Place, bytes: Vec<u8>, room: Option<Room>) {
        self.arrived.push_back(Arrived { at, bytes, room });
    }

    /// Puts a packet at the output that it is to leave by.
    fn queue(
        &mut self,
        plane: &mut Plane,
        by: PortId,
        came_by: u8,
        hops: usize,
        packet: &Arc<Carried>,
        room: Option<Room>,
    ) {
        let lane = plane.lane(by, came_by, packet.load.sl).0;
        let way = way_out(plane, by).filter(|_| plane.data_peer(by).is_some());
        let served = way.is_some_and(|(cable, side)| {
            let port = &plane.node(by.node).ports[usize::from(by.port)];
            let output = &mut self.line(plane, cable).outputs[side];
            output.follow(&port.arbitration, port.info.vl_high_limit);
            lane < LANES && output.served & 1 << lane != 0
        });
        let Some((cable, side)) = way.filter(|_| served) else {
            // no link, or a lane that no table serves: nothing would ever go
            let why = match plane.data_peer(by) {
                None => Why::Inactive,
                Some(_) => Why::NoLane,
            };
            return self.discard(plane, by, room, why);
        };
        let waiting = Waiting {
            packet: packet.clone(),
            came_by,
            hops,
            since: self.clock,
            room,
        };
        let at = self.clock;
        let line = self.line(plane, cable);
        let output = &mut line.outputs[side];
        output.bytes += packet.bytes.len();
        output.queues[usize::from(lane)].push_back(waiting);
        if !std::mem::replace(&mut output.woken, true) {
            let at = at.max(output.wire_free);
            self.plan(at, Event::Wire { cable, side });
        }
    }

    /// What may go by an output now goes.
    fn go(&mut self, plane: &mut Plane, taps: &mut Taps, cable: usize, side: usize) {
        let by = plane.topology().cables()[cable].ends[side];
        loop {
            let held = self.hold_back(by, cable, side);
            let Some(line) = self.lines[cable].as_mut() else {
                return;
            };
            let Line { ends, outputs, .. } = &mut **line;
            let output = &mut outputs[side];
            let waiting = output.waiting();
            if waiting == 0 {
                return self.note_wait(plane, cable, side);
            }
            if plane.data_peer(by).is_none() {
                self.note_wait(plane, cable, side);
                return self.empty(plane, by, cable, side);
            }
            if output.wire_free > self.clock {
                let at = output.wire_free;
                if !std::mem::replace(&mut output.woken, true) {
                    self.plan(at, Event::Wire { cable, side });
                }
                return;
            }
            let head = |lane: u8| output.queues[usize::from(lane)].front();
            let blocks = |lane| head(lane).map_or(0, Waiting::blocks);
            let mut may = |lane: &u8| {
                let sender = ends[side].sender(*lane);
                waiting & !held & 1 << lane != 0
                    && sender.is_some_and(|own| own.may_send(blocks(*lane)))
            };
            let ready = (0..LANES).filter(&mut may);
            let ready = ready.fold(0, |mask, lane| mask | 1 << lane);
            let Some(lane) = output.arbiter.next(ready, blocks) else {
                if waiting & !held != 0 {
                    output.blocked.get_or_insert(self.clock);
                }
                return self.watch_age(plane, cable, side);
            };
            let starved = output.blocked.is_some();
            self.note_wait(plane, cable, side);
            self.leave(plane, taps, (cable, side), lane, starved);
        }
    }

    /// Lanes of an adapter all of whose packets are of flows that are held back. Of the others a packet of a flow that may go is brought to the front: none overtakes one of its own flow.
    fn hold_back(&mut self, by: PortId, cable: usize, side: usize) -> u16 {
        if self.scale.is_none() || !self.adapters.contains_key(&by) {
            return 0;
        }
        let Some(mut line) = self.lines[cable].take() else {
            return 0;
        };
        let (mut lanes, mut until) = (0, None);
        let output = &mut line.outputs[side];
        for (lane, queue) in output.queues.iter_mut().enumerate() {
            let mut least = None;
            let free = queue.iter().position(|waiting| {
                let load = waiting.packet.load;
                let held = self.held_until(by, load.dlid, load.sl);
                least = [least, held].into_iter().flatten().min();
                held.is_none()
            });
            match free {
                Some(at) => {
                    if at > 0
                        && let Some(chosen) = queue.remove(at)
                    {
                        queue.push_front(chosen);
                    }
                }
                None if queue.is_empty() => {}
                None => {
                    lanes |= 1 << lane;
                    until = [until, least].into_iter().flatten().min();
                }
            }
        }
        let clock = self.clock;
        let planned = output.rises.filter(|at| *at > clock);
        let wakes = until.filter(|at| planned.is_none_or(|planned| *at < planned));
        output.rises = wakes.or(planned);
        self.lines[cable] = Some(line);
        if let Some(at) = wakes {
            self.plan(at, Event::Wire { cable, side });
        }
        lanes
    }

    /// The first packet of a lane goes; `starved`: it waited for credits.
    fn leave(
        &mut self,
        plane: &mut Plane,
        taps: &mut Taps,
        (cable, side): (usize, usize),
        lane: u8,
        starved: bool,
    ) {
        let by = plane.topology().cables()[cable].ends[side];
        let (clock, scale) = (self.clock, self.scale);
        let Some(line) = self.lines[cable].as_mut() else {
            return;
        };
        let output = &mut line.outputs[side];
        let Some(next) = output.queues[usize::from(lane)].pop_front() else {
            return;
        };
        let length = next.packet.bytes.len();
        output.bytes -= length;
        let mut marker = output.markers[usize::from(lane)];
        let full_rate = line.rate.wire_time(length as u32);
        let sent = match plane.node(by.node).kind {
            NodeKind::Switch => {
                let behind = &line.outputs[side].queues[usize::from(lane)];
                let behind = behind.iter().map(|other| u32::from(other.blocks()));
                let waited = u32::from(next.blocks()) + behind.sum::<u32>();
                let waited = (waited, BUFFER_BLOCKS);
                self.mark(plane, by, &mut marker, &next.packet, waited, starved)
            }
            _ => self.send_on(plane, by, &next.packet, full_rate),
        };
        let next = match sent {
            Some(marked) => Waiting {
                packet: Arc::new(marked),
                ..next
            },
            None => next,
        };
        let Some(line) = self.lines[cable].as_mut() else {
            return;
        };
        let output = &mut line.outputs[side];
        output.markers[usize::from(lane)] = marker;
        // the tables may have changed since it was put there: it goes by the lane that it waited for
        let crossing = plane.cross(by, next.came_by, next.packet.load);
        let (hop, spoilt) = match crossing {
            Crossing::Gone => {
                self.dropped += 1;
                if let Some(room) = next.room {
                    self.taken(room);
                }
                return;
            }
            Crossing::Over(hop) => (hop, false),
            Crossing::Spoilt(hop) => (hop, true),
        };
        let hop = Hop {
            vl: ferriband_wire::Vl(lane),
            ..hop
        };
        taps.passed(plane.topology(), &[hop], |vl| {
            let mut there = next.packet.bytes.clone();
            set_lane(&mut there, vl);
            Some(there)
        });
        let lasts = scale.map_or(Time::ZERO, |scale| scaled(full_rate, scale));
        let end = clock + lasts;
        output.wire_free = end;
        if let Some(sender) = line.ends[side].sender(lane) {
            sender.sent(next.blocks());
        }
        line.used[side] |= 1 << lane;
        let generation = line.generation;
        if spoilt {
            // its blocks are lost until the other end hears how much was sent
            self.dropped += 1;
            line.ends[side].freed(lane, 0);
            self.tell(cable, side, true);
        } else {
            line.flying[side] += 1;
            self.plan(
                end,
                Event::Comes {
                    hop,
                    cable,
                    side,
                    generation,
                    packet: next.packet,
                    hops: next.hops,
                },
            );
        }
        match next.room {
            Some(room) if lasts == Time::ZERO => self.taken(room),
            Some(room) => self.plan(end, Event::Left { room }),
            None => {}
        }
    }

    /// Flow-control packets that are due go behind what is on the wire.
    fn tell(&mut self, cable: usize, side: usize, echo: bool) {
        let clock = self.clock;
        loop {
            let Some(line) = self.lines[cable].as_mut() else {
                return;
            };
            let Some(flow) = line.ends[side].next(clock) else {
                return;
            };
            let at = clock.max(line.outputs[side].wire_free);
            if at == clock && line.flying[side] == 0 {
                // the wire is idle: it is there at once
                line.ends[1 - side].heard(clock, flow);
                if echo {
                    line.ends[1 - side].freed(flow.vl, 0);
                    self.tell(cable, 1 - side, false);
                }
                self.wake(cable, 1 - side);
                continue;
            }
            line.flying[side] += 1;
            let event = Event::Flow {
                cable,
                side,
                generation: line.generation,
                flow,
                echo,
            };
            self.plan(at, event);
        }
    }

    /// An output where something waits is asked when its wire is free.
    fn wake(&mut self, cable: usize, side: usize) {
        let Some(line) = self.lines[cable].as_mut() else {
            return;
        };
        let output = &mut line.outputs[side];
        if output.waiting() != 0 && !std::mem::replace(&mut output.woken, true) {
            let at = self.clock.max(output.wire_free);
            self.plan(at, Event::Wire { cable, side });
        }
    }

    /// A wait for credits is over: it is counted.
    fn note_wait(&mut self, plane: &mut Plane, cable: usize, side: usize) {
        let (clock, scale) = (self.clock, self.scale.unwrap_or(1.0));
        let Some(line) = self.lines[cable].as_mut() else {
            return;
        };
        let Some(since) = line.outputs[side].blocked.take() else {
            return;
        };
        let tick = scaled(line.rate.wire_time(TICK_BYTES), scale).0.max(1);
        let by = plane.topology().cables()[cable].ends[side];
        let counters = &mut plane.node_mut(by.node).ports[usize::from(by.port)].counters;
        counters.xmit_wait += clock.since(since).0 / tick;
    }

    /// How long packets live in the switch of an output; None: for ever, as in an adapter.
    fn life(&self, plane: &Plane, by: PortId) -> Option<Time> {
        let tables = plane.node(by.node).switch.as_ref()?;
        let code = tables.info.lifetime.0;
        let life = Time::from_ns(4_096 << code.min(LONGEST_LIFE_CODE));
        // fabric time: where links are slower, all takes longer
        (code <= LONGEST_LIFE_CODE).then(|| scaled(life, self.scale.unwrap_or(1.0).min(1.0)))
    }

    /// An output that is blocked is looked at again when its oldest packet has lived too long.
    fn watch_age(&mut self, plane: &Plane, cable: usize, side: usize) {
        let by = plane.topology().cables()[cable].ends[side];
        let Some(life) = self.life(plane, by) else {
            return;
        };
        let Some(line) = self.lines[cable].as_mut() else {
            return;
        };
        let output = &mut line.outputs[side];
        let heads = output.queues.iter().filter_map(VecDeque::front);
        let Some(oldest) = heads.map(|head| head.since).min() else {
            return;
        };
        if !std::mem::replace(&mut output.aged, true) {
            let at = (oldest + life).max(self.clock + Time(1));
            self.plan(at, Event::Age { cable, side });
        }
    }

    /// What has lived too long at an output is let go of.
    fn age(&mut self, plane: &mut Plane, cable: usize, side: usize) {
        let by = plane.topology().cables()[cable].ends[side];
        let Some(life) = self.life(plane, by) else {
            return;
        };
        for lane in 0..usize::from(LANES) {
            loop {
                let Some(line) = self.lines[cable].as_mut() else {
                    return;
                };
                let output = &mut line.outputs[side];
                let queue = &mut output.queues[lane];
                let is_old = |head: &Waiting| self.clock.since(head.since) >= life;
                if !queue.front().is_some_and(is_old) {
                    break;
                }
                let Some(old) = queue.pop_front() else { break };
                output.bytes -= old.packet.bytes.len();
                self.discard(plane, by, old.room, Why::Lifetime);
            }
        }
    }

    /// Everything that waits at an output is let go of.
    fn empty(&mut self, plane: &mut Plane, by: PortId, cable: usize, side: usize) {
        let Some(line) = self.lines[cable].as_mut() else {
            return;
        };
        let output = &mut line.outputs[side];
        output.bytes = 0;
        let all: Vec<Waiting> = output.queues.iter_mut().flat_map(std::mem::take).collect();
        for waiting in all {
            self.discard(plane, by, waiting.room, Why::Inactive);
        }
    }

    fn discard(&mut self, plane: &mut Plane, by: PortId, room: Option<Room>, why: Why) {
        let node = plane.node_mut(by.node);
        if let Some(port) = node.ports.get_mut(usize::from(by.port)) {
            port.counters.xmit_discards += 1;
            let discards = &mut port.counters.discards;
            match why {
                Why::Inactive => discards.inactive += 1,
                Why::Lifetime => discards.lifetime += 1,
                Why::NoLane => {}
            }
        }
        self.dropped += 1;
        if let Some(room) = room {
            self.taken(room);
        }
    }

    fn hold(&mut self, held: Held) -> Room {
        match self.free.pop() {
            Some(number) => {
                self.held[number as usize] = held;
                Room(number)
            }
            None => {
                self.held.push(held);
                Room((self.held.len() - 1) as u32)
            }
        }
    }

    fn plan(&mut self, at: Time, event: Event) {
        self.number += 1;
        let number = self.number;
        // the clock never goes back, so what is put there is in order
        match at <= self.clock {
            true => self.soon.push_back(Timed {
                at: self.clock,
                number,
                event,
            }),
            false => self.events.push(Reverse(Timed { at, number, event })),
        }
    }

    fn line(&mut self, plane: &Plane, cable: usize) -> &mut Line {
        let cables = plane.topology().cables().len();
        if self.lines.len() < cables {
            self.lines.resize_with(cables, || None);
        }
        let clock = self.clock;
        self.lines[cable].get_or_insert_with(|| Box::new(Line::new(clock, rate_of(plane, cable))))
    }
}

/// How fast a cable's link is as it was trained last.
fn rate_of(plane: &Plane, cable: usize) -> LinkRate {
    let link = plane.link(cable);
    let lanes = u8::try_from(link.width.lanes()).unwrap_or(u8::MAX);
    LinkRate::new(link.kbps(), lanes)
}

/// Why a packet is let go of at an output.
#[derive(Clone, Copy, Debug)]
enum Why {
    /// The port is not active, or its link began anew.
    Inactive,
    /// It has lived too long in the switch.
    Lifetime,
    /// No table serves its lane.
    NoLane,
}

/// The cable of a port, and which of its directions leads away from it.
fn way_out(plane: &Plane, by: PortId) -> Option<(usize, usize)> {
    let topology = plane.topology();
    let cable = topology.cable_at(by)?;
    let side = topology.cables()[cable]
        .ends
        .iter()
        .position(|end| *end == by)?;
    Some((cable, side))
}

/// Fabric time as it is outside of the fabric.
fn scaled(time: Time, scale: f64) -> Time {
    Time((time.0 as f64 / scale) as u64)
}
