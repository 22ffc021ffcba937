//! Many seeds: `many FIRST COUNT [plants [FAULT]]`. Prints each failure's law once with its count,
//! and the first; with `plants`, how many seeds find each fault, or one, and by which laws.

use ferriband_putget_sim::{Plant, Scenario, Stats, run};
use std::collections::BTreeMap;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, or| {
        let word = words.get(at);
        word.and_then(|word| word.parse().ok()).unwrap_or(or)
    };
    let (first, count) = (number(0, 0), number(1, 1000));
    if words.get(2).is_some_and(|word| word == "plants") {
        return plants(first, count, words.get(3).map(String::as_str));
    }
    let mut sum = Stats::default();
    let mut failed: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for seed in first..first + count {
        match run(seed, &Scenario::default()) {
            Ok(stats) => sum.add(&stats),
            Err(why) => {
                if failed.is_empty() {
                    println!("{why}");
                }
                failed.entry(why.law.number()).or_insert((0, seed)).0 += 1;
            }
        }
    }
    println!("{sum:?}");
    for (law, (count, seed)) in failed {
        println!("law {law}: {count}, first {seed}");
    }
}

fn plants(first: u64, count: u64, only: Option<&str>) {
    let wanted = |plant: &Plant| only.is_none_or(|name| format!("{plant:?}") == name);
    for plant in Plant::ALL.into_iter().filter(wanted) {
        let scenario = Scenario { plant: Some(plant) };
        let mut laws: BTreeMap<u32, u64> = BTreeMap::new();
        let (mut found, mut first_seed) = (0, None);
        for seed in first..first + count {
            if let Err(why) = run(seed, &scenario) {
                found += 1;
                *laws.entry(why.law.number()).or_insert(0) += 1;
                first_seed = first_seed.or(Some(seed + 1 - first));
                if only.is_some() && found == 1 {
                    println!("{why}");
                }
            }
        }
        println!("{plant:?}: {found} of {count}, first after {first_seed:?}, laws {laws:?}");
    }
}
