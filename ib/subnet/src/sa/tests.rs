//! Questions to the administration of a small subnet that the manager has brought up over the agents of `ib/fabric`.

use super::*;
use crate::manager::{Block, Config, Event, Instant, Manager, Reading, TableRead};
use crate::routing::Engine;
use ferriband_fabric::Time;
use ferriband_fabric::manage::{Place, Plane};
use ferriband_topology::NodeKind;
use ferriband_topology::generate::generate;
use ferriband_wire::attributes::{
    InformInfo, JoinState, McMemberRecord, McMemberRecordMask, NodeRecord, Notice, NoticeType,
    PathRecord, PathRecordMask, PortInfo, PortState, ServiceRecord,
};
use ferriband_wire::mad::{AttributeId, DEFAULT_PKEY};
use ferriband_wire::{Gid, PKey, QKey, ServiceId, Sl, TransactionId};
use proptest::prelude::*;

fn administration(shape: &str) -> Administration {
    routed_by("minhop", shape)
}

fn routed_by(engine: &str, shape: &str) -> Administration {
    managed(Config::new(1, *Engine::find(engine).unwrap()), shape)
}

fn managed(config: Config, shape: &str) -> Administration {
    let topology = generate(shape).unwrap();
    let node = topology.ids_of(NodeKind::Ca).next().unwrap();
    let at = Place { node, port: 1 };
    let mut plane = Plane::new(topology);
    let mut manager = Manager::new(config, 9);
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
            Some(Event::Same | Event::Read(_)) | None => {}
        }
    }
}

