//! What a rank knows of failures: who has died, which communicators agree about what, and which are
//! revoked.
//!
//! Owns: that. Must not know: how any of it is told ([`super::faults`]).

use crate::constants::MPIX_ERR_REVOKED;
use crate::errors::MpiError;
use crate::ground::memory::Sink;
use crate::objects::comm::Comm;
use crate::objects::group::Group;
use ferriband_mpi_proto::agree::Agreements;
use std::collections::BTreeMap;

/// What ranks have said about failures.
#[derive(Default)]
pub struct Faults {
    /// Ranks of the world that have died, in the order in which this one has learned of it.
    pub dead: Vec<u32>,
    /// Those that agree, by the context of their communicator.
    pub circles: BTreeMap<u64, Circle>,
    /// Words of contexts that are not known yet: sender, number, context.
    pub early: Vec<(u32, i32, u64, Box<[u8]>)>,
    /// Contexts that are revoked.
    pub revoked: BTreeMap<u64, Revoked>,
}

/// The members of a communicator, and what they agree about. It outlives the communicator until all
/// members have freed it: others may ask for the last decision.
pub struct Circle {
    /// As all of them count each other: of an inter-communicator those of the lower side first.
    pub group: Group,
    /// Their agreements.
    pub agreements: Agreements,
    /// Those that calls of this process wait for, by number.
    pub pending: BTreeMap<u32, Pending>,
}

/// An agreement that a request of this process waits for.
pub struct Pending {
    /// The request.
    pub request: u32,
    /// What it is over with.
    pub end: End,
}

/// What becomes of a decision.
pub enum End {
    /// The bits go there: MPIX_Comm_agree.
    Agree(Sink),
    /// The communicator at this index gets those that have not failed: MPIX_Comm_shrink.
    Shrink(u32),
}

/// A communicator that is revoked.
pub struct Revoked {
    /// Of whom this rank has heard it, or itself.
    pub by: u32,
    /// Its members, once they are known.
    pub group: Option<Group>,
}

impl Faults {
    /// Whether a context is revoked whose communicator is about to be there.
    pub fn is_revoked(&self, context: u64) -> bool {
        !self.revoked.is_empty() && self.revoked.contains_key(&context)
    }
}

/// All members of a communicator, in the order that all of them know, and on which side of it this
/// process is.
pub fn members(comm: &Comm) -> (Group, usize) {
    match &comm.remote {
        None => (comm.group.clone(), 0),
        Some(remote) if comm.group.world(0) < remote.group.world(0) => {
            (comm.group.union(&remote.group), 0)
        }
        Some(remote) => (remote.group.union(&comm.group), 1),
    }
}

/// The communicator is revoked.
#[cold]
pub fn revoked() -> MpiError {
    MpiError::new(MPIX_ERR_REVOKED)
}
