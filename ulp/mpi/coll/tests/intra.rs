//! Each schedule of one group against a direct formula: 1 to 17 ranks, each algorithm, each root, lengths from none on, in place and
//! not, operations that do not commute, in orders that a seed picks.

mod machine;

use ferriband_mpi_coll::{Algorithm, Blocks, Collective, Kind, Place, Step, applicable, build};
use machine::{Buffers, Machine, Unit, combined, room, sorted, vector};

const MOST: u32 = 17;

/// A case: the operation as each rank passes it, what it starts with, what it must end with (`None`: anything).
struct Case<'a> {
    size: u32,
    collective: &'a dyn Fn(u32) -> Collective<'a>,
    start: &'a dyn Fn(u32) -> Buffers,
    end: &'a dyn Fn(u32) -> Vec<Option<Vec<Unit>>>,
    /// Operands may change places.
    any_order: bool,
}

/// Runs a case by every algorithm that can do it, and returns how many that were.
fn check(case: &Case<'_>) -> usize {
    let mut done = 0;
    for algorithm in (case.collective)(0).kind().algorithms() {
        let places: Vec<Place> = (0..case.size)
            .map(|rank| Place {
                segment: 2,
                ..Place::new(rank, case.size)
            })
            .collect();
        let can: Vec<bool> = places
            .iter()
            .map(|me| applicable(&(case.collective)(me.rank), *algorithm, *me))
            .collect();
        assert!(
            can.iter().all(|one| *one == can[0]),
            "ranks disagree about {algorithm:?}"
        );
        if !can[0] {
            continue;
        }
        done += 1;
        for seed in 0..2 {
            let ranks = places.iter().map(|me| {
                let schedule =
                    build(&(case.collective)(me.rank), *algorithm, *me).expect("applicable");
                (schedule, (case.start)(me.rank))
            });
            let mut machine = Machine::new(vec![ranks.collect()], seed);
            let groups = machine.run();
            for (rank, buffers) in (0..).zip(&groups[0]) {
                let context = || {
                    format!(
                        "{:?} by {algorithm:?} at {rank} of {}",
                        (case.collective)(rank),
                        case.size
                    )
                };
                let expected = (case.end)(rank);
                assert_eq!(buffers.recv.len(), expected.len(), "{}", context());
                for (got, want) in buffers.recv.iter().zip(expected) {
                    let Some(want) = want else { continue };
                    if case.any_order {
                        assert_eq!(sorted(got.clone()), sorted(want), "{}", context());
                    } else {
                        assert_eq!(got, &want, "{}", context());
                    }
                }
                assert_eq!(buffers.send, (case.start)(rank).send, "{}", context());
            }
        }
    }
    done
}

/// Input of a vector operation, and where its result comes.
fn vector_buffers(rank: u32, count: u64, in_place: bool, result: u64) -> Buffers {
    let own = vector(rank, count);
    if in_place {
        Buffers {
            send: vec![],
            recv: vec![own],
        }
    } else {
        Buffers {
            send: vec![own],
            recv: vec![room(result)],
        }
    }
}

#[test]
fn nobody_leaves_a_barrier_before_all_have_come() {
    for size in 1..=MOST {
        for algorithm in Kind::Barrier.algorithms() {
            if !applicable(&Collective::Barrier, *algorithm, Place::new(0, size)) {
                continue;
            }
            let schedule = |rank| {
                let me = Place::new(rank, size);
                build(&Collective::Barrier, *algorithm, me).expect("applicable")
            };
            let all: Vec<_> = (0..size)
                .map(|rank| (schedule(rank), Buffers::default()))
                .collect();
            Machine::new(vec![all], 1).run();
            // With one rank that does not come, no other one ends. A machine whose late rank has an empty schedule must get stuck
            // with every other rank still inside.
            for late in 0..size {
                let others = (0..size).filter(|rank| *rank != late);
                for watched in others {
                    assert!(
                        hears_of(&schedule, size, watched, late),
                        "{algorithm:?}: rank {watched} of {size} leaves without rank {late}"
                    );
                }
            }
        }
    }
}

