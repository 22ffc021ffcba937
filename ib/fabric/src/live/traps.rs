//! Traps: what ports tell their manager by themselves (IBA 14.2.5.1, 13.4.8.2).
//!
//! Owns what notices look like, and how often what goes wrong again and again is told: of a port each kind no more often than its SubnetTimeOut allows (IBA 13.4.9). What
//! happens where is the business of the plane and the links. *Never raised*, as nothing that happens here causes them: 130 (no sender of ours sends without credits), 145 (a node keeps its system
//! image GUID), 259 (switches enforce no partitions, and say so).

#[cfg(test)]
mod tests;

use super::{Come, Fabric};
use crate::Time;
use crate::interface::Far;
use crate::manage::{self, Place};
use ferriband_topology::{NodeId, NodeKind, PortId};
use ferriband_wire::attributes::{NOTICE_DETAILS, Notice, NoticeType, PhysState, PortState};
use ferriband_wire::attributes::{producer, trap};
use ferriband_wire::mad::{AttributeId, GSI_QKEY, GSI_QPN, Method};
use ferriband_wire::smp::{Route, SMP_DATA_LEN, Smp};
use ferriband_wire::{Gid, Header, Lid, PKey, Qpn, Sl, TransactionId};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of LRH and GRH.
const LRH: usize = 8;
const GRH: usize = 40;
/// What happened between two looks is told of this often at the most.
const MOST_TROUBLES: usize = 256;
/// A port that gets no flow-control packets for 400,000 symbol times (IBA 7.9.4), at 4 ns each as in a lane of SDR, recovers its link.
const WATCHDOG: Time = Time::from_ns(1_600_000);
/// How long it is until that happens again.
const RECOVERY: Time = Time::from_ns(1_000_000_000);

/// A packet whose key is not that of the port that it came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Violation {
    slid: Lid,
    dlid: Lid,
    key: u32,
    sl: Sl,
    from: Qpn,
    to: Qpn,
    /// Of its GRH; 0 without one.
    gids: [Gid; 2],
}

/// What a port has noticed.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// More packets came with errors than LocalPhyErrors allows.
    Integrity(PortId),
    /// No flow-control packet came in time.
    Watchdog(PortId),
    /// A partition key matches none of the port's, or not that of the queue pair.
    BadPKey(Place, Violation),
    /// A packet had another Q_Key than the queue pair that it was for.
    BadQKey(Place, Violation),
}

/// What is to be told.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    noticed: Vec<Trouble>,
    /// When a port told of what.
    told: BTreeMap<(Place, u16), Time>,
    /// Of cables that spoil everything: when the watchdogs at their ends expire.
    watchdogs: BTreeMap<usize, Time>,
}

impl Troubles {
    /// When something is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.watchdogs.values().min().copied()
    }

    /// A cable passes packets from now on, or spoils them all: flow-control packets too.
    pub fn spoils_all(&mut self, now: Time, cable: usize, all: bool) {
        match all {
            true => self.watchdogs.insert(cable, now + WATCHDOG),
            false => self.watchdogs.remove(&cable),
        };
    }

    fn note(&mut self, trouble: Trouble) {
        if self.noticed.len() < MOST_TROUBLES {
            self.noticed.push(trouble);
        }
    }
}

/// A key is in a table if the numbers are the same and one of both is a full member's (IBA 10.9.3).
fn is_member(table: &[PKey], key: PKey) -> bool {
    const FULL: u16 = 0x8000;
    let same = |own: &PKey| {
        (own.0 ^ key.0) & !FULL == 0 && own.0 & !FULL != 0 && (own.0 | key.0) & FULL != 0
    };
    table.iter().any(same)
}

/// Partition key and, if that is asked for, everything that a trap says of a packet, LRH to VCRC.
fn key_of(packet: &[u8]) -> Option<PKey> {
    let bth = packet.get(LRH + grh_bytes(packet)..)?;
    let key = bth.get(2..4)?;
    Some(PKey(u16::from_be_bytes([key[0], key[1]])))
}

