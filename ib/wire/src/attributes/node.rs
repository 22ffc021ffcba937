//! NodeInfo, NodeDescription (IBA 14.2.5), and NodeRecord (IBA 15.2.5), which is both.

use crate::error::{EmitError, ParseError};
use crate::header::{Header, U24};
use crate::management::numbers;
use crate::types::{Guid, Lid};
use std::fmt;
use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

numbers! {
    /// What a node is.
    NodeType(u8) {
        CA = 1, "channel adapter";
        SWITCH = 2, "switch";
        ROUTER = 3, "router";
    }
}

/// A NodeInfo as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct NodeInfoWire {
    base_version: u8,
    class_version: u8,
    node_type: u8,
    num_ports: u8,
    system_image_guid: U64,
    node_guid: U64,
    port_guid: U64,
    partition_cap: U16,
    device_id: U16,
    revision: U32,
    local_port: u8,
    vendor_id: U24,
}

/// What a node says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeInfo {
    /// MAD base version, 1.
    pub base_version: u8,
    /// Version of subnet management, 1.
    pub class_version: u8,
    /// Adapter, switch or router.
    pub node_type: NodeType,
    /// External ports.
    pub num_ports: u8,
    /// The box that several nodes may be part of; 0 if they are not.
    pub system_image_guid: Guid,
    /// The node.
    pub node_guid: Guid,
    /// The port by which the question came; a switch's is the node's.
    pub port_guid: Guid,
    /// Entries of the P_Key table of each port of an adapter, or of a switch's port 0.
    pub partition_cap: u16,
    /// The vendor's number of the device.
    pub device_id: u16,
    /// The vendor's revision of the device.
    pub revision: u32,
    /// The port by which the question came.
    pub local_port: u8,
    /// The vendor, a company's 24-bit identifier.
    pub vendor_id: u32,
}

impl Header for NodeInfo {
    type Wire = NodeInfoWire;
    const NAME: &'static str = "NodeInfo";

    fn from_wire(wire: &NodeInfoWire) -> Result<Self, ParseError> {
        Ok(NodeInfo {
            base_version: wire.base_version,
            class_version: wire.class_version,
            node_type: NodeType(wire.node_type),
            num_ports: wire.num_ports,
            system_image_guid: Guid(wire.system_image_guid.get()),
            node_guid: Guid(wire.node_guid.get()),
            port_guid: Guid(wire.port_guid.get()),
            partition_cap: wire.partition_cap.get(),
            device_id: wire.device_id.get(),
            revision: wire.revision.get(),
            local_port: wire.local_port,
            vendor_id: wire.vendor_id.get(),
        })
    }

    fn to_wire(&self) -> Result<NodeInfoWire, EmitError> {
        Ok(NodeInfoWire {
            base_version: self.base_version,
            class_version: self.class_version,
            node_type: self.node_type.0,
            num_ports: self.num_ports,
            system_image_guid: U64::new(self.system_image_guid.0),
            node_guid: U64::new(self.node_guid.0),
            port_guid: U64::new(self.port_guid.0),
            partition_cap: U16::new(self.partition_cap),
            device_id: U16::new(self.device_id),
            revision: U32::new(self.revision),
            local_port: self.local_port,
            vendor_id: U24::new("VendorID", self.vendor_id)?,
        })
    }
}

/// NodeDescription: 64 bytes of UTF-8, zeros after it if there is room. As it travels and as a value.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(transparent)]
pub struct NodeDescription(pub [u8; 64]);

impl NodeDescription {
    /// As much of `text` as fits, cut between characters.
    pub fn new(text: &str) -> Self {
        let mut bytes = [0; 64];
        let mut len = text.len().min(bytes.len());
        while !text.is_char_boundary(len) {
            len -= 1;
        }
        bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
        NodeDescription(bytes)
    }

    /// The text up to the first zero, or to the first byte that is not UTF-8.
    pub fn as_str(&self) -> &str {
        let text = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
        match std::str::from_utf8(text) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or_default(),
        }
    }
}

impl fmt::Debug for NodeDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl Header for NodeDescription {
    type Wire = NodeDescription;
    const NAME: &'static str = "NodeDescription";

    fn from_wire(wire: &NodeDescription) -> Result<Self, ParseError> {
        Ok(*wire)
    }

    fn to_wire(&self) -> Result<NodeDescription, EmitError> {
        Ok(*self)
    }
}

/// A NodeRecord as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct NodeRecordWire {
    lid: U16,
    reserved: U16,
    info: NodeInfoWire,
    description: NodeDescription,
}

/// A node as the subnet's database knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeRecord {
    /// A LID of the node.
    pub lid: Lid,
    /// What it says of itself.
    pub info: NodeInfo,
    /// Its description.
    pub description: NodeDescription,
}

impl Header for NodeRecord {
    type Wire = NodeRecordWire;
    const NAME: &'static str = "NodeRecord";

    fn from_wire(wire: &NodeRecordWire) -> Result<Self, ParseError> {
        Ok(NodeRecord {
            lid: Lid(wire.lid.get()),
            info: NodeInfo::from_wire(&wire.info)?,
            description: wire.description,
        })
    }

    fn to_wire(&self) -> Result<NodeRecordWire, EmitError> {
        Ok(NodeRecordWire {
            lid: U16::new(self.lid.0),
            reserved: U16::ZERO,
            info: self.info.to_wire()?,
            description: self.description,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_cut_between_characters() {
        assert_eq!(NodeDescription::new("node 7").as_str(), "node 7");
        let long = "ä".repeat(40);
        assert_eq!(NodeDescription::new(&long).as_str(), "ä".repeat(32));
        let odd = format!("x{long}");
        assert_eq!(
            NodeDescription::new(&odd).as_str(),
            format!("x{}", "ä".repeat(31))
        );
        // What a node sends need be neither ended nor UTF-8.
        assert_eq!(NodeDescription([b'a'; 64]).as_str().len(), 64);
        let mut bytes = [b'b'; 64];
        bytes[2] = 0xff;
        assert_eq!(NodeDescription(bytes).as_str(), "bb");
    }
}
