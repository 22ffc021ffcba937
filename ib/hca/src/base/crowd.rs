//! Whether more threads want to run on this machine than it has processors.
//!
//! Owns: asking the kernel, and when this process last saw it by itself. Must not know who wants to
//! know, nor how a thread learns it by losing its processor.

use std::io::Read;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The kernel's count of threads that run or could, "R/T", behind three averages.
const LOAD: &str = "/proc/loadavg";
/// Its field.
const RUNNABLE: usize = 3;

/// What was seen by losing a processor is true for so long.
const SEEN_NS: u64 = 1_000_000_000;

/// When a thread of this process last found the machine crowded.
static SEEN_AT: AtomicU64 = AtomicU64::new(0);

/// A thread has lost its processor again and again by `now`, ns.
#[cold]
pub(crate) fn seen(now: u64) {
    SEEN_AT.store(now, Ordering::Relaxed);
}

/// True if that was a short time before `now`, ns, if more threads want to run than this process
/// may use processors, or if that is not to be found out.
#[cold]
pub(crate) fn is_crowded(now: u64) -> bool {
    let seen = SEEN_AT.load(Ordering::Relaxed);
    if seen != 0 && now.saturating_sub(seen) < SEEN_NS {
        return true;
    }
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    let count = || std::thread::available_parallelism().map_or(1, usize::from);
    let mut text = [0; 128];
    let length = std::fs::File::open(LOAD).and_then(|mut file| file.read(&mut text));
    let runnable = length.ok().and_then(|length| runnable(text.get(..length)?));
    runnable.is_none_or(|runnable| runnable > *PROCESSORS.get_or_init(count))
}

fn runnable(text: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(text).ok()?;
    let field = text.split_ascii_whitespace().nth(RUNNABLE)?;
    field.split_once('/')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    #[test]
    fn the_kernels_count_is_read() {
        assert_eq!(runnable(b"0.41 1.02 1.20 3/512 4711\n"), Some(3));
        for wrong in [
            &b""[..],
            b"0.41 1.02",
            b"0.41 1.02 1.20 3",
            b"a b c d/e",
            b"\xff",
        ] {
            assert_eq!(runnable(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn what_a_thread_has_seen_is_true_for_a_second() {
        // long ago, so that it is nothing to the other tests
        seen(1);
        assert!(is_crowded(SEEN_NS));
    }

    #[test]
    fn more_computing_threads_than_processors_are_a_crowd() {
        let over = AtomicBool::new(false);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let seen = std::thread::scope(|scope| {
            for _ in 0..=processors {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let deadline = Instant::now() + Duration::from_secs(10);
            let mut seen = false;
            while !seen && Instant::now() < deadline {
                seen = is_crowded(u64::MAX);
            }
            over.store(true, Ordering::Relaxed);
            seen
        });
        assert!(seen);
    }
}
