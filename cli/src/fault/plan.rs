//! `ferriband fault plan`: a file of faults, each at its time.
//!
//! Owns: how a plan reads, and which timeline comes of it and its seed. Carrying it out is
//! [`super::timeline`]'s.

use std::cell::Cell;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use super::timeline::{Ended, MOST_STEPS, Step, Timeline, run};
use super::{interface, parse, words};
use crate::args::{FaultCommand, LinkCommand, PlanArgs, parse_span};
use crate::domain::Devices;
use crate::failure::Failure;
use crate::members;
use crate::progress::Progress;
use crate::text;
use clap::Parser;
use ferriband_seed::Rng;

/// Bytes of a plan at the most.
const MOST_BYTES: u64 = 1 << 20;

/// A command of a plan, as clap reads it.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Line {
    #[command(subcommand)]
    command: FaultCommand,
}

/// When commands are carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum When {
    At(Duration),
    Every(Duration),
}

/// A line of a plan that does something: one of its commands.
#[derive(Clone)]
struct Entry {
    line: usize,
    when: When,
    commands: Vec<(FaultCommand, String)>,
}

/// What a plan says.
#[derive(Clone)]
struct Plan {
    seed: u64,
    lasts: Option<Duration>,
    entries: Vec<Entry>,
}

/// The command.
pub(super) fn command(args: &PlanArgs) -> Result<ExitCode, Failure> {
    let name = args.file.display().to_string();
    let text = read(&args.file)?;
    let wrong = |(line, said): (usize, String)| {
        Failure::new(format!("{name}:{line}: {said}"))
            .remedy("ferriband fault plan --help says how a plan reads")
            .status(2)
    };
    let mut plan = Plan::parse(&text, &check).map_err(wrong)?;
    plan.seed = args.seed.unwrap_or(plan.seed);
    let timeline = plan.timeline().map_err(wrong)?;
    if args.dry_run {
        return show(&plan, &timeline, args.json.json);
    }
    carry_out(&plan, &timeline, args.json.json)
}

fn read(file: &Path) -> Result<String, Failure> {
    let name = file.display().to_string();
    let mut text = String::new();
    let length = match file.as_os_str().as_encoded_bytes() {
        b"-" => std::io::stdin()
            .take(MOST_BYTES + 1)
            .read_to_string(&mut text),
        _ => std::fs::File::open(file)
            .and_then(|file| file.take(MOST_BYTES + 1).read_to_string(&mut text)),
    };
    match length {
        Ok(length) if length as u64 > MOST_BYTES => {
            Err(Failure::new(format!("{name} is longer than a plan")).status(2))
        }
        Ok(_) => Ok(text),
        Err(error) => Err(Failure::io("read", &name, &error)),
    }
}

/// What can be found out of a command before its time: its rule and its device.
fn check(command: &FaultCommand) -> Result<(), Failure> {
    match command {
        FaultCommand::Add(args) => parse(&words(args), &Devices::now()).map(|_| ()),
        FaultCommand::Link(LinkCommand::Down { device } | LinkCommand::Up { device })
        | FaultCommand::PortError { device }
        | FaultCommand::Fatal { device, .. } => interface(device).map(|_| ()),
        FaultCommand::Link(LinkCommand::Flap(args)) => interface(&args.device).map(|_| ()),
        FaultCommand::QpError(args) => args
            .device
            .as_deref()
            .map_or(Ok(()), |device| interface(device).map(|_| ())),
        FaultCommand::Clear { .. } => Ok(()),
        FaultCommand::List(_) | FaultCommand::Plan(_) => {
            Err(Failure::new("a plan has no such command"))
        }
    }
}

type Check<'a> = &'a dyn Fn(&FaultCommand) -> Result<(), Failure>;

