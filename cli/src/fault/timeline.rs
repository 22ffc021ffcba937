//! Faults that come one after the other: each at its time, and what they have set is cleared at the
//! end.
//!
//! Owns: the waiting, and what was set. Must not know where a timeline comes from, nor how what is
//! done is shown.

use std::time::{Duration, Instant};

use super::{Done, act, bring_back, link};
use crate::args::{FaultCommand, LinkCommand};
use crate::domain;
use crate::failure::Failure;
use crate::stop::Stop;
use ferriband_memory::host::Host;

/// Steps of a timeline at the most.
pub(super) const MOST_STEPS: usize = 200_000;
/// How long it is slept at once: so soon an interruption is seen.
const NAP: Duration = Duration::from_millis(50);

/// One command.
#[derive(Clone)]
pub(super) struct Step {
    /// So long after the beginning.
    pub(super) at: Duration,
    /// And so long after the step before, whatever that took.
    pub(super) behind: Duration,
    pub(super) command: FaultCommand,
    /// The command as it is shown.
    pub(super) words: String,
}

/// Commands in the order of their times.
#[derive(Clone, Default)]
pub(super) struct Timeline {
    pub(super) steps: Vec<Step>,
    /// It lasts so long, if the last step does not come later.
    pub(super) lasts: Duration,
}

impl Timeline {
    /// The link goes down and comes back `times` times, first at `at`.
    pub(super) fn flap(
        &mut self,
        device: &str,
        at: Duration,
        (down, up): (Duration, Duration),
        times: u32,
    ) {
        for turn in 0..times {
            let begins = at + (down + up) * turn;
            let own = || device.to_owned();
            let behind = if turn == 0 { Duration::ZERO } else { up };
            self.steps.push(Step {
                at: begins,
                behind,
                command: FaultCommand::Link(LinkCommand::Down { device: own() }),
                words: format!("link down {device}"),
            });
            self.steps.push(Step {
                at: begins + down,
                behind: down,
                command: FaultCommand::Link(LinkCommand::Up { device: own() }),
                words: format!("link up {device}"),
            });
        }
    }
}

/// How a timeline ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ended {
    /// By its end.
    Whole,
    /// By a signal.
    Interrupted,
    /// No program is left whom it could meet.
    Alone,
}

/// What a timeline has set and not taken back.
#[derive(Debug, Default)]
struct Set {
    rules: Vec<usize>,
    links: Vec<String>,
    failed: Vec<String>,
}

impl Set {
    fn note(&mut self, command: &FaultCommand, done: &Done) {
        self.rules.extend(done.rule);
        match command {
            FaultCommand::Link(LinkCommand::Down { device }) => self.links.push(device.clone()),
            FaultCommand::Link(LinkCommand::Up { device }) => {
                self.links.retain(|other| other != device);
            }
            FaultCommand::Fatal {
                device,
                lasts,
                gone,
                ..
            } if *gone || lasts.is_some() => self.failed.push(device.clone()),
            FaultCommand::Clear { what } => {
                let all = what.iter().any(|name| name == "all");
                let is_named = |name: &String| all || what.contains(name);
                self.rules.retain(|rule| !is_named(&rule.to_string()));
                self.failed.retain(|device| !is_named(device));
            }
            _ => {}
        }
    }

    /// Where the last program has ended nothing is left to be cleared.
    fn clear(&self, host: &Host) {
        let cleared = self.rules.iter().filter(|rule| host.fault_remove(**rule));
        if cleared.count() > 0 {
            domain::ask_to_look(host, domain::ANSWER_WAIT);
        }
        for device in &self.links {
            let _ = link(host, device, true, domain::ANSWER_WAIT);
        }
        for device in &self.failed {
            let _ = bring_back(host, device, domain::ANSWER_WAIT);
        }
    }
}

