//! Shared receive queues, plain and of XRC domains.

use super::cq::Cq;
use super::pd::Pd;
use super::xrcd::Xrcd;
use super::{after_destruction, any_thread};
use crate::error::{PostError, VerbsError};
use crate::inline::{self, PostSrqRecv};
use crate::wr::RecvWr;
use ferriband_verbs_sys as sys;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

/// A shared receive queue.
pub struct Srq {
    at: NonNull<sys::ibv_srq>,
    post: PostSrqRecv,
    pd: Arc<Pd>,
    /// Of an XRC queue: its domain and the completion queue of its receives.
    xrc: Option<(Arc<Xrcd>, Arc<Cq>)>,
}

any_thread!(Srq);

/// What makes a shared receive queue one of an XRC domain.
#[derive(Debug, Clone, Copy)]
pub struct XrcSrqInit<'a> {
    /// The domain.
    pub xrcd: &'a Arc<Xrcd>,
    /// Where its receives complete.
    pub cq: &'a Arc<Cq>,
}

impl Srq {
    /// Makes a queue of at least `max_wr` receives of at least `max_sge` elements. Its events bear `tag`.
    pub fn create(
        pd: &Arc<Pd>,
        max_wr: u32,
        max_sge: u32,
        tag: u64,
    ) -> Result<Arc<Srq>, VerbsError> {
        let mut init = sys::ibv_srq_init_attr {
            srq_context: std::ptr::without_provenance_mut(tag as usize),
            attr: sys::ibv_srq_attr {
                max_wr,
                max_sge,
                srq_limit: 0,
            },
        };
        // SAFETY: the domain lives, the attributes are writable.
        let at = unsafe { (pd.context().f().ibv_create_srq)(pd.as_ptr(), &raw mut init) };
        Srq::made("ibv_create_srq", at, pd, None)
    }

    /// Makes a queue that initiators name by its number.
    pub fn create_xrc(
        pd: &Arc<Pd>,
        xrc: XrcSrqInit<'_>,
        max_wr: u32,
        max_sge: u32,
        tag: u64,
    ) -> Result<Arc<Srq>, VerbsError> {
        let mut init = sys::ibv_srq_init_attr_ex {
            srq_context: std::ptr::without_provenance_mut(tag as usize),
            attr: sys::ibv_srq_attr {
                max_wr,
                max_sge,
                srq_limit: 0,
            },
            comp_mask: sys::IBV_SRQ_INIT_ATTR_TYPE
                | sys::IBV_SRQ_INIT_ATTR_PD
                | sys::IBV_SRQ_INIT_ATTR_XRCD
                | sys::IBV_SRQ_INIT_ATTR_CQ,
            srq_type: sys::IBV_SRQT_XRC,
            pd: pd.as_ptr(),
            xrcd: xrc.xrcd.as_ptr(),
            cq: xrc.cq.as_ptr(),
            ..Default::default()
        };
        // SAFETY: the context is open, everything named lives.
        let at = unsafe { inline::create_srq_ex(pd.context().as_ptr(), &mut init) }?;
        let kept = (Arc::clone(xrc.xrcd), Arc::clone(xrc.cq));
        Srq::made("ibv_create_srq_ex", at, pd, Some(kept))
    }

    fn made(
        call: &'static str,
        at: *mut sys::ibv_srq,
        pd: &Arc<Pd>,
        xrc: Option<(Arc<Xrcd>, Arc<Cq>)>,
    ) -> Result<Arc<Srq>, VerbsError> {
        let at = NonNull::new(at).ok_or_else(|| VerbsError::last(call))?;
        let post = pd.context().ops().post_srq_recv;
        Ok(Arc::new(Srq {
            at,
            post,
            pd: Arc::clone(pd),
            xrc,
        }))
    }

    /// The number by which initiators name an XRC queue; of a plain one it is what the device says.
    pub fn number(&self) -> Result<u32, VerbsError> {
        // SAFETY: the queue lives and belongs to this context.
        unsafe { inline::srq_number(self.pd.context().as_ptr(), self.as_ptr()) }
    }

    /// Posts a receive.
    #[inline]
    pub fn post_recv(&self, wr: &mut RecvWr<'_>) -> Result<(), VerbsError> {
        self.post_recv_chain(std::slice::from_mut(wr))
            .map_err(|refused| refused.error)
    }

    /// Posts receives in order, up to the first that is refused.
    pub fn post_recv_chain(&self, wrs: &mut [RecvWr<'_>]) -> Result<(), PostError> {
        super::qp::post_receives("ibv_post_srq_recv", wrs, |first, bad| {
            // SAFETY: the queue lives; the chain is linked and ends in NULL.
            unsafe { (self.post)(self.as_ptr(), first, bad) }
        })
    }

    /// Asks for one event when fewer than `limit` receives are left.
    pub fn arm_limit(&self, limit: u32) -> Result<(), VerbsError> {
        let mut attr = sys::ibv_srq_attr {
            srq_limit: limit,
            ..Default::default()
        };
        let mask = sys::IBV_SRQ_LIMIT as i32;
        // SAFETY: the queue lives, the attributes are readable.
        let returned =
            unsafe { (self.pd.context().f().ibv_modify_srq)(self.as_ptr(), &raw mut attr, mask) };
        VerbsError::check("ibv_modify_srq", returned)
    }

    /// How many receives fit, and the limit that is armed (0: none).
    pub fn room_and_limit(&self) -> Result<(u32, u32), VerbsError> {
        let mut attr = sys::ibv_srq_attr::default();
        // SAFETY: the queue lives, the attributes are writable.
        let returned =
            unsafe { (self.pd.context().f().ibv_query_srq)(self.as_ptr(), &raw mut attr) };
        VerbsError::check("ibv_query_srq", returned).map(|()| (attr.max_wr, attr.srq_limit))
    }

    pub(super) fn as_ptr(&self) -> *mut sys::ibv_srq {
        self.at.as_ptr()
    }
}

impl fmt::Debug for Srq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Srq")
            .field("xrc", &self.xrc.is_some())
            .finish_non_exhaustive()
    }
}

impl Drop for Srq {
    fn drop(&mut self) {
        // SAFETY: every queue pair of this queue keeps it alive, so none is left.
        let returned = unsafe { (self.pd.context().f().ibv_destroy_srq)(self.as_ptr()) };
        after_destruction(returned, || (Arc::clone(&self.pd), self.xrc.clone()));
    }
}
