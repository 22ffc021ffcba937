//! A plain model of a target: its lists are vectors that are walked from the head.
//!
//! Owns: which entry takes a request, what that leaves, who meets an unexpected header, and when an
//! entry ends. Must not know: connections. Data comes from what programs have done and from what
//! the machines let in.

use crate::process::{Entry, Finder, Grant, Name, Ni, Op, Stage, Table};
use crate::world::World;
use crate::{Law, Plant};
use ferriband_portals_proto::{EntryOptions, List, NiFail, PtOptions};
use ferriband_putget_proto::{Granted, Status};

/// The status that a refusal travels as.
pub(crate) const fn status_of(fail: NiFail) -> Status {
    match fail {
        NiFail::Ok => Status::Ok,
        NiFail::PtDisabled => Status::Disabled,
        NiFail::PermViolation => Status::NotPermitted,
        NiFail::OpViolation => Status::NotAllowed,
        NiFail::Segv => Status::Fault,
        NiFail::Undeliverable => Status::Undeliverable,
        NiFail::Dropped | NiFail::NoMatch => Status::NoMemory,
    }
}

/// What an initiator hears for a status.
pub(crate) const fn fail_of(status: Status) -> NiFail {
    match status {
        Status::Ok => NiFail::Ok,
        Status::Disabled => NiFail::PtDisabled,
        Status::NotPermitted => NiFail::PermViolation,
        Status::NotAllowed => NiFail::OpViolation,
        Status::Fault => NiFail::Segv,
        Status::Undeliverable => NiFail::Undeliverable,
        _ => NiFail::Dropped,
    }
}

/// What has to become of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expected {
    Granted(Grant),
    Refused(NiFail),
    /// Nothing takes it, or a resource is missing: with flow control this disables.
    Exhausted,
}

/// Whether an entry takes a request of a process, as far as lists are concerned.
fn matches(entry: &Entry, matching: bool, op: &Op) -> bool {
    let who = entry.peer.is_none_or(|peer| peer == op.me);
    let bits = (entry.bits | entry.ignore) == (op.bits | entry.ignore);
    let offset = match entry.has(EntryOptions::MANAGE_LOCAL) {
        true => entry.local_offset,
        false => op.offset,
    };
    let fits = offset + op.length <= entry.length;
    (!matching || who && bits) && (fits || !entry.has(EntryOptions::NO_TRUNCATE))
}

/// What an entry that takes a request grants, and whether it leaves its list.
fn plan(number: usize, entry: &Entry, op: &Op) -> (Grant, bool) {
    let manages = entry.has(EntryOptions::MANAGE_LOCAL);
    let offset = if manages {
        entry.local_offset
    } else {
        op.offset
    };
    let mut length = op.length.min(entry.length.saturating_sub(offset));
    if let Some((_, datatype)) = op.atomic {
        length -= length % datatype.size_bytes();
    }
    let rest = entry.length.saturating_sub(entry.local_offset + length);
    let used_up = manages && rest < entry.min_free;
    let grant = Grant {
        entry: number,
        offset,
        length,
        list: entry.list,
    };
    (grant, used_up || entry.has(EntryOptions::USE_ONCE))
}

/// Whether an entry lets the initiator do it.
fn permits(entry: &Entry, uid: u32, op: &Op) -> Option<NiFail> {
    let (writes, reads) = (op.put.is_some(), op.get.is_some());
    if entry.uid.is_some_and(|only| only != uid) {
        return Some(NiFail::PermViolation);
    }
    let puts = !writes || entry.has(EntryOptions::OP_PUT);
    let gets = !reads || entry.has(EntryOptions::OP_GET);
    (!puts || !gets).then_some(NiFail::OpViolation)
}

/// Whether a request that an entry takes leaves an unexpected header.
const fn leaves_header(entry: &Entry) -> bool {
    matches!(entry.list, List::Overflow) && !entry.has(EntryOptions::UNEXPECTED_HDR_DISABLE)
}

/// Which law is broken where this was due and that was found.
const fn law_of(due: Expected, found: Result<(u64, u64, u32), Status>) -> Law {
    match (due, found) {
        (Expected::Refused(NiFail::PtDisabled), Ok(_)) | (_, Err(Status::Disabled)) => {
            Law::Disabled
        }
        (Expected::Refused(_), _) | (Expected::Exhausted, Err(_)) => Law::Fate,
        (Expected::Granted(_), _) | (Expected::Exhausted, Ok(_)) => Law::Order,
    }
}

