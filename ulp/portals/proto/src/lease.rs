//! Entries whose memory initiators may reach themselves, without a request.
//!
//! Owns: which entries these are, and what of such an operation the entry's program is told: a
//! count. Must not know: who reaches what, and how. Data comes from a transport.

use crate::interface::Interface;
use crate::list::{Entry, EntryState};
use crate::matching::Identity;
use crate::table::{PortalEntry, PtOptions};
use crate::{EntryInit, EntryOptions, Features, Handle, List, NiFail, Region};

/// The longest message that an interface has to allow: operations without a request are not cut.
const LONGEST: u64 = 1 << 30;
/// Bytes of an atomic operation without a request.
const ATOMIC_BYTES: u64 = 8;

/// What requests to a table entry may do without being looked at. While these terms stand, each
/// request that fits is granted as it is, and nothing but a count is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The entry.
    pub entry: Handle,
    /// Where its memory begins.
    pub start: u64,
    /// Bytes of its memory.
    pub length: u64,
    /// Whether it answers to PUT.
    pub puts: bool,
    /// Whether it answers to GET.
    pub gets: bool,
    /// Whether it answers to atomic operations on 64 bits.
    pub atomics: bool,
    /// Whether each request has to be counted by [`Interface::count_direct`].
    pub counts: bool,
    /// The only user whose requests it takes, or [`EntryInit::UID_ANY`].
    pub uid: u32,
}

impl Terms {
    /// Whether they are those of a process of this user.
    pub const fn are_for(&self, uid: u32) -> bool {
        self.uid == EntryInit::UID_ANY || self.uid == uid
    }
}

impl Interface {
    /// What requests to a table entry may do without being looked at, if any: they mean a
    /// persistent entry of an interface without matching, of which the program is told no events.
    ///
    /// There are no terms where flow control may disable the table entry, where memory need not be
    /// there (the operation would take its connection along), and where the program counts on
    /// PTL_TOTAL_DATA_ORDERING, which no standard promises of two RDMA WRITEs.
    pub fn terms(&self, pt_index: u32) -> Option<Terms> {
        let is_ordered = self.limits.features.contains(Features::TOTAL_DATA_ORDERING);
        if self.kind.matching || is_ordered || self.limits.max_msg_size < LONGEST {
            return None;
        }
        let portal = self.portal(pt_index)?;
        if !portal.enabled || portal.options.contains(PtOptions::FLOWCTRL) {
            return None;
        }
        let key = portal.priority.find(&Identity::UNMATCHED, |_| true)?;
        let entry = self.objects.entries.get(key)?;
        let Region::Flat(piece) = &entry.region else {
            return None;
        };
        if self.may_fault(entry.options) {
            return None;
        }
        let limits = &self.limits;
        let atomics = limits.max_atomic_size.min(limits.max_fetch_atomic_size) >= ATOMIC_BYTES;
        let (puts, gets) = (
            entry.has(EntryOptions::OP_PUT),
            entry.has(EntryOptions::OP_GET),
        );
        is_silent(portal, entry).then_some(Terms {
            entry: self.entry_handle(key),
            start: piece.address,
            length: entry.length,
            puts,
            gets,
            atomics: puts && gets && atomics,
            counts: entry.has(EntryOptions::EVENT_CT_COMM) && entry.ct.is_some(),
            uid: entry.uid,
        })
    }

    /// A request that the entry's [`Terms`] allow has written so many bytes. An entry that is gone
    /// counts nothing.
    pub fn count_direct(&mut self, entry: Handle, length: u64) {
        let entry = self
            .entry_key(entry)
            .and_then(|key| self.objects.entries.get(key));
        let Some(entry) = entry.filter(|entry| entry.has(EntryOptions::EVENT_CT_COMM)) else {
            return;
        };
        let bytes = entry.has(EntryOptions::EVENT_CT_BYTES).then_some(length);
        let ct = entry.ct;
        self.counts.direct += 1;
        self.count(ct, NiFail::Ok, bytes);
        self.carry_out_fired();
    }
}

/// Whether an entry stays, and tells no event of a request that is carried out.
fn is_silent(portal: &PortalEntry, entry: &Entry) -> bool {
    let silent = portal.eq.is_none()
        || entry
            .options
            .intersects(EntryOptions::EVENT_COMM_DISABLE | EntryOptions::EVENT_SUCCESS_DISABLE);
    let linked = matches!(entry.state, EntryState::Linked(_)) && entry.list == List::Priority;
    linked && silent && !entry.has(EntryOptions::USE_ONCE)
}
