//! A word in shared memory that the kernel marks when its owner dies.
//!
//! Owns: the layout of the word and its life. Must not know: who the owner is, or what its death means.
//!
//! The word is the lock of a robust, process-shared mutex that one long-lived thread of the owner locks and never
//! releases. When that thread exits, when the process is killed, and when it calls exec (the robust list is walked
//! before the new image is installed), the kernel sets FUTEX_OWNER_DIED in the word. A forked child inherits the
//! mapping and not the robust list, so it neither holds the word nor can release it. Peers need one load to ask.
//!
//! One case escapes (measured, Linux 6.18): a holder that is not the main thread and calls exec itself. The kernel
//! gives it the main thread's number before it walks its list, and then takes the word for a stranger's. So the
//! holder is a thread of ours that never calls exec; whichever other thread does, the word is marked.

use crate::Error;
use crate::segment::{Segment, Span};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bits of a robust futex word (`linux/futex.h`).
const FUTEX_OWNER_DIED: u32 = 0x4000_0000;
const FUTEX_TID_MASK: u32 = 0x3fff_ffff;

/// Where the lock lies in `pthread_mutex_t`: first in glibc, second in musl. [`AliveWord::hold`] verifies it.
const LOCK_OFFSET: usize = if cfg!(target_env = "musl") { 4 } else { 0 };

/// The owner's side: held by the thread that made it, until that thread exits or drops it.
///
/// It stays on its thread (not `Send`), because only the thread that locked the mutex can die for it.
#[derive(Debug)]
pub struct AliveWord {
    /// Keeps the mapping: the C library's robust list points into it.
    segment: Arc<Segment>,
    off: usize,
    _on_this_thread: PhantomData<*mut ()>,
}

impl AliveWord {
    /// Bytes to set aside for the word.
    pub const SIZE: usize = 64;

    /// Starts holding the word at `off` (a multiple of 8) of `segment`, whose [`AliveWord::SIZE`] bytes there are
    /// used for nothing else. Call it on a thread that lives as long as the process, such as the progress thread.
    ///
    /// # Errors
    /// `System` if the C library refuses a robust mutex, or has it in a layout that is not known here (EOPNOTSUPP).
    /// Panics if the range is not within the segment, or misaligned.
    pub fn hold(segment: &Arc<Segment>, off: usize) -> Result<AliveWord, Error> {
        const { assert!(size_of::<libc::pthread_mutex_t>() <= AliveWord::SIZE) };
        segment.zero(off, AliveWord::SIZE);
        segment.load(off, Ordering::Relaxed);
        let mutex = mutex_ptr(segment, off);
        init_robust(mutex)?;
        // SAFETY: initialised just now, and mapped as long as the Arc below lives.
        check("pthread_mutex_lock", unsafe {
            libc::pthread_mutex_lock(mutex)
        })?;
        let word = AliveWord {
            segment: segment.clone(),
            off,
            _on_this_thread: PhantomData,
        };
        let lock = segment.load_u32(off + LOCK_OFFSET, Ordering::Relaxed);
        if lock != rustix::thread::gettid().as_raw_nonzero().get() as u32 {
            return Err(Error::System {
                call: "pthread_mutex_lock",
                errno: libc::EOPNOTSUPP,
            });
        }
        Ok(word)
    }

    /// The peer's side: whether the owner holds the word at `off` of the mapping. One load, no system call. False
    /// before the owner took it, and for ever after the owner's thread exited, was killed, or called exec.
    #[inline(always)]
    pub fn is_alive(span: &Span, off: usize) -> bool {
        let lock = span.load_u32(off + LOCK_OFFSET, Ordering::Acquire);
        lock & FUTEX_OWNER_DIED == 0 && lock & FUTEX_TID_MASK != 0
    }
}

impl Drop for AliveWord {
    fn drop(&mut self) {
        // In a forked child this is EPERM and changes nothing: the word belongs to the parent's thread.
        // SAFETY: initialised in `hold`, still mapped.
        unsafe { libc::pthread_mutex_unlock(mutex_ptr(&self.segment, self.off)) };
    }
}

fn mutex_ptr(segment: &Segment, off: usize) -> *mut libc::pthread_mutex_t {
    segment.write_ptr(off, AliveWord::SIZE).cast()
}

/// Initialises a robust, process-shared mutex.
fn init_robust(mutex: *mut libc::pthread_mutex_t) -> Result<(), Error> {
    let mut attr = std::mem::MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
    let attr = attr.as_mut_ptr();
    // SAFETY: room for an attribute object.
    check("pthread_mutexattr_init", unsafe {
        libc::pthread_mutexattr_init(attr)
    })?;
    // SAFETY: initialised above.
    let shared = unsafe { libc::pthread_mutexattr_setpshared(attr, libc::PTHREAD_PROCESS_SHARED) };
    // SAFETY: initialised above.
    let robust = unsafe { libc::pthread_mutexattr_setrobust(attr, libc::PTHREAD_MUTEX_ROBUST) };
    // SAFETY: `mutex` has the room and alignment (checked by the caller); nobody uses it yet.
    let init = unsafe { libc::pthread_mutex_init(mutex, attr) };
    // SAFETY: initialised above, not used any more.
    unsafe { libc::pthread_mutexattr_destroy(attr) };
    check("pthread_mutexattr_setpshared", shared)?;
    check("pthread_mutexattr_setrobust", robust)?;
    check("pthread_mutex_init", init)
}

