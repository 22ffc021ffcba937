//! What may be outstanding: a window of requests on their way out, one of READ responses on their
//! way back, and the
//! round trip that both are measured by.
//!
//! Owns [`Window`]s and [`RoundTrip`] of one requester. Must not know the queue nor what was lost.

use super::window::{RoundTrip, Window, WindowLimit};
use ferriband_wire::{Mtu, Psn};

/// Packets beyond a gap that a peer is trusted to keep.
const MOST_AHEAD: u32 = 768;
/// Packets of a run, below which its system call costs more than it carries.
const LEAST_RUN: u32 = 8;

/// Limits of one requester.
#[derive(Debug)]
pub(super) struct Flow {
    pub requests: Window,
    pub responses: Window,
    limit: WindowLimit,
    pub trip: RoundTrip,
    /// Losses before this PSN belong to the flight for which a window was already made smaller.
    recover: Option<Psn>,
}

/// How far the PSNs go, counted from the oldest unacknowledged one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    /// The packet that is looked at.
    pub ahead: u32,
    /// Up to the farthest packet that the peer is known to have, that one counted; 0 if it has told
    /// of none.
    pub heard: u32,
    /// PSNs of READ responses that are still to come.
    pub responses: u32,
}

impl Flow {
    /// Nothing is known of the path.
    pub fn new(limit: WindowLimit, mtu: u32) -> Self {
        Flow {
            requests: Window::new(limit.requests_bytes, mtu),
            responses: Window::new(limit.responses_bytes, mtu),
            limit,
            trip: RoundTrip::default(),
            recover: None,
        }
    }

    /// As [`Self::new`], with the bounds of before.
    pub fn restart(&mut self, mtu: u32) {
        *self = Flow::new(self.limit, mtu);
    }

    /// Changes the bounds and keeps what was learned.
    pub fn limit(&mut self, limit: WindowLimit, mtu: u32) {
        self.limit = limit;
        self.requests.limit(limit.requests_bytes, mtu);
        self.responses.limit(limit.responses_bytes, mtu);
    }

    /// Packets that had better leave together: a quarter of the window. A path that holds a whole
    /// window in one run
    /// stands still while that run is acknowledged.
    #[inline]
    pub fn run_packets(&self) -> u32 {
        (self.requests.size() / 4).max(LEAST_RUN)
    }

    /// Packets that are under way if this one is the next: what the peer is known to have is not,
    /// though it is not
    /// acknowledged while there is a gap before it.
    pub fn in_flight(&self, reach: Reach) -> u32 {
        let Reach {
            ahead,
            heard,
            responses,
        } = reach;
        if heard == 0 || heard > ahead {
            return ahead - responses.min(ahead);
        }
        if ahead >= MOST_AHEAD {
            // The peer may have no room for more.
            return ahead.max(self.requests.size());
        }
        ahead - responses.max(heard).min(ahead)
    }

    /// A loss makes a window smaller, once for all that was outstanding when it was noticed: what
    /// is sent lies before
    /// `next`. `holds`: the peer keeps what comes after a gap.
    pub fn lost(&mut self, una: Psn, next: Psn, responses: bool, holds: bool) {
        if self.recover.is_some_and(|end| end.after(una)) {
            return;
        }
        self.recover = Some(next);
        let path = self.trip.path();
        if responses {
            self.responses.lost(path, false);
        } else {
            self.requests.lost(path, holds);
        }
    }

    /// The ack time-out.
    pub fn timed_out(&mut self, next: Psn) {
        self.requests.timed_out();
        self.responses.timed_out();
        self.recover = Some(next);
    }

    /// Everything before `una` is acknowledged.
    pub fn acknowledged(&mut self, una: Psn) {
        if self.recover.is_some_and(|end| !end.after(una)) {
            self.recover = None;
        }
    }
}

impl Default for Flow {
    fn default() -> Self {
        Flow::new(WindowLimit::default(), Mtu::M256.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNA: Psn = Psn::new(10);

    #[test]
    fn a_flight_is_cut_once_and_the_next_one_again() {
        let mut flow = Flow::default();
        let sizes = [(); 3].map(|()| flow.requests.size());
        assert_eq!(sizes[0], 512);
        flow.lost(UNA, Psn::new(50), false, false);
        flow.lost(UNA.next(), Psn::new(60), false, false);
        assert_eq!(flow.requests.size(), 384, "the second is of that flight");
        flow.acknowledged(Psn::new(50));
        flow.lost(Psn::new(50), Psn::new(90), false, false);
        assert_eq!(flow.requests.size(), 288);
        assert_eq!(flow.responses.size(), 512, "the other window is its own");
    }

    #[test]
    fn what_the_peer_has_is_not_in_flight_as_far_as_it_is_trusted() {
        let flow = Flow::default();
        let reach = |ahead, heard, responses| {
            flow.in_flight(Reach {
                ahead,
                heard,
                responses,
            })
        };
        assert_eq!(reach(20, 0, 0), 20);
        assert_eq!(reach(20, 0, 8), 12, "responses have a window of their own");
        assert_eq!(reach(20, 15, 0), 5);
        assert_eq!(reach(20, 21, 0), 20, "it cannot have heard of this one");
        assert_eq!(reach(MOST_AHEAD, 700, 0), MOST_AHEAD);
    }
}
