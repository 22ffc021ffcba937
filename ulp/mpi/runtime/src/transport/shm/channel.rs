//! Both ends of a channel in the segment: the carrier that stores records into the receiver's block, and the block as its receiver sees it.

use crate::ground::hints;
use crate::ground::memory::{self, Source};
use crate::transport::host::segment::Segment;
use ferriband_mpi_proto::envelope::{ENVELOPE, Envelope, NEAR_ENVELOPE};
use ferriband_mpi_proto::fast::{
    Block, Broken, Busy, Carrier, Near, Place, Push, Receiver, Record, Sender, Shape, Write,
};
use ferriband_mpi_proto::segment::{area, line};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A mapped block.
struct Mapped {
    base: NonNull<u8>,
    size: u32,
    /// Of a sender's: below this there is no memory behind the block yet.
    bare: u32,
    /// Whether this processor knows how to give a line to the cache that all cores share.
    demotes: bool,
}

impl Mapped {
    #[inline]
    fn word(&self, at: u32) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at <= self.size - 8);
        // SAFETY: within the block, aligned, and the segment is never unmapped. Words that are polled are accessed atomically by both sides.
        unsafe { &*self.base.as_ptr().add(at as usize).cast::<AtomicU64>() }
    }

    #[inline]
    fn bytes(&self, at: u32, length: u32) -> NonNull<u8> {
        assert!(at <= self.size && length <= self.size - at);
        // SAFETY: within the block.
        unsafe { self.base.add(at as usize) }
    }
}

/// Bytes of a line of the cache.
const LINE: u32 = 64;
/// Of a record no more is fetched ahead than this: a core has so many fetches under way at most.
const FETCHED: u32 = 4096;
/// Of the next record no more is asked for to be written: what is read meanwhile would wait behind it.
const CLAIMED: u32 = 256;
/// Bytes of a body that are not the program's, at most.
const OWN: usize = 48;
/// Looks at a channel for which nothing has come, after which its owner is taken to wait for one record, and not to go through a stream of them.
const WAITS: u32 = 8;

/// Records that are longer stay in the sender's cache until they are read: pushed out, they took longer in streams.
const DEMOTED: u32 = 704;

impl Mapped {
    /// A record lies in these bytes: it may go to the cache that the receiver shares with this core, where it is found sooner than in the sender's own.
    #[inline]
    fn has_written(&self, from: u32, end: u32) {
        let mut at = from & !(LINE - 1);
        while at < end {
            hints::demote(self.bytes(at, WORD).as_ptr());
            at += LINE;
        }
    }

    /// Asks for the lines that the next record will lie in, which ends at `end` and takes `length` bytes: where stores find their line at hand, none of them waits for
    /// the receiver's cache, and stores become visible in their order, so that one that waits holds up all.
    #[inline]
    fn will_write(&self, end: u32, length: u32) {
        // The receiver polls the line of the trailer already. Below a record lie the zeros for the one after it.
        let from = if end >= length { end } else { self.size };
        for line in 0..length.min(CLAIMED) / LINE {
            if let Some(at) = from.checked_sub((line + 1) * LINE) {
                hints::will_write(self.bytes(at, WORD).as_ptr());
            }
        }
    }
}

impl Mapped {
    /// Writes a whole record: what [`Carrier::write`] does, where the envelope is all of the head.
    #[inline(always)]
    fn lay(&mut self, place: &Place, words: Words, from: *const u8, end: u64) {
        let whole = place.whole;
        // The trailer says how long the body is.
        let length = end as u32;
        assert!(
            place.end <= self.size
                && u64::from(place.at) + u64::from(WORD + whole) == u64::from(place.end)
                && u64::from(whole) >= u64::from(length) + NEAR_ENVELOPE as u64 + 8
                && (place.at | whole).is_multiple_of(8)
        );
        // SAFETY: the record and the word below it lie within the block.
        let start = unsafe { self.base.as_ptr().add(place.at as usize) };
        // SAFETY: word, body, envelope and trailer lie within the range that `bytes` has checked; the first and the last are aligned, as the block is, and are accessed
        // atomically by both sides; the bytes between them are the sender's until the trailer is there.
        unsafe {
            (*start.cast::<AtomicU64>()).store(0, Ordering::Relaxed);
            memory::copy(from, start.add(WORD as usize), length as usize);
            finish(start.add(whole as usize + WORD as usize), words, end);
        }
        if self.demotes && whole <= DEMOTED {
            for line in 0..whole / LINE {
                hints::demote(start.wrapping_add((WORD + line * LINE) as usize));
            }
        }
        if whole == LINE {
            // What asks for the next line is the store of the word below this record.
            return;
        }
        // Below lies room for another such record.
        for line in 0..place.ahead.min(CLAIMED) / LINE {
            hints::will_write(start.wrapping_sub((LINE + line * LINE) as usize));
        }
    }
}

