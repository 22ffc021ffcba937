//! A part of a fabric that runs by itself: its nodes, their ports, what is on its way to them and what is to happen. A fabric on one thread is one part; on several, each has its own
//! ([`super::split`]), and where a link leaves it, what stands in for the port at the other end.

use super::letters::{Letter, Mail};
use super::port::{self, Lane, LinkKind, Port, Received, Rests};
use super::sweep::Sweep;
use super::{FlowCount, Machine, NONE, Settings, ahead, slow_lane};
use crate::agenda::Agenda;
use crate::event::{ARRIVE, Flight, KIND_SHIFT, LATER, SLOW_LANE, WAKE, at_place, event, place_of};
#[cfg(test)]
use crate::event::{FREE, HEAR, REFRESH, TELL};
use crate::frame::{Frame, FrameKind};
use crate::host::Adapter;
use crate::latency::Latencies;
use crate::random::Random;
use crate::ring::Ring;
use crate::switch::{Arrival, Crossbar, Departure, HEADER_BYTES, Next, Switch, Wires};
use crate::time::{LinkRate, Time};
use crate::windows::is_chunked;
use ferriband_prefetch::element;
use std::sync::Arc;

/// Packets that came are counted so many together.
const TOGETHER: usize = 512;
/// Packets from one to which memory is asked for.
const COUNTED_AHEAD: usize = 16;

/// A packet that came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    slid: u32,
    flow: u32,
    bytes: u16,
    latency: Time,
}

/// What runs on one thread. Ports, switches and adapters are known by their place here.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Part {
    pub settings: Settings,
    pub data_vls: usize,
    pub now: Time,
    pub queue: Agenda,
    /// What was before this is known to all nodes; with a calendar, now.
    pub known: Time,
    pub switches: Vec<Switch>,
    pub adapters: Vec<Adapter>,
    pub ports: Vec<Port>,
    /// By port.
    pub received: Vec<Received>,
    /// What lies behind their queues.
    pub rests: Rests,
    /// Kinds of links.
    pub kinds: Vec<LinkKind>,
    #[cfg(test)]
    /// By port: VLs that have freed something (credits by packets; else empty).
    pub due: Vec<u16>,
    pub rates: Vec<LinkRate>,
    /// By port and VL, but for the first, which lies in its port.
    pub more_lanes: Vec<Lane>,
    /// Packets on their way that lie in no window, with the time of the decision about them; their events know their places.
    pub flights: Ring<Flight>,
    /// Bit error rates; empty if there are none.
    pub errors: Vec<f64>,
    pub random: Random,
    /// Packets are lost, or buffers are larger than the window: the order of what comes and what is told matters.
    pub strict: bool,
    /// What an adapter takes may be taken before its time: nothing depends on the order.
    pub ahead: bool,
    /// Until when it runs.
    pub end: Time,
    /// The number of the adapter of each LID, in the whole fabric.
    pub by_lid: Arc<[u32]>,
    /// What came here, by its sender's number in the whole fabric: of its first flow. Mostly it has one.
    pub delivered: Vec<FlowCount>,
    /// Of its other flows.
    pub delivered_more: Vec<Vec<FlowCount>>,
    pub latencies: Latencies,
    pub messages: Latencies,
    /// Messages may be of several packets: else their latencies are those of packets.
    pub several: bool,
    pub hops: u64,
    pub events: u64,
    pub lost: u64,
    /// By port: what of its last packet was still to go when counting began; empty at the beginning of time.
    pub left_over: Vec<Time>,
    /// What stages of [`ahead`] have found for the next ones: the other port of a switch, and the port of a host; the place for those that are looked at now.
    pub others: [Option<u8>; ahead::KEPT],
    pub hosts: [u32; ahead::KEPT],
    pub look: usize,
    pub sweep: Sweep,
    /// What came and is not counted yet: none between runs.
    pub arrived: Vec<Arrived>,
    /// Memory is asked for before it is needed: see [`ahead`].
    pub looks_ahead: bool,
    pub looks: Option<Box<slow_lane::Looks>>,
    /// Ports from here on stand in for those at the other ends of links that leave this part.
    pub border: u32,
    /// What goes over them.
    pub mail: Mail,
}

/// A node's links, as its machine sees them.
struct Ends<'a> {
    ports: &'a [Port],
    more_lanes: &'a [Lane],
    base: usize,
    data_vls: usize,
}

