//! The requester: sends work requests in order, goes back and sends again, respects every limit on what may be
//! outstanding. Its other half, what acknowledgements do, is in [`super::completer`].
//!
//! Owns the send queue, the PSNs of what was sent and the two timers. Must not know whose memory it reads nor
//! where packets travel.

use crate::context::Context;
use crate::diagnosis::{Cause, Diagnosis, Drop, Journal, QpCounters};
use crate::emit;
use crate::env::Environment;
use crate::send_queue::{Extra, SendQueue, SendWqe, packets_of};
use crate::timer::{Timer, Timers};
use crate::types::{Instant, SendFlags, SendOpcode, WcStatus, ack_timeout_ns};
use ferriband_wire::{Psn, RKey};

/// Half of the PSN space: more may not be outstanding, or an old PSN would look new (IBA 9.7.2, I5).
const WINDOW_PSNS: u32 = Psn::MODULUS / 2;

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
}

/// What the transmit side has to offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Nothing may be sent now.
    Idle,
    /// A packet of this length.
    Packet(usize),
    /// As [`Outcome::Failed`].
    Failed,
}

#[derive(Debug)]
pub(crate) struct Requester {
    pub sq: SendQueue,
    /// Oldest PSN that is not acknowledged.
    pub(super) una: Psn,
    /// The PSN after the newest ever sent.
    pub(super) next: Psn,
    /// Request to send from next, and which of its packets.
    pub(super) cur: u64,
    pub(super) cur_packet: u32,
    /// Message number given last, and the last one that the peer's credits allow (24 bits, IBA 9.7.7.2).
    ssn: u32,
    pub(super) lsn: u32,
    /// The peer counts no credits.
    pub(super) unlimited: bool,
    /// The one packet that was sent beyond the credits.
    pub(super) probe: Option<Psn>,
    pub(super) retries_left: u8,
    pub(super) rnr_left: u8,
    /// READs and atomics in `[done, cur)`, and their PSNs that are still to come.
    pub(super) reads_sent: u32,
    pub(super) read_psns: u32,
    /// The PSN for which a gap was already answered by going back; a second report of it is the same gap.
    pub(super) gone_back_for: Option<Psn>,
    since_ack_req: u32,
    /// SQD: requests from here on wait.
    drain_limit: Option<u64>,
    pub(super) timers: Timers,
    pub(super) counters: QpCounters,
    pub(super) journal: Journal,
}

impl Requester {
    pub fn new(sq: SendQueue) -> Self {
        Requester {
            sq,
            una: Psn::new(0),
            next: Psn::new(0),
            cur: 0,
            cur_packet: 0,
            ssn: 0,
            lsn: 0,
            unlimited: false,
            probe: None,
            retries_left: 0,
            rnr_left: 0,
            reads_sent: 0,
            read_psns: 0,
            gone_back_for: None,
            since_ack_req: 0,
            drain_limit: None,
            timers: Timers::default(),
            counters: QpCounters::default(),
            journal: Journal::default(),
        }
    }

    pub fn counters(&self) -> &QpCounters {
        &self.counters
    }

    /// Its part of a diagnosis.
    pub fn explain(&self, blank: Diagnosis) -> Diagnosis {
        Diagnosis {
            una: self.una,
            next: self.next,
            retries_left: self.retries_left,
            rnr_left: self.rnr_left,
            incidents: self.journal.incidents(),
            ..blank
        }
    }

    /// RTR to RTS: the first PSN is known now.
    pub fn start(&mut self, ctx: &Context<'_>) {
        let sq = std::mem::replace(&mut self.sq, SendQueue::new(Default::default(), false));
        let counters = self.counters;
        *self = Requester::new(sq);
        self.counters = counters;
        self.una = ctx.attr.sq_psn;
        self.next = ctx.attr.sq_psn;
        self.cur = self.sq.done();
        self.refill_retries(ctx);
    }

    /// To Error: everything unfinished is flushed in order (I11).
    #[cold]
    pub fn flush(&mut self) {
        self.sq.flush();
        self.halt();
    }

    /// To Reset: everything is forgotten.
    pub fn clear(&mut self) {
        self.sq.clear();
        self.halt();
    }

    fn halt(&mut self) {
        self.cur = self.sq.tail();
        self.cur_packet = 0;
        self.timers = Timers::default();
        self.probe = None;
        self.drain_limit = None;
        self.reads_sent = 0;
        self.read_psns = 0;
        // Nothing is outstanding: whatever arrives now answers nothing.
        self.next = self.una;
    }

