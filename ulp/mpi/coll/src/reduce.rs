//! Reductions to one rank.
//!
//! A result is always the combination of the ranks' values in rank order; only commutative operations may be counted from the root
//! instead. Trees and chains of others are built towards rank 0, which passes the result on.

use crate::common::{
    Fold, Role, Running, absolute, chunks, doublings, input, output, relative, segments,
};
use crate::schedule::{Builder, Piece};
use crate::{Algorithm, Place};
use std::ops::Range;

/// What is reduced.
#[derive(Debug, Clone, Copy)]
pub struct Vector {
    pub count: u64,
    pub commutative: bool,
    pub in_place: bool,
}

/// Below this many ranks P0 saw each send directly to the root.
const TUTORIAL_TREE: u32 = 8;

/// Values that may wait at a linear root.
const WAITING: u32 = 4;

pub fn build(b: &mut Builder, algorithm: Algorithm, me: Place, vector: Vector, root: u32) {
    let own = input(vector.count, vector.in_place && me.rank == root);
    match algorithm {
        Algorithm::Linear => linear(b, me, vector, root),
        Algorithm::Tutorial if me.size < TUTORIAL_TREE => linear(b, me, vector, root),
        Algorithm::Rabenseifner => rabenseifner(b, me, vector, own, root),
        Algorithm::Chain => through(b, me, vector, own, root, chain),
        _ => through(b, me, vector, own, root, binomial),
    }
}

/// An algorithm that leaves its result in the first of two buffers at the given rank.
type Tree = fn(&mut Builder, Place, Vector, Piece, u32, [Piece; 2]);

/// Builds a tree towards the root if operands may change places, else towards rank 0, which passes the result on.
fn through(b: &mut Builder, me: Place, vector: Vector, own: Piece, root: u32, tree: Tree) {
    let top = if vector.commutative { root } else { 0 };
    let result = output(vector.count);
    let first = if me.rank == top && top == root {
        result
    } else {
        b.temp(vector.count)
    };
    let second = b.temp(vector.count);
    tree(b, me, vector, own, top, [first, second]);
    if top != root && me.rank == top {
        b.send(root, &[first]);
    } else if top != root && me.rank == root {
        b.recv(top, &[result]);
    }
}

/// Each sends to the root, which combines from the last rank down to the first (P0 IV-B).
pub fn linear(b: &mut Builder, me: Place, vector: Vector, root: u32) {
    let Vector {
        count,
        commutative,
        in_place,
    } = vector;
    if me.rank != root {
        b.send(root, &[input(count, false)]);
        return;
    }
    let result = output(count);
    let waiting: Vec<Piece> = (0..WAITING.min(me.size - 1))
        .map(|_| b.temp(count))
        .collect();
    let last = me.size - 1;
    // The root's own value: it may be where the result is to come.
    let own = match (in_place, commutative || root == last) {
        (false, _) => Some(input(count, false)),
        (true, true) => None,
        (true, false) => {
            let aside = b.temp(count);
            b.copy(result, aside);
            Some(aside)
        }
    };
    // The value that the result begins with.
    let first = if own.is_none() || root == last {
        root
    } else {
        last
    };
    if first != root {
        b.recv(first, &[result]);
    } else if let Some(own) = own {
        b.copy(own, result);
    }
    let rest = (0..me.size).rev().filter(|rank| *rank != first);
    for (rank, place) in rest.zip(waiting.iter().cycle()) {
        match own.filter(|_| rank == root) {
            Some(own) => b.reduce(own, result),
            None => {
                b.recv(rank, &[*place]);
                b.reduce(*place, result);
            }
        }
    }
}

/// In round i a rank whose number, counted from the root, has bit i sends its result to the one without it, and is done (P0 IV-B,
/// figure 25). Subtrees are ranges of ranks, so order is kept.
pub fn binomial(
    b: &mut Builder,
    me: Place,
    vector: Vector,
    own: Piece,
    root: u32,
    buffers: [Piece; 2],
) {
    let number = relative(me, root);
    let mut running = Running::new(own, buffers, vector.commutative);
    for distance in doublings(me.size) {
        if number & distance != 0 {
            b.send(absolute(me, root, number - distance), &[running.at()]);
            return;
        }
        if number + distance < me.size {
            b.recv(absolute(me, root, number + distance), &[running.free()]);
            running.join(b, false);
        }
    }
    b.copy(running.at(), buffers[0]);
}

