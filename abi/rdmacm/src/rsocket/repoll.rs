//! `repoll_create`, `repoll_ctl`, `repoll_wait`: epoll(7) over sockets of ours and descriptors of the system together.
//!
//! Entry points only: they say what epoll_create1(2), epoll_ctl(2) and epoll_wait(2) say, with -1 and errno, and hand over to [`super::set`].

use super::set::{Out, Set, Sleeper};
use super::table;
use crate::boundary::{Errno, entry, errno, status, waiting_entry};
use libc::{c_int, c_long, epoll_event};
use std::time::Duration;

/// As many events as epoll_wait(2) is asked for at a time.
const MOST_EVENTS: usize = c_int::MAX as usize / size_of::<epoll_event>();

/// Closes a set; EBADF or EINVAL if it is none.
pub fn close(fd: c_int) -> Result<(), Errno> {
    let set = table::find_set(fd)?;
    table::remove(fd);
    set.close();
    Ok(())
}

/// `rfcntl` of a set: F_GETFD, F_SETFD, F_GETFL, F_SETFL of its descriptor.
pub fn control(fd: c_int, command: c_int, argument: c_long) -> Result<c_int, Errno> {
    let is_known = matches!(
        command,
        libc::F_GETFD | libc::F_SETFD | libc::F_GETFL | libc::F_SETFL
    );
    if !is_known {
        return Err(libc::ENOTSUP);
    }
    // SAFETY: numbers only, for a descriptor of ours.
    match unsafe { libc::fcntl(fd, command, argument) } {
        result if result < 0 => Err(errno()),
        result => Ok(result),
    }
}

/// `repoll_create`: as epoll_create1(2). The number is that of a real descriptor, and `rclose` closes it.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn repoll_create(flags: c_int) -> c_int {
    entry(|| {
        if flags & !libc::EPOLL_CLOEXEC != 0 {
            return Err(libc::EINVAL);
        }
        let (number, set) = Set::new(flags)?;
        table::insert_set(number, &set);
        Ok(number)
    })
}

/// # Safety
/// As for [`repoll_ctl`].
unsafe fn control_entry(
    epfd: c_int,
    what: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> Result<(), Errno> {
    let is_removal = what == libc::EPOLL_CTL_DEL;
    if event.is_null() && !is_removal {
        return Err(libc::EFAULT);
    }
    let set = match table::find_set(epfd) {
        Err(libc::EBADF) => return Err(libc::EBADF),
        other => other,
    };
    let socket = match table::find(fd) {
        Ok(socket) => socket,
        // In a forked child; it is nobody's descriptor to be waited for.
        Err(libc::EIO) => return Err(libc::EIO),
        // SAFETY: numbers only.
        Err(_) if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 => return Err(libc::EBADF),
        Err(_) if fd == epfd => return Err(libc::EINVAL),
        Err(_) => {
            let set = set?;
            table::expose_set(fd);
            // SAFETY: the caller's promise.
            return unsafe { set.control_system(what, fd, event) };
        }
    };
    let set = set?;
    match what {
        libc::EPOLL_CTL_DEL => set.remove(fd, &socket),
        // SAFETY: the caller's promise, and it is not NULL.
        libc::EPOLL_CTL_ADD => set.add(fd, socket, unsafe { event.read_unaligned() }),
        // SAFETY: as above.
        libc::EPOLL_CTL_MOD => set.modify(fd, &socket, unsafe { event.read_unaligned() }),
        _ => Err(libc::EINVAL),
    }
}

/// `repoll_ctl`: as epoll_ctl(2). EPOLLEXCLUSIVE of a socket wakes all sets that it is in.
///
/// # Safety
/// `event` is NULL or an event.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn repoll_ctl(
    epfd: c_int,
    what: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe { control_entry(epfd, what, fd, event) })
}

/// `repoll_wait`: as epoll_wait(2). EBADF for a thread that sleeps while the set is closed.
///
/// # Safety
/// `events` has room for `most`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn repoll_wait(
    epfd: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
) -> c_int {
    waiting_entry(|sleep| {
        let timeout = u64::try_from(timeout).ok().map(Duration::from_millis);
        let until = sleep.deadline(timeout);
        let most = usize::try_from(most).map_err(|_| libc::EINVAL)?;
        if !(1..=MOST_EVENTS).contains(&most) {
            return Err(libc::EINVAL);
        }
        if events.is_null() {
            return Err(libc::EFAULT);
        }
        let slept = sleep.take_kept::<Sleeper>();
        let set = match &slept {
            Some(slept) => slept.0.clone(),
            None => table::find_set(epfd)?,
        };
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(events, most) };
        Ok(set
            .wait(sleep, slept, out, until)?
            .map(|count| count as c_int))
    })
}
