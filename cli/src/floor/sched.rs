//! Floors of the scheduler: two processes that take turns on one core, and two that wake each
//! other out of a blocking read.

use super::pair::{Mapping, Placement, run_pair};
use crate::failure::Failure;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// One way, in nanoseconds: two processes on one core, each yielding until the other's flag moved.
pub fn yield_ping_pong_ns(rounds: u64) -> Result<Option<f64>, Failure> {
    let memory = Mapping::shared(256)?;
    let (there, back) = (memory.word(0), memory.word(128));
    run_pair(
        Placement::OneCore,
        |peer| {
            (1..=rounds).all(|round| {
                let seen = peer.yield_for(there, round);
                back.store(round, Ordering::Release);
                seen
            })
        },
        |peer| {
            let start = Instant::now();
            for round in 1..=rounds {
                there.store(round, Ordering::Release);
                if !peer.yield_for(back, round) {
                    return None;
                }
            }
            Some(start.elapsed().as_nanos() as f64 / rounds as f64 / 2.0)
        },
    )
}

/// One way, in nanoseconds: a write to an eventfd that wakes a process out of its read. The better
/// of two cores and of where the scheduler puts them.
pub fn wake_ping_pong_ns(rounds: u64) -> Result<Option<f64>, Failure> {
    let mut best: Option<f64> = None;
    for placement in [Placement::TwoCores, Placement::Anywhere] {
        let found = wake_once(placement, rounds)?;
        best = match (best, found) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
    Ok(best)
}

fn wake_once(placement: Placement, rounds: u64) -> Result<Option<f64>, Failure> {
    let (there, back) = (eventfd()?, eventfd()?);
    run_pair(
        placement,
        |_| (0..rounds).all(|_| take(&there) && give(&back)),
        |_| {
            let start = Instant::now();
            for _ in 0..rounds {
                if !give(&there) || !take(&back) {
                    return None;
                }
            }
            Some(start.elapsed().as_nanos() as f64 / rounds as f64 / 2.0)
        },
    )
}

fn eventfd() -> Result<OwnedFd, Failure> {
    // SAFETY: eventfd has no memory preconditions.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if fd < 0 {
        return Err(Failure::os("create", "an eventfd"));
    }
    // SAFETY: fd was just opened and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn give(fd: &OwnedFd) -> bool {
    let one = 1u64;
    // SAFETY: eight bytes of our own are read.
    unsafe { libc::write(fd.as_raw_fd(), (&raw const one).cast(), 8) == 8 }
}

fn take(fd: &OwnedFd) -> bool {
    let mut count = 0u64;
    // SAFETY: eight bytes of our own are written.
    unsafe { libc::read(fd.as_raw_fd(), (&raw mut count).cast(), 8) == 8 }
}
