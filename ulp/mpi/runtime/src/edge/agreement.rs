// Written by `cargo xtask mpi` from ulp/mpi/abi/table: change the table, not this file.
//
// Each line fails to compile if the runtime's function is not what the faces declare.

#![allow(unused_imports)]

use super::*;
use crate::abi::{Array, Status};
use std::ffi::{c_char, c_double, c_int, c_void};

const _: unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int = ferriband_mpi_get_library_version;
const _: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int = ferriband_mpi_get_version;
const _: unsafe extern "C" fn() -> c_double = ferriband_mpi_wtick;
const _: unsafe extern "C" fn() -> c_double = ferriband_mpi_wtime;
const _: unsafe extern "C" fn(c_int, i32, *const c_char) -> c_int = ferriband_mpi_unsupported;