impl Plan {
    /// # Errors
    /// The number of the line that is wrong, and what is wrong with it.
    fn parse(text: &str, check: Check<'_>) -> Result<Plan, (usize, String)> {
        let mut plan = Plan {
            seed: 1,
            lasts: None,
            entries: Vec::new(),
        };
        let mut seed_at = None;
        let mut lasts_at = None;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or("").trim();
            let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let rest = rest.trim();
            let failed = |said: String| (number, said);
            match word {
                "" => {}
                "seed" => {
                    once(&mut seed_at, number, word)?;
                    let seed = rest.parse();
                    plan.seed = seed.map_err(|_| failed(format!("'{rest}' is no seed")))?;
                }
                "for" => {
                    once(&mut lasts_at, number, word)?;
                    plan.lasts = Some(time(rest, false).map_err(failed)?);
                }
                "at" | "every" => {
                    let entry = Entry::parse(word == "at", rest, check);
                    let (when, commands) = entry.map_err(failed)?;
                    plan.entries.push(Entry {
                        line: number,
                        when,
                        commands,
                    });
                }
                other => {
                    return Err(failed(format!(
                        "'{other}' begins no line of a plan: at, every, for or seed"
                    )));
                }
            }
        }
        if plan.entries.is_empty() {
            return Err((1, "the plan says nothing that is to be done".into()));
        }
        Ok(plan)
    }

    /// What is done when, by the seed.
    ///
    /// # Errors
    /// A line that never comes, or comes too often.
    fn timeline(&self) -> Result<Timeline, (usize, String)> {
        let mut timeline = Timeline::default();
        let mut rng = Rng::new(self.seed);
        for entry in &self.entries {
            match (entry.when, self.lasts) {
                (When::At(at), Some(lasts)) if at > lasts => {
                    return Err((entry.line, "this comes behind the plan's end".into()));
                }
                (When::At(at), _) => self.add(&mut timeline, entry, at, &mut rng)?,
                (When::Every(_), None) => {
                    let said = "without a line 'for TIME' this has no end";
                    return Err((entry.line, said.into()));
                }
                (When::Every(period), Some(lasts)) => {
                    let mut at = period;
                    while at <= lasts {
                        self.add(&mut timeline, entry, at, &mut rng)?;
                        at += period;
                    }
                }
            }
        }
        // lines of one time stay in their order
        timeline.steps.sort_by_key(|step| step.at);
        if let Some(lasts) = self.lasts {
            timeline.steps.retain(|step| step.at <= lasts);
            timeline.lasts = lasts;
        }
        Ok(timeline)
    }

    fn add(
        &self,
        timeline: &mut Timeline,
        entry: &Entry,
        at: Duration,
        rng: &mut Rng,
    ) -> Result<(), (usize, String)> {
        let (command, words) = &entry.commands[rng.index(entry.commands.len())];
        let steps = match command {
            FaultCommand::Link(LinkCommand::Flap(args)) => 2 * args.times as usize,
            _ => 1,
        };
        if timeline.steps.len() + steps > MOST_STEPS {
            return Err((entry.line, format!("more than {MOST_STEPS} steps")));
        }
        match command {
            FaultCommand::Link(LinkCommand::Flap(args)) => {
                timeline.flap(&args.device, at, (args.down, args.up), args.times);
            }
            command => timeline.steps.push(Step {
                at,
                behind: Duration::ZERO,
                command: command.clone(),
                words: words.clone(),
            }),
        }
        Ok(())
    }
}

impl Entry {
    /// What stands behind `at` or `every`.
    fn parse(
        once: bool,
        rest: &str,
        check: Check<'_>,
    ) -> Result<(When, Vec<(FaultCommand, String)>), String> {
        let (span, commands) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let commands = commands.trim();
        let span = time(span, once)?;
        let (when, several) = match once {
            true => (When::At(span), None),
            false => (When::Every(span), commands.strip_prefix("one of ")),
        };
        let all = match several {
            Some(several) => several.split(" | ").map(str::trim).collect(),
            None => vec![commands],
        };
        let read = |words: &str| {
            let command = one(words)?;
            check(&command).map_err(|failure| format!("'{words}': {failure}"))?;
            Ok::<_, String>((command, words.to_owned()))
        };
        let commands = all.into_iter().map(read).collect::<Result<_, _>>()?;
        Ok((when, commands))
    }
}

/// What may be said once.
fn once(at: &mut Option<usize>, number: usize, word: &str) -> Result<(), (usize, String)> {
    match at.replace(number) {
        None => Ok(()),
        Some(first) => Err((number, format!("'{word}' stands in line {first} already"))),
    }
}

/// A time of a plan. `zero` says that it may be none.
fn time(text: &str, zero: bool) -> Result<Duration, String> {
    if zero && matches!(text, "0" | "0s" | "0ms") {
        return Ok(Duration::ZERO);
    }
    parse_span(text).map_err(|said| format!("'{text}' is no time: {said}"))
}

/// A command, without what clap says of how to use it.
fn one(words: &str) -> Result<FaultCommand, String> {
    if words.is_empty() {
        return Err("a command is missing".into());
    }
    let line = Line::try_parse_from(words.split_whitespace());
    line.map(|line| line.command).map_err(|error| {
        let said = error.to_string();
        let first = said.lines().next().unwrap_or("");
        format!("'{words}': {}", first.trim_start_matches("error: "))
    })
}

