//! Collectives over inter-communicators: what comes out at one side is made from what went in at the other.

use super::blocks::{Elements, Uneven, even, sources};
use super::op::Reduction;
use super::values::{rank_of, sink, source};
use crate::coll::exec::{Buffers, Prepared};
use crate::coll::state::Guard;
use crate::constants::*;
use crate::errors::{MpiError, Outcome};
use crate::ground::array::Array;
use crate::ground::memory::{Sink, Source};
use ferriband_mpi_coll::{Blocks, InterCollective, InterRoot, Place, Schedule, build_inter};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// Whether a communicator has two sides.
#[inline]
pub(super) fn has_sides(guard: &Guard, comm: u32) -> bool {
    guard.point.objects.comms[comm].remote.is_some()
}

/// Ranks of the other side.
fn others(guard: &Guard, comm: u32) -> usize {
    guard.point.objects.comms[comm].peers() as usize
}

fn root_of(guard: &Guard, comm: u32, root: c_int) -> Outcome<InterRoot> {
    Ok(match root {
        MPI_ROOT => InterRoot::Me,
        MPI_PROC_NULL => InterRoot::None,
        rank => InterRoot::Other(rank_of(guard, comm, rank, MPI_ERR_ROOT)?),
    })
}

fn schedule(guard: &Guard, comm: u32, what: &InterCollective<'_>) -> Outcome<Arc<Schedule>> {
    let entry = &guard.point.objects.comms[comm];
    let me = Place::new(entry.rank, entry.group.size());
    build_inter(what, me, entry.peers())
        .map(Arc::new)
        .map_err(|error| MpiError::with(MPI_ERR_INTERN, error.to_string()))
}

fn moving(
    guard: &Guard,
    comm: u32,
    what: &InterCollective<'_>,
    send: Vec<Source>,
    recv: Vec<Sink>,
) -> Outcome<Prepared> {
    Ok(Prepared {
        schedule: schedule(guard, comm, what)?,
        shape: None,
        buffers: Buffers::new(1, send, recv),
        combine: None,
        after: None,
    })
}

pub(super) fn barrier(guard: &mut Guard, comm: u32) -> Outcome<Prepared> {
    let what = InterCollective::Barrier;
    moving(guard, comm, &what, Vec::new(), Vec::new())
}

/// # Safety
/// As the standard says of the buffer, here and below.
pub(super) unsafe fn bcast(
    guard: &mut Guard,
    comm: u32,
    (buffer, count, datatype): (*mut c_void, i64, i32),
    root: c_int,
) -> Outcome<Prepared> {
    let root = root_of(guard, comm, root)?;
    if root == InterRoot::None {
        let what = InterCollective::Bcast { count: 0, root };
        return moving(guard, comm, &what, Vec::new(), vec![Sink::EMPTY]);
    }
    // SAFETY: the program's buffer.
    let place = unsafe { sink(guard, buffer, count, datatype) }?;
    let what = InterCollective::Bcast {
        count: place.len() as u64,
        root,
    };
    moving(guard, comm, &what, Vec::new(), vec![place])
}

/// What is gathered: blocks at the root, one at each rank of the other side.
pub(super) unsafe fn gather(
    guard: &mut Guard,
    comm: u32,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, i32),
    recv: impl FnOnce(&mut Guard, usize) -> Outcome<(Vec<u64>, Vec<Sink>)>,
    root: c_int,
) -> Outcome<Prepared> {
    let root = root_of(guard, comm, root)?;
    let count = others(guard, comm);
    let (lengths, blocks, send) = match root {
        InterRoot::Me => {
            let (lengths, blocks) = recv(guard, count)?;
            (lengths, blocks, Vec::new())
        }
        InterRoot::None => (vec![0; count], Vec::new(), Vec::new()),
        InterRoot::Other(_) => {
            // SAFETY: the program's buffer.
            let own = unsafe { source(guard, sendbuf, sendcount, sendtype) }?;
            let own_side = guard.point.objects.comms[comm].group.size() as usize;
            (vec![own.len() as u64; own_side], Vec::new(), vec![own])
        }
    };
    let what = InterCollective::Gather {
        blocks: Blocks::Each(&lengths),
        root,
    };
    moving(guard, comm, &what, send, blocks)
}

