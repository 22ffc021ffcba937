//! The ring against a queue: any sizes, any interleaving, many times round.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::direct::layout::{RING_DATA, RING_RECORDS};

fn record(seq: u32, length: usize, data: u64) -> Record {
    Record {
        kind: Kind::Send,
        flags: RecordFlags::LAST,
        dst_qpn: 0x123,
        src_qpn: 0x456,
        seq,
        length: length as u32,
        imm: seq ^ 7,
        key: seq ^ 9,
        addr: u64::from(seq) * 3,
        arg: (length as u64) << 32,
        data,
        extra: seq as u16,
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Push(usize),
    Consume(usize),
    Acknowledge,
    Collect(usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => (0usize..9000).prop_map(Op::Push),
        2 => (0usize..30).prop_map(Op::Push),
        3 => (1usize..40).prop_map(Op::Consume),
        2 => Just(Op::Acknowledge),
        3 => (1usize..40).prop_map(Op::Collect),
    ];
    prop::collection::vec(op, 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// I6 and ring conservation: each record is seen once, whole and in order; payloads never overlap; each answer comes
    /// back once, to its owner, and only after the head passed it.
    #[test]
    fn the_ring_is_a_queue_with_answers(ops in ops()) {
        let seg = Seg::new(PAIR_LEN);
        let shared = TxShared::new();
        let (mut producer, mut consumer) = (Producer::new(0, shared.clone()), Consumer::new(0));
        let mut completer = Completer::new(0, shared);
        let (mut pushed, mut answered, mut acknowledged) = (VecDeque::new(), VecDeque::new(), 0usize);
        let mut live: VecDeque<(usize, usize)> = VecDeque::new();
        let mut seq = 0u32;
        for op in ops {
            match op {
                Op::Push(length) => {
                    let used: usize = live.iter().map(|(start, end)| end - start).sum();
                    let Some(place) = producer.reserve(length) else {
                        // full is a return value, and it is the truth
                        prop_assert!(live.len() >= RING_RECORDS || used + 2 * length + 64 * live.len() > RING_DATA / 2);
                        continue;
                    };
                    let (start, end) = (place.data as usize, place.data as usize + length);
                    prop_assert!(end <= RING_DATA);
                    prop_assert!(live.iter().all(|other| length == 0 || end <= other.0 || other.1 <= start));
                    seg.copy_in(place.data_at, &vec![seq as u8; length]);
                    let it = record(seq, length, place.data);
                    producer.publish(&seg, place, &it, u64::from(seq) + 1000);
                    pushed.push_back(it);
                    live.push_back((start, end));
                    seq += 1;
                }
                Op::Consume(count) => for _ in 0..count {
                    let Some(found) = consumer.peek(&seg) else {
                        prop_assert!(pushed.is_empty());
                        break;
                    };
                    let found = found.unwrap();
                    prop_assert_eq!(Some(found), pushed.pop_front());
                    let mut payload = vec![0; found.length as usize];
                    seg.copy_out(consumer.payload(&found, payload.len()).unwrap(), &mut payload);
                    prop_assert!(payload.iter().all(|byte| *byte == found.seq as u8));
                    let response = match found.seq % 3 {
                        0 => Response::Ok(0),
                        1 => Response::Rnr(found.seq as u8 & 31),
                        _ => Response::RemoteAccess,
                    };
                    consumer.answer(&seg, response);
                    answered.push_back((found.seq, response));
                },
                Op::Acknowledge => {
                    consumer.acknowledge(&seg);
                    acknowledged = answered.len();
                }
                Op::Collect(budget) => {
                    let mut got = Vec::new();
                    completer.collect(&seg, producer.tail(), budget, |answer| got.push(answer));
                    prop_assert_eq!(got.len(), budget.min(acknowledged));
                    acknowledged -= got.len();
                    for answer in got {
                        let (seq, response) = answered.pop_front().unwrap();
                        live.pop_front();
                        prop_assert_eq!((answer.seq, answer.owner), (seq, u64::from(seq) + 1000));
                        match response {
                            Response::Ok(_) => prop_assert!(matches!(answer.response, Response::Ok(_))),
                            refused => prop_assert_eq!(answer.response, refused),
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_full_ring_takes_a_record_again_after_one_answer() {
    let seg = Seg::new(PAIR_LEN);
    let shared = TxShared::new();
    let (mut producer, mut consumer) = (Producer::new(0, shared.clone()), Consumer::new(0));
    let mut completer = Completer::new(0, shared);
    for seq in 0..RING_RECORDS as u32 {
        let place = producer.reserve(0).unwrap();
        producer.publish(&seg, place, &record(seq, 0, 0), 0);
    }
    assert_eq!(producer.reserve(0), None);
    consumer.peek(&seg).unwrap().unwrap();
    consumer.answer(&seg, Response::Ok(0));
    consumer.acknowledge(&seg);
    assert_eq!(completer.collect(&seg, producer.tail(), 10, |_| {}), 1);
    let place = producer.reserve(0).unwrap();
    producer.publish(&seg, place, &record(9999, 0, 0), 0);
    // the consumer still sees the old ones first, and never the new one in their place
    assert_eq!(consumer.peek(&seg).unwrap().unwrap().seq, 1);
}

#[test]
fn the_answer_of_an_earlier_round_does_not_stick_to_a_place() {
    let seg = Seg::new(PAIR_LEN);
    let shared = TxShared::new();
    let (mut producer, mut consumer) = (Producer::new(0, shared.clone()), Consumer::new(0));
    let mut completer = Completer::new(0, shared);
    for seq in 0..3 * RING_RECORDS as u32 + 5 {
        let place = producer.reserve(100).unwrap();
        producer.publish(&seg, place, &record(seq, 100, place.data), 0);
        let refuses = seq % 7 == 0;
        let answer = if refuses {
            Response::RemoteAccess
        } else {
            Response::Ok(0)
        };
        assert_eq!(consumer.peek(&seg).unwrap().unwrap().seq, seq);
        consumer.answer(&seg, answer);
        consumer.acknowledge(&seg);
        let mut heard = Vec::new();
        completer.collect(&seg, producer.tail(), 10, |answer| {
            heard.push(answer.response)
        });
        assert_eq!(heard.len(), 1);
        assert_eq!(heard[0] == Response::RemoteAccess, refuses, "record {seq}");
    }
}

#[test]
fn a_head_beyond_the_tail_is_not_believed() {
    let seg = Seg::new(PAIR_LEN);
    let shared = TxShared::new();
    let mut producer = Producer::new(0, shared.clone());
    let mut completer = Completer::new(0, shared);
    let place = producer.reserve(0).unwrap();
    producer.publish(&seg, place, &record(1, 0, 0), 0);
    seg.store(0, 500);
    assert_eq!(
        completer.collect(&seg, producer.tail(), 10, |_| panic!(
            "nothing was answered"
        )),
        0
    );
}

#[test]
fn the_unanswered_records_of_a_dead_consumer_are_given_back_with_their_owners() {
    let seg = Seg::new(PAIR_LEN);
    let shared = TxShared::new();
    let mut producer = Producer::new(0, shared.clone());
    let mut completer = Completer::new(0, shared);
    for seq in 0..5 {
        let place = producer.reserve(100).unwrap();
        producer.publish(
            &seg,
            place,
            &record(seq, 100, place.data),
            u64::from(seq) + 40,
        );
    }
    let mut owners = Vec::new();
    completer.abandon(producer.tail(), |owner| owners.push(owner));
    assert_eq!(owners, [40, 41, 42, 43, 44]);
    assert!(producer.reserve(RING_DATA / 4).is_some());
}

/// The peer writes what it likes; the reader neither panics nor leaves the area.
#[test]
fn a_record_of_nonsense_is_an_error_or_lies_inside() {
    let seg = Seg::new(PAIR_LEN);
    let consumer = Consumer::new(0);
    for kind in 0..=255u64 {
        for word in [0, u64::MAX, 1 << 63, RING_DATA as u64] {
            (8..64).step_by(8).for_each(|at| seg.store(128 + at, word));
            seg.store(128, 1 << 16 | kind << 8 | 0xff);
            if let Ok(record) = consumer.peek(&seg).unwrap() {
                for length in [0, 1, record.length as usize, RING_DATA] {
                    if let Some(at) = consumer.payload(&record, length) {
                        assert!(at + length <= super::super::layout::RING_LEN);
                    }
                }
            }
        }
    }
}
