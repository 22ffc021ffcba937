//! Sender and receiver over one block, against a list; the shadow says which bytes are not consumed.

use super::*;
use crate::envelope::{Envelope, Kind};
use proptest::prelude::*;
use std::collections::VecDeque;

struct Memory {
    /// Records lie as in memory that both sides map.
    near: bool,
    bytes: Vec<u8>,
    /// Bytes that the receiver has not consumed yet.
    alive: Vec<bool>,
    check: bool,
    /// Marks that cost a write of their own.
    marks: u32,
    /// Of the last record: where it began and ended, the word below and that behind it, and how far the next one may go.
    last: Option<(u32, u32, u64, u64, u32)>,
}

impl Memory {
    fn new(size: u32) -> Self {
        Self {
            near: false,
            bytes: vec![0; size as usize],
            alive: vec![false; size as usize],
            check: true,
            marks: 0,
            last: None,
        }
    }

    fn put(&mut self, at: u32, bytes: &[u8]) {
        let range = at as usize..at as usize + bytes.len();
        assert!(
            !self.check || self.alive[range.clone()].iter().all(|byte| !byte),
            "overwrites what is not consumed"
        );
        self.bytes[range].copy_from_slice(bytes);
    }
}

impl Carrier for Memory {
    type Payload = u8;
    fn write(&mut self, write: &Write<'_>, payload: u8) -> Result<(), Busy> {
        self.put(write.at, &write.floor.to_le_bytes());
        let start = write.at + 8;
        // What has no meaning holds whatever the memory held: here what hurts most.
        self.put(start, &vec![0xff; (write.end - start) as usize]);
        let payload = vec![payload; write.length as usize];
        if self.near {
            let (envelope, own) = write.head.split_first_chunk().expect("an envelope");
            let words = Envelope::parse(*envelope).expect("ours").words();
            self.put(start, own);
            self.put(start + own.len() as u32, &payload);
            let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            self.put(write.end - 32, &words);
        } else {
            let head = start + write.pad;
            self.put(head, write.head);
            self.put(head + write.head.len() as u32, &payload);
        }
        let end = write.end;
        self.put(end - 8, &write.trailer.to_le_bytes());
        self.last = Some((write.at, end, write.floor, write.trailer, write.ahead));
        for byte in &mut self.alive[start as usize..end as usize] {
            *byte = true;
        }
        Ok(())
    }
    fn mark(&mut self, at: u32, word: u64) -> Result<(), Busy> {
        self.put(at, &word.to_le_bytes());
        self.marks += 1;
        Ok(())
    }
}

fn envelope(seq: u32) -> Envelope {
    Envelope {
        kind: Kind::Eager,
        flags: 0,
        seq,
        ack: 0,
        credit: 0,
        tag: 1,
        context: 1,
    }
}

fn run(shape: Shape, steps: &[(u16, u8)]) {
    let ends = (Sender::new(shape), Receiver::new(shape));
    run_in(Memory::new(shape.size()), ends, shape, steps, |bytes| {
        Envelope::parse(bytes)
    });
}

fn run_near(shape: Shape, steps: &[(u16, u8)]) {
    let ends = (Sender::near(shape), Receiver::near(shape));
    let mut memory = Memory::new(shape.size());
    memory.near = true;
    run_in(memory, ends, shape, steps, Envelope::from_words);
}

fn run_in<L: Layout>(
    mut memory: Memory,
    (mut sender, mut receiver): (Sender<L>, Receiver<L>),
    shape: Shape,
    steps: &[(u16, u8)],
    parse: fn(L::Head) -> Option<Envelope>,
) {
    let mut flying: VecDeque<(u32, u32)> = VecDeque::new();
    let mut seq = 0;
    let mut delivered = 0;
    let mut take =
        |receiver: &mut Receiver<L>, memory: &mut Memory, flying: &mut VecDeque<(u32, u32)>| {
            let Some(record) = receiver.peek(&memory.bytes).expect("no broken record") else {
                assert!(flying.is_empty(), "a record that was stored is not found");
                return false;
            };
            let (seq, length) = flying.pop_front().expect("no record that nobody stored");
            assert_eq!(record.length, length);
            let parsed = parse(record.envelope).expect("an envelope");
            assert_eq!(parsed, envelope(seq));
            let body = record.at as usize..(record.at + record.length) as usize;
            assert!(
                memory.bytes[body.clone()]
                    .iter()
                    .all(|byte| *byte == seq as u8)
            );
            let whole = (length + L::ENVELOPE + 8).next_multiple_of(shape.granule());
            let end = if memory.near {
                record.at + whole
            } else {
                record.at + length + 8
            };
            memory.alive[(end - whole) as usize..end as usize].fill(false);
            receiver.consume(&record, &mut memory.bytes);
            delivered += 1;
            true
        };
    for &(length, choice) in steps {
        if choice & 1 == 0 {
            let length = u32::from(length) % (shape.longest() + 1);
            let head = envelope(seq + 1).emit();
            let mut other = sender.clone();
            let place = other.place(length);
            match sender.push(&head, seq + 1, length, (seq + 1) as u8, &mut memory) {
                Push::Stored => {
                    seq += 1;
                    // Who stores the record itself does the same.
                    if let Some(place) = place {
                        let known = (place.at, place.end, 0, place.trailer(seq), place.ahead);
                        assert_eq!(memory.last, Some(known));
                        other.placed(&place);
                        assert_eq!(other, sender);
                    }
                    flying.push_back((seq, length));
                }
                push => {
                    assert_eq!(push, Push::NoCredit);
                    assert_eq!(place, None);
                }
            }
        } else {
            take(&mut receiver, &mut memory, &mut flying);
        }
        if choice & 2 == 0 && receiver.unreported() != 0 {
            sender.credit(receiver.report());
        }
    }
    while take(&mut receiver, &mut memory, &mut flying) {}
    sender.credit(receiver.report());
    // With everything consumed and told, the longest message finds room: first the mark, whose credit comes back, at worst.
    let mut tries = 0;
    while sender.push(
        &envelope(seq + 1).emit(),
        seq + 1,
        shape.longest(),
        1,
        &mut memory,
    ) != Push::Stored
    {
        tries += 1;
        assert!(tries < 3, "a dead end");
        assert_eq!(receiver.peek(&memory.bytes), Ok(None));
        sender.credit(receiver.report());
    }
}

