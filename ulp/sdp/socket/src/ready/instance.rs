//! One epoll instance of the program: what it watches, and which of that is to be looked at.
//!
//! Owns: the registrations of stream sockets, the list of those that may be ready, what is told to
//! the program of each. Must not know: who else waits for a connection, when a thread sleeps.
//!
//! # What the kernel watches
//! A registration whose connection has no link is the kernel's: the program's events, the program's
//! data. One that is linked is watched for everything, edge-triggered, with a tag in the place of
//! the data: each event of it is a hint that the kernel's socket has news.
//!
//! # Why nobody sleeps while there is something
//! A linked registration is on the list, or it is *parked*. It is parked only after its wants were
//! set and a look that followed has found nothing (what is level-triggered), or after its wants
//! were set before the look whose result was reported (what is edge-triggered). So whatever comes
//! later is told:
//! * bytes or room of the ring: whoever gives it fences and finds the want, whatever the phase was
//!   when the want was set: the want lies in the slot from the beginning, and whoever changes a
//!   direction over, or back, looks at it as well. It sets the told bit and rings.
//! * what the kernel's socket gets: the kernel's registration is edge-triggered and never disabled,
//!   so news since the last look of the kernel's state make a hint.
//! * the end of the connection: the kernel's hint, and the service thread, which wakes wants.
//!
//! Whoever takes a hint, or a told bit, out of where it is seen once (the kernel's list, the bell's
//! edge, the told word) puts the registration on the list under the lock, and then either reports
//! it, or parks it, or leaves it on the list. Whoever leaves the list with something on it while
//! threads sleep rings the bell ([`Inside::leave`]), which wakes one of them, as the kernel does.
//! A thread counts itself among the sleepers under the lock, in the same hold in which it has found
//! the list empty; so whoever lists something afterwards sees it and rings, and the bell is in the
//! kernel's set before: the sleep ends at once.
//!
//! A thread that looks again before it sleeps leaves what is not ready on the list meanwhile
//! ([`How::Lightly`]): the peer need not tell. It does so only while no other thread sleeps, and
//! parks all of it before it sleeps itself.
//!
//! A thread that sleeps in an instance without linked connections has not looked at the list. It is
//! counted for itself ([`Instance::sleeps_plainly`]), and rung for as the others are. Whoever links
//! the instance's first registration rings in any case: the kernel need not have a hint.

mod look;
mod order;
mod told;

pub(super) use look::{How, Reported};
pub(super) use order::Found;

use super::boxes::{Bell, process};
use super::kernel::{self, ET, EXCLUSIVE, Event, IN, OUT, PRI, RDHUP, WAKEUP};
use super::lock::Lock;
use super::mask::Seen;
use crate::arena::Taken;
use crate::link::{Call, Told};
use crate::table::Pin;
use rustix::io::Errno;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Bits of a tag that are the place of a registration; above them comes how often it was taken.
const PLACE_BITS: u32 = 20;
const PLACES: u32 = 1 << PLACE_BITS;
const TIMES: u32 = 1 << (32 - PLACE_BITS);
/// The bell's place, which no registration has.
const BELL: u32 = PLACES - 1;
/// No place.
const NONE: u32 = u32::MAX;

/// An epoll instance. Its memory stays, and is another instance's later.
#[derive(Debug)]
pub(super) struct Instance {
    /// Events of the kernel are to be translated: it has had a linked registration.
    pub is_tagged: AtomicBool,
    /// It was seen in another instance, or in poll(2): the kernel has to know that it is ready.
    pub is_nested: AtomicBool,
    /// Threads that sleep in it without having looked at the list; above them comes whose they are.
    plain: AtomicU64,
    /// When the kernel was last asked what it has ([`crate::order::time`]).
    pub asked: AtomicU64,
    /// Its lock is held by the thread that forks.
    pub is_forking: AtomicBool,
    pub inside: Lock<Inside>,
}

impl Instance {
    pub fn new() -> Self {
        Self {
            is_tagged: AtomicBool::new(false),
            is_nested: AtomicBool::new(false),
            plain: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            is_forking: AtomicBool::new(false),
            inside: Lock::new(Inside::default()),
        }
    }

