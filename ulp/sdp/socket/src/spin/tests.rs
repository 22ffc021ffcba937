//! Learners in virtual time.

use super::*;

/// A thread that waits again and again, and what its looks and sleeps took.
struct Thread {
    now: u64,
    learner: Learner,
    looked: u64,
    sleeps: u32,
    /// Calls that have moved bytes since the last wait.
    moved: u32,
}

impl Thread {
    fn new() -> Self {
        let (now, looked, sleeps) = (1, 0, 0);
        let learner = Learner::new();
        Self {
            now,
            learner,
            looked,
            sleeps,
            moved: 0,
        }
    }

    /// Waits for something that comes so much later to one that looks, or to one that sleeps.
    fn wait(&mut self, looking: u64, sleeping: u64, away: Option<u64>) {
        let began = self.now;
        let time = self.learner.time(began, self.moved);
        if time > 0 {
            let clock = Cell::new(began);
            let step = || {
                clock.set(clock.get() + 50);
                clock.get() >= began + looking
            };
            let gone = Cell::new(away);
            let look = Look::new(began, time, u64::MAX).run(
                || {
                    clock.set(clock.get() + gone.take().unwrap_or(0));
                    clock.get()
                },
                step,
            );
            self.now = look.now;
            self.looked += look.time;
            self.learner.looked(look);
            if look.found {
                return;
            }
        }
        self.sleeps += 1;
        self.now = self.now.max(began) + sleeping;
        self.learner.waited(began, self.now);
    }

    /// What part of its time it has looked, and of its waits has slept, of so many.
    fn goes_on(&mut self, waits: u32, mut wait: impl FnMut(&mut Self)) -> (f64, f64) {
        let began = self.now;
        (self.looked, self.sleeps) = (0, 0);
        for _ in 0..waits {
            wait(self);
        }
        let time = (self.now - began) as f64;
        let sleeps = f64::from(self.sleeps) / f64::from(waits);
        (self.looked as f64 / time, sleeps)
    }
}

const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000_000;
/// What part of its time a thread looks at most whose looks do not pay.
const MOST: f64 = 0.035;

#[test]
fn whoever_is_answered_soon_stops_sleeping() {
    for answer in [MICRO, 4 * MICRO, 15 * MICRO] {
        let mut thread = Thread::new();
        thread.goes_on(10, |thread| thread.wait(answer, answer + 4 * MICRO, None));
        let (_, sleeps) = thread.goes_on(10_000, |thread| {
            thread.wait(answer, answer + 4 * MICRO, None);
        });
        assert_eq!(sleeps, 0.0, "{answer} ns");
    }
}

#[test]
fn two_that_sleep_find_out_that_both_may_look() {
    // an idle core takes 25 us to wake up, whoever looks meanwhile
    let wake = 25 * MICRO;
    let mut sides = [Thread::new(), Thread::new()];
    let mut last_slept = [true; 2];
    let mut sleeps = 0;
    for round in 0..2_000 {
        for at in [0, 1] {
            let peers = if last_slept[1 - at] { wake } else { 0 };
            let answer = peers + 2 * MICRO;
            let before = sides[at].sleeps;
            sides[at].wait(answer, answer + wake, None);
            last_slept[at] = sides[at].sleeps > before;
            sleeps += u32::from(last_slept[at] && round > 20);
        }
    }
    assert_eq!(sleeps, 0);
}

#[test]
fn whoever_seldom_waits_in_a_stream_goes_on_looking() {
    let mut thread = Thread::new();
    thread.goes_on(10, |thread| thread.wait(MICRO, 5 * MICRO, None));
    thread.moved = 2_000;
    let (_, sleeps) = thread.goes_on(1_000, |thread| {
        thread.now += 3 * MILLI;
        thread.wait(MICRO, 5 * MICRO, None);
    });
    assert_eq!(sleeps, 0.0);
    // so long for a few calls: it has no core of its own
    thread.moved = 2;
    let (looked, _) = thread.goes_on(1_000, |thread| {
        thread.now += 3 * MILLI;
        thread.wait(MICRO, 5 * MICRO, None);
    });
    assert!(looked < 0.001, "{looked}");
}

#[test]
fn the_idle_do_not_look() {
    for gap in [200 * MICRO, MILLI, 1000 * MILLI] {
        let mut thread = Thread::new();
        thread.goes_on(100, |thread| thread.wait(MICRO, 5 * MICRO, None));
        thread.goes_on(10, |thread| thread.wait(gap, gap, None));
        let (looked, _) = thread.goes_on(1000, |thread| thread.wait(gap, gap, None));
        assert_eq!(looked, 0.0, "{gap} ns");
    }
}

