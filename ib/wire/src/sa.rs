//! Subnet administration MADs, class SubnAdm (IBA 15.2): questions to the subnet's database and their answers, of one
//! record or, by RMPP, of many. The records are in `attributes`.

use crate::error::{EmitError, ParseError};
use crate::header::Header;
use crate::mad::{
    AttributeId, MadHeader, MadHeaderWire, MadStatus, ManagementClass, Method, parse_whole,
};
use crate::rmpp::{Rmpp, RmppWire};
use crate::types::{SmKey, TransactionId};
use std::fmt;
use zerocopy::byteorder::big_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of records in one MAD.
pub const SA_DATA_LEN: usize = 200;
/// Bytes of the class's own header, between the RMPP header and the records: what its payload lengths include.
pub const SA_CLASS_HEADER_LEN: usize = crate::rmpp::RMPP_DATA_LEN - SA_DATA_LEN;

/// Attributes of subnet administration (IBA 15.2.5).
pub mod attribute {
    use crate::mad::AttributeId;

    /// ClassPortInfo.
    pub const CLASS_PORT_INFO: AttributeId = AttributeId::CLASS_PORT_INFO;
    /// Notice, for reports.
    pub const NOTICE: AttributeId = AttributeId::NOTICE;
    /// InformInfo.
    pub const INFORM_INFO: AttributeId = AttributeId::INFORM_INFO;
    /// NodeRecord.
    pub const NODE: AttributeId = AttributeId(0x0011);
    /// PortInfoRecord.
    pub const PORT_INFO: AttributeId = AttributeId(0x0012);
    /// SLtoVLMappingTableRecord.
    pub const SL_TO_VL: AttributeId = AttributeId(0x0013);
    /// SwitchInfoRecord.
    pub const SWITCH_INFO: AttributeId = AttributeId(0x0014);
    /// LinearForwardingTableRecord.
    pub const LINEAR_FORWARDING: AttributeId = AttributeId(0x0015);
    /// MulticastForwardingTableRecord.
    pub const MULTICAST_FORWARDING: AttributeId = AttributeId(0x0017);
    /// SMInfoRecord.
    pub const SM_INFO: AttributeId = AttributeId(0x0018);
    /// LinkRecord.
    pub const LINK: AttributeId = AttributeId(0x0020);
    /// GUIDInfoRecord.
    pub const GUID_INFO: AttributeId = AttributeId(0x0030);
    /// ServiceRecord.
    pub const SERVICE: AttributeId = AttributeId(0x0031);
    /// P_KeyTableRecord.
    pub const PKEY_TABLE: AttributeId = AttributeId(0x0033);
    /// PathRecord.
    pub const PATH: AttributeId = AttributeId(0x0035);
    /// VLArbitrationTableRecord.
    pub const VL_ARBITRATION: AttributeId = AttributeId(0x0036);
    /// MCMemberRecord.
    pub const MC_MEMBER: AttributeId = AttributeId(0x0038);
    /// TraceRecord.
    pub const TRACE: AttributeId = AttributeId(0x0039);
    /// MultiPathRecord.
    pub const MULTI_PATH: AttributeId = AttributeId(0x003a);
    /// ServiceAssociationRecord.
    pub const SERVICE_ASSOCIATION: AttributeId = AttributeId(0x003b);
    /// InformInfoRecord.
    pub const INFORM_INFO_RECORD: AttributeId = AttributeId(0x00f3);
}

/// Status of answers that is the class's own (IBA 15.2).
pub mod status {
    use crate::mad::MadStatus;

    /// The administrator is out of resources.
    pub const NO_RESOURCES: MadStatus = MadStatus::of_class(1);
    /// The request is invalid.
    pub const REQUEST_INVALID: MadStatus = MadStatus::of_class(2);
    /// No record matches.
    pub const NO_RECORDS: MadStatus = MadStatus::of_class(3);
    /// More than one record matches a Get.
    pub const TOO_MANY_RECORDS: MadStatus = MadStatus::of_class(4);
    /// A GID is invalid.
    pub const INVALID_GID: MadStatus = MadStatus::of_class(5);
    /// Components are missing that the request needs.
    pub const INSUFFICIENT_COMPONENTS: MadStatus = MadStatus::of_class(6);
    /// The request is denied.
    pub const DENIED: MadStatus = MadStatus::of_class(7);
}

/// A subnet administration MAD as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SaMadWire {
    header: MadHeaderWire,
    rmpp: RmppWire,
    sm_key: U64,
    attribute_offset: U16,
    reserved: U16,
    component_mask: U64,
    data: [u8; SA_DATA_LEN],
}

