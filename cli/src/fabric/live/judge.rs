//! Whether a subnet that has come up is as one would want it: hosts that are not joined with the manager, hosts that do not reach each other, packets that can wait for each other in a
//! circle. An engine such as minhop promises nothing of that, and who brings a ring up is to hear of it.
//!
//! Owns the thread that looks, behind all else: a large fabric takes seconds. Must not know who is told.

use super::super::report;
use ferriband_fabric::manage::Plane;
use ferriband_subnet::check::{Scope, deadlock, reach};
use ferriband_subnet::graph::Graph;
use ferriband_subnet::manager::Subnet;
use ferriband_subnet::routing::{Routing, multicast};
use ferriband_topology::NodeKind;
use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

/// So often it is asked whether it has finished, in nanoseconds.
pub const JUDGE_NS: u64 = 5_000_000;
/// Hosts that are named.
const NAMED: usize = 4;

/// What is to be looked at.
#[derive(Debug)]
struct Case {
    graph: Graph,
    routing: Routing,
    /// Nodes' names by their GUIDs.
    names: HashMap<String, String>,
    /// What is known without following a route.
    known: Vec<String>,
}

/// Looks at subnets, one at a time: of those that come up meanwhile the last.
#[derive(Debug, Default)]
pub struct Judge {
    coming: Option<Receiver<Vec<String>>>,
    next: Option<Case>,
}

impl Judge {
    /// Looks at what came up. What came up before matters no more.
    pub fn begin(&mut self, subnet: &Subnet, plane: &Plane) {
        let names = report::names(plane.topology()).into_iter();
        self.next = Some(Case {
            graph: subnet.graph.clone(),
            routing: subnet.routing.clone(),
            names: names.map(|(guid, name)| (guid, name.to_owned())).collect(),
            known: unjoined(subnet, plane).into_iter().collect(),
        });
        if self.coming.is_none() {
            self.look();
        }
    }

    fn look(&mut self) {
        let Some(case) = self.next.take() else { return };
        let (give, coming) = channel();
        let looking = std::thread::Builder::new()
            .name("judge".to_owned())
            .spawn(move || {
                // SAFETY: numbers alone: this thread gives way to all others, or, where that is refused, does not.
                unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
                let names = case.names.iter();
                let names = names.map(|(guid, name)| (guid.clone(), name.as_str()));
                let names = names.collect();
                let found = found(&case.graph, &case.routing).into_iter();
                let found = found.map(|text| report::by_name(&text, &names));
                // nobody is there any more when the fabric ends
                let _ = give.send(case.known.into_iter().chain(found).collect());
            });
        // without a thread nothing is found
        self.coming = Some(coming).filter(|_| looking.is_ok());
    }

    /// Stops caring: another manages the fabric.
    pub fn forget(&mut self) {
        (self.coming, self.next) = (None, None);
    }

    /// True while it looks.
    pub fn is_looking(&self) -> bool {
        self.coming.is_some()
    }

    /// What it found of what came up last, once.
    pub fn poll(&mut self) -> Option<Vec<String>> {
        let found = match self.coming.as_ref()?.try_recv() {
            Ok(found) => found,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Vec::new(),
        };
        self.coming = None;
        if self.next.is_none() {
            return Some(found);
        }
        self.look();
        None
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
    let Some(circle) = multicast::circle(graph, routing) else {
        return out;
    };
    out.push(match deadlock(graph, &[routing], Scope::Hosts) {
        Some(circle) => format!(
            "packets of hosts can wait for each other in a circle (a deadlock), which --engine updn never allows: {circle}"
        ),
        None => format!(
            "packets of hosts and of multicast groups can wait for each other in a circle (a deadlock), which --engine updn never allows: {circle}"
        ),
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferriband_fabric::manage::Place;
    use ferriband_subnet::manager::{Config, Event, Instant, Manager};
    use ferriband_subnet::routing::Engine;
    use ferriband_topology::generate;
    use ferriband_wire::Lid;

    fn up(shape: &str, engine: &str) -> (Plane, Box<Subnet>) {
        let mut plane = Plane::new(generate::generate(shape).expect("a shape"));
        let node = plane
            .topology()
            .ids_of(NodeKind::Ca)
            .next()
            .expect("a host");
        let engine = Engine::find(engine).expect("an engine");
        let mut manager = Manager::new(Config::new(1, *engine), 7);
        manager.sweep();
        loop {
            let mut came = Vec::new();
            while let Some(smp) = manager.poll_transmit(Instant(0)) {
                let time = ferriband_fabric::Time::ZERO;
                plane.send(time, Place { node, port: 1 }, smp, Lid(0), &mut came);
            }
            for delivery in &came {
                manager.handle_smp(&delivery.smp);
            }
            if let Some(Event::Up(subnet)) = manager.poll_event() {
                return (plane, subnet);
            }
        }
    }

    fn verdict(judge: &mut Judge) -> Vec<String> {
        loop {
            if let Some(found) = judge.poll() {
                return found;
            }
            assert!(judge.is_looking());
            std::thread::yield_now();
        }
    }

    #[test]
    fn of_many_subnets_the_last_one_is_judged_and_one_thread_looks() {
        let (ring, circle) = up("ring:5:1", "minhop");
        let (tree, none) = up("fat-tree:2x2x1", "updn");
        let mut judge = Judge::default();
        for _ in 0..100 {
            judge.begin(&circle, &ring);
            judge.begin(&none, &tree);
        }
        assert_eq!(verdict(&mut judge), Vec::<String>::new());
        assert!(!judge.is_looking());
        // the fabric has no lane left for groups
        let (torus, mut shared) = up("torus:4x4:1", "lash");
        assert!(shared.routing.groups > 0);
        judge.begin(&shared, &torus);
        assert_eq!(verdict(&mut judge), Vec::<String>::new());
        shared.routing.groups = 0;
        judge.begin(&shared, &torus);
        let found = verdict(&mut judge);
        assert!(found.len() == 1 && found[0].contains("groups"), "{found:?}");
        judge.begin(&none, &tree);
        judge.begin(&circle, &ring);
        let found = verdict(&mut judge);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].contains("G0 port 1"),
            "names, not GUIDs: {found:?}"
        );
    }
}
