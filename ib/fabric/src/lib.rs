//! Links with credits and virtual lanes, switches, congestion control: the machines of a fabric, in anybody's time.
//!
//! Owns what a link and a switch do to packets, the counters of ports, and the agents that subnet managers talk with ([`manage`]). Must not know who computes routes; has no clock, no socket and no
//! randomness of its own: time and seeds come from the caller.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod agenda;
pub mod arbiter;
pub mod congestion;
pub mod credit;
mod event;
mod frame;
pub mod host;
pub mod interface;
mod latency;
pub mod live;
pub mod manage;
pub mod net;
mod queue;
mod random;
mod ring;
pub mod shortest;
pub mod switch;
mod time;
mod windows;

pub use frame::{Frame, FrameKind};
pub use latency::Latencies;
pub use random::Random;
pub use time::{LinkRate, Time};
