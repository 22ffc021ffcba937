//! This machine's physical floors, measured between two processes: what any adapter in software on
//! it could at best reach. They are the denominators of `ferriband demo` and `ferriband-dev bench`,
//! so the loops here must be as tight as they can be written: a slow floor would flatter us.
//!
//! Owns: the measurements and their medians. Must not know: verbs, or anything that is compared.

mod cma;
mod copy;
pub mod message;
mod pair;
mod polled;
pub mod ring;
mod sched;
pub mod udp;

use crate::failure::Failure;
use crate::progress::Progress;
use crate::text::{Table, bandwidth, duration};
use cma::Direction;
pub use pair::{Affinity, allow_cma, pin};
pub use sched::wake_ping_pong_ns;
use serde::Serialize;
use std::process::ExitCode;

/// Message sizes of the bandwidth floors.
const COPY_SIZES: [usize; 2] = [64 << 10, 1 << 20];

/// A floor that may be out of reach here: `None` where the kernel forbids the mechanism, or where
/// there are too few cores for two processes that poll.
pub type Floor = Option<f64>;

/// Every floor, each the median of several rounds. Latencies are nanoseconds one way.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Floors {
    /// Rounds of which each figure is the median.
    pub rounds: usize,
    /// (a) 8 bytes and a flag in one line of shared memory, polled.
    pub mapped_flag_ns: Floor,
    /// (b) 8 bytes through a shared ring of 64-byte slots, with a completion written back.
    pub mapped_ring_ns: Floor,
    /// The same with 4096 bytes, copied in and copied out.
    pub mapped_ring_4096_ns: Floor,
    /// Distance of two 8-byte messages that stream through that ring.
    pub ring_stream_ns: Floor,
    /// (c) 8 bytes by process_vm_writev into private memory that the other side polls.
    pub cma_write_ns: Floor,
    /// One process_vm_readv of 8 bytes.
    pub cma_read_ns: Floor,
    /// (d) One process_vm_writev of 64 KiB and of 1 MiB, hot.
    pub cma_write_64k_ns: Floor,
    /// See `cma_write_64k_ns`.
    pub cma_write_1m_ns: Floor,
    /// One process_vm_readv of 64 KiB and of 1 MiB, hot.
    pub cma_read_64k_ns: Floor,
    /// See `cma_read_64k_ns`.
    pub cma_read_1m_ns: Floor,
    /// (e) Two processes on one core that yield to each other.
    pub yield_ns: Floor,
    /// An eventfd that wakes a process out of its read.
    pub wake_ns: Floor,
    /// (f) One memcpy of 64 KiB and of 1 MiB between hot private buffers.
    pub memcpy_64k_ns: Floor,
    /// See `memcpy_64k_ns`.
    pub memcpy_1m_ns: Floor,
}

type Measure = fn() -> Result<Floor, Failure>;
type Pick = fn(&mut Floors) -> &mut Floor;

/// One floor: what it is called, how it is measured once, where it is kept.
struct Entry {
    name: &'static str,
    needs_two_cores: bool,
    /// Bytes of one operation where the figure is read as a bandwidth.
    bandwidth_bytes: Option<usize>,
    measure: Measure,
    pick: Pick,
}

const fn latency(name: &'static str, needs_two_cores: bool, measure: Measure, pick: Pick) -> Entry {
    Entry {
        name,
        needs_two_cores,
        bandwidth_bytes: None,
        measure,
        pick,
    }
}

const fn rate(name: &'static str, size: usize, measure: Measure, pick: Pick) -> Entry {
    Entry {
        name,
        needs_two_cores: false,
        bandwidth_bytes: Some(size),
        measure,
        pick,
    }
}

