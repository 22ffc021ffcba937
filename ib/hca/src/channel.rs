//! Event channels: a descriptor that becomes readable, and the queue of what happened behind it.
//!
//! Owns the queue and its descriptor. Must not know what an event means.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Mutex;

use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::OwnedFd;

use crate::error::Error;
use crate::lock;

/// A queue of events behind a pollable descriptor that holds one count per event.
#[derive(Debug)]
pub struct EventQueue<T> {
    fd: OwnedFd,
    queue: Mutex<VecDeque<T>>,
}

impl<T> EventQueue<T> {
    /// An empty queue.
    pub fn new() -> Result<Self, Error> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE).map_err(|_| {
            Error::NoMemory("no descriptor is left for an event channel (see ulimit -n)")
        })?;
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
        // a full counter cannot happen: one count per queued event
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Looks at the events that `wanted` names, in order, and leaves them.
    pub fn collect<U>(&self, wanted: impl Fn(&T) -> bool, look: impl Fn(&T) -> U) -> Vec<U> {
        lock(&self.queue)
            .iter()
            .filter(|event| wanted(event))
            .map(look)
            .collect()
    }

    /// Takes back events that `gone` names; the descriptor's count follows.
    pub fn retract(&self, gone: impl Fn(&T) -> bool) -> usize {
        let mut queue = lock(&self.queue);
        let before = queue.len();
        queue.retain(|event| !gone(event));
        let removed = before - queue.len();
        drop(queue);
        for _ in 0..removed {
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
        removed
    }

    /// Takes the oldest event, waiting for one unless the descriptor is set non-blocking.
    pub fn next(&self) -> Result<T, Error> {
        loop {
            let mut count = [0; 8];
            rustix::io::read(&self.fd, &mut count).map_err(|errno| match errno {
                rustix::io::Errno::AGAIN => Error::WouldBlock,
                rustix::io::Errno::INTR => Error::Interrupted,
                _ => Error::Gone("the event channel's descriptor was closed"),
            })?;
            if let Some(event) = lock(&self.queue).pop_front() {
                return Ok(event);
            }
        }
    }
}
