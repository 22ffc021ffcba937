//! What a forked child finds of a library's state.
//!
//! Owns: the count of forks ([`generation`]), and state of a whole process that a child finds new
//! ([`PerProcess`]). Must not know: whose state it is.
//!
//! fork copies one thread: a lock that another thread held stays locked in the child for good, and
//! threads that served the parent are not there. So a child touches no lock and waits for no thread
//! of its parent's: objects carry the generation that they were made in, and calls compare it
//! before anything else.

use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Forks between the process that called [`watch`] first and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

extern "C" fn count() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Counts forks from here on. To be called before anything is made that a child might find.
pub fn watch() {
    static ENTERED: Once = Once::new();
    ENTERED.call_once(|| {
        // SAFETY: a static function that changes an atomic number, which a handler of fork may. It
        // fails without memory alone: then children are not told from parents, as without this.
        unsafe { libc::pthread_atfork(None, None, Some(count)) };
    });
}

/// Another number in the child of a fork, and never else.
#[inline]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

struct Made<T> {
    generation: u32,
    state: T,
}

/// State of a process. A forked child finds it new; what its parent had is never freed there.
pub struct PerProcess<T: 'static> {
    made: AtomicPtr<Made<T>>,
    new: fn() -> T,
}

impl<T: Sync> PerProcess<T> {
    /// Made by `new` when it is needed first, in each process.
    pub const fn new(new: fn() -> T) -> PerProcess<T> {
        PerProcess {
            made: AtomicPtr::new(ptr::null_mut()),
            new,
        }
    }

    /// That of this process.
    #[inline]
    pub fn get(&'static self) -> &'static T {
        let made = self.made.load(Ordering::Acquire);
        // SAFETY: what was made is never freed, and is not changed but by its own means.
        match unsafe { made.as_ref() } {
            Some(made) if made.generation == generation() => &made.state,
            _ => self.make(made),
        }
    }

    #[cold]
    fn make(&'static self, before: *mut Made<T>) -> &'static T {
        watch();
        let fresh = Box::into_raw(Box::new(Made {
            generation: generation(),
            state: (self.new)(),
        }));
        let (ok, failed) = (Ordering::AcqRel, Ordering::Acquire);
        match self.made.compare_exchange(before, fresh, ok, failed) {
            // SAFETY: just made, and never freed.
            Ok(_) => &unsafe { &*fresh }.state,
            Err(_) => {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(fresh) });
                self.get()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn a_child_finds_state_new_and_no_lock_of_its_parent_held() {
        static STATE: PerProcess<Mutex<u32>> = PerProcess::new(|| Mutex::new(5));
        let mut held = STATE.get().lock().expect("nobody panics");
        *held = 6;
        let before = generation();
        // SAFETY: the child takes a lock of its own, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_new = generation() != before && *STATE.get().lock().expect("nobody panics") == 5;
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!is_new)) };
        }
        let mut status = -1;
        // SAFETY: a child of this process.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!((status, generation()), (0, before));
        drop(held);
        assert_eq!(*STATE.get().lock().expect("nobody panics"), 6);
    }
}
