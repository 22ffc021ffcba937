//! Messages that wait for room.
//!
//! Owns: the order of the messages to a peer. Must not know: what they say.

use crate::errors::Outcome;
use crate::handle::Token;
use crate::p2p::request::Work;
use crate::p2p::runtime::Runtime;
use crate::transport::contract::{Body, Head, Message};
use ferriband_mpi_proto::envelope::{self, Kind};
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
        self.transports.hold(peer, true);
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
                    self.transports.starve(peer);
                    return Ok(false);
                }
                continue;
            }
            let waiting = &self.point.peers[peer as usize].fifo;
            let sent = self.transports.send(peer, waiting.iter())?;
            if sent.count == 0 {
                self.transports.starve(peer);
                return Ok(false);
            }
            for at in 0..sent.count {
                if let Some(message) = self.point.peers[peer as usize].fifo.pop_front() {
                    self.has_gone(peer, message.token, sent.first.wrapping_add(at));
                }
            }
        }
        self.point.stalled.retain(|stalled| *stalled != peer);
        self.transports.hold(peer, false);
        Ok(true)
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
            Work::Rendezvous => {
                self.point.requests[request].seq = seq;
                let name = self.point.requests.token(request);
                self.transports.has_told_key(token, name, seq);
            }
            Work::Moving { .. } => {
                self.transports.has_told_written(peer, token, seq);
                let name = self.point.requests.token(request);
                self.transports.has_told_key(token, name, seq);
            }
            Work::Landing => {
                let name = self.point.requests.token(request);
                self.transports.has_told_key(token, name, seq);
            }
            _ => (),
        }
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
            let room = self.transports.piece(peer);
            let length = source.len().min(room - size_of::<envelope::Piece>());
            let piece = source.part(0, length);
            let head = Head::of(Kind::Piece);
            let sent = self.transports.post(peer, &head, body.as_slice(), piece)?;
            if sent.is_none() {
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
