//! The experiments of papers/003, section VI: what is measured, how often.
//!
//! Owns: lengths, counts, the order of the runs. What is compared takes turns within one run of the
//! program (`turns.h`): acknowledgements are switched while it runs, and without them nothing can
//! heal. Must not know: what the paper claims.

use super::flaps::{self, End, Flaps};
use super::jobs::{Figures, Job, Jobs, Kernels};
use crate::args::ReproWire;
use crate::demo::runner::{Place, run_single_at};
use crate::failure::Failure;
use crate::launch;
use crate::netns::{DEVICE, TwoHosts};
use crate::progress::Progress;
use crate::repro::data::{Data, Samples};
use crate::repro::hosts::hosts;
use crate::repro::registry::Options;
use std::thread;
use std::time::Duration;

/// How long messages go: the paper's two rendezvous protocols, and ours between hosts.
pub const PROTOCOLS: [(&str, &str); 3] = [
    ("RPut", "rndv=put"),
    ("RGet", "rndv=get"),
    ("lane", "rndv=send"),
];
/// What the series of acknowledged protocols are called behind the protocol's name.
pub const RESILIENT: &str = "-Rel";
/// Kernels, in the order of `kernels.c`; figure 5 numbers them from 1 on.
pub const KERNELS: [&str; 5] = ["sort", "HPL", "PTRANS", "RandomAccess", "FFT"];
/// Ranks of Table I.
pub const TABLE_RANKS: [u32; 2] = [8, 16];
/// Percentiles of the recovery.
pub const PERCENTILES: [u64; 3] = [50, 90, 99];
/// The parts of a heal, as the program calls them.
pub const PARTS: [&str; 4] = ["detect", "fence", "reconnect", "replay"];

/// What is measured, and what the program calls it.
const FIGURE_4: [(&str, &str); 3] = [
    ("latency", "latency"),
    ("bandwidth", "message"),
    ("both ways", "both"),
];

/// The jobs of an experiment by the wire that is asked for: between two hosts, or on this one.
fn jobs(options: &Options) -> Result<Jobs<'static>, Failure> {
    Jobs::new(match options.wire {
        ReproWire::Packets => Some(hosts()?),
        ReproWire::Direct => None,
    })
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

/// A figure that the program has to have printed.
pub fn of(figures: &Figures, name: &str, number: u64) -> Result<f64, Failure> {
    let key = format!("{name}/{number}");
    let found = figures.get(&key).copied();
    found.ok_or_else(|| Failure::new(format!("the program printed no {key}")))
}

/// All that the program has printed of a name.
pub fn all_of(figures: &Figures, name: &str) -> Vec<f64> {
    let named = figures.iter().filter_map(|(key, figure)| {
        let (of, _) = key.split_once('/')?;
        (of == name).then_some(*figure)
    });
    named.collect()
}

/// The value that so many percent of all are not above; there is one at least.
pub fn percentile(mut values: Vec<f64>, percent: u64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let rank = (values.len() * percent as usize).div_ceil(100);
    values.get(rank.saturating_sub(1)).copied()
}

/// Steps of [`sizes`].
pub fn sizes_steps(options: &Options) -> u64 {
    u64::from(options.runs) * PROTOCOLS.len() as u64
}

/// Figure 4, and bandwidth both ways.
pub fn sizes(options: &Options, progress: &Progress) -> Result<Data, Failure> {
    let (segments, longest) = match options.is_quick {
        true => ("2", 1 << 16),
        false => ("40", 1 << 20),
    };
    let jobs = jobs(options)?;
    let mut samples = Samples::default();
    for run in 1..=options.runs {
        for (protocol, setting) in PROTOCOLS {
            progress.step(&format!("run {run}/{}: {protocol}", options.runs));
            let found = jobs.run(&Job {
                ranks: 2,
                settings: &[setting],
                words: words(["sizes", segments, &longest.to_string()]),
            })?;
            let lengths = (0..).map(|power| 1_u64 << (2 * power));
            for bytes in lengths.take_while(|bytes| *bytes <= longest) {
                add_sizes(&mut samples, &found, protocol, bytes)?;
            }
        }
    }
    Ok(samples.data())
}

fn add_sizes(
    samples: &mut Samples,
    found: &Figures,
    protocol: &str,
    bytes: u64,
) -> Result<(), Failure> {
    for (name, key) in FIGURE_4 {
        for (side, rel) in [("without", ""), ("with", RESILIENT)] {
            let seconds = of(found, &format!("{key}-{side}"), bytes)?;
            let (unit, value) = match name {
                "latency" => ("us", seconds * 1e6),
                "bandwidth" => ("MB/s", bytes as f64 / seconds / 1e6),
                _ => ("MB/s both ways", bytes as f64 / seconds / 1e6),
            };
            samples.add(&format!("{unit} {protocol}{rel}"), bytes, value);
        }
        let ratio = of(found, &format!("{key}-ratio"), bytes)?;
        samples.add(&format!("{name} ratio {protocol}"), bytes, ratio);
    }
    Ok(())
}

