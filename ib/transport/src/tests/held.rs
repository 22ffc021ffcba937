//! Packets that come before their turn: they wait, and a loss costs one packet again.

use super::*;
use crate::{AnswerDue, HoldBudget};
use ferriband_wire::{Bth, NakCode, Syndrome};

/// A connection whose ends keep what comes beyond a gap, as far as the budget goes.
fn holding(budget: &'static HoldBudget) -> Pair {
    Pair::new(Setup {
        tuning: Tuning {
            hold: Some(budget),
            ..RC.tuning
        },
        ..RC
    })
}

/// Everything that may be sent now.
pub(super) fn flight(end: &mut End, now: Instant) -> Vec<Vec<u8>> {
    let mut buf = vec![0; end.qp.max_packet_bytes()];
    let mut sent = Vec::new();
    while let Some(one) = end.qp.poll_request(now, &mut end.memory, &mut buf) {
        sent.push(buf[..one.len].to_vec());
    }
    end.collect();
    sent
}

fn request(end: &mut End, now: Instant) -> Vec<u8> {
    let mut buf = vec![0; end.qp.max_packet_bytes()];
    let sent = end
        .qp
        .poll_request(now, &mut end.memory, &mut buf)
        .expect("something to send");
    buf[..sent.len].to_vec()
}

pub(super) fn answer(end: &mut End) -> Vec<u8> {
    let mut buf = vec![0; end.qp.max_packet_bytes()];
    let len = end.qp.poll_answer(&mut end.memory, &mut buf);
    buf[..len.expect("an answer")].to_vec()
}

pub(super) fn deliver(end: &mut End, now: Instant, bytes: &[u8]) {
    end.receive(now, &Packet::parse(bytes).unwrap());
}

/// Delivers a flight without the packets of these places.
pub(super) fn deliver_without(end: &mut End, now: Instant, flight: &[Vec<u8>], lost: &[usize]) {
    for (i, bytes) in flight.iter().enumerate() {
        if !lost.contains(&i) {
            deliver(end, now, bytes);
        }
    }
}

pub(super) fn nak(bytes: &[u8]) -> Option<Psn> {
    let packet = Packet::parse(bytes).unwrap();
    let gap = Syndrome::Nak(NakCode::PsnSequenceError);
    (packet.ext().aeth?.syndrome == gap).then_some(packet.bth().psn)
}

pub(super) fn psn(bytes: &[u8]) -> Psn {
    Packet::parse(bytes).unwrap().bth().psn
}

/// A WRITE of eight packets of which one is lost, by which the sender learns what its peer keeps.
pub(super) fn teach(pair: &mut Pair) {
    let now = pair.now;
    let [a, b] = &mut pair.ends;
    a.post(1, SendOpcode::RdmaWrite, 8 * 256);
    let sent = flight(a, now);
    deliver_without(b, now, &sent, &[2]);
    let told = answer(b);
    assert_eq!(nak(&told), Some(psn(&sent[2])));
    deliver(a, now, &told);
    let again = request(a, now);
    assert_eq!(psn(&again), psn(&sent[2]));
    deliver(b, now, &again);
    let ack = answer(b);
    deliver(a, now, &ack);
    assert_eq!(fill_end(a, b, now), psn(&sent[7]));
    assert_eq!(a.statuses(), [(1, OK)]);
    assert!(flight(a, now).is_empty(), "nothing else was missing");
}

/// The end of a message is not kept for a peer that may go back.
fn fill_end(a: &mut End, b: &mut End, now: Instant) -> Psn {
    let end = flight(a, now);
    assert_eq!(end.len(), 1);
    deliver(b, now, &end[0]);
    let ack = answer(b);
    deliver(a, now, &ack);
    psn(&end[0])
}

#[test]
fn a_gap_is_filled_by_one_packet_and_the_last_one_is_written_last() {
    static BUDGET: HoldBudget = HoldBudget::new(1 << 20);
    let mut pair = holding(&BUDGET);
    teach(&mut pair);
    let at = |i: u64| (0x1000 + 256 * i, 256);
    let written = [0, 1, 3, 4, 5, 6, 2, 7].map(at);
    assert_eq!(pair.ends[1].memory.writes, written);
    assert_eq!(BUDGET.left(), 1 << 20);
}

