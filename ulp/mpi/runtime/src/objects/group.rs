//! Groups: which ranks of the world, in which order. Pure: what is asked of them needs nothing but the lists.

use crate::constants::{
    MPI_ERR_ARG, MPI_ERR_RANK, MPI_IDENT, MPI_PROC_NULL, MPI_SIMILAR, MPI_UNDEFINED, MPI_UNEQUAL,
};
use crate::errors::{MpiError, Outcome};
use std::sync::{Arc, OnceLock};

/// Which ranks of the world belong, in order.
#[derive(Clone, Debug)]
pub enum Group {
    /// All of them: rank r is r.
    World {
        /// How many.
        size: u32,
    },
    /// Those listed.
    Dense(Arc<Dense>),
}

/// A group that the program has a handle of.
#[derive(Clone, Debug)]
pub struct Known {
    /// Who belongs.
    pub group: Group,
    /// Handle of the session that it comes from; none for the world's.
    pub session: Option<i32>,
}

/// A list of ranks, none of them twice.
#[derive(Debug)]
pub struct Dense {
    ranks: Box<[u32]>,
    /// Places of the list in the order of what stands there: made when a long list is searched.
    order: OnceLock<Box<[u32]>>,
}

/// Longest list that is searched from its beginning.
const SHORT: usize = 16;

impl Dense {
    fn place_of(&self, world: u32) -> Option<u32> {
        if self.ranks.len() <= SHORT {
            let at = self.ranks.iter().position(|rank| *rank == world)?;
            return Some(at as u32);
        }
        let order = self.order.get_or_init(|| {
            let mut order: Box<[u32]> = (0..self.ranks.len() as u32).collect();
            order.sort_unstable_by_key(|at| self.ranks[*at as usize]);
            order
        });
        let found = order.binary_search_by_key(&world, |at| self.ranks[*at as usize]);
        found.ok().map(|at| order[at])
    }
}

impl Group {
    /// The group of these ranks of the world, none of which may be there twice.
    pub fn of(ranks: Vec<u32>) -> Self {
        Self::Dense(Arc::new(Dense {
            ranks: ranks.into_boxed_slice(),
            order: OnceLock::new(),
        }))
    }

    /// How many ranks.
    #[inline]
    pub fn size(&self) -> u32 {
        match self {
            Self::World { size } => *size,
            Self::Dense(dense) => dense.ranks.len() as u32,
        }
    }

    /// The world's rank of rank `rank`.
    #[inline]
    pub fn world(&self, rank: u32) -> Option<u32> {
        match self {
            Self::World { size } => (rank < *size).then_some(rank),
            Self::Dense(dense) => dense.ranks.get(rank as usize).copied(),
        }
    }

    /// The rank of the world's rank `world`.
    #[inline]
    pub fn rank_of(&self, world: u32) -> Option<u32> {
        match self {
            Self::World { size } => (world < *size).then_some(world),
            Self::Dense(dense) => dense.place_of(world),
        }
    }

    /// The world's ranks, in order.
    pub fn ranks(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.size()).filter_map(|rank| self.world(rank))
    }

    fn filtered(&self, keep: impl Fn(u32) -> bool) -> Self {
        Self::of(self.ranks().filter(|world| keep(*world)).collect())
    }

    /// The places of the list that the program names, each once and none outside.
    fn places(&self, ranks: impl Iterator<Item = i64>) -> Outcome<Vec<u32>> {
        let size = self.size();
        let mut seen = vec![false; size as usize];
        ranks
            .map(|rank| {
                let place = u32::try_from(rank)
                    .ok()
                    .filter(|place| *place < size)
                    .ok_or_else(|| MpiError::with(MPI_ERR_RANK, format!("{rank} of {size}")))?;
                if std::mem::replace(&mut seen[place as usize], true) {
                    return Err(MpiError::with(
                        MPI_ERR_RANK,
                        format!("rank {rank} is named twice"),
                    ));
                }
                Ok(place)
            })
            .collect()
    }

    /// MPI_Group_incl: the ranks that are named, in that order.
    pub fn including(&self, ranks: impl Iterator<Item = i64>) -> Outcome<Self> {
        let places = self.places(ranks)?;
        Ok(Self::of(
            places
                .into_iter()
                .filter_map(|place| self.world(place))
                .collect(),
        ))
    }

    /// MPI_Group_excl: the ranks that are not named.
    pub fn excluding(&self, ranks: impl Iterator<Item = i64>) -> Outcome<Self> {
        let mut keep = vec![true; self.size() as usize];
        for place in self.places(ranks)? {
            keep[place as usize] = false;
        }
        let left = (0..self.size()).filter(|place| keep[*place as usize]);
        Ok(Self::of(
            left.filter_map(|place| self.world(place)).collect(),
        ))
    }

    /// MPI_Group_union: this one's ranks, then those of `other` that are not in it.
    pub fn union(&self, other: &Self) -> Self {
        let more = other.ranks().filter(|world| self.rank_of(*world).is_none());
        Self::of(self.ranks().chain(more).collect())
    }

    /// MPI_Group_intersection, in this one's order.
    pub fn intersection(&self, other: &Self) -> Self {
        self.filtered(|world| other.rank_of(world).is_some())
    }

    /// MPI_Group_difference.
    pub fn difference(&self, other: &Self) -> Self {
        self.filtered(|world| other.rank_of(world).is_none())
    }

    /// Whether both have the same ranks in the same order.
    pub fn is_same(&self, other: &Self) -> bool {
        self.size() == other.size() && self.ranks().eq(other.ranks())
    }

    /// MPI_Group_compare.
    pub fn compare(&self, other: &Self) -> i32 {
        if self.is_same(other) {
            MPI_IDENT
        } else if self.size() == other.size()
            && self.ranks().all(|world| other.rank_of(world).is_some())
        {
            MPI_SIMILAR
        } else {
            MPI_UNEQUAL
        }
    }

    /// MPI_Group_translate_ranks of one rank.
    pub fn translate(&self, rank: i32, to: &Self) -> Outcome<i32> {
        if rank == MPI_PROC_NULL {
            return Ok(MPI_PROC_NULL);
        }
        let world = u32::try_from(rank)
            .ok()
            .and_then(|rank| self.world(rank))
            .ok_or_else(|| MpiError::with(MPI_ERR_RANK, format!("{rank} of {}", self.size())))?;
        Ok(to.rank_of(world).map_or(MPI_UNDEFINED, u32::cast_signed))
    }
}

