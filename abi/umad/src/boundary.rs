//! The panic boundary and errno. libibumad's convention: a negative errno, which errno says as well.

use ferriband_cancel::Sleep;
use ferriband_sanitizer::Inside;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of an entry point; an error is stored in errno and returned negative.
pub fn entry(body: impl FnOnce() -> Result<c_int, c_int>) -> c_int {
    guard(body).unwrap_or_else(failed)
}

/// Runs the body of an entry point that may wait, which is an `extern "C-unwind"` function: as long
/// as the body gives None, the thread sleeps on what the body has named, and the body runs again. A
/// cancelled thread ends at the beginning, or while it sleeps.
#[inline(always)]
pub fn waiting_entry(mut body: impl FnMut(&mut Sleep) -> Result<Option<c_int>, c_int>) -> c_int {
    ferriband_cancel::waiting(|sleep| {
        guard(|| body(sleep)).unwrap_or_else(|errno| Some(failed(errno)))
    })
}

fn failed(errno: c_int) -> c_int {
    set_errno(errno);
    -errno
}

/// The same for a body that gives anything; a panic, which is a bug of ours, is EIO.
pub fn guard<T>(body: impl FnOnce() -> Result<T, c_int>) -> Result<T, c_int> {
    let _inside = Inside::enter();
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(panic) => {
            // dropping a payload may itself panic; a leak after a bug is the lesser evil
            std::mem::forget(panic);
            Err(libc::EIO)
        }
    }
}

/// Stores `errno` for the calling thread.
pub fn set_errno(errno: c_int) {
    // SAFETY: glibc returns a valid pointer to the calling thread's errno.
    let slot = unsafe { libc::__errno_location() };
    // SAFETY: the slot belongs to this thread and lives as long as it.
    unsafe { slot.write(errno) };
}
