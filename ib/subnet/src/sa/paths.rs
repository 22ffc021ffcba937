//! PathRecords: how to get from one port to another, along the routes that were programmed; by each of their LIDs, where they have several (LMC).

use super::records::end_ports;
use super::{Answered, Refused};
use crate::graph::{Owner, Peer};
use crate::manager::{Known, Subnet};
use ferriband_wire::attributes::{
    PathRecord, PathRecordMask as Mask, PortInfo, Selected, Selector,
};
use ferriband_wire::mad::{DEFAULT_PKEY, Method};
use ferriband_wire::sa::{SaMad, status};
use ferriband_wire::{Gid, Guid, Header, Lid, Mtu, Sl};
use std::collections::BTreeMap;

/// Switches that a path passes at the most.
const MOST_HOPS: usize = 64;
/// 4.096 us * 2^18: about a second.
const LIFETIME: u8 = 18;
/// The IBA's code of each rate with what it is in units of 100 Mbit/s.
const RATES: [(u8, u32); 19] = [
    (2, 25),
    (5, 50),
    (3, 100),
    (11, 140),
    (6, 200),
    (15, 250),
    (19, 280),
    (4, 300),
    (7, 400),
    (20, 500),
    (12, 560),
    (8, 600),
    (9, 800),
    (16, 1000),
    (13, 1120),
    (10, 1200),
    (14, 1680),
    (17, 2000),
    (18, 3000),
];
/// Rates above: 400, 600, 800 and 1,200 Gbit/s.
const FAST: [(u8, u32); 4] = [(21, 4000), (22, 6000), (23, 8000), (24, 12_000)];
/// What a question's mask may have; the others are of routers and raw packets.
const KNOWN: Mask = Mask::SERVICE_ID
    .union(Mask::DGID)
    .union(Mask::SGID)
    .union(Mask::DLID)
    .union(Mask::SLID)
    .union(Mask::FLOW_LABEL)
    .union(Mask::HOP_LIMIT)
    .union(Mask::TRAFFIC_CLASS)
    .union(Mask::REVERSIBLE)
    .union(Mask::PATHS_WANTED)
    .union(Mask::PKEY)
    .union(Mask::QOS_CLASS)
    .union(Mask::SL)
    .union(Mask::MTU_SELECTOR)
    .union(Mask::MTU)
    .union(Mask::RATE_SELECTOR)
    .union(Mask::RATE)
    .union(Mask::PACKET_LIFETIME_SELECTOR)
    .union(Mask::PACKET_LIFETIME)
    .union(Mask::PREFERENCE)
    .union(Mask::RAW_TRAFFIC);

/// A port that paths begin or end at.
#[derive(Clone, Copy, Debug)]
struct Port<'a> {
    gid: Gid,
    info: &'a PortInfo,
}

/// What both a path's links can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Quality {
    /// The IBA's code.
    mtu: u8,
    /// Units of 100 Mbit/s.
    rate: u32,
}

impl Quality {
    fn of(info: &PortInfo) -> Quality {
        Quality {
            mtu: info.neighbor_mtu,
            rate: rate(info),
        }
    }

    fn and(self, other: Quality) -> Quality {
        Quality {
            mtu: self.mtu.min(other.mtu),
            rate: self.rate.min(other.rate),
        }
    }
}

/// Units of 100 Mbit/s.
pub(super) fn rate(info: &PortInfo) -> u32 {
    let lane = match (info.link_speed_ext_active, info.link_speed_active) {
        (8, _) => 1000,
        (4, _) => 500,
        (2, _) => 250,
        (1, _) => 140,
        (_, 4) => 100,
        (_, 2) => 50,
        _ => 25,
    };
    let lanes = match info.link_width_active {
        2 => 4,
        4 => 8,
        8 => 12,
        16 => 2,
        _ => 1,
    };
    lane * lanes
}

/// The code of the fastest rate that is not faster.
pub(super) fn rate_code(rate: u32) -> u8 {
    let known = RATES.iter().chain(&FAST);
    let fits = known.filter(|(_, own)| *own <= rate);
    fits.max_by_key(|(_, own)| *own)
        .map_or(2, |(code, _)| *code)
}

