//! Events of identifiers.

use super::channel::{CmChannel, Ids};
use super::id::CmId;
use super::params::PeerParams;
use crate::error::VerbsError;
use crate::objects::any_thread;
use crate::types::{Qpn, closed};
use ferriband_rdmacm_sys as cm;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

closed! {
    /// What happened to an identifier.
    CmEventKind: cm::rdma_cm_event_type {
        /// The device and the address here are known.
        AddrResolved = cm::RDMA_CM_EVENT_ADDR_RESOLVED,
        /// The address there cannot be resolved.
        AddrError = cm::RDMA_CM_EVENT_ADDR_ERROR,
        /// The path is known.
        RouteResolved = cm::RDMA_CM_EVENT_ROUTE_RESOLVED,
        /// No path was found.
        RouteError = cm::RDMA_CM_EVENT_ROUTE_ERROR,
        /// Somebody asks a listener for a connection.
        ConnectRequest = cm::RDMA_CM_EVENT_CONNECT_REQUEST,
        /// The other side has accepted; the program brings its queue pair up and says so
        /// ([`CmId::establish`]).
        ConnectResponse = cm::RDMA_CM_EVENT_CONNECT_RESPONSE,
        /// The connection could not be set up.
        ConnectError = cm::RDMA_CM_EVENT_CONNECT_ERROR,
        /// The other side does not answer.
        Unreachable = cm::RDMA_CM_EVENT_UNREACHABLE,
        /// The other side does not want to, or nobody listens.
        Rejected = cm::RDMA_CM_EVENT_REJECTED,
        /// The connection stands.
        Established = cm::RDMA_CM_EVENT_ESTABLISHED,
        /// It is over.
        Disconnected = cm::RDMA_CM_EVENT_DISCONNECTED,
        /// The device is gone: everything of it is to be destroyed.
        DeviceRemoval = cm::RDMA_CM_EVENT_DEVICE_REMOVAL,
        /// A multicast group was joined.
        MulticastJoin = cm::RDMA_CM_EVENT_MULTICAST_JOIN,
        /// It could not be, or the membership has ended.
        MulticastError = cm::RDMA_CM_EVENT_MULTICAST_ERROR,
        /// The network device behind the address has changed.
        AddrChange = cm::RDMA_CM_EVENT_ADDR_CHANGE,
        /// No packet of the ended connection is under way any more.
        TimewaitExit = cm::RDMA_CM_EVENT_TIMEWAIT_EXIT,
    }
}

/// Reasons of REJ (IBA 12.6.7.2), as far as programs tell them apart.
mod reason {
    pub const NO_RESOURCES: u32 = 3;
    pub const TIMEOUT: u32 = 4;
    pub const INVALID_SERVICE_ID: u32 = 8;
    pub const STALE_CONNECTION: u32 = 10;
    pub const CONSUMER: u32 = 28;
    pub const VENDOR_OPTION_NOT_SUPPORTED: u32 = 35;
}

closed! {
    /// Why a connection was refused.
    RejectReason: u32 {
        /// The other side has no room.
        NoResources = reason::NO_RESOURCES,
        /// It has waited too long for our next message.
        Timeout = reason::TIMEOUT,
        /// Nobody listens.
        NobodyListens = reason::INVALID_SERVICE_ID,
        /// It has a connection of this queue pair's already.
        StaleConnection = reason::STALE_CONNECTION,
        /// The program there says no; its private data may say more.
        Consumer = reason::CONSUMER,
        /// It does not support the vendor's options.
        VendorOptionNotSupported = reason::VENDOR_OPTION_NOT_SUPPORTED,
    }
}

/// What an event says went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CmError {
    /// The other side refused.
    Rejected(RejectReason),
    /// What was asked for failed: the call that asked, and the errno.
    Failed(VerbsError),
}

impl fmt::Display for CmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CmError::Rejected(reason) => write!(f, "the connection was refused: {reason:?}"),
            CmError::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CmError {}

impl From<VerbsError> for CmError {
    fn from(error: VerbsError) -> Self {
        CmError::Failed(error)
    }
}

/// An event. Dropping it acknowledges it.
pub struct CmEvent {
    at: NonNull<cm::rdma_cm_event>,
    kind: CmEventKind,
    status: i32,
    id: Arc<CmId>,
    request: Option<Arc<CmId>>,
}

any_thread!(CmEvent);

