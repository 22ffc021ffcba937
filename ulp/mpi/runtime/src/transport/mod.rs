//! By what other ranks are reached: memory that the ranks of a host share ([`shm`]), and a device
//! ([`verbs`]).
//!
//! Owns: moving envelopes and bytes from one rank to another, in order. Must not know:
//! communicators, which receive takes a message, what a message is for.

pub mod contract;
pub mod counters;
pub mod polling;
pub mod shm;
pub mod verbs;
