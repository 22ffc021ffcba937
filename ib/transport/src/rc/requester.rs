//! The requester: turns work requests into packets, in order.
//!
//! What may be sent now is decided in [`admission`], what is sent again in [`super::retransmit`],
//! and what acknowledgements do in [`super::completer`]. Owns the send queue, the PSNs of what was
//! sent and the timers. Must not know whose memory it reads nor where packets travel.

use super::credits::Credits;
use super::flow::Flow;
use super::repair::Repair;
use super::window::WindowLimit;
use crate::context::Context;
use crate::diagnosis::{Diagnosis, Drop, Journal, QpCounters};
use crate::emit;
use crate::env::Environment;
use crate::send_queue::SendQueue;
use crate::timer::{Timer, Timers};
use crate::types::{Instant, WcStatus};
use ferriband_wire::{Bth, Psn};
use std::collections::VecDeque;

use admission::{Admitted, Middles};

mod admission;

/// Packets that are made at once, at the most: a run of them.
const MOST_MIDDLES: usize = 64;
/// So many questions in a row without an answer: what is sent does not get through.
const UNHEARD: u32 = 3;

/// What a call did to the queue pair as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Go on.
    Continue,
    /// The packet had no effect.
    Dropped(Drop),
    /// The request at the queue's head was finished in error: the queue pair goes to Error.
    Failed,
    /// Retries are used up: migrate the path, or fail the request at the head.
    Exhausted,
    /// A try is over that may have been too short: [`Requester::go_on`] or [`Requester::end_try`].
    TryOver,
}

/// What the transmit side has to offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Nothing may be sent now.
    Idle,
    /// A packet of this length.
    Packet(usize),
    /// A packet of this length that fills a gap: nothing is to be waited for before it goes.
    Repair(usize),
    /// As [`Outcome::Failed`].
    Failed,
}

/// Where sending stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    /// Oldest PSN that is not acknowledged.
    pub una: Psn,
    /// The PSN after the newest ever sent.
    pub next: Psn,
    /// Request to send from next, and which of its packets.
    pub request: u64,
    pub packet: u32,
}

/// READ requests and atomics that are outstanding.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// Their ends, oldest first. As many as `max_rd_atomic` may be, allocated once.
    pub ends: VecDeque<Psn>,
    /// Their PSNs that are still to come.
    pub psns: u32,
}

impl Reads {
    /// What was asked for is asked for again, or flushed.
    pub fn forget(&mut self) {
        self.ends.clear();
        self.psns = 0;
    }
}

/// Retry counters (IBA 9.9.2.1).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tries {
    pub retries_left: u8,
    pub rnr_left: u8,
    /// Until when the last try that was over goes on: it does so once.
    pub goes_on_until: Instant,
}

/// What went without a request for an acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Acks {
    /// Packets since one was asked for.
    pub since_asked: u32,
    /// Whole messages since then.
    pub quiet: u32,
}

/// What keeps requests from being sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stop {
    /// In Error: where `next` was before, to explain what was outstanding.
    pub had_sent: Option<Psn>,
    /// SQD: requests from here on wait.
    pub drain_limit: Option<u64>,
}

impl Stop {
    /// Request `index` waits.
    #[inline]
    pub fn holds(&self, index: u64) -> bool {
        self.drain_limit.is_some_and(|limit| index >= limit)
    }
}

/// What is told of the connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Log {
    pub counters: QpCounters,
    pub journal: Journal,
}

#[derive(Debug)]
pub(crate) struct Requester {
    pub sq: SendQueue,
    pub(super) at: Cursor,
    pub(super) credits: Credits,
    pub(super) tries: Tries,
    pub(super) reads: Reads,
    pub(super) flow: Flow,
    pub(super) repair: Repair,
    pub(super) acks: Acks,
    pub(super) stop: Stop,
    pub(super) timers: Timers,
    pub(super) log: Log,
}

impl Requester {
    /// `max_reads` bounds `max_rd_atomic` for ever.
    pub fn new(sq: SendQueue, max_reads: u8) -> Self {
        let start = Psn::new(0);
        Requester {
            sq,
            at: Cursor {
                una: start,
                next: start,
                request: 0,
                packet: 0,
            },
            credits: Credits::new(),
            tries: Tries::default(),
            reads: Reads {
                ends: VecDeque::with_capacity(max_reads.into()),
                psns: 0,
            },
            flow: Flow::default(),
            repair: Repair::default(),
            acks: Acks::default(),
            stop: Stop::default(),
            timers: Timers::default(),
            log: Log::default(),
        }
    }

    pub fn counters(&self) -> &QpCounters {
        &self.log.counters
    }

    /// It has asked again and again, or gone back more than once, and heard of no progress.
    pub fn is_unheard(&self, retry_cnt: u8) -> bool {
        self.repair.questions() >= UNHEARD || self.tries.retries_left + 1 < retry_cnt
    }

