//! Persistent sends and receives, and MPI_Start.

use super::buffered::send_copy;
use super::handles::resolve_any;
use super::point::target_of;
use super::raise::{on_any, on_comm};
use super::values::{put, receive_source, receive_tag, sink, source};
use crate::coll::state::Guard;
use crate::constants::*;
use crate::errors::{MpiError, Outcome};
use crate::ground::array::Array;
use crate::ground::status::{EMPTY, FROM_NOBODY};
use crate::objects::comms::SELF;
use crate::p2p::persistent::{Begun, Bound, Mode};
use std::ffi::{c_int, c_void};

/// Makes a persistent request; its handle.
fn make(guard: &mut Guard, comm: u32, bound: Bound, request: *mut i32) -> Outcome {
    if request.is_null() {
        return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
    }
    let index = guard.add_persistent(comm, bound)?;
    // SAFETY: the program's pointer.
    unsafe { put(request, guard.point.requests.slab.handle(index)) }
}

macro_rules! sends {
    ($($function:ident, $name:literal, $mode:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $function(
            buf: *const c_void,
            count: i64,
            datatype: i32,
            dest: c_int,
            tag: c_int,
            comm: i32,
            request: *mut i32,
        ) -> c_int {
            on_comm($name, comm, |guard, comm| {
                // SAFETY: the program's buffer, as long as the request is there.
                let source = unsafe { source(guard, buf, count, datatype) }?;
                let bound = match target_of(guard, comm, dest, tag)? {
                    Some(to) => Bound::Send { to, source, mode: $mode },
                    None => Bound::Nobody(EMPTY),
                };
                make(guard, comm, bound, request)
            })
        }
    )*};
}

sends! {
    ferriband_mpi_send_init, "MPI_Send_init", Mode::Standard;
    ferriband_mpi_rsend_init, "MPI_Rsend_init", Mode::Standard;
    ferriband_mpi_ssend_init, "MPI_Ssend_init", Mode::Synchronous;
    ferriband_mpi_bsend_init, "MPI_Bsend_init", Mode::Buffered;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_recv_init(
    buf: *mut c_void,
    count: i64,
    datatype: i32,
    source: c_int,
    tag: c_int,
    comm: i32,
    request: *mut i32,
) -> c_int {
    on_comm("MPI_Recv_init", comm, |guard, comm| {
        // SAFETY: the program's buffer, as long as the request is there.
        let sink = unsafe { sink(guard, buf, count, datatype) }?;
        let tag = receive_tag(tag)?;
        let bound = match receive_source(guard, comm, source)? {
            Some(from) => Bound::Receive { from, tag, sink },
            None => Bound::Nobody(FROM_NOBODY),
        };
        make(guard, comm, bound, request)
    })
}

/// Begins what the handle names.
fn start(guard: &mut Guard, handle: i32) -> Result<(), (u32, MpiError)> {
    let index = resolve_any(guard, handle)?;
    let comm = guard.point.requests[index].comm;
    guard
        .activate(index)
        .and_then(|()| begin(guard, index).inspect_err(|_| guard.deactivate(index)))
        .map_err(|error| (comm, error))
}

/// Begins what an active request does.
fn begin(guard: &mut Guard, request: u32) -> Outcome {
    match guard.begin_persistent(request)? {
        Begun::All => (),
        Begun::Copy { to, source } => {
            send_copy(guard, to, source)?;
            guard.finish(request);
        }
        Begun::Collective(number) => guard.start_bound(request, number)?,
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_start(request: *mut i32) -> c_int {
    on_any("MPI_Start", |guard| {
        if request.is_null() {
            return Err((SELF, MpiError::with(MPI_ERR_ARG, "a null pointer")));
        }
        // SAFETY: the program's pointer.
        start(guard, unsafe { request.read() })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_startall(count: c_int, requests: Array) -> c_int {
    on_any("MPI_Startall", |guard| {
        let count = usize::try_from(count).map_err(|_| {
            (
                SELF,
                MpiError::with(MPI_ERR_COUNT, format!("{count} requests")),
            )
        })?;
        if count != 0 && requests.base.is_null() {
            return Err((SELF, MpiError::with(MPI_ERR_ARG, "a null pointer")));
        }
        for at in 0..count {
            // SAFETY: the program's array.
            start(guard, unsafe { requests.handle(at) })?;
        }
        Ok(())
    })
}
