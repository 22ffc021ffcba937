//! Collectives with a block for each rank, and prefix reductions, of ranks that share memory.
//!
//! Owns: which ranks tell their blocks, and who hears them. Must not know: which call of the
//! program began it.

use super::{hear, hear_all, tell, with};
use crate::coll::exec::{Combine, Prepared};
use crate::coll::shape::{Shape, What};
use crate::coll::shared::broken;
use crate::coll::state::Guard;
use crate::constants::MPI_SUCCESS;
use crate::errors::Outcome;
use crate::ground::memory::{Sink, Source};
use crate::transport::shm::area::Area;
use std::ops::Range;

/// Does a collective that has such a shape.
pub fn run(guard: &mut Guard, comm: u32, shape: Shape, mut prepared: Prepared) -> Outcome {
    with(guard, comm, |guard, area| {
        area.begin_for(shape.told);
        match shape.what {
            What::Gather => gather(guard, comm, area, shape.told, &prepared)?,
            What::Scatter { root } => scatter(guard, comm, area, shape.told, root, &prepared)?,
            What::Allgather => return allgather(guard, comm, area, shape.told, &prepared),
            What::ReduceScatter { .. } => {
                tell_own(guard, comm, area, shape.told, &prepared)?;
                let (_, size) = area.place();
                return combine(guard, comm, area, shape, 0..size, &prepared);
            }
            What::Scan { exclusive } => {
                tell_own(guard, comm, area, shape.told, &prepared)?;
                let (me, _) = area.place();
                let end = if exclusive { me } else { me + 1 };
                combine(guard, comm, area, shape, 0..end, &prepared)?;
            }
        }
        // Where all hear all, each knows by that what the others have passed.
        if let Some(host) = &guard.transports.host {
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

/// Combines what some ranks tell, in their order: that part of it which is this rank's result.
fn combine(
    guard: &mut Guard,
    comm: u32,
    area: &mut Area,
    shape: Shape,
    ranks: Range<u32>,
    prepared: &Prepared,
) -> Outcome {
    let Some(Combine::Own(combine)) = &prepared.combine else {
        return Err(broken());
    };
    let (told, (at, length)) = (shape.told, shape.part());
    let all = prepared.buffers.recv.first();
    let all = all.filter(|all| all.len() >= length).ok_or_else(broken)?;
    let place = all.part(0, length);
    let (me, _) = area.place();
    for rank in ranks.clone().rev() {
        let theirs = if rank == me {
            area.heard(me, told, false)
        } else {
            hear(guard, comm, area, rank, told)?
        };
        let theirs = theirs.part(at, length);
        if rank + 1 == ranks.end {
            theirs.copy_to(&place);
        } else if !place.is_empty() {
            combine(theirs, place)?;
        }
    }
    Ok(())
}

/// Copies a block to one that is as long.
fn copy(from: &Source, to: &Sink) -> Outcome {
    if from.len() < to.len() {
        return Err(broken());
    }
    from.part(0, to.len()).copy_to(to);
    Ok(())
}
