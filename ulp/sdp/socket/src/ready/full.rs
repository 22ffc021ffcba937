//! Rings that are full while somebody waits for room who does not sleep in a call that sends.
//!
//! Owns: whether the service thread looks at this process's full rings. Must not know: how long a
//! ring may stay full.
//!
//! Whoever waits in epoll_wait(2), poll(2) or select(2) cannot look at a ring by itself: it need
//! not know all that it waits for. So the service thread does, as long as there is such a ring.

use crate::link::Link;
use std::sync::atomic::{AtomicBool, Ordering};

static WATCHED: AtomicBool = AtomicBool::new(false);

/// After somebody has said that it waits for room: the service thread looks at the ring from time
/// to time.
pub(crate) fn watch(link: &Link<'_>) {
    if !WATCHED.swap(true, Ordering::SeqCst) {
        link.ring_service();
    }
}

/// Whether the service thread is to look at full rings.
pub fn is_watched() -> bool {
    WATCHED.load(Ordering::SeqCst)
}

/// In a child: its service thread has been told nothing so far.
pub fn forked() {
    WATCHED.store(false, Ordering::SeqCst);
}

/// Looks at all rings; `look` says whether some stay full. Who waits from here on is seen by that
/// look, or by the next.
pub fn look<T>(look: impl FnOnce() -> Option<T>) -> Option<T> {
    WATCHED.store(false, Ordering::SeqCst);
    let full = look();
    if full.is_some() {
        WATCHED.store(true, Ordering::SeqCst);
    }
    full
}
