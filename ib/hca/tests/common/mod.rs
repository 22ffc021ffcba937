//! What the tests with real processes share: processes in a role, and parties that own queue pairs.
//!
//! A test is written as a line of calls on [`party::Party`] objects. A party is this process ("here") or another one
//! ("there"), which the test binary becomes by running itself again; both obey the same commands, so one test covers
//! both executors. Every wait is bounded.
#![allow(dead_code, clippy::unwrap_used)]

pub mod endpoint;
pub mod extended;
pub mod memory;
pub mod namespace;
pub mod party;
pub mod process;

use std::time::{Duration, Instant};

/// No wait of a test is longer, unless it says so itself.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for a condition.
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// How often a hammering test repeats: `normal`, or more where the environment asks for a long run.
pub fn rounds(normal: u64) -> u64 {
    let factor = std::env::var("FERRIBAND_TEST_FACTOR").ok();
    normal * factor.and_then(|v| v.parse().ok()).unwrap_or(1)
}
