//! The locks of a side: one for what it sends, one for what it receives.
//!
//! A lock lies in the side's record, so a peer cannot hold it. It is held for copies and for calls
//! that do not wait, never in a sleep. A holder that has died is found by who waits for it, and
//! what it had begun is finished.

use crate::memory::{Kernel, Own, Word};

/// Somebody sleeps until the lock is free.
const AWAITED: u64 = 1 << 31;

/// Holds a lock until it is dropped.
pub(crate) struct Held<'a, K: Kernel> {
    kernel: &'a K,
    word: Word,
    /// Who had it before has died with it.
    pub inherited: bool,
}

impl<'a, K: Kernel> Held<'a, K> {
    /// Waits for the lock.
    #[inline]
    pub fn take(kernel: &'a K, lock: Own) -> Self {
        let word = Word::Own(lock);
        let inherited = match kernel.exchange(word, 0, kernel.me()) {
            Ok(()) => false,
            Err(owner) => wait(kernel, word, owner),
        };
        Held {
            kernel,
            word,
            inherited,
        }
    }
}

impl<K: Kernel> Drop for Held<'_, K> {
    #[inline]
    fn drop(&mut self) {
        if self.kernel.swap(self.word, 0) & AWAITED != 0 {
            self.kernel.wake(self.word);
        }
    }
}

/// Gives whether the lock was taken from a dead holder.
#[cold]
fn wait<K: Kernel>(kernel: &K, word: Word, mut owner: u64) -> bool {
    // whoever has slept cannot know whether others sleep still
    let mine = kernel.me() | AWAITED;
    loop {
        if owner == 0 {
            match kernel.exchange(word, 0, mine) {
                Ok(()) => return false,
                Err(now) => owner = now,
            }
        } else if owner & AWAITED == 0 {
            match kernel.exchange(word, owner, owner | AWAITED) {
                Ok(()) => owner |= AWAITED,
                Err(now) => owner = now,
            }
        } else {
            let changed = kernel.sleep(word, owner, true);
            if !changed
                && !kernel.lives(owner & !AWAITED)
                && kernel.exchange(word, owner, mine).is_ok()
            {
                return true;
            }
            owner = kernel.load(word);
        }
    }
}
