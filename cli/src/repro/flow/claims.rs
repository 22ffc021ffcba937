//! What papers/004 claims of its figures, in numbers.
//!
//! Owns: the judges. Must not know: how the data were measured.

use crate::repro::data::{Data, Missing};
use crate::repro::judging::{Everywhere, Judged, verdict};
use crate::repro::registry::{Claim, Expect};

/// Lengths for which the paper claims "almost an order of magnitude", bytes.
const MEDIUM: (u64, u64) = (256, 4096);

/// The parts of these that are judged apart.
const SHORT: (u64, u64) = (256, 512);
const LONG: (u64, u64) = (1024, 4096);

const PROCESSOR_CARRIES: &str = "in software the processor carries every byte of a packet: no flow control passes about 1 GB/s here, and credit comes near half of that with 4 KiB";

const SENT_AGAIN: &str = "a segment that meets no receive comes back as RNR NAK, and what stands behind it is sent again after 10 us or more, by the processor; \
    an adapter in hardware spends none of the program's time on it";

const CREDIT_STARTS_BEHIND: &str = "without computation credit needs about twice ring's time for the messages here, which the time that ring loses makes up for only near 2,000 us";

/// Figure 6(a).
pub const LATENCY: &[Claim] = &[Claim {
    text: "the latencies of the three flow controls are within 10 % of each other at every length",
    place: "section 6.2.1",
    judge: latencies_are_alike,
    expect: Expect::Holds,
}];

/// Figure 6(b).
pub const BANDWIDTH: &[Claim] = &[
    Claim {
        text: "ring carries at least 5 times as much as credit at 256 and 512 B",
        place: "section 6.2.1",
        judge: |data| is_faster(data, "ring", SHORT),
        expect: Expect::Holds,
    },
    Claim {
        text: "nic carries at least 5 times as much as credit at 256 and 512 B",
        place: "section 6.2.1",
        judge: |data| is_faster(data, "nic", SHORT),
        expect: Expect::Holds,
    },
    Claim {
        text: "ring carries at least 5 times as much as credit at 1 KiB, and twice as much at 2 and 4 KiB",
        place: "section 6.2.1",
        judge: |data| is_faster(data, "ring", LONG),
        expect: Expect::Not(PROCESSOR_CARRIES),
    },
    Claim {
        text: "nic carries at least 5 times as much as credit at 1 KiB, and twice as much at 2 and 4 KiB",
        place: "section 6.2.1",
        judge: |data| is_faster(data, "nic", LONG),
        expect: Expect::Not(PROCESSOR_CARRIES),
    },
    Claim {
        text: "nic carries as much as ring, within 10 %, from 256 B to 4 KiB",
        place: "section 6.2.1",
        judge: nic_is_as_fast_as_ring,
        expect: Expect::Not(SENT_AGAIN),
    },
];

/// Figure 8.
pub const PROGRESS: &[Claim] = &[
    Claim {
        text: "without computation credit is the slowest",
        place: "section 6.2.2",
        judge: credit_is_slowest_at_once,
        expect: Expect::Holds,
    },
    Claim {
        text: "ring deteriorates with computation: a us of it costs at least 1.3 times what it costs credit",
        place: "section 6.2.2",
        judge: ring_deteriorates,
        expect: Expect::Holds,
    },
    Claim {
        text: "ring falls behind credit with much computation (in the paper beyond 1,000 us)",
        place: "section 6.2.2",
        judge: ring_falls_behind,
        expect: Expect::Not(CREDIT_STARTS_BEHIND),
    },
    Claim {
        text: "nic scales with computation as credit does",
        place: "section 6.2.2",
        judge: nic_scales_as_credit,
        expect: Expect::Holds,
    },
];

