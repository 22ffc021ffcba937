//! What is asked of a connection and what the other side has asked for; port spaces, with the room
//! for private data in each.

use crate::objects::qp::Qp;
use crate::types::Qpn;
use ferriband_rdmacm_sys as cm;
use std::ffi::c_int;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of private data that the answer to a request carries (REP).
pub const ACCEPT_ROOM: usize = 196;
/// Bytes of private data that a refusal carries (REJ).
pub const REJECT_ROOM: usize = 148;

/// A queue pair beside that of a connection ([`super::CmId::ready_beside`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beside {
    /// The peer's queue pair.
    pub peer: Qpn,
    /// The PSN that the peer's queue pair begins with.
    pub rq_psn: u32,
    /// The PSN that this one begins with.
    pub sq_psn: u32,
}

/// What a port is a port of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PortSpace {
    /// Reliable connections.
    Tcp,
    /// Connections of the Sockets Direct Protocol: private data of a request begin with its Hello,
    /// into which the library writes addresses and port. Ferriband's library offers it; others
    /// refuse it with EINVAL.
    Sdp,
}

impl PortSpace {
    /// Bytes of private data that a request carries (REQ): all that there are, less the library's
    /// own header.
    pub const fn connect_room(self) -> usize {
        match self {
            PortSpace::Tcp => 56,
            PortSpace::Sdp => 92,
        }
    }

    pub(super) const fn to_c(self) -> cm::rdma_port_space {
        match self {
            PortSpace::Tcp => cm::RDMA_PS_TCP,
            PortSpace::Sdp => cm::RDMA_PS_SDP,
        }
    }
}

/// What is asked of a connection.
#[derive(Debug, Clone, Copy)]
pub struct ConnectParams<'a> {
    /// The program's bytes: as many as [`PortSpace::connect_room`] to ask, [`ACCEPT_ROOM`] to
    /// accept. The other side finds zeros behind them.
    pub private_data: &'a [u8],
    /// READs and atomics taken from the other side at a time; 255 is what the device can.
    pub responder_resources: u8,
    /// READs and atomics outstanding at a time; 255 is what the device can.
    pub initiator_depth: u8,
    /// How often a request is repeated when no answer comes, 0 to 7.
    pub retry_count: u8,
    /// How often when the other side has no receive, 0 to 6; 7 is for ever.
    pub rnr_retry_count: u8,
    /// A queue pair that the program brings up itself; none if the identifier has its own.
    pub qp: Option<&'a Arc<Qp>>,
}

impl Default for ConnectParams<'_> {
    /// No private data, as many READs as the device can, all retries, the identifier's own queue
    /// pair.
    fn default() -> Self {
        ConnectParams {
            private_data: &[],
            responder_resources: u8::MAX,
            initiator_depth: u8::MAX,
            retry_count: 7,
            rnr_retry_count: 7,
            qp: None,
        }
    }
}

impl ConnectParams<'_> {
    /// Private data that fit have a length of one byte.
    pub(super) fn to_c(self) -> cm::rdma_conn_param {
        cm::rdma_conn_param {
            private_data: self.private_data.as_ptr().cast(),
            private_data_len: self.private_data.len() as u8,
            responder_resources: self.responder_resources,
            initiator_depth: self.initiator_depth,
            flow_control: 1,
            retry_count: self.retry_count,
            rnr_retry_count: self.rnr_retry_count,
            srq: u8::from(self.qp.is_some_and(|qp| qp.has_srq())),
            qp_num: self.qp.map_or(0, |qp| qp.number().0),
        }
    }
}

/// What the other side has asked for, or granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerParams {
    /// READs and atomics that this side is asked to take at a time.
    pub responder_resources: u8,
    /// READs and atomics that this side may have outstanding.
    pub initiator_depth: u8,
    /// Its queue pair has a shared receive queue.
    pub srq: bool,
    /// Its queue pair; 0 where the library does not tell.
    pub qp_number: Qpn,
}

/// A time in milliseconds, rounded up, as the C interfaces take it.
pub(super) fn milliseconds(time: Duration) -> c_int {
    let whole = time.as_nanos().div_ceil(1_000_000);
    c_int::try_from(whole).unwrap_or(c_int::MAX)
}
