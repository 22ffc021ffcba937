//! Communicators and the groups behind them.

use crate::constants::MPI_ERRORS_ARE_FATAL;
use ferriband_mpi_proto::matching::Matching;

/// Which ranks of the world belong, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Group {
    /// All of them: rank r is r.
    World {
        /// How many.
        size: u32,
    },
    /// Those listed.
    Dense(Box<[u32]>),
}

impl Group {
    /// How many ranks.
    #[inline]
    pub fn size(&self) -> u32 {
        match self {
            Self::World { size } => *size,
            Self::Dense(ranks) => ranks.len() as u32,
        }
    }

    /// The world's rank of rank `rank`.
    #[inline]
    pub fn world(&self, rank: u32) -> Option<u32> {
        match self {
            Self::World { size } => (rank < *size).then_some(rank),
            Self::Dense(ranks) => ranks.get(rank as usize).copied(),
        }
    }

    /// The rank of the world's rank `world`.
    #[inline]
    pub fn rank_of(&self, world: u32) -> Option<u32> {
        match self {
            Self::World { size } => (world < *size).then_some(world),
            Self::Dense(ranks) => ranks
                .iter()
                .position(|rank| *rank == world)
                .map(|at| at as u32),
        }
    }
}

/// Bit of a context that collective messages have.
pub const COLLECTIVE: u64 = 1;

/// A communicator.
#[derive(Debug)]
pub struct Comm {
    /// What its messages carry; bit 0 is clear.
    pub context: u64,
    /// Its ranks.
    pub group: Group,
    /// This process's rank in it.
    pub rank: u32,
    /// Handle of its error handler.
    pub errhandler: i32,
    /// Messages between two ranks.
    pub point: Matching,
    /// Messages of collectives.
    pub collective: Matching,
    /// Number of collectives begun: their tag.
    pub collectives: i32,
    /// Number of persistent collectives that were made.
    pub persistent: i32,
    /// True for what cannot be freed.
    pub predefined: bool,
    /// What MPI_Comm_get_name says.
    pub name: String,
}

impl Comm {
    /// A communicator without messages.
    pub fn new(context: u64, group: Group, rank: u32) -> Self {
        Self {
            context,
            group,
            rank,
            errhandler: MPI_ERRORS_ARE_FATAL,
            point: Matching::default(),
            collective: Matching::default(),
            collectives: 0,
            persistent: 0,
            predefined: false,
            name: String::new(),
        }
    }

    /// Receives and messages of one of the two contexts.
    #[inline]
    pub fn matching(&mut self, context: u64) -> &mut Matching {
        if context & COLLECTIVE == 0 {
            &mut self.point
        } else {
            &mut self.collective
        }
    }

    /// The tag of the next collective.
    pub fn next_collective(&mut self) -> i32 {
        let tag = self.collectives;
        self.collectives = (tag + 1) & (PERSISTENT - 1);
        tag
    }

    /// The tag of the next persistent collective, for all its rounds: they are made in the same order everywhere, and begun in any.
    pub fn next_persistent(&mut self) -> i32 {
        let tag = self.persistent;
        self.persistent = (tag + 1) & (PERSISTENT - 1);
        PERSISTENT | tag
    }
}

/// Bit of a tag in the collectives' context: a persistent one. Negative tags are partitioned messages' (`request::partitioned`).
const PERSISTENT: i32 = 1 << 30;

/// A context: the leader's rank in the world (24 bits), the job (8), the leader's own number (31), and bit 0.
pub fn context(leader: u32, number: u32) -> u64 {
    u64::from(leader) << 40 | u64::from(number & 0x7fff_ffff) << 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_translate_both_ways() {
        let dense = Group::Dense(Box::new([4, 2, 9]));
        assert_eq!(
            (dense.size(), dense.world(2), dense.rank_of(2)),
            (3, Some(9), Some(1))
        );
        assert_eq!((dense.world(3), dense.rank_of(3)), (None, None));
        let world = Group::World { size: 2 };
        assert_eq!(
            (world.world(1), world.rank_of(1), world.world(2)),
            (Some(1), Some(1), None)
        );
    }

    #[test]
    fn contexts_of_different_leaders_differ() {
        assert_ne!(context(0, 1), context(1, 1));
        assert_eq!(context(3, 5) & COLLECTIVE, 0);
    }
}
