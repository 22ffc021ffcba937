//! ServiceRecord (IBA 15.2.5): who serves what, as the services themselves have said.

use crate::error::{EmitError, ParseError};
use crate::header::Header;
use crate::types::{Gid, PKey, ServiceId};
use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A ServiceRecord as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ServiceRecordWire {
    service_id: U64,
    gid: [u8; 16],
    pkey: U16,
    reserved: U16,
    lease: U32,
    key: [u8; 16],
    name: [u8; 64],
    data: [u8; 64],
}

/// A service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServiceRecord {
    /// The service's identifier.
    pub service_id: ServiceId,
    /// The port that serves it.
    pub gid: Gid,
    /// Partition in which it is served.
    pub pkey: PKey,
    /// Seconds until the record expires; all ones for never.
    pub lease_s: u32,
    /// Who does not know it may not change the record.
    pub key: [u8; 16],
    /// Name in UTF-8; zeros follow it if there is room.
    pub name: [u8; 64],
    /// The service's own: sixteen bytes, then eight 16-bit, four 32-bit and two 64-bit words, big-endian.
    pub data: [u8; 64],
}

bitflags::bitflags! {
    /// Which components of a ServiceRecord a question gives. Each element of the data is a component.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
    pub struct ServiceRecordMask: u64 {
        /// The service identifier.
        const SERVICE_ID = 1;
        /// The GID.
        const GID = 1 << 1;
        /// The P_Key.
        const PKEY = 1 << 2;
        /// The lease.
        const LEASE = 1 << 4;
        /// The key.
        const KEY = 1 << 5;
        /// The name.
        const NAME = 1 << 6;
        /// The 16 bytes of data.
        const DATA_8 = 0xffff << 7;
        /// The 8 words of 16 bits.
        const DATA_16 = 0xff << 23;
        /// The 4 words of 32 bits.
        const DATA_32 = 0xf << 31;
        /// The 2 words of 64 bits.
        const DATA_64 = 0b11 << 35;
    }
}

impl Header for ServiceRecord {
    type Wire = ServiceRecordWire;
    const NAME: &'static str = "ServiceRecord";

    fn from_wire(wire: &ServiceRecordWire) -> Result<Self, ParseError> {
        Ok(ServiceRecord {
            service_id: ServiceId(wire.service_id.get()),
            gid: Gid(wire.gid),
            pkey: PKey(wire.pkey.get()),
            lease_s: wire.lease.get(),
            key: wire.key,
            name: wire.name,
            data: wire.data,
        })
    }

    fn to_wire(&self) -> Result<ServiceRecordWire, EmitError> {
        Ok(ServiceRecordWire {
            service_id: U64::new(self.service_id.0),
            gid: self.gid.0,
            pkey: U16::new(self.pkey.0),
            reserved: U16::ZERO,
            lease: U32::new(self.lease_s),
            key: self.key,
            name: self.name,
            data: self.data,
        })
    }
}