impl Wires for Ends<'_> {
    #[inline]
    fn free_at(&self, port: u8) -> Time {
        self.ports[self.base + usize::from(port)].wire_free
    }

    #[inline]
    fn may_send(&self, port: u8, vl: u8, blocks: u16) -> bool {
        let at = self.base + usize::from(port);
        let lane = match port::behind_first(at, vl, self.data_vls) {
            None => &self.ports[at].lane,
            Some(place) => &self.more_lanes[place],
        };
        lane.sender.may_send(blocks)
    }
}

impl Part {
    /// A port's VL.
    #[inline]
    pub(super) fn lane(&mut self, port: usize, vl: u8) -> &mut Lane {
        match port::behind_first(port, vl, self.data_vls) {
            None => &mut self.ports[port].lane,
            Some(place) => &mut self.more_lanes[place],
        }
    }

    /// Messages may be of several packets from now on.
    pub(super) fn has_several(&mut self) {
        if !self.several {
            // so far they were the same
            self.several = true;
            self.messages = self.latencies.clone();
        }
    }

    /// Counts from here.
    pub(super) fn begin(&mut self) {
        self.settle_all();
        let now = self.now;
        let switches = self.switches.iter_mut();
        switches.for_each(|switch| switch.clear_counters(now));
        let adapters = self.adapters.iter_mut();
        adapters.for_each(|adapter| adapter.clear_counters(now));
        for port in &mut self.ports {
            port.flow_packets = 0;
        }
        self.received.fill(Received::default());
        self.delivered.fill(FlowCount::default());
        for delivered in &mut self.delivered_more {
            delivered.fill(FlowCount::default());
        }
        let own = &self.ports[..self.ports.len().min(self.border as usize)];
        self.left_over = own.iter().map(|port| self.to_go(port)).collect();
        self.latencies = Latencies::default();
        self.messages = Latencies::default();
        if let Some(looks) = self.looks.take() {
            self.looks = Some(self.noted(looks));
        }
    }

    /// How long a port's packet will still be on its way to the wire.
    pub(super) fn to_go(&self, port: &Port) -> Time {
        let end = match port.machine() {
            Machine::Switch(index) => self.switches[index as usize].free_at(port.number),
            Machine::Adapter(index) => self.adapters[index as usize].free_at(),
        };
        end.since(self.now)
    }

    #[inline]
    pub(super) fn happens(&mut self, what: u64, port: usize) {
        match what >> KIND_SHIFT {
            ARRIVE | LATER => self.arrive(port, place_of(what).unwrap_or_default()),
            WAKE => {
                // An event that a nearer one was put before is stale.
                if self.ports[port].wake == self.now {
                    self.ports[port].wake = Time::NEVER;
                    self.attempt(port);
                }
            }
            #[cfg(test)]
            FREE => self.free(port),
            #[cfg(test)]
            TELL => self.tell(port),
            #[cfg(test)]
            HEAR => self.hear(port),
            #[cfg(test)]
            REFRESH => self.refresh(port),
            SLOW_LANE => self.look_at_hosts(),
            _ => self.resynchronise(port),
        }
    }

    #[inline]
    pub(super) fn wake(&mut self, port: usize, at: Time) {
        let own = &mut self.ports[port];
        if at < own.wake {
            own.wake = at;
            self.queue.push(at, event(WAKE, port));
        }
    }

    /// A packet sets out to a port.
    #[inline]
    pub(super) fn launch(&mut self, port: usize, frame: Frame, header_at: Time) {
        let flight = Flight { frame, header_at };
        let what = event(ARRIVE, port);
        if let Agenda::Windows(windows) = &mut self.queue
            && windows.push_flight(header_at, what, &flight)
        {
            return;
        }
        let place = self.flights.put(flight);
        self.queue.push(header_at, at_place(what, place));
    }

    /// A packet on its way.
    #[inline]
    pub(super) fn flight(&self, place: u32) -> Option<&Flight> {
        match &self.queue {
            Agenda::Windows(windows) if is_chunked(place) => windows.flight(place),
            _ => self.flights.slots().get(place as usize),
        }
    }

    #[inline]
    fn let_go(&mut self, place: u32) {
        if !is_chunked(place) {
            self.flights.free(place);
        }
    }

