//! `ferriband-dev bench`: the adapter against this machine's floors, as ratios with targets.
//!
//! Owns: the list of targets on one host, and what a target is; those between two hosts: `roce`;
//! MPI beside other MPIs: `mpi`; sockets by SDP beside TCP: `sdp`; put and get: `putget`;
//! connections of MPI that heal: `heal`. Each round measures every program and what it is compared
//! with, so that both sides of a ratio saw the same machine; the figures are medians over the
//! rounds, a ratio the median of the rounds' own ratios.

mod heal;
pub mod mpi;
mod probes;
mod putget;
mod roce;
pub mod sdp;

use crate::args::{BenchArgs, Wire};
use crate::demo::{show_figure, skip};
use crate::failure::Failure;
use crate::floor::{self, Floor, Floors, bytes_per_second, median};
use crate::launch;
use crate::netns;
use crate::progress::Progress;
use crate::text::{Table, print_json, print_line};
use serde::Serialize;
use std::process::ExitCode;

use crate::demo::programs::Figure;

/// What a target demands.
#[derive(Clone, Copy)]
enum Demand {
    /// Our figure is at most so many times the floor.
    AtMost(f64),
    /// Our figure is at least this share of the floor.
    AtLeast(f64),
    /// Our figure, without a floor, is at most this.
    Limit(f64),
}

/// Which kind of number a probe returns.
#[derive(Clone, Copy)]
enum Unit {
    Nanoseconds,
    BytesPerSecond,
    Bytes,
    Calls,
    Times,
    PerSecond,
}

/// What a figure is compared with.
enum Against<P, F> {
    /// One of the floors that are measured together when a round begins.
    Round(fn(&F) -> Floor),
    /// A floor of its own, measured right before the program and right after it: their mean.
    Beside(fn(&P) -> Result<Floor, Failure>),
    /// A floor that the run has found which found the figure.
    Within(fn(&P) -> Result<Floor, Failure>),
}

/// One line of the table: measured at a place, and compared with a floor of that place.
struct Target<P, F> {
    name: &'static str,
    probe: fn(&P) -> Result<f64, Failure>,
    unit: Unit,
    floor_name: &'static str,
    floor: Against<P, F>,
    demand: Demand,
    /// Measured in the first round only: a count, not a time.
    once: bool,
}

fn rate(size: usize, ns: Floor) -> Floor {
    ns.map(|ns| bytes_per_second(size, ns))
}

const fn latency<P, F>(
    name: &'static str,
    probe: fn(&P) -> Result<f64, Failure>,
    floor_name: &'static str,
    floor: Against<P, F>,
    times: f64,
) -> Target<P, F> {
    Target {
        name,
        probe,
        unit: Unit::Nanoseconds,
        floor_name,
        floor,
        demand: Demand::AtMost(times),
        once: false,
    }
}

