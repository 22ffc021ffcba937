//! The table of the connection manager: what a message does in each state (IBA 12.9.7, 12.9.8). All pairs are listed;
//! what a cell does is in `receive`.

use ferriband_wire::cm::Message;

/// State of a communication identifier (IBA 12.9.7). The four LAP states are Established as far as the queue pair is
/// concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum State {
    /// Nobody has this identifier, or nobody listens to this service.
    Idle,
    /// Somebody listens to this service.
    Listen,
    /// Active side: a REQ is out.
    ReqSent,
    /// Active side: the REQ has come, its answer will take a while.
    MraReqRcvd,
    /// Passive side: the consumer has a REQ before it.
    ReqRcvd,
    /// Passive side: the same, and the other side knows that it takes a while.
    MraReqSent,
    /// Passive side: a REP is out.
    RepSent,
    /// Passive side: the REP has come, the RTU will take a while.
    MraRepRcvd,
    /// Active side: the consumer has a REP before it.
    RepRcvd,
    /// Active side: the same, and the other side knows that it takes a while.
    MraRepSent,
    /// Connected.
    Established,
    /// Connected; a LAP is out.
    LapSent,
    /// Connected; the consumer has a LAP before it.
    LapRcvd,
    /// Connected; the consumer has a LAP before it, and the other side knows that it takes a while.
    MraLapSent,
    /// Connected; the LAP has come, its answer will take a while.
    MraLapRcvd,
    /// A DREQ is out.
    DreqSent,
    /// The consumer has a DREQ before it.
    DreqRcvd,
    /// The connection is over; packets of it may still be under way.
    TimeWait,
    /// A SIDR_REQ is out.
    SidrReqSent,
    /// The consumer has a SIDR_REQ before it.
    SidrReqRcvd,
}

impl State {
    /// All states, in the table's order.
    pub const ALL: [State; 20] = [
        State::Idle,
        State::Listen,
        State::ReqSent,
        State::MraReqRcvd,
        State::ReqRcvd,
        State::MraReqSent,
        State::RepSent,
        State::MraRepRcvd,
        State::RepRcvd,
        State::MraRepSent,
        State::Established,
        State::LapSent,
        State::LapRcvd,
        State::MraLapSent,
        State::MraLapRcvd,
        State::DreqSent,
        State::DreqRcvd,
        State::TimeWait,
        State::SidrReqSent,
        State::SidrReqRcvd,
    ];

    /// Connected, whatever becomes of an alternate path.
    pub const fn is_established(self) -> bool {
        matches!(
            self,
            State::Established
                | State::LapSent
                | State::LapRcvd
                | State::MraLapSent
                | State::MraLapRcvd
        )
    }
}

/// The eleven messages, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// ConnectRequest.
    Req,
    /// MsgRcptAck.
    Mra,
    /// ConnectReject.
    Rej,
    /// ConnectReply.
    Rep,
    /// ReadyToUse.
    Rtu,
    /// DisconnectRequest.
    Dreq,
    /// DisconnectReply.
    Drep,
    /// ServiceIDResReq.
    SidrReq,
    /// ServiceIDResReqResp.
    SidrRep,
    /// LoadAlternatePath.
    Lap,
    /// AlternatePathResponse.
    Apr,
}

impl Kind {
    /// All messages, in the order of their attributes, which is the table's.
    pub const ALL: [Kind; 11] = [
        Kind::Req,
        Kind::Mra,
        Kind::Rej,
        Kind::Rep,
        Kind::Rtu,
        Kind::Dreq,
        Kind::Drep,
        Kind::SidrReq,
        Kind::SidrRep,
        Kind::Lap,
        Kind::Apr,
    ];

    /// What a message is.
    pub const fn of(message: &Message) -> Kind {
        match message {
            Message::Req(_) => Kind::Req,
            Message::Mra(_) => Kind::Mra,
            Message::Rej(_) => Kind::Rej,
            Message::Rep(_) => Kind::Rep,
            Message::Rtu(_) => Kind::Rtu,
            Message::Dreq(_) => Kind::Dreq,
            Message::Drep(_) => Kind::Drep,
            Message::SidrReq(_) => Kind::SidrReq,
            Message::SidrRep(_) => Kind::SidrRep,
            Message::Lap(_) => Kind::Lap,
            Message::Apr(_) => Kind::Apr,
        }
    }
}

