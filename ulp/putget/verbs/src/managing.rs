//! How a connection comes to be, and how its end is told: news of the connection manager.
//!
//! Owns: the steps of asking and of accepting. Must not know: requests.
//!
//! The asking side gives its P to the manager, the accepting side its N; of the other two each
//! tells in private data. An asking side has both ready before it establishes, so the accepting
//! side may speak when it hears of that.

use crate::Error;
use crate::adapter::Adapter;
use crate::hello::Hello;
use crate::link::Link;
use crate::meeting::{Known, Verdict, judge};
use crate::node::{Entry, Node, Place, RESOLVE, State};
use crate::queues::Queues;
use crate::trace::{Messages, Traced};
use crate::users::{Left, Peer, Users};
use ferriband_host::wake;
use ferriband_ibv::{Beside, CmEvent, CmEventKind, CmId, ConnectParams, Qp, Qpn};
use ferriband_putget_proto::Connection;
use std::sync::Arc;

/// A refusal of what speaks another version, or something else.
const FOREIGN: &[u8] = b"FPG version 1";
/// A refusal that says that the request of who refuses stands.
const OWN_STANDS: &[u8] = b"FPG own stands";
/// How often a lost packet is sent again.
const RETRIES: u8 = 7;

impl<U: Users> Node<U> {
    /// Takes news.
    pub(crate) fn managed(&mut self, mut event: CmEvent) {
        if event.kind() == CmEventKind::ConnectRequest {
            if let Some(id) = event.take_request() {
                self.asked(&id, &event);
            }
            return;
        }
        let peer = Peer(event.id().tag() as u32);
        match self.peers.get(peer.0 as usize).map(|entry| &entry.state) {
            Some(State::Asking(id, ..)) if Arc::ptr_eq(id, event.id()) => {
                let id = Arc::clone(id);
                if let Err(why) = self.advance(peer, &id, &event) {
                    self.failed(peer, &event, &why);
                }
            }
            Some(State::Joined(place, _)) => {
                let place = *place;
                let link = self.places[usize::from(place)].link.as_ref();
                if link.is_some_and(|link| Arc::ptr_eq(&link.id, event.id())) {
                    self.of_link(peer, place, &event);
                }
            }
            _ => {}
        }
    }

    /// News of a connection that was accepted, or that stands.
    fn of_link(&mut self, peer: Peer, place: u16, event: &CmEvent) {
        match event.kind() {
            CmEventKind::Established => {
                self.set(peer, State::Joined(place, true));
                self.users.joined(peer);
            }
            kind if event.result().is_err() || kind == CmEventKind::Disconnected => {
                let link = self.places[usize::from(place)].link.as_ref();
                let over = link.map(|link| (link.queues.id_of(), Left::Lost));
                self.over.extend(over);
            }
            _ => {}
        }
    }

    /// A request of this side's is over.
    fn failed(&mut self, peer: Peer, event: &CmEvent, why: &Error) {
        if event.private_data().starts_with(OWN_STANDS) {
            self.forget(peer);
            return self.set(peer, State::Awaited(wake::now()));
        }
        let why = match why {
            Error::Foreign => Left::Foreign,
            _ if event.private_data().starts_with(FOREIGN) => Left::Foreign,
            _ => Left::Unreachable,
        };
        self.give_up(peer, why);
    }

    /// Forgets a request of this side's.
    pub(crate) fn give_up(&mut self, peer: Peer, why: Left) {
        self.forget(peer);
        self.users.left(peer, why);
    }

    fn forget(&mut self, peer: Peer) {
        let Some(entry) = self.peers.get_mut(peer.0 as usize) else {
            return;
        };
        if let State::Asking(_, Some(queues), adapter) =
            std::mem::replace(&mut entry.state, State::Nobody)
        {
            queues.close(&mut self.adapters[adapter].buffers);
        }
    }

    /// A step of a request by this side.
    fn advance(&mut self, peer: Peer, id: &Arc<CmId>, event: &CmEvent) -> Result<(), Error> {
        event.result()?;
        match event.kind() {
            CmEventKind::AddrResolved => Ok(id.resolve_route(RESOLVE)?),
            CmEventKind::RouteResolved => self.request(peer, id),
            CmEventKind::ConnectResponse => self.answered(peer, id, event),
            CmEventKind::Disconnected => Err(Error::Foreign),
            _ => Ok(()),
        }
    }

