//! REQ: the request that begins a connection (IBA 12.6).

use super::path::{CmPath, ReqPathWire};
use super::private_data::PrivateData;
use crate::error::{EmitError, ParseError};
use crate::header::{Header, U24, bits, flag, place};
use crate::opcode::Service;
use crate::types::{CommId, Guid, Mtu, PKey, Psn, QKey, Qpn, ServiceId, TimeCode};
use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A REQ as it travels, after the MAD header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ReqWire {
    local_comm_id: U32,
    reserved_4: u8,
    vendor_id: U24,
    service_id: U64,
    local_ca_guid: U64,
    reserved_24: U32,
    local_qkey: U32,
    local_qpn: U24,
    responder_resources: u8,
    local_eecn: U24,
    initiator_depth: u8,
    remote_eecn: U24,
    /// RemoteCMResponseTimeout:5 TransportServiceType:2 EndToEndFlowControl:1.
    transport: u8,
    starting_psn: U24,
    /// LocalCMResponseTimeout:5 RetryCount:3.
    local_timeout: u8,
    pkey: U16,
    /// PathPacketPayloadMTU:4 RDCExists:1 RNRRetryCount:3.
    mtu: u8,
    /// MaxCMRetries:4 SRQ:1 ExtendedTransportType:3.
    retries: u8,
    primary: ReqPathWire,
    /// Its last three bits: SAPSupported:1 reserved:2.
    alternate: ReqPathWire,
    private_data: PrivateData<92>,
}

/// Which transport service is wanted (IBA 12.6), by its two bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum TransportType {
    /// Reliable connection.
    #[default]
    Rc = 0,
    /// Unreliable connection.
    Uc = 1,
    /// Reliable datagram.
    Rd = 2,
    /// The extended transport type tells: 1 is XRC (IBA annex A14).
    Extended = 3,
}

/// Extended transport type of XRC.
const EXTENDED_XRC: u8 = 1;

impl TransportType {
    const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0 => TransportType::Rc,
            1 => TransportType::Uc,
            2 => TransportType::Rd,
            _ => TransportType::Extended,
        }
    }
}

/// ConnectRequest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Req {
    /// The sender's identifier for the connection.
    pub local_comm_id: CommId,
    /// Vendor whose enhanced connection this is, 24 bits; 0 for none.
    pub vendor_id: u32,
    /// The service that is wanted.
    pub service_id: ServiceId,
    /// The sender's adapter.
    pub local_ca_guid: Guid,
    /// Q_Key of the sender's queue pair; reliable datagram only.
    pub local_qkey: QKey,
    /// The sender's queue pair.
    pub local_qpn: Qpn,
    /// RDMA READs and atomics that the sender's responder takes at a time.
    pub responder_resources: u8,
    /// The sender's end-to-end context, 24 bits; reliable datagram only.
    pub local_eecn: u32,
    /// RDMA READs and atomics that the sender's requester will have outstanding.
    pub initiator_depth: u8,
    /// The receiver's end-to-end context, 24 bits; reliable datagram only.
    pub remote_eecn: u32,
    /// The receiver must answer within this time, or send an MRA.
    pub remote_response_timeout: TimeCode,
    /// Transport service that is wanted.
    pub transport_type: TransportType,
    /// Which extended transport is wanted, 3 bits.
    pub extended_transport_type: u8,
    /// The sender uses end-to-end flow control: credits in acknowledgements.
    pub end_to_end_flow_control: bool,
    /// The PSN that the sender of this message expects first: its peer begins with it.
    pub starting_psn: Psn,
    /// The sender answers within this time, or sends an MRA.
    pub local_response_timeout: TimeCode,
    /// Retries that the receiver's requester is to make, 3 bits.
    pub retry_count: u8,
    /// Partition of the connection.
    pub pkey: PKey,
    /// Path MTU as the IBA's code, 4 bits; `path_mtu` decodes it.
    pub path_mtu_code: u8,
    /// A reliable datagram channel exists.
    pub rdc_exists: bool,
    /// RNR retries that the receiver's requester is to make, 3 bits; 7 is without end.
    pub rnr_retry_count: u8,
    /// Repetitions of a message of the connection manager, 4 bits.
    pub max_cm_retries: u8,
    /// The sender's queue pair uses a shared receive queue.
    pub srq: bool,
    /// The path to use.
    pub primary: CmPath,
    /// Another one for automatic path migration; not present if all zeros.
    pub alternate: CmPath,
    /// The sender understands suggested alternate paths.
    pub sap_supported: bool,
    /// The consumer's, or the IP addressing header (`IpCmHeader`) and then the consumer's.
    pub private_data: PrivateData<92>,
}

impl Req {
    /// The transport service that is wanted; None for one that is not defined, which is refused with
    /// `RejectReason::InvalidTransportType`.
    pub const fn service(&self) -> Option<Service> {
        match self.transport_type {
            TransportType::Rc => Some(Service::Rc),
            TransportType::Uc => Some(Service::Uc),
            TransportType::Rd => Some(Service::Rd),
            TransportType::Extended => match self.extended_transport_type {
                EXTENDED_XRC => Some(Service::Xrc),
                _ => None,
            },
        }
    }

    /// The two transport fields of a connected service; None for services that no REQ asks for.
    pub const fn transport_of(service: Service) -> Option<(TransportType, u8)> {
        match service {
            Service::Rc => Some((TransportType::Rc, 0)),
            Service::Uc => Some((TransportType::Uc, 0)),
            Service::Rd => Some((TransportType::Rd, 0)),
            Service::Xrc => Some((TransportType::Extended, EXTENDED_XRC)),
            Service::Ud | Service::Cnp | Service::Vendor => None,
        }
    }

