//! What `infiniband/verbs.h` does in inline functions, from its published layout.
//!
//! A program holds the address of an `ibv_context`. Its `ops` are the hot path. If `abi_compat` is all ones, a
//! `verbs_context` lies in front of it, which grows at its front: a function is there if `sz` reaches that far and its pointer is not NULL.

use crate::error::VerbsError;
use ferriband_verbs_sys as sys;
use std::ffi::{c_int, c_uint};
use std::mem::offset_of;

pub type PostSend = unsafe extern "C" fn(
    *mut sys::ibv_qp,
    *mut sys::ibv_send_wr,
    *mut *mut sys::ibv_send_wr,
) -> c_int;
pub type PostRecv = unsafe extern "C" fn(
    *mut sys::ibv_qp,
    *mut sys::ibv_recv_wr,
    *mut *mut sys::ibv_recv_wr,
) -> c_int;
pub type PostSrqRecv = unsafe extern "C" fn(
    *mut sys::ibv_srq,
    *mut sys::ibv_recv_wr,
    *mut *mut sys::ibv_recv_wr,
) -> c_int;
pub type PollCq = unsafe extern "C" fn(*mut sys::ibv_cq, c_int, *mut sys::ibv_wc) -> c_int;
pub type ReqNotifyCq = unsafe extern "C" fn(*mut sys::ibv_cq, c_int) -> c_int;

/// The hot functions of a context, read once.
#[derive(Clone, Copy)]
pub struct Ops {
    pub post_send: PostSend,
    pub post_recv: PostRecv,
    pub post_srq_recv: PostSrqRecv,
    pub poll_cq: PollCq,
    pub req_notify_cq: ReqNotifyCq,
}

impl Ops {
    /// Reads them; what a provider leaves out answers EOPNOTSUPP, so that posting needs no branch.
    ///
    /// # Safety
    /// `context` is open.
    pub unsafe fn of(context: *const sys::ibv_context) -> Ops {
        // SAFETY: the caller's promise; the tables are settled when a device has been opened.
        let ops = unsafe { &raw const (*context).ops };
        // SAFETY: as above.
        let ops = unsafe { ops.read() };
        Ops {
            post_send: ops.post_send.unwrap_or(no_post_send),
            post_recv: ops.post_recv.unwrap_or(no_post_recv),
            post_srq_recv: ops.post_srq_recv.unwrap_or(no_post_srq_recv),
            poll_cq: ops.poll_cq.unwrap_or(no_poll_cq),
            req_notify_cq: ops.req_notify_cq.unwrap_or(no_req_notify_cq),
        }
    }
}

unsafe extern "C" fn no_post_send(
    _: *mut sys::ibv_qp,
    _: *mut sys::ibv_send_wr,
    _: *mut *mut sys::ibv_send_wr,
) -> c_int {
    libc::EOPNOTSUPP
}

unsafe extern "C" fn no_post_recv(
    _: *mut sys::ibv_qp,
    _: *mut sys::ibv_recv_wr,
    _: *mut *mut sys::ibv_recv_wr,
) -> c_int {
    libc::EOPNOTSUPP
}

unsafe extern "C" fn no_post_srq_recv(
    _: *mut sys::ibv_srq,
    _: *mut sys::ibv_recv_wr,
    _: *mut *mut sys::ibv_recv_wr,
) -> c_int {
    libc::EOPNOTSUPP
}

unsafe extern "C" fn no_poll_cq(_: *mut sys::ibv_cq, _: c_int, _: *mut sys::ibv_wc) -> c_int {
    -libc::EOPNOTSUPP
}

unsafe extern "C" fn no_req_notify_cq(_: *mut sys::ibv_cq, _: c_int) -> c_int {
    libc::EOPNOTSUPP
}

/// The extended table in front of a context, if there is one.
///
/// # Safety
/// `context` is open.
unsafe fn extended(context: *mut sys::ibv_context) -> Option<*const sys::verbs_context> {
    // SAFETY: the caller's promise.
    let mark = unsafe { (&raw const (*context).abi_compat).read() };
    (mark.addr() == usize::MAX).then(|| {
        context
            .cast_const()
            .wrapping_byte_sub(offset_of!(sys::verbs_context, context))
            .cast()
    })
}

