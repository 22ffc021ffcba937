//! Queue pairs, shared receive queues and completion queues of identifiers.
//!
//! What the program does not bring is made and belongs to the identifier: completion queues with their channels go with the
//! queue pair or the shared receive queue that they were made for.

use crate::boundary::{Errno, check, object, status};
use crate::events::supported;
use crate::id::{Id, get, set};
use crate::multicast;
use crate::resolve;
use crate::sys::{self, rdma_cm_id};
use crate::verbs;
use ferriband_cm_abi::fb_ece;
use ferriband_verbs_sys::*;
use std::ffi::c_int;

/// As many READs and atomics taken as the device can.
pub const AUTOMATIC_RESOURCES: u8 = sys::RDMA_MAX_RESP_RES as u8;
/// As many READs and atomics outstanding as the device can.
pub const AUTOMATIC_DEPTH: u8 = sys::RDMA_MAX_INIT_DEPTH as u8;

/// Moves the queue pair to RTR, through INIT for the final attributes; nothing without one.
pub fn to_rtr(id: &Id, responder_resources: u8) -> Result<(), Errno> {
    let pair = get!(id.qp);
    if pair.is_null() {
        return Ok(());
    }
    let (mut attr, mask) = resolve::attributes(id, IBV_QPS_INIT)?;
    // SAFETY: the identifier's queue pair.
    unsafe { verbs::modify_qp(pair, &mut attr, mask) }?;
    let (mut attr, mask) = resolve::attributes(id, IBV_QPS_RTR)?;
    if responder_resources != AUTOMATIC_RESOURCES {
        attr.max_dest_rd_atomic = responder_resources;
    }
    // SAFETY: as above.
    unsafe { verbs::modify_qp(pair, &mut attr, mask) }
}

/// Moves the queue pair to RTS; nothing without one.
pub fn to_rts(id: &Id, initiator_depth: u8) -> Result<(), Errno> {
    let pair = get!(id.qp);
    if pair.is_null() {
        return Ok(());
    }
    let (mut attr, mask) = resolve::attributes(id, IBV_QPS_RTS)?;
    if initiator_depth != AUTOMATIC_DEPTH {
        attr.max_rd_atomic = initiator_depth;
    }
    // SAFETY: the identifier's queue pair.
    unsafe { verbs::modify_qp(pair, &mut attr, mask) }
}

/// Moves the queue pair to the error state; nothing without one.
pub fn to_error(id: &Id) -> Result<(), Errno> {
    let pair = get!(id.qp);
    if pair.is_null() {
        return Ok(());
    }
    let mut attr = ibv_qp_attr {
        qp_state: IBV_QPS_ERR,
        ..Default::default()
    };
    // SAFETY: the identifier's queue pair.
    unsafe { verbs::modify_qp(pair, &mut attr, IBV_QP_STATE as c_int) }
}

/// A new queue pair's first state: INIT, or for datagrams RTS.
fn prepare(id: &Id, pair: *mut ibv_qp) -> Result<(), Errno> {
    let (mut attr, mask) = resolve::attributes(id, IBV_QPS_INIT)?;
    // SAFETY: the queue pair was just made.
    unsafe { verbs::modify_qp(pair, &mut attr, mask) }?;
    if !id.is_datagram() {
        return Ok(());
    }
    for (state, mask) in [
        (IBV_QPS_RTR, IBV_QP_STATE),
        (IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN),
    ] {
        let mut attr = ibv_qp_attr {
            qp_state: state,
            ..Default::default()
        };
        // SAFETY: as above.
        unsafe { verbs::modify_qp(pair, &mut attr, mask as c_int) }?;
    }
    Ok(())
}

/// A completion queue with its channel, told of `id`.
pub fn create_cq(id: &Id, size: u32) -> Result<(*mut ibv_comp_channel, *mut ibv_cq), Errno> {
    let context = get!(id.verbs);
    let size = c_int::try_from(size).map_err(|_| libc::EINVAL)?;
    // SAFETY: the identifier's device is open.
    let channel = object(unsafe { verbs::ibv_create_comp_channel(context) })?;
    // SAFETY: as above.
    let cq = unsafe { verbs::ibv_create_cq(context, size, id.c().cast(), channel, 0) };
    match object(cq) {
        Ok(cq) => Ok((channel, cq)),
        Err(error) => {
            // SAFETY: nobody else knows it.
            unsafe { verbs::ibv_destroy_comp_channel(channel) };
            Err(error)
        }
    }
}