/// True if what `watched` waits for leads back to `late`: each rank's steps are followed backwards
/// through messages.
fn hears_of(
    schedule: &dyn Fn(u32) -> ferriband_mpi_coll::Schedule,
    size: u32,
    watched: u32,
    late: u32,
) -> bool {
    let all: Vec<_> = (0..size).map(schedule).collect();
    // The whole of a rank's steps must be complete; then back from each receive to the send that it matches, to what that waited for.
    let mut open: Vec<(u32, u32)> = (0..all[watched as usize].nodes().len() as u32)
        .map(|node| (watched, node))
        .collect();
    let mut seen = std::collections::BTreeSet::new();
    while let Some((rank, node)) = open.pop() {
        if !seen.insert((rank, node)) {
            continue;
        }
        if rank == late {
            return true;
        }
        let own = &all[rank as usize];
        for (before, one) in (0..).zip(own.nodes()) {
            if own.successors(one).contains(&node) {
                open.push((rank, before));
            }
        }
        let nth = |rank: u32, upto: u32, peer: u32| {
            all[rank as usize].nodes()[..upto as usize]
                .iter()
                .filter(
                    |one| matches!(&one.step, Step::Recv { peer: from, .. } if from.rank == peer),
                )
                .count()
        };
        if let Step::Recv { peer, .. } = &own.nodes()[node as usize].step {
            let sends = (0..).zip(all[peer.rank as usize].nodes());
            let mut sends = sends.filter(
                |(_, one)| matches!(&one.step, Step::Send { peer: to, .. } if to.rank == rank),
            );
            let (matching, _) = sends
                .nth(nth(rank, node, peer.rank))
                .expect("a send for each receive");
            open.push((peer.rank, matching));
        }
    }
    false
}

#[test]
fn the_barriers_of_the_tutorial_send_what_was_traced() {
    let messages = |size: u32| {
        let all = (0..size).map(|rank| {
            let schedule = build(
                &Collective::Barrier,
                Algorithm::Tutorial,
                Place::new(rank, size),
            )
            .expect("any size");
            (schedule, Buffers::default())
        });
        let mut machine = Machine::new(vec![all.collect()], 5);
        machine.run();
        let mut pairs: Vec<_> = machine
            .messages
            .iter()
            .map(|(from, to, _)| (*from, *to))
            .collect();
        pairs.sort_unstable();
        pairs
    };
    // P0 figure 23: symmetric, three rounds of eight messages at exclusive-or distances 1, 2, 4.
    let mut expected: Vec<_> = (0..8u32)
        .flat_map(|x| [1, 2, 4].map(|d| (x, x ^ d)))
        .collect();
    expected.sort_unstable();
    assert_eq!(messages(8), expected);
    // P0 figure 24: three rounds of six messages, to x + 1, x + 2, x + 4.
    let mut expected: Vec<_> = (0..6u32)
        .flat_map(|x| [1, 2, 4].map(|d| (x, (x + d) % 6)))
        .collect();
    expected.sort_unstable();
    assert_eq!(messages(6), expected);
}

#[test]
fn the_reductions_of_the_tutorial_send_what_was_traced() {
    let messages = |size: u32, root: u32| {
        let collective = Collective::Reduce {
            count: 1,
            root,
            commutative: true,
            in_place: false,
        };
        let all = (0..size).map(|rank| {
            let schedule =
                build(&collective, Algorithm::Tutorial, Place::new(rank, size)).expect("any size");
            (schedule, vector_buffers(rank, 1, false, 1))
        });
        let mut machine = Machine::new(vec![all.collect()], 5);
        machine.run();
        let mut pairs: Vec<_> = machine
            .messages
            .iter()
            .map(|(from, to, _)| (*from, *to))
            .collect();
        pairs.sort_unstable();
        pairs
    };
    // Below 8 ranks each sends to the root; from 8 on x sends to x - 2^i at its lowest bit i, counted from the root (figure 25).
    assert_eq!(
        messages(7, 2),
        [(0, 2), (1, 2), (3, 2), (4, 2), (5, 2), (6, 2)]
    );
    assert_eq!(
        messages(8, 0),
        [(1, 0), (2, 0), (3, 2), (4, 0), (5, 4), (6, 4), (7, 6)]
    );
    let mut turned: Vec<_> = messages(8, 0)
        .iter()
        .map(|(from, to)| ((from + 3) % 8, (to + 3) % 8))
        .collect();
    turned.sort_unstable();
    assert_eq!(messages(8, 3), turned);
    // Allreduce: n log2 n messages among core ranks, and two for each extra one.
    for (size, expected) in [(8, 8 * 3), (6, 4 * 2 + 2 * 2), (17, 16 * 4 + 2)] {
        let collective = Collective::Allreduce {
            count: 1,
            commutative: true,
            in_place: false,
        };
        let all = (0..size).map(|rank| {
            let schedule =
                build(&collective, Algorithm::Tutorial, Place::new(rank, size)).expect("any size");
            (schedule, vector_buffers(rank, 1, false, 1))
        });
        let mut machine = Machine::new(vec![all.collect()], 5);
        machine.run();
        assert_eq!(machine.messages.len(), expected, "{size} ranks");
    }
}

