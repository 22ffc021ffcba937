//! What every management datagram (MAD) begins with: the common header, 24 bytes (IBA 13.4.2), and the numbers of
//! classes, methods, attributes and status. A MAD is the 256-byte payload of a UD SEND Only to queue pair 0 (subnet
//! management) or 1 (everything else). What follows the header is the business of `cm`, `smp` and `sa`.

use crate::error::{EmitError, ParseError};
use crate::header::Header;
pub use crate::management::{AttributeId, GSI_QPN, ManagementClass, Method, SMI_QPN};
use crate::types::{PKey, QKey, TransactionId};
use std::fmt;
use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a MAD, always.
pub const MAD_LEN: usize = 256;
/// Bytes after the common header.
pub const MAD_DATA_LEN: usize = MAD_LEN - MadHeader::LEN;
/// The well-known Q_Key of queue pair 1. Queue pair 0 checks none.
pub const GSI_QKEY: QKey = QKey(0x8001_0000);
/// The default partition, as a full member.
pub const DEFAULT_PKEY: PKey = PKey(0xffff);
/// The default partition, as a limited member.
pub const DEFAULT_LIMITED_PKEY: PKey = PKey(0x7fff);

const BASE_VERSION: u8 = 1;

/// Reads a MAD that is a `H` from its first byte to its last; it must have 256 bytes.
pub(crate) fn parse_whole<H: Header>(bytes: &[u8]) -> Result<H, ParseError> {
    const { assert!(H::LEN == MAD_LEN) };
    match H::parse(bytes)? {
        (mad, []) => Ok(mad),
        _ => Err(ParseError::Length {
            field: "MAD",
            expected: MAD_LEN,
            got: bytes.len(),
        }),
    }
}

/// Status of an answer (IBA 13.4.7): the low byte means the same in every class.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct MadStatus(pub u16);

impl MadStatus {
    /// No error.
    pub const OK: MadStatus = MadStatus(0);
    /// Busy: the MAD was discarded, not an error.
    pub const BUSY: MadStatus = MadStatus(1);
    /// Redirection required: ask where the answer's ClassPortInfo says.
    pub const REDIRECT: MadStatus = MadStatus(1 << 1);
    /// Base version, class or class version not supported.
    pub const BAD_VERSION: MadStatus = MadStatus(1 << 2);
    /// The class has no such method.
    pub const UNSUPPORTED_METHOD: MadStatus = MadStatus(2 << 2);
    /// The class has no such method with this attribute.
    pub const UNSUPPORTED_ATTRIBUTE: MadStatus = MadStatus(3 << 2);
    /// A field of the attribute or its modifier has an invalid value.
    pub const INVALID_FIELD: MadStatus = MadStatus(7 << 2);

    /// The code of the "invalid field" bits, 0..=7: 0 if no field is invalid.
    pub const fn invalid_field(self) -> u16 {
        self.0 >> 2 & 0b111
    }

    /// The high byte, which each class defines.
    pub const fn class_specific(self) -> u8 {
        // The high byte of sixteen bits.
        (self.0 >> 8) as u8
    }

    /// A status whose high byte is `code`.
    pub const fn of_class(code: u8) -> Self {
        MadStatus((code as u16) << 8)
    }
}

impl fmt::Display for MadStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

/// The common MAD header as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct MadHeaderWire {
    base_version: u8,
    class: u8,
    class_version: u8,
    /// R:1 Method:7.
    method: u8,
    status: U16,
    class_specific: U16,
    transaction_id: U64,
    attribute: U16,
    reserved: U16,
    attribute_modifier: U32,
}

/// The common MAD header's meaning. The base version is always 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MadHeader {
    /// Management class.
    pub class: ManagementClass,
    /// Version of the class.
    pub class_version: u8,
    /// Method, response bit included.
    pub method: Method,
    /// Status of an answer, zero in requests. In directed-route SMPs its top bit is the direction.
    pub status: MadStatus,
    /// Hop pointer and hop count of a directed-route SMP, zero in all other classes.
    pub class_specific: u16,
    /// Ties an answer to its request.
    pub transaction_id: TransactionId,
    /// Attribute.
    pub attribute: AttributeId,
    /// Which part or instance of the attribute, as the attribute defines.
    pub attribute_modifier: u32,
}

impl MadHeader {
    /// A request of `class` in its version in use (1 for classes not known here).
    pub const fn new(
        class: ManagementClass,
        method: Method,
        attribute: AttributeId,
        transaction_id: TransactionId,
    ) -> Self {
        MadHeader {
            class,
            class_version: match class.version() {
                Some(version) => version,
                None => 1,
            },
            method,
            status: MadStatus::OK,
            class_specific: 0,
            transaction_id,
            attribute,
            attribute_modifier: 0,
        }
    }

    /// Reads the header of a whole MAD, which must have 256 bytes; returns it and what follows. The class need not be
    /// known: `check_version` tells whether it is.
    pub fn parse_mad(bytes: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        if bytes.len() != MAD_LEN {
            return Err(ParseError::Length {
                field: "MAD",
                expected: MAD_LEN,
                got: bytes.len(),
            });
        }
        Self::parse(bytes)
    }

