//! A packet on an InfiniBand link: LRH [GRH] transport ICRC VCRC. Lengths and CRCs are computed when it is written
//! and checked when it is read. Knows no routing.

use crate::error::{EmitError, ParseError};
use crate::grh::{Grh, NextHeader};
use crate::header::{prefix, put};
use crate::icrc::Icrc;
use crate::lrh::{LinkNext, Lrh};
use crate::packet::Packet;
use crate::vcrc::vcrc;
use zerocopy::byteorder::little_endian::{U16, U32};

/// Bytes of an ICRC.
pub const ICRC_LEN: usize = size_of::<U32>();
/// Bytes of a VCRC.
pub const VCRC_LEN: usize = size_of::<U16>();

/// A packet as it travels on a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NativePacket<'a> {
    /// Local route header.
    pub lrh: Lrh,
    /// Global route header, if the packet has one.
    pub grh: Option<Grh>,
    /// Transport packet.
    pub packet: Packet<'a>,
}

/// Splits the last `size_of::<T>()` bytes off.
pub(crate) fn trailer<T>(bytes: &[u8], what: &'static str) -> Result<(T, usize), ParseError>
where
    T: zerocopy::FromBytes
        + zerocopy::KnownLayout
        + zerocopy::Immutable
        + zerocopy::Unaligned
        + Copy,
{
    let needed = size_of::<T>();
    let at = bytes
        .len()
        .checked_sub(needed)
        .ok_or(ParseError::Truncated {
            what,
            needed,
            got: bytes.len(),
        })?;
    let (value, _) = prefix::<T>(&bytes[at..], what)?;
    Ok((*value, at))
}

impl<'a> NativePacket<'a> {
    /// Bytes from LRH to VCRC.
    pub const fn wire_len(&self) -> usize {
        let grh = if self.grh.is_some() { Grh::LEN } else { 0 };
        Lrh::LEN + grh + self.packet.wire_len() + ICRC_LEN + VCRC_LEN
    }

    /// Reads a whole packet, LRH to VCRC, and checks both CRCs.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        // The CRCs come first: a packet that fails them says nothing, not even that its opcode is wrong.
        Self::check_vcrc(bytes)?;
        Self::check_icrc(bytes)?;
        Self::parse_unchecked(bytes)
    }

    /// Reads a whole packet without looking at its CRCs.
    pub fn parse_unchecked(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (_, vcrc_at) = trailer::<U16>(bytes, "VCRC")?;
        let (_, icrc_at) = trailer::<U32>(&bytes[..vcrc_at], "ICRC")?;
        let (lrh, next, packet_len, mut rest) = Lrh::parse(bytes)?;
        if packet_len != vcrc_at {
            return Err(ParseError::Length {
                field: "PktLen",
                expected: packet_len,
                got: vcrc_at,
            });
        }
        let grh = match next {
            LinkNext::Transport => None,
            LinkNext::Global => {
                let (grh, payload_len, after) = Grh::parse(rest, NextHeader::Transport)?;
                let got = after.len().saturating_sub(VCRC_LEN);
                if payload_len != got {
                    return Err(ParseError::Length {
                        field: "PayLen",
                        expected: payload_len,
                        got,
                    });
                }
                rest = after;
                Some(grh)
            }
            raw => return Err(ParseError::RawPacket(raw as u8)),
        };
        // A GRH may have eaten into what was taken for the trailer.
        let transport_len =
            rest.len()
                .checked_sub(bytes.len() - icrc_at)
                .ok_or(ParseError::Truncated {
                    what: "BTH",
                    needed: crate::Bth::LEN,
                    got: 0,
                })?;
        Ok(NativePacket {
            lrh,
            grh,
            packet: Packet::parse(&rest[..transport_len])?,
        })
    }

    /// Checks the VCRC of a whole packet.
    pub fn check_vcrc(bytes: &[u8]) -> Result<(), ParseError> {
        let (got, at) = trailer::<U16>(bytes, "VCRC")?;
        let (expected, got) = (vcrc(&bytes[..at]), got.get());
        if expected == got {
            Ok(())
        } else {
            Err(ParseError::Vcrc { expected, got })
        }
    }

    /// Checks the ICRC of a whole packet.
    pub fn check_icrc(bytes: &[u8]) -> Result<(), ParseError> {
        let (_, vcrc_at) = trailer::<U16>(bytes, "VCRC")?;
        let (got, at) = trailer::<U32>(&bytes[..vcrc_at], "ICRC")?;
        let (icrc, transport) = Icrc::native(&bytes[..at])?;
        let (expected, got) = (icrc.finish_with(transport), got.get());
        if expected == got {
            Ok(())
        } else {
            Err(ParseError::Icrc { expected, got })
        }
    }

    /// Writes the packet with its lengths and CRCs to the start of `out`; returns its length.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, EmitError> {
        let (needed, got) = (self.wire_len(), out.len());
        let out = out
            .get_mut(..needed)
            .ok_or(EmitError::BufferTooSmall { needed, got })?;
        let transport_len = self.packet.wire_len();
        let next = if self.grh.is_some() {
            LinkNext::Global
        } else {
            LinkNext::Transport
        };
        let mut rest = self.lrh.emit(next, needed - VCRC_LEN, out)?;
        if let Some(grh) = &self.grh {
            rest = grh.emit(NextHeader::Transport, transport_len + ICRC_LEN, rest)?;
        }
        self.packet.emit(rest)?;
        let (body, trailers) = out.split_at_mut(needed - ICRC_LEN - VCRC_LEN);
        let (icrc, transport) = Icrc::native(body).expect("the headers were just written");
        put(&U32::new(icrc.finish_with(transport)), trailers)?;
        let (body, trailer) = out.split_at_mut(needed - VCRC_LEN);
        put(&U16::new(vcrc(body)), trailer)?;
        Ok(needed)
    }
}
