//! Channels of events.

use super::event::CmEvent;
use super::id::CmId;
use super::library::{Cm, Functions};
use crate::error::VerbsError;
use crate::objects::any_thread;
use crate::objects::context::set_nonblocking;
use ferriband_rdmacm_sys as cm;
use std::collections::HashMap;
use std::fmt;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// A channel of events: a descriptor that is readable while an event waits, and never blocks
/// whoever takes one.
pub struct CmChannel {
    at: NonNull<cm::rdma_event_channel>,
    cm: &'static Cm,
    ids: Mutex<Ids>,
}

any_thread!(CmChannel);

/// The channel's identifiers by the address of their C structure. Its lock is held over each call
/// of the library.
pub(super) type Ids = HashMap<usize, Weak<CmId>>;

impl CmChannel {
    /// Makes a channel.
    ///
    /// # Errors
    /// ENODEV where the kernel has no connection manager, or the library no adapter; EMFILE.
    pub fn create(cm: &'static Cm) -> Result<Arc<CmChannel>, VerbsError> {
        // SAFETY: the function takes no argument.
        let at = unsafe { (cm.f.rdma_create_event_channel)() };
        let at = NonNull::new(at).ok_or_else(|| VerbsError::last("rdma_create_event_channel"))?;
        let channel = Arc::new(CmChannel {
            at,
            cm,
            ids: Mutex::default(),
        });
        set_nonblocking(channel.fd())?;
        Ok(channel)
    }

    /// The library that it is of.
    pub fn manager(&self) -> &'static Cm {
        self.cm
    }

    /// The descriptor to wait on.
    pub fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel lives, the field is settled since it was made.
        let fd = unsafe { (&raw const (*self.at.as_ptr()).fd).read() };
        // SAFETY: the descriptor stays open as long as the channel.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }

    /// Takes the next event; `None` if none waits.
    ///
    /// # Errors
    /// ENODEV or EIO where the device is gone.
    pub fn next_event(self: &Arc<Self>) -> Result<Option<CmEvent>, VerbsError> {
        loop {
            let mut ids = self.lock();
            let mut at = std::ptr::null_mut();
            // SAFETY: the channel lives, the result is writable; the lock keeps other calls away.
            let returned = unsafe { (self.f().rdma_get_cm_event)(self.at.as_ptr(), &raw mut at) };
            if let Err(error) = VerbsError::check("rdma_get_cm_event", returned) {
                match error.errno() {
                    libc::EAGAIN => return Ok(None),
                    libc::EINTR => continue,
                    _ => return Err(error),
                }
            }
            let at = NonNull::new(at).ok_or(VerbsError::new("rdma_get_cm_event", libc::EIO))?;
            // SAFETY: the event was just taken from this channel, whose lock is held.
            let taken = unsafe { CmEvent::taken(at, self, &mut ids) };
            if taken.is_some() {
                return Ok(taken);
            }
        }
    }

    /// Takes the next event, waiting for it as long as `patience`; `None` if none came.
    pub fn wait_event(self: &Arc<Self>, patience: Duration) -> Result<Option<CmEvent>, VerbsError> {
        let end = Instant::now().checked_add(patience);
        loop {
            if let Some(event) = self.next_event()? {
                return Ok(Some(event));
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
            self.sleep(left)?;
        }
    }

    /// Sleeps until an event waits, or this time is over, or a signal came.
    fn sleep(&self, left: Option<Duration>) -> Result<(), VerbsError> {
        let mut waited = libc::pollfd {
            fd: self.fd().as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let whole = left.map_or(-1, super::params::milliseconds);
        // SAFETY: one descriptor's structure, which lives during the call.
        if unsafe { libc::poll(&raw mut waited, 1, whole) } >= 0 {
            return Ok(());
        }
        let error = VerbsError::last("poll");
        match error.errno() {
            libc::EINTR => Ok(()),
            _ => Err(error),
        }
    }

    /// Keeps other calls of the channel and of its identifiers away.
    pub(super) fn lock(&self) -> MutexGuard<'_, Ids> {
        // Each update of the table is one operation.
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn f(&self) -> &'static Functions {
        &self.cm.f
    }

    pub(super) fn as_ptr(&self) -> *mut cm::rdma_event_channel {
        self.at.as_ptr()
    }
}

impl fmt::Debug for CmChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CmChannel")
            .field("fd", &self.fd())
            .finish_non_exhaustive()
    }
}

impl Drop for CmChannel {
    fn drop(&mut self) {
        // SAFETY: every identifier and event of this channel keeps it alive, so none is left.
        unsafe { (self.f().rdma_destroy_event_channel)(self.as_ptr()) };
    }
}
