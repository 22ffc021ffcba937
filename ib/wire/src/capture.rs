//! A packet as an adapter hands it to somebody who captures: what the socket layer knows of it, what became of it, and its bytes
//! from the BTH to the ICRC. Owns the record's layout, which both sides read as a stranger's. Knows no rings.

use crate::error::EmitError;
use crate::grh::Grh;
use crate::ip::Ipv4;
use crate::pcapng::Direction;
use crate::roce::{RoceHeaders, RoceIp, check_datagram};
use crate::types::Qpn;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What became of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Fate {
    /// It went out, or a queue pair took it.
    Passed = 0,
    /// A fault dropped it.
    Dropped = 1,
    /// The copy that a fault made.
    Duplicated = 2,
    /// A fault held it back; this is when it went on.
    Delayed = 3,
    /// A fault let a later one overtake it; this is when it went on.
    Reordered = 4,
    /// A fault changed it.
    Corrupted = 5,
    /// The link is down, as somebody told it to be.
    LinkDown = 6,
    /// Not a packet, or its ICRC is wrong.
    Malformed = 7,
    /// There is no such queue pair.
    NoQueuePair = 8,
    /// The queue pair does not take it: from elsewhere, for another state, outside of the window.
    Refused = 9,
    /// The kernel did not take it.
    NotSent = 10,
}

impl Fate {
    const ALL: [Fate; 11] = [
        Fate::Passed,
        Fate::Dropped,
        Fate::Duplicated,
        Fate::Delayed,
        Fate::Reordered,
        Fate::Corrupted,
        Fate::LinkDown,
        Fate::Malformed,
        Fate::NoQueuePair,
        Fate::Refused,
        Fate::NotSent,
    ];

    /// From its code.
    pub fn from_code(code: u8) -> Option<Fate> {
        Fate::ALL.get(usize::from(code)).copied()
    }

    /// What is said of it; empty for a packet that simply passed.
    pub const fn text(self) -> &'static str {
        match self {
            Fate::Passed => "",
            Fate::Dropped => "dropped by a fault",
            Fate::Duplicated => "duplicated by a fault",
            Fate::Delayed => "delayed by a fault",
            Fate::Reordered => "reordered by a fault",
            Fate::Corrupted => "corrupted by a fault",
            Fate::LinkDown => "dropped, the link is down",
            Fate::Malformed => "dropped, malformed or wrong ICRC",
            Fate::NoQueuePair => "dropped, no such queue pair",
            Fate::Refused => "not taken by its queue pair",
            Fate::NotSent => "not sent, the kernel refused it",
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// Where a RoCEv2 packet came from and went to, as the socket layer says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Endpoints {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// UDP source port.
    pub source_port: u16,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Hop limit or time to live.
    pub hop_limit: u8,
    /// IPv4 identification; None if the socket layer does not say.
    pub identification: Option<u16>,
}

/// A packet and what is known of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Captured<'a> {
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// Whether it came or went.
    pub direction: Direction,
    /// What became of it.
    pub fate: Fate,
    /// The fault rule that decided it.
    pub rule: Option<u8>,
    /// The queue pair of this host that sent it; of packets that came, the destination in the BTH says it.
    pub local_qpn: Option<Qpn>,
    /// The interface by which it came or went.
    pub ifindex: u32,
    /// Addresses.
    pub ends: Endpoints,
    /// Bytes of the whole packet from BTH to ICRC.
    pub length: usize,
    /// The packet from the BTH on, as far as it was captured.
    pub bytes: &'a [u8],
}

/// The record's head as it lies in memory.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Head {
    time_ns: U64,
    direction: u8,
    fate: u8,
    /// Number + 1; 0 for none.
    rule: u8,
    /// 4 or 6.
    family: u8,
    ifindex: U32,
    /// Number + 1; 0 for none.
    local_qpn: U32,
    length: U32,
    source_port: U16,
    /// Identification, and whether it is one.
    identification: U16,
    has_identification: u8,
    traffic_class: u8,
    hop_limit: u8,
    reserved: u8,
    source: [u8; 16],
    destination: [u8; 16],
}

