//! Long messages: what both sides say to each other about one.
//!
//! Owns: RTS, CTS, FIN and the pieces of a message. Must not know: how bytes are read or written
//! without the peer's program.

use crate::constants::{MPI_ERR_PROC_ABORTED, MPI_ERR_TRUNCATE, MPI_SUCCESS};
use crate::errors::{Outcome, broken};
use crate::ground::memory::Source;
use crate::ground::status::status;
use crate::handle::NOBODY;
use crate::p2p::due::Due;
use crate::p2p::point::Point;
use crate::p2p::request::Work;
use crate::p2p::runtime::Runtime;
use crate::p2p::unexpected::{Content, Held};
use crate::transport::Transports;
use crate::transport::contract::{Asked, Body, Fetch, Fetched, Message, Offered, Served, body_of};
use ferriband_mpi_proto::envelope::{self, Envelope, Kind, Piece, Rts};
use zerocopy::{FromBytes, IntoBytes};

impl Point {
    /// A rank has a long message for this one.
    pub(super) fn take_rts(&mut self, from: u32, envelope: &Envelope, rts: &Rts) -> Outcome {
        let (request, length) = (rts.send_request.get(), rts.length.get());
        let offered = Offered::of(rts).ok_or_else(|| broken(from))?;
        if let Some(comm) = self.objects.comms.of_context(envelope.context) {
            let entry = &mut self.objects.comms[comm];
            let rank = entry.rank_of(envelope.context, from);
            if rank.is_none() && !entry.revoked {
                return Err(broken(from));
            }
            if let Some(rank) = rank
                && let Some(receive) = entry.matching(envelope.context).arrive(rank, envelope.tag)
            {
                self.revive(receive);
                self.requests[receive].peer = from;
                self.due.push_back(Due::Fetch {
                    receive: self.requests.slab.token(receive),
                    from,
                    rank,
                    tag: envelope.tag,
                    request,
                    length,
                    offered,
                    told: envelope.seq,
                });
                return Ok(());
            }
        }
        let held = Held {
            from,
            tag: envelope.tag,
            content: Content::Remote {
                request,
                length,
                offered,
            },
            seq: envelope.seq,
            synchronous: None,
        };
        self.unexpected(envelope.context, held)
    }

    /// A piece of a long message has come.
    pub(super) fn take_piece(&mut self, from: u32, body: Source) -> Outcome {
        let piece: Piece = body_of(from, body)?;
        let own = size_of::<Piece>();
        let bytes = body.part(own, body.len() - own);
        let request = self.requests.named(piece.receive_request.get(), from);
        let Some((request, entry)) = request.map(|at| (at, &mut self.requests[at])) else {
            return Err(broken(from));
        };
        let (at, length) = (piece.offset.get(), bytes.len() as u64);
        match &mut entry.work {
            Work::Pieces { expected, received }
                if length != 0 && at.checked_add(length).is_some_and(|end| end <= *expected) =>
            {
                *received += length;
                let is_whole = received >= expected;
                if !entry.sink.is_empty() {
                    bytes.copy_to(&entry.sink.part(at as usize, bytes.len()));
                }
                if is_whole {
                    let receive = self.requests.slab.token(request);
                    self.due.push_back(Due::Whole(receive));
                }
                Ok(())
            }
            _ => Err(broken(from)),
        }
    }
}

impl Runtime {
    /// A long message has met its receive: it is read, or its sender is asked for it.
    pub fn fetch(
        &mut self,
        receive: u32,
        rank: u32,
        tag: i32,
        request: u64,
        length: u64,
        (offered, told): (Offered, u32),
    ) -> Outcome {
        let entry = &self.point.requests[receive];
        let (peer, sink) = (entry.peer, entry.sink);
        let wanted = length.min(sink.len() as u64);
        if self.point.peers[peer as usize].lost {
            return self.never_comes(receive, (rank, tag));
        }
        let what = Fetch {
            receive: self.point.requests.slab.token(receive),
            sink: sink.part(0, wanted as usize),
            send: request,
            length,
            offered,
            told,
            waits: self.point.requests.waits.awaited != NOBODY,
        };
        let fetched = match wanted {
            0 => Fetched::Here,
            _ => self.transports.fetch(peer, &what)?,
        };
        let lengths = (wanted, length);
        match fetched {
            Fetched::Here => {
                self.received(receive, rank, tag, length);
                self.fin(peer, request, length, MPI_SUCCESS)
            }
            Fetched::Coming => {
                let work = Work::Moving { expected: wanted };
                self.expect(receive, (rank, tag), lengths, work);
                Transports::carry(self, peer)
            }
            Fetched::Ask { asked, note } => {
                let work = match asked {
                    Asked::Pieces => Work::Pieces {
                        expected: wanted,
                        received: 0,
                    },
                    _ if asked.has_fin() => Work::Moving { expected: wanted },
                    _ => Work::Landing,
                };
                self.expect(receive, (rank, tag), lengths, work);
                self.ask_for(receive, (request, wanted), asked, note)
            }
            // this message's end, and nothing else's: its sender is told
            Fetched::Failed(class) => {
                self.point.requests[receive].status = status(rank, tag, class, 0);
                self.finish(receive);
                self.fin(peer, request, 0, class)
            }
        }
    }

    /// Asks the sender of `request` for the first `length` bytes of it.
    fn ask_for(
        &mut self,
        receive: u32,
        (request, length): (u64, u64),
        asked: Asked,
        note: u32,
    ) -> Outcome {
        let cts = asked.cts(request, self.point.requests.token(receive), length);
        let peer = self.point.requests[receive].peer;
        let mut message = Message::answer(Kind::Cts, cts.as_bytes());
        message.head.context = note.into();
        message.token = self.point.requests.slab.token(receive);
        self.queue(peer, message)
    }

