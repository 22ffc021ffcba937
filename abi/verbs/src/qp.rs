//! Queue pairs: creation from either call, opening a shared one, attributes, destruction. Posting lies in
//! [`crate::post`], the extended builder in [`crate::qp_ex`].

use crate::acks::Acks;
use crate::boundary::{entry, try_entry};
use crate::context::Context;
use crate::cq::{self, Cq};
use crate::object::{Object, input, output};
use crate::pd::{Pd, User};
use crate::qp_ex::{self, Builder};
use crate::srq;
use crate::xrcd::Xrcd;
use crate::{convert, live};
use ferriband_hca as hca;
use ferriband_sanitizer as sanitizer;
use ferriband_transport::types::QpType;
use ferriband_verbs_sys as sys;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What only we see of a queue pair.
pub struct QpOwn {
    /// The adapter's queue pair.
    pub hca: Arc<hca::Qp>,
    /// Datagram service: sends carry an address handle.
    pub is_ud: bool,
    /// Initiator of an XRC connection: sends name a shared receive queue.
    pub is_xrc: bool,
    /// Asynchronous events handed to the program and not yet acknowledged.
    pub acks: Acks,
    /// The extended interface, if the queue pair was created for it.
    pub builder: Option<Builder>,
    sq_sig_all: bool,
    number: usize,
    _pd: Option<User>,
}

/// A queue pair; its C form is always the extended one, of which the plain one is a prefix.
pub type Qp = Object<sys::ibv_qp_ex, QpOwn>;

/// Queue pairs by their plain pointer.
///
/// # Safety
/// As for [`Object::of`].
#[inline(always)]
pub unsafe fn of<'a>(qp: *const sys::ibv_qp) -> Result<&'a Qp, i32> {
    // SAFETY: the caller's promise.
    unsafe { Qp::of(qp.cast()) }
}

/// `ibv_create_qp`: writes the granted capacities back.
///
/// # Safety
/// `pd` is a live domain, `attr` readable and writable, and the objects that it names are live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_qp(
    pd: *mut sys::ibv_pd,
    attr: *mut sys::ibv_qp_init_attr,
) -> *mut sys::ibv_qp {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let plain = unsafe { input(attr) }?;
        // SAFETY: the caller's promise.
        let context = unsafe { (*Pd::of(pd)?.c()).context };
        let mut extended = sys::ibv_qp_init_attr_ex {
            qp_context: plain.qp_context,
            send_cq: plain.send_cq,
            recv_cq: plain.recv_cq,
            srq: plain.srq,
            cap: plain.cap,
            qp_type: plain.qp_type,
            sq_sig_all: plain.sq_sig_all,
            comp_mask: sys::IBV_QP_INIT_ATTR_PD,
            pd,
            ..Default::default()
        };
        // SAFETY: a context outlives its objects, by the API; the objects are the caller's promise.
        let qp = unsafe { create(Context::of(context)?, &mut extended) }?;
        // SAFETY: the caller's promise.
        unsafe { (*attr).cap = extended.cap };
        Ok(qp)
    })
}

/// `create_qp_ex` of the context.
///
/// # Safety
/// `context` is a live context, `attr` readable and writable, and the objects that it names are live.
pub unsafe extern "C" fn create_qp_ex(
    context: *mut sys::ibv_context,
    attr: *mut sys::ibv_qp_init_attr_ex,
) -> *mut sys::ibv_qp {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let context = unsafe { Context::of(context) }?;
        // SAFETY: the caller's promise.
        let attr = unsafe { attr.as_mut() }.ok_or(libc::EINVAL)?;
        // SAFETY: the caller's promise.
        unsafe { create(context, attr) }
    })
}

/// Flags of the creation mask that have a meaning for this adapter.
const KNOWN_MASK: u32 = sys::IBV_QP_INIT_ATTR_PD
    | sys::IBV_QP_INIT_ATTR_XRCD
    | sys::IBV_QP_INIT_ATTR_CREATE_FLAGS
    | sys::IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