/// Bytes of a word.
const WORD: u32 = 8;

/// An envelope as it lies in the block.
pub type Words = [u64; NEAR_ENVELOPE / 8];

/// Stores envelope and trailer of a record that ends at `end`.
///
/// # Safety
/// The bytes before `end`, which is aligned to words, are the sender's.
#[inline(always)]
unsafe fn finish(end: *mut u8, words: Words, trailer: u64) {
    // SAFETY: four words before the end; all are accessed atomically by both sides.
    unsafe {
        let first = end.sub(NEAR_ENVELOPE + WORD as usize).cast::<AtomicU64>();
        for (at, word) in words.into_iter().enumerate() {
            (*first.add(at)).store(word, Ordering::Relaxed);
        }
        // The release makes all of the record visible before its last word.
        (*first.add(words.len())).store(trailer, Ordering::Release);
    }
}

/// A channel's line, of which each side has its words.
#[derive(Clone, Copy)]
struct Line(NonNull<u8>);

impl Line {
    #[inline]
    fn starved(&self) -> &AtomicU32 {
        // SAFETY: within the segment, which is never unmapped, aligned, only accessed atomically.
        unsafe {
            &*self
                .0
                .as_ptr()
                .add(line::STARVED as usize)
                .cast::<AtomicU32>()
        }
    }

    #[inline]
    fn returned(&self) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe {
            &*self
                .0
                .as_ptr()
                .add(line::RETURN as usize)
                .cast::<AtomicU64>()
        }
    }
}

/// The sending end.
pub struct SendingEnd {
    machine: Sender<Near>,
    block: Mapped,
    line: Line,
    /// The receiver's word that says whether it sleeps.
    asleep: NonNull<AtomicU32>,
    starved: bool,
}

impl Carrier for Mapped {
    type Payload = Source;

    #[inline(always)]
    fn write(&mut self, write: &Write<'_>, payload: Source) -> Result<(), Busy> {
        if write.at < self.bare {
            return Err(Busy);
        }
        let Some((envelope, own)) = write.head.split_first_chunk::<ENVELOPE>() else {
            return Err(Busy);
        };
        let words = Envelope::parse(*envelope).map_or([0; 3], |envelope| envelope.words());
        self.word(write.at).store(write.floor, Ordering::Relaxed);
        let start = write.at + WORD;
        let body = start + own.len() as u32;
        let rest = write.length + NEAR_ENVELOPE as u32 + WORD;
        assert!(body + rest <= write.end && write.end.is_multiple_of(8));
        let place = self.bytes(start, write.end - start);
        memory::copy(own.as_ptr(), place.as_ptr(), own.len());
        payload.read(
            0,
            self.bytes(body, write.length).as_ptr(),
            write.length as usize,
        );
        let end = place.as_ptr().wrapping_add((write.end - start) as usize);
        // SAFETY: the end of the range that was checked, behind which there is nothing of this record.
        unsafe { finish(end, words, write.trailer) };
        if self.demotes && write.end - write.at <= DEMOTED {
            self.has_written(start, write.end);
        }
        self.will_write(write.at, write.ahead);
        Ok(())
    }

    fn mark(&mut self, at: u32, word: u64) -> Result<(), Busy> {
        if at < self.bare {
            return Err(Busy);
        }
        self.word(at).store(word, Ordering::Release);
        Ok(())
    }
}

impl SendingEnd {
    /// The end of an open channel; `backed` bytes at the end of its block have memory behind them.
    pub(super) fn new(
        segment: &Segment,
        (receiver, sender): (u32, u32),
        shape: Shape,
        backed: u32,
    ) -> Self {
        let layout = segment.layout();
        Self {
            machine: Sender::near(shape),
            block: Mapped {
                base: segment.address(layout.block(receiver, sender)),
                size: shape.size(),
                bare: shape.size() - backed,
                demotes: hints::demotes(),
            },
            line: Line(segment.address(layout.line(receiver, sender))),
            asleep: segment.address(layout.area(receiver) + area::ASLEEP).cast(),
            starved: false,
        }
    }

