//! Threads of this library in a program's process.
//!
//! Owns the signals' masks: all signals are the program's. Must not know: what the threads do.

use ferriband_sanitizer::Inside;

/// Starts a thread beside the progress thread, for what must wait. It blocks all signals too.
pub(crate) fn spawn_silently(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> std::io::Result<()> {
    let builder = std::thread::Builder::new()
        .name(name.into())
        .stack_size(256 << 10);
    let mask = block_signals();
    let spawned = builder.spawn(|| {
        let _inside = Inside::enter();
        body();
    });
    restore_signals(mask);
    spawned.map(|_| ())
}

/// Blocks all signals for the calling thread, and so for those that it starts; what was blocked
/// before, for [`restore_signals`].
pub(crate) fn block_signals() -> libc::sigset_t {
    // SAFETY: plain data, filled before use.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut old: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `all` is ours.
    unsafe { libc::sigfillset(&mut all) };
    // SAFETY: both sets are ours; the call cannot fail with these arguments.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old) };
    old
}

/// Ends what [`block_signals`] began.
pub(crate) fn restore_signals(mask: libc::sigset_t) {
    // SAFETY: the set came from `block_signals`.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &mask, std::ptr::null_mut()) };
}
