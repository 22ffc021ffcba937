//! Completion queues: creation, resizing, polling, notification and destruction, plain and extended alike.
//! The iterator over an extended queue lies in [`crate::cq_ex`], events in [`crate::channel`].

use crate::acks::Acks;
use crate::boundary::{NegatedInt, entry, try_entry, unwatched_entry};
use crate::channel::Channel;
use crate::context::Context;
use crate::convert;
use crate::cq_ex::Cursor;
use crate::live;
use crate::object::{Object, input};
use crate::pd::{Pd, User};
use ferriband_hca as hca;
use ferriband_sanitizer::{self as sanitizer, Side};
use ferriband_verbs_sys as sys;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What only we see of a completion queue.
pub struct CqOwn {
    /// The adapter's queue.
    pub hca: Arc<hca::Cq>,
    /// Completion events handed to the program and not yet acknowledged.
    pub completion_acks: Acks,
    /// Asynchronous events handed to the program and not yet acknowledged.
    pub async_acks: Acks,
    /// Where the iterator of an extended queue stands.
    pub cursor: Cursor,
    /// The number under which events name this queue.
    number: usize,
    /// Keeps a parent domain from being deallocated.
    _parent: Option<User>,
}

/// A completion queue; its C form is always the extended one, of which the plain one is a prefix.
pub type Cq = Object<sys::ibv_cq_ex, CqOwn>;

/// Completion queues by their plain pointer.
///
/// # Safety
/// As for [`Object::of`].
#[inline(always)]
pub unsafe fn of<'a>(cq: *const sys::ibv_cq) -> Result<&'a Cq, i32> {
    // SAFETY: the caller's promise.
    unsafe { Cq::of(cq.cast()) }
}

/// What a program asks of a new queue, from either creation call.
pub struct Wish {
    /// Entries.
    pub cqe: u32,
    /// The program's own pointer.
    pub cq_context: *mut c_void,
    /// Where completion events go.
    pub channel: *mut sys::ibv_comp_channel,
    /// Completion vector.
    pub comp_vector: u32,
    /// Record the device's time of each completion.
    pub timestamps: bool,
    /// Record the wall clock of each completion.
    pub wallclock: bool,
    /// An overrun loses completions instead of ending the queue.
    pub ignore_overrun: bool,
    /// The parent domain, or NULL.
    pub parent_domain: *mut sys::ibv_pd,
}

/// Creates a queue for either call.
///
/// # Safety
/// The pointers in `wish` are NULL or live objects of this library.
pub unsafe fn create(context: &Context, wish: &Wish) -> Result<*mut sys::ibv_cq_ex, i32> {
    let channel = if wish.channel.is_null() {
        None
    } else {
        // SAFETY: the caller's promise.
        Some(unsafe { Channel::of(wish.channel) }?)
    };
    let parent = if wish.parent_domain.is_null() {
        None
    } else {
        // SAFETY: the caller's promise.
        let pd = unsafe { Pd::of(wish.parent_domain) }?;
        Some(pd.as_parent().ok_or(libc::EINVAL)?)
    };
    let queue = context
        .hca()
        .create_cq(hca::CqInit {
            cqe: wish.cqe,
            channel: channel.map(|channel| Arc::clone(&channel.hca)),
            comp_vector: wish.comp_vector,
            timestamps: wish.timestamps,
            wallclock: wish.wallclock,
            ignore_overrun: wish.ignore_overrun,
        })
        .map_err(|error| error.errno())?;
    let c = sys::ibv_cq_ex {
        context: context.as_c(),
        channel: wish.channel,
        cq_context: wish.cq_context,
        handle: context.next_handle(),
        cqe: c_int::try_from(queue.capacity()).unwrap_or(c_int::MAX),
        ..Default::default()
    };
    let own = CqOwn {
        hca: Arc::clone(&queue),
        completion_acks: Acks::default(),
        async_acks: Acks::default(),
        cursor: Cursor::default(),
        number: live::number(),
        _parent: parent,
    };
    let number = own.number;
    let pointer = Cq::leak(c, own);
    live::enter(number, pointer);
    queue.cookie.store(number, Ordering::Release);
    Ok(pointer)
}

/// `ibv_create_cq`.
///
/// # Safety
/// `context` is a live context and `channel` NULL or a live channel of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_cq(
    context: *mut sys::ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut sys::ibv_comp_channel,
    comp_vector: c_int,
) -> *mut sys::ibv_cq {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let context = unsafe { Context::of(context) }?;
        let wish = Wish {
            cqe: u32::try_from(cqe).map_err(|_| libc::EINVAL)?,
            cq_context,
            channel,
            comp_vector: u32::try_from(comp_vector).map_err(|_| libc::EINVAL)?,
            timestamps: false,
            wallclock: false,
            ignore_overrun: false,
            parent_domain: std::ptr::null_mut(),
        };
        // SAFETY: the caller's promise.
        let cq = unsafe { create(context, &wish) }?;
        Ok(cq.cast())
    })
}

