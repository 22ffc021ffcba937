//! Two hosts of a ring send to a third by one link.

use super::*;
use crate::live::Fabric;
use crate::live::links::tests::packet;
use crate::live::tests::{hosts, ring};
use crate::manage::Place;
use ferriband_wire::Header;
use ferriband_wire::attributes::{
    CA_CONGESTION_SETTING, CC_DATA_OFFSET, CC_KEY_OFFSET, CC_LOG_OFFSET, CONGESTION_CONTROL_TABLE,
    CONGESTION_KEY_INFO, CONGESTION_LOG, CaCongestionEntry, CaCongestionSetting, CaLog, CctBlock,
    CongestionKeyInfo, SWITCH_CONGESTION_SETTING, SWITCH_PORT_CONGESTION_SETTING,
    SwitchCongestionSetting, SwitchLog,
};
use ferriband_wire::mad::{AttributeId, MAD_LEN, MadHeader, MadStatus, ManagementClass, Method};
use zerocopy::byteorder::big_endian::{U16, U32, U64};

const MS: u64 = 1_000_000_000;

fn mad(method: Method, attribute: AttributeId, modifier: u32, key: u64) -> [u8; MAD_LEN] {
    let mut mad = [0; MAD_LEN];
    let header = MadHeader {
        class: ManagementClass::CONG_CTRL,
        class_version: 2,
        method,
        status: MadStatus::OK,
        class_specific: 0,
        transaction_id: ferriband_wire::TransactionId(7),
        attribute,
        attribute_modifier: modifier,
    };
    header.emit(&mut mad).unwrap();
    mad[CC_KEY_OFFSET..CC_LOG_OFFSET].copy_from_slice(&key.to_be_bytes());
    mad
}

fn ask(fabric: &mut Fabric, at: Place, mad: &[u8; MAD_LEN]) -> Option<(MadStatus, [u8; MAD_LEN])> {
    let node = fabric.plane.node_mut(at.node);
    let answer = node.answer_congestion(Time(0), at.port, mad)?;
    let (header, _) = MadHeader::parse(&answer).unwrap();
    assert_eq!(header.method, Method::GET_RESP);
    Some((header.status, answer))
}

fn set<A: Header>(
    fabric: &mut Fabric,
    at: Place,
    (attribute, modifier): (AttributeId, u32),
    value: &A,
) -> MadStatus {
    let mut mad = mad(Method::SET, attribute, modifier, 0);
    value.emit(&mut mad[CC_DATA_OFFSET..]).unwrap();
    ask(fabric, at, &mad).unwrap().0
}

fn get(fabric: &mut Fabric, at: Place, attribute: AttributeId) -> [u8; MAD_LEN] {
    let (status, answer) = ask(fabric, at, &mad(Method::GET, attribute, 0, 0)).unwrap();
    assert_eq!(status, MadStatus::OK);
    answer
}

fn control(fabric: &mut Fabric) {
    let setting = SwitchCongestionSetting {
        control_map: U32::new(1 | 1 << 2 | 1 << 4),
        victim_mask: [0xff; 32],
        threshold: 15 << 4,
        packet_blocks: 1,
        ..SwitchCongestionSetting::default()
    };
    let entry = CaCongestionEntry {
        timer: U16::new(20),
        increase: 1,
        trigger: 2,
        ..CaCongestionEntry::default()
    };
    let reaction = CaCongestionSetting {
        port_control: U16::ZERO,
        control_map: U16::new(1),
        entries: [entry; 16],
    };
    let table = CctBlock {
        limit: U16::new(63),
        reserved: U16::ZERO,
        entries: std::array::from_fn(|i| U16::new(3 << 14 | i as u16)),
    };
    let nodes: Vec<_> = fabric.plane.topology().ids().collect();
    for node in nodes {
        let switch = fabric.plane.node(node).switch.is_some();
        let at = Place {
            node,
            port: u8::from(!switch),
        };
        let told = match switch {
            true => set(fabric, at, (SWITCH_CONGESTION_SETTING, 0), &setting),
            false => {
                let told = set(fabric, at, (CONGESTION_CONTROL_TABLE, 0), &table);
                assert_eq!(told, MadStatus::OK);
                set(fabric, at, (CA_CONGESTION_SETTING, 0), &reaction)
            }
        };
        assert_eq!(told, MadStatus::OK);
    }
}

/// What came of two hosts that send as fast as they can to a third, which answers each packet, for so long.
struct Incast {
    /// Packets that came from each.
    came: [u32; 2],
    /// With a mark, and marks that came back.
    marks: [u32; 2],
    /// Packets that waited in the fabric, summed up at each arrival.
    waiting: u64,
}

fn incast(fabric: &mut Fabric, until: Time) -> Incast {
    let all = hosts(fabric);
    let (senders, to) = ([all[0], all[2]], all[5]);
    fabric.set_rate_scale(Some(0.001));
    let mut out = Incast {
        came: [0; 2],
        marks: [0; 2],
        waiting: 0,
    };
    let mut now = Time(0);
    while now < until {
        for from in senders {
            while fabric.has_room(from) {
                fabric.send_packet(now, from, packet(from, to, 0, 1024));
            }
        }
        while let Some(arrived) = fabric.poll_packet(now) {
            fabric.taken(arrived.room.unwrap());
            if arrived.at == to {
                let from = slid(&arrived.bytes);
                let sender = senders
                    .iter()
                    .position(|own| own.node.0 as u16 + 1 == from.0);
                out.came[sender.unwrap()] += 1;
                out.marks[0] += u32::from(has(&arrived.bytes, Mark::Forward));
                out.waiting += fabric.credits().taken_blocks;
                let back = senders[sender.unwrap()];
                fabric.send_packet(now, to, packet(to, back, 0, 64));
            } else {
                out.marks[1] += u32::from(has(&arrived.bytes, Mark::Backward));
            }
        }
        now = fabric.poll_timeout().unwrap_or(until).max(now);
    }
    out
}

