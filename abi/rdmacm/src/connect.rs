//! Connections: asked for, listened for, accepted, refused, ended.

use crate::boundary::{Errno, check, status, waiting_status};
use crate::device::Limits;
use crate::events::{Asked, finish, synchronous};
use crate::id::{Id, State, get};
use crate::private::{call, functions};
use crate::qp::{self, AUTOMATIC_DEPTH, AUTOMATIC_RESOURCES};
use crate::resolve::{self, What};
use crate::sys::{RDMA_PS_SDP, RDMA_PS_TCP, rdma_cm_id, rdma_conn_param};
use ferriband_cm_abi::{FB_MAX_PRIVATE_DATA, fb_conn_param, fb_ece};
use ferriband_verbs_sys::{ibv_ece, ibv_event_type};
use std::ffi::{c_int, c_void};

/// Reasons of the CM's REJ (IBA 12.6.7.2).
pub const CONSUMER_REJECT: u8 = 28;
const VENDOR_OPTION_NOT_SUPPORTED: u8 = 35;

/// The limits of the identifier's device; EINVAL if it is bound to none.
fn limits(id: &Id) -> Result<Limits, Errno> {
    let state = id.lock();
    Ok(state.device.as_ref().ok_or(libc::EINVAL)?.limits())
}

/// More READs and atomics than the device carries are EINVAL, as is a connection for which nothing names a queue pair.
fn validate(id: &Id, param: Option<&rdma_conn_param>, limits: Limits) -> Result<(), Errno> {
    if !matches!(get!(id.ps), RDMA_PS_TCP | RDMA_PS_SDP) {
        return Ok(());
    }
    let Some(param) = param else {
        let has_pair = !get!(id.qp).is_null();
        return if has_pair { Ok(()) } else { Err(libc::EINVAL) };
    };
    let too_many = |wanted: u8, automatic: u8, most: u8| wanted != automatic && wanted > most;
    if too_many(
        param.responder_resources,
        AUTOMATIC_RESOURCES,
        limits.responder_resources,
    ) || too_many(
        param.initiator_depth,
        AUTOMATIC_DEPTH,
        limits.initiator_depth,
    ) {
        return Err(libc::EINVAL);
    }
    Ok(())
}

/// Parameters for libibverbs: the program's, with the identifier's queue pair if it has one.
///
/// # Safety
/// The private data of `param` has the length that it says.
unsafe fn parameters(
    id: &Id,
    param: Option<&rdma_conn_param>,
    state: &State,
) -> Result<fb_conn_param, Errno> {
    const ALL_RETRIES: u8 = 7;
    let mut out = fb_conn_param {
        qp_num: param.map_or(0, |param| param.qp_num),
        qkey: 0,
        private_data_len: 0,
        srq: param.map_or(0, |param| param.srq),
        responder_resources: state.responder_resources,
        initiator_depth: state.initiator_depth,
        flow_control: param.map_or(0, |param| param.flow_control),
        retry_count: param.map_or(ALL_RETRIES, |param| param.retry_count),
        rnr_retry_count: param.map_or(ALL_RETRIES, |param| param.rnr_retry_count),
        valid: 1,
        private_data: [0; FB_MAX_PRIVATE_DATA],
    };
    let pair = get!(id.qp);
    if !pair.is_null() {
        // SAFETY: the identifier's queue pair.
        let (number, srq) = unsafe { ((*pair).qp_num, (*pair).srq) };
        out.qp_num = number;
        out.srq = u8::from(!srq.is_null());
    }
    let own = param.map_or(&[][..], |param| {
        // SAFETY: the caller's promise.
        unsafe { bytes(param.private_data, param.private_data_len) }
    });
    let length = state.connect_data.len() + own.len();
    out.private_data_len = u8::try_from(length).map_err(|_| libc::EINVAL)?;
    out.private_data[..state.connect_data.len()].copy_from_slice(&state.connect_data);
    out.private_data[state.connect_data.len()..length].copy_from_slice(own);
    Ok(out)
}

