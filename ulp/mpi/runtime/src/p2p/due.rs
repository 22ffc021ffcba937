//! What messages that have come ask this rank to do.
//!
//! Who is told of a message by a transport sends nothing meanwhile, so what it asks for is written
//! down, and done when the transport has returned. One that comes by memory that ranks share stops
//! the next ones, so of those there is one; of those by a device, one for each message of a bundle,
//! or of those that are taken from a block at once.
//!
//! Owns: what is written down. Must not know: by what path a message came.

use crate::constants::MPI_ERR_PROC_ABORTED;
use crate::errors::Outcome;
use crate::handle::Token;
use crate::p2p::point::Point;
use crate::p2p::request::Work;
use crate::p2p::runtime::Runtime;
use crate::transport::contract::{Body, Offered};
use ferriband_mpi_proto::envelope::{Cts, Fin, Kind};

/// What a message asks for that has been taken.
pub enum Due {
    /// A receive has met a long message, and is to have it.
    Fetch {
        /// The receive.
        receive: Token,
        /// Rank of the sender in the world.
        from: u32,
        /// Rank of the sender in the communicator.
        rank: u32,
        /// The message's tag.
        tag: i32,
        /// What the sender calls it.
        request: u64,
        /// Its bytes.
        length: u64,
        /// How it can be had.
        offered: Offered,
        /// The number of the message that said so.
        told: u32,
    },
    /// A rank of the world asks for a long message.
    Asked(u32, Cts),
    /// A rank of the world has read a long message or written one, or never will.
    Moved(u32, Fin),
    /// A receive has all pieces of its message.
    Whole(Token),
    /// A send has been taken back.
    Cancelled(Token),
    /// A message that was given up has been taken back by its receiver: its number.
    TakenBack(u32, u32),
    /// A request is over that is a part of another one, or that nobody will ask for.
    Over(Token),
    /// A rank of the world says this about failures: tag and context of its word, and the word.
    Fault(u32, i32, u64, Box<[u8]>),
    /// A rank of the world has died.
    Death(u32),
    /// A communicator has come to be that others have revoked: its context.
    Revoked(u64),
    /// A communicator is gone whose members have agreed: its context.
    Freed(u64),
    /// A rank of the world is to be told this.
    Tell(u32, Kind, Body),
}

impl Point {
    /// A request is over.
    #[inline]
    pub fn finish(&mut self, request: u32) {
        if self.requests.finish(request) {
            self.over(request);
        }
    }

    /// A request is over that is a part of another one, or that nobody will ask for.
    #[cold]
    pub fn over(&mut self, request: u32) {
        let request = self.requests.slab.token(request);
        self.due.push_back(Due::Over(request));
    }
}

impl Runtime {
    /// Does what messages that were taken ask for. After an error the rest is still to be done, in
    /// the next round.
    #[inline(always)]
    pub fn settle_due(&mut self) -> Outcome {
        if self.point.due.is_empty() {
            return Ok(());
        }
        self.settle_all()
    }

    #[inline(never)]
    fn settle_all(&mut self) -> Outcome {
        while let Some(due) = self.point.due.pop_front() {
            self.settle_one(due)?;
        }
        Ok(())
    }

    fn settle_one(&mut self, due: Due) -> Outcome {
        match due {
            Due::Fetch {
                receive,
                from,
                rank,
                tag,
                request,
                length,
                offered,
                told,
            } => match self.point.requests.unfinished(receive) {
                Some(receive) => self.fetch(receive, rank, tag, request, length, (offered, told)),
                // Its sender has died, or its communicator was revoked meanwhile: who lives waits
                // for a word.
                None => {
                    let ended = self.point.requests.slab.at(receive);
                    let class = ended.map_or(MPI_ERR_PROC_ABORTED, |ended| {
                        self.point.requests[ended].status.error
                    });
                    self.fin(from, request, 0, class)
                }
            },
            Due::Asked(peer, cts) => self.asked_for(peer, &cts),
            Due::Moved(peer, fin) => self.fetched(peer, &fin),
            Due::Whole(receive) => {
                if let Some(receive) = self.point.requests.unfinished(receive)
                    && let Work::Pieces { expected, .. } = self.point.requests[receive].work
                {
                    let peer = self.point.requests[receive].peer;
                    self.transports.has_come(peer, expected);
                    self.finish(receive);
                }
                Ok(())
            }
            Due::Cancelled(send) => {
                if let Some(send) = self.point.requests.unfinished(send) {
                    self.cancelled(send);
                }
                Ok(())
            }
            Due::TakenBack(peer, seq) => {
                self.transports.has_taken_back(peer, seq);
                Ok(())
            }
            Due::Over(request) => {
                if let Some(request) = self.point.requests.slab.at(request) {
                    self.conclude(request);
                }
                Ok(())
            }
            Due::Fault(from, tag, context, word) => self.take_fault(from, tag, context, word),
            Due::Death(rank) => self.tell_of_death(rank),
            Due::Revoked(context) => match self.point.objects.comms.of_context(context) {
                Some(comm) => self.become_revoked(comm),
                None => Ok(()),
            },
            Due::Freed(context) => self.free_circle(context),
            Due::Tell(peer, kind, body) => self.answer(peer, kind, body.as_slice()),
        }
    }
}