    /// The messages that wait for `peer` name memory by keys of before: they name it by those that
    /// there are now.
    #[cold]
    pub fn name_keys_anew(&mut self, peer: u32) {
        for message in &mut self.point.peers[peer as usize].fifo {
            let Some(place) = self.transports.place_of(message.token) else {
                continue;
            };
            let body = message.body.as_slice();
            match message.head.kind {
                Kind::Rts => {
                    if let Ok(mut rts) = Rts::read_from_bytes(body)
                        && matches!(Offered::of(&rts), Some(Offered::Readable(_)))
                    {
                        rts.rkey = place.rkey.into();
                        message.body = Body::new(rts.as_bytes());
                    }
                }
                Kind::Cts => {
                    if let Ok(mut cts) = envelope::Cts::read_from_bytes(body)
                        && matches!(Asked::of(&cts), Asked::Written(_))
                    {
                        cts.rkey = place.rkey.into();
                        message.body = Body::new(cts.as_bytes());
                    }
                }
                _ => (),
            }
        }
    }

    /// The first `wanted` bytes of a message of `length` come to a receive as `work` says.
    fn expect(
        &mut self,
        receive: u32,
        (rank, tag): (u32, i32),
        (wanted, length): (u64, u64),
        work: Work,
    ) {
        let error = if length > wanted {
            MPI_ERR_TRUNCATE
        } else {
            MPI_SUCCESS
        };
        let entry = &mut self.point.requests[receive];
        entry.status = status(rank, tag, error, wanted);
        entry.work = work;
    }

    /// Tells a peer that its request has been read, or is written.
    pub fn fin(&mut self, peer: u32, request: u64, length: u64, class: i32) -> Outcome {
        let fin = envelope::Fin::of(request, length, class);
        self.answer(peer, Kind::Fin, fin.as_bytes())
    }

    /// The memory of a request's message need not be reached any more.
    #[inline]
    pub fn withdraw(&mut self, request: u32) {
        let token = self.point.requests.slab.token(request);
        self.transports.withdraw(token);
    }

    /// The receiver asks for the first `length` bytes of a message, some, to be written to its
    /// memory or sent into it.
    fn serve(
        &mut self,
        peer: u32,
        request: u32,
        (length, receive): (u64, u64),
        asked: Asked,
    ) -> Outcome {
        let token = self.point.requests.slab.token(request);
        let source = self.point.requests[request].source.part(0, length as usize);
        match self.transports.serve(peer, token, source, asked, receive)? {
            Served::Moving => {
                self.point.requests[request].work = Work::Moving { expected: length };
                Transports::carry(self, peer)
            }
            Served::Failed(class) => {
                self.point.requests[request].status.error = class;
                self.finish(request);
                self.fin(peer, receive, length, class)
            }
        }
    }

    /// The receiver asks for a message that has ended meanwhile: in a collective of whose ranks one
    /// has died. Its receive ends, too.
    #[cold]
    fn asked_too_late(&mut self, peer: u32, cts: &envelope::Cts) -> Outcome {
        let class = MPI_ERR_PROC_ABORTED;
        match self.transports.refuse(peer, Asked::of(cts), class)? {
            true => Transports::carry(self, peer),
            false => self.fin(peer, cts.receive_request.get(), cts.length.get(), class),
        }
    }

    /// The receiver asks for a message: in pieces, or to be written to its memory.
    pub fn asked_for(&mut self, peer: u32, cts: &envelope::Cts) -> Outcome {
        let Some(request) = self.point.requests.named(cts.send_request.get(), peer) else {
            return self.asked_too_late(peer, cts);
        };
        let entry = &self.point.requests[request];
        let length = cts.length.get();
        let fits = entry.work == Work::Rendezvous
            && cts.offset.get() == 0
            && (1..=entry.source.len() as u64).contains(&length);
        if !fits {
            return Err(broken(peer));
        }
        let asked = Asked::of(cts);
        if asked != Asked::Pieces {
            let what = (length, cts.receive_request.get());
            return self.serve(peer, request, what, asked);
        }
        self.withdraw(request);
        let entry = &self.point.requests[request];
        let piece = envelope::Piece {
            receive_request: cts.receive_request,
            offset: 0.into(),
        };
        let message = Message {
            source: entry.source.part(0, length as usize),
            token: self.point.requests.slab.token(request),
            ..Message::answer(Kind::Piece, piece.as_bytes())
        };
        // Not asked for twice.
        self.point.requests[request].work = Work::Eager;
        self.queue(peer, message)
    }

    /// A message has been read by its receiver, or will never be; or its sender has written it.
    pub fn fetched(&mut self, peer: u32, fin: &envelope::Fin) -> Outcome {
        let Some(request) = self.point.requests.named(fin.request.get(), peer) else {
            // Over already: a collective of whose ranks one has died.
            return Ok(());
        };
        let entry = &mut self.point.requests[request];
        let is_receive = entry.source.is_empty();
        match entry.work {
            Work::Rendezvous => (),
            Work::Moving { expected } if is_receive && fin.length.get() == expected => (),
            Work::Pieces { .. } if fin.status.get() != 0 => (),
            _ => return Err(broken(peer)),
        }
        // Its sender cannot write it, or it cannot be read.
        if fin.status.get() != 0 {
            entry.status.error = fin.status.get().cast_signed();
        }
        self.withdraw(request);
        self.finish(request);
        Ok(())
    }
}
