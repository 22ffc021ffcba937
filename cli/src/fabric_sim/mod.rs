//! `ferriband sim fabric`: a fabric in virtual time, with traffic.
//!
//! Owns: the course of an experiment and how its results read. Machines and time are `ferriband-fabric`'s, tables are `ferriband-subnet`'s. Nothing here
//! depends on the clock: the same words give the same result, to the byte.

mod examples;
mod page;
mod pictures;
mod report;
mod traffic;
mod watch;
mod world;

use crate::args::{FabricSimArgs, Traffic};
use crate::failure::Failure;
use crate::progress::Progress;
use ferriband_fabric::Time;
use ferriband_fabric::net::PortReport;
use report::Report;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use watch::{Sample, Watch};
use world::World;

/// Parts of a time between two looks, after each of which the progress bar moves.
const STEPS: u64 = 16;
/// A trace that has not ended by so many times its own length is stuck in congestion, and is cut off.
const PATIENCE: u64 = 100;

/// What an experiment gave.
pub struct Results {
    /// The fabric, as it is at the end.
    pub world: World,
    /// What was offered.
    pub offered: traffic::Offered,
    /// What was seen over time.
    pub samples: Vec<Sample>,
    /// Each direction of each link.
    pub links: Vec<PortReport>,
    /// Nothing was left to happen, and packets were in the buffers.
    pub locked_up: bool,
    /// Not counted before it.
    pub warm_up: Time,
    /// Packets that crossed a link while it was counted: each counts once a link.
    pub packet_hops: u64,
    /// How long it took us.
    pub took: Duration,
}

/// `ferriband sim fabric`.
pub fn command(args: &FabricSimArgs) -> Result<ExitCode, Failure> {
    match (args.example, &args.fabric) {
        (Some(example), _) => examples::command(example, args),
        (None, Some(fabric)) => {
            let results = run(args, fabric)?;
            let report = Report::new(args, fabric, &results);
            if let Some(path) = &args.html {
                let text = page::write(&report, &results);
                store(path, &text)?;
            }
            if let Some(dir) = &args.svg {
                let name = dir.display().to_string();
                std::fs::create_dir_all(dir).map_err(|error| Failure::io("make", &name, &error))?;
                for (name, picture) in pictures::all(&results) {
                    store(&dir.join(format!("{name}.svg")), &picture)?;
                }
            }
            report.print(args, &results)?;
            Ok(match results.locked_up {
                false => ExitCode::SUCCESS,
                true => ExitCode::FAILURE,
            })
        }
        (None, None) => Err(Failure::new("which fabric?").status(2)),
    }
}

fn store(path: &std::path::Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::io("write", &path.display().to_string(), &error))
}

/// Runs an experiment.
fn run(args: &FabricSimArgs, fabric: &str) -> Result<Results, Failure> {
    let mut world = world::make(args, fabric)?;
    let offered = traffic::begin(&mut world, args)?;
    let is_trace = matches!(args.traffic, Traffic::Trace(_));
    let warm_up = args.warm_up.unwrap_or(match is_trace {
        true => Time::ZERO,
        false => Time::from_us(50),
    });
    let samples = u64::from(args.samples);
    // a trace has a length of its own, and goes on until all has arrived
    let span = args.duration.unwrap_or(match is_trace {
        true => Time(offered.last.0 + 1),
        false => Time::from_us(200),
    });
    if span.0 < samples {
        return Err(Failure::new("it runs for no time: --duration is too short").status(2));
    }
    let begun = Instant::now();
    let progress = Progress::new(samples * STEPS + STEPS);
    let mut alive = advance(&mut world, Time::ZERO, warm_up, &progress, 0);
    world.net.begin();
    let hops = world.net.hops();
    let mut watch = Watch::new(&world);
    let mut seen = Vec::new();
    let to_the_end = is_trace && args.duration.is_none();
    for nth in 0.. {
        let at = |nth: u64| Time(warm_up.0 + span.0 * nth / samples);
        let (from, to) = (at(nth), at(nth + 1));
        alive = advance(&mut world, from, to, &progress, nth + 1);
        seen.push(watch.look(&mut world));
        let is_over = nth + 1 >= samples && !(to_the_end && alive);
        if is_over || !alive && is_trace || nth > PATIENCE * samples {
            break;
        }
    }
    progress.finish();
    let locked_up = !alive && world.net.waiting_blocks() > 0;
    Ok(Results {
        links: world.net.reports(),
        packet_hops: world.net.hops() - hops,
        world,
        offered,
        samples: seen,
        locked_up,
        warm_up,
        took: begun.elapsed(),
    })
}

/// Lets time pass, and the bar move.
fn advance(world: &mut World, from: Time, to: Time, progress: &Progress, step: u64) -> bool {
    let mut alive = true;
    for part in 1..=STEPS {
        let until = Time(from.0 + (to.0 - from.0) * part / STEPS);
        alive = world.net.run_until(until);
        progress.at(step * STEPS + part);
    }
    alive
}
