//! The memory by which ranks of one host do collectives together: for each rank a line of flags that it alone sets, and a slot that it alone fills.
//!
//! Flags hold the number of the collective that they were set for, so none is ever taken back. A slot has parts that are used in turn: one is filled again
//! when every rank has passed the collective that used it last. Who waits for a flag long enough to sleep leaves its bit in the line of the flag, and who sets
//! a flag rings those; the order of the two is that of [`super::bell`]. What is shorter than a line lies in a cell, beside the number that says so, and
//! needs no flag: one line goes from core to core, not two.

use super::exchange::Places;
use super::spread::{self, Spread};
use super::{Host, Segment};
use crate::ground::memory::{Sink, Source};
use ferriband_mpi_proto::segment::{HALF, group};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// No more bytes than this are short: a part of the slot that was used just now is found sooner than one that was forgotten.
const NEAR_BYTES: usize = 4096;
/// The same where cores are short. There the parts for what is short are one ring of pieces of this size, so that who tells goes on before others have had their turn.
const CROWDED_BYTES: usize = 1024;
/// Such pieces.
const CROWDED_PIECES: u32 = group::NEAR * HALF / CROWDED_BYTES as u32;
/// Parts for what is long that ranks use who share cores: what all of them use stays in the cores' caches.
const CROWDED_RING: u32 = 8;
/// Parts that may be told as one where they lie side by side, where there are twice as many.
const RUN: u32 = 4;
/// Parts for what is long that the first collectives use in turn. Who fills a part for the first time waits for memory, which costs several times what a short collective does, so only what has done eight
/// times as many has twice as many.
const FIRST_RING: u32 = 16;
const SLOWLY: u32 = 8;
const _: () =
    assert!(FIRST_RING >= 2 * RUN && FIRST_RING.is_power_of_two() && SLOWLY.is_power_of_two());

/// A line of flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line(NonNull<u8>);

impl Line {
    #[inline]
    fn word(&self, index: u32) -> &AtomicU32 {
        assert!(index < group::WORDS);
        // SAFETY: within the line, which lies in the segment, that is never unmapped; aligned, only accessed atomically.
        unsafe { &*self.0.as_ptr().cast::<AtomicU32>().add(index as usize) }
    }

    /// Bits of those that may sleep, 64 ranks each.
    #[inline]
    fn sleepers(&self, index: u32) -> &AtomicU64 {
        assert!(index < 2);
        let at = group::SLEEPERS as usize + index as usize * 8;
        // SAFETY: as above.
        unsafe { &*self.0.as_ptr().add(at).cast::<AtomicU64>() }
    }
}

/// Flags that a rank waits for: it is enough that one of them has come to its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    line: Line,
    words: [(u32, u32); 2],
    me: u32,
    /// Line of the rank that sets them, if that is one, and of the one that waits.
    lines: [Option<Line>; 2],
}

impl Awaited {
    /// Whether one has.
    #[inline]
    pub fn is_reached(&self) -> bool {
        let has_come = |(index, number): (u32, u32)| {
            let word = self.line.word(index).load(Ordering::Acquire);
            word.wrapping_sub(number).cast_signed() >= 0
        };
        has_come(self.words[0]) || has_come(self.words[1])
    }

    /// Whether the rank that is waited for has a core just now, as far as it could say so.
    #[inline]
    pub fn has_turn(&self) -> bool {
        self.lines[0].is_some_and(|line| line.word(group::AWAY).load(Ordering::Relaxed) == 0)
    }

    /// This rank gives its core away, or has it again.
    #[inline]
    pub fn set_away(&self, away: bool) {
        if let Some(line) = self.lines[1] {
            line.word(group::AWAY)
                .store(u32::from(away), Ordering::Relaxed);
        }
    }

    /// Asks to be rung.
    pub fn announce(&self) {
        let word = self.line.sleepers(self.me / 64);
        word.fetch_or(1 << (self.me % 64), Ordering::SeqCst);
    }

    /// Whether nobody has seen that yet.
    pub fn is_announced(&self) -> bool {
        let bits = self.line.sleepers(self.me / 64).load(Ordering::Acquire);
        bits & 1 << (self.me % 64) != 0
    }
}

/// Parts that so many bytes take: a power of two.
#[inline]
fn parts(length: usize) -> u32 {
    (length as u32).div_ceil(HALF).max(1).next_power_of_two()
}

