//! Appending, searching and unlinking entries.
//!
//! Owns: how an entry comes into a list, what it does to the unexpected headers that it meets, and
//! how it goes. Must not know: requests on their way. Data comes from PtlLEAppend and its like.

use crate::event::{Event, EventKind};
use crate::handles::{HandleKind, Key};
use crate::interface::Interface;
use crate::list::{Entry, EntryInit, EntryState};
use crate::matching::Criteria;
use crate::unexpected::{Finder, Header, HeaderOf};
use crate::{EntryOptions, Handle, List, NiFail, PtlError, SearchOp};

/// How many entries that were used up at their append are remembered.
const MOST_NEVER_LINKED: usize = 64;

impl Interface {
    /// PtlLEAppend and PtlMEAppend.
    ///
    /// To the priority list, unexpected headers that match are consumed first: each tells its
    /// *_OVERFLOW event, at once or when its data is there. An entry with USE_ONCE that met one is
    /// not linked and tells AUTO_UNLINK; every other entry is linked and tells LINK.
    ///
    /// # Errors
    /// PTL_ARG_INVALID for a table entry that is not allocated, an option that is not the entry's,
    /// a stale counter, too many pieces, or a match_id of the other kind of interface. PTL_NO_SPACE
    /// at max_entries or max_list_size: the header has PTL_LIST_TOO_LONG for the latter, the suites
    /// expect this.
    pub fn entry_append(
        &mut self,
        pt_index: u32,
        init: &EntryInit,
        list: List,
        user_ptr: u64,
    ) -> Result<Handle, PtlError> {
        let key = self.new_entry(pt_index, init, list, user_ptr)?;
        if let Err(error) = self.link(key) {
            self.discard_entry(key);
            return Err(error);
        }
        self.carry_out_fired();
        Ok(self.entry_handle(key))
    }

    /// PtlLESearch and PtlMESearch: the search of an append to the priority list, without linking.
    /// With USE_ONCE the first header is meant, else every one.
    ///
    /// [`SearchOp::Only`] tells SEARCH for each, [`SearchOp::Delete`] the *_OVERFLOW event; if
    /// there is none, SEARCH with PTL_NI_NO_MATCH. With EVENT_CT_OVERFLOW each is counted as a
    /// success; a failure is counted when none was found and, so that a program knows the end,
    /// always after a search without USE_ONCE (4.3; the suites' test_search_*_counter). Status
    /// registers stay.
    ///
    /// Open: whether a header whose data is under way is found by [`SearchOp::Only`]. It is,
    /// because it is in the list.
    ///
    /// # Errors
    /// Those of [`Interface::entry_append`] but for the limits.
    pub fn entry_search(
        &mut self,
        pt_index: u32,
        init: &EntryInit,
        op: SearchOp,
        user_ptr: u64,
    ) -> Result<(), PtlError> {
        let entry = self.checked_entry(pt_index, init, List::Priority, user_ptr)?;
        let eq = self.portal(pt_index).and_then(|portal| portal.eq);
        let finder = Finder {
            entry: None,
            options: entry.options,
            ct: entry.ct,
            user_ptr,
        };
        let (mut found, mut from) = (false, 0);
        while let Some(place) = self.find_header(pt_index, &entry, from) {
            found = true;
            from = place + 1;
            match op {
                SearchOp::Only => self.show_header(pt_index, place, &finder),
                SearchOp::Delete => self.consume_header(pt_index, place, finder),
            }
            if entry.has(EntryOptions::USE_ONCE) {
                break;
            }
        }
        if !found && !entry.has(EntryOptions::EVENT_COMM_DISABLE) {
            let none = Event::bare(EventKind::Search, pt_index, user_ptr);
            self.tell(
                eq,
                Event {
                    ni_fail: NiFail::NoMatch,
                    ..none
                },
            );
        }
        if entry.has(EntryOptions::EVENT_CT_OVERFLOW)
            && (!found || !entry.has(EntryOptions::USE_ONCE))
        {
            self.count(entry.ct, NiFail::NoMatch, None);
        }
        self.carry_out_fired();
        Ok(())
    }

