//! What holds on any fabric, however it is cabled.

#![allow(clippy::unwrap_used)]

use ferriband_subnet::Graph;
use ferriband_subnet::check::{Before, Report, Scope, change, check, deadlock};
use ferriband_subnet::routing::{ENGINES, Engine, Options, RouteError};
use ferriband_topology::{Builder, Link, NewNode, NodeKind, PortId, Topology};
use proptest::prelude::*;

/// Switches that hang together somehow: each but the first is joined with an earlier one, and some pairs besides, some of them twice.
fn fabric() -> impl Strategy<Value = Topology> {
    (2..14_usize).prop_flat_map(|switches| {
        let hosts = prop::collection::vec(0..3_u32, switches);
        let earlier = prop::collection::vec(any::<prop::sample::Index>(), switches);
        let more = prop::collection::vec((0..switches, 0..switches), 0..2 * switches);
        (hosts, earlier, more).prop_map(|(hosts, earlier, more)| build(&hosts, &earlier, &more))
    })
}

fn build(hosts: &[u32], earlier: &[prop::sample::Index], more: &[(usize, usize)]) -> Topology {
    let mut new = Builder::new();
    let node = |new: &mut Builder, kind, name: String, ports| {
        let about = NewNode {
            name: &name,
            ports,
            ..NewNode::default()
        };
        new.node(kind, about).unwrap()
    };
    let names = (0..hosts.len()).map(|switch| format!("S{switch}"));
    let switches: Vec<_> = names
        .map(|name| node(&mut new, NodeKind::Switch, name, 100))
        .collect();
    let mut next = vec![1_u32; hosts.len()];
    let mut port = |switch: usize| {
        next[switch] += 1;
        next[switch] - 1
    };
    let tree = (1..hosts.len()).map(|switch| (switch, earlier[switch].index(switch)));
    let more = more.iter().copied().filter(|(a, b)| a != b);
    for (a, b) in tree.chain(more) {
        let ends = [a, b].map(|end| new.port(switches[end], port(end)).unwrap());
        new.cable(ends[0], ends[1], Link::default());
    }
    for (switch, &count) in hosts.iter().enumerate() {
        for index in 0..count {
            let host = node(&mut new, NodeKind::Ca, format!("H{switch}_{index}"), 1);
            let ends = (new.port(host, 1), new.port(switches[switch], port(switch)));
            new.cable(ends.0.unwrap(), ends.1.unwrap(), Link::default());
        }
    }
    new.finish().unwrap()
}

fn judged(engine: &str, graph: &Graph) -> Result<Report, RouteError> {
    let options = Options {
        lanes: 15,
        ..Options::default()
    };
    let routing = (Engine::find(engine).unwrap().route)(graph, &options)?;
    Ok(check(graph, &routing))
}

#[test]
fn where_there_is_no_switch_there_is_nothing_to_route() {
    let mut new = Builder::new();
    let hosts = ["a", "b"].map(|name| {
        let about = NewNode {
            name,
            ports: 1,
            ..NewNode::default()
        };
        let host = new.node(NodeKind::Ca, about).unwrap();
        new.port(host, 1).unwrap()
    });
    new.cable(hosts[0], hosts[1], Link::default());
    let joined = Graph::from_topology(&new.finish().unwrap(), 0).unwrap();
    let nobody = Graph::from_topology(&Builder::new().finish().unwrap(), 0).unwrap();
    for graph in [&joined, &nobody] {
        for engine in ENGINES {
            match (engine.route)(graph, &Options::default()) {
                Ok(routing) => assert!(check(graph, &routing).is_good(), "{}", engine.name),
                Err(error) => assert!(
                    matches!(error, RouteError::WrongShape { .. }),
                    "{}: {error}",
                    engine.name
                ),
            }
        }
    }
}

#[test]
fn adapters_with_a_port_in_each_of_two_subnets_do_not_join_them() {
    let text = r#"
        switches = [{ name = "a", ports = 8 }, { name = "b", ports = 8 }, { name = "far", ports = 8 }]
        links = [{ ends = ["b", "far"] }]
        [[hosts]]
        name = "h0"
        ports = 2
        at = ["a", "b"]
        [[hosts]]
        name = "h1"
        ports = 2
        at = ["b", "a"]
        [[hosts]]
        name = "alone"
        at = "far"
        [[hosts]]
        name = "twice"
        ports = 2
        at = ["a", "a"]
    "#;
    let topology = ferriband_topology::toml::parse(text).unwrap();
    let numbers = |graph: &Graph| {
        let ends = graph.ends().iter();
        let mut ends: Vec<(u64, u8)> = ends.map(|end| (end.node.0, end.number)).collect();
        ends.sort_unstable();
        let host = |(guid, port)| {
            let mut nodes = topology.nodes().iter();
            (&*nodes.find(|node| node.guid.0 == guid).unwrap().name, port)
        };
        ends.into_iter().map(host).collect::<Vec<_>>()
    };
    let one = Graph::from_topology(&topology, 0).unwrap();
    assert_eq!(one.switches().len(), 1);
    assert_eq!(
        numbers(&one),
        [("h0", 1), ("h1", 2), ("twice", 1), ("twice", 2)]
    );
    let manager = PortId {
        node: topology.find("h0").unwrap(),
        port: 2,
    };
    let other = Graph::from_topology_at(&topology, Some(manager), 0, 0xbfff).unwrap();
    assert_eq!(other.switches().len(), 2);
    assert_eq!(numbers(&other), [("h0", 2), ("h1", 1), ("alone", 1)]);
    for engine in ["minhop", "updn", "dnup", "dor", "lash", "dfsssp"] {
        for graph in [&one, &other] {
            let found = judged(engine, graph).unwrap();
            assert!(found.is_good(), "{engine}: {found:?}");
        }
    }
}

