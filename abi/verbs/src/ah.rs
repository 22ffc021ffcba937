//! Address handles, and multicast membership.

use crate::boundary::{MinusOne, errno, try_entry};
use crate::context::Context;
use crate::object::{Object, input, output};
use crate::pd::{Pd, User};
use crate::pure::grh::{self, Header};
use crate::{convert, query};
use ferriband_hca as hca;
use ferriband_verbs_sys as sys;
use ferriband_wire::{Gid, Lid};
use std::ffi::c_int;
use std::sync::Arc;

/// What only we see of an address handle.
pub struct AhOwn {
    /// The adapter's handle.
    pub hca: Arc<hca::Ah>,
    _pd: User,
}

/// An address handle.
pub type Ah = Object<sys::ibv_ah, AhOwn>;

/// `ibv_create_ah`.
///
/// # Safety
/// `pd` is a live domain and `attr` readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah(
    pd: *mut sys::ibv_pd,
    attr: *mut sys::ibv_ah_attr,
) -> *mut sys::ibv_ah {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let domain = unsafe { Pd::of(pd) }?;
        // SAFETY: the caller's promise.
        let av = convert::address_vector(unsafe { input(attr) }?);
        let handle = domain.hca.create_ah(av).map_err(|error| error.errno())?;
        // SAFETY: the C part of a live domain.
        let context = unsafe { (*domain.c()).context };
        // SAFETY: a context outlives its objects, by the API.
        let number = unsafe { Context::of(context) }?.next_handle();
        let c = sys::ibv_ah {
            context,
            pd,
            handle: number,
        };
        Ok(Ah::leak(
            c,
            AhOwn {
                hca: handle,
                _pd: domain.hold(),
            },
        ))
    })
}

/// `ibv_destroy_ah`.
///
/// # Safety
/// `ah` is a live handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_ah(ah: *mut sys::ibv_ah) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        unsafe { Ah::of(ah) }?
            .hca
            .destroy()
            .map_err(|error| error.errno())?;
        // SAFETY: the program gives the handle up; sends that were posted with it have copied the path.
        unsafe { Ah::free(ah) };
        Ok(0)
    })
}

/// `ibv_init_ah_from_wc`: the path back to the sender of a received datagram.
///
/// # Safety
/// `context` is a live context, `wc` readable, `grh` readable if the completion says that there is one, and `ah_attr`
/// writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_init_ah_from_wc(
    context: *mut sys::ibv_context,
    port_num: u8,
    wc: *mut sys::ibv_wc,
    grh: *mut sys::ibv_grh,
    ah_attr: *mut sys::ibv_ah_attr,
) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let context = unsafe { Context::of(context) }?;
        // SAFETY: the caller's promise.
        let wc = unsafe { input(wc) }?;
        let mut attr = sys::ibv_ah_attr {
            dlid: wc.slid,
            sl: wc.sl,
            src_path_bits: wc.dlid_path_bits,
            port_num,
            ..Default::default()
        };
        if wc.wc_flags & sys::IBV_WC_GRH != 0 {
            if grh.is_null() {
                return Err(libc::EINVAL);
            }
            // SAFETY: the completion says that these 40 bytes are a header, and bytes have no alignment.
            let header = unsafe { grh.cast::<[u8; 40]>().read() };
            back_path(context, port_num, &header, &mut attr)?;
        }
        // SAFETY: the caller's promise.
        unsafe { output(ah_attr, attr) }?;
        Ok(MinusOne(0))
    })
    .0
}

