//! The process as its peers see it: where it listens, and its connections.
//!
//! Owns: which peer has which connection, how one is made and how it ends, and what completions
//! are of. Must not know: threads, and what requests mean.

use crate::adapter::{Adapter, NO_LINK};
use crate::hello::is_somewhere;
use crate::keeping::Keeping;
use crate::link::Link;
use crate::queues::{Id, Queues};
use crate::trace::{Name, Tracer, began};
use crate::users::{Left, Peer, Users};
use crate::{Error, Settings};
use ferriband_ibv::{Cm, CmChannel, CmId, CompChannel, Cq, Pd, PortSpace, Wc};
use ferriband_putget_proto::{Config, NotStarted, Start, Started, Stats};
use ferriband_settings::Values;
use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How long an address, or a route, is looked for.
pub(crate) const RESOLVE: Duration = Duration::from_secs(2);
/// How long a request is waited for for which the peer has refused this side's.
const AWAIT: Duration = Duration::from_secs(3);
/// Requests for connections that wait to be taken.
const BACKLOG: u32 = 1024;

/// How far it is with a peer.
pub(crate) enum State {
    /// Nothing is under way.
    Nobody,
    /// Asked; from the request on with queue pairs.
    Asking(Arc<CmId>, Option<Box<Queues>>, usize),
    /// Its request is to come: it refused this side's for it, at this time of CLOCK_MONOTONIC.
    Awaited(Duration),
    /// In this place. False until the peer has both queue pairs ready.
    Joined(u16, bool),
}

pub(crate) struct Entry {
    pub address: SocketAddr,
    pub uid: u32,
    /// Which process it was, and how often it had asked, when it last told.
    pub last: (u32, u32),
    /// How often this process has asked it.
    pub asked: u32,
    pub state: State,
}

pub(crate) struct Place<H> {
    pub life: u16,
    pub link: Option<Link<H>>,
}

/// The connections of a process.
pub struct Node<U: Users> {
    /// Memory of the process, and those who wait.
    pub users: U,
    pub(crate) settings: Settings,
    pub(crate) channel: Arc<CmChannel>,
    listener: Arc<CmId>,
    pub(crate) own: SocketAddr,
    /// Tells this process from one that listened here before.
    pub(crate) instance: u32,
    pub(crate) adapters: Vec<Adapter>,
    pub(crate) peers: Vec<Entry>,
    known: BTreeMap<SocketAddr, Peer>,
    pub(crate) places: Vec<Place<U::Hold>>,
    /// An adapter was opened since this was last asked.
    pub(crate) opened: bool,
    /// Connections that are over, as soon as what came before is handed over.
    pub(crate) over: Vec<(Id, Left)>,
    /// The queues are armed for what comes unsolicited, too.
    armed_all: bool,
    /// A connection waits for what may come unsolicited.
    pub(crate) wide: bool,
    /// Places of connections with operations by leases under way.
    pub(crate) busy: Vec<u16>,
    /// The queues are armed: perhaps nobody looks.
    pub(crate) armed: bool,
    /// A time has come to be that the thread does not know of.
    pub(crate) timed: bool,
    /// Which connections wait for their peers, and since when they were looked at.
    pub(crate) keeping: Keeping,
    /// How often in a row events of the manager could not be had.
    pub(crate) deaf: u8,
    /// Nothing is served any more.
    pub(crate) dead: bool,
    /// What connections have done that are over.
    pub(crate) past: Stats,
    /// The process is traced.
    pub(crate) tracer: Option<Arc<Tracer>>,
}

impl<U: Users> Node<U> {
    /// Listens at an address; port 0 chooses one.
    ///
    /// # Errors
    /// The address belongs to no adapter; somebody listens there.
    pub fn listen(
        cm: &'static Cm,
        at: SocketAddr,
        settings: Settings,
        users: U,
    ) -> Result<Node<U>, Error> {
        settings.config.check()?;
        let channel = CmChannel::create(cm)?;
        let listener = CmId::create(&channel, PortSpace::Tcp, 0)?;
        listener.bind(at)?;
        listener.listen(BACKLOG)?;
        let own = listener.local_address().ok_or(Error::NoAdapter)?;
        if !is_somewhere(own) {
            return Err(Error::Unspecified);
        }
        Ok(Node {
            users,
            settings,
            channel,
            listener,
            own,
            instance: RandomState::new().build_hasher().finish() as u32,
            adapters: Vec::new(),
            peers: Vec::new(),
            known: BTreeMap::new(),
            places: Vec::new(),
            opened: false,
            armed_all: false,
            wide: false,
            busy: Vec::new(),
            armed: false,
            timed: false,
            keeping: Keeping::default(),
            deaf: 0,
            dead: false,
            over: Vec::new(),
            past: Stats::default(),
            tracer: None,
        })
    }

