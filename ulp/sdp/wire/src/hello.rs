//! Hello and HelloAck: how two sockets find out about each other in the private data of the
//! communication manager's REQ and REP. Owns their layout.
//!
//! Offsets of Hello from the start of its BSDH: version 16, IP version and capabilities 17,
//! MaxAdverts 19, receive sizes 20 and 24, port 28, addresses 32 and 48, extended MaxAdverts 66,
//! the negotiation of [`FlowControl`] 68..92. Of HelloAck: version 16, MaxAdverts 19, receive size
//! 20, negotiation 24..48, zeros up to 196. All other bytes are reserved. Where the negotiation
//! says NIC, three reserved bytes are part of it: the number of the second queue pair, in Hello its
//! upper 8 bits at 18 and its lower 16 at 30, in HelloAck 48..52.
//!
//! Implementations disagree on the length field: some write the size of the whole private data,
//! some that of the fields they know (64 and 24). The manager fills up with zeros in any case, so
//! every length from the known fields on is read, and the larger one is written, which all take.

use crate::bsdh::nothing;
use crate::error::{EmitError, ParseError};
use crate::flow::{FlowControl, FlowControlWire};
use crate::header::{prefix, put};
use crate::mid::Mid;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The part of Hello that every implementation sends, after the BSDH.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct HelloWire {
    version: u8,
    /// IPVersion:4 Capabilities:4.
    ip_version: u8,
    second_qp_upper: u8,
    max_adverts: u8,
    desired_remote_receive_size: U32,
    local_receive_size: U32,
    port: U16,
    second_qp_lower: U16,
    source: [u8; 16],
    destination: [u8; 16],
}

/// What follows in Hello up to the end of the REQ's private data.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct HelloTailWire {
    reserved_64: U16,
    ext_max_adverts: U16,
    flow_control: FlowControlWire,
}

/// The part of HelloAck that every implementation sends, after the BSDH.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct HelloAckWire {
    version: u8,
    reserved_17: [u8; 2],
    max_adverts: u8,
    actual_receive_size: U32,
}

/// What follows in HelloAck up to the end of the REP's private data.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct HelloAckTailWire {
    flow_control: FlowControlWire,
    second_qp: U32,
    reserved_52: [u8; 144],
}

/// Version of the protocol: two nibbles. It changes nothing in the layout; what the receiver
/// accepts is its own choice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(transparent)]
pub struct Version(pub u8);

impl Version {
    /// What the stack of Topspin sends, and takes by its major number.
    pub const TOPSPIN: Version = Version(0x11);
    /// What the stack of OFED sends, and takes by its major number.
    pub const OFED: Version = Version(0x22);

    /// Major number, 4 bits.
    pub const fn major(self) -> u8 {
        self.0 >> 4
    }

    /// Minor number, 4 bits.
    pub const fn minor(self) -> u8 {
        self.0 & 0xf
    }
}

bitflags::bitflags! {
    /// Capabilities of the side that asks for a connection.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Capabilities: u8 {
        /// It takes SEND with invalidate.
        const INVALIDATE = 1;
        /// `ext_max_adverts` is in use.
        const EXT_MAX_ADVERTS = 1 << 1;
    }
}

const CAPABILITIES_MASK: u8 = 0xf;
const IP_VERSION_SHIFT: u32 = 4;

/// The addresses of the socket that asks and of the listener, of one family.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Addresses {
    /// IPv4.
    V4 {
        /// Of the socket that asks.
        source: Ipv4Addr,
        /// Of the listener.
        destination: Ipv4Addr,
    },
    /// IPv6.
    V6 {
        /// Of the socket that asks.
        source: Ipv6Addr,
        /// Of the listener.
        destination: Ipv6Addr,
    },
}

