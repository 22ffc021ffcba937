//! `ferriband-dev bench --mpi --fastpath`: what the parts of Ferriband's own MPI cost, each with
//! and without.
//!
//! Owns: the list of comparisons and their verdicts. Times are compared within one run of `fastpath.c`, whose sides take turns every millisecond (two runs differ by 5 to 10 %,
//! more than what is looked for): a run says the median of the ratios of neighbours and its 95 % interval. Memory and share are those of two runs that differ in
//! settings alone. Must not know: how the program is started (`peers`).

use super::peers::{self, Implementation};
use crate::args::BenchArgs;
use crate::failure::Failure;
use crate::floor::median;
use crate::mpi::scratch::Scratch;
use crate::progress::Progress;
use crate::text::{Table, duration, print_json, print_line, size};
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::ExitCode;

const SOURCE: &str = concat!(include_str!("turns.h"), include_str!("fastpath.c"));
/// By the device, not by memory that ranks share.
const BY_VERBS: &[&str] = &["--same-host", "verbs"];
/// Ranks that sleep beside those that talk.
const IDLE_RANKS: u32 = 64;
/// Two pairs that talk in turns.
const TALKERS: u32 = 4;

/// What is compared with what.
struct Pair {
    /// What the lines begin with.
    about: &'static str,
    ranks: u32,
    /// Options of all runs.
    options: &'static [&'static str],
    runs: Runs,
    figures: &'static [Figure],
}

