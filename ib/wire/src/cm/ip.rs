//! Connections between IP addresses and ports (the RDMA IP CM service, IBA annex A11): how an address's port becomes a
//! service ID, and the header that the private data of a REQ or SIDR_REQ begin with. As rdma_cm has it.

use super::private_data::PrivateData;
use crate::error::{EmitError, ParseError};
use crate::header::{Header, bits};
use crate::types::{QKey, ServiceId};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use zerocopy::byteorder::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Q_Key of every unreliable-datagram queue pair and multicast group that rdma_cm makes in the UDP port space.
pub const RDMA_UDP_QKEY: QKey = QKey(0x0123_4567);

/// What a port is a port of. The number stands above the port in a service ID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u16)]
pub enum PortSpace {
    /// The Sockets Direct Protocol: reliable connections, whose addresses stand in the Hello (IBA
    /// annex A4).
    Sdp = 0x0001,
    /// IP over InfiniBand multicast: no service is listened for.
    Ipoib = 0x0002,
    /// TCP-like: reliable connections. The low byte is TCP's protocol number.
    Tcp = 0x0106,
    /// UDP-like: unreliable datagrams. The low byte is UDP's protocol number.
    Udp = 0x0111,
    /// InfiniBand's own: any queue pair type, addressed by GID and service ID.
    Ib = 0x013f,
}

impl PortSpace {
    /// From the number; None for port spaces that do not exist.
    pub const fn from_code(code: u16) -> Option<Self> {
        Some(match code {
            0x0001 => PortSpace::Sdp,
            0x0002 => PortSpace::Ipoib,
            0x0106 => PortSpace::Tcp,
            0x0111 => PortSpace::Udp,
            0x013f => PortSpace::Ib,
            _ => return None,
        })
    }
}

/// Bits of a service ID below the port space.
const PORT_BITS: u32 = 16;

impl ServiceId {
    /// The top five bytes of service IDs of the IP addressing annex; a protocol and a port follow.
    const IP_PREFIX: u64 = 1;
    const IP_PREFIX_SHIFT: u32 = 24;

    /// First of the service IDs that an operating system may hand out itself (IBA annex A3).
    pub const LOCAL_OS: ServiceId = ServiceId(0x0200_0000_0000_0000);

    /// The service behind a port of a port space.
    pub const fn from_port(space: PortSpace, port: u16) -> Self {
        ServiceId((space as u64) << PORT_BITS | port as u64)
    }

    /// The service behind a port of an IP protocol, whatever its number: 6 is TCP, 17 is UDP.
    pub const fn from_ip(protocol: u8, port: u16) -> Self {
        ServiceId(
            Self::IP_PREFIX << Self::IP_PREFIX_SHIFT | (protocol as u64) << PORT_BITS | port as u64,
        )
    }

    /// Whether the service ID is one of the IP addressing annex. A listener that is bound to an IP address finds an
    /// `IpCmHeader` before the private data; one that is bound to a GID (in any port space) finds none.
    pub const fn is_ip(self) -> bool {
        self.0 >> Self::IP_PREFIX_SHIFT == Self::IP_PREFIX
    }

    /// Whether the service ID is a port of the Sockets Direct Protocol, so that the private data of
    /// a request are its Hello.
    pub const fn is_sdp(self) -> bool {
        self.0 >> PORT_BITS == PortSpace::Sdp as u64
    }

    /// The port space and port that the service ID stands for; None for service IDs of other kinds.
    pub const fn port(self) -> Option<(PortSpace, u16)> {
        let space = self.0 >> PORT_BITS;
        if space > u16::MAX as u64 {
            return None;
        }
        match PortSpace::from_code(space as u16) {
            // The low sixteen bits.
            Some(space) => Some((space, self.0 as u16)),
            None => None,
        }
    }
}

