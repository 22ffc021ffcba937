//! Operations over an inter-communicator: two groups, and what comes out at one is made from what went in at the other.
//!
//! Rooted ones name the root by [`InterRoot`]. Those that reduce do so within a group first, the two ranks 0 exchange, and the result is
//! spread within the group; messages between the groups are as few as can be, since groups tend to be far apart.

use crate::common::{doublings, input, output};
use crate::reduce::{self, Vector};
use crate::schedule::{Builder, Peer, Piece, Schedule, Slot};
use crate::{Blocks, BuildError, Place, bcast};

/// The root argument of a rooted operation, as MPI orders it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterRoot {
    /// MPI_ROOT: it is this rank.
    Me,
    /// MPI_PROC_NULL: it is another rank of our group, and this one has nothing to do.
    None,
    /// It is this rank of the other group.
    Other(u32),
}

/// An operation between two groups. Blocks of `Each` are counted by the ranks of the other group, but those of a reduce-scatter by ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterCollective<'a> {
    /// MPI_Barrier: nobody leaves before all of the other group have come.
    Barrier,
    /// MPI_Bcast from the root to the other group; the buffer is `Recv` everywhere.
    Bcast {
        /// Units.
        count: u64,
        /// The root.
        root: InterRoot,
    },
    /// What rank 0 of one group has comes to all ranks of both; the buffer is `Recv`.
    Share {
        /// Units.
        count: u64,
        /// Our group's rank 0 has it.
        has_it: bool,
    },
    /// MPI_Reduce of the other group's values to the root.
    Reduce {
        /// Units.
        count: u64,
        /// The root.
        root: InterRoot,
        /// Operands may change places.
        commutative: bool,
    },
    /// MPI_Allreduce: each group gets the result of the other one's values.
    Allreduce {
        /// Units.
        count: u64,
        /// Operands may change places.
        commutative: bool,
    },
    /// MPI_Gather(v) from the other group to the root. Who is not the root knows its own length, which every entry then is.
    Gather {
        /// Lengths.
        blocks: Blocks<'a>,
        /// The root.
        root: InterRoot,
    },
    /// MPI_Scatter(v) from the root to the other group.
    Scatter {
        /// Lengths.
        blocks: Blocks<'a>,
        /// The root.
        root: InterRoot,
    },
    /// MPI_Allgather(v): each group gets the other one's blocks.
    Allgather {
        /// Units of `Send`.
        count: u64,
        /// Lengths of what comes.
        recv: Blocks<'a>,
    },
    /// MPI_Alltoall, v and w, between the groups.
    Alltoall {
        /// Lengths of what goes.
        send: Blocks<'a>,
        /// Lengths of what comes.
        recv: Blocks<'a>,
    },
    /// MPI_Reduce_scatter(_block): the result of the other group's values is scattered over ours. Both groups have as many units.
    ReduceScatter {
        /// Lengths of the results of our group.
        blocks: Blocks<'a>,
        /// Operands may change places.
        commutative: bool,
    },
}

/// The schedule of an operation between our group (`me`) and another of `other` ranks.
pub fn build_inter(
    collective: &InterCollective<'_>,
    me: Place,
    other: u32,
) -> Result<Schedule, BuildError> {
    if me.rank >= me.size || other == 0 || !fits(collective, me, other) {
        return Err(BuildError::Shape);
    }
    let mut b = Builder::default();
    match *collective {
        InterCollective::Barrier => barrier(&mut b, me),
        InterCollective::Bcast { count, root } => bcast(&mut b, me, output(count), root),
        InterCollective::Share { count, has_it } => share(&mut b, me, output(count), has_it),
        InterCollective::Reduce {
            count,
            root,
            commutative,
        } => {
            rooted_reduce(
                &mut b,
                me,
                Vector {
                    count,
                    commutative,
                    in_place: false,
                },
                root,
            );
        }
        InterCollective::Allreduce { count, commutative } => {
            let vector = Vector {
                count,
                commutative,
                in_place: false,
            };
            exchange_reduced(&mut b, me, vector, output(count));
            bcast::binomial(&mut b, me, output(count), 0);
        }
        InterCollective::Gather { blocks, root } => match root {
            InterRoot::None => (),
            InterRoot::Me => all_from(&mut b, other, &blocks),
            InterRoot::Other(rank) => {
                b.send_to(Peer::other(rank), &[Piece::of(Slot::Send, 0, blocks.of(0))]);
            }
        },
        InterCollective::Scatter { blocks, root } => match root {
            InterRoot::None => (),
            InterRoot::Me => all_to(&mut b, other, |rank| {
                Piece::of(Slot::Send, rank, blocks.of(rank))
            }),
            InterRoot::Other(rank) => {
                b.recv_from(Peer::other(rank), &[Piece::of(Slot::Recv, 0, blocks.of(0))]);
            }
        },
        InterCollective::Allgather { count, recv } => {
            all_from(&mut b, other, &recv);
            all_to(&mut b, other, |_| Piece::of(Slot::Send, 0, count));
        }
        InterCollective::Alltoall { send, recv } => {
            all_from(&mut b, other, &recv);
            all_to(&mut b, other, |rank| {
                Piece::of(Slot::Send, rank, send.of(rank))
            });
        }
        InterCollective::ReduceScatter {
            blocks,
            commutative,
        } => {
            let vector = Vector {
                count: blocks.before(me.size),
                commutative,
                in_place: false,
            };
            reduce_scatter(&mut b, me, &blocks, vector);
        }
    }
    Ok(b.finish())
}

