//! A process as its peers see it: the channels to them, its keys, and what it tells them.
//!
//! Owns what all wires need of a process. Must not know objects of verbs or queue pairs.

pub(crate) mod agenda;
pub(crate) mod ends;
pub mod keys;
pub(crate) mod marks;
pub(crate) mod message;
pub(crate) mod numbers;
pub mod peer;
pub(crate) mod peers;
pub(crate) mod polls;
#[allow(clippy::module_inception)]
pub(crate) mod process;
pub(crate) mod status;
