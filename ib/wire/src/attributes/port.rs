//! PortInfo (IBA 14.2.5.6) and P_KeyTable (IBA 14.2.5.7).

use crate::error::{EmitError, ParseError};
use crate::header::{Header, U24, bits, flag, place};
use crate::management::numbers;
use crate::types::{Lid, MKey, PKey, Sl, TimeCode};
use std::fmt;
use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

numbers! {
    /// State of a port's link layer, 4 bits.
    PortState(u8) {
        NO_CHANGE = 0, "no change";
        DOWN = 1, "Down";
        INIT = 2, "Initialize";
        ARMED = 3, "Armed";
        ACTIVE = 4, "Active";
    }
}

numbers! {
    /// State of a port's physical layer, 4 bits.
    PhysState(u8) {
        NO_CHANGE = 0, "no change";
        SLEEP = 1, "Sleep";
        POLLING = 2, "Polling";
        DISABLED = 3, "Disabled";
        TRAINING = 4, "PortConfigurationTraining";
        LINK_UP = 5, "LinkUp";
        ERROR_RECOVERY = 6, "LinkErrorRecovery";
        PHY_TEST = 7, "Phy Test";
    }
}

bitflags::bitflags! {
    /// What a port can do: CapabilityMask of PortInfo. Bits not named here are kept.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
    pub struct PortCapabilities: u32 {
        /// A subnet manager runs at the port.
        const IS_SM = 1 << 1;
        /// Notices can be asked for.
        const NOTICE = 1 << 2;
        /// Traps are sent.
        const TRAP = 1 << 3;
        /// All inter-packet delays.
        const OPTIONAL_IPD = 1 << 4;
        /// Automatic path migration.
        const AUTOMATIC_MIGRATION = 1 << 5;
        /// SLs are mapped to VLs.
        const SL_MAPPING = 1 << 6;
        /// The management key outlives a reset.
        const MKEY_NVRAM = 1 << 7;
        /// The P_Key table outlives a reset.
        const PKEY_NVRAM = 1 << 8;
        /// LedInfo.
        const LED_INFO = 1 << 9;
        /// The subnet manager is switched off.
        const SM_DISABLED = 1 << 10;
        /// There is a system image GUID.
        const SYSTEM_IMAGE_GUID = 1 << 11;
        /// Traps about P_Keys at a switch's external ports.
        const PKEY_SWITCH_EXTERNAL_PORT_TRAP = 1 << 12;
        /// CableInfo.
        const CABLE_INFO = 1 << 13;
        /// Extended link speeds.
        const EXTENDED_SPEEDS = 1 << 14;
        /// The second capability mask means something.
        const CAPABILITY_MASK2 = 1 << 15;
        /// A communication manager.
        const COMMUNICATION_MANAGEMENT = 1 << 16;
        /// SNMP in MADs.
        const SNMP_TUNNELING = 1 << 17;
        /// Reinitialization.
        const REINIT = 1 << 18;
        /// Device management.
        const DEVICE_MANAGEMENT = 1 << 19;
        /// A class of the vendor's.
        const VENDOR_CLASS = 1 << 20;
        /// Traps about directed routes.
        const DR_NOTICE = 1 << 21;
        /// Traps about changed capabilities.
        const CAPABILITY_MASK_NOTICE = 1 << 22;
        /// Boot management.
        const BOOT_MANAGEMENT = 1 << 23;
        /// The link's round trip is measured.
        const LINK_ROUND_TRIP_LATENCY = 1 << 24;
        /// Clients can be told to register anew.
        const CLIENT_REREGISTRATION = 1 << 25;
        /// Traps about other local changes.
        const OTHER_LOCAL_CHANGES_NOTICE = 1 << 26;
        /// Table of pairs of speed and width.
        const LINK_SPEED_WIDTH_PAIRS_TABLE = 1 << 27;
        /// MADs of the vendor's.
        const VENDOR_MADS = 1 << 28;
        /// Traps about multicast P_Keys can be suppressed.
        const MULTICAST_PKEY_TRAP_SUPPRESSION = 1 << 29;
        /// Top of the multicast forwarding table.
        const MULTICAST_FDB_TOP = 1 << 30;
        /// HierarchyInfo.
        const HIERARCHY_INFO = 1 << 31;
        const _ = !0;
    }
}

