//! Threads that sleep until what they wait for is over, or until it is their turn to look for
//! messages.
//!
//! Owns: a bell for each of them, and who is rung when. Must not know: what a round of progress is,
//! nor who looks for messages. Who waits for a request is rung when that is over; who waits for
//! anything else is rung when anything has happened.

use super::handle::NOBODY;
use super::lock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Who waits.
#[derive(Default)]
pub struct Sleepers {
    /// Somebody looks for messages.
    pub has_poller: bool,
    /// It sleeps, without the lock.
    pub is_poller_asleep: bool,
    /// Something has happened that sleepers have not been told.
    news: bool,
    sleepers: Vec<Sleeper>,
}

/// A thread that sleeps until it is rung.
struct Sleeper {
    bell: Arc<AtomicU32>,
    /// What it waits for, or [`NOBODY`].
    request: u32,
}

thread_local! {
    static BELL: Arc<AtomicU32> = Arc::new(AtomicU32::new(0));
}

impl Sleepers {
    /// Something has happened.
    #[inline]
    pub fn note(&mut self) {
        self.news = true;
    }

    /// A request is over.
    #[inline(always)]
    pub fn over(&mut self, request: u32) {
        self.news = true;
        if !self.sleepers.is_empty() {
            self.ring(|sleeper| sleeper.request == request);
        }
    }

    /// Whether somebody is to be told something.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.news
    }

    /// Tells those who wait for anything that something has happened.
    pub fn tell(&mut self) {
        self.news = false;
        if !self.sleepers.is_empty() {
            self.ring(|sleeper| sleeper.request == NOBODY);
        }
    }

    /// This thread is about to sleep until `request` is over, or until anything happens if that is
    /// [`NOBODY`]: its bell.
    pub fn add(&mut self, request: u32) -> Arc<AtomicU32> {
        let bell = BELL.with(Arc::clone);
        bell.store(0, Ordering::Relaxed);
        self.sleepers.push(Sleeper {
            bell: Arc::clone(&bell),
            request,
        });
        bell
    }

    /// The thread with this bell has woken without having been rung.
    pub fn remove(&mut self, bell: &Arc<AtomicU32>) {
        let own = |sleeper: &Sleeper| Arc::ptr_eq(&sleeper.bell, bell);
        self.sleepers.retain(|sleeper| !own(sleeper));
    }

    /// Rings the one that went to sleep last.
    pub fn ring_one(&mut self) {
        if let Some(next) = self.sleepers.pop() {
            lock::ring(&next.bell);
        }
    }

    #[cold]
    fn ring(&mut self, whom: impl Fn(&Sleeper) -> bool) {
        self.sleepers.retain(|sleeper| {
            let rings = whom(sleeper);
            if rings {
                lock::ring(&sleeper.bell);
            }
            !rings
        });
    }
}