impl World {
    /// What has to become of a request that arrives.
    pub(crate) fn expect(&self, op: usize) -> Expected {
        self.expect_of(op, |table| table.enabled)
    }

    /// What would become of an operation by a lease if it were a request: until PtlPTDisable
    /// returns, it may come.
    pub(crate) fn expect_direct(&self, op: usize) -> Expected {
        self.expect_of(op, Table::lets_in)
    }

    fn expect_of(&self, op: usize, lets_in: impl Fn(&Table) -> bool) -> Expected {
        let op = &self.ops[op];
        let Some(ni) = &self.processes[op.target].nis[op.ni] else {
            return Expected::Refused(NiFail::Dropped);
        };
        let Some(table) = ni.tables.get(op.pt) else {
            return Expected::Refused(NiFail::Dropped);
        };
        if !lets_in(table) {
            return Expected::Refused(NiFail::PtDisabled);
        }
        let mut lists = table.priority.iter().chain(&table.overflow);
        let found = lists.find(|entry| matches(&ni.entries[**entry], ni.kind.matching, op));
        let Some(&number) = found else {
            return Expected::Exhausted;
        };
        let entry = &ni.entries[number];
        if let Some(fail) = permits(entry, self.processes[op.me].uid, op) {
            return Expected::Refused(fail);
        }
        if leaves_header(entry) && ni.headers >= ni.most_headers {
            return Expected::Exhausted;
        }
        Expected::Granted(plan(number, entry, op).0)
    }

    /// A request was let in or refused. Laws 1, 2 and 8.
    pub(crate) fn admitted<H>(
        &mut self,
        op: usize,
        due: Expected,
        is: &Result<Granted<H>, Status>,
    ) {
        let known = &self.ops[op];
        let (me, initiator, ni, pt) = (known.target, known.me, known.ni, known.pt);
        let found = is
            .as_ref()
            .map(|is| (is.length, is.offset, is.tag))
            .map_err(|why| *why);
        self.note(|_| {
            format!("p{me} lets {op} of p{initiator} in at {ni}/{pt}: {found:?}, due {due:?}")
        });
        if self.ops[op].fate.admitted.is_some() {
            self.fail(
                Law::Fate,
                format!("p{me} lets {op} of p{initiator} in twice"),
            );
            return;
        }
        let controlled = self.processes[me].nis[ni]
            .as_ref()
            .and_then(|ni| ni.tables.get(pt));
        let controlled =
            controlled.is_some_and(|table| table.options.contains(PtOptions::FLOWCTRL));
        let fate = match (due, found) {
            (Expected::Granted(grant), Ok(is))
                if is == (grant.length, grant.offset, grant.list as u32) =>
            {
                Ok(grant)
            }
            (Expected::Refused(fail), Err(is)) if is == status_of(fail) => Err(is),
            (Expected::Exhausted, Err(Status::NoMemory)) if !controlled => Err(Status::NoMemory),
            (Expected::Exhausted, Err(Status::Disabled)) if controlled => Err(Status::Disabled),
            (Expected::Granted(grant), Err(Status::Disabled))
                if controlled && self.is_full(me, ni, pt) =>
            {
                self.stats.rings_full += 1;
                let quiet = self.processes[me].ni(ni).entries[grant.entry]
                    .has(EntryOptions::EVENT_FLOWCTRL_DISABLE);
                self.exhaust(me, ni, pt, quiet);
                self.ops[op].fate.admitted = Some(Err(Status::Disabled));
                return;
            }
            _ => {
                let what = format!(
                    "p{me}: {op} of p{initiator} at {ni}/{pt} gets {found:?}, due is {due:?}"
                );
                self.fail(law_of(due, found), what);
                return;
            }
        };
        self.ops[op].fate.admitted = Some(fate);
        match fate {
            Ok(grant) => self.let_in(op, grant),
            Err(_) => {
                self.stats.refused += 1;
                if due == Expected::Exhausted && controlled {
                    self.exhaust_unmatched(op);
                }
            }
        }
    }

