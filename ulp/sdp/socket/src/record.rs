//! A side's own words of a connection, in memory that its processes share and no peer sees.

use ferriband_sdp_local::Own;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words of a record that the machine uses.
const WORDS: usize = 16;

/// The record of one connection. Its words begin as 0.
#[derive(Default, Debug)]
#[repr(C, align(128))]
pub struct Record {
    words: [AtomicU64; WORDS],
    /// How often the record was given back, times two; the lowest bit is set while it is in use.
    /// [`crate::arena`] alone writes it.
    pub(crate) state: AtomicU64,
    /// Not 0: the connection stays TCP, or goes back to it.
    pub(crate) stays: AtomicU64,
    /// Not 0: processes that do not take part may hold the socket, so its last close here may not
    /// be its last.
    pub(crate) strangers: AtomicU64,
    /// The only holder: its number in the upper half, how often it had forked in the lower. 0:
    /// there may be several.
    pub(crate) owner: AtomicU64,
    /// How often this side has woken the peer's waiters.
    pub(crate) wakes: AtomicU64,
}

impl Record {
    /// A word.
    #[inline]
    pub fn word(&self, word: Own) -> &AtomicU64 {
        let at = match word {
            Own::SendLock => 0,
            Own::Sends => 1,
            Own::SendGate => 2,
            Own::Head => 3,
            Own::Base => 4,
            Own::Ended => 5,
            Own::FullTail => 6,
            Own::FullSince => 7,
            Own::Error => 13,
            Own::InVain => 14,
            Own::Refrains => 15,
            // what receives has a line of its own
            Own::ReceiveLock => 8,
            Own::Receives => 9,
            Own::ReceiveGate => 10,
            Own::FromTcp => 11,
            Own::FromSdp => 12,
        };
        &self.words[at]
    }

    /// A record begins.
    pub(crate) fn clear(&self) {
        let words = self
            .words
            .iter()
            .chain([&self.stays, &self.strangers, &self.wakes]);
        words.for_each(|word| word.store(0, Ordering::Relaxed));
    }
}
