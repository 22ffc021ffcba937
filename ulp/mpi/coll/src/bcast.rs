//! Broadcasts. The one buffer is `Recv`.

use crate::common::{absolute, chunks, doublings, output, relative, segments, subtree};
use crate::schedule::{Builder, Piece};
use crate::{Algorithm, Place};

pub fn build(b: &mut Builder, algorithm: Algorithm, me: Place, count: u64, root: u32) {
    let buffer = output(count);
    match algorithm {
        Algorithm::Linear => linear(b, me, buffer, root),
        Algorithm::ScatterAllgather => scatter_allgather(b, me, buffer, root),
        Algorithm::Chain => chain(b, me, buffer, root),
        _ => binomial(b, me, buffer, root),
    }
}

fn linear(b: &mut Builder, me: Place, buffer: Piece, root: u32) {
    if me.rank != root {
        b.recv(root, &[buffer]);
        return;
    }
    for rank in (0..me.size).filter(|rank| *rank != root) {
        b.send(rank, &[buffer]);
    }
}

/// A binomial tree over ranks relative to the root: a rank hears from the one without its lowest bit, and tells those that
/// have one lower bit more, the largest subtree first (TRG 3.2).
pub fn binomial(b: &mut Builder, me: Place, buffer: Piece, root: u32) {
    let own = relative(me, root);
    if own > 0 {
        b.recv(absolute(me, root, own & (own - 1)), &[buffer]);
    }
    for distance in doublings(subtree(own, me.size)).rev() {
        b.send(absolute(me, root, own + distance), &[buffer]);
    }
}

/// Van de Geijn (TRG 3.2): the buffer is scattered by a binomial tree in as many chunks as there are ranks, then the chunks go
/// round the ring. A rank that holds a chunk since the scatter is not sent it again.
fn scatter_allgather(b: &mut Builder, me: Place, buffer: Piece, root: u32) {
    let (own, size) = (relative(me, root), me.size);
    let part = |from: u32, to: u32| buffer.part(chunks(buffer.count, size, from..to));
    let held = |rank: u32| rank..rank + subtree(rank, size);
    if own > 0 {
        let parent = absolute(me, root, own & (own - 1));
        b.recv(parent, &[part(own, held(own).end)]);
    }
    for distance in doublings(subtree(own, size)).rev() {
        let child = own + distance;
        b.send(absolute(me, root, child), &[part(child, held(child).end)]);
    }
    let (left, right) = ((own + size - 1) % size, (own + 1) % size);
    for step in 0..size.saturating_sub(1) {
        let out = (own + size - step) % size;
        if !held(right).contains(&out) {
            b.send(absolute(me, root, right), &[part(out, out + 1)]);
        }
        let next = (left + size - step) % size;
        if !held(own).contains(&next) {
            b.recv(absolute(me, root, left), &[part(next, next + 1)]);
        }
    }
}

/// A chain of ranks behind the root; a segment is passed on while the next comes in.
fn chain(b: &mut Builder, me: Place, buffer: Piece, root: u32) {
    let own = relative(me, root);
    for segment in segments(buffer.count, me) {
        let piece = buffer.part(segment);
        if own > 0 {
            b.recv(absolute(me, root, own - 1), &[piece]);
        }
        if own + 1 < me.size {
            b.send(absolute(me, root, own + 1), &[piece]);
        }
    }
}
