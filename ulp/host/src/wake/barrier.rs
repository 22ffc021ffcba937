//! The barrier between a sleeper's flag and a waker's data.
//!
//! A waker stores data and then looks whether the other process sleeps; the sleeper says that it
//! sleeps and then looks for data. Both processes need a full fence between their two steps, or
//! each may miss what the other has stored, and the sleeper is never woken. A process wakes others
//! far less often than it stores data, so membarrier(2) moves the cost to the sleeper: its call
//! makes each registered process that runs at that moment pass a full fence.

use rustix::thread::{MembarrierCommand, membarrier};
use std::sync::atomic::{Ordering, compiler_fence, fence};

/// Whether this process takes part in barriers of the kernel's.
///
/// Each process registers, tells its peers in shared memory whether it [works](Barrier::works), and
/// asks the same of them: a waker may leave out its fence only towards a sleeper that can call the
/// barrier, and only if it is registered itself.
#[derive(Debug, Clone, Copy)]
pub struct Barrier {
    works: bool,
}

impl Barrier {
    /// Registers this process, once or several times. A forked child registers anew.
    ///
    /// No kernel is relied on, so the barrier does not work: on Linux 6.18 the call leaves
    /// processors out, though it succeeds. 47 to 1,700 of 20,000 rounds of the race below were
    /// missed in one run of five. What is presumed: a processor that has gone idle from a process
    /// before that registers, and takes it up again, does not look at its memory anew
    /// (`membarrier_switch_mm` returns where it is the same), and is not interrupted.
    pub fn register() -> Self {
        Self { works: false }
    }

    /// Whether this process's wakers may leave out their fence, and its sleepers call the barrier.
    #[inline]
    pub fn works(self) -> bool {
        self.works
    }

    /// The sleeper's step between its flag and its last look for data: a full fence of this thread
    /// and, where the barrier works, of all registered processes.
    ///
    /// False if a filter that this process has installed since it registered forbids the barrier.
    /// Then a wake-up may be lost, and the process must not sleep without an end.
    #[must_use]
    pub fn sleeper(self) -> bool {
        fence(Ordering::SeqCst);
        !self.works || membarrier(MembarrierCommand::GlobalExpedited).is_ok()
    }

    /// The waker's step between its data and its look at the flag: a full fence, unless the
    /// sleeper's barrier stands for it. `peer_works` is what the sleeper's process has told.
    #[inline]
    pub fn waker(self, peer_works: bool) {
        if self.works && peer_works {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Segment;
    use crate::testing::{forbid, fork};
    use std::sync::atomic::AtomicU32;

    /// Rounds of the race between flag and data.
    const ROUNDS: u32 = 20_000;
    /// Bytes between words that different processes write.
    const APART: u64 = 128;
    /// Lines that keep the waker's data in its store buffer for a while: the sleeper has them.
    const LINES: std::ops::Range<u64> = 1024 / 64..3072 / 64;

    /// One side of the race.
    struct Side<'a> {
        segment: &'a Segment,
        number: u64,
    }

    impl Side<'_> {
        /// What `number` has stored, begun, and told of itself.
        fn words(&self, number: u64) -> [&AtomicU32; 3] {
            let at = number * 3 * APART;
            [at, at + APART, at + 2 * APART].map(|at| self.segment.word32(at).expect("inside"))
        }

        /// What `number` saw of the other's store in a round.
        fn seen(&self, number: u64, round: u32) -> &AtomicU32 {
            let at = 4096 + (u64::from(round) * 2 + number) * 4;
            self.segment.word32(at).expect("inside")
        }

        /// Tells the other side whether the barrier works here: whether it does there.
        fn agree(&self, works: bool) -> bool {
            self.words(self.number)[2].store(1 + u32::from(works), Ordering::Release);
            self.follow(2, 1) == 2
        }

        /// Waits until a word of the other side is at least `value`.
        fn follow(&self, word: usize, value: u32) -> u32 {
            let word = self.words(1 - self.number)[word];
            let mut looks = 0_u32;
            loop {
                let found = word.load(Ordering::Acquire);
                if found >= value {
                    return found;
                }
                looks += 1;
                if looks.is_multiple_of(1000) {
                    std::thread::yield_now();
                }
                std::hint::spin_loop();
            }
        }

        /// Stores to each of [`LINES`].
        fn store_lines(&self) {
            for line in LINES {
                let word = self.segment.word32(line * 64).expect("inside");
                word.store(1, Ordering::Relaxed);
            }
        }

        /// Stores, passes `step`, looks; both sides at once, round by round. The sleeper begins a
        /// little later, each time by another time.
        fn race(&self, step: impl Fn()) {
            let ([mine, begun, _], [other, ..]) =
                (self.words(self.number), self.words(1 - self.number));
            for round in 1..=ROUNDS {
                if self.number == 0 {
                    self.store_lines();
                }
                begun.store(round, Ordering::Release);
                self.follow(1, round);
                if self.number == 0 {
                    (0..round % 64).for_each(|_| std::hint::spin_loop());
                } else {
                    self.store_lines();
                }
                mine.store(round, Ordering::Relaxed);
                step();
                let seen = other.load(Ordering::Relaxed);
                self.seen(self.number, round).store(seen, Ordering::Relaxed);
            }
        }
    }

    /// Rounds in which neither process saw the other's store. A filter may forbid the sleeper its
    /// barrier.
    fn missed(is_forbidden: bool) -> usize {
        let bytes = 4096 + u64::from(ROUNDS + 1) * 8;
        let segment = Segment::create(c"barrier", bytes).expect("memory");
        let side = |number| Side {
            segment: &segment,
            number,
        };
        let child = fork(|| {
            let is_filtered = !is_forbidden || forbid(libc::SYS_membarrier);
            let (side, barrier) = (side(0), Barrier::register());
            side.agree(barrier.works());
            let worked = std::cell::Cell::new(true);
            side.race(|| worked.set(worked.get() && barrier.sleeper()));
            is_filtered && worked.get()
        });
        let (side, barrier) = (side(1), Barrier::register());
        let peer_works = side.agree(barrier.works());
        assert_eq!(peer_works, barrier.works() && !is_forbidden);
        side.race(|| barrier.waker(peer_works));
        assert_eq!(child.end(), Some(true));
        (1..=ROUNDS)
            .filter(|round| {
                [0, 1].map(|of| side.seen(of, *round).load(Ordering::Relaxed) < *round) == [true; 2]
            })
            .count()
    }

    #[test]
    fn the_sleepers_barrier_stands_for_the_wakers_fence() {
        assert_eq!(missed(false), 0, "rounds missed");
    }

    #[test]
    fn where_the_barrier_is_forbidden_the_waker_has_its_fence() {
        assert_eq!(missed(true), 0);
    }

    #[test]
    fn a_sleeper_learns_that_its_barrier_has_been_forbidden() {
        let child = fork(|| {
            let barrier = Barrier::register();
            let before = barrier.sleeper();
            let is_filtered = forbid(libc::SYS_membarrier);
            before && is_filtered && barrier.sleeper() != barrier.works()
        });
        assert_eq!(child.end(), Some(true));
    }
}
