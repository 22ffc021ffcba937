//! The function tables of a context.
//!
//! Inlined callers treat a NULL in `verbs_context` as "not supported" and answer EOPNOTSUPP themselves, so what is not
//! offered stays NULL there: flow steering, receive work queues of raw Ethernet, counters, tag
//! matching, null regions. The slots that old programs called directly (`_compat_*`) are NULL but for the two
//! queries, which are exported functions of the same signature.

use crate::{cq, cq_ex, dm, mr, mw, pd, post, qp, query, srq, watched, xrcd};
use ferriband_verbs_sys as sys;

/// A context's C structure with every operation that this adapter offers.
pub fn verbs_context() -> sys::verbs_context {
    let mut c = sys::verbs_context {
        query_port: Some(query::query_port),
        advise_mr: Some(mr::advise_mr),
        reg_dm_mr: Some(mr::reg_dm_mr),
        alloc_dm: Some(dm::alloc_dm),
        free_dm: Some(dm::free_dm),
        alloc_parent_domain: Some(pd::alloc_parent_domain),
        alloc_td: Some(pd::alloc_td),
        dealloc_td: Some(pd::dealloc_td),
        modify_cq: Some(cq::modify_cq),
        create_cq_ex: Some(cq_ex::create_cq_ex),
        query_rt_values: Some(query::query_rt_values),
        query_device_ex: Some(query::query_device_ex),
        create_qp_ex: Some(qp::create_qp_ex),
        modify_qp_rate_limit: Some(qp::modify_qp_rate_limit),
        get_srq_num: Some(srq::get_srq_num),
        create_srq_ex: Some(srq::create_srq_ex),
        open_qp: Some(qp::open_qp),
        open_xrcd: Some(xrcd::open_xrcd),
        close_xrcd: Some(xrcd::close_xrcd),
        sz: size_of::<sys::verbs_context>(),
        ..Default::default()
    };
    c.context.ops = sys::ibv_context_ops {
        _compat_query_device: Some(query::ibv_query_device),
        _compat_query_port: Some(query::ibv_query_port),
        alloc_mw: Some(mw::alloc_mw),
        bind_mw: Some(mw::bind_mw),
        dealloc_mw: Some(mw::dealloc_mw),
        poll_cq: Some(cq::poll_cq),
        req_notify_cq: Some(cq::req_notify_cq),
        post_srq_recv: Some(post::post_srq_recv),
        post_send: Some(post::post_send),
        post_recv: Some(post::post_recv),
        ..Default::default()
    };
    if ferriband_sanitizer::is_there() {
        let ops = &mut c.context.ops;
        ops.poll_cq = Some(watched::poll_cq);
        ops.post_srq_recv = Some(watched::post_srq_recv);
        ops.post_send = Some(watched::post_send);
        ops.post_recv = Some(watched::post_recv);
    }
    // The mark by which inlined callers know that a verbs_context lies in front.
    c.context.abi_compat = usize::MAX as *mut std::ffi::c_void;
    c
}
