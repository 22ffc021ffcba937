//! Two sides of a connection of queue pairs, from a seed: the very machines of
//! `ferriband-sdp-proto` with each flow control, over a reliable connection that is slow wherever
//! it may be.
//!
//! Owns: the laws, the faults that show that a broken law is found ([`Plant`]), and the run of a
//! seed. The connection is modelled in `fabric`, the two sides and their programs in `side`, the
//! steps in `world`, `offers` and `faults`, what must hold in `check`. Must not know: how a machine
//! decides.

mod check;
mod fabric;
mod faults;
mod offers;
mod side;
mod world;

use std::fmt;

pub use world::run;

/// The flow control of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Credits.
    Credit,
    /// RDMA-based.
    Ring,
    /// NIC-assisted.
    Nic,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Credit, Kind::Ring, Kind::Nic];
}

/// What holds in every run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Law {
    /// F1. What a program reads is a prefix of what the other has sent, and whole where nobody was
    /// killed, aborted or reset.
    Stream,
    /// F2. A stream's end is told behind its last byte.
    End,
    /// F3. No byte of a receive buffer is overwritten before it was read.
    Overwritten,
    /// F4. A SEND or an RDMA WRITE with immediate data meets a receive. In *nic* it may meet none
    /// while the receiver has fewer than W bytes free, or its machine has not yet seen that it has
    /// more.
    Receive,
    /// F5. Credits are conserved. A side has no more of them than the peer has receives for, and
    /// those that it does not have it has not been told of. In *nic* unread bytes, W for each
    /// receive and the spare bytes are the space, and fewer than W bytes are spare.
    Credits,
    /// F6. Nobody waits while he could go on, and everything ends.
    Progress,
    /// F7. The machines find no violation in one another.
    Broken,
    /// F8. The machines do not panic.
    Panic,
}

impl Law {
    /// All of them.
    pub const ALL: [Law; 8] = [
        Law::Stream,
        Law::End,
        Law::Overwritten,
        Law::Receive,
        Law::Credits,
        Law::Progress,
        Law::Broken,
        Law::Panic,
    ];

    /// F1 to F8.
    pub fn id(self) -> String {
        format!("F{}", self as u32 + 1)
    }
}

/// What is broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plant {
    /// *nic*: the sender takes the peer's reserve for W longer than it is.
    ReserveLonger,
    /// *nic*: a receiver posts a receive though less than W is free.
    ReceiveEarly,
    /// *ring*: the peer is told a byte that was not read.
    TailEarly,
    /// A message tells of one receive more than are posted.
    BufsOneMore,
    /// A receive is not posted, now and then.
    ReceiveLost,
    /// A message that only gives credits or room is lost, now and then.
    UpdateLost,
    /// Completions of the send queue are lost, now and then.
    CompletionLost,
    /// *nic*: the completion that should wake the driver does not.
    WakeLost,
    /// The adapter says that a segment has arrived when it was posted.
    CompletedEarly,
    /// An RDMA WRITE lands a byte off.
    LandsOff,
    /// Completions of receives come in another order.
    ReceivesSwapped,
    /// The program counts bytes as read before it copies them.
    ConsumedFirst,
    /// The program takes the peer's end for the stream's while bytes are unread.
    EndEarly,
    /// A cork that is drawn stays.
    CorkStays,
    /// The driver is not run after the program has read.
    ReadUnseen,
    /// The program uses a buffer that it offers when it takes the offer back, not when that is
    /// over.
    OfferReused,
    /// *nic*: an offer says that it stands a byte earlier in the stream than it does.
    OfferEarly,
    /// *nic*: the second queue pair carries nothing while works of the first wait, as if there were
    /// one.
    OneQueuePair,
}

impl Plant {
    /// All of them.
    pub const ALL: [Plant; 18] = [
        Plant::ReserveLonger,
        Plant::ReceiveEarly,
        Plant::TailEarly,
        Plant::BufsOneMore,
        Plant::ReceiveLost,
        Plant::UpdateLost,
        Plant::CompletionLost,
        Plant::WakeLost,
        Plant::CompletedEarly,
        Plant::LandsOff,
        Plant::ReceivesSwapped,
        Plant::ConsumedFirst,
        Plant::EndEarly,
        Plant::CorkStays,
        Plant::ReadUnseen,
        Plant::OfferReused,
        Plant::OfferEarly,
        Plant::OneQueuePair,
    ];

    /// The flow controls that it can break.
    pub fn kinds(self) -> &'static [Kind] {
        match self {
            Plant::ReserveLonger | Plant::ReceiveEarly | Plant::WakeLost => &[Kind::Nic],
            Plant::OfferEarly | Plant::OneQueuePair => &[Kind::Nic],
            Plant::TailEarly => &[Kind::Ring],
            Plant::BufsOneMore | Plant::UpdateLost => &[Kind::Credit, Kind::Ring],
            Plant::CorkStays => &[Kind::Credit, Kind::Nic],
            Plant::LandsOff => &[Kind::Ring, Kind::Nic],
            _ => &Kind::ALL,
        }
    }
}

/// How a seed is run.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// The flow control.
    pub kind: Kind,
    /// What is broken on purpose.
    pub plant: Option<Plant>,
}

/// What happened in a run, or in several.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Stats {
    /// Steps.
    pub steps: u64,
    /// Bytes that programs have read.
    pub bytes: u64,
    /// Segments.
    pub segments: u64,
    /// Of these, RDMA WRITEs that joined the bytes of several calls.
    pub joined: u64,
    /// Messages that only give credits or room.
    pub updates: u64,
    /// Works that found no receive.
    pub held: u64,
    /// Bytes that landed before their receive existed.
    pub ahead: u64,
    /// Offers of zero copy that are over.
    pub offers: u64,
    /// Streams read to their end.
    pub ends: u64,
    /// Transports that failed, programs that were killed or gave up.
    pub losses: u64,
    /// Runs in which a side computes for ever with bytes given.
    pub computing: u64,
}

impl Stats {
    /// Counts another run.
    pub fn add(&mut self, other: &Stats) {
        self.steps += other.steps;
        self.bytes += other.bytes;
        self.segments += other.segments;
        self.joined += other.joined;
        self.updates += other.updates;
        self.held += other.held;
        self.ahead += other.ahead;
        self.offers += other.offers;
        self.ends += other.ends;
        self.losses += other.losses;
        self.computing += other.computing;
    }
}

/// A law that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// In the run of this seed.
    pub seed: u64,
    /// With this flow control.
    pub kind: Kind,
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
        let (seed, kind, law) = (self.seed, self.kind, self.law);
        let (id, what) = (law.id(), &self.what);
        writeln!(f, "seed {seed}, {kind:?}, {id} {law:?}: {what}")?;
        write!(f, "replay: ferriband sim --only sdp --seed {seed}")
    }
}
