//! Topologies: what a communicator says of who is next to whom. Pure.

use crate::constants::{MPI_ERR_ARG, MPI_ERR_DIMS, MPI_ERR_RANK};
use crate::errors::{MpiError, Outcome};

/// A topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// A grid.
    Cart(Cart),
    /// A graph that each process knows whole.
    Graph(Graph),
    /// A graph of which each process knows its own edges.
    Distributed(Distributed),
}

/// A grid: ranks in row-major order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cart {
    /// Processes in each dimension.
    pub dims: Vec<i32>,
    /// Whether the last one is next to the first.
    pub periods: Vec<bool>,
}

/// A graph as MPI_Graph_create has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// For each rank how many edges there are up to its last.
    pub index: Vec<i32>,
    /// Where they go.
    pub edges: Vec<i32>,
}

/// The edges of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distributed {
    /// Whence.
    pub sources: Vec<i32>,
    /// Their weights, if there are weights.
    pub source_weights: Vec<i32>,
    /// Whither.
    pub destinations: Vec<i32>,
    /// Their weights, if there are weights.
    pub destination_weights: Vec<i32>,
    /// Whether there are.
    pub weighted: bool,
}

/// Neighbours in the order of the buffers of neighbourhood collectives; none is MPI_PROC_NULL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Around {
    /// Where messages come from.
    pub sources: Vec<Option<u32>>,
    /// Where they go.
    pub destinations: Vec<Option<u32>>,
    /// Whether it is a grid.
    pub cartesian: bool,
}

impl Topology {
    /// Who is next to `rank`, which is this process's.
    pub fn around(&self, rank: u32) -> Around {
        let ranks = |list: &[i32]| list.iter().map(|rank| u32::try_from(*rank).ok()).collect();
        match self {
            Self::Cart(cart) => {
                let both = (0..cart.dims.len()).map(|at| cart.shift(rank, at, 1));
                let list: Vec<Option<u32>> = both.flat_map(|(low, high)| [low, high]).collect();
                Around {
                    sources: list.clone(),
                    destinations: list,
                    cartesian: true,
                }
            }
            Self::Graph(graph) => {
                let list: Vec<Option<u32>> = ranks(graph.of(rank));
                Around {
                    sources: list.clone(),
                    destinations: list,
                    cartesian: false,
                }
            }
            Self::Distributed(graph) => Around {
                sources: ranks(&graph.sources),
                destinations: ranks(&graph.destinations),
                cartesian: false,
            },
        }
    }
}

impl Cart {
    /// A grid of at most `most` processes.
    pub fn new(dims: Vec<i32>, periods: Vec<bool>, most: u32) -> Outcome<Self> {
        if let Some(bad) = dims.iter().find(|length| **length <= 0) {
            return Err(MpiError::with(MPI_ERR_DIMS, format!("{bad} processes")));
        }
        let product = dims.iter().try_fold(1_i64, |product, length| {
            product.checked_mul(i64::from(*length))
        });
        if product.is_none_or(|product| product > i64::from(most)) {
            return Err(MpiError::with(
                MPI_ERR_DIMS,
                format!("the grid has more than the communicator's {most} processes"),
            ));
        }
        Ok(Self { dims, periods })
    }

    /// Processes of the grid.
    pub fn size(&self) -> u32 {
        self.dims
            .iter()
            .map(|length| length.cast_unsigned())
            .product()
    }

    /// Where `rank` is.
    pub fn coordinates(&self, rank: u32) -> Vec<i32> {
        let mut rest = rank;
        let mut list: Vec<i32> = self
            .dims
            .iter()
            .rev()
            .map(|length| {
                let at = rest % length.cast_unsigned();
                rest /= length.cast_unsigned();
                at.cast_signed()
            })
            .collect();
        list.reverse();
        list
    }

    /// Who is there; coordinates beyond the end come round in periodic dimensions.
    pub fn rank(&self, coordinates: &[i32]) -> Outcome<u32> {
        let mut rank = 0;
        for (at, coordinate) in coordinates.iter().enumerate() {
            let length = self.dims[at];
            let inside = if self.periods[at] {
                coordinate.rem_euclid(length)
            } else if (0..length).contains(coordinate) {
                *coordinate
            } else {
                return Err(MpiError::with(
                    MPI_ERR_ARG,
                    format!("coordinate {coordinate} of {length}"),
                ));
            };
            rank = rank * length.cast_unsigned() + inside.cast_unsigned();
        }
        Ok(rank)
    }

    /// Whence and whither `rank` sends when all send `by` further in one dimension.
    pub fn shift(&self, rank: u32, dimension: usize, by: i32) -> (Option<u32>, Option<u32>) {
        let own = self.coordinates(rank);
        let at = |by: i64| {
            let length = i64::from(self.dims[dimension]);
            let moved = i64::from(own[dimension]) + by;
            let there = if self.periods[dimension] {
                moved.rem_euclid(length)
            } else {
                moved
            };
            let mut coordinates = own.clone();
            coordinates[dimension] = i32::try_from(there).ok()?;
            self.rank(&coordinates).ok()
        };
        (at(-i64::from(by)), at(i64::from(by)))
    }