pub(super) fn rate_of(code: u8) -> u32 {
    let mut known = RATES.iter().chain(&FAST);
    known
        .find(|(own, _)| *own == code)
        .map_or(0, |(_, rate)| *rate)
}

/// Bytes of an MTU's code.
pub(super) fn mtu_of(code: u8) -> u32 {
    Mtu::from_code(code).map_or(0, Mtu::bytes)
}

struct World<'a> {
    subnet: &'a Subnet,
    nodes: BTreeMap<u64, &'a Known>,
    ports: Vec<Port<'a>>,
}

impl<'a> World<'a> {
    fn new(subnet: &'a Subnet) -> World<'a> {
        let nodes = subnet.nodes.iter();
        let by_guid = nodes.clone().map(|node| (node.info.node_guid.0, node));
        let ports = nodes.flat_map(|node| {
            end_ports(node).map(|(number, info)| {
                let guid = node.guids.get(&number).copied();
                let guid = guid.unwrap_or(node.info.port_guid);
                Port {
                    gid: Gid::from_prefix_guid(info.gid_prefix, guid),
                    info,
                }
            })
        });
        World {
            subnet,
            nodes: by_guid.collect(),
            ports: ports.collect(),
        }
    }

    /// The ports that a question's GID and LID mean: all, if it gives none.
    fn meant(&self, gid: Option<Gid>, lid: Option<Lid>) -> Vec<Port<'a>> {
        let has = |port: &&Port<'_>| {
            let info = port.info;
            gid.is_none_or(|gid| gid == port.gid)
                && lid.is_none_or(|lid| lid.0 >> info.lmc == info.lid.0 >> info.lmc)
        };
        self.ports.iter().filter(has).copied().collect()
    }

    fn switch_port(&self, guid: Guid, number: u8) -> Option<&'a PortInfo> {
        self.nodes.get(&guid.0)?.ports.get(&number)
    }

    /// What the way from a LID to another can do, and its service level; None if there is none.
    fn walk(&self, from: Port<'_>, to: Port<'_>, dlid: Lid) -> Option<(Quality, u8)> {
        let (graph, routing) = (&self.subnet.graph, &self.subnet.routing);
        let dlid = u32::from(dlid.0);
        let mut quality = Quality::of(from.info).and(Quality::of(to.info));
        let slid = u32::from(from.info.lid.0);
        let mut at = match graph.owner(slid) {
            Owner::Switch(switch) => switch,
            Owner::End(end) => match graph.ends()[end as usize].attached {
                Some((switch, _)) => switch,
                // two hosts and a cable
                None => return Some((quality, 0)),
            },
            Owner::Nobody => return None,
        };
        let level = routing.level(graph, at, dlid);
        if from.info.lid == to.info.lid {
            return Some((quality, level));
        }
        for _ in 0..MOST_HOPS {
            let switch = &graph.switches()[at as usize];
            if graph.owner(dlid) == Owner::Switch(at) {
                return Some((quality, level));
            }
            let by = routing.tables.port(at, dlid);
            quality = quality.and(Quality::of(self.switch_port(switch.guid, by)?));
            match graph.peer(at, by) {
                Peer::Switch { switch, .. } => at = switch,
                Peer::End(end) => {
                    let there = graph.owner(dlid) == Owner::End(end);
                    return there.then_some((quality, level));
                }
                Peer::Nothing => return None,
            }
        }
        None
    }
}

/// The LIDs that paths from a port to another begin and end at, where the question gives none, one or both: with two free ends the first of each, the second of each and so on, as many
/// as both have, for ways that have nothing in common (OpenSM's answer as well); with one, that one and each of the others.
fn pairs(
    (from, slid): (&PortInfo, Option<Lid>),
    (to, dlid): (&PortInfo, Option<Lid>),
) -> Vec<(Lid, Lid)> {
    let all = |info: &PortInfo| {
        (0..1_u16 << info.lmc).map({
            let base = info.lid.0;
            move |offset| Lid(base.saturating_add(offset))
        })
    };
    match (slid, dlid) {
        (Some(slid), Some(dlid)) => vec![(slid, dlid)],
        (Some(slid), None) => all(to).map(|dlid| (slid, dlid)).collect(),
        (None, Some(dlid)) => all(from).map(|slid| (slid, dlid)).collect(),
        (None, None) => all(from).zip(all(to)).collect(),
    }
}

