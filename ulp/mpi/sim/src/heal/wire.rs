//! Queue pairs that keep order until they fail, what is posted to them, and what is between the
//! datagrams' sender and its receiver.

use super::device::Spot;
use ferriband_heal::{Epoch, Ns, PathId};
use ferriband_mpi_proto::fast::Plan;
use std::collections::VecDeque;
use std::ops::Range;

/// What only ranks of the job know.
pub const SECRET: u64 = 0x1234_5678_9abc_def0;
/// Requests that a queue pair holds.
pub const DEPTH: usize = 8;

pub type Outcome<T = ()> = Result<T, String>;

/// How a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Eager,
    /// It is over when it has met its receive.
    Synchronous,
    /// RGet.
    Read,
    /// RPut, or by the lane.
    Whole,
    /// In pieces: elements lie with gaps.
    Pieces,
}

/// How a long message is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// Into memory that this key of the receiver's names: its generation.
    Key(u16),
    /// Into the receive of this number of the lane.
    Lane(u32),
    Pieces,
}

/// What a message says. A long message is named by its place among all of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// A message of the program, whole.
    Data(usize),
    /// Where a long one lies, and the generation of the key for that.
    Rts(usize, Way, u16),
    /// With the last landing.
    Cts(usize, To, u32),
    /// It is over; `is_error`: without its bytes.
    Fin {
        letter: usize,
        is_error: bool,
    },
    Matched(usize),
    Cancel(usize),
    Cancelled(usize, bool),
    /// The queue pair of the lane, 0: there is none.
    Lane(u32, Epoch),
    Piece(usize, u32),
    /// The last landing.
    Note(u32),
    /// The memory of a long message has a key of this generation now; none: it is over.
    Renew(usize, Option<u16>),
    Open(Plan, u32),
    Opened(u32, bool),
    Closed(u32),
    Pause {
        epoch: u32,
        own: bool,
    },
    Paused(u32),
    Resume {
        epoch: u32,
        owns: u32,
    },
}

impl Body {
    pub fn is_numbered(self) -> bool {
        !matches!(
            self,
            Self::Note(_)
                | Self::Renew(..)
                | Self::Open(..)
                | Self::Opened(..)
                | Self::Closed(_)
                | Self::Pause { .. }
                | Self::Paused(_)
                | Self::Resume { .. }
        )
    }

    /// Whether it means something beyond the life in which it was queued.
    pub fn outlives(self) -> bool {
        self.is_numbered() && !matches!(self, Self::Lane(..))
    }
}

/// A message by SEND: several of the program, one, or a word of the ranks' own.
#[derive(Clone, Debug, Default)]
pub struct Message {
    /// Number of the first; 0 of those without.
    pub first: u32,
    pub items: VecDeque<Body>,
    /// The last number that its sender has taken.
    pub ack: u32,
    /// Granules that its sender has consumed of the block that the receiver writes to.
    pub credit: u32,
    /// Part of it is taken.
    pub is_begun: bool,
    /// Its envelope is left out; these are the numbers.
    pub brief: Option<u32>,
}

/// A request.
#[derive(Clone, Debug)]
pub enum Op {
    Send(Message),
    /// A record, or a mark, of this life of the channel.
    Record {
        life: u32,
        at: u32,
        bytes: Vec<u8>,
        record: Option<Range<usize>>,
        body: Option<(u32, Body)>,
    },
    /// Credit and an acknowledgement.
    Word(u64),
    Part(Part),
}

/// A part of a long message.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub how: How,
    pub transfer: u32,
    pub letter: usize,
    /// The message in whose memory the peer's key lies.
    pub memory: usize,
    pub chunk: u32,
    /// Generations of the peer's key and of the own one.
    pub key: u16,
    pub own: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Read,
    Write,
    /// All of it by the lane; or nothing but that it cannot be sent.
    Lane {
        is_error: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuePairState {
    Init,
    Connected,
    Error,
    Destroyed,
}

/// An end of a connection. Its number is its place plus 1.
#[derive(Clone, Debug)]
pub struct QueuePair {
    pub owner: usize,
    pub peer: usize,
    pub state: QueuePairState,
    pub life: Epoch,
    pub remote: Option<usize>,
    pub path: PathId,
    /// From which port, and the opening of its adapter; whither, and by which route.
    pub from: Spot,
    pub opening: u32,
    pub to: Spot,
    pub route: u16,
    /// When the oldest request was posted that has no answer.
    pub oldest: Option<Ns>,
    pub sends: VecDeque<Op>,
    /// What is acknowledged here and not placed.
    pub limbo: VecDeque<Op>,
    /// Something is going to arrive, or to be placed.
    pub moves: bool,
    pub places: bool,
    /// Since when its first message does not arrive, and how long the adapter tries.
    pub stuck: Option<Ns>,
    pub tries_ns: u64,
    /// It is a lane, with these receives.
    pub landings: VecDeque<usize>,
    pub is_lane: bool,
}

/// What the adapter says of a queue pair.
#[derive(Clone, Debug)]
pub enum Completion {
    Message(Message),
    /// A part has gone or come.
    Done(u32),
    /// A part is not to be had: the program's memory is not there.
    Fault(u32),
    /// A message has come by the lane.
    Landed(usize, Landing),
    /// It is in error.
    Error,
}

/// How a message has come by the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landing {
    Whole,
    /// Without its bytes: its sender has no memory for it.
    Empty,
    /// Its receiver has no memory for it.
    Fault,
}