/// Makes the completion queues of these sizes; 0 makes none.
fn create_cqs(id: &Id, send: u32, receive: u32) -> Result<(), Errno> {
    let make = || {
        if receive != 0 {
            let (channel, cq) = create_cq(id, receive)?;
            set!(id.recv_cq_channel = channel);
            set!(id.recv_cq = cq);
        }
        if send != 0 {
            let (channel, cq) = create_cq(id, send)?;
            set!(id.send_cq_channel = channel);
            set!(id.send_cq = cq);
        }
        Ok(())
    };
    make().inspect_err(|_| destroy_cqs(id))
}

/// Destroys the completion queues that belong to the identifier. An XRC target's stay as long as its shared receive queue.
fn destroy_cqs(id: &Id) {
    if get!(id.qp_type) == IBV_QPT_XRC_RECV && !get!(id.srq).is_null() {
        return;
    }
    let (receive, send) = (get!(id.recv_cq), get!(id.send_cq));
    set!(id.recv_cq = std::ptr::null_mut());
    set!(id.send_cq = std::ptr::null_mut());
    let (receive_channel, send_channel) = (get!(id.recv_cq_channel), get!(id.send_cq_channel));
    set!(id.recv_cq_channel = std::ptr::null_mut());
    set!(id.send_cq_channel = std::ptr::null_mut());
    // A program may have put one queue in both places; each is destroyed once.
    for (index, cq) in [receive, send].into_iter().enumerate() {
        if !cq.is_null() && (index == 0 || cq != receive) {
            // SAFETY: the identifier's queue, whose users are gone.
            unsafe { verbs::ibv_destroy_cq(cq) };
        }
    }
    for (index, channel) in [receive_channel, send_channel].into_iter().enumerate() {
        if !channel.is_null() && (index == 0 || channel != receive_channel) {
            // SAFETY: the identifier's channel, whose queues are gone.
            unsafe { verbs::ibv_destroy_comp_channel(channel) };
        }
    }
}

/// The XRC domain of the identifier's device.
fn default_xrcd(id: &Id) -> Result<*mut ibv_xrcd, Errno> {
    id.lock().device.as_ref().ok_or(libc::EINVAL)?.xrcd()
}

/// Makes the identifier's queue pair.
pub fn create(id: &Id, attr: &mut ibv_qp_init_attr_ex) -> Result<(), Errno> {
    let context = get!(id.verbs);
    if !get!(id.qp).is_null() || context.is_null() {
        return Err(libc::EINVAL);
    }
    if attr.comp_mask & IBV_QP_INIT_ATTR_PD == 0 || attr.pd.is_null() {
        attr.comp_mask |= IBV_QP_INIT_ATTR_PD;
        attr.pd = get!(id.pd);
    // SAFETY: the program's protection domain.
    } else if context != unsafe { (*attr.pd).context } {
        return Err(libc::EINVAL);
    }
    let (send_cq, recv_cq) = (get!(id.send_cq), get!(id.recv_cq));
    let differs =
        |own: *mut ibv_cq, given: *mut ibv_cq| !own.is_null() && !given.is_null() && own != given;
    if differs(recv_cq, attr.recv_cq) || differs(send_cq, attr.send_cq) {
        return Err(libc::EINVAL);
    }
    let lacks_domain = attr.comp_mask & IBV_QP_INIT_ATTR_XRCD == 0 || attr.xrcd.is_null();
    if get!(id.qp_type) == IBV_QPT_XRC_RECV && lacks_domain {
        attr.xrcd = default_xrcd(id)?;
        attr.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
    }
    let srq = match attr.srq.is_null() {
        true => get!(id.srq),
        false => attr.srq,
    };
    let receives = match srq.is_null() {
        true => attr.cap.max_recv_wr,
        false => shared_receives(srq, attr.cap.max_recv_wr)?,
    };
    let size = |own: *mut ibv_cq, given: *mut ibv_cq, size| {
        if own.is_null() && given.is_null() {
            size
        } else {
            0
        }
    };
    create_cqs(
        id,
        size(send_cq, attr.send_cq, attr.cap.max_send_wr),
        size(recv_cq, attr.recv_cq, receives),
    )?;
    if attr.send_cq.is_null() {
        attr.send_cq = get!(id.send_cq);
    }
    if attr.recv_cq.is_null() {
        attr.recv_cq = get!(id.recv_cq);
    }
    attr.srq = srq;
    let pair = create_prepared(id, attr).inspect_err(|_| destroy_cqs(id))?;
    // SAFETY: the queue pair was just made.
    set!(id.pd = unsafe { (*pair).pd });
    set!(id.qp = pair);
    Ok(())
}

