//! The records of a family of processes, in memory that they share and no peer sees.
//!
//! Owns: which records are in use, and which processes hold each. Must not know: descriptors, and
//! how it is found out who lives ([`Living`] tells).
//!
//! **Who holds what.** Each process has a row of bits, one for each record. A fork copies the
//! parent's row, up to the highest record that was ever in use: 1.2 KiB for a process that holds
//! 10,000 connections, and no record is touched. Whoever lets go of a record clears its bit and
//! looks for the bit in the rows of the others that live; if nobody has it, the record is given
//! back. A process that has not forked since it took a record need not look: nobody else can have
//! it (the record names its owner). A fork is counted after the row was copied, and whoever has
//! looked looks again if a fork was counted meanwhile.
//!
//! **Death in the middle.** There is no lock. A record's state is one word, a count and whether it
//! is in use, and goes from free to used and back by compare and exchange. A taker sets its bit
//! before that, so a record in use whose holders died has no living holder's bit. The row of a
//! process that died is cleared by whoever takes its place in the table. Which records are free is
//! in a map of bits that may forget one, if a process dies between two steps; when the map has none
//! left, all states are looked through and what nobody holds is given back.

use crate::holder::{HOLDERS, NAMELESS_PLACE, place};
use crate::own::Turn;
use crate::pages::{Pages, Seen};
use crate::record::Record;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Records of a family.
pub const RECORDS: u32 = 1 << 20;
/// Of a family in a process that may not have so much address space.
const FEW_RECORDS: u32 = 1 << 14;

const USED: u64 = 1;
const HEADER: usize = 4096;

/// Who lives.
pub trait Living {
    /// Whether the process with this place in the table of holders lives.
    fn lives(&self, place: u32) -> bool;
}

/// A process that takes and lets go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holder {
    /// Its number.
    pub number: u32,
    /// How often it has forked.
    pub forks: u32,
}

impl Holder {
    fn as_owner(self) -> u64 {
        u64::from(self.number) << 32 | u64::from(self.forks)
    }
}

/// A record that is in use.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Taken {
    /// Which.
    pub index: u32,
    /// How often it was in use before.
    pub generation: u64,
}

impl Taken {
    fn state(self) -> u64 {
        self.generation << 1 | USED
    }
}

/// Beside the records.
#[derive(Debug)]
#[repr(C)]
struct Header {
    /// Records that were ever in use have lower indices.
    high: AtomicU32,
    /// Places of the table of holders that ever had a row are lower.
    rows: AtomicU32,
    /// Rows that were copied or joined.
    forks: AtomicU64,
}

/// All records.
#[derive(Debug)]
pub struct Arena {
    pages: Pages,
    records: u32,
}

impl Arena {
    /// Reserves the memory. Children inherit it.
    ///
    /// # Errors
    /// NOMEM.
    pub fn create() -> Result<Self, Errno> {
        if all_is_counted() {
            return Self::with(FEW_RECORDS);
        }
        Self::with(RECORDS).or_else(|_| Self::with(FEW_RECORDS))
    }

    /// With room for so many records, a power of two and 4,096 at least.
    pub(crate) fn with(records: u32) -> Result<Self, Errno> {
        debug_assert!(records.is_power_of_two() && records >= 4096);
        let bytes = Self::records_at(records) + records as usize * size_of::<Record>();
        let pages = Pages::reserve(bytes, Seen::ByChildren)?;
        Ok(Self { pages, records })
    }

    /// How many there are.
    pub fn records(&self) -> u32 {
        self.records
    }

    // The header, the map of free records, a map of its words, the rows, the records.
    fn row_bytes(records: u32) -> usize {
        records as usize / 8
    }

    fn rows_at(records: u32) -> usize {
        let maps = Self::row_bytes(records) + Self::row_bytes(records) / 64;
        (HEADER + maps).next_multiple_of(4096)
    }