fn fits(collective: &InterCollective<'_>, me: Place, other: u32) -> bool {
    let root_fits = |root: &InterRoot| !matches!(root, InterRoot::Other(rank) if *rank >= other);
    match collective {
        InterCollective::Barrier
        | InterCollective::Share { .. }
        | InterCollective::Allreduce { .. } => true,
        InterCollective::Bcast { root, .. } | InterCollective::Reduce { root, .. } => {
            root_fits(root)
        }
        InterCollective::Gather { blocks, root } | InterCollective::Scatter { blocks, root } => {
            root_fits(root) && (*root != InterRoot::Me || blocks.fits(other))
        }
        InterCollective::Allgather { recv, .. } => recv.fits(other),
        InterCollective::Alltoall { send, recv } => send.fits(other) && recv.fits(other),
        InterCollective::ReduceScatter { blocks, .. } => blocks.fits(me.size),
    }
}

/// Notices go up a binomial tree to rank 0, between the two ranks 0, and down again.
fn barrier(b: &mut Builder, me: Place) {
    let below: Vec<u32> = doublings(crate::common::subtree(me.rank, me.size)).collect();
    let mut came: Vec<u32> = below
        .iter()
        .map(|distance| b.await_notice(Peer::own(me.rank + distance), &[]))
        .collect();
    let above = if me.rank == 0 {
        Peer::other(0)
    } else {
        Peer::own(me.rank & (me.rank - 1))
    };
    b.notify(above, &came);
    came.push(b.await_notice(above, &came));
    for distance in below.iter().rev() {
        b.notify(Peer::own(me.rank + distance), &came);
    }
}

/// To rank 0 of the other group, and from there down a tree.
fn bcast(b: &mut Builder, me: Place, buffer: Piece, root: InterRoot) {
    match root {
        InterRoot::None => (),
        InterRoot::Me => {
            b.send_to(Peer::other(0), &[buffer]);
        }
        InterRoot::Other(rank) => {
            if me.rank == 0 {
                b.recv_from(Peer::other(rank), &[buffer]);
            }
            bcast::binomial(b, me, buffer, 0);
        }
    }
}

/// Between the two ranks 0, and down a tree on both sides.
fn share(b: &mut Builder, me: Place, buffer: Piece, has_it: bool) {
    if me.rank == 0 && has_it {
        b.send_to(Peer::other(0), &[buffer]);
    } else if me.rank == 0 {
        b.recv_from(Peer::other(0), &[buffer]);
    }
    bcast::binomial(b, me, buffer, 0);
}

/// To rank 0 within the group, and from there to the root.
fn rooted_reduce(b: &mut Builder, me: Place, vector: Vector, root: InterRoot) {
    match root {
        InterRoot::None => (),
        InterRoot::Me => {
            b.recv_from(Peer::other(0), &[output(vector.count)]);
        }
        InterRoot::Other(rank) => {
            let buffers = [b.temp(vector.count), b.temp(vector.count)];
            reduce::binomial(b, me, vector, input(vector.count, false), 0, buffers);
            if me.rank == 0 {
                b.send_to(Peer::other(rank), &[buffers[0]]);
            }
        }
    }
}

/// Our group's result goes to rank 0 of the other, the other one's comes to ours, into `result`.
fn exchange_reduced(b: &mut Builder, me: Place, vector: Vector, result: Piece) {
    let buffers = [b.temp(vector.count), b.temp(vector.count)];
    reduce::binomial(b, me, vector, input(vector.count, false), 0, buffers);
    if me.rank == 0 {
        b.send_to(Peer::other(0), &[buffers[0]]);
        b.recv_from(Peer::other(0), &[result]);
    }
}

fn reduce_scatter(b: &mut Builder, me: Place, blocks: &Blocks<'_>, vector: Vector) {
    let all = b.temp(if me.rank == 0 { vector.count } else { 0 });
    let own = Piece::of(Slot::Recv, 0, blocks.of(me.rank));
    let whole = Piece {
        count: vector.count,
        ..all
    };
    exchange_reduced(b, me, vector, whole);
    if me.rank > 0 {
        b.recv(0, &[own]);
        return;
    }
    for rank in (0..me.size).rev() {
        let part = all.part(blocks.before(rank)..blocks.before(rank + 1));
        if rank == 0 {
            b.copy(part, own)
        } else {
            b.send(rank, &[part])
        }
    }
}

fn all_from(b: &mut Builder, other: u32, blocks: &Blocks<'_>) {
    for rank in 0..other {
        b.recv_from(
            Peer::other(rank),
            &[Piece::of(Slot::Recv, rank, blocks.of(rank))],
        );
    }
}

fn all_to(b: &mut Builder, other: u32, piece: impl Fn(u32) -> Piece) {
    for rank in 0..other {
        b.send_to(Peer::other(rank), &[piece(rank)]);
    }
}
