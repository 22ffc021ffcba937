//! The messages that an identifier sends, built from what is known of it and what the consumer gives.

use crate::connection::{Connection, PathEnd};
use crate::params::{Path, RepParams, ReqParams};
use crate::qp::ack_timeout;
use crate::table::State;
use crate::types::{CmError, LocalEnd};
use ferriband_transport::types::QpType;
use ferriband_wire::cm::{
    CmMad, CmPath, Drep, Dreq, Info, Message, Mra, MraOf, PrivateData, Rej, RejOf, RejectReason,
    Rep, Req, SidrRep, SidrReq, SidrStatus,
};
use ferriband_wire::mad::MAD_LEN;
use ferriband_wire::{CommId, Lid, Mtu, QKey, Qpn, Service, TimeCode, TransactionId};

/// A message whose fields all fit; what is sent later cannot fail then.
pub(crate) fn checked(mad: CmMad) -> Result<CmMad, CmError> {
    mad.emit(&mut [0; MAD_LEN])?;
    Ok(mad)
}

/// A path as it stands in a message. Beyond the subnet LIDs mean nothing, and so they are permissive, as Linux has them;
/// an Ethernet port has none at all.
pub(crate) fn message_path(local: &LocalEnd, path: &Path) -> CmPath {
    let subnet_local = path.hop_limit <= 1;
    let lids = if subnet_local && !local.ethernet {
        (path.local_lid, path.remote_lid)
    } else {
        (Lid::PERMISSIVE, Lid::PERMISSIVE)
    };
    CmPath {
        local_lid: lids.0,
        remote_lid: lids.1,
        local_gid: path.local_gid,
        remote_gid: path.remote_gid,
        flow_label: path.flow_label,
        packet_rate: path.packet_rate,
        traffic_class: path.traffic_class,
        hop_limit: path.hop_limit,
        sl: path.sl,
        subnet_local,
        local_ack_timeout: ack_timeout(local.ack_delay, path.packet_life),
    }
}

/// The wire's service of a queue pair that asks for a connection.
const fn service_of(qp_type: QpType) -> Option<Service> {
    match qp_type {
        QpType::Rc => Some(Service::Rc),
        QpType::Uc => Some(Service::Uc),
        QpType::XrcSend => Some(Service::Xrc),
        QpType::Ud | QpType::XrcRecv => None,
    }
}

/// The REQ.
pub(crate) fn req(
    comm: CommId,
    connection: &Connection,
    params: &ReqParams<'_>,
) -> Result<CmMad, CmError> {
    let (transport_type, extended_transport_type) = service_of(params.qp_type)
        .and_then(Req::transport_of)
        .ok_or(CmError::Service)?;
    // A queue pair that only sends takes nothing: no reads, no retries of the other side, no receives.
    let takes = params.qp_type != QpType::XrcSend;
    let (local, path) = &params.primary;
    let message = Req {
        local_comm_id: comm,
        vendor_id: params.enhanced.vendor_id,
        service_id: params.service_id,
        local_ca_guid: local.guid,
        local_qkey: QKey(0),
        local_qpn: params.local_qpn,
        responder_resources: if takes { params.responder_resources } else { 0 },
        local_eecn: 0,
        initiator_depth: params.initiator_depth,
        remote_eecn: 0,
        remote_response_timeout: params.remote_response_timeout,
        transport_type,
        extended_transport_type,
        end_to_end_flow_control: params.flow_control,
        starting_psn: connection.rq_psn,
        local_response_timeout: params.local_response_timeout,
        retry_count: if takes { params.retry_count } else { 0 },
        pkey: params.pkey,
        path_mtu_code: params.path_mtu as u8,
        rdc_exists: false,
        rnr_retry_count: if takes { params.rnr_retry_count } else { 0 },
        max_cm_retries: params.max_cm_retries,
        srq: takes && params.srq,
        primary: message_path(local, path),
        alternate: params.alternate.map_or(CmPath::default(), |(local, path)| {
            message_path(&local, &path)
        }),
        sap_supported: false,
        private_data: PrivateData::new(params.private_data)?,
    };
    checked(CmMad {
        transaction_id: connection.transaction,
        attribute_modifier: params.enhanced.options,
        message: message.into(),
    })
}

/// The REP.
pub(crate) fn rep(
    comm: CommId,
    connection: &Connection,
    local: &LocalEnd,
    params: &RepParams<'_>,
    starting_psn: ferriband_wire::Psn,
) -> Result<CmMad, CmError> {
    // The target of an extended connection has no requester, its number stands elsewhere, and its receives are shared.
    let target = connection.qp_type == QpType::XrcRecv;
    let message = Rep {
        local_comm_id: comm,
        remote_comm_id: connection.remote.unwrap_or_default(),
        local_qkey: QKey(0),
        local_qpn: if target { Qpn(0) } else { params.local_qpn },
        vendor_id: params.enhanced.vendor_id,
        local_eecn: if target { params.local_qpn.0 } else { 0 },
        starting_psn,
        responder_resources: params.responder_resources,
        initiator_depth: if target { 0 } else { params.initiator_depth },
        target_ack_delay: local.ack_delay,
        failover: params.failover,
        end_to_end_flow_control: !target && params.flow_control,
        rnr_retry_count: params.rnr_retry_count,
        srq: target || params.srq,
        local_ca_guid: local.guid,
        private_data: PrivateData::new(params.private_data)?,
    };
    checked(CmMad {
        transaction_id: connection.transaction,
        attribute_modifier: params.enhanced.options,
        message: message.into(),
    })
}

