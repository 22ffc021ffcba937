//! epoll_wait(2) and its like.
//!
//! Owns: the order of looking, asking the kernel and sleeping. Must not know: what is so of a
//! connection. [`super::instance`] says why no wake-up is lost.

use super::instance::{Found, How, Instance, Reported};
use super::kernel::{self, Event, Patience};
use super::sleep::{self, Next, Sleep, Waits};
use super::{Ready, instance_of, ready};
use crate::order;
use crate::spin::{self, For, Vain};
use crate::table::Table;
use ferriband_host::wake::now;
use rustix::io::Errno;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Waits until something that an instance watches is so; gives how many events there are.
///
/// # Errors
/// As epoll_pwait2(2).
pub fn wait(instance: i32, events: &mut [Event], patience: Patience<'_>) -> Result<usize, Errno> {
    sleep::run(&mut Wait::new(instance, events, patience), patience.signals)
}

/// One such call.
#[derive(Debug)]
pub struct Wait<'a> {
    instance: i32,
    events: &'a mut [Event],
    patience: Patience<'a>,
    waits: bool,
    end: Option<Duration>,
    asleep: Asleep,
}

/// What a thread sleeps in.
#[derive(Debug)]
enum Asleep {
    No,
    /// In what is not known here.
    Kernel,
    /// In an instance without linked connections.
    Plain(&'static Instance),
    /// In an instance that has, or had, linked connections.
    Linked(&'static Instance, First, Option<Vain>),
}

impl Waits for Wait<'_> {
    fn go_on(&mut self, slept: Option<Result<usize, Errno>>) -> Next {
        let asleep = std::mem::replace(&mut self.asleep, Asleep::No);
        let Some(answer) = slept else {
            return self.begin();
        };
        match asleep {
            Asleep::No | Asleep::Kernel => self.slept_plainly(answer),
            Asleep::Plain(known) => {
                known.has_slept_plainly();
                self.slept_plainly(answer)
            }
            Asleep::Linked(known, mut first, vain) => {
                known.wake_up();
                if let Some(vain) = vain {
                    vain.slept();
                }
                first.asked = known.is_asked();
                match self.told(known, first, answer, true) {
                    Some(over) => Next::Over(over),
                    None => self.look(known),
                }
            }
        }
    }
}

impl<'a> Wait<'a> {
    /// A call with room for these events.
    pub fn new(instance: i32, events: &'a mut [Event], patience: Patience<'a>) -> Self {
        let waits = patience.time != Some(Duration::ZERO);
        let time = patience.time.filter(|_| waits);
        Self {
            instance,
            events,
            patience,
            waits,
            end: time.and_then(|time| now().checked_add(time)),
            asleep: Asleep::No,
        }
    }

    fn begin(&mut self) -> Next {
        match instance_of(self.instance) {
            Some(known) if !self.events.is_empty() => {
                if !known.is_tagged.load(Ordering::SeqCst) {
                    known.sleeps_plainly();
                    // whoever tags from here on finds this thread counted
                    if !known.is_tagged.load(Ordering::SeqCst) {
                        return self.sleep(Asleep::Plain(known));
                    }
                    known.has_slept_plainly();
                }
                self.look(known)
            }
            _ => self.sleep(Asleep::Kernel),
        }
    }

    fn sleep(&mut self, asleep: Asleep) -> Next {
        self.asleep = asleep;
        Next::Sleep(Sleep::Epoll {
            instance: self.instance,
            events: self.events.as_mut_ptr(),
            most: self.events.len(),
            time: self.patience.time,
        })
    }

    /// What the kernel has told to a thread that slept without a look at the list: a connection may
    /// have got its link meanwhile. If nothing of it is the program's it goes on waiting.
    fn slept_plainly(&mut self, answer: Result<usize, Errno>) -> Next {
        let count = match answer {
            Ok(count) if count > 0 => count,
            answer => return Next::Over(answer),
        };
        let known = instance_of(self.instance);
        let Some(known) = known.filter(|known| known.is_tagged.load(Ordering::SeqCst)) else {
            return Next::Over(answer);
        };
        let asked = known.is_asked();
        match known.settle(self.events, count, None, asked) {
            Some(0) if self.waits => {
                self.shorten();
                self.look(known)
            }
            Some(count) => Next::Over(Ok(count)),
            None => Next::Over(Ok(count)),
        }
    }

