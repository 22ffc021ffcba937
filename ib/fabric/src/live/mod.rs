//! A fabric that programs are attached to: the management side of its nodes, the interfaces of those ports that somebody manages at, and packets with data.
//!
//! Owns no time. Management packets are carried to their ends within the call that sends them, and what programs get is handed out by [`Fabric::poll_deliver`]; packets with data wait for wires
//! and credits ([`links`]), and are handed out by [`Fabric::poll_packet`]. Must not know sockets, nor who the programs are.

mod links;
mod taps;
#[cfg(test)]
mod tests;
mod traps;

use links::Links;
pub use links::{Arrived, Credits, Room};
pub use taps::Tapped;
use taps::Taps;
use traps::Troubles;

use crate::Time;
use crate::interface::{AgentId, Delivery, Far, Interface, Refused, Wanted};
use crate::manage::{self, Load, Place, Plane};
use ferriband_topology::{NodeId, NodeKind, PortId, Topology};
use ferriband_wire::attributes::PortCapabilities;
use ferriband_wire::mad::{GSI_QKEY, GSI_QPN, MAD_LEN, ManagementClass, Method, SMI_QPN};
use ferriband_wire::smp::{Smp, attribute};
use ferriband_wire::{Header, Lid, Sl, VCRC_LEN, Vl, vcrc};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Bytes of a management packet on a link: LRH, BTH, DETH, MAD, ICRC.
const MAD_PACKET_BYTES: u32 = 8 + 12 + 8 + 256 + 4;
/// Packets that one call carries at the most: what is left waits for the next one.
const MOST_STEPS: usize = 1 << 20;
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
    /// Traps that were sent.
    traps: u64,
    /// See [`Self::partitions_told`].
    partitions_told: u64,
    troubles: Troubles,
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
            partitions_told: 0,
            troubles: Troubles::default(),
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
        let tells = smp.method == Method::SET && smp.attribute == attribute::PKEY_TABLE;
        self.partitions_told += u64::from(tells);
        self.plane.send(now, from, smp, dlid, &mut ends);
        let renewed = self.renew_links();
        // a port that was told to take its link down, or to train it: no trap does that, so this ends
        let cables = self.plane.topology().cables();
        let nodes = renewed.iter().flat_map(|cable| cables[*cable].ends);
        let nodes = nodes.map(|end| end.node).collect();
        self.tell_links(now, nodes, come);
        if !self.taps.is_idle() {
            self.taps.managed(self.plane.take_passed());
        }
        self.tell_wrong_keys(now, come);
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
        let sent = Far {
            qkey: to.qkey,
            ..far
        };
        for at in ends {
            if !self.has_right_qkey(at, sent, to.lid) {
                continue;
            }
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
        let own = self.lid_of(at);
        if !self.has_right_qkey(at, from, own) {
            return;
        }
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
        while let Some(arrived) = self.links.poll(now, &mut self.plane, &mut self.taps) {
            if self.has_right_pkey(arrived.at, &arrived.bytes) {
                self.came += 1;
                return Some(arrived);
            }
            self.links.dropped += 1;
            arrived
                .room
                .into_iter()
                .for_each(|room| self.links.taken(room));
        }
        self.tell_troubles(now);
        None
    }

    /// What came out of [`Self::poll_packet`] was taken: the room that it had in its port's buffer is free, and its link has credits again. To be called once for each.
    pub fn taken(&mut self, room: Room) {
        self.links.taken(room);
    }

    /// How often somebody wanted to write a table of partition keys, whether or not he was let: who looks at those tables does so when this has changed.
    pub fn partitions_told(&self) -> u64 {
        self.partitions_told
    }

    /// Packets with data that came to an end, and that were let go of.
    pub fn packets(&self) -> [u64; 2] {
        [self.came, self.links.dropped]
    }

    /// How the credits of all links stand.
    pub fn credits(&mut self) -> Credits {
        self.links.credits()
    }

    /// Links that went down or came up anew have lost what was on them: their cables.
    fn renew_links(&mut self) -> BTreeSet<usize> {
        let renewed = self.plane.take_renewed();
        self.links.renew(&mut self.plane, renewed.iter().copied());
        renewed
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

    /// True if [`Self::poll_deliver`] has something: packets with data make traps.
    pub fn has_deliveries(&self) -> bool {
        !self.deliver.is_empty()
    }

    /// The next packet for a program, and where it is.
    pub fn poll_deliver(&mut self) -> Option<(Place, Delivery)> {
        self.deliver.pop_front()
    }

    /// When [`Self::handle_timeout`] is due, or [`Self::poll_packet`] has something to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        let due = self.interfaces.values().filter_map(Interface::poll_timeout);
        let links = self.links.next().into_iter();
        due.chain(links).chain(self.troubles.poll_timeout()).min()
    }

    /// Requests that nobody answered go again, or are given up.
    pub fn handle_timeout(&mut self, now: Time) {
        for (at, interface) in &mut self.interfaces {
            if interface.poll_timeout().is_some_and(|due| due <= now) {
                interface.handle_timeout(now);
                self.busy.insert(*at);
            }
        }
        self.see_watchdogs(now);
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
        self.partitions_told += 1;
        self.renew_links();
        let topology = self.plane.topology();
        let peer = |port| topology.peer(PortId { node, port });
        let ports = 1..=topology.node(node).ports;
        let peers: Vec<_> = ports.filter_map(peer).map(|peer| peer.node).collect();
        self.tell(now, peers.into_iter());
    }

    /// From now on a cable spoils so many of a million packets; see [`Plane::set_spoils`].
    pub fn set_spoils(&mut self, now: Time, cable: usize, of_a_million: u32) {
        self.plane.set_spoils(cable, of_a_million);
        let all = of_a_million >= manage::MILLION;
        self.troubles.spoils_all(now, cable, all);
    }
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
