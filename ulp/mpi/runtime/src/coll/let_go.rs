//! Calls that fail while messages of theirs are under way.
//!
//! Owns: how long such a call waits for its memory to be the program's again. Must not know: how a
//! message is taken back.

use super::state::Mpi;
use crate::constants::MPI_ERR_PROC_ABORTED;
use crate::job::rounds::Rounds;
use crate::p2p::request::Work;
use std::time::{Duration, Instant};

/// How long a call that has failed waits for a message that is under way to its memory.
const SETTLING: Duration = Duration::from_millis(200);

impl Mpi {
    /// A call has failed that waited for this request of its own: nothing is to come to the
    /// program's memory any more.
    #[cold]
    pub fn let_go(&mut self, request: u32) {
        let _ = self.cancel(request);
        self.settle(request);
        self.abandon(request);
    }

    /// Waits until nothing is moved any more from or to the memory of a request, which its sender
    /// or receiver has met. Not for long: then the connection is broken, or what still comes goes
    /// elsewhere.
    fn settle(&mut self, request: u32) {
        self.give_up_request(request, MPI_ERR_PROC_ABORTED);
        let begun = Instant::now();
        while !self.point.requests[request].done {
            let parts = match self.point.requests[request].work {
                Work::Collective => self.parts(request),
                work if work.is_placing() => vec![request],
                _ => return,
            };
            if begun.elapsed() > SETTLING {
                for part in parts {
                    self.cut(part);
                }
                let _ = self.advance();
                return;
            }
            // What else fails is found out by other calls.
            let _ = self.round_all();
            std::thread::yield_now();
        }
    }
}
