//! Sending again: the requester's timers, going back, and single packets that are sent once more.
//!
//! A part of [`Requester`]: what [`super::repair`] decides is done here. Reads the send queue and
//! moves the cursor back;
//! must not know acknowledgements, which [`super::completer`] takes.

use super::repair::{Again, Flight, OnSilence};
use super::requester::{Outcome, Requester, Step};
use crate::context::Context;
use crate::diagnosis::Cause;
use crate::emit;
use crate::env::Environment;
use crate::timer::Timer;
use crate::types::{Instant, ack_timeout_ns};
use ferriband_wire::Psn;

/// Between two questions of a requester that hears nothing, unless a round trip takes longer: so
/// soon after a link is back messages go on.
const MOST_SILENCE_NS: u64 = 25_000_000;

impl Requester {
    /// What is outstanding now.
    pub(super) fn flight(&self, now: Instant) -> Flight {
        Flight {
            una: self.at.una,
            sent: self.ahead(self.cur_psn()),
            now,
            lately_ns: 2 * self.flow.trip.smooth_ns(),
        }
    }

    /// `heard`: when the last packet of the peer came, whatever it was.
    pub fn handle_timeout(
        &mut self,
        now: Instant,
        ctx: &Context<'_>,
        heard: Option<Instant>,
    ) -> Outcome {
        // After the RNR wait, poll_transmit simply goes on from where the refusal put it.
        self.timers.expire(Timer::Rnr, now);
        if self.timers.due(Timer::Ack, now).is_some() {
            return match ctx.tuning.timeout_floor_ns {
                0 => self.end_try(now),
                _ => Outcome::TryOver,
            };
        }
        if self.timers.expire(Timer::Silence, now) && self.cur_psn() != self.at.una {
            let goes_on = self.silence_goes_on(now, ctx, heard);
            match self.repair.silence(goes_on) {
                OnSilence::GoBack => {
                    self.log.journal.note(now, Cause::Silence, self.at.una);
                    self.narrow(false);
                    self.go_back();
                }
                OnSilence::PutOff(until) => self.timers.set(Timer::Silence, until),
                OnSilence::Ask => {}
            }
        }
        Outcome::Continue
    }

    /// A try has gone unanswered.
    #[cold]
    pub fn end_try(&mut self, now: Instant) -> Outcome {
        self.timers.stop(Timer::Ack);
        self.log.counters.timeouts += 1;
        self.log.journal.note(now, Cause::Timeout, self.at.una);
        self.flow.timed_out(self.at.next);
        self.retry()
    }

    /// A try that is over by `now` goes on, once, as long as if it had begun with a time-out of
    /// `least_ns`, or with the floor doubled by each try before it, up to `most_ns`. The peer is
    /// asked meanwhile. True if it does.
    #[cold]
    pub fn go_on(
        &mut self,
        now: Instant,
        ctx: &Context<'_>,
        (least_ns, most_ns): (u64, u64),
    ) -> bool {
        let over = self.timers.due(Timer::Ack, now);
        let Some((at, asked_for)) = over.zip(ack_timeout_ns(ctx.attr.timeout)) else {
            return false;
        };
        let floor = ctx.tuning.timeout_floor_ns;
        let used = ctx.attr.retry_cnt.saturating_sub(self.tries.retries_left);
        let doubled = floor.saturating_mul(1 << used.min(16));
        let wanted = doubled.min(most_ns).max(least_ns);
        let until = at.plus_ns(wanted.saturating_sub(asked_for.max(floor)));
        if at == self.tries.goes_on_until || until <= now {
            return false;
        }
        self.tries.goes_on_until = until;
        self.timers.set(Timer::Ack, until);
        self.ask_now();
        true
    }

    /// The link was down and is back: what is not acknowledged is asked for at once.
    pub fn ask_now(&mut self) {
        if self.cur_psn() != self.at.una {
            self.repair.ask_now();
        }
    }

