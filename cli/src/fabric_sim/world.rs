//! A fabric in virtual time with a routing engine's tables: the machines of `ferriband-fabric`, programmed as a subnet manager would.

use crate::args::{FabricSimArgs, PickKind, SwitchKind};
use crate::fabric::{engine, load, root};
use crate::failure::Failure;
use ferriband_fabric::congestion::{Marking, Scope, Throttle};
use ferriband_fabric::credit::MOST_DATA_VLS;
use ferriband_fabric::host::{PACKET_OVERHEAD, SLOW};
use ferriband_fabric::net::{Net, Plan, PlanLink, PlanNode, Settings, SlowLane};
use ferriband_fabric::switch::{Buffering, Crossbar, Pick, SwitchModel};
use ferriband_fabric::{LinkRate, Time};
use ferriband_subnet::graph::{Graph, GraphError, TOP_LID};
use ferriband_subnet::routing::{Lanes, Options, Routing, ServiceLevels};
use ferriband_topology::{Cable, NodeKind, PortId, Topology};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most LIDs of a simulation beyond the IBA.
const TOP_WIDE_LID: u32 = (1 << 24) - 1;
/// Blocks of 64 bytes.
const BLOCK: u32 = 64;

/// A host's port.
pub struct Host {
    /// Its node in the net.
    pub node: u32,
    /// The switch's node and port that it is joined with.
    pub at: (u32, u8),
    /// Its LID.
    pub lid: u32,
    /// Its link.
    pub rate: LinkRate,
}

/// What is simulated.
pub struct World {
    /// The machines.
    pub net: Net,
    /// The hosts' ports that are in the subnet, in the order of the description.
    pub hosts: Vec<Host>,
    /// Names of the net's nodes.
    pub names: Vec<String>,
    /// Which of them are switches.
    pub switches: usize,
    /// Ports of switches that have a link.
    pub switch_ports: usize,
    /// Links.
    pub links: usize,
    /// Data lanes.
    pub lanes: u8,
    /// Highest LID.
    pub top_lid: u32,
    /// Hosts' ports that are joined with none of the others.
    pub left_out: usize,
}

/// Makes it.
pub fn make(args: &FabricSimArgs, fabric: &str) -> Result<World, Failure> {
    let engine = engine(&args.engine)?;
    let topology = load(fabric)?;
    let roots = args.root.iter().map(|name| root(&topology, name));
    let options = Options {
        roots: roots.collect::<Result<_, _>>()?,
        lanes: args.lanes,
    };
    let top = if args.wide_lids {
        TOP_WIDE_LID
    } else {
        TOP_LID
    };
    let graph = Graph::from_topology_at(&topology, None, 0, top).map_err(|error| match error {
        GraphError::OutOfLids { top, without } if !args.wide_lids => Failure::new(format!(
            "{fabric} needs {} LIDs, and a subnet has {top}",
            top as usize + without
        ))
        .remedy("--wide-lids gives more, which the IBA does not have; or make the fabric smaller"),
        error => Failure::new(format!("{fabric}: {error}")),
    })?;
    let routing = (engine.route)(&graph, &options)
        .map_err(|error| Failure::new(format!("{fabric}: {error}")))?;
    let made = Placed::new(&topology, &graph, args);
    let mut world = made.world(args, &graph, &routing)?;
    let fast_lanes = args.slow_lane.map(|_| world.lanes / 2);
    if program(&mut world.net, &made, &graph, routing, fast_lanes) >= SLOW && fast_lanes.is_some() {
        return Err(Failure::new(format!(
            "{} uses service levels of {SLOW} and more, which are the slow lane's",
            args.engine
        ))
        .remedy("choose another engine, or --congestion-control"));
    }
    if let Some(interval) = args.slow_lane {
        world.net.set_slow_lane(SlowLane {
            interval,
            ..SlowLane::default()
        });
    }
    if args.congestion_control {
        control(&mut world, args);
    }
    Ok(world)
}

/// Where things are in the plan.
struct Placed {
    plan: Plan,
    names: Vec<String>,
    hosts: Vec<Host>,
    /// The plan's node of each switch of the graph.
    switches: Vec<u32>,
    /// The switch of the graph at which each host is.
    at: Vec<u32>,
    left_out: usize,
}

