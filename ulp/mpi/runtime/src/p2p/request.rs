//! Requests: sends and receives that are not over when they begin, and what is made of them.

use super::{family, persistent};
use crate::constants::MPIX_ERR_PROC_FAILED_PENDING;
use crate::ground::layout::Layout;
use crate::ground::memory::{Buffer, Sink, Source};
use crate::ground::status::{EMPTY, Status};
use crate::handle::NOBODY;
use crate::p2p::runtime::Runtime;
use ferriband_mpi_proto::matching;
use std::sync::Arc;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A message that waits for room.
    Eager,
    /// A message that waits until it meets its receive.
    Synchronous,
    /// A message that the receiver fetches.
    Rendezvous,
    /// A message to this process itself that waits for its receive.
    Own,
    /// A receive that waits for its message.
    Receive,
    /// A receive whose message comes in pieces: so many bytes will have come, so many have.
    Pieces {
        /// All.
        expected: u64,
        /// Of them.
        received: u64,
    },
    /// A receive whose message is read, or a message that is written: its sender says by a FIN when
    /// so many bytes are there.
    Moving {
        /// All.
        expected: u64,
    },
    /// A receive whose message comes without a FIN: its memory is the transport's until that is
    /// there.
    Landing,
    /// A collective.
    Collective,
    /// What members of a communicator agree about.
    Agreement,
    /// A receive from anybody that waits for its message, and for the program to acknowledge that a
    /// rank has died: over until then, unless its message has come.
    Stranded,
    /// So many requests of the runtime's own, which are over one by one.
    Several(u32),
    /// A buffered message: the buffer's number, and the message's in it.
    Buffered(u32, u64),
    /// Nothing until MPI_Start, and nothing again when it is over.
    Persistent {
        /// Between the two.
        active: bool,
    },
    /// What the program says it is.
    General,
    /// The messages that lie in a buffer.
    Flush,
    /// Nothing: the request that every operation has that was over at once.
    Nothing,
}

/// A request.
pub struct Request {
    /// What it does.
    pub work: Work,
    /// Whether it is over.
    pub done: bool,
    /// Once it is: how many were over then, which says who was first.
    pub ended: u32,
    /// The program has freed it: it goes when it is over.
    pub freed: bool,
    /// Index of its communicator.
    pub comm: u32,
    /// Its context.
    pub context: u64,
    /// Of a send that can be taken back: its number once it has been sent.
    pub seq: u32,
    /// The request that this one is a part of, or [`NOBODY`].
    pub parent: u32,
    /// Rank in the world of the peer; of a receive once it has met its message.
    pub peer: u32,
    /// Whom a receive asks.
    pub asks: matching::Source,
    /// What is sent.
    pub source: Source,
    /// Where it goes.
    pub sink: Sink,
    /// What MPI_Wait says.
    pub status: Status,
    /// How the elements lie that it sends or receives, if there are gaps.
    pub keeps: Option<Arc<Layout>>,
    /// Bytes of the runtime's own that it sends.
    pub memory: Option<Buffer>,
    /// What the kinds have that are more than a message.
    pub extra: Option<Box<Extra>>,
}

/// What some kinds of requests have besides.
pub enum Extra {
    /// What MPI_Start begins.
    Persistent(persistent::Persistent),
    /// The program's functions.
    General(family::General),
}

impl Request {
    /// A send of `source` to `peer`.
    #[inline(always)]
    pub fn send(work: Work, comm: u32, context: u64, peer: u32, source: Source) -> Self {
        Self {
            work,
            done: false,
            ended: 0,
            freed: false,
            comm,
            context,
            seq: 0,
            parent: NOBODY,
            peer,
            asks: matching::Source::Any,
            source,
            sink: Sink::EMPTY,
            status: EMPTY,
            keeps: source.keep(),
            memory: None,
            extra: None,
        }
    }

    /// Whether it is a message and nothing else, and the program still asks for it.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        let is_message = matches!(
            self.work,
            Work::Receive
                | Work::Pieces { .. }
                | Work::Moving { .. }
                | Work::Landing
                | Work::Eager
                | Work::Synchronous
                | Work::Rendezvous
        );
        is_message && self.extra.is_none() && !self.freed
    }

    /// Whether it is a receive that waits for the program's word about a failure.
    #[inline]
    pub fn is_stranded(&self) -> bool {
        self.work == Work::Stranded && self.status.error == MPIX_ERR_PROC_FAILED_PENDING
    }

    /// Whether it keeps anything besides its own words.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.keeps.is_some() || self.memory.is_some() || self.extra.is_some()
    }

    /// One that is more than a message.
    pub fn special(work: Work, comm: u32) -> Self {
        Self::send(work, comm, 0, NOBODY, Source::EMPTY)
    }

    /// Makes one that is kept a receive again, from nobody yet.
    #[inline(always)]
    pub fn renew(&mut self, comm: u32, context: u64, asks: matching::Source, sink: Sink) {
        self.done = false;
        self.freed = false;
        self.work = Work::Receive;
        self.comm = comm;
        self.context = context;
        self.peer = NOBODY;
        self.asks = asks;
        self.sink = sink;
        // What MPI_Cancel leaves as it is.
        self.status = EMPTY;
    }

    /// A receive into `sink`.
    #[inline(always)]
    pub fn receive(comm: u32, context: u64, asks: matching::Source, sink: Sink) -> Self {
        Self {
            asks,
            sink,
            keeps: sink.keep(),
            ..Self::send(Work::Receive, comm, context, u32::MAX, Source::EMPTY)
        }
    }
}

impl Runtime {
    /// A request is over.
    #[inline]
    pub fn finish(&mut self, request: u32) {
        if self.point.requests.finish(request) {
            self.conclude(request);
        }
    }
}
