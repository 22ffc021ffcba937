//! Many seeds of each flow control: `flows FIRST COUNT [plants]`. Prints each failure's law once
//! with its count, and the first; with `plants`, how many seeds each fault takes to be found.

use ferriband_sdp_sim::flow::{Failure, Kind, Plant, Scenario, Stats, run};
use std::collections::BTreeMap;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, or| {
        words
            .get(at)
            .and_then(|word| word.parse().ok())
            .unwrap_or(or)
    };
    let (first, count) = (number(0, 0), number(1, 1000));
    if words.last().is_some_and(|word| word == "plants") {
        return plants(first, count);
    }
    for kind in Kind::ALL {
        let begun = std::time::Instant::now();
        let mut sum = Stats::default();
        let mut failed: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for seed in first..first + count {
            match run(seed, &Scenario { kind, plant: None }) {
                Ok(stats) => sum.add(&stats),
                Err(why) => {
                    if failed.is_empty() {
                        println!("{why}");
                    }
                    failed.entry(why.law.id()).or_insert((0, seed)).0 += 1;
                }
            }
        }
        println!("{kind:?}: {:.1} s, {sum:?}", begun.elapsed().as_secs_f64());
        for (law, (count, seed)) in failed {
            println!("{law}: {count}, first {seed}");
        }
    }
}

fn plants(first: u64, count: u64) {
    for plant in Plant::ALL {
        for kind in plant.kinds().iter().copied() {
            let scenario = Scenario {
                kind,
                plant: Some(plant),
            };
            let found = |seed| run(seed, &scenario).err();
            let failures: Vec<Failure> = (first..first + count).filter_map(found).collect();
            let mut laws: Vec<String> = failures.iter().map(|why| why.law.id()).collect();
            laws.sort();
            laws.dedup();
            let first_seed = failures.first().map(|why| why.seed + 1 - first);
            let many = failures.len();
            println!("{plant:?} {kind:?}: {many} of {count}, first after {first_seed:?}: {laws:?}");
        }
    }
}
