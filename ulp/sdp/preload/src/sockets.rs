//! Calls that make sockets, connect and end them.

use crate::{quietly, real, stream};
use ferriband_sdp_socket::process::Process;
use std::ffi::c_int;

/// Whether a call has made a stream of TCP.
fn is_stream(family: c_int, kind: c_int, protocol: c_int) -> bool {
    let kind = kind & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK);
    matches!(family, libc::AF_INET | libc::AF_INET6)
        && kind == libc::SOCK_STREAM
        && matches!(protocol, 0 | libc::IPPROTO_TCP)
}

/// socket(2).
#[unsafe(no_mangle)]
pub extern "C-unwind" fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int {
    let number =
        real::call!(-1, fn socket(family => c_int, kind => c_int, protocol => c_int) -> c_int);
    if number >= 0 {
        quietly((), || match is_stream(family, kind, protocol) {
            true => {
                if let Ok(process) = Process::get() {
                    process.made(number);
                }
            }
            false => {
                if let Some(process) = Process::there() {
                    process.other(number);
                }
            }
        });
    }
    number
}

fn accepted(listener: c_int, number: c_int) -> c_int {
    if number >= 0
        && let Some(process) = Process::there()
    {
        quietly((), || process.accepted(listener, number));
    }
    number
}

/// accept(2).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn accept(
    listener: c_int,
    address: *mut libc::sockaddr,
    length: *mut libc::socklen_t,
) -> c_int {
    let number = real::call!(-1, fn accept(
        listener => c_int, address => *mut libc::sockaddr, length => *mut libc::socklen_t
    ) -> c_int);
    accepted(listener, number)
}

/// accept4(2).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn accept4(
    listener: c_int,
    address: *mut libc::sockaddr,
    length: *mut libc::socklen_t,
    flags: c_int,
) -> c_int {
    let number = real::call!(-1, fn accept4(
        listener => c_int, address => *mut libc::sockaddr, length => *mut libc::socklen_t,
        flags => c_int
    ) -> c_int);
    accepted(listener, number)
}

/// connect(2).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn connect(
    number: c_int,
    address: *const libc::sockaddr,
    length: libc::socklen_t,
) -> c_int {
    let answer = real::call!(-1, fn connect(
        number => c_int, address => *const libc::sockaddr, length => libc::socklen_t
    ) -> c_int);
    // what goes on by itself, and what another call has made: it is no connection before it is one
    if let Some(process) = stream(number) {
        quietly((), || process.connected(number));
    }
    answer
}

/// listen(2).
#[unsafe(no_mangle)]
pub extern "C" fn listen(number: c_int, backlog: c_int) -> c_int {
    let answer = real::call!(-1, fn listen(number => c_int, backlog => c_int) -> c_int);
    if answer == 0
        && let Some(process) = stream(number)
    {
        quietly((), || process.listening(number));
    }
    answer
}

/// shutdown(2).
#[unsafe(no_mangle)]
pub extern "C" fn shutdown(number: c_int, how: c_int) -> c_int {
    if let Some(process) = stream(number) {
        quietly((), || process.shutdown(number, how));
    }
    real::call!(-1, fn shutdown(number => c_int, how => c_int) -> c_int)
}
