//! What a rank does when a session says so: fences, queue pairs, replays.

use super::Fault;
use super::block::alone;
use super::device::Spot;
use super::long::is_fin;
use super::wire::{Body, Completion, Message, Op, Outcome, QueuePair, QueuePairState};
use super::world::World;
use ferriband_heal::kept::Unit;
use ferriband_heal::{Cause, Endpoint, Epoch, Log, Number, PathId, Step, Taken, Word};
use ferriband_mpi_proto::resume::{Act, Moving, Resume};
use std::collections::VecDeque;

const ENOMEM: u32 = 12;
const EINVAL: u32 = 22;
/// A queue pair that could not be destroyed is tried again after so long.
const BUSY_NS: u64 = 1_000_000;

impl World {
    /// Takes one step. True if there was one.
    pub fn step(&mut self, me: usize, peer: usize) -> Outcome<bool> {
        let Some(step) = self.link(me, peer).session.poll_step() else {
            return Ok(false);
        };
        match step {
            Step::Fence { of, cause } => {
                self.notices(peer);
                self.begin_fence(me, peer, of, cause)?;
            }
            Step::Make { adapter, port } => self.make(me, peer, adapter.0.into(), port),
            Step::Connect { epoch, end, by } => self.connect(me, peer, epoch, end, by)?,
            Step::Replay { own, peer: told } => self.begin_replay(me, peer, own, told)?,
            Step::Up => self.report.heals += u64::from(self.laws.is_heal(me, peer)),
            Step::Lost(reason) => {
                let (is_dead, is_over) = (self.ranks[peer].is_dead, self.ranks[peer].is_over);
                self.laws
                    .lost(me, peer, reason, (is_dead, is_over), self.now)?;
                self.link(me, peer).forget();
                self.report.lost += u64::from(is_dead);
            }
        }
        Ok(true)
    }

    fn begin_fence(&mut self, me: usize, peer: usize, of: Epoch, cause: Cause) -> Outcome {
        self.laws.fenced(me, peer, of, cause)?;
        // Until LAST_WQE has come, or 10 ms have passed.
        let pause = [200, 20_000, 10_000_000][self.rng.below(3) as usize];
        let at = self.now.after(self.rng.below(pause));
        let link = self.link(me, peer);
        link.fence = Some(at);
        link.resume = None;
        link.early = link.received;
        if !self.is(Fault::NoFence) {
            let link = &self.ranks[me].links[peer];
            for one in [link.queue_pair, link.lane.queue_pair]
                .into_iter()
                .flatten()
            {
                self.stop(one)?;
            }
        }
        self.wake(me, at);
        Ok(())
    }

    /// The time of a fence has come: what was delivered is taken or thrown away, and the queue
    /// pairs are destroyed.
    pub fn end_fence(&mut self, me: usize, peer: usize) -> Outcome {
        self.take_old(me, peer)?;
        let link = &self.ranks[me].links[peer];
        let old = [link.queue_pair, link.lane.queue_pair];
        if old[0].is_some() && !self.is_quiet() && self.rng.chance(self.plan.busy) {
            // It cannot be destroyed now.
            if !self.is(Fault::BusyBelieved) {
                let at = self.now.after(BUSY_NS);
                self.link(me, peer).fence = Some(at);
                self.wake(me, at);
                return Ok(());
            }
        } else if !self.is(Fault::NoFence) {
            for one in old.into_iter().flatten() {
                self.destroy(one);
            }
        }
        self.throw_away(me, peer)?;
        self.end_given_up(me, peer)?;
        let (fault, now) = (self.fault, self.now);
        let link = self.link(me, peer);
        (link.queue_pair, link.lane.queue_pair, link.fence) = (None, None, None);
        link.lane.close();
        if fault == Some(Fault::LandingsFromZero) {
            link.lane.landed = 0;
        }
        link.unanswered = 0;
        let is_early = fault == Some(Fault::WordBeforeDrain);
        let is_new = fault == Some(Fault::SentAnew);
        let taken = Taken {
            received: if is_early { link.early } else { link.received },
            sent: if is_new { link.sent } else { link.keyed },
            acknowledged: Number(link.log.acknowledged()),
            landed: link.lane.landed,
            keys: link.own_keys,
        };
        link.session.fenced(taken, now);
        Ok(())
    }

