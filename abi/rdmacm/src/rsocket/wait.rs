//! Sleeping until something may have changed.
//!
//! A thread sleeps in poll(2) over the descriptors of completion channels, of the system's own files, and of its waker; a set of descriptors
//! ([`super::set`]) has one bell for all who sleep for it. Whoever takes an event that others may be sleeping for, or changes what they wait for, tells them; then each looks for itself. So no thread is left asleep because another one was faster.

use crate::boundary::Errno;
use libc::{c_int, pollfd};
use std::cell::RefCell;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Whoever is told when a socket's readiness may have changed: a thread that sleeps, or a set of descriptors.
pub trait Listener: Send + Sync {
    /// Something may have changed. Called with the socket's state locked or not: it must not look at the socket.
    fn hear(&self);
    /// The socket is being closed. Called without any lock.
    fn closing(&self) {}
}

/// A bell: a descriptor that becomes readable when it is rung.
///
/// EMFILE.
pub fn eventfd() -> Result<OwnedFd, Errno> {
    // SAFETY: numbers only.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(crate::boundary::errno());
    }
    // SAFETY: the descriptor was just made.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Rings a bell.
pub fn ring(bell: &OwnedFd) {
    let one = 1u64;
    // SAFETY: eight bytes that live during the call. A full counter is a bell that rings already.
    unsafe { libc::write(bell.as_raw_fd(), (&raw const one).cast(), 8) };
}

/// A thread's bell.
pub struct Waker(OwnedFd);

impl Listener for Waker {
    fn hear(&self) {
        ring(&self.0);
    }
}

impl Waker {
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
        let waker = Arc::new(Waker(eventfd()?));
        *kept = Some((generation, waker.clone()));
        Ok(waker)
    };
    // A thread that ends has no place any more to keep one.
    WAKER
        .try_with(keep)
        .unwrap_or_else(|_| Ok(Arc::new(Waker(eventfd()?))))
}

/// Who waits for a socket.
#[derive(Default)]
pub struct Waiters {
    count: AtomicUsize,
    list: Mutex<Vec<Arc<dyn Listener>>>,
}

impl Waiters {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<dyn Listener>>> {
        // Each update is one operation.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `listener` told until [`Waiters::remove`]. A socket's state must be looked at after this.
    pub fn add(&self, listener: Arc<dyn Listener>) {
        let mut list = self.lock();
        list.push(listener);
        self.count.store(list.len(), Ordering::SeqCst);
    }

    /// Has it told no more.
    pub fn remove(&self, listener: &dyn Listener) {
        let mut list = self.lock();
        if let Some(index) = list.iter().position(|other| is_same(&**other, listener)) {
            list.swap_remove(index);
        }
        self.count.store(list.len(), Ordering::SeqCst);
    }

    /// Has the thread rung for until the result is dropped. A socket's state must be looked at after this.
    pub fn enter<'a>(&'a self, waker: &Arc<Waker>) -> Waiting<'a> {
        self.add(waker.clone());
        Waiting {
            waiters: self,
            waker: waker.clone(),
        }
    }

    /// Tells all of them.
    pub fn wake(&self) {
        self.wake_others(None);
    }

    /// Tells all but the caller, who is awake.
    pub fn wake_others(&self, own: Option<&dyn Listener>) {
        let nobody = usize::from(own.is_some());
        if self.count.load(Ordering::SeqCst) <= nobody {
            return;
        }
        let list = self.lock();
        let others = list
            .iter()
            .filter(|other| own.is_none_or(|own| !is_same(&***other, own)));
        others.for_each(|other| other.hear());
    }

    /// Tells all of them that the socket is being closed.
    pub fn tell_closing(&self) {
        let list = self.lock().clone();
        list.iter().for_each(|listener| listener.closing());
    }
}

fn is_same(one: &dyn Listener, other: &dyn Listener) -> bool {
    std::ptr::addr_eq(one, other)
}

/// A thread's place among a socket's waiters.
pub struct Waiting<'a> {
    waiters: &'a Waiters,
    waker: Arc<Waker>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.waiters.remove(&*self.waker);
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
