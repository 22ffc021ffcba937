//! The tables of a port and a switch, block by block: GUIDInfo, SLtoVLMappingTable, VLArbitrationTable, and the linear
//! and multicast forwarding tables (IBA 14.2.5). Which block it is, is in the attribute modifier.

use crate::error::{EmitError, ParseError};
use crate::header::{Header, bits, place};
use crate::types::{Guid, Vl};
use zerocopy::byteorder::big_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A block of a port's GUIDs as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(transparent)]
pub struct GuidInfoWire([U64; 8]);

/// A block of eight of a port's GUIDs; 0 for an unused entry. The first of the first block is the port's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GuidInfo(pub [Guid; 8]);

impl Header for GuidInfo {
    type Wire = GuidInfoWire;
    const NAME: &'static str = "GUIDInfo";

    fn from_wire(wire: &GuidInfoWire) -> Result<Self, ParseError> {
        Ok(GuidInfo(wire.0.map(|guid| Guid(guid.get()))))
    }

    fn to_wire(&self) -> Result<GuidInfoWire, EmitError> {
        Ok(GuidInfoWire(self.0.map(|guid| U64::new(guid.0))))
    }
}

/// An SLtoVLMappingTable as it travels: four bits for each SL.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(transparent)]
pub struct SlToVlTableWire([u8; 8]);

/// The virtual lane of each of the 16 service levels; lane 15 drops.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SlToVlTable(pub [Vl; 16]);

impl Header for SlToVlTable {
    type Wire = SlToVlTableWire;
    const NAME: &'static str = "SLtoVLMappingTable";

    fn from_wire(wire: &SlToVlTableWire) -> Result<Self, ParseError> {
        let mut lanes = [Vl(0); 16];
        for (pair, byte) in lanes.chunks_exact_mut(2).zip(wire.0) {
            pair.copy_from_slice(&[Vl(bits(byte, 4, 4)), Vl(bits(byte, 0, 4))]);
        }
        Ok(SlToVlTable(lanes))
    }

    fn to_wire(&self) -> Result<SlToVlTableWire, EmitError> {
        let mut wire = [0; 8];
        for (byte, pair) in wire.iter_mut().zip(self.0.chunks_exact(2)) {
            *byte = place("VL", pair[0].0, 4, 4)? | place("VL", pair[1].0, 0, 4)?;
        }
        Ok(SlToVlTableWire(wire))
    }
}

/// A block of a VLArbitrationTable as it travels: reserved:4 VL:4 Weight:8, 32 times.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(transparent)]
pub struct VlArbitrationBlockWire([[u8; 2]; 32]);

/// One entry of a VL arbitration table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VlWeight {
    /// The lane.
    pub vl: Vl,
    /// What it may send in a turn, in units of 64 bytes; an entry of weight 0 is skipped.
    pub weight: u8,
}

/// A block of 32 entries of a VL arbitration table: blocks 1 and 2 are of low priority, 3 and 4 of high.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VlArbitrationBlock(pub [VlWeight; 32]);

impl Header for VlArbitrationBlock {
    type Wire = VlArbitrationBlockWire;
    const NAME: &'static str = "VLArbitrationTable";

    fn from_wire(wire: &VlArbitrationBlockWire) -> Result<Self, ParseError> {
        Ok(VlArbitrationBlock(wire.0.map(|[vl, weight]| VlWeight {
            vl: Vl(bits(vl, 0, 4)),
            weight,
        })))
    }

    fn to_wire(&self) -> Result<VlArbitrationBlockWire, EmitError> {
        let mut wire = [[0; 2]; 32];
        for (bytes, entry) in wire.iter_mut().zip(self.0) {
            *bytes = [place("VL", entry.vl.0, 0, 4)?, entry.weight];
        }
        Ok(VlArbitrationBlockWire(wire))
    }
}

/// A block of a linear forwarding table: the port for each of 64 LIDs; 255 for none. As it travels and as a value.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(transparent)]
pub struct LinearForwardingBlock(pub [u8; 64]);

impl LinearForwardingBlock {
    /// LIDs of a block.
    pub const LIDS: u16 = 64;
    /// The entry of a LID that is not forwarded.
    pub const NO_PORT: u8 = 255;
}

impl Header for LinearForwardingBlock {
    type Wire = LinearForwardingBlock;
    const NAME: &'static str = "LinearForwardingTable";

    fn from_wire(wire: &LinearForwardingBlock) -> Result<Self, ParseError> {
        Ok(*wire)
    }

    fn to_wire(&self) -> Result<LinearForwardingBlock, EmitError> {
        Ok(*self)
    }
}

/// A block of a multicast forwarding table as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(transparent)]
pub struct MulticastForwardingBlockWire([U16; 32]);

/// A block of a multicast forwarding table: for each of 32 multicast LIDs the ports, of 16 in a row, that get a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MulticastForwardingBlock(pub [u16; 32]);

impl MulticastForwardingBlock {
    /// LIDs of a block.
    pub const LIDS: u16 = 32;

    /// The attribute modifier of a block: ports from 16 * `position` on, 4 bits; LIDs from 0xc000 + 32 * `block` on,
    /// 9 bits.
    pub const fn modifier(position: u8, block: u16) -> u32 {
        ((position & 0xf) as u32) << 28 | (block & 0x1ff) as u32
    }
}

impl Header for MulticastForwardingBlock {
    type Wire = MulticastForwardingBlockWire;
    const NAME: &'static str = "MulticastForwardingTable";

    fn from_wire(wire: &MulticastForwardingBlockWire) -> Result<Self, ParseError> {
        Ok(MulticastForwardingBlock(wire.0.map(U16::get)))
    }

    fn to_wire(&self) -> Result<MulticastForwardingBlockWire, EmitError> {
        Ok(MulticastForwardingBlockWire(self.0.map(U16::new)))
    }
}
