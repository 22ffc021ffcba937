//! From distances to forwarding tables: each destination goes, at each switch, to the least used of the ports that are equally good.
//!
//! The order in which destinations are taken decides who gets which port; it is OpenSM's: end ports at the switches with the most of them
//! first, there by port; then what is left (switches above all, which count for nobody's balance) by GUID.

use super::hops::Hops;
use super::{NO_PORT, Tables};
use crate::graph::{Graph, Owner, Peer};

/// A destination.
struct Destination {
    owner: Owner,
    lid: u32,
    lids: u32,
    /// Where it is.
    at: Option<(u32, u8)>,
}

/// The destinations, in the order in which they are given ports.
fn destinations(graph: &Graph) -> Vec<Destination> {
    let end = |index: u32| {
        let end = &graph.ends()[index as usize];
        Destination {
            owner: Owner::End(index),
            lid: end.lid,
            lids: 1 << end.lmc,
            at: end.attached,
        }
    };
    let hosts = graph.hosts();
    let mut switches: Vec<u32> = (0..graph.switches().len() as u32).collect();
    switches.sort_by_key(|&switch| std::cmp::Reverse(hosts[switch as usize]));
    let mut all = Vec::new();
    for switch in switches {
        let ports = graph.switches()[switch as usize].ports.iter();
        all.extend(ports.filter_map(|peer| match *peer {
            Peer::End(index) => Some(end(index)),
            _ => None,
        }));
    }
    let switches = (0..).zip(graph.switches());
    all.extend(switches.map(|(index, switch)| Destination {
        owner: Owner::Switch(index),
        lid: switch.lid,
        lids: 1 << switch.lmc,
        at: Some((index, 0)),
    }));
    all.retain(|to| to.lid != 0);
    all
}

/// What a port's several LIDs were routed through already, so that the next takes another way: a switch, its port, how often.
type Used = Vec<(u32, u8, u32)>;

/// Fills the tables. `dor`: of the equally good ports, only those to the switch behind the first of them.
pub(super) fn tables(graph: &Graph, hops: &Hops, dor: bool) -> Tables {
    let all = destinations(graph);
    let switches = graph.switches().len() as u32;
    let most = all.iter().map(|to| to.lids).max().unwrap_or(1);
    let several = graph.lmc() > 0;
    let mut tables = Tables::new(graph);
    let mut used: Vec<Used> = Vec::new();
    let (mut choices, mut begin) = (Vec::new(), Vec::new());
    for switch in 0..switches {
        let peers = &*graph.switches()[switch as usize].ports;
        choices.clear();
        begin.clear();
        for to in 0..switches {
            begin.push(choices.len());
            hops.ports(peers, switch, to, &mut choices);
            if dor {
                only_first_peer(peers, &mut choices, begin[to as usize]);
            }
        }
        begin.push(choices.len());
        used.clear();
        used.resize(if several { all.len() } else { 0 }, Vec::new());
        let row = tables.row_mut(switch);
        let mut load = [0_u32; 256];
        for offset in 0..most {
            for (index, to) in all.iter().enumerate().filter(|(_, to)| offset < to.lids) {
                let Some((at, port)) = to.at else { continue };
                let lid = (to.lid + offset) as usize;
                let choices = &choices[begin[at as usize]..begin[at as usize + 1]];
                let port = if at == switch {
                    port
                } else if several {
                    let from = match offset {
                        0 => 1,
                        _ if dor => 1,
                        _ => u32::from(row[lid - 1]) + 1,
                    };
                    least_for_lmc(peers, choices, &load, &used[index], from, dor)
                } else {
                    least(choices, &load)
                };
                row[lid] = port;
                if port == NO_PORT || matches!(to.owner, Owner::Switch(_)) {
                    continue;
                }
                load[usize::from(port)] += 1;
                if several && port != 0 {
                    count(peers, &mut used[index], port, dor);
                }
            }
        }
    }
    tables
}

fn only_first_peer(peers: &[Peer], choices: &mut Vec<u8>, begin: usize) {
    let node = |port: u8| match peers[usize::from(port)] {
        Peer::Switch { switch, .. } => Some(switch),
        _ => None,
    };
    let first = choices.get(begin).copied().and_then(node);
    let mut kept = begin;
    for at in begin..choices.len() {
        if node(choices[at]) == first {
            choices[kept] = choices[at];
            kept += 1;
        }
    }
    choices.truncate(kept);
}

/// The first of the least used.
fn least(choices: &[u8], load: &[u32; 256]) -> u8 {
    let mut best = (u32::MAX, NO_PORT);
    for &port in choices {
        if load[usize::from(port)] < best.0 {
            best = (load[usize::from(port)], port);
        }
    }
    best.1
}

fn count(peers: &[Peer], used: &mut Used, port: u8, dor: bool) {
    let Peer::Switch {
        switch,
        port: there,
    } = peers[usize::from(port)]
    else {
        return;
    };
    let same = |entry: &&mut (u32, u8, u32)| entry.0 == switch && (!dor || entry.1 == there);
    match used.iter_mut().find(same) {
        Some(entry) => entry.2 += 1,
        None => used.push((switch, there, 1)),
    }
}

/// For a port with several LIDs: the least used way through a switch that none of its LIDs goes through yet; if there is none, the least used
/// way at all, and of those one whose switch the fewest of its LIDs go through. Ports are tried from `from` on, round.
fn least_for_lmc(
    peers: &[Peer],
    choices: &[u8],
    load: &[u32; 256],
    used: &Used,
    from: u32,
    dor: bool,
) -> u8 {
    let ports = peers.len() as u32;
    let from = from % ports;
    let split = choices.partition_point(|&port| u32::from(port) < from);
    let (mut other, mut best) = ((u32::MAX, NO_PORT), (u32::MAX, NO_PORT));
    let mut fewest = u32::MAX;
    for &port in choices[split..].iter().chain(&choices[..split]) {
        let Peer::Switch {
            switch,
            port: there,
        } = peers[usize::from(port)]
        else {
            continue;
        };
        let mut known = used.iter();
        let known = known.find(|entry| entry.0 == switch && (!dor || entry.1 == there));
        let load = load[usize::from(port)];
        if known.is_none() && !dor && load < other.0 {
            other = (load, port);
            fewest = 0;
        }
        // in an order of dimensions an unused cable counts as one that was taken never
        let times = known.map(|entry| entry.2).or(dor.then_some(0));
        if load < best.0 {
            best = (load, port);
            fewest = fewest.min(times.unwrap_or(u32::MAX));
        } else if load == best.0
            && let Some(times) = times
            && times < fewest
        {
            (best.1, fewest) = (port, times);
        }
    }
    if other.1 == NO_PORT { best.1 } else { other.1 }
}
