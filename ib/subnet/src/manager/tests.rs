//! A manager brings fabrics up, over the agents of `ferriband-fabric`, on a wire that may lose packets.

use super::*;
use crate::check;
use crate::graph::Owner;
use crate::routing;
use ferriband_fabric::Time;
use ferriband_fabric::manage::{Place, Plane};
use ferriband_topology::{NodeKind, netlist};
use ferriband_wire::Lid;
use ferriband_wire::attributes::{NodeInfo, PortState};
use ferriband_wire::smp::attribute;

/// A wire that loses every `loss`-th packet (0: none).
struct World {
    plane: Plane,
    manager: Manager,
    at: Place,
    now: u64,
    sent: u64,
    /// Of those, what tells something.
    sets: u64,
    loss: u64,
}

impl World {
    fn new(netlist: &str, host: &str, loss: u64) -> World {
        let plane = Plane::new(netlist::parse(netlist).unwrap());
        let node = plane.topology().find(host).unwrap();
        World {
            at: Place { node, port: 1 },
            manager: Manager::new(Config::new(1, *routing::Engine::find("updn").unwrap()), 7),
            plane,
            now: 0,
            sent: 0,
            sets: 0,
            loss,
        }
    }

    fn sweep(&mut self) -> Event {
        self.manager.sweep();
        self.go_on()
    }

    /// Until something has happened.
    fn go_on(&mut self) -> Event {
        loop {
            let mut came = Vec::new();
            while let Some(smp) = self.manager.poll_transmit(Instant(self.now)) {
                self.sent += 1;
                self.sets += u64::from(smp.method == Method::SET);
                if self.loss == 0 || !self.sent.is_multiple_of(self.loss) {
                    let time = Time::from_ns(self.now);
                    self.plane.send(time, self.at, smp, Lid(0), &mut came);
                }
            }
            for delivery in &came {
                assert!(self.manager.handle_smp(&delivery.smp));
                assert!(!self.manager.handle_smp(&delivery.smp), "once");
            }
            if let Some(event) = self.manager.poll_event() {
                return event;
            }
            if came.is_empty() {
                let due = self
                    .manager
                    .poll_timeout()
                    .expect("something is outstanding");
                self.now = self.now.max(due.0);
                self.manager.handle_timeout(Instant(self.now));
            }
            self.now += 1_000;
        }
    }

    fn up(&mut self) -> Box<Subnet> {
        match self.sweep() {
            Event::Up(subnet) => subnet,
            other => panic!("{other:?}"),
        }
    }

    /// Asks every node who it is, by LID from the manager's port.
    fn everybody_is_reached(&mut self, subnet: &Subnet) {
        for lid in 1..=subnet.graph.top() as u16 {
            let guid = match subnet.graph.owner(lid.into()) {
                Owner::Switch(switch) => subnet.graph.switches()[switch as usize].guid,
                Owner::End(end) => subnet.graph.ends()[end as usize].node,
                Owner::Nobody => continue,
            };
            let mut came = Vec::new();
            let who = Smp::new(Method::GET, attribute::NODE_INFO, 0);
            self.plane
                .send(Time::ZERO, self.at, who, Lid(lid), &mut came);
            let info: NodeInfo = came[0].smp.data_as().unwrap();
            assert_eq!(info.node_guid, guid);
        }
    }
}

/// Two levels: `leaves` switches with `hosts` hosts each, all joined with `spines` others.
fn tree(leaves: usize, spines: usize, hosts: usize) -> String {
    let mut text = String::new();
    for leaf in 0..leaves {
        text += &format!("\nSwitch\t36 \"L{leaf}\"\n");
        for spine in 0..spines {
            text += &format!("[{}]\t\"S{spine}\"[{}]\n", hosts + spine + 1, leaf + 1);
        }
        for host in 0..hosts {
            text += &format!("[{}]\t\"H{leaf}_{host}\"[1]\n", host + 1);
        }
    }
    for spine in 0..spines {
        text += &format!("\nSwitch\t36 \"S{spine}\"\n");
    }
    for leaf in 0..leaves {
        for host in 0..hosts {
            text += &format!("\nHca\t1 \"H{leaf}_{host}\"\n");
        }
    }
    text
}