/// How both sides are run.
enum Runs {
    /// In turns, within one run of the program with this argument.
    One(&'static str),
    /// By one run each, with and without, that differ in these options.
    Two(&'static str, [&'static [&'static str]; 2]),
}

/// One figure of the runs: what the program calls it.
#[derive(Clone, Copy)]
struct Figure {
    key: &'static str,
    name: &'static str,
    kind: Kind,
}

/// What a figure is, and what it must be beside the other one.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Seconds: at most so many times.
    Seconds(f64),
    /// Bytes: at most so many times.
    Bytes(f64),
    /// A share: at most so much less.
    Share(f64),
}

const fn seconds(key: &'static str, name: &'static str, most: f64) -> Figure {
    Figure {
        key,
        name,
        kind: Kind::Seconds(most),
    }
}

/// Acknowledgements cost 1.5 % at most.
const ACKS: &[Figure] = &[
    seconds("latency/8", "8 B, one way", 1.015),
    seconds("latency/1024", "1 KiB, one way", 1.015),
    seconds("latency/4096", "4 KiB, one way", 1.015),
    seconds("message/8", "a message of 8 B of a window", 1.015),
    seconds("message/1024", "a message of 1 KiB of a window", 1.015),
    seconds("message/4096", "a message of 4 KiB of a window", 1.015),
];
/// Level with the classic design, which is within 5 %.
const DESIGN: &[Figure] = &[
    seconds("latency/8", "8 B, one way", 1.05),
    seconds("latency/1024", "1 KiB, one way", 1.05),
    seconds("latency/4096", "4 KiB, one way", 1.05),
];
const IDLE: &[Figure] = &[seconds("latency/8", "8 B, one way", 1.1)];

const PAIRS: [Pair; 6] = [
    Pair {
        about: "nothing (acknowledgements between ranks that share memory, which have none)",
        ranks: 2,
        options: &[],
        runs: Runs::One("control"),
        figures: &[seconds("latency/8", "8 B, one way", 1.015)],
    },
    Pair {
        about: "acknowledgements, by verbs",
        ranks: 2,
        options: BY_VERBS,
        runs: Runs::One("acks"),
        figures: ACKS,
    },
    Pair {
        about: "64 idle channels, shared memory",
        ranks: TALKERS + IDLE_RANKS,
        options: &[],
        runs: Runs::One("idle-near"),
        figures: IDLE,
    },
    Pair {
        about: "64 idle channels, by verbs",
        ranks: TALKERS + IDLE_RANKS,
        options: BY_VERBS,
        runs: Runs::One("idle"),
        figures: IDLE,
    },
    Pair {
        about: "Veloblock beside fixed top-fill",
        ranks: 2,
        options: BY_VERBS,
        runs: Runs::One("design"),
        figures: DESIGN,
    },
    Pair {
        about: "Veloblock beside fixed top-fill",
        ranks: 4,
        options: BY_VERBS,
        runs: Runs::Two(
            "share",
            [
                &["--set", "design=variable-bottom"],
                &["--set", "design=fixed-top"],
            ],
        ),
        figures: &[
            Figure {
                key: "channel/4",
                name: "memory of a channel, both sides",
                kind: Kind::Bytes(1.0 / 16.0),
            },
            Figure {
                key: "share/4",
                name: "share of messages in bursts of 16",
                kind: Kind::Share(0.03),
            },
        ],
    },
];

impl Kind {
    fn show(self, figure: Option<f64>) -> String {
        match (self, figure) {
            (_, None) => "-".to_owned(),
            (Self::Seconds(_), Some(figure)) => duration(figure * 1e9),
            (Self::Bytes(_), Some(figure)) => size(figure as usize),
            (Self::Share(_), Some(figure)) => format!("{:.1} %", figure * 100.0),
        }
    }

    /// How two figures compare: a ratio, or a difference of shares.
    fn compare(self, with: f64, without: f64) -> f64 {
        match self {
            Self::Share(_) => with - without,
            _ => with / without,
        }
    }

    fn is_met(self, compared: f64) -> bool {
        match self {
            Self::Seconds(most) | Self::Bytes(most) => compared <= most,
            Self::Share(less) => compared >= -less,
        }
    }

    fn demand(self) -> String {
        match self {
            Self::Seconds(most) => format!("<= {most}"),
            Self::Bytes(most) => format!("<= 1/{}", 1.0 / most),
            Self::Share(less) => format!(">= -{:.0} points", less * 100.0),
        }
    }

    fn show_compared(self, compared: Option<f64>) -> String {
        match (self, compared) {
            (_, None) => String::new(),
            (Self::Seconds(_), Some(ratio)) => format!("{ratio:.3}"),
            (Self::Bytes(_), Some(ratio)) => format!("1/{:.1}", 1.0 / ratio),
            (Self::Share(_), Some(difference)) => format!("{:+.1} points", difference * 100.0),
        }
    }
}

/// One line of the result.
#[derive(Serialize)]
struct Outcome {
    target: String,
    with: Option<f64>,
    without: Option<f64>,
    compared: Option<f64>,
    /// Where the ratio lies that is compared: the interval of one run's median, of several runs the least and the greatest median.
    interval: Option<(f64, f64)>,
    demand: String,
    verdict: &'static str,
    #[serde(skip)]
    kind: Kind,
}

/// What one round found of a figure.
#[derive(Clone, Copy)]
struct Sample {
    with: f64,
    without: f64,
    compared: f64,
    interval: Option<(f64, f64)>,
}

/// Figures of one run by name.
type Figures = BTreeMap<String, f64>;

/// `ferriband-dev bench --mpi --fastpath`.
pub fn command(args: &BenchArgs) -> Result<ExitCode, Failure> {
    let name = |pair: &Pair, figure: &Figure| format!("{}: {}", pair.about, figure.name);
    let wanted = |pair: &Pair, figure: &Figure| {
        args.only
            .as_ref()
            .is_none_or(|text| name(pair, figure).contains(text.as_str()))
    };
    let pairs: Vec<&Pair> = PAIRS
        .iter()
        .filter(|pair| pair.figures.iter().any(|figure| wanted(pair, figure)))
        .collect();
    if pairs.is_empty() {
        return Err(Failure::new("no target has that in its name").status(2));
    }
    let own = peers::own(SOURCE, "fastpath")?;
    let rounds = args.rounds();
    let scratch = Scratch::make()?;
    let runs = |pair: &&Pair| match pair.runs {
        Runs::One(_) => 1,
        Runs::Two(..) => 2,
    };
    let steps: usize = pairs.iter().map(runs).sum();
    let progress = Progress::new((rounds * steps) as u64);
    let mut problems = Vec::new();
    let mut outcomes = Vec::new();
    for pair in pairs {
        let found = measure((&own, &scratch), pair, rounds, &progress, &mut problems)?;
        for figure in pair.figures.iter().filter(|figure| wanted(pair, figure)) {
            let samples: Vec<Sample> = found
                .iter()
                .filter_map(|runs| sample(runs, figure))
                .collect();
            outcomes.push(judge(name(pair, figure), figure, &samples));
        }
    }
    progress.finish();
    let is_met = outcomes.iter().all(|outcome| outcome.verdict == "PASS");
    report(&outcomes, &problems, rounds, args.json.json)?;
    Ok(if is_met {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// All rounds of a pair: the run of both sides, or that with and that without. Rounds that failed are left out.
fn measure(
    (own, scratch): (&Implementation, &Scratch),
    pair: &Pair,
    rounds: usize,
    progress: &Progress,
    problems: &mut Vec<String>,
) -> Result<Vec<Vec<Figures>>, Failure> {
    let mut all = Vec::new();
    for round in 0..rounds {
        let (what, sides): (&str, &[&[&str]]) = match &pair.runs {
            Runs::One(what) => (what, &[&[]]),
            Runs::Two(what, sides) => (what, sides),
        };
        let mut found = vec![None; sides.len()];
        for turn in 0..sides.len() {
            // The other one first each time.
            let side = (round + turn) % sides.len();
            progress.step(&format!("round {}/{rounds}: {}", round + 1, pair.about));
            let options = pair.options.iter().chain(sides[side]);
            let options: Vec<&str> = options.copied().collect();
            let run = own.run_with(&options, what, pair.ranks, scratch);
            scratch.stopped()?;
            match run {
                Ok((figures, _)) => found[side] = Some(figures),
                Err(why) => problems.push(format!("{} ({}): {why}", pair.about, options.join(" "))),
            }
        }
        all.extend(found.into_iter().collect::<Option<Vec<Figures>>>());
    }
    Ok(all)
}

/// What a round says of a figure.
fn sample(runs: &[Figures], figure: &Figure) -> Option<Sample> {
    match runs {
        [both] => {
            let (name, number) = figure.key.split_once('/')?;
            let get = |what: &str| both.get(&format!("{name}-{what}/{number}")).copied();
            Some(Sample {
                with: get("with")?,
                without: get("without")?,
                compared: get("ratio")?,
                interval: Some((get("low")?, get("high")?)),
            })
        }
        [with, without] => {
            let (with, without) = (*with.get(figure.key)?, *without.get(figure.key)?);
            Some(Sample {
                with,
                without,
                compared: figure.kind.compare(with, without),
                interval: None,
            })
        }
        _ => None,
    }
}

fn judge(target: String, figure: &Figure, samples: &[Sample]) -> Outcome {
    let middle = |of: fn(&Sample) -> f64| median(samples.iter().map(of).collect());
    let compared = middle(|sample| sample.compared);
    let all = || samples.iter().map(|sample| sample.compared);
    let interval = match samples {
        [] => None,
        [one] => one.interval,
        _ => Some((
            all().fold(f64::INFINITY, f64::min),
            all().fold(f64::NEG_INFINITY, f64::max),
        )),
    };
    Outcome {
        target,
        with: middle(|sample| sample.with),
        without: middle(|sample| sample.without),
        compared,
        interval: interval.filter(|_| matches!(figure.kind, Kind::Seconds(_))),
        demand: figure.kind.demand(),
        verdict: if compared.is_some_and(|compared| figure.kind.is_met(compared)) {
            "PASS"
        } else {
            "FAIL"
        },
        kind: figure.kind,
    }
}

fn report(
    outcomes: &[Outcome],
    problems: &[String],
    rounds: usize,
    json: bool,
) -> Result<(), Failure> {
    if json {
        return print_json(&serde_json::json!({
            "rounds": rounds,
            "problems": problems,
            "lines": outcomes,
        }));
    }
    let header = [
        "target", "with", "without", "compared", "from", "to", "demand", "verdict",
    ];
    let mut table = Table::new(header).right_align(&[1, 2, 3, 4, 5]);
    for outcome in outcomes {
        let end = |of: fn((f64, f64)) -> f64| {
            outcome
                .interval
                .map_or(String::new(), |interval| format!("{:.3}", of(interval)))
        };
        table.row([
            outcome.target.clone(),
            outcome.kind.show(outcome.with),
            outcome.kind.show(outcome.without),
            outcome.kind.show_compared(outcome.compared),
            end(|(low, _)| low),
            end(|(_, high)| high),
            outcome.demand.clone(),
            outcome.verdict.to_owned(),
        ]);
    }
    table.print()?;
    for problem in problems {
        print_line(&format!("problem: {problem}"))?;
    }
    let met = outcomes.iter().filter(|line| line.verdict == "PASS");
    print_line(&format!(
        "\n{} of {} targets met; medians of {rounds} rounds; times: medians of 400 ratios of segments in turns",
        met.count(),
        outcomes.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_says_both_sides_and_the_interval_of_their_ratio() {
        let figures: Figures = [
            ("latency-with/8", 1.01),
            ("latency-without/8", 1.0),
            ("latency-ratio/8", 1.012),
            ("latency-low/8", 1.0),
            ("latency-high/8", 1.02),
        ]
        .map(|(key, figure)| (key.to_owned(), figure))
        .into();
        let found = sample(&[figures], &ACKS[0]).expect("all is there");
        let outcome = judge(String::new(), &ACKS[0], &[found]);
        assert_eq!((outcome.verdict, outcome.compared), ("PASS", Some(1.012)));
        assert_eq!(outcome.interval, Some((1.0, 1.02)));
        // Of several rounds the median counts, and the interval is theirs.
        let others = [1.05, 1.03].map(|compared| Sample { compared, ..found });
        let samples = [found, others[0], others[1]];
        let outcome = judge(String::new(), &ACKS[0], &samples);
        assert_eq!((outcome.verdict, outcome.compared), ("FAIL", Some(1.03)));
        assert_eq!(outcome.interval, Some((1.012, 1.05)));
        assert_eq!(judge(String::new(), &ACKS[0], &[]).verdict, "FAIL");
    }

    #[test]
    fn two_runs_are_compared_round_by_round() {
        let run = |figure| Figures::from([("share/4".to_owned(), figure)]);
        let figure = &PAIRS[5].figures[1];
        let found = sample(&[run(0.95), run(0.97)], figure).expect("both are there");
        assert!((found.compared + 0.02).abs() < 1e-9);
        assert!(sample(&[run(0.95), Figures::new()], figure).is_none());
    }

    #[test]
    fn a_share_may_be_three_points_less() {
        let kind = Kind::Share(0.03);
        assert!(kind.is_met(kind.compare(0.95, 0.97)) && kind.is_met(kind.compare(1.0, 0.5)));
        assert!(!kind.is_met(kind.compare(0.9, 0.94)));
    }
}
