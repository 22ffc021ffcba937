//! Verbs: opening a device, and what programs make of it.
//!
//! Owns that an open device keeps the engine. Must not know the C ABI.

pub(crate) mod context;
pub(crate) mod pd;
