//! Whether a subnet that has come up is as one would want it: hosts that are not joined with the manager, hosts that do not reach each other, packets that can wait for each other in a
//! circle. An engine such as minhop promises nothing of that, and who brings a ring up is to hear of it.
//!
//! Owns the thread that looks, behind all else: a large fabric takes seconds. Must not know who is told.

use ferriband_fabric::manage::Plane;
use ferriband_subnet::check::{Scope, deadlock, reach};
use ferriband_subnet::graph::Graph;
use ferriband_subnet::manager::Subnet;
use ferriband_subnet::routing::Routing;
use ferriband_topology::NodeKind;
use std::collections::HashSet;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

/// So often it is asked whether it has finished, in nanoseconds.
pub const JUDGE_NS: u64 = 5_000_000;
/// Hosts that are named.
const NAMED: usize = 4;

/// A look at a subnet.
#[derive(Debug, Default)]
pub struct Judge {
    coming: Option<Receiver<Vec<String>>>,
    /// What is known without following a route.
    first: Vec<String>,
}

impl Judge {
    /// Looks at what came up. What was looked at before matters no more.
    pub fn begin(&mut self, subnet: &Subnet, plane: &Plane) {
        self.first = unjoined(subnet, plane).into_iter().collect();
        let (give, coming) = channel();
        let (graph, routing) = (subnet.graph.clone(), subnet.routing.clone());
        let names = super::super::report::names(plane.topology());
        let named = names
            .into_iter()
            .map(|(guid, name)| (guid, name.to_owned()));
        let named: std::collections::HashMap<String, String> = named.collect();
        let looking = std::thread::Builder::new()
            .name("judge".to_owned())
            .spawn(move || {
                // SAFETY: numbers alone: this thread gives way to all others, or, where that is refused, does not.
                unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
                let names = named.iter().map(|(guid, name)| (guid.clone(), &**name));
                let names = names.collect();
                let found = found(&graph, &routing).into_iter();
                let found = found.map(|text| super::super::report::by_name(&text, &names));
                // nobody waits for it if another sweep has come to its end
                let _ = give.send(found.collect());
            });
        // without a thread nothing is said
        self.coming = looking.is_ok().then_some(coming);
    }

    /// True while it looks.
    pub fn is_looking(&self) -> bool {
        self.coming.is_some()
    }

    /// What it found, once.
    pub fn poll(&mut self) -> Option<Vec<String>> {
        let found = match self.coming.as_ref()?.try_recv() {
            Ok(found) => found,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Vec::new(),
        };
        self.coming = None;
        let mut all = std::mem::take(&mut self.first);
        all.extend(found);
        Some(all)
    }
}

/// Hosts that are switched on and that the sweep has not met.
fn unjoined(subnet: &Subnet, plane: &Plane) -> Option<String> {
    let met: HashSet<u64> = subnet
        .nodes
        .iter()
        .map(|node| node.info.node_guid.0)
        .collect();
    let topology = plane.topology();
    let left = topology
        .ids_of(NodeKind::Ca)
        .filter(|id| !plane.is_off(*id));
    let left: Vec<&str> = left
        .map(|id| topology.node(id))
        .filter(|node| !met.contains(&node.guid.0))
        .map(|node| node.name.as_str())
        .collect();
    let some = left[..left.len().min(NAMED)].join(", ");
    match left.len() {
        0 => None,
        1 => Some(format!("1 host is not joined with the manager's: {some}")),
        many if many > NAMED => Some(format!(
            "{many} hosts are not joined with the manager's: {some}, ..."
        )),
        many => Some(format!(
            "{many} hosts are not joined with the manager's: {some}"
        )),
    }
}

fn found(graph: &Graph, routing: &Routing) -> Vec<String> {
    let mut out = Vec::new();
    let reach = reach(graph, &routing.tables);
    if let Some(first) = reach.faults.first().filter(|_| reach.host_faults > 0) {
        out.push(format!(
            "{} of {} routes between hosts do not arrive, the first: {first}",
            reach.host_faults, reach.host_routes
        ));
    }
    if let Some(circle) = deadlock(graph, &[routing], Scope::Hosts) {
        out.push(format!(
            "packets of hosts can wait for each other in a circle (a deadlock), which --engine updn never allows: {circle}"
        ));
    }
    out
}