/// Parts that are used in turn about a collective, of so many at the most: as many as the greatest power of two of its number, divided by [`SLOWLY`].
#[inline]
fn turn(number: u32, most: u32) -> u32 {
    let begun = 1 << (number | 1).ilog2();
    (begun / SLOWLY).max(FIRST_RING).min(most)
}

/// The last collective before `number` that may have used its part. Numbers begin anew after 2^32 with few parts, whose last users are as long ago as if there had always been so few, or longer.
#[inline]
fn last_in(number: u32, most: u32) -> u32 {
    let turn = turn(number, most);
    let begun = 1 << (number | 1).ilog2();
    // The first half of the parts was used before there were so many, in the last round of those.
    let has_grown = begun == SLOWLY * turn && turn > FIRST_RING;
    if has_grown && number - begun < turn / 2 {
        number.wrapping_sub(turn / 2)
    } else {
        number.wrapping_sub(turn)
    }
}

/// A communicator's part of the segment.
#[derive(Debug)]
pub struct Area {
    base: NonNull<u8>,
    /// Where it begins in the segment.
    pub(super) at: u64,
    pub(super) me: u32,
    /// The world's ranks.
    pub(super) ranks: Box<[u32]>,
    /// Parts of each rank's slot for what is long.
    pub(super) far: u32,
    /// Those of them that are used in turn at the most: a power of two.
    ring: u32,
    /// Bytes of each part of the own slot that there is memory behind.
    backed: Box<[u32]>,
    /// By which pairs of ranks exchange.
    pub(super) places: Places,
    /// The collective under way.
    number: u32,
    /// For each rank the last collective that it is known to have passed.
    passed: Box<[u32]>,
    /// Barriers.
    turns: u32,
    /// Whether there are more ranks than cores, as the leader says.
    crowded: bool,
    /// Where its ranks are, if they are more than cores.
    spread: Option<Spread>,
    /// Whether ranks may read from each other's memory, as far as anybody knows.
    pub pulls: bool,
    /// Whether barriers are done here.
    pub barriers: bool,
    /// Up to how many bytes broadcasts, all-reductions and exchanges are done here without a schedule.
    pub direct: [u64; 3],
}

// SAFETY: the memory is shared anyway, and accessed by atomic words or as bytes that somebody else may change.
unsafe impl Send for Area {}

impl Area {
    /// The part with number `index` of those that `leader` gives away, for `ranks` of the world, of which this is the one at `me`. None if there is no such part.
    pub(super) fn new(
        segment: &Segment,
        leader: u32,
        index: u32,
        ranks: Box<[u32]>,
        me: u32,
    ) -> Option<Self> {
        let at = segment.layout().group(leader, index)?;
        let far = group::far(segment.layout().ranks());
        let fits = ranks.len() as u32 <= segment.layout().ranks() && me < ranks.len() as u32;
        fits.then(|| Self {
            base: segment.address(at),
            at,
            me,
            passed: vec![0; ranks.len()].into(),
            far,
            ring: group::ring(segment.layout().ranks()),
            backed: vec![0; (group::NEAR + far) as usize].into(),
            places: Places::new(
                ranks.len() as u32,
                far >= group::ring(segment.layout().ranks()) + group::EXCHANGE,
            ),
            number: 0,
            turns: 0,
            crowded: false,
            spread: None,
            pulls: false,
            barriers: false,
            direct: [0; 3],
            ranks,
        })
    }

    /// Says whether there are more ranks than cores, before anything is done here.
    pub fn set_crowded(&mut self, crowded: bool) {
        self.crowded = crowded;
        self.pulls = crowded;
        self.spread = crowded.then(Spread::new);
        if crowded {
            self.ring = self.far.min(CROWDED_RING);
        }
    }

    /// Before a collective: sees to it now and then that as many ranks are on each core.
    #[inline]
    pub fn settle(&mut self) {
        if self.spread.as_mut().is_some_and(Spread::is_due) {
            self.settle_now();
        }
    }

