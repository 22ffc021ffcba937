//! The machines of MPI's RDMA fast path among a few ranks, in virtual time, from a seed.
//!
//! Owns: a world of two or three ranks that send to one another ([`world`]), queue pairs that keep order and nothing else, memory whose bytes come as late and in
//! as bad an order as the rules let them ([`wire`]), and the faults that show that a broken rule is found ([`Fault`]). Must not know: verbs, sockets,
//! clocks. What it hunts: messages lost, doubled or out of order (M1); bytes written over what is not consumed, or to memory that was given back; credit
//! that is lost or invented; and a rank that sleeps while something waits for it, for ever, or
//! until somebody else comes back from a long computation (M4). A second world has connections that
//! fail and are made anew ([`heal`]), a third one members that agree while some of them die
//! ([`agree`]).
#![forbid(unsafe_code)]

pub mod agree;
pub mod heal;
mod rank;
mod wire;
mod world;

use std::fmt;

/// What is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The zeros before a Veloblock record are not written.
    NoZeros,
    /// The receiver does not zero what it has consumed.
    NoClear,
    /// The receiver gives back more than it has consumed.
    EarlyCredit,
    /// The last byte of a write is not its last.
    LastByteFirst,
    /// A write overtakes the one before it.
    WritesOvertake,
    /// The sender of a top-fill design does not know what lies in the block.
    BlindMirror,
    /// A record is taken before its turn.
    NoTurn,
    /// A block is given back before what lies in it was taken.
    NoDrain,
    /// A rank sleeps without having asked anybody to stop.
    SleepsUnasked,
    /// A rank that has asked does not wait for the answer.
    SleepsUnanswered,
    /// A rank does not look once more before it sleeps.
    NoLastLook,
    /// A sender that was asked to stop answers, and writes on.
    WritesOn,
    /// A rank that sleeps says that it will not write, and writes when it wakes.
    BreaksPromise,
    /// A PAUSED counts whatever it answers to.
    AnyAnswer,
    /// Credit of a channel's former life counts in the next.
    OldCredit,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::NoZeros,
        Self::NoClear,
        Self::EarlyCredit,
        Self::LastByteFirst,
        Self::WritesOvertake,
        Self::BlindMirror,
        Self::NoTurn,
        Self::NoDrain,
        Self::SleepsUnasked,
        Self::SleepsUnanswered,
        Self::NoLastLook,
        Self::WritesOn,
        Self::BreaksPromise,
        Self::AnyAnswer,
        Self::OldCredit,
    ];
}

/// How a seed is run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// What is broken on purpose.
    pub fault: Option<Fault>,
}

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Messages delivered.
    pub messages: u64,
    /// Those by the fast path.
    pub records: u64,
    /// Sleeps without bound.
    pub sleeps: u64,
    /// PAUSEs.
    pub pauses: u64,
    /// RESUMEs that counted.
    pub resumes: u64,
    /// Blocks given back.
    pub closed: u64,
}

/// A law that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// In the run of this seed.
    pub seed: u64,
    /// At this step.
    pub step: u64,
    /// What was seen.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, step {}: {}", self.seed, self.step, self.what)
    }
}

/// Runs one seed. The same seed and options give the same run.
pub fn run_seed(seed: u64, options: &Options) -> Result<Report, Failure> {
    world::World::new(seed, *options).run()
}

/// A seeded sequence (SplitMix64).
#[derive(Clone, Debug)]
struct Rng(u64);

impl Rng {
    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0.
    fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    /// True `per_mille` times of a thousand.
    fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }
}
