//! Collective operations of MPI as schedules: pure functions from (operation, algorithm, place) to a graph of steps.
//!
//! This crate owns the algorithms and the table that chooses among them ([`tuning`]). It knows no transport, no datatype and no user
//! memory: buffers are symbolic ([`Slot`]), lengths are in *units*, and what executes a schedule decides what a unit is (an element of the
//! reduction's datatype, or a byte of packed data). So one schedule serves any buffers of its shape, blocking, non-blocking and persistent.
//!
//! What a program would see as one call is built for each rank by itself: no rank knows another one's schedule, only that it was built
//! from the same arguments. Messages between two ranks match in order, so a schedule has no tags ([`Node::posted_after`]).
//!
//! ```
//! use ferriband_mpi_coll::{Algorithm, Collective, Place, build};
//!
//! let schedule = build(&Collective::Barrier, Algorithm::Dissemination, Place::new(0, 6)).expect("any size");
//! assert_eq!(schedule.nodes().len(), 6); // three rounds of a send and a receive
//! ```
//!
//! Sources. P0: MacArthur et al., *An Integrated Tutorial on InfiniBand, Verbs, and MPI* (2017), IV-B, which traced barrier, reduce and
//! allreduce of Open MPI. TRG: Thakur, Rabenseifner, Gropp, *Optimization of Collective Communication Operations in MPICH* (2005).
//! Others are named where they are used.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod allgather;
mod allreduce;
mod alltoall;
mod barrier;
mod bcast;
mod common;
mod gather;
mod inter;
mod neighbor;
mod reduce;
mod reduce_scatter;
mod scan;
mod schedule;
mod shared;
pub mod tuning;

use std::fmt;

pub use inter::{InterCollective, InterRoot, build_inter};
pub use neighbor::{NeighborCollective, Neighbors, build_neighbor};
pub use schedule::{Group, Node, Peer, Piece, Schedule, Slot, Step};

/// Where a schedule is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// This rank.
    pub rank: u32,
    /// Ranks of the communicator (of our group, between two groups).
    pub size: u32,
    /// Units that a rank's slot of shared memory holds; 0 where the ranks share none.
    pub shared_units: u64,
    /// Units of a segment of a pipelined algorithm; 0 chooses one.
    pub segment: u64,
    /// A result that a rank is to have all of is not combined part by part: the operation may look at a vector as a whole.
    pub whole: bool,
}

impl Place {
    /// A place without shared memory and with segments of the algorithm's choice.
    pub const fn new(rank: u32, size: u32) -> Place {
        Place {
            rank,
            size,
            shared_units: 0,
            segment: 0,
            whole: false,
        }
    }
}

/// Lengths of blocks, one for each rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocks<'a> {
    /// All of them have so many units.
    Equal(u64),
    /// Each rank's own.
    Each(&'a [u64]),
}

impl Blocks<'_> {
    /// Units of a rank's block.
    pub fn of(&self, rank: u32) -> u64 {
        match self {
            Blocks::Equal(count) => *count,
            Blocks::Each(counts) => counts.get(rank as usize).copied().unwrap_or(0),
        }
    }

    /// Units of the blocks of all ranks before `rank`.
    fn before(&self, rank: u32) -> u64 {
        match self {
            Blocks::Equal(count) => count.saturating_mul(u64::from(rank)),
            Blocks::Each(counts) => counts
                .iter()
                .take(rank as usize)
                .fold(0, |sum, n| sum.saturating_add(*n)),
        }
    }

    fn fits(&self, size: u32) -> bool {
        match self {
            Blocks::Equal(_) => true,
            Blocks::Each(counts) => counts.len() == size as usize,
        }
    }
}

