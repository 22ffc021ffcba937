//! The states of an adapter row by row, and what holds whatever happens.

use super::*;
use AdapterNews::{Address, Closed, Deleted, Fatal, Opened, PortDown, PortUp, Probed, Unanswered};
use proptest::prelude::*;

const ID: AdapterId = AdapterId(0);
const OTHER: AdapterId = AdapterId(1);

fn steps(all: &mut Adapters) -> Vec<AdapterStep> {
    std::iter::from_fn(|| all.poll()).collect()
}

/// All probes that are told are answered at once, until none is.
fn answered(all: &mut Adapters, mut now: Ns) -> (Vec<AdapterStep>, u32) {
    let (mut others, mut probes) = (Vec::new(), 0);
    for _ in 0..50 {
        for step in steps(all) {
            if let AdapterStep::Probe { id, counter } = step {
                probes += 1;
                assert_eq!(adapter_of(counter), Some(id));
                all.handle(id, Probed(counter), now);
                // The answer comes twice.
                all.handle(id, Probed(counter), now);
            } else {
                others.push(step);
            }
        }
        now = now.after(APART_NS);
        all.handle_timeout(now);
    }
    (others, probes)
}

#[test]
fn each_state_goes_where_the_table_says() {
    // The state, told by how it is reached; the news; the state behind it.
    let failed = &[Fatal][..];
    let reopening = &[Fatal, Closed][..];
    let probing = &[Fatal, Closed, Opened(Ok(()))][..];
    let suspect = &[Unanswered(1), Unanswered(2)][..];
    let dark = &[PortDown(1)][..];
    let gone = &[Deleted][..];
    let rows: &[(&[AdapterNews], AdapterNews, Health)] = &[
        (&[], Fatal, Health::Failed),
        (&[], PortDown(1), Health::Suspect),
        (&[], PortDown(2), Health::Up),
        (&[], PortUp(1), Health::Up),
        (&[], Deleted, Health::Gone),
        (&[], Closed, Health::Up),
        (&[], Opened(Ok(())), Health::Up),
        (&[], Unanswered(1), Health::Up),
        (&[Unanswered(1)], Unanswered(1), Health::Up),
        (&[Unanswered(1)], Unanswered(2), Health::Suspect),
        (suspect, PortUp(1), Health::Suspect),
        (suspect, Fatal, Health::Failed),
        (suspect, Address, Health::Suspect),
        (dark, PortUp(1), Health::Suspect),
        (dark, PortUp(2), Health::Suspect),
        (dark, Fatal, Health::Failed),
        (dark, Deleted, Health::Gone),
        (failed, Fatal, Health::Failed),
        (failed, PortUp(1), Health::Failed),
        (failed, Closed, Health::Reopening),
        (failed, Opened(Ok(())), Health::Failed),
        (failed, Deleted, Health::Gone),
        (reopening, Fatal, Health::Reopening),
        (reopening, Opened(Err(5)), Health::Reopening),
        (reopening, Opened(Ok(())), Health::Reopening),
        (reopening, Deleted, Health::Gone),
        (probing, Fatal, Health::Failed),
        (probing, PortDown(1), Health::Reopening),
        (probing, Closed, Health::Reopening),
        (probing, Deleted, Health::Gone),
        (gone, Fatal, Health::Gone),
        (gone, Closed, Health::Gone),
        (gone, PortUp(1), Health::Gone),
        (gone, Opened(Ok(())), Health::Gone),
    ];
    for (before, news, expected) in rows {
        let mut all = Adapters::new(&[1]);
        for (at, one) in (0..).zip(before.iter().chain([news])) {
            all.handle(ID, *one, Ns(at));
            all.handle_timeout(Ns(at));
            steps(&mut all);
        }
        assert_eq!(all.health(ID), *expected, "{before:?} {news:?}");
    }
}

