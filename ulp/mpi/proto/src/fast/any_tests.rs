//! All designs over a block whose bytes come as late and in as bad an order as the rules let them: a write's last byte last, one write after the other.

use super::*;
use crate::envelope::{Envelope, Kind};
use proptest::prelude::*;
use std::collections::VecDeque;

struct Memory {
    bytes: Vec<u8>,
    /// What the sender has written, were it all there.
    mirror: Vec<u8>,
    /// Writes that have not come whole: bytes that are still to come, the next at the end.
    flying: VecDeque<Vec<(u32, u8)>>,
    /// Bytes of records that are written and not consumed.
    alive: Vec<bool>,
    records: VecDeque<std::ops::Range<usize>>,
    design: Design,
    random: u64,
}

impl Memory {
    fn new(plan: Plan, random: u64) -> Self {
        Self {
            bytes: vec![0; plan.size() as usize],
            mirror: vec![0; plan.size() as usize],
            flying: VecDeque::new(),
            alive: vec![false; plan.size() as usize],
            records: VecDeque::new(),
            design: plan.design(),
            random: random | 1,
        }
    }

    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// So many bytes more come.
    fn arrive(&mut self, count: usize) {
        for _ in 0..count {
            let Some(write) = self.flying.front_mut() else {
                return;
            };
            if let Some((at, byte)) = write.pop() {
                self.bytes[at as usize] = byte;
            }
            if write.is_empty() {
                self.flying.pop_front();
            }
        }
    }

    fn arrive_all(&mut self) {
        while !self.flying.is_empty() {
            self.arrive(1000);
        }
    }
}

impl Writer for Memory {
    type Payload = u8;

    fn put(&mut self, put: &Put<'_>, payload: Option<u8>) -> Result<(), Busy> {
        if self.random().is_multiple_of(16) {
            return Err(Busy);
        }
        let (start, whole) = (put.at as usize, put.whole() as usize);
        let mut bytes = self.mirror[start..start + whole].to_vec();
        if !self.design.is_mirrored() {
            // What has no meaning is what hurts most.
            bytes.fill(0xff);
        }
        put.lay(&mut bytes, |to| to.fill(payload.unwrap_or(0)));
        let zeros = if self.design == Design::VariableBottom {
            put.front.len()
        } else {
            0
        };
        assert!(
            self.alive[start..start + whole].iter().all(|alive| !alive),
            "overwrites what is not consumed"
        );
        if payload.is_some() {
            self.alive[start + zeros..start + whole].fill(true);
            self.records.push_back(start + zeros..start + whole);
        }
        self.mirror[start..start + whole].copy_from_slice(&bytes);
        let last = whole - 1;
        let mut order: Vec<(u32, u8)> = (0..last)
            .map(|at| ((start + at) as u32, bytes[at]))
            .collect();
        // Descending, ascending or any order; the last byte is the first of the list, and so comes last.
        match self.random() % 3 {
            0 => order.reverse(),
            1 => (),
            _ => {
                for at in (1..order.len()).rev() {
                    let other = (self.random() % (at as u64 + 1)) as usize;
                    order.swap(at, other);
                }
            }
        }
        order.insert(0, ((start + last) as u32, bytes[last]));
        self.flying.push_back(order);
        Ok(())
    }

    fn old(&self, at: u32) -> u8 {
        assert!(self.design.is_mirrored(), "there is no mirror");
        self.mirror[at as usize]
    }
}

fn envelope(seq: u32) -> Envelope {
    Envelope {
        kind: Kind::Eager,
        flags: 0,
        seq,
        ack: seq.wrapping_mul(0x0101_0101),
        credit: u32::MAX,
        tag: -1,
        context: u64::MAX,
    }
}

struct World {
    memory: Memory,
    sender: AnySender,
    receiver: AnyReceiver,
    sent: VecDeque<(u32, u32)>,
    seq: u32,
}

impl World {
    fn new(plan: Plan, first: u32, random: u64) -> Self {
        Self {
            memory: Memory::new(plan, random),
            sender: AnySender::new(plan),
            receiver: AnyReceiver::new(plan),
            sent: VecDeque::new(),
            seq: first,
        }
    }

    fn push(&mut self, length: u32) -> Push {
        let seq = self.seq.wrapping_add(1);
        let push = self.sender.push(
            &envelope(seq).emit(),
            seq,
            length,
            seq as u8,
            &mut self.memory,
        );
        if push == Push::Stored {
            self.seq = seq;
            self.sent.push_back((seq, length));
        }
        push
    }

    fn take(&mut self) -> bool {
        let Some(record) = self
            .receiver
            .peek(&self.memory.bytes)
            .expect("nothing is broken")
        else {
            assert!(
                self.sent.is_empty() || !self.memory.flying.is_empty(),
                "a record that has come is not found"
            );
            return false;
        };
        assert!(
            self.memory.flying.len() < self.sent.len() + 1,
            "taken before it has come"
        );
        let (seq, length) = self.sent.pop_front().expect("no record that nobody sent");
        assert_eq!(record.length, length);
        assert_eq!(Envelope::parse(record.envelope), Some(envelope(seq)));
        let body = record.at as usize..(record.at + length) as usize;
        let bytes = &self.memory.bytes[body];
        assert!(bytes.iter().all(|byte| *byte == seq as u8), "torn");
        let range = self.memory.records.pop_front().expect("it was written");
        self.memory.alive[range].fill(false);
        self.receiver.consume(&record, &mut self.memory.bytes);
        true
    }
}