    /// Its part of a diagnosis.
    pub fn explain(&self, blank: Diagnosis) -> Diagnosis {
        Diagnosis {
            una: self.at.una,
            next: self.stop.had_sent.unwrap_or(self.at.next),
            retries_left: self.tries.retries_left,
            rnr_left: self.tries.rnr_left,
            window: [self.flow.requests.size(), self.flow.responses.size()],
            round_trip_ns: self.flow.trip.smooth_ns(),
            incidents: self.log.journal.incidents(),
            ..blank
        }
    }

    /// RTR to RTS: the first PSN is known now.
    pub fn start(&mut self, ctx: &Context<'_>) {
        self.at = Cursor {
            una: ctx.attr.sq_psn,
            next: ctx.attr.sq_psn,
            request: self.sq.done(),
            packet: 0,
        };
        self.credits = Credits::new();
        self.refill_retries(ctx);
        self.reads.forget();
        self.flow.restart(ctx.attr.path_mtu.bytes());
        self.repair = Repair::default();
        self.acks = Acks::default();
        self.stop = Stop::default();
        self.timers = Timers::default();
        self.log.journal = Journal::default();
    }

    /// What may be outstanding at the most, from now on.
    pub fn set_window(&mut self, limit: WindowLimit, mtu: u32) {
        self.flow.limit(limit, mtu);
    }

    /// As [`Flow::run_packets`].
    #[inline]
    pub fn run_packets(&self) -> u32 {
        self.flow.run_packets()
    }

    /// A congestion notification: it tells about this side's requests.
    pub fn congested(&mut self, now: Instant) {
        self.flow.trip.congested(now, &mut self.flow.requests);
    }

    /// To Error: everything unfinished is flushed in order (I11).
    #[cold]
    pub fn flush(&mut self) {
        self.stop.had_sent.get_or_insert(self.at.next);
        self.sq.flush();
        self.halt();
    }

    /// To Reset: everything is forgotten.
    pub fn clear(&mut self) {
        self.sq.clear();
        self.halt();
    }

    fn halt(&mut self) {
        self.at.request = self.sq.tail();
        self.at.packet = 0;
        self.timers = Timers::default();
        self.credits.forget_probe();
        self.stop.drain_limit = None;
        self.reads.forget();
        self.repair.went_back();
        // Nothing is outstanding: whatever arrives now answers nothing.
        self.at.next = self.at.una;
    }

    /// To SQD: only what has begun is carried to its end (IBA 10.3.1.5).
    pub fn drain(&mut self) {
        let mut limit = self.at.request;
        while limit < self.sq.tail() && self.sq.get(limit).begun() {
            limit += 1;
        }
        self.stop.drain_limit = Some(limit);
    }

    /// Back to RTS.
    pub fn resume(&mut self) {
        self.stop.drain_limit = None;
    }

    pub fn is_drained(&self) -> bool {
        self.stop
            .drain_limit
            .is_some_and(|limit| self.sq.done() >= limit)
    }

    /// The request at the head fails for want of retries.
    #[cold]
    pub fn fail_head(&mut self, status: WcStatus, vendor_err: u32) {
        self.sq.finish(status, vendor_err);
    }

    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// How far `psn` lies beyond the oldest unacknowledged one, 0 .. 2^24.
    pub(super) fn ahead(&self, psn: Psn) -> u32 {
        psn.sub(self.at.una.get()).get()
    }

    pub(super) fn refill_retries(&mut self, ctx: &Context<'_>) {
        self.tries.retries_left = ctx.attr.retry_cnt;
        self.tries.rnr_left = ctx.attr.rnr_retry;
    }

    /// PSN of the next packet to send.
    pub(super) fn cur_psn(&self) -> Psn {
        if self.at.request == self.sq.tail() {
            return self.at.next;
        }
        let wqe = self.sq.get(self.at.request);
        if wqe.begun() {
            wqe.first_psn.add(self.at.packet)
        } else {
            self.at.next
        }
    }

