//! What verbs name: contexts, protection domains, memory, completion queues, shared receive queues,
//! address handles, and the events of all of them.
//!
//! Owns the objects but for queue pairs. Must not know how anything travels.

pub mod ah;
pub(crate) mod catch;
pub mod cq;
pub(crate) mod domain;
pub(crate) mod event;
pub(crate) mod host;
pub mod mr;
pub mod open;
pub(crate) mod owner;
pub(crate) mod regions;
pub mod srq;
pub(crate) mod xrcd;
