//! Receiver not ready, lost peers, reconnects: what is tried again, and how it ends.

use super::*;
use crate::direct::layout::QpEntry;
use crate::direct::sender::TIMEOUT_FLOOR_NS;
use crate::types::rnr_timer_ns;

fn with_retries(pair: &mut Pair, rnr_retry: u8) {
    let attr = SendAttr {
        rnr_retry,
        ..pair.a.sender.attr()
    };
    pair.a.sender.start(attr);
}

/// I9: nothing before the timer; then everything from the refused one on, in order.
#[test]
fn a_receiver_that_is_not_ready_is_tried_again_after_its_timer() {
    let mut pair = Pair::new(QpType::Rc);
    let bytes = pair.a.fill(0, 300, 1);
    pair.a.post(request(1, SendOpcode::Send, sge(0, 100)));
    pair.a.post(request(2, SendOpcode::Send, sge(100, 200)));
    pair.a.advance(0);
    let refused = [
        Handled::Answer(Response::Rnr(12)),
        Handled::Answer(Response::Sequence),
    ];
    assert_eq!(pair.b.drain(), refused);
    pair.a.collect(1_000);
    let until = 1_000 + rnr_timer_ns(12);
    assert_eq!(pair.a.advance(until - 1), Advance::Until(Instant(until)));
    assert!(pair.b.drain().is_empty());
    pair.b.recv(1, 5_000, 100);
    pair.b.recv(2, 6_000, 200);
    pair.now = until;
    pair.settle(5);
    assert_eq!(pair.b.bytes(5_000, 100), bytes[..100]);
    assert_eq!(pair.b.bytes(6_000, 200), bytes[100..]);
    assert_eq!(
        pair.a.statuses(),
        [(1, WcStatus::Success), (2, WcStatus::Success)]
    );
}

/// I9: the counter counts, is infinite at 7, and starts anew after progress.
#[test]
fn receiver_not_ready_ends_after_its_retries_unless_they_are_infinite() {
    let mut pair = Pair::new(QpType::Rc);
    with_retries(&mut pair, 2);
    pair.a.post(request(1, SendOpcode::Send, sge(0, 8)));
    pair.settle(4);
    pair.b.recv(1, 0, 8);
    pair.settle(4);
    assert_eq!(pair.a.statuses(), [(1, WcStatus::Success)], "in time");
    pair.a.post(request(2, SendOpcode::Send, sge(0, 8)));
    pair.a.post(request(3, SendOpcode::Send, sge(0, 8)));
    pair.settle(20);
    let end = [(2, WcStatus::RnrRetryExcErr), (3, WcStatus::WrFlushErr)];
    assert_eq!(pair.a.statuses()[1..], end);

    let mut patient = Pair::new(QpType::Rc);
    patient.a.post(request(1, SendOpcode::Send, sge(0, 8)));
    patient.settle(200);
    assert!(patient.a.sent.is_empty());
    patient.b.recv(1, 0, 8);
    patient.settle(5);
    assert_eq!(patient.a.statuses(), [(1, WcStatus::Success)]);
}

#[test]
fn a_write_with_immediate_that_the_target_places_keeps_its_data_across_receiver_not_ready() {
    for reachable in [true, false] {
        let mut pair = Pair::new(QpType::Rc);
        pair.a.link.0.reachable.set(reachable);
        let bytes = pair.a.fill(0, 20_000, 8);
        let write = request(1, SendOpcode::RdmaWriteImm, sge(0, 20_000));
        pair.a.post(SendRequest {
            remote_addr: 40_000,
            imm: 5,
            ..write
        });
        pair.settle(4);
        pair.b.recv(1, 0, 0);
        pair.settle(10);
        assert_eq!(pair.b.bytes(40_000, 20_000), bytes, "reachable {reachable}");
        assert_eq!(pair.b.seen.received[0].byte_len, 20_000);
    }
}