    /// Writes down what connections do that are made from now on, if the settings ask for that.
    ///
    /// # Errors
    /// The directory that they name cannot be written to.
    pub fn trace(&mut self, values: &Values) -> Result<(), Error> {
        self.tracer = Tracer::asked_for(self.own, values)?;
        Ok(())
    }

    /// A call is over that has begun when [`began`] said.
    pub(crate) fn called(&self, name: Name, began_ns: Option<u64>) {
        if let (Some(tracer), Some(began_ns)) = (&self.tracer, began_ns) {
            tracer.called(name, began_ns);
        }
    }

    /// Where it listens: by this its peers know it.
    pub fn address(&self) -> SocketAddr {
        self.own
    }

    /// What this side receives.
    pub fn config(&self) -> &Config {
        &self.settings.config
    }

    /// The adapter and the domain that memory for RDMA with this peer is registered in; None
    /// without a connection.
    pub fn domain(&self, peer: Peer) -> Option<&Arc<Pd>> {
        let link = self.link(peer)?;
        Some(&self.adapters[link.adapter].pd)
    }

    /// The domain of the adapter that the process listens on, opened now if need be.
    ///
    /// # Errors
    /// The adapter cannot be opened.
    pub fn own_domain(&mut self) -> Result<Arc<Pd>, Error> {
        let listener = Arc::clone(&self.listener);
        let adapter = self.adapter(&listener)?;
        Ok(Arc::clone(&self.adapters[adapter].pd))
    }

    /// The peer that listens at an address. No connection is made.
    pub fn peer(&mut self, address: SocketAddr) -> Peer {
        let next = Peer(self.peers.len() as u32);
        let peer = *self.known.entry(address).or_insert(next);
        if peer == next {
            self.peers.push(Entry {
                address,
                uid: u32::MAX,
                last: (0, 0),
                asked: 0,
                state: State::Nobody,
            });
        }
        peer
    }

    /// Where a peer listens.
    pub fn address_of(&self, peer: Peer) -> Option<SocketAddr> {
        self.peers.get(peer.0 as usize).map(|entry| entry.address)
    }

    /// The user of a peer, by its own word; `u32::MAX` before there was a connection.
    pub fn uid_of(&self, peer: Peer) -> u32 {
        let entry = self.peers.get(peer.0 as usize);
        entry.map_or(u32::MAX, |entry| entry.uid)
    }

    /// Asks for a connection, unless there is one or one is under way. [`Users::joined`] or
    /// [`Users::left`] follows.
    ///
    /// # Errors
    /// The address cannot be asked.
    pub fn join(&mut self, peer: Peer) -> Result<(), Error> {
        if self.dead {
            return Err(Error::Dead);
        }
        let entry = self.entry(peer)?;
        if !matches!(entry.state, State::Nobody) {
            return Ok(());
        }
        let to = entry.address;
        let id = CmId::create(&self.channel, PortSpace::Tcp, peer.0.into())?;
        let from = SocketAddr::new(self.own.ip(), 0);
        id.resolve_address(Some(from), to, RESOLVE)?;
        if let Some(entry) = self.peers.get_mut(peer.0 as usize) {
            entry.asked += 1;
        }
        self.set(peer, State::Asking(id, None, 0));
        Ok(())
    }

    /// Whether requests to a peer may be begun.
    pub fn is_joined(&self, peer: Peer) -> bool {
        let entry = self.peers.get(peer.0 as usize);
        entry.is_some_and(|entry| matches!(entry.state, State::Joined(_, true)))
    }

    /// Whether a connection to a peer is being made.
    pub fn is_meeting(&self) -> bool {
        let mut states = self.peers.iter().map(|entry| &entry.state);
        states.any(|state| !matches!(state, State::Nobody | State::Joined(_, true)))
    }

