//! The responder: executes the peer's requests in PSN order, once, and answers.
//!
//! A request runs through a list of states, each of which may refuse it: place of its PSN, place in its message,
//! length, rights, resources, key and range, execution, completion. The PSN advances after all of them (I7).
//! Owns the receive queue, the message in progress, the remembered READs and atomics and the reply that is due.

use super::gaps::Told;
use super::held::{Early, Held, HoldBudget};
use super::resources::{Resources, Response};
use crate::context::{Context, QpEvent};
use crate::diagnosis::{Drop, QpCounters};
use crate::emit;
use crate::env::{AtomicOp, Environment};
use crate::execution::{
    Message, Refusal, check, in_order, receive_send, receive_write, remote_refusal,
};
use crate::recv_queue::RecvQueue;
use crate::send_queue::{MAX_MESSAGE_BYTES, packets_of};
use crate::types::{Access, Completion, WcOpcode, WcStatus};
use ferriband_wire::{
    Aeth, AtomicAckEth, Bth, CreditCode, Ext, GapReport, Headers, Msn, NakCode, Opcode, Operation,
    Packet, Position, Psn, Service, Suffix, Syndrome,
};

/// What a request did to the queue pair as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Go on.
    Continue,
    /// The packet had no effect.
    Dropped(Drop),
    /// To Error, with this event.
    Fatal(Option<QpEvent>),
}

/// Packets of an XRC target are executed in the domain that each of them names, which its driver enters before it hands them in: they
/// do not wait.
fn hold_for(ctx: &Context<'_>) -> Option<&'static HoldBudget> {
    ctx.tuning.hold.filter(|_| ctx.service == Service::Rc)
}

/// The acknowledgement that is due; later requests are covered by the same one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reply {
    Ack,
    Rnr(u8),
    Nak(NakCode),
}

#[derive(Debug)]
pub(crate) struct Responder {
    pub rq: RecvQueue,
    /// Expected PSN.
    e_psn: Psn,
    /// How often the request before `e_psn` came again, and what `e_psn` was then.
    repeats: (Psn, u32),
    /// Messages completed, 24 bits.
    msn: u32,
    message: Message,
    resources: Resources,
    gap: Gap,
    held: Held,
    told: Told,
    manners: Manners,
    /// Packets beyond the gap since it was told.
    beyond: u32,
    reply: Option<Reply>,
    counters: QpCounters,
}

/// What is known of the expected PSN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Gap {
    /// Nothing arrived beyond it.
    None,
    /// A NAK went out for it; what arrives beyond it is the same gap (I6).
    Told,
    /// There was no receive for it: the peer sends it and all after it again (IBA 9.7.5.2.8).
    NotReady,
}

/// So many packets behind a gap that was told: the NAK, or what was sent again, may be lost as well. Echoes of the NAK are told
/// apart by its hearer.
const TELL_AGAIN: u32 = 64;
/// The same for a peer that hears of what came meanwhile: it goes on sending, so more of them pass in a round trip.
const TELL_LISTENER_AGAIN: u32 = 512;

/// How the peer fills gaps, as far as this side has seen.
///
/// One that goes back is in the middle of what it sends again when the acknowledgement of what was kept comes. If that names the end of a
/// message which it has begun again, Linux 6.1's rdma_rxe takes it for done and yet not complete (`COMPST_UPDATE_COMP`: the request is not
/// `wqe_state_pending`), and waits for ever if the packet that it sends then is lost. So the end of a message does not wait until the
/// peer is known to send nothing but what is missing.
#[derive(Clone, Copy, Debug, Default)]
struct Manners {
    /// It was seen to go on with new packets after filling a gap.
    fills_only: bool,
    /// The newest packet that was kept behind the present gap, and how many were.
    newest: Option<(Psn, u32)>,
    /// The gap was filled and there were enough behind it: what comes next tells.
    watched: Option<Psn>,
}

impl Manners {
    /// Kept packets whose copies would all have to be lost to be mistaken.
    const ENOUGH: u32 = 4;

