//! Calls that move messages: of parts, with descriptors that go to other processes, several at
//! once.

use crate::moving::{Answer, MOST_PARTS, end, receives, refused, send_parts, vector, vector_mut};
use crate::{
    errno, inet_sdp, only_by_kernel, only_by_kernel_for, quietly, real, set_errno, stream,
};
use ferriband_sdp_socket::process::{Begun, Cause, Process};
use std::ffi::{c_int, c_uint, c_void};
use std::time::{Duration, Instant};

/// Whether a message can be looked at; the kernel refuses one that cannot.
fn is_message(message: *const libc::msghdr) -> bool {
    message.is_aligned() && Process::can_read(message.cast(), size_of::<libc::msghdr>())
}

/// recvmsg(2).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmsg(
    number: c_int,
    message: *mut libc::msghdr,
    flags: c_int,
) -> Answer {
    let real = move || real::call!(-1, fn recvmsg(number => c_int, message => *mut libc::msghdr, flags => c_int) -> Answer);
    let Some(process) = stream(number) else {
        return real();
    };
    if !is_message(message) {
        return refused(number, real);
    }
    // SAFETY: the caller's promise.
    let (parts, count) = unsafe { ((*message).msg_iov, (*message).msg_iovlen) };
    // SAFETY: the caller's promise.
    let Some(parts) = (unsafe { vector_mut(parts, count) }) else {
        return refused(number, real);
    };
    // SAFETY: the caller's promise.
    let begun = unsafe { receives(process, number, parts, flags) };
    if matches!(begun, Begun::Done(_)) {
        // SAFETY: the caller's promise; as the kernel does for TCP.
        unsafe {
            (*message).msg_namelen = 0;
            (*message).msg_controllen = 0;
            (*message).msg_flags = 0;
        }
    }
    end(begun, real)
}

/// sendmsg(2).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmsg(
    number: c_int,
    message: *const libc::msghdr,
    flags: c_int,
) -> Answer {
    if inet_sdp::opens(number, flags) {
        return -1;
    }
    let real = || real::call!(-1, fn sendmsg(number => c_int, message => *const libc::msghdr, flags => c_int) -> Answer);
    if Process::there().is_none() {
        return real();
    }
    if !is_message(message) {
        return refused(number, real);
    }
    // SAFETY: the caller's promise.
    if unsafe { (*message).msg_controllen } != 0 {
        // SAFETY: the caller's promise.
        unsafe { gives_away(message) };
        only_by_kernel(number);
    }
    // SAFETY: the caller's promise.
    let (parts, count) = unsafe { ((*message).msg_iov, (*message).msg_iovlen) };
    if stream(number).is_none() {
        return real();
    }
    // SAFETY: the caller's promise.
    match unsafe { vector(parts, count) } {
        // SAFETY: the caller's promise.
        Some(parts) => unsafe { send_parts(number, parts, flags, real) },
        None => refused(number, real),
    }
}

/// Descriptors that go to another process are TCP from here on: who will hold them is not known.
///
/// # Safety
/// A message of the program's.
unsafe fn gives_away(message: *const libc::msghdr) {
    // SAFETY: the caller's promise, here and below.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: a header of the message.
        let (level, kind, length) = unsafe {
            (
                (*header).cmsg_level,
                (*header).cmsg_type,
                (*header).cmsg_len,
            )
        };
        if level == libc::SOL_SOCKET && kind == libc::SCM_RIGHTS {
            // SAFETY: behind a header.
            let data = unsafe { libc::CMSG_DATA(header) }.cast::<c_int>();
            let head = data.addr() - header.addr();
            for at in 0..length.saturating_sub(head) / size_of::<c_int>() {
                // SAFETY: the message's length was looked at.
                let given = unsafe { data.add(at).read_unaligned() };
                only_by_kernel_for(given, Cause::GivenAway);
            }
        }
        // SAFETY: as above.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
}

/// What so many messages have come to: an error of a later one is told by the next call.
fn counted(done: c_uint) -> c_int {
    match done {
        0 => -1,
        done => c_int::try_from(done).unwrap_or(c_int::MAX),
    }
}

/// Bytes of a message's parts.
///
/// # Safety
/// A message of the program's, whose parts the kernel has read.
unsafe fn message_length(message: *const libc::msghdr) -> usize {
    // SAFETY: the caller's promise.
    let (parts, count) = unsafe { ((*message).msg_iov, (*message).msg_iovlen) };
    let lengths = (0..count).map(|at| {
        // SAFETY: the caller's promise.
        unsafe { (*parts.add(at)).iov_len }
    });
    lengths.fold(0, usize::saturating_add)
}

