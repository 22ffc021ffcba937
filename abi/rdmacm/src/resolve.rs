//! Addresses, paths, options, and what libibverbs knows of an identifier.

use crate::address;
use crate::boundary::{Errno, entry, status, waiting_status};
use crate::device::DeviceUse;
use crate::events::{Asked, synchronous};
use crate::id::{Id, set};
use crate::private::call;
use crate::sys::rdma_cm_id;
use ferriband_cm_abi::{fb_cm_info, fb_path};
use ferriband_verbs_sys::{ibv_qp_attr, ibv_qp_state, ibv_sa_path_rec};
use libc::sockaddr;
use std::ffi::{c_int, c_void};

/// Which of the C-visible fields are to be filled in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Addresses, GIDs, device and port.
    Addresses,
    /// Path records.
    Paths,
    /// All of it.
    Everything,
}

/// Asks libibverbs what it knows and fills the C structure in.
pub fn query(id: &Id, what: What) -> Result<(), Errno> {
    // SAFETY: all of its fields are numbers.
    let mut info: fb_cm_info = unsafe { std::mem::zeroed() };
    info.size = size_of::<fb_cm_info>() as u32;
    // SAFETY: the result's place lives during the call.
    call(|f| unsafe { (f.query)(id.handle(), &raw mut info) })?;
    if what != What::Paths {
        take_addresses(id, &info)?;
    }
    if what != What::Addresses {
        take_paths(id, &info);
    }
    Ok(())
}

fn take_addresses(id: &Id, info: &fb_cm_info) -> Result<(), Errno> {
    // SAFETY: the places lie in the identifier's C structure.
    unsafe {
        if info.src_addr.ss_family != 0 {
            id.source().write(info.src_addr);
        }
        if info.dst_addr.ss_family != 0 {
            id.destination().write(info.dst_addr);
        }
        (*id.gids()).sgid = info.sgid;
        (*id.gids()).dgid = info.dgid;
    }
    if id.lock().device.is_some() {
        return Ok(());
    }
    let Ok(index) = usize::try_from(info.device_index) else {
        return Ok(()); // not bound to a device yet
    };
    let device = DeviceUse::of(index, info.node_guid)?;
    let (context, pd) = device.objects();
    id.lock().device = Some(device);
    set!(id.verbs = context);
    set!(id.pd = pd);
    set!(id.port_num = info.port_num);
    // SAFETY: as above.
    unsafe { (*id.gids()).pkey = info.pkey.to_be() };
    Ok(())
}

fn take_paths(id: &Id, info: &fb_cm_info) {
    let count = usize::from(info.num_paths).min(info.paths.len());
    if count == 0 {
        return;
    }
    let mut paths: Box<[ibv_sa_path_rec]> = info.paths[..count].iter().map(path_record).collect();
    // The records move into the state; their place in memory stays.
    set!(id.route.path_rec = paths.as_mut_ptr());
    set!(id.route.num_paths = count as c_int);
    id.lock().paths = paths;
}

/// A path in the form that programs see: network order, each limit exact.
fn path_record(path: &fb_path) -> ibv_sa_path_rec {
    const EXACTLY: u8 = 2;
    ibv_sa_path_rec {
        dgid: path.dgid,
        sgid: path.sgid,
        dlid: path.dlid.to_be(),
        slid: path.slid.to_be(),
        raw_traffic: 0,
        flow_label: path.flow_label.to_be(),
        hop_limit: path.hop_limit,
        traffic_class: path.traffic_class,
        reversible: 1,
        numb_path: 1,
        pkey: path.pkey.to_be(),
        sl: path.sl,
        mtu_selector: EXACTLY,
        mtu: path.mtu,
        rate_selector: EXACTLY,
        rate: path.rate,
        packet_life_time_selector: EXACTLY,
        packet_life_time: path.packet_life_time,
        preference: 0,
    }
}

/// Attributes and mask for the queue pair's way to `state`.
pub fn attributes(id: &Id, state: ibv_qp_state) -> Result<(ibv_qp_attr, c_int), Errno> {
    let mut attr = ibv_qp_attr {
        qp_state: state,
        ..Default::default()
    };
    let mut mask = 0;
    // SAFETY: the results' places live during the call.
    call(|f| unsafe { (f.init_qp_attr)(id.handle(), &raw mut attr, &raw mut mask) })?;
    Ok((attr, mask))
}

/// Binds an identifier.
///
/// # Safety
/// `to` is NULL or an address of its family.
pub unsafe fn bind(id: &Id, to: *const sockaddr) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    let length = unsafe { address::required(to) }?;
    // SAFETY: the address has this length.
    call(|f| unsafe { (f.bind)(id.handle(), to, length) })?;
    query(id, What::Addresses)
}

