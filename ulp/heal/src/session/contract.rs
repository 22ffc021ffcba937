//! What a session and its owner say to each other.

use crate::cause::{Cause, Reason};
use crate::datagram::{Datagram, Endpoint};
use crate::number::{AdapterId, Epoch, Ns, Number, PathId, Word};

/// Where a connection is. The order of the numbers lets a short path ask one question: what is
/// below [`State::Asking`] may bring messages, and 0 may be sent by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// Messages go.
    Up = 0,
    /// What the peer has not taken is sent again.
    Replaying = 1,
    /// The peer's question is answered; it may send.
    Answering = 2,
    /// The peer is asked for a new life.
    Asking = 3,
    /// The last life is over: its queue pairs are destroyed, or will be.
    Fenced = 4,
    /// There was no life.
    Idle = 5,
    /// There will be none.
    Lost = 6,
}

/// What the owner has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Destroy every queue pair to the peer, take or throw away what they have delivered, then call
    /// [`super::Session::fenced`]. A replay under way is abandoned.
    Fence {
        /// The life that is over.
        of: Epoch,
        /// Why.
        cause: Cause,
    },
    /// Make a queue pair and take it to INIT, then call [`super::Session::made`].
    Make {
        /// On this adapter.
        adapter: AdapterId,
        /// By this port; 0: [`super::Session::handle_paths`] has told of none.
        port: u8,
    },
    /// Take the queue pair to where it may send and receive, then call
    /// [`super::Session::connected`].
    Connect {
        /// The life.
        epoch: Epoch,
        /// The peer's end.
        end: Endpoint,
        /// The path by which the peer was heard.
        by: PathId,
    },
    /// Send again what the peer has not taken, then call [`super::Session::replayed`].
    Replay {
        /// What this side has told.
        own: Word,
        /// What the peer has told.
        peer: Word,
    },
    /// Messages may be sent.
    Up,
    /// There will be no connection; all queue pairs are destroyed.
    Lost(Reason),
}

/// What the fence has found; [`super::Session::fenced`] makes a word of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Taken {
    /// The last number that was taken of the peer.
    pub received: Number,
    /// The last number that was given to a message for it before own keys became those of
    /// generation `keys`.
    pub sent: Number,
    /// The last number that it has acknowledged.
    pub acknowledged: Number,
    /// The last landing of the lane here.
    pub landed: u32,
    /// Generation of own keys.
    pub keys: u16,
}

/// How long things last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// After so much silence, or so long without an adapter, a peer is lost; none: never.
    pub heal_for: Option<Ns>,
    /// The first pause of the back-off of law 8.
    pub first_ns: u64,
    /// Its longest.
    pub longest_ns: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            heal_for: Some(Ns(300_000_000_000)),
            first_ns: 1_000_000,
            longest_ns: 1_000_000_000,
        }
    }
}

/// What happened to an adapter of this side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdapterChange {
    /// It cannot be used, or its port is down.
    Failed(AdapterId),
    /// It can be used again.
    Back(AdapterId),
    /// No adapter of this process can be used.
    NoneLeft,
}

/// What others say of the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerNews {
    /// It is dead.
    Dead,
    /// It has finalised.
    Over,
    /// It lives.
    Alive,
}

/// A datagram to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// The datagram; its owner fills in [`Datagram::origin`] and the port's address.
    pub datagram: Datagram,
    /// By this path.
    pub by: PathId,
}
