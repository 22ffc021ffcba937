//! ICRCs of many RoCEv2 datagrams alike: what depends on their headers and their length alone is computed once.
//!
//! A CRC is linear: a byte that differs changes it by an amount which depends only on the byte and on how much follows. So the
//! identification of an IPv4 header and the masked byte of the BTH are not read before the rest but added to the result.

use crate::bth::Bth;
use crate::error::ParseError;
use crate::icrc::{Icrc, Rewind, advance, multiply, times_x};
use crate::ip::{Ipv4, Udp};
use crate::native::trailer;
use crate::roce::{IDENTIFICATION_AT, RoceHeaders, RoceIp};
use zerocopy::byteorder::little_endian::U32;

/// Headers and lengths that are remembered; more kinds at a time cost as much as without.
const BEGUN: usize = 32;
const LENGTHS: usize = 64;
/// An identification is taken apart into pieces of so many bits.
const PIECE_BITS: u32 = 4;
const PIECES: usize = (u16::BITS / PIECE_BITS) as usize;
/// The BTH's byte with FECN and BECN (resv8a), which the ICRC takes as ones.
const MASKED_AT: usize = 4;

/// The ICRC of datagrams of one length under one set of headers, after the headers, with identification 0.
#[derive(Clone, Debug)]
struct Begun {
    headers: RoceHeaders,
    icrc: Icrc,
    length: Length,
}

/// What a length alone decides.
#[derive(Clone, Debug)]
struct Length {
    transport_len: usize,
    /// From the CRC's difference back to an IPv4 identification.
    rewind: Rewind,
    /// What the pieces of an IPv4 identification do to the ICRC, from the lowest, for each value of a piece.
    identification: [[u32; 1 << PIECE_BITS]; PIECES],
    /// From a difference in the masked byte to the CRC's.
    masked: u32,
    /// What masking a byte of zeros does.
    masked_zero: u32,
}

impl Length {
    /// None for lengths that no packet has.
    fn new(transport_len: usize) -> Option<Self> {
        // from the identification to before the ICRC
        let from_identification = Ipv4::LEN + Udp::LEN - IDENTIFICATION_AT + transport_len;
        let identification = advance(from_identification)?;
        let masked = advance(transport_len.checked_sub(MASKED_AT)?)?;
        // as the CRC reads them, the low byte comes second and each bit is x times the one above it
        let mut bits = [0; u16::BITS as usize];
        let mut effect = multiply(1 << (u16::BITS - 1), identification);
        for bit in (0..8).rev().chain((8..bits.len()).rev()) {
            bits[bit] = effect;
            effect = times_x(effect);
        }
        let mut pieces = [[0; 1 << PIECE_BITS]; PIECES];
        for (piece, bits) in pieces.iter_mut().zip(bits.chunks(PIECE_BITS as usize)) {
            for (value, effect) in piece.iter_mut().enumerate() {
                let set = bits
                    .iter()
                    .enumerate()
                    .filter(|(bit, _)| value >> bit & 1 == 1);
                *effect = set.fold(0, |sum, (_, of_bit)| sum ^ of_bit);
            }
        }
        Some(Length {
            transport_len,
            rewind: Rewind::new(from_identification)?,
            identification: pieces,
            masked,
            masked_zero: multiply(0xff, masked),
        })
    }

    /// What an identification adds to the ICRC.
    #[inline]
    fn number(&self, identification: u16) -> u32 {
        let mut rest = usize::from(identification);
        self.identification.iter().fold(0, |sum, piece| {
            let effect = piece[rest % piece.len()];
            rest >>= PIECE_BITS;
            sum ^ effect
        })
    }

    /// What masking this byte adds.
    fn mask(&self, byte: u8) -> u32 {
        match byte {
            0 => self.masked_zero,
            _ => multiply(u32::from(!byte), self.masked),
        }
    }
}

/// What a payload of so many bytes, and the BTH's last word before it, do to the CRC of what comes before both.
#[derive(Clone, Debug)]
struct Beyond {
    payload: usize,
    /// By byte of the CRC's register, in which the word has been added, the lowest first.
    effects: Box<[[u32; 256]; 4]>,
    /// What turns the register's result into that of a CRC.
    ends: u32,
}

impl Beyond {
    /// None for more bytes than a packet has.
    fn new(payload: usize) -> Option<Self> {
        let factor = advance(payload + size_of::<u32>())?;
        let mut effects = Box::new([[0; 256]; 4]);
        for (byte, effects) in effects.iter_mut().enumerate() {
            for value in 1..256_usize {
                let low = value.trailing_zeros();
                let alone = multiply(1 << (8 * byte as u32 + low), factor);
                effects[value] = effects[value & (value - 1)] ^ alone;
            }
        }
        Some(Beyond {
            payload,
            effects,
            ends: multiply(u32::MAX, advance(payload)?),
        })
    }

