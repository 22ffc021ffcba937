//! Invariant CRC (IBA 7.8.1; RoCEv2: annex A17): CRC-32 with Ethernet's polynomial over what no switch or router
//! may change, with what they may change set to ones. It travels low byte first.
//!
//! Native, local: LRH with VL masked, then the transport packet. Native with GRH: eight bytes of ones for the LRH, the
//! GRH with traffic class, flow label and hop limit masked, then the packet; that a router's LRH is out of it is
//! seen in captures of real adapters. RoCEv2: eight bytes of ones, the IP header with its variant fields masked, the UDP header
//! with its checksum masked, then the packet. In all of them the BTH's resv8a (FECN, BECN) is masked.

use crate::bth::BthWire;
use crate::error::ParseError;
use crate::grh::GrhWire;
use crate::header::prefix;
use crate::ip::{Ipv4Wire, UdpWire};
use crate::lrh::{LinkNext, LrhWire};
use ferriband_crc::Crc32;
use zerocopy::{FromBytes, IntoBytes};

/// An ICRC in the making, for a sender that copies the payload in pieces. Feed the headers once, then the payload
/// and pad.
#[derive(Clone, Debug)]
pub struct Icrc(Crc32);

impl Icrc {
    /// Begins with the link and network headers of a native packet: `bytes` start at the LRH. Returns what follows
    /// them, which starts at the BTH.
    pub fn native(bytes: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let mut hasher = Crc32::new();
        let (lrh, mut rest) = prefix::<LrhWire>(bytes, "LRH")?;
        match lrh.next() {
            LinkNext::Transport => hasher.update(lrh.masked().as_bytes()),
            LinkNext::Global => {
                let (grh, transport) = prefix::<GrhWire>(rest, "GRH")?;
                hasher.update(&LrhWire::ONES);
                hasher.update(grh.masked().as_bytes());
                rest = transport;
            }
            raw => return Err(ParseError::RawPacket(raw as u8)),
        }
        Ok((Icrc(hasher), rest))
    }

    /// Begins with the IPv4 and UDP headers of a RoCEv2 packet: `bytes` start at the IPv4 header. Returns what
    /// follows them, which starts at the BTH.
    pub fn roce_v4(bytes: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let (ip, rest) = prefix::<Ipv4Wire>(bytes, "IPv4 header")?;
        Self::roce(ip.masked().as_bytes(), rest)
    }

    /// Begins with the IPv6 and UDP headers of a RoCEv2 packet: `bytes` start at the IPv6 header. Returns what
    /// follows them, which starts at the BTH.
    pub fn roce_v6(bytes: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let (ip, rest) = prefix::<GrhWire>(bytes, "IPv6 header")?;
        Self::roce(ip.masked().as_bytes(), rest)
    }

    fn roce<'a>(masked_ip: &[u8], rest: &'a [u8]) -> Result<(Self, &'a [u8]), ParseError> {
        let (udp, rest) = prefix::<UdpWire>(rest, "UDP header")?;
        let mut hasher = Crc32::new();
        hasher.update(&LrhWire::ONES);
        hasher.update(masked_ip);
        hasher.update(udp.masked().as_bytes());
        Ok((Icrc(hasher), rest))
    }

    /// Adds the start of the transport packet: the whole BTH at least.
    #[inline]
    pub fn headers(&mut self, bytes: &[u8]) {
        match BthWire::ref_from_prefix(bytes) {
            Ok((bth, rest)) => {
                self.0.update(bth.masked().as_bytes());
                self.0.update(rest);
            }
            // Less than a BTH is no packet, and no parser takes it for one; the CRC of the bytes is as good as any.
            Err(_) => self.0.update(bytes),
        }
    }

    /// Adds payload or pad.
    pub fn payload(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The ICRC. `to_le_bytes()` is what follows the packet on the wire.
    pub fn finish(self) -> u32 {
        self.0.finish()
    }

    /// Adds a whole transport packet (BTH to pad) and ends.
    #[inline]
    pub fn finish_with(mut self, transport: &[u8]) -> u32 {
        self.headers(transport);
        self.finish()
    }
}

/// Undoes what `n` message bytes do to the difference of two CRCs: multiplies by x^-8n modulo the polynomial. The
/// factor depends on the length alone, so a receiver may keep it for the few lengths that it sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rewind(u32);

/// The CRC-32 polynomial with x^31 in bit 0, as reflected CRCs have it.
const POLYNOMIAL: u32 = 0x04c1_1db7_u32.reverse_bits();

