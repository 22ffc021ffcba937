//! The last thing that a device has refused to a connection, and since when it has refused the
//! like.
//!
//! Owns: that record, and when what was refused is tried again. Must not know: what becomes of it
//! ([`super::refusals`]).

use ferriband_heal::{Epoch, Ns};
use ferriband_ibv::VerbsError;

/// Pauses before what was refused is tried again by a rank that sleeps.
const SHORTEST_NS: u64 = 1_000_000;
const LONGEST_NS: u64 = 1_000_000_000;

/// What was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// A request of a message.
    Request,
    /// A datagram of the session.
    Datagram,
    /// A queue pair that is made, connected or destroyed.
    QueuePair,
    /// The queue pair of the lane.
    Lane,
    /// That a peer in the middle of an access ends it: for as long as its process is stopped.
    EndOfAccess,
}

/// The last refusal, and those before it since something of the kind was granted.
#[derive(Clone, Copy, Debug)]
pub struct Refused {
    pub(super) needed: Needed,
    pub(super) error: VerbsError,
    pub(super) since: Ns,
    pub(super) last: Ns,
    /// What had been posted then.
    pub(super) posted: Posted,
    pub(super) marks: usize,
}

/// Requests of a life: by the queue pair, and by that of the lane.
pub(super) type Posted = (Epoch, u32, u32);

impl Refused {
    /// What is to be tried again has its turn then.
    pub(super) fn due(&self) -> Ns {
        self.last.after(pause_ns(self.last.since(self.since)))
    }

    /// The verb and why.
    pub(super) fn error(&self) -> VerbsError {
        self.error
    }
}

/// The pause before what has been refused for so long is tried again.
fn pause_ns(lasts: u64) -> u64 {
    (lasts / 4).clamp(SHORTEST_NS, LONGEST_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_tried_again_after_longer_pauses_up_to_a_second() {
        const MS: u64 = 1_000_000;
        for (lasts, pause) in [
            (0, MS),
            (4 * MS, MS),
            (400 * MS, 100 * MS),
            (u64::MAX, 1000 * MS),
        ] {
            assert_eq!(pause_ns(lasts), pause, "{lasts}");
        }
    }
}
