//! Calls that move bytes between a stream and memory.
//!
//! Owns: what is done around the kernel's function, also for [`crate::messages`] and
//! [`crate::files`].

use crate::cancel::{_pthread_cleanup_pop, _pthread_cleanup_push, pause, pthread_testcancel};
use crate::{errno, inet_sdp, only_by_kernel, quietly, real, set_errno, stream};
use ferriband_sdp_socket::process::{Begun, Process, Ticket};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

pub(crate) type Size = libc::size_t;
pub(crate) type Answer = libc::ssize_t;

/// Messages of more parts than this are none to the kernel (UIO_MAXIOV).
pub(crate) const MOST_PARTS: usize = 1024;

/// Ends what was begun.
#[inline]
pub(crate) fn end(begun: Begun, real: impl FnOnce() -> Answer) -> Answer {
    match begun {
        Begun::Plain => real(),
        Begun::Kernel(ticket) => {
            let answer = inside(ticket, real);
            let told = if answer < 0 {
                -(errno() as Answer)
            } else {
                answer
            };
            match quietly(None, || ticket.end(told)) {
                None => answer,
                Some(errno) => {
                    set_errno(errno);
                    -1
                }
            }
        }
        Begun::Done(bytes) => bytes.cast_signed(),
        Begun::Failed(errno) => {
            set_errno(errno);
            -1
        }
        // whoever sleeps goes on first
        Begun::Sleep(sleeper) => {
            quietly((), || sleeper.end());
            set_errno(libc::EIO);
            -1
        }
    }
}

/// Calls the kernel's function. A thread that is cancelled there ends the ticket.
#[inline]
fn inside(mut ticket: Ticket, real: impl FnOnce() -> Answer) -> Answer {
    let mut buffer = MaybeUninit::uninit();
    let argument = (&raw mut ticket).cast();
    // SAFETY: the buffer and the ticket lie in this frame until the buffer is taken out below.
    unsafe { _pthread_cleanup_push(buffer.as_mut_ptr(), cancelled, argument) };
    let answer = real();
    // SAFETY: the buffer that was put in above.
    unsafe { _pthread_cleanup_pop(buffer.as_mut_ptr(), 0) };
    answer
}

extern "C" fn cancelled(ticket: *mut c_void) {
    // SAFETY: `inside` has given the address of its own.
    let ticket = unsafe { *ticket.cast::<Ticket>() };
    quietly(None, || ticket.end(-1));
}

/// Before a call that receives in a way that only the kernel has. False: it is to fail, and errno
/// says how.
pub(crate) fn receives_by_kernel(number: c_int, flags: c_int) -> bool {
    let Some(process) = stream(number) else {
        return true;
    };
    let begin = || process.receives_by_kernel(number, flags);
    match quietly(Err(libc::EIO), begin) {
        Ok(()) => true,
        Err(errno) => {
            set_errno(errno);
            false
        }
    }
}

/// A call that sends.
///
/// # Safety
/// The parts may be read.
#[inline]
pub(crate) unsafe fn send_parts(
    number: c_int,
    parts: &[libc::iovec],
    flags: c_int,
    real: impl FnOnce() -> Answer,
) -> Answer {
    let Some(process) = stream(number) else {
        return real();
    };
    // SAFETY: a cancelled thread ends here, although it need not sleep; this frame owns nothing.
    unsafe { pthread_testcancel() };
    // SAFETY: the caller's promise.
    let begin = || unsafe { process.send(number, parts, flags) };
    let mut begun = quietly(Begun::Failed(libc::EIO), begin);
    while let Begun::Sleep(sleeper) = begun {
        let woken = pause(sleeper);
        // SAFETY: the caller's promise.
        let go_on = || unsafe { sleeper.send(parts, woken) };
        begun = quietly(Begun::Failed(libc::EIO), go_on);
    }
    end(begun, real)
}

/// What a call that receives has done when it does not sleep any more.
///
/// # Safety
/// The parts may be written.
#[inline]
pub(crate) unsafe fn receives(
    process: &'static Process,
    number: c_int,
    parts: &mut [libc::iovec],
    flags: c_int,
) -> Begun {
    // SAFETY: a cancelled thread ends here, although it need not sleep; this frame owns nothing.
    unsafe { pthread_testcancel() };
    // SAFETY: the caller's promise.
    let begin = || unsafe { process.receive(number, parts, flags) };
    let mut begun = quietly(Begun::Failed(libc::EIO), begin);
    while let Begun::Sleep(sleeper) = begun {
        let woken = pause(sleeper);
        // SAFETY: the caller's promise.
        let go_on = || unsafe { sleeper.receive(parts, woken) };
        begun = quietly(Begun::Failed(libc::EIO), go_on);
    }
    begun
}

