//! Giving a core away, and knowing whether anybody took it.
//!
//! Owns: what a yield costs here when nobody else wants the core (a quarter of a microsecond to a whole one, by processor and
//! mitigations). Must not know: what is waited for.

use std::cell::Cell;

use super::Engine;

/// A yield that took longer gave the core to somebody, whatever it costs when nobody wants it.
const MOST_ALONE_NS: u64 = 2_000;

/// What this thread knows of its yields.
#[derive(Clone, Copy)]
struct Known {
    /// The shortest one that is known to have found nobody, ns; 0 before the first.
    quickest_ns: u64,
    /// How often the kernel had taken the core away when it was last asked.
    switches: i64,
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
}

thread_local! {
    static KNOWN: Cell<Known> = const { Cell::new(Known { quickest_ns: 0, switches: -1 }) };
}

/// Lets others have the core. True if anybody took it.
pub(super) fn yield_core() -> bool {
    let begun = Engine::now().0;
    std::thread::yield_now();
    let took = Engine::now().0 - begun;
    // a thread that ends, in a destructor of the program, knows nothing any more
    KNOWN
        .try_with(|known| {
            let mut now = known.get();
            let taken = now.judge(took, switches_of_thread);
            known.set(now);
            taken
        })
        .unwrap_or(true)
}

/// How often the kernel has given this thread's core to another while it could have run.
fn switches_of_thread() -> i64 {
    // SAFETY: a structure of numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a structure of the right kind, which lives.
    match unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) } {
        0 => usage.ru_nivcsw,
        _ => -1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_tells_where_it_can_and_the_kernel_is_asked_where_it_cannot() {
        let mut known = Known {
            quickest_ns: 0,
            switches: -1,
        };
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
                    taken += u32::from(yield_core());
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
