//! Persistent collectives: what MPI_Start begins, again and again.
//!
//! Owns: what each of them does while it does not run. Must not know: which call made it.

use super::exec::Prepared;
use super::state::Mpi;
use crate::constants::MPI_ERR_REQUEST;
use crate::errors::{MpiError, Outcome};
use crate::p2p::persistent::Bound;

/// Persistent collectives, by the numbers that their requests have for them.
#[derive(Default)]
pub struct Bounds(Vec<Option<Collective>>);

/// A persistent collective.
struct Collective {
    /// The tag of all its rounds.
    tag: i32,
    /// What it does; none while it runs, and once it has failed.
    prepared: Option<Prepared>,
}

impl Bounds {
    /// Keeps one; its number.
    fn add(&mut self, tag: i32, prepared: Prepared) -> u32 {
        let one = Some(Collective {
            tag,
            prepared: Some(prepared),
        });
        if let Some(free) = self.0.iter().position(Option::is_none) {
            self.0[free] = one;
            return free as u32;
        }
        self.0.push(one);
        self.0.len() as u32 - 1
    }

    /// Takes out what the one with this number does, and its tag.
    fn take(&mut self, number: u32) -> Option<(i32, Prepared)> {
        let one = self.0.get_mut(number as usize)?.as_mut()?;
        Some((one.tag, one.prepared.take()?))
    }

    /// The one with this number has been done, and waits for its next round.
    fn give_back(&mut self, number: u32, prepared: Prepared) {
        if let Some(Some(one)) = self.0.get_mut(number as usize) {
            one.prepared = Some(prepared);
        }
    }

    /// The one with this number is gone: the datatype that it handed to functions of the program.
    fn remove(&mut self, number: u32) -> Option<i32> {
        let one = self.0.get_mut(number as usize)?.take()?;
        one.prepared?.datatype()
    }

    /// Whether one of them hands this datatype to functions of the program.
    pub fn hands_out(&self, datatype: i32) -> bool {
        let mut all = self.0.iter().flatten();
        all.any(|one| one.prepared.as_ref().and_then(Prepared::datatype) == Some(datatype))
    }
}

impl Mpi {
    /// Makes a persistent collective of the communicator at `comm`; its request.
    pub fn add_bound(&mut self, comm: u32, prepared: Prepared) -> Outcome<u32> {
        let tag = self.coll.comms[comm].next_persistent();
        let number = self.coll.bounds.add(tag, prepared);
        let request = self.add_persistent(comm, Bound::Collective(number));
        request.inspect_err(|_| {
            let _ = self.coll.bounds.remove(number);
        })
    }

    /// Begins a round of the persistent collective with this number.
    pub fn start_bound(&mut self, request: u32, number: u32) -> Outcome {
        let comm = self.point.requests[request].comm;
        self.check_whole(comm)?;
        let (tag, prepared) = self
            .coll
            .bounds
            .take(number)
            .ok_or_else(|| MpiError::with(MPI_ERR_REQUEST, "it has failed"))?;
        let begun = self.run_collective(comm, request, tag, prepared);
        begun.inspect_err(|_| self.detach_execution(request))
    }

    /// A round of a collective is over: a persistent one that the program has not freed waits for
    /// the next.
    pub(super) fn give_back(&mut self, request: u32, prepared: Prepared) {
        let Some(number) = self.p2p.collective_of(request) else {
            return;
        };
        if self.point.requests[request].freed {
            self.coll.bounds.remove(number);
        } else {
            self.coll.bounds.give_back(number, prepared);
        }
    }

    /// A persistent collective that the program has freed has failed.
    #[cold]
    pub(super) fn forget_freed(&mut self, request: u32) {
        if self.point.requests[request].freed
            && let Some(number) = self.p2p.collective_of(request)
        {
            self.coll.bounds.remove(number);
        }
    }

    /// The program frees a request that is over, or not active.
    pub fn free_request(&mut self, request: u32) {
        let number = self.p2p.collective_of(request);
        self.p2p.conclude(request);
        let removed = number.and_then(|number| self.coll.bounds.remove(number));
        if let Some(datatype) = removed {
            self.drop_freed(datatype);
        }
    }
}
