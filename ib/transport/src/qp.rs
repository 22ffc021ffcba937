//! A queue pair on a packet wire: the parent that owns the state and asks its halves. This file makes it and moves it
//! between states; [`flow`] moves packets, time and completions.
//!
//! # What a driver does
//!
//! One driver at a time calls a queue pair (its lock); nothing here blocks, reads a clock or allocates after RTR,
//! but for packets that wait behind a gap (`Tuning::hold`: a bounded number, out of a budget).
//!
//! 1. *Packet in.* Check the ICRC, find the queue pair by `dest_qpn` and compare the source address
//!    with `query().av` or `alt_av` (RC, UC, XRC), say which by
//!    [`packets_come_by`](QueuePair::packets_come_by) if the path is not Migrated, then
//!    [`handle_packet`](QueuePair::handle_packet). `Err` says why it had no effect. With
//!    `shared_receive`, poll completions after each packet: 16 unpolled receives make it drop the
//!    next message. With `Tuning::hold`, others may have waited for this one:
//!    [`catch_up`](QueuePair::catch_up) until it says no, and poll completions each time.
//! 2. *Completions.* [`poll_completion`](QueuePair::poll_completion) until empty after any call. An unreliable send completes when
//!    its last packet was handed out: let the kernel have the packet before the program hears of it.
//! 3. *Answers.* [`answer_due`](QueuePair::answer_due) after a batch of packets: `More` (READ responses, NAKs) is sent at once with
//!    [`poll_answer`](QueuePair::poll_answer); `Ack` may wait for a request to travel with, at the most until the next idle round.
//!    Acknowledgements coalesce by not being polled: one covers everything before it. Always along `query().av`.
//! 4. *Requests.* [`poll_request`](QueuePair::poll_request) after posting, after packets and after a timer, until it says None or
//!    there is no more room; what was left comes with the next call, in order. `Transmit::path` says where to: the connection's path, or
//!    for a datagram its address vector, remote QPN and the driver's own handle of it. It executes local
//!    operations (binds, invalidations) and finds local protection errors, so poll completions after it too.
//! 5. *Time.* Keep one deadline per queue pair: [`poll_timeout`](QueuePair::poll_timeout) after any of the above; when it has come,
//!    [`handle_timeout`](QueuePair::handle_timeout), then 2 to 4. Too early does nothing, so a lazy timer suffices.
//! 6. *Events.* [`poll_event`](QueuePair::poll_event) and [`state`](QueuePair::state) after any of
//!    the above: the machine goes to Error and SQE by itself. In Error a last NAK may be due
//!    (`answer_due`), and flushed completions. PATH_MIG changes `query().av`
//!    ([`migrations`](QueuePair::migrations) counts how often); a port that is down is told by
//!    [`fail_over`](QueuePair::fail_over).
//! 7. *Buffers* hold [`max_packet_bytes`](QueuePair::max_packet_bytes) at least and get the transport packet from BTH to pad. Link, IP and UDP headers and
//!    the ICRC are the driver's; a packet handed out and lost on the way is like one lost on the wire.
//! 8. *Life.* A wire that is known at RTR only begins with [`in_init`](QueuePair::in_init) and then gets every modify call, also those that lead back
//!    to Reset. Which request a packet belongs to, fences and credits are the machine's business alone.

use crate::context::{Context, Events, QpEvent, Tuning, on_the_wire};
use crate::diagnosis::{Diagnosis, QpCounters};
use crate::migration::{self, Asked, CameBy};
use crate::qp_state::{self, QpLimits, TransitionError};
use crate::rc::requester::Requester;
use crate::rc::responder::Responder;
use crate::rc::window::WindowLimit;
use crate::recv_queue::RecvQueue;
use crate::send_queue::{PostError, SendQueue, SendWr};
use crate::types::{
    Instant, MigState, QpAttr, QpAttrMask, QpCap, QpState, QpType, SendOpcode, Sge,
};
use crate::unreliable::{UcReceiver, UdReceiver, UnreliableSender};
use ferriband_wire::{Opcode, Position, Psn, Qpn, Service};

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
    /// To the destination that [`QueuePair::datagram`] says (UD).
    Datagram,
}

