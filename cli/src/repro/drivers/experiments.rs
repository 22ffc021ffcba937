//! The experiments of papers/002: what is measured, over what, how often.
//!
//! Owns: lengths, rounds, the order of the runs: each run measures every series at a length before
//! it goes on, so that all saw the same machine. Must not know: what the paper claims.

use crate::failure::Failure;
use crate::floor;
use crate::progress::Progress;
use crate::putget::{Cores, Operations, Pair, Place, Work};
use crate::repro::data::{Data, Samples};
use crate::repro::hosts::hosts;
use crate::repro::registry::Options;
use crate::tune::putget::{crossing, figure};
use ferriband_putget_proto::HEADER_BYTES;

/// Lengths of Table 2's throughput, bytes.
const STREAMS: [u64; 5] = [4096, 8192, 65_536, 131_072, 262_144];
/// Lengths of Table 3, bytes.
const TABLE_3: [u64; 6] = [4, 32, 256, 2048, 4060, 4096];
/// The longest protocol message: the paper's longest has no room for what is faster in messages
/// here.
pub const LONGEST_PROTOCOL: u64 = 65_536;
/// Lengths of the protocol messages: the paper's, and ours.
const PROTOCOLS: [u64; 4] = [64, 2048, 4096, LONGEST_PROTOCOL];
/// The series of the crossover that was found.
pub const FOUND: &str = "found";
/// Lengths of Table 4, and those about the end of our longest protocol message.
pub const ROWS: &[u64] = &[
    4, 28, 32, 256, 2012, 2048, 4060, 4096, 8192, 16_384, 32_768, 65_500, 65_504, 1_048_576,
];
/// Lengths of Figure 7.
pub const CURVE: &[u64] = &[
    4, 28, 32, 128, 256, 512, 1024, 2012, 2048, 3072, 4060, 4096, 6144, 8192, 12_288, 16_384,
    24_576, 32_768, 49_152, 65_500, 65_504, 1_048_576,
];

/// Bytes of a measurement at most, and its rounds at least.
const BYTES: u64 = 32 << 20;
const FEWEST: u64 = 20;

/// As many round trips as a measurement of this length has: the paper's are 10,000.
fn rounds(options: &Options, bytes: u64) -> u32 {
    let (bytes_in_all, fewest, whole) = match options.is_quick {
        true => (BYTES / 16, 2, 50),
        false => (BYTES, FEWEST, 2000),
    };
    (bytes_in_all / bytes).clamp(fewest, whole) as u32
}

/// A column of Table 2: where, and with how many processors.
struct Column {
    name: String,
    pair: Pair,
}

fn columns(options: &Options) -> Result<Vec<Column>, Failure> {
    let hosts = hosts()?;
    let places = [
        ("loop-back", Place::OneHost(Some(options.wire))),
        ("hosts", Place::TwoHosts(hosts)),
    ];
    let mut columns = Vec::new();
    for (place, at) in places {
        for (name, cores) in [("UP", Cores::One), ("SMP", Cores::All)] {
            let mut pair = Pair::start(at, cores)?;
            pair.open_channel()?;
            let name = format!("{place} {name}");
            columns.push(Column { name, pair });
        }
    }
    Ok(columns)
}

/// Steps of [`first_driver`].
pub fn first_driver_steps(options: &Options) -> u64 {
    u64::from(options.runs) * 4 * (1 + STREAMS.len() as u64)
}

/// Table 2.
pub fn first_driver(options: &Options, progress: &Progress) -> Result<Data, Failure> {
    let mut samples = Samples::default();
    let mut columns = columns(options)?;
    let runs = options.runs;
    for run in 1..=runs {
        for Column { name, pair } in &mut columns {
            progress.step(&format!("run {run}/{runs}: round trips, {name}"));
            let [blocking, tested] = latency(pair, options)?;
            samples.add(&format!("us {name}"), 4, blocking);
            samples.add(&format!("tested us {name}"), 4, tested);
            // a round trip waits twice, one behind the other
            let wake = (blocking - tested) / 2.0;
            samples.add(&format!("wake-up us {name}"), 4, wake);
        }
        for bytes in STREAMS {
            for Column { name, pair } in &mut columns {
                progress.step(&format!("run {run}/{runs}: {bytes} B, {name}"));
                let throughput = stream(pair, options, bytes)?.0;
                samples.add(&format!("MB/s {name}"), bytes, throughput);
            }
        }
    }
    columns
        .into_iter()
        .try_for_each(|column| column.pair.finish())?;
    Ok(samples.data())
}

