//! A fabric in virtual time: switches and adapters, joined by links with credits, driven by one queue of events.
//!
//! Owns the links and the order of events. Must not know who computed the forwarding tables. The same plan, tables, flows and seed give the same run on every machine.
//!
//! Credits come in two ways. With [`Credits::Packets`] each flow-control packet is an event at its sender and another at its receiver. With
//! [`Credits::Lazy`], the default, the same packets go at the same times over the same wires, but nobody looks before somebody needs to know: what an input buffer
//! has freed is noted with its time, and turned into flow-control packets when the port itself is about to send or its peer looks for credits. So a packet's hop costs one event,
//! and one more only if it waits.

mod ahead;
mod layout;
mod links;
#[cfg(test)]
mod orders;
mod port;
mod run;
mod short;
mod slow_lane;
#[cfg(test)]
mod tests;

use crate::agenda::Agenda;
use crate::credit::MOST_DATA_VLS;
use crate::frame::{Frame, FrameKind};
use crate::host::{Adapter, FlowSpec};
use crate::latency::Latencies;
use crate::queue::Queue;
use crate::random::Random;
use crate::ring::Ring;
use crate::switch::{
    Arrival, Crossbar, Departure, HEADER_BYTES, Next, PortCounters, Switch, SwitchModel, Wires,
};
use crate::time::{LinkRate, Time};
use layout::Layout;
use port::{Lane, Port};
pub use run::WindowsUse;
pub use slow_lane::SlowLane;

const NONE: u32 = u32::MAX;

/// How credit updates travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Credits {
    /// Computed when somebody asks.
    #[default]
    Lazy,
    /// Packet by packet.
    Packets,
}

/// What all nodes and links have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Everything that is random comes from this.
    pub seed: u64,
    /// Buffer of each data VL of each port, in blocks of 64 bytes.
    pub buffer_blocks: u16,
    /// How credit updates travel.
    pub credits: Credits,
    /// How switches are built; their data VLs are the links' too.
    pub switch: SwitchModel,
    /// The order in which nodes are looked at. No result depends on it.
    pub windows: WindowsUse,
}

impl Default for Settings {
    /// 32 KiB a VL (papers/000 II-D).
    fn default() -> Self {
        Settings {
            seed: 1,
            buffer_blocks: 512,
            credits: Credits::Lazy,
            switch: SwitchModel::default(),
            windows: WindowsUse::default(),
        }
    }
}

/// A node of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlanNode {
    /// A switch of so many ports.
    Switch(u8),
    /// An adapter of this LID; its port is 1.
    Adapter(u32),
}

/// A link of a plan.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlanLink {
    /// Nodes by their index, and their ports.
    pub ends: [(u32, u8); 2],
    /// Its rate.
    pub rate: LinkRate,
    /// From end to end.
    pub latency: Time,
    /// Share of bits that arrive wrong.
    pub bit_error_rate: f64,
}

/// A fabric to be.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plan {
    /// Its nodes.
    pub nodes: Vec<PlanNode>,
    /// Its links.
    pub links: Vec<PlanLink>,
}

/// Why a plan is none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PlanError {
    /// A link to what is not there.
    #[error("link {link} ends at port {port} of node {node}, which is not there")]
    NoSuchPort {
        /// The link's index.
        link: usize,
        /// The node's.
        node: u32,
        /// The port.
        port: u8,
    },
    /// Two links at a port.
    #[error("port {port} of node {node} has two links")]
    PortTwice {
        /// The node's index.
        node: u32,
        /// The port.
        port: u8,
    },
    /// Two adapters of one LID, or of 0.
    #[error("LID {0} is no adapter's, or that of two")]
    Lid(u32),
    /// More ports than can be counted.
    #[error("the plan has too many ports")]
    TooLarge,
}

/// A node's machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Machine {
    Switch(u32),
    Adapter(u32),
}

/// A packet on its way.
#[derive(Clone, Copy, Debug, Default)]
struct Flight {
    frame: Frame,
    /// When the decision about it is due.
    header_at: Time,
}