/// A packet to send: `buf[..len]` holds it from BTH to pad; link and network headers and CRCs are the driver's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// Bytes written to the buffer.
    pub len: usize,
    /// Destination.
    pub path: Path,
    /// The peer waits for it alone: it had better not wait for company.
    pub urgent: bool,
}

// One of them for the queue pair's life: nothing is ever moved.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
enum Sender {
    None,
    Reliable(Requester),
    Unreliable(UnreliableSender),
}

// One of them for the queue pair's life: nothing is ever moved.
#[allow(clippy::large_enum_variant)]
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
    /// What the parent itself counts; its halves have their own.
    counters: QpCounters,
    last_heard: Option<Instant>,
    /// By which path packets come.
    came_by: CameBy,
    /// How often the path has migrated.
    migrations: u32,
    /// The peer has migrated where this side could not: the program has been told.
    refused: bool,
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

mod flow;
mod paths;

impl QueuePair {
    /// A queue pair in Reset. Allocates its queues, the last allocation before RTR.
    pub fn new(config: QpConfig) -> Self {
        let send = || SendQueue::new(config.cap, config.signal_all);
        let requester = || Requester::new(send(), config.limits.max_rd_atomic);
        let recv = || RecvQueue::new(config.cap, config.shared_receive);
        let (sender, receiver) = match config.qp_type {
            QpType::Rc => (
                Sender::Reliable(requester()),
                Receiver::Reliable(Responder::new(recv())),
            ),
            QpType::XrcSend => (Sender::Reliable(requester()), Receiver::None),
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
            counters: QpCounters::default(),
            last_heard: None,
            came_by: CameBy::Primary,
            migrations: 0,
            refused: false,
        }
    }

