//! A path as REQ and LAP carry it. The two lay the same fields out differently.

use crate::error::EmitError;
use crate::header::{U24, bits, fits, flag, place};
use crate::types::{Gid, Lid, Sl, TimeCode};
use std::fmt;
use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A path between two ports, seen from the side that sends the message. RoCE has no LIDs: both are 0xffff there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CmPath {
    /// LID of the sender's port.
    pub local_lid: Lid,
    /// LID of the receiver's port.
    pub remote_lid: Lid,
    /// GID of the sender's port.
    pub local_gid: Gid,
    /// GID of the receiver's port.
    pub remote_gid: Gid,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Greatest packet rate as the IBA's code, 6 bits.
    pub packet_rate: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Service level, 4 bits.
    pub sl: Sl,
    /// The two ports are in one subnet.
    pub subnet_local: bool,
    /// What the receiver takes as its own queue pair's acknowledgement time-out: the way there and back, and the
    /// sender's delay (IBA 12.7).
    pub local_ack_timeout: TimeCode,
}

impl CmPath {
    /// Whether there is a path: an alternate path that is not offered is all zeros, and no port has LID 0.
    pub const fn is_present(&self) -> bool {
        self.local_lid.0 != 0
    }
}

impl fmt::Display for CmPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{} > {}/{}",
            self.local_lid, self.local_gid, self.remote_lid, self.remote_gid
        )
    }
}

const FLOW_LABEL_BITS: u32 = 20;
const RATE_BITS: u32 = 6;
const SL_SHIFT: u32 = 4;
const SUBNET_LOCAL_SHIFT: u32 = 3;
const ACK_TIMEOUT_SHIFT: u32 = 3;

/// A path as it travels in a REQ.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct ReqPathWire {
    local_lid: U16,
    remote_lid: U16,
    local_gid: [u8; 16],
    remote_gid: [u8; 16],
    /// FlowLabel:20 reserved:6 PacketRate:6.
    flow_rate: U32,
    traffic_class: u8,
    hop_limit: u8,
    /// SL:4 SubnetLocal:1 reserved:3.
    sl: u8,
    /// LocalACKTimeout:5; the other three are the REQ's.
    ack_timeout: u8,
}

impl ReqPathWire {
    const FLOW_SHIFT: u32 = 12;

    pub(super) fn value(&self) -> CmPath {
        let flow_rate = self.flow_rate.get();
        CmPath {
            local_lid: Lid(self.local_lid.get()),
            remote_lid: Lid(self.remote_lid.get()),
            local_gid: Gid(self.local_gid),
            remote_gid: Gid(self.remote_gid),
            flow_label: flow_rate >> Self::FLOW_SHIFT,
            // Six bits.
            packet_rate: (flow_rate & ((1 << RATE_BITS) - 1)) as u8,
            traffic_class: self.traffic_class,
            hop_limit: self.hop_limit,
            sl: Sl(bits(self.sl, SL_SHIFT, 4)),
            subnet_local: bits(self.sl, SUBNET_LOCAL_SHIFT, 1) != 0,
            local_ack_timeout: TimeCode(bits(self.ack_timeout, ACK_TIMEOUT_SHIFT, 5)),
        }
    }

    /// The three bits after the acknowledgement time-out.
    pub(super) const fn low_bits(&self) -> u8 {
        bits(self.ack_timeout, 0, ACK_TIMEOUT_SHIFT)
    }

    /// `low_bits`, at most three, follow the acknowledgement time-out.
    pub(super) fn new(path: &CmPath, low_bits: u8) -> Result<Self, EmitError> {
        let flow = fits("FlowLabel", path.flow_label, FLOW_LABEL_BITS)?;
        let rate = fits("PacketRate", path.packet_rate.into(), RATE_BITS)?;
        Ok(ReqPathWire {
            local_lid: U16::new(path.local_lid.0),
            remote_lid: U16::new(path.remote_lid.0),
            local_gid: path.local_gid.0,
            remote_gid: path.remote_gid.0,
            flow_rate: U32::new(flow << Self::FLOW_SHIFT | rate),
            traffic_class: path.traffic_class,
            hop_limit: path.hop_limit,
            sl: place("SL", path.sl.0, SL_SHIFT, 4)? | flag(path.subnet_local, SUBNET_LOCAL_SHIFT),
            ack_timeout: place(
                "LocalACKTimeout",
                path.local_ack_timeout.0,
                ACK_TIMEOUT_SHIFT,
                5,
            )? | low_bits,
        })
    }
}

/// A path as it travels in a LAP.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct LapPathWire {
    local_lid: U16,
    remote_lid: U16,
    local_gid: [u8; 16],
    remote_gid: [u8; 16],
    /// FlowLabel:20 reserved:4.
    flow: U24,
    traffic_class: u8,
    hop_limit: u8,
    /// reserved:2 PacketRate:6.
    rate: u8,
    /// SL:4 SubnetLocal:1 reserved:3.
    sl: u8,
    /// LocalACKTimeout:5 reserved:3.
    ack_timeout: u8,
}

impl LapPathWire {
    const FLOW_SHIFT: u32 = 4;

    pub(super) fn value(&self) -> CmPath {
        CmPath {
            local_lid: Lid(self.local_lid.get()),
            remote_lid: Lid(self.remote_lid.get()),
            local_gid: Gid(self.local_gid),
            remote_gid: Gid(self.remote_gid),
            flow_label: self.flow.get() >> Self::FLOW_SHIFT,
            packet_rate: bits(self.rate, 0, RATE_BITS),
            traffic_class: self.traffic_class,
            hop_limit: self.hop_limit,
            sl: Sl(bits(self.sl, SL_SHIFT, 4)),
            subnet_local: bits(self.sl, SUBNET_LOCAL_SHIFT, 1) != 0,
            local_ack_timeout: TimeCode(bits(self.ack_timeout, ACK_TIMEOUT_SHIFT, 5)),
        }
    }

    pub(super) fn new(path: &CmPath) -> Result<Self, EmitError> {
        let flow = fits("FlowLabel", path.flow_label, FLOW_LABEL_BITS)?;
        Ok(LapPathWire {
            local_lid: U16::new(path.local_lid.0),
            remote_lid: U16::new(path.remote_lid.0),
            local_gid: path.local_gid.0,
            remote_gid: path.remote_gid.0,
            flow: U24::new("FlowLabel", flow << Self::FLOW_SHIFT)?,
            traffic_class: path.traffic_class,
            hop_limit: path.hop_limit,
            rate: place("PacketRate", path.packet_rate, 0, RATE_BITS)?,
            sl: place("SL", path.sl.0, SL_SHIFT, 4)? | flag(path.subnet_local, SUBNET_LOCAL_SHIFT),
            ack_timeout: place(
                "LocalACKTimeout",
                path.local_ack_timeout.0,
                ACK_TIMEOUT_SHIFT,
                5,
            )?,
        })
    }
}
