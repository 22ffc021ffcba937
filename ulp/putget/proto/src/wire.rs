//! What the machine needs of its transport: two reliable connected queue pairs, crossed.
//!
//! Owns: the trait. Must not know: verbs.

use crate::memory::Memory;
use crate::message::Segment;
use crate::status::Status;

/// An RDMA operation that is under way for a long request of the peer's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Job(pub u16);

/// An operation of this side by a lease that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DirectJob(pub u16);

/// What an operation by a lease does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DirectOp {
    /// Writes.
    Put,
    /// Reads.
    Get,
    /// Adds to an aligned value of 64 bits, and brings the value before.
    Add(u64),
    /// Changes an aligned value of 64 bits if it is another one, and brings the value before.
    Swap {
        /// The value that it has to be.
        compare: u64,
        /// The value that it becomes.
        swap: u64,
    },
}

impl DirectOp {
    /// Whether it changes the target's memory.
    pub const fn writes(self) -> bool {
        !matches!(self, DirectOp::Get)
    }

    /// Whether it brings bytes.
    pub const fn reads(self) -> bool {
        !matches!(self, DirectOp::Put)
    }
}

/// An operation by a lease, to be posted behind all messages that were sent before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Posting {
    /// What it does.
    pub op: DirectOp,
    /// Whose it is; [`Memory::gather`] gives the bytes of a put.
    pub token: u64,
    /// The peer's memory, as many bytes as are moved.
    pub remote: Segment,
    /// Only after all READs and atomics before it have ended.
    pub fence: bool,
    /// Of a put that counts: immediate data. It takes a receive of the peer's, and is told there.
    pub immediate: Option<u32>,
}

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
/// * RDMA of [`Wire::read`] and [`Wire::write`] goes by the other queue pair: between the two there
///   is no order. Operations by leases go by the messages' queue pair, in order with messages. With
///   one exception: what a READ brings may be younger than what is behind it, unless that is
///   fenced.
/// * A completion of RDMA means that its bytes are where they belong, and that nothing touches this
///   side's memory for it any more. It is given to [`crate::Connection::handle_rdma`].
/// * When a queue pair goes into error, everything that completed well before is handed over, then
///   [`crate::Connection::handle_lost`] is called once nothing can touch memory any more.
pub trait Wire: Memory {
    /// Sends a message, with a fence behind all READs and atomics by leases before it. There is
    /// room for as many as the peer has receives.
    fn send(&mut self, message: &[u8], solicited: bool, fence: bool);

    /// Posts an operation by a lease. There is room for [`crate::DIRECT`] of them. Its completion
    /// is given to [`crate::Connection::handle_direct`]. Whether the bytes of a put were copied, so
    /// that this side's memory is free.
    ///
    /// # Errors
    /// Nothing was posted.
    fn direct(&mut self, job: DirectJob, posting: &Posting) -> Result<bool, NotBegun>;

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
