//! What a rank takes of what has come, in turn: by SEND, from a block, or at a fence.

use super::Fault;
use super::rank::Held;
use super::wire::{Body, Completion, Landing, Message, Outcome, Way};
use super::world::World;
use ferriband_heal::{Cause, Number};
use ferriband_mpi_proto::brief::Pattern;
use ferriband_mpi_proto::envelope::{Envelope, Kind};

/// The envelope of a plain message of the program.
pub fn envelope(tag: i32, message: &Message) -> Envelope {
    Envelope {
        kind: Kind::Eager,
        flags: 0,
        seq: message.first,
        ack: message.ack,
        credit: message.credit,
        tag,
        context: 0,
    }
}

impl World {
    /// Whether there is memory for one more message.
    pub fn has_memory(&mut self) -> bool {
        self.is_quiet() || !self.rng.chance(self.plan.no_memory)
    }

    /// A completion of this rank.
    pub fn take_completion(&mut self, me: usize, at: usize, one: Completion) -> Outcome {
        let (peer, life) = (self.queue_pairs[at].peer, self.queue_pairs[at].life);
        let now = self.now;
        match one {
            Completion::Error => {
                let session = &mut self.link(me, peer).session;
                session.handle_failure(life, Cause::QpError, now);
            }
            Completion::Done(id) => self.moved(me, peer, id)?,
            Completion::Fault(id) => {
                if self.is_proven(me, peer, Some(id)) {
                    self.at_fault(me, peer, id)?;
                }
                self.fails_by_message(me, at);
            }
            Completion::Landed(letter, how) => {
                let is_fault = how == Landing::Fault;
                if !is_fault || self.is_proven(me, peer, None) {
                    self.landed(me, peer, letter, how == Landing::Whole)?;
                }
                if is_fault {
                    self.fails_by_message(me, at);
                }
            }
            Completion::Message(message) => {
                self.arrived(me, peer, message)?;
                self.take_in_hand(me, peer, false)?;
            }
        }
        Ok(())
    }

    /// A message has come by SEND: it is in hand.
    pub fn arrived(&mut self, me: usize, from: usize, mut message: Message) -> Outcome {
        self.whole(me, from, &mut message)?;
        self.credited(me, from, message.credit);
        self.acknowledged(me, from, Number(message.ack))?;
        self.link(me, from).in_hand = Some(message);
        Ok(())
    }

    /// What the envelope of a message says, also if that is left out.
    fn whole(&mut self, me: usize, from: usize, message: &mut Message) -> Outcome {
        let (1, Some(Body::Data(letter))) = (message.items.len(), message.items.front().copied())
        else {
            return Ok(());
        };
        let tag = self.letters.0[letter].tag;
        if message.brief.is_none() {
            self.link(me, from).pattern = Pattern::of(&envelope(tag, message));
            return Ok(());
        }
        // The records before it count.
        self.drain(me, from)?;
        let link = self.link(me, from);
        let Some(pattern) = link.pattern else {
            return Err(format!("M1: {me} has no envelope for a message of {from}"));
        };
        let numbers = message.brief.unwrap_or(0);
        let whole = pattern.whole(numbers, link.received.0, link.log.acknowledged());
        if whole.seq != message.first || whole.tag != tag {
            return Err(format!(
                "M1: a message of {from} is taken for {}, tag {}, and is {}, tag {tag}",
                whole.seq, whole.tag, message.first
            ));
        }
        (message.ack, message.credit) = (whole.ack, whole.credit);
        Ok(())
    }

    /// Takes what is in hand. False if there was no memory, or no time, for all of it.
    pub fn take_in_hand(&mut self, me: usize, from: usize, is_fence: bool) -> Outcome<bool> {
        let Some(mut message) = self.link(me, from).in_hand.take() else {
            return Ok(true);
        };
        if message.first == 0 && message.items.iter().all(|body| !body.is_numbered()) {
            // It was sent behind the records that lie in the block.
            self.drain(me, from)?;
            if self.is_due(me, from) {
                self.link(me, from).in_hand = Some(message);
                return Ok(false);
            }
            self.receive_again(me, from);
            let bodies = std::mem::take(&mut message.items);
            for body in bodies {
                self.take_word(me, from, body)?;
            }
            return Ok(true);
        }
        let count = message.items.len() as u32;
        let last = Number(message.first.wrapping_add(count).wrapping_sub(1));
        let expected = self.link(me, from).received.next();
        if Number(message.first) != expected {
            self.drain(me, from)?;
        }
        let expected = self.link(me, from).received.next();
        let is_whole = self.is(Fault::BundleWhole) && !last.is_before(expected) && count > 1;
        while let Some(body) = message.items.front().copied() {
            let number = Number(message.first);
            let expected = self.link(me, from).received.next();
            if number.is_before(expected) && !is_whole {
                self.report.doubles += 1;
            } else if number == expected || is_whole {
                if !self.has_memory() {
                    self.link(me, from).in_hand = Some(message);
                    return Ok(false);
                }
                self.take(me, from, number, body)?;
                self.count_receipt(me, from);
            } else if self.is_due(me, from) {
                // A record before it found no memory.
                self.link(me, from).in_hand = Some(message);
                return Ok(false);
            } else {
                return Err(format!(
                    "H2: {number:?} of {from} to {me} comes, not {expected:?}"
                ));
            }
            message.items.pop_front();
            message.first = message.first.wrapping_add(1);
            message.is_begun = true;
            if !is_fence && !message.items.is_empty() && self.rng.chance(200) {
                self.link(me, from).in_hand = Some(message);
                return Ok(false);
            }
        }
        self.receive_again(me, from);
        Ok(true)
    }

