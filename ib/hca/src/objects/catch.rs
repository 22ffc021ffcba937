//! A completion on its way to the program that polls just now.
//!
//! Owns that order is kept. Must not know what a queue of completions looks like.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ferriband_transport::types::Completion;

/// No event is asked for.
pub(crate) const DISARMED: u32 = 0;

/// What a completion queue shows to those who complete.
#[derive(Debug)]
pub(crate) struct Shown {
    /// Completions that lie in it.
    pub(crate) count: AtomicU32,
    /// Which event is asked for.
    pub(crate) armed: AtomicU32,
    pub(crate) overrun: AtomicBool,
    /// It has a channel for events.
    pub(crate) has_channel: bool,
    /// Its completions have times.
    pub(crate) stamps: bool,
}

/// A completion on its way to a program that polls just now: the first of an empty queue need not
/// pass through it. Order is kept: who offers holds what orders completions of its queue pair, and
/// nothing earlier is queued.
#[derive(Debug, Default)]
pub(crate) struct Catch<'a> {
    /// The queue that is polled.
    polled: Option<&'a Shown>,
    pub(in crate::objects) caught: Option<Completion>,
    /// A program looks itself.
    polls: bool,
}

impl<'a> Catch<'a> {
    /// Nobody polls: everything is queued.
    #[inline]
    pub(crate) fn nobody() -> Self {
        Catch::default()
    }

    /// A program looks that waits for an event: everything is queued, and it comes back.
    #[inline]
    pub(crate) fn for_wait() -> Self {
        Catch {
            polls: true,
            ..Catch::default()
        }
    }

    /// A program polls this queue.
    #[inline]
    pub(in crate::objects) fn for_poll_of(queue: &'a Shown) -> Self {
        Catch {
            polled: Some(queue),
            caught: None,
            polls: true,
        }
    }

    /// True if a program looks: it comes back.
    #[inline]
    pub(crate) fn somebody_polls(&self) -> bool {
        self.polls
    }

    /// True if another thread has queued a completion for the program that polls.
    #[inline]
    pub(crate) fn has_queued(&self) -> bool {
        self.polled
            .is_some_and(|queue| queue.count.load(Ordering::Acquire) > 0)
    }

    /// Hands the completion to the polling program if it is for it and the next; else it has to be
    /// queued.
    #[inline]
    pub(in crate::objects) fn takes(&mut self, queue: &Shown, completion: &Completion) -> bool {
        let next = self.caught.is_none()
            && self
                .polled
                .is_some_and(|polled| std::ptr::eq(polled, queue))
            // a time of arrival and an event are the queue's to give
            && !queue.stamps
            && queue.count.load(Ordering::Acquire) == 0
            && !queue.overrun.load(Ordering::Relaxed)
            && (!queue.has_channel || queue.armed.load(Ordering::Acquire) == DISARMED);
        if next {
            self.caught = Some(*completion);
        }
        next
    }
}