/// A PortInfo as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct PortInfoWire {
    mkey: U64,
    gid_prefix: U64,
    lid: U16,
    master_sm_lid: U16,
    capabilities: U32,
    diag_code: U16,
    mkey_lease_period: U16,
    local_port: u8,
    link_width_enabled: u8,
    link_width_supported: u8,
    link_width_active: u8,
    /// LinkSpeedSupported:4 PortState:4.
    state: u8,
    /// PortPhysicalState:4 LinkDownDefaultState:4.
    phys_state: u8,
    /// M_KeyProtectBits:2 reserved:3 LMC:3.
    mkey_lmc: u8,
    /// LinkSpeedActive:4 LinkSpeedEnabled:4.
    link_speed: u8,
    /// NeighborMTU:4 MasterSMSL:4.
    mtu_smsl: u8,
    /// VLCap:4 InitType:4.
    vl_cap: u8,
    vl_high_limit: u8,
    vl_arbitration_high_cap: u8,
    vl_arbitration_low_cap: u8,
    /// InitTypeReply:4 MTUCap:4.
    mtu_cap: u8,
    /// VLStallCount:3 HOQLife:5.
    vl_stall_life: u8,
    /// OperationalVLs:4 PartitionEnforcementInbound:1 ..Outbound:1 FilterRawInbound:1 ..Outbound:1.
    vls_enforcement: u8,
    mkey_violations: U16,
    pkey_violations: U16,
    qkey_violations: U16,
    guid_cap: u8,
    /// ClientReregister:1 MulticastPKeyTrapSuppressionEnabled:2 SubnetTimeOut:5.
    subnet_timeout: u8,
    /// reserved:3 RespTimeValue:5.
    response_time: u8,
    /// LocalPhyErrors:4 OverrunErrors:4.
    error_thresholds: u8,
    max_credit_hint: U16,
    reserved: u8,
    link_round_trip_latency: U24,
    capabilities2: U16,
    /// LinkSpeedExtActive:4 LinkSpeedExtSupported:4.
    link_speed_ext: u8,
    /// reserved:3 LinkSpeedExtEnabled:5.
    link_speed_ext_enabled: u8,
}

