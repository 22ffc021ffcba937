//! A set of descriptors to wait for, sockets of ours and descriptors of the system: what `repoll_create` makes.
//!
//! A set has two epolls. The inner one holds the system's descriptors under the program's own data, so that all that epoll(7) says of them is the
//! kernel's doing. The outer one holds the inner one, a bell, and the descriptors behind which the completions of sockets come, each of them told
//! once for each event. A thread sleeps in the outer one: a wake-up names what happened, and costs the same beside one idle socket or thousands.
//!
//! Sockets that may be ready are candidates. A look at a candidate finds it ready, or asks for its next event, looks once more, and leaves it
//! asleep. What wakes it is its event, or whoever changes its state, who tells its [`Watch`].
//!
//! Must not know: what C programs pass, and how a socket finds out whether it is ready.

use super::stream::Edges;
use super::wait::{Listener, eventfd, ring};
use super::{FIRST_NUMBER, Socket, duplicate};
use crate::boundary::Errno;
use crate::system;
use ferriband_cancel::Sleep;
use libc::{
    EPOLLERR, EPOLLET, EPOLLEXCLUSIVE, EPOLLHUP, EPOLLIN, EPOLLONESHOT, EPOLLOUT, c_int,
    epoll_event,
};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

/// In the outer epoll: the bell.
const BELL: u64 = 0;
/// In the outer epoll: the inner one.
const SYSTEM: u64 = 1;
/// Sockets are numbered from here, and no number is used again: an event of one that is gone is nobody's.
const FIRST_TOKEN: u64 = 2;
/// Events taken from the outer epoll at a time.
const TOLD: usize = 64;
/// What may stand beside EPOLLEXCLUSIVE.
const WITH_EXCLUSIVE: c_int =
    EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | libc::EPOLLWAKEUP | EPOLLET | EPOLLEXCLUSIVE;

/// A set.
pub struct Set {
    /// The program's descriptor of the outer epoll, until the set is closed.
    number: Mutex<Option<OwnedFd>>,
    outer: OwnedFd,
    inner: OwnedFd,
    heard: Arc<Heard>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: BTreeMap<u64, Entry>,
    /// Sockets by the program's number.
    by_number: HashMap<RawFd, u64>,
    candidates: VecDeque<u64>,
    last_token: u64,
    /// Of the sockets that were asked for an event, the last one.
    last_armed: u64,
    /// A descriptor of the system was added.
    has_system: bool,
    /// With room for one event: whose turn it is.
    is_systems_turn: bool,
}

/// A socket in a set.
struct Entry {
    number: RawFd,
    socket: Arc<Socket>,
    watch: Arc<Watch>,
    events: c_int,
    data: u64,
    /// EPOLLONESHOT: told, and not asked for again.
    is_off: bool,
    /// It is among the candidates, or was just told by a call that will put it there.
    is_candidate: bool,
    /// EPOLLET: what had come when it was told last.
    told: Option<Edges>,
    /// Its descriptors in the outer epoll.
    attached: Vec<RawFd>,
}

/// What has been heard of sockets since the last look, without the set's lock.
struct Heard {
    bell: OwnedFd,
    tokens: Mutex<Vec<u64>>,
    sleepers: AtomicUsize,
    /// Somebody waits for the set itself, in poll(2) or in another set.
    is_exposed: AtomicBool,
    is_closed: AtomicBool,
}

/// A set among those who wait for a socket.
struct Watch {
    token: u64,
    set: Weak<Set>,
    heard: Arc<Heard>,
    /// It is among the tokens.
    is_heard: AtomicBool,
}

/// What a forked child has of its parent's set.
#[derive(Clone, Copy)]
pub struct Inherited {
    inner: RawFd,
}

/// Where the events of a call go.
pub struct Out {
    at: *mut epoll_event,
    most: usize,
    count: usize,
}

