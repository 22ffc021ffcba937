//! PortCounters, PortCountersExtended and the optional counters of a port (IBA 16.1.3.5, 16.1.4): what performance management reads and resets.

use crate::error::{EmitError, ParseError};
use crate::header::{Header, bits, place};
use crate::mad::AttributeId;
use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Where the attribute begins in a MAD of class Perf: after the common header and 40 reserved bytes.
pub const PERF_DATA_OFFSET: usize = 64;
/// The port that means all ports of a switch.
pub const ALL_PORTS: u8 = 255;

/// Attributes of performance management (IBA 16.1.2).
pub mod perf {
    use super::AttributeId;

    /// PortCounters.
    pub const PORT_COUNTERS: AttributeId = AttributeId(0x0012);
    /// PortRcvErrorDetails.
    pub const PORT_RCV_ERROR_DETAILS: AttributeId = AttributeId(0x0015);
    /// PortXmitDiscardDetails.
    pub const PORT_XMIT_DISCARD_DETAILS: AttributeId = AttributeId(0x0016);
    /// PortXmitDataSL.
    pub const PORT_XMIT_DATA_SL: AttributeId = AttributeId(0x0036);
    /// PortRcvDataSL.
    pub const PORT_RCV_DATA_SL: AttributeId = AttributeId(0x0037);
    /// PortCountersExtended.
    pub const PORT_COUNTERS_EXTENDED: AttributeId = AttributeId(0x001d);
    /// Of ClassPortInfo's capability mask: all ports can be asked for at once.
    pub const ALL_PORT_SELECT: u16 = 1 << 8;
    /// There is PortCountersExtended.
    pub const EXTENDED_WIDTH: u16 = 1 << 9;
    /// PortCounters has PortXmitWait.
    pub const XMIT_WAIT: u16 = 1 << 12;
    /// Of its second capability mask: PortCountersExtended has the additional counters, of errors and waits.
    pub const ADDITIONAL: u32 = 1 << 1;
}

/// A PortCounters as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct PortCountersWire {
    reserved: u8,
    port_select: u8,
    counter_select: U16,
    symbol_errors: U16,
    link_error_recovery: u8,
    link_downed: u8,
    rcv_errors: U16,
    rcv_remote_physical_errors: U16,
    rcv_switch_relay_errors: U16,
    xmit_discards: U16,
    xmit_constraint_errors: u8,
    rcv_constraint_errors: u8,
    counter_select2: u8,
    /// LocalLinkIntegrityErrors:4 ExcessiveBufferOverrunErrors:4.
    integrity_overrun: u8,
    qp1_dropped: U16,
    vl15_dropped: U16,
    xmit_data: U32,
    rcv_data: U32,
    xmit_packets: U32,
    rcv_packets: U32,
    xmit_wait: U32,
}

/// Counters of a port; they stop at their largest value. Data are counted in words of four bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortCounters {
    /// The port; [`ALL_PORTS`] for a sum.
    pub port_select: u8,
    /// In a Set: which counters take what is written, by the bits of [`CounterSelect`].
    pub counter_select: CounterSelect,
    /// The same, of PortXmitWait (bit 0).
    pub counter_select2: u8,
    /// Symbols that none are.
    pub symbol_errors: u16,
    /// The link found together again by itself.
    pub link_error_recovery: u8,
    /// The link went down.
    pub link_downed: u8,
    /// Packets with an error.
    pub rcv_errors: u16,
    /// Packets that were marked bad before they came.
    pub rcv_remote_physical_errors: u16,
    /// Packets that a switch knew no way for.
    pub rcv_switch_relay_errors: u16,
    /// Packets that could not be sent.
    pub xmit_discards: u16,
    /// Packets that must not be sent.
    pub xmit_constraint_errors: u8,
    /// Packets that must not be received.
    pub rcv_constraint_errors: u8,
    /// 4 bits.
    pub local_link_integrity_errors: u8,
    /// 4 bits.
    pub excessive_buffer_overrun_errors: u8,
    /// Packets for queue pair 1 that found no room.
    pub qp1_dropped: u16,
    /// Management packets that found no room.
    pub vl15_dropped: u16,
    /// Words sent.
    pub xmit_data: u32,
    /// Words received.
    pub rcv_data: u32,
    /// Packets sent.
    pub xmit_packets: u32,
    /// Packets received.
    pub rcv_packets: u32,
    /// Ticks in which there was something to send and no credit.
    pub xmit_wait: u32,
}

