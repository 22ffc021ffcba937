//! Collectives: schedules ([`super::choose`]) and what runs them ([`super::exec`]).
//!
//! Four more are done without a schedule where ranks share memory ([`super::direct`]). Two are
//! done by hand, out of sends and receives in the communicator's second context: the blocking
//! barrier, whose every nanosecond counts
//! (MacArthur et al. 2017, section IV-B: pairwise exchange for powers of two, dissemination otherwise), and the broadcast by which
//! communicators are made.

use super::direct::blocks;
use super::{exec, shared};
use crate::coll::state::Guard;
use crate::constants::MPI_SUCCESS;
use crate::errors::{MpiError, Outcome};
use crate::ground::context::COLLECTIVE;
use crate::ground::memory::{Sink, Source};
use crate::job::wait::wait_request;
use crate::p2p::Started;
use ferriband_mpi_coll::{Algorithm, Collective, Place};
use ferriband_mpi_proto::matching;

/// One collective call of one communicator.
pub struct Call {
    comm: u32,
    context: u64,
    tag: i32,
    /// This process's rank.
    pub rank: u32,
    /// Ranks of the communicator.
    pub size: u32,
    requests: Vec<u32>,
}

impl Call {
    /// The next collective of the communicator at `comm`.
    pub fn begin(guard: &mut Guard, comm: u32) -> Self {
        let tag = guard.coll.comms[comm].next_collective();
        let entry = &guard.point.objects.comms[comm];
        Self {
            comm,
            context: entry.context | COLLECTIVE,
            tag,
            rank: entry.rank,
            size: entry.group.size(),
            requests: Vec::new(),
        }
    }

    /// Messages between two ranks, with a tag.
    pub fn between_two(guard: &Guard, comm: u32, tag: i32) -> Self {
        let entry = &guard.point.objects.comms[comm];
        Self {
            comm,
            context: entry.context,
            tag,
            rank: entry.rank,
            size: entry.peers(),
            requests: Vec::new(),
        }
    }

    /// Begins to send to `rank`.
    pub fn send(&mut self, guard: &mut Guard, rank: u32, source: Source) -> Outcome {
        let begun = self.begin_send(guard, rank, source);
        begun.inspect_err(|_| self.abandon(guard))
    }

    fn begin_send(&mut self, guard: &mut Guard, rank: u32, source: Source) -> Outcome {
        self.check(guard)?;
        let to = guard
            .point
            .target(self.comm, self.context & COLLECTIVE != 0, rank, self.tag)
            .ok_or_else(|| MpiError::new(crate::constants::MPI_ERR_RANK))?;
        if let Started::Pending(request) = guard.start_send(to, source, false)? {
            self.requests.push(request);
        }
        Ok(())
    }

    /// Begins to receive from `rank`.
    pub fn receive(&mut self, guard: &mut Guard, rank: u32, sink: Sink) -> Outcome {
        let begun = self.begin_receive(guard, rank, sink);
        begun.inspect_err(|_| self.abandon(guard))
    }

    /// Nothing that has begun goes on: the memory that it was for may go.
    #[cold]
    fn abandon(&mut self, guard: &mut Guard) {
        for request in std::mem::take(&mut self.requests) {
            guard.let_go(request);
        }
    }

    fn begin_receive(&mut self, guard: &mut Guard, rank: u32, sink: Sink) -> Outcome {
        self.check(guard)?;
        let request = guard.start_receive(
            self.comm,
            self.context,
            matching::Source::Rank(rank),
            matching::Tag::Is(self.tag),
            sink,
        )?;
        self.requests.push(request);
        Ok(())
    }

    /// None of those has died that a collective needs.
    fn check(&self, guard: &Guard) -> Outcome {
        if self.context & COLLECTIVE == 0 {
            return Ok(());
        }
        guard.check_whole(self.comm)
    }

    /// Waits for all that has begun. The first error of a receive, if there is one.
    pub fn wait(&mut self, guard: &mut Guard) -> Outcome {
        let mut class = MPI_SUCCESS;
        let requests = std::mem::take(&mut self.requests);
        for (at, request) in requests.iter().copied().enumerate() {
            if let Err(error) = wait_request(guard, request) {
                self.requests.extend(&requests[at..]);
                self.abandon(guard);
                return Err(error);
            }
            if let Some(over) = guard.point.requests.slab.remove(request)
                && class == MPI_SUCCESS
            {
                class = over.status.error;
            }
        }
        if class == MPI_SUCCESS {
            Ok(())
        } else {
            Err(MpiError::new(class))
        }
    }
}

/// All ranks have come.
pub fn barrier(guard: &mut Guard, comm: u32) -> Outcome {
    if shared::barrier(guard, comm)? {
        return Ok(());
    }
    let pairs = guard.point.objects.comms[comm]
        .group
        .size()
        .is_power_of_two();
    barrier_by_hand(guard, comm, pairs)
}

/// The same by the algorithm that the table names. False if that is none of those at hand here, and nothing was done: it is a schedule's.
pub fn barrier_as_chosen(guard: &mut Guard, comm: u32) -> Outcome<bool> {
    if shared::barrier(guard, comm)? {
        return Ok(true);
    }
    let crowded = guard.is_crowded(comm);
    let entry = &guard.point.objects.comms[comm];
    let place = Place::new(entry.rank, entry.group.size());
    let table = guard.table();
    let pairs = match table.choose(&Collective::Barrier, place, 0, crowded) {
        Algorithm::Pairwise => true,
        Algorithm::Dissemination => false,
        _ => return Ok(false),
    };
    barrier_by_hand(guard, comm, pairs)?;
    Ok(true)
}

/// Pairwise exchange, for powers of two, or dissemination.
fn barrier_by_hand(guard: &mut Guard, comm: u32, pairs: bool) -> Outcome {
    let mut call = Call::begin(guard, comm);
    let mut distance = 1;
    while distance < call.size {
        let (to, from) = if pairs {
            (call.rank ^ distance, call.rank ^ distance)
        } else {
            (
                (call.rank + distance) % call.size,
                (call.rank + call.size - distance) % call.size,
            )
        };
        call.receive(guard, from, Sink::EMPTY)?;
        call.send(guard, to, Source::EMPTY)?;
        call.wait(guard)?;
        distance *= 2;
    }
    Ok(())
}

/// The root's bytes to all: `source` there, into `sink` elsewhere.
pub fn bcast(guard: &mut Guard, comm: u32, root: u32, source: Source, sink: Sink) -> Outcome {
    let mut call = Call::begin(guard, comm);
    if call.rank == root {
        for rank in (0..call.size).filter(|rank| *rank != root) {
            call.send(guard, rank, source)?;
        }
    } else {
        call.receive(guard, root, sink)?;
    }
    call.wait(guard)
}

/// Does a collective to its end.
pub fn run(guard: &mut Guard, comm: u32, prepared: exec::Prepared) -> Outcome {
    if let Some(shape) = prepared.shape {
        return blocks::run(guard, comm, shape, prepared);
    }
    let request = guard.start_collective(comm, prepared, false)?;
    wait_request(guard, request).inspect_err(|_| guard.let_go(request))?;
    match guard.point.requests.slab.remove(request) {
        Some(over) if over.status.error != MPI_SUCCESS => Err(MpiError::new(over.status.error)),
        _ => Ok(()),
    }
}
