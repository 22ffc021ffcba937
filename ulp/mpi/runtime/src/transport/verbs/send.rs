//! Messages to a peer: by its block, or by SEND, inline or through a staging buffer; and what ranks
//! that are reached by verbs say to each other about that, which goes before them.

use super::acks::Keep;
use super::lay::{Staged, lay};
use super::queue::What;
use super::stats::Why;
use super::{INLINE, Net, RECEIVE, Ready};
use crate::constants::MPI_ERR_INTERN;
use crate::errors::{MpiError, Outcome};
use crate::ground::memory::Source;
use crate::trace;
use crate::transport::contract::{Head, Message, Roster, Sent};
use ferriband_ibv::{Element, SendFlags, SendWr};
use ferriband_mpi_proto::brief::{Pattern, fills_a_packet};
use ferriband_mpi_proto::envelope::{ENVELOPE, Envelope, Kind};
use ferriband_mpi_proto::replay::Held;

/// Words about a connection that wait for room: ranks that keep to the rules have fewer.
const MOST_WORDS: usize = 32;

impl Net {
    /// Sends the first of `messages`, which wait for `peer` in this order: several that are short
    /// together, else one by itself.
    pub fn send<'a, R: Roster>(
        &mut self,
        roster: &R,
        peer: u32,
        messages: impl Iterator<Item = &'a Message> + Clone,
    ) -> Outcome<Sent> {
        if self.ready(roster, peer)? == Ready::NotYet || !self.has_spoken(peer)? {
            return Ok(Sent::NONE);
        }
        let sent = self.send_together(peer, messages.clone())?;
        if sent.count != 0 || self.waits_for_others(peer) {
            return Ok(sent);
        }
        let Some(one) = messages.into_iter().next() else {
            return Ok(Sent::NONE);
        };
        let number = self.post_now(peer, &one.head, one.body.as_slice(), one.source)?;
        Ok(number.map_or(Sent::NONE, Sent::one))
    }

    /// Sends a message that nothing waits before: its number. None: not now.
    pub fn post<R: Roster>(
        &mut self,
        roster: &R,
        peer: u32,
        what: &Head,
        body: &[u8],
        source: Source,
    ) -> Outcome<Option<u32>> {
        if self.ready(roster, peer)? == Ready::NotYet
            || !self.has_spoken(peer)?
            || self.waits_for_others(peer)
        {
            return Ok(None);
        }
        self.post_now(peer, what, body, source)
    }

    /// Sends a message to a connected peer: its number, or the last one's if it has none. None:
    /// there is no room.
    pub(super) fn post_now(
        &mut self,
        peer: u32,
        what: &Head,
        body: &[u8],
        source: Source,
    ) -> Outcome<Option<u32>> {
        let Head {
            kind,
            flags,
            tag,
            context,
        } = *what;
        let credit = self.report(peer);
        let Some(link) = self.links[peer as usize].as_deref_mut() else {
            return Ok(None);
        };
        let is_numbered = kind.is_numbered();
        let acks = self.limits.acks && is_numbered;
        let (sent, seq) = (link.sent, link.sent.wrapping_add(1));
        let envelope = Envelope {
            kind,
            flags,
            seq: if is_numbered { seq } else { 0 },
            ack: link.received,
            credit,
            tag,
            context,
        };
        if !is_numbered {
            let has_gone = self.send_whole(peer, &envelope, body, source, None)?;
            return Ok(has_gone.then_some(sent));
        }
        let head = envelope.emit();
        let keep = acks.then_some(seq);
        let why = self.store_with(peer, &head, seq, body, source, acks)?;
        if why.is_some() && !self.send_whole(peer, &envelope, body, source, keep)? {
            if acks {
                // Perhaps for want of room to keep it, which comes without a completion.
                self.has_log_room(peer, ENVELOPE + body.len() + source.len());
            }
            return Ok(None);
        }
        self.link(peer).sent = seq;
        if why.is_none() {
            self.told(peer);
        }
        self.count_burst(peer);
        if trace::is_on() {
            trace::sent(peer, kind, seq, tag, context, body, source.len());
        }
        if let Some(why) = why {
            self.stats.count(why);
            self.count_send(peer)?;
        }
        Ok(Some(seq))
    }

    /// Tells `peer` something about the connection: before the messages that wait for it, and at
    /// once if there is room.
    pub(super) fn say(&mut self, peer: u32, kind: Kind, body: &[u8]) -> Outcome {
        let link = self.link(peer);
        if link.is_gone() {
            return Ok(());
        }
        if link.words.len() == MOST_WORDS {
            return Err(self.broken_off(peer));
        }
        link.words.push_back(Message::answer(kind, body));
        if link.words.len() == 1 {
            self.speak(peer)?;
        }
        Ok(())
    }

    /// Whether nothing is left that this rank has to say to `peer` before its messages.
    #[inline]
    pub(super) fn has_spoken(&mut self, peer: u32) -> Outcome<bool> {
        match self.links[peer as usize].as_deref() {
            Some(link) if !link.words.is_empty() => self.speak(peer),
            _ => Ok(true),
        }
    }

    /// Says to `peer` what waits, as far as there is room. True if nothing is left.
    #[cold]
    fn speak(&mut self, peer: u32) -> Outcome<bool> {
        while let Some(word) = self.link(peer).words.front().copied() {
            let can = self.link(peer).is_ready();
            if !can
                || self
                    .post_now(peer, &word.head, word.body.as_slice(), Source::EMPTY)?
                    .is_none()
            {
                if !self.connect.unsent_words.contains(&peer) {
                    self.connect.unsent_words.push(peer);
                }
                return Ok(false);
            }
            self.link(peer).words.pop_front();
        }
        Ok(true)
    }

    /// Says what had to wait for room.
    #[cold]
    pub(super) fn speak_again(&mut self) -> Outcome {
        for peer in std::mem::take(&mut self.connect.unsent_words) {
            self.speak(peer)?;
        }
        Ok(())
    }
}

