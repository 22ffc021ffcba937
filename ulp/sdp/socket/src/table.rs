//! The program's descriptor numbers and the records that they stand for.
//!
//! Owns: how many numbers and calls of this process refer to a record, and what a fork does to
//! that. Must not know: what is done with a connection before its last number goes; who calls is
//! told that it does.
//!
//! A number that is none of ours costs one load ([`Numbers::look`]). Beside each record there is a
//! line of this process's own: how many numbers and how many calls refer to it. The process lets go
//! of the record when both are none. So a call whose number another thread closes, or puts another
//! descriptor over, keeps its record, as it keeps its socket in the kernel; the number is another's
//! from then on. A record's memory is never unmapped.
//!
//! A child begins with copies of the numbers and counts. Its parent's other threads, and their
//! calls, are not there: each line says whose it is, and the child drops the calls that are not its
//! own when it first looks. Numbers that another thread makes or closes during a fork are compared
//! with the child's records in the child. A child made by a bare system call takes what it finds in
//! its copy; a record that its parent gave back before is a plain descriptor to it, of which the
//! rest that lay in the ring is lost.

use crate::arena::{Arena, Holder, Living, Taken};
use crate::holder::{Family, NAMELESS};
use crate::link::Link;
use crate::numbers::{Kind, Numbers, once};
use crate::own;
use crate::pages::{Pages, Seen};
use rustix::io::Errno;
use std::ops::RangeInclusive;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

pub use crate::numbers::Kind as NumberKind;
pub use pin::{Last, Left, Open, Pin};

/// Bytes of a record's line: counts, the record's generation, its link, then what is known of its
/// traffic.
const LINE: usize = 64;
const GENERATION: usize = 8;
const LINK: usize = 16;
const TRAFFIC: usize = 24;
/// Calls are counted in the lowest bits, then numbers, then comes whose line it is.
const NUMBER: u64 = 1 << 12;
const CALLS: u64 = NUMBER - 1;
const WHOSE: u32 = 32;
const COUNTS: u64 = (1 << WHOSE) - 1;

/// The table of this process.
#[derive(Debug)]
pub struct Table {
    family: &'static Family,
    numbers: &'static Numbers,
    arena: Arena,
    lines: Pages,
    /// Changes that were begun, and ended.
    changes: [AtomicU32; 2],
    /// The thread that forks. 0: none does.
    forking: AtomicU64,
    /// Called when one call is left of a record for which no number stands.
    alone: OnceLock<fn()>,
}

static TABLE: AtomicPtr<Table> = AtomicPtr::new(ptr::null_mut());

/// What one process knows of the traffic of a record. Nothing else depends on it than whether the
/// connection is worth to be carried by SDP.
#[derive(Default, Debug)]
#[repr(C)]
pub struct Traffic {
    /// Bytes that were sent and received.
    pub bytes: AtomicU64,
    /// Sends that followed a receive, times two; the lowest bit is set after a receive.
    pub exchanges: AtomicU32,
    /// What the sockets' service has to remember of it.
    pub state: AtomicU32,
    /// How often it was not taken over for the time being.
    pub put_off: AtomicU32,
    /// A number that stood for it once.
    pub number: AtomicI32,
    /// Why it is TCP, by the number of [`crate::meet::report::Why`].
    pub why: AtomicU32,
    /// The user who stood in the way, and 1 more. 0: none.
    pub by: AtomicU32,
    /// The port where it listens, or was accepted. 0: one without a family.
    pub port: AtomicU32,
    /// The timestamp of TCP when it began to connect; 0 if that is not known.
    pub stamp: AtomicU32,
}

impl Traffic {
    fn clear(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        self.exchanges.store(0, Ordering::Relaxed);
        self.state.store(0, Ordering::Relaxed);
        self.put_off.store(0, Ordering::Relaxed);
        self.why.store(0, Ordering::Relaxed);
        self.by.store(0, Ordering::Relaxed);
        self.port.store(0, Ordering::Relaxed);
        self.stamp.store(0, Ordering::Relaxed);
    }
}

const _: () = assert!(TRAFFIC + size_of::<Traffic>() <= LINE);