fn rate(cable: &Cable, args: &FabricSimArgs) -> LinkRate {
    let mut link = cable.link;
    if let Some((width, speed)) = args.link {
        (link.width, link.speed) = (width, speed);
    }
    LinkRate::new(link.kbps(), link.width.lanes() as u8)
}

impl Placed {
    fn new(topology: &Topology, graph: &Graph, args: &FabricSimArgs) -> Placed {
        let switches: BTreeMap<u64, usize> = (graph.switches().iter().enumerate())
            .map(|(at, switch)| (switch.guid.0, at))
            .collect();
        let ends: BTreeMap<(u64, u8), usize> = (graph.ends().iter().enumerate())
            .map(|(at, end)| ((end.node.0, end.number), at))
            .collect();
        let mut placed = Placed {
            plan: Plan::default(),
            names: Vec::new(),
            hosts: Vec::new(),
            switches: vec![u32::MAX; graph.switches().len()],
            at: Vec::new(),
            left_out: 0,
        };
        let mut nodes: BTreeMap<PortId, (u32, u8)> = BTreeMap::new();
        for id in topology.ids_of(NodeKind::Switch) {
            let about = topology.node(id);
            let Some(&index) = switches.get(&about.guid.0) else {
                continue;
            };
            let node = placed.plan.nodes.len() as u32;
            placed.switches[index] = node;
            placed.plan.nodes.push(PlanNode::Switch(about.ports));
            placed.names.push(about.name.clone());
            for port in 1..=about.ports {
                nodes.insert(PortId { node: id, port }, (node, port));
            }
        }
        for id in topology
            .ids()
            .filter(|id| topology.node(*id).kind != NodeKind::Switch)
        {
            let about = topology.node(id);
            for port in 1..=about.ports {
                let here = PortId { node: id, port };
                let Some(cable) = topology.cable_at(here) else {
                    continue;
                };
                let end = ends.get(&(about.guid.0, port)).map(|at| &graph.ends()[*at]);
                let Some((end, at)) = end.and_then(|end| Some((end, end.attached?))) else {
                    placed.left_out += 1;
                    continue;
                };
                let node = placed.plan.nodes.len() as u32;
                nodes.insert(here, (node, 1));
                placed.plan.nodes.push(PlanNode::Adapter(end.lid));
                placed.names.push(match about.ports {
                    1 => about.name.clone(),
                    _ => format!("{} port {port}", about.name),
                });
                placed.at.push(at.0);
                placed.hosts.push(Host {
                    node,
                    at: (placed.switches[at.0 as usize], at.1),
                    lid: end.lid,
                    rate: rate(&topology.cables()[cable], args),
                });
            }
        }
        for cable in topology.cables() {
            let ends = cable.ends.map(|end| nodes.get(&end).copied());
            if let [Some(a), Some(b)] = ends {
                placed.plan.links.push(PlanLink {
                    ends: [a, b],
                    rate: rate(cable, args),
                    latency: Time::from_ns(cable.link.latency_ns.into()),
                    bit_error_rate: cable.link.bit_error_rate,
                });
            }
        }
        placed
    }

