//! What a consumer gives and gets: the parameters of a connection, without the bookkeeping of messages.

use crate::types::{LocalEnd, Route, UserId};
use ferriband_transport::types::{AddressVector, QpType};
use ferriband_wire::cm::{ApStatus, CmPath, Failover, Info, PrivateData, SidrStatus};
use ferriband_wire::{CommId, Gid, Guid, Lid, Mtu, PKey, Psn, QKey, Qpn, ServiceId, Sl, TimeCode};
use std::net::IpAddr;

/// A path from here to another port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Path {
    /// GID of the port here.
    pub local_gid: Gid,
    /// GID of the port there.
    pub remote_gid: Gid,
    /// LID of the port here; not used on Ethernet.
    pub local_lid: Lid,
    /// LID of the port there; not used on Ethernet.
    pub remote_lid: Lid,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit; up to 1 the path stays in the subnet.
    pub hop_limit: u8,
    /// Service level.
    pub sl: Sl,
    /// Greatest packet rate (`ibv_rate`); 0 is the port's own.
    pub packet_rate: u8,
    /// A packet reaches the other end within this time, or never.
    pub packet_life: TimeCode,
}

impl Path {
    /// The path of a message, seen from the other end: what it calls remote is here.
    pub(crate) fn turned(path: &CmPath) -> Self {
        Path {
            local_gid: path.remote_gid,
            remote_gid: path.local_gid,
            local_lid: path.remote_lid,
            remote_lid: path.local_lid,
            flow_label: path.flow_label,
            traffic_class: path.traffic_class,
            hop_limit: path.hop_limit,
            sl: path.sl,
            packet_rate: path.packet_rate,
            // The time-out is at least twice the packet's life: one code less.
            packet_life: TimeCode(path.local_ack_timeout.0.saturating_sub(1)),
        }
    }
}

/// The vendor's part of a REQ or REP (enhanced connection establishment). Zero is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Enhanced {
    /// Vendor, 24 bits.
    pub vendor_id: u32,
    /// What the vendor wants said: the message's attribute modifier.
    pub options: u32,
}

/// A request for a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReqParams<'a> {
    /// The driver's name for the new identifier.
    pub user: UserId,
    /// Where the messages go.
    pub route: Route,
    /// The service that is wanted.
    pub service_id: ServiceId,
    /// The local queue pair's service: `Rc`, `Uc` or `XrcSend`.
    pub qp_type: QpType,
    /// The local queue pair.
    pub local_qpn: Qpn,
    /// The PSN that the local queue pair expects first; None draws one.
    pub starting_psn: Option<Psn>,
    /// The path of the connection, and its end here.
    pub primary: (LocalEnd, Path),
    /// Another path for automatic migration.
    pub alternate: Option<(LocalEnd, Path)>,
    /// Path MTU.
    pub path_mtu: Mtu,
    /// Partition.
    pub pkey: PKey,
    /// READs and atomics that the local queue pair takes at a time.
    pub responder_resources: u8,
    /// READs and atomics that the local queue pair will have outstanding.
    pub initiator_depth: u8,
    /// Retries of either side's queue pair, 3 bits.
    pub retry_count: u8,
    /// RNR retries of the other side's queue pair, 3 bits.
    pub rnr_retry_count: u8,
    /// End-to-end flow control. rdma_cm in Linux passes the consumer's wish on, which is 0 as a rule.
    pub flow_control: bool,
    /// The local queue pair uses a shared receive queue.
    pub srq: bool,
    /// The other side answers within this time; 20 (4.3 s) with rdma_cm.
    pub remote_response_timeout: TimeCode,
    /// This side answers within this time; 20 with rdma_cm.
    pub local_response_timeout: TimeCode,
    /// Repetitions of a message, 4 bits; 15 with rdma_cm.
    pub max_cm_retries: u8,
    /// The vendor's part.
    pub enhanced: Enhanced,
    /// Up to 92 bytes.
    pub private_data: &'a [u8],
}

/// A request that came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The listener's name.
    pub listener: UserId,
    /// Where it came from.
    pub from: Route,
    /// The service that is wanted.
    pub service_id: ServiceId,
    /// Service of the queue pair that is to accept.
    pub qp_type: QpType,
    /// The other side's adapter and queue pair.
    pub remote_guid: Guid,
    /// The other side's queue pair.
    pub remote_qpn: Qpn,
    /// The path from here, and its end here.
    pub primary: (LocalEnd, Path),
    /// The alternate path, if one is offered and it ends here.
    pub alternate: Option<(LocalEnd, Path)>,
    /// Path MTU.
    pub path_mtu: Mtu,
    /// Partition.
    pub pkey: PKey,
    /// READs and atomics that the accepting queue pair is to take at a time: what the other side will have outstanding.
    pub responder_resources: u8,
    /// READs and atomics that the accepting queue pair may have outstanding.
    pub initiator_depth: u8,
    /// Retries.
    pub retry_count: u8,
    /// RNR retries.
    pub rnr_retry_count: u8,
    /// The other side wants end-to-end flow control.
    pub flow_control: bool,
    /// The other side's queue pair uses a shared receive queue.
    pub srq: bool,
    /// The vendor's part.
    pub enhanced: Enhanced,
    /// All 92 bytes.
    pub private_data: PrivateData<92>,
}