/// An MRA for what the consumer has before it; None in states in which it has nothing.
pub(crate) fn mra(
    comm: CommId,
    connection: &Connection,
    service_timeout: TimeCode,
    private_data: &[u8],
) -> Result<Option<CmMad>, CmError> {
    let (acknowledged, transaction) = match connection.state {
        State::ReqRcvd | State::MraReqSent => (MraOf::Req, connection.transaction),
        State::RepRcvd | State::MraRepSent => (MraOf::Rep, connection.transaction),
        State::LapRcvd | State::MraLapSent => (MraOf::Lap, connection.later_transaction),
        _ => return Ok(None),
    };
    let message = Mra {
        local_comm_id: comm,
        remote_comm_id: connection.remote.unwrap_or_default(),
        acknowledged,
        service_timeout,
        private_data: PrivateData::new(private_data)?,
    };
    checked(CmMad::new(transaction, message)).map(Some)
}

/// A REJ of what the state says.
pub(crate) fn rej(
    comm: CommId,
    connection: &Connection,
    reason: RejectReason,
    ari: Info,
    private_data: &[u8],
) -> Result<CmMad, CmError> {
    let rejected = match connection.state {
        State::ReqRcvd | State::MraReqSent => RejOf::Req,
        State::RepRcvd | State::MraRepSent => RejOf::Rep,
        _ => RejOf::Other,
    };
    let message = Rej {
        // As long as the other side has not heard of the identifier there is none.
        local_comm_id: if connection.state == State::ReqRcvd {
            CommId(0)
        } else {
            comm
        },
        remote_comm_id: connection.remote.unwrap_or_default(),
        rejected,
        reason,
        ari,
        private_data: PrivateData::new(private_data)?,
    };
    checked(CmMad::new(connection.transaction, message))
}

/// A REJ because of silence: the additional information is the adapter's GUID, by which the other side finds what it has
/// not yet given an identifier for.
pub(crate) fn rej_timeout(comm: CommId, connection: &Connection) -> Option<CmMad> {
    let guid = connection.primary.map(|end: PathEnd| end.local.guid)?;
    let ari = Info::new(&guid.0.to_be_bytes()).ok()?;
    rej(comm, connection, RejectReason::Timeout, ari, &[]).ok()
}

/// A REJ of a message that made no identifier here.
pub(crate) fn rej_message(
    transaction: TransactionId,
    rejected: RejOf,
    ids: (CommId, CommId),
    reason: RejectReason,
    ari: Info,
) -> CmMad {
    CmMad::new(
        transaction,
        Rej {
            local_comm_id: ids.0,
            remote_comm_id: ids.1,
            rejected,
            reason,
            ari,
            private_data: PrivateData::default(),
        },
    )
}

/// The additional information of a REJ for its path MTU: the largest that would do.
pub(crate) fn mtu_info(max: Mtu) -> Info {
    // One byte fits.
    Info::new(&[max as u8]).unwrap_or(Info::NONE)
}

/// A DREQ.
pub(crate) fn dreq(
    comm: CommId,
    connection: &Connection,
    transaction: TransactionId,
    private_data: &[u8],
) -> Result<CmMad, CmError> {
    let message = Dreq {
        local_comm_id: comm,
        remote_comm_id: connection.remote.unwrap_or_default(),
        remote_qpn: connection.remote_qpn,
        private_data: PrivateData::new(private_data)?,
    };
    checked(CmMad::new(transaction, message))
}

/// The DREP to a DREQ.
pub(crate) fn drep(
    transaction: TransactionId,
    ids: (CommId, CommId),
    private_data: &[u8],
) -> Result<CmMad, CmError> {
    let message = Drep {
        local_comm_id: ids.0,
        remote_comm_id: ids.1,
        private_data: PrivateData::new(private_data)?,
    };
    Ok(CmMad::new(transaction, message))
}

/// A SIDR_REP that says no.
pub(crate) fn sidr_no(transaction: TransactionId, request: &SidrReq, status: SidrStatus) -> CmMad {
    CmMad::new(
        transaction,
        SidrRep {
            request_id: request.request_id,
            status,
            info: Info::NONE,
            vendor_id: 0,
            qpn: Qpn(0),
            service_id: request.service_id,
            qkey: QKey(0),
            private_data: PrivateData::default(),
        },
    )
}

/// The identifiers in a message: the sender's, and the receiver's.
pub(crate) fn ids_of(message: &Message) -> (CommId, CommId) {
    match message {
        Message::Req(m) => (m.local_comm_id, CommId(0)),
        Message::Mra(m) => (m.local_comm_id, m.remote_comm_id),
        Message::Rej(m) => (m.local_comm_id, m.remote_comm_id),
        Message::Rep(m) => (m.local_comm_id, m.remote_comm_id),
        Message::Rtu(m) => (m.local_comm_id, m.remote_comm_id),
        Message::Dreq(m) => (m.local_comm_id, m.remote_comm_id),
        Message::Drep(m) => (m.local_comm_id, m.remote_comm_id),
        Message::SidrReq(m) => (m.request_id, CommId(0)),
        Message::SidrRep(m) => (CommId(0), m.request_id),
        Message::Lap(m) => (m.local_comm_id, m.remote_comm_id),
        Message::Apr(m) => (m.local_comm_id, m.remote_comm_id),
    }
}