    /// In an instance that has, or had, linked connections.
    fn look(&mut self, known: &'static Instance) -> Next {
        loop {
            let mut vain = None;
            let mut first = known.first(self.events, How::Lightly, self.waits);
            if self.waits && first.is_some_and(|first| first.is_idle()) {
                vain = spin::look(For::Bytes, self.end, || {
                    first = known.first(self.events, How::Lightly, true);
                    !first.is_some_and(|first| first.is_idle())
                });
                if vain.is_some() {
                    first = known.first(self.events, How::Finally, true);
                }
            }
            let Some(mut first) = first else {
                // a signal handler has interrupted this thread's own look
                return self.sleep(Asleep::Kernel);
            };
            if first.count() == self.events.len() || first.is_enough {
                first.found.join(self.events, 0);
                return Next::Over(Ok(first.count()));
            }
            if self.waits && first.is_idle() {
                return self.sleep(Asleep::Linked(known, first, vain));
            }
            let behind = &mut self.events[first.count()..];
            // what it was given until here, it tells
            first.asked = known.is_asked();
            let answer = ask(self.instance, behind, self.patience.none());
            if let Some(over) = self.told(known, first, answer, false) {
                return Next::Over(over);
            }
        }
    }

    /// After the kernel was asked. None: the call goes on.
    fn told(
        &mut self,
        known: &'static Instance,
        first: First,
        answer: Result<usize, Errno>,
        has_slept: bool,
    ) -> Option<Result<usize, Errno>> {
        let count = match answer {
            Ok(count) => count,
            Err(_) if first.count() > 0 => 0,
            Err(error) => return Some(Err(error)),
        };
        if count == 0 && first.count() > 0 {
            first.found.join(self.events, 0);
            return Some(Ok(first.count()));
        }
        let is_over = count == 0 && has_slept;
        let settled = known.settle_after(self.events, first, count);
        let count = settled.unwrap_or(count);
        if count > 0 || !self.waits || is_over {
            return Some(Ok(count));
        }
        self.shorten();
        None
    }

    fn shorten(&mut self) {
        if let Some(end) = self.end {
            self.patience.time = Some(end.saturating_sub(now()));
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        match self.asleep {
            Asleep::No | Asleep::Kernel => {}
            Asleep::Plain(known) => {
                known.has_slept_plainly();
                known.ring();
            }
            Asleep::Linked(known, ..) => {
                known.wake_up();
                known.ring();
            }
        }
    }
}

fn ask(instance: i32, events: &mut [Event], patience: Patience<'_>) -> Result<usize, Errno> {
    // SAFETY: a slice of so many.
    unsafe { kernel::wait(instance, events.as_mut_ptr(), events.len(), patience) }
}

/// What a wait begins with.
#[derive(Clone, Copy, Debug)]
struct First {
    /// Events that were reported.
    found: Found,
    /// The wait's number.
    wait: u32,
    /// Links that registrations had got by then.
    links: u64,
    /// When the kernel was asked before.
    asked: u64,
    /// Something is on the list, and was not looked at.
    is_busy: bool,
    /// There are events, and the kernel was asked a moment ago.
    is_enough: bool,
}

/// Whoever finds events asks the kernel for others again after so long. Until then what the kernel
/// has is told by a later wait, as if it had come later.
const ASK_AGAIN: Duration = Duration::from_micros(20);

impl First {
    /// How many events were reported.
    fn count(self) -> usize {
        self.found.count
    }

    /// There is nothing.
    fn is_idle(self) -> bool {
        self.count() == 0 && !self.is_busy
    }
}

impl Instance {
    /// A thread that was among the sleepers has slept.
    fn wake_up(&self) {
        if let Some(mut inside) = self.inside.enter() {
            inside.wake_up();
        }
    }