/// An acceptance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RepParams<'a> {
    /// The accepting queue pair.
    pub local_qpn: Qpn,
    /// The PSN that it expects first; None draws one.
    pub starting_psn: Option<Psn>,
    /// READs and atomics that it takes at a time.
    pub responder_resources: u8,
    /// READs and atomics that it will have outstanding.
    pub initiator_depth: u8,
    /// What becomes of the REQ's alternate path. (Linux says `Accepted` even if there was none.)
    pub failover: Failover,
    /// End-to-end flow control.
    pub flow_control: bool,
    /// RNR retries of the other side's queue pair, 3 bits.
    pub rnr_retry_count: u8,
    /// The queue pair uses a shared receive queue.
    pub srq: bool,
    /// The vendor's part.
    pub enhanced: Enhanced,
    /// Up to 196 bytes.
    pub private_data: &'a [u8],
}

/// An acceptance that came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// The other side's adapter.
    pub remote_guid: Guid,
    /// The other side's queue pair.
    pub remote_qpn: Qpn,
    /// READs and atomics that the local queue pair takes at a time: not more than was offered.
    pub responder_resources: u8,
    /// READs and atomics that it may have outstanding: not more than was asked for.
    pub initiator_depth: u8,
    /// The other side's adapter acknowledges within this time.
    pub target_ack_delay: TimeCode,
    /// What became of the alternate path.
    pub failover: Failover,
    /// End-to-end flow control.
    pub flow_control: bool,
    /// RNR retries.
    pub rnr_retry_count: u8,
    /// The other side's queue pair uses a shared receive queue.
    pub srq: bool,
    /// The vendor's part.
    pub enhanced: Enhanced,
    /// All 196 bytes.
    pub private_data: PrivateData<196>,
}

/// A listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListenParams {
    /// The driver's name for it.
    pub user: UserId,
    /// The service.
    pub service_id: ServiceId,
    /// Bits of the service ID that count; all of them as a rule.
    pub mask: u64,
    /// Only requests to this GID.
    pub gid: Option<Gid>,
    /// Only requests to this address, as the IP addressing header says. The unspecified address of a family stands for all of that family.
    pub ip: Option<IpAddr>,
    /// Requests that may wait before `taken`; 0 is the limit's.
    pub backlog: u32,
}

/// An offer of an alternate path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LapParams<'a> {
    /// The path, and its end here.
    pub alternate: (LocalEnd, Path),
    /// The other side answers within this time.
    pub remote_response_timeout: TimeCode,
    /// Up to 168 bytes.
    pub private_data: &'a [u8],
}

/// An offer of an alternate path that came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LapRequest {
    /// The path from here, and its end here.
    pub alternate: (LocalEnd, Path),
    /// All 168 bytes.
    pub private_data: PrivateData<168>,
}

/// An answer to such an offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AprParams<'a> {
    /// `Loaded`, or why not.
    pub status: ApStatus,
    /// What goes with the status.
    pub info: Info,
    /// Up to 148 bytes.
    pub private_data: &'a [u8],
}

/// A question for the queue pair behind a service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SidrParams<'a> {
    /// The driver's name for the new identifier.
    pub user: UserId,
    /// Where the message goes.
    pub route: Route,
    /// The service.
    pub service_id: ServiceId,
    /// Partition.
    pub pkey: PKey,
    /// The answer comes within this time; 20 (4.3 s) with rdma_cm.
    pub response_timeout: TimeCode,
    /// Repetitions; 15 with rdma_cm.
    pub max_cm_retries: u8,
    /// Up to 216 bytes.
    pub private_data: &'a [u8],
}

/// Such a question that came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SidrRequest {
    /// The listener's name.
    pub listener: UserId,
    /// Where it came from.
    pub from: Route,
    /// The local GID that was addressed, if known.
    pub to: Option<Gid>,
    /// The service.
    pub service_id: ServiceId,
    /// Partition.
    pub pkey: PKey,
    /// All 216 bytes.
    pub private_data: PrivateData<216>,
}

/// An answer to such a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SidrReplyParams<'a> {
    /// `Valid`, or why not.
    pub status: SidrStatus,
    /// The queue pair that serves.
    pub qpn: Qpn,
    /// Its Q_Key.
    pub qkey: QKey,
    /// What goes with the status.
    pub info: Info,
    /// The vendor's part.
    pub enhanced: Enhanced,
    /// Up to 136 bytes.
    pub private_data: &'a [u8],
}

/// An answer to such a question that came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SidrAnswer {
    /// Whether there is such a service.
    pub status: SidrStatus,
    /// The queue pair that serves.
    pub qpn: Qpn,
    /// Its Q_Key.
    pub qkey: QKey,
    /// The way to it: None if the service is in a process of this host.
    pub av: Option<AddressVector>,
    /// What goes with the status.
    pub info: Info,
    /// The vendor's part.
    pub enhanced: Enhanced,
    /// All 136 bytes.
    pub private_data: PrivateData<136>,
}

/// What an identifier stands for, for display.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Summary {
    /// The identifier.
    pub comm: CommId,
    /// The other side's, once known.
    pub remote: Option<CommId>,
    /// Its state.
    pub state: crate::table::State,
    /// The local queue pair.
    pub local_qpn: Qpn,
    /// The other side's.
    pub remote_qpn: Qpn,
    /// True for the side that asked.
    pub active: bool,
    /// Where messages go.
    pub route: Route,
}
