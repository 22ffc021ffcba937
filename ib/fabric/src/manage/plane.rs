//! How management packets of queue pair 0 find their way: by the list of ports that they carry (IBA 14.2.2), or by the LIDs that a
//! manager has given.
//!
//! Owns the nodes of a fabric and the state of its cables. A packet is carried to its end in one call: lane 15 has no credits, and its time
//! is nobody's business here. Must not know who waits for an answer: what is for a manager is handed out as a [`Delivery`].
//!
//! A route whose ends are LIDs (DrSLID or DrDLID not permissive) is let go of: no manager that we know sends one.

use ferriband_topology::{Link, NodeId, NodeKind, PortId, Topology};
use ferriband_wire::Lid;
use ferriband_wire::attributes::{PhysState, PortState};
use ferriband_wire::mad::Method;
use ferriband_wire::smp::{Direction, MAX_HOPS, Route, Smp, attribute};

use super::agent::KNOWS_EXTENDED_SPEEDS;
use super::node::Node;
use super::training;
use crate::Time;
use crate::random::Random;
use std::collections::{BTreeMap, BTreeSet};

/// Packets with wrong keys that are kept for traps: of more no trap is sent.
const MOST_WRONG: usize = 64;
/// Nodes that a packet visits at the most: there and back by the longest list of ports, and twice by LIDs.
const MOST_VISITS: usize = 4 * (MAX_HOPS as usize + 1);

/// A million packets: of so many some are spoilt.
pub const MILLION: u32 = 1_000_000;
/// The same fabric spoils the same packets in each run.
const SEED: u64 = 1;

/// Where managers and agents are: an adapter's port, or port 0 of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Place {
    /// The node.
    pub node: NodeId,
    /// Its port; 0 in a switch.
    pub port: u8,
}

/// A packet for whoever manages at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// Where it has come to.
    pub at: Place,
    /// It.
    pub smp: Smp,
    /// The LID that it came from.
    pub slid: Lid,
    /// The LID that it went to.
    pub dlid: Lid,
}

/// A fabric as its managers see it.
#[derive(Clone, Debug)]
pub struct Plane {
    pub(super) topology: Topology,
    pub(super) nodes: Vec<Node>,
    /// For each cable: it carries nothing.
    pub(super) cut: Vec<bool>,
    /// For each node: it is switched off.
    pub(super) off: Vec<bool>,
    /// Of cables that spoil packets: how many of a million.
    pub(super) spoils: BTreeMap<usize, u32>,
    /// Cables that somebody looks at, and what has passed them.
    watched: BTreeSet<usize>,
    passed: Vec<Passed>,
    /// Packets with a wrong management key, and where they came to: a trap is due for each.
    wrong_keys: Vec<Delivery>,
    /// Cables whose link went down, or was trained anew.
    renewed: BTreeSet<usize>,
    /// Ports whose link's integrity is bad: a trap is due for each.
    spoilt_links: BTreeSet<PortId>,
    chance: Random,
}

/// A packet of subnet management that has passed a cable that somebody looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passed {
    /// The cable, an index of the topology's.
    pub cable: usize,
    /// The port that it left by.
    pub from: PortId,
    /// It, as it was there.
    pub smp: Smp,
    /// The LIDs of its LRH.
    pub slid: Lid,
    /// See `slid`.
    pub dlid: Lid,
}

/// A packet on its way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    smp: Smp,
    slid: Lid,
    dlid: Lid,
}

/// What becomes of a packet at a node.
enum Step {
    /// It leaves by this port.
    Leave(u8),
    /// It has come to its end, which it came to by this port.
    Here(u8),
    /// It is let go of.
    Gone,
}

impl Plane {
    /// All nodes switched on, all cables plugged in, nobody has managed anything yet.
    pub fn new(topology: Topology) -> Plane {
        let link = |node, port| {
            let cable = topology.cable_at(PortId { node, port })?;
            Some(topology.cables()[cable].link)
        };
        let nodes = topology
            .ids()
            .map(|id| Node::new(topology.node(id), |port| link(id, port)))
            .collect();
        Plane {
            nodes,
            cut: vec![false; topology.cables().len()],
            off: vec![false; topology.nodes().len()],
            spoils: BTreeMap::new(),
            watched: BTreeSet::new(),
            passed: Vec::new(),
            wrong_keys: Vec::new(),
            renewed: BTreeSet::new(),
            spoilt_links: BTreeSet::new(),
            chance: Random::new(SEED, 0),
            topology,
        }
    }