/// On one host.
const TARGETS: [Target<(), Floors>; 10] = [
    latency(
        "WRITE 8 B into shared memory, one way (ib_write_lat --mmap)",
        |()| probes::write_mapped(),
        "mapped flag + 8 B",
        Against::Round(|f| f.mapped_flag_ns),
        3.0,
    ),
    latency(
        "WRITE 8 B into device memory, one way (ibv_alloc_dm)",
        |()| probes::write_device_memory(),
        "mapped flag + 8 B",
        Against::Round(|f| f.mapped_flag_ns),
        3.0,
    ),
    latency(
        "SEND 8 B, private memory, one way (ib_send_lat)",
        |()| probes::send_private(),
        "mapped ring with completion",
        Against::Round(|f| f.mapped_ring_ns),
        3.0,
    ),
    latency(
        "SEND 8 B by events, one way (ib_send_lat -e)",
        |()| probes::send_by_events(),
        "eventfd that wakes a reader",
        Against::Round(|f| f.wake_ns),
        // the program sleeps for the completion of its own SEND as well: two sleepers are woken
        // for each message, the floor has one
        3.5,
    ),
    latency(
        "WRITE 8 B, private memory, one way (ib_write_lat)",
        |()| probes::write_private(),
        "process_vm_writev ping-pong",
        Against::Round(|f| f.cma_write_ns),
        1.5,
    ),
    Target {
        name: "WRITE 64 KiB bandwidth (ib_write_bw)",
        probe: |()| probes::write_bandwidth(64 << 10, 100_000),
        unit: Unit::BytesPerSecond,
        floor_name: "process_vm_writev 64 KiB",
        floor: Against::Round(|f| rate(64 << 10, f.cma_write_64k_ns)),
        demand: Demand::AtLeast(0.85),
        once: false,
    },
    Target {
        name: "WRITE 1 MiB bandwidth (ib_write_bw)",
        probe: |()| probes::write_bandwidth(1 << 20, 8_000),
        unit: Unit::BytesPerSecond,
        floor_name: "process_vm_writev 1 MiB",
        floor: Against::Round(|f| rate(1 << 20, f.cma_write_1m_ns)),
        demand: Demand::AtLeast(0.85),
        once: false,
    },
    latency(
        "SEND 8 B, both processes on one core (ib_send_lat)",
        |()| probes::send_one_core(),
        "yield ping-pong",
        Against::Round(|f| f.yield_ns),
        4.0,
    ),
    Target {
        name: "system calls in 1,000,000 mapped WRITEs, posting thread (strace)",
        probe: |()| probes::system_calls(),
        unit: Unit::Calls,
        floor_name: "",
        floor: Against::Round(|_| None),
        // A stray wake-up or time slice is no call per operation.
        demand: Demand::Limit(100.0),
        once: true,
    },
    Target {
        name: "memory of each of 10,000 idle RC queue pairs",
        probe: |()| probes::queue_pair_memory(),
        unit: Unit::Bytes,
        floor_name: "",
        floor: Against::Round(|_| None),
        demand: Demand::Limit(4096.0),
        once: true,
    },
];

/// One line of the result.
#[derive(Serialize)]
struct Outcome {
    target: &'static str,
    figure: Option<f64>,
    unit: &'static str,
    floor: Floor,
    floor_name: &'static str,
    ratio: Option<f64>,
    demand: String,
    verdict: &'static str,
    /// What each round found.
    rounds: Vec<Sample>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// `ferriband-dev bench`.
pub fn command(args: &BenchArgs) -> Result<ExitCode, Failure> {
    launch::settings()?;
    if args.mpi {
        return mpi::command(args);
    }
    if args.sdp {
        return sdp::command(args);
    }
    if args.putget {
        return putget::command(args);
    }
    if args.heal {
        return heal::command(args);
    }
    match args.wire {
        Wire::Direct => measure(args, &TARGETS, &(), floor::steps(1), |(), progress| {
            floor::measure(1, progress)
        }),
        Wire::Roce => match netns::two_hosts() {
            Ok(hosts) => measure(args, &roce::TARGETS, &hosts, 0, |_, _| Ok(())),
            Err(why) => skip(&args.json, &why),
        },
    }
}

/// Measures targets and the floors of their place, round by round, and reports.
fn measure<P, F>(
    args: &BenchArgs,
    targets: &[Target<P, F>],
    place: &P,
    floor_steps: u64,
    floors_of: fn(&P, &Progress) -> Result<F, Failure>,
) -> Result<ExitCode, Failure> {
    let wanted = |target: &&Target<P, F>| {
        args.only
            .as_ref()
            .is_none_or(|text| target.name.contains(text.as_str()))
    };
    let targets: Vec<&Target<P, F>> = targets.iter().filter(wanted).collect();
    if targets.is_empty() {
        return Err(Failure::new("no target has that in its name").status(2));
    }
    let rounds = args.rounds();
    let steps: u64 = targets.iter().map(|target| target.floor.steps()).sum();
    let progress = Progress::new((floor_steps + steps) * rounds as u64);
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); targets.len()];
    let mut problems: Vec<Option<String>> = vec![None; targets.len()];
    for round in 0..rounds {
        let floors = floors_of(place, &progress)?;
        for (index, target) in targets.iter().enumerate() {
            let step = |what: &str| {
                progress.step(&format!("round {}/{rounds}: {what}", round + 1));
            };
            if problems[index].is_some() || (target.once && round > 0) {
                (0..target.floor.steps()).for_each(|_| step(target.name));
                continue;
            }
            match sample(target, place, &floors, step) {
                Ok(sample) => samples[index].push(sample),
                Err(failure) => problems[index] = Some(failure.to_string()),
            }
        }
    }
    progress.finish();
    let outcomes: Vec<Outcome> = targets
        .iter()
        .zip(samples.into_iter().zip(problems))
        .map(|(target, (samples, problem))| judge(target, &samples, problem))
        .collect();
    report(&outcomes, rounds, args.json.json)?;
    Ok(
        if outcomes.iter().all(|outcome| outcome.verdict != "FAIL") {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        },
    )
}

