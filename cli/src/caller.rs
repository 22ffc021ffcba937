//! What the caller of this program has left to it, as it was before the language's runtime and this program changed it: signals that are ignored, standard
//! descriptors that are closed. Programs that are started for the caller get it back.
//!
//! A caller may ignore SIGCHLD, and then the kernel tells nobody how a child has ended. This process waits for children, so it does not ignore that signal; neither
//! do its own helpers.

use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A bit for each signal that the caller ignores.
static IGNORED: AtomicU32 = AtomicU32::new(0);
/// A bit for each standard descriptor that the caller has closed.
static CLOSED: AtomicU32 = AtomicU32::new(0);

/// The signals that were there before there were real-time ones.
const SIGNALS: std::ops::Range<libc::c_int> = 1..32;

// The runtime ignores SIGPIPE and opens /dev/null where a standard descriptor is closed, before main.
#[used]
// SAFETY: the section holds functions of this type, which the loader calls before main.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    let ignored = SIGNALS.filter(|signal| disposition(*signal) == Some(libc::SIG_IGN));
    IGNORED.store(
        ignored.fold(0, |bits, signal| bits | 1 << signal),
        Ordering::Relaxed,
    );
    // SAFETY: a query about a descriptor.
    let closed = (0..3).filter(|fd| unsafe { libc::fcntl(*fd, libc::F_GETFD) } < 0);
    CLOSED.store(closed.fold(0, |bits, fd| bits | 1 << fd), Ordering::Relaxed);
}

fn disposition(signal: libc::c_int) -> Option<libc::sighandler_t> {
    // SAFETY: a zeroed structure is a valid one, which the call fills.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a local structure.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    (asked == 0).then_some(action.sa_sigaction)
}

/// Whether the caller ignores a signal.
pub fn ignores(signal: libc::c_int) -> bool {
    IGNORED.load(Ordering::Relaxed) & (1 << signal) != 0
}

/// From here on the ends of children are seen, and a file that may not grow (`ulimit -f`) is an error of whoever writes to it.
pub fn settle() {
    // SAFETY: the calls take no memory; no other thread runs yet.
    unsafe {
        if ignores(libc::SIGCHLD) {
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        }
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// The program that `command` starts ignores what the caller ignores.
pub fn give_back_signals(command: &mut Command) {
    // SAFETY: between fork and exec: system calls alone.
    unsafe { command.pre_exec(restore_signals) };
}

/// The program that takes this process's place finds everything as the caller has left it.
pub fn give_back(command: &mut Command) {
    give_back_signals(command);
    let close = || {
        for fd in (0..3).filter(|fd| is_closed(*fd)) {
            // SAFETY: the descriptor is the runtime's replacement, and nobody here uses it any more.
            unsafe { libc::close(fd) };
        }
        Ok(())
    };
    // SAFETY: between fork and exec: system calls alone.
    unsafe { command.pre_exec(close) };
}

/// Whether the caller has closed a standard descriptor.
pub fn is_closed(fd: RawFd) -> bool {
    CLOSED.load(Ordering::Relaxed) & (1 << fd) != 0
}

/// Makes the dispositions of signals those of the caller again, in a process that becomes another program. Signal-safe.
pub fn restore_signals() -> io::Result<()> {
    for signal in SIGNALS {
        let now = if ignores(signal) {
            libc::SIG_IGN
        } else {
            libc::SIG_DFL
        };
        // SAFETY: the calls take no memory. Two signals cannot be set, and are not.
        unsafe {
            if disposition(signal).is_some_and(|action| action != now) {
                libc::signal(signal, now);
            }
        }
    }
    Ok(())
}
