//! Messages that a program gives up although bytes of theirs may be on their way: receives that are
//! read, written, or to land, and sends that are read, written, by the lane, or in pieces.
//!
//! What waits for its turn is taken back. Else the life of the connection ends; behind its fence
//! the message is over here, and its peer hears so.

use super::Fault;
use super::rank::Link;
use super::wire::{Body, Outcome, QueuePairState, To};
use super::world::World;
use ferriband_heal::{Cause, State};
use ferriband_mpi_proto::resume::Moving;

impl World {
    /// The program gives up a message, now and then.
    pub fn give_up(&mut self, me: usize, peer: usize) -> Outcome {
        let link = &self.ranks[me].links[peer];
        let is_up = link.session.is_up();
        if link.is_lost || self.is_quiet() {
            return Ok(());
        }
        // What waits for a new life is given up more often: there are few turns of it.
        let chance = self.plan.given_up * if is_up { 1 } else { 10 };
        if chance == 0 && !is_up || !self.rng.chance(chance) {
            return Ok(());
        }
        let all = self.may_be_given_up(me, peer);
        if all.is_empty() {
            return Ok(());
        }
        let letter = all[self.rng.below(all.len() as u64) as usize];
        let is_send = self.letters.0[letter].from == me;
        self.letters.0[letter].given_up[usize::from(!is_send)] = true;
        self.report.given_up += 1;
        if self.end_in_fifo(me, peer, letter)? {
            return Ok(());
        }
        let link = self.link(me, peer);
        link.given_up.push(letter);
        let main = link.queue_pair;
        let is_still = is_still(link, letter);
        let is_connected = main.is_some_and(|at| {
            let state = self.queue_pairs[at].state;
            state != QueuePairState::Init
        });
        let state = self.ranks[me].links[peer].session.state();
        if !is_connected || is_still && is_up {
            return self.end_given_up(me, peer);
        }
        if matches!(state, State::Up | State::Replaying | State::Answering) {
            if let Some(at) = main {
                self.laws.spoil(&self.queue_pairs[at]);
            }
            let now = self.now;
            let session = &mut self.link(me, peer).session;
            session.handle_failure(session.epoch(), Cause::Withdrawn, now);
        }
        Ok(())
    }

    /// Messages of which bytes may be on their way, or will be.
    fn may_be_given_up(&self, me: usize, peer: usize) -> Vec<usize> {
        let link = &self.ranks[me].links[peer];
        let offers = link.offers.keys().copied();
        let transfers = link.transfers.values().map(|one| one.letter);
        let landings = link.lane.landing.iter().copied();
        let waiting = link.fifo.iter().filter_map(|body| match body {
            Body::Cts(letter, To::Key(_), _) | Body::Piece(letter, _) => Some(*letter),
            _ => None,
        });
        let all = offers.chain(transfers).chain(landings).chain(waiting);
        let is_open = |letter: &usize| {
            let one = &self.letters.0[*letter];
            let (is_over, given_up) = match one.from == me {
                true => (one.is_sent, one.given_up[0]),
                false => (one.is_received, one.given_up[1]),
            };
            !is_over && !given_up
        };
        all.filter(is_open).collect()
    }

    /// What says of a message how it is to move, and waits for its turn, says that it is over. True
    /// if the peer knows nothing of its memory.
    fn end_in_fifo(&mut self, me: usize, peer: usize, letter: usize) -> Outcome<bool> {
        let is_error = true;
        let fin = Body::Fin { letter, is_error };
        let is_it = |body: &Body| match body {
            Body::Cts(other, ..) | Body::Piece(other, _) => *other == letter,
            _ => false,
        };
        let fifo = &mut self.link(me, peer).fifo;
        let Some(at) = fifo.iter().position(is_it) else {
            return Ok(false);
        };
        if matches!(fifo[at], Body::Cts(_, To::Lane(_), _)) {
            fifo.insert(at, fin);
            return Ok(false);
        }
        let is_receive = matches!(fifo[at], Body::Cts(..));
        fifo[at] = fin;
        fifo.retain(|body| !is_it(body));
        match is_receive {
            true => self.letters.received(letter, is_error, "M1")?,
            false => self.letters.sent(letter, is_error)?,
        }
        Ok(true)
    }

    /// Nothing moves any more by the last life: what was given up is over. What the peer knows of
    /// its memory is void with all keys that it knows.
    pub fn end_given_up(&mut self, me: usize, peer: usize) -> Outcome {
        for letter in std::mem::take(&mut self.link(me, peer).given_up) {
            let one = &self.letters.0[letter];
            let is_send = one.from == me;
            if is_send && one.is_sent || !is_send && one.is_received {
                continue;
            }
            let mut transfers = self.ranks[me].links[peer].transfers.iter();
            let found = transfers.find(|(_, one)| one.letter == letter);
            let found = found.map(|(id, one)| (*id, one.kind));
            let goes_again = is_send && self.is(Fault::SentAgain);
            if let Some((id, _)) = found.filter(|_| !goes_again) {
                self.at_fault(me, peer, id)?;
            } else if found.is_none() {
                self.void_offer(me, peer, letter, is_send);
            }
            let is_read = found.is_some_and(|(_, kind)| kind == Moving::Read);
            if is_send {
                self.letters.sent(letter, true)?;
            } else if !is_read {
                self.letters.received(letter, true, "M1")?;
            }
        }
        Ok(())
    }

    fn void_offer(&mut self, me: usize, peer: usize, letter: usize, is_send: bool) {
        let fault = self.fault;
        let link = self.link(me, peer);
        let Some(offer) = link.offers.get_mut(&letter) else {
            return;
        };
        let is_kept = match fault {
            Some(Fault::GivenUpWithKey) => !is_send && !offer.lands,
            Some(Fault::SourceWithKey) => is_send,
            Some(Fault::LandingUntold) => offer.lands,
            _ => false,
        };
        if !is_kept {
            offer.is_over = true;
            link.voids_keys = true;
        }
    }
}

/// Whether a message is moved by this side alone, and no request of it is under way.
fn is_still(link: &Link, letter: usize) -> bool {
    let mut transfers = link.transfers.values();
    let own = transfers.find(|one| one.letter == letter);
    own.is_some_and(|one| one.next == one.done)
}
