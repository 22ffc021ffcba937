//! Calls that are made for files, to which a stream may be given.

use crate::moving::{Answer, Size, end, receives_by_kernel, write};
use crate::{only_by_kernel, real, set_errno, stream};
use ferriband_sdp_socket::process::Begun;
use std::ffi::c_int;

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

/// Bytes that one step of [`copy_file`] moves, of a long file and of one that is no longer. They
/// lie on the stack of a thread that may have little of it.
const LONG: usize = 16 << 10;
const SHORT: usize = 4 << 10;

/// sendfile(2) to a stream that the ring carries, by so many bytes at a time. None: the kernel is
/// to do it.
#[inline(never)]
fn copy_file<const STEP: usize>(
    to: c_int,
    from: c_int,
    offset: *mut libc::off_t,
    count: Size,
) -> Option<Answer> {
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
            let copy = if count > SHORT { copy_file::<LONG> } else { copy_file::<SHORT> };
            if let Some(answer) = copy(to, from, offset, count) {
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