impl Heard {
    fn tokens(&self) -> MutexGuard<'_, Vec<u64>> {
        // Each update is one operation.
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread sleeps for the set, or might.
    fn is_waited_for(&self) -> bool {
        self.sleepers.load(Ordering::SeqCst) != 0 || self.is_exposed.load(Ordering::SeqCst)
    }

    /// Wakes one thread that sleeps for the set, if there is one.
    fn ring(&self) {
        if self.is_waited_for() {
            ring(&self.bell);
        }
    }
}

/// A thread that sleeps for the set. One that is cancelled does no more.
pub struct Sleeper(pub Arc<Set>);

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.heard.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Listener for Watch {
    fn hear(&self) {
        if !self.is_heard.swap(true, Ordering::AcqRel) {
            self.heard.tokens().push(self.token);
            self.heard.ring();
        }
    }

    fn closing(&self) {
        if let Some(set) = self.set.upgrade() {
            // The socket may go with the entry: after the lock.
            let entry = set.lock().take(self.token);
            entry.inspect(|entry| set.detach(entry));
        }
    }
}

impl Out {
    /// # Safety
    /// `at` has room for `most` events as long as the result is used.
    pub unsafe fn new(at: *mut epoll_event, most: usize) -> Self {
        Out { at, most, count: 0 }
    }

    fn is_full(&self) -> bool {
        self.count == self.most
    }

    fn push(&mut self, events: c_int, data: u64) {
        let event = epoll_event {
            events: events.cast_unsigned(),
            u64: data,
        };
        // SAFETY: the promise at the beginning; callers look whether it is full.
        unsafe { self.at.add(self.count).write_unaligned(event) };
        self.count += 1;
    }
}

impl Entry {
    fn has(&self, flag: c_int) -> bool {
        self.events & flag != 0
    }

    /// What is to be told of the socket, looking now, and what had come by then; 0 is nothing.
    fn ready(&self) -> (c_int, Edges) {
        let wanted = self.events as i16;
        let (ready, edges) = self.socket.readiness(wanted);
        let ready = c_int::from(ready.cast_unsigned());
        let writes = wanted & (libc::POLLOUT | libc::POLLWRNORM) != 0;
        let reads = wanted & !(libc::POLLOUT | libc::POLLWRNORM) != 0 || !writes;
        let is_new = self.told.is_none_or(|told| {
            reads && told.reading != edges.reading || writes && told.writing != edges.writing
        });
        match is_new || !self.has(EPOLLET) {
            true => (ready, edges),
            false => (0, edges),
        }
    }

    /// Asks for the socket's next event. True if it has any.
    fn arm(&mut self, outer: &OwnedFd) -> Result<bool, Errno> {
        let (attached, token) = (&mut self.attached, self.watch.token);
        self.socket.arm(&mut |fd| {
            if !attached.contains(&fd) {
                let events = EPOLLIN | EPOLLET;
                system::epoll_set(outer, libc::EPOLL_CTL_ADD, fd, token, events)?;
                attached.push(fd);
            }
            Ok(())
        })?;
        Ok(!self.attached.is_empty())
    }
}

impl State {
    fn take(&mut self, token: u64) -> Option<Entry> {
        let entry = self.entries.remove(&token)?;
        if self.by_number.get(&entry.number) == Some(&token) {
            self.by_number.remove(&entry.number);
        }
        Some(entry)
    }

    fn suggest(&mut self, token: u64) {
        if let Some(entry) = self.entries.get_mut(&token)
            && !entry.is_off
            && !std::mem::replace(&mut entry.is_candidate, true)
        {
            self.candidates.push_back(token);
        }
    }

    /// The entry of a socket; one that has the number of another socket, which is gone, does not count.
    fn find(&mut self, number: RawFd, socket: &Arc<Socket>) -> Option<&mut Entry> {
        let token = *self.by_number.get(&number)?;
        let entry = self.entries.get_mut(&token)?;
        Arc::ptr_eq(&entry.socket, socket).then_some(entry)
    }

