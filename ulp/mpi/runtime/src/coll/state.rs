//! The state of MPI in this process.
//!
//! Owns: what a guard leads to: messages between two ranks, and above them what collectives have.
//! Must not know: which call has entered.

use super::choose::Kept;
use super::comm_state::CommStates;
use super::exec::Execution;
use super::persistent::Bounds;
use super::rounds::Calls;
use super::shared::Given;
use crate::errors::Outcome;
use crate::job::state::{self, Entry};
use crate::objects::comm::Comm;
use crate::objects::comms::SELF;
use crate::p2p::runtime::Runtime;
use crate::transport::shm::area::Awaited;
use std::ops::{Deref, DerefMut};

/// The runtime, for one call or one round of it.
pub type Guard = state::Guard<Mpi>;
/// The runtime, for a call of the only thread that calls.
pub type Alone = state::Alone<Mpi>;

/// Where it is entered.
pub static ENTRY: Entry<Mpi> = Entry::closed();

/// Enters the runtime; none before MPI_Init and after MPI_Finalize.
#[inline]
pub fn enter() -> Option<Guard> {
    ENTRY.enter()
}

/// Enters the runtime where that takes no more than to find it; none where [`enter`] has to be
/// asked.
#[inline(always)]
pub fn alone() -> Option<Alone> {
    ENTRY.alone()
}

/// Everything that this process knows. In this order, a pointer to it is one to what each message
/// needs.
#[repr(C)]
pub struct Mpi {
    /// Messages between two ranks, and what moves them.
    pub p2p: Runtime,
    /// Collectives.
    pub coll: Coll,
    /// Calls that only ask, one after the other, that have found nothing new.
    pub(super) asked_in_vain: u32,
}

/// What collectives have.
pub struct Coll {
    /// Those under way.
    pub executions: Vec<Execution>,
    /// Functions of the program that they have come to.
    pub calls: Calls,
    /// Flags of shared memory that calls wait for: of several threads each one.
    pub flags: Vec<Awaited>,
    /// What there is for each communicator.
    pub comms: CommStates,
    /// Schedules that were used last.
    pub schedules: Kept,
    /// Persistent collectives.
    pub bounds: Bounds,
    /// Memory that this process has given to communicators.
    pub given: Given,
    /// Ranks that were lost when the collectives of broken communicators were given up.
    pub(super) losses: u32,
}

impl Mpi {
    /// Above messages between two ranks.
    pub fn new(p2p: Runtime) -> Self {
        Self {
            p2p,
            coll: Coll {
                executions: Vec::new(),
                calls: Calls::new(),
                flags: Vec::new(),
                comms: CommStates::new(SELF + 1),
                schedules: Kept::default(),
                bounds: Bounds::default(),
                given: Given::default(),
                losses: 0,
            },
            asked_in_vain: 0,
        }
    }

    /// Keeps a communicator, and gives it the messages that came before it. Its index.
    pub fn add_comm(&mut self, comm: Comm) -> Outcome<u32> {
        let index = self.p2p.keep_comm(comm)?;
        self.coll.comms.begin(index);
        Ok(index)
    }

    /// Keeps a communicator whose context is not known yet. Its index.
    pub fn add_nameless(&mut self, comm: Comm) -> Outcome<u32> {
        let index = self.p2p.keep_nameless(comm)?;
        self.coll.comms.begin(index);
        Ok(index)
    }

    /// Lets a communicator go: its handle is stale, no collective of it begins any more, and it
    /// itself goes with the last that concerns it.
    pub fn drop_comm(&mut self, index: u32) {
        self.coll.comms.end(index);
        self.p2p.let_comm_go(index);
    }
}

impl Coll {
    /// Whether rounds of progress have something to do here.
    #[inline(always)]
    pub fn is_at_work(&self) -> bool {
        !self.executions.is_empty() || !self.flags.is_empty()
    }
}

impl Deref for Mpi {
    type Target = Runtime;
    #[inline(always)]
    fn deref(&self) -> &Runtime {
        &self.p2p
    }
}

impl DerefMut for Mpi {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Runtime {
        &mut self.p2p
    }
}
