//! Automatic path migration (IBA 17.2.8): what programs may ask for, when both sides are armed,
//! what becomes of requests that are under way when the path dies.

use super::*;
use crate::CameBy;
use crate::qp_state::TransitionError;
use crate::types::MigState;

/// LIDs of the two paths, at both ends.
const FIRST: Lid = Lid(1);
const SECOND: Lid = Lid(9);

fn alternate(attr: &mut QpAttr) {
    attr.state = QpState::Rts;
    attr.alt_av = AddressVector {
        port_num: 1,
        dlid: SECOND,
        ..AddressVector::default()
    };
    (attr.alt_port_num, attr.alt_timeout) = (1, 12);
}

/// Loads the alternate path.
fn load(end: &mut End) {
    alternate(&mut end.attr);
    end.qp
        .modify(&end.attr, QpAttrMask::STATE | QpAttrMask::ALT_PATH)
        .unwrap();
}

/// Names a state of the path.
fn ask(end: &mut End, wanted: MigState) -> Result<(), TransitionError> {
    (end.attr.state, end.attr.path_mig_state) = (end.qp.state(), wanted);
    let mask = QpAttrMask::STATE | QpAttrMask::PATH_MIG_STATE;
    let done = end.qp.modify(&end.attr, mask).map(|_| ());
    end.collect();
    done
}

fn rearm(end: &mut End) {
    load(end);
    ask(end, MigState::Rearm).unwrap();
}

/// Packets until both sides are silent, each by its sender's path unless that is dead.
fn travel(pair: &mut Pair, dead: Option<Lid>) {
    let mut buf = [0; MAX_PACKET_BYTES];
    loop {
        let mut silent = true;
        for from in 0..2 {
            let end = &mut pair.ends[from];
            let sent = end.qp.poll_transmit(pair.now, &mut end.memory, &mut buf);
            end.collect();
            let by = end.qp.query().av.dlid;
            let Some(sent) = sent else { continue };
            silent = false;
            if dead == Some(by) {
                continue;
            }
            let peer = &mut pair.ends[1 - from];
            peer.qp
                .packets_come_by(match peer.qp.query().av.dlid == by {
                    true => CameBy::Primary,
                    false => CameBy::Alternate,
                });
            peer.receive(pair.now, &Packet::parse(&buf[..sent.len]).unwrap());
        }
        if silent {
            return;
        }
    }
}

/// Packets and time until nothing is left to happen.
fn settle(pair: &mut Pair, dead: Option<Lid>) {
    for _ in 0..1000 {
        travel(pair, dead);
        let next = pair.ends.iter().filter_map(|end| end.qp.poll_timeout());
        let Some(at) = next.min() else { return };
        pair.now = at.max(pair.now);
        for end in &mut pair.ends {
            end.qp.handle_timeout(pair.now);
            end.collect();
        }
    }
    panic!("never settles");
}

/// A pair whose sides are both armed.
fn armed(setup: Setup) -> Pair {
    let mut pair = Pair::new(setup);
    for end in &mut pair.ends {
        rearm(end);
    }
    // each hears of the other's wish by a packet
    for end in &mut pair.ends {
        end.post(0, SendOpcode::RdmaWrite, 9);
    }
    settle(&mut pair, None);
    for end in &mut pair.ends {
        assert_eq!(end.qp.path_state(), MigState::Armed);
        end.done.clear();
        end.events.clear();
    }
    pair
}

fn wr_ids(from: u64, to: u64) -> Vec<(u64, WcStatus)> {
    (from..=to).map(|wr_id| (wr_id, OK)).collect()
}

#[test]
fn an_armed_path_migrates_when_retries_run_out_and_the_peer_follows() {
    let mut pair = armed(RC);
    for wr_id in 1..=5 {
        pair.ends[1].post_recv(wr_id, 600);
        pair.ends[0].post(wr_id, SendOpcode::Send, 600);
    }
    settle(&mut pair, Some(FIRST));
    assert_eq!(pair.ends[0].statuses(), wr_ids(1, 5));
    assert_eq!(pair.ends[1].statuses(), wr_ids(1, 5), "each once, in order");
    for end in &pair.ends {
        assert_eq!(end.events, [QpEvent::PathMig]);
        let attr = end.qp.query();
        assert_eq!((attr.av.dlid, attr.alt_av.dlid), (SECOND, FIRST));
        assert_eq!((attr.timeout, attr.alt_timeout), (12, 14));
        assert_eq!(attr.path_mig_state, MigState::Migrated);
        assert_eq!(end.qp.migrations(), 1);
    }
    // armed anew, it goes back by the path that was the first
    for end in &mut pair.ends {
        ask(end, MigState::Rearm).unwrap();
    }
    for wr_id in 6..=7 {
        pair.ends[0].post(wr_id, SendOpcode::RdmaWrite, 9);
        pair.ends[1].post(wr_id, SendOpcode::RdmaWrite, 9);
        settle(&mut pair, (wr_id == 7).then_some(SECOND));
    }
    assert_eq!(pair.ends[0].statuses(), wr_ids(1, 7));
    assert_eq!(pair.ends[0].qp.query().av.dlid, FIRST);
    assert_eq!(pair.ends[0].qp.migrations(), 2);
}

