//! Senders that have a socket of their own: most of what comes to a polling program often comes
//! from one or two.
//!
//! Owns: which sender is worth one, when each socket is looked at, and when a sender is given back
//! to the socket of all. Must not know: what packets mean, nor how a socket takes a sender
//! ([`RxSocket::bind_flow`]).
//!
//! A sender is an address and a source port, and a peer's process may send to several processes of
//! this host from one port. Then packets of others come here, which are handed over as any that go
//! astray; the sender is given back at once, and it takes ever longer until the next has a socket.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use arrayvec::ArrayVec;
use ferriband_memory::net::{RxMeta, RxSocket};
use ferriband_transport::types::Instant;

use super::alone::{Found, Look, Tell, Way};
use super::join::SharedPort;
use super::rx::{CE, Hands, Pace};
use crate::objects::catch::Catch;
use crate::wire::packets::rx::RxSide;
use crate::wire::packets::{RECEIVE_BUFFER_BYTES, Roce};
use crate::wire::to::To;

/// Senders with a socket of their own, at most: each is one more that a polling program looks at.
pub(crate) const MOST_FLOWS: usize = 2;
/// Messages of one sender that make it worth a socket; each of another counts for so many fewer.
const WORTH: u32 = 256;
const OTHERS: u32 = 3;
/// How many times as many it takes after each attempt, and after one that took what was for other
/// processes.
const AGAIN: u32 = 2;
const FOREIGN: u32 = 16;
/// The most that it takes.
const RARELY: u32 = 1 << 24;
/// A socket that was looked at so often in vain is looked at every so many rounds.
const QUIET: u32 = 1024;
const QUIET_EVERY: u32 = 16;
/// A sender that was silent for so long is given back; looked for every so many rounds.
const SILENT: Duration = Duration::from_secs(1);
const LOOK_EVERY: u32 = 4096;

/// A sender's socket.
#[derive(Debug)]
struct Flow {
    socket: Arc<RxSocket>,
    like: RxMeta,
    pace: Pace,
    way: Way,
    /// The traffic class that the last datagram had of which the kernel said it.
    tos: u8,
    /// Something came since it was last looked whether it is silent.
    active: bool,
}

impl Flow {
    fn tell(&mut self, what: Tell) {
        if let Tell::Gather(runs) = what
            && self.socket.gather(runs).is_err()
        {
            // a child that has no sockets
            self.way = Way::default();
        }
    }

    /// Before all that lies in the socket is received, runs or not.
    fn before_drain(&mut self) {
        let what = self.way.before_drain();
        self.tell(what);
    }
}

/// The senders with sockets of their own, the one at hand first, and the one that may have the
/// next.
#[derive(Debug)]
pub(in crate::wire) struct Flows {
    open: ArrayVec<Flow, MOST_FLOWS>,
    likely: Option<RxMeta>,
    seen: u32,
    worth: u32,
    looked_at: Instant,
}

impl Default for Flows {
    fn default() -> Self {
        Flows {
            open: ArrayVec::new(),
            likely: None,
            seen: 0,
            worth: WORTH,
            looked_at: Instant(0),
        }
    }
}

impl Flows {
    /// A message came to the socket of all. True if its sender is worth a socket now.
    #[inline]
    fn note(&mut self, meta: &RxMeta) -> bool {
        match &mut self.likely {
            Some(likely) if is_sender(likely, meta) => self.seen += 1,
            likely => {
                self.seen = self.seen.saturating_sub(OTHERS);
                if self.seen == 0 {
                    *likely = Some(*meta);
                }
            }
        }
        self.seen >= self.worth
    }

    fn put_off(&mut self, times: u32) {
        self.seen = 0;
        self.likely = None;
        self.worth = self.worth.saturating_mul(times).min(RARELY);
    }
}

fn is_sender(one: &RxMeta, other: &RxMeta) -> bool {
    (one.source_port, one.source) == (other.source_port, other.source)
        && (one.destination, one.ifindex) == (other.destination, other.ifindex)
}