/// What was delivered of a flow since the last [`Net::begin`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowCount {
    /// Packets.
    pub packets: u64,
    /// Bytes, LRH to VCRC.
    pub bytes: u64,
    /// Sum of their latencies, birth to last bit, in picoseconds.
    pub latency_sum: u64,
}

/// A port's part in what happened since the last [`Net::begin`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PortReport {
    /// The node, by its index in the plan.
    pub node: u32,
    /// The port.
    pub port: u8,
    /// Node and port at the other end.
    pub peer: (u32, u8),
    /// Its counters.
    pub counters: PortCounters,
    /// Share of the time that its wire carried packets.
    pub utilisation: f64,
    /// Flow-control packets that it sent; the refresh is not counted with [`Credits::Lazy`].
    pub flow_packets: u64,
}

/// Kinds of events: above a packet's place among [`Net::flights`] (28 bits) and a port (32 bits).
const KIND_SHIFT: u32 = 60;
const FLIGHTS: usize = (1 << 28) - 1;
const ARRIVE: u64 = 0;
const WAKE: u64 = 1;
const FREE: u64 = 2;
const TELL: u64 = 3;
const HEAR: u64 = 4;
const REFRESH: u64 = 5;
const SETTLE: u64 = 6;
const SLOW_LANE: u64 = 7;
/// A packet that came is looked at once more.
const LATER: u64 = 8;

/// A fabric.
#[derive(Debug)]
pub struct Net {
    settings: Settings,
    data_vls: usize,
    now: Time,
    begun: Time,
    queue: Agenda,
    /// What was before this is known to all nodes; with a calendar, now.
    known: Time,
    machines: Vec<Machine>,
    /// By node: the place of its port 0, or where that would be.
    bases: Vec<u32>,
    switches: Vec<Switch>,
    adapters: Vec<Adapter>,
    ports: Vec<Port>,
    rates: Vec<LinkRate>,
    /// By port and VL, but for the first, which lies in its port.
    more_lanes: Vec<Lane>,
    /// Packets on their way, with the time of the decision about them; their events know their places.
    flights: Ring<Flight>,
    /// Bit error rates; empty if there are none.
    errors: Vec<f64>,
    random: Random,
    /// Packets are lost, or buffers are larger than the window: the order of what comes and what is told matters.
    strict: bool,
    /// What an adapter takes may be taken before its time: nothing depends on the order.
    ahead: bool,
    /// Until when it runs.
    end: Time,
    by_lid: Vec<u32>,
    /// By adapter: of its first flow. Mostly it has one.
    delivered: Vec<FlowCount>,
    /// Of its other flows.
    delivered_more: Vec<Vec<FlowCount>>,
    latencies: Latencies,
    messages: Latencies,
    /// Messages may be of several packets: else their latencies are those of packets.
    several: bool,
    hops: u64,
    events: u64,
    lost: u64,
    /// By port: what of its last packet was still to go when counting began; empty at the beginning of time.
    left_over: Vec<Time>,
    /// What stages of [`ahead`] have found for the next ones: the other port of a switch, and the port of a host; the place for those that are looked at now.
    others: [Option<u8>; ahead::KEPT],
    hosts: [u32; ahead::KEPT],
    look: usize,
    /// Memory is asked for before it is needed: see [`ahead`].
    looks_ahead: bool,
    /// A switch may have another table since it ran last.
    touched: bool,
    /// Nobody has asked for large pages yet.
    unpaged: bool,
    looks: Option<Box<slow_lane::Looks>>,
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

impl Net {
    /// The fabric of a plan, its links up, its switches without tables, its adapters without flows.
    ///
    /// # Errors
    /// A link to a port that is not there or that has one already; LIDs that are none.
    pub fn new(plan: &Plan, settings: Settings) -> Result<Net, PlanError> {
        let data_vls = settings.switch.data_vls.clamp(1, MOST_DATA_VLS);
        let Layout {
            bases,
            order,
            groups,
            count,
        } = Layout::new(
            &plan.nodes,
            &layout::switches_of_hosts(plan),
            layout::levels(plan).as_deref(),
            settings.windows.fewest_ports(),
        )?;
        let idle = LinkRate::new(8_000_000, 4);
        let mut net = Net {
            settings,
            data_vls: data_vls.into(),
            now: Time::ZERO,
            begun: Time::ZERO,
            queue: Agenda::Calendar(Queue::new(1 << 12, ahead::events(count as usize))),
            known: Time::ZERO,
            machines: Vec::new(),
            bases,
            switches: Vec::new(),
            adapters: Vec::new(),
            ports: Vec::new(),
            rates: vec![idle; count as usize],
            more_lanes: Vec::new(),
            flights: Ring::new(),
            errors: Vec::new(),
            random: Random::new(settings.seed, 1),
            strict: settings.buffer_blocks > crate::credit::WINDOW,
            ahead: false,
            end: Time::ZERO,
            by_lid: Vec::new(),
            delivered: Vec::new(),
            delivered_more: Vec::new(),
            latencies: Latencies::default(),
            messages: Latencies::default(),
            several: false,
            hops: 0,
            events: 0,
            lost: 0,
            left_over: Vec::new(),
            others: [None; ahead::KEPT],
            hosts: [NONE; ahead::KEPT],
            look: 0,
            looks_ahead: ahead::events(count as usize) > 0,
            touched: true,
            unpaged: ahead::events(count as usize) > 0,
            looks: None,
        };
        let peers = net.join(plan, count as usize)?;
        net.ahead = !net.strict && settings.credits == Credits::Lazy;
        net.make_machines(plan, &order, &peers)?;
        net.make_links(plan, &peers);
        net.choose_order(groups);
        Ok(net)
    }