    fn records_at(records: u32) -> usize {
        Self::rows_at(records) + HOLDERS as usize * Self::row_bytes(records)
    }

    fn header(&self) -> &Header {
        // SAFETY: atomic words that begin as zeros, and nothing else lies there.
        unsafe { self.pages.at(0) }
    }

    /// A word of the map of free records.
    fn free_word(&self, word: u32) -> &AtomicU64 {
        self.pages.word(HEADER + word as usize * 8)
    }

    /// A word of the map of that map's words.
    fn free_words(&self, word: u32) -> &AtomicU64 {
        let map = HEADER + Self::row_bytes(self.records);
        self.pages.word(map + word as usize * 8)
    }

    fn row_word(&self, place: u32, word: u32) -> &AtomicU64 {
        let row = Self::rows_at(self.records) + place as usize * Self::row_bytes(self.records);
        self.pages.word(row + word as usize * 8)
    }

    fn has(&self, place: u32, index: u32) -> bool {
        let word = self.row_word(place, index / 64);
        word.load(Ordering::SeqCst) & bit(index) != 0
    }

    /// Gives whether it had it before.
    fn set(&self, place: u32, index: u32) -> bool {
        self.header().rows.fetch_max(place + 1, Ordering::SeqCst);
        let word = self.row_word(place, index / 64);
        word.fetch_or(bit(index), Ordering::SeqCst) & bit(index) != 0
    }

    fn clear(&self, place: u32, index: u32) {
        // others of them may hold it
        if place == NAMELESS_PLACE {
            return;
        }
        let word = self.row_word(place, index / 64);
        word.fetch_and(!bit(index), Ordering::SeqCst);
    }

    /// A record. It stays readable and writable whatever becomes of it.
    #[inline]
    pub fn record(&self, index: u32) -> &Record {
        assert!(index < self.records);
        let at = Self::records_at(self.records) + index as usize * size_of::<Record>();
        // SAFETY: atomic words that begin as zeros, of which an array lies there.
        unsafe { self.pages.at(at) }
    }

    /// Whether the record is what it was when it was taken.
    #[inline]
    pub fn is(&self, taken: Taken) -> bool {
        self.record(taken.index).state.load(Ordering::Acquire) == taken.state()
    }

    /// Takes a record for a process; its words are 0. None if all are in use.
    pub fn take(&self, who: Holder, living: &impl Living) -> Option<Taken> {
        let mut collected = false;
        loop {
            let found = self.pop_free().or_else(|| self.fresh());
            let Some(index) = found else {
                if collected {
                    return None;
                }
                self.collect(living);
                collected = true;
                continue;
            };
            if let Some(taken) = self.try_take(who, index, living) {
                return Some(taken);
            }
        }
    }

    fn try_take(&self, who: Holder, index: u32, living: &impl Living) -> Option<Taken> {
        let record = self.record(index);
        let state = record.state.load(Ordering::Acquire);
        // another thread of this process is about to take it, or has
        if state & USED != 0 || self.set(place(who.number), index) {
            return None;
        }
        let exchanged =
            record
                .state
                .compare_exchange(state, state | USED, Ordering::SeqCst, Ordering::SeqCst);
        if let Err(now) = exchanged {
            // its last holder may have seen this process's bit, and have left it
            let generation = now >> 1;
            self.clear(place(who.number), index);
            self.give_back(Taken { index, generation }, None, living);
            return None;
        }
        record.clear();
        record.owner.store(who.as_owner(), Ordering::Release);
        Some(Taken {
            index,
            generation: state >> 1,
        })
    }

    /// Lets go of a record that the process holds. Gives whether it was the last to hold it.
    pub fn leave(&self, who: Holder, taken: Taken, living: &impl Living) -> bool {
        let alone = self.record(taken.index).owner.load(Ordering::Acquire) == who.as_owner();
        let mine = place(who.number);
        self.clear(mine, taken.index);
        if alone {
            return self.free(taken);
        }
        self.give_back(taken, others_than(mine), living)
    }

