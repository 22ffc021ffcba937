//! The calling thread's signals.
//!
//! Owns: doing something without them. Must not know: what.

/// Does something while this thread takes no signal. A thread that it starts takes none, ever: the
/// program's signals are for the program's threads.
pub fn without<T>(act: impl FnOnce() -> T) -> T {
    // SAFETY: sets of signals that the calls fill.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let done = act();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        done
    }
}
