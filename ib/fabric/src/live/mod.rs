//! A fabric that programs are attached to: the management side of its nodes, the interfaces of those ports that somebody manages at, and packets with data.
//!
//! Owns no time. Management packets are carried to their ends within the call that sends them, and what programs get is handed out by [`Fabric::poll_deliver`]; packets with data wait for wires
//! and credits ([`links`]), and are handed out by [`Fabric::poll_packet`]. Must not know sockets, nor who the programs are.

mod links;
mod taps;
#[cfg(test)]
mod tests;

use links::Links;
pub use links::{Arrived, Credits, Room};
pub use taps::Tapped;
use taps::Taps;

use crate::Time;
use crate::interface::{AgentId, Delivery, Far, Interface, Refused, Wanted};
use crate::manage::{self, Load, Place, Plane};
use ferriband_topology::{NodeId, NodeKind, PortId, Topology};
use ferriband_wire::attributes::{PortCapabilities, PortState};
use ferriband_wire::mad::{
    AttributeId, GSI_QKEY, GSI_QPN, MAD_LEN, ManagementClass, Method, SMI_QPN,
};
use ferriband_wire::smp::{Route, Smp};
use ferriband_wire::{Header, Lid, Sl, TransactionId, VCRC_LEN, Vl, vcrc};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Bytes of a management packet on a link: LRH, BTH, DETH, MAD, ICRC.
const MAD_PACKET_BYTES: u32 = 8 + 12 + 8 + 256 + 4;
/// Packets that one call carries at the most: what is left waits for the next one.
const MOST_STEPS: usize = 1 << 20;
/// Trap 128: the state of a link of a switch has changed (IBA 14.2.5.1).
const TRAP_LINK_STATE: u16 = 128;
/// Trap 144: the capabilities of a port have changed.
const TRAP_CAPABILITIES: u16 = 144;
/// Trap 256: a management key was wrong.
const TRAP_BAD_MKEY: u16 = 256;

/// A packet to queue pair 0 or 1 that has come to its end.
#[derive(Clone, Copy, Debug)]
struct Come {
    at: Place,
    far: Far,
    mad: [u8; MAD_LEN],
}

/// The fabric.
#[derive(Debug)]
pub struct Fabric {
    plane: Plane,
    interfaces: BTreeMap<Place, Interface>,
    /// Interfaces that have something to send or to hand out.
    busy: BTreeSet<Place>,
    deliver: VecDeque<(Place, Delivery)>,
    /// Ports whose capabilities have changed, which their manager is to hear.
    capable: BTreeSet<Place>,
    taps: Taps,
    traps: u64,
    /// Management packets that were carried.
    pub mads: u64,
    links: Links,
    /// Packets with data that were handed out: a copy for each end.
    came: u64,
}

impl Fabric {
    /// All switched on, nobody has managed anything.
    pub fn new(topology: Topology) -> Fabric {
        Fabric {
            plane: Plane::new(topology),
            interfaces: BTreeMap::new(),
            busy: BTreeSet::new(),
            deliver: VecDeque::new(),
            capable: BTreeSet::new(),
            taps: Taps::default(),
            traps: 0,
            mads: 0,
            links: Links::default(),
            came: 0,
        }
    }

    /// The nodes' state.
    pub fn plane(&self) -> &Plane {
        &self.plane
    }

    /// Management packets that nobody wanted.
    pub fn unwanted(&self) -> u64 {
        self.interfaces.values().map(|own| own.unwanted).sum()
    }

    /// Somebody wants management packets at a place.
    ///
    /// # Errors
    /// `Taken`, `Full`.
    pub fn register(&mut self, at: Place, wanted: Wanted) -> Result<AgentId, Refused> {
        let interface = self.interfaces.entry(at).or_default();
        let agent = interface.register(wanted);
        self.note_manager(at);
        agent
    }

    /// Somebody is gone.
    pub fn unregister(&mut self, at: Place, agent: AgentId) {
        if let Some(interface) = self.interfaces.get_mut(&at) {
            interface.unregister(agent);
            self.note_manager(at);
        }
    }

