//! XRC domains: what processes share that receive through each other's target queue pairs.

use super::context::Context;
use super::{after_destruction, any_thread};
use crate::error::VerbsError;
use crate::inline;
use ferriband_verbs_sys as sys;
use std::fmt;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;

/// An XRC domain.
pub struct Xrcd {
    at: NonNull<sys::ibv_xrcd>,
    context: Arc<Context>,
}

any_thread!(Xrcd);

impl Xrcd {
    /// Opens the domain that a file names, and makes it if it is not there; without a file, one of our own.
    pub fn open(
        context: &Arc<Context>,
        file: Option<BorrowedFd<'_>>,
    ) -> Result<Arc<Xrcd>, VerbsError> {
        let mut init = sys::ibv_xrcd_init_attr {
            comp_mask: sys::IBV_XRCD_INIT_ATTR_FD | sys::IBV_XRCD_INIT_ATTR_OFLAGS,
            fd: file.map_or(-1, |file| file.as_raw_fd()),
            oflags: libc::O_CREAT,
        };
        // SAFETY: the context is open.
        let at = unsafe { inline::open_xrcd(context.as_ptr(), &mut init) }?;
        let at = NonNull::new(at).ok_or_else(|| VerbsError::last("ibv_open_xrcd"))?;
        Ok(Arc::new(Xrcd {
            at,
            context: Arc::clone(context),
        }))
    }

    /// The device that it belongs to.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(super) fn as_ptr(&self) -> *mut sys::ibv_xrcd {
        self.at.as_ptr()
    }
}

impl fmt::Debug for Xrcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Xrcd")
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}

impl Drop for Xrcd {
    fn drop(&mut self) {
        // SAFETY: every object of this domain keeps it alive, so none is left here.
        let returned = unsafe { inline::close_xrcd(self.context.as_ptr(), self.as_ptr()) };
        after_destruction(returned, || Arc::clone(&self.context));
    }
}