/// What a port is, can do and is told to do. Widths, speeds and VL counts are the IBA's codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortInfo {
    /// Management key.
    pub mkey: MKey,
    /// Subnet prefix of the port's GIDs.
    pub gid_prefix: u64,
    /// The port's first LID.
    pub lid: Lid,
    /// LID of the master subnet manager.
    pub master_sm_lid: Lid,
    /// What the port can do.
    pub capabilities: PortCapabilities,
    /// Diagnostic code.
    pub diag_code: u16,
    /// Seconds after which the key's protection lapses; 0 for never.
    pub mkey_lease_period_s: u16,
    /// The port by which the question came.
    pub local_port: u8,
    /// Link widths that may be used.
    pub link_width_enabled: u8,
    /// Link widths that there are.
    pub link_width_supported: u8,
    /// Link width in use.
    pub link_width_active: u8,
    /// Link speeds that there are, 4 bits.
    pub link_speed_supported: u8,
    /// State of the link layer.
    pub state: PortState,
    /// State of the physical layer.
    pub phys_state: PhysState,
    /// Physical state that a link falls back to.
    pub link_down_default_state: PhysState,
    /// What needs the key, 2 bits.
    pub mkey_protect: u8,
    /// LID mask control, 3 bits: the port has 2^LMC LIDs.
    pub lmc: u8,
    /// Link speed in use, 4 bits.
    pub link_speed_active: u8,
    /// Link speeds that may be used, 4 bits.
    pub link_speed_enabled: u8,
    /// MTU of the link, a code of `Mtu`.
    pub neighbor_mtu: u8,
    /// Service level towards the subnet manager.
    pub master_sm_sl: Sl,
    /// Virtual lanes that there are, 4 bits.
    pub vl_cap: u8,
    /// What initialization is wanted, 4 bits.
    pub init_type: u8,
    /// Limit of high priority of the VL arbiter.
    pub vl_high_limit: u8,
    /// Entries of the arbiter's high-priority table.
    pub vl_arbitration_high_cap: u8,
    /// Entries of the arbiter's low-priority table.
    pub vl_arbitration_low_cap: u8,
    /// What initialization was done, 4 bits.
    pub init_type_reply: u8,
    /// Largest MTU that there is, a code of `Mtu`.
    pub mtu_cap: u8,
    /// Packets dropped in a row before a lane stalls, 3 bits.
    pub vl_stall_count: u8,
    /// Longest time at the head of a switch's queue, 5 bits.
    pub hoq_life: u8,
    /// Virtual lanes in use, 4 bits.
    pub operational_vls: u8,
    /// A switch checks the partition of packets that come in.
    pub partition_enforcement_inbound: bool,
    /// A switch checks the partition of packets that go out.
    pub partition_enforcement_outbound: bool,
    /// A switch drops raw packets that come in.
    pub filter_raw_inbound: bool,
    /// A switch drops raw packets that go out.
    pub filter_raw_outbound: bool,
    /// MADs with a wrong management key.
    pub mkey_violations: u16,
    /// Packets with a wrong partition key.
    pub pkey_violations: u16,
    /// Packets with a wrong Q_Key.
    pub qkey_violations: u16,
    /// Entries of the GUID table.
    pub guid_cap: u8,
    /// Clients must register anew with subnet administration.
    pub client_reregister: bool,
    /// Suppression of traps about multicast partition violations, 2 bits.
    pub multicast_pkey_trap_suppression: u8,
    /// Time that a trap and its answer take in the subnet at most.
    pub subnet_timeout: TimeCode,
    /// The port answers SMPs within this time.
    pub response_time: TimeCode,
    /// Threshold of local link integrity errors, 4 bits.
    pub local_phy_errors: u8,
    /// Threshold of buffer overruns, 4 bits.
    pub overrun_errors: u8,
    /// Credits that keep the link busy.
    pub max_credit_hint: u16,
    /// Round trip of the link in units of 4 ns, 24 bits.
    pub link_round_trip_latency: u32,
    /// What else the port can do.
    pub capabilities2: u16,
    /// Extended link speed in use, 4 bits.
    pub link_speed_ext_active: u8,
    /// Extended link speeds that there are, 4 bits.
    pub link_speed_ext_supported: u8,
    /// Extended link speeds that may be used, 5 bits.
    pub link_speed_ext_enabled: u8,
}

impl Header for PortInfo {
    type Wire = PortInfoWire;
    const NAME: &'static str = "PortInfo";

    fn from_wire(wire: &PortInfoWire) -> Result<Self, ParseError> {
        Ok(PortInfo {
            mkey: MKey(wire.mkey.get()),
            gid_prefix: wire.gid_prefix.get(),
            lid: Lid(wire.lid.get()),
            master_sm_lid: Lid(wire.master_sm_lid.get()),
            capabilities: PortCapabilities::from_bits_retain(wire.capabilities.get()),
            diag_code: wire.diag_code.get(),
            mkey_lease_period_s: wire.mkey_lease_period.get(),
            local_port: wire.local_port,
            link_width_enabled: wire.link_width_enabled,
            link_width_supported: wire.link_width_supported,
            link_width_active: wire.link_width_active,
            link_speed_supported: bits(wire.state, 4, 4),
            state: PortState(bits(wire.state, 0, 4)),
            phys_state: PhysState(bits(wire.phys_state, 4, 4)),
            link_down_default_state: PhysState(bits(wire.phys_state, 0, 4)),
            mkey_protect: bits(wire.mkey_lmc, 6, 2),
            lmc: bits(wire.mkey_lmc, 0, 3),
            link_speed_active: bits(wire.link_speed, 4, 4),
            link_speed_enabled: bits(wire.link_speed, 0, 4),
            neighbor_mtu: bits(wire.mtu_smsl, 4, 4),
            master_sm_sl: Sl(bits(wire.mtu_smsl, 0, 4)),
            vl_cap: bits(wire.vl_cap, 4, 4),
            init_type: bits(wire.vl_cap, 0, 4),
            vl_high_limit: wire.vl_high_limit,
            vl_arbitration_high_cap: wire.vl_arbitration_high_cap,
            vl_arbitration_low_cap: wire.vl_arbitration_low_cap,
            init_type_reply: bits(wire.mtu_cap, 4, 4),
            mtu_cap: bits(wire.mtu_cap, 0, 4),
            vl_stall_count: bits(wire.vl_stall_life, 5, 3),
            hoq_life: bits(wire.vl_stall_life, 0, 5),
            operational_vls: bits(wire.vls_enforcement, 4, 4),
            partition_enforcement_inbound: bits(wire.vls_enforcement, 3, 1) != 0,
            partition_enforcement_outbound: bits(wire.vls_enforcement, 2, 1) != 0,
            filter_raw_inbound: bits(wire.vls_enforcement, 1, 1) != 0,
            filter_raw_outbound: bits(wire.vls_enforcement, 0, 1) != 0,
            mkey_violations: wire.mkey_violations.get(),
            pkey_violations: wire.pkey_violations.get(),
            qkey_violations: wire.qkey_violations.get(),
            guid_cap: wire.guid_cap,
            client_reregister: bits(wire.subnet_timeout, 7, 1) != 0,
            multicast_pkey_trap_suppression: bits(wire.subnet_timeout, 5, 2),
            subnet_timeout: TimeCode(bits(wire.subnet_timeout, 0, 5)),
            response_time: TimeCode(bits(wire.response_time, 0, 5)),
            local_phy_errors: bits(wire.error_thresholds, 4, 4),
            overrun_errors: bits(wire.error_thresholds, 0, 4),
            max_credit_hint: wire.max_credit_hint.get(),
            link_round_trip_latency: wire.link_round_trip_latency.get(),
            capabilities2: wire.capabilities2.get(),
            link_speed_ext_active: bits(wire.link_speed_ext, 4, 4),
            link_speed_ext_supported: bits(wire.link_speed_ext, 0, 4),
            link_speed_ext_enabled: bits(wire.link_speed_ext_enabled, 0, 5),
        })
    }