fn run(plan: Plan, first: u32, random: u64, steps: &[(u16, u8)]) {
    let mut world = World::new(plan, first, random);
    for &(length, choice) in steps {
        match choice % 4 {
            0 => {
                let push = world.push(u32::from(length) % (plan.longest() + 1));
                assert_ne!(push, Push::TooLong);
            }
            1 => {
                world.take();
            }
            2 => world.memory.arrive(usize::from(length) % 97),
            _ => world.memory.arrive(usize::from(length)),
        }
        if choice & 0x30 == 0 && world.receiver.unreported() != 0 {
            let told = world.receiver.report();
            world.sender.credit(told);
        }
    }
    world.memory.arrive_all();
    while world.take() {}
    // With everything consumed and told, the longest message finds room.
    let mut tries = 0;
    loop {
        let told = world.receiver.report();
        world.sender.credit(told);
        match world.push(plan.longest()) {
            Push::Stored => break,
            push => assert!(push == Push::Busy || push == Push::NoCredit),
        }
        world.memory.arrive_all();
        world.take();
        tries += 1;
        assert!(tries < 60, "a dead end");
    }
}

fn plans() -> impl Strategy<Value = Plan> {
    let all = [
        Plan::new(Design::FixedTop, 16384, SLOT),
        Plan::new(Design::FixedTop, 65536, SLOT),
        Plan::new(Design::FixedBottom, 16384, SLOT),
        Plan::new(Design::FixedBottom, 65536, SLOT),
        Plan::new(Design::VariableTop, 4096, 16),
        Plan::new(Design::VariableTop, 4096, 64),
        Plan::new(Design::VariableTop, 32768, 256),
        Plan::new(Design::VariableBottom, 4096, 16),
        Plan::new(Design::VariableBottom, 4096, 64),
        Plan::new(Design::VariableBottom, 32768, 256),
    ];
    prop::sample::select(all.map(|plan| plan.expect("a plan")).to_vec())
}

use super::super::SLOT;

proptest! {
    #[test]
    fn each_message_once_whole_and_in_order(
        plan in plans(), first in any::<u32>(), random in any::<u64>(),
        steps in prop::collection::vec((any::<u16>(), any::<u8>()), 1..400),
    ) {
        run(plan, first, random, &steps);
    }

    #[test]
    fn short_messages_too(
        plan in plans(), random in any::<u64>(),
        steps in prop::collection::vec((0_u16..120, any::<u8>()), 1..1200),
    ) {
        run(plan, 0, random, &steps);
    }

    #[test]
    fn any_bytes_in_the_block_are_harmless(plan in plans(), seed in any::<u64>()) {
        let mut memory = Memory::new(plan, seed);
        for at in 0..memory.bytes.len() {
            memory.bytes[at] = (memory.random() >> 32) as u8;
        }
        let mut receiver = AnyReceiver::new(plan);
        for _ in 0..2000 {
            match receiver.peek(&memory.bytes) {
                Ok(Some(record)) => {
                    assert!(record.at + record.length <= plan.size());
                    receiver.consume(&record, &mut memory.bytes);
                }
                Ok(None) | Err(Broken) => break,
            }
        }
    }
}

#[test]
fn credit_that_was_never_given_is_not_taken() {
    for design in Design::ALL {
        let plan = Plan::of(design, 32768).expect("a plan");
        let mut world = World::new(plan, 0, 3);
        while world.push(8) != Push::Stored {}
        assert!(!world.sender.credit(2), "more than was sent");
        assert!(!world.sender.credit(u32::MAX), "less than nothing");
        assert!(world.sender.credit(1));
        assert_eq!(world.sender.used(), 0);
        assert_eq!(world.push(plan.longest() + 1), Push::TooLong);
    }
}

#[test]
fn fixed_designs_hold_as_many_messages_as_they_have_slots_and_variable_ones_as_many_as_fit() {
    for (design, expected) in [
        (Design::FixedTop, 4),
        (Design::FixedBottom, 4),
        // The last granule is for the mark.
        (Design::VariableTop, 511),
        (Design::VariableBottom, 511),
    ] {
        let mut world = World::new(Plan::of(design, 32768).expect("a plan"), 0, 5);
        let mut count = 0;
        loop {
            match world.push(8) {
                Push::Stored => count += 1,
                Push::Busy => (),
                _ => break,
            }
        }
        assert_eq!(count, expected, "{design:?}");
    }
}

#[test]
fn plans_have_bounds() {
    assert!(Plan::of(Design::FixedTop, 8192).is_none());
    assert!(Plan::new(Design::FixedTop, 32768, 64).is_none());
    assert!(Plan::of(Design::VariableTop, 1 << 21).is_none());
    assert_eq!(Design::of(5), None);
    for design in Design::ALL {
        assert_eq!(Design::of(design as u32), Some(design));
    }
}
