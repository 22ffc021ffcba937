//! What carries RoCEv2: Ethernet, IPv4 and UDP headers (IPv6's is the GRH's layout), as far as captures and the ICRC
//! need them. No sockets, no addresses of this machine.

use crate::error::{EmitError, ParseError};
use crate::header::{Header, fits, prefix, put};
use std::net::Ipv4Addr;
use zerocopy::byteorder::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// UDP port of RoCEv2 (IBA annex A17).
pub const ROCE_PORT: u16 = 4791;

/// The Ethernet header as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct EthernetWire {
    destination: [u8; 6],
    source: [u8; 6],
    ether_type: U16,
}

/// Ethernet header, 14 bytes; no VLAN tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ethernet {
    /// Destination address.
    pub destination: [u8; 6],
    /// Source address.
    pub source: [u8; 6],
    /// What follows: `ETHER_TYPE_IPV4`, `ETHER_TYPE_IPV6` or another.
    pub ether_type: u16,
}

/// EtherType of IPv4.
pub const ETHER_TYPE_IPV4: u16 = 0x0800;
/// EtherType of IPv6.
pub const ETHER_TYPE_IPV6: u16 = 0x86dd;

impl Header for Ethernet {
    type Wire = EthernetWire;
    const NAME: &'static str = "Ethernet header";

    fn from_wire(wire: &EthernetWire) -> Result<Self, ParseError> {
        Ok(Ethernet {
            destination: wire.destination,
            source: wire.source,
            ether_type: wire.ether_type.get(),
        })
    }

    fn to_wire(&self) -> Result<EthernetWire, EmitError> {
        Ok(EthernetWire {
            destination: self.destination,
            source: self.source,
            ether_type: U16::new(self.ether_type),
        })
    }
}

/// The IPv4 header as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Ipv4Wire {
    /// Version:4 IHL:4.
    version: u8,
    tos: u8,
    total_length: U16,
    identification: U16,
    /// reserved:1 DF:1 MF:1 offset:13.
    fragment: U16,
    ttl: u8,
    protocol: u8,
    checksum: U16,
    source: [u8; 4],
    destination: [u8; 4],
}

const PROTOCOL_UDP: u8 = 17;
const VERSION_IHL: u8 = 0x45;
const DONT_FRAGMENT: u16 = 1 << 14;

impl Ipv4Wire {
    /// The same header with the ICRC's variant fields set to ones: TOS, TTL, checksum (IBA annex A17).
    pub(crate) fn masked(mut self) -> Self {
        self.tos = 0xff;
        self.ttl = 0xff;
        self.checksum = U16::MAX_VALUE;
        self
    }
}

/// IPv4 header of a UDP datagram, 20 bytes: no options, not a fragment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv4 {
    /// Type of service: DSCP and ECN.
    pub tos: u8,
    /// Identification; the ICRC covers it.
    pub identification: u16,
    /// DF.
    pub dont_fragment: bool,
    /// Time to live.
    pub ttl: u8,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
}

impl Ipv4 {
    /// Bytes on the wire.
    pub const LEN: usize = size_of::<Ipv4Wire>();