    /// Ends the connection to a peer. What is under way is undeliverable.
    pub fn leave(&mut self, peer: Peer) {
        match self.peers.get(peer.0 as usize).map(|entry| &entry.state) {
            Some(State::Joined(place, _)) => {
                let place = *place;
                // what has come before is handed over first
                let _ = self.drain_all();
                self.end(place, Left::Lost);
            }
            Some(State::Asking(..) | State::Awaited(_)) => self.give_up(peer, Left::Lost),
            Some(State::Nobody) | None => {}
        }
    }

    /// Begins a request.
    ///
    /// # Errors
    /// [`NotStarted::Full`] also where there is no connection yet; [`NotStarted::Lost`] where there
    /// is none.
    pub fn start(&mut self, peer: Peer, start: &Start<'_>) -> Result<Started, NotStarted> {
        let entry = self.peers.get(peer.0 as usize).ok_or(NotStarted::Lost)?;
        let place = match entry.state {
            State::Joined(place, true) => place,
            State::Nobody => return Err(NotStarted::Lost),
            _ => return Err(NotStarted::Full),
        };
        let Some(link) = &mut self.places[usize::from(place)].link else {
            return Err(NotStarted::Lost);
        };
        let adapter = &mut self.adapters[link.adapter];
        let began_ns = began(self.tracer.as_ref());
        let started = link.start(start, adapter, &mut self.users);
        self.wide |= started == Err(NotStarted::Full);
        if link.queues.failed {
            self.over.push((link.queues.id_of(), Left::Lost));
        }
        if started != Ok(Started::Over) {
            self.keep();
        }
        self.called(
            Name::of_start(start.kind),
            began_ns.filter(|_| started.is_ok()),
        );
        started
    }

    /// Bytes that go short to this peer in a put whose address has so many bytes, and bytes that
    /// come short in a get.
    pub fn rooms(&self, peer: Peer, address_bytes: usize) -> Option<(u64, u64)> {
        let machine = &self.link(peer)?.machine;
        Some((machine.put_room(address_bytes), machine.get_room()))
    }

    /// Whether no request to this peer waits for a response.
    pub fn is_quiet(&self, peer: Peer) -> bool {
        self.link(peer).is_none_or(|link| link.machine.is_quiet())
    }

    /// Whether peers' adapters have all messages that were sent.
    pub fn is_drained(&mut self) -> bool {
        (0..self.places.len()).all(|place| {
            self.reap(place as u16);
            let link = self.places[place].link.as_ref();
            link.is_none_or(|link| link.queues.is_drained())
        })
    }

    /// What the connection to a peer has done so far.
    pub fn stats(&self, peer: Peer) -> Option<&Stats> {
        Some(self.link(peer)?.machine.stats())
    }

    /// Looks at all completions that are there. Whether there was one.
    ///
    /// # Errors
    /// Nothing can be served any more.
    pub fn look(&mut self) -> Result<bool, Error> {
        let mut found = self.drain_all()?;
        if !self.over.is_empty() {
            self.end_all();
            found = true;
        }
        Ok(found)
    }

    /// Hands completions over. Whether there was one.
    fn drain_all(&mut self) -> Result<bool, Error> {
        let mut found = false;
        for adapter in 0..self.adapters.len() {
            found |= match self.drain_adapter(adapter) {
                Ok(found) => found,
                Err(why) => {
                    self.broken(adapter, why)?;
                    true
                }
            };
        }
        Ok(found | self.drain_direct())
    }

    fn drain_adapter(&mut self, adapter: usize) -> Result<bool, Error> {
        let mut found = false;
        for group in 0..self.adapters[adapter].groups.len() {
            let queues = &self.adapters[adapter].groups[group];
            let (received, rdma) = (Arc::clone(&queues.received), Arc::clone(&queues.rdma));
            found |= self.drain(&received, Node::received)?;
            // a look at a queue is a look at all that the adapter has
            if self.adapters[adapter].groups[group].has_rdma() {
                found |= self.drain(&rdma, Node::moved)?;
            }
        }
        Ok(found)
    }