    fn receive_again(&mut self, me: usize, from: usize) {
        if let Some(at) = self.ranks[me].links[from].queue_pair {
            self.give_receive(me, at);
        }
    }

    /// Takes the message whose turn it is.
    pub fn take(&mut self, me: usize, from: usize, number: Number, body: Body) -> Outcome {
        let link = self.link(me, from);
        link.received = number;
        link.unanswered += 1;
        link.begun.clear();
        self.link(from, me).begun.clear();
        self.report.messages += 1;
        self.report.wraps += u64::from(number.0 == 0);
        let takes_void = self.is(Fault::OldKey);
        let link = self.link(me, from);
        let is_void = link.keys.are_void(number) && !takes_void;
        match body {
            Body::Data(letter) | Body::Rts(letter, ..) => {
                let delivered = link.delivered;
                link.delivered += 1;
                self.letters.take(letter, delivered)?;
                let key = match body {
                    Body::Rts(_, Way::Read, key) => Some(key).filter(|_| !is_void),
                    _ => None,
                };
                self.delivered(me, from, letter, number, key)?;
            }
            Body::Cts(letter, to, landed) => {
                self.asked(me, from, letter, to, number)?;
                self.take_note(me, from, landed)?;
            }
            Body::Fin { letter, is_error } => self.finished(me, from, letter, is_error)?,
            Body::Matched(letter) => self.letters.sent(letter, false)?,
            Body::Cancel(letter) => self.recalled(me, from, letter)?,
            Body::Cancelled(letter, is_found) => self.cancelled(me, from, letter, is_found)?,
            Body::Lane(end, epoch) => self.take_lane(me, from, end, epoch)?,
            Body::Piece(letter, part) => self.take_piece(letter, part)?,
            _ => return Err(format!("H2: {body:?} has a number")),
        }
        self.link(me, from).keys.taken(number);
        Ok(())
    }

    /// A message of the program, or the word of one: it has its receive, or waits for that.
    fn delivered(
        &mut self,
        me: usize,
        from: usize,
        letter: usize,
        told: Number,
        key: Option<u16>,
    ) -> Outcome {
        if self.letters.0[letter].way == Way::Eager {
            self.letters.meet(letter);
            return self.letters.received(letter, false, "M1");
        }
        let is_taken_back = self.is(Fault::TakenBack) && self.rng.chance(100);
        if is_taken_back && self.letters.0[letter].way == Way::Synchronous {
            // Its answer could not be posted.
            let link = &mut self.ranks[me].links[from];
            link.received = link.received.previous();
            let (life, now) = (link.session.epoch(), self.now);
            link.session.handle_failure(life, Cause::Verb, now);
            if let Some(at) = link.queue_pair {
                self.laws.spoil(&self.queue_pairs[at]);
            }
            return Ok(());
        }
        let is_over = false;
        let held = Held {
            letter,
            told,
            memory: letter,
            key,
            is_over,
        };
        self.link(me, from).held.push(held);
        Ok(())
    }

    fn take_piece(&mut self, letter: usize, part: u32) -> Outcome {
        let value = super::letter::content(letter, part);
        self.letters.place(letter, part, value)?;
        if part + 1 == self.letters.0[letter].parts {
            self.letters.received(letter, false, "M1")?;
        }
        Ok(())
    }

    /// What has no number.
    fn take_word(&mut self, me: usize, from: usize, body: Body) -> Outcome {
        match body {
            Body::Note(landed) => self.take_note(me, from, landed),
            Body::Renew(letter, key) => self.renewed(me, from, letter, key),
            _ => self.take_channel(me, from, body),
        }
    }
}