/// An operation over one group, with the arguments that its schedule depends on.
///
/// Slots: unless said otherwise input is block 0 of [`Slot::Send`] and output block 0 of [`Slot::Recv`]; with `in_place` input is in
/// [`Slot::Recv`], as MPI_IN_PLACE orders. A count of zero must mean the same at both ends of a message: it has no bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collective<'a> {
    /// MPI_Barrier.
    Barrier,
    /// MPI_Bcast; the one buffer is `Recv`, at the root too.
    Bcast {
        /// Units.
        count: u64,
        /// The rank that has the data.
        root: u32,
    },
    /// MPI_Reduce; only the root has a `Recv`.
    Reduce {
        /// Units of each rank's input.
        count: u64,
        /// The rank that gets the result.
        root: u32,
        /// Operands may change places.
        commutative: bool,
        /// At the root: input is in `Recv`.
        in_place: bool,
    },
    /// MPI_Allreduce.
    Allreduce {
        /// Units of each rank's input.
        count: u64,
        /// Operands may change places.
        commutative: bool,
        /// Input is in `Recv`.
        in_place: bool,
    },
    /// MPI_Gather and MPI_Gatherv: block `i` of the root's `Recv` comes from rank `i`. Of `Each` only the root knows all lengths, the
    /// others their own.
    Gather {
        /// Lengths.
        blocks: Blocks<'a>,
        /// The rank that gets them.
        root: u32,
        /// At the root: its own block is in its place.
        in_place: bool,
    },
    /// MPI_Scatter and MPI_Scatterv: block `i` of the root's `Send` goes to rank `i`.
    Scatter {
        /// Lengths.
        blocks: Blocks<'a>,
        /// The rank that has them.
        root: u32,
        /// At the root: its own block stays where it is.
        in_place: bool,
    },
    /// MPI_Allgather and MPI_Allgatherv: block `i` of `Recv` comes from rank `i`. All know all lengths.
    Allgather {
        /// Lengths.
        blocks: Blocks<'a>,
        /// The own block is in its place in `Recv`.
        in_place: bool,
    },
    /// MPI_Alltoall, v and w: block `i` of `Send` goes to rank `i`, block `i` of `Recv` comes from there.
    Alltoall {
        /// Lengths of what is sent.
        send: Blocks<'a>,
        /// Lengths of what is received.
        recv: Blocks<'a>,
        /// What is sent is in `Recv`, too; `send` is not looked at.
        in_place: bool,
    },
    /// MPI_Reduce_scatter and its block form. Input is one block of all units, in rank order; output is block 0 of `Recv`. With `in_place`
    /// input is block 0 of `Recv`, and the result comes to its front.
    ReduceScatter {
        /// Lengths of the results. All know all lengths.
        blocks: Blocks<'a>,
        /// Operands may change places.
        commutative: bool,
        /// Input is in `Recv`.
        in_place: bool,
    },
    /// MPI_Scan, or MPI_Exscan, which leaves rank 0's output alone.
    Scan {
        /// Units of each rank's input.
        count: u64,
        /// Without the own input.
        exclusive: bool,
        /// Operands may change places.
        commutative: bool,
        /// Input is in `Recv`.
        in_place: bool,
    },
}

/// Which operation, without its arguments: what the tuning table is indexed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// MPI_Barrier.
    Barrier,
    /// MPI_Bcast.
    Bcast,
    /// MPI_Reduce.
    Reduce,
    /// MPI_Allreduce.
    Allreduce,
    /// MPI_Gather(v).
    Gather,
    /// MPI_Scatter(v).
    Scatter,
    /// MPI_Allgather(v).
    Allgather,
    /// MPI_Alltoall(v, w).
    Alltoall,
    /// MPI_Reduce_scatter(_block).
    ReduceScatter,
    /// MPI_Scan and MPI_Exscan.
    Scan,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 10] = [
        Kind::Barrier,
        Kind::Bcast,
        Kind::Reduce,
        Kind::Allreduce,
        Kind::Gather,
        Kind::Scatter,
        Kind::Allgather,
        Kind::Alltoall,
        Kind::ReduceScatter,
        Kind::Scan,
    ];

    /// Its name in settings and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Barrier => "barrier",
            Kind::Bcast => "bcast",
            Kind::Reduce => "reduce",
            Kind::Allreduce => "allreduce",
            Kind::Gather => "gather",
            Kind::Scatter => "scatter",
            Kind::Allgather => "allgather",
            Kind::Alltoall => "alltoall",
            Kind::ReduceScatter => "reduce_scatter",
            Kind::Scan => "scan",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The algorithms that there are for it. The first works for every shape and size.
    pub const fn algorithms(self) -> &'static [Algorithm] {
        use Algorithm as A;
        match self {
            Kind::Barrier => &[
                A::Dissemination,
                A::Pairwise,
                A::Linear,
                A::Tutorial,
                A::Shared,
            ],
            Kind::Bcast => &[
                A::Binomial,
                A::Linear,
                A::ScatterAllgather,
                A::Chain,
                A::Shared,
            ],
            Kind::Reduce => &[
                A::Binomial,
                A::Linear,
                A::Rabenseifner,
                A::Chain,
                A::Tutorial,
                A::Shared,
            ],
            Kind::Allreduce => &[
                A::RecursiveDoubling,
                A::Ring,
                A::Rabenseifner,
                A::ReduceBcast,
                A::Tutorial,
                A::Shared,
            ],
            Kind::Gather | Kind::Scatter => &[A::Linear, A::Binomial, A::Shared],
            Kind::Allgather => &[
                A::Ring,
                A::Linear,
                A::Bruck,
                A::RecursiveDoubling,
                A::NeighborExchange,
                A::Shared,
            ],
            Kind::Alltoall => &[A::Linear, A::Pairwise, A::Bruck, A::Shared],
            Kind::ReduceScatter => &[
                A::ReduceScatterv,
                A::Pairwise,
                A::RecursiveHalving,
                A::Shared,
            ],
            Kind::Scan => &[A::RecursiveDoubling, A::Linear, A::Shared],
        }
    }
}

