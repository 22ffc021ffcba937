//! A port of the simulated fabric and its end of the link, laid out by what a packet's hop looks at: two lines of memory, and nothing of the port at the other end, which on a
//! large fabric would be a line more that no cache holds.

use super::short::{Entry, NOWHERE, Rest, Short};
use super::{Machine, NONE};
use crate::credit::{FLOW_BYTES, Receiver, Sender};
use crate::frame::Frame;
use crate::switch::HEADER_BYTES;
use crate::time::Time;
use std::collections::VecDeque;

/// A port: what each packet asks of it is in the first line; what its buffer frees, and what it has told the other end of that, in both.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Port {
    /// When the wire from here is free.
    pub wire_free: Time,
    /// The event that will ask this port's machine for a packet.
    pub wake: Time,
    machine: Packed,
    /// The port at the other end, or [`NONE`].
    pub peer: u32,
    /// The kind of its link, in [`super::part::Part::kinds`].
    pub kind: u32,
    /// What there is of its queues elsewhere.
    rest: u32,
    pub flow_packets: u64,
    /// The first VL's counters; the others' are in [`super::Net`].
    pub lane: Lane,
    pub number: u8,
    flags: u8,
    /// What its buffer frees, and has not told yet.
    freed: Short<Freed, 3>,
    /// Flow-control packets on their way from here, or there and not looked at.
    words: Short<Word, 3>,
}

/// What a switch received at a port; an adapter counts for itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Received {
    pub bytes: u64,
    pub packets: u64,
}

impl Received {
    /// A packet more.
    #[inline]
    pub fn add(&mut self, frame: &Frame) {
        self.packets += 1;
        self.bytes += u64::from(frame.length_bytes);
    }
}

// both delays are one
const _: () = assert!(HEADER_BYTES == FLOW_BYTES);
const _: () = assert!(size_of::<Port>() == 128);

/// It looked for credits in vain.
const STARVING: u8 = 1;
/// The port at the other end did.
const PEER_STARVES: u8 = 2;
/// There is an adapter at the other end.
const TO_ADAPTER: u8 = 4;

/// What ports have of their queues elsewhere.
pub(super) type Rests = Vec<Behind>;

/// What is alike for the ports of links that are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct LinkKind {
    /// From a packet's first bit here to the decision about its header at the other end; also from a flow-control packet's first bit here to its effect there.
    pub delay: Time,
    /// Wire time of a flow-control packet.
    pub flow_time: Time,
}

/// A machine in a word.
#[derive(Clone, Copy, Debug)]
struct Packed(u32);

/// What a port has of its queues behind what lies in it.
#[derive(Clone, Debug, Default)]
pub(super) struct Behind {
    freed: VecDeque<Freed>,
    words: VecDeque<Word>,
}

impl Entry for Freed {
    type Behind = Behind;

    fn behind(all: &mut Behind) -> &mut VecDeque<Freed> {
        &mut all.freed
    }
}

impl Entry for Word {
    type Behind = Behind;

    fn behind(all: &mut Behind) -> &mut VecDeque<Word> {
        &mut all.words
    }
}

/// Both ends of a VL's flow control at a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    pub sender: Sender,
    pub receiver: Receiver,
}

impl Lane {
    /// Between two empty buffers of so many blocks.
    pub fn new(buffer_blocks: u16) -> Lane {
        let (mut sender, receiver) = (Sender::default(), Receiver::new(buffer_blocks));
        sender.limit(receiver.credit_limit());
        Lane { sender, receiver }
    }
}

/// The place of a port's VL among those that do not lie in the port itself; none of the first.
#[inline]
pub(super) fn behind_first(port: usize, vl: u8, data_vls: usize) -> Option<usize> {
    let other = usize::from(vl).checked_sub(1)?;
    Some(port * (data_vls - 1) + other)
}

/// A time and two numbers, whole words in bytes: they lie at any place, and are written as they are read.
#[derive(Clone, Copy, Debug, Default)]
struct Stamped {
    at: [u8; 8],
    numbers: [u8; 4],
}

impl Stamped {
    #[inline]
    const fn new(at: u64, low: u16, high: u16) -> Stamped {
        Stamped {
            at: at.to_ne_bytes(),
            numbers: (low as u32 | (high as u32) << 16).to_ne_bytes(),
        }
    }

    #[inline]
    const fn at(self) -> u64 {
        u64::from_ne_bytes(self.at)
    }

    #[inline]
    const fn low(self) -> u16 {
        u32::from_ne_bytes(self.numbers) as u16
    }

    #[inline]
    const fn high(self) -> u16 {
        (u32::from_ne_bytes(self.numbers) >> 16) as u16
    }
}

/// A flow-control packet on its way: its time, with the VL in the upper [`VL_BITS`], and its counters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Word(Stamped);

const VL_BITS: u32 = 4;
const TIME: u64 = u64::MAX >> VL_BITS;

impl Word {
    /// A flow-control packet of a VL that comes at a time.
    #[inline]
    pub const fn new(at: Time, vl: u8, fctbs: u16, fccl: u16) -> Word {
        let at = at.0 & TIME | (vl as u64) << (u64::BITS - VL_BITS);
        Word(Stamped::new(at, fctbs, fccl))
    }

