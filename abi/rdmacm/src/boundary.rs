//! The panic boundary and errno: what every entry point of the library shares.
//!
//! librdmacm's convention: an `int` is 0 or -1 with errno set, an object is NULL with errno set. No Rust panic may cross into
//! C; one is a bug of ours, and the call that hit it answers EIO.

use ferriband_cancel::Sleep;
use ferriband_sanitizer::Inside;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An errno.
pub type Errno = c_int;

/// A C return type that can say "it failed".
pub trait Failure {
    /// What the caller sees when the call failed; errno is set already.
    const FAILED: Self;
}

impl Failure for c_int {
    const FAILED: Self = -1;
}

impl Failure for isize {
    const FAILED: Self = -1;
}

impl Failure for i64 {
    const FAILED: Self = -1;
}

// What is written at an offset, of which -1 bytes are an error.
impl Failure for usize {
    const FAILED: Self = usize::MAX;
}

impl Failure for u16 {
    const FAILED: Self = 0;
}

impl Failure for () {
    const FAILED: Self = ();
}

impl<T> Failure for *mut T {
    const FAILED: Self = std::ptr::null_mut();
}

/// A call that gave no result yet, because it must wait, gives one if it fails.
impl<R: Failure> Failure for Option<R> {
    const FAILED: Self = Some(R::FAILED);
}

/// Runs the body of an entry point; an error is stored in errno. Programs that run over sockets of
/// the system's cancel their threads asynchronously (iperf3), which these bear: so each is an
/// `extern "C-unwind"` function, in whose own frame nothing happens but this.
#[inline(always)]
pub fn entry<R: Failure + Copy>(body: impl FnOnce() -> Result<R, Errno>) -> R {
    ferriband_cancel::shielded(|| guard(body))
}

/// Runs a body behind the boundary that stops panics.
fn guard<R: Failure>(body: impl FnOnce() -> Result<R, Errno>) -> R {
    let _inside = Inside::enter();
    let errno = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(result)) => return result,
        Ok(Err(errno)) => errno,
        Err(panic) => {
            // Dropping a payload may itself panic; a leak after a bug is the lesser evil.
            std::mem::forget(panic);
            libc::EIO
        }
    };
    set_errno(errno);
    R::FAILED
}

/// Runs the body of an entry point that returns 0 for success, and -1 with errno.
#[inline(always)]
pub fn status(body: impl FnOnce() -> Result<(), Errno>) -> c_int {
    entry(|| body().map(|()| 0))
}

/// Runs the body of an entry point that may wait, which is an `extern "C-unwind"` function: as long
/// as the body gives None, the thread sleeps on what the body has named, and the body runs again. A
/// cancelled thread ends at the beginning, or while it sleeps.
#[inline(always)]
pub fn waiting_entry<R: Failure + Copy>(
    mut body: impl FnMut(&mut Sleep) -> Result<Option<R>, Errno>,
) -> R {
    ferriband_cancel::waiting(|sleep| guard(|| body(sleep)))
}

/// Runs the body of an entry point that may wait, and returns 0 for success, and -1 with errno.
#[inline(always)]
pub fn waiting_status(mut body: impl FnMut(&mut Sleep) -> Result<Option<()>, Errno>) -> c_int {
    waiting_entry(|sleep| Ok(body(sleep)?.map(|()| 0)))
}

/// A function's errno as a result: 0 is success.
pub const fn check(errno: c_int) -> Result<(), Errno> {
    if errno == 0 { Ok(()) } else { Err(errno) }
}

/// An object from a function that returns NULL and sets errno; an errno that was not set counts as ENOMEM.
pub fn object<T>(pointer: *mut T) -> Result<*mut T, Errno> {
    if pointer.is_null() {
        Err(match errno() {
            0 => libc::ENOMEM,
            errno => errno,
        })
    } else {
        Ok(pointer)
    }
}

/// Stores `errno` for the calling thread.
pub fn set_errno(errno: Errno) {
    // SAFETY: glibc returns a valid pointer to the calling thread's errno.
    let slot = unsafe { libc::__errno_location() };
    // SAFETY: the slot belongs to this thread and lives as long as it.
    unsafe { slot.write(errno) };
}

/// Reads the calling thread's errno.
pub fn errno() -> Errno {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
