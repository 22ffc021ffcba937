//! Deadlines of a queue pair: one per purpose, no heap.

use crate::types::Instant;

/// What a deadline is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timer {
    /// The oldest request should have been acknowledged by now: go back and send it again.
    Ack = 0,
    /// The peer asked to wait for a receive: send the refused request again.
    Rnr = 1,
    /// Nothing was heard for some round trips: ask early.
    Silence = 2,
}

const COUNT: usize = 3;

/// The deadlines that are set.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timers([Option<Instant>; COUNT]);

impl Timers {
    pub fn set(&mut self, timer: Timer, at: Instant) {
        self.0[timer as usize] = Some(at);
    }

    /// A timer that is set goes off no earlier than this.
    pub fn put_off(&mut self, timer: Timer, least: Instant) {
        let at = &mut self.0[timer as usize];
        *at = at.map(|at| at.max(least));
    }

    pub fn stop(&mut self, timer: Timer) {
        self.0[timer as usize] = None;
    }

    pub fn is_set(&self, timer: Timer) -> bool {
        self.0[timer as usize].is_some()
    }

    /// When it went off, if its time has come.
    pub fn due(&self, timer: Timer, now: Instant) -> Option<Instant> {
        self.0[timer as usize].filter(|at| *at <= now)
    }

    /// Stops the timer and says true if its time has come.
    pub fn expire(&mut self, timer: Timer, now: Instant) -> bool {
        let due = self.0[timer as usize].is_some_and(|at| at <= now);
        if due {
            self.stop(timer);
        }
        due
    }

    /// The earliest deadline.
    #[inline]
    pub fn next(&self) -> Option<Instant> {
        self.0.iter().flatten().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_deadline_comes_first_and_expires_once() {
        let mut timers = Timers::default();
        timers.set(Timer::Ack, Instant(20));
        timers.set(Timer::Rnr, Instant(10));
        assert_eq!(timers.next(), Some(Instant(10)));
        assert!(!timers.expire(Timer::Ack, Instant(10)));
        assert!(timers.expire(Timer::Rnr, Instant(10)));
        assert!(!timers.expire(Timer::Rnr, Instant(10)));
        assert_eq!(timers.next(), Some(Instant(20)));
    }
}
