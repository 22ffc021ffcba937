//! Queue pairs that keep the end of a long message back for the next one (`qp/packets/tail.rs`), until it is found that none comes.
//!
//! Owns the list of them, and how long a polling program may find nothing before they go. Must not know: packets.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::lock;
use crate::qp::Qp;

/// Looks in vain after which nobody expects another message: a few microseconds.
const PATIENCE: u32 = 4;

/// Those that keep something back, or have lately.
#[derive(Debug, Default)]
pub(super) struct Tails {
    list: Mutex<Vec<Arc<Qp>>>,
    count: AtomicUsize,
    /// Looks in vain since the last one was kept back.
    vain: AtomicU32,
}

impl Tails {
    /// One more, or the same again.
    pub fn keep(&self, qp: &Arc<Qp>) {
        self.vain.store(0, Relaxed);
        let mut list = lock(&self.list);
        if !list.iter().any(|other| Arc::ptr_eq(other, qp)) {
            list.push(qp.clone());
            self.count.store(list.len(), Relaxed);
        }
    }

    /// After a look that found something or nothing: whether all of them go now. They do if nobody comes back soon.
    #[inline]
    pub fn are_due(&self, found: bool, comes_back: bool) -> bool {
        self.count.load(Relaxed) > 0 && (!comes_back || !found && self.is_enough())
    }

    fn is_enough(&self) -> bool {
        let vain = self.vain.load(Relaxed) + 1;
        self.vain.store(vain, Relaxed);
        vain > PATIENCE
    }

    /// All of them; none is left.
    #[cold]
    pub fn take(&self) -> Vec<Arc<Qp>> {
        let mut list = lock(&self.list);
        self.count.store(0, Relaxed);
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
}
