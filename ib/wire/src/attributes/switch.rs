//! SwitchInfo (IBA 14.2.5) and SMInfo (IBA 14.2.5.13).

use crate::error::{EmitError, ParseError};
use crate::header::{Header, bits, flag, place};
use crate::management::numbers;
use crate::types::{Guid, Lid, SmKey, TimeCode};
use std::fmt;
use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A SwitchInfo as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SwitchInfoWire {
    linear_fdb_cap: U16,
    random_fdb_cap: U16,
    multicast_fdb_cap: U16,
    linear_fdb_top: U16,
    default_port: u8,
    default_multicast_primary_port: u8,
    default_multicast_not_primary_port: u8,
    /// LifeTimeValue:5 PortStateChange:1 OptimizedSLtoVLMappingProgramming:2.
    life_state: u8,
    lids_per_port: U16,
    partition_enforcement_cap: U16,
    /// InboundEnforcementCap:1 Outbound..:1 FilterRawInboundCap:1 ..Outbound:1 EnhancedPort0:1 reserved:3.
    caps: u8,
    reserved: u8,
    multicast_fdb_top: U16,
}

/// What a switch can do and is told to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SwitchInfo {
    /// Entries of the linear forwarding table.
    pub linear_fdb_cap: u16,
    /// Entries of the random forwarding table.
    pub random_fdb_cap: u16,
    /// Entries of the multicast forwarding table.
    pub multicast_fdb_cap: u16,
    /// Highest LID in the linear forwarding table.
    pub linear_fdb_top: Lid,
    /// Port for LIDs that are in no random table.
    pub default_port: u8,
    /// Port for multicast LIDs that are in no table, if they came by another.
    pub default_multicast_primary_port: u8,
    /// Port for multicast LIDs that are in no table, if they came by the primary.
    pub default_multicast_not_primary_port: u8,
    /// Longest time of a packet in the switch: 20 and more is without limit.
    pub lifetime: TimeCode,
    /// A port has changed its state; written 1 to clear.
    pub port_state_change: bool,
    /// Short ways to program SL to VL tables, 2 bits.
    pub optimized_sl_to_vl: u8,
    /// LIDs of a port in the random forwarding table.
    pub lids_per_port: u16,
    /// Entries of a port's partition enforcement table.
    pub partition_enforcement_cap: u16,
    /// Can check the partition of packets that come in.
    pub inbound_enforcement_cap: bool,
    /// Can check the partition of packets that go out.
    pub outbound_enforcement_cap: bool,
    /// Can drop raw packets that come in.
    pub filter_raw_inbound_cap: bool,
    /// Can drop raw packets that go out.
    pub filter_raw_outbound_cap: bool,
    /// Port 0 can do what an adapter's port can.
    pub enhanced_port0: bool,
    /// Highest multicast LID in use; 0 for not told.
    pub multicast_fdb_top: Lid,
}

impl Header for SwitchInfo {
    type Wire = SwitchInfoWire;
    const NAME: &'static str = "SwitchInfo";

    fn from_wire(wire: &SwitchInfoWire) -> Result<Self, ParseError> {
        Ok(SwitchInfo {
            linear_fdb_cap: wire.linear_fdb_cap.get(),
            random_fdb_cap: wire.random_fdb_cap.get(),
            multicast_fdb_cap: wire.multicast_fdb_cap.get(),
            linear_fdb_top: Lid(wire.linear_fdb_top.get()),
            default_port: wire.default_port,
            default_multicast_primary_port: wire.default_multicast_primary_port,
            default_multicast_not_primary_port: wire.default_multicast_not_primary_port,
            lifetime: TimeCode(bits(wire.life_state, 3, 5)),
            port_state_change: bits(wire.life_state, 2, 1) != 0,
            optimized_sl_to_vl: bits(wire.life_state, 0, 2),
            lids_per_port: wire.lids_per_port.get(),
            partition_enforcement_cap: wire.partition_enforcement_cap.get(),
            inbound_enforcement_cap: bits(wire.caps, 7, 1) != 0,
            outbound_enforcement_cap: bits(wire.caps, 6, 1) != 0,
            filter_raw_inbound_cap: bits(wire.caps, 5, 1) != 0,
            filter_raw_outbound_cap: bits(wire.caps, 4, 1) != 0,
            enhanced_port0: bits(wire.caps, 3, 1) != 0,
            multicast_fdb_top: Lid(wire.multicast_fdb_top.get()),
        })
    }

    fn to_wire(&self) -> Result<SwitchInfoWire, EmitError> {
        Ok(SwitchInfoWire {
            linear_fdb_cap: U16::new(self.linear_fdb_cap),
            random_fdb_cap: U16::new(self.random_fdb_cap),
            multicast_fdb_cap: U16::new(self.multicast_fdb_cap),
            linear_fdb_top: U16::new(self.linear_fdb_top.0),
            default_port: self.default_port,
            default_multicast_primary_port: self.default_multicast_primary_port,
            default_multicast_not_primary_port: self.default_multicast_not_primary_port,
            life_state: place("LifeTimeValue", self.lifetime.0, 3, 5)?
                | flag(self.port_state_change, 2)
                | place(
                    "OptimizedSLtoVLMappingProgramming",
                    self.optimized_sl_to_vl,
                    0,
                    2,
                )?,
            lids_per_port: U16::new(self.lids_per_port),
            partition_enforcement_cap: U16::new(self.partition_enforcement_cap),
            caps: flag(self.inbound_enforcement_cap, 7)
                | flag(self.outbound_enforcement_cap, 6)
                | flag(self.filter_raw_inbound_cap, 5)
                | flag(self.filter_raw_outbound_cap, 4)
                | flag(self.enhanced_port0, 3),
            reserved: 0,
            multicast_fdb_top: U16::new(self.multicast_fdb_top.0),
        })
    }
}

numbers! {
    /// State of a subnet manager, 4 bits.
    SmState(u8) {
        NOT_ACTIVE = 0, "not active";
        DISCOVERING = 1, "discovering";
        STANDBY = 2, "standby";
        MASTER = 3, "master";
    }
}

/// An SMInfo as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SmInfoWire {
    guid: U64,
    sm_key: U64,
    activity: U32,
    /// Priority:4 SMState:4.
    state: u8,
}

/// What a subnet manager says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SmInfo {
    /// Its port.
    pub guid: Guid,
    /// Its key, told to those alone that have shown it.
    pub sm_key: SmKey,
    /// Counts as long as the manager lives.
    pub activity: u32,
    /// Among several the highest is master, 4 bits.
    pub priority: u8,
    /// Its state.
    pub state: SmState,
}

impl Header for SmInfo {
    type Wire = SmInfoWire;
    const NAME: &'static str = "SMInfo";

    fn from_wire(wire: &SmInfoWire) -> Result<Self, ParseError> {
        Ok(SmInfo {
            guid: Guid(wire.guid.get()),
            sm_key: SmKey(wire.sm_key.get()),
            activity: wire.activity.get(),
            priority: bits(wire.state, 4, 4),
            state: SmState(bits(wire.state, 0, 4)),
        })
    }

    fn to_wire(&self) -> Result<SmInfoWire, EmitError> {
        Ok(SmInfoWire {
            guid: U64::new(self.guid.0),
            sm_key: U64::new(self.sm_key.0),
            activity: U32::new(self.activity),
            state: place("Priority", self.priority, 4, 4)? | place("SMState", self.state.0, 0, 4)?,
        })
    }
}
