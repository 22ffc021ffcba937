//! Questions to the administration of a small subnet that the manager has brought up over the agents of `ib/fabric`.

use super::*;
use crate::manager::{Config, Event, Instant, Manager};
use crate::routing::Engine;
use ferriband_fabric::Time;
use ferriband_fabric::manage::{Place, Plane};
use ferriband_topology::NodeKind;
use ferriband_topology::generate::generate;
use ferriband_wire::attributes::{
    JoinState, McMemberRecord, McMemberRecordMask, NodeRecord, PathRecord, PathRecordMask,
    PortInfo, PortState,
};
use ferriband_wire::mad::{AttributeId, DEFAULT_PKEY};
use ferriband_wire::{Gid, QKey, TransactionId};
use proptest::prelude::*;

fn administration(shape: &str) -> Administration {
    let topology = generate(shape).unwrap();
    let node = topology.ids_of(NodeKind::Ca).next().unwrap();
    let at = Place { node, port: 1 };
    let mut plane = Plane::new(topology);
    let mut manager = Manager::new(Config::new(1, *Engine::find("minhop").unwrap()), 9);
    manager.sweep();
    let mut came = Vec::new();
    loop {
        while let Some(smp) = manager.poll_transmit(Instant(0)) {
            plane.send(Time(0), at, smp, Lid(0), &mut came);
        }
        for delivery in came.drain(..) {
            manager.handle_smp(&delivery.smp);
        }
        match manager.poll_event() {
            Some(Event::Up(subnet)) => {
                return Administration::new(*subnet, Lid(1), SmInfo::default());
            }
            Some(Event::Failed(error)) => panic!("{error}"),
            None => {}
        }
    }
}

fn ask(own: &mut Administration, asked: &SaMad) -> (SaMad, Vec<u8>) {
    let mut mad = [0; MAD_LEN];
    asked.emit(&mut mad).unwrap();
    let answer = own.answer(&mad).unwrap();
    let mut head = [0; MAD_LEN];
    let length = answer.len().min(MAD_LEN);
    head[..length].copy_from_slice(&answer[..length]);
    (SaMad::parse_mad(&head).unwrap(), answer)
}

fn table(attribute: AttributeId) -> SaMad {
    SaMad {
        transaction_id: TransactionId(5),
        ..SaMad::new(Method::GET_TABLE, attribute)
    }
}

/// How many records an answer has.
fn count(own: &mut Administration, asked: &SaMad) -> usize {
    let (head, bytes) = ask(own, asked);
    assert_eq!(head.status, MadStatus::OK);
    assert_eq!(head.method, Method::GET_TABLE_RESP);
    assert!(head.rmpp.is_active());
    (bytes.len() - HEAD_BYTES) / (usize::from(head.attribute_offset) * 8)
}

#[test]
fn tables_have_a_record_for_each_thing() {
    let mut own = administration("ring:3:2");
    assert_eq!(count(&mut own, &table(attribute::NODE)), 9);
    // a host's port each, and of a switch all
    let ports: usize = own.subnet().nodes.iter().map(|node| node.ports.len()).sum();
    assert_eq!(count(&mut own, &table(attribute::PORT_INFO)), ports);
    assert_eq!(count(&mut own, &table(attribute::SWITCH_INFO)), 3);
    // each cable both ways
    assert_eq!(count(&mut own, &table(attribute::LINK)), 18);
    assert_eq!(count(&mut own, &table(attribute::SM_INFO)), 1);
    assert_eq!(count(&mut own, &table(attribute::LINEAR_FORWARDING)), 3);
    assert_eq!(count(&mut own, &table(attribute::PATH)), 81);
}

#[test]
fn a_record_is_what_the_node_says_after_the_sweep() {
    let mut own = administration("ring:3:2");
    let mut asked = table(attribute::PORT_INFO);
    asked.component_mask = 1;
    asked.data[..2].copy_from_slice(&[0, 1]);
    let (_, bytes) = ask(&mut own, &asked);
    let (info, _) = PortInfo::parse(&bytes[HEAD_BYTES + 4..]).unwrap();
    assert_eq!((info.lid, info.state), (Lid(1), PortState::ACTIVE));
    let mut asked = SaMad::new(Method::GET, attribute::NODE);
    asked.component_mask = 1;
    asked.data[..2].copy_from_slice(&[0, 1]);
    let (head, _) = ask(&mut own, &asked);
    let record: NodeRecord = head.data_as().unwrap();
    assert!(!record.description.as_str().is_empty());
    assert_eq!(record.lid, Lid(1));
}

