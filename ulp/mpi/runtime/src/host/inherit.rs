//! What a rank has from its launcher, and what it lets the others do.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Takes an inherited descriptor, which no child of this process gets.
pub fn take(fd: RawFd) -> io::Result<OwnedFd> {
    close_on_exec(fd);
    // SAFETY: a query; it says whether there is such a descriptor at all.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the launcher has given it to this process, and nobody else here knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// No child of this process gets `fd`.
pub fn close_on_exec(fd: RawFd) {
    // SAFETY: a flag of a descriptor; where there is none, the call fails and whoever uses it will.
    unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
}

/// Where the kernel lets only ancestors read a process's memory, the other ranks are let, too. It may know no such restriction.
pub fn let_ranks_read() {
    // SAFETY: the call takes no memory.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY) };
}
