//! Every fabric that OpenSM was measured on, by every engine of ours: OpenSM's tables where it made some and the fabric alone decides which; where it gave up or does something else, the judges alone.
//!
//! What OpenSM made is here as digests (tests/oracle/README.md says how they came about); the five smallest fabrics are compared entry by entry in `recorded.rs` as well. Two judges look at each result,
//! `check` and one that is written another way (`oracle/second_judge.rs`), and then at tables in which faults are planted. The largest fabric (3,456 hosts) takes most of the time, some ten seconds on two busy
//! cores in the profile of tests.

#![allow(clippy::unwrap_used)]

#[path = "oracle/second_judge.rs"]
mod second_judge;

use Expected::{Judged, Lacks, Refused, Same, SameForHosts};
use ferriband_subnet::check::{self, Group, Scope, check, deadlock_with_groups};
use ferriband_subnet::graph::{Graph, Owner, Peer};
use ferriband_subnet::routing::multicast::{self, Ports, Tree};
use ferriband_subnet::routing::{ENGINES, Engine, Lanes, NO_PORT, Options, RouteError, Routing};
use ferriband_topology::generate::generate;
use ferriband_topology::{PortId, Topology, netlist};
use second_judge::{judge, shortest};

/// What an engine of ours is to make of a fabric; OpenSM has eight lanes, and so have we.
#[derive(Clone, Copy)]
enum Expected {
    /// OpenSM's tables, port for port, and no more lanes than it said it needs.
    Same { tables: u64, lanes: u8 },
    /// OpenSM's for the LIDs of hosts (digest of those alone). It lets switches reach each other by ways down and up again, we do not.
    SameForHosts { tables: u64 },
    /// OpenSM gave up, or (dnup) made tables with circles: nothing to compare. At most so many lanes, and at most so many pairs of hosts on a link.
    Judged { lanes: u8, most: u64 },
    /// Not the engine's shape.
    Refused,
    /// As many lanes as there are (eight) are too few; OpenSM found the same.
    Lacks { needed: u32 },
}