/// Figure 9.
pub const BUFFER_USE: &[Claim] = &[
    Claim {
        text: "with 8 x 8 KiB ring is at its peak from 512 B on",
        place: "section 6.2.3",
        judge: |data| peaks_early(data, "ring 8x8K"),
        expect: Expect::Holds,
    },
    Claim {
        text: "with 8 x 8 KiB nic is at its peak from 512 B on",
        place: "section 6.2.3",
        judge: |data| peaks_early(data, "nic 8x8K"),
        expect: Expect::Holds,
    },
    Claim {
        text: "with 8 x 8 KiB credit fills its buffers (80 % and more, in the mean) with messages of 8 KiB only",
        place: "section 6.2.3",
        judge: credit_fills_whole_buffers_only,
        expect: Expect::Holds,
    },
    Claim {
        text: "with 8 x 32 KiB credit uses at most 25 %",
        place: "section 6.2.3",
        judge: credit_leaves_long_buffers_empty,
        expect: Expect::Holds,
    },
    Claim {
        text: "from 512 B to 2 KiB ring and nic use at least twice what credit uses, with both lengths of buffers",
        place: "section 6.2.3",
        judge: others_use_more,
        expect: Expect::Holds,
    },
];

/// Figure 10.
pub const APPLICATIONS: &[Claim] = &[
    Claim {
        text: "the virtual microscope is about 1.1 times as fast with ring and nic as with credit (asked: 1.05)",
        place: "section 6.3",
        judge: |data| applications_gain(data, "microscope", 1.05),
        expect: Expect::Holds,
    },
    Claim {
        text: "isosurface rendering is about 1.2 times as fast with ring and nic as with credit (asked: 1.1)",
        place: "section 6.3",
        judge: |data| applications_gain(data, "isosurface", 1.1),
        expect: Expect::Holds,
    },
    Claim {
        text: "ring and nic are equally fast in both applications (asked: within 10 % in the mean over sizes)",
        place: "section 6.3",
        judge: applications_are_alike,
        expect: Expect::Holds,
    },
];

fn latencies_are_alike(data: &Data) -> Judged {
    let mut all = Everywhere::new();
    for point in data.between("credit", 0, u64::MAX)? {
        let x = point.x;
        let three = [point.mean, data.at("ring", x)?, data.at("nic", x)?];
        let (low, high) = extremes(&three);
        let ratio = high / low;
        all.ask(
            ratio <= 1.10,
            format!("{:.0} % at {x}", (ratio - 1.0) * 100.0),
        );
    }
    all.judgement()
}

fn extremes(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    (low, values.iter().copied().fold(0.0, f64::max))
}

fn is_faster(data: &Data, series: &str, lengths: (u64, u64)) -> Judged {
    let mut all = Everywhere::new();
    for point in data.between(series, lengths.0, lengths.1)? {
        let times = point.mean / data.at("credit", point.x)?;
        let asked = if point.x <= 1024 { 5.0 } else { 2.0 };
        all.ask(times >= asked, format!("{times:.1}x at {}", point.x));
    }
    all.judgement()
}

fn nic_is_as_fast_as_ring(data: &Data) -> Judged {
    let mut all = Everywhere::new();
    for point in data.between("nic", MEDIUM.0, MEDIUM.1)? {
        let times = point.mean / data.at("ring", point.x)?;
        all.ask(
            (0.9..=1.1).contains(&times),
            format!("{times:.2}x at {}", point.x),
        );
    }
    all.judgement()
}

fn credit_is_slowest_at_once(data: &Data) -> Judged {
    let [credit, ring, nic] = [
        data.at("credit", 0)?,
        data.at("ring", 0)?,
        data.at("nic", 0)?,
    ];
    verdict(
        credit > ring && credit > nic,
        format!("credit {credit:.0} us, ring {ring:.0}, nic {nic:.0}"),
    )
}

/// The longest computation that was measured.
fn longest(data: &Data) -> Result<u64, Missing> {
    let points = data.between("credit", 1, u64::MAX)?;
    Ok(points.iter().map(|point| point.x).max().unwrap_or(0))
}

fn ring_deteriorates(data: &Data) -> Judged {
    let [credit, ring] = [slope(data, "credit")?, slope(data, "ring")?];
    verdict(
        ring >= 1.3 * credit,
        format!("a us of computation costs ring {ring:.2} us and credit {credit:.2}"),
    )
}