/// Bytes of a record before the packet's.
pub const CAPTURE_HEAD: usize = size_of::<Head>();

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

impl<'a> Captured<'a> {
    /// The head of its record; `bytes` follow.
    pub fn head(&self) -> [u8; CAPTURE_HEAD] {
        let head = Head {
            time_ns: self.time_ns.into(),
            direction: self.direction as u8,
            fate: self.fate as u8,
            rule: self.rule.map_or(0, |rule| rule.saturating_add(1)),
            family: if self.ends.source.is_ipv6() { 6 } else { 4 },
            ifindex: self.ifindex.into(),
            local_qpn: self.local_qpn.map_or(0, |qpn| qpn.0.wrapping_add(1)).into(),
            // a packet is shorter than 2^32
            length: (self.length as u32).into(),
            source_port: self.ends.source_port.into(),
            identification: self.ends.identification.unwrap_or(0).into(),
            has_identification: self.ends.identification.is_some().into(),
            traffic_class: self.ends.traffic_class,
            hop_limit: self.ends.hop_limit,
            reserved: 0,
            source: octets(self.ends.source),
            destination: octets(self.ends.destination),
        };
        let mut bytes = [0; CAPTURE_HEAD];
        bytes.copy_from_slice(head.as_bytes());
        bytes
    }

    /// Reads a record. None for one that no adapter writes.
    pub fn parse(record: &'a [u8]) -> Option<Self> {
        let (head, bytes) = Head::ref_from_prefix(record).ok()?;
        let address = |octets: [u8; 16]| {
            let v6 = Ipv6Addr::from(octets);
            match head.family {
                4 => v6.to_ipv4_mapped().map(IpAddr::V4),
                6 => Some(IpAddr::V6(v6)),
                _ => None,
            }
        };
        let direction = [Direction::Inbound, Direction::Outbound]
            .into_iter()
            .find(|direction| *direction as u8 == head.direction)?;
        let length = head.length.get() as usize;
        if length < bytes.len() {
            return None;
        }
        Some(Captured {
            time_ns: head.time_ns.get(),
            direction,
            fate: Fate::from_code(head.fate)?,
            rule: head.rule.checked_sub(1),
            local_qpn: head.local_qpn.get().checked_sub(1).map(Qpn),
            ifindex: head.ifindex.get(),
            ends: Endpoints {
                source: address(head.source)?,
                destination: address(head.destination)?,
                source_port: head.source_port.get(),
                traffic_class: head.traffic_class,
                hop_limit: head.hop_limit,
                identification: (head.has_identification != 0).then(|| head.identification.get()),
            },
            length,
            bytes,
        })
    }

    /// IP and UDP headers. An IPv4 identification that the socket layer does not say is found by the ICRC, if the packet is whole
    /// and right, and 0 else; `None` in the second place says that the ICRC is wrong or cannot be checked.
    pub fn headers(&self) -> (RoceHeaders, Option<()>) {
        let ends = &self.ends;
        let ip = match (ends.source, ends.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => RoceIp::V4(Ipv4 {
                tos: ends.traffic_class,
                identification: ends.identification.unwrap_or(0),
                dont_fragment: true,
                ttl: ends.hop_limit,
                source,
                destination,
            }),
            // both are of one family: `parse` saw to it
            (source, destination) => RoceIp::V6(Grh {
                traffic_class: ends.traffic_class,
                flow_label: 0,
                hop_limit: ends.hop_limit,
                sgid: crate::Gid(octets(source)),
                dgid: crate::Gid(octets(destination)),
            }),
        };
        let mut headers = RoceHeaders {
            ip,
            source_port: ends.source_port,
        };
        if self.bytes.len() != self.length {
            return (headers, None);
        }
        let Ok((_, found)) = check_datagram(&headers, self.bytes) else {
            return (headers, None);
        };
        match &mut headers.ip {
            RoceIp::V4(ip) if ends.identification.is_none() => ip.identification = found,
            RoceIp::V4(ip) if ip.identification != found => return (headers, None),
            _ => {}
        }
        (headers, Some(()))
    }