    /// An acknowledgement of something that is outstanding was asked for.
    pub(super) fn is_asked(&self) -> bool {
        self.repair.questions() > 0 || self.acks.since_asked < self.ahead(self.cur_psn())
    }

    /// The peer has no answer to give and lives: where messages go to and fro so slowly that they
    /// outlast a silence, that is none. Until when it is not, then. Only so often, for a message
    /// that was lost is to be found though its peer goes on sending others:
    /// [`super::repair::Repair::silence`] counts.
    #[cold]
    fn silence_goes_on(
        &self,
        now: Instant,
        ctx: &Context<'_>,
        heard: Option<Instant>,
    ) -> Option<Instant> {
        let silence = self.flow.trip.silence_ns(ctx.tuning.silence_ns);
        let later = heard.filter(|_| !self.is_asked())?;
        Some(later.plus_ns(silence)).filter(|later| *later > now)
    }

    /// One retry for going back; none left says so and changes nothing.
    pub(super) fn retry(&mut self) -> Outcome {
        if self.tries.retries_left == 0 {
            return Outcome::Exhausted;
        }
        self.tries.retries_left -= 1;
        self.go_back();
        Outcome::Continue
    }

    /// The path has migrated: all retries again, on the new path.
    pub fn restart_on_new_path(&mut self, ctx: &Context<'_>) {
        self.refill_retries(ctx);
        self.go_back();
    }

    /// Sends again from the oldest unacknowledged PSN (go-back-N, IBA 9.7.5.1.1).
    pub(super) fn go_back(&mut self) {
        self.at.request = self.sq.done();
        self.at.packet = 0;
        if self.at.request < self.sq.tail() && self.sq.get(self.at.request).begun() {
            self.at.packet = self.ahead_of_first(self.at.una);
        }
        self.reads.forget();
        self.repair.went_back();
        self.flow.trip.forget();
        self.credits.forget_probe();
        // What is sent first wants to be heard of: it may fill the gap alone.
        self.acks.since_asked = u32::MAX - 1;
        self.timers.stop(Timer::Ack);
        self.timers.stop(Timer::Silence);
    }

    /// A loss makes a window smaller: that of `responses`, or that of requests.
    pub(super) fn narrow(&mut self, responses: bool) {
        let holds = self.repair.fills();
        self.flow.lost(self.at.una, self.at.next, responses, holds);
    }

    fn ahead_of_first(&self, psn: Psn) -> u32 {
        psn.sub(self.sq.get(self.sq.done()).first_psn.get()).get()
    }

    /// The next packet that loss repair wants to be sent again by itself. None if there is none any
    /// more.
    #[cold]
    pub(super) fn send_again(
        &mut self,
        now: Instant,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        buf: &mut [u8],
    ) -> Option<Step> {
        while let Some(again) = self.repair.next(now) {
            let step = match again {
                Again::Oldest => self.repeat_oldest(ctx, env, buf).map(|len| {
                    // The peer has just been heard.
                    self.start_silence_timer(now, ctx);
                    Step::Repair(len)
                }),
                // What cannot be read is found out when it is the oldest.
                Again::Packet(psn) => self
                    .find(psn)
                    .and_then(|(request, index)| {
                        self.emit_again(ctx, env, (request, index, 1, psn), buf)
                    })
                    .map(|len| match self.repair.has_more() {
                        true => Step::Packet(len),
                        false => Step::Repair(len),
                    }),
                Again::Question => self.question(now, ctx, env, buf).map(Step::Packet),
            };
            if step.is_some() {
                return step;
            }
        }
        None
    }

    /// Sends the oldest packet once more and wants to hear about it: whether it, or what came after
    /// it, or only the
    /// answer was lost, its acknowledgement tells. A duplicate is answered and not executed (IBA
    /// C9-105), so this is no
    /// retry. Asking with the newest packet would not do: behind a gap whose NAK was lost it is
    /// dropped.
    #[cold]
    fn question(
        &mut self,
        now: Instant,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        buf: &mut [u8],
    ) -> Option<usize> {
        let end_of_flight = self.cur_psn();
        let len = self.repeat_oldest(ctx, env, buf)?;
        self.repair.asked(end_of_flight);
        self.log.counters.questions += 1;
        self.start_silence_timer(now, ctx);
        // who is asked has time to answer, be it the last question before the ack time-out: that
        // may come up to 4 T
        // after the request (IBA 9.7.6.1.3)
        let answer = self.flow.trip.silence_ns(ctx.tuning.silence_ns);
        self.timers.put_off(Timer::Ack, now.plus_ns(answer));
        Some(len)
    }

