//! Readiness: epoll, poll and select of sockets that SDP may carry.
//!
//! Owns: what the program has registered where ([`waiters`], [`instance`]), what is so of a
//! connection ([`mask`]), whether full rings are looked at ([`full`]), the boxes in which peers tell this process's waiters ([`boxes`]), how a
//! thread waits ([`mod@wait`], [`mod@poll`], [`mod@select`]). Must not know: the C names of calls,
//! when a connection gets its link, who serves its end.
//!
//! The program's epoll descriptor stays the kernel's. What SDP does not carry is watched by the
//! kernel as if nobody else did, and a wait in an instance without linked connections is the
//! kernel's own call. [`instance`] says why no thread sleeps while there is something.
//!
//! Whoever serves connections calls [`fits`] before a link is put, [`linked`] afterwards, [`told`]
//! when box 0 was rung for a connection or the kernel has news of it; whoever closes a number,
//! [`closed`] before the kernel does; whoever makes another number of an instance, [`aliased`].

pub mod boxes;
pub mod full;
mod instance;
pub mod kernel;
mod lock;
mod mask;
mod poll;
mod room;
mod select;
mod sleep;
mod wait;
mod waiters;

pub use kernel::{Event, Patience, Polled};
pub use poll::{Poll, poll};
pub use rustix::io::Errno;
pub use select::{Select, select};
pub use sleep::{Next, Sleep, Waits};
pub use wait::{Wait, wait};

use crate::arena::Taken;
use crate::numbers::{NUMBERS, once};
use crate::pages::{Pages, Seen};
use crate::table::{Left, Pin, Table};
use instance::Instance;
use lock::Lock;
use rustix::rand::{GetRandomFlags, getrandom};
use std::ops::RangeInclusive;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use waiters::Waiters;

/// All that this process knows of who waits.
#[derive(Debug)]
struct Ready {
    waiters: Lock<Waiters>,
    /// By number: the instance.
    instances: Pages,
    /// By record: how many wait for it, and which process has put its link.
    counts: Pages,
    /// The upper half of this library's tags.
    tag: u64,
}

static READY: AtomicPtr<Ready> = AtomicPtr::new(ptr::null_mut());

/// What is known, if anything.
#[inline]
fn ready() -> Option<&'static Ready> {
    let ready = READY.load(Ordering::Acquire);
    // SAFETY: what was once put there stays for ever.
    unsafe { ready.as_ref() }
}

impl Ready {
    fn get() -> Result<&'static Self, Errno> {
        once(&READY, || {
            let records = Table::get()?.arena().records() as usize;
            let mut random = [0; 4];
            getrandom(&mut random, GetRandomFlags::empty())?;
            // no address and no small number has these bits
            let upper = u32::from_ne_bytes(random) | 1 << 31;
            Ok(Self {
                waiters: Lock::new(Waiters::default()),
                instances: Pages::reserve(NUMBERS as usize * 8, Seen::Copied)?,
                counts: Pages::reserve(records * 8, Seen::Copied)?,
                tag: u64::from(upper) << 32,
            })
        })
    }

    #[inline]
    fn place(&self, number: i32) -> Option<&AtomicPtr<Instance>> {
        let inside = (0..NUMBERS).contains(&number);
        // SAFETY: atomic pointers that begin as null, and nothing else lies there.
        inside.then(|| unsafe { self.instances.at(number as usize * 8) })
    }

    /// The instance of a number.
    #[inline]
    fn instance(&self, number: i32) -> Option<&'static Instance> {
        let instance = self.place(number)?.load(Ordering::Acquire);
        // SAFETY: instances stay for ever.
        unsafe { instance.as_ref() }
    }

    /// All instances. This thread holds the lock of all connections by [`Lock::take`].
    fn instances_made(&self) -> &[&'static Instance] {
        // SAFETY: this thread holds the lock.
        &unsafe { self.waiters.held() }.instances
    }

    /// How many wait for a connection that has a link.
    #[inline]
    fn count(&self, record: u32) -> &AtomicU32 {
        self.counts.half(record as usize * 8)
    }

    /// The process that has put a connection's link.
    fn linker(&self, record: u32) -> &AtomicU32 {
        self.counts.half(record as usize * 8 + 4)
    }
}

/// The instance of a number, if it is known.
#[inline]
fn instance_of(number: i32) -> Option<&'static Instance> {
    ready()?.instance(number)
}

/// Whether a number is an instance's that this process has made.
#[inline]
pub fn knows(number: i32) -> bool {
    instance_of(number).is_some()
}