    /// A queue pair in Init with these attributes, which were checked when they were set; `config.cap` holds for
    /// its capacities. For a driver that learns at RTR that packets are the wire.
    pub fn in_init(config: QpConfig, attr: &QpAttr) -> Self {
        let mut qp = QueuePair::new(config);
        qp.attr = QpAttr {
            state: QpState::Init,
            cur_state: QpState::Init,
            cap: config.cap,
            ..*attr
        };
        qp
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
        let names_path = mask.contains(QpAttrMask::PATH_MIG_STATE);
        let asked_to_migrate = names_path
            && migration::on_request(self.attr.path_mig_state, new.path_mig_state, true)
                == Asked::Migrate;
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
        self.refused &= !names_path;
        if asked_to_migrate {
            self.migrate();
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
        self.came_by = CameBy::Primary;
        self.refused = false;
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
        self.queue_send(wr)?;
        self.settle_sends();
        Ok(())
    }

    /// Queues one send of several, to be followed by others, by [`settle_sends`](QueuePair::settle_sends) or by
    /// [`unqueue_sends`](QueuePair::unqueue_sends), and by nothing else.
    ///
    /// # Errors
    /// As for [`post_send`](QueuePair::post_send).
    #[inline]
    pub fn queue_send(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        let state = self.attr.state;
        if matches!(state, QpState::Reset | QpState::Init | QpState::Rtr) {
            return Err(PostError::State(state));
        }
        self.check_opcode(wr)?;
        match self.send_queue() {
            None => Err(PostError::Opcode(wr.opcode)),
            Some(sq) => sq.post(wr),
        }
    }

    /// Takes back the last `count` sends that were queued and not settled.
    #[cold]
    pub fn unqueue_sends(&mut self, count: u64) {
        if let Some(sq) = self.send_queue() {
            sq.unpost(count);
        }
    }

    /// Ends what [`queue_send`](QueuePair::queue_send) began: in Error and SQE what is queued completes with a flush error.
    #[inline]
    pub fn settle_sends(&mut self) {
        if matches!(self.attr.state, QpState::Err | QpState::Sqe) {
            match &mut self.sender {
                Sender::None => {}
                Sender::Reliable(requester) => requester.flush(),
                Sender::Unreliable(sender) => sender.flush(),
            }
        }
    }

    /// Sends so far: those that are over, the last of which is the one whose completion was polled last, and all that were queued. Counted since
    /// the queue pair was made.
    pub fn sends(&self) -> (u64, u64) {
        match &self.sender {
            Sender::None => (0, 0),
            Sender::Reliable(requester) => (requester.sq.told(), requester.sq.tail()),
            Sender::Unreliable(sender) => (sender.sq.told(), sender.sq.tail()),
        }
    }

    fn send_queue(&mut self) -> Option<&mut SendQueue> {
        match &mut self.sender {
            Sender::None => None,
            Sender::Reliable(requester) => Some(&mut requester.sq),
            Sender::Unreliable(sender) => Some(&mut sender.sq),
        }
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

    /// Bounds what may be outstanding (RC, XRC); other services have no window. Holds until it is set again.
    pub fn set_window(&mut self, limit: WindowLimit) {
        let mtu = self.attr.path_mtu.bytes();
        if let Sender::Reliable(requester) = &mut self.sender {
            requester.set_window(limit, mtu);
        }
    }

    /// Packets that a driver had better send in one run; no bound where there is no window.
    #[inline]
    pub fn run_packets(&self) -> u32 {
        match &self.sender {
            Sender::Reliable(requester) => requester.run_packets(),
            _ => u32::MAX,
        }
    }

    /// A congestion notification for this queue pair has arrived: less may be outstanding.
    pub fn congested(&mut self, now: Instant) {
        if let Sender::Reliable(requester) = &mut self.sender {
            requester.congested(now);
        }
    }

    /// What it has done since it was made.
    pub fn counters(&self) -> QpCounters {
        let sent = match &self.sender {
            Sender::None => QpCounters::default(),
            Sender::Reliable(requester) => *requester.counters(),
            Sender::Unreliable(sender) => *sender.counters(),
        };
        let received = match &self.receiver {
            Receiver::Reliable(responder) => *responder.counters(),
            Receiver::None | Receiver::Uc(_) | Receiver::Ud(_) => QpCounters::default(),
        };
        self.counters.plus(&sent).plus(&received)
    }

    /// Nothing that it says seems to reach the peer: its requests bring no answer, or its answers end no repetition.
    pub fn is_unheard(&self) -> bool {
        let unanswered = match &self.sender {
            Sender::Reliable(requester) => requester.is_unheard(self.attr.retry_cnt),
            Sender::None | Sender::Unreliable(_) => false,
        };
        let asked_again = match &self.receiver {
            Receiver::Reliable(responder) => responder.is_unheard(),
            Receiver::None | Receiver::Uc(_) | Receiver::Ud(_) => false,
        };
        unanswered || asked_again
    }

    /// What it knows about its connection, to explain a failure.
    pub fn diagnosis(&self) -> Diagnosis {
        let expected = match &self.receiver {
            Receiver::Reliable(responder) => responder.expected(),
            Receiver::Uc(receiver) => receiver.expected(),
            Receiver::None | Receiver::Ud(_) => Psn::new(0),
        };
        let blank = Diagnosis {
            state: self.attr.state,
            una: Psn::new(0),
            next: Psn::new(0),
            expected,
            retries_left: 0,
            rnr_left: 0,
            window: [0; 2],
            round_trip_ns: 0,
            last_heard: self.last_heard,
            incidents: Default::default(),
        };
        match &self.sender {
            Sender::None => blank,
            Sender::Reliable(requester) => requester.explain(blank),
            Sender::Unreliable(sender) => Diagnosis {
                una: sender.psn(),
                next: sender.psn(),
                ..blank
            },
        }
    }
}
