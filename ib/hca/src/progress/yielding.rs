//! Giving a core away, and knowing whether anybody took it.
//!
//! Owns: what a yield costs here when nobody else wants the core (a quarter of a microsecond to a whole one, by processor and
//! mitigations). Must not know: what is waited for.

use std::cell::Cell;

use crate::progress::Engine;

/// A yield that took longer gave the core to somebody, whatever it costs when nobody wants it.
const MOST_ALONE_NS: u64 = 2_000;

/// The kernel gave the core to somebody else for so long: a computing neighbour's time slice.
const SLICE_NS: u64 = 500_000;
/// Two such within this time make a crowded machine; one alone is a disturbance.
const AGAIN_NS: u64 = 100_000_000;

/// What this thread knows of its yields.
#[derive(Clone, Copy)]
struct Known {
    /// The shortest one that is known to have found nobody, ns; 0 before the first.
    quickest_ns: u64,
    /// How often the kernel had taken the core away when it was last asked.
    switches: i64,
    /// When others last had the core for a slice; 0 for never.
    lost_at: u64,
    /// Of the last look: when it was, the time that this thread had had a core, and how often it
    /// had slept.
    looked_at: u64,
    ran_ns: u64,
    sleeps: i64,
    /// Time since then for which this thread gave its core away.
    given_ns: u64,
}

const NOTHING: Known = Known {
    quickest_ns: 0,
    switches: -1,
    lost_at: 0,
    looked_at: 0,
    ran_ns: 0,
    sleeps: -1,
    given_ns: 0,
};

/// What a yield did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Yielded {
    /// Somebody took the core.
    pub taken: bool,
    /// Computing neighbours take it again and again.
    pub crowded: bool,
}

impl Known {
    /// What a yield of this length means: whether somebody took the core. `ask` is the kernel's count of switches, which costs as
    /// much as a yield and is asked only if the time alone does not tell.
    fn judge(&mut self, took_ns: u64, ask: impl FnOnce() -> i64) -> bool {
        if took_ns > MOST_ALONE_NS {
            return true;
        }
        if took_ns <= self.quickest_ns + self.quickest_ns / 4 {
            return false;
        }
        let switches = ask();
        // between two questions others may have had the core as well: then nothing is learnt
        let taken = switches != self.switches;
        self.switches = switches;
        if !taken && (self.quickest_ns == 0 || took_ns < self.quickest_ns) {
            self.quickest_ns = took_ns;
        }
        taken
    }

    /// Others had the core for `lost_ns` up to `now`. True if that is so again and again.
    fn lose(&mut self, lost_ns: u64, now: u64) -> bool {
        if lost_ns < SLICE_NS {
            return false;
        }
        let again = self.lost_at != 0 && now - self.lost_at < AGAIN_NS;
        self.lost_at = now;
        again
    }

    /// A look at `now`: what this thread ran and how often it slept by then. True as of
    /// [`Known::lose`].
    fn look(&mut self, now: u64, ran_ns: u64, sleeps: i64) -> bool {
        // a thread that slept in between may have had no use for the core
        let awake = self.looked_at != 0 && sleeps == self.sleeps;
        // what it gave away is no loss: whoever it waits for may live on the same core
        let used = ran_ns.saturating_sub(self.ran_ns) + self.given_ns;
        let lost = (now - self.looked_at).saturating_sub(used);
        (self.looked_at, self.ran_ns, self.sleeps, self.given_ns) = (now, ran_ns, sleeps, 0);
        awake && self.lose(lost, now)
    }
}

thread_local! {
    static KNOWN: Cell<Known> = const { Cell::new(NOTHING) };
}

/// Changes what this thread knows. None in a thread that ends, in a destructor of the program.
fn with_known<R>(change: impl FnOnce(&mut Known) -> R) -> Option<R> {
    KNOWN
        .try_with(|known| {
            let mut now = known.get();
            let result = change(&mut now);
            known.set(now);
            result
        })
        .ok()
}

/// Lets others have the core.
pub(super) fn yield_core() -> Yielded {
    let begun = Engine::now().0;
    std::thread::yield_now();
    let now = Engine::now().0;
    let took = now - begun;
    with_known(|known| {
        known.given_ns += took;
        Yielded {
            taken: known.judge(took, || switches_of_thread().0),
            crowded: known.lose(took, now),
        }
    })
    .unwrap_or(Yielded {
        taken: true,
        crowded: false,
    })
}