#[test]
fn a_request_to_a_dead_process_ends_after_the_timeout_and_flushes_the_rest() {
    let mut pair = Pair::new(QpType::Rc);
    pair.a.post(request(1, SendOpcode::Send, sge(0, 8)));
    pair.a.post(request(2, SendOpcode::RdmaWrite, sge(0, 8)));
    pair.a.advance(pair.now);
    let died = pair.now;
    pair.a.lose_peer(died);
    while let Advance::Until(at) = pair.a.advance(pair.now) {
        pair.now = at.0;
    }
    let end = [(1, WcStatus::RetryExcErr), (2, WcStatus::WrFlushErr)];
    assert_eq!(pair.a.statuses(), end);
    // timeout code 14 is 67 ms, tried twice
    assert!(pair.now - died >= 2 * 67_000_000, "{}", pair.now - died);
    assert!(pair.now - died >= TIMEOUT_FLOOR_NS);
}

/// I10: code 0 waits for ever.
#[test]
fn without_a_timeout_a_dead_process_is_waited_for() {
    let mut pair = Pair::new(QpType::Rc);
    let attr = SendAttr {
        timeout: 0,
        ..pair.a.sender.attr()
    };
    pair.a.sender.start(attr);
    pair.a.lose_peer(0);
    pair.a.post(request(1, SendOpcode::Send, sge(0, 8)));
    for hour in 0..10 {
        assert!(matches!(
            pair.a.advance(hour * 3_600_000_000_000),
            Advance::Until(_)
        ));
    }
    assert!(pair.a.sent.is_empty());
}

#[test]
fn an_unreliable_connection_does_not_notice_a_death_but_checks_its_own_elements() {
    let mut pair = Pair::new(QpType::Uc);
    pair.a.post(request(1, SendOpcode::Send, sge(0, 8)));
    pair.a.advance(0);
    pair.a.lose_peer(0);
    pair.a.post(request(2, SendOpcode::RdmaWrite, sge(0, 8)));
    let bad = [Sge {
        addr: 0,
        length: 8,
        lkey: 0,
    }];
    pair.a.post(request(3, SendOpcode::Send, &bad));
    pair.a.advance(0);
    let end = [
        (1, WcStatus::Success),
        (2, WcStatus::Success),
        (3, WcStatus::LocProtErr),
    ];
    assert_eq!(pair.a.statuses(), end);
}

#[test]
fn a_peer_that_is_not_ready_to_receive_yet_is_found_when_it_is() {
    let mut pair = Pair::new(QpType::Rc);
    pair.b.receiver.receives = false;
    pair.b.recv(1, 0, 100);
    pair.a.post(request(1, SendOpcode::Send, sge(0, 50)));
    pair.settle(6);
    assert!(pair.a.sent.is_empty());
    pair.b.receiver.receives = true;
    pair.settle(6);
    assert_eq!(pair.a.statuses(), [(1, WcStatus::Success)]);
    assert_eq!(pair.b.seen.events, [TargetEvent::Established]);
}

#[test]
fn a_message_that_may_not_be_read_goes_through_the_ring() {
    for qp_type in [QpType::Rc, QpType::Uc] {
        let mut pair = Pair::new(qp_type);
        // the way here is open, the way back is not (a process that cannot be dumped)
        pair.b.link.0.fault.set(Some(Fault::Forbidden));
        let bytes = pair.a.fill(0, 50_000, 3);
        pair.b.recv(1, 100_000, 50_000);
        pair.a.post(request(1, SendOpcode::Send, sge(0, 50_000)));
        pair.settle(10);
        if qp_type == QpType::Uc {
            // lost, as such a connection may lose; the next is not, and its receive is the same
            assert!(pair.b.seen.received.is_empty());
            pair.a.post(request(2, SendOpcode::Send, sge(0, 50_000)));
            pair.settle(10);
        }
        assert_eq!(pair.b.bytes(100_000, 50_000), bytes, "{qp_type:?}");
        assert_eq!(pair.b.seen.received.len(), 1);
        assert!(
            pair.a
                .statuses()
                .iter()
                .all(|(_, status)| *status == WcStatus::Success)
        );
    }
}

