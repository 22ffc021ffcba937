//! `ferriband bench --mpi --fastpath`: what the parts of Ferriband's own MPI cost, each with and without.
//!
//! Owns: the list of comparisons and their verdicts. Both sides of a comparison are runs of one program (`fastpath.c`) that differ in settings alone; each round runs both,
//! the other one first each time, and a ratio is the median of the rounds' ratios. Must not know: how the program is started (`peers`).

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

const SOURCE: &str = include_str!("fastpath.c");
/// By the device, not by memory that ranks share.
const BY_VERBS: &[&str] = &["--same-host", "verbs"];
/// Ranks that sleep beside two that talk.
const IDLE: u32 = 64;

/// Two runs that differ in one thing.
struct Pair {
    /// What the lines begin with.
    about: &'static str,
    ranks: u32,
    /// Options of both.
    common: &'static [&'static str],
    /// Options and the program's argument with it.
    with: (&'static [&'static str], &'static str),
    /// The same without.
    without: (&'static [&'static str], &'static str),
    figures: &'static [Figure],
}

/// One figure of the runs: what the program calls it.
#[derive(Clone, Copy)]
struct Figure {
    key: &'static str,
    name: &'static str,
    kind: Kind,
}

/// What a figure is, and what it must be beside the other run's.
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

const PAIRS: [Pair; 6] = [
    Pair {
        about: "acknowledgements, shared memory",
        ranks: 2,
        common: &[],
        with: (&["--set", "acks=1"], "pairs"),
        without: (&["--set", "acks=0"], "pairs"),
        figures: ACKS,
    },
    Pair {
        about: "acknowledgements, by verbs",
        ranks: 2,
        common: BY_VERBS,
        with: (&["--set", "acks=1"], "pairs"),
        without: (&["--set", "acks=0"], "pairs"),
        figures: ACKS,
    },
    Pair {
        about: "64 idle channels, shared memory",
        ranks: IDLE + 2,
        common: &[],
        with: (&[], "channels"),
        without: (&[], "none"),
        figures: &[seconds("latency/8", "8 B, one way", 1.1)],
    },
    Pair {
        about: "64 idle channels, by verbs",
        ranks: IDLE + 2,
        common: BY_VERBS,
        with: (&[], "channels"),
        without: (&[], "idle"),
        figures: &[seconds("latency/8", "8 B, one way", 1.1)],
    },
    Pair {
        about: "Veloblock beside fixed top-fill",
        ranks: 2,
        common: BY_VERBS,
        with: (&["--set", "design=variable-bottom"], "pairs"),
        without: (&["--set", "design=fixed-top"], "pairs"),
        figures: DESIGN,
    },
    Pair {
        about: "Veloblock beside fixed top-fill",
        ranks: 4,
        common: BY_VERBS,
        with: (&["--set", "design=variable-bottom"], "share"),
        without: (&["--set", "design=fixed-top"], "share"),
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
    demand: String,
    verdict: &'static str,
    #[serde(skip)]
    kind: Kind,
}

/// Figures of one run; none where it failed.
type Figures = Option<BTreeMap<String, f64>>;

/// `ferriband bench --mpi --fastpath`.
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
    let progress = Progress::new((rounds * pairs.len() * 2) as u64);
    let mut problems = Vec::new();
    let mut outcomes = Vec::new();
    for pair in pairs {
        let samples = measure((&own, &scratch), pair, rounds, &progress, &mut problems)?;
        for figure in pair.figures.iter().filter(|figure| wanted(pair, figure)) {
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

/// All rounds of a pair: with and without.
fn measure(
    (own, scratch): (&Implementation, &Scratch),
    pair: &Pair,
    rounds: usize,
    progress: &Progress,
    problems: &mut Vec<String>,
) -> Result<Vec<[Figures; 2]>, Failure> {
    let mut samples = Vec::new();
    for round in 0..rounds {
        let mut both: [Figures; 2] = [None, None];
        for turn in 0..2 {
            let side = (round + turn) % 2;
            let (options, what) = [pair.with, pair.without][side];
            progress.step(&format!("round {}/{rounds}: {}", round + 1, pair.about));
            let options: Vec<&str> = pair.common.iter().chain(options).copied().collect();
            let found = own.run_with(&options, what, pair.ranks, scratch);
            scratch.stopped()?;
            match found {
                Ok((figures, _)) => both[side] = Some(figures),
                Err(why) => problems.push(format!("{} ({}): {why}", pair.about, options.join(" "))),
            }
        }
        samples.push(both);
    }
    Ok(samples)
}

fn judge(target: String, figure: &Figure, samples: &[[Figures; 2]]) -> Outcome {
    let of = |figures: &Figures| figures.as_ref()?.get(figure.key).copied();
    let side = |side: usize| median(samples.iter().filter_map(|both| of(&both[side])).collect());
    let compared = samples
        .iter()
        .filter_map(|[with, without]| Some(figure.kind.compare(of(with)?, of(without)?)));
    let compared = median(compared.collect());
    Outcome {
        target,
        with: side(0),
        without: side(1),
        compared,
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
    let header = ["target", "with", "without", "compared", "demand", "verdict"];
    let mut table = Table::new(header).right_align(&[1, 2, 3]);
    for outcome in outcomes {
        table.row([
            outcome.target.clone(),
            outcome.kind.show(outcome.with),
            outcome.kind.show(outcome.without),
            outcome.kind.show_compared(outcome.compared),
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
        "\n{} of {} targets met; medians of {rounds} rounds, compared round by round",
        met.count(),
        outcomes.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(key: &str, figure: f64) -> Figures {
        Some(BTreeMap::from([(key.to_owned(), figure)]))
    }

    #[test]
    fn rounds_are_compared_one_by_one() {
        let figure = &ACKS[0];
        let samples = [(1.01, 1.0), (10.1, 10.0), (5.0, 1.0)]
            .map(|(with, without)| [run(figure.key, with), run(figure.key, without)]);
        let outcome = judge(String::new(), figure, &samples);
        assert_eq!((outcome.verdict, outcome.with), ("PASS", Some(5.0)));
        let outcome = judge(String::new(), figure, &[[run(figure.key, 1.02), None]]);
        assert_eq!(
            outcome.verdict, "FAIL",
            "a run without the other is nothing"
        );
    }

    #[test]
    fn a_share_may_be_three_points_less() {
        let kind = Kind::Share(0.03);
        assert!(kind.is_met(kind.compare(0.95, 0.97)) && kind.is_met(kind.compare(1.0, 0.5)));
        assert!(!kind.is_met(kind.compare(0.9, 0.94)));
    }
}