    /// What it was made from.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// A node's state.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// A node's state, to change what no packet changes.
    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.0 as usize]
    }

    /// True for a cable that is cut.
    pub fn is_cut(&self, cable: usize) -> bool {
        self.cut[cable]
    }

    /// From now on a cable spoils so many of a million packets, of management too: the port at the other end counts and drops them. 0: none.
    pub fn set_spoils(&mut self, cable: usize, of_a_million: u32) {
        match of_a_million.min(MILLION) {
            0 => self.spoils.remove(&cable),
            some => self.spoils.insert(cable, some),
        };
    }

    /// Cables that spoil packets, and how many of a million.
    pub fn spoils(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.spoils.iter().map(|(cable, some)| (*cable, *some))
    }

    /// Whether a packet is spoilt on a cable that leads to `far`, which counts it. Each error is made good by a packet without one; more of them than LocalPhyErrors are an error of the link's
    /// integrity (IBA 7.12.2).
    pub(super) fn is_spoilt(&mut self, cable: usize, far: PortId) -> bool {
        let Some(share) = self.spoils.get(&cable) else {
            return false;
        };
        let spoilt = self.chance.below(MILLION) < *share;
        let port = &mut self.nodes[far.node.0 as usize].ports[usize::from(far.port)];
        if spoilt {
            port.counters.symbol_errors += 1;
            port.counters.rcv_errors += 1;
            port.counters.wrongs.physical += 1;
            port.recent_errors += 1;
            if port.recent_errors > port.info.local_phy_errors {
                port.recent_errors = 0;
                port.counters.integrity_errors += 1;
                self.spoilt_links.insert(far);
            }
        } else {
            port.recent_errors = port.recent_errors.saturating_sub(1);
        }
        spoilt
    }

    /// True for a node that is switched off.
    pub fn is_off(&self, id: NodeId) -> bool {
        self.off[id.0 as usize]
    }

    /// Cuts a cable, or joins it again. `cable` is an index of the topology's.
    pub fn set_cable(&mut self, cable: usize, whole: bool) {
        self.cut[cable] = !whole;
        self.see_cable(cable);
    }

    /// Switches a node off: all its links go down and what it was told is forgotten. Or on again.
    pub fn set_power(&mut self, id: NodeId, on: bool) {
        let at = id.0 as usize;
        if self.off[at] != on {
            return;
        }
        self.off[at] = !on;
        let topology = &self.topology;
        let link = |port| {
            let cable = topology.cable_at(PortId { node: id, port })?;
            Some(topology.cables()[cable].link)
        };
        self.nodes[at] = Node::new(topology.node(id), link);
        for port in 1..=self.nodes[at].port_count() {
            if let Some(cable) = self.topology.cable_at(PortId { node: id, port }) {
                self.see_cable(cable);
            }
        }
    }

    /// Both ends of a cable find out whether it joins them.
    fn see_cable(&mut self, cable: usize) {
        let ends = self.topology.cables()[cable].ends;
        let able = |end: &PortId| {
            let at = end.node.0 as usize;
            let phys = self.nodes[at].ports[usize::from(end.port)].info.phys_state;
            !self.off[at] && !matches!(phys, PhysState::DISABLED | PhysState::SLEEP)
        };
        let whole = !self.cut[cable] && ends.iter().all(able);
        let up = whole && self.train(ends);
        for end in ends {
            if self.nodes[end.node.0 as usize].link_changes(end.port, up) {
                self.renewed.insert(cable);
            }
        }
    }

    /// Gives both ends of a link its width and speed; false if they agree on none.
    fn train(&mut self, ends: [PortId; 2]) -> bool {
        let port = |end: PortId| &self.nodes[end.node.0 as usize].ports[usize::from(end.port)];
        let Some(best) = training::best(ends.map(port)) else {
            return false;
        };
        for end in ends {
            self.nodes[end.node.0 as usize].ports[usize::from(end.port)].set_active(best);
        }
        true
    }

    /// How good a cable is as its link was trained last.
    pub fn link(&self, cable: usize) -> Link {
        let plugged = &self.topology.cables()[cable];
        let [end, _] = plugged.ends;
        let port = &self.nodes[end.node.0 as usize].ports[usize::from(end.port)];
        let (width, speed) = port
            .active()
            .unwrap_or((plugged.link.width, plugged.link.speed));
        Link {
            width,
            speed,
            ..plugged.link
        }
    }

    /// Cables whose packets of subnet management are to be told by [`Self::take_passed`].
    pub fn watch(&mut self, cables: BTreeSet<usize>) {
        self.watched = cables;
    }

    /// What has passed those since this was last asked.
    pub fn take_passed(&mut self) -> Vec<Passed> {
        std::mem::take(&mut self.passed)
    }

    /// Packets with a wrong management key since this was last asked, and where they came to.
    pub fn take_wrong_keys(&mut self) -> Vec<Delivery> {
        std::mem::take(&mut self.wrong_keys)
    }

    /// Ports that had more errors than they allow since this was last asked.
    pub fn take_spoilt_links(&mut self) -> BTreeSet<PortId> {
        std::mem::take(&mut self.spoilt_links)
    }

    /// Cables whose link went down or was trained anew since this was last asked: what lay in their buffers is gone, and all credits are new.
    pub fn take_renewed(&mut self) -> BTreeSet<usize> {
        std::mem::take(&mut self.renewed)
    }

    /// Sends a packet from a place, by its own route or, if it has none, to `dlid`; and carries it, and what an agent answers, to
    /// the end. What is for managers is put into `out`.
    pub fn send(&mut self, now: Time, from: Place, smp: Smp, dlid: Lid, out: &mut Vec<Delivery>) {
        let Some(node) = self.nodes.get(from.node.0 as usize) else {
            return;
        };
        if self.off[from.node.0 as usize] || usize::from(from.port) >= node.ports.len() {
            return;
        }
        let slid = node.ports[usize::from(from.port)].info.lid;
        let flight = Flight { smp, slid, dlid };
        self.depart(now, from, flight, out);
    }

    /// From a manager or an agent into the fabric.
    fn depart(&mut self, now: Time, from: Place, mut flight: Flight, out: &mut Vec<Delivery>) {
        let node = &self.nodes[from.node.0 as usize];
        let is_switch = node.kind == NodeKind::Switch;
        let step = match &mut flight.smp.route {
            Route::Lid if node.port_of_lid(flight.dlid).is_some() => Step::Here(from.port),
            Route::Lid => match &node.switch {
                Some(tables) => tables.port_of(flight.dlid).map_or(Step::Gone, Step::Leave),
                None => Step::Leave(from.port),
            },
            // a list of ports that begins at the requester and ends in a part by LID is not offered
            Route::Directed(route) if route.dr_dlid != Lid::PERMISSIVE => Step::Gone,
            // first by LID to where the list of ports begins (IBA 14.2.2)
            Route::Directed(route)
                if route.dr_slid != Lid::PERMISSIVE
                    && route.direction == Direction::Outbound
                    && node.port_of_lid(flight.dlid).is_none() =>
            {
                match (&node.switch, route.hop_pointer) {
                    (_, 1..) => Step::Gone,
                    (Some(tables), 0) => {
                        tables.port_of(flight.dlid).map_or(Step::Gone, Step::Leave)
                    }
                    (None, 0) => Step::Leave(from.port),
                }
            }
            Route::Directed(route) => match route.direction {
                Direction::Outbound if route.hop_pointer != 0 => Step::Gone,
                Direction::Outbound if route.hop_count == 0 => {
                    route.hop_pointer = 1;
                    Step::Here(from.port)
                }
                Direction::Outbound => {
                    route.hop_pointer = 1;
                    Step::Leave(route.initial_path[1])
                }
                Direction::Returning if route.hop_pointer != route.hop_count + 1 => Step::Gone,
                Direction::Returning if route.hop_count == 0 => {
                    route.hop_pointer = 0;
                    match (&node.switch, route.dr_slid) {
                        (_, Lid::PERMISSIVE) => Step::Here(from.port),
                        (_, lid) if node.port_of_lid(lid).is_some() => Step::Here(from.port),
                        (Some(tables), lid) => tables.port_of(lid).map_or(Step::Gone, Step::Leave),
                        (None, _) => Step::Leave(from.port),
                    }
                }
                Direction::Returning => {
                    route.hop_pointer -= 1;
                    Step::Leave(route.return_path[usize::from(route.hop_pointer)])
                }
            },
        };
        match step {
            // an adapter's packet leaves by its own port, whatever its list says
            Step::Leave(port) if !is_switch && port != from.port => {}
            Step::Leave(port) => self.travel(
                now,
                PortId {
                    node: from.node,
                    port,
                },
                flight,
                out,
            ),
            Step::Here(port) => self.deliver(
                now,
                Place {
                    node: from.node,
                    port,
                },
                flight,
                out,
            ),
            Step::Gone => {}
        }
    }

    /// From the port that it leaves by until it has come to its end.
    fn travel(&mut self, now: Time, by: PortId, mut flight: Flight, out: &mut Vec<Delivery>) {
        let mut by = by;
        for _ in 0..MOST_VISITS {
            let Some(came) = self.across(by) else { return };
            let cable = self.topology.cable_at(by);
            if let Some(cable) = cable.filter(|cable| self.watched.contains(cable)) {
                // a directed part has the permissive LID at both ends
                let directed = matches!(flight.smp.route, Route::Directed(_));
                let lid = |own| if directed { Lid::PERMISSIVE } else { own };
                self.passed.push(Passed {
                    cable,
                    from: by,
                    smp: flight.smp,
                    slid: lid(flight.slid),
                    dlid: lid(flight.dlid),
                });
            }
            if cable.is_some_and(|cable| self.is_spoilt(cable, came)) {
                return;
            }
            let node = &self.nodes[came.node.0 as usize];
            match visit(node, came.port, &mut flight) {
                Step::Leave(port) => {
                    by = PortId {
                        node: came.node,
                        port,
                    };
                }
                Step::Here(port) => {
                    let node = came.node;
                    return self.deliver(now, Place { node, port }, flight, out);
                }
                Step::Gone => return,
            }
        }
    }

    /// The other end of a port's link, if that carries management packets.
    fn across(&self, by: PortId) -> Option<PortId> {
        let cable = self.topology.cable_at(by)?;
        let peer = self.topology.peer(by)?;
        let lives = |end: PortId| {
            let node = end.node.0 as usize;
            !self.off[node]
                && self.nodes[node].ports[usize::from(end.port)].info.state != PortState::DOWN
        };
        (!self.cut[cable] && lives(by) && lives(peer)).then_some(peer)
    }

    /// At its end: the agent answers, or whoever manages there gets it.
    fn deliver(&mut self, now: Time, at: Place, flight: Flight, out: &mut Vec<Delivery>) {
        let Flight { smp, slid, dlid } = flight;
        let managers = smp.method.is_response()
            || smp.method == Method::TRAP
            || smp.attribute == attribute::SM_INFO;
        if managers {
            out.push(Delivery {
                at,
                smp,
                slid,
                dlid,
            });
            return;
        }
        let number = at.node.0 as usize;
        let port = meant(&self.nodes[number], at.port, &smp);
        let before = self.nodes[number].ports.get(usize::from(port)).map(link_of);
        let Some(mut answer) = self.nodes[number].answer(now, at.port, &smp) else {
            let keeper = self.nodes[number].keeper(at.port);
            if self.nodes[number].has_wrong_key(keeper, &smp) && self.wrong_keys.len() < MOST_WRONG
            {
                let at = Place { port: keeper, ..at };
                self.wrong_keys.push(Delivery {
                    at,
                    smp,
                    slid,
                    dlid,
                });
            }
            return;
        };
        if smp.method == Method::SET && smp.attribute == attribute::PORT_INFO {
            self.follow(PortId { port, ..here(at) }, before);
        }
        if let Route::Directed(route) = &mut answer.route {
            route.direction = Direction::Returning;
        }
        let back = Flight {
            smp: answer,
            slid: dlid,
            dlid: slid,
        };
        // from the port that it came by: for a switch, of the list as well as of the LID
        let from = match self.nodes[number].kind {
            NodeKind::Switch => Place { port: 0, ..at },
            _ => at,
        };
        self.depart(now, from, back, out);
    }

    /// A port was told to take its link down, or to try again: the other end sees it.
    fn follow(&mut self, here: PortId, before: Option<(PortState, PhysState)>) {
        let Some(cable) = self.topology.cable_at(here) else {
            return;
        };
        let node = &self.nodes[here.node.0 as usize];
        let now = link_of(&node.ports[usize::from(here.port)]);
        // what is enabled may have changed, so that a link that did not come up does now
        if before == Some(now) && now.1 != PhysState::POLLING {
            return;
        }
        match now {
            // trained anew: both ends begin again
            (PortState::INIT, PhysState::LINK_UP) => {
                let peer = self.topology.peer(here);
                if let Some(peer) = peer {
                    let other = &mut self.nodes[peer.node.0 as usize];
                    other.link_changes(peer.port, false);
                }
                // up by itself, and not by what was written (IBA 14.2.5.4)
                if let Some(tables) = &mut self.nodes[here.node.0 as usize].switch {
                    tables.info.port_state_change = true;
                }
                self.see_cable(cable);
            }
            (_, PhysState::LINK_UP) => {}
            _ => self.see_cable(cable),
        }
    }
}