/// The IP addressing header as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct IpCmHeaderWire {
    /// MajorVersion:4 MinorVersion:4.
    version: u8,
    /// IPVersion:4 reserved:4.
    ip_version: u8,
    source_port: U16,
    source: [u8; 16],
    destination: [u8; 16],
}

/// Source and destination of one family.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IpPair {
    /// IPv4.
    V4 {
        /// The requester's address.
        source: Ipv4Addr,
        /// The listener's address.
        destination: Ipv4Addr,
    },
    /// IPv6.
    V6 {
        /// The requester's address.
        source: Ipv6Addr,
        /// The listener's address.
        destination: Ipv6Addr,
    },
}

impl IpPair {
    /// Two addresses; None if they are of different families.
    pub const fn new(source: IpAddr, destination: IpAddr) -> Option<Self> {
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Some(IpPair::V4 {
                source,
                destination,
            }),
            (IpAddr::V6(source), IpAddr::V6(destination)) => Some(IpPair::V6 {
                source,
                destination,
            }),
            _ => None,
        }
    }

    /// The requester's address.
    pub const fn source(self) -> IpAddr {
        match self {
            IpPair::V4 { source, .. } => IpAddr::V4(source),
            IpPair::V6 { source, .. } => IpAddr::V6(source),
        }
    }

    /// The listener's address.
    pub const fn destination(self) -> IpAddr {
        match self {
            IpPair::V4 { destination, .. } => IpAddr::V4(destination),
            IpPair::V6 { destination, .. } => IpAddr::V6(destination),
        }
    }
}

/// The IP addressing header, 36 bytes at the start of the private data of a REQ or SIDR_REQ: who asks, and whom. The
/// destination's port is in the service ID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IpCmHeader {
    /// The requester's port.
    pub source_port: u16,
    /// Both addresses.
    pub addresses: IpPair,
}

const IP_VERSION_SHIFT: u32 = 4;

/// An IPv4 address in its place: the last four of sixteen bytes.
pub(super) fn v4_field(address: Ipv4Addr) -> [u8; 16] {
    u128::from(u32::from(address)).to_be_bytes()
}

pub(super) fn v4_address([.., a, b, c, d]: [u8; 16]) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, d)
}

impl Header for IpCmHeader {
    type Wire = IpCmHeaderWire;
    const NAME: &'static str = "IP addressing header";

    fn from_wire(wire: &IpCmHeaderWire) -> Result<Self, ParseError> {
        // 0.0 is the only version there is.
        if wire.version != 0 {
            return Err(ParseError::Field {
                field: "IP addressing version",
                value: wire.version.into(),
            });
        }
        let addresses = match bits(wire.ip_version, IP_VERSION_SHIFT, 4) {
            4 => IpPair::V4 {
                source: v4_address(wire.source),
                destination: v4_address(wire.destination),
            },
            6 => IpPair::V6 {
                source: wire.source.into(),
                destination: wire.destination.into(),
            },
            got => return Err(ParseError::IpVersion { expected: 4, got }),
        };
        Ok(IpCmHeader {
            source_port: wire.source_port.get(),
            addresses,
        })
    }

    fn to_wire(&self) -> Result<IpCmHeaderWire, EmitError> {
        let (ip_version, source, destination) = match self.addresses {
            IpPair::V4 {
                source,
                destination,
            } => (4, v4_field(source), v4_field(destination)),
            IpPair::V6 {
                source,
                destination,
            } => (6, source.octets(), destination.octets()),
        };
        Ok(IpCmHeaderWire {
            version: 0,
            ip_version: ip_version << IP_VERSION_SHIFT,
            source_port: U16::new(self.source_port),
            source,
            destination,
        })
    }
}

