//! What a program may ask about a device, its port and the port's tables.

use crate::boundary::{MinusOne, Negated, try_entry};
use crate::context::Context;
use crate::device::store;
use crate::object::{input, output};
use ferriband_hca::{self as hca, limits};
use ferriband_verbs_sys as sys;
use std::ffi::c_int;
use std::mem::offset_of;

/// The device's capabilities as flags.
const DEVICE_CAPS: u32 = sys::IBV_DEVICE_CURR_QP_STATE_MOD
    | sys::IBV_DEVICE_UD_AV_PORT_ENFORCE
    | sys::IBV_DEVICE_SYS_IMAGE_GUID
    | sys::IBV_DEVICE_RC_RNR_NAK_GEN
    | sys::IBV_DEVICE_SRQ_RESIZE
    | sys::IBV_DEVICE_MEM_WINDOW
    | sys::IBV_DEVICE_MEM_WINDOW_TYPE_2B
    | sys::IBV_DEVICE_XRC;

/// The capabilities of a device: [`DEVICE_CAPS`], and automatic path migration where paths can
/// differ, which they do not on the InfiniBand port of this machine itself.
pub fn device_caps(ethernet: bool) -> u32 {
    match ethernet || hca::fabric::is_host() {
        true => DEVICE_CAPS | sys::IBV_DEVICE_AUTO_PATH_MIG,
        false => DEVICE_CAPS,
    }
}

/// How long the adapter may take to acknowledge, as the exponent of 4.096 us: 134 ms, above any scheduling delay of a
/// machine that is not overloaded.
const ACK_DELAY: u8 = 15;

fn device_attr(context: &Context) -> sys::ibv_device_attr {
    let info = context.device().info();
    let int = |value: u32| value as c_int;
    let caps = device_caps(info.link_layer == hca::LinkLayer::Ethernet);
    let mut attr = sys::ibv_device_attr {
        node_guid: info.guid.0.to_be(),
        sys_image_guid: info.system_guid.0.to_be(),
        max_mr_size: limits::MAX_MR_SIZE,
        // every power of two from 4 KiB up
        page_size_cap: !0xfff,
        vendor_id: limits::VENDOR_ID,
        vendor_part_id: limits::VENDOR_PART_ID,
        hw_ver: 1,
        max_qp: int(limits::MAX_QP),
        max_qp_wr: int(limits::MAX_QP_WR),
        device_cap_flags: caps,
        max_sge: int(limits::MAX_SGE),
        max_sge_rd: int(limits::MAX_SGE),
        max_cq: int(limits::MAX_CQ),
        max_cqe: int(limits::MAX_CQE),
        max_mr: int(limits::MAX_MR),
        max_pd: int(limits::MAX_PD),
        max_qp_rd_atom: int(limits::MAX_RD_ATOM),
        max_res_rd_atom: int(limits::MAX_RD_ATOM.saturating_mul(limits::MAX_QP)),
        max_qp_init_rd_atom: int(limits::MAX_RD_ATOM),
        // UCX takes no atomics of an adapter that says IBV_ATOMIC_GLOB
        atomic_cap: sys::IBV_ATOMIC_HCA,
        max_mw: int(limits::MAX_MR),
        max_ah: int(limits::MAX_AH),
        max_srq: int(limits::MAX_SRQ),
        max_srq_wr: int(limits::MAX_SRQ_WR),
        max_srq_sge: int(limits::MAX_SGE),
        max_mcast_grp: int(limits::MAX_MCAST_GROUPS),
        max_mcast_qp_attach: int(limits::MAX_MCAST_QPS),
        max_total_mcast_qp_attach: int(limits::MAX_MCAST_GROUPS),
        max_pkeys: (context.hca().query_port(1)).map_or(1, |port| port.pkey_table as u16),
        local_ca_ack_delay: ACK_DELAY,
        phys_port_cnt: context.hca().device.ports(),
        ..Default::default()
    };
    store(&mut attr.fw_ver, env!("CARGO_PKG_VERSION"));
    attr
}

