//! The completer: what acknowledgements and responses do to the send queue.
//!
//! The other half of [`Requester`]. A response is believed only within the PSNs that are outstanding; whatever lies
//! outside is an echo of the past or a lie, and is dropped.

use super::requester::{Outcome, Requester};
use crate::context::Context;
use crate::diagnosis::{Cause, Drop};
use crate::env::{Environment, SgeOwner};
use crate::timer::Timer;
use crate::types::{Instant, SendOpcode, WcStatus, rnr_timer_ns};
use ferriband_wire::{Aeth, CreditCode, GapReport, Msn, NakCode, Operation, Packet, Psn, Syndrome};

/// `rnr_retry` of this value never runs out (I9).
const RNR_RETRY_INFINITE: u8 = 7;
/// Packets in a row that a peer lacks, each told after the one before was sent again, until all is sent again.
const NEIGHBOURS: u32 = 3;

impl Requester {
    /// A packet from the peer's responder.
    pub fn handle_response(
        &mut self,
        now: Instant,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        packet: &Packet<'_>,
    ) -> Outcome {
        let psn = packet.bth().psn;
        let aeth = packet.ext().aeth;
        if self.ahead(psn) >= self.ahead(self.next) {
            // The latest acknowledgement come again may still bring credits.
            if psn.next() == self.una
                && let Some(Aeth {
                    syndrome: Syndrome::Ack(credits),
                    msn,
                }) = aeth
            {
                self.take_credits(credits, msn);
                return Outcome::Continue;
            }
            return Outcome::Dropped(Drop::Psn);
        }
        match packet.opcode().operation() {
            Operation::RdmaReadResponse => self.read_response(now, ctx, env, packet),
            Operation::AtomicAcknowledge => self.atomic_response(now, ctx, env, packet),
            _ => match aeth {
                Some(aeth) => self.acknowledgement(now, ctx, psn, aeth),
                None => Outcome::Dropped(Drop::NotExpected),
            },
        }
    }

    fn acknowledgement(
        &mut self,
        now: Instant,
        ctx: &Context<'_>,
        psn: Psn,
        aeth: Aeth,
    ) -> Outcome {
        match aeth.syndrome {
            Syndrome::Ack(credits) => {
                self.take_credits(credits, aeth.msn);
                let asked = self.asked.or(self.suspect);
                let fills = self.filled.is_some_and(|(filled, _)| filled == self.una);
                self.acknowledge(now, ctx, psn.next());
                if fills && self.una == psn.next() {
                    self.fill_end(now);
                }
                if self.una != psn.next() {
                    return self.implied_nak(now);
                }
                if let Some(end) = asked
                    && self.asked.is_none()
                {
                    self.heard_again(now, end);
                }
                Outcome::Continue
            }
            Syndrome::Reserved(_) => Outcome::Dropped(Drop::NotExpected),
            syndrome => {
                // I6: a NAK acknowledges everything earlier.
                self.acknowledge(now, ctx, psn);
                if self.una != psn {
                    return self.implied_nak(now);
                }
                match syndrome {
                    Syndrome::RnrNak(code) => self.receiver_not_ready(now, ctx, code),
                    Syndrome::Nak(NakCode::PsnSequenceError) => self.gap(now, Cause::Gap),
                    _ => self.refused(now, syndrome),
                }
            }
        }
    }

    /// The peer reports a gap, or its answers have one. Once per gap: echoes of the report, and answers that were
    /// already under way, must not use up retries.
    fn gap(&mut self, now: Instant, cause: Cause) -> Outcome {
        if self.cur_psn() == self.una {
            return Outcome::Continue;
        }
        if self.peer_holds && cause == Cause::Gap {
            return self.fill_gap(now);
        }
        if self.gone_back_for == Some(self.una) {
            return Outcome::Continue;
        }
        self.counters.gaps_heard += 1;
        self.journal.note(now, cause, self.una);
        self.narrow(cause == Cause::ResponseLost);
        let outcome = self.retry();
        self.gone_back_for = Some(self.una);
        self.learns = cause == Cause::Gap;
        outcome
    }