/// A change of what this process holds that is not over: a child that is forked meanwhile compares
/// its numbers with its records.
#[derive(Debug)]
pub struct Changing<'a> {
    table: &'a Table,
    holder: u32,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        // in a child all changes are over
        if self.holder == self.table.holder() {
            self.table.changes[1].fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Living for Family {
    fn lives(&self, place: u32) -> bool {
        self.place_lives(place)
    }
}

impl Table {
    /// That of this process, which is made by the first that needs it.
    ///
    /// # Errors
    /// No memory, no descriptor, or an old kernel.
    pub fn get() -> Result<&'static Self, Errno> {
        let table = once(&TABLE, || {
            let arena = Arena::create()?;
            Ok(Self {
                family: Family::get()?,
                numbers: Numbers::of_process()?,
                lines: Pages::reserve(arena.records() as usize * LINE, Seen::Copied)?,
                arena,
                changes: Default::default(),
                forking: AtomicU64::new(0),
                alone: OnceLock::new(),
            })
        })?;
        table.watch_forks()?;
        Ok(table)
    }

    /// A change begins, which is over when this is dropped.
    pub fn changing(&self) -> Changing<'_> {
        self.changes[0].fetch_add(1, Ordering::SeqCst);
        Changing {
            table: self,
            holder: self.holder(),
        }
    }

    /// Says what is called when one call is left of a record for which no number stands: who has
    /// kept a [`Left::Calls`] has the last of it then. It is called once, by any thread.
    pub fn when_alone(&self, does: fn()) {
        let _ = self.alone.set(does);
    }

    #[cold]
    fn tell_alone(&self) {
        if let Some(does) = self.alone.get() {
            does();
        }
    }

    /// The descriptors' numbers.
    #[inline]
    pub fn numbers(&self) -> &'static Numbers {
        self.numbers
    }

    /// The records.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    #[inline]
    fn holder(&self) -> u32 {
        self.family.holder()
    }

    fn who(&self) -> Holder {
        Holder {
            number: self.holder(),
            forks: self.family.forks(),
        }
    }

    /// This process's number, which it takes now if it has none.
    fn named(&self) -> Option<u32> {
        match self.holder() {
            0 => register(self.family).ok(),
            holder => Some(holder),
        }
    }

    #[inline]
    fn line(&self, index: u32) -> &AtomicU64 {
        self.lines.word(index as usize * LINE)
    }

    fn generation(&self, index: u32) -> &AtomicU64 {
        self.lines.word(index as usize * LINE + GENERATION)
    }

    #[inline]
    fn link(&self, index: u32) -> &AtomicPtr<Link<'static>> {
        // SAFETY: an atomic pointer that begins as null, and nothing else lies there.
        unsafe { self.lines.at(index as usize * LINE + LINK) }
    }

    #[inline]
    fn traffic(&self, index: u32) -> &Traffic {
        // SAFETY: atomic words that begin as zeros, and nothing else lies there.
        unsafe { self.lines.at(index as usize * LINE + TRAFFIC) }
    }

    /// After socket(2) or accept(2): the number is a stream's, with a record of its own. None if
    /// there is no record to be had: it is plain.
    pub fn enter(&self, number: i32) -> Option<Pin<'_>> {
        self.changes[0].fetch_add(1, Ordering::SeqCst);
        let entered = self.new_pin(number);
        if entered.is_none() {
            self.replace(number, Kind::Plain);
        }
        self.changes[1].fetch_add(1, Ordering::SeqCst);
        entered
    }

    fn new_pin(&self, number: i32) -> Option<Pin<'_>> {
        if !(0..crate::numbers::NUMBERS).contains(&number) {
            return None;
        }
        // one of those that have no place has no records but those that it has inherited
        let holder = self.named().filter(|holder| *holder != NAMELESS)?;
        let taken = self.arena.take(self.who(), self.family)?;
        self.generation(taken.index)
            .store(taken.generation, Ordering::Relaxed);
        // a parent's, of which this is a copy
        self.drop_link(taken.index);
        self.traffic(taken.index).clear();
        let counts = u64::from(holder) << WHOSE | NUMBER | 1;
        self.line(taken.index).store(counts, Ordering::SeqCst);
        self.replace(number, Kind::Stream(taken.index));
        Some(Pin {
            table: self,
            taken,
            holder,
        })
    }

    /// What the number stood for is gone: the program has closed it without our knowledge.
    fn replace(&self, number: i32, kind: Kind) {
        if let Some(Kind::Stream(index)) = self.numbers.put(number, kind) {
            self.changes[0].fetch_add(1, Ordering::SeqCst);
            // the last ends the change itself
            if !matches!(self.remove(index), Left::Last(_)) {
                self.changes[1].fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    /// A call on what the number stands for. None if that is no stream.
    #[inline]
    pub fn pin(&self, number: i32) -> Option<Pin<'_>> {
        loop {
            let kind = self.numbers.look(number);
            let Kind::Stream(index) = kind else {
                return None;
            };
            let Some(holder) = Some(self.holder()).filter(|holder| *holder != 0) else {
                self.named()?;
                continue;
            };
            let line = self.line(index);
            let counts = line.load(Ordering::Acquire);
            if counts >> WHOSE != u64::from(holder) {
                self.make_mine(line, counts, holder);
                continue;
            }
            // it is being closed, or there is no room for one more call
            if counts & COUNTS == 0 || counts & CALLS == CALLS {
                std::thread::yield_now();
                continue;
            }
            let taken = line.compare_exchange_weak(
                counts,
                counts + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            if taken.is_err() {
                continue;
            }
            let generation = self.generation(index).load(Ordering::Relaxed);
            let taken = Taken { index, generation };
            let pin = Pin {
                table: self,
                taken,
                holder,
            };
            if self.numbers.look(number) == kind {
                return Some(pin);
            }
        }
    }

    /// A call on the record with this index, if this process has it.
    pub(crate) fn pin_index(&self, index: u32) -> Option<Pin<'_>> {
        let generation = self.generation(index).load(Ordering::Relaxed);
        self.pin_taken(Taken { index, generation })
    }

    /// A call on a record of this process whose number is not known. None if the process has let go
    /// of it.
    pub fn pin_taken(&self, taken: Taken) -> Option<Pin<'_>> {
        let holder = self.holder();
        let line = self.line(taken.index);
        loop {
            let counts = line.load(Ordering::Acquire);
            let generation = self.generation(taken.index).load(Ordering::Relaxed);
            if holder == 0 || counts & COUNTS == 0 || generation != taken.generation {
                return None;
            }
            if counts >> WHOSE != u64::from(holder) {
                self.make_mine(line, counts, holder);
                continue;
            }
            if counts & CALLS == CALLS {
                std::thread::yield_now();
                continue;
            }
            let (won, lost) = (Ordering::Acquire, Ordering::Relaxed);
            let more = line.compare_exchange_weak(counts, counts + 1, won, lost);
            if more.is_ok() {
                // it may have become another record's before it was counted
                let (index, generation) = (taken.index, self.generation(taken.index));
                let generation = generation.load(Ordering::Relaxed);
                let pin = Pin {
                    table: self,
                    taken: Taken { index, generation },
                    holder,
                };
                return (pin.taken == taken).then_some(pin);
            }
        }
    }

    /// A call that [`Pin::keep_open`] has left open. Once for each.
    #[inline]
    pub fn take_up(&self, open: Open) -> Pin<'_> {
        Pin {
            table: self,
            taken: open.taken,
            holder: open.holder,
        }
    }

    fn drop_link(&self, index: u32) {
        let link = self.link(index).swap(ptr::null_mut(), Ordering::AcqRel);
        if !link.is_null() {
            // SAFETY: the box that was put there, which nobody has that does not count.
            drop(unsafe { Box::from_raw(link) });
        }
    }

    /// The line is a parent's copy: its calls are not this process's.
    #[cold]
    fn make_mine(&self, line: &AtomicU64, counts: u64, holder: u32) {
        let mine = u64::from(holder) << WHOSE | counts & COUNTS & !CALLS;
        let _ = line.compare_exchange(counts, mine, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// After dup(2) and its like: another number of the record that a call has. `dup2` over a
    /// number: [`Table::leave`] it before.
    pub fn alias(&self, pin: &Pin<'_>, number: i32) {
        if !(0..crate::numbers::NUMBERS).contains(&number) {
            return;
        }
        self.changes[0].fetch_add(1, Ordering::SeqCst);
        self.line(pin.taken.index)
            .fetch_add(NUMBER, Ordering::SeqCst);
        self.replace(number, Kind::Stream(pin.taken.index));
        self.changes[1].fetch_add(1, Ordering::SeqCst);
    }

    /// Before the kernel closes a number, or puts another descriptor there.
    pub fn leave(&self, number: i32) -> Left<'_> {
        loop {
            let kind = self.numbers.look(number);
            match kind {
                Kind::Unknown => return Left::Plain,
                Kind::Own => return Left::Own,
                Kind::Plain => {
                    self.numbers.forget(number, kind);
                    return Left::Plain;
                }
                Kind::Stream(index) => {
                    self.named();
                    self.changes[0].fetch_add(1, Ordering::SeqCst);
                    let mine = self.numbers.forget(number, kind);
                    let left = mine.then(|| self.remove(index));
                    if !matches!(left, Some(Left::Last(_))) {
                        self.changes[1].fetch_add(1, Ordering::SeqCst);
                    }
                    if let Some(left) = left {
                        return left;
                    }
                }
            }
        }
    }

    /// Before the kernel closes a range of numbers: each stream of it is left. Gives the ranges
    /// that the kernel may close.
    pub fn leave_range<'a>(
        &'a self,
        range: RangeInclusive<u32>,
        each: &mut dyn FnMut(i32, Left<'a>),
    ) -> impl Iterator<Item = RangeInclusive<u32>> + use<'a> {
        let first = i32::try_from(*range.start()).unwrap_or(i32::MAX);
        let last = i32::try_from(*range.end()).unwrap_or(i32::MAX);
        for (number, kind) in self.numbers.known(first..=last) {
            if matches!(kind, Kind::Stream(_)) {
                each(number, self.leave(number));
            }
        }
        own::around(range)
    }

    /// The streams that a program begins with which is executed now.
    pub fn kept_by_exec(&self) -> impl Iterator<Item = i32> {
        let streams = self.numbers.known(0..=i32::MAX);
        let streams = streams.filter(|(_, kind)| matches!(kind, Kind::Stream(_)));
        streams.map(|(number, _)| number).filter(|number| {
            // SAFETY: only looked at, and it may be closed.
            let descriptor = unsafe { std::os::fd::BorrowedFd::borrow_raw(*number) };
            rustix::io::fcntl_getfd(descriptor)
                .is_ok_and(|flags| !flags.contains(rustix::io::FdFlags::CLOEXEC))
        })
    }

    fn remove(&self, index: u32) -> Left<'_> {
        let generation = self.generation(index).load(Ordering::Relaxed);
        let taken = Taken { index, generation };
        let (counts, last) = self.subtract(taken, NUMBER);
        match last {
            Some(last) => Left::Last(last),
            None if counts & COUNTS & !CALLS == 0 => Left::Calls(Pin {
                table: self,
                taken,
                holder: (counts >> WHOSE) as u32,
            }),
            None => Left::Others(taken),
        }
    }

    /// Gives what is left, and the last of it. A `Last` ends a change: it was begun by whoever
    /// takes away a number, and here for a call. The last number leaves a call more behind, if
    /// there are calls.
    fn subtract(&self, taken: Taken, what: u64) -> (u64, Option<Last<'_>>) {
        let line = self.line(taken.index);
        loop {
            let counts = line.load(Ordering::Acquire);
            let holder = self.holder();
            if counts >> WHOSE != u64::from(holder) {
                self.make_mine(line, counts, holder);
                continue;
            }
            let mut left = counts - what;
            let last = left & COUNTS == 0;
            if what == NUMBER && !last && left & COUNTS & !CALLS == 0 {
                if left & CALLS == CALLS {
                    std::thread::yield_now();
                    continue;
                }
                left += 1;
            }
            if last && what == 1 {
                self.changes[0].fetch_add(1, Ordering::SeqCst);
            }
            let done = line.compare_exchange(counts, left, Ordering::AcqRel, Ordering::Relaxed);
            if done.is_ok() {
                // not `then_some`, which would make one and drop it
                let what = || Last {
                    table: self,
                    taken,
                    holder,
                };
                return (left, last.then(what));
            }
            if last && what == 1 {
                self.changes[1].fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    /// Makes the records that this process holds those that its numbers stand for, and counts anew:
    /// a number whose record is another's by now is plain.
    fn reconcile(&self, who: Holder) {
        let mine = |counts: u64| counts >> WHOSE == u64::from(who.number);
        if who.number == NAMELESS {
            // its parent may be one of them
            for (_, kind) in self.numbers.known(0..=i32::MAX) {
                if let Kind::Stream(index) = kind {
                    self.line(index).store(0, Ordering::Release);
                }
            }
        }
        for (number, kind) in self.numbers.known(0..=i32::MAX) {
            let Kind::Stream(index) = kind else {
                continue;
            };
            let generation = self.generation(index).load(Ordering::Relaxed);
            if !self.arena.join(who, Taken { index, generation }) {
                self.numbers.put(number, Kind::Plain);
                continue;
            }
            let line = self.line(index);
            let counts = line.load(Ordering::Acquire);
            let begin = u64::from(who.number) << WHOSE;
            let counts = if mine(counts) { counts } else { begin };
            line.store(counts + NUMBER, Ordering::Release);
        }
        if who.number == NAMELESS {
            return;
        }
        for index in self.arena.held(who.number) {
            let line = self.line(index);
            if mine(line.load(Ordering::Acquire)) {
                continue;
            }
            line.store(0, Ordering::Release);
            match self.arena.used(index) {
                Some(taken) => {
                    self.arena.leave(who, taken, self.family);
                }
                // the parent has given it back since the fork
                None => self.arena.forget(who, index),
            }
        }
    }
}

mod fork;
mod pin;
use fork::register;
pub use fork::thread;

#[cfg(test)]
mod tests;