    /// The path MTU; None for a reserved code, which is refused with `RejectReason::InvalidPathMtu`.
    pub const fn path_mtu(&self) -> Option<Mtu> {
        Mtu::from_code(self.path_mtu_code)
    }

    /// The alternate path, if one is offered.
    pub const fn alternate_path(&self) -> Option<&CmPath> {
        if self.alternate.is_present() {
            Some(&self.alternate)
        } else {
            None
        }
    }
}

const SAP_SUPPORTED_SHIFT: u32 = 2;

impl Header for Req {
    type Wire = ReqWire;
    const NAME: &'static str = "REQ";

    fn from_wire(wire: &ReqWire) -> Result<Self, ParseError> {
        Ok(Req {
            local_comm_id: CommId(wire.local_comm_id.get()),
            vendor_id: wire.vendor_id.get(),
            service_id: ServiceId(wire.service_id.get()),
            local_ca_guid: Guid(wire.local_ca_guid.get()),
            local_qkey: QKey(wire.local_qkey.get()),
            local_qpn: Qpn(wire.local_qpn.get()),
            responder_resources: wire.responder_resources,
            local_eecn: wire.local_eecn.get(),
            initiator_depth: wire.initiator_depth,
            remote_eecn: wire.remote_eecn.get(),
            remote_response_timeout: TimeCode(bits(wire.transport, 3, 5)),
            transport_type: TransportType::from_bits(bits(wire.transport, 1, 2)),
            extended_transport_type: bits(wire.retries, 0, 3),
            end_to_end_flow_control: bits(wire.transport, 0, 1) != 0,
            starting_psn: Psn::new(wire.starting_psn.get()),
            local_response_timeout: TimeCode(bits(wire.local_timeout, 3, 5)),
            retry_count: bits(wire.local_timeout, 0, 3),
            pkey: PKey(wire.pkey.get()),
            path_mtu_code: bits(wire.mtu, 4, 4),
            rdc_exists: bits(wire.mtu, 3, 1) != 0,
            rnr_retry_count: bits(wire.mtu, 0, 3),
            max_cm_retries: bits(wire.retries, 4, 4),
            srq: bits(wire.retries, 3, 1) != 0,
            primary: wire.primary.value(),
            alternate: wire.alternate.value(),
            sap_supported: bits(wire.alternate.low_bits(), SAP_SUPPORTED_SHIFT, 1) != 0,
            private_data: wire.private_data,
        })
    }

    fn to_wire(&self) -> Result<ReqWire, EmitError> {
        Ok(ReqWire {
            local_comm_id: U32::new(self.local_comm_id.0),
            reserved_4: 0,
            vendor_id: U24::new("VendorID", self.vendor_id)?,
            service_id: U64::new(self.service_id.0),
            local_ca_guid: U64::new(self.local_ca_guid.0),
            reserved_24: U32::ZERO,
            local_qkey: U32::new(self.local_qkey.0),
            local_qpn: U24::new("LocalQPN", self.local_qpn.0)?,
            responder_resources: self.responder_resources,
            local_eecn: U24::new("LocalEECN", self.local_eecn)?,
            initiator_depth: self.initiator_depth,
            remote_eecn: U24::new("RemoteEECN", self.remote_eecn)?,
            transport: place(
                "RemoteCMResponseTimeout",
                self.remote_response_timeout.0,
                3,
                5,
            )? | (self.transport_type as u8) << 1
                | flag(self.end_to_end_flow_control, 0),
            starting_psn: U24::new("StartingPSN", self.starting_psn.get())?,
            local_timeout: place(
                "LocalCMResponseTimeout",
                self.local_response_timeout.0,
                3,
                5,
            )? | place("RetryCount", self.retry_count, 0, 3)?,
            pkey: U16::new(self.pkey.0),
            mtu: place("PathPacketPayloadMTU", self.path_mtu_code, 4, 4)?
                | flag(self.rdc_exists, 3)
                | place("RNRRetryCount", self.rnr_retry_count, 0, 3)?,
            retries: place("MaxCMRetries", self.max_cm_retries, 4, 4)?
                | flag(self.srq, 3)
                | place("ExtendedTransportType", self.extended_transport_type, 0, 3)?,
            primary: ReqPathWire::new(&self.primary, 0)?,
            alternate: ReqPathWire::new(
                &self.alternate,
                flag(self.sap_supported, SAP_SUPPORTED_SHIFT),
            )?,
            private_data: self.private_data,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_two_bits_and_an_extension() {
        for service in [Service::Rc, Service::Uc, Service::Rd, Service::Xrc] {
            let (transport_type, extended_transport_type) =
                Req::transport_of(service).expect("connected");
            let req = Req {
                transport_type,
                extended_transport_type,
                ..Req::default()
            };
            assert_eq!(req.service(), Some(service));
        }
        assert_eq!(Req::transport_of(Service::Ud), None);
        let unknown = Req {
            transport_type: TransportType::Extended,
            extended_transport_type: 2,
            ..Req::default()
        };
        assert_eq!(unknown.service(), None);
    }

    #[test]
    fn an_alternate_path_without_lid_is_none() {
        let mut req = Req::default();
        assert_eq!(req.alternate_path(), None);
        req.alternate.local_lid = crate::Lid(7);
        assert_eq!(req.alternate_path(), Some(&req.alternate));
    }
}