    /// Each port's peer; rates and error rates are set.
    fn join(&mut self, plan: &Plan, count: usize) -> Result<Vec<u32>, PlanError> {
        let mut peers = vec![NONE; count];
        for (index, link) in plan.links.iter().enumerate() {
            let mut at = [0u32; 2];
            for (at, &(node, port)) in at.iter_mut().zip(&link.ends) {
                let ports = match plan.nodes.get(node as usize) {
                    Some(PlanNode::Switch(ports)) => *ports,
                    Some(PlanNode::Adapter(_)) => 1,
                    None => 0,
                };
                if port == 0 || port > ports {
                    return Err(PlanError::NoSuchPort {
                        link: index,
                        node,
                        port,
                    });
                }
                *at = self.bases[node as usize] + u32::from(port);
            }
            for (side, &(node, port)) in link.ends.iter().enumerate() {
                let own = at[side] as usize;
                if peers[own] != NONE || at[0] == at[1] {
                    return Err(PlanError::PortTwice { node, port });
                }
                peers[own] = at[1 - side];
                self.rates[own] = link.rate;
                if link.bit_error_rate > 0.0 {
                    self.errors.resize(count, 0.0);
                    self.errors[own] = link.bit_error_rate.min(1.0);
                    self.strict = true;
                }
            }
        }
        Ok(peers)
    }

