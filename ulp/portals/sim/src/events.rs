//! What must hold of each event that a program takes, with the faults that are planted on the way.
//!
//! Owns: laws 1, 6, 8, 9 and 10 as far as events tell. Must not know: why an event is due.

use crate::memory::cut;
use crate::process::{Due, Name, Op, Stage};
use crate::world::World;
use crate::{Law, Plant};
use ferriband_portals_proto::{Event, EventKind, NiFail, Peer, PtlError};

/// What an event's value names.
const fn name_of(user_ptr: u64) -> Name {
    let number = (user_ptr & 0xffff_ffff) as usize;
    match user_ptr >> 32 {
        0 => Name::Op(number),
        1 => Name::Entry(number),
        _ => Name::Search(number),
    }
}

const fn is_completion(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::Put | EventKind::Get | EventKind::Atomic | EventKind::FetchAtomic
    )
}

impl World {
    /// The program takes events of one queue: all that are there, or one.
    pub(crate) fn take_events(&mut self, me: usize, ni: usize, all: bool) {
        let eq = self.rng.index(self.processes[me].ni(ni).queues.len());
        let most = if all { usize::MAX } else { 1 };
        self.take_of(me, ni, eq, most);
    }

    /// Takes events of a queue. Law 10: there are no more than were asked for.
    pub(crate) fn take_of(&mut self, me: usize, ni: usize, eq: usize, most: usize) {
        for taken in 0..most {
            let Some(event) = self.take_one(me, ni, eq) else {
                return self.is_empty(me, ni, eq);
            };
            let state = self.processes[me].ni(ni);
            let queue = &state.queues[eq];
            if taken >= queue.capacity + state.tables.len() {
                let what = format!(
                    "p{me}: queue {eq} of {ni} has held {taken} events, {} may",
                    queue.capacity
                );
                return self.fail(Law::Bound, what);
            }
            for event in self.with_next(me, ni, eq, event) {
                self.stats.events += 1;
                self.note(|_| {
                    let Event {
                        kind,
                        ni_fail,
                        user_ptr,
                        hdr_data,
                        mlength,
                        ..
                    } = event;
                    format!(
                        "p{me} takes {kind:?} {ni_fail:?} of {:?}, {hdr_data}, {mlength} bytes",
                        name_of(user_ptr)
                    )
                });
                self.taken(me, ni, eq, &event);
            }
            if self.violation.is_some() {
                return;
            }
        }
    }

    fn take_one(&mut self, me: usize, ni: usize, eq: usize) -> Option<Event> {
        let handle = self.processes[me].ni(ni).queues[eq].handle;
        match self.interface(me, ni).eq_get(handle) {
            Ok(taken) => {
                self.processes[me].ni_mut(ni).queues[eq].dropped |= taken.dropped;
                Some(taken.event)
            }
            Err(PtlError::EqEmpty) => None,
            Err(why) => {
                self.fail(Law::Breach, format!("p{me}: eq_get says {why}"));
                None
            }
        }
    }

    /// The event, or what a planted fault makes of it.
    fn with_next(&mut self, me: usize, ni: usize, eq: usize, event: Event) -> Vec<Event> {
        let doubled = match event.kind {
            EventKind::PtDisabled => self.strikes(Plant::DisabledTwice, 1),
            EventKind::Send | EventKind::Ack | EventKind::Reply | EventKind::Link => {
                self.strikes(Plant::EventTwice, 3)
            }
            _ => false,
        };
        if doubled {
            return vec![event, event];
        }
        let swapped = match self.plant {
            Some(Plant::UnlinkBeforePut) if is_completion(event.kind) => EventKind::AutoUnlink,
            Some(Plant::FreeBeforeUnlink) if event.kind == EventKind::AutoUnlink => {
                EventKind::AutoFree
            }
            _ => return vec![event],
        };
        match self.take_one(me, ni, eq) {
            Some(next) if next.kind == swapped && next.user_ptr == event.user_ptr => {
                vec![next, event]
            }
            Some(next) => vec![event, next],
            None => vec![event],
        }
    }

    /// A queue was seen to be empty: what may come without anything new.
    fn is_empty(&mut self, me: usize, ni: usize, eq: usize) {
        let state = self.processes[me].ni_mut(ni);
        let tables = state
            .tables
            .iter()
            .enumerate()
            .filter(|(_, table)| table.eq == Some(eq));
        let mut told = 0;
        for (pt, table) in tables {
            told += 4 * table.active as usize;
            let ending = |stage| matches!(stage, Stage::Leaving | Stage::Left);
            let entries = state
                .entries
                .iter()
                .filter(|entry| entry.pt == pt && ending(entry.stage));
            told += 2 * entries.count();
        }
        state.queues[eq].told = told;
    }

