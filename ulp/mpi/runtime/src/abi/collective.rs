//! Collectives that move blocks: what the program passed becomes a schedule and the places of its
//! blocks. The entries are in `collective_calls.rs`.

use super::blocks::{Uneven, all_aside, even, moving, send_aside, shape, sources};
use super::inter;
use super::values::{is_in_place, rank_of, sink, source};
use crate::coll::exec::Prepared;
use crate::coll::state::Guard;
use crate::constants::*;
use crate::errors::Outcome;
use ferriband_mpi_coll::{Blocks, Collective};
use std::ffi::{c_int, c_void};

pub(super) fn barrier(guard: &mut Guard, comm: u32) -> Outcome<Prepared> {
    if inter::has_sides(guard, comm) {
        return inter::barrier(guard, comm);
    }
    moving(guard, comm, &Collective::Barrier, 0, Vec::new(), Vec::new())
}

/// # Safety
/// As the standard says of the buffer, here and below.
pub(super) unsafe fn bcast(
    guard: &mut Guard,
    comm: u32,
    buffer: *mut c_void,
    count: i64,
    datatype: i32,
    root: c_int,
) -> Outcome<Prepared> {
    if inter::has_sides(guard, comm) {
        // SAFETY: the caller's promise.
        return unsafe { inter::bcast(guard, comm, (buffer, count, datatype), root) };
    }
    let root = rank_of(guard, comm, root, MPI_ERR_ROOT)?;
    // SAFETY: the program's buffer.
    let place = unsafe { sink(guard, buffer, count, datatype) }?;
    let count = place.len() as u64;
    moving(
        guard,
        comm,
        &Collective::Bcast { count, root },
        count,
        Vec::new(),
        vec![place],
    )
}

/// # Safety
/// As for [`bcast`].
pub(super) unsafe fn gather(
    guard: &mut Guard,
    comm: u32,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, i32),
    (recvbuf, recvcount, recvtype): (*mut c_void, i64, i32),
    root: c_int,
) -> Outcome<Prepared> {
    if inter::has_sides(guard, comm) {
        // SAFETY: the caller's promise.
        return unsafe {
            inter::gather(
                guard,
                comm,
                (sendbuf, sendcount, sendtype),
                |guard, size| inter::equal(guard, (recvbuf, recvcount, recvtype), size),
                root,
            )
        };
    }
    let root = rank_of(guard, comm, root, MPI_ERR_ROOT)?;
    let (rank, size) = shape(guard, comm);
    let in_place = rank == root && is_in_place(sendbuf);
    // SAFETY: the program's buffers; the receiving one means something at the root only.
    let (recv, send) = unsafe {
        (
            (rank == root)
                .then(|| even(guard, recvbuf, recvcount, recvtype, size))
                .transpose()?,
            (!in_place)
                .then(|| source(guard, sendbuf, sendcount, sendtype))
                .transpose()?,
        )
    };
    if let (Some((_, blocks)), Some(send)) = (&recv, &send) {
        send_aside(send, blocks, rank)?;
    }
    let each = match (&recv, &send) {
        (Some((each, _)), _) => *each,
        (None, own) => own.map_or(0, |own| own.len() as u64),
    };
    let collective = Collective::Gather {
        blocks: Blocks::Equal(each),
        root,
        in_place,
    };
    let recv = recv.map_or(Vec::new(), |(_, blocks)| blocks);
    moving(
        guard,
        comm,
        &collective,
        each,
        send.into_iter().collect(),
        recv,
    )
}

/// # Safety
/// As for [`bcast`].
pub(super) unsafe fn gatherv(
    guard: &mut Guard,
    comm: u32,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, i32),
    recv: Uneven,
    root: c_int,
) -> Outcome<Prepared> {
    if inter::has_sides(guard, comm) {
        // SAFETY: the caller's promise.
        return unsafe {
            inter::gather(
                guard,
                comm,
                (sendbuf, sendcount, sendtype),
                |guard, size| recv.blocks(guard, size),
                root,
            )
        };
    }
    let root = rank_of(guard, comm, root, MPI_ERR_ROOT)?;
    let (rank, size) = shape(guard, comm);
    let in_place = rank == root && is_in_place(sendbuf);
    // SAFETY: the program's buffers and arrays; the receiving ones mean something at the root only.
    let (blocks, send) = unsafe {
        (
            (rank == root)
                .then(|| recv.blocks(guard, size))
                .transpose()?,
            (!in_place)
                .then(|| source(guard, sendbuf, sendcount, sendtype))
                .transpose()?,
        )
    };
    if let (Some((_, blocks)), Some(send)) = (&blocks, &send) {
        send_aside(send, blocks, rank)?;
    }
    // Who is not the root knows its own length, and that is all it needs.
    let own = send.map_or(0, |own| own.len() as u64);
    let (lengths, recv) = blocks.unwrap_or_else(|| (vec![own; size], Vec::new()));
    let collective = Collective::Gather {
        blocks: Blocks::Each(&lengths),
        root,
        in_place,
    };
    moving(
        guard,
        comm,
        &collective,
        0,
        send.into_iter().collect(),
        recv,
    )
}

