//! The order of paths, their numbers, and what probes say of them.

use super::*;
use proptest::prelude::*;

fn path(dlid: u16) -> Path {
    Path {
        dlid,
        ..Path::default()
    }
}

fn between(adapter: u8, port: u8, peer: u8, dlid: u16) -> Path {
    Path {
        adapter: AdapterId(adapter),
        port,
        peer: AdapterId(peer),
        dlid,
        ..Path::default()
    }
}

fn turns(paths: &mut Paths, now: u64, count: usize) -> Vec<u8> {
    let all = (0..count).filter_map(|_| paths.next(Ns(now)));
    all.map(|id| id.0).collect()
}

#[test]
fn paths_are_tried_in_turn_and_those_that_failed_last() {
    let mut paths = Paths::default();
    assert_eq!(paths.next(Ns(0)), None);
    paths.renew(&[path(1), path(2), path(3)]);
    assert_eq!(turns(&mut paths, 0, 4), [0, 1, 2, 0]);
    paths.failed(PathId(1), Ns(5));
    assert_eq!(turns(&mut paths, 6, 3), [2, 0, 2]);
    assert_eq!(turns(&mut paths, 6 + AVOIDED_NS, 3), [1, 0, 2]);
    for id in 0..3 {
        paths.failed(PathId(id), Ns(AVOIDED_NS));
    }
    let best = paths.next(Ns(AVOIDED_NS));
    assert_eq!(best, Some(PathId(1)), "one that failed is better than none");
    paths.heard(PathId(2), Ns(AVOIDED_NS));
    assert_eq!(paths.next(Ns(AVOIDED_NS)), Some(PathId(2)));
    assert_eq!(paths.last_heard(PathId(2)), Some(Ns(AVOIDED_NS)));
}

#[test]
fn the_order_is_that_of_figure_3() {
    let mut paths = Paths::default();
    paths.renew(&[
        between(0, 1, 0, 1), // 0: another adapter
        between(0, 1, 1, 1), // 1: the peer's other adapter
        between(1, 1, 0, 1), // 2: the pair, another LID
        between(1, 1, 0, 2), // 3: the path of before
        between(1, 1, 1, 1), // 4: the peer's other adapter
        between(1, 2, 0, 1), // 5: another port
    ]);
    paths.begin(PathId(3));
    assert_eq!(turns(&mut paths, 0, 7), [3, 2, 5, 0, 1, 4, 3]);
    paths.begin(PathId(3));
    paths.failed(PathId(2), Ns(0));
    assert_eq!(turns(&mut paths, 1, 5), [3, 5, 0, 1, 4]);
    paths.answered(PathId(4), Ns(1));
    assert_eq!(turns(&mut paths, 1, 3), [4, 4, 4], "it carries both ways");
    assert_eq!(turns(&mut paths, 1 + PROVEN_NS, 1), [3]);
    let of_port = paths.next_of(Ns(2), |id| id.0 > 4);
    assert_eq!(of_port, Some(PathId(5)));
}

#[test]
fn what_is_known_of_a_path_and_its_number_outlive_a_new_table() {
    let mut paths = Paths::default();
    paths.renew(&[path(1), path(2)]);
    paths.failed(PathId(1), Ns(0));
    paths.renew(&[path(2), path(3), path(3)]);
    assert_eq!(paths.next(Ns(1)), Some(PathId(2)));
    assert_eq!(paths.get(PathId(2)), Some(&path(3)));
    assert_eq!(paths.get(PathId(1)), Some(&path(2)));
    assert_eq!((paths.get(PathId(0)), paths.get(PathId(3))), (None, None));
    assert_eq!(paths.known(PathId(0)), Some(&path(1)));
    paths.renew(&[path(1)]);
    assert_eq!(paths.get(PathId(0)), Some(&path(1)));
}

#[test]
fn a_better_path_is_of_another_pair_and_stands_before() {
    let mut paths = Paths::default();
    paths.renew(&[
        between(0, 1, 0, 1),
        between(0, 1, 0, 2),
        between(1, 1, 0, 1),
        between(1, 1, 1, 1),
    ]);
    assert_eq!(paths.better(PathId(0)), None);
    assert_eq!(paths.better(PathId(1)), None, "the pair is no other");
    assert_eq!(paths.better(PathId(2)), Some(PathId(0)));
    assert_eq!(paths.better(PathId(3)), Some(PathId(0)));
    paths.renew(&[between(1, 1, 0, 1), between(1, 1, 1, 1)]);
    assert_eq!(paths.better(PathId(3)), Some(PathId(2)));
    assert_eq!(paths.better(PathId(0)), Some(PathId(2)), "it is gone");
}

/// Probes by three paths and how many of three come back: what is said of the first.
#[test]
fn a_verdict_needs_three_lost_and_two_answered_elsewhere() {
    let rows: [([u8; 3], Verdict); 8] = [
        ([0, 3, 0], Verdict::Path),
        ([0, 2, 0], Verdict::Path),
        ([0, 1, 0], Verdict::Unknown),
        ([0, 0, 0], Verdict::Unknown),
        ([1, 3, 3], Verdict::Peer),
        ([3, 0, 0], Verdict::Peer),
        ([0, 0, 2], Verdict::Here),
        ([0, 1, 2], Verdict::Path),
    ];
    for (answers, expected) in rows {
        let mut paths = Paths::default();
        paths.renew(&[
            between(0, 1, 0, 1),
            between(0, 1, 1, 1),
            between(1, 1, 0, 1),
        ]);
        paths.begin_round();
        for (id, count) in (0..).map(PathId).zip(answers) {
            for nth in 0..PROBES {
                paths.probe_sent(id, Ns(1));
                if nth < count {
                    paths.probe_answered(id, nth);
                    // It comes twice.
                    paths.probe_answered(id, nth);
                }
            }
        }
        assert_eq!(paths.verdict(PathId(0), Ns(2)), expected, "{answers:?}");
        let late = Ns(1 + FRESH_NS);
        assert_eq!(paths.verdict(PathId(0), late), Verdict::Unknown);
        assert_eq!(paths.verdict(PathId(9), Ns(2)), Verdict::Unknown);
    }
}