    /// A port where a manager is says so in its PortInfo.
    fn note_manager(&mut self, at: Place) {
        let manager = self.interfaces.get(&at).is_some_and(Interface::has_manager);
        let port = &mut self.plane.node_mut(at.node).ports[usize::from(at.port)];
        if port.info.capabilities.contains(PortCapabilities::IS_SM) != manager {
            port.info.capabilities.set(PortCapabilities::IS_SM, manager);
            self.capable.insert(at);
        }
    }

    /// Ports whose capabilities have changed tell their manager: trap 144. To be called after [`Self::register`] and [`Self::unregister`].
    pub fn tell_capabilities(&mut self, now: Time) {
        let mut come = Vec::new();
        for at in std::mem::take(&mut self.capable) {
            let node = self.plane.node(at.node);
            let info = node.ports[usize::from(at.port)].info;
            let is_switch = node.kind == NodeKind::Switch;
            let up = is_switch || info.state == PortState::ACTIVE;
            if !up || self.plane.is_off(at.node) || info.master_sm_lid == Lid(0) {
                continue;
            }
            let data = capability_notice(is_switch, info.lid, info.capabilities.bits());
            self.trap(now, at, data, &mut come);
        }
        for come in come {
            self.take(now, come);
        }
        self.pump(now);
    }

    /// A trap from a port to the manager that it knows.
    fn trap(&mut self, now: Time, from: Place, data: [u8; 64], come: &mut Vec<Come>) {
        let node = self.plane.node(from.node);
        let info = node.ports[usize::from(from.port)].info;
        self.traps += 1;
        let smp = Smp {
            transaction_id: TransactionId(self.traps),
            mkey: info.mkey,
            data,
            route: Route::Lid,
            ..Smp::new(Method::TRAP, AttributeId::NOTICE, 0)
        };
        self.mads += 1;
        self.carry_smp(now, from, smp, info.master_sm_lid, come);
    }

    /// Sends a management packet, or a long message; see [`Interface::send`].
    ///
    /// # Errors
    /// As there.
    #[allow(clippy::too_many_arguments)]
    pub fn send(
        &mut self,
        now: Time,
        at: Place,
        agent: AgentId,
        to: Far,
        bytes: &[u8],
        timeout: Time,
        retries: u32,
    ) -> Result<(), Refused> {
        let interface = self.interfaces.get_mut(&at).ok_or(Refused::Unknown)?;
        interface.send(now, agent, to, bytes, timeout, retries)?;
        self.busy.insert(at);
        self.pump(now);
        Ok(())
    }

    /// Carries what interfaces have to send, and what comes of it.
    fn pump(&mut self, now: Time) {
        let mut come = Vec::new();
        for _ in 0..MOST_STEPS {
            let Some(at) = self.busy.pop_first() else {
                return;
            };
            let Some(interface) = self.interfaces.get_mut(&at) else {
                continue;
            };
            let sent = interface.poll_transmit();
            while let Some(delivery) = interface.poll_deliver() {
                self.deliver.push_back((at, delivery));
            }
            let Some(sent) = sent else { continue };
            self.busy.insert(at);
            self.mads += 1;
            self.carry_mad(now, at, sent.to, &sent.mad, &mut come);
            for come in come.drain(..) {
                self.take(now, come);
            }
        }
    }

    /// A packet has come to where somebody manages.
    fn take(&mut self, now: Time, come: Come) {
        if let Some(interface) = self.interfaces.get_mut(&come.at) {
            interface.receive(now, come.far, &come.mad);
            self.busy.insert(come.at);
        }
    }

    fn carry_mad(
        &mut self,
        now: Time,
        from: Place,
        to: Far,
        mad: &[u8; MAD_LEN],
        come: &mut Vec<Come>,
    ) {
        if to.qpn == SMI_QPN {
            if let Ok(smp) = Smp::parse_mad(mad) {
                self.carry_smp(now, from, smp, to.lid, come);
            }
            return;
        }
        self.carry_gmp(now, from, to, mad, come);
    }

