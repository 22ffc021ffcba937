//! What becomes of a message that has come.
//!
//! Owns: messages that no receive has asked for; which receive takes which message. Must not know:
//! by what path it came.

use crate::constants::{
    MPI_ERR_INTERN, MPI_ERR_NO_MEM, MPI_ERR_OTHER, MPI_ERR_TRUNCATE, MPI_SUCCESS,
};
use crate::errors::{MpiError, Outcome, broken};
use crate::ground::status::status;
use crate::host::Source;
use crate::p2p::point::Point;
use crate::p2p::unexpected::{Content, Held};
use crate::request::Request;
use crate::runtime::Runtime;
use crate::trace;
use ferriband_mpi_proto::envelope::{
    self, Cts, Envelope, Fin, Kind, Matched, Phase, Recall, Rts, SYNC,
};
use zerocopy::{FromBytes, IntoBytes};

impl Point {
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
        self.requests.sleepers.note();
        Ok(())
    }
}

impl Runtime {
    /// A message whose turn it is has come from `from`, by whatever path. Its body may be read
    /// until this returns.
    #[inline]
    pub fn take(&mut self, from: u32, envelope: &Envelope, body: Source) -> Outcome {
        if trace::is_on() {
            write_down(from, envelope, body);
        }
        match envelope.kind {
            Kind::Eager => self.take_eager(from, envelope, body),
            _ => self.take_other(from, envelope, body),
        }
    }

    #[inline]
    fn take_eager(&mut self, from: u32, envelope: &Envelope, body: Source) -> Outcome {
        let is_synchronous = envelope.flags & SYNC != 0;
        if let Some(comm) = self.point.objects.comms.of_context(envelope.context) {
            let entry = &mut self.point.objects.comms[comm];
            let Some(rank) = entry.rank_of(envelope.context, from) else {
                return Err(broken(from));
            };
            if let Some(receive) = entry.matching(envelope.context).arrive(rank, envelope.tag) {
                let request = &mut self.point.requests[receive];
                body.copy_to(&request.sink);
                request.peer = from;
                self.received(receive, rank, envelope.tag, body.len() as u64);
                if is_synchronous {
                    self.tell_matched(from, envelope.seq)?;
                }
                return Ok(());
            }
        }
        let held = Held {
            from,
            tag: envelope.tag,
            content: Content::Bytes(body.to_bytes().ok_or_else(no_memory)?),
            seq: envelope.seq,
            synchronous: is_synchronous.then_some(envelope.seq),
        };
        self.point.unexpected(envelope.context, held)
    }

    #[cold]
    fn take_other(&mut self, from: u32, envelope: &Envelope, body: Source) -> Outcome {
        if self.point.peers[from as usize].lost && envelope.kind != Kind::Rts {
            // What it is about has ended with that rank.
            return Ok(());
        }
        match envelope.kind {
            Kind::Rts => {
                let rts: Rts = body_of(from, body)?;
                self.take_rts(from, envelope, &rts)
            }
            Kind::Cts => {
                let cts: Cts = body_of(from, body)?;
                self.asked_for(from, &cts)
            }
            Kind::Fin => {
                let fin: Fin = body_of(from, body)?;
                self.fetched(from, &fin)
            }
            Kind::Matched => {
                let matched: Matched = body_of(from, body)?;
                self.matched(from, matched.seq.get())
            }
            Kind::Piece => self.take_piece(from, body),
            Kind::Lane => {
                let end = body_of(from, body)?;
                self.take_lane(from, &end)
            }
            Kind::Note => Ok(()),
            Kind::Cancel => {
                let recall: Recall = body_of(from, body)?;
                self.asked_to_forget(from, recall.seq.get())
            }
            Kind::Cancelled => {
                let recall: Recall = body_of(from, body)?;
                self.recalled(from, &recall)
            }
            Kind::Eager | Kind::Bundle => Err(broken(from)),
            Kind::Open => {
                let open = body_of(from, body)?;
                self.take_open(from, &open)
            }
            Kind::Opened => {
                let opened = body_of(from, body)?;
                self.take_opened(from, &opened)
            }
            Kind::Pause | Kind::Paused | Kind::Resume | Kind::Close | Kind::Closed => {
                let phase: Phase = body_of(from, body)?;
                match envelope.kind {
                    Kind::Pause => self.take_pause(from, &phase),
                    Kind::Paused => self.take_paused(from, &phase),
                    Kind::Resume => self.take_resume(from, &phase),
                    Kind::Close => self.take_close(from, &phase),
                    _ => self.take_closed(from, &phase),
                }
            }
        }
    }

    /// A message that has waited meets its receive.
    pub fn deliver_held(&mut self, held: u32, receive: u32) -> Outcome {
        let Some(Held {
            from,
            tag,
            content,
            synchronous,
            ..
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
                self.fetch(receive, rank, tag, request, length, offered)?;
            }
        }
        if let Some(seq) = synchronous {
            self.tell_matched(from, seq)?;
        }
        Ok(())
    }

    /// A receive has all of its message, which has `length` bytes.
    #[inline]
    pub fn received(&mut self, receive: u32, rank: u32, tag: i32, length: u64) {
        let entry = &mut self.point.requests[receive];
        let room = entry.sink.len() as u64;
        let (error, bytes) = if length > room {
            (MPI_ERR_TRUNCATE, room)
        } else {
            (MPI_SUCCESS, length)
        };
        entry.status = status(rank, tag, error, bytes);
        self.finish(receive);
    }

    /// A synchronous message has met its receive.
    pub fn matched(&mut self, peer: u32, seq: u64) -> Outcome {
        let waiting = &mut self.point.peers[peer as usize].synchronous;
        let Some(at) = waiting.iter().position(|(sent, _)| u64::from(*sent) == seq) else {
            return Err(broken(peer));
        };
        let (_, request) = waiting.swap_remove(at);
        self.finish(request);
        Ok(())
    }

    /// Tells the sender of a synchronous message that it has met its receive.
    pub fn tell_matched(&mut self, peer: u32, seq: u32) -> Outcome {
        let body = envelope::Matched {
            seq: u64::from(seq).into(),
        };
        self.answer(peer, Kind::Matched, body.as_bytes())
    }
}

/// The beginning of a body as a structure; a body that is too short breaks the rules.
pub(super) fn body_of<T: FromBytes>(from: u32, body: Source) -> Outcome<T> {
    const LONGEST: usize = 48;
    let size = size_of::<T>();
    if body.len() < size {
        return Err(broken(from));
    }
    let mut bytes = [0; LONGEST];
    body.part(0, size).copy_into(&mut bytes[..size]);
    T::read_from_bytes(&bytes[..size]).map_err(|_| broken(from))
}

/// A message has come to a traced rank.
#[cold]
fn write_down(from: u32, envelope: &Envelope, body: Source) {
    let mut head = [0; 16];
    let length = head.len().min(body.len());
    body.part(0, length).copy_into(&mut head[..length]);
    let (kind, seq, tag) = (envelope.kind, envelope.seq, envelope.tag);
    let context = envelope.context;
    trace::came(from, kind, seq, tag, context, &head[..length], body.len());
}

/// There is no memory for a message that no receive has asked for.
#[cold]
pub fn no_memory() -> MpiError {
    MpiError::with(
        MPI_ERR_NO_MEM,
        "for a message that no receive has asked for",
    )
}
