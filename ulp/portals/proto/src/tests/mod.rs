//! The machine as a program and a transport see it.

mod faults;
mod flow;
mod initiator;
mod laws;
mod lease;
mod overflow;
mod target;
mod triggers;

use crate::*;

pub(super) const MATCHING: NiKind = NiKind {
    matching: true,
    logical: true,
};
pub(super) const UNMATCHED: NiKind = NiKind {
    matching: false,
    logical: false,
};
pub(super) const START: u64 = 0x1000;

/// An interface with an event queue and a table entry that uses it.
pub(super) struct Bed {
    pub ni: Interface,
    pub eq: Handle,
    pub pt: u32,
}

impl Bed {
    pub fn new(kind: NiKind, limits: Limits, options: PtOptions, events: u64) -> Bed {
        let mut ni = Interface::new(kind, Limits::granted(Some(&limits), &Limits::default()));
        let eq = ni.eq_alloc(events).expect("the first queue");
        let pt = ni
            .pt_alloc(options, eq, None)
            .expect("the first table entry");
        Bed { ni, eq, pt }
    }

    pub fn matching() -> Bed {
        Bed::new(MATCHING, Limits::default(), PtOptions::empty(), 1000)
    }

    pub fn append(&mut self, init: &EntryInit, list: List, user_ptr: u64) -> Handle {
        self.ni
            .entry_append(self.pt, init, list, user_ptr)
            .expect("a legal entry")
    }

    /// All events that are there.
    pub fn events(&mut self) -> Vec<Event> {
        events(&mut self.ni, self.eq)
    }

    /// Kinds and the program's values of all events that are there.
    pub fn kinds(&mut self) -> Vec<(EventKind, u64)> {
        self.events()
            .iter()
            .map(|event| (event.kind, event.user_ptr))
            .collect()
    }

    pub fn arrival(&self, op: ArrivalOp, match_bits: u64, length: u64) -> Arrival {
        Arrival {
            ni: self.ni.kind(),
            initiator: Process { nid: 10, pid: 20 },
            rank: 7,
            uid: 500,
            op,
            atomic: None,
            pt_index: self.pt,
            match_bits,
            remote_offset: 0,
            length,
            hdr_data: 0xabcd,
        }
    }

    pub fn put(&mut self, match_bits: u64, length: u64) -> Admission {
        let arrival = self.arrival(ArrivalOp::Put, match_bits, length);
        self.ni.arrive(&arrival)
    }

    /// A PUT that is let in.
    pub fn granted(&mut self, match_bits: u64, length: u64) -> Grant {
        grant(self.put(match_bits, length))
    }

    /// A PUT that is let in and whose data is there at once.
    pub fn done(&mut self, match_bits: u64, length: u64) -> Grant {
        let grant = self.granted(match_bits, length);
        self.ni.delivered(grant.hold, Delivery::Done);
        grant
    }
}

pub(super) fn events(ni: &mut Interface, eq: Handle) -> Vec<Event> {
    std::iter::from_fn(|| ni.eq_get(eq).ok())
        .map(|taken| taken.event)
        .collect()
}

pub(super) fn grant(admission: Admission) -> Grant {
    match admission {
        Admission::Granted(grant) => grant,
        Admission::Refused(fail) => panic!("the request was refused: {fail:?}"),
    }
}

/// An entry over `length` bytes at [`START`] for everybody, with PUT and no LINK event.
pub(super) fn entry(match_bits: u64, length: u64, options: EntryOptions) -> EntryInit {
    EntryInit {
        region: Region::flat(START, length),
        ct: Handle::CT_NONE,
        uid: EntryInit::UID_ANY,
        options: options | EntryOptions::OP_PUT | EntryOptions::EVENT_LINK_DISABLE,
        match_id: Peer::Rank(Peer::RANK_ANY),
        match_bits,
        ignore_bits: 0,
        min_free: 0,
    }
}
