//! Creation of a queue pair.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ferriband_transport::direct::{Receiver, RecvQueue, Sender};
use ferriband_transport::types::{QpAttr, QpCap, QpState, QpType};

use crate::FastMutex;
use crate::base::error::Error;
use crate::base::limits;
use crate::objects::domain::Domain;
use crate::objects::open::OpenDevice;
use crate::qp::adapter::Adapter;
use crate::qp::send::SendHalf;
use crate::qp::{NO_INDEX, Qp, QpInit};
use crate::xrc::TargetProxy;

/// Bytes of a scatter/gather element in an adapter's work request.
const SGE_BYTES: u32 = 16;

impl Qp {
    pub(crate) fn create(
        ctx: &Arc<OpenDevice>,
        pd: Option<Arc<Domain>>,
        mut init: QpInit,
        target: Option<Arc<TargetProxy>>,
    ) -> Result<Arc<Self>, Error> {
        if init.qp_type == QpType::XrcRecv {
            // packets name the queue of each message
            init.srq = None;
        }
        let cap = check_init(&init)?;
        let sends = limits::queue_bytes(cap.max_send_wr, cap.max_send_sge, cap.max_inline_data);
        limits::check_room(sends + limits::queue_bytes(cap.max_recv_wr, cap.max_recv_sge, 0))?;
        let adapter = Adapter::of(ctx);
        let (qpn, index) = match &target {
            Some(target) => (target.qpn(), NO_INDEX),
            None => {
                let kind = ctx
                    .device
                    .number_kind(init.qp_type, || adapter.packets_wanted());
                adapter.claim_qpn(kind)?
            }
        };
        let pd_id = pd.as_ref().map_or(0, |pd| pd.id);
        let (recv_pd, recv_sge) = match &init.srq {
            Some(srq) => (srq.pd.id, srq.max_sge),
            None => (pd_id, cap.max_recv_sge),
        };
        let own_rq =
            init.srq.is_none() && !matches!(init.qp_type, QpType::XrcSend | QpType::XrcRecv);
        let (rq_wr, rq_sge) = if own_rq {
            (cap.max_recv_wr, cap.max_recv_sge)
        } else {
            (0, 0)
        };
        let sender = Sender::new(
            qpn,
            index,
            init.qp_type,
            pd_id,
            init.signal_all,
            cap.max_send_wr,
            cap.max_send_sge,
            cap.max_inline_data,
        )
        .after_incarnation(adapter.last_incarnation(index));
        if let Some(pd) = &pd {
            pd.use_it();
        }
        for cq in [&init.send_cq, &init.recv_cq].into_iter().flatten() {
            cq.users.fetch_add(1, Ordering::AcqRel);
        }
        if let Some(srq) = &init.srq {
            srq.users.fetch_add(1, Ordering::AcqRel);
        }
        if let Some(xrcd) = &init.xrcd {
            xrcd.users.fetch_add(1, Ordering::AcqRel);
        }
        let qp = Arc::new(Qp {
            adapter: adapter.clone(),
            ctx: ctx.clone(),
            pd,
            cookie: AtomicUsize::new(0),
            qpn,
            index,
            qp_type: init.qp_type,
            cap,
            send_cq: init.send_cq,
            recv_cq: init.recv_cq,
            srq: init.srq,
            xrcd: init.xrcd,
            signal_all: init.signal_all,
            scheduled: AtomicBool::new(false),
            state: AtomicU32::new(QpState::Reset as u32),
            attr: Mutex::new(QpAttr {
                cap,
                ..QpAttr::default()
            }),
            send: FastMutex::new(SendHalf {
                sender,
                cache: None,
            }),
            recv: FastMutex::new(Receiver::new(qpn, init.qp_type, pd_id, recv_pd, recv_sge)),
            rq: FastMutex::new(RecvQueue::new(rq_wr, rq_sge)),
            last_wqe: AtomicBool::new(false),
            tells_drained: AtomicBool::new(false),
            groups: Mutex::default(),
            on_packets: AtomicBool::new(false),
            packets: FastMutex::new(None),
            rate_kbps: AtomicU32::new(0),
            port: AtomicU8::new(0),
            armed_at: AtomicU64::new(u64::MAX),
            target,
        });
        if qp.target.is_none() {
            adapter.insert_qp(&qp);
        }
        Ok(qp)
    }
}

/// Checks what is asked for; the capacities granted.
fn check_init(init: &QpInit) -> Result<QpCap, Error> {
    let mut cap = init.cap;
    // what a queue pair has not is ignored, whatever is asked of it (ibv_create_qp(3)): receives come from a shared queue, a target
    // of XRC sends nothing
    if init.srq.is_some() || matches!(init.qp_type, QpType::XrcSend | QpType::XrcRecv) {
        (cap.max_recv_wr, cap.max_recv_sge) = (0, 0);
    }
    if init.qp_type == QpType::XrcRecv {
        cap = QpCap::default();
    }
    if let Some(srq) = &init.srq {
        if !matches!(init.qp_type, QpType::Rc | QpType::Ud) {
            return Err(Error::Invalid(
                "a shared receive queue serves reliable connections and datagrams (ibv_create_qp(3))",
            ));
        }
        if srq.xrc.is_some() {
            return Err(Error::Invalid(
                "the shared receive queue belongs to an XRC domain, whose packets name it",
            ));
        }
    }
    // room for elements is room for bytes: adapters keep both in one place, and programs use it unasked (rdma_xclient does)
    let inline = cap
        .max_send_sge
        .saturating_mul(SGE_BYTES)
        .min(limits::MAX_INLINE);
    if cap.max_send_wr > 0 {
        cap.max_inline_data = cap.max_inline_data.max(inline);
    }
    if cap.max_send_wr > limits::MAX_QP_WR || cap.max_recv_wr > limits::MAX_QP_WR {
        return Err(Error::Invalid("more work requests than max_qp_wr"));
    }
    if cap.max_send_sge > limits::MAX_SGE || cap.max_recv_sge > limits::MAX_SGE {
        return Err(Error::Invalid("more scatter/gather elements than max_sge"));
    }
    if cap.max_inline_data > limits::MAX_INLINE {
        return Err(Error::Invalid("more inline data than the device offers"));
    }
    let needs_cqs = !matches!(init.qp_type, QpType::XrcRecv);
    if needs_cqs && init.send_cq.is_none()
        || needs_cqs && init.recv_cq.is_none() && init.qp_type != QpType::XrcSend
    {
        return Err(Error::Invalid("the queue pair needs completion queues"));
    }
    Ok(cap)
}
