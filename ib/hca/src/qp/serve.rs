//! Rings of the direct wire: records of a peer are executed, answers are collected.
//!
//! Owns the order of it: a record is acknowledged before its completion is told. Must not know when
//! a ring is looked at.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use arrayvec::ArrayVec;
use ferriband_transport::direct::{Consumer, Handled, Record, Response, Sender};

use crate::lock;
use crate::objects::catch::Catch;
use crate::process::peer::{Channel, Inbound, Outbound};
use crate::qp::PeerLink;
use crate::qp::adapter::Adapter;
use crate::qp::{Outcome, Qp};

/// Records taken from one ring before others have their turn.
const DRAIN_BUDGET: usize = 64;
/// Yields of a collecting thread that waits for an executing one.
const BOUNDED_WAIT_SPINS: usize = 1000;
/// Completions held back until their records are acknowledged.
const BATCH: usize = 16;
/// Answers collected at a time.
const COLLECT_BUDGET: usize = 64;
/// Turns at a dead peer's rings; each takes up to 64 records of each, or waits for another thread's
/// turn.
const LAST_WORDS_TURNS: usize = 10_000;
/// Turns at one ring before the next.
const SERVE_ROUNDS: usize = 4;
/// Bytes of a long transfer moved in one step while others wait.
const PULL_CHUNK: u64 = 256 << 10;

/// What one turn at a ring did.
enum Turn {
    /// Another thread has it.
    Busy,
    /// This many records.
    Done(usize),
    /// A long transfer goes on.
    More,
}

thread_local! {
    /// This is the progress thread.
    pub(crate) static ON_THREAD: Cell<bool> = const { Cell::new(false) };
    /// This thread is inside a ring's consumer: it must not wait for itself.
    static DRAINING: Cell<bool> = const { Cell::new(false) };
    /// This thread holds a ring's completer.
    static COLLECTING: Cell<bool> = const { Cell::new(false) };
}

impl Adapter {
    /// Rings to and from one peer.
    #[inline]
    pub(crate) fn serve(&self, link: &PeerLink, catch: &mut Catch<'_>) -> bool {
        let Some(channel) = link.0.channel.get() else {
            return false;
        };
        link.0.ring_owed(channel);
        let mut worked = false;
        // Whoever finds the lock taken leaves the work to its holder, so the holder looks again
        // after giving it up.
        for _ in 0..SERVE_ROUNDS {
            if !channel.has_record() {
                break;
            }
            match self.drain(link, catch) {
                Turn::Busy => break,
                Turn::Done(count) => worked |= count > 0,
                Turn::More => return self.leave_rest(),
            }
            self.settle();
        }
        for _ in 0..SERVE_ROUNDS {
            if !channel.has_answers() {
                break;
            }
            match self.collect(link, catch) {
                Turn::Busy => break,
                Turn::Done(count) => worked |= count > 0,
                Turn::More => return self.leave_rest(),
            }
            self.settle();
        }
        if worked && (channel.has_record() || channel.has_answers()) {
            return self.leave_rest();
        }
        worked
    }

    /// Orders giving a lock up before the look at what others left because of it. While a program
    /// polls it comes back anyway.
    #[inline]
    pub(crate) fn settle(&self) {
        if !self.polls.polling.load(Ordering::Acquire) {
            fence(Ordering::SeqCst);
        }
    }

    /// More is there than one turn does. A program that waits without polling must not be the only
    /// one to know.
    #[cold]
    fn leave_rest(&self) -> bool {
        if !self.polls.polling.load(Ordering::Acquire) && !ON_THREAD.get() {
            self.process.waker.signal(1);
        }
        true
    }

    /// Executes records of a peer.
    fn drain(&self, link: &PeerLink, catch: &mut Catch<'_>) -> Turn {
        let Some(channel) = link.0.channel.get() else {
            return Turn::Busy;
        };
        let Some(mut inbound) = channel.rx.try_lock() else {
            return Turn::Busy;
        };
        let Inbound { consumer: rx, last } = &mut *inbound;
        DRAINING.set(true);
        let pair = &**channel.pair;
        let (mut count, mut more) = (0, false);
        let mut told = ArrayVec::<Outcome, BATCH>::new();
        let version = self.table.version.load(Ordering::Acquire);
        if last
            .as_ref()
            .is_some_and(|(found_in, _)| *found_in != version)
        {
            *last = None;
        }
        while count < DRAIN_BUDGET {
            let Some(record) = rx.peek(pair) else { break };
            count += 1;
            let Ok(record) = record else {
                // an unknown record: skip it, the sender hears of it
                rx.answer(pair, Response::InvalidRequest);
                continue;
            };
            if last.as_ref().is_none_or(|(_, qp)| qp.qpn != record.dst_qpn) {
                // what is told refers to the queue pair at hand
                self.acknowledge(link, channel, rx, last, &mut told, catch);
                *last = self.qp_by_number(record.dst_qpn).map(|qp| (version, qp));
            }
            let (handled, outcome) = match last {
                Some((_, qp)) => {
                    let (handled, outcome) = qp.receive(self, link, rx, &record, PULL_CHUNK);
                    (handled, Some(outcome))
                }
                None => self.receive_extended(link, rx, &record, PULL_CHUNK),
            };
            match handled {
                Handled::Answer(response) => rx.answer(pair, response),
                Handled::Value(value) => rx.answer_value(pair, value),
                Handled::More => {
                    more = true;
                    break;
                }
            }
            if let Some(outcome) = outcome
                && outcome.tells()
            {
                told.push(outcome);
                if told.is_full() {
                    self.acknowledge(link, channel, rx, last, &mut told, catch);
                }
            }
        }
        self.acknowledge(link, channel, rx, last, &mut told, catch);
        DRAINING.set(false);
        if more { Turn::More } else { Turn::Done(count) }
    }

