//! Real processes for the tests: the test binary runs itself again in a role.
//!
//! The child gets one segment on a fixed descriptor, and runs the test [`child_entry`] alone, which does nothing in
//! an ordinary run. Children are killed and reaped on drop, and die with their parent.

use crate::segment::{Access, Segment};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ROLE: &str = "FERRIBAND_MEMORY_TEST_ROLE";
const FD: i32 = 200;

/// A child process in a role.
pub(crate) struct Child(std::process::Child);

impl Child {
    pub(crate) fn spawn(role: &str, segment: &Segment) -> Child {
        let fd = segment.fd().unwrap().as_raw_fd();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([
            "--exact",
            "test_process::child_entry",
            "--nocapture",
            "--test-threads=1",
        ]);
        command
            .env(ROLE, role)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let place = move || {
            // SAFETY: dup2 is async-signal-safe.
            if unsafe { libc::dup2(fd, FD) } < 0 {
                return Err(std::io::Error::last_os_error());
            }
            // SAFETY: prctl is async-signal-safe; spawning threads here live as long as their test.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            Ok(())
        };
        // SAFETY: the closure makes only async-signal-safe calls.
        unsafe { command.pre_exec(place) };
        Child(command.spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Both fail only for a child that was reaped already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits up to 10 s for a condition.
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "waited in vain for {what}"
        );
        std::thread::yield_now();
    }
}

/// How many rounds the ordering tests run: `normal`, or more where the environment asks for a long run.
pub(crate) fn rounds(normal: u64) -> u64 {
    let factor = std::env::var("FERRIBAND_TEST_FACTOR")
        .ok()
        .and_then(|v| v.parse().ok());
    normal * factor.unwrap_or(1)
}

#[test]
fn child_entry() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    // SAFETY: the parent put a descriptor there for us.
    let fd = unsafe { OwnedFd::from_raw_fd(FD) };
    let segment = Segment::from_fd(fd, 1, Access::ReadWrite).unwrap();
    match role.split('-').next().unwrap() {
        "alive" => crate::alive::tests::child(&role, segment),
        "copy" => crate::copy::tests::child(segment),
        "mapping" => crate::mapping::tests::child(segment),
        "remote" => crate::remote::tests::child(&role, segment),
        other => panic!("no role {other}"),
    }
    std::process::exit(0);
}
