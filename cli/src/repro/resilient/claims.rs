//! What papers/003 claims of its figures, in numbers, and what it prints.
//!
//! Owns: the judges. Must not know: how the data were measured.

use super::experiments::{KERNELS, PROTOCOLS, TABLE_RANKS};
use crate::repro::data::{Data, Missing, Point};
use crate::repro::judging::{Everywhere, Judged, verdict};
use crate::repro::registry::{Claim, Expect, Printed};

/// What an overhead is: beyond it in the mean of the runs, and in each of them.
const OVERHEAD: f64 = 1.015;
/// That of RPut with its additional acknowledgement (section VI-C).
const OVERHEAD_RPUT: f64 = 1.04;
/// MB that no process needs more than this of (section VI-C).
const MORE_MB: f64 = 0.45;
/// The mean of a reconnection, us (section VI-D).
const MEAN_US: f64 = 335_000.0;
/// A "multi-second" time-out, us.
const SECONDS_US: f64 = 2e6;

/// Figure 4.
pub const FIGURE_4: &[Claim] = &[
    Claim {
        text: "no overhead of latency at any size, with RPut, RGet and the lane (asked: 1.5 %)",
        place: "section VI-B, Figure 4",
        judge: |data| no_overhead(data, "latency"),
        expect: Expect::Holds,
    },
    Claim {
        text: "no overhead of bandwidth at any size (asked: 1.5 %)",
        place: "section VI-B, Figure 4",
        judge: |data| no_overhead(data, "bandwidth"),
        expect: Expect::Holds,
    },
    Claim {
        text: "no overhead of bandwidth both ways at any size (asked: 1.5 %)",
        place: "section VI-B",
        judge: |data| no_overhead(data, "both ways"),
        expect: Expect::Holds,
    },
];

/// Figure 5.
pub const FIGURE_5: &[Claim] = &[
    Claim {
        text: "the overhead of RGet-Rel reaches 1.5 % only, with every kernel",
        place: "section VI-C, Figure 5",
        judge: |data| kernels_cost(data, "RGet", OVERHEAD),
        expect: Expect::Holds,
    },
    Claim {
        text: "the overhead of RPut-Rel reaches 4 %, with every kernel",
        place: "section VI-C, Figure 5",
        judge: |data| kernels_cost(data, "RPut", OVERHEAD_RPUT),
        expect: Expect::Holds,
    },
    Claim {
        text: "the lane, which has acknowledgements of landings as RPut-Rel has, costs no more than RGet-Rel may (1.5 %)",
        place: "section VI-C",
        judge: |data| kernels_cost(data, "lane", OVERHEAD),
        expect: Expect::Holds,
    },
];

/// Table I.
pub const TABLE_1: &[Claim] = &[Claim {
    text: "no process needs more than 0.45 MB more for it, with any kernel",
    place: "section VI-C, Table I",
    judge: |data| {
        let mut most = (f64::NEG_INFINITY, String::new());
        for kernel in measured(data, |kernel| format!("{kernel} reliable")) {
            for ranks in TABLE_RANKS {
                let of = |side: &str| data.at(&format!("{kernel} {side}"), ranks.into());
                let (reliable, normal) = (of("reliable")?, of("normal")?);
                if reliable - normal > most.0 {
                    let words =
                        format!("{kernel} at {ranks} ranks: {reliable:.2} MB beside {normal:.2}");
                    most = (reliable - normal, words);
                }
            }
        }
        found_one(most.0 <= MORE_MB, most)
    },
    expect: Expect::Holds,
}];

/// Section VI-D.
pub const RECOVERY: &[Claim] = &[
    Claim {
        text: "a reconnection due to a queue pair error takes 0.335 s on average (asked: no more)",
        place: "section VI-D",
        judge: |data| {
            let mean = data.at("mean of queue pair", 0)?;
            let of = data.at("failures of queue pair", 0)?;
            verdict(mean <= MEAN_US, format!("{mean:.0} us of {of:.0} failures"))
        },
        expect: Expect::Holds,
    },
    Claim {
        text: "that is faster than a standard multi-second time-out within the MPI library (asked: p99 below 2 s)",
        place: "section VI-D",
        judge: |data| {
            let p99 = data.at("us queue pair: first message", 99)?;
            verdict(p99 < SECONDS_US, format!("p99 {p99:.0} us"))
        },
        expect: Expect::Holds,
    },
    Claim {
        text: "a job survives a failure of the network: messages go on behind a link's return (asked: p99 below 2 s, here and there)",
        place: "section IV-B, 1",
        judge: |data| {
            let mut all = Everywhere::new();
            for end in ["here", "there"] {
                let p99 = data.at(&format!("us link {end}: message"), 99)?;
                let found = format!("{end} p99 {p99:.0} us behind datagrams both ways");
                all.ask(p99 < SECONDS_US, found);
            }
            all.judgement()
        },
        expect: Expect::Holds,
    },
    Claim {
        text: "a job survives a fatal event of the adapter, which is opened again",
        place: "section IV-B, 2",
        judge: |data| {
            let share = data.at("jobs that go on with adapter fatal", 0)?;
            verdict(
                share >= 1.0,
                format!("{:.0} % of the jobs go on", share * 100.0),
            )
        },
        expect: Expect::Holds,
    },
];

