//! The requester: sends work requests in order, goes back and sends again, respects every limit on what may be
//! outstanding. Its other half, what acknowledgements do, is in [`super::completer`].
//!
//! Owns the send queue, the PSNs of what was sent and the two timers. Must not know whose memory it reads nor
//! where packets travel.

use super::gaps::Repairs;
use super::window::{RoundTrip, Window, WindowLimit};
use crate::context::Context;
use crate::diagnosis::{Cause, Diagnosis, Drop, Journal, QpCounters};
use crate::emit;
use crate::env::Environment;
use crate::send_queue::{Extra, SendQueue, SendWqe, packets_of};
use crate::timer::{Timer, Timers};
use crate::types::{Instant, SendFlags, SendOpcode, WcStatus, ack_timeout_ns};
use ferriband_wire::{Bth, Mtu, Psn, RKey, Service};
use std::collections::VecDeque;

/// Packets of a piece of a READ, at the most (those between its first and its last go by one call of the kernel's), and packets that all pieces together may have before that counts.
const READ_PIECE: u32 = 64;
const READ_PIECES: u32 = 128;
/// Packets of a run, below which its system call costs more than it carries.
const LEAST_RUN: u32 = 8;
/// Packets beyond a gap that a peer is trusted to keep.
const MOST_AHEAD: u32 = 768;
/// Packets that are made at once, at the most: a run of them.
const MOST_MIDDLES: usize = 64;
/// Of so many messages in a row one asks for an acknowledgement even if nobody waits for any of them.
const QUIET_MESSAGES: u32 = 8;
/// Packets of a message that may go without being acknowledged by itself: for longer ones a packet more is little.
const QUIET_PACKETS: u32 = 8;
/// Silences that pass, at the most, without a question about messages whose acknowledgement was not asked for, while the peer is heard otherwise.
const PUT_OFF: u32 = 8;
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

/// A packet that may be sent now.
#[derive(Clone, Copy, Debug)]
struct Admitted {
    psn: Psn,
    psns: u32,
    /// It goes beyond the peer's credits.
    probing: bool,
    /// It is a READ or atomic.
    data: bool,
    /// Packets of its request.
    packets: u32,
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
    /// The ends of the READ requests and atomics that are outstanding, oldest first, and their PSNs that are still
    /// to come. As many as `max_rd_atomic` may be, allocated once.
    pub(super) reads: VecDeque<Psn>,
    pub(super) read_psns: u32,
    /// What may be outstanding: requests, and READ responses.
    pub(super) window: Window,
    pub(super) read_window: Window,
    limit: WindowLimit,
    pub(super) trip: RoundTrip,
    /// Losses before this PSN belong to the flight for which the window was already made smaller.
    pub(super) recover: Option<Psn>,
    /// The peer was asked during this silence; what had been sent then ended here.
    pub(super) asked: Option<Psn>,
    /// After a question, something was acknowledged and not everything before this PSN: the rest is lost, unless the
    /// peer is just behind and more acknowledgements are on their way.
    pub(super) suspect: Option<Psn>,
    /// The question is to be sent.
    pub(super) ask: bool,
    /// Questions since the last progress: each waits twice as long as the one before.
    pub(super) questions: u32,
    /// How often a question was put off since the last progress, as nothing was asked for yet and the peer was heard.
    pub(super) put_off: u32,
    /// The PSN for which a gap was already answered by going back; a second report of it is the same gap.
    pub(super) gone_back_for: Option<Psn>,
    /// It was a lost request, so an acknowledgement of what was not sent again yet tells that the peer has kept it.
    pub(super) learns: bool,
    /// The peer keeps what it gets beyond a gap (it acknowledged more than was sent again): only what it lacks is sent again.
    pub(super) peer_holds: bool,
    /// The oldest packet is to be sent again, alone, and what was sent so last, and when.
    pub(super) fill: bool,
    pub(super) filled: Option<(Psn, Instant)>,
    /// The farthest packet that the peer has told to have, though not all before it.
    pub(super) heard: Option<Psn>,
    /// What the peer lacks beside the oldest packet.
    pub(super) repairs: Repairs,
    /// The packet handed out last fills a gap.
    pub urgent: bool,
    /// How many times in a row the peer then lacked the next packet too.
    pub(super) adjacent: u32,
    /// Packets, and whole messages, since an acknowledgement was asked for.
    since_ack_req: u32,
    quiet: u32,
    /// In Error: where `next` was before, to explain what was outstanding.
    had_sent: Option<Psn>,
    /// SQD: requests from here on wait.
    drain_limit: Option<u64>,
    pub(super) timers: Timers,
    pub(super) counters: QpCounters,
    pub(super) journal: Journal,
}

