//! Ranks whose connections fail and are made anew, in virtual time, from a seed.
//!
//! Owns: a world of two to four ranks ([`world`]) with up to three adapters each, of one or two
//! ports, which may fail, be closed and opened anew, go for good ([`device`], [`fabric`],
//! [`rails`]); queue pairs that fail at either end, what they have acknowledged and not placed
//! ([`carry`]), and datagrams that are lost, doubled, late and old ([`wire`]); what a rank does
//! ([`turn`], [`take`], [`push`], [`steps`]); the carriers of a message: SENDs and bundles, records
//! ([`block`]), read, written and in pieces ([`long`]), by the lane ([`lane`]); those that are
//! given up ([`given_up`]); what must hold ([`laws`], [`letter`], [`end`]); programs and faults
//! ([`plan`]), and what is broken on purpose ([`plants`]). Sessions, logs and datagrams are those
//! of `ferriband-heal`, records, envelopes and replays those of `ferriband-mpi-proto`. Must not
//! know: how these decide.
//!
//! The laws are those of docs/design/heal.md: H1 fence before word, H2 once and in order, H3 over
//! when delivered or logged, H4 no byte for what is over, H5 what says that all is written behind
//! it and no old key, H6 silence loses nobody, H7 bounded, and one message's fault is its own, H8
//! backs off, H9 all comes to an end and nothing heals without cause, H10 nothing is left over, H11
//! a report adds up; M1 contents, M2 nothing written over, M3 credit, M4 no lost wake-up, M5 all
//! sends end (as H9), M6 the log has all that is not acknowledged.

mod block;
mod carry;
mod device;
mod end;
mod fabric;
mod given_up;
mod lane;
mod laws;
mod letter;
mod long;
mod over;
mod plan;
mod plants;
mod push;
mod rails;
mod rank;
mod roads;
mod steps;
mod take;
mod turn;
mod wire;
mod world;

pub use plants::Fault;

use crate::Failure;

/// How a seed is run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// What is broken on purpose.
    pub fault: Option<Fault>,
}

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Messages taken.
    pub messages: u64,
    /// Those that came by a block.
    pub records: u64,
    /// Those that went without an envelope.
    pub brief: u64,
    /// Those dropped because they had been taken.
    pub doubles: u64,
    /// Messages that went again.
    pub replayed: u64,
    /// Lives that came up behind another one.
    pub heals: u64,
    /// Connections that were asked for from both sides at once.
    pub both: u64,
    /// Bundles of which a part was taken before a fence.
    pub halves: u64,
    /// Peers that were lost, each dead.
    pub lost: u64,
    /// Numbers that wrapped.
    pub wraps: u64,
    /// PAUSEs.
    pub pauses: u64,
    /// Messages taken back.
    pub cancelled: u64,
    /// Keys named anew.
    pub renewed: u64,
    /// Connections that went on by another adapter, or by one that was opened anew.
    pub moves: u64,
    /// Paths that were found silent.
    pub silences: u64,
    /// Returns to a better path.
    pub returns: u64,
    /// Messages that were given up.
    pub given_up: u64,
    /// Ranks that have finalised and left.
    pub left: u64,
}

/// Runs one seed. The same seed and options give the same run.
pub fn run_seed(seed: u64, options: &Options) -> Result<Report, Failure> {
    world::World::new(seed, *options).run()
}
