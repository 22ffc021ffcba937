//! Protection domains.
//!
//! Owns who belongs to one. Must not know what objects do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use ferriband_transport::types::{Access, Sge};

use crate::base::error::Error;
use crate::objects::open::OpenDevice;
use crate::process::keys;

static NEXT: AtomicU32 = AtomicU32::new(1);

/// A protection domain.
#[derive(Debug)]
pub struct Domain {
    /// The device, as it was opened.
    pub ctx: Arc<OpenDevice>,
    /// Its identifier; a parent domain has that of the domain it stands for.
    pub id: u32,
    users: AtomicUsize,
}

impl Domain {
    pub(crate) fn new(ctx: &Arc<OpenDevice>) -> Result<Arc<Self>, Error> {
        ctx.check_alive()?;
        Ok(Arc::new(Domain {
            ctx: ctx.clone(),
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            users: AtomicUsize::new(0),
        }))
    }

    pub(crate) fn use_it(&self) {
        self.users.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn release(&self) {
        self.users.fetch_sub(1, Ordering::AcqRel);
    }

    /// Ends the domain.
    ///
    /// # Errors
    /// `Busy` while objects belong to it.
    pub fn dealloc(&self) -> Result<(), Error> {
        self.ctx.status.life.check()?;
        if self.users.load(Ordering::Acquire) > 0 {
            return Err(Error::Busy("objects belong to the protection domain"));
        }
        Ok(())
    }

    /// Checks that a range lies in a region of this domain that may be written (`writes`) or read
    /// by the adapter.
    ///
    /// # Errors
    /// `NotFound` if no region of the domain has that key and covers the range; `Permission` if one
    /// does without the right.
    pub fn check_range(&self, sge: &Sge, writes: bool) -> Result<(), Error> {
        let own = &self.ctx.host.process().own;
        if keys::local(own, self.id, sge, Access::empty()).is_none() {
            return Err(Error::NotFound(
                "no region of the protection domain covers the range under this key",
            ));
        }
        if writes && keys::local(own, self.id, sge, Access::LOCAL_WRITE).is_none() {
            return Err(Error::Permission("the region does not allow local writes"));
        }
        Ok(())
    }
}
