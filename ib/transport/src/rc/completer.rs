//! The completer: what acknowledgements and responses do to the send queue.
//!
//! A part of [`Requester`]. A response is believed only within the PSNs that are outstanding;
//! whatever lies outside is an echo of the past or a lie, and is dropped.

use super::repair::{Gap, OnGap};
use super::requester::{Outcome, Requester};
use crate::context::Context;
use crate::diagnosis::{Cause, Drop};
use crate::env::{Environment, SgeOwner};
use crate::timer::Timer;
use crate::types::{Instant, SendOpcode, WcStatus, rnr_timer_ns};
use ferriband_wire::{Aeth, GapReport, NakCode, Operation, Packet, Psn, Syndrome};

/// `rnr_retry` of this value never runs out (I9).
const RNR_RETRY_INFINITE: u8 = 7;

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
        if self.ahead(psn) >= self.ahead(self.at.next) {
            // The latest acknowledgement come again may still bring credits.
            if psn.next() == self.at.una
                && let Some(Aeth {
                    syndrome: Syndrome::Ack(credits),
                    msn,
                }) = aeth
            {
                self.credits.take(credits, msn);
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
                self.credits.take(credits, aeth.msn);
                let doubted = self.repair.doubted();
                let fills = self.repair.has_filled(self.at.una);
                self.acknowledge(now, ctx, psn.next());
                if fills && self.at.una == psn.next() {
                    let flight = self.flight(now);
                    self.repair.filled(&flight);
                }
                if self.at.una != psn.next() {
                    return self.implied_nak(now);
                }
                if let Some(end) = doubted {
                    self.heard_again(now, end);
                }
                Outcome::Continue
            }
            Syndrome::Reserved(_) => Outcome::Dropped(Drop::NotExpected),
            syndrome => {
                // I6: a NAK acknowledges everything earlier.
                self.acknowledge(now, ctx, psn);
                if self.at.una != psn {
                    return self.implied_nak(now);
                }
                match syndrome {
                    Syndrome::RnrNak(code) => self.receiver_not_ready(now, ctx, code),
                    Syndrome::Nak(NakCode::PsnSequenceError) => self.gap(now, Gap::SequenceError),
                    _ => self.refused(now, syndrome),
                }
            }
        }
    }

    /// The peer reports a gap, or its answers have one. What goes again alone is no retry: the peer
    /// answers, and if it
    /// never gets that packet, the ack time-out counts.
    fn gap(&mut self, now: Instant, gap: Gap) -> Outcome {
        if self.cur_psn() == self.at.una {
            return Outcome::Continue;
        }
        let flight = self.flight(now);
        let decided = self.repair.gap(gap, &flight);
        if decided == OnGap::Ignore {
            return Outcome::Continue;
        }
        let cause = match gap {
            Gap::SequenceError => Cause::Gap,
            Gap::Response => Cause::ResponseLost,
        };
        self.log.counters.gaps_heard += 1;
        self.log.journal.note(now, cause, self.at.una);
        self.narrow(gap == Gap::Response);
        match decided {
            OnGap::GoBack => self.retry(),
            OnGap::Fill | OnGap::Ignore => Outcome::Continue,
        }
    }

    /// The peer lists packets that it lacks beyond the first: they are sent again while that one still is.
    ///
    /// # Errors
    /// It is not a list, or not of this flight, or from somebody who is not known to keep anything.
    pub fn hear_gaps(&mut self, now: Instant, packet: &Packet<'_>) -> Result<(), Drop> {
        let report = GapReport::parse(packet.payload).ok_or(Drop::Length)?;
        if !self.repair.fills() {
            return Err(Drop::NotExpected);
        }
        let expected = packet.bth().psn;
        let flight = self.flight(now);
        if !flight.contains(expected) {
            return Err(Drop::Psn);
        }
        self.repair.listed(expected, &report, &flight);
        self.log.counters.gap_lists_heard += 1;
        if self.repair.has_more() {
            self.log.journal.note(now, Cause::Gap, expected);
            self.narrow(false);
        }
        Ok(())
    }

    /// Something was acknowledged after a question about everything before `end`.
    #[cold]
    fn heard_again(&mut self, now: Instant, end: Psn) {
        let flight = self.flight(now);
        if self.repair.answered(end, &flight) {
            let moment = now.plus_ns(self.flow.trip.moment_ns());
            self.timers.set(Timer::Silence, moment);
        }
    }

    /// Something after a READ or atomic is answered and it is not: its response was lost (IBA 9.7.5.1.3).
    fn implied_nak(&mut self, now: Instant) -> Outcome {
        self.gap(now, Gap::Response)
    }

    /// The peer lives and has seen the packet, so the tries that went unanswered before do not count any more: RNR NAKs
    /// have a count of their own (IBA 9.9.2.1).
    fn receiver_not_ready(&mut self, now: Instant, ctx: &Context<'_>, code: u8) -> Outcome {
        if self.timers.is_set(Timer::Rnr) {
            return Outcome::Continue;
        }
        self.tries.retries_left = ctx.attr.retry_cnt;
        self.log.counters.rnr_naks_heard += 1;
        self.log
            .journal
            .note(now, Cause::ReceiverNotReady(code), self.at.una);
        if self.tries.rnr_left == 0 {
            self.fail_head(WcStatus::RnrRetryExcErr, 0x20 | u32::from(code));
            return Outcome::Failed;
        }
        if self.tries.rnr_left != RNR_RETRY_INFINITE {
            self.tries.rnr_left -= 1;
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
        self.log.counters.naks_heard += 1;
        self.log
            .journal
            .note(now, Cause::Refused(code), self.at.una);
        self.fail_head(status, code.into());
        Outcome::Failed
    }

    /// Everything before `target` is done at the peer, as far as that can be said without data: a READ or atomic
    /// waits for its response (I4), and stops what follows it.
    fn acknowledge(&mut self, now: Instant, ctx: &Context<'_>, target: Psn) {
        let before = self.at.una;
        if self.repair.may_learn(before) && self.ahead(target) > self.ahead(self.cur_psn()) {
            // It cannot have these from this pass.
            self.repair.learn();
        }
        while self.at.una != target {
            let done = self.sq.done();
            let wqe = self.sq.get(done);
            if wqe.is_read_or_atomic() {
                break;
            }
            let (first, end) = (wqe.first_psn, wqe.end_psn());
            if self.ahead(target) < self.ahead(end) {
                self.at.una = target;
                if self.at.request == done {
                    self.at.packet = self.at.packet.max(target.sub(first.get()).get());
                }
            } else {
                self.at.una = end;
                self.finish_head();
            }
        }
        if self.at.una != before {
            let packets = self.at.una.sub(before.get()).get();
            self.flow.requests.acknowledged(packets);
            self.progress(now, ctx, packets);
        }
    }

    fn finish_head(&mut self) {
        let done = self.sq.done();
        self.sq.finish(WcStatus::Success, 0);
        if self.at.request == done {
            self.at.request = done + 1;
            self.at.packet = 0;
        }
    }

    /// IBA 9.9.2.1: acknowledged progress restores the retry counters and starts the timer anew.
    fn progress(&mut self, now: Instant, ctx: &Context<'_>, packets: u32) {
        self.flow.trip.arrived(now, self.at.una, packets);
        self.repair.progress();
        self.flow.acknowledged(self.at.una);
        self.refill_retries(ctx);
        self.credits.acknowledged(self.at.una);
        self.timers.stop(Timer::Ack);
        self.timers.stop(Timer::Rnr);
        self.timers.stop(Timer::Silence);
        if self.cur_psn() != self.at.una {
            self.start_ack_timer(now, ctx);
        }
    }

    /// One PSN of the READ or atomic at the head is answered.
    fn answered(&mut self, now: Instant, ctx: &Context<'_>, last: bool) {
        // Asked for in the present pass, and not answered late after going back.
        let sent = self.cur_psn() != self.at.una;
        self.at.una = self.at.una.next();
        if sent {
            self.reads.psns = self.reads.psns.saturating_sub(1);
            if self.reads.ends.front() == Some(&self.at.una) {
                self.reads.ends.pop_front();
            }
        } else {
            // This part need not be asked for again.
            let first = self.sq.get(self.at.request).first_psn;
            self.at.packet = self.at.packet.max(self.at.una.sub(first.get()).get());
        }
        self.flow.responses.acknowledged(1);
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
        if self.at.una != psn {
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
            self.credits.take(credits, msn);
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
        if self.at.una != psn {
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
            self.credits.take(credits, msn);
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