/// The reverse.
pub(super) unsafe fn scatter(
    guard: &mut Guard,
    comm: u32,
    send: impl FnOnce(&mut Guard, usize) -> Outcome<(Vec<u64>, Vec<Sink>)>,
    (recvbuf, recvcount, recvtype): (*mut c_void, i64, i32),
    root: c_int,
) -> Outcome<Prepared> {
    let root = root_of(guard, comm, root)?;
    let count = others(guard, comm);
    let (lengths, blocks, recv) = match root {
        InterRoot::Me => {
            let (lengths, blocks) = send(guard, count)?;
            (lengths, sources(&blocks), Vec::new())
        }
        InterRoot::None => (vec![0; count], Vec::new(), Vec::new()),
        InterRoot::Other(_) => {
            // SAFETY: the program's buffer.
            let own = unsafe { sink(guard, recvbuf, recvcount, recvtype) }?;
            let own_side = guard.point.objects.comms[comm].group.size() as usize;
            (vec![own.len() as u64; own_side], Vec::new(), vec![own])
        }
    };
    let what = InterCollective::Scatter {
        blocks: Blocks::Each(&lengths),
        root,
    };
    moving(guard, comm, &what, blocks, recv)
}

/// Equal blocks as a list of lengths and places.
pub(super) unsafe fn equal(
    guard: &mut Guard,
    (buffer, count, kind): (*mut c_void, i64, i32),
    size: usize,
) -> Outcome<(Vec<u64>, Vec<Sink>)> {
    // SAFETY: the caller's promise.
    let (each, blocks) = unsafe { even(guard, buffer, count, kind, size) }?;
    Ok((vec![each; size], blocks))
}

pub(super) unsafe fn allgather(
    guard: &mut Guard,
    comm: u32,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, i32),
    recv: impl FnOnce(&mut Guard, usize) -> Outcome<(Vec<u64>, Vec<Sink>)>,
) -> Outcome<Prepared> {
    let count = others(guard, comm);
    // SAFETY: the program's buffer.
    let own = unsafe { source(guard, sendbuf, sendcount, sendtype) }?;
    let (lengths, blocks) = recv(guard, count)?;
    let what = InterCollective::Allgather {
        count: own.len() as u64,
        recv: Blocks::Each(&lengths),
    };
    moving(guard, comm, &what, vec![own], blocks)
}

pub(super) unsafe fn alltoall(
    guard: &mut Guard,
    comm: u32,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, i32),
    (recvbuf, recvcount, recvtype): (*mut c_void, i64, i32),
) -> Outcome<Prepared> {
    let count = others(guard, comm);
    // SAFETY: the program's buffers; the first is only read.
    let ((goes, send), (comes, recv)) = unsafe {
        (
            even(guard, sendbuf.cast_mut(), sendcount, sendtype, count)?,
            even(guard, recvbuf, recvcount, recvtype, count)?,
        )
    };
    let what = InterCollective::Alltoall {
        send: Blocks::Equal(goes),
        recv: Blocks::Equal(comes),
    };
    moving(guard, comm, &what, sources(&send), recv)
}

pub(super) unsafe fn alltoallv(
    guard: &mut Guard,
    comm: u32,
    send: Uneven,
    recv: Uneven,
) -> Outcome<Prepared> {
    let count = others(guard, comm);
    // SAFETY: the program's buffers and arrays; the first is only read.
    let ((goes, send), (comes, recv)) =
        unsafe { (send.blocks(guard, count)?, recv.blocks(guard, count)?) };
    let what = InterCollective::Alltoall {
        send: Blocks::Each(&goes),
        recv: Blocks::Each(&comes),
    };
    moving(guard, comm, &what, sources(&send), recv)
}

