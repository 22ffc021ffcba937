//! The buffers of sessions: for the messages of all communicators that come from one and have none of their own.

use super::buffered::{attach, detach, flush, iflush};
use super::session::on_session;
use crate::p2p::buffered::Owner;
use std::ffi::{c_int, c_void};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_session_attach_buffer(
    session: i32,
    buffer: *mut c_void,
    size: i64,
) -> c_int {
    on_session("MPI_Session_attach_buffer", session, |guard, _| {
        // SAFETY: the program's buffer.
        unsafe { attach(guard, Owner::Session(session), buffer, size) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_session_detach_buffer(
    session: i32,
    place: *mut c_void,
    size: *mut i64,
) -> c_int {
    on_session("MPI_Session_detach_buffer", session, |guard, _| {
        // SAFETY: the program's pointers.
        unsafe { detach(guard, Owner::Session(session), place, size) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_session_flush_buffer(session: i32) -> c_int {
    on_session("MPI_Session_flush_buffer", session, |guard, _| {
        flush(guard, Owner::Session(session))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_session_iflush_buffer(
    session: i32,
    request: *mut i32,
) -> c_int {
    on_session("MPI_Session_iflush_buffer", session, |guard, _| {
        iflush(guard, Owner::Session(session), request)
    })
}
