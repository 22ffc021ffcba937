//! Runs seeds of the direct wire's simulator: `direct [FIRST] [COUNT]`, or kills at every step: `direct kills [FIRST] [COUNT]`.
use ferriband_sim::direct::{Options, kill_at_every_step, run_seed};

fn main() {
    let mut args = std::env::args()
        .skip(1)
        .filter_map(|arg| arg.parse::<u64>().ok());
    let (first, count) = (args.next().unwrap_or(0), args.next().unwrap_or(1000));
    if std::env::args().any(|arg| arg == "kills") {
        for seed in first..first + count {
            match kill_at_every_step(seed, 6, 1) {
                Ok(done) => println!("seed {seed}: {done:?}"),
                Err(failure) => println!("{failure}"),
            }
        }
        return;
    }
    let mut failed = std::collections::BTreeMap::<&str, Vec<u64>>::new();
    let (mut steps, mut messages, mut failures, mut kills) = (0, 0, 0, 0);
    let start = std::time::Instant::now();
    let mut slowest = (std::time::Duration::ZERO, 0);
    for seed in first..first + count {
        let begin = std::time::Instant::now();
        match run_seed(seed, &Options::default()) {
            Ok(report) => {
                steps += report.steps;
                messages += report.messages;
                failures += report.failures;
                kills += report.kills;
            }
            Err(failure) => {
                if failed.is_empty() {
                    println!("{failure}");
                }
                failed.entry(failure.invariant).or_default().push(seed);
            }
        }
        slowest = slowest.max((begin.elapsed(), seed));
    }
    println!(
        "{count} seeds in {:?}: {steps} steps, {messages} messages, {failures} failed requests, {kills} kills; slowest {slowest:?}",
        start.elapsed()
    );
    for (invariant, seeds) in failed {
        println!(
            "{invariant}: {} seeds: {:?}",
            seeds.len(),
            &seeds[..seeds.len().min(10)]
        );
    }
}
