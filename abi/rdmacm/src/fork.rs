//! What fork does to this library: the parent's objects answer EIO in the child, which may make its own.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// Counts forks on the way from the first process to this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Changes in a forked child, if it was asked for before the fork.
pub fn generation() -> u32 {
    static ONCE: Once = Once::new();
    // SAFETY: the handler stays: this library is never unmapped. If it cannot be entered, a child meets its parent's devices,
    // and is refused with EIO.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(in_child));
    });
    GENERATION.load(Ordering::Relaxed)
}
