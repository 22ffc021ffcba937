//! What fork does to a process that holds the adapter: the child's inherited objects answer EIO. And what exit does.
//!
//! Owns the handlers of pthread_atfork and atexit. The child may open the device anew and gets an engine of its own.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use ferriband_memory::host;

static EPOCH: AtomicU64 = AtomicU64::new(0);

/// Changes in the child of a fork; an object made in an earlier epoch belongs to the parent.
pub fn epoch() -> u64 {
    EPOCH.load(Ordering::Acquire)
}

extern "C" fn prepare() {
    host::before_fork();
}

extern "C" fn parent() {
    host::after_fork_in_parent();
}

extern "C" fn child() {
    EPOCH.fetch_add(1, Ordering::AcqRel);
    host::close_all_after_fork();
}

/// Registers the handlers, once in a process.
pub fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handlers are static functions that make async-signal-safe calls only. Failure (ENOMEM) leaves
        // forked children without protection; there is nothing better to do with it here.
        unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    });
}

/// Calls `leave` when the process ends by exit.
pub fn at_exit(leave: extern "C" fn()) {
    // SAFETY: a static function. Failure (ENOMEM) leaves peers to find out by themselves.
    unsafe { libc::atexit(leave) };
}
