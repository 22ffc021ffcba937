//! A small manager by hand: what it finds, what it may set, and what strangers may not.

use super::agent::KNOWS_EXTENDED_SPEEDS;
use super::*;
use crate::Time;
use ferriband_topology::{NodeId, NodeKind, PortId, netlist};
use ferriband_wire::attributes::{
    LinearForwardingBlock, MlnxExtendedPortInfo, NodeInfo, NodeType, PhysState, PortInfo,
    PortState, SwitchInfo,
};
use ferriband_wire::mad::{MadStatus, Method};
use ferriband_wire::smp::{DirectedRoute, Direction, Route, Smp, attribute};
use ferriband_wire::{Guid, Header, Lid, MKey, TransactionId};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Three switches in a ring, a host at each, and one with two ports between two of them.
const RING: &str = r#"
Hca	1 "h0"
[1]	"s0"[3]

Switch	4 "s0"
[1]	"s1"[2]
[2]	"s2"[1]

Switch	4 "s1"
[1]	"s2"[2]
[3]	"h1"[1]
[4]	"h3"[1]

Switch	4 "s2"
[3]	"h2"[1]
[4]	"h3"[2]

Hca	1 "h1"

Hca	1 "h2"

Hca	2 "h3"
"#;

struct Manager {
    plane: Plane,
    at: Place,
    next: u64,
    now: Time,
}

impl Manager {
    fn new() -> Manager {
        Manager::of(RING)
    }

    fn of(fabric: &str) -> Manager {
        let plane = Plane::new(netlist::parse(fabric).unwrap());
        Manager {
            at: Place {
                node: plane.topology().find("h0").unwrap(),
                port: 1,
            },
            plane,
            next: 1,
            now: Time::ZERO,
        }
    }

    fn find(&self, name: &str) -> NodeId {
        self.plane.topology().find(name).unwrap()
    }

    fn ask(&mut self, mut smp: Smp, dlid: Lid) -> Option<Smp> {
        smp.transaction_id = TransactionId(self.next);
        self.next += 1;
        let mut came = Vec::new();
        self.plane.send(self.now, self.at, smp, dlid, &mut came);
        assert!(came.len() <= 1);
        let answer = came.pop()?;
        assert_eq!(answer.at, self.at);
        assert_eq!(answer.smp.transaction_id, smp.transaction_id);
        Some(answer.smp)
    }

    fn by(
        path: &[u8],
        method: Method,
        attribute: ferriband_wire::mad::AttributeId,
        modifier: u32,
    ) -> Smp {
        Smp {
            route: Route::Directed(DirectedRoute::new(path).unwrap()),
            ..Smp::new(method, attribute, modifier)
        }
    }

    fn get<A: Header>(
        &mut self,
        path: &[u8],
        attribute: ferriband_wire::mad::AttributeId,
        modifier: u32,
    ) -> Option<A> {
        let answer = self.ask(Self::by(path, Method::GET, attribute, modifier), Lid(0))?;
        assert_eq!(answer.method, Method::GET_RESP);
        (answer.status == MadStatus::OK).then(|| answer.data_as().unwrap())
    }

    fn set<A: Header>(
        &mut self,
        path: &[u8],
        attribute: ferriband_wire::mad::AttributeId,
        modifier: u32,
        value: &A,
        key: MKey,
    ) -> Option<MadStatus> {
        let mut smp = Self::by(path, Method::SET, attribute, modifier);
        smp.mkey = key;
        smp.set_data(value).unwrap();
        self.ask(smp, Lid(0)).map(|answer| answer.status)
    }

    fn port(&mut self, path: &[u8], port: u8) -> PortInfo {
        self.get(path, attribute::PORT_INFO, port.into()).unwrap()
    }

    /// Breadth first by directed routes: a path to each node by its GUID.
    fn discover(&mut self) -> BTreeMap<u64, (Vec<u8>, NodeInfo)> {
        let mut found = BTreeMap::new();
        let mut paths = std::collections::VecDeque::from([Vec::new()]);
        while let Some(path) = paths.pop_front() {
            let Some(info) = self.get::<NodeInfo>(&path, attribute::NODE_INFO, 0) else {
                continue;
            };
            if found.contains_key(&info.node_guid.0) {
                continue;
            }
            let ports = match (info.node_type, path.is_empty()) {
                (NodeType::SWITCH, _) => 1..=info.num_ports,
                (_, true) => 1..=1,
                // an adapter passes nothing on
                _ => 0..=0,
            };
            for port in ports.filter(|port| *port > 0) {
                if self.port(&path, port).state != PortState::DOWN {
                    paths.push_back([&path[..], &[port]].concat());
                }
            }
            found.insert(info.node_guid.0, (path, info));
        }
        found
    }
}

