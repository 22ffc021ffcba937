//! What the adapter tells whoever runs it, and what it is told: incidents, counters, reports of running processes, the file of devices.
//!
//! Owns: the shape of these as JSON and TOML, and the files in which they are kept. Must not know: how the adapter finds any of it
//! out, nor how a person reads it. Both ends depend on this room: the adapter writes, `ferriband` reads.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

/// First byte of a message on a control connection that asks a process to say what it does.
pub const ASK: u8 = 9;
/// First byte of the answer, which brings a descriptor of a file that holds a [`Member`] as JSON.
pub const ANSWER: u8 = 10;
/// Queue pairs of a report at the most.
pub const REPORTED_QPS: usize = 4096;

pub mod config;
pub mod counters;
pub mod incident;
pub mod report;

pub use counters::Counter;
pub use incident::{ConnectionFailure, Event, Incident, PathLost, RequestFailure};
pub use report::{Member, PathReport, PeerReport, PeerState, Progress, QpReport, Trouble, Try};
