//! Programs at the ports of a small fabric, brought up by hand.

use super::*;
use ferriband_topology::generate::generate;
use ferriband_wire::TransactionId;
use ferriband_wire::attributes::{NodeInfo, PortInfo, PortState};
use ferriband_wire::mad::{AttributeId, MadStatus, Method};
use ferriband_wire::smp::{DirectedRoute, Route, attribute};

pub(super) fn hosts(fabric: &Fabric) -> Vec<Place> {
    let topology = fabric.plane().topology();
    let places = topology.ids_of(NodeKind::Ca);
    places.map(|node| Place { node, port: 1 }).collect()
}

fn wanted(class: ManagementClass, methods: u128, rmpp: bool) -> Wanted {
    Wanted {
        class,
        version: class.version().unwrap_or(1),
        oui: 0,
        methods,
        rmpp,
        plain: false,
    }
}

/// Where a packet comes to, and as what, if whoever is there takes it at once.
fn carry(fabric: &mut Fabric, from: Place, packet: &[u8]) -> Vec<(Place, Vec<u8>)> {
    assert!(fabric.send_packet(Time(0), from, packet.to_vec()));
    let mut came = Vec::new();
    while let Some(arrived) = fabric.poll_packet(Time(0)) {
        came.push((arrived.at, arrived.bytes));
        arrived.room.into_iter().for_each(|room| fabric.taken(room));
    }
    came
}

const SECOND: Time = Time::from_ns(1_000_000_000);

/// LIDs and states as a manager would set them, in a ring of three switches.
pub(super) fn ring() -> Fabric {
    let mut fabric = Fabric::new(generate("ring:3:2").unwrap());
    let topology = fabric.plane().topology().clone();
    for id in topology.ids() {
        let lid = Lid(id.0 as u16 + 1);
        let node = fabric.plane.node_mut(id);
        let is_switch = node.kind == NodeKind::Switch;
        for (number, port) in node.ports.iter_mut().enumerate() {
            if !is_switch || number == 0 {
                port.info.lid = lid;
                port.info.master_sm_lid = Lid(1);
            }
            if port.info.state == PortState::INIT {
                port.info.state = PortState::ACTIVE;
            }
        }
    }
    // each switch sends what is not at itself or at its hosts to its next neighbour that has it, by search
    for id in topology.ids_of(NodeKind::Switch) {
        let mut row = vec![255; 64 * topology.nodes().len().div_ceil(64).max(1)];
        let mut seen = BTreeSet::from([id]);
        let mut queue = VecDeque::new();
        for port in 1..=topology.node(id).ports {
            if let Some(peer) = topology.peer(PortId { node: id, port }) {
                queue.push_back((peer.node, port));
            }
        }
        while let Some((node, by)) = queue.pop_front() {
            if !seen.insert(node) {
                continue;
            }
            row[node.0 as usize + 1] = by;
            if topology.node(node).kind == NodeKind::Switch {
                for port in 1..=topology.node(node).ports {
                    if let Some(peer) = topology.peer(PortId { node, port }) {
                        queue.push_back((peer.node, by));
                    }
                }
            }
        }
        let tables = fabric.plane.node_mut(id).switch.as_mut().unwrap();
        tables.info.linear_fdb_top = Lid(topology.nodes().len() as u16);
        for (block, ports) in row.chunks(64).enumerate() {
            let mut entries = [255; 64];
            entries[..ports.len()].copy_from_slice(ports);
            assert!(tables.set_linear_block(block as u16, &entries));
        }
    }
    fabric
}

fn mad_of(class: ManagementClass, method: Method, attribute: AttributeId) -> [u8; MAD_LEN] {
    let mut mad = [0; MAD_LEN];
    let header = ferriband_wire::mad::MadHeader::new(class, method, attribute, TransactionId(7));
    header.emit(&mut mad).unwrap();
    mad
}

