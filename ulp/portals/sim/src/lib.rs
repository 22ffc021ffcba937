//! Portals between two to four processes, from a seed: the very interfaces of
//! `ferriband-portals-proto`, their join `ferriband-portals-process` and the machines of
//! `ferriband-putget-proto`, over crossed queue pairs that are slow wherever they may be.
//!
//! Owns: the laws, the faults that show that a broken law is found ([`Plant`]), and the run of a
//! seed. Modelled are: the bytes of programs (`memory`), queue pairs (`link`, `rdma`), what the
//! join asks of both (`edge`), who is woken and who looks (`look`), failures (`failures`), programs
//! (`program`, `entries`, `posts`), the order of steps (`world`). What must hold is said by a plain
//! model of a target's lists (`lists`), by one of counters and what waits for them (`counts`), at
//! each touch of memory (`touch`), at each event (`events`) and at rest (`check`). Must not know:
//! how a machine decides.
#![forbid(unsafe_code)]

mod check;
mod counts;
mod direct;
mod edge;
mod entries;
mod events;
mod failures;
mod link;
mod lists;
mod look;
mod memory;
mod posts;
mod process;
mod program;
mod rdma;
mod recalls;
mod stats;
mod touch;
mod world;

use std::fmt;

pub use stats::Stats;
pub use world::run;

/// What holds in every run. The numbers are those of the laws of Portals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Law {
    /// Law 1: A request has one fate at its target, event and answer say that fate, and where it is
    /// Ok the bytes are those of the request, and were there before anybody was told.
    Fate,
    /// Law 2: Requests of one initiator to one interface are let in in the order in which they were
    /// begun, each by the first entry that matches.
    Order,
    /// Law 3: At one address, puts, gets and atomics of one initiator keep their order up to the
    /// advertised sizes.
    Address,
    /// Law 4: No byte outside of what an entry has and a request was granted is touched, and none
    /// before the request is let in, after it has ended, or after the entry's unlinking was told or
    /// has returned.
    Range,
    /// Law 5: Memory of the initiator is read until SEND is told and the descriptor is free, never
    /// after; what is volatile is copied at once.
    Local,
    /// Law 6: The events of an entry's end are told after those of its requests, AUTO_FREE after
    /// AUTO_UNLINK, each once.
    End,
    /// Law 7: Counters lose nothing; triggered operations fire once, not before their threshold,
    /// and in the order of thresholds.
    Count,
    /// Law 8: After a table entry was disabled nothing matches until it is enabled, it is not
    /// disabled without reason, and that is told once.
    Disabled,
    /// Law 9: Any other event is told once.
    Once,
    /// Law 10: Every queue has a bound: messages have receives, event queues hold what was asked
    /// for, requests under way are as many as may be.
    Bound,
    /// Law 11: A request to a dead peer is undeliverable, a stopped one is waited for, nobody
    /// sleeps while something could go on, and everything ends.
    Wake,
    /// Law 12: Two machines find no breach of the protocol in one another, and no call of a program
    /// is refused that is legal.
    Breach,
    /// Law 13: The machines do not panic.
    Panic,
}

impl Law {
    /// All of them.
    pub const ALL: [Law; 13] = [
        Law::Fate,
        Law::Order,
        Law::Address,
        Law::Range,
        Law::Local,
        Law::End,
        Law::Count,
        Law::Disabled,
        Law::Once,
        Law::Bound,
        Law::Wake,
        Law::Breach,
        Law::Panic,
    ];

    /// Its number.
    pub const fn number(self) -> u32 {
        self as u32 + 1
    }
}

/// What is broken on purpose: in the queue pairs, in memory, or in who drives the machines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plant {
    /// A short put's bytes are placed when its events were told and counted.
    EventBeforeData,
    /// RDMA is said to be over when it is posted.
    CompletedEarly,
    /// An answer says another fate.
    AnswerChanged,
    /// An unexpected header is lost.
    HeaderLost,
    /// Two messages change places, now and then.
    MessagesSwapped,
    /// Two entries are appended in the other order.
    EntriesSwapped,
    /// A short put's bytes are placed once more, later.
    PlacedAgain,
    /// An RDMA READ brings bytes more than were granted.
    BeyondGrant,
    /// Unlinking is said to have been done while a request is under way.
    UnlinkedWhileHeld,
    /// A lost connection is told while RDMA goes on.
    LossEarly,
    /// Volatile memory is read when the message is sent.
    VolatileUncopied,
    /// The bytes of a short put are read when the message has left the adapter.
    GatheredLate,
    /// A descriptor is said to be free while an operation uses it.
    ReleasedWhileUsed,
    /// AUTO_UNLINK is told before the last PUT.
    UnlinkBeforePut,
    /// AUTO_FREE is told before AUTO_UNLINK.
    FreeBeforeUnlink,
    /// A failure is not counted.
    FailureUncounted,
    /// A triggered operation is issued twice.
    TriggeredTwice,
    /// Two triggered operations have each other's threshold.
    ThresholdsSwapped,
    /// PT_DISABLED is told twice.
    DisabledTwice,
    /// A table entry that was disabled is enabled behind the program's back.
    EnabledUnasked,
    /// An event of an initiator is told twice.
    EventTwice,
    /// An event queue holds more than was asked for.
    QueueUnbounded,
    /// A side believes that its peer has more receives than it has.
    ReceivesForgotten,
    /// A request is not told that its connection is lost.
    LossForgotten,
    /// A process that is about to sleep does not look once more.
    SleptUnlooked,
    /// Operations that wait for room are not begun when there is some.
    RoomUnnoticed,
    /// A response comes twice.
    ResponseDoubled,
    /// PtlLEUnlink returns before the lease has come back.
    UnlinkUnawaited,
    /// Leases are not called back, and PtlPTDisable returns nevertheless.
    LeaseKept,
    /// Messages that call leases back are lost.
    RevokeLost,
    /// Messages give credits back that were not yet carried out, so an operation by a lease goes
    /// past a request.
    CreditsEarly,
    /// A put by a lease is not counted.
    CountDropped,
    /// A get by a lease reads a byte more.
    ReadBeyond,
    /// What changes memory does not wait for a READ in front of it.
    Unfenced,
    /// The end of a put by a lease is told when it is posted.
    DirectEarly,
    /// A long put by a lease is said to be copied, and its bytes are taken as it goes.
    DirectUncopied,
    /// Operations by leases go on when their connection was lost.
    DirectAfterLoss,
    /// Who sleeps is not told that operations by leases have ended.
    DirectUnarmed,
}

