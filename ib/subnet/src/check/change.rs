//! Which packets must be stopped while switches go from one routing to another, so that none wait for each other in a circle.
//!
//! While a change goes on, some switches have the old tables and some the new ones, and a packet may meet both. Routings that are free of circles each may have one together: up and
//! down swap their meaning when another root is chosen. Packets of a LID that would help to close one are dropped until those under way are gone, which a connection repairs; a circle
//! of full buffers stands until switches throw packets away by their age.

use super::loops::{Channels, Flood, Scope, View, Wait, Waits, lanes};
use crate::graph::Graph;
use crate::routing::{Lanes, NO_PORT, Routing, Tables};

/// What a subnet's switches have been programmed with before a change.
#[derive(Clone, Debug)]
pub struct Before {
    /// What was there when the routing was made.
    pub graph: Graph,
    /// Levels and lanes.
    pub routing: Routing,
}

/// How a change is to be made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Change {
    /// Packets to these LIDs are stopped first: switches have no port for them, all that is under way arrives or is dropped, and then the new tables are told.
    pub stopped: Vec<u32>,
    /// SL2VL tables change too: if anything is stopped, they are told after that and before forwarding tables, and what is stopped is stopped everywhere, not only at switches that are
    /// to send it elsewhere.
    pub lanes: bool,
}

/// Where lanes go by inputs and outputs and change, so many channels times LIDs are not looked at, which takes two seconds: all is stopped. A torus of 1,000 switches is beyond it.
const LARGE: usize = 100_000_000;

/// What must be stopped for a change to `after`, the new routing of a graph, from `tables`, which its switches have now (by the graph's numbers, for as many LIDs as they like), with
/// the levels and lanes of `before`. Nothing, if the new routing may deadlock by itself: no order of telling helps there.
pub fn change(graph: &Graph, before: &Before, tables: &Tables, after: &Routing) -> Change {
    let places = places(graph, &before.graph);
    let old = View {
        tables,
        routing: &before.routing,
        graph: &before.graph,
        places: Some(&places),
    };
    let views = [View::of(graph, after), old];
    let lanes_change = !same_lanes(graph, &views);
    let tops = tables.width().max(after.tables.width()) as u32;
    let differs = |lid: u32| {
        (0..graph.switches().len() as u32).any(|switch| {
            let old = tables.port(switch, lid);
            old != NO_PORT && old != after.tables.port(switch, lid)
        })
    };
    let changed: Vec<u32> = (1..tops)
        .filter(|lid| lanes_change || differs(*lid))
        .collect();
    let mut out = Change {
        stopped: Vec::new(),
        lanes: lanes_change,
    };
    if changed.is_empty() {
        return out;
    }
    let channels = Channels::new(graph, lanes(&views));
    let tables = views
        .iter()
        .any(|view| matches!(view.routing.lanes, Lanes::Table(_)));
    if lanes_change && tables && channels.count() * changed.len() > LARGE {
        out.stopped = changed;
        return out;
    }
    let mut flood = Flood::new(&channels, &views, Scope::Hosts);
    let mut new = Waits::new(&channels);
    for lid in 1..tops {
        flood.lid(lid, &views[..1], &mut |wait| new.set(wait));
    }
    let mut both = new.clone();
    for lid in &changed {
        flood.lid(*lid, &views, &mut |wait| both.set(wait));
    }
    let Some(within) = both.circles().filter(|_| new.circles().is_none()) else {
        return out;
    };
    // each circle has a wait that the new routing has not: nobody stays who brings one
    let closes = |wait: Wait| {
        let to = wait.channel(&channels);
        within[wait.by as usize] && to.is_some_and(|to| within[to as usize]) && !new.has(wait)
    };
    out.stopped = changed;
    out.stopped.retain(|lid| {
        let mut stops = false;
        flood.lid(*lid, &views, &mut |wait| stops |= closes(wait));
        stops
    });
    out
}

/// For each switch of a graph, its place in another; None if it was not there, or was another switch.
fn places(graph: &Graph, before: &Graph) -> Vec<Option<u32>> {
    let there: std::collections::HashMap<u64, (u32, usize)> = (0..)
        .zip(before.switches())
        .map(|(place, switch)| (switch.guid.0, (place, switch.ports.len())))
        .collect();
    let find = |switch: &crate::graph::Switch| {
        let (place, ports) = there.get(&switch.guid.0)?;
        (*ports == switch.ports.len()).then_some(*place)
    };
    graph.switches().iter().map(find).collect()
}

fn same_lanes(graph: &Graph, views: &[View<'_>; 2]) -> bool {
    let [new, old] = views;
    if let (Lanes::Modulo(one), Lanes::Modulo(other)) = (&new.routing.lanes, &old.routing.lanes) {
        return one == other;
    }
    (0_u32..).zip(graph.switches()).all(|(switch, about)| {
        let ports = about.ports.len() as u8;
        let mut pairs = (0..ports).flat_map(|input| (1..ports).map(move |output| (input, output)));
        // a switch that is new has no packets yet
        let fresh = old
            .places
            .is_some_and(|places| places[switch as usize].is_none());
        fresh
            || pairs.all(|(input, output)| {
                (0..16).all(|level| {
                    new.lane(switch, input, output, level) == old.lane(switch, input, output, level)
                })
            })
    })
}