    /// Each tells where it is, and goes by what the others told the last time.
    #[cold]
    fn settle_now(&mut self) {
        let Some(here) = spread::here() else { return };
        let own = self.line(self.me);
        let told = own.word(group::CORE);
        told.store(here + 1, Ordering::Relaxed);
        let size = self.ranks.len() as u32;
        let cores: Vec<Option<u32>> = (0..size)
            .map(|rank| {
                let line = self.line(rank);
                line.word(group::CORE)
                    .load(Ordering::Relaxed)
                    .checked_sub(1)
            })
            .collect();
        let Some(spread) = &mut self.spread else {
            return;
        };
        if let Some(core) = spread.better(self.me as usize, &cores)
            && spread.go(core).is_ok()
        {
            told.store(core + 1, Ordering::Relaxed);
        }
    }

    /// Whether there are more ranks than cores, as the leader says.
    #[inline]
    pub fn is_crowded(&self) -> bool {
        self.crowded
    }

    /// Bytes that can be told at once.
    #[inline]
    pub fn most(&self) -> usize {
        HALF as usize * self.run() as usize
    }

    /// Parts that may be told as one.
    #[inline]
    fn run(&self) -> u32 {
        if self.ring >= 2 * RUN { RUN } else { 1 }
    }

    /// The first line: what all ranks count in.
    #[inline]
    fn common(&self) -> Line {
        Line(self.base)
    }

    #[inline]
    fn line(&self, rank: u32) -> Line {
        assert!((rank as usize) < self.ranks.len());
        let at = group::line(rank) as usize;
        // SAFETY: within the group.
        Line(unsafe { self.base.add(at) })
    }

    #[inline]
    pub(super) fn slot(&self, rank: u32, part: u32, at: usize, length: usize) -> NonNull<u8> {
        let parts = (group::NEAR + self.far).saturating_sub(part) as usize;
        let room = parts * HALF as usize;
        assert!(at <= room && length <= room - at && (rank as usize) < self.ranks.len());
        let slot = group::slot(self.ranks.len() as u32, self.far, rank, part) as usize;
        // SAFETY: within the group.
        unsafe { self.base.add(slot + at) }
    }

    /// Parts for what is long that are used in turn about the collective under way: a power of two, by its number alone, as all ranks have to agree.
    #[inline]
    fn turn(&self) -> u32 {
        turn(self.number, self.ring)
    }

    /// Which part of the slots this collective uses for what is long.
    #[inline]
    fn far_part(&self) -> u32 {
        group::NEAR + (self.number & (self.turn() - 1))
    }

    /// In which part of the slots so many bytes are told, and how far into it.
    #[inline]
    fn part(&self, length: usize) -> (u32, usize) {
        if self.crowded && length <= CROWDED_BYTES {
            let piece = self.number % CROWDED_PIECES;
            return (0, piece as usize * CROWDED_BYTES);
        }
        if !self.crowded && length <= NEAR_BYTES {
            return (self.number & (group::NEAR - 1), 0);
        }
        let before = parts(length) - 1;
        let first = self.number.wrapping_sub(before) & (self.turn() - 1);
        (group::NEAR + first, 0)
    }

    #[inline]
    fn cell(&self, rank: u32) -> Line {
        assert!((rank as usize) < self.ranks.len());
        let at = group::cell(self.ranks.len() as u32, rank, self.number % group::CELLS);
        // SAFETY: within the group.
        Line(unsafe { self.base.add(at as usize) })
    }

    /// Where something that is shorter than a line is told, or else in the slot.
    #[inline]
    fn told(&self, rank: u32, length: usize) -> NonNull<u8> {
        if length > group::CELL_BYTES {
            return self.told_at_length(rank, length);
        }
        // SAFETY: within the cell.
        unsafe { self.cell(rank).0.add(group::CELL_BODY as usize) }
    }

    /// The same in the slot. Like what follows here, a function of its own, so that what is short stays short.
    #[inline(never)]
    fn told_at_length(&self, rank: u32, length: usize) -> NonNull<u8> {
        let (part, at) = self.part(length);
        self.slot(rank, part, at, length)
    }

    /// Which rank this is among them, and how many they are.
    pub fn place(&self) -> (u32, u32) {
        (self.me, self.ranks.len() as u32)
    }

    /// What to wait for before `length` bytes may be told in this collective.
    #[inline]
    pub fn hindrance(&mut self, length: usize) -> Option<Awaited> {
        if length > group::CELL_BYTES {
            return self.hindrance_at_length(length);
        }
        self.reader(self.number.wrapping_sub(group::CELLS))
    }

