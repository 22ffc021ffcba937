//! List entries: LE and ME.
//!
//! Owns: an entry's options, its place in a list, and what it still owes to the program. Must not
//! know: how it is found. Data comes from appends and from requests that match.

use crate::handles::Key;
use crate::matching::Criteria;
use crate::{Arrival, Handle, Limits, List, NiFail, Peer, Region};

bitflags::bitflags! {
    /// Options of list entries (PTL_LE_*, PTL_ME_*, PTL_IOVEC), with the bits of the 4.3 header.
    ///
    /// PTL_IOVEC is not among them: a [`Region`] says it. IS_ACCESSIBLE and MAY_ALIGN are hints
    /// that change nothing here.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct EntryOptions: u32 {
        /// Answers to PUT and, for its writing part, to atomics.
        const OP_PUT = 1 << 1;
        /// Answers to GET and, for what they return, to fetches and swaps.
        const OP_GET = 1 << 2;
        /// Takes one request, then leaves its list.
        const USE_ONCE = 1 << 3;
        /// In the overflow list: leaves no unexpected headers.
        const UNEXPECTED_HDR_DISABLE = 1 << 4;
        /// All its memory is accessible. A hint.
        const IS_ACCESSIBLE = 1 << 5;
        /// No LINK.
        const EVENT_LINK_DISABLE = 1 << 6;
        /// No GET, PUT, ATOMIC, FETCH_ATOMIC, SEARCH.
        const EVENT_COMM_DISABLE = 1 << 7;
        /// No PT_DISABLED for a request that matched this entry and found no resource.
        const EVENT_FLOWCTRL_DISABLE = 1 << 8;
        /// No event of a request or search that says success.
        const EVENT_SUCCESS_DISABLE = 1 << 9;
        /// No *_OVERFLOW.
        const EVENT_OVER_DISABLE = 1 << 10;
        /// No AUTO_UNLINK, no AUTO_FREE.
        const EVENT_UNLINK_DISABLE = 1 << 11;
        /// Counts requests that it took.
        const EVENT_CT_COMM = 1 << 12;
        /// Counts unexpected headers that it, or a search, met.
        const EVENT_CT_OVERFLOW = 1 << 13;
        /// Counts bytes of successes instead of successes.
        const EVENT_CT_BYTES = 1 << 14;
        /// ME: the offset is kept here and moves by each request's bytes.
        const MANAGE_LOCAL = 1 << 15;
        /// ME: does not match what would not fit.
        const NO_TRUNCATE = 1 << 16;
        /// ME: data may be placed at better addresses. A hint.
        const MAY_ALIGN = 1 << 17;
        /// ME: with MANAGE_LOCAL, unexpected headers that an append meets move the offset by the
        /// bytes they asked for.
        const LOCAL_INC_UH_RLENGTH = 1 << 18;
        /// PTL_ME_ACK_DISABLE of 4.2, on a bit that 4.3 leaves free. 4.3 has no such option:
        /// acknowledgements go to whoever asks.
        const ACK_DISABLE = 1 << 31;
        /// Those that are for match list entries alone.
        const ONLY_ME = 0xf << 15;
    }
}

/// What a program gives with PtlLEAppend, PtlMEAppend and the searches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryInit {
    /// The memory.
    pub region: Region,
    /// The counter, or [`Handle::CT_NONE`].
    pub ct: Handle,
    /// The user that may use the entry, or [`EntryInit::UID_ANY`].
    pub uid: u32,
    /// The options.
    pub options: EntryOptions,
    /// ME: from whom. Not looked at on an interface without matching.
    pub match_id: Peer,
    /// ME: the bits that a request must have. Not looked at on an interface without matching.
    pub match_bits: u64,
    /// ME: the bits that do not count. Not looked at on an interface without matching.
    pub ignore_bits: u64,
    /// ME: with MANAGE_LOCAL, the entry leaves its list when fewer bytes than this are left; 0
    /// switches it off.
    pub min_free: u64,
}

impl EntryInit {
    /// PTL_UID_ANY.
    pub const UID_ANY: u32 = 0xffff_ffff;
}

/// What a search does with the headers that it finds (ptl_search_op_t).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SearchOp {
    /// Leaves them.
    Only = 0,
    /// Consumes them.
    Delete = 1,
}

