//! Operations between two groups against direct formulas.

mod machine;

use ferriband_mpi_coll::{Blocks, InterCollective, InterRoot, Place, build_inter};
use machine::{Buffers, Machine, Unit, combined, room, sorted, vector};

/// Runs an operation between groups of every two sizes up to this one.
const MOST: u32 = 6;

/// Builds each rank's schedule, runs them, and returns what each group has in its receive buffers. Ranks of group 1 bear numbers from
/// 100 on in the data.
fn run(
    sizes: [u32; 2],
    collective: &dyn Fn(usize, u32) -> InterCollective<'static>,
    start: &dyn Fn(usize, u32) -> Buffers,
) -> Vec<Vec<Buffers>> {
    let groups = |group: usize| {
        (0..sizes[group])
            .map(|rank| {
                let me = Place::new(rank, sizes[group]);
                let built = build_inter(&collective(group, rank), me, sizes[1 - group]);
                (built.expect("it fits"), start(group, rank))
            })
            .collect()
    };
    let seed = u64::from(sizes[0] * 10 + sizes[1]);
    Machine::new(vec![groups(0), groups(1)], seed).run()
}

fn name(group: usize, rank: u32) -> u32 {
    100 * group as u32 + rank
}

fn each_pair(mut test: impl FnMut([u32; 2])) {
    for a in 1..=MOST {
        for b in 1..=MOST {
            test([a, b]);
        }
    }
}

fn all_of(group: usize, sizes: [u32; 2], count: u64) -> Vec<Unit> {
    combined((0..sizes[group]).map(move |rank| name(group, rank)), count)
}

#[test]
fn barriers_and_reductions_to_all() {
    each_pair(|sizes| {
        run(sizes, &|_, _| InterCollective::Barrier, &|_, _| {
            Buffers::default()
        });
        for count in [0, 3] {
            // Groups may give different numbers of units only if both get as many: MPI wants the same.
            let start = |group, rank| Buffers {
                send: vec![vector(name(group, rank), count)],
                recv: vec![room(count)],
            };
            let ended = run(
                sizes,
                &|_, _| InterCollective::Allreduce {
                    count,
                    commutative: false,
                },
                &start,
            );
            for (group, ended) in ended.iter().enumerate() {
                for buffers in ended {
                    assert_eq!(
                        buffers.recv[0],
                        all_of(1 - group, sizes, count),
                        "{sizes:?}"
                    );
                }
            }
        }
    });
}

#[test]
fn what_one_leader_has_all_get() {
    each_pair(|sizes| {
        for has in [0, 1] {
            let ended = run(
                sizes,
                &|group, _| InterCollective::Share {
                    count: 2,
                    has_it: group == has,
                },
                &|group, rank| Buffers {
                    send: vec![],
                    recv: vec![if (group, rank) == (has, 0) {
                        vector(7, 2)
                    } else {
                        room(2)
                    }],
                },
            );
            let mut all = ended.iter().flatten();
            assert!(
                all.all(|buffers| buffers.recv[0] == vector(7, 2)),
                "{sizes:?}"
            );
        }
    });
}

/// The root argument of each rank when the root is this rank of group 0.
fn root_of(group: usize, rank: u32, root: u32) -> InterRoot {
    match (group, rank == root) {
        (0, true) => InterRoot::Me,
        (0, false) => InterRoot::None,
        _ => InterRoot::Other(root),
    }
}