    #[inline(never)]
    fn hindrance_at_length(&mut self, length: usize) -> Option<Awaited> {
        if self.crowded && length <= CROWDED_BYTES {
            self.reader(self.number.wrapping_sub(CROWDED_PIECES))
        } else if !self.crowded && length <= NEAR_BYTES {
            self.reader(self.number.wrapping_sub(group::NEAR))
        } else {
            self.slot_reader()
        }
    }

    /// Where this rank tells `length` bytes, of which there may be [`HALF`]. An error is an errno.
    #[inline]
    pub fn telling(&mut self, host: &Host, length: usize) -> std::io::Result<Sink> {
        if length > group::CELL_BYTES {
            let (part, at) = self.part(length);
            return self.filled(host, part, at, length);
        }
        // SAFETY: in the segment, and nobody reads there: see `hindrance`.
        Ok(unsafe { Sink::new(self.told(self.me, length).as_ptr(), length) })
    }

    /// This rank has told what it had to tell in this collective.
    #[inline]
    pub fn tell(&mut self, host: &Host) {
        let cell = self.cell(self.me);
        cell.word(0).store(self.number, Ordering::Release);
        self.wake(host, cell);
    }

    /// What to wait for: that `rank`, if it is one rank, sets one of these words to its number.
    #[inline]
    fn awaited(&self, line: Line, words: [(u32, u32); 2], rank: Option<u32>) -> Awaited {
        Awaited {
            line,
            words,
            me: self.me,
            lines: [rank, Some(self.me)].map(|rank| rank.map(|rank| self.line(rank))),
        }
    }

    /// What to wait for: that `rank` has told something.
    #[inline]
    pub fn telling_of(&self, rank: u32) -> Awaited {
        self.awaited(self.cell(rank), [(0, self.number); 2], Some(rank))
    }

    /// Whether ranks may tell one collective ahead: who hears that the others tell one knows that they have passed the second one before it, so four parts of a slot are enough, and two
    /// would wait for each other.
    #[inline]
    pub fn may_tell_ahead(&self) -> bool {
        self.ring >= 4
    }

    /// Runs `body` as if the collective under way were the one before it, of which the others are still to be heard.
    #[inline]
    pub fn looking_back<T>(&mut self, body: impl FnOnce(&mut Self) -> T) -> T {
        self.looking_at(self.number.wrapping_sub(1), body)
    }

    /// The same for the one whose number was `number`.
    #[inline]
    pub fn looking_at<T>(&mut self, number: u32, body: impl FnOnce(&mut Self) -> T) -> T {
        let now = std::mem::replace(&mut self.number, number);
        let outcome = body(self);
        self.number = now;
        outcome
    }

    /// The number of the collective under way.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The `length` bytes that `rank` has told: so it has passed the collective before, or, where all tell one ahead, the one before that.
    #[inline]
    pub fn heard(&mut self, rank: u32, length: usize, ahead: bool) -> Source {
        self.has_passed(rank, self.number.wrapping_sub(1 + u32::from(ahead)));
        // SAFETY: in the segment, which stays mapped; the rank writes there again only when this one has passed.
        unsafe { Source::new(self.told(rank, length).as_ptr(), length) }
    }

    #[inline]
    fn has_passed(&mut self, rank: u32, number: u32) {
        let passed = &mut self.passed[rank as usize];
        if number.wrapping_sub(*passed).cast_signed() > 0 {
            *passed = number;
        }
    }

    /// Begins the next collective.
    #[inline]
    pub fn begin(&mut self) {
        self.number = self.number.wrapping_add(1);
    }

    /// Begins the next collective, in which nobody tells more than `length` bytes, of which there may be [`Self::most`]. What needs several parts takes their numbers, too: the last of them is
    /// its own, and the first is one that such a run may begin with.
    #[inline]
    pub fn begin_for(&mut self, length: usize) {
        let parts = parts(length);
        self.number = self.number.wrapping_add(parts) | (parts - 1);
    }

    /// The rank at `rank` of the communicator has filled `length` bytes of its slot from `at` on, as its flag says.
    pub fn source(&self, rank: u32, at: usize, length: usize) -> Source {
        // SAFETY: in the segment, which stays mapped; the rank fills it again only when this one has passed.
        unsafe {
            Source::new(
                self.slot(rank, self.far_part(), at, length).as_ptr(),
                length,
            )
        }
    }