fn device_attr_ex(context: &Context) -> sys::ibv_device_attr_ex {
    let connected = sys::IBV_ODP_SUPPORT_SEND
        | sys::IBV_ODP_SUPPORT_RECV
        | sys::IBV_ODP_SUPPORT_WRITE
        | sys::IBV_ODP_SUPPORT_SRQ_RECV;
    let reliable = connected | sys::IBV_ODP_SUPPORT_READ | sys::IBV_ODP_SUPPORT_ATOMIC;
    let orig_attr = device_attr(context);
    let mut attr = sys::ibv_device_attr_ex {
        orig_attr,
        completion_timestamp_mask: u64::MAX,
        hca_core_clock: limits::CORE_CLOCK_KHZ,
        device_cap_flags_ex: orig_attr.device_cap_flags.into(),
        max_dm_size: limits::MAX_DM,
        xrc_odp_caps: reliable,
        phys_port_cnt_ex: orig_attr.phys_port_cnt.into(),
        ..Default::default()
    };
    if context.hca().device.is_ethernet() {
        attr.packet_pacing_caps = sys::ibv_packet_pacing_caps {
            qp_rate_limit_min: 1,
            qp_rate_limit_max: u32::MAX,
            supported_qpts: 1 << sys::IBV_QPT_RC | 1 << sys::IBV_QPT_UC | 1 << sys::IBV_QPT_UD,
        };
    }
    attr.odp_caps.general_caps = (sys::IBV_ODP_SUPPORT | sys::IBV_ODP_SUPPORT_IMPLICIT).into();
    attr.odp_caps.per_transport_caps.rc_odp_caps = reliable;
    attr.odp_caps.per_transport_caps.uc_odp_caps = connected;
    attr.odp_caps.per_transport_caps.ud_odp_caps =
        sys::IBV_ODP_SUPPORT_SEND | sys::IBV_ODP_SUPPORT_RECV | sys::IBV_ODP_SUPPORT_SRQ_RECV;
    attr
}

/// `ibv_query_device`.
///
/// # Safety
/// `context` is a live context and `attr` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_device(
    context: *mut sys::ibv_context,
    attr: *mut sys::ibv_device_attr,
) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let context = unsafe { Context::of(context) }?;
        // SAFETY: the caller's promise.
        unsafe { output(attr, device_attr(context)) }?;
        Ok(0)
    })
}

/// `query_device_ex` of the context: fills as much of the structure as the caller's header had.
///
/// # Safety
/// `context` is a live context, `input` NULL or readable, and `attr` writable for `attr_size` bytes.
pub unsafe extern "C" fn query_device_ex(
    context: *mut sys::ibv_context,
    input_attr: *const sys::ibv_query_device_ex_input,
    attr: *mut sys::ibv_device_attr_ex,
    attr_size: usize,
) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let context = unsafe { Context::of_this_process(context) }?;
        // SAFETY: the caller's promise.
        let has_unknown = unsafe { input_attr.as_ref() }.is_some_and(|input| input.comp_mask != 0);
        if has_unknown || attr_size < size_of::<sys::ibv_device_attr>() {
            return Err(libc::EINVAL);
        }
        let full = device_attr_ex(context);
        // SAFETY: the caller's promise.
        unsafe { copy_prefix(&full, attr, attr_size) }?;
        Ok(0)
    })
}

/// Copies a structure into a caller's, whose header may have known fewer fields or more; the rest is zeroed.
///
/// # Safety
/// `to` is NULL or writable for `size` bytes.
unsafe fn copy_prefix<T>(from: &T, to: *mut T, size: usize) -> Result<(), i32> {
    if to.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller's promise.
    unsafe { to.cast::<u8>().write_bytes(0, size) };
    let known = size.min(size_of::<T>());
    // SAFETY: the caller's promise, and no more than the source has.
    unsafe {
        std::ptr::from_ref(from)
            .cast::<u8>()
            .copy_to_nonoverlapping(to.cast(), known)
    };
    Ok(())
}

fn port_attr(context: &Context, port_num: u8) -> Result<sys::ibv_port_attr, i32> {
    /// One data lane (VL0).
    const ONE_VL: u8 = 1;
    /// A subnet of one switch at most answers within 4.096 us * 2^18, the value that subnet managers use.
    const SUBNET_TIMEOUT: u8 = 18;
    let port = context
        .hca()
        .query_port(port_num)
        .map_err(|error| error.errno())?;
    let ethernet = port.link_layer == hca::LinkLayer::Ethernet;
    let (active_width, active_speed) = width_and_speed(&port);
    let mut attr = sys::ibv_port_attr {
        state: states(&port).0.into(),
        max_mtu: port.max_mtu as u32,
        active_mtu: port.mtu as u32,
        gid_tbl_len: port.gid_table as c_int,
        port_cap_flags: port_cap_flags(ethernet),
        max_msg_sz: limits::MAX_MESSAGE,
        pkey_tbl_len: port.pkey_table as u16,
        lid: port.lid.0,
        lmc: port.lmc,
        sm_lid: port.sm_lid.0,
        max_vl_num: ONE_VL,
        subnet_timeout: SUBNET_TIMEOUT,
        active_width,
        active_speed,
        phys_state: states(&port).1,
        link_layer: sys::IBV_LINK_LAYER_INFINIBAND as u8,
        ..Default::default()
    };
    if ethernet {
        attr.link_layer = sys::IBV_LINK_LAYER_ETHERNET as u8;
        attr.subnet_timeout = 0;
    }
    Ok(attr)
}