    /// The grid of some of the dimensions, and the number of the one that `rank` is in.
    pub fn slice(&self, rank: u32, keep: &[bool]) -> (Self, i32) {
        let (mut dims, mut periods, mut number) = (Vec::new(), Vec::new(), 0);
        for (at, coordinate) in self.coordinates(rank).into_iter().enumerate() {
            if keep[at] {
                dims.push(self.dims[at]);
                periods.push(self.periods[at]);
            } else {
                number = number * self.dims[at] + coordinate;
            }
        }
        (Self { dims, periods }, number)
    }
}

impl Graph {
    /// A graph of at most `most` processes.
    pub fn new(index: Vec<i32>, edges: Vec<i32>, most: u32) -> Outcome<Self> {
        let nodes = i32::try_from(index.len()).unwrap_or(i32::MAX);
        if nodes.cast_unsigned() > most {
            return Err(MpiError::with(
                MPI_ERR_ARG,
                format!("{nodes} nodes, and the communicator has {most} processes"),
            ));
        }
        let ends = std::iter::once(&0).chain(&index).zip(&index);
        let grows = ends.into_iter().all(|(one, next)| one <= next);
        if !grows || edges.iter().any(|rank| !(0..nodes).contains(rank)) {
            return Err(MpiError::with(MPI_ERR_ARG, "that is no graph"));
        }
        Ok(Self { index, edges })
    }

    /// Where the edges of a rank go.
    pub fn of(&self, rank: u32) -> &[i32] {
        let end = |at: Option<u32>| {
            let end = at.and_then(|at| self.index.get(at as usize).copied());
            end.map_or(0, |end| end.max(0) as usize)
        };
        &self.edges[end(rank.checked_sub(1))..end(Some(rank))]
    }
}

/// Ranks of a communicator of `size`, of edges that a program names.
pub fn check_ranks(ranks: &[i32], size: u32) -> Outcome {
    match ranks
        .iter()
        .find(|rank| u32::try_from(**rank).map_or(true, |rank| rank >= size))
    {
        Some(rank) => Err(MpiError::with(MPI_ERR_RANK, format!("{rank} of {size}"))),
        None => Ok(()),
    }
}

/// MPI_Dims_create: fills in what is zero, so that the longest side is as short as can be, and the others beside it, too.
pub fn balance(nodes: i32, dims: &mut [i32]) -> Outcome {
    if nodes <= 0 {
        return Err(MpiError::with(MPI_ERR_DIMS, format!("{nodes} nodes")));
    }
    let mut rest = nodes;
    for length in dims.iter().filter(|length| **length != 0) {
        if *length < 0 || rest % length != 0 {
            return Err(MpiError::with(
                MPI_ERR_DIMS,
                format!("a side of {length} among {nodes} nodes"),
            ));
        }
        rest /= length;
    }
    let free = dims.iter().filter(|length| **length == 0).count();
    if free == 0 {
        return if rest == 1 {
            Ok(())
        } else {
            Err(MpiError::with(
                MPI_ERR_DIMS,
                format!("the grid has not {nodes} nodes"),
            ))
        };
    }
    let divisors: Vec<i32> = divisors(rest);
    let mut sides = factors(rest, free, &divisors);
    sides.resize(free, 1);
    let places = dims.iter_mut().filter(|length| **length == 0);
    for (place, side) in places.zip(sides) {
        *place = side;
    }
    Ok(())
}

/// All divisors, in order.
fn divisors(number: i32) -> Vec<i32> {
    let small = (1..).take_while(|one| i64::from(*one) * i64::from(*one) <= i64::from(number));
    let mut list: Vec<i32> = small
        .filter(|one| number % one == 0)
        .flat_map(|one| [one, number / one])
        .collect();
    list.sort_unstable();
    list.dedup();
    list
}

/// The most even way that was found to divide processes among dimensions.
struct Evenest {
    /// The longest side less the shortest one, the shortest one's negative, and the sum of all: less is better.
    score: (i32, i32, i64),
    sides: Vec<i32>,
}

/// `number` as a product of `count` numbers that do not grow: with the least difference between first and last, then with the greatest last one, then
/// with the least sum, then with the greatest first, second and so on: where the standard leaves a choice, what MPICH's tests expect.
fn factors(number: i32, count: usize, divisors: &[i32]) -> Vec<i32> {
    let mut best = Evenest {
        score: (i32::MAX, 0, 0),
        sides: Vec::new(),
    };
    divide(number, count, &mut Vec::new(), divisors, &mut best);
    best.sides
}

/// `side` to the power of `count`.
fn power(side: i32, count: usize) -> i64 {
    let mut product = 1_i64;
    for _ in 0..count {
        product = product.saturating_mul(i64::from(side));
    }
    product
}

