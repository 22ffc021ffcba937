//! Children of a test.

use crate::raw;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

static ALONE: Mutex<()> = Mutex::new(());

/// As long as this is held no other test of the process's table runs: a child of one would hold the
/// records of the others.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a child is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fork {
    /// By the C library, which calls the handlers.
    Called,
    /// By the system call alone.
    Bare,
}

/// A child that does this and is gone. Gives its process number, by which it has to be waited for.
pub(crate) fn child(how: Fork, does: impl FnOnce()) -> i32 {
    let made = match how {
        // SAFETY: the child does what a child of a process with threads may do.
        Fork::Called => unsafe { libc::fork() },
        Fork::Bare => {
            let arguments = [libc::SIGCHLD as isize, 0, 0, 0, 0, 0];
            // SAFETY: the child does what a child of a process with threads may do.
            let made = unsafe { raw::system_call(libc::SYS_clone, arguments) };
            made.map_or(-1, |made| made as i32)
        }
    };
    assert!(made >= 0, "a child");
    if made == 0 {
        let code = i32::from(catch_unwind(AssertUnwindSafe(does)).is_err());
        // SAFETY: ends the child, and nothing of the parent's.
        unsafe { libc::_exit(code) };
    }
    made
}

/// Waits for a child that ends of itself, and wants it to have done all.
pub(crate) fn join(child: i32) {
    let mut status = -1;
    // SAFETY: writes one number.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((waited, status), (child, 0));
}

/// Kills a child.
pub(crate) fn kill(child: i32) {
    // SAFETY: a child of this process that was not waited for.
    assert_eq!(unsafe { libc::kill(child, libc::SIGKILL) }, 0);
    let mut status = 0;
    // SAFETY: writes one number.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
}

/// Waits until something is so.
pub(crate) fn soon(what: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !what() {
        assert!(Instant::now() < until, "it does not come");
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Sleeps until it is killed.
pub(crate) fn sleep_for_ever() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}
