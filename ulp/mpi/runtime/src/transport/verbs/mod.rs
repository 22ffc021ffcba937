//! The other ranks by verbs: a device, and to each peer that is spoken to a reliable connection,
//! made when there is first need of it.
//!
//! Owns: the device and what is made of it, the shared receive queue and its buffers, the
//! connections and how they come about ([`setup`]), which request a completion is about
//! ([`receive`]), what is said about connections ([`send`]), and long messages ([`long`]). Must not
//! know: what a message says beyond its envelope, requests of the program, communicators. Memory
//! that a device or a peer writes, and the program's memory in requests, are touched in [`memory`]
//! alone.

mod acks;
mod block;
mod bundle;
mod channel;
mod device;
mod errors;
mod faults;
mod heal;
mod id;
mod keys;
mod lane;
mod lay;
mod life;
pub mod link;
mod long;
pub mod memory;
mod moves;
mod news;
mod numbers;
mod offers;
mod post;
mod queue;
mod rail;
mod receive;
mod rest;
mod send;
mod setup;
mod stages;
pub mod stats;

use crate::handle::Token;
use crate::transport::contract::{Deliver, Done, Reached, Verdict};
use crate::transport::limits::Limits;
use block::Blocks;
use bundle::Coalesce;
use ferriband_heal::kept::Budget;
use ferriband_mpi_proto::settings::LONGEST_BY_PACKETS;
use heal::Rails;
pub use heal::{call_attention, heed_attention, wants_attention};
use id::Id;
use life::Life;
use link::Link;
use moves::Moves;
pub use news::Told;
use rail::Rail;
pub use receive::Round;
use setup::Connect;
use stages::Stages;
use stats::Stats;
use std::sync::Arc;

/// Bytes of a receive buffer: the longest message that comes eagerly, and its envelope.
const RECEIVE: u32 = 8192;
/// Bytes of a receive buffer where our own adapter makes packets: longer messages come eagerly
/// there, and short ones together.
const LONG_RECEIVE: u32 = LONGEST_BY_PACKETS as u32 + 64;
/// Bytes of messages that go together, so that they cost one run of packets: 56 of 1,024 bytes are
/// what the kernel takes at once.
const BUNDLE: u32 = 56 << 10;
/// Receives that are posted at first.
const RECEIVES: u32 = 64;
/// The most that are posted, once they have run short.
const MOST_RECEIVES: u32 = 1024;
/// Bytes of a staging buffer: a record of the longest message, wherever in its line it begins.
const STAGE: u32 = 8512;
/// Bytes of a message with its envelope that go into the request itself.
const INLINE: usize = 256;

/// The port by which a device is chosen.
const PORT: u8 = 1;
/// Bytes of the route header before a datagram.
const GRH: u32 = 40;
/// Datagrams that can lie here before they are looked at.
const DATAGRAMS: u32 = 128;
/// Datagrams that can be under way from here.
const MOST_DATAGRAMS: u32 = 64;

/// The devices and what is connected by them.
pub struct Net {
    /// The device in hand: the one whose completions are looked at.
    rail: Rail,
    /// The others, and what is known of all.
    rails: Rails,
    stages: Stages,
    connect: Connect,
    /// By rank: connections, of those that there is one to, or that there will be.
    links: Vec<Option<Box<Link>>>,
    /// What all of them may keep of messages that are not acknowledged.
    log: Arc<Budget>,
    blocks: Blocks,
    moves: Moves,
    coalesce: Coalesce,
    life: Life,
    /// What was set.
    limits: Limits,
    /// What has been counted.
    pub stats: Stats,
}

/// What a look at the device is lent.
struct Lent<'a, R, D> {
    /// What is known of the other ranks.
    roster: &'a R,
    /// Who is told of messages.
    to: &'a mut D,
    /// Whoever is told has something to do before more is looked at.
    is_stopped: bool,
}

impl<'a, R, D: Deliver> Lent<'a, R, D> {
    #[inline]
    fn new(roster: &'a R, to: &'a mut D) -> Self {
        Self {
            roster,
            to,
            is_stopped: false,
        }
    }

    /// The long message of `token` has come to this.
    fn done(&mut self, peer: u32, token: Token, done: Done) {
        self.is_stopped |= self.to.done(peer, token, done) == Verdict::Stop;
    }
}

/// Whether a peer can be sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ready {
    Yes,
    /// Its connection is being made.
    NotYet,
}
