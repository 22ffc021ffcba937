//! The headers that name an end point beyond the BTH's destination queue pair: DETH, 8 bytes, RDETH, 4 bytes
//! (both IBA 9.3), and XRCETH, 4 bytes (IBA annex A14).

use crate::error::{EmitError, ParseError};
use crate::header::{Header, U24};
use crate::types::{QKey, Qpn};
use zerocopy::byteorder::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The DETH as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct DethWire {
    qkey: U32,
    reserved: u8,
    src_qp: U24,
}

/// Datagram extended transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deth {
    /// Key that the receiver compares with its own.
    pub qkey: QKey,
    /// The sender's queue pair, 24 bits.
    pub src_qpn: Qpn,
}

impl Header for Deth {
    type Wire = DethWire;
    const NAME: &'static str = "DETH";

    fn from_wire(wire: &DethWire) -> Result<Self, ParseError> {
        Ok(Deth {
            qkey: QKey(wire.qkey.get()),
            src_qpn: Qpn(wire.src_qp.get()),
        })
    }

    fn to_wire(&self) -> Result<DethWire, EmitError> {
        Ok(DethWire {
            qkey: U32::new(self.qkey.0),
            reserved: 0,
            src_qp: U24::new("SrcQP", self.src_qpn.0)?,
        })
    }
}

/// One reserved byte and a 24-bit number: the layout of RDETH and XRCETH.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Number24Wire {
    reserved: u8,
    number: U24,
}

/// Reliable datagram extended transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rdeth {
    /// End-to-end context, 24 bits.
    pub ee_context: u32,
}

impl Header for Rdeth {
    type Wire = Number24Wire;
    const NAME: &'static str = "RDETH";

    fn from_wire(wire: &Number24Wire) -> Result<Self, ParseError> {
        Ok(Rdeth {
            ee_context: wire.number.get(),
        })
    }

    fn to_wire(&self) -> Result<Number24Wire, EmitError> {
        Ok(Number24Wire {
            reserved: 0,
            number: U24::new("EE-Context", self.ee_context)?,
        })
    }
}

/// Extended reliable connection extended transport header: requests only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct XrcEth {
    /// Number of the shared receive queue at the target, 24 bits.
    pub xrc_srq: u32,
}

impl Header for XrcEth {
    type Wire = Number24Wire;
    const NAME: &'static str = "XRCETH";

    fn from_wire(wire: &Number24Wire) -> Result<Self, ParseError> {
        Ok(XrcEth {
            xrc_srq: wire.number.get(),
        })
    }

    fn to_wire(&self) -> Result<Number24Wire, EmitError> {
        Ok(Number24Wire {
            reserved: 0,
            number: U24::new("XRCSRQ", self.xrc_srq)?,
        })
    }
}
