//! Kills a process at every one of its steps, one run for each, in a small workload that is otherwise the same.

use super::{Failure, Options, run_seed};

/// What an exhaustive search covered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Exhausted {
    /// Runs, one for each step of each victim.
    pub runs: u64,
    /// Requests that succeeded in all of them.
    pub messages: u64,
}

/// Runs the small workload of `seed` once for each step of each of its two processes, and kills that process there:
/// after every store to shared memory, among others. Every `stride`-th step; 1 is all.
///
/// # Errors
/// The first broken invariant.
pub fn kill_at_every_step(seed: u64, ops: u32, stride: u64) -> Result<Exhausted, Failure> {
    let mut total = Exhausted::default();
    for victim in 0..2 {
        let mut step = 1;
        loop {
            let options = Options {
                ops,
                small: true,
                kill_at: Some((victim, step)),
                max_processes: 2,
                ..Options::default()
            };
            let report = run_seed(seed, &options)?;
            total.runs += 1;
            total.messages += report.messages;
            if report.kills == 0 {
                break;
            }
            step += stride.max(1);
        }
    }
    Ok(total)
}
