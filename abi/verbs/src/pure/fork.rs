//! Fork: the API's questions and our answer.
//!
//! Adapters that read memory by physical address lose it when a fork makes pages copy-on-write, which is what
//! `MADV_DONTFORK` guards against. Ours moves bytes by virtual address through the memory map of the process that registered
//! them, so the parent's registrations survive any fork and no page needs marking: the answer is
//! `IBV_FORK_UNNEEDED`, as on kernels that copy pinned pages eagerly.

use ferriband_verbs_sys as sys;
use std::ffi::c_void;

/// `ibv_fork_init`: always succeeds, before and after registrations.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_fork_init() -> i32 {
    0
}

/// `ibv_is_fork_initialized`: no preparation is needed.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_is_fork_initialized() -> sys::ibv_fork_status {
    sys::IBV_FORK_UNNEEDED
}

/// `ibv_dontfork_range`: nothing to do.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_dontfork_range(_base: *mut c_void, _size: usize) -> i32 {
    0
}

/// `ibv_dofork_range`: nothing to do.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_dofork_range(_base: *mut c_void, _size: usize) -> i32 {
    0
}
