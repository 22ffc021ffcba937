//! One simulated process: the adapter's calling pattern around the machine, without threads.
//!
//! Mirrors `ib/hca`: drain rings, collect answers, drive queues, fire timers, give up dead peers;
//! transitions of queue pairs in the adapter's order. What the process wants is the application's
//! business.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use ferriband_transport::direct::layout::{KeyEntry, PROC_ASLEEP, QpEntry};
use ferriband_transport::direct::mark::Revoked;
use ferriband_transport::direct::{
    Advance, Answered, Handled, Link, PostError, Receiver, Record, RecvQueue, Response, SendAttr,
    SendRequest, SendState, Sender, TargetEvent, TargetSink, Words,
};
use ferriband_transport::types::{
    Access, Completion, Instant, QpType, SendFlags, Sge, WcFlags, WcOpcode, WcStatus,
};

use super::Mutation;
use super::host::{SimHost, SimLink, SimSeg};
use super::oracle::{EndState, Recv, Service};
use super::world::Ctx;

const DRAIN_BUDGET: usize = 64;
const COLLECT_BUDGET: usize = 64;
/// The one protection domain.
pub(super) const PD: u32 = 7;
pub(super) const MAX_SGE: u32 = 3;
pub(super) const MAX_INLINE: u32 = 256;

/// A queue pair of a process.
pub(super) struct Qp<'s> {
    pub qpn: u32,
    pub index: u32,
    pub conn: usize,
    pub side: usize,
    pub service: Service,
    pub max_wr: u32,
    pub sender: RefCell<Sender<SimLink<'s>>>,
    recv: RefCell<Receiver>,
    rq: RefCell<RecvQueue>,
    scheduled: Cell<bool>,
    errored: Cell<bool>,
}

/// A process: its queue pairs and what it knows of the others.
pub(super) struct Process<'s> {
    pub ctx: Ctx<'s>,
    pub host: SimHost<'s>,
    pub qps: Vec<Qp<'s>>,
    pub chunk: u64,
    work: RefCell<Vec<usize>>,
    timers: RefCell<BTreeSet<(u64, usize)>>,
}

struct Target<'a, 's> {
    ctx: Ctx<'s>,
    event: Option<TargetEvent>,
    own: &'a SimSeg<'s>,
}

impl TargetSink for Target<'_, '_> {
    fn received(&mut self, completion: Completion) {
        self.ctx
            .world
            .trace(|| format!("p{} received {}", self.ctx.me, brief(&completion)));
        let invalidated = completion.flags.contains(WcFlags::WITH_INV);
        if completion.status == WcStatus::Success
            && invalidated
            && KeyEntry::read(self.own, completion.imm_or_rkey).is_some()
        {
            let expected = "a key that is gone when SEND with invalidate completes a receive";
            self.ctx.world.fail("I7", expected, brief(&completion));
        }
        self.ctx
            .world
            .oracle
            .borrow_mut()
            .received(self.ctx, &completion);
    }

    fn event(&mut self, event: TargetEvent) {
        self.event = Some(event);
    }
}

fn brief(completion: &Completion) -> String {
    let Completion {
        wr_id,
        status,
        byte_len,
        qp_num,
        ..
    } = completion;
    format!("qp {qp_num:#x} wr {wr_id} {status:?} {byte_len} bytes")
}

impl<'s> Qp<'s> {
    pub fn new(
        qpn: u32,
        index: u32,
        conn: usize,
        side: usize,
        service: Service,
        max_wr: u32,
        earlier: u32,
    ) -> Self {
        let qp_type = match service {
            Service::Rc => QpType::Rc,
            Service::Uc => QpType::Uc,
            Service::Ud => QpType::Ud,
        };
        let sender = Sender::new(qpn, index, qp_type, PD, false, max_wr, MAX_SGE, MAX_INLINE);
        Qp {
            qpn,
            index,
            conn,
            side,
            service,
            max_wr,
            sender: RefCell::new(sender.after_incarnation(earlier)),
            recv: RefCell::new(Receiver::new(qpn, qp_type, PD, PD, MAX_SGE)),
            rq: RefCell::new(RecvQueue::new(super::oracle::RECVS as u32, MAX_SGE)),
            scheduled: Cell::new(false),
            errored: Cell::new(false),
        }
    }
}

impl<'s> Process<'s> {
    pub fn new(ctx: Ctx<'s>, host: SimHost<'s>, qps: Vec<Qp<'s>>, chunk: u64) -> Self {
        Process {
            ctx,
            host,
            qps,
            chunk,
            work: RefCell::default(),
            timers: RefCell::default(),
        }
    }

