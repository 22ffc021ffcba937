//! Unexpected headers: requests whose data went to the overflow list.
//!
//! Owns: what is remembered of a request for later events, and who has met a header whose data is
//! still under way. Must not know: when a header is met. Data comes from requests that matched.

use crate::event::{Event, EventKind};
use crate::handles::Key;
use crate::list::EntryOptions;
use crate::matching::IdentityList;
use crate::{Arrival, ArrivalOp, List, NiFail, Peer};

/// The unexpected headers of a table entry, in the order of arrival.
pub(crate) type Unexpected = IdentityList<Header>;

/// A request that matched, as events tell it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matched {
    pub arrival: Arrival,
    pub peer: Peer,
    pub list: List,
    pub start: u64,
    pub mlength: u64,
}

impl Matched {
    /// The event that tells its completion.
    pub fn completion(&self, user_ptr: u64, fail: NiFail) -> Event {
        let kind = match self.arrival.op {
            ArrivalOp::Put => EventKind::Put,
            ArrivalOp::Get => EventKind::Get,
            ArrivalOp::Atomic => EventKind::Atomic,
            ArrivalOp::FetchAtomic | ArrivalOp::Swap => EventKind::FetchAtomic,
        };
        self.event(kind, user_ptr, fail)
    }

    /// The event that tells that its header was met.
    pub fn overflow(&self, user_ptr: u64, fail: NiFail) -> Event {
        let kind = match self.arrival.op {
            ArrivalOp::Put => EventKind::PutOverflow,
            ArrivalOp::Get => EventKind::GetOverflow,
            ArrivalOp::Atomic => EventKind::AtomicOverflow,
            ArrivalOp::FetchAtomic | ArrivalOp::Swap => EventKind::FetchAtomicOverflow,
        };
        self.event(kind, user_ptr, fail)
    }

    pub fn event(&self, kind: EventKind, user_ptr: u64, ni_fail: NiFail) -> Event {
        let Arrival {
            uid,
            atomic,
            pt_index,
            match_bits,
            remote_offset,
            length,
            hdr_data,
            ..
        } = self.arrival;
        Event {
            kind,
            list: self.list,
            ni_fail,
            atomic,
            start: self.start,
            user_ptr,
            hdr_data,
            match_bits,
            rlength: length,
            mlength: self.mlength,
            remote_offset,
            initiator: self.peer,
            uid,
            pt_index,
        }
    }
}

/// An unexpected header.
#[derive(Debug)]
pub(crate) struct Header {
    pub matched: Matched,
    /// The overflow entry in which the data lies.
    pub entry: Key,
    /// The request, while its data is under way.
    pub hold: Option<Key>,
    pub fail: NiFail,
}

/// Who met a header: an appended entry, or a search that deletes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finder {
    /// The appended entry, which is pending until the event is told.
    pub entry: Option<Key>,
    pub options: EntryOptions,
    pub ct: Option<Key>,
    pub user_ptr: u64,
}

/// What a request under way has to do with an unexpected header.
#[derive(Debug)]
pub(crate) enum HeaderOf {
    /// It matched in the priority list, or leaves none.
    None,
    /// Its header is in the list, at this place.
    Listed(u64),
    /// Its header was met before its data was there.
    Met(Box<(Finder, Header)>),
}
