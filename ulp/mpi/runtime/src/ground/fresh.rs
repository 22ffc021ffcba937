//! A lock of the process that a forked child finds new: another thread may have held it at the fork, for good.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// In a static.
pub struct Fresh<T: 'static> {
    lock: AtomicPtr<Mutex<T>>,
    make: fn() -> T,
}

impl<T: Send> Fresh<T> {
    /// What it guards is made by `make` when it is first asked for.
    pub const fn new(make: fn() -> T) -> Self {
        Self {
            lock: AtomicPtr::new(null_mut()),
            make,
        }
    }

    fn get(&'static self) -> &'static Mutex<T> {
        let known = self.lock.load(Ordering::Acquire);
        // SAFETY: NULL, or published below and never freed.
        unsafe { known.as_ref() }.unwrap_or_else(|| self.begin())
    }

    /// Takes the lock.
    pub fn lock(&'static self) -> MutexGuard<'static, T> {
        self.get().lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock unless somebody has it.
    pub fn try_lock(&'static self) -> Option<MutexGuard<'static, T>> {
        self.get().try_lock().ok()
    }

    #[cold]
    fn begin(&'static self) -> &'static Mutex<T> {
        let own = Box::into_raw(Box::new(Mutex::new((self.make)())));
        let first =
            self.lock
                .compare_exchange(null_mut(), own, Ordering::AcqRel, Ordering::Acquire);
        match first {
            // SAFETY: published, and never freed.
            Ok(_) => unsafe { &*own },
            Err(other) => {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(own) });
                // SAFETY: as above.
                unsafe { &*other }
            }
        }
    }

    /// In a forked child: the parent's is left where it is.
    pub fn forget(&self) {
        self.lock.store(null_mut(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forgotten_lock_is_new_though_somebody_holds_it() {
        static NUMBER: Fresh<u32> = Fresh::new(|| 7);
        let mut held = NUMBER.lock();
        *held = 8;
        NUMBER.forget();
        assert_eq!(*NUMBER.lock(), 7);
        assert_eq!(*held, 8);
    }
}