fn show(plan: &Plan, timeline: &Timeline, json: bool) -> Result<ExitCode, Failure> {
    if json {
        let steps = timeline.steps.iter();
        let steps: Vec<_> = steps
            .map(|step| serde_json::json!({ "at_s": step.at.as_secs_f64(), "command": step.words }))
            .collect();
        text::print_json(&serde_json::json!({ "seed": plan.seed, "steps": steps }))?;
        return Ok(ExitCode::SUCCESS);
    }
    for step in &timeline.steps {
        text::print_line(&format!("{:9.3} s  {}", step.at.as_secs_f64(), step.words))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn carry_out(plan: &Plan, timeline: &Timeline, json: bool) -> Result<ExitCode, Failure> {
    let host = members::join()?;
    let last = timeline.steps.last().map_or(Duration::ZERO, |step| step.at);
    let whole = timeline.lasts.max(last);
    let progress = Progress::new(whole.as_millis() as u64);
    let failures = Cell::new(0);
    let mut events = Vec::new();
    let ended = run(
        &host,
        timeline,
        |at, place, done| {
            let words = &timeline.steps[place].words;
            let (said, error) = match &done {
                Ok(done) => (Some(done.said.clone()), None),
                Err(failure) => (None, Some(failure.to_string())),
            };
            failures.set(failures.get() + usize::from(error.is_some()));
            if json {
                events.push(serde_json::json!({
                    "at_s": at.as_secs_f64(), "command": words, "said": said, "error": error,
                }));
                return Ok(());
            }
            let outcome = said.or(error).unwrap_or_default();
            let line = format!("{:9.3} s  {words}: {outcome}", at.as_secs_f64());
            progress.beside(|| text::print_line(&line))
        },
        |passed| progress.at(passed.min(whole).as_millis() as u64),
    );
    progress.finish();
    let ended = ended?;
    if json {
        text::print_json(&serde_json::json!({
            "seed": plan.seed,
            "events": events,
            "failures": failures.get(),
            "interrupted": ended == Ended::Interrupted,
            "programs_ended": ended == Ended::Alone,
        }))?;
    } else {
        let why = match ended {
            Ended::Whole => "the plan is over",
            Ended::Interrupted => "interrupted",
            Ended::Alone => "the programs have ended",
        };
        text::print_line(&format!("{why}: what it had set is cleared"))?;
    }
    Ok(match ended {
        Ended::Interrupted => ExitCode::from(128 + libc::SIGINT as u8),
        _ => ExitCode::from(u8::from(failures.get() > 0)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Plan, (usize, String)> {
        Plan::parse(text, &|_| Ok(()))
    }

    fn shown(plan: &Plan) -> Vec<(u128, String)> {
        let timeline = plan
            .timeline()
            .map_err(|(line, said)| format!("{line}: {said}"));
        let steps = timeline.expect("a timeline").steps;
        let step = |step: Step| (step.at.as_millis(), step.words);
        steps.into_iter().map(step).collect()
    }

    const STORM: &str = "seed 7\n# a comment\nat 500ms add drop --probability 0.3\n\
        every 1s one of qp-error --all | link flap ferri0 --down 1ms --up 9ms --times 2 | port-error ferri0\n\
        at 0 link down ferri0 # and another\nfor 20s\n";

    #[test]
    fn one_seed_gives_one_order_of_events_and_another_another() {
        let mut plan = parsed(STORM).expect("a plan");
        assert_eq!((plan.seed, plan.lasts), (7, Some(Duration::from_secs(20))));
        let first = shown(&plan);
        assert_eq!(first[0], (0, "link down ferri0".into()));
        assert_eq!(first[1], (500, "add drop --probability 0.3".into()));
        assert!(first.is_sorted_by_key(|(at, _)| *at));
        for words in ["qp-error --all", "link up ferri0", "port-error ferri0"] {
            assert!(first.iter().any(|(_, said)| said == words), "{words}");
        }
        assert_eq!(first, shown(&parsed(STORM).expect("a plan")));
        plan.seed = 8;
        assert_ne!(first, shown(&plan));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let cases = [
            ("", 1, "nothing that is to be done"),
            ("seed seven\n", 1, "'seven' is no seed"),
            ("seed 1\nseed 2\nat 1s clear all", 2, "in line 1 already"),
            (
                "at 1s clear all\n\nin 2s clear all",
                3,
                "'in' begins no line",
            ),
            ("at 1 clear all", 1, "'1' is no time: a time has a unit"),
            ("at 1s", 1, "a command is missing"),
            ("at 1s lnk down x", 1, "unrecognized subcommand 'lnk'"),
            ("every 1s clear all", 1, "no end"),
            ("at 2s clear all\nfor 1s", 1, "behind the plan's end"),
            ("every 1ms clear all\nfor 1h", 1, "more than"),
            ("every 0s clear all\nfor 1h", 1, "is no time"),
        ];
        for (text, line, words) in cases {
            let plan = parsed(text);
            let Err((at, said)) = plan.and_then(|plan| plan.timeline().map(|_| ())) else {
                panic!("{text}");
            };
            assert_eq!(at, line, "{text}");
            assert!(said.contains(words), "{text}: {said}");
        }
    }

    #[test]
    fn rules_and_devices_are_looked_at_before_anything_is_done() {
        for (words, said) in [
            (
                "at 1s add drop --probability 2",
                "'2' is no value of probability",
            ),
            (
                "at 1s link down ferri_none",
                "there is no device ferri_none",
            ),
            ("at 1s list", "a plan has no such command"),
        ] {
            let Err((1, why)) = Plan::parse(words, &check) else {
                panic!("{words}");
            };
            assert!(why.contains(said), "{why}");
        }
    }
}
