//! Service ID resolution: which queue pair serves a service (IBA chapter 12). What unreliable datagrams have instead of a
//! connection.

use super::codes::SidrStatus;
use super::private_data::{INFO_LEN, Info, PrivateData};
use crate::error::{EmitError, ParseError};
use crate::header::{Header, U24};
use crate::types::{CommId, PKey, QKey, Qpn, ServiceId};
use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A SIDR_REQ as it travels, after the MAD header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SidrReqWire {
    request_id: U32,
    pkey: U16,
    reserved: U16,
    service_id: U64,
    private_data: PrivateData<216>,
}

/// ServiceIDResReq.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SidrReq {
    /// Ties the answer to the request.
    pub request_id: CommId,
    /// Partition in which the service is wanted.
    pub pkey: PKey,
    /// The service.
    pub service_id: ServiceId,
    /// The consumer's, or the IP addressing header (`IpCmHeader`) and then the consumer's.
    pub private_data: PrivateData<216>,
}

impl Header for SidrReq {
    type Wire = SidrReqWire;
    const NAME: &'static str = "SIDR_REQ";

    fn from_wire(wire: &SidrReqWire) -> Result<Self, ParseError> {
        Ok(SidrReq {
            request_id: CommId(wire.request_id.get()),
            pkey: PKey(wire.pkey.get()),
            service_id: ServiceId(wire.service_id.get()),
            private_data: wire.private_data,
        })
    }

    fn to_wire(&self) -> Result<SidrReqWire, EmitError> {
        Ok(SidrReqWire {
            request_id: U32::new(self.request_id.0),
            pkey: U16::new(self.pkey.0),
            reserved: U16::ZERO,
            service_id: U64::new(self.service_id.0),
            private_data: self.private_data,
        })
    }
}

/// A SIDR_REP as it travels, after the MAD header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SidrRepWire {
    request_id: U32,
    status: u8,
    info_length: u8,
    vendor_id_high: U16,
    qpn: U24,
    vendor_id_low: u8,
    service_id: U64,
    qkey: U32,
    info: PrivateData<INFO_LEN>,
    private_data: PrivateData<136>,
}

/// ServiceIDResReqResp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SidrRep {
    /// The request's.
    pub request_id: CommId,
    /// Whether there is such a service.
    pub status: SidrStatus,
    /// What goes with the status.
    pub info: Info,
    /// Vendor whose enhanced service this is, 24 bits; 0 for none.
    pub vendor_id: u32,
    /// The queue pair that serves it.
    pub qpn: Qpn,
    /// The service.
    pub service_id: ServiceId,
    /// Q_Key of the queue pair.
    pub qkey: QKey,
    /// The consumer's.
    pub private_data: PrivateData<136>,
}

impl Header for SidrRep {
    type Wire = SidrRepWire;
    const NAME: &'static str = "SIDR_REP";

    fn from_wire(wire: &SidrRepWire) -> Result<Self, ParseError> {
        Ok(SidrRep {
            request_id: CommId(wire.request_id.get()),
            status: SidrStatus::from_code(wire.status),
            info: Info::from_wire("AdditionalInformationLength", wire.info_length, &wire.info)?,
            vendor_id: u32::from(wire.vendor_id_high.get()) << 8 | u32::from(wire.vendor_id_low),
            qpn: Qpn(wire.qpn.get()),
            service_id: ServiceId(wire.service_id.get()),
            qkey: QKey(wire.qkey.get()),
            private_data: wire.private_data,
        })
    }

    fn to_wire(&self) -> Result<SidrRepWire, EmitError> {
        U24::new("VendorID", self.vendor_id)?;
        let [_, high, middle, vendor_id_low] = self.vendor_id.to_be_bytes();
        let (info_length, info) = self.info.to_wire();
        Ok(SidrRepWire {
            request_id: U32::new(self.request_id.0),
            status: self.status.code()?,
            info_length,
            vendor_id_high: U16::from_bytes([high, middle]),
            qpn: U24::new("QPN", self.qpn.0)?,
            vendor_id_low,
            service_id: U64::new(self.service_id.0),
            qkey: U32::new(self.qkey.0),
            info,
            private_data: self.private_data,
        })
    }
}