    /// To SQD: only what has begun is carried to its end (IBA 10.3.1.5).
    pub fn drain(&mut self) {
        let mut limit = self.cur;
        while limit < self.sq.tail() && self.sq.get(limit).begun() {
            limit += 1;
        }
        self.drain_limit = Some(limit);
    }

    /// Back to RTS.
    pub fn resume(&mut self) {
        self.drain_limit = None;
    }

    pub fn is_drained(&self) -> bool {
        self.drain_limit
            .is_some_and(|limit| self.sq.done() >= limit)
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// How far `psn` lies beyond the oldest unacknowledged one, 0 .. 2^24.
    pub(super) fn ahead(&self, psn: Psn) -> u32 {
        psn.sub(self.una.get()).get()
    }

    pub(super) fn refill_retries(&mut self, ctx: &Context<'_>) {
        self.retries_left = ctx.attr.retry_cnt;
        self.rnr_left = ctx.attr.rnr_retry;
    }

    /// PSN of the next packet to send.
    pub(super) fn cur_psn(&self) -> Psn {
        if self.cur == self.sq.tail() {
            return self.next;
        }
        let wqe = self.sq.get(self.cur);
        if wqe.begun() {
            wqe.first_psn.add(self.cur_packet)
        } else {
            self.next
        }
    }

    /// Sends again from the oldest unacknowledged PSN (go-back-N, IBA 9.7.5.1.1).
    pub(super) fn go_back(&mut self) {
        self.cur = self.sq.done();
        self.cur_packet = 0;
        if self.cur < self.sq.tail() && self.sq.get(self.cur).begun() {
            self.cur_packet = self.ahead_of_first(self.una);
        }
        self.reads_sent = 0;
        self.read_psns = 0;
        self.probe = None;
        self.since_ack_req = 0;
        self.timers.stop(Timer::Ack);
    }

    fn ahead_of_first(&self, psn: Psn) -> u32 {
        psn.sub(self.sq.get(self.sq.done()).first_psn.get()).get()
    }

    /// One retry for going back; none left says so and changes nothing.
    pub(super) fn retry(&mut self) -> Outcome {
        if self.retries_left == 0 {
            return Outcome::Exhausted;
        }
        self.retries_left -= 1;
        self.go_back();
        Outcome::Continue
    }

    /// The path has migrated: all retries again, on the new path.
    pub fn restart_on_new_path(&mut self, ctx: &Context<'_>) {
        self.refill_retries(ctx);
        self.go_back();
    }

    /// The request at the head fails for want of retries.
    #[cold]
    pub fn fail_head(&mut self, status: WcStatus, vendor_err: u32) {
        self.sq.finish(status, vendor_err);
    }

    pub fn handle_timeout(&mut self, now: Instant) -> Outcome {
        // After the RNR wait, poll_transmit simply goes on from where the refusal put it.
        self.timers.expire(Timer::Rnr, now);
        if self.timers.expire(Timer::Ack, now) {
            self.counters.timeouts += 1;
            self.journal.note(now, Cause::Timeout, self.una);
            self.retry()
        } else {
            Outcome::Continue
        }
    }

    /// The next packet, if one may be sent now.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        buf: &mut [u8],
    ) -> Step {
        loop {
            if self.timers.is_set(Timer::Rnr)
                || self.cur == self.sq.tail()
                || self.drain_limit.is_some_and(|limit| self.cur >= limit)
            {
                return Step::Idle;
            }
            let head = self.cur == self.sq.done();
            let wqe = *self.sq.get(self.cur);
            if wqe.status != WcStatus::Success {
                // A local failure is reported in its turn: earlier requests are still being acknowledged.
                if head {
                    self.sq.finish(wqe.status, 0);
                    return Step::Failed;
                }
                return Step::Idle;
            }
            if wqe.is_local() {
                // Executed when all before it is complete: a retransmission must still find its key valid.
                if !head {
                    return Step::Idle;
                }
                match execute_locally(&wqe, env) {
                    WcStatus::Success => {
                        self.sq.finish(WcStatus::Success, 0);
                        self.cur += 1;
                    }
                    status => {
                        self.sq.finish(status, 0);
                        return Step::Failed;
                    }
                }
                continue;
            }
            let Some((psn, probing)) = self.admit(ctx, &wqe) else {
                return Step::Idle;
            };
            if let Some(len) = self.send(now, ctx, env, psn, probing, buf) {
                return Step::Packet(len);
            }
        }
    }

