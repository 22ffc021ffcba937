//! The public functions of libibverbs.so.1 that this library calls, and those that `infiniband/verbs.h` inlines.

use crate::boundary::{Errno, check, errno, object};
use ferriband_verbs_sys::*;
use std::ffi::{c_int, c_uint, c_void};

#[allow(missing_docs)] // documented in the header
unsafe extern "C" {
    pub fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device;
    pub fn ibv_free_device_list(list: *mut *mut ibv_device);
    pub fn ibv_get_device_index(device: *mut ibv_device) -> c_int;
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
    pub fn ibv_query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int;
    pub fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int;
    pub fn ibv_create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp;
    pub fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int;
    pub fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int;
    pub fn ibv_query_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int;
    pub fn ibv_set_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int;
    pub fn ibv_attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
    pub fn ibv_reg_mr(
        pd: *mut ibv_pd,
        address: *mut c_void,
        length: usize,
        access: c_int,
    ) -> *mut ibv_mr;
    pub fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int;
    pub fn ibv_get_cq_event(
        channel: *mut ibv_comp_channel,
        cq: *mut *mut ibv_cq,
        cq_context: *mut *mut c_void,
    ) -> c_int;
    pub fn ibv_ack_cq_events(cq: *mut ibv_cq, count: c_uint);
    pub fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah;
    pub fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int;
    pub fn ibv_query_port(
        context: *mut ibv_context,
        port: u8,
        attr: *mut _compat_ibv_port_attr,
    ) -> c_int;
    pub fn ibv_query_gid(
        context: *mut ibv_context,
        port: u8,
        index: c_int,
        gid: *mut ibv_gid,
    ) -> c_int;
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

/// Registers memory.
///
/// # Safety
/// `pd` is a protection domain; the memory stays mapped until the region is deregistered.
pub unsafe fn register(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    access: u32,
) -> Result<*mut ibv_mr, Errno> {
    // SAFETY: the caller's promise.
    object(unsafe { ibv_reg_mr(pd, address, length, access as c_int) })
}

/// An operation of a context, or EOPNOTSUPP if it has none.
macro_rules! operation {
    ($context:expr, $name:ident) => {{
        let context: *mut ibv_context = $context;
        // SAFETY: the caller's promise: an object of an open context.
        unsafe { (*context).ops.$name }.ok_or(libc::EOPNOTSUPP)
    }};
}

/// `ibv_post_send` of one request.
///
/// # Safety
/// `qp` is a queue pair; the request and what it points to are what their types say.
#[inline]
pub unsafe fn post_send(qp: *mut ibv_qp, request: &mut ibv_send_wr) -> Result<(), Errno> {
    let mut bad = std::ptr::null_mut();
    // SAFETY: the caller's promise.
    let post = operation!(unsafe { (*qp).context }, post_send)?;
    // SAFETY: the caller's promise.
    check(unsafe { post(qp, request, &raw mut bad) })
}

/// `ibv_post_recv` of a chain of requests.
///
/// # Safety
/// As for [`post_send`].
#[inline]
pub unsafe fn post_recv(qp: *mut ibv_qp, first: *mut ibv_recv_wr) -> Result<(), Errno> {
    let mut bad = std::ptr::null_mut();
    // SAFETY: the caller's promise.
    let post = operation!(unsafe { (*qp).context }, post_recv)?;
    // SAFETY: the caller's promise.
    check(unsafe { post(qp, first, &raw mut bad) })
}

/// `ibv_poll_cq`: how many of the places were filled; EIO after an overrun.
///
/// # Safety
/// `cq` is a completion queue.
#[inline]
pub unsafe fn poll_cq(cq: *mut ibv_cq, places: &mut [ibv_wc]) -> Result<usize, Errno> {
    // SAFETY: the caller's promise.
    let poll = operation!(unsafe { (*cq).context }, poll_cq)?;
    // SAFETY: the caller's promise; there are as many places.
    let count = unsafe { poll(cq, places.len() as c_int, places.as_mut_ptr()) };
    usize::try_from(count).map_err(|_| libc::EIO)
}

/// `ibv_req_notify_cq`, for any completion.
///
/// # Safety
/// `cq` is a completion queue.
pub unsafe fn request_notification(cq: *mut ibv_cq) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    let request = operation!(unsafe { (*cq).context }, req_notify_cq)?;
    // SAFETY: the caller's promise.
    check(unsafe { request(cq, 0) })
}

/// Takes an event of a completion channel and acknowledges it; false if there is none. The channel's descriptor must be
/// non-blocking, and the thread one that cannot be cancelled, as in every call of ours.
///
/// # Safety
/// `channel` is a completion channel, and its completion queues live.
pub unsafe fn take_cq_event(channel: *mut ibv_comp_channel) -> bool {
    let (mut cq, mut context) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the caller's promise, and the places live during the call.
    if unsafe { ibv_get_cq_event(channel, &raw mut cq, &raw mut context) } != 0 {
        return false;
    }
    // SAFETY: the event that was just taken.
    unsafe { ibv_ack_cq_events(cq, 1) };
    true
}
