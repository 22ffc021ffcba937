//! Which schedule a collective gets: the tuning table's algorithm, and the schedules that were used last.

use crate::constants::MPI_ERR_INTERN;
use crate::errors::{MpiError, Outcome};
use crate::runtime::Runtime;
use ferriband_mpi_coll::tuning::Table;
use ferriband_mpi_coll::{Algorithm, Blocks, Collective, Kind, Place, Schedule, build};
use std::sync::{Arc, OnceLock};

/// Schedules that are kept.
const KEPT: usize = 8;

/// Bytes of a segment of pipelined algorithms.
const SEGMENT: usize = 8192;

/// Schedules by what they were built from, the one that was used last in front.
#[derive(Default)]
pub struct Kept(Vec<(Key, Arc<Schedule>)>);

/// What decides about a schedule, of operations whose blocks are equal.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    kind: Kind,
    algorithm: Algorithm,
    rank: u32,
    size: u32,
    segment: u64,
    count: u64,
    root: u32,
    flags: [bool; 3],
}

fn key(collective: &Collective<'_>, algorithm: Algorithm, me: Place) -> Option<Key> {
    let of = |count, root, flags| Key {
        kind: collective.kind(),
        algorithm,
        rank: me.rank,
        size: me.size,
        segment: me.segment,
        count,
        root,
        flags,
    };
    Some(match *collective {
        Collective::Barrier => of(0, 0, [false; 3]),
        Collective::Bcast { count, root } => of(count, root, [false; 3]),
        Collective::Reduce {
            count,
            root,
            commutative,
            in_place,
        } => of(count, root, [commutative, in_place, false]),
        Collective::Allreduce {
            count,
            commutative,
            in_place,
        } => of(count, 0, [commutative, in_place, false]),
        Collective::Scan {
            count,
            exclusive,
            commutative,
            in_place,
        } => of(count, 0, [commutative, in_place, exclusive]),
        Collective::Gather {
            blocks: Blocks::Equal(count),
            root,
            in_place,
        }
        | Collective::Scatter {
            blocks: Blocks::Equal(count),
            root,
            in_place,
        } => of(count, root, [in_place, false, false]),
        Collective::Allgather {
            blocks: Blocks::Equal(count),
            in_place,
        } => of(count, 0, [in_place, false, false]),
        Collective::Alltoall {
            recv: Blocks::Equal(count),
            send: Blocks::Equal(_),
            in_place,
        } => of(count, 0, [in_place, false, false]),
        Collective::ReduceScatter {
            blocks: Blocks::Equal(count),
            commutative,
            in_place,
        } => of(count, 0, [commutative, in_place, false]),
        _ => return None,
    })
}

impl Runtime {
    /// The schedule of a collective on the communicator at `comm`. `bytes` is what the table is asked with, `unit` the bytes of a unit: both
    /// must be the same at all ranks.
    pub fn schedule(
        &mut self,
        comm: u32,
        collective: &Collective<'_>,
        bytes: u64,
        unit: usize,
    ) -> Outcome<Arc<Schedule>> {
        static TABLE: OnceLock<Table> = OnceLock::new();
        let entry = &self.comms[comm];
        let me = Place {
            segment: (SEGMENT / unit.max(1)).max(1) as u64,
            ..Place::new(entry.rank, entry.group.size())
        };
        // Whether cores are short is each rank's own knowledge, and all must choose alike: the table's other half waits until they agree.
        let algorithm = TABLE
            .get_or_init(Table::default)
            .choose(collective, me, bytes, false);
        let key = key(collective, algorithm, me);
        let kept = &mut self.schedules.0;
        if let Some(at) = key.and_then(|key| kept.iter().position(|(one, _)| *one == key)) {
            kept[..=at].rotate_right(1);
            return Ok(Arc::clone(&kept[0].1));
        }
        let built = build(collective, algorithm, me)
            .map_err(|error| MpiError::with(MPI_ERR_INTERN, error.to_string()))?;
        let built = Arc::new(built);
        if let Some(key) = key {
            kept.truncate(KEPT - 1);
            kept.insert(0, (key, Arc::clone(&built)));
        }
        Ok(built)
    }
}
