//! The direct wire's machine in a simulated host: processes are coroutines, each access to shared memory is a step.
//!
//! Between any two steps another process may run, be stopped, or be killed; stores linger in store buffers as x86 lets
//! them. The machine under test is `ferriband_transport::direct`, unchanged; `process` calls it as the adapter does; `app`
//! uses it; `oracle`, `ringwatch` and `world` hold what happens against what must (I1-I12 as far as they apply to this
//! wire, revocation, ring conservation, liveness). Must not know sockets, threads or time: all follows from a seed.

mod app;
mod exhaustive;
mod host;
mod memory;
mod oracle;
mod plan;
mod process;
mod ringwatch;
mod run;
#[cfg(test)]
mod tests;
mod world;

use std::fmt;

pub use exhaustive::{Exhausted, kill_at_every_step};
pub use run::run_seed;

/// What a run may do.
#[derive(Clone, Debug)]
pub struct Options {
    /// Things that each application does.
    pub ops: u32,
    /// Processes, 2 to 4.
    pub max_processes: usize,
    /// Processes may be killed.
    pub kills: bool,
    /// Processes may be stopped for a while.
    pub stops: bool,
    /// Keep the last lines of what happened. A failure is run again with it.
    pub trace: bool,
    /// Kill process `.0` at its step `.1` of the small workload; None runs the seed's own plan.
    pub(crate) kill_at: Option<(usize, u64)>,
    pub(crate) small: bool,
    pub(crate) mutation: Option<Mutation>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            ops: 60,
            max_processes: 4,
            kills: true,
            stops: true,
            trace: false,
            kill_at: None,
            small: false,
            mutation: None,
        }
    }
}

/// A planted bug, to prove that its checker fires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(test), allow(dead_code))]
pub(crate) enum Mutation {
    /// The fences of marks and revocations do nothing.
    DropFence,
    /// The fence between a record and the look whether its reader sleeps does nothing.
    DropBellFence,
    /// In-flight marks are not published.
    SkipMark,
    /// An owner does not wait for marks.
    SkipWait,
    /// The last byte of a copy goes first.
    LastByteFirst,
    /// A record is acknowledged before it is executed.
    AcknowledgeFirst,
    /// A record is executed twice.
    ExecuteTwice,
    /// Refusals are answered as success.
    HideRefusal,
    /// A completion is reported twice.
    CompleteTwice,
    /// Timers that an answer starts are over at once.
    IgnoreTimer,
    /// A peer's death is not passed on.
    IgnoreDeath,
}

/// What a run did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// Accesses to shared memory.
    pub steps: u64,
    /// Virtual time in nanoseconds.
    pub virtual_ns: u64,
    /// Requests that succeeded.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests that ended with an error or flushed.
    pub failures: u64,
    /// Processes killed.
    pub kills: u64,
    /// Times a process was stopped.
    pub stops: u64,
}

/// A broken invariant. `Display` says all that is known, and how to see it again.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed that shows it.
    pub seed: u64,
    /// ID and sentence of the law.
    pub invariant: &'static str,
    /// What had to be.
    pub expected: String,
    /// What was.
    pub got: String,
    /// When, in virtual nanoseconds.
    pub at_ns: u64,
    /// Steps until then.
    pub steps: u64,
    /// The last things that happened.
    pub trace: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "direct wire, seed {}: {} is broken",
            self.seed, self.invariant
        )?;
        writeln!(f, "  expected {}", self.expected)?;
        writeln!(f, "  got      {}", self.got)?;
        writeln!(f, "  at {} ns, step {}", self.at_ns, self.steps)?;
        for line in &self.trace {
            writeln!(f, "  {line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}
