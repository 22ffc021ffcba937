//! The Portals 4 interfaces of a process over the connections of put/get, without input and output.
//!
//! Owns: which request is which interface's, what is under way of requests of both sides, which way
//! an operation goes and what waits, which entries are lent to peers, which rank is which process,
//! and what atomic operations compute: the join of `ferriband-portals-proto`'s interfaces with
//! `ferriband-putget-proto`'s machine. Must not know: verbs, threads, time, how a program's memory
//! is reached ([`Memory`]) and how connections come to be ([`Connections`]).
//!
//! `ferriband-portals` joins it to a program's memory and to queue pairs, the simulator to
//! simulated ones.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod address;
mod arithmetic;
mod connections;
mod leases;
mod memory;
mod moving;
mod process;
mod report;
pub mod settings;

pub use address::ADDRESS_BYTES;
pub use connections::{Connections, Peer};
pub use leases::{Recall, recall};
pub use memory::{By, Memory};
pub use moving::{ORDERED_BYTES, advance, begin};
pub use process::{Hold, Ni, Process, Short};
pub use report::{InterfaceReport, OperationReport, PortalsReport};
