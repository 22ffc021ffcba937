//! Shared memory and the limit on the size of files.
//!
//! Linux takes a memfd for a file, so `RLIMIT_FSIZE` (a shell's `ulimit -f`) holds for it: whoever makes one longer than that is killed by SIGXFSZ. The limit is meant for
//! what fills a disk. It is lifted for the moment in which the length is set, as far as this process may; bytes of a memfd are stored to its mapping, never written.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Makes the file as long as is said, whatever the limit on files is.
///
/// # Errors
/// EFBIG if the limit cannot be lifted so far: the hard limit is lower, and this process may not raise it. What ftruncate answers.
pub fn set_length(file: BorrowedFd<'_>, length: u64) -> io::Result<()> {
    let signed = i64::try_from(length).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    let before = limit()?;
    let is_lifted = length > before.rlim_cur;
    if is_lifted {
        lift(&before, length)?;
    }
    // SAFETY: an open descriptor.
    let done = if unsafe { libc::ftruncate(file.as_raw_fd(), signed) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    };
    if is_lifted {
        // SAFETY: a local structure. To lower a limit needs no privilege.
        unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const before) };
    }
    done
}

fn limit() -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a local structure.
    if unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0 {
        Ok(limit)
    } else {
        Err(io::Error::last_os_error())
    }
}

fn lift(before: &libc::rlimit, length: u64) -> io::Result<()> {
    let wanted = libc::rlimit {
        rlim_cur: length,
        rlim_max: before.rlim_max.max(length),
    };
    // SAFETY: a local structure.
    if unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const wanted) } == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::EFBIG))
    }
}
