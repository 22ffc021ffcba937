//! How receives begin.
//!
//! Owns: what becomes of a receive that begins. Must not know: how a message comes.

use crate::errors::Outcome;
use crate::ground::context::COLLECTIVE;
use crate::ground::memory::Sink;
use crate::ground::status::Status;
use crate::p2p::point::Point;
use crate::p2p::request::Request;
use crate::p2p::runtime::Runtime;
use ferriband_mpi_proto::matching;

impl Point {
    /// Begins a receive from one rank into one run of bytes, of a communicator's own context or,
    /// by `side`, of its collectives', where that takes no more than to put it behind those that
    /// wait: its request. None if it takes more: then nothing has happened.
    #[inline(always)]
    pub fn try_post(
        &mut self,
        comm: u32,
        side: u64,
        source: u32,
        tag: matching::Tag,
        sink: Sink,
    ) -> Option<u32> {
        let request = *self.requests.spares.last()?;
        let spare = self.requests.slab.get_mut(request)?;
        let entry = self.objects.comms.get_mut(comm)?;
        let context = entry.context | side;
        let world = entry.world_of(context, source)?;
        if self.impaired {
            return None;
        }
        if !entry.matching(side).post_next(source, tag, request) {
            return None;
        }
        self.requests.spares.pop();
        spare.renew(comm, context, matching::Source::Rank(source), sink);
        spare.peer = world;
        Some(request)
    }
}

impl Runtime {
    /// Begins a receive; its request. Most are made in place of the last one's: to make a request
    /// anew, or to move one, costs as much as the rest of a call.
    #[inline(always)]
    pub fn start_receive(
        &mut self,
        comm: u32,
        context: u64,
        source: matching::Source,
        tag: matching::Tag,
        sink: Sink,
    ) -> Outcome<u32> {
        if let matching::Source::Rank(rank) = source
            && !sink.has_gaps()
            && let Some(request) = self
                .point
                .try_post(comm, context & COLLECTIVE, rank, tag, sink)
        {
            return Ok(request);
        }
        self.post_further(comm, context, source, tag, sink)
    }

    /// Begins a receive, whatever that takes: a new request, or a message that has waited for it.
    #[inline(never)]
    fn post_further(
        &mut self,
        comm: u32,
        context: u64,
        source: matching::Source,
        tag: matching::Tag,
        sink: Sink,
    ) -> Outcome<u32> {
        let requests = &mut self.point.requests;
        let request = match requests.take_spare(sink) {
            Some(request) => {
                requests[request].renew(comm, context, source, sink);
                request
            }
            None => requests.add(Request::receive(comm, context, source, sink))?,
        };
        let entry = &mut self.point.objects.comms[comm];
        if let Some(held) = entry.matching(context).post(source, tag, request) {
            self.deliver_held(held, request)
                .inspect_err(|_| self.abandon(request))?;
        } else if let matching::Source::Rank(rank) = source
            && let Some(world) = entry.world_of(context, rank)
        {
            // The answer to "who is that" for those who look at a peer that has died.
            self.point.requests[request].peer = world;
        }
        if self.point.impaired {
            self.point.check_hope(request)?;
        }
        Ok(request)
    }

    /// What has become of a receive that is over and that nobody else asks for.
    #[inline(always)]
    pub fn take_waited(&mut self, request: u32) -> Status {
        let status = self.point.requests[request].status;
        self.point.requests.put_back(request);
        status
    }
}
