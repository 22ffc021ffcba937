//! The sockets of a process: what becomes of a program's calls, and the thread that serves them.
//!
//! Owns: which descriptors are streams that may be taken over, when a connection is worth it
//! ([`state`]), the service thread ([`service`], [`thread`](mod@thread)), how a call goes on by the
//! kernel or the ring ([`moving`]), how a number goes ([`closing`]), how a connection comes back to
//! TCP ([`back`]). Must not know: the C names of calls, and how a call enters the kernel.
//!
//! A call on a descriptor that is no stream costs two loads. Whatever is not served here is told
//! with [`Process::only_by_kernel`] first: then the connection is TCP, and stays so.

mod back;
mod carried;
mod closing;
mod counters;
mod far;
mod fit;
mod lock;
mod moving;
mod service;
mod set;
mod state;
mod thread;

pub use closing::Closing;
pub use counters::report;
pub use moving::{Begun, Ticket};
pub use set::read as read_settings;

use crate::numbers::{Kind, once};
use crate::own::Event;
use crate::pages::{Pages, Seen};
use crate::table::{Pin, Table};
use crate::{arena, diag, tunnel};
use lock::{Guard, Lock};
use rustix::io::Errno;
use service::Service;
use state::State;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Numbers that are standard input, output and error, which the C library uses by itself.
const STANDARD: i32 = 2;

/// The sockets of this process.
pub struct Process {
    table: &'static Table,
    service: Lock<Service>,
    /// Records whose connection is to be asked for: a bit for each. A child begins with none.
    asked: Pages,
    /// What wakes the service thread. NULL: there is none.
    bell: AtomicPtr<Arc<Event>>,
}

static PROCESS: AtomicPtr<Process> = AtomicPtr::new(ptr::null_mut());

