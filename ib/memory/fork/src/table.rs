//! A table whose lock is held over fork.

use std::cell::UnsafeCell;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A table that a forked child finds whole and unlocked.
///
/// While its lock is held no other lock is taken and nothing waits: the handlers of fork take it beside those of other libraries,
/// in an order that nobody chooses.
pub struct Table<T: 'static> {
    entries: Mutex<T>,
    held: UnsafeCell<Option<MutexGuard<'static, T>>>,
}

// SAFETY: `held` is touched by the handlers of fork only, of which one thread at a time has the lock.
unsafe impl<T: Send> Sync for Table<T> {}

impl<T: Send> Table<T> {
    /// A table in a static.
    pub const fn new(entries: T) -> Self {
        Table {
            entries: Mutex::new(entries),
            held: UnsafeCell::new(None),
        }
    }

    /// Takes the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        // who uses a table leaves it whole between two calls
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Before a fork.
    pub fn hold(&'static self) {
        let guard = self.lock();
        // SAFETY: this thread holds the lock that guards the cell.
        unsafe { *self.held.get() = Some(guard) };
    }

    /// After a fork, on either side: `change` sees the table before anybody else.
    pub fn release(&'static self, change: impl FnOnce(&mut T)) {
        // SAFETY: as in `hold`: the thread that forked holds the lock, here and in the child.
        if let Some(mut guard) = unsafe { (*self.held.get()).take() } {
            change(&mut guard);
        }
    }
}
