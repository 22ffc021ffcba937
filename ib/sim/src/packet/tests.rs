//! Seeds pass; planted bugs do not.

use super::mutation::Mutation;
use super::{Options, run_mutated, run_seed};

#[test]
fn three_hundred_seeds_break_no_invariant() {
    for seed in 0..300 {
        if let Err(failure) = run_seed(seed, &Options::default()) {
            panic!("{failure}");
        }
    }
}

#[test]
fn a_seed_is_the_same_run_every_time() {
    for seed in [1, 7, 12] {
        let run = || run_seed(seed, &Options::default()).map_err(|failure| failure.to_string());
        assert_eq!(run(), run());
    }
}

#[test]
fn the_wire_is_as_bad_as_promised_and_work_gets_done() {
    let mut total = super::Report::default();
    for seed in 0..100 {
        let report = run_seed(seed, &Options::default()).unwrap();
        total.requests += report.requests;
        total.packets += report.packets;
        total.delivered += report.delivered;
        total.corrupted += report.corrupted;
        total.failed += report.failed;
        total.queue_pairs += report.queue_pairs;
    }
    assert!(total.requests > 2_000, "{total:?}");
    assert!(total.corrupted > 200, "{total:?}");
    assert!(total.delivered < total.packets, "{total:?}");
    // Faults and planted errors end some queue pairs, not most.
    assert!(
        total.failed > 20 && total.failed < total.queue_pairs / 2,
        "{total:?}"
    );
}

/// Some seed within a few dozen shows the planted bug, and the checker of its invariant is the one that fires.
fn assert_caught(mutation: Mutation, invariants: &[&str]) {
    let options = Options {
        trace_lines: 20,
        ..Options::default()
    };
    for seed in 0..80 {
        if let Err(failure) = run_mutated(seed, &options, Some(mutation)) {
            assert!(
                run_seed(seed, &options).is_ok(),
                "seed {seed} fails without the bug as well"
            );
            assert!(
                invariants.contains(&failure.invariant),
                "{mutation:?}: {failure}"
            );
            assert!(failure.to_string().contains(&format!("seed {seed}")));
            return;
        }
    }
    panic!("{mutation:?} was not caught");
}

#[test]
fn i1_a_write_executed_twice_is_caught() {
    assert_caught(Mutation::ExecuteTwice, &["I1"]);
}

#[test]
fn i2_a_wrong_atomic_answer_is_caught() {
    assert_caught(Mutation::AnswerNewValue, &["I2"]);
}

#[test]
fn i3_a_read_from_elsewhere_is_caught() {
    assert_caught(Mutation::ReadElsewhere, &["I3"]);
}

#[test]
fn i4_an_early_receive_completion_is_caught() {
    assert_caught(Mutation::LoseLastByte, &["I4"]);
}

#[test]
fn i5_a_wrong_wrap_is_caught() {
    assert_caught(Mutation::SkipPsnZero, &["I5"]);
}

#[test]
fn i6_a_second_nak_for_a_gap_is_caught() {
    assert_caught(Mutation::NakTwice, &["I6"]);
}

#[test]
fn i7_a_missing_key_check_is_caught() {
    assert_caught(Mutation::SkipKeyCheck, &["I7"]);
}

#[test]
fn i8_too_many_reads_are_caught() {
    assert_caught(Mutation::MoreReads, &["I8"]);
}

#[test]
fn i9_giving_up_too_early_on_rnr_is_caught() {
    assert_caught(Mutation::ImpatientRnr, &["I9"]);
}

#[test]
fn i10_a_hasty_timer_is_caught() {
    assert_caught(Mutation::HastyTimer, &["I10"]);
}

#[test]
fn i11_a_swallowed_completion_is_caught() {
    assert_caught(Mutation::SwallowCompletion, &["I11", "liveness"]);
}

#[test]
fn i12_a_half_done_modify_is_caught() {
    assert_caught(Mutation::HalfModify, &["I12"]);
}

#[test]
fn i13_a_silent_overrun_is_caught() {
    assert_caught(Mutation::DropOnOverrun, &["I13"]);
}