/// What one round found: the program's figure, and the floor's.
#[derive(Clone, Copy, Serialize)]
struct Sample {
    figure: f64,
    floor: Floor,
}

impl<P, F> Against<P, F> {
    /// Steps of a round of a target that is compared so.
    fn steps(&self) -> u64 {
        match self {
            Against::Round(_) | Against::Within(_) => 1,
            Against::Beside(_) => 3,
        }
    }
}

/// Measures a target once, and its floor if that is its own.
fn sample<P, F>(
    target: &Target<P, F>,
    place: &P,
    floors: &F,
    step: impl Fn(&str),
) -> Result<Sample, Failure> {
    let program = || {
        step(target.name);
        (target.probe)(place)
    };
    match target.floor {
        Against::Round(pick) => Ok(Sample {
            figure: program()?,
            floor: pick(floors),
        }),
        Against::Within(find) => Ok(Sample {
            figure: program()?,
            floor: find(place)?,
        }),
        Against::Beside(measure) => {
            let floor = || {
                step(target.floor_name);
                measure(place)
            };
            let before = floor()?;
            let figure = program()?;
            let after = floor()?;
            Ok(Sample {
                figure,
                floor: before.zip(after).map(|(one, other)| (one + other) / 2.0),
            })
        }
    }
}

fn judge<P, F>(target: &Target<P, F>, samples: &[Sample], problem: Option<String>) -> Outcome {
    let whole = problem.is_none();
    let ratios = samples.iter().filter_map(|s| Some(s.figure / s.floor?));
    let ratio = median(ratios.collect()).filter(|_| whole);
    let figure = median(samples.iter().map(|s| s.figure).collect()).filter(|_| whole);
    let floor = median(samples.iter().filter_map(|s| s.floor).collect());
    let met = match target.demand {
        Demand::AtMost(times) => ratio.map(|ratio| ratio <= times),
        Demand::AtLeast(share) => ratio.map(|ratio| ratio >= share),
        Demand::Limit(limit) => figure.map(|figure| figure <= limit),
    };
    let no_floor = figure.is_some() && met.is_none();
    Outcome {
        target: target.name,
        figure,
        unit: target.unit.name(),
        floor,
        floor_name: target.floor_name,
        ratio,
        demand: match target.demand {
            Demand::AtMost(times) => format!("<= {times} x"),
            Demand::AtLeast(share) => format!(">= {share} x"),
            Demand::Limit(limit) => format!("<= {limit}"),
        },
        verdict: match met {
            Some(true) => "PASS",
            None if no_floor => "no floor",
            _ => "FAIL",
        },
        rounds: samples.to_vec(),
        problem,
    }
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "ns",
            Unit::BytesPerSecond => "bytes/s",
            Unit::Bytes => "bytes",
            Unit::Calls => "calls",
            Unit::Times => "times",
            Unit::PerSecond => "/s",
        }
    }
}

fn show(unit: &str, value: Option<f64>) -> String {
    match (value, unit) {
        (None, _) => String::new(),
        (Some(value), "ns") => show_figure(Figure::Nanoseconds(value)),
        (Some(value), "bytes/s") => show_figure(Figure::BytesPerSecond(value)),
        (Some(value), "times") => format!("{value:.3} times"),
        (Some(value), unit) => format!("{value:.0} {unit}"),
    }
}

