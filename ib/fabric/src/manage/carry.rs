//! How packets with data, and management packets of queue pair 1, find their way: by the tables that managers have written, over links that are up.
//!
//! A packet is carried to its end in one call; each port that it passes counts it. Owns no bytes: the caller keeps them.

use super::plane::{Place, Plane};
use ferriband_topology::{NodeKind, PortId};
use ferriband_wire::attributes::PortState;
use ferriband_wire::{Lid, Sl, Vl};

/// Switches that a packet passes at the most.
const MOST_HOPS: usize = 64;

/// A packet, as far as the fabric looks at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// Where it goes.
    pub dlid: Lid,
    /// Its service level.
    pub sl: Sl,
    /// Bytes from LRH to ICRC.
    pub length: u32,
}

/// A port that a packet leaves by, the port at the other end of the cable, and the lane there: what somebody who looks at a link sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hop {
    /// Sends.
    pub from: PortId,
    /// Receives.
    pub to: PortId,
    /// The lane.
    pub vl: Vl,
}

/// What becomes of a packet on a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Crossing {
    /// It was let go of at the port that it was to leave by.
    Gone,
    /// It left, and was spoilt on the way.
    Spoilt(Hop),
    /// It came to the other end.
    Over(Hop),
}

/// Where a switch sends a packet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Onward {
    /// The ports that it leaves by.
    pub leave: Vec<u8>,
    /// It is for the switch itself.
    pub here: bool,
}

/// A packet at a port that it is to leave by.
struct Leaving {
    by: PortId,
    came_by: u8,
    hops: usize,
}

impl Plane {
    /// Carries a packet from a port to where its LID leads; the ends are put into `ends`, the links that it passes told to `seen`. Nothing is put there if it is
    /// let go of, which the port where that happened counts.
    pub fn carry(
        &mut self,
        from: Place,
        load: Load,
        ends: &mut Vec<Place>,
        mut seen: impl FnMut(Hop),
    ) {
        let Some(node) = self.nodes.get(from.node.0 as usize) else {
            return;
        };
        if self.off[from.node.0 as usize] || usize::from(from.port) >= node.ports.len() {
            return;
        }
        let multicast = is_group(load.dlid);
        if !multicast && node.port_of_lid(load.dlid) == Some(from.port) {
            ends.push(from);
            return;
        }
        let mut leaving = Vec::new();
        if node.kind == NodeKind::Switch {
            self.at_switch(from.node, 0, load, 0, &mut leaving, ends);
        } else {
            let by = PortId {
                node: from.node,
                port: from.port,
            };
            leaving.push(Leaving {
                by,
                came_by: 0,
                hops: 0,
            });
        }
        while let Some(next) = leaving.pop() {
            let Crossing::Over(hop) = self.cross(next.by, next.came_by, load) else {
                continue;
            };
            seen(hop);
            let (node, port) = (hop.to.node, hop.to.port);
            let there = &self.nodes[node.0 as usize];
            if there.kind == NodeKind::Switch {
                self.at_switch(node, port, load, next.hops + 1, &mut leaving, ends);
            } else if multicast || there.port_of_lid(load.dlid) == Some(port) {
                ends.push(Place { node, port });
            } else {
                self.nodes[node.0 as usize].ports[usize::from(port)]
                    .counters
                    .came_wrong();
            }
        }
    }

    /// What a switch does with a packet that came by a port (0: from itself).
    fn at_switch(
        &mut self,
        id: ferriband_topology::NodeId,
        came_by: u8,
        load: Load,
        hops: usize,
        leaving: &mut Vec<Leaving>,
        ends: &mut Vec<Place>,
    ) {
        let node = &mut self.nodes[id.0 as usize];
        let own = Place { node: id, port: 0 };
        let mut leave = |port| {
            leaving.push(Leaving {
                by: PortId { node: id, port },
                came_by,
                hops,
            });
        };
        let Some(tables) = &node.switch else { return };
        let mut found = hops < MOST_HOPS;
        if !found {
            // it goes round and round
        } else if is_group(load.dlid) {
            found = false;
            for (group, mask) in tables.copies(load.dlid).into_iter().enumerate() {
                for bit in (0..16).filter(|bit| mask >> bit & 1 != 0) {
                    match (group * 16 + bit) as u8 {
                        port if port == came_by => {}
                        0 => {
                            found = true;
                            ends.push(own);
                        }
                        port => {
                            found = true;
                            leave(port);
                        }
                    }
                }
            }
        } else if node.port_of_lid(load.dlid).is_some() {
            ends.push(own);
        } else {
            match tables.port_of(load.dlid) {
                Some(0) | None => found = false,
                Some(port) if usize::from(port) >= node.ports.len() => found = false,
                Some(port) => leave(port),
            }
        }
        if !found {
            let counters = &mut node.ports[usize::from(came_by)].counters;
            counters.rcv_switch_relay_errors += 1;
            match hops < MOST_HOPS {
                true => counters.wrongs.no_port += 1,
                false => counters.wrongs.looping += 1,
            }
        }
    }