/// Carries a timeline out. `each` hears of every step that was done or failed, with when that was;
/// `waits` is called while it is waited, with the time that has passed.
///
/// # Errors
/// Nothing runs whom the first step could meet; what `each` says.
pub(super) fn run(
    host: &Host,
    timeline: &Timeline,
    mut each: impl FnMut(Duration, usize, Result<Done, Failure>) -> Result<(), Failure>,
    waits: impl Fn(Duration),
) -> Result<Ended, Failure> {
    let stop = Stop::install();
    super::demand_adapters(host, "start the program first")?;
    let begun = Instant::now();
    let mut set = Set::default();
    let mut last = begun;
    let mut ended = Ended::Whole;
    let mut outcome = Ok(());
    for (place, step) in timeline.steps.iter().enumerate() {
        let due = (begun + step.at).max(last + step.behind);
        match wait_until(host, due, &stop, || waits(begun.elapsed())) {
            Ended::Whole => {}
            other => {
                ended = other;
                break;
            }
        }
        let next = timeline.steps.get(place + 1);
        last = Instant::now();
        let patience = next.map_or(domain::ANSWER_WAIT, |next| {
            let due = (begun + next.at).max(last + next.behind);
            due.saturating_duration_since(last)
        });
        let done = act(host, &step.command, patience);
        match &done {
            Ok(done) => set.note(&step.command, done),
            Err(_) if is_alone(host) => {
                ended = Ended::Alone;
                break;
            }
            Err(_) => {}
        }
        outcome = each(last - begun, place, done);
        if outcome.is_err() {
            break;
        }
    }
    if ended == Ended::Whole && outcome.is_ok() {
        ended = wait_until(host, begun + timeline.lasts, &stop, || {
            waits(begun.elapsed())
        });
    }
    set.clear(host);
    outcome.map(|()| ended)
}

/// No program is left whom anything could meet.
pub(super) fn is_alone(host: &Host) -> bool {
    // those that died unnoticed do not count
    let _ = host.reap();
    domain::adapters(host).is_empty()
}

/// Sleeps until then.
fn wait_until(host: &Host, due: Instant, stop: &Stop, waits: impl Fn()) -> Ended {
    loop {
        if stop.asked() {
            return Ended::Interrupted;
        }
        let left = due.saturating_duration_since(Instant::now());
        if left >= NAP {
            if is_alone(host) {
                return Ended::Alone;
            }
            waits();
        }
        if left.is_zero() {
            return Ended::Whole;
        }
        std::thread::sleep(left.min(NAP));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flap_goes_down_and_up_and_keeps_both_times() {
        let ms = Duration::from_millis;
        let mut timeline = Timeline::default();
        timeline.flap("ferri0", ms(5), (ms(1), ms(10)), 2);
        let seen: Vec<(u128, u128, &str)> = timeline
            .steps
            .iter()
            .map(|step| {
                (
                    step.at.as_millis(),
                    step.behind.as_millis(),
                    step.words.as_str(),
                )
            })
            .collect();
        let wanted = [
            (5, 0, "link down ferri0"),
            (6, 1, "link up ferri0"),
            (16, 10, "link down ferri0"),
            (17, 1, "link up ferri0"),
        ];
        assert_eq!(seen, wanted);
    }

    #[test]
    fn what_was_set_is_what_is_cleared() {
        let mut set = Set::default();
        let device = || "ferri0".to_owned();
        let down = FaultCommand::Link(LinkCommand::Down { device: device() });
        let up = FaultCommand::Link(LinkCommand::Up { device: device() });
        let fatal = |lasts, gone| FaultCommand::Fatal {
            device: device(),
            lasts,
            gone,
            hard: false,
        };
        let rule = |id| Done {
            rule: Some(id),
            ..Done::default()
        };
        set.note(&down, &Done::default());
        set.note(&fatal(None, false), &Done::default());
        assert_eq!((set.links.len(), set.failed.len()), (1, 0));
        set.note(&up, &Done::default());
        set.note(&fatal(None, true), &rule(3));
        set.note(&up, &rule(4));
        assert_eq!((set.links.len(), set.failed.len()), (0, 1));
        let clear = |what: &str| FaultCommand::Clear {
            what: vec![what.to_owned()],
        };
        set.note(&clear("4"), &Done::default());
        assert_eq!((set.rules.as_slice(), set.failed.len()), (&[3][..], 1));
        set.note(&clear("all"), &Done::default());
        assert!(set.rules.is_empty() && set.failed.is_empty());
    }
}
