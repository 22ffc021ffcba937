//! MCMemberRecord (IBA 15.2.5): a multicast group, and who is in it.

use super::{Selected, place_word, word_bits};
use crate::error::{EmitError, ParseError};
use crate::header::{Header, bits, flag, place};
use crate::types::{Gid, Lid, PKey, QKey, Sl};
use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// An MCMemberRecord as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct McMemberRecordWire {
    mgid: [u8; 16],
    port_gid: [u8; 16],
    qkey: U32,
    mlid: U16,
    mtu: u8,
    traffic_class: u8,
    pkey: U16,
    rate: u8,
    packet_lifetime: u8,
    /// SL:4 FlowLabel:20 HopLimit:8.
    flow: U32,
    /// Scope:4 JoinState:4.
    state: u8,
    /// ProxyJoin:1 reserved:7.
    proxy: u8,
    reserved: U16,
}

bitflags::bitflags! {
    /// How a port belongs to a multicast group. As a question to join, and as an answer.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
    pub struct JoinState: u8 {
        /// Sends and receives; the group exists while it has one such member.
        const FULL_MEMBER = 1;
        /// Sends and receives, does not keep the group.
        const NON_MEMBER = 1 << 1;
        /// Sends only, does not keep the group.
        const SEND_ONLY_NON_MEMBER = 1 << 2;
        /// Sends only, keeps the group.
        const SEND_ONLY_FULL_MEMBER = 1 << 3;
    }
}

/// A multicast group, a member of one, or what a question says of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct McMemberRecord {
    /// The group's GID; zero to have one chosen.
    pub mgid: Gid,
    /// The member's GID.
    pub port_gid: Gid,
    /// The group's Q_Key.
    pub qkey: QKey,
    /// The group's LID.
    pub mlid: Lid,
    /// MTU of the group, a code of `Mtu`.
    pub mtu: Selected,
    /// Traffic class.
    pub traffic_class: u8,
    /// Partition.
    pub pkey: PKey,
    /// Rate, the IBA's code.
    pub rate: Selected,
    /// Longest time of a packet in the fabric, a `TimeCode` of 6 bits.
    pub packet_lifetime: Selected,
    /// Service level.
    pub sl: Sl,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Scope of the group's GID, 4 bits: 2 is the link, 5 the site, 14 global.
    pub scope: u8,
    /// How the port is, or wants to be, a member.
    pub join_state: JoinState,
    /// Somebody else joined for the port.
    pub proxy_join: bool,
}

bitflags::bitflags! {
    /// Which components of an MCMemberRecord a question gives.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
    pub struct McMemberRecordMask: u64 {
        /// The group GID.
        const MGID = 1;
        /// The port GID.
        const PORT_GID = 1 << 1;
        /// The Q_Key.
        const QKEY = 1 << 2;
        /// The group LID.
        const MLID = 1 << 3;
        /// The MTU selector.
        const MTU_SELECTOR = 1 << 4;
        /// The MTU.
        const MTU = 1 << 5;
        /// The traffic class.
        const TRAFFIC_CLASS = 1 << 6;
        /// The P_Key.
        const PKEY = 1 << 7;
        /// The rate selector.
        const RATE_SELECTOR = 1 << 8;
        /// The rate.
        const RATE = 1 << 9;
        /// The packet lifetime selector.
        const PACKET_LIFETIME_SELECTOR = 1 << 10;
        /// The packet lifetime.
        const PACKET_LIFETIME = 1 << 11;
        /// The service level.
        const SL = 1 << 12;
        /// The flow label.
        const FLOW_LABEL = 1 << 13;
        /// The hop limit.
        const HOP_LIMIT = 1 << 14;
        /// The scope.
        const SCOPE = 1 << 15;
        /// The join state.
        const JOIN_STATE = 1 << 16;
        /// The proxy join bit.
        const PROXY_JOIN = 1 << 17;
    }
}

impl Header for McMemberRecord {
    type Wire = McMemberRecordWire;
    const NAME: &'static str = "MCMemberRecord";

    fn from_wire(wire: &McMemberRecordWire) -> Result<Self, ParseError> {
        let flow = wire.flow.get();
        let [first, .., hop_limit] = flow.to_be_bytes();
        Ok(McMemberRecord {
            mgid: Gid(wire.mgid),
            port_gid: Gid(wire.port_gid),
            qkey: QKey(wire.qkey.get()),
            mlid: Lid(wire.mlid.get()),
            mtu: Selected::from_wire(wire.mtu),
            traffic_class: wire.traffic_class,
            pkey: PKey(wire.pkey.get()),
            rate: Selected::from_wire(wire.rate),
            packet_lifetime: Selected::from_wire(wire.packet_lifetime),
            sl: Sl(bits(first, 4, 4)),
            flow_label: word_bits(flow, 8, 20),
            hop_limit,
            scope: bits(wire.state, 4, 4),
            join_state: JoinState::from_bits_truncate(wire.state),
            proxy_join: bits(wire.proxy, 7, 1) != 0,
        })
    }

    fn to_wire(&self) -> Result<McMemberRecordWire, EmitError> {
        Ok(McMemberRecordWire {
            mgid: self.mgid.0,
            port_gid: self.port_gid.0,
            qkey: U32::new(self.qkey.0),
            mlid: U16::new(self.mlid.0),
            mtu: self.mtu.to_wire("MTU")?,
            traffic_class: self.traffic_class,
            pkey: U16::new(self.pkey.0),
            rate: self.rate.to_wire("Rate")?,
            packet_lifetime: self.packet_lifetime.to_wire("PacketLifeTime")?,
            flow: U32::new(
                place_word("SL", self.sl.0.into(), 28, 4)?
                    | place_word("FlowLabel", self.flow_label, 8, 20)?
                    | u32::from(self.hop_limit),
            ),
            state: place("Scope", self.scope, 4, 4)?
                | place("JoinState", self.join_state.bits(), 0, 4)?,
            proxy: flag(self.proxy_join, 7),
            reserved: U16::ZERO,
        })
    }
}