/// True if computing neighbours have taken this thread's core again and again, without being asked
/// to. A thread whose waits end before it would yield finds it out so.
#[cold]
pub(super) fn core_is_taken() -> bool {
    let ran = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let ran_ns = ran.tv_sec as u64 * 1_000_000_000 + ran.tv_nsec as u64;
    let (_, sleeps) = switches_of_thread();
    with_known(|known| known.look(Engine::now().0, ran_ns, sleeps)).unwrap_or(false)
}

/// What was learnt of neighbours is to be learnt anew.
pub(super) fn forget() {
    let _ = with_known(|known| known.lost_at = 0);
}

/// How often the kernel has given this thread's core to another while it could have run, and how
/// often it has slept.
fn switches_of_thread() -> (i64, i64) {
    // SAFETY: a structure of numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a structure of the right kind, which lives.
    match unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) } {
        0 => (usage.ru_nivcsw, usage.ru_nvcsw),
        _ => (-1, -1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_tells_where_it_can_and_the_kernel_is_asked_where_it_cannot() {
        let mut known = NOTHING;
        let never = || -> i64 { panic!("the kernel is asked in vain") };
        // nothing is known, neither of time nor of switches
        assert!(known.judge(510, || 7));
        // nobody came
        assert!(!known.judge(500, || 7));
        // about as long: nobody, either
        assert!(!known.judge(600, never));
        assert!(!known.judge(490, never));
        // longer, but nobody: an interrupt, and the measure stays
        assert!(!known.judge(900, || 7));
        assert_eq!(known.quickest_ns, 500);
        // somebody
        assert!(known.judge(900, || 8));
        assert!(known.judge(50_000, never));
        assert_eq!(known.quickest_ns, 500);
    }

    #[test]
    fn a_machine_is_crowded_when_slices_are_lost_again_and_again() {
        let mut known = NOTHING;
        let ms = 1_000_000;
        assert!(!known.lose(SLICE_NS, 1000 * ms), "once is a disturbance");
        assert!(!known.lose(SLICE_NS - 1, 1001 * ms), "too short to count");
        assert!(!known.lose(SLICE_NS, 1101 * ms), "long after the first");
        assert!(known.lose(SLICE_NS, 1150 * ms));
    }

    #[test]
    fn time_without_a_core_counts_unless_the_thread_slept() {
        let mut known = NOTHING;
        let ms = 1_000_000;
        assert!(
            !known.look(1000 * ms, 10 * ms, 5),
            "nothing to compare with"
        );
        assert!(
            !known.look(1003 * ms, 11 * ms, 5),
            "two lost, for the first time"
        );
        assert!(!known.look(1013 * ms, 12 * ms, 6), "it slept");
        assert!(!known.look(1014 * ms, 13 * ms, 6), "it ran all the time");
        assert!(known.look(1017 * ms, 14 * ms, 6));
        known.given_ns = 2 * ms;
        assert!(
            !known.look(1020 * ms, 15 * ms, 6),
            "it gave its core to whom it waits for"
        );
    }

    #[test]
    fn a_yield_to_a_neighbour_on_the_same_core_is_noticed() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let one = rustix::thread::sched_getaffinity(None).expect("a thread has cores");
        let first = (0..rustix::thread::CpuSet::MAX_CPU)
            .find(|core| one.is_set(*core))
            .expect("at least one");
        let mut set = rustix::thread::CpuSet::new();
        set.set(first);
        let over = AtomicBool::new(false);
        let taken = std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    rustix::thread::sched_setaffinity(None, &set).expect("a core of its own set");
                    while !over.load(Ordering::Relaxed) {
                        std::thread::yield_now();
                    }
                });
            }
            let looks = scope.spawn(|| {
                rustix::thread::sched_setaffinity(None, &set).expect("a core of its own set");
                let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
                let (mut taken, mut yields) = (0, 0);
                while taken < 100 && std::time::Instant::now() < deadline {
                    yields += 1;
                    taken += u32::from(yield_core().taken);
                }
                (taken, yields)
            });
            let seen = looks.join().expect("no panic");
            over.store(true, Ordering::Relaxed);
            seen
        });
        // the others yield as well, so that each turn is short: that is what time alone does not tell
        assert!(taken.0 >= 100, "{taken:?}");
    }
}
