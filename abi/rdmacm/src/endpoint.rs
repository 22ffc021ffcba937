//! Endpoints: identifiers without a channel, made from an address in one call.

use crate::boundary::{Errno, status};
use crate::events::{complete, judge, next_of};
use crate::id::{self, Id, get, set};
use crate::qp;
use crate::resolve;
use crate::sys::{
    RAI_PASSIVE, RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, rdma_addrinfo,
    rdma_cm_id, rdma_port_space,
};
use ferriband_verbs_sys::{ibv_pd, ibv_qp_init_attr, ibv_qp_type};
use std::ffi::c_int;

/// What an active endpoint's look-ups may take.
const TIMEOUT_MS: c_int = 2000;

/// Prepares an endpoint that will listen.
///
/// # Safety
/// The address is what its family says.
unsafe fn prepare_passive(
    id: &Id,
    res: &rdma_addrinfo,
    pd: *mut ibv_pd,
    attr: Option<&mut ibv_qp_init_attr>,
) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    unsafe { resolve::bind(id, res.ai_src_addr) }?;
    if !pd.is_null() {
        set!(id.pd = pd);
    }
    id.lock().template = attr.map(|attr| ibv_qp_init_attr {
        qp_type: res.ai_qp_type as ibv_qp_type,
        ..*attr
    });
    Ok(())
}

/// Prepares an endpoint that will connect.
///
/// # Safety
/// Addresses, route and connection data are what their lengths say.
unsafe fn prepare_active(
    id: &Id,
    res: &rdma_addrinfo,
    pd: *mut ibv_pd,
    attr: Option<&mut ibv_qp_init_attr>,
) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    unsafe { resolve::resolve_address(id, res.ai_src_addr, res.ai_dst_addr, TIMEOUT_MS) }?;
    if res.ai_route_len == 0 {
        resolve::resolve_route(id, TIMEOUT_MS)?;
    } else {
        let (level, name) = (RDMA_OPTION_IB as c_int, RDMA_OPTION_IB_PATH as c_int);
        // SAFETY: the caller's promise.
        unsafe { resolve::set_option(id, level, name, res.ai_route, res.ai_route_len) }?;
        complete(id)?;
    }
    if let Some(attr) = attr {
        attr.qp_type = res.ai_qp_type as ibv_qp_type;
        // SAFETY: the caller's promise.
        unsafe { qp::create_plain(id, pd, attr) }?;
    }
    if res.ai_connect_len != 0 && !res.ai_connect.is_null() {
        // SAFETY: the caller's promise.
        let data = unsafe { std::slice::from_raw_parts(res.ai_connect.cast(), res.ai_connect_len) };
        id.lock().connect_data = data.to_vec();
    }
    Ok(())
}

/// Destroys an endpoint with all that belongs to it.
///
/// # Safety
/// As for [`id::destroy`].
unsafe fn destroy(pointer: *mut rdma_cm_id) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    let id = unsafe { Id::of(pointer) }?;
    qp::destroy(id);
    qp::destroy_srq(id);
    // SAFETY: the caller's promise.
    unsafe { id::destroy(pointer) }
}

/// Waits for a request of a listening endpoint, and makes its queue pair.
///
/// # Safety
/// `listener` is a synchronous identifier.
pub unsafe fn get_request(listener: &Id) -> Result<*mut rdma_cm_id, Errno> {
    if !listener.lock().is_synchronous {
        return Err(libc::EINVAL);
    }
    // SAFETY: a synchronous identifier's event is the library's.
    unsafe { crate::events::forget_last(listener) };
    // SAFETY: the caller's promise.
    let event = unsafe { next_of(listener) }?;
    // The event stays with the listener until its next call, unless there is a request that takes it.
    set!(listener.event = event);
    // SAFETY: the event was just taken.
    let told = unsafe { &*event };
    judge(told)?;
    if told.event != RDMA_CM_EVENT_CONNECT_REQUEST {
        return Err(libc::EINVAL);
    }
    let pointer = told.id;
    // SAFETY: the request's identifier.
    let request = unsafe { Id::of(pointer) }?;
    let template = listener.lock().template;
    if let Some(mut attr) = template {
        // SAFETY: the template's queues are the program's.
        let made = unsafe { qp::create_plain(request, get!(listener.pd), &mut attr) };
        if let Err(error) = made {
            // The program never learns of this identifier; the event must not name it any more.
            // SAFETY: the event is still the library's.
            unsafe { (*event).id = listener.c() };
            // SAFETY: nobody else knows it.
            unsafe { id::destroy(pointer) }?;
            return Err(error);
        }
    }
    set!(listener.event = std::ptr::null_mut());
    set!(request.event = event);
    Ok(pointer)
}

/// `rdma_create_ep`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_ep(
    id: *mut *mut rdma_cm_id,
    res: *mut rdma_addrinfo,
    pd: *mut ibv_pd,
    qp_init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let res = unsafe { res.as_ref() }.ok_or(libc::EINVAL)?;
        if id.is_null() {
            return Err(libc::EINVAL);
        }
        let space = res.ai_port_space as rdma_port_space;
        let qp_type = res.ai_qp_type as ibv_qp_type;
        // SAFETY: no channel.
        let pointer =
            unsafe { id::create(std::ptr::null_mut(), std::ptr::null_mut(), space, qp_type) }?;
        // SAFETY: it was just made.
        let made = unsafe { Id::of(pointer) }?;
        // SAFETY: the caller's promise.
        let attr = unsafe { qp_init_attr.as_mut() };
        let prepared = if res.ai_flags & RAI_PASSIVE as c_int != 0 {
            // SAFETY: the caller's promise.
            unsafe { prepare_passive(made, res, pd, attr) }
        } else {
            // SAFETY: the caller's promise.
            unsafe { prepare_active(made, res, pd, attr) }
        };
        if let Err(error) = prepared {
            // SAFETY: nobody else knows it.
            unsafe { destroy(pointer) }?;
            return Err(error);
        }
        // SAFETY: the caller's promise, and it is not NULL.
        unsafe { id.write(pointer) };
        Ok(())
    })
}

/// `rdma_destroy_ep`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_ep(id: *mut rdma_cm_id) {
    // SAFETY: the caller's promise.
    status(|| unsafe { destroy(id) });
}

/// `rdma_get_request`: EINVAL if the listener is not synchronous.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_request(
    listen: *mut rdma_cm_id,
    id: *mut *mut rdma_cm_id,
) -> c_int {
    status(|| {
        if id.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller's promise.
        let request = unsafe { get_request(Id::of(listen)?) }?;
        // SAFETY: the caller's promise, and it is not NULL.
        unsafe { id.write(request) };
        Ok(())
    })
}
