//! What the machine needs of its transport: two reliable connected queue pairs, crossed.
//!
//! Owns: the trait. Must not know: verbs.

use crate::memory::{Memory, Status};
use crate::message::Segment;

/// An RDMA operation that is under way for a long request of the peer's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Job(pub u16);

/// Why an RDMA operation was not begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotBegun {
    /// The send queue has no room until another job is over. Nothing of this one was posted.
    Full,
    /// The memory that is held cannot be reached.
    Fault,
}

impl From<NotBegun> for Status {
    fn from(why: NotBegun) -> Status {
        match why {
            NotBegun::Full => Status::NoRoom,
            NotBegun::Fault => Status::Fault,
        }
    }
}

/// The posting side of a connection, beside the memory of its process.
///
/// The machine relies on this:
///
/// * Messages are received in the order in which they are sent, each once, after all of its bytes
///   are in memory; they are given to [`crate::Connection::handle_message`].
/// * RDMA goes by the other queue pair: between the two there is no order.
/// * A completion of RDMA means that its bytes are where they belong, and that nothing touches this
///   side's memory for it any more. It is given to [`crate::Connection::handle_rdma`].
/// * When a queue pair goes into error, everything that completed well before is handed over, then
///   [`crate::Connection::handle_lost`] is called once nothing can touch memory any more.
pub trait Wire: Memory {
    /// Sends a message. There is room for as many as the peer has receives.
    fn send(&mut self, message: &[u8], solicited: bool);

    /// Reads the peer's memory into what is held. The pieces have as many bytes as were granted.
    ///
    /// # Errors
    /// Nothing was begun.
    fn read(&mut self, job: Job, to: Self::Hold, from: &[Segment]) -> Result<(), NotBegun>;

    /// Writes what is held into the peer's memory. The pieces have as many bytes as were granted.
    ///
    /// # Errors
    /// Nothing was begun.
    fn write(&mut self, job: Job, from: Self::Hold, to: &[Segment]) -> Result<(), NotBegun>;
}
