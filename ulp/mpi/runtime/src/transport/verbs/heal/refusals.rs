//! What a device refuses again and again: which verb, since when, what is said of it, and when a
//! peer is lost for it.
//!
//! A refusal may pass: a queue has room when something has completed, memory is there again. So
//! what was refused is tried again, each time after a longer pause where this rank sleeps. It is
//! said after 1, 10 and 60 s, and ends the connection after `heal_for`, as silence does.
//!
//! Owns: what becomes of the last refusal of each connection ([`super::refused`]). Must not know:
//! what a request is for.

use super::super::Net;
use super::super::link::Link;
use super::refused::{Needed, Posted, Refused};
use crate::constants::MPI_ERR_PROC_ABORTED;
use crate::errors::Outcome;
use ferriband_heal::State;
use ferriband_ibv::VerbsError;

/// It is said when it has lasted so long.
const MARKS: [u64; 3] = [1_000_000_000, 10_000_000_000, 60_000_000_000];
/// Two refusals further apart have nothing to do with each other.
const APART_NS: u64 = 10_000_000_000;

impl Link {
    fn posted(&self) -> Posted {
        let (queue, lane) = (&self.wire.queue, &self.long.lane.queue);
        let epoch = self.wire.session.epoch();
        (epoch, queue.last_posted(), lane.last_posted())
    }

    /// Whether what was refused has been granted since, or is of no use any more.
    fn is_granted(&self, refused: &Refused) -> bool {
        let state = self.wire.session.state();
        match refused.needed {
            Needed::Request => {
                let (posted, before) = (self.posted(), refused.posted);
                let is_other = posted.0 != before.0;
                self.wire.has_life() && (is_other && posted.1 != 0 || !is_other && posted != before)
            }
            Needed::Datagram | Needed::QueuePair | Needed::EndOfAccess => state == State::Up,
            Needed::Lane => self.long.lane.is_ready(),
        }
    }
}

impl Net {
    /// A device refuses what the connection to `peer` needs.
    #[cold]
    pub(in super::super) fn is_refused(&mut self, peer: u32, needed: Needed, error: &VerbsError) {
        let now = self.connect.now();
        let link = self.link(peer);
        if needed == Needed::Datagram && link.is_ready() {
            // A probe that does not go is as good as lost, as any may be.
            return;
        }
        let is_access = |needed: Needed| needed == Needed::EndOfAccess;
        let before = link.wire.refused.filter(|before| {
            let is_near = now.since(before.last) < APART_NS;
            is_near && is_access(before.needed) == is_access(needed) && !link.is_granted(before)
        });
        link.wire.refused = Some(Refused {
            needed,
            error: *error,
            since: before.map_or(now, |before| before.since),
            last: now,
            posted: link.posted(),
            marks: before.map_or(0, |before| before.marks),
        });
        self.heed(peer);
    }

    /// A datagram to `peer` has gone.
    pub(super) fn has_gone(&mut self, peer: u32) {
        let refused = &mut self.link(peer).wire.refused;
        if refused.is_some_and(|refused| refused.needed == Needed::Datagram) {
            *refused = None;
        }
    }

    /// Judges the refusal to `peer`, if there is one: it is over, or said, or has lasted too long.
    #[cold]
    pub(super) fn judge_refusal(&mut self, peer: u32) -> Outcome {
        let (now, for_ns) = (self.connect.now(), self.limits.heal.for_ns);
        let link = self.link(peer);
        let Some(mut refused) = link.wire.refused else {
            return Ok(());
        };
        if link.is_gone() || link.is_granted(&refused) || now.since(refused.last) >= APART_NS {
            link.wire.refused = None;
            return Ok(());
        }
        let lasts = refused.last.since(refused.since);
        let is_said = link.is_healing();
        // A process that is stopped is no device that refuses.
        let for_ns = for_ns.filter(|_| refused.needed != Needed::EndOfAccess);
        if for_ns.is_some_and(|most| lasts >= most) {
            let seconds = lasts / 1_000_000_000;
            let why = format!("{}, again and again for {seconds} s", refused.error);
            let told = self.tell_end(peer);
            self.lose_aloud(peer, &why, MPI_ERR_PROC_ABORTED);
            return told;
        }
        if MARKS.get(refused.marks).is_some_and(|mark| lasts >= *mark) {
            refused.marks += 1;
            link.wire.refused = Some(refused);
            if !is_said {
                self.say_that_it_is_refused(peer, &refused, lasts);
            }
        }
        Ok(())
    }

    fn say_that_it_is_refused(&self, peer: u32, refused: &Refused, lasts: u64) {
        complain!(
            "ferriband MPI: rank {}: what is for rank {peer} waits for {}, for {} s so far: {}; \
             it is tried again (heal_for: {})",
            self.connect.me,
            self.name_to(peer),
            lasts / 1_000_000_000,
            refused.error,
            self.heal_for()
        );
    }

    /// The setting `heal_for`, for people.
    pub(super) fn heal_for(&self) -> String {
        match self.limits.heal.for_ns {
            Some(ns) => format!("{} s", ns / 1_000_000_000),
            None => "for ever".to_owned(),
        }
    }
}
