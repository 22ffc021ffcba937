//! A queue pair on a packet wire: the parent that owns the state and asks its halves.
//!
//! In: [`QueuePair::handle_packet`], [`handle_timeout`](QueuePair::handle_timeout),
//! [`post_send`](QueuePair::post_send), [`post_recv`](QueuePair::post_recv), [`modify`](QueuePair::modify).
//! Out: [`poll_transmit`](QueuePair::poll_transmit), [`poll_timeout`](QueuePair::poll_timeout),
//! [`poll_completion`](QueuePair::poll_completion), [`poll_event`](QueuePair::poll_event). After any call the driver
//! polls all four until they are empty. Helpers compute; state is assigned here alone.

use crate::context::{Context, Events, QpEvent, Tuning, on_the_wire};
use crate::env::{Environment, pkeys_match};
use crate::migration::{self, Migration};
use crate::qp_state::{self, QpLimits, TransitionError};
use crate::rc::requester::{Outcome, Requester, Step};
use crate::rc::responder::{Responder, Verdict};
use crate::recv_queue::{CompletionTarget, RecvQueue};
use crate::send_queue::{PostError, SendQueue, SendWr};
use crate::types::{
    AddressVector, Completion, Instant, MigState, QpAttr, QpAttrMask, QpCap, QpState, QpType,
    SendOpcode, Sge, WcStatus,
};
use crate::unreliable::{PacketMeta, UcReceiver, UdReceiver, UnreliableSender};
use ferriband_wire::{Kind, Opcode, Packet, Position, Qpn, Service};

/// What a queue pair is made of; fixed for its life.
#[derive(Clone, Copy, Debug)]
pub struct QpConfig {
    /// Its number.
    pub qpn: Qpn,
    /// Its service.
    pub qp_type: QpType,
    /// Capacities, as granted. Queues are allocated from them once.
    pub cap: QpCap,
    /// Receives come from a shared receive queue. An XRC target always draws from those that packets name.
    pub shared_receive: bool,
    /// Every send makes a completion (`sq_sig_all`).
    pub signal_all: bool,
    /// Bounds of attribute values.
    pub limits: QpLimits,
    /// Choices left open by the specification.
    pub tuning: Tuning,
}

/// Where a packet is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Path {
    /// Along `QpAttr::av`. The driver may cache what it made of it until the next modify or PATH_MIG event.
    Connected,
    /// Along this path (UD).
    Datagram(AddressVector),
}

/// A packet to send: `buf[..len]` holds it from BTH to pad; link and network headers and CRCs are the driver's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// Bytes written to the buffer.
    pub len: usize,
    /// Destination.
    pub path: Path,
}

#[derive(Debug)]
enum Sender {
    None,
    Reliable(Requester),
    Unreliable(UnreliableSender),
}

#[derive(Debug)]
enum Receiver {
    None,
    Reliable(Responder),
    Uc(UcReceiver),
    Ud(UdReceiver),
}

/// One queue pair. See the module.
#[derive(Debug)]
pub struct QueuePair {
    config: QpConfig,
    attr: QpAttr,
    sender: Sender,
    receiver: Receiver,
    events: Events,
    /// The first packet since RTR has arrived.
    established: bool,
    /// In Error: the responder still owes the peer a NAK.
    say_why: bool,
}

/// The opcode service of a queue pair type.
const fn service_of(qp_type: QpType) -> Service {
    match qp_type {
        QpType::Rc => Service::Rc,
        QpType::Uc => Service::Uc,
        QpType::Ud => Service::Ud,
        QpType::XrcSend | QpType::XrcRecv => Service::Xrc,
    }
}

/// Borrows the fields that a [`Context`] is made of, so that the halves stay free to be borrowed.
macro_rules! context {
    ($self:ident) => {
        Context {
            qpn: $self.config.qpn,
            service: service_of($self.config.qp_type),
            attr: &$self.attr,
            tuning: &$self.config.tuning,
            migrated: $self.attr.path_mig_state == MigState::Migrated,
        }
    };
}

