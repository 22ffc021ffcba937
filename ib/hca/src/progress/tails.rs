//! Queue pairs that keep the end of a long message back for the next one (`qp/packets/wait.rs`),
//! until it is found that none comes.
//!
//! Owns the list of them, and how long a polling program may find nothing before they go. Must not know: packets.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::sync::{Arc, Mutex};

use crate::lock;
use crate::qp::Qp;

/// Looks in vain after which nobody expects another message: a few microseconds.
const PATIENCE: u32 = 4;
/// How often the progress thread looks whether the program still looks, while queue pairs keep something back.
pub(super) const LOOK_NS: u64 = 250_000;
/// How long it goes on so after the last one did: from one burst of messages to the next.
const WATCH_NS: u64 = 10_000_000;

/// Those that keep something back, or have lately.
#[derive(Debug, Default)]
pub(crate) struct Tails {
    list: Mutex<Vec<Arc<Qp>>>,
    count: AtomicUsize,
    /// Looks in vain since the last one was kept back.
    vain: AtomicU32,
    /// The progress thread looks often.
    watched: AtomicBool,
    /// One was kept back since it last looked.
    lately: AtomicBool,
}

impl Tails {
    /// One more, or the same again; `fresh` if it is of a message that was just posted. True if the progress thread is to be woken for it.
    pub fn keep(&self, qp: &Arc<Qp>, fresh: bool) -> bool {
        if fresh {
            self.vain.store(0, Relaxed);
        }
        let mut list = lock(&self.list);
        if !list.iter().any(|other| Arc::ptr_eq(other, qp)) {
            list.push(qp.clone());
            self.count.store(list.len(), SeqCst);
        }
        drop(list);
        self.note()
    }

    fn note(&self) -> bool {
        // a load first: in a stream both are set, and nobody else's line is taken away
        if !self.lately.load(SeqCst) {
            self.lately.store(true, SeqCst);
        }
        !self.watched.load(SeqCst) && !self.watched.swap(true, SeqCst)
    }

    /// For the progress thread, which knows until when it watches: whether it goes on to.
    pub fn watch(&self, until: &mut u64, now: u64) -> bool {
        if self.lately.swap(false, SeqCst) {
            *until = now + WATCH_NS;
        }
        if now < *until {
            return true;
        }
        self.watched.store(false, SeqCst);
        // one that came just now found itself watched
        self.lately.load(SeqCst)
    }

    /// For the progress thread when it goes to sleep, before it looks for the last time: it is to be woken for the next.
    pub fn leave(&self) {
        self.watched.store(false, SeqCst);
    }

    /// One that ends.
    pub fn forget(&self, qp: &Qp) {
        let mut list = lock(&self.list);
        list.retain(|other| !std::ptr::eq(&**other, qp));
        self.count.store(list.len(), SeqCst);
    }

    /// After a look that found something or nothing: whether all of them go now. They do if nobody comes back soon.
    #[inline]
    pub fn are_due(&self, found: bool, comes_back: bool) -> bool {
        self.count.load(SeqCst) > 0 && (!comes_back || !found && self.is_enough())
    }

    fn is_enough(&self) -> bool {
        let vain = self.vain.load(Relaxed) + 1;
        self.vain.store(vain, Relaxed);
        vain > PATIENCE
    }

    /// All of them, which stay.
    pub fn all(&self) -> Vec<Arc<Qp>> {
        match self.count.load(Relaxed) {
            0 => Vec::new(),
            _ => lock(&self.list).clone(),
        }
    }

    /// All of them; none is left.
    #[cold]
    pub fn take(&self) -> Vec<Arc<Qp>> {
        let mut list = lock(&self.list);
        self.count.store(0, SeqCst);
        std::mem::take(&mut *list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_due_where_nothing_is_kept() {
        let tails = Tails::default();
        assert!((0..10).all(|_| !tails.are_due(false, false)));
        assert!(tails.take().is_empty());
        // as if there were one
        tails.count.store(1, Relaxed);
        assert!(tails.are_due(true, false), "nobody comes back");
        assert!(!tails.are_due(true, true), "something was found");
        let vain = (0..).take_while(|_| !tails.are_due(false, true)).count();
        assert_eq!(vain, PATIENCE as usize);
    }

    #[test]
    fn the_thread_is_woken_once_and_watches_until_none_came_for_long() {
        let (tails, mut until) = (Tails::default(), 0);
        assert!(!tails.watch(&mut until, 5), "nothing was kept");
        assert_eq!(
            [tails.note(), tails.note(), tails.note()],
            [true, false, false]
        );
        assert!(tails.watch(&mut until, 5));
        assert!(tails.watch(&mut until, 4 + WATCH_NS));
        assert!(!tails.note(), "it is awake");
        assert!(tails.watch(&mut until, 6 + WATCH_NS), "one came meanwhile");
        assert!(!tails.watch(&mut until, 6 + 2 * WATCH_NS));
        assert!(tails.note(), "it sleeps again");
        assert!(!tails.note());
        tails.leave();
        assert!(tails.note(), "it went to sleep, whatever it had seen");
    }
}
