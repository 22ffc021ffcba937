// Written by `cargo xtask mpi` from ulp/mpi/abi/table: change the table, not this file.
//
// Each line fails to compile if the runtime's function is not what the faces declare.

#![allow(unused_imports)]

use crate::ground::array::Array;
use crate::ground::status::Status;
use std::ffi::{c_char, c_double, c_int, c_void};

const _: unsafe extern "C" fn(c_int, *mut c_void, *mut c_void, *mut c_int) -> c_int =
    super::ferriband_mpi_abi_get_fortran_booleans;
const _: unsafe extern "C" fn(*mut i32) -> c_int = super::ferriband_mpi_abi_get_fortran_info;
const _: unsafe extern "C" fn(*mut i32) -> c_int = super::ferriband_mpi_abi_get_info;
const _: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int =
    super::ferriband_mpi_abi_get_version;
const _: unsafe extern "C" fn(c_int, *mut c_void, *mut c_void) -> c_int =
    super::ferriband_mpi_abi_set_fortran_booleans;
const _: unsafe extern "C" fn(i32) -> c_int = super::ferriband_mpi_abi_set_fortran_info;
const _: unsafe extern "C" fn(i32, c_int) -> c_int = super::ferriband_mpi_abort;
const _: unsafe extern "C" fn(*mut c_int) -> c_int = super::ferriband_mpi_add_error_class;
const _: unsafe extern "C" fn(c_int, *mut c_int) -> c_int = super::ferriband_mpi_add_error_code;
const _: unsafe extern "C" fn(c_int, *const c_char) -> c_int =
    super::ferriband_mpi_add_error_string;
const _: unsafe extern "C" fn(*const c_void, i64, i32, *mut c_void, i64, i32, i32) -> c_int =
    super::ferriband_mpi_allgather;
