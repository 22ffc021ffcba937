//! Rounds of progress: of messages, and then of the collectives that go on with them.
//!
//! Owns: what a round does for collectives. Must not know: what it does for messages, when the
//! program's functions are called.

use super::exec::Call;
use super::state::Mpi;
use crate::errors::Outcome;
use crate::ground::sleepers::Sleepers;
use crate::job::rounds::Rounds;
use crate::transport::host::Host;
use crate::transport::shm::area::Awaited;
use std::collections::VecDeque;
use std::os::fd::RawFd;

/// Calls that are to be made.
pub type Calls = VecDeque<Call>;

impl Rounds for Mpi {
    type Call = Call;

    #[inline]
    fn round(&mut self) -> Outcome<bool> {
        let did = self.p2p.progress()?;
        if self.coll.is_at_work() {
            return self.go_on(did);
        }
        Ok(did)
    }

    fn round_all(&mut self) -> Outcome<bool> {
        let did = self.p2p.progress_all()?;
        if self.coll.is_at_work() {
            return self.go_on(did);
        }
        Ok(did)
    }

    fn has_work(&self) -> bool {
        let is_to_look = |flag: &Awaited| flag.is_reached() || !flag.is_announced();
        self.p2p.has_work() || self.has_losses() || self.coll.flags.iter().any(is_to_look)
    }

    #[inline]
    fn has_calls(&self) -> bool {
        !self.coll.calls.is_empty()
    }

    fn next_call(&mut self) -> Option<Call> {
        self.coll.calls.pop_front()
    }

    fn make(call: &Call) {
        call.run();
    }

    fn made(&mut self, call: &Call) {
        self.called(call);
    }

    #[inline(always)]
    fn is_over(&self, request: u32) -> bool {
        self.point.requests[request].done
    }

    #[inline(always)]
    fn set_awaited(&mut self, request: u32) {
        self.point.requests.waits.awaited = request;
    }

    #[inline(always)]
    fn sleepers(&self) -> &Sleepers {
        &self.point.requests.waits.sleepers
    }

    #[inline(always)]
    fn sleepers_mut(&mut self) -> &mut Sleepers {
        &mut self.point.requests.waits.sleepers
    }

    #[inline]
    fn host(&self) -> Option<&Host> {
        self.transports.host.as_ref()
    }

    #[inline]
    fn has_net(&self) -> bool {
        self.transports.has_net()
    }

    fn has_flags(&self) -> bool {
        !self.coll.flags.is_empty()
    }

    fn announce(&self) {
        self.coll.flags.iter().for_each(Awaited::announce);
    }

    fn arm(&mut self) -> Outcome<(Vec<RawFd>, i32)> {
        self.p2p.arm()
    }

    fn ask_about(&self) {
        self.transports.ask_about();
    }

    #[inline]
    fn has_offers(&self) -> bool {
        self.transports.has_offers()
    }

    fn say_it_waits(&self, waits: bool) {
        self.transports.say_it_waits(waits);
    }

    #[inline]
    fn spins(&self) -> u32 {
        self.job.spins
    }

    fn asked_in_vain(&mut self) -> &mut u32 {
        &mut self.asked_in_vain
    }
}

impl Mpi {
    /// A round of messages is over, which `did` something: what collectives make of it.
    #[inline(never)]
    fn go_on(&mut self, mut did: bool) -> Outcome<bool> {
        if !self.coll.executions.is_empty() {
            did |= self.advance()?;
        }
        if self.coll.flags.iter().any(Awaited::is_reached) {
            // Another thread may wait for it.
            self.sleepers_mut().note();
        }
        Ok(did)
    }
}
