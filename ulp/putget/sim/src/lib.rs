//! Put and get between two to four processes, from a seed: the very machines and tags of
//! `ferriband-putget-proto` over crossed queue pairs that are slow wherever they may be.
//!
//! Owns: the laws, the faults that show that a broken law is found ([`Plant`]), and the run of a
//! seed. Modelled are: queue pairs (`link`), a process's memory and its program (`process`,
//! `program`), what a machine asks of both (`edge`), who is woken and who looks (`look`), failures
//! (`failures`), the order of steps (`world`), and what must hold (`oracle`, `check`). Must not
//! know: how a machine decides.
#![forbid(unsafe_code)]

mod check;
mod direct;
mod edge;
mod failures;
mod link;
mod look;
mod oracle;
mod process;
mod program;
mod rdma;
mod stats;
mod world;

use std::fmt;

pub use stats::Stats;
pub use world::run;

/// What holds in every run. The numbers are those of the laws of put and get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Law {
    /// Law 1: A request has one fate at its target, its answer says that fate, and where the answer
    /// says Ok the bytes are those of the request.
    Fate,
    /// Law 2: Requests of one initiator are admitted in the order in which they were begun.
    Order,
    /// Law 3: At one address, short puts of at most 64 bytes keep their order, and short gets of at
    /// most 8 bytes keep their order with them. So do those by leases, among each other and with
    /// short ones.
    Address,
    /// Law 4: No byte outside what was granted or lent is touched, and none before `admit`, after
    /// `ended`, after a lease came back, or after an unregister has returned.
    Range,
    /// Law 5: Memory of the initiator is touched until its request has ended there, never after.
    Local,
    /// Law 7: A buffer counts each request that was carried out there once, by whatever way.
    Counter,
    /// Law 9: A notification fires once, by the next operation of its direction on its buffer.
    Notification,
    /// Law 10: Messages under way are at most the receives, requests under way at most those that
    /// the peer answers.
    Bound,
    /// Law 11: A request to a dead peer is undeliverable, a stopped one is waited for, nobody
    /// sleeps while something could go on, and everything ends.
    Wake,
    /// Law 12: Credits are conserved, and the last one is not spent on a request or a response.
    Credits,
    /// Law 13: Two machines find no breach of the protocol in one another.
    Breach,
    /// Law 14: The machines do not panic.
    Panic,
}

impl Law {
    /// All of them.
    pub const ALL: [Law; 12] = [
        Law::Fate,
        Law::Order,
        Law::Address,
        Law::Range,
        Law::Local,
        Law::Counter,
        Law::Notification,
        Law::Bound,
        Law::Wake,
        Law::Credits,
        Law::Breach,
        Law::Panic,
    ];

    /// Its number.
    pub const fn number(self) -> u32 {
        match self {
            Law::Fate => 1,
            Law::Order => 2,
            Law::Address => 3,
            Law::Range => 4,
            Law::Local => 5,
            Law::Counter => 7,
            Law::Notification => 9,
            Law::Bound => 10,
            Law::Wake => 11,
            Law::Credits => 12,
            Law::Breach => 13,
            Law::Panic => 14,
        }
    }
}

