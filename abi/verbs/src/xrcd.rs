//! XRC domains: what lets several processes share the target queue pairs of a connection.

use crate::boundary::try_entry;
use crate::context::Context;
use crate::object::{Object, input};
use ferriband_hca as hca;
use ferriband_hca::xrc::XrcOpen;
use ferriband_verbs_sys as sys;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// What only we see of an XRC domain.
pub struct XrcdOwn {
    /// The adapter's domain.
    pub hca: Arc<hca::Xrcd>,
}

/// An XRC domain.
pub type Xrcd = Object<sys::ibv_xrcd, XrcdOwn>;

/// `open_xrcd` of the context: a private domain for fd -1, else the one of the file behind the descriptor, which
/// O_CREAT creates and O_EXCL demands to be new.
///
/// # Safety
/// `context` is a live context and `attr` readable.
pub unsafe extern "C" fn open_xrcd(
    context: *mut sys::ibv_context,
    attr: *mut sys::ibv_xrcd_init_attr,
) -> *mut sys::ibv_xrcd {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let context = unsafe { Context::of(context) }?;
        // SAFETY: the caller's promise.
        let attr = unsafe { input(attr) }?;
        if attr.comp_mask >= sys::IBV_XRCD_INIT_ATTR_RESERVED {
            return Err(libc::EOPNOTSUPP);
        }
        if attr.comp_mask & sys::IBV_XRCD_INIT_ATTR_FD == 0
            || attr.comp_mask & sys::IBV_XRCD_INIT_ATTR_OFLAGS == 0
        {
            return Err(libc::EINVAL);
        }
        let creates = attr.oflags & libc::O_CREAT != 0;
        let how = match (creates, attr.oflags & libc::O_EXCL != 0) {
            (true, true) => XrcOpen::CreateNew,
            (true, false) => XrcOpen::OrCreate,
            (false, _) => XrcOpen::Existing,
        };
        let file = if attr.fd != -1 {
            let (device, inode) = identity(attr.fd)?;
            hca::XrcFile::Of(device, inode, how)
        } else if creates {
            hca::XrcFile::Private
        } else {
            // there is nothing to open by no file
            return Err(libc::EINVAL);
        };
        let domain = context
            .hca()
            .open_xrcd(file)
            .map_err(|error| error.errno())?;
        Ok(Xrcd::leak(
            sys::ibv_xrcd {
                context: context.as_c(),
            },
            XrcdOwn { hca: domain },
        ))
    })
}

/// Device and inode of the file behind a descriptor.
pub fn identity(fd: c_int) -> Result<(u64, u64), i32> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the pointer comes from a live local.
    if unsafe { libc::fstat(fd, status.as_mut_ptr()) } != 0 {
        return Err(crate::boundary::errno());
    }
    // SAFETY: fstat filled it.
    let status = unsafe { status.assume_init() };
    Ok((status.st_dev, status.st_ino))
}

/// `close_xrcd` of the context: EBUSY while this process has queues in it.
///
/// # Safety
/// `xrcd` is a live domain that no other thread uses.
pub unsafe extern "C" fn close_xrcd(xrcd: *mut sys::ibv_xrcd) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        unsafe { Xrcd::of(xrcd) }?
            .hca
            .close()
            .map_err(|error| error.errno())?;
        // SAFETY: the program gives the domain up.
        unsafe { Xrcd::free(xrcd) };
        Ok(0)
    })
}