#[test]
fn everything_is_found_by_directed_routes() {
    let mut manager = Manager::new();
    let found = manager.discover();
    assert_eq!(found.len(), 7);
    for id in manager.plane.topology().ids() {
        let node = manager.plane.topology().node(id).clone();
        let (_, info) = &found[&node.guid.0];
        assert_eq!(info.num_ports, node.ports);
        assert_eq!(
            info.node_type == NodeType::SWITCH,
            node.kind == NodeKind::Switch
        );
    }
    // the port by which it came
    let h3 = manager
        .get::<NodeInfo>(&[1, 1, 4], attribute::NODE_INFO, 0)
        .unwrap();
    let other = manager
        .get::<NodeInfo>(&[1, 2, 4], attribute::NODE_INFO, 0)
        .unwrap();
    assert_eq!((h3.local_port, other.local_port), (1, 2));
    assert_eq!(other.port_guid, Guid(h3.port_guid.0 + 1));
}

#[test]
fn routes_that_lead_nowhere_bring_nothing_back() {
    let mut manager = Manager::new();
    for path in [
        &[2][..],
        &[1, 4],
        &[1, 9],
        &[1, 3, 1],
        &[1, 0],
        &[1, 1, 3, 1],
    ] {
        assert!(
            manager
                .get::<NodeInfo>(path, attribute::NODE_INFO, 0)
                .is_none(),
            "{path:?}"
        );
    }
}

#[test]
fn lids_lead_there_once_tables_are_written() {
    let mut manager = Manager::new();
    let lids = [
        ("h0", &[][..], 1),
        ("s0", &[1], 2),
        ("s1", &[1, 1], 3),
        ("h1", &[1, 1, 3], 0x45),
    ];
    for (_, path, lid) in lids {
        let port = u8::from(path.len() != 1 && path.len() != 2);
        let wanted = PortInfo {
            lid: Lid(lid),
            state: PortState::NO_CHANGE,
            phys_state: PhysState::NO_CHANGE,
            ..manager.port(path, port)
        };
        let done = manager.set(path, attribute::PORT_INFO, port.into(), &wanted, MKey(0));
        assert_eq!(done, Some(MadStatus::OK));
    }
    for (path, ports) in [(&[1][..], [3, 0, 1, 1]), (&[1, 1], [2, 2, 0, 3])] {
        let mut first = LinearForwardingBlock([255; 64]);
        first.0[1..4].copy_from_slice(&ports[..3]);
        let mut second = LinearForwardingBlock([255; 64]);
        second.0[5] = ports[3];
        for (block, value) in [(0, first), (1, second)] {
            let done = manager.set(path, attribute::LINEAR_FORWARDING, block, &value, MKey(0));
            assert_eq!(done, Some(MadStatus::OK));
        }
        let info: SwitchInfo = manager.get(path, attribute::SWITCH_INFO, 0).unwrap();
        let top = |lid| SwitchInfo {
            linear_fdb_top: Lid(lid),
            ..info
        };
        let refused = manager.set(path, attribute::SWITCH_INFO, 0, &top(0xc000), MKey(0));
        assert_eq!(refused, Some(MadStatus::INVALID_FIELD));
        let done = manager.set(path, attribute::SWITCH_INFO, 0, &top(0x45), MKey(0));
        assert_eq!(done, Some(MadStatus::OK));
    }
    for (name, _, lid) in lids {
        let answer = manager
            .ask(Smp::new(Method::GET, attribute::NODE_INFO, 0), Lid(lid))
            .unwrap();
        let info: NodeInfo = answer.data_as().unwrap();
        let node = manager.find(name);
        assert_eq!(info.node_guid, manager.plane.node(node).guid, "{name}");
    }
    assert!(
        manager
            .ask(Smp::new(Method::GET, attribute::NODE_INFO, 0), Lid(0x46))
            .is_none()
    );
    // by LID to a switch, from there on by ports, and back the same two ways
    let both = |lid: u16, path: &[u8], name: &str, manager: &mut Manager| {
        let mut route = DirectedRoute::new(path).unwrap();
        route.dr_slid = Lid(1);
        let smp = Smp {
            route: Route::Directed(route),
            ..Smp::new(Method::GET, attribute::NODE_INFO, 0)
        };
        let info: NodeInfo = manager.ask(smp, Lid(lid))?.data_as().unwrap();
        let node = manager.find(name);
        assert_eq!(info.node_guid, manager.plane.node(node).guid, "{name}");
        Some(())
    };
    for (lid, path, name) in [
        (2, &[][..], "s0"),
        (2, &[2], "s2"),
        (3, &[1], "s2"),
        (3, &[4], "h3"),
        (3, &[1, 1, 3], "h0"),
        (3, &[2, 3], "h0"),
        (0x45, &[], "h1"),
        (1, &[1], "s0"),
    ] {
        assert_eq!(
            both(lid, path, name, &mut manager),
            Some(()),
            "{lid} {path:?}"
        );
    }
    // an adapter passes nothing on, and where nobody is the list does not begin
    assert_eq!(both(0x45, &[1], "s1", &mut manager), None);
    assert_eq!(both(9, &[1], "s1", &mut manager), None);
}

