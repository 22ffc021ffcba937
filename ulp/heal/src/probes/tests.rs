//! When probes go, and what is made of their answers.

use super::*;
use crate::adapters::adapter_of;
use crate::number::AdapterId;
use crate::paths::Path;
use proptest::prelude::*;

fn paths() -> Paths {
    let path = |adapter: u8, dlid: u16| Path {
        adapter: AdapterId(adapter),
        dlid,
        ..Path::default()
    };
    let mut paths = Paths::default();
    paths.renew(&[path(0, 1), path(0, 2), path(1, 1)]);
    paths
}

fn ms(count: u64) -> Ns {
    Ns(count * MILLISECOND)
}

/// What was told, and when each probe went by which path.
type Watched = (Vec<(u64, ProbeNews)>, Vec<(u64, u8)>);

/// Looks each millisecond from `from` to `to`; probes by the paths that `carries` names come back.
/// What was told, and when each probe went.
fn watch(
    probes: &mut Probes,
    paths: &mut Paths,
    (from, to): (u64, u64),
    seen: Seen,
    carries: impl Fn(u64, PathId) -> bool,
) -> Watched {
    let (mut told, mut sent) = (Vec::new(), Vec::new());
    for at in from..to {
        probes.look(&seen, paths, ms(at));
        while let Some(probe) = probes.poll() {
            sent.push((at, probe.by.0));
            assert_eq!(adapter_of(probe.counter), None);
            if carries(at, probe.by) {
                assert!(probes.handle_probed(probe.counter, paths, ms(at)));
            }
        }
        told.extend(probes.poll_news().map(|news| (at, news)));
    }
    (told, sent)
}

fn at_work() -> Seen {
    Seen {
        current: Some(PathId(0)),
        oldest: Some(ms(0)),
        is_idle: false,
        may_return: false,
    }
}

#[test]
fn probes_go_after_the_time_that_the_owner_says() {
    for ms in [60, 100, 700] {
        let (mut probes, mut paths) = (Probes::after(Ns(ms * MILLISECOND)), paths());
        let seen = Seen {
            current: Some(PathId(0)),
            oldest: Some(Ns(0)),
            ..Seen::default()
        };
        probes.look(&seen, &mut paths, Ns(ms * MILLISECOND - 1));
        assert_eq!(probes.poll(), None, "{ms}");
        assert_eq!(probes.poll_timeout(), Some(Ns(ms * MILLISECOND)));
        probes.look(&seen, &mut paths, Ns(ms * MILLISECOND));
        assert!(probes.poll().is_some(), "{ms}");
    }
}

#[test]
fn silence_is_judged_160_ms_after_the_oldest_request() {
    let (mut probes, mut paths) = (Probes::default(), paths());
    let seen = at_work();
    let by_others = |_, by: PathId| by.0 != 0;
    let (told, sent) = watch(&mut probes, &mut paths, (0, 170), seen, by_others);
    let times: Vec<u64> = sent
        .iter()
        .filter(|one| one.1 == 0)
        .map(|one| one.0)
        .collect();
    assert_eq!(times, [100, 120, 140]);
    assert_eq!(sent.len(), 9, "three by each path");
    assert_eq!(told, [(160, ProbeNews::Silent(PathId(0), Verdict::Path))]);
}

#[test]
fn a_peer_that_computes_is_no_silent_path_and_is_asked_ever_less() {
    let (mut probes, mut paths) = (Probes::default(), paths());
    let (told, _) = watch(&mut probes, &mut paths, (0, 3000), at_work(), |_, _| true);
    let times: Vec<u64> = told.iter().map(|one| one.0).collect();
    assert_eq!(times, [160, 320, 580, 1040, 1900]);
    assert!(
        told.iter()
            .all(|one| one.1 == ProbeNews::Silent(PathId(0), Verdict::Peer))
    );
    let (mut probes, mut paths) = (Probes::default(), self::paths());
    let (told, _) = watch(&mut probes, &mut paths, (0, 170), at_work(), |_, _| false);
    let unknown = ProbeNews::Silent(PathId(0), Verdict::Unknown);
    assert_eq!(told, [(160, unknown)]);
}

#[test]
fn what_is_answered_meanwhile_ends_the_round() {
    let (mut probes, mut paths) = (Probes::default(), paths());
    let by_others = |_, by: PathId| by.0 != 0;
    watch(&mut probes, &mut paths, (0, 150), at_work(), by_others);
    let mut seen = at_work();
    seen.oldest = Some(ms(149));
    let (told, sent) = watch(&mut probes, &mut paths, (150, 240), seen, by_others);
    assert_eq!((told, sent), (vec![], vec![]));
    seen.oldest = None;
    watch(&mut probes, &mut paths, (240, 241), seen, by_others);
    assert_eq!(probes.poll_timeout(), None);
}