    /// `crc` is that of what comes before the word.
    #[inline]
    fn of(&self, crc: u32, word: u32) -> u32 {
        let bytes = (!crc ^ word).to_le_bytes();
        let each = self.effects.iter().zip(bytes);
        each.fold(self.ends, |sum, (effects, byte)| {
            sum ^ effects[usize::from(byte)]
        })
    }
}

/// The ICRCs of datagrams that resemble each other, for a sender or a receiver of runs.
#[derive(Clone, Debug)]
pub struct RunIcrc {
    begun: Box<[Option<Begun>; BEGUN]>,
    lengths: Box<[Option<Length>; LENGTHS]>,
    beyond: Option<Beyond>,
}

impl Default for RunIcrc {
    fn default() -> Self {
        RunIcrc {
            begun: Box::new([const { None }; BEGUN]),
            lengths: Box::new([const { None }; LENGTHS]),
            beyond: None,
        }
    }
}

impl RunIcrc {
    /// Remembers nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The ICRC of a transport packet (BTH to pad) under headers whose IPv4 identification is taken as `identification`. None for a
    /// packet that is shorter than a BTH, or too long for a datagram.
    pub fn icrc(
        &mut self,
        headers: &RoceHeaders,
        identification: u16,
        transport: &[u8],
    ) -> Option<u32> {
        self.alike(headers, transport.len())?
            .icrc(identification, transport)
    }

    /// Makes of sealed packets of `segment` bytes each (but the last, which may be shorter), whose IPv4 identifications are 0, 1, 2.., what
    /// they are with `first`, `first` + 1, .. modulo 2^16; done once more, it undoes that.
    pub fn renumber(&mut self, first: u16, segment: usize, packets: &mut [u8]) {
        let segment = segment.max(1);
        let whole = packets.len() / segment;
        let (alike, last) = packets.split_at_mut(whole * segment);
        for (from, packets) in [(0, alike), (whole, last)] {
            let bytes = packets.len().min(segment);
            let Some(length) = bytes.checked_sub(4).and_then(|len| self.length(len)) else {
                continue;
            };
            for (place, packet) in (from as u16..=u16::MAX).zip(packets.chunks_mut(segment)) {
                if let Some(icrc) = packet.last_chunk_mut::<4>() {
                    let effect = length.number(place ^ first.wrapping_add(place));
                    *icrc = (u32::from_le_bytes(*icrc) ^ effect).to_le_bytes();
                }
            }
        }
    }

    /// As [`crate::check_datagram`]; `likely` is the identification that the packet probably has, and costs little if it does.
    ///
    /// # Errors
    /// No room for an ICRC, a length that no packet has, a wrong ICRC.
    pub fn check<'a>(
        &mut self,
        headers: &RoceHeaders,
        likely: u16,
        datagram: &'a [u8],
    ) -> Result<(&'a [u8], u16), ParseError> {
        let (got, at) = trailer::<U32>(datagram, "ICRC")?;
        let (transport, got) = (&datagram[..at], got.get());
        let alike = self
            .alike(headers, transport.len())
            .ok_or(ParseError::Length {
                field: "transport packet",
                expected: Bth::LEN,
                got: transport.len(),
            })?;
        alike
            .check_parts(likely, transport, got)
            .map(|id| (transport, id))
    }

    /// The ICRCs of transport packets of this length under these headers. None for a length that no packet has.
    pub fn alike(&mut self, headers: &RoceHeaders, len: usize) -> Option<AlikeIcrc<'_>> {
        if len < Bth::LEN {
            return None;
        }
        // a connection's packets have a source port of their own
        let begun = &mut self.begun[place(len, headers.source_port, BEGUN)];
        let known = begun
            .as_ref()
            .is_some_and(|begun| begun.length.transport_len == len && begun.headers == *headers);
        if !known {
            let mut plain = *headers;
            if let RoceIp::V4(ip) = &mut plain.ip {
                ip.identification = 0;
            }
            *begun = Some(Begun {
                headers: *headers,
                icrc: plain.icrc(len).ok()?,
                length: length_of(&mut self.lengths, len)?.clone(),
            });
        }
        Some(AlikeIcrc {
            begun: begun.as_ref()?,
        })
    }

    /// The same of packets whose payloads' CRCs are known. None for a length that no packet has.
    pub fn summed(&mut self, headers: &RoceHeaders, len: usize) -> Option<SummedIcrc<'_>> {
        let bytes = len.checked_sub(Bth::LEN)?;
        if self
            .beyond
            .as_ref()
            .is_none_or(|known| known.payload != bytes)
        {
            self.beyond = Some(Beyond::new(bytes)?);
        }
        self.alike(headers, len)?;
        let begun = &self.begun[place(len, headers.source_port, BEGUN)];
        Some(SummedIcrc {
            begun: begun.as_ref()?,
            beyond: self.beyond.as_ref()?,
            common: None,
        })
    }

    /// What a length alone decides. None for one that no packet has.
    #[inline]
    fn length(&mut self, len: usize) -> Option<&Length> {
        length_of(&mut self.lengths, len)
    }
}