    fn now(&self) -> Instant {
        Instant(self.ctx.world.now())
    }

    /// True when nothing is left to do here but to answer others.
    pub fn at_rest(&self) -> bool {
        let idle = |qp: &Qp<'s>| !qp.sender.borrow().has_work();
        self.work.borrow().is_empty() && self.qps.iter().all(idle)
    }

    /// One round over everything. True if anything was done.
    pub fn round(&self, long: bool) -> bool {
        let mut worked = false;
        for link in &self.host.links {
            worked |= self.serve(link);
        }
        if !self.work.borrow().is_empty() {
            worked |= self.drive_work(long);
        }
        worked | self.fire_timers()
    }

    /// When this process has to look again, if nobody wakes it.
    pub fn next_look(&self) -> u64 {
        let timer = self.timers.borrow().first().map_or(u64::MAX, |(at, _)| *at);
        if self.work.borrow().is_empty() {
            timer
        } else {
            timer.min(self.ctx.world.now() + 100_000)
        }
    }

    /// Falls asleep as the progress thread does: says so, looks once more, waits.
    pub fn sleep(&self, until: u64) {
        self.host.own.swap(PROC_ASLEEP, 1);
        if !self.round(true) {
            self.ctx.sleep_until(until.min(self.next_look()));
        }
        self.host.own.store(PROC_ASLEEP, 0);
    }

    fn serve(&self, link: &SimLink<'s>) -> bool {
        if !link.ready() || link.dead() {
            return false;
        }
        if self.ctx.world.heard_of_death(link.0.slot) {
            self.lose_peer(link);
            return true;
        }
        let mut worked = false;
        let waits = link.0.consumer.borrow().has_record(&link.0.pair);
        if waits {
            worked |= self.drain(link);
        }
        let news = link.0.completer.borrow().has_news(&link.0.pair);
        worked | (news && self.collect(link))
    }

