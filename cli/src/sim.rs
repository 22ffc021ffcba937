//! `ferriband sim`: many seeds of the deterministic simulator over all cores, and the one command
//! that replays a failure.
//!
//! Owns: the distribution of seeds. What a seed does is the simulator's; a panic in it counts as a
//! failure of that seed.

use crate::args::{SimArgs, SimCommand, World};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::text::print_line;
use ferriband_sim::{direct, packet};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Runs one seed; the error describes the broken invariant.
type RunSeed = fn(u64) -> Result<(), String>;

/// The worlds of the simulator, in the order of their runs.
const WORLDS: &[(World, RunSeed)] = &[
    (World::Packet, |seed| {
        packet::run_seed(seed, &packet::Options::default())
            .map(|_| ())
            .map_err(|failure| failure.to_string())
    }),
    (World::Direct, |seed| {
        direct::run_seed(seed, &direct::Options::default())
            .map(|_| ())
            .map_err(|failure| failure.to_string())
    }),
    (World::Mpi, |seed| {
        ferriband_mpi_sim::run_seed(seed, &ferriband_mpi_sim::Options::default())
            .map(|_| ())
            .map_err(|failure| failure.to_string())
    }),
    (World::Heal, |seed| {
        use ferriband_mpi_sim::heal;
        heal::run_seed(seed, &heal::Options::default())
            .map(|_| ())
            .map_err(|failure| failure.to_string())
    }),
    (World::Sdp, run_sdp),
    (World::Putget, |seed| {
        ferriband_putget_sim::run(seed, &ferriband_putget_sim::Scenario::default())
            .map(|_| ())
            .map_err(|failure| failure.to_string())
    }),
    (World::Portals, |seed| {
        ferriband_portals_sim::run(seed, &ferriband_portals_sim::Scenario::default())
            .map(|_| ())
            .map_err(|failure| failure.to_string())
    }),
];

/// A seed of SDP's rings in shared memory, and of each of its flow controls by queue pairs.
fn run_sdp(seed: u64) -> Result<(), String> {
    use ferriband_sdp_sim::flow;
    ferriband_sdp_sim::run(seed, &ferriband_sdp_sim::Scenario::default())
        .map_err(|failure| failure.to_string())?;
    for kind in flow::Kind::ALL {
        let scenario = flow::Scenario { kind, plant: None };
        flow::run(seed, &scenario).map_err(|failure| failure.to_string())?;
    }
    Ok(())
}

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// `ferriband sim`.
pub fn command(args: &SimArgs) -> Result<ExitCode, Failure> {
    if let Some(SimCommand::Fabric(args)) = &args.command {
        return crate::fabric_sim::command(args);
    }
    let worlds: Vec<_> = WORLDS
        .iter()
        .filter(|(world, _)| args.only.is_none_or(|only| only == *world))
        .collect();
    let (first, count) = match args.seed {
        Some(seed) => (seed, 1),
        None => (args.first, args.seeds),
    };
    let jobs = args.jobs.map_or_else(
        || thread::available_parallelism().map_or(1, |n| n.get()),
        usize::from,
    );
    for (world, run) in worlds {
        let begun = Instant::now();
        if let Err((seed, why)) = run_all(*run, first, count, jobs) {
            print_line(&format!(
                "{} simulator{}: FAILED\n{}",
                name(*world),
                commit(),
                why.trim_end()
            ))?;
            print_line(&format!(
                "replay it with: ferriband sim --only {} --seed {seed}",
                name(*world)
            ))?;
            return Ok(ExitCode::FAILURE);
        }
        let seconds = begun.elapsed().as_secs_f64();
        print_line(&format!(
            "{} simulator: {count} seeds from {first}, no invariant broken, {seconds:.1} s",
            name(*world)
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn name(world: World) -> &'static str {
    match world {
        World::Packet => "packet",
        World::Direct => "direct",
        World::Mpi => "mpi",
        World::Heal => "heal",
        World::Sdp => "sdp",
        World::Putget => "putget",
        World::Portals => "portals",
    }
}

/// The commit of the checkout that this was built in, as far as git knows it: a seed means the same
/// run only with the same code.
fn commit() -> String {
    let git = Command::new("git")
        .args([
            "-C",
            env!("CARGO_MANIFEST_DIR"),
            "rev-parse",
            "--short",
            "HEAD",
        ])
        .output();
    match git {
        Ok(output) if output.status.success() => {
            format!(
                " (commit {})",
                String::from_utf8_lossy(&output.stdout).trim()
            )
        }
        _ => String::new(),
    }
}

/// Runs `count` seeds from `first` on `jobs` threads. The failure of the lowest seed that was
/// found before the threads stopped.
fn run_all(run: RunSeed, first: u64, count: u64, jobs: usize) -> Result<(), (u64, String)> {
    let next = AtomicU64::new(0);
    let done = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let worst: Mutex<Option<(u64, String)>> = Mutex::new(None);
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                break;
            }
            let seed = first.wrapping_add(index);
            if let Err(why) = run_caught(run, seed) {
                stop.store(true, Ordering::Relaxed);
                let mut worst = worst.lock().expect("nobody panics while holding it");
                if worst.as_ref().is_none_or(|(other, _)| seed < *other) {
                    *worst = Some((seed, why));
                }
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        let progress = Progress::new(count);
        while threads.iter().any(|thread| !thread.is_finished()) {
            progress.at(done.load(Ordering::Relaxed));
            thread::sleep(LOOK_EVERY.min(Duration::from_millis(count.max(1))));
        }
        progress.finish();
    });
    match worst.into_inner().expect("nobody panics while holding it") {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}

fn run_caught(run: RunSeed, seed: u64) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| run(seed))).unwrap_or_else(|payload| {
        Err(format!(
            "seed {seed}: the code panicked: {}",
            panic_text(&*payload)
        ))
    })
}

fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_runs_once() {
        static SUM: AtomicU64 = AtomicU64::new(0);
        let run = |seed| {
            SUM.fetch_add(seed, Ordering::Relaxed);
            Ok(())
        };
        assert_eq!(run_all(run, 10, 100, 3), Ok(()));
        assert_eq!(SUM.load(Ordering::Relaxed), (10..110).sum::<u64>());
    }

    #[test]
    fn a_failure_and_a_panic_name_their_seed() {
        let failing = |seed| {
            if seed == 7 {
                Err("I4 broken".to_owned())
            } else {
                Ok(())
            }
        };
        assert_eq!(
            run_all(failing, 0, 1000, 2),
            Err((7, "I4 broken".to_owned()))
        );
        let (seed, why) = run_all(
            |seed| {
                if seed == 5 {
                    panic!("boom {seed}")
                } else {
                    Ok(())
                }
            },
            0,
            8,
            1,
        )
        .expect_err("seed 5 panics");
        assert_eq!(seed, 5);
        assert!(why.contains("boom 5"), "{why}");
    }
}
