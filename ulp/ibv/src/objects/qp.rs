//! Queue pairs: making them, taking them to RTS, posting.

use super::cq::Cq;
use super::pd::Pd;
use super::srq::Srq;
use super::xrcd::Xrcd;
use super::{after_destruction, any_thread};
use crate::cm::CmId;
use crate::error::{PostError, VerbsError};
use crate::inline::{self, PostRecv, PostSend};
use crate::load::Functions;
use crate::types::{Access, Mtu, QKey, QpState, QpType, Qpn, Route};
use crate::wr::{RecvWr, SendWr, WrOpcode};
use ferriband_verbs_sys as sys;
use std::ffi::c_int;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

/// A queue pair.
pub struct Qp {
    at: NonNull<sys::ibv_qp>,
    send: PostSend,
    recv: PostRecv,
    max_inline: u32,
    number: Qpn,
    qp_type: QpType,
    f: &'static Functions,
    /// None once it is destroyed.
    kept: Option<Kept>,
}

any_thread!(Qp);

/// What a queue pair was made from.
#[derive(Clone)]
enum Kept {
    Plain {
        pd: Arc<Pd>,
        queues: Queues,
    },
    Target(Arc<Xrcd>),
    /// Made by the connection manager for an identifier, which knows it.
    Managed {
        id: Arc<CmId>,
        pd: Arc<Pd>,
        queues: Queues,
    },
}

/// Completion queues of sends and receives, and a shared receive queue.
type Queues = (Arc<Cq>, Arc<Cq>, Option<Arc<Srq>>);

/// How much a queue pair holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QpCaps {
    /// Requests in the send queue.
    pub send_wr: u32,
    /// Requests in the receive queue; not with a shared one.
    pub recv_wr: u32,
    /// Elements of a send.
    pub send_sge: u32,
    /// Elements of a receive.
    pub recv_sge: u32,
    /// Bytes of an inline request.
    pub inline: u32,
}

/// What a queue pair is made of.
#[derive(Debug, Clone, Copy)]
pub struct QpInit<'a> {
    /// Transport service.
    pub qp_type: QpType,
    /// Where sends complete.
    pub send_cq: &'a Arc<Cq>,
    /// Where receives complete; an XRC initiator has none.
    pub recv_cq: &'a Arc<Cq>,
    /// A shared receive queue instead of its own.
    pub srq: Option<&'a Arc<Srq>>,
    /// How much it holds.
    pub caps: QpCaps,
    /// Each send completes, not only those that ask.
    pub signal_all: bool,
    /// What its events bear.
    pub tag: u64,
}

impl<'a> QpInit<'a> {
    /// A queue pair of 64 sends and 64 receives of one element each, without inline data.
    pub fn new(qp_type: QpType, send_cq: &'a Arc<Cq>, recv_cq: &'a Arc<Cq>) -> QpInit<'a> {
        let caps = QpCaps {
            send_wr: 64,
            recv_wr: 64,
            send_sge: 1,
            recv_sge: 1,
            inline: 0,
        };
        QpInit {
            qp_type,
            send_cq,
            recv_cq,
            srq: None,
            caps,
            signal_all: false,
            tag: 0,
        }
    }

    fn to_c(self) -> sys::ibv_qp_init_attr {
        let (initiator, caps) = (self.qp_type == QpType::XrcSend, self.caps);
        sys::ibv_qp_init_attr {
            qp_context: std::ptr::without_provenance_mut(self.tag as usize),
            send_cq: self.send_cq.as_ptr(),
            recv_cq: if initiator {
                std::ptr::null_mut()
            } else {
                self.recv_cq.as_ptr()
            },
            srq: self.srq.map_or(std::ptr::null_mut(), |srq| srq.as_ptr()),
            cap: sys::ibv_qp_cap {
                max_send_wr: caps.send_wr,
                max_recv_wr: if initiator { 0 } else { caps.recv_wr },
                max_send_sge: caps.send_sge,
                max_recv_sge: if initiator { 0 } else { caps.recv_sge },
                max_inline_data: caps.inline,
            },
            qp_type: self.qp_type.to_c(),
            sq_sig_all: c_int::from(self.signal_all),
        }
    }

    /// What it keeps alive.
    fn queues(&self) -> Queues {
        let queues = (Arc::clone(self.send_cq), Arc::clone(self.recv_cq));
        (queues.0, queues.1, self.srq.cloned())
    }
}

