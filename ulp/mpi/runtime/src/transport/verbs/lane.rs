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
//! meets its own. Must not know: what a message says.

use super::id::are_of_one_life;
use super::memory::Reachable;
use super::queue::{Queue, What, first_psn};
use super::{Id, Lent, Net, PORT};
use crate::constants::{MPI_ERR_INTERN, MPI_ERR_PROC_ABORTED, MPI_SUCCESS};
use crate::errors::{Outcome, broken};
use crate::handle::Token;
use crate::transport::contract::{Deliver, Done, Roster};
use crate::transport::limits::Rendezvous;
use ferriband_heal::Endpoint;
use ferriband_ibv::{
    Access, ErrorKind, Qp, QpCaps, QpInit, QpType, RecvWr, SendFlags, SendWr, VerbsError, Wc,
};
use ferriband_mpi_proto::envelope::{self, Kind};
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
    /// Receives that are posted, in their order: the message's name and the bytes that it expects.
    landing: VecDeque<(Token, u64)>,
    /// The number of the last receive that was posted here.
    posted: u32,
    /// The number of the last receive there that a message was asked for.
    asked: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nobody has wanted it.
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
        *self = Self {
            state: State::Off,
            ..Self::default()
        };
    }

    /// The message whose receive is the oldest.
    pub fn oldest_landing(&self) -> Option<Token> {
        self.landing.front().map(|(receive, _)| *receive)
    }
}

/// The number behind `number`: 0 is none.
fn after(number: u32) -> u32 {
    number.wrapping_add(1).max(1)
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
        let lane = &mut self.link(peer).long.lane;
        match lane.state {
            State::Ready => (),
            State::Idle => return self.tell_lane(peer).map(|()| None),
            State::Told | State::Off => return Ok(None),
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
            Err(error) => return Err(self.lose(peer, &error.to_string(), MPI_ERR_PROC_ABORTED)),
        }
        let lane = &mut self.link(peer).long.lane;
        lane.landing.push_back((receive, length));
        lane.posted = after(lane.posted);
        Ok(Some(lane.posted))
    }

    /// Makes this end of the lane, and says so.
    #[cold]
    fn tell_lane(&mut self, peer: u32) -> Outcome {
        // Without one, messages are written.
        let own = self.lane(peer).unwrap_or(None);
        self.link(peer).long.lane.state = own.map_or(State::Off, |_| State::Told);
        let own = own.unwrap_or(envelope::Lane {
            qpn: 0.into(),
            psn: 0.into(),
        });
        self.say(peer, Kind::Lane, own.as_bytes())
    }

    /// The peer has made its end.
    #[cold]
    pub(super) fn take_lane(&mut self, peer: u32, end: &envelope::Lane) -> Outcome {
        if end.qpn.get() >= QPNS || end.psn.get() >= QPNS {
            return Err(broken(peer));
        }
        let before = self.link(peer).long.lane.state;
        if end.qpn.get() == 0 && before != State::Ready {
            // It has none, and will have none.
            self.link(peer).long.lane.lose();
            return Ok(());
        }
        match before {
            State::Idle => self.tell_lane(peer)?,
            State::Told | State::Off => (),
            State::Ready => return Err(self.broken_off(peer)),
        }
        if self.link(peer).long.lane.state != State::Told {
            return Ok(());
        }
        if let Err(error) = self.connect_lane(peer, end) {
            return Err(self.lose(peer, &error.to_string(), MPI_ERR_PROC_ABORTED));
        }
        self.link(peer).long.lane.state = State::Ready;
        Ok(())
    }

    /// The peer has posted the receive of that number: whether it is its turn, and there is a lane.
    pub(super) fn is_asked_by_lane(&mut self, peer: u32, number: u32) -> bool {
        let lane = &mut self.link(peer).long.lane;
        let next = after(lane.asked);
        lane.asked = next;
        lane.state == State::Ready && number == next
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
            let at_fault = what.and_then(|what| self.moved_by(what));
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
        let lane = &mut self.link(peer).long.lane;
        if !wc.is_ok() {
            let at_fault = lane.oldest_landing();
            return self.lost(peer, wc, at_fault, lent);
        }
        let Some((receive, expected)) = lane.landing.pop_front() else {
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

    /// Makes the queue pair of the lane to `peer`; none if there are as many as may be.
    fn lane(&mut self, peer: u32) -> Result<Option<envelope::Lane>, VerbsError> {
        let lanes = self.links.iter().flatten();
        let count = lanes
            .filter(|link| link.long.lane.queue.qp.is_some())
            .count();
        if !self.device.has_lanes || count >= MOST as usize {
            return Ok(None);
        }
        let caps = QpCaps {
            send_wr: DEPTH,
            recv_wr: DEPTH,
            send_sge: 1,
            recv_sge: 1,
            inline: 0,
        };
        let init = QpInit {
            caps,
            ..QpInit::new(QpType::Rc, &self.device.cq, &self.device.cq)
        };
        let qp = Qp::create(&self.device.pd, &init)?;
        qp.init(PORT, 0, Access::LOCAL_WRITE)?;
        let (qpn, psn) = (qp.number().0, first_psn(qp.number().0));
        let lane = &mut self.link(peer).long.lane;
        lane.psn = psn;
        lane.queue.qp = Some(qp);
        Ok(Some(envelope::Lane {
            qpn: qpn.into(),
            psn: psn.into(),
        }))
    }

    fn connect_lane(&mut self, peer: u32, end: &envelope::Lane) -> Result<(), VerbsError> {
        let link = self.link(peer);
        let Some(qp) = link.long.lane.queue.qp.clone() else {
            return Ok(());
        };
        let (psn, end) = (
            link.long.lane.psn,
            Endpoint {
                qpn: end.qpn.get(),
                psn: end.psn.get(),
                ..link.wire.end
            },
        );
        self.take_up(&qp, psn, &end)
    }

    /// Posts the SEND of a message into the receive whose turn it is. False if the queue is full.
    pub(super) fn send_by_lane(
        &mut self,
        peer: u32,
        message: Result<(&Reachable, u32), i32>,
        what: What,
    ) -> Outcome<bool> {
        let closing = self.life.closing;
        let link = self.link(peer);
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
        posted.map_err(|error| self.lose(peer, &error.to_string(), MPI_ERR_PROC_ABORTED))
    }
}
