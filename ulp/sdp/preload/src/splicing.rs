//! splice(2) between a pipe and a stream that the ring carries: by copies.
//!
//! Must not know: where the bytes are. It looks ahead and throws away what it has given to the
//! pipe, so nothing is lost if the pipe takes less; of what is in a pipe it takes no more than the
//! stream has room for.

use crate::moving::{end, recv, send};
use crate::{errno, numbers, quietly, real, set_errno, stream, waiting};
use ferriband_sdp_socket::process::{Begun, Process};
use std::ffi::{c_int, c_uint};

type Size = libc::size_t;
type Answer = libc::ssize_t;

/// Bytes that one step moves.
const STEP: usize = 16 << 10;

fn failed(errno: c_int) -> Answer {
    set_errno(errno);
    -1
}

fn is_pipe(number: c_int) -> bool {
    // SAFETY: of this structure zeros are a value.
    let mut of: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: writes one structure.
    unsafe { libc::fstat(number, &raw mut of) == 0 && of.st_mode & libc::S_IFMT == libc::S_IFIFO }
}

/// Whether the program has set a descriptor so that its calls do not wait.
fn never_waits(number: c_int) -> bool {
    let set = numbers::fcntl(number, libc::F_GETFL, 0);
    set >= 0 && set & libc::O_NONBLOCK != 0
}

/// Waits for a descriptor. False: errno says why not.
fn wait(number: c_int, events: libc::c_short) -> bool {
    let mut asked = libc::pollfd {
        fd: number,
        events,
        revents: 0,
    };
    // SAFETY: one structure.
    unsafe { waiting::poll(&raw mut asked, 1, -1) >= 0 }
}

/// Whether a descriptor has this at once.
fn is_ready(number: c_int, events: libc::c_short) -> bool {
    let mut asked = libc::pollfd {
        fd: number,
        events,
        revents: 0,
    };
    // SAFETY: one structure.
    unsafe { waiting::poll(&raw mut asked, 1, 0) > 0 }
}

/// Gives bytes to a pipe, as many as it takes without waiting.
fn put(pipe: c_int, bytes: &[u8]) -> Answer {
    let mut done = 0;
    // a pipe that is writable takes so much at once
    for piece in bytes.chunks(libc::PIPE_BUF) {
        if !is_ready(pipe, libc::POLLOUT) {
            break;
        }
        let (from, length) = (piece.as_ptr().cast::<libc::c_void>(), piece.len());
        let put = real::call!(-1, fn write(
            pipe => c_int, from => *const libc::c_void, length => Size
        ) -> Answer);
        match usize::try_from(put) {
            Ok(put) => done += put,
            Err(_) if done == 0 => return -1,
            Err(_) => break,
        }
        if put.cast_unsigned() < length {
            break;
        }
    }
    match done {
        0 => failed(libc::EAGAIN),
        done => done.cast_signed(),
    }
}

/// Out of a stream into a pipe.
fn take_out(from: c_int, pipe: c_int, length: Size, waits: bool) -> Answer {
    let mut bytes = [0_u8; STEP];
    let mut done = 0;
    while done < length {
        let step = (length - done).min(STEP);
        let wait_flag = if waits && done == 0 {
            0
        } else {
            libc::MSG_DONTWAIT
        };
        let flags = libc::MSG_PEEK | wait_flag;
        // SAFETY: room for so many bytes.
        let seen = unsafe { recv(from, bytes.as_mut_ptr().cast(), step, flags) };
        let Some(seen) = usize::try_from(seen).ok().filter(|seen| *seen > 0) else {
            if done > 0 {
                if let Some(process) = stream(from).filter(|_| seen < 0) {
                    let errno = errno();
                    quietly((), || process.tell_again(from, errno));
                }
                return done.cast_signed();
            }
            return seen;
        };
        let given = put(pipe, &bytes[..seen]);
        let Ok(given) = usize::try_from(given) else {
            if done > 0 {
                return done.cast_signed();
            }
            if waits && errno() == libc::EAGAIN {
                if wait(pipe, libc::POLLOUT) {
                    continue;
                }
                return -1;
            }
            return given;
        };
        let mut left = given;
        while left > 0 {
            let flags = libc::MSG_TRUNC | libc::MSG_DONTWAIT;
            // SAFETY: nothing is written.
            let taken = unsafe { recv(from, std::ptr::null_mut(), left, flags) };
            match usize::try_from(taken) {
                Ok(taken @ 1..) => left -= taken.min(left),
                // another thread has taken them
                _ => break,
            }
        }
        done += given;
        if given < seen {
            break;
        }
    }
    done.cast_signed()
}