/// Creates a queue pair for either call; capacities are written back into `attr`.
///
/// # Safety
/// The objects that `attr` names are NULL or live.
unsafe fn create(
    context: &Context,
    attr: &mut sys::ibv_qp_init_attr_ex,
) -> Result<*mut sys::ibv_qp, i32> {
    let has = |flag: u32| attr.comp_mask & flag != 0;
    // a queue pair never gets its own datagrams back from a group: who asks for that gets what everybody has
    let known = sys::IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
    if attr.comp_mask & !KNOWN_MASK != 0
        || has(sys::IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr.create_flags & !known != 0
    {
        return Err(libc::EOPNOTSUPP);
    }
    let qp_type = convert::qp_type(attr.qp_type).ok_or(libc::EOPNOTSUPP)?;
    let is_target = qp_type == QpType::XrcRecv;
    let xrcd = match has(sys::IBV_QP_INIT_ATTR_XRCD) && is_target {
        // SAFETY: the caller's promise.
        true => Some(unsafe { Xrcd::of(attr.xrcd) }?),
        false if is_target => return Err(libc::EINVAL),
        false => None,
    };
    let pd = match has(sys::IBV_QP_INIT_ATTR_PD) {
        // SAFETY: the caller's promise.
        true => Some(unsafe { Pd::of(attr.pd) }?),
        false if is_target => None,
        false => return Err(libc::EINVAL),
    };
    let send_ops = has(sys::IBV_QP_INIT_ATTR_SEND_OPS_FLAGS).then_some(attr.send_ops_flags);
    if let Some(operations) = send_ops {
        qp_ex::check_operations(qp_type, operations)?;
    }
    // SAFETY: the caller's promise.
    let queue = |cq: *mut sys::ibv_cq| unsafe { optional(cq, |cq| cq::of(cq)) };
    let (send_cq, recv_cq) = (queue(attr.send_cq)?, queue(attr.recv_cq)?);
    // SAFETY: the caller's promise.
    let srq = unsafe { optional(attr.srq, |srq| srq::of(srq)) }?;
    let init = hca::QpInit {
        qp_type,
        cap: convert::cap(&attr.cap),
        send_cq: send_cq.map(|cq: &Cq| Arc::clone(&cq.hca)),
        recv_cq: recv_cq.map(|cq: &Cq| Arc::clone(&cq.hca)),
        srq: srq.map(|srq: &srq::Srq| Arc::clone(&srq.hca)),
        xrcd: xrcd.map(|xrcd| Arc::clone(&xrcd.hca)),
        signal_all: attr.sq_sig_all != 0,
    };
    let created = match (pd, &init.xrcd) {
        (_, Some(xrcd)) => hca::Qp::make_target(xrcd, init.clone()),
        (Some(pd), None) => pd.hca.create_qp(init),
        (None, None) => return Err(libc::EINVAL),
    };
    let queue_pair = created.map_err(|error| error.errno())?;
    attr.cap = convert::cap_to_c(&queue_pair.cap);
    let c = sys::ibv_qp {
        context: context.as_c(),
        qp_context: attr.qp_context,
        pd: if pd.is_some() {
            attr.pd
        } else {
            std::ptr::null_mut()
        },
        send_cq: attr.send_cq,
        recv_cq: attr.recv_cq,
        srq: attr.srq,
        qp_type: attr.qp_type,
        ..Default::default()
    };
    let parts = Parts {
        send_ops,
        sq_sig_all: attr.sq_sig_all != 0,
        pd: pd.map(|pd| pd.hold()),
    };
    Ok(publish(context, queue_pair, qp_type, c, parts))
}

/// `open_qp` of the context: a handle of a target queue pair of an XRC domain, whoever made it.
///
/// # Safety
/// `context` is a live context and `attr` readable; the domain it names is live.
pub unsafe extern "C" fn open_qp(
    context: *mut sys::ibv_context,
    attr: *mut sys::ibv_qp_open_attr,
) -> *mut sys::ibv_qp {
    const NEEDED: u32 =
        sys::IBV_QP_OPEN_ATTR_NUM | sys::IBV_QP_OPEN_ATTR_XRCD | sys::IBV_QP_OPEN_ATTR_TYPE;
    try_entry(|| {
        // SAFETY: the caller's promise.
        let context = unsafe { Context::of(context) }?;
        // SAFETY: the caller's promise.
        let attr = unsafe { input(attr) }?;
        if attr.comp_mask >= sys::IBV_QP_OPEN_ATTR_RESERVED {
            return Err(libc::EOPNOTSUPP);
        }
        if attr.comp_mask & NEEDED != NEEDED || attr.qp_type != sys::IBV_QPT_XRC_RECV {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller's promise.
        let xrcd = unsafe { Xrcd::of(attr.xrcd) }?;
        let opened = hca::Qp::open_target(&xrcd.hca, attr.qp_num);
        let queue_pair = opened.map_err(|error| error.errno())?;
        let has_context = attr.comp_mask & sys::IBV_QP_OPEN_ATTR_CONTEXT != 0;
        let c = sys::ibv_qp {
            context: context.as_c(),
            qp_context: if has_context {
                attr.qp_context
            } else {
                std::ptr::null_mut()
            },
            qp_type: attr.qp_type,
            ..Default::default()
        };
        let parts = Parts {
            send_ops: None,
            sq_sig_all: false,
            pd: None,
        };
        Ok(publish(context, queue_pair, QpType::XrcRecv, c, parts))
    })
}

/// A pointer that may be NULL.
///
/// # Safety
/// As for `of`.
unsafe fn optional<'a, C, T>(
    pointer: *mut C,
    of: impl FnOnce(*mut C) -> Result<&'a T, i32>,
) -> Result<Option<&'a T>, i32> {
    if pointer.is_null() {
        Ok(None)
    } else {
        of(pointer).map(Some)
    }
}

