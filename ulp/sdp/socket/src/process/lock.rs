//! A lock that a fork cannot leave locked, and no signal handler of its holder meets.
//!
//! Owns: the lock's word, and the holder's signals while it is held. Must not know: what is locked.

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

/// Blocks all signals of this thread; gives what was blocked before.
pub(super) fn block_signals() -> libc::sigset_t {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: fills the set.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: a set that was filled, and room for another.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
    // SAFETY: written by the call, which cannot fail with these arguments.
    unsafe { before.assume_init() }
}

/// Blocks what [`block_signals`] has given, and nothing else.
pub(super) fn restore_signals(before: &libc::sigset_t) {
    // SAFETY: a set, and nothing is to be written.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
}

impl<T> Lock<T> {
    pub const fn new(value: T) -> Self {
        Self {
            word: AtomicU32::new(FREE),
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

    /// Before a fork: the calling thread has the lock until [`Lock::release`], in parent and child.
    pub fn hold(&self) {
        self.take();
    }

    /// After [`Lock::hold`]; `with` sees the value before.
    ///
    /// # Safety
    /// This thread, or the one of which it is the child's copy, has held the lock.
    pub unsafe fn release(&self, with: impl FnOnce(&mut T)) {
        // SAFETY: the caller's promise: nobody else has it.
        with(unsafe { &mut *self.value.get() });
        self.give();
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
