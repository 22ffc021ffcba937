//! Gaps beyond the first: a responder that keeps what comes after a gap names the others to a requester that fills gaps alone, and
//! they are filled at once instead of one in each round trip.
//!
//! Both halves are here. What they say to each other is [`GapReport`]; nothing depends on it: a report that is lost, not understood
//! or a lie costs packets that are sent twice or late, as without. Owns which holes are still to be told and which packets are to be sent again.

use crate::types::Instant;
use ferriband_wire::{GapReport, Hole, Psn};
use std::collections::VecDeque;

/// Reports in a row after which nothing was filled out of turn: the peer does not know them.
const PATIENCE: u32 = 64;
/// Packets that wait to be sent again, at the most, and such that were of late.
const MOST_REPAIRS: usize = 64;

/// A responder's: the holes that are still to be told.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// First PSN and number of packets, ascending.
    waiting: VecDeque<(Psn, u16)>,
    /// Those that were told last.
    listed: VecDeque<(Psn, u16)>,
    /// Its hearer listens, and wants to hear how far packets came.
    asked: bool,
    /// A hole was filled out of turn before.
    known: bool,
    /// Reports since a hole was last filled out of turn.
    unheeded: u32,
}

impl Told {
    /// So many packets from `first` on are missing, beyond all that was seen before.
    pub fn opens(&mut self, first: Psn, count: u32) {
        if self.unheeded < PATIENCE && self.waiting.len() < GapReport::MOST_HOLES {
            let count = u16::try_from(count).unwrap_or(u16::MAX);
            self.waiting.push_back((first, count));
        }
    }

    /// A packet came into a hole that is not the first: somebody listens.
    pub fn heeded(&mut self) {
        self.unheeded = 0;
        self.known = true;
    }

    /// A packet beyond the gap asks for an acknowledgement.
    pub fn asks(&mut self) {
        self.asked = self.is_known();
    }

    /// There is something to tell.
    pub fn is_due(&self) -> bool {
        self.asked || !self.waiting.is_empty()
    }

    /// Its hearer listens.
    pub fn is_known(&self) -> bool {
        self.known && self.unheeded < PATIENCE
    }

    /// The packet of this PSN was told to be missing, to somebody who listens.
    pub fn has_listed(&self, psn: Psn) -> bool {
        let within = |(first, count): &(Psn, u16)| psn.sub(first.get()).get() < (*count).into();
        self.is_known() && self.listed.iter().any(within)
    }

    /// The holes beyond `expected` that were not told yet; they count as told. None if nobody wants to hear how far packets came
    /// either.
    pub fn take(&mut self, expected: Psn) -> Option<impl ExactSizeIterator<Item = Hole> + '_> {
        while let Some((first, count)) = self.waiting.front_mut() {
            // The expected one is told by a NAK.
            let passed = expected.next().distance(*first).max(0) as u32;
            match u32::from(*count).checked_sub(passed) {
                None | Some(0) => self.waiting.pop_front(),
                Some(left) => {
                    (*first, *count) = (first.add(passed), left as u16);
                    break;
                }
            };
        }
        self.unheeded += u32::from(!self.waiting.is_empty());
        let due = self.is_due();
        self.asked = false;
        let listed = &mut self.listed;
        let holes = self.waiting.drain(..).map(move |(first, count)| {
            if listed.len() == MOST_REPAIRS {
                listed.pop_front();
            }
            listed.push_back((first, count));
            Hole {
                // No farther than what a queue pair keeps.
                ahead: first.sub(expected.get()).get() as u16,
                count,
            }
        });
        due.then_some(holes)
    }
}

/// A requester's: the packets that its peer lacks, beyond the first.
#[derive(Debug, Default)]
pub(super) struct Repairs {
    waiting: VecDeque<Psn>,
    /// What was sent again of late, and when.
    done: VecDeque<(Psn, Instant)>,
}

impl Repairs {
    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// One more; false if there is no more room.
    pub fn push(&mut self, psn: Psn) -> bool {
        let fits = self.waiting.len() < MOST_REPAIRS;
        if fits && !self.waiting.contains(&psn) {
            self.waiting.push_back(psn);
        }
        fits
    }

    /// The next one, which is sent again now.
    pub fn next(&mut self, now: Instant) -> Option<Psn> {
        let psn = self.waiting.pop_front()?;
        if self.done.len() == MOST_REPAIRS {
            self.done.pop_front();
        }
        self.done.push_back((psn, now));
        Some(psn)
    }

    /// When this one was sent again last, as far as it is known.
    pub fn sent_at(&self, psn: Psn) -> Option<Instant> {
        let mut newest = self.done.iter().rev();
        newest.find(|(sent, _)| *sent == psn).map(|(_, at)| *at)
    }

    /// Everything is sent again anyway.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.done.clear();
    }
}