    /// Asks for events: the descriptors of [`Node::channels`] are readable when something comes. To
    /// be looked once more afterwards. `all` is for what comes unsolicited, too.
    ///
    /// # Errors
    /// Nothing can be served any more.
    pub fn arm(&mut self, all: bool) -> Result<(), Error> {
        self.find_starved();
        let all = all || self.wide;
        self.armed_all = all;
        self.armed = true;
        for adapter in 0..self.adapters.len() {
            let mut groups = self.adapters[adapter].groups.iter();
            let armed = groups.try_for_each(|group| {
                group.received.arm(!all)?;
                group.rdma.arm(false)
            });
            if let Err(why) = armed {
                self.broken(adapter, why.into())?;
            }
        }
        self.arm_direct();
        Ok(())
    }

    /// Channels whose descriptors are readable when [`Node::take_events`] has something to do.
    pub fn channels(&self) -> (Vec<Arc<CompChannel>>, Arc<CmChannel>) {
        let channels = self.adapters.iter().map(|adapter| &adapter.channel);
        (channels.cloned().collect(), Arc::clone(&self.channel))
    }

    /// Whether there is a channel that was not there before.
    pub(crate) fn take_opened(&mut self) -> bool {
        std::mem::take(&mut self.opened)
    }

    /// Ends all connections.
    pub fn leave_all(&mut self) {
        for peer in 0..self.peers.len() {
            self.leave(Peer(peer as u32));
        }
    }

    /// Takes what the descriptors tell: events of completion queues, which are no longer armed, and
    /// news of the connection manager. Whether there were such news.
    ///
    /// # Errors
    /// Nothing can be served any more.
    pub fn take_events(&mut self) -> Result<bool, Error> {
        for adapter in 0..self.adapters.len() {
            let channel = Arc::clone(&self.adapters[adapter].channel);
            loop {
                match channel.next_event() {
                    Ok(Some(NO_LINK)) => {}
                    Ok(Some(tag)) => {
                        self.rearm(tag as u16);
                        self.reap(tag as u16);
                    }
                    Ok(None) => break,
                    Err(why) => {
                        self.broken(adapter, why.into())?;
                        break;
                    }
                }
            }
        }
        let mut news = false;
        loop {
            match self.channel.next_event() {
                Ok(Some(event)) => {
                    self.managed(event);
                    news = true;
                }
                Ok(None) => break,
                Err(why) => {
                    self.is_deaf(why.into())?;
                    return Ok(news);
                }
            }
        }
        self.deaf = 0;
        Ok(news)
    }

    /// Whether the thread has to look: a connection is over, or waits for more than the queues are
    /// armed for, or until a time.
    pub(crate) fn needs_thread(&self) -> bool {
        let unheard = self.wide && self.armed && !self.armed_all;
        !self.over.is_empty() || self.timed || unheard
    }

    /// Whether something may wait for room at a peer, or for what a peer says unsolicited.
    pub(crate) const fn is_starved(&self) -> bool {
        self.wide
    }

    /// Finds out whether something still does.
    pub(crate) fn find_starved(&mut self) {
        let mut links = self.places.iter().filter_map(|place| place.link.as_ref());
        self.wide = links.any(|link| link.machine.waits_for_all());
    }

    /// Asks again where a peer's request did not come, and ends connections to peers that keep
    /// leases. How long until this is to be called again.
    pub(crate) fn tick(&mut self, now: Duration) -> Option<Duration> {
        let due = |entry: &Entry| match entry.state {
            State::Awaited(since) => Some((since + AWAIT).saturating_sub(now)),
            _ => None,
        };
        let times: Vec<(u32, Duration)> = (0..)
            .zip(&self.peers)
            .filter_map(|(peer, entry)| Some((peer, due(entry)?)))
            .collect();
        for (peer, _) in times.iter().filter(|(_, time)| time.is_zero()) {
            self.set(Peer(*peer), State::Nobody);
            if self.join(Peer(*peer)).is_err() {
                self.give_up(Peer(*peer), Left::Unreachable);
            }
        }
        self.timed = false;
        let leases = self.tick_leases(now);
        let silent = self.tick_keeping(now);
        let times = times.into_iter().map(|(_, time)| time);
        let times = times.filter(|time| !time.is_zero());
        times.chain(leases).chain(silent).min()
    }

    /// A send queue of messages was armed for all, and is for failures again.
    fn rearm(&mut self, place: u16) {
        let found = self.places.get_mut(usize::from(place));
        if let Some(link) = found.and_then(|place| place.link.as_mut()) {
            link.queues.failed |= link.queues.sent_cq.arm(true).is_err();
        }
    }

