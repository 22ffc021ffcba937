//! Packing and unpacking, in this machine's representation and in external32; reductions of local buffers.

use super::raise::{on_comm, on_self};
use super::state::Guard;
use super::values::{put, text};
use crate::constants::*;
use crate::datatype::named;
use crate::errors::{MpiError, Outcome};
use ferriband_mpi_data::{Op, View, external};
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
        let datatype = guard.committed(datatype)?;
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
        let datatype = guard.committed(datatype)?;
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
        let view = View::new(&guard.committed(datatype)?, incount)?;
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
                &guard.committed(datatype)?,
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
                &guard.committed(datatype)?,
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
            put(size, external::size(&guard.committed(datatype)?, incount)?)
        }
    })
}

/// A predefined operation that reductions take.
fn operation(op: i32) -> Outcome<Op> {
    u32::try_from(op)
        .ok()
        .and_then(Op::from_value)
        .ok_or_else(|| MpiError::new(MPI_ERR_OP))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_op_commutative(op: i32, commute: *mut c_int) -> c_int {
    on_self("MPI_Op_commutative", |_| {
        // SAFETY: the program's pointer.
        unsafe { put(commute, c_int::from(operation(op)?.is_commutative())) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_reduce_local(
    inbuf: *const c_void,
    inoutbuf: *mut c_void,
    count: i64,
    datatype: i32,
    op: i32,
) -> c_int {
    on_self("MPI_Reduce_local", |guard: &mut Guard| {
        let op = operation(op)?;
        let basic = match named(datatype) {
            Some(named) => Some(named),
            None => guard.committed(datatype)?.basic(),
        };
        let named = basic.ok_or_else(|| {
            MpiError::with(
                MPI_ERR_OP,
                "a predefined operation needs a predefined datatype",
            )
        })?;
        if op.is_for_windows_only() {
            return Err(MpiError::with(MPI_ERR_OP, op.name()));
        }
        op.check(named)?;
        let bytes = usize::try_from(count)
            .ok()
            .filter(|count| count.checked_mul(named.extent() as usize).is_some());
        let count =
            bytes.ok_or_else(|| MpiError::with(MPI_ERR_COUNT, format!("{count} elements")))?;
        if count > 0 && (inbuf.is_null() || inoutbuf.is_null()) {
            return Err(MpiError::new(MPI_ERR_BUFFER));
        }
        // SAFETY: the program's buffers.
        let done = unsafe {
            ferriband_mpi_data::reduce(op, named.kind(), inbuf.cast(), inoutbuf.cast(), count)
        };
        Ok(done?)
    })
}