/// Bytes below which a packet has no payload to speak of: acknowledgements and notices.
const SHORT: usize = 32;

/// Where to remember a length that came with a port: one of `places`, a power of two. Half of them are for short packets alone: acknowledgements come between packets
/// of any length, and never take their places.
#[inline]
fn place(len: usize, port: u16, places: usize) -> usize {
    // 2^32 by the golden ratio: what differs a little comes to lie far apart
    const SPREAD: u32 = 0x9e37_79b9;
    let mixed = ((len as u32 / 4) ^ (u32::from(port) << 16)).wrapping_mul(SPREAD);
    let half = places / 2;
    let spread = (mixed >> (u32::BITS - half.trailing_zeros())) as usize;
    if len < SHORT { spread } else { half + spread }
}

/// What a length decides, computed if it is not known.
#[inline]
fn length_of(lengths: &mut [Option<Length>; LENGTHS], len: usize) -> Option<&Length> {
    let length = &mut lengths[place(len, 0, LENGTHS)];
    if length
        .as_ref()
        .is_none_or(|known| known.transport_len != len)
    {
        *length = Length::new(len);
    }
    length.as_ref()
}

/// The ICRCs of transport packets of one length under the same headers.
#[derive(Clone, Copy, Debug)]
pub struct AlikeIcrc<'a> {
    begun: &'a Begun,
}

/// The same of packets that are a BTH and payload whose CRC is known. The packets of a run differ in the BTH's last word, which has their number, so what comes before it
/// is summed once.
#[derive(Clone, Debug)]
pub struct SummedIcrc<'a> {
    begun: &'a Begun,
    beyond: &'a Beyond,
    common: Option<Common>,
}

/// A BTH up to its last word.
type Front = [u8; Bth::LEN - size_of::<u32>()];

/// What the packets before had in common.
#[derive(Clone, Copy, Debug)]
struct Common {
    front: Front,
    /// The CRC after it, and what masking it adds to an ICRC.
    crc: u32,
    masked: u32,
}

impl SummedIcrc<'_> {
    /// The ICRC of a packet of this header, whose IPv4 identification is `identification`; `crc` is the CRC-32 of its payload.
    #[inline]
    pub fn icrc(&mut self, identification: u16, header: &[u8; Bth::LEN], crc: u32) -> u32 {
        let (front, word) = header.split_first_chunk().expect("a BTH is longer");
        let word = u32::from_le_bytes(word.try_into().expect("what is left of a BTH"));
        let common = match self.common {
            Some(common) if common.front == *front => common,
            _ => self.begin(front),
        };
        let zero = self.beyond.of(common.crc, word) ^ common.masked ^ crc;
        match self.begun.headers.ip {
            RoceIp::V4(_) => zero ^ self.begun.length.number(identification),
            RoceIp::V6(_) => zero,
        }
    }

    /// Packets of another front follow.
    fn begin(&mut self, front: &Front) -> Common {
        let mut icrc = self.begun.icrc.clone();
        icrc.payload(front);
        let common = Common {
            front: *front,
            crc: icrc.finish(),
            masked: self.begun.length.mask(front[MASKED_AT]),
        };
        self.common = Some(common);
        common
    }
}