    /// A thread is about to sleep without a look at the list, unless it finds [`Self::is_tagged`]
    /// set after this.
    pub fn sleeps_plainly(&self) {
        self.count_plain(|count| Some(count + 1));
    }

    /// After [`Self::sleeps_plainly`].
    pub fn has_slept_plainly(&self) {
        self.count_plain(|count| count.checked_sub(1));
    }

    fn count_plain(&self, change: impl Fn(u32) -> Option<u32>) {
        let _ = self
            .plain
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |plain| {
                let count = change(plain_of_mine(plain))?;
                Some(u64::from(process()) << 32 | u64::from(count))
            });
    }

    fn has_plain_sleepers(&self) -> bool {
        plain_of_mine(self.plain.load(Ordering::SeqCst)) > 0
    }
}

/// What this process has counted there: a parent's threads are not here.
fn plain_of_mine(plain: u64) -> u32 {
    let is_mine = (plain >> 32) as u32 == process();
    if is_mine { plain as u32 } else { 0 }
}

/// One stream socket of an instance.
#[derive(Debug)]
pub(super) struct Registration {
    /// How often the place was taken.
    times: u32,
    is_used: bool,
    /// The number by which it was registered, which may be closed meanwhile.
    pub number: i32,
    pub taken: Taken,
    /// What the program wants, and what it is told.
    pub event: Event,
    /// It has counted itself among the calls that wait in the kernel.
    pub is_counted: bool,
    /// The program has deleted it: [`Inside::retire`].
    is_retired: bool,
    pub linked: Option<Linked>,
}

/// What a linked registration has besides.
#[derive(Debug)]
pub(super) struct Linked {
    seen: Seen,
    is_listed: bool,
    /// ONESHOT, and reported.
    is_disabled: bool,
    /// A peer has told, and whether it wants something was not looked at.
    is_told: bool,
    /// The wait by which it was reported last.
    wait: u32,
    /// Which link of the instance it was.
    link: u64,
    /// Looks that have found nothing since.
    in_vain: u8,
    group: usize,
    slot: u32,
    /// The next registration of the connection.
    next: u32,
}

/// The linked registrations whose told bits share a word.
#[derive(Debug)]
struct Group {
    told: Told,
    /// The bits of those that there are.
    mask: u64,
    /// The first registration of each.
    first: Box<[u32; 64]>,
}

/// What the lock keeps.
#[derive(Debug, Default)]
pub(super) struct Inside {
    /// The process that has made it. In a child it is inherited.
    pub process: u32,
    /// A child has, or had, it too.
    pub is_inherited: bool,
    /// Numbers that stand for it.
    pub numbers: Vec<i32>,
    places: Vec<Registration>,
    free: Vec<u32>,
    by_key: BTreeMap<(i32, u32), u32>,
    /// Tags of those that may be ready.
    list: VecDeque<u32>,
    /// The process whose list that is.
    listed_by: u32,
    times: order::Times,
    groups: Vec<Group>,
    group_of: BTreeMap<usize, usize>,
    pub bell: Option<&'static Bell>,
    /// Threads that sleep, and of which process they are.
    asleep: u32,
    asleep_of: u32,
    waits: u32,
    /// Links that registrations have got.
    links: u64,
    /// The list has filled the last wait's room: the kernel is asked first.
    pub kernel_first: bool,
    /// When the kernel was asked by a wait that had found events.
    asked: Duration,
}

/// What the library adds to its tags, so that a program's data are none.
pub(super) fn tag_base() -> u64 {
    super::ready().map_or(0, |ready| ready.tag)
}

/// A descriptor by its number.
fn borrow<'a>(number: i32) -> BorrowedFd<'a> {
    // SAFETY: it is used for calls that say so if it is closed; whoever closes a number that is
    // registered waits for the instance's lock before.
    unsafe { BorrowedFd::borrow_raw(number) }
}