/// Something that combines: `sent` elements, of which `received` come back here; none: that buffer means nothing.
unsafe fn combining<'a>(
    guard: &mut Guard,
    comm: u32,
    elements: Elements,
    (sent, received): (Option<i64>, Option<i64>),
    what: impl FnOnce(bool) -> InterCollective<'a>,
) -> Outcome<Prepared> {
    let how = Reduction::new(guard, elements.op, elements.datatype)?;
    let (mut send, mut recv) = (Vec::new(), Vec::new());
    // SAFETY: the program's buffers.
    unsafe {
        if let Some(sent) = sent {
            send.push(how.source(guard, elements.sendbuf, sent)?);
        }
        if let Some(received) = received {
            recv.push(how.sink(guard, elements.recvbuf, received)?);
        }
    }
    let schedule = schedule(guard, comm, &what(how.commutes))?;
    Ok(Prepared {
        schedule,
        shape: None,
        buffers: Buffers::new(how.unit, send, recv),
        combine: Some(how.combine),
        after: None,
    })
}

pub(super) unsafe fn reduce(
    guard: &mut Guard,
    comm: u32,
    elements: Elements,
    count: i64,
    root: c_int,
) -> Outcome<Prepared> {
    let root = root_of(guard, comm, root)?;
    if root == InterRoot::None {
        // None of its other arguments means anything, neither the datatype nor the operation.
        let what = InterCollective::Reduce {
            count: 0,
            root,
            commutative: true,
        };
        return moving(guard, comm, &what, Vec::new(), Vec::new());
    }
    let buffers = match root {
        InterRoot::Me => (None, Some(count)),
        InterRoot::None => (None, None),
        InterRoot::Other(_) => (Some(count), None),
    };
    let count = count.max(0).cast_unsigned();
    let what = |commutative| InterCollective::Reduce {
        count,
        root,
        commutative,
    };
    // SAFETY: the caller's promise.
    unsafe { combining(guard, comm, elements, buffers, what) }
}

pub(super) unsafe fn allreduce(
    guard: &mut Guard,
    comm: u32,
    elements: Elements,
    count: i64,
) -> Outcome<Prepared> {
    let units = count.max(0).cast_unsigned();
    let what = |commutative| InterCollective::Allreduce {
        count: units,
        commutative,
    };
    // SAFETY: the caller's promise.
    unsafe { combining(guard, comm, elements, (Some(count), Some(count)), what) }
}

/// The results of the other side are scattered over this one, in blocks of so many elements.
pub(super) unsafe fn reduce_scatter(
    guard: &mut Guard,
    comm: u32,
    elements: Elements,
    counts: impl Fn(usize) -> i64,
) -> Outcome<Prepared> {
    let entry = &guard.point.objects.comms[comm];
    let (rank, size) = (entry.rank as usize, entry.group.size() as usize);
    let (mut lengths, mut total) = (Vec::with_capacity(size), 0_i64);
    for count in (0..size).map(counts) {
        let bad = || MpiError::with(MPI_ERR_COUNT, format!("{count} elements"));
        lengths.push(u64::try_from(count).map_err(|_| bad())?);
        total = total.checked_add(count).ok_or_else(bad)?;
    }
    let own = lengths[rank].cast_signed();
    let what = |commutative| InterCollective::ReduceScatter {
        blocks: Blocks::Each(&lengths),
        commutative,
    };
    // SAFETY: the caller's promise.
    unsafe { combining(guard, comm, elements, (Some(total), Some(own)), what) }
}

/// The counts of an array.
///
/// # Safety
/// It has an element for each rank of this side.
pub(super) unsafe fn each(counts: Array) -> impl Fn(usize) -> i64 {
    // SAFETY: the caller's promise.
    move |at| unsafe { counts.count(at) }
}