impl QueuePair {
    /// A queue pair in Reset. Allocates its queues, the last allocation before RTR.
    pub fn new(config: QpConfig) -> Self {
        let send = || SendQueue::new(config.cap, config.signal_all);
        let recv = || RecvQueue::new(config.cap, config.shared_receive);
        let (sender, receiver) = match config.qp_type {
            QpType::Rc => (
                Sender::Reliable(Requester::new(send())),
                Receiver::Reliable(Responder::new(recv())),
            ),
            QpType::XrcSend => (Sender::Reliable(Requester::new(send())), Receiver::None),
            QpType::XrcRecv => {
                let rq = RecvQueue::new(config.cap, true);
                (Sender::None, Receiver::Reliable(Responder::new(rq)))
            }
            QpType::Uc => (
                Sender::Unreliable(UnreliableSender::new(send())),
                Receiver::Uc(UcReceiver::new(recv())),
            ),
            QpType::Ud => (
                Sender::Unreliable(UnreliableSender::new(send())),
                Receiver::Ud(UdReceiver { rq: recv() }),
            ),
        };
        QueuePair {
            config,
            attr: QpAttr {
                cap: config.cap,
                ..QpAttr::default()
            },
            sender,
            receiver,
            events: Events::default(),
            established: false,
            say_why: false,
        }
    }

    /// Its number.
    pub fn qpn(&self) -> Qpn {
        self.config.qpn
    }

    /// Its service.
    pub fn qp_type(&self) -> QpType {
        self.config.qp_type
    }

    /// Present state.
    pub fn state(&self) -> QpState {
        self.attr.state
    }

    /// All attributes, as ibv_query_qp reports them.
    pub fn query(&self) -> QpAttr {
        let sq_draining = self.attr.state == QpState::Sqd && !self.is_drained();
        QpAttr {
            cur_state: self.attr.state,
            sq_draining,
            ..self.attr
        }
    }

    fn is_drained(&self) -> bool {
        match &self.sender {
            Sender::None => true,
            Sender::Reliable(requester) => requester.is_drained(),
            Sender::Unreliable(sender) => sender.is_drained(),
        }
    }

    /// Changes attributes and state. Returns the states before and after.
    ///
    /// # Errors
    /// The table or a value refuses it; nothing was changed (I12).
    pub fn modify(
        &mut self,
        new: &QpAttr,
        mask: QpAttrMask,
    ) -> Result<(QpState, QpState), TransitionError> {
        let asked_to_migrate = mask.contains(QpAttrMask::PATH_MIG_STATE)
            && new.path_mig_state == MigState::Migrated
            && self.attr.path_mig_state == MigState::Armed;
        let (from, to) = qp_state::modify(
            &mut self.attr,
            self.config.qp_type,
            new,
            mask,
            &self.config.limits,
        )?;
        match (from, to) {
            (_, QpState::Reset) => self.clear(),
            (_, QpState::Err) => self.enter_error(None, false),
            (QpState::Init, QpState::Rtr) => self.start_receiving(),
            (QpState::Rtr, QpState::Rts) => self.start_sending(),
            (QpState::Rts, QpState::Sqd) => match &mut self.sender {
                Sender::None => {}
                Sender::Reliable(requester) => requester.drain(),
                Sender::Unreliable(sender) => sender.drain(),
            },
            (QpState::Sqd, QpState::Rts) => match &mut self.sender {
                Sender::None => {}
                Sender::Reliable(requester) => requester.resume(),
                Sender::Unreliable(sender) => sender.resume(),
            },
            _ => {}
        }
        if (from, to) == (QpState::Sqd, QpState::Sqd)
            && mask.contains(QpAttrMask::MAX_DEST_RD_ATOMIC)
            && let Receiver::Reliable(responder) = &mut self.receiver
        {
            responder.resize(self.attr.max_dest_rd_atomic);
        }
        if asked_to_migrate {
            let event = migration::migrate(&mut self.attr);
            self.events.raise(event);
        }
        if (from, to) == (QpState::Rts, QpState::Sqd) {
            self.tell_if_drained();
        }
        Ok((from, to))
    }

