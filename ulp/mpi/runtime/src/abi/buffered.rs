//! Buffered sends, and the buffers that programs attach for them.

use super::point::target_of;
use super::raise::{on_comm, on_self};
use super::values::{put, source};
use crate::coll::state::Guard;
use crate::constants::*;
use crate::errors::{MpiError, Outcome};
use crate::ground::memory::Sink;
use crate::ground::memory::Source;
use crate::job::wait::wait_for;
use crate::p2p::Target;
use crate::p2p::buffered::Owner;
use std::ffi::{c_int, c_void};

/// Sends a copy of `source`; waits for room as long as messages are going out.
pub(super) fn send_copy(guard: &mut Guard, to: Target, source: Source) -> Outcome {
    let buffer = guard.point.buffer_for(to.comm)?;
    if guard.send_copy(buffer, to, source)? {
        return Ok(());
    }
    // Messages that have gone may not have been seen to.
    while guard.progress_all()? {
        if guard.send_copy(buffer, to, source)? {
            return Ok(());
        }
    }
    Err(MpiError::with(
        MPI_ERR_BUFFER,
        format!("no room for {} bytes in the attached buffer", source.len()),
    ))
}

/// Waits until all messages of a buffer have gone.
pub(super) fn flush(guard: &mut Guard, owner: Owner) -> Outcome {
    wait_for(guard, |guard| guard.point.buffers.is_empty(owner))
}

/// Waits for its messages, and gives the buffer back, as [`crate::p2p::buffered::Buffers::detach`].
pub(super) fn take_back(guard: &mut Guard, owner: Owner) -> Outcome<Option<Option<Sink>>> {
    flush(guard, owner)?;
    Ok(guard.point.buffers.detach(owner))
}

/// Sends a copy.
///
/// # Safety
/// As the standard says of the send's arguments.
unsafe fn send(
    guard: &mut Guard,
    comm: u32,
    (buf, count, datatype): (*const c_void, i64, i32),
    dest: c_int,
    tag: c_int,
) -> Outcome {
    // SAFETY: the caller's promise.
    let source = unsafe { source(guard, buf, count, datatype) }?;
    match target_of(guard, comm, dest, tag)? {
        Some(to) => send_copy(guard, to, source),
        None => Ok(()),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_bsend(
    buf: *const c_void,
    count: i64,
    datatype: i32,
    dest: c_int,
    tag: c_int,
    comm: i32,
) -> c_int {
    on_comm("MPI_Bsend", comm, |guard, comm| {
        // SAFETY: the program's arguments.
        unsafe { send(guard, comm, (buf, count, datatype), dest, tag) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_ibsend(
    buf: *const c_void,
    count: i64,
    datatype: i32,
    dest: c_int,
    tag: c_int,
    comm: i32,
    request: *mut i32,
) -> c_int {
    on_comm("MPI_Ibsend", comm, |guard, comm| {
        // SAFETY: the program's arguments.
        unsafe {
            send(guard, comm, (buf, count, datatype), dest, tag)?;
            put(request, guard.point.requests.over)
        }
    })
}

/// Attaches a buffer.
///
/// # Safety
/// The program's buffer, until it is detached.
pub(super) unsafe fn attach(
    guard: &mut Guard,
    owner: Owner,
    buffer: *mut c_void,
    size: i64,
) -> Outcome {
    if buffer.addr() == MPI_BUFFER_AUTOMATIC {
        return guard.point.attach(owner, None);
    }
    let size =
        usize::try_from(size).map_err(|_| MpiError::with(MPI_ERR_ARG, format!("{size} bytes")))?;
    if buffer.is_null() && size != 0 {
        return Err(MpiError::new(MPI_ERR_BUFFER));
    }
    // SAFETY: the caller's promise.
    let room = unsafe { Sink::new(buffer.cast(), size) };
    guard.point.attach(owner, Some(room))
}

/// Gives it back.
///
/// # Safety
/// The program's pointers.
pub(super) unsafe fn detach(
    guard: &mut Guard,
    owner: Owner,
    place: *mut c_void,
    size: *mut i64,
) -> Outcome {
    let found = take_back(guard, owner)?
        .ok_or_else(|| MpiError::with(MPI_ERR_BUFFER, "no buffer is attached"))?;
    let automatic = std::ptr::without_provenance_mut(MPI_BUFFER_AUTOMATIC);
    let (buffer, length) = found.map_or((automatic, 0), |room| {
        (room.pointer().unwrap_or(std::ptr::null_mut()), room.len())
    });
    // SAFETY: the caller's promise: a pointer to a pointer, and a number.
    unsafe {
        put(place.cast::<*mut c_void>(), buffer.cast())?;
        put(size, length as i64)
    }
}

pub(super) fn iflush(guard: &mut Guard, owner: Owner, request: *mut i32) -> Outcome {
    if request.is_null() {
        return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
    }
    let index = guard.start_flush(owner)?;
    // SAFETY: the program's pointer.
    unsafe { put(request, guard.point.requests.slab.handle(index)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_buffer_attach(buffer: *mut c_void, size: i64) -> c_int {
    on_self("MPI_Buffer_attach", |guard| {
        // SAFETY: the program's buffer.
        unsafe { attach(guard, Owner::Process, buffer, size) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_buffer_detach(place: *mut c_void, size: *mut i64) -> c_int {
    on_self("MPI_Buffer_detach", |guard| {
        // SAFETY: the program's pointers.
        unsafe { detach(guard, Owner::Process, place, size) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_buffer_flush() -> c_int {
    on_self("MPI_Buffer_flush", |guard| flush(guard, Owner::Process))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_buffer_iflush(request: *mut i32) -> c_int {
    on_self("MPI_Buffer_iflush", |guard| {
        iflush(guard, Owner::Process, request)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_attach_buffer(
    comm: i32,
    buffer: *mut c_void,
    size: i64,
) -> c_int {
    on_comm("MPI_Comm_attach_buffer", comm, |guard, comm| {
        // SAFETY: the program's buffer.
        unsafe { attach(guard, Owner::Comm(comm), buffer, size) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_detach_buffer(
    comm: i32,
    place: *mut c_void,
    size: *mut i64,
) -> c_int {
    on_comm("MPI_Comm_detach_buffer", comm, |guard, comm| {
        // SAFETY: the program's pointers.
        unsafe { detach(guard, Owner::Comm(comm), place, size) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_flush_buffer(comm: i32) -> c_int {
    on_comm("MPI_Comm_flush_buffer", comm, |guard, comm| {
        flush(guard, Owner::Comm(comm))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_iflush_buffer(comm: i32, request: *mut i32) -> c_int {
    on_comm("MPI_Comm_iflush_buffer", comm, |guard, comm| {
        iflush(guard, Owner::Comm(comm), request)
    })
}