#[test]
fn a_program_asks_a_node_and_gets_its_own_transaction_back() {
    let mut fabric = ring();
    let at = hosts(&fabric)[0];
    let class = ManagementClass::SUBN_DIRECTED_ROUTE;
    let agent = fabric.register(at, wanted(class, 0, false)).unwrap();
    let smp = Smp {
        transaction_id: TransactionId(0x55),
        route: Route::Directed(DirectedRoute::new(&[1]).unwrap()),
        ..Smp::new(Method::GET, attribute::NODE_INFO, 0)
    };
    let mut mad = [0; MAD_LEN];
    smp.emit(&mut mad).unwrap();
    let to = Far {
        lid: Lid::PERMISSIVE,
        ..Far::default()
    };
    fabric
        .send(Time(0), at, agent, to, &mad, SECOND, 0)
        .unwrap();
    let (place, delivery) = fabric.poll_deliver().unwrap();
    assert_eq!(
        (place, delivery.agent, delivery.timed_out),
        (at, agent, false)
    );
    let answer = Smp::parse_mad(&delivery.bytes).unwrap();
    assert_eq!(answer.transaction_id.0 as u32, 0x55);
    assert_eq!(answer.status, MadStatus::OK);
    let info: NodeInfo = answer.data_as().unwrap();
    let peer = fabric.plane().topology().peer(PortId {
        node: at.node,
        port: 1,
    });
    let switch = fabric.plane().topology().node(peer.unwrap().node);
    assert_eq!(info.node_guid, switch.guid);
    assert_eq!(fabric.poll_timeout(), None);
}

#[test]
fn what_nobody_answers_comes_back_after_its_retries() {
    let mut fabric = ring();
    let (a, b) = (hosts(&fabric)[0], hosts(&fabric)[1]);
    let agent = fabric
        .register(a, wanted(ManagementClass(0x20), 0, false))
        .unwrap();
    let to = Far {
        lid: fabric.lid_of(b),
        qpn: GSI_QPN,
        qkey: GSI_QKEY,
        ..Far::default()
    };
    let mad = mad_of(ManagementClass(0x20), Method::GET, AttributeId(1));
    fabric.send(Time(0), a, agent, to, &mad, SECOND, 2).unwrap();
    let mut sent = 0;
    while let Some(due) = fabric.poll_timeout() {
        assert!(fabric.poll_deliver().is_none());
        sent += 1;
        fabric.handle_timeout(due);
    }
    let (_, delivery) = fabric.poll_deliver().unwrap();
    assert!(delivery.timed_out && delivery.bytes.len() == 24);
    assert_eq!((sent, fabric.mads), (3, 3));
}

/// A question to an administrator whose answer is `length` bytes long.
fn long_answer(length: usize) {
    let mut fabric = ring();
    let (a, b) = (hosts(&fabric)[0], hosts(&fabric)[1]);
    let class = ManagementClass::SUBN_ADM;
    let client = fabric.register(a, wanted(class, 0, true)).unwrap();
    let table = 1 << Method::GET_TABLE.0;
    let server = fabric.register(b, wanted(class, table, true)).unwrap();
    let to = Far {
        lid: fabric.lid_of(b),
        qpn: GSI_QPN,
        qkey: GSI_QKEY,
        ..Far::default()
    };
    let mad = mad_of(class, Method::GET_TABLE, AttributeId(0x11));
    fabric
        .send(Time(0), a, client, to, &mad, SECOND, 0)
        .unwrap();
    let (place, question) = fabric.poll_deliver().unwrap();
    assert_eq!((place, question.agent), (b, server));
    let mut answer = question.bytes[..56].to_vec();
    answer[3] = Method::GET_TABLE_RESP.0;
    // version 1, DATA, active
    answer[24..27].copy_from_slice(&[1, 1, 1]);
    answer.extend((0..length).map(|at| (at % 251) as u8));
    fabric
        .send(Time(0), b, server, question.far, &answer, Time(0), 0)
        .unwrap();
    let (place, came) = fabric.poll_deliver().unwrap();
    assert_eq!((place, came.agent, came.timed_out), (a, client, false));
    assert_eq!(came.bytes.len(), answer.len());
    assert_eq!(came.bytes[56..], answer[56..]);
    assert_eq!(fabric.poll_deliver(), None);
    // what is remembered of the transfer, for the case that an acknowledgement was lost, goes by itself
    while let Some(due) = fabric.poll_timeout() {
        fabric.handle_timeout(due);
    }
    assert_eq!(fabric.poll_deliver(), None);
}

