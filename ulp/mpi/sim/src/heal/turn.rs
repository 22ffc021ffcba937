//! A rank's turn: some of what has come, some of its program, some of what it has to send.

use super::Fault;
use super::rank::{Link, Task};
use super::wire::{Body, Completion, Outcome, SECRET, Way};
use super::world::World;
use crate::Rng;
use ferriband_heal::{AdapterNews, Datagram, Kind, Log, Ns, PeerNews, State, adapter_of};

/// How long a rank sleeps at first, and at most, while somebody may write records to it.
const NAP_NS: u64 = 50_000;
const LONGEST_NAP_NS: u64 = 1_000_000_000;

impl World {
    /// Each part is left out now and then, so that faults come between any two.
    pub fn turn(&mut self, me: usize) -> Outcome {
        if self.now < self.ranks[me].away_until {
            self.wake(me, self.now);
            return Ok(());
        }
        let (mut did, mut skipped) = (self.tend_adapters(me)?, false);
        let mut may = |rng: &mut Rng, per_mille| {
            let may = rng.chance(per_mille);
            skipped |= !may;
            may
        };
        did |= may(&mut self.rng, 800) && self.hear(me)?;
        did |= may(&mut self.rng, 800) && self.complete(me)?;
        did |= self.look(me)?;
        for peer in 0..self.ranks.len() {
            if peer == me {
                continue;
            }
            self.time(me, peer)?;
            did |= may(&mut self.rng, 900) && self.step(me, peer)?;
            did |= may(&mut self.rng, 900) && self.replay(me, peer)?;
            did |= self.push(me, peer)?;
            did |= may(&mut self.rng, 700) && self.move_on(me, peer);
            self.say(me, peer)?;
        }
        did |= self.work(me);
        did |= self.leave(me)?;
        if self.ranks[me].is_over {
            return Ok(());
        }
        for peer in (0..self.ranks.len()).filter(|peer| *peer != me) {
            self.watch(me, peer);
        }
        if did {
            self.ranks[me].nap_ns = NAP_NS;
        }
        self.rest(me, did || skipped);
        Ok(())
    }

    /// When this rank goes on.
    fn rest(&mut self, me: usize, goes_on: bool) {
        let has_records = (0..self.ranks.len()).any(|from| self.is_due(me, from));
        let rank = &self.ranks[me];
        let mut at: Option<Ns> = rank.adapters.poll_timeout();
        for (peer, link) in rank
            .links
            .iter()
            .enumerate()
            .filter(|(peer, _)| *peer != me)
        {
            debug_assert_ne!(peer, me);
            let is_there = !link.is_lost;
            let nexts = [
                link.fence,
                link.session.poll_timeout().filter(|_| is_there),
                link.probes.poll_timeout().filter(|_| is_there),
                link.reading.poll_timeout().filter(|_| is_there),
            ];
            at = nexts.into_iter().flatten().chain(at).min();
        }
        let waits = |link: &Link| link.in_hand.is_some() || !link.held.is_empty();
        // A return word, for which a message may wait, wakes nobody either.
        let has_more = |link: &Link| {
            let is_empty = link.moving.is_empty() && link.fifo.is_empty();
            let is_still = is_empty && (!rank.is_closing || link.log.bytes() == 0);
            link.session.is_up() && (!is_still || link.unanswered > 0)
        };
        let naps = rank.links.iter().any(has_more);
        let has_work = goes_on || has_records || rank.links.iter().any(waits);
        if has_work || !rank.inbox.is_empty() || !rank.completions.is_empty() {
            self.wake_soon(me);
            return;
        }
        if !self.quieten(me) || naps {
            // A record wakes nobody.
            let nap = self.ranks[me].nap_ns.max(NAP_NS);
            self.ranks[me].nap_ns = (nap * 2).min(LONGEST_NAP_NS);
            at = [at, Some(self.now.after(nap))].into_iter().flatten().min();
        }
        if let Some(at) = at {
            self.wake(me, at.max(self.now.after(1000)));
        }
    }