/// A fabric that OpenSM was measured on.
struct Oracle {
    name: &'static str,
    /// A netlist that is kept here, or a shape that makes the same fabric.
    from: &'static str,
    /// Digest of the oracle's nodes and cables (`print`).
    print: u64,
    /// Pairs of a switch and another's LID that updn, dnup and ftree leave without a route, on purpose: no way up and then down leads there. Hosts are at neither.
    apart: u64,
    /// Who may block: minhop and dor promise nothing where there are circles of cables.
    blocks: &'static [&'static str],
    /// Engines next to whose packets those of groups, on the same lane, could close a circle, so that they get a level of their own: updn's tree is everybody's.
    groups_apart: &'static [&'static str],
    expected: [(&'static str, Expected); 8],
}

const fn same(tables: u64, lanes: u8) -> Expected {
    Same { tables, lanes }
}

const RING5: Oracle = Oracle {
    name: "s_ring5",
    from: include_str!("oracle/ring5.net"),
    print: 0x383c_cc8d_18ba_a9fb,
    apart: 0,
    blocks: &["minhop", "dor"],
    groups_apart: &["torus-2qos", "dfsssp"],
    expected: [
        ("minhop", same(0xbbdc_3834_1c56_88aa, 1)),
        ("updn", Judged { lanes: 1, most: 16 }),
        ("dnup", Judged { lanes: 1, most: 16 }),
        ("dor", same(0xbbdc_3834_1c56_88aa, 1)),
        ("ftree", Refused),
        // a torus of one dimension; OpenSM was not asked
        ("torus-2qos", Judged { lanes: 2, most: 12 }),
        ("lash", same(0xbbdc_3834_1c56_88aa, 2)),
        ("dfsssp", same(0xbbdc_3834_1c56_88aa, 2)),
    ],
};

const SMALL_TREE: Oracle = Oracle {
    name: "s_ft2_4x8",
    from: include_str!("oracle/ft2_4x8.net"),
    print: 0xe1ad_02be_ec16_68c9,
    // 4 roots
    apart: 4 * 3,
    blocks: &[],
    groups_apart: &[],
    expected: [
        ("minhop", same(0x3c12_a0a1_c4a1_fbf7, 1)),
        ("updn", same(0x3dc1_480c_1a19_faf7, 1)),
        ("dnup", same(0x3dc1_480c_1a19_faf7, 1)),
        ("dor", same(0xb274_7a93_2fc7_de7d, 1)),
        ("ftree", same(0x3dc1_480c_1a19_faf7, 1)),
        ("torus-2qos", Refused),
        ("lash", same(0xb274_7a93_2fc7_de7d, 1)),
        ("dfsssp", same(0x33fb_5f8f_31ff_110c, 1)),
    ],
};

const SMALL_TORUS: Oracle = Oracle {
    name: "s_torus_4x4",
    from: include_str!("oracle/torus_4x4.net"),
    print: 0x8f15_e21e_1b9e_f5d9,
    apart: 0,
    blocks: &["minhop", "dor"],
    groups_apart: &["lash", "dfsssp"],
    expected: [
        ("minhop", same(0xd72b_add4_7d45_0d29, 1)),
        ("updn", Judged { lanes: 1, most: 78 }),
        ("dnup", Judged { lanes: 1, most: 78 }),
        ("dor", same(0xe497_7a22_c8f8_dbbb, 1)),
        ("ftree", Refused),
        ("torus-2qos", same(0x7b09_8101_865a_8b37, 2)),
        ("lash", same(0xe497_7a22_c8f8_dbbb, 2)),
        ("dfsssp", same(0x086a_e8d2_e1e0_a7eb, 4)),
    ],
};

const SMALL_MESH: Oracle = Oracle {
    name: "s_mesh_4x4",
    from: include_str!("oracle/mesh_4x4.net"),
    print: 0xf017_ce97_a77a_7b2d,
    apart: 0,
    blocks: &["minhop"],
    groups_apart: &["dnup", "dfsssp"],
    expected: [
        ("minhop", same(0x9f27_c768_aa01_549d, 1)),
        (
            "updn",
            Judged {
                lanes: 1,
                most: 140,
            },
        ),
        (
            "dnup",
            Judged {
                lanes: 1,
                most: 100,
            },
        ),
        ("dor", same(0x4008_a6cf_a678_7fe3, 1)),
        ("ftree", Refused),
        // OpenSM was not asked
        ("torus-2qos", Judged { lanes: 1, most: 64 }),
        ("lash", same(0x4008_a6cf_a678_7fe3, 1)),
        ("dfsssp", same(0xb84f_5677_dac2_fb83, 3)),
    ],
};

const SMALL_IRREGULAR: Oracle = Oracle {
    name: "s_irr9a",
    from: include_str!("oracle/irr9a.net"),
    print: 0xc8b9_1eb4_927e_5841,
    apart: 0,
    blocks: &["minhop"],
    groups_apart: &["dfsssp"],
    expected: [
        ("minhop", same(0xfce5_921c_a177_ef00, 1)),
        ("updn", Judged { lanes: 1, most: 54 }),
        ("dnup", Judged { lanes: 1, most: 54 }),
        ("dor", same(0xca90_dbab_85c2_a351, 1)),
        ("ftree", Refused),
        ("torus-2qos", Refused),
        ("lash", same(0xca90_dbab_85c2_a351, 1)),
        ("dfsssp", same(0x4927_7c15_9173_b4f5, 1)),
    ],
};

const IRREGULAR: Oracle = Oracle {
    name: "irr9",
    from: include_str!("oracle/irr9.net"),
    print: 0x6d84_426b_d44e_dfc6,
    apart: 0,
    blocks: &["minhop"],
    groups_apart: &["dfsssp"],
    expected: [
        ("minhop", same(0xb130_07a6_e6fb_295d, 1)),
        (
            "updn",
            Judged {
                lanes: 1,
                most: 136,
            },
        ),
        (
            "dnup",
            Judged {
                lanes: 1,
                most: 136,
            },
        ),
        ("dor", same(0xca63_09c2_d1da_30e4, 1)),
        ("ftree", Refused),
        ("torus-2qos", Refused),
        ("lash", same(0xca63_09c2_d1da_30e4, 1)),
        ("dfsssp", same(0x5fc8_d658_91d7_774d, 2)),
    ],
};

const LARGE_IRREGULAR: Oracle = Oracle {
    name: "irr128",
    from: include_str!("oracle/irr128.net"),
    print: 0x42e9_7a35_5f0c_6af5,
    apart: 0,
    blocks: &["minhop", "dor"],
    groups_apart: &["dnup", "lash", "dfsssp"],
    expected: [
        ("minhop", same(0xebf3_d77f_0991_c069, 1)),
        (
            "updn",
            Judged {
                lanes: 1,
                most: 25_536,
            },
        ),
        (
            "dnup",
            Judged {
                lanes: 1,
                most: 28_056,
            },
        ),
        ("dor", same(0x52f8_df62_2b6a_6ad3, 1)),
        ("ftree", Refused),
        ("torus-2qos", Refused),
        ("lash", same(0x52f8_df62_2b6a_6ad3, 6)),
        ("dfsssp", same(0x7b9c_7d6a_6ca6_db57, 8)),
    ],
};

const TREE: Oracle = Oracle {
    name: "ft2_648",
    from: "fat-tree:36x18x18",
    print: 0xf6c5_4710_79d2_5028,
    // 18 roots
    apart: 18 * 17,
    blocks: &[],
    groups_apart: &[],
    expected: [
        ("minhop", same(0xca6b_086d_442c_e203, 1)),
        (
            "updn",
            SameForHosts {
                tables: 0x17f8_f851_708c_a3ad,
            },
        ),
        ("dnup", same(0x3b4b_432b_42c9_b90f, 1)),
        ("dor", same(0x8ac0_636b_b27d_40a1, 1)),
        ("ftree", same(0x3b4b_432b_42c9_b90f, 1)),
        ("torus-2qos", Refused),
        ("lash", same(0x8ac0_636b_b27d_40a1, 1)),
        ("dfsssp", same(0x1a8b_e4db_8082_1a97, 1)),
    ],
};

/// Of 24 ports in the oracle; ours are of 36, of which 24 are plugged in just as there.
const LARGE_TREE: Oracle = Oracle {
    name: "ft3_3456_k24",
    from: "fat-tree:24",
    print: 0xd201_7863_04e2_b15b,
    // the 144 roots and each other; a root and those of the 288 below it that it has no cable to, both ways; the 288 and those that share neither a root with them nor are the same
    apart: 144 * 143 + 2 * 144 * (288 - 24) + 288 * (288 - 24),
    blocks: &[],
    groups_apart: &[],
    expected: [
        ("minhop", same(0xfd7c_78a5_0192_9f07, 1)),
        (
            "updn",
            SameForHosts {
                tables: 0xd623_3204_e18b_9f45,
            },
        ),
        ("dnup", same(0xed01_8ed6_8f6c_3af3, 1)),
        ("dor", same(0x77d7_b6b0_44ff_023b, 1)),
        ("ftree", same(0x41d7_83b1_5a9a_587b, 1)),
        ("torus-2qos", Refused),
        ("lash", same(0x77d7_b6b0_44ff_023b, 4)),
        ("dfsssp", same(0xc994_d796_19fe_da1f, 1)),
    ],
};

const TORUS: Oracle = Oracle {
    name: "torus2d_8x8_h4",
    from: "torus:8x8:4",
    print: 0x389a_0da6_3b3e_7bc1,
    apart: 0,
    blocks: &["minhop", "dor"],
    groups_apart: &["torus-2qos", "lash", "dfsssp"],
    expected: [
        ("minhop", same(0xa179_7308_90d5_e769, 1)),
        (
            "updn",
            Judged {
                lanes: 1,
                most: 5_428,
            },
        ),
        (
            "dnup",
            Judged {
                lanes: 1,
                most: 5_428,
            },
        ),
        ("dor", same(0x2ee7_ad35_08a8_634b, 1)),
        ("ftree", Refused),
        ("torus-2qos", same(0x3517_f31d_2134_e863, 2)),
        ("lash", same(0x2ee7_ad35_08a8_634b, 6)),
        // OpenSM's needs 9 lanes
        (
            "dfsssp",
            Judged {
                lanes: 6,
                most: 1_472,
            },
        ),
    ],
};

const LARGE_TORUS: Oracle = Oracle {
    name: "torus3d_6x6x6_h4",
    from: "torus:6x6x6:4",
    print: 0x299a_f7d2_73a7_cd71,
    apart: 0,
    blocks: &["minhop", "dor"],
    groups_apart: &["torus-2qos"],
    expected: [
        ("minhop", same(0x4a9a_dae9_6a32_1a83, 1)),
        (
            "updn",
            Judged {
                lanes: 1,
                most: 27_980,
            },
        ),
        (
            "dnup",
            Judged {
                lanes: 1,
                most: 27_980,
            },
        ),
        ("dor", same(0x71c0_7c32_a3b6_4a87, 1)),
        ("ftree", Refused),
        ("torus-2qos", same(0x2f39_dab1_8792_4bdb, 2)),
        ("lash", Lacks { needed: 9 }),
        ("dfsssp", Lacks { needed: 9 }),
    ],
};

const DRAGONFLY: Oracle = Oracle {
    name: "dfly_a8p4h4_1056",
    from: "dragonfly:8x4x4",
    print: 0x112a_d5e1_9aae_a677,
    apart: 0,
    blocks: &["minhop", "dor"],
    groups_apart: &["dnup", "lash", "dfsssp"],
    expected: [
        ("minhop", same(0x634b_553f_6263_113e, 1)),
        (
            "updn",
            Judged {
                lanes: 1,
                most: 22_516,
            },
        ),
        (
            "dnup",
            Judged {
                lanes: 1,
                most: 21_340,
            },
        ),
        ("dor", same(0x2da9_3a24_1d52_cc5c, 1)),
        ("ftree", Refused),
        ("torus-2qos", Refused),
        ("lash", same(0x2da9_3a24_1d52_cc5c, 6)),
        ("dfsssp", same(0x0175_cf6a_740d_ac0b, 5)),
    ],
};

const ORACLES: [&Oracle; 12] = [
    &RING5,
    &SMALL_TREE,
    &SMALL_TORUS,
    &SMALL_MESH,
    &SMALL_IRREGULAR,
    &IRREGULAR,
    &LARGE_IRREGULAR,
    &TREE,
    &LARGE_TREE,
    &TORUS,
    &LARGE_TORUS,
    &DRAGONFLY,
];

/// FNV-1a, a word at a time.
fn digest(words: impl IntoIterator<Item = u8>) -> u64 {
    let add = |digest: u64, word| (digest ^ u64::from(word)).wrapping_mul(0x100_0000_01b3);
    words.into_iter().fold(0xcbf2_9ce4_8422_2325, add)
}

/// All nodes by name and GUID, and all cables by names and ports, in one number. Not how many ports a node has, nor in which order it is described.
fn print(topology: &Topology) -> u64 {
    let nodes = topology.nodes().iter();
    let nodes = nodes.map(|node| format!("{} {} {}\n", node.kind, node.name, node.guid));
    let end = |end: PortId| format!("{} {}", topology.node(end.node).name, end.port);
    let cables = topology.cables().iter().map(|cable| {
        let mut ends = cable.ends.map(end);
        ends.sort();
        format!("{} {}\n", ends[0], ends[1])
    });
    let mut lines: Vec<String> = nodes.chain(cables).collect();
    lines.sort();
    digest(lines.iter().flat_map(|line| line.bytes()))
}

/// The tables in one number: output ports by switch and LID.
fn tables(graph: &Graph, routing: &Routing, of_hosts_alone: bool) -> u64 {
    let is_counted = |lid: &u32| !of_hosts_alone || matches!(graph.owner(*lid), Owner::End(_));
    let lids: Vec<u32> = (1..=graph.top()).filter(is_counted).collect();
    let switches = 0..graph.switches().len() as u32;
    digest(switches.flat_map(|switch| {
        let lids = lids.iter();
        lids.map(move |lid| routing.tables.port(switch, *lid))
    }))
}

/// SL2VL tables between ports with a cable (and from a switch itself, 0) in one number.
fn lanes(graph: &Graph, routing: &Routing) -> u64 {
    let mut entries = Vec::new();
    for (index, switch) in (0..).zip(graph.switches()) {
        let plugged = (0_u8..).zip(&switch.ports);
        let plugged = plugged.filter(|(_, peer)| **peer != Peer::Nothing);
        let outputs: Vec<u8> = plugged.map(|(port, _)| port).collect();
        for &output in &outputs {
            for input in [0].iter().chain(&outputs) {
                entries.extend((0..16).map(|level| routing.lanes.at(index, *input, output, level)));
            }
        }
    }
    digest(entries)
}

impl Oracle {
    fn topology(&self) -> Topology {
        match self.from.lines().nth(1) {
            Some(_) => netlist::parse(self.from).unwrap(),
            None => generate(self.from).unwrap(),
        }
    }

    fn graph(&self) -> Graph {
        Graph::from_topology(&self.topology(), 0).unwrap()
    }

    fn routed(&self, graph: &Graph, engine: &str) -> Option<Routing> {
        let engine = Engine::find(engine).unwrap();
        (engine.route)(graph, &Options::default()).ok()
    }

    /// Every engine, every judge.
    fn holds(&self) {
        let graph = self.graph();
        let names = ENGINES.iter().map(|engine| engine.name);
        assert!(
            names.eq(self.expected.iter().map(|(name, _)| *name)),
            "all engines"
        );
        let least = shortest(&graph);
        for (engine, (_, expected)) in ENGINES.iter().zip(&self.expected) {
            let what = format!("{} by {}", self.name, engine.name);
            let made = (engine.route)(&graph, &Options::default());
            let routing = match (made, *expected) {
                (
                    Ok(routing),
                    Same {
                        tables: theirs,
                        lanes,
                    },
                ) => {
                    assert_eq!(tables(&graph, &routing, false), theirs, "{what}");
                    assert!(
                        routing.lanes_needed <= lanes,
                        "{what}: {}",
                        routing.lanes_needed
                    );
                    routing
                }
                (Ok(routing), SameForHosts { tables: theirs }) => {
                    assert_eq!(tables(&graph, &routing, true), theirs, "{what}");
                    assert_eq!(routing.lanes_needed, 1, "{what}");
                    routing
                }
                (Ok(routing), Judged { lanes, most }) => {
                    assert!(
                        routing.lanes_needed <= lanes,
                        "{what}: {}",
                        routing.lanes_needed
                    );
                    let found = check::balance(&graph, &routing.tables);
                    assert!(found.most <= most && found.idle == 0, "{what}: {found:?}");
                    routing
                }
                (Err(error), Refused) => {
                    let said = error.to_string();
                    let is_shape = matches!(error, RouteError::WrongShape { .. });
                    assert!(is_shape && said.contains(engine.name), "{what}: {said}");
                    continue;
                }
                (Err(error), Lacks { needed }) => {
                    let lacks = RouteError::Lanes {
                        engine: engine.name,
                        needed,
                        lanes: 8,
                    };
                    assert_eq!(error, lacks, "{what}");
                    continue;
                }
                (made, _) => panic!("{what}: {:?}", made.err()),
            };
            self.is_judged(&graph, engine.name, &routing, &least);
        }
    }

    fn is_judged(&self, graph: &Graph, engine: &str, routing: &Routing, shortest: &[u64]) {
        let what = format!("{} by {engine}", self.name);
        let found = check(graph, routing);
        let second = judge(graph, routing);
        // everybody is reached
        assert_eq!(
            (found.reach.host_faults, second.lost),
            (0, 0),
            "{what}: {found:?}"
        );
        let up_and_down = ["updn", "dnup", "ftree"].contains(&engine);
        let apart = if up_and_down { self.apart } else { 0 };
        assert_eq!(found.reach.switch_faults, apart, "{what}");
        // by how many links, and by no more than must be
        assert_eq!(found.reach.by_hops, second.by_hops, "{what}");
        let routes: u64 = shortest.iter().sum();
        assert_eq!(found.reach.host_routes, routes, "{what}");
        if ["updn", "dnup"].contains(&engine) && self.apart == 0 {
            let links = |by_hops: &[u64]| {
                (0_u64..)
                    .zip(by_hops)
                    .map(|(links, count)| links * count)
                    .sum::<u64>()
            };
            assert!(links(&second.by_hops) >= links(shortest), "{what}");
        } else {
            assert_eq!(second.by_hops, shortest, "{what}");
        }
        // how evenly
        let (least, most) = (second.loads.iter().min(), second.loads.iter().max());
        let idle = second.loads.iter().filter(|load| **load == 0).count();
        let balance = found.balance;
        assert_eq!(
            (Some(&balance.least), Some(&balance.most)),
            (least, most),
            "{what}"
        );
        assert_eq!(
            (balance.idle, balance.links),
            (idle, second.loads.len()),
            "{what}"
        );
        let mean = second.loads.iter().sum::<u64>() as f64 / second.loads.len() as f64;
        assert!((balance.mean - mean).abs() < 1e-9 * mean, "{what}");
        // and whether packets can wait for each other
        let may_block = self.blocks.contains(&engine);
        assert_eq!(
            found.hosts.is_some(),
            may_block,
            "{what}: {:?}",
            found.hosts
        );
        assert_eq!(second.may_block(), may_block, "{what}");
        if let Some(circle) = &found.hosts {
            assert!(second.knows(graph, circle), "{what}: {circle}");
        }
        if up_and_down || ["lash", "torus-2qos"].contains(&engine) {
            assert_eq!(found.all, None, "{what}: switches' own packets too");
        }
    }

    /// Groups of all hosts, of some and of two, by the tree that all share: each packet comes to each member once, and does not block those of pairs.
    fn groups_hold(&self) {
        let graph = self.graph();
        let tree = Tree::new(&graph);
        let all: Vec<(u32, u8)> = graph.ends().iter().filter_map(|end| end.attached).collect();
        let third = all.iter().step_by(3).copied().collect();
        let two = vec![all[0], all[all.len() - 1]];
        let manager = vec![(0, 0), all[all.len() / 2]];
        let members = [all, third, two, manager];
        let rows: Vec<Vec<Ports>> = members.iter().map(|members| tree.rows(members)).collect();
        let group = |(members, rows)| Group {
            rows,
            members,
            level: 0,
        };
        let groups: Vec<Group<'_>> = members
            .iter()
            .map(Vec::as_slice)
            .zip(rows.iter().map(Vec::as_slice))
            .map(group)
            .collect();
        for group in &groups {
            // each member's packets are followed to each other: in the largest fabric every 16th host is a member
            let few = group.members.len() <= 1_500;
            let faults = if few {
                check::multicast(&graph, group, 9)
            } else {
                let members: Vec<_> = group.members.iter().step_by(16).copied().collect();
                let rows = tree.rows(&members);
                check::multicast(
                    &graph,
                    &Group {
                        rows: &rows,
                        members: &members,
                        level: 0,
                    },
                    9,
                )
            };
            assert_eq!(
                faults,
                [],
                "{}: a group of {}",
                self.name,
                group.members.len()
            );
        }
        // a row less, a row too many
        let mut spoilt = rows[0].clone();
        let (at, port) = members[0][0];
        spoilt[at as usize][usize::from(port / 64)] ^= 1 << (port % 64);
        let spoilt = Group {
            rows: &spoilt,
            ..groups[0]
        };
        assert_ne!(check::multicast(&graph, &spoilt, 1), [], "{}", self.name);
        for engine in ENGINES {
            let Some(mut routing) = self.routed(&graph, engine.name) else {
                continue;
            };
            let what = format!("{} by {}", self.name, engine.name);
            let jams = |routing: &Routing| {
                let level = routing.groups;
                let groups = groups.iter().map(|group| Group { level, ..*group });
                let groups: Vec<_> = groups.collect();
                deadlock_with_groups(&graph, &[routing], Scope::Hosts, &groups).is_some()
            };
            let alone = self.blocks.contains(&engine.name);
            let apart = self.groups_apart.contains(&engine.name);
            assert_eq!(jams(&routing), alone || apart, "{what}");
            let before = routing.clone();
            multicast::give_level(&graph, &mut routing, Options::default().lanes);
            assert_eq!(jams(&routing), alone, "{what}");
            assert_eq!(routing.groups > 0, apart, "{what}");
            if !apart {
                assert_eq!(routing, before, "{what}");
            }
            // pairs go where they went
            assert_eq!(
                (&routing.tables, &routing.levels),
                (&before.tables, &before.levels),
                "{what}"
            );
        }
    }
}

macro_rules! each {
    ($($test:ident $oracle:ident)*) => {
        $(#[test]
        fn $test() {
            $oracle.holds();
        })*

        #[test]
        fn each_fabric_has_its_test() {
            assert_eq!(ORACLES.map(|oracle| oracle.name), [$($oracle.name),*]);
        }
    };
}

each! {
    a_ring RING5
    a_small_tree SMALL_TREE
    a_small_torus SMALL_TORUS
    a_small_mesh SMALL_MESH
    a_small_irregular_fabric SMALL_IRREGULAR
    an_irregular_fabric IRREGULAR
    an_irregular_fabric_of_128_switches LARGE_IRREGULAR
    a_tree_of_648_hosts TREE
    a_tree_of_3456_hosts LARGE_TREE
    a_torus_of_64_switches TORUS
    a_torus_of_216_switches LARGE_TORUS
    a_dragonfly_of_1056_hosts DRAGONFLY
}

#[test]
fn the_fabrics_are_those_that_opensm_was_measured_on() {
    for oracle in ORACLES {
        let print = print(&oracle.topology());
        assert_eq!(print, oracle.print, "{}: {print:#x}", oracle.name);
    }
}

#[test]
fn torus_2qos_has_opensms_lanes() {
    for (oracle, theirs) in [
        (&SMALL_TORUS, 0xc170_4cdc_6aa0_3c25),
        (&TORUS, 0x08e6_200e_43f6_8325),
        (&LARGE_TORUS, 0xfaac_1925_c5e4_5325),
    ] {
        let graph = oracle.graph();
        let routing = oracle.routed(&graph, "torus-2qos").unwrap();
        assert_eq!(lanes(&graph, &routing), theirs, "{}", oracle.name);
    }
}

#[test]
fn packets_of_groups_come_once_to_each_member_and_block_nobody_who_goes_up_and_down() {
    for oracle in ORACLES {
        oracle.groups_hold();
    }
}

/// A netlist without the hosts that are not wanted: of those called `H3_1`, 3 and 1 decide.
fn with_hosts(net: &str, is_wanted: impl Fn(usize, usize) -> bool) -> String {
    let is_gone = |line: &str| {
        let name = line.split('"').nth(1).unwrap_or_default();
        let numbers = name.strip_prefix('H').and_then(|name| name.split_once('_'));
        numbers.is_some_and(|(switch, host)| {
            !is_wanted(switch.parse().unwrap(), host.parse().unwrap())
        })
    };
    let blocks = net.split("\n\n");
    let blocks = blocks.filter(|block| {
        !block
            .lines()
            .any(|line| line.starts_with("Hca") && is_gone(line))
    });
    let lines = blocks.flat_map(|block| block.lines().chain([""]));
    let kept: Vec<&str> = lines
        .filter(|line| !(line.starts_with('[') && is_gone(line)))
        .collect();
    kept.join("\n")
}

#[test]
fn where_switches_have_unequally_many_hosts_tables_are_opensms_too() {
    // on the fabrics of the oracle all switches with hosts have equally many, and the order in which switches are taken then decides nothing
    let few = with_hosts(IRREGULAR.from, |switch, host| {
        host < [4, 1, 3, 0, 2, 4, 1, 2, 3][switch]
    });
    let many = with_hosts(LARGE_IRREGULAR.from, |switch, host| host < switch * 5 % 9);
    for (net, hosts, expected) in [
        (
            few,
            20,
            [
                ("minhop", 0xf357_922a_b0c8_3890, 1),
                ("dor", 0xdb67_8c9e_b284_30da, 1),
                ("lash", 0xdb67_8c9e_b284_30da, 1),
                ("dfsssp", 0x1237_1c82_cf71_41a0, 2),
            ],
        ),
        (
            many,
            509,
            [
                ("minhop", 0x8fb5_de76_1069_05ba, 1),
                ("dor", 0xe41e_141e_12c0_ac08, 1),
                ("lash", 0xe41e_141e_12c0_ac08, 6),
                ("dfsssp", 0x444c_b645_b94c_770c, 7),
            ],
        ),
    ] {
        let topology = netlist::parse(&net).unwrap();
        let graph = Graph::from_topology(&topology, 0).unwrap();
        assert_eq!(graph.ends().len(), hosts);
        for (engine, theirs, lanes) in expected {
            let find = Engine::find(engine).unwrap();
            let routing = (find.route)(&graph, &Options::default()).unwrap();
            assert_eq!(
                tables(&graph, &routing, false),
                theirs,
                "{engine}, {hosts} hosts"
            );
            assert!(routing.lanes_needed <= lanes, "{engine}, {hosts} hosts");
            let (found, second) = (check(&graph, &routing), judge(&graph, &routing));
            assert_eq!((found.reach.host_faults, second.lost), (0, 0), "{engine}");
            assert_eq!(found.reach.by_hops, second.by_hops, "{engine}");
            assert_eq!(second.by_hops, shortest(&graph), "{engine}");
            assert_eq!(found.hosts.is_some(), second.may_block(), "{engine}");
            assert!(
                found.is_good() || ["minhop", "dor"].contains(&engine),
                "{engine}"
            );
        }
        let routing = (Engine::find("updn").unwrap().route)(&graph, &Options::default()).unwrap();
        assert!(check(&graph, &routing).is_good() && !judge(&graph, &routing).may_block());
    }
}

/// Numbers that look random, the same each time (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

#[test]
fn both_judges_find_what_is_planted_in_good_tables() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for oracle in ORACLES {
        // a look at a large one takes a tenth of a second or more
        let (engines, entries): (&[&str], _) = match oracle.topology().nodes().len() {
            0..100 => (&["minhop", "updn", "dfsssp"], 40),
            100..1_000 => (&["minhop", "updn", "dfsssp"], 10),
            1_000..2_000 => (&["minhop", "updn"], 3),
            _ => (&["ftree"], 2),
        };
        let graph = oracle.graph();
        let hosts: Vec<u32> = graph.ends().iter().map(|end| end.lid).collect();
        for engine in engines {
            let what = format!("{} by {engine}", oracle.name);
            let Some(good) = oracle.routed(&graph, engine) else {
                continue;
            };
            let before = tables(&graph, &good, true);
            // at the last switch: nobody gets there; from there the others still do
            let lid = hosts[random.below(hosts.len())];
            let home = graph.switch_of(lid).unwrap();
            let mut spoilt = good.clone();
            spoilt.tables.set(home, lid, NO_PORT);
            let sources = graph.hosts().iter().filter(|hosts| **hosts > 0).count() as u64;
            let found = check::reach(&graph, &spoilt.tables);
            assert_eq!(found.host_faults, sources, "{what}");
            assert_eq!(judge(&graph, &spoilt).lost, sources, "{what}");
            // anywhere, one upon the other: to any port that the switch has, one that is not plugged in, or none
            let mut spoilt = good.clone();
            for planted in 1..=entries {
                let switch = random.below(graph.switches().len()) as u32;
                let lid = hosts[random.below(hosts.len())];
                let ports = graph.switches()[switch as usize].ports.len();
                let port = match random.below(8) {
                    0 => NO_PORT,
                    _ => random.below(ports) as u8,
                };
                spoilt.tables.set(switch, lid, port);
                let what = format!("{what}, {planted} planted");
                let (found, second) = (check(&graph, &spoilt), judge(&graph, &spoilt));
                assert_eq!(found.reach.host_faults, second.lost, "{what}");
                assert_eq!(found.reach.by_hops, second.by_hops, "{what}");
                if second.lost == 0 {
                    assert_eq!(found.hosts.is_some(), second.may_block(), "{what}");
                    assert_eq!(
                        found.balance.most,
                        second.loads.iter().max().copied().unwrap(),
                        "{what}"
                    );
                }
                assert!(
                    planted < entries || tables(&graph, &spoilt, true) != before,
                    "{what}"
                );
            }
        }
    }
}

#[test]
fn lanes_that_are_taken_away_are_missed() {
    for oracle in ORACLES {
        let graph = oracle.graph();
        for engine in ["lash", "dfsssp", "torus-2qos"] {
            let Some(mut routing) = oracle.routed(&graph, engine) else {
                continue;
            };
            if routing.lanes_needed == 1 {
                continue;
            }
            routing.lanes = Lanes::Modulo(1);
            let what = format!("{} by {engine}", oracle.name);
            let (found, second) = (check(&graph, &routing), judge(&graph, &routing));
            assert_eq!(found.hosts.is_some(), second.may_block(), "{what}");
            let blocks = match (oracle.name, engine) {
                // here the tables alone close no circle: of two steps in a ring of four some go this way and some that
                ("s_torus_4x4", "torus-2qos") => [false, false],
                // here the lanes are for what goes between switches
                ("ft3_3456_k24", "lash") => [false, true],
                _ => [true, true],
            };
            let found = [found.hosts.is_some(), found.all.is_some()];
            assert_eq!(found, blocks, "{what}");
        }
    }
}