/// Q_Key of a datagram; None of anything else.
fn qkey_of(packet: &[u8]) -> Option<u32> {
    let bth = packet.get(LRH + grh_bytes(packet)..)?;
    let key = bth.get(12..16).filter(|_| bth[0] >> 5 == 3)?;
    Some(u32::from_be_bytes([key[0], key[1], key[2], key[3]]))
}

fn grh_bytes(packet: &[u8]) -> usize {
    match packet.get(1).map(|byte| byte & 3) {
        Some(3) => GRH,
        _ => 0,
    }
}

fn violation(packet: &[u8], key: u32) -> Option<Violation> {
    let word = |at: usize| {
        let bytes = packet.get(at..at + 4)?;
        Some(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    };
    let half = |at: usize| {
        Some(Lid(u16::from_be_bytes([
            *packet.get(at)?,
            *packet.get(at + 1)?,
        ])))
    };
    let grh = grh_bytes(packet);
    let bth = LRH + grh;
    let gid = |at: usize| {
        let mut gid = [0; 16];
        if grh > 0 {
            gid.copy_from_slice(packet.get(at..at + 16)?);
        }
        Some(Gid(gid))
    };
    // only datagrams say who sent them: DETH is behind BTH
    let is_datagram = packet.get(bth)? >> 5 == 3;
    let from = if is_datagram { word(bth + 16)? } else { 0 };
    Some(Violation {
        slid: half(6)?,
        dlid: half(2)?,
        key,
        sl: Sl(packet.get(1)? >> 4),
        from: Qpn(from & 0xff_ffff),
        to: Qpn(word(bth + 4)? & 0xff_ffff),
        gids: [gid(LRH + 8)?, gid(LRH + 24)?],
    })
}

impl Fabric {
    /// A trap from a port to the manager that it knows.
    fn trap(&mut self, now: Time, from: Place, data: [u8; SMP_DATA_LEN], come: &mut Vec<Come>) {
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
        self.take_all(now, come);
    }

    /// Switches send trap 128 to the manager that they know.
    pub(super) fn tell(&mut self, now: Time, nodes: impl Iterator<Item = NodeId>) {
        let mut come = Vec::new();
        self.tell_links(now, nodes.collect(), &mut come);
        self.take_all(now, come);
    }

    /// The same; what comes of it is put into `come`.
    pub(super) fn tell_links(&mut self, now: Time, nodes: BTreeSet<NodeId>, come: &mut Vec<Come>) {
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
            self.trap(now, from, link_state_notice(info.lid), come);
        }
    }

    fn take_all(&mut self, now: Time, come: Vec<Come>) {
        for come in come {
            self.take(now, come);
        }
        self.pump(now);
    }

    /// Trap 256 for each packet of subnet management that had a wrong key.
    pub(super) fn tell_wrong_keys(&mut self, now: Time, come: &mut Vec<Come>) {
        for wrong in self.plane.take_wrong_keys() {
            let node = self.plane.node(wrong.at.node);
            let info = node.ports[usize::from(wrong.at.port)].info;
            if info.master_sm_lid != Lid(0) && info.lid != Lid(0) {
                let data = wrong_key_notice(node.kind == NodeKind::Switch, info.lid, &wrong);
                // a trap is answered by no agent, so this ends
                self.trap(now, wrong.at, data, come);
            }
        }
    }

    /// True if a packet that has come to an end has a partition key of the port there; else the port counts it, and a trap is due (IBA 10.9.4). Packets that are not for a queue pair have none.
    pub(super) fn has_right_pkey(&mut self, at: Place, packet: &[u8]) -> bool {
        let Some(key) = key_of(packet) else {
            return true;
        };
        let port = &mut self.plane.node_mut(at.node).ports[usize::from(at.port)];
        if is_member(&port.pkeys, key) {
            return true;
        }
        let count = &mut port.info.pkey_violations;
        *count = count.saturating_add(1);
        if let Some(violation) = violation(packet, key.0.into()) {
            self.troubles.note(Trouble::BadPKey(at, violation));
        }
        false
    }

    /// The same for the Q_Key of a packet to queue pair 1, which everybody knows (IBA 10.2.4).
    pub(super) fn has_right_qkey(&mut self, at: Place, from: Far, dlid: Lid) -> bool {
        if from.qkey == GSI_QKEY {
            return true;
        }
        let port = &mut self.plane.node_mut(at.node).ports[usize::from(at.port)];
        let count = &mut port.info.qkey_violations;
        *count = count.saturating_add(1);
        let violation = Violation {
            slid: from.lid,
            dlid,
            key: from.qkey.0,
            sl: from.sl,
            from: from.qpn,
            to: GSI_QPN,
            gids: [Gid([0; 16]); 2],
        };
        self.troubles.note(Trouble::BadQKey(at, violation));
        false
    }

    /// An adapter says that a packet which came to it at `at` has another partition key (`is_qkey`: another Q_Key) than its queue pair: the port counts that, and a trap is due (IBA 10.9.4,
    /// 10.2.4). `packet` is its beginning, LRH to DETH, or whatever the adapter's program likes.
    pub fn hear_wrong_key(&mut self, at: Place, is_qkey: bool, packet: &[u8]) {
        let key = match is_qkey {
            false => key_of(packet).map(|key| key.0.into()),
            true => qkey_of(packet),
        };
        let Some(violation) = key.and_then(|key| violation(packet, key)) else {
            return;
        };
        let info = &mut self.plane.node_mut(at.node).ports[usize::from(at.port)].info;
        let (count, trouble) = match is_qkey {
            false => (&mut info.pkey_violations, Trouble::BadPKey(at, violation)),
            true => (&mut info.qkey_violations, Trouble::BadQKey(at, violation)),
        };
        *count = count.saturating_add(1);
        self.troubles.note(trouble);
    }

    /// Watchdogs of cables that pass nothing expire: both ends recover their link, and count it.
    pub(super) fn see_watchdogs(&mut self, now: Time) {
        let due = self.troubles.watchdogs.iter();
        let due: Vec<usize> = due
            .filter(|(_, at)| **at <= now)
            .map(|(cable, _)| *cable)
            .collect();
        for cable in due {
            self.troubles.watchdogs.insert(cable, now + RECOVERY);
            for end in self.plane.topology().cables()[cable].ends {
                let port = &mut self.plane.node_mut(end.node).ports[usize::from(end.port)];
                if port.info.phys_state == PhysState::LINK_UP {
                    port.counters.link_recoveries += 1;
                    self.troubles.note(Trouble::Watchdog(end));
                }
            }
        }
    }

    /// Ports tell what they have noticed: traps 129, 131, 257 and 258.
    pub(super) fn tell_troubles(&mut self, now: Time) {
        let integrity = self.plane.take_spoilt_links().into_iter();
        integrity.for_each(|port| self.troubles.note(Trouble::Integrity(port)));
        if self.troubles.noticed.is_empty() {
            return;
        }
        let mut come = Vec::new();
        for trouble in std::mem::take(&mut self.troubles.noticed) {
            let (node, port, number) = match trouble {
                Trouble::Integrity(at) => (at.node, at.port, trap::LINK_INTEGRITY),
                Trouble::Watchdog(at) => (at.node, at.port, trap::FLOW_CONTROL_WATCHDOG),
                Trouble::BadPKey(at, _) => (at.node, at.port, trap::BAD_PKEY),
                Trouble::BadQKey(at, _) => (at.node, at.port, trap::BAD_QKEY),
            };
            let (own, is_switch) = match self.plane.node(node).kind {
                // its agent is at port 0
                NodeKind::Switch => (Place { node, port: 0 }, true),
                _ => (Place { node, port }, false),
            };
            let info = self.plane.node(node).ports[usize::from(own.port)].info;
            if info.lid == Lid(0) || info.master_sm_lid == Lid(0) || self.plane.is_off(node) {
                continue;
            }
            let key = (Place { node, port }, number);
            // SubnetTimeOut: 4.096 us * 2^value
            let pause = Time::from_ns(4_096 << info.subnet_timeout.0.min(31));
            let told = self.troubles.told.get(&key);
            if told.is_some_and(|told| now < *told + pause) {
                continue;
            }
            self.troubles.told.insert(key, now);
            let data = match trouble {
                Trouble::Integrity(_) | Trouble::Watchdog(_) => {
                    let mut notice = generic(NoticeType::URGENT, is_switch, number, info.lid);
                    notice.details[2..4].copy_from_slice(&info.lid.0.to_be_bytes());
                    notice.details[4] = port;
                    data_of(&notice)
                }
                Trouble::BadPKey(_, packet) | Trouble::BadQKey(_, packet) => {
                    let mut notice = generic(NoticeType::SECURITY, is_switch, number, info.lid);
                    notice.details = violation_details(&packet);
                    data_of(&notice)
                }
            };
            self.trap(now, own, data, &mut come);
        }
        self.take_all(now, come);
    }
}

