//! The state that calls on queues look at: whether the device works, who polls, who rests.
//!
//! Owns nothing else of the process: objects, queue pairs and the loop share them. Must not know
//! what any of those do.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ferriband_memory::wait::EventFd;

use crate::base::error::Error;
use crate::base::fork;
use crate::process::polls::{POLLS, Polls, Rests};

/// No epoch: those of forks have 32 bits.
const NEVER: u64 = u64::MAX;

/// Whether the device works.
#[derive(Debug)]
pub(crate) struct Life {
    /// The epoch while the device works; [`NEVER`] once it has failed.
    alive_in: AtomicU64,
    /// The epoch in which the process has joined the host.
    epoch: u64,
}

impl Life {
    fn new() -> Self {
        Life {
            alive_in: AtomicU64::new(fork::epoch()),
            epoch: fork::epoch(),
        }
    }

    /// Err in a forked child, and after the device failed. Every call on a queue asks this: one
    /// comparison.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.alive_in.load(Ordering::Relaxed) != fork::epoch() {
            return self.why_not();
        }
        Ok(())
    }

    #[cold]
    fn why_not(&self) -> Result<(), Error> {
        self.check_epoch()?;
        Err(Error::Gone("an internal error made it fatal"))
    }

    /// True in the process that has joined the host, false in a forked child.
    #[inline]
    pub(crate) fn is_own(&self) -> bool {
        self.epoch == fork::epoch()
    }

    /// Err in a forked child.
    #[inline]
    pub(crate) fn check_epoch(&self) -> Result<(), Error> {
        if !self.is_own() {
            return Err(Error::Gone(
                "it was opened before a fork, by the parent process",
            ));
        }
        Ok(())
    }

    /// Ends the device: every later verb fails.
    #[cold]
    pub(crate) fn fail(&self) {
        self.alive_in.store(NEVER, Ordering::Release);
    }
}

thread_local! {
    /// This thread sleeps, or is about to.
    static RESTING: Cell<bool> = const { Cell::new(false) };
}

/// This thread is about to sleep in the library, or has woken up.
pub(crate) fn set_resting(rests: bool) {
    // a thread that ends, in a destructor of the program, has no word any more
    let _ = RESTING.try_with(|resting| resting.set(rests));
}

/// What a process's objects and its loop look at together.
#[derive(Debug)]
pub struct Status {
    pub(crate) life: Life,
    pub(crate) polls: Polls,
    pub(crate) rests: Rests,
    /// That of [`Process`](super::process::Process).
    bell: Arc<EventFd>,
}

impl Status {
    pub(crate) fn new(bell: Arc<EventFd>) -> Arc<Self> {
        Arc::new(Status {
            life: Life::new(),
            polls: Polls::default(),
            rests: Rests::default(),
            bell,
        })
    }

    /// A completion was queued: if a thread of the program sleeps for it, that one is to look.
    #[inline]
    pub(crate) fn wake_resting(&self) {
        if self.rests.kind.load(Ordering::Relaxed) == POLLS && !RESTING.get() {
            self.bell.signal(1);
        }
    }

    /// A program took a completion that was queued: its polls are not in vain.
    #[inline]
    pub(crate) fn found(&self) {
        self.polls.empty.store(0, Ordering::Relaxed);
    }
}
