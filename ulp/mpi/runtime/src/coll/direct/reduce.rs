//! Reductions to one rank, of ranks that share memory.
//!
//! Owns: in which order elements are combined. Must not know: what combines them.

use super::allreduce::combined;
use super::{best_piece, hear, piece, stays_until_read, tell, with};
use crate::coll::state::Guard;
use crate::errors::Outcome;
use crate::ground::memory::{Sink, Source};
use crate::transport::shm::area::Area;

/// Elements of all ranks, combined in the order of ranks, to the rank that has a `recv`. Those of
/// this rank are `send`, which may lie where the result goes.
pub fn reduce(
    guard: &mut Guard,
    comm: u32,
    unit: usize,
    (send, recv): (Source, Option<Sink>),
    combine: impl Fn([Source; 2], Sink) -> Outcome,
) -> Outcome {
    with(guard, comm, |guard, area| {
        let step = piece(send.len(), unit, best_piece(area));
        for at in (0..send.len().max(1)).step_by(step) {
            let length = step.min(send.len() - at);
            let own = send.part(at, length);
            area.begin_for(length);
            match recv.map(|recv| recv.part(at, length)) {
                None => tell(guard, comm, area, length, |sink| own.copy_to(sink))?,
                Some(place) => hear_and_combine(guard, comm, area, (own, place), &combine)?,
            }
            if let Some(host) = &guard.transports.host {
                area.pass(host);
            }
        }
        Ok(())
    })
}

/// Combines what the others tell with what is this rank's, at `place`.
fn hear_and_combine(
    guard: &mut Guard,
    comm: u32,
    area: &mut Area,
    (own, place): (Source, Sink),
    combine: &impl Fn([Source; 2], Sink) -> Outcome,
) -> Outcome {
    let (me, size) = area.place();
    let stays = stays_until_read((me, size), &own, &place);
    if !stays {
        tell(guard, comm, area, own.len(), |sink| own.copy_to(sink))?;
    }
    let mut right = None;
    for rank in (0..size).rev() {
        let theirs = if rank != me {
            hear(guard, comm, area, rank, own.len())?
        } else if stays {
            own
        } else {
            area.heard(me, own.len(), false)
        };
        right = Some(combined(theirs, right, place, combine)?);
    }
    Ok(())
}