/// What a new queue pair's object needs beside its C structure.
struct Parts {
    send_ops: Option<u64>,
    sq_sig_all: bool,
    pd: Option<User>,
}

/// Makes the object that the program holds.
fn publish(
    context: &Context,
    queue_pair: Arc<hca::Qp>,
    qp_type: QpType,
    mut c: sys::ibv_qp,
    parts: Parts,
) -> *mut sys::ibv_qp {
    c.handle = context.next_handle();
    c.qp_num = queue_pair.qpn;
    c.state = sys::IBV_QPS_RESET;
    let mut extended = sys::ibv_qp_ex {
        qp_base: c,
        ..Default::default()
    };
    let builder = parts.send_ops.map(|operations| {
        qp_ex::install(&mut extended, qp_type, operations);
        Builder::default()
    });
    let shared = queue_pair.srq.as_ref();
    let shared = shared.map_or(0, |srq| srq.cookie.load(Ordering::Acquire));
    sanitizer::shares(queue_pair.qpn, shared as u32);
    let number = live::number();
    let own = QpOwn {
        hca: Arc::clone(&queue_pair),
        is_ud: qp_type == QpType::Ud,
        is_xrc: qp_type == QpType::XrcSend,
        acks: Acks::default(),
        builder,
        sq_sig_all: parts.sq_sig_all,
        number,
        _pd: parts.pd,
    };
    let pointer = Qp::leak(extended, own);
    live::enter(number, pointer);
    queue_pair.cookie.store(number, Ordering::Release);
    pointer.cast()
}

/// `ibv_qp_to_qp_ex`: the extended interface, NULL for a queue pair that was not created for it.
///
/// # Safety
/// `qp` is a live queue pair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_qp_to_qp_ex(qp: *mut sys::ibv_qp) -> *mut sys::ibv_qp_ex {
    entry(|| {
        // SAFETY: the caller's promise.
        let has_builder = unsafe { of(qp) }.is_ok_and(|queue_pair| queue_pair.builder.is_some());
        if has_builder {
            qp.cast()
        } else {
            std::ptr::null_mut()
        }
    })
}

/// `ibv_modify_qp`.
///
/// # Safety
/// `qp` is a live queue pair and `attr` readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_qp(
    qp: *mut sys::ibv_qp,
    attr: *mut sys::ibv_qp_attr,
    attr_mask: c_int,
) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let queue_pair = unsafe { of(qp) }?;
        // SAFETY: the caller's promise.
        let c_attr = unsafe { input(attr) }?;
        let (attr, mask) = convert::qp_attr(c_attr, attr_mask)?;
        let mask = convert::without_missing_half(queue_pair.hca.qp_type, mask);
        if attr_mask as u32 & sys::IBV_QP_DEST_QPN != 0 {
            sanitizer::connected(queue_pair.hca.qpn, c_attr.dest_qp_num);
        }
        queue_pair
            .hca
            .modify(&attr, mask)
            .map_err(|error| error.errno())?;
        if attr_mask as u32 & sys::IBV_QP_STATE != 0 {
            // SAFETY: the state is ours to write; programs read it.
            unsafe { (*queue_pair.c()).qp_base.state = c_attr.qp_state };
        }
        Ok(0)
    })
}

/// `ibv_modify_qp_rate_limit`: bursts and typical sizes are not offered.
///
/// # Safety
/// `qp` is a live queue pair and `attr` readable.
pub unsafe extern "C" fn modify_qp_rate_limit(
    qp: *mut sys::ibv_qp,
    attr: *mut sys::ibv_qp_rate_limit_attr,
) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let queue_pair = unsafe { of(qp) }?;
        // SAFETY: the caller's promise.
        let attr = unsafe { input(attr) }?;
        if attr.comp_mask != 0 {
            return Err(libc::EINVAL);
        }
        if attr.max_burst_sz != 0 || attr.typical_pkt_sz != 0 {
            return Err(libc::EOPNOTSUPP);
        }
        queue_pair
            .hca
            .limit_rate(attr.rate_limit)
            .map_err(|error| error.errno())?;
        Ok(0)
    })
}

