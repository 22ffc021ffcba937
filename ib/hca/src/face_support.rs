//! Small questions and commands of the C face that no other room asks.

use ferriband_transport::types::{Access, Sge};

use crate::base::error::Error;
use crate::objects::context::{Context, Pd};
use crate::objects::event::AsyncKind;
use crate::process::keys;

impl Context {
    /// Ends the device after an internal error: every later verb fails, and the program is told.
    #[cold]
    pub fn declare_fatal(&self) {
        self.engine.fail();
        self.raise(AsyncKind::DeviceFatal, 0);
    }
}

impl Pd {
    /// Checks that a range lies in a region of this domain that may be written (`writes`) or read by the adapter.
    ///
    /// # Errors
    /// `NotFound` if no region of the domain has that key and covers the range; `Permission` if one does without the
    /// right.
    pub fn check_range(&self, sge: &Sge, writes: bool) -> Result<(), Error> {
        let own = &self.ctx.engine.process.own;
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
