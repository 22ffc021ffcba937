//! Requests at their target: from arrival to the last of their events.
//!
//! Owns: what happens to a request, in which order. Must not know: how its data is moved. Data
//! comes from a transport.

use crate::handles::Key;
use crate::interface::{Interface, StatusRegister};
use crate::list::{EntryState, Plan};
use crate::table::PtOptions;
use crate::unexpected::{Header, HeaderOf, Matched};
use crate::{
    Admission, Arrival, Delivery, EntryOptions, Features, Grant, HoldId, List, NiFail, is_legal,
};

/// A request that was let in and whose data is under way.
#[derive(Debug)]
pub(crate) struct Hold {
    /// The entry that took it.
    entry: Key,
    matched: Matched,
    /// Whether a place in the event queue is kept for its completion.
    reserved: bool,
    pub header: HeaderOf,
}

impl Interface {
    /// A request has arrived: matches it, checks permission, settles offset and length, takes the
    /// entry from its list if this was its last, and leaves an unexpected header. Requests of one
    /// initiator to one table entry must arrive here in the order in which they were issued.
    pub fn arrive(&mut self, arrival: &Arrival) -> Admission {
        match self.admit(arrival) {
            Ok(grant) => {
                *match grant.list {
                    List::Priority => &mut self.counts.priority,
                    List::Overflow => &mut self.counts.overflow,
                } += 1;
                Admission::Granted(grant)
            }
            Err(fail) => {
                let register = match fail {
                    NiFail::PermViolation => StatusRegister::PermissionViolations,
                    NiFail::OpViolation => StatusRegister::OperationViolations,
                    _ => StatusRegister::DropCount,
                };
                self.status[register as usize] += 1;
                Admission::Refused(fail)
            }
        }
    }

    fn admit(&mut self, arrival: &Arrival) -> Result<Grant, NiFail> {
        if arrival.ni != self.kind {
            return Err(NiFail::Dropped);
        }
        let portal = self.portal(arrival.pt_index).ok_or(NiFail::Dropped)?;
        if !portal.enabled {
            return Err(NiFail::PtDisabled);
        }
        if !is_legal(arrival.op, arrival.atomic, arrival.length) {
            return Err(NiFail::OpViolation);
        }
        let id = self.identity(arrival);
        let entries = &self.objects.entries;
        let fits = |key| {
            entries
                .get(key)
                .is_some_and(|entry| entry.fits(arrival.remote_offset, arrival.length))
        };
        let found = portal
            .priority
            .find(&id, fits)
            .or_else(|| portal.overflow.find(&id, fits));
        let Some((key, entry)) = found.and_then(|key| Some((key, entries.get(key)?))) else {
            return Err(self.exhausted(arrival.pt_index, EntryOptions::empty()));
        };
        // A request that fails here is dropped: it does not go on to another entry (ptl_le_t, uid).
        entry.permits(arrival)?;
        let plan = entry.plan(arrival, &self.limits);
        let matched = Matched {
            arrival: *arrival,
            peer: self.peer(arrival),
            list: entry.list,
            start: entry.region.address(plan.offset),
            mlength: plan.mlength,
        };
        let pieces = entry.region.cut(plan.offset, plan.mlength);
        let options = entry.options;
        let Some(hold) = self.take(key, &plan, matched) else {
            return Err(self.exhausted(arrival.pt_index, options));
        };
        Ok(Grant {
            hold: HoldId(hold),
            length: plan.mlength,
            offset: plan.offset,
            list: matched.list,
            pieces,
            may_fault: self.may_fault(options),
        })
    }

    /// Whether memory of an entry with these options need not be there.
    pub(crate) fn may_fault(&self, options: EntryOptions) -> bool {
        let may_bind = self.limits.features.contains(Features::BIND_INACCESSIBLE);
        may_bind && !options.contains(EntryOptions::IS_ACCESSIBLE)
    }

