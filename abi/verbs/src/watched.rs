//! Posting and polling by a program that ThreadSanitizer watches: what the tool is told, around the
//! call that all others make.
//!
//! A context takes these calls in place of the plain ones if the tool was there when the library
//! was loaded, so that a program without it pays nothing for it. The extended interfaces tell the
//! tool themselves.

use crate::{cq, post, qp, srq};
use ferriband_sanitizer::{self as sanitizer, Inside, Side};
use ferriband_transport::types::{Completion, SendOpcode, WcOpcode, WcStatus};
use ferriband_verbs_sys as sys;
use std::ffi::c_int;

/// `post_send` of the context.
///
/// # Safety
/// As for [`post::post_send`].
pub unsafe extern "C" fn post_send(
    qp: *mut sys::ibv_qp,
    wr: *mut sys::ibv_send_wr,
    bad_wr: *mut *mut sys::ibv_send_wr,
) -> c_int {
    let _inside = Inside::enter();
    // SAFETY: the caller's promise.
    if let Ok(queue_pair) = unsafe { qp::of(qp) } {
        sanitizer::sends(queue_pair.hca.qpn);
        if queue_pair.is_ud {
            // SAFETY: the caller's promise.
            unsafe { sends_to(wr) };
        }
    }
    // SAFETY: the caller's promise.
    unsafe { post::post_send(qp, wr, bad_wr) }
}

/// A thread is about to post datagrams.
///
/// # Safety
/// Each link is NULL or the next valid request.
unsafe fn sends_to(wr: *const sys::ibv_send_wr) {
    let mut next = wr;
    // SAFETY: the caller's promise.
    while let Some(request) = unsafe { next.as_ref() } {
        let opcode = SendOpcode::from_verbs(request.opcode);
        if let Some(SendOpcode::Send | SendOpcode::SendImm) = opcode {
            // SAFETY: the service and operation select this member.
            let remote = unsafe { request.wr.ud.remote_qpn };
            sanitizer::release(Side::Receive, remote);
        }
        next = request.next;
    }
}

/// `post_recv` of the context.
///
/// # Safety
/// As for [`post::post_recv`].
pub unsafe extern "C" fn post_recv(
    qp: *mut sys::ibv_qp,
    wr: *mut sys::ibv_recv_wr,
    bad_wr: *mut *mut sys::ibv_recv_wr,
) -> c_int {
    let _inside = Inside::enter();
    // SAFETY: the caller's promise.
    if let Ok(queue_pair) = unsafe { qp::of(qp) } {
        sanitizer::release(Side::Receive, queue_pair.hca.qpn);
    }
    // SAFETY: the caller's promise.
    unsafe { post::post_recv(qp, wr, bad_wr) }
}

/// `post_srq_recv` of the context.
///
/// # Safety
/// As for [`post::post_srq_recv`].
pub unsafe extern "C" fn post_srq_recv(
    srq: *mut sys::ibv_srq,
    wr: *mut sys::ibv_recv_wr,
    bad_wr: *mut *mut sys::ibv_recv_wr,
) -> c_int {
    let _inside = Inside::enter();
    // SAFETY: the caller's promise.
    if let Ok(queue) = unsafe { srq::of(srq) } {
        sanitizer::release(Side::Shared, queue.sanitizer_number());
    }
    // SAFETY: the caller's promise.
    unsafe { post::post_srq_recv(srq, wr, bad_wr) }
}

/// `poll_cq` of the context.
///
/// # Safety
/// As for [`cq::poll_cq`].
pub unsafe extern "C" fn poll_cq(
    cq: *mut sys::ibv_cq,
    num_entries: c_int,
    wc: *mut sys::ibv_wc,
) -> c_int {
    let _inside = Inside::enter();
    // SAFETY: the caller's promise.
    let polled = unsafe { cq::poll_cq(cq, num_entries, wc) };
    for index in 0..usize::try_from(polled).unwrap_or(0) {
        // SAFETY: as many were written.
        let wc = unsafe { &*wc.add(index) };
        let is_receive = wc.opcode & sys::IBV_WC_RECV != 0;
        completes(wc.qp_num, is_receive, wc.status == sys::IBV_WC_SUCCESS);
    }
    polled
}

/// A program is given a completion: what was done before its request was posted is done for the
/// thread that takes it.
#[inline(always)]
pub fn hands_over(completion: &Completion) {
    let is_receive = matches!(
        completion.opcode,
        WcOpcode::Recv | WcOpcode::RecvRdmaWithImm
    );
    let is_success = completion.status == WcStatus::Success;
    completes(completion.qp_num, is_receive, is_success);
}

#[inline(always)]
fn completes(qpn: u32, is_receive: bool, is_success: bool) {
    sanitizer::completes(qpn, is_receive);
    if !is_success {
        // the opcode of a failure says nothing
        sanitizer::completes(qpn, !is_receive);
    }
}
