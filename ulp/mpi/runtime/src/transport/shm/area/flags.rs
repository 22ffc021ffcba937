//! Flags and cells of an area: who has come how far.
//!
//! Owns: the lines that ranks set, and what is waited for. Must not know: what lies in the slots.

use super::Area;
use crate::ground::memory::Source;
use crate::transport::host::Host;
use ferriband_mpi_proto::segment::group;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A line of flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line(pub(super) NonNull<u8>);

impl Line {
    #[inline]
    pub(super) fn word(&self, index: u32) -> &AtomicU32 {
        assert!(index < group::WORDS);
        // SAFETY: within the line, which lies in the segment, that is never unmapped; aligned, only
        // accessed atomically.
        unsafe { &*self.0.as_ptr().cast::<AtomicU32>().add(index as usize) }
    }

    /// Bits of those that may sleep, 64 ranks each.
    #[inline]
    pub(super) fn sleepers(&self, index: u32) -> &AtomicU64 {
        assert!(index < 2);
        let at = group::SLEEPERS as usize + index as usize * 8;
        // SAFETY: as above.
        unsafe { &*self.0.as_ptr().add(at).cast::<AtomicU64>() }
    }
}

/// A flag that a rank waits for, and the number that it has to come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    line: Line,
    index: u32,
    number: u32,
    me: u32,
    /// Line of the rank that sets them, if that is one, and of the one that waits.
    lines: [Option<Line>; 2],
}

impl Awaited {
    /// Whether it has.
    #[inline]
    pub fn is_reached(&self) -> bool {
        let word = self.line.word(self.index).load(Ordering::Acquire);
        word.wrapping_sub(self.number).cast_signed() >= 0
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

impl Area {
    #[inline]
    pub(super) fn line(&self, rank: u32) -> Line {
        assert!((rank as usize) < self.ranks.len());
        let at = group::line(rank) as usize;
        // SAFETY: within the group.
        Line(unsafe { self.base.add(at) })
    }

    /// The first line: what all ranks count in.
    #[inline]
    pub(super) fn common(&self) -> Line {
        Line(self.base)
    }

    #[inline]
    pub(super) fn cell(&self, rank: u32) -> Line {
        assert!((rank as usize) < self.ranks.len());
        let at = group::cell(self.ranks.len() as u32, rank, self.number % group::CELLS);
        // SAFETY: within the group.
        Line(unsafe { self.base.add(at as usize) })
    }

    /// What to wait for: that `rank` has told something.
    #[inline]
    pub fn telling_of(&self, rank: u32) -> Awaited {
        self.awaited(self.cell(rank), (0, self.number), Some(rank))
    }

    /// This rank has told what it had to tell in this collective.
    #[inline]
    pub fn tell(&mut self, host: &Host) {
        let cell = self.cell(self.me);
        cell.word(0).store(self.number, Ordering::Release);
        self.wake(host, cell);
    }

    /// What to wait for: that `rank`, if it is one rank, sets the word at this index to this
    /// number.
    #[inline]
    fn awaited(&self, line: Line, (index, number): (u32, u32), rank: Option<u32>) -> Awaited {
        Awaited {
            line,
            index,
            number,
            me: self.me,
            lines: [rank, Some(self.me)].map(|rank| rank.map(|rank| self.line(rank))),
        }
    }

    /// The `length` bytes that `rank` has told: so it has passed the collective before, or, where
    /// all tell one ahead, the one before that.
    #[inline]
    pub fn heard(&mut self, rank: u32, length: usize, ahead: bool) -> Source {
        self.has_passed(rank, self.number.wrapping_sub(1 + u32::from(ahead)));
        // SAFETY: in the segment, which stays mapped; the rank writes there again only when this
        // one has passed.
        unsafe { Source::new(self.told(rank, length).as_ptr(), length) }
    }

    #[inline]
    fn has_passed(&mut self, rank: u32, number: u32) {
        let passed = &mut self.passed[rank as usize];
        if number.wrapping_sub(*passed).cast_signed() > 0 {
            *passed = number;
        }
    }

    /// What to wait for until all have passed the collective `needed`.
    pub(super) fn reader(&mut self, needed: u32) -> Option<Awaited> {
        for rank in 0..self.ranks.len() as u32 {
            let known = self.passed[rank as usize];
            if rank == self.me || known.wrapping_sub(needed).cast_signed() >= 0 {
                continue;
            }
            let line = self.line(rank);
            let awaited = self.awaited(line, (group::PASSED, needed), Some(rank));
            if !awaited.is_reached() {
                return Some(awaited);
            }
            self.has_passed(rank, line.word(group::PASSED).load(Ordering::Acquire));
        }
        None
    }

    /// This collective is over here: others may have to know.
    pub fn pass(&mut self, host: &Host) {
        let line = self.line(self.me);
        let passed = line.word(group::PASSED);
        passed.store(self.number, Ordering::Release);
        self.wake(host, line);
    }

    /// Begins a barrier by rounds. Barriers have numbers of their own: nothing is filled in them,
    /// so they say nothing of who has read what.
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
        self.awaited(self.line(rank), (round, self.turns), Some(rank))
    }

    /// Comes to a barrier that is counted: none if this was the last rank, else what to wait for.
    /// Each rank runs but twice, before and after, which is least where cores are
    /// short.
    pub fn arrive(&mut self, host: &Host) -> Option<Awaited> {
        self.turns = self.turns.wrapping_add(1);
        let line = self.common();
        let before = line.word(group::ARRIVED).fetch_add(1, Ordering::AcqRel);
        if before + 1 < self.ranks.len() as u32 {
            return Some(self.awaited(line, (group::TURNS, self.turns), None));
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
}