impl Inside {
    /// For a new instance.
    pub fn begin(&mut self, number: i32) {
        let waits = self.waits;
        // a thread may sleep in what was here before: it takes itself away
        let (asleep, asleep_of) = (self.asleep, self.asleep_of);
        let mut places = std::mem::take(&mut self.places);
        for place in &mut places {
            place.is_used = false;
            place.times = (place.times + 1) % TIMES;
            place.linked = None;
        }
        let free = (0..places.len() as u32).rev().collect();
        *self = Self {
            process: process(),
            listed_by: process(),
            numbers: vec![number],
            places,
            free,
            waits,
            asleep,
            asleep_of,
            ..Self::default()
        };
    }

    /// The registration of a number for a connection, if the program has not deleted it.
    pub fn find(&self, number: i32, taken: Taken) -> Option<u32> {
        let found = self.find_any(number, taken);
        found.filter(|at| !self.places[*at as usize].is_retired)
    }

    fn find_any(&self, number: i32, taken: Taken) -> Option<u32> {
        let at = *self.by_key.get(&(number, taken.index))?;
        (self.places[at as usize].taken == taken).then_some(at)
    }

    /// The registration of a number for a connection that the program has deleted, if the kernel
    /// still watches it.
    pub fn find_retired(&self, number: i32, taken: Taken) -> Option<u32> {
        let found = self.find_any(number, taken);
        found.filter(|at| self.places[*at as usize].is_retired)
    }

    /// The program deletes a linked registration, which the kernel goes on to watch: nothing of it
    /// is reported, and to add it again takes no system call. False: the kernel has to delete it.
    pub fn retire(&mut self, at: u32) -> bool {
        let is_own = self.process == process() && !self.is_inherited;
        let place = self.at(at);
        let is_plain = place.event.events & (EXCLUSIVE | WAKEUP) == 0;
        let Some(linked) = place.linked.as_mut().filter(|_| is_own && is_plain) else {
            return false;
        };
        linked.is_disabled = true;
        place.is_retired = true;
        true
    }

    /// The program adds a registration that it has deleted. False: the kernel has to.
    pub fn revive(&mut self, at: u32, event: Event) -> bool {
        let is_plain = event.events & (EXCLUSIVE | WAKEUP) == 0;
        if is_plain {
            self.at(at).is_retired = false;
            self.change(at, event);
        }
        is_plain
    }

    /// Connections of the registrations that the program has deleted, and the kernel still watches.
    pub fn retired(&self) -> impl Iterator<Item = Taken> {
        let retired = self.all().filter(|(_, one)| one.is_retired);
        retired.map(|(_, one)| one.taken)
    }

    /// A registration that the program has deleted, and the kernel still watches: the kernel
    /// watches it no more. The caller takes it away.
    pub fn unwatch_retired(&mut self, at: u32, taken: Taken) -> bool {
        let own = self.numbers.first().copied();
        let one = self.of(at, taken).filter(|one| one.is_retired);
        let number = one.map(|one| one.number);
        if let (Some(own), Some(number)) = (own, number) {
            // it says so if the number is closed, which has done the same
            let _ = kernel::ctl(own, libc::EPOLL_CTL_DEL, number, None);
        }
        number.is_some()
    }

    /// The registration at a place that is used.
    pub fn at(&mut self, at: u32) -> &mut Registration {
        &mut self.places[at as usize]
    }

    /// The registration at a place, if it is this connection's.
    pub fn of(&mut self, at: u32, taken: Taken) -> Option<&mut Registration> {
        let place = self.places.get_mut(at as usize)?;
        (place.is_used && place.taken == taken).then_some(place)
    }

    /// All of them, by their places.
    pub fn all(&self) -> impl Iterator<Item = (u32, &Registration)> {
        let all = (0..).zip(&self.places);
        all.filter(|(_, place)| place.is_used)
    }

    /// A place for a registration. None: there are too many.
    pub fn insert(&mut self, number: i32, taken: Taken, event: Event) -> Option<u32> {
        let new = |times| Registration {
            times,
            is_used: true,
            number,
            taken,
            event,
            is_counted: false,
            is_retired: false,
            linked: None,
        };
        let at = match self.free.pop() {
            Some(at) => {
                let place = self.at(at);
                *place = new(place.times);
                at
            }
            None if self.places.len() < BELL as usize => {
                self.places.push(new(0));
                self.places.len() as u32 - 1
            }
            None => return None,
        };
        self.by_key.insert((number, taken.index), at);
        Some(at)
    }

