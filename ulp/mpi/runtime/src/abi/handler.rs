//! Error handlers: the program's own, and which one an object has.

use super::callback::callback;
use super::raise::{at_any_time, on_comm, raise};
use super::values::put;
use crate::coll::state::enter;
use crate::constants::*;
use crate::errors::MpiError;
use crate::objects::attr::Callback;
use crate::objects::process::{Scope, process};
use std::ffi::{c_int, c_void};

/// Makes a handler.
pub(super) unsafe fn create(name: &str, scope: Scope, call: Callback, place: *mut i32) -> c_int {
    at_any_time(name, || {
        if place.is_null() {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        let handle = process().add_handler(scope, call)?;
        // SAFETY: the program's pointer.
        unsafe { put(place, handle) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_create_errhandler(
    function: *const c_void,
    thunk: *const c_void,
    errhandler: *mut i32,
) -> c_int {
    let call = callback(function, thunk);
    // SAFETY: the program's pointer.
    unsafe { create("MPI_Comm_create_errhandler", Scope::Comm, call, errhandler) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_session_create_errhandler(
    function: *const c_void,
    thunk: *const c_void,
    errhandler: *mut i32,
) -> c_int {
    let (name, call) = ("MPI_Session_create_errhandler", callback(function, thunk));
    // SAFETY: the program's pointer.
    unsafe { create(name, Scope::Session, call, errhandler) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_set_errhandler(comm: i32, errhandler: i32) -> c_int {
    on_comm("MPI_Comm_set_errhandler", comm, |guard, index| {
        let mut process = process();
        process.retain(errhandler, Some(Scope::Comm))?;
        process.release(guard.point.objects.comms[index].errhandler);
        guard.point.objects.comms[index].errhandler = errhandler;
        guard.note_fatal();
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_get_errhandler(
    comm: i32,
    errhandler: *mut i32,
) -> c_int {
    on_comm("MPI_Comm_get_errhandler", comm, |guard, index| {
        let handle = guard.point.objects.comms[index].errhandler;
        // SAFETY: the program's pointer.
        unsafe { put(errhandler, handle) }?;
        // The program frees what it gets.
        process().retain(handle, None)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_call_errhandler(comm: i32, code: c_int) -> c_int {
    let mut found = None;
    let outcome = on_comm("MPI_Comm_call_errhandler", comm, |_, index| {
        found = Some(index);
        Ok(())
    });
    if let (Some(index), Some(guard)) = (found, enter()) {
        // The handler's own answer is not this call's.
        raise(
            guard,
            index,
            "MPI_Comm_call_errhandler",
            &MpiError::new(code),
        );
    }
    outcome
}

/// Handles of predefined handlers are never freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_errhandler_free(errhandler: *mut i32) -> c_int {
    at_any_time("MPI_Errhandler_free", || {
        if errhandler.is_null() {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        // SAFETY: the program's pointer.
        let handle = unsafe { errhandler.read() };
        let mut process = process();
        process.handler(handle)?;
        process.release(handle);
        // SAFETY: as above.
        unsafe { put(errhandler, MPI_ERRHANDLER_NULL) }
    })
}