impl Net {
    /// Puts a message into the peer's block, if that can take it; else why not.
    #[inline]
    fn store_with(
        &mut self,
        peer: u32,
        head: &[u8; ENVELOPE],
        seq: u32,
        body: &[u8],
        source: Source,
        acks: bool,
    ) -> Outcome<Option<Why>> {
        if body.is_empty() {
            return self.store(peer, head, seq, source, acks);
        }
        let mut whole = [0; ENVELOPE + 48];
        let length = ENVELOPE + body.len();
        whole[..ENVELOPE].copy_from_slice(head);
        whole[ENVELOPE..length].copy_from_slice(body);
        self.store(peer, &whole[..length], seq, source, acks)
    }

    /// Posts a SEND of envelope, body and payload, and keeps it under the number `keep`. False if
    /// there is no room.
    fn send_whole(
        &mut self,
        peer: u32,
        envelope: &Envelope,
        body: &[u8],
        source: Source,
        keep: Option<u32>,
    ) -> Outcome<bool> {
        let length = ENVELOPE + body.len() + source.len();
        if length > self.longest_send(peer) {
            return Err(MpiError::with(
                MPI_ERR_INTERN,
                "a message is longer than a receive buffer",
            ));
        }
        let sent = if length <= INLINE {
            self.send_inline(peer, envelope, body, source, keep)?
        } else {
            self.send_staged(peer, envelope, body, source, keep)?
        };
        self.stats.sends += u64::from(sent);
        Ok(sent)
    }