impl Process {
    /// That of this process, if it has had a stream so far.
    #[inline]
    pub fn there() -> Option<&'static Self> {
        let process = PROCESS.load(Ordering::Acquire);
        // SAFETY: what was once put there stays for ever.
        unsafe { process.as_ref() }
    }

    /// That of this process, which is made by the first that needs it.
    ///
    /// # Errors
    /// No memory, no descriptor, or an old kernel: the program's sockets are the kernel's.
    pub fn get() -> Result<&'static Self, Errno> {
        let process = once(&PROCESS, || {
            Ok(Self {
                table: Table::get()?,
                service: Lock::new(Service::new()),
                asked: Pages::reserve(arena::RECORDS as usize / 8, Seen::Wiped)?,
                bell: AtomicPtr::new(ptr::null_mut()),
            })
        })?;
        thread::watch_forks()?;
        Ok(process)
    }

    /// The table of this process's descriptors.
    pub fn table(&self) -> &'static Table {
        self.table
    }

    /// Whether a number is a stream's.
    #[inline]
    pub fn is_stream(&self, number: i32) -> bool {
        matches!(self.table.numbers().look(number), Kind::Stream(_))
    }

    /// A call on a stream, which this process has looked at.
    #[inline]
    fn pin(&'static self, number: i32) -> Option<Pin<'static>> {
        let pin = self.table.pin(number)?;
        if !pin.traffic().is_mine() {
            self.adopt(&pin, number);
        }
        Some(pin)
    }

    /// After socket(2) has made a TCP socket.
    pub fn made(&'static self, number: i32) {
        self.enter(number, 0);
    }

    /// After connect(2) that has succeeded, or goes on by itself.
    pub fn connected(&'static self, number: i32) {
        if let Some(pin) = self.pin(number) {
            if set::hosts().is_some()
                && let Some(stamp) = tunnel::stamp(socket(number))
            {
                let known = 1 << 32 | u64::from(stamp);
                pin.traffic().stamp.store(known, Ordering::Relaxed);
            }
            pin.traffic().add(state::CONNECTED);
        }
    }

    fn enter(&'static self, number: i32, bits: u32) -> Option<Pin<'static>> {
        let pin = self.table.enter(number)?;
        let never = if number <= STANDARD { state::NEVER } else { 0 };
        pin.traffic().number.store(number, Ordering::Relaxed);
        pin.traffic().begin(bits | never);
        Some(pin)
    }

    /// After listen(2).
    pub fn listening(&'static self, number: i32) {
        let Some(pin) = self.pin(number) else {
            return;
        };
        if pin.traffic().is(state::LISTENS) {
            return;
        }
        let mut service = self.served();
        // without a family nobody asks
        if service.listen(self, &pin, number).is_ok() {
            pin.traffic().add(state::LISTENS | state::SERVED);
        }
    }

    /// After accept(2) at `listener`.
    pub fn accepted(&'static self, listener: i32, number: i32) {
        let Some(listener) = self.pin(listener) else {
            // whose listener it is, and who asks for its connections, is not known
            return self.other(number);
        };
        let Some(pin) = self.enter(number, state::ACCEPTED) else {
            return;
        };
        if listener.traffic().is(state::LISTENS) {
            self.served().accept(self, &pin, number);
        }
    }

    /// A descriptor has this number that is no stream.
    pub fn other(&'static self, number: i32) {
        if self.is_stream(number) {
            self.leave_unseen(number);
        }
    }

    /// Before a call that waits for several descriptors, of which this is one.
    #[inline]
    pub fn waits(&'static self, number: i32) {
        if self.is_stream(number) {
            drop(self.pin(number));
        }
    }

    /// The service's state.
    fn served(&self) -> Guard<'_, Service> {
        self.service.lock()
    }

    /// A stream that was inherited, or that this process has not looked at otherwise.
    #[cold]
    fn adopt(&'static self, pin: &Pin<'_>, number: i32) {
        let mut service = self.served();
        if pin.traffic().is_mine() {
            return;
        }
        pin.traffic().make_mine();
        if pin.link().is_some() {
            service.inherit(self, pin, number);
        } else if pin.traffic().is(state::ACCEPTED) {
            service.accept(self, pin, number);
        }
    }

    /// The connection is worth it: the service of the connected side asks the peer.
    #[cold]
    fn worth(&'static self, pin: &Pin<'_>) {
        if pin.traffic().counts() {
            counters::eligible();
        }
        if pin.traffic().is(state::CONNECTED) && !pin.traffic().is(state::ASKED | state::NEVER) {
            self.ask(pin);
        }
    }

    fn ask(&'static self, pin: &Pin<'_>) {
        pin.traffic().add(state::ASKED | state::SERVED);
        let index = pin.taken().index;
        let word = self.asked.word(index as usize / 64 * 8);
        word.fetch_or(1 << (index % 64), Ordering::SeqCst);
        if !self.ring() && thread::start(self, &mut self.served()).is_ok() {
            self.ring();
        }
    }

    /// Takes the records that are to be asked for.
    fn take_asked(&self) -> impl Iterator<Item = u32> + '_ {
        let words = self.table.arena().used_words();
        let take = |word: &AtomicU64| match word.load(Ordering::SeqCst) {
            0 => 0,
            _ => word.swap(0, Ordering::SeqCst),
        };
        words.flat_map(move |at| {
            let bits = take(self.asked.word(at as usize * 8));
            (0..64).filter_map(move |bit| (bits >> bit & 1 != 0).then_some(at * 64 + bit))
        })
    }

    /// Wakes the service thread. False if there is none.
    fn ring(&self) -> bool {
        let bell = self.bell.load(Ordering::Acquire);
        // SAFETY: what was once put there stays for ever.
        let bell = unsafe { bell.as_ref() };
        if let Some(bell) = bell {
            bell.signal();
        }
        bell.is_some()
    }

    /// The number still stands for this record.
    #[inline]
    fn is_still(&self, number: i32, index: u32) -> bool {
        self.table.numbers().look(number) == Kind::Stream(index)
    }
}

/// A number of the program's, for calls of the kernel. It may be closed at any time, as any number
/// that a program gives.
#[inline]
fn socket(number: i32) -> BorrowedFd<'static> {
    // SAFETY: numbers below 0 are never a stream's; the kernel answers EBADF for what is closed.
    unsafe { BorrowedFd::borrow_raw(number) }
}

/// The kernel's number of a socket; 0 if there is none.
fn cookie(number: i32) -> u64 {
    diag::cookie(socket(number)).unwrap_or(0)
}

#[cfg(test)]
mod tests;