/// `ibv_resize_cq`: EINVAL when more completions wait than the new size holds.
///
/// # Safety
/// `cq` is a live completion queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_resize_cq(cq: *mut sys::ibv_cq, cqe: c_int) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let queue = unsafe { of(cq) }?;
        let cqe = u32::try_from(cqe).map_err(|_| libc::EINVAL)?;
        queue.hca.resize(cqe).map_err(|error| error.errno())?;
        // SAFETY: the C part is ours to write, and the program only reads it.
        unsafe { (*queue.c()).cqe = c_int::try_from(queue.hca.capacity()).unwrap_or(c_int::MAX) };
        Ok(0)
    })
}

/// `modify_cq` of the context: moderation is accepted and has no effect, because an event costs one wake-up whatever
/// preceded it.
///
/// # Safety
/// `cq` is a live completion queue and `attr` readable.
pub unsafe extern "C" fn modify_cq(
    cq: *mut sys::ibv_cq,
    attr: *mut sys::ibv_modify_cq_attr,
) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        unsafe { of(cq) }?;
        // SAFETY: the caller's promise.
        let attr = unsafe { input(attr) }?;
        if attr.attr_mask & !sys::IBV_CQ_ATTR_MODERATE != 0 {
            Err(libc::EOPNOTSUPP)
        } else {
            Ok(0)
        }
    })
}

/// `ibv_destroy_cq`: EBUSY while a queue pair or shared receive queue uses it; waits for outstanding acknowledgements.
///
/// # Safety
/// `cq` is a live completion queue that no other thread uses but to acknowledge events.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_cq(cq: *mut sys::ibv_cq) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let queue = unsafe { of(cq) }?;
        queue.hca.destroy().map_err(|error| error.errno())?;
        live::leave(queue.number);
        queue.completion_acks.wait();
        queue.async_acks.wait();
        // SAFETY: the program gives the queue up, no event names it any more, and every delivered one was acknowledged.
        unsafe { Cq::free(cq.cast()) };
        Ok(0)
    })
}

/// `poll_cq` of the context: up to `num_entries` completions, or a negative errno once the queue is unusable.
///
/// # Safety
/// `cq` is a live completion queue and `wc` has room for `num_entries` completions.
pub unsafe extern "C" fn poll_cq(
    cq: *mut sys::ibv_cq,
    num_entries: c_int,
    wc: *mut sys::ibv_wc,
) -> c_int {
    unwatched_entry(|| {
        // SAFETY: the caller's promise.
        let queue = match unsafe { of(cq) } {
            Ok(queue) => queue,
            Err(errno) => return NegatedInt::from_errno(errno),
        };
        let mut slot = wc;
        let polled = queue
            .hca
            .poll(usize::try_from(num_entries).unwrap_or(0), |stamped| {
                // SAFETY: the adapter calls at most `num_entries` times.
                unsafe { slot.write(convert::wc(&stamped.completion)) };
                // SAFETY: at most one past the end of the caller's array.
                slot = unsafe { slot.add(1) };
            });
        match polled {
            Ok(count) => NegatedInt(count as c_int),
            Err(error) => NegatedInt::from_errno(error.errno()),
        }
    })
    .0
}

/// `req_notify_cq` of the context. Without a channel there is nobody to notify, which adapters accept.
///
/// # Safety
/// `cq` is a live completion queue.
pub unsafe extern "C" fn req_notify_cq(cq: *mut sys::ibv_cq, solicited_only: c_int) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let queue = unsafe { of(cq) }?;
        // SAFETY: the C part of a live queue.
        if unsafe { (*queue.c()).channel }.is_null() {
            return Ok(0);
        }
        sanitizer::release(Side::Object, queue.number as u32);
        queue
            .hca
            .req_notify(solicited_only != 0)
            .map_err(|error| error.errno())?;
        Ok(0)
    })
}

/// `ibv_ack_cq_events`.
///
/// # Safety
/// `cq` is a live completion queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_cq_events(cq: *mut sys::ibv_cq, nevents: u32) {
    entry(|| {
        // SAFETY: the caller's promise.
        if let Ok(queue) = unsafe { of(cq) } {
            queue.completion_acks.acknowledged(nevents);
        }
    });
}
