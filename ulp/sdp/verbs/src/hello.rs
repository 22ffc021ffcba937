//! Hello and HelloAck, as private data of either port space.
//!
//! Owns: which of the two forms a port space has, what this side says, and what it takes of a peer.
//! Must not know: identifiers and events of the connection manager.

use crate::endpoint::End;
use ferriband_ibv::{PortSpace, Qpn};
use ferriband_sdp_proto::connection::{Config, Connection, Flow, Peer};
use ferriband_sdp_wire::{Addresses, Body, Capabilities, Flags, FlowControl, Hello, HelloAck};
use ferriband_sdp_wire::{Message, MessageHeader, MessageSeq, ParseError, Refusal, Ring, Version};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The kinds of flow control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowKind {
    /// Messages into buffers, counted.
    Credit,
    /// A ring that the sender manages.
    Ring,
    /// A ring whose receives come one by one as it is read; the adapter holds back what has none.
    Nic,
}

impl FlowKind {
    /// All of them.
    pub const ALL: [FlowKind; 3] = [FlowKind::Credit, FlowKind::Ring, FlowKind::Nic];

    /// As the setting `flow` has it.
    pub fn name(self) -> &'static str {
        match self {
            FlowKind::Credit => "credit",
            FlowKind::Ring => "ring",
            FlowKind::Nic => "nic",
        }
    }

    /// As [`FlowKind::config`], of a side that takes part in zero copy. In *nic* that takes a
    /// second queue pair.
    pub fn config_with_offers(self, buffers: u16, buffer_bytes: u32) -> Config {
        let mut config = self.config(buffers, buffer_bytes);
        if let Flow::Nic { offers, .. } = &mut config.flow {
            *offers = true;
        }
        config
    }

    /// A side's numbers: `buffers` of `buffer_bytes`, with those that the papers' figures use for
    /// the rest. 128 receives of *ring* are twice what the send queue of a peer holds. The window of
    /// *nic* is a buffer, and the part that its adapter handles two of these.
    pub fn config(self, buffers: u16, buffer_bytes: u32) -> Config {
        let flow = match self {
            FlowKind::Credit => Flow::Credit,
            FlowKind::Ring => Flow::Ring { receives: 128 },
            FlowKind::Nic => Flow::Nic {
                window_bytes: buffer_bytes,
                reserve_bytes: buffer_bytes.saturating_mul(2),
                offers: false,
            },
        };
        Config {
            flow,
            buffers,
            buffer_bytes,
            coalesce: true,
        }
    }
}

/// The version that this side says, as the stack of OFED does.
const OUR_VERSION: Version = Version::OFED;

/// SrcAvail messages that a side keeps at a time: in combined mode there is one.
const ADVERTS: u8 = 1;

/// What a peer has said of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub peer: Peer,
    pub flow_control: Option<FlowControl>,
}

impl Told {
    pub fn kind(&self) -> FlowKind {
        match self.flow_control {
            None | Some(FlowControl::Credit) => FlowKind::Credit,
            Some(FlowControl::Ring(_)) => FlowKind::Ring,
            Some(FlowControl::Nic { .. }) => FlowKind::Nic,
        }
    }

    pub fn ring(&self) -> Option<&Ring> {
        self.flow_control.as_ref().and_then(FlowControl::ring)
    }

    /// The peer's second queue pair.
    pub fn second(&self) -> Option<Qpn> {
        self.flow_control.as_ref().and_then(second_of)
    }

    /// Whether this side can speak with such a peer.
    pub fn fits(&self, config: &Config) -> Result<(), Refusal> {
        let machine = Connection::new(*config, self.peer);
        machine.map(drop).map_err(|_| Refusal::Numbers)
    }
}

/// The second queue pair of a side with such a flow control.
pub(crate) fn second_of(flow_control: &FlowControl) -> Option<Qpn> {
    match flow_control {
        FlowControl::Nic { second_qp, .. } if *second_qp != 0 => Some(Qpn(*second_qp)),
        _ => None,
    }
}

fn header(end: &End) -> MessageHeader {
    MessageHeader {
        flags: Flags::empty(),
        bufs: end.receives,
        mseq: MessageSeq(0),
        mseq_ack: MessageSeq(0),
    }
}

