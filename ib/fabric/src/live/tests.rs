//! Programs at the ports of a small fabric, brought up by hand.

use super::*;
use ferriband_topology::generate::generate;
use ferriband_wire::attributes::{NodeInfo, PortInfo, PortState};
use ferriband_wire::mad::MadStatus;
use ferriband_wire::smp::{DirectedRoute, attribute};

fn hosts(fabric: &Fabric) -> Vec<Place> {
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

const SECOND: Time = Time::from_ns(1_000_000_000);

/// LIDs and states as a manager would set them, in a ring of three switches.
fn ring() -> Fabric {
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
    let trailer = vcrc(&packet[..44]);
    packet[44..].copy_from_slice(&trailer.to_le_bytes());
    let mut ends = Vec::new();
    let mut hops = Vec::new();
    assert!(!fabric.send_packet(a, &mut packet.clone()[..45], &mut ends, |_| {}));
    assert!(fabric.send_packet(a, &mut packet, &mut ends, |hop| hops.push(hop)));
    assert_eq!(ends, [b]);
    assert!(hops.len() >= 2 && hops.iter().all(|hop| hop.vl == Vl(3)));
    assert_eq!(packet[0] >> 4, 3);
    assert_eq!(load_of(&packet).map(|load| load.length), Some(44));
    let sent = fabric.plane().node(a.node).ports[1].counters;
    let came = fabric.plane().node(b.node).ports[1].counters;
    assert_eq!((sent.xmit_packets, sent.xmit_bytes), (1, 44));
    assert_eq!((came.rcv_packets, came.rcv_bytes), (1, 44));
    // a cut cable: the port before it counts what it lets go of
    let cable = fabric.plane().topology().cable_at(hops[0].from).unwrap();
    fabric.set_cable(Time(0), cable, false);
    ends.clear();
    assert!(!fabric.send_packet(a, &mut packet, &mut ends, |_| {}));
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
