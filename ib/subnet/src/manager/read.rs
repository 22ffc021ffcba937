//! Tables that no sweep asks for, read from the nodes when administration is asked about them: GUIDs, partition keys, lanes of service levels, arbiters, multicast forwarding.
//!
//! Owns which blocks there are. What a node refuses, or does not answer, is left out. Nothing is kept: who asks again is told how it is then.

use super::discovery::request;
use super::{Known, Manager, Purpose, Stage, Subnet};
use ferriband_wire::Lid;
use ferriband_wire::attributes::{NodeType, PKEYS_PER_BLOCK, PortInfo};
use ferriband_wire::mad::{AttributeId, Method};
use ferriband_wire::smp::{SMP_DATA_LEN, attribute};
use std::collections::BTreeMap;

/// GUIDs in a block.
const GUIDS_PER_BLOCK: u8 = 8;
/// Entries in a block of an arbiter's table.
const WEIGHTS_PER_BLOCK: u8 = 32;
/// Ports in a column of a multicast forwarding table.
const PORTS_PER_COLUMN: u8 = 16;

/// Which table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// GUIDs of end ports.
    Guids,
    /// Partition keys of ports.
    PKeys,
    /// The lane of each service level; in a switch for each input and output.
    Lanes,
    /// The tables of arbiters.
    Arbitration,
    /// Multicast forwarding, up to this block of 32 groups.
    Groups(u16),
}

impl Table {
    const fn attribute(self) -> AttributeId {
        match self {
            Table::Guids => attribute::GUID_INFO,
            Table::PKeys => attribute::PKEY_TABLE,
            Table::Lanes => attribute::SL_TO_VL,
            Table::Arbitration => attribute::VL_ARBITRATION,
            Table::Groups(_) => attribute::MULTICAST_FORWARDING,
        }
    }
}

/// What is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// Which table.
    pub table: Table,
    /// Of the node that has this LID; None: of all.
    pub lid: Option<Lid>,
    /// Of switches only what is of this port; None: of all.
    pub port: Option<u8>,
    /// Of lanes of switches only those of this input; None: of all.
    pub input: Option<u8>,
}

/// One block, as a node has said that it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// LID of the port that it is of, of a switch that of its port 0.
    pub lid: Lid,
    /// The port; in a switch 0 where the table is the whole switch's.
    pub port: u8,
    /// It is a switch's.
    pub of_switch: bool,
    /// The attribute's modifier.
    pub modifier: u32,
    /// The block.
    pub data: [u8; SMP_DATA_LEN],
}

/// A table, as nodes have said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableRead {
    /// What was read.
    pub what: Reading,
    /// The blocks that were to be had.
    pub blocks: Vec<Block>,
}

/// Which block a question is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place {
    lid: u16,
    port: u8,
    of_switch: bool,
    modifier: u32,
}

impl Place {
    /// Of a lane's block.
    fn input(self) -> u8 {
        (self.modifier >> 8) as u8
    }
}

impl Manager {
    /// Reads a table; the event is [`super::Event::Read`]. For a manager that is not sweeping: a sweep that begins meanwhile ends it without an event.
    pub fn read(&mut self, subnet: &Subnet, what: Reading) {
        let mut blocks = BTreeMap::new();
        for node in &subnet.nodes {
            let meant = |info: &PortInfo| {
                let meant = |lid: Lid| lid.0 >> info.lmc == info.lid.0 >> info.lmc;
                info.lid != Lid(0) && what.lid.is_none_or(meant)
            };
            if !node.ports.values().any(meant) {
                continue;
            }
            for (place, there) in places(node, what.table) {
                let info = node
                    .ports
                    .get(&if place.of_switch { 0 } else { place.port });
                let wanted = info.is_some_and(meant);
                let whole = !place.of_switch
                    || what.port.is_none_or(|port| port == place.port)
                        && what.input.is_none_or(|input| input == place.input());
                if !wanted || !whole {
                    continue;
                }
                match info.filter(|_| there) {
                    Some(info) => {
                        let path = way(subnet, node, place.of_switch, info);
                        let attribute = what.table.attribute();
                        let smp = request(&path, Method::GET, attribute, place.modifier);
                        self.queue
                            .extend(smp.map(|smp| (smp, Purpose::Read(place))));
                    }
                    None => {
                        blocks.insert(place, [0; SMP_DATA_LEN]);
                    }
                }
            }
        }
        self.stage = Stage::Reading(what, blocks);
        self.go_on();
    }
}

