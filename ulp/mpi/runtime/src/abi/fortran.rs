//! What a Fortran face tells of its compiler: kept for whoever asks. The first call settles it; later ones are MPI_ERR_ABI, as the standard has it.

use super::info::give as give_info;
use super::raise::at_any_time;
use super::values::put;
use crate::constants::{MPI_ERR_ABI, MPI_ERR_ARG, MPI_INFO_NULL};
use crate::errors::{MpiError, Outcome};
use crate::ground::fresh::Fresh;
use crate::objects::info::Info;
use crate::objects::process::process;
use std::ffi::{c_int, c_void};
use std::sync::MutexGuard;

/// What this library takes Fortran's types for: those of a C compiler's neighbour without options. A compiler that has others cannot be served.
const SIZES: [(&str, &str); 4] = [
    ("mpi_logical_size", "4"),
    ("mpi_integer_size", "4"),
    ("mpi_real_size", "4"),
    ("mpi_double_precision_size", "8"),
];

/// The longest LOGICAL, in bytes.
const LONGEST: usize = 16;

#[derive(Default)]
struct Fortran {
    info: Option<Info>,
    booleans: Option<Booleans>,
}

/// .TRUE. and .FALSE. of a LOGICAL of so many bytes.
#[derive(Clone, Copy)]
struct Booleans {
    size: usize,
    yes: [u8; LONGEST],
    no: [u8; LONGEST],
}

fn fortran() -> MutexGuard<'static, Fortran> {
    FORTRAN.lock()
}

static FORTRAN: Fresh<Fortran> = Fresh::new(|| Fortran {
    info: None,
    booleans: None,
});

/// In a forked child.
pub(crate) fn forget() {
    FORTRAN.forget();
}

/// MPI_INFO_NULL until somebody has said it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_abi_get_fortran_info(info: *mut i32) -> c_int {
    at_any_time("MPI_Abi_get_fortran_info", || {
        let known = fortran().info.clone();
        // SAFETY: the program's pointer.
        unsafe {
            match known {
                Some(known) => give_info(known, info),
                None => put(info, MPI_INFO_NULL),
            }
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_abi_set_fortran_info(info: i32) -> c_int {
    at_any_time("MPI_Abi_set_fortran_info", || {
        let said = process().hints(info)?;
        for (key, size) in SIZES {
            if let Some(other) = said.get(key)?.filter(|other| *other != size) {
                return Err(MpiError::with(
                    MPI_ERR_ABI,
                    format!("{key} is {other}; this library knows {size} alone"),
                ));
            }
        }
        let mut fortran = fortran();
        if fortran.info.is_some() {
            return Err(MpiError::with(MPI_ERR_ABI, "it was set before"));
        }
        fortran.info = Some(said);
        Ok(())
    })
}

fn size_of_logical(size: c_int) -> Outcome<usize> {
    usize::try_from(size)
        .ok()
        .filter(|size| size.is_power_of_two() && *size <= LONGEST)
        .ok_or_else(|| MpiError::with(MPI_ERR_ARG, format!("a LOGICAL of {size} bytes")))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_abi_set_fortran_booleans(
    logical_size: c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
) -> c_int {
    at_any_time("MPI_Abi_set_fortran_booleans", || {
        let size = size_of_logical(logical_size)?;
        if logical_true.is_null() || logical_false.is_null() {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        let copy = |from: *mut c_void| {
            let mut bytes = [0; LONGEST];
            // SAFETY: the program's memory of that size.
            unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), bytes.as_mut_ptr(), size) };
            bytes
        };
        let said = Booleans {
            size,
            yes: copy(logical_true),
            no: copy(logical_false),
        };
        let mut fortran = fortran();
        if fortran.booleans.is_some() {
            return Err(MpiError::with(MPI_ERR_ABI, "they were set before"));
        }
        fortran.booleans = Some(said);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_abi_get_fortran_booleans(
    logical_size: c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
    is_set: *mut c_int,
) -> c_int {
    at_any_time("MPI_Abi_get_fortran_booleans", || {
        let size = size_of_logical(logical_size)?;
        let known = fortran().booleans;
        if let Some(known) = known {
            if known.size != size {
                return Err(MpiError::with(
                    MPI_ERR_ARG,
                    format!("they were set for {} bytes", known.size),
                ));
            }
            if logical_true.is_null() || logical_false.is_null() {
                return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
            }
            // SAFETY: the program's memory of that size.
            unsafe {
                std::ptr::copy_nonoverlapping(known.yes.as_ptr(), logical_true.cast(), size);
                std::ptr::copy_nonoverlapping(known.no.as_ptr(), logical_false.cast(), size);
            }
        }
        // SAFETY: the program's pointer.
        unsafe { put(is_set, c_int::from(known.is_some())) }
    })
}
