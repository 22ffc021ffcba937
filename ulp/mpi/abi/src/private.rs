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
    pub fn ferriband_mpi_abi_get_version(abi_major: *mut c_int, abi_minor: *mut c_int) -> c_int;
    pub fn ferriband_mpi_abort(comm: i32, errorcode: c_int) -> c_int;
    pub fn ferriband_mpi_allgather(
        sendbuf: *const c_void,
        sendcount: i64,
        sendtype: i32,
        recvbuf: *mut c_void,
        recvcount: i64,
        recvtype: i32,
        comm: i32,
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
    pub fn ferriband_mpi_alloc_mem(size: i64, info: i32, baseptr: *mut c_void) -> c_int;
    pub fn ferriband_mpi_allreduce(
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        count: i64,
        datatype: i32,
        op: i32,
        comm: i32,
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
    pub fn ferriband_mpi_barrier(comm: i32) -> c_int;
    pub fn ferriband_mpi_bcast(
        buffer: *mut c_void,
        count: i64,
        datatype: i32,
        root: c_int,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_comm_call_errhandler(comm: i32, errorcode: c_int) -> c_int;
    pub fn ferriband_mpi_comm_compare(comm1: i32, comm2: i32, result: *mut c_int) -> c_int;
    pub fn ferriband_mpi_comm_dup(comm: i32, newcomm: *mut i32) -> c_int;
    pub fn ferriband_mpi_comm_free(comm: *mut i32) -> c_int;
    pub fn ferriband_mpi_comm_get_errhandler(comm: i32, errhandler: *mut i32) -> c_int;
    pub fn ferriband_mpi_comm_get_name(
        comm: i32,
        comm_name: *mut c_char,
        resultlen: *mut c_int,
    ) -> c_int;
    pub fn ferriband_mpi_comm_rank(comm: i32, rank: *mut c_int) -> c_int;
    pub fn ferriband_mpi_comm_set_errhandler(comm: i32, errhandler: i32) -> c_int;
    pub fn ferriband_mpi_comm_set_name(comm: i32, comm_name: *const c_char) -> c_int;
    pub fn ferriband_mpi_comm_size(comm: i32, size: *mut c_int) -> c_int;
    pub fn ferriband_mpi_comm_test_inter(comm: i32, flag: *mut c_int) -> c_int;
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
    pub fn ferriband_mpi_get_count(status: *const Status, datatype: i32, count: *mut i64) -> c_int;
    pub fn ferriband_mpi_get_library_version(version: *mut c_char, resultlen: *mut c_int) -> c_int;
    pub fn ferriband_mpi_get_processor_name(name: *mut c_char, resultlen: *mut c_int) -> c_int;
    pub fn ferriband_mpi_get_version(version: *mut c_int, subversion: *mut c_int) -> c_int;
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
    pub fn ferriband_mpi_init(argc: *mut c_int, argv: *mut *mut *mut c_char) -> c_int;
    pub fn ferriband_mpi_init_thread(
        argc: *mut c_int,
        argv: *mut *mut *mut c_char,
        required: c_int,
        provided: *mut c_int,
    ) -> c_int;
    pub fn ferriband_mpi_initialized(flag: *mut c_int) -> c_int;
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
    pub fn ferriband_mpi_issend(
        buf: *const c_void,
        count: i64,
        datatype: i32,
        dest: c_int,
        tag: c_int,
        comm: i32,
        request: *mut i32,
    ) -> c_int;
    pub fn ferriband_mpi_pcontrol(level: c_int) -> c_int;
    pub fn ferriband_mpi_probe(source: c_int, tag: c_int, comm: i32, status: *mut Status) -> c_int;
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
    pub fn ferriband_mpi_reduce(
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        count: i64,
        datatype: i32,
        op: i32,
        root: c_int,
        comm: i32,
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
    pub fn ferriband_mpi_request_free(request: *mut i32) -> c_int;
    pub fn ferriband_mpi_request_get_status(
        request: i32,
        flag: *mut c_int,
        status: *mut Status,
    ) -> c_int;
    pub fn ferriband_mpi_rsend(
        buf: *const c_void,
        count: i64,
        datatype: i32,
        dest: c_int,
        tag: c_int,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_scan(
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        count: i64,
        datatype: i32,
        op: i32,
        comm: i32,
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
    pub fn ferriband_mpi_send(
        buf: *const c_void,
        count: i64,
        datatype: i32,
        dest: c_int,
        tag: c_int,
        comm: i32,
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
    pub fn ferriband_mpi_ssend(
        buf: *const c_void,
        count: i64,
        datatype: i32,
        dest: c_int,
        tag: c_int,
        comm: i32,
    ) -> c_int;
    pub fn ferriband_mpi_test(request: *mut i32, flag: *mut c_int, status: *mut Status) -> c_int;
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
    pub fn ferriband_mpi_type_size(datatype: i32, size: *mut i64) -> c_int;
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
    pub fn ferriband_mpi_unsupported(object: c_int, handle: i32, function: *const c_char) -> c_int;
}
