//! The objects that a program names by handles: communicators, groups, datatypes, operations, info
//! objects, attributes, topologies, sessions, and what of a process is there before and after MPI.
//!
//! Owns: what each of them is, and those of this process ([`Objects`]). Must not know: how a
//! message is sent, how a collective is done, what the job is; no message is sent here.

pub mod attr;
pub mod comm;
pub mod comms;
pub mod datatype;
pub mod group;
pub mod groups;
pub mod info;
pub mod operation;
pub mod process;
pub mod session;
pub mod topology;
pub mod types;

use crate::ground::errors::Outcome;
use crate::ground::handle::{Kind, Slab};
use attr::Keyvals;
use comms::Comms;
use groups::Groups;
use operation::Operations;
use session::Session;
use types::Types;

/// The objects of this process between MPI_Init and MPI_Finalize.
pub struct Objects {
    /// Communicators.
    pub comms: Comms,
    /// Datatypes.
    pub types: Types,
    /// Groups that the program has.
    pub groups: Groups,
    /// Operations of the program.
    pub operations: Operations,
    /// Keys of attributes.
    pub keyvals: Keyvals,
    /// Sessions of the program.
    pub sessions: Slab<Session>,
}

impl Objects {
    /// Those that rank `rank` of a world of `size` begins with: the world, and itself.
    pub fn new(rank: u32, size: u32) -> Outcome<Self> {
        Ok(Self {
            comms: Comms::new(rank, size)?,
            types: Types::default(),
            groups: Groups::default(),
            operations: Operations::default(),
            keyvals: Keyvals::default(),
            sessions: Slab::new(Kind::Session),
        })
    }
}
