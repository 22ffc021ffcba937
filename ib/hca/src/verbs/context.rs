//! A device that a program has opened.
//!
//! Owns nothing of it: [`OpenDevice`] does, and the engine what drives it.

use std::ops::Deref;
use std::sync::Arc;

use crate::base::error::Error;
use crate::cm::engine::engine;
use crate::cm::post::open_to_fabric;
use crate::device::{self, absence};
use crate::objects::cq::{CompChannel, Cq, CqInit};
use crate::objects::domain::Domain;
use crate::objects::mr::DeviceMemory;
use crate::objects::open::OpenDevice;
use crate::objects::xrcd::{XrcFile, Xrcd};
use crate::verbs::pd::Pd;

/// A device that a program has opened.
#[derive(Debug)]
pub struct Context(Arc<OpenDevice>);

impl Deref for Context {
    type Target = OpenDevice;

    fn deref(&self) -> &OpenDevice {
        &self.0
    }
}

impl Context {
    /// Opens a device by its index in [`crate::devices`].
    ///
    /// # Errors
    /// `NotFound`, `Absent` or `Gone` while it is not there, or what keeps the process from joining
    /// the host.
    pub fn open(index: usize) -> Result<Arc<Self>, Error> {
        let device = device::at(index)?.clone();
        let engine = engine()?;
        let open = OpenDevice::new(device, engine.clone(), engine.status.clone())?;
        engine.owners.keep(&open);
        engine.follow_interface(&open.device);
        // only now: whoever takes the device away from here on finds this context
        absence::check(&engine.process.registry, &open.device)?;
        if !open.device.is_ethernet() {
            // who makes nothing hears of the port's events, too
            open_to_fabric(&engine);
        }
        Ok(Arc::new(Context(open)))
    }

    /// A protection domain.
    pub fn alloc_pd(&self) -> Result<Arc<Pd>, Error> {
        Ok(Pd::of(Domain::new(&self.0)?))
    }

    /// A completion channel.
    pub fn create_comp_channel(&self) -> Result<Arc<CompChannel>, Error> {
        CompChannel::new(self.0.clone())
    }

    /// A completion queue.
    pub fn create_cq(&self, init: CqInit) -> Result<Arc<Cq>, Error> {
        Cq::new(self.0.clone(), init)
    }

    /// Device memory. A forked child may allocate too: nothing of the parent's is touched.
    pub fn alloc_dm(&self, length: u64) -> Result<Arc<DeviceMemory>, Error> {
        DeviceMemory::allocate(&self.0, length)
    }

    /// An XRC domain.
    pub fn open_xrcd(&self, file: XrcFile) -> Result<Arc<Xrcd>, Error> {
        Xrcd::open(&self.0, file)
    }
}
