//! Values of a process that are found without a lock.

use crate::generation;
use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

struct Made<T> {
    generation: u32,
    value: T,
}

/// A value of this process: a forked child gets one of its own, made new, whatever its parent's threads were doing with theirs.
pub struct PerProcess<T> {
    made: AtomicPtr<Made<T>>,
    make: fn() -> T,
}

impl<T: Send + Sync> PerProcess<T> {
    /// A value that `make` makes when it is first asked for; several threads that ask at once may make it, and one is kept.
    pub const fn new(make: fn() -> T) -> Self {
        PerProcess {
            made: AtomicPtr::new(null_mut()),
            make,
        }
    }

    /// This process's value.
    #[inline]
    pub fn get(&self) -> &T {
        // SAFETY: a value stays once it is published, for its parent's process may lie in use of it: only `drop` frees one.
        match unsafe { self.made.load(Ordering::Acquire).as_ref() } {
            Some(made) if made.generation == generation() => &made.value,
            _ => self.renew(),
        }
    }

    #[cold]
    fn renew(&self) -> &T {
        let own = Box::into_raw(Box::new(Made {
            generation: generation(),
            value: (self.make)(),
        }));
        loop {
            let seen = self.made.load(Ordering::Acquire);
            // SAFETY: as in `get`.
            if let Some(made) = unsafe { seen.as_ref() }
                && made.generation == generation()
            {
                // SAFETY: nobody else has seen the one made here.
                drop(unsafe { Box::from_raw(own) });
                return &made.value;
            }
            // The value of the process above is left where it is: a thread of that process may have been changing it.
            let kept = self
                .made
                .compare_exchange(seen, own, Ordering::AcqRel, Ordering::Relaxed);
            if kept.is_ok() {
                // SAFETY: as in `get`.
                return unsafe { &(*own).value };
            }
        }
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        let made = std::mem::replace(self.made.get_mut(), null_mut());
        // SAFETY: NULL or published by `renew`, and nobody borrows the cell any more.
        if !made.is_null() && unsafe { (*made).generation } == generation() {
            // SAFETY: as above.
            drop(unsafe { Box::from_raw(made) });
        }
    }
}

impl<T> std::fmt::Debug for PerProcess<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PerProcess")
    }
}

/// What is found out once and then stays, in forked children, too. Threads that ask at once may each find it out; the first
/// answer stands. Nobody waits for anybody.
pub struct Settled<T> {
    value: AtomicPtr<T>,
    owns: PhantomData<T>,
}

impl<T: Send + Sync> Settled<T> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Settled {
            value: AtomicPtr::new(null_mut()),
            owns: PhantomData,
        }
    }

    /// The value; found out by `find` if it is not known.
    #[inline]
    pub fn get_or_init(&self, find: impl FnOnce() -> T) -> &T {
        // SAFETY: a published value is never freed before the cell is dropped.
        match unsafe { self.value.load(Ordering::Acquire).as_ref() } {
            Some(value) => value,
            None => self.settle(find()),
        }
    }

    /// The value; found out by `find` if it is not known. An error settles nothing.
    ///
    /// # Errors
    /// Those of `find`.
    #[inline]
    pub fn get_or_try_init<E>(&self, find: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        // SAFETY: as above.
        match unsafe { self.value.load(Ordering::Acquire).as_ref() } {
            Some(value) => Ok(value),
            None => Ok(self.settle(find()?)),
        }
    }

    #[cold]
    fn settle(&self, value: T) -> &T {
        let own = Box::into_raw(Box::new(value));
        let first =
            self.value
                .compare_exchange(null_mut(), own, Ordering::AcqRel, Ordering::Acquire);
        match first {
            // SAFETY: as above.
            Ok(_) => unsafe { &*own },
            Err(other) => {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(own) });
                // SAFETY: as above.
                unsafe { &*other }
            }
        }
    }
}

impl<T: Send + Sync> Default for Settled<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for Settled<T> {
    fn drop(&mut self) {
        let value = std::mem::replace(self.value.get_mut(), null_mut());
        if !value.is_null() {
            // SAFETY: published by `settle`, and nobody borrows the cell any more.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}

impl<T> std::fmt::Debug for Settled<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Settled")
    }
}
