//! A fabric in virtual time: switches and adapters, joined by links with credits, driven by one queue of events.
//!
//! Owns the links and the order of events. Must not know who computed the forwarding tables. The same plan, tables, flows and seed give the same run on every machine.
//!
//! Flow-control packets go at their times over the wires, but nobody looks before somebody needs to
//! know: what an input buffer has freed is noted with its time, and turned into flow-control
//! packets when the port itself is about to send or its peer looks for credits. So a packet's hop
//! costs one event, and one more only if it waits. Tests compare that with each of these packets as
//! an event (`by_packets.rs`).

mod ahead;
#[cfg(test)]
mod by_packets;
mod layout;
mod letters;
#[cfg(test)]
mod levels;
mod links;
mod meeting;
#[cfg(test)]
mod orders;
mod part;
mod port;
mod run;
mod short;
mod slow_lane;
mod split;
mod sweep;
#[cfg(test)]
mod tests;
mod threads;

use crate::agenda::Agenda;
use crate::credit::{FLOW_BYTES, MOST_DATA_VLS};
#[cfg(test)]
use crate::event::{REFRESH, event};
use crate::host::{Adapter, FlowSpec};
use crate::latency::Latencies;
use crate::queue::Queue;
use crate::random::Random;
use crate::ring::Ring;
use crate::switch::{HEADER_BYTES, PortCounters, Switch, SwitchModel};
use crate::time::{LinkRate, Time};
use layout::Layout;
use letters::Mail;
use part::Part;
use port::{Lane, LinkKind, Port, Received};
pub use run::WindowsUse;
pub use slow_lane::SlowLane;
use std::collections::HashMap;
use std::sync::Arc;

const NONE: u32 = u32::MAX;

/// How credit updates travel, in tests.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Credits {
    /// Computed when somebody asks: the product's way.
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
    #[cfg(test)]
    pub(crate) credits: Credits,
    /// How switches are built; their data VLs are the links' too.
    pub switch: SwitchModel,
    /// The order in which nodes are looked at. No result depends on it.
    pub windows: WindowsUse,
    /// A fabric that runs by windows does so in so many parts at most, each on a thread of its own while there is much to do (1 ..= 256, what is outside is brought inside). No result depends
    /// on it.
    pub threads: usize,
}

impl Settings {
    /// Flow-control packets are events of their own: in tests alone.
    #[inline]
    fn by_packets(&self) -> bool {
        #[cfg(test)]
        return self.credits == Credits::Packets;
        #[cfg(not(test))]
        false
    }
}

