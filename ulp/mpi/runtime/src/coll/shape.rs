//! How collectives that have prepared their blocks are done in shared memory.
//!
//! Owns: whether the table wants that, and what decides about it. Must not know: where the blocks
//! lie, and how they are told.

use super::shared::Sharing;
use crate::coll::state::Guard;
use ferriband_mpi_coll::{Algorithm, Collective, Place};
use ferriband_mpi_proto::segment::HALF;

/// How a collective is done in shared memory.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// What the ranks do.
    pub what: What,
    /// Bytes that each rank tells which tells something.
    pub told: usize,
}

/// What the ranks do.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// All tell the root.
    Gather,
    /// The root tells all.
    Scatter {
        /// Its rank.
        root: u32,
    },
    /// All tell all.
    Allgather,
    /// All tell all; this rank's result begins so many bytes into the vector, and has so many.
    ReduceScatter {
        /// Its first byte.
        at: usize,
        /// Its bytes.
        length: usize,
    },
    /// All tell those behind them.
    Scan {
        /// Without the own operand.
        exclusive: bool,
    },
}

impl Shape {
    /// Where in what each rank tells this rank's result lies, and its bytes.
    pub fn part(&self) -> (usize, usize) {
        match self.what {
            What::ReduceScatter { at, length } => (at, length),
            _ => (0, self.told),
        }
    }
}

/// How the blocking call under way does a collective in memory that the ranks of the
/// communicator at `comm` share, if the table says that it goes there. `bytes` and `unit` as
/// for [`super::state::Mpi::schedule`].
pub fn shape(
    guard: &Guard,
    comm: u32,
    collective: &Collective<'_>,
    bytes: u64,
    unit: usize,
) -> Option<Shape> {
    let Sharing::Part(area) = &guard.coll.comms[comm].sharing else {
        return None;
    };
    let (me, size) = area.place();
    let in_bytes = |units: u64| units as usize * unit;
    let what = match *collective {
        Collective::Gather { .. } => What::Gather,
        Collective::Scatter { root, .. } => What::Scatter { root },
        Collective::Allgather { .. } => What::Allgather,
        Collective::ReduceScatter { blocks, .. } => What::ReduceScatter {
            at: in_bytes((0..me).map(|rank| blocks.of(rank)).sum()),
            length: in_bytes(blocks.of(me)),
        },
        Collective::Scan { exclusive, .. } => What::Scan { exclusive },
        _ => return None,
    };
    let place = Place {
        shared_units: u64::from(HALF) / unit.max(1) as u64,
        ..Place::new(me, size)
    };
    let chosen = guard
        .table()
        .choose(collective, place, bytes, area.is_crowded());
    (guard.blocks && chosen == Algorithm::Shared).then(|| Shape {
        what,
        told: in_bytes(collective.told(place)),
    })
}
