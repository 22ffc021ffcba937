//! The lock that threads take for one call or one round, and how they sleep and are woken.
//!
//! Who cannot have the lock says that it is wanted, tries for a moment, and sleeps in the kernel. Who keeps it for long, which is the thread that
//! looks for messages while others wait, asks after each round whether somebody wants it, and steps back.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// 0: free; 1: taken; 2: taken, and somebody may sleep for it.
static LOCK: AtomicU32 = AtomicU32::new(0);
/// Threads that want the lock and do not have it.
static WANTED: AtomicU32 = AtomicU32::new(0);

/// Tries before a thread that wants the lock sleeps.
const TRIES: u32 = 100;
/// Looks whether those who want the lock have taken it, of a thread that stepped back for them.
const STEPS_BACK: u32 = 400;

/// Takes the lock.
#[inline]
pub fn lock() {
    if LOCK
        .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
        .is_err()
    {
        lock_slowly();
    }
}

#[cold]
fn lock_slowly() {
    WANTED.fetch_add(1, Ordering::Relaxed);
    for _ in 0..TRIES {
        std::hint::spin_loop();
        if LOCK.load(Ordering::Relaxed) == 0
            && LOCK
                .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        {
            WANTED.fetch_sub(1, Ordering::Relaxed);
            return;
        }
    }
    while LOCK.swap(2, Ordering::Acquire) != 0 {
        sleep(&LOCK, 2, None);
    }
    WANTED.fetch_sub(1, Ordering::Relaxed);
}

/// Gives the lock back.
#[inline]
pub fn unlock() {
    if LOCK.swap(0, Ordering::Release) == 2 {
        wake(&LOCK);
    }
}

/// In a forked child, which has none of the threads that held or wanted the lock.
pub fn forget() {
    LOCK.store(0, Ordering::Release);
    WANTED.store(0, Ordering::Relaxed);
}

/// Whether somebody wants the lock.
#[inline]
pub fn is_wanted() -> bool {
    WANTED.load(Ordering::Relaxed) != 0
}

/// Gives the lock to those who want it, and takes it again after them; no longer than a moment, for one that was woken may not run yet.
#[cold]
pub fn step_back() {
    unlock();
    for step in 1..=STEPS_BACK {
        if !is_wanted() {
            break;
        }
        if step.is_multiple_of(100) {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
    lock();
}

/// Waits until `bell` is rung, `longest` at most: looks `spins` times, then sleeps.
pub fn listen(bell: &AtomicU32, spins: u32, longest: Duration) {
    for _ in 0..spins {
        if bell.load(Ordering::Acquire) != 0 {
            return;
        }
        std::hint::spin_loop();
    }
    if bell.load(Ordering::Acquire) == 0 {
        sleep(bell, 0, Some(longest));
    }
}

/// Rings.
pub fn ring(bell: &AtomicU32) {
    bell.store(1, Ordering::Release);
    wake(bell);
}

/// Sleeps while `word` is `value`, `longest` at most; may end for no reason.
fn sleep(word: &AtomicU32, value: u32, longest: Option<Duration>) {
    let limit = longest.map(|longest| libc::timespec {
        tv_sec: longest.as_secs().cast_signed(),
        tv_nsec: i64::from(longest.subsec_nanos()),
    });
    let limit = limit
        .as_ref()
        .map_or(std::ptr::null(), |limit| &raw const *limit);
    // SAFETY: a word of this process that outlives the call, and no time or a local one.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            limit,
        );
    }
}

/// Wakes one that sleeps for `word`.
#[cold]
fn wake(word: &AtomicU32) {
    // SAFETY: a word of this process; the kernel looks for its address only.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn one_thread_has_the_lock_and_each_gets_it() {
        // The sum is right only if no two threads are in at once.
        static mut SUM: u64 = 0;
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(|| {
                    for _ in 0..10_000 {
                        lock();
                        // SAFETY: the lock is taken.
                        unsafe { SUM += 1 };
                        if is_wanted() {
                            step_back();
                        }
                        unlock();
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("it ends");
        }
        lock();
        // SAFETY: as above.
        assert_eq!(unsafe { SUM }, 40_000);
        unlock();
    }

    #[test]
    fn a_bell_wakes_whoever_listens() {
        let bell = Arc::new(AtomicU32::new(0));
        let other = Arc::clone(&bell);
        let listener = std::thread::spawn(move || {
            while other.load(Ordering::Acquire) == 0 {
                listen(&other, 10, Duration::from_secs(100));
            }
        });
        ring(&bell);
        listener.join().expect("it was woken");
    }
}
