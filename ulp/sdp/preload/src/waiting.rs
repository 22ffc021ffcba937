//! Calls that wait for several descriptors: a stream that is given to one is the kernel's.

use crate::{only_by_kernel, real};
use ferriband_sdp_socket::process::Process;
use std::ffi::{c_int, c_void};

/// Bits of a word of `fd_set`.
const BITS: c_int = libc::c_long::BITS.cast_signed();

unsafe fn polled(asked: *const libc::pollfd, count: libc::nfds_t) {
    if Process::there().is_none() || asked.is_null() {
        return;
    }
    for at in 0..count as usize {
        // SAFETY: the caller's promise.
        only_by_kernel(unsafe { (*asked.add(at)).fd });
    }
}

unsafe fn selected(end: c_int, set: *const libc::fd_set) {
    if Process::there().is_none() || set.is_null() {
        return;
    }
    let words = set.cast::<libc::c_long>();
    for number in 0..end {
        // SAFETY: the caller's promise.
        let word = unsafe { words.add((number / BITS) as usize).read() };
        if word >> (number % BITS) & 1 != 0 {
            only_by_kernel(number);
        }
    }
}

macro_rules! polls {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            asked: *mut libc::pollfd,
            count: libc::nfds_t,
            $($argument: $type),*
        ) -> c_int {
            // SAFETY: the caller's promise.
            unsafe { polled(asked, count) };
            real::call!(-1, fn $name(
                asked => *mut libc::pollfd, count => libc::nfds_t $(, $argument => $type)*
            ) -> c_int)
        }
    )*};
}

polls! {
    /// poll(2).
    poll(time: c_int);
    /// poll(2) of an array whose size the compiler knows.
    __poll_chk(time: c_int, room: libc::size_t);
    /// ppoll(2).
    ppoll(time: *const libc::timespec, signals: *const libc::sigset_t);
    /// ppoll(2) of an array whose size the compiler knows.
    __ppoll_chk(time: *const libc::timespec, signals: *const libc::sigset_t, room: libc::size_t);
}

macro_rules! selects {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            end: c_int,
            reads: *mut libc::fd_set,
            writes: *mut libc::fd_set,
            others: *mut libc::fd_set,
            $($argument: $type),*
        ) -> c_int {
            for set in [reads, writes, others] {
                // SAFETY: the caller's promise.
                unsafe { selected(end, set) };
            }
            real::call!(-1, fn $name(
                end => c_int, reads => *mut libc::fd_set, writes => *mut libc::fd_set,
                others => *mut libc::fd_set $(, $argument => $type)*
            ) -> c_int)
        }
    )*};
}

selects! {
    /// select(2).
    select(time: *mut libc::timeval);
    /// pselect(2).
    pselect(time: *const libc::timespec, signals: *const libc::sigset_t);
}

/// epoll_ctl(2).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_ctl(
    instance: c_int,
    operation: c_int,
    number: c_int,
    event: *mut c_void,
) -> c_int {
    only_by_kernel(number);
    real::call!(-1, fn epoll_ctl(
        instance => c_int, operation => c_int, number => c_int, event => *mut c_void
    ) -> c_int)
}
