//! What a rank does when a session says so: fences, queue pairs, replays.

use super::Fault;
use super::wire::{Completion, Message, Outcome, QueuePair, QueuePairState};
use super::world::World;
use ferriband_heal::kept::Unit;
use ferriband_heal::{Endpoint, Epoch, Log, Number, PathId, Step, Taken};
use std::collections::VecDeque;

/// Requests that a queue pair holds.
pub const DEPTH: usize = 8;
const ENOMEM: u32 = 12;
const EINVAL: u32 = 22;

impl World {
    /// Takes one step. True if there was one.
    pub fn step(&mut self, me: usize, peer: usize) -> Outcome<bool> {
        let Some(step) = self.link(me, peer).session.poll_step() else {
            return Ok(false);
        };
        match step {
            Step::Fence { of, .. } => self.begin_fence(me, peer, of)?,
            Step::Make { .. } => self.make(me, peer),
            Step::Connect { epoch, end, by } => self.connect(me, peer, epoch, end, by)?,
            Step::Replay { peer: told, .. } => {
                let epoch = self.link(me, peer).session.epoch();
                self.laws.open(me, peer, epoch);
                let (fault, link) = (self.fault, self.link(me, peer));
                let wanted = told.expected();
                let is_told = link.log.acknowledged();
                if wanted.since(Number(is_told).next()) > link.sent.since(Number(is_told)) {
                    return Err(format!(
                        "H2: the peer wants {wanted:?} of {is_told} to {:?}",
                        link.sent
                    ));
                }
                link.wanted = wanted;
                if fault == Some(Fault::FromLastAck) {
                    link.replay = Some(Number(is_told).next());
                } else {
                    link.acknowledge(wanted.previous());
                    link.replay = Some(wanted);
                }
                link.replayed = 0;
            }
            Step::Up => self.report.heals += u64::from(self.laws.is_heal(me, peer)),
            Step::Lost(reason) => {
                let is_dead = self.ranks[peer].is_dead;
                self.laws.lost(me, peer, reason, is_dead, self.now)?;
                let link = self.link(me, peer);
                link.is_lost = true;
                link.queued.clear();
                self.report.lost += 1;
            }
        }
        Ok(true)
    }

    fn begin_fence(&mut self, me: usize, peer: usize, of: Epoch) -> Outcome {
        self.laws.fenced(me, peer, of)?;
        let pause = [200, 20_000, 10_000_000][self.rng.below(3) as usize];
        let at = self.now.after(self.rng.below(pause));
        let link = self.link(me, peer);
        link.fence = Some(at);
        link.replay = None;
        link.early = link.received;
        if let Some(one) = link.queue_pair
            && !self.is(Fault::NoFence)
        {
            let one = &mut self.queue_pairs[one];
            one.state = QueuePairState::Error;
            one.sends.clear();
        }
        self.wake(me, at);
        Ok(())
    }