    /// Reads the header and verifies its checksum; returns it, the bytes that its total length leaves after it, and
    /// what follows.
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize, &[u8]), ParseError> {
        let (wire, rest) = prefix::<Ipv4Wire>(bytes, "IPv4 header")?;
        match (wire.version >> 4, wire.version & 0xf) {
            (4, 5) => {}
            (4, words) => return Err(ParseError::Ipv4Options(words)),
            (got, _) => return Err(ParseError::IpVersion { expected: 4, got }),
        }
        if wire.protocol != PROTOCOL_UDP {
            return Err(ParseError::NextHeader {
                expected: PROTOCOL_UDP,
                got: wire.protocol,
            });
        }
        if Checksum::default().add(wire.as_bytes()).finish() != 0 {
            return Err(ParseError::Checksum("IPv4"));
        }
        if wire.fragment.get() & !DONT_FRAGMENT != 0 {
            return Err(ParseError::Ipv4Fragment);
        }
        let total: usize = wire.total_length.get().into();
        let payload_len = total.checked_sub(Self::LEN).ok_or(ParseError::Length {
            field: "IPv4 total length",
            expected: total,
            got: bytes.len(),
        })?;
        let ip = Ipv4 {
            tos: wire.tos,
            identification: wire.identification.get(),
            dont_fragment: wire.fragment.get() & DONT_FRAGMENT != 0,
            ttl: wire.ttl,
            source: wire.source.into(),
            destination: wire.destination.into(),
        };
        Ok((ip, payload_len, rest))
    }

    /// Writes the header before `payload_len` bytes, with its checksum; returns what follows.
    pub fn emit<'a>(
        &self,
        payload_len: usize,
        out: &'a mut [u8],
    ) -> Result<&'a mut [u8], EmitError> {
        let total = u32::try_from(payload_len.saturating_add(Self::LEN)).unwrap_or(u32::MAX);
        let mut wire = Ipv4Wire {
            version: VERSION_IHL,
            tos: self.tos,
            // Sixteen bits: the conversion loses nothing.
            total_length: U16::new(fits("IPv4 total length", total, 16)? as u16),
            identification: U16::new(self.identification),
            fragment: U16::new(if self.dont_fragment { DONT_FRAGMENT } else { 0 }),
            ttl: self.ttl,
            protocol: PROTOCOL_UDP,
            checksum: U16::ZERO,
            source: self.source.octets(),
            destination: self.destination.octets(),
        };
        wire.checksum = U16::new(Checksum::default().add(wire.as_bytes()).finish());
        put(&wire, out)
    }
}

/// Explicit congestion notification: the low two bits of IPv4's TOS and of IPv6's traffic class (RFC 3168). RoCEv2
/// senders say ECT, a congested switch makes it CE, and the receiver answers with a CNP (IBA annex A17).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable: a congested switch drops instead of marking.
    NotEct = 0,
    /// ECN-capable, the second of the two codes.
    Ect1 = 1,
    /// ECN-capable, the usual code.
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    const MASK: u8 = 0b11;

    /// The two bits of a TOS or traffic class.
    pub const fn of(traffic_class: u8) -> Self {
        match traffic_class & Self::MASK {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// `traffic_class` with these two bits; its DSCP stays.
    pub const fn put(self, traffic_class: u8) -> u8 {
        traffic_class & !Self::MASK | self as u8
    }
}

/// The UDP header as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct UdpWire {
    source: U16,
    destination: U16,
    length: U16,
    checksum: U16,
}

impl UdpWire {
    /// The same header with the ICRC's variant field set to ones: the checksum (IBA annex A17).
    pub(crate) const fn masked(mut self) -> Self {
        self.checksum = U16::MAX_VALUE;
        self
    }
}

/// UDP header, 8 bytes, addressed to the RoCEv2 port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Udp {
    /// Source port: entropy for routing, nothing else.
    pub source_port: u16,
    /// The checksum; 0 for none.
    pub checksum: u16,
}

impl Udp {
    /// Bytes on the wire.
    pub const LEN: usize = size_of::<UdpWire>();

