//! What a program asks about its environment.

use crate::constants::{MPI_MAX_LIBRARY_VERSION_STRING, MPI_SUBVERSION, MPI_SUCCESS, MPI_VERSION};
use std::ffi::{c_char, c_double, c_int};

/// Seconds since some time in the past, the same for all ranks of a host.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_wtime() -> c_double {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a local variable.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as c_double + now.tv_nsec as c_double * 1e-9
}

/// Seconds between two ticks of that clock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_wtick() -> c_double {
    1e-9
}

/// The version of the standard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_get_version(
    version: *mut c_int,
    subversion: *mut c_int,
) -> c_int {
    // SAFETY: the caller's pointers, as the standard demands.
    unsafe {
        version.write(MPI_VERSION);
        subversion.write(MPI_SUBVERSION);
    }
    MPI_SUCCESS
}

/// The library's name and version.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_get_library_version(
    version: *mut c_char,
    length: *mut c_int,
) -> c_int {
    let text = concat!(
        "Ferriband MPI ",
        env!("CARGO_PKG_VERSION"),
        " (MPI 5.0 standard ABI)"
    );
    // SAFETY: the standard promises room for MPI_MAX_LIBRARY_VERSION_STRING characters.
    unsafe {
        super::put_string(
            text,
            version,
            MPI_MAX_LIBRARY_VERSION_STRING as usize,
            length,
        )
    };
    MPI_SUCCESS
}
