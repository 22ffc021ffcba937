//! What processes of one host need in order to exchange data without an adapter: memory that they
//! share, wake-ups, and copies from one process to another.
//!
//! Owns: sealed shared memory ([`Segment`], [`Reader`]), wake-ups ([`wake`]: eventfds, futexes),
//! copies in memory ([`copy`]) and between address spaces ([`cma`]), threads that take no signals
//! ([`signals`]), what a forked child finds of state ([`fork`]), the host's addresses
//! ([`interfaces()`]). Must not know: which protocol
//! uses it, what lies where in a segment, who the processes are and how they came by one another's
//! descriptors and process ids.
//!
//! Every protocol of `ulp/` that has peers on its own host uses this crate. It depends on the
//! operating system only. Code runs on x86-64: copies use its registers and its string instruction.

#![warn(missing_docs)]

pub mod cma;
pub mod copy;
pub mod fork;
mod interfaces;
pub mod segment;
pub mod signals;
pub mod wake;

pub use interfaces::{Interface, interfaces};
pub use segment::{MapError, OutOfRange, Reader, Segment};
pub use wake::{Event, Until, Wait};

#[cfg(test)]
mod testing;
