//! A packet on an InfiniBand link: `LRH [GRH] transport ICRC VCRC`. Lengths and CRCs are computed when it is written
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

/// What lies below the transport header of a native packet, for whoever has the bytes from BTH to ICRC apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NativeHeaders {
    /// Local route header.
    pub lrh: Lrh,
    /// Global route header, if the packet has one.
    pub grh: Option<Grh>,
}

impl NativeHeaders {
    /// Bytes before the BTH.
    pub const fn wire_len(&self) -> usize {
        let grh = if self.grh.is_some() { Grh::LEN } else { 0 };
        Lrh::LEN + grh
    }

    /// Begins the ICRC of a packet whose transport part (BTH to pad) has `transport_len` bytes.
    ///
    /// # Errors
    /// A length that no packet has.
    pub fn icrc(&self, transport_len: usize) -> Result<Icrc, EmitError> {
        let mut bytes = [0; Lrh::LEN + Grh::LEN];
        let len = self.wire_len();
        self.put_headers(transport_len + ICRC_LEN, &mut bytes[..len])?;
        let (icrc, _) = Icrc::native(&bytes[..len]).expect("the headers were just written");
        Ok(icrc)
    }

    /// Checks the ICRC at the end of `bytes`, which begin at the BTH. Gives them without it.
    ///
    /// # Errors
    /// Too few bytes, a length that no packet has, another ICRC.
    #[inline]
    pub fn check<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], ParseError> {
        let (got, at) = trailer::<U32>(bytes, "ICRC")?;
        let transport = &bytes[..at];
        let icrc = self
            .icrc(at)
            .map_err(|_| ParseError::Misaligned { len: at })?;
        let (expected, got) = (icrc.finish_with(transport), got.get());
        if expected == got {
            Ok(transport)
        } else {
            Err(ParseError::Icrc { expected, got })
        }
    }

    /// Writes LRH, GRH, the packet's bytes from BTH to ICRC as they are, and the VCRC to the start of `out`; returns the bytes written.
    /// `whole_len` is the number of those bytes if `bytes` is only their beginning: then there is no VCRC.
    ///
    /// # Errors
    /// `BufferTooSmall`; a length that no packet has.
    pub fn emit(&self, bytes: &[u8], whole_len: usize, out: &mut [u8]) -> Result<usize, EmitError> {
        let (at, whole) = (self.wire_len(), bytes.len() == whole_len);
        let end = at + bytes.len();
        let (needed, got) = (end + if whole { VCRC_LEN } else { 0 }, out.len());
        let out = out
            .get_mut(..needed)
            .ok_or(EmitError::BufferTooSmall { needed, got })?;
        self.put_headers(whole_len, out)?;
        out[at..end].copy_from_slice(bytes);
        if whole {
            let (body, trailer) = out.split_at_mut(end);
            put(&U16::new(vcrc(body)), trailer)?;
        }
        Ok(needed)
    }

    /// Writes the headers before `len` bytes from BTH to ICRC.
    fn put_headers(&self, len: usize, out: &mut [u8]) -> Result<(), EmitError> {
        let next = match self.grh {
            Some(_) => LinkNext::Global,
            None => LinkNext::Transport,
        };
        let rest = self.lrh.emit(next, self.wire_len() + len, out)?;
        if let Some(grh) = &self.grh {
            grh.emit(NextHeader::Transport, len, rest)?;
        }
        Ok(())
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bth, Ext, Gid, Headers, Lid, Opcode, Psn, Qpn, Sl, Vl};

    fn headers(grh: bool) -> NativeHeaders {
        NativeHeaders {
            lrh: Lrh {
                vl: Vl(0),
                sl: Sl(3),
                dlid: Lid(7),
                slid: Lid(9),
            },
            grh: grh.then_some(Grh {
                traffic_class: 4,
                flow_label: 0x1_2345,
                hop_limit: 64,
                sgid: Gid([1; 16]),
                dgid: Gid([2; 16]),
            }),
        }
    }

    #[test]
    fn a_packet_put_together_of_its_parts_is_the_packet_that_is_written_as_one() {
        for grh in [false, true] {
            let headers = headers(grh);
            let packet = Packet {
                headers: Headers::new(
                    Bth::new(Opcode::RcSendOnly, Qpn(5), Psn::new(6)),
                    Ext::default(),
                ),
                payload: b"nine byte",
            };
            let whole = NativePacket {
                lrh: headers.lrh,
                grh: headers.grh,
                packet,
            };
            let mut expected = [0; 256];
            let len = whole.emit(&mut expected).expect("fits");
            // BTH to ICRC, as it travels between processes
            let mut bytes = [0; 128];
            let at = packet.emit(&mut bytes).expect("fits");
            let icrc = headers
                .icrc(at)
                .expect("a length")
                .finish_with(&bytes[..at]);
            bytes[at..at + ICRC_LEN].copy_from_slice(&icrc.to_le_bytes());
            let bytes = &mut bytes[..at + ICRC_LEN];
            let mut out = [0; 256];
            assert_eq!(headers.emit(bytes, bytes.len(), &mut out), Ok(len));
            assert_eq!(out, expected, "grh {grh}");
            assert_eq!(headers.check(bytes).map(<[u8]>::len), Ok(at));
            // a cut one keeps its lengths and has no VCRC
            let mut cut = [0; 256];
            let cut_len = headers.emit(&bytes[..12], bytes.len(), &mut cut);
            assert_eq!(cut_len, Ok(headers.wire_len() + 12));
            assert_eq!(
                cut[..headers.wire_len() + 12],
                expected[..headers.wire_len() + 12]
            );
            for at in 0..bytes.len() {
                if at == 4 {
                    // flags that the ICRC does not cover
                    continue;
                }
                bytes[at] ^= 1;
                assert!(headers.check(bytes).is_err(), "byte {at}");
                bytes[at] ^= 1;
            }
            assert!(headers.check(&bytes[..3]).is_err());
        }
    }
}
