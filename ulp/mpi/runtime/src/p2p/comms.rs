//! When communicators come and go.
//!
//! Owns: the messages that came before their communicator, and what keeps a freed one. Must not
//! know:
//! how ranks agree about a new one.

use crate::errors::Outcome;
use crate::ground::context::COLLECTIVE;
use crate::objects::comm::{Comm, side_context};
use crate::p2p::due::Due;
use crate::p2p::point::Point;
use crate::p2p::runtime::Runtime;

impl Point {
    /// The context of a communicator is known: gives it the messages that came before it.
    pub fn name_comm(&mut self, index: u32, context: u64) -> Outcome {
        self.objects.comms.set_context(index, context);
        if self.faults.is_revoked(context) {
            self.due.push_back(Due::Revoked(context));
        }
        for _ in 0..self.unexpected.orphans.len() {
            let Some((theirs, held)) = self.unexpected.orphans.pop_front() else {
                break;
            };
            if theirs & !COLLECTIVE == context {
                self.hold(index, theirs, held)?;
            } else {
                self.unexpected.orphans.push_back((theirs, held));
            }
        }
        Ok(())
    }
}

impl Runtime {
    /// Keeps a communicator, and gives it the messages that came before it. Its index.
    pub fn keep_comm(&mut self, comm: Comm) -> Outcome<u32> {
        let context = comm.context;
        let index = self.keep_nameless(comm)?;
        self.point.name_comm(index, context)?;
        Ok(index)
    }

    /// Keeps a communicator whose context is not known yet. Its index.
    pub fn keep_nameless(&mut self, comm: Comm) -> Outcome<u32> {
        self.remove_freed();
        self.point.objects.comms.insert(comm)
    }

    /// Lets a communicator go: its handle is stale, and it itself goes with the last that concerns
    /// it.
    pub fn let_comm_go(&mut self, index: u32) {
        let comms = &mut self.point.objects.comms;
        comms.retire(index);
        let side = comms.of_context(side_context(comms[index].context));
        comms.mark_freed(index);
        if let Some(side) = side.filter(|side| *side != index) {
            self.let_comm_go(side);
        }
        self.remove_freed();
    }

    /// Whether something that has begun still needs a communicator. A collective under way has a
    /// request of its own or of its messages.
    pub fn is_in_use(&self, index: u32) -> bool {
        let comm = &self.point.objects.comms[index];
        !comm.point.is_idle()
            || !comm.collective.is_idle()
            || self
                .point
                .unexpected
                .probed
                .values()
                .any(|comm| *comm == index)
            || self
                .point
                .requests
                .slab
                .iter()
                .any(|(at, request)| request.comm == index && at != self.point.requests.nothing)
    }

    /// Takes out the communicators that were freed and that nothing needs any more. Members that
    /// have agreed are to hear of it.
    fn remove_freed(&mut self) {
        for index in self.point.objects.comms.take_freed() {
            if self.is_in_use(index) {
                self.point.objects.comms.mark_freed(index);
                continue;
            }
            let context = self.point.objects.comms[index].context;
            if self.point.faults.circles.contains_key(&context) {
                self.point.due.push_back(Due::Freed(context));
            }
            self.point.objects.comms.remove(index);
        }
    }
}
