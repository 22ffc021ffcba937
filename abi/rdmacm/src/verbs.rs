//! The public functions of libibverbs.so.1 that this library calls, and those that `infiniband/verbs.h` inlines.

use crate::boundary::{Errno, check, errno, object};
use ferriband_verbs_sys::*;
use std::ffi::{c_int, c_void};

#[allow(missing_docs)] // documented in the header
unsafe extern "C" {
    pub fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device;
    pub fn ibv_free_device_list(list: *mut *mut ibv_device);
    pub fn ibv_get_device_guid(device: *mut ibv_device) -> u64;
    pub fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context;
    pub fn ibv_close_device(context: *mut ibv_context) -> c_int;
    pub fn ibv_query_device(context: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int;
    pub fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd;
    pub fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int;
    pub fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel;
    pub fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int;
    pub fn ibv_create_cq(
        context: *mut ibv_context,
        cqe: c_int,
        cq_context: *mut c_void,
        channel: *mut ibv_comp_channel,
        comp_vector: c_int,
    ) -> *mut ibv_cq;
    pub fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int;
    pub fn ibv_create_srq(pd: *mut ibv_pd, attr: *mut ibv_srq_init_attr) -> *mut ibv_srq;
    pub fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int;
    pub fn ibv_create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp;
    pub fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int;
    pub fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int;
    pub fn ibv_query_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int;
    pub fn ibv_set_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int;
    pub fn ibv_attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
    pub fn ibv_detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
}

/// The extended context around a context; EOPNOTSUPP for one that has none.
///
/// # Safety
/// `context` is a context of libibverbs.
unsafe fn extended(context: *mut ibv_context) -> Result<*mut verbs_context, Errno> {
    // SAFETY: the caller's promise.
    if unsafe { (*context).abi_compat } as usize != usize::MAX {
        return Err(libc::EOPNOTSUPP);
    }
    // SAFETY: a context so marked lies inside an extended one.
    Ok(unsafe {
        context
            .byte_sub(std::mem::offset_of!(verbs_context, context))
            .cast()
    })
}

/// `ibv_create_qp_ex`.
///
/// # Safety
/// `context` is open, `attr` is initialised and its pointers are what their types say.
pub unsafe fn create_qp_ex(
    context: *mut ibv_context,
    attr: &mut ibv_qp_init_attr_ex,
) -> Result<*mut ibv_qp, Errno> {
    if attr.comp_mask == IBV_QP_INIT_ATTR_PD {
        // SAFETY: the caller's promise; the extended structure begins with the plain one.
        return object(unsafe { ibv_create_qp(attr.pd, std::ptr::from_mut(attr).cast()) });
    }
    // SAFETY: the caller's promise.
    let create = unsafe { (*extended(context)?).create_qp_ex }.ok_or(libc::EOPNOTSUPP)?;
    // SAFETY: the caller's promise.
    object(unsafe { create(context, attr) })
}

/// `ibv_create_srq_ex`.
///
/// # Safety
/// As for [`create_qp_ex`].
pub unsafe fn create_srq_ex(
    context: *mut ibv_context,
    attr: &mut ibv_srq_init_attr_ex,
) -> Result<*mut ibv_srq, Errno> {
    let plain = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
    if attr.comp_mask == plain && attr.srq_type == IBV_SRQT_BASIC {
        // SAFETY: the caller's promise; the extended structure begins with the plain one.
        return object(unsafe { ibv_create_srq(attr.pd, std::ptr::from_mut(attr).cast()) });
    }
    // SAFETY: the caller's promise.
    let create = unsafe { (*extended(context)?).create_srq_ex }.ok_or(libc::EOPNOTSUPP)?;
    // SAFETY: the caller's promise.
    object(unsafe { create(context, attr) })
}

/// `ibv_open_xrcd` of a domain that no file names.
///
/// # Safety
/// `context` is open.
pub unsafe fn open_xrcd(context: *mut ibv_context) -> Result<*mut ibv_xrcd, Errno> {
    let mut attr = ibv_xrcd_init_attr {
        comp_mask: IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
        fd: -1,
        oflags: libc::O_CREAT,
    };
    // SAFETY: the caller's promise.
    let open = unsafe { (*extended(context)?).open_xrcd }.ok_or(libc::EOPNOTSUPP)?;
    // SAFETY: the caller's promise, and the attributes live during the call.
    object(unsafe { open(context, &raw mut attr) })
}

/// `ibv_close_xrcd`.
///
/// # Safety
/// `xrcd` came from [`open_xrcd`] of this context and was not closed.
pub unsafe fn close_xrcd(context: *mut ibv_context, xrcd: *mut ibv_xrcd) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    let close = unsafe { (*extended(context)?).close_xrcd }.ok_or(libc::EOPNOTSUPP)?;
    // SAFETY: the caller's promise.
    check(unsafe { close(xrcd) })
}

/// `ibv_modify_qp`.
///
/// # Safety
/// `qp` is a queue pair.
pub unsafe fn modify_qp(qp: *mut ibv_qp, attr: &mut ibv_qp_attr, mask: c_int) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    check(unsafe { ibv_modify_qp(qp, attr, mask) })
}

/// Limits of a device.
///
/// # Safety
/// `context` is open.
pub unsafe fn query_device(context: *mut ibv_context) -> Result<ibv_device_attr, Errno> {
    let mut attr = ibv_device_attr::default();
    // SAFETY: the caller's promise.
    match unsafe { ibv_query_device(context, &raw mut attr) } {
        0 => Ok(attr),
        -1 => Err(errno()),
        error => Err(error),
    }
}
