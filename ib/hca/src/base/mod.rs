//! What every part of the adapter stands on.
//!
//! Owns errors, limits, locks, the fork's epoch, threads, queues of events and notes of incidents.
//! Must not know: devices, objects, wires.

pub mod channel;
pub(crate) mod crowd;
pub mod error;
pub mod fork;
pub(crate) mod incident;
pub mod limits;
pub(crate) mod lock;
pub(crate) mod thread;