#[test]
fn both_paths_dead_end_as_one_does() {
    let mut pair = armed(RC);
    pair.ends[0].post(1, SendOpcode::RdmaWrite, 9);
    for _ in 0..100 {
        pair.exchange(&mut |_, _| 0);
        let Some(at) = pair.ends[0].qp.poll_timeout() else {
            break;
        };
        pair.now = at;
        pair.ends[0].qp.handle_timeout(at);
    }
    pair.ends[0].collect();
    assert_eq!(pair.ends[0].statuses(), [(1, WcStatus::RetryExcErr)]);
    assert_eq!(pair.ends[0].events, [QpEvent::PathMig]);
}

#[test]
fn migrated_by_hand_nothing_that_is_under_way_is_lost_or_doubled() {
    let mut pair = armed(RC);
    for wr_id in 1..=3 {
        pair.ends[0].post(wr_id, SendOpcode::RdmaWrite, 600);
    }
    // all but the last packet arrives, and no acknowledgement
    let mut buf = [0; MAX_PACKET_BYTES];
    let [end, peer] = &mut pair.ends;
    peer.memory.writes.clear();
    let mut packets = 0;
    while let Some(sent) = end.qp.poll_transmit(pair.now, &mut end.memory, &mut buf) {
        packets += 1;
        if packets < 9 {
            peer.receive(pair.now, &Packet::parse(&buf[..sent.len]).unwrap());
        }
    }
    assert_eq!((packets, peer.memory.writes.len()), (9, 8));
    ask(&mut pair.ends[0], MigState::Migrated).unwrap();
    assert_eq!(pair.ends[0].events, [QpEvent::PathMig]);
    travel(&mut pair, Some(FIRST));
    assert_eq!(pair.ends[1].events, [QpEvent::PathMig], "it follows");
    settle(&mut pair, Some(FIRST));
    assert_eq!(pair.ends[0].statuses(), wr_ids(1, 3));
    assert_eq!(pair.ends[1].memory.writes.len(), 9);
}

#[test]
fn a_wait_for_a_receive_outlasts_a_migration() {
    let mut pair = armed(RC);
    pair.ends[0].post(1, SendOpcode::Send, 9);
    travel(&mut pair, None);
    let due = pair.ends[0].qp.poll_timeout().unwrap();
    assert!(pair.ends[0].qp.fail_over(), "its port is down");
    assert!(!pair.ends[0].qp.fail_over(), "there is no third path");
    travel(&mut pair, Some(FIRST));
    assert!(pair.ends[0].qp.poll_timeout().unwrap() >= due, "it waits");
    pair.ends[1].post_recv(1, 9);
    settle(&mut pair, Some(FIRST));
    assert_eq!(pair.ends[0].statuses(), wr_ids(1, 1));
    assert_eq!(pair.ends[1].statuses(), wr_ids(1, 1));
}

#[test]
fn a_path_that_is_not_armed_stays() {
    let mut pair = Pair::new(RC);
    rearm(&mut pair.ends[0]);
    for wr_id in 1..=2 {
        pair.ends[0].post(wr_id, SendOpcode::RdmaWrite, 9);
        pair.ends[1].post(wr_id, SendOpcode::RdmaWrite, 9);
        settle(&mut pair, None);
    }
    // the peer's packets say Migrated: it has loaded nothing
    assert_eq!(pair.ends[0].qp.path_state(), MigState::Rearm);
    assert!(!pair.ends[0].qp.fail_over());
    pair.ends[0].post(3, SendOpcode::RdmaWrite, 9);
    settle(&mut pair, Some(FIRST));
    assert_eq!(
        pair.ends[0].statuses(),
        [(1, OK), (2, OK), (3, WcStatus::RetryExcErr)]
    );
    assert_eq!(pair.ends[0].events, []);
}

#[test]
fn a_peer_that_migrates_too_early_is_told_of_once() {
    let mut pair = Pair::new(RC);
    rearm(&mut pair.ends[0]);
    pair.ends[0].qp.packets_come_by(CameBy::Alternate);
    for wr_id in 1..=3 {
        pair.ends[1].post(wr_id, SendOpcode::RdmaWrite, 9);
    }
    pair.run();
    assert_eq!(pair.ends[0].events, [QpEvent::PathMigErr]);
    assert_eq!(pair.ends[0].qp.path_state(), MigState::Rearm);
    assert_eq!(
        pair.ends[1].statuses(),
        wr_ids(1, 3),
        "the connection goes on"
    );
    // a program that rearms wants to hear of it again
    ask(&mut pair.ends[0], MigState::Rearm).unwrap();
    pair.ends[1].post(4, SendOpcode::RdmaWrite, 9);
    pair.run();
    assert_eq!(pair.ends[0].events, [QpEvent::PathMigErr; 2]);
}

