//! The private symbols: what a face calls. One file for each chapter of the standard; `agreement.rs` checks that each is what faces declare.
#![allow(clippy::missing_safety_doc, missing_docs)]

mod agreement;
mod environment;

pub use environment::*;

use crate::constants::MPI_ERR_UNSUPPORTED_OPERATION;
use std::ffi::{c_char, c_int};

/// Raises MPI_ERR_UNSUPPORTED_OPERATION for `function` at the handler of its object: 1 communicator, 2 window, 3 file, 4 session, 0 none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_unsupported(
    _object: c_int,
    _handle: i32,
    _function: *const c_char,
) -> c_int {
    MPI_ERR_UNSUPPORTED_OPERATION
}

/// Writes `text` with its end mark to `to`, which has room for `limit` bytes, and its length to `length`.
///
/// # Safety
/// `to` may be written for `limit` bytes, `length` may be written or is null.
pub(crate) unsafe fn put_string(text: &str, to: *mut c_char, limit: usize, length: *mut c_int) {
    let shown = &text.as_bytes()[..text.len().min(limit.saturating_sub(1))];
    // SAFETY: at most `limit` bytes with the end mark.
    unsafe {
        std::ptr::copy_nonoverlapping(shown.as_ptr(), to.cast::<u8>(), shown.len());
        to.add(shown.len()).write(0);
        if !length.is_null() {
            length.write(c_int::try_from(shown.len()).unwrap_or(c_int::MAX));
        }
    }
}