impl RxSide {
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
    pub(in crate::wire) fn open_flow(&mut self, to: To<'_>, roce: &Roce, all: &RxSocket) {
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
        to.adapter.process.waker.signal(1);
    }

    /// Gives a sender back to the socket of all.
    #[cold]
    fn close_flow(&mut self, to: To<'_>, roce: &Roce, at: usize) {
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
        to: To<'_>,
        roce: &Roce,
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
    fn close_silent(&mut self, to: To<'_>, roce: &Roce) {
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
    pub fn drain_flows(&mut self, to: To<'_>, roce: &Roce) {
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

impl Hands {
    /// Takes what has arrived from a sender with a socket of its own. True if anything had.
    fn take_flow(
        &mut self,
        to: To<'_>,
        roce: &Roce,
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
        to: To<'_>,
        roce: &Roce,
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
    fn drain_flow(&mut self, to: To<'_>, roce: &Roce, place: (&RxSocket, &mut Pace)) {
        self.batch.by_flow = true;
        self.drain(to, roce, place);
        (self.batch.by_flow, self.batch.foreign) = (false, false);
    }
}

/// What comes to a group comes to all, and who has no address or port cannot be told from others.
fn may_have_socket(like: &RxMeta) -> bool {
    let plain = |address: std::net::IpAddr| !address.is_multicast() && !address.is_unspecified();
    plain(like.source) && plain(like.destination) && like.source_port != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    fn sender(host: u8, port: u16) -> RxMeta {
        RxMeta {
            source: IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)),
            source_port: port,
            destination: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
            ifindex: 2,
            tos: 2,
            hop_limit: 64,
            segment: 80,
        }
    }

    #[test]
    fn a_sender_is_worth_a_socket_if_most_comes_from_it() {
        let mut flows = Flows::default();
        let until = |flows: &mut Flows, mut from: Box<dyn FnMut(u32) -> RxMeta>| {
            (1..10_000).find(|&turn| flows.note(&from(turn)))
        };
        // 1 + 255 more
        let one = until(&mut flows, Box::new(|_| sender(2, 50_000)));
        assert_eq!(one, Some(WORTH + 1));
        // each attempt takes longer to come
        flows.put_off(AGAIN);
        let one = until(&mut flows, Box::new(|_| sender(2, 50_000)));
        assert_eq!(one, Some(WORTH * AGAIN + 1));
        // nine of ten are enough, and it is they who have it
        let mut flows = Flows::default();
        let most = |turn: u32| sender(if turn.is_multiple_of(10) { 3 } else { 2 }, 50_000);
        let nine = until(&mut flows, Box::new(most)).unwrap();
        assert!((WORTH..3 * WORTH).contains(&nine), "{nine}");
        assert_eq!(flows.likely.unwrap().source, sender(2, 1).source);
        // two in turns have none, nor have two ports of one host
        for pair in [[sender(2, 1), sender(3, 1)], [sender(2, 1), sender(2, 2)]] {
            let mut flows = Flows::default();
            let turns = move |turn: u32| pair[turn as usize % 2];
            assert_eq!(until(&mut flows, Box::new(turns)), None);
        }
        // and it never takes more than can be counted
        for _ in 0..20 {
            flows.put_off(FOREIGN);
        }
        assert_eq!(flows.worth, RARELY);
    }

    #[test]
    fn what_goes_to_groups_has_none() {
        assert!(may_have_socket(&sender(2, 50_000)));
        let group = RxMeta {
            destination: IpAddr::V4(Ipv4Addr::new(224, 0, 0, 9)),
            ..sender(2, 50_000)
        };
        let nobody = RxMeta {
            source: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            ..sender(2, 50_000)
        };
        for other in [group, nobody, sender(2, 0)] {
            assert!(!may_have_socket(&other));
        }
    }
}
