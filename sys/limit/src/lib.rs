//! The limit on the size of files, and what a library writes under it.
//!
//! Linux takes a memfd for a file, so `RLIMIT_FSIZE` (a shell's `ulimit -f`) holds for it: whoever
//! makes one longer than that, or writes beyond it, is killed by SIGXFSZ. The limit is meant for
//! what fills a disk. For memory it is lifted for the moment in which the file grows, as far as
//! this process may. What is a file of a disk keeps its limit, and what cannot be written is an
//! error: a library that writes is never the end of its program.
//!
//! Owns: the moments in which the limit is another one. Must not know: whose files these are. Each
//! library has its own copy.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// Makes a file of memory as long as is said, whatever the limit on files is.
///
/// # Errors
/// EFBIG if the limit cannot be lifted so far: the hard limit is lower, and this process may not
/// raise it. What ftruncate answers.
pub fn set_length(file: BorrowedFd<'_>, length: u64) -> io::Result<()> {
    let signed = i64::try_from(length).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    with_room(length, || {
        // SAFETY: an open descriptor.
        let done = unsafe { libc::ftruncate(file.as_raw_fd(), signed) };
        (done == 0).then_some(())
    })
}

/// Whether a file of a disk may be so long.
///
/// # Errors
/// EFBIG if it may not: to make it so long would end this process by SIGXFSZ.
pub fn may_be_long(length: u64) -> io::Result<()> {
    if length > limit()?.rlim_cur {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    Ok(())
}

/// Writes all of `content` to the beginning of a file of memory, whatever the limit on files is.
///
/// # Errors
/// EFBIG as of [`set_length`]; ENOSPC if not all of it was written; what pwrite answers.
pub fn fill(file: BorrowedFd<'_>, content: &[u8]) -> io::Result<()> {
    let written = with_room(content.len() as u64, || {
        // SAFETY: an open descriptor, and a buffer as long as said.
        let written =
            unsafe { libc::pwrite(file.as_raw_fd(), content.as_ptr().cast(), content.len(), 0) };
        usize::try_from(written).ok()
    })?;
    if written < content.len() {
        return Err(io::Error::from_raw_os_error(libc::ENOSPC));
    }
    Ok(())
}

/// Calls `act`, which writes to files or pipes, so that neither a limit on files nor a pipe that
/// nobody reads ends the process: it finds EFBIG or EPIPE instead.
pub fn without_signals<T>(act: impl FnOnce() -> T) -> T {
    // SAFETY: zeroed sets are valid ones, which the calls fill; all of them are local. errno, which
    // `act` may have set, is read by nobody after it.
    unsafe {
        let (mut guarded, mut before, mut pending): (
            libc::sigset_t,
            libc::sigset_t,
            libc::sigset_t,
        ) = std::mem::zeroed();
        libc::sigemptyset(&raw mut guarded);
        for signal in GUARDED {
            libc::sigaddset(&raw mut guarded, signal);
        }
        libc::sigpending(&raw mut pending);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const guarded, &raw mut before);
        let done = act();
        // What came of the act is sent to this thread, and taken here; what was pending before it
        // is somebody else's.
        for signal in GUARDED {
            if libc::sigismember(&raw const pending, signal) == 1 {
                continue;
            }
            let mut one: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut one);
            libc::sigaddset(&raw mut one, signal);
            let at_once: libc::timespec = std::mem::zeroed();
            while libc::sigtimedwait(&raw const one, std::ptr::null_mut(), &raw const at_once) < 0
                && *libc::__errno_location() == libc::EINTR
            {}
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        done
    }
}

/// Signals by which a write ends a process that does not expect it.
const GUARDED: [libc::c_int; 2] = [libc::SIGXFSZ, libc::SIGPIPE];

/// Calls `act`, one system call that answers None with errno, while files may be `length` bytes
/// long.
fn with_room<T>(length: u64, act: impl Fn() -> Option<T>) -> io::Result<T> {
    let attempt = || act().ok_or_else(io::Error::last_os_error);
    // any other limit may be one that a thread has lifted just now
    if limit()?.rlim_cur == libc::RLIM_INFINITY {
        return attempt();
    }
    let _turn = Turn::take();
    let before = limit()?;
    let is_lifted = length > before.rlim_cur;
    if is_lifted {
        lift(&before, length)?;
    }
    let done = without_signals(attempt);
    if is_lifted {
        // SAFETY: a local structure. To lower a limit needs no privilege.
        unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const before) };
    }
    done
}

/// The process that has lifted the limit, or 0: a thread that does so while another one has would
/// take the lifted limit for the program's own.
static LIFTED_BY: AtomicU32 = AtomicU32::new(0);

/// The right to lift the limit. It is no lock of the standard library, because a forked child finds
/// it free, whoever had it.
struct Turn;

