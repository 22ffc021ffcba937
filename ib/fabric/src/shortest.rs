//! Forwarding tables by shortest paths, the destinations spread over equal ones: for trying a fabric out. Nothing keeps them from
//! deadlock, and a subnet manager's are better.

use crate::net::{Plan, PlanNode};
use crate::switch::NO_PORT;
use std::collections::VecDeque;

/// For each node the linear table by LID; those of adapters are empty.
pub fn tables(plan: &Plan) -> Vec<Vec<u8>> {
    let count = plan.nodes.len();
    let mut links: Vec<Vec<(u8, u32)>> = vec![Vec::new(); count];
    for link in &plan.links {
        let [(a, port_a), (b, port_b)] = link.ends;
        links[a as usize].push((port_a, b));
        links[b as usize].push((port_b, a));
    }
    links.iter_mut().for_each(|ports| ports.sort_unstable());
    let is_switch = |node: u32| matches!(plan.nodes[node as usize], PlanNode::Switch(_));
    let lids = plan.nodes.iter().map(|node| match node {
        PlanNode::Adapter(lid) => *lid,
        PlanNode::Switch(_) => 0,
    });
    let most = lids.max().unwrap_or(0) as usize;
    let mut tables: Vec<Vec<u8>> = (0..count as u32)
        .map(|node| match is_switch(node) {
            true => vec![NO_PORT; most + 1],
            false => Vec::new(),
        })
        .collect();
    // Adapters by the switch that they are at.
    let mut leaves: Vec<Vec<(u32, u8)>> = vec![Vec::new(); count];
    for node in (0..count as u32).filter(|node| is_switch(*node)) {
        for &(port, peer) in &links[node as usize] {
            if let PlanNode::Adapter(lid) = plan.nodes[peer as usize] {
                leaves[node as usize].push((lid, port));
            }
        }
    }
    let mut ways = Vec::new();
    let with_hosts = (0..count as u32).filter(|leaf| !leaves[*leaf as usize].is_empty());
    for (nth, leaf) in with_hosts.enumerate() {
        let mut far = vec![u32::MAX; count];
        far[leaf as usize] = 0;
        let mut next = VecDeque::from([leaf]);
        while let Some(at) = next.pop_front() {
            for &(_, peer) in &links[at as usize] {
                if is_switch(peer) && far[peer as usize] == u32::MAX {
                    far[peer as usize] = far[at as usize] + 1;
                    next.push_back(peer);
                }
            }
        }
        for node in (0..count as u32).filter(|node| is_switch(*node)) {
            let own = far[node as usize];
            if own == u32::MAX {
                continue;
            }
            ways.clear();
            let nearer = |peer: u32| is_switch(peer) && far[peer as usize].wrapping_add(1) == own;
            ways.extend(
                links[node as usize]
                    .iter()
                    .filter(|(_, peer)| nearer(*peer))
                    .map(|(port, _)| *port),
            );
            for (index, &(lid, port)) in leaves[leaf as usize].iter().enumerate() {
                tables[node as usize][lid as usize] = match own {
                    0 => port,
                    // what a level has spread by the host, the next one spreads by the leaf, or each of its switches would use one way
                    _ => ways[(index + nth * (own as usize - 1)) % ways.len()],
                };
            }
        }
    }
    tables
}
