//! Shared receive queues.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use ferriband_transport::direct::RecvQueue;
use ferriband_transport::types::Sge;

use crate::base::error::Error;
use crate::base::limits;
use crate::objects::cq::Cq;
use crate::objects::domain::Domain;
use crate::objects::event::AsyncKind;
use crate::objects::xrcd::Xrcd;
use crate::{FastMutex, lock};

/// How to create a shared receive queue.
#[derive(Clone, Debug, Default)]
pub struct SrqInit {
    /// Receives that must fit.
    pub max_wr: u32,
    /// Elements of a receive.
    pub max_sge: u32,
    /// Raise an event when fewer receives than this remain; 0 never.
    pub limit: u32,
    /// Completion queue and domain of an extended (XRC) one.
    pub xrc: Option<(Arc<Xrcd>, Arc<Cq>)>,
}

/// A shared receive queue.
#[derive(Debug)]
pub struct Srq {
    /// Its protection domain.
    pub pd: Arc<Domain>,
    /// What the C face stores to find its object.
    pub cookie: AtomicUsize,
    /// Domain and completion queue, if it is an extended one.
    pub xrc: Option<(Arc<Xrcd>, Arc<Cq>)>,
    /// Its number (XRC), else 0.
    pub number: u32,
    pub(crate) queue: FastMutex<RecvQueue>,
    pub(crate) max_sge: u32,
    limit: AtomicU32,
    pub(crate) users: AtomicUsize,
}

impl Srq {
    /// One of an XRC domain is to be made known under its number by who made it.
    pub(crate) fn new(pd: Arc<Domain>, init: SrqInit) -> Result<Arc<Self>, Error> {
        pd.ctx.check_alive()?;
        check_size(init.max_wr)?;
        if init.max_sge > limits::MAX_SGE {
            return Err(Error::Invalid(
                "more scatter/gather elements than max_srq_sge",
            ));
        }
        limits::check_room(limits::queue_bytes(init.max_wr, init.max_sge, 0))?;
        let number = match &init.xrc {
            Some((domain, cq)) => {
                let number = domain.claim_srq(pd.id)?;
                cq.users.fetch_add(1, Ordering::AcqRel);
                domain.users.fetch_add(1, Ordering::AcqRel);
                number
            }
            None => 0,
        };
        pd.use_it();
        Ok(Arc::new(Srq {
            cookie: AtomicUsize::new(0),
            number,
            queue: FastMutex::new(RecvQueue::new(init.max_wr, init.max_sge)),
            max_sge: init.max_sge,
            limit: AtomicU32::new(init.limit),
            users: AtomicUsize::new(0),
            xrc: init.xrc,
            pd,
        }))
    }

    /// Queues a receive.
    pub fn post_recv(&self, wr_id: u64, sges: &[Sge]) -> Result<(), Error> {
        self.pd.ctx.status.life.check()?;
        Ok(lock(&self.queue).push(wr_id, sges)?)
    }

    /// Receives that fit, elements of a receive, and the limit.
    pub fn query(&self) -> (u32, u32, u32) {
        (
            lock(&self.queue).capacity(),
            self.max_sge,
            self.limit.load(Ordering::Acquire),
        )
    }

    /// Changes the number of receives that fit, arms the limit event, or both: everything or
    /// nothing.
    ///
    /// # Errors
    /// `Invalid` if the size is out of range or below what is queued, or a limit, new or armed
    /// before, is beyond the size.
    pub fn modify(&self, max_wr: Option<u32>, limit: Option<u32>) -> Result<(), Error> {
        self.pd.ctx.status.life.check()?;
        let mut queue = lock(&self.queue);
        let size = max_wr.unwrap_or_else(|| queue.capacity());
        if limit.unwrap_or_else(|| self.limit.load(Ordering::Acquire)) > size {
            return Err(Error::Invalid(
                "the limit is beyond the size of the shared receive queue",
            ));
        }
        if let Some(max_wr) = max_wr {
            self.resize(&mut queue, max_wr)?;
        }
        drop(queue);
        if let Some(limit) = limit {
            self.limit.store(limit, Ordering::Release);
            self.check_limit();
        }
        Ok(())
    }

    fn resize(&self, queue: &mut RecvQueue, max_wr: u32) -> Result<(), Error> {
        check_size(max_wr)?;
        limits::check_room(limits::queue_bytes(max_wr, self.max_sge, 0))?;
        if max_wr < queue.len() {
            return Err(Error::Invalid("more receives are queued than would fit"));
        }
        let mut larger = RecvQueue::new(max_wr, self.max_sge);
        let mut sges = Vec::new();
        while let Some(wqe) = queue.take(&mut sges) {
            larger.push(wqe.wr_id, &sges)?;
        }
        *queue = larger;
        Ok(())
    }

    /// Raises the limit event once when fewer receives remain than asked for.
    pub(crate) fn check_limit(&self) {
        let limit = self.limit.load(Ordering::Acquire);
        if limit > 0
            && lock(&self.queue).len() < limit
            && self
                .limit
                .compare_exchange(limit, 0, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        {
            self.pd.ctx.raise(
                AsyncKind::SrqLimitReached,
                self.cookie.load(Ordering::Acquire),
            );
        }
    }

    /// Ends the queue.
    ///
    /// # Errors
    /// `Busy` while queue pairs use it.
    pub fn destroy(&self) -> Result<(), Error> {
        self.pd.ctx.status.life.check()?;
        if self.users.load(Ordering::Acquire) > 0 {
            return Err(Error::Busy("queue pairs use the shared receive queue"));
        }
        if let Some((domain, cq)) = &self.xrc {
            domain.users.fetch_sub(1, Ordering::AcqRel);
            self.pd.ctx.host.forget_srq(self.number);
            cq.users.fetch_sub(1, Ordering::AcqRel);
        }
        self.pd.release();
        Ok(())
    }
}

fn check_size(max_wr: u32) -> Result<(), Error> {
    if max_wr == 0 || max_wr > limits::MAX_SRQ_WR {
        return Err(Error::Invalid(
            "a shared receive queue holds between 1 and max_srq_wr receives",
        ));
    }
    Ok(())
}

impl Srq {
    /// True for an extended queue of this domain.
    pub(crate) fn in_domain(&self, domain: u64) -> bool {
        self.xrc
            .as_ref()
            .is_some_and(|(xrcd, _)| xrcd.domain.id == domain)
    }
}
