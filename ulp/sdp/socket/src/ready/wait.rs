//! epoll_wait(2) and its like.
//!
//! Owns: the order of looking, asking the kernel and sleeping. Must not know: what is so of a
//! connection. [`super::instance`] says why no wake-up is lost.

use super::instance::Instance;
use super::kernel::{self, Event, Patience};
use super::{Ready, instance_of, ready};
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
    if let Some(known) = instance_of(instance)
        && known.is_tagged.load(Ordering::Acquire)
        && !events.is_empty()
    {
        return wait_linked(known, instance, events, patience);
    }
    let count = ask(instance, events, patience)?;
    // a connection may have got its link meanwhile
    match instance_of(instance) {
        Some(known) if count > 0 && known.is_tagged.load(Ordering::Acquire) => {
            after_plain(known, instance, events, count, patience)
        }
        _ => Ok(count),
    }
}

fn ask(instance: i32, events: &mut [Event], patience: Patience<'_>) -> Result<usize, Errno> {
    // SAFETY: a slice of so many.
    unsafe { kernel::wait(instance, events.as_mut_ptr(), events.len(), patience) }
}

/// What the kernel has told to a thread that slept while a connection got its link. If nothing of it
/// is the program's it waits anew, and its time begins again: that happens once for a link.
#[cold]
fn after_plain(
    known: &'static Instance,
    instance: i32,
    events: &mut [Event],
    count: usize,
    patience: Patience<'_>,
) -> Result<usize, Errno> {
    match known.settle(events, count, None) {
        Some(0) if patience.time != Some(Duration::ZERO) => {
            wait_linked(known, instance, events, patience)
        }
        Some(count) => Ok(count),
        None => Ok(count),
    }
}

/// In an instance that has, or had, linked connections.
fn wait_linked(
    known: &'static Instance,
    instance: i32,
    events: &mut [Event],
    patience: Patience<'_>,
) -> Result<usize, Errno> {
    let waits = patience.time != Some(Duration::ZERO);
    let end = patience.time.filter(|_| waits).map(|time| now() + time);
    let mut patience = patience;
    loop {
        let Some(first) = known.first(events, waits) else {
            // a signal handler has interrupted this thread's own look
            return ask(instance, events, patience);
        };
        if first.count == events.len() {
            return Ok(first.count);
        }
        let is_asleep = waits && first.count == 0 && !first.is_busy;
        let how = if is_asleep { patience } else { patience.none() };
        let answer = ask(instance, &mut events[first.count..], how);
        if is_asleep && let Some(mut inside) = known.inside.enter() {
            inside.wake_up();
        }
        let count = match answer {
            Ok(count) => count,
            Err(_) if first.count > 0 => 0,
            Err(error) => return Err(error),
        };
        if count == 0 && first.count > 0 {
            return Ok(first.count);
        }
        let is_over = count == 0 && is_asleep;
        let count = known.settle_after(events, first, count).unwrap_or(count);
        if count > 0 || !waits || is_over {
            return Ok(count);
        }
        if let Some(end) = end {
            patience.time = Some(end.saturating_sub(now()));
        }
    }
}

/// What a wait begins with.
#[derive(Clone, Copy)]
struct First {
    /// Events that were reported.
    count: usize,
    /// The wait's number.
    wait: u32,
    /// Something is on the list, and was not looked at.
    is_busy: bool,
}

impl Instance {
    /// Looks at the list, or leaves that until the kernel was asked; a thread that finds nothing is
    /// among the sleepers from here on, if it `waits`. None: the lock is this thread's.
    fn first(&self, events: &mut [Event], waits: bool) -> Option<First> {
        let mut inside = self.inside.enter()?;
        let wait = inside.next_wait();
        let mut first = First {
            count: 0,
            wait,
            is_busy: false,
        };
        if std::mem::take(&mut inside.kernel_first) {
            first.is_busy = !inside.is_empty();
        } else if let Ok(table) = Table::get() {
            first.count = inside.report(table, wait, events);
        }
        inside.kernel_first = first.count == events.len();
        if first.count > 0 {
            inside.leave(self.is_nested.load(Ordering::Relaxed));
        }
        if first.count == 0 && !first.is_busy && waits {
            inside.fall_asleep();
        }
        Some(first)
    }

    /// After the kernel has told `count` events behind the first ones.
    fn settle_after(&self, events: &mut [Event], first: First, count: usize) -> Option<usize> {
        let more = self.settle(&mut events[first.count..], count, Some(first.wait))?;
        Some(first.count + more)
    }

    /// Takes this library's own out of `count` events, and reports in their place what is so. Gives
    /// how many events there are. None: the lock is this thread's.
    fn settle(&self, events: &mut [Event], count: usize, wait: Option<u32>) -> Option<usize> {
        let (ready, table) = (ready()?, Table::get().ok()?);
        let mut shared = Vec::new();
        let mut inside = self.inside.enter()?;
        let (kept, rang) = inside.translate(&mut events[..count]);
        if rang {
            let is_shared = |index| ready.count(index).load(Ordering::SeqCst) > 1;
            inside.heard(is_shared, &mut shared);
        }
        let wait = wait.unwrap_or_else(|| inside.next_wait());
        let count = kept + inside.report(table, wait, &mut events[kept..]);
        inside.leave(self.is_nested.load(Ordering::Relaxed));
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