#[test]
fn an_adapter_in_error_is_closed_opened_and_probed_before_it_is_back() {
    let mut all = Adapters::new(&[1, 1]);
    all.handle(ID, Fatal, Ns(0));
    assert_eq!(
        steps(&mut all),
        [AdapterStep::Failed(ID), AdapterStep::Close(ID)]
    );
    assert!(!all.may_use(ID) && all.may_use(OTHER));
    all.handle(ID, Closed, Ns(5));
    all.handle_timeout(Ns(5));
    assert_eq!(steps(&mut all), [AdapterStep::Reopen(ID)]);
    all.handle(ID, Opened(Ok(())), Ns(6));
    assert_eq!(answered(&mut all, Ns(6)), (vec![AdapterStep::Back(ID)], 3));
    assert_eq!(all.health(ID), Health::Up);
    assert_eq!(all.poll_timeout(), None);
}

#[test]
fn opening_is_tried_again_after_a_part_of_the_time_that_it_was_away() {
    let mut all = Adapters::new(&[1]);
    let mut now = Ns(0);
    all.handle(ID, Fatal, now);
    steps(&mut all);
    all.handle(ID, Closed, now);
    let mut tries = Vec::new();
    while now < Ns(200_000 * MILLISECOND) {
        let at = all.poll_timeout().expect("it is opened again");
        tries.push((now, at.since(now)));
        now = at;
        all.handle_timeout(now);
        assert_eq!(steps(&mut all), [AdapterStep::Reopen(ID)]);
        all.handle(ID, Opened(Err(19)), now);
    }
    assert_eq!(tries[0].1, 0);
    for (away, pause) in &tries[1..] {
        let part = (away.0 / 64).clamp(MILLISECOND, 1000 * MILLISECOND);
        assert_eq!(*pause, part, "after {away:?}");
    }
    assert!(tries.len() < 800, "{} tries", tries.len());
    assert_eq!(tries.last().map(|(_, pause)| *pause), Some(LONGEST_NS));
    // One that is opened and fails at once has been away all the time.
    all.handle_timeout(all.poll_timeout().expect("a time"));
    steps(&mut all);
    all.handle(ID, Opened(Ok(())), now);
    all.handle(ID, Fatal, now);
    steps(&mut all);
    all.handle(ID, Closed, now);
    assert_eq!(all.poll_timeout(), Some(now.after(LONGEST_NS)));
}

