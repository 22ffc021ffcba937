//! Variable bottom-fill (Veloblock, Koop et al., section 5): records of any length grow downwards from the block's end.
//!
//! A record in address order: `Z (8 zero bytes) | pad | envelope | body | T (8)`. T holds the body's length (bits 0..31), the low bits of
//! the number (32..55) and, in its last byte, a flag that is never zero. Z is where the next trailer will lie, so the receiver finds 0 there until
//! the next record has come. Z costs credit, so it never falls on a trailer that is not consumed. Where a record finds no room below, a mark
//! of eight bytes sends the receiver back to the end of the block; the trailer there is zeroed by the receiver when it consumes that record.
//! Where the receiver keeps up and another record like this one would find no room, Z is that mark at once: it costs no write of its own.
//!
//! In memory that both sides map ([`Near`]) a record is `Z | body | pad | envelope (24) | T`: it begins with its body, so with a line, and what is polled and what is looked
//! at first are one line, in which a body of up to 32 bytes finds room, too. And there a sender that is answered each time goes back to the end long before the block is full
//! ([`Shape::mapped`]).

use super::trailer::{self, FLAG, WORD, WRAP};
use super::{Block, Broken, Busy, Carrier, Push, Record, Shape, Write};
use crate::envelope::{ENVELOPE, NEAR_ENVELOPE};
use std::fmt::Debug;
use std::marker::PhantomData;

/// Bytes of a line of the cache.
const LINE: u32 = 64;
/// Of longer records nothing is read before they have come.
const FORESEEN: u32 = 320;

/// How a record's parts lie.
pub trait Layout: Copy + Debug + PartialEq + Eq {
    /// Bytes of the envelope.
    const ENVELOPE: u32;
    /// The envelope as it is read.
    type Head: Copy + Debug + PartialEq + Eq;
    /// Where the body of `length` bytes begins, and with what begins that has to be read, in a record of `whole` bytes that ends at `end`.
    fn begins(end: u32, whole: u32, length: u32) -> (u32, u32);
    /// The envelope of a record that ends at `end`, whose body begins at `at`, and whose trailer is `word`.
    fn head(word: u64, end: u32, at: u32, block: &impl Block) -> Result<Self::Head, Broken>;
}

/// Envelope and body end where the trailer begins: what one RDMA WRITE brings is as short as can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Far;

impl Layout for Far {
    const ENVELOPE: u32 = ENVELOPE as u32;
    type Head = [u8; ENVELOPE];

    #[inline(always)]
    fn begins(end: u32, _whole: u32, length: u32) -> (u32, u32) {
        let at = end - WORD - length;
        (at, at - Self::ENVELOPE)
    }

    #[inline(always)]
    fn head(word: u64, _end: u32, at: u32, block: &impl Block) -> Result<Self::Head, Broken> {
        trailer::envelope(word, at, block)
    }
}

/// The body begins where the record does, and the envelope ends where the trailer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Near;

impl Layout for Near {
    const ENVELOPE: u32 = NEAR_ENVELOPE as u32;
    type Head = [u64; NEAR_ENVELOPE / 8];

    #[inline(always)]
    fn begins(end: u32, whole: u32, _length: u32) -> (u32, u32) {
        (end - whole, end - whole)
    }

    #[inline(always)]
    fn head(_word: u64, end: u32, _at: u32, block: &impl Block) -> Result<Self::Head, Broken> {
        // The number stands in the envelope: who counts them sees what is wrong.
        Ok(block.words(end - WORD - Self::ENVELOPE))
    }
}

/// Bytes of a record of an envelope of `envelope` bytes, in granules.
#[inline(always)]
fn whole(shape: Shape, envelope: u32, length: u32) -> u32 {
    (envelope + length + WORD + shape.granule - 1) & !(shape.granule - 1)
}

/// Where a record goes that needs nothing but room; it has not been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Address of the word below the record, which is to be zero.
    pub at: u32,
    /// Behind the last byte of the trailer.
    pub end: u32,
    /// Bytes of the record.
    pub whole: u32,
    /// Bytes below `at` that a next record like this one may take without more credit.
    pub ahead: u32,
    length: u32,
    /// All had been given back before it.
    is_first: bool,
}

impl Place {
    /// The word that ends the record, of the message of this number.
    #[inline(always)]
    pub fn trailer(&self, seq: u32) -> u64 {
        trailer::of(seq, self.length)
    }
}

/// The sender's machine of one channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender<L = Far> {
    layout: PhantomData<L>,
    shape: Shape,
    /// Where the next record ends.
    end: u32,
    /// Granules written, in all, with those that wraps skip.
    sent: u32,
    /// Granules of these that the receiver has given back.
    consumed: u32,
    /// Whether all had been given back when the last record was written.
    answered: bool,
}

