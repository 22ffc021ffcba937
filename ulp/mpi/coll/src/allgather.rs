//! Gathering at all ranks. All know all lengths.

use crate::common::{ahead, doublings};
use crate::schedule::{Builder, Piece, Slot};
use crate::{Algorithm, Blocks, Place};

pub fn build(
    b: &mut Builder,
    algorithm: Algorithm,
    me: Place,
    blocks: &Blocks<'_>,
    in_place: bool,
) {
    if !in_place {
        let own = Piece::of(Slot::Send, 0, blocks.of(me.rank));
        b.copy(own, block(blocks, me.rank));
    }
    match algorithm {
        Algorithm::Linear => linear(b, me, blocks),
        Algorithm::Bruck => bruck(b, me, blocks),
        Algorithm::RecursiveDoubling => recursive_doubling(b, me, blocks),
        Algorithm::NeighborExchange => neighbor_exchange(b, me, blocks),
        _ => ring(b, me, blocks),
    }
}

/// A rank's block of the receive buffer.
fn block(blocks: &Blocks<'_>, rank: u32) -> Piece {
    Piece::of(Slot::Recv, rank, blocks.of(rank))
}

/// `count` blocks from a rank on, round the ring.
fn run(me: Place, blocks: &Blocks<'_>, first: u32, count: u32) -> Vec<Piece> {
    (0..count)
        .map(|at| block(blocks, (first + at) % me.size))
        .collect()
}

/// Everybody sends its block to everybody, beginning behind itself, so that not all send to one at once.
fn linear(b: &mut Builder, me: Place, blocks: &Blocks<'_>) {
    for distance in 1..i64::from(me.size) {
        let from = ahead(me, -distance);
        b.recv(from, &[block(blocks, from)]);
        b.send(ahead(me, distance), &[block(blocks, me.rank)]);
    }
}

/// In step s a rank passes the block of the rank s behind it on to the next (TRG 3.1).
fn ring(b: &mut Builder, me: Place, blocks: &Blocks<'_>) {
    for step in 0..i64::from(me.size) - 1 {
        b.send(ahead(me, 1), &[block(blocks, ahead(me, -step))]);
        b.recv(ahead(me, -1), &[block(blocks, ahead(me, -step - 1))]);
    }
}

/// Pairs exchange what they have, at doubling distances (TRG 3.1). Powers of two.
fn recursive_doubling(b: &mut Builder, me: Place, blocks: &Blocks<'_>) {
    for distance in doublings(me.size) {
        let group = me.rank & !(distance - 1);
        b.send(me.rank ^ distance, &run(me, blocks, group, distance));
        b.recv(
            me.rank ^ distance,
            &run(me, blocks, group ^ distance, distance),
        );
    }
}

/// Bruck et al. (1997; TRG 3.1): a rank that has the blocks of itself and the next d - 1 ranks gets those of the d after them from
/// the rank d ahead. Any number of ranks in the same number of rounds as a power of two. Blocks go to their places at once: a
/// message is a list of blocks, so nothing needs to be turned round at the end.
fn bruck(b: &mut Builder, me: Place, blocks: &Blocks<'_>) {
    for distance in doublings(me.size) {
        let count = distance.min(me.size - distance);
        let (behind, before) = (
            ahead(me, -i64::from(distance)),
            ahead(me, i64::from(distance)),
        );
        b.send(behind, &run(me, blocks, me.rank, count));
        b.recv(before, &run(me, blocks, before, count));
    }
}

/// Chen et al. (*Performance evaluation of allgather algorithms on terascale Linux cluster with fast Ethernet*, 2005): pairs exchange
/// their blocks; from then on a rank exchanges in turn with its other neighbour and with its partner the two blocks that came last.
/// Half as many steps as the ring, all with neighbours. Even numbers of ranks.
fn neighbor_exchange(b: &mut Builder, me: Place, blocks: &Blocks<'_>) {
    if me.size < 2 {
        return;
    }
    let pair_of = |rank: u32| rank & !1;
    let even = me.rank.is_multiple_of(2);
    let (partner, other) = if even {
        (ahead(me, 1), ahead(me, -1))
    } else {
        (ahead(me, -1), ahead(me, 1))
    };
    b.send(partner, &[block(blocks, me.rank)]);
    b.recv(partner, &[block(blocks, partner)]);
    // Step s brings the pair s/2 away: odd steps from the other neighbour's side, even ones from the partner's.
    let pairs = i64::from(me.size / 2);
    let pair = |distance: i64| {
        let at = (i64::from(pair_of(me.rank) / 2) + distance).rem_euclid(pairs);
        run(me, blocks, 2 * at as u32, 2)
    };
    let outwards = if even { -1 } else { 1 };
    let mut last = pair(0);
    for step in 1..pairs {
        let (neighbor, side) = if step % 2 == 1 {
            (other, outwards)
        } else {
            (partner, -outwards)
        };
        let next = pair(side * ((step + 1) / 2));
        b.send(neighbor, &last);
        b.recv(neighbor, &next);
        last = next;
    }
}
