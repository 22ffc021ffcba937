//! Parts of the slots of an area: which collective uses which, and when it may be filled again.
//!
//! Owns: the order in which parts are used, and the memory behind them. Must not know: how a flag
//! is waited for.

use super::Area;
use super::flags::Awaited;
use crate::ground::memory::Sink;
use crate::transport::host::Host;
use ferriband_mpi_proto::segment::{HALF, group};
use std::ptr::NonNull;

/// No more bytes than this are short: a part of the slot that was used just now is found sooner
/// than one that was forgotten.
const NEAR_BYTES: usize = 4096;
/// Parts of the area where cores are short: those for what is short are one ring of pieces of this
/// size, so that who tells goes on before others have had their turn.
const CROWDED_BYTES: usize = 1024;
/// Such pieces.
const CROWDED_PIECES: u32 = group::NEAR * HALF / CROWDED_BYTES as u32;

/// Parts that may be told as one where they lie side by side, where there are twice as many.
const RUN: u32 = 4;
/// Parts for what is long that the first collectives use in turn. Who fills a part for the first
/// time waits for memory, which costs several times what a short collective does, so only what has
/// done eight times as many has twice as many.
const FIRST_RING: u32 = 16;
const SLOWLY: u32 = 8;
const _: () =
    assert!(FIRST_RING >= 2 * RUN && FIRST_RING.is_power_of_two() && SLOWLY.is_power_of_two());

/// Parts that so many bytes take: a power of two.
#[inline]
pub(super) fn parts(length: usize) -> u32 {
    (length as u32).div_ceil(HALF).max(1).next_power_of_two()
}

/// Parts that are used in turn about a collective, of so many at the most: as many as the greatest
/// power of two of its number, divided by [`SLOWLY`].
#[inline]
fn turn(number: u32, most: u32) -> u32 {
    let begun = 1 << (number | 1).ilog2();
    (begun / SLOWLY).max(FIRST_RING).min(most)
}

/// The last collective before `number` that may have used its part. Numbers begin anew after 2^32
/// with few parts, whose last users are as long ago as if there had always been so few, or longer.
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

impl Area {
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

    #[inline]
    pub(super) fn slot(&self, rank: u32, part: u32, at: usize, length: usize) -> NonNull<u8> {
        let parts = (group::NEAR + self.far).saturating_sub(part) as usize;
        let room = parts * HALF as usize;
        assert!(at <= room && length <= room - at && (rank as usize) < self.ranks.len());
        let slot = group::slot(self.ranks.len() as u32, self.far, rank, part) as usize;
        // SAFETY: within the group.
        unsafe { self.base.add(slot + at) }
    }

    /// Parts for what is long that are used in turn about the collective under way: a power of two,
    /// by its number alone, as all ranks have to agree.
    #[inline]
    fn turn(&self) -> u32 {
        turn(self.number, self.ring)
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

    /// Where something that is shorter than a line is told, or else in the slot.
    #[inline]
    pub(super) fn told(&self, rank: u32, length: usize) -> NonNull<u8> {
        if length > group::CELL_BYTES {
            return self.told_at_length(rank, length);
        }
        // SAFETY: within the cell.
        unsafe { self.cell(rank).0.add(group::CELL_BODY as usize) }
    }

    /// Where a rank tells what is too long for its cell: in the slot. Like what follows here, a
    /// function of its own, so that what is short stays short.
    #[inline(never)]
    fn told_at_length(&self, rank: u32, length: usize) -> NonNull<u8> {
        let (part, at) = self.part(length);
        self.slot(rank, part, at, length)
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
        host.segment().allocate(self.at + slot, wanted)?;
        self.backed[part as usize] = wanted;
        Ok(())
    }

    /// What to wait for before the own slot may be filled: of the first rank that may still read
    /// what lay there.
    fn slot_reader(&mut self) -> Option<Awaited> {
        // Whoever used the part last may have told several as one, of which the last one's number
        // counts.
        self.reader(last_in(self.number, self.ring) | (self.run() - 1))
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
