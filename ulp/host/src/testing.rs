//! Forked children of the tests. Owns: their life.

use std::time::{Duration, Instant};

/// A child's time.
const PATIENCE: Duration = Duration::from_secs(60);

/// A forked child. It is killed if nobody has waited for it.
pub struct Child(libc::pid_t);

/// Runs `body` in a child.
pub fn fork(body: impl FnOnce() -> bool) -> Child {
    // SAFETY: the child allocates and calls the kernel, which this C library's forked children may.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "a child");
    if pid == 0 {
        let body = std::panic::AssertUnwindSafe(body);
        let is_fine = std::panic::catch_unwind(body).unwrap_or(false);
        // SAFETY: ends the child, in which nothing but the body may run.
        unsafe { libc::_exit(i32::from(!is_fine)) }
    }
    Child(pid)
}

impl Child {
    /// What `body` answered; None if a signal has ended the child, or it has not ended in time.
    pub fn end(mut self) -> Option<bool> {
        let (begun, mut status) = (Instant::now(), 0);
        // SAFETY: our own child and a local variable.
        while unsafe { libc::waitpid(self.0, &raw mut status, libc::WNOHANG) } == 0 {
            if begun.elapsed() > PATIENCE {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.0 = 0;
        libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status) == 0)
    }

    /// Whether it sleeps in the kernel.
    pub fn sleeps(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0)).expect("a child");
        let (_, after) = stat.rsplit_once(") ").expect("a name in brackets");
        after.starts_with('S')
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: libc::c_int) {
        // SAFETY: our own child, which has not been waited for.
        assert_eq!(unsafe { libc::kill(self.0, signal) }, 0);
    }

    /// Its process id.
    pub fn pid(&self) -> libc::pid_t {
        self.0
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.0 != 0 {
            // SAFETY: our own child, which has not been waited for.
            unsafe { libc::kill(self.0, libc::SIGKILL) };
            // SAFETY: as for kill; no status is asked for.
            unsafe { libc::waitpid(self.0, std::ptr::null_mut(), 0) };
        }
    }
}