#[test]
fn two_gaps_cost_two_packets_one_after_the_other() {
    static BUDGET: HoldBudget = HoldBudget::new(1 << 20);
    let mut pair = holding(&BUDGET);
    teach(&mut pair);
    let now = pair.now;
    let [a, b] = &mut pair.ends;
    a.post(2, SendOpcode::RdmaWrite, 8 * 256);
    let sent = flight(a, now);
    deliver_without(b, now, &sent, &[2, 5]);
    for lost in [2, 5] {
        let told = answer(b);
        assert_eq!(nak(&told), Some(psn(&sent[lost])));
        deliver(a, now, &told);
        let again = flight(a, now);
        assert_eq!(again.len(), 1);
        assert_eq!(psn(&again[0]), psn(&sent[lost]));
        deliver(b, now, &again[0]);
    }
    let ack = answer(b);
    deliver(a, now, &ack);
    // The end of this message was kept: the receiver has seen how its peer fills gaps.
    assert_eq!(a.statuses(), [(1, OK), (2, OK)]);
    assert_eq!(a.qp.counters().requests_repeated, 4);
    assert_eq!(b.memory.writes.len(), 16, "each packet was written once");
}

#[test]
fn sends_and_atomics_wait_and_are_executed_once_and_in_order() {
    static BUDGET: HoldBudget = HoldBudget::new(1 << 20);
    let mut pair = holding(&BUDGET);
    for id in 0..3 {
        pair.ends[1].post_recv(id, 64);
    }
    // The acknowledgement brings the credits.
    teach(&mut pair);
    let now = pair.now;
    let [a, b] = &mut pair.ends;
    a.post(2, SendOpcode::Send, 4);
    a.post(3, SendOpcode::Send, 5);
    a.post_with(4, SendOpcode::FetchAdd, 8, |wr| wr.compare_add = 5);
    a.post(5, SendOpcode::Send, 6);
    let sent = flight(a, now);
    deliver_without(b, now, &sent, &[0]);
    assert_eq!((b.memory.atomics, b.done.len()), (0, 0));
    assert!(BUDGET.left() < 1 << 20);
    let told = answer(b);
    deliver(a, now, &told);
    let again = flight(a, now);
    assert_eq!(again.len(), 1);
    deliver(b, now, &again[0]);
    assert_eq!(b.memory.atomics, 1);
    assert_eq!(b.statuses(), [(0, OK), (1, OK), (2, OK)]);
    assert_eq!(BUDGET.left(), 1 << 20);
    pair.run();
    let done: Vec<u64> = pair.ends[0].done.iter().map(|c| c.wr_id).collect();
    assert_eq!(done, [1, 2, 3, 4, 5]);
}

#[test]
fn what_finds_no_receive_after_a_gap_is_sent_again_with_all_that_follows() {
    static BUDGET: HoldBudget = HoldBudget::new(1 << 20);
    let mut pair = holding(&BUDGET);
    for id in 0..2 {
        pair.ends[1].post_recv(id, 64);
    }
    teach(&mut pair);
    let now = pair.now;
    let [a, b] = &mut pair.ends;
    // Two have credits, the third asks.
    for id in 2..5 {
        a.post(id, SendOpcode::Send, 4);
    }
    let sent = flight(a, now);
    deliver_without(b, now, &sent, &[0]);
    let told = answer(b);
    deliver(a, now, &told);
    let again = flight(a, now);
    deliver(b, now, &again[0]);
    let refused = answer(b);
    let syndrome = Packet::parse(&refused)
        .unwrap()
        .ext()
        .aeth
        .unwrap()
        .syndrome;
    assert!(matches!(syndrome, Syndrome::RnrNak(_)), "{syndrome:?}");
    assert_eq!(b.statuses(), [(0, OK), (1, OK)]);
    assert_eq!(BUDGET.left(), 1 << 20, "nothing waits behind a refusal");
    deliver(a, now, &refused);
    b.post_recv(2, 64);
    pair.run();
    assert_eq!(pair.ends[1].statuses(), [(0, OK), (1, OK), (2, OK)]);
    assert_eq!(pair.ends[0].done.len(), 4);
}