/// How an operation is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// Each with one, directly.
    Linear,
    /// Exchanges with a partner in each round.
    Pairwise,
    /// Rounds round the ring, at doubling distances.
    Dissemination,
    /// A tree of doubling distances.
    Binomial,
    /// Scatter by a tree, then allgather round the ring (van de Geijn).
    ScatterAllgather,
    /// A chain of ranks, in segments.
    Chain,
    /// Exchanges of all that is known, at doubling distances.
    RecursiveDoubling,
    /// Exchanges of halves, at halving distances.
    RecursiveHalving,
    /// Round the ring.
    Ring,
    /// Reduce-scatter, then gather or allgather.
    Rabenseifner,
    /// A reduction to one rank, then a broadcast.
    ReduceBcast,
    /// A reduction to one rank, then a scatter.
    ReduceScatterv,
    /// Rounds at doubling distances, of several blocks each (Bruck).
    Bruck,
    /// Exchanges with the left and the right neighbour in turn.
    NeighborExchange,
    /// What P0 saw Open MPI choose, by the number of ranks; in settings `p0`.
    Tutorial,
    /// Through memory that the ranks of one host share, without a schedule; in settings `shm`.
    Shared,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Algorithm; 16] = [
        Algorithm::Linear,
        Algorithm::Pairwise,
        Algorithm::Dissemination,
        Algorithm::Binomial,
        Algorithm::ScatterAllgather,
        Algorithm::Chain,
        Algorithm::RecursiveDoubling,
        Algorithm::RecursiveHalving,
        Algorithm::Ring,
        Algorithm::Rabenseifner,
        Algorithm::ReduceBcast,
        Algorithm::ReduceScatterv,
        Algorithm::Bruck,
        Algorithm::NeighborExchange,
        Algorithm::Tutorial,
        Algorithm::Shared,
    ];

    /// Its name in settings and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Linear => "linear",
            Algorithm::Pairwise => "pairwise",
            Algorithm::Dissemination => "dissemination",
            Algorithm::Binomial => "binomial",
            Algorithm::ScatterAllgather => "scatter_allgather",
            Algorithm::Chain => "chain",
            Algorithm::RecursiveDoubling => "recursive_doubling",
            Algorithm::RecursiveHalving => "recursive_halving",
            Algorithm::Ring => "ring",
            Algorithm::Rabenseifner => "rabenseifner",
            Algorithm::ReduceBcast => "reduce_bcast",
            Algorithm::ReduceScatterv => "reduce_scatterv",
            Algorithm::Bruck => "bruck",
            Algorithm::NeighborExchange => "neighbor_exchange",
            Algorithm::Tutorial => "p0",
            Algorithm::Shared => "shm",
        }
    }

    /// The algorithm of this name.
    pub fn from_name(name: &str) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// Why there is no schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildError {
    /// The rank or the root is not one of the group, or a list has not one entry for each rank.
    Shape,
    /// The algorithm is none of this operation, or not for this shape: other numbers of ranks, equal blocks, commutative operations, or
    /// shared memory are needed.
    NotApplicable(Kind, Algorithm),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Shape => write!(
                f,
                "a rank outside the group, or lists of another length than the group"
            ),
            BuildError::NotApplicable(kind, algorithm) => {
                write!(
                    f,
                    "{} cannot be done by {} in this shape",
                    kind.name(),
                    algorithm.name()
                )
            }
        }
    }
}

