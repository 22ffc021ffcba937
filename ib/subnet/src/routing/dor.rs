//! Dimension order: as MinHop, but of the equally short ways always that through the lowest port, and others only if they lead to the same
//! switch. Where lower ports are lower dimensions on all switches, packets finish one dimension before the next.
//!
//! The tables are OpenSM's: in a torus they have loops, since nothing is done about going round.

use super::hops::Hops;
use super::{Options, RouteError, Routing, balance};
use crate::graph::Graph;

pub(super) fn route(graph: &Graph, _: &Options) -> Result<Routing, RouteError> {
    let hops = Hops::shortest(graph);
    Ok(Routing::plain(balance::tables(graph, &hops, true)))
}
