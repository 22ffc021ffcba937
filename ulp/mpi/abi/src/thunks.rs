//! How the runtime calls a function of the user, whose parameters only this ABI knows: one function for each type of callback, which takes the
//! user's function and the runtime's values. A type that the runtime does not call yet has none.

mod objects;

pub use objects::*;

use crate::convert::{Handle, Status};
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

/// MPI_Grequest_query_function.
pub fn grequest_query_function() -> *const c_void {
    unsafe extern "C" fn call(
        user: *const c_void,
        state: *mut c_void,
        status: *mut Status,
    ) -> c_int {
        // SAFETY: the program passed it as such a function.
        let user: unsafe extern "C" fn(*mut c_void, *mut Status) -> c_int =
            unsafe { core::mem::transmute(user) };
        // SAFETY: what the program asked to be given, and a status.
        unsafe { user(state, status) }
    }
    call as *const c_void
}

/// MPI_Grequest_free_function.
pub fn grequest_free_function() -> *const c_void {
    unsafe extern "C" fn call(user: *const c_void, state: *mut c_void) -> c_int {
        // SAFETY: the program passed it as such a function.
        let user: unsafe extern "C" fn(*mut c_void) -> c_int =
            unsafe { core::mem::transmute(user) };
        // SAFETY: what the program asked to be given.
        unsafe { user(state) }
    }
    call as *const c_void
}

/// MPI_Grequest_cancel_function.
pub fn grequest_cancel_function() -> *const c_void {
    unsafe extern "C" fn call(user: *const c_void, state: *mut c_void, complete: c_int) -> c_int {
        // SAFETY: the program passed it as such a function.
        let user: unsafe extern "C" fn(*mut c_void, c_int) -> c_int =
            unsafe { core::mem::transmute(user) };
        // SAFETY: what the program asked to be given.
        unsafe { user(state, complete) }
    }
    call as *const c_void
}