bitflags::bitflags! {
    /// Which counters of PortCounters a Set means.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
    pub struct CounterSelect: u16 {
        /// SymbolErrorCounter.
        const SYMBOL_ERRORS = 1;
        /// LinkErrorRecoveryCounter.
        const LINK_ERROR_RECOVERY = 1 << 1;
        /// LinkDownedCounter.
        const LINK_DOWNED = 1 << 2;
        /// PortRcvErrors.
        const RCV_ERRORS = 1 << 3;
        /// PortRcvRemotePhysicalErrors.
        const RCV_REMOTE_PHYSICAL_ERRORS = 1 << 4;
        /// PortRcvSwitchRelayErrors.
        const RCV_SWITCH_RELAY_ERRORS = 1 << 5;
        /// PortXmitDiscards.
        const XMIT_DISCARDS = 1 << 6;
        /// PortXmitConstraintErrors.
        const XMIT_CONSTRAINT_ERRORS = 1 << 7;
        /// PortRcvConstraintErrors.
        const RCV_CONSTRAINT_ERRORS = 1 << 8;
        /// LocalLinkIntegrityErrors.
        const LOCAL_LINK_INTEGRITY_ERRORS = 1 << 9;
        /// ExcessiveBufferOverrunErrors.
        const EXCESSIVE_BUFFER_OVERRUN_ERRORS = 1 << 10;
        /// VL15Dropped.
        const VL15_DROPPED = 1 << 11;
        /// PortXmitData.
        const XMIT_DATA = 1 << 12;
        /// PortRcvData.
        const RCV_DATA = 1 << 13;
        /// PortXmitPkts.
        const XMIT_PACKETS = 1 << 14;
        /// PortRcvPkts.
        const RCV_PACKETS = 1 << 15;
    }
}

impl Header for PortCounters {
    type Wire = PortCountersWire;
    const NAME: &'static str = "PortCounters";

    fn from_wire(wire: &PortCountersWire) -> Result<Self, ParseError> {
        Ok(PortCounters {
            port_select: wire.port_select,
            counter_select: CounterSelect::from_bits_truncate(wire.counter_select.get()),
            counter_select2: wire.counter_select2,
            symbol_errors: wire.symbol_errors.get(),
            link_error_recovery: wire.link_error_recovery,
            link_downed: wire.link_downed,
            rcv_errors: wire.rcv_errors.get(),
            rcv_remote_physical_errors: wire.rcv_remote_physical_errors.get(),
            rcv_switch_relay_errors: wire.rcv_switch_relay_errors.get(),
            xmit_discards: wire.xmit_discards.get(),
            xmit_constraint_errors: wire.xmit_constraint_errors,
            rcv_constraint_errors: wire.rcv_constraint_errors,
            local_link_integrity_errors: bits(wire.integrity_overrun, 4, 4),
            excessive_buffer_overrun_errors: bits(wire.integrity_overrun, 0, 4),
            qp1_dropped: wire.qp1_dropped.get(),
            vl15_dropped: wire.vl15_dropped.get(),
            xmit_data: wire.xmit_data.get(),
            rcv_data: wire.rcv_data.get(),
            xmit_packets: wire.xmit_packets.get(),
            rcv_packets: wire.rcv_packets.get(),
            xmit_wait: wire.xmit_wait.get(),
        })
    }