    fn world(
        &self,
        args: &FabricSimArgs,
        graph: &Graph,
        routing: &Routing,
    ) -> Result<World, Failure> {
        let lanes = match &routing.lanes {
            Lanes::Modulo(lanes) => (*lanes).max(1),
            Lanes::Table(_) => routing.lanes_needed.max(1),
        };
        let lanes = match args.slow_lane {
            None => lanes,
            Some(_) if 2 * lanes <= MOST_DATA_VLS => 2 * lanes,
            Some(_) => {
                return Err(Failure::new(format!(
                    "{} uses {lanes} lanes here, and a slow lane for each would make more than {MOST_DATA_VLS}",
                    args.engine
                ))
                .remedy("--lanes 7 lets it use fewer, if it can"));
            }
        };
        let settings = Settings {
            seed: args.seed,
            buffer_blocks: args.buffer,
            switch: SwitchModel {
                data_vls: lanes,
                buffering: match args.switch {
                    SwitchKind::Voq => Buffering::VirtualOutput,
                    SwitchKind::Fifo | SwitchKind::Capped => Buffering::Fifo,
                },
                crossbar: match args.switch {
                    SwitchKind::Capped => Crossbar::Shared,
                    SwitchKind::Voq | SwitchKind::Fifo => Crossbar::Full,
                },
                pick: match args.pick {
                    PickKind::Turn => Pick::RoundRobin,
                    PickKind::Random => Pick::Random,
                },
                marking: args.congestion_control.then_some(Marking {
                    threshold_blocks: args.mark_at.div_ceil(BLOCK),
                    marking_rate: args.mark_gap,
                    smallest_bytes: 64,
                }),
                ..SwitchModel::default()
            },
            threads: match args.threads {
                Some(threads) => threads.into(),
                None => std::thread::available_parallelism().map_or(1, usize::from),
            },
            ..Settings::default()
        };
        let net =
            Net::new(&self.plan, settings).map_err(|error| Failure::new(error.to_string()))?;
        let is_switch = |node: u32| matches!(self.plan.nodes[node as usize], PlanNode::Switch(_));
        let ends = self.plan.links.iter().flat_map(|link| link.ends);
        Ok(World {
            net,
            hosts: self.hosts.iter().map(|host| Host { ..*host }).collect(),
            names: self.names.clone(),
            switches: self.switches.len(),
            switch_ports: ends.filter(|(node, _)| is_switch(*node)).count(),
            links: self.plan.links.len(),
            lanes,
            top_lid: graph.top(),
            left_out: self.left_out,
        })
    }
}

/// Tables, lanes and levels, as a manager programs them; the highest service level. With slow lanes the levels with their bit have the lanes behind so many fast ones.
fn program(
    net: &mut Net,
    placed: &Placed,
    graph: &Graph,
    routing: Routing,
    fast_lanes: Option<u8>,
) -> u8 {
    let map_of = |lane_of: &dyn Fn(u8) -> u8| -> [u8; 16] {
        std::array::from_fn(|sl| {
            let sl = sl as u8;
            match fast_lanes {
                Some(fast) if sl >= SLOW => fast + lane_of(sl - SLOW),
                _ => lane_of(sl),
            }
        })
    };
    let mut highest = 0;
    for (index, &node) in (0_u32..).zip(&placed.switches) {
        let Some(switch) = net.switch_mut(node) else {
            continue;
        };
        switch.set_linear(routing.tables.row(index).to_vec());
        let ports = switch.ports();
        if fast_lanes.is_some() || matches!(routing.lanes, Lanes::Table(_)) {
            for input in 0..=ports {
                for output in 1..=ports {
                    let map = map_of(&|sl| routing.lanes.at(index, input, output, sl));
                    switch.set_sl2vl(input, output, map);
                }
            }
        }
        for (port, peer) in (0_u8..=254).zip(&graph.switches()[index as usize].ports) {
            // nobody is behind a host: its port is a root even while it lacks credits
            if matches!(peer, ferriband_subnet::graph::Peer::End(_)) {
                switch.set_victim_mask(port, true);
            }
        }
    }
    let mut levels: BTreeMap<u32, Arc<[u8]>> = BTreeMap::new();
    for (host, &at) in placed.hosts.iter().zip(&placed.at) {
        let Some(adapter) = net.adapter_mut(host.node) else {
            continue;
        };
        adapter.set_sl2vl(map_of(&|sl| routing.lanes.of_host(sl)));
        if matches!(routing.levels, ServiceLevels::Same(0)) {
            continue;
        }
        let made = levels.entry(at).or_insert_with(|| {
            (0..=graph.top())
                .map(|lid| routing.level(graph, at, lid))
                .collect()
        });
        highest = made.iter().copied().fold(highest, u8::max);
        adapter.set_path_levels(made);
    }
    highest
}

/// Congestion control at all senders.
fn control(world: &mut World, args: &FabricSimArgs) {
    let packet = |host: &Host| host.rate.wire_time(u32::from(args.mtu + PACKET_OVERHEAD));
    let slowest = world.hosts.iter().map(packet).max().unwrap_or(Time(1));
    let throttle = Arc::new(Throttle {
        table: Throttle::even(128, 1),
        increase: 1,
        timer: args.recover.unwrap_or(Time(120 * slowest.0)).max(Time(1)),
        minimum: 0,
        scope: Scope::QueuePair,
    });
    for host in &world.hosts {
        if let Some(adapter) = world.net.adapter_mut(host.node) {
            adapter.set_throttle(&throttle);
        }
    }
}
