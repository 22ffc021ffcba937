//! Connections of the first driver of papers/002: matching reads and writes.
//!
//! Owns: where a process listens for them, the lock of their state, who sleeps and who is woken.
//! Must not know: C types, the program's memory.
//!
//! There is no thread: connections are made, and what does not fit into work queues goes on, in
//! calls of the process. Whoever waits looks at completions; one of those who wait sleeps on the
//! descriptors, the others until he has found something or has done with waiting.

mod link;
mod state;

use crate::sleep::Sleep;
use crate::{Error, Left, Waited};
use ferriband_host::wake::{self, Event};
use ferriband_ibv::{Cm, Element, Mr, Pd};
use ferriband_putget_proto::matching::{NotBegun, Outcome};
use ferriband_settings::Values;
use state::State;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of all elements of a transfer's memory but the last.
pub const ELEMENT_BYTES: u64 = 1 << 30;

/// A connection, for as long as the process listens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Number(pub u32);

/// A read or a write that was begun, until its end was told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Transfer(pub u64);

/// Which way a transfer's bytes go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// To the peer.
    Write,
    /// From it.
    Read,
}

/// Memory of a transfer.
pub struct Memory {
    /// Its registration, which stays until the transfer has ended; none where there are no bytes.
    pub mr: Option<Arc<Mr>>,
    /// All of its bytes: elements of [`ELEMENT_BYTES`] and a last one of at most so many.
    pub elements: Vec<Element<'static>>,
}

/// The connections of a process.
pub struct Channels {
    inner: Mutex<Inner>,
    /// Something was found, or nobody sleeps on the descriptors any more.
    news: Condvar,
    /// Wakes who sleeps on the descriptors.
    bell: Event,
}

struct Inner {
    state: State,
    /// Somebody sleeps on the descriptors.
    sleeper: bool,
}

impl Channels {
    /// Listens at an address; port 0 chooses one. A request takes up to so many bytes, a power of
    /// two of at most [`ELEMENT_BYTES`]: both sides of a connection take the smaller number.
    ///
    /// # Errors
    /// The address belongs to no adapter; somebody listens there.
    pub fn listen(cm: &'static Cm, at: SocketAddr, request_bytes: u32) -> Result<Channels, Error> {
        let state = State::listen(cm, at, request_bytes)?;
        Ok(Channels {
            inner: Mutex::new(Inner {
                state,
                sleeper: false,
            }),
            news: Condvar::new(),
            bell: Event::new()?,
        })
    }

    /// Writes down what connections do that are made from now on, if the settings ask for that.
    ///
    /// # Errors
    /// The directory that they name cannot be written to.
    pub fn trace(&self, values: &Values) -> Result<(), Error> {
        self.lock().state.trace(values)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.lock().state.own
    }

    /// The domain that memory is registered in.
    ///
    /// # Errors
    /// The adapter cannot be opened.
    pub fn domain(&self) -> Result<Arc<Pd>, Error> {
        self.lock().state.domain()
    }

    /// Sets how many bytes a request takes, as [`Channels::listen`], for connections to come.
    pub fn set_request_bytes(&self, bytes: u32) {
        self.lock().state.request_bytes = bytes;
    }

    /// Connects to a process that listens, until CLOCK_MONOTONIC shows `end`.
    ///
    /// # Errors
    /// A queue cannot be read.
    pub fn connect(
        &self,
        to: SocketAddr,
        end: Option<Duration>,
    ) -> Result<Waited<Result<Number, Left>>, Error> {
        let number = self.lock().state.ask(to)?;
        let waited = self.wait(end, |state| {
            let stands = state.stands(number)?;
            Some(stands.map(|()| Number(number)))
        })?;
        if !matches!(waited, Waited::Done(Ok(_))) {
            self.lock().state.remove(number);
        }
        Ok(waited)
    }

    /// Waits for the next connection that a peer has asked for.
    ///
    /// # Errors
    /// A queue cannot be read.
    pub fn accept(&self, end: Option<Duration>) -> Result<Waited<Number>, Error> {
        self.wait(end, |state| state.arrived.pop_front().map(Number))
    }

    /// Ends a connection: what is under way is lost. False if there is none.
    pub fn disconnect(&self, channel: Number) -> bool {
        let mut inner = self.lock();
        // what has come before counts
        let _ = self.look(&mut inner);
        let is_known = inner.state.remove(channel.0);
        self.tell(&inner);
        is_known
    }