    /// PtlLEUnlink and PtlMEUnlink.
    ///
    /// An entry that unexpected headers used up at its append (LOCAL_INC_UH_RLENGTH with min_free)
    /// was never linked; unlinking it succeeds once, as the suites expect
    /// (test_manage_local_and_inc_uh_rlength). Any other entry that left its list by itself is a
    /// stale handle.
    ///
    /// # Errors
    /// PTL_IN_USE while a request to the entry is under way, unexpected headers refer to its
    /// memory, or a triggered append has not fired. PTL_ARG_INVALID for an entry that is not there.
    pub fn entry_unlink(&mut self, entry: Handle) -> Result<(), PtlError> {
        let key = self.entry_key(entry).ok_or(PtlError::ArgInvalid)?;
        let Some(entry) = self.objects.entries.get(key) else {
            let at = self.never_linked.iter().position(|&other| other == key);
            return at
                .and_then(|at| self.never_linked.remove(at))
                .map(drop)
                .ok_or(PtlError::ArgInvalid);
        };
        match entry.state {
            EntryState::Waiting => Err(PtlError::InUse),
            _ if entry.pending > 0 => Err(PtlError::InUse),
            EntryState::Leaving | EntryState::Unlinked => Err(PtlError::ArgInvalid),
            EntryState::Linked(_) if entry.headers > 0 => Err(PtlError::InUse),
            EntryState::Linked(_) => {
                self.take_from_list(key, EntryState::Unlinked);
                self.discard_entry(key);
                Ok(())
            }
        }
    }

    /// A triggered unlink: out of the list at once, gone when nothing is under way.
    pub(crate) fn unlink_when_idle(&mut self, entry: Handle) {
        let Some(key) = self.entry_key(entry) else {
            return;
        };
        if self.take_from_list(key, EntryState::Unlinked) {
            self.settle(key);
        }
    }

    pub(crate) fn entry_kind(&self) -> HandleKind {
        if self.kind.matching {
            HandleKind::Me
        } else {
            HandleKind::Le
        }
    }

    pub(crate) fn entry_key(&self, entry: Handle) -> Option<Key> {
        entry.key(self.entry_kind(), self.kind.index())
    }

    pub(crate) fn entry_handle(&self, key: Key) -> Handle {
        Handle::new(self.entry_kind(), self.kind.index(), key)
    }

    /// Checks what the program gave. The entry is in no pool and no list yet.
    fn checked_entry(
        &self,
        pt_index: u32,
        init: &EntryInit,
        list: List,
        user_ptr: u64,
    ) -> Result<Entry, PtlError> {
        self.portal(pt_index).ok_or(PtlError::ArgInvalid)?;
        let matching = self.kind.matching;
        let legal = init.region.is_valid(self.limits.max_iovecs)
            && EntryOptions::all().contains(init.options)
            && (matching || !init.options.intersects(EntryOptions::ONLY_ME))
            && (!matching || init.match_id.is_logical() == self.kind.logical);
        if !legal {
            return Err(PtlError::ArgInvalid);
        }
        let criteria = if matching {
            Criteria {
                peer: init.match_id,
                bits: init.match_bits,
                ignore: init.ignore_bits,
            }
        } else {
            Criteria::UNMATCHED
        };
        Ok(Entry {
            state: EntryState::Waiting,
            list,
            pt_index,
            length: init.region.length(),
            region: init.region.clone(),
            ct: self.ct_key_or_none(init.ct)?,
            uid: init.uid,
            options: init.options,
            criteria,
            min_free: init.min_free,
            user_ptr,
            local_offset: 0,
            pending: 0,
            headers: 0,
            reserved: 0,
            owes_free: false,
        })
    }

    /// Makes an entry that is in no list.
    pub(crate) fn new_entry(
        &mut self,
        pt_index: u32,
        init: &EntryInit,
        list: List,
        user_ptr: u64,
    ) -> Result<Key, PtlError> {
        let entry = self.checked_entry(pt_index, init, list, user_ptr)?;
        self.objects.entries.insert(entry).ok_or(PtlError::NoSpace)
    }