#[test]
fn without_budget_everything_is_sent_again() {
    static BUDGET: HoldBudget = HoldBudget::new(0);
    let mut pair = holding(&BUDGET);
    let now = pair.now;
    let [a, b] = &mut pair.ends;
    for id in 0..3 {
        b.post_recv(id, 64);
        a.post(id, SendOpcode::RdmaWriteImm, 8);
    }
    let mut sent = flight(a, now);
    sent.truncate(3);
    deliver_without(b, now, &sent, &[0]);
    assert_eq!(b.qp.counters().held, 0);
    pair.run();
    assert_eq!(pair.ends[1].memory.writes.len(), 3);
    assert_eq!(pair.ends[0].statuses(), [(0, OK), (1, OK), (2, OK)]);
}

#[test]
fn a_peer_that_keeps_nothing_any_more_is_noticed() {
    static BUDGET: HoldBudget = HoldBudget::new(4 << 10);
    let mut pair = holding(&BUDGET);
    teach(&mut pair);
    // Another connection spends the budget, and rests.
    let mut other = holding(&BUDGET);
    let now = other.now;
    for id in 0..16 {
        other.ends[0].post(id, SendOpcode::RdmaWrite, 256);
    }
    let sent = flight(&mut other.ends[0], now);
    deliver_without(&mut other.ends[1], now, &sent, &[0]);
    let [a, b] = &mut pair.ends;
    for id in 2..10 {
        a.post(id, SendOpcode::RdmaWrite, 256);
    }
    let sent = flight(a, now);
    let held = b.qp.counters().held;
    deliver_without(b, now, &sent, &[0]);
    assert_eq!(b.qp.counters().held, held);
    pair.run();
    assert_eq!(pair.ends[0].done.len(), 9);
    assert_eq!(pair.ends[1].memory.writes.len(), 16);
    drop(other);
    assert_eq!(BUDGET.left(), 4 << 10);
}

#[test]
fn a_stranger_cannot_make_it_keep_more_than_its_share() {
    static BUDGET: HoldBudget = HoldBudget::new(1 << 20);
    let mut pair = holding(&BUDGET);
    let now = pair.now;
    let [a, b] = &mut pair.ends;
    a.post(1, SendOpcode::RdmaWrite, 1);
    let bytes = flight(a, now).remove(0);
    let mut packet = Packet::parse(&bytes).unwrap();
    let first = packet.bth().psn;
    for ahead in (1..5_000).chain(Psn::MODULUS / 2 - 9..Psn::MODULUS / 2 + 9) {
        packet.headers.bth.psn = first.add(ahead);
        b.receive(now, &packet);
    }
    assert!(b.qp.counters().held < 1_100);
    assert!(b.memory.writes.is_empty());
    b.to(QpState::Err);
    assert_eq!(BUDGET.left(), 1 << 20);
}

/// What a driver does with a packet that is like the one before.
fn take_alike(end: &mut End, now: Instant, bytes: &[u8], like: &[u8]) -> bool {
    let header = like.first_chunk().unwrap();
    let Some((psn, ack_req, payload)) = Bth::alike(bytes, header) else {
        return false;
    };
    let opcode = Packet::parse(like).unwrap().opcode();
    let taken = end
        .qp
        .take_alike(now, &mut end.memory, opcode, (psn, ack_req), payload);
    end.collect();
    taken
}

