//! What the ranks of a communicator agree about, and how they wait for each other in memory that
//! they share.
//!
//! The ranks agree once for each communicator, at its first blocking collective: rank 0 gives one
//! of its parts of the segment away, and says whether cores are short. Collectives that do not
//! block keep to messages: two of them may be over in another order than they began in.
//!
//! Owns: whether a communicator does blocking collectives so, the barrier, and waiting for flags.
//! Must not know: what the other collectives tell ([`super::direct`]).

use crate::coll::state::Guard;
use crate::coll::state::Mpi;
use crate::constants::MPI_ERR_INTERN;
use crate::errors::{MpiError, Outcome};
use crate::ground::memory::Buffer;
use crate::job::wait::wait_for;
use crate::transport::shm::area::{Area, Awaited};
use ferriband_mpi_coll::{Algorithm, Collective, Place};
use ferriband_mpi_proto::segment::{HALF, MAX_SHARING, group};

/// What a communicator's ranks have agreed about.
#[derive(Debug, Default)]
pub enum Sharing {
    /// Nothing yet.
    #[default]
    Unknown,
    /// They share nothing.
    Nothing,
    /// This part of the segment.
    Part(Box<Area>),
    /// The same, while a collective uses it.
    Used,
}

/// Parts that this process gives away as rank 0 of communicators.
#[derive(Debug, Default)]
pub struct Given([Option<Box<[u32]>>; group::PARTS as usize]);

/// Rank 0's word, in bytes: which part, and whether cores are short.
const WORD: usize = 8;

/// The ranks of the communicator at `comm` agree, in a call that blocks.
pub fn agree(guard: &mut Guard, comm: u32) -> Outcome {
    if guard.blocks {
        meet(guard, comm)?;
    }
    Ok(())
}

/// Whether the ranks of the communicator at `comm` do blocking collectives in shared memory. The
/// first time all ranks meet here.
fn meet(guard: &mut Guard, comm: u32) -> Outcome<bool> {
    match guard.coll.comms[comm].sharing {
        Sharing::Part(_) => return Ok(true),
        Sharing::Unknown => (),
        _ => return Ok(false),
    }
    if !guard.is_near(comm) {
        guard.coll.comms[comm].sharing = Sharing::Nothing;
        return Ok(false);
    }
    let ranks: Box<[u32]> = guard.point.objects.comms[comm].group.ranks().collect();
    let me = guard.point.objects.comms[comm].rank;
    let mut word = Buffer::new(WORD);
    if me == 0 {
        let part = guard.give(&ranks).unwrap_or(u32::MAX);
        let crowded = u32::from(guard.job.spins == 0);
        word.bytes_mut()[..4].copy_from_slice(&part.to_le_bytes());
        word.bytes_mut()[4..].copy_from_slice(&crowded.to_le_bytes());
    }
    let (source, sink) = (word.source(), word.sink());
    super::bcast(guard, comm, 0, source, sink)?;
    let half = |at: usize| {
        word.bytes()[at..at + 4]
            .try_into()
            .map_or(0, u32::from_le_bytes)
    };
    let (part, crowded) = (half(0), half(4) != 0);
    let leader = ranks[0];
    let size = ranks.len() as u32;
    let area = guard
        .transports
        .host
        .as_ref()
        .and_then(|host| Area::new(host, leader, part, ranks, me));
    let Some(mut area) = area else {
        guard.coll.comms[comm].sharing = Sharing::Nothing;
        return Ok(false);
    };
    let place = Place {
        shared_units: u64::from(HALF),
        ..Place::new(me, size)
    };
    area.set_crowded(crowded);
    area.barriers = guard
        .table()
        .choose(&Collective::Barrier, place, 0, crowded)
        == Algorithm::Shared;
    area.direct = super::direct::limits(guard.table(), &area);
    guard.coll.comms[comm].sharing = Sharing::Part(Box::new(area));
    Ok(true)
}

impl Mpi {
    /// Whether all ranks of a communicator are on this host, share its segment and are few enough.
    fn is_near(&self, comm: u32) -> bool {
        let entry = &self.point.objects.comms[comm];
        let Some(host) = &self.transports.host else {
            return false;
        };
        entry.remote.is_none()
            && (2..=MAX_SHARING).contains(&entry.group.size())
            && host.ranks() <= MAX_SHARING
            && entry
                .group
                .ranks()
                .all(|rank| self.transports.shares_memory(rank))
    }

