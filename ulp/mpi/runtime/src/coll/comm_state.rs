//! What collectives keep for each communicator.
//!
//! Owns: the numbers by which their messages are told apart, and the memory that its ranks share.
//! Must not know: what a communicator is, beyond its index.

use super::shared::Sharing;
use std::ops::{Index, IndexMut};

/// Bit of a tag in the collectives' context: a persistent collective. Negative tags are partitioned
/// messages' (`p2p::partitioned`).
const PERSISTENT: i32 = 1 << 30;
/// Bit of a tag in the collectives' context: a non-blocking collective.
const ASIDE: i32 = 1 << 29;

/// What collectives keep for one communicator.
#[derive(Debug, Default)]
pub struct CommState {
    /// Number of collectives done to their end by one call: their tag.
    collectives: i32,
    /// Number of those that go on beside the program.
    asides: i32,
    /// Number of persistent collectives that were made.
    persistent: i32,
    /// The memory by which its ranks do collectives together.
    pub sharing: Sharing,
}

impl CommState {
    /// The tag of the next collective.
    pub fn next_collective(&mut self) -> i32 {
        let tag = self.collectives;
        self.collectives = (tag + 1) & (ASIDE - 1);
        tag
    }

    /// The tag of the next collective that goes on beside the program. The standard wants blocking
    /// and non-blocking ones begun in the same order everywhere; programs that do not keep to that
    /// between the two kinds run on other libraries, whose messages of both are apart, and here.
    pub fn next_aside(&mut self) -> i32 {
        let tag = self.asides;
        self.asides = (tag + 1) & (ASIDE - 1);
        ASIDE | tag
    }

    /// The tag of the next persistent collective, for all its rounds: they are made in the same
    /// order everywhere, and begun in any.
    pub fn next_persistent(&mut self) -> i32 {
        let tag = self.persistent;
        self.persistent = (tag + 1) & (ASIDE - 1);
        PERSISTENT | tag
    }
}

/// The states of all communicators, by the communicators' indices.
#[derive(Debug)]
pub struct CommStates(Vec<CommState>);

impl CommStates {
    /// For the `predefined` communicators that are there from the beginning.
    pub fn new(predefined: u32) -> Self {
        Self((0..predefined).map(|_| CommState::default()).collect())
    }

    /// A communicator comes to be at `index`. What was there may be gone without a word: the side
    /// communicator of one that the program has freed.
    pub fn begin(&mut self, index: u32) {
        let least = index as usize + 1;
        if self.0.len() < least {
            self.0.resize_with(least, CommState::default);
        }
        self.end(index);
    }

    /// No collective of the communicator at `index` begins any more.
    pub fn end(&mut self, index: u32) {
        let ended = std::mem::take(&mut self[index]);
        if let Sharing::Part(area) = &ended.sharing {
            area.leave();
        }
    }
}

/// The state of a communicator that the caller knows to be there.
impl Index<u32> for CommStates {
    type Output = CommState;
    #[inline]
    fn index(&self, comm: u32) -> &CommState {
        &self.0[comm as usize]
    }
}

impl IndexMut<u32> for CommStates {
    #[inline]
    fn index_mut(&mut self, comm: u32) -> &mut CommState {
        &mut self.0[comm as usize]
    }
}
