//! Reductions whose result is scattered. Input is one block of all units in rank order, output the own part.

use crate::common::{Fold, Role, ahead, doublings, input};
use crate::reduce::{self, Vector};
use crate::schedule::{Builder, Peer, Piece, Slot};
use crate::{Algorithm, Blocks, Place};
use std::ops::Range;

pub fn build(
    b: &mut Builder,
    algorithm: Algorithm,
    me: Place,
    blocks: &Blocks<'_>,
    vector: Vector,
) {
    let own = input(vector.count, vector.in_place);
    let result = Piece::of(Slot::Recv, 0, blocks.of(me.rank));
    match algorithm {
        Algorithm::Pairwise => pairwise(b, me, blocks, own, result),
        Algorithm::RecursiveHalving => recursive_halving(b, me, blocks, own, result),
        _ => reduce_scatterv(b, me, blocks, vector, own, result),
    }
}

/// The units of the ranks `range`.
fn units(blocks: &Blocks<'_>, range: Range<u32>) -> Range<u64> {
    blocks.before(range.start)..blocks.before(range.end)
}

/// A binomial reduction to rank 0, then a scatter: keeps any operation's order.
pub fn reduce_scatterv(
    b: &mut Builder,
    me: Place,
    blocks: &Blocks<'_>,
    vector: Vector,
    own: Piece,
    result: Piece,
) {
    let buffers = [b.temp(vector.count), b.temp(vector.count)];
    reduce::binomial(b, me, vector, own, 0, buffers);
    if me.rank > 0 {
        b.recv(0, &[result]);
        return;
    }
    for rank in 1..me.size {
        b.send(rank, &[buffers[0].part(units(blocks, rank..rank + 1))]);
    }
    b.copy(buffers[0].part(units(blocks, 0..1)), result);
}

/// In step s a rank sends the units of the rank s ahead to that one, and takes in its own ones from the rank s behind (TRG 3.4).
fn pairwise(b: &mut Builder, me: Place, blocks: &Blocks<'_>, own: Piece, result: Piece) {
    let mine = own.part(units(blocks, me.rank..me.rank + 1));
    let aside = [b.temp(result.count), b.temp(result.count)];
    // In place the result may lie on what others are still to be sent, so it is put together elsewhere.
    let sum = if own.slot == Slot::Recv {
        b.temp(result.count)
    } else {
        result
    };
    b.copy(mine, sum);
    let mut before: Option<u32> = None;
    for step in 1..me.size {
        let (to, from) = (ahead(me, i64::from(step)), ahead(me, -i64::from(step)));
        let came = aside[(step % 2) as usize];
        let received = b.recv_from(Peer::own(from), &[came]);
        let sent = b.send_to(Peer::own(to), &[own.part(units(blocks, to..to + 1))]);
        for node in [received, sent].into_iter().flatten() {
            b.after(node, before.as_slice());
        }
        before = received.or(before);
        b.reduce(came, sum);
    }
    b.copy(sum, result);
}

/// Pairs at halving distances exchange the half that is the other's (TRG 3.4). Extra ranks are folded into core ranks, which return what
/// is theirs. Partners are no neighbours, so operands change places: commutative operations.
fn recursive_halving(b: &mut Builder, me: Place, blocks: &Blocks<'_>, own: Piece, result: Piece) {
    let fold = Fold::of(me.size);
    let (new, extra) = match fold.role(me.rank) {
        Role::Core(new, extra) => (new, extra),
        Role::Extra(core) => {
            b.send(core, &[own]);
            b.recv(core, &[result]);
            return;
        }
    };
    let sum = b.temp(own.count);
    let aside = b.temp(own.count);
    b.copy(own, sum);
    if let Some(extra) = extra {
        b.recv(extra, &[aside]);
        b.reduce(aside, sum);
    }
    // The units of new ranks: those of the ranks for which they stand, which lie side by side.
    let of_new = |range: Range<u32>| {
        units(
            blocks,
            fold.stands_for(range.start).start..fold.stands_for(range.end - 1).end,
        )
    };
    let mut mine = 0..fold.core;
    for distance in doublings(fold.core).rev() {
        let middle = mine.start + distance;
        let (keep, give) = match new & distance {
            0 => (mine.start..middle, middle..mine.end),
            _ => (middle..mine.end, mine.start..middle),
        };
        let partner = fold.real(new ^ distance);
        b.send(partner, &[sum.part(of_new(give))]);
        b.recv(partner, &[aside.part(of_new(keep.clone()))]);
        b.reduce(
            aside.part(of_new(keep.clone())),
            sum.part(of_new(keep.clone())),
        );
        mine = keep;
    }
    if let Some(extra) = extra {
        b.send(extra, &[sum.part(units(blocks, extra..extra + 1))]);
    }
    b.copy(sum.part(units(blocks, me.rank..me.rank + 1)), result);
}
