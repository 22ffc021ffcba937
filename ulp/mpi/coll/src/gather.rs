//! Gathering at and scattering from one rank.

use crate::common::{absolute, doublings, relative, subtree};
use crate::schedule::{Builder, Piece, Slot};
use crate::{Algorithm, Blocks, Place};

pub fn gather(
    b: &mut Builder,
    algorithm: Algorithm,
    me: Place,
    blocks: &Blocks<'_>,
    root: u32,
    in_place: bool,
) {
    let own = Piece::of(Slot::Send, 0, blocks.of(me.rank));
    if me.rank == root && !in_place {
        b.copy(own, Piece::of(Slot::Recv, root, blocks.of(root)));
    }
    match (algorithm, blocks) {
        (Algorithm::Binomial, Blocks::Equal(count)) => gather_tree(b, me, *count, root),
        _ if me.rank != root => b.send(root, &[own]),
        _ => {
            for rank in (0..me.size).filter(|rank| *rank != root) {
                b.recv(rank, &[Piece::of(Slot::Recv, rank, blocks.of(rank))]);
            }
        }
    }
}

/// A binomial tree: a rank passes on the blocks of all below it, in the order of their distance from the root. Equal blocks only,
/// for nobody but the root knows others.
fn gather_tree(b: &mut Builder, me: Place, count: u64, root: u32) {
    let own = relative(me, root);
    let below = subtree(own, me.size);
    if own == 0 {
        for distance in doublings(me.size) {
            let blocks = at_root(Slot::Recv, me, root, count, distance);
            b.recv(absolute(me, root, distance), &blocks);
        }
        return;
    }
    let kept = b.temp(count * u64::from(below - 1));
    for distance in doublings(below) {
        let child = own + distance;
        b.recv(
            absolute(me, root, child),
            &[below_own(kept, count, distance, subtree(child, me.size))],
        );
    }
    let parent = absolute(me, root, own & (own - 1));
    b.send(parent, &[Piece::of(Slot::Send, 0, count), kept]);
}

/// Of what is kept for the ranks below: the blocks of `ranks` ranks from this distance on.
fn below_own(kept: Piece, count: u64, distance: u32, ranks: u32) -> Piece {
    let start = count * u64::from(distance - 1);
    kept.part(start..start + count * u64::from(ranks))
}

/// The root's blocks of a child's subtree.
fn at_root(slot: Slot, me: Place, root: u32, count: u64, child: u32) -> Vec<Piece> {
    (child..child + subtree(child, me.size))
        .map(|number| Piece::of(slot, absolute(me, root, number), count))
        .collect()
}

pub fn scatter(
    b: &mut Builder,
    algorithm: Algorithm,
    me: Place,
    blocks: &Blocks<'_>,
    root: u32,
    in_place: bool,
) {
    let own = Piece::of(Slot::Recv, 0, blocks.of(me.rank));
    match (algorithm, blocks) {
        (Algorithm::Binomial, Blocks::Equal(count)) => scatter_tree(b, me, *count, root),
        _ if me.rank != root => b.recv(root, &[own]),
        _ => {
            for rank in (0..me.size).filter(|rank| *rank != root) {
                b.send(rank, &[Piece::of(Slot::Send, rank, blocks.of(rank))]);
            }
        }
    }
    if me.rank == root && !in_place {
        b.copy(Piece::of(Slot::Send, root, blocks.of(root)), own);
    }
}

/// The tree of [`gather_tree`], downwards: the largest subtree first.
fn scatter_tree(b: &mut Builder, me: Place, count: u64, root: u32) {
    let own = relative(me, root);
    let below = subtree(own, me.size);
    if own == 0 {
        for distance in doublings(me.size).rev() {
            let blocks = at_root(Slot::Send, me, root, count, distance);
            b.send(absolute(me, root, distance), &blocks);
        }
        return;
    }
    let kept = b.temp(count * u64::from(below - 1));
    let parent = absolute(me, root, own & (own - 1));
    b.recv(parent, &[Piece::of(Slot::Recv, 0, count), kept]);
    for distance in doublings(below).rev() {
        let child = own + distance;
        b.send(
            absolute(me, root, child),
            &[below_own(kept, count, distance, subtree(child, me.size))],
        );
    }
}
