//! Options of sockets.

use crate::{inet_sdp, only_by_kernel, quietly, real, set_errno, stream};
use ferriband_sdp_socket::inet_sdp as by_sdp;
use ferriband_sdp_socket::process::asks_kernel;
use std::ffi::{c_int, c_ulong, c_void};

/// TCP_ULP.
const UPPER: c_int = 31;
/// TCP_ZEROCOPY_RECEIVE: getsockopt(2) receives.
const RECEIVES: c_int = 35;
/// By which connect(2) waits for the first bytes (TCP_FASTOPEN_CONNECT).
const OPENS_LATE: c_int = 30;

/// The value of an option that is a number.
///
/// # Safety
/// `length` bytes may be read.
unsafe fn number_at(value: *const c_void, length: libc::socklen_t) -> Option<c_int> {
    let is_number = !value.is_null() && length as usize >= size_of::<c_int>();
    // SAFETY: the caller's promise.
    is_number.then(|| unsafe { value.cast::<c_int>().read_unaligned() })
}

/// Whether there is room for an option that is a number.
///
/// # Safety
/// The length is NULL or may be read.
unsafe fn takes_number(value: *mut c_void, length: *mut libc::socklen_t) -> bool {
    // SAFETY: the caller's promise.
    let room = unsafe { length.as_ref() };
    !value.is_null() && room.is_some_and(|room| *room as usize >= size_of::<c_int>())
}

/// setsockopt(2).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setsockopt(
    number: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: libc::socklen_t,
) -> c_int {
    if let Some(process) = stream(number) {
        quietly((), || process.uses(number));
        // SAFETY: the caller's promise.
        let given = unsafe { number_at(value, length) };
        let set = |given| quietly(None, || process.set_option(number, level, name, given));
        if given.and_then(set).is_some() {
            return 0;
        }
        let is_kernels = given.is_some_and(|given| asks_kernel(level, name, given));
        if is_kernels || (level, name) == (libc::IPPROTO_TCP, UPPER) {
            only_by_kernel(number);
        }
    }
    if (level, name) == (libc::IPPROTO_TCP, OPENS_LATE) && inet_sdp::is_one(number) {
        set_errno(libc::EOPNOTSUPP);
        return -1;
    }
    real::call!(-1, fn setsockopt(
        number => c_int, level => c_int, name => c_int, value => *const c_void,
        length => libc::socklen_t
    ) -> c_int)
}

/// getsockopt(2).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockopt(
    number: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut libc::socklen_t,
) -> c_int {
    if (level, name) == (libc::SOL_SOCKET, libc::SO_ERROR)
        // SAFETY: the caller's promise.
        && unsafe { takes_number(value, length) }
        && let Some(error) = quietly(None, || take_error(number))
    {
        // SAFETY: there is room for it, as was looked.
        unsafe { value.cast::<c_int>().write_unaligned(error) };
        // SAFETY: as above.
        unsafe { *length = size_of::<c_int>() as libc::socklen_t };
        return 0;
    }
    if (level, name) == (libc::IPPROTO_TCP, RECEIVES) {
        only_by_kernel(number);
    }
    let answer = real::call!(-1, fn getsockopt(
        number => c_int, level => c_int, name => c_int, value => *mut c_void,
        length => *mut libc::socklen_t
    ) -> c_int);
    if answer == 0
        && let Some(process) = stream(number)
        && let Some(kept) = quietly(None, || {
            process.uses(number);
            process.get_option(number, level, name)
        })
    {
        // SAFETY: the kernel has written so many bytes.
        let length = unsafe { *length } as usize;
        let bytes = kept.to_ne_bytes();
        let length = length.min(bytes.len());
        // SAFETY: as above.
        unsafe {
            value
                .cast::<u8>()
                .copy_from_nonoverlapping(bytes.as_ptr(), length);
        }
    }
    answer
}

/// What a socket's error is, if it is not the kernel's.
fn take_error(number: c_int) -> Option<c_int> {
    match stream(number) {
        Some(process) => process.take_error(number),
        None => by_sdp::take_error(number).map(|errno| errno.raw_os_error()),
    }
}

/// ioctl(2). Of what comes behind the request there is one argument.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ioctl(
    number: c_int,
    request: c_ulong,
    argument: *mut c_void,
) -> c_int {
    let process = stream(number);
    if process.is_some() && request == libc::FIOASYNC {
        only_by_kernel(number);
    }
    let answer = real::call!(-1, fn ioctl(
        number => c_int, request => c_ulong, argument => *mut c_void
    ) -> c_int);
    let (Some(process), 0) = (process, answer) else {
        return answer;
    };
    let to = argument.cast::<c_int>();
    let (more, kept) = match request {
        libc::FIONREAD => (0, quietly(None, || process.unread(number))),
        // SAFETY: the kernel has written it.
        libc::TIOCOUTQ => (unsafe { *to }, quietly(None, || process.unsent(number))),
        _ => (0, None),
    };
    if let Some(kept) = kept {
        let kept = c_int::try_from(kept).unwrap_or(c_int::MAX);
        // SAFETY: as above.
        unsafe { *to = kept.saturating_add(more) };
    }
    answer
}