    fn request(&mut self, peer: Peer, id: &Arc<CmId>) -> Result<(), Error> {
        let adapter = self.adapter(id)?;
        // as many receives as this side has: the peer's are not known yet
        let receives = self.settings.config.receives;
        let queues = self.queues(adapter, receives, id)?;
        let hello = self.hello(peer, &queues.n, queues.psn).emit();
        let p = Arc::clone(&queues.p);
        id.connect(&params(&hello, &p))?;
        let state = State::Asking(Arc::clone(id), Some(Box::new(queues)), adapter);
        self.set(peer, state);
        Ok(())
    }

    fn answered(&mut self, peer: Peer, id: &Arc<CmId>, event: &CmEvent) -> Result<(), Error> {
        let hello = Hello::parse(event.private_data()).ok_or(Error::Foreign)?;
        let entry = self.peers.get_mut(peer.0 as usize).ok_or(Error::Unknown)?;
        if hello.listens != entry.address {
            return Err(Error::Foreign);
        }
        hello.note(entry);
        let State::Asking(_, queues, adapter) = &mut entry.state else {
            return Err(Error::Unknown);
        };
        let adapter = *adapter;
        let queues = queues.take().ok_or(Error::Unknown)?;
        let ready = id
            .ready_qp(&queues.p)
            .and_then(|()| id.ready_beside(&queues.n, &beside(&queues, &hello)))
            .and_then(|()| id.establish());
        if let Err(error) = ready {
            // to be closed by who forgets the request
            self.set(peer, State::Asking(Arc::clone(id), Some(queues), adapter));
            return Err(error.into());
        }
        let of = (adapter, hello.other);
        self.stands(peer, of, id, &hello, *queues, true)?;
        self.users.joined(peer);
        Ok(())
    }

    /// A peer asks.
    fn asked(&mut self, id: &Arc<CmId>, event: &CmEvent) {
        if let Err(refusal) = self.judge(id, event) {
            // a request that is gone needs no answer
            let _ = id.reject(refusal);
        }
    }

