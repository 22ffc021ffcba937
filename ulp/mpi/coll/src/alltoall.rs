//! Exchanges of a block between each two ranks.

use crate::common::{ahead, doublings};
use crate::schedule::{Builder, Peer, Piece, Slot};
use crate::{Algorithm, Blocks, Place};

pub fn build(
    b: &mut Builder,
    algorithm: Algorithm,
    me: Place,
    (send, recv): (&Blocks<'_>, &Blocks<'_>),
    in_place: bool,
) {
    // In place, what is sent is put aside first: any block may come at any time.
    let out: Vec<Piece> = (0..me.size)
        .map(|rank| {
            if in_place {
                let (from, aside) = (
                    Piece::of(Slot::Recv, rank, recv.of(rank)),
                    b.temp(recv.of(rank)),
                );
                if rank != me.rank {
                    b.copy(from, aside);
                }
                aside
            } else {
                Piece::of(Slot::Send, rank, send.of(rank))
            }
        })
        .collect();
    if !in_place {
        b.copy(
            out[me.rank as usize],
            Piece::of(Slot::Recv, me.rank, recv.of(me.rank)),
        );
    }
    match (algorithm, recv) {
        (Algorithm::Bruck, Blocks::Equal(count)) => bruck(b, me, *count, &out),
        (Algorithm::Pairwise, _) => pairwise(b, me, recv, &out),
        _ => linear(b, me, recv, &out),
    }
}

/// Everything at once, beginning behind ourselves.
fn linear(b: &mut Builder, me: Place, recv: &Blocks<'_>, out: &[Piece]) {
    for distance in 1..i64::from(me.size) {
        let from = ahead(me, -distance);
        b.recv(from, &[Piece::of(Slot::Recv, from, recv.of(from))]);
    }
    for distance in 1..i64::from(me.size) {
        let to = ahead(me, distance);
        b.send(to, &[out[to as usize]]);
    }
}

/// One partner in each step (TRG 3.3): of a power of two the rank at exclusive-or distance, else one ahead and one behind. A step begins
/// when what came in the one before is there, so that at most two messages are under way to a rank.
fn pairwise(b: &mut Builder, me: Place, recv: &Blocks<'_>, out: &[Piece]) {
    let mut before: Option<u32> = None;
    for step in 1..me.size {
        let (to, from) = if me.size.is_power_of_two() {
            (me.rank ^ step, me.rank ^ step)
        } else {
            (ahead(me, i64::from(step)), ahead(me, -i64::from(step)))
        };
        let came = b.recv_from(
            Peer::own(from),
            &[Piece::of(Slot::Recv, from, recv.of(from))],
        );
        let went = b.send_to(Peer::own(to), &[out[to as usize]]);
        for node in [came, went].into_iter().flatten() {
            b.after(node, before.as_slice());
        }
        before = came.or(before);
    }
}

/// Bruck et al. (1997; TRG 3.3): a block that has to go d ranks ahead goes in the steps of the bits of d, with all others that go
/// the same step. Fewer messages, each block several times: for short blocks. A block that is under way never comes to where it was
/// sent from, so no message waits for another one's place.
fn bruck(b: &mut Builder, me: Place, count: u64, out: &[Piece]) {
    let spares: [Vec<Piece>; 2] =
        std::array::from_fn(|_| (1..me.size).map(|_| b.temp(count)).collect());
    // Where the block is now that has so far to go (from 1 on), and which of its spares comes next.
    let mut at: Vec<(Piece, usize)> = (1..i64::from(me.size))
        .map(|distance| (out[ahead(me, distance) as usize], 0))
        .collect();
    for step in doublings(me.size) {
        let moving: Vec<u32> = (1..me.size)
            .filter(|distance| distance & step != 0)
            .collect();
        let places: Vec<Piece> = moving
            .iter()
            .map(|distance| at[*distance as usize - 1].0)
            .collect();
        let came: Vec<Piece> = moving
            .iter()
            .map(|distance| {
                let (_, spare) = at[*distance as usize - 1];
                // The last of its steps: it has come from the rank that it was for us from.
                if distance >> step.trailing_zeros() == 1 {
                    Piece::of(Slot::Recv, ahead(me, -i64::from(*distance)), count)
                } else {
                    spares[spare][*distance as usize - 1]
                }
            })
            .collect();
        b.send(ahead(me, i64::from(step)), &places);
        b.recv(ahead(me, -i64::from(step)), &came);
        for (distance, place) in moving.into_iter().zip(came) {
            let (now, spare) = &mut at[distance as usize - 1];
            *now = place;
            *spare ^= 1;
        }
    }
}
