//! Senders that have a socket of their own: when one gets it, when each socket is looked at, and
//! when it is given back.
//!
//! Owns nothing: what is kept of senders is in [`Flows`](crate::wire::roce::flows). Must not know
//! what packets mean.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use arrayvec::ArrayVec;
use ferriband_memory::net::RxSocket;

use super::RxSide;
use crate::objects::catch::Catch;
use crate::wire::packets::ways::{RECEIVE_BUFFER_BYTES, Ways};
use crate::wire::roce::alone::{Found, Look, Tell, Way};
use crate::wire::roce::flows::{
    AGAIN, FOREIGN, Flow, LOOK_EVERY, MOST_FLOWS, QUIET, QUIET_EVERY, SILENT, WORTH,
    may_have_socket,
};
use crate::wire::roce::join::SharedPort;
use crate::wire::roce::rx::{CE, Hands, Pace};
use crate::wire::to::{Deliver, Queue, To};

impl<D: Deliver> RxSide<D> {
    /// What the last look at the socket of all brought is noted. True if its sender is worth a
    /// socket.
    #[inline]
    pub(in crate::wire) fn note_sender(&mut self) -> bool {
        // of a round of many the first tells enough
        let first = self.hands.ring.messages().next();
        first.is_some_and(|(meta, _)| self.flows.note(meta))
    }

    /// The sender that most has come from lately has a socket of its own from now on.
    #[cold]
    pub(in crate::wire) fn open_flow(&mut self, to: To<'_, D>, roce: &Ways, all: &RxSocket) {
        let likely = self.flows.likely;
        self.flows.put_off(AGAIN);
        let Some(like) = likely.filter(may_have_socket) else {
            return;
        };
        if self.flows.open.is_full() {
            // the one at hand is the first
            self.close_flow(to, roce, MOST_FLOWS - 1);
        }
        let Some(port) = roce.port.get().map(SharedPort::port) else {
            return;
        };
        let Ok(mut socket) = RxSocket::bind_flow(&like, port, RECEIVE_BUFFER_BYTES) else {
            return;
        };
        // older than all that comes by the new one
        self.drain(to, roce, all);
        // until it was connected it got what others sent, and what was for other processes
        let mut pace = Pace::default();
        self.hands.drain_flow(to, roce, (&socket, &mut pace));
        if socket.settle(&like).is_err() {
            let _ = socket.turn_away(&like);
            self.hands.drain_flow(to, roce, (&socket, &mut pace));
            return;
        }
        let flow = Flow {
            socket: Arc::new(socket),
            like,
            pace,
            way: Way::default(),
            tos: like.tos,
            active: true,
        };
        self.flows.open.insert(0, flow);
        roce.flows_version.fetch_add(1, Relaxed);
        // a program that polls a little between its sleeps leaves the thread asleep: it does not
        // wait for this socket yet
        to.adapter.process().waker.signal(1);
    }

    /// Gives a sender back to the socket of all.
    #[cold]
    fn close_flow(&mut self, to: To<'_, D>, roce: &Ways, at: usize) {
        let Some(mut flow) = self.flows.open.pop_at(at) else {
            return;
        };
        // where that fails nothing comes by this address any more, or this is a child that has no
        // sockets
        let _ = flow.socket.turn_away(&flow.like);
        flow.before_drain();
        let place = (&*flow.socket, &mut flow.pace);
        self.hands.drain_flow(to, roce, place);
        roce.flows_version.fetch_add(1, Relaxed);
    }

    /// Takes what has arrived from senders with sockets of their own. True if anything had.
    #[inline]
    pub fn take_flows(
        &mut self,
        to: To<'_, D>,
        roce: &Ways,
        rounds: u32,
        catch: &mut Catch<'_>,
    ) -> bool {
        if self.flows.open.is_empty() {
            return false;
        }
        let all = !catch.somebody_polls() || rounds.is_multiple_of(QUIET_EVERY);
        let (mut worked, mut at) = (false, 0);
        while let Some(flow) = self.flows.open.get(at) {
            if at > 0 && !all && !self.is_stream() && (worked || flow.pace.misses >= QUIET) {
                break;
            }
            let flow = &mut self.flows.open[at];
            self.hands.batch.by_flow = true;
            let found = self.hands.take_flow(to, roce, flow, catch);
            self.hands.batch.by_flow = false;
            flow.active |= found;
            worked |= found;
            if std::mem::take(&mut self.hands.batch.foreign) {
                self.close_flow(to, roce, at);
                self.flows.put_off(FOREIGN);
                continue;
            }
            if found && at > 0 {
                self.flows.open.swap(0, at);
            }
            at += 1;
        }
        if rounds.is_multiple_of(LOOK_EVERY) {
            self.close_silent(to, roce);
        }
        worked
    }