/// Before the kernel closes a range of numbers: its instances.
pub fn closed_range(range: RangeInclusive<i32>) {
    let Some(ready) = ready() else { return };
    let mut inside = Vec::new();
    if let Some(held) = ready.waiters.enter() {
        for instance in &held.instances {
            if let Some(one) = instance.inside.enter() {
                inside.extend(one.numbers.iter().filter(|number| range.contains(*number)));
            }
        }
    }
    for number in inside {
        ready.leave_instance(number);
    }
}

/// Makes an epoll instance; gives its number.
///
/// # Errors
/// As epoll_create1(2).
pub fn create(flags: i32) -> Result<i32, Errno> {
    let number = kernel::create(flags)?;
    // one that is not known is the kernel's, until a stream is registered there
    if let Ok(ready) = Ready::get() {
        ready.leave_instance(number);
        if let Some(mut held) = ready.waiters.enter() {
            ready.adopt(&mut held, number);
        }
    }
    Ok(number)
}

/// epoll_ctl(2): changes what an instance watches.
///
/// # Errors
/// As epoll_ctl(2).
pub fn ctl(instance: i32, op: i32, number: i32, event: Option<Event>) -> Result<(), Errno> {
    let pin = Table::get().ok().and_then(|table| table.pin(number));
    match (pin, Ready::get()) {
        (Some(pin), Ok(ready)) => ready.control(&pin, instance, op, number, event),
        _ => {
            if let Some(inner) = instance_of(number) {
                nest(inner);
            }
            kernel::ctl(instance, op, number, event)
        }
    }
}

/// Somebody waits for an instance: from here on the kernel is told when the list has something.
fn nest(inner: &Instance) {
    if inner.is_nested.swap(true, Ordering::SeqCst) {
        return;
    }
    if let Some(inside) = inner.inside.enter() {
        inside.leave(inner);
    }
}

/// Whether a connection may be given a link, as far as those are concerned who wait for it: not if
/// it is registered in an instance that another process shares, or by a number that is closed.
pub fn fits(pin: &Pin<'_>) -> bool {
    Ready::get().is_ok_and(|ready| ready.fits(pin))
}

/// After a connection was given a link: who waits for it hears from here on of what comes by the
/// ring. `number` is one of its numbers. False: it cannot be, and the connection stays TCP for
/// good.
pub fn linked(pin: &Pin<'_>, number: i32) -> bool {
    Ready::get().is_ok_and(|ready| ready.linked(pin, number))
}

/// Box 0 was rung for a connection, or, `of_kernel`, the kernel has news of it: all who wait look
/// at it.
pub fn told(pin: &Pin<'_>, of_kernel: bool) {
    if let Some(ready) = ready()
        && let Some(held) = ready.waiters.enter()
    {
        ready.tell(&held, pin.taken().index, of_kernel);
    }
}

/// Whether this process takes away that a peer has told of a connection: of what several processes
/// hold only the one that has put the link does.
pub fn takes(taken: Taken) -> bool {
    ready().is_none_or(|ready| ready.takes(taken))
}

/// Before the kernel closes a number, or puts another descriptor there: `left` is what
/// [`Table::leave`] has given for it.
pub fn closed(number: i32, left: &Left<'_>) {
    let Some(ready) = ready() else { return };
    match left {
        Left::Own => {}
        Left::Plain if ready.instance(number).is_none() => {}
        Left::Plain => ready.leave_instance(number),
        _ => ready.leave_stream(number, left),
    }
}

/// After dup(2) and its like: `other` is another number of what `number` stands for.
pub fn aliased(number: i32, other: i32) {
    if let Some(ready) = ready() {
        ready.alias(number, other);
    }
}

/// Before this process forks: a child finds all locks free. The order is that of the table's lock
/// against forks, that of all connections, those of the instances.
pub(crate) fn before_fork() {
    let Some(ready) = ready() else { return };
    ready.share();
    if !ready.waiters.take() {
        // a handler that has interrupted a hold forks: who is interrupted goes on in the child, too
        return;
    }
    HELD.set(true);
    for instance in ready.instances_made() {
        let taken = instance.inside.take();
        instance.is_forking.store(taken, Ordering::Relaxed);
    }
}

/// After it has forked, in both.
pub(crate) fn after_fork() {
    let Some(ready) = ready() else { return };
    if !HELD.replace(false) {
        return;
    }
    for instance in ready.instances_made() {
        if instance.is_forking.swap(false, Ordering::Relaxed) {
            instance.inside.leave();
        }
    }
    ready.waiters.leave();
}

thread_local! {
    /// This thread holds all locks, since it forks.
    static HELD: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

#[cfg(test)]
mod tests;
