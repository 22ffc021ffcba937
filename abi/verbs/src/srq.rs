//! Shared receive queues, basic and of XRC domains.

use crate::acks::Acks;
use crate::boundary::try_entry;
use crate::context::Context;
use crate::object::{Object, input, output};
use crate::pd::{Pd, User};
use crate::xrcd::Xrcd;
use crate::{cq, live};
use ferriband_hca as hca;
use ferriband_verbs_sys as sys;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What only we see of a shared receive queue.
pub struct SrqOwn {
    /// The adapter's queue.
    pub hca: Arc<hca::Srq>,
    /// Asynchronous events handed to the program and not yet acknowledged.
    pub acks: Acks,
    number: usize,
    _pd: User,
}

impl SrqOwn {
    /// What ThreadSanitizer knows it by.
    pub fn sanitizer_number(&self) -> u32 {
        self.number as u32
    }
}

/// A shared receive queue.
pub type Srq = Object<sys::ibv_srq, SrqOwn>;

/// Shared receive queues by their pointer.
///
/// # Safety
/// As for [`Object::of`].
#[inline(always)]
pub unsafe fn of<'a>(srq: *const sys::ibv_srq) -> Result<&'a Srq, i32> {
    // SAFETY: the caller's promise.
    unsafe { Srq::of(srq) }
}

/// Creates a queue for either call and writes the granted sizes back.
///
/// # Safety
/// `pd` is a live domain.
unsafe fn create(
    pd: *mut sys::ibv_pd,
    srq_context: *mut c_void,
    attr: &mut sys::ibv_srq_attr,
    xrc: Option<(Arc<hca::Xrcd>, Arc<hca::Cq>)>,
) -> Result<*mut sys::ibv_srq, i32> {
    // SAFETY: the caller's promise.
    let domain = unsafe { Pd::of(pd) }?;
    // The limit is armed by ibv_modify_srq: creation ignores it (ibv_create_srq(3)).
    let init = hca::SrqInit {
        max_wr: attr.max_wr,
        max_sge: attr.max_sge,
        limit: 0,
        xrc,
    };
    let queue = domain.hca.create_srq(init).map_err(|error| error.errno())?;
    (attr.max_wr, attr.max_sge, _) = queue.query();
    // SAFETY: the C part of a live domain.
    let context = unsafe { (*domain.c()).context };
    // SAFETY: a context outlives its objects, by the API.
    let handle = unsafe { Context::of(context) }?.next_handle();
    let c = sys::ibv_srq {
        context,
        srq_context,
        pd,
        handle,
        ..Default::default()
    };
    let number = live::number();
    let own = SrqOwn {
        hca: Arc::clone(&queue),
        acks: Acks::default(),
        number,
        _pd: domain.hold(),
    };
    let pointer = Srq::leak(c, own);
    live::enter(number, pointer);
    queue.cookie.store(number, Ordering::Release);
    Ok(pointer)
}

/// `ibv_create_srq`.
///
/// # Safety
/// `pd` is a live domain, `init` readable and writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_srq(
    pd: *mut sys::ibv_pd,
    init: *mut sys::ibv_srq_init_attr,
) -> *mut sys::ibv_srq {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let init = unsafe { init.as_mut() }.ok_or(libc::EINVAL)?;
        // SAFETY: the caller's promise.
        unsafe { create(pd, init.srq_context, &mut init.attr, None) }
    })
}

