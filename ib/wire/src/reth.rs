//! RDMA extended transport header, 16 bytes (IBA 9.3): where an RDMA WRITE or READ goes.

use crate::error::{EmitError, ParseError};
use crate::header::Header;
use crate::types::RKey;
use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The RETH as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RethWire {
    virtual_address: U64,
    rkey: U32,
    dma_length: U32,
}

/// The RETH's meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reth {
    /// First byte of the remote buffer.
    pub virtual_address: u64,
    /// Key of the remote region or window.
    pub rkey: RKey,
    /// Length of the whole message in bytes, 0..=2^31.
    pub dma_length: u32,
}

impl Header for Reth {
    type Wire = RethWire;
    const NAME: &'static str = "RETH";

    fn from_wire(wire: &RethWire) -> Result<Self, ParseError> {
        Ok(Reth {
            virtual_address: wire.virtual_address.get(),
            rkey: RKey(wire.rkey.get()),
            dma_length: wire.dma_length.get(),
        })
    }

    fn to_wire(&self) -> Result<RethWire, EmitError> {
        Ok(RethWire {
            virtual_address: U64::new(self.virtual_address),
            rkey: U32::new(self.rkey.0),
            dma_length: U32::new(self.dma_length),
        })
    }
}