/// Out of a pipe into a stream whose ring has room. None: the kernel carries it by now.
fn put_in(
    process: &'static Process,
    pipe: c_int,
    to: c_int,
    length: Size,
    waits: bool,
) -> Option<Answer> {
    let mut bytes = [0_u8; STEP];
    let mut done = 0;
    while done < length {
        let over = |answer: Answer| Some(if done > 0 { done.cast_signed() } else { answer });
        let Some(room) = quietly(None, || process.room(to)) else {
            return if done > 0 { over(0) } else { None };
        };
        if !is_ready(to, libc::POLLOUT) {
            if done > 0 || !waits || never_waits(to) {
                return over(failed(libc::EAGAIN));
            }
            if !wait(to, libc::POLLOUT) {
                return over(-1);
            }
            continue;
        }
        if (done > 0 || !waits) && !is_ready(pipe, libc::POLLIN) {
            return over(failed(libc::EAGAIN));
        }
        let room = usize::try_from(room).unwrap_or(usize::MAX).max(1);
        let step = (length - done).min(STEP).min(room);
        let at = bytes.as_mut_ptr().cast::<libc::c_void>();
        let got = real::call!(-1, fn read(
            pipe => c_int, at => *mut libc::c_void, step => Size
        ) -> Answer);
        let Some(got) = usize::try_from(got).ok().filter(|got| *got > 0) else {
            return over(got);
        };
        let mut sent = 0;
        while sent < got {
            let rest = bytes[sent..got].as_ptr().cast();
            // SAFETY: this very buffer.
            let now = unsafe { send(to, rest, got - sent, libc::MSG_DONTWAIT) };
            match usize::try_from(now) {
                Ok(now) => sent += now,
                // another thread has taken the room: what the pipe has given must go
                Err(_) if errno() == libc::EAGAIN && wait(to, libc::POLLOUT) => {}
                Err(_) if done + sent > 0 => return Some((done + sent).cast_signed()),
                Err(_) => return Some(-1),
            }
        }
        done += got;
    }
    Some(done.cast_signed())
}

/// splice(2).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn splice(
    from: c_int,
    from_at: *mut libc::off64_t,
    to: c_int,
    to_at: *mut libc::off64_t,
    length: Size,
    flags: c_uint,
) -> Answer {
    let real = || {
        real::call!(-1, fn splice(
            from => c_int, from_at => *mut libc::off64_t, to => c_int, to_at => *mut libc::off64_t,
            length => Size, flags => c_uint
        ) -> Answer)
    };
    let waits = flags & libc::SPLICE_F_NONBLOCK == 0;
    // what the kernel refuses it refuses before it takes anything
    let is_sane = from_at.is_null() && to_at.is_null() && length > 0;
    if let Some(process) = stream(from) {
        if !is_sane || !is_pipe(to) {
            return real();
        }
        return match quietly(Some(Begun::Plain), || process.receive_by_kernel(from)) {
            Some(begun) => end(begun, real),
            None => take_out(from, to, length, waits),
        };
    }
    if let Some(process) = stream(to) {
        if !is_sane || !is_pipe(from) {
            return real();
        }
        loop {
            match quietly(Some(Begun::Plain), || process.send_by_kernel(to)) {
                Some(begun) => return end(begun, real),
                // if there is none, it has gone back to TCP meanwhile
                None => match put_in(process, from, to, length, waits) {
                    Some(answer) => return answer,
                    None => continue,
                },
            }
        }
    }
    real()
}