/// Ahead without computation, behind from some place on to the last.
fn ring_falls_behind(data: &Data) -> Judged {
    let mut behind = None;
    let mut last = String::new();
    for point in data.between("ring", 0, longest(data)?)? {
        let credit = data.at("credit", point.x)?;
        let is_behind = point.mean > credit;
        behind = is_behind.then(|| behind.unwrap_or(point.x));
        last = format!(
            "ring {:.0} us and credit {credit:.0} at {}",
            point.mean, point.x
        );
    }
    let at = behind.map_or("not behind".to_owned(), |x| {
        format!("behind from {x} us on")
    });
    verdict(behind.is_some_and(|x| x > 0), format!("{at}; {last}"))
}

/// What a us of computation costs, us: the slope of the line of least squares.
fn slope(data: &Data, series: &str) -> Result<f64, Missing> {
    let points = data.between(series, 0, longest(data)?)?;
    let count = points.len() as f64;
    let mean_x = points.iter().map(|point| point.x as f64).sum::<f64>() / count;
    let mean_y = points.iter().map(|point| point.mean).sum::<f64>() / count;
    let (mut up, mut along) = (0.0, 0.0);
    for point in points {
        let x = point.x as f64 - mean_x;
        up += x * (point.mean - mean_y);
        along += x * x;
    }
    Ok(up / along)
}

fn nic_scales_as_credit(data: &Data) -> Judged {
    let [credit, nic] = [slope(data, "credit")?, slope(data, "nic")?];
    verdict(
        nic <= 1.15 * credit,
        format!("a us of computation costs nic {nic:.2} us and credit {credit:.2}"),
    )
}

fn peaks_early(data: &Data, series: &str) -> Judged {
    let all = data.between(series, 0, u64::MAX)?;
    let peak = all.iter().map(|point| point.mean).fold(0.0, f64::max);
    let late = data.between(series, 512, 8192)?;
    let least = late
        .iter()
        .map(|point| point.mean)
        .fold(f64::INFINITY, f64::min);
    let worst = late
        .iter()
        .find(|point| point.mean <= least)
        .map_or(0, |point| point.x);
    verdict(
        least >= 0.9 * peak && peak > 0.0,
        format!("peak {peak:.0} %, least from 512 B on {least:.0} % (at {worst})"),
    )
}

fn credit_fills_whole_buffers_only(data: &Data) -> Judged {
    let mut all = Everywhere::new();
    for point in data.between("credit 8x8K", 1024, 8192)? {
        let is_full = point.mean >= 80.0;
        all.ask(
            is_full == (point.x == 8192),
            format!("{:.0} % at {}", point.mean, point.x),
        );
    }
    all.judgement()
}

fn credit_leaves_long_buffers_empty(data: &Data) -> Judged {
    let points = data.between("credit 8x32K", 0, 8192)?;
    let most = points.iter().map(|point| point.mean).fold(0.0, f64::max);
    verdict(most <= 25.5, format!("at most {most:.1} %"))
}

fn others_use_more(data: &Data) -> Judged {
    let mut all = Everywhere::new();
    for buffers in ["8x8K", "8x32K"] {
        for point in data.between(&format!("credit {buffers}"), 512, 2048)? {
            for kind in ["ring", "nic"] {
                let name = format!("{kind} {buffers}");
                let times = data.at(&name, point.x)? / point.mean;
                all.ask(times >= 2.0, format!("{name} {times:.1}x at {}", point.x));
            }
        }
    }
    all.judgement()
}

/// Mean over the data set's sizes of credit's time over that of another.
fn gain(data: &Data, application: &str, kind: &str) -> Result<f64, Missing> {
    let credit = data.between(&format!("credit {application}"), 0, u64::MAX)?;
    let mut sum = 0.0;
    for point in &credit {
        sum += point.mean / data.at(&format!("{kind} {application}"), point.x)?;
    }
    Ok(sum / credit.len() as f64)
}

fn applications_gain(data: &Data, application: &str, asked: f64) -> Judged {
    let [ring, nic] = [
        gain(data, application, "ring")?,
        gain(data, application, "nic")?,
    ];
    verdict(
        ring >= asked && nic >= asked,
        format!("ring {ring:.2}x, nic {nic:.2}x of credit, in the mean over sizes"),
    )
}