#[test]
fn a_manager_may_say_that_it_knows_extended_speeds() {
    let mut manager = Manager::new();
    let wanted = PortInfo {
        state: PortState::ARMED,
        phys_state: PhysState::NO_CHANGE,
        ..manager.port(&[1], 1)
    };
    let modifier = 1 << 31 | 1;
    let done = manager.set(&[1], attribute::PORT_INFO, modifier, &wanted, MKey(0));
    assert_eq!(done, Some(MadStatus::OK));
    assert_eq!(manager.port(&[1], 1).state, PortState::ARMED);
    let beyond = manager.set(&[1], attribute::PORT_INFO, 1 << 31 | 9, &wanted, MKey(0));
    assert_eq!(beyond, Some(MadStatus::INVALID_FIELD));
}

#[test]
fn a_link_goes_up_step_by_step_and_down_at_both_ends() {
    let mut manager = Manager::new();
    let to = |info: PortInfo, state| PortInfo {
        state,
        phys_state: PhysState::NO_CHANGE,
        ..info
    };
    let (s0, s1) = (manager.find("s0"), manager.find("s1"));
    let state =
        |manager: &Manager, node, port: usize| manager.plane.node(node).ports[port].info.state;
    let info = manager.port(&[1], 1);
    let set = |manager: &mut Manager, value: &PortInfo| {
        manager.set(&[1], attribute::PORT_INFO, 1, value, MKey(0))
    };
    let refused = set(&mut manager, &to(info, PortState::ACTIVE));
    assert_eq!(
        refused,
        Some(MadStatus::INVALID_FIELD),
        "not from Initialize"
    );
    for next in [PortState::ARMED, PortState::ACTIVE] {
        assert_eq!(set(&mut manager, &to(info, next)), Some(MadStatus::OK));
        assert_eq!(state(&manager, s0, 1), next);
    }
    // Down trains it anew: both ends begin again
    assert_eq!(
        set(&mut manager, &to(info, PortState::DOWN)),
        Some(MadStatus::OK)
    );
    assert_eq!(state(&manager, s0, 1), PortState::INIT);
    let off = PortInfo {
        phys_state: PhysState::DISABLED,
        ..to(info, PortState::DOWN)
    };
    assert_eq!(set(&mut manager, &off), Some(MadStatus::OK));
    assert_eq!(state(&manager, s0, 1), PortState::DOWN);
    assert_eq!(state(&manager, s1, 2), PortState::DOWN);
    let on = PortInfo {
        phys_state: PhysState::POLLING,
        ..to(info, PortState::DOWN)
    };
    assert_eq!(set(&mut manager, &on), Some(MadStatus::OK));
    assert_eq!(state(&manager, s0, 1), PortState::INIT);
    assert_eq!(state(&manager, s1, 2), PortState::INIT);
    let seen: SwitchInfo = manager.get(&[1, 2], attribute::SWITCH_INFO, 0).unwrap();
    assert!(!seen.port_state_change, "s2 has not been touched");
    let seen: SwitchInfo = manager.get(&[1], attribute::SWITCH_INFO, 0).unwrap();
    assert!(seen.port_state_change);
    manager.set(&[1], attribute::SWITCH_INFO, 0, &seen, MKey(0));
    let seen: SwitchInfo = manager.get(&[1], attribute::SWITCH_INFO, 0).unwrap();
    assert!(!seen.port_state_change, "written 1 to clear");
}