    fn kept(&mut self, psn: Psn) {
        let (newest, count) = self.newest.unwrap_or((psn, 0));
        let newest = if psn.after(newest) { psn } else { newest };
        self.newest = Some((newest, count + 1));
    }

    /// A request arrives; `fills`: it is the one that a NAK asked for.
    fn arrives(&mut self, psn: Psn, fills: bool) {
        if self.fills_only {
            return;
        }
        if fills {
            let newest = self.newest.take();
            let enough = newest.filter(|(_, count)| *count >= Self::ENOUGH);
            self.watched = enough.map(|(newest, _)| newest).or(self.watched);
        } else if let Some(newest) = self.watched.take() {
            self.fills_only = psn.after(newest);
        }
    }
}

/// So many repetitions of what came last, each answered: the answers do not get through.
const UNHEARD: u32 = 3;

/// Whether this side owes its peer an answer, and which kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerDue {
    /// Nothing is due.
    None,
    /// One bare acknowledgement. It may wait a little for company; later requests are covered by the same one.
    Ack,
    /// Responses or a NAK: the peer waits for them.
    More,
}

impl Responder {
    pub fn new(rq: RecvQueue) -> Self {
        Responder {
            rq,
            e_psn: Psn::new(0),
            repeats: (Psn::new(0), 0),
            msn: 0,
            message: Message::None,
            resources: Resources::default(),
            gap: Gap::None,
            held: Held::default(),
            told: Told::default(),
            manners: Manners::default(),
            beyond: 0,
            reply: None,
            counters: QpCounters::default(),
        }
    }

    pub fn counters(&self) -> &QpCounters {
        &self.counters
    }

    pub fn expected(&self) -> Psn {
        self.e_psn
    }

    /// The last request came again and again although it was answered each time.
    pub fn is_unheard(&self) -> bool {
        self.repeats.1 >= UNHEARD && self.repeats.0 == self.e_psn
    }

    pub fn answer_due(&self) -> AnswerDue {
        match self.reply {
            None if !self.resources.has_jobs() && !self.lists_gaps() => AnswerDue::None,
            _ if self.lists_gaps() => AnswerDue::More,
            Some(Reply::Ack) if !self.resources.has_jobs() => AnswerDue::Ack,
            _ => AnswerDue::More,
        }
    }

    /// INIT to RTR.
    pub fn start(&mut self, ctx: &Context<'_>) {
        self.e_psn = ctx.attr.rq_psn;
        self.msn = 0;
        self.message = Message::None;
        self.resources = Resources::new(ctx.attr.max_dest_rd_atomic);
        self.gap = Gap::None;
        self.held = Held::new(hold_for(ctx));
        self.told = Told::default();
        self.manners = Manners::default();
        self.reply = None;
    }

    /// SQD may change `max_dest_rd_atomic`; what was remembered is forgotten, as nothing is outstanding then.
    pub fn resize(&mut self, max_dest_rd_atomic: u8) {
        self.resources = Resources::new(max_dest_rd_atomic);
    }

    /// To Error. `say_why` keeps the NAK that is due, and the responses before it.
    #[cold]
    pub fn flush(&mut self, ctx: &Context<'_>, say_why: bool) {
        self.rq.flush(ctx.qpn);
        self.message = Message::None;
        self.held.clear();
        if !say_why {
            self.resources.clear();
            self.reply = None;
        }
    }

    /// To Reset.
    pub fn clear(&mut self) {
        self.rq.clear();
        self.message = Message::None;
        self.held.clear();
        self.resources.clear();
        self.reply = None;
    }

    /// A packet from the peer's requester.
    pub fn handle_request(
        &mut self,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        packet: &Packet<'_>,
    ) -> Verdict {
        let psn = packet.bth().psn;
        let fills = psn == self.e_psn && self.gap == Gap::Told;
        if fills && self.reply == Some(Reply::Nak(NakCode::PsnSequenceError)) {
            // Nobody has heard of this one but by a list.
            self.told.heeded();
        }
        self.manners.arrives(psn, fills);
        match psn.distance(self.e_psn) {
            0 => self.expected_request(ctx, env, packet),
            // Not negative.
            ahead @ 1.. => self.early_request(ctx, env, ahead as u32, packet),
            _ => self.duplicate(ctx, packet),
        }
    }

