//! What becomes of a message that has come.
//!
//! Owns: which receive takes which message, and what is made of what ranks say to each other about
//! messages. Must not know: by what path one came.

use crate::constants::{MPI_ERR_INTERN, MPI_ERR_NO_MEM, MPI_ERR_OTHER, MPI_SUCCESS};
use crate::errors::{MpiError, Outcome, broken};
use crate::ground::memory::Source;
use crate::handle::Token;
use crate::p2p::due::Due;
use crate::p2p::point::Point;
use crate::p2p::request::Request;
use crate::p2p::runtime::Runtime;
use crate::p2p::unexpected::{Content, Held};
use crate::transport::contract::{Body, Deliver, Done, Message, Verdict, body_of};
use ferriband_mpi_proto::envelope::{Cts, Envelope, Fin, Kind, Matched, Recall, Rts, SYNC};
use zerocopy::IntoBytes;

impl Deliver for Point {
    #[inline(always)]
    fn eager(&mut self, from: u32, envelope: &Envelope, body: Source) -> Outcome<Verdict> {
        if envelope.kind != Kind::Eager {
            return self.other(from, envelope, body);
        }
        let (tag, context) = (envelope.tag, envelope.context);
        let Some((entry, rank)) = self.objects.comms.of_sender(context, from) else {
            return self.keep(from, envelope, body);
        };
        let Some(receive) = entry.matching(context).arrive(rank, tag) else {
            return self.keep(from, envelope, body);
        };
        let ends_more = self.requests.fill(receive, from, (rank, tag), &body);
        if ends_more || envelope.flags & SYNC != 0 {
            return Ok(self.say_met(receive, ends_more, from, envelope));
        }
        Ok(self.verdict())
    }

    fn done(&mut self, peer: u32, token: Token, done: Done) -> Verdict {
        let Some(request) = self.requests.unfinished(token) else {
            return Verdict::Next;
        };
        let (Done::Over { class } | Done::Told { class, .. }) = done;
        if class != MPI_SUCCESS {
            self.requests[request].status.error = class;
        }
        self.finish(request);
        if let Done::Told {
            name,
            length,
            class,
        } = done
        {
            let fin = Body::new(Fin::of(name, length, class).as_bytes());
            // What waits may say that all is written.
            let mut fifo = self.peers[peer as usize].fifo.iter_mut();
            let is_it = |one: &&mut Message| one.token == token && one.head.kind == Kind::Fin;
            match fifo.find(is_it) {
                Some(waiting) => waiting.body = fin,
                None => self.due.push_back(Due::Tell(peer, Kind::Fin, fin)),
            }
        }
        match self.due.is_empty() {
            true => self.verdict(),
            false => Verdict::Stop,
        }
    }
}

impl Point {
    /// Whether the next message may be told: not once what a call waits for is over.
    #[inline(always)]
    fn verdict(&self) -> Verdict {
        if self.requests.waits.satisfied {
            Verdict::Stop
        } else {
            Verdict::Next
        }
    }

    /// A message has met its receive, which `ends_more` than itself, or the sender is to be told.
    #[cold]
    fn say_met(
        &mut self,
        receive: u32,
        ends_more: bool,
        from: u32,
        envelope: &Envelope,
    ) -> Verdict {
        if ends_more {
            self.over(receive);
        }
        if envelope.flags & SYNC != 0 {
            self.tell_matched(from, envelope.seq);
        }
        Verdict::Stop
    }

    /// A message of the program for which no receive waits.
    #[inline(never)]
    fn keep(&mut self, from: u32, envelope: &Envelope, body: Source) -> Outcome<Verdict> {
        let held = Held {
            from,
            tag: envelope.tag,
            content: Content::Bytes(body.to_bytes().ok_or_else(no_memory)?),
            seq: envelope.seq,
            synchronous: (envelope.flags & SYNC != 0).then_some(envelope.seq),
        };
        self.unexpected(envelope.context, held)?;
        Ok(self.verdict())
    }