    /// Takes what the queue pairs of the last life have delivered, as long as there is memory.
    fn take_old(&mut self, me: usize, peer: usize) -> Outcome {
        let mut has_memory = self.take_in_hand(me, peer, true)?;
        let link = &self.ranks[me].links[peer];
        let old = [link.queue_pair, link.lane.queue_pair];
        let mine = |one: &(usize, Completion)| old.contains(&Some(one.0));
        let (of_it, rest): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.ranks[me].completions)
                .into_iter()
                .partition(mine);
        self.ranks[me].completions = rest;
        let mut left = Vec::new();
        for (at, completion) in of_it {
            let is_message = matches!(completion, Completion::Message(_));
            let is_part = matches!(completion, Completion::Done(_));
            match completion {
                Completion::Error => (),
                one if is_message && self.is(Fault::NumberReused) => {
                    self.link(me, peer).stale.push(one);
                }
                one if is_part && self.is(Fault::OldCompletion) => {
                    self.link(me, peer).stale.push(one);
                }
                Completion::Message(message) if has_memory => {
                    self.arrived(me, peer, message)?;
                    has_memory = self.take_in_hand(me, peer, true)?;
                }
                Completion::Message(_) => left.push((at, completion)),
                one => self.take_completion(me, at, one)?,
            }
        }
        // It stays in its turn: a queue pair that cannot be destroyed now may deliver more.
        for one in left.into_iter().rev() {
            self.ranks[me].completions.push_front(one);
        }
        Ok(())
    }

    /// What of a life means nothing beyond it, and the messages for which there was no memory.
    fn throw_away(&mut self, me: usize, peer: usize) -> Outcome {
        let old = self.ranks[me].links[peer].queue_pair;
        let all = std::mem::take(&mut self.ranks[me].completions);
        let (left, rest): (VecDeque<_>, _) = all.into_iter().partition(|one| Some(one.0) == old);
        self.ranks[me].completions = rest;
        for (at, _) in left {
            if !self.is(Fault::ReceivesForgotten) {
                self.give_receive(me, at);
            }
        }
        if let Some(half) = self.link(me, peer).in_hand.take() {
            self.report.halves += u64::from(half.is_begun);
            if let Some(at) = self.ranks[me].links[peer].queue_pair {
                self.give_receive(me, at);
            }
        }
        self.close_channels(me, peer)?;
        let keeps = self.is(Fault::PatternKept);
        let link = self.link(me, peer);
        link.fifo.retain(|body| body.outlives());
        link.pattern = None;
        if !keeps {
            link.head = None;
        }
        link.moving.clear();
        Ok(())
    }

    /// A queue pair in INIT.
    pub fn new_queue_pair(&mut self, me: usize, peer: usize, from: Spot) -> usize {
        let tries_ns = 1 + self.rng.below(self.plan.tries_ns);
        let opening = self.device(me, from.adapter).opening;
        self.queue_pairs.push(QueuePair {
            owner: me,
            peer,
            state: QueuePairState::Init,
            life: Epoch::NONE,
            remote: None,
            path: PathId(0),
            from,
            opening,
            to: Spot::default(),
            route: 0,
            oldest: None,
            sends: VecDeque::new(),
            limbo: VecDeque::new(),
            moves: false,
            places: false,
            stuck: None,
            tries_ns,
            landings: VecDeque::new(),
            is_lane: false,
        });
        self.queue_pairs.len() - 1
    }

    /// The receive that a message came by is posted again.
    pub fn give_receive(&mut self, me: usize, at: usize) {
        let one = &self.queue_pairs[at];
        let (adapter, opening) = (one.from.adapter, one.opening);
        let device = self.device_mut(me, adapter);
        if device.opening == opening {
            device.receives += 1;
        }
    }

    fn make(&mut self, me: usize, peer: usize, adapter: usize, port: u8) {
        let now = self.now;
        let is_refused = !self.is_quiet() && self.rng.chance(self.plan.refusals);
        if !self.is_working(me, adapter) || is_refused {
            self.link(me, peer).session.made(Err(ENOMEM), now);
            return;
        }
        let on = Some((adapter, self.device(me, adapter).opening));
        let before = self.ranks[me].links[peer].keyed_on;
        if before != on && !(self.is(Fault::KeysStay) && before.is_some()) {
            // No key of before is one by this adapter.
            self.link(me, peer).keyed_on = on;
            if before.is_some() {
                self.report.moves += 1;
                self.rekey(me, peer);
            }
        } else if self.ranks[me].links[peer].voids_keys {
            self.rekey(me, peer);
        }
        let from = self.spot(me, adapter, port.max(1));
        let at = self.new_queue_pair(me, peer, from);
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
        if self.is(Fault::NumberReused) {
            self.find_stale(me, peer);
        }
    }

    /// What a planted fault has kept of the last life comes by the queue pair of this one.
    fn find_stale(&mut self, me: usize, peer: usize) {
        let link = self.link(me, peer);
        let stale = std::mem::take(&mut link.stale);
        let at = link.queue_pair;
        let stale = stale.into_iter().filter_map(|one| Some((at?, one)));
        self.ranks[me].completions.extend(stale);
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
        let is_refused = !self.is_quiet() && self.rng.chance(self.plan.refusals);
        // The peer was told keys that are void since.
        let is_stale = self.ranks[me].links[peer].voids_keys && !self.is(Fault::ConnectsStale);
        let is_refused = is_refused || is_stale;
        let path = self.ranks[me].links[peer].paths.get(by).copied();
        let from = self.queue_pairs[at].from;
        let is_of = |path: &ferriband_heal::Path| {
            (usize::from(path.adapter.0), path.port) == (from.adapter, from.port)
        };
        // The table was read anew, and the path is no more, or another one has its number; or it
        // leads to another port than the queue pair's there.
        let path = path.filter(|path| is_of(path) && path.dgid == end.gid);
        let is_good = self.is_working(me, from.adapter) && !is_refused && path.is_some();
        self.laws
            .begins(self.ranks[me].links[peer].begun.make_contiguous(), now)?;
        self.laws
            .connects(&self.queue_pairs[at], epoch, [at, remote])?;
        let one = &mut self.queue_pairs[at];
        (one.life, one.remote, one.path) = (epoch, Some(remote), by);
        if let Some(path) = path {
            one.to = Spot::of(&path.dgid);
            one.route = path.dlid.wrapping_sub(one.to.lid());
        }
        if is_good {
            one.state = QueuePairState::Connected;
            if !self.reaches(at) {
                // What has failed since the question went ends the life.
                self.laws.spoil(&self.queue_pairs[at]);
            }
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

    /// Both have told: what is over, and from where all else goes on.
    fn begin_replay(&mut self, me: usize, peer: usize, own: Word, told: Word) -> Outcome {
        let epoch = self.link(me, peer).session.epoch();
        self.laws.open(me, peer, epoch);
        let link = self.link(me, peer);
        let under = link.under();
        (link.wanted, link.again) = (told.expected(), told.expected());
        link.replayed = 0;
        let is_old = Number(link.log.acknowledged()).next();
        if self.is(Fault::FromLastAck) && is_old.is_before(told.expected()) {
            let link = &self.ranks[me].links[peer];
            let at = link.queue_pair.expect("it is connected");
            let last = link.log.unit(is_old).map_or(is_old, |(last, _)| last);
            self.replay_message(me, peer, at, last)?;
        }
        let link = self.link(me, peer);
        let (keys, log, sent) = (&mut link.keys, &mut link.log, link.sent);
        let before = *keys;
        let resume = Resume::new(own, told, keys, log, sent, &under);
        if link.keys != before {
            link.renewed.clear();
        }
        let Some(resume) = resume else {
            let wanted = link.wanted;
            return Err(format!(
                "H2: the peer wants {wanted:?} of {is_old:?} to {sent:?}"
            ));
        };
        link.resume = Some(resume);
        self.judge_acknowledged(me, peer)?;
        while self.replay_first(me, peer)? {}
        self.find_stale(me, peer);
        Ok(())
    }

    /// Carries out an act that needs no queue. False if there is none.
    fn replay_first(&mut self, me: usize, peer: usize) -> Outcome<bool> {
        let fault = self.fault;
        let link = self.link(me, peer);
        let Some(act) = link.resume.as_mut().and_then(|one| one.next(&link.log)) else {
            return Ok(false);
        };
        match act {
            Act::Over(id) => self.transfer_over(me, peer, id)?,
            Act::Rewind { transfer, to } => {
                let Some(one) = link.transfers.get_mut(&transfer) else {
                    return Err(format!("M1: transfer {transfer} is gone"));
                };
                let is_asked = fault == Some(Fault::ReadAsked) && one.kind == Moving::Read;
                let to = if is_asked { one.next } else { to as u32 };
                (one.next, one.done) = (to, to);
                let has_all = is_asked && to == one.length;
                let (letter, fin) = (one.letter, one.fin);
                link.moving.retain(|moving| *moving != transfer);
                if fin.is_none() {
                    // It is written again, and that it is so is said again.
                    link.fifo.retain(|body| !is_fin(body, letter));
                    link.moving.push_back(transfer);
                }
                if has_all {
                    let letter = self.link(me, peer).transfers[&transfer].letter;
                    self.letters.received(letter, false, "M1")?;
                }
            }
            Act::Register(transfer) => {
                if let Some(one) = link.transfers.get_mut(&transfer) {
                    one.keys = link.own_keys;
                }
            }
            Act::AwaitKey(id) if fault != Some(Fault::OldKey) => {
                if let Some(one) = link.transfers.get_mut(&id) {
                    one.key = None;
                } else if let Some(one) = link.held.iter_mut().find(|one| one.letter as u32 == id) {
                    one.key = None;
                }
            }
            Act::AwaitKey(_) => (),
            Act::Renew { .. } | Act::Whole { .. } | Act::Message(_) | Act::Up => return Ok(false),
        }
        if let Some(resume) = &mut self.link(me, peer).resume {
            resume.done();
        }
        Ok(true)
    }

    /// Sends the next of what the peer has not taken. True if something went.
    pub fn replay(&mut self, me: usize, peer: usize) -> Outcome<bool> {
        let now = self.now;
        let link = &mut self.ranks[me].links[peer];
        let (Some(resume), Some(at)) = (link.resume.as_mut(), link.queue_pair) else {
            return Ok(false);
        };
        let Some(act) = resume.next(&link.log) else {
            return Ok(false);
        };
        if self.queue_pairs[at].sends.len() >= super::wire::DEPTH {
            return Ok(false);
        }
        match act {
            Act::Renew { request } => {
                let offer = link.offers.get(&(request as usize));
                let is_over = offer.is_some_and(|one| one.is_over);
                let key = Some(link.own_keys).filter(|_| !is_over);
                let body = Body::Renew(request as usize, key);
                if self.fault != Some(Fault::RenewForgotten) {
                    self.post_word(me, peer, at, body)?;
                }
            }
            Act::Whole { transfer } => {
                let is_left = link.transfers.get(&transfer);
                let is_left = is_left.is_some_and(|one| one.next < one.length);
                if is_left && self.fault != Some(Fault::FinFirst) {
                    return Ok(self.post_part(me, peer, transfer));
                }
            }
            Act::Message(last) => self.replay_message(me, peer, at, last)?,
            _ => {
                if link.again != link.sent.next() {
                    let (again, sent) = (link.again, link.sent);
                    return Err(format!("M6: the log has nothing of {again:?} to {sent:?}"));
                }
                let bytes = link.replayed;
                link.resume = None;
                let is_told = self.fault != Some(Fault::BytesUntold);
                link.session.replayed(if is_told { bytes } else { 0 }, now);
                self.judge_reports(me, peer, bytes)?;
                return Ok(true);
            }
        }
        if let Some(resume) = &mut self.link(me, peer).resume {
            resume.done();
        }
        Ok(true)
    }

    /// Sends what the log has with this last number, by an envelope of its own.
    fn replay_message(&mut self, me: usize, peer: usize, at: usize, last: Number) -> Outcome {
        let link = &self.ranks[me].links[peer];
        if last.is_before(link.wanted) {
            let wanted = link.wanted;
            return Err(format!(
                "H4: {last:?} is sent again, and the peer wants {wanted:?}"
            ));
        }
        let Some((number, unit)) = link.log.unit(last) else {
            return Err(format!("H3: the log has no {last:?}"));
        };
        debug_assert_eq!(number, last);
        let (mut message, old) = match unit {
            Unit::Copy(_) => {
                let copy = link.copies.iter().find(|(seq, ..)| *seq == last.0);
                let Some((first, body, credit)) = copy.copied() else {
                    return Err(format!("H3: the log has no copy of {last:?}"));
                };
                let message = alone(body, 0, 0);
                (Message { first, ..message }, credit)
            }
            Unit::Held(held) => (link.staged[&held.buffer].clone(), 0),
        };
        message.brief = None;
        message.ack = link.received.0;
        message.credit = match self.fault {
            Some(Fault::OldCredit) => old,
            _ => self.report_credit(me, peer),
        };
        let count = message.items.len() as u64;
        let link = self.link(me, peer);
        if link.again.is_before(Number(message.first)) {
            let again = link.again;
            return Err(format!("M6: the log has no {again:?}"));
        }
        link.again = last.next();
        link.replayed += 8 * count;
        self.report.replayed += count;
        self.post_message(me, peer, at, message, false)
    }

    /// Posts a request. A queue pair in error takes it, and loses it.
    pub fn post(&mut self, at: usize, op: Op) {
        if self.queue_pairs[at].state == QueuePairState::Connected {
            let now = self.now;
            self.queue_pairs[at].sends.push_back(op);
            self.queue_pairs[at].oldest.get_or_insert(now);
            self.moves(at);
        }
    }
}
