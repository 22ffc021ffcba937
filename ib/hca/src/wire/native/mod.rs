//! The InfiniBand port's own part: packets from process to process of the host, and of a fabric.
//!
//! Owns the port's way within the host ([`port`]), the paths there, and what is received by it. Must not know what
//! a packet does to a queue pair.

pub(crate) mod fabric;
pub(crate) mod meta;
pub(in crate::wire) mod path;
pub(crate) mod port;
mod rx;