    fn clear(&mut self) {
        match &mut self.sender {
            Sender::None => {}
            Sender::Reliable(requester) => requester.clear(),
            Sender::Unreliable(sender) => sender.clear(),
        }
        match &mut self.receiver {
            Receiver::None => {}
            Receiver::Reliable(responder) => responder.clear(),
            Receiver::Uc(receiver) => {
                receiver.stop();
                receiver.rq.clear();
            }
            Receiver::Ud(receiver) => receiver.rq.clear(),
        }
        self.events = Events::default();
        self.established = false;
        self.say_why = false;
    }

    fn start_receiving(&mut self) {
        self.established = false;
        let ctx = context!(self);
        match &mut self.receiver {
            Receiver::Reliable(responder) => responder.start(&ctx),
            Receiver::Uc(receiver) => receiver.start(&ctx),
            Receiver::None | Receiver::Ud(_) => {}
        }
    }

    fn start_sending(&mut self) {
        let ctx = context!(self);
        match &mut self.sender {
            Sender::None => {}
            Sender::Reliable(requester) => requester.start(&ctx),
            Sender::Unreliable(sender) => sender.start(&ctx),
        }
    }

    /// To Error: flushes both queues. `say_why`: the peer is still to be told.
    #[cold]
    fn enter_error(&mut self, event: Option<QpEvent>, say_why: bool) {
        self.attr.state = QpState::Err;
        self.attr.cur_state = QpState::Err;
        self.say_why = say_why;
        match &mut self.sender {
            Sender::None => {}
            Sender::Reliable(requester) => requester.flush(),
            Sender::Unreliable(sender) => sender.flush(),
        }
        let ctx = context!(self);
        match &mut self.receiver {
            Receiver::None => {}
            Receiver::Reliable(responder) => responder.flush(&ctx, say_why),
            Receiver::Uc(UcReceiver { rq, .. }) | Receiver::Ud(UdReceiver { rq }) => {
                rq.flush(ctx.qpn);
            }
        }
        if let Receiver::Uc(receiver) = &mut self.receiver {
            receiver.stop();
        }
        if let Some(event) = event {
            self.events.raise(event);
        }
        if self.config.shared_receive {
            self.events.raise(QpEvent::LastWqeReached);
        }
    }

    /// UC and UD: a send failed here. Receives go on (IBA 10.3.1.7).
    #[cold]
    fn enter_send_error(&mut self) {
        self.attr.state = QpState::Sqe;
        self.attr.cur_state = QpState::Sqe;
        if let Sender::Unreliable(sender) = &mut self.sender {
            sender.flush();
        }
    }

    fn tell_if_drained(&mut self) {
        if self.attr.state == QpState::Sqd && self.attr.en_sqd_async_notify && self.is_drained() {
            self.attr.en_sqd_async_notify = false;
            self.events.raise(QpEvent::SqDrained);
        }
    }

    /// Queues a send. In Error and SQE it completes at once with a flush error.
    ///
    /// # Errors
    /// The state, the service or a capacity refuses it; nothing was changed.
    pub fn post_send(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        let state = self.attr.state;
        if matches!(state, QpState::Reset | QpState::Init | QpState::Rtr) {
            return Err(PostError::State(state));
        }
        self.check_opcode(wr)?;
        let sq = match &mut self.sender {
            Sender::None => return Err(PostError::Opcode(wr.opcode)),
            Sender::Reliable(requester) => &mut requester.sq,
            Sender::Unreliable(sender) => &mut sender.sq,
        };
        sq.post(wr)?;
        if matches!(state, QpState::Err | QpState::Sqe) {
            match &mut self.sender {
                Sender::None => {}
                Sender::Reliable(requester) => requester.flush(),
                Sender::Unreliable(sender) => sender.flush(),
            }
        }
        Ok(())
    }

    fn check_opcode(&self, wr: &SendWr<'_>) -> Result<(), PostError> {
        let refused = Err(PostError::Opcode(wr.opcode));
        let qp_type = self.config.qp_type;
        match on_the_wire(wr.opcode) {
            None if qp_type == QpType::Ud => return refused,
            None => {}
            Some((operation, suffix)) => {
                let service = service_of(qp_type);
                if Opcode::find(service, operation, Position::Only, suffix).is_none()
                    || (qp_type == QpType::Ud) != wr.datagram.is_some()
                {
                    return refused;
                }
            }
        }
        use SendOpcode::{CmpSwap, FetchAdd, RdmaRead};
        if matches!(wr.opcode, CmpSwap | FetchAdd | RdmaRead) {
            if matches!(wr.payload, crate::send_queue::Payload::Inline(_)) {
                return refused;
            }
            if self.attr.max_rd_atomic == 0 {
                return Err(PostError::NoReadResources);
            }
        }
        Ok(())
    }

