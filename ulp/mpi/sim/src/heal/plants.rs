//! What is broken on purpose, and which law finds it.

/// What is broken on purpose. The numbers are those of the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// 1: the queue pair of the last life is not destroyed.
    NoFence,
    /// 2: what was received is read before the completions are drained.
    WordBeforeDrain,
    /// 3: the replay begins at the last acknowledgement, not at the peer's word.
    FromLastAck,
    /// 4: what says that all is written goes again before it is written.
    FinFirst,
    /// 5: an envelope that goes again tells the credit of before.
    OldCredit,
    /// 6: the key of a closed adapter is used.
    OldKey,
    /// 7: a written message is over when the adapter has written it.
    WriteOverEarly,
    /// 8: one by the lane is over when the adapter has sent it.
    LaneOverEarly,
    /// 9: a bundle of which half was taken is delivered whole.
    BundleWhole,
    /// 10: what a message without envelope stands for is kept over a heal.
    PatternKept,
    /// 11: both questions stand.
    BothStand,
    /// 12: a peer is lost for silence.
    LostForSilence,
    /// 13: one path is tried for ever.
    OnePath,
    /// 14: a completion of an old life counts in the new one.
    OldCompletion,
    /// 15: completions of a queue pair that is destroyed count as those of the next, which has its
    /// number.
    NumberReused,
    /// 16: the lane of an old life is taken.
    OldLane,
    /// 17: landings are counted from 0 at a heal.
    LandingsFromZero,
    /// 18: a late word takes landings back.
    LateNote,
    /// 19: who was asked to stop writing stays so over a heal.
    GateStays,
    /// 20: the log has no bound.
    NoBound,
    /// 21: no back-off.
    NoBackOff,
    /// 22: one message's fault ends all.
    OneForAll,
    /// 23: a read goes on from what was asked for, not from what came.
    ReadAsked,
    /// 24: the answer to an older question is accepted.
    OlderAnswer,
    /// 25: the return word is zeroed at a heal.
    ZeroedWord,
    /// 26: a number is taken back behind its delivery.
    TakenBack,
    /// 27: keys are not named anew.
    RenewForgotten,
    /// 28: receives of a dead queue pair are never posted again.
    ReceivesForgotten,
    /// 29: it returns when the port is ACTIVE, without a probe.
    ReturnsWhenActive,
    /// 30: a record of a mirrored design is not logged.
    MirrorNotLogged,
    /// 31: what waits for its turn keeps keys of a closed adapter.
    FifoKeepsKeys,
    /// 32: a queue pair that could not be destroyed counts as destroyed.
    BusyBelieved,
    /// 33: the lower rank answers a number that it has asked itself.
    AnswersOwnNumber,
    /// 34: a late question breaks a good connection.
    LateQuestion,
    /// 35: neither an answer to no question nor a question of a life that is over is answered. It
    /// is none of [`Fault::ALL`]: 1,000 seeds do not find it.
    StrayAnswer,
    /// 36: a message is taken before what is under way is judged.
    MessageFirst,
    /// 37: keys are void up to the last number of each heal.
    SentAnew,
    /// 38: a receive that is written is given up, and the peer's key to its memory stays good.
    GivenUpWithKey,
    /// 39: an adapter is back without probes.
    BackUnproven,
    /// 40: keys of the old adapter are kept when the connection moves to another one.
    KeysStay,
    /// 41: a peer that computes counts as a silent path.
    PeerIsPath,
    /// 42: MPI_Finalize does not wait for acknowledgements.
    LeavesEarly,
    /// 43: a card of an old serial is believed.
    OldCard,
    /// 44: an event of a port is believed, not looked after.
    EventBelieved,
    /// 45: what was sent again is not told.
    BytesUntold,
    /// 46: a receive of the lane is given up, and its sender is not told.
    LandingUntold,
    /// 47: a send is given up, and goes again.
    SentAgain,
    /// 48: a send that is read is given up, and the peer's key to its memory stays good.
    SourceWithKey,
    /// 49: a life begins with keys that became void behind the word of it.
    ConnectsStale,
    /// 50: what an adapter says first of memory is believed, also of one that fails.
    FirstBelieved,
    /// 51: a key that was named anew is taken for a later message of that name.
    OldName,
}