/// A call that receives.
///
/// # Safety
/// The parts may be written.
#[inline]
unsafe fn receive_parts(
    number: c_int,
    parts: &mut [libc::iovec],
    flags: c_int,
    real: impl FnOnce() -> Answer,
) -> Answer {
    let Some(process) = stream(number) else {
        return real();
    };
    // SAFETY: the caller's promise.
    end(unsafe { receives(process, number, parts, flags) }, real)
}

fn part(at: *const c_void, length: Size) -> libc::iovec {
    libc::iovec {
        iov_base: at.cast_mut(),
        iov_len: length,
    }
}

/// A call that the kernel refuses, or that it alone can do.
#[cold]
pub(crate) fn refused(number: c_int, real: impl FnOnce() -> Answer) -> Answer {
    only_by_kernel(number);
    real()
}

/// The parts of a vector; None if the kernel would refuse it, or says better what is wrong.
///
/// # Safety
/// There are so many.
pub(crate) unsafe fn vector<'a>(
    parts: *const libc::iovec,
    count: usize,
) -> Option<&'a [libc::iovec]> {
    match count {
        0 => Some(&[]),
        1..=MOST_PARTS
            if parts.is_aligned()
                && Process::can_read(parts.cast(), count * size_of::<libc::iovec>()) =>
        {
            // SAFETY: the caller's promise.
            let parts = unsafe { std::slice::from_raw_parts(parts, count) };
            Some(parts)
        }
        _ => None,
    }
}

/// The parts of a vector that are written to, which the calls on the ring leave as they are.
///
/// # Safety
/// There are so many.
pub(crate) unsafe fn vector_mut<'a>(
    parts: *const libc::iovec,
    count: usize,
) -> Option<&'a mut [libc::iovec]> {
    // SAFETY: the caller's promise.
    let parts = unsafe { vector(parts, count) }?;
    // SAFETY: the program's own, which it does not touch while its call lasts; nothing is written.
    Some(unsafe { std::slice::from_raw_parts_mut(parts.as_ptr().cast_mut(), parts.len()) })
}

/// read(2).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn read(number: c_int, to: *mut c_void, length: Size) -> Answer {
    let real =
        || real::call!(-1, fn read(number => c_int, to => *mut c_void, length => Size) -> Answer);
    // SAFETY: the caller's promise.
    unsafe { receive_parts(number, &mut [part(to, length)], 0, real) }
}

/// read(2) into a buffer whose size the compiler knows.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __read_chk(
    number: c_int,
    to: *mut c_void,
    length: Size,
    room: Size,
) -> Answer {
    let real = || real::call!(-1, fn __read_chk(number => c_int, to => *mut c_void, length => Size, room => Size) -> Answer);
    if length > room {
        return real();
    }
    // SAFETY: the caller's promise.
    unsafe { receive_parts(number, &mut [part(to, length)], 0, real) }
}

/// write(2).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn write(number: c_int, from: *const c_void, length: Size) -> Answer {
    let real = || real::call!(-1, fn write(number => c_int, from => *const c_void, length => Size) -> Answer);
    // SAFETY: the caller's promise.
    unsafe { send_parts(number, &[part(from, length)], 0, real) }
}

/// readv(2).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn readv(
    number: c_int,
    parts: *const libc::iovec,
    count: c_int,
) -> Answer {
    let real = || real::call!(-1, fn readv(number => c_int, parts => *const libc::iovec, count => c_int) -> Answer);
    if stream(number).is_none() {
        return real();
    }
    // SAFETY: the caller's promise.
    match unsafe { vector_mut(parts, usize::try_from(count).unwrap_or(usize::MAX)) } {
        // SAFETY: the caller's promise.
        Some(parts) => unsafe { receive_parts(number, parts, 0, real) },
        None => refused(number, real),
    }
}

/// writev(2).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn writev(
    number: c_int,
    parts: *const libc::iovec,
    count: c_int,
) -> Answer {
    let real = || real::call!(-1, fn writev(number => c_int, parts => *const libc::iovec, count => c_int) -> Answer);
    if stream(number).is_none() {
        return real();
    }
    // SAFETY: the caller's promise.
    match unsafe { vector(parts, usize::try_from(count).unwrap_or(usize::MAX)) } {
        // SAFETY: the caller's promise.
        Some(parts) => unsafe { send_parts(number, parts, 0, real) },
        None => refused(number, real),
    }
}

