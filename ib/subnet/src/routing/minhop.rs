//! MinHop: shortest paths, and of equally short ones the least used at each switch (papers/000 section II-E).
//!
//! The tables are OpenSM's. Nothing keeps packets from waiting for each other in a ring.

use super::hops::Hops;
use super::{Options, RouteError, Routing, balance};
use crate::graph::Graph;

pub(super) fn route(graph: &Graph, _: &Options) -> Result<Routing, RouteError> {
    let hops = Hops::shortest(graph);
    Ok(Routing::plain(balance::tables(graph, &hops, false)))
}