impl Addresses {
    /// Two addresses; None if they are of different families.
    pub const fn new(source: IpAddr, destination: IpAddr) -> Option<Self> {
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Some(Addresses::V4 {
                source,
                destination,
            }),
            (IpAddr::V6(source), IpAddr::V6(destination)) => Some(Addresses::V6 {
                source,
                destination,
            }),
            _ => None,
        }
    }

    /// The address of the socket that asks.
    pub const fn source(self) -> IpAddr {
        match self {
            Addresses::V4 { source, .. } => IpAddr::V4(source),
            Addresses::V6 { source, .. } => IpAddr::V6(source),
        }
    }

    /// The listener's address.
    pub const fn destination(self) -> IpAddr {
        match self {
            Addresses::V4 { destination, .. } => IpAddr::V4(destination),
            Addresses::V6 { destination, .. } => IpAddr::V6(destination),
        }
    }

    fn from_wire(wire: &HelloWire) -> Result<Self, ParseError> {
        match wire.ip_version >> IP_VERSION_SHIFT {
            4 => Ok(Addresses::V4 {
                source: v4_address(wire.source),
                destination: v4_address(wire.destination),
            }),
            6 => Ok(Addresses::V6 {
                source: wire.source.into(),
                destination: wire.destination.into(),
            }),
            value => Err(ParseError::Field {
                field: "IP version of Hello",
                value: value.into(),
            }),
        }
    }

    /// IP version and both fields.
    fn to_wire(self) -> (u8, [u8; 16], [u8; 16]) {
        match self {
            Addresses::V4 {
                source,
                destination,
            } => (4, v4_field(source), v4_field(destination)),
            Addresses::V6 {
                source,
                destination,
            } => (6, source.octets(), destination.octets()),
        }
    }
}

/// An IPv4 address in its place: the last four of sixteen bytes.
fn v4_field(address: Ipv4Addr) -> [u8; 16] {
    u128::from(u32::from(address)).to_be_bytes()
}

fn v4_address([.., a, b, c, d]: [u8; 16]) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, d)
}

/// What a socket says that asks for a connection. The receive buffers that it has posted stand in
/// the BSDH's `bufs`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Hello {
    /// Version of the protocol.
    pub version: Version,
    /// Capabilities.
    pub capabilities: Capabilities,
    /// SrcAvail and SinkAvail messages that the sender keeps at a time; peers refuse 0.
    pub max_adverts: u8,
    /// Extended MaxAdverts; 0 unless the capability is given.
    pub ext_max_adverts: u16,
    /// Bytes that each receive buffer of the other side should have.
    pub desired_remote_receive_bytes: u32,
    /// Bytes of each receive buffer of the sender, headers of messages included.
    pub local_receive_bytes: u32,
    /// Port of the socket that asks. The listener's is in the service ID.
    pub port: u16,
    /// Addresses of both.
    pub addresses: Addresses,
    /// The flow control asked for, with the sender's ring; None from a standard peer.
    pub flow_control: Option<FlowControl>,
}

impl Hello {
    /// Bytes of the message, as it is sent: the private data of a REQ.
    pub const LEN: usize = crate::Bsdh::LEN + size_of::<HelloWire>() + size_of::<HelloTailWire>();

    /// Reads what follows the BSDH, up to where the length field says that the message ends.
    pub(crate) fn from_bytes(rest: &[u8]) -> Result<Self, ParseError> {
        let (wire, tail) = prefix::<HelloWire>(rest, Mid::Hello.name())?;
        let surplus = tail.get(size_of::<HelloTailWire>()..).unwrap_or_default();
        nothing(surplus, Mid::Hello, Hello::LEN - crate::Bsdh::LEN)?;
        let mut filled = HelloTailWire::new_zeroed();
        let known = tail.len().min(size_of::<HelloTailWire>());
        filled.as_mut_bytes()[..known].copy_from_slice(&tail[..known]);
        let lower = u32::from(wire.second_qp_lower.get());
        let second_qp = u32::from(wire.second_qp_upper) << 16 | lower;
        Ok(Hello {
            version: Version(wire.version),
            capabilities: Capabilities::from_bits_truncate(wire.ip_version & CAPABILITIES_MASK),
            max_adverts: wire.max_adverts,
            ext_max_adverts: filled.ext_max_adverts.get(),
            desired_remote_receive_bytes: wire.desired_remote_receive_size.get(),
            local_receive_bytes: wire.local_receive_size.get(),
            port: wire.port.get(),
            addresses: Addresses::from_wire(wire)?,
            flow_control: FlowControl::from_wire(&filled.flow_control, second_qp),
        })
    }