    /// Puts a new entry into its list, after it has consumed what it matches of the unexpected
    /// headers.
    pub(crate) fn link(&mut self, key: Key) -> Result<(), PtlError> {
        let entry = self.objects.entries.get(key).ok_or(PtlError::ArgInvalid)?;
        let (pt_index, list) = (entry.pt_index, entry.list);
        let most = self.limits.max_list_size as usize;
        let portal = self.portal_mut(pt_index).ok_or(PtlError::ArgInvalid)?;
        if portal.list_mut(list).len() >= most {
            return Err(PtlError::NoSpace);
        }
        if list == List::Priority && self.meet_headers(key) {
            self.settle(key);
            return Ok(());
        }
        let Some(entry) = self.objects.entries.get_mut(key) else {
            return Ok(());
        };
        let (criteria, user_ptr, quiet) = (
            entry.criteria,
            entry.user_ptr,
            entry.has(EntryOptions::EVENT_LINK_DISABLE),
        );
        let Some(portal) = self.table[pt_index as usize].as_mut() else {
            return Ok(());
        };
        entry.state = EntryState::Linked(portal.list_mut(list).push(criteria, key));
        let eq = portal.eq;
        if !quiet {
            self.tell(
                eq,
                Event {
                    list,
                    ..Event::bare(EventKind::Link, pt_index, user_ptr)
                },
            );
        }
        Ok(())
    }

    /// Lets an entry consume the unexpected headers that it matches. Whether they have used it up,
    /// so that it is not linked.
    fn meet_headers(&mut self, key: Key) -> bool {
        let mut from = 0;
        while let Some(entry) = self.objects.entries.get(key)
            && let Some(place) = self.find_header(entry.pt_index, entry, from)
        {
            let pt_index = entry.pt_index;
            let finder = Finder {
                entry: Some(key),
                options: entry.options,
                ct: entry.ct,
                user_ptr: entry.user_ptr,
            };
            let rlength = self
                .portal(pt_index)
                .and_then(|portal| portal.unexpected.get(place))
                .map_or(0, |h| h.matched.arrival.length);
            let Some(entry) = self.objects.entries.get_mut(key) else {
                return true;
            };
            from = place + 1;
            let once = entry.has(EntryOptions::USE_ONCE);
            // PTL_ME_LOCAL_INC_UH_RLENGTH: min_free is looked at after every header.
            let moves =
                entry.has(EntryOptions::MANAGE_LOCAL | EntryOptions::LOCAL_INC_UH_RLENGTH) && !once;
            if moves {
                entry.local_offset = entry.local_offset.saturating_add(rlength);
            }
            let used_up = moves && entry.is_exhausted(entry.local_offset);
            if once || used_up {
                entry.state = EntryState::Leaving;
            }
            entry.pending += 1;
            if used_up {
                self.never_linked.push_back(key);
                if self.never_linked.len() > MOST_NEVER_LINKED {
                    self.never_linked.pop_front();
                }
            }
            self.consume_header(pt_index, place, finder);
            if once || used_up {
                return true;
            }
        }
        false
    }

    /// The first header at `from` or after that an entry matches, as a request would have matched
    /// it.
    fn find_header(&self, pt_index: u32, entry: &Entry, from: u64) -> Option<u64> {
        let fits = |header: &Header| {
            entry.fits(
                header.matched.arrival.remote_offset,
                header.matched.arrival.length,
            )
        };
        self.portal(pt_index)?
            .unexpected
            .find(&entry.criteria, from, fits)
    }

    /// PTL_SEARCH_ONLY has found a header.
    fn show_header(&mut self, pt_index: u32, place: u64, finder: &Finder) {
        let Some(portal) = self.portal(pt_index) else {
            return;
        };
        let Some(header) = portal.unexpected.get(place) else {
            return;
        };
        let (eq, matched) = (portal.eq, header.matched);
        if !finder
            .options
            .intersects(EntryOptions::EVENT_COMM_DISABLE | EntryOptions::EVENT_SUCCESS_DISABLE)
        {
            self.tell(
                eq,
                matched.event(EventKind::Search, finder.user_ptr, NiFail::Ok),
            );
        }
        self.count_overflow(finder, NiFail::Ok, matched.mlength);
    }

    /// Takes a header from its list. Its event is told now, or when its data is there.
    fn consume_header(&mut self, pt_index: u32, place: u64, finder: Finder) {
        let Some(header) = self
            .portal_mut(pt_index)
            .and_then(|portal| portal.unexpected.remove(place))
        else {
            return;
        };
        match header
            .hold
            .and_then(|hold| self.objects.holds.get_mut(hold))
        {
            Some(hold) => hold.header = HeaderOf::Met(Box::new((finder, header))),
            None => self.tell_met(finder, &header),
        }
    }

