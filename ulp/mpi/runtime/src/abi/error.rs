//! Error codes: the standard's and the program's.

use super::raise::at_any_time;
use super::values::{put, put_string, text};
use crate::constants::*;
use crate::errors::{MpiError, describe};
use crate::objects::process::process;
use std::ffi::{c_char, c_int};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_error_class(code: c_int, class: *mut c_int) -> c_int {
    at_any_time("MPI_Error_class", || {
        let found = process().class_of(code).unwrap_or(MPI_ERR_UNKNOWN);
        // SAFETY: the program's pointer.
        unsafe { put(class, found) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_error_string(
    code: c_int,
    text: *mut c_char,
    length: *mut c_int,
) -> c_int {
    at_any_time("MPI_Error_string", || {
        let sentence = match describe(code) {
            Some((name, sentence)) => format!("{name}: {sentence}"),
            None => match process().text(code) {
                Some(text) => text.to_owned(),
                None => format!("{code} is no error code"),
            },
        };
        // SAFETY: the standard promises room for MPI_MAX_ERROR_STRING characters.
        unsafe { put_string(&sentence, text, MPI_MAX_ERROR_STRING, length) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_add_error_class(class: *mut c_int) -> c_int {
    at_any_time("MPI_Add_error_class", || {
        if class.is_null() {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        let added = process().add_class()?;
        // SAFETY: the program's pointer.
        unsafe { put(class, added) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_add_error_code(class: c_int, code: *mut c_int) -> c_int {
    at_any_time("MPI_Add_error_code", || {
        if code.is_null() {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        let added = process().add_code(class)?;
        // SAFETY: the program's pointer.
        unsafe { put(code, added) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_add_error_string(
    code: c_int,
    string: *const c_char,
) -> c_int {
    at_any_time("MPI_Add_error_string", || {
        // SAFETY: the program's string.
        let string = unsafe { text(string) }?.into_owned();
        process().set_text(code, string)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_remove_error_class(class: c_int) -> c_int {
    at_any_time("MPI_Remove_error_class", || process().remove(class, true))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_remove_error_code(code: c_int) -> c_int {
    at_any_time("MPI_Remove_error_code", || process().remove(code, false))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_remove_error_string(code: c_int) -> c_int {
    at_any_time("MPI_Remove_error_string", || process().remove_text(code))
}