#[test]
fn cut_cables_and_dead_switches_are_seen_by_their_neighbours() {
    let mut manager = Manager::new();
    let cable = manager.plane.topology().cables().iter().position(|cable| {
        cable
            .ends
            .iter()
            .all(|end| manager.plane.node(end.node).kind == NodeKind::Switch)
    });
    manager.plane.set_cable(cable.unwrap(), false);
    assert_eq!(manager.discover().len(), 7, "there is another way");
    let s2 = manager.find("s2");
    manager.plane.set_power(s2, false);
    let left = manager.discover();
    assert!(left.len() < 6 && !left.contains_key(&manager.plane.node(s2).guid.0));
    manager.plane.set_power(s2, true);
    manager.plane.set_cable(cable.unwrap(), true);
    assert_eq!(manager.discover().len(), 7);
}

#[test]
fn a_key_keeps_strangers_out_until_its_lease_ends() {
    let mut manager = Manager::new();
    let own = manager.port(&[1], 0);
    let locked = PortInfo {
        mkey: MKey(7),
        mkey_protect: 2,
        mkey_lease_period_s: 3,
        ..own
    };
    let done = manager.set(&[1], attribute::PORT_INFO, 0, &locked, MKey(0));
    assert_eq!(done, Some(MadStatus::OK));
    let shown = |key| Smp {
        mkey: key,
        ..Manager::by(&[1], Method::GET, attribute::PORT_INFO, 0)
    };
    assert!(manager.ask(shown(MKey(8)), Lid(0)).is_none());
    let changed = PortInfo {
        lid: Lid(9),
        ..locked
    };
    assert!(
        manager
            .set(&[1], attribute::PORT_INFO, 0, &changed, MKey(0))
            .is_none()
    );
    let s0 = manager.find("s0");
    let info = manager.plane.node(s0).ports[0].info;
    assert_eq!(
        (info.lid, info.mkey_violations),
        (own.lid, 2),
        "nothing changed, and it is counted"
    );
    let answer = manager.ask(shown(MKey(7)), Lid(0)).unwrap();
    assert_eq!(answer.data_as::<PortInfo>().unwrap().mkey, MKey(7));
    // the right key stopped the lease; a wrong one begins it anew
    manager.now = Time::from_us(10_000_000);
    assert!(manager.ask(shown(MKey(8)), Lid(0)).is_none());
    manager.now = Time::from_us(12_999_999);
    assert!(manager.ask(shown(MKey(8)), Lid(0)).is_none());
    manager.now = Time::from_us(13_000_000);
    assert!(
        manager.ask(shown(MKey(8)), Lid(0)).is_some(),
        "the lease is over"
    );
}

#[test]
fn what_a_node_has_not_is_an_error() {
    let mut manager = Manager::new();
    let mut status = |path: &[u8], method, attribute, modifier| {
        manager
            .ask(Manager::by(path, method, attribute, modifier), Lid(0))
            .map(|answer| answer.status)
    };
    let (get, set) = (Method::GET, Method::SET);
    let unsupported = Some(MadStatus::UNSUPPORTED_ATTRIBUTE);
    let invalid = Some(MadStatus::INVALID_FIELD);
    assert_eq!(status(&[], get, attribute::SWITCH_INFO, 0), unsupported);
    assert_eq!(
        status(&[], set, attribute::LINEAR_FORWARDING, 0),
        unsupported
    );
    assert_eq!(status(&[1], get, attribute::LED_INFO, 0), unsupported);
    assert_eq!(
        status(&[1], set, attribute::NODE_INFO, 0),
        Some(MadStatus::UNSUPPORTED_METHOD)
    );
    assert_eq!(status(&[1], get, attribute::PORT_INFO, 5), invalid);
    assert_eq!(status(&[1], get, attribute::PKEY_TABLE, 1), invalid);
    assert_eq!(
        status(&[1], get, attribute::VL_ARBITRATION, 5 << 16 | 1),
        invalid
    );
    assert_eq!(status(&[1], get, attribute::SL_TO_VL, 7 << 8 | 1), invalid);
    assert_eq!(
        status(&[1], get, attribute::SL_TO_VL, 2 << 8 | 1),
        Some(MadStatus::OK)
    );
}

