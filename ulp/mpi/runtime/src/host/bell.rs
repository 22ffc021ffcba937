//! Sleeping and waking: an eventfd for each rank of the host, and the barrier that spares senders their fence.
//!
//! A sender stores a record and then looks whether the receiver sleeps; the receiver says that it sleeps and then looks for records. Between
//! the two steps of each there must be a fence, or both may look too early. membarrier(2) lets the receiver, which is about to sleep anyway, pay for
//! both: it makes every registered process that runs just now pass a fence.

use std::sync::atomic::{AtomicU32, Ordering};

const REGISTER: libc::c_int = 1 << 2;
const BARRIER: libc::c_int = 1 << 1;

/// The eventfds of all ranks of the host.
pub struct Bells {
    fds: Vec<libc::c_int>,
    barrier: bool,
}

impl Bells {
    /// Takes the descriptors, in the order of ranks, and registers this process for the barrier.
    pub fn new(fds: Vec<libc::c_int>) -> Self {
        let barrier = membarrier(REGISTER);
        Self { fds, barrier }
    }

    /// Whether the barrier works here.
    pub fn has_barrier(&self) -> bool {
        self.barrier
    }

    /// Makes all registered processes pass a fence; at least this thread does.
    pub(super) fn barrier(&self) {
        std::sync::atomic::fence(Ordering::SeqCst);
        if self.barrier {
            membarrier(BARRIER);
        }
    }

    /// Rings for `rank`, whose word said that it sleeps; one of several who see that does it.
    #[cold]
    pub(super) fn wake(&self, rank: u32, asleep: &AtomicU32) {
        if asleep
            .compare_exchange(1, 2, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
            && let Some(fd) = self.fds.get(rank as usize)
        {
            let one = 1_u64;
            // SAFETY: a local word of eight bytes, as an eventfd takes.
            unsafe { libc::write(*fd, (&raw const one).cast(), 8) };
        }
    }

    /// What is rung for `rank`.
    pub(super) fn of(&self, rank: u32) -> libc::c_int {
        self.fds.get(rank as usize).copied().unwrap_or(-1)
    }

    /// Takes what has been rung for `rank`. The descriptors do not block.
    pub(super) fn quiet(&self, rank: u32) {
        if let Some(fd) = self.fds.get(rank as usize) {
            let mut count = 0_u64;
            // SAFETY: a local word of eight bytes.
            unsafe { libc::read(*fd, (&raw mut count).cast(), 8) };
        }
    }
}

/// Waits until a bell has rung, or one of `others` can be read, `timeout_ms` at most (-1: without end).
pub fn listen(bell: libc::c_int, others: &[libc::c_int], timeout_ms: libc::c_int) {
    let nobody = libc::pollfd {
        fd: -1,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut polls = [nobody; 4];
    for (poll, fd) in polls.iter_mut().zip([&bell].into_iter().chain(others)) {
        poll.fd = *fd;
    }
    // SAFETY: a local array of that length. An interruption is a wake-up like any other.
    unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, timeout_ms) };
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: the call takes no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}
