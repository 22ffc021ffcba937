//! A packet as an adapter hands it to somebody who captures: what the socket layer knows of it, what became of it, and its bytes
//! from the BTH to the ICRC. Owns the record's layout, which both sides read as a stranger's. Knows no rings.

use crate::error::EmitError;
use crate::grh::Grh;
use crate::ip::Ipv4;
use crate::lrh::Lrh;
use crate::native::{NativeHeaders, VCRC_LEN};
use crate::pcapng::Direction;
use crate::roce::{RoceHeaders, RoceIp, check_datagram};
use crate::types::{Gid, Lid, Qpn, Sl, Vl};
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

/// What lies below a packet's transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ends {
    /// RoCEv2.
    Roce(Endpoints),
    /// InfiniBand.
    Native(NativeHeaders),
}

impl Ends {
    /// Addresses or GIDs, source and destination; None for an InfiniBand packet that has none.
    pub fn addresses(&self) -> Option<(IpAddr, IpAddr)> {
        match self {
            Ends::Roce(ends) => Some((ends.source, ends.destination)),
            Ends::Native(headers) => headers
                .grh
                .map(|grh| (grh.sgid.0.into(), grh.dgid.0.into())),
        }
    }
}

/// The headers below a packet's transport header, as they travelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Below {
    /// IP and UDP.
    Roce(RoceHeaders),
    /// LRH and GRH.
    Native(NativeHeaders),
}

impl fmt::Display for Below {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Below::Roce(headers) => headers.fmt(f),
            Below::Native(headers) => headers.fmt(f),
        }
    }
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
    /// The interface by which it came or went; 0 for the InfiniBand port.
    pub ifindex: u32,
    /// Addresses.
    pub ends: Ends,
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
    /// [`FAMILY_V4`] and so on.
    family: u8,
    ifindex: U32,
    /// Number + 1; 0 for none.
    local_qpn: U32,
    length: U32,
    /// UDP source port, or source LID.
    source_port: U16,
    /// Identification, and whether it is one; or destination LID.
    identification: U16,
    has_identification: u8,
    traffic_class: u8,
    hop_limit: u8,
    /// Service level.
    sl: u8,
    flow_label: U32,
    source: [u8; 16],
    destination: [u8; 16],
}

/// RoCEv2 over IPv4 and over IPv6, InfiniBand with a GRH and without.
const FAMILY_V4: u8 = 4;
const FAMILY_V6: u8 = 6;
const FAMILY_GLOBAL: u8 = 1;
const FAMILY_LOCAL: u8 = 2;

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
            ifindex: self.ifindex.into(),
            local_qpn: self.local_qpn.map_or(0, |qpn| qpn.0.wrapping_add(1)).into(),
            // a packet is shorter than 2^32
            length: (self.length as u32).into(),
            ..match &self.ends {
                Ends::Roce(ends) => Head::of_roce(ends),
                Ends::Native(headers) => Head::of_native(headers),
            }
        };
        let mut bytes = [0; CAPTURE_HEAD];
        bytes.copy_from_slice(head.as_bytes());
        bytes
    }

    /// Reads a record. None for one that no adapter writes.
    pub fn parse(record: &'a [u8]) -> Option<Self> {
        let (head, bytes) = Head::ref_from_prefix(record).ok()?;
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
            ends: head.ends()?,
            length,
            bytes,
        })
    }

    /// The headers below the transport header. An IPv4 identification that the socket layer does not say is found by the ICRC, if the
    /// packet is whole and right, and 0 else; `None` in the second place says that the ICRC is wrong or cannot be checked.
    pub fn headers(&self) -> (Below, Option<()>) {
        let whole = self.bytes.len() == self.length;
        match &self.ends {
            Ends::Roce(ends) => {
                let (headers, right) = self.roce_headers(ends);
                (Below::Roce(headers), right)
            }
            Ends::Native(headers) => {
                let right = whole && headers.check(self.bytes).is_ok();
                (Below::Native(*headers), right.then_some(()))
            }
        }
    }

    fn roce_headers(&self, ends: &Endpoints) -> (RoceHeaders, Option<()>) {
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
                sgid: Gid(octets(source)),
                dgid: Gid(octets(destination)),
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

    /// Writes the packet from its IP header or LRH on, as it travels, to the start of `out`; returns the bytes written and those that the
    /// whole packet has. An InfiniBand packet has its VCRC at its end.
    ///
    /// # Errors
    /// `BufferTooSmall`; lengths that a packet cannot have.
    pub fn emit(&self, out: &mut [u8]) -> Result<(usize, usize), EmitError> {
        match self.headers().0 {
            Below::Roce(headers) => {
                let before = headers.emit_datagram(self.bytes, self.length, out)?;
                Ok((before + self.bytes.len(), before + self.length))
            }
            Below::Native(headers) => {
                let written = headers.emit(self.bytes, self.length, out)?;
                Ok((written, headers.wire_len() + self.length + VCRC_LEN))
            }
        }
    }
}

impl Head {
    const EMPTY: Head = Head {
        time_ns: U64::ZERO,
        direction: 0,
        fate: 0,
        rule: 0,
        family: 0,
        ifindex: U32::ZERO,
        local_qpn: U32::ZERO,
        length: U32::ZERO,
        source_port: U16::ZERO,
        identification: U16::ZERO,
        has_identification: 0,
        traffic_class: 0,
        hop_limit: 0,
        sl: 0,
        flow_label: U32::ZERO,
        source: [0; 16],
        destination: [0; 16],
    };

