//! What the adapters do: requests arrive in order, are acknowledged, and are placed; or the queue
//! pair fails, and what was under way is lost, half placed, or acknowledged and not placed.

use super::wire::{Completion, How, Landing, Op, Outcome, Part, QueuePairState};
use super::world::{Event, World};
use ferriband_heal::Ns;

const MICROSECOND: u64 = 1000;
/// A send to a rank without receives is tried again after so long at most.
const LONGEST_NS: u64 = 200_000 * MICROSECOND;

impl World {
    /// A queue pair goes to error by itself: that is a cause for a heal.
    pub fn fail(&mut self, at: usize) -> Outcome {
        if self.queue_pairs[at].state != QueuePairState::Connected {
            return Ok(());
        }
        self.laws.spoil(&self.queue_pairs[at]);
        self.stop(at)?;
        let owner = self.queue_pairs[at].owner;
        self.ranks[owner]
            .completions
            .push_back((at, Completion::Error));
        self.wake_soon(owner);
        Ok(())
    }

    /// A queue pair goes to error. What it had to send is lost, perhaps in the middle of a record;
    /// what it has acknowledged is placed, unless the adapter dies with it.
    pub fn stop(&mut self, at: usize) -> Outcome {
        let one = &mut self.queue_pairs[at];
        if one.state == QueuePairState::Init {
            one.state = QueuePairState::Error;
        }
        if one.state != QueuePairState::Connected {
            return Ok(());
        }
        let (owner, peer) = (one.owner, one.peer);
        let first = one.sends.front().cloned();
        one.sends.clear();
        if let Some(Op::Record { bytes, .. }) = &first
            && self.takes_from(at)
            && self.rng.chance(500)
        {
            let count = self.rng.below(bytes.len() as u64) as usize;
            let half = first.clone();
            if let Some(half) = half {
                self.place_record(owner, peer, &half, count)?;
            }
        }
        let is_hard = !self.is_quiet() && self.rng.chance(200);
        let is_late = !is_hard && !self.is_quiet() && self.rng.chance(150);
        if is_late {
            // LAST_WQE comes late: behind the fence it does not come at all.
            self.queue_pairs[at].state = QueuePairState::Error;
            let when = self.now.after(1 + self.rng.below(15_000 * MICROSECOND));
            self.at(when, Event::Flush(at));
            return Ok(());
        }
        while !is_hard && !self.queue_pairs[at].limbo.is_empty() {
            self.place(at)?;
        }
        let one = &mut self.queue_pairs[at];
        let lost = one.limbo.drain(..);
        let receives = lost.filter(|op| matches!(op, Op::Send(_))).count() as u32;
        one.state = QueuePairState::Error;
        if !self.is(super::Fault::ReceivesForgotten) {
            let adapter = self.queue_pairs[at].from.adapter;
            self.device_mut(owner, adapter).receives += receives;
        }
        Ok(())
    }

    /// LAST_WQE comes: what was acknowledged is placed, if the queue pair is not destroyed yet.
    pub fn flush(&mut self, at: usize) -> Outcome {
        while self.queue_pairs[at].state == QueuePairState::Error
            && !self.queue_pairs[at].limbo.is_empty()
        {
            self.place(at)?;
        }
        Ok(())
    }

    /// A queue pair is destroyed. Receives that it had taken and not filled come back.
    pub fn destroy(&mut self, at: usize) {
        let one = &mut self.queue_pairs[at];
        one.state = QueuePairState::Destroyed;
        let (owner, adapter, opening) = (one.owner, one.from.adapter, one.opening);
        let lost = one.limbo.drain(..).filter(|op| matches!(op, Op::Send(_)));
        let receives = lost.count() as u32;
        let device = self.device_mut(owner, adapter);
        if device.opening == opening {
            device.receives += receives;
        }
    }

    /// Something was posted.
    pub fn moves(&mut self, at: usize) {
        if !self.queue_pairs[at].moves && !self.queue_pairs[at].sends.is_empty() {
            self.queue_pairs[at].moves = true;
            let pause = 1 + self.rng.below(8 * MICROSECOND);
            self.at(self.now.after(pause), Event::Move(at));
        }
    }

