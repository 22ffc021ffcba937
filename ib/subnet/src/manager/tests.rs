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
            loss,
        }
    }

    fn sweep(&mut self) -> Event {
        self.manager.sweep();
        loop {
            let mut came = Vec::new();
            while let Some(smp) = self.manager.poll_transmit(Instant(self.now)) {
                self.sent += 1;
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
            Event::Failed(error) => panic!("{error}"),
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
        // by LID, from the manager's port, to everybody
        for lid in 1..=subnet.graph.top() as u16 {
            let mut came = Vec::new();
            let who = Smp::new(Method::GET, attribute::NODE_INFO, 0);
            world
                .plane
                .send(Time::ZERO, world.at, who, Lid(lid), &mut came);
            let info: NodeInfo = came[0].smp.data_as().unwrap();
            let guid = match subnet.graph.owner(lid.into()) {
                Owner::Switch(switch) => subnet.graph.switches()[switch as usize].guid,
                Owner::End(end) => subnet.graph.ends()[end as usize].node,
                Owner::Nobody => continue,
            };
            assert_eq!(info.node_guid, guid);
        }
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