#[test]
fn nobody_marks_or_slows_down_who_was_not_told_to() {
    let mut fabric = ring();
    let seen = incast(&mut fabric, Time(250 * MS));
    assert_eq!(seen.marks, [0, 0]);
    assert!(seen.came.iter().all(|came| *came > 60), "{:?}", seen.came);
}

#[test]
fn who_meets_at_a_link_is_marked_hears_of_it_and_leaves_less_waiting() {
    let mut fabric = ring();
    let wild = incast(&mut fabric, Time(250 * MS));
    let mut fabric = ring();
    control(&mut fabric);
    let seen = incast(&mut fabric, Time(250 * MS));
    let [forward, backward] = seen.marks;
    assert!(forward > 10 && backward > 10, "{:?}", seen.marks);
    let packets = |seen: &Incast| u64::from(seen.came[0] + seen.came[1]);
    // the link is still used well, and what lies in buffers is less by far
    assert!(
        packets(&seen) * 10 > packets(&wild) * 6,
        "{:?} {:?}",
        seen.came,
        wild.came
    );
    let mean = |seen: &Incast| seen.waiting / packets(seen).max(1);
    assert!(
        mean(&seen) * 2 < mean(&wild),
        "{} and {}",
        mean(&seen),
        mean(&wild)
    );
    // both ends have it in their logs, once
    let (to, sender) = (hosts(&fabric)[5], hosts(&fabric)[0]);
    let end = PortId {
        node: to.node,
        port: to.port,
    };
    let last = fabric.plane.topology().peer(end).unwrap();
    let at = Place {
        node: last.node,
        port: 0,
    };
    let log = get(&mut fabric, at, CONGESTION_LOG);
    let (log, _) = SwitchLog::parse(&log[CC_LOG_OFFSET..]).unwrap();
    assert!(log.kind == 1 && log.count.get() > 10, "{log:?}");
    assert!(SwitchCongestionSetting::has(&log.ports, last.port));
    assert_eq!(log.events[0].dlid.get(), to.node.0 as u16 + 1);
    let log = get(&mut fabric, at, CONGESTION_LOG);
    let (log, _) = SwitchLog::parse(&log[CC_LOG_OFFSET..]).unwrap();
    assert_eq!(log.count.get(), 0);
    let log = get(&mut fabric, sender, CONGESTION_LOG);
    let (log, _) = CaLog::parse(&log[CC_LOG_OFFSET..]).unwrap();
    assert!(
        log.kind == 2 && log.count.get() > 0 && log.levels.get() == 1,
        "{log:?}"
    );
    assert_eq!(log.events[0].lid.get(), to.node.0 as u16 + 1);
}

#[test]
fn what_a_node_has_not_is_refused_and_a_key_is_asked_for() {
    let mut fabric = ring();
    let host = hosts(&fabric)[0];
    let refused = |fabric: &mut Fabric, at, what, modifier| {
        ask(fabric, at, &mad(Method::GET, what, modifier, 0))
            .unwrap()
            .0
    };
    let unsupported = MadStatus::UNSUPPORTED_ATTRIBUTE;
    assert_eq!(
        refused(&mut fabric, host, SWITCH_CONGESTION_SETTING, 0),
        unsupported
    );
    assert_eq!(
        refused(&mut fabric, host, SWITCH_PORT_CONGESTION_SETTING, 0),
        unsupported
    );
    assert_eq!(
        refused(&mut fabric, host, AttributeId(0x99), 0),
        unsupported
    );
    assert_eq!(
        refused(&mut fabric, host, CONGESTION_CONTROL_TABLE, 8),
        MadStatus::INVALID_FIELD
    );
    let table = CctBlock {
        limit: U16::new(512),
        reserved: U16::ZERO,
        entries: [U16::ZERO; 64],
    };
    let told = set(&mut fabric, host, (CONGESTION_CONTROL_TABLE, 0), &table);
    assert_eq!(told, MadStatus::INVALID_FIELD);
    let key = CongestionKeyInfo {
        key: U64::new(0x1234),
        protect: U16::new(1 << 15),
        ..CongestionKeyInfo::default()
    };
    assert_eq!(
        set(&mut fabric, host, (CONGESTION_KEY_INFO, 0), &key),
        MadStatus::OK
    );
    // who has it not is told nothing, changes nothing, and is counted
    let mut other = mad(Method::SET, CONGESTION_KEY_INFO, 0, 0x99);
    CongestionKeyInfo::default()
        .emit(&mut other[CC_DATA_OFFSET..])
        .unwrap();
    assert!(ask(&mut fabric, host, &other).is_none());
    let read = |fabric: &mut Fabric, shown| {
        let asked = mad(Method::GET, CONGESTION_KEY_INFO, 0, shown);
        let (_, answer) = ask(fabric, host, &asked).unwrap();
        CongestionKeyInfo::parse(&answer[CC_DATA_OFFSET..])
            .unwrap()
            .0
    };
    let (hidden, shown) = (read(&mut fabric, 0), read(&mut fabric, 0x1234));
    assert_eq!((hidden.key.get(), hidden.violations.get()), (0, 1));
    assert_eq!(shown.key.get(), 0x1234);
}