    fn carry_smp(&mut self, now: Time, from: Place, smp: Smp, dlid: Lid, come: &mut Vec<Come>) {
        let mut ends = Vec::new();
        self.plane.send(now, from, smp, dlid, &mut ends);
        self.renew_links();
        if !self.taps.is_idle() {
            self.taps.managed(self.plane.take_passed());
        }
        for wrong in self.plane.take_wrong_keys() {
            let node = self.plane.node(wrong.at.node);
            let info = node.ports[usize::from(wrong.at.port)].info;
            if info.master_sm_lid != Lid(0) && info.lid != Lid(0) {
                let data = wrong_key_notice(node.kind == NodeKind::Switch, info.lid, &wrong);
                // a trap is answered by no agent, so this ends
                self.trap(now, wrong.at, data, come);
            }
        }
        for end in ends {
            let mut mad = [0; MAD_LEN];
            if end.smp.emit(&mut mad).is_err() {
                continue;
            }
            let far = Far {
                lid: end.slid,
                qpn: SMI_QPN,
                ..Far::default()
            };
            let at = self.manager_place(end.at);
            come.push(Come { at, far, mad });
        }
    }

    /// Who manages a switch is at its port 0, whichever port a packet came by.
    fn manager_place(&self, at: Place) -> Place {
        match self.plane.node(at.node).kind {
            NodeKind::Switch => Place { port: 0, ..at },
            _ => at,
        }
    }

    fn lid_of(&self, at: Place) -> Lid {
        let node = self.plane.node(at.node);
        node.ports[usize::from(at.port)].info.lid
    }

    /// A packet to queue pair 1: the node answers for its counters and for congestion control, all else is for programs.
    fn carry_gmp(
        &mut self,
        now: Time,
        from: Place,
        to: Far,
        mad: &[u8; MAD_LEN],
        come: &mut Vec<Come>,
    ) {
        let load = Load {
            dlid: to.lid,
            sl: to.sl,
            length: MAD_PACKET_BYTES,
        };
        let (mut ends, mut hops) = (Vec::new(), Vec::new());
        let looked_at = !self.taps.is_idle();
        self.plane.carry(from, load, &mut ends, |hop| {
            if looked_at {
                hops.push(hop);
            }
        });
        let slid = self.lid_of(from);
        let packet = |vl| taps::general(slid, to.lid, to.sl, vl, mad);
        self.taps.passed(self.plane.topology(), &hops, packet);
        let far = Far {
            lid: self.lid_of(from),
            qpn: GSI_QPN,
            qkey: GSI_QKEY,
            sl: to.sl,
            pkey_index: 0,
        };
        for at in ends {
            let node = self.plane.node_mut(at.node);
            let answer = match ManagementClass(mad[1]) {
                ManagementClass::PERF => node.answer_perf(at.port, mad),
                ManagementClass::CONG_CTRL => node.answer_congestion(now, at.port, mad),
                _ => None,
            };
            match answer {
                // an answer is answered by nobody
                Some(answer) => self.carry_gmp(now, at, far, &answer, come),
                None => come.push(Come { at, far, mad: *mad }),
            }
        }
    }

    /// A management packet that an adapter sent as a whole packet to queue pair 1, for whoever manages at `at`.
    pub fn receive_gmp(&mut self, now: Time, at: Place, from: Far, mad: &[u8; MAD_LEN]) {
        self.take(
            now,
            Come {
                at,
                far: from,
                mad: *mad,
            },
        );
        self.pump(now);
    }

    /// How fast links are, of their own rates: a number above 0. None: a packet takes no time on a link. For a fabric that has carried nothing yet.
    pub fn set_rate_scale(&mut self, scale: Option<f64>) {
        self.links.set_scale(scale);
    }

    /// Sends a whole packet, LRH to VCRC, from a port. It waits there until there are credits for it; where it comes to is told by [`Self::poll_packet`]. False if it is no packet.
    pub fn send_packet(&mut self, now: Time, from: Place, packet: Vec<u8>) -> bool {
        self.links.send(now, &mut self.plane, from, packet)
    }

    /// True if a port has room for more packets to send: they are bounded as long as this is asked.
    pub fn has_room(&self, from: Place) -> bool {
        self.links.has_room(&self.plane, from)
    }

