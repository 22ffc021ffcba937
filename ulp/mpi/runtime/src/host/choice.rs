//! By which instructions bodies are copied into memory that ranks share, and out of it: by the widest registers, or by the one for strings (`rep movsb`).
//!
//! Neither is always the faster one. Where two ranks' cores share a cache, registers win up to 8 KiB, and out of the shared memory for all lengths; between cores of two chips, where a line takes 250 ns, the
//! instruction for strings is two to four times as fast from 2 KiB on, as it need not fetch what it overwrites. A virtual machine's host moves cores from one to the other by the second. So some copies are timed,
//! by direction, length and place, and what has been the faster of late is taken.
//!
//! *Place.* Zen 3 has a seventh of the string instruction's speed where bytes come to lie 1 to 31 bytes farther in their page of 4 KiB than they lay in their own, which the C library's large
//! buffers do that are filled from a page's beginning. Such copies are timed by themselves, so that they say nothing of others.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// Bytes of the shortest copy for which there is a choice.
pub(super) const LEAST: usize = 1 << 10;
/// Kinds of length: from 1, 2, 4 KiB on, and so on; all from 64 KiB on are one.
const KINDS: usize = 7;
/// One copy of so many is timed; the first ones all are.
const TIMED: u32 = 64;
/// Of so many one is made the other way, to see.
const TRIED: u32 = 256;
/// Of so many if the other way was much slower of late.
const SELDOM: u32 = 1024;
/// First copies that are timed, in turn by one way and the other.
const FIRST: u32 = 4;

/// How a copy is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Registers = 0,
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

/// What is known of copies of one kind: threads may lose each other's counts, which does no harm.
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

    /// How the next copy is made; none if it is one that is timed, [`Choice::trial`].
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
            // A core that was lost in the middle says nothing of the way.
            (3 * known + seen.min(2 * known)) / 4
        };
        let now = now.clamp(1, u32::MAX.into()) as u32;
        self.costs[way as usize].store(now, Ordering::Relaxed);
        // What is timed is not all that a way costs or spares, as the next copies meet other lines, so little gain is none; of the shortest an eighth.
        let gain = if bytes < 2 * LEAST { 4 } else { 1 };
        let is_faster = self.cost(Way::String) * 32 < self.cost(Way::Registers) * (32 - gain);
        self.by_string.store(is_faster, Ordering::Relaxed);
    }
}

/// By direction (into shared memory, out of it), place (ahead or not) and kind of length.
static CHOICES: [[[Choice; KINDS]; 2]; 2] =
    [const { [const { [const { Choice::new() }; KINDS] }; 2] }; 2];

/// Where the memory lies that ranks share.
static SHARED: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// The memory that ranks share lies from `start` to before `end`.
pub(super) fn share(start: usize, end: usize) {
    SHARED[0].store(start, Ordering::Relaxed);
    SHARED[1].store(end, Ordering::Relaxed);
}

/// What is known of copies of `length` bytes, [`LEAST`] or more, from the one to the other; none unless one of them is in memory that ranks share.
#[inline(always)]
pub(super) fn of(from: usize, to: usize, length: usize) -> Option<&'static Choice> {
    let [start, end] = [0, 1].map(|edge| SHARED[edge].load(Ordering::Relaxed));
    let (direction, kind) = kind_of(&(start..end), (from, to), length)?;
    Some(&CHOICES[direction][usize::from(is_ahead(from, to))][kind])
}

/// Whether bytes come to lie a little farther in their page than they lay in their own.
#[inline(always)]
pub(super) fn is_ahead(from: usize, to: usize) -> bool {
    let ahead = to.wrapping_sub(from) % 4096;
    (1..32).contains(&ahead)
}

/// The direction, and the kind of length.
#[inline(always)]
fn kind_of(
    shared: &Range<usize>,
    (from, to): (usize, usize),
    length: usize,
) -> Option<(usize, usize)> {
    let direction = if shared.contains(&to) {
        0
    } else if shared.contains(&from) {
        1
    } else {
        return None;
    };
    let kind = (length.ilog2() - LEAST.ilog2()) as usize;
    Some((direction, kind.min(KINDS - 1)))
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
    fn a_copy_is_ahead_by_less_than_a_register_within_pages() {
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
        let kind = |from, to, length| kind_of(&shared, (from, to), length);
        assert_eq!(kind(outside, inside, 1024), Some((0, 0)));
        assert_eq!(kind(outside, inside, 2047), Some((0, 0)));
        assert_eq!(kind(outside, inside, 2048), Some((0, 1)));
        assert_eq!(kind(inside, outside, 65_535), Some((1, 5)));
        assert_eq!(kind(inside, outside, 64 << 10), Some((1, 6)));
        assert_eq!(kind(inside, outside, 1 << 30), Some((1, 6)));
        assert_eq!(kind(outside, outside, 1024), None);
        assert_eq!(kind(outside, 2 << 20, 1024), None);
    }
}