#[test]
fn long_answers_come_whole() {
    for length in [0, 1, 199, 200, 201, 400, 13_000, 300_000] {
        long_answer(length);
    }
}

#[test]
fn two_programs_cannot_get_the_same_requests_but_both_may_ask() {
    let mut fabric = ring();
    let at = hosts(&fabric)[0];
    let class = ManagementClass::SUBN_ADM;
    let get = 1 << Method::GET.0;
    let first = fabric.register(at, wanted(class, get, false)).unwrap();
    assert_eq!(
        fabric.register(at, wanted(class, get, false)),
        Err(Refused::Taken)
    );
    fabric.register(at, wanted(class, 0, false)).unwrap();
    fabric.unregister(at, first);
    fabric.register(at, wanted(class, get, false)).unwrap();
}

#[test]
fn a_port_says_that_a_manager_is_there() {
    let mut fabric = ring();
    let at = hosts(&fabric)[0];
    let is_sm = |fabric: &Fabric| {
        let info: PortInfo = fabric.plane().node(at.node).ports[1].info;
        info.capabilities.contains(PortCapabilities::IS_SM)
    };
    let class = ManagementClass::SUBN_LID_ROUTED;
    let agent = fabric
        .register(at, wanted(class, 1 << Method::GET.0, false))
        .unwrap();
    assert!(is_sm(&fabric));
    fabric.unregister(at, agent);
    assert!(!is_sm(&fabric));
}

#[test]
fn packets_pass_by_the_tables_and_are_counted() {
    use ferriband_wire::{LinkNext, Lrh};
    let mut fabric = ring();
    let (a, b) = (hosts(&fabric)[0], *hosts(&fabric).last().unwrap());
    let mut packet = vec![0; 46];
    let lrh = Lrh {
        vl: Vl(0),
        sl: Sl(3),
        dlid: fabric.lid_of(b),
        slid: fabric.lid_of(a),
    };
    lrh.emit(LinkNext::Transport, 44, &mut packet).unwrap();
    // the default partition
    packet[10..12].fill(0xff);
    let trailer = vcrc(&packet[..44]);
    packet[44..].copy_from_slice(&trailer.to_le_bytes());
    assert!(!fabric.send_packet(Time(0), a, packet[..45].to_vec()));
    let came = carry(&mut fabric, a, &packet);
    assert_eq!(came.len(), 1);
    assert_eq!((came[0].0, came[0].1[0] >> 4), (b, 3));
    assert_eq!(load_of(&came[0].1).map(|load| load.length), Some(44));
    let sent = fabric.plane().node(a.node).ports[1].counters;
    let came = fabric.plane().node(b.node).ports[1].counters;
    assert_eq!((sent.xmit_packets, sent.xmit_bytes), (1, 44));
    assert_eq!((came.rcv_packets, came.rcv_bytes), (1, 44));
    // a cut cable: the port before it counts what it lets go of
    let end = PortId {
        node: a.node,
        port: a.port,
    };
    let cable = fabric.plane().topology().cable_at(end).unwrap();
    fabric.set_cable(Time(0), cable, false);
    assert_eq!(carry(&mut fabric, a, &packet), []);
    let sent = fabric.plane().node(a.node).ports[1].counters;
    assert_eq!((sent.xmit_packets, sent.xmit_discards), (1, 1));
    assert_eq!(sent.link_downed, 1);
}