    /// The next packet that has come to an end by `now`. On each link it had that link's lane: it is here as it was on the last one.
    pub fn poll_packet(&mut self, now: Time) -> Option<Arrived> {
        let arrived = self.links.poll(now, &mut self.plane, &mut self.taps);
        self.came += u64::from(arrived.is_some());
        arrived
    }

    /// What came out of [`Self::poll_packet`] was taken: the room that it had in its port's buffer is free, and its link has credits again. To be called once for each.
    pub fn taken(&mut self, room: Room) {
        self.links.taken(room);
    }

    /// Packets with data that came to an end, and that were let go of.
    pub fn packets(&self) -> [u64; 2] {
        [self.came, self.links.dropped]
    }

    /// How the credits of all links stand.
    pub fn credits(&mut self) -> Credits {
        self.links.credits()
    }

    /// Links that went down or came up anew have lost what was on them.
    fn renew_links(&mut self) {
        let renewed = self.plane.take_renewed();
        self.links.renew(&mut self.plane, renewed.into_iter());
    }

    /// From now on these cables are looked at: what passes them is told by [`Self::poll_tapped`].
    pub fn set_taps(&mut self, cables: BTreeSet<usize>) {
        self.plane.watch(cables.clone());
        self.taps.cables = cables;
    }

    /// The next packet that has passed a cable that is looked at.
    pub fn poll_tapped(&mut self) -> Option<Tapped> {
        self.taps.poll()
    }

    /// The next packet for a program, and where it is.
    pub fn poll_deliver(&mut self) -> Option<(Place, Delivery)> {
        self.deliver.pop_front()
    }

    /// When [`Self::handle_timeout`] is due, or [`Self::poll_packet`] has something to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        let due = self.interfaces.values().filter_map(Interface::poll_timeout);
        due.chain(self.links.next()).min()
    }

    /// Requests that nobody answered go again, or are given up.
    pub fn handle_timeout(&mut self, now: Time) {
        for (at, interface) in &mut self.interfaces {
            if interface.poll_timeout().is_some_and(|due| due <= now) {
                interface.handle_timeout(now);
                self.busy.insert(*at);
            }
        }
        self.pump(now);
    }

    /// Cuts a cable, or joins it again; switches at its ends tell their manager.
    pub fn set_cable(&mut self, now: Time, cable: usize, whole: bool) {
        self.plane.set_cable(cable, whole);
        self.renew_links();
        let ends = self.plane.topology().cables()[cable].ends;
        self.tell(now, ends.into_iter().map(|end| end.node));
    }

    /// Switches a node off or on; switches at the other ends of its cables tell their manager.
    pub fn set_power(&mut self, now: Time, node: NodeId, on: bool) {
        self.plane.set_power(node, on);
        self.renew_links();
        let topology = self.plane.topology();
        let peer = |port| topology.peer(PortId { node, port });
        let ports = 1..=topology.node(node).ports;
        let peers: Vec<_> = ports.filter_map(peer).map(|peer| peer.node).collect();
        self.tell(now, peers.into_iter());
    }

    /// From now on a cable spoils so many of a million packets; see [`Plane::set_spoils`].
    pub fn set_spoils(&mut self, cable: usize, of_a_million: u32) {
        self.plane.set_spoils(cable, of_a_million);
    }

    /// Switches send trap 128 to the manager that they know.
    fn tell(&mut self, now: Time, nodes: impl Iterator<Item = NodeId>) {
        let nodes: BTreeSet<NodeId> = nodes.collect();
        let mut come = Vec::new();
        for id in nodes {
            let node = self.plane.node(id);
            let info = node.ports[0].info;
            if node.kind != NodeKind::Switch
                || self.plane.is_off(id)
                || info.lid == Lid(0)
                || info.master_sm_lid == Lid(0)
            {
                continue;
            }
            let from = Place { node: id, port: 0 };
            self.trap(now, from, link_state_notice(info.lid), &mut come);
        }
        for come in come {
            self.take(now, come);
        }
        self.pump(now);
    }
}

