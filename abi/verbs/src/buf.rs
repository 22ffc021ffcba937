//! Buffers of `ibv_alloc_buf` (rdma-core 64): the program's memory, allocated by the library.
//!
//! An adapter that reaches memory of some kinds only (of another device, of a confidential guest) allocates it here. This one reaches
//! all memory of the process, so a buffer is pages of its own and no dma-buf.

use crate::boundary::{MinusOne, entry, try_entry};
use crate::mr::ibv_reg_mr_ex;
use crate::object::{input, output};
use crate::pd::Pd;
use ferriband_verbs_sys as sys;
use std::ffi::{c_int, c_void};

/// `ibv_alloc_buf`: `size` bytes that begin at a page. ENOMEM if they cannot be had.
///
/// # Safety
/// `pd` is a live domain and `buf` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_buf(
    pd: *mut sys::ibv_pd,
    size: usize,
    buf: *mut *mut sys::ibv_buf,
) -> *mut c_void {
    try_entry(|| {
        // SAFETY: the caller's promise; NULL is refused.
        unsafe { Pd::of(pd) }?;
        if buf.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: the argument names a figure of the system.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let mut addr = std::ptr::null_mut();
        // SAFETY: the address of a local; a page's size is a power of two and a multiple of a pointer's.
        match unsafe { libc::posix_memalign(&raw mut addr, page, size) } {
            0 => {}
            error => return Err(error),
        }
        let made = Box::new(sys::ibv_buf { pd, addr, size });
        // SAFETY: the caller's promise, and it is not NULL.
        unsafe { output(buf, Box::into_raw(made)) }?;
        Ok(addr)
    })
}

/// `ibv_free_buf`. Regions of the buffer must be gone.
///
/// # Safety
/// `buf` is NULL or came from [`ibv_alloc_buf`] and is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_buf(buf: *mut sys::ibv_buf) {
    entry(|| {
        if !buf.is_null() {
            // SAFETY: the caller's promise.
            let buffer = unsafe { Box::from_raw(buf) };
            // SAFETY: the memory of a live buffer, from posix_memalign.
            unsafe { libc::free(buffer.addr) };
        }
    });
}

/// `ibv_reg_buf_mr`: registers a part of a buffer. EINVAL if it does not lie within the buffer, or the domain is another than the buffer's.
///
/// # Safety
/// `pd` is a live domain and `buf` a live buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_buf_mr(
    pd: *mut sys::ibv_pd,
    buf: *mut sys::ibv_buf,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut sys::ibv_mr {
    let mut attr = sys::ibv_mr_init_attr {
        length,
        access,
        comp_mask: sys::IBV_REG_MR_MASK_BUF | sys::IBV_REG_MR_MASK_ADDR,
        iova: 0,
        addr,
        fd: -1,
        fd_offset: 0,
        dmah: std::ptr::null_mut(),
        buf,
    };
    // SAFETY: the caller's promise, and attributes of ours.
    unsafe { ibv_reg_mr_ex(pd, &raw mut attr) }
}

/// `ibv_export_buf_dmabuf_fd`: -1 with ENODATA, for no buffer is a dma-buf.
///
/// # Safety
/// `buf` is a live buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_export_buf_dmabuf_fd(buf: *mut sys::ibv_buf) -> MinusOne {
    try_entry(|| {
        // SAFETY: the caller's promise; NULL is refused.
        unsafe { input(buf) }?;
        Err(libc::ENODATA)
    })
}

/// EINVAL unless `length` bytes from `addr` on lie within the buffer, and the buffer is of this domain.
pub fn must_contain(
    buffer: &sys::ibv_buf,
    pd: *mut sys::ibv_pd,
    (addr, length): (usize, usize),
) -> Result<(), i32> {
    let offset = addr.checked_sub(buffer.addr as usize);
    let is_within =
        offset.is_some_and(|offset| offset <= buffer.size && length <= buffer.size - offset);
    match is_within && buffer.pd == pd {
        true => Ok(()),
        false => Err(libc::EINVAL),
    }
}
