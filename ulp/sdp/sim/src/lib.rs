//! SDP between two sides of one host, from a seed: the very code of `ferriband-sdp-local`, each
//! access to memory and each call of the kernel a step at which another thread goes on, a process
//! stops, or dies. SDP over queue pairs has a world of its own ([`flow`]).
//!
//! Owns: memory as x86 shows it (`memory`), the kernel's TCP (`tcp`), fibers and when they run
//! (`world`, `run`), what programs do (`program`) and their service threads (`service`), the fate
//! of each byte (`oracle`), and the faults that show that a broken rule is found ([`Plant`]).
//! Must not know: descriptors, clocks, system calls.
#![forbid(unsafe_code)]

pub mod flow;
mod host;
mod memory;
mod oracle;
mod plan;
mod program;
mod run;
mod service;
mod tcp;
mod world;

use std::fmt;

pub use run::run;

/// What is broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plant {
    /// A fence orders nothing.
    FenceDropped,
    /// A lock is released by a plain store.
    UnlockWithoutFence,
    /// What compares and exchanges writes whatever it finds.
    ExchangeAsStore,
    /// A writer does not see who sends inside the kernel.
    SendsIgnored,
    /// A reader does not see who receives inside the kernel.
    ReceivesIgnored,
    /// SDP is said to begin a byte early.
    OffsetShort,
    /// The copy begins a byte behind where it is said to.
    CopyFromLater,
    /// A ring starts over though it is not empty.
    RewindFull,
    /// The reader gives back a byte that it has not read.
    RoomEarly,
    /// A futex's wake-up is lost now and then.
    WakeLost,
    /// The peer's epoll instances and service thread are not told.
    RingLost,
    /// A want is not seen.
    WantUnseen,
    /// The direction changes over while TCP is full.
    QueueIgnored,
    /// The dead count as living.
    DeadLive,
    /// The living count as dead.
    LivingDead,
    /// The service thread does not hear of the peer's end.
    EndUnheard,
    /// What a reader has taken from the kernel is counted short.
    TakenShort,
    /// A wish to go back is not seen.
    RecallUnseen,
    /// The writer sees a byte less read than was.
    TailStale,
    /// Who has sent inside the kernel is not counted off.
    LeaveForgotten,
    /// Who wakes does not count.
    RoundUncounted,
    /// A writer waits for room as long as it takes.
    NeverTired,
    /// The service thread takes a ring for news of the kernel's.
    RingAnswered,
    /// Each read wakes a writer that waits for room.
    RoomToldEarly,
    /// An error that the kernel tells the library is not kept for the program.
    ErrorForgotten,
    /// A close with bytes unread in the ring does not reset the connection.
    EndForReset,
    /// That a dead peer has left bytes unread in the ring is not seen.
    UnreadUnseen,
    /// Who reads the ring does not see that others receive from the kernel.
    OthersUnseen,
}

impl Plant {
    /// All of them.
    pub const ALL: [Plant; 28] = [
        Plant::FenceDropped,
        Plant::UnlockWithoutFence,
        Plant::ExchangeAsStore,
        Plant::SendsIgnored,
        Plant::ReceivesIgnored,
        Plant::OffsetShort,
        Plant::CopyFromLater,
        Plant::RewindFull,
        Plant::RoomEarly,
        Plant::WakeLost,
        Plant::RingLost,
        Plant::WantUnseen,
        Plant::QueueIgnored,
        Plant::DeadLive,
        Plant::LivingDead,
        Plant::EndUnheard,
        Plant::TakenShort,
        Plant::RecallUnseen,
        Plant::TailStale,
        Plant::LeaveForgotten,
        Plant::RoundUncounted,
        Plant::NeverTired,
        Plant::RingAnswered,
        Plant::RoomToldEarly,
        Plant::ErrorForgotten,
        Plant::EndForReset,
        Plant::UnreadUnseen,
        Plant::OthersUnseen,
    ];
}

/// How a seed is run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scenario {
    /// What is broken on purpose.
    pub plant: Option<Plant>,
}

/// What holds in every run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Law {
    /// Bytes come once and in order.
    Stream,
    /// A stream's end is told behind its last byte, and a connection's where it is over.
    End,
    /// A connection is reset only where TCP would reset it.
    Reset,
    /// A program is told of a reset where TCP would tell it.
    Errno,
    /// Whoever sleeps has nothing to do.
    Asleep,
    /// Whoever has nothing to do sleeps.
    Idle,
    /// No byte of a ring is overwritten before it was read.
    Overwritten,
    /// A direction changes at the byte agreed, and nothing goes by TCP in between.
    Offset,
    /// Nobody is inside the kernel for a direction that changes over.
    Inside,
    /// Going back needs nobody to read.
    Fits,
    /// Locks are free at the end.
    Locks,
    /// What the peer writes is possible.
    Broken,
    /// Everything ends.
    Steps,
    /// The machines do not panic.
    Panic,
}

impl Law {
    /// All of them.
    pub const ALL: [Law; 14] = [
        Law::Stream,
        Law::End,
        Law::Reset,
        Law::Errno,
        Law::Asleep,
        Law::Idle,
        Law::Overwritten,
        Law::Offset,
        Law::Inside,
        Law::Fits,
        Law::Locks,
        Law::Broken,
        Law::Steps,
        Law::Panic,
    ];
}

/// What happened in a run, or in several.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Stats {
    /// Steps.
    pub steps: u64,
    /// Bytes that programs received from the kernel.
    pub tcp_bytes: u64,
    /// Bytes that they received from rings.
    pub ring_bytes: u64,
    /// Changes of a direction to SDP.
    pub over: u64,
    /// Changes back.
    pub back: u64,
    /// Bytes that the kernel sent out of rings.
    pub copied: u64,
    /// Bytes that were passed over.
    pub passed: u64,
    /// Sleeps.
    pub sleeps: u64,
    /// Processes that were killed.
    pub kills: u64,
    /// Processes that were stopped for a time.
    pub stops: u64,
    /// Resets.
    pub resets: u64,
    /// Programs that went on without the library.
    pub heirs: u64,
}

impl Stats {
    /// Counts another run.
    pub fn add(&mut self, other: &Stats) {
        self.steps += other.steps;
        self.tcp_bytes += other.tcp_bytes;
        self.ring_bytes += other.ring_bytes;
        self.over += other.over;
        self.back += other.back;
        self.copied += other.copied;
        self.passed += other.passed;
        self.sleeps += other.sleeps;
        self.kills += other.kills;
        self.stops += other.stops;
        self.resets += other.resets;
        self.heirs += other.heirs;
    }
}

/// A law that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// In the run of this seed.
    pub seed: u64,
    /// Which law.
    pub law: Law,
    /// What was seen.
    pub what: String,
    /// The last steps before.
    pub trace: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.trace {
            writeln!(f, "{line}")?;
        }
        writeln!(f, "seed {}, {:?}: {}", self.seed, self.law, self.what)?;
        write!(f, "replay: ferriband sim --only sdp --seed {}", self.seed)
    }
}