/// What is done with a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Reaction {
    /// Nothing: it came too late, or never should have.
    Ignore,
    /// A REQ for a listener: an identifier is made and the consumer asked.
    Request,
    /// A REQ that nobody listens for: REJ, invalid service identifier.
    RefuseService,
    /// A duplicate: what was answered is sent again.
    Resend,
    /// A duplicate while the consumer thinks: MRA, so that the other side waits longer.
    Delay,
    /// The other side needs longer: wait.
    TakeMra,
    /// The end, with a reason.
    TakeRej,
    /// Accepted: the consumer prepares its queue pair, then RTU.
    TakeRep,
    /// A REP that belongs to nothing here: REJ, invalid communication identifier.
    RefuseId,
    /// Connected.
    TakeRtu,
    /// The other side wants to end: the consumer is asked.
    TakeDreq,
    /// Both sides want to end: DREP at once.
    CrossDreq,
    /// Both sides have ended.
    TakeDrep,
    /// A DREQ for what is over: DREP, so that the other side stops asking.
    AnswerDrep,
    /// A REQ that came before, and what it made is over: the REJ that it got, or REJ, stale connection.
    RefuseStale,
    /// The other side offers an alternate path: the consumer is asked.
    TakeLap,
    /// A LAP for what is over: APR, invalid communication identifier.
    RefuseLap,
    /// What became of the alternate path.
    TakeApr,
    /// A SIDR_REQ for a listener: the consumer is asked.
    SidrRequest,
    /// A SIDR_REQ that nobody listens for: SIDR_REP, not supported.
    RefuseSidr,
    /// Which queue pair serves.
    TakeSidrRep,
}

use Reaction::{
    AnswerDrep, CrossDreq, Delay, Ignore, RefuseId, RefuseLap, RefuseService, RefuseSidr,
    RefuseStale, Request, Resend, SidrRequest, TakeApr, TakeDrep, TakeDreq, TakeLap, TakeMra,
    TakeRej, TakeRep, TakeRtu, TakeSidrRep,
};