/// Where an entry is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryState {
    /// A triggered append has not fired yet, or an append is looking at unexpected headers.
    Waiting,
    /// In its list, at this place.
    Linked(u64),
    /// Out of its list, of itself: AUTO_UNLINK is due, and AUTO_FREE from the overflow list.
    Leaving,
    /// Out of its list; the program has been told, or asked for it.
    Unlinked,
}

/// An entry.
#[derive(Debug)]
pub(crate) struct Entry {
    pub state: EntryState,
    pub list: List,
    pub pt_index: u32,
    pub region: Region,
    /// Bytes of the region.
    pub length: u64,
    pub ct: Option<Key>,
    pub uid: u32,
    pub options: EntryOptions,
    pub criteria: Criteria,
    pub min_free: u64,
    pub user_ptr: u64,
    pub local_offset: u64,
    /// Requests of its own that are under way, and headers that it has met whose data is.
    pub pending: u32,
    /// Unexpected headers whose data lies in it.
    pub headers: u32,
    /// Places kept in the table entry's event queue for AUTO_UNLINK and AUTO_FREE.
    pub reserved: u8,
    /// Whether AUTO_FREE is due.
    pub owes_free: bool,
}

/// What an entry would do with a request that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub offset: u64,
    pub mlength: u64,
    /// Whether the entry leaves its list with it.
    pub unlinks: bool,
}

impl Entry {
    pub fn has(&self, option: EntryOptions) -> bool {
        self.options.contains(option)
    }

    fn offset(&self, remote_offset: u64) -> u64 {
        if self.has(EntryOptions::MANAGE_LOCAL) {
            self.local_offset
        } else {
            remote_offset
        }
    }

    /// Whether a request of this length may match: PTL_ME_NO_TRUNCATE refuses what would be cut.
    pub fn fits(&self, remote_offset: u64, rlength: u64) -> bool {
        let end = self.offset(remote_offset).checked_add(rlength);
        !self.has(EntryOptions::NO_TRUNCATE) || end.is_some_and(|end| end <= self.length)
    }

    /// Whether the initiator may do it (PTL_LE_OP_PUT, PTL_LE_OP_GET, ptl_le_t's uid).
    pub fn permits(&self, arrival: &Arrival) -> Result<(), NiFail> {
        if self.uid != EntryInit::UID_ANY && self.uid != arrival.uid {
            return Err(NiFail::PermViolation);
        }
        let puts = !arrival.op.writes() || self.has(EntryOptions::OP_PUT);
        let gets = !arrival.op.reads() || self.has(EntryOptions::OP_GET);
        if puts && gets {
            Ok(())
        } else {
            Err(NiFail::OpViolation)
        }
    }

    /// Offset, length and end of life of a request that matched. What is cut off an atomic
    /// operation is whole values.
    pub fn plan(&self, arrival: &Arrival, limits: &Limits) -> Plan {
        let offset = self.offset(arrival.remote_offset);
        let most = match (arrival.atomic.is_some(), arrival.op.reads()) {
            (false, _) => limits.max_msg_size,
            (true, false) => limits.max_atomic_size,
            (true, true) => limits.max_fetch_atomic_size,
        };
        let room = self.length.saturating_sub(offset);
        let mut mlength = arrival.length.min(room).min(most);
        if let Some((_, datatype)) = arrival.atomic {
            mlength -= mlength % datatype.size_bytes();
        }
        let unlinks = self.has(EntryOptions::USE_ONCE)
            || self.has(EntryOptions::MANAGE_LOCAL)
                && self.is_exhausted(self.local_offset.saturating_add(mlength));
        Plan {
            offset,
            mlength,
            unlinks,
        }
    }

    /// Whether fewer than `min_free` bytes are left once the local offset is this.
    pub fn is_exhausted(&self, local_offset: u64) -> bool {
        self.length.saturating_sub(local_offset) < self.min_free
    }

    /// The events of its end that may be told: AUTO_UNLINK, and AUTO_FREE from the overflow list.
    pub fn end_events(&self) -> u8 {
        match (self.has(EntryOptions::EVENT_UNLINK_DISABLE), self.list) {
            (true, _) => 0,
            (false, List::Priority) => 1,
            (false, List::Overflow) => 2,
        }
    }
}
