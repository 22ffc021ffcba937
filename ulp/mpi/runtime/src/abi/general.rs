//! Generalized requests: the program says when they are over, and what their status is.

use super::handles::{resolve_any, single};
use super::raise::{on_any, on_self};
use super::values::put;
use crate::coll::state::Guard;
use crate::constants::*;
use crate::errors::MpiError;
use crate::ground::status::{EMPTY, Status};
use crate::objects::comms::SELF;
use crate::p2p::family::{Call, General};
use crate::p2p::request::{Extra, Request, Work};
use std::ffi::{c_int, c_void};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_grequest_start(
    query_fn: *const c_void,
    query_fn_thunk: *const c_void,
    free_fn: *const c_void,
    free_fn_thunk: *const c_void,
    cancel_fn: *const c_void,
    cancel_fn_thunk: *const c_void,
    extra_state: *mut c_void,
    request: *mut i32,
) -> c_int {
    on_self("MPI_Grequest_start", |guard| {
        let functions = [query_fn, free_fn, cancel_fn];
        if request.is_null() || functions.iter().any(|function| function.is_null()) {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        // SAFETY: faces pass the thunks of these types, which are never null.
        let general = unsafe {
            General {
                query: Call {
                    user: query_fn,
                    thunk: std::mem::transmute::<
                        *const c_void,
                        unsafe extern "C" fn(*const c_void, *mut c_void, *mut Status) -> c_int,
                    >(query_fn_thunk),
                },
                free: Call {
                    user: free_fn,
                    thunk: std::mem::transmute::<
                        *const c_void,
                        unsafe extern "C" fn(*const c_void, *mut c_void) -> c_int,
                    >(free_fn_thunk),
                },
                cancel: Call {
                    user: cancel_fn,
                    thunk: std::mem::transmute::<
                        *const c_void,
                        unsafe extern "C" fn(*const c_void, *mut c_void, c_int) -> c_int,
                    >(cancel_fn_thunk),
                },
                state: extra_state,
            }
        };
        let mut entry = Request::special(Work::General, SELF);
        entry.extra = Some(Box::new(Extra::General(general)));
        let index = guard.point.requests.add(entry)?;
        // SAFETY: the program's pointer.
        unsafe { put(request, guard.point.requests.slab.handle(index)) }
    })
}

/// The program's functions of a generalized request.
pub(super) fn general(guard: &Guard, index: u32) -> Option<General> {
    match guard.point.requests[index].extra.as_deref() {
        Some(Extra::General(general)) => Some(*general),
        _ => None,
    }
}

/// Asks the program what the status is. Its error is the status's.
pub(super) fn query(guard: &mut Guard, general: &General) -> Status {
    let mut status = Status {
        source: MPI_UNDEFINED,
        tag: MPI_UNDEFINED,
        ..EMPTY
    };
    let place = &raw mut status;
    // SAFETY: the program's function, with what it asked to be given.
    let code = guard
        .outside(|| unsafe { (general.query.thunk)(general.query.user, general.state, place) });
    if code != MPI_SUCCESS {
        status.error = code;
    }
    status
}

/// Tells the program that the request is gone; its answer.
pub(super) fn free(guard: &mut Guard, general: &General) -> c_int {
    // SAFETY: as above.
    guard.outside(|| unsafe { (general.free.thunk)(general.free.user, general.state) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_grequest_complete(request: i32) -> c_int {
    on_any("MPI_Grequest_complete", |guard| {
        let at_self = |error| (SELF, error);
        // One that the program has freed can still be completed.
        let index = guard
            .point
            .requests
            .slab
            .index_of(request)
            .ok_or_else(|| at_self(MpiError::new(MPI_ERR_REQUEST)))?;
        let found = general(guard, index)
            .ok_or_else(|| at_self(MpiError::with(MPI_ERR_REQUEST, "it is not generalized")))?;
        let is_freed = guard.point.requests[index].freed;
        guard.finish(index);
        if is_freed {
            free(guard, &found);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_cancel(request: *mut i32) -> c_int {
    on_any("MPI_Cancel", |guard| {
        // SAFETY: the program's pointer.
        let handle = unsafe { single(request) }?;
        let index = resolve_any(guard, handle)?;
        let comm = guard.point.requests[index].comm;
        if let Some(general) = general(guard, index) {
            let done = c_int::from(guard.point.requests[index].done);
            // SAFETY: the program's function, with what it asked to be given.
            let code = guard.outside(|| unsafe {
                (general.cancel.thunk)(general.cancel.user, general.state, done)
            });
            return match code {
                MPI_SUCCESS => Ok(()),
                code => Err((comm, MpiError::new(code))),
            };
        }
        guard.cancel(index).map_err(|error| (comm, error))
    })
}