    #[inline]
    fn send_inline(
        &mut self,
        peer: u32,
        envelope: &Envelope,
        body: &[u8],
        source: Source,
        keep: Option<u32>,
    ) -> Outcome<bool> {
        let Some(link) = self.links[peer as usize].as_deref_mut() else {
            return Ok(false);
        };
        let length = ENVELOPE + body.len() + source.len();
        let mut loose;
        let bytes = match keep {
            Some(_) => match link.acks.log.room(length) {
                Some(room) => room,
                None => return Ok(false),
            },
            None => {
                loose = [0_u8; INLINE];
                &mut loose[..length]
            }
        };
        lay(bytes, envelope, body, source);
        let elements = [Element::inline(bytes)];
        let request = SendWr::send(link.wire.id, &elements);
        let flags = SendFlags::INLINE;
        match link
            .wire
            .queue
            .submit(request, flags, What::Room, self.life.closing)
        {
            Ok(true) => {
                if let Some(seq) = keep {
                    link.acks.log.commit(seq, 0..length);
                }
                link.has_said(envelope);
                Ok(true)
            }
            Ok(false) => Ok(false),
            Err(error) => self.unposted(peer, &error),
        }
    }

    /// A message that fills a packet goes without its envelope, where the peer knows what that
    /// says; it is kept with it.
    fn send_staged(
        &mut self,
        peer: u32,
        envelope: &Envelope,
        body: &[u8],
        source: Source,
        keep: Option<u32>,
    ) -> Outcome<bool> {
        let Some(link) = self.links[peer as usize].as_deref_mut() else {
            return Ok(false);
        };
        let Some(buffer) = self.stages.take() else {
            return Ok(false);
        };
        let length = (ENVELOPE + body.len() + source.len()) as u32;
        let log = keep.map(|_| &link.acks.log);
        let Some(how) = Keep::choose(log, &self.stages, buffer, length as usize) else {
            self.stages.give(buffer);
            return Ok(false);
        };
        let is_known = Pattern::of(envelope).is_some_and(|one| Some(one) == link.heads.said);
        let is_brief = is_known && fills_a_packet(source.len(), ENVELOPE, link.wire.mtu as usize);
        let left_out = if is_brief { ENVELOPE as u32 } else { 0 };
        let memory = &self.stages.memory;
        let mut room = Staged {
            memory,
            index: buffer,
            at: 0,
        };
        lay(&mut room, envelope, body, source);
        let key = link.wire.queue.stage;
        let elements = [memory.element_by(key, buffer, left_out, length - left_out)];
        let mut request = SendWr::send(link.wire.id, &elements);
        if is_brief {
            request = request.immediate(Pattern::numbers(envelope));
        }
        let (flags, what) = (SendFlags::empty(), how.completion(buffer));
        let sent = match link
            .wire
            .queue
            .submit(request, flags, what, self.life.closing)
        {
            Ok(sent) => sent,
            Err(error) => {
                self.stages.give(buffer);
                return self.unposted(peer, &error);
            }
        };
        if !sent {
            self.stages.give(buffer);
            return Ok(false);
        }
        link.has_said(envelope);
        if let Some(seq) = keep {
            let place = Held {
                seq,
                buffer,
                at: 0,
                length,
            };
            how.keep(&mut link.acks.log, &self.stages, place);
        }
        Ok(sent)
    }

    /// Bytes of the longest SEND to `peer`: what its receive buffers and our staging buffers hold.
    #[inline]
    pub(super) fn longest_send(&self, peer: u32) -> usize {
        match self.links[peer as usize].as_deref() {
            Some(link) if link.together.bundle != 0 => {
                link.together.bundle.min(self.rail.device.receive) as usize
            }
            _ => RECEIVE as usize,
        }
    }

    /// Requests to `peer` for which there is room.
    pub(super) fn room(&self, peer: u32) -> u32 {
        let link = self.links[peer as usize].as_deref();
        link.map_or(0, |link| link.wire.queue.room())
    }

    /// Posts a request to a connected peer. False if its queue is full.
    pub(super) fn submit(
        &mut self,
        peer: u32,
        request: SendWr<'_>,
        flags: SendFlags,
        what: What,
    ) -> Outcome<bool> {
        let Some(link) = self.links[peer as usize].as_deref_mut() else {
            return Ok(false);
        };
        match link
            .wire
            .queue
            .submit(request, flags, what, self.life.closing)
        {
            Ok(posted) => Ok(posted),
            Err(error) => self.unposted(peer, &error),
        }
    }
}
