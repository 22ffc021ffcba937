//! Bytes to headers and back: every header of the InfiniBand transport, the opcode table that says which follow
//! which, packets native and over UDP (RoCEv2), their CRCs and captures of them.
//!
//! Knows no state and no time. Nothing here allocates, recurses or panics on any bytes; what a queue pair does with a
//! packet is `ferriband-transport`'s business.
#![forbid(unsafe_code)]

mod aeth;
mod atomic;
mod bth;
mod datagram;
mod error;
mod header;
mod immediate;
mod opcode;
mod packet;
mod reth;
mod types;

pub use aeth::*;
pub use atomic::*;
pub use bth::*;
pub use datagram::*;
pub use error::*;
pub use header::{Header, U24};
pub use immediate::*;
pub use opcode::*;
pub use packet::*;
pub use reth::*;
pub use types::*;