proptest! {
    #[test]
    fn each_message_once_in_order_and_nothing_overwritten(
        size in prop::sample::select(vec![4096_u32, 8192, 32768]),
        granule in prop::sample::select(vec![16_u32, 64, 256]),
        steps in prop::collection::vec((any::<u16>(), any::<u8>()), 1..600),
    ) {
        run(Shape::new(size, granule).expect("a shape"), &steps);
    }

    #[test]
    fn short_messages_too(steps in prop::collection::vec((0_u16..64, any::<u8>()), 1..2000)) {
        run(Shape::new(4096, 64).expect("a shape"), &steps);
    }

    #[test]
    fn in_memory_that_both_map_too(
        size in prop::sample::select(vec![4096_u32, 32768, 65536]),
        granule in prop::sample::select(vec![16_u32, 64, 256]),
        longest in prop::sample::select(vec![8_u16, 64, 600, u16::MAX]),
        steps in prop::collection::vec((any::<u16>(), any::<u8>()), 1..800),
    ) {
        let steps: Vec<_> = steps.into_iter().map(|(length, choice)| (length % longest, choice)).collect();
        run_near(Shape::mapped(size, granule).expect("a shape"), &steps);
    }

    #[test]
    fn any_bytes_in_a_block_that_both_map_are_harmless(bytes in prop::collection::vec(any::<u8>(), 4096)) {
        let shape = Shape::mapped(4096, 16).expect("a shape");
        let near = true;
        let mut memory = Memory { near, bytes, alive: Vec::new(), check: false, marks: 0, last: None };
        let mut receiver = Receiver::near(shape);
        for _ in 0..2000 {
            match receiver.peek(&memory.bytes) {
                Ok(Some(record)) => {
                    assert!(record.at + record.length + 32 <= 4096);
                    receiver.consume(&record, &mut memory.bytes);
                }
                Ok(None) | Err(Broken) => break,
            }
        }
    }

    #[test]
    fn any_bytes_in_the_block_are_harmless(bytes in prop::collection::vec(any::<u8>(), 4096)) {
        let shape = Shape::new(4096, 16).expect("a shape");
        let near = false;
        let mut memory = Memory { near, bytes, alive: Vec::new(), check: false, marks: 0, last: None };
        let mut receiver = Receiver::new(shape);
        for _ in 0..2000 {
            match receiver.peek(&memory.bytes) {
                Ok(Some(record)) => {
                    assert!(record.at + record.length <= 4096 - 8);
                    receiver.consume(&record, &mut memory.bytes);
                }
                Ok(None) | Err(Broken) => break,
            }
        }
    }
}

#[test]
fn credit_that_was_never_given_is_not_taken() {
    let mut memory = Memory::new(4096);
    let mut sender = Sender::new(Shape::new(4096, 64).expect("a shape"));
    assert_eq!(
        sender.push(&envelope(1).emit(), 1, 8, 0, &mut memory),
        Push::Stored
    );
    assert!(!sender.credit(2), "more than was sent");
    assert!(!sender.credit(u32::MAX), "less than nothing");
    assert!(sender.credit(1));
    assert!(!sender.credit(1), "no news");
    assert_eq!(sender.used(), 0);
}

#[test]
fn what_is_too_long_says_so() {
    let mut memory = Memory::new(4096);
    let shape = Shape::new(4096, 64).expect("a shape");
    let mut sender = Sender::new(shape);
    assert_eq!(
        sender.push(&envelope(1).emit(), 1, shape.longest() + 1, 0, &mut memory),
        Push::TooLong
    );
    assert!(
        Shape::new(4095, 64).is_none()
            && Shape::new(4096, 8).is_none()
            && Shape::new(2048, 64).is_none()
    );
}

