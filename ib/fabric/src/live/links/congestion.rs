//! Congestion control on live links (papers/000 II-F, IBA annex A10): switches mark, adapters that get a mark send it back, and slow down when theirs comes back. By the machines of
//! [`crate::congestion`], as in the simulator.
//!
//! Owns the bits in packets, the marks that an adapter owes, and its flows' indices. What is different from an adapter of metal: a flow is what goes from a port to a LID by one service level, not a queue
//! pair, for a port sees of a packet only whom it is for (all of them take the same way and meet the same congestion); a mark goes back with whatever goes back next, an acknowledgement most
//! often, so datagrams that nobody answers are not slowed down.

#[cfg(test)]
mod tests;

use super::{Carried, Links};
use crate::congestion::Index;
use crate::manage::Plane;
use crate::time::Time;
use ferriband_topology::PortId;
use ferriband_wire::{Lid, Lrh, Qpn, Sl, VCRC_LEN, vcrc};
use std::collections::{BTreeMap, BTreeSet};

/// Flows of a port, and marks that it owes, at the most: a stranger may name any LID.
const MOST_FLOWS: usize = 4_096;
/// Bits of the BTH's resv8a (IBA annex A10).
const FECN: u8 = 1 << 7;
const BECN: u8 = 1 << 6;
/// Where that byte is in a BTH.
const MARKS_AT: usize = 4;
/// Bytes of a GRH.
const GRH_BYTES: usize = 40;

/// Where a flow goes, and how.
type Flow = (u16, u8);

/// What an adapter's port knows of congestion.
#[derive(Debug, Default)]
pub(super) struct Adapter {
    flows: BTreeMap<Flow, Index>,
    /// LIDs whose marks are to go back.
    owes: BTreeSet<u16>,
}

/// By port.
pub(super) type Adapters = BTreeMap<PortId, Adapter>;

/// A mark in a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mark {
    /// It met congestion.
    Forward,
    /// What its receiver sent did.
    Backward,
}

impl Mark {
    const fn bit(self) -> u8 {
        match self {
            Mark::Forward => FECN,
            Mark::Backward => BECN,
        }
    }
}

/// Where a packet's marks are; None for one without a BTH.
fn place(bytes: &[u8]) -> Option<usize> {
    // LNH: 2 a BTH follows the LRH, 3 a GRH is between them
    let bth = match bytes.get(1)? & 3 {
        2 => Lrh::LEN,
        3 => Lrh::LEN + GRH_BYTES,
        _ => return None,
    };
    (bytes.len() > bth + 12 + VCRC_LEN).then_some(bth + MARKS_AT)
}

/// A packet with a mark; the same if it has no room for one. The ICRC does not cover it, the VCRC does.
fn marked(packet: &Carried, mark: Mark) -> Carried {
    let mut bytes = packet.bytes.clone();
    if let Some(at) = place(&bytes) {
        bytes[at] |= mark.bit();
        let body = bytes.len() - VCRC_LEN;
        let trailer = vcrc(&bytes[..body]);
        bytes[body..].copy_from_slice(&trailer.to_le_bytes());
    }
    Carried {
        bytes,
        load: packet.load,
    }
}

fn has(bytes: &[u8], mark: Mark) -> bool {
    place(bytes).is_some_and(|at| bytes[at] & mark.bit() != 0)
}

/// The queue pair that a packet is for.
fn dest_qpn(bytes: &[u8]) -> Qpn {
    place(bytes).map_or(Qpn(0), |at| {
        Qpn(u32::from_be_bytes([
            0,
            bytes[at + 1],
            bytes[at + 2],
            bytes[at + 3],
        ]))
    })
}

fn slid(bytes: &[u8]) -> Lid {
    Lrh::parse(bytes).map_or(Lid(0), |(lrh, ..)| lrh.slid)
}

impl Links {
    /// A time outside as the fabric's: slower links make all slower.
    fn inside(&self, time: Time) -> Time {
        Time((time.0 as f64 * self.scale.unwrap_or(1.0)) as u64)
    }

    fn outside(&self, time: Time) -> Time {
        super::scaled(time, self.scale.unwrap_or(1.0))
    }

    /// A switch sends a packet by a port: whether it marks it. `waiting_blocks` waited for its lane with the packet itself, of a buffer of `capacity`; `starved`: it waited for credits.
    pub(super) fn mark(
        &mut self,
        plane: &mut Plane,
        by: PortId,
        marker: &mut crate::congestion::Marker,
        packet: &Carried,
        (waiting_blocks, capacity): (u32, u16),
        starved: bool,
    ) -> Option<Carried> {
        let node = plane.node_mut(by.node);
        node.switch.as_ref()?;
        let (rule, victim) = node.congestion.marking(by.port, capacity)?;
        let length = packet.load.length.min(u16::MAX.into()) as u16;
        let root = !starved || victim;
        if !marker.mark(&rule, waiting_blocks, length, root) {
            return None;
        }
        let (from, load) = (slid(&packet.bytes), packet.load);
        let now = self.clock;
        node.congestion
            .marked(now, by.port, from, load.dlid, load.sl);
        Some(marked(packet, Mark::Forward))
    }

    /// A packet has come to an adapter's port.
    pub(super) fn hear(&mut self, plane: &mut Plane, at: PortId, packet: &Carried) {
        let (forward, backward) = (
            has(&packet.bytes, Mark::Forward),
            has(&packet.bytes, Mark::Backward),
        );
        if !forward && !backward {
            return;
        }
        let from = slid(&packet.bytes);
        let (outside, now) = (self.clock, self.inside(self.clock));
        let adapter = self.adapters.entry(at).or_default();
        if forward && adapter.owes.len() < MOST_FLOWS {
            adapter.owes.insert(from.0);
        }
        let sl = packet.load.sl;
        let congestion = &mut plane.node_mut(at.node).congestion;
        let Some(rule) = congestion.throttle(at.port, sl).cloned() else {
            return;
        };
        let flow = (from.0, sl.0);
        if backward && (adapter.flows.contains_key(&flow) || adapter.flows.len() < MOST_FLOWS) {
            let index = adapter
                .flows
                .entry(flow)
                .or_insert_with(|| Index::new(&rule));
            index.becn(&rule, now);
            let risen = index.now(&rule, now);
            let own = dest_qpn(&packet.bytes);
            congestion.slowed(outside, at.port, risen, own, from, sl);
        }
    }

    /// An adapter sends a packet by its port, which lasts so long on a link of full rate: what it owes to whom the packet goes to goes with it, and its flow waits after it.
    pub(super) fn send_on(
        &mut self,
        plane: &Plane,
        by: PortId,
        packet: &Carried,
        lasts: Time,
    ) -> Option<Carried> {
        let now = self.inside(self.clock);
        let paced = self.scale.is_some();
        let load = packet.load;
        let adapter = self.adapters.get_mut(&by)?;
        if paced
            && let Some(rule) = plane.node(by.node).congestion.throttle(by.port, load.sl)
            && let Some(index) = adapter.flows.get_mut(&(load.dlid.0, load.sl.0))
        {
            index.sent(rule, now, now + lasts);
        }
        let owed = adapter.owes.remove(&load.dlid.0);
        owed.then(|| marked(packet, Mark::Backward))
    }

    /// When a flow of an adapter's port may send its next packet; None: whenever it likes.
    pub(super) fn held_until(&self, by: PortId, dlid: Lid, sl: Sl) -> Option<Time> {
        let index = self.adapters.get(&by)?.flows.get(&(dlid.0, sl.0))?;
        let at = self.outside(index.not_before());
        (at > self.clock).then_some(at)
    }
}
