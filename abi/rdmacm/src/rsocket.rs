//! Sockets over queue pairs: not there yet.
//!
//! `rsocket` refuses with ENOSYS, so no descriptor is one of ours, and the other calls answer what they answer for such a
//! descriptor: EBADF. `rpoll` and `rselect` take descriptors of any kind, and pass on those of the system.

use crate::boundary::entry;
use libc::{fd_set, nfds_t, pollfd, timeval};
use std::ffi::c_int;

/// `rsocket`: ENOSYS.
#[unsafe(no_mangle)]
pub extern "C" fn rsocket(_domain: c_int, _kind: c_int, _protocol: c_int) -> c_int {
    entry(|| Err(libc::ENOSYS))
}

macro_rules! refuse {
    ($($name:ident -> $result:ty)*) => {$(
        /// A call on a descriptor that is not a socket over a queue pair: EBADF. Arguments are not declared because none is
        /// looked at, which the x86_64 calling convention allows.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> $result {
            entry(|| Err(libc::EBADF))
        }
    )*};
}

refuse! {
    raccept -> c_int
    rbind -> c_int
    rclose -> c_int
    rconnect -> c_int
    rfcntl -> c_int
    rgetpeername -> c_int
    rgetsockname -> c_int
    rgetsockopt -> c_int
    riomap -> libc::off_t
    riounmap -> c_int
    riowrite -> usize
    rlisten -> c_int
    rread -> isize
    rreadv -> isize
    rrecv -> isize
    rrecvfrom -> isize
    rrecvmsg -> isize
    rsend -> isize
    rsendmsg -> isize
    rsendto -> isize
    rsetsockopt -> c_int
    rshutdown -> c_int
    rwrite -> isize
    rwritev -> isize
}

/// `rpoll`, of descriptors of the system.
///
/// # Safety
/// As for poll(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpoll(fds: *mut pollfd, nfds: nfds_t, timeout: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { libc::poll(fds, nfds, timeout) }
}

/// `rselect`, of descriptors of the system.
///
/// # Safety
/// As for select(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rselect(
    nfds: c_int,
    readfds: *mut fd_set,
    writefds: *mut fd_set,
    exceptfds: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { libc::select(nfds, readfds, writefds, exceptfds, timeout) }
}
