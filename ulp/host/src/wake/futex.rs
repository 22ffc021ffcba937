//! Futexes on words that processes share.

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, Timespec};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::num::NonZeroU32;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// How long a wait may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Until it is woken.
    Woken,
    /// For this time at most.
    For(Duration),
    /// Until CLOCK_MONOTONIC shows this time, as [`now`] counts it.
    Deadline(Duration),
}

impl Until {
    /// The time of CLOCK_MONOTONIC that a wait beginning at `now` ends at; None: never. A time that
    /// no clock of the kernel will show is none.
    fn deadline(self, now: impl FnOnce() -> Duration) -> Option<Timespec> {
        let end = match self {
            Self::Woken => None,
            Self::For(time) => now().checked_add(time),
            Self::Deadline(end) => Some(end),
        }?;
        Timespec::try_from(end).ok()
    }
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Wait {
    /// Somebody has woken this thread, or it woke for no reason. The word has to be looked at.
    Woken,
    /// The word had another value.
    Changed,
    /// The time is over.
    TimedOut,
    /// A signal handler has run.
    Interrupted,
}

/// Sleeps while `word` is `value`, until a thread of any process that shares the word calls
/// [`wake`].
///
/// The end by a signal handler is told: a caller that waits for an end of its own time computes
/// what is left, or passes [`Until::Deadline`]. As with the kernel's sockets, a wait with an end is
/// always interrupted by a handler; one without an end goes on after a handler that was installed
/// with SA_RESTART.
///
/// # Errors
/// EFAULT if there is no memory behind the word; ENOSYS or EPERM where a filter forbids futexes.
pub fn wait(word: &AtomicU32, value: u32, until: Until) -> io::Result<Wait> {
    let end = until.deadline(now);
    match futex::wait_bitset(word, Flags::empty(), value, end.as_ref(), EVERYBODY) {
        Ok(()) => Ok(Wait::Woken),
        Err(Errno::AGAIN) => Ok(Wait::Changed),
        Err(Errno::TIMEDOUT) => Ok(Wait::TimedOut),
        Err(Errno::INTR) => Ok(Wait::Interrupted),
        Err(errno) => Err(errno.into()),
    }
}

/// Wakes at most `count` threads that sleep in [`wait`] on `word`: how many it has woken. The value
/// that they wait for is stored before.
pub fn wake(word: &AtomicU32, count: u32) -> usize {
    // The kernel counts with a sign.
    let count = count.min(i32::MAX.cast_unsigned());
    // It fails only where no thread can wait either.
    futex::wake(word, Flags::empty(), count).unwrap_or(0)
}

/// The bits of those who wake any thread (FUTEX_BITSET_MATCH_ANY).
const EVERYBODY: NonZeroU32 = NonZeroU32::MAX;

/// The time that CLOCK_MONOTONIC shows, counted from its start.
pub fn now() -> Duration {
    // The clock counts up from 0.
    Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Segment;
    use crate::testing::{Child, fork};
    use std::sync::atomic::Ordering;
    use std::time::Instant;

    const LONG: Until = Until::For(Duration::from_secs(60));

    #[test]
    fn two_processes_wake_each_other() {
        let segment = Segment::create(c"futex", 4096).expect("memory");
        let [ping, pong] = [0, 64].map(|at| segment.word32(at).expect("inside"));
        let follow = |word: &AtomicU32, value: u32| {
            while word.load(Ordering::Acquire) < value {
                let end = wait(word, value - 1, LONG);
                assert!(matches!(end, Ok(Wait::Woken | Wait::Changed)), "{end:?}");
            }
        };
        let tell = |word: &AtomicU32, value: u32| {
            word.store(value, Ordering::Release);
            wake(word, 1);
        };
        let child = fork(|| {
            for round in 1..=1000 {
                follow(ping, round);
                tell(pong, round);
            }
            true
        });
        for round in 1..=1000 {
            tell(ping, round);
            follow(pong, round);
        }
        assert_eq!(child.end(), Some(true));
    }

    #[test]
    fn a_word_that_differs_is_not_waited_for() {
        let word = AtomicU32::new(7);
        assert_eq!(wait(&word, 6, Until::Woken).ok(), Some(Wait::Changed));
        assert_eq!(wake(&word, u32::MAX), 0);
    }

    #[test]
    fn a_wait_ends_with_its_time_and_not_before() {
        let word = AtomicU32::new(0);
        let time = Duration::from_millis(30);
        for make in [
            |time| Until::For(time),
            |time| Until::Deadline(now() + time),
        ] {
            let begun = Instant::now();
            let end = wait(&word, 0, make(time)).expect("a wait");
            assert_eq!(end, Wait::TimedOut);
            assert!(begun.elapsed() >= time);
        }
        let past = wait(&word, 0, Until::Deadline(Duration::ZERO)).expect("a wait");
        assert_eq!(past, Wait::TimedOut);
    }

    #[test]
    fn a_time_beyond_the_clocks_is_no_end() {
        let clock = || Duration::from_secs(1);
        assert!(Until::For(Duration::MAX).deadline(clock).is_none());
        assert!(Until::Deadline(Duration::MAX).deadline(clock).is_none());
        let end = Until::For(Duration::from_millis(2)).deadline(clock);
        let end = end.expect("an end");
        assert_eq!((end.tv_sec, end.tv_nsec), (1, 2_000_000));
    }

    /// How a wait of a child ends in which a handler with these flags runs, and then a wake-up.
    fn interrupted(flags: libc::c_int, until: Until) -> Wait {
        let segment = Segment::create(c"signal", 4096).expect("memory");
        let [word, begun, ended] = [0, 4, 8].map(|at| segment.word32(at).expect("inside"));
        let child: Child = fork(|| {
            extern "C" fn handler(_: libc::c_int) {}
            // SAFETY: a zeroed structure is a valid one.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            action.sa_sigaction = (handler as extern "C" fn(libc::c_int)) as usize;
            action.sa_flags = flags;
            // SAFETY: a local structure and a handler that does nothing.
            unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()) };
            begun.store(1, Ordering::SeqCst);
            let end = wait(word, 0, until).expect("a wait");
            ended.store(1 + end as u32, Ordering::SeqCst);
            true
        });
        while begun.load(Ordering::SeqCst) == 0 || !child.sleeps() {
            std::thread::yield_now();
        }
        child.signal(libc::SIGUSR1);
        // Either the handler ends the wait, or the child sleeps again and is woken.
        while ended.load(Ordering::SeqCst) == 0 {
            if child.sleeps() {
                std::thread::sleep(Duration::from_millis(50));
                if ended.load(Ordering::SeqCst) == 0 {
                    wake(word, 1);
                }
            }
            std::thread::yield_now();
        }
        assert_eq!(child.end(), Some(true));
        let kinds = [
            Wait::Woken,
            Wait::Changed,
            Wait::TimedOut,
            Wait::Interrupted,
        ];
        kinds[ended.load(Ordering::SeqCst) as usize - 1]
    }

    #[test]
    fn a_signal_handler_ends_a_wait_as_it_ends_the_kernels_waits_for_sockets() {
        assert_eq!(interrupted(0, Until::Woken), Wait::Interrupted);
        assert_eq!(interrupted(0, LONG), Wait::Interrupted);
        assert_eq!(interrupted(libc::SA_RESTART, LONG), Wait::Interrupted);
        assert_eq!(interrupted(libc::SA_RESTART, Until::Woken), Wait::Woken);
    }
}