/// The polynomial 1 in that order of bits.
const ONE: u32 = 1 << 31;

/// a * b modulo the polynomial.
pub(crate) const fn multiply(a: u32, mut b: u32) -> u32 {
    let (mut product, mut bit) = (0, ONE);
    while bit != 0 {
        if a & bit != 0 {
            product ^= b;
        }
        b = times_x(b);
        bit >>= 1;
    }
    product
}

/// b * x modulo the polynomial.
pub(crate) const fn times_x(b: u32) -> u32 {
    b >> 1 ^ if b & 1 == 1 { POLYNOMIAL } else { 0 }
}

/// The powers 2^i, i below 17, of a polynomial: bits of lengths below 2^17.
const fn powers(base: u32) -> [u32; 17] {
    let mut powers = [base; 17];
    let mut i = 1;
    while i < powers.len() {
        powers[i] = multiply(powers[i - 1], powers[i - 1]);
        i += 1;
    }
    powers
}

/// The `n`-th power of the polynomial whose powers these are; None from 2^17 on.
fn power(powers: &[u32; 17], n: usize) -> Option<u32> {
    if n >> powers.len() != 0 {
        return None;
    }
    let bits = powers.iter().enumerate().filter(|(i, _)| n >> i & 1 == 1);
    Some(bits.fold(ONE, |product, (_, power)| multiply(product, *power)))
}

/// x^8 to the power of 2^i.
static POWERS: [u32; 17] = powers(ONE >> 8);

/// What `n` message bytes do to the difference of two CRCs: the factor x^8n modulo the polynomial. None from 2^17 on, which no
/// packet has.
pub(crate) fn advance(n: usize) -> Option<u32> {
    power(&POWERS, n)
}

/// x^-8 to the power of 2^i.
static INVERSE_POWERS: [u32; 17] = {
    // x divided out once: if the constant coefficient is 1, add the polynomial first, which clears it and sets x^32.
    let mut inverse = ONE;
    let mut step = 0;
    while step < 8 {
        inverse = if inverse & ONE != 0 {
            (inverse ^ POLYNOMIAL) << 1 | 1
        } else {
            inverse << 1
        };
        step += 1;
    }
    powers(inverse)
};

impl Rewind {
    /// The factor for `n` bytes; None from 2^17 on, which no packet has.
    pub fn new(n: usize) -> Option<Self> {
        power(&INVERSE_POWERS, n).map(Rewind)
    }

    /// For RoCEv2 over IPv4, where a UDP socket does not show the identification that the ICRC covers: the
    /// identification with which a packet would have the ICRC `got`, if it has `expected` with identification 0.
    /// `self` must be for the bytes from the identification to before the ICRC: the IPv4 total length less 8.
    /// None if there is no such identification: the packet is corrupt. One corruption in 65,536 passes; the UDP
    /// checksum stands behind it.
    pub const fn identification(self, expected: u32, got: u32) -> Option<u16> {
        // Before the two bytes the registers were equal, so rewinding the difference past them leaves what was
        // added to the register's low bits: the two bytes themselves, and zeros above.
        let added = multiply(expected ^ got, self.0);
        match added.to_le_bytes() {
            [high, low, 0, 0] => Some(u16::from_be_bytes([high, low])),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Two messages that differ in two bytes, and any length after them: the difference of the CRCs rewinds to
        /// the difference of the bytes.
        #[test]
        fn rewinding_finds_the_two_bytes(
            before in proptest::collection::vec(any::<u8>(), 0..40),
            id: u16,
            after in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let crc = |id: u16| {
                let message = [&before[..], &id.to_be_bytes(), &after].concat();
                crc32fast::hash(&message)
            };
            let rewind = Rewind::new(after.len() + 2).expect("short");
            prop_assert_eq!(rewind.identification(crc(0), crc(id)), Some(id));
            // A burst of up to 16 bits elsewhere is no identification.
            if let Some(first) = after.first() {
                let mut corrupt = after.clone();
                corrupt[0] = !first;
                let message = [&before[..], &id.to_be_bytes(), &corrupt].concat();
                let found = rewind.identification(crc(0), crc32fast::hash(&message));
                prop_assert_eq!(found, None);
            }
        }
    }

    #[test]
    fn lengths_beyond_a_packet_have_no_factor() {
        assert_eq!(Rewind::new(0), Some(Rewind(ONE)));
        assert!(Rewind::new((1 << 17) - 1).is_some());
        assert_eq!(Rewind::new(1 << 17), None);
    }
}