impl Turn {
    fn take() -> Self {
        let me = std::process::id();
        loop {
            let holder = LIFTED_BY.load(Ordering::Relaxed);
            if holder == me {
                std::thread::yield_now();
                continue;
            }
            // what a parent's thread had at the fork is nobody's here
            let taken =
                LIFTED_BY.compare_exchange(holder, me, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                return Self;
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        LIFTED_BY.store(0, Ordering::Release);
    }
}

fn limit() -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a local structure.
    if unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0 {
        Ok(limit)
    } else {
        Err(io::Error::last_os_error())
    }
}

fn lift(before: &libc::rlimit, length: u64) -> io::Result<()> {
    let wanted = libc::rlimit {
        rlim_cur: length,
        rlim_max: before.rlim_max.max(length),
    };
    // SAFETY: a local structure.
    if unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const wanted) } == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::EFBIG))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::{AsFd, FromRawFd, OwnedFd};

    fn memory() -> File {
        // SAFETY: a name that ends in zero.
        let fd = unsafe { libc::memfd_create(c"limit".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(fd >= 0);
        // SAFETY: a new descriptor.
        File::from(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// What a child with these limits ends with: limits are the process's, and a signal would end
    /// the tests. None: a signal has ended it.
    fn limited(soft: u64, hard: Option<u64>, body: impl FnOnce() -> bool) -> Option<bool> {
        // SAFETY: the child makes system calls and allocates, which this C library's forked
        // children may; it does not return.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let now = limit().expect("a limit");
            let set = libc::rlimit {
                rlim_cur: soft,
                rlim_max: hard.unwrap_or(now.rlim_max),
            };
            // SAFETY: numbers and a local structure; ends the child.
            unsafe {
                libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
                libc::signal(libc::SIGPIPE, libc::SIG_DFL);
                let fine = libc::setrlimit(libc::RLIMIT_FSIZE, &raw const set) == 0 && body();
                libc::_exit(i32::from(!fine))
            }
        }
        let mut status = 0;
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status) == 0)
    }

    #[test]
    fn memory_grows_beyond_a_soft_limit_which_stays() {
        let fine = limited(0, None, || {
            let file = memory();
            let (length, filled) = (
                set_length(file.as_fd(), 1 << 20),
                fill(file.as_fd(), b"content"),
            );
            let mut text = [0; 7];
            length.is_ok()
                && filled.is_ok()
                && (&file).read_exact(&mut text).is_ok()
                && text == *b"content"
                && limit().is_ok_and(|limit| limit.rlim_cur == 0)
        });
        assert_eq!(fine, Some(true));
    }

    #[test]
    fn several_threads_leave_the_limit_as_it_was() {
        let fine = limited(4096, None, || {
            let grown = std::thread::scope(|scope| {
                let grow = |_| {
                    scope.spawn(|| (0..200).all(|_| set_length(memory().as_fd(), 1 << 20).is_ok()))
                };
                let threads: Vec<_> = (0..4).map(grow).collect();
                threads
                    .into_iter()
                    .all(|thread| thread.join().unwrap_or(false))
            });
            grown && limit().is_ok_and(|limit| limit.rlim_cur == 4096)
        });
        assert_eq!(fine, Some(true));
    }

    #[test]
    fn a_hard_limit_is_an_error_and_no_signal() {
        let fine = limited(0, Some(0), || {
            let file = memory();
            // SAFETY: a query. Whoever may raise hard limits has none.
            let may_raise = lift(&limit().expect("a limit"), 1).is_ok();
            let length = set_length(file.as_fd(), 4096);
            let written = without_signals(|| (&file).write_all(b"x"));
            let is_big = |done: io::Result<()>| {
                done.is_err_and(|error| error.raw_os_error() == Some(libc::EFBIG))
            };
            may_raise || (is_big(length) && is_big(written))
        });
        assert_eq!(fine, Some(true));
    }

    #[test]
    fn a_file_of_a_disk_may_be_as_long_as_the_soft_limit_says() {
        let fine = limited(4096, None, || {
            let longer = may_be_long(4097).map_err(|error| error.raw_os_error());
            may_be_long(4096).is_ok() && longer == Err(Some(libc::EFBIG))
        });
        assert_eq!(fine, Some(true));
    }

    #[test]
    fn a_pipe_that_nobody_reads_is_an_error_and_no_signal() {
        let fine = limited(libc::RLIM_INFINITY, None, || {
            let (reader, mut writer) = io::pipe().expect("a pipe");
            drop(reader);
            let twice = [0, 1].map(|_| without_signals(|| writer.write_all(b"x")));
            // SAFETY: a local set.
            let is_clear = unsafe {
                let mut pending: libc::sigset_t = std::mem::zeroed();
                libc::sigpending(&raw mut pending);
                libc::sigismember(&raw const pending, libc::SIGPIPE) == 0
            };
            is_clear && twice.iter().all(Result::is_err)
        });
        assert_eq!(fine, Some(true));
        // the guard is needed
        let alone = limited(libc::RLIM_INFINITY, None, || {
            let (reader, mut writer) = io::pipe().expect("a pipe");
            drop(reader);
            writer.write_all(b"x").is_ok()
        });
        assert_eq!(alone, None);
    }
}
