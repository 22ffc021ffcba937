//! A network interface: all of its objects, and the calls on event queues, counters and the
//! interface itself.
//!
//! Owns: the state that the other rooms change. Must not know: the other interfaces of the process,
//! which the caller owns beside it. Data comes from the calls of a program and from a transport.

use crate::counter::Counter;
use crate::event::{Event, EventQueue, LEAST_EVENTS, MOST_EVENTS, Taken};
use crate::handles::{HANDLE_GENERATIONS, HandleKind, Key, MOST_OBJECTS, Pool};
use crate::initiator::Underway;
use crate::list::Entry;
use crate::matching::Identity;
use crate::md::Md;
use crate::table::PortalEntry;
use crate::target::Hold;
use crate::trigger::{Triggered, Triggers};
use crate::{Arrival, CtEvent, Handle, Limits, NiFail, NiKind, Peer, PtlError};
use std::collections::VecDeque;

/// The status registers of an interface (ptl_sr_index_t).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StatusRegister {
    /// Requests that were dropped, those to disabled table entries among them.
    DropCount = 0,
    /// Requests of users that may not use the entry.
    PermissionViolations = 1,
    /// Requests that the entry does not answer to.
    OperationViolations = 2,
}

/// What has changed since somebody last asked, for those who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct News {
    /// An event was told.
    pub events: bool,
    /// A counter has changed.
    pub counters: bool,
}

/// What has become of requests and of triggered operations, for those who look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counts {
    /// Requests that an entry of the priority list took.
    pub priority: u64,
    /// Requests that one of the overflow list took.
    pub overflow: u64,
    /// Puts by initiators that reach an entry themselves, where it counts them.
    pub direct: u64,
    /// Triggered operations that have fired.
    pub triggered: u64,
    /// How often flow control has disabled a table entry.
    pub disabled: u64,
}

/// What an interface consists of at a time.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Summary {
    /// Table entries in use.
    pub table: Vec<u32>,
    /// Those of them that let no requests in.
    pub disabled: Vec<u32>,
    /// Entries of all priority lists.
    pub priority: u64,
    /// Entries of all overflow lists.
    pub overflow: u64,
    /// Unexpected headers.
    pub unexpected: u64,
    /// What it has done so far.
    pub counts: Counts,
}

/// The objects of an interface, each kind in a pool of its own.
#[derive(Debug)]
pub(crate) struct Objects {
    pub eqs: Pool<EventQueue>,
    pub cts: Pool<Counter>,
    pub mds: Pool<Md>,
    pub entries: Pool<Entry>,
    /// Requests that were let in and are under way.
    pub holds: Pool<Hold>,
    /// Operations of this process that are under way.
    pub operations: Pool<Underway>,
}

/// The most requests, and the most operations of this process, that may be under way at once.
const MOST_UNDER_WAY: usize = 1 << 16;
/// Names of requests and operations tell this many generations apart.
const WIDE_GENERATIONS: u32 = u32::MAX;

/// The number of a test that is not watched.
pub const NOT_WATCHED: u64 = 0;

/// One network interface of a process: see the crate's description for who calls what.
#[derive(Debug)]
pub struct Interface {
    pub(crate) kind: NiKind,
    pub(crate) limits: Limits,
    pub(crate) objects: Objects,
    pub(crate) table: Vec<Option<PortalEntry>>,
    /// Unexpected headers of all table entries, those that were met and whose data is under way
    /// among them.
    pub(crate) unexpected_headers: u32,
    /// Entries that an append found used up by unexpected headers: see [`Interface::entry_unlink`].
    pub(crate) never_linked: VecDeque<Key>,
    pub(crate) triggers: Triggers,
    pub(crate) status: [u64; 3],
    pub(crate) counts: Counts,
    pub(crate) news: News,
    bundles: u32,
    /// Where the next poll begins.
    turn: usize,
    last_watch: u64,
}

impl Interface {
    /// An interface with these limits ([`Limits::granted`]).
    pub fn new(kind: NiKind, limits: Limits) -> Interface {
        let pool = |bound: u32| (bound as usize).min(MOST_OBJECTS);
        Interface {
            kind,
            limits,
            objects: Objects {
                eqs: Pool::new(pool(limits.max_eqs), HANDLE_GENERATIONS),
                cts: Pool::new(pool(limits.max_cts), HANDLE_GENERATIONS),
                mds: Pool::new(pool(limits.max_mds), HANDLE_GENERATIONS),
                entries: Pool::new(pool(limits.max_entries), HANDLE_GENERATIONS),
                holds: Pool::new(MOST_UNDER_WAY, WIDE_GENERATIONS),
                operations: Pool::new(MOST_UNDER_WAY, WIDE_GENERATIONS),
            },
            table: (0..=limits.max_pt_index).map(|_| None).collect(),
            unexpected_headers: 0,
            never_linked: VecDeque::new(),
            triggers: Triggers::default(),
            status: [0; 3],
            counts: Counts::default(),
            news: News::default(),
            bundles: 0,
            turn: 0,
            last_watch: NOT_WATCHED,
        }
    }

