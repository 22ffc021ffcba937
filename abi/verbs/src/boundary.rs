//! The panic boundary and errno: what every entry point of the library shares.
//!
//! No Rust panic may cross into C. A panic is a bug of ours, so the device is declared fatal: each open context gets an
//! `IBV_EVENT_DEVICE_FATAL`, and the call that hit the bug answers EIO. On the happy path the boundary costs
//! nothing but an entry in the unwind tables.

use ferriband_cancel::Sleep;
use ferriband_sanitizer::Inside;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A C return type that can say "it failed, and this is why".
pub trait Failure {
    /// The value that reports `errno`, storing it in the thread's errno where the C convention asks for that.
    fn failure(errno: i32) -> Self;
}

/// Verbs that return an `int` return the errno itself, 0 for success; errno is set too, for callers that look there.
impl Failure for i32 {
    #[cold]
    fn failure(errno: i32) -> Self {
        set_errno(errno);
        errno
    }
}

/// Verbs that return an object return NULL and set errno.
impl<T> Failure for *mut T {
    #[cold]
    fn failure(errno: i32) -> Self {
        set_errno(errno);
        std::ptr::null_mut()
    }
}

impl<T> Failure for *const T {
    #[cold]
    fn failure(errno: i32) -> Self {
        set_errno(errno);
        std::ptr::null()
    }
}

/// Verbs without a result cannot report; the device-fatal event does.
impl Failure for () {
    #[cold]
    fn failure(_errno: i32) -> Self {}
}

/// The convention of a few verbs: -1 with errno set (`ibv_query_gid`, `ibv_get_cq_event`, ...).
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct MinusOne(pub i32);

impl Failure for MinusOne {
    #[cold]
    fn failure(errno: i32) -> Self {
        set_errno(errno);
        MinusOne(-1)
    }
}

/// The convention of `ibv_query_gid_table`: a count, or the negated errno.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Negated(pub isize);

impl Failure for Negated {
    #[cold]
    fn failure(errno: i32) -> Self {
        set_errno(errno);
        Negated(-(errno as isize))
    }
}

/// The convention of polling: a count, or a negative errno.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct NegatedInt(pub i32);

impl NegatedInt {
    /// The value that reports `errno`.
    #[cold]
    pub fn from_errno(errno: i32) -> Self {
        NegatedInt(-errno)
    }
}

impl Failure for NegatedInt {
    #[cold]
    fn failure(errno: i32) -> Self {
        Self::from_errno(errno)
    }
}

/// A call that gave no result yet, because it must wait, gives one if it fails.
impl<R: Failure> Failure for Option<R> {
    #[cold]
    fn failure(errno: i32) -> Self {
        Some(R::failure(errno))
    }
}

/// Runs the body of an entry point; a panic makes the device fatal and the call answer EIO.
#[inline(always)]
pub fn entry<R: Failure>(body: impl FnOnce() -> R) -> R {
    let _inside = Inside::enter();
    unwatched_entry(body)
}

/// As [`entry`], where ThreadSanitizer does not watch the program, or was told before.
#[inline(always)]
pub fn unwatched_entry<R: Failure>(body: impl FnOnce() -> R) -> R {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(panic) => after_panic(panic),
    }
}

/// Runs the body of an entry point that ends in an errno; the error becomes the C convention of `R`.
#[inline(always)]
pub fn try_entry<R: Failure>(body: impl FnOnce() -> Result<R, i32>) -> R {
    entry(|| match body() {
        Ok(result) => result,
        Err(errno) => R::failure(errno),
    })
}

/// Runs the body of an entry point that may wait, which is an `extern "C-unwind"` function: as long
/// as the body gives None, the thread sleeps on what the body has named, and the body runs again. A
/// cancelled thread ends at the beginning, or while it sleeps.
#[inline(always)]
pub fn waiting_entry<R: Failure + Copy>(
    mut body: impl FnMut(&mut Sleep) -> Result<Option<R>, i32>,
) -> R {
    ferriband_cancel::waiting(|sleep| try_entry(|| body(sleep)))
}

#[cold]
fn after_panic<R: Failure>(panic: Box<dyn std::any::Any + Send>) -> R {
    // Dropping a payload may itself panic; a leak after a bug is the lesser evil.
    std::mem::forget(panic);
    // Declaring the device fatal takes locks that the panic may have poisoned: guard it too.
    let announced = catch_unwind(crate::context::declare_fatal);
    if announced.is_err() {
        ferriband_fork::tell(format_args!(
            "ferriband: the device failed, and the failure could not be announced"
        ));
    }
    R::failure(libc::EIO)
}

/// Stores `errno` for the calling thread.
pub fn set_errno(errno: i32) {
    // SAFETY: glibc returns a valid pointer to the calling thread's errno.
    let slot = unsafe { libc::__errno_location() };
    // SAFETY: the slot belongs to this thread and lives as long as it.
    unsafe { slot.write(errno) };
}

/// Reads the calling thread's errno.
pub fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_eio_in_each_convention() {
        assert_eq!(entry::<i32>(|| panic!("a bug")), libc::EIO);
        set_errno(0);
        assert!(entry::<*mut u8>(|| panic!("a bug")).is_null());
        assert_eq!(errno(), libc::EIO);
        set_errno(0);
        assert_eq!(entry::<MinusOne>(|| panic!("a bug")).0, -1);
        assert_eq!(errno(), libc::EIO);
        assert_eq!(
            entry::<Negated>(|| panic!("a bug")).0,
            -(libc::EIO as isize)
        );
        assert_eq!(entry::<NegatedInt>(|| panic!("a bug")).0, -libc::EIO);
        entry::<()>(|| panic!("a bug"));
    }

    #[test]
    fn errors_follow_the_same_conventions() {
        assert_eq!(try_entry::<i32>(|| Err(libc::EBUSY)), libc::EBUSY);
        assert_eq!(errno(), libc::EBUSY);
        assert_eq!(
            try_entry::<Negated>(|| Err(libc::EINVAL)).0,
            -(libc::EINVAL as isize)
        );
        assert_eq!(try_entry::<i32>(|| Ok(0)), 0);
    }
}
