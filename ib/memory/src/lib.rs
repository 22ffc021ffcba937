//! The one room where raw memory is touched: shared segments, application memory, other processes'
//! memory, and the Linux primitives to wait on them.
//!
//! Owns: every load and store to memory that somebody else may write at the same time. Such memory is
//! never behind a Rust reference or slice; it is reached by checked offsets ([`segment`]), or by addresses
//! under the capability [`app::AppMemory`].
//!
//! Must not know: verbs, queue pairs, protocols. It moves bytes where it is told to; whether a key permits
//! that was decided by the caller.

#![cfg_attr(test, allow(clippy::unwrap_used))]

#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    target_endian = "little"
)))]
compile_error!("ferriband-memory needs 64-bit little-endian Linux");

pub mod alive;
pub mod app;
pub mod copy;
pub mod host;
pub mod mapping;
pub mod net;
pub mod populate;
pub mod remote;
mod room;
pub mod segment;
#[cfg(test)]
mod test_order;
#[cfg(test)]
mod test_process;
pub mod wait;
mod words;

pub use alive::AliveWord;
pub use app::{AppMemory, AppRange};
pub use mapping::{PeerMapping, SharedMapping};
pub use remote::{RemoteFault, RemoteProcess};
pub use room::Room;
pub use segment::{Access, Segment, Span};

/// Why an operation on a segment, a mapping, a process or a descriptor failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A system call failed for a reason that has no variant of its own.
    #[error("{call} failed: {}", std::io::Error::from_raw_os_error(*errno))]
    System {
        /// The system call.
        call: &'static str,
        /// Its errno.
        errno: i32,
    },
    /// Memory, or the quota of memory, is exhausted.
    #[error("out of memory: {call} could not get {bytes} bytes")]
    OutOfMemory {
        /// The system call.
        call: &'static str,
        /// Bytes asked for.
        bytes: usize,
    },
    /// A descriptor that a peer sent is not a memfd whose size is sealed, so it could be truncated under us.
    #[error("the descriptor is not a memfd of sealed size")]
    NotSealed,
    /// A segment is smaller than its user needs.
    #[error("the segment has {got} bytes where {expected} are needed")]
    TooSmall {
        /// Bytes needed.
        expected: usize,
        /// Bytes found.
        got: usize,
    },
    /// An argument is out of its range: a length of zero, a name with a NUL, an overflow.
    #[error("invalid argument: {what}")]
    Invalid {
        /// Which argument, and what is wrong with it.
        what: &'static str,
    },
    /// The process does not exist, or another one has its number now.
    #[error("process {pid} is gone or is not the one expected")]
    NoSuchProcess {
        /// The process number looked for.
        pid: i32,
    },
    /// An 8-byte atomic was asked for at an address that is not a multiple of 8.
    #[error("address {addr:#x} is not aligned to 8 bytes")]
    Misaligned {
        /// The address.
        addr: u64,
    },
}

impl Error {
    /// The errno that the C faces report for this error.
    pub const fn errno(&self) -> i32 {
        match self {
            Error::System { errno, .. } => *errno,
            Error::OutOfMemory { .. } => libc::ENOMEM,
            Error::NotSealed | Error::Invalid { .. } | Error::Misaligned { .. } => libc::EINVAL,
            Error::TooSmall { .. } => libc::ERANGE,
            Error::NoSuchProcess { .. } => libc::ESRCH,
        }
    }

    /// Classifies the errno of a failed `call`; `bytes` is what it asked for, if it asked for memory.
    #[cold]
    pub(crate) fn from_errno(call: &'static str, errno: i32, bytes: usize) -> Error {
        match errno {
            // a file in memory that cannot grow says the second
            libc::ENOMEM => Error::OutOfMemory { call, bytes },
            libc::ENOSPC if bytes > 0 => Error::OutOfMemory { call, bytes },
            _ => Error::System { call, errno },
        }
    }

    /// True for an errno that says that the system, or this process's share of it, has no more of something just now: what failed
    /// may succeed a moment later.
    pub const fn is_scarcity(errno: i32) -> bool {
        matches!(
            errno,
            libc::EMFILE
                | libc::ENFILE
                | libc::ENOMEM
                | libc::ENOBUFS
                | libc::EAGAIN
                | libc::ENOSPC
        )
    }
}
