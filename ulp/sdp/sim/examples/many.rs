//! Many seeds: `many FIRST COUNT [plants [FAULT]]`. Prints each failure's law once with its count,
//! and the first; with `plants`, how many seeds find each fault, or one.

use ferriband_sdp_sim::{Plant, Scenario, Stats, run};
use std::collections::BTreeMap;

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>());
    let mut next = |or| args.next().and_then(Result::ok).unwrap_or(or);
    let (first, count) = (next(0), next(1000));
    let mut words = std::env::args().skip(3);
    if words.next().is_some_and(|word| word == "plants") {
        return plants(first, count, words.next().as_deref());
    }
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

fn plants(first: u64, count: u64, only: Option<&str>) {
    let wanted = |plant: &Plant| only.is_none_or(|name| format!("{plant:?}") == name);
    for plant in Plant::ALL.into_iter().filter(wanted) {
        let scenario = Scenario { plant: Some(plant) };
        let found = (first..first + count).filter(|seed| run(*seed, &scenario).is_err());
        let seeds: Vec<u64> = found.collect();
        let first_seed = seeds.first().map(|seed| seed + 1 - first);
        println!(
            "{plant:?}: {} of {count}, first after {first_seed:?}",
            seeds.len()
        );
    }
}
