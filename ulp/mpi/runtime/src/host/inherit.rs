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

/// Whether there is a descriptor `fd` of a file whose name begins so.
pub fn is_file(fd: RawFd, name: &str) -> bool {
    name_of(fd).is_some_and(|found| found.starts_with(name))
}

/// What the kernel calls the file behind a descriptor; none if there is no such descriptor.
pub fn name_of(fd: RawFd) -> Option<String> {
    let path = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    Some(path.to_string_lossy().into_owned())
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

/// Waits until one of `fds` can be read, or is at its end, for `timeout_ms` at most. Whether that is so.
pub fn wait_readable(fds: &[RawFd], timeout_ms: i32) -> bool {
    let nobody = libc::pollfd {
        fd: -1,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut polls = [nobody; 4];
    for (poll, fd) in polls.iter_mut().zip(fds) {
        poll.fd = *fd;
    }
    // SAFETY: a local array of that length.
    unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, timeout_ms) > 0 }
}

/// Nanoseconds by a clock of the kernel's.
pub fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a local variable.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
