//! The two kinds of mutexes, locked by one function.
//!
//! Owns what becomes of a poisoned one. Must not know: what is locked, and in which order.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A mutex of the data path: held for a request or a record, practically never contended. Giving it
/// up is a plain store, where the standard mutex swaps; whoever finds it taken yields.
pub(crate) type FastMutex<T> = spin::mutex::SpinMutex<T, spin::relax::Yield>;

pub(crate) type FastGuard<'a, T> = spin::mutex::SpinMutexGuard<'a, T, spin::relax::Yield>;

/// What [`lock`] locks.
pub(crate) trait Lockable {
    type Guard<'a>: std::ops::DerefMut
    where
        Self: 'a;
    fn acquire(&self) -> Self::Guard<'_>;
}

impl<T> Lockable for Mutex<T> {
    type Guard<'a>
        = MutexGuard<'a, T>
    where
        T: 'a;

    /// A panic while it was held has made the device fatal already; the data is still consistent
    /// enough to be torn down, so the poison is not passed on.
    fn acquire(&self) -> MutexGuard<'_, T> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Lockable for FastMutex<T> {
    type Guard<'a>
        = FastGuard<'a, T>
    where
        T: 'a;

    #[inline(always)]
    fn acquire(&self) -> FastGuard<'_, T> {
        self.lock()
    }
}

/// Locks a mutex of either kind.
#[inline(always)]
pub(crate) fn lock<L: Lockable>(mutex: &L) -> L::Guard<'_> {
    mutex.acquire()
}