    fn taken(&mut self, me: usize, ni: usize, eq: usize, event: &Event) {
        match (event.kind, name_of(event.user_ptr)) {
            (kind, Name::Entry(entry)) if is_completion(kind) => {
                self.taken_completion(me, ni, entry, event)
            }
            (EventKind::Send | EventKind::Ack | EventKind::Reply, Name::Op(op)) => {
                self.taken_own(me, op, event)
            }
            (EventKind::Link, Name::Entry(entry)) => {
                let due = self.processes[me].ni_mut(ni).entries[entry].link.take();
                if due.is_none() {
                    self.fail(
                        Law::Once,
                        format!("p{me}: LINK of {entry} of {ni} is not due"),
                    );
                }
            }
            (EventKind::AutoUnlink | EventKind::AutoFree, Name::Entry(entry)) => {
                self.taken_end(me, ni, eq, entry, event)
            }
            (EventKind::Search, Name::Search(search)) => self.taken_search(me, ni, search, event),
            (EventKind::PtDisabled, _) => {
                let tables = &mut self.processes[me].ni_mut(ni).tables;
                let table = tables
                    .iter_mut()
                    .find(|table| table.index == event.pt_index);
                let due = table.is_some_and(|table| std::mem::take(&mut table.disabled));
                if !due || event.ni_fail != NiFail::PtDisabled {
                    let what = format!("p{me}: PT_DISABLED of {ni}/{} is not due", event.pt_index);
                    self.fail(Law::Disabled, what);
                }
            }
            (
                EventKind::PutOverflow
                | EventKind::GetOverflow
                | EventKind::AtomicOverflow
                | EventKind::FetchAtomicOverflow,
                finder,
            ) => self.taken_overflow(me, finder, event),
            (kind, name) => self.fail(Law::Fate, format!("p{me}: {kind:?} of {name:?}")),
        }
    }

    /// Law 1: the event at the target says what became of the request.
    fn taken_completion(&mut self, me: usize, ni: usize, entry: usize, event: &Event) {
        let number = event.hdr_data as usize;
        let Some(op) = self.ops.get_mut(number) else {
            return self.fail(
                Law::Fate,
                format!("p{me}: an event of no request, {number}"),
            );
        };
        let due = op.completion.take();
        let again = due.is_none() && op.completion.taken;
        let entries = &mut self.processes[me].ni_mut(ni).entries;
        entries[entry].untaken = entries[entry].untaken.saturating_sub(1);
        if due != Some(event.ni_fail) {
            let law = if again { Law::Once } else { Law::Fate };
            let what = format!(
                "p{me}: {:?} of {number} says {:?}, due is {due:?}",
                event.kind, event.ni_fail
            );
            return self.fail(law, what);
        }
        self.check_target_event(me, number, event, Name::Entry(entry));
    }

    /// Law 1: what an event at the target says of a request.
    fn check_target_event(&mut self, me: usize, number: usize, event: &Event, due: Name) {
        let op = &self.ops[number];
        let Some(Ok(grant)) = op.fate.admitted else {
            return self.fail(
                Law::Fate,
                format!("p{me}: an event of {number}, which was not let in"),
            );
        };
        let state = self.processes[me].ni(op.ni);
        let start = cut(
            &state.entries[grant.entry].pieces,
            grant.offset,
            grant.length,
        );
        let start = start.first().map_or(event.start, |piece| piece.address);
        let initiator = match state.kind.logical {
            true => Peer::Rank(op.me as u32),
            false => Peer::Physical(crate::process::id_of(op.me)),
        };
        let says = (
            event.rlength,
            event.mlength,
            event.remote_offset,
            event.match_bits,
            event.list,
        );
        let is = (op.length, grant.length, op.offset, op.bits, grant.list);
        let who = (event.initiator, event.uid, event.start, event.atomic);
        let by = (initiator, self.processes[op.me].uid, start, op.atomic);
        let named = event.user_ptr == due.user_ptr() && event.pt_index as usize == op.pt;
        let whole =
            matches!(due, Name::Entry(entry) if entry != grant.entry && is_completion(event.kind));
        if says != is || who != by || !named || whole {
            let what = format!("p{me}: {event:?} of {number}, due is {is:?} {by:?} of {due:?}");
            self.fail(Law::Fate, what);
        }
    }