#[test]
fn rooted_operations() {
    each_pair(|sizes| {
        for root in [0, sizes[0] - 1] {
            let ended = run(
                sizes,
                &|group, rank| InterCollective::Bcast {
                    count: 2,
                    root: root_of(group, rank, root),
                },
                &|group, rank| Buffers {
                    send: vec![],
                    recv: vec![if (group, rank) == (0, root) {
                        vector(7, 2)
                    } else {
                        room(2)
                    }],
                },
            );
            assert!(
                ended[1]
                    .iter()
                    .all(|buffers| buffers.recv[0] == vector(7, 2)),
                "{sizes:?}"
            );
            let others = ended[0]
                .iter()
                .enumerate()
                .filter(|(rank, _)| *rank != root as usize);
            assert!(
                others
                    .into_iter()
                    .all(|(_, buffers)| buffers.recv[0] == room(2))
            );

            for commutative in [false, true] {
                let ended = run(
                    sizes,
                    &|group, rank| InterCollective::Reduce {
                        count: 2,
                        root: root_of(group, rank, root),
                        commutative,
                    },
                    &|group, rank| match group {
                        0 => Buffers {
                            send: vec![],
                            recv: if rank == root { vec![room(2)] } else { vec![] },
                        },
                        _ => Buffers {
                            send: vec![vector(name(1, rank), 2)],
                            recv: vec![],
                        },
                    },
                );
                let result = ended[0][root as usize].recv[0].clone();
                let expected = all_of(1, sizes, 2);
                if commutative {
                    assert_eq!(sorted(result), sorted(expected), "{sizes:?}");
                } else {
                    assert_eq!(result, expected, "{sizes:?}");
                }
            }

            let lengths: &'static [u64] = &[1, 0, 2, 3, 0, 1];
            let lengths = &lengths[..sizes[1] as usize];
            let own = |rank: u32| vector(name(1, rank), lengths[rank as usize]);
            let told = |group: usize, rank: u32| match group {
                0 => Blocks::Each(lengths),
                _ => Blocks::Equal(lengths[rank as usize]),
            };
            let rows = || (0..sizes[1]).map(own).collect::<Vec<_>>();
            let ended = run(
                sizes,
                &|group, rank| InterCollective::Gather {
                    blocks: told(group, rank),
                    root: root_of(group, rank, root),
                },
                &|group, rank| match group {
                    0 if rank == root => Buffers {
                        send: vec![],
                        recv: lengths.iter().map(|n| room(*n)).collect(),
                    },
                    0 => Buffers::default(),
                    _ => Buffers {
                        send: vec![own(rank)],
                        recv: vec![],
                    },
                },
            );
            assert_eq!(ended[0][root as usize].recv, rows(), "{sizes:?}");
            let ended = run(
                sizes,
                &|group, rank| InterCollective::Scatter {
                    blocks: told(group, rank),
                    root: root_of(group, rank, root),
                },
                &|group, rank| match group {
                    0 if rank == root => Buffers {
                        send: rows(),
                        recv: vec![],
                    },
                    0 => Buffers::default(),
                    _ => Buffers {
                        send: vec![],
                        recv: vec![room(lengths[rank as usize])],
                    },
                },
            );
            for (rank, buffers) in (0..).zip(&ended[1]) {
                assert_eq!(buffers.recv[0], own(rank), "{sizes:?}");
            }
        }
    });
}

#[test]
fn operations_of_all() {
    each_pair(|sizes| {
        // Group 0 gives 2 units a rank, group 1 gives 3.
        let given = |group: usize| 2 + group as u64;
        let ended = run(
            sizes,
            &|group, _| InterCollective::Allgather {
                count: given(group),
                recv: Blocks::Equal(given(1 - group)),
            },
            &|group, rank| Buffers {
                send: vec![vector(name(group, rank), given(group))],
                recv: (0..sizes[1 - group])
                    .map(|_| room(given(1 - group)))
                    .collect(),
            },
        );
        for group in 0..2 {
            let all: Vec<_> = (0..sizes[1 - group])
                .map(|rank| vector(name(1 - group, rank), given(1 - group)))
                .collect();
            assert!(
                ended[group].iter().all(|buffers| buffers.recv == all),
                "{sizes:?}"
            );
        }

        let message = |group: usize, from: u32, to: u32| -> Vec<Unit> {
            (0..given(group))
                .map(|i| vec![(name(group, from) * 1000 + to, i)])
                .collect()
        };
        let ended = run(
            sizes,
            &|group, _| InterCollective::Alltoall {
                send: Blocks::Equal(given(group)),
                recv: Blocks::Equal(given(1 - group)),
            },
            &|group, rank| Buffers {
                send: (0..sizes[1 - group])
                    .map(|to| message(group, rank, to))
                    .collect(),
                recv: (0..sizes[1 - group])
                    .map(|_| room(given(1 - group)))
                    .collect(),
            },
        );
        for group in 0..2 {
            for (rank, buffers) in (0..).zip(&ended[group]) {
                let all: Vec<_> = (0..sizes[1 - group])
                    .map(|from| message(1 - group, from, rank))
                    .collect();
                assert_eq!(buffers.recv, all, "{sizes:?}");
            }
        }

        // Both groups have as many units: so many for each rank of either.
        let total = u64::from(sizes[0] * sizes[1]);
        let each = |group: usize| total / u64::from(sizes[group]);
        let ended = run(
            sizes,
            &|group, _| InterCollective::ReduceScatter {
                blocks: Blocks::Equal(each(group)),
                commutative: false,
            },
            &|group, rank| Buffers {
                send: vec![vector(name(group, rank), total)],
                recv: vec![room(each(group))],
            },
        );
        for group in 0..2 {
            let all = all_of(1 - group, sizes, total);
            for (rank, buffers) in ended[group].iter().enumerate() {
                let start = rank * each(group) as usize;
                assert_eq!(
                    buffers.recv[0],
                    all[start..start + each(group) as usize],
                    "{sizes:?}"
                );
            }
        }
    });
}

#[test]
fn what_does_not_fit_is_refused() {
    let bcast = InterCollective::Bcast {
        count: 1,
        root: InterRoot::Other(3),
    };
    assert!(build_inter(&bcast, Place::new(0, 2), 3).is_err());
    assert!(build_inter(&InterCollective::Barrier, Place::new(2, 2), 3).is_err());
    assert!(build_inter(&InterCollective::Barrier, Place::new(0, 2), 0).is_err());
    let gather = InterCollective::Gather {
        blocks: Blocks::Each(&[1]),
        root: InterRoot::Me,
    };
    assert!(build_inter(&gather, Place::new(0, 2), 3).is_err());
}
