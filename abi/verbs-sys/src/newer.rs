//! Structures and constants of `infiniband/verbs.h` that came after rdma-core 44, whose headers the generated bindings are made of.
//!
//! Each item names the release that brought it. The layouts are asserted below.

use crate::ibv_pd;
use core::ffi::{c_int, c_void};
use core::mem::{offset_of, size_of};

/// `ibv_mr_init_attr.comp_mask`: `iova` is given (rdma-core 59).
pub const IBV_REG_MR_MASK_IOVA: u64 = 1 << 0;
/// `ibv_mr_init_attr.comp_mask`: `addr` is given (rdma-core 59).
pub const IBV_REG_MR_MASK_ADDR: u64 = 1 << 1;
/// `ibv_mr_init_attr.comp_mask`: `fd` is given (rdma-core 59).
pub const IBV_REG_MR_MASK_FD: u64 = 1 << 2;
/// `ibv_mr_init_attr.comp_mask`: `fd_offset` is given (rdma-core 59).
pub const IBV_REG_MR_MASK_FD_OFFSET: u64 = 1 << 3;
/// `ibv_mr_init_attr.comp_mask`: `dmah` is given (rdma-core 59).
pub const IBV_REG_MR_MASK_DMAH: u64 = 1 << 4;
/// `ibv_mr_init_attr.comp_mask`: `buf` is given (rdma-core 64).
pub const IBV_REG_MR_MASK_BUF: u64 = 1 << 5;

/// `ibv_parent_domain_init_attr.comp_mask`: memory that a confidential guest shares with its host may be allocated (rdma-core 64).
pub const IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC: u32 = 1 << 2;

/// What `ibv_reg_mr_ex` registers (rdma-core 59; `buf` 64). Only the fields that `comp_mask` names, `length` and `access` are read.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct ibv_mr_init_attr {
    /// Bytes.
    pub length: usize,
    /// `IBV_ACCESS_*`.
    pub access: c_int,
    /// `IBV_REG_MR_MASK_*`.
    pub comp_mask: u64,
    /// The address by which requests name the region's first byte.
    pub iova: u64,
    /// The region's first byte.
    pub addr: *mut c_void,
    /// A dma-buf.
    pub fd: c_int,
    /// Where the region begins in the dma-buf.
    pub fd_offset: u64,
    /// A DMA handle.
    pub dmah: *mut c_void,
    /// What `ibv_alloc_buf` gave.
    pub buf: *mut ibv_buf,
}

const _: () = {
    assert!(size_of::<ibv_mr_init_attr>() == 72);
    assert!(offset_of!(ibv_mr_init_attr, comp_mask) == 16);
    assert!(offset_of!(ibv_mr_init_attr, fd) == 40);
    assert!(offset_of!(ibv_mr_init_attr, buf) == 64);
};

/// A buffer of `ibv_alloc_buf` (rdma-core 64). Programs hold its address and look at nothing in it.
#[repr(C)]
#[derive(Debug)]
#[allow(non_camel_case_types)]
pub struct ibv_buf {
    /// The domain that it was allocated from.
    pub pd: *mut ibv_pd,
    /// Its first byte.
    pub addr: *mut c_void,
    /// Bytes.
    pub size: usize,
}
