//! The thread that serves a process when nobody looks, and how others wait beside it.
//!
//! Owns: the lock of a node, who looks when, sleeping and waking. Must not know: what is waited
//! for.
//!
//! Who waits looks himself, for a time, then sleeps on a number that whoever tells something
//! raises. The thread alone takes events of completion queues and of the connection manager. While
//! somebody looks it does not arm the queues: it sleeps for one of [`Pauses`] at a time. So nothing
//! is missed for longer, and nobody has to hand anything over.

use crate::Error;
use crate::node::Node;
use crate::pauses::Pauses;
use crate::report::PROTOCOL;
use crate::sleep::{Sleep, Woken};
use crate::users::Users;
use ferriband_host::signals;
use ferriband_host::wake::{self, Event, Until};
use ferriband_tell::Teller;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long who waits looks in vain before he yields between looks, and before he sleeps. Some
/// adapters yield inside a look, when they see that others need the core.
const LOOK: Duration = Duration::from_micros(200);
const SLEEP: Duration = Duration::from_millis(5);
/// Looks between two yields.
const LOOKS: u32 = 16;

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
    /// Threads of the program that look at this time, again and again.
    lookers: AtomicU32,
    /// When somebody who waits last looked: nanoseconds of CLOCK_MONOTONIC.
    looked: AtomicU64,
    over: AtomicBool,
    bell: Event,
    /// By this the process is asked what it has. None: it cannot be.
    teller: Option<Teller>,
}

/// A thread that is counted, while this lives.
struct Counted<'a>(&'a AtomicU32);