#[test]
fn a_fabric_comes_up_and_every_lid_leads_where_it_should() {
    for loss in [0, 11] {
        let mut world = World::new(&tree(4, 2, 3), "H0_0", loss);
        let subnet = world.up();
        assert_eq!(subnet.trouble, []);
        assert_eq!(
            (subnet.graph.switches().len(), subnet.graph.ends().len()),
            (6, 12)
        );
        for id in world.plane.topology().ids() {
            let node = world.plane.node(id);
            for (number, port) in (0_u8..=254).zip(&node.ports) {
                let wired = world.plane.topology().peer(ferriband_topology::PortId {
                    node: id,
                    port: number,
                });
                if wired.is_some() {
                    assert_eq!(port.info.state, PortState::ACTIVE);
                }
            }
        }
        world.everybody_is_reached(&subnet);
        let report = check::check(&subnet.graph, &subnet.routing);
        assert!(report.is_good(), "{report:?}");
    }
}

#[test]
fn what_is_gone_is_left_out_and_who_stays_keeps_its_lid() {
    let mut world = World::new(&tree(3, 2, 2), "H0_0", 0);
    let before = world.up();
    let gone = world.plane.topology().find("L1").unwrap();
    world.plane.set_power(gone, false);
    let after = world.up();
    assert_eq!(
        (after.graph.switches().len(), after.graph.ends().len()),
        (4, 4)
    );
    for end in after.graph.ends() {
        let same = before
            .graph
            .ends()
            .iter()
            .find(|other| other.guid == end.guid)
            .unwrap();
        assert_eq!(same.lid, end.lid);
    }
    world.plane.set_power(gone, true);
    let again = world.up();
    assert_eq!(again.graph, before.graph);
}

#[test]
fn lids_of_another_manager_stay_if_they_are_each_of_one_port() {
    let text = tree(3, 2, 2);
    let fresh = World::new(&text, "H0_0", 0).up();
    let mut world = World::new(&text, "H0_0", 0);
    let give = |world: &mut World, name: &str, lid: u16| {
        let node = world.plane.topology().find(name).unwrap();
        let node = world.plane.node_mut(node);
        let port = usize::from(node.switch.is_none());
        node.ports[port].info.lid = Lid(lid);
    };
    let lid_of = |world: &World, name: &str| {
        let node = world.plane.node(world.plane.topology().find(name).unwrap());
        node.ports[usize::from(node.switch.is_none())].info.lid.0
    };
    // two of them have the same, one has what no port can have
    let given = [
        ("H0_0", 7),
        ("S1", 300),
        ("H1_1", 40),
        ("H2_0", 41),
        ("L2", 41),
        ("H2_1", 0xc001),
    ];
    for (name, lid) in given {
        give(&mut world, name, lid);
    }
    let subnet = world.up();
    assert_eq!((subnet.trouble.len(), subnet.graph.ends().len()), (0, 6));
    for (name, lid) in [("H0_0", 7), ("S1", 300), ("H1_1", 40)] {
        assert_eq!(lid_of(&world, name), lid, "{name}");
    }
    let one = ["H2_0", "L2"].map(|name| lid_of(&world, name) == 41);
    assert!(one[0] != one[1], "one of them has it");
    world.everybody_is_reached(&subnet);

    // ours are given anew by another while this one stands by
    world.manager.give_up();
    give(&mut world, "H0_1", 9);
    let subnet = world.up();
    assert_eq!(lid_of(&world, "H0_1"), 9);
    world.everybody_is_reached(&subnet);
    // nobody has had one: as ever
    assert_eq!(World::new(&text, "H0_0", 0).up().graph, fresh.graph);
    assert_eq!(fresh.graph.top(), 11);
    // with several LIDs a port, those are left that are the first of their row
    let mut world = World::new(&text, "H0_0", 0);
    world.manager.config.lmc = 2;
    for (name, lid) in [("H0_0", 8), ("H1_1", 13), ("H2_0", 16)] {
        give(&mut world, name, lid);
    }
    let subnet = world.up();
    assert_eq!([lid_of(&world, "H0_0"), lid_of(&world, "H2_0")], [8, 16]);
    assert!(lid_of(&world, "H1_1").is_multiple_of(4));
    world.everybody_is_reached(&subnet);
}

