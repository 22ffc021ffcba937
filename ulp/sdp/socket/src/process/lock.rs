//! A lock that a fork cannot leave locked, and no signal handler of its holder meets.
//!
//! Owns: the lock's word, and the holder's signals while it is held. Must not know: what is locked.

use crate::signals::{block_signals, restore_signals};
use ferriband_host::wake::{self, Until};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Somebody sleeps until it is free.
const AWAITED: u32 = 2;

/// A value that one thread has at a time.
pub(super) struct Lock<T> {
    word: AtomicU32,
    /// What the thread had blocked that has it by [`Lock::hold`].
    held: UnsafeCell<MaybeUninit<libc::sigset_t>>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by who holds the lock alone.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The value, as long as this lives. No signal handler runs in this thread meanwhile.
pub(super) struct Guard<'a, T> {
    lock: &'a Lock<T>,
    /// What the thread had blocked before.
    before: libc::sigset_t,
}

impl<T> Lock<T> {
    pub const fn new(value: T) -> Self {
        Self {
            word: AtomicU32::new(FREE),
            held: UnsafeCell::new(MaybeUninit::uninit()),
            value: UnsafeCell::new(value),
        }
    }

    pub fn lock(&self) -> Guard<'_, T> {
        let before = block_signals();
        self.take();
        Guard { lock: self, before }
    }

    fn take(&self) {
        let free = self
            .word
            .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed);
        if free.is_ok() {
            return;
        }
        while self.word.swap(AWAITED, Ordering::Acquire) != FREE {
            // whatever has ended the sleep, the word is looked at again
            let _ = wake::wait(&self.word, AWAITED, Until::Woken);
        }
    }

    fn give(&self) {
        if self.word.swap(FREE, Ordering::Release) == AWAITED {
            wake::wake(&self.word, 1);
        }
    }

    /// Before a fork: the calling thread has the lock until [`Lock::release`], in parent and child,
    /// and no signals meanwhile.
    pub fn hold(&self) {
        let before = block_signals();
        self.take();
        // SAFETY: this has the lock.
        unsafe { (*self.held.get()).write(before) };
    }

    /// In the child of a fork that has not waited for the lock: whoever had it is not there.
    ///
    /// # Safety
    /// No other thread runs, and what is locked is whole.
    pub unsafe fn abandon(&self) {
        self.word.store(FREE, Ordering::Release);
    }

    /// After [`Lock::hold`]; `with` sees the value before.
    ///
    /// # Safety
    /// This thread, or the one of which it is the child's copy, has held the lock.
    pub unsafe fn release(&self, with: impl FnOnce(&mut T)) {
        // SAFETY: the caller's promise: nobody else has it.
        with(unsafe { &mut *self.value.get() });
        // SAFETY: as above, and `hold` has written it.
        let before = unsafe { (*self.held.get()).assume_init_read() };
        self.give();
        restore_signals(&before);
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this has the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this has the lock.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.lock.give();
        restore_signals(&self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_has_it_at_a_time() {
        let lock = Lock::new(0_u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let mut guard = lock.lock();
                        let value = *guard;
                        std::hint::spin_loop();
                        *guard = value + 1;
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), 40_000);
    }
}