/// What a port says that it can do.
pub fn port_cap_flags(ethernet: bool) -> u32 {
    if ethernet {
        sys::IBV_PORT_IP_BASED_GIDS | sys::IBV_PORT_CM_SUP
    } else if hca::fabric::is_host() {
        sys::IBV_PORT_SYS_IMAGE_GUID_SUP | sys::IBV_PORT_AUTO_MIGR_SUP
    } else {
        sys::IBV_PORT_SYS_IMAGE_GUID_SUP
    }
}

/// PortInfo encodings (IBA 14.2.5.6).
const PHYS_LINK_UP: u8 = 5;
const PHYS_DISABLED: u8 = 3;

/// States of the link and of the physical link: those that the fabric has, else up or down.
pub fn states(port: &hca::PortAttr) -> (u8, u8) {
    match (port.link, port.active) {
        (Some(link), _) => (link.state, link.phys_state),
        (None, true) => (sys::IBV_PORT_ACTIVE as u8, PHYS_LINK_UP),
        (None, false) => (sys::IBV_PORT_DOWN as u8, PHYS_DISABLED),
    }
}

/// Width and speed of the link: on a live fabric its own, else four lanes of 25 Gb/s on InfiniBand; on Ethernet what is nearest below the interface's speed.
pub fn width_and_speed(port: &hca::PortAttr) -> (u8, u8) {
    const WIDTH_1X: u8 = 1;
    const WIDTH_4X: u8 = 2;
    const SPEED_SDR: u8 = 1;
    const SPEED_QDR: u8 = 4;
    const SPEED_EDR: u8 = 32;
    if let Some(link) = port.link {
        // verbs have one code for both kinds of speed
        let speed = match link.speed_ext {
            0 => link.speed,
            extended => extended << 4,
        };
        return (link.width, speed);
    }
    match (port.link_layer, port.speed_mbps) {
        (hca::LinkLayer::InfiniBand, _) | (_, 100_000..) => (WIDTH_4X, SPEED_EDR),
        (_, 40_000..) => (WIDTH_4X, SPEED_QDR),
        (_, 25_000..) => (WIDTH_1X, SPEED_EDR),
        (_, 10_000..) => (WIDTH_1X, SPEED_QDR),
        _ => (WIDTH_1X, SPEED_SDR),
    }
}

/// `ibv_query_port`: the shorter structure of old headers, which ends before `port_cap_flags2`.
///
/// # Safety
/// `context` is a live context and `attr` writable for the old structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_port(
    context: *mut sys::ibv_context,
    port_num: u8,
    attr: *mut sys::_compat_ibv_port_attr,
) -> c_int {
    const OLD_SIZE: usize = offset_of!(sys::ibv_port_attr, port_cap_flags2);
    // SAFETY: the caller's promise.
    unsafe { query_port(context, port_num, attr.cast(), OLD_SIZE) }
}

/// `query_port` of the context.
///
/// # Safety
/// `context` is a live context and `attr` writable for `size` bytes.
pub unsafe extern "C" fn query_port(
    context: *mut sys::ibv_context,
    port_num: u8,
    attr: *mut sys::ibv_port_attr,
    size: usize,
) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let context = unsafe { Context::of(context) }?;
        let full = port_attr(context, port_num)?;
        // SAFETY: the caller's promise.
        unsafe { copy_prefix(&full, attr, size) }?;
        Ok(0)
    })
}

/// `ibv_query_port_speed`: width times speed of the link, in 100 Mb/s.
///
/// # Safety
/// `context` is a live context and `speed` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_port_speed(
    context: *mut sys::ibv_context,
    port_num: u32,
    speed: *mut u64,
) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let context = unsafe { Context::of(context) }?;
        let port_num = u8::try_from(port_num).map_err(|_| libc::EINVAL)?;
        let attr = port_attr(context, port_num)?;
        let lanes = lanes(attr.active_width);
        // SAFETY: the caller's promise; NULL is refused.
        unsafe { output(speed, lanes * lane_speed(attr.active_speed)) }?;
        Ok(0)
    })
}

