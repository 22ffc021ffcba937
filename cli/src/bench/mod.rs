//! `ferriband bench`: the adapter against this machine's floors, as ratios with targets.
//!
//! Owns: the list of targets on one host, and what a target is; those between two hosts: `roce`; MPI beside other MPIs: `mpi`. Each round measures the floors and then every program, so that both
//! sides of a ratio saw the same machine; the figures are medians over the rounds, a ratio the median of the rounds' own ratios.

mod mpi;
mod probes;
mod roce;

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
}

/// One line of the table: measured at a place, and compared with floors of that place.
struct Target<P, F> {
    name: &'static str,
    probe: fn(&P) -> Result<f64, Failure>,
    unit: Unit,
    floor_name: &'static str,
    floor: fn(&F) -> Floor,
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
    floor: fn(&F) -> Floor,
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
const TARGETS: [Target<(), Floors>; 9] = [
    latency(
        "WRITE 8 B into shared memory, one way (ib_write_lat --mmap)",
        |()| probes::write_mapped(),
        "mapped flag + 8 B",
        |f| f.mapped_flag_ns,
        3.0,
    ),
    latency(
        "WRITE 8 B into device memory, one way (ibv_alloc_dm)",
        |()| probes::write_device_memory(),
        "mapped flag + 8 B",
        |f| f.mapped_flag_ns,
        3.0,
    ),
    latency(
        "SEND 8 B, private memory, one way (ib_send_lat)",
        |()| probes::send_private(),
        "mapped ring with completion",
        |f| f.mapped_ring_ns,
        3.0,
    ),
    latency(
        "WRITE 8 B, private memory, one way (ib_write_lat)",
        |()| probes::write_private(),
        "process_vm_writev ping-pong",
        |f| f.cma_write_ns,
        1.5,
    ),
    Target {
        name: "WRITE 64 KiB bandwidth (ib_write_bw)",
        probe: |()| probes::write_bandwidth(64 << 10, 100_000),
        unit: Unit::BytesPerSecond,
        floor_name: "process_vm_writev 64 KiB",
        floor: |f| rate(64 << 10, f.cma_write_64k_ns),
        demand: Demand::AtLeast(0.85),
        once: false,
    },
    Target {
        name: "WRITE 1 MiB bandwidth (ib_write_bw)",
        probe: |()| probes::write_bandwidth(1 << 20, 8_000),
        unit: Unit::BytesPerSecond,
        floor_name: "process_vm_writev 1 MiB",
        floor: |f| rate(1 << 20, f.cma_write_1m_ns),
        demand: Demand::AtLeast(0.85),
        once: false,
    },
    latency(
        "SEND 8 B, both processes on one core (ib_send_lat)",
        |()| probes::send_one_core(),
        "yield ping-pong",
        |f| f.yield_ns,
        4.0,
    ),
    Target {
        name: "system calls in 1,000,000 mapped WRITEs, posting thread (strace)",
        probe: |()| probes::system_calls(),
        unit: Unit::Calls,
        floor_name: "",
        floor: |_| None,
        // A stray wake-up or time slice is no call per operation.
        demand: Demand::Limit(100.0),
        once: true,
    },
    Target {
        name: "memory of each of 10,000 idle RC queue pairs",
        probe: |()| probes::queue_pair_memory(),
        unit: Unit::Bytes,
        floor_name: "",
        floor: |_| None,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// `ferriband bench`.
pub fn command(args: &BenchArgs) -> Result<ExitCode, Failure> {
    launch::settings()?;
    if args.mpi {
        return mpi::command(args);
    }
    match args.wire {
        Wire::Direct => measure(args, &TARGETS, &(), floor::steps(1), |(), progress| {
            floor::measure(1, progress)
        }),
        Wire::Roce => match netns::two_hosts() {
            Ok(hosts) => measure(args, &roce::TARGETS, &hosts, roce::STEPS, roce::floors),
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
    let rounds = usize::from(args.rounds);
    let progress = Progress::new((floor_steps + targets.len() as u64) * rounds as u64);
    let mut floors = Vec::with_capacity(rounds);
    let mut samples: Vec<Vec<f64>> = vec![Vec::new(); targets.len()];
    let mut problems: Vec<Option<String>> = vec![None; targets.len()];
    for round in 0..rounds {
        floors.push(floors_of(place, &progress)?);
        for (index, target) in targets.iter().enumerate() {
            progress.step(&format!("round {}/{rounds}: {}", round + 1, target.name));
            if problems[index].is_some() || (target.once && round > 0) {
                continue;
            }
            match (target.probe)(place) {
                Ok(figure) => samples[index].push(figure),
                Err(failure) => problems[index] = Some(failure.to_string()),
            }
        }
    }
    progress.finish();
    let outcomes: Vec<Outcome> = targets
        .iter()
        .zip(samples.into_iter().zip(problems))
        .map(|(target, (samples, problem))| judge(target, samples, problem, &floors))
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

fn judge<P, F>(
    target: &Target<P, F>,
    samples: Vec<f64>,
    problem: Option<String>,
    floors: &[F],
) -> Outcome {
    let whole = problem.is_none();
    let ratios = samples.iter().zip(floors);
    let ratios = ratios.filter_map(|(figure, floors)| Some(figure / (target.floor)(floors)?));
    let ratio = median(ratios.collect()).filter(|_| whole);
    let figure = median(samples).filter(|_| whole);
    let floor = median(floors.iter().filter_map(target.floor).collect());
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
        }
    }
}

fn show(unit: &str, value: Option<f64>) -> String {
    match (value, unit) {
        (None, _) => String::new(),
        (Some(value), "ns") => show_figure(Figure::Nanoseconds(value)),
        (Some(value), "bytes/s") => show_figure(Figure::BytesPerSecond(value)),
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

    fn target(demand: Demand) -> Target<(), Floors> {
        Target {
            name: "t",
            probe: |()| Ok(0.0),
            unit: Unit::Nanoseconds,
            floor_name: "f",
            floor: |f| f.mapped_flag_ns,
            demand,
            once: false,
        }
    }

    #[test]
    fn a_verdict_compares_the_median_of_the_rounds_ratios() {
        let floors = [100.0, 900.0, 110.0].map(|ns| Floors {
            mapped_flag_ns: Some(ns),
            ..Floors::default()
        });
        let verdict = |demand, samples: &[f64]| {
            judge(&target(demand), samples.to_vec(), None, &floors).verdict
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
        let failed = judge(
            &target(Demand::AtMost(3.0)),
            vec![1.0],
            Some("why".into()),
            &[],
        );
        assert_eq!(failed.verdict, "FAIL");
        assert_eq!(
            judge(&target(Demand::AtMost(3.0)), vec![1.0], None, &[]).verdict,
            "no floor"
        );
    }
}