/// `ibv_query_qp`: every attribute is filled, whatever the mask names.
///
/// # Safety
/// `qp` is a live queue pair; `attr` and `init_attr` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp(
    qp: *mut sys::ibv_qp,
    attr: *mut sys::ibv_qp_attr,
    attr_mask: c_int,
    init_attr: *mut sys::ibv_qp_init_attr,
) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let queue_pair = unsafe { of(qp) }?;
        let current = queue_pair.hca.query();
        let c_attr = convert::qp_attr_to_c(&current);
        // SAFETY: the C part of a live queue pair.
        let base = unsafe { &(*queue_pair.c()).qp_base };
        let init = sys::ibv_qp_init_attr {
            qp_context: base.qp_context,
            send_cq: base.send_cq,
            recv_cq: base.recv_cq,
            srq: base.srq,
            cap: c_attr.cap,
            qp_type: base.qp_type,
            sq_sig_all: queue_pair.sq_sig_all.into(),
        };
        if attr_mask as u32 & sys::IBV_QP_STATE != 0 {
            // SAFETY: the state is ours to write; programs read it.
            unsafe { (*queue_pair.c()).qp_base.state = c_attr.qp_state };
        }
        // SAFETY: the caller's promise.
        unsafe { output(attr, c_attr) }?;
        // SAFETY: the caller's promise.
        unsafe { output(init_attr, init) }?;
        Ok(0)
    })
}

/// Flag of [`ibv_query_qp_data_in_order`], alone, and this adapter's own: is the last byte of a message visible only after all others?
/// Every version of rdma-core answers 0 to a flag that it does not know.
const LAST_BYTE_LAST: u32 = 1 << 31;

/// `ibv_query_qp_data_in_order`: 0 for all that rdma-core defines, with whatever flags. A queue pair cannot vouch for the order of
/// whole messages, nor of aligned blocks of 128 bytes, because it depends on the memory that a request names:
///
/// * what this library copies itself (mapped and device memory, messages within a process, datagrams, what the target executes)
///   ascends, but in vectors of up to 32 bytes, and no manual orders the parts of a vector that crosses a cache line;
/// * `process_vm_writev` and `readv` (private memory, and shared memory until the peer has mapped it) copy by `rep movsb`, whose
///   order is the processor's: of 828,200 messages of 4 KiB, 65 were seen out of order, 17 of them within a block of 128 bytes.
///
/// What does hold for every RDMA WRITE, whatever the memory, is that the last byte comes last: `LAST_BYTE_LAST` asks for that and
/// gets 1 on a queue pair that receives WRITEs. It is x86-64's order of stores; elsewhere the kernel puts no barrier before
/// the last piece. READs and long SENDs may be one `process_vm_readv`, so they have not even that.
///
/// # Safety
/// `qp` is a live queue pair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp_data_in_order(
    qp: *mut sys::ibv_qp,
    op: sys::ibv_wr_opcode,
    flags: u32,
) -> c_int {
    entry(|| {
        let writes = matches!(op, sys::IBV_WR_RDMA_WRITE | sys::IBV_WR_RDMA_WRITE_WITH_IMM);
        if flags != LAST_BYTE_LAST || !writes || cfg!(not(target_arch = "x86_64")) {
            return 0;
        }
        // SAFETY: the caller's promise.
        unsafe { of(qp) }.map_or(0, |queue_pair| {
            let receives = matches!(
                queue_pair.hca.qp_type,
                QpType::Rc | QpType::Uc | QpType::XrcRecv
            );
            c_int::from(receives)
        })
    })
}

/// `ibv_destroy_qp`: EBUSY while it is attached to a multicast group; waits for outstanding acknowledgements.
///
/// # Safety
/// `qp` is a live queue pair that no other thread uses but to acknowledge events.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_qp(qp: *mut sys::ibv_qp) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let queue_pair = unsafe { of(qp) }?;
        queue_pair.hca.destroy().map_err(|error| error.errno())?;
        live::leave(queue_pair.number);
        queue_pair.acks.wait();
        // SAFETY: the program gives the queue pair up, no event names it any more, and every delivered one was acknowledged.
        unsafe { Qp::free(qp.cast()) };
        Ok(0)
    })
}