/// A generic notice of a node.
fn generic(kind: NoticeType, is_switch: bool, number: u16, lid: Lid) -> Notice {
    let who = if is_switch {
        producer::SWITCH
    } else {
        producer::CHANNEL_ADAPTER
    };
    Notice::new(kind, who, number, lid)
}

/// A notice in a trap by an SMP, which leaves the issuer's GID out.
fn data_of(notice: &Notice) -> [u8; SMP_DATA_LEN] {
    let mut bytes = [0; Notice::LEN];
    let emitted = notice.emit(&mut bytes);
    debug_assert!(emitted.is_ok(), "all of its numbers have room");
    let mut data = [0; SMP_DATA_LEN];
    data.copy_from_slice(&bytes[..SMP_DATA_LEN]);
    data
}

/// Of traps 257 and 258: two bytes, both LIDs, the key, service level and queue pair of who sent it, the queue pair that it was for, both GIDs.
fn violation_details(packet: &Violation) -> [u8; NOTICE_DETAILS] {
    let mut details = [0; NOTICE_DETAILS];
    details[2..4].copy_from_slice(&packet.slid.0.to_be_bytes());
    details[4..6].copy_from_slice(&packet.dlid.0.to_be_bytes());
    details[6..10].copy_from_slice(&packet.key.to_be_bytes());
    let sender = u32::from(packet.sl.0) << 28 | packet.from.0;
    details[10..14].copy_from_slice(&sender.to_be_bytes());
    details[14..18].copy_from_slice(&packet.to.0.to_be_bytes());
    details[18..34].copy_from_slice(&packet.gids[0].0);
    details[34..50].copy_from_slice(&packet.gids[1].0);
    details
}

/// Notice of trap 144, a port's capabilities have changed: generic, informational, from an adapter or a switch (IBA 14.2.5.1).
fn capability_notice(is_switch: bool, lid: Lid, capabilities: u32) -> [u8; 64] {
    let mut data = [0; 64];
    data[0] = 0x84;
    data[3] = if is_switch { 2 } else { 1 };
    data[4..6].copy_from_slice(&trap::CAPABILITIES.to_be_bytes());
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
    data[4..6].copy_from_slice(&trap::BAD_MKEY.to_be_bytes());
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
    data[4..6].copy_from_slice(&trap::LINK_STATE.to_be_bytes());
    data[6..8].copy_from_slice(&lid.0.to_be_bytes());
    // its details begin with the switch's LID
    data[10..12].copy_from_slice(&lid.0.to_be_bytes());
    data
}
