//! Some seeds hold, and each fault is found.

use ferriband_mpi_sim::{Fault, Options, Report, run_seed};

#[test]
fn no_seed_breaks_a_law_and_all_there_is_comes_up() {
    let mut sum = Report::default();
    for seed in 0..1500 {
        let report = run_seed(seed, &Options::default()).unwrap_or_else(|why| panic!("{why}"));
        sum.messages += report.messages;
        sum.records += report.records;
        sum.sleeps += report.sleeps;
        sum.pauses += report.pauses;
        sum.resumes += report.resumes;
        sum.closed += report.closed;
    }
    println!("{sum:?}");
    assert!(sum.records * 8 > sum.messages, "{sum:?}");
    assert!(sum.records < sum.messages, "{sum:?}");
    for count in [sum.sleeps, sum.pauses, sum.resumes, sum.closed] {
        assert!(count > 1000, "{sum:?}");
    }
}

#[test]
fn a_seed_is_the_same_run_each_time() {
    for seed in 5..25 {
        let options = Options::default();
        assert_eq!(run_seed(seed, &options), run_seed(seed, &options));
    }
}

#[test]
fn each_fault_is_found() {
    let missed: Vec<Fault> = Fault::ALL
        .into_iter()
        .filter(|fault| {
            let options = Options {
                fault: Some(*fault),
            };
            let found = (0..4000).find_map(|seed| run_seed(seed, &options).err());
            if let Some(found) = &found {
                println!("{fault:?}: {found}");
            }
            found.is_none()
        })
        .collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
}
