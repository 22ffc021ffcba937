//! Memory windows: allocation, binding and deallocation.

use crate::boundary::{Failure, try_entry};
use crate::context::Context;
use crate::mr::Mr;
use crate::object::{Object, input};
use crate::pd::{Pd, User};
use crate::post::blank;
use crate::{convert, qp};
use ferriband_hca as hca;
use ferriband_transport::types::{SendFlags, SendOpcode};
use ferriband_verbs_sys as sys;
use std::ffi::c_int;
use std::sync::Arc;

/// What only we see of a memory window.
pub struct MwOwn {
    /// The adapter's window.
    pub hca: Arc<hca::Mw>,
    _pd: User,
}

/// A memory window.
pub type Mw = Object<sys::ibv_mw, MwOwn>;

impl Mw {
    /// What a bind request names, for the adapter.
    ///
    /// # Safety
    /// `mw` and the region in `info` are NULL or live.
    pub unsafe fn bind_request(
        mw: *mut sys::ibv_mw,
        rkey: u32,
        info: &sys::ibv_mw_bind_info,
    ) -> Result<hca::BindMw, i32> {
        // SAFETY: the caller's promise.
        let window = unsafe { Mw::of(mw) }?;
        let lkey = match info.mr.is_null() {
            true => 0,
            // SAFETY: the caller's promise.
            false => unsafe { Mr::of(info.mr) }?.hca.key(),
        };
        Ok(hca::BindMw {
            window: window.hca.first_key,
            rkey,
            lkey,
            addr: info.addr,
            length: info.length,
            access: convert::access(info.mw_access_flags)?,
        })
    }
}

/// `alloc_mw` of the context: types 1 and 2.
///
/// # Safety
/// `pd` is a live domain.
pub unsafe extern "C" fn alloc_mw(
    pd: *mut sys::ibv_pd,
    mw_type: sys::ibv_mw_type,
) -> *mut sys::ibv_mw {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let domain = unsafe { Pd::of(pd) }?;
        let kind = match mw_type {
            sys::IBV_MW_TYPE_1 => hca::MwKind::Type1,
            sys::IBV_MW_TYPE_2 => hca::MwKind::Type2,
            _ => return Err(libc::EINVAL),
        };
        let window = domain.hca.alloc_mw(kind).map_err(|error| error.errno())?;
        // SAFETY: the C part of a live domain.
        let context = unsafe { (*domain.c()).context };
        // SAFETY: a context outlives its objects, by the API.
        let handle = unsafe { Context::of(context) }?.next_handle();
        let c = sys::ibv_mw {
            context,
            pd,
            rkey: window.first_key,
            handle,
            type_: mw_type,
        };
        Ok(Mw::leak(
            c,
            MwOwn {
                hca: window,
                _pd: domain.hold(),
            },
        ))
    })
}

/// `dealloc_mw` of the context.
///
/// # Safety
/// `mw` is a live window that no other thread uses.
pub unsafe extern "C" fn dealloc_mw(mw: *mut sys::ibv_mw) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        unsafe { Mw::of(mw) }?
            .hca
            .deallocate()
            .map_err(|error| error.errno())?;
        // SAFETY: the program gives the window up.
        unsafe { Mw::free(mw) };
        Ok(0)
    })
}

/// `bind_mw` of the context: binds a type 1 window by posting to the queue pair. The window's new key is known when
/// the request is queued, and stored into the window.
///
/// # Safety
/// `qp` and `mw` are live, `mw_bind` readable, and the region that it names NULL or live.
pub unsafe extern "C" fn bind_mw(
    qp: *mut sys::ibv_qp,
    mw: *mut sys::ibv_mw,
    mw_bind: *mut sys::ibv_mw_bind,
) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let queue_pair = unsafe { qp::of(qp) }?;
        // SAFETY: the caller's promise.
        let bind = unsafe { input(mw_bind) }?;
        // SAFETY: the caller's promise.
        let window = unsafe { Mw::of(mw) }?;
        let c = window.c();
        // SAFETY: the C part of a live window.
        let rkey = next_key(unsafe { (*c).rkey });
        // SAFETY: the caller's promise.
        let request = unsafe { Mw::bind_request(mw, rkey, &bind.bind_info) }?;
        let result = queue_pair.hca.post_send(&hca::SendRequest {
            flags: SendFlags::from_bits_truncate(bind.send_flags),
            bind: Some(request),
            ..blank(bind.wr_id, SendOpcode::BindMw)
        });
        match result {
            Ok(()) => {
                // SAFETY: the key is ours to write; programs read it after this call.
                unsafe { (*c).rkey = rkey };
                Ok(0)
            }
            Err(error) => Ok(c_int::failure(error.errno())),
        }
    })
}

/// The key with its low 8 bits, the consumer's part, counted up (`ibv_inc_rkey`).
const fn next_key(rkey: u32) -> u32 {
    rkey & !0xff | rkey.wrapping_add(1) & 0xff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_consumers_part_of_a_key_counts() {
        assert_eq!(next_key(0x1234_56fe), 0x1234_56ff);
        assert_eq!(next_key(0x1234_56ff), 0x1234_5600);
    }
}
