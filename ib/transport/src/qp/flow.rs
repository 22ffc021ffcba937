//! What moves through a queue pair: packets in, packets out, time, completions and events.

use super::{Path, QueuePair, Receiver, Sender, Transmit, service_of};
use crate::MAX_PACKET_BYTES;
use crate::context::{Context, QpEvent};
use crate::diagnosis::Drop;
use crate::env::{Environment, pkeys_match};
use crate::rc::requester::{Outcome, Step};
use crate::rc::responder::{AnswerDue, Verdict};
use crate::recv_queue::CompletionTarget;
use crate::send_queue::Datagram;
use crate::types::{Completion, Instant, MigState, QpState, QpType, WcStatus};
use crate::unreliable::PacketMeta;
use ferriband_wire::{Kind, Mtu, Opcode, Packet, Psn};

impl QueuePair {
    /// A packet for this queue pair: its ICRC is verified and its destination is this QPN.
    ///
    /// # Errors
    /// It had no effect, for this reason. A packet that was answered, if only with a NAK, is `Ok`.
    #[inline]
    pub fn handle_packet(
        &mut self,
        now: Instant,
        env: &mut dyn Environment,
        meta: &PacketMeta<'_>,
        packet: &Packet<'_>,
    ) -> Result<(), Drop> {
        let result = self.accept(now, env, meta, packet);
        self.counters.packets_received += 1;
        match result {
            Ok(()) => self.last_heard = Some(now),
            Err(reason) => self.counters.drops[reason as usize] += 1,
        }
        result
    }

    /// A packet of this opcode that differs from one that was just taken in nothing but its PSN, AckReq and payload: the next middle packet of a
    /// SEND or WRITE (RC). What that one's headers were found to be need not be looked at again. True if it was executed; otherwise nothing has
    /// happened, and it is to be handed in as any other.
    pub fn take_alike(
        &mut self,
        now: Instant,
        env: &mut dyn Environment,
        opcode: Opcode,
        (psn, ack_req): (Psn, bool),
        payload: &[u8],
    ) -> bool {
        let ctx = context!(self);
        let taken = match &mut self.receiver {
            Receiver::Reliable(responder)
                if self.config.qp_type == QpType::Rc
                    && matches!(ctx.attr.state, QpState::Rtr | QpState::Rts)
                    // Otherwise packets may move the path.
                    && ctx.migrated =>
            {
                responder.next_middle(&ctx, env, opcode, (psn, ack_req), payload)
            }
            _ => false,
        };
        if taken {
            self.counters.packets_received += 1;
            self.last_heard = Some(now);
        }
        taken
    }

    #[inline]
    fn accept(
        &mut self,
        now: Instant,
        env: &mut dyn Environment,
        meta: &PacketMeta<'_>,
        packet: &Packet<'_>,
    ) -> Result<(), Drop> {
        match self.attr.state {
            QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe => {}
            QpState::Reset | QpState::Init | QpState::Err => return Err(Drop::State),
        }
        let service = service_of(self.config.qp_type);
        if packet.opcode().service() != service && packet.opcode() != Opcode::GapReport {
            return Err(Drop::Service);
        }
        if !pkeys_match(packet.bth().pkey, env.pkey(self.attr.pkey_index))
            && !self.is_of_alternate(env, packet)
        {
            return Err(Drop::PKey);
        }
        if packet.opcode() == Opcode::GapReport {
            return self.hear_gaps(now, packet);
        }
        self.follow_migration(packet);
        if self.attr.state == QpState::Rtr && !self.established {
            self.established = true;
            self.events.raise(QpEvent::CommEst);
        }
        if packet.opcode().kind() == Kind::Request {
            return match self.handle_request(env, meta, packet) {
                Verdict::Continue => Ok(()),
                Verdict::Dropped(reason) => Err(reason),
                Verdict::Fatal(event) => {
                    self.enter_error(event, true);
                    Ok(())
                }
            };
        }
        let sends = matches!(self.attr.state, QpState::Rts | QpState::Sqd);
        let ctx = context!(self);
        match &mut self.sender {
            Sender::Reliable(requester) if sends => {
                let outcome = requester.handle_response(now, &ctx, env, packet);
                self.settle(outcome)
            }
            Sender::Reliable(_) => Err(Drop::State),
            Sender::None | Sender::Unreliable(_) => Err(Drop::Service),
        }
    }