    fn expected_request(
        &mut self,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        packet: &Packet<'_>,
    ) -> Verdict {
        match self.execute(ctx, env, packet) {
            Ok(psns) => {
                self.e_psn = self.e_psn.add(psns);
                self.held.advance(psns);
                self.gap = Gap::None;
                let answered_with_data = self.resources.has_jobs() && is_data(packet);
                if answered_with_data {
                    self.reply = None;
                } else if packet.bth().ack_req {
                    self.reply = Some(Reply::Ack);
                } else if self.reply != Some(Reply::Ack) {
                    // The gap that a NAK was due for is closed.
                    self.reply = None;
                }
                self.tell_next_gap();
                Verdict::Continue
            }
            Err(refusal) => self.refuse(ctx, refusal),
        }
    }

    /// The next middle packet of the message in progress, where nothing waits and nothing else changes. False: it is for
    /// [`Self::handle_request`] to judge.
    pub fn next_middle(
        &mut self,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        opcode: Opcode,
        (psn, ack_req): (Psn, bool),
        payload: &[u8],
    ) -> bool {
        // the one that it is like may have been a duplicate, of another message
        let of_message = match self.message {
            Message::Write { .. } => opcode == Opcode::RcWriteMiddle,
            Message::Send { .. } => opcode == Opcode::RcSendMiddle,
            Message::None => false,
        };
        if !of_message {
            return false;
        }
        if psn != self.e_psn {
            return self.early_middle(ctx, env, psn, ack_req, payload);
        }
        let mtu = ctx.attr.path_mtu.bytes();
        if payload.len() != mtu as usize || self.gap != Gap::None || !self.held.is_empty() {
            return false;
        }
        let placed = match &mut self.message {
            Message::Write {
                key,
                addr,
                remaining,
                ..
            } => {
                let may = *remaining > mtu && ctx.attr.access.contains(Access::REMOTE_WRITE);
                let placed = may && env.remote_write(*key, *addr, payload).is_ok();
                if placed {
                    *addr = addr.wrapping_add(mtu.into());
                    *remaining -= mtu;
                }
                placed
            }
            Message::Send { received } => {
                let total = u64::from(*received) + u64::from(mtu);
                let placed = total <= MAX_MESSAGE_BYTES.min(self.rq.capacity())
                    && self.rq.scatter(env, *received, payload).is_ok();
                if placed {
                    *received += mtu;
                }
                placed
            }
            Message::None => false,
        };
        if !placed {
            return false;
        }
        self.e_psn = psn.next();
        if ack_req {
            self.reply = Some(Reply::Ack);
        }
        true
    }

    /// The same for one behind a gap that was told, from a peer that is known to fill gaps: it goes to its place.
    fn early_middle(
        &mut self,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        psn: Psn,
        ack_req: bool,
        payload: &[u8],
    ) -> bool {
        let plain =
            self.gap == Gap::Told && self.manners.fills_only && self.beyond + 1 < self.tell_again();
        let ahead = u32::try_from(psn.distance(self.e_psn)).unwrap_or(0);
        let reach = self.held.reach().max(1);
        if !plain
            || ahead == 0
            || !self.held.wants(ahead)
            || !self.place(ctx, env, ahead, ack_req, payload)
        {
            return false;
        }
        self.counters.held += 1;
        self.beyond += 1;
        self.note_holes(ctx, reach, ahead, ack_req);
        true
    }

    /// A packet beyond the expected one: it waits if it may, and the gap is told once (I6), and again if it stays.
    fn early_request(
        &mut self,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        ahead: u32,
        packet: &Packet<'_>,
    ) -> Verdict {
        let reach = self.held.reach().max(1);
        let kept = self.gap != Gap::NotReady
            && self.held.wants(ahead)
            && (self.manners.fills_only || packet.opcode().position() != Position::Last)
            && (self.place_packet(ctx, env, ahead, packet) || self.held.keep(ahead, packet));
        self.counters.held += u64::from(kept);
        if kept {
            self.manners.kept(packet.bth().psn);
            self.note_holes(ctx, reach, ahead, packet.bth().ack_req);
        }
        // Nobody went back for a gap if what is beyond it keeps coming and is new.
        self.beyond += u32::from(kept);
        if self.gap == Gap::None || self.beyond >= self.tell_again() {
            self.tell_gap();
            return Verdict::Continue;
        }
        match kept {
            true => Verdict::Continue,
            false => Verdict::Dropped(Drop::Psn),
        }
    }