fn check(call: &'static str, result: i32) -> Result<(), Error> {
    if result == 0 {
        Ok(())
    } else {
        Err(Error::System {
            call,
            errno: result,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::test_process::{Child, eventually};

    /// Offsets in the segment of the tests: the word, a flag that the child is ready, one to let it go on.
    const WORD: usize = 64;
    const READY: usize = 0;
    const GO: usize = 8;
    const GRANDCHILD: usize = 16;

    fn segment() -> Arc<Segment> {
        Arc::new(Segment::create("alive-test", 4096).unwrap())
    }

    fn alive(segment: &Segment) -> bool {
        AliveWord::is_alive(segment, WORD)
    }

    /// What the children of these tests do; see [`crate::test_process`].
    pub(crate) fn child(role: &str, segment: Segment) {
        let segment = Arc::new(segment);
        let held = segment.clone();
        match role {
            "alive-fork" => fork_and_stay(AliveWord::hold(&segment, WORD).unwrap(), &segment),
            _ => {
                std::thread::spawn(move || {
                    let _word = AliveWord::hold(&held, WORD).unwrap();
                    sleep_forever();
                });
                eventually("the thread to hold", || alive(&segment));
            }
        }
        segment.store(READY, 1, Ordering::Release);
        if !role.starts_with("alive-exec") {
            sleep_forever();
        }
        eventually("the word to go on", || {
            segment.load(GO, Ordering::Acquire) != 0
        });
        let exec = || {
            use std::os::unix::process::CommandExt;
            panic!("{}", std::process::Command::new("sleep").arg("60").exec());
        };
        match role {
            "alive-exec-third" => _ = std::thread::spawn(exec).join(),
            _ => exec(),
        }
    }

    fn sleep_forever() -> ! {
        loop {
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
    }

    fn fork_and_stay(word: AliveWord, segment: &Segment) {
        // SAFETY: the child below only loads and stores words, sleeps and exits.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let started = std::time::Instant::now();
            while segment.load(GO, Ordering::Acquire) == 0 && started.elapsed().as_secs() < 20 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            // A child that drops the parent's word must not release it.
            drop(word);
            segment.store(GRANDCHILD, 2, Ordering::Release);
            // SAFETY: ends this process without running destructors of the parent's.
            unsafe { libc::_exit(0) };
        }
        segment.store(GRANDCHILD, 1, Ordering::Release);
        std::mem::forget(word);
    }

    fn start(role: &str, segment: &Segment) -> Child {
        let child = Child::spawn(role, segment);
        eventually("the child to be ready", || {
            segment.load(READY, Ordering::Acquire) == 1
        });
        child
    }

    #[test]
    fn killed_owner_is_seen_dead_by_one_load() {
        let segment = segment();
        assert!(!alive(&segment), "nobody holds it yet");
        let mut child = start("alive-hold", &segment);
        assert!(alive(&segment));
        child.kill();
        assert!(!alive(&segment), "a reaped process is dead at once");
        let lock = segment.load_u32(WORD + LOCK_OFFSET, Ordering::Relaxed);
        assert_eq!(lock & FUTEX_OWNER_DIED, FUTEX_OWNER_DIED);
    }

    #[test]
    fn owner_that_execs_is_seen_dead_although_its_process_lives() {
        // One thread holds; another calls exec, the one that started it or a third.
        for role in ["alive-exec-other", "alive-exec-third"] {
            let segment = segment();
            let mut child = start(role, &segment);
            assert!(alive(&segment));
            segment.store(GO, 1, Ordering::Release);
            eventually(role, || !alive(&segment));
            assert!(
                child.is_running(),
                "sleep runs under the same process number"
            );
            child.kill();
        }
    }

    #[test]
    fn forked_child_neither_keeps_nor_releases_the_word() {
        let segment = segment();
        let mut child = start("alive-fork", &segment);
        assert_eq!(segment.load(GRANDCHILD, Ordering::Acquire), 1);
        assert!(alive(&segment));
        child.kill();
        assert!(!alive(&segment), "the grandchild lives, the owner does not");
        assert_eq!(segment.load(GRANDCHILD, Ordering::Acquire), 1);
        segment.store(GO, 1, Ordering::Release);
        eventually("the grandchild to end", || {
            segment.load(GRANDCHILD, Ordering::Acquire) == 2
        });

        let segment = self::segment();
        let mut child = start("alive-fork", &segment);
        segment.store(GO, 1, Ordering::Release);
        eventually("the grandchild to end", || {
            segment.load(GRANDCHILD, Ordering::Acquire) == 2
        });
        assert!(
            alive(&segment),
            "the grandchild dropped its copy, the owner lives"
        );
        child.kill();
    }

    #[test]
    fn thread_that_exits_or_drops_releases() {
        let segment = segment();
        std::thread::scope(|s| {
            s.spawn(|| {
                let word = AliveWord::hold(&segment, WORD).unwrap();
                assert!(alive(&segment));
                drop(word);
                assert!(!alive(&segment));
                // Held again, and not released before the thread ends.
                std::mem::forget(AliveWord::hold(&segment, WORD).unwrap());
                assert!(alive(&segment));
            });
        });
        eventually("the kernel to mark the word", || !alive(&segment));
    }
}
