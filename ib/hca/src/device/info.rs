//! What a device and its port say of themselves.
//!
//! Owns the words for it. Must not know: where it comes from, except for what a live fabric says of
//! its own adapter.

use ferriband_admin::config::Settings;
use ferriband_wire::{Gid, Guid, Lid, Mtu};

use super::fabric;

/// What the packets of a device travel on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkLayer {
    /// Native packets, LIDs.
    InfiniBand,
    /// RoCEv2 over an interface.
    Ethernet,
}

/// The device as programs list it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Name, such as `ferri0` or `ferri_eth0`.
    pub name: String,
    /// Node GUID.
    pub guid: Guid,
    /// GUID of the machine that it is a part of.
    pub system_guid: Guid,
    /// What it calls itself: the NodeDescription of an InfiniBand device.
    pub description: String,
    /// Index in the list.
    pub index: usize,
    /// Link layer of its port.
    pub link_layer: LinkLayer,
    /// Index of its interface, 0 if it has none.
    pub ifindex: u32,
    /// Name of its interface, empty if it has none.
    pub interface: String,
    /// What the file of devices says of it.
    pub settings: Settings,
}

/// The port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortAttr {
    /// Its base LID; 0 on Ethernet.
    pub lid: Lid,
    /// The port has 2^LMC LIDs, from the base LID on.
    pub lmc: u8,
    /// LID of the subnet manager; 0 on Ethernet.
    pub sm_lid: Lid,
    /// Link layer.
    pub link_layer: LinkLayer,
    /// Packets can travel.
    pub active: bool,
    /// Largest MTU.
    pub max_mtu: Mtu,
    /// Current MTU.
    pub mtu: Mtu,
    /// Speed in Mbit/s; 0 if the interface does not say.
    pub speed_mbps: u32,
    /// The link, on a host of a live fabric.
    pub link: Option<FabricLink>,
    /// Entries of the GID table.
    pub gid_table: u32,
    /// Entries of the P_Key table.
    pub pkey_table: u32,
}

/// The link of a port of a live fabric, in the codes of PortInfo (IBA 14.2.5.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FabricLink {
    /// State of the link.
    pub state: u8,
    /// State of the physical link.
    pub phys_state: u8,
    /// Width that is active.
    pub width: u8,
    /// Speed that is active.
    pub speed: u8,
    /// Extended speed that is active; 0: none.
    pub speed_ext: u8,
}

/// An entry of the GID table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GidEntry {
    /// The GID.
    pub gid: Gid,
    /// Its index.
    pub index: u32,
    /// Index of the interface whose address it is, 0 on InfiniBand.
    pub ifindex: u32,
}

/// A device's description, and the InfiniBand one's as the fabric has it.
pub(crate) fn describe(mut info: DeviceInfo) -> DeviceInfo {
    if info.link_layer == LinkLayer::InfiniBand
        && let Some(adapter) = fabric::adapter()
    {
        info.system_guid = Guid(adapter.system_guid);
        info.description = adapter.description;
    }
    info
}