#[test]
fn broadcasts() {
    for size in 1..=MOST {
        for root in 0..size {
            for count in [0, 1, 7, 40] {
                let done = check(&Case {
                    size,
                    collective: &|_| Collective::Bcast { count, root },
                    start: &|rank| Buffers {
                        send: vec![],
                        recv: vec![if rank == root {
                            vector(root, count)
                        } else {
                            room(count)
                        }],
                    },
                    end: &|_| vec![Some(vector(root, count))],
                    any_order: false,
                });
                assert_eq!(done, 4);
            }
        }
    }
}

#[test]
fn reductions_to_one_rank() {
    for size in 1..=MOST {
        for root in [0, 1, size / 2, size - 1] {
            let root = root.min(size - 1);
            for (count, in_place, commutative) in cases() {
                let done = check(&Case {
                    size,
                    collective: &|_| Collective::Reduce {
                        count,
                        root,
                        commutative,
                        in_place,
                    },
                    start: &|rank| {
                        let mut buffers =
                            vector_buffers(rank, count, in_place && rank == root, count);
                        if rank != root {
                            buffers.recv.clear(); // it is not significant there
                        }
                        buffers
                    },
                    end: &|rank| {
                        if rank == root {
                            vec![Some(combined(0..size, count))]
                        } else {
                            vec![]
                        }
                    },
                    any_order: commutative,
                });
                assert_eq!(done, 5);
            }
        }
    }
}

#[test]
fn reductions_to_all_ranks() {
    for size in 1..=MOST {
        for (count, in_place, commutative) in cases() {
            let done = check(&Case {
                size,
                collective: &|_| Collective::Allreduce {
                    count,
                    commutative,
                    in_place,
                },
                start: &|rank| vector_buffers(rank, count, in_place, count),
                end: &|_| vec![Some(combined(0..size, count))],
                any_order: commutative,
            });
            assert_eq!(done, if commutative { 5 } else { 4 });
        }
    }
}

/// Lengths around the number of chunks; in place or not; commutative or not.
fn cases() -> impl Iterator<Item = (u64, bool, bool)> {
    [0u64, 1, 5, 40].into_iter().flat_map(|count| {
        [(false, false), (false, true), (true, false), (true, true)]
            .map(|(in_place, commutative)| (count, in_place, commutative))
    })
}

#[test]
fn prefix_reductions() {
    for size in 1..=MOST {
        for (count, in_place, commutative) in cases() {
            for exclusive in [false, true] {
                let done = check(&Case {
                    size,
                    collective: &|_| Collective::Scan {
                        count,
                        exclusive,
                        commutative,
                        in_place,
                    },
                    start: &|rank| vector_buffers(rank, count, in_place, count),
                    end: &|rank| {
                        // Rank 0 of an exclusive one keeps what it has.
                        let before = vector_buffers(0, count, in_place, count).recv.remove(0);
                        let whole = combined(0..if exclusive { rank } else { rank + 1 }, count);
                        vec![Some(if exclusive && rank == 0 {
                            before
                        } else {
                            whole
                        })]
                    },
                    any_order: false,
                });
                assert_eq!(done, 2);
            }
        }
    }
}

/// Lengths that differ, some of them nothing.
fn lengths(size: u32) -> Vec<u64> {
    (0..u64::from(size)).map(|rank| rank * 5 % 4).collect()
}

#[test]
fn reductions_that_are_scattered() {
    for size in 1..=MOST {
        let counts = lengths(size);
        for blocks in [
            Blocks::Equal(0),
            Blocks::Equal(1),
            Blocks::Equal(3),
            Blocks::Each(&counts),
        ] {
            for (in_place, commutative) in
                [(false, false), (false, true), (true, false), (true, true)]
            {
                let total: u64 = (0..size).map(|rank| blocks.of(rank)).sum();
                let done = check(&Case {
                    size,
                    collective: &|_| Collective::ReduceScatter {
                        blocks,
                        commutative,
                        in_place,
                    },
                    start: &|rank| vector_buffers(rank, total, in_place, blocks.of(rank)),
                    end: &|rank| {
                        let start: u64 = (0..rank).map(|rank| blocks.of(rank)).sum();
                        let all = combined(0..size, total);
                        let mine = all[start as usize..(start + blocks.of(rank)) as usize].to_vec();
                        if in_place {
                            // Only the front is the result; the rest may be anything.
                            return vec![None];
                        }
                        vec![Some(mine)]
                    },
                    any_order: commutative,
                });
                assert!(done >= if commutative { 3 } else { 1 });
            }
        }
    }
}

