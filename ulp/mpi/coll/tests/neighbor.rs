//! Neighbourhood collectives on grids of every small shape, and on graphs.

mod machine;

use ferriband_mpi_coll::{Blocks, NeighborCollective, Neighbors, Place, build_neighbor};
use machine::{Buffers, Machine, Unit, room, vector};

/// A Cartesian topology.
struct Grid {
    dims: Vec<i64>,
    periodic: Vec<bool>,
}

impl Grid {
    fn size(&self) -> u32 {
        self.dims.iter().product::<i64>() as u32
    }

    fn coordinates(&self, rank: u32) -> Vec<i64> {
        let mut rest = i64::from(rank);
        let mut all: Vec<i64> = self
            .dims
            .iter()
            .rev()
            .map(|dim| {
                let at = rest % dim;
                rest /= dim;
                at
            })
            .collect();
        all.reverse();
        all
    }

    /// The rank one step along a dimension, as MPI_Cart_shift tells it.
    fn shifted(&self, rank: u32, dim: usize, by: i64) -> Option<u32> {
        let mut at = self.coordinates(rank);
        at[dim] += by;
        if self.periodic[dim] {
            at[dim] = at[dim].rem_euclid(self.dims[dim]);
        } else if !(0..self.dims[dim]).contains(&at[dim]) {
            return None;
        }
        Some(
            at.iter()
                .zip(&self.dims)
                .fold(0, |rank, (at, dim)| rank * dim + at) as u32,
        )
    }

    fn neighbors(&self, rank: u32) -> Vec<Option<u32>> {
        (0..self.dims.len())
            .flat_map(|dim| [self.shifted(rank, dim, -1), self.shifted(rank, dim, 1)])
            .collect()
    }
}

fn grids() -> Vec<Grid> {
    let mut all = Vec::new();
    for dims in [
        vec![1],
        vec![2],
        vec![3],
        vec![5],
        vec![1, 1],
        vec![2, 2],
        vec![1, 3],
        vec![3, 2],
        vec![2, 1, 3],
        vec![3, 3],
    ] {
        for mask in 0..1u32 << dims.len() {
            let periodic = (0..dims.len()).map(|dim| mask >> dim & 1 == 1).collect();
            all.push(Grid {
                dims: dims.clone(),
                periodic,
            });
        }
    }
    all
}

/// What `rank` sends in a direction (entry of its list).
fn message(rank: u32, entry: usize) -> Vec<Unit> {
    (0..2)
        .map(|i| vec![(rank * 100 + entry as u32, i)])
        .collect()
}

#[test]
fn on_a_grid_what_goes_down_comes_in_from_above() {
    for grid in grids() {
        for seed in 0..4 {
            let entries = grid.dims.len() * 2;
            let ranks = (0..grid.size()).map(|rank| {
                let list = grid.neighbors(rank);
                let neighbors = Neighbors {
                    sources: &list,
                    destinations: &list,
                    cartesian: true,
                };
                let both = NeighborCollective::Alltoall {
                    send: Blocks::Equal(2),
                    recv: Blocks::Equal(2),
                };
                let schedule = build_neighbor(&both, &neighbors, Place::new(rank, grid.size()))
                    .expect("it fits");
                let send = (0..entries).map(|entry| message(rank, entry)).collect();
                (
                    schedule,
                    Buffers {
                        send,
                        recv: vec![room(2); entries],
                    },
                )
            });
            let ended = Machine::new(vec![ranks.collect()], seed).run();
            for (rank, buffers) in (0..).zip(&ended[0]) {
                for (entry, got) in buffers.recv.iter().enumerate() {
                    // The lower neighbour sent it upwards, the upper one downwards.
                    let expected = match grid.neighbors(rank)[entry] {
                        Some(from) => message(from, entry ^ 1),
                        None => room(2),
                    };
                    assert_eq!(
                        *got, expected,
                        "entry {entry} of rank {rank} in {:?} {:?}",
                        grid.dims, grid.periodic
                    );
                }
            }
        }
    }
}

