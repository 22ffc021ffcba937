//! A lock that a signal handler and a forked child find as they need it.
//!
//! Owns: who holds it. Must not know: what it keeps.
//!
//! It is held for some hundred nanoseconds, and for calls of the kernel that do not wait. A signal
//! handler that interrupts its own thread's hold is told so, and does without. A child that was
//! forked by the C library finds it free, since who forks holds all of them; one that was made by
//! the bare system call takes it from a holder that its parent had.

use crate::table;
use ferriband_host::wake::{self, Until};
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Somebody sleeps until it is free. A thread's number leaves this bit alone.
const AWAITED: u64 = 1 << 31;
/// Looks before a sleep.
const LOOKS: u32 = 100;

/// Such a lock, and what it keeps.
#[derive(Debug)]
pub(super) struct Lock<T> {
    /// The thread that has it.
    owner: AtomicU64,
    inside: UnsafeCell<T>,
}

// SAFETY: one thread at a time reaches what is inside.
unsafe impl<T: Send> Sync for Lock<T> {}

/// Holds it until it is dropped.
pub(super) struct Guard<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Lock<T> {
    pub const fn new(inside: T) -> Self {
        Self {
            owner: AtomicU64::new(0),
            inside: UnsafeCell::new(inside),
        }
    }

    /// Waits for it. None if this thread has it: a signal handler has interrupted its hold.
    #[inline]
    pub fn enter(&self) -> Option<Guard<'_, T>> {
        // not `then_some`, which would make a guard and drop it
        self.take().then(|| Guard { lock: self })
    }

    /// As [`Lock::enter`], without a guard: [`Lock::leave`] follows. False if this thread has it.
    #[inline]
    pub fn take(&self) -> bool {
        let me = table::thread();
        let (won, lost) = (Ordering::Acquire, Ordering::Relaxed);
        match self.owner.compare_exchange(0, me, won, lost) {
            Ok(_) => true,
            Err(owner) => self.wait(me, owner),
        }
    }

    #[cold]
    fn wait(&self, me: u64, mut owner: u64) -> bool {
        let mut mine = me;
        let mut looks = 0;
        let take = |from, to| {
            let (won, lost) = (Ordering::Acquire, Ordering::Relaxed);
            self.owner.compare_exchange(from, to, won, lost)
        };
        loop {
            if owner & !AWAITED == me {
                return false;
            }
            let [theirs, ours] = [owner, me].map(|thread| (thread >> 32) as u32);
            // of a process without a number nobody can tell
            let is_copy = owner != 0 && theirs != ours && theirs != u32::MAX;
            if owner == 0 || is_copy {
                match take(owner, mine) {
                    Ok(_) => return true,
                    Err(now) => owner = now,
                }
                continue;
            }
            if looks < LOOKS {
                looks += 1;
                std::hint::spin_loop();
                owner = self.owner.load(Ordering::Relaxed);
                continue;
            }
            // whoever has slept cannot know whether others sleep still
            mine = me | AWAITED;
            if owner & AWAITED != 0 || take(owner, owner | AWAITED).is_ok() {
                let value = (owner | AWAITED) as u32;
                let _ = wake::wait(self.low(), value, Until::Woken);
            }
            owner = self.owner.load(Ordering::Relaxed);
        }
    }

    /// What it keeps.
    ///
    /// # Safety
    /// This thread holds it by [`Lock::take`], and nobody changes it meanwhile.
    pub unsafe fn held(&self) -> &T {
        // SAFETY: the caller's promise.
        unsafe { &*self.inside.get() }
    }

    /// After [`Lock::take`].
    #[inline]
    pub fn leave(&self) {
        if self.owner.swap(0, Ordering::Release) & AWAITED != 0 {
            wake::wake(self.low(), 1);
        }
    }

    /// The half that a futex compares.
    fn low(&self) -> &AtomicU32 {
        let word: *const AtomicU64 = &raw const self.owner;
        // SAFETY: the lower half of a living word, aligned; the machine is little-endian.
        unsafe { &*word.cast::<AtomicU32>() }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock.
        unsafe { &*self.lock.inside.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread holds the lock, and this guard is borrowed alone.
        unsafe { &mut *self.lock.inside.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_at_a_time_and_a_handler_of_its_own_does_without() {
        let lock = Lock::new(0_u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let mut held = lock.enter().expect("another thread's");
                        let before = *held;
                        assert!(lock.enter().is_none());
                        *held = before + 1;
                    }
                });
            }
        });
        assert_eq!(*lock.enter().expect("free"), 80_000);
    }
}