impl Default for Settings {
    /// 32 KiB a VL (papers/000 II-D).
    fn default() -> Self {
        Settings {
            seed: 1,
            buffer_blocks: 512,
            #[cfg(test)]
            credits: Credits::Lazy,
            switch: SwitchModel::default(),
            windows: WindowsUse::default(),
            threads: 1,
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
    /// Flow-control packets that it sent; the refresh is not counted.
    pub flow_packets: u64,
}
/// A fabric.
#[derive(Debug)]
pub struct Net {
    settings: Settings,
    begun: Time,
    /// By node: its part, the place of its port 0 there, or where that would be, and its machine there.
    homes: Vec<u16>,
    bases: Vec<u32>,
    machines: Vec<Machine>,
    /// One until it runs for the first time.
    parts: Vec<Part>,
    /// By part and port: the node that it is of, or that what it stands in for is of.
    owners: Vec<Vec<u32>>,
    /// A switch may have another table since it ran last.
    touched: bool,
    /// It has not run yet.
    fresh: bool,
    pace: threads::Pace,
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
        let part = Part {
            settings,
            data_vls: data_vls.into(),
            now: Time::ZERO,
            queue: Agenda::Calendar(Queue::new(1 << 12, ahead::events(count as usize))),
            known: Time::ZERO,
            switches: Vec::new(),
            adapters: Vec::new(),
            ports: Vec::new(),
            received: Vec::new(),
            rests: Vec::new(),
            kinds: Vec::new(),
            #[cfg(test)]
            due: Vec::new(),
            rates: vec![idle; count as usize],
            more_lanes: Vec::new(),
            flights: Ring::new(),
            errors: Vec::new(),
            random: Random::new(settings.seed, 1),
            strict: settings.buffer_blocks > crate::credit::WINDOW,
            ahead: false,
            end: Time::ZERO,
            by_lid: Arc::new([]),
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
            sweep: sweep::Sweep::default(),
            arrived: Vec::new(),
            looks_ahead: ahead::events(count as usize) > 0,
            looks: None,
            border: NONE,
            mail: Mail::default(),
        };
        let mut net = Net {
            settings,
            begun: Time::ZERO,
            homes: vec![0; plan.nodes.len()],
            bases,
            machines: Vec::new(),
            parts: vec![part],
            owners: vec![vec![NONE; count as usize]],
            touched: true,
            fresh: true,
            pace: threads::Pace::default(),
        };
        let peers = net.join(plan, count as usize)?;
        let part = &mut net.parts[0];
        part.ahead = !part.strict && !settings.by_packets();
        net.make_machines(plan, &order, &peers)?;
        net.make_links(plan, &peers);
        net.parts[0].choose_order(groups);
        Ok(net)
    }

    /// Each port's peer; rates and error rates are set.
    fn join(&mut self, plan: &Plan, count: usize) -> Result<Vec<u32>, PlanError> {
        let mut peers = vec![NONE; count];
        let part = &mut self.parts[0];
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
                part.rates[own] = link.rate;
                if link.bit_error_rate > 0.0 {
                    part.errors.resize(count, 0.0);
                    part.errors[own] = link.bit_error_rate.min(1.0);
                    part.strict = true;
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
        let part = &mut self.parts[0];
        let mut by_lid = Vec::new();
        self.machines = vec![Machine::Switch(NONE); plan.nodes.len()];
        for &node in order {
            let node = node as usize;
            let base = self.bases[node] as usize;
            match plan.nodes[node] {
                PlanNode::Switch(ports) => {
                    let rates = &part.rates[base + 1..=base + usize::from(ports)];
                    let seed = Random::new(self.settings.seed, numbered[node] + 2).bits();
                    let mut made = Switch::new(self.settings.switch, rates, seed);
                    for port in 1..=ports {
                        made.set_link(port, peers[base + usize::from(port)] != NONE);
                    }
                    self.machines[node] = Machine::Switch(part.switches.len() as u32);
                    part.switches.push(made);
                }
                PlanNode::Adapter(lid) => {
                    let index = part.adapters.len() as u32;
                    let at = lid as usize;
                    if by_lid.len() <= at {
                        by_lid.resize(at + 1, NONE);
                    }
                    if lid == 0 || by_lid[at] != NONE {
                        return Err(PlanError::Lid(lid));
                    }
                    by_lid[at] = index;
                    let rate = part.rates[base + 1];
                    part.adapters
                        .push(Adapter::new(lid, rate, part.data_vls as u8));
                    part.delivered.push(FlowCount::default());
                    part.delivered_more.push(Vec::new());
                    self.machines[node] = Machine::Adapter(index);
                }
            }
        }
        part.by_lid = by_lid.into();
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
        let part = &mut self.parts[0];
        let lane = Lane::new(self.settings.buffer_blocks);
        part.more_lanes = vec![lane; peers.len() * (part.data_vls - 1)];
        if let Some(first) = self.machines.first() {
            part.ports = vec![Port::new(*first, 0, lane); peers.len()];
        }
        let nodes = self.machines.iter().zip(&self.bases);
        for (node, (&machine, &base)) in (0u32..).zip(nodes) {
            let numbers = match machine {
                Machine::Switch(index) => 0..=part.switches[index as usize].ports(),
                Machine::Adapter(_) => 1..=1,
            };
            for number in numbers {
                let at = base + u32::from(number);
                self.owners[0][at as usize] = node;
                part.ports[at as usize] = Port::new(machine, number, lane);
                #[cfg(test)]
                if self.settings.by_packets() && peers[at as usize] != NONE {
                    let rate = &part.rates[at as usize];
                    let refresh = rate.symbols(crate::credit::REFRESH_SYMBOLS);
                    part.queue.push(refresh, event(REFRESH, at as usize));
                }
            }
        }
        part.received = vec![Received::default(); peers.len()];
        #[cfg(test)]
        if self.settings.by_packets() {
            part.due = vec![0; peers.len()];
        }
        let mut known = HashMap::new();
        for (at, &peer) in peers.iter().enumerate() {
            let Some(other) = part.ports.get(peer as usize) else {
                continue;
            };
            let (behind, to_adapter) = match other.machine() {
                Machine::Switch(_) => (self.settings.switch.latency, false),
                Machine::Adapter(_) => (Time::ZERO, true),
            };
            let rate = &part.rates[peer as usize];
            let latency = latencies[peer as usize] + behind;
            let kind = LinkKind {
                delay: latency + rate.wire_time(HEADER_BYTES),
                flow_time: part.rates[at].wire_time(FLOW_BYTES),
            };
            let own = &mut part.ports[at];
            own.join(peer, to_adapter);
            own.kind = *known.entry(kind).or_insert_with(|| {
                part.kinds.push(kind);
                part.kinds.len() as u32 - 1
            });
        }
    }

    /// A node's part, and its machine there.
    fn machine(&self, node: u32) -> Option<(&Part, Machine)> {
        let home = *self.homes.get(node as usize)?;
        Some((&self.parts[usize::from(home)], self.machines[node as usize]))
    }

    fn machine_mut(&mut self, node: u32) -> Option<(&mut Part, Machine)> {
        let home = *self.homes.get(node as usize)?;
        let part = &mut self.parts[usize::from(home)];
        Some((part, self.machines[node as usize]))
    }

    /// A node's switch, if it is one: for its tables.
    pub fn switch_mut(&mut self, node: u32) -> Option<&mut Switch> {
        self.touched = true;
        match self.machine_mut(node)? {
            (part, Machine::Switch(index)) => Some(&mut part.switches[index as usize]),
            (_, Machine::Adapter(_)) => None,
        }
    }

    /// A node's switch, if it is one: to look at.
    pub fn switch(&self, node: u32) -> Option<&Switch> {
        match self.machine(node)? {
            (part, Machine::Switch(index)) => Some(&part.switches[index as usize]),
            (_, Machine::Adapter(_)) => None,
        }
    }

    /// A node's adapter, if it is one: for its tables and its congestion control.
    pub fn adapter_mut(&mut self, node: u32) -> Option<&mut Adapter> {
        match self.machine_mut(node)? {
            (_, Machine::Switch(_)) => None,
            (part, Machine::Adapter(index)) => Some(&mut part.adapters[index as usize]),
        }
    }

    fn adapter(&self, node: u32) -> Option<&Adapter> {
        match self.machine(node)? {
            (_, Machine::Switch(_)) => None,
            (part, Machine::Adapter(index)) => Some(&part.adapters[index as usize]),
        }
    }

    /// A flow from a node's adapter; its number there. None if the node is none. A flow that begins in the past begins now.
    pub fn add_flow(&mut self, node: u32, mut spec: FlowSpec) -> Option<u32> {
        self.adapter(node)?;
        spec.start = spec.start.max(self.now());
        if spec.has_several() {
            self.parts.iter_mut().for_each(Part::has_several);
        }
        let seed = self.settings.seed;
        let adapter = self.adapter_mut(node)?;
        let number = adapter.add_flow(spec, seed);
        let (at, lid) = (adapter.wakes_at(), adapter.lid());
        for part in &mut self.parts {
            let index = part.by_lid[lid as usize] as usize;
            part.delivered_more[index].resize(number as usize, FlowCount::default());
        }
        let port = self.bases[node as usize] as usize + 1;
        let (part, _) = self.machine_mut(node)?;
        if at != Time::NEVER {
            part.wake(port, at.max(part.now));
        }
        Some(number)
    }

    /// Now.
    pub fn now(&self) -> Time {
        self.parts[0].now
    }

    /// Links that packets have crossed since the beginning: each packet counts once a link.
    pub fn hops(&self) -> u64 {
        self.parts.iter().map(|part| part.hops).sum()
    }

    /// Events since the beginning.
    pub fn events(&self) -> u64 {
        self.parts.iter().map(|part| part.events).sum()
    }

    /// Packets that bit errors took since the beginning.
    pub fn lost(&self) -> u64 {
        self.parts.iter().map(|part| part.lost).sum()
    }

    /// Threads that it has run on.
    pub fn threads(&self) -> usize {
        match self.pace.threaded {
            true => self.parts.len(),
            false => 1,
        }
    }

    /// Counts from here: the warm-up is over.
    pub fn begin(&mut self) {
        self.begun = self.now();
        self.parts.iter_mut().for_each(Part::begin);
    }

    /// How long it counts.
    pub fn counted(&self) -> Time {
        self.now().since(self.begun)
    }

    /// What was delivered of a flow of a node's adapter; nothing of one that is not there.
    pub fn delivered(&self, node: u32, flow: u32) -> FlowCount {
        let mut sum = FlowCount::default();
        let Some(adapter) = self.adapter(node) else {
            return sum;
        };
        for part in &self.parts {
            let index = part.by_lid[adapter.lid() as usize] as usize;
            let count = match flow.checked_sub(1) {
                None => part.delivered.get(index),
                Some(other) => part.delivered_more[index].get(other as usize),
            };
            if let Some(count) = count {
                sum.packets += count.packets;
                sum.bytes += count.bytes;
                sum.latency_sum += count.latency_sum;
            }
        }
        sum
    }

    /// A flow's throughput as a share of its adapter's link.
    pub fn share(&self, node: u32, flow: u32) -> f64 {
        let Some(adapter) = self.adapter(node) else {
            return 0.0;
        };
        let bits = self.delivered(node, flow).bytes as f64 * 8.0;
        let rate = adapter.rate().kbps() as f64 * 1e3;
        bits / self.counted().seconds().max(1e-12) / rate
    }

    /// Latencies of what was delivered, from a packet's birth to its last bit's arrival.
    pub fn latencies(&self) -> &Latencies {
        &self.parts[0].latencies
    }

    /// Latencies of whole messages, from their birth to their last packet's last bit.
    pub fn messages(&self) -> &Latencies {
        let part = &self.parts[0];
        match part.several {
            true => &part.messages,
            false => &part.latencies,
        }
    }

    /// Each port that has a link.
    pub fn reports(&mut self) -> Vec<PortReport> {
        self.parts.iter_mut().for_each(Part::settle_all);
        let counted = self.counted();
        let mut reports = Vec::new();
        for node in 0..self.machines.len() {
            let Some((part, machine)) = self.machine(node as u32) else {
                continue;
            };
            let owners = &self.owners[usize::from(self.homes[node])];
            let base = self.bases[node] as usize;
            let ports = match machine {
                Machine::Switch(index) => part.switches[index as usize].ports(),
                Machine::Adapter(_) => 1,
            };
            for at in base + 1..=base + usize::from(ports) {
                let (port, received) = (&part.ports[at], part.received[at]);
                if port.peer == NONE {
                    continue;
                }
                let counters = match machine {
                    Machine::Switch(index) => PortCounters {
                        rcv_bytes: received.bytes,
                        rcv_packets: received.packets,
                        ..part.switches[index as usize].counters_at(port.number, part.now)
                    },
                    Machine::Adapter(index) => part.adapters[index as usize].counters_at(part.now),
                };
                let other = &part.ports[port.peer as usize];
                // packets are counted when they begin to go
                let begun = counters.xmit_bytes as f64 * 8e9 / part.rates[at].kbps() as f64;
                let before = part.left_over.get(at).map_or(0, |left| left.0);
                let carried = begun + before as f64 - part.to_go(port).0 as f64;
                reports.push(PortReport {
                    node: node as u32,
                    port: port.number,
                    peer: (owners[port.peer as usize], other.number),
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
        let switches = self.parts.iter().flat_map(|part| &part.switches);
        switches.map(of).sum()
    }

    /// Runs until a time; false if nothing is left to happen before it. (With packets still in the switches' buffers that is a deadlock.)
    ///
    /// # Panics
    /// As what runs on another thread did.
    pub fn run_until(&mut self, end: Time) -> bool {
        let fresh = std::mem::take(&mut self.fresh);
        if fresh {
            self.divide();
        }
        if std::mem::take(&mut self.touched) {
            Switch::share_tables(self.parts.iter_mut().flat_map(|part| &mut part.switches));
        }
        if fresh {
            self.parts.iter_mut().for_each(Part::prepare);
        }
        match &mut self.parts[..] {
            [part] => part.run_until(end),
            parts => threads::together(parts, end, &mut self.pace),
        }
        self.parts.iter().any(|part| !part.queue.is_empty())
    }
}