    /// A packet was kept: the farthest before it was the one before `reach`.
    fn note_holes(&mut self, ctx: &Context<'_>, reach: u32, ahead: u32, ack_req: bool) {
        if !self.manners.fills_only || !ctx.tuning.list_gaps {
            return;
        }
        if ahead > reach {
            self.told.opens(self.e_psn.add(reach), ahead - reach);
        } else if ahead < reach {
            self.told.heeded();
        }
        if ack_req {
            self.told.asks();
        }
    }

    /// There are gaps beyond the first to be told.
    fn lists_gaps(&self) -> bool {
        self.told.is_due() && self.gap == Gap::Told && !self.held.is_empty()
    }

    /// Places a packet that may go where it belongs before its turn. The last packet is not placed so: what it writes is to become visible
    /// last.
    fn place_packet(
        &mut self,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        ahead: u32,
        packet: &Packet<'_>,
    ) -> bool {
        let info = packet.opcode().info();
        info.operation == Operation::RdmaWrite
            && info.position == Position::Middle
            && self.place(ctx, env, ahead, packet.bth().ack_req, packet.payload)
    }

    /// Writes a middle packet of the WRITE in progress where it belongs, which its distance tells: all packets between are of the same
    /// message and full.
    fn place(
        &mut self,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        ahead: u32,
        ack_req: bool,
        payload: &[u8],
    ) -> bool {
        let mtu = ctx.attr.path_mtu.bytes();
        let Message::Write {
            key,
            addr,
            remaining,
            ..
        } = self.message
        else {
            return false;
        };
        let before = u64::from(ahead) * u64::from(mtu);
        let done = payload.len() == mtu as usize
            && before + u64::from(mtu) < u64::from(remaining)
            && ctx.attr.access.contains(Access::REMOTE_WRITE)
            && env
                .remote_write(key, addr.wrapping_add(before), payload)
                .is_ok();
        if done {
            self.held.placed(ahead, ack_req);
        }
        done
    }

    /// The expected packet and those after it, `packets` of them, were placed before their turn, which has come. False if their message is not the
    /// one in progress.
    fn pass_placed(&mut self, mtu: u32, packets: u32, ack_req: bool) -> bool {
        let Message::Write {
            addr, remaining, ..
        } = &mut self.message
        else {
            return false;
        };
        // At most what a queue pair keeps, of 4 KiB each.
        let bytes = packets * mtu;
        let Some(rest) = remaining.checked_sub(bytes) else {
            return false;
        };
        *addr = addr.wrapping_add(bytes.into());
        *remaining = rest;
        self.e_psn = self.e_psn.add(packets);
        self.held.advance(packets);
        self.gap = Gap::None;
        if ack_req {
            self.reply = Some(Reply::Ack);
        }
        self.tell_next_gap();
        true
    }

    /// The expected PSN has moved on to another gap.
    fn tell_next_gap(&mut self) {
        if self.held.is_empty() || self.held.is_ready() {
            return;
        }
        if !self.told.has_listed(self.e_psn) {
            self.tell_gap();
            return;
        }
        // It is on its way. What came before it is news.
        self.counters.gaps_reported += 1;
        self.gap = Gap::Told;
        self.beyond = 0;
        self.reply = self.reply.or(Some(Reply::Ack));
    }

    /// Packets behind a gap after which it is told again.
    fn tell_again(&self) -> u32 {
        match self.told.is_known() {
            true => TELL_LISTENER_AGAIN,
            false => TELL_AGAIN,
        }
    }

    fn tell_gap(&mut self) {
        self.counters.gaps_reported += u64::from(self.gap == Gap::None);
        self.gap = Gap::Told;
        self.beyond = 0;
        self.reply = Some(Reply::Nak(NakCode::PsnSequenceError));
    }