const ENTRIES: [Entry; 14] = [
    latency(
        "mapped flag + 8 B, one way",
        true,
        || polled::flag_ping_pong_ns(200_000),
        |f| &mut f.mapped_flag_ns,
    ),
    latency(
        "mapped ring with completion, 8 B, one way",
        true,
        || polled::ring_ping_pong_ns::<8>(200_000),
        |f| &mut f.mapped_ring_ns,
    ),
    latency(
        "mapped ring with completion, 4096 B, one way",
        true,
        || polled::ring_ping_pong_ns::<4096>(20_000),
        |f| &mut f.mapped_ring_4096_ns,
    ),
    latency(
        "mapped ring, 8 B messages in a stream, each",
        true,
        || polled::ring_stream_ns(1_000_000),
        |f| &mut f.ring_stream_ns,
    ),
    latency(
        "process_vm_writev 8 B, polled, one way",
        true,
        || cma::ping_pong_ns(30_000),
        |f| &mut f.cma_write_ns,
    ),
    latency(
        "process_vm_readv 8 B, one call",
        false,
        || cma::copy_ns(Direction::Read, 8, 50_000),
        |f| &mut f.cma_read_ns,
    ),
    rate(
        "process_vm_writev 64 KiB",
        COPY_SIZES[0],
        || cma::copy_ns(Direction::Write, COPY_SIZES[0], 100_000),
        |f| &mut f.cma_write_64k_ns,
    ),
    rate(
        "process_vm_writev 1 MiB",
        COPY_SIZES[1],
        || cma::copy_ns(Direction::Write, COPY_SIZES[1], 8_000),
        |f| &mut f.cma_write_1m_ns,
    ),
    rate(
        "process_vm_readv 64 KiB",
        COPY_SIZES[0],
        || cma::copy_ns(Direction::Read, COPY_SIZES[0], 8_000),
        |f| &mut f.cma_read_64k_ns,
    ),
    rate(
        "process_vm_readv 1 MiB",
        COPY_SIZES[1],
        || cma::copy_ns(Direction::Read, COPY_SIZES[1], 500),
        |f| &mut f.cma_read_1m_ns,
    ),
    latency(
        "sched_yield ping-pong on one core, one way",
        false,
        || sched::yield_ping_pong_ns(20_000),
        |f| &mut f.yield_ns,
    ),
    latency(
        "eventfd wake-up, one way",
        false,
        || sched::wake_ping_pong_ns(3_000),
        |f| &mut f.wake_ns,
    ),
    rate(
        "memcpy 64 KiB",
        COPY_SIZES[0],
        || copy::memcpy_ns(COPY_SIZES[0], 10_000),
        |f| &mut f.memcpy_64k_ns,
    ),
    rate(
        "memcpy 1 MiB",
        COPY_SIZES[1],
        || copy::memcpy_ns(COPY_SIZES[1], 500),
        |f| &mut f.memcpy_1m_ns,
    ),
];

/// Measures every floor `rounds` times, interleaved, and takes medians.
pub fn measure(rounds: usize, progress: &Progress) -> Result<Floors, Failure> {
    let rounds = rounds.max(1);
    let cores = Affinity::save()?.processors().len();
    let mut samples = vec![Vec::with_capacity(rounds); ENTRIES.len()];
    for round in 0..rounds {
        for (entry, samples) in ENTRIES.iter().zip(&mut samples) {
            progress.step(&format!("floor {}/{rounds}: {}", round + 1, entry.name));
            if !entry.needs_two_cores || cores > 1 {
                samples.extend((entry.measure)()?);
            }
        }
    }
    let mut floors = Floors {
        rounds,
        ..Floors::default()
    };
    for (entry, samples) in ENTRIES.iter().zip(samples) {
        *(entry.pick)(&mut floors) = median(samples);
    }
    Ok(floors)
}

/// How many steps [`measure`] reports to its progress bar.
pub fn steps(rounds: usize) -> u64 {
    (ENTRIES.len() * rounds.max(1)) as u64
}

/// The middle sample, or the lower of the two in the middle.
pub fn median(mut samples: Vec<f64>) -> Option<f64> {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len().checked_sub(1)? / 2).copied()
}

/// Bytes per second of `length_bytes` in `ns`.
pub fn bytes_per_second(length_bytes: usize, ns: f64) -> f64 {
    length_bytes as f64 * 1e9 / ns
}

/// The table that people read.
pub fn table(floors: &Floors) -> Table {
    let mut floors = floors.clone();
    let mut table = Table::new(["floor of this machine", "figure"]).right_align(&[1]);
    for entry in &ENTRIES {
        let figure = match (*(entry.pick)(&mut floors), entry.bandwidth_bytes) {
            (None, _) => "not possible here".to_owned(),
            (Some(ns), None) => duration(ns),
            (Some(ns), Some(size)) => bandwidth(bytes_per_second(size, ns)),
        };
        table.row([entry.name.to_owned(), figure]);
    }
    table
}

/// `ferriband-dev floor`.
pub fn command(rounds: usize, json: bool) -> Result<ExitCode, Failure> {
    let progress = Progress::new(steps(rounds));
    let floors = measure(rounds, &progress)?;
    progress.finish();
    if json {
        crate::text::print_json(&floors)?;
    } else {
        table(&floors).print()?;
        println!(
            "medians of {} rounds; \"not possible here\" is explained by: ferriband doctor",
            floors.rounds
        );
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_lower_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.0));
        assert_eq!(median(vec![]), None);
    }

    #[test]
    fn every_entry_has_its_own_field() {
        let mut floors = Floors::default();
        for (index, entry) in ENTRIES.iter().enumerate() {
            *(entry.pick)(&mut floors) = Some(index as f64);
        }
        for (index, entry) in ENTRIES.iter().enumerate() {
            assert_eq!(
                *(entry.pick)(&mut floors),
                Some(index as f64),
                "{}",
                entry.name
            );
        }
    }

    #[test]
    fn a_yield_costs_more_than_a_shared_line() {
        let flag = polled::flag_ping_pong_ns(10_000).expect("measures");
        let turn = sched::yield_ping_pong_ns(1_000)
            .expect("measures")
            .expect("both sides live");
        assert!(turn > 50.0, "{turn}");
        if let Some(flag) = flag {
            assert!(flag < 1e6, "{flag}");
        }
    }
}
