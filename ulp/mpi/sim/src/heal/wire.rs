//! Queue pairs that keep order until they fail, and what is between the datagrams' sender and its
//! receiver.

use ferriband_heal::{Epoch, Ns, PathId};
use std::collections::{BTreeMap, VecDeque};

/// What only ranks of the job know.
pub const SECRET: u64 = 0x1234_5678_9abc_def0;

pub type Outcome<T = ()> = Result<T, String>;

/// A message by SEND: several of the program, one, or an acknowledgement alone.
#[derive(Clone, Debug)]
pub struct Message {
    /// Number of the first.
    pub first: u32,
    /// What each says.
    pub items: VecDeque<u64>,
    /// The last number that its sender has taken.
    pub ack: u32,
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
    pub sends: VecDeque<Message>,
    /// Something is going to arrive.
    pub moves: bool,
    /// Since when its first message does not arrive, and how long the adapter tries.
    pub stuck: Option<Ns>,
    pub tries_ns: u64,
}

/// What the adapter says of a queue pair.
#[derive(Clone, Debug)]
pub enum Completion {
    Message(Message),
    /// It is in error.
    Error,
}

/// Which paths carry nothing, each in one direction: from, to, path; and until when.
#[derive(Clone, Debug, Default)]
pub struct Dead(BTreeMap<(usize, usize, u8), Ns>);

impl Dead {
    pub fn until(&mut self, from: usize, to: usize, path: PathId, at: Ns) {
        self.0.insert((from, to, path.0), at);
    }

    pub fn is_dead(&self, from: usize, to: usize, path: PathId, now: Ns) -> bool {
        self.0
            .get(&(from, to, path.0))
            .is_some_and(|until| now < *until)
    }
}
