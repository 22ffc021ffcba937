//! Ranks that have died while the others go on: the launcher says so where every survivor has
//! chosen that errors of MPI_COMM_WORLD are no end, or the user that ranks may die.
//!
//! What names such a rank ends with MPI_ERR_PROC_ABORTED: messages from it and to it, receives from
//! anybody where it belongs until that is acknowledged ([`super::interrupt`]), and all collectives
//! of a communicator that contains it, for no survivor can know how far the others have come.
//! Messages that it has sent before are received as usual. Everything else goes on;
//! MPI_Comm_create_group and MPIX_Comm_shrink make a communicator of the survivors.

use crate::constants::MPI_ERR_PROC_ABORTED;
use crate::errors::{MpiError, Outcome};
use crate::ground::context::COLLECTIVE;
use crate::ground::status::status;
use crate::objects::comm::Comm;
use crate::p2p::circles::revoked;
use crate::p2p::due::Due;
use crate::p2p::point::Point;
use crate::p2p::request::{Request, Work};
use crate::p2p::runtime::Runtime;
use ferriband_mpi_proto::matching;

/// The error of what names a rank that has died.
#[cold]
pub fn lost(text: String) -> MpiError {
    MpiError::with(MPI_ERR_PROC_ABORTED, text)
}

/// A message cannot be sent to rank `peer` of the world.
#[cold]
pub fn dead(peer: u32) -> MpiError {
    lost(format!("rank {peer} of the world has died"))
}

/// Whether a rank of the world belongs to a communicator, on either side.
fn contains(comm: &Comm, world: u32) -> bool {
    comm.rank_of(COLLECTIVE, world).is_some()
}

impl Point {
    /// No message can come in a communicator from whom it was asked for.
    #[cold]
    pub fn hopeless(&self, comm: u32) -> MpiError {
        match self.objects.comms[comm].revoked {
            true => revoked(),
            false => lost("whoever is to send it has died".to_owned()),
        }
    }

    /// What is begun in a communicator that is not whole.
    #[cold]
    pub fn not_whole(&self, comm: u32) -> MpiError {
        match self.objects.comms[comm].revoked {
            true => revoked(),
            false => lost("a rank of the communicator has died".to_owned()),
        }
    }

    /// Whether a receive from `source` can only be met by what is here already.
    #[cold]
    pub fn is_hopeless(&self, comm: u32, context: u64, source: matching::Source) -> bool {
        let entry = &self.objects.comms[comm];
        match source {
            _ if entry.revoked => true,
            _ if context & COLLECTIVE != 0 => entry.broken,
            matching::Source::Any => self.has_unacked(comm),
            matching::Source::Rank(rank) => entry
                .world_of(context, rank)
                .and_then(|world| self.peers.get(world as usize))
                .is_some_and(|peer| peer.lost),
        }
    }

    /// A receive has found no message: none will come if who is asked has died.
    #[cold]
    pub fn check_hope(&mut self, request: u32) -> Outcome {
        let entry = &self.requests[request];
        let (comm, context, asks) = (entry.comm, entry.context, entry.asks);
        if entry.done || entry.work != Work::Receive || !self.is_hopeless(comm, context, asks) {
            return Ok(());
        }
        let is_revoked = self.objects.comms[comm].revoked;
        let is_any = asks == matching::Source::Any && context & COLLECTIVE == 0;
        if is_any && !is_revoked {
            self.strand(request);
            return Ok(());
        }
        self.objects.comms[comm]
            .matching(context)
            .cancel(asks, request);
        self.requests.slab.remove(request);
        Err(self.hopeless(comm))
    }
}

impl Runtime {
    /// Looks whether the launcher has told of deaths. True if so.
    pub fn look_for_losses(&mut self) -> bool {
        let Some(host) = &self.transports.host else {
            return false;
        };
        let told = host.losses();
        if told == self.point.losses {
            return false;
        }
        self.point.losses = told;
        for rank in 0..self.point.peers.len() as u32 {
            let host = &self.transports.host;
            let is_dead = host.as_ref().is_some_and(|host| host.is_dead(rank));
            if is_dead && !self.point.peers[rank as usize].lost {
                self.lose(rank);
            }
        }
        true
    }