    /// Acknowledges what was executed, then tells the program of it. In this order a peer's program
    /// never hears of a reply before its own send has completed: the reply cannot be posted before
    /// the acknowledgement is visible, and answers are collected here before the reply's completion
    /// is queued. Adapters behave so, and programs that share one event channel for both queues
    /// depend on it (perftest does).
    fn acknowledge(
        &self,
        link: &PeerLink,
        channel: &Channel<Qp>,
        rx: &mut Consumer,
        qp: &Option<(u64, Arc<Qp>)>,
        told: &mut ArrayVec<Outcome, BATCH>,
        catch: &mut Catch<'_>,
    ) {
        let news = rx.unacknowledged();
        rx.acknowledge(&**channel.pair);
        channel.note_position(rx);
        if channel.has_answers() {
            self.collect_locked(channel, &mut lock(&channel.completer), catch);
        }
        // looked at where they lie: what is copied now waits behind the head's store, whose line
        // the peer is looking at
        for outcome in told.iter() {
            outcome.deliver(self, qp.as_ref().map(|(_, qp)| qp), catch);
        }
        told.clear();
        if news && self.polls.polling.load(Ordering::Relaxed) {
            link.0.ring_later(channel);
        } else if news {
            link.0.ring(channel);
        }
    }

    /// Waits until a record of the peer that is being executed now is done, unless this thread
    /// executes it. A thread that collects answers must not wait for long: the executing thread may
    /// be waiting for it.
    pub(crate) fn wait_for_records(&self, channel: &Channel<Qp>) {
        if DRAINING.get() {
            return;
        }
        if !COLLECTING.get() {
            drop(lock(&channel.rx));
            return;
        }
        for _ in 0..BOUNDED_WAIT_SPINS {
            if channel.rx.try_lock().is_some() {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Collects a peer's answers.
    fn collect(&self, link: &PeerLink, catch: &mut Catch<'_>) -> Turn {
        let Some(channel) = link.0.channel.get() else {
            return Turn::Busy;
        };
        let Some(mut completer) = channel.completer.try_lock() else {
            return Turn::Busy;
        };
        Turn::Done(self.collect_locked(channel, &mut completer, catch))
    }

    fn collect_locked(
        &self,
        channel: &Channel<Qp>,
        outbound: &mut Outbound<Qp>,
        catch: &mut Catch<'_>,
    ) -> usize {
        COLLECTING.set(true);
        let Outbound { completer, last } = outbound;
        let tail = channel.tx_shared.published();
        let version = self.table.version.load(Ordering::Acquire);
        if last
            .as_ref()
            .is_some_and(|(found_in, _)| *found_in != version)
        {
            *last = None;
        }
        let mut wants = false;
        let collected = completer.collect(&**channel.pair, tail, COLLECT_BUDGET, |answer| {
            let Some(index) = Sender::<PeerLink>::index_of_owner(answer.owner) else {
                return;
            };
            if last.as_ref().is_none_or(|(_, qp)| qp.index != index) {
                if let Some((_, qp)) = last.take()
                    && wants
                {
                    self.schedule(&qp);
                }
                wants = false;
                *last = self.qp(index).map(|qp| (version, qp));
            }
            if let Some((_, qp)) = last {
                wants = qp.answered(self, &channel.pair, answer, catch);
            }
        });
        if wants && let Some((_, qp)) = last {
            qp.drive(self, false);
        }
        COLLECTING.set(false);
        collected
    }

    /// Executes what a peer has published so far, and collects its answers.
    pub(crate) fn hear_out(&self, link: &PeerLink) {
        let Some(channel) = link.0.channel.get() else {
            return;
        };
        for _ in 0..LAST_WORDS_TURNS {
            if !channel.has_record() && !channel.has_answers() {
                return;
            }
            self.serve(link, &mut Catch::nobody());
        }
    }

    /// Executes a record for a target queue pair.
    fn receive_extended(
        &self,
        link: &PeerLink,
        ring: &Consumer,
        record: &Record,
        chunk: u64,
    ) -> (Handled, Option<Outcome>) {
        let refuse = |response| (Handled::Answer(response), None);
        let Some(proxy) = self.targets.get(&self.process, record.dst_qpn) else {
            return refuse(Response::NotReady);
        };
        let srqs = self
            .targets
            .srqs
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let srq = srqs.get(&srq_number(record)).cloned();
        drop(srqs);
        let Some(srq) = srq.filter(|srq| srq.in_domain(proxy.domain())) else {
            return refuse(Response::InvalidRequest);
        };
        let mut recv = lock(&proxy.recv);
        if proxy.load(&self.process, &mut recv).is_none() {
            return refuse(Response::NotReady);
        }
        (recv.pd, recv.recv_pd) = (srq.pd.id, srq.pd.id);
        let mut outcome = Outcome::of_extended(proxy.clone(), srq.clone());
        let mut queue = lock(&srq.queue);
        let handled = recv.handle(self, link, ring, record, &mut queue, chunk, &mut outcome);
        drop(queue);
        proxy.store(&self.process, &recv);
        drop(recv);
        (handled, Some(outcome))
    }
}

/// SRQ number that a record names.
fn srq_number(record: &Record) -> u32 {
    u32::from(record.extra) | record.seq >> 24 << 16
}