/// What RTR needs of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rtr {
    /// The other queue pair.
    pub peer: Qpn,
    /// The way there.
    pub route: Route,
    /// The PSN that it starts with, 24 bits.
    pub rq_psn: u32,
    /// Path MTU, the same on both sides.
    pub mtu: Mtu,
    /// READs and atomics that the peer may have outstanding here.
    pub max_dest_rd_atomic: u8,
    /// How long the peer waits when there is no receive (the API's code, 12 is 0.64 ms).
    pub min_rnr_timer: u8,
}

/// What RTS needs of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rts {
    /// The PSN that we start with, 24 bits.
    pub sq_psn: u32,
    /// READs and atomics that we may have outstanding.
    pub max_rd_atomic: u8,
    /// How long an answer may take: 4.096 us times 2 to this power; 0 is for ever.
    pub timeout: u8,
    /// How often a request is repeated when none comes, 0 to 7.
    pub retry_cnt: u8,
    /// How often when the peer has no receive, 0 to 6; 7 is for ever.
    pub rnr_retry: u8,
}

/// What a queue pair promises of the order in which bytes of incoming messages become visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InOrder {
    /// All bytes, ascending.
    pub whole_message: bool,
    /// Within each aligned block of 128 bytes.
    pub blocks_of_128: bool,
    /// The last byte after all others: an answer that Ferriband's adapter alone knows.
    pub last_byte_last: bool,
}

/// Flag of `ibv_query_qp_data_in_order`: answer with capabilities instead of yes or no.
const RETURN_CAPS: u32 = 1 << 0;
/// Ferriband's own flag, alone. A library that does not know it answers 0.
const LAST_BYTE_LAST: u32 = 1 << 31;
/// Capability: whole messages.
const CAP_WHOLE: c_int = 1 << 0;
/// Capability: aligned blocks of 128 bytes.
const CAP_BLOCKS: c_int = 1 << 1;

impl Qp {
    /// Makes a queue pair in RESET. XRC targets have a function of their own.
    pub fn create(pd: &Arc<Pd>, init: &QpInit<'_>) -> Result<Arc<Qp>, VerbsError> {
        let mut attr = init.to_c();
        let f = pd.context().f();
        // SAFETY: everything named lives, the attributes are writable. With a domain alone the extended call is this one.
        let at = unsafe { (f.ibv_create_qp)(pd.as_ptr(), &raw mut attr) };
        let kept = Kept::Plain {
            pd: Arc::clone(pd),
            queues: init.queues(),
        };
        Qp::made("ibv_create_qp", at, attr.cap.max_inline_data, kept)
    }

    /// A queue pair that the connection manager has made for an identifier. `create` makes it, of
    /// attributes that it may change.
    pub(crate) fn create_managed(
        id: &Arc<CmId>,
        pd: &Arc<Pd>,
        init: &QpInit<'_>,
        create: impl FnOnce(&mut sys::ibv_qp_init_attr) -> Result<*mut sys::ibv_qp, VerbsError>,
    ) -> Result<Arc<Qp>, VerbsError> {
        let mut attr = init.to_c();
        let at = create(&mut attr)?;
        let kept = Kept::Managed {
            id: Arc::clone(id),
            pd: Arc::clone(pd),
            queues: init.queues(),
        };
        Qp::made("rdma_create_qp", at, attr.cap.max_inline_data, kept)
    }

    /// Makes the target of an extended reliable connection. It receives for every XRC shared receive queue of the domain.
    pub fn create_xrc_target(xrcd: &Arc<Xrcd>, tag: u64) -> Result<Arc<Qp>, VerbsError> {
        let mut attr = sys::ibv_qp_init_attr_ex {
            qp_context: std::ptr::without_provenance_mut(tag as usize),
            qp_type: sys::IBV_QPT_XRC_RECV,
            comp_mask: sys::IBV_QP_INIT_ATTR_XRCD,
            xrcd: xrcd.as_ptr(),
            ..Default::default()
        };
        // SAFETY: the context is open, the domain lives.
        let at = unsafe { inline::create_qp_ex(xrcd.context().as_ptr(), &mut attr) }?;
        Qp::made("ibv_create_qp_ex", at, 0, Kept::Target(Arc::clone(xrcd)))
    }

