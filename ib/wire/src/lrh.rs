//! Local route header, 8 bytes (IBA 7.7). Owns its layout. What comes next and the packet's length are no fields of
//! the value: they follow from the packet, and `NativePacket` computes them.

use crate::error::{EmitError, ParseError};
use crate::header::{fits, prefix, put};
use crate::types::{Lid, Sl, Vl};
use zerocopy::byteorder::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The LRH as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct LrhWire {
    /// VL:4 LVer:4.
    lane: u8,
    /// SL:4 reserved:2 LNH:2.
    service: u8,
    dlid: U16,
    /// reserved:5 PktLen:11.
    length: U16,
    slid: U16,
}

const VL_SHIFT: u32 = 4;
const VL_MASK: u8 = 0xf0;
const VERSION_MASK: u8 = 0x0f;
const SL_SHIFT: u32 = 4;
const NEXT_MASK: u8 = 0b11;
const LENGTH_BITS: u32 = 11;

impl LrhWire {
    /// What follows the LRH.
    pub const fn next(&self) -> LinkNext {
        match self.service & NEXT_MASK {
            0 => LinkNext::RawEtherType,
            1 => LinkNext::RawIpv6,
            2 => LinkNext::Transport,
            _ => LinkNext::Global,
        }
    }

    /// The same header with the ICRC's variant field set to ones: VL (IBA 7.8.1).
    pub(crate) const fn masked(mut self) -> Self {
        self.lane |= VL_MASK;
        self
    }

    /// What stands in for the LRH in the ICRC of a packet with a GRH: all ones, for a router rewrites the LRH.
    pub(crate) const ONES: [u8; Lrh::LEN] = [0xff; Lrh::LEN];
}

/// Link next header (IBA 7.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LinkNext {
    /// A raw packet with an EtherType: no InfiniBand transport.
    RawEtherType = 0,
    /// A raw IPv6 packet: no InfiniBand transport.
    RawIpv6 = 1,
    /// BTH: the packet stays in its subnet.
    Transport = 2,
    /// GRH, then BTH.
    Global = 3,
}

/// The LRH's meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lrh {
    /// Virtual lane on this link, 4 bits.
    pub vl: Vl,
    /// Service level, 4 bits.
    pub sl: Sl,
    /// Destination.
    pub dlid: Lid,
    /// Source.
    pub slid: Lid,
}

impl Lrh {
    /// Bytes on the wire.
    pub const LEN: usize = size_of::<LrhWire>();

    /// Reads the header; returns it, what comes next, PktLen in bytes (LRH to before the VCRC) and what follows.
    pub fn parse(bytes: &[u8]) -> Result<(Self, LinkNext, usize, &[u8]), ParseError> {
        let (wire, rest) = prefix::<LrhWire>(bytes, "LRH")?;
        // A packet of another link version is discarded (IBA 7.7).
        let version = wire.lane & VERSION_MASK;
        if version != 0 {
            return Err(ParseError::LinkVersion(version));
        }
        let lrh = Lrh {
            vl: Vl(wire.lane >> VL_SHIFT),
            sl: Sl(wire.service >> SL_SHIFT),
            dlid: Lid(wire.dlid.get()),
            slid: Lid(wire.slid.get()),
        };
        let words: usize = (wire.length.get() & ((1 << LENGTH_BITS) - 1)).into();
        Ok((lrh, wire.next(), words * 4, rest))
    }

    /// Writes the header of a packet of `packet_len` bytes (LRH to before the VCRC, a multiple of 4); returns what
    /// follows.
    pub fn emit<'a>(
        &self,
        next: LinkNext,
        packet_len: usize,
        out: &'a mut [u8],
    ) -> Result<&'a mut [u8], EmitError> {
        fits("VL", self.vl.0.into(), 4)?;
        fits("SL", self.sl.0.into(), 4)?;
        let words = u32::try_from(packet_len / 4).unwrap_or(u32::MAX);
        let wire = LrhWire {
            lane: self.vl.0 << VL_SHIFT,
            service: self.sl.0 << SL_SHIFT | next as u8,
            dlid: U16::new(self.dlid.0),
            // Eleven bits: the conversion loses nothing.
            length: U16::new(fits("PktLen", words, LENGTH_BITS)? as u16),
            slid: U16::new(self.slid.0),
        };
        put(&wire, out)
    }
}
