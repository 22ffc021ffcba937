//! The thread that serves a process when nobody looks, and how others wait beside it.
//!
//! Owns: the lock of a node, who looks when, sleeping and waking. Must not know: what is waited
//! for.
//!
//! Who waits looks himself, for a time, then sleeps on a number that whoever tells something
//! raises. The thread alone takes events of completion queues and of the connection manager. While
//! somebody looks it does not arm the queues: it sleeps for [`PAUSE`] at a time. So nothing is
//! missed for longer, and nobody has to hand anything over.

use crate::Error;
use crate::node::Node;
use crate::users::Users;
use ferriband_host::signals;
use ferriband_host::wake::{self, Event, Until};
use ferriband_ibv::{CmChannel, CompChannel};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long after somebody looked the thread leaves the queues alone.
const PAUSE: Duration = Duration::from_micros(50);
/// How long who waits looks before he sleeps.
const LOOK: Duration = Duration::from_micros(50);

/// How long messages that were sent may take to arrive when the process leaves.
const LEAVE: Duration = Duration::from_secs(1);

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waited<R> {
    /// What was waited for is there.
    Done(R),
    /// The time is over.
    TimedOut,
}

struct Shared<U: Users> {
    node: Mutex<Node<U>>,
    /// Raised when something was told.
    generation: AtomicU32,
    sleepers: AtomicU32,
    /// When somebody who waits last looked: nanoseconds of CLOCK_MONOTONIC.
    looked: AtomicU64,
    over: AtomicBool,
    /// The thread has ended before its time.
    dead: AtomicBool,
    bell: Event,
}

/// A node with its thread. Dropping it ends both.
pub struct Server<U: Users> {
    shared: Arc<Shared<U>>,
    thread: Option<JoinHandle<()>>,
}

impl<U: Users + Send + 'static> Server<U>
where
    U::Hold: Send,
{
    /// Begins to serve a node.
    ///
    /// # Errors
    /// There is no thread, or no descriptor.
    pub fn begin(node: Node<U>) -> Result<Server<U>, Error> {
        let shared = Arc::new(Shared {
            node: Mutex::new(node),
            generation: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            looked: AtomicU64::new(0),
            over: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            bell: Event::new()?,
        });
        let served = Arc::clone(&shared);
        let named = std::thread::Builder::new().name("ferriband-put".into());
        // the program's signals are the program's threads'
        let thread = signals::without(|| named.spawn(move || serve(&served)))?;
        Ok(Server {
            shared,
            thread: Some(thread),
        })
    }

    /// Calls with the node, and wakes who waits: something may have been told.
    pub fn with<R>(&self, call: impl FnOnce(&mut Node<U>) -> R) -> R {
        let mut node = self.shared.lock();
        let returned = call(&mut node);
        U::advance(&mut node);
        // the thread sleeps on channels that it knows, for what they are armed for
        let needed = node.take_opened() | node.needs_thread();
        drop(node);
        self.shared.raise();
        if needed {
            self.nudge();
        }
        returned
    }

    /// Lets the thread look and arm the queues anew: what is waited for has changed.
    pub fn nudge(&self) {
        self.shared.bell.signal();
    }

    /// Waits until `found` finds something, or until CLOCK_MONOTONIC shows `end`.
    ///
    /// # Errors
    /// A completion queue cannot be read.
    pub fn wait<R>(
        &self,
        end: Option<Duration>,
        mut found: impl FnMut(&mut Node<U>) -> Option<R>,
    ) -> Result<Waited<R>, Error> {
        let shared = &*self.shared;
        let began = wake::now();
        loop {
            if let Some(done) = shared.look(&mut found)?.0 {
                return Ok(Waited::Done(done));
            }
            let now = wake::now();
            if end.is_some_and(|end| now >= end) {
                return Ok(Waited::TimedOut);
            }
            shared
                .looked
                .store(now.as_nanos() as u64, Ordering::Relaxed);
            if now < began + LOOK {
                std::thread::yield_now();
                continue;
            }
            shared.sleepers.fetch_add(1, Ordering::SeqCst);
            let seen = shared.look_armed(&mut found);
            let slept = match seen {
                Ok((None, generation)) => {
                    let until = end.map_or(Until::Woken, Until::Deadline);
                    wake::wait(&shared.generation, generation, until).map_err(Error::from)
                }
                _ => Ok(wake::Wait::Changed),
            };
            shared.sleepers.fetch_sub(1, Ordering::SeqCst);
            if let Some(done) = seen?.0 {
                return Ok(Waited::Done(done));
            }
            let _ = slept?;
        }
    }
}

