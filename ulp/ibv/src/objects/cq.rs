//! Completion queues and the channels on which they announce themselves.

use super::context::{Context, set_nonblocking};
use super::{after_destruction, any_thread};
use crate::error::VerbsError;
use crate::inline::{PollCq, ReqNotifyCq};
use crate::wc::Wc;
use ferriband_verbs_sys as sys;
use std::ffi::c_int;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;

/// A completion queue.
pub struct Cq {
    at: NonNull<sys::ibv_cq>,
    poll: PollCq,
    notify: ReqNotifyCq,
    context: Arc<Context>,
    channel: Option<Arc<CompChannel>>,
}

/// A completion channel: a descriptor that becomes readable when an armed completion queue gets an entry.
pub struct CompChannel {
    at: NonNull<sys::ibv_comp_channel>,
    context: Arc<Context>,
}

any_thread!(Cq, CompChannel);

impl CompChannel {
    /// Makes a channel.
    pub fn create(context: &Arc<Context>) -> Result<Arc<CompChannel>, VerbsError> {
        // SAFETY: the context is open.
        let at = unsafe { (context.f().ibv_create_comp_channel)(context.as_ptr()) };
        let at = NonNull::new(at).ok_or_else(|| VerbsError::last("ibv_create_comp_channel"))?;
        Ok(Arc::new(CompChannel {
            at,
            context: Arc::clone(context),
        }))
    }

    /// The descriptor to wait on.
    pub fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel lives, the field is settled since it was made.
        let fd = unsafe { (&raw const (*self.at.as_ptr()).fd).read() };
        // SAFETY: the descriptor stays open as long as the channel.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }

    /// Makes [`CompChannel::next_event`] return instead of waiting.
    pub fn set_nonblocking(&self) -> Result<(), VerbsError> {
        set_nonblocking(self.fd())
    }

    /// Takes the next event, acknowledges it, and tells the tag of its completion queue, which is then no longer armed.
    /// `None` if none waits and the descriptor does not block.
    pub fn next_event(&self) -> Result<Option<u64>, VerbsError> {
        let mut cq = std::ptr::null_mut();
        let mut tag = std::ptr::null_mut();
        let f = self.context.f();
        loop {
            // SAFETY: the channel lives, both results are writable.
            let returned =
                unsafe { (f.ibv_get_cq_event)(self.at.as_ptr(), &raw mut cq, &raw mut tag) };
            if returned == 0 {
                break;
            }
            let error = VerbsError::last("ibv_get_cq_event");
            match error.errno() {
                libc::EAGAIN => return Ok(None),
                libc::EINTR => (),
                _ => return Err(error),
            }
        }
        // SAFETY: the event was just taken: its queue's destruction waits for this acknowledgement.
        unsafe { (f.ibv_ack_cq_events)(cq, 1) };
        Ok(Some(tag.addr() as u64))
    }

    fn as_ptr(&self) -> *mut sys::ibv_comp_channel {
        self.at.as_ptr()
    }
}

impl fmt::Debug for CompChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompChannel")
            .field("fd", &self.fd())
            .finish_non_exhaustive()
    }
}

impl Drop for CompChannel {
    fn drop(&mut self) {
        // SAFETY: every completion queue of this channel keeps it alive, so none is left.
        let returned = unsafe { (self.context.f().ibv_destroy_comp_channel)(self.as_ptr()) };
        after_destruction(returned, || Arc::clone(&self.context));
    }
}

impl Cq {
    /// Makes a queue of at least `entries`. Its events on `channel` bear `tag`.
    pub fn create(
        context: &Arc<Context>,
        entries: u32,
        channel: Option<&Arc<CompChannel>>,
        tag: u64,
    ) -> Result<Arc<Cq>, VerbsError> {
        let entries = c_int::try_from(entries).unwrap_or(c_int::MAX);
        let tag = std::ptr::without_provenance_mut(tag as usize);
        let on = channel.map_or(std::ptr::null_mut(), |channel| channel.as_ptr());
        // SAFETY: context and channel live; the tag is a number that the library hands back.
        let at = unsafe { (context.f().ibv_create_cq)(context.as_ptr(), entries, tag, on, 0) };
        let at = NonNull::new(at).ok_or_else(|| VerbsError::last("ibv_create_cq"))?;
        Ok(Arc::new(Cq {
            at,
            poll: context.ops().poll_cq,
            notify: context.ops().req_notify_cq,
            context: Arc::clone(context),
            channel: channel.cloned(),
        }))
    }

    /// Takes completions, oldest first; returns how many.
    #[inline]
    pub fn poll(&self, to: &mut [Wc]) -> Result<usize, VerbsError> {
        let room = c_int::try_from(to.len()).unwrap_or(c_int::MAX);
        // SAFETY: the queue lives; there is room for so many structures, over which `Wc` is transparent.
        let count = unsafe { (self.poll)(self.as_ptr(), room, to.as_mut_ptr().cast()) };
        match usize::try_from(count) {
            Ok(count) => Ok(count.min(to.len())),
            Err(_) => Err(poll_failed(count)),
        }
    }

    /// Asks for one event on the channel: at the next completion, or at the next that is solicited or a failure. Completions that
    /// are there already may or may not announce themselves: poll once more after arming.
    pub fn arm(&self, solicited_only: bool) -> Result<(), VerbsError> {
        // SAFETY: the queue lives.
        let returned = unsafe { (self.notify)(self.as_ptr(), c_int::from(solicited_only)) };
        VerbsError::check("ibv_req_notify_cq", returned)
    }

    /// The channel that it announces itself on.
    pub fn channel(&self) -> Option<&Arc<CompChannel>> {
        self.channel.as_ref()
    }

    pub(super) fn as_ptr(&self) -> *mut sys::ibv_cq {
        self.at.as_ptr()
    }
}

#[cold]
fn poll_failed(count: c_int) -> VerbsError {
    let errno = if count < -1 {
        count.saturating_neg()
    } else {
        libc::EIO
    };
    VerbsError::new("ibv_poll_cq", errno)
}

impl fmt::Debug for Cq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cq")
            .field("channel", &self.channel)
            .finish_non_exhaustive()
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: every queue pair of this completion queue keeps it alive; events were acknowledged as they were taken.
        let returned = unsafe { (self.context.f().ibv_destroy_cq)(self.as_ptr()) };
        after_destruction(returned, || {
            (Arc::clone(&self.context), self.channel.clone())
        });
    }
}
