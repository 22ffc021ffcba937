//! What switches are told of multicast groups, between sweeps: blocks of 32 groups and 16 ports, those that have changed.
//!
//! Owns what each switch is to have of them. After a sweep all of it is told again, rows of groups that are gone as empty ones: a switch may have been off meanwhile. The first time a
//! block is told, all its positions are: the switch may know what another manager said.

use super::discovery::request;
use super::{Manager, Purpose, Subnet};
use crate::routing::multicast::Ports;
use ferriband_wire::attributes::MulticastForwardingBlock;
use ferriband_wire::mad::Method;
use ferriband_wire::smp::attribute;
use std::collections::{BTreeMap, BTreeSet};

/// The first LID of a group.
const FIRST_MLID: u16 = 0xc000;

/// By switch (its GUID), block of LIDs and position of ports.
pub(super) type Blocks = BTreeMap<(u64, u16, u8), [u16; 32]>;

impl Manager {
    /// Tells switches the rows of groups: of each its LID and the row of each switch of the subnet's graph. What fails is done again by the next sweep.
    pub fn tell_trees(&mut self, subnet: &Subnet, trees: &[(u16, Vec<Ports>)]) {
        let mut touched = BTreeSet::new();
        if std::mem::take(&mut self.groups_anew) {
            for (key, rows) in &mut self.group_blocks {
                *rows = [0; 32];
                touched.insert(*key);
            }
        }
        for (mlid, rows) in trees {
            let index = mlid.wrapping_sub(FIRST_MLID);
            let (block, at) = (
                index / MulticastForwardingBlock::LIDS,
                usize::from(index % MulticastForwardingBlock::LIDS),
            );
            for (switch, row) in subnet.graph.switches().iter().zip(rows) {
                let top = switch.ports.len().saturating_sub(1).min(255) / 16;
                for position in 0..=top as u8 {
                    let ports = (row[usize::from(position / 4)] >> (position % 4 * 16)) as u16;
                    let key = (switch.guid.0, block, position);
                    let told = self.group_blocks.entry(key).or_insert_with(|| {
                        touched.insert(key);
                        [0; 32]
                    });
                    if told[at] != ports {
                        told[at] = ports;
                        touched.insert(key);
                    }
                }
            }
        }
        for key in touched {
            let (guid, block, position) = key;
            let node = subnet
                .nodes
                .iter()
                .find(|node| node.info.node_guid.0 == guid);
            let Some(node) = node else { continue };
            let modifier = MulticastForwardingBlock::modifier(position, block);
            let smp = request(
                &node.path,
                Method::SET,
                attribute::MULTICAST_FORWARDING,
                modifier,
            );
            let value = MulticastForwardingBlock(self.group_blocks[&key]);
            if let Some(mut smp) = smp
                && smp.set_data(&value).is_ok()
            {
                let told = (smp, Purpose::Tell(node.info.node_guid));
                self.queue.push_back(told);
            }
        }
    }
}
