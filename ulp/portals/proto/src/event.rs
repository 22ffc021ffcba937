//! Full events and the rings that hold them.
//!
//! Owns: what an event says, which events a ring keeps when it is full, and places kept for events
//! that are due. Must not know: why an event is told. Data comes from the machine's other rooms; a
//! program takes events out.

use crate::{AtomicOp, Datatype, List, NiFail, Peer};
use std::collections::VecDeque;

/// What an event tells (ptl_event_kind_t), 16 kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EventKind {
    /// A GET completed at its target.
    Get = 0,
    /// An appended entry, or a search that deletes, met the header of a GET.
    GetOverflow = 1,
    /// A PUT completed at its target.
    Put = 2,
    /// An appended entry, or a search that deletes, met the header of a PUT.
    PutOverflow = 3,
    /// An atomic operation that returns nothing completed at its target.
    Atomic = 4,
    /// An appended entry, or a search that deletes, met the header of one.
    AtomicOverflow = 5,
    /// An atomic operation that returns the value before completed at its target.
    FetchAtomic = 6,
    /// An appended entry, or a search that deletes, met the header of one.
    FetchAtomicOverflow = 7,
    /// The reply to a GET, fetch or swap is in the initiator's memory.
    Reply = 8,
    /// The initiator's buffer may be used again.
    Send = 9,
    /// The target has acknowledged a PUT or an atomic operation.
    Ack = 10,
    /// A table entry with flow control has run out of a resource and is disabled.
    PtDisabled = 11,
    /// An entry has come into its list.
    Link = 12,
    /// An entry has left its list by itself, and nothing of it is under way.
    AutoUnlink = 13,
    /// An entry of the overflow list that had left it by itself is free: no unexpected header
    /// refers to it.
    AutoFree = 14,
    /// A search has found a header, or none.
    Search = 15,
}

/// A full event (ptl_event_t). Fields that an event does not fill are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What it tells.
    pub kind: EventKind,
    /// The list in which the request matched.
    pub list: List,
    /// What became of it.
    pub ni_fail: NiFail,
    /// The atomic operation and its datatype.
    pub atomic: Option<(AtomicOp, Datatype)>,
    /// Where the data lies at the target: of an overflow event, in the overflow entry.
    pub start: u64,
    /// The value that the program gave with the entry or the operation.
    pub user_ptr: u64,
    /// The initiator's 64 bits of data.
    pub hdr_data: u64,
    /// The initiator's match bits.
    pub match_bits: u64,
    /// Bytes that were asked for.
    pub rlength: u64,
    /// Bytes that were moved.
    pub mlength: u64,
    /// At the target the offset that the initiator asked for, at the initiator the one that was
    /// used.
    pub remote_offset: u64,
    /// Who asked.
    pub initiator: Peer,
    /// The initiator's user.
    pub uid: u32,
    /// The portal table index.
    pub pt_index: u32,
}

impl Event {
    /// An event that says no more than its kind, the table index and the program's value.
    pub(crate) fn bare(kind: EventKind, pt_index: u32, user_ptr: u64) -> Event {
        Event {
            kind,
            list: List::Priority,
            ni_fail: NiFail::Ok,
            atomic: None,
            start: 0,
            user_ptr,
            hdr_data: 0,
            match_bits: 0,
            rlength: 0,
            mlength: 0,
            remote_offset: 0,
            initiator: Peer::Rank(0),
            uid: 0,
            pt_index,
        }
    }
}

/// An event that was taken from its ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The event.
    pub event: Event,
    /// Whether events before it were overwritten: the call then returns PTL_EQ_DROPPED.
    pub dropped: bool,
}

/// The most events that a ring may be asked to hold.
pub(crate) const MOST_EVENTS: u64 = 1 << 24;
/// The fewest: the events of a request that is its overflow entry's last find room in an empty
/// ring.
pub(crate) const LEAST_EVENTS: u64 = 4;

/// A ring of events. A PT_DISABLED event needs none of its places: there is at most one for each
/// table index.
#[derive(Debug)]
pub(crate) struct EventQueue {
    ring: VecDeque<Event>,
    capacity: usize,
    /// Places kept for events of requests that were let in under flow control. `used() + reserved
    /// <= capacity` always holds.
    reserved: usize,
    /// PT_DISABLED events in the ring.
    disabled: usize,
    dropped: bool,
}