    fn to_wire(&self) -> Result<PortCountersWire, EmitError> {
        Ok(PortCountersWire {
            reserved: 0,
            port_select: self.port_select,
            counter_select: U16::new(self.counter_select.bits()),
            symbol_errors: U16::new(self.symbol_errors),
            link_error_recovery: self.link_error_recovery,
            link_downed: self.link_downed,
            rcv_errors: U16::new(self.rcv_errors),
            rcv_remote_physical_errors: U16::new(self.rcv_remote_physical_errors),
            rcv_switch_relay_errors: U16::new(self.rcv_switch_relay_errors),
            xmit_discards: U16::new(self.xmit_discards),
            xmit_constraint_errors: self.xmit_constraint_errors,
            rcv_constraint_errors: self.rcv_constraint_errors,
            counter_select2: self.counter_select2,
            integrity_overrun: place(
                "LocalLinkIntegrityErrors",
                self.local_link_integrity_errors,
                4,
                4,
            )? | place(
                "ExcessiveBufferOverrunErrors",
                self.excessive_buffer_overrun_errors,
                0,
                4,
            )?,
            qp1_dropped: U16::new(self.qp1_dropped),
            vl15_dropped: U16::new(self.vl15_dropped),
            xmit_data: U32::new(self.xmit_data),
            rcv_data: U32::new(self.rcv_data),
            xmit_packets: U32::new(self.xmit_packets),
            rcv_packets: U32::new(self.rcv_packets),
            xmit_wait: U32::new(self.xmit_wait),
        })
    }
}

/// A PortCountersExtended as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct PortCountersExtendedWire {
    reserved: u8,
    port_select: u8,
    counter_select: U16,
    counter_select2: U32,
    counters: [U64; 8],
    additional: [U64; 14],
}

/// Counters of 64 bits. Data are counted in words of four bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortCountersExtended {
    /// The port; [`ALL_PORTS`] for a sum.
    pub port_select: u8,
    /// In a Set: a bit for each of the counters, in their order, that takes what is written.
    pub counter_select: u16,
    /// Words sent, words received, packets sent, packets received, unicast packets sent and received, multicast packets sent and received.
    pub counters: [u64; 8],
    /// The same bits for the additional ones.
    pub counter_select2: u32,
    /// Symbol errors, recoveries, links that went down, errors received, physical ones, relay errors, packets let go of, constraint errors sent and received, integrity errors, overruns, lane 15's
    /// and queue pair 1's: the latter last, behind ticks without credits.
    pub additional: [u64; 14],
}

impl Header for PortCountersExtended {
    type Wire = PortCountersExtendedWire;
    const NAME: &'static str = "PortCountersExtended";

    fn from_wire(wire: &PortCountersExtendedWire) -> Result<Self, ParseError> {
        Ok(PortCountersExtended {
            port_select: wire.port_select,
            counter_select: wire.counter_select.get(),
            counters: wire.counters.map(U64::get),
            counter_select2: wire.counter_select2.get(),
            additional: wire.additional.map(U64::get),
        })
    }

    fn to_wire(&self) -> Result<PortCountersExtendedWire, EmitError> {
        Ok(PortCountersExtendedWire {
            reserved: 0,
            port_select: self.port_select,
            counter_select: U16::new(self.counter_select),
            counter_select2: U32::new(self.counter_select2),
            counters: self.counters.map(U64::new),
            additional: self.additional.map(U64::new),
        })
    }
}

