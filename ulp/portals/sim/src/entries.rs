//! A program's entries: what it appends, searches for and unlinks.
//!
//! Owns: the calls, and what they have to return. Must not know: requests.

use crate::process::{Due, Entry, Finder, Name, SELF_PT, Search, Stage};
use crate::recalls::Call;
use crate::world::World;
use crate::{Law, Plant};
use ferriband_portals_proto::{
    EntryInit, EntryOptions, Handle, List, NiFail, Peer, Piece, Process as Id, PtlError, Region,
    SearchOp,
};

/// Pieces of an entry that go through one buffer: more than a queue pair's request names.
const MANY: u64 = 70;

/// An entry that a program wishes for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pt: usize,
    list: List,
    peer: Option<usize>,
    bits: u64,
    ignore: u64,
    uid: Option<u32>,
    options: EntryOptions,
    /// None is the memory that several entries have. Else bytes, in so many pieces.
    memory: Option<(u64, u64)>,
    reachable: bool,
    min_free: u64,
    ct: Option<usize>,
}

impl Wish {
    /// The entry for requests of the process itself.
    pub(crate) const fn of_self(me: usize) -> Wish {
        Wish {
            pt: SELF_PT,
            list: List::Priority,
            peer: Some(me),
            bits: 0,
            ignore: u64::MAX,
            uid: None,
            options: EntryOptions::OP_PUT.union(EntryOptions::OP_GET),
            memory: Some((200, 1)),
            reachable: true,
            min_free: 0,
            ct: None,
        }
    }
}

impl Wish {
    /// One that peers may reach without a request.
    fn silent(self) -> Wish {
        let options = self.options.difference(EntryOptions::USE_ONCE);
        Wish {
            pt: 0,
            list: List::Priority,
            options: options | EntryOptions::EVENT_SUCCESS_DISABLE,
            memory: self.memory.map(|(length, _)| (length, 1)),
            ..self
        }
    }
}

impl World {
    fn wish(&mut self, me: usize, ni: usize) -> Wish {
        let count = self.processes.len();
        let matching = self.processes[me].ni(ni).kind.matching;
        let rng = &mut self.rng;
        let mut options = EntryOptions::OP_PUT | EntryOptions::OP_GET;
        options.set(EntryOptions::OP_PUT, !rng.chance(6));
        options.set(EntryOptions::OP_GET, !rng.chance(10));
        let some = [
            (EntryOptions::USE_ONCE, 35),
            (EntryOptions::UNEXPECTED_HDR_DISABLE, 10),
            (EntryOptions::EVENT_LINK_DISABLE, 40),
            (EntryOptions::EVENT_COMM_DISABLE, 8),
            (EntryOptions::EVENT_FLOWCTRL_DISABLE, 8),
            (EntryOptions::EVENT_SUCCESS_DISABLE, 8),
            (EntryOptions::EVENT_OVER_DISABLE, 8),
            (EntryOptions::EVENT_UNLINK_DISABLE, 8),
            (EntryOptions::EVENT_CT_COMM, 40),
            (EntryOptions::EVENT_CT_OVERFLOW, 30),
            (EntryOptions::EVENT_CT_BYTES, 20),
        ];
        for (option, per_cent) in some {
            options.set(option, rng.chance(per_cent));
        }
        if matching {
            options.set(EntryOptions::MANAGE_LOCAL, rng.chance(25));
            options.set(EntryOptions::NO_TRUNCATE, rng.chance(15));
        }
        let pieces = rng.pick(&[1, 1, 1, 3, MANY]);
        let length = rng.pick(&[8, 40, 150, 400]);
        let ignore = rng.pick(&[0, 1, u64::MAX, u64::MAX]);
        let wish = Wish {
            pt: rng.index(SELF_PT),
            list: rng.pick(&[List::Priority, List::Overflow]),
            peer: rng.chance(30).then(|| rng.index(count)),
            bits: rng.below(4),
            ignore,
            uid: rng.chance(8).then(|| 500 + rng.below(2) as u32),
            options,
            memory: (!rng.chance(35)).then_some((length, pieces)),
            reachable: !rng.chance(8),
            min_free: rng.pick(&[0, 0, 8, 60]),
            ct: rng
                .chance(70)
                .then(|| rng.index(crate::process::COUNTERS - 1)),
        };
        let lends = self.processes[me].program.lends;
        match !matching && self.rng.chance(lends) {
            true => wish.silent(),
            false => wish,
        }
    }

