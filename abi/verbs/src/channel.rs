//! Completion channels: the descriptor on which a program waits for completion events.

use crate::boundary::{MinusOne, try_entry, waiting_entry};
use crate::context::Context;
use crate::cq;
use crate::live;
use crate::object::{Object, output};
use ferriband_cancel::Handlers;
use ferriband_hca as hca;
use ferriband_sanitizer::{self as sanitizer, Side};
use ferriband_verbs_sys as sys;
use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// What only we see of a channel.
pub struct ChannelOwn {
    /// The adapter's channel.
    pub hca: Arc<hca::CompChannel>,
}

/// A completion channel.
pub type Channel = Object<sys::ibv_comp_channel, ChannelOwn>;

/// `ibv_create_comp_channel`.
///
/// # Safety
/// `context` is a live context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_comp_channel(
    context: *mut sys::ibv_context,
) -> *mut sys::ibv_comp_channel {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let context = unsafe { Context::of(context) }?;
        let channel = context
            .hca()
            .create_comp_channel()
            .map_err(|error| error.errno())?;
        let c = sys::ibv_comp_channel {
            context: context.as_c(),
            fd: channel.events.fd(),
            refcnt: 0,
        };
        Ok(Channel::leak(c, ChannelOwn { hca: channel }))
    })
}

/// `ibv_destroy_comp_channel`: EBUSY while a completion queue uses it.
///
/// # Safety
/// `channel` is a live channel that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut sys::ibv_comp_channel) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        unsafe { Channel::of(channel) }?
            .hca
            .destroy()
            .map_err(|error| error.errno())?;
        // SAFETY: the program gives the channel up and no queue uses it.
        unsafe { Channel::free(channel) };
        Ok(0)
    })
}

/// `ibv_get_cq_event`: waits for the next event (EAGAIN if the program made the descriptor non-blocking). Events of queues
/// that were destroyed in the meantime are dropped here.
///
/// # Safety
/// `channel` is a live channel; `cq` and `cq_context` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ibv_get_cq_event(
    channel: *mut sys::ibv_comp_channel,
    cq: *mut *mut sys::ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    waiting_entry(|sleep| {
        // SAFETY: the caller's promise.
        let channel = unsafe { Channel::of(channel) }?;
        let waited = sleep.take_kept::<hca::Waiting>();
        let number = if waited.is_some() {
            // this thread is awake: nothing is left to it alone any more
            drop(waited);
            match sleep.take_ready() {
                // the bell stands behind the channel's own descriptor
                Ok(ready) => {
                    let rung = ready.get(1).is_some_and(|bell| bell.revents != 0);
                    channel.hca.take_came(rung)
                }
                Err(libc::EINTR) => match ferriband_cancel::handlers() {
                    Handlers::Restart => None,
                    Handlers::Interrupt => return Err(libc::EINTR),
                    Handlers::Both => {
                        // which of them ran is not to be known here, but to a read(2) it is
                        channel.hca.wait_by_thread();
                        return Err(libc::EINTR);
                    }
                },
                Err(errno) => return Err(errno),
            }
        } else if sleep.take_count()? {
            channel.hca.counted_event()
        } else {
            None
        };
        // SAFETY: the caller's promise.
        let delivered = number.map(|number| unsafe { deliver(number, cq, cq_context) });
        if let Some(result) = delivered.flatten() {
            return result.map(|()| Some(MinusOne(0)));
        }
        let (fd, waiting) = hca::Waiting::begin(&channel.hca).map_err(|error| error.errno())?;
        let Some(waiting) = waiting else {
            sleep.on_count(fd);
            return Ok(None);
        };
        sleep.on(fd, libc::POLLIN);
        for other in waiting.descriptors() {
            sleep.on(other.as_raw_fd(), libc::POLLIN);
        }
        sleep.keep(Box::new(waiting));
        Ok(None)
    })
    .0
}

/// Hands an event of the completion queue of this number to the program; None if there is no such
/// queue any more.
///
/// # Safety
/// `cq` and `cq_context` may be written.
unsafe fn deliver(
    number: usize,
    cq: *mut *mut sys::ibv_cq,
    cq_context: *mut *mut c_void,
) -> Option<Result<(), i32>> {
    live::with(number, |queue: *mut sys::ibv_cq| {
        // SAFETY: the queue cannot be freed while the registry is held.
        let own = unsafe { cq::of(queue) }?;
        own.completion_acks.delivered();
        sanitizer::acquire(Side::Object, number as u32);
        // SAFETY: the C part of a live queue.
        let context = unsafe { (*own.c()).cq_context };
        // SAFETY: the caller's promise.
        unsafe { output(cq, queue) }?;
        // SAFETY: the caller's promise.
        unsafe { output(cq_context, context) }
    })
}