/// True if a value is what a question wants of it.
fn suits(value: u32, asked: Selected, of: impl Fn(u8) -> u32, given: bool) -> bool {
    let wanted = of(asked.value);
    !given
        || match asked.selector {
            Selector::GreaterThan => value > wanted,
            Selector::LessThan => value < wanted,
            Selector::Exactly => value == wanted,
            Selector::Best => true,
        }
}

/// Lowers a value to what was asked for, where the way can do more.
fn lower(value: u32, asked: Selected, of: impl Fn(u8) -> u32, given: bool) -> u32 {
    match asked.selector {
        Selector::Exactly if given => value.min(of(asked.value)),
        _ => value,
    }
}

pub(super) fn find(subnet: &Subnet, asked: &SaMad) -> Result<Answered, Refused> {
    let mask = Mask::from_bits(asked.component_mask).ok_or(status::REQUEST_INVALID)?;
    if !KNOWN.contains(mask) {
        return Err(status::REQUEST_INVALID);
    }
    let question: PathRecord = asked.data_as().map_err(|_| status::REQUEST_INVALID)?;
    let given = |bit, value| mask.contains(bit).then_some(value);
    let world = World::new(subnet);
    let slid = mask.contains(Mask::SLID).then_some(question.slid);
    let dlid = mask.contains(Mask::DLID).then_some(question.dlid);
    let from = world.meant(given(Mask::SGID, question.sgid), slid);
    let to = world.meant(given(Mask::DGID, question.dgid), dlid);
    // NumbPath bounds the paths of each pair of ports (IBA 15.2.5.16)
    let (wanted, of_each) = match asked.method {
        Method::GET => (1, 1),
        _ if mask.contains(Mask::PATHS_WANTED) => {
            (usize::MAX, usize::from(question.paths_wanted).max(1))
        }
        _ => (usize::MAX, usize::MAX),
    };
    let mut found = Answered::of(PathRecord::LEN);
    if !given_key(mask, &question) {
        return Ok(found);
    }
    for from in &from {
        for to in &to {
            let ways = pairs((from.info, slid), (to.info, dlid))
                .into_iter()
                .filter_map(|way| path(&world, (*from, *to), way, (mask, &question)));
            for record in ways.take(of_each) {
                super::records::push(&mut found, &record, &[])?;
                if found.count() >= wanted {
                    return Ok(found);
                }
            }
        }
    }
    Ok(found)
}

/// The record of one way between two ports; None if there is none, or none as it was asked for.
fn path(
    world: &World<'_>,
    (from, to): (Port<'_>, Port<'_>),
    (slid, dlid): (Lid, Lid),
    (mask, question): (Mask, &PathRecord),
) -> Option<PathRecord> {
    let (quality, level) = world.walk(from, to, dlid)?;
    let mtu_given = mask.contains(Mask::MTU);
    let rate_given = mask.contains(Mask::RATE);
    let mtu = lower(mtu_of(quality.mtu), question.mtu, mtu_of, mtu_given);
    let rate = lower(quality.rate, question.rate, rate_of, rate_given);
    let right = suits(mtu, question.mtu, mtu_of, mtu_given)
        && suits(rate, question.rate, rate_of, rate_given)
        && (!mask.contains(Mask::SL) || question.sl.0 == level);
    let mtu_code = (1..=5)
        .find(|code| mtu_of(*code) == mtu)
        .unwrap_or(quality.mtu);
    right.then(|| PathRecord {
        dgid: to.gid,
        sgid: from.gid,
        dlid,
        slid,
        reversible: true,
        pkey: DEFAULT_PKEY,
        sl: Sl(level),
        mtu: Selected::exactly(mtu_code),
        rate: Selected::exactly(rate_code(rate)),
        packet_lifetime: Selected::exactly(match from.info.lid == to.info.lid {
            // it passes no switch
            true => 0,
            false => LIFETIME,
        }),
        ..PathRecord::default()
    })
}

/// There is one partition: the default one, for full and for limited members.
fn given_key(mask: Mask, question: &PathRecord) -> bool {
    !mask.contains(Mask::PKEY) || question.pkey.0 & 0x7fff == DEFAULT_PKEY.0 & 0x7fff
}
