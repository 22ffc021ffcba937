//! Connections that are asked for again by themselves, where each is wanted.
//!
//! Owns: when, and how often. Must not know: why a peer could not take part before, and how it is
//! asked.
//!
//! A connection whose peer has not accepted it is put off, and asked for again after as much
//! traffic as before. A program that has set `after_exchanges` to 0 or 1 wants it although no more
//! traffic may come: one thread that has both ends accepts after its first request.

use super::service::{Service, ends_of};
use super::state::{self, State};
use super::{Process, counters};
use crate::arena::Taken;
use crate::table::Pin;
use std::time::Duration;

/// How long after the first answer a peer is asked again. Each pause is twice as long.
const FIRST: Duration = Duration::from_millis(1);
/// As long as a pause becomes.
const LONGEST: Duration = Duration::from_millis(8);
/// How often a peer is asked again: for two seconds.
const MOST: u32 = 256;
/// Connections that are remembered. Others are put off.
const ROOM: usize = 1024;

/// Connections that are to be asked for again.
#[derive(Debug, Default)]
pub(super) struct Again(Vec<Waiting>);

#[derive(Clone, Copy, Debug)]
struct Waiting {
    taken: Taken,
    at: Duration,
    /// How often it was asked for again, with this time.
    times: u32,
}

impl Again {
    /// Remembers a connection that was asked for again so many times. False if that is enough.
    pub(super) fn add(&mut self, taken: Taken, times: u32, now: Duration) -> bool {
        let is_wanted = times < MOST && self.0.len() < ROOM;
        if is_wanted {
            let pause = (FIRST * (1 << times.min(16))).min(LONGEST);
            self.0.push(Waiting {
                taken,
                at: now + pause,
                times: times + 1,
            });
        }
        is_wanted
    }

    /// When the next is to be asked for.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.0.iter().map(|waiting| waiting.at).min()
    }

    /// Takes those whose time has come.
    fn take_due(&mut self, now: Duration) -> Vec<Waiting> {
        self.0.extract_if(.., |waiting| waiting.at <= now).collect()
    }

    /// In a child: the connections are the parent's to ask for.
    pub(super) fn forked(&mut self) {
        self.0.clear();
    }
}

impl Service {
    /// Asks for the connections whose time has come.
    pub(super) fn ask_again(&mut self, process: &'static Process, now: Duration) {
        for Waiting { taken, times, .. } in self.again.take_due(now) {
            let Some(pin) = process.table.pin_taken(taken) else {
                continue;
            };
            if pin.link().is_some() || !pin.traffic().is(state::ASKED) {
                continue;
            }
            match state::stays(&pin) {
                true => self.leave_out(process, &pin),
                false => self.ask(process, taken.index, times, now),
            }
        }
    }

    /// A connection that the program has shut down is not counted if its peer has not accepted it
    /// by then: it could not be carried.
    pub(super) fn leave_out(&self, process: &'static Process, pin: &Pin<'_>) {
        let number = process.number_of(pin);
        let ends = number.and_then(ends_of).zip(self.client.as_ref());
        let is_unaccepted =
            ends.is_some_and(|([own, peer], client)| client.credentials().is_unaccepted(peer, own));
        if is_unaccepted && !pin.traffic().counts() {
            counters::not_eligible();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1);
    const TAKEN: Taken = Taken {
        index: 3,
        generation: 1,
    };

    #[test]
    fn pauses_become_longer_and_end() {
        let mut again = Again::default();
        let (mut now, mut times, mut pauses) = (NOW, 0, Vec::new());
        while again.add(TAKEN, times, now) {
            let at = again.deadline().expect("it waits");
            assert!(again.take_due(at - Duration::from_nanos(1)).is_empty());
            let due = again.take_due(at);
            assert_eq!(due.len(), 1);
            assert_eq!(due[0].taken, TAKEN);
            pauses.push((at - now).as_millis());
            (now, times) = (at, due[0].times);
        }
        assert_eq!(pauses[..6], [1, 2, 4, 8, 8, 8]);
        assert_eq!(pauses.len(), MOST as usize);
        assert_eq!(again.deadline(), None);
    }

    #[test]
    fn no_more_are_remembered_than_there_is_room_for() {
        let mut again = Again::default();
        assert!((0..ROOM).all(|_| again.add(TAKEN, 0, NOW)));
        assert!(!again.add(TAKEN, 0, NOW));
        again.forked();
        assert!(again.add(TAKEN, 0, NOW));
    }
}
