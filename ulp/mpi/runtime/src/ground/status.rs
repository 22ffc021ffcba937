//! What is said of a message that is over: the C structure that faces and runtime share.
//!
//! Owns: its layout, and the statuses that the standard names. Must not know: which request it is
//! of.

use super::constants::{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_PROC_NULL, MPI_SUCCESS};
use std::ffi::c_int;

/// MPI_Status: MPI_SOURCE, MPI_TAG, MPI_ERROR, cancelled, byte count in two words, 0, 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Status {
    /// Rank of the sender in the communicator.
    pub source: c_int,
    /// Tag of the message.
    pub tag: c_int,
    /// Error class of this message.
    pub error: c_int,
    /// 1 if the operation was cancelled.
    pub cancelled: c_int,
    /// Bytes of the message, low word and high word.
    pub bytes: [u32; 2],
    /// Zero.
    pub reserved: [c_int; 2],
}

/// The status of what MPI_PROC_NULL "sends".
pub const FROM_NOBODY: Status = Status {
    source: MPI_PROC_NULL,
    tag: MPI_ANY_TAG,
    error: MPI_SUCCESS,
    cancelled: 0,
    bytes: [0; 2],
    reserved: [0; 2],
};

/// The empty status of the standard.
pub const EMPTY: Status = Status {
    source: MPI_ANY_SOURCE,
    tag: MPI_ANY_TAG,
    error: MPI_SUCCESS,
    cancelled: 0,
    bytes: [0; 2],
    reserved: [0; 2],
};

/// The status of a message of `bytes` bytes.
#[inline]
pub fn status(source: u32, tag: i32, error: i32, bytes: u64) -> Status {
    Status {
        source: source.cast_signed(),
        tag,
        error,
        cancelled: 0,
        bytes: [bytes as u32, (bytes >> 32) as u32],
        reserved: [0; 2],
    }
}

impl Status {
    /// Bytes of the message.
    pub fn byte_count(&self) -> u64 {
        u64::from(self.bytes[1]) << 32 | u64::from(self.bytes[0])
    }
}

const _: () = assert!(size_of::<Status>() == 32 && align_of::<Status>() == 4);