    /// Machines lie in the order of their ports.
    fn make_machines(
        &mut self,
        plan: &Plan,
        order: &[u32],
        peers: &[u32],
    ) -> Result<(), PlanError> {
        // of all ports, and a port 0 of each node
        let mut numbered = Vec::with_capacity(plan.nodes.len());
        let mut sum = 0;
        for node in &plan.nodes {
            numbered.push(sum);
            sum += match node {
                PlanNode::Switch(ports) => u64::from(*ports) + 1,
                PlanNode::Adapter(_) => 2,
            };
        }
        self.machines = vec![Machine::Switch(NONE); plan.nodes.len()];
        for &node in order {
            let node = node as usize;
            let base = self.bases[node] as usize;
            match plan.nodes[node] {
                PlanNode::Switch(ports) => {
                    let rates = &self.rates[base + 1..=base + usize::from(ports)];
                    let seed = Random::new(self.settings.seed, numbered[node] + 2).bits();
                    let mut made = Switch::new(self.settings.switch, rates, seed);
                    for port in 1..=ports {
                        made.set_link(port, peers[base + usize::from(port)] != NONE);
                    }
                    self.machines[node] = Machine::Switch(self.switches.len() as u32);
                    self.switches.push(made);
                }
                PlanNode::Adapter(lid) => {
                    let index = self.adapters.len() as u32;
                    let at = lid as usize;
                    if self.by_lid.len() <= at {
                        self.by_lid.resize(at + 1, NONE);
                    }
                    if lid == 0 || self.by_lid[at] != NONE {
                        return Err(PlanError::Lid(lid));
                    }
                    self.by_lid[at] = index;
                    let rate = self.rates[base + 1];
                    self.adapters
                        .push(Adapter::new(lid, rate, self.data_vls as u8));
                    self.delivered.push(FlowCount::default());
                    self.delivered_more.push(Vec::new());
                    self.machines[node] = Machine::Adapter(index);
                }
            }
        }
        Ok(())
    }

    fn make_links(&mut self, plan: &Plan, peers: &[u32]) {
        let mut latencies = vec![Time::ZERO; peers.len()];
        for link in &plan.links {
            for (node, port) in link.ends {
                let at = self.bases[node as usize] + u32::from(port);
                latencies[at as usize] = link.latency;
            }
        }
        let lane = Lane::new(self.settings.buffer_blocks);
        self.more_lanes = vec![lane; peers.len() * (self.data_vls - 1)];
        if let Some(first) = self.machines.first() {
            self.ports = vec![Port::new(*first, 0, 0, lane); peers.len()];
        }
        for (&machine, &base) in self.machines.iter().zip(&self.bases) {
            let numbers = match machine {
                Machine::Switch(index) => 0..=self.switches[index as usize].ports(),
                Machine::Adapter(_) => 1..=1,
            };
            for number in numbers {
                let at = base + u32::from(number);
                let mut made = Port::new(machine, base, number, lane);
                let rate = &self.rates[at as usize];
                made.flow_time = rate.wire_time(crate::credit::FLOW_BYTES);
                self.ports[at as usize] = made;
                if self.settings.credits == Credits::Packets && peers[at as usize] != NONE {
                    let refresh = rate.symbols(crate::credit::REFRESH_SYMBOLS);
                    self.queue
                        .push(refresh, REFRESH << KIND_SHIFT | u64::from(at));
                }
            }
        }
        for (at, &peer) in peers.iter().enumerate() {
            let Some(other) = self.ports.get(peer as usize) else {
                continue;
            };
            let (behind, to_adapter) = match other.machine {
                Machine::Switch(_) => (self.settings.switch.latency, false),
                Machine::Adapter(_) => (Time::ZERO, true),
            };
            let rate = &self.rates[peer as usize];
            let latency = latencies[peer as usize] + behind;
            let own = &mut self.ports[at];
            (own.peer, own.to_adapter) = (peer, to_adapter);
            own.delay = latency + rate.wire_time(HEADER_BYTES);
        }
    }

    /// A port's VL.
    #[inline]
    fn lane(&mut self, port: usize, vl: u8) -> &mut Lane {
        match port::behind_first(port, vl, self.data_vls) {
            None => &mut self.ports[port].lane,
            Some(place) => &mut self.more_lanes[place],
        }
    }

    /// A node's switch, if it is one: for its tables.
    pub fn switch_mut(&mut self, node: u32) -> Option<&mut Switch> {
        match self.machines.get(node as usize)? {
            Machine::Switch(index) => {
                self.touched = true;
                Some(&mut self.switches[*index as usize])
            }
            Machine::Adapter(_) => None,
        }
    }

    /// A node's adapter, if it is one: for its tables and its congestion control.
    pub fn adapter_mut(&mut self, node: u32) -> Option<&mut Adapter> {
        match self.machines.get(node as usize)? {
            Machine::Switch(_) => None,
            Machine::Adapter(index) => Some(&mut self.adapters[*index as usize]),
        }
    }