    /// A header is there.
    #[inline]
    fn arrive(&mut self, port: usize, place: u32) {
        let now = self.now;
        let Some(&Flight { frame, header_at }) = self.flight(place) else {
            return;
        };
        let credited = frame.kind == FrameKind::Data;
        if header_at == now {
            self.hops += 1;
            let lost = self.strict && self.is_lost(port, &frame);
            let blocks = frame.blocks();
            if lost
                || credited
                    && !self.lane(port, frame.vl).receiver.received(blocks)
                    && !self.received_late(port, frame.vl, blocks)
            {
                debug_assert!(lost, "a sender passed its credit limit");
                self.let_go(place);
                return;
            }
        }
        let (machine, number) = (self.ports[port].machine(), self.ports[port].number);
        match machine {
            Machine::Adapter(index) => {
                self.let_go(place);
                self.taken(port, index, &frame, header_at);
            }
            Machine::Switch(index) => {
                if self.passes(index, port, &frame, header_at) {
                    self.received[port].add(&frame);
                    self.let_go(place);
                    return;
                }
                let switch = &mut self.switches[index as usize];
                match switch.arrives(now, header_at, number, frame) {
                    Arrival::Later(at) => {
                        let place = match is_chunked(place) {
                            true => self.flights.put(Flight { frame, header_at }),
                            false => place,
                        };
                        self.queue.push(at, at_place(event(LATER, port), place));
                    }
                    Arrival::Kept => {
                        self.received[port].add(&frame);
                        self.let_go(place);
                        self.poke(index, port - usize::from(number));
                    }
                    Arrival::Dropped => {
                        self.let_go(place);
                        if credited {
                            let tail = tail(&self.rates[port], &frame, header_at);
                            self.frees(port, tail, frame.vl, frame.blocks());
                        }
                    }
                }
            }
        }
    }

    /// There seems to be no room for a packet. Where a link leaves its part, the other end has heard from a stand-in of what is free, and nobody may have asked the port itself.
    #[cold]
    fn received_late(&mut self, port: usize, vl: u8, blocks: u16) -> bool {
        if self.ports[port].peer < self.border {
            return false;
        }
        self.settle(port, self.now);
        self.lane(port, vl).receiver.received(blocks)
    }

    /// A packet finds its output idle, and goes on. False if it has to wait, or nobody knows yet.
    #[inline]
    fn passes(&mut self, index: u32, port: usize, frame: &Frame, header_at: Time) -> bool {
        let own = &self.ports[port];
        let (machine, number) = (own.machine(), own.number);
        let base = port - usize::from(number);
        let switch = &self.switches[index as usize];
        let Some(way) = switch.may_pass(self.now, header_at, number, frame) else {
            return false;
        };
        let out = base + usize::from(way.0);
        self.look_for_credits(out);
        if !self.lane(out, way.1).sender.may_send(frame.blocks()) {
            return false;
        }
        let wire_free = self.ports[out].wire_free;
        let switch = &mut self.switches[index as usize];
        let departure = switch.pass(self.now, number, way, *frame, wire_free);
        self.departs(machine, base, departure);
        true
    }

    /// An adapter takes a packet.
    #[inline]
    fn taken(&mut self, port: usize, adapter: u32, frame: &Frame, header_at: Time) {
        let own = &mut self.adapters[adapter as usize];
        let tail = own.tail(frame, header_at);
        let delivery = own.arrives(header_at, frame);
        if frame.kind == FrameKind::Data {
            self.frees(port, tail, frame.vl, frame.blocks());
        }
        if !delivery.notification {
            let latency = tail.since(delivery.birth);
            self.deliver(frame, delivery.flow, latency);
            if self.several && delivery.last {
                self.messages.add(latency);
            }
        }
        if delivery.poke {
            let at = self.adapters[adapter as usize].wakes_at();
            self.wake(port, at.max(self.now));
        }
    }

    #[inline]
    fn deliver(&mut self, frame: &Frame, flow: u32, latency: Time) {
        self.latencies.add(latency);
        self.arrived.push(Arrived {
            slid: frame.slid,
            flow,
            bytes: frame.length_bytes,
            latency,
        });
        if self.arrived.len() == TOGETHER {
            self.count_arrived();
        }
    }

    /// Counts what came by who sent it: many at once, for a sender's count is anywhere, and memory is asked for in time so.
    #[inline(never)]
    pub(super) fn count_arrived(&mut self) {
        for (at, one) in self.arrived.iter().enumerate() {
            let source = |one: &Arrived| self.by_lid.get(one.slid as usize).copied();
            if let Some(next) = self.arrived.get(at + COUNTED_AHEAD).and_then(source) {
                element(&self.delivered, next as usize);
            }
            let Some(source) = source(one) else {
                continue;
            };
            let count = match one.flow.checked_sub(1) {
                None => self.delivered.get_mut(source as usize),
                Some(other) => self
                    .delivered_more
                    .get_mut(source as usize)
                    .and_then(|more| more.get_mut(other as usize)),
            };
            if let Some(count) = count {
                count.packets += 1;
                count.bytes += u64::from(one.bytes);
                count.latency_sum += one.latency.0;
            }
        }
        self.arrived.clear();
    }

