//! Tests with real processes: forked, killed, stopped, exec'ed, of another user, in other namespaces.
//!
//! Owns: the harness. A child runs a closure, reports words through a pipe and ends without the test runner's exit path;
//! it is killed when its handle is dropped, and by its own alarm if the runner dies.

mod channel;
mod death;
mod hand_over;
mod join;
mod shared_port;
mod tables;

use super::*;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// After this many seconds a child is gone whatever happens.
const CHILD_SECONDS: u32 = 60;

/// Options with a label of their own: tests run side by side, and beside the user's real domain.
fn options() -> JoinOptions {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let label = format!(
        "t{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    );
    JoinOptions {
        label,
        ..JoinOptions::default()
    }
}

fn join(options: &JoinOptions) -> Host {
    Host::join(options.clone()).unwrap()
}

/// What a child holds: the way to report, and the way to be told.
pub(crate) struct Line {
    out: File,
    input: File,
}

impl Line {
    pub(crate) fn say(&mut self, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        // One write below PIPE_BUF is one piece.
        self.out.write_all(&bytes).unwrap();
    }

    /// Waits until the parent tells it to go on.
    pub(crate) fn wait(&mut self) {
        let _ = self.input.read(&mut [0]);
    }

    pub(crate) fn forever(&mut self) -> ! {
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    }
}

pub(crate) struct Child {
    pid: i32,
    output: File,
    told: File,
    reaped: bool,
}

fn pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = std::io::pipe().unwrap();
    (reader.into(), writer.into())
}

impl Child {
    pub(crate) fn spawn(body: impl FnOnce(&mut Line)) -> Child {
        // One at a time: another child must not inherit the writing ends, whose closing means this child's end.
        static SPAWN: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let _one = SPAWN.lock().unwrap_or_else(|e| e.into_inner());
        let (output, out) = pipe();
        let (input, told) = pipe();
        // SAFETY: the child runs in a copy of this thread alone; it allocates (glibc's fork allows that) and takes no lock
        // of the test runner, then ends by _exit.
        match unsafe { libc::fork() } {
            -1 => panic!("fork: {}", std::io::Error::last_os_error()),
            0 => {
                // SAFETY: no precondition.
                unsafe { libc::alarm(CHILD_SECONDS) };
                drop((output, told));
                let mut line = Line {
                    out: out.into(),
                    input: input.into(),
                };
                let result = catch_unwind(AssertUnwindSafe(|| body(&mut line)));
                if let Err(panic) = &result {
                    // what the runner captures of a child is lost with it
                    let what = panic.downcast_ref::<String>().map_or("?", |s| s);
                    let _ = writeln!(std::io::stderr(), "a test's child: {what}");
                }
                // SAFETY: no precondition.
                unsafe { libc::_exit(if result.is_ok() { 0 } else { 101 }) }
            }
            pid => {
                drop((input, out));
                Child {
                    pid,
                    output: output.into(),
                    told: told.into(),
                    reaped: false,
                }
            }
        }
    }

    /// Reads words that the child said; None if it ended before.
    pub(crate) fn hear<const N: usize>(&mut self) -> Option<[u64; N]> {
        let mut words = [0; N];
        for word in &mut words {
            let mut bytes = [0; 8];
            self.output.read_exact(&mut bytes).ok()?;
            *word = u64::from_le_bytes(bytes);
        }
        Some(words)
    }

    pub(crate) fn tell(&mut self) {
        self.told.write_all(&[1]).unwrap();
    }

    fn signal(&self, signal: i32) {
        assert!(!self.reaped);
        // SAFETY: our own child, not waited for yet, so the number is still its.
        assert_eq!(unsafe { libc::kill(self.pid, signal) }, 0);
    }

    /// Stops it and waits until it has stopped.
    fn stop(&self) {
        self.signal(libc::SIGSTOP);
        let mut status = 0;
        // SAFETY: status is ours.
        unsafe { libc::waitpid(self.pid, &raw mut status, libc::WUNTRACED) };
        assert!(libc::WIFSTOPPED(status));
    }

    fn resume(&self) {
        self.signal(libc::SIGCONT);
    }

    fn kill(&mut self) {
        self.signal(libc::SIGKILL);
        self.wait();
    }

    /// Waits for its end: its exit code, or minus the signal.
    pub(crate) fn wait(&mut self) -> i32 {
        let mut status = 0;
        // SAFETY: status is ours.
        let pid = unsafe { libc::waitpid(self.pid, &raw mut status, 0) };
        assert_eq!(pid, self.pid);
        self.reaped = true;
        if libc::WIFEXITED(status) {
            libc::WEXITSTATUS(status)
        } else {
            -libc::WTERMSIG(status)
        }
    }

    /// Lets it go and expects it to have been content.
    pub(crate) fn finish(mut self) {
        // It may have ended by itself.
        let _ = self.told.write_all(&[1]);
        assert_eq!(self.wait(), 0);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.reaped {
            self.kill();
        }
    }
}

/// A child that joins, reports its reference and the registry's inode, and stays until told.
fn member(options: &JoinOptions) -> Child {
    let options = options.clone();
    Child::spawn(move |line| {
        let host = join(&options);
        line.say(&[host.me().to_word(), host.inode().unwrap()]);
        line.wait();
    })
}

fn process(word: u64) -> ProcessRef {
    ProcessRef::from_word(word).unwrap()
}

/// Repeats until true, for at most ten seconds.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(10), "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
