//! Endpoints: identifiers without a channel, made from an address in one call.

use crate::boundary::{Errno, status, waiting_status};
use crate::events::{Wait, await_next, forget_last, judge, next_of};
use crate::id::{self, Id, get, set};
use crate::qp;
use crate::resolve;
use crate::sys::{
    RAI_PASSIVE, RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, rdma_addrinfo,
    rdma_cm_event, rdma_cm_id, rdma_port_space,
};
use ferriband_cancel::Sleep;
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

/// How far an endpoint is.
#[derive(Clone, Copy)]
enum Stage {
    Made,
    /// Its address was asked for.
    Resolving,
    /// Its path was asked for.
    Routing,
}

/// An endpoint that is being prepared: it goes with this, unless it is given to the program.
struct Endpoint {
    pointer: *mut rdma_cm_id,
    stage: Stage,
    wait: Wait,
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if !self.pointer.is_null() {
            // SAFETY: nobody else knows it. It is not NULL, and cannot be refused.
            let _ = unsafe { destroy(self.pointer) };
        }
    }
}

impl Endpoint {
    fn new(res: &rdma_addrinfo) -> Result<Self, Errno> {
        let space = res.ai_port_space as rdma_port_space;
        let qp_type = res.ai_qp_type as ibv_qp_type;
        let none = std::ptr::null_mut();
        Ok(Endpoint {
            // SAFETY: no channel.
            pointer: unsafe { id::create(none, none.cast(), space, qp_type) }?,
            stage: Stage::Made,
            wait: Wait::default(),
        })
    }

    /// Prepares an endpoint that will connect; None while the thread must sleep for it.
    ///
    /// # Safety
    /// Addresses, route and connection data are what their lengths say.
    unsafe fn prepare_active(
        &mut self,
        sleep: &mut Sleep,
        res: &rdma_addrinfo,
        pd: *mut ibv_pd,
        attr: Option<&mut ibv_qp_init_attr>,
    ) -> Result<Option<()>, Errno> {
        // SAFETY: it lives as long as this.
        let id = unsafe { Id::of(self.pointer) }?;
        loop {
            let is_told = match self.stage {
                Stage::Made => Some(()),
                _ => self.wait.go_on(sleep, id)?,
            };
            if is_told.is_none() {
                return Ok(None);
            }
            self.stage = match self.stage {
                Stage::Made => {
                    let (from, to) = (res.ai_src_addr, res.ai_dst_addr);
                    // SAFETY: the caller's promise.
                    let _ = unsafe { resolve::resolve_address(id, from, to, TIMEOUT_MS) }?;
                    Stage::Resolving
                }
                Stage::Resolving => {
                    // SAFETY: the caller's promise.
                    unsafe { ask_for_route(id, res) }?;
                    Stage::Routing
                }
                // SAFETY: the caller's promise.
                Stage::Routing => return unsafe { equip(id, res, pd, attr) }.map(Some),
            };
            // SAFETY: a synchronous identifier's event is the library's.
            unsafe { forget_last(id) };
        }
    }
}

/// Asks for the path, or names the one that the program has.
///
/// # Safety
/// The route is what its length says.
unsafe fn ask_for_route(id: &Id, res: &rdma_addrinfo) -> Result<(), Errno> {
    if res.ai_route_len == 0 {
        let _ = resolve::resolve_route(id, TIMEOUT_MS)?;
        return Ok(());
    }
    let (level, name) = (RDMA_OPTION_IB as c_int, RDMA_OPTION_IB_PATH as c_int);
    // SAFETY: the caller's promise.
    unsafe { resolve::set_option(id, level, name, res.ai_route, res.ai_route_len) }
}

/// Makes the queue pair of an endpoint whose path is known.
///
/// # Safety
/// The connection data are what their length says.
unsafe fn equip(
    id: &Id,
    res: &rdma_addrinfo,
    pd: *mut ibv_pd,
    attr: Option<&mut ibv_qp_init_attr>,
) -> Result<(), Errno> {
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

/// Takes a request of a listening endpoint, and makes its queue pair. It cannot be cancelled.
///
/// # Safety
/// `listener` is a synchronous identifier.
pub unsafe fn get_request(listener: &Id) -> Result<*mut rdma_cm_id, Errno> {
    begin_request(listener)?;
    // SAFETY: the caller's promise.
    let event = unsafe { next_of(listener) }?;
    // SAFETY: the event was just taken.
    unsafe { take_request(listener, event) }
}

/// What comes before each wait for a request; EINVAL if the listener is not synchronous.
fn begin_request(listener: &Id) -> Result<(), Errno> {
    if !listener.lock().is_synchronous {
        return Err(libc::EINVAL);
    }
    // SAFETY: a synchronous identifier's event is the library's.
    unsafe { forget_last(listener) };
    Ok(())
}

/// Makes the queue pair of a request.
///
/// # Safety
/// `event` was just taken from the listener's channel.
unsafe fn take_request(listener: &Id, event: *mut rdma_cm_event) -> Result<*mut rdma_cm_id, Errno> {
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
pub unsafe extern "C-unwind" fn rdma_create_ep(
    id: *mut *mut rdma_cm_id,
    res: *mut rdma_addrinfo,
    pd: *mut ibv_pd,
    qp_init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    waiting_status(|sleep| {
        // SAFETY: the caller's promise.
        let res = unsafe { res.as_ref() }.ok_or(libc::EINVAL)?;
        if id.is_null() {
            return Err(libc::EINVAL);
        }
        let mut endpoint = match sleep.take_kept::<Endpoint>() {
            Some(endpoint) => endpoint,
            None => Box::new(Endpoint::new(res)?),
        };
        // SAFETY: the caller's promise.
        let attr = unsafe { qp_init_attr.as_mut() };
        let prepared = if res.ai_flags & RAI_PASSIVE as c_int != 0 {
            // SAFETY: it lives as long as this.
            let made = unsafe { Id::of(endpoint.pointer) }?;
            // SAFETY: the caller's promise.
            unsafe { prepare_passive(made, res, pd, attr) }.map(Some)
        } else {
            // SAFETY: the caller's promise.
            unsafe { endpoint.prepare_active(sleep, res, pd, attr) }
        };
        if prepared?.is_none() {
            sleep.keep(endpoint);
            return Ok(None);
        }
        let pointer = std::mem::replace(&mut endpoint.pointer, std::ptr::null_mut());
        // SAFETY: the caller's promise, and it is not NULL.
        unsafe { id.write(pointer) };
        Ok(Some(()))
    })
}

/// `rdma_destroy_ep`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_destroy_ep(id: *mut rdma_cm_id) {
    // SAFETY: the caller's promise.
    status(|| unsafe { destroy(id) });
}

/// `rdma_get_request`: EINVAL if the listener is not synchronous.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_get_request(
    listen: *mut rdma_cm_id,
    id: *mut *mut rdma_cm_id,
) -> c_int {
    waiting_status(|sleep| {
        if id.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller's promise.
        let listener = unsafe { Id::of(listen) }?;
        begin_request(listener)?;
        // SAFETY: a synchronous identifier's channel is its own.
        let Some(event) = unsafe { await_next(sleep, get!(listener.channel)) }? else {
            return Ok(None);
        };
        // SAFETY: the event was just taken.
        let request = unsafe { take_request(listener, event) }?;
        // SAFETY: the caller's promise, and it is not NULL.
        unsafe { id.write(request) };
        Ok(Some(()))
    })
}