/// The port that a PortInfo's modifier names: 0 is a switch's port 0, of others the port that the packet came by.
fn meant(node: &Node, came_by: u8, smp: &Smp) -> u8 {
    match (node.kind, smp.attribute_modifier & !KNOWS_EXTENDED_SPEEDS) {
        (NodeKind::Switch, 0) => 0,
        (_, 0) => came_by,
        (_, port) => u8::try_from(port).unwrap_or(u8::MAX),
    }
}

fn here(at: Place) -> PortId {
    PortId {
        node: at.node,
        port: at.port,
    }
}

fn link_of(port: &super::Port) -> (PortState, PhysState) {
    (port.info.state, port.info.phys_state)
}

/// What a node's management interface does with a packet that came by a port.
fn visit(node: &Node, came_by: u8, flight: &mut Flight) -> Step {
    let is_switch = node.kind == NodeKind::Switch;
    let Route::Directed(route) = &mut flight.smp.route else {
        return by_lid(node, came_by, flight.dlid);
    };
    let by_lid_first = route.dr_slid != Lid::PERMISSIVE;
    match route.direction {
        // the part by LID before the list of ports, and the same way back behind it
        Direction::Outbound if route.hop_pointer == 0 && by_lid_first => {
            if node.port_of_lid(flight.dlid).is_none() {
                return by_lid(node, came_by, flight.dlid);
            }
            if route.hop_count == 0 {
                route.hop_pointer = 1;
                return Step::Here(came_by);
            }
            if !is_switch {
                return Step::Gone;
            }
            route.hop_pointer = 1;
            Step::Leave(route.initial_path[1])
        }
        Direction::Returning if route.hop_pointer == 0 && by_lid_first => {
            by_lid(node, came_by, route.dr_slid)
        }
        Direction::Returning if route.hop_pointer == 1 && by_lid_first => {
            route.hop_pointer = 0;
            by_lid(node, came_by, route.dr_slid)
        }
        Direction::Outbound if route.hop_pointer == 0 || route.hop_pointer > route.hop_count => {
            Step::Gone
        }
        Direction::Outbound => {
            let last = route.hop_pointer == route.hop_count;
            if !last && !is_switch {
                return Step::Gone;
            }
            route.return_path[usize::from(route.hop_pointer)] = came_by;
            route.hop_pointer += 1;
            match last {
                true => Step::Here(came_by),
                false => Step::Leave(route.initial_path[usize::from(route.hop_pointer)]),
            }
        }
        Direction::Returning if route.hop_pointer >= 2 && route.hop_pointer <= route.hop_count => {
            if !is_switch {
                return Step::Gone;
            }
            route.hop_pointer -= 1;
            Step::Leave(route.return_path[usize::from(route.hop_pointer)])
        }
        Direction::Returning if route.hop_pointer == 1 => {
            route.hop_pointer = 0;
            Step::Here(if is_switch { 0 } else { came_by })
        }
        Direction::Returning => Step::Gone,
    }
}

fn by_lid(node: &Node, came_by: u8, dlid: Lid) -> Step {
    if let Some(port) = node.port_of_lid(dlid) {
        return Step::Here(if node.kind == NodeKind::Switch {
            came_by
        } else {
            port
        });
    }
    match &node.switch {
        Some(tables) => tables.port_of(dlid).map_or(Step::Gone, Step::Leave),
        None => Step::Gone,
    }
}