macro_rules! selected_counters {
    ($($(#[$doc:meta])* $name:ident, $wire:ident: [$integer:ty => $bytes:ty; $count:literal], $of:literal;)*) => {$(
        #[doc = concat!("As it travels: ", $of)]
        #[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
        #[repr(C)]
        pub struct $wire {
            reserved: u8,
            port_select: u8,
            counter_select: U16,
            counters: [$bytes; $count],
        }

        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct $name {
            /// The port; [`ALL_PORTS`] for a sum.
            pub port_select: u8,
            /// In a Set: a bit for each of the counters, in their order, that takes what is written.
            pub counter_select: u16,
            /// The counters, which stop at their largest value.
            pub counters: [$integer; $count],
        }

        impl Header for $name {
            type Wire = $wire;
            const NAME: &'static str = $of;

            fn from_wire(wire: &$wire) -> Result<Self, ParseError> {
                Ok($name {
                    port_select: wire.port_select,
                    counter_select: wire.counter_select.get(),
                    counters: wire.counters.map(<$bytes>::get),
                })
            }

            fn to_wire(&self) -> Result<$wire, EmitError> {
                Ok($wire {
                    reserved: 0,
                    port_select: self.port_select,
                    counter_select: U16::new(self.counter_select),
                    counters: self.counters.map(<$bytes>::new),
                })
            }
        }
    )*};
}

selected_counters! {
    /// PortXmitDataSL or PortRcvDataSL: words of four bytes of each service level.
    PortDataSl, PortDataSlWire: [u32 => U32; 16], "PortXmitDataSL";
    /// PortXmitDiscardDetails: packets that were not sent since the port was not active, were longer than its neighbour takes, had lived too long in the switch, or at the head of a queue.
    PortXmitDiscardDetails, PortXmitDiscardDetailsWire: [u16 => U16; 4], "PortXmitDiscardDetails";
    /// PortRcvErrorDetails: packets with errors of the physical layer, malformed ones, those that overran a buffer; and those that a switch did not pass on for want of a port for their DLID or of
    /// a lane, or since they went round and round.
    PortRcvErrorDetails, PortRcvErrorDetailsWire: [u16 => U16; 6], "PortRcvErrorDetails";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_lie_where_libibmad_looks_for_them() {
        let counters = PortCounters {
            port_select: 3,
            counter_select: CounterSelect::all(),
            link_downed: 4,
            vl15_dropped: 5,
            xmit_data: 6,
            xmit_wait: 7,
            local_link_integrity_errors: 1,
            excessive_buffer_overrun_errors: 2,
            ..PortCounters::default()
        };
        let mut bytes = [0; 44];
        counters.emit(&mut bytes).expect("fits");
        assert_eq!(bytes[..8], [0, 3, 0xff, 0xff, 0, 0, 0, 4]);
        assert_eq!(
            (bytes[19], bytes[23], bytes[27], bytes[43]),
            (0x12, 5, 6, 7)
        );
        assert_eq!(PortCounters::parse(&bytes).map(|(c, _)| c), Ok(counters));
        let wide = PortCountersExtended {
            port_select: 9,
            counter_select: 0xff,
            counters: [1, 2, 3, 4, 5, 6, 7, 8],
            counter_select2: 0x3fff,
            additional: [9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22],
        };
        let details = PortRcvErrorDetails {
            port_select: 9,
            counter_select: 0x3f,
            counters: [1, 2, 3, 4, 5, 6],
        };
        let mut bytes = [0; 16];
        details.emit(&mut bytes).expect("fits");
        assert_eq!(bytes, [0, 9, 0, 0x3f, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6]);
        let levels = PortDataSl {
            port_select: 9,
            counter_select: 0xffff,
            counters: std::array::from_fn(|sl| sl as u32 + 1),
        };
        let mut bytes = [0; 68];
        levels.emit(&mut bytes).expect("fits");
        assert_eq!((bytes[1], bytes[7], bytes[67]), (9, 1, 16));
        assert_eq!(PortDataSl::parse(&bytes).map(|(c, _)| c), Ok(levels));
        let mut bytes = [0; 184];
        wide.emit(&mut bytes).expect("fits");
        assert_eq!((bytes[1], bytes[15], bytes[71]), (9, 1, 8));
        // the first of the additional ones, and PortXmitWait
        assert_eq!((bytes[79], bytes[175]), (9, 21));
        assert_eq!(
            PortCountersExtended::parse(&bytes).map(|(c, _)| c),
            Ok(wide)
        );
    }
}
