//! How long the thread of a process leaves the queues alone.
//!
//! Owns: these times. Must not know: what is looked at.
//!
//! Queues that are armed while a program looks cost it several wake-ups a message. A program that
//! waits by reading its memory does not look, and is served by the thread alone: news that nobody
//! has looked for end the pauses.

use std::time::Duration;

/// The shortest pause and the longest one. Each is twice as long as the one before it.
const PAUSES: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(1)];
/// Who waits looks again within this time, unless the scheduler has taken the core.
const BETWEEN_LOOKS: Duration = Duration::from_micros(200);

/// How long the next pause is.
#[derive(Debug)]
pub(crate) struct Pauses(Duration);

impl Pauses {
    pub const fn new() -> Pauses {
        Pauses(PAUSES[0])
    }

    /// How long the thread is to leave the queues alone; None: nobody looks, and the queues are to
    /// be armed. `unseen` is the time since a thread of the program last looked, and `news`
    /// whether the thread has found something.
    pub fn next(&mut self, unseen: Duration, news: bool) -> Option<Duration> {
        let patience = match news {
            true => self.0.min(BETWEEN_LOOKS),
            false => self.0,
        };
        if unseen < patience {
            self.0 = (self.0 * 2).min(PAUSES[1]);
            return Some(self.0);
        }
        *self = Pauses::new();
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread after a time in which the program always looked.
    fn watched() -> Pauses {
        let mut pauses = Pauses::new();
        while pauses.next(Duration::ZERO, false) != Some(PAUSES[1]) {}
        pauses
    }

    #[test]
    fn queues_of_a_program_that_looks_are_left_alone_for_longer_and_longer() {
        let mut pauses = Pauses::new();
        for pause in [100, 200, 400, 800, 1000, 1000] {
            let found = pauses.next(Duration::from_micros(40), false);
            assert_eq!(found, Some(Duration::from_micros(pause)));
        }
        // a program that computes between its waits, or that puts without waiting
        assert!(pauses.next(Duration::from_micros(900), false).is_some());
        assert!(pauses.next(Duration::from_micros(150), true).is_some());
    }

    #[test]
    fn queues_that_nobody_looks_at_are_armed() {
        assert_eq!(Pauses::new().next(PAUSES[0], false), None);
        assert_eq!(watched().next(PAUSES[1], false), None);
    }

    #[test]
    fn news_that_nobody_has_looked_for_arm_the_queues_and_the_next_pause_is_short() {
        let mut pauses = watched();
        assert_eq!(pauses.next(BETWEEN_LOOKS, true), None);
        assert_eq!(pauses.next(PAUSES[0], false), None);
    }
}