const _: unsafe extern "C" fn(
    *const c_void,
    i64,
    i32,
    *mut c_void,
    i64,
    i32,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_allgather_init;
const _: unsafe extern "C" fn(
    *const c_void,
    i64,
    i32,
    *mut c_void,
    Array,
    Array,
    i32,
    i32,
) -> c_int = super::ferriband_mpi_allgatherv;
const _: unsafe extern "C" fn(
    *const c_void,
    i64,
    i32,
    *mut c_void,
    Array,
    Array,
    i32,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_allgatherv_init;
const _: unsafe extern "C" fn(i64, i32, *mut c_void) -> c_int = super::ferriband_mpi_alloc_mem;
const _: unsafe extern "C" fn(*const c_void, *mut c_void, i64, i32, i32, i32) -> c_int =
    super::ferriband_mpi_allreduce;
const _: unsafe extern "C" fn(
    *const c_void,
    *mut c_void,
    i64,
    i32,
    i32,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_allreduce_init;
const _: unsafe extern "C" fn(*const c_void, i64, i32, *mut c_void, i64, i32, i32) -> c_int =
    super::ferriband_mpi_alltoall;
const _: unsafe extern "C" fn(
    *const c_void,
    i64,
    i32,
    *mut c_void,
    i64,
    i32,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_alltoall_init;
const _: unsafe extern "C" fn(
    *const c_void,
    Array,
    Array,
    i32,
    *mut c_void,
    Array,
    Array,
    i32,
    i32,
) -> c_int = super::ferriband_mpi_alltoallv;
const _: unsafe extern "C" fn(
    *const c_void,
    Array,
    Array,
    i32,
    *mut c_void,
    Array,
    Array,
    i32,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_alltoallv_init;
const _: unsafe extern "C" fn(
    *const c_void,
    Array,
    Array,
    Array,
    *mut c_void,
    Array,
    Array,
    Array,
    i32,
) -> c_int = super::ferriband_mpi_alltoallw;
const _: unsafe extern "C" fn(
    *const c_void,
    Array,
    Array,
    Array,
    *mut c_void,
    Array,
    Array,
    Array,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_alltoallw_init;
const _: unsafe extern "C" fn(i32, c_int) -> c_int = super::ferriband_mpi_attr_delete;
const _: unsafe extern "C" fn(i32, c_int, *mut c_void, *mut c_int) -> c_int =
    super::ferriband_mpi_attr_get;
const _: unsafe extern "C" fn(i32, c_int, *mut c_void) -> c_int = super::ferriband_mpi_attr_put;
const _: unsafe extern "C" fn(i32) -> c_int = super::ferriband_mpi_barrier;
const _: unsafe extern "C" fn(i32, i32, *mut i32) -> c_int = super::ferriband_mpi_barrier_init;
const _: unsafe extern "C" fn(*mut c_void, i64, i32, c_int, i32) -> c_int =
    super::ferriband_mpi_bcast;
const _: unsafe extern "C" fn(*mut c_void, i64, i32, c_int, i32, i32, *mut i32) -> c_int =
    super::ferriband_mpi_bcast_init;
const _: unsafe extern "C" fn(*const c_void, i64, i32, c_int, c_int, i32) -> c_int =
    super::ferriband_mpi_bsend;
const _: unsafe extern "C" fn(*const c_void, i64, i32, c_int, c_int, i32, *mut i32) -> c_int =
    super::ferriband_mpi_bsend_init;
const _: unsafe extern "C" fn(*mut c_void, i64) -> c_int = super::ferriband_mpi_buffer_attach;
const _: unsafe extern "C" fn(*mut c_void, *mut i64) -> c_int = super::ferriband_mpi_buffer_detach;
const _: unsafe extern "C" fn() -> c_int = super::ferriband_mpi_buffer_flush;
const _: unsafe extern "C" fn(*mut i32) -> c_int = super::ferriband_mpi_buffer_iflush;
const _: unsafe extern "C" fn(*mut i32) -> c_int = super::ferriband_mpi_cancel;
const _: unsafe extern "C" fn(i32, c_int, c_int, *mut c_int) -> c_int =
    super::ferriband_mpi_cart_coords;
const _: unsafe extern "C" fn(i32, c_int, *const c_int, *const c_int, c_int, *mut i32) -> c_int =
    super::ferriband_mpi_cart_create;
const _: unsafe extern "C" fn(i32, c_int, *mut c_int, *mut c_int, *mut c_int) -> c_int =
    super::ferriband_mpi_cart_get;
const _: unsafe extern "C" fn(i32, c_int, *const c_int, *const c_int, *mut c_int) -> c_int =
    super::ferriband_mpi_cart_map;
const _: unsafe extern "C" fn(i32, *const c_int, *mut c_int) -> c_int =
    super::ferriband_mpi_cart_rank;
const _: unsafe extern "C" fn(i32, c_int, c_int, *mut c_int, *mut c_int) -> c_int =
    super::ferriband_mpi_cart_shift;
const _: unsafe extern "C" fn(i32, *const c_int, *mut i32) -> c_int = super::ferriband_mpi_cart_sub;
const _: unsafe extern "C" fn(i32, *mut c_int) -> c_int = super::ferriband_mpi_cartdim_get;
const _: unsafe extern "C" fn(i32, *mut c_void, i64) -> c_int =
    super::ferriband_mpi_comm_attach_buffer;
const _: unsafe extern "C" fn(i32, c_int) -> c_int = super::ferriband_mpi_comm_call_errhandler;
const _: unsafe extern "C" fn(i32, i32, *mut c_int) -> c_int = super::ferriband_mpi_comm_compare;
const _: unsafe extern "C" fn(i32, i32, *mut i32) -> c_int = super::ferriband_mpi_comm_create;
const _: unsafe extern "C" fn(*const c_void, *const c_void, *mut i32) -> c_int =
    super::ferriband_mpi_comm_create_errhandler;
const _: unsafe extern "C" fn(i32, *const c_char, i32, i32, *mut i32) -> c_int =
    super::ferriband_mpi_comm_create_from_group;
const _: unsafe extern "C" fn(i32, i32, c_int, *mut i32) -> c_int =
    super::ferriband_mpi_comm_create_group;
const _: unsafe extern "C" fn(
    *const c_void,
    *const c_void,
    *const c_void,
    *const c_void,
    *mut c_int,
    *mut c_void,
) -> c_int = super::ferriband_mpi_comm_create_keyval;
const _: unsafe extern "C" fn(i32, c_int) -> c_int = super::ferriband_mpi_comm_delete_attr;
const _: unsafe extern "C" fn(i32, *mut c_void, *mut i64) -> c_int =
    super::ferriband_mpi_comm_detach_buffer;
const _: unsafe extern "C" fn(*mut i32) -> c_int = super::ferriband_mpi_comm_disconnect;
const _: unsafe extern "C" fn(i32, *mut i32) -> c_int = super::ferriband_mpi_comm_dup;
const _: unsafe extern "C" fn(i32, i32, *mut i32) -> c_int =
    super::ferriband_mpi_comm_dup_with_info;
const _: unsafe extern "C" fn(i32) -> c_int = super::ferriband_mpi_comm_flush_buffer;
const _: unsafe extern "C" fn(*mut i32) -> c_int = super::ferriband_mpi_comm_free;
const _: unsafe extern "C" fn(*mut c_int) -> c_int = super::ferriband_mpi_comm_free_keyval;
const _: unsafe extern "C" fn(i32, c_int, *mut c_void, *mut c_int) -> c_int =
    super::ferriband_mpi_comm_get_attr;
const _: unsafe extern "C" fn(i32, *mut i32) -> c_int = super::ferriband_mpi_comm_get_errhandler;
const _: unsafe extern "C" fn(i32, *mut i32) -> c_int = super::ferriband_mpi_comm_get_info;
const _: unsafe extern "C" fn(i32, *mut c_char, *mut c_int) -> c_int =
    super::ferriband_mpi_comm_get_name;
const _: unsafe extern "C" fn(*mut i32) -> c_int = super::ferriband_mpi_comm_get_parent;
const _: unsafe extern "C" fn(i32, *mut i32) -> c_int = super::ferriband_mpi_comm_group;
const _: unsafe extern "C" fn(i32, *mut i32, *mut i32) -> c_int = super::ferriband_mpi_comm_idup;
const _: unsafe extern "C" fn(i32, i32, *mut i32, *mut i32) -> c_int =
    super::ferriband_mpi_comm_idup_with_info;
const _: unsafe extern "C" fn(i32, *mut i32) -> c_int = super::ferriband_mpi_comm_iflush_buffer;
const _: unsafe extern "C" fn(i32, *mut c_int) -> c_int = super::ferriband_mpi_comm_rank;
const _: unsafe extern "C" fn(i32, *mut i32) -> c_int = super::ferriband_mpi_comm_remote_group;
const _: unsafe extern "C" fn(i32, *mut c_int) -> c_int = super::ferriband_mpi_comm_remote_size;
const _: unsafe extern "C" fn(i32, c_int, *mut c_void) -> c_int =
    super::ferriband_mpi_comm_set_attr;
const _: unsafe extern "C" fn(i32, i32) -> c_int = super::ferriband_mpi_comm_set_errhandler;
const _: unsafe extern "C" fn(i32, i32) -> c_int = super::ferriband_mpi_comm_set_info;
const _: unsafe extern "C" fn(i32, *const c_char) -> c_int = super::ferriband_mpi_comm_set_name;
const _: unsafe extern "C" fn(i32, *mut c_int) -> c_int = super::ferriband_mpi_comm_size;
const _: unsafe extern "C" fn(i32, c_int, c_int, *mut i32) -> c_int =
    super::ferriband_mpi_comm_split;
const _: unsafe extern "C" fn(i32, c_int, c_int, i32, *mut i32) -> c_int =
    super::ferriband_mpi_comm_split_type;
const _: unsafe extern "C" fn(i32, *mut c_int) -> c_int = super::ferriband_mpi_comm_test_inter;
const _: unsafe extern "C" fn(c_int, c_int, *mut c_int) -> c_int = super::ferriband_mpi_dims_create;
const _: unsafe extern "C" fn(
    i32,
    c_int,
    *const c_int,
    *const c_int,
    *const c_int,
    *const c_int,
    i32,
    c_int,
    *mut i32,
) -> c_int = super::ferriband_mpi_dist_graph_create;
const _: unsafe extern "C" fn(
    i32,
    c_int,
    *const c_int,
    *const c_int,
    c_int,
    *const c_int,
    *const c_int,
    i32,
    c_int,
    *mut i32,
) -> c_int = super::ferriband_mpi_dist_graph_create_adjacent;
const _: unsafe extern "C" fn(
    i32,
    c_int,
    *mut c_int,
    *mut c_int,
    c_int,
    *mut c_int,
    *mut c_int,
) -> c_int = super::ferriband_mpi_dist_graph_neighbors;
const _: unsafe extern "C" fn(i32, *mut c_int, *mut c_int, *mut c_int) -> c_int =
    super::ferriband_mpi_dist_graph_neighbors_count;
const _: unsafe extern "C" fn(*mut i32) -> c_int = super::ferriband_mpi_errhandler_free;
const _: unsafe extern "C" fn(c_int, *mut c_int) -> c_int = super::ferriband_mpi_error_class;
const _: unsafe extern "C" fn(c_int, *mut c_char, *mut c_int) -> c_int =
    super::ferriband_mpi_error_string;
const _: unsafe extern "C" fn(*const c_void, *mut c_void, i64, i32, i32, i32) -> c_int =
    super::ferriband_mpi_exscan;
const _: unsafe extern "C" fn(
    *const c_void,
    *mut c_void,
    i64,
    i32,
    i32,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_exscan_init;
const _: unsafe extern "C" fn(i32, c_int) -> c_int = super::ferriband_mpi_file_call_errhandler;
const _: unsafe extern "C" fn(*const c_void, *const c_void, *mut i32) -> c_int =
    super::ferriband_mpi_file_create_errhandler;
const _: unsafe extern "C" fn(i32, *mut i32) -> c_int = super::ferriband_mpi_file_get_errhandler;
const _: unsafe extern "C" fn(i32, i32) -> c_int = super::ferriband_mpi_file_set_errhandler;
const _: unsafe extern "C" fn() -> c_int = super::ferriband_mpi_finalize;
const _: unsafe extern "C" fn(*mut c_int) -> c_int = super::ferriband_mpi_finalized;
const _: unsafe extern "C" fn(*mut c_void) -> c_int = super::ferriband_mpi_free_mem;
const _: unsafe extern "C" fn(*const c_void, i64, i32, *mut c_void, i64, i32, c_int, i32) -> c_int =
    super::ferriband_mpi_gather;
const _: unsafe extern "C" fn(
    *const c_void,
    i64,
    i32,
    *mut c_void,
    i64,
    i32,
    c_int,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_gather_init;
const _: unsafe extern "C" fn(
    *const c_void,
    i64,
    i32,
    *mut c_void,
    Array,
    Array,
    i32,
    c_int,
    i32,
) -> c_int = super::ferriband_mpi_gatherv;
const _: unsafe extern "C" fn(
    *const c_void,
    i64,
    i32,
    *mut c_void,
    Array,
    Array,
    i32,
    c_int,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_gatherv_init;
const _: unsafe extern "C" fn(*const c_void, *mut i64) -> c_int = super::ferriband_mpi_get_address;
const _: unsafe extern "C" fn(*const Status, i32, *mut i64) -> c_int =
    super::ferriband_mpi_get_count;
const _: unsafe extern "C" fn(*const Status, i32, *mut i64) -> c_int =
    super::ferriband_mpi_get_elements;
const _: unsafe extern "C" fn(*const Status, i32, *mut i64) -> c_int =
    super::ferriband_mpi_get_elements_x;
const _: unsafe extern "C" fn(*mut i32) -> c_int = super::ferriband_mpi_get_hw_resource_info;
const _: unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int =
    super::ferriband_mpi_get_library_version;
const _: unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int =
    super::ferriband_mpi_get_processor_name;
const _: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int = super::ferriband_mpi_get_version;
const _: unsafe extern "C" fn(i32, c_int, *const c_int, *const c_int, c_int, *mut i32) -> c_int =
    super::ferriband_mpi_graph_create;
const _: unsafe extern "C" fn(i32, c_int, c_int, *mut c_int, *mut c_int) -> c_int =
    super::ferriband_mpi_graph_get;
const _: unsafe extern "C" fn(i32, c_int, *const c_int, *const c_int, *mut c_int) -> c_int =
    super::ferriband_mpi_graph_map;
const _: unsafe extern "C" fn(i32, c_int, c_int, *mut c_int) -> c_int =
    super::ferriband_mpi_graph_neighbors;
const _: unsafe extern "C" fn(i32, c_int, *mut c_int) -> c_int =
    super::ferriband_mpi_graph_neighbors_count;
const _: unsafe extern "C" fn(i32, *mut c_int, *mut c_int) -> c_int =
    super::ferriband_mpi_graphdims_get;
const _: unsafe extern "C" fn(i32) -> c_int = super::ferriband_mpi_grequest_complete;
const _: unsafe extern "C" fn(
    *const c_void,
    *const c_void,
    *const c_void,
    *const c_void,
    *const c_void,
    *const c_void,
    *mut c_void,
    *mut i32,
) -> c_int = super::ferriband_mpi_grequest_start;
const _: unsafe extern "C" fn(i32, i32, *mut c_int) -> c_int = super::ferriband_mpi_group_compare;
const _: unsafe extern "C" fn(i32, i32, *mut i32) -> c_int = super::ferriband_mpi_group_difference;
const _: unsafe extern "C" fn(i32, c_int, *const c_int, *mut i32) -> c_int =
    super::ferriband_mpi_group_excl;
const _: unsafe extern "C" fn(*mut i32) -> c_int = super::ferriband_mpi_group_free;
const _: unsafe extern "C" fn(i32, *const c_char, *mut i32) -> c_int =
    super::ferriband_mpi_group_from_session_pset;
const _: unsafe extern "C" fn(i32, c_int, *const c_int, *mut i32) -> c_int =
    super::ferriband_mpi_group_incl;
const _: unsafe extern "C" fn(i32, i32, *mut i32) -> c_int =
    super::ferriband_mpi_group_intersection;
const _: unsafe extern "C" fn(i32, c_int, *mut c_int, *mut i32) -> c_int =
    super::ferriband_mpi_group_range_excl;
const _: unsafe extern "C" fn(i32, c_int, *mut c_int, *mut i32) -> c_int =
    super::ferriband_mpi_group_range_incl;
const _: unsafe extern "C" fn(i32, *mut c_int) -> c_int = super::ferriband_mpi_group_rank;
const _: unsafe extern "C" fn(i32, *mut c_int) -> c_int = super::ferriband_mpi_group_size;
const _: unsafe extern "C" fn(i32, c_int, *const c_int, i32, *mut c_int) -> c_int =
    super::ferriband_mpi_group_translate_ranks;
const _: unsafe extern "C" fn(i32, i32, *mut i32) -> c_int = super::ferriband_mpi_group_union;
const _: unsafe extern "C" fn(
    *const c_void,
    i64,
    i32,
    *mut c_void,
    i64,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_iallgather;
const _: unsafe extern "C" fn(
    *const c_void,
    i64,
    i32,
    *mut c_void,
    Array,
    Array,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_iallgatherv;
const _: unsafe extern "C" fn(*const c_void, *mut c_void, i64, i32, i32, i32, *mut i32) -> c_int =
    super::ferriband_mpi_iallreduce;
const _: unsafe extern "C" fn(
    *const c_void,
    i64,
    i32,
    *mut c_void,
    i64,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_ialltoall;
const _: unsafe extern "C" fn(
    *const c_void,
    Array,
    Array,
    i32,
    *mut c_void,
    Array,
    Array,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_ialltoallv;
const _: unsafe extern "C" fn(
    *const c_void,
    Array,
    Array,
    Array,
    *mut c_void,
    Array,
    Array,
    Array,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_ialltoallw;
const _: unsafe extern "C" fn(i32, *mut i32) -> c_int = super::ferriband_mpi_ibarrier;
const _: unsafe extern "C" fn(*mut c_void, i64, i32, c_int, i32, *mut i32) -> c_int =
    super::ferriband_mpi_ibcast;
const _: unsafe extern "C" fn(*const c_void, i64, i32, c_int, c_int, i32, *mut i32) -> c_int =
    super::ferriband_mpi_ibsend;
const _: unsafe extern "C" fn(*const c_void, *mut c_void, i64, i32, i32, i32, *mut i32) -> c_int =
    super::ferriband_mpi_iexscan;
const _: unsafe extern "C" fn(
    *const c_void,
    i64,
    i32,
    *mut c_void,
    i64,
    i32,
    c_int,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_igather;
const _: unsafe extern "C" fn(
    *const c_void,
    i64,
    i32,
    *mut c_void,
    Array,
    Array,
    i32,
    c_int,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_igatherv;
const _: unsafe extern "C" fn(c_int, c_int, i32, *mut c_int, *mut i32, *mut Status) -> c_int =
    super::ferriband_mpi_improbe;
const _: unsafe extern "C" fn(*mut c_void, i64, i32, *mut i32, *mut i32) -> c_int =
    super::ferriband_mpi_imrecv;
const _: unsafe extern "C" fn(
    *const c_void,
    i64,
    i32,
    *mut c_void,
    i64,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_ineighbor_allgather;
const _: unsafe extern "C" fn(
    *const c_void,
    i64,
    i32,
    *mut c_void,
    Array,
    Array,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_ineighbor_allgatherv;
const _: unsafe extern "C" fn(
    *const c_void,
    i64,
    i32,
    *mut c_void,
    i64,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_ineighbor_alltoall;
const _: unsafe extern "C" fn(
    *const c_void,
    Array,
    Array,
    i32,
    *mut c_void,
    Array,
    Array,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_ineighbor_alltoallv;
const _: unsafe extern "C" fn(
    *const c_void,
    Array,
    *const i64,
    Array,
    *mut c_void,
    Array,
    *const i64,
    Array,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_ineighbor_alltoallw;
const _: unsafe extern "C" fn(*mut i32) -> c_int = super::ferriband_mpi_info_create;
const _: unsafe extern "C" fn(c_int, *mut *mut c_char, *mut i32) -> c_int =
    super::ferriband_mpi_info_create_env;
const _: unsafe extern "C" fn(i32, *const c_char) -> c_int = super::ferriband_mpi_info_delete;
const _: unsafe extern "C" fn(i32, *mut i32) -> c_int = super::ferriband_mpi_info_dup;
const _: unsafe extern "C" fn(*mut i32) -> c_int = super::ferriband_mpi_info_free;
const _: unsafe extern "C" fn(i32, *const c_char, c_int, *mut c_char, *mut c_int) -> c_int =
    super::ferriband_mpi_info_get;
const _: unsafe extern "C" fn(i32, *mut c_int) -> c_int = super::ferriband_mpi_info_get_nkeys;
const _: unsafe extern "C" fn(i32, c_int, *mut c_char) -> c_int =
    super::ferriband_mpi_info_get_nthkey;
const _: unsafe extern "C" fn(i32, *const c_char, *mut c_int, *mut c_char, *mut c_int) -> c_int =
    super::ferriband_mpi_info_get_string;
const _: unsafe extern "C" fn(i32, *const c_char, *mut c_int, *mut c_int) -> c_int =
    super::ferriband_mpi_info_get_valuelen;
const _: unsafe extern "C" fn(i32, *const c_char, *const c_char) -> c_int =
    super::ferriband_mpi_info_set;
const _: unsafe extern "C" fn(*mut c_int, *mut *mut *mut c_char) -> c_int =
    super::ferriband_mpi_init;
const _: unsafe extern "C" fn(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int) -> c_int =
    super::ferriband_mpi_init_thread;
const _: unsafe extern "C" fn(*mut c_int) -> c_int = super::ferriband_mpi_initialized;
const _: unsafe extern "C" fn(i32, c_int, i32, c_int, c_int, *mut i32) -> c_int =
    super::ferriband_mpi_intercomm_create;
const _: unsafe extern "C" fn(i32, c_int, i32, c_int, *const c_char, i32, i32, *mut i32) -> c_int =
    super::ferriband_mpi_intercomm_create_from_groups;
const _: unsafe extern "C" fn(i32, c_int, *mut i32) -> c_int = super::ferriband_mpi_intercomm_merge;
const _: unsafe extern "C" fn(c_int, c_int, i32, *mut c_int, *mut Status) -> c_int =
    super::ferriband_mpi_iprobe;
const _: unsafe extern "C" fn(*mut c_void, i64, i32, c_int, c_int, i32, *mut i32) -> c_int =
    super::ferriband_mpi_irecv;
const _: unsafe extern "C" fn(
    *const c_void,
    *mut c_void,
    i64,
    i32,
    i32,
    c_int,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_ireduce;
const _: unsafe extern "C" fn(*const c_void, *mut c_void, Array, i32, i32, i32, *mut i32) -> c_int =
    super::ferriband_mpi_ireduce_scatter;
const _: unsafe extern "C" fn(*const c_void, *mut c_void, i64, i32, i32, i32, *mut i32) -> c_int =
    super::ferriband_mpi_ireduce_scatter_block;
const _: unsafe extern "C" fn(*const c_void, i64, i32, c_int, c_int, i32, *mut i32) -> c_int =
    super::ferriband_mpi_irsend;
const _: unsafe extern "C" fn(*mut c_int) -> c_int = super::ferriband_mpi_is_thread_main;
const _: unsafe extern "C" fn(*const c_void, *mut c_void, i64, i32, i32, i32, *mut i32) -> c_int =
    super::ferriband_mpi_iscan;
const _: unsafe extern "C" fn(
    *const c_void,
    i64,
    i32,
    *mut c_void,
    i64,
    i32,
    c_int,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_iscatter;
const _: unsafe extern "C" fn(
    *const c_void,
    Array,
    Array,
    i32,
    *mut c_void,
    i64,
    i32,
    c_int,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_iscatterv;
const _: unsafe extern "C" fn(*const c_void, i64, i32, c_int, c_int, i32, *mut i32) -> c_int =
    super::ferriband_mpi_isend;
const _: unsafe extern "C" fn(
    *const c_void,
    i64,
    i32,
    c_int,
    c_int,
    *mut c_void,
    i64,
    i32,
    c_int,
    c_int,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_isendrecv;
const _: unsafe extern "C" fn(
    *mut c_void,
    i64,
    i32,
    c_int,
    c_int,
    c_int,
    c_int,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_isendrecv_replace;
const _: unsafe extern "C" fn(*const c_void, i64, i32, c_int, c_int, i32, *mut i32) -> c_int =
    super::ferriband_mpi_issend;
const _: unsafe extern "C" fn(
    *const c_void,
    *const c_void,
    *const c_void,
    *const c_void,
    *mut c_int,
    *mut c_void,
) -> c_int = super::ferriband_mpi_keyval_create;
const _: unsafe extern "C" fn(*mut c_int) -> c_int = super::ferriband_mpi_keyval_free;
const _: unsafe extern "C" fn(c_int, c_int, i32, *mut i32, *mut Status) -> c_int =
    super::ferriband_mpi_mprobe;
const _: unsafe extern "C" fn(*mut c_void, i64, i32, *mut i32, *mut Status) -> c_int =
    super::ferriband_mpi_mrecv;
const _: unsafe extern "C" fn(*const c_void, i64, i32, *mut c_void, i64, i32, i32) -> c_int =
    super::ferriband_mpi_neighbor_allgather;
const _: unsafe extern "C" fn(
    *const c_void,
    i64,
    i32,
    *mut c_void,
    i64,
    i32,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_neighbor_allgather_init;
const _: unsafe extern "C" fn(
    *const c_void,
    i64,
    i32,
    *mut c_void,
    Array,
    Array,
    i32,
    i32,
) -> c_int = super::ferriband_mpi_neighbor_allgatherv;
const _: unsafe extern "C" fn(
    *const c_void,
    i64,
    i32,
    *mut c_void,
    Array,
    Array,
    i32,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_neighbor_allgatherv_init;
const _: unsafe extern "C" fn(*const c_void, i64, i32, *mut c_void, i64, i32, i32) -> c_int =
    super::ferriband_mpi_neighbor_alltoall;
const _: unsafe extern "C" fn(
    *const c_void,
    i64,
    i32,
    *mut c_void,
    i64,
    i32,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_neighbor_alltoall_init;
const _: unsafe extern "C" fn(
    *const c_void,
    Array,
    Array,
    i32,
    *mut c_void,
    Array,
    Array,
    i32,
    i32,
) -> c_int = super::ferriband_mpi_neighbor_alltoallv;
const _: unsafe extern "C" fn(
    *const c_void,
    Array,
    Array,
    i32,
    *mut c_void,
    Array,
    Array,
    i32,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_neighbor_alltoallv_init;
const _: unsafe extern "C" fn(
    *const c_void,
    Array,
    *const i64,
    Array,
    *mut c_void,
    Array,
    *const i64,
    Array,
    i32,
) -> c_int = super::ferriband_mpi_neighbor_alltoallw;
const _: unsafe extern "C" fn(
    *const c_void,
    Array,
    *const i64,
    Array,
    *mut c_void,
    Array,
    *const i64,
    Array,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_neighbor_alltoallw_init;
const _: unsafe extern "C" fn(i32, *mut c_int) -> c_int = super::ferriband_mpi_op_commutative;
const _: unsafe extern "C" fn(*const c_void, *const c_void, c_int, *mut i32) -> c_int =
    super::ferriband_mpi_op_create;
const _: unsafe extern "C" fn(*mut i32) -> c_int = super::ferriband_mpi_op_free;
const _: unsafe extern "C" fn(*const c_void, i64, i32, *mut c_void, i64, *mut i64, i32) -> c_int =
    super::ferriband_mpi_pack;
const _: unsafe extern "C" fn(
    *const c_char,
    *const c_void,
    i64,
    i32,
    *mut c_void,
    i64,
    *mut i64,
) -> c_int = super::ferriband_mpi_pack_external;
const _: unsafe extern "C" fn(*const c_char, i64, i32, *mut i64) -> c_int =
    super::ferriband_mpi_pack_external_size;
const _: unsafe extern "C" fn(i64, i32, i32, *mut i64) -> c_int = super::ferriband_mpi_pack_size;
const _: unsafe extern "C" fn(i32, c_int, *mut c_int) -> c_int = super::ferriband_mpi_parrived;
const _: unsafe extern "C" fn(c_int) -> c_int = super::ferriband_mpi_pcontrol;
const _: unsafe extern "C" fn(c_int, i32) -> c_int = super::ferriband_mpi_pready;
const _: unsafe extern "C" fn(c_int, *const c_int, i32) -> c_int = super::ferriband_mpi_pready_list;
const _: unsafe extern "C" fn(c_int, c_int, i32) -> c_int = super::ferriband_mpi_pready_range;
const _: unsafe extern "C" fn(
    *mut c_void,
    c_int,
    i64,
    i32,
    c_int,
    c_int,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_precv_init;
const _: unsafe extern "C" fn(c_int, c_int, i32, *mut Status) -> c_int = super::ferriband_mpi_probe;
const _: unsafe extern "C" fn(
    *const c_void,
    c_int,
    i64,
    i32,
    c_int,
    c_int,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_psend_init;
const _: unsafe extern "C" fn(*mut c_int) -> c_int = super::ferriband_mpi_query_thread;
const _: unsafe extern "C" fn(*mut c_void, i64, i32, c_int, c_int, i32, *mut Status) -> c_int =
    super::ferriband_mpi_recv;
const _: unsafe extern "C" fn(*mut c_void, i64, i32, c_int, c_int, i32, *mut i32) -> c_int =
    super::ferriband_mpi_recv_init;
const _: unsafe extern "C" fn(*const c_void, *mut c_void, i64, i32, i32, c_int, i32) -> c_int =
    super::ferriband_mpi_reduce;
const _: unsafe extern "C" fn(
    *const c_void,
    *mut c_void,
    i64,
    i32,
    i32,
    c_int,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_reduce_init;
const _: unsafe extern "C" fn(*const c_void, *mut c_void, i64, i32, i32) -> c_int =
    super::ferriband_mpi_reduce_local;
const _: unsafe extern "C" fn(*const c_void, *mut c_void, Array, i32, i32, i32) -> c_int =
    super::ferriband_mpi_reduce_scatter;
const _: unsafe extern "C" fn(*const c_void, *mut c_void, i64, i32, i32, i32) -> c_int =
    super::ferriband_mpi_reduce_scatter_block;
const _: unsafe extern "C" fn(
    *const c_void,
    *mut c_void,
    i64,
    i32,
    i32,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_reduce_scatter_block_init;
const _: unsafe extern "C" fn(
    *const c_void,
    *mut c_void,
    Array,
    i32,
    i32,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_reduce_scatter_init;
const _: unsafe extern "C" fn(c_int) -> c_int = super::ferriband_mpi_remove_error_class;
const _: unsafe extern "C" fn(c_int) -> c_int = super::ferriband_mpi_remove_error_code;
const _: unsafe extern "C" fn(c_int) -> c_int = super::ferriband_mpi_remove_error_string;
const _: unsafe extern "C" fn(*mut i32) -> c_int = super::ferriband_mpi_request_free;
const _: unsafe extern "C" fn(i32, *mut c_int, *mut Status) -> c_int =
    super::ferriband_mpi_request_get_status;
const _: unsafe extern "C" fn(c_int, Array, *mut c_int, *mut Status) -> c_int =
    super::ferriband_mpi_request_get_status_all;
const _: unsafe extern "C" fn(c_int, Array, *mut c_int, *mut c_int, *mut Status) -> c_int =
    super::ferriband_mpi_request_get_status_any;
const _: unsafe extern "C" fn(c_int, Array, *mut c_int, *mut c_int, *mut Status) -> c_int =
    super::ferriband_mpi_request_get_status_some;
const _: unsafe extern "C" fn(*const c_void, i64, i32, c_int, c_int, i32) -> c_int =
    super::ferriband_mpi_rsend;
const _: unsafe extern "C" fn(*const c_void, i64, i32, c_int, c_int, i32, *mut i32) -> c_int =
    super::ferriband_mpi_rsend_init;
const _: unsafe extern "C" fn(*const c_void, *mut c_void, i64, i32, i32, i32) -> c_int =
    super::ferriband_mpi_scan;
const _: unsafe extern "C" fn(
    *const c_void,
    *mut c_void,
    i64,
    i32,
    i32,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_scan_init;
const _: unsafe extern "C" fn(*const c_void, i64, i32, *mut c_void, i64, i32, c_int, i32) -> c_int =
    super::ferriband_mpi_scatter;
const _: unsafe extern "C" fn(
    *const c_void,
    i64,
    i32,
    *mut c_void,
    i64,
    i32,
    c_int,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_scatter_init;
const _: unsafe extern "C" fn(
    *const c_void,
    Array,
    Array,
    i32,
    *mut c_void,
    i64,
    i32,
    c_int,
    i32,
) -> c_int = super::ferriband_mpi_scatterv;
const _: unsafe extern "C" fn(
    *const c_void,
    Array,
    Array,
    i32,
    *mut c_void,
    i64,
    i32,
    c_int,
    i32,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_scatterv_init;
const _: unsafe extern "C" fn(*const c_void, i64, i32, c_int, c_int, i32) -> c_int =
    super::ferriband_mpi_send;
const _: unsafe extern "C" fn(*const c_void, i64, i32, c_int, c_int, i32, *mut i32) -> c_int =
    super::ferriband_mpi_send_init;
const _: unsafe extern "C" fn(
    *const c_void,
    i64,
    i32,
    c_int,
    c_int,
    *mut c_void,
    i64,
    i32,
    c_int,
    c_int,
    i32,
    *mut Status,
) -> c_int = super::ferriband_mpi_sendrecv;
const _: unsafe extern "C" fn(
    *mut c_void,
    i64,
    i32,
    c_int,
    c_int,
    c_int,
    c_int,
    i32,
    *mut Status,
) -> c_int = super::ferriband_mpi_sendrecv_replace;
const _: unsafe extern "C" fn(i32, *mut c_void, i64) -> c_int =
    super::ferriband_mpi_session_attach_buffer;
const _: unsafe extern "C" fn(i32, c_int) -> c_int = super::ferriband_mpi_session_call_errhandler;
const _: unsafe extern "C" fn(*const c_void, *const c_void, *mut i32) -> c_int =
    super::ferriband_mpi_session_create_errhandler;
const _: unsafe extern "C" fn(i32, *mut c_void, *mut i64) -> c_int =
    super::ferriband_mpi_session_detach_buffer;
const _: unsafe extern "C" fn(*mut i32) -> c_int = super::ferriband_mpi_session_finalize;
const _: unsafe extern "C" fn(i32) -> c_int = super::ferriband_mpi_session_flush_buffer;
const _: unsafe extern "C" fn(i32, *mut i32) -> c_int = super::ferriband_mpi_session_get_errhandler;
const _: unsafe extern "C" fn(i32, *mut i32) -> c_int = super::ferriband_mpi_session_get_info;
const _: unsafe extern "C" fn(i32, i32, c_int, *mut c_int, *mut c_char) -> c_int =
    super::ferriband_mpi_session_get_nth_pset;
const _: unsafe extern "C" fn(i32, i32, *mut c_int) -> c_int =
    super::ferriband_mpi_session_get_num_psets;
const _: unsafe extern "C" fn(i32, *const c_char, *mut i32) -> c_int =
    super::ferriband_mpi_session_get_pset_info;
const _: unsafe extern "C" fn(i32, *mut i32) -> c_int = super::ferriband_mpi_session_iflush_buffer;
const _: unsafe extern "C" fn(i32, i32, *mut i32) -> c_int = super::ferriband_mpi_session_init;
const _: unsafe extern "C" fn(i32, i32) -> c_int = super::ferriband_mpi_session_set_errhandler;
const _: unsafe extern "C" fn(*const c_void, i64, i32, c_int, c_int, i32) -> c_int =
    super::ferriband_mpi_ssend;
const _: unsafe extern "C" fn(*const c_void, i64, i32, c_int, c_int, i32, *mut i32) -> c_int =
    super::ferriband_mpi_ssend_init;
const _: unsafe extern "C" fn(*mut i32) -> c_int = super::ferriband_mpi_start;
const _: unsafe extern "C" fn(c_int, Array) -> c_int = super::ferriband_mpi_startall;
const _: unsafe extern "C" fn(*const Status, *mut c_int) -> c_int =
    super::ferriband_mpi_status_get_error;
const _: unsafe extern "C" fn(*const Status, *mut c_int) -> c_int =
    super::ferriband_mpi_status_get_source;
const _: unsafe extern "C" fn(*const Status, *mut c_int) -> c_int =
    super::ferriband_mpi_status_get_tag;
const _: unsafe extern "C" fn(*mut Status, c_int) -> c_int =
    super::ferriband_mpi_status_set_cancelled;
const _: unsafe extern "C" fn(*mut Status, i32, i64) -> c_int =
    super::ferriband_mpi_status_set_elements;
const _: unsafe extern "C" fn(*mut Status, i32, i64) -> c_int =
    super::ferriband_mpi_status_set_elements_x;
const _: unsafe extern "C" fn(*mut Status, c_int) -> c_int = super::ferriband_mpi_status_set_error;
const _: unsafe extern "C" fn(*mut Status, c_int) -> c_int = super::ferriband_mpi_status_set_source;
const _: unsafe extern "C" fn(*mut Status, c_int) -> c_int = super::ferriband_mpi_status_set_tag;
const _: unsafe extern "C" fn(*mut i32, *mut c_int, *mut Status) -> c_int =
    super::ferriband_mpi_test;
const _: unsafe extern "C" fn(*const Status, *mut c_int) -> c_int =
    super::ferriband_mpi_test_cancelled;
const _: unsafe extern "C" fn(c_int, Array, *mut c_int, *mut Status) -> c_int =
    super::ferriband_mpi_testall;
const _: unsafe extern "C" fn(c_int, Array, *mut c_int, *mut c_int, *mut Status) -> c_int =
    super::ferriband_mpi_testany;
const _: unsafe extern "C" fn(c_int, Array, *mut c_int, *mut c_int, *mut Status) -> c_int =
    super::ferriband_mpi_testsome;
const _: unsafe extern "C" fn(i32, *mut c_int) -> c_int = super::ferriband_mpi_topo_test;
const _: unsafe extern "C" fn(*mut i32) -> c_int = super::ferriband_mpi_type_commit;
const _: unsafe extern "C" fn(i64, i32, *mut i32) -> c_int = super::ferriband_mpi_type_contiguous;
const _: unsafe extern "C" fn(i64, i32, *mut i32) -> c_int = super::ferriband_mpi_type_contiguous_c;
const _: unsafe extern "C" fn(
    c_int,
    c_int,
    c_int,
    Array,
    *const c_int,
    *const c_int,
    *const c_int,
    c_int,
    i32,
    *mut i32,
) -> c_int = super::ferriband_mpi_type_create_darray;
const _: unsafe extern "C" fn(c_int, c_int, *mut i32) -> c_int =
    super::ferriband_mpi_type_create_f90_complex;
const _: unsafe extern "C" fn(c_int, *mut i32) -> c_int =
    super::ferriband_mpi_type_create_f90_integer;
const _: unsafe extern "C" fn(c_int, c_int, *mut i32) -> c_int =
    super::ferriband_mpi_type_create_f90_real;
const _: unsafe extern "C" fn(i64, Array, *const i64, i32, *mut i32) -> c_int =
    super::ferriband_mpi_type_create_hindexed;
const _: unsafe extern "C" fn(i64, i64, *const i64, i32, *mut i32) -> c_int =
    super::ferriband_mpi_type_create_hindexed_block;
const _: unsafe extern "C" fn(i64, i64, *const i64, i32, *mut i32) -> c_int =
    super::ferriband_mpi_type_create_hindexed_block_c;
const _: unsafe extern "C" fn(i64, i64, i64, i32, *mut i32) -> c_int =
    super::ferriband_mpi_type_create_hvector;
const _: unsafe extern "C" fn(i64, i64, i64, i32, *mut i32) -> c_int =
    super::ferriband_mpi_type_create_hvector_c;
const _: unsafe extern "C" fn(i64, i64, Array, i32, *mut i32) -> c_int =
    super::ferriband_mpi_type_create_indexed_block;
const _: unsafe extern "C" fn(
    *const c_void,
    *const c_void,
    *const c_void,
    *const c_void,
    *mut c_int,
    *mut c_void,
) -> c_int = super::ferriband_mpi_type_create_keyval;
const _: unsafe extern "C" fn(i32, i64, i64, *mut i32) -> c_int =
    super::ferriband_mpi_type_create_resized;
const _: unsafe extern "C" fn(i32, i64, i64, *mut i32) -> c_int =
    super::ferriband_mpi_type_create_resized_c;
const _: unsafe extern "C" fn(i64, Array, *const i64, Array, *mut i32) -> c_int =
    super::ferriband_mpi_type_create_struct;
const _: unsafe extern "C" fn(c_int, Array, Array, Array, c_int, i32, *mut i32) -> c_int =
    super::ferriband_mpi_type_create_subarray;
const _: unsafe extern "C" fn(i32, c_int) -> c_int = super::ferriband_mpi_type_delete_attr;
const _: unsafe extern "C" fn(i32, *mut i32) -> c_int = super::ferriband_mpi_type_dup;
const _: unsafe extern "C" fn(*mut i32) -> c_int = super::ferriband_mpi_type_free;
const _: unsafe extern "C" fn(*mut c_int) -> c_int = super::ferriband_mpi_type_free_keyval;
const _: unsafe extern "C" fn(i32, c_int, *mut c_void, *mut c_int) -> c_int =
    super::ferriband_mpi_type_get_attr;
const _: unsafe extern "C" fn(i32, c_int, c_int, c_int, *mut c_int, *mut i64, Array) -> c_int =
    super::ferriband_mpi_type_get_contents;
const _: unsafe extern "C" fn(
    i32,
    i64,
    i64,
    i64,
    i64,
    *mut c_int,
    *mut i64,
    *mut i64,
    Array,
) -> c_int = super::ferriband_mpi_type_get_contents_c;
const _: unsafe extern "C" fn(i32, *mut c_int, *mut c_int, *mut c_int, *mut c_int) -> c_int =
    super::ferriband_mpi_type_get_envelope;
const _: unsafe extern "C" fn(i32, *mut i64, *mut i64, *mut i64, *mut i64, *mut c_int) -> c_int =
    super::ferriband_mpi_type_get_envelope_c;
const _: unsafe extern "C" fn(i32, *mut i64, *mut i64) -> c_int =
    super::ferriband_mpi_type_get_extent;
const _: unsafe extern "C" fn(i32, *mut i64, *mut i64) -> c_int =
    super::ferriband_mpi_type_get_extent_x;
const _: unsafe extern "C" fn(i32, *mut c_char, *mut c_int) -> c_int =
    super::ferriband_mpi_type_get_name;
const _: unsafe extern "C" fn(i32, *mut i64, *mut i64) -> c_int =
    super::ferriband_mpi_type_get_true_extent;
const _: unsafe extern "C" fn(i32, *mut i64, *mut i64) -> c_int =
    super::ferriband_mpi_type_get_true_extent_x;
const _: unsafe extern "C" fn(i32, i32, *mut i32) -> c_int =
    super::ferriband_mpi_type_get_value_index;
const _: unsafe extern "C" fn(i64, Array, Array, i32, *mut i32) -> c_int =
    super::ferriband_mpi_type_indexed;
const _: unsafe extern "C" fn(c_int, c_int, *mut i32) -> c_int =
    super::ferriband_mpi_type_match_size;
const _: unsafe extern "C" fn(i32, c_int, *mut c_void) -> c_int =
    super::ferriband_mpi_type_set_attr;
const _: unsafe extern "C" fn(i32, *const c_char) -> c_int = super::ferriband_mpi_type_set_name;
const _: unsafe extern "C" fn(i32, *mut i64) -> c_int = super::ferriband_mpi_type_size;
const _: unsafe extern "C" fn(i32, *mut i64) -> c_int = super::ferriband_mpi_type_size_x;
const _: unsafe extern "C" fn(i64, i64, i64, i32, *mut i32) -> c_int =
    super::ferriband_mpi_type_vector;
const _: unsafe extern "C" fn(i64, i64, i64, i32, *mut i32) -> c_int =
    super::ferriband_mpi_type_vector_c;
const _: unsafe extern "C" fn(*const c_void, i64, *mut i64, *mut c_void, i64, i32, i32) -> c_int =
    super::ferriband_mpi_unpack;
const _: unsafe extern "C" fn(
    *const c_char,
    *const c_void,
    i64,
    *mut i64,
    *mut c_void,
    i64,
    i32,
) -> c_int = super::ferriband_mpi_unpack_external;
const _: unsafe extern "C" fn(*mut i32, *mut Status) -> c_int = super::ferriband_mpi_wait;
const _: unsafe extern "C" fn(c_int, Array, *mut Status) -> c_int = super::ferriband_mpi_waitall;
const _: unsafe extern "C" fn(c_int, Array, *mut c_int, *mut Status) -> c_int =
    super::ferriband_mpi_waitany;
const _: unsafe extern "C" fn(c_int, Array, *mut c_int, *mut c_int, *mut Status) -> c_int =
    super::ferriband_mpi_waitsome;
const _: unsafe extern "C" fn() -> c_double = super::ferriband_mpi_wtick;
const _: unsafe extern "C" fn() -> c_double = super::ferriband_mpi_wtime;
const _: unsafe extern "C" fn(i32, c_int, *mut c_int) -> c_int =
    super::ferriband_mpix_comm_ack_failed;
const _: unsafe extern "C" fn(i32, *mut c_int) -> c_int = super::ferriband_mpix_comm_agree;
const _: unsafe extern "C" fn(i32) -> c_int = super::ferriband_mpix_comm_failure_ack;
const _: unsafe extern "C" fn(i32, *mut i32) -> c_int =
    super::ferriband_mpix_comm_failure_get_acked;
const _: unsafe extern "C" fn(i32, *mut i32) -> c_int = super::ferriband_mpix_comm_get_failed;
const _: unsafe extern "C" fn(i32, *mut c_int, *mut i32) -> c_int =
    super::ferriband_mpix_comm_iagree;
const _: unsafe extern "C" fn(i32, *mut c_int) -> c_int = super::ferriband_mpix_comm_is_revoked;
const _: unsafe extern "C" fn(i32, *mut i32, *mut i32) -> c_int =
    super::ferriband_mpix_comm_ishrink;
const _: unsafe extern "C" fn(i32) -> c_int = super::ferriband_mpix_comm_revoke;
const _: unsafe extern "C" fn(i32, *mut i32) -> c_int = super::ferriband_mpix_comm_shrink;
const _: unsafe extern "C" fn(c_int, i32, *const c_char) -> c_int =
    super::ferriband_mpi_unsupported;