    /// Whether the other end of a queue pair takes what it sends.
    fn takes_from(&self, at: usize) -> bool {
        let one = &self.queue_pairs[at];
        let other = one.remote.and_then(|remote| self.queue_pairs.get(remote));
        other.is_some_and(|other| {
            // a queue pair takes what comes to its own port of its own adapter
            let comes_to_it =
                (one.to.adapter, one.to.port) == (other.from.adapter, other.from.port);
            comes_to_it && other.state == QueuePairState::Connected && other.remote == Some(at)
        })
    }

    /// The first request of a queue pair arrives, if the other end takes it.
    pub fn carry(&mut self, at: usize) -> Outcome {
        self.queue_pairs[at].moves = false;
        let one = &self.queue_pairs[at];
        if one.state != QueuePairState::Connected || one.sends.is_empty() {
            return Ok(());
        }
        let (owner, peer, adapter) = (one.owner, one.peer, one.to.adapter);
        if !self.reaches(at) || !self.takes_from(at) {
            return self.wait(at);
        }
        let is_send = matches!(self.queue_pairs[at].sends.front(), Some(Op::Send(_)));
        if is_send && self.device(peer, adapter).receives == 0 {
            // There is no receive: it is asked again, as often as it takes.
            let (now, one) = (self.now, &mut self.queue_pairs[at]);
            let since: Ns = *one.stuck.get_or_insert(now);
            one.moves = true;
            let pause = (100 * MICROSECOND + now.since(since) / 4).min(LONGEST_NS);
            self.at(now.after(pause), Event::Move(at));
            return Ok(());
        }
        let one = &mut self.queue_pairs[at];
        one.stuck = None;
        let op = one.sends.pop_front().expect("it is not empty");
        one.oldest = (!one.sends.is_empty()).then_some(self.now);
        let remote = one.remote.expect("it is connected");
        self.device_mut(peer, adapter).receives -= u32::from(is_send);
        self.wake_soon(owner);
        match op {
            Op::Part(part) => self.carry_part(at, remote, part)?,
            op => self.queue_pairs[remote].limbo.push_back(op),
        }
        self.settle(remote)?;
        if !self.is_quiet() && self.rng.chance(self.plan.breaks) {
            let end = if self.rng.chance(500) { at } else { remote };
            self.fail(end)?;
        }
        self.moves(at);
        Ok(())
    }

    /// A request does not arrive: it is repeated until the adapter gives up.
    fn wait(&mut self, at: usize) -> Outcome {
        let (now, one) = (self.now, &mut self.queue_pairs[at]);
        let since: Ns = *one.stuck.get_or_insert(now);
        if now.since(since) >= one.tries_ns {
            return self.fail(at);
        }
        let pause = 1 + one.tries_ns / 6;
        one.moves = true;
        self.at(now.after(pause), Event::Move(at));
        Ok(())
    }

    /// Part of a long message: keys are looked at, and whether the program's memory is there.
    fn carry_part(&mut self, at: usize, remote: usize, part: Part) -> Outcome {
        let one = &self.queue_pairs[at];
        let (owner, peer) = (one.owner, one.peer);
        let needs_key = !matches!(part.how, How::Lane { .. });
        let far = &self.queue_pairs[remote];
        let is_of = |link: &super::rank::Link, key: u16, one: &super::wire::QueuePair| {
            key == link.own_keys && link.keyed_on == Some((one.from.adapter, one.opening))
        };
        if !is_of(&self.ranks[owner].links[peer], part.own, one)
            || needs_key && !is_of(&self.ranks[peer].links[owner], part.key, far)
        {
            return Err(format!("H5: {owner} names a void key to {peer}: {part:?}"));
        }
        let is_empty = part.how == How::Lane { is_error: true };
        let bad = self.letters.0[part.letter].bad.filter(|_| !is_empty);
        let is_landing = !needs_key && bad == Some(peer);
        if bad.is_some() && !is_landing {
            self.ranks[owner]
                .completions
                .push_back((at, Completion::Fault(part.transfer)));
            self.fail(at)?;
            // The peer's adapter has refused it, and is in error as well.
            return if bad == Some(peer) {
                self.fail(remote)
            } else {
                Ok(())
            };
        }
        match part.how {
            How::Read => {
                let value = self.letters.read(part.memory, part.chunk)?;
                self.letters.place(part.letter, part.chunk, value)?;
            }
            _ if is_landing => {
                while !self.queue_pairs[remote].limbo.is_empty() {
                    self.place(remote)?;
                }
                let letter = self.queue_pairs[remote].landings.pop_front();
                let letter = letter.ok_or("M1: nothing is to land")?;
                let landed = Completion::Landed(letter, Landing::Fault);
                self.ranks[peer].completions.push_back((remote, landed));
                self.fail(remote)?;
                return self.fail(at);
            }
            _ => {
                // What has left is the wire's, whatever becomes of the memory.
                let chunks = match part.how {
                    How::Lane { is_error: true } => 0..0,
                    How::Lane { .. } => 0..self.letters.0[part.letter].parts,
                    _ => part.chunk..part.chunk + 1,
                };
                for chunk in chunks {
                    self.letters.read(part.letter, chunk)?;
                }
                self.queue_pairs[remote].limbo.push_back(Op::Part(part));
            }
        }
        self.ranks[owner]
            .completions
            .push_back((at, Completion::Done(part.transfer)));
        Ok(())
    }

