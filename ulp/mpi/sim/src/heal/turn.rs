//! A rank's turn: some of what has come, some of its program, some of what it has to send.

use super::Fault;
use super::rank::Task;
use super::steps::DEPTH;
use super::wire::{Completion, Message, Outcome, SECRET};
use super::world::World;
use ferriband_heal::kept::Held;
use ferriband_heal::{Cause, Datagram, Kind, Ns, Number, State};
use std::collections::VecDeque;

/// What message `index` of one rank to another says.
fn content(from: usize, to: usize, index: u64) -> u64 {
    (index << 8 | (from as u64) << 4 | to as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl World {
    /// Each part is left out now and then, so that faults come between any two.
    pub fn turn(&mut self, me: usize) -> Outcome {
        if self.now < self.ranks[me].away_until {
            self.wake(me, self.now);
            return Ok(());
        }
        let mut did = false;
        did |= !self.rng.chance(800) || self.hear(me)?;
        did |= !self.rng.chance(800) || self.complete(me)?;
        for peer in 0..self.ranks.len() {
            if peer == me {
                continue;
            }
            self.time(me, peer)?;
            did |= !self.rng.chance(900) || self.step(me, peer)?;
            did |= !self.rng.chance(900) || self.replay(me, peer)?;
            did |= self.push(me, peer)?;
            self.say(me, peer)?;
        }
        did |= self.work(me);
        self.rest(me, did);
        Ok(())
    }

    /// When this rank goes on.
    fn rest(&mut self, me: usize, did: bool) {
        let rank = &self.ranks[me];
        let mut at: Option<Ns> = None;
        for (peer, link) in rank
            .links
            .iter()
            .enumerate()
            .filter(|(peer, _)| *peer != me)
        {
            debug_assert_ne!(peer, me);
            let nexts = [
                link.fence,
                link.session.poll_timeout().filter(|_| !link.is_lost),
            ];
            at = nexts.into_iter().flatten().chain(at).min();
            if link.unanswered > 0 && link.session.is_up() {
                at = Some(at.map_or(self.now.after(100_000), |at| {
                    at.min(self.now.after(100_000))
                }));
            }
        }
        let has_work = did || rank.links.iter().any(|link| link.in_hand.is_some());
        if has_work || !rank.inbox.is_empty() || !rank.completions.is_empty() {
            self.wake_soon(me);
        } else if let Some(at) = at {
            self.wake(me, at.max(self.now.after(1000)));
        }
    }

    /// Datagrams.
    fn hear(&mut self, me: usize) -> Outcome<bool> {
        let mut did = false;
        for _ in 0..1 + self.rng.below(4) {
            let Some((by, bytes)) = self.ranks[me].inbox.pop_front() else {
                break;
            };
            did = true;
            let count = self.ranks.len() as u32;
            let datagram =
                Datagram::parse(&bytes).filter(|one| one.is_for(me as u32, count, SECRET));
            let Some(datagram) = datagram.and_then(|one| self.tampered(me, one)) else {
                continue;
            };
            let (from, now) = (datagram.from as usize, self.now);
            self.laws.contact(me, from, now);
            let link = self.link(me, from);
            let is_both = datagram.kind == Kind::Req && link.session.state() == State::Asking;
            link.session.handle_datagram(&datagram, by, now);
            link.paths.heard(by, now);
            self.report.both += u64::from(is_both);
        }
        Ok(did)
    }

    /// Completions.
    fn complete(&mut self, me: usize) -> Outcome<bool> {
        let mut did = false;
        for peer in 0..self.ranks.len() {
            did |= self.link(me, peer).in_hand.is_some() && self.take_in_hand(me, peer, false)?;
        }
        for _ in 0..1 + self.rng.below(4) {
            let Some((at, completion)) = self.ranks[me].completions.pop_front() else {
                break;
            };
            did = true;
            let (peer, life, now) = (
                self.queue_pairs[at].peer,
                self.queue_pairs[at].life,
                self.now,
            );
            match completion {
                Completion::Error => {
                    self.link(me, peer)
                        .session
                        .handle_failure(life, Cause::QpError, now);
                }
                Completion::Message(message) => {
                    if self.link(me, peer).in_hand.is_some() {
                        // The one before it is not taken yet.
                        self.ranks[me]
                            .completions
                            .push_front((at, Completion::Message(message)));
                        break;
                    }
                    let link = self.link(me, peer);
                    link.session.handle_message(now);
                    link.acknowledge(Number(message.ack));
                    link.in_hand = Some(message);
                    self.take_in_hand(me, peer, false)?;
                }
            }
        }
        Ok(did)
    }

    /// Takes what is in hand. False if there was no memory, or no time, for all of it.
    pub fn take_in_hand(&mut self, me: usize, from: usize, is_fence: bool) -> Outcome<bool> {
        let Some(mut message) = self.link(me, from).in_hand.take() else {
            return Ok(true);
        };
        if is_fence {
            self.link(me, from).acknowledge(Number(message.ack));
        }
        let last = message
            .first
            .wrapping_add(message.items.len() as u32)
            .wrapping_sub(1);
        let expected = self.link(me, from).received.next();
        let is_whole = self.is(Fault::BundleWhole) && !Number(last).is_before(expected);
        while let Some(item) = message.items.pop_front() {
            let number = Number(message.first);
            let expected = self.link(me, from).received.next();
            if number.is_before(expected) && !is_whole {
                self.report.doubles += 1;
            } else if number == expected || is_whole {
                let no_memory = if self.is_quiet() {
                    0
                } else {
                    self.plan.no_memory
                };
                if self.rng.chance(no_memory) {
                    message.items.push_front(item);
                    self.link(me, from).in_hand = Some(message);
                    return Ok(false);
                }
                let link = self.link(me, from);
                if item != content(from, me, link.delivered) {
                    let delivered = link.delivered;
                    return Err(format!(
                        "H2: {number:?} is not message {delivered} of {from} to {me}"
                    ));
                }
                link.delivered += 1;
                link.received = number;
                link.unanswered += 1;
                link.begun.clear();
                self.link(from, me).begun.clear();
                self.report.messages += 1;
                self.report.wraps += u64::from(number.0 == 0);
            } else {
                return Err(format!(
                    "H2: {number:?} of {from} to {me} comes, not {expected:?}"
                ));
            }
            message.first = message.first.wrapping_add(1);
            if !is_fence && !message.items.is_empty() && self.rng.chance(200) {
                self.link(me, from).in_hand = Some(message);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What the time brings.
    fn time(&mut self, me: usize, peer: usize) -> Outcome {
        let now = self.now;
        let link = self.link(me, peer);
        if link.fence.is_some_and(|at| now >= at) {
            self.end_fence(me, peer)?;
        }
        let session = &mut self.link(me, peer).session;
        if session.poll_timeout().is_some_and(|at| now >= at) {
            session.handle_timeout(now);
        }
        Ok(())
    }

    /// Datagrams that go.
    fn say(&mut self, me: usize, peer: usize) -> Outcome {
        let now = self.now;
        loop {
            let link = &mut self.ranks[me].links[peer];
            let Some(sent) = link.session.poll_transmit(&mut link.paths, now) else {
                return Ok(());
            };
            if self.rng.chance(20) {
                // There is no room in the queue.
                self.wake_soon(me);
                return Ok(());
            }
            link.session.transmitted();
            let datagram = &sent.datagram;
            if datagram.kind == Kind::Req {
                link.asked = datagram.epoch;
            }
            if datagram.kind.has_word() {
                let current = link
                    .queue_pair
                    .filter(|at| *at as u32 + 1 == datagram.end.qpn);
                let received = link.received;
                self.laws
                    .word(me, peer, datagram, current, received, &self.queue_pairs)?;
            }
            self.transmit(me, peer, &sent);
        }
    }

    /// The program. True if it went on.
    fn work(&mut self, me: usize) -> bool {
        if self.rng.chance(300) {
            return !self.ranks[me].program.is_empty();
        }
        let (now, is_muted) = (self.now, !self.plan.has_launcher);
        match self.ranks[me].program.front().cloned() {
            None => return false,
            Some(Task::Send(to)) => {
                let link = self.link(me, to);
                if !link.is_lost {
                    link.queued.push_back(content(me, to, link.given));
                    link.given += 1;
                    link.session.want(now);
                }
            }
            Some(Task::Compute(for_ns)) => {
                self.ranks[me].away_until = now.after(for_ns);
            }
            Some(Task::Await(due)) => {
                let has_all = (0..due.len()).all(|from| {
                    let link = &self.ranks[me].links[from];
                    let is_gone = link.is_lost || is_muted && self.ranks[from].is_dead;
                    from == me || is_gone || link.delivered >= due[from]
                });
                if !has_all {
                    return false;
                }
            }
        }
        self.ranks[me].program.pop_front();
        true
    }

    /// Messages that wait, and acknowledgements. True if something went.
    fn push(&mut self, me: usize, peer: usize) -> Outcome<bool> {
        let window = self.plan.window;
        let (is_bundle, wish) = (self.rng.chance(400), 2 + self.rng.below(4) as usize);
        let is_patient = self.rng.chance(700);
        let link = &mut self.ranks[me].links[peer];
        let Some(at) = link.queue_pair.filter(|_| link.session.is_up()) else {
            return Ok(false);
        };
        if self.queue_pairs[at].sends.len() >= DEPTH {
            return Ok(false);
        }
        let under_way = link.sent.since(Number(link.log.acknowledged()));
        let room = window.saturating_sub(under_way) as usize;
        let count = room
            .min(link.queued.len())
            .min(if is_bundle { wish } else { 1 });
        let ack = link.received.0;
        if count == 0 {
            let is_due = link.unanswered > 0 && (!is_patient || link.unanswered >= window / 2);
            if !is_due {
                return Ok(false);
            }
            link.unanswered = 0;
            self.post(
                at,
                Message {
                    first: 0,
                    items: VecDeque::new(),
                    ack,
                },
            );
            return Ok(true);
        }
        let items: VecDeque<u64> = link.queued.drain(..count).collect();
        let message = Message {
            first: link.sent.next().0,
            items,
            ack,
        };
        link.sent = Number(link.sent.0.wrapping_add(count as u32));
        link.unanswered = 0;
        if let (1, Some(item)) = (count, message.items.front()) {
            link.log
                .keep(link.sent.0, [&item.to_le_bytes(), &[]], 0, |_| ());
        } else {
            let buffer = link.next_buffer;
            link.next_buffer += 1;
            link.staged.insert(buffer, message.clone());
            let length = 8 * count as u32;
            link.log.hold(Held {
                seq: link.sent.0,
                buffer,
                at: 0,
                length,
            });
        }
        self.post(at, message);
        Ok(true)
    }
}