fn divide(number: i32, count: usize, sides: &mut Vec<i32>, divisors: &[i32], best: &mut Evenest) {
    let limit = sides.last().copied().unwrap_or(i32::MAX);
    if count <= 1 {
        if number <= limit {
            let whole: Vec<i32> = sides.iter().copied().chain([number]).collect();
            let sum = whole.iter().map(|side| i64::from(*side)).sum();
            let score = (whole[0] - number, -number, sum);
            if score < best.score || score == best.score && whole > best.sides {
                *best = Evenest {
                    score,
                    sides: whole,
                };
            }
        }
        return;
    }
    for side in divisors.iter().copied() {
        if number % side != 0 || side > limit || power(side, count) < i64::from(number) {
            continue;
        }
        // Among the others there is one no longer than all would be if they were the same.
        let shortest = sides.first().unwrap_or(&side).saturating_sub(best.score.0);
        if shortest > 0 && power(shortest, count - 1) > i64::from(number / side) {
            break;
        }
        sides.push(side);
        divide(number / side, count - 1, sides, divisors, best);
        sides.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_are_as_near_to_one_another_as_can_be() {
        for (nodes, free, expected) in [
            (12, 2, &[4, 3][..]),
            (6, 3, &[3, 2, 1]),
            (7, 2, &[7, 1]),
            (1, 3, &[1, 1, 1]),
            (16, 2, &[4, 4]),
            (24, 3, &[4, 3, 2]),
            (60, 3, &[5, 4, 3]),
            (7488, 3, &[26, 18, 16]),
            // the same longest and shortest side in several ways: the least sum, then the greatest second
            (31_536, 4, &[73, 9, 8, 6]),
            (162_288, 5, &[23, 14, 9, 8, 7]),
            (144_000, 6, &[10, 10, 8, 6, 6, 5]),
            (5040, 3, &[21, 16, 15]),
            (1_102_701_600, 6, &[36, 35, 34, 33, 30, 26]),
            (2_147_483_647, 2, &[2_147_483_647, 1]),
            (1 << 30, 10, &[8; 10]),
        ] {
            let mut dims = vec![0; free];
            balance(nodes, &mut dims).expect("possible");
            assert_eq!(dims, expected, "{nodes}");
        }
        let mut dims = [0, 3, 0];
        balance(12, &mut dims).expect("3 divides 12");
        assert_eq!(dims, [2, 3, 2]);
        assert!(balance(7, &mut [0, 3]).is_err());
        assert!(balance(7, &mut [2, 3]).is_err());
        assert!(balance(0, &mut [0]).is_err());
        assert!(balance(4, &mut [-1, 0]).is_err());
        assert!(balance(6, &mut [2, 3]).is_ok());
    }

    fn grid() -> Cart {
        Cart::new(vec![2, 3], vec![false, true], 8).expect("it fits")
    }

    #[test]
    fn grids_are_row_major_and_come_round() {
        let grid = grid();
        for rank in 0..6 {
            assert_eq!(grid.rank(&grid.coordinates(rank)), Ok(rank));
        }
        assert_eq!(grid.coordinates(5), [1, 2]);
        assert_eq!(grid.rank(&[1, -1]), Ok(5));
        assert!(grid.rank(&[2, 0]).is_err());
        assert_eq!(grid.shift(0, 0, 1), (None, Some(3)));
        assert_eq!(grid.shift(0, 1, 1), (Some(2), Some(1)));
        assert_eq!(grid.shift(4, 1, -2), (Some(3), Some(5)));
        assert_eq!(grid.shift(4, 0, i32::MIN), (None, None));
        assert!(Cart::new(vec![3, 3], vec![false; 2], 8).is_err());
        assert!(Cart::new(vec![i32::MAX; 4], vec![false; 4], 8).is_err());
        assert!(Cart::new(vec![0], vec![false], 8).is_err());
        assert_eq!(Cart::new(vec![], vec![], 8).expect("a point").size(), 1);
        let (row, number) = grid.slice(4, &[false, true]);
        assert_eq!((row.dims, row.periods, number), (vec![3], vec![true], 1));
    }

    #[test]
    fn neighbours_come_lower_first() {
        let around = Topology::Cart(grid()).around(0);
        assert_eq!(around.sources, [None, Some(3), Some(2), Some(1)]);
        assert_eq!(around.sources, around.destinations);
    }

    #[test]
    fn graphs_are_checked() {
        let graph = Graph::new(vec![2, 3, 3], vec![1, 2, 0], 4).expect("a graph");
        assert_eq!(graph.of(0), [1, 2]);
        assert_eq!(graph.of(1), [0]);
        assert!(graph.of(2).is_empty() && graph.of(9).is_empty());
        assert!(Graph::new(vec![2, 1], vec![0, 0], 4).is_err());
        assert!(Graph::new(vec![1, 1], vec![2], 4).is_err());
        assert!(Graph::new(vec![0; 5], vec![], 4).is_err());
    }
}
