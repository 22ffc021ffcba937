//! How the runtime calls a function of the user, whose parameters only this ABI knows: one function for each type of callback, which takes the
//! user's function and the runtime's values. A type that the runtime does not call yet has none.

use crate::convert::Handle;
use core::ffi::{c_int, c_void};

/// Calls an MPI_User_function.
unsafe extern "C" fn reduce(
    function: *const c_void,
    invec: *mut c_void,
    inoutvec: *mut c_void,
    count: i64,
    datatype: i32,
) {
    type Function = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut Handle);
    // SAFETY: MPI_Op_create's argument.
    let function = unsafe { core::mem::transmute::<*const c_void, Function>(function) };
    let (mut count, mut datatype) = (count as c_int, Handle::of(datatype));
    // SAFETY: the runtime gives elements that are there, no more than an `int` counts.
    unsafe { function(invec, inoutvec, &raw mut count, &raw mut datatype) }
}

/// Calls an MPI_User_function_c.
unsafe extern "C" fn reduce_c(
    function: *const c_void,
    invec: *mut c_void,
    inoutvec: *mut c_void,
    mut count: i64,
    datatype: i32,
) {
    type Function = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut i64, *mut Handle);
    // SAFETY: MPI_Op_create_c's argument.
    let function = unsafe { core::mem::transmute::<*const c_void, Function>(function) };
    let mut datatype = Handle::of(datatype);
    // SAFETY: the runtime gives elements that are there.
    unsafe { function(invec, inoutvec, &raw mut count, &raw mut datatype) }
}

/// For MPI_Op_create.
pub fn user_function() -> *const c_void {
    reduce as *const c_void
}

/// For MPI_Op_create_c.
pub fn user_function_c() -> *const c_void {
    reduce_c as *const c_void
}