/// A function of the extended table, `None` if it is not offered.
macro_rules! extended_op {
    ($context:expr, $op:ident) => {
        // SAFETY: the caller's promise that the context is open.
        match unsafe { extended($context) } {
            None => None,
            Some(table) => {
                // SAFETY: with the mark set, `sz` lies right in front of the context.
                let size = unsafe { (&raw const (*table).sz).read() };
                if size < size_of::<sys::verbs_context>() - offset_of!(sys::verbs_context, $op) {
                    None
                } else {
                    // SAFETY: the table reaches this far in front.
                    unsafe { (&raw const (*table).$op).read() }
                }
            }
        }
    };
}

fn missing(call: &'static str) -> VerbsError {
    VerbsError::new(call, libc::EOPNOTSUPP)
}

/// A device's attributes, with what only the extended question tells (zero if the provider does not know it).
///
/// # Safety
/// `context` is open; `plain` is `ibv_query_device` of its library.
pub unsafe fn query_device(
    context: *mut sys::ibv_context,
    plain: unsafe extern "C" fn(*mut sys::ibv_context, *mut sys::ibv_device_attr) -> c_int,
) -> Result<sys::ibv_device_attr_ex, VerbsError> {
    let mut attr = sys::ibv_device_attr_ex::default();
    if let Some(query) = extended_op!(context, query_device_ex) {
        let size = size_of::<sys::ibv_device_attr_ex>();
        // SAFETY: an open context, no input, and room for `size` bytes.
        let returned = unsafe { query(context, std::ptr::null(), &raw mut attr, size) };
        match VerbsError::check("ibv_query_device_ex", returned) {
            // What verbs.h falls back on, too.
            Err(error) if error.kind() == crate::ErrorKind::NotSupported => (),
            result => return result.map(|()| attr),
        }
    }
    // SAFETY: an open context and writable attributes.
    let returned = unsafe { plain(context, &raw mut attr.orig_attr) };
    VerbsError::check("ibv_query_device", returned).map(|()| attr)
}

/// A port's attributes. The exported function fills the shorter structure of old headers, the rest stays zero.
///
/// # Safety
/// `context` is open; `plain` is `ibv_query_port` of its library.
pub unsafe fn query_port(
    context: *mut sys::ibv_context,
    port: u8,
    plain: unsafe extern "C" fn(*mut sys::ibv_context, u8, *mut sys::ibv_port_attr) -> c_int,
) -> Result<sys::ibv_port_attr, VerbsError> {
    let mut attr = sys::ibv_port_attr::default();
    let returned = match extended_op!(context, query_port) {
        Some(query) => {
            let size = size_of::<sys::ibv_port_attr>();
            // SAFETY: an open context and room for `size` bytes.
            unsafe { query(context, port, &raw mut attr, size) }
        }
        // SAFETY: an open context; the structure is longer than what is filled.
        None => unsafe { plain(context, port, &raw mut attr) },
    };
    VerbsError::check("ibv_query_port", returned).map(|()| attr)
}

/// `ibv_create_srq_ex`.
///
/// # Safety
/// `context` is open, what `attr` points to lives.
pub unsafe fn create_srq_ex(
    context: *mut sys::ibv_context,
    attr: &mut sys::ibv_srq_init_attr_ex,
) -> Result<*mut sys::ibv_srq, VerbsError> {
    let create =
        extended_op!(context, create_srq_ex).ok_or_else(|| missing("ibv_create_srq_ex"))?;
    // SAFETY: the caller's promise.
    Ok(unsafe { create(context, attr) })
}

/// `ibv_get_srq_num`.
///
/// # Safety
/// `srq` is an XRC shared receive queue of `context`.
pub unsafe fn srq_number(
    context: *mut sys::ibv_context,
    srq: *mut sys::ibv_srq,
) -> Result<u32, VerbsError> {
    let get = extended_op!(context, get_srq_num).ok_or_else(|| missing("ibv_get_srq_num"))?;
    let mut number = 0;
    // SAFETY: the caller's promise, and the number is writable.
    let returned = unsafe { get(srq, &raw mut number) };
    VerbsError::check("ibv_get_srq_num", returned).map(|()| number)
}