/// Private data as a slice; NULL is empty.
///
/// # Safety
/// `data` is NULL or has `length` bytes, which live as long as the result is used.
unsafe fn bytes<'a>(data: *const c_void, length: u8) -> &'a [u8] {
    if data.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data.cast(), length.into()) }
}

/// Asks for a connection.
///
/// # Safety
/// The private data has the length that it says.
pub unsafe fn connect(id: &Id, param: Option<&rdma_conn_param>) -> Result<Asked, Errno> {
    functions()?;
    let limits = limits(id)?;
    validate(id, param, limits)?;
    let mut state = id.lock();
    state.initiator_depth = match param {
        Some(param) if param.initiator_depth != AUTOMATIC_DEPTH => param.initiator_depth,
        _ => limits.initiator_depth,
    };
    state.responder_resources = match param {
        Some(param) if param.responder_resources != AUTOMATIC_RESOURCES => {
            param.responder_resources
        }
        _ => limits.responder_resources,
    };
    // SAFETY: the caller's promise.
    let out = unsafe { parameters(id, param, &state) }?;
    let ece = state.local_ece;
    drop(state);
    // SAFETY: the parameters live during the call.
    call(|f| unsafe { (f.connect)(id.handle(), &raw const out, &raw const ece) })?;
    id.lock().connect_data.clear();
    Ok(Asked::Event)
}

/// Accepts a request; the event is that the connection stands.
///
/// # Safety
/// As for [`connect`].
pub unsafe fn accept(id: &Id, param: Option<&rdma_conn_param>) -> Result<Asked, Errno> {
    functions()?;
    if param.is_none() && get!(id.qp).is_null() {
        return Err(libc::EINVAL);
    }
    let limits = limits(id)?;
    validate(id, param, limits)?;
    let mut state = id.lock();
    state.initiator_depth = match param {
        Some(param) if param.initiator_depth != AUTOMATIC_DEPTH => param.initiator_depth,
        _ => state.initiator_depth.min(limits.initiator_depth),
    };
    state.responder_resources = match param {
        Some(param) if param.responder_resources != AUTOMATIC_RESOURCES => {
            param.responder_resources
        }
        _ => state.responder_resources.min(limits.responder_resources),
    };
    // SAFETY: the caller's promise.
    let out = unsafe { parameters(id, param, &state) }?;
    // The answer names the vendor that asked.
    let ece = fb_ece {
        vendor_id: state.remote_ece.vendor_id,
        options: state.local_ece.options,
    };
    drop(state);
    if !id.is_datagram() {
        qp::to_rtr(id, out.responder_resources)?;
        qp::to_rts(id, out.initiator_depth)?;
    }
    // SAFETY: the parameters live during the call.
    let answered =
        call(|f| unsafe { (f.accept)(id.handle(), id.user(), &raw const out, &raw const ece) });
    if let Err(error) = answered {
        // The program is told why the answer failed.
        let _ = qp::to_error(id);
        return Err(error);
    }
    Ok(match id.is_datagram() {
        true => Asked::Nothing,
        false => Asked::Event,
    })
}

/// Refuses a request.
///
/// # Safety
/// `data` is NULL or has `length` bytes.
pub unsafe fn reject(
    id: *mut rdma_cm_id,
    data: *const c_void,
    length: u8,
    reason: u8,
) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    let (id, data) = unsafe { (Id::of(id)?, bytes(data, length)) };
    // SAFETY: the data has this length.
    call(|f| unsafe { (f.reject)(id.handle(), data.as_ptr(), data.len() as u8, reason) })
}

/// Listens.
pub fn listen(id: &Id, backlog: c_int) -> Result<(), Errno> {
    // SAFETY: numbers only.
    call(|f| unsafe { (f.listen)(id.handle(), backlog) })?;
    resolve::query(id, What::Addresses)
}

/// Ends the connection; the queue pair goes to the error state.
pub fn disconnect(id: &Id) -> Result<Asked, Errno> {
    if get!(id.verbs).is_null() {
        return Err(libc::EINVAL);
    }
    qp::to_error(id)?;
    // SAFETY: numbers only.
    match call(|f| unsafe { (f.disconnect)(id.handle()) }) {
        // As the kernel has it that is no error; there is nothing to wait for.
        Err(libc::EALREADY) => Ok(Asked::Nothing),
        Err(error) => Err(error),
        Ok(()) => Ok(Asked::Event),
    }
}

