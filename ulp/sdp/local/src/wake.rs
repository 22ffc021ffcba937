//! Who waits, and who is woken.
//!
//! Whoever finds nothing says so in a want, fences, and looks again before it sleeps; whoever has
//! given something fences and looks at the want. So one of the two sees the other. Who wakes takes
//! the want away: the next one that finds nothing says so anew.

use crate::memory::{Kernel, Shared, Way, Word};

/// A thread sleeps on the want itself.
pub const FUTEX: u64 = 1;
/// Waiters are told by [`Kernel::ring`].
pub const BOX: u64 = 2;

/// The want of whoever reads in a direction, or of whoever writes.
pub(crate) fn want(way: Way, bytes: bool) -> Word {
    let word = if bytes {
        Shared::WantBytes
    } else {
        Shared::WantRoom
    };
    Word::Shared(way, word)
}

/// After something was given: wakes the peer, if it waits. `way` is the direction, `bytes` what was
/// given: bytes, or room.
#[inline]
pub(crate) fn told<K: Kernel>(kernel: &K, way: Way, bytes: bool) {
    kernel.fence();
    if kernel.load(want(way, bytes)) != 0 {
        wake(kernel, way, bytes);
    }
}

#[cold]
fn wake<K: Kernel>(kernel: &K, way: Way, bytes: bool) {
    let word = want(way, bytes);
    let wants = kernel.swap(word, 0);
    if wants & FUTEX != 0 {
        kernel.wake(word);
    }
    if wants & BOX != 0 {
        kernel.ring(way);
    }
}

/// Wakes this side's own sleepers, to look at the kernel's socket and at the record again.
pub(crate) fn rouse<K: Kernel>(kernel: &K) {
    kernel.fence();
    for word in [want(Way::In, true), want(Way::Out, false)] {
        if kernel.load(word) & FUTEX != 0 {
            kernel.swap(word, 0);
            kernel.wake(word);
        }
    }
}
