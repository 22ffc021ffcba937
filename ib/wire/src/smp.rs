//! Subnet management packets (IBA 14.2): the MADs of queue pair 0, routed by LID or, before there are LIDs, by the list
//! of ports to leave by. Both have one layout. What a node does with a directed route is the business of its subnet
//! management interface.

use crate::error::{EmitError, ParseError};
use crate::header::{Header, fits};
use crate::mad::{
    AttributeId, MadHeader, MadHeaderWire, MadStatus, ManagementClass, Method, parse_whole,
};
use crate::types::{Lid, MKey, TransactionId};
use std::fmt;
use zerocopy::byteorder::big_endian::{U16, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of an attribute in an SMP.
pub const SMP_DATA_LEN: usize = 64;
/// Entries of a directed route's paths; entry 0 is not used.
pub const PATH_LEN: usize = 64;
/// Most hops of a directed route.
pub const MAX_HOPS: u8 = 63;

/// Attributes of subnet management (IBA 14.2.5).
pub mod attribute {
    use crate::mad::AttributeId;

    /// Notice, for traps.
    pub const NOTICE: AttributeId = AttributeId::NOTICE;
    /// NodeDescription.
    pub const NODE_DESCRIPTION: AttributeId = AttributeId(0x0010);
    /// NodeInfo.
    pub const NODE_INFO: AttributeId = AttributeId(0x0011);
    /// SwitchInfo.
    pub const SWITCH_INFO: AttributeId = AttributeId(0x0012);
    /// GUIDInfo.
    pub const GUID_INFO: AttributeId = AttributeId(0x0014);
    /// PortInfo; the modifier is the port.
    pub const PORT_INFO: AttributeId = AttributeId(0x0015);
    /// P_KeyTable; the modifier is port and block.
    pub const PKEY_TABLE: AttributeId = AttributeId(0x0016);
    /// SLtoVLMappingTable.
    pub const SL_TO_VL: AttributeId = AttributeId(0x0017);
    /// VLArbitrationTable.
    pub const VL_ARBITRATION: AttributeId = AttributeId(0x0018);
    /// LinearForwardingTable; the modifier is the block of 64 LIDs.
    pub const LINEAR_FORWARDING: AttributeId = AttributeId(0x0019);
    /// RandomForwardingTable.
    pub const RANDOM_FORWARDING: AttributeId = AttributeId(0x001a);
    /// MulticastForwardingTable.
    pub const MULTICAST_FORWARDING: AttributeId = AttributeId(0x001b);
    /// SMInfo.
    pub const SM_INFO: AttributeId = AttributeId(0x0020);
    /// VendorDiag.
    pub const VENDOR_DIAG: AttributeId = AttributeId(0x0030);
    /// LedInfo.
    pub const LED_INFO: AttributeId = AttributeId(0x0031);
    /// A vendor's: what PortInfo has no place for of a link's speed; the modifier is the port.
    pub const MLNX_EXTENDED_PORT_INFO: AttributeId = AttributeId(0xff90);
}

/// An SMP as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SmpWire {
    /// Status is D:1 Status:15 in a directed route, and the class-specific field HopPointer:8 HopCount:8.
    header: MadHeaderWire,
    mkey: U64,
    dr_slid: U16,
    dr_dlid: U16,
    reserved: [u8; 28],
    data: [u8; SMP_DATA_LEN],
    initial_path: [u8; PATH_LEN],
    return_path: [u8; PATH_LEN],
}

/// Which way a directed-route SMP travels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// Away from the requester, along the initial path.
    Outbound,
    /// Back to it, along the return path.
    Returning,
}

/// A directed route: the ports by which to leave, from hop 1 on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectedRoute {
    /// Which way the packet travels.
    pub direction: Direction,
    /// Where in the path it is. Any value: the subnet management interface drops what is beyond `hop_count` + 1.
    pub hop_pointer: u8,
    /// Hops of the path, at most 63.
    pub hop_count: u8,
    /// LID at which the directed part begins, or the permissive LID.
    pub dr_slid: Lid,
    /// LID at which the directed part ends, or the permissive LID.
    pub dr_dlid: Lid,
    /// Port to leave by at each hop outbound.
    pub initial_path: [u8; PATH_LEN],
    /// Port to leave by at each hop on the way back, written on the way out.
    pub return_path: [u8; PATH_LEN],
}