impl IpCmHeader {
    /// The private data of a REQ (`N` = 92, leaving 56 bytes) or SIDR_REQ (`N` = 216, leaving 180): this header, then
    /// the consumer's bytes.
    pub fn before<const N: usize>(&self, consumer: &[u8]) -> Result<PrivateData<N>, EmitError> {
        let mut data = [0; N];
        let rest = self.emit(&mut data)?;
        let max = rest.len();
        rest.get_mut(..consumer.len())
            .ok_or(EmitError::TooLong {
                field: "PrivateData",
                max,
                got: consumer.len(),
            })?
            .copy_from_slice(consumer);
        Ok(data.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_become_service_ids_and_come_back() {
        // As the annex writes it: 0x0000000001, protocol, port.
        let tcp = ServiceId::from_port(PortSpace::Tcp, 7174);
        assert_eq!(tcp, ServiceId(0x0000_0000_0106_1c06));
        assert_eq!(tcp, ServiceId::from_ip(6, 7174));
        let udp = ServiceId::from_port(PortSpace::Udp, 1);
        assert_eq!(udp, ServiceId(0x0000_0000_0111_0001));
        assert_eq!(udp, ServiceId::from_ip(17, 1));
        let sdp = ServiceId::from_port(PortSpace::Sdp, 7174);
        assert_eq!(sdp, ServiceId(0x0000_0000_0001_1c06));
        for space in [
            PortSpace::Sdp,
            PortSpace::Ipoib,
            PortSpace::Tcp,
            PortSpace::Udp,
            PortSpace::Ib,
        ] {
            for port in [0, 1, 7174, u16::MAX] {
                let service = ServiceId::from_port(space, port);
                assert_eq!(service.port(), Some((space, port)));
                let annex = !matches!(space, PortSpace::Ipoib | PortSpace::Sdp);
                assert_eq!(service.is_ip(), annex);
                assert_eq!(service.is_sdp(), space == PortSpace::Sdp);
            }
        }
        // One of the operating system's, and some with bits above.
        assert_eq!(ServiceId(sdp.0 | 1 << 32).port(), None);
        assert!(!ServiceId(sdp.0 | 1 << 32).is_sdp());
        assert_eq!(ServiceId::LOCAL_OS.port(), None);
        assert_eq!(ServiceId(tcp.0 | 1 << 40).port(), None);
        assert!(!ServiceId(tcp.0 | 1 << 40).is_ip());
    }

    #[test]
    fn families_are_not_mixed() {
        let (four, six) = (
            IpAddr::from([10, 0, 0, 1]),
            IpAddr::from(Ipv6Addr::LOCALHOST),
        );
        assert_eq!(IpPair::new(four, six), None);
        let pair = IpPair::new(six, six).expect("one family");
        assert_eq!((pair.source(), pair.destination()), (six, six));
    }

    #[test]
    fn the_header_leaves_the_rest_to_the_consumer() {
        let header = IpCmHeader {
            source_port: 1,
            addresses: IpPair::V4 {
                source: Ipv4Addr::new(10, 0, 0, 1),
                destination: Ipv4Addr::new(10, 0, 0, 2),
            },
        };
        assert_eq!(IpCmHeader::LEN, 36);
        let data: PrivateData<92> = header.before(&[7; 56]).expect("fits");
        let (parsed, rest) = IpCmHeader::parse(data.as_bytes()).expect("parses");
        assert_eq!((parsed, rest), (header, &[7; 56][..]));
        assert_eq!(
            header.before::<92>(&[7; 57]),
            Err(EmitError::TooLong {
                field: "PrivateData",
                max: 56,
                got: 57
            })
        );
        assert!(header.before::<216>(&[7; 180]).is_ok());
    }

    #[test]
    fn other_versions_are_refused() {
        let mut bytes = [0; 36];
        assert!(matches!(
            IpCmHeader::parse(&bytes),
            Err(ParseError::IpVersion { got: 0, .. })
        ));
        (bytes[0], bytes[1]) = (0x10, 0x40);
        assert!(matches!(
            IpCmHeader::parse(&bytes),
            Err(ParseError::Field { value: 0x10, .. })
        ));
    }
}
