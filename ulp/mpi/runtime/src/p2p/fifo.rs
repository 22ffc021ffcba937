//! Messages that wait for room.
//!
//! Owns: the order of the messages to a peer. Must not know: what they say.

use crate::constants::MPI_ERR_OTHER;
use crate::errors::{MpiError, Outcome};
use crate::handle::Token;
use crate::host::Source;
use crate::loss::dead;
use crate::request::Work;
use crate::runtime::Runtime;
use crate::transport::contract::{Body, Head, Message, Sent};
use crate::transport::shm::long::LARGE_PIECE;
use ferriband_mpi_proto::envelope::{self, Kind};
use ferriband_mpi_proto::fast::Shape;
use zerocopy::IntoBytes;

impl Runtime {
    /// Puts a message behind those that wait for `peer`, and sends what can be sent.
    pub fn queue(&mut self, peer: u32, message: Message) -> Outcome {
        let entry = &mut self.point.peers[peer as usize];
        if entry.lost {
            // An answer to somebody who has gone.
            if let Some(request) = self.point.requests.unfinished(message.token) {
                self.fail(request);
            }
            return Ok(());
        }
        entry.fifo.push_back(message);
        self.shm.link(peer).is_held = true;
        if entry.fifo.len() == 1 {
            self.point.stalled.push(peer);
            self.pump(peer)?;
        }
        Ok(())
    }

    /// A message without a request of its own: an answer.
    pub fn answer(&mut self, peer: u32, kind: Kind, body: &[u8]) -> Outcome {
        self.queue(peer, Message::answer(kind, body))
    }

    /// Sends what waits for `peer` as far as there is room. True if nothing waits any more.
    pub fn pump(&mut self, peer: u32) -> Outcome<bool> {
        while let Some(front) = self.point.peers[peer as usize].fifo.front() {
            if front.head.kind == Kind::Piece {
                if !self.pump_pieces(peer)? {
                    return self.starve(peer);
                }
                continue;
            }
            let sent = self.send_first(peer)?;
            if sent.count == 0 {
                return self.starve(peer);
            }
            for at in 0..sent.count {
                if let Some(message) = self.point.peers[peer as usize].fifo.pop_front() {
                    self.has_gone(peer, message.token, sent.first.wrapping_add(at));
                }
            }
        }
        self.point.stalled.retain(|stalled| *stalled != peer);
        let link = self.shm.link(peer);
        link.is_held = false;
        if let Some(sending) = &mut link.sending {
            sending.starve(false);
        }
        Ok(true)
    }

    /// Sends the first of the messages that wait for `peer`, or several where they go together.
    fn send_first(&mut self, peer: u32) -> Outcome<Sent> {
        let entry = &self.point.peers[peer as usize];
        if entry.by_verbs
            && !entry.lost
            && let (Some(net), Some(host)) = (&mut self.net, &self.host)
        {
            return net.send(host, peer, entry.fifo.iter());
        }
        let Some(message) = entry.fifo.front().copied() else {
            return Ok(Sent::NONE);
        };
        let body = message.body.as_slice();
        let number = self.send(peer, &message.head, body, message.source)?;
        Ok(number.map_or(Sent::NONE, Sent::one))
    }

    /// Sends a message to `peer`, whatever that takes. Its number; none if there is no room now.
    pub(super) fn send(
        &mut self,
        peer: u32,
        head: &Head,
        body: &[u8],
        source: Source,
    ) -> Outcome<Option<u32>> {
        let entry = &self.point.peers[peer as usize];
        if entry.lost {
            return match head.kind {
                Kind::Eager | Kind::Rts => Err(dead(peer)),
                // Answers that nobody waits for.
                _ => Ok(Some(0)),
            };
        }
        let Some(host) = &self.host else {
            let text = format!("rank {peer} cannot be reached");
            return Err(MpiError::with(MPI_ERR_OTHER, text));
        };
        if entry.by_verbs
            && let Some(net) = &mut self.net
        {
            return net.post(host, peer, head, body, source);
        }
        self.shm.link(peer).send(host, peer, head, body, source)
    }

    /// The message of what `token` names has gone to `peer` as number `seq`.
    pub fn has_gone(&mut self, peer: u32, token: Token, seq: u32) {
        let Some(request) = self.point.requests.slab.at(token) else {
            return;
        };
        match self.point.requests[request].work {
            Work::Eager => self.finish(request),
            Work::Synchronous => {
                self.point.requests[request].seq = seq;
                self.point.peers[peer as usize]
                    .synchronous
                    .push((seq, request));
            }
            Work::Rendezvous => self.point.requests[request].seq = seq,
            Work::Moving { .. } => {
                if let Some(net) = &mut self.net {
                    net.has_told_written(peer, token, seq);
                }
            }
            _ => (),
        }
    }

    /// Says that messages wait for credit of `peer`; unless that has just come.
    fn starve(&mut self, peer: u32) -> Outcome<bool> {
        if let Some(sending) = &mut self.shm.link(peer).sending
            && sending.starve(true)
            && let Some(host) = &self.host
        {
            host.ring(peer);
        }
        Ok(false)
    }

    /// The next pieces of the message at the head of the FIFO. True if all of it has gone.
    fn pump_pieces(&mut self, peer: u32) -> Outcome<bool> {
        loop {
            let Some(front) = self.point.peers[peer as usize].fifo.front() else {
                return Ok(true);
            };
            let Message {
                source,
                body,
                token,
                ..
            } = *front;
            let is_large = !self.point.peers[peer as usize].by_verbs
                && self
                    .host
                    .as_ref()
                    .is_some_and(|host| host.longest() >= LARGE_PIECE);
            let room = if is_large {
                LARGE_PIECE
            } else {
                Shape::DEFAULT.longest() as usize
            };
            let length = source.len().min(room - size_of::<envelope::Piece>());
            let piece = source.part(0, length);
            let head = Head::of(Kind::Piece);
            if self.send(peer, &head, body.as_slice(), piece)?.is_none() {
                return Ok(false);
            }
            let left = source.part(length, source.len() - length);
            if left.is_empty() {
                self.point.peers[peer as usize].fifo.pop_front();
                if let Some(request) = self.point.requests.slab.at(token) {
                    self.finish(request);
                }
                return Ok(true);
            }
            if let Some(front) = self.point.peers[peer as usize].fifo.front_mut()
                && let Ok(mut piece) =
                    <envelope::Piece as zerocopy::FromBytes>::read_from_bytes(body.as_slice())
            {
                piece.offset = (piece.offset.get() + length as u64).into();
                front.body = Body::new(piece.as_bytes());
                front.source = left;
            }
        }
    }
}