    /// Takes a registration away.
    pub fn remove(&mut self, at: u32) {
        self.detach(at);
        let place = self.at(at);
        place.is_used = false;
        place.times = (place.times + 1) % TIMES;
        let key = (place.number, place.taken.index);
        if self.by_key.get(&key) == Some(&at) {
            self.by_key.remove(&key);
        }
        self.free.push(at);
    }

    fn tag(&self, at: u32) -> u32 {
        self.places[at as usize].times << PLACE_BITS | at
    }

    /// The registration of a tag, if that is not old.
    fn of_tag(&self, tag: u32) -> Option<u32> {
        let at = tag & (PLACES - 1);
        let place = self.places.get(at as usize)?;
        (place.is_used && place.times == tag >> PLACE_BITS).then_some(at)
    }

    /// What the kernel is to watch of a linked registration.
    pub fn watched(&self, at: u32) -> Event {
        let events = self.places[at as usize].event.events;
        Event {
            events: IN | OUT | PRI | RDHUP | ET | events & WAKEUP,
            data: tag_base() | u64::from(self.tag(at)),
        }
    }

    /// What the kernel is to watch of the bell.
    pub fn watch_bell(&mut self, bell: &'static Bell) -> Result<(), Errno> {
        let watched = Event {
            events: IN | ET,
            data: tag_base() | u64::from(BELL),
        };
        let number = bell.as_fd().as_raw_fd();
        let instance = *self.numbers.first().ok_or(Errno::BADF)?;
        kernel::ctl(instance, libc::EPOLL_CTL_ADD, number, Some(watched))?;
        self.bell = Some(bell);
        Ok(())
    }

    /// A registration is linked from here on, and looked at by the next wait.
    pub fn attach(&mut self, at: u32, told: Told) {
        if self.places[at as usize].linked.is_some() {
            return;
        }
        let word = std::ptr::from_ref(told.word()) as usize;
        let slot = told.slot();
        let group = match self.group_of.get(&word) {
            Some(group) => *group,
            None => {
                let (mask, first) = (0, Box::new([NONE; 64]));
                self.groups.push(Group { told, mask, first });
                self.group_of.insert(word, self.groups.len() - 1);
                self.groups.len() - 1
            }
        };
        let first = &mut self.groups[group].first[slot as usize];
        let next = std::mem::replace(first, at);
        self.groups[group].mask |= 1 << slot;
        self.links += 1;
        let link = self.links;
        self.at(at).linked = Some(Linked {
            seen: Seen::nothing(),
            is_listed: false,
            is_disabled: false,
            is_told: true,
            wait: 0,
            link,
            in_vain: 0,
            group,
            slot,
            next,
        });
        self.list(at);
    }

    /// A registration is the kernel's from here on.
    fn detach(&mut self, at: u32) {
        let Some(linked) = self.at(at).linked.take() else {
            return;
        };
        let group = &mut self.groups[linked.group];
        let slot = linked.slot as usize;
        if group.first[slot] == at {
            group.first[slot] = linked.next;
        } else {
            let mut before = group.first[slot];
            while before != NONE {
                let one = self.places[before as usize].linked.as_mut();
                let one = one.expect("all of a group are linked");
                if one.next == at {
                    one.next = linked.next;
                    break;
                }
                before = one.next;
            }
        }
        let group = &mut self.groups[linked.group];
        if group.first[slot] == NONE {
            group.mask &= !(1 << slot);
        }
        if group.mask == 0 {
            self.drop_group(linked.group);
        }
    }

    fn drop_group(&mut self, at: usize) {
        let gone = self.groups.swap_remove(at);
        let word = std::ptr::from_ref(gone.told.word()) as usize;
        self.group_of.remove(&word);
        // the last has taken its place
        let Some(moved) = self.groups.get(at) else {
            return;
        };
        let word = std::ptr::from_ref(moved.told.word()) as usize;
        self.group_of.insert(word, at);
        for first in *moved.first {
            let mut one = first;
            while one != NONE {
                let linked = self.places[one as usize].linked.as_mut();
                let linked = linked.expect("all of a group are linked");
                linked.group = at;
                one = linked.next;
            }
        }
    }