    /// Executes the next packet that waited behind a gap which is filled, with those before it that have found their place already.
    pub fn catch_up(&mut self, ctx: &Context<'_>, env: &mut dyn Environment) -> Verdict {
        let (placed, ack_req) = self.held.placed_run();
        if placed > 0 && !self.pass_placed(ctx.attr.path_mtu.bytes(), placed, ack_req) {
            self.held.clear();
        }
        let Some(Early::Kept(early)) = self.held.take() else {
            return Verdict::Continue;
        };
        let before = self.e_psn;
        let verdict = self.expected_request(ctx, env, &early.packet());
        if verdict == Verdict::Dropped(Drop::Unpolled) {
            self.held.put_back(early);
            return Verdict::Continue;
        }
        self.held.let_go(&early);
        if self.e_psn == before {
            // Refused: the peer sends it again, and what follows it too.
            self.held.clear();
        }
        verdict
    }

    /// Something that waited can be executed.
    #[inline]
    pub fn is_behind(&self) -> bool {
        self.held.is_ready()
    }

    fn refuse(&mut self, ctx: &Context<'_>, refusal: Refusal) -> Verdict {
        let (code, event) = match refusal {
            Refusal::Silent => return Verdict::Dropped(Drop::Unpolled),
            Refusal::NotReady => {
                self.gap = Gap::NotReady;
                self.held.clear();
                self.counters.rnr_naks_sent += 1;
                self.reply = Some(Reply::Rnr(ctx.attr.min_rnr_timer));
                return Verdict::Continue;
            }
            Refusal::Invalid => (NakCode::InvalidRequest, Some(QpEvent::QpReqErr)),
            Refusal::RemoteAccess => (NakCode::RemoteAccessError, Some(QpEvent::QpAccessErr)),
            Refusal::Operational => (NakCode::RemoteOperationalError, Some(QpEvent::QpFatal)),
            Refusal::LocalLength => {
                self.fail_receive(ctx, WcStatus::LocLenErr);
                (NakCode::InvalidRequest, None)
            }
            Refusal::LocalProtection => {
                self.fail_receive(ctx, WcStatus::LocProtErr);
                (NakCode::RemoteOperationalError, None)
            }
            Refusal::Invalidate => {
                self.fail_receive(ctx, WcStatus::LocAccessErr);
                (NakCode::RemoteAccessError, Some(QpEvent::QpAccessErr))
            }
        };
        self.counters.naks_sent += 1;
        self.reply = Some(Reply::Nak(code));
        Verdict::Fatal(event)
    }

    fn fail_receive(&mut self, ctx: &Context<'_>, status: WcStatus) {
        self.rq.complete(Completion {
            status,
            opcode: WcOpcode::Recv,
            qp_num: ctx.qpn.0,
            ..Completion::default()
        });
    }

    /// Checks and executes the expected packet; returns the PSNs that it takes.
    fn execute(
        &mut self,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        packet: &Packet<'_>,
    ) -> Result<u32, Refusal> {
        let info = packet.opcode().info();
        in_order(self.message, info.operation, info.position)?;
        if !info
            .payload
            .allows(packet.payload.len(), ctx.attr.path_mtu.bytes() as usize)
        {
            return Err(Refusal::Invalid);
        }
        if let Some(eth) = packet.ext().xrceth
            && !env.has_xrc_srq(eth.xrc_srq)
        {
            return Err(Refusal::Invalid);
        }
        match info.operation {
            Operation::Send => {
                let done = receive_send(&mut self.rq, &mut self.message, ctx, env, packet)?;
                self.count(done);
                Ok(1)
            }
            Operation::RdmaWrite => {
                let done = receive_write(&mut self.rq, &mut self.message, ctx, env, packet)?;
                self.count(done);
                Ok(1)
            }
            Operation::RdmaReadRequest => self.accept_read(ctx, env, packet),
            Operation::CompareSwap | Operation::FetchAdd => self.execute_atomic(ctx, env, packet),
            _ => Err(Refusal::Invalid),
        }
    }