    fn to_wire(&self) -> Result<PortInfoWire, EmitError> {
        Ok(PortInfoWire {
            mkey: U64::new(self.mkey.0),
            gid_prefix: U64::new(self.gid_prefix),
            lid: U16::new(self.lid.0),
            master_sm_lid: U16::new(self.master_sm_lid.0),
            capabilities: U32::new(self.capabilities.bits()),
            diag_code: U16::new(self.diag_code),
            mkey_lease_period: U16::new(self.mkey_lease_period_s),
            local_port: self.local_port,
            link_width_enabled: self.link_width_enabled,
            link_width_supported: self.link_width_supported,
            link_width_active: self.link_width_active,
            state: place("LinkSpeedSupported", self.link_speed_supported, 4, 4)?
                | place("PortState", self.state.0, 0, 4)?,
            phys_state: place("PortPhysicalState", self.phys_state.0, 4, 4)?
                | place("LinkDownDefaultState", self.link_down_default_state.0, 0, 4)?,
            mkey_lmc: place("M_KeyProtectBits", self.mkey_protect, 6, 2)?
                | place("LMC", self.lmc, 0, 3)?,
            link_speed: place("LinkSpeedActive", self.link_speed_active, 4, 4)?
                | place("LinkSpeedEnabled", self.link_speed_enabled, 0, 4)?,
            mtu_smsl: place("NeighborMTU", self.neighbor_mtu, 4, 4)?
                | place("MasterSMSL", self.master_sm_sl.0, 0, 4)?,
            vl_cap: place("VLCap", self.vl_cap, 4, 4)? | place("InitType", self.init_type, 0, 4)?,
            vl_high_limit: self.vl_high_limit,
            vl_arbitration_high_cap: self.vl_arbitration_high_cap,
            vl_arbitration_low_cap: self.vl_arbitration_low_cap,
            mtu_cap: place("InitTypeReply", self.init_type_reply, 4, 4)?
                | place("MTUCap", self.mtu_cap, 0, 4)?,
            vl_stall_life: place("VLStallCount", self.vl_stall_count, 5, 3)?
                | place("HOQLife", self.hoq_life, 0, 5)?,
            vls_enforcement: place("OperationalVLs", self.operational_vls, 4, 4)?
                | flag(self.partition_enforcement_inbound, 3)
                | flag(self.partition_enforcement_outbound, 2)
                | flag(self.filter_raw_inbound, 1)
                | flag(self.filter_raw_outbound, 0),
            mkey_violations: U16::new(self.mkey_violations),
            pkey_violations: U16::new(self.pkey_violations),
            qkey_violations: U16::new(self.qkey_violations),
            guid_cap: self.guid_cap,
            subnet_timeout: flag(self.client_reregister, 7)
                | place(
                    "MulticastPKeyTrapSuppressionEnabled",
                    self.multicast_pkey_trap_suppression,
                    5,
                    2,
                )?
                | place("SubnetTimeOut", self.subnet_timeout.0, 0, 5)?,
            response_time: place("RespTimeValue", self.response_time.0, 0, 5)?,
            error_thresholds: place("LocalPhyErrors", self.local_phy_errors, 4, 4)?
                | place("OverrunErrors", self.overrun_errors, 0, 4)?,
            max_credit_hint: U16::new(self.max_credit_hint),
            reserved: 0,
            link_round_trip_latency: U24::new(
                "LinkRoundTripLatency",
                self.link_round_trip_latency,
            )?,
            capabilities2: U16::new(self.capabilities2),
            link_speed_ext: place("LinkSpeedExtActive", self.link_speed_ext_active, 4, 4)?
                | place("LinkSpeedExtSupported", self.link_speed_ext_supported, 0, 4)?,
            link_speed_ext_enabled: place(
                "LinkSpeedExtEnabled",
                self.link_speed_ext_enabled,
                0,
                5,
            )?,
        })
    }
}

