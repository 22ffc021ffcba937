//! SDP between two processes of one host: a ring in shared memory for each direction.
//!
//! Owns: the words of a connection, who writes which of them and in which order, and who is woken.
//! Must not know: where the words lie, descriptors, threads, what the program asked for. All that
//! it does to memory and to the kernel goes through [`Memory`] and [`Kernel`]: on a real machine
//! these are instructions and system calls, in the simulator (`ulp/sdp/sim`) each is a step at
//! which another process may go on, stop or die.
//!
//! The ring is the RDMA-based flow control of papers/004, section 4, with stores in the place of
//! RDMA WRITEs: the sender manages one buffer of the receiver's, byte by byte.
//!
//! A connection has a *slot*, which both processes map, and each side has a *record*, which lies in
//! memory that its own processes share and the peer cannot see. Locks and whatever a side must be
//! able to trust lie in the record; the peer's words are checked at each load.
#![forbid(unsafe_code)]

mod error;
mod far;
mod leave;
mod lock;
mod memory;
mod reader;
mod service;
#[cfg(test)]
mod tests;
mod wake;
mod writer;

pub use far::{Far, Hold, UNKNOWN};
pub use memory::{CONNECTION_OVER, Errno, Kernel, Memory, Own, PEER_ENDED, Shared, Way, Word};
pub use reader::{Filled, Finds, Reader, Received};
pub use service::{Closing, Service};
pub use wake::{BOX, FUTEX};
pub use writer::{Sent, Writer};