/// # Safety
/// As for [`bcast`].
pub(super) unsafe fn scatter(
    guard: &mut Guard,
    comm: u32,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, i32),
    (recvbuf, recvcount, recvtype): (*mut c_void, i64, i32),
    root: c_int,
) -> Outcome<Prepared> {
    if inter::has_sides(guard, comm) {
        // SAFETY: the caller's promise.
        return unsafe {
            inter::scatter(
                guard,
                comm,
                |guard, size| inter::equal(guard, (sendbuf.cast_mut(), sendcount, sendtype), size),
                (recvbuf, recvcount, recvtype),
                root,
            )
        };
    }
    let root = rank_of(guard, comm, root, MPI_ERR_ROOT)?;
    let (rank, size) = shape(guard, comm);
    let in_place = rank == root && is_in_place(recvbuf);
    // SAFETY: the program's buffers; the sending one means something at the root only, where it is read.
    let (send, recv) = unsafe {
        (
            (rank == root)
                .then(|| even(guard, sendbuf.cast_mut(), sendcount, sendtype, size))
                .transpose()?,
            (!in_place)
                .then(|| sink(guard, recvbuf, recvcount, recvtype))
                .transpose()?,
        )
    };
    if let (Some((_, blocks)), Some(recv)) = (&send, &recv) {
        send_aside(&recv.source(), blocks, rank)?;
    }
    let each = match (&send, &recv) {
        (Some((each, _)), _) => *each,
        (None, own) => own.map_or(0, |own| own.len() as u64),
    };
    let collective = Collective::Scatter {
        blocks: Blocks::Equal(each),
        root,
        in_place,
    };
    let send = send.map_or(Vec::new(), |(_, blocks)| sources(&blocks));
    // The root's own block may have more room than it has bytes.
    let recv = recv.map(|own| own.part(0, own.len().min(each as usize)));
    moving(
        guard,
        comm,
        &collective,
        each,
        send,
        recv.into_iter().collect(),
    )
}

/// # Safety
/// As for [`bcast`].
pub(super) unsafe fn scatterv(
    guard: &mut Guard,
    comm: u32,
    send: Uneven,
    (recvbuf, recvcount, recvtype): (*mut c_void, i64, i32),
    root: c_int,
) -> Outcome<Prepared> {
    if inter::has_sides(guard, comm) {
        // SAFETY: the caller's promise.
        return unsafe {
            inter::scatter(
                guard,
                comm,
                |guard, size| send.blocks(guard, size),
                (recvbuf, recvcount, recvtype),
                root,
            )
        };
    }
    let root = rank_of(guard, comm, root, MPI_ERR_ROOT)?;
    let (rank, size) = shape(guard, comm);
    let in_place = rank == root && is_in_place(recvbuf);
    // SAFETY: the program's buffers and arrays; the sending ones mean something at the root only, where they are read.
    let (blocks, recv) = unsafe {
        (
            (rank == root)
                .then(|| send.blocks(guard, size))
                .transpose()?,
            (!in_place)
                .then(|| sink(guard, recvbuf, recvcount, recvtype))
                .transpose()?,
        )
    };
    if let (Some((_, blocks)), Some(recv)) = (&blocks, &recv) {
        send_aside(&recv.source(), blocks, rank)?;
    }
    let own = recv.map_or(0, |own| own.len() as u64);
    let (lengths, send) = blocks.unwrap_or_else(|| (vec![own; size], Vec::new()));
    let collective = Collective::Scatter {
        blocks: Blocks::Each(&lengths),
        root,
        in_place,
    };
    moving(
        guard,
        comm,
        &collective,
        0,
        sources(&send),
        recv.into_iter().collect(),
    )
}

