//! The extended headers of established connections: offers of buffers, sizes, modes, service IDs.
//! Owns their layout; which message has which stands in `message`.

use crate::error::ParseError;
use crate::types::{RKey, ServiceId};
use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Header of RdmaWrCompl, RdmaRdCompl, ChRcvBuf and ChRcvBufAck: one size.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SizeWire {
    size: U32,
}

impl SizeWire {
    pub(crate) const fn new(size_bytes: u32) -> Self {
        SizeWire {
            size: U32::new(size_bytes),
        }
    }

    /// Bytes.
    pub const fn size_bytes(&self) -> u32 {
        self.size.get()
    }
}

/// Header of ModeChange.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ModeChangeWire {
    /// Half:1 Mode:3 reserved:4.
    change: u8,
    reserved_1: [u8; 3],
}

/// How one half of a connection moves data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum TransferMode {
    /// By messages only.
    Buffered = 0,
    /// By messages, and by RDMA READ of one SrcAvail at a time.
    Combined = 1,
    /// By RDMA of many offers at a time, of both kinds.
    Pipelined = 2,
}

/// The half of the receiver's connection that changes its mode.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum ConnectionHalf {
    /// What the receiver of the message receives.
    Receive = 0,
    /// What the receiver of the message sends.
    Send = 1,
}

/// What a ModeChange says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ModeChange {
    /// The half that changes.
    pub half: ConnectionHalf,
    /// Its mode from this message on.
    pub mode: TransferMode,
}

const HALF_SHIFT: u32 = 7;
const MODE_SHIFT: u32 = 4;
const MODE_MASK: u8 = 7;

impl ModeChange {
    pub(crate) fn from_wire(wire: &ModeChangeWire) -> Result<Self, ParseError> {
        let mode = match (wire.change >> MODE_SHIFT) & MODE_MASK {
            0 => TransferMode::Buffered,
            1 => TransferMode::Combined,
            2 => TransferMode::Pipelined,
            value => {
                return Err(ParseError::Field {
                    field: "mode of ModeChange",
                    value: value.into(),
                });
            }
        };
        let half = if wire.change >> HALF_SHIFT == 0 {
            ConnectionHalf::Receive
        } else {
            ConnectionHalf::Send
        };
        Ok(ModeChange { half, mode })
    }

    pub(crate) const fn to_wire(self) -> ModeChangeWire {
        ModeChangeWire {
            change: (self.half as u8) << HALF_SHIFT | (self.mode as u8) << MODE_SHIFT,
            reserved_1: [0; 3],
        }
    }
}

/// Header of SuspComm.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SuspCommWire {
    service_id: U64,
}

impl SuspCommWire {
    pub(crate) const fn new(service_id: ServiceId) -> Self {
        SuspCommWire {
            service_id: U64::new(service_id.0),
        }
    }

    /// The service ID that the connection moves to.
    pub const fn service_id(&self) -> ServiceId {
        ServiceId(self.service_id.get())
    }
}

/// Header of SrcAvail, and the first part of SinkAvail's.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct AdvertWire {
    len: U32,
    rkey: U32,
    virtual_address: U64,
}

/// A buffer of the sender that the receiver of the message may reach by RDMA.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Advert {
    /// Bytes of the buffer.
    pub length_bytes: u32,
    /// Its remote key.
    pub rkey: RKey,
    /// Its address in the sender's memory.
    pub virtual_address: u64,
}

impl Advert {
    pub(crate) const fn from_wire(wire: &AdvertWire) -> Self {
        Advert {
            length_bytes: wire.len.get(),
            rkey: RKey(wire.rkey.get()),
            virtual_address: wire.virtual_address.get(),
        }
    }

    pub(crate) const fn to_wire(self) -> AdvertWire {
        AdvertWire {
            len: U32::new(self.length_bytes),
            rkey: U32::new(self.rkey.0),
            virtual_address: U64::new(self.virtual_address),
        }
    }
}

/// Header of SinkAvail.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SinkAvailWire {
    pub(crate) advert: AdvertWire,
    pub(crate) non_discards: U32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_one_of_three() {
        let change = |change| {
            ModeChange::from_wire(&ModeChangeWire {
                change,
                reserved_1: [7; 3],
            })
        };
        // The reserved bits are ignored.
        let pipelined = ModeChange {
            half: ConnectionHalf::Send,
            mode: TransferMode::Pipelined,
        };
        assert_eq!(change(0xaf), Ok(pipelined));
        assert_eq!(pipelined.to_wire().as_bytes(), [0xa0, 0, 0, 0]);
        let combined = ModeChange {
            half: ConnectionHalf::Receive,
            mode: TransferMode::Combined,
        };
        assert_eq!(change(0x10), Ok(combined));
        for mode in 3..8 {
            let refused = ParseError::Field {
                field: "mode of ModeChange",
                value: mode.into(),
            };
            assert_eq!(change(mode << 4), Err(refused));
        }
    }
}
