//! Where threads wait for each other: all have come before any goes on. If one of them ends by a panic, nobody waits any more.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Looks before a thread lets others run, and how often it does before it lays itself down: some ten microseconds each, together about what it takes to be woken up.
const LOOKS: u32 = 1 << 10;
const YIELDS: u32 = 1 << 6;

/// A place where so many threads meet, again and again.
#[derive(Debug)]
pub(super) struct Meeting {
    expected: usize,
    here: AtomicUsize,
    /// How often all have been here.
    turn: AtomicUsize,
    broken: AtomicBool,
    /// How many lie down, and are to be woken up.
    asleep: Mutex<usize>,
    bell: Condvar,
}

impl Meeting {
    /// Of so many threads.
    pub const fn new(expected: usize) -> Meeting {
        Meeting {
            expected,
            here: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
            asleep: Mutex::new(0),
            bell: Condvar::new(),
        }
    }

    /// Waits until all are here: what each did before, all see afterwards. False if one will never come.
    #[must_use]
    pub fn wait(&self) -> bool {
        let turn = self.turn.load(Ordering::Acquire);
        if self.here.fetch_add(1, Ordering::AcqRel) + 1 == self.expected {
            self.here.store(0, Ordering::Relaxed);
            self.turn.store(turn.wrapping_add(1), Ordering::Release);
            self.ring();
            return !self.broken.load(Ordering::Acquire);
        }
        let goes_on =
            || self.turn.load(Ordering::Acquire) != turn || self.broken.load(Ordering::Acquire);
        for look in 0..LOOKS + YIELDS {
            if goes_on() {
                return !self.broken.load(Ordering::Acquire);
            }
            match look < LOOKS {
                true => std::hint::spin_loop(),
                false => std::thread::yield_now(),
            }
        }
        let mut asleep = self.lock();
        *asleep += 1;
        while !goes_on() {
            asleep = self
                .bell
                .wait(asleep)
                .unwrap_or_else(PoisonError::into_inner);
        }
        *asleep -= 1;
        !self.broken.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.asleep.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes up who lies down. Who is about to has the lock, and looks once more before it sleeps.
    fn ring(&self) {
        if *self.lock() > 0 {
            self.bell.notify_all();
        }
    }
}

/// A thread's promise to come: broken if it panics.
pub(super) struct Promise<'a>(pub &'a Meeting);

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.broken.store(true, Ordering::Release);
            self.0.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    #[test]
    fn nobody_goes_on_before_all_are_here() {
        const TURNS: u64 = 2_000;
        let meeting = Meeting::new(3);
        let counts = [const { AtomicU64::new(0) }; 3];
        std::thread::scope(|scope| {
            for me in 0..3 {
                let (meeting, counts) = (&meeting, &counts);
                scope.spawn(move || {
                    for turn in 1..=TURNS {
                        counts[me].store(turn, Ordering::Relaxed);
                        if turn % 500 == me as u64 {
                            // the others lie down
                            std::thread::sleep(Duration::from_millis(3));
                        }
                        assert!(meeting.wait());
                        for count in counts {
                            let seen = count.load(Ordering::Relaxed);
                            assert!(seen == turn || seen == turn + 1, "{seen} in {turn}");
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn nobody_waits_for_one_who_panicked() {
        let meeting = Meeting::new(2);
        std::thread::scope(|scope| {
            let broken = scope.spawn(|| {
                let _promise = Promise(&meeting);
                assert!(meeting.wait());
                // the other lies down first
                std::thread::sleep(Duration::from_millis(20));
                panic!("as it must be");
            });
            assert!(meeting.wait());
            assert!(!meeting.wait());
            assert!(broken.join().is_err());
        });
    }
}
