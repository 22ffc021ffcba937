//! All-reductions of ranks that share memory.
//!
//! Owns: by whose memory, and in which order, elements are combined. Must not know: what combines
//! them.

use super::{
    EXCHANGED, OWNED, best_piece, give_all, hear, hear_all, hear_before, piece, room,
    stays_until_read, tell, told, with,
};
use crate::coll::state::Guard;
use crate::errors::Outcome;
use crate::ground::memory::{Sink, Source};
use crate::transport::shm::area::Area;

/// What is `left` combined with what is right of it, at `place`. The last rank's stays where it
/// lies until there is something to combine it with: one pass less than if it were copied first.
#[inline(always)]
pub(super) fn combined(
    left: Source,
    right: Option<Source>,
    place: Sink,
    combine: &impl Fn([Source; 2], Sink) -> Outcome,
) -> Outcome<Source> {
    let Some(right) = right else { return Ok(left) };
    combine([left, right], place)?;
    Ok(place.source())
}

/// Elements of all ranks, combined in the order of ranks, to all. Those of this rank are `send`,
/// which may lie where the result goes.
pub fn allreduce(
    guard: &mut Guard,
    comm: u32,
    unit: usize,
    (send, recv): (Source, Sink),
    combine: impl Fn([Source; 2], Sink) -> Outcome,
) -> Outcome {
    with(guard, comm, |guard, area| {
        let (me, size) = area.place();
        if area.is_crowded() && (OWNED..=area.most()).contains(&recv.len()) {
            return allreduce_by_owners(guard, comm, area, unit, (send, recv), combine);
        }
        if size == 2 && recv.len() >= EXCHANGED && area.exchanges() >= unit {
            let other = 1 - me;
            let step = piece(recv.len(), unit, area.exchanges());
            for at in (0..recv.len()).step_by(step) {
                let length = step.min(recv.len() - at);
                let (own, place) = (send.part(at, length), recv.part(at, length));
                give_all(guard, comm, area, |_| own)?;
                hear(guard, comm, area, other, 0)?;
                let theirs = area.given(other, length);
                let in_order = if me == 0 {
                    [own, theirs]
                } else {
                    [theirs, own]
                };
                combine(in_order, place)?;
            }
            return Ok(());
        }
        let step = piece(recv.len(), unit, best_piece(area));
        if recv.len() > step && area.may_tell_ahead() {
            return allreduce_ahead(guard, comm, area, step, (send, recv), combine);
        }
        let stays = stays_until_read((me, size), &send, &recv);
        for at in (0..recv.len().max(1)).step_by(step) {
            let length = step.min(recv.len() - at);
            let (own, place) = (send.part(at, length), recv.part(at, length));
            area.begin_for(length);
            tell(guard, comm, area, length, |sink| own.copy_to(sink))?;
            let mut right = None;
            for rank in (0..size).rev() {
                let theirs = if rank != me {
                    hear(guard, comm, area, rank, length)?
                } else if stays {
                    own
                } else {
                    area.heard(me, length, false)
                };
                right = Some(combined(theirs, right, place, &combine)?);
            }
        }
        Ok(())
    })
}

/// MPI_Allreduce where each rank owns a share of the elements and combines that alone: each byte is
/// read by its owner and by who wants the result, and not by all ranks in each of their turns on a
/// core.
fn allreduce_by_owners(
    guard: &mut Guard,
    comm: u32,
    area: &mut Area,
    unit: usize,
    (send, recv): (Source, Sink),
    combine: impl Fn([Source; 2], Sink) -> Outcome,
) -> Outcome {
    let (me, size) = area.place();
    let length = recv.len();
    let each = (length / unit).div_ceil(size as usize) * unit;
    let share = |rank: u32| {
        let at = length.min(rank as usize * each);
        (at, each.min(length - at))
    };
    let (at, own) = share(me);
    let by_pairs = area.exchanges() >= each;
    if by_pairs {
        give_all(guard, comm, area, |rank| {
            let (at, own) = share(rank);
            send.part(at, own)
        })?;
    } else {
        area.begin_for(length);
        tell(guard, comm, area, length, |sink| {
            // What this rank owns nobody else reads.
            send.part(0, at).copy_to(&sink.part(0, at));
            let after = at + own;
            let rest = length - after;
            send.part(after, rest).copy_to(&sink.part(after, rest));
        })?;
    }
    for rank in (0..size).filter(|rank| *rank != me) {
        hear(guard, comm, area, rank, 0)?;
    }
    let first = area.number();
    area.begin_for(each);
    let result = room(guard, comm, area, each)?.part(0, own);
    let mut right = None;
    for rank in (0..size).rev() {
        let theirs = if rank == me {
            send.part(at, own)
        } else if by_pairs {
            area.given(rank, own)
        } else {
            area.looking_at(first, |area| area.heard(rank, length, false))
                .part(at, own)
        };
        right = match right {
            None => Some(theirs),
            Some(right) => {
                combine([theirs, right], result)?;
                Some(result.source())
            }
        };
    }
    told(guard, area)?;
    result.source().copy_to(&recv.part(at, own));
    hear_all(guard, comm, area, |_, area, rank| {
        let theirs = area.heard(rank, each, false);
        let (at, own) = share(rank);
        theirs.part(0, own).copy_to(&recv.part(at, own));
    })
}

/// MPI_Allreduce in pieces of `step` bytes. Each rank tells its next piece before it combines one,
/// so that no piece waits for the others' lines to travel.
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
    let stays = stays_until_read((me, size), &send, &recv);
    tell_next(guard, area, 0)?;
    for at in (0..recv.len()).step_by(step) {
        if at + step < recv.len() {
            tell_next(guard, area, at + step)?;
        } else {
            // So that the number is one ahead to the end.
            area.begin();
        }
        let place = recv.part(at, piece_at(at));
        let mut right = None;
        for rank in (0..size).rev() {
            let theirs = if rank != me {
                hear_before(guard, comm, area, rank, step)?.part(0, place.len())
            } else if stays {
                send.part(at, place.len())
            } else {
                area.looking_back(|area| area.heard(me, step, true))
                    .part(0, place.len())
            };
            right = Some(combined(theirs, right, place, &combine)?);
        }
    }
    // That others have told their last piece does not say that they have read ours.
    if let Some(host) = &guard.transports.host {
        area.pass(host);
    }
    Ok(())
}