#[test]
fn a_manager_hears_of_a_link_that_goes_down_and_counters_are_read_over_the_fabric() {
    let mut fabric = ring();
    let a = fabric
        .plane()
        .topology()
        .ids_of(NodeKind::Ca)
        .find(|id| fabric.lid_of(Place { node: *id, port: 1 }) == Lid(1))
        .map(|node| Place { node, port: 1 });
    // the node of LID 1 is where traps go; in some shapes that is a switch
    let at = a.unwrap_or(Place {
        node: NodeId(0),
        port: 0,
    });
    let class = ManagementClass::SUBN_LID_ROUTED;
    let trap = 1 << Method::TRAP.0;
    let agent = fabric.register(at, wanted(class, trap, false)).unwrap();
    let far = *hosts(&fabric).last().unwrap();
    let cable = fabric.plane().topology().cable_at(PortId {
        node: far.node,
        port: 1,
    });
    fabric.set_cable(Time(0), cable.unwrap(), false);
    let (place, delivery) = fabric.poll_deliver().unwrap();
    assert_eq!((place, delivery.agent), (at, agent));
    let notice = Smp::parse_mad(&delivery.bytes).unwrap();
    assert_eq!(notice.method, Method::TRAP);
    assert_eq!(notice.data[4..6], [0, 128]);
    fabric.set_cable(Time(0), cable.unwrap(), true);
    assert!(fabric.poll_deliver().is_some());

    // LinkDowned of the host's port, asked for by another host: the link must be up again for data
    let node = fabric.plane.node_mut(far.node);
    node.ports[1].info.state = PortState::ACTIVE;
    let peer = fabric.plane().topology().peer(PortId {
        node: far.node,
        port: 1,
    });
    let peer = peer.unwrap();
    fabric.plane.node_mut(peer.node).ports[usize::from(peer.port)]
        .info
        .state = PortState::ACTIVE;
    let asks = hosts(&fabric)[0];
    let agent = fabric
        .register(asks, wanted(ManagementClass::PERF, 0, false))
        .unwrap();
    let mut mad = mad_of(
        ManagementClass::PERF,
        Method::GET,
        ferriband_wire::attributes::perf::PORT_COUNTERS,
    );
    mad[65] = 1;
    let to = Far {
        lid: fabric.lid_of(far),
        qpn: GSI_QPN,
        qkey: GSI_QKEY,
        ..Far::default()
    };
    fabric
        .send(Time(0), asks, agent, to, &mad, SECOND, 0)
        .unwrap();
    let (_, delivery) = fabric.poll_deliver().unwrap();
    assert_eq!(delivery.bytes[3], Method::GET_RESP.0);
    assert_eq!(delivery.bytes[4..6], [0, 0]);
    assert_eq!(delivery.bytes[64 + 7], 1, "LinkDowned");
}

#[test]
fn a_wrong_management_key_changes_nothing_and_the_manager_hears_of_it() {
    use ferriband_wire::MKey;
    use ferriband_wire::attributes::{Notice, NoticeType};
    let mut fabric = ring();
    let places = hosts(&fabric);
    let (manager, stranger) = (places[0], places[1]);
    let traps = fabric
        .register(
            manager,
            wanted(ManagementClass::SUBN_LID_ROUTED, 1 << Method::TRAP.0, false),
        )
        .unwrap();
    let class = ManagementClass::SUBN_DIRECTED_ROUTE;
    let asks = fabric.register(stranger, wanted(class, 0, false)).unwrap();
    // the switch that the stranger is at has a key
    let switch = fabric
        .plane()
        .topology()
        .peer(PortId {
            node: stranger.node,
            port: 1,
        })
        .unwrap()
        .node;
    let port0 = &mut fabric.plane.node_mut(switch).ports[0].info;
    (port0.mkey, port0.mkey_protect) = (MKey(0x1234), 1);
    port0.master_sm_lid = Lid(manager.node.0 as u16 + 1);
    let lid = port0.lid;
    let before = fabric.plane.node(switch).clone();
    let value = PortInfo {
        state: PortState::DOWN,
        ..fabric.plane.node(switch).ports[2].info
    };
    let mut smp = Smp {
        mkey: MKey(0x666),
        route: Route::Directed(DirectedRoute::new(&[1]).unwrap()),
        ..Smp::new(Method::SET, attribute::PORT_INFO, 2)
    };
    smp.set_data(&value).unwrap();
    let mut mad = [0; MAD_LEN];
    smp.emit(&mut mad).unwrap();
    let to = Far {
        lid: Lid::PERMISSIVE,
        ..Far::default()
    };
    fabric
        .send(Time(0), stranger, asks, to, &mad, SECOND, 0)
        .unwrap();
    let mut after = fabric.plane.node(switch).clone();
    assert_eq!(after.ports[0].info.mkey_violations, 1);
    after.ports[0].info.mkey_violations = 0;
    assert_eq!(after, before, "nothing else has changed");
    let (place, delivery) = fabric.poll_deliver().expect("a trap");
    assert_eq!((place, delivery.agent), (manager, traps));
    let trap = Smp::parse_mad(&delivery.bytes).unwrap();
    let mut notice = [0; Notice::LEN];
    notice[..64].copy_from_slice(&trap.data);
    let (notice, _) = Notice::parse(&notice).unwrap();
    assert_eq!(
        (notice.trap, notice.kind, notice.issuer_lid),
        (256, NoticeType::SECURITY, lid)
    );
    let details = notice.details;
    assert_eq!(details[2..4], [0, stranger.node.0 as u8 + 1], "who it was");
    assert_eq!(
        (details[6], &details[8..10]),
        (2, &[0, 0x15][..]),
        "Set(PortInfo)"
    );
    assert_eq!(details[10..14], [0, 0, 0, 2], "of port 2");
    assert_eq!(details[14..22], [0, 0, 0, 0, 0, 0, 6, 0x66]);
    assert_eq!(details[23], 0x81, "by a list of one port");
    assert!(fabric.poll_deliver().is_none());
    // to read it no key is needed
    smp.method = Method::GET;
    smp.emit(&mut mad).unwrap();
    fabric
        .send(Time(0), stranger, asks, to, &mad, SECOND, 0)
        .unwrap();
    let (place, delivery) = fabric.poll_deliver().expect("an answer");
    assert_eq!((place, delivery.timed_out), (stranger, false));
}