    /// Asks the outputs that a switch told of.
    #[inline]
    fn poke(&mut self, switch: u32, base: usize) {
        while let Some((port, at)) = self.switches[switch as usize].pop_poke() {
            let port = base + usize::from(port);
            if at > self.now {
                self.wake(port, at);
            } else {
                self.attempt(port);
            }
        }
    }

    /// Before a port sends: the flow-control packets that it owes go first, and if its credits may not do, those that have come are read.
    #[inline]
    fn look_for_credits(&mut self, port: usize) {
        #[cfg(test)]
        if self.settings.by_packets() {
            return self.tell_all(port);
        }
        self.settle(port, self.now);
        if self.strict || self.is_short(port) {
            self.settle_far(self.ports[port].peer as usize);
            self.absorb(port, self.now);
        }
    }

    /// Asks a port's machine for a packet.
    pub(super) fn attempt(&mut self, port: usize) {
        let own = &self.ports[port];
        let (machine, number) = (own.machine(), own.number);
        let base = port - usize::from(number);
        if own.peer == NONE {
            return;
        }
        self.look_for_credits(port);
        let ends = Ends {
            ports: &self.ports,
            more_lanes: &self.more_lanes,
            base,
            data_vls: self.data_vls,
        };
        let next = match machine {
            Machine::Switch(index) => self.switches[index as usize].next(self.now, number, &ends),
            Machine::Adapter(index) => self.adapters[index as usize].next(self.now, &ends),
        };
        match next {
            Next::Sent(departure) => self.departs(machine, base, departure),
            Next::Until(at) => self.wake(port, at),
            Next::Blocked(until) => {
                self.starves(port);
                if until != Time::NEVER {
                    self.wake(port, until);
                }
            }
            Next::Idle => {}
        }
    }

    /// A port lacks credits. Behind a shared crossbar it may be any of the switch's that does.
    fn starves(&mut self, port: usize) {
        if let Machine::Switch(index) = self.ports[port].machine()
            && self.settings.switch.crossbar == Crossbar::Shared
        {
            let base = port - usize::from(self.ports[port].number);
            for number in 1..=self.switches[index as usize].ports() {
                if self.switches[index as usize].has_work(number) {
                    self.starve_one(base + usize::from(number));
                }
            }
            return;
        }
        self.starve_one(port);
    }

    fn starve_one(&mut self, port: usize) {
        self.set_starving(port, true);
        if !self.settings.by_packets()
            && let Some(at) = self.credit_comes(port)
        {
            // behind a shared crossbar it may have come, and nobody has looked
            self.wake(port, at.max(self.now));
        }
    }

    #[inline]
    pub(super) fn departs(&mut self, machine: Machine, base: usize, departure: Departure) {
        let port = base + usize::from(departure.port);
        let frame = departure.frame;
        if frame.kind == FrameKind::Data {
            self.lane(port, frame.vl).sender.sent(frame.blocks());
        }
        self.set_starving(port, false);
        let own = &mut self.ports[port];
        own.wire_free = departure.end;
        let (peer, to_adapter) = (own.peer as usize, own.to_adapter());
        let header_at = departure.start + self.kinds[own.kind as usize].delay;
        // An adapter takes whatever comes: nothing needs to happen at the time, unless it is told something.
        let taken = to_adapter && self.ahead && header_at <= self.end;
        if taken
            && !frame.fecn
            && !frame.becn
            && let Machine::Adapter(index) = self.ports[peer].machine()
        {
            self.hops += 1;
            if frame.kind != FrameKind::Data
                || self.lane(peer, frame.vl).receiver.received(frame.blocks())
            {
                self.taken(peer, index, &frame, header_at);
            }
        } else if peer < self.border as usize {
            self.launch(peer, frame, header_at);
        } else {
            self.mail.post(
                peer - self.border as usize,
                Letter::Packet {
                    now: self.now,
                    end: departure.end,
                    header_at,
                    frame,
                },
            );
        }
        if let Some(release) = departure.release {
            let from = base + usize::from(release.port);
            self.frees(from, release.at, release.vl, release.blocks);
        }
        match machine {
            Machine::Switch(index) => {
                if self.switches[index as usize].has_work(departure.port) {
                    self.wake(port, departure.end);
                }
                self.poke(index, base);
            }
            Machine::Adapter(index) => {
                let at = self.adapters[index as usize].wakes_at();
                if at != Time::NEVER {
                    self.wake(port, at);
                }
            }
        }
    }
}

/// When a packet's last bit comes by a link.
#[inline]
fn tail(rate: &LinkRate, frame: &Frame, header_at: Time) -> Time {
    header_at.since(rate.wire_time(HEADER_BYTES)) + rate.wire_time(frame.length_bytes.into())
}
