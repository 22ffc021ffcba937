//! RoCEv2's own part: the port that the processes of a network namespace share, and its sockets.
//!
//! Owns who gets a packet ([`steer`], [`join`]), senders with a socket of their own, and groups on
//! Ethernet. Must not know what a packet does to a queue pair.

pub(super) mod alone;
pub(crate) mod flows;
pub(super) mod groups;
pub(crate) mod head;
pub mod join;
pub(crate) mod ports;
pub(super) mod rx;
pub mod steer;