    /// The peer lacks one packet and keeps what comes after it. It gets that one; new packets go on. This is no retry: the peer
    /// answers, and if it never gets that packet, the ack time-out counts.
    fn fill_gap(&mut self, now: Instant) -> Outcome {
        if self.sent_lately(self.una, now) {
            // An echo, unless what was sent again should have arrived by now.
            return Outcome::Continue;
        }
        match self.filled {
            Some((psn, _)) if psn == self.una => {}
            Some((psn, _)) if psn.next() == self.una => self.adjacent += 1,
            _ => self.adjacent = 0,
        }
        self.counters.gaps_heard += 1;
        self.journal.note(now, Cause::Gap, self.una);
        if self.adjacent >= NEIGHBOURS {
            // A whole run was lost, or the peer holds nothing after all.
            self.adjacent = 0;
            self.peer_holds = false;
            self.filled = None;
            self.narrow(false);
            let outcome = self.retry();
            self.gone_back_for = Some(self.una);
            return outcome;
        }
        self.narrow(false);
        self.filled = Some((self.una, now));
        self.fill = true;
        Outcome::Continue
    }

    /// The peer lists packets that it lacks beyond the first: they are sent again while that one still is.
    ///
    /// # Errors
    /// It is not a list, or not of this flight, or from somebody who is not known to keep anything.
    pub fn hear_gaps(&mut self, now: Instant, packet: &Packet<'_>) -> Result<(), Drop> {
        let report = GapReport::parse(packet.payload).ok_or(Drop::Length)?;
        if !self.peer_holds {
            return Err(Drop::NotExpected);
        }
        let expected = packet.bth().psn;
        let sent = self.ahead(self.cur_psn());
        if self.ahead(expected) >= sent {
            return Err(Drop::Psn);
        }
        let farthest = expected.add(report.reach.into());
        if self.ahead(farthest) < sent && self.heard.is_none_or(|heard| farthest.after(heard)) {
            self.heard = Some(farthest);
        }
        let missing = report.holes().flat_map(|hole| hole.psns(expected));
        for psn in missing.take(GapReport::MOST_HOLES * 4) {
            if self.ahead(psn) < sent && !self.sent_lately(psn, now) && !self.repairs.push(psn) {
                break;
            }
        }
        self.counters.gap_lists_heard += 1;
        if !self.repairs.is_empty() {
            self.journal.note(now, Cause::Gap, expected);
            self.narrow(false);
        }
        Ok(())
    }

    /// It was sent again to fill a gap, and that may still be under way.
    pub(super) fn sent_lately(&self, psn: Psn, now: Instant) -> bool {
        let filled = self.filled.filter(|(filled, _)| *filled == psn);
        let at = filled.map(|(_, at)| at).max(self.repairs.sent_at(psn));
        at.is_some_and(|at| now.0 < at.0 + 2 * self.trip.smooth_ns())
    }

    /// A gap was filled, and what came after it acknowledged but for the last packet: a peer that does not know us yet keeps no end of
    /// a message, and nothing comes after it that would tell.
    fn fill_end(&mut self, now: Instant) {
        if self.cur_psn() == self.una.next() {
            self.filled = Some((self.una, now));
            self.fill = true;
        }
    }

    /// Something was acknowledged after a question. If the peer had everything that was sent before it, it is said at
    /// once or soon; what is missing up to `end` after a moment without more was lost.
    #[cold]
    fn heard_again(&mut self, now: Instant, end: Psn) {
        if end.after(self.una) && self.cur_psn() != self.una {
            self.suspect = Some(end);
            let moment = now.plus_ns(self.trip.moment_ns());
            self.timers.set(Timer::Silence, moment);
        } else {
            self.suspect = None;
        }
    }

    /// Something after a READ or atomic is answered and it is not: its response was lost (IBA 9.7.5.1.3).
    fn implied_nak(&mut self, now: Instant) -> Outcome {
        self.gap(now, Cause::ResponseLost)
    }

