//! Short messages that go together: where our own adapter makes packets, one costs as much as a run
//! of many, so what a program sends in one go after the first few waits until it looks at MPI
//! again, and goes by one SEND.
//!
//! A bundle is an envelope without a number, then messages, each with its envelope and its length
//! before it. They are counted, logged and taken in their turn as if each had come alone. Must not
//! know: what a message says.

use super::acks::Keep;
use super::lay::{Staged, lay};
use super::link::Link;
use super::queue::What;
use super::stats::Why;
use super::{BUNDLE, Lent, Net};
use crate::errors::{Outcome, broken};
use crate::ground::memory::Source;
use crate::trace;
use crate::transport::contract::{Deliver, Message, Roster, Sent};
use ferriband_ibv::{SendFlags, SendWr};
use ferriband_mpi_proto::envelope::{ENVELOPE, Envelope, ITEM, Kind};
use ferriband_mpi_proto::replay::Held;

/// Links with a burst are few; a rank that has spoken to more starts all of them anew.
const BURSTS: usize = 64;
/// Bytes up to which a message goes eagerly among others, too. A longer one goes so if it is the
/// first since the last look at the device: the lane's handshake makes one message late,
/// and costs many of them less than their copies.
const ALWAYS: usize = 16 << 10;

/// Whether what is sent now waits for others to go with.
#[derive(Default)]
pub struct Coalesce {
    /// Completions are being looked at: what they cause to be sent waits until all have been, and
    /// goes together.
    pub(super) is_taking: bool,
    /// What waits goes now all the same.
    pub(super) presses: bool,
    /// Ranks that messages have gone to since the last look at the device, where messages go
    /// together.
    pub(super) bursts: Vec<u32>,
}

impl Net {
    /// A look at the device: from here on messages go at once again.
    #[inline]
    pub fn look_anew(&mut self) {
        if !self.coalesce.bursts.is_empty() {
            self.forget_bursts();
        }
    }

    #[cold]
    fn forget_bursts(&mut self) {
        if self.coalesce.bursts.len() > BURSTS {
            self.links
                .iter_mut()
                .flatten()
                .for_each(|link| link.together.burst = 0);
            self.coalesce.bursts.clear();
        }
        while let Some(peer) = self.coalesce.bursts.pop() {
            self.link(peer).together.burst = 0;
        }
    }

    /// A message has been posted to `peer`.
    #[inline]
    pub(super) fn count_burst(&mut self, peer: u32) {
        let link = self.link(peer);
        if link.together.bundle == 0 {
            return;
        }
        link.together.burst += 1;
        if link.together.burst == 1 {
            self.coalesce.bursts.push(peer);
        }
    }
}

/// Bytes of a message in a bundle; none if it does not go so.
fn item(message: &Message) -> Option<usize> {
    let can = message.head.kind.is_numbered() && message.head.kind != Kind::Piece;
    can.then(|| ITEM + ENVELOPE + message.body.as_slice().len() + message.source.len())
}

impl Net {
    /// Whether a message to `peer`, longer than what is sent eagerly everywhere, goes eagerly: by
    /// packets of our adapter, once it is known what the
    /// peer's receive buffers hold.
    pub fn goes_eager(&self, peer: u32, source: &Source) -> bool {
        let (link, length) = (self.links[peer as usize].as_deref(), source.len());
        let is_alone = |link: &Link| {
            let could_land = !link.long.lane.is_off() && source.address().is_some();
            length <= ALWAYS || link.together.burst == 0 || !could_land || !self.wants_lane(peer)
        };
        length <= self.limits.eager_packets
            && link.is_some_and(|link| link.together.bundle != 0 && is_alone(link))
            && ENVELOPE + length <= self.longest_send(peer)
    }

    /// Whether a message to `peer` waits, so that it goes with others.
    #[inline]
    pub(super) fn waits_for_others(&self, peer: u32) -> bool {
        let link = self.links[peer as usize].as_deref();
        link.is_some_and(|link| {
            link.together.bundle != 0
                && !self.coalesce.presses
                && (self.coalesce.is_taking || link.together.burst >= self.limits.bundle)
        })
    }