const fn printed(series: &'static str, x: u64, value: f64) -> Printed {
    Printed {
        series,
        x,
        value: Some(value),
    }
}

/// What Table I prints, at 256 ranks: the kernels of NAS that are among ours by their kind.
pub const PRINTED_1: &[Printed] = &[
    printed("sort reliable", 256, 0.01),
    printed("sort normal", 256, 0.01),
    printed("FFT reliable", 256, 0.07),
    printed("FFT normal", 256, 0.07),
];

/// What section VI-D prints.
pub const PRINTED_RECOVERY: &[Printed] = &[printed("mean of queue pair", 0, MEAN_US)];

/// The worst of several, of which there has to be one.
fn found_one(holds: bool, (value, found): (f64, String)) -> Judged {
    match value.is_finite() {
        true => verdict(holds, found),
        false => Err(Missing("no figure of any".to_owned())),
    }
}

/// Whether an overhead of more than `most` is shown: by the mean, and by each run that counts.
fn is_shown(point: &Point, most: f64) -> bool {
    point.mean > most && point.lowest > 1.0
}

fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

fn no_overhead(data: &Data, what: &str) -> Judged {
    let mut shown = Vec::new();
    let mut worst = (f64::NEG_INFINITY, String::new());
    for (protocol, _) in PROTOCOLS {
        for point in data.between(&format!("{what} ratio {protocol}"), 1, u64::MAX)? {
            let words = format!("{protocol} at {} B {}", point.x, percent(point.mean));
            if is_shown(point, OVERHEAD) {
                shown.push(words.clone());
            }
            if point.mean > worst.0 {
                worst = (point.mean, words);
            }
        }
    }
    match shown.is_empty() {
        true => verdict(true, format!("at most {}", worst.1)),
        false => verdict(false, shown.join(", ")),
    }
}

/// The kernels that were measured, of which HPC Challenge's may not be there.
fn measured(data: &Data, series: impl Fn(&str) -> String) -> Vec<&'static str> {
    let all = data.series();
    let mut kernels = KERNELS.to_vec();
    kernels.retain(|kernel| all.contains(&series(kernel).as_str()));
    kernels
}

fn kernels_cost(data: &Data, protocol: &str, most: f64) -> Judged {
    let mut all = Everywhere::new();
    for point in data.between(&format!("ratio {protocol}"), 1, u64::MAX)? {
        let name = KERNELS.get(point.x as usize - 1).unwrap_or(&"?");
        let found = format!("{name} {}", percent(point.mean));
        all.ask(!is_shown(point, most), found);
    }
    all.judgement()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(rows: &[(&str, u64, f64, f64)]) -> Data {
        let rows = rows
            .iter()
            .map(|(series, x, mean, lowest)| format!("{series},{x},{mean},{lowest},9,8\n"));
        let csv = format!(
            "series,x,mean,lowest,highest,runs\n{}",
            rows.collect::<String>()
        );
        Data::parse(&csv).expect("rows")
    }

    #[test]
    fn an_overhead_is_shown_by_the_mean_and_by_every_run() {
        let judged = |mean, lowest| {
            let rows = PROTOCOLS.map(|(protocol, _)| format!("latency ratio {protocol}"));
            let rows = rows.each_ref().map(|series| (&**series, 8, 1.0, 0.99));
            let mut rows = rows.to_vec();
            rows.push(("latency ratio RGet", 64, mean, lowest));
            no_overhead(&data(&rows), "latency").expect("all is there")
        };
        assert!(judged(1.014, 1.013).holds && judged(1.05, 0.999).holds);
        let shown = judged(1.05, 1.01);
        assert!(
            !shown.holds && shown.found == "RGet at 64 B +5.0 %",
            "{}",
            shown.found
        );
        assert!(no_overhead(&data(&[("latency ratio RPut", 1, 1.0, 1.0)]), "latency").is_err());
    }

    #[test]
    fn the_kernel_that_holds_most_decides() {
        let rows = |more| {
            data(&[
                ("sort reliable", 8, 1.0, 1.0),
                ("sort normal", 8, 0.9, 0.9),
                ("sort reliable", 16, 1.0 + more, 1.0),
                ("sort normal", 16, 1.0, 1.0),
            ])
        };
        let judge = TABLE_1[0].judge;
        assert!(judge(&rows(0.44)).expect("all is there").holds);
        let more = judge(&rows(0.5)).expect("all is there");
        assert!(!more.holds && more.found.starts_with("sort at 16 ranks"));
        assert!(judge(&Data::default()).is_err());
    }
}
