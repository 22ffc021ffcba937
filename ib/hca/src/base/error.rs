//! Why a verb failed, and its errno: one table for the whole adapter.

use ferriband_transport::direct::{PostError, RecvPostError};
use ferriband_transport::qp_state::TransitionError;

/// Why a verb failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// An argument is outside what the device offers.
    #[error("invalid argument: {0}")]
    Invalid(&'static str),
    /// The object is in use by others.
    #[error("busy: {0}")]
    Busy(&'static str),
    /// A queue is full.
    #[error("out of room: {0}")]
    NoMemory(&'static str),
    /// The device does not offer this.
    #[error("not supported: {0}")]
    Unsupported(&'static str),
    /// No such object.
    #[error("not found: {0}")]
    NotFound(&'static str),
    /// The object belongs to the process that forked this one, or the device has failed.
    #[error("the device is gone: {0}")]
    Gone(&'static str),
    /// There is no such device now.
    #[error("no such device: {0}")]
    Absent(&'static str),
    /// Another has it.
    #[error("in use: {0}")]
    InUse(&'static str),
    /// No such address here.
    #[error("no such address: {0}")]
    Address(&'static str),
    /// It is connected already.
    #[error("connected already")]
    Connected,
    /// Rights do not suffice.
    #[error("permission denied: {0}")]
    Permission(&'static str),
    /// Nothing is there now, and the descriptor does not block.
    #[error("nothing is there")]
    WouldBlock,
    /// A signal interrupted the wait.
    #[error("interrupted by a signal")]
    Interrupted,
    /// An illegal transition of a queue pair, or an illegal attribute.
    #[error(transparent)]
    Transition(#[from] TransitionError),
    /// The room of memory said no.
    #[error(transparent)]
    Memory(#[from] ferriband_memory::Error),
    /// The host's registry said no.
    #[error(transparent)]
    Host(#[from] ferriband_memory::host::HostError),
}

impl Error {
    /// A system call that failed, with its errno.
    #[cold]
    pub(crate) fn system(call: &'static str, errno: i32) -> Self {
        Error::Memory(ferriband_memory::Error::System { call, errno })
    }

    /// The errno that the verb returns.
    pub fn errno(&self) -> i32 {
        match self {
            Error::Invalid(_) | Error::Transition(_) => libc::EINVAL,
            Error::Busy(_) => libc::EBUSY,
            Error::NoMemory(_) => libc::ENOMEM,
            Error::Unsupported(_) => libc::EOPNOTSUPP,
            Error::NotFound(_) => libc::ENOENT,
            Error::Gone(_) => libc::EIO,
            Error::Absent(_) => libc::ENODEV,
            Error::InUse(_) => libc::EADDRINUSE,
            Error::Address(_) => libc::EADDRNOTAVAIL,
            Error::Connected => libc::EISCONN,
            Error::Permission(_) => libc::EPERM,
            Error::WouldBlock => libc::EAGAIN,
            Error::Interrupted => libc::EINTR,
            Error::Memory(error) => error.errno(),
            Error::Host(error) => error.errno(),
        }
    }
}

impl From<PostError> for Error {
    fn from(error: PostError) -> Self {
        match error {
            PostError::Full => Error::NoMemory("the send queue is full"),
            PostError::TooManySges => {
                Error::Invalid("more scatter/gather elements than the send queue was created for")
            }
            PostError::InlineTooLong => {
                Error::Invalid("more inline data than the send queue was created for")
            }
            PostError::TooLong => Error::Invalid("the message is longer than the service allows"),
            PostError::State => Error::Invalid("the queue pair is not ready to send"),
            PostError::Opcode => Error::Invalid("the service does not offer this operation"),
        }
    }
}

impl From<ferriband_transport::PostError> for Error {
    fn from(error: ferriband_transport::PostError) -> Self {
        use ferriband_transport::PostError as Packets;
        match error {
            Packets::Full { .. } => PostError::Full.into(),
            Packets::State(_) => PostError::State.into(),
            Packets::TooManySges { .. } => PostError::TooManySges.into(),
            Packets::InlineTooLong { .. } => PostError::InlineTooLong.into(),
            Packets::TooLong { .. } => PostError::TooLong.into(),
            Packets::Opcode(_) => PostError::Opcode.into(),
            Packets::NoReadResources => {
                Error::Invalid("READ and atomics need max_rd_atomic above 0")
            }
            Packets::NoReceiveQueue => {
                Error::Invalid("the queue pair has no receive queue of its own")
            }
        }
    }
}

impl From<RecvPostError> for Error {
    fn from(error: RecvPostError) -> Self {
        match error {
            RecvPostError::Full => Error::NoMemory("the receive queue is full"),
            RecvPostError::TooManySges => Error::Invalid(
                "more scatter/gather elements than the receive queue was created for",
            ),
        }
    }
}
