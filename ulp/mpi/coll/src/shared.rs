//! Operations of ranks that share memory, as schedules over slots and flags instead of messages.
//!
//! Each rank has a slot that it alone writes and all read. A rank fills its slot, sets flag 0, and reads the slots of those that it needs
//! when their flag 0 is set. A slot may be filled again only when all readers are done: the executor has two halves of each slot and uses them
//! in turn, and before it uses a half again it waits until every rank has passed the operation that used it last. Vectors longer than
//! a slot are cut into pieces by the executor, one operation after the other; here they are not applicable.

use crate::common::{ahead, doublings, input, output};
use crate::schedule::{Builder, Flag, Piece, Slot};
use crate::{Blocks, Collective, Place};

/// Units of its slot that a rank would fill.
fn needed(collective: &Collective<'_>, me: Place) -> u64 {
    let all = |blocks: &Blocks<'_>| blocks.before(me.size);
    let longest = |blocks: &Blocks<'_>| (0..me.size).map(|rank| blocks.of(rank)).max().unwrap_or(0);
    match collective {
        Collective::Barrier => 0,
        Collective::Bcast { count, .. }
        | Collective::Reduce { count, .. }
        | Collective::Allreduce { count, .. }
        | Collective::Scan { count, .. } => *count,
        Collective::Gather { blocks, .. } | Collective::Allgather { blocks, .. } => longest(blocks),
        Collective::Scatter { blocks, .. } | Collective::ReduceScatter { blocks, .. } => {
            all(blocks)
        }
        Collective::Alltoall { recv, .. } => all(recv),
    }
}

/// Everything fits, at every rank: so of blocks only equal ones, or those that all ranks know.
pub fn applicable(collective: &Collective<'_>, me: Place) -> bool {
    let known = match collective {
        Collective::Gather { blocks, .. } | Collective::Scatter { blocks, .. } => {
            matches!(blocks, Blocks::Equal(_))
        }
        Collective::Alltoall {
            send,
            recv,
            in_place,
        } => matches!(recv, Blocks::Equal(_)) && (*in_place || send == recv),
        _ => true,
    };
    me.shared_units > 0 && known && needed(collective, me) <= me.shared_units
}

pub fn build(b: &mut Builder, collective: &Collective<'_>, me: Place) {
    match *collective {
        Collective::Barrier => barrier(b, me),
        Collective::Bcast { count, root } => bcast(b, me, output(count), root),
        Collective::Reduce {
            count,
            root,
            in_place,
            ..
        } => {
            fill(b, me, 0, input(count, in_place && me.rank == root));
            publish(b, me);
            if me.rank == root {
                combine(b, me, 0..me.size, 0..count, output(count));
            }
        }
        Collective::Allreduce {
            count, in_place, ..
        } => {
            fill(b, me, 0, input(count, in_place));
            publish(b, me);
            combine(b, me, 0..me.size, 0..count, output(count));
        }
        Collective::Scan {
            count,
            exclusive,
            in_place,
            ..
        } => {
            fill(b, me, 0, input(count, in_place));
            publish(b, me);
            let end = if exclusive { me.rank } else { me.rank + 1 };
            combine(b, me, 0..end, 0..count, output(count));
        }
        Collective::ReduceScatter {
            blocks, in_place, ..
        } => {
            fill(b, me, 0, input(blocks.before(me.size), in_place));
            publish(b, me);
            let mine = blocks.before(me.rank)..blocks.before(me.rank + 1);
            combine(b, me, 0..me.size, mine, output(blocks.of(me.rank)));
        }
        Collective::Gather {
            blocks,
            root,
            in_place,
        } => {
            let own = Piece::of(Slot::Send, 0, blocks.of(me.rank));
            if me.rank != root {
                fill(b, me, 0, own);
                publish(b, me);
                return;
            }
            if !in_place {
                b.copy(own, Piece::of(Slot::Recv, root, own.count));
            }
            fetch(b, me, |rank| {
                (0, Piece::of(Slot::Recv, rank, blocks.of(rank)))
            });
        }
        Collective::Allgather { blocks, in_place } => {
            let own = Piece::of(Slot::Recv, me.rank, blocks.of(me.rank));
            let given = if in_place {
                own
            } else {
                Piece::of(Slot::Send, 0, own.count)
            };
            fill(b, me, 0, given);
            publish(b, me);
            b.copy(given, own);
            fetch(b, me, |rank| {
                (0, Piece::of(Slot::Recv, rank, blocks.of(rank)))
            });
        }
        Collective::Scatter {
            blocks,
            root,
            in_place,
        } => scatter(b, me, &blocks, root, in_place),
        Collective::Alltoall { recv, in_place, .. } => {
            let slot = if in_place { Slot::Recv } else { Slot::Send };
            let block = |slot, rank| Piece::of(slot, rank, recv.of(rank));
            for rank in 0..me.size {
                fill(b, me, recv.before(rank), block(slot, rank));
            }
            publish(b, me);
            b.copy(block(slot, me.rank), block(Slot::Recv, me.rank));
            fetch(b, me, |rank| {
                (recv.before(me.rank), block(Slot::Recv, rank))
            });
        }
    }
}