    /// Whether another process holds the record.
    pub fn others_hold(&self, who: Holder, taken: Taken, living: &impl Living) -> bool {
        let alone = self.record(taken.index).owner.load(Ordering::Acquire) == who.as_owner();
        !alone && self.is_held(taken.index, others_than(place(who.number)), living)
    }

    /// Whether another process holds a record that this process does not; one that nobody holds,
    /// since its last holder died, is given back.
    pub fn is_held_elsewhere(&self, who: Holder, taken: Taken, living: &impl Living) -> bool {
        self.is(taken)
            && !self.give_back(taken, others_than(place(who.number)), living)
            && self.is(taken)
    }

    /// Holds a record that another process holds. False if nobody held it any more.
    pub fn join(&self, who: Holder, taken: Taken) -> bool {
        let record = self.record(taken.index);
        let had = self.set(place(who.number), taken.index);
        self.header().forks.fetch_add(1, Ordering::SeqCst);
        if record.state.load(Ordering::SeqCst) != taken.state() {
            if !had {
                self.clear(place(who.number), taken.index);
            }
            return false;
        }
        record.owner.store(0, Ordering::SeqCst);
        true
    }

    /// Lets go of what was given back already.
    pub(crate) fn forget(&self, who: Holder, index: u32) {
        self.clear(place(who.number), index);
    }

    /// A child is to hold what its parent holds. To be called before the fork, and before the
    /// parent counts it.
    pub fn inherit(&self, parent: u32, child: u32) {
        let (from, to) = (place(parent), place(child));
        self.header().rows.fetch_max(to + 1, Ordering::SeqCst);
        for word in self.words() {
            let bits = self.row_word(from, word).load(Ordering::SeqCst);
            // a row that has nothing there stays untouched
            if bits != 0 {
                self.row_word(to, word).fetch_or(bits, Ordering::SeqCst);
            }
        }
        self.header().forks.fetch_add(1, Ordering::SeqCst);
    }

    /// Clears the row of a process that died. To be called by who has its place in the table,
    /// before it takes anything.
    pub fn clear_row(&self, holder: u32, living: &impl Living) {
        for index in self.held(holder) {
            self.clear(place(holder), index);
            let state = self.record(index).state.load(Ordering::SeqCst);
            let generation = state >> 1;
            if state & USED != 0 {
                self.give_back(Taken { index, generation }, None, living);
            }
        }
    }

    /// The records that a process holds.
    pub fn held(&self, holder: u32) -> impl Iterator<Item = u32> {
        self.words().flat_map(move |word| {
            let bits = self.row_word(place(holder), word).load(Ordering::SeqCst);
            (0..64).filter_map(move |at| (bits >> at & 1 != 0).then_some(word * 64 + at))
        })
    }

    /// The record as it is in use, if it is.
    pub fn used(&self, index: u32) -> Option<Taken> {
        let state = self.record(index).state.load(Ordering::Acquire);
        let generation = state >> 1;
        (state & USED != 0).then_some(Taken { index, generation })
    }

    /// Gives back what nobody who lives holds. Gives how many these were.
    pub fn collect(&self, living: &impl Living) -> u32 {
        let mut found = 0;
        let high = self.header().high.load(Ordering::SeqCst).min(self.records);
        for index in 0..high {
            match self.used(index) {
                Some(taken) => found += u32::from(self.give_back(taken, None, living)),
                None => self.push_free(index),
            }
        }
        found
    }

    /// Words of a map with a bit for each record, of those that were ever in use.
    pub(crate) fn used_words(&self) -> impl Iterator<Item = u32> {
        self.words()
    }

    /// Words of a row that may have bits.
    fn words(&self) -> impl Iterator<Item = u32> {
        let high = self.header().high.load(Ordering::SeqCst).min(self.records);
        0..high.div_ceil(64)
    }

