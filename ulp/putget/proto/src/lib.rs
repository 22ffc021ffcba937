//! Put and get by the second driver of papers/002, without input and output.
//!
//! Owns: the machine of one side of a connection ([`Connection`]): protocol messages, requests,
//! credits, which RDMA is due, leases by which a peer reaches memory itself; what it asks of a
//! process's memory ([`Memory`]) and of its transport ([`Wire`]); the paper's memory, which is
//! found by tags ([`tags`]). Must not know: verbs, Portals, threads, time.
//!
//! docs/design/putget.md says why it is so.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod connection;
mod credits;
mod direct;
mod leases;
pub mod matching;
mod memory;
mod message;
mod requests;
mod serving;
mod stats;
mod status;
pub mod tags;
#[cfg(test)]
mod tests;
mod wire;

pub use connection::{BadConfig, Config, Connection, NotStarted, Start, Started, Violation};
pub use credits::LEAST_RECEIVES;
pub use direct::{DIRECT, Direct, NotDirect};
pub use leases::{LEASES, Lease, Leased};
pub use memory::{Answer, Asked, Granted, Memory};
pub use message::{ADDRESS_BYTES, BadMessage, Flags, HEADER_BYTES, Header, Kind, Message};
pub use message::{Rights, SEGMENT_BYTES, Segment};
pub use stats::{Paths, Requests, Stats};
pub use status::Status;
pub use wire::{DirectJob, DirectOp, Job, NotBegun, Posting, Wire};
