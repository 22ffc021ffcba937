//! Packing and unpacking, in this machine's representation and in external32.

use super::raise::{on_comm, on_self};
use super::values::{put, text};
use crate::constants::*;
use crate::errors::{MpiError, Outcome};
use ferriband_mpi_data::{View, external};
use std::ffi::{c_char, c_int, c_void};

/// The position that a pointer of the program leads to.
unsafe fn at(position: *mut i64) -> Outcome<i64> {
    if position.is_null() {
        return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
    }
    // SAFETY: the program's pointer, which is not null.
    Ok(unsafe { position.read() })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_pack(
    inbuf: *const c_void,
    incount: i64,
    datatype: i32,
    outbuf: *mut c_void,
    outsize: i64,
    position: *mut i64,
    comm: i32,
) -> c_int {
    on_comm("MPI_Pack", comm, |guard, _| {
        let datatype = guard.point.objects.types.committed(datatype)?;
        // SAFETY: the program's buffers.
        unsafe {
            let end = ferriband_mpi_data::pack(
                &datatype,
                incount,
                inbuf.expose_provenance(),
                outbuf.cast(),
                outsize,
                at(position)?,
            )?;
            put(position, end)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_unpack(
    inbuf: *const c_void,
    insize: i64,
    position: *mut i64,
    outbuf: *mut c_void,
    outcount: i64,
    datatype: i32,
    comm: i32,
) -> c_int {
    on_comm("MPI_Unpack", comm, |guard, _| {
        let datatype = guard.point.objects.types.committed(datatype)?;
        // SAFETY: the program's buffers.
        unsafe {
            let end = ferriband_mpi_data::unpack(
                &datatype,
                outcount,
                outbuf.expose_provenance(),
                inbuf.cast(),
                insize,
                at(position)?,
            )?;
            put(position, end)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_pack_size(
    incount: i64,
    datatype: i32,
    comm: i32,
    size: *mut i64,
) -> c_int {
    on_comm("MPI_Pack_size", comm, |guard, _| {
        let view = View::new(&guard.point.objects.types.committed(datatype)?, incount)?;
        // SAFETY: the program's pointer.
        unsafe { put(size, view.size()) }
    })
}

/// That the program wants external32.
unsafe fn check(datarep: *const c_char) -> Outcome {
    // SAFETY: the program's string.
    Ok(external::check_name(&unsafe { text(datarep) }?)?)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_pack_external(
    datarep: *const c_char,
    inbuf: *const c_void,
    incount: i64,
    datatype: i32,
    outbuf: *mut c_void,
    outsize: i64,
    position: *mut i64,
) -> c_int {
    on_self("MPI_Pack_external", |guard| {
        // SAFETY: the program's string and buffers.
        unsafe {
            check(datarep)?;
            let end = external::pack(
                &guard.point.objects.types.committed(datatype)?,
                incount,
                inbuf.expose_provenance(),
                outbuf.cast(),
                outsize,
                at(position)?,
            )?;
            put(position, end)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_unpack_external(
    datarep: *const c_char,
    inbuf: *const c_void,
    insize: i64,
    position: *mut i64,
    outbuf: *mut c_void,
    outcount: i64,
    datatype: i32,
) -> c_int {
    on_self("MPI_Unpack_external", |guard| {
        // SAFETY: the program's string and buffers.
        unsafe {
            check(datarep)?;
            let end = external::unpack(
                &guard.point.objects.types.committed(datatype)?,
                outcount,
                outbuf.expose_provenance(),
                inbuf.cast(),
                insize,
                at(position)?,
            )?;
            put(position, end)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_pack_external_size(
    datarep: *const c_char,
    incount: i64,
    datatype: i32,
    size: *mut i64,
) -> c_int {
    on_self("MPI_Pack_external_size", |guard| {
        // SAFETY: the program's string and pointer.
        unsafe {
            check(datarep)?;
            put(
                size,
                external::size(&guard.point.objects.types.committed(datatype)?, incount)?,
            )
        }
    })
}
