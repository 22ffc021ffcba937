//! Which rank is behind which queue pair of an adapter. Must not know: connections.

use std::collections::HashMap;

/// The ranks behind our queue pairs.
pub struct Numbers {
    ranks: HashMap<u32, u32>,
    /// The last that was asked for, and its rank.
    last: (u32, u32),
}

impl Default for Numbers {
    fn default() -> Self {
        Self {
            ranks: HashMap::new(),
            last: NO_PAIR,
        }
    }
}

/// No queue pair has that number.
const NO_PAIR: (u32, u32) = (u32::MAX, 0);

impl Numbers {
    /// The rank behind the queue pair `number`.
    #[inline]
    pub(super) fn rank_of(&mut self, number: u32) -> Option<u32> {
        if self.last.0 == number {
            return Some(self.last.1);
        }
        let rank = *self.ranks.get(&number)?;
        self.last = (number, rank);
        Some(rank)
    }

    /// Whether no queue pair leads to anybody.
    pub(super) fn is_empty(&self) -> bool {
        self.ranks.is_empty()
    }

    /// The queue pair `number` is to `peer`.
    pub(super) fn insert(&mut self, number: u32, peer: u32) {
        self.ranks.insert(number, peer);
    }

    /// The queue pairs to `peer` are no more.
    pub(super) fn forget_all_of(&mut self, peer: u32) {
        self.ranks.retain(|_, rank| *rank != peer);
        self.last = NO_PAIR;
    }
}