/// `create_srq_ex` of the context: basic and XRC; tag matching is not offered.
///
/// # Safety
/// `context` is a live context, `init` readable and writable, and the objects that it names are live.
pub unsafe extern "C" fn create_srq_ex(
    _context: *mut sys::ibv_context,
    init: *mut sys::ibv_srq_init_attr_ex,
) -> *mut sys::ibv_srq {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let init = unsafe { init.as_mut() }.ok_or(libc::EINVAL)?;
        let has = |flag: u32| init.comp_mask & flag != 0;
        if init.comp_mask >= sys::IBV_SRQ_INIT_ATTR_RESERVED || !has(sys::IBV_SRQ_INIT_ATTR_PD) {
            return Err(libc::EINVAL);
        }
        let srq_type = if has(sys::IBV_SRQ_INIT_ATTR_TYPE) {
            init.srq_type
        } else {
            sys::IBV_SRQT_BASIC
        };
        let xrc = match srq_type {
            sys::IBV_SRQT_BASIC => None,
            sys::IBV_SRQT_XRC => {
                if !has(sys::IBV_SRQ_INIT_ATTR_XRCD) || !has(sys::IBV_SRQ_INIT_ATTR_CQ) {
                    return Err(libc::EINVAL);
                }
                // SAFETY: the caller's promise.
                let xrcd = unsafe { Xrcd::of(init.xrcd) }?;
                // SAFETY: the caller's promise.
                let cq = unsafe { cq::of(init.cq) }?;
                Some((Arc::clone(&xrcd.hca), Arc::clone(&cq.hca)))
            }
            _ => return Err(libc::EOPNOTSUPP),
        };
        // SAFETY: the caller's promise.
        unsafe { create(init.pd, init.srq_context, &mut init.attr, xrc) }
    })
}

/// `get_srq_num` of the context: the number by which XRC senders name the queue. Basic queues have none.
///
/// # Safety
/// `srq` is a live queue and `srq_num` writable.
pub unsafe extern "C" fn get_srq_num(srq: *mut sys::ibv_srq, srq_num: *mut u32) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let queue = unsafe { of(srq) }?;
        if queue.hca.xrc.is_none() {
            return Err(libc::EOPNOTSUPP);
        }
        // SAFETY: the caller's promise.
        unsafe { output(srq_num, queue.hca.number) }?;
        Ok(0)
    })
}

/// `ibv_modify_srq`: changes the size, arms the limit event, or both; all of it or, if one is refused, nothing.
///
/// # Safety
/// `srq` is a live queue and `attr` readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_srq(
    srq: *mut sys::ibv_srq,
    attr: *mut sys::ibv_srq_attr,
    attr_mask: c_int,
) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let queue = unsafe { of(srq) }?;
        // SAFETY: the caller's promise.
        let attr = unsafe { input(attr) }?;
        let mask = attr_mask as u32;
        if mask & !(sys::IBV_SRQ_MAX_WR | sys::IBV_SRQ_LIMIT) != 0 {
            return Err(libc::EINVAL);
        }
        let named = |flag: u32, value: u32| (mask & flag != 0).then_some(value);
        queue
            .hca
            .modify(
                named(sys::IBV_SRQ_MAX_WR, attr.max_wr),
                named(sys::IBV_SRQ_LIMIT, attr.srq_limit),
            )
            .map_err(|error| error.errno())?;
        Ok(0)
    })
}

/// `ibv_query_srq`.
///
/// # Safety
/// `srq` is a live queue and `attr` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_srq(
    srq: *mut sys::ibv_srq,
    attr: *mut sys::ibv_srq_attr,
) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let (max_wr, max_sge, srq_limit) = unsafe { of(srq) }?.hca.query();
        // SAFETY: the caller's promise.
        unsafe {
            output(
                attr,
                sys::ibv_srq_attr {
                    max_wr,
                    max_sge,
                    srq_limit,
                },
            )
        }?;
        Ok(0)
    })
}

/// `ibv_destroy_srq`: EBUSY while a queue pair uses it; waits for outstanding acknowledgements.
///
/// # Safety
/// `srq` is a live queue that no other thread uses but to acknowledge events.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_srq(srq: *mut sys::ibv_srq) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let queue = unsafe { of(srq) }?;
        queue.hca.destroy().map_err(|error| error.errno())?;
        live::leave(queue.number);
        queue.acks.wait();
        // SAFETY: the program gives the queue up, no event names it any more, and every delivered one was acknowledged.
        unsafe { Srq::free(srq) };
        Ok(0)
    })
}
