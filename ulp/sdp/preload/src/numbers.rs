//! Calls by which descriptors get numbers and lose them.

use crate::{only_by_kernel, only_by_kernel_for, quietly, real, set_errno};
use ferriband_sdp_socket::inet_sdp;
use ferriband_sdp_socket::own::Closes;
use ferriband_sdp_socket::process::{Cause, Closing, Process};
use std::ffi::{c_char, c_int, c_uint, c_void};

/// close(2).
#[unsafe(no_mangle)]
pub extern "C-unwind" fn close(number: c_int) -> c_int {
    let had_port = may_have_port(number);
    let answer = close_known(number);
    gives_up_port(had_port);
    answer
}

/// Whether a number is that of a socket of the family AF_INET_SDP with a port of its own.
#[inline]
fn may_have_port(number: c_int) -> bool {
    inet_sdp::is_used() && quietly(false, || inet_sdp::closes(number))
}

/// The port is given up with the last number.
#[inline]
fn gives_up_port(had_port: bool) {
    if had_port {
        quietly((), inet_sdp::closed);
    }
}

fn close_known(number: c_int) -> c_int {
    let Some(process) = Process::there() else {
        return real_close(number);
    };
    match quietly(Closing::ByKernel, || process.close(number)) {
        Closing::ByKernel => real_close(number),
        Closing::Closed => {
            set_errno(libc::EBADF);
            -1
        }
        Closing::Unknown => {
            // SAFETY: a cancelled thread ends here; this frame owns nothing.
            unsafe { pthread_testcancel() };
            let mut state = 0;
            // SAFETY: writes one number.
            unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut state) };
            let answer = alone(|| real_close(number));
            // SAFETY: writes one number.
            unsafe { pthread_setcancelstate(state, &raw mut state) };
            answer
        }
    }
}

fn real_close(number: c_int) -> c_int {
    real::call!(-1, fn close(number => c_int) -> c_int)
}

/// A call on numbers of which nothing may be known, which must not meet descriptors that are being
/// made. It is no cancellation point.
fn alone(does: impl FnOnce() -> c_int) -> c_int {
    let closes = Closes::begin();
    let answer = does();
    closes.over();
    answer
}

/// PTHREAD_CANCEL_DISABLE.
const CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

unsafe extern "C-unwind" {
    fn pthread_testcancel();
}

fn real_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    real::call!(-1, fn close_range(first => c_uint, last => c_uint, flags => c_int) -> c_int)
}

/// close_range(2).
#[unsafe(no_mangle)]
pub extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let keeps = flags.cast_unsigned() & libc::CLOSE_RANGE_CLOEXEC != 0;
    let Some(process) = Process::there().filter(|_| !keeps && first <= last) else {
        return real_range(first, last, flags);
    };
    let had_ports = inet_sdp::is_used();
    let answer = quietly(-1, || {
        let mut answer = 0;
        for gap in process.close_range(first..=last) {
            answer = alone(|| real_range(*gap.start(), *gap.end(), flags));
            if answer != 0 {
                break;
            }
        }
        answer
    });
    gives_up_port(had_ports);
    answer
}

/// closefrom(3).
#[unsafe(no_mangle)]
pub extern "C" fn closefrom(first: c_int) {
    if Process::there().is_none() {
        return real::call!((), fn closefrom(first => c_int) -> ());
    }
    close_range(first.max(0).cast_unsigned(), c_uint::MAX, 0);
}

fn duplicated(from: c_int, number: c_int) -> c_int {
    if number >= 0
        && let Some(process) = Process::there()
    {
        quietly((), || process.duplicated(from, number));
    }
    number
}

/// dup(2).
#[unsafe(no_mangle)]
pub extern "C" fn dup(from: c_int) -> c_int {
    let number = real::call!(-1, fn dup(from => c_int) -> c_int);
    duplicated(from, number)
}

/// Before a descriptor gets a number that may be another's. False: errno says why it cannot.
fn make_way(from: c_int, number: c_int) -> bool {
    let Some(process) = Process::there() else {
        return true;
    };
    let made = quietly(Err(libc::EIO), || {
        process
            .replace(from, number)
            .map_err(|error| error.raw_os_error())
    });
    if let Err(errno) = made {
        set_errno(errno);
    }
    made.is_ok()
}

/// dup2(2).
#[unsafe(no_mangle)]
pub extern "C" fn dup2(from: c_int, number: c_int) -> c_int {
    let had_port = from != number && may_have_port(number);
    if !make_way(from, number) {
        return -1;
    }
    let real = || real::call!(-1, fn dup2(from => c_int, number => c_int) -> c_int);
    let done = if from == number { real() } else { alone(real) };
    gives_up_port(had_port);
    duplicated(from, done)
}

/// dup3(2).
#[unsafe(no_mangle)]
pub extern "C" fn dup3(from: c_int, number: c_int, flags: c_int) -> c_int {
    let had_port = from != number && may_have_port(number);
    if from != number && !make_way(from, number) {
        return -1;
    }
    let done =
        alone(|| real::call!(-1, fn dup3(from => c_int, number => c_int, flags => c_int) -> c_int));
    gives_up_port(had_port);
    duplicated(from, done)
}

fn before_control(number: c_int, command: c_int, argument: usize) {
    let signals = command == libc::F_SETFL && argument as c_int & libc::O_ASYNC != 0;
    if signals || matches!(command, libc::F_SETOWN | F_SETSIG | F_SETOWN_EX) {
        only_by_kernel(number);
    }
}

fn after_control(number: c_int, command: c_int, answer: c_int) -> c_int {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => duplicated(number, answer),
        _ => answer,
    }
}

const F_SETSIG: c_int = 10;
const F_SETOWN_EX: c_int = 15;

/// fcntl(2). Of what comes behind the command there is one argument at most.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn fcntl(number: c_int, command: c_int, argument: usize) -> c_int {
    before_control(number, command, argument);
    let answer =
        real::call!(-1, fn fcntl(number => c_int, command => c_int, argument => usize) -> c_int);
    after_control(number, command, answer)
}

/// fcntl(2), by its name for large files.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn fcntl64(number: c_int, command: c_int, argument: usize) -> c_int {
    before_control(number, command, argument);
    let answer =
        real::call!(-1, fn fcntl64(number => c_int, command => c_int, argument => usize) -> c_int);
    after_control(number, command, answer)
}

/// fdopen(3): the C library reads and writes by itself.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdopen(number: c_int, mode: *const c_char) -> *mut c_void {
    only_by_kernel_for(number, Cause::ByLibrary);
    real::call!(std::ptr::null_mut(), fn fdopen(number => c_int, mode => *const c_char) -> *mut c_void)
}
