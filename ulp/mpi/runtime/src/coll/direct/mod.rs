//! Broadcasts, reductions and exchanges of ranks that share memory, without a schedule: where a
//! message between two ranks takes a tenth of a microsecond, to find a schedule and to follow it
//! takes as long again.
//!
//! The table says up to how many bytes (`shm`). What a rank has to say it tells in its cell, or in
//! its slot with the cell's number for flag, and others read it there. What is longer than a slot
//! goes piece by piece, each one a collective of its own to [`Area`], so that one is filled while
//! the one before is read.

mod allreduce;
mod alltoall;
pub mod blocks;
mod reduce;

pub use allreduce::allreduce;
pub use alltoall::alltoall;
pub use reduce::reduce;

use crate::coll::shared::{Sharing, broken, reach, take};
use crate::coll::state::Guard;
use crate::coll::state::Mpi;
use crate::constants::MPI_ERR_NO_MEM;
use crate::errors::{MpiError, Outcome};
use crate::ground::memory::{Sink, Source};
use crate::transport::shm::area::Area;
use ferriband_mpi_coll::tuning::Table;
use ferriband_mpi_coll::{Algorithm, Blocks, Collective, Place};
use ferriband_mpi_proto::segment::HALF;

/// What is done here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// MPI_Bcast.
    Bcast,
    /// MPI_Allreduce.
    Allreduce,
    /// MPI_Alltoall.
    Alltoall,
    /// MPI_Reduce.
    Reduce,
}

/// No more bytes than this, from rank to rank.
const MOST: u64 = 65536;
/// What does not fit into half a slot goes in pieces of these bytes.
const PIECE: usize = HALF as usize / 2;
/// What is so long, and does not fit into a cell, is exchanged by pairs.
const EXCHANGED: usize = 64;
/// Where cores are short, so long vectors are combined by owners of their parts.
const OWNED: usize = 4096;

/// For each [`Kind`] up to how many bytes the table wants shared memory, asked for powers of two;
/// as if slots had room for all of it, where cores are not short.
pub fn limits(table: &Table, area: &Area) -> [u64; 4] {
    let (me, size) = area.place();
    // Where cores are short, each piece would be a turn on a core.
    let most = if area.is_crowded() {
        area.most() as u64
    } else {
        MOST
    };
    limits_of(table, (me, size), area.is_crowded(), most)
}

fn limits_of(table: &Table, (me, size): (u32, u32), crowded: bool, longest: u64) -> [u64; 4] {
    let limit = |kind| {
        let mut most = 0;
        let mut bytes = 1;
        while bytes <= longest {
            let collective = match kind {
                Kind::Bcast => Collective::Bcast {
                    count: bytes,
                    root: 0,
                },
                Kind::Allreduce => Collective::Allreduce {
                    count: bytes,
                    commutative: true,
                    in_place: false,
                },
                Kind::Alltoall => Collective::Alltoall {
                    send: Blocks::Equal(bytes),
                    recv: Blocks::Equal(bytes),
                    in_place: false,
                },
                Kind::Reduce => Collective::Reduce {
                    count: bytes,
                    root: 0,
                    commutative: true,
                    in_place: false,
                },
            };
            let place = Place {
                shared_units: if longest > u64::from(HALF) {
                    MOST * u64::from(size)
                } else {
                    longest
                },
                ..Place::new(me, size)
            };
            if table.choose(&collective, place, bytes, crowded) != Algorithm::Shared {
                break;
            }
            most = bytes;
            bytes *= 2;
        }
        most
    };
    [Kind::Bcast, Kind::Allreduce, Kind::Alltoall, Kind::Reduce].map(limit)
}

impl Mpi {
    /// Whether the communicator at `comm` does this here, for so many bytes. All its ranks come to
    /// the same answer.
    #[inline]
    pub fn is_direct(&self, comm: u32, kind: Kind, bytes: usize) -> bool {
        matches!(&self.coll.comms[comm].sharing, Sharing::Part(area) if bytes as u64 <= area.direct[kind as usize])
    }
}

/// Runs something with the communicator's part.
#[inline(always)]
fn with(
    guard: &mut Guard,
    comm: u32,
    body: impl FnOnce(&mut Guard, &mut Area) -> Outcome,
) -> Outcome {
    guard.check_whole(comm)?;
    let mut area = take(guard, comm)?;
    let outcome = body(guard, &mut area);
    guard.coll.comms[comm].sharing = Sharing::Part(area);
    outcome
}

/// Tells `length` bytes, which `fill` writes.
#[inline(always)]
fn tell(
    guard: &mut Guard,
    comm: u32,
    area: &mut Area,
    length: usize,
    fill: impl FnOnce(&Sink),
) -> Outcome {
    let sink = room(guard, comm, area, length)?;
    fill(&sink);
    told(guard, area)
}

/// Where this rank tells `length` bytes, once nobody reads there any more.
#[inline(always)]
fn room(guard: &mut Guard, comm: u32, area: &mut Area, length: usize) -> Outcome<Sink> {
    while let Some(reader) = area.hindrance(length) {
        reach(guard, comm, reader)?;
    }
    let host = guard.transports.host.as_ref().ok_or_else(broken)?;
    area.telling(host, length).map_err(no_memory)
}

#[cold]
fn no_memory(error: std::io::Error) -> MpiError {
    MpiError::with(MPI_ERR_NO_MEM, error.to_string())
}