/// Lanes of a link by the code of its width (IBA 14.2.5.6, LinkWidthActive).
fn lanes(width: u8) -> u64 {
    match width {
        1 => 1,
        2 => 4,
        4 => 8,
        8 => 12,
        16 => 2,
        _ => 0,
    }
}

/// Speed of a lane in 100 Mb/s by the code that verbs have for it: what is signalled, as adapters report it.
fn lane_speed(speed: u8) -> u64 {
    match speed {
        1 => 25,
        2 => 50,
        4 | 8 => 100,
        16 => 140,
        32 => 250,
        64 => 500,
        128 => 1000,
        _ => 0,
    }
}

/// The device's clock, that of completion timestamps: CLOCK_MONOTONIC in nanoseconds.
fn device_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer comes from a live local; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// `query_rt_values` of the context: the clock of completion timestamps, as a count of its ticks.
///
/// # Safety
/// `context` is a live context, `values` readable and writable.
pub unsafe extern "C" fn query_rt_values(
    context: *mut sys::ibv_context,
    values: *mut sys::ibv_values_ex,
) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        unsafe { Context::of(context) }?;
        // SAFETY: the caller's promise.
        let asked = unsafe { input(values) }?.comp_mask;
        let mut answer = sys::ibv_values_ex::default();
        if asked & sys::IBV_VALUES_MASK_RAW_CLOCK != 0 {
            answer.comp_mask = sys::IBV_VALUES_MASK_RAW_CLOCK;
            answer.raw_clock.tv_nsec = device_ns() as i64;
        }
        // SAFETY: the caller's promise.
        unsafe { output(values, answer) }?;
        Ok(0)
    })
}

/// An entry of the GID table: Ok(None) for an empty one, EINVAL outside the table.
fn gid_entry(
    context: &Context,
    port_num: u32,
    index: u32,
) -> Result<Option<sys::ibv_gid_entry>, i32> {
    let port = u8::try_from(port_num).map_err(|_| libc::EINVAL)?;
    let attr = context
        .hca()
        .query_port(port)
        .map_err(|error| error.errno())?;
    if index >= attr.gid_table {
        return Err(libc::EINVAL);
    }
    let Ok(found) = context.hca().query_gid(port, index) else {
        return Ok(None);
    };
    let mut entry = sys::ibv_gid_entry {
        gid_index: index,
        port_num,
        gid_type: if attr.link_layer == hca::LinkLayer::Ethernet {
            sys::IBV_GID_TYPE_ROCE_V2
        } else {
            sys::IBV_GID_TYPE_IB
        },
        ndev_ifindex: found.ifindex,
        ..Default::default()
    };
    entry.gid.raw = found.gid.0;
    Ok((found.gid.0 != [0; 16]).then_some(entry))
}

/// The index of a GID in a port's table, of the kind that native packets (or those over UDP) use.
pub fn find_gid(context: &Context, port_num: u8, gid: [u8; 16], over_udp: bool) -> Result<u8, i32> {
    let attr = context
        .hca()
        .query_port(port_num)
        .map_err(|error| error.errno())?;
    for index in 0..attr.gid_table {
        let Some(entry) = gid_entry(context, port_num.into(), index)? else {
            continue;
        };
        let is_over_udp = entry.gid_type == sys::IBV_GID_TYPE_ROCE_V2;
        // SAFETY: every byte pattern of the union is a valid array of bytes.
        if unsafe { entry.gid.raw } == gid && is_over_udp == over_udp {
            return u8::try_from(index).map_err(|_| libc::EINVAL);
        }
    }
    Err(libc::EINVAL)
}

/// `ibv_query_gid`: an empty entry is the zero GID.
///
/// # Safety
/// `context` is a live context and `gid` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_gid(
    context: *mut sys::ibv_context,
    port_num: u8,
    index: c_int,
    gid: *mut sys::ibv_gid,
) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let context = unsafe { Context::of(context) }?;
        let index = u32::try_from(index).map_err(|_| libc::EINVAL)?;
        let entry = gid_entry(context, port_num.into(), index)?;
        // SAFETY: the caller's promise.
        unsafe { output(gid, entry.unwrap_or_default().gid) }?;
        Ok(MinusOne(0))
    })
    .0
}

