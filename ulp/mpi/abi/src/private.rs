// Written by `cargo xtask mpi` from ulp/mpi/abi/table: change the table, not this file.
//
// SAFETY of every block here: the pointers are the caller's, as the standard demands of it; each is passed on or read and written once, at
// its own width.
#![allow(
    non_snake_case,
    unused_imports,
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    clippy::undocumented_unsafe_blocks,
    missing_docs
)]

use crate::convert::{Array, Status};
use core::ffi::{c_char, c_double, c_int, c_void};

unsafe extern "C" {
    pub fn ferriband_mpi_abi_get_fortran_booleans(
        logical_size: c_int,
        logical_true: *mut c_void,
        logical_false: *mut c_void,
        is_set: *mut c_int,
    ) -> c_int;
    pub fn ferriband_mpi_abi_get_fortran_info(info: *mut i32) -> c_int;
    pub fn ferriband_mpi_abi_get_info(info: *mut i32) -> c_int;
    pub fn ferriband_mpi_abi_get_version(abi_major: *mut c_int, abi_minor: *mut c_int) -> c_int;
    pub fn ferriband_mpi_abi_set_fortran_booleans(
        logical_size: c_int,
        logical_true: *mut c_void,
        logical_false: *mut c_void,
    ) -> c_int;
    pub fn ferriband_mpi_abi_set_fortran_info(info: i32) -> c_int;
    pub fn ferriband_mpi_abort(comm: i32, errorcode: c_int) -> c_int;
    pub fn ferriband_mpi_add_error_class(errorclass: *mut c_int) -> c_int;
    pub fn ferriband_mpi_add_error_code(errorclass: c_int, errorcode: *mut c_int) -> c_int;
    pub fn ferriband_mpi_add_error_string(errorcode: c_int, string: *const c_char) -> c_int;
    pub fn ferriband_mpi_allgather(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcount: i64,
        recvtype: i32,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_allgather_init(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcount: i64,
        recvtype: i32,
        comm: i32,
        info: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_allgatherv(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcounts: Array,
        displs: Array,
        recvtype: i32,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_allgatherv_init(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcounts: Array,
        displs: Array,
        recvtype: i32,
        comm: i32,
        info: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_alloc_mem(size: i64, info: i32, baseptr: *mut c_void) -> c_int;
    pub fn ferriband_mpi_allreduce(
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        count: i64,
        datatype: i32,
        op: i32,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_allreduce_init(
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        count: i64,
        datatype: i32,
        op: i32,
        comm: i32,
        info: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_alltoall(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcount: i64,
        recvtype: i32,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_alltoall_init(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcount: i64,
        recvtype: i32,
        comm: i32,
        info: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_alltoallv(
        sendbuf: *const c_void,
        sendcounts: Array,
        sdispls: Array,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcounts: Array,
        rdispls: Array,
        recvtype: i32,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_alltoallv_init(
        sendbuf: *const c_void,
        sendcounts: Array,
        sdispls: Array,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcounts: Array,
        rdispls: Array,
        recvtype: i32,
        comm: i32,
        info: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_alltoallw(
        sendbuf: *const c_void,
        sendcounts: Array,
        sdispls: Array,
        sendtypes: Array,
        recvbuf: *mut c_void,
        recvcounts: Array,
        rdispls: Array,
        recvtypes: Array,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_alltoallw_init(
        sendbuf: *const c_void,
        sendcounts: Array,
        sdispls: Array,
        sendtypes: Array,
        recvbuf: *mut c_void,
        recvcounts: Array,
        rdispls: Array,
        recvtypes: Array,
        comm: i32,
        info: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_attr_delete(comm: i32, keyval: c_int) -> c_int;
    pub fn ferriband_mpi_attr_get(
        comm: i32,
        keyval: c_int,
        attribute_val: *mut c_void,
        flag: *mut c_int,
    ) -> c_int;
    pub fn ferriband_mpi_attr_put(comm: i32, keyval: c_int, attribute_val: *mut c_void) -> c_int;
    pub fn ferriband_mpi_barrier(comm: i32) -> c_int;
    pub fn ferriband_mpi_barrier_init(comm: i32, info: i32, request: *mut i32) -> c_int;
    pub fn ferriband_mpi_bcast(
        buffer: *mut c_void,
        count: i64,
        datatype: i32,
        root: c_int,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_bcast_init(
        buffer: *mut c_void,
        count: i64,
        datatype: i32,
        root: c_int,
        comm: i32,
        info: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_bsend(
        buf: *const c_void,
        count: i64,
        datatype: i32,
        dest: c_int,
        tag: c_int,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_bsend_init(
        buf: *const c_void,
        count: i64,
        datatype: i32,
        dest: c_int,
        tag: c_int,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_buffer_attach(buffer: *mut c_void, size: i64) -> c_int;
    pub fn ferriband_mpi_buffer_detach(buffer_addr: *mut c_void, size: *mut i64) -> c_int;
    pub fn ferriband_mpi_buffer_flush() -> c_int;
    pub fn ferriband_mpi_buffer_iflush(request: *mut i32) -> c_int;
    pub fn ferriband_mpi_cancel(request: *mut i32) -> c_int;
    pub fn ferriband_mpi_cart_coords(
        comm: i32,
        rank: c_int,
        maxdims: c_int,
        coords: *mut c_int,
    ) -> c_int;
    pub fn ferriband_mpi_cart_create(
        comm_old: i32,
        ndims: c_int,
        dims: *const c_int,
        periods: *const c_int,
        reorder: c_int,
        comm_cart: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_cart_get(
        comm: i32,
        maxdims: c_int,
        dims: *mut c_int,
        periods: *mut c_int,
        coords: *mut c_int,
    ) -> c_int;
    pub fn ferriband_mpi_cart_map(
        comm: i32,
        ndims: c_int,
        dims: *const c_int,
        periods: *const c_int,
        newrank: *mut c_int,
    ) -> c_int;
    pub fn ferriband_mpi_cart_rank(comm: i32, coords: *const c_int, rank: *mut c_int) -> c_int;
    pub fn ferriband_mpi_cart_shift(
        comm: i32,
        direction: c_int,
        disp: c_int,
        rank_source: *mut c_int,
        rank_dest: *mut c_int,
    ) -> c_int;
    pub fn ferriband_mpi_cart_sub(comm: i32, remain_dims: *const c_int, newcomm: *mut i32)
    -> c_int;
    pub fn ferriband_mpi_cartdim_get(comm: i32, ndims: *mut c_int) -> c_int;
    pub fn ferriband_mpi_comm_attach_buffer(comm: i32, buffer: *mut c_void, size: i64) -> c_int;
    pub fn ferriband_mpi_comm_call_errhandler(comm: i32, errorcode: c_int) -> c_int;
    pub fn ferriband_mpi_comm_compare(comm1: i32, comm2: i32, result: *mut c_int) -> c_int;
    pub fn ferriband_mpi_comm_create(comm: i32, group: i32, newcomm: *mut i32) -> c_int;
    pub fn ferriband_mpi_comm_create_errhandler(
        comm_errhandler_fn: *const c_void,
        comm_errhandler_fn_thunk: *const c_void,
        errhandler: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_comm_create_from_group(
        group: i32,
        stringtag: *const c_char,
        info: i32,
        errhandler: i32,
        newcomm: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_comm_create_group(
        comm: i32,
        group: i32,
        tag: c_int,
        newcomm: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_comm_create_keyval(
        comm_copy_attr_fn: *const c_void,
        comm_copy_attr_fn_thunk: *const c_void,
        comm_delete_attr_fn: *const c_void,
        comm_delete_attr_fn_thunk: *const c_void,
        comm_keyval: *mut c_int,
        extra_state: *mut c_void,
    ) -> c_int;
    pub fn ferriband_mpi_comm_delete_attr(comm: i32, comm_keyval: c_int) -> c_int;
    pub fn ferriband_mpi_comm_detach_buffer(
        comm: i32,
        buffer_addr: *mut c_void,
        size: *mut i64,
    ) -> c_int;
    pub fn ferriband_mpi_comm_disconnect(comm: *mut i32) -> c_int;
    pub fn ferriband_mpi_comm_dup(comm: i32, newcomm: *mut i32) -> c_int;
    pub fn ferriband_mpi_comm_dup_with_info(comm: i32, info: i32, newcomm: *mut i32) -> c_int;
    pub fn ferriband_mpi_comm_flush_buffer(comm: i32) -> c_int;
    pub fn ferriband_mpi_comm_free(comm: *mut i32) -> c_int;
    pub fn ferriband_mpi_comm_free_keyval(comm_keyval: *mut c_int) -> c_int;
    pub fn ferriband_mpi_comm_get_attr(
        comm: i32,
        comm_keyval: c_int,
        attribute_val: *mut c_void,
        flag: *mut c_int,
    ) -> c_int;
    pub fn ferriband_mpi_comm_get_errhandler(comm: i32, errhandler: *mut i32) -> c_int;
    pub fn ferriband_mpi_comm_get_info(comm: i32, info_used: *mut i32) -> c_int;
    pub fn ferriband_mpi_comm_get_name(
        comm: i32,
        comm_name: *mut c_char,
        resultlen: *mut c_int,
    ) -> c_int;
    pub fn ferriband_mpi_comm_get_parent(parent: *mut i32) -> c_int;
    pub fn ferriband_mpi_comm_group(comm: i32, group: *mut i32) -> c_int;
    pub fn ferriband_mpi_comm_idup(comm: i32, newcomm: *mut i32, request: *mut i32) -> c_int;
    pub fn ferriband_mpi_comm_idup_with_info(
        comm: i32,
        info: i32,
        newcomm: *mut i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_comm_iflush_buffer(comm: i32, request: *mut i32) -> c_int;
    pub fn ferriband_mpi_comm_rank(comm: i32, rank: *mut c_int) -> c_int;
    pub fn ferriband_mpi_comm_remote_group(comm: i32, group: *mut i32) -> c_int;
    pub fn ferriband_mpi_comm_remote_size(comm: i32, size: *mut c_int) -> c_int;
    pub fn ferriband_mpi_comm_set_attr(
        comm: i32,
        comm_keyval: c_int,
        attribute_val: *mut c_void,
    ) -> c_int;
    pub fn ferriband_mpi_comm_set_errhandler(comm: i32, errhandler: i32) -> c_int;
    pub fn ferriband_mpi_comm_set_info(comm: i32, info: i32) -> c_int;
    pub fn ferriband_mpi_comm_set_name(comm: i32, comm_name: *const c_char) -> c_int;
    pub fn ferriband_mpi_comm_size(comm: i32, size: *mut c_int) -> c_int;
    pub fn ferriband_mpi_comm_split(
        comm: i32,
        color: c_int,
        key: c_int,
        newcomm: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_comm_split_type(
        comm: i32,
        split_type: c_int,
        key: c_int,
        info: i32,
        newcomm: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_comm_test_inter(comm: i32, flag: *mut c_int) -> c_int;
    pub fn ferriband_mpi_dims_create(nnodes: c_int, ndims: c_int, dims: *mut c_int) -> c_int;
    pub fn ferriband_mpi_dist_graph_create(
        comm_old: i32,
        n: c_int,
        sources: *const c_int,
        degrees: *const c_int,
        destinations: *const c_int,
        weights: *const c_int,
        info: i32,
        reorder: c_int,
        comm_dist_graph: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_dist_graph_create_adjacent(
        comm_old: i32,
        indegree: c_int,
        sources: *const c_int,
        sourceweights: *const c_int,
        outdegree: c_int,
        destinations: *const c_int,
        destweights: *const c_int,
        info: i32,
        reorder: c_int,
        comm_dist_graph: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_dist_graph_neighbors(
        comm: i32,
        maxindegree: c_int,
        sources: *mut c_int,
        sourceweights: *mut c_int,
        maxoutdegree: c_int,
        destinations: *mut c_int,
        destweights: *mut c_int,
    ) -> c_int;
    pub fn ferriband_mpi_dist_graph_neighbors_count(
        comm: i32,
        indegree: *mut c_int,
        outdegree: *mut c_int,
        weighted: *mut c_int,
    ) -> c_int;
    pub fn ferriband_mpi_errhandler_free(errhandler: *mut i32) -> c_int;
    pub fn ferriband_mpi_error_class(errorcode: c_int, errorclass: *mut c_int) -> c_int;
    pub fn ferriband_mpi_error_string(
        errorcode: c_int,
        string: *mut c_char,
        resultlen: *mut c_int,
    ) -> c_int;
    pub fn ferriband_mpi_exscan(
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        count: i64,
        datatype: i32,
        op: i32,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_exscan_init(
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        count: i64,
        datatype: i32,
        op: i32,
        comm: i32,
        info: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_file_call_errhandler(fh: i32, errorcode: c_int) -> c_int;
    pub fn ferriband_mpi_file_create_errhandler(
        file_errhandler_fn: *const c_void,
        file_errhandler_fn_thunk: *const c_void,
        errhandler: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_file_get_errhandler(file: i32, errhandler: *mut i32) -> c_int;
    pub fn ferriband_mpi_file_set_errhandler(file: i32, errhandler: i32) -> c_int;
    pub fn ferriband_mpi_finalize() -> c_int;
    pub fn ferriband_mpi_finalized(flag: *mut c_int) -> c_int;
    pub fn ferriband_mpi_free_mem(base: *mut c_void) -> c_int;
    pub fn ferriband_mpi_gather(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcount: i64,
        recvtype: i32,
        root: c_int,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_gather_init(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcount: i64,
        recvtype: i32,
        root: c_int,
        comm: i32,
        info: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_gatherv(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcounts: Array,
        displs: Array,
        recvtype: i32,
        root: c_int,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_gatherv_init(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcounts: Array,
        displs: Array,
        recvtype: i32,
        root: c_int,
        comm: i32,
        info: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_get_address(location: *const c_void, address: *mut i64) -> c_int;
    pub fn ferriband_mpi_get_count(status: *const Status, datatype: i32, count: *mut i64) -> c_int;
    pub fn ferriband_mpi_get_elements(
        status: *const Status,
        datatype: i32,
        count: *mut i64,
    ) -> c_int;
    pub fn ferriband_mpi_get_elements_x(
        status: *const Status,
        datatype: i32,
        count: *mut i64,
    ) -> c_int;
    pub fn ferriband_mpi_get_hw_resource_info(hw_info: *mut i32) -> c_int;
    pub fn ferriband_mpi_get_library_version(version: *mut c_char, resultlen: *mut c_int) -> c_int;
    pub fn ferriband_mpi_get_processor_name(name: *mut c_char, resultlen: *mut c_int) -> c_int;
    pub fn ferriband_mpi_get_version(version: *mut c_int, subversion: *mut c_int) -> c_int;
    pub fn ferriband_mpi_graph_create(
        comm_old: i32,
        nnodes: c_int,
        indx: *const c_int,
        edges: *const c_int,
        reorder: c_int,
        comm_graph: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_graph_get(
        comm: i32,
        maxindex: c_int,
        maxedges: c_int,
        indx: *mut c_int,
        edges: *mut c_int,
    ) -> c_int;
    pub fn ferriband_mpi_graph_map(
        comm: i32,
        nnodes: c_int,
        indx: *const c_int,
        edges: *const c_int,
        newrank: *mut c_int,
    ) -> c_int;
    pub fn ferriband_mpi_graph_neighbors(
        comm: i32,
        rank: c_int,
        maxneighbors: c_int,
        neighbors: *mut c_int,
    ) -> c_int;
    pub fn ferriband_mpi_graph_neighbors_count(
        comm: i32,
        rank: c_int,
        nneighbors: *mut c_int,
    ) -> c_int;
    pub fn ferriband_mpi_graphdims_get(comm: i32, nnodes: *mut c_int, nedges: *mut c_int) -> c_int;
    pub fn ferriband_mpi_grequest_complete(request: i32) -> c_int;
    pub fn ferriband_mpi_grequest_start(
        query_fn: *const c_void,
        query_fn_thunk: *const c_void,
        free_fn: *const c_void,
        free_fn_thunk: *const c_void,
        cancel_fn: *const c_void,
        cancel_fn_thunk: *const c_void,
        extra_state: *mut c_void,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_group_compare(group1: i32, group2: i32, result: *mut c_int) -> c_int;
    pub fn ferriband_mpi_group_difference(group1: i32, group2: i32, newgroup: *mut i32) -> c_int;
    pub fn ferriband_mpi_group_excl(
        group: i32,
        n: c_int,
        ranks: *const c_int,
        newgroup: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_group_free(group: *mut i32) -> c_int;
    pub fn ferriband_mpi_group_from_session_pset(
        session: i32,
        pset_name: *const c_char,
        newgroup: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_group_incl(
        group: i32,
        n: c_int,
        ranks: *const c_int,
        newgroup: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_group_intersection(group1: i32, group2: i32, newgroup: *mut i32) -> c_int;
    pub fn ferriband_mpi_group_range_excl(
        group: i32,
        n: c_int,
        ranges: *mut c_int,
        newgroup: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_group_range_incl(
        group: i32,
        n: c_int,
        ranges: *mut c_int,
        newgroup: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_group_rank(group: i32, rank: *mut c_int) -> c_int;
    pub fn ferriband_mpi_group_size(group: i32, size: *mut c_int) -> c_int;
    pub fn ferriband_mpi_group_translate_ranks(
        group1: i32,
        n: c_int,
        ranks1: *const c_int,
        group2: i32,
        ranks2: *mut c_int,
    ) -> c_int;
    pub fn ferriband_mpi_group_union(group1: i32, group2: i32, newgroup: *mut i32) -> c_int;
    pub fn ferriband_mpi_iallgather(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcount: i64,
        recvtype: i32,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_iallgatherv(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcounts: Array,
        displs: Array,
        recvtype: i32,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_iallreduce(
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        count: i64,
        datatype: i32,
        op: i32,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_ialltoall(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcount: i64,
        recvtype: i32,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_ialltoallv(
        sendbuf: *const c_void,
        sendcounts: Array,
        sdispls: Array,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcounts: Array,
        rdispls: Array,
        recvtype: i32,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_ialltoallw(
        sendbuf: *const c_void,
        sendcounts: Array,
        sdispls: Array,
        sendtypes: Array,
        recvbuf: *mut c_void,
        recvcounts: Array,
        rdispls: Array,
        recvtypes: Array,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_ibarrier(comm: i32, request: *mut i32) -> c_int;
    pub fn ferriband_mpi_ibcast(
        buffer: *mut c_void,
        count: i64,
        datatype: i32,
        root: c_int,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_ibsend(
        buf: *const c_void,
        count: i64,
        datatype: i32,
        dest: c_int,
        tag: c_int,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_iexscan(
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        count: i64,
        datatype: i32,
        op: i32,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_igather(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcount: i64,
        recvtype: i32,
        root: c_int,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_igatherv(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcounts: Array,
        displs: Array,
        recvtype: i32,
        root: c_int,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_improbe(
        source: c_int,
        tag: c_int,
        comm: i32,
        flag: *mut c_int,
        message: *mut i32,
        status: *mut Status,
    ) -> c_int;
    pub fn ferriband_mpi_imrecv(
        buf: *mut c_void,
        count: i64,
        datatype: i32,
        message: *mut i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_ineighbor_allgather(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcount: i64,
        recvtype: i32,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_ineighbor_allgatherv(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcounts: Array,
        displs: Array,
        recvtype: i32,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_ineighbor_alltoall(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcount: i64,
        recvtype: i32,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_ineighbor_alltoallv(
        sendbuf: *const c_void,
        sendcounts: Array,
        sdispls: Array,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcounts: Array,
        rdispls: Array,
        recvtype: i32,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_ineighbor_alltoallw(
        sendbuf: *const c_void,
        sendcounts: Array,
        sdispls: *const i64,
        sendtypes: Array,
        recvbuf: *mut c_void,
        recvcounts: Array,
        rdispls: *const i64,
        recvtypes: Array,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_info_create(info: *mut i32) -> c_int;
    pub fn ferriband_mpi_info_create_env(
        argc: c_int,
        argv: *mut *mut c_char,
        info: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_info_delete(info: i32, key: *const c_char) -> c_int;
    pub fn ferriband_mpi_info_dup(info: i32, newinfo: *mut i32) -> c_int;
    pub fn ferriband_mpi_info_free(info: *mut i32) -> c_int;
    pub fn ferriband_mpi_info_get(
        info: i32,
        key: *const c_char,
        valuelen: c_int,
        value: *mut c_char,
        flag: *mut c_int,
    ) -> c_int;
    pub fn ferriband_mpi_info_get_nkeys(info: i32, nkeys: *mut c_int) -> c_int;
    pub fn ferriband_mpi_info_get_nthkey(info: i32, n: c_int, key: *mut c_char) -> c_int;
    pub fn ferriband_mpi_info_get_string(
        info: i32,
        key: *const c_char,
        buflen: *mut c_int,
        value: *mut c_char,
        flag: *mut c_int,
    ) -> c_int;
    pub fn ferriband_mpi_info_get_valuelen(
        info: i32,
        key: *const c_char,
        valuelen: *mut c_int,
        flag: *mut c_int,
    ) -> c_int;
    pub fn ferriband_mpi_info_set(info: i32, key: *const c_char, value: *const c_char) -> c_int;
    pub fn ferriband_mpi_init(argc: *mut c_int, argv: *mut *mut *mut c_char) -> c_int;
    pub fn ferriband_mpi_init_thread(
        argc: *mut c_int,
        argv: *mut *mut *mut c_char,
        required: c_int,
        provided: *mut c_int,
    ) -> c_int;
    pub fn ferriband_mpi_initialized(flag: *mut c_int) -> c_int;
    pub fn ferriband_mpi_intercomm_create(
        local_comm: i32,
        local_leader: c_int,
        peer_comm: i32,
        remote_leader: c_int,
        tag: c_int,
        newintercomm: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_intercomm_create_from_groups(
        local_group: i32,
        local_leader: c_int,
        remote_group: i32,
        remote_leader: c_int,
        stringtag: *const c_char,
        info: i32,
        errhandler: i32,
        newintercomm: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_intercomm_merge(
        intercomm: i32,
        high: c_int,
        newintracomm: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_iprobe(
        source: c_int,
        tag: c_int,
        comm: i32,
        flag: *mut c_int,
        status: *mut Status,
    ) -> c_int;
    pub fn ferriband_mpi_irecv(
        buf: *mut c_void,
        count: i64,
        datatype: i32,
        source: c_int,
        tag: c_int,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_ireduce(
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        count: i64,
        datatype: i32,
        op: i32,
        root: c_int,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_ireduce_scatter(
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        recvcounts: Array,
        datatype: i32,
        op: i32,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_ireduce_scatter_block(
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        recvcount: i64,
        datatype: i32,
        op: i32,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_irsend(
        buf: *const c_void,
        count: i64,
        datatype: i32,
        dest: c_int,
        tag: c_int,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_is_thread_main(flag: *mut c_int) -> c_int;
    pub fn ferriband_mpi_iscan(
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        count: i64,
        datatype: i32,
        op: i32,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_iscatter(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcount: i64,
        recvtype: i32,
        root: c_int,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_iscatterv(
        sendbuf: *const c_void,
        sendcounts: Array,
        displs: Array,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcount: i64,
        recvtype: i32,
        root: c_int,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_isend(
        buf: *const c_void,
        count: i64,
        datatype: i32,
        dest: c_int,
        tag: c_int,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_isendrecv(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        dest: c_int,
        sendtag: c_int,
        recvbuf: *mut c_void,
        recvcount: i64,
        recvtype: i32,
        source: c_int,
        recvtag: c_int,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_isendrecv_replace(
        buf: *mut c_void,
        count: i64,
        datatype: i32,
        dest: c_int,
        sendtag: c_int,
        source: c_int,
        recvtag: c_int,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_issend(
        buf: *const c_void,
        count: i64,
        datatype: i32,
        dest: c_int,
        tag: c_int,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_keyval_create(
        copy_fn: *const c_void,
        copy_fn_thunk: *const c_void,
        delete_fn: *const c_void,
        delete_fn_thunk: *const c_void,
        keyval: *mut c_int,
        extra_state: *mut c_void,
    ) -> c_int;
    pub fn ferriband_mpi_keyval_free(keyval: *mut c_int) -> c_int;
    pub fn ferriband_mpi_mprobe(
        source: c_int,
        tag: c_int,
        comm: i32,
        message: *mut i32,
        status: *mut Status,
    ) -> c_int;
    pub fn ferriband_mpi_mrecv(
        buf: *mut c_void,
        count: i64,
        datatype: i32,
        message: *mut i32,
        status: *mut Status,
    ) -> c_int;
    pub fn ferriband_mpi_neighbor_allgather(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcount: i64,
        recvtype: i32,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_neighbor_allgather_init(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcount: i64,
        recvtype: i32,
        comm: i32,
        info: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_neighbor_allgatherv(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcounts: Array,
        displs: Array,
        recvtype: i32,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_neighbor_allgatherv_init(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcounts: Array,
        displs: Array,
        recvtype: i32,
        comm: i32,
        info: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_neighbor_alltoall(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcount: i64,
        recvtype: i32,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_neighbor_alltoall_init(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcount: i64,
        recvtype: i32,
        comm: i32,
        info: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_neighbor_alltoallv(
        sendbuf: *const c_void,
        sendcounts: Array,
        sdispls: Array,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcounts: Array,
        rdispls: Array,
        recvtype: i32,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_neighbor_alltoallv_init(
        sendbuf: *const c_void,
        sendcounts: Array,
        sdispls: Array,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcounts: Array,
        rdispls: Array,
        recvtype: i32,
        comm: i32,
        info: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_neighbor_alltoallw(
        sendbuf: *const c_void,
        sendcounts: Array,
        sdispls: *const i64,
        sendtypes: Array,
        recvbuf: *mut c_void,
        recvcounts: Array,
        rdispls: *const i64,
        recvtypes: Array,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_neighbor_alltoallw_init(
        sendbuf: *const c_void,
        sendcounts: Array,
        sdispls: *const i64,
        sendtypes: Array,
        recvbuf: *mut c_void,
        recvcounts: Array,
        rdispls: *const i64,
        recvtypes: Array,
        comm: i32,
        info: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_op_commutative(op: i32, commute: *mut c_int) -> c_int;
    pub fn ferriband_mpi_op_create(
        user_fn: *const c_void,
        user_fn_thunk: *const c_void,
        commute: c_int,
        op: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_op_free(op: *mut i32) -> c_int;
    pub fn ferriband_mpi_pack(
        inbuf: *const c_void,
        incount: i64,
        datatype: i32,
        outbuf: *mut c_void,
        outsize: i64,
        position: *mut i64,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_pack_external(
        datarep: *const c_char,
        inbuf: *const c_void,
        incount: i64,
        datatype: i32,
        outbuf: *mut c_void,
        outsize: i64,
        position: *mut i64,
    ) -> c_int;
    pub fn ferriband_mpi_pack_external_size(
        datarep: *const c_char,
        incount: i64,
        datatype: i32,
        size: *mut i64,
    ) -> c_int;
    pub fn ferriband_mpi_pack_size(incount: i64, datatype: i32, comm: i32, size: *mut i64)
    -> c_int;
    pub fn ferriband_mpi_parrived(request: i32, partition: c_int, flag: *mut c_int) -> c_int;
    pub fn ferriband_mpi_pcontrol(level: c_int) -> c_int;
    pub fn ferriband_mpi_pready(partition: c_int, request: i32) -> c_int;
    pub fn ferriband_mpi_pready_list(
        length: c_int,
        array_of_partitions: *const c_int,
        request: i32,
    ) -> c_int;
    pub fn ferriband_mpi_pready_range(
        partition_low: c_int,
        partition_high: c_int,
        request: i32,
    ) -> c_int;
    pub fn ferriband_mpi_precv_init(
        buf: *mut c_void,
        partitions: c_int,
        count: i64,
        datatype: i32,
        dest: c_int,
        tag: c_int,
        comm: i32,
        info: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_probe(source: c_int, tag: c_int, comm: i32, status: *mut Status) -> c_int;
    pub fn ferriband_mpi_psend_init(
        buf: *const c_void,
        partitions: c_int,
        count: i64,
        datatype: i32,
        dest: c_int,
        tag: c_int,
        comm: i32,
        info: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_query_thread(provided: *mut c_int) -> c_int;
    pub fn ferriband_mpi_recv(
        buf: *mut c_void,
        count: i64,
        datatype: i32,
        source: c_int,
        tag: c_int,
        comm: i32,
        status: *mut Status,
    ) -> c_int;
    pub fn ferriband_mpi_recv_init(
        buf: *mut c_void,
        count: i64,
        datatype: i32,
        source: c_int,
        tag: c_int,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_reduce(
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        count: i64,
        datatype: i32,
        op: i32,
        root: c_int,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_reduce_init(
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        count: i64,
        datatype: i32,
        op: i32,
        root: c_int,
        comm: i32,
        info: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_reduce_local(
        inbuf: *const c_void,
        inoutbuf: *mut c_void,
        count: i64,
        datatype: i32,
        op: i32,
    ) -> c_int;
    pub fn ferriband_mpi_reduce_scatter(
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        recvcounts: Array,
        datatype: i32,
        op: i32,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_reduce_scatter_block(
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        recvcount: i64,
        datatype: i32,
        op: i32,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_reduce_scatter_block_init(
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        recvcount: i64,
        datatype: i32,
        op: i32,
        comm: i32,
        info: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_reduce_scatter_init(
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        recvcounts: Array,
        datatype: i32,
        op: i32,
        comm: i32,
        info: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_remove_error_class(errorclass: c_int) -> c_int;
    pub fn ferriband_mpi_remove_error_code(errorcode: c_int) -> c_int;
    pub fn ferriband_mpi_remove_error_string(errorcode: c_int) -> c_int;
    pub fn ferriband_mpi_request_free(request: *mut i32) -> c_int;
    pub fn ferriband_mpi_request_get_status(
        request: i32,
        flag: *mut c_int,
        status: *mut Status,
    ) -> c_int;
    pub fn ferriband_mpi_request_get_status_all(
        count: c_int,
        array_of_requests: Array,
        flag: *mut c_int,
        array_of_statuses: *mut Status,
    ) -> c_int;
    pub fn ferriband_mpi_request_get_status_any(
        count: c_int,
        array_of_requests: Array,
        indx: *mut c_int,
        flag: *mut c_int,
        status: *mut Status,
    ) -> c_int;
    pub fn ferriband_mpi_request_get_status_some(
        incount: c_int,
        array_of_requests: Array,
        outcount: *mut c_int,
        array_of_indices: *mut c_int,
        array_of_statuses: *mut Status,
    ) -> c_int;
    pub fn ferriband_mpi_rsend(
        buf: *const c_void,
        count: i64,
        datatype: i32,
        dest: c_int,
        tag: c_int,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_rsend_init(
        buf: *const c_void,
        count: i64,
        datatype: i32,
        dest: c_int,
        tag: c_int,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_scan(
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        count: i64,
        datatype: i32,
        op: i32,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_scan_init(
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        count: i64,
        datatype: i32,
        op: i32,
        comm: i32,
        info: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_scatter(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcount: i64,
        recvtype: i32,
        root: c_int,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_scatter_init(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcount: i64,
        recvtype: i32,
        root: c_int,
        comm: i32,
        info: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_scatterv(
        sendbuf: *const c_void,
        sendcounts: Array,
        displs: Array,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcount: i64,
        recvtype: i32,
        root: c_int,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_scatterv_init(
        sendbuf: *const c_void,
        sendcounts: Array,
        displs: Array,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcount: i64,
        recvtype: i32,
        root: c_int,
        comm: i32,
        info: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_send(
        buf: *const c_void,
        count: i64,
        datatype: i32,
        dest: c_int,
        tag: c_int,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_send_init(
        buf: *const c_void,
        count: i64,
        datatype: i32,
        dest: c_int,
        tag: c_int,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_sendrecv(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        dest: c_int,
        sendtag: c_int,
        recvbuf: *mut c_void,
        recvcount: i64,
        recvtype: i32,
        source: c_int,
        recvtag: c_int,
        comm: i32,
        status: *mut Status,
    ) -> c_int;
    pub fn ferriband_mpi_sendrecv_replace(
        buf: *mut c_void,
        count: i64,
        datatype: i32,
        dest: c_int,
        sendtag: c_int,
        source: c_int,
        recvtag: c_int,
        comm: i32,
        status: *mut Status,
    ) -> c_int;
    pub fn ferriband_mpi_session_attach_buffer(
        session: i32,
        buffer: *mut c_void,
        size: i64,
    ) -> c_int;
    pub fn ferriband_mpi_session_call_errhandler(session: i32, errorcode: c_int) -> c_int;
    pub fn ferriband_mpi_session_create_errhandler(
        session_errhandler_fn: *const c_void,
        session_errhandler_fn_thunk: *const c_void,
        errhandler: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_session_detach_buffer(
        session: i32,
        buffer_addr: *mut c_void,
        size: *mut i64,
    ) -> c_int;
    pub fn ferriband_mpi_session_finalize(session: *mut i32) -> c_int;
    pub fn ferriband_mpi_session_flush_buffer(session: i32) -> c_int;
    pub fn ferriband_mpi_session_get_errhandler(session: i32, errhandler: *mut i32) -> c_int;
    pub fn ferriband_mpi_session_get_info(session: i32, info_used: *mut i32) -> c_int;
    pub fn ferriband_mpi_session_get_nth_pset(
        session: i32,
        info: i32,
        n: c_int,
        pset_len: *mut c_int,
        pset_name: *mut c_char,
    ) -> c_int;
    pub fn ferriband_mpi_session_get_num_psets(
        session: i32,
        info: i32,
        npset_names: *mut c_int,
    ) -> c_int;
    pub fn ferriband_mpi_session_get_pset_info(
        session: i32,
        pset_name: *const c_char,
        info: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_session_iflush_buffer(session: i32, request: *mut i32) -> c_int;
    pub fn ferriband_mpi_session_init(info: i32, errhandler: i32, session: *mut i32) -> c_int;
    pub fn ferriband_mpi_session_set_errhandler(session: i32, errhandler: i32) -> c_int;
    pub fn ferriband_mpi_ssend(
        buf: *const c_void,
        count: i64,
        datatype: i32,
        dest: c_int,
        tag: c_int,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_ssend_init(
        buf: *const c_void,
        count: i64,
        datatype: i32,
        dest: c_int,
        tag: c_int,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_start(request: *mut i32) -> c_int;
    pub fn ferriband_mpi_startall(count: c_int, array_of_requests: Array) -> c_int;
    pub fn ferriband_mpi_status_get_error(status: *const Status, error: *mut c_int) -> c_int;
    pub fn ferriband_mpi_status_get_source(status: *const Status, source: *mut c_int) -> c_int;
    pub fn ferriband_mpi_status_get_tag(status: *const Status, tag: *mut c_int) -> c_int;
    pub fn ferriband_mpi_status_set_cancelled(status: *mut Status, flag: c_int) -> c_int;
    pub fn ferriband_mpi_status_set_elements(
        status: *mut Status,
        datatype: i32,
        count: i64,
    ) -> c_int;
    pub fn ferriband_mpi_status_set_elements_x(
        status: *mut Status,
        datatype: i32,
        count: i64,
    ) -> c_int;
    pub fn ferriband_mpi_status_set_error(status: *mut Status, error: c_int) -> c_int;
    pub fn ferriband_mpi_status_set_source(status: *mut Status, source: c_int) -> c_int;
    pub fn ferriband_mpi_status_set_tag(status: *mut Status, tag: c_int) -> c_int;
    pub fn ferriband_mpi_test(request: *mut i32, flag: *mut c_int, status: *mut Status) -> c_int;
    pub fn ferriband_mpi_test_cancelled(status: *const Status, flag: *mut c_int) -> c_int;
    pub fn ferriband_mpi_testall(
        count: c_int,
        array_of_requests: Array,
        flag: *mut c_int,
        array_of_statuses: *mut Status,
    ) -> c_int;
    pub fn ferriband_mpi_testany(
        count: c_int,
        array_of_requests: Array,
        indx: *mut c_int,
        flag: *mut c_int,
        status: *mut Status,
    ) -> c_int;
    pub fn ferriband_mpi_testsome(
        incount: c_int,
        array_of_requests: Array,
        outcount: *mut c_int,
        array_of_indices: *mut c_int,
        array_of_statuses: *mut Status,
    ) -> c_int;
    pub fn ferriband_mpi_topo_test(comm: i32, status: *mut c_int) -> c_int;
    pub fn ferriband_mpi_type_commit(datatype: *mut i32) -> c_int;
    pub fn ferriband_mpi_type_contiguous(count: i64, oldtype: i32, newtype: *mut i32) -> c_int;
    pub fn ferriband_mpi_type_contiguous_c(count: i64, oldtype: i32, newtype: *mut i32) -> c_int;
    pub fn ferriband_mpi_type_create_darray(
        size: c_int,
        rank: c_int,
        ndims: c_int,
        array_of_gsizes: Array,
        array_of_distribs: *const c_int,
        array_of_dargs: *const c_int,
        array_of_psizes: *const c_int,
        order: c_int,
        oldtype: i32,
        newtype: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_type_create_f90_complex(p: c_int, r: c_int, newtype: *mut i32) -> c_int;
    pub fn ferriband_mpi_type_create_f90_integer(r: c_int, newtype: *mut i32) -> c_int;
    pub fn ferriband_mpi_type_create_f90_real(p: c_int, r: c_int, newtype: *mut i32) -> c_int;
    pub fn ferriband_mpi_type_create_hindexed(
        count: i64,
        array_of_blocklengths: Array,
        array_of_displacements: *const i64,
        oldtype: i32,
        newtype: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_type_create_hindexed_block(
        count: i64,
        blocklength: i64,
        array_of_displacements: *const i64,
        oldtype: i32,
        newtype: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_type_create_hindexed_block_c(
        count: i64,
        blocklength: i64,
        array_of_displacements: *const i64,
        oldtype: i32,
        newtype: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_type_create_hvector(
        count: i64,
        blocklength: i64,
        stride: i64,
        oldtype: i32,
        newtype: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_type_create_hvector_c(
        count: i64,
        blocklength: i64,
        stride: i64,
        oldtype: i32,
        newtype: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_type_create_indexed_block(
        count: i64,
        blocklength: i64,
        array_of_displacements: Array,
        oldtype: i32,
        newtype: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_type_create_keyval(
        type_copy_attr_fn: *const c_void,
        type_copy_attr_fn_thunk: *const c_void,
        type_delete_attr_fn: *const c_void,
        type_delete_attr_fn_thunk: *const c_void,
        type_keyval: *mut c_int,
        extra_state: *mut c_void,
    ) -> c_int;
    pub fn ferriband_mpi_type_create_resized(
        oldtype: i32,
        lb: i64,
        extent: i64,
        newtype: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_type_create_resized_c(
        oldtype: i32,
        lb: i64,
        extent: i64,
        newtype: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_type_create_struct(
        count: i64,
        array_of_blocklengths: Array,
        array_of_displacements: *const i64,
        array_of_types: Array,
        newtype: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_type_create_subarray(
        ndims: c_int,
        array_of_sizes: Array,
        array_of_subsizes: Array,
        array_of_starts: Array,
        order: c_int,
        oldtype: i32,
        newtype: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_type_delete_attr(datatype: i32, type_keyval: c_int) -> c_int;
    pub fn ferriband_mpi_type_dup(oldtype: i32, newtype: *mut i32) -> c_int;
    pub fn ferriband_mpi_type_free(datatype: *mut i32) -> c_int;
    pub fn ferriband_mpi_type_free_keyval(type_keyval: *mut c_int) -> c_int;
    pub fn ferriband_mpi_type_get_attr(
        datatype: i32,
        type_keyval: c_int,
        attribute_val: *mut c_void,
        flag: *mut c_int,
    ) -> c_int;
    pub fn ferriband_mpi_type_get_contents(
        datatype: i32,
        max_integers: c_int,
        max_addresses: c_int,
        max_datatypes: c_int,
        array_of_integers: *mut c_int,
        array_of_addresses: *mut i64,
        array_of_datatypes: Array,
    ) -> c_int;
    pub fn ferriband_mpi_type_get_contents_c(
        datatype: i32,
        max_integers: i64,
        max_addresses: i64,
        max_large_counts: i64,
        max_datatypes: i64,
        array_of_integers: *mut c_int,
        array_of_addresses: *mut i64,
        array_of_large_counts: *mut i64,
        array_of_datatypes: Array,
    ) -> c_int;
    pub fn ferriband_mpi_type_get_envelope(
        datatype: i32,
        num_integers: *mut c_int,
        num_addresses: *mut c_int,
        num_datatypes: *mut c_int,
        combiner: *mut c_int,
    ) -> c_int;
    pub fn ferriband_mpi_type_get_envelope_c(
        datatype: i32,
        num_integers: *mut i64,
        num_addresses: *mut i64,
        num_large_counts: *mut i64,
        num_datatypes: *mut i64,
        combiner: *mut c_int,
    ) -> c_int;
    pub fn ferriband_mpi_type_get_extent(datatype: i32, lb: *mut i64, extent: *mut i64) -> c_int;
    pub fn ferriband_mpi_type_get_extent_x(datatype: i32, lb: *mut i64, extent: *mut i64) -> c_int;
    pub fn ferriband_mpi_type_get_name(
        datatype: i32,
        type_name: *mut c_char,
        resultlen: *mut c_int,
    ) -> c_int;
    pub fn ferriband_mpi_type_get_true_extent(
        datatype: i32,
        true_lb: *mut i64,
        true_extent: *mut i64,
    ) -> c_int;
    pub fn ferriband_mpi_type_get_true_extent_x(
        datatype: i32,
        true_lb: *mut i64,
        true_extent: *mut i64,
    ) -> c_int;
    pub fn ferriband_mpi_type_get_value_index(
        value_type: i32,
        index_type: i32,
        pair_type: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_type_indexed(
        count: i64,
        array_of_blocklengths: Array,
        array_of_displacements: Array,
        oldtype: i32,
        newtype: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_type_match_size(
        typeclass: c_int,
        size: c_int,
        datatype: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_type_set_attr(
        datatype: i32,
        type_keyval: c_int,
        attribute_val: *mut c_void,
    ) -> c_int;
    pub fn ferriband_mpi_type_set_name(datatype: i32, type_name: *const c_char) -> c_int;
    pub fn ferriband_mpi_type_size(datatype: i32, size: *mut i64) -> c_int;
    pub fn ferriband_mpi_type_size_x(datatype: i32, size: *mut i64) -> c_int;
    pub fn ferriband_mpi_type_vector(
        count: i64,
        blocklength: i64,
        stride: i64,
        oldtype: i32,
        newtype: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_type_vector_c(
        count: i64,
        blocklength: i64,
        stride: i64,
        oldtype: i32,
        newtype: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_unpack(
        inbuf: *const c_void,
        insize: i64,
        position: *mut i64,
        outbuf: *mut c_void,
        outcount: i64,
        datatype: i32,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_unpack_external(
        datarep: *const c_char,
        inbuf: *const c_void,
        insize: i64,
        position: *mut i64,
        outbuf: *mut c_void,
        outcount: i64,
        datatype: i32,
    ) -> c_int;
    pub fn ferriband_mpi_wait(request: *mut i32, status: *mut Status) -> c_int;
    pub fn ferriband_mpi_waitall(
        count: c_int,
        array_of_requests: Array,
        array_of_statuses: *mut Status,
    ) -> c_int;
    pub fn ferriband_mpi_waitany(
        count: c_int,
        array_of_requests: Array,
        indx: *mut c_int,
        status: *mut Status,
    ) -> c_int;
    pub fn ferriband_mpi_waitsome(
        incount: c_int,
        array_of_requests: Array,
        outcount: *mut c_int,
        array_of_indices: *mut c_int,
        array_of_statuses: *mut Status,
    ) -> c_int;
    pub fn ferriband_mpi_wtick() -> c_double;
    pub fn ferriband_mpi_wtime() -> c_double;
    pub fn ferriband_mpix_comm_ack_failed(
        comm: i32,
        num_to_ack: c_int,
        num_acked: *mut c_int,
    ) -> c_int;
    pub fn ferriband_mpix_comm_agree(comm: i32, flag: *mut c_int) -> c_int;
    pub fn ferriband_mpix_comm_failure_ack(comm: i32) -> c_int;
    pub fn ferriband_mpix_comm_failure_get_acked(comm: i32, failedgrp: *mut i32) -> c_int;
    pub fn ferriband_mpix_comm_get_failed(comm: i32, failedgrp: *mut i32) -> c_int;
    pub fn ferriband_mpix_comm_iagree(comm: i32, flag: *mut c_int, request: *mut i32) -> c_int;
    pub fn ferriband_mpix_comm_is_revoked(comm: i32, flag: *mut c_int) -> c_int;
    pub fn ferriband_mpix_comm_ishrink(comm: i32, newcomm: *mut i32, request: *mut i32) -> c_int;
    pub fn ferriband_mpix_comm_revoke(comm: i32) -> c_int;
    pub fn ferriband_mpix_comm_shrink(comm: i32, newcomm: *mut i32) -> c_int;
    pub fn ferriband_mpi_unsupported(object: c_int, handle: i32, function: *const c_char) -> c_int;
}
