//! Descriptors that a rank has inherited from its launcher, and waiting for what comes by them.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Takes an inherited descriptor, and keeps it from children of this process. An error if it is not
/// open.
pub fn take(fd: RawFd) -> io::Result<OwnedFd> {
    close_on_exec(fd);
    // SAFETY: a query; it says whether there is such a descriptor at all.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the launcher has given it to this process, and nobody else here knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Whether `fd` is open, and the kernel's name of its file begins with `name`.
pub fn is_file(fd: RawFd, name: &str) -> bool {
    name_of(fd).is_some_and(|found| found.starts_with(name))
}

/// What the kernel calls the file of a descriptor; none if the descriptor is not open.
pub fn name_of(fd: RawFd) -> Option<String> {
    let path = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    Some(path.to_string_lossy().into_owned())
}

/// Keeps `fd` from programs that this process executes.
pub fn close_on_exec(fd: RawFd) {
    // SAFETY: a flag of a descriptor. Where none is open, the call fails and changes nothing.
    unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
}

/// Waits until one of `fds`, of which there are four at most, can be read or is at its end, for
/// `timeout_ms` milliseconds at most. Whether one can.
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
