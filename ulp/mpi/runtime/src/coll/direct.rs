//! Broadcasts, all-reductions and exchanges of ranks that share memory, without a schedule: where a message between two ranks takes a tenth of a microsecond, to find a schedule and to
//! follow it takes as long again.
//!
//! They are done as their schedules over slots would do them (`shm` in the table, which decides as it does for those): what a rank has to say it tells in its cell, or its slot with
//! the cell's number for flag, and others read it there. What is longer than a slot goes piece by piece, each one a collective of its own to [`Area`], so that one is
//! filled while the one before is read.

use super::shared::{Sharing, broken, reach, take};
use crate::constants::{MPI_ERR_BUFFER, MPI_ERR_NO_MEM, MPI_ERR_PROC_ABORTED};
use crate::edge::Guard;
use crate::errors::{MpiError, Outcome};
use crate::host::{Area, Sink, Source, read_peer};
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
/// What is so long, and does not fit into a cell, is exchanged by pairs.
const EXCHANGED: usize = 64;
/// Where cores are short, so long vectors are combined by owners of their parts.
const OWNED: usize = 4096;
/// Blocks of so many bytes are read from their sender's memory, ...
const PULLED: usize = 8192;
/// ... where cores are short if they would be told in more turns than these: the kernel looks at each page that it reads, which costs more than a second copy.
const CROWDED_TURNS: usize = 6;

/// For each [`Kind`] up to how many bytes the table wants shared memory, asked for powers of two; as if slots had room for all of it, where cores are not short.
pub fn limits(table: &Table, area: &Area) -> [u64; 3] {
    let (me, size) = area.place();
    // Where cores are short, each piece would be a turn on a core.
    let most = if area.is_crowded() {
        area.most() as u64
    } else {
        MOST
    };
    limits_of(table, (me, size), area.is_crowded(), most)
}

fn limits_of(table: &Table, (me, size): (u32, u32), crowded: bool, longest: u64) -> [u64; 3] {
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
    let host = guard.host.as_ref().ok_or_else(broken)?;
    area.telling(host, length).map_err(no_memory)
}

#[cold]
fn no_memory(error: std::io::Error) -> MpiError {
    MpiError::with(MPI_ERR_NO_MEM, error.to_string())
}

/// What this rank has to tell lies there.
#[inline(always)]
fn told(guard: &Guard, area: &mut Area) -> Outcome {
    area.tell(guard.host.as_ref().ok_or_else(broken)?);
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
        let host = guard.host.as_ref().ok_or_else(broken)?;
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

/// What each other rank tells, in the order in which they come: who has told something is not kept waiting by who has not.
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

/// Bytes of a piece of what takes `length` bytes of a slot, for units of `unit` bytes, where pieces of `most` bytes are best.
fn piece(length: usize, unit: usize, most: usize) -> usize {
    if length <= most {
        length.max(1)
    } else {
        most / unit * unit
    }
}

/// How long pieces should be. Where cores are short, what fits goes at once: each piece is a turn on a core.
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
            if let Some(host) = &guard.host {
                area.pass(host);
            }
        }
        Ok(())
    })
}

/// Whether what this rank sends can be combined where the program has it: the result does not come there, or no sooner than in the step that reads it. What this rank has just written to its slot
/// would come from stores that still wait for their lines, and so costs as much again as all else.
fn stays_until_read((me, size): (u32, u32), send: &Source, recv: &Sink) -> bool {
    me + 2 >= size || send.address() != recv.source().address()
}

/// What is `left` combined with what is right of it, at `place`. The last rank's stays where it lies until there is something to combine it with: one pass less than if it were copied first.
#[inline(always)]
fn combined(
    left: Source,
    right: Option<Source>,
    place: Sink,
    combine: &impl Fn([Source; 2], Sink) -> Outcome,
) -> Outcome<Source> {
    let Some(right) = right else { return Ok(left) };
    combine([left, right], place)?;
    Ok(place.source())
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

/// The same where each rank owns a share of the elements and combines that alone: each byte is read by its owner and by who wants the result, and not by all ranks in each of their turns on a core.
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
    if let Some(host) = &guard.host {
        area.pass(host);
    }
    Ok(())
}

/// To each rank its own of `each` bytes. `send` and `recv` have them in the order of ranks, and are the same at all ranks if this is `in_place`.
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

/// The same where each rank reads from the others' memory what is for it: one copy where there are two through slots, and no word for each message. False if one of them may not; none of them
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
    let mut may = guard.settings.reads_peers;
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
    let world = guard.comms[comm].group.world(rank).ok_or_else(broken)?;
    let host = guard.host.as_ref().ok_or_else(broken)?;
    let Err(error) = read_peer(host.pid(world), address, place) else {
        return Ok(true);
    };
    match error.raw_os_error() {
        Some(libc::EPERM | libc::ENOSYS | libc::EACCES) => {
            guard.settings.reads_peers = false;
            Ok(false)
        }
        Some(libc::ESRCH) => Err(MpiError::with(
            MPI_ERR_PROC_ABORTED,
            "a rank of the communicator has died",
        )),
        _ => Err(MpiError::with(
            MPI_ERR_BUFFER,
            format!("rank {rank}'s buffer cannot be read: {error}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_how_far() {
        let table = Table::default();
        let [bcast, allreduce, alltoall] = limits_of(&table, (0, 2), false, MOST);
        assert!(bcast >= 16384 && allreduce >= 16384 && alltoall >= 16384);
        let mut other = table;
        other.prefer(ferriband_mpi_coll::Kind::Allreduce, Algorithm::Ring);
        assert_eq!(limits_of(&other, (0, 2), false, MOST), [bcast, 0, alltoall]);
    }

    #[test]
    fn pieces_are_of_whole_elements() {
        assert_eq!(piece(0, 8, PIECE), 1);
        assert_eq!(piece(PIECE, 8, PIECE), PIECE);
        assert_eq!(piece(PIECE + 1, 24, PIECE) % 24, 0);
    }
}