#[test]
fn a_switch_with_as_many_ports_as_there_are_is_routed() {
    let topology = ferriband_topology::generate::generate("fat-tree:254x1x1").unwrap();
    let graph = Graph::from_topology(&topology, 0).unwrap();
    for engine in ["minhop", "updn", "dnup", "dor", "ftree", "lash", "dfsssp"] {
        let found = judged(engine, &graph).unwrap();
        assert!(found.is_good(), "{engine}: {found:?}");
        assert_eq!(found.reach.host_routes, 254 * 254, "{engine}");
    }
}

#[test]
fn lash_needs_few_lanes_in_trees_whose_upper_switches_have_no_hosts() {
    // OpenSM needs two for the first; hosts alone would need one
    for (shape, lanes) in [("fat-tree:4", 2), ("fat-tree:8", 3), ("fat-tree:8x4x4", 1)] {
        let topology = ferriband_topology::generate::generate(shape).unwrap();
        let graph = Graph::from_topology(&topology, 0).unwrap();
        let routing = (Engine::find("lash").unwrap().route)(&graph, &Options::default()).unwrap();
        assert!(
            routing.lanes_needed <= lanes,
            "{shape}: {}",
            routing.lanes_needed
        );
        let found = check(&graph, &routing);
        assert!(found.is_good() && found.all.is_none(), "{shape}: {found:?}");
        // hosts still get along where there is a single lane
        let options = Options {
            lanes: 1,
            ..Options::default()
        };
        let routing = (Engine::find("lash").unwrap().route)(&graph, &options).unwrap();
        assert!(check(&graph, &routing).is_good(), "{shape}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn who_promises_no_deadlock_keeps_it_and_everybody_is_reached(topology in fabric(), lmc in 0..3_u8) {
        let graph = Graph::from_topology(&topology, lmc).unwrap();
        let shortest = judged("minhop", &graph).unwrap();
        prop_assert_eq!(shortest.reach.host_faults + shortest.reach.switch_faults, 0);
        for engine in ["updn", "lash", "dfsssp"] {
            let found = judged(engine, &graph).unwrap();
            prop_assert!(found.is_good(), "{}: {:?}", engine, found);
            if engine == "updn" {
                prop_assert_eq!(found.all, None);
            } else {
                prop_assert_eq!(&found.reach.by_hops, &shortest.reach.by_hops);
                prop_assert_eq!(found.reach.switch_faults, 0);
            }
        }
        match judged("dnup", &graph) {
            Ok(found) => prop_assert!(found.is_good() && found.all.is_none()),
            Err(error) => prop_assert!(matches!(error, RouteError::NoRoute { .. }), "{}", error),
        }
    }

    /// From one root to another: what is not stopped, with old tables here and new ones there, and the new routes of what was stopped have no circle; without a circle nothing is
    /// stopped.
    #[test]
    fn a_change_has_no_circle_once_packets_are_stopped(
        topology in fabric(),
        root in any::<prop::sample::Index>(),
        engines in (prop::sample::select(vec!["updn", "dnup"]), prop::sample::select(vec!["updn", "dnup"])),
    ) {
        let graph = Graph::from_topology(&topology, 0).unwrap();
        let routed = |graph: &Graph, engine: &str, root: Option<usize>| {
            let roots = root.map(|root| graph.switches()[root % graph.switches().len()].guid);
            let options = Options { roots: roots.into_iter().collect(), ..Options::default() };
            (Engine::find(engine).unwrap().route)(graph, &options)
        };
        let one = routed(&graph, engines.0, None);
        let other = routed(&graph, engines.1, Some(root.index(64)));
        let (Ok(one), Ok(other)) = (one, other) else { return Ok(()) };
        let before = Before { graph: graph.clone(), routing: one.clone() };
        let change = change(&graph, &before, &one.tables, &other);
        prop_assert!(!change.lanes);
        prop_assert_eq!(change.stopped.is_empty(), deadlock(&graph, &[&one, &other], Scope::Hosts).is_none());
        let mut stopped = one.clone();
        for lid in &change.stopped {
            for switch in 0..graph.switches().len() as u32 {
                stopped.tables.set(switch, *lid, other.tables.port(switch, *lid));
            }
        }
        prop_assert_eq!(deadlock(&graph, &[&stopped, &other], Scope::Hosts), None);
    }
}
