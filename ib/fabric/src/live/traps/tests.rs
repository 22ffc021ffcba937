//! What ports tell their manager when it happens.

use super::*;
use crate::interface::Wanted;
use crate::live::tests::{hosts, ring};
use ferriband_wire::attributes::PortInfo;
use ferriband_wire::mad::{MAD_LEN, MadHeader, ManagementClass};
use ferriband_wire::smp::attribute;
use ferriband_wire::{LinkNext, Lrh, Vl, vcrc};

const SECOND: Time = Time::from_ns(1_000_000_000);

/// A ring whose traps go to LID 1, and who gets them there.
struct World {
    fabric: Fabric,
    manager: Place,
}

impl World {
    fn new() -> World {
        let mut fabric = ring();
        let topology = fabric.plane().topology();
        let node = topology.ids().next().unwrap();
        let port = u8::from(topology.node(node).kind != NodeKind::Switch);
        let manager = Place { node, port };
        assert_eq!(fabric.lid_of(manager), Lid(1));
        let wanted = Wanted {
            class: ManagementClass::SUBN_LID_ROUTED,
            version: 1,
            oui: 0,
            methods: 1 << Method::TRAP.0,
            rmpp: false,
            plain: false,
        };
        fabric.register(manager, wanted).unwrap();
        World { fabric, manager }
    }

    /// Sends packets one after the other from a host to another; those that come are taken. How many came.
    fn send(&mut self, now: Time, from: Place, to: Place, count: u32) -> u32 {
        let mut came = 0;
        for _ in 0..count {
            let bytes = packet(self.fabric.lid_of(from), self.fabric.lid_of(to));
            assert!(self.fabric.send_packet(now, from, bytes));
            while let Some(arrived) = self.fabric.poll_packet(now) {
                came += 1;
                let room = arrived.room.into_iter();
                room.for_each(|room| self.fabric.taken(room));
            }
        }
        came
    }

    /// The traps that have come, but for those that tell of capabilities.
    fn traps(&mut self) -> Vec<Notice> {
        let mut traps = Vec::new();
        while let Some((at, delivery)) = self.fabric.poll_deliver() {
            assert_eq!(at, self.manager);
            let smp = Smp::parse_mad(&delivery.bytes).unwrap();
            assert_eq!(
                (smp.method, smp.attribute),
                (Method::TRAP, AttributeId::NOTICE)
            );
            let mut bytes = [0; Notice::LEN];
            bytes[..SMP_DATA_LEN].copy_from_slice(&smp.data);
            let (notice, _) = Notice::parse(&bytes).unwrap();
            if notice.trap != trap::CAPABILITIES {
                traps.push(notice);
            }
        }
        traps
    }

    /// The cable of a host, and the port at its other end.
    fn cable(&self, host: Place) -> (usize, PortId) {
        let end = PortId {
            node: host.node,
            port: host.port,
        };
        let topology = self.fabric.plane().topology();
        (topology.cable_at(end).unwrap(), topology.peer(end).unwrap())
    }

    fn counters(&self, at: PortId) -> manage::Counters {
        self.fabric.plane().node(at.node).ports[usize::from(at.port)].counters
    }
}

/// An empty datagram of queue pair 0x123 to 0x456 in the default partition.
fn packet(slid: Lid, dlid: Lid) -> Vec<u8> {
    let mut packet = vec![0; 34];
    let lrh = Lrh {
        vl: Vl(0),
        sl: Sl(2),
        dlid,
        slid,
    };
    lrh.emit(LinkNext::Transport, 32, &mut packet).unwrap();
    packet[8] = 0x64;
    packet[10..12].fill(0xff);
    packet[14..16].copy_from_slice(&[4, 0x56]);
    packet[26..28].copy_from_slice(&[1, 0x23]);
    let trailer = vcrc(&packet[..32]);
    packet[32..].copy_from_slice(&trailer.to_le_bytes());
    packet
}

