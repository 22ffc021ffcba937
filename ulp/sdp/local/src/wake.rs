//! Who waits, and who is woken.
//!
//! Whoever finds nothing says so in a want, by an instruction that fences, and looks again before
//! it sleeps; whoever has given something fences and looks at the want. So one of the two sees the
//! other. Who wakes takes the want away: the next one that finds nothing says so anew. One that
//! dies while it wakes leaves [`WAKING`] behind, and whoever looks next wakes in its place.
//!
//! Wakers count in the bits above. So one that has said that it sleeps, and does not yet, sees that
//! it was meant, even if another thread has said the same since.

use crate::memory::{Kernel, Shared, Way, Word};

/// A thread sleeps on the want itself.
pub const FUTEX: u64 = 1;
/// Waiters are told by [`Kernel::ring`].
pub const BOX: u64 = 2;

/// Somebody is about to wake whoever wanted to be.
const WAKING: u64 = 4;

const WANTS: u64 = FUTEX | BOX | WAKING;

/// What a waker counts by.
const ROUND: u64 = 8;

/// The want of whoever reads in a direction, or of whoever writes.
pub(crate) fn want(way: Way, bytes: bool) -> Word {
    let word = if bytes {
        Shared::WantBytes
    } else {
        Shared::WantRoom
    };
    Word::Shared(way, word)
}

/// After something was given, and a lock released, which fences: wakes the peer, if it waits. `way`
/// is the direction, `bytes` what was given: bytes, or room.
#[inline]
pub(crate) fn told<K: Kernel>(kernel: &K, way: Way, bytes: bool) {
    if is_wanted(kernel, way, bytes) {
        wake(kernel, way, bytes);
    }
}

/// Whether the peer waits.
#[inline]
fn is_wanted<K: Kernel>(kernel: &K, way: Way, bytes: bool) -> bool {
    kernel.load(want(way, bytes)) & WANTS != 0
}

/// As [`told`], of room that R has given, if it is enough: who has waited for it writes more than a
/// few bytes then. `held` gives how many bytes the ring holds. One that waits is told with what is
/// read from the ring later, since there is something.
#[inline]
pub(crate) fn told_room<K: Kernel>(kernel: &K, held: impl FnOnce() -> u64) {
    let way = Way::In;
    if is_wanted(kernel, way, false) && is_roomy(held(), kernel.ring_bytes(way)) {
        wake(kernel, way, false);
    }
}

/// Whether a third of a ring is free that holds so many bytes: as Linux has it for a socket that is
/// to be writable. A ring cannot hold more than its size; that is for a send to tell.
pub(crate) fn is_roomy(held: u64, size: u64) -> bool {
    size.checked_sub(held)
        .is_none_or(|room| room >= size.div_ceil(3))
}

#[cold]
fn wake<K: Kernel>(kernel: &K, way: Way, bytes: bool) {
    wake_by(kernel, want(way, bytes), || kernel.ring(way));
}

fn wake_by<K: Kernel>(kernel: &K, word: Word, ring: impl FnOnce()) {
    let mut wants = kernel.load(word);
    let mine = loop {
        if wants & WANTS == 0 {
            // another has woken since, and the woken look at what this one has given
            return;
        }
        let mine = (wants & !WANTS).wrapping_add(ROUND) | WAKING;
        match kernel.exchange(word, wants, mine) {
            Ok(()) => break mine,
            Err(now) => wants = now,
        }
    };
    if wants & (FUTEX | WAKING) != 0 {
        kernel.wake(word);
    }
    if wants & (BOX | WAKING) != 0 {
        ring();
    }
    // a want of meanwhile stays, and is no dead one's; another waker's mark is its own
    let mut wants = mine;
    while let Err(now) = kernel.exchange(word, wants, wants & !WAKING) {
        if now & WAKING == 0 || now & !WANTS != mine & !WANTS {
            break;
        }
        wants = now;
    }
}

/// Wakes this side's own waiters, to look at the kernel's socket and at the record again. The
/// caller has fenced, or holds the lock under which they look.
pub(crate) fn wake_own<K: Kernel>(kernel: &K) {
    for word in [want(Way::In, true), want(Way::Out, false)] {
        if kernel.load(word) & WANTS != 0 {
            wake_by(kernel, word, || kernel.ring_own());
        }
    }
}