/// What is broken on purpose: in the queue pairs, in memory, or in who drives the machines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plant {
    /// RDMA is said to be over when it is posted, so the response goes before the bytes.
    CompletedEarly,
    /// The bytes of a short put are placed when the request has ended.
    PlacedLate,
    /// A notification that has fired stays bound.
    NotificationKept,
    /// A notification fires for operations of the other direction.
    DirectionSwapped,
    /// A side believes that its peer has one receive more, and spends the last credit.
    LastCredit,
    /// Responses that must be looked at, lest they take all receives, come unsolicited.
    PressUnsolicited,
    /// What a request asks to be answered solicited is answered unsolicited, now and then.
    SolicitLost,
    /// A response is lost, now and then.
    ResponseLost,
    /// A response comes twice, now and then.
    ResponseDoubled,
    /// A response says another status, now and then.
    StatusChanged,
    /// Two messages change places, now and then.
    MessagesSwapped,
    /// A short get's data are taken when the response leaves the adapter.
    FetchedLate,
    /// A short put's data are taken when the message leaves the adapter.
    GatheredLate,
    /// Memory is given free when RDMA begins.
    ReleasedEarly,
    /// An RDMA READ brings four bytes more than were granted.
    BeyondGrant,
    /// A request is not told that its connection is lost.
    LossForgotten,
    /// A loss is told while RDMA goes on.
    LossEarly,
    /// Receives are posted again when the process goes to sleep, behind their credits.
    ReceiveLate,
    /// Receives that were posted again are not told, now and then.
    CreditLost,
    /// A process that is about to sleep does not look once more.
    SleptUnlooked,
    /// A process that waits for unsolicited messages arms for solicited ones only.
    ArmedForSolicited,
    /// RDMA is said to have no room although none is under way.
    JobForgotten,
    /// A buffer that is lent goes without being called back.
    LeaseKept,
    /// A buffer that is lent is called back, and goes before it is returned.
    LeaseUnawaited,
    /// A revocation is lost, now and then.
    RevokeLost,
    /// The end of a put by a lease is told when it is posted.
    DirectEarly,
    /// Fences keep nothing.
    Unfenced,
    /// Credits of messages go back before they are carried out, so operations by leases overtake
    /// them.
    CreditsEarly,
    /// A buffer that counts is lent as one that does not.
    GetUncounted,
    /// A put by a lease is not counted, now and then.
    CountLost,
    /// A process that waits for the end of an operation by a lease does not arm for it.
    DirectUnarmed,
}

impl Plant {
    /// All of them.
    pub const ALL: [Plant; 31] = [
        Plant::CompletedEarly,
        Plant::PlacedLate,
        Plant::NotificationKept,
        Plant::DirectionSwapped,
        Plant::LastCredit,
        Plant::PressUnsolicited,
        Plant::SolicitLost,
        Plant::ResponseLost,
        Plant::ResponseDoubled,
        Plant::StatusChanged,
        Plant::MessagesSwapped,
        Plant::FetchedLate,
        Plant::GatheredLate,
        Plant::ReleasedEarly,
        Plant::BeyondGrant,
        Plant::LossForgotten,
        Plant::LossEarly,
        Plant::ReceiveLate,
        Plant::CreditLost,
        Plant::SleptUnlooked,
        Plant::ArmedForSolicited,
        Plant::JobForgotten,
        Plant::LeaseKept,
        Plant::LeaseUnawaited,
        Plant::RevokeLost,
        Plant::DirectEarly,
        Plant::Unfenced,
        Plant::CreditsEarly,
        Plant::GetUncounted,
        Plant::CountLost,
        Plant::DirectUnarmed,
    ];

    /// The laws that find it.
    pub const fn laws(self) -> &'static [Law] {
        match self {
            Plant::CompletedEarly => &[Law::Range, Law::Fate],
            Plant::PlacedLate | Plant::ReleasedEarly | Plant::BeyondGrant => &[Law::Range],
            Plant::NotificationKept | Plant::DirectionSwapped => &[Law::Notification],
            Plant::LastCredit => &[Law::Credits],
            Plant::CreditLost => &[Law::Credits, Law::Wake],
            Plant::PressUnsolicited | Plant::SolicitLost | Plant::ResponseLost => &[Law::Wake],
            Plant::SleptUnlooked | Plant::ArmedForSolicited | Plant::JobForgotten => &[Law::Wake],
            Plant::ResponseDoubled => &[Law::Breach],
            Plant::StatusChanged => &[Law::Fate],
            Plant::MessagesSwapped => &[Law::Order],
            Plant::FetchedLate => &[Law::Address],
            Plant::GatheredLate => &[Law::Local],
            Plant::LossForgotten => &[Law::Wake, Law::Fate],
            Plant::LossEarly => &[Law::Range, Law::Local],
            Plant::ReceiveLate => &[Law::Bound],
            Plant::LeaseKept | Plant::LeaseUnawaited => &[Law::Range],
            Plant::RevokeLost | Plant::DirectUnarmed => &[Law::Wake],
            Plant::DirectEarly => &[Law::Fate],
            Plant::Unfenced | Plant::CreditsEarly => &[Law::Address],
            Plant::GetUncounted | Plant::CountLost => &[Law::Counter],
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
        write!(f, "replay: ferriband sim --only putget --seed {seed}")
    }
}
