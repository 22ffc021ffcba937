//! The machine's tables and the few steps that everything else is made of: making and forgetting an identifier, finding
//! one, sending, telling, and what comes next by itself.

use crate::connection::{Connection, Pending};
use crate::event::{CmEvent, Event};
use crate::limits::CmLimits;
use crate::params::{ListenParams, Summary};
use crate::random::Random;
use crate::table::{Kind, State};
use crate::types::{CmError, Peer, Route, UserId};
use ferriband_transport::types::Instant;
use ferriband_wire::cm::CmMad;
use ferriband_wire::mad::MAD_LEN;
use ferriband_wire::{CommId, Guid, Psn, Qpn, TransactionId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Bits of an identifier below the number of the process.
const RANDOM_BITS: u32 = 20;

/// A listener and what it has before it.
#[derive(Debug)]
pub(crate) struct Listener {
    pub params: ListenParams,
    /// Greatest number of `waiting`.
    pub backlog: u32,
    /// Requests that have not been taken.
    pub waiting: u32,
}

/// The connection manager of one process: all identifiers of all its devices.
#[derive(Debug)]
pub struct Machine {
    slot: u32,
    pub(crate) limits: CmLimits,
    pub(crate) random: Random,
    /// By identifier.
    pub(crate) connections: BTreeMap<u32, Connection>,
    pub(crate) listeners: BTreeMap<UserId, Listener>,
    /// By the other side's address, adapter and identifier: duplicates of a REQ.
    by_id: BTreeMap<(Peer, u64, u32), u32>,
    /// By the other side's address, adapter and queue pair: stale connections.
    by_qpn: BTreeMap<(Peer, u64, u32), u32>,
    /// By the other side's address and request: duplicates of a SIDR_REQ.
    by_request: BTreeMap<(Peer, u32), u32>,
    timers: BTreeSet<(Instant, u32)>,
    /// Identifiers in time-wait, oldest first; some may be gone.
    waiting: VecDeque<u32>,
    /// Of these, those that hold an answer to a request that came to nothing.
    remembered: VecDeque<u32>,
    /// How many identifiers are not in time-wait.
    live: usize,
    transmits: VecDeque<(Route, [u8; MAD_LEN])>,
    events: VecDeque<Event>,
}

impl Machine {
    /// A machine without identifiers. `slot` is the number of this process on its host, 12 bits: the top of its
    /// identifiers, by which a message that comes to another process finds its way. `key` must be random.
    pub fn new(slot: u32, limits: CmLimits, key: [u64; 2]) -> Self {
        Machine {
            slot: slot << RANDOM_BITS,
            limits,
            random: Random::new(key),
            connections: BTreeMap::new(),
            listeners: BTreeMap::new(),
            by_id: BTreeMap::new(),
            by_qpn: BTreeMap::new(),
            by_request: BTreeMap::new(),
            timers: BTreeSet::new(),
            waiting: VecDeque::new(),
            remembered: VecDeque::new(),
            live: 0,
            transmits: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// The process whose identifier this is.
    pub const fn slot_of(comm: CommId) -> u32 {
        comm.0 >> RANDOM_BITS
    }

    /// The next message to send: written to `out`, and where it goes.
    pub fn poll_transmit(&mut self, out: &mut [u8; MAD_LEN]) -> Option<Route> {
        let (route, mad) = self.transmits.pop_front()?;
        *out = mad;
        Some(route)
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        if let Some(connection) = self.connections.get_mut(&event.comm.0) {
            connection.untold = false;
        }
        Some(event)
    }

    /// When `handle_timeout` is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// The state of an identifier; Idle if there is no such one.
    pub fn state(&self, comm: CommId) -> State {
        self.connections
            .get(&comm.0)
            .map_or(State::Idle, |connection| connection.state)
    }

    /// Identifiers, those in time-wait included.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Nothing is left: no identifier, and nothing about one.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
            && self.by_id.is_empty()
            && self.by_qpn.is_empty()
            && self.by_request.is_empty()
            && self.timers.is_empty()
            && self.live == 0
            && self
                .listeners
                .values()
                .all(|listener| listener.waiting == 0)
    }

    /// Every identifier, in order.
    pub fn summaries(&self) -> impl Iterator<Item = Summary> + '_ {
        self.connections
            .iter()
            .map(|(comm, connection)| connection.summary(CommId(*comm)))
    }

    /// What is known of an identifier.
    pub fn summary(&self, comm: CommId) -> Option<Summary> {
        self.connections
            .get(&comm.0)
            .map(|connection| connection.summary(comm))
    }

    pub(crate) fn new_psn(&mut self, wish: Option<Psn>) -> Psn {
        wish.unwrap_or_else(|| Psn::new(self.random.next_u32()))
    }

    /// A transaction of an identifier: the upper half is random.
    pub(crate) fn new_transaction(&mut self, comm: CommId) -> TransactionId {
        TransactionId(u64::from(self.random.next_u32()) << 32 | u64::from(comm.0))
    }

    /// An identifier that is not in use, time-wait included.
    pub(crate) fn new_id(&mut self) -> Result<CommId, CmError> {
        if self.live >= self.limits.ids {
            return Err(CmError::TooMany);
        }
        if self.connections.len() >= self.limits.all_ids {
            self.forget_oldest();
        }
        // At most one in sixteen identifiers is in use, so a few draws do; a table of other limits may need more.
        for _ in 0..1_000 {
            let low = self.random.next_u32() >> (u32::BITS - RANDOM_BITS);
            let comm = self.slot | low;
            if comm != 0 && !self.connections.contains_key(&comm) {
                return Ok(CommId(comm));
            }
        }
        Err(CmError::TooMany)
    }

    /// Puts a new identifier in its table. It must not be in time-wait.
    pub(crate) fn insert(&mut self, comm: CommId, connection: Connection) {
        self.live += 1;
        self.connections.insert(comm.0, connection);
    }

    /// Forgets an identifier.
    pub(crate) fn remove(&mut self, comm: CommId) {
        self.set_deadline(comm, None);
        self.unindex(comm);
        self.unindex_id(comm);
        self.release_backlog(comm);
        if let Some(connection) = self.connections.remove(&comm.0)
            && connection.state != State::TimeWait
        {
            self.live -= 1;
        }
    }

    /// Ends an identifier's connection: packets and duplicates of it may still come. Nothing waits for an answer.
    pub(crate) fn enter_time_wait(&mut self, now: Instant, comm: CommId, for_ns: u64) {
        self.unindex(comm);
        self.release_backlog(comm);
        let Some(connection) = self.connections.get_mut(&comm.0) else {
            return;
        };
        connection.pending = None;
        if connection.state != State::TimeWait {
            connection.state = State::TimeWait;
            self.live -= 1;
            self.waiting.push_back(comm.0);
        }
        self.set_deadline(comm, Some(now.plus_ns(for_ns)));
        // The queue keeps some that are gone: it is swept when they are the most.
        if self.waiting.len() > 2 * self.connections.len() + 64 {
            let connections = &self.connections;
            let over = |comm: &u32| {
                connections
                    .get(comm)
                    .is_some_and(|connection| connection.state == State::TimeWait)
            };
            self.waiting.retain(over);
        }
    }

    /// Time-wait of an identifier that nobody holds any more and that only answers duplicates.
    pub(crate) fn remember(&mut self, now: Instant, comm: CommId, for_ns: u64) {
        self.enter_time_wait(now, comm, for_ns);
        if let Some(connection) = self.connections.get_mut(&comm.0) {
            connection.user = None;
            self.remembered.push_back(comm.0);
        }
        if self.remembered.len() > self.limits.remembered
            && let Some(oldest) = self.remembered.pop_front()
        {
            // It may be gone, and its number somebody else's.
            self.forget_if_over(oldest);
        }
    }

    fn forget_oldest(&mut self) {
        while let Some(oldest) = self.waiting.pop_front() {
            if self.forget_if_over(oldest) {
                return;
            }
        }
    }

    /// Forgets an identifier in time-wait whose exit nobody waits for, or tells it early.
    fn forget_if_over(&mut self, comm: u32) -> bool {
        let over = self
            .connections
            .get(&comm)
            .is_some_and(|connection| connection.state == State::TimeWait);
        if over {
            self.tell(CommId(comm), CmEvent::TimewaitExit);
            self.remove(CommId(comm));
        }
        over
    }

    pub(crate) fn set_deadline(&mut self, comm: CommId, at: Option<Instant>) {
        let Some(connection) = self.connections.get_mut(&comm.0) else {
            return;
        };
        if let Some(old) = connection.deadline {
            self.timers.remove(&(old, comm.0));
        }
        connection.deadline = at;
        if let Some(at) = at {
            self.timers.insert((at, comm.0));
        }
    }

    /// The identifier whose time has come, if any; its deadline is cleared.
    pub(crate) fn due(&mut self, now: Instant) -> Option<CommId> {
        let (at, comm) = *self.timers.first()?;
        if at > now {
            return None;
        }
        self.set_deadline(CommId(comm), None);
        // Should the connection be gone its timer is too: `remove` sees to that.
        self.timers.remove(&(at, comm));
        Some(CommId(comm))
    }

    /// Enters the other side's identifier; false if it is somebody else's.
    pub(crate) fn index_id(&mut self, comm: CommId) -> bool {
        let Some(connection) = self.connections.get_mut(&comm.0) else {
            return false;
        };
        let Some(remote) = connection.remote else {
            return false;
        };
        let key = (connection.route.peer(), connection.remote_guid.0, remote.0);
        if *self.by_id.entry(key).or_insert(comm.0) != comm.0 {
            return false;
        }
        connection.known_by_id = true;
        true
    }

    /// Enters the other side's queue pair. The caller has looked whether it is somebody else's.
    pub(crate) fn index_qpn(&mut self, comm: CommId) {
        if let Some(connection) = self.connections.get_mut(&comm.0) {
            let key = (
                connection.route.peer(),
                connection.remote_guid.0,
                connection.remote_qpn.0,
            );
            self.by_qpn.insert(key, comm.0);
            connection.known_by_qpn = true;
        }
    }

    /// Enters a SIDR_REQ.
    pub(crate) fn index_request(&mut self, comm: CommId) {
        if let Some(connection) = self.connections.get_mut(&comm.0)
            && let Some(remote) = connection.remote
        {
            self.by_request
                .insert((connection.route.peer(), remote.0), comm.0);
            connection.known_by_request = true;
        }
    }

    /// Takes the other side's queue pair out of its table: it may be used again.
    fn unindex(&mut self, comm: CommId) {
        if let Some(connection) = self.connections.get_mut(&comm.0)
            && std::mem::take(&mut connection.known_by_qpn)
        {
            let key = (
                connection.route.peer(),
                connection.remote_guid.0,
                connection.remote_qpn.0,
            );
            self.by_qpn.remove(&key);
        }
    }

    fn unindex_id(&mut self, comm: CommId) {
        let Some(connection) = self.connections.get_mut(&comm.0) else {
            return;
        };
        let (peer, guid) = (connection.route.peer(), connection.remote_guid.0);
        let Some(remote) = connection.remote else {
            return;
        };
        if std::mem::take(&mut connection.known_by_id) {
            self.by_id.remove(&(peer, guid, remote.0));
        }
        if std::mem::take(&mut connection.known_by_request) {
            self.by_request.remove(&(peer, remote.0));
        }
    }

    /// Sends later messages another way: the tables follow.
    pub(crate) fn reroute(&mut self, comm: CommId, route: Route) {
        let Some(connection) = self.connections.get(&comm.0) else {
            return;
        };
        let (by_id, by_qpn) = (connection.known_by_id, connection.known_by_qpn);
        self.unindex(comm);
        self.unindex_id(comm);
        if let Some(connection) = self.connections.get_mut(&comm.0) {
            connection.peers = [Some(route.peer()), Some(connection.route.peer())];
            connection.route = route;
        }
        if by_id {
            self.index_id(comm);
        }
        if by_qpn {
            self.index_qpn(comm);
        }
    }

    pub(crate) fn find_id(&self, peer: Peer, guid: Guid, remote: CommId) -> Option<CommId> {
        let comm = self.by_id.get(&(peer, guid.0, remote.0))?;
        Some(CommId(*comm))
    }

    pub(crate) fn find_qpn(&self, peer: Peer, guid: Guid, qpn: Qpn) -> Option<CommId> {
        let comm = self.by_qpn.get(&(peer, guid.0, qpn.0))?;
        Some(CommId(*comm))
    }

    pub(crate) fn find_request(&self, peer: Peer, request: CommId) -> Option<CommId> {
        let comm = self.by_request.get(&(peer, request.0))?;
        Some(CommId(*comm))
    }

    /// The request has left its listener's backlog, if it was there.
    pub(crate) fn release_backlog(&mut self, comm: CommId) {
        if let Some(connection) = self.connections.get_mut(&comm.0)
            && let Some(user) = connection.backlog_of.take()
            && let Some(listener) = self.listeners.get_mut(&user)
        {
            listener.waiting -= 1;
        }
    }

    /// Queues a message; if too many wait already it is lost, as it could be under way.
    pub(crate) fn send(&mut self, route: Route, mad: &CmMad) {
        let mut bytes = [0; MAD_LEN];
        let emitted = mad.emit(&mut bytes).is_ok();
        debug_assert!(emitted, "a message was not checked: {mad}");
        if emitted && self.transmits.len() < self.limits.transmits {
            self.transmits.push_back((route, bytes));
        }
    }

    /// Sends a message of an identifier.
    pub(crate) fn send_from(&mut self, comm: CommId, mad: &CmMad) {
        if let Some(connection) = self.connections.get(&comm.0) {
            let route = connection.route;
            self.send(route, mad);
        }
    }

    /// Sends a message that waits for an answer, and again until it comes.
    pub(crate) fn send_pending(&mut self, now: Instant, comm: CommId, mad: CmMad) {
        let Some(connection) = self.connections.get_mut(&comm.0) else {
            return;
        };
        let timeout_ns = connection.response_ns;
        let pending = Pending::new(mad, connection.retries, timeout_ns);
        let pause_ns = pending.first_pause_ns();
        connection.pending = Some(pending);
        self.set_deadline(comm, Some(now.plus_ns(pause_ns)));
        self.send_from(comm, &mad);
    }

    /// Queues an event, if anybody holds the identifier.
    pub(crate) fn tell(&mut self, comm: CommId, kind: CmEvent) {
        if let Some(user) = self
            .connections
            .get(&comm.0)
            .and_then(|connection| connection.user)
        {
            self.events.push_back(Event { user, comm, kind });
        }
    }

    /// Queues the event of a request.
    pub(crate) fn tell_request(&mut self, comm: CommId, kind: CmEvent) {
        if let Some(connection) = self.connections.get_mut(&comm.0) {
            connection.untold = true;
        }
        self.tell(comm, kind);
    }

    /// Takes a request's event back if it was not taken out yet: then nobody knows of the identifier. So a peer that asks
    /// and withdraws, again and again, fills no queue.
    pub(crate) fn withdraw(&mut self, comm: CommId) -> bool {
        let untold = self
            .connections
            .get(&comm.0)
            .is_some_and(|connection| connection.untold);
        if untold {
            self.forget_events(comm);
        }
        untold
    }

    /// Drops the events of an identifier that have not been taken out.
    pub(crate) fn forget_events(&mut self, comm: CommId) {
        self.events.retain(|event| event.comm != comm);
    }

    /// Room for one more event.
    pub(crate) fn events_have_room(&self) -> bool {
        self.events.len() < self.limits.events
    }

    /// What a message does to an identifier is refused in this state.
    pub(crate) fn in_state(&self, comm: CommId, allowed: &[State]) -> Result<&Connection, CmError> {
        let connection = self.connections.get(&comm.0).ok_or(CmError::NoSuchId)?;
        if allowed.contains(&connection.state) {
            Ok(connection)
        } else {
            Err(CmError::State(connection.state))
        }
    }

    /// Time-wait of a connection: as long as packets of it may be under way.
    pub(crate) fn time_wait_ns(&self, comm: CommId) -> u64 {
        self.connections
            .get(&comm.0)
            .map_or(0, Connection::path_ns)
            .min(self.limits.max_time_wait.ns())
    }

    /// How long an answer is kept for duplicates of a request that came to nothing: until the other side has asked as
    /// often as it does. Its last message may be the only one that comes through.
    pub(crate) fn memory_ns(&self, comm: CommId) -> u64 {
        self.connections.get(&comm.0).map_or(0, |connection| {
            let again = connection.asks_again_ns;
            let times = u64::from(connection.retries) + 2;
            again.min(self.limits.max_response_timeout.ns()) * times + connection.delayed_ns
        })
    }

    /// A duplicate's answer goes out again.
    pub(crate) fn resend(&mut self, comm: CommId, kind: Kind) -> bool {
        let answer = self
            .connections
            .get(&comm.0)
            .and_then(|connection| connection.answer_to(kind));
        if let Some(mad) = &answer {
            self.send_from(comm, mad);
        }
        answer.is_some()
    }
}
