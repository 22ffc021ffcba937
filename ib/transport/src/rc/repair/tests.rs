//! Each transition by its name.

use super::*;
use ferriband_wire::Hole;

const UNA: u32 = 0xff_fffa;
/// Within this time of being sent again a packet may still be under way.
const LATELY_NS: u64 = 100;

/// `sent` packets are out, the oldest of them `ahead` of [`UNA`].
fn flight(ahead: u32, sent: u32, now: u64) -> Flight {
    Flight {
        una: psn(ahead),
        sent,
        now: Instant(now),
        lately_ns: LATELY_NS,
    }
}

/// So far beyond [`UNA`]: the numbers wrap on the way.
fn psn(ahead: u32) -> Psn {
    Psn::new(UNA).add(ahead)
}

fn drain(repair: &mut Repair, now: u64) -> Vec<Again> {
    std::iter::from_fn(|| repair.next(Instant(now))).collect()
}

/// Asked while everything before packet 8 was out.
fn asked() -> Repair {
    let mut repair = Repair::default();
    assert_eq!(repair.silence(None), OnSilence::Ask);
    assert_eq!(drain(&mut repair, 0), [Again::Question]);
    repair.asked(psn(8));
    repair
}

/// Asked, and answered with an acknowledgement of one packet of eight.
fn suspicious() -> Repair {
    let mut repair = asked();
    repair.progress();
    assert!(repair.answered(psn(8), &flight(1, 7, 10)));
    repair
}

/// Its peer is known to keep what comes after a gap.
fn filling() -> Repair {
    let mut repair = Repair::default();
    assert_eq!(
        repair.gap(Gap::SequenceError, &flight(0, 8, 0)),
        OnGap::GoBack
    );
    repair.went_back();
    assert!(repair.may_learn(psn(0)));
    repair.learn();
    repair.progress();
    repair
}

/// `filling`, and the peer lacks packet `at`, alone.
fn lacks(repair: &mut Repair, at: u32, now: u64) -> OnGap {
    repair.gap(Gap::SequenceError, &flight(at, 20, now))
}