impl Plant {
    /// All of them.
    pub const ALL: [Plant; 38] = [
        Plant::EventBeforeData,
        Plant::CompletedEarly,
        Plant::AnswerChanged,
        Plant::HeaderLost,
        Plant::MessagesSwapped,
        Plant::EntriesSwapped,
        Plant::PlacedAgain,
        Plant::BeyondGrant,
        Plant::UnlinkedWhileHeld,
        Plant::LossEarly,
        Plant::VolatileUncopied,
        Plant::GatheredLate,
        Plant::ReleasedWhileUsed,
        Plant::UnlinkBeforePut,
        Plant::FreeBeforeUnlink,
        Plant::FailureUncounted,
        Plant::TriggeredTwice,
        Plant::ThresholdsSwapped,
        Plant::DisabledTwice,
        Plant::EnabledUnasked,
        Plant::EventTwice,
        Plant::QueueUnbounded,
        Plant::ReceivesForgotten,
        Plant::LossForgotten,
        Plant::SleptUnlooked,
        Plant::RoomUnnoticed,
        Plant::ResponseDoubled,
        Plant::UnlinkUnawaited,
        Plant::LeaseKept,
        Plant::RevokeLost,
        Plant::CreditsEarly,
        Plant::CountDropped,
        Plant::ReadBeyond,
        Plant::Unfenced,
        Plant::DirectEarly,
        Plant::DirectUncopied,
        Plant::DirectAfterLoss,
        Plant::DirectUnarmed,
    ];

    /// The laws that find it.
    pub const fn laws(self) -> &'static [Law] {
        match self {
            Plant::EventBeforeData | Plant::CompletedEarly | Plant::AnswerChanged => &[Law::Fate],
            Plant::HeaderLost => &[Law::Fate],
            Plant::MessagesSwapped | Plant::EntriesSwapped => &[Law::Order],
            Plant::PlacedAgain => &[Law::Address, Law::Range],
            Plant::BeyondGrant | Plant::UnlinkedWhileHeld => &[Law::Range],
            Plant::LossEarly => &[Law::Range],
            Plant::VolatileUncopied | Plant::GatheredLate => &[Law::Local],
            Plant::ReleasedWhileUsed => &[Law::Local],
            Plant::UnlinkBeforePut | Plant::FreeBeforeUnlink => &[Law::End],
            Plant::FailureUncounted | Plant::TriggeredTwice => &[Law::Count],
            Plant::ThresholdsSwapped => &[Law::Count],
            Plant::DisabledTwice | Plant::EnabledUnasked => &[Law::Disabled],
            Plant::EventTwice => &[Law::Once],
            Plant::QueueUnbounded | Plant::ReceivesForgotten => &[Law::Bound],
            Plant::LossForgotten | Plant::SleptUnlooked | Plant::RoomUnnoticed => &[Law::Wake],
            Plant::ResponseDoubled => &[Law::Breach],
            Plant::UnlinkUnawaited | Plant::ReadBeyond => &[Law::Range],
            Plant::LeaseKept => &[Law::Disabled],
            Plant::RevokeLost | Plant::DirectUnarmed => &[Law::Wake],
            Plant::CreditsEarly => &[Law::Order],
            Plant::CountDropped => &[Law::Count],
            Plant::Unfenced => &[Law::Address],
            Plant::DirectEarly => &[Law::Fate],
            Plant::DirectUncopied => &[Law::Local],
            Plant::DirectAfterLoss => &[Law::Range],
        }
    }
}

/// How a seed is run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scenario {
    /// What is broken on purpose.
    pub plant: Option<Plant>,
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
        let (seed, law, what) = (self.seed, self.law, &self.what);
        writeln!(f, "seed {seed}, law {} {law:?}: {what}", law.number())?;
        write!(f, "replay: ferriband sim --only portals --seed {seed}")
    }
}
