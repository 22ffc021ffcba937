//! Questions to the administration of a small subnet that the manager has brought up over the agents of `ib/fabric`.

use super::*;
use crate::manager::{Config, Event, Instant, Manager};
use crate::routing::Engine;
use ferriband_fabric::Time;
use ferriband_fabric::manage::{Place, Plane};
use ferriband_topology::NodeKind;
use ferriband_topology::generate::generate;
use ferriband_wire::attributes::{NodeRecord, PathRecord, PathRecordMask, PortInfo, PortState};
use ferriband_wire::mad::AttributeId;
use ferriband_wire::{Gid, TransactionId};
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

fn ask(own: &Administration, asked: &SaMad) -> (SaMad, Vec<u8>) {
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
fn count(own: &Administration, asked: &SaMad) -> usize {
    let (head, bytes) = ask(own, asked);
    assert_eq!(head.status, MadStatus::OK);
    assert_eq!(head.method, Method::GET_TABLE_RESP);
    assert!(head.rmpp.is_active());
    (bytes.len() - HEAD_BYTES) / (usize::from(head.attribute_offset) * 8)
}

#[test]
fn tables_have_a_record_for_each_thing() {
    let own = administration("ring:3:2");
    assert_eq!(count(&own, &table(attribute::NODE)), 9);
    // a host's port each, and of a switch all
    let ports: usize = own.subnet().nodes.iter().map(|node| node.ports.len()).sum();
    assert_eq!(count(&own, &table(attribute::PORT_INFO)), ports);
    assert_eq!(count(&own, &table(attribute::SWITCH_INFO)), 3);
    // each cable both ways
    assert_eq!(count(&own, &table(attribute::LINK)), 18);
    assert_eq!(count(&own, &table(attribute::SM_INFO)), 1);
    assert_eq!(count(&own, &table(attribute::LINEAR_FORWARDING)), 3);
    assert_eq!(count(&own, &table(attribute::PATH)), 81);
}

#[test]
fn a_record_is_what_the_node_says_after_the_sweep() {
    let own = administration("ring:3:2");
    let mut asked = table(attribute::PORT_INFO);
    asked.component_mask = 1;
    asked.data[..2].copy_from_slice(&[0, 1]);
    let (_, bytes) = ask(&own, &asked);
    let (info, _) = PortInfo::parse(&bytes[HEAD_BYTES + 4..]).unwrap();
    assert_eq!((info.lid, info.state), (Lid(1), PortState::ACTIVE));
    let mut asked = SaMad::new(Method::GET, attribute::NODE);
    asked.component_mask = 1;
    asked.data[..2].copy_from_slice(&[0, 1]);
    let (head, _) = ask(&own, &asked);
    let record: NodeRecord = head.data_as().unwrap();
    assert!(!record.description.as_str().is_empty());
    assert_eq!(record.lid, Lid(1));
}

#[test]
fn a_path_is_found_by_gids_and_by_lids() {
    let own = administration("ring:3:2");
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
    let (head, _) = ask(&own, &asked);
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
    let (head, _) = ask(&own, &asked);
    let back: PathRecord = head.data_as().unwrap();
    assert_eq!((back.sgid, back.dgid), (to, from));
    // nobody has this LID
    let question = PathRecord {
        slid: Lid(9),
        dlid: Lid(700),
        ..PathRecord::default()
    };
    question.emit(&mut asked.data).unwrap();
    let (head, _) = ask(&own, &asked);
    assert_eq!(head.status, status::NO_RECORDS);
}

#[test]
fn what_is_not_offered_is_refused() {
    let own = administration("ring:3:1");
    let refused = |method, attribute, mask| {
        let mut asked = SaMad::new(method, attribute);
        asked.component_mask = mask;
        ask(&own, &asked).0.status
    };
    assert_eq!(
        refused(Method::SET, attribute::MC_MEMBER, 0),
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
        let own = administration("ring:3:1");
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