    /// Which interface it is.
    pub fn kind(&self) -> NiKind {
        self.kind
    }

    /// Its limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Its handle.
    pub fn handle(&self) -> Handle {
        Handle::of_interface(self.kind.index())
    }

    /// PtlNIHandle: whether a handle names an object of this interface, or the interface itself.
    pub fn owns(&self, handle: Handle) -> bool {
        let objects = &self.objects;
        let interface = self.kind.index();
        let Some(kind) = handle.kind() else {
            return false;
        };
        let Some(key) = handle.key(kind, interface) else {
            return false;
        };
        match kind {
            HandleKind::Ni => handle == self.handle(),
            HandleKind::Eq => objects.eqs.get(key).is_some(),
            HandleKind::Ct => objects.cts.get(key).is_some(),
            HandleKind::Md => objects.mds.get(key).is_some(),
            HandleKind::Le | HandleKind::Me => self
                .entry_key(handle)
                .is_some_and(|key| objects.entries.get(key).is_some()),
        }
    }

    /// PtlNIStatus. The value stays at the largest that fits.
    pub fn status(&self, register: StatusRegister) -> i32 {
        self.status[register as usize]
            .try_into()
            .unwrap_or(i32::MAX)
    }

    /// What it consists of.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary {
            unexpected: self.unexpected_headers.into(),
            counts: self.counts,
            ..Summary::default()
        };
        for (index, portal) in (0..).zip(&self.table) {
            let Some(portal) = portal else { continue };
            summary.table.push(index);
            if !portal.enabled {
                summary.disabled.push(index);
            }
            summary.priority += portal.priority.len() as u64;
            summary.overflow += portal.overflow.len() as u64;
        }
        summary
    }

    /// What has changed since the last call, for those who wait in PtlEQWait, PtlEQPoll, PtlCTWait
    /// and PtlCTPoll.
    pub fn take_news(&mut self) -> News {
        std::mem::take(&mut self.news)
    }

    /// PtlStartBundle: the transport may put operations off. Bundles nest.
    pub fn start_bundle(&mut self) {
        self.bundles = self.bundles.saturating_add(1);
    }

    /// PtlEndBundle: the transport sends what it has put off, whether or not an outer bundle goes
    /// on.
    ///
    /// # Errors
    /// PTL_ARG_INVALID if no bundle has begun.
    pub fn end_bundle(&mut self) -> Result<(), PtlError> {
        self.bundles = self.bundles.checked_sub(1).ok_or(PtlError::ArgInvalid)?;
        Ok(())
    }

    /// Whether a bundle is open.
    pub fn is_bundling(&self) -> bool {
        self.bundles > 0
    }

    /// PtlEQAlloc: a ring of `count` events, at least four.
    ///
    /// # Errors
    /// PTL_NO_SPACE at max_eqs, or for more than 2^24 events.
    pub fn eq_alloc(&mut self, count: u64) -> Result<Handle, PtlError> {
        if count > MOST_EVENTS {
            return Err(PtlError::NoSpace);
        }
        let key = self
            .objects
            .eqs
            .insert(EventQueue::new(count.max(LEAST_EVENTS) as usize))
            .ok_or(PtlError::NoSpace)?;
        Ok(Handle::new(HandleKind::Eq, self.kind.index(), key))
    }

    /// PtlEQFree. Descriptors and table entries that still name it tell no more events.
    ///
    /// # Errors
    /// PTL_ARG_INVALID for a stale handle.
    pub fn eq_free(&mut self, eq: Handle) -> Result<(), PtlError> {
        let key = self.eq_key(eq)?;
        self.objects
            .eqs
            .remove(key)
            .map(drop)
            .ok_or(PtlError::ArgInvalid)
    }

    /// PtlEQGet. [`Taken::dropped`] makes the call return PTL_EQ_DROPPED.
    ///
    /// # Errors
    /// PTL_EQ_EMPTY if no event is there, PTL_ARG_INVALID for a stale handle.
    pub fn eq_get(&mut self, eq: Handle) -> Result<Taken, PtlError> {
        let key = self.eq_key(eq)?;
        self.objects
            .eqs
            .get_mut(key)
            .ok_or(PtlError::ArgInvalid)?
            .take()
            .ok_or(PtlError::EqEmpty)
    }

    /// One round of PtlEQPoll: an event of one of the queues, and which. Each call begins one queue
    /// further on.
    ///
    /// # Errors
    /// PTL_EQ_EMPTY if none has an event, PTL_ARG_INVALID for a stale handle or no queues at all.
    pub fn eq_poll(&mut self, eqs: &[Handle]) -> Result<(usize, Taken), PtlError> {
        eqs.iter().try_for_each(|&eq| self.eq_key(eq).map(drop))?;
        let which = self.next_turn(eqs.len())?;
        for which in (which..eqs.len()).chain(0..which) {
            match self.eq_get(eqs[which]) {
                Ok(taken) => return Ok((which, taken)),
                Err(PtlError::EqEmpty) => {}
                Err(error) => return Err(error),
            }
        }
        Err(PtlError::EqEmpty)
    }

    /// PtlCTAlloc: a counter at zero.
    ///
    /// # Errors
    /// PTL_NO_SPACE at max_cts.
    pub fn ct_alloc(&mut self) -> Result<Handle, PtlError> {
        let key = self
            .objects
            .cts
            .insert(Counter::default())
            .ok_or(PtlError::NoSpace)?;
        Ok(Handle::new(HandleKind::Ct, self.kind.index(), key))
    }

    /// PtlCTFree. Triggered operations that wait for it are destroyed; whoever still counts on it
    /// counts nowhere.
    ///
    /// # Errors
    /// PTL_ARG_INVALID for a stale handle.
    pub fn ct_free(&mut self, ct: Handle) -> Result<(), PtlError> {
        let key = self.ct_key(ct)?;
        self.cancel_all(key);
        self.objects.cts.remove(key);
        Ok(())
    }

    /// PtlCTGet.
    ///
    /// # Errors
    /// PTL_ARG_INVALID for a stale handle.
    pub fn ct_get(&self, ct: Handle) -> Result<CtEvent, PtlError> {
        let key = self.ct_key(ct)?;
        self.objects
            .cts
            .get(key)
            .map(Counter::value)
            .ok_or(PtlError::ArgInvalid)
    }

    /// One round of PtlCTWait and PtlCTPoll: a counter that has reached its test or has a failure,
    /// which, and what it said then. Each call begins one counter further on. If none has reached
    /// its test, each test is watched under the number that `watches` has for it from then on: the
    /// next round finds what the counter said at the change that reached the test, whatever was
    /// counted since. The wait ends with [`Interface::ct_unwatch`].
    ///
    /// # Errors
    /// PTL_ARG_INVALID for a stale handle or no counters at all.
    pub fn ct_poll(
        &mut self,
        tests: &[(Handle, u64)],
        watches: &mut [u64],
    ) -> Result<Option<(usize, CtEvent)>, PtlError> {
        tests
            .iter()
            .try_for_each(|&(ct, _)| self.ct_key(ct).map(drop))?;
        let which = self.next_turn(tests.len())?;
        for which in (which..tests.len()).chain(0..which) {
            let (ct, test) = tests[which];
            let counter = self.objects.cts.get(self.ct_key(ct)?);
            let counter = counter.ok_or(PtlError::ArgInvalid)?;
            let reached = match watches.get(which) {
                Some(&NOT_WATCHED) | None => {
                    Some(counter.value()).filter(|value| value.passes(test))
                }
                Some(&number) => counter.watched(number),
            };
            if let Some(value) = reached {
                return Ok(Some((which, value)));
            }
        }
        for (&(ct, test), number) in tests.iter().zip(watches) {
            let key = self.ct_key(ct)?;
            if *number == NOT_WATCHED
                && let Some(counter) = self.objects.cts.get_mut(key)
            {
                self.last_watch += 1;
                *number = self.last_watch;
                counter.watch(*number, test);
            }
        }
        Ok(None)
    }

    /// A wait is over: its tests are watched no longer. Counters that are gone are passed over.
    pub fn ct_unwatch(&mut self, tests: &[(Handle, u64)], watches: &[u64]) {
        for (&(ct, _), &number) in tests.iter().zip(watches) {
            let counter = self.ct_key(ct).ok();
            let counter = counter.and_then(|key| self.objects.cts.get_mut(key));
            if let Some(counter) = counter.filter(|_| number != NOT_WATCHED) {
                counter.unwatch(number);
            }
        }
    }

    /// PtlCTSet.
    ///
    /// # Errors
    /// PTL_ARG_INVALID for a stale handle.
    pub fn ct_set(&mut self, ct: Handle, to: CtEvent) -> Result<(), PtlError> {
        let key = self.ct_key(ct)?;
        self.change_counter(key, |counter, fired| counter.set(to, fired));
        self.carry_out_fired();
        Ok(())
    }

    /// PtlCTInc.
    ///
    /// # Errors
    /// PTL_ARG_INVALID for a stale handle, and if both numbers are other than zero.
    pub fn ct_inc(&mut self, ct: Handle, by: CtEvent) -> Result<(), PtlError> {
        let key = self.ct_key(ct)?;
        if !by.is_increment() {
            return Err(PtlError::ArgInvalid);
        }
        self.change_counter(key, |counter, fired| counter.add(by, fired));
        self.carry_out_fired();
        Ok(())
    }

    fn next_turn(&mut self, of: usize) -> Result<usize, PtlError> {
        self.turn = self.turn.wrapping_add(1);
        self.turn.checked_rem(of).ok_or(PtlError::ArgInvalid)
    }

    fn eq_key(&self, eq: Handle) -> Result<Key, PtlError> {
        let key = eq
            .key(HandleKind::Eq, self.kind.index())
            .ok_or(PtlError::ArgInvalid)?;
        self.objects
            .eqs
            .get(key)
            .map(|_| key)
            .ok_or(PtlError::ArgInvalid)
    }

    pub(crate) fn eq_key_or_none(&self, eq: Handle) -> Result<Option<Key>, PtlError> {
        if eq == Handle::EQ_NONE {
            Ok(None)
        } else {
            self.eq_key(eq).map(Some)
        }
    }

    pub(crate) fn ct_key(&self, ct: Handle) -> Result<Key, PtlError> {
        let key = ct
            .key(HandleKind::Ct, self.kind.index())
            .ok_or(PtlError::ArgInvalid)?;
        self.objects
            .cts
            .get(key)
            .map(|_| key)
            .ok_or(PtlError::ArgInvalid)
    }

    pub(crate) fn ct_key_or_none(&self, ct: Handle) -> Result<Option<Key>, PtlError> {
        if ct == Handle::CT_NONE {
            Ok(None)
        } else {
            self.ct_key(ct).map(Some)
        }
    }

    /// Who asks, as this interface names processes.
    pub(crate) fn peer(&self, arrival: &Arrival) -> Peer {
        if self.kind.logical {
            Peer::Rank(arrival.rank)
        } else {
            Peer::Physical(arrival.initiator)
        }
    }

    /// What a request shows to the lists.
    pub(crate) fn identity(&self, arrival: &Arrival) -> Identity {
        if self.kind.matching {
            Identity {
                peer: self.peer(arrival),
                bits: arrival.match_bits,
            }
        } else {
            Identity::UNMATCHED
        }
    }

    /// Tells an event; without a queue it is told to nobody.
    pub(crate) fn tell(&mut self, eq: Option<Key>, event: Event) {
        if let Some(queue) = eq.and_then(|eq| self.objects.eqs.get_mut(eq)) {
            queue.push(event);
            self.news.events = true;
        }
    }

    /// Uses a place that was kept: for this event, or for none.
    pub(crate) fn tell_reserved(&mut self, eq: Option<Key>, event: Option<Event>) {
        let Some(queue) = eq.and_then(|eq| self.objects.eqs.get_mut(eq)) else {
            return;
        };
        match event {
            Some(event) => {
                queue.push_reserved(event);
                self.news.events = true;
            }
            None => queue.unreserve(),
        }
    }

    /// Counts an outcome: a failure as one, a success as one or as `bytes`. What fires is carried
    /// out before the call of the program or transport returns.
    pub(crate) fn count(&mut self, ct: Option<Key>, fail: NiFail, bytes: Option<u64>) {
        let Some(ct) = ct else { return };
        let by = match fail {
            NiFail::Ok => CtEvent {
                success: bytes.unwrap_or(1),
                failure: 0,
            },
            _ => CtEvent {
                success: 0,
                failure: 1,
            },
        };
        self.change_counter(ct, |counter, fired| counter.add(by, fired));
    }

    pub(crate) fn change_counter(
        &mut self,
        ct: Key,
        change: impl FnOnce(&mut Counter, &mut VecDeque<Triggered>),
    ) {
        if let Some(counter) = self.objects.cts.get_mut(ct) {
            change(counter, &mut self.triggers.fired);
            self.news.counters = true;
        }
    }
}
