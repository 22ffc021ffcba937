//! Sleeping until something may have changed.
//!
//! A thread sleeps in poll(2) over the descriptors of completion channels, of the system's own files, and of its waker; a set of descriptors
//! ([`super::set`]) has one bell for all who sleep for it. Whoever takes an event that others may be sleeping for, or changes what they wait for, tells them; then each looks for itself. So no thread is left asleep because another one was faster.
//!
//! A thread that sleeps may be cancelled, so nothing on its stack may matter: what must wait
//! answers [`ASLEEP`], which goes up as an error does to the entry point. That sleeps there and
//! begins again; the [`Call`] says how far it had come. So between the beginning and the sleep a
//! call does nothing twice.

use super::poll::readable;
use super::{Socket, settings, table};
use crate::boundary::{Errno, Failure, waiting_entry};
use crate::system;
use ferriband_cancel::{Sleep, time_left};
use libc::{c_int, pollfd};
use std::cell::RefCell;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

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
    /// Readable while it rings.
    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// It rings no more.
    pub fn silence(&self) {
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

    /// Has the thread rung for until the result is dropped. The socket's state must be looked at
    /// after this.
    pub fn enter(socket: &Arc<Socket>, waker: &Arc<Waker>) -> Waiting {
        socket.waiters.add(waker.clone());
        Waiting {
            socket: socket.clone(),
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

/// What a call answers to its entry point when it must wait: no errno.
pub const ASLEEP: Errno = -1;

/// When a wait ends without what was waited for.
#[derive(Clone, Copy)]
pub enum Patience {
    /// At once.
    None,
    /// Then.
    Until(Instant),
    /// Never.
    Endless,
}

/// What a call on a socket has done, and what it sleeps for, between the runs of its body.
#[derive(Default)]
pub struct Call {
    /// Steps of the call that are done.
    pub stage: u32,
    /// Bytes that have come or gone.
    pub done: usize,
    /// When its patience ends, once that was settled.
    pub end: Option<Instant>,
    /// It has polled for as long as a call does before it sleeps.
    has_polled: bool,
    /// The socket that it waits for, and the bell.
    waiting: Option<Waiting>,
    /// What it sleeps on, and until when.
    fds: Vec<pollfd>,
    until: Option<Instant>,
    /// The last sleep has failed.
    error: Option<Errno>,
    /// The socket is being closed, which has to come to its end.
    pub closes: Option<Arc<Socket>>,
}

impl Drop for Call {
    fn drop(&mut self) {
        self.waiting = None;
        if let Some(socket) = self.closes.take() {
            socket.end_close();
        }
    }
}

impl Call {
    /// Waits until `look` has found what it looks for; it is called without any lock.
    ///
    /// EAGAIN when patience is at its end, EINTR, ASLEEP.
    pub fn until<S>(
        &mut self,
        socket: &Arc<Socket>,
        patience: Patience,
        mut look: impl FnMut() -> Option<S>,
    ) -> Result<S, Errno> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if let Some(found) = look() {
            return Ok(found);
        }
        if matches!(patience, Patience::None) {
            return Err(libc::EAGAIN);
        }
        let begin = Instant::now();
        while !self.has_polled && begin.elapsed() < settings::polling() {
            std::hint::spin_loop();
            if let Some(found) = look() {
                return Ok(found);
            }
        }
        self.has_polled = true;
        if self.waiting.is_none() {
            self.waiting = Some(Waiters::enter(socket, &waker()?));
        }
        self.fds.clear();
        let fds = &mut self.fds;
        socket.arm(&mut |fd| {
            fds.push(readable(fd));
            Ok(())
        })?;
        if let Some(found) = look() {
            return Ok(found);
        }
        self.until = match patience {
            Patience::Until(at) if at <= Instant::now() => return Err(libc::EAGAIN),
            Patience::Until(at) => Some(at),
            _ => None,
        };
        Err(ASLEEP)
    }

    /// The next sleep is for what the call waits for.
    fn prepare(&mut self, sleep: &mut Sleep) {
        self.fds.iter().for_each(|fd| sleep.on(fd.fd, fd.events));
        if let Some(waiting) = &self.waiting {
            sleep.on(waiting.waker.fd(), libc::POLLIN);
        }
        if let Some(until) = self.until {
            sleep.until(until);
        }
    }

    /// The sleep is over: takes the events that came.
    fn wake(&mut self, ready: Result<Vec<pollfd>, Errno>) {
        let Some(Waiting { socket, waker }) = &self.waiting else {
            return;
        };
        match ready {
            Err(error) => self.error = Some(error),
            Ok(ready) => {
                let is_ready = |fd: &pollfd| fd.revents != 0;
                if ready.last().is_some_and(is_ready) {
                    waker.silence();
                }
                if ready.iter().rev().skip(1).any(is_ready) {
                    socket.take_events(&**waker);
                }
            }
        }
    }
}

/// Runs a call on a socket that may wait: the body of an `extern "C-unwind"` function. The body
/// runs from the beginning after each sleep.
#[inline(always)]
pub fn on_socket<R: Failure + Copy>(
    fd: RawFd,
    mut body: impl FnMut(&Arc<Socket>, &mut Call) -> Result<R, Errno>,
) -> R {
    waiting_entry(|sleep| {
        let mut kept = match sleep.take_kept::<(Arc<Socket>, Call)>() {
            Some(mut kept) => {
                kept.1.wake(sleep.take_ready());
                kept
            }
            None => {
                // what need not sleep allocates nothing
                let (socket, mut call) = (table::find(fd)?, Call::default());
                match body(&socket, &mut call) {
                    Err(ASLEEP) => {
                        call.prepare(sleep);
                        sleep.keep(Box::new((socket, call)));
                        return Ok(None);
                    }
                    result => return result.map(Some),
                }
            }
        };
        let (socket, call) = &mut *kept;
        match body(socket, call) {
            Err(ASLEEP) => {
                call.prepare(sleep);
                sleep.keep(kept);
                Ok(None)
            }
            result => result.map(Some),
        }
    })
}

/// Runs a call on a socket to its end, however long it waits: in a thread that nobody cancels, or
/// where a call must not end before.
pub fn to_its_end<R>(mut body: impl FnMut(&mut Call) -> Result<R, Errno>) -> Result<R, Errno> {
    let mut call = Call::default();
    loop {
        match body(&mut call) {
            Err(ASLEEP) => {}
            result => return result,
        }
        let mut fds = call.fds.clone();
        fds.extend(
            call.waiting
                .iter()
                .map(|waiting| readable(waiting.waker.fd())),
        );
        let left = call.until.map(time_left);
        let slept = system::ppoll(&mut fds, left);
        call.wake(slept.map(|_| fds));
    }
}

/// A thread's place among a socket's waiters.
pub struct Waiting {
    socket: Arc<Socket>,
    waker: Arc<Waker>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.socket.waiters.remove(&*self.waker);
    }
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