    /// Another handle of a target that a process of the domain has made. The target lives while one of its handles does.
    pub fn open_xrc_target(xrcd: &Arc<Xrcd>, number: Qpn, tag: u64) -> Result<Arc<Qp>, VerbsError> {
        let mut attr = sys::ibv_qp_open_attr {
            comp_mask: sys::IBV_QP_OPEN_ATTR_NUM
                | sys::IBV_QP_OPEN_ATTR_XRCD
                | sys::IBV_QP_OPEN_ATTR_CONTEXT
                | sys::IBV_QP_OPEN_ATTR_TYPE,
            qp_num: number.0,
            xrcd: xrcd.as_ptr(),
            qp_context: std::ptr::without_provenance_mut(tag as usize),
            qp_type: sys::IBV_QPT_XRC_RECV,
        };
        // SAFETY: the context is open, the domain lives.
        let at = unsafe { inline::open_qp(xrcd.context().as_ptr(), &mut attr) }?;
        Qp::made("ibv_open_qp", at, 0, Kept::Target(Arc::clone(xrcd)))
    }

    fn made(
        call: &'static str,
        at: *mut sys::ibv_qp,
        max_inline: u32,
        kept: Kept,
    ) -> Result<Arc<Qp>, VerbsError> {
        let at = NonNull::new(at).ok_or_else(|| VerbsError::last(call))?;
        let context = match &kept {
            Kept::Plain { pd, .. } | Kept::Managed { pd, .. } => pd.context(),
            Kept::Target(xrcd) => xrcd.context(),
        };
        // SAFETY: the library's structure; these fields are settled since it was made.
        let number = unsafe { (&raw const (*at.as_ptr()).qp_num).read() };
        // SAFETY: as above.
        let qp_type = unsafe { (&raw const (*at.as_ptr()).qp_type).read() };
        Ok(Arc::new(Qp {
            at,
            send: context.ops().post_send,
            recv: context.ops().post_recv,
            max_inline,
            number: Qpn(number),
            qp_type: QpType::from_c(qp_type),
            f: context.f(),
            kept: Some(kept),
        }))
    }

    /// Its number.
    pub fn number(&self) -> Qpn {
        self.number
    }

    /// Its transport service.
    pub fn qp_type(&self) -> QpType {
        self.qp_type
    }

    /// Bytes that an inline request may have: at least what was asked for.
    pub fn max_inline(&self) -> u32 {
        self.max_inline
    }

    /// RESET to INIT, of a connection: what peers may do.
    pub fn init(&self, port: u8, pkey_index: u16, access: Access) -> Result<(), VerbsError> {
        let mut attr = sys::ibv_qp_attr {
            qp_state: sys::IBV_QPS_INIT,
            port_num: port,
            pkey_index,
            qp_access_flags: access.bits(),
            ..Default::default()
        };
        let mask = sys::IBV_QP_PKEY_INDEX | sys::IBV_QP_PORT | sys::IBV_QP_ACCESS_FLAGS;
        self.modify(&mut attr, mask)
    }

    /// RESET to INIT, of a datagram queue pair.
    pub fn init_ud(&self, port: u8, pkey_index: u16, qkey: QKey) -> Result<(), VerbsError> {
        let mut attr = sys::ibv_qp_attr {
            qp_state: sys::IBV_QPS_INIT,
            port_num: port,
            pkey_index,
            qkey: qkey.0,
            ..Default::default()
        };
        self.modify(
            &mut attr,
            sys::IBV_QP_PKEY_INDEX | sys::IBV_QP_PORT | sys::IBV_QP_QKEY,
        )
    }

    /// INIT to RTR, of a connection.
    pub fn ready_to_receive(&self, rtr: &Rtr) -> Result<(), VerbsError> {
        let mut attr = sys::ibv_qp_attr {
            qp_state: sys::IBV_QPS_RTR,
            path_mtu: rtr.mtu.to_c(),
            dest_qp_num: rtr.peer.0,
            rq_psn: rtr.rq_psn,
            ah_attr: rtr.route.to_c(),
            max_dest_rd_atomic: rtr.max_dest_rd_atomic,
            min_rnr_timer: rtr.min_rnr_timer,
            ..Default::default()
        };
        let mut mask =
            sys::IBV_QP_AV | sys::IBV_QP_PATH_MTU | sys::IBV_QP_DEST_QPN | sys::IBV_QP_RQ_PSN;
        // What belongs to executing READs and saying RNR: not of unreliable connections, nor of initiators.
        if matches!(self.qp_type, QpType::Rc | QpType::XrcRecv) {
            mask |= sys::IBV_QP_MAX_DEST_RD_ATOMIC | sys::IBV_QP_MIN_RNR_TIMER;
        }
        self.modify(&mut attr, mask)
    }