    /// The memory of an entry.
    fn memory(&mut self, me: usize, wish: &Wish) -> Vec<Piece> {
        let Some((length, pieces)) = wish.memory else {
            return vec![self.processes[me].heap];
        };
        let memory = &mut self.processes[me].portals.memory;
        let length = (length / pieces).max(1);
        let pieces: Vec<Piece> = (0..pieces)
            .map(|_| memory.allocate(length, |at| at as u8 ^ 0x33))
            .collect();
        if !wish.reachable {
            memory.forbid(pieces[0]);
        }
        pieces
    }

    fn init(&self, me: usize, ni: usize, wish: &Wish, pieces: &[Piece]) -> EntryInit {
        let ni = self.processes[me].ni(ni);
        let region = match pieces {
            [one] => Region::Flat(*one),
            many => Region::Iovec(many.to_vec()),
        };
        let anybody = Id {
            nid: Peer::NID_ANY,
            pid: Peer::PID_ANY,
        };
        let physical = wish.peer.map_or(anybody, crate::process::id_of);
        EntryInit {
            region,
            ct: wish.ct.map_or(Handle::CT_NONE, |ct| ni.counters[ct].handle),
            uid: wish.uid.unwrap_or(EntryInit::UID_ANY),
            options: wish.options,
            match_id: match ni.kind.logical {
                true => Peer::Rank(wish.peer.map_or(Peer::RANK_ANY, |peer| peer as u32)),
                false => Peer::Physical(physical),
            },
            match_bits: wish.bits,
            ignore_bits: wish.ignore,
            min_free: wish.min_free,
        }
    }

    fn entry(&self, wish: &Wish, pieces: Vec<Piece>) -> Entry {
        Entry {
            pt: wish.pt,
            list: wish.list,
            handle: Handle::INVALID,
            peer: wish.peer,
            bits: wish.bits,
            ignore: wish.ignore,
            uid: wish.uid,
            options: wish.options,
            length: pieces.iter().map(|piece| piece.length).sum(),
            pieces,
            min_free: wish.min_free,
            ct: wish.ct,
            stage: Stage::Gone,
            local_offset: 0,
            pending: 0,
            headers: 0,
            untaken: 0,
            link: Due::default(),
            unlink: Due::default(),
            free: Due::default(),
        }
    }

    /// What a program has appended before its first request.
    pub(crate) fn append_first(&mut self, me: usize, ni: usize) {
        for pt in 0..SELF_PT {
            for list in [List::Priority, List::Overflow] {
                let lends = self.rng.chance(self.processes[me].program.plain);
                if self.rng.chance(50) && !lends {
                    continue;
                }
                let some = self.wish(me, ni);
                let kept = some
                    .options
                    .difference(EntryOptions::USE_ONCE | EntryOptions::MANAGE_LOCAL);
                let options = if self.rng.chance(70) {
                    kept
                } else {
                    some.options
                };
                let wish = Wish {
                    pt,
                    list,
                    ignore: u64::MAX,
                    options,
                    ..some
                };
                self.append(me, ni, &wish);
            }
        }
    }

    pub(crate) fn append_some(&mut self, me: usize, ni: usize) {
        let wish = self.wish(me, ni);
        if self.rng.chance(70) {
            return self.append(me, ni, &wish);
        }
        // two that take the same requests
        let pair = [wish, wish].map(|wish| self.prepare(me, ni, &wish));
        let mut calls = [&pair[0], &pair[1]];
        if self.plant == Some(Plant::EntriesSwapped) {
            calls.reverse();
        }
        let mut results = Vec::new();
        for (number, init) in calls {
            results.push((*number, self.call_append(me, ni, *number, init)));
        }
        for (number, _) in &pair {
            let result = results.iter().find(|result| result.0 == *number);
            self.appended(
                me,
                ni,
                *number,
                result.map_or(Err(PtlError::Fail), |result| result.1),
            );
        }
    }

    /// PtlMEAppend, PtlLEAppend.
    pub(crate) fn append(&mut self, me: usize, ni: usize, wish: &Wish) {
        let (number, init) = self.prepare(me, ni, wish);
        let result = self.call_append(me, ni, number, &init);
        self.appended(me, ni, number, result);
    }

    fn prepare(&mut self, me: usize, ni: usize, wish: &Wish) -> (usize, EntryInit) {
        let pieces = self.memory(me, wish);
        let init = self.init(me, ni, wish, &pieces);
        let entry = self.entry(wish, pieces);
        let entries = &mut self.processes[me].ni_mut(ni).entries;
        entries.push(entry);
        (entries.len() - 1, init)
    }