    /// Tells that a header was met: the overflow event, then AUTO_FREE of the overflow entry, then
    /// AUTO_UNLINK of the entry that met it.
    pub(crate) fn tell_met(&mut self, finder: Finder, header: &Header) {
        let quiet = finder.options.contains(EntryOptions::EVENT_OVER_DISABLE)
            || finder.options.contains(EntryOptions::EVENT_SUCCESS_DISABLE)
                && header.fail == NiFail::Ok;
        if !quiet {
            let eq = self
                .portal(header.matched.arrival.pt_index)
                .and_then(|portal| portal.eq);
            self.tell(eq, header.matched.overflow(finder.user_ptr, header.fail));
        }
        self.count_overflow(&finder, header.fail, header.matched.mlength);
        self.unexpected_headers -= 1;
        if let Some(entry) = self.objects.entries.get_mut(header.entry) {
            entry.headers -= 1;
            self.settle(header.entry);
        }
        if let Some(key) = finder.entry
            && let Some(entry) = self.objects.entries.get_mut(key)
        {
            entry.pending -= 1;
            self.settle(key);
        }
    }

    fn count_overflow(&mut self, finder: &Finder, fail: NiFail, mlength: u64) {
        if finder.options.contains(EntryOptions::EVENT_CT_OVERFLOW) {
            let bytes = finder
                .options
                .contains(EntryOptions::EVENT_CT_BYTES)
                .then_some(mlength);
            self.count(finder.ct, fail, bytes);
        }
    }

    /// Takes an entry out of its list, if it is in one. Whether it was.
    pub(crate) fn take_from_list(&mut self, key: Key, state: EntryState) -> bool {
        let Some(entry) = self.objects.entries.get_mut(key) else {
            return false;
        };
        let EntryState::Linked(place) = entry.state else {
            return false;
        };
        entry.state = state;
        let (criteria, list, pt_index) = (entry.criteria, entry.list, entry.pt_index);
        if let Some(portal) = self.portal_mut(pt_index) {
            portal.list_mut(list).remove(&criteria, place);
        }
        true
    }

    /// Goes on with an entry that is out of its list: AUTO_UNLINK when nothing of it is under way,
    /// AUTO_FREE when no header refers to it either; then it is gone.
    pub(crate) fn settle(&mut self, key: Key) {
        let Some(entry) = self.objects.entries.get_mut(key) else {
            return;
        };
        if entry.pending > 0 {
            return;
        }
        if entry.state == EntryState::Leaving {
            entry.state = EntryState::Unlinked;
            entry.owes_free = entry.list == List::Overflow;
            self.tell_end(key, EventKind::AutoUnlink);
        }
        let Some(entry) = self.objects.entries.get(key) else {
            return;
        };
        if entry.state != EntryState::Unlinked || entry.headers > 0 {
            return;
        }
        if entry.owes_free {
            self.tell_end(key, EventKind::AutoFree);
        }
        self.discard_entry(key);
    }

    fn tell_end(&mut self, key: Key, kind: EventKind) {
        let Some(entry) = self.objects.entries.get_mut(key) else {
            return;
        };
        if entry.has(EntryOptions::EVENT_UNLINK_DISABLE) {
            return;
        }
        let event = Event {
            list: entry.list,
            ..Event::bare(kind, entry.pt_index, entry.user_ptr)
        };
        let (pt_index, kept) = (entry.pt_index, entry.reserved > 0);
        entry.reserved = entry.reserved.saturating_sub(1);
        let eq = self.portal(pt_index).and_then(|portal| portal.eq);
        if kept {
            self.tell_reserved(eq, Some(event))
        } else {
            self.tell(eq, event)
        }
    }

    /// Removes an entry that is in no list and of which nothing is under way, and gives back the
    /// places kept for its events.
    pub(crate) fn discard_entry(&mut self, key: Key) {
        let Some(entry) = self.objects.entries.remove(key) else {
            return;
        };
        let eq = self.portal(entry.pt_index).and_then(|portal| portal.eq);
        (0..entry.reserved).for_each(|_| self.tell_reserved(eq, None));
    }
}