#[test]
fn where_both_paths_have_the_same_addresses_the_bit_alone_decides() {
    let mut pair = Pair::new(RC);
    for end in &mut pair.ends {
        end.qp.packets_come_by(CameBy::Either);
    }
    // one side rearms much later: until then nothing is wrong
    rearm(&mut pair.ends[0]);
    pair.ends[1].post(1, SendOpcode::RdmaWrite, 9);
    pair.run();
    assert_eq!(pair.ends[0].events, []);
    rearm(&mut pair.ends[1]);
    pair.ends[1].post(2, SendOpcode::RdmaWrite, 9);
    pair.ends[0].post(2, SendOpcode::RdmaWrite, 9);
    pair.run();
    ask(&mut pair.ends[0], MigState::Migrated).unwrap();
    pair.ends[0].post(3, SendOpcode::RdmaWrite, 9);
    pair.run();
    for end in &pair.ends {
        assert_eq!(end.events, [QpEvent::PathMig]);
        assert_eq!(end.qp.path_state(), MigState::Migrated);
    }
}

/// The table of `migration.rs` as programs meet it: what is refused changes nothing.
#[test]
fn what_a_program_may_not_name_changes_nothing() {
    use MigState::{Armed, Migrated, Rearm};
    let unloaded = Pair::new(RC).ends[0].qp.query();
    assert_eq!(unloaded.alt_port_num, 0);
    let mut pair = Pair::new(RC);
    let end = &mut pair.ends[0];
    let refused = |done: Result<(), TransitionError>| {
        assert!(
            matches!(done, Err(TransitionError::PathState { .. })),
            "{done:?}"
        );
    };
    refused(ask(end, Rearm));
    refused(ask(end, Armed));
    assert_eq!(ask(end, Migrated), Ok(()));
    load(end);
    refused(ask(end, Armed));
    assert_eq!(ask(end, Rearm), Ok(()));
    let before = end.qp.query();
    refused(ask(end, Migrated));
    refused(ask(end, Armed));
    assert_eq!(end.qp.query(), before);
    assert_eq!(ask(end, Rearm), Ok(()));
    let mut pair = armed(RC);
    let end = &mut pair.ends[0];
    refused(ask(end, Armed));
    assert_eq!(end.qp.path_state(), Armed);
    // another alternate path may take the place of an armed one, and has to be armed in turn
    assert_eq!(ask(end, Rearm), Ok(()));
    assert_eq!(end.qp.path_state(), Rearm);
    assert_eq!(end.events, []);
}

#[test]
fn an_alternate_path_is_taken_with_rtr_and_armed_with_rts() {
    let mut pair = Pair::new(RC);
    for end in &mut pair.ends {
        end.to(QpState::Reset);
        assert_eq!(end.qp.query().alt_port_num, 0, "forgotten");
        end.to(QpState::Init);
        alternate(&mut end.attr);
        for state in [QpState::Rtr, QpState::Rts] {
            let (required, optional) =
                qp_state::attributes(QpType::Rc, end.qp.state(), state).unwrap();
            let paths = QpAttrMask::ALT_PATH | QpAttrMask::PATH_MIG_STATE;
            (end.attr.state, end.attr.path_mig_state) = (state, MigState::Rearm);
            end.attr.cur_state = end.qp.state();
            end.qp
                .modify(&end.attr, QpAttrMask::STATE | required | optional & paths)
                .unwrap();
        }
        end.events.clear();
    }
    for end in &mut pair.ends {
        end.post(1, SendOpcode::RdmaWrite, 9);
    }
    settle(&mut pair, None);
    // drained, it may migrate, too
    pair.ends[0].to(QpState::Sqd);
    ask(&mut pair.ends[0], MigState::Migrated).unwrap();
    pair.ends[0].to(QpState::Rts);
    pair.ends[0].post(2, SendOpcode::RdmaWrite, 9);
    settle(&mut pair, Some(FIRST));
    for end in &pair.ends {
        assert_eq!(end.events, [QpEvent::PathMig]);
    }
    assert_eq!(pair.ends[0].statuses(), wr_ids(1, 2));
}

#[test]
fn an_unreliable_connection_migrates_by_hand() {
    let mut pair = armed(Setup {
        types: [QpType::Uc; 2],
        ..RC
    });
    ask(&mut pair.ends[0], MigState::Migrated).unwrap();
    pair.ends[0].post(1, SendOpcode::RdmaWrite, 9);
    settle(&mut pair, Some(FIRST));
    for end in &pair.ends {
        assert_eq!(end.events, [QpEvent::PathMig]);
    }
    assert_eq!(pair.ends[1].memory.writes.len(), 2);
}
