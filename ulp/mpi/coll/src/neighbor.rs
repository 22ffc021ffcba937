//! Neighbourhood collectives: along the edges of a topology.
//!
//! Block `i` of `Send` goes to destination `i`, block `i` of `Recv` comes from source `i`. A process may be its own neighbour, and the same
//! rank may be a neighbour several times: then messages match in the order of the lists. In a Cartesian topology, where the neighbours of
//! dimension `d` are entries `2d` (towards lower coordinates) and `2d + 1`, what was sent downwards comes in from above: with one or
//! two processes in a periodic dimension that is the only thing that tells the two apart, so receives are posted upper neighbour first.

use crate::schedule::{Builder, Peer, Piece, Schedule, Slot};
use crate::{Blocks, BuildError, Place};

/// Who the neighbours are; `None` is MPI_PROC_NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbors<'a> {
    /// Where messages come from.
    pub sources: &'a [Option<u32>],
    /// Where messages go.
    pub destinations: &'a [Option<u32>],
    /// The topology is Cartesian: both lists are the same, two entries for each dimension.
    pub cartesian: bool,
}

/// What is exchanged. Blocks are counted by neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeighborCollective<'a> {
    /// MPI_Neighbor_allgather and v: block 0 of `Send` goes to each destination.
    Allgather {
        /// Units of `Send`.
        count: u64,
        /// Lengths of what comes.
        recv: Blocks<'a>,
    },
    /// MPI_Neighbor_alltoall, v and w.
    Alltoall {
        /// Lengths of what goes.
        send: Blocks<'a>,
        /// Lengths of what comes.
        recv: Blocks<'a>,
    },
}

/// The schedule of a neighbourhood collective: everything at once, whatever is connected with what.
pub fn build_neighbor(
    collective: &NeighborCollective<'_>,
    neighbors: &Neighbors<'_>,
    me: Place,
) -> Result<Schedule, BuildError> {
    let (sources, destinations) = (neighbors.sources, neighbors.destinations);
    let inside = |list: &[Option<u32>]| list.iter().flatten().all(|rank| *rank < me.size);
    let lengths = |list: &[Option<u32>]| u32::try_from(list.len()).map_err(|_| BuildError::Shape);
    let (incoming, outgoing) = (lengths(sources)?, lengths(destinations)?);
    let fits = match collective {
        NeighborCollective::Allgather { recv, .. } => recv.fits(incoming),
        NeighborCollective::Alltoall { send, recv } => send.fits(outgoing) && recv.fits(incoming),
    };
    let paired = !neighbors.cartesian || (sources == destinations && incoming.is_multiple_of(2));
    if me.rank >= me.size || !inside(sources) || !inside(destinations) || !fits || !paired {
        return Err(BuildError::Shape);
    }
    let mut b = Builder::default();
    for at in 0..incoming {
        // Upper before lower neighbour of each dimension.
        let at = if neighbors.cartesian { at ^ 1 } else { at };
        let recv = match collective {
            NeighborCollective::Allgather { recv, .. }
            | NeighborCollective::Alltoall { recv, .. } => recv,
        };
        if let Some(rank) = sources[at as usize] {
            b.recv_from(Peer::own(rank), &[Piece::of(Slot::Recv, at, recv.of(at))]);
        }
    }
    for at in 0..outgoing {
        let piece = match collective {
            NeighborCollective::Allgather { count, .. } => Piece::of(Slot::Send, 0, *count),
            NeighborCollective::Alltoall { send, .. } => Piece::of(Slot::Send, at, send.of(at)),
        };
        if let Some(rank) = destinations[at as usize] {
            b.send_to(Peer::own(rank), &[piece]);
        }
    }
    Ok(b.finish())
}