    /// The next packet, if one may be sent now.
    #[inline]
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        buf: &mut [u8],
    ) -> Step {
        if self.repair.is_pending()
            && !self.timers.is_set(Timer::Rnr)
            && let Some(step) = self.send_again(now, ctx, env, buf)
        {
            return step;
        }
        loop {
            if self.timers.is_set(Timer::Rnr)
                || self.at.request == self.sq.tail()
                || self.stop.holds(self.at.request)
            {
                return Step::Idle;
            }
            let head = self.at.request == self.sq.done();
            let wqe = self.sq.get(self.at.request);
            if wqe.status != WcStatus::Success {
                // A local failure is reported in its turn: earlier requests are still being acknowledged.
                if head {
                    let status = wqe.status;
                    self.sq.finish(status, 0);
                    return Step::Failed;
                }
                return Step::Idle;
            }
            if wqe.is_local() {
                // Executed when all before it is complete: a retransmission must still find its key valid.
                if !head {
                    return Step::Idle;
                }
                match wqe.execute_locally(env) {
                    WcStatus::Success => {
                        self.sq.finish(WcStatus::Success, 0);
                        self.at.request += 1;
                    }
                    status => {
                        self.sq.finish(status, 0);
                        return Step::Failed;
                    }
                }
                continue;
            }
            let Some(admitted) = self.admit(ctx) else {
                return Step::Idle;
            };
            if let Some(len) = self.send(now, ctx, env, admitted, buf) {
                return Step::Packet(len);
            }
        }
    }

    /// The middle packets that follow the one that was sent last, where nothing but the window has a say: as many as may go now and `buf`
    /// has places for, `stride` bytes apart; their number, of `len` bytes each. 0 leaves it to [`Self::poll_transmit`] to find out
    /// what there is to do.
    pub fn poll_middles(
        &mut self,
        now: Instant,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        (buf, len, stride): (&mut [u8], usize, usize),
    ) -> u32 {
        if len != Bth::LEN + ctx.attr.path_mtu.bytes() as usize || buf.len() < len {
            return 0;
        }
        let places = ((buf.len() - len) / stride + 1).min(MOST_MIDDLES);
        let Some(middles) = self.admit_middles(ctx, places as u32) else {
            return 0;
        };
        let Middles {
            psn,
            count,
            in_flight,
            window,
        } = middles;
        let mut since = self.acks.since_asked;
        let mut asks = [false; MOST_MIDDLES];
        for (i, ask) in (in_flight..).zip(&mut asks[..count as usize]) {
            *ask = since + 1 >= ctx.tuning.ack_interval.min(window / 4) || i + 1 >= window;
            since = if *ask { 0 } else { since + 1 };
        }
        let asks = &asks[..count as usize];
        let part = emit::Part {
            request: self.at.request,
            index: self.at.packet,
            psns: 1,
            psn,
            ack_req: false,
            again: false,
        };
        let acks = asks.iter().copied();
        if emit::middles(ctx, env, &self.sq, part, acks, buf, stride).is_err() {
            // the packet that may not be read finds that out again
            return 0;
        }
        self.acks.since_asked = since;
        if asks.contains(&true) {
            self.acks.quiet = 0;
        }
        self.log.counters.requests_sent += u64::from(count);
        self.at.next = psn.add(count);
        self.at.packet += count;
        for (ahead, _) in (0..).zip(asks).filter(|(_, asks)| **asks) {
            self.flow.trip.sent(now, psn.add(ahead));
        }
        if !self.timers.is_set(Timer::Ack) {
            self.start_ack_timer(now, ctx);
        }
        count
    }

    /// Emits the current packet and moves on; None when the bytes cannot be read (the request is marked).
    #[inline]
    fn send(
        &mut self,
        now: Instant,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        admitted: Admitted,
        buf: &mut [u8],
    ) -> Option<usize> {
        let Admitted { psn, psns, .. } = admitted;
        let ends = self.at.packet + psns == admitted.packets;
        let again = self.ahead(psn) < self.ahead(self.at.next);
        let may_wait = !again && self.is_quiet(ctx, admitted.packets);
        let ack_req =
            ends && !may_wait || admitted.data || admitted.probing || self.wants_ack(ctx, psn);
        let part = emit::Part {
            request: self.at.request,
            index: self.at.packet,
            psns,
            psn,
            ack_req,
            again,
        };
        let len = match emit::request(ctx, env, &self.sq, part, buf) {
            Ok(len) => len,
            Err(_) => {
                self.sq.get_mut(self.at.request).status = WcStatus::LocProtErr;
                return None;
            }
        };
        self.has_sent(now, ctx, admitted, ack_req);
        Some(len)
    }

    /// The current packet went: moves on.
    #[inline]
    fn has_sent(&mut self, now: Instant, ctx: &Context<'_>, sent: Admitted, ack_req: bool) {
        let Admitted { psn, psns, .. } = sent;
        let ends = self.at.packet + psns == sent.packets;
        let is_first_asked = ack_req && !self.is_asked();
        (self.acks.since_asked, self.acks.quiet) = match ack_req {
            true => (0, 0),
            false => (self.acks.since_asked + 1, self.acks.quiet + u32::from(ends)),
        };
        if sent.probing {
            self.credits.probe(psn);
        }
        self.log.counters.requests_sent += 1;
        let end = psn.add(psns);
        if self.ahead(end) > self.ahead(self.at.next) {
            self.at.next = end;
            if ack_req {
                self.flow.trip.sent(now, psn);
            }
        } else {
            self.log.counters.requests_repeated += 1;
        }
        if sent.data {
            self.reads.ends.push_back(end);
            self.reads.psns += psns;
        }
        if ends {
            self.at.request += 1;
            self.at.packet = 0;
        } else {
            self.at.packet += psns;
        }
        if !self.timers.is_set(Timer::Ack) {
            self.start_ack_timer(now, ctx);
        } else if is_first_asked {
            // the answer takes as long from here as if there had been nothing before
            self.start_silence_timer(now, ctx);
        }
    }
}
