//! Ring and marks under loom: every order in which two processes' accesses can fall, by the rules of the memory model.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::loom::sync::atomic::{AtomicU64, Ordering, fence};
use ::loom::{model::Builder, thread};

use crate::direct::layout::{
    KeyEntry, PROC_MARKS, RING_DATA_AT, RING_HEAD, RING_RECORDS_AT, key_offset,
};
use crate::direct::mark::{self, Revoked};
use crate::direct::*;

/// Words over loom's atomics; those that a test does not name are 0 for ever.
#[derive(Clone)]
struct LoomSeg(Arc<BTreeMap<usize, AtomicU64>>);

impl LoomSeg {
    fn new(offsets: impl IntoIterator<Item = usize>) -> Self {
        LoomSeg(Arc::new(
            offsets
                .into_iter()
                .map(|off| (off, AtomicU64::new(0)))
                .collect(),
        ))
    }

    fn at(&self, off: usize) -> &AtomicU64 {
        self.0
            .get(&off)
            .unwrap_or_else(|| panic!("offset {off} is not modelled"))
    }
}

impl Words for LoomSeg {
    fn load(&self, off: usize) -> u64 {
        self.0
            .get(&off)
            .map_or(0, |word| word.load(Ordering::Acquire))
    }
    fn store(&self, off: usize, value: u64) {
        self.at(off).store(value, Ordering::Release);
    }
    fn swap(&self, off: usize, value: u64) -> u64 {
        self.at(off).swap(value, Ordering::SeqCst)
    }
    fn fetch_or(&self, off: usize, bits: u64) -> u64 {
        self.at(off).fetch_or(bits, Ordering::SeqCst)
    }
    fn fetch_and(&self, off: usize, bits: u64) -> u64 {
        self.at(off).fetch_and(bits, Ordering::SeqCst)
    }
    fn compare_exchange(&self, off: usize, old: u64, new: u64) -> Result<u64, u64> {
        self.at(off)
            .compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst)
    }
    fn copy_in(&self, off: usize, bytes: &[u8]) {
        // payload bytes: as weak as bytes are
        for (i, byte) in bytes.iter().enumerate() {
            self.at(off + i).store(u64::from(*byte), Ordering::Relaxed);
        }
    }
    fn copy_out(&self, off: usize, bytes: &mut [u8]) {
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = self.at(off + i).load(Ordering::Relaxed) as u8;
        }
    }
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

fn record(seq: u32, data: u64) -> Record {
    Record {
        kind: Kind::Send,
        flags: RecordFlags::LAST,
        dst_qpn: seq + 1,
        src_qpn: seq + 2,
        seq,
        length: 1,
        imm: seq + 3,
        key: seq + 4,
        addr: u64::from(seq) + 5,
        arg: u64::from(seq) + 6,
        data,
        extra: 7,
    }
}

#[test]
fn a_record_is_seen_whole_or_not_at_all_and_its_answer_with_the_head() {
    check(|| {
        let words = (0..16)
            .map(|word| RING_RECORDS_AT + word * 8)
            .chain([RING_HEAD]);
        let seg = LoomSeg::new(words.chain([RING_DATA_AT, RING_DATA_AT + 64]));
        let consuming = seg.clone();
        let consumer = thread::spawn(move || {
            let mut consumer = Consumer::new(0);
            for seq in 0..2 {
                let Some(found) = consumer.peek(&consuming) else {
                    break;
                };
                let found = found.expect("a known kind");
                assert_eq!(found, record(seq, u64::from(seq) * 64));
                let mut payload = [0];
                let at = consumer.payload(&found, 1).expect("inside");
                consuming.copy_out(at, &mut payload);
                assert_eq!(payload, [seq as u8 + 100]);
                let refused = if seq == 0 {
                    Response::Rnr(3)
                } else {
                    Response::Ok(0)
                };
                consumer.answer(&consuming, refused);
                consumer.acknowledge(&consuming);
            }
        });
        let shared = TxShared::new();
        let mut producer = Producer::new(0, shared.clone());
        let mut completer = Completer::new(0, shared);
        let mut answered = 0;
        for seq in 0..2 {
            let place = producer.reserve(1).expect("room");
            seg.copy_in(place.data_at, &[seq as u8 + 100]);
            producer.publish(&seg, place, &record(seq, place.data), u64::from(seq));
            completer.collect(&seg, producer.tail(), 4, |answer| {
                let expected = |response| match answered {
                    0 => response == Response::Rnr(3),
                    _ => matches!(response, Response::Ok(_)),
                };
                assert_eq!((answer.owner, answer.seq), (u64::from(answered), answered));
                assert!(expected(answer.response), "{answer:?}");
                answered += 1;
            });
        }
        consumer.join().expect("the consumer's checks hold");
    });
}

/// The initiator's mark and the owner's revocation cannot miss each other: no access after the wait.
#[test]
fn no_access_begins_or_goes_on_after_the_owner_has_waited() {
    check(|| {
        let (key, index) = (0x105, 1);
        let table = LoomSeg::new((0..7).map(|word| key_offset(index) + word * 8));
        let marks = LoomSeg::new([PROC_MARKS, PROC_MARKS + 8]);
        // 0 free to use, 1 taken back
        let memory = Arc::new(AtomicU64::new(0));
        let entry = KeyEntry {
            key,
            access: crate::types::Access::REMOTE_WRITE,
            iova: 0,
            length: 8,
            addr: 0,
            pd: 1,
            map_id: 0,
            map_offset: 0,
            only_qp: 0,
            window: false,
        };
        entry.write(&table, index);
        let (seen_table, own, target) = (table.clone(), marks.clone(), memory.clone());
        let initiator = thread::spawn(move || {
            mark::publish(&own, 0, 9, key, 33);
            if KeyEntry::read(&seen_table, key).is_some() {
                assert_eq!(
                    target.load(Ordering::Relaxed),
                    0,
                    "an access to memory that was taken back"
                );
            }
            mark::clear(&own, 0);
        });
        KeyEntry::revoke(&table, index);
        if !mark::in_flight(&marks, 9, Revoked::Key(key)) {
            memory.store(1, Ordering::Relaxed);
        }
        initiator.join().expect("the initiator's check holds");
    });
}
