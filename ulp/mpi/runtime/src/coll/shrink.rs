//! The communicator of those of another one who have not failed: MPIX_Comm_shrink.
//!
//! Owns: what the new one has from the old one. Must not know: how its members agree
//! ([`crate::p2p::faults`]).

use super::create::{NAMELESS, child};
use super::state::Mpi;
use crate::errors::Outcome;
use crate::objects::comm::Remote;
use crate::p2p::circles::End;

/// Begins to make it: its index, and the request that is over when it may be used.
pub fn begin(runtime: &mut Mpi, parent: u32) -> Outcome<(u32, u32)> {
    let old = &runtime.point.objects.comms[parent];
    let (group, rank) = (old.group.clone(), old.rank);
    let others = old.remote.as_ref().map(|remote| remote.group.clone());
    let mut fresh = child(runtime, parent, NAMELESS, group, rank);
    fresh.remote = others.map(|others| Box::new(Remote::new(&fresh.group, others)));
    let index = runtime.add_nameless(fresh)?;
    let request = runtime.begin_agreement(parent, u32::MAX, End::Shrink(index))?;
    Ok((index, request))
}