/// What this rank has to tell lies there.
#[inline(always)]
fn told(guard: &Guard, area: &mut Area) -> Outcome {
    area.tell(guard.transports.host.as_ref().ok_or_else(broken)?);
    Ok(())
}

/// Begins an exchange, and gives each other rank its bytes.
fn give_all(
    guard: &mut Guard,
    comm: u32,
    area: &mut Area,
    bytes: impl Fn(u32) -> Source,
) -> Outcome {
    let (me, size) = area.place();
    area.begin_exchange();
    for rank in (0..size).filter(|rank| *rank != me) {
        let bytes = bytes(rank);
        let host = guard.transports.host.as_ref().ok_or_else(broken)?;
        let place = area.giving(host, rank, bytes.len()).map_err(no_memory)?;
        bytes.copy_to(&place);
    }
    tell(guard, comm, area, 0, |_| ())
}

/// What another rank tells, `length` bytes.
#[inline(always)]
fn hear(
    guard: &mut Guard,
    comm: u32,
    area: &mut Area,
    rank: u32,
    length: usize,
) -> Outcome<Source> {
    let awaited = area.telling_of(rank);
    reach(guard, comm, awaited)?;
    Ok(area.heard(rank, length, false))
}

/// What each other rank tells, in the order in which they come: who has told something is not kept
/// waiting by who has not.
#[inline(always)]
fn hear_all(
    guard: &mut Guard,
    comm: u32,
    area: &mut Area,
    mut take: impl FnMut(&mut Guard, &mut Area, u32),
) -> Outcome {
    let (me, size) = area.place();
    // A bit for each that is awaited: a communicator that shares has no more ranks.
    let mut awaited = u128::MAX >> (128 - size) & !(1 << me);
    while awaited != 0 {
        let before = awaited;
        // From the next rank on, so that not all begin with the same one.
        for distance in 1..size {
            let rank = (me + distance) % size;
            if awaited & 1 << rank == 0 || !area.telling_of(rank).is_reached() {
                continue;
            }
            awaited &= !(1 << rank);
            take(guard, area, rank);
        }
        if awaited == before {
            let after = awaited.checked_shr(me + 1).unwrap_or(0);
            let rank = match after {
                0 => awaited.trailing_zeros(),
                after => me + 1 + after.trailing_zeros(),
            };
            reach(guard, comm, area.telling_of(rank))?;
        }
    }
    Ok(())
}

/// Waits for what the others told of the collective before the one under way, where all tell one
/// ahead.
fn hear_before(
    guard: &mut Guard,
    comm: u32,
    area: &mut Area,
    rank: u32,
    length: usize,
) -> Outcome<Source> {
    let awaited = area.looking_back(|area| area.telling_of(rank));
    reach(guard, comm, awaited)?;
    Ok(area.looking_back(|area| area.heard(rank, length, true)))
}

/// Bytes of a piece of what takes `length` bytes of a slot, for units of `unit` bytes, where pieces
/// of `most` bytes are best.
fn piece(length: usize, unit: usize, most: usize) -> usize {
    if length <= most {
        length.max(1)
    } else {
        most / unit * unit
    }
}

/// How long pieces should be. Where cores are short, what fits goes at once: each piece is a turn
/// on a core.
fn best_piece(area: &Area) -> usize {
    if area.is_crowded() {
        area.most()
    } else {
        PIECE
    }
}

/// The root's bytes to all.
pub fn bcast(guard: &mut Guard, comm: u32, root: u32, place: Sink) -> Outcome {
    with(guard, comm, |guard, area| {
        let (me, _) = area.place();
        let step = piece(place.len(), 1, best_piece(area));
        for at in (0..place.len().max(1)).step_by(step) {
            let part = place.part(at, step.min(place.len() - at));
            area.begin_for(part.len());
            if me == root {
                tell(guard, comm, area, part.len(), |sink| {
                    part.source().copy_to(sink);
                })?;
            } else {
                hear(guard, comm, area, root, part.len())?.copy_to(&part);
            }
            if let Some(host) = &guard.transports.host {
                area.pass(host);
            }
        }
        Ok(())
    })
}

/// Whether what this rank sends can be combined where the program has it: the result does not come
/// there, or no sooner than in the step that reads it. What this rank has just written to its slot
/// would come from stores that still wait for their lines, and so costs as much again as all else.
fn stays_until_read((me, size): (u32, u32), send: &Source, recv: &Sink) -> bool {
    me + 2 >= size || send.address() != recv.source().address()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_how_far() {
        let table = Table::default();
        let [bcast, allreduce, alltoall, reduce] = limits_of(&table, (0, 2), false, MOST);
        assert!(bcast >= 16384 && allreduce >= 16384 && alltoall >= 16384 && reduce >= 16384);
        let mut other = table;
        other.prefer(ferriband_mpi_coll::Kind::Allreduce, Algorithm::Ring);
        assert_eq!(
            limits_of(&other, (0, 2), false, MOST),
            [bcast, 0, alltoall, reduce]
        );
    }

    #[test]
    fn pieces_are_of_whole_elements() {
        assert_eq!(piece(0, 8, PIECE), 1);
        assert_eq!(piece(PIECE, 8, PIECE), PIECE);
        assert_eq!(piece(PIECE + 1, 24, PIECE) % 24, 0);
    }
}