impl CmEvent {
    /// The event at `at`. None, with the event acknowledged, if its identifier goes at this moment,
    /// and nobody wants to hear of it.
    ///
    /// # Safety
    /// The event was just taken from the channel, whose table is `ids`.
    pub(super) unsafe fn taken(
        at: NonNull<cm::rdma_cm_event>,
        channel: &Arc<CmChannel>,
        ids: &mut Ids,
    ) -> Option<CmEvent> {
        // SAFETY: the caller's promise; the library's structure stays until the acknowledgement.
        let kind = unsafe { (&raw const (*at.as_ptr()).event).read() };
        // SAFETY: as above.
        let status = unsafe { (&raw const (*at.as_ptr()).status).read() };
        // SAFETY: as above.
        let named = unsafe { (&raw const (*at.as_ptr()).id).read() };
        // SAFETY: as above.
        let listener = unsafe { (&raw const (*at.as_ptr()).listen_id).read() };
        let kind = CmEventKind::from_c(kind);
        let is_request = kind == CmEventKind::ConnectRequest;
        let of = if is_request { listener } else { named };
        let Some(id) = ids.get(&of.addr()).and_then(|id| id.upgrade()) else {
            if let Some(child) = NonNull::new(named).filter(|_| is_request) {
                // SAFETY: the request's identifier is the program's, which does not want it.
                unsafe { (channel.f().rdma_destroy_id)(child.as_ptr()) };
            }
            // SAFETY: once for each event that was taken.
            unsafe { (channel.f().rdma_ack_cm_event)(at.as_ptr()) };
            return None;
        };
        let child = NonNull::new(named).filter(|_| is_request);
        // SAFETY: a request's identifier is new, and the program's from now on.
        let request = child.map(|child| unsafe { CmId::adopted(child, &id, ids) });
        Some(CmEvent {
            at,
            kind,
            status,
            id,
            request,
        })
    }

    /// What happened.
    pub fn kind(&self) -> CmEventKind {
        self.kind
    }

    /// To which identifier; of a request, the listener's.
    pub fn id(&self) -> &Arc<CmId> {
        &self.id
    }

    /// The identifier of a request, to be accepted or rejected; once. A request that is left in its
    /// event is refused with it.
    pub fn take_request(&mut self) -> Option<Arc<CmId>> {
        self.request.take()
    }

    /// Whether it is bad news, and which.
    pub fn result(&self) -> Result<(), CmError> {
        let call = match self.kind {
            CmEventKind::AddrError => "rdma_resolve_addr",
            CmEventKind::RouteError => "rdma_resolve_route",
            CmEventKind::ConnectError | CmEventKind::Unreachable => "rdma_connect",
            CmEventKind::Rejected if self.status > 0 => {
                let reason = RejectReason::from_c(self.status.unsigned_abs());
                return Err(CmError::Rejected(reason));
            }
            CmEventKind::Rejected => "rdma_connect",
            CmEventKind::DeviceRemoval => {
                return Err(VerbsError::new("rdma_get_cm_event", libc::ENODEV).into());
            }
            _ if self.status < 0 => "rdma_get_cm_event",
            _ => return Ok(()),
        };
        let errno = match self.status {
            0.. => libc::EIO,
            errno => errno.saturating_neg(),
        };
        Err(VerbsError::new(call, errno).into())
    }

    /// The other side's private data, filled up with zeros to the length that the message carries;
    /// empty in other events than requests, responses, refusals and, on the side that asked,
    /// ESTABLISHED.
    pub fn private_data(&self) -> &[u8] {
        let Some(param) = self.conn() else {
            return &[];
        };
        let length = usize::from(param.private_data_len);
        if param.private_data.is_null() || length == 0 {
            return &[];
        }
        // SAFETY: the library's bytes, which stay with the event.
        unsafe { std::slice::from_raw_parts(param.private_data.cast(), length) }
    }

    /// What the other side asked for or granted; of requests, responses and, on the side that
    /// asked, ESTABLISHED.
    pub fn peer(&self) -> Option<PeerParams> {
        let param = self.conn().filter(|_| self.kind != CmEventKind::Rejected)?;
        Some(PeerParams {
            responder_resources: param.responder_resources,
            initiator_depth: param.initiator_depth,
            srq: param.srq != 0,
            qp_number: Qpn(param.qp_num),
        })
    }

    /// Parameters of a connection, in those events that have them.
    fn conn(&self) -> Option<cm::rdma_conn_param> {
        let has_them = matches!(
            self.kind,
            CmEventKind::ConnectRequest
                | CmEventKind::ConnectResponse
                | CmEventKind::Established
                | CmEventKind::Rejected
        );
        if !has_them {
            return None;
        }
        // SAFETY: the library's structure stays until the acknowledgement; identifiers of
        // connections have parameters of connections.
        let param = unsafe { (&raw const (*self.at.as_ptr()).param.conn).read() };
        Some(*param)
    }
}

impl fmt::Debug for CmEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CmEvent")
            .field("kind", &self.kind)
            .field("status", &self.status)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Drop for CmEvent {
    fn drop(&mut self) {
        let channel = self.id.channel();
        let alone = channel.lock();
        // SAFETY: once for each event that was taken. The identifiers that are held here go after
        // it.
        unsafe { (channel.f().rdma_ack_cm_event)(self.at.as_ptr()) };
        drop(alone);
    }
}
