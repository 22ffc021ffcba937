//! Events, as consumers get them.
//!
//! Owns the types. Must not know identifiers.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use ferriband_cm::Enhanced;
use ferriband_transport::types::AddressVector;

use super::MAX_PRIVATE_DATA;

/// Kinds of events, with the numbers of `rdma_cm_event_type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum NewsKind {
    AddrResolved = 0,
    AddrError = 1,
    RouteResolved = 2,
    RouteError = 3,
    ConnectRequest = 4,
    ConnectResponse = 5,
    ConnectError = 6,
    Unreachable = 7,
    Rejected = 8,
    Established = 9,
    Disconnected = 10,
    DeviceRemoval = 11,
    MulticastJoin = 12,
    MulticastError = 13,
    AddrChange = 14,
    TimewaitExit = 15,
    AddrinfoResolved = 16,
    AddrinfoError = 17,
    User = 18,
}

/// Parameters of a connection in an event, and the other consumer's bytes.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct ConnParam {
    pub qp_num: u32,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub flow_control: bool,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    pub srq: bool,
    /// Bytes of `private_data` that the message carries.
    pub private_len: u8,
    pub private_data: [u8; MAX_PRIVATE_DATA],
}

impl Default for ConnParam {
    fn default() -> Self {
        ConnParam {
            qp_num: 0,
            responder_resources: 0,
            initiator_depth: 0,
            flow_control: false,
            retry_count: 0,
            rnr_retry_count: 0,
            srq: false,
            private_len: 0,
            private_data: [0; MAX_PRIVATE_DATA],
        }
    }
}

impl ConnParam {
    pub(super) fn with(bytes: &[u8]) -> Self {
        let mut param = ConnParam::default();
        let length = bytes.len().min(MAX_PRIVATE_DATA - 1);
        param.private_data[..length].copy_from_slice(&bytes[..length]);
        param.private_len = length as u8;
        param
    }
}

/// A datagram service or a group in an event.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct UdParam {
    pub qp_num: u32,
    pub qkey: u32,
    pub av: AddressVector,
}

/// An event.
#[derive(Clone, Debug)]
pub struct News {
    /// What happened.
    pub kind: NewsKind,
    /// The consumer's name of the identifier; the listener's for a request.
    pub user: u64,
    /// The identifier; new for a request.
    pub id: u32,
    /// The listener that a request is for.
    pub(super) listener: Option<u32>,
    pub(super) group: Option<u32>,
    /// 0, a negative errno, or the reason of a refusal.
    pub status: i32,
    /// The other side's vendor options.
    pub enhanced: Enhanced,
    /// Of connections; private data of datagram services, too.
    pub conn: ConnParam,
    /// Of datagram services and groups.
    pub ud: Option<UdParam>,
    /// Of the consumer's own events.
    pub arg: u64,
    pub(super) reported: Arc<AtomicU32>,
}