#[test]
fn a_sweep_tells_only_what_is_other_than_before() {
    let mut world = World::new(&tree(3, 2, 2), "H0_0", 0);
    let first = world.up();
    let told = std::mem::take(&mut world.sets);
    let second = world.up();
    assert_eq!((world.sets, &second.graph), (0, &first.graph), "of {told}");
    world.everybody_is_reached(&second);

    // a switch that was off meanwhile has lost everything, and gets its own tables again, and nobody else any
    let node = world.plane.topology().find("S1").unwrap();
    world.plane.set_power(node, false);
    world.plane.set_power(node, true);
    let third = world.up();
    assert_eq!(third.graph, first.graph);
    world.everybody_is_reached(&third);
    let blocks = u64::from(third.graph.top() / 64 + 1);
    // its SwitchInfo, port 0, three cables Armed and Active at both ends, and of the leaves that have seen it SwitchInfo
    assert_eq!(std::mem::take(&mut world.sets), blocks + 2 + 12 + 3);

    // what another has written unseen is told again if everything is
    world.manager.sweep_all();
    let Event::Up(_) = world.go_on() else {
        panic!("it does not come up")
    };
    assert!(world.sets >= 5 * blocks, "{}", world.sets);
}

#[test]
fn every_lane_that_is_used_takes_turns_on_every_link() {
    let shape = ferriband_topology::generate::generate("ring:5:1").unwrap();
    let text = netlist::write(&shape);
    let host = shape.ids_of(NodeKind::Ca).next().unwrap();
    let mut world = World::new(&text, &shape.node(host).name, 0);
    world.manager = Manager::new(Config::new(1, *routing::Engine::find("lash").unwrap()), 7);
    // what was there before is not relied on
    for id in shape.ids() {
        for port in &mut world.plane.node_mut(id).ports {
            port.arbitration = Default::default();
        }
    }
    let subnet = world.up();
    let lanes = usize::from(subnet.routing.lanes_needed);
    assert!(lanes > 1);
    for id in shape.ids() {
        let node = world.plane.node(id);
        for port in node
            .ports
            .iter()
            .filter(|port| port.info.state == PortState::ACTIVE)
        {
            let number = port.info.local_port;
            if number == 0 {
                continue;
            }
            let low = port.arbitration[0].0;
            for (vl, entry) in low.iter().take(lanes).enumerate() {
                assert_eq!((usize::from(entry.vl.0), entry.weight), (vl, 64));
            }
            assert!(low[lanes..].iter().all(|entry| entry.weight == 0));
        }
    }
    world.sets = 0;
    world.up();
    assert_eq!(world.sets, 0, "it is told once");
}

#[test]
fn a_light_sweep_asks_the_switches_alone_until_one_has_changed() {
    let mut world = World::new(&tree(3, 2, 2), "H0_0", 0);
    world.manager.look();
    assert!(!world.manager.is_sweeping(), "nothing is known yet");
    let before = world.up();
    world.sent = 0;
    for _ in 0..2 {
        world.manager.look();
        assert_eq!(world.go_on(), Event::Same);
    }
    assert_eq!(world.sent, 2 * 5);
    // a host that is switched off is seen by its switch
    let gone = world.plane.topology().find("H2_1").unwrap();
    world.plane.set_power(gone, false);
    world.manager.look();
    let Event::Up(after) = world.go_on() else {
        panic!("the change is not seen")
    };
    assert_eq!(after.graph.ends().len() + 1, before.graph.ends().len());
    world.manager.look();
    assert_eq!(world.go_on(), Event::Same, "it is seen once");
    // a switch that does not answer has changed, whatever others say
    world.manager.look();
    world.loss = 1;
    while world.manager.poll_event().is_none() {
        let due = world.manager.poll_timeout();
        while world.manager.poll_transmit(Instant(world.now)).is_some() {}
        world.now += due.map_or(1, |due| due.0 - world.now);
        world.manager.handle_timeout(Instant(world.now));
    }
    assert!(world.sent > 15, "it has swept, and given up");
}

