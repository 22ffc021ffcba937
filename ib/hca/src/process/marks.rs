//! Marks: which peers threads of this process are in the middle of an access to.
//!
//! Owns which thread has which mark; the marks themselves lie in the process segment, where peers
//! read them. Must not know what is accessed.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use ferriband_transport::direct::layout::MARKS;

/// Claims of the process's in-flight marks by its threads.
#[derive(Debug)]
pub(crate) struct Marks([AtomicBool; MARKS]);

thread_local! {
    static LAST_MARK: Cell<usize> = const { Cell::new(usize::MAX) };
}

impl Marks {
    pub(crate) fn new() -> Self {
        Marks([const { AtomicBool::new(false) }; MARKS])
    }

    #[inline]
    pub(crate) fn claim(&self) -> usize {
        let last = LAST_MARK.get();
        if last < MARKS && !self.0[last].swap(true, Ordering::Acquire) {
            return last;
        }
        self.claim_any()
    }

    #[cold]
    fn claim_any(&self) -> usize {
        loop {
            for (index, taken) in self.0.iter().enumerate() {
                if !taken.swap(true, Ordering::Acquire) {
                    LAST_MARK.set(index);
                    return index;
                }
            }
            std::thread::yield_now();
        }
    }

    #[inline]
    pub(crate) fn release(&self, mark: usize) {
        self.0[mark].store(false, Ordering::Release);
    }
}
