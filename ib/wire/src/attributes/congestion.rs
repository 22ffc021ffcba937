//! Congestion control management (class 0x21; IBA annex A10.4): what a manager tells switches and adapters, and what they have noted.
//!
//! The attributes are kept as they travel: who uses them reads big-endian fields. Reserved bits are sent as they came.

use crate::error::{EmitError, ParseError};
use crate::header::Header;
use crate::mad::{AttributeId, MAD_LEN};
use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Where the class's key is in a MAD.
pub const CC_KEY_OFFSET: usize = 24;
/// Where CongestionLog is in a MAD.
pub const CC_LOG_OFFSET: usize = 32;
/// Where the other attributes are in a MAD.
pub const CC_DATA_OFFSET: usize = 64;

/// CongestionInfo.
pub const CONGESTION_INFO: AttributeId = AttributeId(0x0011);
/// CongestionKeyInfo.
pub const CONGESTION_KEY_INFO: AttributeId = AttributeId(0x0012);
/// CongestionLog.
pub const CONGESTION_LOG: AttributeId = AttributeId(0x0013);
/// SwitchCongestionSetting.
pub const SWITCH_CONGESTION_SETTING: AttributeId = AttributeId(0x0014);
/// SwitchPortCongestionSetting.
pub const SWITCH_PORT_CONGESTION_SETTING: AttributeId = AttributeId(0x0015);
/// CACongestionSetting.
pub const CA_CONGESTION_SETTING: AttributeId = AttributeId(0x0016);
/// CongestionControlTable.
pub const CONGESTION_CONTROL_TABLE: AttributeId = AttributeId(0x0017);
/// Timestamp.
pub const TIMESTAMP: AttributeId = AttributeId(0x0018);

/// Entries of a block of the congestion control table.
pub const CCT_BLOCK: usize = 64;
/// Ports of a block of SwitchPortCongestionSetting.
pub const PORTS_PER_BLOCK: usize = 32;
/// Events in the log of a switch.
pub const SWITCH_EVENTS: usize = 15;
/// Events in the log of an adapter.
pub const CA_EVENTS: usize = 13;

macro_rules! as_it_travels {
    ($($(#[$doc:meta])* $name:ident, $iba:literal, { $($(#[$field_doc:meta])* $field:ident: $kind:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
        #[repr(C)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $kind,)*
        }

        impl Header for $name {
            type Wire = $name;
            const NAME: &'static str = $iba;

            fn from_wire(wire: &$name) -> Result<Self, ParseError> {
                Ok(*wire)
            }

            fn to_wire(&self) -> Result<$name, EmitError> {
                Ok(*self)
            }
        }

        impl Default for $name {
            fn default() -> Self {
                zerocopy::FromZeros::new_zeroed()
            }
        }
    )*};
}

