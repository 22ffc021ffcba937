//! Messages to a peer: by its block, or by SEND, inline or through a staging buffer.

use super::acks::Keep;
use super::queue::What;
use super::stats::Why;
use super::{INLINE, Id, Net, RECEIVE, Ready};
use crate::constants::{MPI_ERR_INTERN, MPI_ERR_PROC_ABORTED};
use crate::errors::{MpiError, Outcome};
use crate::host::Source;
use crate::runtime::Runtime;
use crate::trace;
use crate::transport::contract::Head;
use ferriband_ibv::{Element, SendFlags, SendWr};
use ferriband_mpi_proto::brief::{Pattern, fills_a_packet};
use ferriband_mpi_proto::envelope::{ENVELOPE, Envelope};
use ferriband_mpi_proto::replay::Held;

impl Runtime {
    /// Sends a message to a peer that is reached by verbs. False: not now.
    pub fn post(&mut self, peer: u32, what: &Head, body: &[u8], source: Source) -> Outcome<bool> {
        let Head {
            kind,
            flags,
            tag,
            context,
        } = *what;
        if self.ready(peer)? == Ready::NotYet {
            return Ok(false);
        }
        if kind.is_numbered() && self.waits_for_others(peer) {
            return Ok(false);
        }
        let Some(net) = &mut self.net else {
            return Ok(false);
        };
        let acks = self.settings.verbs.acks && kind.is_numbered();
        let entry = &mut self.point.peers[peer as usize];
        let length = ENVELOPE + body.len() + source.len();
        let seq = entry.sent.wrapping_add(1);
        let envelope = Envelope {
            kind,
            flags,
            seq: if kind.is_numbered() { seq } else { 0 },
            ack: entry.received,
            credit: net.report(peer),
            tag,
            context,
        };
        let head = envelope.emit();
        if !kind.is_numbered() {
            return net.send(peer, &envelope, body, source, None);
        }
        let keep = acks.then_some(seq);
        let why = net.store_with(peer, &head, seq, body, source, acks)?;
        if why.is_some() && !net.send(peer, &envelope, body, source, keep)? {
            if acks {
                // Perhaps for want of room to keep it, which comes without a completion.
                net.has_log_room(peer, length, entry.sent);
            }
            return Ok(false);
        }
        entry.sent = seq;
        if why.is_none() {
            net.told(peer);
        }
        net.count_burst(peer);
        if trace::is_on() {
            trace::sent(peer, kind, seq, tag, context, body, source.len());
        }
        if let Some(why) = why {
            net.stats.count(why);
            self.count_send(peer)?;
        }
        Ok(true)
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
    fn send(
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
        let at = ENVELOPE + body.len();
        let length = at + source.len();
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
        bytes[..ENVELOPE].copy_from_slice(&envelope.emit());
        bytes[ENVELOPE..at].copy_from_slice(body);
        source.copy_into(&mut bytes[at..]);
        let elements = [Element::inline(bytes)];
        let request = SendWr::send(Id::Peer(peer).code(), &elements);
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
            Err(error) => Err(self.lose(peer, &error.to_string(), MPI_ERR_PROC_ABORTED)),
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
        let at = ENVELOPE + body.len();
        let length = (at + source.len()) as u32;
        let log = keep.map(|_| &link.acks.log);
        let Some(how) = Keep::choose(log, &self.stages, buffer, length as usize) else {
            self.stages.give(buffer);
            return Ok(false);
        };
        let is_known = Pattern::of(envelope).is_some_and(|one| Some(one) == link.heads.said);
        let is_brief = is_known && fills_a_packet(source.len(), ENVELOPE, link.wire.mtu as usize);
        let left_out = if is_brief { ENVELOPE as u32 } else { 0 };
        let memory = &self.stages.memory;
        memory.write(buffer, 0, &envelope.emit());
        memory.write(buffer, ENVELOPE as u32, body);
        memory.fill(buffer, at as u32, source);
        let elements = [memory.element_at(buffer, left_out, length - left_out)];
        let mut request = SendWr::send(Id::Peer(peer).code(), &elements);
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
                return Err(self.lose(peer, &error.to_string(), MPI_ERR_PROC_ABORTED));
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
                link.together.bundle.min(self.device.card.receive) as usize
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
            Err(error) => Err(self.lose(peer, &error.to_string(), MPI_ERR_PROC_ABORTED)),
        }
    }
}
