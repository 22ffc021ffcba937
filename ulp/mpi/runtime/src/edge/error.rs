//! Error classes and handlers.

use super::raise::{note_fatal, on_comm, raise};
use super::state::enter;
use super::values::{put, put_string};
use crate::constants::*;
use crate::errors::{MpiError, describe};
use std::ffi::{c_char, c_int};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_error_class(code: c_int, class: *mut c_int) -> c_int {
    let found = if describe(code).is_some() {
        code
    } else {
        MPI_ERR_UNKNOWN
    };
    // SAFETY: the program's pointer.
    match unsafe { put(class, found) } {
        Ok(()) => MPI_SUCCESS,
        Err(error) => error.class,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_error_string(
    code: c_int,
    text: *mut c_char,
    length: *mut c_int,
) -> c_int {
    let sentence = match describe(code) {
        Some((name, sentence)) => format!("{name}: {sentence}"),
        None => format!("{code} is no error code"),
    };
    // SAFETY: the standard promises room for MPI_MAX_ERROR_STRING characters.
    match unsafe { put_string(&sentence, text, MPI_MAX_ERROR_STRING, length) } {
        Ok(()) => MPI_SUCCESS,
        Err(error) => error.class,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_set_errhandler(comm: i32, errhandler: i32) -> c_int {
    on_comm("MPI_Comm_set_errhandler", comm, |guard, index| {
        if ![MPI_ERRORS_ARE_FATAL, MPI_ERRORS_ABORT, MPI_ERRORS_RETURN].contains(&errhandler) {
            return Err(MpiError::new(MPI_ERR_ERRHANDLER));
        }
        guard.comms[index].errhandler = errhandler;
        note_fatal(guard);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_comm_get_errhandler(
    comm: i32,
    errhandler: *mut i32,
) -> c_int {
    on_comm("MPI_Comm_get_errhandler", comm, |guard, index| {
        // SAFETY: the program's pointer.
        unsafe { put(errhandler, guard.comms[index].errhandler) }
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
    // SAFETY: the program's pointer.
    match unsafe { put(errhandler, MPI_ERRHANDLER_NULL) } {
        Ok(()) => MPI_SUCCESS,
        Err(error) => error.class,
    }
}