    /// The oldest packet once more, as it was, with a request for an acknowledgement. None if
    /// nothing is outstanding.
    #[cold]
    fn repeat_oldest(
        &mut self,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        buf: &mut [u8],
    ) -> Option<usize> {
        if self.cur_psn() == self.at.una {
            return None;
        }
        let (request, index) = (self.sq.done(), self.ahead_of_first(self.at.una));
        let wqe = self.sq.get(request);
        let end = if wqe.is_read_or_atomic() {
            wqe.piece_end(index)
        } else {
            index + 1
        };
        let oldest = (request, index, end - index, self.at.una);
        let len = self.emit_again(ctx, env, oldest, buf);
        if len.is_none() {
            // Its turn comes at once, and says what is wrong with it.
            self.go_back();
        }
        len
    }

    /// A packet that was sent before, once more: of which request, which of its packets, how many
    /// PSNs and from which.
    /// None if its bytes cannot be read.
    #[cold]
    fn emit_again(
        &mut self,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        (request, index, psns, psn): (u64, u32, u32, Psn),
        buf: &mut [u8],
    ) -> Option<usize> {
        let part = emit::Part {
            request,
            index,
            psns,
            psn,
            ack_req: true,
            again: true,
        };
        let len = emit::request(ctx, env, &self.sq, part, buf).ok()?;
        self.flow.trip.forget();
        self.log.counters.requests_sent += 1;
        self.log.counters.requests_repeated += 1;
        Some(len)
    }

    /// The request and the packet of it that an outstanding PSN stands for; None for READs and
    /// atomics, whose answers come in order.
    fn find(&self, psn: Psn) -> Option<(u64, u32)> {
        if self.ahead(psn) >= self.ahead(self.cur_psn()) {
            return None;
        }
        let outstanding = self.sq.done()..self.sq.tail().min(self.at.request + 1);
        outstanding.into_iter().find_map(|request| {
            let wqe = self.sq.get(request);
            let index = psn.sub(wqe.first_psn.get()).get();
            let within = wqe.begun() && !wqe.is_local() && index < wqe.packets;
            (within && !wqe.is_read_or_atomic()).then_some((request, index))
        })
    }

    /// I10: 4.096 us * 2^n, and never for n = 0.
    pub(super) fn start_ack_timer(&mut self, now: Instant, ctx: &Context<'_>) {
        if let Some(ns) = ack_timeout_ns(ctx.attr.timeout) {
            let ns = ns.max(ctx.tuning.timeout_floor_ns);
            self.timers.set(Timer::Ack, now.plus_ns(ns));
            self.start_silence_timer(now, ctx);
        }
    }

    pub(super) fn start_silence_timer(&mut self, now: Instant, ctx: &Context<'_>) {
        if let Some(silence) = self.silence_ns(ctx) {
            self.timers.set(Timer::Silence, now.plus_ns(silence));
        }
    }

    /// Silence after which the peer is asked; None if the ack time-out comes first.
    pub(super) fn silence_ns(&self, ctx: &Context<'_>) -> Option<u64> {
        let first = self.flow.trip.silence_ns(ctx.tuning.silence_ns);
        let doubled = first.saturating_mul(1 << self.repair.questions().min(16));
        let silence = doubled.min(first.max(MOST_SILENCE_NS));
        let floor = ctx.tuning.timeout_floor_ns;
        let is_first = ack_timeout_ns(ctx.attr.timeout).is_some_and(|ns| silence < ns.max(floor));
        is_first.then_some(silence)
    }
}