#[test]
fn a_path_is_found_by_gids_and_by_lids() {
    let mut own = administration("ring:3:2");
    let gid = |lid: u16| {
        let mut nodes = own.subnet().nodes.iter();
        nodes.find_map(|node| {
            let (number, info) = node.ports.iter().find(|(_, info)| info.lid == Lid(lid))?;
            let guid = node
                .guids
                .get(number)
                .copied()
                .unwrap_or(node.info.port_guid);
            Some(Gid::from_prefix_guid(info.gid_prefix, guid))
        })
    };
    let (from, to) = (gid(1).unwrap(), gid(9).unwrap());
    let mut asked = SaMad::new(Method::GET, attribute::PATH);
    let question = PathRecord {
        sgid: from,
        dgid: to,
        ..PathRecord::default()
    };
    question.emit(&mut asked.data).unwrap();
    asked.component_mask = (PathRecordMask::SGID | PathRecordMask::DGID).bits();
    let (head, _) = ask(&mut own, &asked);
    assert_eq!(head.status, MadStatus::OK);
    let path: PathRecord = head.data_as().unwrap();
    assert_eq!((path.slid, path.dlid), (Lid(1), Lid(9)));
    assert_eq!((path.mtu.value, path.rate.value), (5, 3), "4 KiB, 4x SDR");
    // the other way, by LIDs
    let question = PathRecord {
        slid: Lid(9),
        dlid: Lid(1),
        ..PathRecord::default()
    };
    asked.data = [0; SA_DATA_LEN];
    question.emit(&mut asked.data).unwrap();
    asked.component_mask = (PathRecordMask::SLID | PathRecordMask::DLID).bits();
    let (head, _) = ask(&mut own, &asked);
    let back: PathRecord = head.data_as().unwrap();
    assert_eq!((back.sgid, back.dgid), (to, from));
    // nobody has this LID
    let question = PathRecord {
        slid: Lid(9),
        dlid: Lid(700),
        ..PathRecord::default()
    };
    question.emit(&mut asked.data).unwrap();
    let (head, _) = ask(&mut own, &asked);
    assert_eq!(head.status, status::NO_RECORDS);
}

#[test]
fn what_is_not_offered_is_refused() {
    let mut own = administration("ring:3:1");
    let mut refused = |method, attribute, mask| {
        let mut asked = SaMad::new(method, attribute);
        asked.component_mask = mask;
        ask(&mut own, &asked).0.status
    };
    assert_eq!(
        refused(Method::SET, attribute::SERVICE, 0),
        MadStatus::UNSUPPORTED_ATTRIBUTE
    );
    assert_eq!(
        refused(Method::GET_TABLE, attribute::NODE, 1 << 40),
        status::REQUEST_INVALID
    );
    assert_eq!(
        refused(Method::GET, attribute::NODE, 0),
        status::TOO_MANY_RECORDS
    );
    assert_eq!(
        refused(Method::GET, attribute::CLASS_PORT_INFO, 0),
        MadStatus::OK
    );
}

proptest! {
    #[test]
    fn any_question_is_answered_or_ignored(bytes in proptest::collection::vec(any::<u8>(), MAD_LEN), attribute in 0_u8..0x40, mask: u8) {
        let mut own = administration("ring:3:1");
        let mut mad: [u8; MAD_LEN] = bytes.try_into().unwrap();
        mad[..2].copy_from_slice(&[1, 3]);
        mad[2] &= 3;
        mad[16..18].copy_from_slice(&[0, attribute]);
        mad[48..55].fill(0);
        mad[55] = mask;
        if let Some(answer) = own.answer(&mad) {
            prop_assert!(answer.len() >= HEAD_BYTES);
        }
    }
}

fn member(method: Method, gid: Gid, mgid: Gid, state: JoinState) -> SaMad {
    let record = McMemberRecord {
        mgid,
        port_gid: gid,
        qkey: QKey(0x0123_4567),
        pkey: DEFAULT_PKEY,
        join_state: state,
        ..McMemberRecord::default()
    };
    let mask = McMemberRecordMask::MGID
        | McMemberRecordMask::PORT_GID
        | McMemberRecordMask::QKEY
        | McMemberRecordMask::PKEY
        | McMemberRecordMask::SL
        | McMemberRecordMask::FLOW_LABEL
        | McMemberRecordMask::TRAFFIC_CLASS
        | McMemberRecordMask::JOIN_STATE;
    let mut asked = SaMad {
        component_mask: mask.bits(),
        transaction_id: TransactionId(6),
        ..SaMad::new(method, attribute::MC_MEMBER)
    };
    asked.set_data(&record).unwrap();
    asked
}

/// GIDs of the hosts, and where each hangs: switch and port.
fn host_gids(own: &Administration) -> Vec<(Gid, (u32, u8))> {
    let ends = own.subnet().graph.ends().iter();
    let prefix = 0xfe80_0000_0000_0000;
    ends.map(|end| {
        let gid = Gid::from_prefix_guid(prefix, end.guid);
        (gid, end.attached.unwrap())
    })
    .collect()
}

