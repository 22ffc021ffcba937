//! How receives begin.
//!
//! Owns: receives that are kept for the next ones. Must not know: how a message comes.

use crate::errors::Outcome;
use crate::ground::status::{EMPTY, Status};
use crate::host::Sink;
use crate::p2p::point::Point;
use crate::request::{Request, Work};
use crate::runtime::Runtime;
use ferriband_mpi_proto::matching;

impl Point {
    /// Begins a receive from one rank into one run of bytes, where that takes no more than to put
    /// it behind those that wait: its request. None if it takes more: then
    /// nothing has happened.
    #[inline(always)]
    pub fn post_at_once(
        &mut self,
        comm: u32,
        source: u32,
        tag: matching::Tag,
        sink: Sink,
    ) -> Option<u32> {
        let request = *self.requests.spares.last()?;
        let spare = self.requests.slab.get_mut(request)?;
        let entry = self.objects.comms.get_mut(comm)?;
        let context = entry.context;
        let world = entry.world_of(context, source)?;
        if self.losses != 0 || self.peers.get(world as usize)?.lost {
            return None;
        }
        if !entry.point.post_next(source, tag, request) {
            return None;
        }
        self.requests.spares.pop();
        spare.done = false;
        spare.freed = false;
        spare.work = Work::Receive;
        spare.comm = comm;
        spare.context = context;
        spare.peer = world;
        spare.asks = matching::Source::Rank(source);
        spare.sink = sink;
        spare.status = EMPTY;
        Some(request)
    }
}

impl Runtime {
    /// Begins a receive; its request.
    #[inline(always)]
    pub fn start_receive(
        &mut self,
        comm: u32,
        context: u64,
        source: matching::Source,
        tag: matching::Tag,
        sink: Sink,
    ) -> Outcome<u32> {
        let request = match self.point.requests.take_spare(sink) {
            Some(request) => {
                self.point
                    .requests
                    .renew(request, comm, context, source, sink);
                // What MPI_Cancel leaves as it is.
                self.point.requests[request].status = EMPTY;
                request
            }
            None => self
                .point
                .requests
                .add(Request::receive(comm, context, source, sink))?,
        };
        self.post_receive(request, comm, context, source, tag)
    }

    /// Begins a receive that the call waits for. Its request is made in place of the last one's: to
    /// move one in and out costs as much as the rest
    /// of the call.
    #[inline(always)]
    pub fn start_waited(
        &mut self,
        comm: u32,
        source: matching::Source,
        tag: matching::Tag,
        sink: Sink,
    ) -> Outcome<u32> {
        let context = self.point.objects.comms[comm].context;
        let Some(request) = self.point.requests.take_spare(sink) else {
            return self.start_slowly(comm, source, tag, sink);
        };
        self.point
            .requests
            .renew(request, comm, context, source, sink);
        self.post_receive(request, comm, context, source, tag)
    }

    #[cold]
    fn start_slowly(
        &mut self,
        comm: u32,
        source: matching::Source,
        tag: matching::Tag,
        sink: Sink,
    ) -> Outcome<u32> {
        let context = self.point.objects.comms[comm].context;
        self.start_receive(comm, context, source, tag, sink)
    }

    /// What has become of such a receive, which is over.
    #[inline(always)]
    pub fn take_waited(&mut self, request: u32) -> Status {
        let status = self.point.requests[request].status;
        self.point.requests.put_back(request);
        status
    }

    /// Hands a receive to those who wait, or gives it the message that has waited for it.
    #[inline(always)]
    fn post_receive(
        &mut self,
        request: u32,
        comm: u32,
        context: u64,
        source: matching::Source,
        tag: matching::Tag,
    ) -> Outcome<u32> {
        let mut is_lost = false;
        if let Some(held) = self.point.objects.comms[comm]
            .matching(context)
            .post(source, tag, request)
        {
            self.deliver_held(held, request)
                .inspect_err(|_| self.abandon(request))?;
        } else if let matching::Source::Rank(rank) = source
            && let Some(world) = self.point.objects.comms[comm].world_of(context, rank)
        {
            // The answer to "who is that" for those who look at a peer that has died.
            self.point.requests[request].peer = world;
            is_lost = self.point.peers[world as usize].lost;
        }
        if self.point.losses != 0 || is_lost {
            self.point.check_hope(request)?;
        }
        Ok(request)
    }
}
