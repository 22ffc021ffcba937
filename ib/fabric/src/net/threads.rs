//! Parts of a fabric run side by side: window by window, all the same one, and what each has written in it the others read before the next. Where there is much to do in a window each part
//! has a thread of its own; where there is little, waiting for each other would take longer than the work, and one thread runs them in turns. No result depends on it.

use super::letters::Sealed;
use super::meeting::{Meeting, Promise};
use super::part::Part;
use crate::agenda::Agenda;
use crate::time::Time;
use crate::windows::Windows;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// Events in a window from which on threads are worth it: some 50 microseconds of work.
const BUSY: u64 = 400;
/// Events still to come until the end of a run from which on threads are worth it: to start them takes some 100 microseconds, and the work about a millisecond.
const LONG: u64 = 8_000;
/// Windows after which one thread asks whether there is enough for more.
const ASK_EVERY: u64 = 8;

/// How much there is to do.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// In a window, of late.
    events: u64,
    /// There has been enough for threads.
    pub threaded: bool,
    /// Threads or turns, whatever there is to do.
    #[cfg(test)]
    pub forced: Option<bool>,
}

impl Pace {
    /// So many events came in so many windows.
    fn note(&mut self, events: u64, windows: u64) {
        self.events = events.checked_div(windows).unwrap_or(self.events);
    }

    /// Threads are worth it for so many windows more.
    const fn is_for_threads(&self, windows: u64) -> bool {
        #[cfg(test)]
        if let Some(forced) = self.forced {
            return forced;
        }
        self.events >= BUSY && self.events.saturating_mul(windows) >= LONG
    }
}

/// Runs parts until a time.
pub(super) fn together(parts: &mut [Part], end: Time, pace: &mut Pace) {
    let Some(begin) = parts
        .first_mut()
        .and_then(|part| Some(part.windows()?.day()))
    else {
        return;
    };
    parts.iter_mut().for_each(|part| part.end = end);
    if let Some(from) = in_turns(parts, begin, end, pace) {
        pace.threaded = true;
        let before = events(parts);
        let windows = at_once(parts, from, end);
        pace.note(events(parts) - before, windows);
    }
    if let Some((first, others)) = parts.split_first_mut() {
        for part in others {
            first.latencies.take(&mut part.latencies);
            first.messages.take(&mut part.messages);
        }
    }
    for part in parts {
        if let Some(windows) = part.windows() {
            windows.rest(end);
        }
        (part.now, part.known) = (end, end);
        part.count_arrived();
    }
}

fn events(parts: &[Part]) -> u64 {
    parts.iter().map(|part| part.events).sum()
}

/// Runs parts in turns on this thread, until the end, or until there is enough to do for more threads: then the window from which on.
fn in_turns(parts: &mut [Part], begin: u64, end: Time, pace: &mut Pace) -> Option<u64> {
    let last = parts.first_mut()?.windows()?.last_day(end);
    let (mut from, mut windows, mut before) = (begin, 0, events(parts));
    loop {
        if pace.is_for_threads((last + 1).saturating_sub(from)) {
            return Some(from);
        }
        let offers = parts.iter_mut().map(|part| part.next_filled(from));
        let next = offers.min()?;
        if next > last {
            // runs may be shorter than what is asked after
            pace.note(events(parts) - before, windows);
            return None;
        }
        for part in &mut *parts {
            part.run_day(next, end);
        }
        for reader in 0..parts.len() {
            for writer in 0..parts.len() {
                let mut letters = std::mem::take(&mut parts[writer].mail.written[reader]);
                parts[reader].read_letters(&mut letters);
                parts[writer].mail.written[reader] = letters;
            }
        }
        (from, windows) = (next + 1, windows + 1);
        if windows == ASK_EVERY {
            let now = events(parts);
            pace.note(now - before, windows);
            (windows, before) = (0, now);
        }
    }
}

/// Runs parts from a window to the end, each on a thread of its own; how many windows that took.
fn at_once(parts: &mut [Part], from: u64, end: Time) -> u64 {
    let office = Office::new(parts.len());
    thread::scope(|scope| {
        let _promise = Promise(&office.meeting);
        let Some((first, others)) = parts.split_first_mut() else {
            return 0;
        };
        let start = |(own, part)| {
            let office = &office;
            thread::Builder::new()
                .name("fabric".into())
                .spawn_scoped(scope, move || office.run(part, own, from, end))
                .expect("a fabric on several threads needs them")
        };
        let threads: Vec<_> = (1..).zip(others).map(start).collect();
        let windows = office.run(first, 0, from, end);
        for thread in threads {
            if let Err(panic) = thread.join() {
                resume_unwind(panic);
            }
        }
        windows
    })
}

