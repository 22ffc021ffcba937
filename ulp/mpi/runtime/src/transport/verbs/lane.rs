//! The lane: a second queue pair to a peer, whose receives are the program's own buffers. A long
//! message that comes by it is one SEND.
//!
//! Where our adapter makes the packets all of a SEND's are alike, and go in the longest runs that
//! the kernel takes, from one message to the next. The first of a WRITE is longer than the others,
//! which costs a run of its own, and the word that all is written costs another; 64 KiB take three
//! in place of one. Nor does the peer need a key.
//!
//! Both ends say once which queue pair is theirs ([`Kind::Lane`]), whoever wants it first; the
//! receiver asks for a message by it only when it has connected its own and has posted the
//! message's receive. The sender learns of the lane before it is asked, and is asked in the order
//! of the receives, for both are numbered messages. So no receive is ever missing, and each message
//! meets its own.
//!
//! Receives that are over are counted, and the sender is told their number: a completion says only
//! that the peer's adapter has a message. In a new life of the connection both ends are made anew,
//! the receives that are left are posted before that is said, and what has not landed is sent again
//! (docs/design/heal.md, section 4). Must not know: what a message says.

use super::faults::AtFault;
use super::heal::Needed;
use super::id::are_of_one_life;
use super::memory::Reachable;
use super::news::News;
use super::queue::{Queue, What, first_psn};
use super::{Id, Lent, Net};
use crate::constants::{MPI_ERR_INTERN, MPI_SUCCESS};
use crate::errors::{Outcome, broken};
use crate::handle::Token;
use crate::transport::contract::{Deliver, Done, Roster};
use crate::transport::limits::Rendezvous;
use ferriband_heal::Endpoint;
use ferriband_ibv::{
    Access, ErrorKind, Qp, QpCaps, QpInit, QpState, QpType, RecvWr, SendFlags, SendWr, VerbsError,
    Wc,
};
use ferriband_mpi_proto::envelope::{self, Kind};
use ferriband_mpi_proto::resume::{Doubt, has_landed, next_landing};
use std::collections::VecDeque;
use zerocopy::IntoBytes;

/// Receives, and sends, that a lane holds. Messages beyond them are written.
pub const DEPTH: u32 = super::queue::DEPTH;
/// Lanes of a rank. Further peers' messages are written.
pub const MOST: u32 = 64;
/// Bytes of the longest message that is one SEND; adapters have 2 GiB.
pub const LONGEST: u64 = 1 << 30;
/// Numbers of queue pairs are below; 0 says that there is none.
const QPNS: u32 = 1 << 24;

/// The lane to one peer, or what will be one.
#[derive(Default)]
pub struct Lane {
    /// Its queue pair, and what was posted to be sent.
    pub queue: Queue,
    psn: u32,
    state: State,
    /// The peer's end in this life: number and first PSN.
    peer: Option<(u32, u32)>,
    /// It counts among the lanes of this rank, in this life or for the next one.
    is_counted: bool,
    /// It could not be made, and is tried again.
    waits: bool,
    /// Receives in their order: the message's name and the bytes that it expects. A fence leaves
    /// them.
    landing: VecDeque<(Token, u64)>,
    /// The number of the last receive here, and of the last one that is over.
    posted: u32,
    landed: u32,
    /// Whether the memory of the receive behind that is at fault.
    doubt: Doubt,
    /// The peer has not been told of the last one.
    is_news: bool,
    /// The number of the last receive there that a message was asked for, and of the last that the
    /// peer has said to be over.
    asked: u32,
    known: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nobody has wanted it in this life.
    #[default]
    Idle,
    /// The peer has been told.
    Told,
    /// Both have.
    Ready,
    /// There is none, and will be none.
    Off,
}

impl Lane {
    /// Nothing of it is under way.
    pub fn is_quiet(&self) -> bool {
        self.queue.is_quiet()
    }

    /// Whether messages may go and come by it.
    pub fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// Whether it is no more.
    pub fn is_off(&self) -> bool {
        self.state == State::Off
    }

    /// The connection is gone: nothing comes or goes by it any more.
    pub fn lose(&mut self) {
        // Where it cannot be destroyed yet, a peer being in the middle of an access.
        let _ = self.queue.qp.as_ref().map(|qp| qp.stop(QpState::Error));
        *self = Self {
            state: State::Off,
            ..Self::default()
        };
    }