/// A rank's slot.
fn slot(rank: u32, at: u64, count: u64) -> Piece {
    Piece {
        slot: Slot::Shared(rank),
        block: 0,
        at,
        count,
    }
}

/// Puts something into our slot.
fn fill(b: &mut Builder, me: Place, at: u64, from: Piece) {
    b.copy(from, slot(me.rank, at, from.count));
}

/// Says that our slot is full.
fn publish(b: &mut Builder, me: Place) {
    b.signal(
        Flag {
            owner: me.rank,
            index: 0,
        },
        &[],
    );
}

/// Takes a piece out of every other rank's slot: from which unit on, and where to.
fn fetch(b: &mut Builder, me: Place, which: impl Fn(u32) -> (u64, Piece)) {
    for distance in 1..i64::from(me.size) {
        let rank = ahead(me, distance);
        let (at, into) = which(rank);
        b.wait(
            Flag {
                owner: rank,
                index: 0,
            },
            &[],
        );
        b.copy(slot(rank, at, into.count), into);
    }
}

/// Combines the same units of the slots of some ranks, in rank order.
fn combine(
    b: &mut Builder,
    me: Place,
    ranks: std::ops::Range<u32>,
    units: std::ops::Range<u64>,
    into: Piece,
) {
    for rank in ranks.clone().rev() {
        if rank != me.rank {
            b.wait(
                Flag {
                    owner: rank,
                    index: 0,
                },
                &[],
            );
        }
        let from = slot(rank, units.start, units.end - units.start);
        if rank + 1 == ranks.end {
            b.copy(from, into)
        } else {
            b.reduce(from, into)
        }
    }
}

fn bcast(b: &mut Builder, me: Place, buffer: Piece, root: u32) {
    if me.rank == root {
        fill(b, me, 0, buffer);
        publish(b, me);
    } else {
        b.wait(
            Flag {
                owner: root,
                index: 0,
            },
            &[],
        );
        b.copy(slot(root, 0, buffer.count), buffer);
    }
}

fn scatter(b: &mut Builder, me: Place, blocks: &Blocks<'_>, root: u32, in_place: bool) {
    let own = Piece::of(Slot::Recv, 0, blocks.of(me.rank));
    if me.rank != root {
        b.wait(
            Flag {
                owner: root,
                index: 0,
            },
            &[],
        );
        b.copy(slot(root, blocks.before(me.rank), own.count), own);
        return;
    }
    for rank in (0..me.size).filter(|rank| *rank != root) {
        fill(
            b,
            me,
            blocks.before(rank),
            Piece::of(Slot::Send, rank, blocks.of(rank)),
        );
    }
    publish(b, me);
    if !in_place {
        b.copy(Piece::of(Slot::Send, root, own.count), own);
    }
}

/// The dissemination barrier by flags: one for each round.
fn barrier(b: &mut Builder, me: Place) {
    let mut came = Vec::new();
    for (round, distance) in (1..).zip(doublings(me.size)) {
        b.signal(
            Flag {
                owner: me.rank,
                index: round,
            },
            &came,
        );
        let owner = ahead(me, -i64::from(distance));
        came = vec![b.wait(
            Flag {
                owner,
                index: round,
            },
            &came,
        )];
    }
}