    fn call_append(
        &mut self,
        me: usize,
        ni: usize,
        number: usize,
        init: &EntryInit,
    ) -> Result<Handle, PtlError> {
        let entry = &self.processes[me].ni(ni).entries[number];
        let (pt, list) = (entry.pt, entry.list);
        let index = self.processes[me].ni(ni).tables[pt].index;
        let user_ptr = Name::Entry(number).user_ptr();
        let result = self
            .interface(me, ni)
            .entry_append(index, init, list, user_ptr);
        self.note(|world| {
            let entry = &world.processes[me].ni(ni).entries[number];
            let (bits, ignore, peer, length) = (entry.bits, entry.ignore, entry.peer, entry.length);
            let options = entry.options;
            format!("p{me} appends {number} to {ni}/{pt} {list:?}, {bits}/{ignore:x} of {peer:?}, {length} bytes, {options:?}: {result:?}")
        });
        result
    }

    /// An append has returned: what it does to unexpected headers, and what it has to return.
    fn appended(
        &mut self,
        me: usize,
        number: usize,
        entry: usize,
        result: Result<Handle, PtlError>,
    ) {
        let ni = self.processes[me].ni_mut(number);
        let (pt, list) = (ni.entries[entry].pt, ni.entries[entry].list);
        let table = &ni.tables[pt];
        let listed = if list == List::Priority {
            &table.priority
        } else {
            &table.overflow
        };
        let is_full = listed.len() >= ni.most_entries;
        match result {
            Err(PtlError::NoSpace) if is_full => return,
            Ok(handle) if !is_full => ni.entries[entry].handle = handle,
            _ => {
                let what =
                    format!("p{me}: an append to {number}/{pt} says {result:?}, full: {is_full}");
                self.fail(Law::Breach, what);
                return;
            }
        }
        self.stats.appended += 1;
        ni.entries[entry].stage = Stage::Linked;
        let once = ni.entries[entry].has(EntryOptions::USE_ONCE);
        let finder = Finder {
            name: Name::Entry(entry),
            options: ni.entries[entry].options,
            ct: ni.entries[entry].ct,
        };
        let ni = self.processes[me].ni(number);
        let met = match list {
            List::Priority => self.meets(ni, &ni.entries[entry]),
            List::Overflow => Vec::new(),
        };
        if once && !met.is_empty() {
            self.processes[me].ni_mut(number).entries[entry].stage = Stage::Leaving;
        }
        for op in &met {
            self.meet(*op, finder);
        }
        if !once || met.is_empty() {
            self.linked(me, number, entry);
        }
        self.carry_out(me, number);
    }

    fn linked(&mut self, me: usize, number: usize, entry: usize) {
        let ni = self.processes[me].ni_mut(number);
        let known = &mut ni.entries[entry];
        let table = &mut ni.tables[known.pt];
        match known.list {
            List::Priority => table.priority.push(entry),
            List::Overflow => table.overflow.push(entry),
        }
        if let Some(eq) = table.eq
            && !known.has(EntryOptions::EVENT_LINK_DISABLE)
        {
            ni.queues[eq].told += 1;
            known.link.tell(());
        }
    }

    /// PtlMEUnlink, PtlLEUnlink of some entry.
    pub(crate) fn unlink_some(&mut self, me: usize, number: usize) {
        let ni = self.processes[me].ni(number);
        let linked = ni
            .tables
            .iter()
            .flat_map(|table| table.priority.iter().chain(&table.overflow));
        let linked: Vec<usize> = linked.copied().filter(|entry| *entry > 0).collect();
        let under_way: Vec<usize> = (1..ni.entries.len())
            .filter(|entry| ni.entries[*entry].pending > 0)
            .collect();
        let all = ni.entries.len();
        let entry = match self.rng.below(10) {
            0..=3 if !under_way.is_empty() => self.rng.pick(&under_way),
            0..=7 if !linked.is_empty() => self.rng.pick(&linked),
            _ => self.rng.index(all),
        };
        let known = &self.processes[me].ni(number).entries[entry];
        if entry == 0 || known.handle == Handle::INVALID {
            return;
        }
        self.call_back(me, number, Call::Unlink(entry));
    }