    /// Bytes of the own slot, to be filled. An error is an errno.
    pub fn sink(&mut self, host: &Host, at: usize, length: usize) -> std::io::Result<Sink> {
        self.filled(host, self.far_part(), at, length)
    }

    #[inline(never)]
    fn filled(
        &mut self,
        host: &Host,
        part: u32,
        at: usize,
        length: usize,
    ) -> std::io::Result<Sink> {
        let place = self.slot(self.me, part, at, length);
        let mut end = at + length;
        for part in part.. {
            let here = end.min(HALF as usize) as u32;
            if here > self.backed[part as usize] {
                self.back(host, part, here)?;
            }
            end -= here as usize;
            if end == 0 {
                break;
            }
        }
        // SAFETY: in the segment, and nobody reads there: see `hindrance`.
        Ok(unsafe { Sink::new(place.as_ptr(), length) })
    }

    /// Sees to it that there is memory behind `end` bytes of an own part.
    #[cold]
    fn back(&mut self, host: &Host, part: u32, end: u32) -> std::io::Result<()> {
        let wanted = end.next_multiple_of(4096).min(HALF);
        let slot = group::slot(self.ranks.len() as u32, self.far, self.me, part);
        host.segment.allocate(self.at + slot, wanted)?;
        self.backed[part as usize] = wanted;
        Ok(())
    }

    /// What to wait for before the own slot may be filled: of the first rank that may still read what lay there.
    pub fn slot_reader(&mut self) -> Option<Awaited> {
        // Whoever used the part last may have told several as one, of which the last one's number counts.
        self.reader(last_in(self.number, self.ring) | (self.run() - 1))
    }

    /// What to wait for until all have passed the collective `needed`.
    fn reader(&mut self, needed: u32) -> Option<Awaited> {
        for rank in 0..self.ranks.len() as u32 {
            let known = self.passed[rank as usize];
            if rank == self.me || known.wrapping_sub(needed).cast_signed() >= 0 {
                continue;
            }
            let line = self.line(rank);
            // Who has filled its slot in one has passed the one before.
            let words = [(group::PASSED, needed), (0, needed.wrapping_add(1))];
            let awaited = self.awaited(line, words, Some(rank));
            if !awaited.is_reached() {
                return Some(awaited);
            }
            let has_come = |index| line.word(index).load(Ordering::Acquire);
            self.has_passed(rank, has_come(group::PASSED));
            self.has_passed(rank, has_come(0).wrapping_sub(1));
        }
        None
    }

    /// What to wait for: that `rank` sets its flag `index` in this collective.
    #[inline]
    pub fn flag(&self, rank: u32, index: u32) -> Awaited {
        self.awaited(self.line(rank), [(index, self.number); 2], Some(rank))
    }

    /// Sets the own flag `index`: all that was written before is visible to who sees it.
    #[inline]
    pub fn signal(&mut self, host: &Host, index: u32) {
        let line = self.line(self.me);
        line.word(index).store(self.number, Ordering::Release);
        self.wake(host, line);
    }

    /// This collective is over here, and nothing was filled in it: others may have to know.
    pub fn pass(&mut self, host: &Host) {
        self.signal(host, group::PASSED);
    }

    /// Begins a barrier by rounds. Barriers have numbers of their own: nothing is filled in them, so they say nothing of who has read what.
    pub fn begin_barrier(&mut self) {
        self.turns = self.turns.wrapping_add(1);
    }

    /// Sets the own flag of a barrier's round, from 1.
    #[inline]
    pub fn signal_round(&mut self, host: &Host, round: u32) {
        let line = self.line(self.me);
        line.word(round).store(self.turns, Ordering::Release);
        self.wake(host, line);
    }

    /// What to wait for: that `rank` comes to a barrier's round.
    #[inline]
    pub fn round(&self, rank: u32, round: u32) -> Awaited {
        self.awaited(self.line(rank), [(round, self.turns); 2], Some(rank))
    }