impl DirectedRoute {
    /// An outbound route through `ports` (the first is left by the requester's own node) with permissive LIDs: no
    /// LID is needed to travel it. Fails for more than 63 ports.
    pub fn new(ports: &[u8]) -> Result<Self, EmitError> {
        let mut initial_path = [0; PATH_LEN];
        initial_path[1..]
            .get_mut(..ports.len())
            .ok_or(EmitError::TooLong {
                field: "InitialPath",
                max: MAX_HOPS.into(),
                got: ports.len(),
            })?
            .copy_from_slice(ports);
        Ok(DirectedRoute {
            direction: Direction::Outbound,
            hop_pointer: 0,
            // At most 63: they fitted.
            hop_count: ports.len() as u8,
            dr_slid: Lid::PERMISSIVE,
            dr_dlid: Lid::PERMISSIVE,
            initial_path,
            return_path: [0; PATH_LEN],
        })
    }

    /// The ports of the initial path.
    pub fn ports(&self) -> &[u8] {
        let hops = self.hop_count.min(MAX_HOPS);
        &self.initial_path[1..=usize::from(hops)]
    }
}

/// How an SMP finds its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::large_enum_variant)] // both are as large as a MAD makes them, and live on the stack
pub enum Route {
    /// By its LRH's LIDs.
    Lid,
    /// By the list of ports.
    Directed(DirectedRoute),
}

/// A subnet management packet, a whole MAD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Smp {
    /// Get, Set, GetResp, Trap or TrapRepress.
    pub method: Method,
    /// Status of an answer; 15 bits in a directed route.
    pub status: MadStatus,
    /// Ties an answer to its request.
    pub transaction_id: TransactionId,
    /// Attribute.
    pub attribute: AttributeId,
    /// Which port, block or instance of the attribute.
    pub attribute_modifier: u32,
    /// Management key of the port that is managed.
    pub mkey: MKey,
    /// The attribute.
    pub data: [u8; SMP_DATA_LEN],
    /// How it travels.
    pub route: Route,
}

const DIRECTION: u16 = 1 << 15;

impl Smp {
    /// A request without data.
    pub const fn new(method: Method, attribute: AttributeId, attribute_modifier: u32) -> Self {
        Smp {
            method,
            status: MadStatus::OK,
            transaction_id: TransactionId(0),
            attribute,
            attribute_modifier,
            mkey: MKey(0),
            data: [0; SMP_DATA_LEN],
            route: Route::Lid,
        }
    }

    /// The class that the route makes it.
    pub const fn class(&self) -> ManagementClass {
        match self.route {
            Route::Lid => ManagementClass::SUBN_LID_ROUTED,
            Route::Directed(_) => ManagementClass::SUBN_DIRECTED_ROUTE,
        }
    }

    /// Reads a whole MAD of 256 bytes.
    pub fn parse_mad(bytes: &[u8]) -> Result<Self, ParseError> {
        parse_whole(bytes)
    }

    /// Reads the attribute as an `A`. Fails only for attributes longer than an SMP carries.
    pub fn data_as<A: Header>(&self) -> Result<A, ParseError> {
        A::parse(&self.data).map(|(attribute, _)| attribute)
    }

    /// Writes `attribute` as the data, the rest zero.
    pub fn set_data<A: Header>(&mut self, attribute: &A) -> Result<(), EmitError> {
        self.data = [0; SMP_DATA_LEN];
        attribute.emit(&mut self.data).map(|_| ())
    }
}

impl Header for Smp {
    type Wire = SmpWire;
    const NAME: &'static str = "SMP";

