//! `libferriband_sdp.so`: carries the TCP connections of unmodified programs by SDP.
//!
//! Owns: the C library's names of the calls that a socket's descriptor can be given to. Each entry
//! converts its arguments and calls the C library's function behind it ([`real`]). Must not know:
//! how a connection is carried, which is `ulp/sdp/socket`'s.

mod real;

use std::ffi::c_int;

/// shutdown(2).
#[unsafe(no_mangle)]
pub extern "C" fn shutdown(socket: c_int, how: c_int) -> c_int {
    real::call!(-1, fn shutdown(socket => c_int, how => c_int) -> c_int)
}
