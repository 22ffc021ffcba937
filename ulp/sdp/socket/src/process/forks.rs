//! A fork beside the adapter's library, which has handlers of fork of its own.
//!
//! Owns: the lock that the service thread has while it is in that library. Must not know: what it
//! does there.
//!
//! That library keeps forks away while it makes descriptors that a child must not have, by a gate
//! that its handler before a fork closes. Handlers run in the order in which they were registered,
//! the last one first. So the handler of this crate, which waits for the service's state, may run
//! behind the closed gate, at which a service thread would wait that has the state. A fork takes
//! this lock before any handler runs, and the service thread before the state: whoever holds the
//! state behind the gate is a thread of the program's, which never calls the adapter's library.

use super::lock::{Guard, Lock};
use super::{Process, set};
use std::cell::Cell;

/// Of who uses the adapter's library, or forks.
static ADAPTER: Lock<()> = Lock::new(());

thread_local! {
    /// This thread forks, and has [`ADAPTER`].
    static FORKS: Cell<bool> = const { Cell::new(false) };
}

/// The service thread may use the adapter's library as long as this lives: no fork begins
/// meanwhile. None if there is nobody to be reached by it.
pub(super) fn keep_away() -> Option<Guard<'static, ()>> {
    set::hosts().map(|_| ADAPTER.lock())
}

/// Whether this thread forks by [`fork_by`].
pub(super) fn is_prepared() -> bool {
    FORKS.get()
}

/// In the child of a fork by the C library itself, which has not waited for the service thread.
pub(super) fn forked_unprepared() {
    // SAFETY: a handler of the C library's in the child; nothing is locked but the turn.
    unsafe { ADAPTER.abandon() };
}

/// Forks by `fork`, which has the C library run the handlers of all libraries. Connections by queue
/// pairs go back to TCP before, while the service thread still hears their peers.
pub fn fork_by<T>(fork: impl FnOnce() -> T) -> T {
    // a handler of fork of the program's that forks itself
    if set::hosts().is_none() || FORKS.get() {
        return fork();
    }
    if let Some(process) = Process::there() {
        process.before_fork();
    }
    ADAPTER.hold();
    FORKS.set(true);
    let forked = fork();
    FORKS.set(false);
    // SAFETY: this thread, or the one of which it is the child's copy, holds it.
    unsafe { ADAPTER.release(|()| ()) };
    forked
}