fn report(outcomes: &[Outcome], rounds: usize, json: bool) -> Result<(), Failure> {
    if json {
        return print_json(&outcomes);
    }
    let header = [
        "target", "adapter", "floor", "", "ratio", "demand", "verdict",
    ];
    let mut table = Table::new(header).right_align(&[1, 2, 4]);
    for outcome in outcomes {
        table.row([
            outcome.target.to_owned(),
            show(outcome.unit, outcome.figure),
            show(outcome.unit, outcome.floor),
            outcome.floor_name.to_owned(),
            outcome
                .ratio
                .map(|ratio| format!("{ratio:.2}"))
                .unwrap_or_default(),
            outcome.demand.clone(),
            outcome.verdict.to_owned(),
        ]);
    }
    table.print()?;
    for outcome in outcomes {
        if let Some(problem) = &outcome.problem {
            print_line(&format!("\n{}: {problem}", outcome.target))?;
        }
    }
    print_line(&format!(
        "\nmedians of {rounds} rounds; a ratio is the median of the rounds' own, for both of its sides are measured in each"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn target(demand: Demand) -> Target<(), Floors> {
        Target {
            name: "t",
            probe: |()| Ok(0.0),
            unit: Unit::Nanoseconds,
            floor_name: "f",
            floor: Against::Round(|f| f.mapped_flag_ns),
            demand,
            once: false,
        }
    }

    fn samples(figures: &[f64], floors: [f64; 3]) -> Vec<Sample> {
        let both = figures.iter().zip(floors);
        both.map(|(&figure, floor)| Sample {
            figure,
            floor: Some(floor),
        })
        .collect()
    }

    #[test]
    fn a_verdict_compares_the_median_of_the_rounds_ratios() {
        let verdict = |demand, figures: &[f64]| {
            let samples = samples(figures, [100.0, 900.0, 110.0]);
            judge(&target(demand), &samples, None).verdict
        };
        assert_eq!(
            verdict(Demand::AtMost(3.0), &[300.0, 9000.0, 100.0]),
            "PASS"
        );
        // the second round was slow on both sides
        assert_eq!(
            verdict(Demand::AtMost(3.0), &[301.0, 1000.0, 400.0]),
            "FAIL"
        );
        assert_eq!(verdict(Demand::AtMost(3.0), &[301.0]), "FAIL");
        assert_eq!(verdict(Demand::AtLeast(0.85), &[84.9]), "FAIL");
        assert_eq!(verdict(Demand::AtLeast(0.85), &[85.1]), "PASS");
        assert_eq!(verdict(Demand::Limit(100.0), &[100.0]), "PASS");
        assert_eq!(verdict(Demand::Limit(100.0), &[]), "FAIL");
    }

    #[test]
    fn a_problem_fails_and_a_missing_floor_is_said() {
        let alone = [Sample {
            figure: 1.0,
            floor: None,
        }];
        let failed = judge(&target(Demand::AtMost(3.0)), &alone, Some("why".into()));
        assert_eq!(failed.verdict, "FAIL");
        assert_eq!(
            judge(&target(Demand::AtMost(3.0)), &alone, None).verdict,
            "no floor"
        );
    }

    #[test]
    fn a_floor_of_its_own_is_the_mean_of_before_and_after() {
        let target: Target<Cell<f64>, ()> = Target {
            name: "t",
            probe: |clock| Ok(clock.replace(clock.get() + 1.0)),
            unit: Unit::Nanoseconds,
            floor_name: "f",
            floor: Against::Beside(|clock| Ok(Some(clock.replace(clock.get() * 10.0)))),
            demand: Demand::AtMost(1.0),
            once: false,
        };
        let steps = Cell::new(0);
        // floor 1, the program at 10, floor 11
        let found = sample(&target, &Cell::new(1.0), &(), |_| {
            steps.set(steps.get() + 1)
        });
        let found = found.expect("both succeed");
        assert_eq!((found.figure, found.floor), (10.0, Some(6.0)));
        assert_eq!(steps.get(), target.floor.steps());
    }
}