/// One row for each state, in the order of `State::ALL`; one column for each message, in the order of `Kind::ALL`.
/// Short names keep a row on a line.
#[rustfmt::skip]
pub const TABLE: [(State, [Reaction; 11]); 20] = {
    const NONE: Reaction = Ignore;
    [
    //                     REQ            MRA      REJ      REP       RTU      DREQ        DREP      SIDR_REQ     SIDR_REP     LAP        APR
    (State::Idle,        [RefuseService, NONE,    NONE,    RefuseId, NONE,    AnswerDrep, NONE,     RefuseSidr,  NONE,        RefuseLap, NONE]),
    (State::Listen,      [Request,       NONE,    NONE,    NONE,     NONE,    NONE,       NONE,     SidrRequest, NONE,        NONE,      NONE]),
    (State::ReqSent,     [NONE,          TakeMra, TakeRej, TakeRep,  NONE,    NONE,       NONE,     NONE,        NONE,        NONE,      NONE]),
    (State::MraReqRcvd,  [NONE,          NONE,    TakeRej, TakeRep,  NONE,    NONE,       NONE,     NONE,        NONE,        NONE,      NONE]),
    (State::ReqRcvd,     [Delay,         NONE,    TakeRej, NONE,     NONE,    NONE,       NONE,     NONE,        NONE,        NONE,      NONE]),
    (State::MraReqSent,  [Resend,        NONE,    TakeRej, NONE,     NONE,    NONE,       NONE,     NONE,        NONE,        NONE,      NONE]),
    (State::RepSent,     [Resend,        TakeMra, TakeRej, NONE,     TakeRtu, TakeDreq,   NONE,     NONE,        NONE,        NONE,      NONE]),
    (State::MraRepRcvd,  [NONE,          NONE,    TakeRej, NONE,     TakeRtu, TakeDreq,   NONE,     NONE,        NONE,        NONE,      NONE]),
    (State::RepRcvd,     [NONE,          NONE,    TakeRej, Delay,    NONE,    NONE,       NONE,     NONE,        NONE,        NONE,      NONE]),
    (State::MraRepSent,  [NONE,          NONE,    TakeRej, Resend,   NONE,    NONE,       NONE,     NONE,        NONE,        NONE,      NONE]),
    (State::Established, [NONE,          NONE,    TakeRej, Resend,   NONE,    TakeDreq,   NONE,     NONE,        NONE,        TakeLap,   NONE]),
    (State::LapSent,     [NONE,          TakeMra, TakeRej, Resend,   NONE,    TakeDreq,   NONE,     NONE,        NONE,        NONE,      TakeApr]),
    (State::LapRcvd,     [NONE,          NONE,    TakeRej, Resend,   NONE,    TakeDreq,   NONE,     NONE,        NONE,        Delay,     NONE]),
    (State::MraLapSent,  [NONE,          NONE,    TakeRej, Resend,   NONE,    TakeDreq,   NONE,     NONE,        NONE,        Resend,    NONE]),
    (State::MraLapRcvd,  [NONE,          NONE,    TakeRej, Resend,   NONE,    TakeDreq,   NONE,     NONE,        NONE,        NONE,      TakeApr]),
    (State::DreqSent,    [NONE,          NONE,    TakeRej, NONE,     NONE,    CrossDreq,  TakeDrep, NONE,        NONE,        NONE,      NONE]),
    (State::DreqRcvd,    [NONE,          NONE,    NONE,    NONE,     NONE,    NONE,       NONE,     NONE,        NONE,        NONE,      NONE]),
    (State::TimeWait,    [RefuseStale,   NONE,    NONE,    Resend,   NONE,    AnswerDrep, NONE,     Resend,      NONE,        NONE,      NONE]),
    (State::SidrReqSent, [NONE,          NONE,    NONE,    NONE,     NONE,    NONE,       NONE,     NONE,        TakeSidrRep, NONE,      NONE]),
    (State::SidrReqRcvd, [NONE,          NONE,    NONE,    NONE,     NONE,    NONE,       NONE,     NONE,        NONE,        NONE,      NONE]),
    ]
};

/// The cell of a state and a message.
pub const fn reaction(state: State, kind: Kind) -> Reaction {
    TABLE[state as usize].1[kind as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every pair is listed once: rows and columns are in the order of the types, which index them.
    #[test]
    fn every_pair_is_listed() {
        for (index, state) in State::ALL.iter().enumerate() {
            assert_eq!((*state as usize, TABLE[index].0), (index, *state));
        }
        for (index, kind) in Kind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, index);
        }
        assert_eq!(State::ALL.len() * Kind::ALL.len(), 220);
    }

    /// A message is taken only where the message that it answers, or follows, is out.
    #[test]
    fn answers_are_taken_only_where_they_are_expected() {
        let takes = |reaction| -> Vec<State> {
            State::ALL
                .into_iter()
                .filter(|state| {
                    Kind::ALL
                        .iter()
                        .any(|kind| super::reaction(*state, *kind) == reaction)
                })
                .collect()
        };
        assert_eq!(takes(TakeRep), [State::ReqSent, State::MraReqRcvd]);
        assert_eq!(takes(TakeRtu), [State::RepSent, State::MraRepRcvd]);
        assert_eq!(takes(TakeApr), [State::LapSent, State::MraLapRcvd]);
        assert_eq!(takes(TakeDrep), [State::DreqSent]);
        assert_eq!(takes(TakeSidrRep), [State::SidrReqSent]);
        assert_eq!(takes(TakeLap), [State::Established]);
        assert_eq!(
            takes(TakeMra),
            [State::ReqSent, State::RepSent, State::LapSent]
        );
        assert!(
            State::ALL
                .into_iter()
                .filter(|state| state.is_established())
                .all(|state| reaction(state, Kind::Dreq) == TakeDreq)
        );
    }
}