/// In place the result comes to the front of the vector.
#[test]
fn a_scattered_reduction_in_place_leaves_its_result_in_front() {
    for size in 1..=MOST {
        let counts = lengths(size);
        for algorithm in [
            Algorithm::Pairwise,
            Algorithm::RecursiveHalving,
            Algorithm::ReduceScatterv,
        ] {
            let collective = Collective::ReduceScatter {
                blocks: Blocks::Each(&counts),
                commutative: true,
                in_place: true,
            };
            let total: u64 = counts.iter().sum();
            let ranks = (0..size).map(|rank| {
                let me = Place::new(rank, size);
                (
                    build(&collective, algorithm, me).expect("applicable"),
                    vector_buffers(rank, total, true, 0),
                )
            });
            let groups = Machine::new(vec![ranks.collect()], u64::from(size)).run();
            for (rank, buffers) in (0..).zip(&groups[0]) {
                let start: u64 = counts[..rank].iter().sum();
                let all = combined(0..size, total);
                let mine = all[start as usize..(start + counts[rank]) as usize].to_vec();
                let front = buffers.recv[0][..counts[rank] as usize].to_vec();
                assert_eq!(
                    sorted(front),
                    sorted(mine),
                    "{algorithm:?} at {rank} of {size}"
                );
            }
        }
    }
}

#[test]
fn gathering_and_scattering() {
    for size in 1..=MOST {
        let counts = lengths(size);
        for root in 0..size {
            for blocks in [Blocks::Equal(0), Blocks::Equal(2), Blocks::Each(&counts)] {
                for in_place in [false, true] {
                    let own = |rank: u32| vector(rank, blocks.of(rank));
                    // Who is not the root knows its own length alone.
                    let seen = |rank: u32| match blocks {
                        Blocks::Each(_) if rank != root => Blocks::Each(&[]),
                        blocks => blocks,
                    };
                    let lists: Vec<Vec<u64>> = (0..size)
                        .map(|rank| vec![blocks.of(rank); size as usize])
                        .collect();
                    let told = |rank: u32| match seen(rank) {
                        Blocks::Each(&[]) => Blocks::Each(&lists[rank as usize]),
                        blocks => blocks,
                    };
                    let done = check(&Case {
                        size,
                        collective: &|rank| Collective::Gather {
                            blocks: told(rank),
                            root,
                            in_place: in_place && rank == root,
                        },
                        start: &|rank| {
                            let recv = (0..size).map(|from| match in_place && from == root {
                                true => own(root),
                                false => room(blocks.of(from)),
                            });
                            Buffers {
                                send: if in_place && rank == root {
                                    vec![]
                                } else {
                                    vec![own(rank)]
                                },
                                recv: if rank == root { recv.collect() } else { vec![] },
                            }
                        },
                        end: &|rank| match rank == root {
                            true => (0..size).map(|from| Some(own(from))).collect(),
                            false => vec![],
                        },
                        any_order: false,
                    });
                    assert_eq!(
                        done,
                        if matches!(blocks, Blocks::Equal(_)) {
                            2
                        } else {
                            1
                        }
                    );
                    let done = check(&Case {
                        size,
                        collective: &|rank| Collective::Scatter {
                            blocks: told(rank),
                            root,
                            in_place: in_place && rank == root,
                        },
                        start: &|rank| Buffers {
                            send: if rank == root {
                                (0..size).map(own).collect()
                            } else {
                                vec![]
                            },
                            recv: if in_place && rank == root {
                                vec![]
                            } else {
                                vec![room(blocks.of(rank))]
                            },
                        },
                        end: &|rank| match in_place && rank == root {
                            true => vec![],
                            false => vec![Some(own(rank))],
                        },
                        any_order: false,
                    });
                    assert_eq!(
                        done,
                        if matches!(blocks, Blocks::Equal(_)) {
                            2
                        } else {
                            1
                        }
                    );
                }
            }
        }
    }
}

