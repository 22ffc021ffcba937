//! The structures, and the numbers in them that are not the C API's own.

use ferriband_verbs_sys::{ibv_ah_attr, ibv_gid};
use libc::sockaddr_storage;

/// Most bytes of private data that any message carries (`RDMA_MAX_PRIVATE_DATA`).
pub const FB_MAX_PRIVATE_DATA: usize = 256;

/// An event channel; its inside is libibverbs's.
#[repr(C)]
pub struct fb_channel {
    _private: [u8; 0],
    _not_send: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
}

/// Parameters of a connection, the C API's `rdma_conn_param` without its pointer. In `fb_conn_param.valid` of an
/// acceptance 0 stands for an RTU, which has no parameters.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct fb_conn_param {
    /// The local queue pair; in events the other side's.
    pub qp_num: u32,
    /// Datagram services: the Q_Key; 0 is the default one.
    pub qkey: u32,
    /// Bytes of `private_data` that count. In events: all that the message carries, zeros at the end included.
    pub private_data_len: u8,
    /// The queue pair uses a shared receive queue.
    pub srq: u8,
    /// READs and atomics that the queue pair takes at a time.
    pub responder_resources: u8,
    /// READs and atomics that it will have outstanding.
    pub initiator_depth: u8,
    /// End-to-end flow control.
    pub flow_control: u8,
    /// Retries, 0 to 7.
    pub retry_count: u8,
    /// RNR retries, 0 to 7.
    pub rnr_retry_count: u8,
    /// Not 0.
    pub valid: u8,
    /// The consumer's.
    pub private_data: [u8; FB_MAX_PRIVATE_DATA],
}

/// What is known of a datagram service or a multicast group, `rdma_ud_param` without its pointer.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct fb_ud_param {
    /// The queue pair that serves; 0xffffff for a group.
    pub qp_num: u32,
    /// Its Q_Key.
    pub qkey: u32,
    /// The way to it.
    pub ah_attr: ibv_ah_attr,
    /// Bytes of `private_data` that count.
    pub private_data_len: u8,
    /// Zero.
    pub reserved: [u8; 7],
    /// The other consumer's.
    pub private_data: [u8; FB_MAX_PRIVATE_DATA],
}

/// A vendor's options (enhanced connection establishment): `ibv_ece` of the local or the other side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct fb_ece {
    /// The vendor, 24 bits; 0 is none.
    pub vendor_id: u32,
    /// What it wants said.
    pub options: u32,
}

/// Parameters of an event, by its kind.
#[derive(Clone, Copy)]
#[repr(C)]
pub union fb_event_param {
    /// CONNECT_REQUEST, CONNECT_RESPONSE, ESTABLISHED, REJECTED, DISCONNECTED, UNREACHABLE of a connected service.
    pub conn: fb_conn_param,
    /// The same of a datagram service, and MULTICAST_JOIN.
    pub ud: fb_ud_param,
    /// USER: the program's.
    pub arg: u64,
}

/// An event.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct fb_cm_event {
    /// Bytes of this structure, set by the caller.
    pub size: u32,
    /// `rdma_cm_event_type`.
    pub event: u32,
    /// The `user` of the identifier; of the listening one for CONNECT_REQUEST; of the membership for MULTICAST_JOIN and
    /// MULTICAST_ERROR.
    pub user: u64,
    /// The identifier; new for CONNECT_REQUEST.
    pub id: u32,
    /// 0, a negative errno, or for REJECTED the reason of the REJ (for datagram services the status of the answer).
    pub status: i32,
    /// A vendor's options of the other side: CONNECT_REQUEST and CONNECT_RESPONSE.
    pub ece: fb_ece,
    /// By kind.
    pub param: fb_event_param,
}

/// A path as `fb_cm_info` has it: what the C API's `ibv_sa_path_rec` says and the machine knows.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct fb_path {
    /// GID of the port there.
    pub dgid: ibv_gid,
    /// GID of the port here.
    pub sgid: ibv_gid,
    /// LID there, host order; 0 on Ethernet.
    pub dlid: u16,
    /// LID here, host order; 0 on Ethernet.
    pub slid: u16,
    /// Flow label, host order.
    pub flow_label: u32,
    /// P_Key, host order.
    pub pkey: u16,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Service level.
    pub sl: u8,
    /// Path MTU (`ibv_mtu`).
    pub mtu: u8,
    /// Rate (`ibv_rate`).
    pub rate: u8,
    /// Packet life time, code.
    pub packet_life_time: u8,
}

/// A service that has said of itself at subnet administration.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct fb_service {
    /// Its number, host order.
    pub service_id: u64,
    /// Its port.
    pub gid: ibv_gid,
    /// Its partition, host order.
    pub pkey: u16,
    /// Zero.
    pub reserved: [u8; 6],
}

/// What is known of an identifier. Addresses of family 0 are not known yet.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct fb_cm_info {
    /// Bytes of this structure, set by the caller.
    pub size: u32,
    /// The device, as an index into `ibv_get_device_list`; -1 while the identifier is bound to none.
    pub device_index: i32,
    /// The device's GUID, network order as `ibv_get_device_guid` has it.
    pub node_guid: u64,
    /// Port from 1.
    pub port_num: u8,
    /// Paths in `paths`, 0 to 2.
    pub num_paths: u8,
    /// P_Key, host order.
    pub pkey: u16,
    /// Zero.
    pub reserved: u32,
    /// GID here.
    pub sgid: ibv_gid,
    /// GID there.
    pub dgid: ibv_gid,
    /// Address here, with its port.
    pub src_addr: sockaddr_storage,
    /// Address there, with its port.
    pub dst_addr: sockaddr_storage,
    /// The paths: primary, alternate.
    pub paths: [fb_path; 2],
}

// The layouts are an interface between two files that may come from two builds.
const _: () = {
    use core::mem::{align_of, offset_of, size_of};
    assert!(size_of::<fb_conn_param>() == 272 && align_of::<fb_conn_param>() == 4);
    assert!(offset_of!(fb_conn_param, private_data) == 16);
    assert!(size_of::<ibv_ah_attr>() == 32 && offset_of!(fb_ud_param, private_data) == 48);
    assert!(size_of::<fb_ud_param>() == 304);
    assert!(size_of::<fb_cm_event>() == 336 && offset_of!(fb_cm_event, param) == 32);
    assert!(size_of::<fb_path>() == 48);
    assert!(size_of::<fb_service>() == 32 && offset_of!(fb_service, gid) == 8);
    assert!(size_of::<fb_cm_info>() == 408 && offset_of!(fb_cm_info, src_addr) == 56);
};
