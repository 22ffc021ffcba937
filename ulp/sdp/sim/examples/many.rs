//! Many seeds: `many FIRST COUNT`. Prints each failure's law once with its count, and the first.

use ferriband_sdp_sim::{Scenario, Stats, run};
use std::collections::BTreeMap;

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>());
    let mut next = |or| args.next().and_then(Result::ok).unwrap_or(or);
    let (first, count) = (next(0), next(1000));
    let mut sum = Stats::default();
    let mut failed: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for seed in first..first + count {
        match run(seed, &Scenario::default()) {
            Ok(stats) => sum.add(&stats),
            Err(why) => {
                if failed.is_empty() {
                    println!("{why}");
                }
                failed
                    .entry(format!("{:?}", why.law))
                    .or_insert((0, seed))
                    .0 += 1;
            }
        }
    }
    println!("{sum:?}");
    for (law, (count, seed)) in failed {
        println!("{law}: {count}, first {seed}");
    }
}
