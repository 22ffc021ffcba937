//! What becomes of operations of a communicator that is revoked, and of receives from anybody while
//! a failure is not acknowledged (the ULFM extension: `docs/design/ulfm.md`).
//!
//! Owns: how each kind of operation ends. Must not know: who has revoked it, how that is told.

use crate::constants::{MPI_ERR_PROC_ABORTED, MPIX_ERR_PROC_FAILED_PENDING, MPIX_ERR_REVOKED};
use crate::ground::context::COLLECTIVE;
use crate::ground::status::EMPTY;
use crate::handle::NOBODY;
use crate::objects::comm::side_context;
use crate::objects::group::Group;
use crate::p2p::due::Due;
use crate::p2p::point::Point;
use crate::p2p::request::Work;
use crate::p2p::runtime::Runtime;
use crate::p2p::unexpected::{Content, Held};
use crate::transport::contract::Body;
use ferriband_mpi_proto::envelope::{Fin, Kind};
use ferriband_mpi_proto::matching;
use zerocopy::IntoBytes;

impl Point {
    /// Ranks of the world that belong to a communicator and have died, in the order in which this
    /// one has learned of it.
    pub fn failed_of(&self, comm: u32) -> Vec<u32> {
        let entry = &self.objects.comms[comm];
        let belongs = |world: &u32| {
            let remote = entry.remote.as_ref();
            entry.group.rank_of(*world).is_some()
                || remote.is_some_and(|remote| remote.group.rank_of(*world).is_some())
        };
        self.faults.dead.iter().copied().filter(belongs).collect()
    }

    /// Whether the program has not acknowledged all failures in a communicator.
    pub fn has_unacked(&self, comm: u32) -> bool {
        self.failed_of(comm).len() > self.objects.comms[comm].acked as usize
    }

    /// A receive from anybody cannot be over before a failure is acknowledged. It stays posted, and
    /// calls that ask for it say so.
    #[cold]
    pub fn strand(&mut self, request: u32) {
        let entry = &mut self.requests[request];
        entry.work = Work::Stranded;
        entry.status.error = MPIX_ERR_PROC_FAILED_PENDING;
        self.finish(request);
    }

    /// Such a receive is one that waits for its message.
    #[cold]
    pub fn revive(&mut self, request: u32) {
        let entry = &mut self.requests[request];
        if entry.is_stranded() {
            entry.work = Work::Receive;
            entry.status = EMPTY;
            entry.done = false;
        }
    }

    /// Such a receive belongs to a call that is over with it.
    #[cold]
    pub fn give_up_stranded(&mut self, request: u32) {
        let entry = &mut self.requests[request];
        if entry.is_stranded() {
            entry.work = Work::Receive;
            entry.status.error = MPI_ERR_PROC_ABORTED;
            let (comm, context, asks) = (entry.comm, entry.context, entry.asks);
            self.objects.comms[comm]
                .matching(context)
                .cancel(asks, request);
        }
    }

    /// Failures in a communicator are acknowledged, `count` of them or more: how many are.
    pub fn acknowledge(&mut self, comm: u32, count: u32) -> u32 {
        let known = self.failed_of(comm).len() as u32;
        let entry = &mut self.objects.comms[comm];
        entry.acked = entry.acked.max(count.min(known));
        let acked = entry.acked;
        if acked == known {
            for request in self.stranded_of(comm) {
                self.revive(request);
            }
        }
        acked
    }

    fn stranded_of(&self, comm: u32) -> Vec<u32> {
        let all = self.requests.slab.iter();
        let found = all.filter(|(_, request)| request.comm == comm && request.is_stranded());
        found.map(|(index, _)| index).collect()
    }

    /// A message of a communicator that is revoked: nobody receives it, and its sender learns so.
    #[cold]
    pub fn discard(&mut self, held: Held) {
        match held.content {
            Content::Bytes(_) => (),
            Content::Remote {
                request, length, ..
            } => {
                let fin = Fin::of(request, length, MPIX_ERR_REVOKED);
                let fin = Body::new(fin.as_bytes());
                self.due.push_back(Due::Tell(held.from, Kind::Fin, fin));
            }
            Content::Own { request } => {
                self.requests[request].status.error = MPIX_ERR_REVOKED;
                self.finish(request);
            }
        }
        if let Some(seq) = held.synchronous {
            self.tell_matched(held.from, seq);
        }
    }

