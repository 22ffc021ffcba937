//! Cancelling: a receive is taken back here, a send as long as it waits here or lies unmatched with
//! its receiver, which is asked.

use crate::constants::MPI_ERR_REQUEST;
use crate::errors::{MpiError, Outcome, broken};
use crate::ground::context::COLLECTIVE;
use crate::handle::NOBODY;
use crate::p2p::due::Due;
use crate::p2p::persistent::Bound;
use crate::p2p::point::Point;
use crate::p2p::request::{Extra, Work};
use crate::p2p::runtime::Runtime;
use crate::p2p::unexpected::Content;
use crate::transport::contract::Body;
use ferriband_mpi_proto::envelope::{Kind, Recall};
use zerocopy::IntoBytes;

impl Point {
    /// A peer takes a message back: it is forgotten if it has not met its receive.
    pub fn asked_to_forget(&mut self, peer: u32, seq: u32) {
        let is_it = |held: &crate::p2p::unexpected::Held| held.from == peer && held.seq == seq;
        let orphan = self
            .unexpected
            .orphans
            .iter()
            .position(|(_, held)| is_it(held));
        let mut found = orphan.is_some();
        if let Some(at) = orphan {
            self.unexpected.orphans.remove(at);
        } else if let Some(held) = self.unexpected.held.find(is_it)
            && self.take_back(peer, held)
        {
            self.unexpected.held.remove(held);
            found = true;
        }
        let answer = Recall {
            seq: seq.into(),
            found: u32::from(found).into(),
        };
        let answer = Body::new(answer.as_bytes());
        self.due.push_back(Due::Tell(peer, Kind::Cancelled, answer));
    }

    /// What became of a message that this rank wanted back.
    pub fn recalled(&mut self, peer: u32, answer: &Recall) -> Outcome {
        let seq = answer.seq.get();
        let entry = &mut self.peers[peer as usize];
        let Some(at) = entry.recalled.iter().position(|(sent, _)| *sent == seq) else {
            // It has ended otherwise.
            return Ok(());
        };
        let (_, request) = entry.recalled.swap_remove(at);
        if answer.found.get() == 0 {
            return Ok(());
        }
        if request == NOBODY {
            // It was given up meanwhile: its receiver will say nothing more of it.
            self.due.push_back(Due::TakenBack(peer, seq));
            return Ok(());
        }
        entry.synchronous.retain(|(sent, _)| *sent != seq);
        let is_it = self.requests.slab.get(request).is_some_and(|one| {
            !one.done && one.peer == peer && one.seq == seq && is_taken_back(one.work)
        });
        if !is_it {
            return Err(broken(peer));
        }
        let send = self.requests.slab.token(request);
        self.due.push_back(Due::Cancelled(send));
        Ok(())
    }

    /// Takes a message out of the communicator where it waits.
    fn take_back(&mut self, peer: u32, held: u32) -> bool {
        if self.unexpected.probed.contains_key(&held) {
            return false;
        }
        // Messages of collectives are taken back by ranks that know of a death.
        self.objects.comms.iter_mut().any(|comm| {
            [0, COLLECTIVE].into_iter().any(|context| {
                let rank = comm.rank_of(context, peer);
                rank.is_some_and(|rank| comm.matching(context).withdraw(rank, held))
            })
        })
    }
}

impl Runtime {
    /// Takes a request back if that is still possible.
    pub fn cancel(&mut self, request: u32) -> Outcome {
        self.point.revive(request);
        let entry = &self.point.requests[request];
        if entry.done {
            return Ok(());
        }
        let (comm, context, peer) = (entry.comm, entry.context, entry.peer);
        match entry.work {
            Work::Receive => {
                let asks = entry.asks;
                if self.point.objects.comms[comm]
                    .matching(context)
                    .cancel(asks, request)
                {
                    self.cancelled(request);
                }
                Ok(())
            }
            Work::Eager | Work::Synchronous | Work::Rendezvous => {
                let seq = entry.seq;
                if let Some(outcome) = self.unqueue(peer, request) {
                    self.cancelled(request);
                    return outcome;
                }
                if seq == 0
                    || self.point.peers[peer as usize]
                        .recalled
                        .contains(&(seq, request))
                {
                    return Ok(());
                }
                self.point.peers[peer as usize]
                    .recalled
                    .push((seq, request));
                let recall = Recall {
                    seq: seq.into(),
                    found: 0.into(),
                };
                self.answer(peer, Kind::Cancel, recall.as_bytes())
            }
            Work::Own => {
                let rank = self.point.objects.comms[comm].rank_of(context, peer);
                let held = self.point.unexpected.held.find(
                    |held| matches!(held.content, Content::Own { request: own } if own == request),
                );
                if let (Some(rank), Some(held)) = (rank, held)
                    && self.point.objects.comms[comm]
                        .matching(context)
                        .withdraw(rank, held)
                {
                    self.point.unexpected.held.remove(held);
                    self.cancelled(request);
                }
                Ok(())
            }
            Work::Persistent { .. } => match entry.extra.as_deref() {
                Some(Extra::Persistent(whole))
                    if whole.child != NOBODY && !matches!(whole.bound, Bound::Partitioned(_)) =>
                {
                    let child = whole.child;
                    self.cancel(child)
                }
                _ => Err(refused()),
            },
            Work::Nothing | Work::Pieces { .. } | Work::Moving { .. } | Work::Landing => Ok(()),
            _ => Err(refused()),
        }
    }

    /// Nobody waits for a request any more. If it cannot be taken back it goes when it is over.
    #[cold]
    pub fn abandon(&mut self, request: u32) {
        let _ = self.cancel(request);
        if self.point.requests[request].done {
            self.point.requests.slab.remove(request);
        } else {
            self.point.requests[request].freed = true;
        }
    }

    pub(super) fn cancelled(&mut self, request: u32) {
        self.withdraw(request);
        self.point.requests[request].status.cancelled = 1;
        self.finish(request);
    }

    /// Takes a message out of those that wait for room: what came of sending those behind it. None
    /// if it is not there.
    fn unqueue(&mut self, peer: u32, request: u32) -> Option<Outcome> {
        let token = self.point.requests.slab.token(request);
        let fifo = &mut self.point.peers[peer as usize].fifo;
        let at = fifo.iter().position(|message| {
            message.token == token && matches!(message.head.kind, Kind::Eager | Kind::Rts)
        });
        fifo.remove(at?);
        Some(self.pump(peer).map(drop))
    }
}

fn is_taken_back(work: Work) -> bool {
    matches!(work, Work::Synchronous | Work::Rendezvous)
}

#[cold]
fn refused() -> MpiError {
    MpiError::with(MPI_ERR_REQUEST, "such a request is not cancelled")
}
