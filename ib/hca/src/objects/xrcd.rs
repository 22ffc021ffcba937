//! XRC domains.
//!
//! Owns that the host's registry knows who has one open. Must not know targets.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ferriband_memory::host::{XrcDomain, XrcOpen};

use crate::base::error::Error;
use crate::objects::open::OpenDevice;

/// An XRC domain, as this process has it open.
#[derive(Debug)]
pub struct Xrcd {
    /// The device, as it was opened.
    pub ctx: Arc<OpenDevice>,
    /// What the C face stores to find its object.
    pub cookie: AtomicUsize,
    pub(crate) domain: XrcDomain,
    pub(crate) users: AtomicUsize,
}

/// Which domain to open.
#[derive(Clone, Copy, Debug)]
pub enum XrcFile {
    /// One that nobody else can open.
    Private,
    /// That of a file, by device and inode number.
    Of(u64, u64, XrcOpen),
}

impl Xrcd {
    pub(crate) fn open(ctx: &Arc<OpenDevice>, file: XrcFile) -> Result<Arc<Self>, Error> {
        ctx.check_alive()?;
        let registry = &ctx.host.process().registry;
        let domain = match file {
            XrcFile::Private => registry.xrc_domain_private()?,
            XrcFile::Of(device, inode, how) => registry.xrc_domain_open(device, inode, how)?,
        };
        Ok(Arc::new(Xrcd {
            ctx: ctx.clone(),
            cookie: AtomicUsize::new(0),
            domain,
            users: AtomicUsize::new(0),
        }))
    }

    /// A number for a shared receive queue of the domain, whose requests are checked against
    /// protection domain `pd`.
    pub(crate) fn claim_srq(&self, pd: u32) -> Result<u32, Error> {
        let registry = &self.ctx.host.process().registry;
        Ok(registry.xrc_srq_claim(&self.domain, [u64::from(pd), 0])?)
    }

    /// Where it lies, which tells it from others that are open.
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Leaves the domain.
    ///
    /// # Errors
    /// `Busy` while queues of this process belong to it.
    pub fn close(&self) -> Result<(), Error> {
        self.ctx.status.life.check()?;
        if self.users.load(Ordering::Acquire) > 0 {
            return Err(Error::Busy("queues belong to the XRC domain"));
        }
        let host = &self.ctx.host;
        host.leave_domain(self.address());
        host.process().registry.xrc_domain_close(self.domain);
        Ok(())
    }
}
