//! DownUp: ranked from the bottom. Switches that have hosts are at rank 0, the farther from them the higher; paths go away from the hosts first,
//! then towards them. So a fabric whose top has hosts too needs no roots named (papers/000 section II-E).
//!
//! OpenSM lets packets go between switches of one rank whenever they like, so that its tables may deadlock; here the nearer of two to the
//! middle of the fabric is the higher, then that of the lower GUID. Where such an order leaves two hosts without a path, that is an error.

use super::hops::{Hops, ranks};
use super::updn::{all_hosts_meet, by_order, given_roots};
use super::{Options, RouteError, Routing, balance};
use crate::graph::Graph;
use std::cmp::Reverse;

pub(super) fn route(graph: &Graph, options: &Options) -> Result<Routing, RouteError> {
    let hosts = graph.hosts();
    let leaves: Vec<u32> = (0..)
        .zip(&hosts)
        .filter(|(_, hosts)| **hosts > 0)
        .map(|(leaf, _)| leaf)
        .collect();
    let from_leaves = ranks(graph, &leaves);
    let rank = |switch: u32| from_leaves[switch as usize].unwrap_or(0);
    let mut tops = given_roots(graph, options)?;
    if tops.is_empty() {
        let switches = 0..graph.switches().len() as u32;
        tops.extend(switches.max_by_key(|&switch| (rank(switch), Reverse(switch))));
    }
    let from_top = ranks(graph, &tops);
    let heights = by_order(graph, |&switch| {
        let far = from_top[switch as usize].unwrap_or(u32::MAX);
        let guid = graph.switches()[switch as usize].guid.0;
        (rank(switch), Reverse((far, guid, switch)))
    });
    let hops = Hops::directed(graph, heights);
    all_hosts_meet(graph, &hops, "dnup")?;
    Ok(Routing::plain(balance::tables(graph, &hops, false)))
}