    /// Stores a message whose body begins with `body`, which is not the program's, if there is
    /// room.
    #[inline]
    pub fn push(&mut self, envelope: &Envelope, body: &[u8], payload: Source) -> Push {
        let mut head = [0; ENVELOPE + OWN];
        head[..ENVELOPE].copy_from_slice(&envelope.emit());
        head[ENVELOPE..ENVELOPE + body.len()].copy_from_slice(body);
        let head = &head[..ENVELOPE + body.len()];
        let (seq, length) = (envelope.seq, payload.len() as u32);
        let push = self
            .machine
            .push(head, seq, length, payload, &mut self.block);
        if push != Push::NoCredit || !self.refresh() {
            return push;
        }
        // The return word had news.
        self.machine
            .push(head, seq, length, payload, &mut self.block)
    }

    /// Where a message of the program goes if it needs nothing but room and lies in one run; none
    /// if it needs more: then [`SendingEnd::push`] knows what to do.
    #[inline(always)]
    pub fn place(&self, payload: &Source) -> Option<Place> {
        let place = self.machine.place(payload.len() as u32)?;
        (payload.pointer().is_some() && place.at >= self.block.bare).then_some(place)
    }

    /// Where so many bytes go if they need nothing but room.
    #[inline]
    pub fn place_of(&self, length: usize) -> Option<Place> {
        let place = self.machine.place(length as u32)?;
        (place.at >= self.block.bare).then_some(place)
    }

    /// Stores a message there, in as few steps as can be. Whether the receiver is seen to sleep: then it is to be rung.
    #[inline(always)]
    pub fn lay(&mut self, place: &Place, envelope: &Envelope, payload: &Source) -> bool {
        match payload.pointer() {
            Some(from) => self.lay_from(place, envelope, from),
            None => false,
        }
    }

    /// The same with the runtime's own bytes, as many as the place is for.
    #[inline]
    pub fn lay_bytes(&mut self, place: &Place, envelope: &Envelope, bytes: &[u8]) -> bool {
        assert_eq!(place.trailer(envelope.seq) as u32, bytes.len() as u32);
        self.lay_from(place, envelope, bytes.as_ptr())
    }

    #[inline(always)]
    fn lay_from(&mut self, place: &Place, envelope: &Envelope, from: *const u8) -> bool {
        let end = place.trailer(envelope.seq);
        self.machine.placed(place);
        self.block.lay(place, envelope.words(), from, end);
        self.sees_sleep()
    }

    /// Whether the receiver is seen to sleep after a record was stored; it fences before it does.
    #[inline(always)]
    pub fn sees_sleep(&self) -> bool {
        // Or neither sees what the other has stored, and the receiver is not woken.
        std::sync::atomic::fence(Ordering::SeqCst);
        // SAFETY: within the segment, which is never unmapped, aligned, only accessed atomically.
        unsafe { self.asleep.as_ref() }.load(Ordering::Relaxed) == 1
    }

    /// Bytes at the beginning of the block that have no memory behind them yet: a push that comes to them is [`Push::Busy`].
    pub fn bare(&self) -> u32 {
        self.block.bare
    }

    /// There is memory behind all but the first `bare` bytes.
    pub(super) fn set_bare(&mut self, bare: u32) {
        self.block.bare = bare;
    }

    /// Takes credit that came in an envelope.
    #[inline]
    pub fn credit(&mut self, consumed: u32) {
        self.machine.credit(consumed);
    }

    /// Takes what the receiver has written to the return word. True if it is news.
    pub fn refresh(&mut self) -> bool {
        self.machine
            .credit(self.line.returned().load(Ordering::Acquire) as u32)
    }

    /// Whether the return word holds news.
    pub fn has_news(&self) -> bool {
        let mut machine = self.machine.clone();
        machine.credit(self.line.returned().load(Ordering::Acquire) as u32)
    }

    /// Says whether messages wait for credit. True if that is new: then a receiver that sleeps must be rung.
    pub fn starve(&mut self, starved: bool) -> bool {
        if self.starved == starved {
            return false;
        }
        self.starved = starved;
        self.line
            .starved()
            .store(u32::from(starved), Ordering::SeqCst);
        starved
    }
}

/// The receiving end.
pub struct ReceivingEnd {
    machine: Receiver<Near>,
    block: Mapped,
    line: Line,
    /// Looks since something had come.
    idle: u32,
}