    fn judge(&mut self, id: &Arc<CmId>, event: &CmEvent) -> Result<(), &'static [u8]> {
        let hello = Hello::parse(event.private_data()).ok_or(FOREIGN)?;
        // nobody speaks for an address that is not his
        let from = id.peer_address().ok_or(&b""[..])?;
        if from.ip() != hello.listens.ip() || hello.listens == self.own {
            return Err(b"");
        }
        let peer = self.peer(hello.listens);
        let known = match self.entry(peer).map(|entry| &entry.state) {
            Ok(State::Asking(..)) => Known::Asking,
            Ok(State::Joined(..)) => Known::Joined(self.is_old(peer, &hello)),
            _ => Known::Nobody,
        };
        match judge(self.own, hello.listens, known) {
            Verdict::OwnStands => return Err(OWN_STANDS),
            Verdict::Old => return Err(b""),
            Verdict::Replace => self.leave(peer),
            Verdict::AcceptInstead | Verdict::Accept => {}
        }
        let waits = !matches!(
            self.entry(peer).map(|entry| &entry.state),
            Ok(State::Nobody)
        );
        self.forget(peer);
        let p = event.peer().map_or(Qpn(0), |peer| peer.qp_number);
        self.accept(peer, id, &hello, p).map_err(|_| {
            // whoever has asked from here hears that nothing comes of it
            if waits {
                self.users.left(peer, Left::Unreachable);
            }
            &b""[..]
        })
    }

    /// Whether a peer had told of this request, or of a later one, when the connection was made.
    fn is_old(&self, peer: Peer, hello: &Hello) -> bool {
        let last = self.entry(peer).map_or((0, 0), |entry| entry.last);
        last.0 == hello.instance && hello.asked <= last.1
    }

    /// Accepts a request that comes with the peer's P.
    fn accept(&mut self, peer: Peer, id: &Arc<CmId>, hello: &Hello, p: Qpn) -> Result<(), Error> {
        id.set_tag(peer.0.into());
        let adapter = self.adapter(id)?;
        let receives = self.settings.config.receives.min(hello.config.receives);
        let queues = self.queues(adapter, receives, id)?;
        let n = Arc::clone(&queues.n);
        let ready = id
            .ready_qp(&queues.n)
            .and_then(|()| id.ready_beside(&queues.p, &beside(&queues, hello)));
        if let Err(error) = ready {
            queues.close(&mut self.adapters[adapter].buffers);
            return Err(error.into());
        }
        let answer = self.hello(peer, &queues.p, queues.psn).emit();
        if let Some(entry) = self.peers.get_mut(peer.0 as usize) {
            hello.note(entry);
        }
        let place = self.stands(peer, (adapter, p), id, hello, queues, false)?;
        if let Err(error) = id.accept(&params(&answer, &n)) {
            self.end_quietly(place);
            return Err(error.into());
        }
        Ok(())
    }

    /// Gives a connection its place, on an adapter, with the peer's P.
    fn stands(
        &mut self,
        peer: Peer,
        (adapter, p): (usize, Qpn),
        id: &Arc<CmId>,
        hello: &Hello,
        queues: Queues,
        ready: bool,
    ) -> Result<u16, Error> {
        // no more than this side's buffers and send queue hold
        let mut config = hello.config;
        config.message_bytes = config.message_bytes.min(self.settings.longest_message());
        // both sides count with the smaller number of receives
        let mut own = self.settings.config;
        own.receives = own.receives.min(config.receives);
        config.receives = own.receives.min(queues.messages());
        let machine = Connection::new(own, config)?;
        let address = self.entry(peer)?.address;
        self.users.identified(peer, address, hello.uid);
        let place = queues.place();
        let trace = self.tracer.as_ref().map(|tracer| {
            let (own_p, p) = (queues.p.number().0, p.0);
            Traced::new(Messages::new(tracer, address, own_p, p))
        });
        let link = Link::new(peer, adapter, Arc::clone(id), machine, queues, trace);
        self.places[usize::from(place)].link = Some(link);
        self.set(peer, State::Joined(place, ready));
        Ok(place)
    }

    /// Queue pairs in INIT whose receives are posted.
    fn queues(
        &mut self,
        adapter: usize,
        peer_receives: u16,
        id: &Arc<CmId>,
    ) -> Result<Queues, Error> {
        let place = self.place()?;
        let config = self.settings.config;
        let open = &mut self.adapters[adapter];
        let queues = Queues::new(open, place, &config, peer_receives)?;
        id.init_qp(&queues.p)?;
        id.init_qp(&queues.n)?;
        (0..config.receives).try_for_each(|slot| queues.post(slot.into()))?;
        Ok(queues)
    }

    /// A place that no connection has, and how often it has been used.
    fn place(&mut self) -> Result<(u16, u16), Error> {
        let taken: Vec<u16> = self.asking_places().collect();
        let free = (0..self.places.len())
            .find(|place| self.places[*place].link.is_none() && !taken.contains(&(*place as u16)));
        let place = free.unwrap_or(self.places.len());
        let number = u16::try_from(place).map_err(|_| Error::TooMany)?;
        if free.is_none() {
            self.places.push(Place {
                life: 0,
                link: None,
            });
        }
        let life = &mut self.places[place].life;
        *life = life.wrapping_add(1);
        Ok((number, *life))
    }

    fn asking_places(&self) -> impl Iterator<Item = u16> + '_ {
        self.peers.iter().filter_map(|entry| match &entry.state {
            State::Asking(_, Some(queues), _) => Some(queues.place()),
            _ => None,
        })
    }

    fn hello(&self, peer: Peer, other: &Qp, psn: u32) -> Hello {
        let asked = self.entry(peer).map_or(0, |entry| entry.asked);
        Hello {
            config: self.settings.config,
            other: other.number(),
            psn,
            listens: self.own,
            uid: self.settings.uid,
            instance: self.instance,
            asked,
        }
    }

    /// The adapter that an identifier is bound to, opened once.
    pub(crate) fn adapter(&mut self, id: &CmId) -> Result<usize, Error> {
        let (open, bytes) = (self.adapters.len(), self.settings.longest_message());
        let adapter = Adapter::of(&mut self.adapters, id, bytes)?;
        self.opened |= adapter == open;
        Ok(adapter)
    }
}

impl Hello {
    /// Keeps what a peer tells of itself.
    fn note(&self, entry: &mut Entry) {
        entry.uid = self.uid;
        entry.last = (self.instance, self.asked);
    }
}

fn beside(queues: &Queues, hello: &Hello) -> Beside {
    Beside {
        peer: hello.other,
        rq_psn: hello.psn,
        sq_psn: queues.psn,
    }
}

/// Credits see to it that a receive is there: one that is missing is a fault.
fn params<'a>(private_data: &'a [u8], qp: &'a Arc<Qp>) -> ConnectParams<'a> {
    ConnectParams {
        private_data,
        retry_count: RETRIES,
        rnr_retry_count: 0,
        qp: Some(qp),
        ..ConnectParams::default()
    }
}
