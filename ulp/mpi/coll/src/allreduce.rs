//! Reductions to all ranks.

use crate::common::{Fold, Role, Running, ahead, chunks, doublings, input, output};
use crate::reduce::{self, Vector};
use crate::schedule::Builder;
use crate::{Algorithm, Place, bcast};
use std::ops::Range;

pub fn build(b: &mut Builder, algorithm: Algorithm, me: Place, vector: Vector) {
    match algorithm {
        Algorithm::Ring => ring(b, me, vector),
        Algorithm::Rabenseifner => folded(b, me, vector, rabenseifner),
        Algorithm::ReduceBcast => {
            let aside = [output(vector.count), b.temp(vector.count)];
            // Everybody has a receive buffer here, which serves the tree, too.
            reduce::binomial(
                b,
                me,
                vector,
                input(vector.count, vector.in_place),
                0,
                aside,
            );
            bcast::binomial(b, me, output(vector.count), 0);
        }
        _ => folded(b, me, vector, recursive_doubling),
    }
}

/// What the core ranks do: new rank and running result; it ends in `Recv`.
type Core = fn(&mut Builder, Fold, u32, Vector, &mut Running);

/// Extra ranks give their values to core ranks, which do it among themselves and give the result back (P0 IV-B).
fn folded(b: &mut Builder, me: Place, vector: Vector, core: Core) {
    let (own, result) = (input(vector.count, vector.in_place), output(vector.count));
    let fold = Fold::of(me.size);
    match fold.role(me.rank) {
        Role::Extra(core) => {
            b.send(core, &[own]);
            b.recv(core, &[result]);
        }
        Role::Core(new, extra) => {
            let buffers = [result, b.temp(vector.count)];
            let mut running = Running::new(own, buffers, vector.commutative);
            reduce::fold_in(b, extra, &mut running);
            core(b, fold, new, vector, &mut running);
            if let Some(extra) = extra {
                b.send(extra, &[result]);
            }
        }
    }
}

/// Pairs exchange what they have, in Brooks' pattern (P0 IV-B).
fn recursive_doubling(
    b: &mut Builder,
    fold: Fold,
    new: u32,
    vector: Vector,
    running: &mut Running,
) {
    for bit in doublings(fold.core) {
        let partner = fold.real(new ^ bit);
        b.send(partner, &[running.at()]);
        b.recv(partner, &[running.free()]);
        running.join(b, new & bit != 0);
    }
    b.copy(running.at(), output(vector.count));
}

/// A reduce-scatter by halves, then an allgather by the same steps backwards (TRG 3.5).
fn rabenseifner(b: &mut Builder, fold: Fold, new: u32, vector: Vector, running: &mut Running) {
    let (count, result) = (vector.count, output(vector.count));
    let mut halves = reduce::reduce_scatter(b, fold, new, count, running);
    let units = |range: &Range<u32>| chunks(count, fold.core, range.clone());
    b.copy(
        running.at().part(units(&halves.mine)),
        result.part(units(&halves.mine)),
    );
    for (bit, gave) in halves.rounds.iter().rev() {
        let partner = fold.real(new ^ bit);
        b.send(partner, &[result.part(units(&halves.mine))]);
        b.recv(partner, &[result.part(units(gave))]);
        halves.mine = halves.mine.start.min(gave.start)..halves.mine.end.max(gave.end);
    }
}

/// A reduce-scatter round the ring, then an allgather round the ring: each link carries each unit twice, whatever the number of ranks
/// (Patarasuk and Yuan, *Bandwidth optimal all-reduce algorithms*, 2009). The order of operands is the ring's: commutative operations.
fn ring(b: &mut Builder, me: Place, vector: Vector) {
    let Vector {
        count, in_place, ..
    } = vector;
    let (own, result, size) = (input(count, in_place), output(count), i64::from(me.size));
    let (left, right) = (ahead(me, -1), ahead(me, 1));
    let chunk = |distance: i64| {
        let at = ahead(me, distance);
        chunks(count, me.size, at..at + 1)
    };
    if size == 1 {
        b.copy(own, result);
        return;
    }
    // In place what comes needs a place of its own; two, so that one can be combined while the next comes.
    let longest = chunks(count, me.size, 0..1);
    let aside = if in_place {
        [b.temp(longest.end), b.temp(longest.end)]
    } else {
        [result; 2]
    };
    for step in 0..size - 1 {
        let (out, next) = (chunk(-step), chunk(-step - 1));
        let from = if step == 0 { own } else { result };
        b.send(right, &[from.part(out)]);
        if in_place {
            let came = aside[(step % 2) as usize].part(0..next.end - next.start);
            b.recv(left, &[came]);
            b.reduce(came, result.part(next));
        } else {
            b.recv(left, &[result.part(next.clone())]);
            b.reduce(own.part(next.clone()), result.part(next));
        }
    }
    for step in 0..size - 1 {
        b.send(right, &[result.part(chunk(1 - step))]);
        b.recv(left, &[result.part(chunk(-step))]);
    }
}