    fn count(&mut self, message_done: bool) {
        self.msn = (self.msn + u32::from(message_done)) & (Psn::MODULUS - 1);
    }

    fn accept_read(
        &mut self,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        packet: &Packet<'_>,
    ) -> Result<u32, Refusal> {
        let reth = packet.ext().reth.ok_or(Refusal::Invalid)?;
        let allowed = ctx.attr.access.contains(Access::REMOTE_READ);
        if !allowed || !self.resources.has_room() || u64::from(reth.dma_length) > MAX_MESSAGE_BYTES
        {
            return Err(Refusal::Invalid);
        }
        // A READ of nothing names no memory: its key is not looked at (IBA 9.7.4.1.6).
        if reth.dma_length > 0 {
            check(env, &reth, reth.dma_length, Access::REMOTE_READ)?;
        }
        let packets = packets_of(reth.dma_length, ctx.attr.path_mtu.bytes());
        self.count(true);
        self.resources
            .push_read(packet.bth().psn, packets, self.msn, reth);
        Ok(packets)
    }

    fn execute_atomic(
        &mut self,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        packet: &Packet<'_>,
    ) -> Result<u32, Refusal> {
        let eth = packet.ext().atomic.ok_or(Refusal::Invalid)?;
        let allowed = ctx.attr.access.contains(Access::REMOTE_ATOMIC);
        if !allowed || !self.resources.has_room() || !eth.virtual_address.is_multiple_of(8) {
            return Err(Refusal::Invalid);
        }
        let op = match packet.opcode().operation() {
            Operation::CompareSwap => AtomicOp::CompareSwap {
                compare: eth.compare,
                swap: eth.swap_add,
            },
            _ => AtomicOp::FetchAdd { add: eth.swap_add },
        };
        let original = env
            .remote_atomic(eth.rkey, eth.virtual_address, op)
            .map_err(remote_refusal)?;
        self.count(true);
        self.resources
            .push_atomic(packet.bth().psn, self.msn, original);
        Ok(1)
    }

    /// A PSN of the past (IBA 9.7.5.1.2, C9-105): acknowledged or answered again, never executed again (I1).
    fn duplicate(&mut self, ctx: &Context<'_>, packet: &Packet<'_>) -> Verdict {
        let psn = packet.bth().psn;
        let known = match packet.opcode().operation() {
            // A NAK that is due says the same and more.
            Operation::Send | Operation::RdmaWrite => {
                self.reply = self.reply.or(Some(Reply::Ack));
                true
            }
            Operation::RdmaReadRequest => packet.ext().reth.is_some_and(|reth| {
                let packets = packets_of(reth.dma_length, ctx.attr.path_mtu.bytes());
                self.resources.replay_read(psn, packets, reth)
            }),
            Operation::CompareSwap | Operation::FetchAdd => self.resources.replay_atomic(psn),
            _ => false,
        };
        if !known {
            return Verdict::Dropped(Drop::Psn);
        }
        self.counters.duplicates += 1;
        if psn.next() == self.e_psn {
            // what came last comes once in each repetition, however much is repeated
            let again = if self.repeats.0 == self.e_psn {
                self.repeats.1
            } else {
                0
            };
            self.repeats = (self.e_psn, again.saturating_add(1));
        }
        Verdict::Continue
    }