    /// How much of a call's room is kept for the system's descriptors, which have their turn, too.
    fn room_for_system(&mut self, most: usize) -> usize {
        match (self.has_system, most) {
            (false, _) => 0,
            (true, 1) => {
                self.is_systems_turn = !self.is_systems_turn;
                self.is_systems_turn.into()
            }
            _ => 1,
        }
    }

    /// Looks at a socket, and asks for its next event if it is not ready: what is to be told of it, and what had come by then.
    fn look(&mut self, token: u64, outer: &OwnedFd, is_told: &mut bool) -> (c_int, Edges) {
        let Some(entry) = self.entries.get_mut(&token).filter(|entry| !entry.is_off) else {
            return (0, Edges::default());
        };
        let ready = entry.ready();
        if ready.0 != 0 {
            return ready;
        }
        match entry.arm(outer) {
            Ok(true) => {
                self.last_armed = token;
                *is_told = true;
            }
            Ok(false) => {}
            // Its events cannot be had; a call on the socket says why.
            Err(_) => return (EPOLLERR, ready.1),
        }
        entry.ready()
    }

    /// Tells the adapter that this thread is about to sleep: it would leave the queues of a program that polled to it. Any armed queue will do.
    fn tell_of_sleep(&mut self) {
        let entries = &self.entries;
        let armed = entries.get(&self.last_armed);
        let armed = armed.or_else(|| entries.values().find(|entry| !entry.attached.is_empty()));
        if let Some(entry) = armed {
            // Without it the events come a little later.
            let _ = entry.socket.arm(&mut |_| Ok(()));
        }
    }
}

impl Set {
    /// A new set, and its number.
    ///
    /// EMFILE, ENFILE, ENOMEM.
    pub fn new(flags: c_int) -> Result<(RawFd, Arc<Self>), Errno> {
        let number = system::epoll_create(flags)?;
        let outer = high(number.as_raw_fd())?;
        let inner = system::epoll_create(libc::EPOLL_CLOEXEC)?;
        Self::over(number, outer, inner)
    }