#[test]
fn gathering_at_all_ranks() {
    for size in 1..=MOST {
        let counts = lengths(size);
        for blocks in [Blocks::Equal(0), Blocks::Equal(3), Blocks::Each(&counts)] {
            for in_place in [false, true] {
                let own = |rank: u32| vector(rank, blocks.of(rank));
                let done = check(&Case {
                    size,
                    collective: &|_| Collective::Allgather { blocks, in_place },
                    start: &|rank| Buffers {
                        send: if in_place { vec![] } else { vec![own(rank)] },
                        recv: (0..size)
                            .map(|from| {
                                if in_place && from == rank {
                                    own(rank)
                                } else {
                                    room(blocks.of(from))
                                }
                            })
                            .collect(),
                    },
                    end: &|_| (0..size).map(|from| Some(own(from))).collect(),
                    any_order: false,
                });
                let fitting =
                    3 + usize::from(size.is_power_of_two()) + usize::from(size.is_multiple_of(2));
                assert_eq!(done, fitting, "{size} ranks");
            }
        }
    }
}

#[test]
fn exchanges_between_all_ranks() {
    for size in 1..=MOST {
        // Rank a sends to rank b as many units as this, some of them none; in place both directions are alike.
        let length = |a: u32, b: u32, in_place: bool| {
            let (a, b) = if in_place {
                (a.min(b), a.max(b))
            } else {
                (a, b)
            };
            u64::from((a * 3 + b * 7) % 4)
        };
        for in_place in [false, true] {
            let table = |to_me: bool| -> Vec<Vec<u64>> {
                (0..size)
                    .map(|rank| {
                        let of = |peer| {
                            if to_me {
                                length(peer, rank, in_place)
                            } else {
                                length(rank, peer, in_place)
                            }
                        };
                        (0..size).map(of).collect()
                    })
                    .collect()
            };
            let (sends, recvs) = (table(false), table(true));
            for equal in [None, Some(0), Some(3)] {
                let count = |a: u32, b: u32| equal.unwrap_or_else(|| length(a, b, in_place));
                let blocks = |table: &'_ Vec<Vec<u64>>, rank: u32| -> Vec<u64> {
                    table[rank as usize].clone()
                };
                let kept: Vec<(Vec<u64>, Vec<u64>)> = (0..size)
                    .map(|rank| (blocks(&sends, rank), blocks(&recvs, rank)))
                    .collect();
                // Unit i of what a sends to b.
                let message = |a: u32, b: u32| -> Vec<Unit> {
                    (0..count(a, b)).map(|i| vec![(a * 100 + b, i)]).collect()
                };
                let done = check(&Case {
                    size,
                    collective: &|rank| {
                        let (send, recv) = match equal {
                            Some(count) => (Blocks::Equal(count), Blocks::Equal(count)),
                            None => {
                                let (send, recv) = &kept[rank as usize];
                                (Blocks::Each(send), Blocks::Each(recv))
                            }
                        };
                        Collective::Alltoall {
                            send,
                            recv,
                            in_place,
                        }
                    },
                    start: &|rank| {
                        let out = (0..size).map(|to| message(rank, to)).collect();
                        if in_place {
                            return Buffers {
                                send: vec![],
                                recv: out,
                            };
                        }
                        Buffers {
                            send: out,
                            recv: (0..size).map(|from| room(count(from, rank))).collect(),
                        }
                    },
                    end: &|rank| (0..size).map(|from| Some(message(from, rank))).collect(),
                    any_order: false,
                });
                assert!(done >= if equal.is_some() { 3 } else { 2 });
            }
        }
    }
}

#[test]
fn whole_vectors_are_not_combined_in_parts() {
    let count = 48;
    for size in 2..=MOST {
        for commutative in [false, true] {
            let reduce = Collective::Reduce {
                count,
                root: size - 1,
                commutative,
                in_place: false,
            };
            let allreduce = Collective::Allreduce {
                count,
                commutative,
                in_place: false,
            };
            for collective in [reduce, allreduce] {
                let mut done = 0;
                for algorithm in collective.kind().algorithms() {
                    let me = |rank| Place {
                        segment: 2,
                        whole: true,
                        ..Place::new(rank, size)
                    };
                    if !applicable(&collective, *algorithm, me(0)) {
                        continue;
                    }
                    done += 1;
                    for rank in 0..size {
                        let schedule =
                            build(&collective, *algorithm, me(rank)).expect("applicable");
                        let all_of_it = |step: &Step| match step {
                            Step::Reduce { from, into } => {
                                from.count == count && into.count == count
                            }
                            _ => true,
                        };
                        assert!(
                            schedule.nodes().iter().all(|node| all_of_it(&node.step)),
                            "{collective:?} by {algorithm:?} at {rank} of {size}"
                        );
                    }
                }
                assert!(done >= 3, "{collective:?}");
            }
        }
    }
}