#[test]
fn devices_with_a_maker_tell_what_diagnostics_ask_them() {
    let known = RING
        .replace(
            "Switch\t4 \"s0\"",
            "vendid=0x2c9\ndevid=0xc738\nSwitch\t4 \"s0\"",
        )
        .replace("\"s1\"[2]", "\"s1\"[2] # lid 1 4xFDR10");
    let mut manager = Manager::of(&known);
    let asked = attribute::MLNX_EXTENDED_PORT_INFO;
    let fdr10 = MlnxExtendedPortInfo {
        state_change_enable: 0,
        link_speed_supported: 1,
        link_speed_enabled: 1,
        link_speed_active: 1,
    };
    let others = MlnxExtendedPortInfo::default();
    assert_eq!(manager.get(&[1], asked, 1), Some(fdr10));
    for port in [0, 2, 3] {
        assert_eq!(manager.get(&[1], asked, port), Some(others), "{port}");
    }
    // what is written of it is what may be used
    let none = MlnxExtendedPortInfo {
        state_change_enable: 1,
        link_speed_enabled: 0,
        ..fdr10
    };
    let set = |manager: &mut Manager, port, value| manager.set(&[1], asked, port, value, MKey(0));
    assert_eq!(set(&mut manager, 1, &none), Some(MadStatus::OK));
    let seen: MlnxExtendedPortInfo = manager.get(&[1], asked, 1).unwrap();
    assert_eq!((seen.link_speed_enabled, seen.link_speed_active), (0, 1));
    assert_eq!(
        set(&mut manager, 5, &none),
        Some(MadStatus::INVALID_FIELD),
        "a switch of four ports"
    );
    // nobody knows who made these
    assert_eq!(manager.get::<MlnxExtendedPortInfo>(&[1, 1], asked, 1), None);
}

proptest! {
    /// Whatever is sent, from wherever: no panic, at most one packet comes out, and a packet comes to its end.
    #[test]
    fn any_packet_comes_to_an_end(
        mut bytes in prop::collection::vec(any::<u8>(), 256),
        node in 0_u32..7, port in 0_u8..4, dlid in any::<u16>(),
        directed in any::<bool>(), hops in 0_u8..8, known in 0_usize..12, method in 0_usize..3,
    ) {
        bytes[..4].copy_from_slice(&[1, if directed { 0x81 } else { 1 }, 1, [1, 2, 0x81][method]]);
        (bytes[6], bytes[7]) = (bytes[6] % 10, hops);
        let attributes = [0x10, 0x11, 0x12, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1b, 0x20, 0x31];
        (bytes[16], bytes[17]) = (0, attributes[known]);
        bytes[28..32].fill(0xff);
        for byte in &mut bytes[128..] {
            *byte %= 6;
        }
        let mut plane = Manager::new().plane;
        let mut came = Vec::new();
        if let Ok(smp) = Smp::parse_mad(&bytes) {
            let from = Place { node: NodeId(node), port };
            plane.send(Time::ZERO, from, smp, Lid(dlid), &mut came);
        }
        prop_assert!(came.len() <= 1);
        for delivery in came {
            let mut back = [0; 256];
            delivery.smp.emit(&mut back).unwrap();
            if let Route::Directed(route) = delivery.smp.route {
                let answered = delivery.smp.method == Method::GET_RESP && smp_was_asked(&bytes);
                prop_assert!(!answered || route.direction == Direction::Returning);
            }
        }
    }
}

fn smp_was_asked(bytes: &[u8]) -> bool {
    matches!(bytes[3], 1 | 2)
}

/// Its state, and what of width, speed and extended speed is active.
fn trained(manager: &mut Manager, path: &[u8], port: u8) -> (PortState, u8, (u8, u8)) {
    let info = manager.port(path, port);
    let speeds = (info.link_speed_active, info.link_speed_ext_active);
    (info.state, info.link_width_active, speeds)
}