/// The private data of a request from a socket at `from`. The manager writes the addresses.
pub(crate) fn hello(space: PortSpace, end: &End, from: SocketAddr) -> Vec<u8> {
    let unspecified = Ipv6Addr::UNSPECIFIED;
    let hello = Hello {
        version: OUR_VERSION,
        capabilities: Capabilities::empty(),
        max_adverts: ADVERTS,
        ext_max_adverts: 0,
        desired_remote_receive_bytes: end.receive_bytes,
        local_receive_bytes: end.receive_bytes,
        port: from.port(),
        addresses: Addresses::V6 {
            source: unspecified,
            destination: unspecified,
        },
        flow_control: Some(end.flow_control),
    };
    bytes(space, end, Body::Hello(hello))
}

/// The private data of an acceptance.
pub(crate) fn hello_ack(space: PortSpace, end: &End, is_standard: bool) -> Vec<u8> {
    let ack = HelloAck {
        version: OUR_VERSION,
        max_adverts: ADVERTS,
        actual_receive_bytes: end.receive_bytes,
        flow_control: (!is_standard).then_some(end.flow_control),
    };
    bytes(space, end, Body::HelloAck(ack))
}

fn bytes(space: PortSpace, end: &End, body: Body<'_>) -> Vec<u8> {
    let header = header(end);
    let message = Message { header, body };
    let mut out = [0; HelloAck::LEN];
    let length = match space {
        PortSpace::Sdp => message.emit(&mut out),
        PortSpace::Tcp => message.emit_short(&mut out),
    };
    let length = length.expect("a ring of our own, and a buffer that holds the longer of the two");
    out[..length].to_vec()
}

/// Reads the private data of a request that comes from `from`.
pub(crate) fn read_hello(
    space: PortSpace,
    bytes: &[u8],
    from: SocketAddr,
    to: SocketAddr,
) -> Result<Told, Refusal> {
    let addresses = Addresses::new(from.ip(), to.ip()).ok_or(Refusal::Addresses)?;
    let message = match space {
        PortSpace::Sdp => Message::parse(bytes),
        PortSpace::Tcp => Message::parse_short_hello(bytes, addresses),
    };
    let (header, hello) = match message {
        Ok(Message {
            header,
            body: Body::Hello(hello),
        }) => (header, hello),
        Ok(_) | Err(_) => return Err(Refusal::NoHello),
    };
    // the manager has read its addresses there, or has written them beside
    if (hello.addresses, hello.port) != (addresses, from.port()) {
        return Err(Refusal::Addresses);
    }
    check(hello.version, hello.max_adverts, &header)?;
    let told = Told {
        peer: Peer::new(header.bufs, hello.local_receive_bytes, hello.flow_control),
        flow_control: hello.flow_control,
    };
    // whatever this side's numbers will be, it uses the kind that was asked for
    told.fits(&told.kind().config(8, 4096))?;
    Ok(told)
}

/// Why an acceptance is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadAck {
    /// No HelloAck.
    #[error(transparent)]
    Bytes(#[from] ParseError),
    /// Another message.
    #[error("the peer accepts with another message than HelloAck")]
    Message,
    /// What it says is refused.
    #[error("the peer's HelloAck is refused: {0:?}")]
    Refused(Refusal),
}

/// Reads the private data of an acceptance.
pub(crate) fn read_hello_ack(space: PortSpace, bytes: &[u8]) -> Result<Told, BadAck> {
    let message = match space {
        PortSpace::Sdp => Message::parse(bytes)?,
        PortSpace::Tcp => Message::parse_short_hello_ack(bytes)?,
    };
    let Body::HelloAck(ack) = message.body else {
        return Err(BadAck::Message);
    };
    check(ack.version, ack.max_adverts, &message.header).map_err(BadAck::Refused)?;
    let peer = Peer::new(
        message.header.bufs,
        ack.actual_receive_bytes,
        ack.flow_control,
    );
    Ok(Told {
        peer,
        flow_control: ack.flow_control,
    })
}

fn check(version: Version, max_adverts: u8, header: &MessageHeader) -> Result<(), Refusal> {
    if !matches!(version.major(), 1 | 2) {
        return Err(Refusal::Version);
    }
    let is_first = header.mseq == MessageSeq(0);
    match max_adverts > 0 && is_first {
        true => Ok(()),
        false => Err(Refusal::Numbers),
    }
}

/// The address that a GID of RoCE stands for.
pub(crate) fn ip_of(gid: [u8; 16]) -> IpAddr {
    let six = Ipv6Addr::from(gid);
    six.to_ipv4_mapped().map_or(IpAddr::V6(six), IpAddr::V4)
}