    /// Writes the packet from its IP header on, as it travels, to the start of `out`; returns the bytes written and those that the
    /// whole packet has.
    ///
    /// # Errors
    /// `BufferTooSmall`; lengths that a datagram cannot have.
    pub fn emit(&self, out: &mut [u8]) -> Result<(usize, usize), EmitError> {
        let (headers, _) = self.headers();
        let before = headers.emit_datagram(self.bytes, self.length, out)?;
        Ok((before + self.bytes.len(), before + self.length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Aeth, Bth, Ext, Headers, Msn, Opcode, Packet, Psn, RocePacket, Syndrome};
    use proptest::prelude::*;

    fn packet() -> Packet<'static> {
        Packet {
            headers: Headers::new(
                Bth::new(Opcode::RcAcknowledge, Qpn(0x12), Psn::new(7)),
                Ext {
                    aeth: Some(Aeth {
                        syndrome: Syndrome::from_code(0),
                        msn: Msn(3),
                    }),
                    ..Ext::default()
                },
            ),
            payload: &[],
        }
    }

    fn captured<'a>(bytes: &'a [u8], identification: Option<u16>, v6: bool) -> Captured<'a> {
        let address = |text: &str| text.parse().expect("an address");
        let (source, destination) = if v6 {
            (address("fe80::1"), address("fe80::2"))
        } else {
            (address("192.0.2.1"), address("192.0.2.2"))
        };
        Captured {
            time_ns: 5,
            direction: Direction::Inbound,
            fate: Fate::Refused,
            rule: Some(0),
            local_qpn: Some(Qpn(0)),
            ifindex: 3,
            ends: Endpoints {
                source,
                destination,
                source_port: 0xC001,
                traffic_class: 2,
                hop_limit: 64,
                identification,
            },
            length: bytes.len(),
            bytes,
        }
    }

    #[test]
    fn the_packet_is_built_up_as_it_travelled_whatever_its_identification() {
        for (v6, sent) in [(false, 0u16), (false, 41), (true, 0)] {
            let plain = captured(&[], Some(sent), v6);
            let (headers, _) = plain.headers();
            let whole = RocePacket {
                headers,
                udp_checksum: true,
                packet: packet(),
            };
            let mut expected = [0; 128];
            let len = whole.emit(&mut expected).expect("fits");
            let datagram = expected[headers.wire_len()..len].to_vec();
            for known in [Some(sent), None] {
                let came = captured(&datagram, known, v6);
                assert!(came.headers().1.is_some());
                let mut out = [0; 128];
                assert_eq!(came.emit(&mut out), Ok((len, len)));
                assert_eq!(out, expected, "v6 {v6}, identification {known:?}");
            }
            let mut wrong = datagram.clone();
            wrong[0] ^= 0x80;
            assert!(captured(&wrong, None, v6).headers().1.is_none());
        }
    }

    #[test]
    fn a_cut_packet_keeps_its_lengths() {
        let bytes = [0; 12];
        let mut cut = captured(&bytes, Some(0), false);
        cut.length = 1040;
        let mut out = [0; 128];
        assert_eq!(cut.emit(&mut out), Ok((28 + 12, 28 + 1040)));
        assert_eq!(u16::from_be_bytes([out[2], out[3]]), 28 + 1040);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(time_ns: u64, rule in proptest::option::of(0u8..64), qpn in proptest::option::of(0u32..1 << 24),
            fate in 0u8..11, v6: bool, id in proptest::option::of(any::<u16>()), bytes in proptest::collection::vec(any::<u8>(), 0..40), more in 0usize..9) {
            let mut one = captured(&bytes, id, v6);
            one.time_ns = time_ns;
            one.rule = rule;
            one.local_qpn = qpn.map(Qpn);
            one.fate = Fate::from_code(fate).expect("one of them");
            one.length = bytes.len() + more;
            let mut record = one.head().to_vec();
            record.extend_from_slice(&bytes);
            prop_assert_eq!(Captured::parse(&record), Some(one));
        }

        #[test]
        fn any_record_is_read_or_refused(record in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(one) = Captured::parse(&record) {
                let mut out = [0; 400];
                let _ = one.emit(&mut out);
            }
        }
    }
}
