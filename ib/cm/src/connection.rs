//! One identifier: what is known of its connection, the message that waits for an answer, and the answers that are kept
//! for duplicates.

use crate::params::{Path, Summary};
use crate::qp::{ack_timeout, path_vector};
use crate::table::{Kind, State};
use crate::types::{LocalEnd, Peer, Route, UserId};
use ferriband_transport::types::{AddressVector, Instant, QpType};
use ferriband_wire::cm::CmMad;
use ferriband_wire::{CommId, Guid, Mtu, PKey, Psn, Qpn, ServiceId, TimeCode, TransactionId};

/// A path as the queue pair gets it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathEnd {
    pub local: LocalEnd,
    pub path: Path,
    pub av: AddressVector,
    /// How long the local queue pair waits for an acknowledgement.
    pub timeout: TimeCode,
}

impl PathEnd {
    /// `delay` is the acknowledging adapter's: the local one's until the other one's is known.
    pub fn new(local: LocalEnd, path: Path, delay: TimeCode) -> Self {
        PathEnd {
            av: path_vector(&local, &path),
            timeout: ack_timeout(delay, path.packet_life),
            local,
            path,
        }
    }
}

/// A message that waits for its answer.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub mad: CmMad,
    pub retries_left: u8,
    /// Nanoseconds until it is sent again, counted as a repetition.
    pub timeout_ns: u64,
    /// Repetitions before the first that counts.
    pub early: u8,
    /// A REQ was refused because nobody listened: until when somebody may begin to.
    pub hopes_until: Option<Instant>,
}

impl Pending {
    /// Of a time-out that is long for people (4.3 s in rdma_cm), a sixteenth goes by before a message is sent again for the first time, then as much again, an eighth, a
    /// quarter, half: a lost message does not cost the whole time-out, and nobody is given up earlier or later.
    const EARLY: u8 = 4;
    /// Shorter pauses are none: the answer may be on its way.
    const LEAST_NS: u64 = 50_000_000;

    pub fn new(mad: CmMad, retries: u8, timeout_ns: u64) -> Pending {
        Pending {
            mad,
            retries_left: retries,
            timeout_ns,
            early: match timeout_ns >> Self::EARLY {
                pause if pause < Self::LEAST_NS => 0,
                _ => Self::EARLY,
            },
            hopes_until: None,
        }
    }

    /// Nanoseconds until the next repetition, having just been sent for the first time.
    pub fn first_pause_ns(&self) -> u64 {
        self.timeout_ns >> self.early
    }

    /// It is time to repeat it: nanoseconds until the next time. None if it was repeated often enough.
    pub fn repeat(&mut self) -> Option<u64> {
        if self.early > 0 {
            let pause = self.timeout_ns >> self.early;
            self.early -= 1;
            return Some(pause);
        }
        self.retries_left = self.retries_left.checked_sub(1)?;
        Some(self.timeout_ns)
    }
}

/// An identifier and its connection.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// None: nobody holds the identifier any more.
    pub user: Option<UserId>,
    pub state: State,
    /// The side that asked.
    pub active: bool,
    pub route: Route,
    /// Addresses that messages of this connection may come from: of the route, and of an alternate one.
    pub peers: [Option<Peer>; 2],
    /// Transaction of REQ, REP and RTU.
    pub transaction: TransactionId,
    /// Transaction of the LAP or DREQ that is out or before the consumer.
    pub later_transaction: TransactionId,
    pub remote: Option<CommId>,
    pub remote_guid: Guid,
    pub qp_type: QpType,
    pub local_qpn: Qpn,
    pub remote_qpn: Qpn,
    pub rq_psn: Psn,
    pub sq_psn: Psn,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    pub path_mtu: Mtu,
    pub pkey: PKey,
    /// None for service ID resolution.
    pub primary: Option<PathEnd>,
    /// Of service ID resolution.
    pub service_id: ServiceId,
    pub alternate: Option<PathEnd>,
    /// An alternate path that is offered in a LAP, by either side.
    pub offered: Option<PathEnd>,
    /// The alternate path was changed after the connection was made, or the paths were swapped.
    pub path_changed: bool,
    /// How long an answer of the other side may take, and how often it is asked for.
    pub response_ns: u64,
    /// After which time the other side sends its request again, and how much longer an MRA made it wait.
    pub asks_again_ns: u64,
    pub delayed_ns: u64,
    pub retries: u8,
    pub pending: Option<Pending>,
    /// What was answered to a REQ (or SIDR_REQ), a REP, a DREQ and a LAP.
    kept: [Option<Box<CmMad>>; 4],
    /// The listener in whose backlog the request counts.
    pub backlog_of: Option<UserId>,
    /// The request's event has not been taken out yet.
    pub untold: bool,
    /// In the tables by the other side's identifier, by its queue pair, by its SIDR request.
    pub known_by_id: bool,
    pub known_by_qpn: bool,
    pub known_by_request: bool,
    /// When something happens by itself.
    pub deadline: Option<Instant>,
}

