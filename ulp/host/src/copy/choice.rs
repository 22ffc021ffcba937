//! Which instructions copy the bytes of a long copy into shared memory or out of it: the widest
//! registers, or the string instruction (`rep movsb`).
//!
//! Owns: what copies have cost of late. Must not know: how they are made.
//!
//! Neither is always the faster one. Where two processes run on cores that share a cache, registers
//! are faster up to 8 KiB, and for all lengths out of shared memory. Between cores of two chips,
//! where a line takes 250 ns, the string instruction is two to four times as fast from 2 KiB on,
//! because it need not fetch what it overwrites. The host of a virtual machine moves cores from one
//! place to the other within seconds. So some copies are timed, by direction, length and place, and
//! the way that has been the faster one of late is taken.
//!
//! *Place.* On Zen 3 the string instruction has a seventh of its speed where bytes get 1 to 31
//! bytes farther in their page of 4 KiB than they were, as they often do that are copied from a
//! page's beginning to a large buffer of the C library's. Such copies are timed apart from others.

use super::Direction;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// Bytes of the shortest copy for which there is a choice.
pub const LEAST: usize = 1 << 10;
/// Classes of length: from 1, 2, 4 KiB on, and so on; all from 64 KiB on are one.
const KINDS: usize = 7;
/// One copy of so many is timed; the first ones all are.
const TIMED: u32 = 64;
/// Of so many copies one is made the other way.
const TRIED: u32 = 256;
/// Of so many copies one is made the other way if that was much slower of late.
const SELDOM: u32 = 1024;
/// The first copies are timed, and made by one way and the other in turn.
const FIRST: u32 = 4;

/// How a copy is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// The widest registers.
    Registers = 0,
    /// The string instruction.
    String = 1,
}

impl Way {
    const fn other(self) -> Self {
        match self {
            Way::Registers => Way::String,
            Way::String => Way::Registers,
        }
    }
}

/// What is known of copies of one class. Threads may lose each other's counts, which does no harm.
pub(super) struct Choice {
    count: AtomicU32,
    /// Whether it is the string way that was the faster one of late.
    by_string: AtomicBool,
    /// Clock ticks for 4 KiB, of late, by way; 0: not known.
    costs: [AtomicU32; 2],
}

impl Choice {
    const fn new() -> Self {
        Self {
            count: AtomicU32::new(0),
            by_string: AtomicBool::new(false),
            costs: [const { AtomicU32::new(0) }; 2],
        }
    }

    /// How the next copy is made; None if it is to be timed, as [`Choice::trial`] says.
    #[inline(always)]
    pub(super) fn next(&self) -> Option<Way> {
        let count = self.count.load(Ordering::Relaxed).wrapping_add(1);
        self.count.store(count, Ordering::Relaxed);
        if count <= FIRST || count.is_multiple_of(TIMED) {
            return None;
        }
        Some(self.faster())
    }

    #[inline(always)]
    fn faster(&self) -> Way {
        if self.by_string.load(Ordering::Relaxed) {
            Way::String
        } else {
            Way::Registers
        }
    }

    /// How a copy that is timed is made.
    pub(super) fn trial(&self) -> Way {
        let count = self.count.load(Ordering::Relaxed);
        if count <= FIRST {
            return [Way::Registers, Way::String][count as usize % 2];
        }
        let way = self.faster();
        let [cost, other] = [way, way.other()].map(|way| self.cost(way));
        let each = if other > cost * 3 / 2 { SELDOM } else { TRIED };
        if count.is_multiple_of(each) {
            way.other()
        } else {
            way
        }
    }

    fn cost(&self, way: Way) -> u64 {
        self.costs[way as usize].load(Ordering::Relaxed).into()
    }

    /// A copy of so many bytes took so many clock ticks.
    pub(super) fn note(&self, way: Way, bytes: usize, ticks: u64) {
        let known = self.cost(way);
        let seen = (ticks << 12) / bytes as u64;
        let now = if known == 0 {
            seen
        } else {
            // A time in which the core was taken away says nothing about the way.
            (3 * known + seen.min(2 * known)) / 4
        };
        let now = now.clamp(1, u32::MAX.into()) as u32;
        self.costs[way as usize].store(now, Ordering::Relaxed);
        // A way has costs that are not timed, because later copies find other lines in the cache.
        // So little gain is none: less than an eighth of the shortest copies.
        let gain = if bytes < 2 * LEAST { 4 } else { 1 };
        let is_faster = self.cost(Way::String) * 32 < self.cost(Way::Registers) * (32 - gain);
        self.by_string.store(is_faster, Ordering::Relaxed);
    }
}

/// By direction (into shared memory, out of it), place (ahead or not) and class of length.
static CHOICES: [[[Choice; KINDS]; 2]; 2] =
    [const { [const { [const { Choice::new() }; KINDS] }; 2] }; 2];

