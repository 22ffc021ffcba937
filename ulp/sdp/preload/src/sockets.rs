//! Calls that make sockets, connect and end them.

use crate::{inet_sdp, quietly, real, set_errno, stream};
use ferriband_sdp_socket::inet_sdp::{Accepted, FAMILY};
use ferriband_sdp_socket::inet_sdp::{connected, is_used, listening};
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
    if family == FAMILY {
        return inet_sdp::socket(kind, protocol);
    }
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
    // SAFETY: the caller's promise.
    let room = unsafe { inet_sdp::room(address, length) };
    loop {
        let number = real::call!(-1, fn accept(
            listener => c_int, address => *mut libc::sockaddr, length => *mut libc::socklen_t
        ) -> c_int);
        // SAFETY: the caller's promise.
        match unsafe { inet_sdp::accepted(listener, number, address, room, length) } {
            Accepted::Other => return accepted(listener, number),
            Accepted::From(_) => return number,
            // SAFETY: the caller's promise.
            Accepted::Stranger => unsafe { again(number, room, length) },
        }
    }
}

/// A stranger's connection is closed, and the program waits on.
///
/// # Safety
/// As of accept(2).
unsafe fn again(number: c_int, room: libc::socklen_t, length: *mut libc::socklen_t) {
    real::call!(-1, fn close(number => c_int) -> c_int);
    // SAFETY: the caller's promise.
    if let Some(length) = unsafe { length.as_mut() } {
        *length = room;
    }
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
    // SAFETY: the caller's promise.
    let room = unsafe { inet_sdp::room(address, length) };
    loop {
        let number = real::call!(-1, fn accept4(
            listener => c_int, address => *mut libc::sockaddr, length => *mut libc::socklen_t,
            flags => c_int
        ) -> c_int);
        // SAFETY: the caller's promise.
        match unsafe { inet_sdp::accepted(listener, number, address, room, length) } {
            Accepted::Other => return accepted(listener, number),
            Accepted::From(_) => return number,
            // SAFETY: the caller's promise.
            Accepted::Stranger => unsafe { again(number, room, length) },
        }
    }
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
    if inet_sdp::is_one(number) {
        // SAFETY: the caller's promise.
        return unsafe { connect_by_sdp(number, address, length) };
    }
    let answer = real_connect(number, address, length);
    // what goes on by itself, and what another call has made: it is no connection before it is one
    if let Some(process) = stream(number) {
        quietly((), || process.connected(number));
    }
    answer
}

fn real_connect(number: c_int, address: *const libc::sockaddr, length: libc::socklen_t) -> c_int {
    real::call!(-1, fn connect(
        number => c_int, address => *const libc::sockaddr, length => libc::socklen_t
    ) -> c_int)
}

/// connect(2) of a socket that speaks SDP.
///
/// # Safety
/// As of the C function.
unsafe fn connect_by_sdp(
    number: c_int,
    address: *const libc::sockaddr,
    length: libc::socklen_t,
) -> c_int {
    // SAFETY: the caller's promise.
    let at = match unsafe { inet_sdp::connects(number, address, length) } {
        Ok(at) => at,
        Err(errno) => {
            set_errno(errno);
            return -1;
        }
    };
    let length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    let answer = real_connect(number, (&raw const at).cast(), length);
    // SAFETY: the address is the calling thread's own.
    let left = (answer != 0).then(|| unsafe { *libc::__errno_location() });
    match quietly(left, || connected(number, left)) {
        None => 0,
        Some(errno) => {
            set_errno(errno);
            -1
        }
    }
}

/// listen(2).
#[unsafe(no_mangle)]
pub extern "C" fn listen(number: c_int, backlog: c_int) -> c_int {
    if !inet_sdp::may_listen(number) {
        return -1;
    }
    let answer = real::call!(-1, fn listen(number => c_int, backlog => c_int) -> c_int);
    if answer == 0 && is_used() {
        quietly((), || listening(number));
    }
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
