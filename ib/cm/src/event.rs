//! What the consumer hears of.

use crate::params::{LapRequest, Reply, Request, SidrAnswer, SidrRequest};
use crate::table::Kind;
use crate::types::UserId;
use ferriband_wire::CommId;
use ferriband_wire::cm::{ApStatus, Info, PrivateData, RejOf, RejectReason};

/// Something for the consumer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Whose: the listener's for requests, else as the identifier was made or adopted.
    pub user: UserId,
    /// The identifier that it is about; new in requests.
    pub comm: CommId,
    /// What happened.
    pub kind: CmEvent,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CmEvent {
    /// A REQ for a listener: `accept`, `reject` or `delay`.
    Request(Box<Request>),
    /// A REP: `ready` or `reject`.
    Reply(Box<Reply>),
    /// The passive side is connected: by an RTU, whose private data are here, or by
    /// `established_hint` (zeros).
    Established(PrivateData<224>),
    /// The other side says no, or that it is over; the identifier's state tells how far things had
    /// come, and it is at its
    /// end: `TimewaitExit` follows if it was connected.
    Rejected {
        /// Which message is refused.
        rejected: RejOf,
        /// Why.
        reason: RejectReason,
        /// What goes with the reason.
        ari: Info,
        /// The other consumer's.
        private_data: PrivateData<148>,
    },
    /// Nobody answered this message, however often it was sent. After a REQ, REP or SIDR_REQ the
    /// identifier is at its
    /// end.
    Unreachable(Kind),
    /// The other side wants to end: `disconnect` answers.
    DisconnectRequest(PrivateData<220>),
    /// The connection is over: the DREP has come (its private data), or nobody answered (zeros).
    /// `TimewaitExit` follows.
    Disconnected(PrivateData<224>),
    /// No packet of the connection is under way any more. The identifier is gone.
    TimewaitExit,
    /// The local device is gone, and the identifier with it.
    DeviceGone,
    /// The other side offers an alternate path: `answer_alternate`.
    AlternateRequest(Box<LapRequest>),
    /// What became of the alternate path that was offered.
    AlternateAnswer {
        /// Whether it is loaded.
        status: ApStatus,
        /// What goes with the status.
        info: Info,
        /// The other consumer's.
        private_data: PrivateData<148>,
    },
    /// A SIDR_REQ for a listener: `sidr_reply`.
    SidrRequest(Box<SidrRequest>),
    /// The answer to a SIDR_REQ. The identifier is gone.
    SidrReply(Box<SidrAnswer>),
}