/// Where the range of [`share`] is.
static SHARED: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Names the process's range of shared memory, from the address `start` to before `end`, which
/// [`super::bytes`] finds by addresses. One range is known at a time; a process that shares several
/// tells the direction of a copy ([`super::shared`]).
pub fn share(start: usize, end: usize) {
    SHARED[0].store(start, Ordering::Relaxed);
    SHARED[1].store(end, Ordering::Relaxed);
}

/// What is known of copies of `length` bytes, [`LEAST`] or more, between these addresses; None
/// unless one of them is in the range of [`share`].
#[inline(always)]
pub(super) fn of(from: usize, to: usize, length: usize) -> Option<&'static Choice> {
    let [start, end] = [0, 1].map(|edge| SHARED[edge].load(Ordering::Relaxed));
    let direction = direction_of(&(start..end), (from, to))?;
    Some(told(direction, from, to, length))
}

/// What is known of copies of `length` bytes, [`LEAST`] or more, in this direction.
#[inline(always)]
pub(super) fn told(direction: Direction, from: usize, to: usize, length: usize) -> &'static Choice {
    &CHOICES[direction as usize][usize::from(is_ahead(from, to))][kind_of(length)]
}

/// Whether bytes get 1 to 31 bytes farther in their page than they were in theirs.
#[inline(always)]
pub(crate) fn is_ahead(from: usize, to: usize) -> bool {
    let ahead = to.wrapping_sub(from) % 4096;
    (1..32).contains(&ahead)
}

/// The direction of a copy between these addresses; None unless one is in the shared range.
#[inline(always)]
fn direction_of(shared: &Range<usize>, (from, to): (usize, usize)) -> Option<Direction> {
    if shared.contains(&to) {
        Some(Direction::In)
    } else if shared.contains(&from) {
        Some(Direction::Out)
    } else {
        None
    }
}

/// The class of a length.
#[inline(always)]
fn kind_of(length: usize) -> usize {
    let kind = (length.ilog2() - LEAST.ilog2()) as usize;
    kind.min(KINDS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `count` copies go by strings, where each way takes so many ticks.
    fn by_string(choice: &Choice, count: u32, (registers, string): (u64, u64)) -> u32 {
        (0..count).fold(0, |taken, _| {
            let next = choice.next();
            let way = next.unwrap_or_else(|| choice.trial());
            if next.is_none() {
                let ticks = if way == Way::String {
                    string
                } else {
                    registers
                };
                choice.note(way, 4096, ticks);
            }
            taken + u32::from(way == Way::String)
        })
    }

    #[test]
    fn the_faster_way_is_taken_and_the_other_one_looked_at_now_and_then() {
        let choice = Choice::new();
        let slow = by_string(&choice, 10_000, (300, 360));
        assert!((20..100).contains(&slow), "{slow}");
        // The cores have been moved apart.
        by_string(&choice, 5_000, (3000, 1000));
        let fast = by_string(&choice, 10_000, (3000, 1000));
        assert!(fast > 9_900, "{fast}");
        // And together again.
        by_string(&choice, 20_000, (300, 360));
        let slow = by_string(&choice, 10_000, (300, 360));
        assert!(slow < 100, "{slow}");
    }

    #[test]
    fn a_core_that_was_lost_for_once_decides_nothing() {
        let choice = Choice::new();
        by_string(&choice, 1000, (1000, 300));
        choice.note(Way::String, 4096, 10_000_000);
        let fast = by_string(&choice, 1000, (1000, 300));
        assert!(fast > 980, "{fast}");
    }

    #[test]
    fn a_copy_is_ahead_by_less_than_32_bytes_within_pages() {
        let page = 7 << 12;
        let ahead = [0, 1, 16, 31, 32, 4080, 4095].map(|by| is_ahead(page, (9 << 12) + by));
        assert_eq!(ahead, [false, true, true, true, false, false, false]);
        // a page's end, and the next one's beginning
        assert!(is_ahead(page + 4090, page + 8192 + 10));
        assert!(!is_ahead(page + 16, page));
    }

    #[test]
    fn only_copies_into_shared_memory_and_out_of_it_are_chosen() {
        let shared = 1 << 20..2 << 20;
        let (inside, outside) = (3 << 19, 5 << 20);
        let direction = |from, to| direction_of(&shared, (from, to));
        assert_eq!(direction(outside, inside), Some(Direction::In));
        assert_eq!(direction(inside, outside), Some(Direction::Out));
        assert_eq!(direction(outside, outside), None);
        assert_eq!(direction(outside, 2 << 20), None);
    }

    #[test]
    fn lengths_fall_into_classes_by_powers_of_two() {
        let kinds = [1024, 2047, 2048, 65_535, 64 << 10, 1 << 30].map(kind_of);
        assert_eq!(kinds, [0, 0, 1, 5, 6, 6]);
    }
}