fn ask(own: &mut Administration, asked: &SaMad) -> (SaMad, Vec<u8>) {
    let mut mad = [0; MAD_LEN];
    asked.emit(&mut mad).unwrap();
    let answer = own.answer(Instant(0), Asker::default(), &mad).unwrap();
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

/// The LIDs that the paths of a question begin and end at.
fn ways(
    own: &mut Administration,
    method: Method,
    mask: PathRecordMask,
    of: PathRecord,
) -> Vec<(u16, u16)> {
    let mut asked = SaMad::new(method, attribute::PATH);
    of.emit(&mut asked.data).unwrap();
    asked.component_mask = mask.bits();
    let (head, bytes) = ask(own, &asked);
    if head.status == status::NO_RECORDS {
        return Vec::new();
    }
    assert_eq!(head.status, MadStatus::OK);
    let each = match method {
        Method::GET => PathRecord::LEN,
        _ => usize::from(head.attribute_offset) * 8,
    };
    let records = bytes[HEAD_BYTES..].chunks_exact(each);
    let records = records.take(if method == Method::GET { 1 } else { usize::MAX });
    let path = |bytes| {
        let (path, _) = PathRecord::parse(bytes).unwrap();
        (path.slid.0, path.dlid.0)
    };
    records.map(path).collect()
}

#[test]
fn ports_of_several_lids_have_as_many_paths() {
    use PathRecordMask as Mask;
    let mut config = Config::new(1, *Engine::find("minhop").unwrap());
    config.lmc = 2;
    let mut own = managed(config, "ring:3:2");
    let ports: Vec<(u16, u8, bool)> = own
        .subnet()
        .nodes
        .iter()
        .flat_map(|node| {
            node.ports
                .iter()
                .map(|(number, info)| (info.lid.0, info.lmc, *number == 0))
        })
        .filter(|(lid, ..)| *lid != 0)
        .collect();
    let hosts: Vec<u16> = ports
        .iter()
        .filter(|port| port.1 == 2)
        .map(|port| port.0)
        .collect();
    let switch = ports.iter().find(|port| port.2 && port.1 == 0).unwrap().0;
    assert_eq!(hosts.len(), 6, "{ports:?}");
    let (a, b) = (hosts[0], hosts[5]);
    let between = |own: &Administration, sgid, dgid| PathRecord {
        sgid: port_gid(own, sgid),
        dgid: port_gid(own, dgid),
        ..PathRecord::default()
    };
    let (both, there) = (Mask::SGID | Mask::DGID, between(&own, a, b));
    let aligned: Vec<_> = (0..4).map(|offset| (a + offset, b + offset)).collect();
    assert_eq!(ways(&mut own, Method::GET_TABLE, both, there), aligned);
    assert_eq!(ways(&mut own, Method::GET, both, there), aligned[..1]);
    let two = PathRecord {
        paths_wanted: 2,
        ..there
    };
    assert_eq!(
        ways(&mut own, Method::GET_TABLE, both | Mask::PATHS_WANTED, two),
        aligned[..2]
    );
    // one end given: that one and each of the others
    let from = PathRecord {
        slid: Lid(a + 2),
        ..there
    };
    let fan: Vec<_> = (0..4).map(|offset| (a + 2, b + offset)).collect();
    assert_eq!(
        ways(&mut own, Method::GET_TABLE, both | Mask::SLID, from),
        fan
    );
    let to = PathRecord {
        dlid: Lid(b + 3),
        ..there
    };
    let fan: Vec<_> = (0..4).map(|offset| (a + offset, b + 3)).collect();
    assert_eq!(
        ways(&mut own, Method::GET_TABLE, both | Mask::DLID, to),
        fan
    );
    let exact = PathRecord {
        slid: Lid(a + 1),
        dlid: Lid(b + 3),
        ..there
    };
    let lids = Mask::SLID | Mask::DLID;
    assert_eq!(ways(&mut own, Method::GET, lids, exact), [(a + 1, b + 3)]);
    // a switch has one LID
    let up = between(&own, a, switch);
    assert_eq!(ways(&mut own, Method::GET_TABLE, both, up), [(a, switch)]);
    // all of them: hosts four to each host, else one
    let all = ways(
        &mut own,
        Method::GET_TABLE,
        Mask::empty(),
        PathRecord::default(),
    );
    assert_eq!(all.len(), 6 * 6 * 4 + 3 * 9 + 6 * 3);
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
        refused(Method::SET, attribute::NODE, 0),
        MadStatus::UNSUPPORTED_ATTRIBUTE
    );
    for (method, record) in [
        (Method::GET_TABLE, attribute::TRACE),
        (Method::GET_TRACE_TABLE, attribute::TRACE),
        // nobody is given GUIDs
        (Method::SET, attribute::GUID_INFO),
        (Method::DELETE, attribute::GUID_INFO),
    ] {
        assert_eq!(
            refused(method, record, 0),
            MadStatus::UNSUPPORTED_ATTRIBUTE,
            "{method:?} {record:?}"
        );
    }
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
        if let Some(answer) = own.answer(Instant(0), Asker::default(), &mad) {
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
    // the first LID is that of IP over InfiniBand's broadcasts
    assert_eq!((ok, made.mlid), (MadStatus::OK, Lid(0xc001)));
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
    assert_eq!(count(&mut own, &table(attribute::MC_MEMBER)), 2);
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
    assert_eq!(count(&mut own, &table(attribute::MC_MEMBER)), 2);
    assert_eq!(leave(&mut own, 3, full), MadStatus::OK);
    assert_eq!(count(&mut own, &table(attribute::MC_MEMBER)), 1);
    let trees = own.take_trees();
    assert!(trees[0].1.iter().all(|row| *row == [0; 4]));
}

#[test]
fn groups_have_the_level_on_which_they_block_nobody() {
    let mgid = Gid([0xff, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    let join = |own: &mut Administration, host: usize, sl: u8| {
        let gid = host_gids(own)[host].0;
        let mut asked = member(Method::SET, gid, mgid, JoinState::FULL_MEMBER);
        let wish = McMemberRecord {
            sl: Sl(sl),
            ..asked.data_as().unwrap()
        };
        asked.set_data(&wish).unwrap();
        let (answer, _) = ask(own, &asked);
        let record = answer.data_as::<McMemberRecord>();
        (answer.status, record.unwrap().sl)
    };
    // of IP over InfiniBand's broadcasts, too
    let broadcasts = |own: &mut Administration, sl: u8| {
        let mut asked = table(attribute::MC_MEMBER);
        asked.component_mask = McMemberRecordMask::SL.bits();
        let wish = McMemberRecord {
            sl: Sl(sl),
            ..McMemberRecord::default()
        };
        asked.set_data(&wish).unwrap();
        count(own, &asked)
    };
    let mut plain = routed_by("updn", "torus:4x4:1");
    assert_eq!(broadcasts(&mut plain, 0), 1);
    assert_eq!(
        join(&mut plain, 0, 3),
        (MadStatus::OK, Sl(3)),
        "any will do"
    );
    assert_eq!(join(&mut plain, 1, 2).0, status::REQUEST_INVALID);

    let mut own = routed_by("lash", "torus:4x4:1");
    let level = own.subnet().routing.groups;
    assert_eq!(level + 1, own.subnet().routing.lanes_needed);
    assert!(level > 0);
    assert_eq!(broadcasts(&mut own, level), 1);
    // whoever wants the level that its maker wanted is welcome, and hears which it has
    assert_eq!(join(&mut own, 0, 0), (MadStatus::OK, Sl(level)));
    assert_eq!(join(&mut own, 1, 0), (MadStatus::OK, Sl(level)));
    assert_eq!(join(&mut own, 2, level), (MadStatus::OK, Sl(level)));
    assert_eq!(join(&mut own, 3, level - 1).0, status::REQUEST_INVALID);
    assert_eq!(broadcasts(&mut own, level), 2);
    // other routes, another level
    own.renew(plain.subnet().clone(), Lid(1), SmInfo::default());
    assert_eq!(broadcasts(&mut own, 0), 2);
    assert_eq!(join(&mut own, 3, 0), (MadStatus::OK, Sl(0)));
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

fn port_gid(own: &Administration, lid: u16) -> Gid {
    super::records::gid_at(own.subnet(), Lid(lid)).unwrap()
}

fn ask_at(own: &mut Administration, now: Instant, lid: u16, asked: &SaMad) -> (SaMad, Vec<u8>) {
    let mut mad = [0; MAD_LEN];
    asked.emit(&mut mad).unwrap();
    let from = Asker {
        lid: Lid(lid),
        qpn: Qpn(1),
    };
    let answer = own.answer(now, from, &mad).unwrap();
    let mut head = [0; MAD_LEN];
    let length = answer.len().min(MAD_LEN);
    head[..length].copy_from_slice(&answer[..length]);
    (SaMad::parse_mad(&head).unwrap(), answer)
}

fn service(own: &Administration, id: u64, lid: u16, lease_s: u32) -> ServiceRecord {
    let mut name = [0; 64];
    name[..4].copy_from_slice(b"test");
    let mut data = [0; 64];
    // the second of the 16-bit words
    data[18..20].copy_from_slice(&[7, 8]);
    ServiceRecord {
        service_id: ServiceId(id),
        gid: port_gid(own, lid),
        pkey: PKey(0xffff),
        lease_s,
        key: [9; 16],
        name,
        data,
    }
}

#[test]
fn services_are_found_by_what_they_say_until_their_lease_ends() {
    use ferriband_wire::attributes::ServiceRecordMask as Mask;
    let mut own = administration("ring:3:2");
    let set = |own: &mut Administration, record: &ServiceRecord, mask: Mask| {
        let mut asked = SaMad::new(Method::SET, attribute::SERVICE);
        asked.component_mask = mask.bits();
        asked.set_data(record).unwrap();
        ask(own, &asked).0
    };
    let all = Mask::SERVICE_ID | Mask::GID | Mask::PKEY | Mask::LEASE | Mask::NAME;
    let short = service(&own, 5, 1, 10);
    let said = set(&mut own, &short, all);
    assert_eq!(
        (said.method, said.status),
        (Method::GET_RESP, MadStatus::OK)
    );
    let record: ServiceRecord = said.data_as().unwrap();
    assert_eq!(
        (record.key, record.name),
        ([0; 16], short.name),
        "its key is for the trusted"
    );
    let long = service(&own, 6, 2, 10);
    // without a lease it is for ever
    let said = set(&mut own, &long, all.difference(Mask::LEASE));
    let record: ServiceRecord = said.data_as().unwrap();
    assert_eq!(record.lease_s, u32::MAX);
    let nowhere = ServiceRecord {
        gid: Gid([3; 16]),
        ..long
    };
    assert_eq!(set(&mut own, &nowhere, all).status, status::INVALID_GID);
    assert_eq!(
        set(&mut own, &long, Mask::SERVICE_ID).status,
        status::INSUFFICIENT_COMPONENTS
    );

    let find = |own: &mut Administration, now_s: u64, record: &ServiceRecord, mask: u64| {
        let mut asked = table(attribute::SERVICE);
        asked.component_mask = mask;
        asked.set_data(record).unwrap();
        let now = Instant(now_s * 1_000_000_000);
        let (head, bytes) = ask_at(own, now, 1, &asked);
        assert_eq!(head.status, MadStatus::OK);
        (bytes.len() - HEAD_BYTES) / ServiceRecord::LEN
    };
    assert_eq!(find(&mut own, 9, &short, 0), 2);
    assert_eq!(find(&mut own, 9, &short, Mask::SERVICE_ID.bits()), 1);
    assert_eq!(find(&mut own, 9, &short, Mask::NAME.bits()), 2);
    let (second_word, third_word) = (1 << 24, 1 << 25);
    assert_eq!(find(&mut own, 9, &short, second_word | third_word), 2);
    let other = ServiceRecord {
        data: [1; 64],
        ..short
    };
    assert_eq!(find(&mut own, 9, &other, second_word), 0);
    assert_eq!(find(&mut own, 10, &short, 0), 1, "the lease is over");

    let mut asked = SaMad::new(Method::DELETE, attribute::SERVICE);
    asked.set_data(&long).unwrap();
    assert_eq!(ask(&mut own, &asked).0.status, MadStatus::OK);
    assert_eq!(ask(&mut own, &asked).0.status, status::NO_RECORDS);
    assert_eq!(find(&mut own, 10, &short, 0), 0);
}

fn inform(trap: u16, subscribe: u8) -> InformInfo {
    InformInfo {
        gid: Gid([0; 16]),
        lid_begin: Lid(0xffff),
        lid_end: Lid(0),
        generic: 1,
        subscribe,
        kind: 0xffff,
        trap,
        qpn: Qpn(0),
        response_time: TimeCode(18),
        producer: ferriband_wire::attributes::producer::ANY,
    }
}

fn subscribe(own: &mut Administration, lid: u16, wants: &InformInfo) -> MadStatus {
    let mut asked = SaMad::new(Method::SET, attribute::INFORM_INFO);
    asked.set_data(wants).unwrap();
    ask_at(own, Instant(0), lid, &asked).0.status
}

/// Who hears of what, and about whom.
fn heard(own: &mut Administration) -> Vec<(u16, Notice)> {
    std::iter::from_fn(|| own.poll_report())
        .map(|(to, mad)| {
            let report = SaMad::parse_mad(&mad).unwrap();
            assert_eq!(
                (report.method, report.attribute, to.qpn),
                (Method::REPORT, attribute::NOTICE, Qpn(1))
            );
            (to.lid.0, report.data_as().unwrap())
        })
        .collect()
}

#[test]
fn who_has_subscribed_hears_of_traps_of_groups_and_of_ports() {
    let mut own = administration("ring:3:2");
    let (link, everything) = (inform(trap::LINK_STATE, 1), inform(trap::ANY, 1));
    assert_eq!(subscribe(&mut own, 1, &link), MadStatus::OK);
    assert_eq!(subscribe(&mut own, 1, &link), MadStatus::OK, "once more");
    assert_eq!(subscribe(&mut own, 4, &everything), MadStatus::OK);
    let of_three = InformInfo {
        lid_begin: Lid(3),
        ..everything
    };
    assert_eq!(subscribe(&mut own, 5, &of_three), MadStatus::OK);
    assert_eq!(subscribe(&mut own, 200, &link), status::REQUEST_INVALID);
    assert_eq!(count(&mut own, &table(attribute::INFORM_INFO_RECORD)), 3);

    let mut changed = Notice::new(NoticeType::URGENT, 2, trap::LINK_STATE, Lid(3));
    own.tell(&changed);
    changed.issuer_gid = port_gid(&own, 3);
    let expected = [1, 4, 5].map(|lid| (lid, changed));
    assert_eq!(heard(&mut own), expected);
    own.tell(&Notice {
        issuer_lid: Lid(2),
        ..changed
    });
    assert_eq!(heard(&mut own).len(), 2, "not from LID 3");

    // a group is made and goes again
    let mut mgid = [1; 16];
    mgid[0] = 0xff;
    for (method, number) in [
        (Method::SET, trap::GROUP_MADE),
        (Method::DELETE, trap::GROUP_GONE),
    ] {
        let gid = port_gid(&own, 1);
        let asked = member(method, gid, Gid(mgid), JoinState::FULL_MEMBER);
        assert_eq!(ask(&mut own, &asked).0.status, MadStatus::OK);
        let heard = heard(&mut own);
        let [(4, notice)] = heard[..] else {
            panic!("{heard:?}")
        };
        assert_eq!((notice.trap, notice.gid()), (number, Gid(mgid)));
        assert_eq!(notice.issuer_gid, port_gid(&own, 1), "the manager's port");
    }

    // a port goes, and with it what it wanted; and comes back
    let whole = own.subnet().clone();
    let gone = port_gid(&own, 5);
    let mut less = whole.clone();
    less.nodes.retain(|node| {
        let mut ports = node.ports.values();
        ports.all(|info| info.lid != Lid(5))
    });
    let wants_that = InformInfo {
        gid: gone,
        ..inform(trap::IN_SERVICE, 1)
    };
    assert_eq!(subscribe(&mut own, 2, &wants_that), MadStatus::OK);
    own.renew(less, Lid(1), SmInfo::default());
    let out = heard(&mut own);
    assert_eq!(out.len(), 1);
    assert_eq!(
        (out[0].1.trap, out[0].1.gid()),
        (trap::OUT_OF_SERVICE, gone)
    );
    own.renew(whole, Lid(1), SmInfo::default());
    let back = heard(&mut own);
    let who: Vec<_> = back
        .iter()
        .map(|(lid, notice)| (*lid, notice.trap))
        .collect();
    assert_eq!(who, [(4, trap::IN_SERVICE), (2, trap::IN_SERVICE)]);
    assert_eq!(count(&mut own, &table(attribute::INFORM_INFO_RECORD)), 3);

    // enough
    let no_more = InformInfo {
        subscribe: 0,
        qpn: Qpn(1),
        ..link
    };
    assert_eq!(subscribe(&mut own, 4, &no_more), status::REQUEST_INVALID);
    assert_eq!(subscribe(&mut own, 1, &no_more), MadStatus::OK);
    own.tell(&changed);
    assert_eq!(heard(&mut own), [(4, changed)]);
}

#[test]
fn many_paths_are_asked_for_at_once() {
    let mut own = administration("ring:3:2");
    let gids = [1, 2, 5, 6, 7].map(|lid| port_gid(&own, lid));
    let mut asked = SaMad::new(Method::GET_MULTI, attribute::MULTI_PATH);
    (asked.data[15], asked.data[16]) = (2, 3);
    for (number, gid) in gids.iter().enumerate() {
        asked.data[24 + 16 * number..][..16].copy_from_slice(&gid.0);
    }
    asked.component_mask = 1 << 19 | 1 << 20;
    let (head, bytes) = ask(&mut own, &asked);
    assert_eq!(
        (head.status, head.method),
        (MadStatus::OK, Method::GET_MULTI_RESP)
    );
    let records = bytes[HEAD_BYTES..].chunks_exact(PathRecord::LEN);
    let pairs: Vec<_> = records
        .map(|bytes| {
            let (path, _) = PathRecord::parse(bytes).unwrap();
            (path.slid.0, path.dlid.0)
        })
        .collect();
    assert_eq!(pairs, [(1, 5), (1, 6), (1, 7), (2, 5), (2, 6), (2, 7)]);
    // two are enough; of an MTU that there is not: none
    asked.component_mask |= 1 << 6;
    asked.data[5] = 2;
    let (_, bytes) = ask(&mut own, &asked);
    assert_eq!(bytes.len(), HEAD_BYTES + 2 * PathRecord::LEN);
    asked.component_mask |= 1 << 10 | 1 << 11;
    asked.data[10] = 2 << 6 | 4;
    let (_, bytes) = ask(&mut own, &asked);
    let (path, _) = PathRecord::parse(&bytes[HEAD_BYTES..]).unwrap();
    assert_eq!(path.mtu.value, 4, "lowered as asked");
    // to nobody
    let mut to_nobody = asked;
    to_nobody.data[24..40].fill(0xff);
    assert_eq!(ask(&mut own, &to_nobody).0.status, status::INVALID_GID);
    // more than there is room for, or none at all
    for counts in [(200, 200), (0, 1), (6, 6)] {
        (asked.data[15], asked.data[16]) = counts;
        assert_eq!(ask(&mut own, &asked).0.status, status::REQUEST_INVALID);
    }
}

#[test]
fn tables_are_read_when_somebody_asks_and_not_before() {
    let mut own = administration("ring:3:2");
    let bytes = |asked: &SaMad| {
        let mut mad = [0; MAD_LEN];
        asked.emit(&mut mad).unwrap();
        mad
    };
    let mut lanes = table(attribute::SL_TO_VL);
    lanes.component_mask = 0b111;
    lanes.data[..4].copy_from_slice(&[0, 2, 3, 4]);
    let needs = own.needs(&bytes(&lanes)).unwrap();
    assert_eq!(
        (needs.lid, needs.input, needs.port),
        (Some(Lid(2)), Some(3), Some(4))
    );
    // until they were read it is busy, and a read of something else does not do
    assert_eq!(ask(&mut own, &lanes).0.status, MadStatus::BUSY);
    own.learned(Some(TableRead {
        what: Reading { lid: None, ..needs },
        blocks: Vec::new(),
    }));
    assert_eq!(ask(&mut own, &lanes).0.status, MadStatus::BUSY);
    let block = |port, of_switch| Block {
        lid: Lid(2),
        port,
        of_switch,
        modifier: 3 << 8 | u32::from(port),
        data: [0x11; 64],
    };
    own.learned(Some(TableRead {
        what: needs,
        blocks: vec![block(4, true), block(5, true), block(1, false)],
    }));
    let (head, bytes) = ask(&mut own, &lanes);
    assert_eq!(head.status, MadStatus::OK);
    // that of the switch's port 4, and the adapter's, of which ports are no components
    let records: Vec<_> = bytes[HEAD_BYTES..].chunks(16).collect();
    assert_eq!(records.len(), 2);
    assert_eq!(records[0][..4], [0, 2, 3, 4]);
    assert_eq!(records[0][8..], [0x11; 8]);
}

#[test]
fn partition_keys_are_for_the_trusted_and_a_wrong_key_is_not_answered() {
    let mut own = administration("ring:3:2");
    let mut asked = table(attribute::PKEY_TABLE);
    let bytes = |asked: &SaMad| {
        let mut mad = [0; MAD_LEN];
        asked.emit(&mut mad).unwrap();
        mad
    };
    assert_eq!(own.needs(&bytes(&asked)), None);
    assert_eq!(ask(&mut own, &asked).0.status, status::REQUEST_INVALID);
    asked.sm_key = SmKey(1);
    assert!(own.needs(&bytes(&asked)).is_some());
    asked.sm_key = SmKey(2);
    assert_eq!(own.needs(&bytes(&asked)), None);
    let answer = own.answer(Instant(0), Asker::default(), &bytes(&asked));
    assert_eq!(answer, None);
}
