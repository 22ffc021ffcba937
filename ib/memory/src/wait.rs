//! The Linux primitives to wait and to wake: eventfd, epoll, futex, the monotonic clock, and the spin before.
//!
//! Owns: these descriptors and calls, safe against signals: an interrupted call is repeated, with what is left of its
//! time. Must not know: what is waited for.

use crate::Error;
use crate::segment::Span;
use ferriband_transport::types::Instant;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFlags, Timespec};
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::thread::futex;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// Now on CLOCK_MONOTONIC, read in the vdso (no system call).
#[inline]
pub fn now() -> Instant {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Instant(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// An eventfd: a counter that wakes whoever polls its descriptor.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// A nonblocking, close-on-exec eventfd that counts from 0. With `semaphore`, each [`EventFd::take`] takes one;
    /// otherwise it takes all.
    ///
    /// # Errors
    /// `System` (EMFILE, ENFILE) or `OutOfMemory`.
    pub fn new(semaphore: bool) -> Result<EventFd, Error> {
        let mut flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        flags.set(EventfdFlags::SEMAPHORE, semaphore);
        let fd = rustix::event::eventfd(0, flags).map_err(|e| system("eventfd", e))?;
        Ok(EventFd(fd))
    }

    /// Takes over an eventfd that came from elsewhere (a peer); it must be nonblocking.
    pub fn from_fd(fd: OwnedFd) -> EventFd {
        EventFd(fd)
    }

    /// Takes over one that a peer says is an eventfd. None for what could end or block who writes
    /// to it: a pipe, a socket, a device.
    pub fn of_peer(fd: OwnedFd) -> Option<EventFd> {
        let stat = rustix::fs::fstat(&fd).ok()?;
        let refused = [
            FileType::Fifo,
            FileType::Socket,
            FileType::CharacterDevice,
            FileType::BlockDevice,
        ];
        if refused.contains(&FileType::from_raw_mode(stat.st_mode)) {
            return None;
        }
        rustix::io::ioctl_fionbio(&fd, true).ok()?;
        Some(EventFd(fd))
    }

    /// Adds `count` (below 2^64 - 1) and wakes. A counter that is full stays full: whoever polls it is awake.
    #[inline]
    pub fn signal(&self, count: u64) {
        let result = rustix::io::retry_on_intr(|| rustix::io::write(&self.0, &count.to_ne_bytes()));
        debug_assert!(matches!(result, Ok(8) | Err(Errno::AGAIN)), "{result:?}");
    }

    /// Takes the count, or one of it from a semaphore; None if it is 0. Never blocks.
    pub fn take(&self) -> Option<u64> {
        let mut count = [0; 8];
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.0, &mut count)) {
            Ok(8) => Some(u64::from_ne_bytes(count)),
            _ => None,
        }
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// One readiness event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ready {
    /// The token that the descriptor was added with.
    pub token: u64,
    /// It can be read, or accepts.
    pub readable: bool,
    /// It can be written.
    pub writable: bool,
    /// The other side hung up, or the descriptor has an error.
    pub hangup: bool,
}

/// Readiness of many descriptors, level triggered.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

/// Events fetched by one [`Epoll::wait`] at most; the rest come with the next call.
pub const MAX_READY: usize = 64;

impl Epoll {
    /// An empty set, close-on-exec.
    ///
    /// # Errors
    /// `System` (EMFILE, ENFILE) or `OutOfMemory`.
    pub fn new() -> Result<Epoll, Error> {
        epoll::create(CreateFlags::CLOEXEC)
            .map(Epoll)
            .map_err(|e| system("epoll_create1", e))
    }

    /// Adds a descriptor; its events carry `token`. Reading is always watched, writing if `writable`.
    ///
    /// # Errors
    /// `System`: EEXIST if it is in the set, EPERM if it cannot be polled.
    pub fn add(&self, fd: impl AsFd, token: u64, writable: bool) -> Result<(), Error> {
        epoll::add(&self.0, fd, EventData::new_u64(token), interest(writable))
            .map_err(|e| system("epoll_ctl(ADD)", e))
    }