impl Sender {
    /// For a fresh block: its last word is zero.
    pub fn new(shape: Shape) -> Self {
        Self::of(shape)
    }
}

impl Sender<Near> {
    /// The same for a block that both sides map.
    pub fn near(shape: Shape) -> Self {
        Self::of(shape)
    }
}

impl<L: Layout> Sender<L> {
    fn of(shape: Shape) -> Self {
        Self {
            layout: PhantomData,
            shape,
            end: shape.size,
            sent: 0,
            consumed: 0,
            answered: false,
        }
    }

    /// Writes a message whose head (envelope and what of the body is not the program's) and payload are given; `seq` is its number.
    #[inline(always)]
    pub fn push<C: Carrier>(
        &mut self,
        head: &[u8],
        seq: u32,
        length: u32,
        payload: C::Payload,
        to: &mut C,
    ) -> Push {
        let own = head.len() as u32 - ENVELOPE as u32;
        if length > self.shape.longest() || own + length > self.shape.longest() {
            return Push::TooLong;
        }
        let filled = L::ENVELOPE + own + length + WORD;
        let whole = whole(self.shape, L::ENVELOPE, own + length);
        if whole + WORD > self.end
            && let Err(push) = self.wrap(to)
        {
            return push;
        }
        if self.used() + whole + WORD > self.shape.size {
            return Push::NoCredit;
        }
        let wraps = self.wraps_below(whole);
        let write = Write {
            at: self.end - whole - WORD,
            end: self.end,
            floor: if wraps { WRAP } else { 0 },
            pad: whole - filled,
            head,
            length,
            trailer: trailer::of(seq, own + length),
            ahead: (self.shape.size - self.used() - whole - WORD).min(whole),
        };
        match to.write(&write, payload) {
            Ok(()) => {
                self.answered = self.used() == 0;
                self.end -= whole;
                self.sent = self.sent.wrapping_add(self.shape.granules(whole));
                if wraps {
                    self.go_on_at_the_end();
                }
                Push::Stored
            }
            Err(Busy) => Push::Busy,
        }
    }

    /// Where a record of an envelope and `length` bytes goes if it needs nothing but room: there is credit, and the block goes on at its end neither before it nor
    /// behind it. Most records are such; what [`Sender::push`] would write is then known without it.
    #[inline(always)]
    pub fn place(&self, length: u32) -> Option<Place> {
        if length > self.shape.longest() {
            return None;
        }
        let whole = whole(self.shape, L::ENVELOPE, length);
        let before = self.used();
        let used = before + whole + WORD;
        if used > self.shape.size || self.end < 2 * whole + WORD {
            return None;
        }
        if before == 0 && self.is_far(whole) {
            return None;
        }
        Some(Place {
            at: self.end - whole - WORD,
            end: self.end,
            whole,
            ahead: (self.shape.size - used).min(whole),
            length,
            is_first: before == 0,
        })
    }

    /// A record has been written to that place, which was the last one asked for.
    #[inline(always)]
    pub fn placed(&mut self, place: &Place) {
        debug_assert_eq!(place.end, self.end);
        self.answered = place.is_first;
        self.end = place.at + WORD;
        self.sent = self.sent.wrapping_add(self.shape.granules(place.whole));
    }

    /// Takes what the receiver says it has consumed in all, if that is more than was known and not more than was sent. True if it was more.
    #[inline]
    pub fn credit(&mut self, consumed: u32) -> bool {
        let more = consumed.wrapping_sub(self.consumed);
        let is_news = more != 0 && more <= self.sent.wrapping_sub(self.consumed);
        if is_news {
            self.consumed = consumed;
        }
        is_news
    }

    /// Bytes of the block that are not known to be consumed.
    #[inline]
    pub fn used(&self) -> u32 {
        self.sent.wrapping_sub(self.consumed) * self.shape.granule
    }

    /// Whether the block goes on at its end after a record of `whole` bytes: another one would find no room below, and no more than half of the block is in use
    /// then with what is skipped, so that nothing waits for that. Then the last trailer of the block has been consumed, and with that zeroed.
    #[inline(always)]
    fn wraps_below(&self, whole: u32) -> bool {
        let below = self.end - whole;
        (below < whole + WORD && self.used() + self.end + WORD <= self.shape.size / 2)
            || (self.is_far(whole)
                && self.answered
                && self.used() == 0
                && self.end + WORD <= self.shape.size)
    }