    /// What ranks say to each other about messages.
    #[cold]
    fn other(&mut self, from: u32, envelope: &Envelope, body: Source) -> Outcome<Verdict> {
        if self.peers[from as usize].lost && !matches!(envelope.kind, Kind::Rts | Kind::Fault) {
            // What it is about has ended with that rank.
            return Ok(Verdict::Next);
        }
        match envelope.kind {
            Kind::Rts => {
                let rts: Rts = body_of(from, body)?;
                self.take_rts(from, envelope, &rts)?;
            }
            Kind::Cts => {
                let cts: Cts = body_of(from, body)?;
                self.due.push_back(Due::Asked(from, cts));
            }
            Kind::Fin => {
                let fin: Fin = body_of(from, body)?;
                self.due.push_back(Due::Moved(from, fin));
            }
            Kind::Matched => {
                let matched: Matched = body_of(from, body)?;
                self.matched(from, matched.seq.get())?;
            }
            Kind::Piece => self.take_piece(from, body)?,
            Kind::Fault => {
                let word = body.to_bytes().ok_or_else(no_memory)?;
                let (tag, context) = (envelope.tag, envelope.context);
                self.due.push_back(Due::Fault(from, tag, context, word));
            }
            Kind::Cancel => {
                let recall: Recall = body_of(from, body)?;
                self.asked_to_forget(from, recall.seq.get());
            }
            Kind::Cancelled => {
                let recall: Recall = body_of(from, body)?;
                self.recalled(from, &recall)?;
            }
            _ => return Err(broken(from)),
        }
        Ok(match self.due.is_empty() {
            true => self.verdict(),
            false => Verdict::Stop,
        })
    }

    /// A message that no receive has asked for.
    pub(super) fn unexpected(&mut self, context: u64, held: Held) -> Outcome {
        match self.objects.comms.of_context(context) {
            Some(comm) => self.hold(comm, context, held),
            None => {
                self.unexpected.orphans.push_back((context, held));
                Ok(())
            }
        }
    }

    /// A message waits for its receive.
    pub fn hold(&mut self, comm: u32, context: u64, held: Held) -> Outcome {
        if self.objects.comms[comm].revoked {
            self.discard(held);
            return Ok(());
        }
        let (from, tag) = (held.from, held.tag);
        let Some(source) = self.objects.comms[comm].rank_of(context, from) else {
            return Err(broken(from));
        };
        let index = self
            .unexpected
            .held
            .insert(held)
            .map_err(|_| MpiError::with(MPI_ERR_OTHER, "too many unexpected messages"))?;
        self.objects.comms[comm]
            .matching(context)
            .hold(source, tag, index);
        self.requests.waits.sleepers.note();
        Ok(())
    }

    /// A synchronous message has met its receive.
    pub fn matched(&mut self, peer: u32, seq: u64) -> Outcome {
        let waiting = &mut self.peers[peer as usize].synchronous;
        let Some(at) = waiting.iter().position(|(sent, _)| u64::from(*sent) == seq) else {
            return Err(broken(peer));
        };
        let (_, request) = waiting.swap_remove(at);
        self.finish(request);
        Ok(())
    }

    /// Tells the sender of a synchronous message that it has met its receive.
    pub fn tell_matched(&mut self, peer: u32, seq: u32) {
        let body = Matched {
            seq: u64::from(seq).into(),
        };
        let body = Body::new(body.as_bytes());
        self.due.push_back(Due::Tell(peer, Kind::Matched, body));
    }
}

impl Runtime {
    /// A message that has waited meets its receive.
    pub fn deliver_held(&mut self, held: u32, receive: u32) -> Outcome {
        let Some(Held {
            from,
            tag,
            content,
            synchronous,
            seq: told,
        }) = self.point.unexpected.held.remove(held)
        else {
            return Err(MpiError::new(MPI_ERR_INTERN));
        };
        let Request { comm, context, .. } = self.point.requests[receive];
        let Some(rank) = self.point.objects.comms[comm].rank_of(context, from) else {
            return Err(broken(from));
        };
        self.point.requests[receive].peer = from;
        match content {
            Content::Bytes(bytes) => {
                self.point.requests[receive].sink.fill(&bytes);
                self.received(receive, rank, tag, bytes.len() as u64);
            }
            Content::Own { request } => {
                let source = self.point.requests[request].source;
                source.copy_to(&self.point.requests[receive].sink);
                self.received(receive, rank, tag, source.len() as u64);
                self.finish(request);
            }
            Content::Remote {
                request,
                length,
                offered,
            } => {
                self.fetch(receive, rank, tag, request, length, (offered, told))?;
            }
        }
        if let Some(seq) = synchronous {
            self.point.tell_matched(from, seq);
            self.settle_due()?;
        }
        Ok(())
    }

    /// A receive has all of its message, which has `length` bytes.
    #[inline]
    pub fn received(&mut self, receive: u32, rank: u32, tag: i32, length: u64) {
        if self.point.requests.received(receive, rank, tag, length) {
            self.conclude(receive);
        }
    }
}

/// There is no memory for a message that no receive has asked for.
#[cold]
pub fn no_memory() -> MpiError {
    MpiError::with(
        MPI_ERR_NO_MEM,
        "for a message that no receive has asked for",
    )
}