/// What was read, when all has come.
pub(super) fn tables(what: Reading, blocks: BTreeMap<Place, [u8; SMP_DATA_LEN]>) -> TableRead {
    let blocks = blocks.into_iter().map(|(place, data)| Block {
        lid: Lid(place.lid),
        port: place.port,
        of_switch: place.of_switch,
        modifier: place.modifier,
        data,
    });
    TableRead {
        what,
        blocks: blocks.collect(),
    }
}

/// The blocks of a node's table; false for one that is empty, for the port has no room for it.
fn places(node: &Known, table: Table) -> Vec<(Place, bool)> {
    let mut out = Vec::new();
    let switch = node.info.node_type == NodeType::SWITCH;
    let base = node.ports.get(&0).map_or(Lid(0), |port| port.lid);
    let ports = node.ports.iter().map(|(number, info)| (*number, info));
    let pkeys = |number: u8| match (switch, number) {
        (true, 1..) => node.switch.map_or(0, |info| info.partition_enforcement_cap),
        _ => node.info.partition_cap,
    };
    for (number, info) in ports {
        let lid = if switch { base } else { info.lid };
        if lid == Lid(0) {
            continue;
        }
        let mut put = |port, modifier, there: bool| {
            let place = Place {
                lid: lid.0,
                port,
                of_switch: switch,
                modifier,
            };
            out.push((place, there));
        };
        match table {
            Table::Guids if switch && number > 0 => {}
            Table::Guids => {
                for block in 0..info.guid_cap.div_ceil(GUIDS_PER_BLOCK) {
                    put(number, block.into(), true);
                }
            }
            Table::PKeys => {
                let of_port = if switch { u32::from(number) << 16 } else { 0 };
                for block in 0..u32::from(pkeys(number)).div_ceil(PKEYS_PER_BLOCK as u32) {
                    put(number, of_port | block, true);
                }
            }
            Table::Lanes if !switch => put(number, 0, true),
            Table::Lanes => {
                for input in node.ports.keys() {
                    put(number, u32::from(*input) << 8 | u32::from(number), true);
                }
            }
            Table::Arbitration => {
                let of_port = if switch { u32::from(number) } else { 0 };
                let caps = [info.vl_arbitration_low_cap, info.vl_arbitration_high_cap];
                for (block, cap) in (1..=4_u32).zip(caps.into_iter().flat_map(|cap| [cap; 2])) {
                    let least = if block % 2 == 1 { 0 } else { WEIGHTS_PER_BLOCK };
                    put(number, block << 16 | of_port, cap > least);
                }
            }
            Table::Groups(_) if !switch || number > 0 => {}
            Table::Groups(last) => {
                for position in 0..=node.info.num_ports / PORTS_PER_COLUMN {
                    for block in 0..=last {
                        put(0, u32::from(position) << 28 | u32::from(block), true);
                    }
                }
            }
        }
    }
    out
}

/// The ports to leave by on the way to a port: an adapter answers for the port that a question comes by.
fn way(subnet: &Subnet, node: &Known, switch: bool, info: &PortInfo) -> Vec<u8> {
    let to_switch = || {
        let ends = subnet.graph.ends();
        let end = ends.iter().find(|end| end.lid == u32::from(info.lid.0))?;
        let (at, port) = end.attached?;
        let guid = subnet.graph.switches().get(at as usize)?.guid;
        let there = subnet
            .nodes
            .iter()
            .find(|node| node.info.node_guid == guid)?;
        Some([&there.path[..], &[port]].concat())
    };
    // one port is where the node was met; only of several it is to be found out which
    match switch || node.ports.len() < 2 {
        true => node.path.clone(),
        false => to_switch().unwrap_or_else(|| node.path.clone()),
    }
}
