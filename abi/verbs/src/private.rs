//! The library's private interface with providers, and the refusals of the oldest public one.
//!
//! perftest, UCX, libfabric and pyverbs have providers (libmlx5, libefa) among their needed libraries, and those import the
//! private symbols of rdma-core 44: they must resolve, or the program does not start. No provider has a
//! device here, so none of these is ever called with work to do; each answers EOPNOTSUPP. Arguments are not
//! declared because none is looked at, which the x86_64 calling convention allows.

use crate::boundary::{Failure, set_errno};
use std::ffi::{c_char, c_void};
use std::sync::atomic::AtomicBool;

macro_rules! refuse {
    ($($name:ident)*) => {$(
        /// Kernel command of a provider: not supported.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> i32 {
            i32::failure(libc::EOPNOTSUPP)
        }
    )*};
}

refuse! {
    execute_ioctl
    ibv_cmd_advise_mr ibv_cmd_alloc_dm ibv_cmd_alloc_mw ibv_cmd_alloc_pd ibv_cmd_attach_mcast ibv_cmd_close_xrcd
    ibv_cmd_create_ah ibv_cmd_create_counters ibv_cmd_create_cq ibv_cmd_create_cq_ex ibv_cmd_create_flow
    ibv_cmd_create_flow_action_esp ibv_cmd_create_qp ibv_cmd_create_qp_ex ibv_cmd_create_qp_ex2
    ibv_cmd_create_rwq_ind_table ibv_cmd_create_srq ibv_cmd_create_srq_ex ibv_cmd_create_wq ibv_cmd_dealloc_mw
    ibv_cmd_dealloc_pd ibv_cmd_dereg_mr ibv_cmd_destroy_ah ibv_cmd_destroy_counters ibv_cmd_destroy_cq
    ibv_cmd_destroy_flow ibv_cmd_destroy_flow_action ibv_cmd_destroy_qp ibv_cmd_destroy_rwq_ind_table
    ibv_cmd_destroy_srq ibv_cmd_destroy_wq ibv_cmd_detach_mcast ibv_cmd_free_dm ibv_cmd_get_context
    ibv_cmd_modify_cq ibv_cmd_modify_flow_action_esp ibv_cmd_modify_qp ibv_cmd_modify_qp_ex ibv_cmd_modify_srq
    ibv_cmd_modify_wq ibv_cmd_open_qp ibv_cmd_open_xrcd ibv_cmd_poll_cq ibv_cmd_post_recv ibv_cmd_post_send
    ibv_cmd_post_srq_recv ibv_cmd_query_context ibv_cmd_query_device_any ibv_cmd_query_mr ibv_cmd_query_port
    ibv_cmd_query_qp ibv_cmd_query_srq ibv_cmd_read_counters ibv_cmd_reg_dm_mr ibv_cmd_reg_dmabuf_mr ibv_cmd_reg_mr
    ibv_cmd_rereg_mr ibv_cmd_req_notify_cq ibv_cmd_resize_cq
}

/// Number of attributes of a provider's kernel command: none is ever sent.
#[unsafe(no_mangle)]
pub extern "C" fn __ioctl_final_num_attrs() -> u32 {
    0
}

/// A provider's log line: providers have nothing to say here.
#[unsafe(no_mangle)]
pub extern "C" fn __verbs_log() {}

/// A provider's context: there is no device for it.
#[unsafe(no_mangle)]
pub extern "C" fn _verbs_init_and_alloc_context() -> *mut c_void {
    <*mut c_void>::failure(libc::EOPNOTSUPP)
}

/// A provider's way to open one of its devices.
#[unsafe(no_mangle)]
pub extern "C" fn verbs_open_device() -> *mut c_void {
    <*mut c_void>::failure(libc::EOPNOTSUPP)
}

/// End of a provider's context: there was none.
#[unsafe(no_mangle)]
pub extern "C" fn verbs_uninit_context() {}

/// A provider's operations: there is no context to put them into.
#[unsafe(no_mangle)]
pub extern "C" fn verbs_set_ops() {}

/// A provider's completion queue: it cannot have made one.
#[unsafe(no_mangle)]
pub extern "C" fn verbs_init_cq() {}

/// A provider announces itself from its constructor: it is not needed.
#[unsafe(no_mangle)]
pub extern "C" fn verbs_register_driver_34() {}

/// Whether destroy calls succeed after a device was unplugged; providers read it, nobody sets it.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static verbs_allow_disassociate_destroy: AtomicBool = AtomicBool::new(false);

/// Reads a file of a provider's kernel device. Ours have no kernel device: the pointer that names it is NULL, which is
/// EINVAL upstream too.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_read_ibdev_sysfs_file(_buffer: *mut c_char, _size: usize) -> i32 {
    set_errno(libc::EINVAL);
    -1
}

/// What hidden 1.0 entry points answer that return an object, a list or a name.
#[unsafe(no_mangle)]
pub extern "C" fn ferriband_old_returns_null() -> *mut c_void {
    <*mut c_void>::failure(libc::EOPNOTSUPP)
}

/// What hidden 1.0 entry points answer that return an error code.
#[unsafe(no_mangle)]
pub extern "C" fn ferriband_old_returns_error() -> i32 {
    i32::failure(libc::EOPNOTSUPP)
}

/// What hidden 1.0 entry points answer that return nothing.
#[unsafe(no_mangle)]
pub extern "C" fn ferriband_old_returns_nothing() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_reason() {
        assert_eq!(ibv_cmd_create_qp(), libc::EOPNOTSUPP);
        assert!(ferriband_old_returns_null().is_null());
        assert_eq!(crate::boundary::errno(), libc::EOPNOTSUPP);
        assert_eq!(ibv_read_ibdev_sysfs_file(std::ptr::null_mut(), 0), -1);
        assert_eq!(crate::boundary::errno(), libc::EINVAL);
    }
}
