//! What is said and counted of heals.

use super::super::Net;
use ferriband_heal::{Cause, Report};

/// A peer that has not answered the first question for so long is mentioned.
const PATIENCE_NS: u64 = 60_000_000_000;

impl Net {
    /// A heal is over, or lasts: the latter is said, each time that the session says so.
    pub(super) fn tell_report(&mut self, peer: u32, report: &Report) {
        let (me, name) = (self.connect.me, &self.device.name);
        let lasts_ns = report.fence_ns + report.reconnect_ns;
        let seconds = lasts_ns / 1_000_000_000;
        match (report.cause, report.lasts) {
            (Cause::First, true) if lasts_ns >= PATIENCE_NS => complain!(
                "ferriband MPI: rank {me}: rank {peer} has not answered by {name} for {seconds} s; it may be computing, or {name} may lead nowhere"
            ),
            (Cause::First, _) => (),
            (cause, true) => complain!(
                "ferriband MPI: rank {me}: the connection to rank {peer} by {name} has failed ({}) and is not made anew after {seconds} s, {} tries",
                words(cause),
                report.tries
            ),
            (_, false) => self.stats.heals += 1,
        }
    }
}

fn words(cause: Cause) -> &'static str {
    match cause {
        Cause::RetryExceeded => "it does not answer",
        Cause::RnrExceeded => "it takes no message",
        Cause::Peer => "the other end says so",
        Cause::Verb => "a verb failed",
        _ => "a queue pair is in error",
    }
}