/// # Safety
/// As for [`bcast`].
pub(super) unsafe fn allgather(
    guard: &mut Guard,
    comm: u32,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, i32),
    (recvbuf, recvcount, recvtype): (*mut c_void, i64, i32),
) -> Outcome<Prepared> {
    if inter::has_sides(guard, comm) {
        // SAFETY: the caller's promise.
        return unsafe {
            inter::allgather(
                guard,
                comm,
                (sendbuf, sendcount, sendtype),
                |guard, size| inter::equal(guard, (recvbuf, recvcount, recvtype), size),
            )
        };
    }
    let (rank, size) = shape(guard, comm);
    let in_place = is_in_place(sendbuf);
    // SAFETY: the program's buffers.
    let ((each, recv), send) = unsafe {
        (
            even(guard, recvbuf, recvcount, recvtype, size)?,
            (!in_place)
                .then(|| source(guard, sendbuf, sendcount, sendtype))
                .transpose()?,
        )
    };
    if let Some(send) = &send {
        send_aside(send, &recv, rank)?;
    }
    let collective = Collective::Allgather {
        blocks: Blocks::Equal(each),
        in_place,
    };
    moving(
        guard,
        comm,
        &collective,
        each,
        send.into_iter().collect(),
        recv,
    )
}

/// # Safety
/// As for [`bcast`].
pub(super) unsafe fn allgatherv(
    guard: &mut Guard,
    comm: u32,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, i32),
    recv: Uneven,
) -> Outcome<Prepared> {
    if inter::has_sides(guard, comm) {
        // SAFETY: the caller's promise.
        return unsafe {
            inter::allgather(
                guard,
                comm,
                (sendbuf, sendcount, sendtype),
                |guard, size| recv.blocks(guard, size),
            )
        };
    }
    let (rank, size) = shape(guard, comm);
    let in_place = is_in_place(sendbuf);
    // SAFETY: the program's buffers and arrays.
    let ((lengths, recv), send) = unsafe {
        (
            recv.blocks(guard, size)?,
            (!in_place)
                .then(|| source(guard, sendbuf, sendcount, sendtype))
                .transpose()?,
        )
    };
    if let Some(send) = &send {
        send_aside(send, &recv, rank)?;
    }
    let mean = lengths
        .iter()
        .fold(0_u64, |sum, length| sum.saturating_add(*length))
        / size as u64;
    let collective = Collective::Allgather {
        blocks: Blocks::Each(&lengths),
        in_place,
    };
    moving(
        guard,
        comm,
        &collective,
        mean,
        send.into_iter().collect(),
        recv,
    )
}

/// # Safety
/// As for [`bcast`].
pub(super) unsafe fn alltoall(
    guard: &mut Guard,
    comm: u32,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, i32),
    (recvbuf, recvcount, recvtype): (*mut c_void, i64, i32),
) -> Outcome<Prepared> {
    if inter::has_sides(guard, comm) {
        // SAFETY: the caller's promise.
        return unsafe {
            inter::alltoall(
                guard,
                comm,
                (sendbuf, sendcount, sendtype),
                (recvbuf, recvcount, recvtype),
            )
        };
    }
    let (rank, size) = shape(guard, comm);
    let in_place = is_in_place(sendbuf);
    // SAFETY: the program's buffers.
    let ((each, recv), send) = unsafe {
        (
            even(guard, recvbuf, recvcount, recvtype, size)?,
            (!in_place)
                .then(|| even(guard, sendbuf.cast_mut(), sendcount, sendtype, size))
                .transpose()?,
        )
    };
    if let Some((_, send)) = &send {
        all_aside(send, &recv, rank)?;
    }
    let blocks = Blocks::Equal(each);
    let collective = Collective::Alltoall {
        send: blocks,
        recv: blocks,
        in_place,
    };
    let send = send.map_or(Vec::new(), |(_, blocks)| sources(&blocks));
    moving(guard, comm, &collective, each, send, recv)
}

/// MPI_Alltoallv and w.
///
/// # Safety
/// As for [`bcast`].
pub(super) unsafe fn alltoallv(
    guard: &mut Guard,
    comm: u32,
    send: Uneven,
    recv: Uneven,
) -> Outcome<Prepared> {
    if inter::has_sides(guard, comm) {
        // SAFETY: the caller's promise.
        return unsafe { inter::alltoallv(guard, comm, send, recv) };
    }
    let (rank, size) = shape(guard, comm);
    let in_place = is_in_place(send.buffer);
    // SAFETY: the program's buffers and arrays.
    let ((lengths, recv), send) = unsafe {
        (
            recv.blocks(guard, size)?,
            (!in_place).then(|| send.blocks(guard, size)).transpose()?,
        )
    };
    if let Some((_, send)) = &send {
        all_aside(send, &recv, rank)?;
    }
    let (out, send) = send.unwrap_or_default();
    let collective = Collective::Alltoall {
        send: if in_place {
            Blocks::Equal(0)
        } else {
            Blocks::Each(&out)
        },
        recv: Blocks::Each(&lengths),
        in_place,
    };
    // Lengths differ from rank to rank, and all must choose alike.
    moving(guard, comm, &collective, 0, sources(&send), recv)
}