    /// Queues a receive. In Error it completes at once with a flush error.
    ///
    /// # Errors
    /// Reset, a queue pair without receive queue of its own, or a capacity; nothing was changed.
    pub fn post_recv(&mut self, wr_id: u64, sges: &[Sge]) -> Result<(), PostError> {
        if self.attr.state == QpState::Reset {
            return Err(PostError::State(QpState::Reset));
        }
        let (state, qpn) = (self.attr.state, self.config.qpn);
        let rq = self.recv_queue().ok_or(PostError::NoReceiveQueue)?;
        rq.post(wr_id, sges)?;
        if state == QpState::Err {
            rq.flush(qpn);
        }
        Ok(())
    }

    fn recv_queue(&mut self) -> Option<&mut RecvQueue> {
        match &mut self.receiver {
            Receiver::None => None,
            Receiver::Reliable(responder) => Some(&mut responder.rq),
            Receiver::Uc(receiver) => Some(&mut receiver.rq),
            Receiver::Ud(receiver) => Some(&mut receiver.rq),
        }
    }

    /// A packet for this queue pair: its ICRC is verified and its destination is this QPN.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        env: &mut dyn Environment,
        meta: &PacketMeta<'_>,
        packet: &Packet<'_>,
    ) {
        let sends = matches!(self.attr.state, QpState::Rts | QpState::Sqd);
        let receives = match self.attr.state {
            QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe => true,
            QpState::Reset | QpState::Init | QpState::Err => false,
        };
        let service = service_of(self.config.qp_type);
        if !receives
            || packet.opcode().service() != service
            || !pkeys_match(packet.bth().pkey, env.pkey(self.attr.pkey_index))
        {
            return;
        }
        self.follow_migration(meta, packet);
        if self.attr.state == QpState::Rtr && !self.established {
            self.established = true;
            self.events.raise(QpEvent::CommEst);
        }
        if packet.opcode().kind() == Kind::Request {
            let verdict = self.handle_request(env, meta, packet);
            if let Verdict::Fatal(event) = verdict {
                self.enter_error(event, true);
            }
            return;
        }
        let ctx = context!(self);
        if let (Sender::Reliable(requester), true) = (&mut self.sender, sends) {
            let outcome = requester.handle_response(now, &ctx, env, packet);
            self.settle(outcome);
        }
    }

    fn handle_request(
        &mut self,
        env: &mut dyn Environment,
        meta: &PacketMeta<'_>,
        packet: &Packet<'_>,
    ) -> Verdict {
        let ctx = context!(self);
        match &mut self.receiver {
            Receiver::None => Verdict::Continue,
            Receiver::Reliable(responder) => responder.handle_request(&ctx, env, packet),
            Receiver::Uc(receiver) => receiver.handle_packet(&ctx, env, packet),
            Receiver::Ud(receiver) => receiver.handle_packet(&ctx, env, meta, packet),
        }
    }

    fn follow_migration(&mut self, meta: &PacketMeta<'_>, packet: &Packet<'_>) {
        let alt = &self.attr.alt_av;
        let on_alternate = match meta.grh {
            Some(grh) if alt.is_global => grh[8..24] == alt.dgid.0,
            _ => !alt.is_global && meta.slid == alt.dlid,
        };
        let state = self.attr.path_mig_state;
        match migration::on_packet(state, packet.bth().migrated, on_alternate) {
            Migration::Stay => {}
            Migration::Arm => self.attr.path_mig_state = MigState::Armed,
            Migration::Migrate => {
                let event = migration::migrate(&mut self.attr);
                self.events.raise(event);
            }
            Migration::Impossible => self.events.raise(QpEvent::PathMigErr),
        }
    }

    /// What the requester's outcome means for the queue pair.
    fn settle(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Continue => self.tell_if_drained(),
            Outcome::Failed => self.enter_error(None, false),
            Outcome::Exhausted if self.attr.path_mig_state == MigState::Armed => {
                let event = migration::migrate(&mut self.attr);
                self.events.raise(event);
                let ctx = context!(self);
                if let Sender::Reliable(requester) = &mut self.sender {
                    requester.restart_on_new_path(&ctx);
                }
            }
            Outcome::Exhausted => {
                if let Sender::Reliable(requester) = &mut self.sender {
                    requester.fail_head(WcStatus::RetryExcErr, 0);
                }
                self.enter_error(None, false);
            }
        }
    }

    /// A deadline of [`QueuePair::poll_timeout`] has come (or not: early calls do nothing).
    pub fn handle_timeout(&mut self, now: Instant) {
        if let Sender::Reliable(requester) = &mut self.sender {
            let outcome = requester.handle_timeout(now);
            self.settle(outcome);
        }
    }

    /// When [`QueuePair::handle_timeout`] is to be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match &self.sender {
            Sender::Reliable(requester) => requester.poll_timeout(),
            Sender::None | Sender::Unreliable(_) => None,
        }
    }

    /// Writes the next packet to `buf`, which holds at least [`crate::MAX_PACKET_BYTES`]. Answers to the peer come
    /// before requests of this side.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        env: &mut dyn Environment,
        buf: &mut [u8],
    ) -> Option<Transmit> {
        let (answers, sends) = match self.attr.state {
            QpState::Reset | QpState::Init => (false, false),
            QpState::Rtr | QpState::Sqe => (true, false),
            QpState::Rts | QpState::Sqd => (true, true),
            QpState::Err => (self.say_why, false),
        };
        if answers && let Some(len) = self.next_answer(env, buf) {
            return Some(Transmit {
                len,
                path: Path::Connected,
            });
        }
        // An answer may have been impossible and ended the queue pair's life.
        if !sends || self.attr.state == QpState::Err {
            return None;
        }
        let ctx = context!(self);
        let (step, datagram) = match &mut self.sender {
            Sender::None => (Step::Idle, None),
            Sender::Reliable(requester) => (requester.poll_transmit(now, &ctx, env, buf), None),
            Sender::Unreliable(sender) => sender.poll_transmit(&ctx, env, buf),
        };
        match (step, &self.sender) {
            (Step::Packet(len), _) => {
                self.tell_if_drained();
                let path = datagram.map_or(Path::Connected, |to| Path::Datagram(to.av));
                Some(Transmit { len, path })
            }
            (Step::Idle, _) => {
                self.tell_if_drained();
                None
            }
            (Step::Failed, Sender::Unreliable(_)) => {
                self.enter_send_error();
                None
            }
            (Step::Failed, _) => {
                self.enter_error(None, false);
                None
            }
        }
    }

    fn next_answer(&mut self, env: &mut dyn Environment, buf: &mut [u8]) -> Option<usize> {
        let ctx = context!(self);
        let Receiver::Reliable(responder) = &mut self.receiver else {
            return None;
        };
        match responder.poll_transmit(&ctx, env, buf) {
            Ok(len) => len,
            Err(Verdict::Fatal(event)) => {
                self.enter_error(event, true);
                self.next_answer(env, buf)
            }
            Err(Verdict::Continue) => None,
        }
    }

    /// The next completion, in order per queue, and the completion queue it belongs to.
    pub fn poll_completion(&mut self) -> Option<(CompletionTarget, Completion)> {
        let qpn = self.config.qpn;
        let sent = match &mut self.sender {
            Sender::None => None,
            Sender::Reliable(requester) => requester.sq.poll(qpn),
            Sender::Unreliable(sender) => sender.sq.poll(qpn),
        };
        if let Some(completion) = sent {
            return Some((CompletionTarget::Send, completion));
        }
        let xrc = self.config.qp_type == QpType::XrcRecv;
        self.recv_queue()?.poll(xrc)
    }

    /// The next asynchronous event; each kind at most once until polled.
    pub fn poll_event(&mut self) -> Option<QpEvent> {
        self.events.poll()
    }
}