    /// Comes to a barrier that is counted: none if this was the last rank, else what to wait for. Each rank runs but twice, before and after, which is least where cores are
    /// short.
    pub fn arrive(&mut self, host: &Host) -> Option<Awaited> {
        self.turns = self.turns.wrapping_add(1);
        let line = self.common();
        let before = line.word(group::ARRIVED).fetch_add(1, Ordering::AcqRel);
        if before + 1 < self.ranks.len() as u32 {
            return Some(self.awaited(line, [(group::TURNS, self.turns); 2], None));
        }
        line.word(group::ARRIVED).store(0, Ordering::Relaxed);
        line.word(group::TURNS).store(self.turns, Ordering::Release);
        self.wake(host, line);
        None
    }

    #[inline]
    fn wake(&mut self, host: &Host, line: Line) {
        fence(Ordering::SeqCst);
        for index in 0..2 {
            if line.sleepers(index).load(Ordering::Relaxed) != 0 {
                self.ring(host, line, index);
            }
        }
    }

    #[cold]
    fn ring(&self, host: &Host, line: Line, index: u32) {
        let mut bits = line.sleepers(index).swap(0, Ordering::SeqCst);
        while bits != 0 {
            let place = index * 64 + bits.trailing_zeros();
            bits &= bits - 1;
            if let Some(rank) = self.ranks.get(place as usize) {
                host.ring_if_asleep(*rank);
            }
        }
    }

    /// This rank needs the part no more.
    pub fn leave(&self) {
        self.common()
            .word(group::LEFT)
            .fetch_add(1, Ordering::AcqRel);
    }

    /// Whether all ranks have left it.
    pub fn is_left(&self) -> bool {
        self.common().word(group::LEFT).load(Ordering::Acquire) == self.ranks.len() as u32
    }

    /// Makes it as new, once all have left it or before anybody has come.
    pub fn clear(&self, host: &Host) -> std::io::Result<()> {
        let ranks = self.ranks.len() as u32;
        let length = group::cell(ranks, ranks, 0);
        host.segment.allocate(self.at, length as u32)?;
        let cells = (0..ranks * group::CELLS).map(|index| {
            let at = group::cell(ranks, index / group::CELLS, index % group::CELLS);
            // SAFETY: within the group.
            Line(unsafe { self.base.add(at as usize) })
        });
        let lines = (0..ranks).map(|rank| self.line(rank)).chain(cells);
        for line in lines.chain([self.common()]) {
            (0..group::WORDS).for_each(|index| line.word(index).store(0, Ordering::Relaxed));
            (0..2).for_each(|index| line.sleepers(index).store(0, Ordering::Relaxed));
        }
        fence(Ordering::SeqCst);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_not_filled_before_its_last_user_is_waited_for() {
        for most in [2, 8, 16, 32, 64, 256] {
            let mut users = vec![None; most as usize];
            for number in 1..20_000u32 {
                let part = (number & (turn(number, most) - 1)) as usize;
                let needed = last_in(number, most).cast_signed();
                if let Some(last) = users[part].replace(number) {
                    assert!(needed >= last.cast_signed(), "{number} of {most}");
                }
                let latest = number.wrapping_sub(most.min(8)).cast_signed();
                assert!(needed <= latest, "{number} of {most} waits for itself");
            }
            assert_eq!(
                users.iter().filter(|user| user.is_some()).count(),
                most as usize
            );
        }
        // few are touched by who does few
        let touched = |count| {
            (1..count)
                .map(|number| number & (turn(number, 256) - 1))
                .max()
        };
        assert_eq!(touched(200), Some(15));
        assert_eq!(touched(300), Some(31));
    }

    #[test]
    fn a_run_of_parts_lies_within_one_round() {
        for most in [8, 64, 256] {
            for number in (RUN - 1..20_000).step_by(RUN as usize) {
                for one in number - (RUN - 1)..number {
                    assert_eq!(turn(one, most), turn(number, most));
                }
            }
        }
    }

    #[test]
    fn numbers_that_begin_anew_wait_for_what_was_before() {
        let mut users = [None; 256];
        for number in (0..100_000u32).map(|nth| nth.wrapping_sub(1_000)) {
            let part = (number & (turn(number, 256) - 1)) as usize;
            let needed = last_in(number, 256);
            if let Some(last) = users[part].replace(number) {
                assert!(needed.wrapping_sub(last).cast_signed() >= 0, "{number}");
            }
        }
    }
}
