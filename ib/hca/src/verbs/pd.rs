//! Protection domains, and what is made in one.
//!
//! Owns nothing of them: [`Domain`] does.

use std::ops::Deref;
use std::sync::Arc;

use ferriband_transport::types::{Access, AddressVector};

use crate::base::error::Error;
use crate::objects::ah::Ah;
use crate::objects::domain::Domain;
use crate::objects::mr::{DeviceMemory, Mr, MrInit, Mw, MwKind};
use crate::objects::srq::{Srq, SrqInit};
use crate::qp::adapter::Adapter;
use crate::qp::{Qp, QpInit};

/// A protection domain.
#[derive(Debug)]
pub struct Pd(Arc<Domain>);

impl Deref for Pd {
    type Target = Domain;

    fn deref(&self) -> &Domain {
        &self.0
    }
}

impl Pd {
    pub(crate) fn of(domain: Arc<Domain>) -> Arc<Self> {
        Arc::new(Pd(domain))
    }

    /// The domain, as objects know it.
    pub fn domain(&self) -> &Arc<Domain> {
        &self.0
    }

    /// Registers memory.
    pub fn reg_mr(&self, init: MrInit) -> Result<Arc<Mr>, Error> {
        Mr::register(&self.0, init)
    }

    /// Registers a part of device memory.
    pub fn reg_dm_mr(
        &self,
        dm: &Arc<DeviceMemory>,
        offset: u64,
        length: u64,
        access: Access,
    ) -> Result<Arc<Mr>, Error> {
        Mr::of_dm(&self.0, dm, offset, length, access)
    }

    /// A memory window.
    pub fn alloc_mw(&self, kind: MwKind) -> Result<Arc<Mw>, Error> {
        Mw::allocate(&self.0, kind)
    }

    /// A queue pair.
    pub fn create_qp(&self, init: QpInit) -> Result<Arc<Qp>, Error> {
        self.ctx.check_alive()?;
        Qp::create(&self.ctx, Some(self.0.clone()), init, None)
    }

    /// A shared receive queue.
    pub fn create_srq(&self, init: SrqInit) -> Result<Arc<Srq>, Error> {
        let srq = Srq::new(self.0.clone(), init)?;
        if srq.xrc.is_some() {
            Adapter::of(&self.ctx).targets.add_srq(&srq);
        }
        Ok(srq)
    }

    /// An address handle.
    pub fn create_ah(&self, av: AddressVector) -> Result<Arc<Ah>, Error> {
        Ah::new(self.0.clone(), av)
    }
}
