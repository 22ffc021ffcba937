//! The thread that serves the sockets: it takes requests of listening sockets, moves connections on, hears of ends, answers
//! datagrams that ask for a queue pair, and keeps connections alive. So a program that does something else, or sleeps for
//! another socket, keeps none of its peers waiting.

use super::table;
use super::wait::eventfd;
use crate::boundary::Errno;
use crate::system;
use ferriband_sanitizer::Inside;
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The thread's side that others see.
pub struct Service {
    epoll: OwnedFd,
    /// Rung when the timers changed: an eventfd in the epoll set.
    bell: OwnedFd,
    /// When a socket is to be asked whether its peer is still there.
    timers: Mutex<BTreeMap<RawFd, Instant>>,
}

/// The descriptors of the process's service, for its forked children.
static OPEN: [AtomicI32; 2] = [const { AtomicI32::new(-1) }; 2];

/// In a forked child: the descriptors go, the parent's set stays as it is.
pub fn abandon() {
    for fd in &OPEN {
        let fd = fd.swap(-1, Ordering::Relaxed);
        if fd >= 0 {
            // SAFETY: nobody uses them in the child, where the service is not found.
            unsafe { libc::close(fd) };
        }
    }
}

/// Not a descriptor of a socket: the bell.
const BELL: u64 = u64::MAX;

impl Service {
    /// Starts the thread, which takes no signals.
    ///
    /// EMFILE, EAGAIN.
    pub fn start() -> Result<Arc<Self>, Errno> {
        let service = Arc::new(Service {
            epoll: system::epoll_create(libc::EPOLL_CLOEXEC)?,
            bell: eventfd()?,
            timers: Mutex::default(),
        });
        service.change(
            libc::EPOLL_CTL_ADD,
            service.bell.as_raw_fd(),
            BELL,
            libc::EPOLLIN,
        )?;
        let serving = service.clone();
        without_signals(|| {
            std::thread::Builder::new()
                .name("rsocket".into())
                .spawn(move || {
                    let _inside = Inside::enter();
                    serving.run();
                })
        })
        .map_err(|error| error.raw_os_error().unwrap_or(libc::EAGAIN))?;
        for (place, fd) in OPEN.iter().zip([&service.epoll, &service.bell]) {
            place.store(fd.as_raw_fd(), Ordering::Relaxed);
        }
        Ok(service)
    }

    fn change(&self, what: i32, fd: RawFd, data: u64, events: i32) -> Result<(), Errno> {
        system::epoll_set(&self.epoll, what, fd, data, events)
    }

    /// Serves `socket` whenever `fd` is readable.
    pub fn watch(&self, fd: RawFd, socket: RawFd) -> Result<(), Errno> {
        let data = u64::try_from(socket).map_err(|_| libc::EBADF)?;
        match self.change(libc::EPOLL_CTL_ADD, fd, data, libc::EPOLLIN) {
            Err(libc::EEXIST) => self.change(libc::EPOLL_CTL_MOD, fd, data, libc::EPOLLIN),
            other => other,
        }
    }

    /// Looks away until [`Service::watch`].
    pub fn pause(&self, fd: RawFd, socket: RawFd) {
        let data = u64::try_from(socket).unwrap_or(BELL);
        // It may not be watched at all.
        let _ = self.change(libc::EPOLL_CTL_MOD, fd, data, 0);
    }

    /// Forgets a descriptor before it is closed.
    pub fn forget(&self, fd: RawFd) {
        // It may not be watched at all.
        let _ = self.change(libc::EPOLL_CTL_DEL, fd, 0, 0);
        self.timers().remove(&fd);
    }

    /// Has [`super::Socket::tick`] called after `delay`, once; None: not any more.
    pub fn set_timer(&self, socket: RawFd, delay: Option<Duration>) {
        match delay {
            Some(delay) => self.timers().insert(socket, Instant::now() + delay),
            None => self.timers().remove(&socket),
        };
        let one = 1u64;
        // SAFETY: eight bytes that live during the call; a full counter rings as well.
        unsafe { libc::write(self.bell.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    fn timers(&self) -> std::sync::MutexGuard<'_, BTreeMap<RawFd, Instant>> {
        self.timers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        const EVENTS: usize = 64;
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        loop {
            let timeout = self.timers().values().min().map_or(-1, |at| {
                let left = at.saturating_duration_since(Instant::now()).as_millis();
                i32::try_from(left + 1).unwrap_or(i32::MAX)
            });
            let (epoll, room) = (self.epoll.as_raw_fd(), events.as_mut_ptr());
            // SAFETY: places with their count.
            let count = unsafe { system::epoll_wait(epoll, room, EVENTS as i32, timeout) };
            for event in &events[..count.unwrap_or(0)] {
                match RawFd::try_from(event.u64) {
                    Ok(fd) => self.serve(fd),
                    Err(_) => self.hear_bell(),
                }
            }
            self.tick();
        }
    }

    /// One socket. A bug there must not end the service of the others; it would be met again at once, so the socket is no
    /// longer served.
    fn serve(&self, fd: RawFd) {
        let Ok(socket) = table::find(fd) else {
            return; // closed meanwhile
        };
        if std::panic::catch_unwind(AssertUnwindSafe(|| socket.serve())).is_err() {
            self.forget(fd);
        }
    }

    fn hear_bell(&self) {
        let mut count = 0u64;
        // SAFETY: eight bytes that live during the call.
        unsafe { libc::read(self.bell.as_raw_fd(), (&raw mut count).cast(), 8) };
    }

    fn tick(&self) {
        let now = Instant::now();
        let mut due = Vec::new();
        self.timers().retain(|fd, at| {
            let is_due = *at <= now;
            if is_due {
                due.push(*fd);
            }
            !is_due
        });
        for fd in due {
            if let Ok(socket) = table::find(fd) {
                // Without a next time it is not asked again.
                let _ = std::panic::catch_unwind(AssertUnwindSafe(|| socket.tick()));
            }
        }
    }
}

/// Runs `start` while the calling thread blocks all signals, which a thread that it starts inherits.
pub fn without_signals<R>(start: impl FnOnce() -> R) -> R {
    // SAFETY: zeros are a set; it is filled before it is used.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { std::mem::zeroed() };
    // SAFETY: the sets live during the calls.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
    }
    let result = start();
    // SAFETY: as above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    result
}
