//! The wires: how what a queue pair says comes to another process, and what another says comes here.
//!
//! Owns what each wire has of its own ([`direct`], [`roce`], [`native`]) and what the two of packets
//! share ([`packets`]). Must not know: the C ABI; what a packet does to a queue pair
//! (`ferriband-transport`).

pub(crate) mod direct;
pub(crate) mod native;
pub(crate) mod packets;
pub mod roce;