impl<'a> Counted<'a> {
    fn among(count: &'a AtomicU32) -> Counted<'a> {
        count.fetch_add(1, Ordering::SeqCst);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
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
            lookers: AtomicU32::new(0),
            looked: AtomicU64::new(0),
            over: AtomicBool::new(false),
            bell: Event::new()?,
            teller: Teller::listen(PROTOCOL).ok(),
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
        if node.is_starved() {
            // room comes with what the peer says, and who needs it looks for it
            self.shared.is_looking(wake::now());
            look(&mut node);
            node.find_starved();
        }
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
    /// Nothing is served any more, and it is not there.
    pub fn wait<R>(
        &self,
        end: Option<Duration>,
        mut found: impl FnMut(&mut Node<U>) -> Option<R>,
    ) -> Result<Waited<R>, Error> {
        let shared = &*self.shared;
        loop {
            if let Some(waited) = shared.look_on(end, &mut found)? {
                return Ok(waited);
            }
            let sleeps = Counted::among(&shared.sleepers);
            let seen = shared.look_armed(&mut found);
            let slept = match seen {
                Ok((None, generation)) => {
                    let until = end.map_or(Until::Woken, Until::Deadline);
                    wake::wait(&shared.generation, generation, until).map_err(Error::from)
                }
                _ => Ok(wake::Wait::Changed),
            };
            drop(sleeps);
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

    /// A thread of the program looks.
    fn is_looking(&self, now: Duration) {
        let now = now.as_nanos() as u64;
        self.looked.store(now, Ordering::Relaxed);
    }

    /// Whether a thread of the program looks, or is in a call: the thread would wait for it.
    fn is_looked_at(&self) -> bool {
        let is_held = || matches!(self.node.try_lock(), Err(TryLockError::WouldBlock));
        self.lookers.load(Ordering::SeqCst) > 0 || is_held()
    }

    /// How long no thread of the program has looked.
    fn unseen(&self) -> Duration {
        if self.lookers.load(Ordering::SeqCst) > 0 {
            return Duration::ZERO;
        }
        let looked = Duration::from_nanos(self.looked.load(Ordering::Relaxed));
        wake::now().saturating_sub(looked)
    }

    /// Something was told.
    fn raise(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            wake::wake(&self.generation, u32::MAX);
        }
    }

    /// Looks until it is found, the time is over, or nothing has come for a while: then None.
    fn look_on<R>(
        &self,
        end: Option<Duration>,
        found: &mut impl FnMut(&mut Node<U>) -> Option<R>,
    ) -> Result<Option<Waited<R>>, Error> {
        let mut since = wake::now();
        // what is there already is not waited for: a look in vain may sleep. Who asks without
        // waiting looks in any case, and is served by that.
        let waits = end.is_none_or(|end| since < end);
        if waits && let Some(done) = found(&mut self.lock()) {
            return Ok(Some(Waited::Done(done)));
        }
        let _looks = Counted::among(&self.lookers);
        self.is_looking(since);
        let (mut looks, mut generation) = (0, None);
        loop {
            let (done, seen) = self.look(found)?;
            if let Some(done) = done {
                return Ok(Some(Waited::Done(done)));
            }
            let now = wake::now();
            self.is_looking(now);
            if generation.replace(seen) != Some(seen) {
                since = now;
            }
            if end.is_some_and(|end| now >= end) {
                return Ok(Some(Waited::TimedOut));
            }
            if now >= since + SLEEP {
                return Ok(None);
            }
            looks += 1;
            if looks % LOOKS == 0 && now >= since + LOOK {
                std::thread::yield_now();
            }
        }
    }

    /// Looks at completions, then for what is waited for.
    fn look<R>(
        &self,
        found: &mut impl FnMut(&mut Node<U>) -> Option<R>,
    ) -> Result<(Option<R>, u32), Error> {
        let mut node = self.lock();
        let news = look(&mut node);
        // what has ended before, or by that, is told first
        let done = found(&mut node);
        if node.dead && done.is_none() {
            return Err(Error::Dead);
        }
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
        if node.arm(all).is_err() {
            node.die();
        }
        drop(node);
        self.look(found)
    }
}

/// Takes what is there, and begins what can begin by that. Whether there was something.
fn look<U: Users>(node: &mut Node<U>) -> bool {
    let news = match node.dead {
        true => false,
        false => node.look().unwrap_or_else(|_| {
            node.die();
            true
        }),
    };
    if news {
        U::advance(node);
    }
    news
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
    let mut is_asked = false;
    let mut pauses = Pauses::new();
    while !shared.over.load(Ordering::SeqCst) {
        let turned = catch_unwind(AssertUnwindSafe(|| {
            if let Some(teller) = shared.teller.as_ref().filter(|_| is_asked) {
                teller.answer(|| shared.lock().tell());
            }
            turn(shared, &mut pauses)
        }));
        let Ok(Ok((sleep, due))) = turned else {
            // after a panic nothing may be as it should
            let _ = catch_unwind(AssertUnwindSafe(|| shared.lock().die()));
            return shared.raise();
        };
        let due = due.unwrap_or(Duration::MAX);
        let woken = loop {
            let woken = sleep.until_news(&shared.bell, shared.teller.as_ref());
            let is_seen = shared.is_looked_at() && wake::now() < due;
            if woken != Woken::TimeOver || !is_seen {
                break woken;
            }
        };
        is_asked = woken == Woken::Asked;
        shared.bell.take();
    }
}

/// Takes what is there, unless somebody looks, and says how to sleep, and when there is something
/// to do in any case, by CLOCK_MONOTONIC.
fn turn<U: Users>(
    shared: &Shared<U>,
    pauses: &mut Pauses,
) -> Result<(Sleep, Option<Duration>), Error> {
    let mut node = shared.lock();
    if node.dead {
        return Err(Error::Dead);
    }
    let mut news = node.take_events()?;
    news |= node.look()?;
    if news {
        U::advance(&mut node);
    }
    let pause = pauses.next(shared.unseen(), news);
    let mut time = if pause.is_some() {
        node.is_watched();
        pause
    } else {
        let all = node.users.waits_for_all();
        node.arm(all)?;
        let again = node.look()?;
        if again {
            U::advance(&mut node);
        }
        news |= again;
        again.then_some(Duration::ZERO)
    };
    let now = wake::now();
    let due = node.tick(now).map(|left| now + left);
    if let Some(due) = due {
        let left = due - now;
        time = Some(time.map_or(left, |time| time.min(left)));
    }
    let (channels, manager) = node.channels();
    drop(node);
    if news {
        shared.raise();
    }
    let sleep = Sleep {
        channels,
        manager,
        time,
    };
    Ok((sleep, due))
}