    /// The peer lives and has seen the packet, so the tries that went unanswered before do not count any more: RNR NAKs
    /// have a count of their own (IBA 9.9.2.1).
    fn receiver_not_ready(&mut self, now: Instant, ctx: &Context<'_>, code: u8) -> Outcome {
        if self.timers.is_set(Timer::Rnr) {
            return Outcome::Continue;
        }
        self.retries_left = ctx.attr.retry_cnt;
        self.counters.rnr_naks_heard += 1;
        self.journal
            .note(now, Cause::ReceiverNotReady(code), self.una);
        if self.rnr_left == 0 {
            self.fail_head(WcStatus::RnrRetryExcErr, 0x20 | u32::from(code));
            return Outcome::Failed;
        }
        if self.rnr_left != RNR_RETRY_INFINITE {
            self.rnr_left -= 1;
        }
        self.go_back();
        self.timers.set(Timer::Rnr, now.plus_ns(rnr_timer_ns(code)));
        Outcome::Continue
    }

    #[cold]
    fn refused(&mut self, now: Instant, syndrome: Syndrome) -> Outcome {
        let status = match syndrome {
            Syndrome::Nak(NakCode::InvalidRequest) => WcStatus::RemInvReqErr,
            Syndrome::Nak(NakCode::RemoteAccessError) => WcStatus::RemAccessErr,
            Syndrome::Nak(NakCode::InvalidRdRequest) => WcStatus::RemInvRdReqErr,
            _ => WcStatus::RemOpErr,
        };
        let code = syndrome.code().unwrap_or(0);
        self.counters.naks_heard += 1;
        self.journal.note(now, Cause::Refused(code), self.una);
        self.fail_head(status, code.into());
        Outcome::Failed
    }

    /// Everything before `target` is done at the peer, as far as that can be said without data: a READ or atomic
    /// waits for its response (I4), and stops what follows it.
    fn acknowledge(&mut self, now: Instant, ctx: &Context<'_>, target: Psn) {
        let before = self.una;
        if self.learns
            && self.gone_back_for == Some(before)
            && self.ahead(target) > self.ahead(self.cur_psn())
        {
            // It cannot have these from this pass.
            self.peer_holds = true;
        }
        while self.una != target {
            let done = self.sq.done();
            let wqe = self.sq.get(done);
            if wqe.is_read_or_atomic() {
                break;
            }
            let (first, end) = (wqe.first_psn, wqe.end_psn());
            if self.ahead(target) < self.ahead(end) {
                self.una = target;
                if self.cur == done {
                    self.cur_packet = self.cur_packet.max(target.sub(first.get()).get());
                }
            } else {
                self.una = end;
                self.finish_head();
            }
        }
        if self.una != before {
            let packets = self.una.sub(before.get()).get();
            self.window.acknowledged(packets);
            self.progress(now, ctx, packets);
        }
    }

    fn finish_head(&mut self) {
        let done = self.sq.done();
        self.sq.finish(WcStatus::Success, 0);
        if self.cur == done {
            self.cur = done + 1;
            self.cur_packet = 0;
        }
    }

    /// IBA 9.9.2.1: acknowledged progress restores the retry counters and starts the timer anew.
    fn progress(&mut self, now: Instant, ctx: &Context<'_>, packets: u32) {
        self.trip.arrived(now, self.una, packets);
        self.asked = None;
        self.ask = false;
        self.questions = 0;
        self.put_off = 0;
        if self.recover.is_some_and(|end| !end.after(self.una)) {
            self.recover = None;
        }
        self.refill_retries(ctx);
        self.gone_back_for = None;
        self.fill = false;
        if self.probe.is_some_and(|probe| self.una.after(probe)) {
            self.probe = None;
        }
        self.timers.stop(Timer::Ack);
        self.timers.stop(Timer::Rnr);
        self.timers.stop(Timer::Silence);
        if self.cur_psn() != self.una {
            self.start_ack_timer(now, ctx);
        }
    }