/// Round trips of 4 B by the first driver, us: waited for, and tested for.
fn latency(pair: &mut Pair, options: &Options) -> Result<[f64; 2], Failure> {
    let rounds = rounds(options, 4);
    let mut of = |blocking| {
        let work = |rounds| Work::Matching {
            bytes: 4,
            rounds,
            blocking,
        };
        pair.work(work(rounds / 10 + 1))?;
        let found = pair.work(work(rounds))?;
        Ok::<f64, Failure>(found.ns / 1e3)
    };
    Ok([of(true)?, of(false)?])
}

/// Throughput of the first driver, MB/s, and how much of a processor both ends take together.
fn stream(pair: &mut Pair, options: &Options, bytes: u64) -> Result<(f64, f64), Failure> {
    let messages = 2 * rounds(options, bytes);
    let work = |messages| Work::Stream {
        bytes: bytes as u32,
        messages,
    };
    pair.work(work(messages / 10 + 1))?;
    let found = pair.work(work(messages))?;
    Ok((bytes as f64 / found.ns * 1e3, found.processor.iter().sum()))
}

/// A round trip of puts by the second driver, us.
fn round_trip(
    pair: &mut Pair,
    options: &Options,
    connection: usize,
    bytes: u64,
    protocol: u64,
) -> Result<f64, Failure> {
    let of = Operations {
        connection,
        bytes: bytes as u32,
        rounds: rounds(options, bytes),
        crossover: (protocol - HEADER_BYTES as u64) as u32,
    };
    let warm = Operations {
        rounds: of.rounds / 10 + 1,
        ..of
    };
    pair.work(Work::Puts(warm))?;
    Ok(pair.work(Work::Puts(of))?.ns / 1e3)
}

/// Steps of [`second_driver`].
pub fn second_driver_steps(options: &Options) -> u64 {
    u64::from(options.runs) * 2 * (1 + TABLE_3.len() as u64)
}

/// Table 3, and the first driver beside it.
pub fn second_driver(options: &Options, progress: &Progress) -> Result<Data, Failure> {
    let hosts = hosts()?;
    let mut samples = Samples::default();
    let mut pairs = Vec::new();
    for (name, cores) in [("UP", Cores::One), ("SMP", Cores::All)] {
        let mut pair = Pair::start(Place::TwoHosts(hosts), cores)?;
        pair.open(4096)?;
        pair.open_channel()?;
        pairs.push((name, pair));
    }
    let runs = options.runs;
    for run in 1..=runs {
        for (name, pair) in &mut pairs {
            progress.step(&format!("run {run}/{runs}: the first driver, {name}"));
            let [blocking, _] = latency(pair, options)?;
            samples.add(&format!("first driver {name}"), 4, blocking);
        }
        for bytes in TABLE_3 {
            for (name, pair) in &mut pairs {
                progress.step(&format!("run {run}/{runs}: {bytes} B, {name}"));
                samples.add(name, bytes, round_trip(pair, options, 0, bytes, 4096)?);
            }
        }
    }
    pairs.into_iter().try_for_each(|(_, pair)| pair.finish())?;
    Ok(samples.data())
}

/// Lengths that a short run measures.
fn lengths(options: &Options, all: &[u64]) -> Vec<u64> {
    let kept = |bytes: &u64| !options.is_quick || ROWS.contains(bytes);
    all.iter().copied().filter(kept).collect()
}

/// Steps of [`protocols`].
pub fn protocols_steps(options: &Options, all: &[u64]) -> u64 {
    let lengths = lengths(options, all).len();
    let found = lengths + 2;
    u64::from(options.runs) * (lengths * PROTOCOLS.len() + found) as u64
}

/// Table 4 and Figure 7: the protocol messages of the paper and our longest, then the one that has
/// room for the crossover that follows from the shortest and the longest.
pub fn protocols(options: &Options, progress: &Progress, all: &[u64]) -> Result<Data, Failure> {
    let mut lengths = lengths(options, all);
    let mut samples = Samples::default();
    let mut pair = Pair::start(Place::TwoHosts(hosts()?), Cores::All)?;
    for protocol in PROTOCOLS {
        pair.open(protocol as u32)?;
    }
    let runs = options.runs;
    for run in 1..=runs {
        for &bytes in &lengths {
            for (connection, protocol) in PROTOCOLS.into_iter().enumerate() {
                progress.step(&format!(
                    "run {run}/{runs}: {bytes} B, messages of {protocol} B"
                ));
                let us = round_trip(&mut pair, options, connection, bytes, protocol)?;
                add(&mut samples, &protocol.to_string(), bytes, us);
            }
        }
    }
    let crossover = found(&samples.clone().data(), &lengths);
    samples.add("crossover", 0, crossover as f64);
    // no room is the shortest message's, in which nothing goes
    let protocol = crossover + HEADER_BYTES as u64;
    let connection = pair.open(protocol.max(64) as u32)?;
    lengths.extend([crossover.max(4), crossover + 4]);
    lengths.sort_unstable();
    lengths.dedup();
    for run in 1..=runs {
        for &bytes in &lengths {
            progress.step(&format!("run {run}/{runs}: {bytes} B, at the crossover"));
            let us = round_trip(&mut pair, options, connection, bytes, protocol)?;
            add(&mut samples, FOUND, bytes, us);
        }
    }
    pair.finish()?;
    Ok(samples.data())
}

