//! Posting: chains of work requests in C's form, one by one to the adapter.
//!
//! This is the hot path: no allocation, no lock of ours. A request is read once; its scatter/gather
//! list has the adapter's own layout and is passed through where it lies. Programs that
//! ThreadSanitizer watches come by [`crate::watched`].

use crate::ah::Ah;
use crate::boundary::{set_errno, unwatched_entry};
use crate::mw::Mw;
use crate::qp::{self, Qp};
use crate::srq::{self, Srq};
use ferriband_hca as hca;
use ferriband_transport::types::{SendFlags, SendOpcode, Sge};
use ferriband_verbs_sys as sys;
use std::ffi::c_int;

/// The scatter/gather list of a request.
///
/// # Safety
/// `list` points to `count` elements, or `count` is 0.
#[inline(always)]
unsafe fn sges<'a>(list: *const sys::ibv_sge, count: c_int) -> Result<&'a [Sge], i32> {
    const { assert!(size_of::<Sge>() == size_of::<sys::ibv_sge>()) };
    match usize::try_from(count) {
        Ok(0) => Ok(&[]),
        Ok(_) if list.is_null() => Err(libc::EINVAL),
        // SAFETY: the caller's promise; the layouts are the same.
        Ok(count) => Ok(unsafe { std::slice::from_raw_parts(list.cast(), count) }),
        Err(_) => Err(libc::EINVAL),
    }
}

/// A request without flags, addresses or data, to be refined by struct update.
#[inline(always)]
pub const fn blank<'a>(wr_id: u64, opcode: SendOpcode) -> hca::SendRequest<'a> {
    hca::SendRequest {
        wr_id,
        opcode,
        flags: SendFlags::empty(),
        sges: &[],
        imm_or_key: 0,
        remote_addr: 0,
        rkey: 0,
        compare_add: 0,
        swap: 0,
        ah: None,
        remote_qpn: 0,
        remote_qkey: 0,
        srqn: 0,
        bind: None,
    }
}

/// `post_send` of the context: posts the chain up to the first request that is refused, which `bad_wr` names.
///
/// # Safety
/// `qp` is a live queue pair, `wr` a chain of valid requests, `bad_wr` writable.
pub unsafe extern "C" fn post_send(
    qp: *mut sys::ibv_qp,
    wr: *mut sys::ibv_send_wr,
    bad_wr: *mut *mut sys::ibv_send_wr,
) -> c_int {
    unwatched_entry(|| {
        let mut current = wr;
        // SAFETY: the caller's promise.
        let result = unsafe { qp::of(qp) }.and_then(|queue_pair| {
            // A batch that another thread is building counts on the room that it found.
            let _alone = queue_pair.builder.as_ref().map(|builder| builder.acquire());
            // SAFETY: the caller's promise: each link is NULL or the next request.
            unsafe { post_chain(queue_pair, &mut current) }
        });
        refused(result, current, bad_wr)
    })
}

/// Posts a chain of sends; `current` is left at the first that is refused.
///
/// # Safety
/// Each link is NULL or the next valid request.
#[inline(always)]
unsafe fn post_chain(queue_pair: &Qp, current: &mut *mut sys::ibv_send_wr) -> Result<(), i32> {
    // SAFETY: the caller's promise.
    while let Some(request) = unsafe { current.as_ref() } {
        // SAFETY: the caller's promise.
        unsafe { post_one(queue_pair, request) }?;
        *current = request.next;
    }
    Ok(())
}

/// The result of a chain, and the first request that was not posted.
#[inline(always)]
fn refused<T>(result: Result<(), i32>, at: *mut T, bad: *mut *mut T) -> c_int {
    match result {
        Ok(()) => 0,
        Err(errno) => refuse(errno, at, bad),
    }
}

#[cold]
fn refuse<T>(errno: i32, at: *mut T, bad: *mut *mut T) -> c_int {
    if !bad.is_null() {
        // SAFETY: posting calls are given a writable place for the refused request.
        unsafe { bad.write(at) };
    }
    set_errno(errno);
    errno
}