#[test]
fn a_manager_alone_says_so() {
    let mut world = World::new("Hca 1 \"h\"\n\nHca 1 \"g\"\n", "h", 0);
    // its own node answers, and that is all there is
    let subnet = world.up();
    assert_eq!(
        (subnet.graph.switches().len(), subnet.graph.ends().len()),
        (0, 1)
    );
    world.loss = 1;
    assert_eq!(world.sweep(), Event::Failed(SweepError::Alone));
}

#[test]
fn answers_to_nothing_are_passed_over() {
    let mut world = World::new(&tree(2, 1, 1), "H0_0", 0);
    world.manager.sweep();
    let smp = world.manager.poll_transmit(Instant(0)).unwrap();
    let mut lie = Smp {
        method: Method::GET_RESP,
        ..smp
    };
    lie.attribute = attribute::PORT_INFO;
    assert!(!world.manager.handle_smp(&lie), "another attribute");
    assert!(!world.manager.handle_smp(&Smp {
        transaction_id: TransactionId(1),
        ..lie
    }));
    assert!(!world.manager.handle_smp(&smp), "no answer");
    assert!(world.manager.is_sweeping());
    assert_eq!(world.plane.topology().ids_of(NodeKind::Switch).count(), 3);
}

/// Sends what there is to send, and hears the answers, until that leads to nothing more.
fn until_quiet(world: &mut World) {
    loop {
        let mut came = Vec::new();
        while let Some(smp) = world.manager.poll_transmit(Instant(world.now)) {
            world
                .plane
                .send(Time::ZERO, world.at, smp, Lid(0), &mut came);
        }
        if came.is_empty() {
            return;
        }
        for delivery in &came {
            assert!(world.manager.handle_smp(&delivery.smp));
        }
    }
}

fn states(world: &World) -> Vec<PortState> {
    let nodes = world.plane.topology().ids().map(|id| world.plane.node(id));
    let ports = nodes.flat_map(|node| node.ports.iter().skip(1));
    ports.map(|port| port.info.state).collect()
}

#[test]
fn who_drives_the_manager_may_compute_the_routes_while_ports_are_told() {
    let text = tree(4, 2, 3);
    let within = World::new(&text, "H0_0", 0).up();
    let mut world = World::new(&text, "H0_0", 0);
    world.manager.config.aside = true;
    world.manager.sweep();
    until_quiet(&mut world);
    let given_up = world.manager.poll_work().expect("routes are wanted");
    assert!(world.manager.poll_work().is_none(), "once");
    // all that can be said without routes is said
    assert!(states(&world).contains(&PortState::ARMED));
    assert!(!states(&world).contains(&PortState::ACTIVE));
    assert!(world.manager.is_sweeping() && world.manager.poll_event().is_none());

    // routes of a sweep that was given up are no routes of this one
    world.manager.sweep();
    until_quiet(&mut world);
    world.manager.handle_routes(given_up.run());
    until_quiet(&mut world);
    assert!(!states(&world).contains(&PortState::ACTIVE));
    let work = world.manager.poll_work().expect("routes are wanted");
    let routed = std::thread::spawn(move || work.run()).join();
    world.manager.handle_routes(routed.unwrap());
    until_quiet(&mut world);
    let Some(Event::Up(subnet)) = world.manager.poll_event() else {
        panic!("it does not come up")
    };
    assert_eq!(
        (&subnet.graph, &subnet.routing),
        (&within.graph, &within.routing)
    );
    assert!(!states(&world).contains(&PortState::ARMED));
    world.everybody_is_reached(&subnet);
}