    /// Changes what is watched.
    ///
    /// # Errors
    /// `System`: ENOENT if it is not in the set.
    pub fn modify(&self, fd: impl AsFd, token: u64, writable: bool) -> Result<(), Error> {
        epoll::modify(&self.0, fd, EventData::new_u64(token), interest(writable))
            .map_err(|e| system("epoll_ctl(MOD)", e))
    }

    /// Removes a descriptor. Do so before closing it: a duplicate elsewhere would keep it in the set.
    ///
    /// # Errors
    /// `System`: ENOENT if it is not in the set.
    pub fn remove(&self, fd: impl AsFd) -> Result<(), Error> {
        epoll::delete(&self.0, fd).map_err(|e| system("epoll_ctl(DEL)", e))
    }

    /// Waits until something is ready or `timeout_ns` passed (None: without end), then appends to `ready`, which is
    /// cleared first. Gives how many. Up to [`MAX_READY`] per call.
    ///
    /// # Errors
    /// `System`, if the kernel refuses; not for signals.
    pub fn wait(&self, ready: &mut Vec<Ready>, timeout_ns: Option<u64>) -> Result<usize, Error> {
        ready.clear();
        let deadline = timeout_ns.map(|ns| now().plus_ns(ns));
        let mut left = timeout_ns;
        let mut buffer = [MaybeUninit::uninit(); MAX_READY];
        loop {
            match self.fetch(&mut buffer, left) {
                Ok(events) => {
                    ready.extend(events.iter().map(|event| {
                        // The kernel's structure is packed: copy before use.
                        let (flags, data) = (event.flags, event.data);
                        Ready {
                            token: data.u64(),
                            readable: flags.contains(EventFlags::IN),
                            writable: flags.contains(EventFlags::OUT),
                            hangup: flags
                                .intersects(EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP),
                        }
                    }));
                    return Ok(ready.len());
                }
                Err(Errno::INTR) => {
                    left = deadline.map(|d| d.0.saturating_sub(now().0));
                }
                Err(e) => return Err(system("epoll_wait", e)),
            }
        }
    }

    /// What is ready, at the latest when a time is over. The time goes to ppoll(2), which takes
    /// nanoseconds: epoll_pwait2 is missing before Linux 5.11 and under valgrind.
    fn fetch<'a>(
        &self,
        buffer: &'a mut [MaybeUninit<epoll::Event>; MAX_READY],
        timeout_ns: Option<u64>,
    ) -> Result<&'a [epoll::Event], Errno> {
        if let Some(ns) = timeout_ns {
            let mut asked = [rustix::event::PollFd::new(&self.0, PollFlags::IN)];
            if rustix::event::poll(&mut asked, Some(&timespec(ns)))? == 0 {
                return Ok(&[]);
            }
        }
        let milliseconds: libc::c_int = if timeout_ns.is_some() { 0 } else { -1 };
        // All six arguments: rustix leaves the last one out, which valgrind reports.
        // SAFETY: the buffer has room for so many events of the kernel's layout; without a mask its
        // size counts for nothing.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait,
                self.0.as_raw_fd(),
                buffer.as_mut_ptr(),
                MAX_READY,
                milliseconds,
                std::ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        };
        let count = usize::try_from(count).map_err(|_| last_errno())?;
        // SAFETY: the kernel has filled so many, and no more than there are.
        Ok(unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast(), count.min(MAX_READY)) })
    }
}

