//! What fork does to a process that holds the adapter: the child's inherited objects answer EIO. And what exit does.
//!
//! Owns the handler of atexit. The child may open the device anew and gets an engine of its own: it finds new what the process has
//! once ([`ferriband_fork::PerProcess`]), and compares the epoch of an inherited object before it takes any of its locks.

/// Changes in the child of a fork; an object made in an earlier epoch belongs to the parent.
#[inline]
pub fn epoch() -> u64 {
    ferriband_fork::generation().into()
}

/// Calls `leave` when the process ends by exit.
pub fn at_exit(leave: extern "C" fn()) {
    // SAFETY: a static function. Failure (ENOMEM) leaves peers to find out by themselves.
    unsafe { libc::atexit(leave) };
}
