//! The communicators of this process.
//!
//! Owns: their handles, their contexts, and when a freed one goes. Must not know: how one is made.

use crate::collective::shared::Sharing;
use crate::comm::{COLLECTIVE, Comm, context, side_context};
use crate::constants::{MPI_COMM_SELF, MPI_COMM_WORLD, MPI_ERR_OTHER};
use crate::errors::{MpiError, Outcome};
use crate::process::process;
use crate::runtime::{Runtime, SELF, WORLD};

impl Runtime {
    /// The index of the communicator that `handle` names.
    #[inline]
    pub fn comm_index(&self, handle: i32) -> Option<u32> {
        match handle {
            MPI_COMM_WORLD => Some(WORLD),
            MPI_COMM_SELF => Some(SELF),
            _ => self.comms.index_of(handle).filter(|index| *index > SELF),
        }
    }

    /// The handle of the communicator at `index`.
    pub fn comm_handle(&self, index: u32) -> i32 {
        match index {
            WORLD => MPI_COMM_WORLD,
            SELF => MPI_COMM_SELF,
            _ => self.comms.handle(index),
        }
    }

    /// Keeps a communicator, and gives it the messages that came before it. Its index.
    pub fn add_comm(&mut self, comm: Comm) -> Outcome<u32> {
        let context = comm.context;
        let index = self.add_nameless(comm)?;
        self.name_comm(index, context)?;
        Ok(index)
    }

    /// Keeps a communicator whose context is not known yet. Its index.
    pub fn add_nameless(&mut self, comm: Comm) -> Outcome<u32> {
        self.bury();
        self.comms
            .insert(comm)
            .map_err(|_| MpiError::with(MPI_ERR_OTHER, "too many communicators"))
    }

    /// The context of a communicator is known: gives it the messages that came before it.
    pub fn name_comm(&mut self, index: u32, context: u64) -> Outcome {
        self.comms[index].context = context;
        self.contexts.insert(context, index);
        for _ in 0..self.orphans.len() {
            let Some((theirs, held)) = self.orphans.pop_front() else {
                break;
            };
            if theirs & !COLLECTIVE == context {
                self.hold(index, theirs, held)?;
            } else {
                self.orphans.push_back((theirs, held));
            }
        }
        Ok(())
    }

    /// Lets a communicator go: its handle is stale, and it itself goes with the last that concerns
    /// it.
    pub fn drop_comm(&mut self, index: u32) {
        self.comms.retire(index);
        self.comms[index].freed = true;
        let side = self.comm_of(side_context(self.comms[index].context));
        self.doomed.push(index);
        if let Some(side) = side.filter(|side| *side != index) {
            self.drop_comm(side);
        }
        self.bury();
    }

    /// Whether something that has begun still needs a communicator.
    pub fn is_in_use(&self, index: u32) -> bool {
        let comm = &self.comms[index];
        !comm.point.is_idle()
            || !comm.collective.is_idle()
            || self.executions.iter().any(|one| one.comm == index)
            || self.probed.values().any(|comm| *comm == index)
            || self
                .requests
                .iter()
                .any(|(at, request)| request.comm == index && at != self.nothing)
    }

    /// Takes out the communicators that were freed and that nothing concerns any more.
    fn bury(&mut self) {
        for index in std::mem::take(&mut self.doomed) {
            if self.is_in_use(index) {
                self.doomed.push(index);
                continue;
            }
            if let Some(comm) = self.comms.remove(index) {
                if let Sharing::Part(area) = &comm.sharing {
                    area.leave();
                }
                self.contexts.remove(&comm.context);
                self.last = (u64::MAX, 0);
                process().release(comm.errhandler);
            }
        }
    }

    /// A context that no other communicator has, with this process as leader.
    pub fn new_context(&mut self) -> u64 {
        let number = self.next_context;
        self.next_context += 1;
        context(self.rank, number)
    }

    /// The communicator with this context, of either kind.
    #[inline]
    pub fn comm_of(&mut self, context: u64) -> Option<u32> {
        let context = context & !COLLECTIVE;
        if self.last.0 == context {
            return Some(self.last.1);
        }
        let index = *self.contexts.get(&context)?;
        self.last = (context, index);
        Some(index)
    }
}
