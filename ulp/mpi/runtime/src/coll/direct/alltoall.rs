//! Exchanges of all ranks that share memory.
//!
//! Owns: whether blocks are told, exchanged by pairs, or read from their sender's memory. Must not
//! know: what they hold.

use super::{EXCHANGED, best_piece, give_all, hear_all, piece, tell, with};
use crate::coll::shared::broken;
use crate::coll::state::Guard;
use crate::constants::MPI_ERR_BUFFER;
use crate::errors::{MpiError, Outcome};
use crate::ground::memory::{Sink, Source};
use crate::transport::contract::Refused;
use crate::transport::shm::area::Area;

/// Blocks of so many bytes are read from their sender's memory, ...
const PULLED: usize = 8192;
/// ... where cores are short if they would be told in more turns than these: the kernel looks at
/// each page that it reads, which costs more than a second copy.
const CROWDED_TURNS: usize = 6;

/// To each rank its own of `each` bytes. `send` and `recv` have them in the order of ranks, and are
/// the same at all ranks if this is `in_place`.
pub fn alltoall(
    guard: &mut Guard,
    comm: u32,
    each: usize,
    (send, recv): (Source, Sink),
    in_place: bool,
) -> Outcome {
    with(guard, comm, |guard, area| {
        let (me, size) = area.place();
        let others = (0..size).filter(|rank| *rank != me);
        let block = |rank: u32, at: usize| rank as usize * each + at;
        if each >= EXCHANGED && area.exchanges() > 0 {
            for at in (0..each).step_by(area.exchanges()) {
                let length = area.exchanges().min(each - at);
                give_all(guard, comm, area, |rank| send.part(block(rank, at), length))?;
                hear_all(guard, comm, area, |_, area, rank| {
                    area.heard(rank, 0, false);
                    let theirs = area.given(rank, length);
                    theirs.copy_to(&recv.part(block(rank, at), length));
                })?;
            }
            send.part(block(me, 0), each)
                .copy_to(&recv.part(block(me, 0), each));
            return Ok(());
        }
        // What can be told at once needs one turn, reading two.
        let turns = if area.is_crowded() { CROWDED_TURNS } else { 1 };
        if each >= PULLED
            && each * (size as usize - 1) > turns * area.most()
            && area.pulls
            && !in_place
            && alltoall_by_reading(guard, comm, area, each, (send, recv))?
        {
            return Ok(());
        }
        let count = size as usize - 1;
        let step = piece(each * count, count, best_piece(area)) / count;
        let step = step.max(1);
        // Whose block is where among those of a rank: its own is not there.
        let index = |of: u32, whose: u32| (if whose < of { whose } else { whose - 1 }) as usize;
        for at in (0..each.max(1)).step_by(step) {
            let length = step.min(each - at);
            area.begin_for(length * count);
            tell(guard, comm, area, length * count, |sink| {
                for rank in others.clone() {
                    let place = sink.part(index(me, rank) * length, length);
                    send.part(block(rank, at), length).copy_to(&place);
                }
            })?;
            hear_all(guard, comm, area, |_, area, rank| {
                let theirs = area.heard(rank, length * count, false);
                let mine = theirs.part(index(rank, me) * length, length);
                mine.copy_to(&recv.part(block(rank, at), length));
            })?;
        }
        let own = send.part(block(me, 0), each);
        own.copy_to(&recv.part(block(me, 0), each));
        Ok(())
    })
}

/// MPI_Alltoall where each rank reads from the others' memory what is for it: one copy where there
/// are two through slots, and no word for each message. False if one of them may not; none of them
/// tries it again then.
fn alltoall_by_reading(
    guard: &mut Guard,
    comm: u32,
    area: &mut Area,
    each: usize,
    (send, recv): (Source, Sink),
) -> Outcome<bool> {
    let (me, _) = area.place();
    // Elements that lie with gaps are packed first; 0 if there is no memory for it.
    let packed = match send.address() {
        Some(_) => None,
        None => send.to_bytes(),
    };
    let own = match &packed {
        Some(bytes) => bytes.as_ptr().addr() as u64,
        None => send.address().unwrap_or(0),
    };
    area.begin();
    tell(guard, comm, area, 8, |sink| sink.fill(&own.to_ne_bytes()))?;
    let mut may = guard.transports.may_read();
    let mut outcome = Ok(());
    let block = |rank: u32| rank as usize * each;
    hear_all(guard, comm, area, |guard, area, rank| {
        let told = area.heard(rank, 8, false);
        let mut theirs = [0; 8];
        told.copy_into(&mut theirs);
        let theirs = u64::from_ne_bytes(theirs);
        may &= theirs != 0;
        if may && outcome.is_ok() {
            let place = recv.part(block(rank), each);
            let at = theirs.wrapping_add(block(me) as u64);
            match read(guard, (comm, rank), at, &place) {
                Ok(did) => may = did,
                Err(error) => outcome = Err(error),
            }
        }
    })?;
    // All others are told whether this rank has come to its blocks, and that it reads no more.
    let word = [u8::from(may)];
    area.begin();
    tell(guard, comm, area, 1, |sink| sink.fill(&word))?;
    let mine = send.part(block(me), each);
    mine.copy_to(&recv.part(block(me), each));
    let mut all = may;
    hear_all(guard, comm, area, |_, area, rank| {
        let told = area.heard(rank, 1, false);
        let mut theirs = [0];
        told.copy_into(&mut theirs);
        all &= theirs[0] != 0;
    })?;
    area.pulls = all;
    outcome.map(|()| all)
}

/// Reads a block of another rank. False if that is not allowed here.
fn read(guard: &mut Guard, (comm, rank): (u32, u32), address: u64, place: &Sink) -> Outcome<bool> {
    let world = guard.point.objects.comms[comm]
        .group
        .world(rank)
        .ok_or_else(broken)?;
    match guard.transports.read(world, address, place) {
        Ok(()) => Ok(true),
        Err(Refused::Always) => Ok(false),
        Err(Refused::Gone) => Err(guard.point.not_whole(comm)),
        Err(Refused::This(error)) => Err(MpiError::with(
            MPI_ERR_BUFFER,
            format!("rank {rank}'s buffer cannot be read: {error}"),
        )),
    }
}
