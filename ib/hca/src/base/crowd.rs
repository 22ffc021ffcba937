//! Whether more threads want to run on this machine than it has processors.
//!
//! Owns: asking the kernel. Must not know who wants to know, nor what a thread learns by losing its
//! processor.

use std::io::Read;
use std::sync::OnceLock;

/// The kernel's count of threads that run or could, "R/T", behind three averages.
const LOAD: &str = "/proc/loadavg";
/// Its field.
const RUNNABLE: usize = 3;

/// True if more threads want to run now than this process may use processors, or if that is not to
/// be found out.
#[cold]
pub(crate) fn is_crowded() -> bool {
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
    use std::sync::atomic::{AtomicBool, Ordering};
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
                seen = is_crowded();
            }
            over.store(true, Ordering::Relaxed);
            seen
        });
        assert!(seen);
    }
}
