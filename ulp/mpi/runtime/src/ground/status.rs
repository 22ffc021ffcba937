//! The C structures that faces and runtime share.

use std::ffi::{c_int, c_void};

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

/// An array of handles or counts whose elements are `width` bytes apart.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Array {
    /// First element.
    pub base: *mut c_void,
    /// Bytes of an element: 4 or 8.
    pub width: usize,
}

const _: () = assert!(size_of::<Status>() == 32 && align_of::<Status>() == 4);
