// Written by `cargo xtask mpi` from ulp/mpi/abi/table: change the table, not this file.
//
// SAFETY of every block here: the pointers are the caller's, as the standard demands of it; each is passed on or read and written once, at
// its own width.
#![allow(
    non_snake_case,
    unused_imports,
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    clippy::undocumented_unsafe_blocks,
    missing_docs
)]

use crate::convert::{Array, Status};
use core::ffi::{c_char, c_double, c_int, c_void};

unsafe extern "C" {
    pub fn ferriband_mpi_get_library_version(version: *mut c_char, resultlen: *mut c_int) -> c_int;
    pub fn ferriband_mpi_get_version(version: *mut c_int, subversion: *mut c_int) -> c_int;
    pub fn ferriband_mpi_wtick() -> c_double;
    pub fn ferriband_mpi_wtime() -> c_double;
    pub fn ferriband_mpi_unsupported(object: c_int, handle: i32, function: *const c_char) -> c_int;
}
