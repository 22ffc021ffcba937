//! What nodes were told of their tables and have acknowledged, so that a later sweep tells only what is other.
//!
//! Owns for how long that is believed: a node that was off has lost its tables, and its LID with them; one that did not answer may have lost anything. Who reads a port's
//! or a switch's own attributes needs none of this: they say what they are.

use super::discovery::Discovery;
use crate::graph::Graph;
use crate::routing::{NO_PORT, Tables};
use ferriband_wire::Guid;
use ferriband_wire::attributes::NodeType;
use ferriband_wire::smp::{SMP_DATA_LEN, Smp, attribute};
use std::collections::BTreeMap;

/// Attribute and modifier.
type Key = (u16, u32);

#[derive(Debug, Default)]
pub(super) struct Told {
    nodes: BTreeMap<u64, BTreeMap<Key, [u8; SMP_DATA_LEN]>>,
}

fn key(smp: &Smp) -> Option<Key> {
    let tables = [
        attribute::LINEAR_FORWARDING,
        attribute::SL_TO_VL,
        attribute::VL_ARBITRATION,
    ];
    tables
        .contains(&smp.attribute)
        .then_some((smp.attribute.0, smp.attribute_modifier))
}

impl Told {
    /// True if a node has this already.
    pub fn has(&self, guid: Guid, smp: &Smp) -> bool {
        let node = self.nodes.get(&guid.0);
        let told = key(smp).and_then(|key| node?.get(&key));
        told == Some(&smp.data)
    }

    /// A node has answered what it was told.
    pub fn answered(&mut self, guid: Guid, asked: &Smp, answer: &Smp) {
        let Some(key) = key(asked) else { return };
        if asked.data == answer.data {
            let node = self.nodes.entry(guid.0).or_default();
            node.insert(key, asked.data);
        } else if let Some(node) = self.nodes.get_mut(&guid.0) {
            node.remove(&key);
        }
    }

    /// What a block of a switch's forwarding table holds; None if that is not known.
    pub fn forwarding(&self, guid: Guid, block: u32) -> Option<&[u8; SMP_DATA_LEN]> {
        let key = (attribute::LINEAR_FORWARDING.0, block);
        self.nodes.get(&guid.0)?.get(&key)
    }

    /// The forwarding tables of a graph's switches, as far as they are known.
    pub fn tables(&self, graph: &Graph) -> Tables {
        let first = (attribute::LINEAR_FORWARDING.0, 0);
        let last = (attribute::LINEAR_FORWARDING.0, u32::MAX);
        let rows = graph.switches().iter().map(|switch| {
            let mut row = Vec::new();
            let known = self.nodes.get(&switch.guid.0).into_iter();
            for ((_, block), ports) in known.flat_map(|node| node.range(first..=last)) {
                row.resize(*block as usize * SMP_DATA_LEN, NO_PORT);
                row.extend_from_slice(ports);
            }
            row
        });
        Tables::of_rows(&rows.collect::<Vec<_>>())
    }

    /// Nobody waits for the answer to what a node was told: it may have heard it or not.
    pub fn uncertain(&mut self, guid: Guid, asked: &Smp) {
        if let (Some(key), Some(node)) = (key(asked), self.nodes.get_mut(&guid.0)) {
            node.remove(&key);
        }
    }

    /// Nothing is certain of a node.
    pub fn forget(&mut self, guid: Guid) {
        self.nodes.remove(&guid.0);
    }

    /// Nothing is certain of any.
    pub fn forget_all(&mut self) {
        self.nodes.clear();
    }

    /// Those that a sweep finds without the LID that `lid_of` has for them have been off meanwhile, and so may those that it does not find.
    pub fn keep(&mut self, discovery: &Discovery, lid_of: impl Fn(Guid) -> Option<u32>) {
        let keeps = discovery.nodes.iter().filter(|seen| {
            let is_switch = seen.info.node_type == NodeType::SWITCH;
            seen.ports.iter().any(|(number, info)| {
                let guid = match is_switch {
                    true => seen.info.port_guid,
                    false => seen.guids.get(number).copied().unwrap_or(Guid(0)),
                };
                (*number == 0 || !is_switch) && lid_of(guid) == Some(info.lid.0.into())
            })
        });
        let mut before = std::mem::take(&mut self.nodes);
        let kept = keeps.filter_map(|seen| before.remove_entry(&seen.info.node_guid.0));
        self.nodes = kept.collect();
    }
}