    /// Whether anybody who lives has the record's bit, but for one.
    fn is_held(&self, index: u32, but: Option<u32>, living: &impl Living) -> bool {
        loop {
            let forks = self.header().forks.load(Ordering::SeqCst);
            let rows = self.header().rows.load(Ordering::SeqCst);
            let mut others = (0..rows).filter(|place| Some(*place) != but);
            if others.any(|place| self.has(place, index) && living.lives(place)) {
                return true;
            }
            // a holder may have let go after its child was passed by
            if self.header().forks.load(Ordering::SeqCst) == forks {
                return false;
            }
        }
    }

    /// Gives a record back if nobody holds it.
    fn give_back(&self, taken: Taken, but: Option<u32>, living: &impl Living) -> bool {
        !self.is_held(taken.index, but, living) && self.free(taken)
    }

    fn free(&self, taken: Taken) -> bool {
        let state = &self.record(taken.index).state;
        let free = (taken.generation + 1) << 1;
        let freed = state.compare_exchange(taken.state(), free, Ordering::SeqCst, Ordering::SeqCst);
        if freed.is_ok() {
            self.push_free(taken.index);
        }
        freed.is_ok()
    }

    fn fresh(&self) -> Option<u32> {
        let high = &self.header().high;
        // what was counted too far is cut when it is read
        (high.load(Ordering::SeqCst) < self.records)
            .then(|| high.fetch_add(1, Ordering::SeqCst))
            .filter(|index| *index < self.records)
    }

    fn push_free(&self, index: u32) {
        let word = index / 64;
        self.free_word(word).fetch_or(bit(index), Ordering::SeqCst);
        let words = self.free_words(word / 64);
        words.fetch_or(bit(word), Ordering::SeqCst);
    }

    fn pop_free(&self) -> Option<u32> {
        let high = self.header().high.load(Ordering::SeqCst).min(self.records);
        for group in 0..high.div_ceil(64 * 64) {
            loop {
                let words = self.free_words(group).load(Ordering::SeqCst);
                if words == 0 {
                    break;
                }
                let word = group * 64 + words.trailing_zeros();
                if let Some(index) = self.pop_word(word) {
                    return Some(index);
                }
            }
        }
        None
    }

    /// A free record of this word; if there is none, the word is not looked at any more.
    fn pop_word(&self, word: u32) -> Option<u32> {
        let free = self.free_word(word);
        loop {
            let bits = free.load(Ordering::SeqCst);
            if bits == 0 {
                let words = self.free_words(word / 64);
                words.fetch_and(!bit(word), Ordering::SeqCst);
                // one may have come meanwhile
                if free.load(Ordering::SeqCst) != 0 {
                    words.fetch_or(bit(word), Ordering::SeqCst);
                    continue;
                }
                return None;
            }
            let index = word * 64 + bits.trailing_zeros();
            if free.fetch_and(!bit(index), Ordering::SeqCst) & bit(index) != 0 {
                return Some(index);
            }
        }
    }
}

/// Whether the kernel counts all that is reserved as used (vm.overcommit_memory is 2).
fn all_is_counted() -> bool {
    let (path, flags) = (
        c"/proc/sys/vm/overcommit_memory",
        OFlags::RDONLY | OFlags::CLOEXEC,
    );
    let _turn = Turn::begin();
    let Ok(file) = rustix::fs::open(path, flags, Mode::empty()) else {
        return false;
    };
    let mut text = [0; 1];
    rustix::io::read(&file, &mut text) == Ok(1) && text == *b"2"
}

/// Who is left out where others than this process are looked for.
fn others_than(mine: u32) -> Option<u32> {
    (mine != NAMELESS_PLACE).then_some(mine)
}

fn bit(index: u32) -> u64 {
    1 << (index % 64)
}

#[cfg(test)]
mod tests;