    /// An entry that nobody reaches itself any more is unlinked. Law 4.
    pub(crate) fn unlink(&mut self, me: usize, number: usize, entry: usize) {
        let known = &self.processes[me].ni(number).entries[entry];
        let due = match known.stage {
            _ if known.pending > 0 => Err(PtlError::InUse),
            Stage::Linked if known.headers > 0 => Err(PtlError::InUse),
            Stage::Linked => Ok(()),
            _ => Err(PtlError::ArgInvalid),
        };
        let (handle, pending) = (known.handle, known.pending);
        let result = self.interface(me, number).entry_unlink(handle);
        self.note(|_| format!("p{me} unlinks {entry} of {number}: {result:?}"));
        if result != due {
            let what =
                format!("p{me}: unlinking {entry} of {number} says {result:?}, due is {due:?}");
            self.fail(Law::Range, what);
            return;
        }
        let lied = pending > 0 && self.plant == Some(Plant::UnlinkedWhileHeld);
        self.stats.in_use += u64::from(due == Err(PtlError::InUse));
        if due.is_ok() || lied {
            self.stats.unlinked += 1;
            let ni = self.processes[me].ni_mut(number);
            ni.entries[entry].stage = Stage::Gone;
            let table = &mut ni.tables[ni.entries[entry].pt];
            table.priority.retain(|other| *other != entry);
            table.overflow.retain(|other| *other != entry);
        }
    }

    /// PtlMESearch, PtlLESearch.
    pub(crate) fn search(&mut self, me: usize, number: usize) {
        let wish = Wish {
            list: List::Priority,
            memory: None,
            ..self.wish(me, number)
        };
        let heap = self.processes[me].heap;
        let init = self.init(me, number, &wish, &[heap]);
        let entry = self.entry(&wish, vec![heap]);
        let op = self.rng.pick(&[SearchOp::Only, SearchOp::Delete]);
        let ni = self.processes[me].ni_mut(number);
        let search = ni.searches.len();
        ni.searches.push(Search::default());
        let (index, eq) = (ni.tables[wish.pt].index, ni.tables[wish.pt].eq);
        let ni = self.processes[me].ni(number);
        let met = self.meets(ni, &entry);
        let user_ptr = Name::Search(search).user_ptr();
        let done = self
            .interface(me, number)
            .entry_search(index, &init, op, user_ptr);
        self.note(|_| format!("p{me} searches {number}/{index} {op:?}: {done:?}, {met:?}"));
        if done.is_err() {
            self.fail(Law::Breach, format!("p{me}: a search says {done:?}"));
        }
        self.stats.searches += 1;
        let finder = Finder {
            name: Name::Search(search),
            options: wish.options,
            ct: wish.ct,
        };
        for op_met in &met {
            match op {
                SearchOp::Only => self.show(*op_met, finder),
                SearchOp::Delete => self.meet(*op_met, finder),
            }
        }
        let ni = self.processes[me].ni_mut(number);
        if let Some(eq) = eq {
            ni.queues[eq].told += 1;
            if met.is_empty() && !entry.has(EntryOptions::EVENT_COMM_DISABLE) {
                ni.searches[search].none = true;
            }
        }
        let counts = entry.has(EntryOptions::EVENT_CT_OVERFLOW);
        if counts && (met.is_empty() || !entry.has(EntryOptions::USE_ONCE)) {
            self.count(me, number, wish.ct, NiFail::NoMatch, None);
        }
        self.carry_out(me, number);
        self.miscount();
    }

    /// A search shows a header.
    fn show(&mut self, op: usize, finder: Finder) {
        let known = &self.ops[op];
        let (me, number, pt) = (known.target, known.ni, known.pt);
        let length = match known.fate.admitted {
            Some(Ok(grant)) => grant.length,
            _ => 0,
        };
        let ni = self.processes[me].ni_mut(number);
        let quiet = EntryOptions::EVENT_COMM_DISABLE | EntryOptions::EVENT_SUCCESS_DISABLE;
        if let (Some(eq), Name::Search(search)) = (ni.tables[pt].eq, finder.name)
            && !finder.options.intersects(quiet)
        {
            ni.searches[search].found += 1;
            ni.queues[eq].told += 1;
        }
        if finder.options.contains(EntryOptions::EVENT_CT_OVERFLOW) {
            let bytes = finder.options.contains(EntryOptions::EVENT_CT_BYTES);
            self.count(me, number, finder.ct, NiFail::Ok, bytes.then_some(length));
        }
    }

    /// A planted fault: a header is taken away, and nobody is told.
    pub(crate) fn lose_header(&mut self, me: usize, number: usize) {
        let ni = self.processes[me].ni(number);
        let Some(pt) = ni.tables.iter().position(|table| !table.headers.is_empty()) else {
            return;
        };
        let index = ni.tables[pt].index;
        let wish = Wish {
            pt,
            peer: None,
            options: EntryOptions::EVENT_OVER_DISABLE
                | EntryOptions::USE_ONCE
                | EntryOptions::EVENT_COMM_DISABLE,
            ..Wish::of_self(me)
        };
        let heap = self.processes[me].heap;
        let init = self.init(me, number, &wish, &[heap]);
        let interface = self.interface(me, number);
        interface
            .entry_search(index, &init, SearchOp::Delete, 0)
            .expect("a legal search");
    }
}