    pub(crate) fn let_in(&mut self, op: usize, grant: Grant) {
        let known = &self.ops[op];
        let (me, pt) = (known.target, known.pt);
        let ni = self.processes[me].nis[known.ni]
            .as_mut()
            .expect("it has let it in");
        let entry = &mut ni.entries[grant.entry];
        let (_, unlinks) = plan(grant.entry, entry, known);
        entry.pending += 1;
        if entry.has(EntryOptions::MANAGE_LOCAL) {
            entry.local_offset += grant.length;
        }
        let listed = leaves_header(entry);
        let table = &mut ni.tables[pt];
        table.active += 1;
        if listed {
            entry.headers += 1;
            ni.headers += 1;
            table.headers.push(op);
            self.stats.headers += 1;
        }
        if unlinks {
            entry.stage = Stage::Leaving;
            table.priority.retain(|other| *other != grant.entry);
            table.overflow.retain(|other| *other != grant.entry);
        }
        if let Some(eq) = table.eq {
            ni.queues[eq].told += 4;
        }
        self.ops[op].fate.listed = listed;
        self.stats.admitted += 1;
        self.stats.cut += u64::from(grant.length < self.ops[op].length);
    }

    /// A request found nothing, or no header, where there is flow control.
    fn exhaust_unmatched(&mut self, op: usize) {
        let known = &self.ops[op];
        let (me, ni, pt) = (known.target, known.ni, known.pt);
        let state = self.processes[me].ni(ni);
        let table = &state.tables[pt];
        let mut lists = table.priority.iter().chain(&table.overflow);
        let found =
            lists.find(|entry| matches(&state.entries[**entry], state.kind.matching, known));
        let quiet = found
            .is_some_and(|entry| state.entries[*entry].has(EntryOptions::EVENT_FLOWCTRL_DISABLE));
        self.exhaust(me, ni, pt, quiet);
    }

    /// A table entry with flow control is disabled.
    fn exhaust(&mut self, me: usize, ni: usize, pt: usize, quiet: bool) {
        self.stats.disabled += 1;
        let table = &mut self.processes[me].ni_mut(ni).tables[pt];
        table.enabled = false;
        table.owes_disabled = !quiet;
        self.tell_disabled(me, ni, pt);
        if self.strikes(Plant::EnabledUnasked, 1) {
            let index = self.processes[me].ni(ni).tables[pt].index;
            let interface = &mut self.interface(me, ni);
            interface.pt_enable(index).expect("it is allocated");
        }
    }

    fn tell_disabled(&mut self, me: usize, ni: usize, pt: usize) {
        let table = &mut self.processes[me].ni_mut(ni).tables[pt];
        if table.owes_disabled && table.active == 0 {
            table.owes_disabled = false;
            table.disabled = true;
        }
    }

    /// Whether the event queue of a table entry may have no room.
    fn is_full(&self, me: usize, ni: usize, pt: usize) -> bool {
        let ni = self.processes[me].ni(ni);
        let queue = ni.tables[pt].eq.map(|eq| &ni.queues[eq]);
        queue.is_some_and(|queue| queue.told + 3 > queue.capacity)
    }

    /// A request has ended at its target. Laws 1 and 4.
    pub(crate) fn ended(&mut self, op: usize, status: Status) {
        let known = &mut self.ops[op];
        let (me, initiator, number) = (known.target, known.me, known.ni);
        let Some(Ok(grant)) = known.fate.admitted else {
            self.fail(
                Law::Fate,
                format!("p{me} ends {op} of p{initiator}, which it has not let in"),
            );
            return;
        };
        if known.fate.ended.is_some() {
            self.fail(Law::Fate, format!("p{me} ends {op} of p{initiator} twice"));
            return;
        }
        let fail = fail_of(status);
        known.fate.ended = Some(fail);
        let moved = known.fate.moved;
        self.note(|_| {
            format!("p{me} ends {op} of p{initiator}: {fail:?}, {moved} bytes were moved")
        });
        if fail == NiFail::Ok && moved != grant.length {
            let what = format!(
                "p{me} tells of {op} of p{initiator} before its bytes are there: {moved} of {grant:?}"
            );
            self.fail(Law::Fate, what);
            return;
        }
        self.tell_completion(op, grant, fail);
        let known = &self.ops[op];
        let (pt, met) = (known.pt, known.fate.met);
        self.processes[me].ni_mut(number).entries[grant.entry].pending -= 1;
        self.settle(me, number, grant.entry);
        if let Some(finder) = met {
            self.tell_met(op, finder);
        }
        self.processes[me].ni_mut(number).tables[pt].active -= 1;
        self.tell_disabled(me, number, pt);
        self.carry_out(me, number);
    }

