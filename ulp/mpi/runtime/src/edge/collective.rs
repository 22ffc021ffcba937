//! Collectives.

use super::raise::on_comm;
use super::state::Guard;
use super::values::{bytes, is_in_place, rank_of, sink, source};
use crate::collective;
use crate::constants::*;
use crate::datatype;
use crate::errors::{MpiError, Outcome};
use crate::host::{Sink, Source};
use ferriband_mpi_data::{Named, Op};
use std::ffi::{c_int, c_void};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_barrier(comm: i32) -> c_int {
    on_comm("MPI_Barrier", comm, |guard, comm| {
        collective::barrier(guard, comm)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_bcast(
    buffer: *mut c_void,
    count: i64,
    datatype: i32,
    root: c_int,
    comm: i32,
) -> c_int {
    on_comm("MPI_Bcast", comm, |guard, comm| {
        let root = rank_of(guard, comm, root, MPI_ERR_ROOT)?;
        // SAFETY: the program's buffer, which is read at the root and written elsewhere.
        let (source, sink) = unsafe {
            (
                source(buffer, count, datatype)?,
                sink(buffer, count, datatype)?,
            )
        };
        collective::bcast(guard, comm, root, source, sink)
    })
}

/// This process's rank, and the size, of a communicator.
fn shape(guard: &Guard, comm: u32) -> (u32, usize) {
    let comm = &guard.comms[comm];
    (comm.rank, comm.group.size() as usize)
}

/// The buffer of a rank within one that has `each` bytes for all `size`.
///
/// # Safety
/// As the standard says of the buffer.
unsafe fn sinks(
    buffer: *mut c_void,
    count: i64,
    kind: i32,
    size: usize,
) -> Outcome<impl Fn(u32) -> Sink> {
    let each = bytes(count, kind)?;
    // SAFETY: the caller's promise.
    let whole = unsafe { sink(buffer, count.saturating_mul(size as i64), kind) }?;
    Ok(move |rank: u32| whole.part(rank as usize * each, each))
}

/// The same of one that is sent from.
///
/// # Safety
/// As the standard says of the buffer.
unsafe fn sources(
    buffer: *const c_void,
    count: i64,
    kind: i32,
    size: usize,
) -> Outcome<impl Fn(u32) -> Source> {
    let each = bytes(count, kind)?;
    // SAFETY: the caller's promise.
    let whole = unsafe { source(buffer, count.saturating_mul(size as i64), kind) }?;
    Ok(move |rank: u32| whole.part(rank as usize * each, each))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_gather(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: i32,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: i32,
    root: c_int,
    comm: i32,
) -> c_int {
    on_comm("MPI_Gather", comm, |guard, comm| {
        let root = rank_of(guard, comm, root, MPI_ERR_ROOT)?;
        let (rank, size) = shape(guard, comm);
        // SAFETY: the program's buffers; the receiving one means something at the root only, where the sending one may be MPI_IN_PLACE.
        unsafe {
            let own = if is_in_place(sendbuf) && rank == root {
                None
            } else {
                Some(source(sendbuf, sendcount, sendtype)?)
            };
            if rank == root {
                let place = sinks(recvbuf, recvcount, recvtype, size)?;
                collective::gather(guard, comm, root, own, place)
            } else {
                collective::gather(guard, comm, root, own, |_| Sink::EMPTY)
            }
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_scatter(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: i32,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: i32,
    root: c_int,
    comm: i32,
) -> c_int {
    on_comm("MPI_Scatter", comm, |guard, comm| {
        let root = rank_of(guard, comm, root, MPI_ERR_ROOT)?;
        let (rank, size) = shape(guard, comm);
        // SAFETY: the program's buffers, as above with the roles exchanged.
        unsafe {
            let own = if is_in_place(recvbuf) && rank == root {
                None
            } else {
                Some(sink(recvbuf, recvcount, recvtype)?)
            };
            if rank == root {
                let place = sources(sendbuf, sendcount, sendtype, size)?;
                collective::scatter(guard, comm, root, place, own)
            } else {
                collective::scatter(guard, comm, root, |_| Source::EMPTY, own)
            }
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_allgather(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: i32,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: i32,
    comm: i32,
) -> c_int {
    on_comm("MPI_Allgather", comm, |guard, comm| {
        let (rank, size) = shape(guard, comm);
        // SAFETY: the program's buffers; what MPI_IN_PLACE stands for lies where it is received.
        unsafe {
            let place = sinks(recvbuf, recvcount, recvtype, size)?;
            let own = if is_in_place(sendbuf) {
                sources(recvbuf, recvcount, recvtype, size)?(rank)
            } else {
                source(sendbuf, sendcount, sendtype)?
            };
            collective::exchange(guard, comm, |_| own, place)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_alltoall(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: i32,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: i32,
    comm: i32,
) -> c_int {
    on_comm("MPI_Alltoall", comm, |guard, comm| {
        let (_, size) = shape(guard, comm);
        // SAFETY: the program's buffers. In place the sent bytes are a copy, which is kept until the exchange is over.
        unsafe {
            let place = sinks(recvbuf, recvcount, recvtype, size)?;
            if is_in_place(sendbuf) {
                let copy =
                    source(recvbuf, recvcount.saturating_mul(size as i64), recvtype)?.to_bytes();
                let part = sources(copy.as_ptr().cast(), recvcount, recvtype, size)?;
                collective::exchange(guard, comm, part, place)
            } else {
                let part = sources(sendbuf, sendcount, sendtype, size)?;
                collective::exchange(guard, comm, part, place)
            }
        }
    })
}

/// A predefined operation on a predefined datatype, and the bytes of `count` elements with their gaps.
fn operation(op: i32, kind: i32, count: i64) -> Outcome<(Op, Named, usize)> {
    let class = |class| MpiError::new(class);
    let named = datatype::named(kind).ok_or_else(|| class(MPI_ERR_TYPE))?;
    let op = u32::try_from(op)
        .ok()
        .and_then(Op::from_value)
        .filter(|op| !op.is_for_windows_only())
        .ok_or_else(|| class(MPI_ERR_OP))?;
    op.check(named)
        .map_err(|error| MpiError::with(error.class().code(), error.to_string()))?;
    let bytes = usize::try_from(count)
        .ok()
        .and_then(|count| count.checked_mul(named.extent() as usize))
        .ok_or_else(|| MpiError::with(MPI_ERR_COUNT, format!("{count} elements")))?;
    Ok((op, named, bytes))
}

/// Combines two vectors of elements.
fn combine(op: Op, named: Named) -> impl Fn(&[u8], &mut [u8]) -> Outcome {
    move |left, right| {
        let count = left.len().min(right.len()) / named.extent() as usize;
        // SAFETY: both have that many elements, and they are different buffers of the runtime's own.
        let done = unsafe {
            ferriband_mpi_data::reduce(op, named.kind(), left.as_ptr(), right.as_mut_ptr(), count)
        };
        done.map_err(|error| MpiError::with(error.class().code(), error.to_string()))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_reduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: i32,
    op: i32,
    root: c_int,
    comm: i32,
) -> c_int {
    on_comm("MPI_Reduce", comm, |guard, comm| {
        let root = rank_of(guard, comm, root, MPI_ERR_ROOT)?;
        let (rank, _) = shape(guard, comm);
        let (op, named, bytes) = operation(op, datatype, count)?;
        let from = if is_in_place(sendbuf) && rank == root {
            recvbuf.cast_const()
        } else {
            sendbuf
        };
        // SAFETY: the program's buffers; the receiving one means something at the root only.
        unsafe {
            let source = source(from, bytes as i64, MPI_BYTE)?;
            let sink = if rank == root {
                Some(sink(recvbuf, bytes as i64, MPI_BYTE)?)
            } else {
                None
            };
            collective::reduce(guard, comm, root, source, sink, &combine(op, named))
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_allreduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: i32,
    op: i32,
    comm: i32,
) -> c_int {
    on_comm("MPI_Allreduce", comm, |guard, comm| {
        let (rank, _) = shape(guard, comm);
        let (op, named, bytes) = operation(op, datatype, count)?;
        let from = if is_in_place(sendbuf) {
            recvbuf.cast_const()
        } else {
            sendbuf
        };
        // SAFETY: the program's buffers.
        unsafe {
            let (own, place) = (
                source(from, bytes as i64, MPI_BYTE)?,
                sink(recvbuf, bytes as i64, MPI_BYTE)?,
            );
            collective::reduce(
                guard,
                comm,
                0,
                own,
                (rank == 0).then_some(place),
                &combine(op, named),
            )?;
            collective::bcast(
                guard,
                comm,
                0,
                source(recvbuf, bytes as i64, MPI_BYTE)?,
                place,
            )
        }
    })
}