#[test]
fn memory_of_a_queue_pair_that_was_taken_back_is_not_read() {
    let mut pair = Pair::new(QpType::Rc);
    pair.a.fill(0, 50_000, 3);
    pair.b.recv(1, 100_000, 50_000);
    pair.b.chunk = 10_000;
    pair.a.post(request(1, SendOpcode::Send, sge(0, 50_000)));
    pair.a.advance(0);
    // the sender flushes: its entry goes first, then the program may reuse the buffer
    QpEntry::revoke(&pair.a.host.own, 3);
    pair.a.fill(0, 50_000, 99);
    assert_eq!(pair.b.drain(), [Handled::Answer(Response::NotReady)]);
    assert!(pair.b.seen.received.is_empty() && pair.b.seen.events.is_empty());
    assert_eq!(
        pair.b.receiver.stop().unwrap().wr_id,
        1,
        "the receive flushes with its queue pair"
    );
}

#[test]
fn a_sender_that_dies_while_it_is_read_leaves_the_receiver_alone() {
    let mut pair = Pair::new(QpType::Rc);
    pair.b.link.0.fault.set(Some(Fault::Gone));
    pair.b.recv(1, 100_000, 50_000);
    pair.a.post(request(1, SendOpcode::Send, sge(0, 50_000)));
    pair.a.advance(0);
    pair.b.drain();
    assert!(pair.b.seen.received.is_empty() && pair.b.seen.events.is_empty());
}

#[test]
fn answers_to_an_earlier_queue_pair_of_the_same_index_are_not_heard() {
    let mut pair = Pair::new(QpType::Rc);
    pair.b.recv(1, 0, 8);
    pair.a.post(request(1, SendOpcode::Send, sge(0, 8)));
    pair.a.advance(0);
    // destroyed, and created again at the same place, while its record waits for an answer
    let attr = pair.a.sender.attr();
    let fresh = Sender::new(0x103, 3, QpType::Rc, PD, false, 16, 4, 256);
    let mut fresh = fresh.after_incarnation(pair.a.sender.incarnation());
    fresh.connect(attr, Some(pair.a.link.clone()));
    fresh.start(SendAttr { seq: 5, ..attr });
    fresh.set_state(SendState::Running, &mut |_| {});
    pair.a.sender = fresh;
    pair.a.post(request(2, SendOpcode::Send, sge(0, 8)));
    pair.a.advance(0);
    pair.b.drain();
    pair.a.collect(0);
    assert!(pair.a.sent.is_empty(), "{:?}", pair.a.sent);
}

#[test]
fn reset_forgets_and_a_flush_reports_each_request_once() {
    let mut pair = Pair::new(QpType::Rc);
    pair.a.post(request(1, SendOpcode::Send, sge(0, 8)));
    pair.a.post(request(2, SendOpcode::Send, sge(0, 8)));
    pair.a.advance(0);
    let sent = &mut pair.a.sent;
    pair.a
        .sender
        .set_state(SendState::Flushing, &mut |c| sent.push(c));
    pair.b.recv(1, 0, 8);
    pair.settle(5);
    assert_eq!(
        pair.a.statuses(),
        [(1, WcStatus::WrFlushErr), (2, WcStatus::WrFlushErr)]
    );
    pair.a.sender.set_state(SendState::Stopped, &mut |_| {});
    assert!(!pair.a.sender.has_work());
    let refused = pair
        .a
        .sender
        .post(&request(3, SendOpcode::Send, &[]), &mut |_| {});
    assert_eq!(refused, Err(PostError::State));
}

#[test]
fn an_extended_connections_dead_target_does_not_disturb_its_living_one() {
    let mut pair = Pair::new(QpType::XrcSend);
    pair.b.receiver.qp_type = QpType::XrcRecv;
    let other = Pair::new(QpType::XrcSend);
    other.a.link.0.dead.set(true);
    pair.b.recv(1, 0, 8);
    let (alive, dead) = (pair.a.link.clone(), other.a.link.clone());
    pair.a.post(SendRequest {
        link: Some(&alive),
        ..request(1, SendOpcode::Send, sge(0, 8))
    });
    pair.a.post(SendRequest {
        link: Some(&dead),
        ..request(2, SendOpcode::Send, sge(0, 8))
    });
    pair.a.advance(0);
    // news of that death are no news for the record in the living one's ring
    let sent = &mut pair.a.sent;
    pair.a.sender.peer_died(Instant(0), &mut |c| sent.push(c));
    pair.settle(300);
    assert_eq!(
        pair.a.statuses(),
        [(1, WcStatus::Success), (2, WcStatus::RetryExcErr)]
    );
    assert_eq!(pair.b.seen.received.len(), 1);
}
