//! Calls of the system that must reach the kernel itself.
//!
//! A preload of sockets has the C library's names: `epoll_create1` of rdma-core's librspreload calls `repoll_create`, which would call it again.
//! Through `syscall` nobody comes between, and a thread is not cancelled.

use crate::boundary::{Errno, errno};
use libc::{c_int, c_long, epoll_event, pollfd};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A system call's result: -1 is errno.
fn result(value: c_long) -> Result<c_long, Errno> {
    if value < 0 { Err(errno()) } else { Ok(value) }
}

/// `epoll_create1`.
pub fn epoll_create(flags: c_int) -> Result<OwnedFd, Errno> {
    // SAFETY: numbers only.
    let fd = result(unsafe { libc::syscall(libc::SYS_epoll_create1, flags) })?;
    let fd = RawFd::try_from(fd).map_err(|_| libc::EIO)?;
    // SAFETY: just opened, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `epoll_ctl`.
///
/// # Safety
/// `event` is NULL or an event.
pub unsafe fn epoll_ctl(
    epoll: RawFd,
    what: c_int,
    fd: RawFd,
    event: *mut epoll_event,
) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    result(unsafe { libc::syscall(libc::SYS_epoll_ctl, epoll, what, fd, event) }).map(|_| ())
}

/// `epoll_ctl` that adds or changes.
pub fn epoll_set(
    epoll: &OwnedFd,
    what: c_int,
    fd: RawFd,
    data: u64,
    events: c_int,
) -> Result<(), Errno> {
    let mut event = epoll_event {
        events: events.cast_unsigned(),
        u64: data,
    };
    // SAFETY: the event lives during the call.
    unsafe { epoll_ctl(epoll.as_raw_fd(), what, fd, &raw mut event) }
}

/// `epoll_wait`: how many events there are.
///
/// # Safety
/// `events` has room for `most`.
pub unsafe fn epoll_wait(
    epoll: RawFd,
    events: *mut epoll_event,
    most: c_int,
    timeout_ms: c_int,
) -> Result<usize, Errno> {
    let mask: *const libc::sigset_t = std::ptr::null();
    // SAFETY: the caller's promise; no mask of signals, whose length is that of the kernel's.
    let count = result(unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait,
            epoll,
            events,
            most,
            timeout_ms,
            mask,
            size_of::<u64>(),
        )
    })?;
    usize::try_from(count).map_err(|_| libc::EIO)
}

/// `poll` that does not wait: how many are ready.
pub fn poll_now(fds: &mut [pollfd]) -> Result<usize, Errno> {
    let now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    ppoll(fds, Some(now))
}

/// `ppoll`: how many are ready.
pub fn ppoll(fds: &mut [pollfd], mut timeout: Option<libc::timespec>) -> Result<usize, Errno> {
    let (first, count) = (fds.as_mut_ptr(), fds.len() as libc::nfds_t);
    let timeout = timeout
        .as_mut()
        .map_or(std::ptr::null_mut(), std::ptr::from_mut);
    let mask: *const libc::sigset_t = std::ptr::null();
    // SAFETY: descriptions with their count; the time, of which the kernel leaves what is left,
    // lives during the call.
    let count = unsafe { libc::syscall(libc::SYS_ppoll, first, count, timeout, mask, 0usize) };
    usize::try_from(result(count)?).map_err(|_| libc::EIO)
}

/// `dup3`: `fd` under a number that another descriptor of ours has.
pub fn dup3(fd: RawFd, number: RawFd, flags: c_int) -> Result<(), Errno> {
    // SAFETY: numbers only; the caller owns both descriptors.
    result(unsafe { libc::syscall(libc::SYS_dup3, fd, number, flags) }).map(|_| ())
}
