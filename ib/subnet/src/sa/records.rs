//! Records that are copies of what nodes say of themselves: nodes, ports, switches, links, forwarding tables, the manager.
//!
//! A question gives some of a record's components, by the bits of its mask; each component is a piece of the record's bytes, so what matches is found by comparing those.

use super::{Administration, Answered, Refused, is_trusted};
use crate::graph::Peer;
use crate::manager::{Known, Subnet};
use ferriband_wire::attributes::{
    NodeDescription, NodeRecord, NodeType, PortInfo, SmInfo, SwitchInfo,
};
use ferriband_wire::sa::{SaMad, attribute, status};
use ferriband_wire::{Gid, Header, Lid, MKey, SmKey};
use std::collections::BTreeSet;

/// A component: the bit of the mask, where it begins, how many bytes.
pub(super) type Component = (u32, usize, usize);

const NODE: &[Component] = &[
    (0, 0, 2),
    (2, 4, 1),
    (3, 5, 1),
    (4, 6, 1),
    (5, 7, 1),
    (6, 8, 8),
    (7, 16, 8),
    (8, 24, 8),
    (9, 32, 2),
    (10, 34, 2),
    (11, 36, 4),
    (12, 40, 1),
    (13, 41, 3),
    (14, 44, 64),
];
const PORT: &[Component] = &[
    (0, 0, 2),
    (1, 2, 1),
    // GidPrefix, LID, MasterSMLID, CapabilityMask
    (4, 12, 8),
    (5, 20, 2),
    (6, 22, 2),
    (7, 24, 4),
];
const SWITCH: &[Component] = &[(0, 0, 2)];
const LINK: &[Component] = &[(0, 0, 2), (1, 2, 1), (2, 3, 1), (3, 4, 2)];
const TABLE: &[Component] = &[(0, 0, 2), (1, 2, 2)];
/// Priority and state share a byte, and are looked at apart.
const MANAGER: &[Component] = &[
    (0, 0, 2),
    (2, 4, 8),
    (4, 20, 4),
    (PRIORITY, 24, 0),
    (STATE, 24, 0),
];
const PRIORITY: u32 = 5;
const STATE: u32 = 6;

/// The component of PortInfoRecord that may be asked for as "these bits at least", by the modifier's top bit (IBA 15.2.5.3).
const CAPABILITIES: Component = (7, 24, 4);
const MATCH_BITS: u32 = 1 << 31;

/// What a question says of a record.
pub(super) struct Question<'a> {
    asked: &'a SaMad,
    components: &'static [Component],
}

impl<'a> Question<'a> {
    /// Refuses components that are not known here.
    pub fn new(asked: &'a SaMad, components: &'static [Component]) -> Result<Self, Refused> {
        let known = components
            .iter()
            .fold(0_u64, |mask, (bit, ..)| mask | 1 << bit);
        if asked.component_mask & !known != 0 {
            return Err(status::REQUEST_INVALID);
        }
        Ok(Question { asked, components })
    }

    pub fn wants(&self, record: &[u8]) -> bool {
        let given = self.components.iter();
        let mut given = given.filter(|(bit, ..)| self.asked.component_mask >> bit & 1 != 0);
        given.all(|component| {
            let (_, at, length) = *component;
            let (own, asked) = (&record[at..at + length], &self.asked.data[at..at + length]);
            let bits = self.asked.attribute == attribute::PORT_INFO
                && *component == CAPABILITIES
                && self.asked.attribute_modifier & MATCH_BITS != 0;
            match bits {
                true => own
                    .iter()
                    .zip(asked)
                    .all(|(own, asked)| own & asked == *asked),
                false => own == asked,
            }
        })
    }
}

/// Appends a record that begins with `prefix`.
pub(super) fn push<A: Header>(
    found: &mut Answered,
    value: &A,
    prefix: &[u8],
) -> Result<(), Refused> {
    let bytes = record(value, prefix)?;
    found.push(&bytes)
}