    /// Before the list is used. A child has it as its parent's threads were just changing it, if it
    /// was made by the bare system call: there all registrations are listed anew.
    #[inline]
    fn own_list(&mut self) {
        if self.listed_by != process() {
            self.list_all();
        }
    }

    #[cold]
    fn list_all(&mut self) {
        self.listed_by = process();
        // its memory may have been given back at that moment
        std::mem::forget(std::mem::take(&mut self.list));
        for at in 0..self.places.len() as u32 {
            if let Some(linked) = &mut self.at(at).linked {
                linked.is_listed = false;
                linked.is_told = true;
                linked.seen.stale = true;
                self.list(at);
            }
        }
    }

    /// Puts a linked registration on the list.
    fn list(&mut self, at: u32) {
        self.own_list();
        let tag = self.tag(at);
        if let Some(linked) = &mut self.places[at as usize].linked
            && !linked.is_listed
        {
            linked.is_listed = true;
            self.list.push_back(tag);
        }
    }

    /// There is news of a linked registration: the next wait looks at it. `of_kernel`: the kernel's
    /// socket may have changed.
    pub fn news(&mut self, at: u32, of_kernel: bool) {
        let place = self.places.get_mut(at as usize);
        if let Some(linked) = place.and_then(|place| place.linked.as_mut()) {
            linked.seen.stale |= of_kernel;
            linked.is_told = true;
            linked.in_vain = 0;
            self.list(at);
        }
    }

    /// The program has changed what it wants of a linked registration.
    pub fn change(&mut self, at: u32, event: Event) {
        let place = self.at(at);
        place.event = event;
        if let Some(linked) = &mut place.linked {
            linked.is_disabled = false;
        }
        self.list(at);
    }

    /// Nothing is to be looked at.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// A thread is about to sleep.
    pub fn fall_asleep(&mut self) {
        let process = process();
        if self.asleep_of != process {
            // a parent's threads
            (self.asleep, self.asleep_of) = (0, process);
        }
        self.asleep += 1;
    }

    /// It has slept.
    pub fn wake_up(&mut self) {
        self.asleep = self.asleep.saturating_sub(1);
    }

    /// Whether the kernel was asked no longer ago than this by a wait that had found events. If
    /// not, it is asked by the one that asks here.
    pub fn was_asked(&mut self, now: Duration, ago: Duration) -> bool {
        let was_asked = now.saturating_sub(self.asked) < ago;
        if !was_asked {
            self.asked = now;
        }
        was_asked
    }

    /// How many links registrations have got so far.
    pub fn links(&self) -> u64 {
        self.links
    }

    /// A number for a wait.
    pub fn next_wait(&mut self) -> u32 {
        self.waits = self.waits.wrapping_add(1).max(1);
        self.waits
    }

    /// Before the lock of `known` is left, which keeps this, if something may have been listed, or
    /// left on the list: threads that sleep, and whoever waits for the instance itself, are to
    /// look.
    pub fn leave(&self, known: &Instance) {
        if self.list.is_empty() {
            return;
        }
        let sleeps = self.asleep > 0 && self.asleep_of == process();
        if (sleeps || known.is_nested.load(Ordering::Relaxed) || known.has_plain_sleepers())
            && let Some(bell) = self.bell
        {
            bell.ring();
        }
    }

    /// No other thread sleeps until something is on the list, and nobody waits for the instance
    /// itself: what is not ready may stay there.
    pub fn may_stay_listed(&self, known: &Instance) -> bool {
        let sleeps = self.asleep > 0 && self.asleep_of == process();
        !sleeps && !known.is_nested.load(Ordering::SeqCst) && !known.has_plain_sleepers()
    }
}

/// The connection of a call of the program, by one of its numbers.
pub(super) fn call_on<'b>(pin: &'b Pin<'_>, number: i32) -> Option<Call<'b, 'static>> {
    pin.link().map(|link| link.on(borrow(number)))
}
