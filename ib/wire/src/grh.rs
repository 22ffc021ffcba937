//! Global route header, 40 bytes (IBA 8.3). It has the layout of an IPv6 header, and RoCEv2 over IPv6 uses it as
//! one: only the next header tells the two apart. What comes next and the payload length are no fields of the value.

use crate::error::{EmitError, ParseError};
use crate::header::{fits, prefix, put};
use crate::types::Gid;
use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The GRH or IPv6 header as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct GrhWire {
    /// IPVer:4 TClass:8 FlowLabel:20.
    class: U32,
    payload_length: U16,
    next_header: u8,
    hop_limit: u8,
    source: [u8; 16],
    destination: [u8; 16],
}

const VERSION: u8 = 6;
const VERSION_SHIFT: u32 = 28;
const CLASS_SHIFT: u32 = 20;
const FLOW_MASK: u32 = (1 << CLASS_SHIFT) - 1;

impl GrhWire {
    /// The same header with the ICRC's variant fields set to ones: traffic class, flow label, hop limit
    /// (IBA 7.8.1).
    pub(crate) fn masked(mut self) -> Self {
        self.class = U32::new(self.class.get() | ((1 << VERSION_SHIFT) - 1));
        self.hop_limit = 0xff;
        self
    }
}

/// What follows a GRH or IPv6 header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum NextHeader {
    /// UDP: RoCEv2 over IPv6.
    Udp = 17,
    /// The InfiniBand transport: a GRH.
    Transport = 0x1b,
}

/// The GRH's or IPv6 header's meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grh {
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source GID or address.
    pub sgid: Gid,
    /// Destination GID or address.
    pub dgid: Gid,
}

impl Grh {
    /// Bytes on the wire.
    pub const LEN: usize = size_of::<GrhWire>();

    /// Reads the header, which must announce `next`; returns it, its payload length in bytes and what follows.
    pub fn parse(bytes: &[u8], next: NextHeader) -> Result<(Self, usize, &[u8]), ParseError> {
        let what = match next {
            NextHeader::Udp => "IPv6 header",
            NextHeader::Transport => "GRH",
        };
        let (wire, rest) = prefix::<GrhWire>(bytes, what)?;
        let [first, ..] = wire.class.get().to_be_bytes();
        if first >> 4 != VERSION {
            return Err(ParseError::IpVersion {
                expected: VERSION,
                got: first >> 4,
            });
        }
        if wire.next_header != next as u8 {
            return Err(ParseError::NextHeader {
                expected: next as u8,
                got: wire.next_header,
            });
        }
        let grh = Grh {
            // The eight bits above the flow label.
            traffic_class: (wire.class.get() >> CLASS_SHIFT) as u8,
            flow_label: wire.class.get() & FLOW_MASK,
            hop_limit: wire.hop_limit,
            sgid: Gid(wire.source),
            dgid: Gid(wire.destination),
        };
        Ok((grh, wire.payload_length.get().into(), rest))
    }

    /// Writes the header before `payload_len` bytes (after the header to before the VCRC); returns what follows.
    pub fn emit<'a>(
        &self,
        next: NextHeader,
        payload_len: usize,
        out: &'a mut [u8],
    ) -> Result<&'a mut [u8], EmitError> {
        let flow = fits("FlowLabel", self.flow_label, CLASS_SHIFT)?;
        let length = u32::try_from(payload_len).unwrap_or(u32::MAX);
        let class = u32::from(VERSION) << VERSION_SHIFT
            | u32::from(self.traffic_class) << CLASS_SHIFT
            | flow;
        let wire = GrhWire {
            class: U32::new(class),
            // Sixteen bits: the conversion loses nothing.
            payload_length: U16::new(fits("PayLen", length, 16)? as u16),
            next_header: next as u8,
            hop_limit: self.hop_limit,
            source: self.sgid.0,
            destination: self.dgid.0,
        };
        put(&wire, out)
    }
}