fn record<A: Header>(value: &A, prefix: &[u8]) -> Result<Vec<u8>, Refused> {
    let mut bytes = vec![0; prefix.len() + A::LEN];
    bytes[..prefix.len()].copy_from_slice(prefix);
    let done = value.emit(&mut bytes[prefix.len()..]);
    done.map_err(|_| status::NO_RESOURCES)?;
    Ok(bytes)
}

/// LID and two bytes.
fn key(lid: Lid, more: [u8; 2]) -> [u8; 4] {
    let [high, low] = lid.0.to_be_bytes();
    [high, low, more[0], more[1]]
}

pub(super) fn find(own: &Administration, asked: &SaMad) -> Result<Answered, Refused> {
    match asked.attribute {
        attribute::NODE => nodes(own, asked),
        attribute::PORT_INFO => ports(own, asked),
        attribute::SWITCH_INFO => switches(own, asked),
        attribute::LINK => links(own, asked),
        attribute::LINEAR_FORWARDING => tables(own, asked),
        attribute::SM_INFO => manager(own, asked),
        _ => Err(ferriband_wire::mad::MadStatus::UNSUPPORTED_ATTRIBUTE),
    }
}

fn is_switch(node: &Known) -> bool {
    node.info.node_type == NodeType::SWITCH
}

/// A node's end ports: those that have a LID.
pub(super) fn end_ports(node: &Known) -> impl Iterator<Item = (u8, &PortInfo)> {
    let switch = is_switch(node);
    let ports = node.ports.iter().map(|(number, info)| (*number, info));
    ports.filter(move |(number, info)| (*number == 0) == switch && info.lid != Lid(0))
}

/// GIDs of a subnet's end ports, with their LIDs.
fn ports_by_gid(subnet: &Subnet) -> impl Iterator<Item = (Gid, &PortInfo)> {
    subnet.nodes.iter().flat_map(|node| {
        end_ports(node).map(|(number, info)| {
            let guid = node.guids.get(&number).copied();
            let guid = guid.unwrap_or(node.info.port_guid);
            (Gid::from_prefix_guid(info.gid_prefix, guid), info)
        })
    })
}

/// GIDs of a subnet's end ports.
pub(super) fn gids(subnet: &Subnet) -> BTreeSet<[u8; 16]> {
    ports_by_gid(subnet).map(|(gid, _)| gid.0).collect()
}

/// The GID of the port that has a LID.
pub(super) fn gid_at(subnet: &Subnet, lid: Lid) -> Option<Gid> {
    let mut ports = ports_by_gid(subnet);
    let found = ports.find(|(_, info)| lid.0 >> info.lmc == info.lid.0 >> info.lmc);
    found.map(|(gid, _)| gid)
}

fn nodes(own: &Administration, asked: &SaMad) -> Result<Answered, Refused> {
    let question = Question::new(asked, NODE)?;
    let mut found = Answered::of(NodeRecord::LEN);
    for node in &own.subnet.nodes {
        for (number, port) in end_ports(node) {
            let mut info = node.info;
            info.local_port = number;
            info.port_guid = node.guids.get(&number).copied().unwrap_or(info.port_guid);
            let value = NodeRecord {
                lid: port.lid,
                info,
                description: node.description.unwrap_or(NodeDescription([0; 64])),
            };
            let bytes = record(&value, &[])?;
            if question.wants(&bytes) {
                found.push(&bytes)?;
            }
        }
    }
    Ok(found)
}

