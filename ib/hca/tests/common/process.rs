//! Other processes: the test binary runs itself again in a role, with a socket to talk by.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use super::PATIENCE;

const ROLE: &str = "FERRIBAND_HCA_TEST_ROLE";
const FD: i32 = 200;

/// A socket for each child may be more than the usual soft limit of an ordinary user.
pub fn raise_descriptor_limit() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure is ours.
    let got = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    limit.rlim_cur = limit.rlim_max.min(65_536);
    // SAFETY: as above.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    assert_eq!((got, set), (0, 0));
}

/// Words to and from another process.
#[derive(Debug)]
pub struct Channel(UnixStream);

impl Channel {
    pub fn new(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE * 2)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Channel(stream)
    }

    pub fn send(&self, words: &[u64]) {
        let mut bytes = (words.len() as u64).to_ne_bytes().to_vec();
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        (&self.0)
            .write_all(&bytes)
            .expect("the other process reads");
    }

    /// The next message; None at the end of the other process. Panics after waiting in vain.
    pub fn try_recv(&self) -> Option<Vec<u64>> {
        let mut word = [0; 8];
        let mut next = || match (&self.0).read_exact(&mut word) {
            Ok(()) => Some(u64::from_ne_bytes(word)),
            Err(e)
                if matches!(
                    e.kind(),
                    ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset
                ) =>
            {
                None
            }
            Err(e) => panic!("no word from the other process: {e}"),
        };
        let count = next()?;
        (0..count).map(|_| next()).collect()
    }

    #[track_caller]
    pub fn recv(&self) -> Vec<u64> {
        self.try_recv()
            .expect("the other process ended unexpectedly")
    }

    /// Waits without a limit: for children, which end with their parent anyway.
    pub fn wait_forever(&self) {
        self.0.set_read_timeout(None).unwrap();
    }
}

/// A child process. Killed and reaped on drop; dies with the thread that started it.
#[derive(Debug)]
pub struct Child {
    process: std::process::Child,
    pub channel: Channel,
}

impl Child {
    /// Starts this test binary again in a role of [`run_role`].
    pub fn spawn(role: &str) -> Child {
        Self::start(role, false, &[])
    }

    /// Starts this test binary again in a role of [`run_role`], with settings of its own; a
    /// variable without a value is not set.
    pub fn spawn_with(role: &str, settings: &[(&str, Option<&str>)]) -> Child {
        Self::start(role, false, settings)
    }

    /// The same without root's right to reach any process's memory: what is left is what the system allows everybody.
    pub fn spawn_ordinary(role: &str) -> Child {
        Self::start(role, true, &[])
    }

    fn start(role: &str, ordinary: bool, settings: &[(&str, Option<&str>)]) -> Child {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let fd = theirs.as_raw_fd();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "child_entry", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        for (name, value) in settings {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let place = move || {
            let placed = if fd == FD {
                // dup2 onto itself would leave it to be closed by exec
                // SAFETY: fcntl is async-signal-safe.
                unsafe { libc::fcntl(fd, libc::F_SETFD, 0) }
            } else {
                // SAFETY: dup2 is async-signal-safe.
                unsafe { libc::dup2(fd, FD) }
            };
            if placed < 0 {
                return Err(std::io::Error::last_os_error());
            }
            if ordinary {
                const CAP_SYS_PTRACE: u64 = 19;
                // taken from the bounding set, exec does not give it back; EPERM says that we are no root anyway
                // SAFETY: prctl is async-signal-safe.
                unsafe { libc::prctl(libc::PR_CAPBSET_DROP, CAP_SYS_PTRACE) };
            }
            // SAFETY: prctl is async-signal-safe; the threads that spawn live as long as their test.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            Ok(())
        };
        // SAFETY: the closure makes only async-signal-safe calls.
        unsafe { command.pre_exec(place) };
        let process = command.spawn().unwrap();
        Child {
            process,
            channel: Channel::new(ours),
        }
    }

    pub fn pid(&self) -> i32 {
        self.process.id() as i32
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: a signal to a child that is not reaped yet.
        assert_eq!(unsafe { libc::kill(self.pid(), signal) }, 0);
    }

    /// Stops the process, and returns when it has stopped.
    pub fn stop(&self) {
        self.signal(libc::SIGSTOP);
        let mut status = 0;
        // SAFETY: waits for our own child to stop; it is not reaped by that.
        let pid = unsafe { libc::waitpid(self.pid(), &mut status, libc::WUNTRACED) };
        assert!(
            pid == self.pid() && libc::WIFSTOPPED(status),
            "the child stops"
        );
    }

    pub fn resume(&self) {
        self.signal(libc::SIGCONT);
    }

    /// SIGKILL, without waiting for the end.
    pub fn shoot(&self) {
        self.signal(libc::SIGKILL);
    }

    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub fn try_wait(&mut self) -> Option<std::process::ExitStatus> {
        self.process.try_wait().unwrap()
    }

    /// A figure of /proc/PID/status, in kB or a count.
    pub fn status(&self, name: &str) -> u64 {
        status_of(&format!("/proc/{}/status", self.pid()), name)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // both fail only for a child that was reaped already
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A figure of a status file of /proc.
pub fn status_of(path: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(path).unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_ascii_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap()
}

/// A role's name and what a process does in it.
pub type Role<'a> = (&'a str, fn(Channel));

/// To be called by a test named `child_entry`: does nothing in an ordinary run.
pub fn run_role(roles: &[Role<'_>]) {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    // SAFETY: the parent put a descriptor there for us.
    let fd = unsafe { OwnedFd::from_raw_fd(FD) };
    let channel = Channel::new(UnixStream::from(fd));
    channel.wait_forever();
    let (_, run) = roles
        .iter()
        .find(|(name, _)| *name == role)
        .expect("a known role");
    run(channel);
    std::process::exit(0);
}
