//! Portals' rules once more, as plainly as they can be said: vectors that are walked from the head.

use crate::*;

/// An entry as a test asks for it.
#[derive(Clone, Debug)]
pub struct Spec {
    pub list: List,
    pub rank: u32,
    pub bits: u64,
    pub ignore: u64,
    pub options: EntryOptions,
    pub length: u64,
    pub min_free: u64,
    /// It answers to nothing.
    pub forbidden: bool,
}

impl Spec {
    fn has(&self, option: EntryOptions) -> bool {
        self.options.contains(option)
    }
}

/// What is compared of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub kind: EventKind,
    pub user_ptr: u64,
    pub request: u64,
    pub mlength: u64,
    pub fail: NiFail,
    pub list: List,
}

impl From<&Event> for Told {
    fn from(event: &Event) -> Told {
        Told {
            kind: event.kind,
            user_ptr: event.user_ptr,
            request: event.hdr_data,
            mlength: event.mlength,
            fail: event.ni_fail,
            list: event.list,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Never,
    Linked,
    Left,
    /// Used up at its append; unlinking it succeeds once.
    UsedUp,
    Gone,
}

struct Entry {
    spec: Spec,
    stage: Stage,
    offset: u64,
    /// Requests under way that it took or met.
    pending: usize,
    headers: usize,
    tells_unlink: bool,
}

#[derive(Clone, Debug)]
struct Request {
    number: u64,
    rank: u32,
    bits: u64,
    length: u64,
    entry: usize,
    mlength: u64,
    list: List,
    /// Its header is in the unexpected list.
    listed: bool,
    /// Who met its header, once somebody did: the entry (none: a search), and the value.
    met: Option<(Option<usize>, u64)>,
    arrived: Option<NiFail>,
    finished: bool,
}

/// A table entry.
pub struct Model {
    flow: bool,
    most_headers: usize,
    most_entries: usize,
    pub enabled: bool,
    owes_disabled: bool,
    entries: Vec<Entry>,
    requests: Vec<Request>,
    pub told: Vec<Told>,
}

impl Model {
    pub fn new(flow: bool, most_headers: usize, most_entries: usize) -> Model {
        Model {
            flow,
            most_headers,
            most_entries,
            enabled: true,
            owes_disabled: false,
            entries: Vec::new(),
            requests: Vec::new(),
            told: Vec::new(),
        }
    }

    pub fn length(&self, entry: usize) -> u64 {
        self.entries[entry].spec.length
    }

    pub fn enable(&mut self) {
        (self.enabled, self.owes_disabled) = (true, false);
    }

    /// Headers that are listed, or were met before their data was there.
    pub fn headers(&self) -> usize {
        self.requests
            .iter()
            .filter(|r| r.listed || r.met.is_some() && r.arrived.is_none())
            .count()
    }

    fn tell(&mut self, kind: EventKind, user_ptr: u64, list: List) {
        self.told.push(Told {
            kind,
            user_ptr,
            request: 0,
            mlength: 0,
            fail: NiFail::Ok,
            list,
        });
    }

    fn tell_request(&mut self, kind: EventKind, user_ptr: u64, at: usize, fail: NiFail) {
        let Request {
            number,
            mlength,
            list,
            ..
        } = self.requests[at];
        self.told.push(Told {
            kind,
            user_ptr,
            request: number,
            mlength,
            fail,
            list,
        });
    }

    fn matches(spec: &Spec, offset: u64, rank: u32, bits: u64, length: u64) -> bool {
        let at = if spec.has(EntryOptions::MANAGE_LOCAL) {
            offset
        } else {
            0
        };
        (spec.rank == Peer::RANK_ANY || spec.rank == rank)
            && spec.bits | spec.ignore == bits | spec.ignore
            && (!spec.has(EntryOptions::NO_TRUNCATE) || at + length <= spec.length)
    }

    fn listed(&self, list: List) -> impl Iterator<Item = usize> + '_ {
        (0..self.entries.len()).filter(move |&n| {
            self.entries[n].stage == Stage::Linked && self.entries[n].spec.list == list
        })
    }

    fn exhausted(&mut self) -> NiFail {
        if !self.flow {
            return NiFail::Dropped;
        }
        (self.enabled, self.owes_disabled) = (false, true);
        self.tell_disabled();
        NiFail::PtDisabled
    }

    fn tell_disabled(&mut self) {
        if self.owes_disabled && self.requests.iter().all(|r| r.arrived.is_some()) {
            self.owes_disabled = false;
            self.tell(EventKind::PtDisabled, 0, List::Priority);
            self.told.last_mut().expect("it was told just now").fail = NiFail::PtDisabled;
        }
    }

    /// The entry that takes the request, offset, length and list.
    pub fn arrive(
        &mut self,
        number: u64,
        rank: u32,
        bits: u64,
        length: u64,
    ) -> Result<(usize, u64, u64, List), NiFail> {
        if !self.enabled {
            return Err(NiFail::PtDisabled);
        }
        let takes = |&n: &usize| {
            Model::matches(
                &self.entries[n].spec,
                self.entries[n].offset,
                rank,
                bits,
                length,
            )
        };
        let found = self
            .listed(List::Priority)
            .chain(self.listed(List::Overflow))
            .find(takes);
        let Some(entry) = found else {
            return Err(self.exhausted());
        };
        let spec = self.entries[entry].spec.clone();
        if spec.forbidden {
            return Err(NiFail::OpViolation);
        }
        let listed = spec.list == List::Overflow && !spec.has(EntryOptions::UNEXPECTED_HDR_DISABLE);
        if listed && self.headers() >= self.most_headers {
            return Err(self.exhausted());
        }
        let local = spec.has(EntryOptions::MANAGE_LOCAL);
        let offset = if local { self.entries[entry].offset } else { 0 };
        let mlength = length.min(spec.length.saturating_sub(offset));
        let it = &mut self.entries[entry];
        it.pending += 1;
        it.headers += usize::from(listed);
        if local {
            it.offset += mlength;
        }
        if spec.has(EntryOptions::USE_ONCE)
            || local && spec.length.saturating_sub(it.offset) < spec.min_free
        {
            (it.stage, it.tells_unlink) = (Stage::Left, true);
        }
        let list = spec.list;
        let request = Request {
            number,
            rank,
            bits,
            length,
            entry,
            mlength,
            list,
            listed,
            met: None,
            arrived: None,
            finished: false,
        };
        self.requests.push(request);
        Ok((entry, offset, mlength, list))
    }

    pub fn deliver(&mut self, number: u64, fail: NiFail) {
        let at = self
            .requests
            .iter()
            .position(|r| r.number == number)
            .expect("it was let in");
        let entry = self.requests[at].entry;
        self.requests[at].arrived = Some(fail);
        self.tell_request(EventKind::Put, entry as u64, at, fail);
        self.entries[entry].pending -= 1;
        self.settle(entry);
        self.finish_met(at);
        self.tell_disabled();
    }

    /// Tells that a header was met, if it was and its data is there.
    fn finish_met(&mut self, at: usize) {
        let Request {
            entry,
            met,
            arrived,
            finished,
            ..
        } = self.requests[at];
        let (Some((finder, user_ptr)), Some(fail), false) = (met, arrived, finished) else {
            return;
        };
        self.requests[at].finished = true;
        self.tell_request(EventKind::PutOverflow, user_ptr, at, fail);
        self.entries[entry].headers -= 1;
        self.settle(entry);
        if let Some(finder) = finder {
            self.entries[finder].pending -= 1;
            self.settle(finder);
        }
    }

    fn settle(&mut self, n: usize) {
        let Entry {
            stage,
            pending,
            headers,
            ..
        } = self.entries[n];
        if pending > 0 || !matches!(stage, Stage::Left | Stage::UsedUp) {
            return;
        }
        let quiet = self.entries[n].spec.has(EntryOptions::EVENT_UNLINK_DISABLE);
        let list = self.entries[n].spec.list;
        if std::mem::take(&mut self.entries[n].tells_unlink) && !quiet {
            self.tell(EventKind::AutoUnlink, n as u64, list);
        }
        if headers == 0 && stage == Stage::Left {
            if list == List::Overflow && !quiet {
                self.tell(EventKind::AutoFree, n as u64, list);
            }
            self.entries[n].stage = Stage::Gone;
        }
    }

    pub fn append(&mut self, spec: &Spec) -> Result<(), PtlError> {
        let n = self.entries.len();
        let stage = Stage::Never;
        self.entries.push(Entry {
            spec: spec.clone(),
            stage,
            offset: 0,
            pending: 0,
            headers: 0,
            tells_unlink: false,
        });
        if self.listed(spec.list).count() >= self.most_entries {
            return Err(PtlError::NoSpace);
        }
        let once = spec.has(EntryOptions::USE_ONCE);
        let moves =
            !once && spec.has(EntryOptions::MANAGE_LOCAL | EntryOptions::LOCAL_INC_UH_RLENGTH);
        for at in 0..self.requests.len() {
            let r = self.requests[at].clone();
            if spec.list == List::Overflow || !r.listed {
                continue;
            }
            if !Model::matches(spec, self.entries[n].offset, r.rank, r.bits, r.length) {
                continue;
            }
            if moves {
                self.entries[n].offset += r.length;
            }
            let used_up =
                moves && spec.length.saturating_sub(self.entries[n].offset) < spec.min_free;
            if once || used_up {
                (self.entries[n].stage, self.entries[n].tells_unlink) =
                    (if once { Stage::Left } else { Stage::UsedUp }, true);
            }
            self.entries[n].pending += 1;
            self.meet(at, Some(n), n as u64);
            if once || used_up {
                return Ok(());
            }
        }
        self.entries[n].stage = Stage::Linked;
        self.tell(EventKind::Link, n as u64, spec.list);
        Ok(())
    }

    fn meet(&mut self, at: usize, finder: Option<usize>, user_ptr: u64) {
        self.requests[at].listed = false;
        self.requests[at].met = Some((finder, user_ptr));
        self.finish_met(at);
    }

    pub fn search(&mut self, spec: &Spec, delete: bool) {
        let mut found = false;
        for at in 0..self.requests.len() {
            let r = self.requests[at].clone();
            let once_more = !found || !spec.has(EntryOptions::USE_ONCE);
            if r.listed && once_more && Model::matches(spec, 0, r.rank, r.bits, r.length) {
                found = true;
                if delete {
                    self.meet(at, None, 999);
                } else {
                    self.tell_request(EventKind::Search, 999, at, NiFail::Ok);
                }
            }
        }
        if !found {
            self.tell(EventKind::Search, 999, List::Priority);
            self.told.last_mut().expect("it was told just now").fail = NiFail::NoMatch;
        }
    }

    pub fn unlink(&mut self, n: usize) -> Result<(), PtlError> {
        let entry = &mut self.entries[n];
        match entry.stage {
            Stage::Never | Stage::Gone => Err(PtlError::ArgInvalid),
            _ if entry.pending > 0 => Err(PtlError::InUse),
            Stage::UsedUp => {
                entry.stage = Stage::Gone;
                Ok(())
            }
            Stage::Left => Err(PtlError::ArgInvalid),
            Stage::Linked if entry.headers > 0 => Err(PtlError::InUse),
            Stage::Linked => {
                entry.stage = Stage::Gone;
                Ok(())
            }
        }
    }
}

/// What a triggered operation does.
#[derive(Clone, Copy)]
pub enum Effect {
    Start,
    Inc(usize, CtEvent),
    Set(usize, CtEvent),
}

/// Three counters and all that waits for them.
#[derive(Default)]
pub struct Counters {
    pub values: [CtEvent; 3],
    waiting: Vec<(usize, u64, u64, Effect)>,
    pub started: Vec<u64>,
    fired: Vec<(u64, Effect)>,
}

impl Counters {
    pub fn inc(&mut self, which: usize, by: CtEvent) {
        self.change(which, |value| {
            value.success += by.success;
            value.failure += by.failure;
        });
        self.carry_out();
    }