/// Completions of receives for which there is to be room with a shared receive queue: as many as that holds, for what the queue pair
/// asks for itself means nothing, but no fewer than that either.
fn shared_receives(srq: *mut ibv_srq, asked: u32) -> Result<u32, Errno> {
    const MOST: u32 = 1 << 15;
    let mut attr = ibv_srq_attr::default();
    // SAFETY: the identifier's or the program's queue; the result's place lives during the call.
    check(unsafe { verbs::ibv_query_srq(srq, &raw mut attr) })?;
    Ok(attr.max_wr.max(asked.min(MOST)).max(1))
}

/// Makes a queue pair and moves it to its first state.
fn create_prepared(id: &Id, attr: &mut ibv_qp_init_attr_ex) -> Result<*mut ibv_qp, Errno> {
    // SAFETY: the device is open; the attributes are the program's.
    let pair = unsafe { verbs::create_qp_ex(get!(id.verbs), attr) }?;
    let ready = exchange_options(id, pair)
        .and_then(|()| prepare(id, pair))
        .and_then(|()| keep_options(id, pair));
    match ready {
        Ok(()) => Ok(pair),
        Err(error) => {
            // SAFETY: nobody else knows it.
            unsafe { verbs::ibv_destroy_qp(pair) };
            Err(error)
        }
    }
}

/// Tells a new queue pair what the vendor's side asked for, if this one is made for a request of the same vendor.
fn exchange_options(id: &Id, pair: *mut ibv_qp) -> Result<(), Errno> {
    let mut ece = ibv_ece::default();
    // SAFETY: the queue pair was just made.
    supported(unsafe { verbs::ibv_query_ece(pair, &raw mut ece) })?;
    let mut state = id.lock();
    state.local_ece = fb_ece {
        vendor_id: ece.vendor_id,
        options: ece.options,
    };
    let remote = state.remote_ece;
    drop(state);
    if remote.vendor_id == 0 {
        return Ok(());
    }
    // Options of another vendor mean nothing here.
    ece.options = if remote.vendor_id == ece.vendor_id {
        remote.options
    } else {
        0
    };
    // SAFETY: as above.
    supported(unsafe { verbs::ibv_set_ece(pair, &raw mut ece) })
}

/// Keeps what the queue pair made of the other side's options, for the answer to it.
fn keep_options(id: &Id, pair: *mut ibv_qp) -> Result<(), Errno> {
    if id.lock().remote_ece.vendor_id == 0 {
        return Ok(());
    }
    let mut ece = ibv_ece::default();
    // SAFETY: the queue pair was just made.
    supported(unsafe { verbs::ibv_query_ece(pair, &raw mut ece) })?;
    id.lock().local_ece.options = ece.options;
    Ok(())
}

/// Makes a queue pair from plain attributes, which receive what was chosen.
///
/// # Safety
/// The attributes' pointers are what their types say.
pub unsafe fn create_plain(
    id: &Id,
    pd: *mut ibv_pd,
    attr: &mut ibv_qp_init_attr,
) -> Result<(), Errno> {
    let mut extended = ibv_qp_init_attr_ex {
        qp_context: attr.qp_context,
        send_cq: attr.send_cq,
        recv_cq: attr.recv_cq,
        srq: attr.srq,
        cap: attr.cap,
        qp_type: attr.qp_type,
        sq_sig_all: attr.sq_sig_all,
        comp_mask: IBV_QP_INIT_ATTR_PD,
        pd: if pd.is_null() { get!(id.pd) } else { pd },
        ..Default::default()
    };
    let made = create(id, &mut extended);
    attr.send_cq = extended.send_cq;
    attr.recv_cq = extended.recv_cq;
    attr.srq = extended.srq;
    attr.cap = extended.cap;
    made
}

/// Destroys the identifier's queue pair with the completion queues that were made for it.
pub fn destroy(id: &Id) {
    let pair = get!(id.qp);
    if !pair.is_null() {
        multicast::detach_all(id);
        // SAFETY: the identifier's queue pair.
        unsafe { verbs::ibv_destroy_qp(pair) };
        set!(id.qp = std::ptr::null_mut());
    }
    destroy_cqs(id);
}