/// A subnet administration MAD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SaMad {
    /// Method.
    pub method: Method,
    /// Status of an answer.
    pub status: MadStatus,
    /// Ties an answer to its request.
    pub transaction_id: TransactionId,
    /// Which record.
    pub attribute: AttributeId,
    /// Modifier of the attribute.
    pub attribute_modifier: u32,
    /// Part of which transfer, if of any.
    pub rmpp: Rmpp,
    /// Key that makes the asker trusted; 0 for none.
    pub sm_key: SmKey,
    /// Distance from one record to the next in units of 8 bytes, in answers.
    pub attribute_offset: u16,
    /// Which components of the record the question gives; each record has its own mask.
    pub component_mask: u64,
    /// The record, or a piece of a table of them.
    pub data: [u8; SA_DATA_LEN],
}

impl SaMad {
    /// A question for records of a kind, no components given.
    pub const fn new(method: Method, attribute: AttributeId) -> Self {
        SaMad {
            method,
            status: MadStatus::OK,
            transaction_id: TransactionId(0),
            attribute,
            attribute_modifier: 0,
            rmpp: Rmpp {
                version: 0,
                rmpp_type: crate::rmpp::RmppType::NONE,
                response_time: 0,
                flags: crate::rmpp::RmppFlags::empty(),
                status: crate::rmpp::RmppStatus::NORMAL,
                segment: 0,
                length_or_window: 0,
            },
            sm_key: SmKey(0),
            attribute_offset: 0,
            component_mask: 0,
            data: [0; SA_DATA_LEN],
        }
    }

    /// Reads a whole MAD of 256 bytes.
    pub fn parse_mad(bytes: &[u8]) -> Result<Self, ParseError> {
        parse_whole(bytes)
    }

    /// Reads the first record as an `A`. Fails only for records longer than a MAD carries.
    pub fn data_as<A: Header>(&self) -> Result<A, ParseError> {
        A::parse(&self.data).map(|(record, _)| record)
    }

    /// Writes `record` as the only data.
    pub fn set_data<A: Header>(&mut self, record: &A) -> Result<(), EmitError> {
        self.data = [0; SA_DATA_LEN];
        record.emit(&mut self.data)?;
        self.attribute_offset = attribute_offset::<A>();
        Ok(())
    }
}

/// Distance from one `A` to the next in a table, in units of 8 bytes.
pub const fn attribute_offset<A: Header>() -> u16 {
    // A record fits in a MAD.
    A::LEN.div_ceil(8) as u16
}

impl Header for SaMad {
    type Wire = SaMadWire;
    const NAME: &'static str = "SA MAD";

    fn from_wire(wire: &SaMadWire) -> Result<Self, ParseError> {
        let header = MadHeader::from_wire(&wire.header)?;
        header.check_class(ManagementClass::SUBN_ADM)?;
        Ok(SaMad {
            method: header.method,
            status: header.status,
            transaction_id: header.transaction_id,
            attribute: header.attribute,
            attribute_modifier: header.attribute_modifier,
            rmpp: Rmpp::from_wire(&wire.rmpp)?,
            sm_key: SmKey(wire.sm_key.get()),
            attribute_offset: wire.attribute_offset.get(),
            component_mask: wire.component_mask.get(),
            data: wire.data,
        })
    }

    fn to_wire(&self) -> Result<SaMadWire, EmitError> {
        let header = MadHeader {
            status: self.status,
            attribute_modifier: self.attribute_modifier,
            ..MadHeader::new(
                ManagementClass::SUBN_ADM,
                self.method,
                self.attribute,
                self.transaction_id,
            )
        };
        Ok(SaMadWire {
            header: header.to_wire()?,
            rmpp: self.rmpp.to_wire()?,
            sm_key: U64::new(self.sm_key.0),
            attribute_offset: U16::new(self.attribute_offset),
            reserved: U16::ZERO,
            component_mask: U64::new(self.component_mask),
            data: self.data,
        })
    }
}

/// One line, as `ferriband dump` prints it.
impl fmt::Display for SaMad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SubnAdm {}({}) tid={} mask={:#x} status={}",
            self.method, self.attribute, self.transaction_id, self.component_mask, self.status
        )?;
        if self.rmpp.is_active() {
            write!(
                f,
                " rmpp={} segment={} length={}",
                self.rmpp.rmpp_type, self.rmpp.segment, self.rmpp.length_or_window
            )?;
        }
        Ok(())
    }
}
