//! Event channels.

use crate::boundary::{Errno, entry};
use crate::object::Object;
use crate::private::{call, functions};
use crate::sys::rdma_event_channel;
use ferriband_cm_abi::fb_channel;

/// An event channel: the program reads its descriptor.
pub type Channel = Object<rdma_event_channel, ChannelOwn>;

/// What only we see of it.
pub struct ChannelOwn {
    /// libibverbs' side.
    pub raw: *mut fb_channel,
}

/// Opens a channel.
pub fn open() -> Result<*mut rdma_event_channel, Errno> {
    let functions = functions()?;
    let mut raw = std::ptr::null_mut();
    // SAFETY: the result's place lives during the call.
    call(|f| unsafe { (f.channel_open)(&raw mut raw) })?;
    // SAFETY: the channel was just opened.
    let fd = unsafe { (functions.channel_fd)(raw) };
    Ok(Channel::leak(rdma_event_channel { fd }, ChannelOwn { raw }))
}

/// Closes a channel.
///
/// # Safety
/// `channel` came from [`open`], was not closed, and nobody uses it any more.
pub unsafe fn close(channel: *mut rdma_event_channel) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    let own = unsafe { Channel::of(channel) }?;
    // SAFETY: the caller's promise.
    unsafe { (functions()?.channel_close)(own.raw) };
    // SAFETY: the caller's promise.
    unsafe { Channel::free(channel) };
    Ok(())
}

/// libibverbs' side of a channel.
///
/// # Safety
/// `channel` is NULL or came from [`open`] and was not closed.
pub unsafe fn raw(channel: *mut rdma_event_channel) -> Result<*mut fb_channel, Errno> {
    // SAFETY: the caller's promise.
    Ok(unsafe { Channel::of(channel) }?.raw)
}

/// `rdma_create_event_channel`: NULL and ENODEV without our libibverbs, EMFILE, ENOMEM.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn rdma_create_event_channel() -> *mut rdma_event_channel {
    entry(open)
}

/// `rdma_destroy_event_channel`.
///
/// # Safety
/// As the C interface demands: a channel without identifiers and with all events acknowledged.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_destroy_event_channel(channel: *mut rdma_event_channel) {
    // SAFETY: the caller's promise.
    entry(|| unsafe { close(channel) });
}