/// Notice of trap 144, a port's capabilities have changed: generic, informational, from an adapter or a switch (IBA 14.2.5.1).
fn capability_notice(is_switch: bool, lid: Lid, capabilities: u32) -> [u8; 64] {
    let mut data = [0; 64];
    data[0] = 0x84;
    data[3] = if is_switch { 2 } else { 1 };
    data[4..6].copy_from_slice(&TRAP_CAPABILITIES.to_be_bytes());
    data[6..8].copy_from_slice(&lid.0.to_be_bytes());
    // its details: two bytes, the LID, two bytes, the new mask
    data[12..14].copy_from_slice(&lid.0.to_be_bytes());
    data[16..20].copy_from_slice(&capabilities.to_be_bytes());
    data
}

/// Notice of trap 256, a management key was wrong: generic, security, with what the packet was (IBA 14.2.5.1).
fn wrong_key_notice(is_switch: bool, lid: Lid, wrong: &manage::Delivery) -> [u8; 64] {
    let mut data = [0; 64];
    data[0] = 0x82;
    data[3] = if is_switch { 2 } else { 1 };
    data[4..6].copy_from_slice(&TRAP_BAD_MKEY.to_be_bytes());
    data[6..8].copy_from_slice(&lid.0.to_be_bytes());
    // its details: two bytes, who it was, where its list of ports began, what he wanted, the key, and the way back to him
    data[12..14].copy_from_slice(&wrong.slid.0.to_be_bytes());
    data[18..20].copy_from_slice(&wrong.smp.attribute.0.to_be_bytes());
    data[16] = wrong.smp.method.0;
    data[20..24].copy_from_slice(&wrong.smp.attribute_modifier.to_be_bytes());
    data[24..32].copy_from_slice(&wrong.smp.mkey.0.to_be_bytes());
    if let Route::Directed(route) = &wrong.smp.route {
        data[14..16].copy_from_slice(&route.dr_slid.0.to_be_bytes());
        let path = &route.return_path[1..=usize::from(route.hop_count.min(63))];
        let shown = path.len().min(30);
        // DRNotice, DRPathTruncated, DRHopCount
        data[33] = 0x80 | u8::from(shown < path.len()) << 6 | shown as u8;
        data[34..34 + shown].copy_from_slice(&path[path.len() - shown..]);
    }
    data
}

/// Notice of trap 128: generic, urgent, from a switch (IBA 13.4.8.2).
fn link_state_notice(lid: Lid) -> [u8; 64] {
    let mut data = [0; 64];
    data[0] = 0x81;
    // producer: switch
    data[3] = 2;
    data[4..6].copy_from_slice(&TRAP_LINK_STATE.to_be_bytes());
    data[6..8].copy_from_slice(&lid.0.to_be_bytes());
    // its details begin with the switch's LID
    data[10..12].copy_from_slice(&lid.0.to_be_bytes());
    data
}

/// What the fabric looks at in a packet; None if its lengths or its VCRC are wrong.
fn load_of(packet: &[u8]) -> Option<Load> {
    let body = packet.len().checked_sub(VCRC_LEN)?;
    let (headers, _, length, _) = ferriband_wire::Lrh::parse(packet).ok()?;
    let trailer = u16::from_le_bytes([packet[body], packet[body + 1]]);
    (length == body && trailer == vcrc(&packet[..body])).then_some(Load {
        dlid: headers.dlid,
        sl: Sl(headers.sl.0 & 0xf),
        length: body as u32,
    })
}

/// Writes the lane that a packet travels on, and the VCRC, which covers it.
fn set_lane(packet: &mut [u8], vl: Vl) {
    let lane = vl.0 << 4 | packet[0] & 0xf;
    if lane == packet[0] {
        return;
    }
    packet[0] = lane;
    let body = packet.len() - VCRC_LEN;
    let trailer = vcrc(&packet[..body]);
    packet[body..].copy_from_slice(&trailer.to_le_bytes());
}

/// What a port's state is called.
pub fn state_name(port: &manage::Port) -> &'static str {
    port.info.state.name().unwrap_or("unknown")
}
