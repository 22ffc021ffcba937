//! The sockets of a process: what becomes of a program's calls, and the thread that serves them.
//!
//! Owns: which descriptors are streams that may be taken over, when a connection is worth it
//! (`state`), the service thread (`service`, `thread`), how a call goes on by the
//! kernel or the ring (`moving`), how a number goes (`closing`), how a connection comes back to
//! TCP (`back`). Must not know: the C names of calls, and how a call enters the kernel.
//!
//! A call on a descriptor that is no stream costs two loads. Whatever is not served here is told
//! with [`Process::only_by_kernel`] first: then the connection is TCP, and stays so.

mod again;
mod ahead;
mod asking;
mod back;
mod carried;
mod carrying;
mod closing;
mod counters;
mod far;
mod fit;
mod forks;
mod inherited;
mod kernel;
mod leaving;
mod lock;
mod memory;
mod moving;
mod report;
mod service;
mod set;
mod state;
mod thread;

pub use crate::meet::report::Cause;
pub use closing::Closing;
pub(crate) use counters::carried as count_carried;
pub use counters::report;
pub use fit::asks_kernel;
pub use forks::fork_by;
pub use moving::{Begun, Sleeper, Ticket};
pub use set::read as read_settings;

use crate::meet::message::Reason;
use crate::meet::report::Why;
use crate::numbers::{Kind, once};
use crate::own::Event;
use crate::pages::{self, Pages, Seen};
use crate::table::{Pin, Table};
use crate::{arena, diag, order, spin, tunnel};
use lock::{Guard, Lock};
use rustix::io::Errno;
use service::Service;
use state::State;
use std::ffi::c_void;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

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
    /// A port's family is there for accepted connections alone, of which peers may ask for one.
    keeps_ports: AtomicBool,
    /// The last calls on connections have ended whose numbers were closed before.
    alone: AtomicBool,
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
                keeps_ports: AtomicBool::new(false),
                alone: AtomicBool::new(false),
            })
        })?;
        process.table.when_alone(calls_have_ended);
        thread::watch_forks()?;
        Ok(process)
    }

    /// Before mlockall(2): nothing more is reserved in this process, which would be locked. Gives
    /// whether something was, so that what was never touched is to be locked when it is.
    pub fn locks_memory() -> bool {
        pages::lock_all()
    }

    /// Whether memory that the program says it has can be read; if not, the kernel's call is to say
    /// so.
    #[inline]
    pub fn can_read(at: *const c_void, bytes: usize) -> bool {
        memory::piece_is_good(at.addr(), bytes, memory::Access::Read)
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
        spin::by_kernel();
        order::by_kernel();
        if let Some(pin) = self.pin(number) {
            if set::hosts().is_some()
                && let Some(stamp) = tunnel::stamp(socket(number))
            {
                // 0 says that none is known; one that is 1 later is as good
                pin.traffic().stamp.store(stamp.max(1), Ordering::Relaxed);
            }
            pin.traffic().add(state::CONNECTED);
        }
    }

    fn enter(&'static self, number: i32, bits: u32) -> Option<Pin<'static>> {
        let pin = self.table.enter(number)?;
        pin.traffic().number.store(number, Ordering::Relaxed);
        pin.traffic().begin(bits);
        if number <= STANDARD {
            state::stay(&pin);
        }
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
        self.listens(&mut self.served(), &pin, number);
    }

    fn listens(&'static self, service: &mut Service, pin: &Pin<'_>, number: i32) {
        match service.listen(self, pin, number) {
            Ok(port) => {
                report::clear(pin);
                pin.traffic().port.store(port.into(), Ordering::Relaxed);
                pin.traffic().add(state::LISTENS | state::SERVED);
            }
            // without a family nobody asks
            Err(Errno::ADDRINUSE) => report::note(pin, Why::Cause(Cause::NoName), None),
            Err(_) => report::note(pin, Why::Reason(Reason::NoMemory), None),
        }
    }

    /// After accept(2) at `listener`.
    pub fn accepted(&'static self, listener: i32, number: i32) {
        spin::by_kernel();
        let is_unknown = self.table.numbers().look(listener) == Kind::Unknown;
        if is_unknown && !self.finds_listener(listener) {
            return self.other(number);
        }
        let Some(listener) = self.pin(listener) else {
            return self.other(number);
        };
        let Some(pin) = self.enter(number, state::ACCEPTED) else {
            return;
        };
        let (from, to) = (listener.traffic(), pin.traffic());
        if from.is(state::LISTENS) {
            to.port
                .store(from.port.load(Ordering::Relaxed), Ordering::Relaxed);
            if set::is_early() {
                // whose peer has ended its stream could not be carried, and is not counted
                let has_ended = carried::ended(socket(number)) != 0;
                if has_ended && to.counts() {
                    return;
                }
                self.served().accept(self, &pin, number);
            }
        } else {
            // for what the listener has no family
            to.why
                .store(from.why.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Peers may ask for an accepted connection soon: most connections end before.
    #[cold]
    fn sought(&'static self, pin: &Pin<'_>) {
        if let Some(number) = self.number_of(pin) {
            let mut service = self.served();
            // another thread may have done it
            if !pin.traffic().is(state::SERVED) {
                service.accept(self, pin, number);
            }
        }
    }

    /// A descriptor has this number that is no stream.
    pub fn other(&'static self, number: i32) {
        if self.is_stream(number) {
            self.leave_unseen(number);
        }
    }

    /// A descriptor has this number that the kernel alone serves.
    pub(crate) fn is_kernels(&'static self, number: i32) {
        self.other(number);
        self.table.numbers().is_plain(number);
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
            // a parent's may be asked for, if it was worth it there
            if pin.traffic().is_sought() || pin.traffic().is(state::COUNTED) || set::is_early() {
                service.accept(self, pin, number);
            }
        } else {
            self.takes_over(&mut service, pin, number);
        }
    }

    /// The connection is worth it since a call that moved so many bytes: the service of the
    /// connected side asks the peer. One on which no byte was ever moved is not counted.
    #[cold]
    fn worth(&'static self, pin: &Pin<'_>, bytes: u64) {
        if state::stays(pin) || spin::rests() && pin.traffic().is_put_off_where_crowded() {
            return;
        }
        if bytes > 0 && pin.traffic().counts() {
            counters::eligible();
        }
        if pin.traffic().is_sought() {
            self.sought(pin);
        }
        if pin.traffic().is(state::CONNECTED) && !pin.traffic().is(state::ASKED) {
            self.ask(pin);
        }
    }

    fn ask(&'static self, pin: &Pin<'_>) {
        pin.traffic().add(state::ASKED | state::SERVED);
        let index = pin.taken().index;
        let word = self.asked.word(index as usize / 64 * 8);
        word.fetch_or(1 << (index % 64), Ordering::SeqCst);
        if self.ring() {
            return;
        }
        match thread::start(self, &mut self.served()) {
            Ok(()) => {
                self.ring();
            }
            Err(_) => report::note(pin, Why::Reason(Reason::NoMemory), None),
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
            let mut bits = take(self.asked.word(at as usize * 8));
            std::iter::from_fn(move || {
                let bit = bits.trailing_zeros();
                bits &= bits.wrapping_sub(1);
                (bit < 64).then_some(at * 64 + bit)
            })
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

/// The last call on a connection has ended whose number was closed before: the service thread has
/// what is left.
fn calls_have_ended() {
    if let Some(process) = Process::there() {
        process.alone.store(true, Ordering::SeqCst);
        process.ring();
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