    /// A rank has died, or cannot be reached any more.
    pub fn lose(&mut self, rank: u32) {
        let peer = &mut self.point.peers[rank as usize];
        peer.lost = true;
        peer.fifo.clear();
        peer.synchronous.clear();
        peer.recalled.clear();
        self.point.impaired = true;
        self.point.faults.dead.push(rank);
        self.point.due.push_back(Due::Death(rank));
        self.transports.lose(rank);
        self.point.stalled.retain(|stalled| *stalled != rank);
        for comm in self.point.objects.comms.iter_mut() {
            comm.broken |= contains(comm, rank);
        }
        let ended: Vec<u32> = self
            .point
            .requests
            .slab
            .iter()
            .filter(|(_, request)| !request.done)
            .filter(|(_, request)| self.point.objects.comms.get(request.comm).is_some())
            .filter(|(_, request)| {
                let broken = self.point.objects.comms[request.comm].broken;
                match request.work {
                    Work::Receive if request.context & COLLECTIVE != 0 => broken,
                    Work::Receive => match request.asks {
                        matching::Source::Any => false,
                        matching::Source::Rank(_) => request.peer == rank,
                    },
                    Work::Eager | Work::Synchronous | Work::Rendezvous => request.peer == rank,
                    Work::Pieces { .. } | Work::Moving { .. } | Work::Landing => {
                        request.peer == rank
                    }
                    _ => false,
                }
            })
            .map(|(index, _)| index)
            .collect();
        for request in ended {
            self.fail(request);
        }
        self.strand_all(rank);
        let is_stranded = |request: &Request| {
            let is_send = !request.done && request.work == Work::Rendezvous;
            is_send && request.context & COLLECTIVE != 0
        };
        let all = self
            .point
            .requests
            .slab
            .iter()
            .filter(|(_, one)| is_stranded(one));
        let broken = all.filter(|(_, one)| {
            self.point
                .objects
                .comms
                .get(one.comm)
                .is_some_and(|comm| comm.broken)
        });
        let stranded: Vec<u32> = broken.map(|(index, _)| index).collect();
        for request in stranded {
            // One may have ended with another.
            if self
                .point
                .requests
                .slab
                .get(request)
                .is_some_and(is_stranded)
            {
                self.take_back_send(request);
            }
        }
        self.point.lost += 1;
        self.point.requests.waits.sleepers.note();
    }

    /// A receive has met a long message that nobody sends any more.
    #[cold]
    pub fn never_comes(&mut self, receive: u32, (rank, tag): (u32, i32)) -> Outcome {
        self.point.requests[receive].status = status(rank, tag, MPI_ERR_PROC_ABORTED, 0);
        self.finish(receive);
        Ok(())
    }

    /// A send of a collective that fails ends if its receiver, on this host, has left MPI: it reads
    /// nothing, and answers nothing.
    pub fn forget_unread(&mut self, request: u32) {
        let entry = &self.point.requests[request];
        let (peer, is_send) = (
            entry.peer,
            !entry.source.is_empty() || entry.work == Work::Eager,
        );
        if entry.done || !is_send || !self.transports.has_left(peer) {
            return;
        }
        let token = self.point.requests.slab.token(request);
        let waiting = &mut self.point.peers[peer as usize];
        waiting.fifo.retain(|message| message.token != token);
        waiting
            .recalled
            .retain(|(_, recalled)| *recalled != request);
        self.fail(request);
    }

    /// A long message of a collective that fails. Its receiver may be reading it, so it is over
    /// when that has been asked.
    pub fn take_back_send(&mut self, request: u32) {
        let class = self.point.failure_of(self.point.requests[request].comm);
        self.point.requests[request].status.error = class;
        // What cannot be sent now is found out by who sends next.
        let _ = self.cancel(request);
    }

    /// Ends a request that can never be over.
    pub fn fail(&mut self, request: u32) {
        let entry = &self.point.requests[request];
        if entry.work == Work::Receive {
            let (comm, context, asks) = (entry.comm, entry.context, entry.asks);
            self.point.objects.comms[comm]
                .matching(context)
                .cancel(asks, request);
        }
        self.withdraw(request);
        let class = self.point.failure_of(self.point.requests[request].comm);
        self.point.requests[request].status.error = class;
        self.finish(request);
    }

    /// A collective of a communicator cannot be begun where a rank has died.
    #[inline]
    pub fn check_whole(&self, comm: u32) -> Outcome {
        if self.point.objects.comms[comm].broken {
            return Err(self.point.not_whole(comm));
        }
        Ok(())
    }
}