    /// IBA 9.7.7.2: the limit is the MSN plus the credits. It never moves back: an old acknowledgement that comes
    /// late says less, not more.
    fn take_credits(&mut self, credits: CreditCode, msn: Msn) {
        match credits.credits() {
            None => self.unlimited = true,
            Some(count) => {
                self.unlimited = false;
                let limit = Psn::new(msn.0).add(count);
                if limit.after(Psn::new(self.lsn)) {
                    self.lsn = limit.get();
                }
            }
        }
    }

    /// One PSN of the READ or atomic at the head is answered.
    fn answered(&mut self, now: Instant, ctx: &Context<'_>, last: bool) {
        // Asked for in the present pass, and not answered late after going back.
        let sent = self.cur_psn() != self.una;
        self.una = self.una.next();
        if sent {
            self.read_psns = self.read_psns.saturating_sub(1);
            if self.reads.front() == Some(&self.una) {
                self.reads.pop_front();
            }
        } else {
            // This part need not be asked for again.
            let first = self.sq.get(self.cur).first_psn;
            self.cur_packet = self.cur_packet.max(self.una.sub(first.get()).get());
        }
        self.read_window.acknowledged(1);
        if last {
            self.finish_head();
        }
        self.progress(now, ctx, 1);
    }

    fn read_response(
        &mut self,
        now: Instant,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        packet: &Packet<'_>,
    ) -> Outcome {
        let psn = packet.bth().psn;
        self.acknowledge(now, ctx, psn);
        if self.una != psn {
            return self.implied_nak(now);
        }
        let done = self.sq.done();
        let wqe = *self.sq.get(done);
        let mtu = ctx.attr.path_mtu.bytes();
        let index = psn.sub(wqe.first_psn.get()).get();
        let last = index + 1 == wqe.packets;
        let offset = index.wrapping_mul(mtu);
        // The position is First or Only wherever the peer begins again; where a piece ends is certain.
        let fits = wqe.opcode == SendOpcode::RdmaRead
            && packet.opcode().position().ends() == (index + 1 == wqe.piece_end(index))
            && packet.payload.len() as u32 == (wqe.length - offset.min(wqe.length)).min(mtu);
        if !fits {
            return self.bad_response();
        }
        if env
            .scatter(
                SgeOwner::QueuePair,
                self.sq.sges(done),
                offset,
                packet.payload,
            )
            .is_err()
        {
            self.fail_head(WcStatus::LocProtErr, 0);
            return Outcome::Failed;
        }
        if let Some(Aeth {
            syndrome: Syndrome::Ack(credits),
            msn,
        }) = packet.ext().aeth
        {
            self.take_credits(credits, msn);
        }
        self.answered(now, ctx, last);
        Outcome::Continue
    }

    fn atomic_response(
        &mut self,
        now: Instant,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        packet: &Packet<'_>,
    ) -> Outcome {
        let psn = packet.bth().psn;
        self.acknowledge(now, ctx, psn);
        if self.una != psn {
            return self.implied_nak(now);
        }
        let done = self.sq.done();
        let opcode = self.sq.get(done).opcode;
        let (Some(ack), SendOpcode::CmpSwap | SendOpcode::FetchAdd) =
            (packet.ext().atomic_ack, opcode)
        else {
            return self.bad_response();
        };
        let bytes = ack.original.to_ne_bytes();
        if env
            .scatter(SgeOwner::QueuePair, self.sq.sges(done), 0, &bytes)
            .is_err()
        {
            self.fail_head(WcStatus::LocProtErr, 0);
            return Outcome::Failed;
        }
        if let Some(Aeth {
            syndrome: Syndrome::Ack(credits),
            msn,
        }) = packet.ext().aeth
        {
            self.take_credits(credits, msn);
        }
        self.answered(now, ctx, true);
        Outcome::Continue
    }

    /// IBA 9.9.2.3: an opcode or a length that no request of ours can have caused.
    #[cold]
    fn bad_response(&mut self) -> Outcome {
        self.fail_head(WcStatus::BadRespErr, 0);
        Outcome::Failed
    }
}
