//! Bytes to headers and back: every header of the InfiniBand transport, the opcode table that says which follow
//! which, packets native and over UDP (RoCEv2), their CRCs and captures of them; and the management datagrams.
//!
//! Knows no state and no time. Nothing here allocates, recurses or panics on any bytes; what a queue pair does with a
//! packet is `ferriband-transport`'s business.
#![forbid(unsafe_code)]

mod aeth;
mod any_mad;
mod atomic;
pub mod attributes;
mod bth;
pub mod capture;
pub mod cm;
mod datagram;
mod display;
mod error;
pub mod fault;
mod gap_report;
mod grh;
mod header;
mod icrc;
mod icrc_runs;
mod immediate;
mod ip;
mod lrh;
pub mod mad;
mod management;
mod native;
mod opcode;
mod packet;
pub mod pcap;
pub mod pcapng;
mod reth;
mod rmpp;
mod roce;
pub mod sa;
pub mod smp;
mod types;
mod vcrc;

pub use aeth::*;
pub use any_mad::*;
pub use atomic::*;
pub use bth::*;
pub use datagram::*;
pub use error::*;
pub use gap_report::*;
pub use grh::*;
pub use header::{Header, U24};
pub use icrc::*;
pub use icrc_runs::*;
pub use immediate::*;
pub use ip::*;
pub use lrh::*;
pub use native::*;
pub use opcode::*;
pub use packet::*;
pub use reth::*;
pub use rmpp::*;
pub use roce::*;
pub use types::*;
pub use vcrc::*;