    fn of_roce(ends: &Endpoints) -> Head {
        let family = match ends.source {
            IpAddr::V4(_) => FAMILY_V4,
            IpAddr::V6(_) => FAMILY_V6,
        };
        Head {
            family,
            source_port: ends.source_port.into(),
            identification: ends.identification.unwrap_or(0).into(),
            has_identification: ends.identification.is_some().into(),
            traffic_class: ends.traffic_class,
            hop_limit: ends.hop_limit,
            source: octets(ends.source),
            destination: octets(ends.destination),
            ..Head::EMPTY
        }
    }

    fn of_native(headers: &NativeHeaders) -> Head {
        let lrh = &headers.lrh;
        let local = Head {
            family: FAMILY_LOCAL,
            source_port: lrh.slid.0.into(),
            identification: lrh.dlid.0.into(),
            sl: lrh.sl.0,
            ..Head::EMPTY
        };
        match &headers.grh {
            None => local,
            Some(grh) => Head {
                family: FAMILY_GLOBAL,
                traffic_class: grh.traffic_class,
                hop_limit: grh.hop_limit,
                flow_label: grh.flow_label.into(),
                source: grh.sgid.0,
                destination: grh.dgid.0,
                ..local
            },
        }
    }

    /// None for what no adapter writes.
    fn ends(&self) -> Option<Ends> {
        let address = |octets: [u8; 16]| {
            let v6 = Ipv6Addr::from(octets);
            match self.family {
                FAMILY_V4 => v6.to_ipv4_mapped().map(IpAddr::V4),
                _ => Some(IpAddr::V6(v6)),
            }
        };
        let lrh = Lrh {
            // packets of one host have met no link that has lanes
            vl: Vl(0),
            sl: Sl(self.sl & 0xf),
            dlid: Lid(self.identification.get()),
            slid: Lid(self.source_port.get()),
        };
        match self.family {
            FAMILY_LOCAL => Some(Ends::Native(NativeHeaders { lrh, grh: None })),
            FAMILY_GLOBAL => Some(Ends::Native(NativeHeaders {
                lrh,
                grh: Some(Grh {
                    traffic_class: self.traffic_class,
                    flow_label: self.flow_label.get() & 0xf_ffff,
                    hop_limit: self.hop_limit,
                    sgid: Gid(self.source),
                    dgid: Gid(self.destination),
                }),
            })),
            FAMILY_V4 | FAMILY_V6 => Some(Ends::Roce(Endpoints {
                source: address(self.source)?,
                destination: address(self.destination)?,
                source_port: self.source_port.get(),
                traffic_class: self.traffic_class,
                hop_limit: self.hop_limit,
                identification: (self.has_identification != 0).then(|| self.identification.get()),
            })),
            _ => None,
        }
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
            ends: Ends::Roce(Endpoints {
                source,
                destination,
                source_port: 0xC001,
                traffic_class: 2,
                hop_limit: 64,
                identification,
            }),
            length: bytes.len(),
            bytes,
        }
    }

    #[test]
    fn the_packet_is_built_up_as_it_travelled_whatever_its_identification() {
        for (v6, sent) in [(false, 0u16), (false, 41), (true, 0)] {
            let plain = captured(&[], Some(sent), v6);
            let Below::Roce(headers) = plain.headers().0 else {
                panic!("it is a RoCEv2 packet")
            };
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

    fn native(bytes: &[u8], grh: bool) -> Captured<'_> {
        let mut one = captured(bytes, None, true);
        one.ifindex = 0;
        one.ends = Ends::Native(NativeHeaders {
            lrh: Lrh {
                vl: Vl(0),
                sl: Sl(5),
                dlid: Lid(0xC001),
                slid: Lid(2),
            },
            grh: grh.then_some(Grh {
                traffic_class: 3,
                flow_label: 0xf_fff1,
                hop_limit: 9,
                sgid: Gid([7; 16]),
                dgid: Gid([8; 16]),
            }),
        });
        one
    }

    #[test]
    fn an_infiniband_packet_is_built_up_with_both_checksums() {
        for grh in [false, true] {
            let Ends::Native(headers) = native(&[], grh).ends else {
                panic!("it is an InfiniBand packet")
            };
            let whole = crate::NativePacket {
                lrh: headers.lrh,
                grh: headers.grh,
                packet: packet(),
            };
            let mut expected = [0; 128];
            let len = whole.emit(&mut expected).expect("fits");
            let bytes = expected[headers.wire_len()..len - VCRC_LEN].to_vec();
            let mut came = native(&bytes, grh);
            assert!(came.headers().1.is_some());
            let mut out = [0; 128];
            assert_eq!(came.emit(&mut out), Ok((len, len)));
            assert_eq!(out, expected, "grh {grh}");
            let mut record = came.head().to_vec();
            record.extend_from_slice(&bytes);
            assert_eq!(Captured::parse(&record), Some(came));
            came.bytes = &bytes[..8];
            assert!(came.headers().1.is_none());
            assert_eq!(came.emit(&mut out), Ok((headers.wire_len() + 8, len)));
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
