//! What messages between two ranks are made of: requests, messages that no receive has asked for,
//! and what concerns one other rank.
//!
//! Owns: all of that, in one structure, so that what is told of a message touches nothing else.
//! Must not know: a transport's structures, collectives.

use crate::errors::Outcome;
use crate::objects::Objects;
use crate::p2p::buffered::Buffers;
use crate::p2p::circles::Faults;
use crate::p2p::due::Due;
use crate::p2p::requests::Requests;
use crate::p2p::unexpected::Unexpected;
use crate::transport::contract::Message;
use std::collections::VecDeque;

/// What messages between two ranks are made of.
pub struct Point {
    /// Requests.
    pub requests: Requests,
    /// Communicators, datatypes and what else the program has handles of.
    pub objects: Objects,
    /// What concerns one other rank, by rank in the world.
    pub peers: Vec<Peer>,
    /// Peers with messages that wait for room.
    pub stalled: Vec<u32>,
    /// Deaths that the launcher has told of.
    pub losses: u32,
    /// Ranks that have died or cannot be reached any more, and communicators that are revoked.
    pub lost: u32,
    /// There is one of either: operations look closer before they begin.
    pub impaired: bool,
    /// What ranks have said about failures.
    pub faults: Faults,
    /// Rank in the world.
    pub rank: u32,
    /// Messages that no receive has asked for.
    pub unexpected: Unexpected,
    /// What messages that were taken ask for.
    pub due: VecDeque<Due>,
    /// The buffers of buffered messages.
    pub buffers: Buffers,
}

/// One other rank.
#[derive(Default)]
pub struct Peer {
    /// It has died, and the others go on.
    pub lost: bool,
    /// Messages that nothing can take now, in order.
    pub fifo: VecDeque<Message>,
    /// Synchronous messages on their way: number and request.
    pub synchronous: Vec<(u32, u32)>,
    /// Messages that are being taken back: number and request.
    pub recalled: Vec<(u32, u32)>,
}

impl Point {
    /// Of rank `rank` of a world of `size`.
    pub fn new(rank: u32, size: u32) -> Outcome<Self> {
        Ok(Self {
            requests: Requests::new(rank)?,
            objects: Objects::new(rank, size)?,
            peers: (0..size).map(|_| Peer::default()).collect(),
            stalled: Vec::new(),
            losses: 0,
            lost: 0,
            impaired: false,
            faults: Faults::default(),
            rank,
            unexpected: Unexpected::default(),
            due: VecDeque::new(),
            buffers: Buffers::default(),
        })
    }
}
