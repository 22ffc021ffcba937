//! The structures that programs hold, as rdma-core 44's `umad.h` lays them out.

use std::ffi::{c_char, c_int, c_uint};

/// Bytes of a name.
pub const NAME: usize = 20;
/// Places for ports in an adapter.
pub const MAX_PORTS: usize = 10;
/// Bytes before a management packet: `sizeof(struct ib_user_mad)`.
pub const HEAD: usize = 64;
/// Where the address begins in it, and what lies where in the address.
pub const ADDRESS: usize = 20;
/// Offset of `grh_present` from the beginning of the address; `ib_gid` and `flow_label` follow.
pub const GRH_PRESENT: usize = 12;
/// `hop_limit`, `traffic_class`.
pub const HOP_LIMIT: usize = 14;
/// The GID.
pub const GID: usize = 16;
/// The flow label.
pub const FLOW_LABEL: usize = 32;
/// The index of the partition key.
pub const PKEY_INDEX: usize = 36;

/// `umad_port_t`.
#[repr(C)]
pub struct Port {
    pub ca_name: [c_char; NAME],
    pub portnum: c_int,
    pub base_lid: c_uint,
    pub lmc: c_uint,
    pub sm_lid: c_uint,
    pub sm_sl: c_uint,
    pub state: c_uint,
    pub phys_state: c_uint,
    pub rate: c_uint,
    /// Big-endian, as the next two.
    pub capmask: u32,
    pub gid_prefix: u64,
    pub port_guid: u64,
    pub pkeys_size: c_uint,
    pub pkeys: *mut u16,
    pub link_layer: [c_char; NAME],
}

/// `umad_ca_t`.
#[repr(C)]
pub struct Ca {
    pub ca_name: [c_char; NAME],
    pub node_type: c_uint,
    pub numports: c_int,
    pub fw_ver: [c_char; 20],
    pub ca_type: [c_char; 40],
    pub hw_ver: [c_char; 20],
    /// Big-endian, as the next.
    pub node_guid: u64,
    pub system_guid: u64,
    pub ports: [*mut Port; MAX_PORTS],
}

/// `struct umad_ca_pair`.
#[repr(C)]
pub struct CaPair {
    pub smi_name: [c_char; NAME],
    pub smi_preferred_port: u32,
    pub gsi_name: [c_char; NAME],
    pub gsi_preferred_port: u32,
}

/// `struct umad_device_node`.
#[repr(C)]
pub struct DeviceNode {
    pub next: *mut DeviceNode,
    pub ca_name: *const c_char,
}

/// `struct umad_reg_attr`.
#[repr(C)]
pub struct RegAttr {
    pub mgmt_class: u8,
    pub mgmt_class_version: u8,
    pub flags: u32,
    pub method_mask: [u64; 2],
    pub oui: u32,
    pub rmpp_version: u8,
}

// sizeof and offsetof as gcc gives them for rdma-core 44's header on a 64-bit machine
const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Port>() == 112 && offset_of!(Port, capmask) == 52);
    assert!(offset_of!(Port, gid_prefix) == 56 && offset_of!(Port, pkeys) == 80);
    assert!(size_of::<Ca>() == 208 && offset_of!(Ca, node_guid) == 112);
    assert!(offset_of!(Ca, ports) == 128 && offset_of!(RegAttr, method_mask) == 8);
    assert!(size_of::<RegAttr>() == 32);
};

/// A C string in a field, cut to fit.
pub fn name<const N: usize>(text: &str) -> [c_char; N] {
    let mut field = [0; N];
    for (place, byte) in field[..N - 1].iter_mut().zip(text.bytes()) {
        *place = byte as c_char;
    }
    field
}