impl Part {
    fn windows(&mut self) -> Option<&mut Windows> {
        match &mut self.queue {
            Agenda::Windows(windows) => Some(windows),
            Agenda::Calendar(_) => None,
        }
    }

    fn next_filled(&mut self, from: u64) -> u64 {
        self.windows()
            .map_or(u64::MAX, |windows| windows.next_filled(from))
    }

    /// Runs a window until a time.
    fn run_day(&mut self, day: u64, end: Time) {
        let Some(windows) = self.windows() else {
            return;
        };
        let others = windows.open_at(day, end);
        self.run_window(others);
        if let Some(windows) = self.windows() {
            windows.close();
        }
        // what is read now may be about what others have not come to: in the last window they go on from the end
        self.known = others.min(end);
    }
}

/// Where parts meet between windows. Who has seen a turn's letters and offers may be writing those of the next while others read, so there are two of each place.
struct Office {
    meeting: Meeting,
    parts: usize,
    /// By turn and part: the next window in which it may have something to do.
    offers: [Box<[AtomicU64]>; 2],
    /// By turn, reader and writer.
    letters: [Box<[Mutex<Vec<Sealed>>]>; 2],
}

impl Office {
    fn new(parts: usize) -> Office {
        let offers = || (0..parts).map(|_| AtomicU64::new(0)).collect();
        let letters = || (0..parts * parts).map(|_| Mutex::default()).collect();
        Office {
            meeting: Meeting::new(parts),
            parts,
            offers: [offers(), offers()],
            letters: [letters(), letters()],
        }
    }

    /// Runs a part from a window to the end, or until another has failed.
    fn run(&self, part: &mut Part, own: usize, mut from: u64, end: Time) -> u64 {
        let _promise = Promise(&self.meeting);
        let last = part.windows().map_or(0, |windows| windows.last_day(end));
        let (mut wrote, mut windows) = (false, 0);
        for turn in (0..2).cycle() {
            // what was written is about the windows after this, and may be about the next
            let offer = match wrote {
                true => from,
                false => part.next_filled(from),
            };
            self.offers[turn][own].store(offer, Ordering::Relaxed);
            if !self.meeting.wait() {
                break;
            }
            for writer in 0..self.parts {
                if writer != own {
                    part.read_letters(&mut self.slot(turn, own, writer));
                }
            }
            let offers = self.offers[turn].iter();
            let next = offers.map(|offer| offer.load(Ordering::Relaxed)).min();
            let Some(next) = next.filter(|next| *next <= last) else {
                break;
            };
            part.run_day(next, end);
            (from, windows, wrote) = (next + 1, windows + 1, false);
            for (reader, letters) in part.mail.written.iter_mut().enumerate() {
                if !letters.is_empty() {
                    wrote = true;
                    std::mem::swap(letters, &mut *self.slot(1 - turn, reader, own));
                }
            }
        }
        windows
    }

    /// Where a part finds another's letters.
    fn slot(&self, turn: usize, reader: usize, writer: usize) -> MutexGuard<'_, Vec<Sealed>> {
        let slot = &self.letters[turn][reader * self.parts + writer];
        // who panicked with it has broken the meeting
        slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::orders;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn who_fails_on_any_thread_ends_the_run() {
        for broken in 0..3 {
            let mut net = orders::three_parts();
            net.run_until(super::Time::from_us(10));
            assert_eq!(net.threads(), 3);
            let ports = &mut net.parts[broken].ports;
            ports.truncate(1);
            let run = || net.run_until(super::Time::from_us(20));
            assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
        }
    }

    #[test]
    fn threads_are_for_those_who_have_much_to_do() {
        let mut pace = super::Pace::default();
        assert!(!pace.is_for_threads(u64::MAX));
        for (events, windows, wanted) in [(4_000, 10, true), (40, 1_000_000, false)] {
            pace.note(events * 7, 7);
            assert_eq!(pace.is_for_threads(windows), wanted);
            assert!(!pace.is_for_threads(1));
        }
    }
}
