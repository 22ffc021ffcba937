//! Sleeping until something may have changed.
//!
//! A thread sleeps in poll(2) over the descriptors of completion channels, of the system's own files, and of its waker.
//! Whoever takes an event that others may be sleeping for, or changes what they wait for, rings their wakers; then each looks
//! for itself. So no thread is left asleep because another one was faster.

use crate::boundary::Errno;
use libc::{c_int, pollfd};
use std::cell::RefCell;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A thread's bell.
pub struct Waker(OwnedFd);

impl Waker {
    fn new() -> Result<Self, Errno> {
        // SAFETY: numbers only.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(crate::boundary::errno());
        }
        // SAFETY: the descriptor was just made.
        Ok(Waker(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    fn ring(&self) {
        let one = 1u64;
        // SAFETY: eight bytes that live during the call. A full counter is a bell that rings already.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    fn silence(&self) {
        let mut count = 0u64;
        // SAFETY: eight bytes that live during the call. It may be silent already.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
    }
}

/// The calling thread's bell; a forked child gets its own.
///
/// EMFILE.
pub fn waker() -> Result<Arc<Waker>, Errno> {
    thread_local! {
        static WAKER: RefCell<Option<(u32, Arc<Waker>)>> = const { RefCell::new(None) };
    }
    let keep = |kept: &RefCell<Option<(u32, Arc<Waker>)>>| {
        let generation = ferriband_fork::generation();
        let mut kept = kept.borrow_mut();
        if let Some((made, waker)) = &*kept
            && *made == generation
        {
            return Ok(waker.clone());
        }
        let waker = Arc::new(Waker::new()?);
        *kept = Some((generation, waker.clone()));
        Ok(waker)
    };
    // A thread that ends has no place any more to keep one.
    WAKER
        .try_with(keep)
        .unwrap_or_else(|_| Ok(Arc::new(Waker::new()?)))
}

/// The threads that sleep for a socket.
#[derive(Default)]
pub struct Waiters {
    count: AtomicUsize,
    list: Mutex<Vec<Arc<Waker>>>,
}

impl Waiters {
    /// Has the thread rung for until the result is dropped. A socket's state must be looked at after this.
    pub fn enter<'a>(&'a self, waker: &Arc<Waker>) -> Waiting<'a> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.push(waker.clone());
        self.count.store(list.len(), Ordering::SeqCst);
        Waiting {
            waiters: self,
            waker: waker.clone(),
        }
    }

    /// Rings for all of them.
    pub fn wake(&self) {
        self.wake_others(None);
    }

    /// Rings for all but the caller, who is awake.
    pub fn wake_others(&self, own: Option<&Arc<Waker>>) {
        let nobody = usize::from(own.is_some());
        if self.count.load(Ordering::SeqCst) <= nobody {
            return;
        }
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let others = list
            .iter()
            .filter(|waker| own.is_none_or(|own| !Arc::ptr_eq(own, waker)));
        others.for_each(|waker| waker.ring());
    }
}

/// A thread's place among a socket's waiters.
pub struct Waiting<'a> {
    waiters: &'a Waiters,
    waker: Arc<Waker>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut list = (self.waiters.list.lock()).unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = list.iter().position(|w| Arc::ptr_eq(w, &self.waker)) {
            list.swap_remove(index);
        }
        self.waiters.count.store(list.len(), Ordering::SeqCst);
    }
}

/// Sleeps until a descriptor is ready, the bell rings, or it is `until`. The bell is silent after this.
///
/// EINTR.
pub fn sleep(fds: &mut Vec<pollfd>, waker: &Waker, until: Option<Instant>) -> Result<(), Errno> {
    fds.push(pollfd {
        fd: waker.0.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    });
    let count = poll(
        fds,
        until.map(|at| at.saturating_duration_since(Instant::now())),
    );
    let bell = fds.pop().expect("the bell was pushed");
    if bell.revents != 0 {
        waker.silence();
    }
    count.map(|_| ())
}

/// `poll`: how many are ready.
pub fn poll(fds: &mut [pollfd], timeout: Option<Duration>) -> Result<usize, Errno> {
    let timeout = timeout.map(|left| libc::timespec {
        tv_sec: libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: left.subsec_nanos().into(),
    });
    let timeout = timeout
        .as_ref()
        .map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: descriptions with their count; the time lives during the call.
    let count = unsafe {
        libc::ppoll(
            fds.as_mut_ptr(),
            fds.len() as libc::nfds_t,
            timeout,
            std::ptr::null(),
        )
    };
    usize::try_from(count).map_err(|_| crate::boundary::errno())
}

/// Makes a descriptor answer EAGAIN instead of waiting.
pub fn set_nonblocking(fd: RawFd) -> Result<(), Errno> {
    // SAFETY: numbers only.
    let flags: c_int = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    // SAFETY: numbers only.
    if flags < 0 || unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) } < 0 {
        return Err(crate::boundary::errno());
    }
    Ok(())
}