/// Asks for device and address.
///
/// # Safety
/// The addresses are NULL or of their families.
pub unsafe fn resolve_address(
    id: &Id,
    from: *const sockaddr,
    to: *const sockaddr,
    timeout_ms: c_int,
) -> Result<Asked, Errno> {
    // SAFETY: the caller's promise.
    let to_length = unsafe { address::required(to) }?;
    // SAFETY: the caller's promise.
    let from_length = unsafe { address::optional(from) }?;
    // Before the call: the event may be taken by another thread as soon as there is one.
    // SAFETY: the place lies in the identifier's C structure.
    let before = unsafe { id.destination().read() };
    // SAFETY: an address of any family fits into the storage.
    unsafe {
        id.destination()
            .cast::<u8>()
            .copy_from_nonoverlapping(to.cast::<u8>(), to_length as usize);
    };
    // SAFETY: the addresses have these lengths.
    let asked = call(|f| unsafe {
        (f.resolve_addr)(id.handle(), from, from_length, to, to_length, timeout_ms)
    });
    if let Err(error) = asked {
        // SAFETY: as above.
        unsafe { id.destination().write(before) };
        return Err(error);
    }
    Ok(Asked::Event)
}

/// Asks for the path.
pub fn resolve_route(id: &Id, timeout_ms: c_int) -> Result<Asked, Errno> {
    // SAFETY: numbers only.
    call(|f| unsafe { (f.resolve_route)(id.handle(), timeout_ms) })?;
    Ok(Asked::Event)
}

/// Sets an option.
///
/// # Safety
/// `value` has `length` bytes.
pub unsafe fn set_option(
    id: &Id,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: usize,
) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    call(|f| unsafe { (f.set_option)(id.handle(), level, name, value, length) })
}

/// `rdma_bind_addr`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_bind_addr(id: *mut rdma_cm_id, addr: *mut sockaddr) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe { bind(Id::of(id)?, addr) })
}

/// `rdma_resolve_addr`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_resolve_addr(
    id: *mut rdma_cm_id,
    src_addr: *mut sockaddr,
    dst_addr: *mut sockaddr,
    timeout_ms: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let ask = |id: &Id| unsafe { resolve_address(id, src_addr, dst_addr, timeout_ms) };
    // SAFETY: the caller's promise.
    waiting_status(|sleep| unsafe { synchronous(sleep, id, ask) })
}

/// `rdma_resolve_route`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_resolve_route(
    id: *mut rdma_cm_id,
    timeout_ms: c_int,
) -> c_int {
    let ask = |id: &Id| resolve_route(id, timeout_ms);
    // SAFETY: the caller's promise.
    waiting_status(|sleep| unsafe { synchronous(sleep, id, ask) })
}

/// `rdma_set_option`: EINVAL, ENOSYS for unknown ones.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_set_option(
    id: *mut rdma_cm_id,
    level: c_int,
    optname: c_int,
    optval: *mut c_void,
    optlen: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe { set_option(Id::of(id)?, level, optname, optval, optlen) })
}

/// `rdma_init_qp_attr`: attributes for the state that `qp_attr` names.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_init_qp_attr(
    id: *mut rdma_cm_id,
    qp_attr: *mut ibv_qp_attr,
    qp_attr_mask: *mut c_int,
) -> c_int {
    status(|| {
        if qp_attr.is_null() || qp_attr_mask.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller's promise: the wanted state is set, the rest need not be.
        let state = unsafe { (*qp_attr).qp_state };
        // SAFETY: the caller's promise.
        let (attr, mask) = attributes(unsafe { Id::of(id) }?, state)?;
        // SAFETY: the caller's promise.
        unsafe {
            qp_attr.write(attr);
            qp_attr_mask.write(mask);
        }
        Ok(())
    })
}

/// `rdma_get_src_port`: network order, 0 if there is none.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_get_src_port(id: *mut rdma_cm_id) -> u16 {
    entry(|| {
        // SAFETY: the caller's promise.
        let id = unsafe { Id::of(id) }?;
        // SAFETY: the place holds an address of its family.
        Ok(unsafe { address::port(id.source().cast()) })
    })
}

/// `rdma_get_dst_port`: network order, 0 if there is none.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_get_dst_port(id: *mut rdma_cm_id) -> u16 {
    entry(|| {
        // SAFETY: the caller's promise.
        let id = unsafe { Id::of(id) }?;
        // SAFETY: the place holds an address of its family.
        Ok(unsafe { address::port(id.destination().cast()) })
    })
}