    /// A flow from a node's adapter; its number there. None if the node is none. A flow that begins in the past begins now.
    pub fn add_flow(&mut self, node: u32, mut spec: FlowSpec) -> Option<u32> {
        let Machine::Adapter(index) = *self.machines.get(node as usize)? else {
            return None;
        };
        spec.start = spec.start.max(self.now);
        if !self.several && spec.has_several() {
            // so far they were the same
            self.several = true;
            self.messages = self.latencies.clone();
        }
        let seed = self.settings.seed;
        let adapter = &mut self.adapters[index as usize];
        let number = adapter.add_flow(spec, seed);
        let at = adapter.wakes_at();
        self.delivered_more[index as usize].resize(number as usize, FlowCount::default());
        let port = self.bases[node as usize] + 1;
        if at != Time::NEVER {
            self.wake(port as usize, at.max(self.now));
        }
        Some(number)
    }

    /// Now.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Links that packets have crossed since the beginning: each packet counts once a link.
    pub const fn hops(&self) -> u64 {
        self.hops
    }

    /// Events since the beginning.
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Packets that bit errors took since the beginning.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Counts from here: the warm-up is over.
    pub fn begin(&mut self) {
        self.settle_all();
        self.begun = self.now;
        let now = self.now;
        let switches = self.switches.iter_mut();
        switches.for_each(|switch| switch.clear_counters(now));
        let adapters = self.adapters.iter_mut();
        adapters.for_each(|adapter| adapter.clear_counters(now));
        for port in &mut self.ports {
            (port.rcv_bytes, port.rcv_packets, port.flow_packets) = (0, 0, 0);
        }
        self.delivered.fill(FlowCount::default());
        for delivered in &mut self.delivered_more {
            delivered.fill(FlowCount::default());
        }
        self.left_over = self.ports.iter().map(|port| self.to_go(port)).collect();
        self.latencies = Latencies::default();
        self.messages = Latencies::default();
        if let Some(looks) = self.looks.take() {
            self.looks = Some(self.noted(looks));
        }
    }

    /// How long a port's packet will still be on its way to the wire.
    fn to_go(&self, port: &Port) -> Time {
        let end = match port.machine {
            Machine::Switch(index) => self.switches[index as usize].free_at(port.number),
            Machine::Adapter(index) => self.adapters[index as usize].free_at(),
        };
        end.since(self.now)
    }

    /// How long it counts.
    pub fn counted(&self) -> Time {
        self.now.since(self.begun)
    }

    /// What was delivered of a flow of a node's adapter; nothing of one that is not there.
    pub fn delivered(&self, node: u32, flow: u32) -> FlowCount {
        let count = match self.machines.get(node as usize) {
            Some(Machine::Adapter(index)) => match flow.checked_sub(1) {
                None => self.delivered.get(*index as usize),
                Some(other) => self.delivered_more[*index as usize].get(other as usize),
            },
            _ => None,
        };
        count.copied().unwrap_or_default()
    }

    /// A flow's throughput as a share of its adapter's link.
    pub fn share(&self, node: u32, flow: u32) -> f64 {
        let Some(Machine::Adapter(index)) = self.machines.get(node as usize) else {
            return 0.0;
        };
        let bits = self.delivered(node, flow).bytes as f64 * 8.0;
        let rate = self.adapters[*index as usize].rate().kbps() as f64 * 1e3;
        bits / self.counted().seconds().max(1e-12) / rate
    }

    /// Latencies of what was delivered, from a packet's birth to its last bit's arrival.
    pub const fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// Latencies of whole messages, from their birth to their last packet's last bit.
    pub const fn messages(&self) -> &Latencies {
        match self.several {
            true => &self.messages,
            false => &self.latencies,
        }
    }

