//! The same programs again and again: how many of their runs ended well. What fails once in a hundred runs is found so.
//!
//! Owns: the counting and its table. A line for each pair says how it went as soon as it is through.

use super::programs::Job;
use super::run;
use super::runner::Place;
use crate::args::DemoArgs;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::text::{Table, print_json, print_line};
use serde::Serialize;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Failures of one pair whose output is shown.
const SHOWN_FAILURES: u32 = 2;

/// How the runs of one pair went.
#[derive(Serialize)]
struct Count {
    program: String,
    runs: u32,
    failed: u32,
    /// The longest run.
    slowest_seconds: f64,
    /// What the first failures printed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
}

#[derive(Serialize)]
struct Report {
    place: &'static str,
    pairs: Vec<Count>,
    runs: u32,
    failed: u32,
}

/// Runs each job as often as it is to be repeated.
pub(super) fn run_all<F: Default>(
    args: &DemoArgs,
    jobs: &[Job<F>],
    place: Place<'_>,
) -> Result<ExitCode, Failure> {
    let progress = Progress::new(jobs.len() as u64 * u64::from(args.repeat));
    let mut pairs = Vec::with_capacity(jobs.len());
    for job in jobs {
        let count = count(job, args, place, &progress)?;
        progress.note(&format!(
            "{:>4} of {} ended well, {:4.1} s at most: {}",
            count.runs - count.failed,
            count.runs,
            count.slowest_seconds,
            count.program
        ));
        pairs.push(count);
    }
    progress.finish();
    let report = Report {
        place: place.in_words(),
        runs: pairs.iter().map(|count| count.runs).sum(),
        failed: pairs.iter().map(|count| count.failed).sum(),
        pairs,
    };
    if args.json.json {
        print_json(&report)?;
    } else {
        show(&report)?;
    }
    Ok(if report.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn count<F: Default>(
    job: &Job<F>,
    args: &DemoArgs,
    place: Place<'_>,
    progress: &Progress,
) -> Result<Count, Failure> {
    let mut count = Count {
        program: job.title(),
        runs: 0,
        failed: 0,
        slowest_seconds: 0.0,
        problems: Vec::new(),
    };
    let floors = F::default();
    for _ in 0..args.repeat {
        progress.step(&count.program);
        let begun = Instant::now();
        let outcome = run(job, &floors, place, Duration::from_secs(args.timeout))?;
        count.runs += 1;
        count.slowest_seconds = count.slowest_seconds.max(begun.elapsed().as_secs_f64());
        let Some(problem) = outcome.problem else {
            continue;
        };
        count.failed += 1;
        if count.failed <= SHOWN_FAILURES {
            progress.note(&format!(
                "FAILED {} (run {})\n{problem}",
                count.program, count.runs
            ));
            count.problems.push(problem);
        }
    }
    Ok(count)
}

fn show(report: &Report) -> Result<(), Failure> {
    if report.failed > 0 {
        let mut table = Table::new(["program", "runs", "failed"]).right_align(&[1, 2]);
        for count in report.pairs.iter().filter(|count| count.failed > 0) {
            table.row([
                count.program.clone(),
                count.runs.to_string(),
                count.failed.to_string(),
            ]);
        }
        table.print()?;
        print_line("")?;
    }
    let verdict = match report.failed {
        0 => format!(
            "all {} runs of {} pairs ended well",
            report.runs,
            report.pairs.len()
        ),
        failed => format!("{failed} of {} runs FAILED; output is above", report.runs),
    };
    print_line(&format!("{verdict} ({})", report.place))
}