#[test]
fn more_errors_than_a_port_allows_are_told_once_in_a_while() {
    let mut world = World::new();
    let (a, b) = (hosts(&world.fabric)[1], hosts(&world.fabric)[2]);
    let (cable, switch) = world.cable(a);
    let threshold = u32::from(
        world.fabric.plane().node(switch.node).ports[usize::from(switch.port)]
            .info
            .local_phy_errors,
    );
    // errors that packets without them make good
    world.fabric.set_spoils(Time(0), cable, manage::MILLION - 1);
    assert_eq!(world.send(Time(0), a, b, threshold), 0);
    world.fabric.set_spoils(Time(0), cable, 0);
    world.fabric.set_spoils(Time(0), cable, 1);
    assert_eq!(world.send(Time(0), a, b, threshold), threshold);
    world.fabric.set_spoils(Time(0), cable, manage::MILLION - 1);
    assert_eq!(world.send(Time(0), a, b, threshold), 0);
    assert_eq!(world.counters(switch).integrity_errors, 0);
    assert_eq!(world.traps(), []);
    // one more is too many
    world.send(Time(0), a, b, 1);
    assert_eq!(world.counters(switch).integrity_errors, 1);
    let traps = world.traps();
    let [notice] = &traps[..] else {
        panic!("{traps:?}")
    };
    let lid = world.fabric.lid_of(Place {
        node: switch.node,
        port: 0,
    });
    assert_eq!(
        (notice.trap, notice.kind, notice.producer, notice.issuer_lid),
        (
            trap::LINK_INTEGRITY,
            NoticeType::URGENT,
            producer::SWITCH,
            lid
        )
    );
    let [high, low] = lid.0.to_be_bytes();
    assert_eq!(notice.details[..5], [0, 0, high, low, switch.port]);
    // the same again is counted, and told when SubnetTimeOut has passed
    world.send(Time(0), a, b, threshold + 1);
    assert_eq!(
        (world.counters(switch).integrity_errors, world.traps().len()),
        (2, 0)
    );
    world.send(SECOND + SECOND, a, b, threshold + 1);
    assert_eq!(
        (world.counters(switch).integrity_errors, world.traps().len()),
        (3, 1)
    );
}

#[test]
fn a_cable_that_passes_nothing_at_all_makes_watchdogs_expire() {
    let mut world = World::new();
    let host = hosts(&world.fabric)[1];
    let (cable, switch) = world.cable(host);
    world.fabric.set_spoils(Time(0), cable, manage::MILLION);
    assert_eq!(world.fabric.poll_timeout(), Some(WATCHDOG));
    world.fabric.handle_timeout(WATCHDOG);
    while world.fabric.poll_packet(WATCHDOG).is_some() {}
    // the host's own trap does not get through
    let traps = world.traps();
    let [notice] = &traps[..] else {
        panic!("{traps:?}")
    };
    assert_eq!(
        (notice.trap, notice.details[4]),
        (trap::FLOW_CONTROL_WATCHDOG, switch.port)
    );
    let end = PortId {
        node: host.node,
        port: host.port,
    };
    for at in [switch, end] {
        assert_eq!(world.counters(at).link_recoveries, 1);
    }
    // a cable that is good again is at peace
    world.fabric.set_spoils(WATCHDOG, cable, 0);
    assert_eq!(world.fabric.poll_timeout(), None);
}

#[test]
fn a_packet_of_another_partition_is_let_go_of_and_told() {
    let mut world = World::new();
    let (a, b) = (hosts(&world.fabric)[1], hosts(&world.fabric)[2]);
    assert_eq!(world.send(Time(0), a, b, 1), 1);
    let port = &mut world.fabric.plane.node_mut(b.node).ports[1];
    port.pkeys[0] = PKey(0x8001);
    assert_eq!(world.send(Time(0), a, b, 3), 0);
    let port = &world.fabric.plane().node(b.node).ports[1];
    assert_eq!(port.info.pkey_violations, 3);
    assert_eq!(world.fabric.packets(), [1, 3]);
    let credits = world.fabric.credits();
    assert_eq!((credits.taken_blocks, credits.wrong), (0, 0));
    let traps = world.traps();
    let [notice] = &traps[..] else {
        panic!("{traps:?}")
    };
    assert_eq!(
        (notice.trap, notice.kind, notice.producer),
        (
            trap::BAD_PKEY,
            NoticeType::SECURITY,
            producer::CHANNEL_ADAPTER
        )
    );
    let [from, to] = [a, b].map(|place| world.fabric.lid_of(place).0.to_be_bytes());
    let wanted = [
        [0, 0],
        from,
        to,
        [0, 0],
        [0xff, 0xff],
        [0x20, 0],
        [1, 0x23],
        [0, 0],
        [4, 0x56],
    ];
    assert_eq!(notice.details[..18], wanted.concat());
    // a limited member's key is one of its partition, if the other end is a full member
    world.fabric.plane.node_mut(b.node).ports[1].pkeys[1] = PKey(0x7fff);
    assert_eq!(world.send(Time(0), a, b, 1), 1);
}