/// A MlnxExtendedPortInfo as it travels: each value is the last byte of four.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct MlnxExtendedPortInfoWire {
    reserved1: [u8; 3],
    state_change_enable: u8,
    reserved2: [u8; 3],
    link_speed_supported: u8,
    reserved3: [u8; 3],
    link_speed_enabled: u8,
    reserved4: [u8; 3],
    link_speed_active: u8,
    reserved5: [u8; 48],
}

/// What Mellanox's devices say of a port beside its PortInfo, which shows a link of FDR10 as one of QDR. Not the IBA's: the layout is that of libibmad's fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MlnxExtendedPortInfo {
    /// Whether a Set may change the link's state; not kept.
    pub state_change_enable: u8,
    /// Speeds that there are, of [`Self::FDR10`].
    pub link_speed_supported: u8,
    /// Speeds that may be used.
    pub link_speed_enabled: u8,
    /// The speed in use, 0 if it is one of PortInfo's.
    pub link_speed_active: u8,
}

impl MlnxExtendedPortInfo {
    /// 10.3125 Gb/s a lane.
    pub const FDR10: u8 = 1;
}

impl Header for MlnxExtendedPortInfo {
    type Wire = MlnxExtendedPortInfoWire;
    const NAME: &'static str = "MlnxExtendedPortInfo";

    fn from_wire(wire: &MlnxExtendedPortInfoWire) -> Result<Self, ParseError> {
        Ok(MlnxExtendedPortInfo {
            state_change_enable: wire.state_change_enable,
            link_speed_supported: wire.link_speed_supported,
            link_speed_enabled: wire.link_speed_enabled,
            link_speed_active: wire.link_speed_active,
        })
    }

    fn to_wire(&self) -> Result<MlnxExtendedPortInfoWire, EmitError> {
        Ok(MlnxExtendedPortInfoWire {
            reserved1: [0; 3],
            state_change_enable: self.state_change_enable,
            reserved2: [0; 3],
            link_speed_supported: self.link_speed_supported,
            reserved3: [0; 3],
            link_speed_enabled: self.link_speed_enabled,
            reserved4: [0; 3],
            link_speed_active: self.link_speed_active,
            reserved5: [0; 48],
        })
    }
}

/// Entries of a block of a P_Key table.
pub const PKEYS_PER_BLOCK: usize = 32;

/// A P_KeyTable block as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(transparent)]
pub struct PKeyTableWire([U16; PKEYS_PER_BLOCK]);

/// A block of a port's partition keys; 0 for an unused entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PKeyTable(pub [PKey; PKEYS_PER_BLOCK]);

impl Header for PKeyTable {
    type Wire = PKeyTableWire;
    const NAME: &'static str = "P_KeyTable";

    fn from_wire(wire: &PKeyTableWire) -> Result<Self, ParseError> {
        Ok(PKeyTable(wire.0.map(|pkey| PKey(pkey.get()))))
    }

    fn to_wire(&self) -> Result<PKeyTableWire, EmitError> {
        Ok(PKeyTableWire(self.0.map(|pkey| U16::new(pkey.0))))
    }
}
