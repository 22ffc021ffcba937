//! A RoCEv2 packet: IPv4 or IPv6, UDP to port 4791, transport, ICRC (IBA annex A17). For captures, for the ICRC of a
//! sender and receiver that use UDP sockets, and for peers that are simulated whole. No sockets here.

use crate::error::{EmitError, ParseError};
use crate::grh::{Grh, NextHeader};
use crate::header::{Header, put};
use crate::icrc::{Icrc, Rewind};
use crate::ip::{Checksum, ETHER_TYPE_IPV4, ETHER_TYPE_IPV6, Ecn, Ethernet, Ipv4, Udp};
use crate::native::{ICRC_LEN, trailer};
use crate::packet::Packet;
use std::net::{Ipv4Addr, Ipv6Addr};
use zerocopy::byteorder::little_endian::U32;

/// The network header of a RoCEv2 packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RoceIp {
    /// IPv4.
    V4(Ipv4),
    /// IPv6: a GRH by layout, whose GIDs are the addresses.
    V6(Grh),
}

impl RoceIp {
    /// Bytes on the wire.
    pub const fn wire_len(&self) -> usize {
        match self {
            RoceIp::V4(_) => Ipv4::LEN,
            RoceIp::V6(_) => Grh::LEN,
        }
    }

    /// EtherType of the frame that carries it.
    pub const fn ether_type(&self) -> u16 {
        match self {
            RoceIp::V4(_) => ETHER_TYPE_IPV4,
            RoceIp::V6(_) => ETHER_TYPE_IPV6,
        }
    }

    /// The header of a datagram from one address to another with the values that a UDP socket of the Linux kernel
    /// gives it: hop limit 64 and, in IPv4, DF and the identification `identification`.
    pub const fn v4(source: Ipv4Addr, destination: Ipv4Addr, identification: u16) -> Self {
        RoceIp::V4(Ipv4 {
            tos: 0,
            identification,
            dont_fragment: true,
            ttl: 64,
            source,
            destination,
        })
    }

    /// As `v4`, for IPv6.
    pub const fn v6(source: Ipv6Addr, destination: Ipv6Addr) -> Self {
        RoceIp::V6(Grh {
            traffic_class: 0,
            flow_label: 0,
            hop_limit: 64,
            sgid: crate::Gid(source.octets()),
            dgid: crate::Gid(destination.octets()),
        })
    }

    /// DSCP and ECN: IPv4's TOS, IPv6's traffic class.
    pub const fn traffic_class(&self) -> u8 {
        match self {
            RoceIp::V4(ip) => ip.tos,
            RoceIp::V6(ip) => ip.traffic_class,
        }
    }

    /// The same header with another DSCP and ECN.
    pub const fn with_traffic_class(mut self, traffic_class: u8) -> Self {
        match &mut self {
            RoceIp::V4(ip) => ip.tos = traffic_class,
            RoceIp::V6(ip) => ip.traffic_class = traffic_class,
        }
        self
    }

    /// The congestion bits.
    pub const fn ecn(&self) -> Ecn {
        Ecn::of(self.traffic_class())
    }

    /// The same header with other congestion bits. The ICRC stays right, for it does not cover them.
    pub const fn with_ecn(self, ecn: Ecn) -> Self {
        self.with_traffic_class(ecn.put(self.traffic_class()))
    }

    /// Reads an IPv4 or IPv6 header, whichever the version nibble says; returns it, its payload length and what
    /// follows.
    fn parse(bytes: &[u8]) -> Result<(Self, usize, &[u8]), ParseError> {
        match bytes.first().map(|first| first >> 4) {
            Some(6) => Grh::parse(bytes, NextHeader::Udp)
                .map(|(ip, len, rest)| (RoceIp::V6(ip), len, rest)),
            _ => Ipv4::parse(bytes).map(|(ip, len, rest)| (RoceIp::V4(ip), len, rest)),
        }
    }