    /// The next response or acknowledgement. Responses leave before the acknowledgement that comes after them.
    /// Err: the memory of a READ is gone; the NAK is due.
    pub fn poll_transmit(
        &mut self,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        buf: &mut [u8],
    ) -> Result<Option<usize>, Verdict> {
        let Some(response) = self.resources.take(ctx.attr.path_mtu.bytes()) else {
            return Ok(match self.reply.take() {
                Some(reply) => Some(self.acknowledge(ctx, env, reply, buf)),
                None if self.lists_gaps() => self.list_gaps(ctx, env, buf),
                None => None,
            });
        };
        let credits = self.credits();
        let aeth = |msn| Aeth {
            syndrome: Syndrome::Ack(credits),
            msn: Msn(msn),
        };
        match response {
            Response::Atomic { psn, msn, original } => {
                let ext = Ext {
                    aeth: Some(aeth(msn)),
                    atomic_ack: Some(AtomicAckEth { original }),
                    ..Ext::default()
                };
                let headers = headers(
                    ctx,
                    env,
                    Operation::AtomicAcknowledge,
                    Position::Only,
                    psn,
                    ext,
                );
                Ok(Some(emit_bare(&headers, buf)))
            }
            Response::Read {
                psn,
                msn,
                key,
                addr,
                length,
                first,
                last,
                again,
            } => {
                let position = match (first, last) {
                    (true, true) => Position::Only,
                    (true, false) => Position::First,
                    (false, true) => Position::Last,
                    (false, false) => Position::Middle,
                };
                let aeth = (position != Position::Middle).then(|| aeth(msn));
                let ext = Ext {
                    aeth,
                    ..Ext::default()
                };
                let headers = headers(ctx, env, Operation::RdmaReadResponse, position, psn, ext);
                let sent = emit::packet(&headers, length as usize, buf, |out| {
                    if out.is_empty() {
                        Ok(())
                    } else if again {
                        env.remote_read_again(key, addr, out)
                    } else {
                        env.remote_read(key, addr, out)
                    }
                });
                sent.map(Some).map_err(|error| {
                    self.resources.clear();
                    // The NAK carries the PSN that could not be answered.
                    self.e_psn = psn;
                    self.refuse(ctx, remote_refusal(error))
                })
            }
        }
    }

    /// The gaps beyond the first that were not told yet, if there still are any.
    fn list_gaps(
        &mut self,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        buf: &mut [u8],
    ) -> Option<usize> {
        let reach = self.held.reach().saturating_sub(1) as u16;
        let holes = self.told.take(self.e_psn)?;
        let mut bth = Bth::new(Opcode::GapReport, ctx.attr.dest_qpn, self.e_psn);
        bth.pkey = env.pkey(ctx.attr.pkey_index);
        bth.migrated = ctx.migrated;
        self.counters.gap_lists_sent += 1;
        let headers = Headers::new(bth, Ext::default());
        let Ok(len) = emit::packet(&headers, GapReport::len_of(holes.len()), buf, |out| {
            GapReport::write(reach, holes, out);
            Ok::<(), std::convert::Infallible>(())
        });
        Some(len)
    }

    fn credits(&self) -> CreditCode {
        self.rq
            .credits()
            .map_or(CreditCode::NONE, CreditCode::from_credits)
    }

    fn acknowledge(
        &self,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        reply: Reply,
        buf: &mut [u8],
    ) -> usize {
        let (syndrome, psn) = match reply {
            Reply::Ack => (Syndrome::Ack(self.credits()), self.e_psn.sub(1)),
            Reply::Rnr(timer) => (Syndrome::RnrNak(timer), self.e_psn),
            Reply::Nak(code) => (Syndrome::Nak(code), self.e_psn),
        };
        let ext = Ext {
            aeth: Some(Aeth {
                syndrome,
                msn: Msn(self.msn),
            }),
            ..Ext::default()
        };
        emit_bare(
            &headers(ctx, env, Operation::Acknowledge, Position::Only, psn, ext),
            buf,
        )
    }
}

fn headers(
    ctx: &Context<'_>,
    env: &mut dyn Environment,
    operation: Operation,
    position: Position,
    psn: Psn,
    ext: Ext,
) -> Headers {
    let opcode = Opcode::find(ctx.service, operation, position, Suffix::None)
        .expect("RC and XRC have every response");
    let mut bth = Bth::new(opcode, ctx.attr.dest_qpn, psn);
    bth.pkey = env.pkey(ctx.attr.pkey_index);
    bth.migrated = ctx.migrated;
    Headers::new(bth, ext)
}

fn emit_bare(headers: &Headers, buf: &mut [u8]) -> usize {
    emit::packet(headers, 0, buf, |_| Ok::<(), std::convert::Infallible>(()))
        .unwrap_or_else(|never| match never {})
}

fn is_data(packet: &Packet<'_>) -> bool {
    matches!(
        packet.opcode().operation(),
        Operation::RdmaReadRequest | Operation::CompareSwap | Operation::FetchAdd
    )
}