    /// The kernel is asked, or was a moment ago; gives when it was asked before.
    fn is_asked(&self) -> u64 {
        self.asked.swap(order::time(), Ordering::Relaxed)
    }

    /// Another of those that sleep is to look, in the place of one that was cancelled: that may
    /// have taken an event.
    fn ring(&self) {
        if let Some(inside) = self.inside.enter()
            && let Some(bell) = inside.bell
        {
            bell.ring();
        }
    }

    /// Looks at the list, or leaves that until the kernel was asked; a thread that `waits` and
    /// finally finds nothing is among the sleepers from here on. None: the lock is this thread's.
    fn first(&self, events: &mut [Event], how: How, waits: bool) -> Option<First> {
        let (ready, mut shared) = (ready()?, Vec::new());
        let asked = self.asked.load(Ordering::Relaxed);
        let mut inside = self.inside.enter()?;
        // who only looks falls asleep later
        let falls_asleep = how == How::Finally;
        let how = match inside.may_stay_listed(self) {
            true => how,
            false => How::Finally,
        };
        inside.heard(ready, &mut shared);
        let wait = inside.next_wait();
        let mut first = First {
            found: Found::default(),
            wait,
            links: inside.links(),
            asked,
            is_busy: false,
            is_enough: false,
        };
        if std::mem::take(&mut inside.kernel_first) {
            first.is_busy = !inside.is_empty();
        } else if let Ok(table) = Table::get() {
            let reported = Reported {
                number: wait,
                links: u64::MAX,
                asked,
            };
            first.found = inside.report(table, &reported, how, events);
        }
        inside.kernel_first = first.count() == events.len();
        if first.count() > 0 {
            let was_asked = inside.was_asked(now(), ASK_AGAIN);
            first.is_enough = was_asked && !first.found.asks_kernel();
            inside.leave(self);
        }
        if first.is_idle() && waits && falls_asleep {
            inside.fall_asleep();
        }
        drop(inside);
        tell_others(ready, &shared);
        Some(first)
    }

    /// After the kernel has told `count` events behind the first ones.
    fn settle_after(&self, events: &mut [Event], first: First, count: usize) -> Option<usize> {
        let behind = &mut events[first.count()..];
        let more = self.settle(behind, count, Some(&first), first.asked)?;
        first.found.join(events, more);
        Some(first.count() + more)
    }

    /// Takes this library's own out of `count` events that the kernel has told a wait, and reports
    /// in their place what is so. Gives how many events there are. None: the lock is this thread's.
    fn settle(
        &self,
        events: &mut [Event],
        count: usize,
        first: Option<&First>,
        asked: u64,
    ) -> Option<usize> {
        let (ready, table) = (ready()?, Table::get().ok()?);
        let mut shared = Vec::new();
        let mut inside = self.inside.enter()?;
        let (kept, rang) = inside.translate(&mut events[..count]);
        if rang {
            if let Some(bell) = inside.bell {
                bell.silence();
            }
            inside.heard(ready, &mut shared);
        }
        // without a look before, nothing had a link when the kernel was asked
        let links = first.map_or(0, |first| first.links);
        let reported = Reported {
            number: first.map_or_else(|| inside.next_wait(), |first| first.wait),
            links: if kept > 0 { links } else { u64::MAX },
            asked,
        };
        let how = match inside.may_stay_listed(self) {
            true => How::Lightly,
            false => How::Finally,
        };
        let found = inside.report(table, &reported, how, &mut events[kept..]);
        found.join_kept(events, kept);
        let count = kept + found.count;
        inside.leave(self);
        drop(inside);
        tell_others(ready, &shared);
        Some(count)
    }
}

fn tell_others(ready: &'static Ready, shared: &[crate::arena::Taken]) {
    if shared.is_empty() {
        return;
    }
    if let Some(held) = ready.waiters.enter() {
        for taken in shared {
            ready.tell(&held, taken.index, false);
        }
    }
}