impl<U: Users> Shared<U> {
    fn lock(&self) -> MutexGuard<'_, Node<U>> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something was told.
    fn raise(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            wake::wake(&self.generation, u32::MAX);
        }
    }

    /// Looks at completions, then for what is waited for.
    fn look<R>(
        &self,
        found: &mut impl FnMut(&mut Node<U>) -> Option<R>,
    ) -> Result<(Option<R>, u32), Error> {
        let mut node = self.lock();
        if self.dead.load(Ordering::SeqCst) {
            return Err(Error::Dead);
        }
        let news = node.look()?;
        if news {
            U::advance(&mut node);
        }
        let done = found(&mut node);
        let generation = self.generation.load(Ordering::SeqCst);
        let needed = node.needs_thread();
        drop(node);
        if needed {
            self.bell.signal();
        }
        if news {
            self.raise();
        }
        // what this look has raised is no news to who looked
        Ok((done, generation.wrapping_add(u32::from(news))))
    }

    /// As [`Shared::look`], with the queues armed before.
    fn look_armed<R>(
        &self,
        found: &mut impl FnMut(&mut Node<U>) -> Option<R>,
    ) -> Result<(Option<R>, u32), Error> {
        let mut node = self.lock();
        let all = node.users.waits_for_all();
        node.arm(all)?;
        drop(node);
        self.look(found)
    }
}

impl<U: Users> Drop for Server<U> {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        self.shared.bell.signal();
        if let Some(thread) = self.thread.take() {
            // a panic of it has been told
            let _ = thread.join();
        }
        let end = wake::now() + LEAVE;
        let mut node = self.shared.lock();
        while !node.is_drained() && wake::now() < end {
            std::thread::yield_now();
        }
        node.leave_all();
    }
}

/// The thread.
fn serve<U: Users>(shared: &Shared<U>) {
    while !shared.over.load(Ordering::SeqCst) {
        let turned = catch_unwind(AssertUnwindSafe(|| turn(shared)));
        let Ok(Ok(sleep)) = turned else {
            shared.dead.store(true, Ordering::SeqCst);
            shared.lock().leave_all();
            return shared.raise();
        };
        sleep.until_news(&shared.bell);
        shared.bell.take();
    }
}

/// What the thread sleeps on.
struct Sleep {
    channels: Vec<Arc<CompChannel>>,
    manager: Arc<CmChannel>,
    time: Option<Duration>,
}

impl Sleep {
    fn until_news(&self, bell: &Event) {
        let fds = self.channels.iter().map(|channel| channel.fd());
        let fds = fds.chain([self.manager.fd(), bell.as_fd()]);
        let mut fds: Vec<PollFd<'_>> = fds
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let time = self.time.and_then(|time| Timespec::try_from(time).ok());
        // an interruption is a reason to look, too
        let _ = poll(&mut fds, time.as_ref());
    }
}

/// Takes what is there, and says how long to sleep.
fn turn<U: Users>(shared: &Shared<U>) -> Result<Sleep, Error> {
    let mut node = shared.lock();
    let mut news = node.take_events()?;
    news |= node.look()?;
    if news {
        U::advance(&mut node);
    }
    let looked = Duration::from_nanos(shared.looked.load(Ordering::Relaxed));
    let is_watched = wake::now().saturating_sub(looked) < PAUSE;
    let mut time = is_watched.then_some(PAUSE);
    if !is_watched {
        let all = node.users.waits_for_all();
        node.arm(all)?;
        let again = node.look()?;
        if again {
            U::advance(&mut node);
        }
        news |= again;
        time = again.then_some(Duration::ZERO);
    }
    if let Some(due) = node.tick(wake::now()) {
        time = Some(time.map_or(due, |time| time.min(due)));
    }
    let (channels, manager) = node.channels();
    drop(node);
    if news {
        shared.raise();
    }
    Ok(Sleep {
        channels,
        manager,
        time,
    })
}
