//! Memory of the program's that peers were told of, and what is known of keys of theirs.
//!
//! Must not know: when keys become void ([`super::heal`]), how bytes move.

use super::memory::Reachable;
use crate::transport::contract::Place;
use ferriband_ibv::Access;

/// Memory of the program's that a peer may reach, for one message; or that a landing goes to.
pub struct Offer {
    pub(super) peer: u32,
    pub(super) range: Reachable,
    pub(super) what: Kept,
    /// The generation of the key that the peer knows.
    pub(super) keys: u16,
    /// What the peer calls the message, and the number of the message that told it.
    pub(super) told: Option<(u64, u32)>,
    /// It cannot be reached any more: the class.
    pub(super) class: i32,
}

/// What the memory of an offer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// A message that the peer reads.
    Source,
    /// Where the peer writes to.
    Sink,
    /// Where a message comes by the lane: the peer knows no key.
    Landing,
}

/// A key of the peer's.
pub enum Known {
    /// It is good.
    Good(Place),
    /// It is void until the peer names another one.
    Void,
    /// The message ends with this class.
    Over(i32),
}

impl Kept {
    /// What requests may do there.
    pub(super) fn access(self) -> Access {
        match self {
            Self::Source => Access::REMOTE_READ,
            Self::Sink | Self::Landing => Access::LOCAL_WRITE | Access::REMOTE_WRITE,
        }
    }
}