/// `ibv_open_xrcd`.
///
/// # Safety
/// `context` is open.
pub unsafe fn open_xrcd(
    context: *mut sys::ibv_context,
    attr: &mut sys::ibv_xrcd_init_attr,
) -> Result<*mut sys::ibv_xrcd, VerbsError> {
    let open = extended_op!(context, open_xrcd).ok_or_else(|| missing("ibv_open_xrcd"))?;
    // SAFETY: the caller's promise.
    Ok(unsafe { open(context, attr) })
}

/// `ibv_close_xrcd`.
///
/// # Safety
/// `xrcd` was opened from `context` and nobody uses it any more.
pub unsafe fn close_xrcd(context: *mut sys::ibv_context, xrcd: *mut sys::ibv_xrcd) -> c_int {
    match extended_op!(context, close_xrcd) {
        // SAFETY: the caller's promise.
        Some(close) => unsafe { close(xrcd) },
        None => libc::EOPNOTSUPP,
    }
}

/// `ibv_create_qp_ex` of what is more than a protection domain (that case is the exported `ibv_create_qp`).
///
/// # Safety
/// `context` is open, what `attr` points to lives.
pub unsafe fn create_qp_ex(
    context: *mut sys::ibv_context,
    attr: &mut sys::ibv_qp_init_attr_ex,
) -> Result<*mut sys::ibv_qp, VerbsError> {
    let create = extended_op!(context, create_qp_ex).ok_or_else(|| missing("ibv_create_qp_ex"))?;
    // SAFETY: the caller's promise.
    Ok(unsafe { create(context, attr) })
}

/// `ibv_open_qp`: another handle of an XRC target.
///
/// # Safety
/// `context` is open, what `attr` points to lives.
pub unsafe fn open_qp(
    context: *mut sys::ibv_context,
    attr: &mut sys::ibv_qp_open_attr,
) -> Result<*mut sys::ibv_qp, VerbsError> {
    let open = extended_op!(context, open_qp).ok_or_else(|| missing("ibv_open_qp"))?;
    // SAFETY: the caller's promise.
    Ok(unsafe { open(context, attr) })
}

/// `ibv_advise_mr`.
///
/// # Safety
/// `pd` is of `context`; `list` points to `count` elements of registered memory.
pub unsafe fn advise_mr(
    context: *mut sys::ibv_context,
    pd: *mut sys::ibv_pd,
    advice: c_uint,
    list: *mut sys::ibv_sge,
    count: u32,
) -> Result<(), VerbsError> {
    let advise = extended_op!(context, advise_mr).ok_or_else(|| missing("ibv_advise_mr"))?;
    // SAFETY: the caller's promise; without flags it is a hint.
    let returned = unsafe { advise(pd, advice, 0, list, count) };
    VerbsError::check("ibv_advise_mr", returned)
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn number_nine(_: *mut sys::ibv_srq, number: *mut u32) -> c_int {
        // SAFETY: the tests pass a writable number.
        unsafe { number.write(9) };
        0
    }

    fn answer(table: &mut sys::verbs_context) -> Result<u32, VerbsError> {
        let table: *mut sys::verbs_context = table;
        // SAFETY: the table is alive; the address of its last field, derived from the whole.
        let context = unsafe { &raw mut (*table).context };
        // SAFETY: an open context as far as this function can see; the function above ignores its queue.
        unsafe { srq_number(context, std::ptr::null_mut()) }
    }

    #[test]
    fn extended_functions_are_found_by_mark_size_and_pointer() {
        let mut table = sys::verbs_context {
            get_srq_num: Some(number_nine),
            sz: size_of::<sys::verbs_context>(),
            ..Default::default()
        };
        let refused = Err(VerbsError::new("ibv_get_srq_num", libc::EOPNOTSUPP));
        assert_eq!(
            answer(&mut table),
            refused,
            "without the mark there is no table"
        );
        table.context.abi_compat = std::ptr::without_provenance_mut(usize::MAX);
        assert_eq!(answer(&mut table), Ok(9));
        let reach = size_of::<sys::verbs_context>() - offset_of!(sys::verbs_context, get_srq_num);
        table.sz = reach;
        assert_eq!(answer(&mut table), Ok(9));
        table.sz = reach - 1;
        assert_eq!(
            answer(&mut table),
            refused,
            "an older library's table ends behind it"
        );
        table.sz = reach;
        table.get_srq_num = None;
        assert_eq!(answer(&mut table), refused);
    }
}
