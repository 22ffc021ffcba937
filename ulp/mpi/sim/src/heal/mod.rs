//! Ranks whose connections fail and are made anew, in virtual time, from a seed.
//!
//! Owns: a world of two to four ranks with one adapter each ([`world`]); queue pairs that fail at
//! either end, and datagrams that are lost, doubled, late and old ([`wire`]); what a rank does
//! ([`turn`], [`steps`]); what must hold ([`laws`], [`end`]); programs and faults ([`plan`]).
//! Sessions, logs and datagrams are those of `ferriband-heal`. Must not know: how a session
//! decides.
//!
//! The laws are those of docs/design/heal.md: H1 fence before word, H2 once and in order, H3 over
//! when delivered or logged, H4 nothing again that the peer has told that it has, H6 silence loses
//! nobody, H8 backs off, H9 all comes to an end and nothing heals without cause.

mod end;
mod laws;
mod plan;
mod rank;
mod steps;
mod turn;
mod wire;
mod world;

use crate::Failure;

/// What is broken on purpose. The numbers are those of the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// 1: the queue pair of the last life is not destroyed.
    NoFence,
    /// 2: what was received is read before the completions are drained.
    WordBeforeDrain,
    /// 3: the replay begins at the last acknowledgement, not at the peer's word.
    FromLastAck,
    /// 9: a bundle of which half was taken is delivered whole.
    BundleWhole,
    /// 11: both questions stand.
    BothStand,
    /// 12: a peer is lost for silence.
    LostForSilence,
    /// 21: no back-off.
    NoBackOff,
    /// 24: the answer to an older question is accepted.
    OlderAnswer,
    /// 33: the lower rank answers a number that it has asked itself.
    AnswersOwnNumber,
    /// 34: a late question breaks a good connection.
    LateQuestion,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::NoFence,
        Self::WordBeforeDrain,
        Self::FromLastAck,
        Self::BundleWhole,
        Self::BothStand,
        Self::LostForSilence,
        Self::NoBackOff,
        Self::OlderAnswer,
        Self::AnswersOwnNumber,
        Self::LateQuestion,
    ];

    /// The laws that find it, by the first letters of what a failure says.
    pub const fn laws(self) -> &'static [&'static str] {
        match self {
            Self::NoFence | Self::WordBeforeDrain => &["H1"],
            // The number has two connections, or the word is one of the past.
            Self::OlderAnswer => &["H1", "H2"],
            Self::FromLastAck => &["H4"],
            Self::BundleWhole => &["H2"],
            Self::LostForSilence => &["H6"],
            Self::NoBackOff => &["H8"],
            Self::AnswersOwnNumber => &["H1", "H9"],
            Self::BothStand | Self::LateQuestion => &["H9"],
        }
    }
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
}

/// Runs one seed. The same seed and options give the same run.
pub fn run_seed(seed: u64, options: &Options) -> Result<Report, Failure> {
    world::World::new(seed, *options).run()
}