    /// Refuses a class version other than the one in use. An agent answers such a request with
    /// `MadStatus::BAD_VERSION` (IBA 13.4.7).
    pub fn check_version(&self) -> Result<(), ParseError> {
        match self.class.version() {
            Some(expected) if expected != self.class_version => Err(ParseError::MadClassVersion {
                class: self.class,
                expected,
                got: self.class_version,
            }),
            _ => Ok(()),
        }
    }

    /// Refuses a header of another class than `expected`, or of another version of it.
    pub fn check_class(&self, expected: ManagementClass) -> Result<(), ParseError> {
        if self.class == expected {
            self.check_version()
        } else {
            Err(ParseError::MadClass {
                expected,
                got: self.class,
            })
        }
    }
}

impl Header for MadHeader {
    type Wire = MadHeaderWire;
    const NAME: &'static str = "MAD header";

    fn from_wire(wire: &MadHeaderWire) -> Result<Self, ParseError> {
        if wire.base_version != BASE_VERSION {
            return Err(ParseError::MadBaseVersion(wire.base_version));
        }
        Ok(MadHeader {
            class: ManagementClass(wire.class),
            class_version: wire.class_version,
            method: Method(wire.method),
            status: MadStatus(wire.status.get()),
            class_specific: wire.class_specific.get(),
            transaction_id: TransactionId(wire.transaction_id.get()),
            attribute: AttributeId(wire.attribute.get()),
            attribute_modifier: wire.attribute_modifier.get(),
        })
    }

    fn to_wire(&self) -> Result<MadHeaderWire, EmitError> {
        Ok(MadHeaderWire {
            base_version: BASE_VERSION,
            class: self.class.0,
            class_version: self.class_version,
            method: self.method.0,
            status: U16::new(self.status.0),
            class_specific: U16::new(self.class_specific),
            transaction_id: U64::new(self.transaction_id.0),
            attribute: U16::new(self.attribute.0),
            reserved: U16::ZERO,
            attribute_modifier: U32::new(self.attribute_modifier),
        })
    }
}

impl fmt::Display for MadHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}({}) tid={} modifier={:#x} status={}",
            self.class,
            self.method,
            self.attribute,
            self.transaction_id,
            self.attribute_modifier,
            self.status
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_the_response_bit_but_for_repressed_traps() {
        let pairs = [
            (Method::GET, Some(Method::GET_RESP)),
            (Method::SET, Some(Method::GET_RESP)),
            (Method::SEND, None),
            (Method::TRAP, Some(Method::TRAP_REPRESS)),
            (Method::REPORT, Some(Method::REPORT_RESP)),
            (Method::GET_TABLE, Some(Method::GET_TABLE_RESP)),
            (Method::GET_TRACE_TABLE, Some(Method::GET_TABLE_RESP)),
            (Method::GET_MULTI, Some(Method::GET_MULTI_RESP)),
            (Method::DELETE, Some(Method::DELETE_RESP)),
        ];
        for (request, response) in pairs {
            assert_eq!(request.response(), response, "{request}");
            assert!(!request.is_response());
            if let Some(response) = response {
                assert!(response.is_response());
                assert_eq!(response.response(), None);
            }
        }
    }

    #[test]
    fn subnet_management_alone_belongs_to_queue_pair_0() {
        let on_smi: Vec<u8> = (0..=255)
            .filter(|class| ManagementClass(*class).queue_pair() == SMI_QPN)
            .collect();
        assert_eq!(on_smi, [0x01, 0x81]);
    }

    #[test]
    fn versions_and_length_are_checked() {
        let header = MadHeader::new(
            ManagementClass::COM_MGT,
            Method::SEND,
            AttributeId(0x10),
            TransactionId(7),
        );
        let mut mad = [0; MAD_LEN];
        header.emit(&mut mad).expect("fits");
        assert_eq!(MadHeader::parse_mad(&mad).map(|(h, _)| h), Ok(header));
        assert_eq!(header.check_class(ManagementClass::COM_MGT), Ok(()));
        assert!(matches!(
            header.check_class(ManagementClass::SUBN_ADM),
            Err(ParseError::MadClass { .. })
        ));
        assert!(matches!(
            MadHeader::parse_mad(&mad[1..]),
            Err(ParseError::Length { field: "MAD", .. })
        ));
        mad[2] = 1;
        let (older, _) = MadHeader::parse_mad(&mad).expect("the header is right");
        assert_eq!(
            older.check_version(),
            Err(ParseError::MadClassVersion {
                class: ManagementClass::COM_MGT,
                expected: 2,
                got: 1
            })
        );
        mad[0] = 0x80;
        assert_eq!(
            MadHeader::parse_mad(&mad),
            Err(ParseError::MadBaseVersion(0x80))
        );
    }

    #[test]
    fn status_has_a_common_and_a_class_specific_part() {
        assert_eq!(MadStatus(0x011c).invalid_field(), 7);
        assert_eq!(MadStatus(0x0300).class_specific(), 3);
        assert_eq!(MadStatus::of_class(3), MadStatus(0x0300));
        assert_eq!(MadStatus::UNSUPPORTED_ATTRIBUTE, MadStatus(0x000c));
    }
}