#[test]
fn without_a_life_probes_find_a_path_and_judge_nothing() {
    let (mut probes, mut paths) = (Probes::default(), paths());
    let seen = Seen {
        current: None,
        ..at_work()
    };
    let (told, sent) = watch(&mut probes, &mut paths, (0, 200), seen, |_, by| by.0 == 2);
    assert_eq!((told, sent.len()), (vec![], 9));
    assert!(paths.is_proven(PathId(2), ms(200)) && !paths.is_proven(PathId(0), ms(200)));
    assert_eq!(paths.next(ms(200)), Some(PathId(2)));
}

#[test]
fn return_needs_three_answers_in_a_row_and_is_not_repeated_at_once() {
    let (mut probes, mut paths) = (Probes::default(), paths());
    let seen = Seen {
        current: Some(PathId(2)),
        oldest: None,
        is_idle: true,
        may_return: true,
    };
    // The third is lost.
    let carries = |at: u64, _| at != 300;
    let (told, sent) = watch(&mut probes, &mut paths, (0, 650), seen, carries);
    let times: Vec<u64> = sent.iter().map(|one| one.0).collect();
    assert_eq!(times[..6], [100, 200, 300, 400, 500, 600]);
    assert_eq!(told, [(601, ProbeNews::Return(PathId(0)))]);
    // It did not hold: the next one comes a second later, and then two.
    let (told, _) = watch(&mut probes, &mut paths, (650, 5000), seen, |_, _| true);
    let times: Vec<u64> = told.iter().map(|one| one.0).collect();
    assert_eq!(times.len(), 2, "{times:?}");
    assert!((1600..1800).contains(&times[0]) && (3600..3900).contains(&times[1]));
    let higher = Seen {
        may_return: false,
        ..seen
    };
    let (told, sent) = watch(&mut probes, &mut paths, (5000, 9000), higher, |_, _| true);
    assert_eq!((told, sent), (vec![], vec![]));
}

#[test]
fn a_connection_at_work_returns_a_second_later() {
    let (mut probes, mut paths) = (Probes::default(), paths());
    let seen = Seen {
        current: Some(PathId(2)),
        oldest: None,
        is_idle: false,
        may_return: true,
    };
    let (told, _) = watch(&mut probes, &mut paths, (0, 1500), seen, |_, _| true);
    assert_eq!(told, [(1301, ProbeNews::Return(PathId(0)))]);
}

proptest! {
    /// Whatever comes back, late, twice or of nothing: a path is silent only where none of its
    /// probes came back and those of another did, and nobody returns by a path that did not answer
    /// three in a row.
    #[test]
    fn no_verdict_without_its_probes(
        moves in prop::collection::vec(
            (0_u64..60, prop::collection::vec(any::<bool>(), 8), any::<u32>()), 1..60),
        current in 0_u8..3,
    ) {
        let (mut probes, mut paths) = (Probes::default(), paths());
        let seen = Seen {
            current: Some(PathId(current)),
            oldest: Some(Ns(0)),
            is_idle: true,
            may_return: true,
        };
        let mut now = Ns(0);
        let mut answers = [0_u32; 3];
        let mut row = 0;
        for (pause, back, noise) in moves {
            now = now.after(pause * MILLISECOND);
            probes.look(&seen, &mut paths, now);
            match probes.poll_news() {
                Some(ProbeNews::Silent(of, Verdict::Path | Verdict::Here)) => {
                    let mut others = answers;
                    others[usize::from(of.0)] = 0;
                    prop_assert_eq!(answers[usize::from(of.0)], 0);
                    prop_assert!(others.iter().any(|count| *count >= 2));
                }
                Some(ProbeNews::Return(to)) => {
                    prop_assert!(to.0 < current && row >= 3, "{}", row);
                    row = 0;
                }
                _ => (),
            }
            let mut back = back.into_iter().cycle();
            while let Some(probe) = probes.poll() {
                let is_of_return = probe.counter & OF_RETURN != 0;
                let first = !is_of_return && probe.counter & 3 == 0;
                if first {
                    answers[usize::from(probe.by.0)] = 0;
                }
                if back.next() == Some(true) {
                    prop_assert!(probes.handle_probed(probe.counter, &mut paths, now));
                    probes.handle_probed(probe.counter, &mut paths, now);
                    if is_of_return {
                        row += 1;
                    } else {
                        answers[usize::from(probe.by.0)] += 1;
                    }
                } else if is_of_return {
                    row = 0;
                }
            }
            // A counter of long ago, or of nobody.
            let known = probes.rounds << 2 & ROUNDS;
            if noise & (ROUNDS & !3) != known && noise & OF_RETURN == 0 {
                prop_assert!(!probes.handle_probed(noise & !(1 << 31), &mut paths, now));
            }
        }
    }
}