    /// RTR to RTS, of a connection.
    pub fn ready_to_send(&self, rts: &Rts) -> Result<(), VerbsError> {
        self.ready_to_send_with(rts, sys::ibv_qp_attr::default(), 0)
    }

    /// RTR to RTS, with the attributes `more` that a mask names beside it.
    pub(super) fn ready_to_send_with(
        &self,
        rts: &Rts,
        more: sys::ibv_qp_attr,
        named: u32,
    ) -> Result<(), VerbsError> {
        let mut attr = sys::ibv_qp_attr {
            qp_state: sys::IBV_QPS_RTS,
            sq_psn: rts.sq_psn,
            max_rd_atomic: rts.max_rd_atomic,
            timeout: rts.timeout,
            retry_cnt: rts.retry_cnt,
            rnr_retry: rts.rnr_retry,
            ..more
        };
        let mask = named
            | sys::IBV_QP_SQ_PSN
            | match self.qp_type {
                QpType::Rc | QpType::XrcSend => {
                    sys::IBV_QP_TIMEOUT
                        | sys::IBV_QP_RETRY_CNT
                        | sys::IBV_QP_RNR_RETRY
                        | sys::IBV_QP_MAX_QP_RD_ATOMIC
                }
                QpType::XrcRecv => sys::IBV_QP_TIMEOUT,
                _ => 0,
            };
        self.modify(&mut attr, mask)
    }

    /// INIT to RTS, of a datagram queue pair.
    pub fn ready_ud(&self, sq_psn: u32) -> Result<(), VerbsError> {
        let mut attr = sys::ibv_qp_attr {
            qp_state: sys::IBV_QPS_RTR,
            ..Default::default()
        };
        self.modify(&mut attr, 0)?;
        let mut attr = sys::ibv_qp_attr {
            qp_state: sys::IBV_QPS_RTS,
            sq_psn,
            ..Default::default()
        };
        self.modify(&mut attr, sys::IBV_QP_SQ_PSN)
    }

    /// To RESET or ERR, from anywhere. In ERR outstanding requests complete as flushed, in RESET they are gone.
    pub fn stop(&self, state: QpState) -> Result<(), VerbsError> {
        let mut attr = sys::ibv_qp_attr {
            qp_state: state.to_c(),
            ..Default::default()
        };
        self.modify(&mut attr, 0)
    }

    /// How long the peer is to wait before it sends again what has found no receive: a code (IBA
    /// table 45), 0 for 655 ms, the shortest is 1 for 0.01 ms. In RTS, which the queue pair stays in.
    ///
    /// # Errors
    /// EINVAL in another state, or for a code beyond 31.
    pub fn set_min_rnr_timer(&self, code: u8) -> Result<(), VerbsError> {
        let mut attr = sys::ibv_qp_attr {
            qp_state: sys::IBV_QPS_RTS,
            min_rnr_timer: code,
            ..Default::default()
        };
        self.modify(&mut attr, sys::IBV_QP_MIN_RNR_TIMER)
    }

    /// True if it takes its receives from a shared queue.
    pub(crate) fn has_srq(&self) -> bool {
        match &self.kept {
            Some(Kept::Plain { queues, .. } | Kept::Managed { queues, .. }) => queues.2.is_some(),
            Some(Kept::Target(_)) => true,
            None => false,
        }
    }

    /// To the state that the connection manager's attributes name.
    pub(crate) fn apply(&self, attr: &mut sys::ibv_qp_attr, mask: c_int) -> Result<(), VerbsError> {
        self.modify(attr, mask as u32)
    }