impl Fault {
    /// All that are found.
    pub const ALL: [Self; 50] = [
        Self::NoFence,
        Self::WordBeforeDrain,
        Self::FromLastAck,
        Self::FinFirst,
        Self::OldCredit,
        Self::OldKey,
        Self::WriteOverEarly,
        Self::LaneOverEarly,
        Self::BundleWhole,
        Self::PatternKept,
        Self::BothStand,
        Self::LostForSilence,
        Self::OnePath,
        Self::OldCompletion,
        Self::NumberReused,
        Self::OldLane,
        Self::LandingsFromZero,
        Self::LateNote,
        Self::GateStays,
        Self::NoBound,
        Self::NoBackOff,
        Self::OneForAll,
        Self::ReadAsked,
        Self::OlderAnswer,
        Self::ZeroedWord,
        Self::TakenBack,
        Self::RenewForgotten,
        Self::ReceivesForgotten,
        Self::ReturnsWhenActive,
        Self::MirrorNotLogged,
        Self::FifoKeepsKeys,
        Self::BusyBelieved,
        Self::AnswersOwnNumber,
        Self::LateQuestion,
        Self::MessageFirst,
        Self::SentAnew,
        Self::GivenUpWithKey,
        Self::BackUnproven,
        Self::KeysStay,
        Self::PeerIsPath,
        Self::LeavesEarly,
        Self::OldCard,
        Self::EventBelieved,
        Self::BytesUntold,
        Self::LandingUntold,
        Self::SentAgain,
        Self::SourceWithKey,
        Self::ConnectsStale,
        Self::FirstBelieved,
        Self::OldName,
    ];

    /// The laws that find it, by the first letters of what a failure says.
    pub const fn laws(self) -> &'static [&'static str] {
        match self {
            Self::NoFence | Self::WordBeforeDrain | Self::BusyBelieved => &["H1"],
            Self::FromLastAck | Self::GivenUpWithKey | Self::LandingUntold => &["H4"],
            Self::SentAgain | Self::SourceWithKey | Self::ConnectsStale => &["H4"],
            // Bytes come for what is over, or have not come.
            Self::OldCompletion => &["H4", "M1"],
            Self::FinFirst | Self::OldKey | Self::FifoKeepsKeys | Self::KeysStay => &["H5"],
            Self::OldCredit => &["M3"],
            Self::WriteOverEarly | Self::LaneOverEarly | Self::ZeroedWord => &["H3"],
            Self::TakenBack => &["H2"],
            // A piece is taken twice.
            Self::BundleWhole => &["H2", "H4"],
            Self::PatternKept | Self::ReadAsked => &["M1"],
            Self::MessageFirst | Self::SentAnew | Self::RenewForgotten => &["H9", "H10"],
            Self::BothStand | Self::GateStays | Self::LateQuestion | Self::StrayAnswer => &["H9"],
            Self::OnePath | Self::PeerIsPath | Self::OldCard | Self::EventBelieved => &["H9"],
            // What nobody has acknowledged is lost with who left.
            Self::LeavesEarly => &["H3", "H9"],
            Self::ReturnsWhenActive | Self::BackUnproven => &["H8"],
            Self::BytesUntold => &["H11"],
            Self::LostForSilence => &["H6"],
            Self::NumberReused => &["H1", "H2", "H3", "M1", "M3"],
            Self::OldLane => &["H2", "H9"],
            Self::LandingsFromZero => &["M1", "H3", "H7", "H9", "H10"],
            Self::LateNote => &["H3", "H4"],
            Self::NoBound | Self::OneForAll | Self::FirstBelieved => &["H7"],
            Self::NoBackOff => &["H8"],
            Self::OlderAnswer => &["H1", "H2"],
            Self::ReceivesForgotten => &["H10"],
            Self::MirrorNotLogged => &["M6"],
            // The message of before is over, or another one of now has its memory.
            Self::OldName => &["H4", "H7", "M1"],
            Self::AnswersOwnNumber => &["H1", "H9"],
        }
    }
}