impl std::error::Error for BuildError {}

impl Collective<'_> {
    /// Which operation it is.
    pub const fn kind(&self) -> Kind {
        match self {
            Collective::Barrier => Kind::Barrier,
            Collective::Bcast { .. } => Kind::Bcast,
            Collective::Reduce { .. } => Kind::Reduce,
            Collective::Allreduce { .. } => Kind::Allreduce,
            Collective::Gather { .. } => Kind::Gather,
            Collective::Scatter { .. } => Kind::Scatter,
            Collective::Allgather { .. } => Kind::Allgather,
            Collective::Alltoall { .. } => Kind::Alltoall,
            Collective::ReduceScatter { .. } => Kind::ReduceScatter,
            Collective::Scan { .. } => Kind::Scan,
        }
    }

    fn fits(&self, me: Place) -> bool {
        me.rank < me.size
            && match self {
                Collective::Bcast { root, .. } | Collective::Reduce { root, .. } => *root < me.size,
                // Only the root has all lengths.
                Collective::Gather { blocks, root, .. }
                | Collective::Scatter { blocks, root, .. } => {
                    *root < me.size && (*root != me.rank || blocks.fits(me.size))
                }
                Collective::Allgather { blocks, .. } | Collective::ReduceScatter { blocks, .. } => {
                    blocks.fits(me.size)
                }
                Collective::Alltoall {
                    send,
                    recv,
                    in_place,
                } => recv.fits(me.size) && (*in_place || send.fits(me.size)),
                Collective::Barrier | Collective::Allreduce { .. } | Collective::Scan { .. } => {
                    true
                }
            }
    }
}

/// True if the algorithm can do this operation here. All ranks of a group come to the same answer, except that of blocks of
/// different lengths only equal ones are known to be equal everywhere: an algorithm that needs equal blocks asks for [`Blocks::Equal`].
pub fn applicable(collective: &Collective<'_>, algorithm: Algorithm, me: Place) -> bool {
    use Algorithm as A;
    if !collective.kind().algorithms().contains(&algorithm) {
        return false;
    }
    if algorithm == A::Shared {
        return shared::applicable(collective, me);
    }
    let equal = |blocks: &Blocks<'_>| matches!(blocks, Blocks::Equal(_));
    match collective {
        Collective::Barrier => algorithm != A::Pairwise || me.size.is_power_of_two(),
        Collective::Gather { blocks, .. } | Collective::Scatter { blocks, .. } => {
            algorithm == A::Linear || equal(blocks)
        }
        Collective::Allgather { .. } => match algorithm {
            A::RecursiveDoubling => me.size.is_power_of_two(),
            A::NeighborExchange => me.size.is_multiple_of(2),
            _ => true,
        },
        Collective::Alltoall {
            send,
            recv,
            in_place,
        } => algorithm != A::Bruck || (equal(recv) && (*in_place || equal(send))),
        Collective::Allreduce { commutative, .. } => match algorithm {
            A::Ring => *commutative && !me.whole,
            A::Rabenseifner => !me.whole,
            _ => true,
        },
        Collective::Reduce { .. } => !me.whole || !matches!(algorithm, A::Rabenseifner | A::Chain),
        Collective::ReduceScatter { commutative, .. } => {
            algorithm == A::ReduceScatterv || *commutative
        }
        Collective::Bcast { .. } | Collective::Scan { .. } => true,
    }
}

