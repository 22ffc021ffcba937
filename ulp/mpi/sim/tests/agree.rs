//! Agreements hold in some seeds, and each fault is found.

use ferriband_mpi_sim::agree::{Fault, Report, run_seed};

#[test]
fn members_that_live_agree_whoever_dies_when() {
    let mut sum = Report::default();
    for seed in 0..20_000 {
        let report = run_seed(seed, None).unwrap_or_else(|why| panic!("{why}"));
        sum.decisions += report.decisions;
        sum.deaths += report.deaths;
        sum.leaders += report.leaders;
        sum.lost += report.lost;
        sum.left += report.left;
        sum.forgotten += report.forgotten;
    }
    println!("{sum:?}");
    for count in [sum.deaths, sum.leaders, sum.lost, sum.left, sum.forgotten] {
        assert!(count > 1000, "{sum:?}");
    }
    assert!(sum.decisions > 50_000, "{sum:?}");
}

#[test]
fn a_seed_is_the_same_run_each_time() {
    for seed in 5..25 {
        assert_eq!(run_seed(seed, None), run_seed(seed, None));
    }
}

#[test]
fn each_fault_is_found() {
    for fault in Fault::ALL {
        let found = (0..200_000).find_map(|seed| run_seed(seed, Some(fault)).err());
        println!("{fault:?}: {found:?}");
        assert!(found.is_some(), "{fault:?} is not found");
    }
}