impl Block for Mapped {
    #[inline]
    fn word(&self, at: u32) -> u64 {
        Self::word(self, at).load(Ordering::Acquire)
    }

    fn envelope(&self, at: u32) -> [u8; ENVELOPE] {
        // Not asked for by this layout.
        let mut bytes = [0; ENVELOPE];
        memory::copy(
            self.bytes(at, ENVELOPE as u32).as_ptr(),
            bytes.as_mut_ptr(),
            ENVELOPE,
        );
        bytes
    }

    #[inline(always)]
    fn words(&self, at: u32) -> [u64; 3] {
        assert!(at.is_multiple_of(8));
        let first = self.bytes(at, 24).as_ptr().cast::<AtomicU64>();
        // SAFETY: three aligned words within the block, which are accessed atomically by both sides. The trailer has been loaded before by an acquire.
        [0, 1, 2].map(|word| unsafe { (*first.add(word)).load(Ordering::Relaxed) })
    }

    fn clear(&mut self, at: u32) {
        Self::word(self, at).store(0, Ordering::Relaxed);
    }

    #[inline]
    fn expect(&self, at: u32, length: u32) {
        for line in 0..length.min(FETCHED).div_ceil(LINE) {
            hints::will_read_far(
                self.bytes(at, length)
                    .as_ptr()
                    .wrapping_add((line * LINE) as usize),
            );
        }
    }
}

impl ReceivingEnd {
    pub(super) fn new(segment: &Segment, receiver: u32, sender: u32, shape: Shape) -> Self {
        let layout = segment.layout();
        Self {
            machine: Receiver::near(shape),
            block: Mapped {
                base: segment.address(layout.block(receiver, sender)),
                size: shape.size(),
                bare: 0,
                demotes: false,
            },
            line: Line(segment.address(layout.line(receiver, sender))),
            idle: 0,
        }
    }

    /// Whether there is something to look at.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.machine.is_ready(&self.block)
    }

    /// The same, of who looks again and again. The lines in which the rest of a record like the last one would lie are fetched with each look: else that would begin only when
    /// the line has come that is looked at. Not in a stream, where the sender is about to write these lines.
    #[inline(always)]
    pub fn poll(&mut self) -> bool {
        if self.is_ready() {
            self.idle = 0;
            return true;
        }
        self.idle = self.idle.saturating_add(1);
        if self.idle > WAITS {
            self.machine.foresee(&self.block);
        }
        false
    }

    /// The next record.
    #[inline(always)]
    pub fn peek(&mut self) -> Result<Option<Record<Words>>, Broken> {
        self.machine.peek(&self.block)
    }

    /// The record's body. It may be read until the record is consumed.
    #[inline]
    pub fn payload(&self, record: &Record<Words>) -> Source {
        let bytes = self.block.bytes(record.at, record.length);
        // SAFETY: within the block, which stays mapped; the sender writes there again only when the record is consumed.
        unsafe { Source::new(bytes.as_ptr(), record.length as usize) }
    }

    /// Gives the record's space back. True if the sender waits for credit and was told, and must be rung if it sleeps.
    #[inline]
    pub fn consume(&mut self, record: &Record<Words>, ack: u32) -> bool {
        let is_due = self.machine.consume(record, &mut self.block);
        let starved = self.line.starved().load(Ordering::Relaxed) != 0;
        if is_due || starved {
            self.tell(ack);
        }
        starved
    }

    /// Tells a sender that waits for credit what it has not been told. True if it was told something.
    pub fn relieve(&mut self, ack: u32) -> bool {
        if self.machine.unreported() == 0 || self.line.starved().load(Ordering::SeqCst) == 0 {
            return false;
        }
        self.tell(ack);
        true
    }

    /// Whether [`ReceivingEnd::relieve`] would tell something.
    pub fn owes_relief(&self) -> bool {
        self.machine.unreported() != 0 && self.line.starved().load(Ordering::SeqCst) != 0
    }

    /// Credit for an envelope that goes to the sender.
    #[inline]
    pub fn report(&mut self) -> u32 {
        self.machine.report()
    }

    fn tell(&mut self, ack: u32) {
        let word = u64::from(ack) << 32 | u64::from(self.machine.report());
        // The release keeps the zeroing of a trailer before the credit for it.
        self.line.returned().store(word, Ordering::Release);
    }
}