    /// Somebody looks: what the queues are armed for does not matter.
    pub(crate) fn is_watched(&mut self) {
        self.armed = false;
    }

    /// A send queue of messages has told of a failure.
    fn reap(&mut self, place: u16) {
        let found = self.places.get_mut(usize::from(place));
        if let Some(link) = found.and_then(|place| place.link.as_mut()) {
            link.queues.reap(&mut self.adapters[link.adapter].buffers);
            if link.queues.failed {
                self.over.push((link.queues.id_of(), Left::Lost));
            }
        }
    }

    fn drain(
        &mut self,
        cq: &Cq,
        mut take: impl FnMut(&mut Self, Id, &Wc) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let mut wcs = [Wc::default(); 16];
        let mut found = false;
        loop {
            let count = cq.poll(&mut wcs)?;
            for wc in &wcs[..count] {
                let id = Id::of(wc.id());
                let taken = match wc.is_ok() {
                    true => take(self, id, wc),
                    false => Err(Error::Failed),
                };
                if taken.is_err() && self.lives(id) {
                    self.stop(id);
                }
            }
            found |= count > 0;
            if count < wcs.len() {
                return Ok(found);
            }
        }
    }

    /// A connection has failed: nothing more of it is handed over.
    fn stop(&mut self, id: Id) {
        if let Some(link) = &mut self.places[usize::from(id.place)].link {
            link.queues.failed = true;
            self.over.push((id, Left::Lost));
        }
    }

    fn lives(&self, id: Id) -> bool {
        let place = self.places.get(usize::from(id.place));
        place.is_some_and(|place| place.life == id.life && place.link.is_some())
    }

    fn received(&mut self, id: Id, wc: &Wc) -> Result<(), Error> {
        let began_ns = began(self.tracer.as_ref());
        let received = self.with(id, |link, adapter, users| {
            link.received(wc, id.what, adapter, users)
        });
        self.called(Name::TakeMessage, began_ns);
        received
    }

    fn moved(&mut self, id: Id, _: &Wc) -> Result<(), Error> {
        let began_ns = began(self.tracer.as_ref());
        let moved = self.with(id, |link, adapter, users| {
            Ok(link.moved(id.what, adapter, users)?)
        });
        self.called(Name::EndRdma, began_ns);
        moved
    }

    /// Calls with the connection that a completion is of, if it still is.
    fn with(
        &mut self,
        id: Id,
        call: impl FnOnce(&mut Link<U::Hold>, &mut Adapter, &mut U) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if !self.lives(id) {
            return Ok(());
        }
        let Some(link) = &mut self.places[usize::from(id.place)].link else {
            return Ok(());
        };
        if link.queues.failed {
            return Ok(());
        }
        let adapter = &mut self.adapters[link.adapter];
        call(link, adapter, &mut self.users)?;
        self.wide |= link.machine.waits_for_all();
        match link.queues.failed {
            true => Err(Error::Failed),
            false => Ok(()),
        }
    }

    /// Ends connections that are over, after what completed before.
    fn end_all(&mut self) {
        for (id, why) in std::mem::take(&mut self.over) {
            if self.lives(id) {
                self.end(id.place, why);
            }
        }
    }

    pub(crate) fn end(&mut self, place: u16, why: Left) {
        if let Some(peer) = self.end_quietly(place) {
            self.users.left(peer, why);
        }
    }

    /// Ends a connection; whose it was.
    pub(crate) fn end_quietly(&mut self, place: u16) -> Option<Peer> {
        let link = self.places[usize::from(place)].link.take()?;
        let peer = link.peer;
        self.past.add(link.machine.stats());
        self.set(peer, State::Nobody);
        let adapter = link.adapter;
        link.end(&mut self.adapters[adapter], &mut self.users);
        Some(peer)
    }

    fn link(&self, peer: Peer) -> Option<&Link<U::Hold>> {
        match self.peers.get(peer.0 as usize)?.state {
            State::Joined(place, _) => self.places[usize::from(place)].link.as_ref(),
            _ => None,
        }
    }

    pub(crate) fn entry(&self, peer: Peer) -> Result<&Entry, Error> {
        self.peers.get(peer.0 as usize).ok_or(Error::Unknown)
    }

    pub(crate) fn set(&mut self, peer: Peer, state: State) {
        if let Some(entry) = self.peers.get_mut(peer.0 as usize) {
            entry.state = state;
        }
    }
}