/// A chain from the last rank to the root; a segment is combined and passed on while the next comes in.
fn chain(b: &mut Builder, me: Place, vector: Vector, own: Piece, root: u32, buffers: [Piece; 2]) {
    let number = relative(me, root);
    let apart = own != buffers[0];
    for segment in segments(vector.count, me) {
        let (mine, first, second) = (
            own.part(segment.clone()),
            buffers[0].part(segment.clone()),
            buffers[1].part(segment),
        );
        let mut at = mine;
        if number + 1 < me.size {
            let place = if apart { first } else { second };
            b.recv(absolute(me, root, number + 1), &[place]);
            b.reduce(mine, place);
            at = place;
        }
        if number > 0 {
            b.send(absolute(me, root, number - 1), &[at]);
        } else {
            b.copy(at, first);
        }
    }
}

/// Halves of a reduce-scatter among the core ranks, and how to undo them.
pub struct Halves {
    /// The chunks that this rank's result has now.
    pub mine: Range<u32>,
    /// For each round its bit and the chunks that went to the partner.
    pub rounds: Vec<(u32, Range<u32>)>,
}

/// Rabenseifner's reduce-scatter (TRG 3.5): in round i partners differ in bit i of their new ranks, and each keeps the half of the
/// chunks that its bit says. The ranks combined so far are neighbours, so order is kept.
pub fn reduce_scatter(
    b: &mut Builder,
    fold: Fold,
    new: u32,
    count: u64,
    running: &mut Running,
) -> Halves {
    let units = |range: &Range<u32>| chunks(count, fold.core, range.clone());
    let mut halves = Halves {
        mine: 0..fold.core,
        rounds: Vec::new(),
    };
    for bit in doublings(fold.core) {
        let Range { start, end } = halves.mine;
        let middle = start.midpoint(end);
        let (keep, give) = match new & bit {
            0 => (start..middle, middle..end),
            _ => (middle..end, start..middle),
        };
        let partner = fold.real(new ^ bit);
        b.send(partner, &[running.at().part(units(&give))]);
        b.recv(partner, &[running.free().part(units(&keep))]);
        running.join_range(b, new & bit != 0, units(&keep));
        halves.rounds.push((bit, give));
        halves.mine = keep;
    }
    halves
}

/// Takes the extra rank's value in, if there is one.
pub fn fold_in(b: &mut Builder, extra: Option<u32>, running: &mut Running) {
    if let Some(extra) = extra {
        b.recv(extra, &[running.free()]);
        running.join(b, true);
    }
}

/// Reduce-scatter, then a binomial gather to the root: for long vectors (TRG 3.4).
fn rabenseifner(b: &mut Builder, me: Place, vector: Vector, own: Piece, root: u32) {
    let count = vector.count;
    let (fold, result) = (Fold::of(me.size), output(count));
    // An extra root has its core rank collect for it.
    let (top, passes_on) = match fold.role(root) {
        Role::Extra(core) => (core, true),
        Role::Core(..) => (root, false),
    };
    let (new, extra) = match fold.role(me.rank) {
        Role::Core(new, extra) => (new, extra),
        Role::Extra(core) => {
            b.send(core, &[own]);
            if me.rank == root {
                b.recv(core, &[result]);
            }
            return;
        }
    };
    let Role::Core(top_new, _) = fold.role(top) else {
        return;
    };
    let first = if me.rank == root {
        result
    } else {
        b.temp(count)
    };
    let buffers = [first, b.temp(count)];
    let mut running = Running::new(own, buffers, vector.commutative);
    fold_in(b, extra, &mut running);
    let mut halves = reduce_scatter(b, fold, new, count, &mut running);
    let units = |range: &Range<u32>| chunks(count, fold.core, range.clone());
    // What was gathered lies in the first buffer, so the own chunk goes there, too.
    b.copy(
        running.at().part(units(&halves.mine)),
        first.part(units(&halves.mine)),
    );
    for (bit, gave) in halves.rounds.iter().rev() {
        let partner = fold.real(new ^ bit);
        if new & bit != top_new & bit {
            b.send(partner, &[first.part(units(&halves.mine))]);
            return;
        }
        b.recv(partner, &[first.part(units(gave))]);
        halves.mine = halves.mine.start.min(gave.start)..halves.mine.end.max(gave.end);
    }
    if passes_on && me.rank == top {
        b.send(root, &[first]);
    }
}