impl AlikeIcrc<'_> {
    /// The ICRC of a transport packet whose IPv4 identification is `identification`. None for one of another length.
    #[inline]
    pub fn icrc(&self, identification: u16, transport: &[u8]) -> Option<u32> {
        let zero = self.with_zero(transport)?;
        match self.begun.headers.ip {
            RoceIp::V4(_) => Some(zero ^ self.begun.length.number(identification)),
            RoceIp::V6(_) => Some(zero),
        }
    }

    /// As [`RunIcrc::check`].
    ///
    /// # Errors
    /// Another length, a wrong ICRC.
    #[inline]
    pub fn check<'a>(
        &self,
        likely: u16,
        datagram: &'a [u8],
    ) -> Result<(&'a [u8], u16), ParseError> {
        let (got, at) = trailer::<U32>(datagram, "ICRC")?;
        let transport = &datagram[..at];
        self.check_parts(likely, transport, got.get())
            .map(|id| (transport, id))
    }

    /// The identification with which the ICRC is right.
    fn check_parts(&self, likely: u16, transport: &[u8], got: u32) -> Result<u16, ParseError> {
        let expected = self.with_zero(transport).ok_or(ParseError::Length {
            field: "transport packet",
            expected: self.begun.length.transport_len,
            got: transport.len(),
        })?;
        let length = &self.begun.length;
        let identification = match self.begun.headers.ip {
            RoceIp::V6(_) => (expected == got).then_some(0),
            RoceIp::V4(_) if expected ^ length.number(likely) == got => Some(likely),
            RoceIp::V4(_) => length.rewind.identification(expected, got),
        };
        identification.ok_or(ParseError::Icrc { expected, got })
    }

    /// The ICRC with identification 0.
    #[inline]
    fn with_zero(&self, transport: &[u8]) -> Option<u32> {
        let length = &self.begun.length;
        if transport.len() != length.transport_len {
            return None;
        }
        let mut icrc = self.begun.icrc.clone();
        icrc.payload(transport);
        Some(icrc.finish() ^ length.mask(transport[MASKED_AT]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is between two halves of a conversation is looked up anew each time if it takes the other's place: 3,400 instructions a packet, measured.
    #[test]
    fn acknowledgements_never_take_the_place_of_data() {
        for port in (0xc000..=u16::MAX).step_by(97) {
            for (short, long) in (12..SHORT).flat_map(|s| (SHORT..9000).map(move |l| (s, l))) {
                for places in [BEGUN, LENGTHS] {
                    let (ack, data) = (place(short, port, places), place(long, port, places));
                    assert!(ack < places && data < places && ack != data);
                }
            }
            if port > 0xc100 {
                break;
            }
        }
    }

    #[test]
    fn a_packet_whose_payload_is_summed_has_the_icrc_that_it_has_as_a_whole() {
        let (from, to) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let (from6, to6) = (std::net::Ipv6Addr::LOCALHOST, [7; 16].into());
        let mut runs = RunIcrc::new();
        for mtu in [256, 512, 1024, 2048, 4096, 256, 0, 7] {
            for ip in [RoceIp::v4(from, to, 0), RoceIp::v6(from6, to6)] {
                let headers = RoceHeaders {
                    ip,
                    source_port: 0xc123,
                };
                for number in [0_u16, 1, 0x1234, u16::MAX] {
                    let packet: Vec<u8> = (0..(Bth::LEN + mtu) as u32)
                        .map(|at| (at * at / 3 + u32::from(number)) as u8)
                        .collect();
                    let (header, payload) = packet.split_first_chunk().expect("a header");
                    let whole = runs.icrc(&headers, number, &packet).expect("a length");
                    let mut crc = ferriband_crc::Crc32::new();
                    crc.update(payload);
                    let crc = crc.finish();
                    let mut other = *header;
                    (other[1], other[4]) = (!other[1], !other[4]);
                    let mut next = *header;
                    next[9..].copy_from_slice(&[7, 8, 9]);
                    let expected = [&next, &other, &next].map(|header| {
                        let packet = [header.as_slice(), payload].concat();
                        runs.icrc(&headers, number, &packet).expect("a length")
                    });
                    let mut summed = runs.summed(&headers, packet.len()).expect("a length");
                    assert_eq!(summed.icrc(number, header, crc), whole, "{mtu} {number}");
                    // with what is known of the one before, and with another front
                    let found = [&next, &other, &next].map(|head| summed.icrc(number, head, crc));
                    assert_eq!(found, expected, "{mtu} {number}");
                }
            }
        }
        let headers = RoceHeaders {
            ip: RoceIp::v4(from, to, 0),
            source_port: 1,
        };
        assert!(runs.summed(&headers, Bth::LEN - 1).is_none());
    }

    #[test]
    fn a_request_of_one_full_packet_and_those_of_more_have_places_of_their_own() {
        // SEND or middle, with immediate data or as a READ's first, WRITE's first, with immediate data: of each MTU
        for mtu in [256, 512, 1024, 2048, 4096] {
            let mut found = [12, 16, 28, 32].map(|headers| place(mtu + headers, 0, LENGTHS));
            found.sort_unstable();
            assert!(
                found.windows(2).all(|two| two[0] != two[1]),
                "{mtu}: {found:?}"
            );
        }
    }
}