#[test]
fn where_there_are_no_routes_no_link_goes_active() {
    let shape = ferriband_topology::generate::generate("ring:5:1").unwrap();
    let host = shape.ids_of(NodeKind::Ca).next().unwrap();
    let host = shape.node(host).name.clone();
    for aside in [false, true] {
        let mut world = World::new(&netlist::write(&shape), &host, 0);
        // a ring is no tree
        let mut config = Config::new(1, *routing::Engine::find("ftree").unwrap());
        config.aside = aside;
        world.manager = Manager::new(config, 7);
        world.manager.sweep();
        until_quiet(&mut world);
        if let Some(work) = world.manager.poll_work() {
            assert!(aside);
            world.manager.handle_routes(work.run());
        }
        let event = world.manager.poll_event();
        assert!(
            matches!(event, Some(Event::Failed(SweepError::Route(_)))),
            "{event:?}"
        );
        assert!(!world.manager.is_sweeping());
        assert!(world.manager.poll_transmit(Instant(0)).is_none());
        let armed = states(&world).contains(&PortState::ARMED);
        assert_eq!(armed, aside);
        assert!(!states(&world).contains(&PortState::ACTIVE));
    }
}

#[test]
fn a_fabric_that_its_engine_refuses_after_a_failure_is_routed_by_another() {
    for aside in [false, true] {
        let mut world = World::new(&tree(4, 3, 2), "H0_0", 0);
        let find = |name| *routing::Engine::find(name).unwrap();
        let mut config = Config::new(1, find("ftree"));
        (config.aside, config.instead) = (aside, vec![find("dor"), find("updn")]);
        world.manager = Manager::new(config, 7);
        let up = |world: &mut World| {
            world.manager.sweep();
            loop {
                until_quiet(world);
                if let Some(work) = world.manager.poll_work() {
                    world.manager.handle_routes(work.run());
                }
                match world.manager.poll_event() {
                    Some(Event::Up(subnet)) => return subnet,
                    // packets under way may be waited for
                    None => world.now += 1_000_000,
                    other => panic!("{other:?}"),
                }
            }
        };
        let whole = up(&mut world);
        assert_eq!(whole.refused, None);
        cut(&mut world, "L0", 4);
        let less = up(&mut world);
        assert!(
            matches!(
                less.refused,
                Some(RouteError::WrongShape {
                    engine: "ftree",
                    ..
                })
            ),
            "{:?}",
            less.refused
        );
        assert_eq!(less.trouble, []);
        world.everybody_is_reached(&less);
    }
}

/// Cuts what a port is joined with.
fn cut(world: &mut World, node: &str, port: u8) {
    let topology = world.plane.topology();
    let end = ferriband_topology::PortId {
        node: topology.find(node).unwrap(),
        port,
    };
    let cable = topology.cable_at(end).unwrap();
    world.plane.set_cable(cable, false);
}

/// The forwarding tables that a graph's switches have at the moment, with what else a routing says.
fn programmed(world: &World, graph: &Graph, routing: &Routing) -> Routing {
    let mut now = routing.clone();
    for (index, switch) in (0..).zip(graph.switches()) {
        let mut nodes = world.plane.topology().ids().map(|id| world.plane.node(id));
        let node = nodes.find(|node| node.guid == switch.guid).unwrap();
        let tables = node.switch.as_ref().unwrap();
        for lid in 1..=graph.top() {
            let port = tables.port_of(Lid(lid as u16));
            now.tables.set(index, lid, port.unwrap_or(routing::NO_PORT));
        }
    }
    now
}

