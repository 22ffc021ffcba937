//! Calls of the program's functions, by the functions of the face that know how they want to be called. Never under the runtime's lock.

use crate::objects::attr::Callback;
use std::ffi::{c_int, c_void};

type Copy = unsafe extern "C" fn(
    function: *const c_void,
    object: i32,
    keyval: c_int,
    extra: *mut c_void,
    value: *mut c_void,
    to: *mut c_void,
    flag: *mut c_int,
) -> c_int;
type Delete = unsafe extern "C" fn(
    function: *const c_void,
    object: i32,
    keyval: c_int,
    value: *mut c_void,
    extra: *mut c_void,
) -> c_int;
type Handle = unsafe extern "C" fn(function: *const c_void, object: i32, code: *mut c_int);

fn address(number: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(number)
}

/// What a face has passed for a parameter that is a function.
pub fn callback(function: *const c_void, thunk: *const c_void) -> Callback {
    Callback {
        function: function.expose_provenance(),
        thunk: thunk.expose_provenance(),
    }
}

/// Copies an attribute: its value in the new object, if it goes there, or the error of the
/// program's function.
///
/// # Safety
/// It was made from a copy function and its thunk.
pub unsafe fn copy(
    callback: Callback,
    object: i32,
    keyval: i32,
    extra: usize,
    value: usize,
) -> Result<Option<usize>, i32> {
    let (mut flag, mut to) = (0, std::ptr::null_mut::<c_void>());
    // SAFETY: the caller's promise; the values are local.
    let code = unsafe {
        let thunk: Copy = std::mem::transmute(address(callback.thunk));
        thunk(
            address(callback.function),
            object,
            keyval,
            address(extra),
            address(value),
            (&raw mut to).cast(),
            &raw mut flag,
        )
    };
    match code {
        0 => Ok((flag != 0).then(|| to.expose_provenance())),
        code => Err(code),
    }
}

/// Tells that an attribute goes; what the program's function says.
///
/// # Safety
/// It was made from a delete function and its thunk.
pub unsafe fn delete(
    callback: Callback,
    object: i32,
    keyval: i32,
    value: usize,
    extra: usize,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        let thunk: Delete = std::mem::transmute(address(callback.thunk));
        thunk(
            address(callback.function),
            object,
            keyval,
            address(value),
            address(extra),
        )
    }
}

/// Hands an error to the program.
///
/// # Safety
/// It was made from an error handler and its thunk.
pub unsafe fn handle(callback: Callback, object: i32, code: i32) {
    let mut code = code;
    // SAFETY: the caller's promise; the code is local.
    unsafe {
        let thunk: Handle = std::mem::transmute(address(callback.thunk));
        thunk(address(callback.function), object, &raw mut code);
    }
}
