//! The queue pairs of a connection: works under way of each, and what the second one has beside.
//!
//! Owns: numbers of works, and the receives and numbers of messages of the second queue pair. Must
//! not know: what offers are.
//!
//! In *nic* a message waits behind bytes that the peer does not read. What answers the other stream
//! may not, and neither may RDMA READs: each side would wait for the other. So there is a second
//! queue pair, [`Pair::Offers`], by which all of zero copy travels. Its receives are posted again
//! at once, whatever the program reads.

use super::config::{CONTROL_WORKS, OFFER_RECEIVES};
use super::sequence::Sequence;
use super::work::{Pair, Violation, WorkId};
use std::collections::VecDeque;
use std::collections::vec_deque::Drain;

/// What a work of a send queue was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flight {
    Segment { bytes: u32 },
    Control,
    Read,
}

/// Works under way in a send queue, in their order.
#[derive(Clone, Debug)]
pub(super) struct Flights {
    works: VecDeque<Flight>,
    /// The number of the first.
    first: WorkId,
}

impl Flights {
    pub fn new(most: u32) -> Self {
        Flights {
            works: VecDeque::with_capacity(most as usize),
            first: WorkId(0),
        }
    }

    pub fn push(&mut self, flight: Flight) -> WorkId {
        let id = WorkId(self.first.0 + self.works.len() as u64);
        self.works.push_back(flight);
        id
    }

    /// Works up to this one have completed.
    pub fn complete(&mut self, last: WorkId) -> Result<Drain<'_, Flight>, Violation> {
        let count = (last.0 + 1).saturating_sub(self.first.0);
        if count > self.works.len() as u64 {
            return Err(Violation::Completion);
        }
        self.first = WorkId(self.first.0 + count);
        Ok(self.works.drain(..count as usize))
    }

    pub fn len(&self) -> u32 {
        // at most what a send queue has room for
        self.works.len() as u32
    }

    pub fn is_empty(&self) -> bool {
        self.works.is_empty()
    }
}

/// The second queue pair.
#[derive(Clone, Debug)]
pub(super) struct OfferPair {
    pub sequence: Sequence,
    pub flights: Flights,
    posted: VecDeque<u16>,
    free: VecDeque<u16>,
}

impl OfferPair {
    pub fn new() -> Self {
        OfferPair {
            sequence: Sequence::new(OFFER_RECEIVES, OFFER_RECEIVES),
            flights: Flights::new(CONTROL_WORKS),
            posted: VecDeque::with_capacity(OFFER_RECEIVES.into()),
            free: (0..OFFER_RECEIVES).collect(),
        }
    }

    /// Receives that are posted.
    pub fn posted(&self) -> u16 {
        // at most OFFER_RECEIVES
        self.posted.len() as u16
    }

    /// A receive that is to be posted, and counts as posted.
    pub fn post(&mut self) -> Option<u16> {
        let slot = self.free.pop_front()?;
        self.posted.push_back(slot);
        Some(slot)
    }

    /// A message has taken the oldest receive, whose buffer holds nothing that is needed later.
    pub fn take(&mut self) -> Result<(), Violation> {
        let slot = self.posted.pop_front().ok_or(Violation::Completion)?;
        self.free.push_back(slot);
        Ok(())
    }

    /// Whether the send queue takes another work. One that finds no receive waits at the adapter.
    pub fn has_room(&self) -> bool {
        self.flights.len() < CONTROL_WORKS
    }
}

impl super::Connection {
    pub(super) fn under_way(&mut self, pair: Pair, flight: Flight) -> WorkId {
        self.send.segments += u32::from(matches!(flight, Flight::Segment { .. }));
        self.flights(pair).push(flight)
    }

    /// Of the second queue pair only where there is one.
    pub(super) fn flights(&mut self, pair: Pair) -> &mut Flights {
        match (&mut self.offers, pair) {
            (Some(offers), Pair::Offers) => &mut offers.flights,
            _ => &mut self.send.flights,
        }
    }
}
