//! What a rank says: messages get their numbers, go by record or by SEND, and are kept.

use super::Fault;
use super::block::alone;
use super::take::envelope;
use super::wire::{Body, DEPTH, Message, Op, Outcome, To, Way};
use super::world::World;
use ferriband_heal::kept::Held;
use ferriband_heal::{Log, Number};
use ferriband_mpi_proto::brief::Pattern;
use std::collections::VecDeque;

/// Bytes of an envelope and of the body of a word.
const WORD: u32 = 64;
/// So long a message waits before the peer is asked for a sign of life.
const DETECT_NS: u64 = 100_000_000;

impl World {
    /// Bytes of a message.
    fn size(&self, body: Body) -> u32 {
        match body {
            Body::Data(letter) => self.letters.0[letter].size,
            Body::Piece(..) => 1000,
            _ => WORD,
        }
    }

    /// Messages that wait, and acknowledgements. True if something went.
    pub fn push(&mut self, me: usize, peer: usize) -> Outcome<bool> {
        let is_patient = self.rng.chance(700) && !self.is_closing(me, peer);
        let link = &self.ranks[me].links[peer];
        let Some(at) = link.queue_pair.filter(|_| link.session.is_up()) else {
            return Ok(false);
        };
        self.read_returns(me, peer)?;
        if self.queue_pairs[at].sends.len() >= DEPTH {
            return Ok(false);
        }
        if self.return_credit(me, peer) || self.tell_taken(me, peer, at, is_patient)? {
            return Ok(true);
        }
        let Some(body) = self.link(me, peer).fifo.front().copied() else {
            let waits = !self.link(me, peer).moving.is_empty() || self.waits_to_leave(me, peer);
            return Ok(waits && self.probe(me, peer, at)?);
        };
        if !body.is_numbered() {
            self.link(me, peer).fifo.pop_front();
            self.post_word(me, peer, at, body)?;
            return Ok(true);
        }
        let count = self.bundle(me, peer);
        let bodies: VecDeque<Body> = self.ranks[me].links[peer]
            .fifo
            .iter()
            .take(count)
            .copied()
            .collect();
        let bytes = bodies.iter().map(|body| self.size(*body).max(8)).sum();
        if !self.has_room(me, peer, bytes) {
            return self.probe(me, peer, at);
        }
        self.link(me, peer).probed = self.now;
        self.link(me, peer).fifo.drain(..count);
        self.send(me, peer, at, bodies, bytes)?;
        Ok(true)
    }

    /// A message has waited for room in the log, or for a key or the lane of the peer's: whether
    /// that is there at all is found out by a word to it. True if one went.
    fn probe(&mut self, me: usize, peer: usize, at: usize) -> Outcome<bool> {
        let now = self.now;
        let link = self.link(me, peer);
        if now.since(link.probed) < DETECT_NS {
            return Ok(false);
        }
        link.probed = now;
        let landed = link.lane.landed;
        self.post_word(me, peer, at, Body::Note(landed))?;
        Ok(true)
    }

    /// How many messages go together.
    fn bundle(&mut self, me: usize, peer: usize) -> usize {
        let (is_bundle, wish) = (self.rng.chance(300), 2 + self.rng.below(4) as usize);
        let window = self.plan.window as usize;
        let fifo = &self.ranks[me].links[peer].fifo;
        let together = fifo
            .iter()
            .take_while(|body| body.is_numbered() && !matches!(body, Body::Fin { .. }))
            .count();
        if is_bundle && together > 1 && wish <= window {
            together.min(wish)
        } else {
            1
        }
    }

    /// Whether so many bytes can be kept.
    fn has_room(&self, me: usize, peer: usize, bytes: u32) -> bool {
        let link = &self.ranks[me].links[peer];
        let all = link.log.bytes() + u64::from(bytes);
        let under_way = link.sent.since(Number(link.log.acknowledged()));
        let is_bound = self.fault != Some(Fault::NoBound);
        under_way < self.plan.window && (all <= self.plan.log_bytes || !is_bound)
    }