#[test]
fn a_block_goes_on_at_its_end_without_a_write_of_its_own_where_the_receiver_keeps_up() {
    for length in [8, 1024, 4096, 8000] {
        let shape = Shape::DEFAULT;
        let mut memory = Memory::new(shape.size());
        let mut sender = Sender::new(shape);
        let mut receiver = Receiver::new(shape);
        for seq in 1..=2000 {
            let push = sender.push(&envelope(seq).emit(), seq, length, seq as u8, &mut memory);
            assert_eq!(push, Push::Stored, "record {seq} of {length} bytes");
            let record = receiver.peek(&memory.bytes).expect("no broken record");
            let record = record.expect("the record");
            let whole = (length + 36).next_multiple_of(shape.granule()) as usize;
            let end = (record.at + record.length) as usize + 8;
            memory.alive[end - whole..end].fill(false);
            receiver.consume(&record, &mut memory.bytes);
            assert_eq!(receiver.peek(&memory.bytes), Ok(None));
            sender.credit(receiver.report());
            assert_eq!(sender.used(), 0, "all is given back, what is skipped too");
        }
        assert_eq!(memory.marks, 0, "{length} bytes");
    }
}

#[test]
fn most_records_need_nothing_but_room() {
    let shape = Shape::new(4096, 64).expect("a shape");
    let mut sender = Sender::new(shape);
    // 64 bytes each; the last one before the block's end would send the receiver back, and is not such.
    for seq in 1..=62 {
        let place = sender.place(28).expect("nothing is in the way");
        assert_eq!(
            (place.end, place.at),
            (4096 - 64 * (seq - 1), 4096 - 64 * seq - 8)
        );
        sender.placed(&place);
    }
    assert_eq!(sender.place(28), None);
    assert_eq!(Sender::new(shape).place(shape.longest() + 1), None);
}

#[test]
fn who_sends_ahead_skips_nothing_that_the_next_message_needs() {
    let shape = Shape::new(4096, 64).expect("a shape");
    let mut memory = Memory::new(shape.size());
    let mut sender = Sender::new(shape);
    // Nothing is consumed: the block takes records until the next one finds no room, and the short one still does.
    for seq in 1..=3 {
        let push = sender.push(&envelope(seq).emit(), seq, 900, seq as u8, &mut memory);
        assert_eq!(push, Push::Stored);
    }
    let push = sender.push(&envelope(4).emit(), 4, 900, 4, &mut memory);
    assert_eq!(push, Push::Stored);
    let push = sender.push(&envelope(5).emit(), 5, 8, 5, &mut memory);
    assert_eq!(push, Push::Stored);
    assert_eq!(memory.marks, 0);
}

/// Of a block of 1 MiB that both sides map: how far from its end records lie that go one after the other, `window` of them for each answer.
fn reach(length: u32, window: u32) -> u32 {
    let shape = Shape::mapped(1 << 20, 64).expect("a shape");
    let mut memory = Memory::new(shape.size());
    memory.near = true;
    let mut sender = Sender::near(shape);
    let mut receiver = Receiver::near(shape);
    let mut least = shape.size();
    let mut seq = 0;
    for _ in 0..1000 / window {
        for _ in 0..window {
            seq += 1;
            let push = sender.push(&envelope(seq).emit(), seq, length, seq as u8, &mut memory);
            assert_eq!(push, Push::Stored, "record {seq} of {length} bytes");
        }
        for _ in 0..window {
            let record = receiver.peek(&memory.bytes).expect("no broken record");
            let record = record.expect("the record");
            least = least.min(record.at);
            let whole = (length + 32).next_multiple_of(shape.granule());
            memory.alive[record.at as usize..(record.at + whole) as usize].fill(false);
            receiver.consume(&record, &mut memory.bytes);
        }
        sender.credit(receiver.report());
    }
    assert_eq!(memory.marks, 0, "{length} bytes");
    shape.size() - least
}

#[test]
fn who_is_answered_each_time_stays_where_lines_are_near() {
    for length in [0, 8, 32, 33, 512, 1024, 2000] {
        let reach = reach(length, 1);
        assert!((4096..=8192).contains(&reach), "{length} bytes: {reach}");
    }
    // What is longer, and who sends ahead, has the whole block.
    assert!(reach(2048, 1) > 1 << 19);
    assert!(reach(8, 5) > 32 << 10);
}

#[test]
fn a_short_body_and_its_envelope_lie_in_one_line() {
    let shape = Shape::mapped(4096, 64).expect("a shape");
    let place = Sender::near(shape).place(32).expect("room");
    assert_eq!((place.at, place.end), (4096 - 64 - 8, 4096));
    let place = Sender::near(shape).place(33).expect("room");
    assert_eq!((place.at, place.end), (4096 - 128 - 8, 4096));
}