fn last_errno() -> Errno {
    let error = std::io::Error::last_os_error();
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits until one of up to 64 descriptors can be read, or has an error, for at most `timeout_ns`
/// (None: without end), or until a signal's handler has run. Gives the positions of those that are
/// ready as bits; 0 if there are none.
pub fn any_readable(descriptors: &[BorrowedFd<'_>], timeout_ns: Option<u64>) -> u64 {
    let mut asked: arrayvec::ArrayVec<_, 64> = descriptors
        .iter()
        .take(64)
        .map(|fd| rustix::event::PollFd::from_borrowed_fd(*fd, PollFlags::IN))
        .collect();
    let timeout = timeout_ns.map(timespec);
    match rustix::event::poll(&mut asked, timeout.as_ref()) {
        Ok(1..) => asked
            .iter()
            .enumerate()
            .filter(|(_, fd)| !fd.revents().is_empty())
            .fold(0, |ready, (at, _)| ready | 1 << at),
        _ => 0,
    }
}

/// Sleeps while the 4 bytes at `off` of `span` equal `expected`, for at most `timeout_ns` (None: without end), until
/// [`futex_wake`]. Works between processes. Gives false if the time is over; true says only: look again.
pub fn futex_wait(span: &Span, off: usize, expected: u32, timeout_ns: Option<u64>) -> bool {
    let deadline = timeout_ns.map(|ns| now().plus_ns(ns));
    let mut left = timeout_ns;
    loop {
        let timeout = left.map(timespec);
        let word: &AtomicU32 = span.futex_word(off);
        match futex::wait(word, futex::Flags::empty(), expected, timeout.as_ref()) {
            Err(Errno::INTR) => {
                if word.load(Ordering::Acquire) != expected {
                    return true;
                }
                left = deadline.map(|d| d.0.saturating_sub(now().0));
            }
            Err(Errno::TIMEDOUT) => return false,
            // AGAIN: the value differed. Anything else cannot be waited on: let the caller look.
            Ok(()) | Err(_) => return true,
        }
    }
}

/// Wakes up to `count` sleepers of [`futex_wait`] on the 4 bytes at `off`; gives how many woke.
pub fn futex_wake(span: &Span, off: usize, count: u32) -> usize {
    futex::wake(span.futex_word(off), futex::Flags::empty(), count).unwrap_or(0)
}

/// Spins, then yields, until its time is over: the wait before a sleep.
///
/// While cores are oversubscribed the other side can only run if we yield; so after a few hundred spins each round
/// calls sched_yield, which on an idle core returns at once.
#[derive(Debug)]
pub struct Spin {
    rounds: u32,
    budget_ns: u64,
    deadline: Option<Instant>,
}

/// Rounds without a system call, a clock or a doubt.
const FREE_ROUNDS: u32 = 256;

impl Spin {
    /// A wait of about `budget_ns`; its time starts with the first round that looks at the clock.
    pub const fn new(budget_ns: u64) -> Spin {
        Spin {
            rounds: 0,
            budget_ns,
            deadline: None,
        }
    }

    /// One round, between two looks at what is awaited. False once the time is over: sleep now.
    #[inline]
    pub fn step(&mut self) -> bool {
        self.rounds = self.rounds.wrapping_add(1);
        if self.rounds <= FREE_ROUNDS {
            std::hint::spin_loop();
            return true;
        }
        self.yield_step()
    }

    /// Starts over, after progress was made.
    #[inline]
    pub fn reset(&mut self) {
        self.rounds = 0;
        self.deadline = None;
    }

    #[inline(never)]
    fn yield_step(&mut self) -> bool {
        rustix::thread::sched_yield();
        self.rounds = FREE_ROUNDS;
        let now = now();
        let deadline = *self.deadline.get_or_insert(now.plus_ns(self.budget_ns));
        now < deadline
    }
}

fn interest(writable: bool) -> EventFlags {
    let mut flags = EventFlags::IN | EventFlags::RDHUP;
    flags.set(EventFlags::OUT, writable);
    flags
}

fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    }
}