#[test]
fn middle_packets_that_are_alike_are_taken_in_their_turn_alone() {
    static BUDGET: HoldBudget = HoldBudget::new(1 << 20);
    let mut pair = holding(&BUDGET);
    let now = pair.now;
    let [a, b] = &mut pair.ends;
    a.post(1, SendOpcode::RdmaWrite, 8 * 256);
    let sent = flight(a, now);
    assert!(
        !take_alike(b, now, &sent[1], &sent[1]),
        "no message is in progress"
    );
    deliver(b, now, &sent[0]);
    assert!(!take_alike(b, now, &sent[1], &sent[0]), "another opcode");
    deliver(b, now, &sent[1]);
    let other = sent.iter().map(|bytes| {
        let mut bytes = bytes.clone();
        bytes[0] = Opcode::RcSendMiddle.code();
        bytes
    });
    let other: Vec<_> = other.collect();
    assert!(
        !take_alike(b, now, &other[2], &other[1]),
        "of another message"
    );
    assert!(take_alike(b, now, &sent[2], &sent[1]));
    assert!(!take_alike(b, now, &sent[2], &sent[1]), "a duplicate");
    assert!(!take_alike(b, now, &sent[4], &sent[1]), "beyond a gap");
    deliver(b, now, &sent[4]);
    assert!(
        !take_alike(b, now, &sent[3], &sent[1]),
        "another one waits behind it"
    );
    deliver(b, now, &sent[3]);
    b.memory.revoked = true;
    assert!(!take_alike(b, now, &sent[5], &sent[1]), "no right any more");
    b.memory.revoked = false;
    assert!(take_alike(b, now, &sent[5], &sent[1]));
    assert!(take_alike(b, now, &sent[6], &sent[1]));
    assert!(!take_alike(b, now, &sent[7], &sent[1]), "the last one");
    deliver(b, now, &sent[7]);
    assert_eq!(b.memory.writes.len(), 8);
    let ack = answer(b);
    deliver(a, now, &ack);
    assert_eq!(a.statuses(), [(1, OK)]);
}

#[test]
fn middle_packets_of_a_send_that_are_alike_are_taken_as_far_as_its_receive_goes() {
    static BUDGET: HoldBudget = HoldBudget::new(1 << 20);
    for (room, fits) in [(8 * 256, true), (4 * 256, false), (4 * 256 - 1, false)] {
        let mut pair = holding(&BUDGET);
        let now = pair.now;
        let [a, b] = &mut pair.ends;
        b.post_recv(7, room);
        let mine: Vec<u8> = (0..8 * 256).map(|at| (at * 7 / 3) as u8).collect();
        a.memory.bytes[..mine.len()].copy_from_slice(&mine);
        a.post(1, SendOpcode::Send, 8 * 256);
        // the first asks whether there is a receive
        let mut sent = flight(a, now);
        deliver(b, now, &sent[0]);
        let ack = answer(b);
        deliver(a, now, &ack);
        sent.extend(flight(a, now));
        assert!(!take_alike(b, now, &sent[1], &sent[0]), "another opcode");
        deliver(b, now, &sent[1]);
        let taken = (2..8).take_while(|at| take_alike(b, now, &sent[*at], &sent[1]));
        let taken = 2 + taken.count();
        assert_eq!(taken, room as usize / 256 - usize::from(fits));
        assert!(!take_alike(b, now, &sent[taken], &sent[1]), "once more");
        deliver(b, now, &sent[taken]);
        let ack = answer(b);
        deliver(a, now, &ack);
        if fits {
            assert_eq!((a.statuses(), b.statuses()), (vec![(1, OK)], vec![(7, OK)]));
            assert_eq!(b.done[0].byte_len, 8 * 256);
        } else {
            assert_eq!(a.statuses(), [(1, WcStatus::RemInvReqErr)]);
            assert_eq!(b.statuses()[0], (7, WcStatus::LocLenErr));
        }
        let there = &b.memory.bytes[0x8000..][..taken * 256];
        assert!(there == &mine[..taken * 256], "{room}");
    }
}

#[test]
fn a_peer_that_goes_back_hears_of_no_end_before_it_has_sent_it_again() {
    static BUDGET: HoldBudget = HoldBudget::new(1 << 20);
    let mut pair = holding(&BUDGET);
    let now = pair.now;
    let [a, b] = &mut pair.ends;
    for id in 0..3 {
        a.post(id, SendOpcode::RdmaWrite, 8 * 256);
        let sent = flight(a, now);
        deliver_without(b, now, &sent, &[1]);
        let told = answer(b);
        assert_eq!(nak(&told), Some(psn(&sent[1])));
        // Everything comes again, from the one that was lost on.
        let mut ack = Vec::new();
        for bytes in &sent[1..] {
            deliver(b, now, bytes);
            if b.qp.answer_due() != AnswerDue::None {
                ack = answer(b);
                assert_eq!(nak(&ack), None);
                let end = psn(&sent[7]);
                assert_eq!(psn(&ack) == end, psn(bytes) == end);
            }
        }
        deliver(a, now, &ack);
    }
    assert_eq!(b.memory.writes.len(), 24);
    assert_eq!(a.statuses(), [(0, OK), (1, OK), (2, OK)]);
}
