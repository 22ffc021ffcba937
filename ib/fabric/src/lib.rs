//! Links with credits and virtual lanes, switches, congestion control: the machines of a fabric, in anybody's time.
//!
//! Owns what a link and a switch do to packets, and the counters of ports. Must not know who computes routes; has no clock, no socket and no
//! randomness of its own.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]