    /// Law 1: who has met an unexpected header hears what became of the request.
    fn taken_overflow(&mut self, me: usize, finder: Name, event: &Event) {
        let number = event.hdr_data as usize;
        let Some(op) = self.ops.get_mut(number) else {
            return self.fail(
                Law::Fate,
                format!("p{me}: a header of no request, {number}"),
            );
        };
        let due = op.overflow.take();
        let met = op.fate.met.map(|met| met.name);
        if due != Some(event.ni_fail) || met != Some(finder) {
            let what = format!(
                "p{me}: {finder:?} has met {number}, {:?}; due is {due:?} of {met:?}",
                event.ni_fail
            );
            return self.fail(Law::Fate, what);
        }
        self.check_target_event(me, number, event, finder);
    }

    /// Law 6: an entry's end is told once, behind its requests.
    fn taken_end(&mut self, me: usize, ni: usize, eq: usize, number: usize, event: &Event) {
        let state = self.processes[me].ni_mut(ni);
        let dropped = state.queues[eq].dropped;
        let entry = &mut state.entries[number];
        let (untaken, headers, unlink) = (entry.untaken, entry.headers, entry.unlink.due);
        let (due, early) = match event.kind {
            EventKind::AutoUnlink => (entry.unlink.take(), untaken > 0),
            _ => (
                entry.free.take(),
                untaken > 0 || unlink.is_some() || headers > 0,
            ),
        };
        if due.is_none() || early && !dropped {
            let what = format!(
                "p{me}: {:?} of {number} of {ni}, due: {}, {untaken} of its requests are untold, {headers} headers",
                event.kind,
                due.is_some()
            );
            self.fail(Law::End, what);
        }
    }

    fn taken_search(&mut self, me: usize, ni: usize, number: usize, event: &Event) {
        let search = &mut self.processes[me].ni_mut(ni).searches[number];
        let due = match event.ni_fail {
            NiFail::NoMatch => std::mem::take(&mut search.none),
            NiFail::Ok => {
                let due = search.found > 0;
                search.found = search.found.saturating_sub(1);
                due
            }
            _ => false,
        };
        if !due {
            let what = format!(
                "p{me}: SEARCH of {number} of {ni} says {:?}, which is not due",
                event.ni_fail
            );
            self.fail(Law::Once, what);
        }
    }

    /// Laws 1 and 9: an event at the initiator says what became of the operation.
    fn taken_own(&mut self, me: usize, number: usize, event: &Event) {
        let Some(op) = self.ops.get_mut(number).filter(|op| op.me == me) else {
            return self.fail(
                Law::Fate,
                format!("p{me}: an event of no operation, {number}"),
            );
        };
        let (length, put) = (op.length, op.put);
        let law_of = |taken: bool| if taken { Law::Once } else { Law::Fate };
        if event.kind == EventKind::Send {
            let taken = op.send.taken;
            let due = op.send.take();
            if due != Some(event.ni_fail) || event.mlength != length {
                let what = format!(
                    "p{me}: SEND of {number} says {:?}, due is {due:?}",
                    event.ni_fail
                );
                return self.fail(law_of(taken && due.is_none()), what);
            }
            // the buffer is the program's again
            if let Some(put) = put.filter(|put| put.bound) {
                self.scribble(me, put.slot);
            }
            return;
        }
        let is_reply = op.get.is_some();
        let taken = op.answer.taken;
        let due = op.answer.take();
        let says = due.is_some_and(|due| {
            (due.fail, due.length, due.offset, due.list)
                == (
                    event.ni_fail,
                    event.mlength,
                    event.remote_offset,
                    event.list,
                )
        });
        if !says || is_reply != (event.kind == EventKind::Reply) || event.rlength != length {
            let what = format!("p{me}: {event:?} of {number}, due is {due:?}");
            self.fail(law_of(taken && due.is_none()), what);
        }
    }
}

/// Events of an operation that were told and not taken.
pub(crate) fn untaken_of(op: &Op) -> [(&'static str, bool); 2] {
    const fn waits<T>(due: &Due<T>) -> bool {
        due.due.is_some()
    }
    [
        ("SEND", waits(&op.send)),
        ("ACK or REPLY", waits(&op.answer)),
    ]
}
