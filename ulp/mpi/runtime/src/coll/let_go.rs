//! Calls that fail while messages of theirs are under way.
//!
//! Owns: that such a call waits for its memory to be the program's again. Must not know: how a
//! message is taken back, or given up.

use super::state::Mpi;
use crate::constants::MPI_ERR_PROC_ABORTED;
use crate::job::rounds::Rounds;
use crate::p2p::give_up::SETTLING;
use crate::p2p::request::Work;
use std::time::Instant;

impl Mpi {
    /// A call has failed that waited for this request of its own: nothing is to come to the
    /// program's memory any more.
    #[cold]
    pub fn let_go(&mut self, request: u32) {
        let _ = self.cancel(request);
        self.settle(request);
        self.abandon(request);
    }

    /// Waits until nothing is moved any more from or to the memory of a request. Not for long: then
    /// its messages are given up, which does not wait for their peers.
    fn settle(&mut self, request: u32) {
        self.give_up_request(request, MPI_ERR_PROC_ABORTED);
        let is_whole = self.point.requests[request].work == Work::Collective;
        let (begun, mut is_given_up) = (Instant::now(), false);
        while !self.point.requests[request].done {
            let mut parts = match is_whole {
                true => self.parts(request),
                false => vec![request],
            };
            parts.retain(|part| self.holds_memory(*part));
            if parts.is_empty() && (is_given_up || !is_whole) {
                return;
            }
            if !is_given_up && begun.elapsed() > SETTLING {
                is_given_up = true;
                for part in parts {
                    self.give_up_bytes(part);
                }
                let _ = self.advance();
                continue;
            }
            // What else fails is found out by other calls.
            let _ = self.round_all();
            std::thread::yield_now();
        }
    }
}