as_it_travels! {
    /// What a node can do.
    CongestionInfo, "CongestionInfo", {
        /// Bit 0: credit starvation is a kind of congestion that a switch knows.
        info: U16,
        /// Blocks of 64 entries that the congestion control table has room for.
        table_blocks: u8,
    }
    /// The key of the class, which Sets must show.
    CongestionKeyInfo, "CongestionKeyInfo", {
        /// The key; 0: none.
        key: U64,
        /// ProtectBit:1 reserved:15. Who has not the key is not shown it.
        protect: U16,
        /// Seconds after a wrong key until the key is shown to all; 0: never.
        lease_s: U16,
        /// Wrong keys.
        violations: U16,
    }
    /// When a switch marks packets.
    SwitchCongestionSetting, "SwitchCongestionSetting", {
        /// Which of the following mean something: victim mask, credit mask, threshold and packet size, credit starvation, marking rate, from bit 0 on.
        control_map: U32,
        /// Ports that mark although they lack credits, the highest first.
        victim_mask: [u8; 32],
        /// Ports that look for credit starvation.
        credit_mask: [u8; 32],
        /// Threshold:4 reserved:4. 0: nothing is marked; 15: at the least congestion.
        threshold: u8,
        /// Packets with fewer blocks of 64 bytes are not marked.
        packet_blocks: u8,
        /// Threshold of credit starvation:4 reserved:12.
        starvation_threshold: U16,
        /// Shift:2 multiplier:14 of the time that credits are held back.
        return_delay: U16,
        /// Packets that go unmarked between two that are marked.
        marking_rate: U16,
    }
    /// The same for one port.
    PortCongestion, "SwitchPortCongestionSetting", {
        /// Valid:1 ControlType:1 reserved:2 Threshold:4.
        threshold: u8,
        /// See [`SwitchCongestionSetting::packet_blocks`].
        packet_blocks: u8,
        /// Marking rate, or with the control type 1 the return delay of credits.
        parameter: U16,
    }
    /// How an adapter's flows of a service level react.
    CaCongestionEntry, "CACongestionEntry", {
        /// The index falls by one in so many units of 1.024 us.
        timer: U16,
        /// A BECN adds this to it.
        increase: u8,
        /// An index that comes to this is noted in the log; 0: none is.
        trigger: u8,
        /// The least that it falls to.
        minimum: u8,
        /// Zeros.
        reserved: [u8; 3],
    }
    /// How an adapter's flows react.
    CaCongestionSetting, "CACongestionSetting", {
        /// Bit 0: an index is a service level's and not a queue pair's.
        port_control: U16,
        /// Service levels whose entries mean something.
        control_map: U16,
        /// By service level.
        entries: [CaCongestionEntry; 16],
    }
    /// A block of the table of injection delays.
    CctBlock, "CongestionControlTable", {
        /// The last index of the whole table.
        limit: U16,
        /// Zeros.
        reserved: U16,
        /// Shift:2 multiplier:14.
        entries: [U16; CCT_BLOCK],
    }
    /// A packet that a switch has marked.
    SwitchEvent, "CongestionLogEventSwitch", {
        /// From.
        slid: U16,
        /// To.
        dlid: U16,
        /// SL:4 reserved:28.
        sl: U32,
        /// Units of 1.024 us.
        time: U32,
    }
    /// A flow whose index came to the trigger.
    CaEvent, "CongestionLogEventCA", {
        /// Local queue pair:24 reserved:8.
        local_qp: U32,
        /// Remote queue pair:24 SL:4 service type:4.
        remote_qp: U32,
        /// The other end.
        lid: U16,
        /// Zeros.
        reserved: U16,
        /// Units of 1.024 us.
        time: U32,
    }
    /// What a switch has marked.
    SwitchLog, "CongestionLog", {
        /// 1.
        kind: u8,
        /// Bit 0: it marks, or has since this was last read.
        flags: u8,
        /// Events since the last reading.
        count: U16,
        /// Units of 1.024 us.
        time: U32,
        /// Ports that have marked, the highest first.
        ports: [u8; 32],
        /// The latest.
        events: [SwitchEvent; SWITCH_EVENTS],
    }
    /// What an adapter has slowed down.
    CaLog, "CongestionLog", {
        /// 2.
        kind: u8,
        /// Bit 0: a flow is slowed down.
        flags: u8,
        /// Events since the last reading.
        count: U16,
        /// Service levels with events.
        levels: U16,
        /// Zeros.
        reserved: U16,
        /// Units of 1.024 us.
        time: U32,
        /// The latest.
        events: [CaEvent; CA_EVENTS],
    }
}

const _: () = {
    assert!(size_of::<SwitchCongestionSetting>() == 76);
    assert!(size_of::<CaCongestionSetting>() == 132);
    assert!(size_of::<CctBlock>() == 132);
    assert!(CC_LOG_OFFSET + size_of::<SwitchLog>() <= MAD_LEN);
    assert!(CC_LOG_OFFSET + size_of::<CaLog>() <= MAD_LEN);
};

impl SwitchCongestionSetting {
    /// Whether a mask of ports, the highest first, has one.
    pub fn has(mask: &[u8; 32], port: u8) -> bool {
        mask[31 - usize::from(port / 8)] >> (port % 8) & 1 != 0
    }

    /// Adds a port to such a mask.
    pub fn add(mask: &mut [u8; 32], port: u8) {
        mask[31 - usize::from(port / 8)] |= 1 << (port % 8);
    }
}
