//! What a status says, and what a program makes it say.

use super::raise::at_any_time;
use super::values::put;
use crate::constants::MPI_ERR_ARG;
use crate::errors::MpiError;
use crate::ground::status::Status;
use std::ffi::c_int;

/// Changes a status; at any time.
unsafe fn change(function: &str, status: *mut Status, change: impl FnOnce(&mut Status)) -> c_int {
    at_any_time(function, || {
        if status.is_null() {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        // SAFETY: the program's status, which is not null.
        unsafe {
            let mut value = status.read();
            change(&mut value);
            status.write(value);
        }
        Ok(())
    })
}

/// Tells what a status says; at any time.
unsafe fn ask(
    function: &str,
    status: *const Status,
    to: *mut c_int,
    field: impl FnOnce(&Status) -> c_int,
) -> c_int {
    at_any_time(function, || {
        if status.is_null() {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        // SAFETY: the program's pointers.
        unsafe { put(to, field(&status.read())) }
    })
}

macro_rules! fields {
    ($($get:ident, $set:ident, $field:ident, $word:literal;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get(status: *const Status, value: *mut c_int) -> c_int {
            // SAFETY: the program's pointers.
            unsafe { ask(concat!("MPI_Status_get_", $word), status, value, |status| status.$field) }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set(status: *mut Status, value: c_int) -> c_int {
            // SAFETY: the program's pointer.
            unsafe { change(concat!("MPI_Status_set_", $word), status, |status| status.$field = value) }
        }
    )*};
}

fields! {
    ferriband_mpi_status_get_source, ferriband_mpi_status_set_source, source, "source";
    ferriband_mpi_status_get_tag, ferriband_mpi_status_set_tag, tag, "tag";
    ferriband_mpi_status_get_error, ferriband_mpi_status_set_error, error, "error";
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_status_set_cancelled(
    status: *mut Status,
    flag: c_int,
) -> c_int {
    // SAFETY: the program's pointer.
    unsafe {
        change("MPI_Status_set_cancelled", status, |status| {
            status.cancelled = c_int::from(flag != 0)
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_test_cancelled(
    status: *const Status,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the program's pointers.
    unsafe {
        ask("MPI_Test_cancelled", status, flag, |status| {
            c_int::from(status.cancelled != 0)
        })
    }
}