#[test]
fn while_routes_change_no_tables_that_are_there_together_have_a_circle() {
    let circle = |graph: &Graph, routings: &[&Routing]| {
        check::deadlock(graph, routings, check::Scope::Hosts)
    };
    let (mut stops, mut drains) = (0, 0);
    for shape in ["ring:5:1", "torus:3x3:1", "mesh:4x3:1"] {
        let shape = ferriband_topology::generate::generate(shape).unwrap();
        let host = shape.ids_of(NodeKind::Ca).next().unwrap();
        let text = netlist::write(&shape);
        let mut world = World::new(&text, &shape.node(host).name, 0);
        let shape = world.plane.topology().clone();
        let mut before = world.up();
        for (cable, about) in shape.cables().iter().enumerate() {
            let ends = about.ends;
            if ends
                .iter()
                .any(|end| shape.node(end.node).kind == NodeKind::Ca)
            {
                continue;
            }
            for up in [false, true] {
                world.plane.set_cable(cable, up);
                world.manager.sweep();
                until_quiet(&mut world);
                let waits = world.manager.poll_event();
                let (subnet, between) = match waits {
                    Some(Event::Up(subnet)) => (subnet, None),
                    None => {
                        let held = programmed(&world, &before.graph, &before.routing);
                        assert!(world.manager.poll_timeout().unwrap().0 > world.now);
                        world.now += world.manager.config.drain_ns - 1;
                        until_quiet(&mut world);
                        assert_eq!(programmed(&world, &before.graph, &before.routing), held);
                        world.now += 1;
                        until_quiet(&mut world);
                        let Some(Event::Up(subnet)) = world.manager.poll_event() else {
                            panic!("it does not come up")
                        };
                        (subnet, Some(held))
                    }
                    other => panic!("{other:?}"),
                };
                // all switches are there all the time, so they have the same numbers
                let graph = &subnet.graph;
                assert_eq!(programmed(&world, graph, &subnet.routing), subnet.routing);
                assert_eq!(between.is_some(), subnet.stopped > 0);
                match between {
                    None => assert_eq!(circle(graph, &[&before.routing, &subnet.routing]), None),
                    Some(held) => {
                        drains += 1;
                        stops += subnet.stopped;
                        assert!(circle(graph, &[&before.routing, &subnet.routing]).is_some());
                        assert_eq!(circle(graph, &[&before.routing, &held]), None);
                        assert_eq!(circle(graph, &[&held, &subnet.routing]), None);
                    }
                }
                before = subnet;
            }
        }
    }
    assert!(drains > 10 && stops > 2 * drains, "{stops} in {drains}");
}

#[test]
fn lanes_change_while_what_could_close_a_circle_is_stopped_everywhere() {
    let shape = ferriband_topology::generate::generate("torus:4x4:1").unwrap();
    let host = shape.ids_of(NodeKind::Ca).next().unwrap();
    let text = netlist::write(&shape);
    let mut world = World::new(&text, &shape.node(host).name, 0);
    // from one engine to another, as where one refuses what is left of a fabric: their lanes are not the same
    let mut before = world.up();
    let (mut stops, mut lanes) = (0, 0);
    for engine in ["torus-2qos", "updn", "lash", "torus-2qos", "lash", "updn"] {
        world.manager.config.engine = *routing::Engine::find(engine).unwrap();
        world.manager.sweep();
        until_quiet(&mut world);
        let held = programmed(&world, &before.graph, &before.routing);
        let mut told = Vec::new();
        let subnet = loop {
            if let Some(Event::Up(subnet)) = world.manager.poll_event() {
                break subnet;
            }
            world.now += 1_000_000;
            let mut came = Vec::new();
            while let Some(smp) = world.manager.poll_transmit(Instant(world.now)) {
                told.push(smp.attribute);
                world
                    .plane
                    .send(Time::ZERO, world.at, smp, Lid(0), &mut came);
            }
            for delivery in &came {
                assert!(world.manager.handle_smp(&delivery.smp));
            }
        };
        let (graph, after) = (&subnet.graph, &subnet.routing);
        assert_eq!(programmed(&world, graph, after), *after, "{engine}");
        stops += subnet.stopped;
        if subnet.stopped > 0 {
            // none of their entries is left, and all lanes are told before any port is
            let gone = (1..=graph.top()).filter(|lid| {
                let switches = 0..graph.switches().len() as u32;
                let mut ports = switches.map(|switch| held.tables.port(switch, *lid));
                ports.all(|port| port == routing::NO_PORT)
            });
            assert_eq!(gone.count(), subnet.stopped, "{engine}");
            let last = told.iter().rposition(|of| *of == attribute::SL_TO_VL);
            let first = told
                .iter()
                .position(|of| *of == attribute::LINEAR_FORWARDING);
            assert!(last < first, "{engine}: {told:?}");
            lanes += u32::from(last.is_some());
        }
        before = subnet;
    }
    assert!(stops > 0 && lanes > 1, "{stops} {lanes}");
}