/// The schedule of an operation for one rank. There is none by [`Algorithm::Shared`].
pub fn build(
    collective: &Collective<'_>,
    algorithm: Algorithm,
    me: Place,
) -> Result<Schedule, BuildError> {
    if !collective.fits(me) {
        return Err(BuildError::Shape);
    }
    if algorithm == Algorithm::Shared || !applicable(collective, algorithm, me) {
        return Err(BuildError::NotApplicable(collective.kind(), algorithm));
    }
    let mut b = schedule::Builder::default();
    match *collective {
        Collective::Barrier => barrier::build(&mut b, algorithm, me),
        Collective::Bcast { count, root } => bcast::build(&mut b, algorithm, me, count, root),
        Collective::Reduce {
            count,
            root,
            commutative,
            in_place,
        } => {
            let vector = reduce::Vector {
                count,
                commutative,
                in_place,
            };
            reduce::build(&mut b, algorithm, me, vector, root);
        }
        Collective::Allreduce {
            count,
            commutative,
            in_place,
        } => {
            let vector = reduce::Vector {
                count,
                commutative,
                in_place,
            };
            allreduce::build(&mut b, algorithm, me, vector);
        }
        Collective::Gather {
            blocks,
            root,
            in_place,
        } => {
            gather::gather(&mut b, algorithm, me, &blocks, root, in_place);
        }
        Collective::Scatter {
            blocks,
            root,
            in_place,
        } => {
            gather::scatter(&mut b, algorithm, me, &blocks, root, in_place);
        }
        Collective::Allgather { blocks, in_place } => {
            allgather::build(&mut b, algorithm, me, &blocks, in_place);
        }
        Collective::Alltoall {
            send,
            recv,
            in_place,
        } => {
            alltoall::build(&mut b, algorithm, me, (&send, &recv), in_place);
        }
        Collective::ReduceScatter {
            blocks,
            commutative,
            in_place,
        } => {
            let vector = reduce::Vector {
                count: blocks.before(me.size),
                commutative,
                in_place,
            };
            reduce_scatter::build(&mut b, algorithm, me, &blocks, vector);
        }
        Collective::Scan {
            count,
            exclusive,
            commutative,
            in_place,
        } => {
            let vector = reduce::Vector {
                count,
                commutative,
                in_place,
            };
            scan::build(&mut b, algorithm, me, vector, exclusive);
        }
    }
    Ok(b.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_name(kind.name()), Some(kind));
        }
        for algorithm in Algorithm::ALL {
            assert_eq!(Algorithm::from_name(algorithm.name()), Some(algorithm));
        }
        assert_eq!(Algorithm::from_name("p0"), Some(Algorithm::Tutorial));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let bcast = Collective::Bcast { count: 1, root: 4 };
        assert_eq!(
            build(&bcast, Algorithm::Binomial, Place::new(0, 4)),
            Err(BuildError::Shape)
        );
        let barrier = Collective::Barrier;
        assert_eq!(
            build(&barrier, Algorithm::Linear, Place::new(4, 4)),
            Err(BuildError::Shape)
        );
        let refused = Err(BuildError::NotApplicable(
            Kind::Barrier,
            Algorithm::Pairwise,
        ));
        assert_eq!(
            build(&barrier, Algorithm::Pairwise, Place::new(0, 6)),
            refused
        );
        assert!(build(&barrier, Algorithm::Ring, Place::new(0, 4)).is_err());
        let lists = Collective::Allgather {
            blocks: Blocks::Each(&[1, 2]),
            in_place: false,
        };
        assert_eq!(
            build(&lists, Algorithm::Ring, Place::new(0, 3)),
            Err(BuildError::Shape)
        );
    }

    #[test]
    fn the_first_algorithm_of_a_kind_works_for_every_shape() {
        let counts = [0, 3, 1, 2, 5];
        let each = Blocks::Each(&counts);
        let collectives = [
            Collective::Barrier,
            Collective::Bcast { count: 3, root: 4 },
            Collective::Reduce {
                count: 3,
                root: 4,
                commutative: false,
                in_place: false,
            },
            Collective::Allreduce {
                count: 3,
                commutative: false,
                in_place: false,
            },
            Collective::Gather {
                blocks: each,
                root: 1,
                in_place: false,
            },
            Collective::Scatter {
                blocks: each,
                root: 1,
                in_place: false,
            },
            Collective::Allgather {
                blocks: each,
                in_place: false,
            },
            Collective::Alltoall {
                send: each,
                recv: each,
                in_place: false,
            },
            Collective::ReduceScatter {
                blocks: each,
                commutative: false,
                in_place: false,
            },
            Collective::Scan {
                count: 3,
                exclusive: true,
                commutative: false,
                in_place: false,
            },
        ];
        for collective in &collectives {
            let first = collective.kind().algorithms()[0];
            assert!(
                applicable(collective, first, Place::new(1, 5)),
                "{collective:?}"
            );
        }
    }
}