    /// The peer tells which packets it lacks beside the expected one.
    #[cold]
    fn hear_gaps(&mut self, now: Instant, packet: &Packet<'_>) -> Result<(), Drop> {
        match &mut self.sender {
            Sender::Reliable(_) if self.config.qp_type != QpType::Rc => Err(Drop::Service),
            Sender::None | Sender::Unreliable(_) => Err(Drop::Service),
            Sender::Reliable(requester)
                if matches!(self.attr.state, QpState::Rts | QpState::Sqd) =>
            {
                requester.hear_gaps(now, packet)
            }
            Sender::Reliable(_) => Err(Drop::State),
        }
    }

    #[inline]
    fn handle_request(
        &mut self,
        env: &mut dyn Environment,
        meta: &PacketMeta<'_>,
        packet: &Packet<'_>,
    ) -> Verdict {
        let ctx = context!(self);
        match &mut self.receiver {
            Receiver::None => Verdict::Dropped(Drop::Service),
            Receiver::Reliable(responder) => responder.handle_request(&ctx, env, packet),
            Receiver::Uc(receiver) => receiver.handle_packet(&ctx, env, packet),
            Receiver::Ud(receiver) => receiver.handle_packet(&ctx, env, meta, packet),
        }
    }

    /// Executes a packet that waited behind a gap. False if there was none: a driver polls completions and goes on until then.
    #[inline]
    pub fn catch_up(&mut self, env: &mut dyn Environment) -> bool {
        let ctx = context!(self);
        let Receiver::Reliable(responder) = &mut self.receiver else {
            return false;
        };
        if !responder.is_behind() || matches!(ctx.attr.state, QpState::Reset | QpState::Err) {
            return false;
        }
        let before = responder.expected();
        match responder.catch_up(&ctx, env) {
            Verdict::Fatal(event) => {
                self.enter_error(event, true);
                true
            }
            Verdict::Continue | Verdict::Dropped(_) => responder.expected() != before,
        }
    }

    /// What the requester's outcome means for the queue pair.
    fn settle(&mut self, outcome: Outcome) -> Result<(), Drop> {
        match outcome {
            Outcome::Continue | Outcome::TryOver => self.tell_if_drained(),
            Outcome::Dropped(reason) => return Err(reason),
            Outcome::Failed => self.enter_error(None, false),
            Outcome::Exhausted if self.fail_over() => {}
            Outcome::Exhausted => {
                if let Sender::Reliable(requester) = &mut self.sender {
                    requester.fail_head(WcStatus::RetryExcErr, 0);
                }
                self.enter_error(None, false);
            }
        }
        Ok(())
    }

    /// A deadline of [`QueuePair::poll_timeout`] has come (or not: early calls do nothing). True if
    /// a try is over that may have been too short: [`QueuePair::end_try`] is to be called. That is
    /// so with a [`crate::Tuning::timeout_floor_ns`] alone.
    pub fn handle_timeout(&mut self, now: Instant) -> bool {
        let (ctx, heard) = (context!(self), self.last_heard);
        let Sender::Reliable(requester) = &mut self.sender else {
            return false;
        };
        match requester.handle_timeout(now, &ctx, heard) {
            Outcome::TryOver => true,
            outcome => {
                // No packet, so nothing is dropped.
                let _ = self.settle(outcome);
                false
            }
        }
    }

    /// The try that is over goes on, once, as if no try waited less than `least_ns`, or than
    /// [`crate::Tuning::timeout_floor_ns`] doubled by each try before it, up to `most_ns`; true.
    /// Where it has lasted so long it has gone unanswered.
    #[cold]
    pub fn end_try(&mut self, now: Instant, least_ns: u64, most_ns: u64) -> bool {
        let ctx = context!(self);
        let Sender::Reliable(requester) = &mut self.sender else {
            return false;
        };
        let goes_on = requester.go_on(now, &ctx, (least_ns, most_ns));
        if !goes_on {
            let outcome = requester.end_try(now);
            // No packet, so nothing is dropped.
            let _ = self.settle(outcome);
        }
        goes_on
    }

    /// The link was down and is back: the next request that [`QueuePair::poll_request`] gives asks
    /// for what is not acknowledged, if anything is.
    pub fn ask_now(&mut self) {
        if let Sender::Reliable(requester) = &mut self.sender {
            requester.ask_now();
        }
    }