impl Requester {
    /// `max_reads` bounds `max_rd_atomic` for ever.
    pub fn new(sq: SendQueue, max_reads: u8) -> Self {
        let limit = WindowLimit::default();
        let window = |bytes| Window::new(bytes, Mtu::M256.bytes());
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
            reads: VecDeque::with_capacity(max_reads.into()),
            read_psns: 0,
            window: window(limit.requests_bytes),
            read_window: window(limit.responses_bytes),
            limit,
            trip: RoundTrip::default(),
            recover: None,
            asked: None,
            suspect: None,
            ask: false,
            questions: 0,
            put_off: 0,
            gone_back_for: None,
            learns: false,
            peer_holds: false,
            fill: false,
            filled: None,
            heard: None,
            repairs: Repairs::default(),
            urgent: false,
            adjacent: 0,
            since_ack_req: 0,
            quiet: 0,
            had_sent: None,
            drain_limit: None,
            timers: Timers::default(),
            counters: QpCounters::default(),
            journal: Journal::default(),
        }
    }

    pub fn counters(&self) -> &QpCounters {
        &self.counters
    }

    /// It has asked again and again, or gone back more than once, and heard of no progress.
    pub fn is_unheard(&self, retry_cnt: u8) -> bool {
        self.questions >= UNHEARD || self.retries_left + 1 < retry_cnt
    }

    /// Its part of a diagnosis.
    pub fn explain(&self, blank: Diagnosis) -> Diagnosis {
        Diagnosis {
            una: self.una,
            next: self.had_sent.unwrap_or(self.next),
            retries_left: self.retries_left,
            rnr_left: self.rnr_left,
            window: [self.window.size(), self.read_window.size()],
            round_trip_ns: self.trip.smooth_ns(),
            incidents: self.journal.incidents(),
            ..blank
        }
    }

    /// RTR to RTS: the first PSN is known now.
    pub fn start(&mut self, ctx: &Context<'_>) {
        let sq = std::mem::replace(&mut self.sq, SendQueue::new(Default::default(), false));
        let reads = std::mem::take(&mut self.reads);
        let (counters, limit) = (self.counters, self.limit);
        *self = Requester::new(sq, 0);
        (self.reads, self.counters, self.limit) = (reads, counters, limit);
        self.reads.clear();
        let mtu = ctx.attr.path_mtu.bytes();
        self.window = Window::new(limit.requests_bytes, mtu);
        self.read_window = Window::new(limit.responses_bytes, mtu);
        self.una = ctx.attr.sq_psn;
        self.next = ctx.attr.sq_psn;
        self.cur = self.sq.done();
        self.refill_retries(ctx);
    }

    /// What may be outstanding at the most, from now on.
    pub fn set_window(&mut self, limit: WindowLimit, mtu: u32) {
        self.limit = limit;
        self.window.limit(limit.requests_bytes, mtu);
        self.read_window.limit(limit.responses_bytes, mtu);
    }

    /// Packets that had better leave together: a quarter of the window. A path that holds a whole window in one run stands still while
    /// that run is acknowledged.
    #[inline]
    pub fn run_packets(&self) -> u32 {
        (self.window.size() / 4).max(LEAST_RUN)
    }

    /// As [`crate::QueuePair::end_of_last`].
    #[inline]
    pub fn end_of_last(&self, most: u32) -> Option<u32> {
        let repeats =
            self.fill || self.ask || !self.repairs.is_empty() || self.timers.is_set(Timer::Rnr);
        if repeats || self.cur + 1 != self.sq.tail() || self.drain_limit.is_some() {
            return None;
        }
        let wqe = self.sq.get(self.cur);
        let is_end = wqe.begun()
            && wqe.status == WcStatus::Success
            && self.cur_packet > 0
            && wqe.packets - self.cur_packet <= most
            && matches!(
                wqe.opcode,
                SendOpcode::Send | SendOpcode::SendImm | SendOpcode::SendInv
            )
            && wqe.first_psn.add(self.cur_packet) == self.next
            && self.within_credits(wqe, wqe.ssn, wqe.packets) == Some(false);
        is_end.then_some(wqe.length)
    }

    /// Whether something has been sent that is not acknowledged.
    #[inline]
    pub fn has_unacknowledged(&self) -> bool {
        self.una != self.next
    }

    /// A congestion notification: it tells about this side's requests.
    pub fn congested(&mut self, now: Instant) {
        self.trip.congested(now, &mut self.window);
    }

    /// To Error: everything unfinished is flushed in order (I11).
    #[cold]
    pub fn flush(&mut self) {
        self.had_sent.get_or_insert(self.next);
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
        self.reads.clear();
        self.read_psns = 0;
        self.asked = None;
        self.suspect = None;
        self.ask = false;
        self.questions = 0;
        self.fill = false;
        self.repairs.clear();
        self.heard = None;
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

    #[inline]
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
        self.reads.clear();
        self.read_psns = 0;
        self.asked = None;
        self.suspect = None;
        self.ask = false;
        self.questions = 0;
        self.fill = false;
        self.repairs.clear();
        self.heard = None;
        self.trip.forget();
        self.probe = None;
        // What is sent first wants to be heard of: it may fill the gap alone.
        self.since_ack_req = u32::MAX - 1;
        self.timers.stop(Timer::Ack);
        self.timers.stop(Timer::Silence);
    }

    /// A loss makes a window smaller, once for all that was outstanding when it was noticed.
    pub(super) fn narrow(&mut self, responses: bool) {
        if self.recover.is_some_and(|end| end.after(self.una)) {
            return;
        }
        self.recover = Some(self.next);
        let path = self.trip.path();
        if responses {
            self.read_window.lost(path, false);
        } else {
            self.window.lost(path, self.peer_holds);
        }
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

    /// `heard`: when the last packet of the peer came, whatever it was.
    pub fn handle_timeout(
        &mut self,
        now: Instant,
        ctx: &Context<'_>,
        heard: Option<Instant>,
    ) -> Outcome {
        // After the RNR wait, poll_transmit simply goes on from where the refusal put it.
        self.timers.expire(Timer::Rnr, now);
        if self.timers.expire(Timer::Ack, now) {
            self.counters.timeouts += 1;
            self.journal.note(now, Cause::Timeout, self.una);
            self.window.timed_out();
            self.read_window.timed_out();
            self.recover = Some(self.next);
            return self.retry();
        }
        if self.timers.expire(Timer::Silence, now) && self.cur_psn() != self.una {
            if self.suspect.take().is_some() {
                self.journal.note(now, Cause::Silence, self.una);
                self.narrow(false);
                self.go_back();
            } else if let Some(later) = self.silence_goes_on(now, ctx, heard) {
                self.put_off += 1;
                self.timers.set(Timer::Silence, later);
            } else {
                self.ask = true;
            }
        }
        Outcome::Continue
    }

    /// No acknowledgement of anything that is outstanding was asked for yet.
    fn is_unasked(&self) -> bool {
        self.questions == 0 && self.since_ack_req >= self.ahead(self.cur_psn())
    }

    /// The peer owes no answer and lives: where messages go to and fro so slowly that they outlast a silence, that is none. Until when it is not, then; only so
    /// often, for a message that was lost is to be found though its peer goes on sending others.
    #[cold]
    fn silence_goes_on(
        &self,
        now: Instant,
        ctx: &Context<'_>,
        heard: Option<Instant>,
    ) -> Option<Instant> {
        let silence = self.trip.silence_ns(ctx.tuning.silence_ns);
        let later = heard.filter(|_| self.put_off < PUT_OFF && self.is_unasked())?;
        Some(later.plus_ns(silence)).filter(|later| *later > now)
    }

    /// Sends the oldest packet once more and wants to hear about it: whether it, or what came after it, or only the
    /// answer was lost, its acknowledgement tells. A duplicate is answered and not executed (IBA C9-105), so this is no
    /// retry. Asking with the newest packet would not do: behind a gap whose NAK was lost it is dropped.
    #[cold]
    fn question(
        &mut self,
        now: Instant,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        buf: &mut [u8],
    ) -> Option<usize> {
        self.ask = false;
        let end_of_flight = self.cur_psn();
        let len = self.repeat_oldest(ctx, env, buf)?;
        self.asked = Some(end_of_flight);
        self.counters.questions += 1;
        self.questions += 1;
        self.start_silence_timer(now, ctx);
        // who is asked has time to answer, be it the last question before the ack time-out: that may come up to 4 T after the request (IBA 9.7.6.1.3)
        let answer = self.trip.silence_ns(ctx.tuning.silence_ns);
        self.timers.put_off(Timer::Ack, now.plus_ns(answer));
        Some(len)
    }

    /// The oldest packet once more, as it was, with a request for an acknowledgement. None if nothing is outstanding.
    #[cold]
    fn repeat_oldest(
        &mut self,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        buf: &mut [u8],
    ) -> Option<usize> {
        if self.cur_psn() == self.una {
            return None;
        }
        let (request, index) = (self.sq.done(), self.ahead_of_first(self.una));
        let wqe = self.sq.get(request);
        let end = if wqe.is_read_or_atomic() {
            wqe.piece_end(index)
        } else {
            index + 1
        };
        let oldest = (request, index, end - index, self.una);
        let len = self.emit_again(ctx, env, oldest, buf);
        if len.is_none() {
            // Its turn comes at once, and says what is wrong with it.
            self.go_back();
        }
        len
    }

    /// A packet that was sent before, once more: of which request, which of its packets, how many PSNs and from which. None if its bytes
    /// cannot be read.
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
        self.trip.forget();
        self.counters.requests_sent += 1;
        self.counters.requests_repeated += 1;
        Some(len)
    }

    /// The next packet that the peer lacks beyond the oldest, once more, as it was. None if there is none any more.
    #[cold]
    fn repair(
        &mut self,
        now: Instant,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        buf: &mut [u8],
    ) -> Option<usize> {
        while let Some(psn) = self.repairs.next(now) {
            let Some((request, index)) = self.find(psn) else {
                continue;
            };
            // What cannot be read is found out when it is the oldest.
            if let Some(len) = self.emit_again(ctx, env, (request, index, 1, psn), buf) {
                return Some(len);
            }
        }
        None
    }

    /// The request and the packet of it that an outstanding PSN stands for; None for READs and atomics, whose answers come in order.
    fn find(&self, psn: Psn) -> Option<(u64, u32)> {
        if self.ahead(psn) >= self.ahead(self.cur_psn()) {
            return None;
        }
        let outstanding = self.sq.done()..self.sq.tail().min(self.cur + 1);
        outstanding.into_iter().find_map(|request| {
            let wqe = self.sq.get(request);
            let index = psn.sub(wqe.first_psn.get()).get();
            let within = wqe.begun() && !wqe.is_local() && index < wqe.packets;
            (within && !wqe.is_read_or_atomic()).then_some((request, index))
        })
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
        if self.fill
            && !self.timers.is_set(Timer::Rnr)
            && let Some(len) = {
                self.fill = false;
                self.repeat_oldest(ctx, env, buf)
            }
        {
            self.urgent = true;
            // The peer has just been heard.
            self.start_silence_timer(now, ctx);
            return Step::Packet(len);
        }
        if !self.repairs.is_empty()
            && !self.timers.is_set(Timer::Rnr)
            && let Some(len) = self.repair(now, ctx, env, buf)
        {
            self.urgent = self.repairs.is_empty();
            return Step::Packet(len);
        }
        if self.ask
            && !self.timers.is_set(Timer::Rnr)
            && let Some(len) = self.question(now, ctx, env, buf)
        {
            return Step::Packet(len);
        }
        loop {
            if self.timers.is_set(Timer::Rnr)
                || self.cur == self.sq.tail()
                || self.drain_limit.is_some_and(|limit| self.cur >= limit)
            {
                return Step::Idle;
            }
            let head = self.cur == self.sq.done();
            let wqe = self.sq.get(self.cur);
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
                match execute_locally(wqe, env) {
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
        let mtu = ctx.attr.path_mtu.bytes();
        let held =
            self.fill || self.ask || !self.repairs.is_empty() || self.timers.is_set(Timer::Rnr);
        if held
            || self.cur == self.sq.tail()
            || self.drain_limit.is_some_and(|limit| self.cur >= limit)
            || ctx.service != Service::Rc
            || len != Bth::LEN + mtu as usize
            || buf.len() < len
        {
            return 0;
        }
        let wqe = self.sq.get(self.cur);
        let psn = wqe.first_psn.add(self.cur_packet);
        let plain = wqe.status == WcStatus::Success
            && wqe.begun()
            && self.cur_packet > 0
            && !wqe.is_local()
            && !wqe.is_read_or_atomic();
        // What goes again, and what has to do with credits, is looked at one by one.
        if !plain
            || psn != self.next
            || self.within_credits(wqe, wqe.ssn, wqe.packets) != Some(false)
        {
            return 0;
        }
        let in_flight = self.in_flight(psn);
        let window = self.window.size().min(ctx.tuning.max_inflight_packets);
        let places = ((buf.len() - len) / stride + 1).min(MOST_MIDDLES);
        let count = (places as u32)
            .min(wqe.packets - 1 - self.cur_packet)
            .min(window.saturating_sub(in_flight));
        if count == 0 {
            return 0;
        }
        let mut since = self.since_ack_req;
        let mut asks = [false; MOST_MIDDLES];
        for (i, ask) in (in_flight..).zip(&mut asks[..count as usize]) {
            *ask = since + 1 >= ctx.tuning.ack_interval.min(window / 4) || i + 1 >= window;
            since = if *ask { 0 } else { since + 1 };
        }
        let asks = &asks[..count as usize];
        let part = emit::Part {
            request: self.cur,
            index: self.cur_packet,
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
        self.since_ack_req = since;
        if asks.contains(&true) {
            self.quiet = 0;
        }
        self.counters.requests_sent += u64::from(count);
        self.next = psn.add(count);
        self.cur_packet += count;
        for (ahead, _) in (0..).zip(asks).filter(|(_, asks)| **asks) {
            self.trip.sent(now, psn.add(ahead));
        }
        if !self.timers.is_set(Timer::Ack) {
            self.start_ack_timer(now, ctx);
        }
        count
    }

    /// Whether the current packet may be sent; gives the request its PSNs if it begins.
    #[inline]
    fn admit(&mut self, ctx: &Context<'_>) -> Option<Admitted> {
        let wqe = self.sq.get(self.cur);
        let fenced = wqe.flags.contains(SendFlags::FENCE) && self.cur_packet == 0;
        if fenced && !self.reads.is_empty() {
            return None;
        }
        let data = wqe.is_read_or_atomic();
        // I8: counted here for every transmission, so that going back cannot exceed it either.
        if data && self.reads.len() >= usize::from(ctx.attr.max_rd_atomic) {
            return None;
        }
        if !wqe.begun() {
            return self.admit_first(ctx);
        }
        let psn = wqe.first_psn.add(self.cur_packet);
        let psns = if data {
            wqe.piece_end(self.cur_packet) - self.cur_packet
        } else {
            1
        };
        let (probing, packets) = (self.within_credits(wqe, wqe.ssn, wqe.packets)?, wqe.packets);
        let fits = self.fits_window(ctx, psn, data, psns);
        fits.then_some(Admitted {
            psn,
            psns,
            probing,
            data,
            packets,
        })
    }

    /// As `admit`, for a request of which nothing was ever sent.
    fn admit_first(&mut self, ctx: &Context<'_>) -> Option<Admitted> {
        let wqe = self.sq.get(self.cur);
        let data = wqe.is_read_or_atomic();
        let packets = match wqe.opcode {
            SendOpcode::CmpSwap | SendOpcode::FetchAdd => 1,
            _ => packets_of(wqe.length, ctx.attr.path_mtu.bytes()),
        };
        let piece = match wqe.opcode {
            SendOpcode::RdmaRead => self.read_piece(ctx).min(packets),
            _ => packets,
        };
        let psns = if data { piece } else { 1 };
        let psn = self.next;
        let ssn = self.ssn.wrapping_add(1) & (Psn::MODULUS - 1);
        let probing = self.within_credits(wqe, ssn, packets)?;
        if !self.fits_window(ctx, psn, data, psns) {
            return None;
        }
        // Each piece of a READ is a message of its own to the peer, which counts them.
        self.ssn = self.ssn.wrapping_add(packets.div_ceil(piece)) & (Psn::MODULUS - 1);
        let wqe = self.sq.get_mut(self.cur);
        (wqe.first_psn, wqe.packets, wqe.piece, wqe.ssn) = (psn, packets, piece, ssn);
        Some(Admitted {
            psn,
            psns,
            probing,
            data,
            packets,
        })
    }

    /// A READ's pieces: a quarter of the window, so that several keep it full while one is answered, and not so large
    /// that one alone fills it when it has shrunk; but with few READs outstanding, pieces that fill it.
    fn read_piece(&self, ctx: &Context<'_>) -> u32 {
        let at_once = u32::from(ctx.attr.max_rd_atomic).max(1);
        let most = (READ_PIECES / at_once).max(READ_PIECE);
        (self.read_window.size() / at_once.min(4)).clamp(1, most)
    }

    /// Packets that are under way if this one is the next: what the peer is known to have is not, though it is not acknowledged while
    /// there is a gap before it.
    fn in_flight(&self, psn: Psn) -> u32 {
        let ahead = self.ahead(psn);
        let heard = self.heard.map_or(0, |heard| self.ahead(heard.next()));
        if heard == 0 || heard > ahead {
            return ahead - self.read_psns.min(ahead);
        }
        if ahead >= MOST_AHEAD {
            // The peer may have no room for more.
            return ahead.max(self.window.size());
        }
        ahead - self.read_psns.max(heard).min(ahead)
    }

    fn fits_window(&mut self, ctx: &Context<'_>, psn: Psn, data: bool, psns: u32) -> bool {
        if data {
            // A piece that is larger than a window that has shrunk since goes alone.
            let fits = self.read_psns == 0 || self.read_psns + psns <= self.read_window.size();
            if !fits {
                self.read_window.is_full();
            }
            return fits;
        }
        let in_flight = self.in_flight(psn);
        if in_flight >= self.window.size() {
            self.window.is_full();
            return false;
        }
        in_flight < ctx.tuning.max_inflight_packets.max(1)
    }

    /// Whether the peer's credits allow the current packet, or it may ask for them (true). IBA 9.7.7.2: beyond the
    /// credits a single packet may ask whether there is a receive after all; the rest of the message follows when that
    /// packet was acknowledged. A WRITE asks with its last packet.
    fn within_credits(&self, wqe: &SendWqe, ssn: u32, packets: u32) -> Option<bool> {
        let within = self.unlimited || !Psn::new(ssn).after(Psn::new(self.lsn));
        if within || !wqe.consumes_receive() {
            return Some(false);
        }
        let write = wqe.opcode == SendOpcode::RdmaWriteImm;
        let asks = if write {
            self.cur_packet + 1 == packets
        } else {
            self.cur_packet == 0
        };
        let answered =
            write || (wqe.begun() && self.una != wqe.first_psn && self.cur == self.sq.done());
        if asks && self.probe.is_some() || !asks && !answered {
            return None;
        }
        Some(asks)
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
        let Admitted {
            psn,
            psns,
            probing,
            data,
            packets,
        } = admitted;
        let ends = self.cur_packet + psns == packets;
        let again = self.ahead(psn) < self.ahead(self.next);
        let may_wait = !again && packets <= QUIET_PACKETS && self.is_quiet(ctx);
        let ack_req = ends && !may_wait || data || probing || self.wants_ack(ctx, psn);
        let part = emit::Part {
            request: self.cur,
            index: self.cur_packet,
            psns,
            psn,
            ack_req,
            again,
        };
        let len = match emit::request(ctx, env, &self.sq, part, buf) {
            Ok(len) => len,
            Err(_) => {
                self.sq.get_mut(self.cur).status = WcStatus::LocProtErr;
                return None;
            }
        };
        let is_first_asked = ack_req && self.is_unasked();
        (self.since_ack_req, self.quiet) = match ack_req {
            true => (0, 0),
            false => (self.since_ack_req + 1, self.quiet + u32::from(ends)),
        };
        if probing {
            self.probe = Some(psn);
        }
        self.counters.requests_sent += 1;
        let end = psn.add(psns);
        if self.ahead(end) > self.ahead(self.next) {
            self.next = end;
            if ack_req {
                self.trip.sent(now, psn);
            }
        } else {
            self.counters.requests_repeated += 1;
        }
        if data {
            self.reads.push_back(end);
            self.read_psns += psns;
        }
        if ends {
            self.cur += 1;
            self.cur_packet = 0;
        } else {
            self.cur_packet += psns;
        }
        if !self.timers.is_set(Timer::Ack) {
            self.start_ack_timer(now, ctx);
        } else if is_first_asked {
            // the answer takes as long from here as if there had been nothing before
            self.start_silence_timer(now, ctx);
        }
        Some(len)
    }

    /// Nobody waits for the end of the current request, a message of few packets: it has no completion, and there is room for others. Its
    /// acknowledgement, which costs each end as much as sending and receiving the message, may come with that of a later one: of one in a few, so that where
    /// messages come one by one the silence is never long enough for a question. IBA leaves it to the requester when to ask.
    fn is_quiet(&self, ctx: &Context<'_>) -> bool {
        self.quiet + 1 < QUIET_MESSAGES
            && self.since_ack_req < QUIET_MESSAGES * QUIET_PACKETS
            && self.silence_ns(ctx).is_some()
            && self.sq.tail() - self.sq.done() <= self.sq.room() / 2
            && !self.sq.is_signaled(self.cur)
            && (self.unlimited || !self.sq.get(self.cur).consumes_receive())
    }

    /// An acknowledgement is asked for often enough that the window never fills without one under way.
    fn wants_ack(&self, ctx: &Context<'_>, psn: Psn) -> bool {
        let window = self.window.size().min(ctx.tuning.max_inflight_packets);
        let in_flight = self.in_flight(psn);
        self.since_ack_req + 1 >= ctx.tuning.ack_interval.min(window / 4) || in_flight + 1 >= window
    }

    /// I10: 4.096 us * 2^n, and never for n = 0.
    pub(super) fn start_ack_timer(&mut self, now: Instant, ctx: &Context<'_>) {
        if let Some(ns) = ack_timeout_ns(ctx.attr.timeout) {
            let ns = ns.max(ctx.tuning.timeout_floor_ns);
            self.timers.set(Timer::Ack, now.plus_ns(ns));
            self.start_silence_timer(now, ctx);
        }
    }

    fn start_silence_timer(&mut self, now: Instant, ctx: &Context<'_>) {
        if let Some(silence) = self.silence_ns(ctx) {
            self.timers.set(Timer::Silence, now.plus_ns(silence));
        }
    }

    /// Silence after which the peer is asked; None if the ack time-out comes first.
    fn silence_ns(&self, ctx: &Context<'_>) -> Option<u64> {
        let first = self.trip.silence_ns(ctx.tuning.silence_ns);
        let silence = first.saturating_mul(1 << self.questions.min(16));
        let floor = ctx.tuning.timeout_floor_ns;
        let is_first = ack_timeout_ns(ctx.attr.timeout).is_some_and(|ns| silence < ns.max(floor));
        is_first.then_some(silence)
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