    /// Sends the first of `messages`, which wait for a connected peer, together, if there are
    /// several of them and they are short. None of them: there is nothing more to do so.
    pub(super) fn send_together<'a>(
        &mut self,
        peer: u32,
        messages: impl Iterator<Item = &'a Message> + Clone,
    ) -> Outcome<Sent> {
        let mut first = messages.clone();
        let (Some(one), Some(two)) = (first.next(), first.next()) else {
            return Ok(Sent::NONE);
        };
        self.send_several(peer, [one, two], messages)
    }

    #[cold]
    fn send_several<'a>(
        &mut self,
        peer: u32,
        first: [&Message; 2],
        messages: impl Iterator<Item = &'a Message> + Clone,
    ) -> Outcome<Sent> {
        let limit = self.longest_send(peer).min(BUNDLE as usize);
        let mut first = first.into_iter();
        let length = first.try_fold(ENVELOPE, |sum, message| Some(sum + item(message)?));
        let do_fit = length.is_some_and(|length| length <= limit);
        let waits = self.coalesce.is_taking && !self.coalesce.presses;
        if !do_fit || waits || self.room(peer) == 0 {
            return Ok(Sent::NONE);
        }
        let Some(buffer) = self.stages.take() else {
            return Ok(Sent::NONE);
        };
        // It is kept where it lies, or each message by a copy.
        let is_held = self.limits.acks && self.stages.may_hold(buffer);
        let (count, length) = self.fill_bundle(peer, (buffer, is_held), limit, messages.clone());
        if count == 0 {
            self.stages.give(buffer);
            return Ok(Sent::NONE);
        }
        let link = self.link(peer);
        let first = link.sent.wrapping_add(1);
        let last = link.sent.wrapping_add(count);
        if is_held {
            link.acks.log.hold(Held {
                seq: last,
                buffer,
                at: 0,
                length: length as u32,
            });
        }
        let what = if is_held {
            What::Room
        } else {
            What::Buffer(buffer)
        };
        let sent = self.send_bundle(peer, (buffer, length), what);
        if sent.is_err() && !is_held {
            self.stages.give(buffer);
        }
        if !sent? {
            // They wait, and have no numbers.
            self.link(peer).acks.log.take_back(first.wrapping_sub(1));
            self.stages.give(buffer);
            return Ok(Sent::NONE);
        }
        self.link(peer).sent = last;
        for (seq, message) in (0..count).map(|at| first.wrapping_add(at)).zip(messages) {
            self.stats.count(Why::Bundled);
            if trace::is_on() {
                let (body, length) = (message.body.as_slice(), message.source.len());
                let (tag, context) = (message.head.tag, message.head.context);
                trace::sent(peer, message.head.kind, seq, tag, context, body, length);
            }
        }
        Ok(Sent { count, first })
    }

    /// Writes messages into a staging buffer and the log, as many as fit, and as that takes. How
    /// many, and where they end.
    fn fill_bundle<'a>(
        &mut self,
        peer: u32,
        (buffer, is_held): (u32, bool),
        limit: usize,
        messages: impl Iterator<Item = &'a Message>,
    ) -> (u32, usize) {
        let acks = self.limits.acks && !is_held;
        let credit = self.report(peer);
        let link = self.link(peer);
        let (sent, ack) = (link.sent, link.received);
        let (mut count, mut at) = (0, ENVELOPE);
        for message in messages {
            let Some(whole) = item(message).filter(|whole| at + whole <= limit) else {
                break;
            };
            let length = whole - ITEM;
            if acks && !self.has_log_room(peer, length) {
                break;
            }
            count += 1;
            let seq = sent.wrapping_add(count);
            let envelope = Envelope {
                kind: message.head.kind,
                flags: message.head.flags,
                seq,
                ack,
                credit,
                tag: message.head.tag,
                context: message.head.context,
            };
            let memory = &self.stages.memory;
            memory.write(buffer, at as u32, &(length as u32).to_le_bytes());
            let mut room = Staged {
                memory,
                index: buffer,
                at: (at + ITEM) as u32,
            };
            lay(
                &mut room,
                &envelope,
                message.body.as_slice(),
                message.source,
            );
            if acks && let Some(link) = self.links[peer as usize].as_deref_mut() {
                let place = Held {
                    seq,
                    buffer,
                    at: (at + ITEM) as u32,
                    length: length as u32,
                };
                Keep::Copied.keep(&mut link.acks.log, &self.stages, place);
            }
            at += whole;
        }
        let head = Envelope {
            kind: Kind::Bundle,
            flags: 0,
            seq: 0,
            ack,
            credit,
            tag: 0,
            context: 0,
        };
        self.stages.memory.write(buffer, 0, &head.emit());
        (count, at)
    }

    /// Posts a bundle. False if the device does not take it.
    fn send_bundle(
        &mut self,
        peer: u32,
        (buffer, length): (u32, usize),
        what: What,
    ) -> Outcome<bool> {
        let (id, key) = (self.link(peer).wire.id, self.link(peer).wire.queue.stage);
        let elements = [(self.stages.memory).element_by(key, buffer, 0, length as u32)];
        let request = SendWr::send(id, &elements);
        let sent = self.submit(peer, request, SendFlags::empty(), what)?;
        if sent {
            self.stats.sends += 1;
            self.link(peer).acks.pending.told();
        }
        Ok(sent)
    }

    /// A bundle has come. `again`: the first of its messages may have been taken before there was
    /// no memory for another.
    pub(super) fn take_bundle<R: Roster, D: Deliver>(
        &mut self,
        from: u32,
        bytes: Source,
        again: bool,
        lent: &mut Lent<'_, R, D>,
    ) -> Outcome {
        let mut rest = bytes;
        while !rest.is_empty() {
            if rest.len() < ITEM + ENVELOPE {
                return Err(broken(from));
            }
            let mut length = [0; ITEM];
            rest.part(0, ITEM).copy_into(&mut length);
            let length = u32::from_le_bytes(length) as usize;
            rest = rest.part(ITEM, rest.len() - ITEM);
            if length < ENVELOPE || length > rest.len() {
                return Err(broken(from));
            }
            let mut head = [0; ENVELOPE];
            rest.part(0, ENVELOPE).copy_into(&mut head);
            let envelope = Envelope::parse(head).filter(|one| one.kind.is_numbered());
            let Some(envelope) = envelope else {
                return Err(broken(from));
            };
            let body = rest.part(ENVELOPE, length - ENVELOPE);
            rest = rest.part(length, rest.len() - length);
            let received = self.link(from).received;
            if again && received.wrapping_sub(envelope.seq) < 1 << 31 {
                continue;
            }
            self.take_in_turn(from, &envelope, body, lent)?;
        }
        Ok(())
    }
}
