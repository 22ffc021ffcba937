//! The two headers of atomic operations: AtomicETH of the request, 28 bytes, and AtomicAckETH of the
//! response, 8 bytes (IBA 9.3).

use crate::error::{EmitError, ParseError};
use crate::header::Header;
use crate::types::RKey;
use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The AtomicETH as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct AtomicEthWire {
    virtual_address: U64,
    rkey: U32,
    swap_add: U64,
    compare: U64,
}

/// The AtomicETH's meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtomicEth {
    /// Address of the remote 8 bytes; must be a multiple of 8, which the responder checks (I7).
    pub virtual_address: u64,
    /// Key of the remote region or window.
    pub rkey: RKey,
    /// Compare and swap: the new value. Fetch and add: the addend.
    pub swap_add: u64,
    /// Compare and swap: the value compared with. Fetch and add: sent as given, not looked at.
    pub compare: u64,
}

impl Header for AtomicEth {
    type Wire = AtomicEthWire;
    const NAME: &'static str = "AtomicETH";

    fn from_wire(wire: &AtomicEthWire) -> Result<Self, ParseError> {
        Ok(AtomicEth {
            virtual_address: wire.virtual_address.get(),
            rkey: RKey(wire.rkey.get()),
            swap_add: wire.swap_add.get(),
            compare: wire.compare.get(),
        })
    }

    fn to_wire(&self) -> Result<AtomicEthWire, EmitError> {
        Ok(AtomicEthWire {
            virtual_address: U64::new(self.virtual_address),
            rkey: U32::new(self.rkey.0),
            swap_add: U64::new(self.swap_add),
            compare: U64::new(self.compare),
        })
    }
}

/// The AtomicAckETH as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct AtomicAckEthWire {
    original: U64,
}

/// The AtomicAckETH's meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtomicAckEth {
    /// The remote value before the operation.
    pub original: u64,
}

impl Header for AtomicAckEth {
    type Wire = AtomicAckEthWire;
    const NAME: &'static str = "AtomicAckETH";

    fn from_wire(wire: &AtomicAckEthWire) -> Result<Self, ParseError> {
        Ok(AtomicAckEth {
            original: wire.original.get(),
        })
    }

    fn to_wire(&self) -> Result<AtomicAckEthWire, EmitError> {
        Ok(AtomicAckEthWire {
            original: U64::new(self.original),
        })
    }
}