#[test]
fn whose_peer_needs_this_core_rests_from_looking() {
    // the peer runs when this one sleeps, and answers at once
    let mut thread = Thread::new();
    thread.goes_on(1000, |thread| thread.wait(u64::MAX / 2, 3 * MICRO, None));
    let (looked, _) = thread.goes_on(1_000_000, |thread| {
        thread.wait(u64::MAX / 2, 3 * MICRO, None);
    });
    assert!(looked < MOST, "{looked}");
}

#[test]
fn looks_that_find_too_late_do_not_pay() {
    // half of the answers take a while, the others are not found
    let mut thread = Thread::new();
    let mut turn = 0;
    let mut wait = |thread: &mut Thread| {
        turn += 1;
        let looking = if turn % 2 == 0 {
            25 * MICRO
        } else {
            u64::MAX / 2
        };
        thread.wait(looking, 3 * MICRO, None);
    };
    thread.goes_on(10_000, &mut wait);
    let (looked, _) = thread.goes_on(1_000_000, &mut wait);
    assert!(looked < MOST, "{looked}");
}

#[test]
fn whoever_loses_its_core_rests_and_looks_again_when_it_has_one() {
    let mut thread = Thread::new();
    let mut turn = 0_u32;
    // each looker is away for some milliseconds after it has run for some
    let mut busy = |thread: &mut Thread| {
        turn += 1;
        let away = turn.is_multiple_of(300).then_some(6 * MILLI);
        thread.wait(8 * MICRO, 12 * MICRO, away);
    };
    thread.goes_on(100_000, &mut busy);
    let (looked, sleeps) = thread.goes_on(500_000, &mut busy);
    assert!(sleeps > 0.95, "{sleeps}");
    // most of it is the time that it was away in the middle of looks
    assert!(looked < 0.15, "{looked}");
    let own = |thread: &mut Thread| thread.wait(8 * MICRO, 12 * MICRO, None);
    let begun = thread.now;
    while thread.now < begun + LONGEST_REST {
        own(&mut thread);
    }
    thread.goes_on(10, own);
    let (_, sleeps) = thread.goes_on(10_000, own);
    assert_eq!(sleeps, 0.0);
}

#[test]
fn whoever_loses_its_core_at_work_does_not_even_begin_to_look() {
    let mut thread = Thread::new();
    let mut turn = 0_u32;
    let mut busy = |thread: &mut Thread| {
        turn += 1;
        thread.wait(8 * MICRO, 12 * MICRO, None);
        thread.now += match turn % 200 {
            0 => 6 * MILLI,
            _ => 5 * MICRO,
        };
    };
    thread.goes_on(500, &mut busy);
    let (looked, sleeps) = thread.goes_on(100_000, &mut busy);
    assert_eq!((looked, sleeps), (0.0, 1.0));
}

#[test]
fn a_rare_interruption_costs_a_short_rest() {
    let mut thread = Thread::new();
    let mut turn = 0_u32;
    // once in a second
    let mut wait = |thread: &mut Thread| {
        turn += 1;
        let away = turn.is_multiple_of(200_000).then_some(MILLI);
        thread.wait(5 * MICRO, 9 * MICRO, away);
    };
    thread.goes_on(1_000_000, &mut wait);
    let (_, sleeps) = thread.goes_on(2_000_000, &mut wait);
    assert!(sleeps < 0.02, "{sleeps}");
}

#[test]
fn a_look_ends_with_the_time_that_the_call_has() {
    let clock = Cell::new(0);
    let look = Look::new(0, 100 * MICRO, 7 * MICRO);
    let looked = look.run(
        || {
            clock.set(clock.get() + 100);
            clock.get()
        },
        || false,
    );
    assert_eq!((looked.time, looked.found), (7 * MICRO, false));
    assert!(!looked.was_away);
}

#[test]
fn what_is_set_is_obeyed() {
    let _alone = crate::testing::alone();
    let looks = |times: u32| {
        let mut looks = 0_u32;
        for _ in 0..times {
            let end = Some(wake::now() + Duration::from_millis(1));
            let vain = look(For::Room, end, || {
                looks += 1;
                false
            });
            vain.expect("nothing is found").slept();
        }
        looks
    };
    set(Spin::Never);
    assert_eq!(looks(100), 0);
    set(Spin::Always);
    assert!(looks(1) > 0);
    assert_eq!(look(For::Room, None, || true).map(|_| ()), None);
    set(Spin::Auto);
}

#[test]
fn who_waited_in_the_kernel_was_not_away_at_work() {
    let mut learner = Learner::new();
    learner.waited(0, 50_000);
    let later = 50_000 + 3 * AWAY_AT_WORK;
    assert_eq!(Learner { woke: 0, ..learner }.time(later, 0), FIRST);
    assert_eq!(learner.time(later, 0), 0);
}