#[test]
fn where_there_is_no_adapter_the_first_answer_brings_one_back() {
    let mut all = Adapters::new(&[1, 1]);
    for id in [ID, OTHER] {
        all.handle(id, Fatal, Ns(0));
        steps(&mut all);
        all.handle(id, Closed, Ns(0));
        all.handle_timeout(Ns(0));
        steps(&mut all);
        assert_eq!(all.unanswered_probe(id), None, "it is closed");
    }
    for id in [ID, OTHER] {
        all.handle(id, Opened(Ok(())), Ns(0));
    }
    let counters: Vec<u32> = steps(&mut all)
        .into_iter()
        .map(|step| match step {
            AdapterStep::Probe { counter, .. } => counter,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(all.unanswered_probe(ID), Some(counters[0]));
    // It goes once more, to a peer whose card has come; that one answers.
    all.handle(ID, Probed(counters[0]), Ns(5));
    assert_eq!(steps(&mut all), [AdapterStep::Back(ID)]);
    assert_eq!((all.health(ID), all.may_use(ID)), (Health::Suspect, true));
    assert_eq!(all.unanswered_probe(ID), None);
    // The other one has to prove that it carries.
    all.handle(OTHER, Probed(counters[1]), Ns(5));
    assert_eq!(steps(&mut all), []);
    assert!(!all.may_use(OTHER));
    let (told, _) = answered(&mut all, Ns(5 + APART_NS));
    assert_eq!(told, [AdapterStep::Back(OTHER)]);
    assert_eq!([all.health(ID), all.health(OTHER)], [Health::Up; 2]);
}

#[test]
fn a_device_that_is_gone_is_looked_for_each_second_and_comes_back() {
    let mut all = Adapters::new(&[1]);
    all.handle(ID, Deleted, Ns(0));
    assert_eq!(
        steps(&mut all),
        [
            AdapterStep::Failed(ID),
            AdapterStep::NoneLeft,
            AdapterStep::Close(ID)
        ]
    );
    all.handle(ID, Closed, Ns(0));
    assert_eq!(all.poll_timeout(), Some(Ns(LONGEST_NS)));
    all.handle_timeout(Ns(LONGEST_NS));
    assert_eq!(steps(&mut all), [AdapterStep::Reopen(ID)]);
    all.handle(ID, Opened(Err(19)), Ns(LONGEST_NS));
    assert_eq!(all.poll_timeout(), Some(Ns(2 * LONGEST_NS)));
    all.handle_timeout(Ns(2 * LONGEST_NS));
    steps(&mut all);
    all.handle(ID, Opened(Ok(())), Ns(2 * LONGEST_NS));
    let (told, _) = answered(&mut all, Ns(2 * LONGEST_NS));
    assert_eq!(told, [AdapterStep::Back(ID)]);
}

#[test]
fn a_lost_probe_begins_the_row_again() {
    let mut all = Adapters::new(&[1, 1]);
    all.handle(ID, PortDown(1), Ns(0));
    all.handle(ID, PortUp(1), Ns(0));
    let mut now = Ns(0);
    let mut row = 0;
    for turn in 0..10 {
        for step in steps(&mut all) {
            if let AdapterStep::Probe { id, counter } = step
                && turn != 2
            {
                row += 1;
                all.handle(id, Probed(counter), now);
            }
            assert!(step != AdapterStep::Back(ID) || row == 5, "{row}");
        }
        let Some(at) = all.poll_timeout() else {
            break;
        };
        now = at;
        all.handle_timeout(now);
    }
    assert_eq!((row, all.health(ID)), (5, Health::Up));
}

#[test]
fn one_port_of_two_is_no_failure_and_the_card_names_the_other() {
    let mut all = Adapters::new(&[2]);
    all.handle(ID, PortDown(1), Ns(0));
    assert_eq!(steps(&mut all), []);
    assert_eq!((all.port(ID), all.may_use(ID)), (Some(2), true));
    assert!(!all.is_up(ID, 1) && all.is_up(ID, 2) && !all.is_up(ID, 3));
    all.handle(ID, PortDown(2), Ns(0));
    assert_eq!(
        steps(&mut all),
        [AdapterStep::Failed(ID), AdapterStep::NoneLeft]
    );
    all.handle(ID, PortUp(2), Ns(1));
    assert_eq!(answered(&mut all, Ns(1)), (vec![AdapterStep::Back(ID)], 3));
}

#[test]
fn one_in_doubt_stays_in_use_and_says_nothing() {
    let mut all = Adapters::new(&[1]);
    all.handle(ID, Unanswered(1), Ns(0));
    all.handle(ID, Unanswered(2), Ns(TOGETHER_NS + 1));
    assert_eq!(all.health(ID), Health::Up, "too far apart");
    all.handle(ID, Unanswered(1), Ns(TOGETHER_NS + 2));
    assert_eq!((all.health(ID), all.may_use(ID)), (Health::Suspect, true));
    assert_eq!(answered(&mut all, Ns(TOGETHER_NS + 2)), (vec![], 3));
    assert_eq!(all.health(ID), Health::Up);
}

#[test]
fn the_last_adapter_is_used_without_proof_where_nobody_answers_for_10_s() {
    let mut all = Adapters::new(&[1, 1]);
    for id in [ID, OTHER] {
        all.handle(id, PortDown(1), Ns(0));
    }
    all.handle(ID, PortUp(1), Ns(0));
    let mut told = Vec::new();
    let mut now = Ns(0);
    while now < Ns(LAST_NS + LONGEST_NS + ANSWER_NS) {
        told.extend(steps(&mut all).into_iter().map(|step| (now, step)));
        now = all.poll_timeout().expect("it is probed for ever");
        all.handle_timeout(now);
    }
    told.extend(steps(&mut all).into_iter().map(|step| (now, step)));
    let back = told
        .iter()
        .filter(|(_, step)| *step == AdapterStep::Back(ID));
    let times: Vec<Ns> = back.map(|(at, _)| *at).collect();
    assert!(times.len() == 1 && times[0] >= Ns(LAST_NS), "{times:?}");
    assert_eq!((all.health(ID), all.may_use(ID)), (Health::Suspect, true));
    for _ in 0..6 {
        for step in steps(&mut all) {
            if let AdapterStep::Probe { id, counter } = step {
                all.handle(id, Probed(counter), now);
            }
            assert!(!matches!(step, AdapterStep::Back(_)), "it was back");
        }
        now = all.poll_timeout().unwrap_or(now);
        all.handle_timeout(now);
    }
    assert_eq!(all.health(ID), Health::Up);
}

fn news() -> impl Strategy<Value = AdapterNews> {
    prop_oneof![
        2 => Just(Fatal),
        3 => (0..4_u8).prop_map(PortDown),
        3 => (0..4_u8).prop_map(PortUp),
        1 => Just(Address),
        1 => Just(Closed),
        1 => prop::bool::ANY.prop_map(|is_good| Opened(if is_good { Ok(()) } else { Err(5) })),
        1 => Just(Deleted),
        2 => (0..3_u32).prop_map(Unanswered),
        1 => any::<u32>().prop_map(Probed),
    ]
}

/// An owner that does what it is told, and what it knows.
struct Owner {
    all: Adapters,
    is_open: [bool; 2],
    is_out: [bool; 2],
    row: [u8; 2],
    last: [u32; 2],
}

impl Owner {
    fn act(&mut self, is_good: bool, now: Ns) {
        while let Some(step) = self.all.poll() {
            match step {
                AdapterStep::Failed(id) => {
                    let out = &mut self.is_out[usize::from(id.0)];
                    assert!(!*out, "it was out");
                    *out = true;
                    self.row[usize::from(id.0)] = 0;
                }
                AdapterStep::NoneLeft => assert_eq!(self.is_out, [true; 2]),
                AdapterStep::Close(id) => {
                    let is_open = &mut self.is_open[usize::from(id.0)];
                    assert!(std::mem::take(is_open), "it is closed twice");
                    self.all.handle(id, Closed, now);
                }
                AdapterStep::Reopen(id) => {
                    assert!(!self.is_open[usize::from(id.0)], "it is open");
                    self.is_open[usize::from(id.0)] = is_good;
                    let outcome = if is_good { Ok(()) } else { Err(5) };
                    self.all.handle(id, Opened(outcome), now);
                }
                AdapterStep::Probe { id, counter } => {
                    let at = usize::from(id.0);
                    assert!(self.is_open[at] && self.last[at] != counter);
                    self.last[at] = counter;
                    self.row[at] = if is_good { self.row[at] + 1 } else { 0 };
                    if is_good {
                        self.all.handle(id, Probed(counter), now);
                    }
                }
                AdapterStep::Back(id) => {
                    let at = usize::from(id.0);
                    assert!(std::mem::take(&mut self.is_out[at]), "it was not out");
                    let has_waited = now.since(Ns(0)) >= LAST_NS;
                    let is_last = self.is_out.iter().filter(|out| **out).count() == 1;
                    let is_proven =
                        self.row[at] >= ROW || is_last && (has_waited || self.row[at] > 0);
                    assert!(is_proven, "back behind {} probes", self.row[at]);
                }
            }
        }
        let all = &self.all;
        let outs = [ID, OTHER].map(|id| !all.may_use(id));
        assert_eq!(outs, self.is_out, "what is told is what is so");
    }
}

proptest! {
    #[test]
    fn whatever_happens_back_comes_behind_probes_and_all_come_back(
        all in prop::collection::vec(
            ((0..2_u8, news()), (any::<bool>(), 0..200 * MILLISECOND)), 0..80),
    ) {
        let mut owner = Owner {
            all: Adapters::new(&[1, 2]),
            is_open: [true; 2],
            is_out: [false; 2],
            row: [0; 2],
            last: [0; 2],
        };
        let mut now = Ns(0);
        for ((id, news), (is_good, pause)) in all {
            // What answers a step is only said by who was told the step.
            if !matches!(news, Closed | Opened(_)) {
                owner.all.handle(AdapterId(id), news, now);
            }
            owner.act(is_good, now);
            now = now.after(pause);
            owner.all.handle_timeout(now);
            owner.act(is_good, now);
        }
        for port in 1..=2 {
            owner.all.handle(ID, PortUp(port), now);
            owner.all.handle(OTHER, PortUp(port), now);
        }
        for _ in 0..40 {
            owner.act(true, now);
            now = owner.all.poll_timeout().unwrap_or(now).max(now);
            owner.all.handle_timeout(now);
        }
        prop_assert_eq!([ID, OTHER].map(|id| owner.all.health(id)), [Health::Up; 2]);
        prop_assert_eq!(owner.all.poll_timeout(), None);
    }
}