    /// Begins a transfer of so many bytes; does not block.
    ///
    /// # Errors
    /// It does not begin; [`NotBegun::Full`]: it can when others have ended and were told.
    ///
    /// A message of more requests than a work queue holds, and a read of several, go on in calls of
    /// the process.
    pub fn start(
        &self,
        channel: Number,
        way: Way,
        memory: Memory,
        length: u64,
    ) -> Result<Transfer, NotBegun> {
        let mut inner = self.lock();
        if !inner.state.has_room(channel.0, way, length) {
            // a queue that cannot be read is found by who waits
            let _ = self.look(&mut inner);
        }
        let begun = inner.state.start(channel.0, way, memory, length);
        begun.map(Transfer)
    }

    /// Waits until a channel has room for a transfer.
    ///
    /// # Errors
    /// A queue cannot be read.
    pub fn wait_for_room(&self, channel: Number, way: Way, length: u64) -> Result<(), Error> {
        self.wait(None, |state| {
            state.has_room(channel.0, way, length).then_some(())
        })?;
        Ok(())
    }

    /// How a transfer has ended, told once; None while it is under way.
    ///
    /// # Errors
    /// No transfer has this number, or its end was told; a queue cannot be read.
    pub fn test(&self, transfer: Transfer) -> Result<Option<Outcome>, Error> {
        let mut inner = self.lock();
        self.look(&mut inner)?;
        inner.state.test(transfer.0)
    }

    /// Waits until a transfer has ended.
    ///
    /// # Errors
    /// As of [`Channels::test`].
    pub fn wait_for(
        &self,
        transfer: Transfer,
        end: Option<Duration>,
    ) -> Result<Waited<Outcome>, Error> {
        let waited = self.wait(end, |state| state.test(transfer.0).transpose())?;
        Ok(match waited {
            Waited::Done(outcome) => Waited::Done(outcome?),
            Waited::TimedOut => Waited::TimedOut,
        })
    }

    /// How often completion channels told an event: what the paper counts as interrupts.
    pub fn events(&self) -> u64 {
        self.lock().state.events
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something has ended, which others may wait for.
    fn tell(&self, inner: &Inner) {
        self.news.notify_all();
        if inner.sleeper {
            self.bell.signal();
        }
    }

    fn wait<R>(
        &self,
        end: Option<Duration>,
        mut found: impl FnMut(&mut State) -> Option<R>,
    ) -> Result<Waited<R>, Error> {
        let mut inner = self.lock();
        loop {
            self.look(&mut inner)?;
            let done = found(&mut inner.state);
            let left = end.map(|end| end.saturating_sub(wake::now()));
            if done.is_some() || left == Some(Duration::ZERO) {
                // another takes this one's place
                self.news.notify_one();
                return Ok(done.map_or(Waited::TimedOut, Waited::Done));
            }
            if inner.sleeper {
                inner = self.sleep_with(inner, left);
                continue;
            }
            let armed = inner.state.arm();
            if !matches!(armed, Ok(false)) {
                self.tell(&inner);
                armed?;
                continue;
            }
            let sleep = inner.state.sleep(left);
            inner.sleeper = true;
            drop(inner);
            inner = self.sleep(&sleep)?;
        }
    }

    /// Looks at what is there. Others see a failure, too, so they are woken.
    fn look(&self, inner: &mut Inner) -> Result<(), Error> {
        let looked = inner.state.look();
        if !matches!(looked, Ok(false)) {
            self.tell(inner);
        }
        looked.map(drop)
    }

    /// Sleeps until somebody else has found something.
    fn sleep_with<'a>(
        &'a self,
        inner: MutexGuard<'a, Inner>,
        left: Option<Duration>,
    ) -> MutexGuard<'a, Inner> {
        match left {
            None => self
                .news
                .wait(inner)
                .unwrap_or_else(PoisonError::into_inner),
            Some(left) => {
                let waited = self.news.wait_timeout(inner, left);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    /// Sleeps on the descriptors.
    fn sleep(&self, sleep: &Sleep) -> Result<MutexGuard<'_, Inner>, Error> {
        sleep.until_news(&self.bell, None);
        self.bell.take();
        let mut inner = self.lock();
        inner.sleeper = false;
        let taken = inner.state.take_events();
        if taken.is_err() {
            self.news.notify_all();
        }
        taken.map(|_| inner)
    }
}

impl Drop for Channels {
    /// Ends all connections. A write that has ended is with the peer already.
    fn drop(&mut self) {
        self.lock().state.remove_all();
    }
}