fn list<T>(reach: u16, holes: &[Hole], hear: impl FnOnce(&GapReport<'_>) -> T) -> T {
    let mut payload = [0; GapReport::MOST_BYTES];
    let len = GapReport::len_of(holes.len());
    GapReport::write(reach, holes.iter().copied(), &mut payload[..len]);
    hear(&GapReport::parse(&payload[..len]).unwrap())
}

// Doubt: none -> ask -> asked -> suspect.

#[test]
fn a_silence_is_answered_by_one_question() {
    let mut repair = Repair::default();
    assert!(!repair.is_pending());
    assert_eq!(repair.silence(None), OnSilence::Ask);
    assert!(repair.is_pending());
    assert_eq!(
        (repair.questions(), repair.doubted()),
        (0, None),
        "not sent"
    );
    assert_eq!(repair.next(Instant(0)), Some(Again::Question));
    assert!(!repair.is_pending());
    assert_eq!(repair.doubted(), None, "it could not be sent");
    repair.asked(psn(8));
    assert_eq!((repair.questions(), repair.doubted()), (1, Some(psn(8))));
}

#[test]
fn a_second_silence_asks_again_and_keeps_the_first_question_in_mind() {
    let mut repair = asked();
    assert_eq!(repair.silence(None), OnSilence::Ask);
    assert_eq!(repair.doubted(), Some(psn(8)));
    assert_eq!(repair.silence(None), OnSilence::Ask);
    assert_eq!(repair.doubted(), Some(psn(8)), "though it was not sent yet");
    assert_eq!(repair.next(Instant(0)), Some(Again::Question));
    assert_eq!(repair.doubted(), Some(psn(8)), "it could not be sent");
    repair.asked(psn(9));
    assert_eq!((repair.questions(), repair.doubted()), (2, Some(psn(9))));
}

#[test]
fn a_silence_is_put_off_eight_times_between_two_progresses() {
    let mut repair = Repair::default();
    let until = Some(Instant(7));
    for _ in 0..2 {
        for _ in 0..8 {
            assert_eq!(repair.silence(until), OnSilence::PutOff(Instant(7)));
            assert!(!repair.is_pending());
        }
        assert_eq!(repair.silence(until), OnSilence::Ask);
        repair.went_back();
        assert_eq!(repair.silence(until), OnSilence::Ask, "that is no progress");
        repair.progress();
    }
}

#[test]
fn a_silence_that_is_put_off_leaves_the_question_before_it_unanswered() {
    let mut repair = asked();
    assert_eq!(
        repair.silence(Some(Instant(7))),
        OnSilence::PutOff(Instant(7))
    );
    assert_eq!(repair.doubted(), Some(psn(8)));
}

#[test]
fn progress_takes_back_a_question_that_was_not_sent() {
    let mut repair = Repair::default();
    repair.silence(None);
    repair.progress();
    assert_eq!(drain(&mut repair, 0), []);
}

#[test]
fn progress_answers_the_question_and_counts_from_nought() {
    let mut repair = asked();
    repair.progress();
    assert_eq!((repair.questions(), repair.doubted()), (0, None));
}

#[test]
fn an_answer_in_part_makes_the_rest_suspect() {
    let repair = suspicious();
    assert_eq!(repair.doubted(), Some(psn(8)));
    assert!(!repair.is_pending());
}

#[test]
fn an_answer_that_acknowledges_nothing_new_changes_nothing() {
    let mut repair = asked();
    assert!(!repair.answered(psn(8), &flight(0, 8, 10)));
    assert_eq!(repair.silence(None), OnSilence::Ask, "it is not suspect");
    assert!(!repair.answered(psn(8), &flight(0, 8, 10)));
    assert!(repair.is_pending(), "the next question still goes");
}

#[test]
fn a_whole_answer_ends_the_doubt() {
    let mut repair = asked();
    repair.progress();
    assert!(!repair.answered(psn(8), &flight(8, 4, 10)), "all before 8");
    assert_eq!(repair.doubted(), None);
    let mut repair = asked();
    repair.progress();
    assert!(!repair.answered(psn(8), &flight(1, 0, 10)), "none is out");
    assert_eq!(repair.doubted(), None);
}

#[test]
fn more_answers_put_off_the_verdict_until_there_is_no_doubt_left() {
    let mut repair = suspicious();
    assert!(repair.answered(psn(8), &flight(1, 7, 20)), "an old one");
    repair.progress();
    assert_eq!(repair.doubted(), Some(psn(8)), "progress is no verdict");
    assert!(repair.answered(psn(8), &flight(5, 3, 30)));
    repair.progress();
    assert!(!repair.answered(psn(8), &flight(8, 0, 40)));
    assert_eq!(repair.silence(None), OnSilence::Ask);
}

#[test]
fn a_silence_under_suspicion_is_a_loss_whoever_is_heard() {
    for goes_on in [None, Some(Instant(7))] {
        let mut repair = suspicious();
        assert_eq!(repair.silence(goes_on), OnSilence::GoBack);
        assert_eq!((repair.doubted(), repair.is_pending()), (None, false));
    }
}

#[test]
fn going_back_ends_every_doubt() {
    for mut repair in [asked(), suspicious()] {
        repair.went_back();
        assert_eq!((repair.questions(), repair.doubted()), (0, None));
        repair.silence(None);
        repair.went_back();
        assert_eq!(drain(&mut repair, 0), []);
    }
}

// Echo: none -> gone back -> none.

#[test]
fn a_gap_is_answered_by_going_back_once() {
    for gap in [Gap::SequenceError, Gap::Response] {
        let mut repair = Repair::default();
        assert_eq!(repair.gap(gap, &flight(0, 8, 0)), OnGap::GoBack);
        repair.went_back();
        for echo in [Gap::SequenceError, Gap::Response] {
            assert_eq!(repair.gap(echo, &flight(0, 8, 900)), OnGap::Ignore);
        }
        assert_eq!(repair.gap(gap, &flight(1, 8, 900)), OnGap::GoBack);
        assert!(!repair.is_pending());
    }
}

#[test]
fn after_progress_it_is_another_gap() {
    let mut repair = Repair::default();
    repair.gap(Gap::SequenceError, &flight(0, 8, 0));
    repair.progress();
    assert!(!repair.may_learn(psn(0)));
    assert_eq!(
        repair.gap(Gap::SequenceError, &flight(0, 8, 0)),
        OnGap::GoBack
    );
}

#[test]
fn a_lost_request_teaches_and_a_lost_response_does_not() {
    let mut repair = Repair::default();
    assert!(!repair.may_learn(psn(0)), "it never went back");
    repair.gap(Gap::Response, &flight(0, 8, 0));
    assert!(!repair.may_learn(psn(0)));
    repair.gap(Gap::SequenceError, &flight(1, 8, 0));
    assert!(repair.may_learn(psn(1)));
    assert!(!repair.may_learn(psn(0)), "that is another gap");
}

// Mend: go back -> fill -> go back.

#[test]
fn what_was_learned_is_that_gaps_are_filled() {
    let repair = filling();
    assert!(repair.fills() && !Repair::default().fills());
    assert!(!repair.is_pending());
    assert_eq!(repair.heard(), None);
}

#[test]
fn what_is_learned_twice_stays_as_it_is() {
    let mut repair = filling();
    lacks(&mut repair, 4, 1000);
    repair.learn();
    assert_eq!(drain(&mut repair, 1000), [Again::Oldest]);
    assert!(repair.has_filled(psn(4)));
}

#[test]
fn a_gap_is_filled_by_one_packet_and_its_echoes_by_none() {
    let mut repair = filling();
    assert!(!repair.has_filled(psn(4)));
    assert_eq!(lacks(&mut repair, 4, 1000), OnGap::Fill);
    assert!(repair.is_pending() && repair.has_filled(psn(4)));
    assert_eq!(drain(&mut repair, 1000), [Again::Oldest]);
    assert!(!repair.is_pending());
    assert_eq!(lacks(&mut repair, 4, 1000 + LATELY_NS - 1), OnGap::Ignore);
    assert!(!repair.is_pending());
    assert_eq!(lacks(&mut repair, 4, 1000 + LATELY_NS), OnGap::Fill);
    assert_eq!(drain(&mut repair, 1100), [Again::Oldest]);
    assert_eq!(
        lacks(&mut repair, 4, 1000 + LATELY_NS),
        OnGap::Ignore,
        "sent anew"
    );
}

#[test]
fn progress_takes_back_a_packet_that_was_to_fill_a_gap() {
    let mut repair = filling();
    lacks(&mut repair, 4, 1000);
    repair.progress();
    assert_eq!(drain(&mut repair, 1000), []);
    assert!(repair.has_filled(psn(4)), "neighbours are still counted");
}

#[test]
fn the_fourth_neighbour_in_a_row_is_a_run_and_everything_goes_again() {
    let mut repair = filling();
    for (at, step) in (4..7).zip(0..) {
        assert_eq!(lacks(&mut repair, at, 1000 * step), OnGap::Fill);
        assert_eq!(drain(&mut repair, 1000 * step), [Again::Oldest]);
        repair.progress();
    }
    assert_eq!(lacks(&mut repair, 7, 9000), OnGap::GoBack);
    assert!(!repair.fills() && !repair.has_filled(psn(6)));
    assert_eq!(
        repair.gap(Gap::SequenceError, &flight(7, 8, 9000)),
        OnGap::Ignore
    );
    assert!(repair.may_learn(psn(7)));
    repair.learn();
    repair.progress();
    assert_eq!(
        lacks(&mut repair, 7, 9000),
        OnGap::Fill,
        "the run is forgotten"
    );
}

#[test]
fn a_run_is_broken_by_a_packet_that_is_no_neighbour() {
    let mut repair = filling();
    for (at, step) in [4, 5, 6, 8, 9, 10].into_iter().zip(0..) {
        assert_eq!(lacks(&mut repair, at, 1000 * step), OnGap::Fill, "{at}");
    }
    assert_eq!(lacks(&mut repair, 11, 9000), OnGap::GoBack);
}

#[test]
fn a_run_is_not_broken_by_a_packet_that_is_lost_twice() {
    let mut repair = filling();
    for (at, step) in [4, 5, 5, 6, 6].into_iter().zip(0..) {
        assert_eq!(lacks(&mut repair, at, 1000 * step), OnGap::Fill, "{at}");
    }
    assert_eq!(lacks(&mut repair, 7, 9000), OnGap::GoBack);
}

#[test]
fn a_lost_response_goes_back_though_requests_are_filled() {
    let mut repair = filling();
    lacks(&mut repair, 4, 1000);
    assert_eq!(
        repair.gap(Gap::Response, &flight(4, 8, 1000)),
        OnGap::GoBack
    );
    repair.went_back();
    assert_eq!(drain(&mut repair, 1000), []);
    assert!(repair.fills() && repair.has_filled(psn(4)));
    assert_eq!(
        repair.gap(Gap::Response, &flight(4, 8, 9000)),
        OnGap::Ignore
    );
    assert_eq!(lacks(&mut repair, 4, 9000), OnGap::Fill, "that is no echo");
}

#[test]
fn a_run_after_a_lost_response_teaches_nothing() {
    let mut repair = filling();
    repair.gap(Gap::Response, &flight(3, 8, 0));
    repair.progress();
    for (at, step) in (4..7).zip(1..) {
        lacks(&mut repair, at, 1000 * step);
    }
    assert_eq!(lacks(&mut repair, 7, 9000), OnGap::GoBack);
    assert!(!repair.may_learn(psn(7)));
}

#[test]
fn the_last_packet_of_a_flight_is_sent_again_when_all_others_are_there() {
    let mut repair = filling();
    lacks(&mut repair, 4, 1000);
    drain(&mut repair, 1000);
    repair.progress();
    repair.filled(&flight(7, 2, 1050));
    assert_eq!(drain(&mut repair, 1050), [], "two are out");
    repair.filled(&flight(8, 1, 1050));
    assert_eq!(drain(&mut repair, 1050), [Again::Oldest]);
    assert!(repair.has_filled(psn(8)));
    assert_eq!(lacks(&mut repair, 8, 1149), OnGap::Ignore);
    let mut repair = Repair::default();
    repair.filled(&flight(8, 1, 1050));
    assert_eq!(drain(&mut repair, 1050), [], "nothing is filled here");
}

// Gaps beyond the first.

const HOLES: [Hole; 2] = [Hole { ahead: 2, count: 2 }, Hole { ahead: 9, count: 1 }];

#[test]
fn a_list_is_sent_again_behind_the_oldest_and_before_a_question() {
    let mut repair = filling();
    repair.silence(None);
    lacks(&mut repair, 4, 1000);
    list(12, &HOLES, |report| {
        repair.listed(psn(4), report, &flight(4, 20, 1000));
    });
    assert!(repair.has_more() && repair.is_pending());
    assert_eq!(repair.heard(), Some(psn(16)));
    let packets = [6, 7, 13].map(|at| Again::Packet(psn(at)));
    let all = [&[Again::Oldest], &packets[..], &[Again::Question]].concat();
    assert_eq!(drain(&mut repair, 1000), all);
    assert!(!repair.has_more() && !repair.is_pending());
}

#[test]
fn a_list_makes_something_pending_by_itself() {
    let mut repair = filling();
    list(12, &HOLES, |report| {
        repair.listed(psn(4), report, &flight(4, 20, 1000));
    });
    assert!(repair.is_pending());
}

#[test]
fn what_was_sent_again_lately_is_not_taken_from_a_list() {
    let mut repair = filling();
    let mut hear = |at: u64| {
        list(12, &HOLES, |report| {
            repair.listed(psn(4), report, &flight(4, 20, at));
        });
        drain(&mut repair, at).len()
    };
    assert_eq!(hear(1000), 3);
    assert_eq!(hear(1000 + LATELY_NS - 1), 0);
    assert_eq!(hear(1000 + LATELY_NS), 3);
    // One that was sent by a list, and is the oldest now.
    assert_eq!(
        lacks(&mut repair, 6, 1000 + 2 * LATELY_NS - 1),
        OnGap::Ignore
    );
    assert_eq!(lacks(&mut repair, 6, 1000 + 2 * LATELY_NS), OnGap::Fill);
}

#[test]
fn what_is_not_outstanding_is_not_taken_from_a_list() {
    let mut repair = filling();
    list(12, &HOLES, |report| {
        repair.listed(psn(4), report, &flight(4, 9, 1000));
    });
    assert_eq!(repair.heard(), None, "16 was not sent");
    let packets = [6, 7].map(|at| Again::Packet(psn(at)));
    assert_eq!(drain(&mut repair, 1000), packets, "13 was not either");
}

#[test]
fn the_farthest_packet_heard_of_never_moves_back() {
    let mut repair = filling();
    for reach in [5, 3, 6] {
        list(reach, &[], |report| {
            repair.listed(psn(4), report, &flight(4, 20, 0));
        });
    }
    assert_eq!(repair.heard(), Some(psn(10)));
    list(3, &[], |report| {
        repair.listed(psn(4), report, &flight(4, 20, 0));
    });
    assert_eq!(repair.heard(), Some(psn(10)));
}

#[test]
fn going_back_forgets_what_was_to_fill_gaps_and_who_had_what() {
    let mut repair = filling();
    lacks(&mut repair, 4, 1000);
    list(12, &HOLES, |report| {
        repair.listed(psn(4), report, &flight(4, 20, 1000));
    });
    repair.went_back();
    assert!(!repair.is_pending() && !repair.has_more());
    assert_eq!((repair.heard(), drain(&mut repair, 1000)), (None, vec![]));
    assert!(repair.fills(), "what the peer is like is not forgotten");
    assert_eq!(
        lacks(&mut repair, 4, 1001),
        OnGap::Ignore,
        "nor what was sent"
    );
}
