//! Broadcasts, all-reductions and exchanges of ranks that share memory, without a schedule: where a message between two ranks takes a tenth of a microsecond, to find a schedule and to
//! follow it takes as long again.
//!
//! They are done as their schedules over slots would do them (`shm` in the table, which decides as it does for those): what a rank has to say it tells in its cell, or its slot with
//! the cell's number for flag, and others read it there. What is longer than a slot goes piece by piece, each one a collective of its own to [`Area`], so that one is
//! filled while the one before is read.

use super::shared::{Sharing, broken, reach, take};
use crate::constants::MPI_ERR_NO_MEM;
use crate::edge::Guard;
use crate::errors::{MpiError, Outcome};
use crate::host::{Area, Sink, Source};
use crate::runtime::Runtime;
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
}

/// No more bytes than this, from rank to rank.
const MOST: u64 = 65536;
/// What does not fit into half a slot goes in pieces of these bytes.
const PIECE: usize = HALF as usize / 2;

/// For each [`Kind`] up to how many bytes the table wants shared memory, asked for powers of two; as if slots had room for all of it.
pub fn limits(table: &Table, me: u32, size: u32, crowded: bool) -> [u64; 3] {
    let limit = |kind| {
        let mut most = 0;
        let mut bytes = 1;
        while bytes <= MOST {
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
            };
            let place = Place {
                shared_units: if crowded {
                    u64::from(HALF)
                } else {
                    MOST * u64::from(size)
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
    [Kind::Bcast, Kind::Allreduce, Kind::Alltoall].map(limit)
}

impl Runtime {
    /// Whether the communicator at `comm` does this here, for so many bytes. All its ranks come to the same answer.
    #[inline]
    pub fn is_direct(&self, comm: u32, kind: Kind, bytes: usize) -> bool {
        matches!(&self.comms[comm].sharing, Sharing::Part(area) if bytes as u64 <= area.direct[kind as usize])
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
    guard.comms[comm].sharing = Sharing::Part(area);
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
    while let Some(reader) = area.hindrance(length) {
        reach(guard, comm, reader)?;
    }
    let host = guard.host.as_ref().ok_or_else(broken)?;
    let sink = area
        .telling(host, length)
        .map_err(|error| MpiError::with(MPI_ERR_NO_MEM, error.to_string()))?;
    fill(&sink);
    area.tell(host);
    Ok(())
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

/// The same of the collective before the one under way, where all tell one ahead.
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

/// Bytes of a piece of what takes `length` bytes of a slot, for units of `unit` bytes. Where cores are short, what fits goes at once: each piece is a turn on a core.
fn piece(length: usize, unit: usize, crowded: bool) -> usize {
    if length <= PIECE || crowded && length <= HALF as usize {
        length.max(1)
    } else {
        PIECE / unit * unit
    }
}

/// The root's bytes to all.
pub fn bcast(guard: &mut Guard, comm: u32, root: u32, place: Sink) -> Outcome {
    with(guard, comm, |guard, area| {
        let (me, _) = area.place();
        let step = piece(place.len(), 1, area.crowded);
        for at in (0..place.len().max(1)).step_by(step) {
            let part = place.part(at, step.min(place.len() - at));
            area.begin();
            if me == root {
                tell(guard, comm, area, part.len(), |sink| {
                    part.source().copy_to(sink);
                })?;
            } else {
                hear(guard, comm, area, root, part.len())?.copy_to(&part);
            }
            if let Some(host) = &guard.host {
                area.pass(host);
            }
        }
        Ok(())
    })
}

/// Elements of all ranks, combined in the order of ranks, to all. Those of this rank are `send`, which may lie where the result goes.
pub fn allreduce(
    guard: &mut Guard,
    comm: u32,
    unit: usize,
    (send, recv): (Source, Sink),
    combine: impl Fn([Source; 2], Sink) -> Outcome,
) -> Outcome {
    with(guard, comm, |guard, area| {
        let (me, size) = area.place();
        let step = piece(recv.len(), unit, area.crowded);
        if recv.len() > step && area.may_tell_ahead() {
            return allreduce_ahead(guard, comm, area, step, (send, recv), combine);
        }
        for at in (0..recv.len().max(1)).step_by(step) {
            let length = step.min(recv.len() - at);
            let (own, place) = (send.part(at, length), recv.part(at, length));
            area.begin();
            tell(guard, comm, area, length, |sink| own.copy_to(sink))?;
            for rank in (0..size).rev() {
                let theirs = if rank == me {
                    area.heard(me, length, false)
                } else {
                    hear(guard, comm, area, rank, length)?
                };
                if rank + 1 == size {
                    theirs.copy_to(&place);
                } else {
                    combine([theirs, place.source()], place)?;
                }
            }
        }
        Ok(())
    })
}

/// The same in pieces of `step` bytes. Each rank tells its next piece before it combines one, so that no piece waits for the others' lines to travel.
fn allreduce_ahead(
    guard: &mut Guard,
    comm: u32,
    area: &mut Area,
    step: usize,
    (send, recv): (Source, Sink),
    combine: impl Fn([Source; 2], Sink) -> Outcome,
) -> Outcome {
    let (me, size) = area.place();
    let piece_at = |at: usize| step.min(recv.len() - at);
    let tell_next = |guard: &mut Guard, area: &mut Area, at: usize| {
        area.begin();
        tell(guard, comm, area, step, |sink| {
            send.part(at, piece_at(at)).copy_to(sink);
        })
    };
    tell_next(guard, area, 0)?;
    for at in (0..recv.len()).step_by(step) {
        if at + step < recv.len() {
            tell_next(guard, area, at + step)?;
        } else {
            // So that the number is one ahead to the end.
            area.begin();
        }
        let place = recv.part(at, piece_at(at));
        // The last rank's stays where it lies until there is something to combine it with: one pass less than if it were copied first.
        let mut right = None;
        for rank in (0..size).rev() {
            let theirs = if rank == me {
                area.looking_back(|area| area.heard(me, step, true))
            } else {
                hear_before(guard, comm, area, rank, step)?
            };
            let theirs = theirs.part(0, place.len());
            right = match right {
                None => Some(theirs),
                Some(right) => {
                    combine([theirs, right], place)?;
                    Some(place.source())
                }
            };
        }
    }
    // That others have told their last piece does not say that they have read ours.
    if let Some(host) = &guard.host {
        area.pass(host);
    }
    Ok(())
}

/// To each rank its own of `each` bytes. `send` and `recv` have them in the order of ranks, and may be the same.
pub fn alltoall(
    guard: &mut Guard,
    comm: u32,
    each: usize,
    (send, recv): (Source, Sink),
) -> Outcome {
    with(guard, comm, |guard, area| {
        let (me, size) = area.place();
        let others = size as usize - 1;
        let most = piece(each * others, others, area.crowded) / others;
        let step = most.max(1);
        // Whose block is where among those of a rank: its own is not there.
        let index = |of: u32, whose: u32| (if whose < of { whose } else { whose - 1 }) as usize;
        let block = |rank: u32, at: usize| rank as usize * each + at;
        for at in (0..each.max(1)).step_by(step) {
            let length = step.min(each - at);
            area.begin();
            tell(guard, comm, area, length * others, |sink| {
                for rank in (0..size).filter(|rank| *rank != me) {
                    let place = sink.part(index(me, rank) * length, length);
                    send.part(block(rank, at), length).copy_to(&place);
                }
            })?;
            for distance in 1..size {
                let rank = (me + distance) % size;
                let theirs = hear(guard, comm, area, rank, length * others)?;
                let mine = theirs.part(index(rank, me) * length, length);
                mine.copy_to(&recv.part(block(rank, at), length));
            }
        }
        let own = send.part(block(me, 0), each);
        own.copy_to(&recv.part(block(me, 0), each));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_how_far() {
        let table = Table::default();
        let [bcast, allreduce, alltoall] = limits(&table, 0, 2, false);
        assert!(bcast >= 16384 && allreduce >= 16384 && alltoall >= 16384);
        let mut other = table;
        other.prefer(ferriband_mpi_coll::Kind::Allreduce, Algorithm::Ring);
        assert_eq!(limits(&other, 0, 2, false), [bcast, 0, alltoall]);
    }

    #[test]
    fn pieces_are_of_whole_elements() {
        assert_eq!(piece(0, 8, false), 1);
        assert_eq!(piece(PIECE, 8, false), PIECE);
        assert_eq!(piece(PIECE + 1, 24, false) % 24, 0);
        assert_eq!(piece(HALF as usize, 8, true), HALF as usize);
        assert!(piece(HALF as usize + 8, 8, true) <= PIECE);
    }
}
