//! Calls that move bytes.

use crate::cancel::{_pthread_cleanup_pop, _pthread_cleanup_push, pause, pthread_testcancel};
use crate::{only_by_kernel, only_by_kernel_for, quietly, real, set_errno, stream};
use ferriband_sdp_socket::process::{Begun, Cause, Process, Ticket};
use std::ffi::{c_int, c_uint, c_void};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

type Size = libc::size_t;
type Answer = libc::ssize_t;

/// Messages of more parts than this are none to the kernel (UIO_MAXIOV).
const MOST_PARTS: usize = 1024;

/// Ends what was begun.
#[inline]
pub(crate) fn end(begun: Begun, real: impl FnOnce() -> Answer) -> Answer {
    match begun {
        Begun::Plain => real(),
        Begun::Kernel(ticket) => {
            let answer = inside(ticket, real);
            match quietly(None, || ticket.end(answer)) {
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
fn receives_by_kernel(number: c_int, flags: c_int) -> bool {
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
unsafe fn send_parts(
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
unsafe fn receives(
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
fn refused(number: c_int, real: impl FnOnce() -> Answer) -> Answer {
    only_by_kernel(number);
    real()
}

/// The parts of a vector; None if the kernel would refuse it, or says better what is wrong.
///
/// # Safety
/// There are so many.
unsafe fn vector<'a>(parts: *const libc::iovec, count: usize) -> Option<&'a [libc::iovec]> {
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
unsafe fn vector_mut<'a>(parts: *const libc::iovec, count: usize) -> Option<&'a mut [libc::iovec]> {
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
    let real = || {
        real::call!(-1, fn sendto(
            number => c_int, from => *const c_void, length => Size, flags => c_int,
            address => *const libc::sockaddr, address_length => libc::socklen_t
        ) -> Answer)
    };
    // SAFETY: the caller's promise.
    unsafe { send_parts(number, &[part(from, length)], flags, real) }
}

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

macro_rules! with_flags {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            number: c_int,
            parts: *const libc::iovec,
            count: c_int,
            at: libc::off_t,
            flags: c_int,
        ) -> Answer {
            if !receives_by_kernel(number, 0) {
                return -1;
            }
            real::call!(-1, fn $name(
                number => c_int, parts => *const libc::iovec, count => c_int, at => libc::off_t,
                flags => c_int
            ) -> Answer)
        }
    )*};
}

with_flags! {
    /// preadv2(2): a stream of which it is used is the kernel's.
    preadv2;
    /// preadv64v2(3).
    preadv64v2;
    /// pwritev2(2).
    pwritev2;
    /// pwritev64v2(3).
    pwritev64v2;
}

/// Bytes that one step of [`copy_file`] moves.
const STEP: usize = 16 << 10;

/// sendfile(2) to a stream that the ring carries. None: the kernel is to do it.
fn copy_file(to: c_int, from: c_int, offset: *mut libc::off_t, count: Size) -> Option<Answer> {
    let process = stream(to)?;
    match process.send_by_kernel(to) {
        None => {}
        Some(Begun::Kernel(ticket)) => {
            ticket.end(-1);
            return None;
        }
        Some(Begun::Failed(errno)) => {
            set_errno(errno);
            return Some(-1);
        }
        Some(_) => return None,
    }
    let begin = match offset.is_null() {
        // SAFETY: asks where the file's position is.
        true => unsafe { libc::lseek(from, 0, libc::SEEK_CUR) },
        // SAFETY: the caller's promise.
        false => unsafe { *offset },
    };
    if begin < 0 {
        process.only_by_kernel(to);
        return None;
    }
    let mut buffer = [0_u8; STEP];
    let mut done = 0;
    let mut answer = None;
    while done < count && answer.is_none() {
        let at = begin + done as libc::off_t;
        let step = (count - done).min(STEP);
        // SAFETY: room for so many bytes.
        let got = unsafe { libc::pread(from, buffer.as_mut_ptr().cast(), step, at) };
        let Ok(got) = usize::try_from(got) else {
            answer = Some(-1);
            break;
        };
        if got == 0 {
            break;
        }
        // SAFETY: this very buffer; by the function above, which sends as the socket is set.
        let sent = unsafe { write(to, buffer.as_ptr().cast(), got) };
        match usize::try_from(sent) {
            Ok(sent) => {
                done += sent;
                if sent < got {
                    break;
                }
            }
            Err(_) => answer = Some(-1),
        }
    }
    let end = begin + done as libc::off_t;
    match offset.is_null() {
        // SAFETY: the file's position, as the kernel would leave it.
        true => drop(unsafe { libc::lseek(from, end, libc::SEEK_SET) }),
        // SAFETY: the caller's promise.
        false => unsafe { *offset = end },
    }
    Some(match done {
        0 => answer.unwrap_or(0),
        done => done.cast_signed(),
    })
}

macro_rules! sends_files {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            to: c_int,
            from: c_int,
            offset: *mut libc::off_t,
            count: Size,
        ) -> Answer {
            let real = || {
                real::call!(-1, fn $name(to => c_int, from => c_int, offset => *mut libc::off_t, count => Size) -> Answer)
            };
            only_by_kernel(from);
            if stream(to).is_none() {
                return real();
            }
            if let Some(answer) = copy_file(to, from, offset, count) {
                return answer;
            }
            let begun = stream(to).and_then(|process| process.send_by_kernel(to));
            end(begun.unwrap_or(Begun::Plain), real)
        }
    )*};
}

sends_files! {
    /// sendfile(2).
    sendfile;
    /// sendfile(2), by its name for large files.
    sendfile64;
}

macro_rules! of_block {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(block: *mut libc::aiocb) -> c_int {
            // SAFETY: the caller's promise.
            if !block.is_null() && !receives_by_kernel(unsafe { (*block).aio_fildes }, 0) {
                return -1;
            }
            real::call!(-1, fn $name(block => *mut libc::aiocb) -> c_int)
        }
    )*};
}

of_block! {
    /// aio_read(3): the C library reads by itself.
    aio_read;
    /// aio_read(3), by its name for large files.
    aio_read64;
    /// aio_write(3).
    aio_write;
    /// aio_write(3), by its name for large files.
    aio_write64;
}
