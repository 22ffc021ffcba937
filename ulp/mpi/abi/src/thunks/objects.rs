//! Attributes and error handlers.

use crate::convert::Handle;
use core::ffi::{c_int, c_void};

/// MPI_Comm_copy_attr_function and its likes for datatypes and windows, whose handles are pointers, too.
unsafe extern "C" fn copy(
    function: *const c_void,
    object: i32,
    keyval: c_int,
    extra: *mut c_void,
    value: *mut c_void,
    to: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    type Function = unsafe extern "C" fn(
        Handle,
        c_int,
        *mut c_void,
        *mut c_void,
        *mut c_void,
        *mut c_int,
    ) -> c_int;
    // SAFETY: the program has passed such a function, and the runtime what it wants to be called with.
    unsafe {
        let function: Function = core::mem::transmute(function);
        function(Handle::of(object), keyval, extra, value, to, flag)
    }
}

/// MPI_Comm_delete_attr_function and its likes.
unsafe extern "C" fn delete(
    function: *const c_void,
    object: i32,
    keyval: c_int,
    value: *mut c_void,
    extra: *mut c_void,
) -> c_int {
    type Function = unsafe extern "C" fn(Handle, c_int, *mut c_void, *mut c_void) -> c_int;
    // SAFETY: as above.
    unsafe {
        let function: Function = core::mem::transmute(function);
        function(Handle::of(object), keyval, value, extra)
    }
}

/// MPI_Comm_errhandler_function and its likes, which get pointers and may have more parameters that nobody passes.
unsafe extern "C" fn handle(function: *const c_void, object: i32, code: *mut c_int) {
    type Function = unsafe extern "C" fn(*mut Handle, *mut c_int, ...);
    let mut object = Handle::of(object);
    // SAFETY: as above; the handle is local.
    unsafe {
        let function: Function = core::mem::transmute(function);
        function(&raw mut object, code);
    }
}

macro_rules! thunks {
    ($($thunk:ident: $($name:ident)*;)*) => {$($(
        /// The function that calls one of this type.
        pub fn $name() -> *const c_void {
            $thunk as *const c_void
        }
    )*)*};
}

thunks! {
    copy: copy_function comm_copy_attr_function type_copy_attr_function win_copy_attr_function;
    delete: delete_function comm_delete_attr_function type_delete_attr_function win_delete_attr_function;
    handle: comm_errhandler_function session_errhandler_function win_errhandler_function file_errhandler_function;
}
