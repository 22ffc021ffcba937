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
            let Some(hop) = self.cross(&next, load) else {
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
                    .rcv_errors += 1;
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
            node.ports[usize::from(came_by)]
                .counters
                .rcv_switch_relay_errors += 1;
        }
    }

    /// Over a cable, if both its ends are up.
    fn cross(&mut self, leaving: &Leaving, load: Load) -> Option<Hop> {
        let by = leaving.by;
        let multicast = u64::from(is_group(load.dlid));
        let at = by.node.0 as usize;
        let input = usize::from(leaving.came_by);
        let port = self.nodes[at].ports.get_mut(usize::from(by.port))?;
        let rows = &port.sl_to_vl;
        let row = rows.get(input).or_else(|| rows.first());
        let vl = row.map_or(Vl(0), |row| row[usize::from(load.sl.0 & 15)]);
        let up = port.info.state == PortState::ACTIVE;
        let peer = self.topology.peer(by).filter(|_| up);
        let far = peer.filter(|far| {
            let port = &self.nodes[far.node.0 as usize].ports[usize::from(far.port)];
            !self.off[far.node.0 as usize]
                && matches!(port.info.state, PortState::ARMED | PortState::ACTIVE)
        });
        let cable = self.topology.cable_at(by);
        let whole = cable.is_some_and(|cable| !self.cut[cable]);
        let near = &mut self.nodes[at].ports[usize::from(by.port)].counters;
        // lane 15 is not for data: an SL without a lane of its own is let go of (IBA 7.6.6)
        let Some(far) = far.filter(|_| whole && vl.0 != 15) else {
            near.xmit_discards += 1;
            return None;
        };
        near.xmit_packets += 1;
        near.xmit_bytes += u64::from(load.length);
        near.multicast_xmit += multicast;
        if cable.is_some_and(|cable| self.is_spoilt(cable, far)) {
            return None;
        }
        let there = &mut self.nodes[far.node.0 as usize].ports[usize::from(far.port)].counters;
        there.rcv_packets += 1;
        there.rcv_bytes += u64::from(load.length);
        there.multicast_rcv += multicast;
        Some(Hop {
            from: by,
            to: far,
            vl,
        })
    }
}

fn is_group(lid: Lid) -> bool {
    lid.0 >= super::node::FIRST_MULTICAST && lid != Lid::PERMISSIVE
}