/// Steps of [`kernels`].
pub fn kernels_steps(options: &Options) -> u64 {
    sizes_steps(options)
}

/// Repetitions of a kernel, and the keys of a rank that are sorted.
fn kernel_words(what: &str, options: &Options, whole: u32) -> Vec<String> {
    let (repetitions, keys) = match options.is_quick {
        true => (1, 10_000),
        false => (whole, 200_000),
    };
    vec![what.to_owned(), repetitions.to_string(), keys.to_string()]
}

/// Which kernels there are.
fn built(
    jobs: &Jobs<'_>,
    options: &Options,
) -> Result<(Kernels, &'static [&'static str]), Failure> {
    let kernels = jobs.kernels(!options.is_quick)?;
    let names = match kernels.has_hpcc {
        true => &KERNELS[..],
        false => &KERNELS[..1],
    };
    if !kernels.has_hpcc && !options.is_quick {
        complain!(
            "HPC Challenge is not built (make test-apps fetches it): its kernels are left out"
        );
    }
    Ok((kernels, names))
}

/// Figure 5: a rank on each host, so that each has a core.
pub fn kernels(options: &Options, progress: &Progress) -> Result<Data, Failure> {
    let jobs = jobs(options)?;
    let (kernels, names) = built(&jobs, options)?;
    let mut samples = Samples::default();
    let ranks = 2;
    for run in 1..=options.runs {
        for (protocol, setting) in PROTOCOLS {
            progress.step(&format!("run {run}/{}: {protocol}", options.runs));
            let found = jobs.run_kernels(
                &kernels,
                &Job {
                    ranks,
                    settings: &[setting],
                    words: kernel_words("times", options, 40),
                },
            )?;
            for (number, name) in (1..).zip(names) {
                let get = |what: &str| of(&found, &format!("{name}-{what}"), ranks.into());
                let plain = format!("ms {protocol}");
                samples.add(&plain, number, get("without")? * 1e3);
                let resilient = format!("ms {protocol}{RESILIENT}");
                samples.add(&resilient, number, get("with")? * 1e3);
                samples.add(&format!("ratio {protocol}"), number, get("ratio")?);
            }
        }
    }
    Ok(samples.data())
}

/// Steps of [`buffers`].
pub fn buffers_steps(options: &Options) -> u64 {
    u64::from(options.runs) * 2 * TABLE_RANKS.len() as u64
}

/// Table I: all peers by verbs, those of the same host, too. Each kernel is a job of its own, for
/// what one has made stays.
pub fn buffers(options: &Options, progress: &Progress) -> Result<Data, Failure> {
    let jobs = jobs(options)?;
    let (kernels, names) = built(&jobs, options)?;
    let mut samples = Samples::default();
    for run in 1..=options.runs {
        for ranks in TABLE_RANKS {
            for (side, setting) in [("reliable", "acks=1"), ("normal", "acks=0")] {
                progress.step(&format!(
                    "run {run}/{}: {ranks} ranks, {side}",
                    options.runs
                ));
                for name in names {
                    let mut words = kernel_words("buffers", options, 1);
                    words.push((*name).to_owned());
                    let job = Job {
                        ranks,
                        settings: &[setting],
                        words,
                    };
                    let found = jobs.run_kernels(&kernels, &job)?;
                    let bytes = of(&found, name, ranks.into())?;
                    samples.add(&format!("{name} {side}"), ranks.into(), bytes / 1e6);
                }
            }
        }
    }
    Ok(samples.data())
}

/// Steps of [`recovery`].
pub fn recovery_steps(options: &Options) -> u64 {
    u64::from(options.runs) * 2 + 2
}

