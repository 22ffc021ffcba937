//! The reliable multi-packet protocol's header, 12 bytes after the common MAD header (IBA 13.6): how an answer of many
//! MADs is put together. Its state machine is not here.

use crate::error::{EmitError, ParseError};
use crate::header::{Header, bits, place};
use crate::mad::{MAD_LEN, MadHeader};
use crate::management::numbers;
use std::fmt;
use zerocopy::byteorder::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes after the RMPP header in a MAD.
pub const RMPP_DATA_LEN: usize = MAD_LEN - MadHeader::LEN - Rmpp::LEN;
/// The protocol's version.
pub const RMPP_VERSION: u8 = 1;

/// The RMPP header as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RmppWire {
    version: u8,
    rmpp_type: u8,
    /// RRespTime:5 Flags:3.
    flags: u8,
    status: u8,
    data1: U32,
    data2: U32,
}

numbers! {
    /// What an RMPP packet is.
    RmppType(u8) {
        NONE = 0, "none";
        DATA = 1, "DATA";
        ACK = 2, "ACK";
        STOP = 3, "STOP";
        ABORT = 4, "ABORT";
    }
}

numbers! {
    /// Why a transfer stops or is aborted.
    RmppStatus(u8) {
        NORMAL = 0, "normal";
        RESOURCES_EXHAUSTED = 1, "resources exhausted";
        TIME_TOO_LONG = 118, "total time too long";
        BAD_LENGTH = 119, "inconsistent last and payload length";
        BAD_SEGMENT = 120, "inconsistent first and segment number";
        BAD_TYPE = 121, "bad RMPP type";
        WINDOW_TOO_SMALL = 122, "new window last too small";
        SEGMENT_TOO_BIG = 123, "segment number too big";
        ILLEGAL_STATUS = 124, "illegal status";
        UNSUPPORTED_VERSION = 125, "unsupported version";
        TOO_MANY_RETRIES = 126, "too many retries";
        UNSPECIFIED = 127, "unspecified";
    }
}

bitflags::bitflags! {
    /// Flags of an RMPP header.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
    pub struct RmppFlags: u8 {
        /// The header means something: the MAD is part of a transfer.
        const ACTIVE = 1;
        /// First segment.
        const FIRST = 1 << 1;
        /// Last segment.
        const LAST = 1 << 2;
    }
}

/// RRespTime when none is given.
pub const NO_RESPONSE_TIME: u8 = 31;

/// The RMPP header's meaning. A MAD that is no part of a transfer has all zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rmpp {
    /// Version, 1 in transfers.
    pub version: u8,
    /// What the packet is.
    pub rmpp_type: RmppType,
    /// How long an answer may take as a time code, 5 bits; `NO_RESPONSE_TIME` for none given.
    pub response_time: u8,
    /// Flags.
    pub flags: RmppFlags,
    /// Why the transfer ends.
    pub status: RmppStatus,
    /// Segment number, from 1, of a DATA or ACK.
    pub segment: u32,
    /// PayloadLength in bytes of a DATA: of the whole transfer in the first (0 if not known), of this segment in the last.
    /// NewWindowLast of an ACK.
    pub length_or_window: u32,
}

impl Rmpp {
    /// A segment of a transfer. `length` as in `length_or_window`.
    pub const fn data(segment: u32, flags: RmppFlags, length: u32) -> Self {
        Rmpp {
            version: RMPP_VERSION,
            rmpp_type: RmppType::DATA,
            response_time: NO_RESPONSE_TIME,
            flags: flags.union(RmppFlags::ACTIVE),
            status: RmppStatus::NORMAL,
            segment,
            length_or_window: length,
        }
    }

    /// True if the MAD is part of a transfer.
    pub const fn is_active(&self) -> bool {
        self.flags.contains(RmppFlags::ACTIVE)
    }

    /// Bytes of a DATA segment after a class header of `class_header` bytes (20 in subnet administration): all there is
    /// room for, but in the last segment what its payload length says. None if that length is more than fits or less
    /// than the class header, which is answered by an ABORT with `RmppStatus::BAD_LENGTH`.
    pub const fn data_len(&self, class_header: usize) -> Option<usize> {
        if !self.flags.contains(RmppFlags::LAST) {
            return RMPP_DATA_LEN.checked_sub(class_header);
        }
        if self.length_or_window > RMPP_DATA_LEN as u32 {
            return None;
        }
        (self.length_or_window as usize).checked_sub(class_header)
    }
}

impl Header for Rmpp {
    type Wire = RmppWire;
    const NAME: &'static str = "RMPP header";

    fn from_wire(wire: &RmppWire) -> Result<Self, ParseError> {
        Ok(Rmpp {
            version: wire.version,
            rmpp_type: RmppType(wire.rmpp_type),
            response_time: bits(wire.flags, 3, 5),
            flags: RmppFlags::from_bits_truncate(wire.flags),
            status: RmppStatus(wire.status),
            segment: wire.data1.get(),
            length_or_window: wire.data2.get(),
        })
    }

    fn to_wire(&self) -> Result<RmppWire, EmitError> {
        Ok(RmppWire {
            version: self.version,
            rmpp_type: self.rmpp_type.0,
            flags: place("RRespTime", self.response_time, 3, 5)?
                | place("RMPPFlags", self.flags.bits(), 0, 3)?,
            status: self.status.0,
            data1: U32::new(self.segment),
            data2: U32::new(self.length_or_window),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CVE-2026-23243: a payload length that disagrees with the headers must not become a negative one.
    #[test]
    fn a_payload_length_that_cannot_be_is_none() {
        let last = |length| Rmpp::data(2, RmppFlags::LAST, length).data_len(20);
        assert_eq!(RMPP_DATA_LEN, 220);
        assert_eq!(last(220), Some(200));
        assert_eq!(last(20), Some(0));
        for length in [0, 1, 19, 221, 1 << 16, u32::MAX] {
            assert_eq!(last(length), None, "{length}");
        }
        // Before the last the length is the transfer's, or nothing.
        let first = |length| Rmpp::data(1, RmppFlags::FIRST, length).data_len(20);
        assert_eq!((first(0), first(u32::MAX)), (Some(200), Some(200)));
    }
}