    fn emit<'a>(&self, payload_len: usize, out: &'a mut [u8]) -> Result<&'a mut [u8], EmitError> {
        match self {
            RoceIp::V4(ip) => ip.emit(payload_len, out),
            RoceIp::V6(ip) => ip.emit(NextHeader::Udp, payload_len, out),
        }
    }

    /// The UDP checksum of `udp` (header with checksum 0, and data); never 0, which would mean none.
    fn udp_checksum(&self, udp: &[u8]) -> u16 {
        let sum = match self {
            RoceIp::V4(ip) => Checksum::default()
                .add_pseudo_header(&ip.source.octets(), udp.len())
                .add(&ip.destination.octets()),
            RoceIp::V6(ip) => Checksum::default()
                .add_pseudo_header(&ip.sgid.0, udp.len())
                .add(&ip.dgid.0),
        };
        match sum.add(udp).finish() {
            0 => u16::MAX,
            checksum => checksum,
        }
    }
}

/// The headers below a RoCEv2 transport packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoceHeaders {
    /// Network header.
    pub ip: RoceIp,
    /// UDP source port.
    pub source_port: u16,
}

/// Longest IP and UDP headers.
const MAX_HEADERS: usize = Grh::LEN + Udp::LEN;

impl RoceHeaders {
    /// Bytes on the wire: IP and UDP.
    pub const fn wire_len(&self) -> usize {
        self.ip.wire_len() + Udp::LEN
    }

    /// Begins the ICRC of a transport packet of `transport_len` bytes (BTH to pad) under these headers.
    pub fn icrc(&self, transport_len: usize) -> Result<Icrc, EmitError> {
        let mut headers = [0; MAX_HEADERS];
        self.emit(transport_len + ICRC_LEN, &mut headers)?;
        let begun = match self.ip {
            RoceIp::V4(_) => Icrc::roce_v4(&headers),
            RoceIp::V6(_) => Icrc::roce_v6(&headers),
        };
        Ok(begun.expect("the headers were just written").0)
    }

    /// Writes IP and UDP headers, the UDP checksum among them, and a datagram as it is (BTH to ICRC) to the start of `out`; returns the
    /// headers' length. `whole_len` is the datagram's length if `datagram` is only its beginning: then there is no checksum.
    ///
    /// # Errors
    /// `BufferTooSmall`; a length that a datagram cannot have.
    pub fn emit_datagram(
        &self,
        datagram: &[u8],
        whole_len: usize,
        out: &mut [u8],
    ) -> Result<usize, EmitError> {
        let at = self.wire_len();
        let (needed, got) = (at + datagram.len(), out.len());
        let out = out
            .get_mut(..needed)
            .ok_or(EmitError::BufferTooSmall { needed, got })?;
        self.emit(whole_len, out)?;
        out[at..].copy_from_slice(datagram);
        if whole_len == datagram.len() {
            let udp_bytes = &mut out[self.ip.wire_len()..];
            let checksum = self.ip.udp_checksum(udp_bytes);
            Udp {
                source_port: self.source_port,
                checksum,
            }
            .emit(whole_len, udp_bytes)?;
        }
        Ok(at)
    }

    /// Writes IP and UDP headers, UDP checksum 0, of a datagram of `payload_len` bytes.
    fn emit<'a>(&self, payload_len: usize, out: &'a mut [u8]) -> Result<&'a mut [u8], EmitError> {
        let rest = self.ip.emit(payload_len.saturating_add(Udp::LEN), out)?;
        Udp {
            source_port: self.source_port,
            checksum: 0,
        }
        .emit(payload_len, rest)
    }
}

/// Checks the ICRC of a UDP datagram's payload (BTH to ICRC) that came under `headers`, of which an IPv4
/// identification need not be known (it is not looked at), because a UDP socket does not show it. Returns the
/// transport packet's bytes, without the ICRC, and the identification (0 for IPv6).
pub fn check_datagram<'a>(
    headers: &RoceHeaders,
    datagram: &'a [u8],
) -> Result<(&'a [u8], u16), ParseError> {
    let (got, at) = trailer::<U32>(datagram, "ICRC")?;
    let (transport, got) = (&datagram[..at], got.get());
    let mut headers = *headers;
    if let RoceIp::V4(ip) = &mut headers.ip {
        ip.identification = 0;
    }
    let too_long = ParseError::Length {
        field: "UDP length",
        expected: 0xffff,
        got: datagram.len(),
    };
    let expected = headers
        .icrc(transport.len())
        .map_err(|_| too_long)?
        .finish_with(transport);
    let identification = match headers.ip {
        RoceIp::V6(_) => (expected == got).then_some(0),
        // From the identification (the header's fifth byte) to before the ICRC.
        RoceIp::V4(_) => Rewind::new(headers.wire_len() - IDENTIFICATION_AT + transport.len())
            .and_then(|rewind| rewind.identification(expected, got)),
    };
    identification
        .map(|id| (transport, id))
        .ok_or(ParseError::Icrc { expected, got })
}