/// `rdma_connect`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_connect(
    id: *mut rdma_cm_id,
    conn_param: *mut rdma_conn_param,
) -> c_int {
    // SAFETY: the caller's promise.
    let ask = |id: &Id| unsafe { connect(id, conn_param.as_ref()) };
    // SAFETY: the caller's promise.
    waiting_status(|sleep| unsafe { synchronous(sleep, id, ask) })
}

/// `rdma_listen`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_listen(id: *mut rdma_cm_id, backlog: c_int) -> c_int {
    // SAFETY: the caller's promise.
    status(|| listen(unsafe { Id::of(id) }?, backlog))
}

/// `rdma_accept`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_accept(
    id: *mut rdma_cm_id,
    conn_param: *mut rdma_conn_param,
) -> c_int {
    // SAFETY: the caller's promise.
    let ask = |id: &Id| unsafe { accept(id, conn_param.as_ref()) };
    // SAFETY: the caller's promise.
    waiting_status(|sleep| unsafe { synchronous(sleep, id, ask) })
}

/// `rdma_reject`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_reject(
    id: *mut rdma_cm_id,
    private_data: *const c_void,
    private_data_len: u8,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe { reject(id, private_data, private_data_len, CONSUMER_REJECT) })
}

/// `rdma_reject_ece`: the other side's vendor options are not supported.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_reject_ece(
    id: *mut rdma_cm_id,
    private_data: *const c_void,
    private_data_len: u8,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        reject(
            id,
            private_data,
            private_data_len,
            VENDOR_OPTION_NOT_SUPPORTED,
        )
    })
}

/// `rdma_notify`: an event of the queue pair that the connection must know.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_notify(id: *mut rdma_cm_id, event: ibv_event_type) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let id = unsafe { Id::of(id) }?;
        let event = c_int::try_from(event).map_err(|_| libc::EINVAL)?;
        // SAFETY: numbers only.
        call(|f| unsafe { (f.notify)(id.handle(), event) })
    })
}

/// `rdma_disconnect`: the queue pair goes to the error state.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_disconnect(id: *mut rdma_cm_id) -> c_int {
    // SAFETY: the caller's promise.
    waiting_status(|sleep| unsafe { synchronous(sleep, id, disconnect) })
}

/// `rdma_establish`: the program's own queue pair is ready after a CONNECT_RESPONSE; EINVAL if the identifier has one.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_establish(id: *mut rdma_cm_id) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let id = unsafe { Id::of(id) }?;
        check(if get!(id.qp).is_null() {
            0
        } else {
            libc::EINVAL
        })?;
        finish(id)
    })
}

/// `rdma_set_local_ece`: before the queue pair is made.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_set_local_ece(
    id: *mut rdma_cm_id,
    ece: *mut ibv_ece,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let (id, ece) = unsafe { (Id::of(id)?, ece.as_ref().ok_or(libc::EINVAL)?) };
        if !get!(id.qp).is_null() || ece.vendor_id == 0 || ece.comp_mask != 0 {
            return Err(libc::EINVAL);
        }
        id.lock().local_ece = fb_ece {
            vendor_id: ece.vendor_id,
            options: ece.options,
        };
        Ok(())
    })
}

/// `rdma_get_remote_ece`: for programs with their own queue pair.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_get_remote_ece(
    id: *mut rdma_cm_id,
    ece: *mut ibv_ece,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let (id, ece) = unsafe { (Id::of(id)?, ece.as_mut().ok_or(libc::EINVAL)?) };
        if !get!(id.qp).is_null() {
            return Err(libc::EINVAL);
        }
        let remote = id.lock().remote_ece;
        *ece = ibv_ece {
            vendor_id: remote.vendor_id,
            options: remote.options,
            comp_mask: 0,
        };
        Ok(())
    })
}