impl Connection {
    /// An identifier about which nothing is known but where its messages go.
    pub fn new(user: UserId, state: State, route: Route, transaction: TransactionId) -> Self {
        Connection {
            user: Some(user),
            state,
            active: false,
            route,
            peers: [Some(route.peer()), None],
            transaction,
            later_transaction: transaction,
            remote: None,
            remote_guid: Guid(0),
            qp_type: QpType::Ud,
            local_qpn: Qpn(0),
            remote_qpn: Qpn(0),
            rq_psn: Psn::new(0),
            sq_psn: Psn::new(0),
            responder_resources: 0,
            initiator_depth: 0,
            retry_count: 0,
            rnr_retry_count: 0,
            path_mtu: Mtu::M256,
            pkey: PKey(0),
            primary: None,
            service_id: ServiceId(0),
            alternate: None,
            offered: None,
            path_changed: false,
            response_ns: 0,
            asks_again_ns: 0,
            delayed_ns: 0,
            retries: 0,
            pending: None,
            kept: [None, None, None, None],
            backlog_of: None,
            untold: false,
            known_by_id: false,
            known_by_qpn: false,
            known_by_request: false,
            deadline: None,
        }
    }

    /// What others may know of it.
    pub fn summary(&self, comm: CommId) -> Summary {
        Summary {
            comm,
            remote: self.remote,
            state: self.state,
            local_qpn: self.local_qpn,
            remote_qpn: self.remote_qpn,
            active: self.active,
            route: self.route,
        }
    }

    /// Where the answer to a message of this kind is kept.
    const fn place(kind: Kind) -> Option<usize> {
        Some(match kind {
            Kind::Req | Kind::SidrReq => 0,
            Kind::Rep => 1,
            Kind::Dreq => 2,
            Kind::Lap => 3,
            _ => return None,
        })
    }

    /// Keeps the answer to a message for its duplicates.
    pub fn keep(&mut self, answered: Kind, mad: CmMad) {
        if let Some(place) = Self::place(answered) {
            self.kept[place] = Some(Box::new(mad));
        }
    }

    /// What was answered to such a message: kept, or still waiting for its own answer (a REP).
    pub fn answer_to(&self, kind: Kind) -> Option<CmMad> {
        let kept = Self::place(kind).and_then(|place| self.kept[place].as_deref());
        match (kept, &self.pending) {
            (Some(mad), _) => Some(*mad),
            (None, Some(pending))
                if kind == Kind::Req && Kind::of(&pending.mad.message) == Kind::Rep =>
            {
                Some(pending.mad)
            }
            _ => None,
        }
    }

    /// Forgets what was answered: for a REQ once its REP goes out, whatever MRA came before.
    pub fn forget(&mut self, answered: Kind) {
        if let Some(place) = Self::place(answered) {
            self.kept[place] = None;
        }
    }

    /// The offer of an alternate path is answered.
    pub fn load_offered(&mut self, loaded: bool) {
        let offered = self.offered.take();
        if loaded && offered.is_some() {
            self.alternate = offered;
            self.path_changed = true;
        }
    }

    /// Whether a message from there may be of this connection.
    pub fn is_peer(&self, peer: Peer) -> bool {
        self.peers.contains(&Some(peer))
    }

    /// The acknowledgement time-out of the path: how long packets, or an MRA's second half, may take.
    pub fn path_ns(&self) -> u64 {
        self.primary.map_or(TimeCode(0), |end| end.timeout).ns()
    }
}