    /// Gives a part away, if there is one.
    fn give(&mut self, ranks: &[u32]) -> Option<u32> {
        let host = self.p2p.transports.host.as_ref()?;
        for index in 0..group::PARTS {
            let given = &mut self.coll.given.0[index as usize];
            if let Some(before) = given {
                let before = Area::new(host, host.me(), index, before.clone(), 0)?;
                if !before.is_left() {
                    continue;
                }
            }
            let area = Area::new(host, host.me(), index, ranks.into(), 0)?;
            area.clear(host).ok()?;
            *given = Some(ranks.into());
            return Some(index);
        }
        None
    }

    /// Whether cores are short, as the ranks of a communicator have agreed.
    pub fn is_crowded(&self, comm: u32) -> bool {
        matches!(&self.coll.comms[comm].sharing, Sharing::Part(area) if area.is_crowded())
    }
}

/// Takes the communicator's part for one collective.
pub(super) fn take(guard: &mut Guard, comm: u32) -> Outcome<Box<Area>> {
    match std::mem::replace(&mut guard.coll.comms[comm].sharing, Sharing::Used) {
        Sharing::Part(mut area) => {
            area.settle();
            Ok(area)
        }
        other => {
            guard.coll.comms[comm].sharing = other;
            Err(broken())
        }
    }
}

/// All ranks have come. False if it is to be done by messages.
pub fn barrier(guard: &mut Guard, comm: u32) -> Outcome<bool> {
    guard.check_whole(comm)?;
    if !meet(guard, comm)? {
        return Ok(false);
    }
    if !matches!(&guard.coll.comms[comm].sharing, Sharing::Part(area) if area.barriers) {
        return Ok(false);
    }
    let mut area = take(guard, comm)?;
    let outcome = come(guard, comm, &mut area);
    guard.coll.comms[comm].sharing = Sharing::Part(area);
    outcome.map(|()| true)
}

fn come(guard: &mut Guard, comm: u32, area: &mut Area) -> Outcome {
    if area.is_crowded() {
        let awaited = guard
            .transports
            .host
            .as_ref()
            .and_then(|host| area.arrive(host));
        return awaited.map_or(Ok(()), |awaited| reach(guard, comm, awaited));
    }
    let entry = &guard.point.objects.comms[comm];
    let (me, size) = (entry.rank, entry.group.size());
    area.begin_barrier();
    let (mut distance, mut round) = (1, 1);
    while distance < size {
        if let Some(host) = &guard.transports.host {
            area.signal_round(host, round);
        }
        reach(
            guard,
            comm,
            area.round((me + size - distance) % size, round),
        )?;
        distance *= 2;
        round += 1;
    }
    Ok(())
}

/// Waits for a flag.
#[inline]
pub(super) fn reach(guard: &mut Guard, comm: u32, awaited: Awaited) -> Outcome {
    for _ in 0..guard.job.spins.min(PATIENCE) {
        if awaited.is_reached() {
            return Ok(());
        }
        std::hint::spin_loop();
    }
    if guard.job.spins == 0 && reach_in_turns(&awaited) {
        return Ok(());
    }
    awaited.set_away(true);
    let outcome = reach_at_length(guard, comm, awaited);
    awaited.set_away(false);
    outcome
}

/// Waits for a flag where cores are short, for some turns. Who is waited for has a core, or this rank gives its own away: a turn costs more than to wait for somebody who is about to come. False if
/// it has not come yet.
fn reach_in_turns(awaited: &Awaited) -> bool {
    for _ in 0..TURNS {
        for _ in 0..A_TURN {
            if awaited.is_reached() {
                return true;
            }
            if !awaited.has_turn() {
                break;
            }
            std::hint::spin_loop();
        }
        awaited.set_away(true);
        std::thread::yield_now();
        awaited.set_away(false);
    }
    awaited.is_reached()
}

#[inline(never)]
fn reach_at_length(guard: &mut Guard, comm: u32, awaited: Awaited) -> Outcome {
    guard.coll.flags.push(awaited);
    let outcome = wait_for(guard, |guard| {
        awaited.is_reached() || guard.point.objects.comms[comm].broken
    });
    if let Some(at) = guard.coll.flags.iter().position(|one| *one == awaited) {
        guard.coll.flags.swap_remove(at);
    }
    outcome?;
    if awaited.is_reached() {
        return Ok(());
    }
    Err(guard.point.not_whole(comm))
}

/// Looks at a flag alone, before all else is looked at in turn.
const PATIENCE: u32 = 32;
/// Turns on a core that a rank waits for a flag alone, where cores are short.
const TURNS: u32 = 8;
/// Looks at a flag that take about as long as a turn costs.
const A_TURN: u32 = 100;

#[cold]
pub(super) fn broken() -> MpiError {
    MpiError::with(
        MPI_ERR_INTERN,
        "ranks do not share memory as they have agreed",
    )
}