    fn over(number: OwnedFd, outer: OwnedFd, inner: OwnedFd) -> Result<(RawFd, Arc<Self>), Errno> {
        let bell = eventfd()?;
        let (add, fd) = (libc::EPOLL_CTL_ADD, bell.as_raw_fd());
        system::epoll_set(&outer, add, fd, BELL, EPOLLIN | EPOLLET)?;
        system::epoll_set(&outer, add, inner.as_raw_fd(), SYSTEM, EPOLLIN)?;
        let fd = number.as_raw_fd();
        let set = Set {
            number: Mutex::new(Some(number)),
            outer,
            inner,
            heard: Arc::new(Heard {
                bell,
                tokens: Mutex::default(),
                sleepers: AtomicUsize::new(0),
                is_exposed: AtomicBool::new(false),
                is_closed: AtomicBool::new(false),
            }),
            state: Mutex::new(State {
                last_token: FIRST_TOKEN,
                ..State::default()
            }),
        };
        Ok((fd, Arc::new(set)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change leaves it whole, and a panic ends the call only.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A descriptor of the system: as epoll_ctl(2).
    ///
    /// # Safety
    /// `event` is NULL or an event.
    pub unsafe fn control_system(
        &self,
        what: c_int,
        fd: RawFd,
        event: *mut epoll_event,
    ) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        unsafe { system::epoll_ctl(self.inner.as_raw_fd(), what, fd, event) }?;
        if what == libc::EPOLL_CTL_ADD {
            self.lock().has_system = true;
        }
        Ok(())
    }

    /// Adds a socket.
    ///
    /// EEXIST, EINVAL, EBADF if it is being closed, ENOSPC, ENOMEM.
    pub fn add(
        self: &Arc<Self>,
        number: RawFd,
        socket: Arc<Socket>,
        event: epoll_event,
    ) -> Result<(), Errno> {
        let events = event.events.cast_signed();
        if events & EPOLLEXCLUSIVE != 0 && events & !WITH_EXCLUSIVE != 0 {
            return Err(libc::EINVAL);
        }
        let mut state = self.lock();
        if state.find(number, &socket).is_some() {
            return Err(libc::EEXIST);
        }
        let token = state.last_token;
        state.last_token += 1;
        let watch = Arc::new(Watch {
            token,
            set: Arc::downgrade(self),
            heard: self.heard.clone(),
            is_heard: AtomicBool::new(false),
        });
        socket.waiters.add(watch.clone());
        let mut entry = Entry {
            number,
            socket,
            watch,
            events,
            data: event.u64,
            is_off: false,
            is_candidate: false,
            told: None,
            attached: Vec::new(),
        };
        let is_over = self.heard.is_closed.load(Ordering::SeqCst) || entry.socket.is_closing();
        let armed = match is_over {
            true => Err(libc::EBADF),
            false => entry.arm(&self.outer),
        };
        if let Err(error) = armed {
            drop(state);
            self.detach(&entry);
            return Err(error);
        }
        state.by_number.insert(number, token);
        state.entries.insert(token, entry);
        state.suggest(token);
        drop(state);
        self.heard.ring();
        Ok(())
    }

    /// Changes what is asked of a socket.
    ///
    /// ENOENT, EINVAL.
    pub fn modify(
        &self,
        number: RawFd,
        socket: &Arc<Socket>,
        event: epoll_event,
    ) -> Result<(), Errno> {
        let events = event.events.cast_signed();
        if events & EPOLLEXCLUSIVE != 0 {
            return Err(libc::EINVAL);
        }
        let mut state = self.lock();
        let entry = state.find(number, socket).ok_or(libc::ENOENT)?;
        if entry.has(EPOLLEXCLUSIVE) {
            return Err(libc::EINVAL);
        }
        entry.events = events;
        entry.data = event.u64;
        entry.is_off = false;
        entry.told = None;
        let token = entry.watch.token;
        state.suggest(token);
        drop(state);
        self.heard.ring();
        Ok(())
    }

    /// Takes a socket out; ENOENT.
    pub fn remove(&self, number: RawFd, socket: &Arc<Socket>) -> Result<(), Errno> {
        let mut state = self.lock();
        let token = state.find(number, socket).ok_or(libc::ENOENT)?.watch.token;
        let entry = state.take(token);
        drop(state);
        entry.inspect(|entry| self.detach(entry));
        Ok(())
    }

    /// Nothing of a socket comes to the set any more.
    fn detach(&self, entry: &Entry) {
        entry.socket.waiters.remove(&*entry.watch);
        entry.socket.descriptors(&mut |fd| {
            if entry.attached.contains(&fd) {
                let (epoll, none) = (self.outer.as_raw_fd(), std::ptr::null_mut());
                // It may have left with an earlier file of this number.
                // SAFETY: an event is not needed.
                let _ = unsafe { system::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, fd, none) };
            }
        });
    }

    /// The set is waited for by poll(2) or in another set: from here on it is readable while sockets may be ready.
    pub fn expose(&self) {
        if !self.heard.is_exposed.swap(true, Ordering::SeqCst) {
            ring(&self.heard.bell);
        }
    }

    /// Waits until something is ready, or until then: how many events there are; None if the thread
    /// must sleep, until this runs again.
    ///
    /// EINTR, and EBADF when the set is closed meanwhile.
    pub fn wait(
        self: &Arc<Self>,
        sleep: &mut Sleep,
        slept: Option<Box<Sleeper>>,
        mut out: Out,
        until: Option<Instant>,
    ) -> Result<Option<usize>, Errno> {
        let (mut told, mut is_told) = (Vec::new(), false);
        let mut state = self.lock();
        let is_first = slept.is_none();
        if is_first {
            self.absorb(&mut state);
            let kept = state.room_for_system(out.most);
            self.collect(&mut state, &mut out, kept, &mut told, &mut is_told);
        }
        let is_last = out.count != 0 || left(until) == 0;
        let mut taken = Ok(());
        // A sleep that is not to be ends at once: until then there is no need to ask what has
        // happened.
        if is_last || !is_first {
            drop(state);
            let happened = self.happened(sleep, slept)?;
            state = self.lock();
            taken = self.take(&mut state, &happened, &mut out);
            self.absorb(&mut state);
            self.collect(&mut state, &mut out, 0, &mut told, &mut is_told);
        }
        if out.count != 0 || is_last || taken.is_err() {
            self.leave(state, &told);
            return taken.map(|()| Some(out.count));
        }
        if !is_told {
            state.tell_of_sleep();
        }
        self.prepare_sleep(state, sleep, until);
        Ok(None)
    }

    /// The end of a call that tells of `told`: they are candidates again, for this thread's next call, and for others that sleep.
    fn leave(&self, mut state: MutexGuard<'_, State>, told: &[u64]) {
        let is_waited_for = self.heard.is_waited_for();
        for token in told {
            let Some(entry) = state.entries.get_mut(token) else {
                continue;
            };
            let has_next = is_waited_for && entry.has(EPOLLET);
            // An edge is told once: for the others there is the next one, if it can be had.
            if has_next && entry.arm(&self.outer).is_ok() && entry.ready().0 == 0 {
                entry.is_candidate = false;
            } else {
                state.candidates.push_back(*token);
            }
        }
        let has_work = !state.candidates.is_empty();
        drop(state);
        if has_work {
            self.heard.ring();
        }
    }

    /// What was heard of becomes candidates.
    fn absorb(&self, state: &mut State) {
        let tokens = std::mem::take(&mut *self.heard.tokens());
        for token in tokens {
            if let Some(entry) = state.entries.get(&token) {
                entry.watch.is_heard.swap(false, Ordering::AcqRel);
            }
            state.suggest(token);
        }
    }

    /// Tells of candidates that are ready, leaving room for `kept` events. Those that are told and may be told again go to `told`.
    fn collect(
        &self,
        state: &mut State,
        out: &mut Out,
        kept: usize,
        told: &mut Vec<u64>,
        is_told: &mut bool,
    ) {
        for _ in 0..state.candidates.len() {
            if out.count + kept >= out.most {
                return;
            }
            let Some(token) = state.candidates.pop_front() else {
                return;
            };
            let (ready, edges) = state.look(token, &self.outer, is_told);
            let Some(entry) = state.entries.get_mut(&token) else {
                continue;
            };
            entry.is_candidate = false;
            if ready != 0 {
                out.push(ready, entry.data);
                entry.told = Some(edges);
                entry.is_off = entry.has(EPOLLONESHOT);
                entry.is_candidate = !entry.is_off;
            }
            if entry.is_candidate {
                told.push(token);
            }
        }
    }

    /// What has happened by now, told by the outer epoll.
    fn happened(
        &self,
        sleep: &mut Sleep,
        slept: Option<Box<Sleeper>>,
    ) -> Result<Vec<epoll_event>, Errno> {
        let heard = &*self.heard;
        let interrupted = sleep.take_ready().err();
        let mut events = Vec::with_capacity(TOLD);
        let (epoll, room) = (self.outer.as_raw_fd(), events.as_mut_ptr());
        // SAFETY: there is this room.
        let count = unsafe { system::epoll_wait(epoll, room, TOLD as c_int, 0) };
        drop(slept);
        if heard.is_closed.load(Ordering::SeqCst) {
            // The others that sleep are to see it, too.
            heard.ring();
            return Err(libc::EBADF);
        }
        // SAFETY: the kernel has written so many.
        unsafe { events.set_len(count?) };
        match interrupted {
            Some(error) if events.is_empty() => Err(error),
            _ => Ok(events),
        }
    }

    /// The next sleep is for whatever the outer epoll has to tell.
    fn prepare_sleep(
        self: &Arc<Self>,
        state: MutexGuard<'_, State>,
        sleep: &mut Sleep,
        until: Option<Instant>,
    ) {
        let heard = &self.heard;
        heard.sleepers.fetch_add(1, Ordering::SeqCst);
        sleep.keep(Box::new(Sleeper(self.clone())));
        // Whoever tells us something after this finds a sleeper.
        let is_closed = heard.is_closed.load(Ordering::SeqCst);
        let sleeps = !is_closed && heard.tokens().is_empty();
        drop(state);
        sleep.on(self.outer.as_raw_fd(), libc::POLLIN);
        match until {
            _ if !sleeps => sleep.until(Instant::now()),
            Some(until) => sleep.until(until),
            None => {}
        }
    }

    /// Takes what happened: events of sockets, and the system's events, which go out.
    fn take(
        &self,
        state: &mut State,
        happened: &[epoll_event],
        out: &mut Out,
    ) -> Result<(), Errno> {
        for event in happened {
            match event.u64 {
                BELL => {}
                SYSTEM if out.is_full() => {}
                SYSTEM => {
                    let room = c_int::try_from(out.most - out.count).unwrap_or(c_int::MAX);
                    let (epoll, at) = (self.inner.as_raw_fd(), out.at.wrapping_add(out.count));
                    // SAFETY: there is this room behind the events that are there.
                    out.count += unsafe { system::epoll_wait(epoll, at, room, 0) }?;
                }
                token => {
                    if let Some(entry) = state.entries.get(&token) {
                        entry.socket.take_events(&*entry.watch);
                    }
                    state.suggest(token);
                }
            }
        }
        Ok(())
    }

    /// Ends the set: its number is free, and whoever sleeps for it wakes.
    pub fn close(&self) {
        self.heard.is_closed.store(true, Ordering::SeqCst);
        let state = std::mem::take(&mut *self.lock());
        state.entries.values().for_each(|entry| self.detach(entry));
        let mut number = self.number.lock().unwrap_or_else(PoisonError::into_inner);
        *number = None;
        self.heard.ring();
    }

    /// In a forked child, of a set that no thread there will touch again: what the child keeps. The rest is closed.
    pub fn inherited(&self) -> Inherited {
        for fd in [self.outer.as_raw_fd(), self.heard.bell.as_raw_fd()] {
            // SAFETY: nobody uses them in the child, and the object is forgotten.
            unsafe { libc::close(fd) };
        }
        Inherited {
            inner: self.inner.as_raw_fd(),
        }
    }
}

impl Inherited {
    /// The child's own set under the parent's number, which holds what the parent's holds of the system.
    ///
    /// EMFILE, ENOMEM.
    pub fn adopt(&self, number: RawFd) -> Result<Arc<Set>, Errno> {
        // SAFETY: numbers only.
        let is_exec = unsafe { libc::fcntl(number, libc::F_GETFD) } & libc::FD_CLOEXEC == 0;
        let outer = system::epoll_create(libc::EPOLL_CLOEXEC)?;
        let inner = duplicate(self.inner, FIRST_NUMBER).or_else(|_| duplicate(self.inner, 0))?;
        let flags = if is_exec { 0 } else { libc::O_CLOEXEC };
        system::dup3(outer.as_raw_fd(), number, flags)?;
        // SAFETY: the number is the set's, in this process the new one's.
        let number = unsafe { OwnedFd::from_raw_fd(number) };
        let (_, set) = Set::over(number, outer, inner)?;
        set.lock().has_system = true;
        self.close();
        Ok(set)
    }

    /// Closes what the child has of the set beside its number.
    pub fn close(&self) {
        // SAFETY: this process's copy, which nobody else uses.
        unsafe { libc::close(self.inner) };
    }
}

/// A second descriptor, out of the way of the program's own numbers where the limit allows.
fn high(fd: RawFd) -> Result<OwnedFd, Errno> {
    duplicate(fd, FIRST_NUMBER).or_else(|_| duplicate(fd, 0))
}

/// Milliseconds until then, as epoll_wait has them: -1 is for ever, and a part of one counts whole.
fn left(until: Option<Instant>) -> c_int {
    until.map_or(-1, |at| {
        let left = at.saturating_duration_since(Instant::now());
        c_int::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(c_int::MAX)
    })
}