    /// Reads the header; returns it, the bytes that its length leaves after it, and what follows.
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize, &[u8]), ParseError> {
        let (wire, rest) = prefix::<UdpWire>(bytes, "UDP header")?;
        if wire.destination.get() != ROCE_PORT {
            return Err(ParseError::UdpPort(wire.destination.get()));
        }
        let length: usize = wire.length.get().into();
        let payload_len = length.checked_sub(Self::LEN).ok_or(ParseError::Length {
            field: "UDP length",
            expected: length,
            got: bytes.len(),
        })?;
        Ok((
            Udp {
                source_port: wire.source.get(),
                checksum: wire.checksum.get(),
            },
            payload_len,
            rest,
        ))
    }

    /// Writes the header before `payload_len` bytes; returns what follows.
    pub fn emit<'a>(
        &self,
        payload_len: usize,
        out: &'a mut [u8],
    ) -> Result<&'a mut [u8], EmitError> {
        let length = u32::try_from(payload_len.saturating_add(Self::LEN)).unwrap_or(u32::MAX);
        let wire = UdpWire {
            source: U16::new(self.source_port),
            destination: U16::new(ROCE_PORT),
            // Sixteen bits: the conversion loses nothing.
            length: U16::new(fits("UDP length", length, 16)? as u16),
            checksum: U16::new(self.checksum),
        };
        put(&wire, out)
    }
}

/// The Internet checksum (RFC 1071) over pieces of even length, the last excepted.
#[derive(Clone, Copy, Default)]
pub(crate) struct Checksum(u64);

impl Checksum {
    /// Adds a piece.
    pub(crate) fn add(mut self, bytes: &[u8]) -> Self {
        let mut pairs = bytes.chunks_exact(2);
        for pair in pairs.by_ref() {
            self.0 += u64::from(u16::from_be_bytes([pair[0], pair[1]]));
        }
        if let [last] = pairs.remainder() {
            self.0 += u64::from(u16::from_be_bytes([*last, 0]));
        }
        self
    }

    /// Adds the UDP pseudo-header; `addresses` are source and destination, `udp_len` the UDP length.
    pub(crate) fn add_pseudo_header(self, addresses: &[u8], udp_len: usize) -> Self {
        let sum = self.add(addresses);
        Checksum(sum.0 + u64::from(PROTOCOL_UDP) + udp_len as u64)
    }

    /// The checksum: 0 when computed over data that contain a right one.
    pub(crate) fn finish(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        // At most 16 bits by now.
        !(sum as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_of_rfc_1071() {
        // The numerical example of RFC 1071 section 3: the sum is ddf2.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Checksum::default().add(&bytes).finish(), !0xddf2);
    }

    #[test]
    fn ecn_is_the_low_two_bits() {
        for class in 0..=u8::MAX {
            assert_eq!(Ecn::of(class).put(class), class);
            assert_eq!(Ecn::Ce.put(class), class | 3);
            assert_eq!(Ecn::NotEct.put(class) >> 2, class >> 2);
        }
        assert_eq!(Ecn::of(0b1010_1010), Ecn::Ect0);
    }

    #[test]
    fn options_and_fragments_are_named() {
        let ip = Ipv4 {
            tos: 0,
            identification: 7,
            dont_fragment: true,
            ttl: 64,
            source: Ipv4Addr::new(10, 0, 0, 1),
            destination: Ipv4Addr::new(10, 0, 0, 2),
        };
        let mut out = [0; 24];
        ip.emit(4, &mut out).expect("fits");
        assert_eq!(Ipv4::parse(&out).map(|(ip, len, _)| (ip, len)), Ok((ip, 4)));
        out[0] = 0x46;
        assert_eq!(Ipv4::parse(&out), Err(ParseError::Ipv4Options(6)));
        out[0] = 0x65;
        assert_eq!(
            Ipv4::parse(&out),
            Err(ParseError::IpVersion {
                expected: 4,
                got: 6
            })
        );
        out[0] = 0x45;
        out[8] = 63;
        assert_eq!(Ipv4::parse(&out), Err(ParseError::Checksum("IPv4")));
        // More-fragments set instead of DF, with the checksum moved along: 0x4000 -> 0x2000.
        ip.emit(4, &mut out).expect("fits");
        out[6] = 0x20;
        let sum = Checksum::default()
            .add(&out[..10])
            .add(&out[12..20])
            .finish();
        out[10..12].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(Ipv4::parse(&out), Err(ParseError::Ipv4Fragment));
    }
}