    pub(super) fn modify(&self, attr: &mut sys::ibv_qp_attr, mask: u32) -> Result<(), VerbsError> {
        let mask = (mask | sys::IBV_QP_STATE) as c_int;
        // SAFETY: the queue pair lives, the attributes hold no pointer.
        let returned = unsafe { (self.f.ibv_modify_qp)(self.as_ptr(), attr, mask) };
        VerbsError::check("ibv_modify_qp", returned)
    }

    /// Its state, as the device knows it.
    pub fn state(&self) -> Result<QpState, VerbsError> {
        let attr = self.query(sys::IBV_QP_STATE as c_int)?;
        Ok(QpState::from_c(attr.qp_state))
    }

    /// The attributes that a mask names, as the device knows them.
    pub(super) fn query(&self, mask: c_int) -> Result<sys::ibv_qp_attr, VerbsError> {
        let mut attr = sys::ibv_qp_attr::default();
        let mut init = sys::ibv_qp_init_attr::default();
        // SAFETY: the queue pair lives, both structures are writable.
        let returned =
            unsafe { (self.f.ibv_query_qp)(self.as_ptr(), &raw mut attr, mask, &raw mut init) };
        VerbsError::check("ibv_query_qp", returned).map(|()| attr)
    }

    /// What this queue pair promises of messages of this kind that come in to it. Asked in RTR or later; a library without the
    /// question promises nothing.
    pub fn in_order(&self, opcode: WrOpcode) -> InOrder {
        let Some(query) = self.f.ibv_query_qp_data_in_order else {
            return InOrder::default();
        };
        // SAFETY: the queue pair lives.
        let ask = |flags| unsafe { query(self.as_ptr(), opcode.to_c(), flags) };
        let caps = ask(RETURN_CAPS);
        let whole_message = ask(0) == 1 || caps & CAP_WHOLE != 0;
        InOrder {
            whole_message,
            blocks_of_128: whole_message || caps & CAP_BLOCKS != 0,
            last_byte_last: whole_message || ask(LAST_BYTE_LAST) == 1,
        }
    }

    /// Posts a request.
    ///
    /// # Errors
    /// ENOMEM: the send queue is full. EINVAL: inline data beyond the room, or borrowed bytes in a request that is not inline.
    #[inline]
    pub fn post_send(&self, wr: &mut SendWr<'_>) -> Result<(), VerbsError> {
        if !wr.is_sound(self.max_inline) {
            return Err(VerbsError::new("ibv_post_send", libc::EINVAL));
        }
        wr.c.next = std::ptr::null_mut();
        let mut bad = std::ptr::null_mut();
        // SAFETY: the queue pair lives; one request, whose elements are borrowed during the call and registered after it.
        let returned = unsafe { (self.send)(self.as_ptr(), &raw mut wr.c, &raw mut bad) };
        VerbsError::check("ibv_post_send", returned)
    }