/// The ranks of triples (first, last, stride) of MPI_Group_range_incl and MPI_Group_range_excl, for a group of `size` ranks.
pub fn expand(ranges: &[[i32; 3]], size: u32) -> Outcome<Vec<i64>> {
    let mut ranks = Vec::new();
    for [first, last, stride] in ranges.iter().map(|range| range.map(i64::from)) {
        if stride == 0 {
            return Err(MpiError::with(MPI_ERR_ARG, "a stride of 0"));
        }
        // What has both ends in the group has no more ranks than it.
        for end in [first, last] {
            if !(0..i64::from(size)).contains(&end) {
                return Err(MpiError::with(MPI_ERR_RANK, format!("{end} of {size}")));
            }
        }
        if (last - first).signum() * stride.signum() < 0 {
            return Err(MpiError::with(
                MPI_ERR_ARG,
                format!("from {first} to {last} by {stride}"),
            ));
        }
        let count = (last - first) / stride;
        ranks.extend((0..=count).map(|at| first + at * stride));
        if ranks.len() > size as usize {
            return Err(MpiError::with(MPI_ERR_RANK, "a rank is named twice"));
        }
    }
    Ok(ranks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constants::MPI_ERR_RANK;

    fn list(group: &Group) -> Vec<u32> {
        group.ranks().collect()
    }

    #[test]
    fn groups_translate_both_ways() {
        let dense = Group::of(vec![4, 2, 9]);
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
    fn long_lists_are_searched_as_short_ones() {
        let ranks: Vec<u32> = (0..1000).map(|at| (at * 7919) % 1009).collect();
        let group = Group::of(ranks.clone());
        for world in 0..1100 {
            let expected = ranks.iter().position(|rank| *rank == world);
            assert_eq!(group.rank_of(world).map(|at| at as usize), expected);
        }
    }

    #[test]
    fn set_operations_keep_the_first_order() {
        let (one, other) = (Group::of(vec![5, 1, 3]), Group::of(vec![3, 4, 5]));
        assert_eq!(list(&one.union(&other)), [5, 1, 3, 4]);
        assert_eq!(list(&one.intersection(&other)), [5, 3]);
        assert_eq!(list(&one.difference(&other)), [1]);
        assert_eq!(one.compare(&Group::of(vec![1, 3, 5])), MPI_SIMILAR);
        assert_eq!(one.compare(&one.clone()), MPI_IDENT);
        assert_eq!(one.compare(&other), MPI_UNEQUAL);
        assert_eq!(one.translate(0, &other), Ok(2));
        assert_eq!(one.translate(1, &other), Ok(MPI_UNDEFINED));
        assert_eq!(one.translate(MPI_PROC_NULL, &other), Ok(MPI_PROC_NULL));
        assert!(one.translate(3, &other).is_err());
    }

    #[test]
    fn choosing_refuses_what_is_named_twice_or_is_not_there() {
        let group = Group::of(vec![7, 8, 9, 6]);
        let choose = |ranks: &[i64]| group.including(ranks.iter().copied()).map(|g| list(&g));
        assert_eq!(choose(&[3, 0]), Ok(vec![6, 7]));
        for bad in [&[0, 0][..], &[4], &[-1]] {
            assert_eq!(choose(bad).expect_err("no").class, MPI_ERR_RANK);
        }
        let left = group.excluding([3_i64, 0].into_iter()).expect("inside");
        assert_eq!(list(&left), [8, 9]);
    }

    #[test]
    fn ranges_go_up_and_down() {
        assert_eq!(expand(&[[0, 5, 2], [3, 1, -2]], 6), Ok(vec![0, 2, 4, 3, 1]));
        assert!(expand(&[[0, 5, 0]], 6).is_err());
        assert!(expand(&[[5, 0, 1]], 6).is_err());
        assert!(expand(&[[0, 6, 1]], 6).is_err());
        assert!(expand(&[[0, 5, 1], [0, 5, 1]], 6).is_err());
        assert_eq!(expand(&[[2, 2, 5]], 6), Ok(vec![2]));
    }
}