#[test]
fn who_looks_at_a_link_sees_what_passes_it_as_it_would_travel() {
    use ferriband_wire::{AnyMad, NativePacket};
    let mut fabric = ring();
    let places = hosts(&fabric);
    let (here, there) = (places[0], places[5]);
    let cable = |place: Place| {
        let end = PortId {
            node: place.node,
            port: place.port,
        };
        fabric.plane().topology().cable_at(end).unwrap()
    };
    let (near, far) = (cable(here), cable(there));
    fabric.set_taps(BTreeSet::from([far]));
    // a packet with data, as the host at the other end gets it
    let lid = |place: Place| Lid(place.node.0 as u16 + 1);
    let packet = taps::general(lid(here), lid(there), Sl(0), Vl(0), &[7; MAD_LEN]);
    let packet = packet.unwrap();
    assert_eq!(carry(&mut fabric, here, &packet).len(), 1);
    let tapped = fabric.poll_tapped().unwrap();
    assert_eq!((tapped.cable, &tapped.bytes), (far, &packet));
    assert_ne!(tapped.from.node, there.node, "it came from the switch");
    assert!(
        fabric.poll_tapped().is_none(),
        "it passed other links as well"
    );
    // a question by a list of ports and its answer, on the asker's own link
    fabric.set_taps(BTreeSet::from([near]));
    let class = ManagementClass::SUBN_DIRECTED_ROUTE;
    let asks = fabric.register(here, wanted(class, 0, false)).unwrap();
    let smp = Smp {
        route: Route::Directed(DirectedRoute::new(&[1]).unwrap()),
        ..Smp::new(Method::GET, attribute::NODE_INFO, 0)
    };
    let mut mad = [0; MAD_LEN];
    smp.emit(&mut mad).unwrap();
    let to = Far {
        lid: Lid::PERMISSIVE,
        ..Far::default()
    };
    fabric
        .send(Time(0), here, asks, to, &mad, SECOND, 0)
        .unwrap();
    let methods: Vec<_> = std::iter::from_fn(|| fabric.poll_tapped())
        .map(|tapped| {
            let packet = NativePacket::parse(&tapped.bytes).expect("both CRCs are right");
            assert_eq!((packet.lrh.vl, packet.lrh.dlid), (Vl(15), Lid::PERMISSIVE));
            assert!(AnyMad::parse(packet.packet.payload).is_ok());
            let smp = Smp::parse_mad(packet.packet.payload).unwrap();
            (tapped.from.node == here.node, smp.method)
        })
        .collect();
    assert_eq!(methods, [(true, Method::GET), (false, Method::GET_RESP)]);
    // nobody looks any more
    fabric.set_taps(BTreeSet::new());
    assert_eq!(carry(&mut fabric, here, &packet).len(), 1);
    assert!(fabric.poll_tapped().is_none());
}
