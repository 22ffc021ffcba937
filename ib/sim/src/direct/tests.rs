use super::*;

fn run_many(seeds: std::ops::Range<u64>, options: &Options) -> Report {
    let mut total = Report::default();
    for seed in seeds {
        match run_seed(seed, options) {
            Ok(report) => {
                total.steps += report.steps;
                total.messages += report.messages;
                total.failures += report.failures;
                total.kills += report.kills;
                total.stops += report.stops;
            }
            Err(failure) => panic!("{failure}"),
        }
    }
    total
}

#[test]
fn seeds_pass_and_cover_what_they_should() {
    let total = run_many(0..300, &Options::default());
    assert!(total.messages > 20_000, "{total:?}");
    assert!(total.failures > 500, "{total:?}");
    assert!(total.kills > 30 && total.stops > 30, "{total:?}");
}

/// A process posts the invalidation of its window, and takes the region back before that is
/// executed: the region is still bound, and a peer's READ by the window finds the bytes as they
/// were.
#[test]
fn a_window_is_bound_until_its_invalidation_is_executed() {
    for seed in [39_989, 197_097] {
        run_seed(seed, &Options::default()).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn one_seed_is_one_run() {
    for seed in [3, 17, 99] {
        let first = run_seed(seed, &Options::default()).map_err(|failure| failure.to_string());
        let traced = Options {
            trace: true,
            ..Options::default()
        };
        let second = run_seed(seed, &traced).map_err(|failure| failure.to_string());
        assert_eq!(first, second);
    }
}

#[test]
fn a_peer_killed_at_any_step_leaves_the_other_live() {
    let done = kill_at_every_step(1, 6, 1).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(done.runs > 500, "{done:?}");
}

/// Runs seeds until the planted bug shows; the ID of the law that it broke.
fn caught(mutation: Mutation) -> &'static str {
    let options = Options {
        mutation: Some(mutation),
        ..Options::default()
    };
    for seed in 0..3_000 {
        if let Err(failure) = run_seed(seed, &options) {
            println!("{mutation:?}: seed {seed}: {}", failure.invariant);
            return failure.invariant;
        }
    }
    panic!("{mutation:?} was not caught")
}

fn is_caught_as(mutation: Mutation, ids: &[&str]) {
    let invariant = caught(mutation);
    assert!(
        ids.iter().any(|id| invariant.starts_with(id)),
        "{mutation:?} showed as {invariant}"
    );
}

#[test]
fn a_missing_fence_of_marks_is_caught() {
    is_caught_as(Mutation::DropFence, &["I7"]);
}

#[test]
fn a_missing_fence_of_the_doorbell_is_caught() {
    is_caught_as(Mutation::DropBellFence, &["LIVENESS"]);
}

#[test]
fn a_missing_mark_is_caught() {
    is_caught_as(Mutation::SkipMark, &["I7"]);
}

#[test]
fn an_owner_that_does_not_wait_is_caught() {
    is_caught_as(Mutation::SkipWait, &["I7"]);
}

#[test]
fn a_last_byte_that_goes_first_is_caught() {
    is_caught_as(Mutation::LastByteFirst, &["I4"]);
}

#[test]
fn an_acknowledgement_before_the_execution_is_caught() {
    is_caught_as(
        Mutation::AcknowledgeFirst,
        &["I4", "I6", "I3", "I2", "RING", "I11"],
    );
}

#[test]
fn a_message_executed_twice_is_caught() {
    is_caught_as(Mutation::ExecuteTwice, &["I1", "I2", "I11", "I7"]);
}

#[test]
fn a_refusal_taken_for_success_is_caught() {
    is_caught_as(Mutation::HideRefusal, &["I4", "I11", "I3"]);
}

#[test]
fn a_completion_reported_twice_is_caught() {
    is_caught_as(Mutation::CompleteTwice, &["I11"]);
}

#[test]
fn a_receiver_not_ready_timer_cut_short_is_caught() {
    is_caught_as(Mutation::IgnoreTimer, &["I9"]);
}

#[test]
fn a_death_not_passed_on_is_caught() {
    is_caught_as(Mutation::IgnoreDeath, &["LIVENESS"]);
}