    /// When it comes.
    #[inline]
    pub const fn at(&self) -> Time {
        Time(self.0.at() & TIME)
    }

    /// Its VL.
    #[inline]
    pub const fn vl(&self) -> u8 {
        (self.0.at() >> (u64::BITS - VL_BITS)) as u8
    }

    /// Its sender's total of blocks sent.
    #[inline]
    pub const fn fctbs(&self) -> u16 {
        self.0.low()
    }

    /// Its sender's credit limit.
    #[inline]
    pub const fn fccl(&self) -> u16 {
        self.0.high()
    }
}

/// Blocks that become free.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Freed(Stamped);

impl Freed {
    /// Blocks of a VL, free at a time.
    #[inline]
    pub const fn new(at: Time, vl: u8, blocks: u16) -> Freed {
        Freed(Stamped::new(at.0, blocks, vl as u16))
    }

    /// The time.
    #[inline]
    pub const fn at(&self) -> Time {
        Time(self.0.at())
    }

    /// The VL.
    #[inline]
    pub const fn vl(&self) -> u8 {
        self.0.high() as u8
    }

    /// How many.
    #[inline]
    pub const fn blocks(&self) -> u16 {
        self.0.low()
    }
}

const ADAPTER: u32 = 1 << 31;

impl Port {
    /// A port without a link.
    pub fn new(machine: Machine, number: u8, lane: Lane) -> Port {
        let mut made = Port {
            wire_free: Time::ZERO,
            wake: Time::NEVER,
            machine: Packed(0),
            peer: NONE,
            rest: NOWHERE,
            words: Short::default(),
            number,
            flags: 0,
            kind: 0,
            lane,
            freed: Short::default(),
            flow_packets: 0,
        };
        made.set_machine(machine);
        made
    }

    /// Whose it is.
    #[inline]
    pub const fn machine(&self) -> Machine {
        let Packed(word) = self.machine;
        match word & ADAPTER {
            0 => Machine::Switch(word),
            _ => Machine::Adapter(word & !ADAPTER),
        }
    }

    /// It is this one's now. There are less than 2^31 of each kind.
    pub const fn set_machine(&mut self, machine: Machine) {
        self.machine = Packed(match machine {
            Machine::Switch(index) => index,
            Machine::Adapter(index) => index | ADAPTER,
        });
    }

    #[inline]
    const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    const fn set(&mut self, flag: u8, to: bool) {
        match to {
            true => self.flags |= flag,
            false => self.flags &= !flag,
        }
    }

    /// It looked for credits in vain.
    #[inline]
    pub const fn starves(&self) -> bool {
        self.has(STARVING)
    }

    /// It does, or does no more.
    #[inline]
    pub const fn set_starving(&mut self, starving: bool) {
        self.set(STARVING, starving);
    }

    /// The port at the other end did.
    #[inline]
    pub const fn peer_starves(&self) -> bool {
        self.has(PEER_STARVES)
    }

    /// That one does, or does no more.
    pub const fn set_peer_starving(&mut self, starving: bool) {
        self.set(PEER_STARVES, starving);
    }

    /// There is an adapter at the other end.
    #[inline]
    pub const fn to_adapter(&self) -> bool {
        self.has(TO_ADAPTER)
    }

    /// The port at the other end is this one, and an adapter's or not.
    pub const fn join(&mut self, peer: u32, adapter: bool) {
        self.peer = peer;
        self.set(TO_ADAPTER, adapter);
    }

    /// The first of what its buffer frees and has not told yet.
    #[inline]
    pub fn first_freed(&self) -> Option<&Freed> {
        self.freed.front()
    }

    /// One more lies elsewhere.
    #[inline]
    pub const fn has_freed_much(&self) -> bool {
        self.freed.is_full()
    }

    /// The first of it is told.
    #[inline]
    pub fn forget_freed(&mut self, all: &mut Rests) {
        let place = &mut self.rest;
        self.freed.pop_front(Rest { place, all });
    }

    /// Its buffer frees more. Mostly the latest; behind a switch a short packet that went later may be through before a long one.
    #[inline]
    pub fn add_freed(&mut self, freed: Freed, all: &mut Rests) {
        let place = &mut self.rest;
        self.freed.insert_by(freed, Freed::at, Rest { place, all });
    }

    /// The first flow-control packet that nobody has looked at.
    #[inline]
    pub fn first_word(&self) -> Option<&Word> {
        self.words.front()
    }

    /// One more lies elsewhere.
    #[inline]
    pub const fn has_said_much(&self) -> bool {
        self.words.is_full()
    }

    /// The first of them was looked at.
    #[inline]
    pub fn forget_word(&mut self, all: &mut Rests) {
        let place = &mut self.rest;
        self.words.pop_front(Rest { place, all });
    }

    /// One more.
    #[inline]
    pub fn add_word(&mut self, word: Word, all: &mut Rests) {
        let place = &mut self.rest;
        self.words.push_back(word, Rest { place, all });
    }

    /// Drops the first of two flow-control packets that have both come by now, if the second says all that it said. Only where [`Self::has_said_much`].
    #[inline]
    pub fn replaces(&mut self, now: Time, all: &mut Rests) -> bool {
        let [first, second, _] = self.words.in_place();
        let both = first.vl() == second.vl() && second.at() <= now;
        if both {
            self.forget_word(all);
        }
        both
    }
}
