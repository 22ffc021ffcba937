//! The datatypes of Fortran's kinds: equal arguments give one handle, which is never freed.

use super::raise::on_self;
use super::values::put;
use crate::constants::*;
use crate::errors::MpiError;
use ferriband_mpi_data::F90;
use std::ffi::c_int;

fn make(function: &str, wanted: F90, newtype: *mut i32) -> c_int {
    on_self(function, |guard| {
        if newtype.is_null() {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        let handle = guard.point.objects.types.f90(wanted)?;
        // SAFETY: the program's pointer, which is not null.
        unsafe { put(newtype, handle) }
    })
}

/// A number of digits, if it is given.
fn given(digits: c_int) -> Option<i32> {
    (digits != MPI_UNDEFINED).then_some(digits)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_create_f90_real(
    p: c_int,
    r: c_int,
    newtype: *mut i32,
) -> c_int {
    let (precision, range) = (given(p), given(r));
    let wanted = F90::Real { precision, range };
    make("MPI_Type_create_f90_real", wanted, newtype)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_create_f90_complex(
    p: c_int,
    r: c_int,
    newtype: *mut i32,
) -> c_int {
    let (precision, range) = (given(p), given(r));
    let wanted = F90::Complex { precision, range };
    make("MPI_Type_create_f90_complex", wanted, newtype)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_create_f90_integer(
    r: c_int,
    newtype: *mut i32,
) -> c_int {
    let wanted = F90::Integer { range: r };
    make("MPI_Type_create_f90_integer", wanted, newtype)
}