fn ports(own: &Administration, asked: &SaMad) -> Result<Answered, Refused> {
    let question = Question::new(asked, PORT)?;
    let mut found = Answered::of(4 + PortInfo::LEN);
    for node in &own.subnet.nodes {
        let base = end_ports(node).next().map_or(Lid(0), |(_, port)| port.lid);
        for (number, port) in &node.ports {
            // a switch's ports are found by its LID
            let lid = if is_switch(node) { base } else { port.lid };
            if lid == Lid(0) {
                continue;
            }
            // the key is nobody's business
            let shown = PortInfo {
                mkey: MKey(0),
                ..*port
            };
            let bytes = record(&shown, &key(lid, [*number, 0]))?;
            if question.wants(&bytes) {
                found.push(&bytes)?;
            }
        }
    }
    Ok(found)
}

fn switches(own: &Administration, asked: &SaMad) -> Result<Answered, Refused> {
    let question = Question::new(asked, SWITCH)?;
    let mut found = Answered::of(4 + SwitchInfo::LEN);
    for node in &own.subnet.nodes {
        if let (Some(info), Some((_, port))) = (&node.switch, end_ports(node).next()) {
            let bytes = record(info, &key(port.lid, [0; 2]))?;
            if question.wants(&bytes) {
                found.push(&bytes)?;
            }
        }
    }
    Ok(found)
}

fn links(own: &Administration, asked: &SaMad) -> Result<Answered, Refused> {
    let question = Question::new(asked, LINK)?;
    let mut found = Answered::of(8);
    let graph = &own.subnet.graph;
    let mut link = |from: (u32, u8), to: (u32, u8)| {
        let ([a, b], [c, d]) = ((from.0 as u16).to_be_bytes(), (to.0 as u16).to_be_bytes());
        let bytes = [a, b, from.1, to.1, c, d, 0, 0];
        match question.wants(&bytes) {
            true => found.push(&bytes),
            false => Ok(()),
        }
    };
    for switch in graph.switches() {
        for (number, peer) in (0_u8..).zip(&switch.ports) {
            match *peer {
                Peer::Switch {
                    switch: other,
                    port,
                } => {
                    let there = graph.switches()[other as usize].lid;
                    link((switch.lid, number), (there, port))?;
                }
                Peer::End(end) => {
                    let end = &graph.ends()[end as usize];
                    link((switch.lid, number), (end.lid, end.number))?;
                    link((end.lid, end.number), (switch.lid, number))?;
                }
                Peer::Nothing => {}
            }
        }
    }
    Ok(found)
}

fn tables(own: &Administration, asked: &SaMad) -> Result<Answered, Refused> {
    let question = Question::new(asked, TABLE)?;
    let mut found = Answered::of(8 + 64);
    for (index, switch) in (0_u32..).zip(own.subnet.graph.switches()) {
        let row = own.subnet.routing.tables.row(index);
        for (block, ports) in (0_u16..).zip(row.chunks(64)) {
            let mut bytes = [255; 72];
            bytes[..2].copy_from_slice(&(switch.lid as u16).to_be_bytes());
            bytes[2..4].copy_from_slice(&block.to_be_bytes());
            bytes[4..8].fill(0);
            bytes[8..8 + ports.len()].copy_from_slice(ports);
            if question.wants(&bytes) {
                found.push(&bytes)?;
            }
        }
    }
    Ok(found)
}

fn manager(own: &Administration, asked: &SaMad) -> Result<Answered, Refused> {
    let question = Question::new(asked, MANAGER)?;
    let mut found = Answered::of(4 + SmInfo::LEN);
    let given = |bit: u32| asked.component_mask >> bit & 1 != 0;
    let wanted = asked.data[24];
    for (lid, mut info) in std::iter::once(&own.manager).chain(&own.others).copied() {
        if !is_trusted(asked) {
            info.sm_key = SmKey(0);
        }
        let bytes = record(&info, &key(lid, [0; 2]))?;
        let both = bytes[24];
        let right = (!given(PRIORITY) || both >> 4 == wanted >> 4)
            && (!given(STATE) || both & 0xf == wanted & 0xf);
        if right && question.wants(&bytes) {
            found.push(&bytes)?;
        }
    }
    Ok(found)
}
