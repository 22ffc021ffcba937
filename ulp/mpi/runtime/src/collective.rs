//! Blocking collectives out of sends and receives in the communicator's second context.
//!
//! Barrier is the one of the paper (MacArthur et al. 2017, section IV-B): pairwise exchange for powers of two, dissemination otherwise. The
//! others are linear; schedules will take their place.

use crate::comm::COLLECTIVE;
use crate::constants::MPI_SUCCESS;
use crate::edge::Guard;
use crate::errors::{MpiError, Outcome};
use crate::host::{Buffer, Sink, Source};
use crate::p2p::Started;
use crate::wait::wait_request;
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
        let entry = &mut guard.comms[comm];
        Self {
            comm,
            context: entry.context | COLLECTIVE,
            tag: entry.next_collective(),
            rank: entry.rank,
            size: entry.group.size(),
            requests: Vec::new(),
        }
    }

    /// Begins to send to `rank`.
    pub fn send(&mut self, guard: &mut Guard, rank: u32, source: Source) -> Outcome {
        let to = guard
            .target(self.comm, true, rank, self.tag)
            .ok_or_else(|| MpiError::new(crate::constants::MPI_ERR_RANK))?;
        if let Started::Pending(request) = guard.start_send(to, source, false)? {
            self.requests.push(request);
        }
        Ok(())
    }

    /// Begins to receive from `rank`.
    pub fn receive(&mut self, guard: &mut Guard, rank: u32, sink: Sink) -> Outcome {
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

    /// Waits for all that has begun. The first error of a receive, if there is one.
    pub fn wait(&mut self, guard: &mut Guard) -> Outcome {
        let mut class = MPI_SUCCESS;
        for request in std::mem::take(&mut self.requests) {
            wait_request(guard, request)?;
            if let Some(over) = guard.requests.remove(request)
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
    let mut call = Call::begin(guard, comm);
    let mut distance = 1;
    while distance < call.size {
        let (to, from) = if call.size.is_power_of_two() {
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

/// Everybody's bytes to the root, `sink(rank)` there.
pub fn gather(
    guard: &mut Guard,
    comm: u32,
    root: u32,
    source: Option<Source>,
    sink: impl Fn(u32) -> Sink,
) -> Outcome {
    let mut call = Call::begin(guard, comm);
    if call.rank == root {
        for rank in (0..call.size).filter(|rank| *rank != root) {
            call.receive(guard, rank, sink(rank))?;
        }
        if let Some(source) = source {
            source.copy_to(&sink(root));
        }
    } else if let Some(source) = source {
        call.send(guard, root, source)?;
    }
    call.wait(guard)
}

/// To each rank its bytes of the root, `source(rank)` there.
pub fn scatter(
    guard: &mut Guard,
    comm: u32,
    root: u32,
    source: impl Fn(u32) -> Source,
    sink: Option<Sink>,
) -> Outcome {
    let mut call = Call::begin(guard, comm);
    if call.rank == root {
        for rank in (0..call.size).filter(|rank| *rank != root) {
            call.send(guard, rank, source(rank))?;
        }
        if let Some(sink) = sink {
            source(root).copy_to(&sink);
        }
    } else if let Some(sink) = sink {
        call.receive(guard, root, sink)?;
    }
    call.wait(guard)
}

/// To each rank its bytes of each: `source(rank)` goes there, `sink(rank)` is for what comes from there.
pub fn exchange(
    guard: &mut Guard,
    comm: u32,
    source: impl Fn(u32) -> Source,
    sink: impl Fn(u32) -> Sink,
) -> Outcome {
    let mut call = Call::begin(guard, comm);
    let (own, size) = (call.rank, call.size);
    for step in 1..size {
        call.receive(
            guard,
            (own + size - step) % size,
            sink((own + size - step) % size),
        )?;
    }
    source(own).copy_to(&sink(own));
    for step in 1..size {
        call.send(guard, (own + step) % size, source((own + step) % size))?;
    }
    call.wait(guard)
}

/// Everybody's elements, combined in the order of ranks, to the root: `sink` there. `combine` takes the left operand and changes the right one.
pub fn reduce(
    guard: &mut Guard,
    comm: u32,
    root: u32,
    source: Source,
    sink: Option<Sink>,
    combine: &dyn Fn(&[u8], &mut [u8]) -> Outcome,
) -> Outcome {
    let mut call = Call::begin(guard, comm);
    if call.rank != root {
        call.send(guard, root, source)?;
        return call.wait(guard);
    }
    let mut parts: Vec<Buffer> = (0..call.size).map(|_| Buffer::new(source.len())).collect();
    for (rank, part) in (0..call.size).zip(&mut parts) {
        if rank == root {
            source.copy_to(&part.sink());
        } else {
            call.receive(guard, rank, part.sink())?;
        }
    }
    call.wait(guard)?;
    let Some(mut result) = parts.pop() else {
        return Ok(());
    };
    while let Some(left) = parts.pop() {
        combine(left.bytes(), result.bytes_mut())?;
    }
    if let Some(sink) = sink {
        sink.fill(result.bytes());
    }
    Ok(())
}