proptest! {
    /// However often the table changes: a number that a session remembers names its path or none
    /// that is in the table, as long as no more than 32 were ever there.
    #[test]
    fn numbers_stay(tables in prop::collection::vec(
        prop::collection::vec(0_u16..32, 0..40), 1..12)) {
        let mut paths = Paths::default();
        let mut names: Vec<Option<Path>> = vec![None; MOST];
        for table in tables {
            let found: Vec<Path> = table.iter().map(|dlid| path(*dlid)).collect();
            paths.renew(&found);
            let mut seen = Vec::new();
            for id in paths.ids().collect::<Vec<_>>() {
                let one = *paths.get(id).expect("it is in the table");
                let name = names[usize::from(id.0)].get_or_insert(one);
                prop_assert_eq!(*name, one);
                seen.push(one);
            }
            for one in &found {
                prop_assert!(seen.contains(one));
            }
            prop_assert_eq!(paths.next(Ns(0)).is_some(), !found.is_empty());
        }
    }

    #[test]
    fn more_than_32_paths_push_out_those_that_left_the_table(
        tables in prop::collection::vec(
            prop::collection::vec(0_u16..200, 1..32), 1..12),
    ) {
        let mut paths = Paths::default();
        for table in tables {
            let found: Vec<Path> = table.iter().map(|dlid| path(*dlid)).collect();
            paths.renew(&found);
            for one in &found {
                prop_assert!(paths.ids().any(|id| paths.get(id) == Some(one)));
            }
            prop_assert!(paths.ids().count() <= found.len());
        }
    }
}

fn lids(first: u16, lmc: u8, other: Option<(u8, u16)>) -> Lids {
    Lids { first, lmc, other }
}

/// Both ends of a connection, as each has it.
fn ends(route: u8) -> [Path; 2] {
    [(1, 16), (1, 8)].map(|(port, first)| Path {
        port,
        slid_bits: route,
        dlid: first + u16::from(route),
        ..Path::default()
    })
}

#[test]
fn both_ends_have_the_same_second_path() {
    // Own port and LID, LID of the peer's.
    let way = |own: &Lids, path: &Path| {
        let from = match own.other {
            Some((port, lid)) if port == path.port => lid,
            _ => own.first,
        };
        (from + u16::from(path.slid_bits), path.dlid)
    };
    for other_here in [None, Some((2, 40))] {
        for other_there in [None, Some((3, 48))] {
            for lmc in 0..=3 {
                let (here, there) = (lids(8, lmc, other_here), lids(16, 2, other_there));
                for route in 0..4_u8.min(1 << lmc) {
                    let [out, back] = ends(route);
                    let second = out.second(&here, &there, None);
                    let other = back.second(&there, &here, None);
                    assert_eq!(second.is_some(), other.is_some());
                    let (Some(second), Some(other)) = (second, other) else {
                        assert!(lmc == 0 && other_here.is_none() && other_there.is_none());
                        continue;
                    };
                    let ((from, to), (from_there, to_there)) =
                        (way(&here, &second), way(&there, &other));
                    assert_eq!((from, to), (to_there, from_there));
                    assert_ne!((from, to), way(&here, &out), "it is another one");
                }
            }
        }
    }
}

#[test]
fn a_third_path_comes_before_the_one_that_was_left() {
    let (here, there) = (lids(8, 2, None), lids(16, 2, None));
    let [first, _] = ends(0);
    let second = first.second(&here, &there, None).expect("there is one");
    let third = second.second(&here, &there, Some(&first));
    assert_eq!(third, Some(ends(2)[0]));
    let fourth = ends(3)[0].second(&here, &there, Some(&first));
    assert_eq!(fourth, Some(ends(1)[0]));
    // Of two there is no other.
    let (here, there) = (lids(8, 1, None), lids(16, 1, None));
    let back = ends(1)[0].second(&here, &there, Some(&first));
    assert_eq!(back, Some(first));
}

#[test]
fn there_is_no_second_path_where_the_ends_would_differ() {
    let (here, there) = (lids(8, 1, None), lids(16, 1, None));
    let [first, _] = ends(0);
    let by_other_lid = Path {
        slid_bits: 1,
        ..first
    };
    assert_eq!(by_other_lid.second(&here, &there, None), None);
    let elsewhere = Path { dlid: 15, ..first };
    assert_eq!(elsewhere.second(&here, &there, None), None);
    assert_eq!(first.second(&here, &lids(16, 0, None), None), None);
    let ethernet = lids(0, 0, Some((2, 0)));
    assert_eq!(first.second(&ethernet, &ethernet, None), None);
}

#[test]
fn a_path_that_is_not_in_the_table_is_known_by_its_ends() {
    let mut paths = Paths::default();
    paths.renew(&[
        between(0, 1, 0, 1),
        between(0, 2, 0, 1),
        between(0, 2, 1, 5),
    ]);
    assert_eq!(paths.nearest(&between(0, 2, 1, 5)), Some(PathId(2)));
    assert_eq!(paths.nearest(&between(0, 2, 0, 9)), Some(PathId(1)));
    assert_eq!(paths.nearest(&between(1, 1, 0, 1)), None);
}