    /// A life is over. Receives stay in their order, and go on to be counted.
    pub fn fence(&mut self) {
        if self.is_off() {
            return;
        }
        *self = Self {
            is_counted: self.is_counted,
            landing: std::mem::take(&mut self.landing),
            posted: self.posted,
            landed: self.landed,
            doubt: self.doubt,
            asked: self.asked,
            known: self.known,
            ..Self::default()
        };
    }

    /// A message that is to land is given up: nothing but the class of why comes for it.
    pub fn throw_away(&mut self, receive: Token) {
        let found = self.landing.iter_mut().find(|one| one.0 == receive);
        if let Some((_, length)) = found {
            *length = 0;
        }
    }

    /// The number of the last receive that is over: what the peer is told. From here on it is.
    pub fn tell_landed(&mut self) -> u32 {
        self.is_news = false;
        self.landed
    }

    /// The number of the last receive that is over.
    pub fn landed(&self) -> u32 {
        self.landed
    }

    /// Whether the memory of the oldest receive is at fault.
    pub fn doubt(&mut self) -> &mut Doubt {
        &mut self.doubt
    }

    /// Whether the peer waits to be told of landings.
    pub fn has_news(&self) -> bool {
        self.is_news
    }

    /// The last landing that the peer has told.
    pub fn known(&self) -> u32 {
        self.known
    }

    /// It could not be made, and is tried again.
    pub fn waits(&self) -> bool {
        self.waits
    }
}

impl Net {
    /// Whether long messages from `peer` that lie in one run there come by the lane, once there is
    /// one.
    pub(super) fn wants_lane(&self, peer: u32) -> bool {
        match self.limits.rendezvous {
            Rendezvous::Auto => self.goes_by_packets(peer),
            Rendezvous::Send => true,
            Rendezvous::Get | Rendezvous::Put => false,
        }
    }

    /// Posts the receive of a message of `length` bytes from `peer`, into `range`: its number. None
    /// if there is no lane, or no room: then it is written. The first to want the lane begins to
    /// make it.
    pub(super) fn land(
        &mut self,
        peer: u32,
        receive: Token,
        length: u64,
        range: &Reachable,
    ) -> Outcome<Option<u32>> {
        let link = self.link(peer);
        let (is_up, lane) = (link.is_ready(), &mut link.long.lane);
        match lane.state {
            State::Ready if is_up => (),
            State::Idle if is_up => return self.tell_lane(peer).map(|()| None),
            _ => return Ok(None),
        }
        let has_room = lane.landing.len() < DEPTH as usize;
        let Some(qp) = lane
            .queue
            .qp
            .clone()
            .filter(|_| has_room && length <= LONGEST)
        else {
            return Ok(None);
        };
        let elements = [range.element(0, length as u32)];
        let id = Id::Landed(peer).in_life_of(self.link(peer).wire.id);
        match qp.post_recv(&mut RecvWr::new(id, &elements)) {
            Ok(()) => (),
            Err(error) if error.kind() == ErrorKind::NoMemory => return Ok(None),
            // Behind the fence it is written.
            Err(error) => return self.unposted(peer, &error).map(|_| None),
        }
        let lane = &mut self.link(peer).long.lane;
        lane.landing.push_back((receive, length));
        lane.posted = next_landing(lane.posted);
        Ok(Some(lane.posted))
    }

    /// Makes this end of the lane, with the receives that are left, and says so.
    #[cold]
    fn tell_lane(&mut self, peer: u32) -> Outcome {
        let made = self.lane(peer);
        let link = self.link(peer);
        let (epoch, lane) = (link.wire.session.epoch(), &mut link.long.lane);
        lane.waits = made.is_err() && lane.is_counted;
        if let Err(error) = &made
            && lane.waits
        {
            // Messages are asked for by it already.
            self.is_refused(peer, Needed::Lane, error);
            return Ok(());
        }
        // Without one, messages are written.
        let own = made.unwrap_or(None);
        lane.state = own.map_or(State::Off, |_| State::Told);
        lane.is_counted = own.is_some();
        let (qpn, psn) = own.unwrap_or_default();
        let own = envelope::Lane {
            qpn: qpn.into(),
            psn: psn.into(),
            epoch: epoch.0.into(),
        };
        self.say(peer, Kind::Lane, own.as_bytes())
    }

