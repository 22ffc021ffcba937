//! What a symbol answers that the table `abi/symbols.tsv` says is refused or without effect.
//!
//! The linker is given an entry point for each of them that jumps to one of these functions (`xtask/src/symbols.rs`). They look at no
//! argument, which the calling conventions of x86-64 and AArch64 allow.
//!
//! Most are the private symbols of rdma-core, which providers import: perftest, UCX, libfabric and pyverbs have libmlx5 or libefa among
//! their needed libraries, so each of these symbols must resolve, or the program does not start. No provider has a device here, so
//! none is called with work to do. The others are calls for what this adapter does not have, and the entry points of 2006,
//! whose structures were others.

use crate::boundary::{Failure, set_errno};
use std::ffi::{c_char, c_int, c_void};

/// A call that returns an errno: EOPNOTSUPP.
#[unsafe(no_mangle)]
pub extern "C" fn ferriband_refuses() -> c_int {
    c_int::failure(libc::EOPNOTSUPP)
}

/// A call that returns an object, a list or a name: NULL with errno EOPNOTSUPP.
#[unsafe(no_mangle)]
pub extern "C" fn ferriband_refuses_null() -> *mut c_void {
    <*mut c_void>::failure(libc::EOPNOTSUPP)
}

/// A call that returns a descriptor: -1 with errno EOPNOTSUPP.
#[unsafe(no_mangle)]
pub extern "C" fn ferriband_refuses_minus_one() -> c_int {
    set_errno(libc::EOPNOTSUPP);
    -1
}

/// A call that returns nothing.
#[unsafe(no_mangle)]
pub extern "C" fn ferriband_has_no_effect() {}

/// Number of attributes of a provider's kernel command: none is ever sent.
#[unsafe(no_mangle)]
pub extern "C" fn __ioctl_final_num_attrs() -> u32 {
    0
}

/// Reads a file of a provider's kernel device. Ours have no kernel device: the pointer that names it is NULL, which is
/// EINVAL upstream too.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_read_ibdev_sysfs_file(_buffer: *mut c_char, _size: usize) -> c_int {
    set_errno(libc::EINVAL);
    -1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_reason() {
        assert_eq!(ferriband_refuses(), libc::EOPNOTSUPP);
        assert!(ferriband_refuses_null().is_null());
        assert_eq!(crate::boundary::errno(), libc::EOPNOTSUPP);
        assert_eq!(ibv_read_ibdev_sysfs_file(std::ptr::null_mut(), 0), -1);
        assert_eq!(crate::boundary::errno(), libc::EINVAL);
        assert_eq!(ferriband_refuses_minus_one(), -1);
        assert_eq!(crate::boundary::errno(), libc::EOPNOTSUPP);
    }
}
