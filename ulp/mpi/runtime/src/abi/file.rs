//! Files: only their error handlers are there. No file can be open, so there is one object to have a handler, MPI_FILE_NULL: its handler is asked by calls without a file, and
//! a file that is opened begins with it.

use super::callback::callback;
use super::handler::create;
use super::raise::{on_no_file, raise_at_files};
use super::values::put;
use crate::coll::state::enter;
use crate::constants::*;
use crate::errors::{MpiError, Outcome};
use crate::objects::process::{Scope, process};
use std::ffi::{c_int, c_void};

fn check(file: i32) -> Outcome {
    if file == MPI_FILE_NULL {
        Ok(())
    } else {
        Err(MpiError::new(MPI_ERR_FILE))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_file_create_errhandler(
    function: *const c_void,
    thunk: *const c_void,
    errhandler: *mut i32,
) -> c_int {
    let call = callback(function, thunk);
    // SAFETY: the program's pointer.
    unsafe { create("MPI_File_create_errhandler", Scope::File, call, errhandler) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_file_set_errhandler(file: i32, errhandler: i32) -> c_int {
    on_no_file("MPI_File_set_errhandler", || {
        check(file)?;
        let mut process = process();
        process.retain(errhandler, Some(Scope::File))?;
        let before = std::mem::replace(&mut process.files, errhandler);
        process.release(before);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_file_get_errhandler(
    file: i32,
    errhandler: *mut i32,
) -> c_int {
    on_no_file("MPI_File_get_errhandler", || {
        check(file)?;
        let mut process = process();
        let handle = process.files;
        // SAFETY: the program's pointer.
        unsafe { put(errhandler, handle) }?;
        // The program frees what it gets.
        process.retain(handle, None)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_file_call_errhandler(file: i32, code: c_int) -> c_int {
    let function = "MPI_File_call_errhandler";
    let outcome = on_no_file(function, || check(file));
    if outcome == MPI_SUCCESS {
        // The handler's own answer is not this call's.
        raise_at_files(enter(), function, &MpiError::new(code));
    }
    outcome
}
