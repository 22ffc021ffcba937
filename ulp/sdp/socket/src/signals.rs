//! The calling thread's signals.
//!
//! Owns: what is blocked while this library must not be interrupted. Must not know: why.

use std::mem::MaybeUninit;

/// Blocks all signals of this thread; gives what was blocked before.
pub(crate) fn block_signals() -> libc::sigset_t {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: fills the set.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: a set that was filled, and room for another.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
    // SAFETY: written by the call, which cannot fail with these arguments.
    unsafe { before.assume_init() }
}

/// Blocks what [`block_signals`] has given, and nothing else.
pub(crate) fn restore_signals(before: &libc::sigset_t) {
    // SAFETY: a set, and nothing is to be written.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
}
