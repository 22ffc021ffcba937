//! Threads that may be cancelled while they sleep.
//!
//! Owns: the C library's records of handlers, and the sleep of a call that moves bytes. Must not
//! know: what is slept for.
//!
//! A futex is no cancellation point of the C library's, so a thread that sleeps by one lets itself
//! be cancelled at any instruction meanwhile, as the C library's own points did before glibc 2.41.
//! The frames of that time own nothing, and have nothing that an unwinding stops at.

use crate::{quietly, real};
use ferriband_sdp_socket::calls::Nap;
use ferriband_sdp_socket::calls::Wait;
use ferriband_sdp_socket::process::Sleeper;
use ferriband_sdp_socket::ready::kernel;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

/// A handler's record (`struct _pthread_cleanup_buffer`).
#[repr(C)]
pub struct CleanupBuffer {
    routine: Option<extern "C" fn(*mut c_void)>,
    argument: *mut c_void,
    cancel_type: c_int,
    previous: *mut CleanupBuffer,
}

unsafe extern "C" {
    pub fn _pthread_cleanup_push(
        buffer: *mut CleanupBuffer,
        routine: extern "C" fn(*mut c_void),
        argument: *mut c_void,
    );
    pub fn _pthread_cleanup_pop(buffer: *mut CleanupBuffer, runs: c_int);
}

unsafe extern "C-unwind" {
    pub fn pthread_testcancel();
    fn pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int;
}

const PTHREAD_CANCEL_ASYNCHRONOUS: c_int = 1;

/// Sleeps as a call says that has just asked for it; the call goes on afterwards. A thread that is
/// cancelled here ends the call.
#[inline(never)]
pub fn pause(mut sleeper: Sleeper) -> Wait {
    let call: *mut Sleeper = &raw mut sleeper;
    let mut buffer = MaybeUninit::uninit();
    // SAFETY: the buffer and the call lie in this frame until the buffer is taken out below.
    unsafe { _pthread_cleanup_push(buffer.as_mut_ptr(), cancelled, call.cast()) };
    let woken = match sleeper.nap() {
        Nap::Word { at, value, until } => {
            let until = kernel::spec(until);
            let until = until.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
            let mut kind = 0;
            // SAFETY: a known kind, and room for the one before.
            unsafe { pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &raw mut kind) };
            // SAFETY: the call is open, which keeps the word; the time lives in this frame.
            let woken = unsafe { Nap::sleep_on(at, value, until) };
            // SAFETY: the kind that it was.
            unsafe { pthread_setcanceltype(kind, &raw mut kind) };
            woken
        }
        Nap::Kernel => {
            let mut polled = libc::pollfd {
                fd: sleeper.number(),
                events: libc::POLLOUT,
                revents: 0,
            };
            let answer = real::call!(-1, fn poll(
                &raw mut polled => *mut libc::pollfd, 1 => libc::nfds_t, -1 => c_int
            ) -> c_int);
            match answer {
                // SAFETY: the address is the calling thread's own.
                -1 if unsafe { *libc::__errno_location() } == libc::EINTR => Wait::Interrupted,
                _ => Wait::Woken,
            }
        }
    };
    // SAFETY: the buffer that was put in above.
    unsafe { _pthread_cleanup_pop(buffer.as_mut_ptr(), 0) };
    woken
}

extern "C" fn cancelled(call: *mut c_void) {
    // SAFETY: `pause` has given the address of its own.
    let call = unsafe { *call.cast::<Sleeper>() };
    quietly((), || call.end());
}