/// `ibv_query_gid_type` (private, but called by programs): RoCEv2 or not; an empty entry is not.
///
/// # Safety
/// `context` is a live context and `gid_type` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_gid_type(
    context: *mut sys::ibv_context,
    port_num: u8,
    index: u32,
    gid_type: *mut u32,
) -> c_int {
    /// The two answers, from the private header (`enum ibv_gid_type_sysfs`).
    const IB_OR_ROCE_V1: u32 = 0;
    const ROCE_V2: u32 = 1;
    try_entry(|| {
        // SAFETY: the caller's promise.
        let context = unsafe { Context::of(context) }?;
        let entry = gid_entry(context, port_num.into(), index)?.unwrap_or_default();
        let answer = if entry.gid_type == sys::IBV_GID_TYPE_ROCE_V2 {
            ROCE_V2
        } else {
            IB_OR_ROCE_V1
        };
        // SAFETY: the caller's promise.
        unsafe { output(gid_type, answer) }?;
        Ok(MinusOne(0))
    })
    .0
}

/// `_ibv_query_gid_ex`: ENODATA for an empty entry.
///
/// # Safety
/// `context` is a live context and `entry` writable for `entry_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_ex(
    context: *mut sys::ibv_context,
    port_num: u32,
    gid_index: u32,
    entry: *mut sys::ibv_gid_entry,
    flags: u32,
    entry_size: usize,
) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let context = unsafe { Context::of(context) }?;
        if flags != 0 {
            return Err(libc::EINVAL);
        }
        let found = gid_entry(context, port_num, gid_index)?.ok_or(libc::ENODATA)?;
        // SAFETY: the caller's promise.
        unsafe { copy_prefix(&found, entry, entry_size) }?;
        Ok(0)
    })
}

/// `_ibv_query_gid_table`: the valid entries of all ports; their count, or the negated errno (EINVAL when they do not fit).
///
/// # Safety
/// `context` is a live context and `entries` writable for `max_entries` entries of `entry_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_table(
    context: *mut sys::ibv_context,
    entries: *mut sys::ibv_gid_entry,
    max_entries: usize,
    flags: u32,
    entry_size: usize,
) -> isize {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let context = unsafe { Context::of(context) }?;
        if flags != 0 || entry_size == 0 {
            return Err(libc::EINVAL);
        }
        let mut count = 0;
        for port in 1..=context.hca().device.ports() {
            let table = context
                .hca()
                .query_port(port)
                .map_err(|error| error.errno())?
                .gid_table;
            for index in 0..table {
                let Some(entry) = gid_entry(context, port.into(), index)? else {
                    continue;
                };
                if count == max_entries {
                    return Err(libc::EINVAL);
                }
                let slot = entries.wrapping_byte_add(count * entry_size);
                // SAFETY: the caller's promise: the slot lies in the array.
                unsafe { copy_prefix(&entry, slot, entry_size) }?;
                count += 1;
            }
        }
        Ok(Negated(count as isize))
    })
    .0
}

/// `ibv_query_pkey`: an entry of the P_Key table, in network byte order.
///
/// # Safety
/// `context` is a live context and `pkey` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_pkey(
    context: *mut sys::ibv_context,
    port_num: u8,
    index: c_int,
    pkey: *mut sys::__be16,
) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let context = unsafe { Context::of(context) }?;
        let index = u32::try_from(index).map_err(|_| libc::EINVAL)?;
        let found = context
            .hca()
            .query_pkey(port_num, index)
            .map_err(|error| error.errno())?;
        // SAFETY: the caller's promise.
        unsafe { output(pkey, found.to_be()) }?;
        Ok(MinusOne(0))
    })
    .0
}

/// `ibv_get_pkey_index`: the index of a P_Key (network byte order), or -1.
///
/// # Safety
/// `context` is a live context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_pkey_index(
    context: *mut sys::ibv_context,
    port_num: u8,
    pkey: sys::__be16,
) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let context = unsafe { Context::of(context) }?;
        let table = context
            .hca()
            .query_port(port_num)
            .map_err(|error| error.errno())?
            .pkey_table;
        (0..table)
            .find(|index| {
                context
                    .hca()
                    .query_pkey(port_num, *index)
                    .is_ok_and(|found| found.to_be() == pkey)
            })
            .map(|index| MinusOne(index as c_int))
            .ok_or(libc::EINVAL)
    })
    .0
}

/// `ibv_resolve_eth_l2_from_gid`: the Ethernet address behind a GID. The ports of this adapter are InfiniBand, which has no
/// such address: the negated EINVAL, as for a route that leads nowhere.
///
/// # Safety
/// Nothing is followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_resolve_eth_l2_from_gid(
    _context: *mut sys::ibv_context,
    _attr: *mut sys::ibv_ah_attr,
    _eth_mac: *mut u8,
    _vid: *mut u16,
) -> c_int {
    -libc::EINVAL
}