    /// The peer has made its end.
    #[cold]
    pub(super) fn take_lane(&mut self, peer: u32, end: &envelope::Lane) -> Outcome {
        let (qpn, psn) = (end.qpn.get(), end.psn.get());
        if qpn >= QPNS || psn >= QPNS {
            return Err(broken(peer));
        }
        let link = self.link(peer);
        let is_of_this_life = end.epoch.get() == link.wire.session.epoch().0;
        let lane = &mut link.long.lane;
        if qpn == 0 && lane.state != State::Ready {
            // It has none, and will have none.
            lane.lose();
            return Ok(());
        }
        if !is_of_this_life || lane.is_off() {
            return Ok(());
        }
        if lane.peer.replace((qpn, psn)).is_some() {
            return Err(self.broken_off(peer));
        }
        self.tend_lane(peer)
    }

    /// Makes the lane to `peer` if somebody wants it, and connects it once both ends are known.
    #[cold]
    pub(super) fn tend_lane(&mut self, peer: u32) -> Outcome {
        if !self.link(peer).is_ready() {
            return Ok(());
        }
        let lane = &self.link(peer).long.lane;
        if lane.state == State::Idle {
            let is_wanted = lane.peer.is_some() || !lane.landing.is_empty();
            if is_wanted || self.has_sends_by_lane(peer) {
                self.tell_lane(peer)?;
            }
        }
        let lane = &self.link(peer).long.lane;
        let Some(end) = lane.peer.filter(|_| lane.state == State::Told) else {
            return Ok(());
        };
        if let Err(error) = self.connect_lane(peer, end) {
            return self.verb_failed(peer, Needed::Lane, &error).map(drop);
        }
        self.link(peer).long.lane.state = State::Ready;
        Ok(())
    }

    /// `peer` tells the number of the last landing there: sends up to it are over.
    #[cold]
    pub(super) fn take_landed(&mut self, peer: u32, landed: u32) {
        let lane = &mut self.link(peer).long.lane;
        // One that is told late takes nothing back.
        if landed == 0 || landed == lane.known || has_landed(landed, lane.known) {
            return;
        }
        lane.known = landed;
        self.confirm_landings(peer, landed);
    }

    /// The peer has posted the receive of that number: whether it is its turn, and there is a lane,
    /// or will be one again.
    pub(super) fn is_asked_by_lane(&mut self, peer: u32, number: u32) -> bool {
        let lane = &mut self.link(peer).long.lane;
        let next = next_landing(lane.asked);
        lane.asked = next;
        lane.state != State::Off && number == next
    }

    /// Whether the lane to `peer` is in use, and `id` of its life: else a completion means nothing
    /// any more.
    fn uses_lane(&mut self, peer: u32, id: u64) -> bool {
        let link = self.link(peer);
        are_of_one_life(id, link.wire.id) && !link.long.lane.is_off()
    }

    /// A message to `peer` has gone by the lane.
    pub(super) fn gone_by_lane<R: Roster, D: Deliver>(
        &mut self,
        peer: u32,
        wc: &Wc,
        lent: &mut Lent<'_, R, D>,
    ) -> Outcome {
        if !self.uses_lane(peer, wc.id()) {
            return Ok(());
        }
        let what = self.link(peer).long.lane.queue.completed();
        if !wc.is_ok() {
            let at_fault = self.at_fault(what);
            return self.lost(peer, wc, at_fault, lent);
        }
        match what {
            Some(What::Moved { transfer, bytes }) => {
                self.moved(peer, transfer, bytes, lent);
                Ok(())
            }
            _ => Err(self.broken_off(peer)),
        }
    }

    /// A message has come by the lane, or the end of the lane.
    pub(super) fn landed<R: Roster, D: Deliver>(
        &mut self,
        peer: u32,
        wc: &Wc,
        lent: &mut Lent<'_, R, D>,
    ) -> Outcome {
        if !self.uses_lane(peer, wc.id()) {
            return Ok(());
        }
        if !wc.is_ok() {
            return self.lost(peer, wc, Some(AtFault::Landing), lent);
        }
        let Some((receive, expected)) = self.has_landed(peer) else {
            return Err(self.broken_off(peer));
        };
        let (bytes, word) = (u64::from(wc.byte_len()), wc.immediate());
        let class = match word {
            None if bytes == expected => MPI_SUCCESS,
            // Its sender cannot read it.
            Some(class) if bytes == 0 && class != MPI_SUCCESS.cast_unsigned() => {
                class.cast_signed()
            }
            // The receive is used up, so nothing can come for this request any more.
            _ => MPI_ERR_INTERN,
        };
        let is_broken = match word {
            None => bytes != expected,
            Some(word) => bytes != 0 || word == MPI_SUCCESS.cast_unsigned(),
        };
        self.withdraw(receive);
        lent.done(peer, receive, Done::Over { class });
        if is_broken {
            return Err(self.broken_off(peer));
        }
        self.stats.moved += 1;
        self.stats.landed += 1;
        Ok(())
    }

