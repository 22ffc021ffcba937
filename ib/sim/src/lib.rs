//! Deterministic simulation: the transport's own machines in virtual time, with faults, against a reference model.
//! A seed is a run; a failure names the seed, the invariant and the last steps.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod direct;
pub mod events;
pub mod packet;
pub mod rng;
