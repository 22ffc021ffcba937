//! Collectives with a block for each rank, and prefix reductions, of ranks that share memory.
//!
//! Owns: which ranks tell their blocks, and who hears them. Must not know: which call of the
//! program began it.

use super::{hear, hear_all, tell, with};
use crate::coll::exec::{Combine, Prepared};
use crate::coll::shared::{Sharing, broken};
use crate::constants::MPI_SUCCESS;
use crate::edge::Guard;
use crate::errors::Outcome;
use crate::host::{Area, Sink, Source};
use ferriband_mpi_coll::{Algorithm, Collective, Place};
use ferriband_mpi_proto::segment::HALF;
use std::ops::Range;

/// How a collective is done in shared memory.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    what: What,
    /// Bytes that each rank tells which tells something.
    told: usize,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Gather,
    Scatter {
        root: u32,
    },
    Allgather,
    /// This rank's result begins so many bytes into the vector, and has so many.
    ReduceScatter {
        at: usize,
        length: usize,
    },
    Scan {
        exclusive: bool,
    },
}

/// How the blocking call under way does a collective in memory that the ranks of the
/// communicator at `comm` share, if the table says that it goes there. `bytes` and `unit` as
/// for [`crate::runtime::Runtime::schedule`].
pub fn shape(
    guard: &Guard,
    comm: u32,
    collective: &Collective<'_>,
    bytes: u64,
    unit: usize,
) -> Option<Shape> {
    let Sharing::Part(area) = &guard.comm_states[comm].sharing else {
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

/// Does a collective that has such a shape.
pub fn run(guard: &mut Guard, comm: u32, shape: Shape, mut prepared: Prepared) -> Outcome {
    with(guard, comm, |guard, area| {
        area.begin_for(shape.told);
        match shape.what {
            What::Gather => gather(guard, comm, area, shape.told, &prepared)?,
            What::Scatter { root } => scatter(guard, comm, area, shape.told, root, &prepared)?,
            What::Allgather => return allgather(guard, comm, area, shape.told, &prepared),
            What::ReduceScatter { at, length } => {
                let place = result(&prepared, length)?;
                tell_own(guard, comm, area, shape.told, &prepared)?;
                let (_, size) = area.place();
                return combine(
                    guard,
                    comm,
                    area,
                    0..size,
                    (shape.told, at),
                    place,
                    &prepared,
                );
            }
            What::Scan { exclusive } => {
                let place = result(&prepared, shape.told)?;
                tell_own(guard, comm, area, shape.told, &prepared)?;
                let (me, _) = area.place();
                let ranks = 0..if exclusive { me } else { me + 1 };
                combine(guard, comm, area, ranks, (shape.told, 0), place, &prepared)?;
            }
        }
        // Where all hear all, each knows by that what the others have passed.
        if let Some(host) = &guard.host {
            area.pass(host);
        }
        Ok(())
    })?;
    match prepared.after.take() {
        Some(after) => after(&mut *guard, MPI_SUCCESS),
        None => Ok(()),
    }
}

fn gather(
    guard: &mut Guard,
    comm: u32,
    area: &mut Area,
    told: usize,
    prepared: &Prepared,
) -> Outcome {
    let recv = &prepared.buffers.recv;
    if recv.is_empty() {
        return tell_own(guard, comm, area, told, prepared);
    }
    if let Some(own) = prepared.buffers.send.first() {
        copy(own, recv.get(area.place().0 as usize).ok_or_else(broken)?)?;
    }
    hear_blocks(guard, comm, area, told, recv)
}

fn scatter(
    guard: &mut Guard,
    comm: u32,
    area: &mut Area,
    told: usize,
    root: u32,
    prepared: &Prepared,
) -> Outcome {
    let (me, size) = area.place();
    let each = told / size as usize;
    let own = prepared.buffers.recv.first();
    if me != root {
        let own = own.ok_or_else(broken)?;
        let mine = hear(guard, comm, area, root, told)?.part(me as usize * each, each);
        return copy(&mine, own);
    }
    let send = &prepared.buffers.send;
    tell(guard, comm, area, told, |sink| {
        let others = (0..).zip(send).filter(|(rank, _)| *rank != me as usize);
        for (rank, block) in others {
            block.copy_to(&sink.part(rank * each, each));
        }
    })?;
    let mine = send.get(me as usize).ok_or_else(broken)?;
    own.map_or(Ok(()), |own| copy(mine, own))
}

fn allgather(
    guard: &mut Guard,
    comm: u32,
    area: &mut Area,
    told: usize,
    prepared: &Prepared,
) -> Outcome {
    let recv = &prepared.buffers.recv;
    let place = recv.get(area.place().0 as usize).ok_or_else(broken)?;
    let own = match prepared.buffers.send.first() {
        Some(own) => {
            copy(own, place)?;
            *own
        }
        None => place.source(),
    };
    tell(guard, comm, area, told, |sink| {
        own.copy_to(&sink.part(0, own.len()));
    })?;
    hear_blocks(guard, comm, area, told, recv)
}

/// Tells the vector or the block that this rank sends, of `told` bytes.
fn tell_own(
    guard: &mut Guard,
    comm: u32,
    area: &mut Area,
    told: usize,
    prepared: &Prepared,
) -> Outcome {
    let buffers = &prepared.buffers;
    let in_place = || buffers.recv.first().map(Sink::source);
    let own = buffers.send.first().copied().or_else(in_place);
    let own = own.filter(|own| own.len() >= told).ok_or_else(broken)?;
    tell(guard, comm, area, told, |sink| {
        own.part(0, told).copy_to(sink);
    })
}

/// Puts what each other rank tells to its block.
fn hear_blocks(
    guard: &mut Guard,
    comm: u32,
    area: &mut Area,
    told: usize,
    blocks: &[Sink],
) -> Outcome {
    hear_all(guard, comm, area, |_, area, rank| {
        let theirs = area.heard(rank, told, false);
        let block = &blocks[rank as usize];
        theirs.part(0, block.len()).copy_to(block);
    })
}

/// Combines what some ranks tell, in their order: of `told` bytes those from `at` on.
fn combine(
    guard: &mut Guard,
    comm: u32,
    area: &mut Area,
    ranks: Range<u32>,
    (told, at): (usize, usize),
    place: Sink,
    prepared: &Prepared,
) -> Outcome {
    let Some(Combine::Own(combine)) = &prepared.combine else {
        return Err(broken());
    };
    let (me, _) = area.place();
    for rank in ranks.clone().rev() {
        let theirs = if rank == me {
            area.heard(me, told, false)
        } else {
            hear(guard, comm, area, rank, told)?
        };
        let theirs = theirs.part(at, place.len());
        if rank + 1 == ranks.end {
            theirs.copy_to(&place);
        } else if !place.is_empty() {
            combine(theirs, place)?;
        }
    }
    Ok(())
}

/// The first `length` bytes of where the result goes.
fn result(prepared: &Prepared, length: usize) -> Outcome<Sink> {
    let all = prepared.buffers.recv.first();
    let all = all.filter(|all| all.len() >= length).ok_or_else(broken)?;
    Ok(all.part(0, length))
}

/// Copies a block to one that is as long.
fn copy(from: &Source, to: &Sink) -> Outcome {
    if from.len() < to.len() {
        return Err(broken());
    }
    from.part(0, to.len()).copy_to(to);
    Ok(())
}