    /// Datagrams.
    fn hear(&mut self, me: usize) -> Outcome<bool> {
        let mut did = false;
        for _ in 0..1 + self.rng.below(4) {
            let Some(flight) = self.ranks[me].inbox.pop_front() else {
                break;
            };
            did = true;
            let count = self.ranks.len() as u32;
            let datagram =
                Datagram::parse(&flight.bytes).filter(|one| one.is_for(me as u32, count, SECRET));
            let Some(datagram) = datagram.and_then(|one| self.tampered(me, one)) else {
                continue;
            };
            let (from, now) = (datagram.from as usize, self.now);
            self.laws.contact(me, from, now);
            if self.link(me, from).reach.handle_origin(&datagram) {
                self.reached(me, from);
            }
            if datagram.kind == Kind::Probed {
                self.probed(me, from, datagram.epoch.0);
            }
            let by = self.path_of(me, from, &flight, &datagram);
            let Some(by) = by.filter(|_| datagram.kind != Kind::Probe) else {
                // The echo has answered a probe; and what comes by no path is of a port of old. A
                // sign of life it is all the same.
                let session = &mut self.link(me, from).session;
                session.handle_peer(PeerNews::Alive, now);
                continue;
            };
            let link = self.link(me, from);
            let is_both = datagram.kind == Kind::Req && link.session.state() == State::Asking;
            link.session.handle_datagram(&datagram, by, now);
            if datagram.kind == Kind::Probed {
                link.paths.answered(by, now);
            } else {
                link.paths.heard(by, now);
            }
            self.report.both += u64::from(is_both);
        }
        Ok(did)
    }

    /// A probe has come back: of an adapter, or of a path.
    fn probed(&mut self, me: usize, from: usize, counter: u32) {
        let now = self.now;
        if let Some(id) = adapter_of(counter) {
            let news = AdapterNews::Probed(counter);
            self.ranks[me].adapters.handle(id, news, now);
        } else {
            let link = self.link(me, from);
            link.probes.handle_probed(counter, &mut link.paths, now);
        }
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
            let (peer, now) = (self.queue_pairs[at].peer, self.now);
            if matches!(completion, Completion::Message(_)) {
                if self.link(me, peer).in_hand.is_some() {
                    // The one before it is not taken yet.
                    self.ranks[me].completions.push_front((at, completion));
                    break;
                }
                self.link(me, peer).session.handle_message(now);
                // What is left of the last life is judged before the first message of this one.
                while !self.is(Fault::MessageFirst) && self.step(me, peer)? {}
            }
            self.take_completion(me, at, completion)?;
        }
        Ok(did)
    }

    /// Blocks, and what waits for a receive.
    fn look(&mut self, me: usize) -> Outcome<bool> {
        let mut did = false;
        for peer in (0..self.ranks.len()).filter(|peer| *peer != me) {
            did |= self.rng.chance(600) && self.drain(me, peer)?;
            did |= self.meet_one(me, peer)?;
            did |= self.tend_lane(me, peer);
            self.recall(me, peer);
            self.give_up(me, peer)?;
        }
        Ok(did)
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
            self.judge_reports(me, peer, 0)?;
        }
        self.watch(me, peer);
        self.read_card(me, peer);
        self.look_paths(me, peer)
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
                let now = link.queue_pair;
                let old = &self.ranks[me].completions;
                self.laws.untaken(me, peer, old, now, &self.queue_pairs)?;
                self.laws
                    .word(me, peer, datagram, current, received, &self.queue_pairs)?;
            }
            self.transmit(me, peer, &sent);
        }
    }

    /// The program sends a message.
    fn write(&mut self, me: usize, to: usize) {
        let (index, faulty) = (self.link(me, to).given, self.plan.faulty);
        let letter = self.letters.add(&mut self.rng, me, to, index, faulty);
        let way = self.letters.0[letter].way;
        let link = self.link(me, to);
        link.given += 1;
        link.fifo.push_back(match way {
            Way::Eager | Way::Synchronous => Body::Data(letter),
            _ => Body::Rts(letter, way, link.own_keys),
        });
    }

    /// The program. True if it went on.
    fn work(&mut self, me: usize) -> bool {
        let next = self.ranks[me].program.front();
        if !matches!(next, None | Some(Task::Await(_))) && self.rng.chance(300) {
            return true;
        }
        let (now, is_muted) = (self.now, !self.plan.has_launcher);
        match self.ranks[me].program.front().cloned() {
            None => return false,
            Some(Task::Send(to)) => {
                if !self.link(me, to).is_lost {
                    self.write(me, to);
                    self.link(me, to).session.want(now);
                }
            }
            Some(Task::Finalize) => self.ranks[me].is_closing = true,
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
}
