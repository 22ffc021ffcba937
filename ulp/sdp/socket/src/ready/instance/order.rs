//! In which order a wait tells what it has found: in that in which it became ready, as far as that
//! is known.
//!
//! Owns: the order. Must not know: what is so of a connection. Rings have times. What the kernel
//! tells has none: it follows the rings, but comes before the first of them whose writer had given
//! the kernel something since the kernel was asked last ([`crate::order`]).

use crate::ready::kernel::Event;
use ferriband_sdp_local::Filled;

/// What the kernel tells.
pub const BY_KERNEL: Filled = Filled {
    time: u64::MAX,
    given: 0,
};

/// Events of one report: first those of rings, as they were filled, then those of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Found {
    /// How many there are.
    pub count: usize,
    /// How many of them are rings'.
    rings: usize,
    /// How many rings come before what the kernel tells.
    before: usize,
}

impl Found {
    /// Whether the kernel is to be asked before these are told.
    pub fn asks_kernel(&self) -> bool {
        self.before < self.rings
    }

    /// Puts `more` events that the kernel has told, and that follow these, where they belong.
    pub fn join(self, events: &mut [Event], more: usize) {
        events[self.before..self.count + more].rotate_left(self.rings - self.before);
    }

    /// Puts `kept` events that the kernel has told, and that come before these, where they belong.
    pub fn join_kept(self, events: &mut [Event], kept: usize) {
        events[..kept + self.before].rotate_left(kept);
        events[kept + self.before..kept + self.count].rotate_left(self.rings - self.before);
    }
}

/// What orders the events of one report. Its memory stays from one to the next.
#[derive(Debug, Default)]
pub struct Times {
    /// Of each event the time, its place, and whether the kernel comes before it.
    times: Vec<(u64, u32, bool)>,
    unordered: Vec<Event>,
    /// When the kernel was asked last.
    asked: u64,
}

impl Times {
    /// A report begins; the kernel was asked at this time.
    pub fn begin(&mut self, asked: u64) {
        self.times.clear();
        self.asked = asked;
    }

    /// How many events there are.
    pub fn count(&self) -> usize {
        self.times.len()
    }

    /// The next event is of a ring that was filled so, or [`BY_KERNEL`].
    pub fn push(&mut self, filled: Filled) {
        let at = self.times.len() as u32;
        self.times
            .push((filled.time, at, filled.given > self.asked));
    }

    /// Puts the report's events in order.
    pub fn order(&mut self, events: &mut [Event]) -> Found {
        let times = &mut self.times;
        if !times.is_sorted_by_key(|(time, ..)| *time) {
            // most lists are two or three runs, which this one merges
            times.sort_by_key(|(time, ..)| *time);
            self.unordered.clear();
            self.unordered.extend_from_slice(events);
            for (event, (_, from, _)) in events.iter_mut().zip(times.iter()) {
                *event = self.unordered[*from as usize];
            }
        }
        let rings = times.partition_point(|(time, ..)| *time != BY_KERNEL.time);
        let behind = times[..rings].iter().position(|(.., behind)| *behind);
        Found {
            count: times.len(),
            rings,
            before: behind.unwrap_or(rings),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When the kernel was asked.
    const ASKED: u64 = 50;

    /// A ring that was filled at this time, and before which the kernel was given nothing.
    fn ring(time: u64) -> Filled {
        Filled { time, given: ASKED }
    }

    fn behind(time: u64) -> Filled {
        let given = ASKED + 1;
        Filled { time, given }
    }

    /// What is told where the kernel has told `kept` before a report of these, and `more`
    /// afterwards. Events of the report are numbered, those of the kernel from 100 on.
    fn told(kept: u64, times: &[Filled], more: u64) -> Vec<u64> {
        let event = |data| Event { events: 0, data };
        let mut report: Vec<_> = (0..times.len() as u64).map(event).collect();
        let mut order = Times::default();
        order.begin(ASKED);
        times.iter().for_each(|time| order.push(*time));
        let found = order.order(&mut report);
        let mut events: Vec<_> = (100..100 + kept).map(event).collect();
        events.append(&mut report);
        match more {
            0 => found.join_kept(&mut events, kept as usize),
            _ => {
                events.extend((100..100 + more).map(event));
                found.join(&mut events, more as usize);
            }
        }
        events.iter().map(|event| event.data).collect()
    }

    #[test]
    fn rings_are_told_as_they_were_filled() {
        let [a, b, c] = [ring(2), ring(4), ring(6)];
        assert_eq!(told(0, &[], 0), []);
        assert_eq!(told(0, &[c, a, b], 0), [1, 2, 0]);
        assert_eq!(told(2, &[c, a, BY_KERNEL, b], 0), [1, 3, 0, 100, 101, 2]);
        assert_eq!(told(0, &[c, BY_KERNEL, a], 2), [2, 0, 1, 100, 101]);
    }

    #[test]
    fn the_kernel_comes_before_a_ring_that_was_filled_after_it_had_something() {
        let [a, b, c] = [ring(2), behind(4), ring(6)];
        assert_eq!(told(0, &[b, a, c, BY_KERNEL], 2), [1, 3, 100, 101, 0, 2]);
        assert_eq!(told(2, &[b, a, c, BY_KERNEL], 0), [1, 100, 101, 3, 0, 2]);
        assert_eq!(told(2, &[b], 0), [100, 101, 0]);
        assert_eq!(told(0, &[b], 1), [100, 0]);
    }
}
