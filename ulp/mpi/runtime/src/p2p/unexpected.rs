//! Messages that have come and that no receive has asked for.
//!
//! Owns: those messages, until their receive or their communicator is there. Must not know: by what
//! path they came.

use crate::handle::{Kind, Slab};
use crate::transport::contract::Offered;
use std::collections::{HashMap, VecDeque};

/// Messages that no receive has asked for.
pub struct Unexpected {
    /// Messages that wait for their receive.
    pub held: Slab<Held>,
    /// Those of them that MPI_Mprobe has taken out: the communicator.
    pub probed: HashMap<u32, u32>,
    /// Messages of a context that is not known yet.
    pub orphans: VecDeque<(u64, Held)>,
}

impl Default for Unexpected {
    fn default() -> Self {
        Self {
            held: Slab::new(Kind::Message),
            probed: HashMap::new(),
            orphans: VecDeque::new(),
        }
    }
}

/// A message that has come and waits for its receive.
pub struct Held {
    /// Rank of the sender in the world.
    pub from: u32,
    /// Its tag.
    pub tag: i32,
    /// Its bytes, or where they are.
    pub content: Content,
    /// Its number among those of its sender.
    pub seq: u32,
    /// The number to name in the answer if the sender waits for the match.
    pub synchronous: Option<u32>,
}

/// Where the bytes of a message are.
pub enum Content {
    /// Here.
    Bytes(Box<[u8]>),
    /// With the sender.
    Remote {
        /// Its request.
        request: u64,
        /// Bytes.
        length: u64,
        /// How they can be had.
        offered: Offered,
    },
    /// In a send of this process to itself.
    Own {
        /// That request.
        request: u32,
    },
}
