//! `libferriband_sdp.so`: carries the TCP connections of unmodified programs by SDP.
//!
//! Owns: the C library's names of the calls that a socket's descriptor can be given to. Each entry
//! converts its arguments and calls the C library's function behind it (`real`). Must not know:
//! how a connection is carried, which is `ulp/sdp/socket`'s.
//!
//! An entry is a frame without destructors, since a thread that is cancelled is unwound from within
//! the C library's function. Whatever is done before and after that function is in frames of its
//! own, which call no cancellation point and let no panic out.

mod cancel;
mod files;
mod inet_sdp;
mod loading;
mod messages;
mod moving;
mod names;
mod numbers;
mod options;
mod programs;
mod raw;
mod real;
mod sockets;
mod splicing;
mod waiting;

use ferriband_sdp_socket::process::{Cause, Process};
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Sets the thread's errno.
fn set_errno(errno: c_int) {
    // SAFETY: the address is the calling thread's own.
    unsafe { *libc::__errno_location() = errno };
}

/// The thread's errno.
fn errno() -> c_int {
    // SAFETY: the address is the calling thread's own.
    unsafe { *libc::__errno_location() }
}

/// The sockets of this process, if the number is a stream's.
#[inline]
fn stream(number: c_int) -> Option<&'static Process> {
    Process::there().filter(|process| process.is_stream(number))
}

/// Does something that a panic must not leave. `failed` is the answer of one that has one.
#[inline]
fn quietly<T>(failed: T, does: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(does)).unwrap_or(failed)
}

/// What comes is the kernel's alone, and why.
#[inline]
fn only_by_kernel_for(number: c_int, cause: Cause) {
    if let Some(process) = stream(number) {
        quietly((), || process.only_by_kernel_for(number, cause));
    }
}

/// What comes is the kernel's alone.
#[inline]
fn only_by_kernel(number: c_int) {
    if let Some(process) = stream(number) {
        quietly((), || process.only_by_kernel(number));
    }
}
