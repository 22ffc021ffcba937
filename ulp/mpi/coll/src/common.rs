//! What several algorithms share: chunks, ranks relative to a root, folding to a power of two, a running result.

use crate::Place;
use crate::schedule::{Builder, Piece, Slot};
use std::ops::Range;

/// Segments of a pipelined message at most: beyond that they grow.
const MOST_SEGMENTS: u64 = 256;
/// Units of a segment where nobody chose.
const SEGMENT: u64 = 8192;

/// `count` units in `parts` chunks whose lengths differ by one at most: the first unit of chunk `at`.
pub fn chunk_start(count: u64, parts: u32, at: u32) -> u64 {
    let (parts, at) = (u64::from(parts), u64::from(at));
    count / parts * at + at.min(count % parts)
}

/// Chunks `[from, to)` as units.
pub fn chunks(count: u64, parts: u32, range: Range<u32>) -> Range<u64> {
    chunk_start(count, parts, range.start)..chunk_start(count, parts, range.end)
}

/// The segments of a pipelined message.
pub fn segments(count: u64, me: Place) -> impl Iterator<Item = Range<u64>> {
    let wanted = if me.segment == 0 { SEGMENT } else { me.segment };
    let length = wanted.max(count.div_ceil(MOST_SEGMENTS)).max(1);
    (0..count.div_ceil(length)).map(move |at| at * length..count.min((at + 1) * length))
}

/// A rank counted from the root.
pub fn relative(me: Place, root: u32) -> u32 {
    (me.rank + me.size - root) % me.size
}

/// The rank that is `relative` ranks behind the root.
pub fn absolute(me: Place, root: u32, relative: u32) -> u32 {
    ((u64::from(root) + u64::from(relative)) % u64::from(me.size)) as u32
}

/// The rank `distance` ahead of this one on the ring; negative is behind.
pub fn ahead(me: Place, distance: i64) -> u32 {
    (i64::from(me.rank) + distance).rem_euclid(i64::from(me.size)) as u32
}

/// Distances 1, 2, 4, ... below the number of ranks.
pub fn doublings(size: u32) -> impl DoubleEndedIterator<Item = u32> {
    (0..u32::BITS)
        .map(|bit| 1u32 << bit)
        .take_while(move |distance| *distance < size)
        .collect::<Vec<_>>()
        .into_iter()
}

/// How many ranks hang below a rank of a binomial tree, itself included: its lowest bit, cut off at the end.
pub fn subtree(relative: u32, size: u32) -> u32 {
    let whole = if relative == 0 {
        size
    } else {
        1 << relative.trailing_zeros()
    };
    whole.min(size - relative)
}

/// Input of a vector operation.
pub fn input(count: u64, in_place: bool) -> Piece {
    Piece::of(if in_place { Slot::Recv } else { Slot::Send }, 0, count)
}

/// Output of a vector operation.
pub fn output(count: u64) -> Piece {
    Piece::of(Slot::Recv, 0, count)
}

/// Folding of any number of ranks to a power of two (P0 IV-B: *extra* ranks give their values to *core* ranks): of the first
/// `2 * extra` ranks each even one is extra and folds into the odd one behind it, so values stay in rank order.
#[derive(Debug, Clone, Copy)]
pub struct Fold {
    /// Core ranks: the greatest power of two that is not more than all.
    pub core: u32,
    /// Extra ranks.
    pub extra: u32,
}

/// What a rank is in a folding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It gives its value to this core rank, and gets the result from there.
    Extra(u32),
    /// It takes part under this new rank, for an extra rank, too, if there is one.
    Core(u32, Option<u32>),
}

impl Fold {
    pub fn of(size: u32) -> Fold {
        let core = 1 << size.ilog2();
        Fold {
            core,
            extra: size - core,
        }
    }

    pub fn role(self, rank: u32) -> Role {
        if rank >= 2 * self.extra {
            Role::Core(rank - self.extra, None)
        } else if rank.is_multiple_of(2) {
            Role::Extra(rank + 1)
        } else {
            Role::Core(rank / 2, Some(rank - 1))
        }
    }