/// Bytes of an IPv4 header before its identification: version, TOS, total length.
pub(crate) const IDENTIFICATION_AT: usize = 4;

/// A RoCEv2 packet from the IP header on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RocePacket<'a> {
    /// IP and UDP.
    pub headers: RoceHeaders,
    /// Whether the UDP checksum is present; the kernel's rxe and adapters send none.
    pub udp_checksum: bool,
    /// Transport packet.
    pub packet: Packet<'a>,
}

impl<'a> RocePacket<'a> {
    /// Bytes from IP header to ICRC.
    pub const fn wire_len(&self) -> usize {
        self.headers.wire_len() + self.packet.wire_len() + ICRC_LEN
    }

    /// Reads an Ethernet frame.
    pub fn parse_ethernet(frame: &'a [u8]) -> Result<(Ethernet, Self), ParseError> {
        let (ethernet, rest) = Ethernet::parse(frame)?;
        match ethernet.ether_type {
            ETHER_TYPE_IPV4 | ETHER_TYPE_IPV6 => Ok((ethernet, Self::parse(rest)?)),
            other => Err(ParseError::EtherType(other)),
        }
    }

    /// Reads a packet from its IP header on, and checks IPv4 and UDP checksums (if present) and ICRC. Bytes beyond
    /// the IP length (Ethernet's padding of short frames) are ignored.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (ip, ip_payload, udp_bytes) = RoceIp::parse(bytes)?;
        let length = |field, expected, got| ParseError::Length {
            field,
            expected,
            got,
        };
        let udp_bytes =
            udp_bytes
                .get(..ip_payload)
                .ok_or(length("IP length", ip_payload, udp_bytes.len()))?;
        let (udp, udp_payload, datagram) = Udp::parse(udp_bytes)?;
        if udp_payload != datagram.len() {
            return Err(length("UDP length", udp_payload, datagram.len()));
        }
        // Over a right checksum the sum comes out as zero, which `udp_checksum` gives as ones.
        if udp.checksum != 0 && ip.udp_checksum(udp_bytes) != u16::MAX {
            return Err(ParseError::Checksum("UDP"));
        }
        let headers = RoceHeaders {
            ip,
            source_port: udp.source_port,
        };
        let (got, at) = trailer::<U32>(datagram, "ICRC")?;
        let transport = &datagram[..at];
        // Over the bytes as they came: reserved bits count. Before the transport headers mean anything.
        let (icrc, _) = match ip {
            RoceIp::V4(_) => Icrc::roce_v4(bytes)?,
            RoceIp::V6(_) => Icrc::roce_v6(bytes)?,
        };
        let (expected, got) = (icrc.finish_with(transport), got.get());
        if expected != got {
            return Err(ParseError::Icrc { expected, got });
        }
        let packet = Packet::parse(transport)?;
        Ok(RocePacket {
            headers,
            udp_checksum: udp.checksum != 0,
            packet,
        })
    }

    /// Writes the packet with its lengths, checksums and ICRC to the start of `out`; returns its length.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, EmitError> {
        let (needed, got) = (self.wire_len(), out.len());
        let out = out
            .get_mut(..needed)
            .ok_or(EmitError::BufferTooSmall { needed, got })?;
        let transport_len = self.packet.wire_len();
        let rest = self.headers.emit(transport_len + ICRC_LEN, out)?;
        let (transport, trailer) = rest.split_at_mut(transport_len);
        self.packet.emit(transport)?;
        let icrc = self.headers.icrc(transport_len)?.finish_with(transport);
        put(&U32::new(icrc), trailer)?;
        if self.udp_checksum {
            let udp_bytes = &mut out[self.headers.ip.wire_len()..];
            let checksum = self.headers.ip.udp_checksum(udp_bytes);
            Udp {
                source_port: self.headers.source_port,
                checksum,
            }
            .emit(transport_len + ICRC_LEN, udp_bytes)?;
        }
        Ok(needed)
    }
}
