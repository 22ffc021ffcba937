//! The kernel's error of a connection, where a call of this library's own has taken it.
//!
//! The kernel tells an error once. What it has told a copy, or bytes that were passed over, is kept
//! in [`Own::Error`] for the program's next call. A peer that dies with bytes unread in the ring is
//! an error as well, which TCP would have told.

use crate::memory::{Errno, Kernel, Own, TOLD, Word};

const ERROR: Word = Word::Own(Own::Error);

pub(crate) const EINTR: i32 = 4;
pub(crate) const EAGAIN: i32 = 11;
pub(crate) const EPIPE: i32 = 32;
pub(crate) const ECONNRESET: i32 = 104;

/// Keeps an error for the program, if there is none.
pub(crate) fn keep<K: Kernel>(kernel: &K, error: Errno) {
    // nothing else is to be told once one was
    let _ = kernel.exchange(ERROR, 0, u64::from(error.0.unsigned_abs()));
}

/// The program has an error from the kernel.
pub(crate) fn told<K: Kernel>(kernel: &K) {
    let _ = kernel.exchange(ERROR, 0, TOLD);
}

/// The program was not told of this error of the kernel's after all: its next call is.
pub(crate) fn put_back<K: Kernel>(kernel: &K, error: Errno) {
    let error = u64::from(error.0.unsigned_abs());
    // what the kernel alone has told was not written down
    if kernel.exchange(ERROR, 0, error).is_err() {
        let _ = kernel.exchange(ERROR, TOLD, error);
    }
}

/// Whether an error is kept.
#[inline]
pub(crate) fn is_kept<K: Kernel>(kernel: &K) -> bool {
    !matches!(kernel.load(ERROR), 0 | TOLD)
}

/// Takes the error that is kept.
pub(crate) fn take<K: Kernel>(kernel: &K) -> Option<Errno> {
    match kernel.load(ERROR) {
        0 | TOLD => None,
        error => taken(kernel, error, error as i32),
    }
}

/// What a receive tells at the stream's end, if it is an error. What says that nothing can be sent
/// is for a send.
pub(crate) fn at_end<K: Kernel>(kernel: &K, left_unread: bool) -> Option<Errno> {
    match kernel.load(ERROR) {
        0 if left_unread => taken(kernel, 0, ECONNRESET),
        0 | TOLD => None,
        error if error as i32 == EPIPE => None,
        error => taken(kernel, error, error as i32),
    }
}

fn taken<K: Kernel>(kernel: &K, error: u64, number: i32) -> Option<Errno> {
    let first = kernel.exchange(ERROR, error, TOLD).is_ok();
    first.then_some(Errno(number))
}
