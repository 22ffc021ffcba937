//! Our tables against those that OpenSM made of the same fabrics (tests/oracle/README.md).

#![allow(clippy::unwrap_used)]

use ferriband_subnet::check::{self, Scope, check};
use ferriband_subnet::graph::{Graph, Owner};
use ferriband_subnet::routing::{Engine, NO_PORT, Options, RouteError, Routing};
use ferriband_topology::generate::generate;
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
    /// By source and destination LID.
    levels: BTreeMap<(u32, u32), u8>,
    /// Of one switch, by input and output, for service level 0 and on.
    lanes: Vec<(u64, u8, u8, Vec<u8>)>,
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
            // nobody's: 0
            let guid = |word: &str| match word {
                "-" => 0,
                _ => u64::from_str_radix(word, 16).unwrap(),
            };
            match kind {
                "lids" => lids = words.map(guid).collect(),
                "engine" => engine = rest.to_owned(),
                "table" => {
                    let switch = guid(words.next().unwrap());
                    let ports = words.map(|word| word.parse().unwrap_or(NO_PORT));
                    let result: &mut Result = results.entry(engine.clone()).or_default();
                    result.tables.insert(switch, ports.collect());
                }
                "levels" => {
                    let from: u32 = words.next().unwrap().parse().unwrap();
                    let result: &mut Result = results.entry(engine.clone()).or_default();
                    for (to, level) in words.map(|word| word.split_once(':').unwrap()) {
                        let to: u32 = to.parse().unwrap();
                        result.levels.insert((from, to), level.parse().unwrap());
                    }
                }
                _ => {
                    assert_eq!(kind, "lanes");
                    let switch = guid(words.next().unwrap());
                    let mut numbers = words.map(|word| word.parse().unwrap());
                    let (input, output) = (numbers.next().unwrap(), numbers.next().unwrap());
                    let result: &mut Result = results.entry(engine.clone()).or_default();
                    result
                        .lanes
                        .push((switch, input, output, numbers.collect()));
                }
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
        self.same_with(engine, 0)
    }

    #[track_caller]
    fn same_with(&self, engine: &str, lmc: u8) -> (Graph, Routing) {
        let graph = Graph::from_topology(&self.topology, lmc).unwrap();
        assert_eq!(owners(&graph), self.lids);
        let ours = route(engine, &graph);
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

/// Port GUIDs of who has LID 1, 2, ...
fn owners(graph: &Graph) -> Vec<u64> {
    let owner = |lid| match graph.owner(lid) {
        Owner::Switch(index) => graph.switches()[index as usize].guid.0,
        Owner::End(index) => graph.ends()[index as usize].guid.0,
        Owner::Nobody => 0,
    };
    (1..=graph.top()).map(owner).collect()
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
        assert_eq!(owners(&graph), recorded.lids, "{name}");
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

#[test]
fn torus_2qos_makes_opensms_tables_levels_and_lanes() {
    let recorded = recorded!("torus_4x4");
    let (graph, ours) = recorded.same("torus-2QoS");
    let found = check(&graph, &ours);
    assert!(found.is_good() && found.all.is_none(), "{found:?}");
    assert_eq!(found.reach.switch_faults, 0);
    assert_eq!(ours.lanes_needed, 2);
    let theirs = &recorded.results["torus-2QoS"];
    assert!(!theirs.levels.is_empty() && !theirs.lanes.is_empty());
    for (&(from, to), &level) in &theirs.levels {
        let at = graph.switch_of(from).unwrap();
        assert_eq!(ours.level(&graph, at, to), level, "{from} to {to}");
    }
    for (guid, input, output, lanes) in &theirs.lanes {
        let switches = graph.switches().iter();
        let at = switches
            .map(|switch| switch.guid.0)
            .position(|other| other == *guid);
        let level = |level| ours.lanes.at(at.unwrap() as u32, *input, *output, level);
        let ours: Vec<u8> = (0..16).map(level).collect();
        assert_eq!(ours, *lanes, "from port {input} to port {output}");
    }
}

/// A netlist without some nodes and what leads to them.
fn without(net: &str, nodes: &[&str]) -> String {
    let names: Vec<String> = nodes.iter().map(|name| format!("\"{name}\"")).collect();
    let blocks = net.split("\n\n").filter(|block| {
        let heads = block.lines().filter(|line| !line.starts_with('['));
        !heads
            .into_iter()
            .any(|line| names.iter().any(|name| line.contains(name)))
    });
    let lines = blocks.flat_map(|block| block.lines().chain([""]));
    let lines = lines.filter(|line| !names.iter().any(|name| line.contains(name)));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn torus_2qos_goes_round_what_is_broken() {
    let net = netlist::write(&generate("torus:5x4x3:1").unwrap());
    // the cable between two switches, and a whole switch with its host
    let cable = ["[1]\t\"T2_1_1\"[2]", "[2]\t\"T1_1_1\"[1]"];
    let cable: Vec<&str> = net
        .lines()
        .filter(|line| !cable.iter().any(|end| line.starts_with(end)))
        .collect();
    assert_eq!(cable.len() + 2, net.lines().count());
    for (what, net, lanes) in [
        ("a cable", cable.join("\n"), 2),
        ("a switch", without(&net, &["T2_2_1", "H2_2_1_0"]), 4),
    ] {
        let topology = netlist::parse(&net).unwrap();
        let graph = Graph::from_topology(&topology, 0).unwrap();
        let ours = route("torus-2qos", &graph);
        let found = check(&graph, &ours);
        assert!(found.is_good() && found.all.is_none(), "{what}: {found:?}");
        assert_eq!(
            (found.reach.switch_faults, ours.lanes_needed),
            (0, lanes),
            "{what}"
        );
    }
}

#[test]
fn ports_with_several_lids_are_routed_as_opensm_routes_them() {
    let tree = Recorded::read(
        include_str!("oracle/ft2_4x8.net"),
        include_str!("oracle/ft2_4x8_lmc1.txt"),
    );
    let (graph, _) = tree.same_with("minhop", 1);
    assert_eq!((graph.top(), graph.ends()[0].lmc), (79, 1));
    let irregular = Recorded::read(
        include_str!("oracle/irr9a.net"),
        include_str!("oracle/irr9a_lmc2.txt"),
    );
    for engine in ["minhop", "dor", "lash", "dfsssp"] {
        let (graph, ours) = irregular.same_with(engine, 2);
        let found = check::reach(&graph, &ours.tables);
        assert_eq!((found.host_faults, found.switch_faults), (0, 0));
    }
}

/// All tables in one number (FNV-1a over output ports, by switch and LID).
fn digest(graph: &Graph, routing: &Routing) -> u64 {
    let switches = 0..graph.switches().len() as u32;
    let ports = switches.flat_map(|switch| &routing.tables.row(switch)[1..]);
    ports.fold(0xcbf2_9ce4_8422_2325, |digest, &port| {
        (digest ^ u64::from(port)).wrapping_mul(0x100_0000_01b3)
    })
}

#[test]
fn larger_fabrics_have_opensms_tables_too() {
    // digests of what OpenSM 3.3.23 made of the same fabrics over ibsim 0.10
    for (engine, shape, theirs) in [
        ("minhop", "fat-tree:36x18x18", 0xca6b_086d_442c_e203),
        ("ftree", "fat-tree:36x18x18", 0x3b4b_432b_42c9_b90f),
        ("dor", "fat-tree:36x18x18", 0x8ac0_636b_b27d_40a1),
        ("minhop", "torus:8x8:4", 0xa179_7308_90d5_e769),
        ("dor", "torus:8x8:4", 0x2ee7_ad35_08a8_634b),
        ("lash", "torus:8x8:4", 0x2ee7_ad35_08a8_634b),
    ] {
        let graph = Graph::from_topology(&generate(shape).unwrap(), 0).unwrap();
        let ours = route(engine, &graph);
        assert_eq!(digest(&graph, &ours), theirs, "{engine} {shape}");
        if engine == "lash" {
            // OpenSM's takes 6
            assert!(ours.lanes_needed <= 6, "{}", ours.lanes_needed);
            assert!(check(&graph, &ours).is_good());
        }
    }
}

#[test]
fn a_large_tree_has_its_spines_for_roots() {
    let graph = Graph::from_topology(&generate("fat-tree:36x18x18").unwrap(), 0).unwrap();
    let found = check(&graph, &route("updn", &graph));
    assert!(found.is_good() && found.all.is_none());
    assert_eq!(found.reach.by_hops.len(), 4, "hosts are 1 or 3 links apart");
    assert_eq!(found.reach.switch_faults, 18 * 17);
}
