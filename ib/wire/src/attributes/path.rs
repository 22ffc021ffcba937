//! PathRecord (IBA 15.2.5): how to get from one port to another.

use super::{Selected, place_word, word_bits};
use crate::error::{EmitError, ParseError};
use crate::header::{Header, bits, fits, flag, place};
use crate::types::{Gid, Lid, PKey, ServiceId, Sl};
use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A PathRecord as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct PathRecordWire {
    service_id: U64,
    dgid: [u8; 16],
    sgid: [u8; 16],
    dlid: U16,
    slid: U16,
    /// RawTraffic:1 reserved:3 FlowLabel:20 HopLimit:8.
    flow: U32,
    traffic_class: u8,
    /// Reversible:1 NumbPath:7.
    paths: u8,
    pkey: U16,
    /// QoSClass:12 SL:4.
    qos_sl: U16,
    mtu: u8,
    rate: u8,
    packet_lifetime: u8,
    preference: u8,
    reserved: [u8; 6],
}

/// A path, or what a question says of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PathRecord {
    /// Service for whose quality the path is wanted.
    pub service_id: ServiceId,
    /// Destination GID.
    pub dgid: Gid,
    /// Source GID.
    pub sgid: Gid,
    /// Destination LID.
    pub dlid: Lid,
    /// Source LID.
    pub slid: Lid,
    /// For raw packets.
    pub raw_traffic: bool,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit: more than 1 means that packets need a GRH.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// The way back is the same with source and destination exchanged.
    pub reversible: bool,
    /// Most records that a question wants, 7 bits.
    pub paths_wanted: u8,
    /// Partition.
    pub pkey: PKey,
    /// Class of quality of service, 12 bits.
    pub qos_class: u16,
    /// Service level.
    pub sl: Sl,
    /// Path MTU, a code of `Mtu`.
    pub mtu: Selected,
    /// Rate, the IBA's code.
    pub rate: Selected,
    /// Longest time of a packet in the fabric, a `TimeCode` of 6 bits.
    pub packet_lifetime: Selected,
    /// Order of records: 0 first.
    pub preference: u8,
}

bitflags::bitflags! {
    /// Which components of a PathRecord a question gives.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
    pub struct PathRecordMask: u64 {
        /// The service identifier.
        const SERVICE_ID = 0b11;
        /// The destination GID.
        const DGID = 1 << 2;
        /// The source GID.
        const SGID = 1 << 3;
        /// The destination LID.
        const DLID = 1 << 4;
        /// The source LID.
        const SLID = 1 << 5;
        /// The raw traffic bit.
        const RAW_TRAFFIC = 1 << 6;
        /// The flow label.
        const FLOW_LABEL = 1 << 8;
        /// The hop limit.
        const HOP_LIMIT = 1 << 9;
        /// The traffic class.
        const TRAFFIC_CLASS = 1 << 10;
        /// The reversibility.
        const REVERSIBLE = 1 << 11;
        /// The number of paths wanted.
        const PATHS_WANTED = 1 << 12;
        /// The P_Key.
        const PKEY = 1 << 13;
        /// The QoS class.
        const QOS_CLASS = 1 << 14;
        /// The service level.
        const SL = 1 << 15;
        /// The MTU selector.
        const MTU_SELECTOR = 1 << 16;
        /// The MTU.
        const MTU = 1 << 17;
        /// The rate selector.
        const RATE_SELECTOR = 1 << 18;
        /// The rate.
        const RATE = 1 << 19;
        /// The packet lifetime selector.
        const PACKET_LIFETIME_SELECTOR = 1 << 20;
        /// The packet lifetime.
        const PACKET_LIFETIME = 1 << 21;
        /// The preference.
        const PREFERENCE = 1 << 22;
    }
}

impl Header for PathRecord {
    type Wire = PathRecordWire;
    const NAME: &'static str = "PathRecord";

    fn from_wire(wire: &PathRecordWire) -> Result<Self, ParseError> {
        let flow = wire.flow.get();
        let [.., hop_limit] = flow.to_be_bytes();
        let [qos_high, qos_sl] = wire.qos_sl.get().to_be_bytes();
        Ok(PathRecord {
            service_id: ServiceId(wire.service_id.get()),
            dgid: Gid(wire.dgid),
            sgid: Gid(wire.sgid),
            dlid: Lid(wire.dlid.get()),
            slid: Lid(wire.slid.get()),
            raw_traffic: word_bits(flow, 31, 1) != 0,
            flow_label: word_bits(flow, 8, 20),
            hop_limit,
            traffic_class: wire.traffic_class,
            reversible: bits(wire.paths, 7, 1) != 0,
            paths_wanted: bits(wire.paths, 0, 7),
            pkey: PKey(wire.pkey.get()),
            qos_class: u16::from(qos_high) << 4 | u16::from(bits(qos_sl, 4, 4)),
            sl: Sl(bits(qos_sl, 0, 4)),
            mtu: Selected::from_wire(wire.mtu),
            rate: Selected::from_wire(wire.rate),
            packet_lifetime: Selected::from_wire(wire.packet_lifetime),
            preference: wire.preference,
        })
    }

    fn to_wire(&self) -> Result<PathRecordWire, EmitError> {
        fits("QoSClass", self.qos_class.into(), 12)?;
        fits("SL", self.sl.0.into(), 4)?;
        Ok(PathRecordWire {
            service_id: U64::new(self.service_id.0),
            dgid: self.dgid.0,
            sgid: self.sgid.0,
            dlid: U16::new(self.dlid.0),
            slid: U16::new(self.slid.0),
            flow: U32::new(
                u32::from(self.raw_traffic) << 31
                    | place_word("FlowLabel", self.flow_label, 8, 20)?
                    | u32::from(self.hop_limit),
            ),
            traffic_class: self.traffic_class,
            paths: flag(self.reversible, 7) | place("NumbPath", self.paths_wanted, 0, 7)?,
            pkey: U16::new(self.pkey.0),
            qos_sl: U16::new(self.qos_class << 4 | u16::from(self.sl.0)),
            mtu: self.mtu.to_wire("MTU")?,
            rate: self.rate.to_wire("Rate")?,
            packet_lifetime: self.packet_lifetime.to_wire("PacketLifeTime")?,
            preference: self.preference,
            reserved: [0; 6],
        })
    }
}