fn add(samples: &mut Samples, series: &str, bytes: u64, us: f64) {
    samples.add(&format!("us {series}"), bytes, us);
    // papers/002: the length over half the round trip
    samples.add(&format!("MB/s {series}"), bytes, bytes as f64 / (us / 2.0));
}

/// The crossover that follows from the extremes.
fn found(data: &Data, lengths: &[u64]) -> u64 {
    let figures: Vec<_> = lengths
        .iter()
        .filter(|bytes| **bytes > 28 && **bytes <= LONGEST_PROTOCOL - HEADER_BYTES as u64)
        .filter_map(|bytes| {
            let short = data.at(&format!("us {LONGEST_PROTOCOL}"), *bytes).ok()?;
            let long = data.at("us 64", *bytes).ok()?;
            Some(figure(*bytes as u32, short, long))
        })
        .collect();
    crossing(figures.iter()).into()
}

/// Steps of [`accounting`].
pub fn accounting_steps(options: &Options) -> u64 {
    u64::from(options.runs) * 5
}

/// Where the time of a round trip goes, and what it costs besides.
pub fn accounting(options: &Options, progress: &Progress) -> Result<Data, Failure> {
    let mut samples = Samples::default();
    let mut pairs = Vec::new();
    for (name, cores) in [("UP", Cores::One), ("SMP", Cores::All)] {
        let mut pair = Pair::start(Place::OneHost(Some(options.wire)), cores)?;
        pair.open_channel()?;
        pair.open(2048)?;
        pairs.push((name, pair));
    }
    let runs = options.runs;
    for run in 1..=runs {
        for (name, pair) in &mut pairs {
            progress.step(&format!("run {run}/{runs}: {name}"));
            let [blocking, tested] = latency(pair, options)?;
            samples.add(&format!("us blocking {name}"), 4, blocking);
            samples.add(&format!("us tested {name}"), 4, tested);
            let wake = (blocking - tested) / 2.0;
            samples.add(&format!("wake-up us {name}"), 4, wake);
        }
        progress.step(&format!("run {run}/{runs}: a wake-up alone"));
        if let Some(ns) = floor::wake_ping_pong_ns(rounds(options, 4).into())? {
            samples.add("us eventfd", 4, ns / 1e3);
        }
        let Some((_, pair)) = pairs.last_mut() else {
            continue;
        };
        progress.step(&format!("run {run}/{runs}: notifications"));
        count(pair, options, &mut samples)?;
        progress.step(&format!("run {run}/{runs}: processors"));
        let (throughput, processors) = stream(pair, options, 262_144)?;
        samples.add("MB/s", 262_144, throughput);
        samples.add("processors", 262_144, processors);
    }
    pairs.into_iter().try_for_each(|(_, pair)| pair.finish())?;
    Ok(samples.data())
}

/// What the paper counts: interrupts of a round trip at either side, and bytes of a message.
fn count(pair: &mut Pair, options: &Options, samples: &mut Samples) -> Result<(), Failure> {
    let rounds = rounds(options, 4);
    for (name, bytes) in [("short", 4), ("long", 8192)] {
        let of = Operations {
            connection: 0,
            bytes,
            rounds,
            crossover: 2012,
        };
        let found = pair.work(Work::Puts(of))?;
        for (side, notified) in ["master", "slave"].into_iter().zip(found.notifications) {
            let series = format!("notifications {name} {side}");
            samples.add(&series, bytes.into(), notified);
        }
        if bytes == 4 {
            samples.add("message bytes", 4, found.message_bytes);
        }
    }
    let work = Work::Matching {
        bytes: 4,
        rounds,
        blocking: true,
    };
    let found = pair.work(work)?;
    let most = found.notifications[0].max(found.notifications[1]);
    samples.add("notifications of the first driver", 4, most);
    Ok(())
}