    fn from_wire(wire: &SmpWire) -> Result<Self, ParseError> {
        let header = MadHeader::from_wire(&wire.header)?;
        header.check_version()?;
        let mut status = header.status;
        let route = match header.class {
            ManagementClass::SUBN_LID_ROUTED => Route::Lid,
            ManagementClass::SUBN_DIRECTED_ROUTE => {
                let [hop_pointer, hop_count] = header.class_specific.to_be_bytes();
                if hop_count > MAX_HOPS {
                    return Err(ParseError::Field {
                        field: "HopCount",
                        value: hop_count.into(),
                    });
                }
                status = MadStatus(status.0 & !DIRECTION);
                Route::Directed(DirectedRoute {
                    direction: if header.status.0 & DIRECTION == 0 {
                        Direction::Outbound
                    } else {
                        Direction::Returning
                    },
                    hop_pointer,
                    hop_count,
                    dr_slid: Lid(wire.dr_slid.get()),
                    dr_dlid: Lid(wire.dr_dlid.get()),
                    initial_path: wire.initial_path,
                    return_path: wire.return_path,
                })
            }
            got => {
                return Err(ParseError::MadClass {
                    expected: ManagementClass::SUBN_LID_ROUTED,
                    got,
                });
            }
        };
        Ok(Smp {
            method: header.method,
            status,
            transaction_id: header.transaction_id,
            attribute: header.attribute,
            attribute_modifier: header.attribute_modifier,
            mkey: MKey(wire.mkey.get()),
            data: wire.data,
            route,
        })
    }

    fn to_wire(&self) -> Result<SmpWire, EmitError> {
        let mut header = MadHeader {
            status: self.status,
            attribute_modifier: self.attribute_modifier,
            ..MadHeader::new(
                self.class(),
                self.method,
                self.attribute,
                self.transaction_id,
            )
        };
        let mut wire = SmpWire {
            mkey: U64::new(self.mkey.0),
            data: self.data,
            ..SmpWire::new_zeroed()
        };
        if let Route::Directed(route) = &self.route {
            fits("Status", self.status.0.into(), 15)?;
            fits("HopCount", route.hop_count.into(), 6)?;
            if route.direction == Direction::Returning {
                header.status.0 |= DIRECTION;
            }
            header.class_specific = u16::from_be_bytes([route.hop_pointer, route.hop_count]);
            wire.dr_slid = U16::new(route.dr_slid.0);
            wire.dr_dlid = U16::new(route.dr_dlid.0);
            wire.initial_path = route.initial_path;
            wire.return_path = route.return_path;
        }
        wire.header = header.to_wire()?;
        Ok(wire)
    }
}

/// One line, as `ferriband dump` prints it.
impl fmt::Display for Smp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}({}) tid={} modifier={:#x} status={}",
            self.class(),
            self.method,
            self.attribute,
            self.transaction_id,
            self.attribute_modifier,
            self.status
        )?;
        if let Route::Directed(route) = &self.route {
            write!(
                f,
                " hop={}/{} path={:?}",
                route.hop_pointer,
                route.hop_count,
                route.ports()
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_as_long_as_its_ports() {
        let route = DirectedRoute::new(&[1, 5, 7]).expect("short");
        assert_eq!((route.hop_count, route.ports()), (3, &[1, 5, 7][..]));
        assert_eq!(route.initial_path[..5], [0, 1, 5, 7, 0]);
        assert_eq!(
            DirectedRoute::new(&[1; 63]).map(|route| route.hop_count),
            Ok(63)
        );
        assert_eq!(
            DirectedRoute::new(&[1; 64]),
            Err(EmitError::TooLong {
                field: "InitialPath",
                max: 63,
                got: 64
            })
        );
        assert_eq!(
            DirectedRoute::new(&[]).map(|route| route.ports().len()),
            Ok(0)
        );
    }

    #[test]
    fn a_hop_count_beyond_the_path_is_refused_both_ways() {
        let mut smp = Smp {
            route: Route::Directed(DirectedRoute::new(&[1]).expect("short")),
            ..Smp::new(Method::GET, attribute::NODE_INFO, 0)
        };
        let mut mad = [0; 256];
        smp.emit(&mut mad).expect("fits");
        mad[7] = 64;
        let refused = ParseError::Field {
            field: "HopCount",
            value: 64,
        };
        assert_eq!(Smp::parse_mad(&mad), Err(refused));
        if let Route::Directed(route) = &mut smp.route {
            route.hop_count = 64;
        }
        assert!(smp.to_wire().is_err());
    }
}