    fn tell_completion(&mut self, op: usize, grant: Grant, fail: NiFail) {
        let known = &mut self.ops[op];
        let (me, number, pt) = (known.target, known.ni, known.pt);
        let ni = self.processes[me].nis[number].as_mut().expect("it is open");
        let entry = &mut ni.entries[grant.entry];
        let quiet = entry.has(EntryOptions::EVENT_COMM_DISABLE)
            || entry.has(EntryOptions::EVENT_SUCCESS_DISABLE) && fail == NiFail::Ok;
        if !quiet && ni.tables[pt].eq.is_some() {
            known.completion.tell(fail);
            entry.untaken += 1;
        }
        let (ct, bytes) = (entry.ct, entry.has(EntryOptions::EVENT_CT_BYTES));
        if entry.has(EntryOptions::EVENT_CT_COMM) {
            self.count(me, number, ct, fail, bytes.then_some(grant.length));
        }
    }

    /// Goes on with an entry that is out of its list.
    fn settle(&mut self, me: usize, number: usize, entry: usize) {
        let ni = self.processes[me].ni_mut(number);
        let entry = &mut ni.entries[entry];
        let tells =
            !entry.has(EntryOptions::EVENT_UNLINK_DISABLE) && ni.tables[entry.pt].eq.is_some();
        if entry.pending > 0 {
            return;
        }
        if entry.stage == Stage::Leaving {
            entry.stage = Stage::Left;
            if tells {
                entry.unlink.tell(());
            }
        }
        if entry.stage == Stage::Left && entry.headers == 0 {
            entry.stage = Stage::Gone;
            if tells && entry.list == List::Overflow {
                entry.free.tell(());
            }
        }
    }

    /// A header that was met is told.
    fn tell_met(&mut self, op: usize, finder: Finder) {
        let known = &self.ops[op];
        let (me, number, pt) = (known.target, known.ni, known.pt);
        let (Some(Ok(grant)), Some(fail)) = (known.fate.admitted, known.fate.ended) else {
            return;
        };
        let quiet = finder.options.contains(EntryOptions::EVENT_OVER_DISABLE)
            || finder.options.contains(EntryOptions::EVENT_SUCCESS_DISABLE) && fail == NiFail::Ok;
        if !quiet && self.processes[me].ni(number).tables[pt].eq.is_some() {
            self.ops[op].overflow.tell(fail);
        }
        if finder.options.contains(EntryOptions::EVENT_CT_OVERFLOW) {
            let bytes = finder.options.contains(EntryOptions::EVENT_CT_BYTES);
            self.count(me, number, finder.ct, fail, bytes.then_some(grant.length));
        }
        let ni = self.processes[me].ni_mut(number);
        ni.headers -= 1;
        ni.entries[grant.entry].headers -= 1;
        self.settle(me, number, grant.entry);
        if let Name::Entry(entry) = finder.name {
            self.processes[me].ni_mut(number).entries[entry].pending -= 1;
            self.settle(me, number, entry);
        }
    }

    /// The headers that an entry would meet, in order: all, or the first one.
    pub(crate) fn meets(&self, ni: &Ni, entry: &Entry) -> Vec<usize> {
        let headers = ni.tables[entry.pt].headers.iter().copied();
        let met = headers.filter(|op| matches(entry, ni.kind.matching, &self.ops[*op]));
        let most = if entry.has(EntryOptions::USE_ONCE) {
            1
        } else {
            usize::MAX
        };
        met.take(most).collect()
    }

    /// A header is met, by an appended entry or by a search that deletes.
    pub(crate) fn meet(&mut self, op: usize, finder: Finder) {
        let known = &mut self.ops[op];
        let (me, number, pt) = (known.target, known.ni, known.pt);
        known.fate.met = Some(finder);
        let is_over = known.fate.ended.is_some();
        let ni = self.processes[me].ni_mut(number);
        ni.tables[pt].headers.retain(|other| *other != op);
        if let Some(eq) = ni.tables[pt].eq {
            ni.queues[eq].told += 3;
        }
        if let Name::Entry(entry) = finder.name {
            ni.entries[entry].pending += 1;
        }
        self.stats.met += 1;
        self.stats.met_early += u64::from(!is_over);
        if is_over {
            self.tell_met(op, finder);
        }
    }
}