    fn qp_by_number(&self, qpn: u32) -> Option<&Qp<'s>> {
        self.qps.iter().find(|qp| qp.qpn == qpn)
    }

    fn qp_by_index(&self, index: u32) -> Option<usize> {
        self.qps.iter().position(|qp| qp.index == index)
    }

    /// Executes records of a peer.
    fn drain(&self, link: &SimLink<'s>) -> bool {
        let world = self.ctx.world;
        let (from, me) = (link.0.slot, self.ctx.me);
        let pair = &link.0.pair;
        let mut rx = link.0.consumer.borrow_mut();
        let mut count = 0;
        let mut again = false;
        while count < DRAIN_BUDGET {
            let Some(record) = rx.peek(pair) else { break };
            if from == me {
                // a process sees its own records early; the witness does not
                world.drain(me);
            }
            world.rings.borrow_mut().consumed(world, from, me, again);
            let Ok(record) = record else {
                world.fail("RING", "a known record", "an unknown kind");
                break;
            };
            world.oracle.borrow_mut().executes(world, &record);
            if world.options.mutation == Some(Mutation::AcknowledgeFirst) && !again {
                let shown = Handled::Answer(Response::Ok(0));
                world.rings.borrow_mut().answers(from, me, shown);
                rx.answer(pair, Response::Ok(0));
                rx.acknowledge(pair);
                link.ring();
                self.handle(link, &rx, &record);
                count += 1;
                continue;
            }
            let mut handled = self.handle(link, &rx, &record);
            if world.options.mutation == Some(Mutation::ExecuteTwice)
                && world.rng.borrow_mut().chance(50)
            {
                let mut early = record;
                early.seq = (record.seq + 1) & 0xff_ffff;
                self.handle(link, &rx, &early);
            }
            if world.options.mutation == Some(Mutation::HideRefusal)
                && matches!(handled, Handled::Answer(_))
            {
                handled = Handled::Answer(Response::Ok(0));
            }
            count += 1;
            again = handled == Handled::More;
            world.trace(|| format!("p{me} <- p{from} {} : {handled:?}", show(&record)));
            world.rings.borrow_mut().answers(from, me, handled);
            match handled {
                Handled::Answer(response) => {
                    rx.answer(pair, response);
                    if self.qp_by_number(record.dst_qpn).is_some() {
                        world.oracle.borrow_mut().answered(world, &record, response);
                    }
                }
                Handled::Value(value) => rx.answer_value(pair, value),
                Handled::More => break,
            }
        }
        let acknowledge = rx.unacknowledged();
        rx.acknowledge(pair);
        drop(rx);
        if acknowledge {
            link.ring();
        }
        count > 0
    }

    fn handle(
        &self,
        link: &SimLink<'s>,
        ring: &ferriband_transport::direct::Consumer,
        record: &Record,
    ) -> Handled {
        let Some(qp) = self.qp_by_number(record.dst_qpn) else {
            return Handled::Answer(Response::NotReady);
        };
        let mut target = Target {
            ctx: self.ctx,
            event: None,
            own: &self.host.own,
        };
        let handled = {
            let mut recv = qp.recv.borrow_mut();
            let mut rq = qp.rq.borrow_mut();
            recv.handle(
                &self.host,
                link,
                ring,
                record,
                &mut rq,
                self.chunk,
                &mut target,
            )
        };
        match target.event {
            None | Some(TargetEvent::Established) => {}
            Some(_) => self.enter_error(qp),
        }
        handled
    }

    /// Collects a peer's answers.
    fn collect(&self, link: &SimLink<'s>) -> bool {
        let world = self.ctx.world;
        let mut completer = link.0.completer.borrow_mut();
        let tail = link.0.producer.borrow().tail();
        let mut last = None;
        let collected = completer.collect(&link.0.pair, tail, COLLECT_BUDGET, |answer| {
            self.answer_came(link, answer, &mut last);
            world
                .rings
                .borrow_mut()
                .collected(world, self.ctx.me, link.0.slot, &answer);
        });
        drop(completer);
        if let Some(at) = last {
            self.drive(at, false);
        }
        collected > 0
    }

    fn answer_came(&self, link: &SimLink<'s>, answer: Answered, last: &mut Option<usize>) {
        let Some(index) = Sender::<SimLink<'s>>::index_of_owner(answer.owner) else {
            return;
        };
        let at = self.qp_by_index(index);
        if *last != at {
            if let Some(before) = last.take() {
                self.schedule(before);
            }
            *last = at;
        }
        if let Some(at) = at {
            let qp = &self.qps[at];
            let early = self.ctx.world.options.mutation == Some(Mutation::IgnoreTimer);
            let now = || if early { Instant(0) } else { self.now() };
            qp.sender
                .borrow_mut()
                .answered(&self.host, &link.0.pair, answer, now, &mut |c| self.sent(c));
            self.check_send_state(qp);
        }
    }

    fn sent(&self, completion: Completion) {
        self.ctx
            .world
            .trace(|| format!("p{} sent {}", self.ctx.me, brief(&completion)));
        if self.ctx.world.options.mutation == Some(Mutation::CompleteTwice)
            && self.ctx.world.rng.borrow_mut().chance(20)
        {
            self.ctx
                .world
                .oracle
                .borrow_mut()
                .sent(self.ctx, &completion);
        }
        self.ctx
            .world
            .oracle
            .borrow_mut()
            .sent(self.ctx, &completion);
    }

    /// Puts a queue pair on the list of those to be driven.
    pub fn schedule(&self, at: usize) {
        if !self.qps[at].scheduled.replace(true) {
            self.work.borrow_mut().push(at);
        }
    }

    fn drive_work(&self, long: bool) -> bool {
        let batch = std::mem::take(&mut *self.work.borrow_mut());
        let mut worked = false;
        for at in batch {
            self.qps[at].scheduled.set(false);
            worked |= self.drive(at, long);
        }
        worked
    }

    /// Drives a queue pair. True if something moved.
    pub fn drive(&self, at: usize, long: bool) -> bool {
        let qp = &self.qps[at];
        let mut sender = qp.sender.borrow_mut();
        let before = sender.outstanding();
        let advance = sender.advance(&self.host, || self.now(), long, &mut |c| self.sent(c));
        let moved = sender.outstanding() != before;
        if sender.state() == SendState::Draining && sender.drained() {
            let mut oracle = self.ctx.world.oracle.borrow_mut();
            oracle.drained(self.ctx.world, qp.conn, qp.side);
        }
        drop(sender);
        match advance {
            Advance::Idle => {}
            Advance::Again | Advance::Blocked => self.schedule(at),
            Advance::Until(until) => {
                self.timers.borrow_mut().insert((until.0, at));
            }
        }
        self.check_send_state(qp);
        moved || long && advance == Advance::Again
    }

    fn fire_timers(&self) -> bool {
        let now = self.now().0;
        let mut timers = self.timers.borrow_mut();
        let later = timers.split_off(&(now + 1, 0));
        let due = std::mem::replace(&mut *timers, later);
        drop(timers);
        let fired = !due.is_empty();
        for (_, at) in due {
            self.drive(at, false);
        }
        fired
    }

    /// A failed send takes the queue pair to the error state.
    fn check_send_state(&self, qp: &Qp<'s>) {
        if qp.sender.borrow().state() == SendState::Flushing && !qp.errored.replace(true) {
            self.set_state(qp, EndState::Error);
            QpEntry::revoke(&self.host.own, qp.index as usize);
            self.flush_receives(qp);
        }
    }

    fn set_state(&self, qp: &Qp<'s>, state: EndState) {
        // the peer hears of it by a message, which no store overtakes
        self.ctx.world.drain(self.ctx.me);
        let mut oracle = self.ctx.world.oracle.borrow_mut();
        let conn = &mut oracle.conns[qp.conn];
        self.ctx
            .world
            .trace(|| format!("p{} qp {:#x} is {state:?}", self.ctx.me, qp.qpn));
        conn.ends[qp.side].state = state;
        if matches!(state, EndState::Error | EndState::Reset) {
            conn.disturb(self.ctx.world.now());
        }
    }

    /// Everything flushes.
    pub fn enter_error(&self, qp: &Qp<'s>) {
        if qp.errored.replace(true) {
            return;
        }
        self.revoke(qp);
        self.set_state(qp, EndState::Error);
        qp.sender
            .borrow_mut()
            .set_state(SendState::Flushing, &mut |c| self.sent(c));
        self.flush_receives(qp);
    }

    fn revoke(&self, qp: &Qp<'s>) {
        {
            let mut oracle = self.ctx.world.oracle.borrow_mut();
            oracle.conns[qp.conn].disturb(self.ctx.world.now());
        }
        QpEntry::revoke(&self.host.own, qp.index as usize);
        if self.host.wait_for_marks(Revoked::Qp(qp.qpn)) {
            self.ctx
                .world
                .oracle
                .borrow_mut()
                .end_is_gone(qp.conn, qp.side);
        }
    }

    fn flush_receives(&self, qp: &Qp<'s>) {
        let current = qp.recv.borrow_mut().stop();
        let mut sges = Vec::new();
        let flush = |wr_id| {
            let completion = Completion {
                wr_id,
                status: WcStatus::WrFlushErr,
                opcode: WcOpcode::Recv,
                qp_num: qp.qpn,
                ..Completion::default()
            };
            self.ctx
                .world
                .oracle
                .borrow_mut()
                .received(self.ctx, &completion);
        };
        if let Some(wqe) = current {
            flush(wqe.wr_id);
        }
        let mut rq = qp.rq.borrow_mut();
        while let Some(wqe) = rq.take(&mut sges) {
            flush(wqe.wr_id);
        }
    }

    /// Forgets everything; the queue pair may be destroyed then.
    pub fn reset(&self, qp: &Qp<'s>) {
        self.revoke(qp);
        self.set_state(qp, EndState::Reset);
        qp.sender
            .borrow_mut()
            .set_state(SendState::Stopped, &mut |_| {});
        qp.recv.borrow_mut().stop();
        *qp.rq.borrow_mut() = RecvQueue::new(super::oracle::RECVS as u32, MAX_SGE);
        qp.errored.set(false);
    }

    /// RTR: what waits in the rings belongs to an earlier life and is refused first; then requests are accepted.
    pub fn become_receiver(&self, qp: &Qp<'s>) {
        let generation = || self.ctx.world.oracle.borrow().conns[qp.conn].generation;
        loop {
            let began = generation();
            self.accept_requests(qp);
            if generation() == began {
                return self.set_state(qp, EndState::Rtr);
            }
            // The other side reset once more meanwhile: the attributes are new, and what still
            // waits is of the life before, which nobody may execute.
            qp.recv.borrow_mut().stop();
        }
    }

    fn accept_requests(&self, qp: &Qp<'s>) {
        let (peer, dest_qpn, seq, code) = {
            let oracle = self.ctx.world.oracle.borrow();
            let conn = &oracle.conns[qp.conn];
            let other = &conn.ends[1 - qp.side];
            (
                other.process,
                other.qpn,
                conn.seq[1 - qp.side],
                conn.rnr_code,
            )
        };
        let link = self.host.links[peer].clone();
        if link.ready() && !link.dead() {
            while self.drain(&link) {}
        }
        let connected = qp.service != Service::Ud;
        let access = Access::LOCAL_WRITE
            | Access::REMOTE_WRITE
            | Access::REMOTE_READ
            | Access::REMOTE_ATOMIC;
        {
            let mut recv = qp.recv.borrow_mut();
            (recv.receives, recv.fresh) = (true, true);
            recv.expected = seq;
            recv.dest_qpn = dest_qpn;
            recv.peer_slot = if connected { link.slot() } else { u32::MAX };
            recv.access = access;
            recv.min_rnr_timer = code;
            recv.qkey = 0x11;
        }
        let dest = SendAttr {
            dest_qpn,
            ..SendAttr::default()
        };
        qp.sender
            .borrow_mut()
            .connect(dest, connected.then_some(link));
        let dest_slot = if connected { peer as u32 } else { u32::MAX };
        let entry = QpEntry {
            qpn: qp.qpn,
            receives: true,
            access,
            pd: PD,
            dest_qpn,
            dest_slot,
        };
        entry.write(&self.host.own, qp.index as usize);
    }

    pub fn become_sender(&self, qp: &Qp<'s>) {
        let attr = {
            let oracle = self.ctx.world.oracle.borrow();
            let conn = &oracle.conns[qp.conn];
            SendAttr {
                dest_qpn: conn.ends[1 - qp.side].qpn,
                seq: conn.seq[qp.side],
                timeout: conn.timeout,
                retry_cnt: conn.retry_cnt,
                rnr_retry: conn.rnr_retry,
            }
        };
        let mut sender = qp.sender.borrow_mut();
        sender.start(attr);
        sender.set_state(SendState::Running, &mut |_| {});
        drop(sender);
        self.set_state(qp, EndState::Rts);
    }

    /// SQD, and back.
    pub fn hold(&self, at: usize, hold: bool) {
        let qp = &self.qps[at];
        let state = if hold {
            SendState::Draining
        } else {
            SendState::Running
        };
        qp.sender.borrow_mut().set_state(state, &mut |_| {});
        self.drive(at, false);
    }

    pub fn post_recv(&self, qp: &Qp<'s>, recv: Recv, lkey: u32, bad: bool) {
        let addr = super::host::app_base(self.ctx.me) + recv.offset as u64;
        let half = recv.len as u32 / 2;
        let lkey = if bad { lkey ^ 1 } else { lkey };
        let sges = [
            Sge {
                addr,
                length: half,
                lkey,
            },
            Sge {
                addr: addr + u64::from(half),
                length: recv.len as u32 - half,
                lkey,
            },
        ];
        qp.rq
            .borrow_mut()
            .push(recv.wr_id, &sges)
            .expect("the application counts its receives");
    }

    /// Posts and does at once what can be done.
    pub fn post_send(
        &self,
        at: usize,
        request: &SendRequest<'_, SimLink<'s>>,
    ) -> Result<(), PostError> {
        debug_assert!(request.flags.contains(SendFlags::INLINE) || request.inline.is_empty());
        self.qps[at]
            .sender
            .borrow_mut()
            .post(request, &mut |c| self.sent(c))?;
        self.drive(at, false);
        Ok(())
    }

    /// The peer is gone: what waits for it hears of it.
    fn lose_peer(&self, link: &SimLink<'s>) {
        let world = self.ctx.world;
        // what it answered before it died counts
        while link.0.completer.borrow().has_news(&link.0.pair) && self.collect(link) {}
        link.0.dead.set(true);
        world.trace(|| format!("p{} hears that p{} is dead", self.ctx.me, link.0.slot));
        if world.options.mutation == Some(Mutation::IgnoreDeath) {
            return;
        }
        let mut victims = Vec::new();
        let tail = link.0.producer.borrow().tail();
        link.0.completer.borrow_mut().abandon(tail, |owner| {
            victims.extend(
                Sender::<SimLink<'s>>::index_of_owner(owner)
                    .and_then(|index| self.qp_by_index(index)),
            );
        });
        world.rings.borrow_mut().abandoned(self.ctx.me, link.0.slot);
        for at in victims {
            self.qps[at]
                .sender
                .borrow_mut()
                .peer_died(self.now(), &mut |c| self.sent(c));
            self.check_send_state(&self.qps[at]);
        }
        for at in 0..self.qps.len() {
            self.schedule(at);
        }
    }
}

fn show(record: &Record) -> String {
    let Record {
        kind,
        dst_qpn,
        seq,
        length,
        ..
    } = record;
    format!("{kind:?} to {dst_qpn:#x} seq {seq} {length} bytes")
}
