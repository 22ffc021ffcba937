//! When the card of a peer is read.
//!
//! Owns: the pauses between two looks at the card of one peer. Must not know: where cards lie, and
//! who is asked for one. A peer that is heard says by its datagrams where it is, so its card is
//! read while it is asked and does not answer, or after it has told of a newer one.

use crate::number::Ns;
use crate::reach::Reach;
use crate::session::State;

/// The first pause, and how long a pause becomes by doubling.
const FIRST_NS: u64 = 50_000_000;
const LONGEST_NS: u64 = 2_000_000_000;

/// When the card of one peer is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    at: Option<Ns>,
    pause_ns: u64,
}

impl Reading {
    /// Whether the card is to be read now, as the session to the peer and what is known of where it
    /// is say. To be asked at each look at a connection that is not up.
    pub fn is_due(&mut self, state: State, reach: &Reach, now: Ns) -> bool {
        let is_heard = matches!(
            state,
            State::Up | State::Replaying | State::Idle | State::Lost
        );
        if is_heard && !reach.wants_card() {
            *self = Self::default();
            return false;
        }
        if now < *self.at.get_or_insert(now.after(FIRST_NS)) {
            return false;
        }
        self.pause_ns = (self.pause_ns * 2).clamp(FIRST_NS, LONGEST_NS);
        self.at = Some(now.after(self.pause_ns));
        true
    }

    /// This side has another address: an adapter of it was opened, or a port's address has changed.
    /// If that has happened to the peer as well, neither hears the other. The one to whom it
    /// happens last finds the other's new card, if it reads it now.
    pub fn hasten(&mut self, now: Ns) {
        *self = Self {
            at: Some(now),
            pause_ns: 0,
        };
    }

    /// When the next look at the connection is due for the card's sake.
    pub fn poll_timeout(&self) -> Option<Ns> {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::{ADAPTERS, Card};

    const MS: u64 = 1_000_000;

    /// When a card is read from `from` on until `until`, both in milliseconds.
    fn reads(reading: &mut Reading, state: State, from: u64, until: u64) -> Vec<u64> {
        let reach = Reach::default();
        let all = from..=until;
        all.filter(|ms| reading.is_due(state, &reach, Ns(ms * MS)))
            .collect()
    }

    #[test]
    fn pauses_double_while_the_peer_does_not_answer() {
        let mut reading = Reading::default();
        let silent = reads(&mut reading, State::Asking, 1000, 12_000);
        assert_eq!(
            silent,
            [1050, 1100, 1200, 1400, 1800, 2600, 4200, 6200, 8200, 10_200]
        );
        assert_eq!(reading.poll_timeout(), Some(Ns(12_200 * MS)));
    }

    #[test]
    fn who_is_heard_is_not_asked_for_and_who_falls_silent_again_begins_anew() {
        let mut reading = Reading::default();
        reads(&mut reading, State::Fenced, 0, 5000);
        for state in [State::Up, State::Replaying, State::Idle, State::Lost] {
            assert_eq!(reads(&mut reading, state, 5000, 9000), [] as [u64; 0]);
            assert_eq!(reading.poll_timeout(), None);
        }
        let again = reads(&mut reading, State::Answering, 9000, 9200);
        assert_eq!(again, [9050, 9100, 9200]);
    }

    #[test]
    fn with_another_address_of_its_own_a_side_reads_at_once() {
        let mut reading = Reading::default();
        reads(&mut reading, State::Fenced, 0, 5000);
        reading.hasten(Ns(5001 * MS));
        let soon = reads(&mut reading, State::Fenced, 5001, 5200);
        assert_eq!(soon, [5001, 5051, 5151]);
        reading.hasten(Ns(6000 * MS));
        assert_eq!(reads(&mut reading, State::Up, 6000, 7000), [] as [u64; 0]);
    }

    #[test]
    fn a_peer_that_tells_of_a_newer_card_is_asked_for_it_while_it_is_heard() {
        let mut reach = Reach::default();
        let card = Card {
            serial: 2,
            receive: 64,
            addresses: [None; ADAPTERS],
        };
        reach.handle_card(&card);
        let mut datagram = crate::datagram::tests::probe();
        datagram.origin.serial = 4;
        reach.handle_origin(&datagram);
        let mut reading = Reading::default();
        assert!(!reading.is_due(State::Up, &reach, Ns(0)));
        assert!(reading.is_due(State::Up, &reach, Ns(50 * MS)));
        reach.handle_card(&Card { serial: 4, ..card });
        assert!(!reading.is_due(State::Up, &reach, Ns(500 * MS)));
    }
}