    /// The oldest receive of the lane is over, and counted: its message's name, and the bytes that
    /// were expected.
    pub(super) fn has_landed(&mut self, peer: u32) -> Option<(Token, u64)> {
        let lane = &mut self.link(peer).long.lane;
        let landing = lane.landing.pop_front()?;
        lane.landed = next_landing(lane.landed);
        (lane.is_news, lane.doubt) = (true, Doubt::default());
        self.life.news.push(News::Asks(peer));
        Some(landing)
    }

    /// Makes the queue pair of the lane to `peer`, with the receives that are left: its number and
    /// its first PSN. None if there are as many as may be.
    fn lane(&mut self, peer: u32) -> Result<Option<(u32, u32)>, VerbsError> {
        let lanes = self.links.iter().flatten();
        let count = lanes.filter(|link| link.long.lane.is_counted).count();
        let may_be = count < MOST as usize || self.link(peer).long.lane.is_counted;
        if !self.rails.common.has_lanes || !may_be {
            return Ok(None);
        }
        let port = self.link(peer).wire.path.port;
        let rail = self.rail_of(peer);
        let stage = rail.stages.lkey();
        let caps = QpCaps {
            send_wr: DEPTH,
            recv_wr: DEPTH,
            send_sge: 1,
            recv_sge: 1,
            inline: 0,
        };
        let init = QpInit {
            caps,
            ..QpInit::new(QpType::Rc, &rail.device.cq, &rail.device.cq)
        };
        let qp = Qp::create(&rail.device.pd, &init)?;
        qp.init(port, 0, Access::LOCAL_WRITE)?;
        let link = self.link(peer);
        let id = Id::Landed(peer).in_life_of(link.wire.id);
        let landing = link.long.lane.landing.clone();
        for (receive, length) in landing {
            let Some(offer) = self.moves.offers.get(&receive) else {
                continue;
            };
            let elements = [offer.range.element(0, length as u32)];
            // The memory of one that is given up is none of ours.
            let elements = &elements[..usize::from(offer.class == 0)];
            qp.post_recv(&mut RecvWr::new(id, elements))?;
        }
        let (qpn, psn) = (qp.number().0, first_psn(qp.number().0));
        let lane = &mut self.link(peer).long.lane;
        lane.psn = psn;
        (lane.queue.qp, lane.queue.stage) = (Some(qp), stage);
        Ok(Some((qpn, psn)))
    }

    fn connect_lane(&mut self, peer: u32, (qpn, psn): (u32, u32)) -> Result<(), VerbsError> {
        let link = self.link(peer);
        let Some(qp) = link.long.lane.queue.qp.clone() else {
            return Ok(());
        };
        let end = Endpoint {
            qpn,
            psn,
            ..link.wire.end
        };
        let psn = link.long.lane.psn;
        self.take_up(peer, &qp, psn, &end)
    }

    /// Posts the SEND of a message into the receive whose turn it is. False if the queue is full,
    /// or there is none yet.
    pub(super) fn send_by_lane(
        &mut self,
        peer: u32,
        message: Result<(&Reachable, u32), i32>,
        what: What,
    ) -> Outcome<bool> {
        let closing = self.life.closing;
        let link = self.link(peer);
        if !link.long.lane.is_ready() {
            return Ok(false);
        }
        let id = Id::Laned(peer).in_life_of(link.wire.id);
        let queue = &mut link.long.lane.queue;
        let posted = match message {
            Ok((range, length)) => {
                let elements = [range.element(0, length)];
                let request = SendWr::send(id, &elements);
                queue.submit(request, SendFlags::empty(), what, closing)
            }
            // Nothing but the reason why.
            Err(class) => {
                let request = SendWr::send(id, &[]).immediate(class.cast_unsigned());
                queue.submit(request, SendFlags::empty(), what, closing)
            }
        };
        match posted {
            Ok(posted) => Ok(posted),
            Err(error) => self.unposted(peer, &error),
        }
    }
}
