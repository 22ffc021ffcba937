//! Our tables against those that OpenSM made of the same fabrics (tests/oracle/README.md).

#![allow(clippy::unwrap_used)]

use ferriband_subnet::check::{self, Scope, check};
use ferriband_subnet::graph::{Graph, Owner};
use ferriband_subnet::routing::{Engine, NO_PORT, Options, RouteError, Routing};
use ferriband_topology::{Topology, netlist};
use std::collections::BTreeMap;

macro_rules! recorded {
    ($name:literal) => {
        Recorded::read(
            include_str!(concat!("oracle/", $name, ".net")),
            include_str!(concat!("oracle/", $name, ".txt")),
        )
    };
}

/// An engine's result.
#[derive(Default)]
struct Result {
    /// By switch GUID, for LID 1 and on.
    tables: BTreeMap<u64, Vec<u8>>,
}

struct Recorded {
    topology: Topology,
    lids: Vec<u64>,
    results: BTreeMap<String, Result>,
}

impl Recorded {
    fn read(net: &str, text: &str) -> Self {
        let topology = netlist::parse(net).unwrap();
        let (mut lids, mut results, mut engine) = (Vec::new(), BTreeMap::new(), String::new());
        for line in text.lines() {
            let (kind, rest) = line.split_once(' ').unwrap();
            let mut words = rest.split(' ');
            let guid = |word: &str| u64::from_str_radix(word, 16).unwrap();
            match kind {
                "lids" => lids = words.map(guid).collect(),
                "engine" => engine = rest.to_owned(),
                "table" => {
                    let switch = guid(words.next().unwrap());
                    let ports = words.map(|word| word.parse().unwrap_or(NO_PORT));
                    let result: &mut Result = results.entry(engine.clone()).or_default();
                    result.tables.insert(switch, ports.collect());
                }
                _ => assert_eq!(kind, "levels"),
            }
        }
        Self {
            topology,
            lids,
            results,
        }
    }

    fn graph(&self) -> Graph {
        Graph::from_topology(&self.topology, 0).unwrap()
    }

    /// Ours and the recorded are the same, port for port.
    #[track_caller]
    fn same(&self, engine: &str) -> (Graph, Routing) {
        let graph = self.graph();
        let ours = (Engine::find(engine).unwrap().route)(&graph, &Options::default()).unwrap();
        for (index, switch) in (0..).zip(graph.switches()) {
            let theirs = &self.results[engine].tables[&switch.guid.0];
            assert_eq!(
                &ours.tables.row(index)[1..],
                &theirs[..],
                "{engine}: {}",
                switch.guid
            );
        }
        (graph, ours)
    }
}

fn all() -> [(&'static str, Recorded); 5] {
    [
        ("ring5", recorded!("ring5")),
        ("ft2_4x8", recorded!("ft2_4x8")),
        ("torus_4x4", recorded!("torus_4x4")),
        ("mesh_4x4", recorded!("mesh_4x4")),
        ("irr9a", recorded!("irr9a")),
    ]
}

fn route(engine: &str, graph: &Graph) -> Routing {
    (Engine::find(engine).unwrap().route)(graph, &Options::default()).unwrap()
}

#[test]
fn lids_are_given_as_opensm_gives_them() {
    for (name, recorded) in all() {
        let graph = recorded.graph();
        let ours = (1..=graph.top()).map(|lid| match graph.owner(lid) {
            Owner::Switch(index) => graph.switches()[index as usize].guid.0,
            Owner::End(index) => graph.ends()[index as usize].guid.0,
            Owner::Nobody => 0,
        });
        assert_eq!(ours.collect::<Vec<_>>(), recorded.lids, "{name}");
    }
}

#[test]
fn minhop_and_dor_make_opensms_tables() {
    for (name, recorded) in all() {
        for engine in ["minhop", "dor"] {
            let (graph, ours) = recorded.same(engine);
            let found = check::reach(&graph, &ours.tables);
            assert_eq!((found.host_faults, found.switch_faults), (0, 0), "{name}");
        }
    }
}

#[test]
fn updn_makes_opensms_tables_of_a_fat_tree() {
    let (graph, ours) = recorded!("ft2_4x8").same("updn");
    let found = check(&graph, &ours);
    assert!(found.is_good() && found.all.is_none());
    // roots do not reach each other: 4 times the other 3
    assert_eq!(found.reach.switch_faults, 12);
}

#[test]
fn updn_and_dnup_route_what_opensm_gives_up_on() {
    for (name, recorded) in all() {
        for engine in ["updn", "dnup"] {
            let graph = recorded.graph();
            let found = check(&graph, &route(engine, &graph));
            assert!(found.is_good(), "{engine} {name}: {found:?}");
            assert_eq!(found.all, None, "{engine} {name}");
            if name != "ft2_4x8" {
                assert_eq!(found.reach.switch_faults, 0, "{engine} {name}");
            }
        }
    }
}

#[test]
fn what_may_deadlock_is_told_link_by_link() {
    let deadlock = |recorded: &Recorded, engine| {
        let graph = recorded.graph();
        check::deadlock(&graph, &[&route(engine, &graph)], Scope::Hosts)
    };
    let ring = deadlock(&recorded!("ring5"), "minhop").unwrap();
    assert_eq!(ring.0.len(), 5, "{ring}");
    let told = ring.to_string();
    assert!(told.ends_with("waits for the first") && told.matches(" port ").count() == 5);
    assert_eq!(deadlock(&recorded!("torus_4x4"), "dor").unwrap().0.len(), 4);
    assert_eq!(deadlock(&recorded!("mesh_4x4"), "dor"), None);
    assert_eq!(deadlock(&recorded!("ft2_4x8"), "minhop"), None);
}

#[test]
fn lash_makes_opensms_tables_and_needs_no_more_lanes() {
    for ((name, recorded), lanes) in all().into_iter().zip([2, 1, 2, 1, 1]) {
        let (graph, ours) = recorded.same("lash");
        let found = check(&graph, &ours);
        assert!(found.is_good() && found.all.is_none(), "{name}: {found:?}");
        assert!(
            ours.lanes_needed <= lanes,
            "{name} needs {}",
            ours.lanes_needed
        );
    }
}

#[test]
fn dfsssp_makes_opensms_tables_and_needs_no_more_lanes() {
    for ((name, recorded), lanes) in all().into_iter().zip([2, 1, 4, 3, 1]) {
        let (graph, ours) = recorded.same("dfsssp");
        let found = check(&graph, &ours);
        assert!(found.is_good(), "{name}: {found:?}");
        assert!(
            ours.lanes_needed <= lanes,
            "{name} needs {}",
            ours.lanes_needed
        );
    }
}

#[test]
fn ftree_makes_opensms_tables_and_refuses_what_is_no_tree() {
    for (name, recorded) in all() {
        if name != "ft2_4x8" {
            let ftree = Engine::find("ftree").unwrap();
            let refused = (ftree.route)(&recorded.graph(), &Options::default()).unwrap_err();
            assert!(
                matches!(refused, RouteError::WrongShape { .. }),
                "{name}: {refused}"
            );
            continue;
        }
        let (graph, ours) = recorded.same("ftree");
        let found = check(&graph, &ours);
        assert!(found.is_good() && found.all.is_none());
    }
}