#[test]
fn groups_are_made_joined_left_and_gone() {
    let mut own = administration("ring:3:2");
    let hosts = host_gids(&own);
    let mgid = Gid([0xff, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    let full = JoinState::FULL_MEMBER;
    let join = |own: &mut Administration, host: usize, state| {
        let (answer, _) = ask(own, &member(Method::SET, hosts[host].0, mgid, state));
        (answer.status, answer.data_as::<McMemberRecord>().unwrap())
    };
    // a group is made by who keeps it, and by who says what it shall be
    assert_eq!(
        join(&mut own, 0, JoinState::NON_MEMBER).0,
        status::REQUEST_INVALID
    );
    let mut vague = member(Method::SET, hosts[0].0, mgid, full);
    vague.component_mask &= !McMemberRecordMask::QKEY.bits();
    assert_eq!(
        ask(&mut own, &vague).0.status,
        status::INSUFFICIENT_COMPONENTS
    );
    let (ok, made) = join(&mut own, 0, full);
    assert_eq!((ok, made.mlid), (MadStatus::OK, Lid(0xc000)));
    assert_eq!(
        made.mtu.selector,
        ferriband_wire::attributes::Selector::Exactly
    );
    // one that hears, and one that only sends
    assert_eq!(join(&mut own, 3, full).1.mlid, made.mlid);
    let (ok, sender) = join(&mut own, 5, JoinState::SEND_ONLY_NON_MEMBER);
    assert_eq!(
        (ok, sender.join_state),
        (MadStatus::OK, JoinState::SEND_ONLY_NON_MEMBER)
    );
    // with another key it is another's group
    let mut other = member(Method::SET, hosts[1].0, mgid, full);
    let mut record: McMemberRecord = other.data_as().unwrap();
    record.qkey = QKey(1);
    other.set_data(&record).unwrap();
    assert_eq!(ask(&mut own, &other).0.status, status::REQUEST_INVALID);
    // the tree: those two get a copy, the sender none, and it is led to them
    let trees = own.take_trees();
    assert_eq!(trees.len(), 1);
    let rows = &trees[0].1;
    let gets = |host: usize| {
        let (switch, port) = hosts[host].1;
        rows[switch as usize][usize::from(port / 64)] >> (port % 64) & 1 == 1
    };
    let got: Vec<bool> = (0..hosts.len()).map(gets).collect();
    assert_eq!(got, [true, false, false, true, false, false]);
    let (switch, _) = hosts[5].1;
    assert_ne!(rows[switch as usize], [0; 4], "its switch knows the way");
    assert!(own.take_trees().is_empty(), "nothing has changed since");
    // members are told to who is trusted alone
    assert_eq!(count(&mut own, &table(attribute::MC_MEMBER)), 1);
    let trusted = SaMad {
        sm_key: ferriband_wire::SmKey(1),
        ..table(attribute::MC_MEMBER)
    };
    assert_eq!(count(&mut own, &trusted), 3);
    // it ends with its last full member, and its rows with it
    let leave = |own: &mut Administration, host: usize, state| {
        let left = member(Method::DELETE, hosts[host].0, mgid, state);
        ask(own, &left).0.status
    };
    assert_eq!(leave(&mut own, 1, full), status::REQUEST_INVALID);
    assert_eq!(leave(&mut own, 0, full), MadStatus::OK);
    assert_eq!(count(&mut own, &table(attribute::MC_MEMBER)), 1);
    assert_eq!(leave(&mut own, 3, full), MadStatus::OK);
    assert_eq!(count(&mut own, &table(attribute::MC_MEMBER)), 0);
    let trees = own.take_trees();
    assert!(trees[0].1.iter().all(|row| *row == [0; 4]));
}

#[test]
fn members_whose_ports_are_gone_are_none() {
    let mut own = administration("ring:3:2");
    let hosts = host_gids(&own);
    let mgid = Gid([0xff, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    for host in [0, 5] {
        let join = member(Method::SET, hosts[host].0, mgid, JoinState::FULL_MEMBER);
        assert_eq!(ask(&mut own, &join).0.status, MadStatus::OK);
    }
    // a smaller subnet with other ports but the first ones
    let other = administration("ring:3:1");
    let known: Vec<Gid> = host_gids(&other).into_iter().map(|(gid, _)| gid).collect();
    let stays = known.contains(&hosts[0].0) as usize + known.contains(&hosts[5].0) as usize;
    assert!(stays < 2, "one of them is gone");
    own.renew(other.subnet().clone(), Lid(1), SmInfo::default());
    let trusted = SaMad {
        sm_key: ferriband_wire::SmKey(1),
        ..table(attribute::MC_MEMBER)
    };
    assert_eq!(count(&mut own, &trusted), stays);
}