/// Posts one send request.
///
/// # Safety
/// The request's pointers are valid for its operation.
#[inline(always)]
unsafe fn post_one(queue_pair: &Qp, wr: &sys::ibv_send_wr) -> Result<(), i32> {
    let opcode = SendOpcode::from_verbs(wr.opcode).ok_or(libc::EINVAL)?;
    // SAFETY: the caller's promise.
    let sges = unsafe { sges(wr.sg_list, wr.num_sge) }?;
    let mut request = hca::SendRequest {
        flags: SendFlags::from_bits_truncate(wr.send_flags),
        sges,
        // SAFETY: both members of the union are a u32.
        imm_or_key: unsafe { wr.__bindgen_anon_1.imm_data },
        ..blank(wr.wr_id, opcode)
    };
    match opcode {
        SendOpcode::RdmaWrite | SendOpcode::RdmaWriteImm | SendOpcode::RdmaRead => {
            // SAFETY: the operation selects this member; every byte pattern of it is valid.
            let rdma = unsafe { wr.wr.rdma };
            (request.remote_addr, request.rkey) = (rdma.remote_addr, rdma.rkey);
        }
        SendOpcode::CmpSwap | SendOpcode::FetchAdd => {
            // SAFETY: as above.
            let atomic = unsafe { wr.wr.atomic };
            (request.remote_addr, request.rkey) = (atomic.remote_addr, atomic.rkey);
            (request.compare_add, request.swap) = (atomic.compare_add, atomic.swap);
        }
        SendOpcode::Send | SendOpcode::SendImm if queue_pair.is_ud => {
            // SAFETY: the service and operation select this member; its handle is checked for NULL only.
            let ud = unsafe { wr.wr.ud };
            // SAFETY: the caller's promise: a live handle.
            request.ah = Some(&unsafe { Ah::of(ud.ah) }?.hca);
            (request.remote_qpn, request.remote_qkey) = (ud.remote_qpn, ud.remote_qkey);
        }
        SendOpcode::BindMw => {
            // SAFETY: the operation selects this member.
            let bind = unsafe { wr.__bindgen_anon_2.bind_mw };
            // SAFETY: the caller's promise: live objects.
            request.bind = Some(unsafe { Mw::bind_request(bind.mw, bind.rkey, &bind.bind_info) }?);
        }
        _ => {}
    }
    if queue_pair.is_xrc {
        // SAFETY: the union has one member, a u32.
        request.srqn = unsafe { wr.qp_type.xrc.remote_srqn };
    }
    queue_pair
        .hca
        .post_send(&request)
        .map_err(|error| error.errno())
}

/// `post_recv` of the context.
///
/// # Safety
/// `qp` is a live queue pair, `wr` a chain of valid requests, `bad_wr` writable.
pub unsafe extern "C" fn post_recv(
    qp: *mut sys::ibv_qp,
    wr: *mut sys::ibv_recv_wr,
    bad_wr: *mut *mut sys::ibv_recv_wr,
) -> c_int {
    unwatched_entry(|| {
        let mut current = wr;
        // SAFETY: the caller's promise.
        let result = unsafe { qp::of(qp) }.and_then(|queue_pair| {
            // SAFETY: the caller's promise.
            unsafe {
                chain(&mut current, |wr_id, sges| {
                    queue_pair.hca.post_recv(wr_id, sges)
                })
            }
        });
        refused(result, current, bad_wr)
    })
}

/// `post_srq_recv` of the context.
///
/// # Safety
/// `srq` is a live shared receive queue, `wr` a chain of valid requests, `bad_wr` writable.
pub unsafe extern "C" fn post_srq_recv(
    srq: *mut sys::ibv_srq,
    wr: *mut sys::ibv_recv_wr,
    bad_wr: *mut *mut sys::ibv_recv_wr,
) -> c_int {
    unwatched_entry(|| {
        let mut current = wr;
        // SAFETY: the caller's promise.
        let result = unsafe { srq::of(srq) }.and_then(|queue: &Srq| {
            // SAFETY: the caller's promise.
            unsafe { chain(&mut current, |wr_id, sges| queue.hca.post_recv(wr_id, sges)) }
        });
        refused(result, current, bad_wr)
    })
}

/// Posts a chain of receives; `current` is left at the first that is refused.
///
/// # Safety
/// Each link is NULL or the next valid request.
#[inline(always)]
unsafe fn chain(
    current: &mut *mut sys::ibv_recv_wr,
    post: impl Fn(u64, &[Sge]) -> Result<(), hca::Error>,
) -> Result<(), i32> {
    // SAFETY: the caller's promise.
    while let Some(request) = unsafe { current.as_ref() } {
        // SAFETY: the caller's promise.
        let sges = unsafe { sges(request.sg_list, request.num_sge) }?;
        post(request.wr_id, sges).map_err(|error| error.errno())?;
        *current = request.next;
    }
    Ok(())
}