    pub fn set(&mut self, which: usize, to: CtEvent) {
        self.change(which, |value| *value = to);
        self.carry_out();
    }

    pub fn wait(&mut self, which: usize, threshold: u64, number: u64, effect: Effect) {
        self.waiting.push((which, threshold, number, effect));
        self.change(which, |_| {});
        self.carry_out();
    }

    fn change(&mut self, which: usize, change: impl FnOnce(&mut CtEvent)) {
        change(&mut self.values[which]);
        let sum = self.values[which].success + self.values[which].failure;
        let mut reached: Vec<_> = self
            .waiting
            .iter()
            .copied()
            .filter(|w| w.0 == which && w.1 <= sum)
            .collect();
        self.waiting.retain(|w| !(w.0 == which && w.1 <= sum));
        reached.sort_by_key(|&(_, threshold, number, _)| (threshold, number));
        self.fired.extend(
            reached
                .into_iter()
                .map(|(_, _, number, effect)| (number, effect)),
        );
    }

    fn carry_out(&mut self) {
        while !self.fired.is_empty() {
            match self.fired.remove(0) {
                (number, Effect::Start) => self.started.push(number),
                (_, Effect::Inc(which, by)) => self.change(which, |value| {
                    value.success += by.success;
                    value.failure += by.failure;
                }),
                (_, Effect::Set(which, to)) => self.change(which, |value| *value = to),
            }
        }
    }
}
