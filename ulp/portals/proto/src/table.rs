//! Portal table entries.
//!
//! Owns: what a table entry consists of, and whether it lets requests in. Must not know: how
//! entries are matched. Data comes from PtlPTAlloc and its like, and from requests that found no
//! resource.

use crate::event::{Event, EventKind};
use crate::handles::Key;
use crate::interface::Interface;
use crate::matching::MatchList;
use crate::unexpected::Unexpected;
use crate::{EntryOptions, Handle, List, NiFail, PtlError};

bitflags::bitflags! {
    /// Options of table entries (PTL_PT_*). ONLY_USE_ONCE, ONLY_TRUNCATE and MATCH_UNORDERED are
    /// hints that change nothing here: lists are hashed where they can be, and in order.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct PtOptions: u32 {
        /// All entries will have USE_ONCE. A hint.
        const ONLY_USE_ONCE = 1;
        /// A request that finds no match, no header or no place for its events disables the table
        /// entry.
        const FLOWCTRL = 1 << 1;
        /// No entry of the priority list will have NO_TRUNCATE. A hint.
        const ONLY_TRUNCATE = 1 << 2;
        /// Entries need not match in order. A hint.
        const MATCH_UNORDERED = 1 << 3;
        /// Disabled from the beginning.
        const ALLOC_DISABLED = 1 << 4;
    }
}

/// A table entry in use.
#[derive(Debug)]
pub(crate) struct PortalEntry {
    pub options: PtOptions,
    pub eq: Option<Key>,
    pub enabled: bool,
    /// PT_DISABLED is told when no request is under way.
    pub owes_disabled: bool,
    /// Requests that were let in and are under way.
    pub active: u32,
    pub priority: MatchList<Key>,
    pub overflow: MatchList<Key>,
    pub unexpected: Unexpected,
}

impl PortalEntry {
    pub fn list_mut(&mut self, list: List) -> &mut MatchList<Key> {
        match list {
            List::Priority => &mut self.priority,
            List::Overflow => &mut self.overflow,
        }
    }
}

impl Interface {
    /// PtlPTAlloc: the entry at `wanted`, or the lowest free one.
    ///
    /// # Errors
    /// PTL_PT_EQ_NEEDED for flow control without an event queue, PTL_ARG_INVALID for a stale queue
    /// or an index past the limit, PTL_PT_IN_USE for a taken index, PTL_PT_FULL if none is free.
    pub fn pt_alloc(
        &mut self,
        options: PtOptions,
        eq: Handle,
        wanted: Option<u32>,
    ) -> Result<u32, PtlError> {
        let eq = self.eq_key_or_none(eq)?;
        if options.contains(PtOptions::FLOWCTRL) && eq.is_none() {
            return Err(PtlError::PtEqNeeded);
        }
        let index = match wanted {
            Some(index) if index > self.limits.max_pt_index => return Err(PtlError::ArgInvalid),
            Some(index) if self.table[index as usize].is_some() => return Err(PtlError::PtInUse),
            Some(index) => index as usize,
            None => self
                .table
                .iter()
                .position(Option::is_none)
                .ok_or(PtlError::PtFull)?,
        };
        self.table[index] = Some(PortalEntry {
            options,
            eq,
            enabled: !options.contains(PtOptions::ALLOC_DISABLED),
            owes_disabled: false,
            active: 0,
            priority: MatchList::default(),
            overflow: MatchList::default(),
            unexpected: Unexpected::default(),
        });
        Ok(index as u32)
    }

    /// PtlPTFree. Unexpected headers that nobody has met are given up, with the overflow entries
    /// that had left their list; nothing is told of them.
    ///
    /// # Errors
    /// PTL_PT_IN_USE while an entry is in a list or a request is under way, PTL_ARG_INVALID if the
    /// index is not allocated.
    pub fn pt_free(&mut self, index: u32) -> Result<(), PtlError> {
        let portal = self.portal_mut(index).ok_or(PtlError::ArgInvalid)?;
        if portal.priority.len() + portal.overflow.len() > 0 || portal.active > 0 {
            return Err(PtlError::PtInUse);
        }
        let given_up: Vec<_> = portal.unexpected.drain().collect();
        for header in given_up {
            self.unexpected_headers -= 1;
            if let Some(entry) = self.objects.entries.get_mut(header.entry) {
                entry.headers -= 1;
                if entry.headers == 0 {
                    self.discard_entry(header.entry);
                }
            }
        }
        self.table[index as usize] = None;
        Ok(())
    }

    /// PtlPTEnable: lets requests in. A PT_DISABLED event that is still due is not told any more.
    ///
    /// # Errors
    /// PTL_ARG_INVALID if the index is not allocated.
    pub fn pt_enable(&mut self, index: u32) -> Result<(), PtlError> {
        let portal = self.portal_mut(index).ok_or(PtlError::ArgInvalid)?;
        portal.enabled = true;
        portal.owes_disabled = false;
        Ok(())
    }

    /// PtlPTDisable: lets no more requests in. The C call returns when [`Interface::pt_is_quiet`]
    /// holds; it generates no event.
    ///
    /// # Errors
    /// PTL_ARG_INVALID if the index is not allocated.
    pub fn pt_disable(&mut self, index: u32) -> Result<(), PtlError> {
        self.portal_mut(index).ok_or(PtlError::ArgInvalid)?.enabled = false;
        Ok(())
    }

    /// Whether no request to a table entry is under way.
    ///
    /// # Errors
    /// PTL_ARG_INVALID if the index is not allocated.
    pub fn pt_is_quiet(&self, index: u32) -> Result<bool, PtlError> {
        Ok(self.portal(index).ok_or(PtlError::ArgInvalid)?.active == 0)
    }

    pub(crate) fn portal(&self, index: u32) -> Option<&PortalEntry> {
        self.table.get(index as usize)?.as_ref()
    }

    pub(crate) fn portal_mut(&mut self, index: u32) -> Option<&mut PortalEntry> {
        self.table.get_mut(index as usize)?.as_mut()
    }

    /// A request found no resource: with flow control the table entry is disabled. `options` are
    /// those of the entry that it matched.
    #[cold]
    pub(crate) fn exhausted(&mut self, index: u32, options: EntryOptions) -> NiFail {
        let Some(portal) = self
            .portal_mut(index)
            .filter(|portal| portal.options.contains(PtOptions::FLOWCTRL))
        else {
            return NiFail::Dropped;
        };
        portal.enabled = false;
        portal.owes_disabled = !options.contains(EntryOptions::EVENT_FLOWCTRL_DISABLE);
        self.counts.disabled += 1;
        self.tell_disabled(index);
        NiFail::PtDisabled
    }

    /// Tells PT_DISABLED if it is due and the last request of the table entry has ended: no event
    /// of one follows it.
    pub(crate) fn tell_disabled(&mut self, index: u32) {
        let Some(portal) = self
            .portal_mut(index)
            .filter(|portal| portal.owes_disabled && portal.active == 0)
        else {
            return;
        };
        portal.owes_disabled = false;
        let eq = portal.eq;
        let event = Event {
            ni_fail: NiFail::PtDisabled,
            ..Event::bare(EventKind::PtDisabled, index, 0)
        };
        if let Some(queue) = eq.and_then(|eq| self.objects.eqs.get_mut(eq)) {
            queue.push_disabled(event);
            self.news.events = true;
        }
    }
}