    pub(crate) fn emit<'a>(&self, out: &'a mut [u8]) -> Result<&'a mut [u8], EmitError> {
        let (ip_version, source, destination) = self.addresses.to_wire();
        let second_qp = FlowControl::second_qp(self.flow_control.as_ref());
        let wire = HelloWire {
            version: self.version.0,
            ip_version: ip_version << IP_VERSION_SHIFT | self.capabilities.bits(),
            second_qp_upper: (second_qp >> 16) as u8,
            max_adverts: self.max_adverts,
            desired_remote_receive_size: U32::new(self.desired_remote_receive_bytes),
            local_receive_size: U32::new(self.local_receive_bytes),
            port: U16::new(self.port),
            second_qp_lower: U16::new(second_qp as u16),
            source,
            destination,
        };
        let tail = HelloTailWire {
            reserved_64: U16::ZERO,
            ext_max_adverts: U16::new(self.ext_max_adverts),
            flow_control: FlowControl::to_wire(self.flow_control.as_ref()),
        };
        put(&tail, put(&wire, out)?)
    }
}

/// What a socket says that accepts a connection. The receive buffers that it has posted stand in
/// the BSDH's `bufs`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HelloAck {
    /// Version of the protocol.
    pub version: Version,
    /// SrcAvail and SinkAvail messages that the sender keeps at a time; peers refuse 0.
    pub max_adverts: u8,
    /// Bytes of each receive buffer of the sender, headers of messages included.
    pub actual_receive_bytes: u32,
    /// The flow control that both use, with the sender's ring; None from a standard peer.
    pub flow_control: Option<FlowControl>,
}

impl HelloAck {
    /// Bytes of the message, as it is sent: the private data of a REP.
    pub const LEN: usize =
        crate::Bsdh::LEN + size_of::<HelloAckWire>() + size_of::<HelloAckTailWire>();

    /// Reads what follows the BSDH, up to where the length field says that the message ends.
    pub(crate) fn from_bytes(rest: &[u8]) -> Result<Self, ParseError> {
        let (wire, tail) = prefix::<HelloAckWire>(rest, Mid::HelloAck.name())?;
        let surplus = tail
            .get(size_of::<HelloAckTailWire>()..)
            .unwrap_or_default();
        nothing(surplus, Mid::HelloAck, HelloAck::LEN - crate::Bsdh::LEN)?;
        let flow_control = FlowControlWire::ref_from_prefix(tail).ok();
        let flow_control = flow_control.and_then(|(wire, rest)| {
            let second_qp = U32::ref_from_prefix(rest).map_or(0, |(number, _)| number.get());
            FlowControl::from_wire(wire, second_qp)
        });
        Ok(HelloAck {
            version: Version(wire.version),
            max_adverts: wire.max_adverts,
            actual_receive_bytes: wire.actual_receive_size.get(),
            flow_control,
        })
    }

    pub(crate) fn emit<'a>(&self, out: &'a mut [u8]) -> Result<&'a mut [u8], EmitError> {
        let wire = HelloAckWire {
            version: self.version.0,
            reserved_17: [0; 2],
            max_adverts: self.max_adverts,
            actual_receive_size: U32::new(self.actual_receive_bytes),
        };
        let tail = HelloAckTailWire {
            flow_control: FlowControl::to_wire(self.flow_control.as_ref()),
            second_qp: U32::new(FlowControl::second_qp(self.flow_control.as_ref())),
            reserved_52: [0; 144],
        };
        put(&tail, put(&wire, out)?)
    }
}