/// sendmmsg(2): to a stream, message by message, as the kernel does.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmmsg(
    number: c_int,
    messages: *mut libc::mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    let count = count.min(MOST_PARTS as c_uint);
    let bytes = count as usize * size_of::<libc::mmsghdr>();
    let is_good = Process::there().is_some() && Process::can_read(messages.cast(), bytes);
    if is_good && stream(number).is_some() {
        for at in 0..count {
            // SAFETY: the caller's promise.
            let message = unsafe { messages.add(at as usize) };
            // SAFETY: as above.
            let sent = unsafe { sendmsg(number, &raw const (*message).msg_hdr, flags) };
            let Ok(sent) = usize::try_from(sent) else {
                return counted(at);
            };
            // SAFETY: as above.
            unsafe { (*message).msg_len = sent as c_uint };
            // SAFETY: as above; it was sent.
            if sent < unsafe { message_length(&raw const (*message).msg_hdr) } {
                return counted(at + 1);
            }
        }
        return c_int::try_from(count).unwrap_or(c_int::MAX);
    }
    if is_good {
        for at in 0..count as usize {
            // SAFETY: the caller's promise.
            unsafe { gives_away(&raw const (*messages.add(at)).msg_hdr) };
        }
    } else {
        only_by_kernel(number);
    }
    real::call!(-1, fn sendmmsg(
        number => c_int, messages => *mut libc::mmsghdr, count => c_uint, flags => c_int
    ) -> c_int)
}

/// recvmmsg(2): from a stream, message by message, as the kernel does.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmmsg(
    number: c_int,
    messages: *mut libc::mmsghdr,
    count: c_uint,
    flags: c_int,
    time: *mut libc::timespec,
) -> c_int {
    let count = count.min(MOST_PARTS as c_uint);
    let bytes = count as usize * size_of::<libc::mmsghdr>();
    let is_good = |at: *const c_void, bytes| at.is_null() || Process::can_read(at, bytes);
    let is_stream = stream(number).is_some();
    if !is_stream
        || !Process::can_read(messages.cast(), bytes)
        || !is_good(time.cast(), size_of::<libc::timespec>())
    {
        if is_stream {
            only_by_kernel(number);
        }
        return real::call!(-1, fn recvmmsg(
            number => c_int, messages => *mut libc::mmsghdr, count => c_uint, flags => c_int,
            time => *mut libc::timespec
        ) -> c_int);
    }
    // SAFETY: the caller's promise.
    let limit = match unsafe { time.as_ref() } {
        None => None,
        Some(time) => match (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec)) {
            (Ok(seconds), Ok(nanos)) if nanos < 1_000_000_000 => {
                Some(Duration::new(seconds, nanos))
            }
            _ => {
                set_errno(libc::EINVAL);
                return -1;
            }
        },
    };
    let begun = Instant::now();
    let mut now = flags & !libc::MSG_WAITFORONE;
    let mut done = 0;
    while done < count {
        // SAFETY: the caller's promise.
        let message = unsafe { messages.add(done as usize) };
        // SAFETY: as above.
        let received = unsafe { recvmsg(number, &raw mut (*message).msg_hdr, now) };
        if received < 0 {
            // as the kernel does, which gives what it has and tells an error afterwards
            if let Some(process) = stream(number).filter(|_| done > 0) {
                let errno = errno();
                quietly((), || process.tell_again(number, errno));
            }
            break;
        }
        // SAFETY: as above.
        unsafe { (*message).msg_len = received as c_uint };
        done += 1;
        if flags & libc::MSG_WAITFORONE != 0 {
            now |= libc::MSG_DONTWAIT;
        }
        // looked at behind each message only, as the kernel does
        if limit.is_some_and(|limit| begun.elapsed() >= limit) {
            break;
        }
    }
    if let Some(limit) = limit
        && done > 0
    {
        let left = limit.saturating_sub(begun.elapsed());
        // SAFETY: it was read above.
        unsafe {
            (*time).tv_sec = left.as_secs().cast_signed();
            (*time).tv_nsec = i64::from(left.subsec_nanos());
        }
    }
    if count == 0 { 0 } else { counted(done) }
}