    /// Whether there is no room for another record of `whole` bytes behind this one in what is near.
    #[inline(always)]
    fn is_far(&self, whole: u32) -> bool {
        whole <= self.shape.near / 4 && self.end + self.shape.near < self.shape.size + 2 * whole
    }

    #[inline]
    fn go_on_at_the_end(&mut self) {
        self.sent = self.sent.wrapping_add(self.shape.granules(self.end));
        self.end = self.shape.size;
    }

    #[cold]
    fn wrap<C: Carrier>(&mut self, to: &mut C) -> Result<(), Push> {
        // The word more says that the last trailer of the block has been consumed, and with that zeroed.
        if self.used() + self.end + WORD > self.shape.size {
            return Err(Push::NoCredit);
        }
        to.mark(self.end - WORD, WRAP).map_err(|Busy| Push::Busy)?;
        self.go_on_at_the_end();
        Ok(())
    }
}

/// The receiver's machine of one channel.
#[derive(Clone, Debug)]
pub struct Receiver<L = Far> {
    layout: PhantomData<L>,
    shape: Shape,
    /// Where the next record will end.
    end: u32,
    /// Granules consumed, in all.
    consumed: u32,
    /// Of these, what the sender was told.
    reported: u32,
    /// Bytes of the last record, with what it was filled up with.
    last: u32,
}

impl Receiver {
    /// For a fresh block.
    pub fn new(shape: Shape) -> Self {
        Self::of(shape)
    }
}

impl Receiver<Near> {
    /// The same for a block that both sides map.
    pub fn near(shape: Shape) -> Self {
        Self::of(shape)
    }
}

impl<L: Layout> Receiver<L> {
    fn of(shape: Shape) -> Self {
        Self {
            layout: PhantomData,
            shape,
            end: shape.size,
            consumed: 0,
            reported: 0,
            last: 0,
        }
    }

    /// Whether there is something to look at.
    #[inline]
    pub fn is_ready(&self, block: &impl Block) -> bool {
        block.word(self.end - WORD) & FLAG != 0
    }

    /// Tells the block what will be read if the next record is as long as the last one: the lines before that of its trailer.
    #[inline]
    pub fn foresee(&self, block: &impl Block) {
        if let Some(at) = self.end.checked_sub(self.last)
            && (LINE + 1..=FORESEEN).contains(&self.last)
        {
            block.expect(at, self.last - LINE);
        }
    }

    /// The next record, if it has come. It stays until it is consumed.
    #[inline(always)]
    pub fn peek(&mut self, block: &impl Block) -> Result<Option<Record<L::Head>>, Broken> {
        let mut word = block.word(self.end - WORD);
        if word & FLAG == 0 {
            return Ok(None);
        }
        if word & FLAG == WRAP {
            // At the block's end there is never a reason to wrap.
            if self.end == self.shape.size {
                return Err(Broken);
            }
            self.consumed = self.consumed.wrapping_add(self.shape.granules(self.end));
            self.end = self.shape.size;
            word = block.word(self.end - WORD);
            if word & FLAG == 0 {
                return Ok(None);
            }
        }
        let length = trailer::length(word, self.shape.longest())?;
        let whole = self.whole(length);
        if whole + WORD > self.end {
            return Err(Broken);
        }
        let (at, from) = L::begins(self.end, whole, length);
        if self.end - from > LINE {
            block.expect(from, self.end - WORD - from);
        }
        Ok(Some(Record {
            envelope: L::head(word, self.end, at, block)?,
            at,
            length,
        }))
    }

    /// Gives the space of the record that was looked at back. True if the sender should be told.
    #[inline]
    pub fn consume(&mut self, record: &Record<L::Head>, block: &mut impl Block) -> bool {
        let whole = self.whole(record.length);
        debug_assert_eq!(record.at, L::begins(self.end, whole, record.length).0);
        if self.end == self.shape.size {
            block.clear(self.end - WORD);
        }
        self.end -= whole;
        self.last = whole;
        self.consumed = self.consumed.wrapping_add(self.shape.granules(whole));
        self.unreported() * self.shape.granule >= self.shape.size / 4
    }

    /// Granules consumed that the sender has not been told of.
    #[inline]
    pub fn unreported(&self) -> u32 {
        self.consumed.wrapping_sub(self.reported)
    }

    /// What to tell the sender: granules consumed in all. Taken as told.
    #[inline]
    pub fn report(&mut self) -> u32 {
        self.reported = self.consumed;
        self.consumed
    }

    #[inline]
    fn whole(&self, length: u32) -> u32 {
        whole(self.shape, L::ENVELOPE, length)
    }
}

#[cfg(test)]
#[path = "veloblock_tests.rs"]
mod tests;
