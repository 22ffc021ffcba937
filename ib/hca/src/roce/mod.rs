//! The RoCEv2 wire: queue pairs' packets in UDP datagrams.
//!
//! Owns: the port that the processes of a network namespace share, and what goes through it. Must not know: the C ABI; what a
//! packet does to a queue pair (`ferriband-transport`).

pub mod steer;
