//! Prefix reductions. Rank order is kept, so no operation needs to be commutative.

use crate::common::{doublings, input, output};
use crate::reduce::Vector;
use crate::schedule::{Builder, Piece};
use crate::{Algorithm, Place};

pub fn build(b: &mut Builder, algorithm: Algorithm, me: Place, vector: Vector, exclusive: bool) {
    let own = input(vector.count, vector.in_place);
    match algorithm {
        Algorithm::Linear => linear(b, me, own, exclusive),
        _ => doubling(b, me, own, exclusive),
    }
}

/// Each waits for the rank before it, and tells the next.
fn linear(b: &mut Builder, me: Place, own: Piece, exclusive: bool) {
    let (count, result) = (own.count, output(own.count));
    let last = me.rank + 1 == me.size;
    if !exclusive {
        b.copy(own, result);
        if me.rank > 0 {
            let came = b.temp(count);
            b.recv(me.rank - 1, &[came]);
            b.reduce(came, result);
        }
        if !last {
            b.send(me.rank + 1, &[result]);
        }
        return;
    }
    // What the next rank gets includes ours; in place, ours makes room for what comes.
    let onwards = if last { own } else { b.temp(count) };
    if !last {
        b.copy(own, onwards);
    }
    if me.rank > 0 {
        b.recv(me.rank - 1, &[result]);
        if !last {
            b.reduce(result, onwards);
        }
    }
    if !last {
        b.send(me.rank + 1, &[onwards]);
    }
}

/// In round i a rank that has combined the 2^i ranks up to itself sends that 2^i ahead, and takes in what comes from 2^i behind
/// (Hillis and Steele, *Data parallel algorithms*, 1986).
fn doubling(b: &mut Builder, me: Place, own: Piece, exclusive: bool) {
    let (count, result) = (own.count, output(own.count));
    // What is sent on: with ours; it is the result itself unless ours is to be left out.
    let onwards = if exclusive { b.temp(count) } else { result };
    b.copy(own, onwards);
    let came = [b.temp(count), b.temp(count)];
    let mut first = true;
    for (distance, came) in doublings(me.size).zip(came.into_iter().cycle()) {
        if me.rank + distance < me.size {
            b.send(me.rank + distance, &[onwards]);
        }
        if me.rank < distance {
            continue;
        }
        b.recv(me.rank - distance, &[came]);
        if exclusive && first {
            b.copy(came, result);
        } else if exclusive {
            b.reduce(came, result);
        }
        first = false;
        b.reduce(came, onwards);
    }
}
