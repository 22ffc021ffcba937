//! Gaps beyond the first, told at once.

use super::held::{answer, deliver, deliver_without, flight, nak, psn, teach};
use super::*;
use crate::{AnswerDue, Drop, HoldBudget};
use ferriband_wire::{Bth, Ext, GapReport, Headers, Hole, Opcode};

fn listing(budget: &'static HoldBudget) -> Pair {
    let mut pair = Pair::new(Setup {
        tuning: Tuning {
            hold: Some(budget),
            list_gaps: true,
            ..RC.tuning
        },
        ..RC
    });
    teach(&mut pair);
    // The receiver has seen only now that its peer goes on with what is new.
    let now = pair.now;
    let [a, b] = &mut pair.ends;
    a.post(2, SendOpcode::RdmaWrite, 256);
    for packet in flight(a, now) {
        deliver(b, now, &packet);
    }
    let ack = answer(b);
    deliver(a, now, &ack);
    a.done.clear();
    pair
}

/// What a list says: the reach, and where the holes are.
fn list(bytes: &[u8]) -> Option<(u16, Vec<Hole>)> {
    let packet = Packet::parse(bytes).unwrap();
    (packet.opcode() == Opcode::GapReport).then(|| {
        let report = GapReport::parse(packet.payload).expect("a list");
        (report.reach, report.holes().collect())
    })
}

fn hole(ahead: u16, count: u16) -> Hole {
    Hole { ahead, count }
}

/// A WRITE of 16 packets without those of these places; what was sent.
fn write_without(pair: &mut Pair, id: u64, lost: &[usize]) -> Vec<Vec<u8>> {
    let now = pair.now;
    let [a, b] = &mut pair.ends;
    a.post(id, SendOpcode::RdmaWrite, 16 * 256);
    let sent = flight(a, now);
    assert_eq!(sent.len(), 16);
    deliver_without(b, now, &sent, lost);
    sent
}

#[test]
fn all_gaps_are_filled_in_one_round_trip() {
    static BUDGET: HoldBudget = HoldBudget::new(1 << 20);
    let mut pair = listing(&BUDGET);
    let lost = [2, 3, 6, 9, 10, 11];
    let sent = write_without(&mut pair, 3, &lost);
    let now = pair.now;
    let [a, b] = &mut pair.ends;
    assert_eq!(b.qp.answer_due(), AnswerDue::More);
    let told = answer(b);
    assert_eq!(nak(&told), Some(psn(&sent[2])));
    let listed = answer(b);
    assert_eq!(
        list(&listed),
        Some((13, vec![hole(1, 1), hole(4, 1), hole(7, 3)]))
    );
    assert_eq!(b.qp.answer_due(), AnswerDue::None);
    deliver(a, now, &told);
    deliver(a, now, &listed);
    let again = flight(a, now);
    let expected: Vec<_> = lost.iter().map(|at| psn(&sent[*at])).collect();
    let psns: Vec<_> = again.iter().map(|bytes| psn(bytes)).collect();
    assert_eq!(psns, expected, "each once, in their order");
    for bytes in &again {
        deliver(b, now, bytes);
    }
    let ack = answer(b);
    assert_eq!(nak(&ack), None, "what is on its way is not asked for again");
    deliver(a, now, &ack);
    assert_eq!(a.statuses(), [(3, OK)]);
    assert_eq!(
        b.memory.writes.len(),
        8 + 1 + 16,
        "each packet was written once"
    );
}

#[test]
fn a_filling_packet_that_is_lost_again_is_asked_for_by_a_nak() {
    static BUDGET: HoldBudget = HoldBudget::new(1 << 20);
    let mut pair = listing(&BUDGET);
    let sent = write_without(&mut pair, 3, &[2, 9]);
    let now = pair.now;
    let [a, b] = &mut pair.ends;
    for _ in 0..2 {
        let told = answer(b);
        deliver(a, now, &told);
    }
    let again = flight(a, now);
    assert_eq!(again.len(), 2);
    deliver(b, now, &again[0]);
    assert_eq!(pair.ends[0].qp.counters().gap_lists_heard, 1);
    pair.run();
    assert_eq!(pair.ends[0].statuses(), [(3, OK)]);
    assert_eq!(pair.ends[1].memory.writes.len(), 8 + 1 + 16);
    assert_eq!(psn(&again[1]), psn(&sent[9]));
}

#[test]
fn a_peer_that_does_not_listen_hears_no_more_of_it_in_the_end() {
    static BUDGET: HoldBudget = HoldBudget::new(1 << 20);
    let mut pair = listing(&BUDGET);
    let mut lists = 0;
    for id in 0..100 {
        write_without(&mut pair, 3 + id, &[2, 9]);
        let now = pair.now;
        let [a, b] = &mut pair.ends;
        while b.qp.answer_due() != AnswerDue::None {
            let mut heard = Vec::new();
            while b.qp.answer_due() != AnswerDue::None {
                heard.push(answer(b));
            }
            let all = heard.len();
            heard.retain(|told| list(told).is_none());
            lists += all - heard.len();
            for told in heard {
                deliver(a, now, &told);
            }
            for bytes in flight(a, now) {
                deliver(b, now, &bytes);
            }
        }
    }
    assert_eq!(pair.ends[0].statuses().len(), 100);
    assert_eq!(lists, 64);
}

#[test]
fn a_list_that_is_a_lie_sends_nothing_that_was_not_sent() {
    static BUDGET: HoldBudget = HoldBudget::new(1 << 20);
    let mut pair = listing(&BUDGET);
    let sent = write_without(&mut pair, 3, &[]);
    let now = pair.now;
    let a = &mut pair.ends[0];
    let lie = |a: &mut End, expected: Psn, reach: u16, holes: &[Hole]| {
        let bth = Bth::new(Opcode::GapReport, a.qp.qpn(), expected);
        let mut payload = vec![0; GapReport::len_of(holes.len())];
        GapReport::write(reach, holes.iter().copied(), &mut payload);
        let packet = Packet {
            headers: Headers::new(bth, Ext::default()),
            payload: &payload,
        };
        let meta = PacketMeta::default();
        a.qp.handle_packet(now, &mut a.memory, &meta, &packet)
    };
    let beyond = psn(&sent[15]).next();
    let before = psn(&sent[0]).sub(1);
    assert_eq!(lie(a, beyond, 9, &[hole(1, 1)]), Err(Drop::Psn));
    assert_eq!(lie(a, before, 9, &[hole(1, 1)]), Err(Drop::Psn));
    assert!(flight(a, now).is_empty());
    // Farther than anything that was sent, and more than there may be.
    let first = psn(&sent[0]);
    assert_eq!(lie(a, first, 65_535, &[hole(12, 60_000)]), Ok(()));
    let again: Vec<_> = flight(a, now).iter().map(|bytes| psn(bytes)).collect();
    assert_eq!(again, [12, 13, 14, 15].map(|at| psn(&sent[at])));
    assert_eq!(lie(a, first, 65_535, &[hole(12, 60_000)]), Ok(()));
    let more = flight(a, now);
    assert!(more.len() <= 4, "{}", more.len());
    assert_eq!(a.statuses(), [], "nothing is acknowledged by it");
}
