//! The packet simulator: two or more adapters with several queue pairs each over an impaired wire, in virtual time.
//!
//! A seed decides everything: topology, services, attributes, work, faults. First a safety phase with faults, in which
//! every effect, packet and completion is checked against the reference model; then the wire heals and liveness is
//! demanded: every request completes, or its queue pair is in the error that the specification demands.
//!
//! Owns the run of a seed. The machines are those of `ferriband-transport`, unchanged.

mod env;
pub mod goodput;
mod link;
mod memory;
mod model;
mod mutation;
mod observer;
mod setup;
#[cfg(test)]
mod tests;
mod workload;
mod world;

use ferriband_transport::QueuePair;
use ferriband_wire::Packet;
use std::collections::VecDeque;
use std::fmt;

/// Bytes of BTH, RETH and AETH, or of BTH and AtomicETH.
const MOST_HEADERS: usize = 40;

/// What a run may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Upper bound of loss, in per cent; each seed draws its own up to it.
    pub max_loss_percent: u64,
    /// Requests that each queue pair posts, at the most.
    pub max_requests: u32,
    /// One seed in so many meets packets with altered contents and a right ICRC; 0 never.
    pub hostile_one_in: u64,
    /// Lines of the trace that a failure shows.
    pub trace_lines: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            max_loss_percent: 30,
            max_requests: 24,
            hostile_one_in: 8,
            trace_lines: 60,
        }
    }
}

/// What a run did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Virtual nanoseconds.
    pub virtual_ns: u64,
    /// Queue pairs.
    pub queue_pairs: u64,
    /// Send requests posted.
    pub requests: u64,
    /// Packets handed to the wire.
    pub packets: u64,
    /// Packets that reached a queue pair.
    pub delivered: u64,
    /// Frames whose ICRC was wrong on arrival.
    pub corrupted: u64,
    /// Frames with a right ICRC that were no packet.
    pub malformed: u64,
    /// Packets that a queue pair dropped.
    pub dropped: u64,
    /// Completions.
    pub completions: u64,
    /// Queue pairs whose send queue ended in error.
    pub failed: u64,
    /// A digest of every packet sent, with its time, and of what the queue pairs counted and
    /// diagnose at the end:
    /// machines that behave alike have equal ones.
    pub digest: u64,
}

/// A broken invariant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Replays the run.
    pub seed: u64,
    /// I1 to I13, or "liveness".
    pub invariant: &'static str,
    /// What the model demands.
    pub expected: String,
    /// What the machine did.
    pub got: String,
    /// Virtual time of it.
    pub at_ns: u64,
    /// The last lines before it.
    pub trace: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {}: {} broken at {} ns",
            self.seed, self.invariant, self.at_ns
        )?;
        writeln!(f, "  expected: {}", self.expected)?;
        writeln!(f, "  got:      {}", self.got)?;
        for line in &self.trace {
            writeln!(f, "  | {line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// Counts for the report.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    posted: u64,
    sent: u64,
    delivered: u64,
    corrupted: u64,
    malformed: u64,
    dropped: u64,
    completions: u64,
    digest: Digest,
}

/// FNV-1a, over words.
#[derive(Clone, Copy, Debug)]
struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Digest(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    fn fold(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0100_0000_01b3);
    }

    /// Its headers and its length; the payload is the model's business.
    fn packet(&mut self, now: u64, bytes: &[u8]) {
        self.fold(now);
        self.fold(bytes.len() as u64);
        for byte in bytes.iter().take(MOST_HEADERS) {
            self.fold((*byte).into());
        }
    }

    /// What it counted, and what it knows of its connection at the end.
    fn queue_pair(&mut self, qp: &QueuePair) {
        // Of all fields, for this is the way that forgets none.
        for byte in format!("{:?} {:?}", qp.counters(), qp.diagnosis()).bytes() {
            self.fold(byte.into());
        }
    }
}

/// The last lines of what happened; text is made only when it is kept.
#[derive(Debug)]
struct Trace {
    lines: VecDeque<String>,
    keep: usize,
}

impl Trace {
    fn say(&mut self, now: u64, text: impl FnOnce() -> String) {
        if self.keep == 0 {
            return;
        }
        if self.lines.len() == self.keep {
            self.lines.pop_front();
        }
        self.lines.push_back(format!("{now:>12} {}", text()));
    }

    fn packet(&mut self, now: u64, arrow: &str, side: usize, packet: &Packet<'_>) {
        self.say(now, || {
            let bth = packet.bth();
            let aeth = packet
                .ext()
                .aeth
                .map_or(String::new(), |aeth| format!(" {aeth:?}"));
            let bytes = packet.payload.len();
            format!(
                "QP {side} {arrow}{} {:?} {bytes} bytes{aeth}",
                packet.opcode(),
                bth.psn
            )
        });
    }
}

/// Runs one seed. A failure is run again with its trace kept, which costs the good runs nothing.
///
/// # Errors
/// The first broken invariant.
pub fn run_seed(seed: u64, options: &Options) -> Result<Report, Box<Failure>> {
    run_mutated(seed, options, None)
}

fn run_mutated(
    seed: u64,
    options: &Options,
    mutation: Option<mutation::Mutation>,
) -> Result<Report, Box<Failure>> {
    let silent = Options {
        trace_lines: 0,
        ..*options
    };
    match run_once(seed, &silent, mutation) {
        Err(_) if options.trace_lines > 0 => run_once(seed, options, mutation),
        result => result,
    }
}

fn run_once(
    seed: u64,
    options: &Options,
    mutation: Option<mutation::Mutation>,
) -> Result<Report, Box<Failure>> {
    let trace = Trace {
        lines: VecDeque::new(),
        keep: options.trace_lines,
    };
    let (mut world, heal_at) = setup::build(seed, options, mutation, trace);
    let result = world.run(heal_at);
    for endpoint in &world.endpoints {
        world.counters.digest.queue_pair(&endpoint.qp);
    }
    let counters = &world.counters;
    match result {
        Ok(()) => Ok(Report {
            virtual_ns: world.now,
            queue_pairs: world.endpoints.len() as u64,
            requests: counters.posted,
            packets: counters.sent,
            delivered: counters.delivered,
            corrupted: counters.corrupted,
            malformed: counters.malformed,
            dropped: counters.dropped,
            completions: counters.completions,
            failed: world
                .model
                .sides
                .iter()
                .filter(|side| side.failed.is_some())
                .count() as u64,
            digest: counters.digest.0,
        }),
        Err(violation) => Err(Box::new(Failure {
            seed,
            invariant: violation.invariant,
            expected: violation.expected,
            got: violation.got,
            at_ns: world.now,
            trace: world.trace.lines.into(),
        })),
    }
}