/// IBA 14.2.5.6: a link has the best of what is enabled at both its ends once it is trained.
#[test]
fn a_link_is_trained_to_what_is_enabled_at_both_ends() {
    let cable = |speed: &str| RING.replace("\"s1\"[2]", &format!("\"s1\"[2] # lid 1 {speed}"));
    let change = |manager: &mut Manager, path: &[u8], port: u8, change: fn(&mut PortInfo)| {
        let mut wanted = manager.port(path, port);
        (wanted.state, wanted.phys_state) = (PortState::NO_CHANGE, PhysState::NO_CHANGE);
        change(&mut wanted);
        let modifier = KNOWS_EXTENDED_SPEEDS | u32::from(port);
        manager.set(path, attribute::PORT_INFO, modifier, &wanted, MKey(0))
    };
    let reset = |manager: &mut Manager| {
        for phys in [PhysState::DISABLED, PhysState::POLLING] {
            let mut wanted = manager.port(&[1], 1);
            (wanted.state, wanted.phys_state) = (PortState::NO_CHANGE, phys);
            manager.set(&[1], attribute::PORT_INFO, 1, &wanted, MKey(0));
        }
    };
    let other_end = [1, 2, 2];
    let mut manager = Manager::of(&cable("4xQDR"));
    let up = |width, speeds| (PortState::INIT, width, speeds);
    assert_eq!(trained(&mut manager, &[1], 1), up(2, (4, 0)));
    // one end is enough, but not before it is trained anew
    let done = change(&mut manager, &[1], 1, |info| info.link_speed_enabled = 1);
    assert_eq!(done, Some(MadStatus::OK));
    assert_eq!(trained(&mut manager, &[1], 1), up(2, (4, 0)));
    reset(&mut manager);
    assert_eq!(trained(&mut manager, &[1], 1), up(2, (1, 0)));
    assert_eq!(trained(&mut manager, &other_end, 2), up(2, (1, 0)));
    // a width, from the other end
    change(&mut manager, &other_end, 2, |info| {
        info.link_width_enabled = 1;
    });
    reset(&mut manager);
    assert_eq!(trained(&mut manager, &[1], 1), up(1, (1, 0)));
    // nothing in common: it does not come up, and does as soon as there is something
    change(&mut manager, &other_end, 2, |info| {
        info.link_speed_enabled = 4;
    });
    reset(&mut manager);
    assert_eq!(trained(&mut manager, &[1], 1).0, PortState::DOWN);
    assert_eq!(trained(&mut manager, &other_end, 2).0, PortState::DOWN);
    change(&mut manager, &[1], 1, |info| info.link_speed_enabled = 15);
    assert_eq!(trained(&mut manager, &other_end, 2), up(1, (4, 0)));
    // a port without any speed is not asked for
    let mut wanted = manager.port(&[1], 3);
    (wanted.state, wanted.phys_state) = (PortState::NO_CHANGE, PhysState::NO_CHANGE);
    wanted.link_speed_enabled = 4;
    let done = manager.set(&[1], attribute::PORT_INFO, 3, &wanted, MKey(0));
    assert_eq!(done, Some(MadStatus::INVALID_FIELD), "that cable is SDR");

    // extended speeds are in the way of slower ones until they are switched off
    let mut manager = Manager::of(&cable("4xEDR"));
    change(&mut manager, &[1], 1, |info| info.link_speed_enabled = 2);
    reset(&mut manager);
    assert_eq!(trained(&mut manager, &[1], 1), up(2, (4, 2)));
    change(&mut manager, &[1], 1, |info| {
        info.link_speed_ext_enabled = 1
    });
    reset(&mut manager);
    assert_eq!(trained(&mut manager, &other_end, 2), up(2, (4, 1)));
    change(&mut manager, &[1], 1, |info| {
        info.link_speed_ext_enabled = 30
    });
    reset(&mut manager);
    assert_eq!(trained(&mut manager, &other_end, 2), up(2, (2, 0)));
    assert_eq!(manager.port(&[1], 1).link_speed_ext_enabled, 30);
    change(&mut manager, &[1], 1, |info| {
        info.link_speed_ext_enabled = 31
    });
    reset(&mut manager);
    assert_eq!(trained(&mut manager, &other_end, 2), up(2, (4, 2)));
    let plugged = manager.plane.topology().cable_at(PortId {
        node: manager.find("s0"),
        port: 1,
    });
    let link = manager.plane.link(plugged.unwrap());
    assert_eq!(link.kbps(), 100_000_000);

    // a maker's speed
    let known = cable("4xFDR10").replace(
        "Switch\t4 \"s0\"",
        "vendid=0x2c9\ndevid=0xc738\nSwitch\t4 \"s0\"",
    );
    let mut manager = Manager::of(&known);
    let asked = attribute::MLNX_EXTENDED_PORT_INFO;
    let none = MlnxExtendedPortInfo {
        state_change_enable: 1,
        ..MlnxExtendedPortInfo::default()
    };
    manager.set(&[1], asked, 1, &none, MKey(0));
    reset(&mut manager);
    let seen: MlnxExtendedPortInfo = manager.get(&[1], asked, 1).unwrap();
    assert_eq!(seen.link_speed_active, 0);
    assert_eq!(trained(&mut manager, &[1], 1), up(2, (4, 0)));
}