    /// Each port that has a link.
    pub fn reports(&mut self) -> Vec<PortReport> {
        self.settle_all();
        let counted = self.counted();
        let mut places: Vec<(u32, u32)> = self.bases.iter().copied().zip(0u32..).collect();
        places.sort_unstable();
        let mut reports = Vec::new();
        for (node, machine) in self.machines.iter().enumerate() {
            let base = self.bases[node] as usize;
            let ports = match machine {
                Machine::Switch(index) => self.switches[*index as usize].ports(),
                Machine::Adapter(_) => 1,
            };
            for at in base + 1..=base + usize::from(ports) {
                let port = &self.ports[at];
                if port.peer == NONE {
                    continue;
                }
                let counters = match machine {
                    Machine::Switch(index) => PortCounters {
                        rcv_bytes: port.rcv_bytes,
                        rcv_packets: port.rcv_packets,
                        ..self.switches[*index as usize].counters_at(port.number, self.now)
                    },
                    Machine::Adapter(index) => self.adapters[*index as usize].counters_at(self.now),
                };
                let other = &self.ports[port.peer as usize];
                let peer = places.partition_point(|place| place.0 < port.peer) - 1;
                // packets are counted when they begin to go
                let begun = counters.xmit_bytes as f64 * 8e9 / self.rates[at].kbps() as f64;
                let before = self.left_over.get(at).map_or(0, |left| left.0);
                let carried = begun + before as f64 - self.to_go(port).0 as f64;
                reports.push(PortReport {
                    node: node as u32,
                    port: port.number,
                    peer: (places[peer].1, other.number),
                    counters,
                    utilisation: (carried / (counted.0 as f64).max(1.0)).clamp(0.0, 1.0),
                    flow_packets: port.flow_packets,
                });
            }
        }
        reports
    }

    /// Blocks of 64 bytes in all switches' buffers.
    pub fn waiting_blocks(&self) -> u64 {
        let of = |switch: &Switch| switch.waiting_blocks(None);
        self.switches.iter().map(of).sum()
    }

    #[inline]
    fn happens(&mut self, what: u64, port: usize) {
        match what >> KIND_SHIFT {
            ARRIVE | LATER => self.arrive(port, (what >> 32) as usize & FLIGHTS),
            WAKE => {
                // An event that a nearer one was put before is stale.
                if self.ports[port].wake == self.now {
                    self.ports[port].wake = Time::NEVER;
                    self.attempt(port);
                }
            }
            FREE => self.free(port),
            TELL => self.tell(port),
            HEAR => self.hear(port),
            REFRESH => self.refresh(port),
            SLOW_LANE => self.look_at_hosts(),
            _ => self.resynchronise(port),
        }
    }

    #[inline]
    fn wake(&mut self, port: usize, at: Time) {
        let own = &mut self.ports[port];
        if at < own.wake {
            own.wake = at;
            self.queue.push(at, WAKE << KIND_SHIFT | port as u64);
        }
    }

    /// A packet sets out to a port.
    #[inline]
    fn launch(&mut self, port: usize, frame: Frame, header_at: Time) {
        let flight = self.flights.put(Flight { frame, header_at });
        let what = ARRIVE << KIND_SHIFT | u64::from(flight) << 32 | port as u64;
        self.queue.push(header_at, what);
    }

    /// A header is there.
    #[inline]
    fn arrive(&mut self, port: usize, flight: usize) {
        let now = self.now;
        let Flight { frame, header_at } = self.flights.slots()[flight];
        let credited = frame.kind == FrameKind::Data;
        if header_at == now {
            self.hops += 1;
            let lost = self.strict && self.is_lost(port, &frame);
            let blocks = frame.blocks();
            if lost || credited && !self.lane(port, frame.vl).receiver.received(blocks) {
                debug_assert!(lost, "a sender passed its credit limit");
                self.flights.free(flight as u32);
                return;
            }
        }
        let (machine, number) = (self.ports[port].machine, self.ports[port].number);
        match machine {
            Machine::Adapter(index) => {
                self.flights.free(flight as u32);
                self.taken(port, index, &frame, header_at);
            }
            Machine::Switch(index) => {
                if self.passes(index, port, &frame, header_at) {
                    self.ports[port].received(&frame);
                    self.flights.free(flight as u32);
                    return;
                }
                let switch = &mut self.switches[index as usize];
                match switch.arrives(now, header_at, number, frame) {
                    Arrival::Later(at) => {
                        let what = LATER << KIND_SHIFT | (flight as u64) << 32 | port as u64;
                        self.queue.push(at, what);
                    }
                    Arrival::Kept => {
                        self.ports[port].received(&frame);
                        self.flights.free(flight as u32);
                        self.poke(index, self.ports[port].base as usize);
                    }
                    Arrival::Dropped => {
                        self.flights.free(flight as u32);
                        if credited {
                            let tail = tail(&self.rates[port], &frame, header_at);
                            self.frees(port, tail, frame.vl, frame.blocks());
                        }
                    }
                }
            }
        }
    }

