//! What each way of registering a program's memory costs, on the adapter that the loader's
//! libibverbs opens first: `LD_LIBRARY_PATH=target/ferriband/lib cargo bench -p
//! ferriband-registration`, after `cargo xtask libs --release`; FERRIBAND_VERBS=system takes the
//! system's library and adapter.
//!
//! Three programs: *again* registers one range again and again, *turns* goes through more ranges
//! than are kept on demand, *fresh* maps memory, touches its pages, registers it and unmaps it.
//! Rounds of all ways are interleaved, and medians are printed in nanoseconds a range. The row of
//! *nobody* is the program without registrations.

use ferriband_ibv::{Access, Choice, Device, DeviceLimits, Pd, Verbs};
use ferriband_registration::{Purpose, Reach, Way};
use std::ptr::with_exposed_provenance_mut;
use std::sync::Arc;
use std::time::Instant;

const ROUNDS: usize = 21;
/// Ranges that are used in turn: more than are kept on demand, fewer than are watched.
const TURNS: u64 = 128;
const PAGE: u64 = 4096;
const LENGTHS: [u64; 3] = [4 << 10, 64 << 10, 1 << 20];
const WAYS: [(&str, Way); 3] = [
    ("odp", Way::OnDemand),
    ("uffd", Way::Cache),
    ("none", Way::Each),
];

/// Memory of this program's own, not touched yet.
fn map(length: u64) -> u64 {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), length as usize, rights, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED, "no memory");
    at.expose_provenance() as u64
}

/// Writes to each page.
fn touch(at: u64, length: u64) {
    for page in 0..length / PAGE {
        let byte = with_exposed_provenance_mut::<u8>((at + page * PAGE) as usize);
        // SAFETY: a page of a mapping of this program's.
        unsafe { byte.write_volatile(1) };
    }
}

fn unmap(at: u64, length: u64) {
    // SAFETY: a mapping of this program's that nobody refers to.
    let done = unsafe { libc::munmap(with_exposed_provenance_mut(at as usize), length as usize) };
    assert_eq!(done, 0);
}

/// A domain of the first adapter; none without library or adapter.
fn domain() -> Option<(Arc<Pd>, DeviceLimits)> {
    let verbs = Verbs::load(&Choice::from_env().ok()?).ok()?;
    let context = Device::list(verbs).ok()?.first()?.open().ok()?;
    println!("{} of {}", context.device().name(), verbs.path().display());
    let limits = context.limits().ok()?;
    Some((Pd::alloc(&context).ok()?, limits))
}

fn register(reach: &mut Reach, at: u64, length: u64, purpose: Purpose) {
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    if let Err(why) = reach.range(at, length as usize, access, purpose) {
        panic!("{length} bytes are not registered: {why:?}");
    }
}

/// One program, so many times; nanoseconds a range.
fn time(times: u64, mut once: impl FnMut(u64)) -> f64 {
    let begin = Instant::now();
    (0..times).for_each(&mut once);
    begin.elapsed().as_nanos() as f64 / times as f64
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    // cargo test --all-targets runs this as a test: then one round of little work shows that it
    // runs
    let quick = std::env::args().any(|arg| arg == "--test");
    let Some((pd, limits)) = domain() else {
        println!("skipped: no libibverbs, or no adapter");
        return;
    };
    println!(
        "on demand: {}, all memory on demand: {}",
        limits.on_demand, limits.implicit_on_demand
    );
    let (rounds, times) = if quick { (1, 4) } else { (ROUNDS, 4 * TURNS) };
    println!("| bytes | for | way | again | turns | fresh |\n|---|---|---|---|---|---|");
    for length in LENGTHS {
        let memory = map(TURNS * length);
        touch(memory, TURNS * length);
        let fresh = |reach: Option<(&mut Reach, Purpose)>| {
            let at = map(length);
            touch(at, length);
            if let Some((reach, purpose)) = reach {
                register(reach, at, length, purpose);
            }
            unmap(at, length);
        };
        for purpose in [Purpose::Own, Purpose::Neighbor, Purpose::Stranger] {
            let mut found: Vec<[Vec<f64>; 3]> = vec![Default::default(); WAYS.len()];
            for _ in 0..rounds {
                for ((_, way), found) in WAYS.iter().zip(&mut found) {
                    let Ok(mut reach) = Reach::new(&pd, &limits, *way) else {
                        continue;
                    };
                    let reach = &mut reach;
                    let again = time(times, |_| register(reach, memory, length, purpose));
                    let turns = time(times, |turn| {
                        register(reach, memory + turn % TURNS * length, length, purpose);
                    });
                    let fresh = time(times / 4, |_| fresh(Some((&mut *reach, purpose))));
                    for (all, one) in found.iter_mut().zip([again, turns, fresh]) {
                        all.push(one);
                    }
                }
            }
            for ((name, _), found) in WAYS.iter().zip(&mut found) {
                let cells = found.each_mut().map(|times| match times.is_empty() {
                    true => "not here".to_owned(),
                    false => format!("{:.0}", median(times)),
                });
                println!(
                    "| {length} | {purpose:?} | {name} | {} |",
                    cells.join(" | ")
                );
            }
        }
        let mut bare: Vec<f64> = (0..rounds)
            .map(|_| time(times / 4, |_| fresh(None)))
            .collect();
        println!("| {length} | nobody | | | | {:.0} |", median(&mut bare));
        unmap(memory, TURNS * length);
    }
}