#[test]
fn keys_are_of_a_partition_if_one_of_both_is_a_full_member() {
    let table = [PKey(0), PKey(0x8001), PKey(0x0002)];
    let members = [0x8001, 0x0001, 0x8002];
    assert!(members.into_iter().all(|key| is_member(&table, PKey(key))));
    let others = [0, 0x8000, 0x0002, 0x8003, 0xffff];
    assert!(!others.into_iter().any(|key| is_member(&table, PKey(key))));
}

#[test]
fn a_packet_to_queue_pair_1_with_another_key_is_told() {
    let mut world = World::new();
    let (a, b) = (hosts(&world.fabric)[1], hosts(&world.fabric)[2]);
    let wanted = Wanted {
        class: ManagementClass::PERF,
        version: 1,
        oui: 0,
        methods: 0,
        rmpp: false,
        plain: false,
    };
    let agent = world.fabric.register(a, wanted).unwrap();
    let mut mad = [0; MAD_LEN];
    let attribute = AttributeId::CLASS_PORT_INFO;
    let header = MadHeader::new(
        ManagementClass::PERF,
        Method::GET,
        attribute,
        TransactionId(7),
    );
    header.emit(&mut mad).unwrap();
    let lids = [a, b].map(|place| world.fabric.lid_of(place));
    let mut to = Far {
        lid: lids[1],
        qpn: GSI_QPN,
        qkey: ferriband_wire::QKey(0x1234),
        ..Far::default()
    };
    let fabric = &mut world.fabric;
    fabric.send(Time(0), a, agent, to, &mad, SECOND, 0).unwrap();
    while fabric.poll_packet(Time(0)).is_some() {}
    let port = &world.fabric.plane().node(b.node).ports[1];
    assert_eq!(port.info.qkey_violations, 1);
    let traps = world.traps();
    let [notice] = &traps[..] else {
        panic!("{traps:?}")
    };
    assert_eq!(
        (notice.trap, notice.kind),
        (trap::BAD_QKEY, NoticeType::SECURITY)
    );
    let [from, at] = lids.map(|lid| lid.0.to_be_bytes());
    let wanted = [
        [0, 0],
        from,
        at,
        [0, 0],
        [0x12, 0x34],
        [0, 0],
        [0, 1],
        [0, 0],
        [0, 1],
    ];
    assert_eq!(notice.details[..18], wanted.concat());
    // with the right one it is answered
    to.qkey = GSI_QKEY;
    world
        .fabric
        .send(Time(0), a, agent, to, &mad, SECOND, 0)
        .unwrap();
    let (place, delivery) = world.fabric.poll_deliver().unwrap();
    assert_eq!(
        (place, delivery.agent, delivery.timed_out),
        (a, agent, false)
    );
}

/// Nobody has cut a cable: somebody has told a switch's port, as ibportstate does.
#[test]
fn a_port_that_is_disabled_and_enabled_again_is_told() {
    let mut world = World::new();
    let host = hosts(&world.fabric)[3];
    let (cable, at) = world.cable(host);
    let switch = Place {
        node: at.node,
        port: 0,
    };
    let lid = world.fabric.lid_of(switch);
    for (phys, state) in [
        (PhysState::DISABLED, PortState::DOWN),
        (PhysState::POLLING, PortState::INIT),
    ] {
        let port = world.fabric.plane().node(at.node).ports[usize::from(at.port)].info;
        let mut smp = Smp::new(Method::SET, attribute::PORT_INFO, at.port.into());
        let wanted = PortInfo {
            // it writes some LID there
            lid: Lid(0x1234),
            state: PortState::NO_CHANGE,
            phys_state: phys,
            ..port
        };
        smp.set_data(&wanted).unwrap();
        let mut come = Vec::new();
        let fabric = &mut world.fabric;
        fabric.carry_smp(Time(0), world.manager, smp, lid, &mut come);
        fabric.take_all(Time(0), come);
        for end in world.fabric.plane().topology().cables()[cable].ends {
            let info = world.fabric.plane().node(end.node).ports[usize::from(end.port)].info;
            assert_eq!(info.state, state);
        }
        let told = world.traps();
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!((told[0].trap, told[0].issuer_lid), (trap::LINK_STATE, lid));
        let now = world.fabric.plane().node(at.node).ports[usize::from(at.port)].info;
        assert_eq!(now.lid, port.lid, "it has none");
    }
}
