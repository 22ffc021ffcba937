//! Signals to this process, as something to wait for. What the caller ignores stays ignored: a job under nohup does not end with its terminal.

use crate::caller;
use crate::failure::Failure;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// What is passed on to the ranks, and word of their ends.
const TAKEN: [libc::c_int; 9] = [
    libc::SIGCHLD,
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGTSTP,
    libc::SIGCONT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
];

/// What ends a command that runs other programs.
pub const ENDING: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// What the kernel says of a signal that no process has sent.
const SI_KERNEL: i32 = 0x80;

/// A signal that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Its number.
    pub number: i32,
    /// The kernel has sent it, as for a key of the terminal: all processes of the foreground have it.
    pub is_of_terminal: bool,
}

/// Holds those signals back, and reads them.
pub struct Signals {
    fd: OwnedFd,
    before: libc::sigset_t,
}

impl Signals {
    /// From here on the signals do nothing of themselves.
    pub fn take() -> Result<Self, Failure> {
        Self::of(&TAKEN)
    }

    /// The same for these signals.
    pub fn of(signals: &[libc::c_int]) -> Result<Self, Failure> {
        // SAFETY: signal sets are plain memory, initialized by the calls.
        let (mut set, mut before): (libc::sigset_t, libc::sigset_t) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let is_taken =
            |signal: &&libc::c_int| **signal == libc::SIGCHLD || !caller::ignores(**signal);
        // SAFETY: local sets.
        let fd = unsafe {
            libc::sigemptyset(&raw mut set);
            for signal in signals.iter().filter(is_taken) {
                libc::sigaddset(&raw mut set, *signal);
            }
            libc::sigprocmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
            libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if fd < 0 {
            return Err(Failure::os("wait for", "signals"));
        }
        // SAFETY: a new descriptor.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd, before })
    }

    /// What is readable when signals have come.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// The mask that ranks are to have: the one of before.
    pub fn mask(&self) -> libc::sigset_t {
        self.before
    }

    /// The signals that have come.
    pub fn read(&self) -> Vec<Signal> {
        let mut list = Vec::new();
        loop {
            // SAFETY: plain memory that the kernel fills.
            let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
            let size = size_of::<libc::signalfd_siginfo>();
            // SAFETY: a local structure of that size.
            let read = unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut info).cast(), size) };
            if read != size as isize {
                return list;
            }
            list.extend(i32::try_from(info.ssi_signo).map(|number| Signal {
                number,
                is_of_terminal: info.ssi_code == SI_KERNEL,
            }));
        }
    }
}
