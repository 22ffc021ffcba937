//! Event channels: a descriptor that becomes readable, and the queue of what happened behind it.
//!
//! Owns the queue and its descriptor. Must not know what an event means.

use std::cell::Cell;
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Mutex;

use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::OwnedFd;

use crate::base::error::Error;
use crate::lock;

/// A queue of events behind a pollable descriptor that holds one count per event.
#[derive(Debug)]
pub struct EventQueue<T> {
    fd: OwnedFd,
    queue: Mutex<VecDeque<T>>,
}

thread_local! {
    /// The queue whose next event this thread takes itself: it need not be counted.
    static TAKES: Cell<*const ()> = const { Cell::new(std::ptr::null()) };
    /// An event was queued for it, and not counted.
    static UNCOUNTED: Cell<bool> = const { Cell::new(false) };
}

impl<T> EventQueue<T> {
    /// An empty queue.
    pub fn new() -> Result<Self, Error> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE)
            .map_err(|error| Error::system("eventfd of an event channel", error.raw_os_error()))?;
        Ok(EventQueue {
            fd,
            queue: Mutex::new(VecDeque::new()),
        })
    }

    /// The descriptor; non-blocking reads are the caller's matter (O_NONBLOCK may be set and cleared on it).
    pub fn fd(&self) -> RawFd {
        self.fd.as_fd().as_raw_fd()
    }

    /// Adds an event.
    pub fn push(&self, event: T) {
        lock(&self.queue).push_back(event);
        let taken = TAKES.with(|takes| std::ptr::eq(takes.get(), std::ptr::from_ref(self).cast()));
        if taken && !UNCOUNTED.replace(true) {
            return;
        }
        // a full counter cannot happen: one count per queued event
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Takes out the events that `wanted` names, in order; the descriptor's count follows.
    pub fn drain(&self, wanted: impl Fn(&T) -> bool) -> Vec<T> {
        let mut queue = lock(&self.queue);
        let (out, rest) = std::mem::take(&mut *queue)
            .into_iter()
            .partition::<VecDeque<T>, _>(|event| wanted(event));
        *queue = rest;
        drop(queue);
        for _ in 0..out.len() {
            // without waiting: a reader that took the count already looks for its entry, and goes on waiting
            let mut count = [0; 8];
            let slice = &mut [std::io::IoSliceMut::new(&mut count)];
            let _ = rustix::io::preadv2(
                &self.fd,
                slice,
                u64::MAX,
                rustix::io::ReadWriteFlags::NOWAIT,
            );
        }
        out.into()
    }

    /// Takes back the events that `gone` names; gives their number.
    pub fn retract(&self, gone: impl Fn(&T) -> bool) -> usize {
        self.drain(gone).len()
    }

    /// Takes the oldest event if `look`, in which others may be queued, queues one. That one's
    /// count is spared: to write it and to read it takes two system calls.
    pub fn take_from(&self, look: impl FnOnce()) -> Option<T> {
        TAKES.set(std::ptr::from_ref(self).cast());
        look();
        TAKES.set(std::ptr::null());
        // none can have been taken back that `look` queued: it would be counted less
        UNCOUNTED
            .replace(false)
            .then(|| self.counted(|_| {}))
            .flatten()
    }

    /// No event waits.
    pub fn is_empty(&self) -> bool {
        lock(&self.queue).is_empty()
    }

    /// The program has set the descriptor non-blocking.
    pub fn is_nonblocking(&self) -> bool {
        rustix::fs::fcntl_getfl(&self.fd)
            .is_ok_and(|flags| flags.contains(rustix::fs::OFlags::NONBLOCK))
    }

    /// Takes the oldest event, for a count that the caller has read from the descriptor; None if it
    /// was taken back meanwhile. `taken` is called before anybody can find that the event is not in
    /// the queue any more.
    pub fn counted(&self, taken: impl Fn(&T)) -> Option<T> {
        let mut queue = lock(&self.queue);
        let event = queue.pop_front();
        event.inspect(taken)
    }

    /// Takes the oldest event, waiting for one unless the descriptor is set non-blocking. A C
    /// program's thread, which may be cancelled, waits at the C border.
    pub fn next(&self, taken: impl Fn(&T)) -> Result<T, Error> {
        loop {
            let mut count = [0; 8];
            rustix::io::read(&self.fd, &mut count).map_err(|errno| match errno {
                rustix::io::Errno::AGAIN => Error::WouldBlock,
                rustix::io::Errno::INTR => Error::Interrupted,
                _ => Error::Gone("the event channel's descriptor was closed"),
            })?;
            if let Some(event) = self.counted(&taken) {
                return Ok(event);
            }
        }
    }
}
