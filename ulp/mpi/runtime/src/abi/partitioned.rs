//! Partitioned sends and receives.

use super::handles::{at_self, resolve_any};
use super::raise::{on_any, on_comm};
use super::request::glance;
use super::values::{longs, put, rank_of, send_tag, sink};
use crate::coll::state::Guard;
use crate::constants::*;
use crate::errors::{MpiError, Outcome};
use crate::p2p::partitioned::Partitioned;
use std::ffi::{c_int, c_void};

/// Makes one side.
///
/// # Safety
/// The program's buffer, as long as the request is there.
unsafe fn make(
    guard: &mut Guard,
    comm: u32,
    sends: bool,
    (buf, partitions, count, datatype): (*mut c_void, c_int, i64, i32),
    (peer, tag): (c_int, c_int),
    request: *mut i32,
) -> Outcome {
    if request.is_null() {
        return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
    }
    let parts = usize::try_from(partitions)
        .map_err(|_| MpiError::with(MPI_ERR_ARG, format!("{partitions} partitions")))?;
    let all = count
        .checked_mul(i64::from(partitions))
        .ok_or_else(|| MpiError::with(MPI_ERR_COUNT, format!("{count} elements")))?;
    // SAFETY: the caller's promise; of a sender it is only read.
    let data = unsafe { sink(guard, buf, all, datatype) }?;
    let tag = send_tag(tag)?;
    let peer = match peer {
        MPI_PROC_NULL => None,
        rank => Some(rank_of(guard, comm, rank, MPI_ERR_RANK)?),
    };
    let side = Partitioned::new(sends, parts, data, peer, tag);
    let index = guard.add_partitioned(comm, side)?;
    // SAFETY: the program's pointer.
    unsafe { put(request, guard.point.requests.slab.handle(index)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_psend_init(
    buf: *const c_void,
    partitions: c_int,
    count: i64,
    datatype: i32,
    dest: c_int,
    tag: c_int,
    comm: i32,
    _info: i32,
    request: *mut i32,
) -> c_int {
    on_comm("MPI_Psend_init", comm, |guard, comm| {
        let data = (buf.cast_mut(), partitions, count, datatype);
        // SAFETY: the program's arguments.
        unsafe { make(guard, comm, true, data, (dest, tag), request) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_precv_init(
    buf: *mut c_void,
    partitions: c_int,
    count: i64,
    datatype: i32,
    source: c_int,
    tag: c_int,
    comm: i32,
    _info: i32,
    request: *mut i32,
) -> c_int {
    on_comm("MPI_Precv_init", comm, |guard, comm| {
        let data = (buf, partitions, count, datatype);
        // SAFETY: the program's arguments.
        unsafe { make(guard, comm, false, data, (source, tag), request) }
    })
}

/// Makes partitions ready.
fn ready(function: &str, request: i32, partitions: impl Iterator<Item = c_int>) -> c_int {
    on_any(function, |guard| {
        let index = resolve_any(guard, request)?;
        let comm = guard.point.requests[index].comm;
        for partition in partitions {
            let partition = usize::try_from(partition).unwrap_or(usize::MAX);
            guard
                .partition_ready(index, partition)
                .map_err(|error| (comm, error))?;
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_pready(partition: c_int, request: i32) -> c_int {
    ready("MPI_Pready", request, std::iter::once(partition))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_pready_range(
    low: c_int,
    high: c_int,
    request: i32,
) -> c_int {
    ready("MPI_Pready_range", request, low..=high)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_pready_list(
    length: c_int,
    partitions: *const c_int,
    request: i32,
) -> c_int {
    let count = usize::try_from(length).unwrap_or(0);
    // SAFETY: the program's array.
    let Ok(list) = (unsafe { longs(partitions, count) }) else {
        return on_any("MPI_Pready_list", |_| {
            Err(at_self(MpiError::with(MPI_ERR_ARG, "a null pointer")))
        });
    };
    ready("MPI_Pready_list", request, list.into_iter())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_parrived(
    request: i32,
    partition: c_int,
    flag: *mut c_int,
) -> c_int {
    on_any("MPI_Parrived", |guard| {
        if request == MPI_REQUEST_NULL {
            // SAFETY: the program's pointer.
            return unsafe { put(flag, 1) }.map_err(at_self);
        }
        let index = resolve_any(guard, request)?;
        let comm = guard.point.requests[index].comm;
        let raised = |error| (comm, error);
        let partition = usize::try_from(partition).unwrap_or(usize::MAX);
        let mut has_come = guard.partition_arrived(index, partition).map_err(raised)?;
        if !has_come {
            glance(guard)?;
            has_come = guard.partition_arrived(index, partition).map_err(raised)?;
        }
        // SAFETY: the program's pointer.
        unsafe { put(flag, c_int::from(has_come)) }.map_err(raised)
    })
}
