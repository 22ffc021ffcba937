//! `libportals.so.4`: the 55 functions of Portals 4.3.
//!
//! Owns: the C names, which convert. Has no state, and must not know: connections, rules of the
//! interface.
//!
//! Results are written before a function returns PTL_OK, and only then but for PtlEQGet and its
//! kin, which give an event with PTL_EQ_DROPPED, too.

mod moves;
mod objects;
mod types;
mod waits;

use ferriband_portals_proto::PtlError;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls, and says what came of it: PTL_NO_INIT before PtlInit, whatever the arguments.
fn status(call: impl FnOnce() -> Result<(), PtlError>) -> c_int {
    status_of(|| match ferriband_portals::is_initialised() {
        true => call(),
        false => Err(PtlError::NoInit),
    })
}

/// Calls, and says what came of it; a panic is a fault of this library, told as PTL_FAIL.
fn status_of(call: impl FnOnce() -> Result<(), PtlError>) -> c_int {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => error.code(),
        Err(_) => PtlError::Fail.code(),
    }
}

/// Writes a result.
///
/// # Safety
/// A place for it, or null.
unsafe fn give<T>(to: *mut T, value: T) -> Result<(), PtlError> {
    if to.is_null() {
        return Err(PtlError::ArgInvalid);
    }
    // SAFETY: the caller's promise.
    unsafe { to.write(value) };
    Ok(())
}

/// Reads an argument.
///
/// # Safety
/// Such a structure, or null.
unsafe fn taken<'a, T>(from: *const T) -> Result<&'a T, PtlError> {
    // SAFETY: the caller's promise.
    unsafe { from.as_ref() }.ok_or(PtlError::ArgInvalid)
}
