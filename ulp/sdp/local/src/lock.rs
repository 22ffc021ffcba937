//! The locks of a side: one for what it sends, one for what it receives.
//!
//! A lock lies in the side's record, so a peer cannot hold it. It is held for copies and for calls
//! that do not wait, never in a sleep. A holder that has died is found by who waits for it, and
//! what it had begun is finished. A signal handler that has interrupted its own thread's call does
//! not get the lock of that call: nobody but the handler's return can release it.

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
    /// Waits for the lock. None if this thread has it.
    #[inline]
    pub fn take(kernel: &'a K, lock: Own) -> Option<Self> {
        let word = Word::Own(lock);
        let inherited = match kernel.exchange(word, 0, kernel.me()) {
            Ok(()) => false,
            Err(owner) if owner & !AWAITED == kernel.me() => return None,
            Err(owner) => wait(kernel, word, owner),
        };
        Some(Held {
            kernel,
            word,
            inherited,
        })
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

/// Whether this thread has the lock: it has interrupted its own call.
pub(crate) fn is_mine<K: Kernel>(kernel: &K, lock: Own) -> bool {
    kernel.load(Word::Own(lock)) & !AWAITED == kernel.me()
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