impl EventQueue {
    /// `capacity` is at least 1.
    pub fn new(capacity: usize) -> EventQueue {
        EventQueue {
            ring: VecDeque::new(),
            capacity: capacity.max(1),
            reserved: 0,
            disabled: 0,
            dropped: false,
        }
    }

    fn used(&self) -> usize {
        self.ring.len() - self.disabled
    }

    /// Keeps `count` places, or none if there are not so many.
    pub fn reserve(&mut self, count: usize) -> bool {
        let fits = self.used() + self.reserved + count <= self.capacity;
        if fits {
            self.reserved += count;
        }
        fits
    }

    /// Gives a place back whose event is not told.
    pub fn unreserve(&mut self) {
        debug_assert!(self.reserved > 0);
        self.reserved -= 1;
    }

    /// Tells an event for which a place was kept.
    pub fn push_reserved(&mut self, event: Event) {
        self.unreserve();
        self.ring.push_back(event);
    }

    /// Tells an event; a full ring loses its oldest one, or this one if all places are kept for
    /// others (Portals 4.3, PtlEQAlloc).
    pub fn push(&mut self, event: Event) {
        if self.used() + self.reserved >= self.capacity {
            self.dropped = true;
            let Some(oldest) = self
                .ring
                .iter()
                .position(|event| event.kind != EventKind::PtDisabled)
            else {
                return;
            };
            self.ring.remove(oldest);
        }
        self.ring.push_back(event);
    }

    /// Tells that a table entry is disabled. An earlier such event of that entry that nobody has
    /// taken gives way.
    pub fn push_disabled(&mut self, event: Event) {
        let same =
            |other: &Event| other.kind == EventKind::PtDisabled && other.pt_index == event.pt_index;
        match self
            .ring
            .iter()
            .position(same)
            .filter(|_| self.disabled > 0)
        {
            Some(earlier) => drop(self.ring.remove(earlier)),
            None => self.disabled += 1,
        }
        self.ring.push_back(event);
    }

    pub fn take(&mut self) -> Option<Taken> {
        let event = self.ring.pop_front()?;
        if event.kind == EventKind::PtDisabled {
            self.disabled -= 1;
        }
        Some(Taken {
            event,
            dropped: std::mem::take(&mut self.dropped),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(n: u64) -> Event {
        Event::bare(EventKind::Put, 0, n)
    }

    fn disabled(pt_index: u32) -> Event {
        Event::bare(EventKind::PtDisabled, pt_index, 0)
    }

    fn taken(queue: &mut EventQueue) -> Vec<(EventKind, u64, bool)> {
        std::iter::from_fn(|| queue.take())
            .map(|t| (t.event.kind, t.event.user_ptr, t.dropped))
            .collect()
    }

    #[test]
    fn a_full_ring_loses_its_oldest_and_says_so_once() {
        let mut queue = EventQueue::new(2);
        (0..4).for_each(|n| queue.push(event(n)));
        assert_eq!(
            taken(&mut queue),
            [(EventKind::Put, 2, true), (EventKind::Put, 3, false)]
        );
        assert_eq!(queue.take(), None);
    }

    #[test]
    fn kept_places_are_not_taken_by_other_events() {
        let mut queue = EventQueue::new(2);
        assert!(queue.reserve(2) && !queue.reserve(1));
        queue.push(event(9));
        queue.push_reserved(event(1));
        queue.push_reserved(event(2));
        assert_eq!(
            taken(&mut queue),
            [(EventKind::Put, 1, true), (EventKind::Put, 2, false)]
        );
    }

    #[test]
    fn pt_disabled_needs_no_place_and_is_there_once_for_each_table_entry() {
        let mut queue = EventQueue::new(1);
        queue.push_disabled(disabled(5));
        queue.push(event(1));
        queue.push_disabled(disabled(6));
        queue.push_disabled(disabled(5));
        queue.push(event(2));
        let all: Vec<_> = std::iter::from_fn(|| queue.take())
            .map(|t| (t.event.kind, t.event.pt_index))
            .collect();
        assert_eq!(
            all,
            [
                (EventKind::PtDisabled, 6),
                (EventKind::PtDisabled, 5),
                (EventKind::Put, 0)
            ]
        );
        assert!(queue.reserve(1));
    }
}