#[cold]
fn system(call: &'static str, errno: Errno) -> Error {
    Error::from_errno(call, errno.raw_os_error(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Segment;
    use std::sync::atomic::AtomicBool;

    const MS: u64 = 1_000_000;

    #[test]
    fn eventfd_counts_and_semaphore_gives_one_at_a_time() {
        let all = EventFd::new(false).unwrap();
        assert_eq!(all.take(), None);
        all.signal(2);
        all.signal(3);
        assert_eq!(all.take(), Some(5));
        assert_eq!(all.take(), None);
        let one = EventFd::new(true).unwrap();
        one.signal(2);
        assert_eq!(
            [one.take(), one.take(), one.take()],
            [Some(1), Some(1), None]
        );
        all.signal(u64::MAX - 1);
        all.signal(7);
        assert_eq!(
            all.take(),
            Some(u64::MAX - 1),
            "a full counter stays full and does not block"
        );
    }

    #[test]
    fn epoll_reports_tokens_and_changes() {
        let (epoll, event) = (Epoll::new().unwrap(), EventFd::new(false).unwrap());
        let mut ready = Vec::new();
        epoll.add(&event, 77, false).unwrap();
        assert_eq!(
            epoll.add(&event, 1, false).unwrap_err().errno(),
            libc::EEXIST
        );
        assert_eq!(epoll.wait(&mut ready, Some(0)), Ok(0));
        event.signal(1);
        assert_eq!(epoll.wait(&mut ready, None), Ok(1));
        let want = Ready {
            token: 77,
            readable: true,
            writable: false,
            hangup: false,
        };
        assert_eq!(ready, [want]);
        epoll.modify(&event, 78, true).unwrap();
        assert_eq!(epoll.wait(&mut ready, None), Ok(1));
        assert_eq!(
            ready,
            [Ready {
                token: 78,
                writable: true,
                ..want
            }]
        );
        epoll.remove(&event).unwrap();
        assert_eq!(epoll.wait(&mut ready, Some(0)), Ok(0));
        assert_eq!(epoll.remove(&event).unwrap_err().errno(), libc::ENOENT);
    }

    #[test]
    fn signals_do_not_cut_waits_short() {
        extern "C" fn nothing(_: i32) {}
        // SAFETY: installs a handler that does nothing, without SA_RESTART, for a signal nobody else here uses.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
            libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut());
        }
        let (segment, done) = (Segment::private(64).unwrap(), AtomicBool::new(false));
        // SAFETY: asks for this thread's handle.
        let waiter = unsafe { libc::pthread_self() };
        let elapsed = std::thread::scope(|s| {
            s.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // SAFETY: the waiter lives until the scope ends, which is after `done`.
                    unsafe { libc::pthread_kill(waiter, libc::SIGUSR2) };
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
            });
            let started = now();
            let mut ready = Vec::new();
            assert_eq!(Epoll::new().unwrap().wait(&mut ready, Some(30 * MS)), Ok(0));
            let middle = now();
            assert!(!futex_wait(&segment, 0, 0, Some(30 * MS)));
            let end = now();
            done.store(true, Ordering::Relaxed);
            (middle.0 - started.0, end.0 - middle.0)
        });
        assert!(elapsed.0 >= 30 * MS && elapsed.1 >= 30 * MS, "{elapsed:?}");
    }

    #[test]
    fn futex_wakes_a_sleeper_and_refuses_a_changed_word() {
        let segment = Segment::create("futex", 4096).unwrap();
        segment.store_u32(12, 1, Ordering::Release);
        assert!(
            futex_wait(&segment, 12, 0, None),
            "the word differs: no sleep"
        );
        std::thread::scope(|s| {
            s.spawn(|| {
                while segment.load_u32(12, Ordering::Acquire) == 1 {
                    assert!(futex_wait(&segment, 12, 1, Some(10_000 * MS)));
                }
            });
            std::thread::sleep(std::time::Duration::from_millis(5));
            segment.store_u32(12, 2, Ordering::Release);
            futex_wake(&segment, 12, 1);
        });
        assert_eq!(futex_wake(&segment, 12, u32::MAX), 0);
    }

    #[test]
    fn spin_ends_after_its_budget_and_starts_over() {
        let mut spin = Spin::new(MS);
        let started = now();
        while spin.step() {}
        assert!(now().0 - started.0 >= MS);
        assert!(!spin.step(), "over is over");
        spin.reset();
        assert!(spin.step());
    }
}