    /// The rank that takes part under a new one.
    pub fn real(self, new: u32) -> u32 {
        if new < self.extra {
            2 * new + 1
        } else {
            new + self.extra
        }
    }

    /// The ranks for which a new one stands.
    pub fn stands_for(self, new: u32) -> Range<u32> {
        let real = self.real(new);
        if new < self.extra {
            real - 1..real + 1
        } else {
            real..real + 1
        }
    }
}

/// A result that grows: where it is now, and two buffers that it may move to, so that what comes in has a place while the
/// result is still on its way out.
pub struct Running {
    at: Piece,
    writable: bool,
    buffers: [Piece; 2],
    commutative: bool,
}

impl Running {
    /// Begins with `input`, which is only read unless it is one of the buffers.
    pub fn new(input: Piece, buffers: [Piece; 2], commutative: bool) -> Running {
        Running {
            at: input,
            writable: buffers.contains(&input),
            buffers,
            commutative,
        }
    }

    /// Where the result is.
    pub fn at(&self) -> Piece {
        self.at
    }

    /// Where the next value may come in.
    pub fn free(&self) -> Piece {
        if self.at == self.buffers[0] {
            self.buffers[1]
        } else {
            self.buffers[0]
        }
    }

    /// Takes the units `range` of a value in that came to [`Running::free`]; `left` says that its ranks are before ours. From now on
    /// only that range is the result.
    pub fn join_range(&mut self, b: &mut Builder, left: bool, range: Range<u64>) {
        let (came, other) = (self.free(), self.spare());
        let part = |piece: Piece| piece.part(range.clone());
        if !left || self.commutative {
            b.reduce(part(self.at), part(came));
            self.at = came;
        } else {
            if !self.writable {
                b.copy(part(self.at), part(other));
                self.at = other;
            }
            b.reduce(part(came), part(self.at));
        }
        self.writable = true;
    }

    /// The same for all units.
    pub fn join(&mut self, b: &mut Builder, left: bool) {
        let count = self.at.count;
        self.join_range(b, left, 0..count);
    }

    /// The buffer that is neither the result nor free; if the result is not in one, the second.
    fn spare(&self) -> Piece {
        if self.free() == self.buffers[0] {
            self.buffers[1]
        } else {
            self.buffers[0]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_everything_once() {
        for (count, parts) in [(0, 3), (1, 3), (10, 3), (12, 4), (5, 8)] {
            assert_eq!(chunk_start(count, parts, 0), 0);
            assert_eq!(chunk_start(count, parts, parts), count);
            let lengths: Vec<u64> = (0..parts)
                .map(|at| chunks(count, parts, at..at + 1))
                .map(|range| range.end - range.start)
                .collect();
            let (least, most) = (lengths.iter().min(), lengths.iter().max());
            assert!(
                most.expect("some") - least.expect("some") <= 1,
                "{lengths:?}"
            );
        }
    }

    #[test]
    fn folding_gives_each_core_rank_a_number_and_keeps_the_order() {
        for size in 1..40 {
            let fold = Fold::of(size);
            let mut covered = Vec::new();
            for new in 0..fold.core {
                let extra = (new < fold.extra).then(|| fold.real(new) - 1);
                assert_eq!(fold.role(fold.real(new)), Role::Core(new, extra));
                covered.extend(fold.stands_for(new));
            }
            assert_eq!(covered, (0..size).collect::<Vec<_>>());
        }
        assert_eq!(Fold::of(6).role(2), Role::Extra(3));
    }

    #[test]
    fn segments_are_bounded_in_number() {
        let me = Place {
            segment: 1,
            ..Place::new(0, 2)
        };
        assert_eq!(segments(1 << 40, me).count(), 256);
        assert_eq!(segments(0, me).count(), 0);
        let all: Vec<_> = segments(5, Place { segment: 2, ..me }).collect();
        assert_eq!(all, [0..2, 2..4, 4..5]);
    }
}