    /// When [`QueuePair::handle_timeout`] is to be called.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match &self.sender {
            Sender::Reliable(requester) => requester.poll_timeout(),
            Sender::None | Sender::Unreliable(_) => None,
        }
    }

    /// Bytes that a buffer for the next packet must offer, at the most: headers, this queue pair's MTU and pad.
    pub fn max_packet_bytes(&self) -> usize {
        let mtu = match self.config.qp_type {
            QpType::Ud => self.config.tuning.datagram_mtu,
            _ => self.attr.path_mtu.bytes(),
        };
        MAX_PACKET_BYTES - Mtu::M4096.bytes() as usize + mtu as usize
    }

    /// Writes the next packet to `buf`, which holds [`QueuePair::max_packet_bytes`]: answers to the peer first, then
    /// requests of this side.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        env: &mut dyn Environment,
        buf: &mut [u8],
    ) -> Option<Transmit> {
        let path = Path::Connected;
        match self.poll_answer(env, buf) {
            Some(len) => Some(Transmit {
                len,
                path,
                urgent: false,
            }),
            None => self.poll_request(now, env, buf),
        }
    }

    /// Whether an answer to the peer is due. Says `More` while READ responses are left.
    #[inline]
    pub fn answer_due(&self) -> AnswerDue {
        match &self.receiver {
            Receiver::Reliable(responder) if self.may_answer() => responder.answer_due(),
            _ => AnswerDue::None,
        }
    }

    /// Requests that came since the last turn have left nothing to say: no answer is due, no event waits. (What this side sends is not
    /// asked; requests of the peer change nothing there.)
    pub fn is_quiet(&self) -> bool {
        self.events.is_empty() && self.answer_due() == AnswerDue::None
    }

    fn may_answer(&self) -> bool {
        match self.attr.state {
            QpState::Reset | QpState::Init => false,
            QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe => true,
            QpState::Err => self.say_why,
        }
    }

    /// Writes the next acknowledgement or response to `buf`, which holds [`QueuePair::max_packet_bytes`]; returns its
    /// length from BTH to pad. It goes along the connection's path.
    pub fn poll_answer(&mut self, env: &mut dyn Environment, buf: &mut [u8]) -> Option<usize> {
        if !self.may_answer() {
            return None;
        }
        let ctx = context!(self);
        let Receiver::Reliable(responder) = &mut self.receiver else {
            return None;
        };
        match responder.poll_transmit(&ctx, env, buf) {
            Ok(len) => {
                self.counters.answers_sent += u64::from(len.is_some());
                len
            }
            Err(Verdict::Fatal(event)) => {
                // The memory of a READ is gone; what is left to say is the NAK.
                self.enter_error(event, true);
                self.poll_answer(env, buf)
            }
            Err(Verdict::Continue | Verdict::Dropped(_)) => None,
        }
    }

    /// Writes the next request packet to `buf`, which holds [`QueuePair::max_packet_bytes`], if one may be sent now.
    #[inline]
    pub fn poll_request(
        &mut self,
        now: Instant,
        env: &mut dyn Environment,
        buf: &mut [u8],
    ) -> Option<Transmit> {
        if !matches!(self.attr.state, QpState::Rts | QpState::Sqd) {
            return None;
        }
        let ctx = context!(self);
        let (step, path) = match &mut self.sender {
            Sender::None => (Step::Idle, Path::Connected),
            Sender::Reliable(requester) => {
                let step = requester.poll_transmit(now, &ctx, env, buf);
                (step, Path::Connected)
            }
            Sender::Unreliable(sender) => {
                let step = sender.poll_transmit(&ctx, env, buf);
                let path = match sender.sent_to {
                    Some(_) => Path::Datagram,
                    None => Path::Connected,
                };
                (step, path)
            }
        };
        match (step, &self.sender) {
            (Step::Packet(len) | Step::Repair(len), _) => {
                self.tell_if_drained();
                let urgent = matches!(step, Step::Repair(_));
                Some(Transmit { len, path, urgent })
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

    /// After [`Self::poll_request`] gave the middle packet of a long message (RC), `len` bytes long: those that follow it, as many as may
    /// go now and `buf` has places for, `stride` bytes apart. Gives their number; 0 says nothing about what `poll_request` has.
    pub fn poll_middles(
        &mut self,
        now: Instant,
        env: &mut dyn Environment,
        (buf, len, stride): (&mut [u8], usize, usize),
    ) -> u32 {
        if !matches!(self.attr.state, QpState::Rts | QpState::Sqd) {
            return 0;
        }
        let ctx = context!(self);
        match &mut self.sender {
            Sender::Reliable(requester) => {
                requester.poll_middles(now, &ctx, env, (buf, len, stride))
            }
            Sender::None | Sender::Unreliable(_) => 0,
        }
    }

    /// Where the datagram goes that [`Self::poll_request`] gave last (UD): path, remote queue pair, and the handle given when posting.
    pub fn datagram(&self) -> Option<&Datagram> {
        match &self.sender {
            Sender::Unreliable(sender) => sender.sent_to.as_ref(),
            _ => None,
        }
    }

    /// The next completion, in order per queue, and the completion queue it belongs to.
    #[inline]
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