    /// Whether the current packet may be sent; gives the request its PSNs if it begins. Returns the PSN, and
    /// whether the packet goes beyond the peer's credits.
    fn admit(&mut self, ctx: &Context<'_>, wqe: &SendWqe) -> Option<(Psn, bool)> {
        let fenced = wqe.flags.contains(SendFlags::FENCE) && self.cur_packet == 0;
        if fenced && self.reads_sent > 0 {
            return None;
        }
        let data = wqe.is_read_or_atomic();
        // I8: counted here for every transmission, so that going back cannot exceed it either.
        if data && self.reads_sent >= u32::from(ctx.attr.max_rd_atomic) {
            return None;
        }
        let packets = match wqe.opcode {
            SendOpcode::CmpSwap | SendOpcode::FetchAdd => 1,
            _ => packets_of(wqe.length, ctx.attr.path_mtu.bytes()),
        };
        let psn = self.cur_psn();
        let last = if data {
            psn.add(packets - self.cur_packet - 1)
        } else {
            psn
        };
        let in_flight = self.ahead(psn) - self.read_psns.min(self.ahead(psn));
        if self.ahead(last) >= WINDOW_PSNS || in_flight >= ctx.tuning.max_inflight_packets.max(1) {
            return None;
        }
        let ssn = if wqe.begun() {
            wqe.ssn
        } else {
            (self.ssn + 1) & (Psn::MODULUS - 1)
        };
        let limited =
            wqe.consumes_receive() && !self.unlimited && Psn::new(ssn).after(Psn::new(self.lsn));
        let mut probing = false;
        if limited {
            // IBA 9.7.7.2: beyond the credits a single packet may ask whether there is a receive after all; the
            // rest of the message follows when that packet was acknowledged. A WRITE asks with its last packet.
            let asks = match wqe.opcode {
                SendOpcode::RdmaWriteImm => self.cur_packet + 1 == packets,
                _ => self.cur_packet == 0,
            };
            let answered = wqe.opcode == SendOpcode::RdmaWriteImm
                || (wqe.begun() && self.una != wqe.first_psn && self.cur == self.sq.done());
            if asks && self.probe.is_some() || !asks && !answered {
                return None;
            }
            probing = asks;
        }
        if !wqe.begun() {
            self.ssn = ssn;
            let wqe = self.sq.get_mut(self.cur);
            wqe.first_psn = psn;
            wqe.packets = packets;
            wqe.ssn = ssn;
        }
        Some((psn, probing))
    }

    /// Emits the current packet and moves on; None when the bytes cannot be read (the request is marked).
    fn send(
        &mut self,
        now: Instant,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        psn: Psn,
        probing: bool,
        buf: &mut [u8],
    ) -> Option<usize> {
        let wqe = self.sq.get(self.cur);
        let (data, packets) = (wqe.is_read_or_atomic(), wqe.packets);
        let ends = data || self.cur_packet + 1 == packets;
        let ack_req = ends || probing || self.since_ack_req + 1 >= ctx.tuning.ack_interval;
        let index = self.cur_packet;
        let len = match emit::request(ctx, env, &self.sq, self.cur, index, psn, ack_req, buf) {
            Ok(len) => len,
            Err(_) => {
                self.sq.get_mut(self.cur).status = WcStatus::LocProtErr;
                return None;
            }
        };
        self.since_ack_req = if ack_req { 0 } else { self.since_ack_req + 1 };
        if probing {
            self.probe = Some(psn);
        }
        let psns = if data { packets - self.cur_packet } else { 1 };
        self.counters.requests_sent += 1;
        let end = psn.add(psns);
        if self.ahead(end) > self.ahead(self.next) {
            self.next = end;
        } else {
            self.counters.requests_repeated += 1;
        }
        if data {
            self.reads_sent += 1;
            self.read_psns += psns;
        }
        if ends {
            self.cur += 1;
            self.cur_packet = 0;
        } else {
            self.cur_packet += 1;
        }
        if !self.timers.is_set(Timer::Ack) {
            self.start_ack_timer(now, ctx);
        }
        Some(len)
    }

    /// I10: 4.096 us * 2^n, and never for n = 0.
    pub(super) fn start_ack_timer(&mut self, now: Instant, ctx: &Context<'_>) {
        if let Some(ns) = ack_timeout_ns(ctx.attr.timeout) {
            self.timers.set(Timer::Ack, now.plus_ns(ns));
        }
    }
}

fn execute_locally(wqe: &SendWqe, env: &mut dyn Environment) -> WcStatus {
    let result = match &wqe.extra {
        Extra::Bind(bind) => env.bind_window(bind).map_err(|_| WcStatus::MwBindErr),
        _ => env
            .invalidate_local(RKey(wqe.imm_or_key))
            .map_err(|_| WcStatus::LocQpOpErr),
    };
    result.err().unwrap_or(WcStatus::Success)
}