    /// The class of operations of a communicator that cannot be over: it is revoked, or a rank of
    /// it has died.
    #[cold]
    pub fn failure_of(&self, comm: u32) -> i32 {
        match self.objects.comms.get(comm) {
            Some(entry) if entry.revoked => MPIX_ERR_REVOKED,
            _ => MPI_ERR_PROC_ABORTED,
        }
    }
}

impl Runtime {
    /// A communicator is revoked here: what is under way in it ends, and nothing begins any more,
    /// for messages name nobody in it.
    #[cold]
    pub fn interrupt(&mut self, comm: u32) {
        let entry = &mut self.point.objects.comms[comm];
        if entry.revoked {
            return;
        }
        (entry.revoked, entry.broken) = (true, true);
        let context = entry.context;
        self.point.impaired = true;
        for request in self.point.stranded_of(comm) {
            self.point.revive(request);
        }
        self.end_messages(comm, context);
        for side in [0, COLLECTIVE] {
            loop {
                let matching = self.point.objects.comms[comm].matching(side);
                let oldest = matching.take(matching::Source::Any, matching::Tag::Any);
                let Some(oldest) = oldest else { break };
                if let Some(held) = self.point.unexpected.held.remove(oldest) {
                    self.point.discard(held);
                }
            }
        }
        let entry = &mut self.point.objects.comms[comm];
        entry.reach = Group::of(Vec::new());
        if let Some(remote) = &mut entry.remote {
            remote.reach = Group::of(Vec::new());
            remote.all = Group::of(Vec::new());
        }
        self.point.objects.comms.forget_sender();
        // Collectives that are under way look at their communicators.
        self.point.lost += 1;
        self.point.requests.waits.sleepers.note();
        // A part of its ranks may be making another communicator there.
        if let Some(side) = self.point.objects.comms.of_context(side_context(context))
            && side != comm
        {
            self.interrupt(side);
        }
    }

    /// Ends the messages of a context that are under way. Those whose bytes are being moved are
    /// over when these are there: both ends live, or one learns that the other has died.
    fn end_messages(&mut self, comm: u32, context: u64) {
        let all = self.point.requests.slab.iter();
        let under_way: Vec<u32> = all
            .filter(|(_, one)| !one.done && one.comm == comm)
            .filter(|(_, one)| one.context & !COLLECTIVE == context)
            .map(|(index, _)| index)
            .collect();
        for request in under_way {
            let Some(entry) = self.point.requests.slab.get(request) else {
                continue;
            };
            match entry.work {
                _ if entry.done => (),
                Work::Receive => self.fail(request),
                Work::Eager | Work::Synchronous | Work::Rendezvous | Work::Own => {
                    self.take_back_send(request);
                }
                _ => (),
            }
        }
    }

    /// A rank has died: receives from anybody in communicators with it wait for the program's word.
    /// A part of another request ends with it.
    pub(super) fn strand_all(&mut self, rank: u32) {
        let all = self.point.requests.slab.iter();
        let waiting: Vec<(u32, bool)> = all
            .filter(|(_, one)| !one.done && !one.freed && one.work == Work::Receive)
            .filter(|(_, one)| one.context & COLLECTIVE == 0)
            .filter(|(_, one)| one.asks == matching::Source::Any)
            .filter(|(_, one)| {
                let comm = self.point.objects.comms.get(one.comm);
                comm.is_some_and(|comm| comm.rank_of(COLLECTIVE, rank).is_some())
            })
            .map(|(index, one)| (index, one.parent != NOBODY))
            .collect();
        for (request, is_part) in waiting {
            match is_part {
                true => self.fail(request),
                false => self.point.strand(request),
            }
        }
    }
}