    /// The adapter of a queue pair fails, and its keys have gone before the queue pair: now and
    /// then it says of memory that is good that it is not there, to its own rank or to the peer.
    pub fn blame_memory(&mut self, at: usize) -> Outcome {
        let part_of = |one: &super::wire::QueuePair| match one.sends.front() {
            Some(Op::Part(part)) if one.state == QueuePairState::Connected => Some(part.transfer),
            _ => None,
        };
        let one = &self.queue_pairs[at];
        let landing = one.landings.front().copied();
        let landing = landing.filter(|_| one.state == QueuePairState::Connected);
        let own = part_of(one);
        let far = one.remote.filter(|_| self.takes_from(at));
        let far = far.and_then(|far| Some((far, part_of(&self.queue_pairs[far])?)));
        if let Some((far, transfer)) = far
            && self.rng.chance(500)
        {
            self.complete_at(far, Completion::Fault(transfer));
            self.fail(far)?;
        }
        if let Some(transfer) = own
            && self.rng.chance(500)
        {
            self.complete_at(at, Completion::Fault(transfer));
        }
        if let Some(letter) = landing
            && self.queue_pairs[at].limbo.is_empty()
            && self.rng.chance(500)
        {
            self.complete_at(at, Completion::Landed(letter, Landing::Fault));
        }
        Ok(())
    }

    /// What has arrived is placed at once, or a little later.
    fn settle(&mut self, at: usize) -> Outcome {
        let one = &self.queue_pairs[at];
        if one.limbo.is_empty() || one.places {
            return Ok(());
        }
        if one.limbo.len() == 1 && !self.rng.chance(250) {
            return self.place(at);
        }
        self.queue_pairs[at].places = true;
        let pause = [2 * MICROSECOND, 200 * MICROSECOND][self.rng.below(2) as usize];
        let pause = 1 + self.rng.below(pause);
        self.at(self.now.after(pause), Event::Place(at));
        Ok(())
    }

    /// The time to place something has come.
    pub fn place_next(&mut self, at: usize) -> Outcome {
        self.queue_pairs[at].places = false;
        if self.queue_pairs[at].state == QueuePairState::Connected {
            self.place(at)?;
        }
        self.settle(at)
    }

    /// Places the first of what a queue pair has acknowledged.
    fn place(&mut self, at: usize) -> Outcome {
        let one = &mut self.queue_pairs[at];
        let (owner, peer) = (one.owner, one.peer);
        let Some(op) = one.limbo.pop_front() else {
            return Ok(());
        };
        match op {
            Op::Send(message) => self.complete_at(at, Completion::Message(message)),
            Op::Word(word) => self.link(owner, peer).out.returned = word,
            Op::Part(part) => match part.how {
                How::Lane { is_error } => {
                    let letter = self.queue_pairs[at].landings.pop_front();
                    let letter = letter.ok_or("M1: nothing is to land")?;
                    let how = if is_error {
                        Landing::Empty
                    } else {
                        self.letters.land(letter, part.letter)?;
                        Landing::Whole
                    };
                    self.complete_at(at, Completion::Landed(letter, how));
                }
                _ => {
                    let value = super::letter::content(part.letter, part.chunk);
                    self.letters.place(part.letter, part.chunk, value)?;
                }
            },
            Op::Record { ref bytes, .. } => {
                let count = bytes.len();
                self.place_record(peer, owner, &op, count)?;
            }
        }
        Ok(())
    }

    fn complete_at(&mut self, at: usize, one: Completion) {
        let owner = self.queue_pairs[at].owner;
        self.ranks[owner].completions.push_back((at, one));
        self.wake_soon(owner);
    }
}