/// recv(2).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recv(
    number: c_int,
    to: *mut c_void,
    length: Size,
    flags: c_int,
) -> Answer {
    let real = || real::call!(-1, fn recv(number => c_int, to => *mut c_void, length => Size, flags => c_int) -> Answer);
    // SAFETY: the caller's promise.
    unsafe { receive_parts(number, &mut [part(to, length)], flags, real) }
}

/// recv(2) into a buffer whose size the compiler knows.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __recv_chk(
    number: c_int,
    to: *mut c_void,
    length: Size,
    room: Size,
    flags: c_int,
) -> Answer {
    let real = || real::call!(-1, fn __recv_chk(number => c_int, to => *mut c_void, length => Size, room => Size, flags => c_int) -> Answer);
    if length > room {
        return real();
    }
    // SAFETY: the caller's promise.
    unsafe { receive_parts(number, &mut [part(to, length)], flags, real) }
}

/// send(2).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn send(
    number: c_int,
    from: *const c_void,
    length: Size,
    flags: c_int,
) -> Answer {
    let real = || real::call!(-1, fn send(number => c_int, from => *const c_void, length => Size, flags => c_int) -> Answer);
    // SAFETY: the caller's promise.
    unsafe { send_parts(number, &[part(from, length)], flags, real) }
}

type Address = *mut libc::sockaddr;
type Length = *mut libc::socklen_t;

/// A stream's bytes come from nowhere: what the kernel writes for TCP.
///
/// # Safety
/// `length` may be written, if there is an address.
unsafe fn from_nowhere(answer: Begun, address: Address, length: Length) {
    if matches!(answer, Begun::Done(_)) && !address.is_null() && !length.is_null() {
        // SAFETY: the caller's promise.
        unsafe { *length = 0 };
    }
}

/// recvfrom(2).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvfrom(
    number: c_int,
    to: *mut c_void,
    length: Size,
    flags: c_int,
    address: Address,
    address_length: Length,
) -> Answer {
    let real = || {
        real::call!(-1, fn recvfrom(
            number => c_int, to => *mut c_void, length => Size, flags => c_int,
            address => Address, address_length => Length
        ) -> Answer)
    };
    // SAFETY: the caller's promise.
    unsafe {
        receive_from(
            number,
            part(to, length),
            flags,
            address,
            address_length,
            real,
        )
    }
}

/// recvfrom(2) into a buffer whose size the compiler knows.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __recvfrom_chk(
    number: c_int,
    to: *mut c_void,
    length: Size,
    room: Size,
    flags: c_int,
    address: Address,
    address_length: Length,
) -> Answer {
    let real = || {
        real::call!(-1, fn __recvfrom_chk(
            number => c_int, to => *mut c_void, length => Size, room => Size, flags => c_int,
            address => Address, address_length => Length
        ) -> Answer)
    };
    if length > room {
        return real();
    }
    // SAFETY: the caller's promise.
    unsafe {
        receive_from(
            number,
            part(to, length),
            flags,
            address,
            address_length,
            real,
        )
    }
}

#[inline]
unsafe fn receive_from(
    number: c_int,
    part: libc::iovec,
    flags: c_int,
    address: Address,
    address_length: Length,
    real: impl FnOnce() -> Answer,
) -> Answer {
    let Some(process) = stream(number) else {
        return real();
    };
    // SAFETY: the caller's promise.
    let begun = unsafe { receives(process, number, &mut [part], flags) };
    // SAFETY: the caller's promise.
    unsafe { from_nowhere(begun, address, address_length) };
    end(begun, real)
}

/// sendto(2).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendto(
    number: c_int,
    from: *const c_void,
    length: Size,
    flags: c_int,
    address: *const libc::sockaddr,
    address_length: libc::socklen_t,
) -> Answer {
    if inet_sdp::opens(number, flags) {
        return -1;
    }
    let real = || {
        real::call!(-1, fn sendto(
            number => c_int, from => *const c_void, length => Size, flags => c_int,
            address => *const libc::sockaddr, address_length => libc::socklen_t
        ) -> Answer)
    };
    // SAFETY: the caller's promise.
    unsafe { send_parts(number, &[part(from, length)], flags, real) }
}