    /// True if a polling program need not look at the sockets of all in this round: a sender of its
    /// own has sent, or nobody else does.
    #[inline]
    pub fn may_skip_all(&self, rounds: u32, worked: bool) -> bool {
        !self.flows.open.is_empty()
            && (worked || self.pace.misses >= QUIET)
            && !rounds.is_multiple_of(QUIET_EVERY)
            && !self.is_stream()
    }

    /// A look at a socket is little beside what a round takes from the sender at hand: others need
    /// not wait for several.
    #[inline]
    fn is_stream(&self) -> bool {
        self.flows.open.first().is_some_and(|flow| flow.pace.stream)
    }

    #[cold]
    fn close_silent(&mut self, to: To<'_, D>, roce: &Ways) {
        let now = ferriband_memory::wait::now();
        if now.0 - self.flows.looked_at.0 < SILENT.as_nanos() as u64 {
            return;
        }
        self.flows.looked_at = now;
        for at in (0..self.flows.open.len()).rev() {
            if !std::mem::take(&mut self.flows.open[at].active) {
                self.close_flow(to, roce, at);
                // it did what it was for: the next may come as soon
                self.flows.worth = (self.flows.worth / AGAIN).max(WORTH);
            }
        }
    }

    /// Takes all that lies in the sockets of senders.
    pub fn drain_flows(&mut self, to: To<'_, D>, roce: &Ways) {
        for flow in &mut self.flows.open {
            flow.before_drain();
            let place = (&*flow.socket, &mut flow.pace);
            self.hands.drain_flow(to, roce, place);
        }
    }

    /// The sockets of senders.
    pub fn flow_sockets(&self) -> ArrayVec<Arc<RxSocket>, MOST_FLOWS> {
        let sockets = self.flows.open.iter().map(|flow| flow.socket.clone());
        sockets.collect()
    }
}

impl<D: Deliver> Hands<D> {
    /// Takes what has arrived from a sender with a socket of its own. True if anything had.
    fn take_flow(
        &mut self,
        to: To<'_, D>,
        roce: &Ways,
        flow: &mut Flow,
        catch: &mut Catch<'_>,
    ) -> bool {
        let look = flow.way.look();
        let found = match look {
            Look::Runs => self.take(to, roce, (&flow.socket, &mut flow.pace), catch),
            Look::Empty => !flow.socket.is_empty(),
            Look::Plain | Look::Told => {
                let told = look == Look::Told;
                self.take_one(to, roce, (flow, told), catch)
            }
        };
        let mut special = false;
        let what = match (found, look) {
            (false, _) => Found::Nothing,
            (true, Look::Empty) => Found::More,
            (true, _) => {
                let last = self.batch.last.as_ref();
                special = last.is_some_and(|(_, qp)| qp.is_datagram());
                let mut found = Found::One;
                for (place, (meta, bytes)) in self.ring.messages().enumerate() {
                    special |= meta.tos & 3 == CE;
                    // an acknowledgement behind a message is none
                    if place > 1 || usize::from(meta.segment) < bytes.len() {
                        found = Found::More;
                    }
                }
                found
            }
        };
        let tell = flow.way.after(look, what, special);
        if tell != Tell::Nothing {
            flow.tell(tell);
        }
        if look == Look::Empty && found {
            return self.take(to, roce, (&flow.socket, &mut flow.pace), catch);
        }
        found
    }

    /// Takes one datagram, with or without its traffic class. True if there was one.
    fn take_one(
        &mut self,
        to: To<'_, D>,
        roce: &Ways,
        (flow, told): (&mut Flow, bool),
        catch: &mut Catch<'_>,
    ) -> bool {
        let Flow {
            socket, pace, tos, ..
        } = flow;
        let got = match told {
            true => socket.receive(&mut self.ring, 1).map(|got| got > 0),
            false => socket.receive_plain(&mut self.ring, *tos),
        };
        pace.found = got.is_ok_and(|got| got);
        (pace.run, pace.stream) = (false, false);
        if !pace.found {
            pace.misses = pace.misses.saturating_add(1);
            return false;
        }
        pace.misses = 0;
        if told && let Some((meta, _)) = self.ring.messages().next() {
            *tos = meta.tos;
        }
        self.give(to, roce, catch);
        true
    }

    /// Takes all that lies in a sender's socket.
    fn drain_flow(&mut self, to: To<'_, D>, roce: &Ways, place: (&RxSocket, &mut Pace)) {
        self.batch.by_flow = true;
        self.drain(to, roce, place);
        (self.batch.by_flow, self.batch.foreign) = (false, false);
    }
}