#[test]
fn what_a_sweep_that_was_given_up_may_have_told_is_told_again() {
    let mut world = World::new(&tree(3, 2, 2), "H0_0", 0);
    let whole = world.up();
    cut(&mut world, "L0", 3);
    // it is heard, and answered, and nobody listens any more
    world.manager.sweep();
    let mut lost = 0;
    while lost == 0 {
        let mut came = Vec::new();
        while let Some(smp) = world.manager.poll_transmit(Instant(world.now)) {
            lost += u32::from(smp.attribute == attribute::LINEAR_FORWARDING);
            world
                .plane
                .send(Time::ZERO, world.at, smp, Lid(0), &mut came);
        }
        if lost == 0 && came.is_empty() {
            world.now += world.manager.config.drain_ns;
        }
        for delivery in came.iter().filter(|_| lost == 0) {
            world.manager.handle_smp(&delivery.smp);
        }
    }
    let end = world.plane.topology().find("L0").unwrap();
    let end = ferriband_topology::PortId { node: end, port: 3 };
    let cable = world.plane.topology().cable_at(end).unwrap();
    world.plane.set_cable(cable, true);
    let again = world.up();
    assert_eq!(again.routing, whole.routing);
    assert_eq!(
        programmed(&world, &again.graph, &again.routing),
        again.routing
    );
}

#[test]
fn rows_of_groups_are_those_of_the_last_sweep_in_every_column() {
    let mut world = World::new(&tree(2, 1, 20), "H0_0", 0);
    let leaf = world.plane.topology().find("L0").unwrap();
    let guid = world.plane.node(leaf).guid;
    let group = Lid(0xc001);
    let rows = |world: &World| {
        let tables = world.plane.node(leaf).switch.as_ref().unwrap();
        let copies = tables.copies(group);
        (copies[0], copies[1], copies[2])
    };
    let tell = |world: &mut World, subnet: &Subnet, members: [u64; 2]| {
        let trees = subnet.graph.switches().iter().map(|switch| {
            let own = switch.guid == guid;
            [if own { members[0] } else { members[1] }, 0, 0, 0]
        });
        let trees = [(group.0, trees.collect())];
        world.manager.tell_trees(subnet, &trees);
        until_quiet(world);
    };
    // another manager's rows, of ports in the second and the third column
    let tables = world.plane.node_mut(leaf).switch.as_mut().unwrap();
    for position in [1, 2] {
        assert!(tables.set_multicast_block(0, position, &[6; 32]));
    }
    let subnet = world.up();
    tell(&mut world, &subnet, [0b10, 0]);
    assert_eq!(rows(&world), (0b10, 0, 0));
    // a member at port 18, which a sweep later is gone
    tell(&mut world, &subnet, [0b10 | 1 << 18, 0]);
    assert_eq!(rows(&world), (0b10, 0b100, 0));
    let subnet = world.up();
    tell(&mut world, &subnet, [0b10, 0]);
    assert_eq!(rows(&world), (0b10, 0, 0));
    // and a group that is gone when all are told anew
    tell(&mut world, &subnet, [0b10 | 1 << 18, 0]);
    let subnet = world.up();
    world.manager.tell_trees(&subnet, &[]);
    until_quiet(&mut world);
    assert_eq!(rows(&world), (0, 0, 0));
}