#[test]
fn on_a_grid_everybody_hears_its_neighbours() {
    for grid in grids() {
        let entries = grid.dims.len() * 2;
        let ranks = (0..grid.size()).map(|rank| {
            let list = grid.neighbors(rank);
            let neighbors = Neighbors {
                sources: &list,
                destinations: &list,
                cartesian: true,
            };
            let all = NeighborCollective::Allgather {
                count: 3,
                recv: Blocks::Equal(3),
            };
            let schedule =
                build_neighbor(&all, &neighbors, Place::new(rank, grid.size())).expect("it fits");
            (
                schedule,
                Buffers {
                    send: vec![vector(rank, 3)],
                    recv: vec![room(3); entries],
                },
            )
        });
        let ended = Machine::new(vec![ranks.collect()], 9).run();
        for (rank, buffers) in (0..).zip(&ended[0]) {
            for (from, got) in grid.neighbors(rank).into_iter().zip(&buffers.recv) {
                assert_eq!(*got, from.map_or(room(3), |from| vector(from, 3)));
            }
        }
    }
}

/// A graph in which rank 0 is its own neighbour, 0 and 1 are joined twice, and lengths differ and may be nothing.
#[test]
fn on_a_graph_messages_match_in_the_order_of_the_lists() {
    let destinations: [Vec<u32>; 3] = [vec![1, 0, 1, 2], vec![2, 0], vec![]];
    let sources: [Vec<u32>; 3] = [vec![0, 1], vec![0, 0], vec![1, 0]];
    let length = |from: u32, to: u32, nth: u64| (u64::from(from + to) + nth) % 3;
    let nth = |list: &[u32], at: usize| {
        list[..at].iter().filter(|rank| **rank == list[at]).count() as u64
    };
    let data = |from: u32, to: u32, nth: u64| -> Vec<Unit> {
        (0..length(from, to, nth))
            .map(|i| vec![(from * 100 + to * 10 + nth as u32, i)])
            .collect()
    };
    for seed in 0..20 {
        let ranks = (0..3u32).map(|rank| {
            let (to, from) = (&destinations[rank as usize], &sources[rank as usize]);
            let out: Vec<Vec<Unit>> = (0..to.len())
                .map(|at| data(rank, to[at], nth(to, at)))
                .collect();
            let into: Vec<Vec<Unit>> = (0..from.len())
                .map(|at| room(length(from[at], rank, nth(from, at))))
                .collect();
            let lengths =
                |all: &[Vec<Unit>]| all.iter().map(|one| one.len() as u64).collect::<Vec<_>>();
            let (send, recv) = (lengths(&out), lengths(&into));
            let some = |list: &[u32]| list.iter().copied().map(Some).collect::<Vec<_>>();
            let (sources, destinations) = (some(from), some(to));
            let neighbors = Neighbors {
                sources: &sources,
                destinations: &destinations,
                cartesian: false,
            };
            let both = NeighborCollective::Alltoall {
                send: Blocks::Each(&send),
                recv: Blocks::Each(&recv),
            };
            let schedule = build_neighbor(&both, &neighbors, Place::new(rank, 3)).expect("it fits");
            (
                schedule,
                Buffers {
                    send: out,
                    recv: into,
                },
            )
        });
        let ended = Machine::new(vec![ranks.collect()], seed).run();
        for (rank, buffers) in (0..).zip(&ended[0]) {
            let from = &sources[rank as usize];
            for (at, got) in buffers.recv.iter().enumerate() {
                assert_eq!(
                    *got,
                    data(from[at], rank, nth(from, at)),
                    "entry {at} of rank {rank}"
                );
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let all = NeighborCollective::Allgather {
        count: 1,
        recv: Blocks::Equal(1),
    };
    let me = Place::new(0, 2);
    let beyond = [Some(2)];
    let neighbors = Neighbors {
        sources: &beyond,
        destinations: &[],
        cartesian: false,
    };
    assert!(build_neighbor(&all, &neighbors, me).is_err());
    let (one, two) = ([Some(1)], [Some(1), None]);
    let odd = Neighbors {
        sources: &one,
        destinations: &one,
        cartesian: true,
    };
    assert!(build_neighbor(&all, &odd, me).is_err());
    let unlike = Neighbors {
        sources: &one,
        destinations: &two,
        cartesian: true,
    };
    assert!(build_neighbor(&all, &unlike, me).is_err());
    let lists = NeighborCollective::Alltoall {
        send: Blocks::Each(&[1]),
        recv: Blocks::Each(&[1]),
    };
    let neighbors = Neighbors {
        sources: &one,
        destinations: &two,
        cartesian: false,
    };
    assert!(build_neighbor(&lists, &neighbors, me).is_err());
}
