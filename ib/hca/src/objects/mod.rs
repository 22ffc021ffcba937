//! What verbs name: contexts, protection domains, memory, completion queues, shared receive queues,
//! address handles, and the events of all of them.
//!
//! Owns the objects but for queue pairs. Must not know how anything travels.

pub mod ah;
pub mod cq;
pub(crate) mod event;
pub mod mr;
pub mod open;
pub(crate) mod owner;
pub(crate) mod regions;
pub mod srq;