    fn send(
        &mut self,
        me: usize,
        peer: usize,
        at: usize,
        bodies: VecDeque<Body>,
        bytes: u32,
    ) -> Outcome {
        let link = self.link(me, peer);
        let first = link.sent.next();
        let count = bodies.len() as u32;
        let is_single = count == 1 && (bytes <= 256 || self.rng.chance(500));
        for (number, body) in (0..).zip(&bodies) {
            let number = Number(first.0.wrapping_add(number));
            self.numbered(me, peer, *body, number)?;
        }
        let is_stored = count == 1 && self.store(me, peer, at, bytes, bodies[0]);
        let credit = self.report_credit(me, peer);
        let link = self.link(me, peer);
        link.sent = Number(link.sent.0.wrapping_add(count));
        link.unanswered = 0;
        let message = Message {
            first: first.0,
            items: bodies,
            ack: link.received.0,
            credit,
            ..Message::default()
        };
        let is_kept =
            !is_stored || self.fault != Some(Fault::MirrorNotLogged) || !self.is_mirrored();
        if is_kept {
            self.keep(me, peer, &message, is_single || is_stored, bytes)?;
        }
        if !is_stored {
            self.post_message(me, peer, at, message, true)?;
            self.count_send(me, peer);
        }
        Ok(())
    }

    fn is_mirrored(&self) -> bool {
        self.plan.block.design().is_mirrored()
    }

    /// The log has a copy, or holds what lies in a staging buffer.
    fn keep(
        &mut self,
        me: usize,
        peer: usize,
        message: &Message,
        is_copied: bool,
        bytes: u32,
    ) -> Outcome {
        let bound = self.plan.log_bytes;
        let link = self.link(me, peer);
        let seq = link.sent.0;
        if is_copied {
            let head = seq.to_le_bytes();
            link.log.keep(seq, [&head, &[]], bytes as usize - 4, |_| ());
            link.copies
                .push_back((seq, message.items[0], message.credit));
        } else {
            let buffer = link.next_buffer;
            link.next_buffer += 1;
            link.staged.insert(buffer, message.clone());
            let length = bytes;
            link.log.hold(Held {
                seq,
                buffer,
                at: 0,
                length,
            });
        }
        if link.log.bytes() > bound {
            let bytes = link.log.bytes();
            return Err(format!("H7: {me} keeps {bytes} bytes for {peer}"));
        }
        Ok(())
    }

    /// Posts a message by SEND: without its envelope if `may_be_brief` and the peer knows what that
    /// would say.
    pub fn post_message(
        &mut self,
        me: usize,
        peer: usize,
        at: usize,
        mut message: Message,
        may_be_brief: bool,
    ) -> Outcome {
        self.judge_credit(me, peer, message.credit)?;
        if let (1, Some(Body::Data(letter))) = (message.items.len(), message.items.front()) {
            let head = envelope(self.letters.0[*letter].tag, &message);
            let pattern = Pattern::of(&head);
            let link = self.link(me, peer);
            if may_be_brief && link.head == pattern {
                message.brief = Some(Pattern::numbers(&head));
                self.report.brief += 1;
            }
            self.link(me, peer).head = pattern;
        }
        self.post(at, Op::Send(message));
        Ok(())
    }

    /// Posts what has no number.
    pub fn post_word(&mut self, me: usize, peer: usize, at: usize, body: Body) -> Outcome {
        let credit = self.report_credit(me, peer);
        let ack = self.link(me, peer).received.0;
        self.post_message(me, peer, at, alone(body, ack, credit), false)
    }

    /// An acknowledgement goes alone, with the last landing.
    fn tell_taken(&mut self, me: usize, peer: usize, at: usize, is_patient: bool) -> Outcome<bool> {
        let window = self.plan.window;
        let link = self.link(me, peer);
        let is_many = !is_patient || link.unanswered >= window / 2;
        let is_due = link.unanswered > 0 && is_many || link.lane.is_news;
        if !is_due {
            return Ok(false);
        }
        link.unanswered = 0;
        link.lane.is_news = false;
        let landed = link.lane.landed;
        self.post_word(me, peer, at, Body::Note(landed))?;
        Ok(true)
    }

    /// What waits in the FIFO names keys that there are.
    pub fn rekey(&mut self, me: usize, peer: usize) {
        let keeps = self.is(Fault::FifoKeepsKeys);
        let link = self.link(me, peer);
        link.voids_keys = false;
        link.own_keys = link.own_keys.wrapping_add(1);
        let generation = link.own_keys;
        link.keyed = link.sent;
        link.session.handle_keys(generation, link.sent);
        for body in link.fifo.iter_mut().filter(|_| !keeps) {
            match body {
                Body::Rts(_, Way::Read, key) | Body::Cts(_, To::Key(key), _) => *key = generation,
                _ => (),
            }
        }
    }
}