/// Makes the identifier's shared receive queue.
fn create_srq(id: &Id, attr: &mut ibv_srq_init_attr_ex) -> Result<(), Errno> {
    let context = get!(id.verbs);
    // One at a time, and of the identifier's device (rdma_create_srq(3)).
    if attr.comp_mask & IBV_SRQ_INIT_ATTR_TYPE == 0 || context.is_null() || !get!(id.srq).is_null()
    {
        return Err(libc::EINVAL);
    }
    if attr.comp_mask & IBV_SRQ_INIT_ATTR_PD == 0 || attr.pd.is_null() {
        attr.pd = get!(id.pd);
        attr.comp_mask |= IBV_SRQ_INIT_ATTR_PD;
    // SAFETY: the program's protection domain.
    } else if context != unsafe { (*attr.pd).context } {
        return Err(libc::EINVAL);
    }
    if attr.srq_type == IBV_SRQT_XRC {
        if attr.comp_mask & IBV_SRQ_INIT_ATTR_XRCD == 0 || attr.xrcd.is_null() {
            attr.xrcd = default_xrcd(id)?;
        }
        if attr.comp_mask & IBV_SRQ_INIT_ATTR_CQ == 0 || attr.cq.is_null() {
            create_cqs(id, 0, attr.attr.max_wr)?;
            attr.cq = get!(id.recv_cq);
        }
        attr.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    }
    // SAFETY: the device is open; the attributes are the program's.
    let made = unsafe { verbs::create_srq_ex(context, attr) };
    let srq = made.inspect_err(|_| destroy_cqs(id))?;
    if get!(id.pd).is_null() {
        set!(id.pd = attr.pd);
    }
    set!(id.srq = srq);
    Ok(())
}

/// Destroys the identifier's shared receive queue with the completion queues that were made for it.
pub fn destroy_srq(id: &Id) {
    let srq = get!(id.srq);
    if !srq.is_null() {
        // SAFETY: the identifier's queue.
        unsafe { verbs::ibv_destroy_srq(srq) };
        set!(id.srq = std::ptr::null_mut());
    }
    destroy_cqs(id);
}

/// `rdma_create_qp`: EINVAL without a device, or if there is a queue pair.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_create_qp(
    id: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    qp_init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let attr = unsafe { qp_init_attr.as_mut() }.ok_or(libc::EINVAL)?;
        // SAFETY: the caller's promise.
        unsafe { create_plain(Id::of(id)?, pd, attr) }
    })
}

/// `rdma_create_qp_ex`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_create_qp_ex(
    id: *mut rdma_cm_id,
    qp_init_attr: *mut ibv_qp_init_attr_ex,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let attr = unsafe { qp_init_attr.as_mut() }.ok_or(libc::EINVAL)?;
        // SAFETY: the caller's promise.
        create(unsafe { Id::of(id) }?, attr)
    })
}

/// `rdma_destroy_qp`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_destroy_qp(id: *mut rdma_cm_id) {
    status(|| {
        // SAFETY: the caller's promise.
        destroy(unsafe { Id::of(id) }?);
        Ok(())
    });
}

/// `rdma_create_srq`: an XRC one for an identifier of that service.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_create_srq(
    id: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    attr: *mut ibv_srq_init_attr,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let (id, attr) = unsafe { (Id::of(id)?, attr.as_mut().ok_or(libc::EINVAL)?) };
        let mut extended = ibv_srq_init_attr_ex {
            srq_context: attr.srq_context,
            attr: attr.attr,
            comp_mask: IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
            srq_type: match get!(id.qp_type) {
                IBV_QPT_XRC_RECV => IBV_SRQT_XRC,
                _ => IBV_SRQT_BASIC,
            },
            pd,
            ..Default::default()
        };
        let made = create_srq(id, &mut extended);
        attr.attr = extended.attr;
        made
    })
}

/// `rdma_create_srq_ex`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_create_srq_ex(
    id: *mut rdma_cm_id,
    attr: *mut ibv_srq_init_attr_ex,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let attr = unsafe { attr.as_mut() }.ok_or(libc::EINVAL)?;
        // SAFETY: the caller's promise.
        create_srq(unsafe { Id::of(id) }?, attr)
    })
}

/// `rdma_destroy_srq`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_destroy_srq(id: *mut rdma_cm_id) {
    status(|| {
        // SAFETY: the caller's promise.
        destroy_srq(unsafe { Id::of(id) }?);
        Ok(())
    });
}