/// Section VI-D: from a failure to the first message, and what that is made of.
pub fn recovery(options: &Options, progress: &Progress) -> Result<Data, Failure> {
    let own = jobs(options)?;
    let mut samples = Samples::default();
    let count = if options.is_quick { "5" } else { "100" };
    let mut found: Vec<Figures> = Vec::new();
    for run in 1..=options.runs {
        progress.step(&format!("run {run}/{}: queue pairs fail", options.runs));
        found.push(own.run(&Job {
            ranks: 2,
            settings: &[],
            words: words(["breaks", count]),
        })?);
    }
    let all = |name: &str| found.iter().flat_map(|run| all_of(run, name)).collect();
    add_percentiles(&mut samples, "first connection", all("connection"));
    add_percentiles(&mut samples, "queue pair: first message", all("first"));
    for part in PARTS {
        add_percentiles(&mut samples, &format!("queue pair: {part}"), all(part));
    }
    let first: Vec<f64> = all("first");
    let mean = first.iter().sum::<f64>() / first.len().max(1) as f64;
    samples.add("mean of queue pair", 0, mean * 1e6);
    samples.add("failures of queue pair", 0, first.len() as f64);
    drop(own);
    let hosts = hosts()?;
    let jobs = Jobs::new(Some(hosts))?;
    for (name, end) in [("here", End::Here), ("there", End::There)] {
        progress.step(&format!("the link flaps {name}"));
        let times = if options.is_quick { 2 } else { 50 };
        let down = Duration::from_millis(10);
        let returned = flaps::run(&jobs, hosts, Flaps { end, down, times })?;
        let each = |of: fn(&flaps::Return) -> Option<f64>| -> Vec<f64> {
            returned.iter().filter_map(of).map(|ns| ns / 1e9).collect()
        };
        let series = |what: &str| format!("link {name}: {what}");
        let datagram = each(|seen| Some(seen.datagram));
        add_percentiles(&mut samples, &series("datagram"), datagram);
        let message = each(|seen| Some(seen.message));
        add_percentiles(&mut samples, &series("message"), message);
        add_percentiles(&mut samples, &series("TCP"), each(|seen| seen.tcp));
    }
    for run in 1..=options.runs {
        progress.step(&format!("run {run}/{}: the adapter fails", options.runs));
        let goes_on = fails_fatally(&jobs, hosts, options)?;
        samples.add(
            "jobs that go on with adapter fatal",
            0,
            f64::from(u8::from(goes_on)),
        );
    }
    Ok(samples.data())
}

/// In us; a percentile of 0 is drawn nowhere, so what is less than 0.1 us counts as that.
fn add_percentiles(samples: &mut Samples, series: &str, seconds: Vec<f64>) {
    for percent in PERCENTILES {
        if let Some(value) = percentile(seconds.clone(), percent) {
            samples.add(&format!("us {series}"), percent, (value * 1e6).max(0.1));
        }
    }
}

/// The adapter of the first host fails under a job, and can be opened again at once: whether the
/// job goes on.
fn fails_fatally(
    jobs: &Jobs<'_>,
    hosts: &'static TwoHosts,
    options: &Options,
) -> Result<bool, Failure> {
    let path = jobs.path("fatal");
    let _ = std::fs::remove_file(&path);
    let seconds = if options.is_quick { "1.5" } else { "3" };
    let exe = launch::ferriband()?.display().to_string();
    thread::scope(|scope| {
        let begun = path.clone();
        let failing = scope.spawn(move || {
            for _ in 0..1000 {
                if begun.exists() {
                    break;
                }
                thread::sleep(Duration::from_millis(10));
            }
            thread::sleep(Duration::from_millis(300));
            let line = [&exe, "fault", "fatal", DEVICE, "--for", "10ms"];
            let line = line.map(str::to_owned).to_vec();
            run_single_at(Place::Hosts(hosts), &line, Duration::from_secs(10))
        });
        let ran = jobs.run(&Job {
            ranks: 2,
            settings: &[],
            words: words(["steady", seconds, &path.display().to_string()]),
        });
        let failed = failing.join();
        let failed = failed.map_err(|_| Failure::new("a thread has failed"))??;
        match failed.is_fine() {
            true => Ok(ran.is_ok()),
            false => Err(Failure::new(format!("no adapter failed: {}", failed.text))),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_value_that_was_seen() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(percentile(values.clone(), 50), Some(100.0));
        assert_eq!(percentile(values.clone(), 99), Some(198.0));
        assert_eq!(percentile(values, 100), Some(200.0));
        assert_eq!(percentile(vec![3.0], 99), Some(3.0));
        assert_eq!(percentile(vec![], 50), None);
    }

    #[test]
    fn figures_of_one_name_are_not_those_of_another() {
        let figures = [("first/0", 1.0), ("first/10", 2.0), ("fence/0", 3.0)];
        let figures: Figures = figures.map(|(key, figure)| (key.to_owned(), figure)).into();
        assert_eq!(all_of(&figures, "first"), [1.0, 2.0]);
        assert_eq!(of(&figures, "fence", 0).ok(), Some(3.0));
        assert!(of(&figures, "fence", 1).is_err());
    }
}