    /// Where a switch sends a packet that came by a port (0: from itself) after so many hops; what it lets go of it counts.
    pub(crate) fn onward(&mut self, at: PortId, load: Load, hops: usize) -> Onward {
        let (mut leaving, mut ends) = (Vec::new(), Vec::new());
        self.at_switch(at.node, at.port, load, hops, &mut leaving, &mut ends);
        Onward {
            leave: leaving.iter().map(|next| next.by.port).collect(),
            here: !ends.is_empty(),
        }
    }

    /// The lane that a packet of a service level takes on the link of a port, by the port that it came by (0: from the node itself).
    pub(crate) fn lane(&self, by: PortId, came_by: u8, sl: Sl) -> Vl {
        let node = &self.nodes[by.node.0 as usize];
        let Some(port) = node.ports.get(usize::from(by.port)) else {
            return Vl(15);
        };
        let rows = &port.sl_to_vl;
        let row = rows.get(usize::from(came_by)).or_else(|| rows.first());
        row.map_or(Vl(0), |row| row[usize::from(sl.0 & 15)])
    }

    /// The port at the other end of a port's link, if both carry data.
    pub(crate) fn data_peer(&self, by: PortId) -> Option<PortId> {
        let near = self.nodes[by.node.0 as usize]
            .ports
            .get(usize::from(by.port))?;
        let peer = self.topology.peer(by)?;
        let far = &self.nodes[peer.node.0 as usize].ports[usize::from(peer.port)];
        let cable = self.topology.cable_at(by)?;
        (near.info.state == PortState::ACTIVE
            && !self.cut[cable]
            && !self.off[by.node.0 as usize]
            && !self.off[peer.node.0 as usize]
            && matches!(far.info.state, PortState::ARMED | PortState::ACTIVE))
        .then_some(peer)
    }

    /// Over a cable, if both its ends are up.
    pub(crate) fn cross(&mut self, by: PortId, came_by: u8, load: Load) -> Crossing {
        let multicast = u64::from(is_group(load.dlid));
        let vl = self.lane(by, came_by, load.sl);
        let far = self.data_peer(by);
        let cable = self.topology.cable_at(by);
        let node = &mut self.nodes[by.node.0 as usize];
        let Some(port) = node.ports.get_mut(usize::from(by.port)) else {
            return Crossing::Gone;
        };
        let near = &mut port.counters;
        // lane 15 is not for data: an SL without a lane of its own is let go of (IBA 7.6.6)
        let is_inactive = far.is_none();
        let Some(far) = far.filter(|_| vl.0 != 15) else {
            near.xmit_discards += 1;
            near.discards.inactive += u64::from(is_inactive);
            return Crossing::Gone;
        };
        near.xmit_packets += 1;
        near.xmit_bytes += u64::from(load.length);
        let sl = usize::from(load.sl.0 & 15);
        near.xmit_bytes_by_sl[sl] += u64::from(load.length);
        near.multicast_xmit += multicast;
        let hop = Hop {
            from: by,
            to: far,
            vl,
        };
        if cable.is_some_and(|cable| self.is_spoilt(cable, far)) {
            return Crossing::Spoilt(hop);
        }
        let there = &mut self.nodes[far.node.0 as usize].ports[usize::from(far.port)].counters;
        there.rcv_packets += 1;
        there.rcv_bytes += u64::from(load.length);
        there.rcv_bytes_by_sl[sl] += u64::from(load.length);
        there.multicast_rcv += multicast;
        Crossing::Over(hop)
    }
}

pub(crate) fn is_group(lid: Lid) -> bool {
    lid.0 >= super::node::FIRST_MULTICAST && lid != Lid::PERMISSIVE
}
