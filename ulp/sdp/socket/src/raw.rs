//! System calls that rustix has no function for, by the instruction: the C library's functions may
//! be others' here, `syscall` too.
//!
//! Owns: the instruction, and byte range locks that belong to an open file description. Must not
//! know: what a lock stands for.

use rustix::io::Errno;
use std::arch::asm;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The system call `number`.
///
/// # Errors
/// What the kernel answers.
///
/// # Safety
/// As for the call.
pub(crate) unsafe fn system_call(
    number: libc::c_long,
    arguments: [isize; 6],
) -> Result<isize, Errno> {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    let result: isize;
    // SAFETY: the caller's promise; the kernel keeps all registers but these.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            in("r8") fifth,
            in("r9") sixth,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    if (-4095..0).contains(&result) {
        return Err(Errno::from_raw_os_error(-(result as i32)));
    }
    Ok(result)
}

/// Takes byte `at` of a file for this open file description.
///
/// # Errors
/// AGAIN if somebody else has it; as fcntl(2).
pub(crate) fn lock_byte(file: BorrowedFd<'_>, at: u32) -> Result<(), Errno> {
    byte_lock(file, libc::F_OFD_SETLK, at).map(drop)
}

/// Whether somebody but this open file description has byte `at` of a file.
///
/// # Errors
/// As fcntl(2).
pub(crate) fn byte_is_locked(file: BorrowedFd<'_>, at: u32) -> Result<bool, Errno> {
    Ok(byte_lock(file, libc::F_OFD_GETLK, at)? != libc::F_UNLCK as libc::c_short)
}

/// A command on one byte, for writing. Gives the lock's kind as the kernel leaves it.
pub(crate) fn byte_lock(
    file: BorrowedFd<'_>,
    command: libc::c_int,
    at: u32,
) -> Result<libc::c_short, Errno> {
    // SAFETY: of this structure zeros are a value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = i64::from(at);
    lock.l_len = 1;
    let arguments = [
        file.as_raw_fd() as isize,
        command as isize,
        (&raw mut lock) as isize,
        0,
        0,
        0,
    ];
    // SAFETY: the kernel reads and writes this structure alone.
    unsafe { system_call(libc::SYS_fcntl, arguments) }?;
    Ok(lock.l_type)
}
