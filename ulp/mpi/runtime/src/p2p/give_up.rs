//! Requests that a call has given up while bytes of theirs may move from or to the program's
//! memory, which is the program's again as soon as the call has returned.
//!
//! Such a message ends at both sides with the class of why the call failed, and its peer is not
//! lost. Owns: what becomes of each kind of request, and of its messages that wait for room. Must
//! not know: how a transport makes sure that nothing moves any more.

use crate::ground::memory::Sink;
use crate::handle::{NOBODY, Token};
use crate::p2p::request::Work;
use crate::p2p::runtime::Runtime;
use crate::transport::contract::{Asked, Message};
use ferriband_mpi_proto::envelope::{Cts, Fin, Kind, Piece};
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

/// How long whoever has failed waits for messages that are under way from or to its memory, before
/// it gives them up.
pub const SETTLING: Duration = Duration::from_millis(200);

/// What waits for room of a message that is given up.
enum Waiting {
    /// Nothing that matters.
    Nothing,
    /// Its end has taken the place of that: nobody knows its memory.
    Ended,
}

impl Runtime {
    /// Whether bytes may still be moved from or to the program's memory for a request.
    #[cold]
    pub fn holds_memory(&self, request: u32) -> bool {
        let entry = &self.point.requests[request];
        match entry.work {
            _ if entry.done => false,
            Work::Pieces { .. } => !entry.sink.is_empty(),
            Work::Moving { .. } | Work::Landing => true,
            // Its receiver may read it; what waits for room can be taken back.
            Work::Rendezvous => entry.seq != 0 && self.transports.is_by_device(entry.peer),
            // Pieces that wait for room.
            Work::Eager => {
                let token = self.point.requests.slab.token(request);
                let fifo = &self.point.peers[entry.peer as usize].fifo;
                fifo.iter().any(|one| one.token == token)
            }
            _ => false,
        }
    }

    /// Whether what still comes for a receive goes nowhere: its memory is the program's.
    #[cold]
    pub fn is_thrown_away(&self, request: u32) -> bool {
        let entry = &self.point.requests[request];
        matches!(entry.work, Work::Pieces { .. }) && entry.sink.is_empty()
    }

    /// Nobody waits for a request any more whose bytes may be on their way: sees to it that nothing
    /// reads or writes its memory, from when [`Runtime::holds_memory`] says so. That is soon,
    /// unless memory that ranks share is read: then there is no way to see to it.
    #[cold]
    pub fn give_up_bytes(&mut self, request: u32) {
        if !self.holds_memory(request) {
            return;
        }
        let entry = &mut self.point.requests[request];
        let (peer, comm) = (entry.peer, entry.comm);
        if let Work::Pieces { .. } = entry.work {
            // They are taken by this rank, and thrown away from here on.
            entry.sink = Sink::EMPTY;
            return;
        }
        let token = self.point.requests.slab.token(request);
        let class = self.point.failure_of(comm);
        if let Waiting::Ended = self.end_in_fifo(peer, token, class) {
            self.withdraw(request);
            self.point.requests[request].status.error = class;
            self.finish(request);
            return;
        }
        for (_, recalled) in &mut self.point.peers[peer as usize].recalled {
            if *recalled == request {
                *recalled = NOBODY;
            }
        }
        let why = "a call failed while its message was under way";
        let has_lost =
            !self.transports.give_up(peer, token, class) && self.transports.cut(peer, why);
        if has_lost && !self.point.peers[peer as usize].lost {
            self.lose(peer);
        }
    }

    /// What says of a message how it is to move, and waits for room, says that it does not.
    fn end_in_fifo(&mut self, peer: u32, token: Token, class: i32) -> Waiting {
        let fifo = &mut self.point.peers[peer as usize].fifo;
        let is_it =
            |one: &Message| one.token == token && matches!(one.head.kind, Kind::Cts | Kind::Piece);
        let Some(at) = fifo.iter().position(is_it) else {
            return Waiting::Nothing;
        };
        let waiting = &mut fifo[at];
        let (name, length, lands) = match waiting.head.kind {
            Kind::Cts => {
                let Ok(cts) = Cts::read_from_bytes(waiting.body.as_slice()) else {
                    return Waiting::Nothing;
                };
                let lands = matches!(Asked::of(&cts), Asked::Lane(_));
                (cts.send_request.get(), cts.length.get(), lands)
            }
            _ => {
                let Ok(piece) = Piece::read_from_bytes(waiting.body.as_slice()) else {
                    return Waiting::Nothing;
                };
                let left = waiting.source.len() as u64;
                (
                    piece.receive_request.get(),
                    piece.offset.get() + left,
                    false,
                )
            }
        };
        let fin = Message::answer(Kind::Fin, Fin::of(name, length, class).as_bytes());
        if lands {
            // Its receive of the lane is posted already: the peer, for whom the message is over
            // then, uses it up by one without bytes.
            fifo.insert(at, fin);
            return Waiting::Nothing;
        }
        *waiting = fin;
        Waiting::Ended
    }
}