/// `ibv_create_ah_from_wc`.
///
/// # Safety
/// As for [`ibv_init_ah_from_wc`], with a live domain instead of the context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah_from_wc(
    pd: *mut sys::ibv_pd,
    wc: *mut sys::ibv_wc,
    grh: *mut sys::ibv_grh,
    port_num: u8,
) -> *mut sys::ibv_ah {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let domain = unsafe { Pd::of(pd) }?;
        // SAFETY: the C part of a live domain.
        let context = unsafe { (*domain.c()).context };
        let mut attr = sys::ibv_ah_attr::default();
        // SAFETY: the caller's promise.
        if unsafe { ibv_init_ah_from_wc(context, port_num, wc, grh, &mut attr) } != 0 {
            return Err(errno());
        }
        // SAFETY: the domain is live and the attributes are a local.
        Ok(unsafe { ibv_create_ah(pd, &mut attr) })
    })
}

/// Fills the global part of a path from the header of a received datagram: the sender becomes the destination, and our
/// entry of the GID table is the one that the sender addressed. Datagrams to a multicast group have no such entry: EINVAL.
fn back_path(
    context: &Context,
    port_num: u8,
    header: &[u8; 40],
    attr: &mut sys::ibv_ah_attr,
) -> Result<(), i32> {
    /// Next header of a BTH directly behind the GRH (IBA 8.3).
    const NEXT_HEADER_BTH: u8 = 0x1b;
    let (ours, theirs, over_udp, hop_limit, traffic_class) =
        match grh::parse(header).ok_or(libc::EPROTONOSUPPORT)? {
            Header::V4 {
                source,
                destination,
                hop_limit,
                traffic_class,
            } => {
                if destination[0] >> 4 == 0xe {
                    return Err(libc::EINVAL);
                }
                (
                    grh::mapped(destination),
                    grh::mapped(source),
                    true,
                    hop_limit,
                    traffic_class,
                )
            }
            Header::V6 {
                source,
                destination,
                next_header,
                hop_limit,
                traffic_class,
            } => {
                if destination[0] == 0xff {
                    return Err(libc::EINVAL);
                }
                let over_udp = match next_header {
                    NEXT_HEADER_BTH => false,
                    header if i32::from(header) == libc::IPPROTO_UDP => true,
                    _ => return Err(libc::EPROTONOSUPPORT),
                };
                (destination, source, over_udp, hop_limit, traffic_class)
            }
        };
    attr.is_global = 1;
    attr.grh.dgid.raw = theirs;
    attr.grh.flow_label = grh::flow_label(header);
    attr.grh.sgid_index = query::find_gid(context, port_num, ours, over_udp)?;
    attr.grh.hop_limit = hop_limit;
    attr.grh.traffic_class = traffic_class;
    Ok(())
}

/// `ibv_attach_mcast`: every process of the host is a port of the group.
///
/// # Safety
/// `qp` is a live queue pair and `gid` readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_attach_mcast(
    qp: *mut sys::ibv_qp,
    gid: *const sys::ibv_gid,
    lid: u16,
) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let (queue_pair, gid) = unsafe { (crate::qp::of(qp)?, group(gid)?) };
        queue_pair
            .hca
            .attach_mcast(gid, Lid(lid))
            .map_err(|error| error.errno())?;
        Ok(0)
    })
}

/// `ibv_detach_mcast`.
///
/// # Safety
/// As for [`ibv_attach_mcast`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_detach_mcast(
    qp: *mut sys::ibv_qp,
    gid: *const sys::ibv_gid,
    lid: u16,
) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let (queue_pair, gid) = unsafe { (crate::qp::of(qp)?, group(gid)?) };
        queue_pair
            .hca
            .detach_mcast(gid, Lid(lid))
            .map_err(|error| error.errno())?;
        Ok(0)
    })
}

/// A GID that the caller points to.
///
/// # Safety
/// `gid` is NULL or readable.
unsafe fn group(gid: *const sys::ibv_gid) -> Result<Gid, i32> {
    // SAFETY: the caller's promise; a GID is bytes.
    let gid = unsafe { gid.as_ref() }.ok_or(libc::EINVAL)?;
    // SAFETY: every view of the union is the same 16 bytes.
    Ok(Gid(unsafe { gid.raw }))
}
