//! What wakes the ranks of this host: an eventfd for each.
//!
//! Owns: the ranks' descriptors, and the steps by which a rank falls asleep and is woken. Must not
//! know: what a rank waits for.
//!
//! A sender stores a record and then looks whether the receiver sleeps; the receiver says that it
//! sleeps and then looks for records. Both pass a full fence between the two steps.

use ferriband_host::wake;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// The eventfds of all ranks of the host.
pub struct Bells {
    fds: Vec<libc::c_int>,
}

impl Bells {
    /// Takes the descriptors, in the order of ranks.
    pub fn new(fds: Vec<libc::c_int>) -> Self {
        Self { fds }
    }

    /// Rings for `rank`, whose word said that it sleeps; one of several who see that does it.
    #[cold]
    pub(super) fn wake(&self, rank: u32, asleep: &AtomicU32) {
        if asleep
            .compare_exchange(1, 2, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
            && let Some(event) = self.event(rank)
        {
            wake::signal(event);
        }
    }

    /// The eventfd of `rank` as a number, or -1.
    pub(super) fn of(&self, rank: u32) -> libc::c_int {
        self.fds.get(rank as usize).copied().unwrap_or(-1)
    }

    /// Takes what has been rung for `rank`. The descriptors do not block.
    pub(super) fn quiet(&self, rank: u32) {
        if let Some(event) = self.event(rank) {
            wake::take(event);
        }
    }

    /// The eventfd of `rank`.
    fn event(&self, rank: u32) -> Option<BorrowedFd<'_>> {
        let fd = self.of(rank);
        // SAFETY: the descriptors are kept open until the process ends.
        (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
    }
}

/// Waits until a bell has rung, or one of `others` can be read, `timeout_ms` at most (-1: without
/// end).
pub fn listen(bell: libc::c_int, others: &[libc::c_int], timeout_ms: libc::c_int) {
    let poll = |fd: &libc::c_int| libc::pollfd {
        fd: *fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut polls: Vec<libc::pollfd> = [&bell].into_iter().chain(others).map(poll).collect();
    // SAFETY: an array of that length. An interruption is a wake-up like any other.
    unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, timeout_ms) };
}
