//! Operations of ranks that share memory: for which there is room. They have no schedule: whoever
//! executes one has a slot for each rank, which that rank alone writes and all read.

use crate::{Blocks, Collective, Place};

impl Collective<'_> {
    /// Units that a rank tells in shared memory, if it tells something: those of its slot.
    pub fn told(&self, me: Place) -> u64 {
        let all = |blocks: &Blocks<'_>| blocks.before(me.size);
        let longest =
            |blocks: &Blocks<'_>| (0..me.size).map(|rank| blocks.of(rank)).max().unwrap_or(0);
        match self {
            Collective::Barrier => 0,
            Collective::Bcast { count, .. }
            | Collective::Reduce { count, .. }
            | Collective::Allreduce { count, .. }
            | Collective::Scan { count, .. } => *count,
            Collective::Gather { blocks, .. } | Collective::Allgather { blocks, .. } => {
                longest(blocks)
            }
            Collective::Scatter { blocks, .. } | Collective::ReduceScatter { blocks, .. } => {
                all(blocks)
            }
            Collective::Alltoall { recv, .. } => all(recv),
        }
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
    me.shared_units > 0 && known && collective.told(me) <= me.shared_units
}