    /// The time of a fence has come: what was delivered is taken or thrown away, and the queue pair
    /// is destroyed.
    pub fn end_fence(&mut self, me: usize, peer: usize) -> Outcome {
        let old = self.link(me, peer).queue_pair.take();
        let mut has_memory = self.take_in_hand(me, peer, true)?;
        let mine = |one: &(usize, Completion)| Some(one.0) == old;
        let (mut of_it, rest): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.ranks[me].completions)
                .into_iter()
                .partition(mine);
        self.ranks[me].completions = rest;
        while let (true, Some((_, completion))) = (has_memory, of_it.pop_front()) {
            if let Completion::Message(message) = completion {
                self.link(me, peer).in_hand = Some(message);
                has_memory = self.take_in_hand(me, peer, true)?;
            }
        }
        let is_half = self.link(me, peer).in_hand.take().is_some();
        self.report.halves += u64::from(is_half);
        if let Some(old) = old
            && !self.is(Fault::NoFence)
        {
            self.queue_pairs[old].state = QueuePairState::Destroyed;
        }
        let (fault, now) = (self.fault, self.now);
        let link = self.link(me, peer);
        link.fence = None;
        link.unanswered = 0;
        let is_early = fault == Some(Fault::WordBeforeDrain);
        let taken = Taken {
            received: if is_early { link.early } else { link.received },
            sent: link.sent,
            acknowledged: Number(link.log.acknowledged()),
            ..Taken::default()
        };
        link.session.fenced(taken, now);
        Ok(())
    }

    fn make(&mut self, me: usize, peer: usize) {
        let now = self.now;
        if !self.has_adapter(me) || !self.is_quiet() && self.rng.chance(self.plan.refusals) {
            self.link(me, peer).session.made(Err(ENOMEM), now);
            return;
        }
        let tries_ns = 1 + self.rng.below(self.plan.tries_ns);
        let at = self.queue_pairs.len();
        self.queue_pairs.push(QueuePair {
            owner: me,
            peer,
            state: QueuePairState::Init,
            life: Epoch::NONE,
            remote: None,
            path: PathId(0),
            sends: VecDeque::new(),
            moves: false,
            stuck: None,
            tries_ns,
        });
        let psn = self.rng.below(1 << 24) as u32;
        let end = Endpoint {
            qpn: at as u32 + 1,
            psn,
            mtu: 5,
            ..Endpoint::default()
        };
        let link = self.link(me, peer);
        link.queue_pair = Some(at);
        link.session.made(Ok(end), now);
    }

    fn connect(
        &mut self,
        me: usize,
        peer: usize,
        epoch: Epoch,
        end: Endpoint,
        by: PathId,
    ) -> Outcome {
        let now = self.now;
        let at = self.link(me, peer).queue_pair.expect("one was made");
        let remote = end.qpn as usize - 1;
        let is_good =
            self.has_adapter(me) && (self.is_quiet() || !self.rng.chance(self.plan.refusals));
        self.laws
            .begins(self.ranks[me].links[peer].begun.make_contiguous(), now)?;
        self.laws
            .connects(&self.queue_pairs[at], epoch, [at, remote])?;
        let one = &mut self.queue_pairs[at];
        (one.life, one.remote, one.path) = (epoch, Some(remote), by);
        if is_good {
            one.state = QueuePairState::Connected;
            self.was_connected(at);
        } else {
            one.state = QueuePairState::Error;
            self.laws.spoil(&self.queue_pairs[at]);
        }
        let link = self.link(me, peer);
        link.begun.push_back(now);
        link.session
            .connected(if is_good { Ok(()) } else { Err(EINVAL) }, now);
        Ok(())
    }

    /// Sends the next of what the peer has not taken. True if something went.
    pub fn replay(&mut self, me: usize, peer: usize) -> Outcome<bool> {
        let now = self.now;
        let link = &mut self.ranks[me].links[peer];
        let (Some(from), Some(at)) = (link.replay, link.queue_pair) else {
            return Ok(false);
        };
        let ack = link.received.0;
        let Some((last, unit)) = link.log.unit(from) else {
            link.replay = None;
            let bytes = link.replayed;
            link.session.replayed(bytes, now);
            return Ok(true);
        };
        if last.is_before(link.wanted) {
            let wanted = link.wanted;
            return Err(format!(
                "H4: {last:?} is sent again, and the peer wants {wanted:?}"
            ));
        }
        if self.queue_pairs[at].sends.len() >= DEPTH {
            return Ok(false);
        }
        let message = match unit {
            Unit::Copy(bytes) => {
                let item = bytes.try_into().map_or(0, u64::from_le_bytes);
                Message {
                    first: last.0,
                    items: VecDeque::from([item]),
                    ack,
                }
            }
            Unit::Held(held) => Message {
                ack,
                ..link.staged[&held.buffer].clone()
            },
        };
        link.replayed += 8 * message.items.len() as u64;
        self.report.replayed += message.items.len() as u64;
        link.replay = Some(last.next());
        self.post(at, message);
        Ok(true)
    }

    /// Posts a SEND. A queue pair in error takes it, and loses it.
    pub fn post(&mut self, at: usize, message: Message) {
        if self.queue_pairs[at].state == QueuePairState::Connected {
            self.queue_pairs[at].sends.push_back(message);
            self.moves(at);
        }
    }
}
