//! Which schedule a collective gets: the tuning table's algorithm, and the schedules that were used last.

use super::state::Mpi;
use crate::constants::{MPI_ERR_INTERN, MPI_ERR_OTHER};
use crate::errors::{MpiError, Outcome};
use ferriband_mpi_coll::tuning::Table;
use ferriband_mpi_coll::{Algorithm, Blocks, Collective, Kind, Place, Schedule, build};
use std::path::Path;
use std::sync::Arc;

/// Schedules that are kept.
const KEPT: usize = 32;

/// Bytes of a segment of pipelined algorithms.
const SEGMENT: usize = 8192;

/// Schedules by what they were built from, the one that was used last in front.
#[derive(Default)]
pub struct Kept {
    list: Vec<(Key, Arc<Schedule>)>,
    table: Table,
}

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

/// The table of a file, or the built-in one, with preferences like `allreduce=ring,barrier=pairwise` before its rows.
pub fn table(preferred: &str, file: Option<&Path>) -> Outcome<Table> {
    let wrong = |name: &str, value: &str, why: &str| {
        MpiError::with(
            MPI_ERR_OTHER,
            format!("FERRIBAND_MPI_{name}={value}: {why}"),
        )
    };
    let mut table = match file {
        None => Table::default(),
        Some(path) => {
            let name = path.display().to_string();
            let text = std::fs::read_to_string(path)
                .map_err(|error| wrong("COLL_TABLE", &name, &error.to_string()))?;
            Table::parse(&text).map_err(|error| wrong("COLL_TABLE", &name, &error.to_string()))?
        }
    };
    for word in preferred.split(',').filter(|word| !word.is_empty()) {
        let (kind, algorithm) = word.split_once('=').unwrap_or((word, ""));
        let Some(kind) = Kind::from_name(kind) else {
            let names = Kind::ALL.map(Kind::name).join(", ");
            let why = format!("it can be OPERATION=ALGORITHM, of {names}");
            return Err(wrong("COLL", word, &why));
        };
        let Some(found) = Algorithm::from_name(algorithm)
            .filter(|algorithm| kind.algorithms().contains(algorithm))
        else {
            let names = kind.algorithms().iter().map(|one| one.name());
            let names = names.collect::<Vec<_>>().join(", ");
            let why = format!("the algorithms of {} are {names}", kind.name());
            return Err(wrong("COLL", word, &why));
        };
        table.prefer(kind, found);
    }
    Ok(table)
}

impl Mpi {
    /// The table.
    pub fn table(&self) -> &Table {
        &self.coll.schedules.table
    }

    /// Takes another table.
    pub fn set_table(&mut self, table: Table) {
        self.coll.schedules.table = table;
    }

    /// The schedule of a collective on the communicator at `comm`. `bytes` is what the table is asked with, `unit` the bytes of a unit: both
    /// must be the same at all ranks. `whole`: as of [`Place`].
    pub fn schedule(
        &mut self,
        comm: u32,
        collective: &Collective<'_>,
        bytes: u64,
        unit: usize,
        whole: bool,
    ) -> Outcome<Arc<Schedule>> {
        let crowded = self.is_crowded(comm);
        let entry = &self.point.objects.comms[comm];
        let me = Place {
            segment: (SEGMENT / unit.max(1)).max(1) as u64,
            whole,
            ..Place::new(entry.rank, entry.group.size())
        };
        let algorithm = self
            .coll
            .schedules
            .table
            .choose(collective, me, bytes, crowded);
        let key = key(collective, algorithm, me);
        let kept = &mut self.coll.schedules.list;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferences_stand_first_and_nonsense_is_named() {
        let ring = table("allreduce=ring,", None).expect("there is one");
        assert_ne!(ring, Table::default());
        assert_eq!(table("", None).expect("built in"), Table::default());
        for bad in [
            "allreduce",
            "allreduce=pairwise",
            "x=ring",
            "allreduce=ring,bcast=ring",
        ] {
            let error = table(bad, None).expect_err("no such thing");
            assert!(error.text.starts_with("FERRIBAND_MPI_COLL="), "{bad}");
        }
        assert!(table("", Some(Path::new("/nowhere/at/all"))).is_err());
    }
}
