//! A peer that writes anything into the rings: nobody panics, nothing runs without end, and every request completes once.

use super::*;
use crate::direct::layout::{RECORD_BYTES, RING_HEAD, RING_RECORDS, RING_RECORDS_AT, ring_offset};
use proptest::collection::vec;
use proptest::prelude::*;

/// Handling steps that a record may take: its message in chunks, and some.
const STEPS: usize = 1 << 16;

/// The words of a record, and which of them are to be plausible.
#[derive(Clone, Debug)]
struct Forged {
    words: [u64; 8],
    plausible: u8,
}

fn forged() -> impl Strategy<Value = Forged> {
    (any::<[u64; 8]>(), any::<u8>()).prop_map(|(words, plausible)| Forged { words, plausible })
}

impl Forged {
    /// Writes it as the record of position `pos` from process 0 to process 1.
    fn write(&self, pair: &Seg, pos: u64, seq: u32) {
        let at = ring_offset(0, 1) + RING_RECORDS_AT + pos as usize % RING_RECORDS * RECORD_BYTES;
        let mut words = self.words;
        words[0] = (pos + 1) << 16 | words[0] & 0xffff;
        let is_plausible = |bit: u8| self.plausible & 1 << bit != 0;
        if is_plausible(0) {
            // one of the kinds that there are
            words[0] = words[0] & !0xff00 | (words[0] >> 8 & 15) << 8;
        }
        if is_plausible(1) {
            words[2] = u64::from(qpn(1)) | u64::from(qpn(0)) << 24;
        }
        if is_plausible(2) {
            words[3] = u64::from(seq) | (words[3] >> 32 & 0x3fff) << 32;
        }
        if is_plausible(3) {
            words[4] = words[4] & 0xffff_ffff | u64::from(KEY) << 32;
        }
        if is_plausible(4) {
            words[5] &= 0xfff8;
        }
        if is_plausible(5) {
            words[6] = (words[6] >> 32 & 0xffff) << 32;
        }
        if is_plausible(6) {
            words[7] &= 0xfff8;
        }
        for (index, word) in words.into_iter().enumerate().rev() {
            pair.store(at + 8 * index, word);
        }
    }
}

/// Executes whatever is in the ring; how many records there were.
fn drain(side: &mut Side) -> u64 {
    let link = side.link.clone();
    let mut ring = link.0.consumer.borrow_mut();
    let (mut count, mut steps) = (0, 0);
    while let Some(record) = ring.peek(&link.0.pair) {
        steps += 1;
        assert!(steps < STEPS, "a record without an end: {record:?}");
        let Ok(record) = record else {
            ring.answer(&link.0.pair, Response::InvalidRequest);
            count += 1;
            continue;
        };
        let handled = side.receiver.handle(
            &side.host,
            &link,
            &ring,
            &record,
            &mut side.rq,
            side.chunk,
            &mut side.seen,
        );
        match handled {
            Handled::Answer(response) => ring.answer(&link.0.pair, response),
            Handled::Value(value) => ring.answer_value(&link.0.pair, value),
            Handled::More => continue,
        }
        count += 1;
    }
    ring.acknowledge(&link.0.pair);
    count
}

proptest! {
    // a pair of processes takes 50 MB of address space
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_records_are_executed_or_refused_and_no_more(
        records in vec(forged(), 1..60),
        service in 0usize..3,
        fault in 0usize..3,
    ) {
        let mut pair = Pair::new([QpType::Rc, QpType::Uc, QpType::Ud][service]);
        // the peer's memory is not to be had: a list of ranges may say anything
        let faults = [Fault::RemoteUnmapped, Fault::Forbidden, Fault::Gone];
        pair.b.link.0.fault.set(Some(faults[fault]));
        for (pos, record) in records.iter().enumerate() {
            if pos % 3 == 0 && !pair.b.rq.is_empty() || pair.b.rq.len() < 4 {
                let _ = pair.b.rq.push(pos as u64, &[Sge { addr: 0, length: 4096, lkey: KEY }]);
            }
            let expected = pair.b.receiver.expected;
            record.write(&pair.b.link.0.pair, pos as u64, expected);
            prop_assert_eq!(drain(&mut pair.b), 1);
        }
        let mut ids: Vec<u64> = pair.b.seen.received.iter().map(|c| c.wr_id).collect();
        ids.sort_unstable();
        ids.dedup();
        prop_assert_eq!(ids.len(), pair.b.seen.received.len(), "each receive completes once");
    }

    #[test]
    fn any_answers_complete_each_request_once_at_the_most(
        words in vec((any::<u64>(), any::<u64>()), 16),
        heads in vec((0u64..20, any::<u16>()), 1..20),
        wild in any::<u64>(),
    ) {
        let mut pair = Pair::new(QpType::Rc);
        // everything goes by the ring
        pair.a.link.0.reachable.set(false);
        pair.a.link.0.fault.set(Some(Fault::Forbidden));
        for id in 0..12 {
            let ops = [SendOpcode::Send, SendOpcode::RdmaWrite, SendOpcode::RdmaRead];
            pair.a.post(request(id, ops[id as usize % 3], sge(0, 64)));
        }
        pair.a.advance(pair.now);
        let base = ring_offset(0, 1);
        for (pos, (answer, value)) in words.iter().enumerate() {
            let at = base + RING_RECORDS_AT + pos * RECORD_BYTES;
            pair.a.link.0.pair.store(at + 8, *answer);
            pair.a.link.0.pair.store(at + 48, *value);
        }
        for (position, noted) in heads {
            let head = position | u64::from(noted) << 48;
            pair.a.link.0.pair.store(base + RING_HEAD, head);
            pair.a.collect(pair.now);
            pair.now += 1_000_000;
            pair.a.advance(pair.now);
        }
        pair.a.link.0.pair.store(base + RING_HEAD, wild);
        pair.a.collect(pair.now);
        pair.a.lose_peer(pair.now);
        pair.now += 10_000_000_000;
        pair.a.advance(pair.now);
        pair.a.advance(pair.now);
        let mut ids: Vec<u64> = pair.a.sent.iter().map(|c| c.wr_id).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        prop_assert_eq!(ids.len(), count);
    }
}
