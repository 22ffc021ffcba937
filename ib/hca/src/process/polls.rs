//! Who looks for what comes: a polling program, a thread of it that sleeps in the library, or the
//! progress thread.
//!
//! Owns the words by which they know of each other. Must not know what comes.

use std::sync::atomic::{AtomicBool, AtomicU32};

/// Nobody sleeps here.
pub(crate) const NOBODY: u32 = 0;
/// A thread that polls does.
pub(crate) const POLLS: u32 = 1;
/// A thread that waits for an event does.
pub(crate) const WAITS: u32 = 2;

/// A program that polls.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Polls {
    /// Somebody polls: the progress thread only looks on.
    pub(crate) polling: AtomicBool,
    pub(crate) count: AtomicU32,
    pub(crate) idle: AtomicU32,
    /// Polls in a row that found nothing, how many of them spin, and after how many the next
    /// yields.
    pub(crate) empty: AtomicU32,
    pub(crate) spin_limit: AtomicU32,
    pub(crate) yield_after: AtomicU32,
    /// Sleeps left before it is looked again whether the machine is crowded; 0 while it is not
    /// known to be.
    pub(crate) naps: AtomicU32,
    /// Completion queues.
    pub(crate) queues: AtomicU32,
}

/// A thread of the program that sleeps in the library.
#[derive(Debug)]
pub(crate) struct Rests {
    /// Which kind of thread.
    pub(crate) kind: AtomicU32,
    /// The program waits for events inside the library, and has come back for the next until
    /// lately.
    pub(crate) inside: AtomicBool,
    /// The progress thread handles packets for all who wait for events, whose number is more than
    /// one at times.
    pub(crate) by_thread: AtomicBool,
    /// The progress thread looks at each tick who polls or rests.
    pub(crate) ticks: AtomicBool,
}

impl Default for Rests {
    fn default() -> Self {
        Rests {
            kind: AtomicU32::new(NOBODY),
            inside: AtomicBool::new(false),
            by_thread: AtomicBool::new(false),
            ticks: AtomicBool::new(true),
        }
    }
}