    /// Takes what a request needs beside its entry, and changes the entry; nothing is changed if
    /// something is missing.
    fn take(&mut self, key: Key, plan: &Plan, matched: Matched) -> Option<Key> {
        let id = self.identity(&matched.arrival);
        let pt_index = matched.arrival.pt_index;
        let entry = self.objects.entries.get_mut(key)?;
        let portal = self.table.get_mut(pt_index as usize)?.as_mut()?;
        let leaves_header =
            entry.list == List::Overflow && !entry.has(EntryOptions::UNEXPECTED_HDR_DISABLE);
        if self.objects.holds.is_full()
            || leaves_header && self.unexpected_headers >= self.limits.max_unexpected_headers
        {
            return None;
        }
        let completion = !entry.has(EntryOptions::EVENT_COMM_DISABLE);
        let ends = if plan.unlinks { entry.end_events() } else { 0 };
        let queue = portal.eq.and_then(|eq| self.objects.eqs.get_mut(eq));
        let queue = queue.filter(|_| portal.options.contains(PtOptions::FLOWCTRL));
        let controlled = queue.is_some();
        if queue.is_some_and(|queue| !queue.reserve(usize::from(completion) + usize::from(ends))) {
            return None;
        }
        let reserved = controlled && completion;
        let hold = self.objects.holds.insert(Hold {
            entry: key,
            matched,
            reserved,
            header: HeaderOf::None,
        })?;
        portal.active += 1;
        entry.pending += 1;
        if controlled {
            entry.reserved += ends;
        }
        if entry.has(EntryOptions::MANAGE_LOCAL) {
            entry.local_offset = entry.local_offset.saturating_add(plan.mlength);
        }
        if leaves_header {
            entry.headers += 1;
            self.unexpected_headers += 1;
            let place = portal.unexpected.push(
                id,
                Header {
                    matched,
                    entry: key,
                    hold: Some(hold),
                    fail: NiFail::Ok,
                },
            );
            if let Some(hold) = self.objects.holds.get_mut(hold) {
                hold.header = HeaderOf::Listed(place);
            }
        }
        if plan.unlinks {
            self.take_from_list(key, EntryState::Leaving);
        }
        Some(hold)
    }

    /// The data of a request is placed, read or computed, or that failed: its memory is not touched
    /// any more. Tells and counts its completion, then what waited for it. The answer to the
    /// initiator is [`Grant::answer`] with the same outcome. A name that is not under way is
    /// ignored.
    pub fn delivered(&mut self, hold: HoldId, outcome: Delivery) {
        let Some(hold) = self.objects.holds.remove(hold.0) else {
            return;
        };
        let fail = outcome.fail();
        let pt_index = hold.matched.arrival.pt_index;
        self.complete(&hold, fail);
        if let HeaderOf::Listed(place) = hold.header
            && let Some(header) = self
                .portal_mut(pt_index)
                .and_then(|portal| portal.unexpected.get_mut(place))
        {
            header.hold = None;
            header.fail = fail;
        }
        if let Some(entry) = self.objects.entries.get_mut(hold.entry) {
            entry.pending -= 1;
            self.settle(hold.entry);
        }
        if let HeaderOf::Met(met) = hold.header {
            let (finder, mut header) = *met;
            header.fail = fail;
            self.tell_met(finder, &header);
        }
        if let Some(portal) = self.portal_mut(pt_index) {
            portal.active -= 1;
        }
        self.tell_disabled(pt_index);
        self.carry_out_fired();
    }

    /// The completion event of a request, and its count.
    ///
    /// Open: whether a failure counts where EVENT_SUCCESS_DISABLE is set. It does: counting has
    /// options of its own.
    fn complete(&mut self, hold: &Hold, fail: NiFail) {
        let Some(entry) = self.objects.entries.get(hold.entry) else {
            return;
        };
        let options = entry.options;
        let eq = self
            .portal(hold.matched.arrival.pt_index)
            .and_then(|portal| portal.eq);
        let quiet = options.contains(EntryOptions::EVENT_COMM_DISABLE)
            || options.contains(EntryOptions::EVENT_SUCCESS_DISABLE) && fail == NiFail::Ok;
        let (user_ptr, ct) = (entry.user_ptr, entry.ct);
        let event = (!quiet).then(|| hold.matched.completion(user_ptr, fail));
        match event {
            event if hold.reserved => self.tell_reserved(eq, event),
            Some(event) => self.tell(eq, event),
            None => {}
        }
        if options.contains(EntryOptions::EVENT_CT_COMM) {
            let bytes = options
                .contains(EntryOptions::EVENT_CT_BYTES)
                .then_some(hold.matched.mlength);
            self.count(ct, fail, bytes);
        }
    }
}
