//! Registrations of a program's own memory for RDMA, which outlive the operations that they are
//! made for.
//!
//! Owns: the ways ([`Way`]): one region that stands for all memory where the device pages on
//! demand, registrations that are kept as long as their memory stays what it is (userfaultfd
//! tells), a registration for each operation; and whether a program may read or write at an address
//! ([`Maps`]). Must not know: which protocol asks, and what its operations are.
//!
//! Nothing here is on the path of a short message.

#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod cache;
mod maps;
mod reach;
mod watch;

pub use cache::Counts;
pub use maps::{Maps, Use, can};
pub use reach::{Purpose, Reach, Reachable, Refusal, Way};