    /// A packet finds its output idle, and goes on. False if it has to wait, or nobody knows yet.
    #[inline]
    fn passes(&mut self, index: u32, port: usize, frame: &Frame, header_at: Time) -> bool {
        let own = &self.ports[port];
        let (machine, base, number) = (own.machine, own.base as usize, own.number);
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
        let Some(&source) = self.by_lid.get(frame.slid as usize) else {
            return;
        };
        let count = match flow.checked_sub(1) {
            None => self.delivered.get_mut(source as usize),
            Some(other) => self
                .delivered_more
                .get_mut(source as usize)
                .and_then(|more| more.get_mut(other as usize)),
        };
        if let Some(count) = count {
            count.packets += 1;
            count.bytes += u64::from(frame.length_bytes);
            count.latency_sum += latency.0;
        }
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
        match self.settings.credits {
            Credits::Lazy => {
                self.settle(port, self.now);
                if self.strict || self.is_short(port) {
                    self.settle_far(self.ports[port].peer as usize);
                    self.absorb(port, self.now);
                }
            }
            Credits::Packets => self.tell_all(port),
        }
    }

    /// Asks a port's machine for a packet.
    fn attempt(&mut self, port: usize) {
        let own = &self.ports[port];
        let (machine, base, number) = (own.machine, own.base, own.number);
        if own.peer == NONE {
            return;
        }
        self.look_for_credits(port);
        let ends = Ends {
            ports: &self.ports,
            more_lanes: &self.more_lanes,
            base: base as usize,
            data_vls: self.data_vls,
        };
        let next = match machine {
            Machine::Switch(index) => self.switches[index as usize].next(self.now, number, &ends),
            Machine::Adapter(index) => self.adapters[index as usize].next(self.now, &ends),
        };
        match next {
            Next::Sent(departure) => self.departs(machine, base as usize, departure),
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
        if let Machine::Switch(index) = self.ports[port].machine
            && self.settings.switch.crossbar == Crossbar::Shared
        {
            let base = self.ports[port].base as usize;
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
        if self.settings.credits == Credits::Lazy
            && let Some(at) = self.credit_comes(port)
        {
            // behind a shared crossbar it may have come, and nobody has looked
            self.wake(port, at.max(self.now));
        }
    }

    #[inline]
    fn departs(&mut self, machine: Machine, base: usize, departure: Departure) {
        let port = base + usize::from(departure.port);
        let frame = departure.frame;
        if frame.kind == FrameKind::Data {
            self.lane(port, frame.vl).sender.sent(frame.blocks());
        }
        self.set_starving(port, false);
        let own = &mut self.ports[port];
        own.wire_free = departure.end;
        let (peer, to_adapter) = (own.peer as usize, own.to_adapter);
        let header_at = departure.start + own.delay;
        // An adapter takes whatever comes: nothing needs to happen at the time, unless it is told something.
        let taken = to_adapter && self.ahead && header_at <= self.end;
        if taken
            && !frame.fecn
            && !frame.becn
            && let Machine::Adapter(index) = self.ports[peer].machine
        {
            self.hops += 1;
            if frame.kind != FrameKind::Data
                || self.lane(peer, frame.vl).receiver.received(frame.blocks())
            {
                self.taken(peer, index, &frame, header_at);
            }
        } else {
            self.launch(peer, frame, header_at);
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
