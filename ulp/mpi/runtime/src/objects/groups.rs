//! The groups that the program has handles of.
//!
//! Owns: their handles, and the session that each comes from. Must not know: what a group is asked.

use crate::constants::{MPI_ERR_GROUP, MPI_ERR_OTHER, MPI_GROUP_EMPTY};
use crate::errors::{MpiError, Outcome};
use crate::handle::{Kind, Slab};
use crate::objects::group::{Group, Known};

/// The groups of a process.
#[derive(Debug)]
pub struct Groups(Slab<Known>);

impl Default for Groups {
    fn default() -> Self {
        Self(Slab::new(Kind::Group))
    }
}

impl Groups {
    /// The group that a handle names.
    pub fn group(&self, handle: i32) -> Outcome<Group> {
        if handle == MPI_GROUP_EMPTY {
            return Ok(Group::of(Vec::new()));
        }
        self.0
            .index_of(handle)
            .map(|index| self.0[index].group.clone())
            .ok_or_else(|| MpiError::new(MPI_ERR_GROUP))
    }

    /// The session that a group comes from.
    pub fn session_of(&self, handle: i32) -> Option<i32> {
        let index = self.0.index_of(handle)?;
        self.0[index].session
    }

    /// Keeps a group of a session, if it comes from one; its handle.
    pub fn add(&mut self, group: Group, session: Option<i32>) -> Outcome<i32> {
        if group.size() == 0 {
            return Ok(MPI_GROUP_EMPTY);
        }
        let index = self
            .0
            .insert(Known { group, session })
            .map_err(|_| MpiError::with(MPI_ERR_OTHER, "too many groups"))?;
        Ok(self.0.handle(index))
    }

    /// Lets a group go; nothing if the handle names none.
    pub fn drop(&mut self, handle: i32) {
        if let Some(index) = self.0.index_of(handle) {
            self.0.remove(index);
        }
    }
}
