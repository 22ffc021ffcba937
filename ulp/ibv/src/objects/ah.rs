//! Address handles: where datagrams go.

use super::pd::Pd;
use super::{after_destruction, any_thread};
use crate::error::VerbsError;
use crate::types::Route;
use ferriband_verbs_sys as sys;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

/// An address handle.
pub struct Ah {
    at: NonNull<sys::ibv_ah>,
    pd: Arc<Pd>,
}

any_thread!(Ah);

impl Ah {
    /// Makes a handle of a route.
    pub fn create(pd: &Arc<Pd>, route: &Route) -> Result<Arc<Ah>, VerbsError> {
        let mut attr = route.to_c();
        // SAFETY: the domain lives, the attributes are readable.
        let at = unsafe { (pd.context().f().ibv_create_ah)(pd.as_ptr(), &raw mut attr) };
        let at = NonNull::new(at).ok_or_else(|| VerbsError::last("ibv_create_ah"))?;
        Ok(Arc::new(Ah {
            at,
            pd: Arc::clone(pd),
        }))
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::ibv_ah {
        self.at.as_ptr()
    }
}

impl fmt::Debug for Ah {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ah").finish_non_exhaustive()
    }
}

impl Drop for Ah {
    fn drop(&mut self) {
        // SAFETY: requests that name it borrow it until they are posted; providers copy it then.
        let returned = unsafe { (self.pd.context().f().ibv_destroy_ah)(self.as_ptr()) };
        after_destruction(returned, || Arc::clone(&self.pd));
    }
}