fn applications_are_alike(data: &Data) -> Judged {
    let mut all = Everywhere::new();
    for application in ["microscope", "isosurface"] {
        let [ring, nic] = [
            gain(data, application, "ring")?,
            gain(data, application, "nic")?,
        ];
        let ratio = nic / ring;
        all.ask(
            (0.9..=1.1).contains(&ratio),
            format!("{application}: nic {ratio:.2}x of ring"),
        );
    }
    all.judgement()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repro::data::Samples;

    /// Data by a function of series and place.
    fn data(series: &[&str], places: &[u64], value: impl Fn(&str, u64) -> f64) -> Data {
        let mut samples = Samples::default();
        for &x in places {
            for name in series {
                samples.add(name, x, value(name, x));
            }
        }
        samples.data()
    }

    const THREE: [&str; 3] = ["credit", "ring", "nic"];

    /// Which of the claims hold.
    fn verdicts(claims: &[Claim], data: &Data) -> Vec<bool> {
        let judged = claims.iter().map(|claim| (claim.judge)(data));
        judged
            .map(|judged| judged.is_ok_and(|judgement| judgement.holds))
            .collect()
    }

    #[test]
    fn latencies_may_differ_by_a_tenth_anywhere() {
        let figure = |worst: f64| {
            data(&THREE, &[1, 64, 4096], |name, x| match (name, x) {
                ("nic", 64) => 10.0 * worst,
                _ => 10.0,
            })
        };
        assert_eq!(verdicts(LATENCY, &figure(1.09)), [true]);
        assert_eq!(verdicts(LATENCY, &figure(1.11)), [false]);
        assert_eq!(verdicts(LATENCY, &figure(0.90)), [false]);
    }

    #[test]
    fn bandwidth_turns_when_others_carry_no_more_than_credit() {
        let figure = |ring: [f64; 2], nic: f64| {
            data(&THREE, &[64, 256, 1024, 4096, 65_536], |name, x| {
                match (name, x) {
                    ("ring", 256..=1024) => ring[0],
                    ("ring", 4096) => ring[1],
                    ("nic", 256..=1024) => ring[0] * nic,
                    ("nic", 4096) => ring[1] * nic,
                    _ => 1.0,
                }
            })
        };
        let judged = |ring, nic| verdicts(BANDWIDTH, &figure(ring, nic));
        assert_eq!(judged([6.0, 2.5], 1.0), [true; 5]);
        assert_eq!(judged([1.0, 1.0], 1.0), [false, false, false, false, true]);
        // each length counts
        assert_eq!(judged([6.0, 1.9], 1.0), [true, true, false, false, true]);
        assert_eq!(judged([4.9, 2.5], 1.0), [false, false, false, false, true]);
        assert_eq!(judged([6.0, 2.5], 0.8), [true, false, true, false, false]);
        assert_eq!(judged([6.0, 2.5], 1.2), [true, true, true, true, false]);
    }

    /// A round of bursts: what it costs at once, and what a us of computation costs.
    fn progress(credit: [f64; 2], ring: [f64; 2], nic: [f64; 2]) -> Vec<bool> {
        let places = [0, 500, 1000, 1500, 2000];
        let figure = data(&THREE, &places, |name, x| {
            let line = match name {
                "credit" => credit,
                "ring" => ring,
                _ => nic,
            };
            line[0] + line[1] * x as f64
        });
        verdicts(PROGRESS, &figure)
    }

    #[test]
    fn progress_is_judged_by_where_lines_begin_and_how_steep_they_are() {
        let credit = [1000.0, 1.0];
        assert_eq!(progress(credit, [500.0, 2.0], [500.0, 1.0]), [true; 4]);
        // each of the two others must be faster at once
        assert_eq!(
            progress(credit, [1001.0, 2.0], [500.0, 1.0]),
            [false, true, false, true]
        );
        assert_eq!(
            progress(credit, [500.0, 2.0], [1001.0, 1.0]),
            [false, true, true, true]
        );
        // steeper, but never behind; behind, but hardly steeper
        assert_eq!(
            progress(credit, [100.0, 1.4], [500.0, 1.0]),
            [true, true, false, true]
        );
        assert_eq!(
            progress(credit, [900.0, 1.2], [500.0, 1.0]),
            [true, false, true, true]
        );
        assert_eq!(
            progress(credit, [500.0, 2.0], [500.0, 2.0]),
            [true, true, true, false]
        );
    }

    const BUFFERS: [&str; 6] = [
        "credit 8x8K",
        "ring 8x8K",
        "nic 8x8K",
        "credit 8x32K",
        "ring 8x32K",
        "nic 8x32K",
    ];

    fn buffers(change: impl Fn(&str, u64) -> Option<f64>) -> Vec<bool> {
        let places = [64, 256, 512, 1024, 2048, 4096, 8192];
        let figure = data(&BUFFERS, &places, |name, x| {
            let usual = match name {
                "credit 8x8K" => x as f64 / 81.92,
                "credit 8x32K" => x as f64 / 327.68,
                _ => (x as f64 / 5.12).min(98.0),
            };
            change(name, x).unwrap_or(usual)
        });
        verdicts(BUFFER_USE, &figure)
    }

    #[test]
    fn use_of_buffers_is_judged_at_each_length() {
        assert_eq!(buffers(|_, _| None), [true; 5]);
        let dip = |of: &'static str, at, to| {
            buffers(move |name, x| (name == of && x == at).then_some(to))
        };
        assert_eq!(dip("ring 8x8K", 512, 80.0), [false, true, true, true, true]);
        assert_eq!(dip("nic 8x8K", 8192, 80.0), [true, false, true, true, true]);
        assert_eq!(
            dip("credit 8x8K", 8192, 70.0),
            [true, true, false, true, true]
        );
        assert_eq!(
            dip("credit 8x8K", 4096, 95.0),
            [true, true, false, true, true]
        );
        assert_eq!(
            dip("credit 8x32K", 8192, 30.0),
            [true, true, true, false, true]
        );
        assert_eq!(dip("nic 8x32K", 2048, 7.0), [true, true, true, true, false]);
        assert_eq!(dip("ring 8x8K", 64, 99.0), [true; 5]);
    }

    #[test]
    fn without_joining_buffers_are_used_as_in_credit() {
        let as_credit = |name: &str, x: u64| {
            let is_other = name.ends_with("8x8K") && !name.starts_with("credit");
            is_other.then(|| x as f64 / 81.92)
        };
        assert_eq!(buffers(as_credit), [false, false, true, true, false]);
    }

    #[test]
    fn applications_are_judged_by_the_mean_over_sizes() {
        let names = [
            "credit microscope",
            "ring microscope",
            "nic microscope",
            "credit isosurface",
            "ring isosurface",
            "nic isosurface",
        ];
        let figure = |microscope: f64, isosurface: f64, nic: f64| {
            let figure = data(&names, &[4, 8], |name, x| {
                let times = if name.ends_with("microscope") {
                    microscope
                } else {
                    isosurface
                };
                let credit = 100.0 * x as f64;
                match name.split(' ').next() {
                    Some("ring") => credit / times,
                    Some("nic") => credit / times / nic,
                    _ => credit,
                }
            });
            verdicts(APPLICATIONS, &figure)
        };
        assert_eq!(figure(1.1, 1.2, 1.0), [true; 3]);
        assert_eq!(figure(1.02, 1.2, 1.0), [false, true, true]);
        assert_eq!(figure(1.1, 1.05, 1.0), [true, false, true]);
        assert_eq!(figure(1.5, 1.5, 0.85), [true, true, false]);
    }

    #[test]
    fn a_figure_without_data_holds_no_claim() {
        for claims in [LATENCY, BANDWIDTH, PROGRESS, BUFFER_USE, APPLICATIONS] {
            assert!(
                verdicts(claims, &Data::default())
                    .iter()
                    .all(|holds| !holds)
            );
        }
    }
}
