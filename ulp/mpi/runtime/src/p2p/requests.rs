//! All requests of a process.
//!
//! Owns: which there are, which are kept for the next receives, which one a call waits for. Must
//! not know: what a request is a part of.

use crate::constants::{MPI_ERR_OTHER, MPI_ERR_TRUNCATE, MPI_SUCCESS};
use crate::errors::{MpiError, Outcome};
use crate::ground::memory::{Sink, Source};
use crate::ground::sleepers::Sleepers;
use crate::ground::status::{Status, status};
use crate::handle::{Kind, NOBODY, Slab, Token};
use crate::objects::comms::WORLD;
use crate::p2p::request::{Request, Work};
use std::ops::{Index, IndexMut};

/// Receives that are kept for the next ones.
const SPARES: usize = 128;

/// All requests of a process.
pub struct Requests {
    /// By index.
    pub slab: Slab<Request>,
    /// Receives that are over and that nobody knows, for the next ones.
    pub spares: Vec<u32>,
    /// Who waits for them.
    pub waits: Waits,
    /// The request of everything that was over at once.
    pub nothing: u32,
    /// Its handle.
    pub over: i32,
}

/// Who waits for requests, and how many are over.
pub struct Waits {
    /// The request that a call waits for, or [`NOBODY`]: a round may end once it is over.
    pub awaited: u32,
    /// Requests that are over, of all that there were.
    pub ended: u32,
    /// The awaited one was over since the round began.
    pub satisfied: bool,
    /// Threads that wait.
    pub sleepers: Sleepers,
}

impl Waits {
    /// The request at `index` is over. True if it is a part of another one, or nobody will ask for
    /// it.
    #[inline(always)]
    fn over(&mut self, index: u32, request: &mut Request) -> bool {
        self.satisfied |= index == self.awaited;
        self.sleepers.over(index);
        self.ended = self.ended.wrapping_add(1);
        request.done = true;
        request.ended = self.ended;
        request.freed || request.parent != NOBODY
    }
}

impl Requests {
    /// Of rank `rank` of the world: none but the one of what is over at once.
    pub fn new(rank: u32) -> Outcome<Self> {
        let mut requests = Self {
            slab: Slab::new(Kind::Request),
            spares: Vec::new(),
            waits: Waits {
                awaited: NOBODY,
                ended: 0,
                satisfied: false,
                sleepers: Sleepers::default(),
            },
            nothing: 0,
            over: 0,
        };
        let mut nothing = Request::send(Work::Nothing, WORLD, 0, rank, Source::EMPTY);
        nothing.done = true;
        requests.nothing = requests.add(nothing)?;
        requests.over = requests.slab.handle(requests.nothing);
        Ok(requests)
    }

    /// What names a request to a peer.
    pub fn token(&self, request: u32) -> u64 {
        u64::from(self.slab.handle(request).cast_unsigned())
    }

    /// The request that a peer names, if it is one that it may name.
    pub fn named(&self, token: u64, peer: u32) -> Option<u32> {
        let handle = i32::try_from(token).ok()?;
        let index = self.slab.index_of(handle)?;
        (self[index].peer == peer && !self[index].done).then_some(index)
    }

    /// Keeps a request; its index.
    #[inline(always)]
    pub fn add(&mut self, request: Request) -> Outcome<u32> {
        self.slab.insert(request).map_err(|_| too_many_requests())
    }

    /// A request is over. True if it is a part of another one, or nobody will ask for it.
    #[inline(always)]
    #[must_use]
    pub fn finish(&mut self, request: u32) -> bool {
        self.waits.over(request, &mut self.slab[request])
    }

    /// A receive has all of its message, which has `length` bytes. True as [`Requests::finish`].
    #[inline(always)]
    #[must_use]
    pub fn received(&mut self, receive: u32, rank: u32, tag: i32, length: u64) -> bool {
        let entry = &mut self.slab[receive];
        entry.status = told(rank, tag, length, entry.sink.len() as u64);
        self.waits.over(receive, entry)
    }

    /// Puts the bytes of a message of rank `from` of the world where its receive wants them. True
    /// as [`Requests::finish`].
    #[inline(always)]
    #[must_use]
    pub fn fill(&mut self, receive: u32, from: u32, name: (u32, i32), body: &Source) -> bool {
        let (rank, tag) = name;
        let entry = &mut self.slab[receive];
        body.copy_to(&entry.sink);
        entry.peer = from;
        entry.status = told(rank, tag, body.len() as u64, entry.sink.len() as u64);
        self.waits.over(receive, entry)
    }

    /// The request that a token names, unless it is over.
    pub fn unfinished(&self, token: Token) -> Option<u32> {
        let request = self.slab.at(token)?;
        (!self[request].done).then_some(request)
    }

    /// A receive that is over and that nobody knows any more, for one into `sink`. To make a
    /// request anew costs as much as the rest of a call.
    #[inline(always)]
    pub fn take_spare(&mut self, sink: Sink) -> Option<u32> {
        if sink.has_gaps() {
            return None;
        }
        self.spares.pop()
    }

    /// A receive is over, and its status is known: it is kept for another one, or goes.
    #[inline(always)]
    pub fn put_back(&mut self, request: u32) {
        let entry = &mut self.slab[request];
        if self.spares.len() == SPARES || entry.work != Work::Receive || entry.has_more() {
            self.slab.discard(request);
            return;
        }
        // Nothing is concerned by it any more, no late answer may name it, and no handle of the
        // program.
        entry.comm = NOBODY;
        entry.freed = true;
        self.slab.retire(request);
        self.spares.push(request);
    }
}

/// The request at an index that the caller knows to be there.
impl Index<u32> for Requests {
    type Output = Request;
    #[inline(always)]
    fn index(&self, index: u32) -> &Request {
        &self.slab[index]
    }
}

impl IndexMut<u32> for Requests {
    #[inline(always)]
    fn index_mut(&mut self, index: u32) -> &mut Request {
        &mut self.slab[index]
    }
}

/// What a receive with `room` bytes is told of a message of `length`.
#[inline(always)]
fn told(rank: u32, tag: i32, length: u64, room: u64) -> Status {
    let (error, length) = if length > room {
        (MPI_ERR_TRUNCATE, room)
    } else {
        (MPI_SUCCESS, length)
    };
    status(rank, tag, error, length)
}

#[cold]
fn too_many_requests() -> MpiError {
    MpiError::with(MPI_ERR_OTHER, "too many requests")
}