    /// Posts requests in order, up to the first that is refused.
    pub fn post_send_chain(&self, wrs: &mut [SendWr<'_>]) -> Result<(), PostError> {
        let sound = wrs
            .iter()
            .take_while(|wr| wr.is_sound(self.max_inline))
            .count();
        let total = wrs.len();
        let chain = &mut wrs[..sound];
        let refused = |posted, errno| PostError {
            posted,
            error: VerbsError::new("ibv_post_send", errno),
        };
        if !chain.is_empty() {
            let first: *mut SendWr<'_> = chain.as_mut_ptr();
            for at in 0..sound {
                let last = at + 1 == sound;
                let next = if last {
                    std::ptr::null_mut()
                } else {
                    first.wrapping_add(at + 1)
                };
                // SAFETY: an element of the slice; `SendWr` is transparent over the C structure.
                unsafe { (*first.wrapping_add(at)).c.next = next.cast() };
            }
            let mut bad = std::ptr::null_mut();
            // SAFETY: the queue pair lives; the chain ends in NULL and its elements are borrowed during the call.
            let returned = unsafe { (self.send)(self.as_ptr(), first.cast(), &raw mut bad) };
            if let Err(error) = VerbsError::check("ibv_post_send", returned) {
                let posted = chain
                    .iter()
                    .position(|wr| std::ptr::eq(&raw const wr.c, bad));
                return Err(PostError {
                    posted: posted.unwrap_or(0),
                    error,
                });
            }
        }
        if sound < total {
            Err(refused(sound, libc::EINVAL))
        } else {
            Ok(())
        }
    }

    /// Posts a receive. Not with a shared receive queue.
    #[inline]
    pub fn post_recv(&self, wr: &mut RecvWr<'_>) -> Result<(), VerbsError> {
        self.post_recv_chain(std::slice::from_mut(wr))
            .map_err(|refused| refused.error)
    }

    /// Posts receives in order, up to the first that is refused.
    pub fn post_recv_chain(&self, wrs: &mut [RecvWr<'_>]) -> Result<(), PostError> {
        post_receives("ibv_post_recv", wrs, |first, bad| {
            // SAFETY: the queue pair lives; the chain is linked and ends in NULL.
            unsafe { (self.recv)(self.as_ptr(), first, bad) }
        })
    }

    /// Destroys the queue pair, as dropping it does, and gives back what the device said of it.
    ///
    /// # Errors
    /// The queue pair, which is as it was and may be closed again later: EBUSY while another handle
    /// of it is kept here, or while a peer is in the middle of an access by it; what else the
    /// device says.
    pub fn close(self: Arc<Self>) -> Result<(), NotClosed> {
        let mut qp = Arc::try_unwrap(self).map_err(|qp| {
            let error = VerbsError::new("ibv_destroy_qp", libc::EBUSY);
            NotClosed { qp, error }
        })?;
        if matches!(qp.kept, Some(Kept::Managed { .. })) {
            // rdma_destroy_qp says nothing
            return Ok(());
        }
        match VerbsError::check("ibv_destroy_qp", qp.destroy()) {
            Ok(()) => {
                qp.kept = None;
                Ok(())
            }
            Err(error) => Err(NotClosed {
                qp: Arc::new(qp),
                error,
            }),
        }
    }

    /// To be called once with success, and nothing after it.
    fn destroy(&self) -> c_int {
        // SAFETY: nobody uses it any more; events were acknowledged as they were taken.
        unsafe { (self.f.ibv_destroy_qp)(self.as_ptr()) }
    }

    fn as_ptr(&self) -> *mut sys::ibv_qp {
        self.at.as_ptr()
    }
}

/// A queue pair that could not be closed.
#[derive(Debug)]
pub struct NotClosed {
    /// The queue pair.
    pub qp: Arc<Qp>,
    /// Why not.
    pub error: VerbsError,
}

impl fmt::Display for NotClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue pair {}: {}", self.qp.number.0, self.error)
    }
}

impl std::error::Error for NotClosed {}

/// Links receives to a chain and posts it by `post`, up to the first that is refused.
pub(super) fn post_receives(
    call: &'static str,
    wrs: &mut [RecvWr<'_>],
    post: impl FnOnce(*mut sys::ibv_recv_wr, *mut *mut sys::ibv_recv_wr) -> c_int,
) -> Result<(), PostError> {
    let sound = wrs.iter().take_while(|wr| wr.is_sound()).count();
    let total = wrs.len();
    let chain = &mut wrs[..sound];
    if !chain.is_empty() {
        let first: *mut RecvWr<'_> = chain.as_mut_ptr();
        for at in 0..sound {
            let last = at + 1 == sound;
            let next = if last {
                std::ptr::null_mut()
            } else {
                first.wrapping_add(at + 1)
            };
            // SAFETY: an element of the slice; `RecvWr` is transparent over the C structure.
            unsafe { (*first.wrapping_add(at)).c.next = next.cast() };
        }
        let mut bad = std::ptr::null_mut();
        let returned = post(first.cast(), &raw mut bad);
        if let Err(error) = VerbsError::check(call, returned) {
            let posted = chain
                .iter()
                .position(|wr| std::ptr::eq(&raw const wr.c, bad));
            return Err(PostError {
                posted: posted.unwrap_or(0),
                error,
            });
        }
    }
    if sound < total {
        return Err(PostError {
            posted: sound,
            error: VerbsError::new(call, libc::EINVAL),
        });
    }
    Ok(())
}

impl fmt::Debug for Qp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Qp")
            .field("number", &self.number)
            .field("qp_type", &self.qp_type)
            .finish_non_exhaustive()
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        match self.kept.take() {
            None => {}
            Some(Kept::Managed { id, .. }) => id.destroy_qp(),
            Some(kept) => after_destruction(self.destroy(), || kept),
        }
    }
}
