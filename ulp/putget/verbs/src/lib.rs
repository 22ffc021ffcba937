//! Put and get on verbs: the machine of `ferriband-putget-proto` over two crossed RC queue pairs.
//!
//! Owns: queue pairs, completion queues and buffers of connections; how two processes meet by the
//! connection manager ([`Node`]); the thread that serves a process when nobody looks ([`Server`]);
//! the connections of the paper's first driver ([`channels`]). Must not know: what a request means:
//! whose memory it is says the process ([`Users`]).
//!
//! docs/design/putget.md says why it is so.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod adapter;
mod broken;
pub mod channels;
pub mod crossover;
mod hello;
mod keeping;
mod leasing;
mod link;
mod managing;
mod meeting;
mod node;
mod pauses;
mod queues;
pub mod report;
mod server;
pub mod settings;
mod sleep;
mod trace;
mod users;

pub use node::Node;
pub use server::{Server, Waited};
pub use users::{Left, Peer, Users};

use ferriband_ibv::{CmError, OutOfRange, VerbsError};
use ferriband_putget_proto::{BadConfig, Config, Violation};
use std::io;

/// What a process decides for all of its connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// What this side receives.
    pub config: Config,
    /// The longest message that is sent to a peer that takes longer ones than this side, header
    /// included. Bytes.
    pub message_bytes: u32,
    /// The user that peers are told.
    pub uid: u32,
}

impl Settings {
    fn longest_message(&self) -> u32 {
        self.message_bytes.max(self.config.message_bytes)
    }
}

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The verbs API refuses.
    #[error(transparent)]
    Verbs(#[from] VerbsError),
    /// The connection manager has bad news.
    #[error(transparent)]
    Manager(#[from] CmError),
    /// There is no memory, or no thread.
    #[error("{0}")]
    System(#[from] io::Error),
    /// A place outside the buffers: a fault of this crate.
    #[error(transparent)]
    Place(#[from] OutOfRange),
    /// Numbers that cannot be.
    #[error(transparent)]
    Config(#[from] BadConfig),
    /// The peer has broken the protocol.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// The peer has done something else than to send a message.
    #[error("the peer has taken a receive with something that is no message")]
    NoMessage,
    /// The queue pair has failed, or a post to it.
    #[error("the connection has failed")]
    Failed,
    /// The thread that serves the process has ended.
    #[error("the process is not served any more")]
    Dead,
    /// The connection manager has no adapter for the address, or has lost it.
    #[error("the address belongs to no adapter")]
    NoAdapter,
    /// A process listens at one address: its peers know it by that.
    #[error("a process has to listen at one address")]
    Unspecified,
    /// The other side does not speak this protocol, or is another process than the one that was
    /// asked for.
    #[error("the other side is no such process")]
    Foreign,
    /// No peer has this number.
    #[error("there is no such peer")]
    Unknown,
    /// There are as many connections as can be counted.
    #[error("the process has 65,536 connections, which is the most")]
    TooMany,
}
