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

use crate::convert::{Array, Handle, Number, OutCount, OutHandle, Status, id};
use crate::private::*;
use core::ffi::{c_char, c_double, c_int, c_void};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Abi_get_fortran_booleans(
    logical_size: c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
    is_set: *mut c_int,
) -> c_int {
    unsafe {
        ferriband_mpi_abi_get_fortran_booleans(logical_size, logical_true, logical_false, is_set)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Abi_get_fortran_info(info: *mut Handle) -> c_int {
    let mut info = unsafe { OutHandle::empty(info) };
    let code = unsafe { ferriband_mpi_abi_get_fortran_info(info.place()) };
    unsafe { info.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Abi_get_info(info: *mut Handle) -> c_int {
    let mut info = unsafe { OutHandle::empty(info) };
    let code = unsafe { ferriband_mpi_abi_get_info(info.place()) };
    unsafe { info.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Abi_get_version(
    abi_major: *mut c_int,
    abi_minor: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_abi_get_version(abi_major, abi_minor) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Abi_set_fortran_booleans(
    logical_size: c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
) -> c_int {
    unsafe { ferriband_mpi_abi_set_fortran_booleans(logical_size, logical_true, logical_false) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Abi_set_fortran_info(info: Handle) -> c_int {
    unsafe { ferriband_mpi_abi_set_fortran_info(id(info)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Abort(comm: Handle, errorcode: c_int) -> c_int {
    unsafe { ferriband_mpi_abort(id(comm), errorcode) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Accumulate(
    _origin_addr: *const c_void,
    _origin_count: c_int,
    _origin_datatype: Handle,
    _target_rank: c_int,
    _target_disp: i64,
    _target_count: c_int,
    _target_datatype: Handle,
    _op: Handle,
    win: Handle,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Accumulate".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Accumulate_c(
    _origin_addr: *const c_void,
    _origin_count: i64,
    _origin_datatype: Handle,
    _target_rank: c_int,
    _target_disp: i64,
    _target_count: i64,
    _target_datatype: Handle,
    _op: Handle,
    win: Handle,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Accumulate_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Add_error_class(errorclass: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_add_error_class(errorclass) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Add_error_code(errorclass: c_int, errorcode: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_add_error_code(errorclass, errorcode) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Add_error_string(errorcode: c_int, string: *const c_char) -> c_int {
    unsafe { ferriband_mpi_add_error_string(errorcode, string) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Aint_add(base: i64, disp: i64) -> i64 {
    base.wrapping_add(disp)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Aint_diff(addr1: i64, addr2: i64) -> i64 {
    addr1.wrapping_sub(addr2)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Allgather(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_allgather(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Allgather_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_allgather(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Allgather_init(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_allgather_init(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Allgather_init_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_allgather_init(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Allgatherv(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    displs: *const c_int,
    recvtype: Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_allgatherv(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(displs),
            id(recvtype),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Allgatherv_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const i64,
    displs: *const i64,
    recvtype: Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_allgatherv(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(displs),
            id(recvtype),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Allgatherv_init(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    displs: *const c_int,
    recvtype: Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_allgatherv_init(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(displs),
            id(recvtype),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Allgatherv_init_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const i64,
    displs: *const i64,
    recvtype: Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_allgatherv_init(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(displs),
            id(recvtype),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Alloc_mem(size: i64, info: Handle, baseptr: *mut c_void) -> c_int {
    unsafe { ferriband_mpi_alloc_mem(size, id(info), baseptr) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Allreduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_allreduce(
            sendbuf,
            recvbuf,
            count.wide(),
            id(datatype),
            id(op),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Allreduce_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_allreduce(
            sendbuf,
            recvbuf,
            count.wide(),
            id(datatype),
            id(op),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Allreduce_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_allreduce_init(
            sendbuf,
            recvbuf,
            count.wide(),
            id(datatype),
            id(op),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Allreduce_init_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_allreduce_init(
            sendbuf,
            recvbuf,
            count.wide(),
            id(datatype),
            id(op),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Alltoall(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_alltoall(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Alltoall_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_alltoall(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Alltoall_init(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_alltoall_init(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Alltoall_init_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_alltoall_init(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Alltoallv(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const c_int,
    recvtype: Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_alltoallv(
            sendbuf,
            Array::of(sendcounts),
            Array::of(sdispls),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(rdispls),
            id(recvtype),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Alltoallv_c(
    sendbuf: *const c_void,
    sendcounts: *const i64,
    sdispls: *const i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const i64,
    rdispls: *const i64,
    recvtype: Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_alltoallv(
            sendbuf,
            Array::of(sendcounts),
            Array::of(sdispls),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(rdispls),
            id(recvtype),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Alltoallv_init(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const c_int,
    recvtype: Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_alltoallv_init(
            sendbuf,
            Array::of(sendcounts),
            Array::of(sdispls),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(rdispls),
            id(recvtype),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Alltoallv_init_c(
    sendbuf: *const c_void,
    sendcounts: *const i64,
    sdispls: *const i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const i64,
    rdispls: *const i64,
    recvtype: Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_alltoallv_init(
            sendbuf,
            Array::of(sendcounts),
            Array::of(sdispls),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(rdispls),
            id(recvtype),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Alltoallw(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const c_int,
    sendtypes: *const Handle,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const c_int,
    recvtypes: *const Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_alltoallw(
            sendbuf,
            Array::of(sendcounts),
            Array::of(sdispls),
            Array::of(sendtypes),
            recvbuf,
            Array::of(recvcounts),
            Array::of(rdispls),
            Array::of(recvtypes),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Alltoallw_c(
    sendbuf: *const c_void,
    sendcounts: *const i64,
    sdispls: *const i64,
    sendtypes: *const Handle,
    recvbuf: *mut c_void,
    recvcounts: *const i64,
    rdispls: *const i64,
    recvtypes: *const Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_alltoallw(
            sendbuf,
            Array::of(sendcounts),
            Array::of(sdispls),
            Array::of(sendtypes),
            recvbuf,
            Array::of(recvcounts),
            Array::of(rdispls),
            Array::of(recvtypes),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Alltoallw_init(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const c_int,
    sendtypes: *const Handle,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const c_int,
    recvtypes: *const Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_alltoallw_init(
            sendbuf,
            Array::of(sendcounts),
            Array::of(sdispls),
            Array::of(sendtypes),
            recvbuf,
            Array::of(recvcounts),
            Array::of(rdispls),
            Array::of(recvtypes),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Alltoallw_init_c(
    sendbuf: *const c_void,
    sendcounts: *const i64,
    sdispls: *const i64,
    sendtypes: *const Handle,
    recvbuf: *mut c_void,
    recvcounts: *const i64,
    rdispls: *const i64,
    recvtypes: *const Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_alltoallw_init(
            sendbuf,
            Array::of(sendcounts),
            Array::of(sdispls),
            Array::of(sendtypes),
            recvbuf,
            Array::of(recvcounts),
            Array::of(rdispls),
            Array::of(recvtypes),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Attr_delete(comm: Handle, keyval: c_int) -> c_int {
    unsafe { ferriband_mpi_attr_delete(id(comm), keyval) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Attr_get(
    comm: Handle,
    keyval: c_int,
    attribute_val: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_attr_get(id(comm), keyval, attribute_val, flag) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Attr_put(
    comm: Handle,
    keyval: c_int,
    attribute_val: *mut c_void,
) -> c_int {
    unsafe { ferriband_mpi_attr_put(id(comm), keyval, attribute_val) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Barrier(comm: Handle) -> c_int {
    unsafe { ferriband_mpi_barrier(id(comm)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Barrier_init(
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe { ferriband_mpi_barrier_init(id(comm), id(info), request.place()) };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Bcast(
    buffer: *mut c_void,
    count: c_int,
    datatype: Handle,
    root: c_int,
    comm: Handle,
) -> c_int {
    unsafe { ferriband_mpi_bcast(buffer, count.wide(), id(datatype), root, id(comm)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Bcast_c(
    buffer: *mut c_void,
    count: i64,
    datatype: Handle,
    root: c_int,
    comm: Handle,
) -> c_int {
    unsafe { ferriband_mpi_bcast(buffer, count.wide(), id(datatype), root, id(comm)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Bcast_init(
    buffer: *mut c_void,
    count: c_int,
    datatype: Handle,
    root: c_int,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_bcast_init(
            buffer,
            count.wide(),
            id(datatype),
            root,
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Bcast_init_c(
    buffer: *mut c_void,
    count: i64,
    datatype: Handle,
    root: c_int,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_bcast_init(
            buffer,
            count.wide(),
            id(datatype),
            root,
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Bsend(
    buf: *const c_void,
    count: c_int,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
) -> c_int {
    unsafe { ferriband_mpi_bsend(buf, count.wide(), id(datatype), dest, tag, id(comm)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Bsend_c(
    buf: *const c_void,
    count: i64,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
) -> c_int {
    unsafe { ferriband_mpi_bsend(buf, count.wide(), id(datatype), dest, tag, id(comm)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Bsend_init(
    buf: *const c_void,
    count: c_int,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_bsend_init(
            buf,
            count.wide(),
            id(datatype),
            dest,
            tag,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Bsend_init_c(
    buf: *const c_void,
    count: i64,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_bsend_init(
            buf,
            count.wide(),
            id(datatype),
            dest,
            tag,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Buffer_attach(buffer: *mut c_void, size: c_int) -> c_int {
    unsafe { ferriband_mpi_buffer_attach(buffer, size.wide()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Buffer_attach_c(buffer: *mut c_void, size: i64) -> c_int {
    unsafe { ferriband_mpi_buffer_attach(buffer, size.wide()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Buffer_detach(buffer_addr: *mut c_void, size: *mut c_int) -> c_int {
    let mut size = unsafe { OutCount::empty(size) };
    let code = unsafe { ferriband_mpi_buffer_detach(buffer_addr, size.place()) };
    unsafe { size.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Buffer_detach_c(buffer_addr: *mut c_void, size: *mut i64) -> c_int {
    let mut size = unsafe { OutCount::empty(size) };
    let code = unsafe { ferriband_mpi_buffer_detach(buffer_addr, size.place()) };
    unsafe { size.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Buffer_flush() -> c_int {
    unsafe { ferriband_mpi_buffer_flush() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Buffer_iflush(request: *mut Handle) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe { ferriband_mpi_buffer_iflush(request.place()) };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Cancel(request: *mut Handle) -> c_int {
    let mut request = unsafe { OutHandle::full(request) };
    let code = unsafe { ferriband_mpi_cancel(request.place()) };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Cart_coords(
    comm: Handle,
    rank: c_int,
    maxdims: c_int,
    coords: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_cart_coords(id(comm), rank, maxdims, coords) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Cart_create(
    comm_old: Handle,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    reorder: c_int,
    comm_cart: *mut Handle,
) -> c_int {
    let mut comm_cart = unsafe { OutHandle::empty(comm_cart) };
    let code = unsafe {
        ferriband_mpi_cart_create(
            id(comm_old),
            ndims,
            dims,
            periods,
            reorder,
            comm_cart.place(),
        )
    };
    unsafe { comm_cart.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Cart_get(
    comm: Handle,
    maxdims: c_int,
    dims: *mut c_int,
    periods: *mut c_int,
    coords: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_cart_get(id(comm), maxdims, dims, periods, coords) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Cart_map(
    comm: Handle,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    newrank: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_cart_map(id(comm), ndims, dims, periods, newrank) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Cart_rank(
    comm: Handle,
    coords: *const c_int,
    rank: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_cart_rank(id(comm), coords, rank) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Cart_shift(
    comm: Handle,
    direction: c_int,
    disp: c_int,
    rank_source: *mut c_int,
    rank_dest: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_cart_shift(id(comm), direction, disp, rank_source, rank_dest) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Cart_sub(
    comm: Handle,
    remain_dims: *const c_int,
    newcomm: *mut Handle,
) -> c_int {
    let mut newcomm = unsafe { OutHandle::empty(newcomm) };
    let code = unsafe { ferriband_mpi_cart_sub(id(comm), remain_dims, newcomm.place()) };
    unsafe { newcomm.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Cartdim_get(comm: Handle, ndims: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_cartdim_get(id(comm), ndims) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Close_port(_port_name: *const c_char) -> c_int {
    unsafe { ferriband_mpi_unsupported(0, 0, c"MPI_Close_port".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_accept(
    _port_name: *const c_char,
    _info: Handle,
    _root: c_int,
    comm: Handle,
    newcomm: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(newcomm, 0x100) };
    unsafe { ferriband_mpi_unsupported(1, id(comm), c"MPI_Comm_accept".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_attach_buffer(
    comm: Handle,
    buffer: *mut c_void,
    size: c_int,
) -> c_int {
    unsafe { ferriband_mpi_comm_attach_buffer(id(comm), buffer, size.wide()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_attach_buffer_c(
    comm: Handle,
    buffer: *mut c_void,
    size: i64,
) -> c_int {
    unsafe { ferriband_mpi_comm_attach_buffer(id(comm), buffer, size.wide()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_call_errhandler(comm: Handle, errorcode: c_int) -> c_int {
    unsafe { ferriband_mpi_comm_call_errhandler(id(comm), errorcode) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_compare(
    comm1: Handle,
    comm2: Handle,
    result: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_comm_compare(id(comm1), id(comm2), result) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_connect(
    _port_name: *const c_char,
    _info: Handle,
    _root: c_int,
    comm: Handle,
    newcomm: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(newcomm, 0x100) };
    unsafe { ferriband_mpi_unsupported(1, id(comm), c"MPI_Comm_connect".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_create(
    comm: Handle,
    group: Handle,
    newcomm: *mut Handle,
) -> c_int {
    let mut newcomm = unsafe { OutHandle::empty(newcomm) };
    let code = unsafe { ferriband_mpi_comm_create(id(comm), id(group), newcomm.place()) };
    unsafe { newcomm.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_create_errhandler(
    comm_errhandler_fn: *const c_void,
    errhandler: *mut Handle,
) -> c_int {
    let mut errhandler = unsafe { OutHandle::empty(errhandler) };
    let code = unsafe {
        ferriband_mpi_comm_create_errhandler(
            comm_errhandler_fn,
            crate::thunks::comm_errhandler_function(),
            errhandler.place(),
        )
    };
    unsafe { errhandler.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_create_from_group(
    group: Handle,
    stringtag: *const c_char,
    info: Handle,
    errhandler: Handle,
    newcomm: *mut Handle,
) -> c_int {
    let mut newcomm = unsafe { OutHandle::empty(newcomm) };
    let code = unsafe {
        ferriband_mpi_comm_create_from_group(
            id(group),
            stringtag,
            id(info),
            id(errhandler),
            newcomm.place(),
        )
    };
    unsafe { newcomm.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_create_group(
    comm: Handle,
    group: Handle,
    tag: c_int,
    newcomm: *mut Handle,
) -> c_int {
    let mut newcomm = unsafe { OutHandle::empty(newcomm) };
    let code =
        unsafe { ferriband_mpi_comm_create_group(id(comm), id(group), tag, newcomm.place()) };
    unsafe { newcomm.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_create_keyval(
    comm_copy_attr_fn: *const c_void,
    comm_delete_attr_fn: *const c_void,
    comm_keyval: *mut c_int,
    extra_state: *mut c_void,
) -> c_int {
    unsafe {
        ferriband_mpi_comm_create_keyval(
            comm_copy_attr_fn,
            crate::thunks::comm_copy_attr_function(),
            comm_delete_attr_fn,
            crate::thunks::comm_delete_attr_function(),
            comm_keyval,
            extra_state,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_delete_attr(comm: Handle, comm_keyval: c_int) -> c_int {
    unsafe { ferriband_mpi_comm_delete_attr(id(comm), comm_keyval) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_detach_buffer(
    comm: Handle,
    buffer_addr: *mut c_void,
    size: *mut c_int,
) -> c_int {
    let mut size = unsafe { OutCount::empty(size) };
    let code = unsafe { ferriband_mpi_comm_detach_buffer(id(comm), buffer_addr, size.place()) };
    unsafe { size.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_detach_buffer_c(
    comm: Handle,
    buffer_addr: *mut c_void,
    size: *mut i64,
) -> c_int {
    let mut size = unsafe { OutCount::empty(size) };
    let code = unsafe { ferriband_mpi_comm_detach_buffer(id(comm), buffer_addr, size.place()) };
    unsafe { size.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_disconnect(comm: *mut Handle) -> c_int {
    let mut comm = unsafe { OutHandle::full(comm) };
    let code = unsafe { ferriband_mpi_comm_disconnect(comm.place()) };
    unsafe { comm.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_dup(comm: Handle, newcomm: *mut Handle) -> c_int {
    let mut newcomm = unsafe { OutHandle::empty(newcomm) };
    let code = unsafe { ferriband_mpi_comm_dup(id(comm), newcomm.place()) };
    unsafe { newcomm.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_dup_with_info(
    comm: Handle,
    info: Handle,
    newcomm: *mut Handle,
) -> c_int {
    let mut newcomm = unsafe { OutHandle::empty(newcomm) };
    let code = unsafe { ferriband_mpi_comm_dup_with_info(id(comm), id(info), newcomm.place()) };
    unsafe { newcomm.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_flush_buffer(comm: Handle) -> c_int {
    unsafe { ferriband_mpi_comm_flush_buffer(id(comm)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_free(comm: *mut Handle) -> c_int {
    let mut comm = unsafe { OutHandle::full(comm) };
    let code = unsafe { ferriband_mpi_comm_free(comm.place()) };
    unsafe { comm.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_free_keyval(comm_keyval: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_comm_free_keyval(comm_keyval) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_fromint(comm: c_int) -> Handle {
    Handle::of(comm)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_get_attr(
    comm: Handle,
    comm_keyval: c_int,
    attribute_val: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_comm_get_attr(id(comm), comm_keyval, attribute_val, flag) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_get_errhandler(comm: Handle, errhandler: *mut Handle) -> c_int {
    let mut errhandler = unsafe { OutHandle::empty(errhandler) };
    let code = unsafe { ferriband_mpi_comm_get_errhandler(id(comm), errhandler.place()) };
    unsafe { errhandler.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_get_info(comm: Handle, info_used: *mut Handle) -> c_int {
    let mut info_used = unsafe { OutHandle::empty(info_used) };
    let code = unsafe { ferriband_mpi_comm_get_info(id(comm), info_used.place()) };
    unsafe { info_used.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_get_name(
    comm: Handle,
    comm_name: *mut c_char,
    resultlen: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_comm_get_name(id(comm), comm_name, resultlen) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_get_parent(parent: *mut Handle) -> c_int {
    let mut parent = unsafe { OutHandle::empty(parent) };
    let code = unsafe { ferriband_mpi_comm_get_parent(parent.place()) };
    unsafe { parent.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_group(comm: Handle, group: *mut Handle) -> c_int {
    let mut group = unsafe { OutHandle::empty(group) };
    let code = unsafe { ferriband_mpi_comm_group(id(comm), group.place()) };
    unsafe { group.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_idup(
    comm: Handle,
    newcomm: *mut Handle,
    request: *mut Handle,
) -> c_int {
    let mut newcomm = unsafe { OutHandle::empty(newcomm) };
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe { ferriband_mpi_comm_idup(id(comm), newcomm.place(), request.place()) };
    unsafe { newcomm.store() };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_idup_with_info(
    comm: Handle,
    info: Handle,
    newcomm: *mut Handle,
    request: *mut Handle,
) -> c_int {
    let mut newcomm = unsafe { OutHandle::empty(newcomm) };
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_comm_idup_with_info(id(comm), id(info), newcomm.place(), request.place())
    };
    unsafe { newcomm.store() };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_iflush_buffer(comm: Handle, request: *mut Handle) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe { ferriband_mpi_comm_iflush_buffer(id(comm), request.place()) };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_join(_fd: c_int, intercomm: *mut Handle) -> c_int {
    unsafe { OutHandle::null(intercomm, 0x100) };
    unsafe { ferriband_mpi_unsupported(0, 0, c"MPI_Comm_join".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_rank(comm: Handle, rank: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_comm_rank(id(comm), rank) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_remote_group(comm: Handle, group: *mut Handle) -> c_int {
    let mut group = unsafe { OutHandle::empty(group) };
    let code = unsafe { ferriband_mpi_comm_remote_group(id(comm), group.place()) };
    unsafe { group.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_remote_size(comm: Handle, size: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_comm_remote_size(id(comm), size) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_set_attr(
    comm: Handle,
    comm_keyval: c_int,
    attribute_val: *mut c_void,
) -> c_int {
    unsafe { ferriband_mpi_comm_set_attr(id(comm), comm_keyval, attribute_val) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_set_errhandler(comm: Handle, errhandler: Handle) -> c_int {
    unsafe { ferriband_mpi_comm_set_errhandler(id(comm), id(errhandler)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_set_info(comm: Handle, info: Handle) -> c_int {
    unsafe { ferriband_mpi_comm_set_info(id(comm), id(info)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_set_name(comm: Handle, comm_name: *const c_char) -> c_int {
    unsafe { ferriband_mpi_comm_set_name(id(comm), comm_name) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_size(comm: Handle, size: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_comm_size(id(comm), size) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_spawn(
    _command: *const c_char,
    _argv: *mut *mut c_char,
    _maxprocs: c_int,
    _info: Handle,
    _root: c_int,
    comm: Handle,
    intercomm: *mut Handle,
    _array_of_errcodes: *mut c_int,
) -> c_int {
    unsafe { OutHandle::null(intercomm, 0x100) };
    unsafe { ferriband_mpi_unsupported(1, id(comm), c"MPI_Comm_spawn".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_spawn_multiple(
    _count: c_int,
    _array_of_commands: *mut *mut c_char,
    _array_of_argv: *mut *mut *mut c_char,
    _array_of_maxprocs: *const c_int,
    _array_of_info: *const Handle,
    _root: c_int,
    comm: Handle,
    intercomm: *mut Handle,
    _array_of_errcodes: *mut c_int,
) -> c_int {
    unsafe { OutHandle::null(intercomm, 0x100) };
    unsafe { ferriband_mpi_unsupported(1, id(comm), c"MPI_Comm_spawn_multiple".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_split(
    comm: Handle,
    color: c_int,
    key: c_int,
    newcomm: *mut Handle,
) -> c_int {
    let mut newcomm = unsafe { OutHandle::empty(newcomm) };
    let code = unsafe { ferriband_mpi_comm_split(id(comm), color, key, newcomm.place()) };
    unsafe { newcomm.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_split_type(
    comm: Handle,
    split_type: c_int,
    key: c_int,
    info: Handle,
    newcomm: *mut Handle,
) -> c_int {
    let mut newcomm = unsafe { OutHandle::empty(newcomm) };
    let code = unsafe {
        ferriband_mpi_comm_split_type(id(comm), split_type, key, id(info), newcomm.place())
    };
    unsafe { newcomm.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_test_inter(comm: Handle, flag: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_comm_test_inter(id(comm), flag) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_toint(comm: Handle) -> c_int {
    id(comm)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Compare_and_swap(
    _origin_addr: *const c_void,
    _compare_addr: *const c_void,
    _result_addr: *mut c_void,
    _datatype: Handle,
    _target_rank: c_int,
    _target_disp: i64,
    win: Handle,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Compare_and_swap".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Dims_create(nnodes: c_int, ndims: c_int, dims: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_dims_create(nnodes, ndims, dims) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Dist_graph_create(
    comm_old: Handle,
    n: c_int,
    sources: *const c_int,
    degrees: *const c_int,
    destinations: *const c_int,
    weights: *const c_int,
    info: Handle,
    reorder: c_int,
    comm_dist_graph: *mut Handle,
) -> c_int {
    let mut comm_dist_graph = unsafe { OutHandle::empty(comm_dist_graph) };
    let code = unsafe {
        ferriband_mpi_dist_graph_create(
            id(comm_old),
            n,
            sources,
            degrees,
            destinations,
            weights,
            id(info),
            reorder,
            comm_dist_graph.place(),
        )
    };
    unsafe { comm_dist_graph.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Dist_graph_create_adjacent(
    comm_old: Handle,
    indegree: c_int,
    sources: *const c_int,
    sourceweights: *const c_int,
    outdegree: c_int,
    destinations: *const c_int,
    destweights: *const c_int,
    info: Handle,
    reorder: c_int,
    comm_dist_graph: *mut Handle,
) -> c_int {
    let mut comm_dist_graph = unsafe { OutHandle::empty(comm_dist_graph) };
    let code = unsafe {
        ferriband_mpi_dist_graph_create_adjacent(
            id(comm_old),
            indegree,
            sources,
            sourceweights,
            outdegree,
            destinations,
            destweights,
            id(info),
            reorder,
            comm_dist_graph.place(),
        )
    };
    unsafe { comm_dist_graph.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Dist_graph_neighbors(
    comm: Handle,
    maxindegree: c_int,
    sources: *mut c_int,
    sourceweights: *mut c_int,
    maxoutdegree: c_int,
    destinations: *mut c_int,
    destweights: *mut c_int,
) -> c_int {
    unsafe {
        ferriband_mpi_dist_graph_neighbors(
            id(comm),
            maxindegree,
            sources,
            sourceweights,
            maxoutdegree,
            destinations,
            destweights,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Dist_graph_neighbors_count(
    comm: Handle,
    indegree: *mut c_int,
    outdegree: *mut c_int,
    weighted: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_dist_graph_neighbors_count(id(comm), indegree, outdegree, weighted) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Errhandler_free(errhandler: *mut Handle) -> c_int {
    let mut errhandler = unsafe { OutHandle::full(errhandler) };
    let code = unsafe { ferriband_mpi_errhandler_free(errhandler.place()) };
    unsafe { errhandler.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Errhandler_fromint(errhandler: c_int) -> Handle {
    Handle::of(errhandler)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Errhandler_toint(errhandler: Handle) -> c_int {
    id(errhandler)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Error_class(errorcode: c_int, errorclass: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_error_class(errorcode, errorclass) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Error_string(
    errorcode: c_int,
    string: *mut c_char,
    resultlen: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_error_string(errorcode, string, resultlen) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Exscan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_exscan(
            sendbuf,
            recvbuf,
            count.wide(),
            id(datatype),
            id(op),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Exscan_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_exscan(
            sendbuf,
            recvbuf,
            count.wide(),
            id(datatype),
            id(op),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Exscan_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_exscan_init(
            sendbuf,
            recvbuf,
            count.wide(),
            id(datatype),
            id(op),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Exscan_init_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_exscan_init(
            sendbuf,
            recvbuf,
            count.wide(),
            id(datatype),
            id(op),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Fetch_and_op(
    _origin_addr: *const c_void,
    _result_addr: *mut c_void,
    _datatype: Handle,
    _target_rank: c_int,
    _target_disp: i64,
    _op: Handle,
    win: Handle,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Fetch_and_op".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_call_errhandler(fh: Handle, errorcode: c_int) -> c_int {
    unsafe { ferriband_mpi_file_call_errhandler(id(fh), errorcode) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_close(_fh: *mut Handle) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, 0, c"MPI_File_close".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_create_errhandler(
    file_errhandler_fn: *const c_void,
    errhandler: *mut Handle,
) -> c_int {
    let mut errhandler = unsafe { OutHandle::empty(errhandler) };
    let code = unsafe {
        ferriband_mpi_file_create_errhandler(
            file_errhandler_fn,
            crate::thunks::file_errhandler_function(),
            errhandler.place(),
        )
    };
    unsafe { errhandler.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_delete(_filename: *const c_char, _info: Handle) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, 0, c"MPI_File_delete".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_fromint(file: c_int) -> Handle {
    Handle::of(file)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_get_amode(fh: Handle, _amode: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_get_amode".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_get_atomicity(fh: Handle, _flag: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_get_atomicity".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_get_byte_offset(
    fh: Handle,
    _offset: i64,
    _disp: *mut i64,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_get_byte_offset".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_get_errhandler(file: Handle, errhandler: *mut Handle) -> c_int {
    let mut errhandler = unsafe { OutHandle::empty(errhandler) };
    let code = unsafe { ferriband_mpi_file_get_errhandler(id(file), errhandler.place()) };
    unsafe { errhandler.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_get_group(fh: Handle, group: *mut Handle) -> c_int {
    unsafe { OutHandle::null(group, 0x108) };
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_get_group".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_get_info(fh: Handle, info_used: *mut Handle) -> c_int {
    unsafe { OutHandle::null(info_used, 0x130) };
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_get_info".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_get_position(fh: Handle, _offset: *mut i64) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_get_position".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_get_position_shared(fh: Handle, _offset: *mut i64) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_get_position_shared".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_get_size(fh: Handle, _size: *mut i64) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_get_size".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_get_type_extent(
    fh: Handle,
    _datatype: Handle,
    _extent: *mut i64,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_get_type_extent".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_get_type_extent_c(
    fh: Handle,
    _datatype: Handle,
    _extent: *mut i64,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_get_type_extent_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_get_view(
    fh: Handle,
    _disp: *mut i64,
    etype: *mut Handle,
    filetype: *mut Handle,
    _datarep: *mut c_char,
) -> c_int {
    unsafe { OutHandle::null(etype, 0x200) };
    unsafe { OutHandle::null(filetype, 0x200) };
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_get_view".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_iread(
    fh: Handle,
    _buf: *mut c_void,
    _count: c_int,
    _datatype: Handle,
    request: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(request, 0x180) };
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_iread".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_iread_all(
    fh: Handle,
    _buf: *mut c_void,
    _count: c_int,
    _datatype: Handle,
    request: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(request, 0x180) };
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_iread_all".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_iread_all_c(
    fh: Handle,
    _buf: *mut c_void,
    _count: i64,
    _datatype: Handle,
    request: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(request, 0x180) };
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_iread_all_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_iread_at(
    fh: Handle,
    _offset: i64,
    _buf: *mut c_void,
    _count: c_int,
    _datatype: Handle,
    request: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(request, 0x180) };
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_iread_at".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_iread_at_all(
    fh: Handle,
    _offset: i64,
    _buf: *mut c_void,
    _count: c_int,
    _datatype: Handle,
    request: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(request, 0x180) };
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_iread_at_all".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_iread_at_all_c(
    fh: Handle,
    _offset: i64,
    _buf: *mut c_void,
    _count: i64,
    _datatype: Handle,
    request: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(request, 0x180) };
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_iread_at_all_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_iread_at_c(
    fh: Handle,
    _offset: i64,
    _buf: *mut c_void,
    _count: i64,
    _datatype: Handle,
    request: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(request, 0x180) };
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_iread_at_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_iread_c(
    fh: Handle,
    _buf: *mut c_void,
    _count: i64,
    _datatype: Handle,
    request: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(request, 0x180) };
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_iread_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_iread_shared(
    fh: Handle,
    _buf: *mut c_void,
    _count: c_int,
    _datatype: Handle,
    request: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(request, 0x180) };
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_iread_shared".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_iread_shared_c(
    fh: Handle,
    _buf: *mut c_void,
    _count: i64,
    _datatype: Handle,
    request: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(request, 0x180) };
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_iread_shared_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_iwrite(
    fh: Handle,
    _buf: *const c_void,
    _count: c_int,
    _datatype: Handle,
    request: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(request, 0x180) };
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_iwrite".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_iwrite_all(
    fh: Handle,
    _buf: *const c_void,
    _count: c_int,
    _datatype: Handle,
    request: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(request, 0x180) };
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_iwrite_all".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_iwrite_all_c(
    fh: Handle,
    _buf: *const c_void,
    _count: i64,
    _datatype: Handle,
    request: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(request, 0x180) };
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_iwrite_all_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_iwrite_at(
    fh: Handle,
    _offset: i64,
    _buf: *const c_void,
    _count: c_int,
    _datatype: Handle,
    request: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(request, 0x180) };
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_iwrite_at".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_iwrite_at_all(
    fh: Handle,
    _offset: i64,
    _buf: *const c_void,
    _count: c_int,
    _datatype: Handle,
    request: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(request, 0x180) };
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_iwrite_at_all".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_iwrite_at_all_c(
    fh: Handle,
    _offset: i64,
    _buf: *const c_void,
    _count: i64,
    _datatype: Handle,
    request: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(request, 0x180) };
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_iwrite_at_all_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_iwrite_at_c(
    fh: Handle,
    _offset: i64,
    _buf: *const c_void,
    _count: i64,
    _datatype: Handle,
    request: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(request, 0x180) };
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_iwrite_at_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_iwrite_c(
    fh: Handle,
    _buf: *const c_void,
    _count: i64,
    _datatype: Handle,
    request: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(request, 0x180) };
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_iwrite_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_iwrite_shared(
    fh: Handle,
    _buf: *const c_void,
    _count: c_int,
    _datatype: Handle,
    request: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(request, 0x180) };
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_iwrite_shared".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_iwrite_shared_c(
    fh: Handle,
    _buf: *const c_void,
    _count: i64,
    _datatype: Handle,
    request: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(request, 0x180) };
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_iwrite_shared_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_open(
    _comm: Handle,
    _filename: *const c_char,
    _amode: c_int,
    _info: Handle,
    fh: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(fh, 0x118) };
    unsafe { ferriband_mpi_unsupported(3, 0, c"MPI_File_open".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_preallocate(fh: Handle, _size: i64) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_preallocate".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_read(
    fh: Handle,
    _buf: *mut c_void,
    _count: c_int,
    _datatype: Handle,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_read".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_read_all(
    fh: Handle,
    _buf: *mut c_void,
    _count: c_int,
    _datatype: Handle,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_read_all".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_read_all_begin(
    fh: Handle,
    _buf: *mut c_void,
    _count: c_int,
    _datatype: Handle,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_read_all_begin".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_read_all_begin_c(
    fh: Handle,
    _buf: *mut c_void,
    _count: i64,
    _datatype: Handle,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_read_all_begin_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_read_all_c(
    fh: Handle,
    _buf: *mut c_void,
    _count: i64,
    _datatype: Handle,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_read_all_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_read_all_end(
    fh: Handle,
    _buf: *mut c_void,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_read_all_end".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_read_at(
    fh: Handle,
    _offset: i64,
    _buf: *mut c_void,
    _count: c_int,
    _datatype: Handle,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_read_at".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_read_at_all(
    fh: Handle,
    _offset: i64,
    _buf: *mut c_void,
    _count: c_int,
    _datatype: Handle,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_read_at_all".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_read_at_all_begin(
    fh: Handle,
    _offset: i64,
    _buf: *mut c_void,
    _count: c_int,
    _datatype: Handle,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_read_at_all_begin".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_read_at_all_begin_c(
    fh: Handle,
    _offset: i64,
    _buf: *mut c_void,
    _count: i64,
    _datatype: Handle,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_read_at_all_begin_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_read_at_all_c(
    fh: Handle,
    _offset: i64,
    _buf: *mut c_void,
    _count: i64,
    _datatype: Handle,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_read_at_all_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_read_at_all_end(
    fh: Handle,
    _buf: *mut c_void,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_read_at_all_end".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_read_at_c(
    fh: Handle,
    _offset: i64,
    _buf: *mut c_void,
    _count: i64,
    _datatype: Handle,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_read_at_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_read_c(
    fh: Handle,
    _buf: *mut c_void,
    _count: i64,
    _datatype: Handle,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_read_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_read_ordered(
    fh: Handle,
    _buf: *mut c_void,
    _count: c_int,
    _datatype: Handle,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_read_ordered".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_read_ordered_begin(
    fh: Handle,
    _buf: *mut c_void,
    _count: c_int,
    _datatype: Handle,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_read_ordered_begin".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_read_ordered_begin_c(
    fh: Handle,
    _buf: *mut c_void,
    _count: i64,
    _datatype: Handle,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_read_ordered_begin_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_read_ordered_c(
    fh: Handle,
    _buf: *mut c_void,
    _count: i64,
    _datatype: Handle,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_read_ordered_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_read_ordered_end(
    fh: Handle,
    _buf: *mut c_void,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_read_ordered_end".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_read_shared(
    fh: Handle,
    _buf: *mut c_void,
    _count: c_int,
    _datatype: Handle,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_read_shared".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_read_shared_c(
    fh: Handle,
    _buf: *mut c_void,
    _count: i64,
    _datatype: Handle,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_read_shared_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_seek(fh: Handle, _offset: i64, _whence: c_int) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_seek".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_seek_shared(fh: Handle, _offset: i64, _whence: c_int) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_seek_shared".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_set_atomicity(fh: Handle, _flag: c_int) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_set_atomicity".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_set_errhandler(file: Handle, errhandler: Handle) -> c_int {
    unsafe { ferriband_mpi_file_set_errhandler(id(file), id(errhandler)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_set_info(fh: Handle, _info: Handle) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_set_info".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_set_size(fh: Handle, _size: i64) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_set_size".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_set_view(
    fh: Handle,
    _disp: i64,
    _etype: Handle,
    _filetype: Handle,
    _datarep: *const c_char,
    _info: Handle,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_set_view".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_sync(fh: Handle) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_sync".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_toint(file: Handle) -> c_int {
    id(file)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_write(
    fh: Handle,
    _buf: *const c_void,
    _count: c_int,
    _datatype: Handle,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_write".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_write_all(
    fh: Handle,
    _buf: *const c_void,
    _count: c_int,
    _datatype: Handle,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_write_all".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_write_all_begin(
    fh: Handle,
    _buf: *const c_void,
    _count: c_int,
    _datatype: Handle,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_write_all_begin".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_write_all_begin_c(
    fh: Handle,
    _buf: *const c_void,
    _count: i64,
    _datatype: Handle,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_write_all_begin_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_write_all_c(
    fh: Handle,
    _buf: *const c_void,
    _count: i64,
    _datatype: Handle,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_write_all_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_write_all_end(
    fh: Handle,
    _buf: *const c_void,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_write_all_end".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_write_at(
    fh: Handle,
    _offset: i64,
    _buf: *const c_void,
    _count: c_int,
    _datatype: Handle,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_write_at".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_write_at_all(
    fh: Handle,
    _offset: i64,
    _buf: *const c_void,
    _count: c_int,
    _datatype: Handle,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_write_at_all".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_write_at_all_begin(
    fh: Handle,
    _offset: i64,
    _buf: *const c_void,
    _count: c_int,
    _datatype: Handle,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_write_at_all_begin".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_write_at_all_begin_c(
    fh: Handle,
    _offset: i64,
    _buf: *const c_void,
    _count: i64,
    _datatype: Handle,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_write_at_all_begin_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_write_at_all_c(
    fh: Handle,
    _offset: i64,
    _buf: *const c_void,
    _count: i64,
    _datatype: Handle,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_write_at_all_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_write_at_all_end(
    fh: Handle,
    _buf: *const c_void,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_write_at_all_end".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_write_at_c(
    fh: Handle,
    _offset: i64,
    _buf: *const c_void,
    _count: i64,
    _datatype: Handle,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_write_at_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_write_c(
    fh: Handle,
    _buf: *const c_void,
    _count: i64,
    _datatype: Handle,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_write_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_write_ordered(
    fh: Handle,
    _buf: *const c_void,
    _count: c_int,
    _datatype: Handle,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_write_ordered".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_write_ordered_begin(
    fh: Handle,
    _buf: *const c_void,
    _count: c_int,
    _datatype: Handle,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_write_ordered_begin".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_write_ordered_begin_c(
    fh: Handle,
    _buf: *const c_void,
    _count: i64,
    _datatype: Handle,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_write_ordered_begin_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_write_ordered_c(
    fh: Handle,
    _buf: *const c_void,
    _count: i64,
    _datatype: Handle,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_write_ordered_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_write_ordered_end(
    fh: Handle,
    _buf: *const c_void,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_write_ordered_end".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_write_shared(
    fh: Handle,
    _buf: *const c_void,
    _count: c_int,
    _datatype: Handle,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_write_shared".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_File_write_shared_c(
    fh: Handle,
    _buf: *const c_void,
    _count: i64,
    _datatype: Handle,
    _status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, id(fh), c"MPI_File_write_shared_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Finalize() -> c_int {
    unsafe { ferriband_mpi_finalize() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Finalized(flag: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_finalized(flag) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Free_mem(base: *mut c_void) -> c_int {
    unsafe { ferriband_mpi_free_mem(base) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Gather(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_gather(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            root,
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Gather_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_gather(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            root,
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Gather_init(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_gather_init(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            root,
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Gather_init_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_gather_init(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            root,
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Gatherv(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    displs: *const c_int,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_gatherv(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(displs),
            id(recvtype),
            root,
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Gatherv_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const i64,
    displs: *const i64,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_gatherv(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(displs),
            id(recvtype),
            root,
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Gatherv_init(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    displs: *const c_int,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_gatherv_init(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(displs),
            id(recvtype),
            root,
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Gatherv_init_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const i64,
    displs: *const i64,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_gatherv_init(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(displs),
            id(recvtype),
            root,
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Get(
    _origin_addr: *mut c_void,
    _origin_count: c_int,
    _origin_datatype: Handle,
    _target_rank: c_int,
    _target_disp: i64,
    _target_count: c_int,
    _target_datatype: Handle,
    win: Handle,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Get".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Get_accumulate(
    _origin_addr: *const c_void,
    _origin_count: c_int,
    _origin_datatype: Handle,
    _result_addr: *mut c_void,
    _result_count: c_int,
    _result_datatype: Handle,
    _target_rank: c_int,
    _target_disp: i64,
    _target_count: c_int,
    _target_datatype: Handle,
    _op: Handle,
    win: Handle,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Get_accumulate".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Get_accumulate_c(
    _origin_addr: *const c_void,
    _origin_count: i64,
    _origin_datatype: Handle,
    _result_addr: *mut c_void,
    _result_count: i64,
    _result_datatype: Handle,
    _target_rank: c_int,
    _target_disp: i64,
    _target_count: i64,
    _target_datatype: Handle,
    _op: Handle,
    win: Handle,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Get_accumulate_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Get_address(location: *const c_void, address: *mut i64) -> c_int {
    unsafe { ferriband_mpi_get_address(location, address) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Get_c(
    _origin_addr: *mut c_void,
    _origin_count: i64,
    _origin_datatype: Handle,
    _target_rank: c_int,
    _target_disp: i64,
    _target_count: i64,
    _target_datatype: Handle,
    win: Handle,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Get_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Get_count(
    status: *const Status,
    datatype: Handle,
    count: *mut c_int,
) -> c_int {
    let mut count = unsafe { OutCount::empty(count) };
    let code = unsafe { ferriband_mpi_get_count(status, id(datatype), count.place()) };
    unsafe { count.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Get_count_c(
    status: *const Status,
    datatype: Handle,
    count: *mut i64,
) -> c_int {
    let mut count = unsafe { OutCount::empty(count) };
    let code = unsafe { ferriband_mpi_get_count(status, id(datatype), count.place()) };
    unsafe { count.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Get_elements(
    status: *const Status,
    datatype: Handle,
    count: *mut c_int,
) -> c_int {
    let mut count = unsafe { OutCount::empty(count) };
    let code = unsafe { ferriband_mpi_get_elements(status, id(datatype), count.place()) };
    unsafe { count.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Get_elements_c(
    status: *const Status,
    datatype: Handle,
    count: *mut i64,
) -> c_int {
    let mut count = unsafe { OutCount::empty(count) };
    let code = unsafe { ferriband_mpi_get_elements(status, id(datatype), count.place()) };
    unsafe { count.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Get_elements_x(
    status: *const Status,
    datatype: Handle,
    count: *mut i64,
) -> c_int {
    unsafe { ferriband_mpi_get_elements_x(status, id(datatype), count) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Get_hw_resource_info(hw_info: *mut Handle) -> c_int {
    let mut hw_info = unsafe { OutHandle::empty(hw_info) };
    let code = unsafe { ferriband_mpi_get_hw_resource_info(hw_info.place()) };
    unsafe { hw_info.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Get_library_version(
    version: *mut c_char,
    resultlen: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_get_library_version(version, resultlen) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Get_processor_name(
    name: *mut c_char,
    resultlen: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_get_processor_name(name, resultlen) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Get_version(version: *mut c_int, subversion: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_get_version(version, subversion) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Graph_create(
    comm_old: Handle,
    nnodes: c_int,
    indx: *const c_int,
    edges: *const c_int,
    reorder: c_int,
    comm_graph: *mut Handle,
) -> c_int {
    let mut comm_graph = unsafe { OutHandle::empty(comm_graph) };
    let code = unsafe {
        ferriband_mpi_graph_create(
            id(comm_old),
            nnodes,
            indx,
            edges,
            reorder,
            comm_graph.place(),
        )
    };
    unsafe { comm_graph.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Graph_get(
    comm: Handle,
    maxindex: c_int,
    maxedges: c_int,
    indx: *mut c_int,
    edges: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_graph_get(id(comm), maxindex, maxedges, indx, edges) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Graph_map(
    comm: Handle,
    nnodes: c_int,
    indx: *const c_int,
    edges: *const c_int,
    newrank: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_graph_map(id(comm), nnodes, indx, edges, newrank) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Graph_neighbors(
    comm: Handle,
    rank: c_int,
    maxneighbors: c_int,
    neighbors: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_graph_neighbors(id(comm), rank, maxneighbors, neighbors) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Graph_neighbors_count(
    comm: Handle,
    rank: c_int,
    nneighbors: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_graph_neighbors_count(id(comm), rank, nneighbors) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Graphdims_get(
    comm: Handle,
    nnodes: *mut c_int,
    nedges: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_graphdims_get(id(comm), nnodes, nedges) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Grequest_complete(request: Handle) -> c_int {
    unsafe { ferriband_mpi_grequest_complete(id(request)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Grequest_start(
    query_fn: *const c_void,
    free_fn: *const c_void,
    cancel_fn: *const c_void,
    extra_state: *mut c_void,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_grequest_start(
            query_fn,
            crate::thunks::grequest_query_function(),
            free_fn,
            crate::thunks::grequest_free_function(),
            cancel_fn,
            crate::thunks::grequest_cancel_function(),
            extra_state,
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Group_compare(
    group1: Handle,
    group2: Handle,
    result: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_group_compare(id(group1), id(group2), result) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Group_difference(
    group1: Handle,
    group2: Handle,
    newgroup: *mut Handle,
) -> c_int {
    let mut newgroup = unsafe { OutHandle::empty(newgroup) };
    let code = unsafe { ferriband_mpi_group_difference(id(group1), id(group2), newgroup.place()) };
    unsafe { newgroup.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Group_excl(
    group: Handle,
    n: c_int,
    ranks: *const c_int,
    newgroup: *mut Handle,
) -> c_int {
    let mut newgroup = unsafe { OutHandle::empty(newgroup) };
    let code = unsafe { ferriband_mpi_group_excl(id(group), n, ranks, newgroup.place()) };
    unsafe { newgroup.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Group_free(group: *mut Handle) -> c_int {
    let mut group = unsafe { OutHandle::full(group) };
    let code = unsafe { ferriband_mpi_group_free(group.place()) };
    unsafe { group.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Group_from_session_pset(
    session: Handle,
    pset_name: *const c_char,
    newgroup: *mut Handle,
) -> c_int {
    let mut newgroup = unsafe { OutHandle::empty(newgroup) };
    let code =
        unsafe { ferriband_mpi_group_from_session_pset(id(session), pset_name, newgroup.place()) };
    unsafe { newgroup.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Group_fromint(group: c_int) -> Handle {
    Handle::of(group)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Group_incl(
    group: Handle,
    n: c_int,
    ranks: *const c_int,
    newgroup: *mut Handle,
) -> c_int {
    let mut newgroup = unsafe { OutHandle::empty(newgroup) };
    let code = unsafe { ferriband_mpi_group_incl(id(group), n, ranks, newgroup.place()) };
    unsafe { newgroup.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Group_intersection(
    group1: Handle,
    group2: Handle,
    newgroup: *mut Handle,
) -> c_int {
    let mut newgroup = unsafe { OutHandle::empty(newgroup) };
    let code =
        unsafe { ferriband_mpi_group_intersection(id(group1), id(group2), newgroup.place()) };
    unsafe { newgroup.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Group_range_excl(
    group: Handle,
    n: c_int,
    ranges: *mut c_int,
    newgroup: *mut Handle,
) -> c_int {
    let mut newgroup = unsafe { OutHandle::empty(newgroup) };
    let code =
        unsafe { ferriband_mpi_group_range_excl(id(group), n, ranges.cast(), newgroup.place()) };
    unsafe { newgroup.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Group_range_incl(
    group: Handle,
    n: c_int,
    ranges: *mut c_int,
    newgroup: *mut Handle,
) -> c_int {
    let mut newgroup = unsafe { OutHandle::empty(newgroup) };
    let code =
        unsafe { ferriband_mpi_group_range_incl(id(group), n, ranges.cast(), newgroup.place()) };
    unsafe { newgroup.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Group_rank(group: Handle, rank: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_group_rank(id(group), rank) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Group_size(group: Handle, size: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_group_size(id(group), size) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Group_toint(group: Handle) -> c_int {
    id(group)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Group_translate_ranks(
    group1: Handle,
    n: c_int,
    ranks1: *const c_int,
    group2: Handle,
    ranks2: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_group_translate_ranks(id(group1), n, ranks1, id(group2), ranks2) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Group_union(
    group1: Handle,
    group2: Handle,
    newgroup: *mut Handle,
) -> c_int {
    let mut newgroup = unsafe { OutHandle::empty(newgroup) };
    let code = unsafe { ferriband_mpi_group_union(id(group1), id(group2), newgroup.place()) };
    unsafe { newgroup.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Iallgather(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_iallgather(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Iallgather_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_iallgather(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Iallgatherv(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    displs: *const c_int,
    recvtype: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_iallgatherv(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(displs),
            id(recvtype),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Iallgatherv_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const i64,
    displs: *const i64,
    recvtype: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_iallgatherv(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(displs),
            id(recvtype),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Iallreduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_iallreduce(
            sendbuf,
            recvbuf,
            count.wide(),
            id(datatype),
            id(op),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Iallreduce_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_iallreduce(
            sendbuf,
            recvbuf,
            count.wide(),
            id(datatype),
            id(op),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ialltoall(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_ialltoall(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ialltoall_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_ialltoall(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ialltoallv(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const c_int,
    recvtype: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_ialltoallv(
            sendbuf,
            Array::of(sendcounts),
            Array::of(sdispls),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(rdispls),
            id(recvtype),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ialltoallv_c(
    sendbuf: *const c_void,
    sendcounts: *const i64,
    sdispls: *const i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const i64,
    rdispls: *const i64,
    recvtype: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_ialltoallv(
            sendbuf,
            Array::of(sendcounts),
            Array::of(sdispls),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(rdispls),
            id(recvtype),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ialltoallw(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const c_int,
    sendtypes: *const Handle,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const c_int,
    recvtypes: *const Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_ialltoallw(
            sendbuf,
            Array::of(sendcounts),
            Array::of(sdispls),
            Array::of(sendtypes),
            recvbuf,
            Array::of(recvcounts),
            Array::of(rdispls),
            Array::of(recvtypes),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ialltoallw_c(
    sendbuf: *const c_void,
    sendcounts: *const i64,
    sdispls: *const i64,
    sendtypes: *const Handle,
    recvbuf: *mut c_void,
    recvcounts: *const i64,
    rdispls: *const i64,
    recvtypes: *const Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_ialltoallw(
            sendbuf,
            Array::of(sendcounts),
            Array::of(sdispls),
            Array::of(sendtypes),
            recvbuf,
            Array::of(recvcounts),
            Array::of(rdispls),
            Array::of(recvtypes),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ibarrier(comm: Handle, request: *mut Handle) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe { ferriband_mpi_ibarrier(id(comm), request.place()) };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ibcast(
    buffer: *mut c_void,
    count: c_int,
    datatype: Handle,
    root: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_ibcast(
            buffer,
            count.wide(),
            id(datatype),
            root,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ibcast_c(
    buffer: *mut c_void,
    count: i64,
    datatype: Handle,
    root: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_ibcast(
            buffer,
            count.wide(),
            id(datatype),
            root,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ibsend(
    buf: *const c_void,
    count: c_int,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_ibsend(
            buf,
            count.wide(),
            id(datatype),
            dest,
            tag,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ibsend_c(
    buf: *const c_void,
    count: i64,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_ibsend(
            buf,
            count.wide(),
            id(datatype),
            dest,
            tag,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Iexscan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_iexscan(
            sendbuf,
            recvbuf,
            count.wide(),
            id(datatype),
            id(op),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Iexscan_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_iexscan(
            sendbuf,
            recvbuf,
            count.wide(),
            id(datatype),
            id(op),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Igather(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_igather(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            root,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Igather_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_igather(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            root,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Igatherv(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    displs: *const c_int,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_igatherv(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(displs),
            id(recvtype),
            root,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Igatherv_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const i64,
    displs: *const i64,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_igatherv(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(displs),
            id(recvtype),
            root,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Improbe(
    source: c_int,
    tag: c_int,
    comm: Handle,
    flag: *mut c_int,
    message: *mut Handle,
    status: *mut Status,
) -> c_int {
    let mut message = unsafe { OutHandle::empty(message) };
    let code =
        unsafe { ferriband_mpi_improbe(source, tag, id(comm), flag, message.place(), status) };
    unsafe { message.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Imrecv(
    buf: *mut c_void,
    count: c_int,
    datatype: Handle,
    message: *mut Handle,
    request: *mut Handle,
) -> c_int {
    let mut message = unsafe { OutHandle::full(message) };
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_imrecv(
            buf,
            count.wide(),
            id(datatype),
            message.place(),
            request.place(),
        )
    };
    unsafe { message.store() };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Imrecv_c(
    buf: *mut c_void,
    count: i64,
    datatype: Handle,
    message: *mut Handle,
    request: *mut Handle,
) -> c_int {
    let mut message = unsafe { OutHandle::full(message) };
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_imrecv(
            buf,
            count.wide(),
            id(datatype),
            message.place(),
            request.place(),
        )
    };
    unsafe { message.store() };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ineighbor_allgather(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_ineighbor_allgather(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ineighbor_allgather_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_ineighbor_allgather(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ineighbor_allgatherv(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    displs: *const c_int,
    recvtype: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_ineighbor_allgatherv(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(displs),
            id(recvtype),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ineighbor_allgatherv_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const i64,
    displs: *const i64,
    recvtype: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_ineighbor_allgatherv(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(displs),
            id(recvtype),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ineighbor_alltoall(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_ineighbor_alltoall(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ineighbor_alltoall_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_ineighbor_alltoall(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ineighbor_alltoallv(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const c_int,
    recvtype: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_ineighbor_alltoallv(
            sendbuf,
            Array::of(sendcounts),
            Array::of(sdispls),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(rdispls),
            id(recvtype),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ineighbor_alltoallv_c(
    sendbuf: *const c_void,
    sendcounts: *const i64,
    sdispls: *const i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const i64,
    rdispls: *const i64,
    recvtype: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_ineighbor_alltoallv(
            sendbuf,
            Array::of(sendcounts),
            Array::of(sdispls),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(rdispls),
            id(recvtype),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ineighbor_alltoallw(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const i64,
    sendtypes: *const Handle,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const i64,
    recvtypes: *const Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_ineighbor_alltoallw(
            sendbuf,
            Array::of(sendcounts),
            sdispls,
            Array::of(sendtypes),
            recvbuf,
            Array::of(recvcounts),
            rdispls,
            Array::of(recvtypes),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ineighbor_alltoallw_c(
    sendbuf: *const c_void,
    sendcounts: *const i64,
    sdispls: *const i64,
    sendtypes: *const Handle,
    recvbuf: *mut c_void,
    recvcounts: *const i64,
    rdispls: *const i64,
    recvtypes: *const Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_ineighbor_alltoallw(
            sendbuf,
            Array::of(sendcounts),
            sdispls,
            Array::of(sendtypes),
            recvbuf,
            Array::of(recvcounts),
            rdispls,
            Array::of(recvtypes),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Info_create(info: *mut Handle) -> c_int {
    let mut info = unsafe { OutHandle::empty(info) };
    let code = unsafe { ferriband_mpi_info_create(info.place()) };
    unsafe { info.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Info_create_env(
    argc: c_int,
    argv: *mut *mut c_char,
    info: *mut Handle,
) -> c_int {
    let mut info = unsafe { OutHandle::empty(info) };
    let code = unsafe { ferriband_mpi_info_create_env(argc, argv, info.place()) };
    unsafe { info.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Info_delete(info: Handle, key: *const c_char) -> c_int {
    unsafe { ferriband_mpi_info_delete(id(info), key) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Info_dup(info: Handle, newinfo: *mut Handle) -> c_int {
    let mut newinfo = unsafe { OutHandle::empty(newinfo) };
    let code = unsafe { ferriband_mpi_info_dup(id(info), newinfo.place()) };
    unsafe { newinfo.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Info_free(info: *mut Handle) -> c_int {
    let mut info = unsafe { OutHandle::full(info) };
    let code = unsafe { ferriband_mpi_info_free(info.place()) };
    unsafe { info.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Info_fromint(info: c_int) -> Handle {
    Handle::of(info)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Info_get(
    info: Handle,
    key: *const c_char,
    valuelen: c_int,
    value: *mut c_char,
    flag: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_info_get(id(info), key, valuelen, value, flag) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Info_get_nkeys(info: Handle, nkeys: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_info_get_nkeys(id(info), nkeys) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Info_get_nthkey(info: Handle, n: c_int, key: *mut c_char) -> c_int {
    unsafe { ferriband_mpi_info_get_nthkey(id(info), n, key) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Info_get_string(
    info: Handle,
    key: *const c_char,
    buflen: *mut c_int,
    value: *mut c_char,
    flag: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_info_get_string(id(info), key, buflen, value, flag) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Info_get_valuelen(
    info: Handle,
    key: *const c_char,
    valuelen: *mut c_int,
    flag: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_info_get_valuelen(id(info), key, valuelen, flag) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Info_set(
    info: Handle,
    key: *const c_char,
    value: *const c_char,
) -> c_int {
    unsafe { ferriband_mpi_info_set(id(info), key, value) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Info_toint(info: Handle) -> c_int {
    id(info)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Init(argc: *mut c_int, argv: *mut *mut *mut c_char) -> c_int {
    unsafe { ferriband_mpi_init(argc, argv) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Init_thread(
    argc: *mut c_int,
    argv: *mut *mut *mut c_char,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_init_thread(argc, argv, required, provided) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Initialized(flag: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_initialized(flag) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Intercomm_create(
    local_comm: Handle,
    local_leader: c_int,
    peer_comm: Handle,
    remote_leader: c_int,
    tag: c_int,
    newintercomm: *mut Handle,
) -> c_int {
    let mut newintercomm = unsafe { OutHandle::empty(newintercomm) };
    let code = unsafe {
        ferriband_mpi_intercomm_create(
            id(local_comm),
            local_leader,
            id(peer_comm),
            remote_leader,
            tag,
            newintercomm.place(),
        )
    };
    unsafe { newintercomm.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Intercomm_create_from_groups(
    local_group: Handle,
    local_leader: c_int,
    remote_group: Handle,
    remote_leader: c_int,
    stringtag: *const c_char,
    info: Handle,
    errhandler: Handle,
    newintercomm: *mut Handle,
) -> c_int {
    let mut newintercomm = unsafe { OutHandle::empty(newintercomm) };
    let code = unsafe {
        ferriband_mpi_intercomm_create_from_groups(
            id(local_group),
            local_leader,
            id(remote_group),
            remote_leader,
            stringtag,
            id(info),
            id(errhandler),
            newintercomm.place(),
        )
    };
    unsafe { newintercomm.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Intercomm_merge(
    intercomm: Handle,
    high: c_int,
    newintracomm: *mut Handle,
) -> c_int {
    let mut newintracomm = unsafe { OutHandle::empty(newintracomm) };
    let code = unsafe { ferriband_mpi_intercomm_merge(id(intercomm), high, newintracomm.place()) };
    unsafe { newintracomm.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Iprobe(
    source: c_int,
    tag: c_int,
    comm: Handle,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_iprobe(source, tag, id(comm), flag, status) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Irecv(
    buf: *mut c_void,
    count: c_int,
    datatype: Handle,
    source: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_irecv(
            buf,
            count.wide(),
            id(datatype),
            source,
            tag,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Irecv_c(
    buf: *mut c_void,
    count: i64,
    datatype: Handle,
    source: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_irecv(
            buf,
            count.wide(),
            id(datatype),
            source,
            tag,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ireduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: Handle,
    op: Handle,
    root: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_ireduce(
            sendbuf,
            recvbuf,
            count.wide(),
            id(datatype),
            id(op),
            root,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ireduce_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: Handle,
    op: Handle,
    root: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_ireduce(
            sendbuf,
            recvbuf,
            count.wide(),
            id(datatype),
            id(op),
            root,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ireduce_scatter(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_ireduce_scatter(
            sendbuf,
            recvbuf,
            Array::of(recvcounts),
            id(datatype),
            id(op),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ireduce_scatter_block(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: c_int,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_ireduce_scatter_block(
            sendbuf,
            recvbuf,
            recvcount.wide(),
            id(datatype),
            id(op),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ireduce_scatter_block_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_ireduce_scatter_block(
            sendbuf,
            recvbuf,
            recvcount.wide(),
            id(datatype),
            id(op),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ireduce_scatter_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: *const i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_ireduce_scatter(
            sendbuf,
            recvbuf,
            Array::of(recvcounts),
            id(datatype),
            id(op),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Irsend(
    buf: *const c_void,
    count: c_int,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_irsend(
            buf,
            count.wide(),
            id(datatype),
            dest,
            tag,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Irsend_c(
    buf: *const c_void,
    count: i64,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_irsend(
            buf,
            count.wide(),
            id(datatype),
            dest,
            tag,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Is_thread_main(flag: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_is_thread_main(flag) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Iscan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_iscan(
            sendbuf,
            recvbuf,
            count.wide(),
            id(datatype),
            id(op),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Iscan_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_iscan(
            sendbuf,
            recvbuf,
            count.wide(),
            id(datatype),
            id(op),
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Iscatter(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_iscatter(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            root,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Iscatter_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_iscatter(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            root,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Iscatterv(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    displs: *const c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_iscatterv(
            sendbuf,
            Array::of(sendcounts),
            Array::of(displs),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            root,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Iscatterv_c(
    sendbuf: *const c_void,
    sendcounts: *const i64,
    displs: *const i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_iscatterv(
            sendbuf,
            Array::of(sendcounts),
            Array::of(displs),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            root,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Isend(
    buf: *const c_void,
    count: c_int,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_isend(
            buf,
            count.wide(),
            id(datatype),
            dest,
            tag,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Isend_c(
    buf: *const c_void,
    count: i64,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_isend(
            buf,
            count.wide(),
            id(datatype),
            dest,
            tag,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Isendrecv(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    dest: c_int,
    sendtag: c_int,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Handle,
    source: c_int,
    recvtag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_isendrecv(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            dest,
            sendtag,
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            source,
            recvtag,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Isendrecv_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    dest: c_int,
    sendtag: c_int,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: Handle,
    source: c_int,
    recvtag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_isendrecv(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            dest,
            sendtag,
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            source,
            recvtag,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Isendrecv_replace(
    buf: *mut c_void,
    count: c_int,
    datatype: Handle,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_isendrecv_replace(
            buf,
            count.wide(),
            id(datatype),
            dest,
            sendtag,
            source,
            recvtag,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Isendrecv_replace_c(
    buf: *mut c_void,
    count: i64,
    datatype: Handle,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_isendrecv_replace(
            buf,
            count.wide(),
            id(datatype),
            dest,
            sendtag,
            source,
            recvtag,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Issend(
    buf: *const c_void,
    count: c_int,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_issend(
            buf,
            count.wide(),
            id(datatype),
            dest,
            tag,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Issend_c(
    buf: *const c_void,
    count: i64,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_issend(
            buf,
            count.wide(),
            id(datatype),
            dest,
            tag,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Keyval_create(
    copy_fn: *const c_void,
    delete_fn: *const c_void,
    keyval: *mut c_int,
    extra_state: *mut c_void,
) -> c_int {
    unsafe {
        ferriband_mpi_keyval_create(
            copy_fn,
            crate::thunks::copy_function(),
            delete_fn,
            crate::thunks::delete_function(),
            keyval,
            extra_state,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Keyval_free(keyval: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_keyval_free(keyval) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Lookup_name(
    _service_name: *const c_char,
    _info: Handle,
    _port_name: *mut c_char,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(0, 0, c"MPI_Lookup_name".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Message_fromint(message: c_int) -> Handle {
    Handle::of(message)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Message_toint(message: Handle) -> c_int {
    id(message)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Mprobe(
    source: c_int,
    tag: c_int,
    comm: Handle,
    message: *mut Handle,
    status: *mut Status,
) -> c_int {
    let mut message = unsafe { OutHandle::empty(message) };
    let code = unsafe { ferriband_mpi_mprobe(source, tag, id(comm), message.place(), status) };
    unsafe { message.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Mrecv(
    buf: *mut c_void,
    count: c_int,
    datatype: Handle,
    message: *mut Handle,
    status: *mut Status,
) -> c_int {
    let mut message = unsafe { OutHandle::full(message) };
    let code =
        unsafe { ferriband_mpi_mrecv(buf, count.wide(), id(datatype), message.place(), status) };
    unsafe { message.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Mrecv_c(
    buf: *mut c_void,
    count: i64,
    datatype: Handle,
    message: *mut Handle,
    status: *mut Status,
) -> c_int {
    let mut message = unsafe { OutHandle::full(message) };
    let code =
        unsafe { ferriband_mpi_mrecv(buf, count.wide(), id(datatype), message.place(), status) };
    unsafe { message.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Neighbor_allgather(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_neighbor_allgather(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Neighbor_allgather_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_neighbor_allgather(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Neighbor_allgather_init(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_neighbor_allgather_init(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Neighbor_allgather_init_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_neighbor_allgather_init(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Neighbor_allgatherv(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    displs: *const c_int,
    recvtype: Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_neighbor_allgatherv(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(displs),
            id(recvtype),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Neighbor_allgatherv_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const i64,
    displs: *const i64,
    recvtype: Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_neighbor_allgatherv(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(displs),
            id(recvtype),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Neighbor_allgatherv_init(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    displs: *const c_int,
    recvtype: Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_neighbor_allgatherv_init(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(displs),
            id(recvtype),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Neighbor_allgatherv_init_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const i64,
    displs: *const i64,
    recvtype: Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_neighbor_allgatherv_init(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(displs),
            id(recvtype),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Neighbor_alltoall(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_neighbor_alltoall(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Neighbor_alltoall_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_neighbor_alltoall(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Neighbor_alltoall_init(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_neighbor_alltoall_init(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Neighbor_alltoall_init_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_neighbor_alltoall_init(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Neighbor_alltoallv(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const c_int,
    recvtype: Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_neighbor_alltoallv(
            sendbuf,
            Array::of(sendcounts),
            Array::of(sdispls),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(rdispls),
            id(recvtype),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Neighbor_alltoallv_c(
    sendbuf: *const c_void,
    sendcounts: *const i64,
    sdispls: *const i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const i64,
    rdispls: *const i64,
    recvtype: Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_neighbor_alltoallv(
            sendbuf,
            Array::of(sendcounts),
            Array::of(sdispls),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(rdispls),
            id(recvtype),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Neighbor_alltoallv_init(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const c_int,
    recvtype: Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_neighbor_alltoallv_init(
            sendbuf,
            Array::of(sendcounts),
            Array::of(sdispls),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(rdispls),
            id(recvtype),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Neighbor_alltoallv_init_c(
    sendbuf: *const c_void,
    sendcounts: *const i64,
    sdispls: *const i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcounts: *const i64,
    rdispls: *const i64,
    recvtype: Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_neighbor_alltoallv_init(
            sendbuf,
            Array::of(sendcounts),
            Array::of(sdispls),
            id(sendtype),
            recvbuf,
            Array::of(recvcounts),
            Array::of(rdispls),
            id(recvtype),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Neighbor_alltoallw(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const i64,
    sendtypes: *const Handle,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const i64,
    recvtypes: *const Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_neighbor_alltoallw(
            sendbuf,
            Array::of(sendcounts),
            sdispls,
            Array::of(sendtypes),
            recvbuf,
            Array::of(recvcounts),
            rdispls,
            Array::of(recvtypes),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Neighbor_alltoallw_c(
    sendbuf: *const c_void,
    sendcounts: *const i64,
    sdispls: *const i64,
    sendtypes: *const Handle,
    recvbuf: *mut c_void,
    recvcounts: *const i64,
    rdispls: *const i64,
    recvtypes: *const Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_neighbor_alltoallw(
            sendbuf,
            Array::of(sendcounts),
            sdispls,
            Array::of(sendtypes),
            recvbuf,
            Array::of(recvcounts),
            rdispls,
            Array::of(recvtypes),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Neighbor_alltoallw_init(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const i64,
    sendtypes: *const Handle,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const i64,
    recvtypes: *const Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_neighbor_alltoallw_init(
            sendbuf,
            Array::of(sendcounts),
            sdispls,
            Array::of(sendtypes),
            recvbuf,
            Array::of(recvcounts),
            rdispls,
            Array::of(recvtypes),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Neighbor_alltoallw_init_c(
    sendbuf: *const c_void,
    sendcounts: *const i64,
    sdispls: *const i64,
    sendtypes: *const Handle,
    recvbuf: *mut c_void,
    recvcounts: *const i64,
    rdispls: *const i64,
    recvtypes: *const Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_neighbor_alltoallw_init(
            sendbuf,
            Array::of(sendcounts),
            sdispls,
            Array::of(sendtypes),
            recvbuf,
            Array::of(recvcounts),
            rdispls,
            Array::of(recvtypes),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Op_commutative(op: Handle, commute: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_op_commutative(id(op), commute) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Op_create(
    user_fn: *const c_void,
    commute: c_int,
    op: *mut Handle,
) -> c_int {
    let mut op = unsafe { OutHandle::empty(op) };
    let code = unsafe {
        ferriband_mpi_op_create(user_fn, crate::thunks::user_function(), commute, op.place())
    };
    unsafe { op.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Op_create_c(
    user_fn: *const c_void,
    commute: c_int,
    op: *mut Handle,
) -> c_int {
    let mut op = unsafe { OutHandle::empty(op) };
    let code = unsafe {
        ferriband_mpi_op_create(
            user_fn,
            crate::thunks::user_function_c(),
            commute,
            op.place(),
        )
    };
    unsafe { op.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Op_free(op: *mut Handle) -> c_int {
    let mut op = unsafe { OutHandle::full(op) };
    let code = unsafe { ferriband_mpi_op_free(op.place()) };
    unsafe { op.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Op_fromint(op: c_int) -> Handle {
    Handle::of(op)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Op_toint(op: Handle) -> c_int {
    id(op)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Open_port(_info: Handle, _port_name: *mut c_char) -> c_int {
    unsafe { ferriband_mpi_unsupported(0, 0, c"MPI_Open_port".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Pack(
    inbuf: *const c_void,
    incount: c_int,
    datatype: Handle,
    outbuf: *mut c_void,
    outsize: c_int,
    position: *mut c_int,
    comm: Handle,
) -> c_int {
    let mut position = unsafe { OutCount::full(position) };
    let code = unsafe {
        ferriband_mpi_pack(
            inbuf,
            incount.wide(),
            id(datatype),
            outbuf,
            outsize.wide(),
            position.place(),
            id(comm),
        )
    };
    unsafe { position.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Pack_c(
    inbuf: *const c_void,
    incount: i64,
    datatype: Handle,
    outbuf: *mut c_void,
    outsize: i64,
    position: *mut i64,
    comm: Handle,
) -> c_int {
    let mut position = unsafe { OutCount::full(position) };
    let code = unsafe {
        ferriband_mpi_pack(
            inbuf,
            incount.wide(),
            id(datatype),
            outbuf,
            outsize.wide(),
            position.place(),
            id(comm),
        )
    };
    unsafe { position.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Pack_external(
    datarep: *const c_char,
    inbuf: *const c_void,
    incount: c_int,
    datatype: Handle,
    outbuf: *mut c_void,
    outsize: i64,
    position: *mut i64,
) -> c_int {
    unsafe {
        ferriband_mpi_pack_external(
            datarep,
            inbuf,
            incount.wide(),
            id(datatype),
            outbuf,
            outsize,
            position,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Pack_external_c(
    datarep: *const c_char,
    inbuf: *const c_void,
    incount: i64,
    datatype: Handle,
    outbuf: *mut c_void,
    outsize: i64,
    position: *mut i64,
) -> c_int {
    unsafe {
        ferriband_mpi_pack_external(
            datarep,
            inbuf,
            incount.wide(),
            id(datatype),
            outbuf,
            outsize,
            position,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Pack_external_size(
    datarep: *const c_char,
    incount: c_int,
    datatype: Handle,
    size: *mut i64,
) -> c_int {
    unsafe { ferriband_mpi_pack_external_size(datarep, incount.wide(), id(datatype), size) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Pack_external_size_c(
    datarep: *const c_char,
    incount: i64,
    datatype: Handle,
    size: *mut i64,
) -> c_int {
    unsafe { ferriband_mpi_pack_external_size(datarep, incount.wide(), id(datatype), size) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Pack_size(
    incount: c_int,
    datatype: Handle,
    comm: Handle,
    size: *mut c_int,
) -> c_int {
    let mut size = unsafe { OutCount::empty(size) };
    let code =
        unsafe { ferriband_mpi_pack_size(incount.wide(), id(datatype), id(comm), size.place()) };
    unsafe { size.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Pack_size_c(
    incount: i64,
    datatype: Handle,
    comm: Handle,
    size: *mut i64,
) -> c_int {
    let mut size = unsafe { OutCount::empty(size) };
    let code =
        unsafe { ferriband_mpi_pack_size(incount.wide(), id(datatype), id(comm), size.place()) };
    unsafe { size.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Parrived(
    request: Handle,
    partition: c_int,
    flag: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_parrived(id(request), partition, flag) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Pcontrol(level: c_int) -> c_int {
    unsafe { ferriband_mpi_pcontrol(level) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Pready(partition: c_int, request: Handle) -> c_int {
    unsafe { ferriband_mpi_pready(partition, id(request)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Pready_list(
    length: c_int,
    array_of_partitions: *const c_int,
    request: Handle,
) -> c_int {
    unsafe { ferriband_mpi_pready_list(length, array_of_partitions, id(request)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Pready_range(
    partition_low: c_int,
    partition_high: c_int,
    request: Handle,
) -> c_int {
    unsafe { ferriband_mpi_pready_range(partition_low, partition_high, id(request)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Precv_init(
    buf: *mut c_void,
    partitions: c_int,
    count: i64,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_precv_init(
            buf,
            partitions,
            count.wide(),
            id(datatype),
            dest,
            tag,
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Precv_init_c(
    buf: *mut c_void,
    partitions: c_int,
    count: i64,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_precv_init(
            buf,
            partitions,
            count.wide(),
            id(datatype),
            dest,
            tag,
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Probe(
    source: c_int,
    tag: c_int,
    comm: Handle,
    status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_probe(source, tag, id(comm), status) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Psend_init(
    buf: *const c_void,
    partitions: c_int,
    count: i64,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_psend_init(
            buf,
            partitions,
            count.wide(),
            id(datatype),
            dest,
            tag,
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Psend_init_c(
    buf: *const c_void,
    partitions: c_int,
    count: i64,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_psend_init(
            buf,
            partitions,
            count.wide(),
            id(datatype),
            dest,
            tag,
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Publish_name(
    _service_name: *const c_char,
    _info: Handle,
    _port_name: *const c_char,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(0, 0, c"MPI_Publish_name".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Put(
    _origin_addr: *const c_void,
    _origin_count: c_int,
    _origin_datatype: Handle,
    _target_rank: c_int,
    _target_disp: i64,
    _target_count: c_int,
    _target_datatype: Handle,
    win: Handle,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Put".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Put_c(
    _origin_addr: *const c_void,
    _origin_count: i64,
    _origin_datatype: Handle,
    _target_rank: c_int,
    _target_disp: i64,
    _target_count: i64,
    _target_datatype: Handle,
    win: Handle,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Put_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Query_thread(provided: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_query_thread(provided) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Raccumulate(
    _origin_addr: *const c_void,
    _origin_count: c_int,
    _origin_datatype: Handle,
    _target_rank: c_int,
    _target_disp: i64,
    _target_count: c_int,
    _target_datatype: Handle,
    _op: Handle,
    win: Handle,
    request: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(request, 0x180) };
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Raccumulate".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Raccumulate_c(
    _origin_addr: *const c_void,
    _origin_count: i64,
    _origin_datatype: Handle,
    _target_rank: c_int,
    _target_disp: i64,
    _target_count: i64,
    _target_datatype: Handle,
    _op: Handle,
    win: Handle,
    request: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(request, 0x180) };
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Raccumulate_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Recv(
    buf: *mut c_void,
    count: c_int,
    datatype: Handle,
    source: c_int,
    tag: c_int,
    comm: Handle,
    status: *mut Status,
) -> c_int {
    unsafe {
        ferriband_mpi_recv(
            buf,
            count.wide(),
            id(datatype),
            source,
            tag,
            id(comm),
            status,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Recv_c(
    buf: *mut c_void,
    count: i64,
    datatype: Handle,
    source: c_int,
    tag: c_int,
    comm: Handle,
    status: *mut Status,
) -> c_int {
    unsafe {
        ferriband_mpi_recv(
            buf,
            count.wide(),
            id(datatype),
            source,
            tag,
            id(comm),
            status,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Recv_init(
    buf: *mut c_void,
    count: c_int,
    datatype: Handle,
    source: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_recv_init(
            buf,
            count.wide(),
            id(datatype),
            source,
            tag,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Recv_init_c(
    buf: *mut c_void,
    count: i64,
    datatype: Handle,
    source: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_recv_init(
            buf,
            count.wide(),
            id(datatype),
            source,
            tag,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Reduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: Handle,
    op: Handle,
    root: c_int,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_reduce(
            sendbuf,
            recvbuf,
            count.wide(),
            id(datatype),
            id(op),
            root,
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Reduce_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: Handle,
    op: Handle,
    root: c_int,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_reduce(
            sendbuf,
            recvbuf,
            count.wide(),
            id(datatype),
            id(op),
            root,
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Reduce_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: Handle,
    op: Handle,
    root: c_int,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_reduce_init(
            sendbuf,
            recvbuf,
            count.wide(),
            id(datatype),
            id(op),
            root,
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Reduce_init_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: Handle,
    op: Handle,
    root: c_int,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_reduce_init(
            sendbuf,
            recvbuf,
            count.wide(),
            id(datatype),
            id(op),
            root,
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Reduce_local(
    inbuf: *const c_void,
    inoutbuf: *mut c_void,
    count: c_int,
    datatype: Handle,
    op: Handle,
) -> c_int {
    unsafe { ferriband_mpi_reduce_local(inbuf, inoutbuf, count.wide(), id(datatype), id(op)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Reduce_local_c(
    inbuf: *const c_void,
    inoutbuf: *mut c_void,
    count: i64,
    datatype: Handle,
    op: Handle,
) -> c_int {
    unsafe { ferriband_mpi_reduce_local(inbuf, inoutbuf, count.wide(), id(datatype), id(op)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Reduce_scatter(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_reduce_scatter(
            sendbuf,
            recvbuf,
            Array::of(recvcounts),
            id(datatype),
            id(op),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Reduce_scatter_block(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: c_int,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_reduce_scatter_block(
            sendbuf,
            recvbuf,
            recvcount.wide(),
            id(datatype),
            id(op),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Reduce_scatter_block_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_reduce_scatter_block(
            sendbuf,
            recvbuf,
            recvcount.wide(),
            id(datatype),
            id(op),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Reduce_scatter_block_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: c_int,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_reduce_scatter_block_init(
            sendbuf,
            recvbuf,
            recvcount.wide(),
            id(datatype),
            id(op),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Reduce_scatter_block_init_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_reduce_scatter_block_init(
            sendbuf,
            recvbuf,
            recvcount.wide(),
            id(datatype),
            id(op),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Reduce_scatter_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: *const i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_reduce_scatter(
            sendbuf,
            recvbuf,
            Array::of(recvcounts),
            id(datatype),
            id(op),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Reduce_scatter_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_reduce_scatter_init(
            sendbuf,
            recvbuf,
            Array::of(recvcounts),
            id(datatype),
            id(op),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Reduce_scatter_init_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: *const i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_reduce_scatter_init(
            sendbuf,
            recvbuf,
            Array::of(recvcounts),
            id(datatype),
            id(op),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Register_datarep(
    _datarep: *const c_char,
    _read_conversion_fn: *const c_void,
    _write_conversion_fn: *const c_void,
    _dtype_file_extent_fn: *const c_void,
    _extra_state: *mut c_void,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, 0, c"MPI_Register_datarep".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Register_datarep_c(
    _datarep: *const c_char,
    _read_conversion_fn: *const c_void,
    _write_conversion_fn: *const c_void,
    _dtype_file_extent_fn: *const c_void,
    _extra_state: *mut c_void,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(3, 0, c"MPI_Register_datarep_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Remove_error_class(errorclass: c_int) -> c_int {
    unsafe { ferriband_mpi_remove_error_class(errorclass) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Remove_error_code(errorcode: c_int) -> c_int {
    unsafe { ferriband_mpi_remove_error_code(errorcode) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Remove_error_string(errorcode: c_int) -> c_int {
    unsafe { ferriband_mpi_remove_error_string(errorcode) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Request_free(request: *mut Handle) -> c_int {
    let mut request = unsafe { OutHandle::full(request) };
    let code = unsafe { ferriband_mpi_request_free(request.place()) };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Request_fromint(request: c_int) -> Handle {
    Handle::of(request)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Request_get_status(
    request: Handle,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_request_get_status(id(request), flag, status) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Request_get_status_all(
    count: c_int,
    array_of_requests: *const Handle,
    flag: *mut c_int,
    array_of_statuses: *mut Status,
) -> c_int {
    unsafe {
        ferriband_mpi_request_get_status_all(
            count,
            Array::of(array_of_requests),
            flag,
            array_of_statuses,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Request_get_status_any(
    count: c_int,
    array_of_requests: *const Handle,
    indx: *mut c_int,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    unsafe {
        ferriband_mpi_request_get_status_any(
            count,
            Array::of(array_of_requests),
            indx,
            flag,
            status,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Request_get_status_some(
    incount: c_int,
    array_of_requests: *const Handle,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut Status,
) -> c_int {
    unsafe {
        ferriband_mpi_request_get_status_some(
            incount,
            Array::of(array_of_requests),
            outcount,
            array_of_indices,
            array_of_statuses,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Request_toint(request: Handle) -> c_int {
    id(request)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Rget(
    _origin_addr: *mut c_void,
    _origin_count: c_int,
    _origin_datatype: Handle,
    _target_rank: c_int,
    _target_disp: i64,
    _target_count: c_int,
    _target_datatype: Handle,
    win: Handle,
    request: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(request, 0x180) };
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Rget".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Rget_accumulate(
    _origin_addr: *const c_void,
    _origin_count: c_int,
    _origin_datatype: Handle,
    _result_addr: *mut c_void,
    _result_count: c_int,
    _result_datatype: Handle,
    _target_rank: c_int,
    _target_disp: i64,
    _target_count: c_int,
    _target_datatype: Handle,
    _op: Handle,
    win: Handle,
    request: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(request, 0x180) };
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Rget_accumulate".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Rget_accumulate_c(
    _origin_addr: *const c_void,
    _origin_count: i64,
    _origin_datatype: Handle,
    _result_addr: *mut c_void,
    _result_count: i64,
    _result_datatype: Handle,
    _target_rank: c_int,
    _target_disp: i64,
    _target_count: i64,
    _target_datatype: Handle,
    _op: Handle,
    win: Handle,
    request: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(request, 0x180) };
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Rget_accumulate_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Rget_c(
    _origin_addr: *mut c_void,
    _origin_count: i64,
    _origin_datatype: Handle,
    _target_rank: c_int,
    _target_disp: i64,
    _target_count: i64,
    _target_datatype: Handle,
    win: Handle,
    request: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(request, 0x180) };
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Rget_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Rput(
    _origin_addr: *const c_void,
    _origin_count: c_int,
    _origin_datatype: Handle,
    _target_rank: c_int,
    _target_disp: i64,
    _target_count: c_int,
    _target_datatype: Handle,
    win: Handle,
    request: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(request, 0x180) };
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Rput".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Rput_c(
    _origin_addr: *const c_void,
    _origin_count: i64,
    _origin_datatype: Handle,
    _target_rank: c_int,
    _target_disp: i64,
    _target_count: i64,
    _target_datatype: Handle,
    win: Handle,
    request: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(request, 0x180) };
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Rput_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Rsend(
    buf: *const c_void,
    count: c_int,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
) -> c_int {
    unsafe { ferriband_mpi_rsend(buf, count.wide(), id(datatype), dest, tag, id(comm)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Rsend_c(
    buf: *const c_void,
    count: i64,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
) -> c_int {
    unsafe { ferriband_mpi_rsend(buf, count.wide(), id(datatype), dest, tag, id(comm)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Rsend_init(
    buf: *const c_void,
    count: c_int,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_rsend_init(
            buf,
            count.wide(),
            id(datatype),
            dest,
            tag,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Rsend_init_c(
    buf: *const c_void,
    count: i64,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_rsend_init(
            buf,
            count.wide(),
            id(datatype),
            dest,
            tag,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Scan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_scan(
            sendbuf,
            recvbuf,
            count.wide(),
            id(datatype),
            id(op),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Scan_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_scan(
            sendbuf,
            recvbuf,
            count.wide(),
            id(datatype),
            id(op),
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Scan_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_scan_init(
            sendbuf,
            recvbuf,
            count.wide(),
            id(datatype),
            id(op),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Scan_init_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_scan_init(
            sendbuf,
            recvbuf,
            count.wide(),
            id(datatype),
            id(op),
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Scatter(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_scatter(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            root,
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Scatter_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_scatter(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            root,
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Scatter_init(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_scatter_init(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            root,
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Scatter_init_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_scatter_init(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            root,
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Scatterv(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    displs: *const c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_scatterv(
            sendbuf,
            Array::of(sendcounts),
            Array::of(displs),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            root,
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Scatterv_c(
    sendbuf: *const c_void,
    sendcounts: *const i64,
    displs: *const i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_scatterv(
            sendbuf,
            Array::of(sendcounts),
            Array::of(displs),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            root,
            id(comm),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Scatterv_init(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    displs: *const c_int,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_scatterv_init(
            sendbuf,
            Array::of(sendcounts),
            Array::of(displs),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            root,
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Scatterv_init_c(
    sendbuf: *const c_void,
    sendcounts: *const i64,
    displs: *const i64,
    sendtype: Handle,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
    info: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_scatterv_init(
            sendbuf,
            Array::of(sendcounts),
            Array::of(displs),
            id(sendtype),
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            root,
            id(comm),
            id(info),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Send(
    buf: *const c_void,
    count: c_int,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
) -> c_int {
    unsafe { ferriband_mpi_send(buf, count.wide(), id(datatype), dest, tag, id(comm)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Send_c(
    buf: *const c_void,
    count: i64,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
) -> c_int {
    unsafe { ferriband_mpi_send(buf, count.wide(), id(datatype), dest, tag, id(comm)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Send_init(
    buf: *const c_void,
    count: c_int,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_send_init(
            buf,
            count.wide(),
            id(datatype),
            dest,
            tag,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Send_init_c(
    buf: *const c_void,
    count: i64,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_send_init(
            buf,
            count.wide(),
            id(datatype),
            dest,
            tag,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Sendrecv(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Handle,
    dest: c_int,
    sendtag: c_int,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Handle,
    source: c_int,
    recvtag: c_int,
    comm: Handle,
    status: *mut Status,
) -> c_int {
    unsafe {
        ferriband_mpi_sendrecv(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            dest,
            sendtag,
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            source,
            recvtag,
            id(comm),
            status,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Sendrecv_c(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    dest: c_int,
    sendtag: c_int,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: Handle,
    source: c_int,
    recvtag: c_int,
    comm: Handle,
    status: *mut Status,
) -> c_int {
    unsafe {
        ferriband_mpi_sendrecv(
            sendbuf,
            sendcount.wide(),
            id(sendtype),
            dest,
            sendtag,
            recvbuf,
            recvcount.wide(),
            id(recvtype),
            source,
            recvtag,
            id(comm),
            status,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Sendrecv_replace(
    buf: *mut c_void,
    count: c_int,
    datatype: Handle,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: Handle,
    status: *mut Status,
) -> c_int {
    unsafe {
        ferriband_mpi_sendrecv_replace(
            buf,
            count.wide(),
            id(datatype),
            dest,
            sendtag,
            source,
            recvtag,
            id(comm),
            status,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Sendrecv_replace_c(
    buf: *mut c_void,
    count: i64,
    datatype: Handle,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: Handle,
    status: *mut Status,
) -> c_int {
    unsafe {
        ferriband_mpi_sendrecv_replace(
            buf,
            count.wide(),
            id(datatype),
            dest,
            sendtag,
            source,
            recvtag,
            id(comm),
            status,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Session_attach_buffer(
    session: Handle,
    buffer: *mut c_void,
    size: c_int,
) -> c_int {
    unsafe { ferriband_mpi_session_attach_buffer(id(session), buffer, size.wide()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Session_attach_buffer_c(
    session: Handle,
    buffer: *mut c_void,
    size: i64,
) -> c_int {
    unsafe { ferriband_mpi_session_attach_buffer(id(session), buffer, size.wide()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Session_call_errhandler(session: Handle, errorcode: c_int) -> c_int {
    unsafe { ferriband_mpi_session_call_errhandler(id(session), errorcode) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Session_create_errhandler(
    session_errhandler_fn: *const c_void,
    errhandler: *mut Handle,
) -> c_int {
    let mut errhandler = unsafe { OutHandle::empty(errhandler) };
    let code = unsafe {
        ferriband_mpi_session_create_errhandler(
            session_errhandler_fn,
            crate::thunks::session_errhandler_function(),
            errhandler.place(),
        )
    };
    unsafe { errhandler.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Session_detach_buffer(
    session: Handle,
    buffer_addr: *mut c_void,
    size: *mut c_int,
) -> c_int {
    let mut size = unsafe { OutCount::empty(size) };
    let code =
        unsafe { ferriband_mpi_session_detach_buffer(id(session), buffer_addr, size.place()) };
    unsafe { size.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Session_detach_buffer_c(
    session: Handle,
    buffer_addr: *mut c_void,
    size: *mut i64,
) -> c_int {
    let mut size = unsafe { OutCount::empty(size) };
    let code =
        unsafe { ferriband_mpi_session_detach_buffer(id(session), buffer_addr, size.place()) };
    unsafe { size.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Session_finalize(session: *mut Handle) -> c_int {
    let mut session = unsafe { OutHandle::full(session) };
    let code = unsafe { ferriband_mpi_session_finalize(session.place()) };
    unsafe { session.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Session_flush_buffer(session: Handle) -> c_int {
    unsafe { ferriband_mpi_session_flush_buffer(id(session)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Session_fromint(session: c_int) -> Handle {
    Handle::of(session)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Session_get_errhandler(
    session: Handle,
    errhandler: *mut Handle,
) -> c_int {
    let mut errhandler = unsafe { OutHandle::empty(errhandler) };
    let code = unsafe { ferriband_mpi_session_get_errhandler(id(session), errhandler.place()) };
    unsafe { errhandler.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Session_get_info(session: Handle, info_used: *mut Handle) -> c_int {
    let mut info_used = unsafe { OutHandle::empty(info_used) };
    let code = unsafe { ferriband_mpi_session_get_info(id(session), info_used.place()) };
    unsafe { info_used.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Session_get_nth_pset(
    session: Handle,
    info: Handle,
    n: c_int,
    pset_len: *mut c_int,
    pset_name: *mut c_char,
) -> c_int {
    unsafe { ferriband_mpi_session_get_nth_pset(id(session), id(info), n, pset_len, pset_name) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Session_get_num_psets(
    session: Handle,
    info: Handle,
    npset_names: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_session_get_num_psets(id(session), id(info), npset_names) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Session_get_pset_info(
    session: Handle,
    pset_name: *const c_char,
    info: *mut Handle,
) -> c_int {
    let mut info = unsafe { OutHandle::empty(info) };
    let code = unsafe { ferriband_mpi_session_get_pset_info(id(session), pset_name, info.place()) };
    unsafe { info.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Session_iflush_buffer(
    session: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe { ferriband_mpi_session_iflush_buffer(id(session), request.place()) };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Session_init(
    info: Handle,
    errhandler: Handle,
    session: *mut Handle,
) -> c_int {
    let mut session = unsafe { OutHandle::empty(session) };
    let code = unsafe { ferriband_mpi_session_init(id(info), id(errhandler), session.place()) };
    unsafe { session.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Session_set_errhandler(session: Handle, errhandler: Handle) -> c_int {
    unsafe { ferriband_mpi_session_set_errhandler(id(session), id(errhandler)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Session_toint(session: Handle) -> c_int {
    id(session)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ssend(
    buf: *const c_void,
    count: c_int,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
) -> c_int {
    unsafe { ferriband_mpi_ssend(buf, count.wide(), id(datatype), dest, tag, id(comm)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ssend_c(
    buf: *const c_void,
    count: i64,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
) -> c_int {
    unsafe { ferriband_mpi_ssend(buf, count.wide(), id(datatype), dest, tag, id(comm)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ssend_init(
    buf: *const c_void,
    count: c_int,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_ssend_init(
            buf,
            count.wide(),
            id(datatype),
            dest,
            tag,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Ssend_init_c(
    buf: *const c_void,
    count: i64,
    datatype: Handle,
    dest: c_int,
    tag: c_int,
    comm: Handle,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe {
        ferriband_mpi_ssend_init(
            buf,
            count.wide(),
            id(datatype),
            dest,
            tag,
            id(comm),
            request.place(),
        )
    };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Start(request: *mut Handle) -> c_int {
    let mut request = unsafe { OutHandle::full(request) };
    let code = unsafe { ferriband_mpi_start(request.place()) };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Startall(count: c_int, array_of_requests: *mut Handle) -> c_int {
    unsafe { ferriband_mpi_startall(count, Array::of(array_of_requests)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Status_get_error(status: *const Status, error: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_status_get_error(status, error) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Status_get_source(
    status: *const Status,
    source: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_status_get_source(status, source) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Status_get_tag(status: *const Status, tag: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_status_get_tag(status, tag) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Status_set_cancelled(status: *mut Status, flag: c_int) -> c_int {
    unsafe { ferriband_mpi_status_set_cancelled(status, flag) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Status_set_elements(
    status: *mut Status,
    datatype: Handle,
    count: c_int,
) -> c_int {
    unsafe { ferriband_mpi_status_set_elements(status, id(datatype), count.wide()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Status_set_elements_c(
    status: *mut Status,
    datatype: Handle,
    count: i64,
) -> c_int {
    unsafe { ferriband_mpi_status_set_elements(status, id(datatype), count.wide()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Status_set_elements_x(
    status: *mut Status,
    datatype: Handle,
    count: i64,
) -> c_int {
    unsafe { ferriband_mpi_status_set_elements_x(status, id(datatype), count) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Status_set_error(status: *mut Status, error: c_int) -> c_int {
    unsafe { ferriband_mpi_status_set_error(status, error) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Status_set_source(status: *mut Status, source: c_int) -> c_int {
    unsafe { ferriband_mpi_status_set_source(status, source) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Status_set_tag(status: *mut Status, tag: c_int) -> c_int {
    unsafe { ferriband_mpi_status_set_tag(status, tag) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_category_changed(_update_number: *mut c_int) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_category_get_categories(
    _cat_index: c_int,
    _len: c_int,
    _indices: *mut c_int,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_category_get_cvars(
    _cat_index: c_int,
    _len: c_int,
    _indices: *mut c_int,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_category_get_events(
    _cat_index: c_int,
    _len: c_int,
    _indices: *mut c_int,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_category_get_index(
    _name: *const c_char,
    _cat_index: *mut c_int,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_category_get_info(
    _cat_index: c_int,
    _name: *mut c_char,
    _name_len: *mut c_int,
    _desc: *mut c_char,
    _desc_len: *mut c_int,
    _num_cvars: *mut c_int,
    _num_pvars: *mut c_int,
    _num_categories: *mut c_int,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_category_get_num(_num_cat: *mut c_int) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_category_get_num_events(
    _cat_index: c_int,
    _num_events: *mut c_int,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_category_get_pvars(
    _cat_index: c_int,
    _len: c_int,
    _indices: *mut c_int,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_cvar_get_index(
    _name: *const c_char,
    _cvar_index: *mut c_int,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_cvar_get_info(
    _cvar_index: c_int,
    _name: *mut c_char,
    _name_len: *mut c_int,
    _verbosity: *mut c_int,
    _datatype: *mut Handle,
    _enumtype: *mut Handle,
    _desc: *mut c_char,
    _desc_len: *mut c_int,
    _bind: *mut c_int,
    _scope: *mut c_int,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_cvar_get_num(_num_cvar: *mut c_int) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_cvar_handle_alloc(
    _cvar_index: c_int,
    _obj_handle: *mut c_void,
    _handle: *mut Handle,
    _count: *mut c_int,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_cvar_handle_free(_handle: *mut Handle) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_cvar_read(_handle: Handle, _buf: *mut c_void) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_cvar_write(_handle: Handle, _buf: *const c_void) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_enum_get_info(
    _enumtype: Handle,
    _num: *mut c_int,
    _name: *mut c_char,
    _name_len: *mut c_int,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_enum_get_item(
    _enumtype: Handle,
    _indx: c_int,
    _value: *mut c_int,
    _name: *mut c_char,
    _name_len: *mut c_int,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_event_callback_get_info(
    _event_registration: Handle,
    _cb_safety: c_int,
    _info_used: *mut Handle,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_event_callback_set_info(
    _event_registration: Handle,
    _cb_safety: c_int,
    _info: Handle,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_event_copy(_event_instance: Handle, _buffer: *mut c_void) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_event_get_index(
    _name: *const c_char,
    _event_index: *mut c_int,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_event_get_info(
    _event_index: c_int,
    _name: *mut c_char,
    _name_len: *mut c_int,
    _verbosity: *mut c_int,
    _array_of_datatypes: *mut Handle,
    _array_of_displacements: *mut i64,
    _num_elements: *mut c_int,
    _enumtype: *mut Handle,
    _info: *mut Handle,
    _desc: *mut c_char,
    _desc_len: *mut c_int,
    _bind: *mut c_int,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_event_get_num(_num_events: *mut c_int) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_event_get_source(
    _event_instance: Handle,
    _source_index: *mut c_int,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_event_get_timestamp(
    _event_instance: Handle,
    _event_timestamp: *mut i64,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_event_handle_alloc(
    _event_index: c_int,
    _obj_handle: *mut c_void,
    _info: Handle,
    _event_registration: *mut Handle,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_event_handle_free(
    _event_registration: Handle,
    _user_data: *mut c_void,
    _free_cb_function: *const c_void,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_event_handle_get_info(
    _event_registration: Handle,
    _info_used: *mut Handle,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_event_handle_set_info(
    _event_registration: Handle,
    _info: Handle,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_event_read(
    _event_instance: Handle,
    _element_index: c_int,
    _buffer: *mut c_void,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_event_register_callback(
    _event_registration: Handle,
    _cb_safety: c_int,
    _info: Handle,
    _user_data: *mut c_void,
    _event_cb_function: *const c_void,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_event_set_dropped_handler(
    _event_registration: Handle,
    _dropped_cb_function: *const c_void,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_finalize() -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_init_thread(_required: c_int, _provided: *mut c_int) -> c_int {
    1001 // MPI_T_ERR_CANNOT_INIT
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_pvar_get_index(
    _name: *const c_char,
    _var_class: c_int,
    _pvar_index: *mut c_int,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_pvar_get_info(
    _pvar_index: c_int,
    _name: *mut c_char,
    _name_len: *mut c_int,
    _verbosity: *mut c_int,
    _var_class: *mut c_int,
    _datatype: *mut Handle,
    _enumtype: *mut Handle,
    _desc: *mut c_char,
    _desc_len: *mut c_int,
    _bind: *mut c_int,
    _readonly: *mut c_int,
    _continuous: *mut c_int,
    _atomic: *mut c_int,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_pvar_get_num(_num_pvar: *mut c_int) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_pvar_handle_alloc(
    _session: Handle,
    _pvar_index: c_int,
    _obj_handle: *mut c_void,
    _handle: *mut Handle,
    _count: *mut c_int,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_pvar_handle_free(_session: Handle, _handle: *mut Handle) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_pvar_read(
    _session: Handle,
    _handle: Handle,
    _buf: *mut c_void,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_pvar_readreset(
    _session: Handle,
    _handle: Handle,
    _buf: *mut c_void,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_pvar_reset(_session: Handle, _handle: Handle) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_pvar_session_create(_session: *mut Handle) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_pvar_session_free(_session: *mut Handle) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_pvar_start(_session: Handle, _handle: Handle) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_pvar_stop(_session: Handle, _handle: Handle) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_pvar_write(
    _session: Handle,
    _handle: Handle,
    _buf: *const c_void,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_source_get_info(
    _source_index: c_int,
    _name: *mut c_char,
    _name_len: *mut c_int,
    _desc: *mut c_char,
    _desc_len: *mut c_int,
    _ordering: *mut c_int,
    _ticks_per_second: *mut i64,
    _max_ticks: *mut i64,
    _info: *mut Handle,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_source_get_num(_num_sources: *mut c_int) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_T_source_get_timestamp(
    _source_index: c_int,
    _timestamp: *mut i64,
) -> c_int {
    1003 // MPI_T_ERR_NOT_INITIALIZED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Test(
    request: *mut Handle,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    let mut request = unsafe { OutHandle::full(request) };
    let code = unsafe { ferriband_mpi_test(request.place(), flag, status) };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Test_cancelled(status: *const Status, flag: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_test_cancelled(status, flag) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Testall(
    count: c_int,
    array_of_requests: *mut Handle,
    flag: *mut c_int,
    array_of_statuses: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_testall(count, Array::of(array_of_requests), flag, array_of_statuses) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Testany(
    count: c_int,
    array_of_requests: *mut Handle,
    indx: *mut c_int,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_testany(count, Array::of(array_of_requests), indx, flag, status) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Testsome(
    incount: c_int,
    array_of_requests: *mut Handle,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut Status,
) -> c_int {
    unsafe {
        ferriband_mpi_testsome(
            incount,
            Array::of(array_of_requests),
            outcount,
            array_of_indices,
            array_of_statuses,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Topo_test(comm: Handle, status: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_topo_test(id(comm), status) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_commit(datatype: *mut Handle) -> c_int {
    let mut datatype = unsafe { OutHandle::full(datatype) };
    let code = unsafe { ferriband_mpi_type_commit(datatype.place()) };
    unsafe { datatype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_contiguous(
    count: c_int,
    oldtype: Handle,
    newtype: *mut Handle,
) -> c_int {
    let mut newtype = unsafe { OutHandle::empty(newtype) };
    let code = unsafe { ferriband_mpi_type_contiguous(count.wide(), id(oldtype), newtype.place()) };
    unsafe { newtype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_contiguous_c(
    count: i64,
    oldtype: Handle,
    newtype: *mut Handle,
) -> c_int {
    let mut newtype = unsafe { OutHandle::empty(newtype) };
    let code =
        unsafe { ferriband_mpi_type_contiguous_c(count.wide(), id(oldtype), newtype.place()) };
    unsafe { newtype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_create_darray(
    size: c_int,
    rank: c_int,
    ndims: c_int,
    array_of_gsizes: *const c_int,
    array_of_distribs: *const c_int,
    array_of_dargs: *const c_int,
    array_of_psizes: *const c_int,
    order: c_int,
    oldtype: Handle,
    newtype: *mut Handle,
) -> c_int {
    let mut newtype = unsafe { OutHandle::empty(newtype) };
    let code = unsafe {
        ferriband_mpi_type_create_darray(
            size,
            rank,
            ndims,
            Array::of(array_of_gsizes),
            array_of_distribs,
            array_of_dargs,
            array_of_psizes,
            order,
            id(oldtype),
            newtype.place(),
        )
    };
    unsafe { newtype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_create_darray_c(
    size: c_int,
    rank: c_int,
    ndims: c_int,
    array_of_gsizes: *const i64,
    array_of_distribs: *const c_int,
    array_of_dargs: *const c_int,
    array_of_psizes: *const c_int,
    order: c_int,
    oldtype: Handle,
    newtype: *mut Handle,
) -> c_int {
    let mut newtype = unsafe { OutHandle::empty(newtype) };
    let code = unsafe {
        ferriband_mpi_type_create_darray(
            size,
            rank,
            ndims,
            Array::of(array_of_gsizes),
            array_of_distribs,
            array_of_dargs,
            array_of_psizes,
            order,
            id(oldtype),
            newtype.place(),
        )
    };
    unsafe { newtype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_create_f90_complex(
    p: c_int,
    r: c_int,
    newtype: *mut Handle,
) -> c_int {
    let mut newtype = unsafe { OutHandle::empty(newtype) };
    let code = unsafe { ferriband_mpi_type_create_f90_complex(p, r, newtype.place()) };
    unsafe { newtype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_create_f90_integer(r: c_int, newtype: *mut Handle) -> c_int {
    let mut newtype = unsafe { OutHandle::empty(newtype) };
    let code = unsafe { ferriband_mpi_type_create_f90_integer(r, newtype.place()) };
    unsafe { newtype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_create_f90_real(
    p: c_int,
    r: c_int,
    newtype: *mut Handle,
) -> c_int {
    let mut newtype = unsafe { OutHandle::empty(newtype) };
    let code = unsafe { ferriband_mpi_type_create_f90_real(p, r, newtype.place()) };
    unsafe { newtype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_create_hindexed(
    count: c_int,
    array_of_blocklengths: *const c_int,
    array_of_displacements: *const i64,
    oldtype: Handle,
    newtype: *mut Handle,
) -> c_int {
    let mut newtype = unsafe { OutHandle::empty(newtype) };
    let code = unsafe {
        ferriband_mpi_type_create_hindexed(
            count.wide(),
            Array::of(array_of_blocklengths),
            array_of_displacements,
            id(oldtype),
            newtype.place(),
        )
    };
    unsafe { newtype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_create_hindexed_block(
    count: c_int,
    blocklength: c_int,
    array_of_displacements: *const i64,
    oldtype: Handle,
    newtype: *mut Handle,
) -> c_int {
    let mut newtype = unsafe { OutHandle::empty(newtype) };
    let code = unsafe {
        ferriband_mpi_type_create_hindexed_block(
            count.wide(),
            blocklength.wide(),
            array_of_displacements,
            id(oldtype),
            newtype.place(),
        )
    };
    unsafe { newtype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_create_hindexed_block_c(
    count: i64,
    blocklength: i64,
    array_of_displacements: *const i64,
    oldtype: Handle,
    newtype: *mut Handle,
) -> c_int {
    let mut newtype = unsafe { OutHandle::empty(newtype) };
    let code = unsafe {
        ferriband_mpi_type_create_hindexed_block_c(
            count.wide(),
            blocklength.wide(),
            array_of_displacements,
            id(oldtype),
            newtype.place(),
        )
    };
    unsafe { newtype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_create_hindexed_c(
    count: i64,
    array_of_blocklengths: *const i64,
    array_of_displacements: *const i64,
    oldtype: Handle,
    newtype: *mut Handle,
) -> c_int {
    let mut newtype = unsafe { OutHandle::empty(newtype) };
    let code = unsafe {
        ferriband_mpi_type_create_hindexed(
            count.wide(),
            Array::of(array_of_blocklengths),
            array_of_displacements,
            id(oldtype),
            newtype.place(),
        )
    };
    unsafe { newtype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_create_hvector(
    count: c_int,
    blocklength: c_int,
    stride: i64,
    oldtype: Handle,
    newtype: *mut Handle,
) -> c_int {
    let mut newtype = unsafe { OutHandle::empty(newtype) };
    let code = unsafe {
        ferriband_mpi_type_create_hvector(
            count.wide(),
            blocklength.wide(),
            stride,
            id(oldtype),
            newtype.place(),
        )
    };
    unsafe { newtype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_create_hvector_c(
    count: i64,
    blocklength: i64,
    stride: i64,
    oldtype: Handle,
    newtype: *mut Handle,
) -> c_int {
    let mut newtype = unsafe { OutHandle::empty(newtype) };
    let code = unsafe {
        ferriband_mpi_type_create_hvector_c(
            count.wide(),
            blocklength.wide(),
            stride,
            id(oldtype),
            newtype.place(),
        )
    };
    unsafe { newtype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_create_indexed_block(
    count: c_int,
    blocklength: c_int,
    array_of_displacements: *const c_int,
    oldtype: Handle,
    newtype: *mut Handle,
) -> c_int {
    let mut newtype = unsafe { OutHandle::empty(newtype) };
    let code = unsafe {
        ferriband_mpi_type_create_indexed_block(
            count.wide(),
            blocklength.wide(),
            Array::of(array_of_displacements),
            id(oldtype),
            newtype.place(),
        )
    };
    unsafe { newtype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_create_indexed_block_c(
    count: i64,
    blocklength: i64,
    array_of_displacements: *const i64,
    oldtype: Handle,
    newtype: *mut Handle,
) -> c_int {
    let mut newtype = unsafe { OutHandle::empty(newtype) };
    let code = unsafe {
        ferriband_mpi_type_create_indexed_block(
            count.wide(),
            blocklength.wide(),
            Array::of(array_of_displacements),
            id(oldtype),
            newtype.place(),
        )
    };
    unsafe { newtype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_create_keyval(
    type_copy_attr_fn: *const c_void,
    type_delete_attr_fn: *const c_void,
    type_keyval: *mut c_int,
    extra_state: *mut c_void,
) -> c_int {
    unsafe {
        ferriband_mpi_type_create_keyval(
            type_copy_attr_fn,
            crate::thunks::type_copy_attr_function(),
            type_delete_attr_fn,
            crate::thunks::type_delete_attr_function(),
            type_keyval,
            extra_state,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_create_resized(
    oldtype: Handle,
    lb: i64,
    extent: i64,
    newtype: *mut Handle,
) -> c_int {
    let mut newtype = unsafe { OutHandle::empty(newtype) };
    let code =
        unsafe { ferriband_mpi_type_create_resized(id(oldtype), lb, extent, newtype.place()) };
    unsafe { newtype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_create_resized_c(
    oldtype: Handle,
    lb: i64,
    extent: i64,
    newtype: *mut Handle,
) -> c_int {
    let mut newtype = unsafe { OutHandle::empty(newtype) };
    let code =
        unsafe { ferriband_mpi_type_create_resized_c(id(oldtype), lb, extent, newtype.place()) };
    unsafe { newtype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_create_struct(
    count: c_int,
    array_of_blocklengths: *const c_int,
    array_of_displacements: *const i64,
    array_of_types: *const Handle,
    newtype: *mut Handle,
) -> c_int {
    let mut newtype = unsafe { OutHandle::empty(newtype) };
    let code = unsafe {
        ferriband_mpi_type_create_struct(
            count.wide(),
            Array::of(array_of_blocklengths),
            array_of_displacements,
            Array::of(array_of_types),
            newtype.place(),
        )
    };
    unsafe { newtype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_create_struct_c(
    count: i64,
    array_of_blocklengths: *const i64,
    array_of_displacements: *const i64,
    array_of_types: *const Handle,
    newtype: *mut Handle,
) -> c_int {
    let mut newtype = unsafe { OutHandle::empty(newtype) };
    let code = unsafe {
        ferriband_mpi_type_create_struct(
            count.wide(),
            Array::of(array_of_blocklengths),
            array_of_displacements,
            Array::of(array_of_types),
            newtype.place(),
        )
    };
    unsafe { newtype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_create_subarray(
    ndims: c_int,
    array_of_sizes: *const c_int,
    array_of_subsizes: *const c_int,
    array_of_starts: *const c_int,
    order: c_int,
    oldtype: Handle,
    newtype: *mut Handle,
) -> c_int {
    let mut newtype = unsafe { OutHandle::empty(newtype) };
    let code = unsafe {
        ferriband_mpi_type_create_subarray(
            ndims,
            Array::of(array_of_sizes),
            Array::of(array_of_subsizes),
            Array::of(array_of_starts),
            order,
            id(oldtype),
            newtype.place(),
        )
    };
    unsafe { newtype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_create_subarray_c(
    ndims: c_int,
    array_of_sizes: *const i64,
    array_of_subsizes: *const i64,
    array_of_starts: *const i64,
    order: c_int,
    oldtype: Handle,
    newtype: *mut Handle,
) -> c_int {
    let mut newtype = unsafe { OutHandle::empty(newtype) };
    let code = unsafe {
        ferriband_mpi_type_create_subarray(
            ndims,
            Array::of(array_of_sizes),
            Array::of(array_of_subsizes),
            Array::of(array_of_starts),
            order,
            id(oldtype),
            newtype.place(),
        )
    };
    unsafe { newtype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_delete_attr(datatype: Handle, type_keyval: c_int) -> c_int {
    unsafe { ferriband_mpi_type_delete_attr(id(datatype), type_keyval) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_dup(oldtype: Handle, newtype: *mut Handle) -> c_int {
    let mut newtype = unsafe { OutHandle::empty(newtype) };
    let code = unsafe { ferriband_mpi_type_dup(id(oldtype), newtype.place()) };
    unsafe { newtype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_free(datatype: *mut Handle) -> c_int {
    let mut datatype = unsafe { OutHandle::full(datatype) };
    let code = unsafe { ferriband_mpi_type_free(datatype.place()) };
    unsafe { datatype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_free_keyval(type_keyval: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_type_free_keyval(type_keyval) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_fromint(datatype: c_int) -> Handle {
    Handle::of(datatype)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_get_attr(
    datatype: Handle,
    type_keyval: c_int,
    attribute_val: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_type_get_attr(id(datatype), type_keyval, attribute_val, flag) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_get_contents(
    datatype: Handle,
    max_integers: c_int,
    max_addresses: c_int,
    max_datatypes: c_int,
    array_of_integers: *mut c_int,
    array_of_addresses: *mut i64,
    array_of_datatypes: *mut Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_type_get_contents(
            id(datatype),
            max_integers,
            max_addresses,
            max_datatypes,
            array_of_integers,
            array_of_addresses,
            Array::of(array_of_datatypes),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_get_contents_c(
    datatype: Handle,
    max_integers: i64,
    max_addresses: i64,
    max_large_counts: i64,
    max_datatypes: i64,
    array_of_integers: *mut c_int,
    array_of_addresses: *mut i64,
    array_of_large_counts: *mut i64,
    array_of_datatypes: *mut Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_type_get_contents_c(
            id(datatype),
            max_integers,
            max_addresses,
            max_large_counts,
            max_datatypes,
            array_of_integers,
            array_of_addresses,
            array_of_large_counts,
            Array::of(array_of_datatypes),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_get_envelope(
    datatype: Handle,
    num_integers: *mut c_int,
    num_addresses: *mut c_int,
    num_datatypes: *mut c_int,
    combiner: *mut c_int,
) -> c_int {
    unsafe {
        ferriband_mpi_type_get_envelope(
            id(datatype),
            num_integers,
            num_addresses,
            num_datatypes,
            combiner,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_get_envelope_c(
    datatype: Handle,
    num_integers: *mut i64,
    num_addresses: *mut i64,
    num_large_counts: *mut i64,
    num_datatypes: *mut i64,
    combiner: *mut c_int,
) -> c_int {
    unsafe {
        ferriband_mpi_type_get_envelope_c(
            id(datatype),
            num_integers,
            num_addresses,
            num_large_counts,
            num_datatypes,
            combiner,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_get_extent(
    datatype: Handle,
    lb: *mut i64,
    extent: *mut i64,
) -> c_int {
    unsafe { ferriband_mpi_type_get_extent(id(datatype), lb, extent) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_get_extent_c(
    datatype: Handle,
    lb: *mut i64,
    extent: *mut i64,
) -> c_int {
    unsafe { ferriband_mpi_type_get_extent(id(datatype), lb, extent) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_get_extent_x(
    datatype: Handle,
    lb: *mut i64,
    extent: *mut i64,
) -> c_int {
    unsafe { ferriband_mpi_type_get_extent_x(id(datatype), lb, extent) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_get_name(
    datatype: Handle,
    type_name: *mut c_char,
    resultlen: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_type_get_name(id(datatype), type_name, resultlen) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_get_true_extent(
    datatype: Handle,
    true_lb: *mut i64,
    true_extent: *mut i64,
) -> c_int {
    unsafe { ferriband_mpi_type_get_true_extent(id(datatype), true_lb, true_extent) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_get_true_extent_c(
    datatype: Handle,
    true_lb: *mut i64,
    true_extent: *mut i64,
) -> c_int {
    unsafe { ferriband_mpi_type_get_true_extent(id(datatype), true_lb, true_extent) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_get_true_extent_x(
    datatype: Handle,
    true_lb: *mut i64,
    true_extent: *mut i64,
) -> c_int {
    unsafe { ferriband_mpi_type_get_true_extent_x(id(datatype), true_lb, true_extent) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_get_value_index(
    value_type: Handle,
    index_type: Handle,
    pair_type: *mut Handle,
) -> c_int {
    let mut pair_type = unsafe { OutHandle::empty(pair_type) };
    let code = unsafe {
        ferriband_mpi_type_get_value_index(id(value_type), id(index_type), pair_type.place())
    };
    unsafe { pair_type.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_indexed(
    count: c_int,
    array_of_blocklengths: *const c_int,
    array_of_displacements: *const c_int,
    oldtype: Handle,
    newtype: *mut Handle,
) -> c_int {
    let mut newtype = unsafe { OutHandle::empty(newtype) };
    let code = unsafe {
        ferriband_mpi_type_indexed(
            count.wide(),
            Array::of(array_of_blocklengths),
            Array::of(array_of_displacements),
            id(oldtype),
            newtype.place(),
        )
    };
    unsafe { newtype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_indexed_c(
    count: i64,
    array_of_blocklengths: *const i64,
    array_of_displacements: *const i64,
    oldtype: Handle,
    newtype: *mut Handle,
) -> c_int {
    let mut newtype = unsafe { OutHandle::empty(newtype) };
    let code = unsafe {
        ferriband_mpi_type_indexed(
            count.wide(),
            Array::of(array_of_blocklengths),
            Array::of(array_of_displacements),
            id(oldtype),
            newtype.place(),
        )
    };
    unsafe { newtype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_match_size(
    typeclass: c_int,
    size: c_int,
    datatype: *mut Handle,
) -> c_int {
    let mut datatype = unsafe { OutHandle::empty(datatype) };
    let code = unsafe { ferriband_mpi_type_match_size(typeclass, size, datatype.place()) };
    unsafe { datatype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_set_attr(
    datatype: Handle,
    type_keyval: c_int,
    attribute_val: *mut c_void,
) -> c_int {
    unsafe { ferriband_mpi_type_set_attr(id(datatype), type_keyval, attribute_val) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_set_name(datatype: Handle, type_name: *const c_char) -> c_int {
    unsafe { ferriband_mpi_type_set_name(id(datatype), type_name) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_size(datatype: Handle, size: *mut c_int) -> c_int {
    let mut size = unsafe { OutCount::empty(size) };
    let code = unsafe { ferriband_mpi_type_size(id(datatype), size.place()) };
    unsafe { size.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_size_c(datatype: Handle, size: *mut i64) -> c_int {
    let mut size = unsafe { OutCount::empty(size) };
    let code = unsafe { ferriband_mpi_type_size(id(datatype), size.place()) };
    unsafe { size.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_size_x(datatype: Handle, size: *mut i64) -> c_int {
    unsafe { ferriband_mpi_type_size_x(id(datatype), size) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_toint(datatype: Handle) -> c_int {
    id(datatype)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_vector(
    count: c_int,
    blocklength: c_int,
    stride: c_int,
    oldtype: Handle,
    newtype: *mut Handle,
) -> c_int {
    let mut newtype = unsafe { OutHandle::empty(newtype) };
    let code = unsafe {
        ferriband_mpi_type_vector(
            count.wide(),
            blocklength.wide(),
            stride.wide(),
            id(oldtype),
            newtype.place(),
        )
    };
    unsafe { newtype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Type_vector_c(
    count: i64,
    blocklength: i64,
    stride: i64,
    oldtype: Handle,
    newtype: *mut Handle,
) -> c_int {
    let mut newtype = unsafe { OutHandle::empty(newtype) };
    let code = unsafe {
        ferriband_mpi_type_vector_c(
            count.wide(),
            blocklength.wide(),
            stride.wide(),
            id(oldtype),
            newtype.place(),
        )
    };
    unsafe { newtype.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Unpack(
    inbuf: *const c_void,
    insize: c_int,
    position: *mut c_int,
    outbuf: *mut c_void,
    outcount: c_int,
    datatype: Handle,
    comm: Handle,
) -> c_int {
    let mut position = unsafe { OutCount::full(position) };
    let code = unsafe {
        ferriband_mpi_unpack(
            inbuf,
            insize.wide(),
            position.place(),
            outbuf,
            outcount.wide(),
            id(datatype),
            id(comm),
        )
    };
    unsafe { position.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Unpack_c(
    inbuf: *const c_void,
    insize: i64,
    position: *mut i64,
    outbuf: *mut c_void,
    outcount: i64,
    datatype: Handle,
    comm: Handle,
) -> c_int {
    let mut position = unsafe { OutCount::full(position) };
    let code = unsafe {
        ferriband_mpi_unpack(
            inbuf,
            insize.wide(),
            position.place(),
            outbuf,
            outcount.wide(),
            id(datatype),
            id(comm),
        )
    };
    unsafe { position.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Unpack_external(
    datarep: *const c_char,
    inbuf: *const c_void,
    insize: i64,
    position: *mut i64,
    outbuf: *mut c_void,
    outcount: c_int,
    datatype: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_unpack_external(
            datarep,
            inbuf,
            insize,
            position,
            outbuf,
            outcount.wide(),
            id(datatype),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Unpack_external_c(
    datarep: *const c_char,
    inbuf: *const c_void,
    insize: i64,
    position: *mut i64,
    outbuf: *mut c_void,
    outcount: i64,
    datatype: Handle,
) -> c_int {
    unsafe {
        ferriband_mpi_unpack_external(
            datarep,
            inbuf,
            insize,
            position,
            outbuf,
            outcount.wide(),
            id(datatype),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Unpublish_name(
    _service_name: *const c_char,
    _info: Handle,
    _port_name: *const c_char,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(0, 0, c"MPI_Unpublish_name".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Wait(request: *mut Handle, status: *mut Status) -> c_int {
    let mut request = unsafe { OutHandle::full(request) };
    let code = unsafe { ferriband_mpi_wait(request.place(), status) };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Waitall(
    count: c_int,
    array_of_requests: *mut Handle,
    array_of_statuses: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_waitall(count, Array::of(array_of_requests), array_of_statuses) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Waitany(
    count: c_int,
    array_of_requests: *mut Handle,
    indx: *mut c_int,
    status: *mut Status,
) -> c_int {
    unsafe { ferriband_mpi_waitany(count, Array::of(array_of_requests), indx, status) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Waitsome(
    incount: c_int,
    array_of_requests: *mut Handle,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut Status,
) -> c_int {
    unsafe {
        ferriband_mpi_waitsome(
            incount,
            Array::of(array_of_requests),
            outcount,
            array_of_indices,
            array_of_statuses,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_allocate(
    _size: i64,
    _disp_unit: c_int,
    _info: Handle,
    comm: Handle,
    _baseptr: *mut c_void,
    win: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(win, 0x110) };
    unsafe { ferriband_mpi_unsupported(1, id(comm), c"MPI_Win_allocate".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_allocate_c(
    _size: i64,
    _disp_unit: i64,
    _info: Handle,
    comm: Handle,
    _baseptr: *mut c_void,
    win: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(win, 0x110) };
    unsafe { ferriband_mpi_unsupported(1, id(comm), c"MPI_Win_allocate_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_allocate_shared(
    _size: i64,
    _disp_unit: c_int,
    _info: Handle,
    comm: Handle,
    _baseptr: *mut c_void,
    win: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(win, 0x110) };
    unsafe { ferriband_mpi_unsupported(1, id(comm), c"MPI_Win_allocate_shared".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_allocate_shared_c(
    _size: i64,
    _disp_unit: i64,
    _info: Handle,
    comm: Handle,
    _baseptr: *mut c_void,
    win: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(win, 0x110) };
    unsafe { ferriband_mpi_unsupported(1, id(comm), c"MPI_Win_allocate_shared_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_attach(win: Handle, _base: *mut c_void, _size: i64) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_attach".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_call_errhandler(win: Handle, _errorcode: c_int) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_call_errhandler".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_complete(win: Handle) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_complete".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_create(
    _base: *mut c_void,
    _size: i64,
    _disp_unit: c_int,
    _info: Handle,
    comm: Handle,
    win: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(win, 0x110) };
    unsafe { ferriband_mpi_unsupported(1, id(comm), c"MPI_Win_create".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_create_c(
    _base: *mut c_void,
    _size: i64,
    _disp_unit: i64,
    _info: Handle,
    comm: Handle,
    win: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(win, 0x110) };
    unsafe { ferriband_mpi_unsupported(1, id(comm), c"MPI_Win_create_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_create_dynamic(
    _info: Handle,
    comm: Handle,
    win: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(win, 0x110) };
    unsafe { ferriband_mpi_unsupported(1, id(comm), c"MPI_Win_create_dynamic".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_create_errhandler(
    _win_errhandler_fn: *const c_void,
    errhandler: *mut Handle,
) -> c_int {
    unsafe { OutHandle::null(errhandler, 0x140) };
    unsafe { ferriband_mpi_unsupported(0, 0, c"MPI_Win_create_errhandler".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_create_keyval(
    _win_copy_attr_fn: *const c_void,
    _win_delete_attr_fn: *const c_void,
    _win_keyval: *mut c_int,
    _extra_state: *mut c_void,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(0, 0, c"MPI_Win_create_keyval".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_delete_attr(win: Handle, _win_keyval: c_int) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_delete_attr".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_detach(win: Handle, _base: *const c_void) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_detach".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_fence(_assert: c_int, win: Handle) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_fence".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_flush(_rank: c_int, win: Handle) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_flush".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_flush_all(win: Handle) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_flush_all".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_flush_local(_rank: c_int, win: Handle) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_flush_local".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_flush_local_all(win: Handle) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_flush_local_all".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_free(_win: *mut Handle) -> c_int {
    unsafe { ferriband_mpi_unsupported(0, 0, c"MPI_Win_free".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_free_keyval(_win_keyval: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_unsupported(0, 0, c"MPI_Win_free_keyval".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_fromint(win: c_int) -> Handle {
    Handle::of(win)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_get_attr(
    win: Handle,
    _win_keyval: c_int,
    _attribute_val: *mut c_void,
    _flag: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_get_attr".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_get_errhandler(win: Handle, errhandler: *mut Handle) -> c_int {
    unsafe { OutHandle::null(errhandler, 0x140) };
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_get_errhandler".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_get_group(win: Handle, group: *mut Handle) -> c_int {
    unsafe { OutHandle::null(group, 0x108) };
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_get_group".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_get_info(win: Handle, info_used: *mut Handle) -> c_int {
    unsafe { OutHandle::null(info_used, 0x130) };
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_get_info".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_get_name(
    win: Handle,
    _win_name: *mut c_char,
    _resultlen: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_get_name".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_lock(
    _lock_type: c_int,
    _rank: c_int,
    _assert: c_int,
    win: Handle,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_lock".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_lock_all(_assert: c_int, win: Handle) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_lock_all".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_post(_group: Handle, _assert: c_int, win: Handle) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_post".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_set_attr(
    win: Handle,
    _win_keyval: c_int,
    _attribute_val: *mut c_void,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_set_attr".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_set_errhandler(win: Handle, _errhandler: Handle) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_set_errhandler".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_set_info(win: Handle, _info: Handle) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_set_info".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_set_name(win: Handle, _win_name: *const c_char) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_set_name".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_shared_query(
    win: Handle,
    _rank: c_int,
    _size: *mut i64,
    _disp_unit: *mut c_int,
    _baseptr: *mut c_void,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_shared_query".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_shared_query_c(
    win: Handle,
    _rank: c_int,
    _size: *mut i64,
    _disp_unit: *mut i64,
    _baseptr: *mut c_void,
) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_shared_query_c".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_start(_group: Handle, _assert: c_int, win: Handle) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_start".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_sync(win: Handle) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_sync".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_test(win: Handle, _flag: *mut c_int) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_test".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_toint(win: Handle) -> c_int {
    id(win)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_unlock(_rank: c_int, win: Handle) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_unlock".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_unlock_all(win: Handle) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_unlock_all".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Win_wait(win: Handle) -> c_int {
    unsafe { ferriband_mpi_unsupported(2, id(win), c"MPI_Win_wait".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Wtick() -> c_double {
    unsafe { ferriband_mpi_wtick() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Wtime() -> c_double {
    unsafe { ferriband_mpi_wtime() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPIX_Comm_ack_failed(
    comm: Handle,
    num_to_ack: c_int,
    num_acked: *mut c_int,
) -> c_int {
    unsafe { ferriband_mpix_comm_ack_failed(id(comm), num_to_ack, num_acked) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPIX_Comm_agree(comm: Handle, flag: *mut c_int) -> c_int {
    unsafe { ferriband_mpix_comm_agree(id(comm), flag) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPIX_Comm_failure_ack(comm: Handle) -> c_int {
    unsafe { ferriband_mpix_comm_failure_ack(id(comm)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPIX_Comm_failure_get_acked(
    comm: Handle,
    failedgrp: *mut Handle,
) -> c_int {
    let mut failedgrp = unsafe { OutHandle::empty(failedgrp) };
    let code = unsafe { ferriband_mpix_comm_failure_get_acked(id(comm), failedgrp.place()) };
    unsafe { failedgrp.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPIX_Comm_get_failed(comm: Handle, failedgrp: *mut Handle) -> c_int {
    let mut failedgrp = unsafe { OutHandle::empty(failedgrp) };
    let code = unsafe { ferriband_mpix_comm_get_failed(id(comm), failedgrp.place()) };
    unsafe { failedgrp.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPIX_Comm_iagree(
    comm: Handle,
    flag: *mut c_int,
    request: *mut Handle,
) -> c_int {
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe { ferriband_mpix_comm_iagree(id(comm), flag, request.place()) };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPIX_Comm_is_revoked(comm: Handle, flag: *mut c_int) -> c_int {
    unsafe { ferriband_mpix_comm_is_revoked(id(comm), flag) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPIX_Comm_ishrink(
    comm: Handle,
    newcomm: *mut Handle,
    request: *mut Handle,
) -> c_int {
    let mut newcomm = unsafe { OutHandle::empty(newcomm) };
    let mut request = unsafe { OutHandle::empty(request) };
    let code = unsafe { ferriband_mpix_comm_ishrink(id(comm), newcomm.place(), request.place()) };
    unsafe { newcomm.store() };
    unsafe { request.store() };
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPIX_Comm_revoke(comm: Handle) -> c_int {
    unsafe { ferriband_mpix_comm_revoke(id(comm)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPIX_Comm_shrink(comm: Handle, newcomm: *mut Handle) -> c_int {
    let mut newcomm = unsafe { OutHandle::empty(newcomm) };
    let code = unsafe { ferriband_mpix_comm_shrink(id(comm), newcomm.place()) };
    unsafe { newcomm.store() };
    code
}

#[cfg(feature = "final")]
core::arch::global_asm!(
    ".weak MPI_Abi_get_fortran_booleans",
    ".type MPI_Abi_get_fortran_booleans, @function",
    ".set MPI_Abi_get_fortran_booleans, PMPI_Abi_get_fortran_booleans",
    ".weak MPI_Abi_get_fortran_info",
    ".type MPI_Abi_get_fortran_info, @function",
    ".set MPI_Abi_get_fortran_info, PMPI_Abi_get_fortran_info",
    ".weak MPI_Abi_get_info",
    ".type MPI_Abi_get_info, @function",
    ".set MPI_Abi_get_info, PMPI_Abi_get_info",
    ".weak MPI_Abi_get_version",
    ".type MPI_Abi_get_version, @function",
    ".set MPI_Abi_get_version, PMPI_Abi_get_version",
    ".weak MPI_Abi_set_fortran_booleans",
    ".type MPI_Abi_set_fortran_booleans, @function",
    ".set MPI_Abi_set_fortran_booleans, PMPI_Abi_set_fortran_booleans",
    ".weak MPI_Abi_set_fortran_info",
    ".type MPI_Abi_set_fortran_info, @function",
    ".set MPI_Abi_set_fortran_info, PMPI_Abi_set_fortran_info",
    ".weak MPI_Abort",
    ".type MPI_Abort, @function",
    ".set MPI_Abort, PMPI_Abort",
    ".weak MPI_Accumulate",
    ".type MPI_Accumulate, @function",
    ".set MPI_Accumulate, PMPI_Accumulate",
    ".weak MPI_Accumulate_c",
    ".type MPI_Accumulate_c, @function",
    ".set MPI_Accumulate_c, PMPI_Accumulate_c",
    ".weak MPI_Add_error_class",
    ".type MPI_Add_error_class, @function",
    ".set MPI_Add_error_class, PMPI_Add_error_class",
    ".weak MPI_Add_error_code",
    ".type MPI_Add_error_code, @function",
    ".set MPI_Add_error_code, PMPI_Add_error_code",
    ".weak MPI_Add_error_string",
    ".type MPI_Add_error_string, @function",
    ".set MPI_Add_error_string, PMPI_Add_error_string",
    ".weak MPI_Aint_add",
    ".type MPI_Aint_add, @function",
    ".set MPI_Aint_add, PMPI_Aint_add",
    ".weak MPI_Aint_diff",
    ".type MPI_Aint_diff, @function",
    ".set MPI_Aint_diff, PMPI_Aint_diff",
    ".weak MPI_Allgather",
    ".type MPI_Allgather, @function",
    ".set MPI_Allgather, PMPI_Allgather",
    ".weak MPI_Allgather_c",
    ".type MPI_Allgather_c, @function",
    ".set MPI_Allgather_c, PMPI_Allgather_c",
    ".weak MPI_Allgather_init",
    ".type MPI_Allgather_init, @function",
    ".set MPI_Allgather_init, PMPI_Allgather_init",
    ".weak MPI_Allgather_init_c",
    ".type MPI_Allgather_init_c, @function",
    ".set MPI_Allgather_init_c, PMPI_Allgather_init_c",
    ".weak MPI_Allgatherv",
    ".type MPI_Allgatherv, @function",
    ".set MPI_Allgatherv, PMPI_Allgatherv",
    ".weak MPI_Allgatherv_c",
    ".type MPI_Allgatherv_c, @function",
    ".set MPI_Allgatherv_c, PMPI_Allgatherv_c",
    ".weak MPI_Allgatherv_init",
    ".type MPI_Allgatherv_init, @function",
    ".set MPI_Allgatherv_init, PMPI_Allgatherv_init",
    ".weak MPI_Allgatherv_init_c",
    ".type MPI_Allgatherv_init_c, @function",
    ".set MPI_Allgatherv_init_c, PMPI_Allgatherv_init_c",
    ".weak MPI_Alloc_mem",
    ".type MPI_Alloc_mem, @function",
    ".set MPI_Alloc_mem, PMPI_Alloc_mem",
    ".weak MPI_Allreduce",
    ".type MPI_Allreduce, @function",
    ".set MPI_Allreduce, PMPI_Allreduce",
    ".weak MPI_Allreduce_c",
    ".type MPI_Allreduce_c, @function",
    ".set MPI_Allreduce_c, PMPI_Allreduce_c",
    ".weak MPI_Allreduce_init",
    ".type MPI_Allreduce_init, @function",
    ".set MPI_Allreduce_init, PMPI_Allreduce_init",
    ".weak MPI_Allreduce_init_c",
    ".type MPI_Allreduce_init_c, @function",
    ".set MPI_Allreduce_init_c, PMPI_Allreduce_init_c",
    ".weak MPI_Alltoall",
    ".type MPI_Alltoall, @function",
    ".set MPI_Alltoall, PMPI_Alltoall",
    ".weak MPI_Alltoall_c",
    ".type MPI_Alltoall_c, @function",
    ".set MPI_Alltoall_c, PMPI_Alltoall_c",
    ".weak MPI_Alltoall_init",
    ".type MPI_Alltoall_init, @function",
    ".set MPI_Alltoall_init, PMPI_Alltoall_init",
    ".weak MPI_Alltoall_init_c",
    ".type MPI_Alltoall_init_c, @function",
    ".set MPI_Alltoall_init_c, PMPI_Alltoall_init_c",
    ".weak MPI_Alltoallv",
    ".type MPI_Alltoallv, @function",
    ".set MPI_Alltoallv, PMPI_Alltoallv",
    ".weak MPI_Alltoallv_c",
    ".type MPI_Alltoallv_c, @function",
    ".set MPI_Alltoallv_c, PMPI_Alltoallv_c",
    ".weak MPI_Alltoallv_init",
    ".type MPI_Alltoallv_init, @function",
    ".set MPI_Alltoallv_init, PMPI_Alltoallv_init",
    ".weak MPI_Alltoallv_init_c",
    ".type MPI_Alltoallv_init_c, @function",
    ".set MPI_Alltoallv_init_c, PMPI_Alltoallv_init_c",
    ".weak MPI_Alltoallw",
    ".type MPI_Alltoallw, @function",
    ".set MPI_Alltoallw, PMPI_Alltoallw",
    ".weak MPI_Alltoallw_c",
    ".type MPI_Alltoallw_c, @function",
    ".set MPI_Alltoallw_c, PMPI_Alltoallw_c",
    ".weak MPI_Alltoallw_init",
    ".type MPI_Alltoallw_init, @function",
    ".set MPI_Alltoallw_init, PMPI_Alltoallw_init",
    ".weak MPI_Alltoallw_init_c",
    ".type MPI_Alltoallw_init_c, @function",
    ".set MPI_Alltoallw_init_c, PMPI_Alltoallw_init_c",
    ".weak MPI_Attr_delete",
    ".type MPI_Attr_delete, @function",
    ".set MPI_Attr_delete, PMPI_Attr_delete",
    ".weak MPI_Attr_get",
    ".type MPI_Attr_get, @function",
    ".set MPI_Attr_get, PMPI_Attr_get",
    ".weak MPI_Attr_put",
    ".type MPI_Attr_put, @function",
    ".set MPI_Attr_put, PMPI_Attr_put",
    ".weak MPI_Barrier",
    ".type MPI_Barrier, @function",
    ".set MPI_Barrier, PMPI_Barrier",
    ".weak MPI_Barrier_init",
    ".type MPI_Barrier_init, @function",
    ".set MPI_Barrier_init, PMPI_Barrier_init",
    ".weak MPI_Bcast",
    ".type MPI_Bcast, @function",
    ".set MPI_Bcast, PMPI_Bcast",
    ".weak MPI_Bcast_c",
    ".type MPI_Bcast_c, @function",
    ".set MPI_Bcast_c, PMPI_Bcast_c",
    ".weak MPI_Bcast_init",
    ".type MPI_Bcast_init, @function",
    ".set MPI_Bcast_init, PMPI_Bcast_init",
    ".weak MPI_Bcast_init_c",
    ".type MPI_Bcast_init_c, @function",
    ".set MPI_Bcast_init_c, PMPI_Bcast_init_c",
    ".weak MPI_Bsend",
    ".type MPI_Bsend, @function",
    ".set MPI_Bsend, PMPI_Bsend",
    ".weak MPI_Bsend_c",
    ".type MPI_Bsend_c, @function",
    ".set MPI_Bsend_c, PMPI_Bsend_c",
    ".weak MPI_Bsend_init",
    ".type MPI_Bsend_init, @function",
    ".set MPI_Bsend_init, PMPI_Bsend_init",
    ".weak MPI_Bsend_init_c",
    ".type MPI_Bsend_init_c, @function",
    ".set MPI_Bsend_init_c, PMPI_Bsend_init_c",
    ".weak MPI_Buffer_attach",
    ".type MPI_Buffer_attach, @function",
    ".set MPI_Buffer_attach, PMPI_Buffer_attach",
    ".weak MPI_Buffer_attach_c",
    ".type MPI_Buffer_attach_c, @function",
    ".set MPI_Buffer_attach_c, PMPI_Buffer_attach_c",
    ".weak MPI_Buffer_detach",
    ".type MPI_Buffer_detach, @function",
    ".set MPI_Buffer_detach, PMPI_Buffer_detach",
    ".weak MPI_Buffer_detach_c",
    ".type MPI_Buffer_detach_c, @function",
    ".set MPI_Buffer_detach_c, PMPI_Buffer_detach_c",
    ".weak MPI_Buffer_flush",
    ".type MPI_Buffer_flush, @function",
    ".set MPI_Buffer_flush, PMPI_Buffer_flush",
    ".weak MPI_Buffer_iflush",
    ".type MPI_Buffer_iflush, @function",
    ".set MPI_Buffer_iflush, PMPI_Buffer_iflush",
    ".weak MPI_Cancel",
    ".type MPI_Cancel, @function",
    ".set MPI_Cancel, PMPI_Cancel",
    ".weak MPI_Cart_coords",
    ".type MPI_Cart_coords, @function",
    ".set MPI_Cart_coords, PMPI_Cart_coords",
    ".weak MPI_Cart_create",
    ".type MPI_Cart_create, @function",
    ".set MPI_Cart_create, PMPI_Cart_create",
    ".weak MPI_Cart_get",
    ".type MPI_Cart_get, @function",
    ".set MPI_Cart_get, PMPI_Cart_get",
    ".weak MPI_Cart_map",
    ".type MPI_Cart_map, @function",
    ".set MPI_Cart_map, PMPI_Cart_map",
    ".weak MPI_Cart_rank",
    ".type MPI_Cart_rank, @function",
    ".set MPI_Cart_rank, PMPI_Cart_rank",
    ".weak MPI_Cart_shift",
    ".type MPI_Cart_shift, @function",
    ".set MPI_Cart_shift, PMPI_Cart_shift",
    ".weak MPI_Cart_sub",
    ".type MPI_Cart_sub, @function",
    ".set MPI_Cart_sub, PMPI_Cart_sub",
    ".weak MPI_Cartdim_get",
    ".type MPI_Cartdim_get, @function",
    ".set MPI_Cartdim_get, PMPI_Cartdim_get",
    ".weak MPI_Close_port",
    ".type MPI_Close_port, @function",
    ".set MPI_Close_port, PMPI_Close_port",
    ".weak MPI_Comm_accept",
    ".type MPI_Comm_accept, @function",
    ".set MPI_Comm_accept, PMPI_Comm_accept",
    ".weak MPI_Comm_attach_buffer",
    ".type MPI_Comm_attach_buffer, @function",
    ".set MPI_Comm_attach_buffer, PMPI_Comm_attach_buffer",
    ".weak MPI_Comm_attach_buffer_c",
    ".type MPI_Comm_attach_buffer_c, @function",
    ".set MPI_Comm_attach_buffer_c, PMPI_Comm_attach_buffer_c",
    ".weak MPI_Comm_call_errhandler",
    ".type MPI_Comm_call_errhandler, @function",
    ".set MPI_Comm_call_errhandler, PMPI_Comm_call_errhandler",
    ".weak MPI_Comm_compare",
    ".type MPI_Comm_compare, @function",
    ".set MPI_Comm_compare, PMPI_Comm_compare",
    ".weak MPI_Comm_connect",
    ".type MPI_Comm_connect, @function",
    ".set MPI_Comm_connect, PMPI_Comm_connect",
    ".weak MPI_Comm_create",
    ".type MPI_Comm_create, @function",
    ".set MPI_Comm_create, PMPI_Comm_create",
    ".weak MPI_Comm_create_errhandler",
    ".type MPI_Comm_create_errhandler, @function",
    ".set MPI_Comm_create_errhandler, PMPI_Comm_create_errhandler",
    ".weak MPI_Comm_create_from_group",
    ".type MPI_Comm_create_from_group, @function",
    ".set MPI_Comm_create_from_group, PMPI_Comm_create_from_group",
    ".weak MPI_Comm_create_group",
    ".type MPI_Comm_create_group, @function",
    ".set MPI_Comm_create_group, PMPI_Comm_create_group",
    ".weak MPI_Comm_create_keyval",
    ".type MPI_Comm_create_keyval, @function",
    ".set MPI_Comm_create_keyval, PMPI_Comm_create_keyval",
    ".weak MPI_Comm_delete_attr",
    ".type MPI_Comm_delete_attr, @function",
    ".set MPI_Comm_delete_attr, PMPI_Comm_delete_attr",
    ".weak MPI_Comm_detach_buffer",
    ".type MPI_Comm_detach_buffer, @function",
    ".set MPI_Comm_detach_buffer, PMPI_Comm_detach_buffer",
    ".weak MPI_Comm_detach_buffer_c",
    ".type MPI_Comm_detach_buffer_c, @function",
    ".set MPI_Comm_detach_buffer_c, PMPI_Comm_detach_buffer_c",
    ".weak MPI_Comm_disconnect",
    ".type MPI_Comm_disconnect, @function",
    ".set MPI_Comm_disconnect, PMPI_Comm_disconnect",
    ".weak MPI_Comm_dup",
    ".type MPI_Comm_dup, @function",
    ".set MPI_Comm_dup, PMPI_Comm_dup",
    ".weak MPI_Comm_dup_with_info",
    ".type MPI_Comm_dup_with_info, @function",
    ".set MPI_Comm_dup_with_info, PMPI_Comm_dup_with_info",
    ".weak MPI_Comm_flush_buffer",
    ".type MPI_Comm_flush_buffer, @function",
    ".set MPI_Comm_flush_buffer, PMPI_Comm_flush_buffer",
    ".weak MPI_Comm_free",
    ".type MPI_Comm_free, @function",
    ".set MPI_Comm_free, PMPI_Comm_free",
    ".weak MPI_Comm_free_keyval",
    ".type MPI_Comm_free_keyval, @function",
    ".set MPI_Comm_free_keyval, PMPI_Comm_free_keyval",
    ".weak MPI_Comm_fromint",
    ".type MPI_Comm_fromint, @function",
    ".set MPI_Comm_fromint, PMPI_Comm_fromint",
    ".weak MPI_Comm_get_attr",
    ".type MPI_Comm_get_attr, @function",
    ".set MPI_Comm_get_attr, PMPI_Comm_get_attr",
    ".weak MPI_Comm_get_errhandler",
    ".type MPI_Comm_get_errhandler, @function",
    ".set MPI_Comm_get_errhandler, PMPI_Comm_get_errhandler",
    ".weak MPI_Comm_get_info",
    ".type MPI_Comm_get_info, @function",
    ".set MPI_Comm_get_info, PMPI_Comm_get_info",
    ".weak MPI_Comm_get_name",
    ".type MPI_Comm_get_name, @function",
    ".set MPI_Comm_get_name, PMPI_Comm_get_name",
    ".weak MPI_Comm_get_parent",
    ".type MPI_Comm_get_parent, @function",
    ".set MPI_Comm_get_parent, PMPI_Comm_get_parent",
    ".weak MPI_Comm_group",
    ".type MPI_Comm_group, @function",
    ".set MPI_Comm_group, PMPI_Comm_group",
    ".weak MPI_Comm_idup",
    ".type MPI_Comm_idup, @function",
    ".set MPI_Comm_idup, PMPI_Comm_idup",
    ".weak MPI_Comm_idup_with_info",
    ".type MPI_Comm_idup_with_info, @function",
    ".set MPI_Comm_idup_with_info, PMPI_Comm_idup_with_info",
    ".weak MPI_Comm_iflush_buffer",
    ".type MPI_Comm_iflush_buffer, @function",
    ".set MPI_Comm_iflush_buffer, PMPI_Comm_iflush_buffer",
    ".weak MPI_Comm_join",
    ".type MPI_Comm_join, @function",
    ".set MPI_Comm_join, PMPI_Comm_join",
    ".weak MPI_Comm_rank",
    ".type MPI_Comm_rank, @function",
    ".set MPI_Comm_rank, PMPI_Comm_rank",
    ".weak MPI_Comm_remote_group",
    ".type MPI_Comm_remote_group, @function",
    ".set MPI_Comm_remote_group, PMPI_Comm_remote_group",
    ".weak MPI_Comm_remote_size",
    ".type MPI_Comm_remote_size, @function",
    ".set MPI_Comm_remote_size, PMPI_Comm_remote_size",
    ".weak MPI_Comm_set_attr",
    ".type MPI_Comm_set_attr, @function",
    ".set MPI_Comm_set_attr, PMPI_Comm_set_attr",
    ".weak MPI_Comm_set_errhandler",
    ".type MPI_Comm_set_errhandler, @function",
    ".set MPI_Comm_set_errhandler, PMPI_Comm_set_errhandler",
    ".weak MPI_Comm_set_info",
    ".type MPI_Comm_set_info, @function",
    ".set MPI_Comm_set_info, PMPI_Comm_set_info",
    ".weak MPI_Comm_set_name",
    ".type MPI_Comm_set_name, @function",
    ".set MPI_Comm_set_name, PMPI_Comm_set_name",
    ".weak MPI_Comm_size",
    ".type MPI_Comm_size, @function",
    ".set MPI_Comm_size, PMPI_Comm_size",
    ".weak MPI_Comm_spawn",
    ".type MPI_Comm_spawn, @function",
    ".set MPI_Comm_spawn, PMPI_Comm_spawn",
    ".weak MPI_Comm_spawn_multiple",
    ".type MPI_Comm_spawn_multiple, @function",
    ".set MPI_Comm_spawn_multiple, PMPI_Comm_spawn_multiple",
    ".weak MPI_Comm_split",
    ".type MPI_Comm_split, @function",
    ".set MPI_Comm_split, PMPI_Comm_split",
    ".weak MPI_Comm_split_type",
    ".type MPI_Comm_split_type, @function",
    ".set MPI_Comm_split_type, PMPI_Comm_split_type",
    ".weak MPI_Comm_test_inter",
    ".type MPI_Comm_test_inter, @function",
    ".set MPI_Comm_test_inter, PMPI_Comm_test_inter",
    ".weak MPI_Comm_toint",
    ".type MPI_Comm_toint, @function",
    ".set MPI_Comm_toint, PMPI_Comm_toint",
    ".weak MPI_Compare_and_swap",
    ".type MPI_Compare_and_swap, @function",
    ".set MPI_Compare_and_swap, PMPI_Compare_and_swap",
    ".weak MPI_Dims_create",
    ".type MPI_Dims_create, @function",
    ".set MPI_Dims_create, PMPI_Dims_create",
    ".weak MPI_Dist_graph_create",
    ".type MPI_Dist_graph_create, @function",
    ".set MPI_Dist_graph_create, PMPI_Dist_graph_create",
    ".weak MPI_Dist_graph_create_adjacent",
    ".type MPI_Dist_graph_create_adjacent, @function",
    ".set MPI_Dist_graph_create_adjacent, PMPI_Dist_graph_create_adjacent",
    ".weak MPI_Dist_graph_neighbors",
    ".type MPI_Dist_graph_neighbors, @function",
    ".set MPI_Dist_graph_neighbors, PMPI_Dist_graph_neighbors",
    ".weak MPI_Dist_graph_neighbors_count",
    ".type MPI_Dist_graph_neighbors_count, @function",
    ".set MPI_Dist_graph_neighbors_count, PMPI_Dist_graph_neighbors_count",
    ".weak MPI_Errhandler_free",
    ".type MPI_Errhandler_free, @function",
    ".set MPI_Errhandler_free, PMPI_Errhandler_free",
    ".weak MPI_Errhandler_fromint",
    ".type MPI_Errhandler_fromint, @function",
    ".set MPI_Errhandler_fromint, PMPI_Errhandler_fromint",
    ".weak MPI_Errhandler_toint",
    ".type MPI_Errhandler_toint, @function",
    ".set MPI_Errhandler_toint, PMPI_Errhandler_toint",
    ".weak MPI_Error_class",
    ".type MPI_Error_class, @function",
    ".set MPI_Error_class, PMPI_Error_class",
    ".weak MPI_Error_string",
    ".type MPI_Error_string, @function",
    ".set MPI_Error_string, PMPI_Error_string",
    ".weak MPI_Exscan",
    ".type MPI_Exscan, @function",
    ".set MPI_Exscan, PMPI_Exscan",
    ".weak MPI_Exscan_c",
    ".type MPI_Exscan_c, @function",
    ".set MPI_Exscan_c, PMPI_Exscan_c",
    ".weak MPI_Exscan_init",
    ".type MPI_Exscan_init, @function",
    ".set MPI_Exscan_init, PMPI_Exscan_init",
    ".weak MPI_Exscan_init_c",
    ".type MPI_Exscan_init_c, @function",
    ".set MPI_Exscan_init_c, PMPI_Exscan_init_c",
    ".weak MPI_Fetch_and_op",
    ".type MPI_Fetch_and_op, @function",
    ".set MPI_Fetch_and_op, PMPI_Fetch_and_op",
    ".weak MPI_File_call_errhandler",
    ".type MPI_File_call_errhandler, @function",
    ".set MPI_File_call_errhandler, PMPI_File_call_errhandler",
    ".weak MPI_File_close",
    ".type MPI_File_close, @function",
    ".set MPI_File_close, PMPI_File_close",
    ".weak MPI_File_create_errhandler",
    ".type MPI_File_create_errhandler, @function",
    ".set MPI_File_create_errhandler, PMPI_File_create_errhandler",
    ".weak MPI_File_delete",
    ".type MPI_File_delete, @function",
    ".set MPI_File_delete, PMPI_File_delete",
    ".weak MPI_File_fromint",
    ".type MPI_File_fromint, @function",
    ".set MPI_File_fromint, PMPI_File_fromint",
    ".weak MPI_File_get_amode",
    ".type MPI_File_get_amode, @function",
    ".set MPI_File_get_amode, PMPI_File_get_amode",
    ".weak MPI_File_get_atomicity",
    ".type MPI_File_get_atomicity, @function",
    ".set MPI_File_get_atomicity, PMPI_File_get_atomicity",
    ".weak MPI_File_get_byte_offset",
    ".type MPI_File_get_byte_offset, @function",
    ".set MPI_File_get_byte_offset, PMPI_File_get_byte_offset",
    ".weak MPI_File_get_errhandler",
    ".type MPI_File_get_errhandler, @function",
    ".set MPI_File_get_errhandler, PMPI_File_get_errhandler",
    ".weak MPI_File_get_group",
    ".type MPI_File_get_group, @function",
    ".set MPI_File_get_group, PMPI_File_get_group",
    ".weak MPI_File_get_info",
    ".type MPI_File_get_info, @function",
    ".set MPI_File_get_info, PMPI_File_get_info",
    ".weak MPI_File_get_position",
    ".type MPI_File_get_position, @function",
    ".set MPI_File_get_position, PMPI_File_get_position",
    ".weak MPI_File_get_position_shared",
    ".type MPI_File_get_position_shared, @function",
    ".set MPI_File_get_position_shared, PMPI_File_get_position_shared",
    ".weak MPI_File_get_size",
    ".type MPI_File_get_size, @function",
    ".set MPI_File_get_size, PMPI_File_get_size",
    ".weak MPI_File_get_type_extent",
    ".type MPI_File_get_type_extent, @function",
    ".set MPI_File_get_type_extent, PMPI_File_get_type_extent",
    ".weak MPI_File_get_type_extent_c",
    ".type MPI_File_get_type_extent_c, @function",
    ".set MPI_File_get_type_extent_c, PMPI_File_get_type_extent_c",
    ".weak MPI_File_get_view",
    ".type MPI_File_get_view, @function",
    ".set MPI_File_get_view, PMPI_File_get_view",
    ".weak MPI_File_iread",
    ".type MPI_File_iread, @function",
    ".set MPI_File_iread, PMPI_File_iread",
    ".weak MPI_File_iread_all",
    ".type MPI_File_iread_all, @function",
    ".set MPI_File_iread_all, PMPI_File_iread_all",
    ".weak MPI_File_iread_all_c",
    ".type MPI_File_iread_all_c, @function",
    ".set MPI_File_iread_all_c, PMPI_File_iread_all_c",
    ".weak MPI_File_iread_at",
    ".type MPI_File_iread_at, @function",
    ".set MPI_File_iread_at, PMPI_File_iread_at",
    ".weak MPI_File_iread_at_all",
    ".type MPI_File_iread_at_all, @function",
    ".set MPI_File_iread_at_all, PMPI_File_iread_at_all",
    ".weak MPI_File_iread_at_all_c",
    ".type MPI_File_iread_at_all_c, @function",
    ".set MPI_File_iread_at_all_c, PMPI_File_iread_at_all_c",
    ".weak MPI_File_iread_at_c",
    ".type MPI_File_iread_at_c, @function",
    ".set MPI_File_iread_at_c, PMPI_File_iread_at_c",
    ".weak MPI_File_iread_c",
    ".type MPI_File_iread_c, @function",
    ".set MPI_File_iread_c, PMPI_File_iread_c",
    ".weak MPI_File_iread_shared",
    ".type MPI_File_iread_shared, @function",
    ".set MPI_File_iread_shared, PMPI_File_iread_shared",
    ".weak MPI_File_iread_shared_c",
    ".type MPI_File_iread_shared_c, @function",
    ".set MPI_File_iread_shared_c, PMPI_File_iread_shared_c",
    ".weak MPI_File_iwrite",
    ".type MPI_File_iwrite, @function",
    ".set MPI_File_iwrite, PMPI_File_iwrite",
    ".weak MPI_File_iwrite_all",
    ".type MPI_File_iwrite_all, @function",
    ".set MPI_File_iwrite_all, PMPI_File_iwrite_all",
    ".weak MPI_File_iwrite_all_c",
    ".type MPI_File_iwrite_all_c, @function",
    ".set MPI_File_iwrite_all_c, PMPI_File_iwrite_all_c",
    ".weak MPI_File_iwrite_at",
    ".type MPI_File_iwrite_at, @function",
    ".set MPI_File_iwrite_at, PMPI_File_iwrite_at",
    ".weak MPI_File_iwrite_at_all",
    ".type MPI_File_iwrite_at_all, @function",
    ".set MPI_File_iwrite_at_all, PMPI_File_iwrite_at_all",
    ".weak MPI_File_iwrite_at_all_c",
    ".type MPI_File_iwrite_at_all_c, @function",
    ".set MPI_File_iwrite_at_all_c, PMPI_File_iwrite_at_all_c",
    ".weak MPI_File_iwrite_at_c",
    ".type MPI_File_iwrite_at_c, @function",
    ".set MPI_File_iwrite_at_c, PMPI_File_iwrite_at_c",
    ".weak MPI_File_iwrite_c",
    ".type MPI_File_iwrite_c, @function",
    ".set MPI_File_iwrite_c, PMPI_File_iwrite_c",
    ".weak MPI_File_iwrite_shared",
    ".type MPI_File_iwrite_shared, @function",
    ".set MPI_File_iwrite_shared, PMPI_File_iwrite_shared",
    ".weak MPI_File_iwrite_shared_c",
    ".type MPI_File_iwrite_shared_c, @function",
    ".set MPI_File_iwrite_shared_c, PMPI_File_iwrite_shared_c",
    ".weak MPI_File_open",
    ".type MPI_File_open, @function",
    ".set MPI_File_open, PMPI_File_open",
    ".weak MPI_File_preallocate",
    ".type MPI_File_preallocate, @function",
    ".set MPI_File_preallocate, PMPI_File_preallocate",
    ".weak MPI_File_read",
    ".type MPI_File_read, @function",
    ".set MPI_File_read, PMPI_File_read",
    ".weak MPI_File_read_all",
    ".type MPI_File_read_all, @function",
    ".set MPI_File_read_all, PMPI_File_read_all",
    ".weak MPI_File_read_all_begin",
    ".type MPI_File_read_all_begin, @function",
    ".set MPI_File_read_all_begin, PMPI_File_read_all_begin",
    ".weak MPI_File_read_all_begin_c",
    ".type MPI_File_read_all_begin_c, @function",
    ".set MPI_File_read_all_begin_c, PMPI_File_read_all_begin_c",
    ".weak MPI_File_read_all_c",
    ".type MPI_File_read_all_c, @function",
    ".set MPI_File_read_all_c, PMPI_File_read_all_c",
    ".weak MPI_File_read_all_end",
    ".type MPI_File_read_all_end, @function",
    ".set MPI_File_read_all_end, PMPI_File_read_all_end",
    ".weak MPI_File_read_at",
    ".type MPI_File_read_at, @function",
    ".set MPI_File_read_at, PMPI_File_read_at",
    ".weak MPI_File_read_at_all",
    ".type MPI_File_read_at_all, @function",
    ".set MPI_File_read_at_all, PMPI_File_read_at_all",
    ".weak MPI_File_read_at_all_begin",
    ".type MPI_File_read_at_all_begin, @function",
    ".set MPI_File_read_at_all_begin, PMPI_File_read_at_all_begin",
    ".weak MPI_File_read_at_all_begin_c",
    ".type MPI_File_read_at_all_begin_c, @function",
    ".set MPI_File_read_at_all_begin_c, PMPI_File_read_at_all_begin_c",
    ".weak MPI_File_read_at_all_c",
    ".type MPI_File_read_at_all_c, @function",
    ".set MPI_File_read_at_all_c, PMPI_File_read_at_all_c",
    ".weak MPI_File_read_at_all_end",
    ".type MPI_File_read_at_all_end, @function",
    ".set MPI_File_read_at_all_end, PMPI_File_read_at_all_end",
    ".weak MPI_File_read_at_c",
    ".type MPI_File_read_at_c, @function",
    ".set MPI_File_read_at_c, PMPI_File_read_at_c",
    ".weak MPI_File_read_c",
    ".type MPI_File_read_c, @function",
    ".set MPI_File_read_c, PMPI_File_read_c",
    ".weak MPI_File_read_ordered",
    ".type MPI_File_read_ordered, @function",
    ".set MPI_File_read_ordered, PMPI_File_read_ordered",
    ".weak MPI_File_read_ordered_begin",
    ".type MPI_File_read_ordered_begin, @function",
    ".set MPI_File_read_ordered_begin, PMPI_File_read_ordered_begin",
    ".weak MPI_File_read_ordered_begin_c",
    ".type MPI_File_read_ordered_begin_c, @function",
    ".set MPI_File_read_ordered_begin_c, PMPI_File_read_ordered_begin_c",
    ".weak MPI_File_read_ordered_c",
    ".type MPI_File_read_ordered_c, @function",
    ".set MPI_File_read_ordered_c, PMPI_File_read_ordered_c",
    ".weak MPI_File_read_ordered_end",
    ".type MPI_File_read_ordered_end, @function",
    ".set MPI_File_read_ordered_end, PMPI_File_read_ordered_end",
    ".weak MPI_File_read_shared",
    ".type MPI_File_read_shared, @function",
    ".set MPI_File_read_shared, PMPI_File_read_shared",
    ".weak MPI_File_read_shared_c",
    ".type MPI_File_read_shared_c, @function",
    ".set MPI_File_read_shared_c, PMPI_File_read_shared_c",
    ".weak MPI_File_seek",
    ".type MPI_File_seek, @function",
    ".set MPI_File_seek, PMPI_File_seek",
    ".weak MPI_File_seek_shared",
    ".type MPI_File_seek_shared, @function",
    ".set MPI_File_seek_shared, PMPI_File_seek_shared",
    ".weak MPI_File_set_atomicity",
    ".type MPI_File_set_atomicity, @function",
    ".set MPI_File_set_atomicity, PMPI_File_set_atomicity",
    ".weak MPI_File_set_errhandler",
    ".type MPI_File_set_errhandler, @function",
    ".set MPI_File_set_errhandler, PMPI_File_set_errhandler",
    ".weak MPI_File_set_info",
    ".type MPI_File_set_info, @function",
    ".set MPI_File_set_info, PMPI_File_set_info",
    ".weak MPI_File_set_size",
    ".type MPI_File_set_size, @function",
    ".set MPI_File_set_size, PMPI_File_set_size",
    ".weak MPI_File_set_view",
    ".type MPI_File_set_view, @function",
    ".set MPI_File_set_view, PMPI_File_set_view",
    ".weak MPI_File_sync",
    ".type MPI_File_sync, @function",
    ".set MPI_File_sync, PMPI_File_sync",
    ".weak MPI_File_toint",
    ".type MPI_File_toint, @function",
    ".set MPI_File_toint, PMPI_File_toint",
    ".weak MPI_File_write",
    ".type MPI_File_write, @function",
    ".set MPI_File_write, PMPI_File_write",
    ".weak MPI_File_write_all",
    ".type MPI_File_write_all, @function",
    ".set MPI_File_write_all, PMPI_File_write_all",
    ".weak MPI_File_write_all_begin",
    ".type MPI_File_write_all_begin, @function",
    ".set MPI_File_write_all_begin, PMPI_File_write_all_begin",
    ".weak MPI_File_write_all_begin_c",
    ".type MPI_File_write_all_begin_c, @function",
    ".set MPI_File_write_all_begin_c, PMPI_File_write_all_begin_c",
    ".weak MPI_File_write_all_c",
    ".type MPI_File_write_all_c, @function",
    ".set MPI_File_write_all_c, PMPI_File_write_all_c",
    ".weak MPI_File_write_all_end",
    ".type MPI_File_write_all_end, @function",
    ".set MPI_File_write_all_end, PMPI_File_write_all_end",
    ".weak MPI_File_write_at",
    ".type MPI_File_write_at, @function",
    ".set MPI_File_write_at, PMPI_File_write_at",
    ".weak MPI_File_write_at_all",
    ".type MPI_File_write_at_all, @function",
    ".set MPI_File_write_at_all, PMPI_File_write_at_all",
    ".weak MPI_File_write_at_all_begin",
    ".type MPI_File_write_at_all_begin, @function",
    ".set MPI_File_write_at_all_begin, PMPI_File_write_at_all_begin",
    ".weak MPI_File_write_at_all_begin_c",
    ".type MPI_File_write_at_all_begin_c, @function",
    ".set MPI_File_write_at_all_begin_c, PMPI_File_write_at_all_begin_c",
    ".weak MPI_File_write_at_all_c",
    ".type MPI_File_write_at_all_c, @function",
    ".set MPI_File_write_at_all_c, PMPI_File_write_at_all_c",
    ".weak MPI_File_write_at_all_end",
    ".type MPI_File_write_at_all_end, @function",
    ".set MPI_File_write_at_all_end, PMPI_File_write_at_all_end",
    ".weak MPI_File_write_at_c",
    ".type MPI_File_write_at_c, @function",
    ".set MPI_File_write_at_c, PMPI_File_write_at_c",
    ".weak MPI_File_write_c",
    ".type MPI_File_write_c, @function",
    ".set MPI_File_write_c, PMPI_File_write_c",
    ".weak MPI_File_write_ordered",
    ".type MPI_File_write_ordered, @function",
    ".set MPI_File_write_ordered, PMPI_File_write_ordered",
    ".weak MPI_File_write_ordered_begin",
    ".type MPI_File_write_ordered_begin, @function",
    ".set MPI_File_write_ordered_begin, PMPI_File_write_ordered_begin",
    ".weak MPI_File_write_ordered_begin_c",
    ".type MPI_File_write_ordered_begin_c, @function",
    ".set MPI_File_write_ordered_begin_c, PMPI_File_write_ordered_begin_c",
    ".weak MPI_File_write_ordered_c",
    ".type MPI_File_write_ordered_c, @function",
    ".set MPI_File_write_ordered_c, PMPI_File_write_ordered_c",
    ".weak MPI_File_write_ordered_end",
    ".type MPI_File_write_ordered_end, @function",
    ".set MPI_File_write_ordered_end, PMPI_File_write_ordered_end",
    ".weak MPI_File_write_shared",
    ".type MPI_File_write_shared, @function",
    ".set MPI_File_write_shared, PMPI_File_write_shared",
    ".weak MPI_File_write_shared_c",
    ".type MPI_File_write_shared_c, @function",
    ".set MPI_File_write_shared_c, PMPI_File_write_shared_c",
    ".weak MPI_Finalize",
    ".type MPI_Finalize, @function",
    ".set MPI_Finalize, PMPI_Finalize",
    ".weak MPI_Finalized",
    ".type MPI_Finalized, @function",
    ".set MPI_Finalized, PMPI_Finalized",
    ".weak MPI_Free_mem",
    ".type MPI_Free_mem, @function",
    ".set MPI_Free_mem, PMPI_Free_mem",
    ".weak MPI_Gather",
    ".type MPI_Gather, @function",
    ".set MPI_Gather, PMPI_Gather",
    ".weak MPI_Gather_c",
    ".type MPI_Gather_c, @function",
    ".set MPI_Gather_c, PMPI_Gather_c",
    ".weak MPI_Gather_init",
    ".type MPI_Gather_init, @function",
    ".set MPI_Gather_init, PMPI_Gather_init",
    ".weak MPI_Gather_init_c",
    ".type MPI_Gather_init_c, @function",
    ".set MPI_Gather_init_c, PMPI_Gather_init_c",
    ".weak MPI_Gatherv",
    ".type MPI_Gatherv, @function",
    ".set MPI_Gatherv, PMPI_Gatherv",
    ".weak MPI_Gatherv_c",
    ".type MPI_Gatherv_c, @function",
    ".set MPI_Gatherv_c, PMPI_Gatherv_c",
    ".weak MPI_Gatherv_init",
    ".type MPI_Gatherv_init, @function",
    ".set MPI_Gatherv_init, PMPI_Gatherv_init",
    ".weak MPI_Gatherv_init_c",
    ".type MPI_Gatherv_init_c, @function",
    ".set MPI_Gatherv_init_c, PMPI_Gatherv_init_c",
    ".weak MPI_Get",
    ".type MPI_Get, @function",
    ".set MPI_Get, PMPI_Get",
    ".weak MPI_Get_accumulate",
    ".type MPI_Get_accumulate, @function",
    ".set MPI_Get_accumulate, PMPI_Get_accumulate",
    ".weak MPI_Get_accumulate_c",
    ".type MPI_Get_accumulate_c, @function",
    ".set MPI_Get_accumulate_c, PMPI_Get_accumulate_c",
    ".weak MPI_Get_address",
    ".type MPI_Get_address, @function",
    ".set MPI_Get_address, PMPI_Get_address",
    ".weak MPI_Get_c",
    ".type MPI_Get_c, @function",
    ".set MPI_Get_c, PMPI_Get_c",
    ".weak MPI_Get_count",
    ".type MPI_Get_count, @function",
    ".set MPI_Get_count, PMPI_Get_count",
    ".weak MPI_Get_count_c",
    ".type MPI_Get_count_c, @function",
    ".set MPI_Get_count_c, PMPI_Get_count_c",
    ".weak MPI_Get_elements",
    ".type MPI_Get_elements, @function",
    ".set MPI_Get_elements, PMPI_Get_elements",
    ".weak MPI_Get_elements_c",
    ".type MPI_Get_elements_c, @function",
    ".set MPI_Get_elements_c, PMPI_Get_elements_c",
    ".weak MPI_Get_elements_x",
    ".type MPI_Get_elements_x, @function",
    ".set MPI_Get_elements_x, PMPI_Get_elements_x",
    ".weak MPI_Get_hw_resource_info",
    ".type MPI_Get_hw_resource_info, @function",
    ".set MPI_Get_hw_resource_info, PMPI_Get_hw_resource_info",
    ".weak MPI_Get_library_version",
    ".type MPI_Get_library_version, @function",
    ".set MPI_Get_library_version, PMPI_Get_library_version",
    ".weak MPI_Get_processor_name",
    ".type MPI_Get_processor_name, @function",
    ".set MPI_Get_processor_name, PMPI_Get_processor_name",
    ".weak MPI_Get_version",
    ".type MPI_Get_version, @function",
    ".set MPI_Get_version, PMPI_Get_version",
    ".weak MPI_Graph_create",
    ".type MPI_Graph_create, @function",
    ".set MPI_Graph_create, PMPI_Graph_create",
    ".weak MPI_Graph_get",
    ".type MPI_Graph_get, @function",
    ".set MPI_Graph_get, PMPI_Graph_get",
    ".weak MPI_Graph_map",
    ".type MPI_Graph_map, @function",
    ".set MPI_Graph_map, PMPI_Graph_map",
    ".weak MPI_Graph_neighbors",
    ".type MPI_Graph_neighbors, @function",
    ".set MPI_Graph_neighbors, PMPI_Graph_neighbors",
    ".weak MPI_Graph_neighbors_count",
    ".type MPI_Graph_neighbors_count, @function",
    ".set MPI_Graph_neighbors_count, PMPI_Graph_neighbors_count",
    ".weak MPI_Graphdims_get",
    ".type MPI_Graphdims_get, @function",
    ".set MPI_Graphdims_get, PMPI_Graphdims_get",
    ".weak MPI_Grequest_complete",
    ".type MPI_Grequest_complete, @function",
    ".set MPI_Grequest_complete, PMPI_Grequest_complete",
    ".weak MPI_Grequest_start",
    ".type MPI_Grequest_start, @function",
    ".set MPI_Grequest_start, PMPI_Grequest_start",
    ".weak MPI_Group_compare",
    ".type MPI_Group_compare, @function",
    ".set MPI_Group_compare, PMPI_Group_compare",
    ".weak MPI_Group_difference",
    ".type MPI_Group_difference, @function",
    ".set MPI_Group_difference, PMPI_Group_difference",
    ".weak MPI_Group_excl",
    ".type MPI_Group_excl, @function",
    ".set MPI_Group_excl, PMPI_Group_excl",
    ".weak MPI_Group_free",
    ".type MPI_Group_free, @function",
    ".set MPI_Group_free, PMPI_Group_free",
    ".weak MPI_Group_from_session_pset",
    ".type MPI_Group_from_session_pset, @function",
    ".set MPI_Group_from_session_pset, PMPI_Group_from_session_pset",
    ".weak MPI_Group_fromint",
    ".type MPI_Group_fromint, @function",
    ".set MPI_Group_fromint, PMPI_Group_fromint",
    ".weak MPI_Group_incl",
    ".type MPI_Group_incl, @function",
    ".set MPI_Group_incl, PMPI_Group_incl",
    ".weak MPI_Group_intersection",
    ".type MPI_Group_intersection, @function",
    ".set MPI_Group_intersection, PMPI_Group_intersection",
    ".weak MPI_Group_range_excl",
    ".type MPI_Group_range_excl, @function",
    ".set MPI_Group_range_excl, PMPI_Group_range_excl",
    ".weak MPI_Group_range_incl",
    ".type MPI_Group_range_incl, @function",
    ".set MPI_Group_range_incl, PMPI_Group_range_incl",
    ".weak MPI_Group_rank",
    ".type MPI_Group_rank, @function",
    ".set MPI_Group_rank, PMPI_Group_rank",
    ".weak MPI_Group_size",
    ".type MPI_Group_size, @function",
    ".set MPI_Group_size, PMPI_Group_size",
    ".weak MPI_Group_toint",
    ".type MPI_Group_toint, @function",
    ".set MPI_Group_toint, PMPI_Group_toint",
    ".weak MPI_Group_translate_ranks",
    ".type MPI_Group_translate_ranks, @function",
    ".set MPI_Group_translate_ranks, PMPI_Group_translate_ranks",
    ".weak MPI_Group_union",
    ".type MPI_Group_union, @function",
    ".set MPI_Group_union, PMPI_Group_union",
    ".weak MPI_Iallgather",
    ".type MPI_Iallgather, @function",
    ".set MPI_Iallgather, PMPI_Iallgather",
    ".weak MPI_Iallgather_c",
    ".type MPI_Iallgather_c, @function",
    ".set MPI_Iallgather_c, PMPI_Iallgather_c",
    ".weak MPI_Iallgatherv",
    ".type MPI_Iallgatherv, @function",
    ".set MPI_Iallgatherv, PMPI_Iallgatherv",
    ".weak MPI_Iallgatherv_c",
    ".type MPI_Iallgatherv_c, @function",
    ".set MPI_Iallgatherv_c, PMPI_Iallgatherv_c",
    ".weak MPI_Iallreduce",
    ".type MPI_Iallreduce, @function",
    ".set MPI_Iallreduce, PMPI_Iallreduce",
    ".weak MPI_Iallreduce_c",
    ".type MPI_Iallreduce_c, @function",
    ".set MPI_Iallreduce_c, PMPI_Iallreduce_c",
    ".weak MPI_Ialltoall",
    ".type MPI_Ialltoall, @function",
    ".set MPI_Ialltoall, PMPI_Ialltoall",
    ".weak MPI_Ialltoall_c",
    ".type MPI_Ialltoall_c, @function",
    ".set MPI_Ialltoall_c, PMPI_Ialltoall_c",
    ".weak MPI_Ialltoallv",
    ".type MPI_Ialltoallv, @function",
    ".set MPI_Ialltoallv, PMPI_Ialltoallv",
    ".weak MPI_Ialltoallv_c",
    ".type MPI_Ialltoallv_c, @function",
    ".set MPI_Ialltoallv_c, PMPI_Ialltoallv_c",
    ".weak MPI_Ialltoallw",
    ".type MPI_Ialltoallw, @function",
    ".set MPI_Ialltoallw, PMPI_Ialltoallw",
    ".weak MPI_Ialltoallw_c",
    ".type MPI_Ialltoallw_c, @function",
    ".set MPI_Ialltoallw_c, PMPI_Ialltoallw_c",
    ".weak MPI_Ibarrier",
    ".type MPI_Ibarrier, @function",
    ".set MPI_Ibarrier, PMPI_Ibarrier",
    ".weak MPI_Ibcast",
    ".type MPI_Ibcast, @function",
    ".set MPI_Ibcast, PMPI_Ibcast",
    ".weak MPI_Ibcast_c",
    ".type MPI_Ibcast_c, @function",
    ".set MPI_Ibcast_c, PMPI_Ibcast_c",
    ".weak MPI_Ibsend",
    ".type MPI_Ibsend, @function",
    ".set MPI_Ibsend, PMPI_Ibsend",
    ".weak MPI_Ibsend_c",
    ".type MPI_Ibsend_c, @function",
    ".set MPI_Ibsend_c, PMPI_Ibsend_c",
    ".weak MPI_Iexscan",
    ".type MPI_Iexscan, @function",
    ".set MPI_Iexscan, PMPI_Iexscan",
    ".weak MPI_Iexscan_c",
    ".type MPI_Iexscan_c, @function",
    ".set MPI_Iexscan_c, PMPI_Iexscan_c",
    ".weak MPI_Igather",
    ".type MPI_Igather, @function",
    ".set MPI_Igather, PMPI_Igather",
    ".weak MPI_Igather_c",
    ".type MPI_Igather_c, @function",
    ".set MPI_Igather_c, PMPI_Igather_c",
    ".weak MPI_Igatherv",
    ".type MPI_Igatherv, @function",
    ".set MPI_Igatherv, PMPI_Igatherv",
    ".weak MPI_Igatherv_c",
    ".type MPI_Igatherv_c, @function",
    ".set MPI_Igatherv_c, PMPI_Igatherv_c",
    ".weak MPI_Improbe",
    ".type MPI_Improbe, @function",
    ".set MPI_Improbe, PMPI_Improbe",
    ".weak MPI_Imrecv",
    ".type MPI_Imrecv, @function",
    ".set MPI_Imrecv, PMPI_Imrecv",
    ".weak MPI_Imrecv_c",
    ".type MPI_Imrecv_c, @function",
    ".set MPI_Imrecv_c, PMPI_Imrecv_c",
    ".weak MPI_Ineighbor_allgather",
    ".type MPI_Ineighbor_allgather, @function",
    ".set MPI_Ineighbor_allgather, PMPI_Ineighbor_allgather",
    ".weak MPI_Ineighbor_allgather_c",
    ".type MPI_Ineighbor_allgather_c, @function",
    ".set MPI_Ineighbor_allgather_c, PMPI_Ineighbor_allgather_c",
    ".weak MPI_Ineighbor_allgatherv",
    ".type MPI_Ineighbor_allgatherv, @function",
    ".set MPI_Ineighbor_allgatherv, PMPI_Ineighbor_allgatherv",
    ".weak MPI_Ineighbor_allgatherv_c",
    ".type MPI_Ineighbor_allgatherv_c, @function",
    ".set MPI_Ineighbor_allgatherv_c, PMPI_Ineighbor_allgatherv_c",
    ".weak MPI_Ineighbor_alltoall",
    ".type MPI_Ineighbor_alltoall, @function",
    ".set MPI_Ineighbor_alltoall, PMPI_Ineighbor_alltoall",
    ".weak MPI_Ineighbor_alltoall_c",
    ".type MPI_Ineighbor_alltoall_c, @function",
    ".set MPI_Ineighbor_alltoall_c, PMPI_Ineighbor_alltoall_c",
    ".weak MPI_Ineighbor_alltoallv",
    ".type MPI_Ineighbor_alltoallv, @function",
    ".set MPI_Ineighbor_alltoallv, PMPI_Ineighbor_alltoallv",
    ".weak MPI_Ineighbor_alltoallv_c",
    ".type MPI_Ineighbor_alltoallv_c, @function",
    ".set MPI_Ineighbor_alltoallv_c, PMPI_Ineighbor_alltoallv_c",
    ".weak MPI_Ineighbor_alltoallw",
    ".type MPI_Ineighbor_alltoallw, @function",
    ".set MPI_Ineighbor_alltoallw, PMPI_Ineighbor_alltoallw",
    ".weak MPI_Ineighbor_alltoallw_c",
    ".type MPI_Ineighbor_alltoallw_c, @function",
    ".set MPI_Ineighbor_alltoallw_c, PMPI_Ineighbor_alltoallw_c",
    ".weak MPI_Info_create",
    ".type MPI_Info_create, @function",
    ".set MPI_Info_create, PMPI_Info_create",
    ".weak MPI_Info_create_env",
    ".type MPI_Info_create_env, @function",
    ".set MPI_Info_create_env, PMPI_Info_create_env",
    ".weak MPI_Info_delete",
    ".type MPI_Info_delete, @function",
    ".set MPI_Info_delete, PMPI_Info_delete",
    ".weak MPI_Info_dup",
    ".type MPI_Info_dup, @function",
    ".set MPI_Info_dup, PMPI_Info_dup",
    ".weak MPI_Info_free",
    ".type MPI_Info_free, @function",
    ".set MPI_Info_free, PMPI_Info_free",
    ".weak MPI_Info_fromint",
    ".type MPI_Info_fromint, @function",
    ".set MPI_Info_fromint, PMPI_Info_fromint",
    ".weak MPI_Info_get",
    ".type MPI_Info_get, @function",
    ".set MPI_Info_get, PMPI_Info_get",
    ".weak MPI_Info_get_nkeys",
    ".type MPI_Info_get_nkeys, @function",
    ".set MPI_Info_get_nkeys, PMPI_Info_get_nkeys",
    ".weak MPI_Info_get_nthkey",
    ".type MPI_Info_get_nthkey, @function",
    ".set MPI_Info_get_nthkey, PMPI_Info_get_nthkey",
    ".weak MPI_Info_get_string",
    ".type MPI_Info_get_string, @function",
    ".set MPI_Info_get_string, PMPI_Info_get_string",
    ".weak MPI_Info_get_valuelen",
    ".type MPI_Info_get_valuelen, @function",
    ".set MPI_Info_get_valuelen, PMPI_Info_get_valuelen",
    ".weak MPI_Info_set",
    ".type MPI_Info_set, @function",
    ".set MPI_Info_set, PMPI_Info_set",
    ".weak MPI_Info_toint",
    ".type MPI_Info_toint, @function",
    ".set MPI_Info_toint, PMPI_Info_toint",
    ".weak MPI_Init",
    ".type MPI_Init, @function",
    ".set MPI_Init, PMPI_Init",
    ".weak MPI_Init_thread",
    ".type MPI_Init_thread, @function",
    ".set MPI_Init_thread, PMPI_Init_thread",
    ".weak MPI_Initialized",
    ".type MPI_Initialized, @function",
    ".set MPI_Initialized, PMPI_Initialized",
    ".weak MPI_Intercomm_create",
    ".type MPI_Intercomm_create, @function",
    ".set MPI_Intercomm_create, PMPI_Intercomm_create",
    ".weak MPI_Intercomm_create_from_groups",
    ".type MPI_Intercomm_create_from_groups, @function",
    ".set MPI_Intercomm_create_from_groups, PMPI_Intercomm_create_from_groups",
    ".weak MPI_Intercomm_merge",
    ".type MPI_Intercomm_merge, @function",
    ".set MPI_Intercomm_merge, PMPI_Intercomm_merge",
    ".weak MPI_Iprobe",
    ".type MPI_Iprobe, @function",
    ".set MPI_Iprobe, PMPI_Iprobe",
    ".weak MPI_Irecv",
    ".type MPI_Irecv, @function",
    ".set MPI_Irecv, PMPI_Irecv",
    ".weak MPI_Irecv_c",
    ".type MPI_Irecv_c, @function",
    ".set MPI_Irecv_c, PMPI_Irecv_c",
    ".weak MPI_Ireduce",
    ".type MPI_Ireduce, @function",
    ".set MPI_Ireduce, PMPI_Ireduce",
    ".weak MPI_Ireduce_c",
    ".type MPI_Ireduce_c, @function",
    ".set MPI_Ireduce_c, PMPI_Ireduce_c",
    ".weak MPI_Ireduce_scatter",
    ".type MPI_Ireduce_scatter, @function",
    ".set MPI_Ireduce_scatter, PMPI_Ireduce_scatter",
    ".weak MPI_Ireduce_scatter_block",
    ".type MPI_Ireduce_scatter_block, @function",
    ".set MPI_Ireduce_scatter_block, PMPI_Ireduce_scatter_block",
    ".weak MPI_Ireduce_scatter_block_c",
    ".type MPI_Ireduce_scatter_block_c, @function",
    ".set MPI_Ireduce_scatter_block_c, PMPI_Ireduce_scatter_block_c",
    ".weak MPI_Ireduce_scatter_c",
    ".type MPI_Ireduce_scatter_c, @function",
    ".set MPI_Ireduce_scatter_c, PMPI_Ireduce_scatter_c",
    ".weak MPI_Irsend",
    ".type MPI_Irsend, @function",
    ".set MPI_Irsend, PMPI_Irsend",
    ".weak MPI_Irsend_c",
    ".type MPI_Irsend_c, @function",
    ".set MPI_Irsend_c, PMPI_Irsend_c",
    ".weak MPI_Is_thread_main",
    ".type MPI_Is_thread_main, @function",
    ".set MPI_Is_thread_main, PMPI_Is_thread_main",
    ".weak MPI_Iscan",
    ".type MPI_Iscan, @function",
    ".set MPI_Iscan, PMPI_Iscan",
    ".weak MPI_Iscan_c",
    ".type MPI_Iscan_c, @function",
    ".set MPI_Iscan_c, PMPI_Iscan_c",
    ".weak MPI_Iscatter",
    ".type MPI_Iscatter, @function",
    ".set MPI_Iscatter, PMPI_Iscatter",
    ".weak MPI_Iscatter_c",
    ".type MPI_Iscatter_c, @function",
    ".set MPI_Iscatter_c, PMPI_Iscatter_c",
    ".weak MPI_Iscatterv",
    ".type MPI_Iscatterv, @function",
    ".set MPI_Iscatterv, PMPI_Iscatterv",
    ".weak MPI_Iscatterv_c",
    ".type MPI_Iscatterv_c, @function",
    ".set MPI_Iscatterv_c, PMPI_Iscatterv_c",
    ".weak MPI_Isend",
    ".type MPI_Isend, @function",
    ".set MPI_Isend, PMPI_Isend",
    ".weak MPI_Isend_c",
    ".type MPI_Isend_c, @function",
    ".set MPI_Isend_c, PMPI_Isend_c",
    ".weak MPI_Isendrecv",
    ".type MPI_Isendrecv, @function",
    ".set MPI_Isendrecv, PMPI_Isendrecv",
    ".weak MPI_Isendrecv_c",
    ".type MPI_Isendrecv_c, @function",
    ".set MPI_Isendrecv_c, PMPI_Isendrecv_c",
    ".weak MPI_Isendrecv_replace",
    ".type MPI_Isendrecv_replace, @function",
    ".set MPI_Isendrecv_replace, PMPI_Isendrecv_replace",
    ".weak MPI_Isendrecv_replace_c",
    ".type MPI_Isendrecv_replace_c, @function",
    ".set MPI_Isendrecv_replace_c, PMPI_Isendrecv_replace_c",
    ".weak MPI_Issend",
    ".type MPI_Issend, @function",
    ".set MPI_Issend, PMPI_Issend",
    ".weak MPI_Issend_c",
    ".type MPI_Issend_c, @function",
    ".set MPI_Issend_c, PMPI_Issend_c",
    ".weak MPI_Keyval_create",
    ".type MPI_Keyval_create, @function",
    ".set MPI_Keyval_create, PMPI_Keyval_create",
    ".weak MPI_Keyval_free",
    ".type MPI_Keyval_free, @function",
    ".set MPI_Keyval_free, PMPI_Keyval_free",
    ".weak MPI_Lookup_name",
    ".type MPI_Lookup_name, @function",
    ".set MPI_Lookup_name, PMPI_Lookup_name",
    ".weak MPI_Message_fromint",
    ".type MPI_Message_fromint, @function",
    ".set MPI_Message_fromint, PMPI_Message_fromint",
    ".weak MPI_Message_toint",
    ".type MPI_Message_toint, @function",
    ".set MPI_Message_toint, PMPI_Message_toint",
    ".weak MPI_Mprobe",
    ".type MPI_Mprobe, @function",
    ".set MPI_Mprobe, PMPI_Mprobe",
    ".weak MPI_Mrecv",
    ".type MPI_Mrecv, @function",
    ".set MPI_Mrecv, PMPI_Mrecv",
    ".weak MPI_Mrecv_c",
    ".type MPI_Mrecv_c, @function",
    ".set MPI_Mrecv_c, PMPI_Mrecv_c",
    ".weak MPI_Neighbor_allgather",
    ".type MPI_Neighbor_allgather, @function",
    ".set MPI_Neighbor_allgather, PMPI_Neighbor_allgather",
    ".weak MPI_Neighbor_allgather_c",
    ".type MPI_Neighbor_allgather_c, @function",
    ".set MPI_Neighbor_allgather_c, PMPI_Neighbor_allgather_c",
    ".weak MPI_Neighbor_allgather_init",
    ".type MPI_Neighbor_allgather_init, @function",
    ".set MPI_Neighbor_allgather_init, PMPI_Neighbor_allgather_init",
    ".weak MPI_Neighbor_allgather_init_c",
    ".type MPI_Neighbor_allgather_init_c, @function",
    ".set MPI_Neighbor_allgather_init_c, PMPI_Neighbor_allgather_init_c",
    ".weak MPI_Neighbor_allgatherv",
    ".type MPI_Neighbor_allgatherv, @function",
    ".set MPI_Neighbor_allgatherv, PMPI_Neighbor_allgatherv",
    ".weak MPI_Neighbor_allgatherv_c",
    ".type MPI_Neighbor_allgatherv_c, @function",
    ".set MPI_Neighbor_allgatherv_c, PMPI_Neighbor_allgatherv_c",
    ".weak MPI_Neighbor_allgatherv_init",
    ".type MPI_Neighbor_allgatherv_init, @function",
    ".set MPI_Neighbor_allgatherv_init, PMPI_Neighbor_allgatherv_init",
    ".weak MPI_Neighbor_allgatherv_init_c",
    ".type MPI_Neighbor_allgatherv_init_c, @function",
    ".set MPI_Neighbor_allgatherv_init_c, PMPI_Neighbor_allgatherv_init_c",
    ".weak MPI_Neighbor_alltoall",
    ".type MPI_Neighbor_alltoall, @function",
    ".set MPI_Neighbor_alltoall, PMPI_Neighbor_alltoall",
    ".weak MPI_Neighbor_alltoall_c",
    ".type MPI_Neighbor_alltoall_c, @function",
    ".set MPI_Neighbor_alltoall_c, PMPI_Neighbor_alltoall_c",
    ".weak MPI_Neighbor_alltoall_init",
    ".type MPI_Neighbor_alltoall_init, @function",
    ".set MPI_Neighbor_alltoall_init, PMPI_Neighbor_alltoall_init",
    ".weak MPI_Neighbor_alltoall_init_c",
    ".type MPI_Neighbor_alltoall_init_c, @function",
    ".set MPI_Neighbor_alltoall_init_c, PMPI_Neighbor_alltoall_init_c",
    ".weak MPI_Neighbor_alltoallv",
    ".type MPI_Neighbor_alltoallv, @function",
    ".set MPI_Neighbor_alltoallv, PMPI_Neighbor_alltoallv",
    ".weak MPI_Neighbor_alltoallv_c",
    ".type MPI_Neighbor_alltoallv_c, @function",
    ".set MPI_Neighbor_alltoallv_c, PMPI_Neighbor_alltoallv_c",
    ".weak MPI_Neighbor_alltoallv_init",
    ".type MPI_Neighbor_alltoallv_init, @function",
    ".set MPI_Neighbor_alltoallv_init, PMPI_Neighbor_alltoallv_init",
    ".weak MPI_Neighbor_alltoallv_init_c",
    ".type MPI_Neighbor_alltoallv_init_c, @function",
    ".set MPI_Neighbor_alltoallv_init_c, PMPI_Neighbor_alltoallv_init_c",
    ".weak MPI_Neighbor_alltoallw",
    ".type MPI_Neighbor_alltoallw, @function",
    ".set MPI_Neighbor_alltoallw, PMPI_Neighbor_alltoallw",
    ".weak MPI_Neighbor_alltoallw_c",
    ".type MPI_Neighbor_alltoallw_c, @function",
    ".set MPI_Neighbor_alltoallw_c, PMPI_Neighbor_alltoallw_c",
    ".weak MPI_Neighbor_alltoallw_init",
    ".type MPI_Neighbor_alltoallw_init, @function",
    ".set MPI_Neighbor_alltoallw_init, PMPI_Neighbor_alltoallw_init",
    ".weak MPI_Neighbor_alltoallw_init_c",
    ".type MPI_Neighbor_alltoallw_init_c, @function",
    ".set MPI_Neighbor_alltoallw_init_c, PMPI_Neighbor_alltoallw_init_c",
    ".weak MPI_Op_commutative",
    ".type MPI_Op_commutative, @function",
    ".set MPI_Op_commutative, PMPI_Op_commutative",
    ".weak MPI_Op_create",
    ".type MPI_Op_create, @function",
    ".set MPI_Op_create, PMPI_Op_create",
    ".weak MPI_Op_create_c",
    ".type MPI_Op_create_c, @function",
    ".set MPI_Op_create_c, PMPI_Op_create_c",
    ".weak MPI_Op_free",
    ".type MPI_Op_free, @function",
    ".set MPI_Op_free, PMPI_Op_free",
    ".weak MPI_Op_fromint",
    ".type MPI_Op_fromint, @function",
    ".set MPI_Op_fromint, PMPI_Op_fromint",
    ".weak MPI_Op_toint",
    ".type MPI_Op_toint, @function",
    ".set MPI_Op_toint, PMPI_Op_toint",
    ".weak MPI_Open_port",
    ".type MPI_Open_port, @function",
    ".set MPI_Open_port, PMPI_Open_port",
    ".weak MPI_Pack",
    ".type MPI_Pack, @function",
    ".set MPI_Pack, PMPI_Pack",
    ".weak MPI_Pack_c",
    ".type MPI_Pack_c, @function",
    ".set MPI_Pack_c, PMPI_Pack_c",
    ".weak MPI_Pack_external",
    ".type MPI_Pack_external, @function",
    ".set MPI_Pack_external, PMPI_Pack_external",
    ".weak MPI_Pack_external_c",
    ".type MPI_Pack_external_c, @function",
    ".set MPI_Pack_external_c, PMPI_Pack_external_c",
    ".weak MPI_Pack_external_size",
    ".type MPI_Pack_external_size, @function",
    ".set MPI_Pack_external_size, PMPI_Pack_external_size",
    ".weak MPI_Pack_external_size_c",
    ".type MPI_Pack_external_size_c, @function",
    ".set MPI_Pack_external_size_c, PMPI_Pack_external_size_c",
    ".weak MPI_Pack_size",
    ".type MPI_Pack_size, @function",
    ".set MPI_Pack_size, PMPI_Pack_size",
    ".weak MPI_Pack_size_c",
    ".type MPI_Pack_size_c, @function",
    ".set MPI_Pack_size_c, PMPI_Pack_size_c",
    ".weak MPI_Parrived",
    ".type MPI_Parrived, @function",
    ".set MPI_Parrived, PMPI_Parrived",
    ".weak MPI_Pcontrol",
    ".type MPI_Pcontrol, @function",
    ".set MPI_Pcontrol, PMPI_Pcontrol",
    ".weak MPI_Pready",
    ".type MPI_Pready, @function",
    ".set MPI_Pready, PMPI_Pready",
    ".weak MPI_Pready_list",
    ".type MPI_Pready_list, @function",
    ".set MPI_Pready_list, PMPI_Pready_list",
    ".weak MPI_Pready_range",
    ".type MPI_Pready_range, @function",
    ".set MPI_Pready_range, PMPI_Pready_range",
    ".weak MPI_Precv_init",
    ".type MPI_Precv_init, @function",
    ".set MPI_Precv_init, PMPI_Precv_init",
    ".weak MPI_Precv_init_c",
    ".type MPI_Precv_init_c, @function",
    ".set MPI_Precv_init_c, PMPI_Precv_init_c",
    ".weak MPI_Probe",
    ".type MPI_Probe, @function",
    ".set MPI_Probe, PMPI_Probe",
    ".weak MPI_Psend_init",
    ".type MPI_Psend_init, @function",
    ".set MPI_Psend_init, PMPI_Psend_init",
    ".weak MPI_Psend_init_c",
    ".type MPI_Psend_init_c, @function",
    ".set MPI_Psend_init_c, PMPI_Psend_init_c",
    ".weak MPI_Publish_name",
    ".type MPI_Publish_name, @function",
    ".set MPI_Publish_name, PMPI_Publish_name",
    ".weak MPI_Put",
    ".type MPI_Put, @function",
    ".set MPI_Put, PMPI_Put",
    ".weak MPI_Put_c",
    ".type MPI_Put_c, @function",
    ".set MPI_Put_c, PMPI_Put_c",
    ".weak MPI_Query_thread",
    ".type MPI_Query_thread, @function",
    ".set MPI_Query_thread, PMPI_Query_thread",
    ".weak MPI_Raccumulate",
    ".type MPI_Raccumulate, @function",
    ".set MPI_Raccumulate, PMPI_Raccumulate",
    ".weak MPI_Raccumulate_c",
    ".type MPI_Raccumulate_c, @function",
    ".set MPI_Raccumulate_c, PMPI_Raccumulate_c",
    ".weak MPI_Recv",
    ".type MPI_Recv, @function",
    ".set MPI_Recv, PMPI_Recv",
    ".weak MPI_Recv_c",
    ".type MPI_Recv_c, @function",
    ".set MPI_Recv_c, PMPI_Recv_c",
    ".weak MPI_Recv_init",
    ".type MPI_Recv_init, @function",
    ".set MPI_Recv_init, PMPI_Recv_init",
    ".weak MPI_Recv_init_c",
    ".type MPI_Recv_init_c, @function",
    ".set MPI_Recv_init_c, PMPI_Recv_init_c",
    ".weak MPI_Reduce",
    ".type MPI_Reduce, @function",
    ".set MPI_Reduce, PMPI_Reduce",
    ".weak MPI_Reduce_c",
    ".type MPI_Reduce_c, @function",
    ".set MPI_Reduce_c, PMPI_Reduce_c",
    ".weak MPI_Reduce_init",
    ".type MPI_Reduce_init, @function",
    ".set MPI_Reduce_init, PMPI_Reduce_init",
    ".weak MPI_Reduce_init_c",
    ".type MPI_Reduce_init_c, @function",
    ".set MPI_Reduce_init_c, PMPI_Reduce_init_c",
    ".weak MPI_Reduce_local",
    ".type MPI_Reduce_local, @function",
    ".set MPI_Reduce_local, PMPI_Reduce_local",
    ".weak MPI_Reduce_local_c",
    ".type MPI_Reduce_local_c, @function",
    ".set MPI_Reduce_local_c, PMPI_Reduce_local_c",
    ".weak MPI_Reduce_scatter",
    ".type MPI_Reduce_scatter, @function",
    ".set MPI_Reduce_scatter, PMPI_Reduce_scatter",
    ".weak MPI_Reduce_scatter_block",
    ".type MPI_Reduce_scatter_block, @function",
    ".set MPI_Reduce_scatter_block, PMPI_Reduce_scatter_block",
    ".weak MPI_Reduce_scatter_block_c",
    ".type MPI_Reduce_scatter_block_c, @function",
    ".set MPI_Reduce_scatter_block_c, PMPI_Reduce_scatter_block_c",
    ".weak MPI_Reduce_scatter_block_init",
    ".type MPI_Reduce_scatter_block_init, @function",
    ".set MPI_Reduce_scatter_block_init, PMPI_Reduce_scatter_block_init",
    ".weak MPI_Reduce_scatter_block_init_c",
    ".type MPI_Reduce_scatter_block_init_c, @function",
    ".set MPI_Reduce_scatter_block_init_c, PMPI_Reduce_scatter_block_init_c",
    ".weak MPI_Reduce_scatter_c",
    ".type MPI_Reduce_scatter_c, @function",
    ".set MPI_Reduce_scatter_c, PMPI_Reduce_scatter_c",
    ".weak MPI_Reduce_scatter_init",
    ".type MPI_Reduce_scatter_init, @function",
    ".set MPI_Reduce_scatter_init, PMPI_Reduce_scatter_init",
    ".weak MPI_Reduce_scatter_init_c",
    ".type MPI_Reduce_scatter_init_c, @function",
    ".set MPI_Reduce_scatter_init_c, PMPI_Reduce_scatter_init_c",
    ".weak MPI_Register_datarep",
    ".type MPI_Register_datarep, @function",
    ".set MPI_Register_datarep, PMPI_Register_datarep",
    ".weak MPI_Register_datarep_c",
    ".type MPI_Register_datarep_c, @function",
    ".set MPI_Register_datarep_c, PMPI_Register_datarep_c",
    ".weak MPI_Remove_error_class",
    ".type MPI_Remove_error_class, @function",
    ".set MPI_Remove_error_class, PMPI_Remove_error_class",
    ".weak MPI_Remove_error_code",
    ".type MPI_Remove_error_code, @function",
    ".set MPI_Remove_error_code, PMPI_Remove_error_code",
    ".weak MPI_Remove_error_string",
    ".type MPI_Remove_error_string, @function",
    ".set MPI_Remove_error_string, PMPI_Remove_error_string",
    ".weak MPI_Request_free",
    ".type MPI_Request_free, @function",
    ".set MPI_Request_free, PMPI_Request_free",
    ".weak MPI_Request_fromint",
    ".type MPI_Request_fromint, @function",
    ".set MPI_Request_fromint, PMPI_Request_fromint",
    ".weak MPI_Request_get_status",
    ".type MPI_Request_get_status, @function",
    ".set MPI_Request_get_status, PMPI_Request_get_status",
    ".weak MPI_Request_get_status_all",
    ".type MPI_Request_get_status_all, @function",
    ".set MPI_Request_get_status_all, PMPI_Request_get_status_all",
    ".weak MPI_Request_get_status_any",
    ".type MPI_Request_get_status_any, @function",
    ".set MPI_Request_get_status_any, PMPI_Request_get_status_any",
    ".weak MPI_Request_get_status_some",
    ".type MPI_Request_get_status_some, @function",
    ".set MPI_Request_get_status_some, PMPI_Request_get_status_some",
    ".weak MPI_Request_toint",
    ".type MPI_Request_toint, @function",
    ".set MPI_Request_toint, PMPI_Request_toint",
    ".weak MPI_Rget",
    ".type MPI_Rget, @function",
    ".set MPI_Rget, PMPI_Rget",
    ".weak MPI_Rget_accumulate",
    ".type MPI_Rget_accumulate, @function",
    ".set MPI_Rget_accumulate, PMPI_Rget_accumulate",
    ".weak MPI_Rget_accumulate_c",
    ".type MPI_Rget_accumulate_c, @function",
    ".set MPI_Rget_accumulate_c, PMPI_Rget_accumulate_c",
    ".weak MPI_Rget_c",
    ".type MPI_Rget_c, @function",
    ".set MPI_Rget_c, PMPI_Rget_c",
    ".weak MPI_Rput",
    ".type MPI_Rput, @function",
    ".set MPI_Rput, PMPI_Rput",
    ".weak MPI_Rput_c",
    ".type MPI_Rput_c, @function",
    ".set MPI_Rput_c, PMPI_Rput_c",
    ".weak MPI_Rsend",
    ".type MPI_Rsend, @function",
    ".set MPI_Rsend, PMPI_Rsend",
    ".weak MPI_Rsend_c",
    ".type MPI_Rsend_c, @function",
    ".set MPI_Rsend_c, PMPI_Rsend_c",
    ".weak MPI_Rsend_init",
    ".type MPI_Rsend_init, @function",
    ".set MPI_Rsend_init, PMPI_Rsend_init",
    ".weak MPI_Rsend_init_c",
    ".type MPI_Rsend_init_c, @function",
    ".set MPI_Rsend_init_c, PMPI_Rsend_init_c",
    ".weak MPI_Scan",
    ".type MPI_Scan, @function",
    ".set MPI_Scan, PMPI_Scan",
    ".weak MPI_Scan_c",
    ".type MPI_Scan_c, @function",
    ".set MPI_Scan_c, PMPI_Scan_c",
    ".weak MPI_Scan_init",
    ".type MPI_Scan_init, @function",
    ".set MPI_Scan_init, PMPI_Scan_init",
    ".weak MPI_Scan_init_c",
    ".type MPI_Scan_init_c, @function",
    ".set MPI_Scan_init_c, PMPI_Scan_init_c",
    ".weak MPI_Scatter",
    ".type MPI_Scatter, @function",
    ".set MPI_Scatter, PMPI_Scatter",
    ".weak MPI_Scatter_c",
    ".type MPI_Scatter_c, @function",
    ".set MPI_Scatter_c, PMPI_Scatter_c",
    ".weak MPI_Scatter_init",
    ".type MPI_Scatter_init, @function",
    ".set MPI_Scatter_init, PMPI_Scatter_init",
    ".weak MPI_Scatter_init_c",
    ".type MPI_Scatter_init_c, @function",
    ".set MPI_Scatter_init_c, PMPI_Scatter_init_c",
    ".weak MPI_Scatterv",
    ".type MPI_Scatterv, @function",
    ".set MPI_Scatterv, PMPI_Scatterv",
    ".weak MPI_Scatterv_c",
    ".type MPI_Scatterv_c, @function",
    ".set MPI_Scatterv_c, PMPI_Scatterv_c",
    ".weak MPI_Scatterv_init",
    ".type MPI_Scatterv_init, @function",
    ".set MPI_Scatterv_init, PMPI_Scatterv_init",
    ".weak MPI_Scatterv_init_c",
    ".type MPI_Scatterv_init_c, @function",
    ".set MPI_Scatterv_init_c, PMPI_Scatterv_init_c",
    ".weak MPI_Send",
    ".type MPI_Send, @function",
    ".set MPI_Send, PMPI_Send",
    ".weak MPI_Send_c",
    ".type MPI_Send_c, @function",
    ".set MPI_Send_c, PMPI_Send_c",
    ".weak MPI_Send_init",
    ".type MPI_Send_init, @function",
    ".set MPI_Send_init, PMPI_Send_init",
    ".weak MPI_Send_init_c",
    ".type MPI_Send_init_c, @function",
    ".set MPI_Send_init_c, PMPI_Send_init_c",
    ".weak MPI_Sendrecv",
    ".type MPI_Sendrecv, @function",
    ".set MPI_Sendrecv, PMPI_Sendrecv",
    ".weak MPI_Sendrecv_c",
    ".type MPI_Sendrecv_c, @function",
    ".set MPI_Sendrecv_c, PMPI_Sendrecv_c",
    ".weak MPI_Sendrecv_replace",
    ".type MPI_Sendrecv_replace, @function",
    ".set MPI_Sendrecv_replace, PMPI_Sendrecv_replace",
    ".weak MPI_Sendrecv_replace_c",
    ".type MPI_Sendrecv_replace_c, @function",
    ".set MPI_Sendrecv_replace_c, PMPI_Sendrecv_replace_c",
    ".weak MPI_Session_attach_buffer",
    ".type MPI_Session_attach_buffer, @function",
    ".set MPI_Session_attach_buffer, PMPI_Session_attach_buffer",
    ".weak MPI_Session_attach_buffer_c",
    ".type MPI_Session_attach_buffer_c, @function",
    ".set MPI_Session_attach_buffer_c, PMPI_Session_attach_buffer_c",
    ".weak MPI_Session_call_errhandler",
    ".type MPI_Session_call_errhandler, @function",
    ".set MPI_Session_call_errhandler, PMPI_Session_call_errhandler",
    ".weak MPI_Session_create_errhandler",
    ".type MPI_Session_create_errhandler, @function",
    ".set MPI_Session_create_errhandler, PMPI_Session_create_errhandler",
    ".weak MPI_Session_detach_buffer",
    ".type MPI_Session_detach_buffer, @function",
    ".set MPI_Session_detach_buffer, PMPI_Session_detach_buffer",
    ".weak MPI_Session_detach_buffer_c",
    ".type MPI_Session_detach_buffer_c, @function",
    ".set MPI_Session_detach_buffer_c, PMPI_Session_detach_buffer_c",
    ".weak MPI_Session_finalize",
    ".type MPI_Session_finalize, @function",
    ".set MPI_Session_finalize, PMPI_Session_finalize",
    ".weak MPI_Session_flush_buffer",
    ".type MPI_Session_flush_buffer, @function",
    ".set MPI_Session_flush_buffer, PMPI_Session_flush_buffer",
    ".weak MPI_Session_fromint",
    ".type MPI_Session_fromint, @function",
    ".set MPI_Session_fromint, PMPI_Session_fromint",
    ".weak MPI_Session_get_errhandler",
    ".type MPI_Session_get_errhandler, @function",
    ".set MPI_Session_get_errhandler, PMPI_Session_get_errhandler",
    ".weak MPI_Session_get_info",
    ".type MPI_Session_get_info, @function",
    ".set MPI_Session_get_info, PMPI_Session_get_info",
    ".weak MPI_Session_get_nth_pset",
    ".type MPI_Session_get_nth_pset, @function",
    ".set MPI_Session_get_nth_pset, PMPI_Session_get_nth_pset",
    ".weak MPI_Session_get_num_psets",
    ".type MPI_Session_get_num_psets, @function",
    ".set MPI_Session_get_num_psets, PMPI_Session_get_num_psets",
    ".weak MPI_Session_get_pset_info",
    ".type MPI_Session_get_pset_info, @function",
    ".set MPI_Session_get_pset_info, PMPI_Session_get_pset_info",
    ".weak MPI_Session_iflush_buffer",
    ".type MPI_Session_iflush_buffer, @function",
    ".set MPI_Session_iflush_buffer, PMPI_Session_iflush_buffer",
    ".weak MPI_Session_init",
    ".type MPI_Session_init, @function",
    ".set MPI_Session_init, PMPI_Session_init",
    ".weak MPI_Session_set_errhandler",
    ".type MPI_Session_set_errhandler, @function",
    ".set MPI_Session_set_errhandler, PMPI_Session_set_errhandler",
    ".weak MPI_Session_toint",
    ".type MPI_Session_toint, @function",
    ".set MPI_Session_toint, PMPI_Session_toint",
    ".weak MPI_Ssend",
    ".type MPI_Ssend, @function",
    ".set MPI_Ssend, PMPI_Ssend",
    ".weak MPI_Ssend_c",
    ".type MPI_Ssend_c, @function",
    ".set MPI_Ssend_c, PMPI_Ssend_c",
    ".weak MPI_Ssend_init",
    ".type MPI_Ssend_init, @function",
    ".set MPI_Ssend_init, PMPI_Ssend_init",
    ".weak MPI_Ssend_init_c",
    ".type MPI_Ssend_init_c, @function",
    ".set MPI_Ssend_init_c, PMPI_Ssend_init_c",
    ".weak MPI_Start",
    ".type MPI_Start, @function",
    ".set MPI_Start, PMPI_Start",
    ".weak MPI_Startall",
    ".type MPI_Startall, @function",
    ".set MPI_Startall, PMPI_Startall",
    ".weak MPI_Status_get_error",
    ".type MPI_Status_get_error, @function",
    ".set MPI_Status_get_error, PMPI_Status_get_error",
    ".weak MPI_Status_get_source",
    ".type MPI_Status_get_source, @function",
    ".set MPI_Status_get_source, PMPI_Status_get_source",
    ".weak MPI_Status_get_tag",
    ".type MPI_Status_get_tag, @function",
    ".set MPI_Status_get_tag, PMPI_Status_get_tag",
    ".weak MPI_Status_set_cancelled",
    ".type MPI_Status_set_cancelled, @function",
    ".set MPI_Status_set_cancelled, PMPI_Status_set_cancelled",
    ".weak MPI_Status_set_elements",
    ".type MPI_Status_set_elements, @function",
    ".set MPI_Status_set_elements, PMPI_Status_set_elements",
    ".weak MPI_Status_set_elements_c",
    ".type MPI_Status_set_elements_c, @function",
    ".set MPI_Status_set_elements_c, PMPI_Status_set_elements_c",
    ".weak MPI_Status_set_elements_x",
    ".type MPI_Status_set_elements_x, @function",
    ".set MPI_Status_set_elements_x, PMPI_Status_set_elements_x",
    ".weak MPI_Status_set_error",
    ".type MPI_Status_set_error, @function",
    ".set MPI_Status_set_error, PMPI_Status_set_error",
    ".weak MPI_Status_set_source",
    ".type MPI_Status_set_source, @function",
    ".set MPI_Status_set_source, PMPI_Status_set_source",
    ".weak MPI_Status_set_tag",
    ".type MPI_Status_set_tag, @function",
    ".set MPI_Status_set_tag, PMPI_Status_set_tag",
    ".weak MPI_T_category_changed",
    ".type MPI_T_category_changed, @function",
    ".set MPI_T_category_changed, PMPI_T_category_changed",
    ".weak MPI_T_category_get_categories",
    ".type MPI_T_category_get_categories, @function",
    ".set MPI_T_category_get_categories, PMPI_T_category_get_categories",
    ".weak MPI_T_category_get_cvars",
    ".type MPI_T_category_get_cvars, @function",
    ".set MPI_T_category_get_cvars, PMPI_T_category_get_cvars",
    ".weak MPI_T_category_get_events",
    ".type MPI_T_category_get_events, @function",
    ".set MPI_T_category_get_events, PMPI_T_category_get_events",
    ".weak MPI_T_category_get_index",
    ".type MPI_T_category_get_index, @function",
    ".set MPI_T_category_get_index, PMPI_T_category_get_index",
    ".weak MPI_T_category_get_info",
    ".type MPI_T_category_get_info, @function",
    ".set MPI_T_category_get_info, PMPI_T_category_get_info",
    ".weak MPI_T_category_get_num",
    ".type MPI_T_category_get_num, @function",
    ".set MPI_T_category_get_num, PMPI_T_category_get_num",
    ".weak MPI_T_category_get_num_events",
    ".type MPI_T_category_get_num_events, @function",
    ".set MPI_T_category_get_num_events, PMPI_T_category_get_num_events",
    ".weak MPI_T_category_get_pvars",
    ".type MPI_T_category_get_pvars, @function",
    ".set MPI_T_category_get_pvars, PMPI_T_category_get_pvars",
    ".weak MPI_T_cvar_get_index",
    ".type MPI_T_cvar_get_index, @function",
    ".set MPI_T_cvar_get_index, PMPI_T_cvar_get_index",
    ".weak MPI_T_cvar_get_info",
    ".type MPI_T_cvar_get_info, @function",
    ".set MPI_T_cvar_get_info, PMPI_T_cvar_get_info",
    ".weak MPI_T_cvar_get_num",
    ".type MPI_T_cvar_get_num, @function",
    ".set MPI_T_cvar_get_num, PMPI_T_cvar_get_num",
    ".weak MPI_T_cvar_handle_alloc",
    ".type MPI_T_cvar_handle_alloc, @function",
    ".set MPI_T_cvar_handle_alloc, PMPI_T_cvar_handle_alloc",
    ".weak MPI_T_cvar_handle_free",
    ".type MPI_T_cvar_handle_free, @function",
    ".set MPI_T_cvar_handle_free, PMPI_T_cvar_handle_free",
    ".weak MPI_T_cvar_read",
    ".type MPI_T_cvar_read, @function",
    ".set MPI_T_cvar_read, PMPI_T_cvar_read",
    ".weak MPI_T_cvar_write",
    ".type MPI_T_cvar_write, @function",
    ".set MPI_T_cvar_write, PMPI_T_cvar_write",
    ".weak MPI_T_enum_get_info",
    ".type MPI_T_enum_get_info, @function",
    ".set MPI_T_enum_get_info, PMPI_T_enum_get_info",
    ".weak MPI_T_enum_get_item",
    ".type MPI_T_enum_get_item, @function",
    ".set MPI_T_enum_get_item, PMPI_T_enum_get_item",
    ".weak MPI_T_event_callback_get_info",
    ".type MPI_T_event_callback_get_info, @function",
    ".set MPI_T_event_callback_get_info, PMPI_T_event_callback_get_info",
    ".weak MPI_T_event_callback_set_info",
    ".type MPI_T_event_callback_set_info, @function",
    ".set MPI_T_event_callback_set_info, PMPI_T_event_callback_set_info",
    ".weak MPI_T_event_copy",
    ".type MPI_T_event_copy, @function",
    ".set MPI_T_event_copy, PMPI_T_event_copy",
    ".weak MPI_T_event_get_index",
    ".type MPI_T_event_get_index, @function",
    ".set MPI_T_event_get_index, PMPI_T_event_get_index",
    ".weak MPI_T_event_get_info",
    ".type MPI_T_event_get_info, @function",
    ".set MPI_T_event_get_info, PMPI_T_event_get_info",
    ".weak MPI_T_event_get_num",
    ".type MPI_T_event_get_num, @function",
    ".set MPI_T_event_get_num, PMPI_T_event_get_num",
    ".weak MPI_T_event_get_source",
    ".type MPI_T_event_get_source, @function",
    ".set MPI_T_event_get_source, PMPI_T_event_get_source",
    ".weak MPI_T_event_get_timestamp",
    ".type MPI_T_event_get_timestamp, @function",
    ".set MPI_T_event_get_timestamp, PMPI_T_event_get_timestamp",
    ".weak MPI_T_event_handle_alloc",
    ".type MPI_T_event_handle_alloc, @function",
    ".set MPI_T_event_handle_alloc, PMPI_T_event_handle_alloc",
    ".weak MPI_T_event_handle_free",
    ".type MPI_T_event_handle_free, @function",
    ".set MPI_T_event_handle_free, PMPI_T_event_handle_free",
    ".weak MPI_T_event_handle_get_info",
    ".type MPI_T_event_handle_get_info, @function",
    ".set MPI_T_event_handle_get_info, PMPI_T_event_handle_get_info",
    ".weak MPI_T_event_handle_set_info",
    ".type MPI_T_event_handle_set_info, @function",
    ".set MPI_T_event_handle_set_info, PMPI_T_event_handle_set_info",
    ".weak MPI_T_event_read",
    ".type MPI_T_event_read, @function",
    ".set MPI_T_event_read, PMPI_T_event_read",
    ".weak MPI_T_event_register_callback",
    ".type MPI_T_event_register_callback, @function",
    ".set MPI_T_event_register_callback, PMPI_T_event_register_callback",
    ".weak MPI_T_event_set_dropped_handler",
    ".type MPI_T_event_set_dropped_handler, @function",
    ".set MPI_T_event_set_dropped_handler, PMPI_T_event_set_dropped_handler",
    ".weak MPI_T_finalize",
    ".type MPI_T_finalize, @function",
    ".set MPI_T_finalize, PMPI_T_finalize",
    ".weak MPI_T_init_thread",
    ".type MPI_T_init_thread, @function",
    ".set MPI_T_init_thread, PMPI_T_init_thread",
    ".weak MPI_T_pvar_get_index",
    ".type MPI_T_pvar_get_index, @function",
    ".set MPI_T_pvar_get_index, PMPI_T_pvar_get_index",
    ".weak MPI_T_pvar_get_info",
    ".type MPI_T_pvar_get_info, @function",
    ".set MPI_T_pvar_get_info, PMPI_T_pvar_get_info",
    ".weak MPI_T_pvar_get_num",
    ".type MPI_T_pvar_get_num, @function",
    ".set MPI_T_pvar_get_num, PMPI_T_pvar_get_num",
    ".weak MPI_T_pvar_handle_alloc",
    ".type MPI_T_pvar_handle_alloc, @function",
    ".set MPI_T_pvar_handle_alloc, PMPI_T_pvar_handle_alloc",
    ".weak MPI_T_pvar_handle_free",
    ".type MPI_T_pvar_handle_free, @function",
    ".set MPI_T_pvar_handle_free, PMPI_T_pvar_handle_free",
    ".weak MPI_T_pvar_read",
    ".type MPI_T_pvar_read, @function",
    ".set MPI_T_pvar_read, PMPI_T_pvar_read",
    ".weak MPI_T_pvar_readreset",
    ".type MPI_T_pvar_readreset, @function",
    ".set MPI_T_pvar_readreset, PMPI_T_pvar_readreset",
    ".weak MPI_T_pvar_reset",
    ".type MPI_T_pvar_reset, @function",
    ".set MPI_T_pvar_reset, PMPI_T_pvar_reset",
    ".weak MPI_T_pvar_session_create",
    ".type MPI_T_pvar_session_create, @function",
    ".set MPI_T_pvar_session_create, PMPI_T_pvar_session_create",
    ".weak MPI_T_pvar_session_free",
    ".type MPI_T_pvar_session_free, @function",
    ".set MPI_T_pvar_session_free, PMPI_T_pvar_session_free",
    ".weak MPI_T_pvar_start",
    ".type MPI_T_pvar_start, @function",
    ".set MPI_T_pvar_start, PMPI_T_pvar_start",
    ".weak MPI_T_pvar_stop",
    ".type MPI_T_pvar_stop, @function",
    ".set MPI_T_pvar_stop, PMPI_T_pvar_stop",
    ".weak MPI_T_pvar_write",
    ".type MPI_T_pvar_write, @function",
    ".set MPI_T_pvar_write, PMPI_T_pvar_write",
    ".weak MPI_T_source_get_info",
    ".type MPI_T_source_get_info, @function",
    ".set MPI_T_source_get_info, PMPI_T_source_get_info",
    ".weak MPI_T_source_get_num",
    ".type MPI_T_source_get_num, @function",
    ".set MPI_T_source_get_num, PMPI_T_source_get_num",
    ".weak MPI_T_source_get_timestamp",
    ".type MPI_T_source_get_timestamp, @function",
    ".set MPI_T_source_get_timestamp, PMPI_T_source_get_timestamp",
    ".weak MPI_Test",
    ".type MPI_Test, @function",
    ".set MPI_Test, PMPI_Test",
    ".weak MPI_Test_cancelled",
    ".type MPI_Test_cancelled, @function",
    ".set MPI_Test_cancelled, PMPI_Test_cancelled",
    ".weak MPI_Testall",
    ".type MPI_Testall, @function",
    ".set MPI_Testall, PMPI_Testall",
    ".weak MPI_Testany",
    ".type MPI_Testany, @function",
    ".set MPI_Testany, PMPI_Testany",
    ".weak MPI_Testsome",
    ".type MPI_Testsome, @function",
    ".set MPI_Testsome, PMPI_Testsome",
    ".weak MPI_Topo_test",
    ".type MPI_Topo_test, @function",
    ".set MPI_Topo_test, PMPI_Topo_test",
    ".weak MPI_Type_commit",
    ".type MPI_Type_commit, @function",
    ".set MPI_Type_commit, PMPI_Type_commit",
    ".weak MPI_Type_contiguous",
    ".type MPI_Type_contiguous, @function",
    ".set MPI_Type_contiguous, PMPI_Type_contiguous",
    ".weak MPI_Type_contiguous_c",
    ".type MPI_Type_contiguous_c, @function",
    ".set MPI_Type_contiguous_c, PMPI_Type_contiguous_c",
    ".weak MPI_Type_create_darray",
    ".type MPI_Type_create_darray, @function",
    ".set MPI_Type_create_darray, PMPI_Type_create_darray",
    ".weak MPI_Type_create_darray_c",
    ".type MPI_Type_create_darray_c, @function",
    ".set MPI_Type_create_darray_c, PMPI_Type_create_darray_c",
    ".weak MPI_Type_create_f90_complex",
    ".type MPI_Type_create_f90_complex, @function",
    ".set MPI_Type_create_f90_complex, PMPI_Type_create_f90_complex",
    ".weak MPI_Type_create_f90_integer",
    ".type MPI_Type_create_f90_integer, @function",
    ".set MPI_Type_create_f90_integer, PMPI_Type_create_f90_integer",
    ".weak MPI_Type_create_f90_real",
    ".type MPI_Type_create_f90_real, @function",
    ".set MPI_Type_create_f90_real, PMPI_Type_create_f90_real",
    ".weak MPI_Type_create_hindexed",
    ".type MPI_Type_create_hindexed, @function",
    ".set MPI_Type_create_hindexed, PMPI_Type_create_hindexed",
    ".weak MPI_Type_create_hindexed_block",
    ".type MPI_Type_create_hindexed_block, @function",
    ".set MPI_Type_create_hindexed_block, PMPI_Type_create_hindexed_block",
    ".weak MPI_Type_create_hindexed_block_c",
    ".type MPI_Type_create_hindexed_block_c, @function",
    ".set MPI_Type_create_hindexed_block_c, PMPI_Type_create_hindexed_block_c",
    ".weak MPI_Type_create_hindexed_c",
    ".type MPI_Type_create_hindexed_c, @function",
    ".set MPI_Type_create_hindexed_c, PMPI_Type_create_hindexed_c",
    ".weak MPI_Type_create_hvector",
    ".type MPI_Type_create_hvector, @function",
    ".set MPI_Type_create_hvector, PMPI_Type_create_hvector",
    ".weak MPI_Type_create_hvector_c",
    ".type MPI_Type_create_hvector_c, @function",
    ".set MPI_Type_create_hvector_c, PMPI_Type_create_hvector_c",
    ".weak MPI_Type_create_indexed_block",
    ".type MPI_Type_create_indexed_block, @function",
    ".set MPI_Type_create_indexed_block, PMPI_Type_create_indexed_block",
    ".weak MPI_Type_create_indexed_block_c",
    ".type MPI_Type_create_indexed_block_c, @function",
    ".set MPI_Type_create_indexed_block_c, PMPI_Type_create_indexed_block_c",
    ".weak MPI_Type_create_keyval",
    ".type MPI_Type_create_keyval, @function",
    ".set MPI_Type_create_keyval, PMPI_Type_create_keyval",
    ".weak MPI_Type_create_resized",
    ".type MPI_Type_create_resized, @function",
    ".set MPI_Type_create_resized, PMPI_Type_create_resized",
    ".weak MPI_Type_create_resized_c",
    ".type MPI_Type_create_resized_c, @function",
    ".set MPI_Type_create_resized_c, PMPI_Type_create_resized_c",
    ".weak MPI_Type_create_struct",
    ".type MPI_Type_create_struct, @function",
    ".set MPI_Type_create_struct, PMPI_Type_create_struct",
    ".weak MPI_Type_create_struct_c",
    ".type MPI_Type_create_struct_c, @function",
    ".set MPI_Type_create_struct_c, PMPI_Type_create_struct_c",
    ".weak MPI_Type_create_subarray",
    ".type MPI_Type_create_subarray, @function",
    ".set MPI_Type_create_subarray, PMPI_Type_create_subarray",
    ".weak MPI_Type_create_subarray_c",
    ".type MPI_Type_create_subarray_c, @function",
    ".set MPI_Type_create_subarray_c, PMPI_Type_create_subarray_c",
    ".weak MPI_Type_delete_attr",
    ".type MPI_Type_delete_attr, @function",
    ".set MPI_Type_delete_attr, PMPI_Type_delete_attr",
    ".weak MPI_Type_dup",
    ".type MPI_Type_dup, @function",
    ".set MPI_Type_dup, PMPI_Type_dup",
    ".weak MPI_Type_free",
    ".type MPI_Type_free, @function",
    ".set MPI_Type_free, PMPI_Type_free",
    ".weak MPI_Type_free_keyval",
    ".type MPI_Type_free_keyval, @function",
    ".set MPI_Type_free_keyval, PMPI_Type_free_keyval",
    ".weak MPI_Type_fromint",
    ".type MPI_Type_fromint, @function",
    ".set MPI_Type_fromint, PMPI_Type_fromint",
    ".weak MPI_Type_get_attr",
    ".type MPI_Type_get_attr, @function",
    ".set MPI_Type_get_attr, PMPI_Type_get_attr",
    ".weak MPI_Type_get_contents",
    ".type MPI_Type_get_contents, @function",
    ".set MPI_Type_get_contents, PMPI_Type_get_contents",
    ".weak MPI_Type_get_contents_c",
    ".type MPI_Type_get_contents_c, @function",
    ".set MPI_Type_get_contents_c, PMPI_Type_get_contents_c",
    ".weak MPI_Type_get_envelope",
    ".type MPI_Type_get_envelope, @function",
    ".set MPI_Type_get_envelope, PMPI_Type_get_envelope",
    ".weak MPI_Type_get_envelope_c",
    ".type MPI_Type_get_envelope_c, @function",
    ".set MPI_Type_get_envelope_c, PMPI_Type_get_envelope_c",
    ".weak MPI_Type_get_extent",
    ".type MPI_Type_get_extent, @function",
    ".set MPI_Type_get_extent, PMPI_Type_get_extent",
    ".weak MPI_Type_get_extent_c",
    ".type MPI_Type_get_extent_c, @function",
    ".set MPI_Type_get_extent_c, PMPI_Type_get_extent_c",
    ".weak MPI_Type_get_extent_x",
    ".type MPI_Type_get_extent_x, @function",
    ".set MPI_Type_get_extent_x, PMPI_Type_get_extent_x",
    ".weak MPI_Type_get_name",
    ".type MPI_Type_get_name, @function",
    ".set MPI_Type_get_name, PMPI_Type_get_name",
    ".weak MPI_Type_get_true_extent",
    ".type MPI_Type_get_true_extent, @function",
    ".set MPI_Type_get_true_extent, PMPI_Type_get_true_extent",
    ".weak MPI_Type_get_true_extent_c",
    ".type MPI_Type_get_true_extent_c, @function",
    ".set MPI_Type_get_true_extent_c, PMPI_Type_get_true_extent_c",
    ".weak MPI_Type_get_true_extent_x",
    ".type MPI_Type_get_true_extent_x, @function",
    ".set MPI_Type_get_true_extent_x, PMPI_Type_get_true_extent_x",
    ".weak MPI_Type_get_value_index",
    ".type MPI_Type_get_value_index, @function",
    ".set MPI_Type_get_value_index, PMPI_Type_get_value_index",
    ".weak MPI_Type_indexed",
    ".type MPI_Type_indexed, @function",
    ".set MPI_Type_indexed, PMPI_Type_indexed",
    ".weak MPI_Type_indexed_c",
    ".type MPI_Type_indexed_c, @function",
    ".set MPI_Type_indexed_c, PMPI_Type_indexed_c",
    ".weak MPI_Type_match_size",
    ".type MPI_Type_match_size, @function",
    ".set MPI_Type_match_size, PMPI_Type_match_size",
    ".weak MPI_Type_set_attr",
    ".type MPI_Type_set_attr, @function",
    ".set MPI_Type_set_attr, PMPI_Type_set_attr",
    ".weak MPI_Type_set_name",
    ".type MPI_Type_set_name, @function",
    ".set MPI_Type_set_name, PMPI_Type_set_name",
    ".weak MPI_Type_size",
    ".type MPI_Type_size, @function",
    ".set MPI_Type_size, PMPI_Type_size",
    ".weak MPI_Type_size_c",
    ".type MPI_Type_size_c, @function",
    ".set MPI_Type_size_c, PMPI_Type_size_c",
    ".weak MPI_Type_size_x",
    ".type MPI_Type_size_x, @function",
    ".set MPI_Type_size_x, PMPI_Type_size_x",
    ".weak MPI_Type_toint",
    ".type MPI_Type_toint, @function",
    ".set MPI_Type_toint, PMPI_Type_toint",
    ".weak MPI_Type_vector",
    ".type MPI_Type_vector, @function",
    ".set MPI_Type_vector, PMPI_Type_vector",
    ".weak MPI_Type_vector_c",
    ".type MPI_Type_vector_c, @function",
    ".set MPI_Type_vector_c, PMPI_Type_vector_c",
    ".weak MPI_Unpack",
    ".type MPI_Unpack, @function",
    ".set MPI_Unpack, PMPI_Unpack",
    ".weak MPI_Unpack_c",
    ".type MPI_Unpack_c, @function",
    ".set MPI_Unpack_c, PMPI_Unpack_c",
    ".weak MPI_Unpack_external",
    ".type MPI_Unpack_external, @function",
    ".set MPI_Unpack_external, PMPI_Unpack_external",
    ".weak MPI_Unpack_external_c",
    ".type MPI_Unpack_external_c, @function",
    ".set MPI_Unpack_external_c, PMPI_Unpack_external_c",
    ".weak MPI_Unpublish_name",
    ".type MPI_Unpublish_name, @function",
    ".set MPI_Unpublish_name, PMPI_Unpublish_name",
    ".weak MPI_Wait",
    ".type MPI_Wait, @function",
    ".set MPI_Wait, PMPI_Wait",
    ".weak MPI_Waitall",
    ".type MPI_Waitall, @function",
    ".set MPI_Waitall, PMPI_Waitall",
    ".weak MPI_Waitany",
    ".type MPI_Waitany, @function",
    ".set MPI_Waitany, PMPI_Waitany",
    ".weak MPI_Waitsome",
    ".type MPI_Waitsome, @function",
    ".set MPI_Waitsome, PMPI_Waitsome",
    ".weak MPI_Win_allocate",
    ".type MPI_Win_allocate, @function",
    ".set MPI_Win_allocate, PMPI_Win_allocate",
    ".weak MPI_Win_allocate_c",
    ".type MPI_Win_allocate_c, @function",
    ".set MPI_Win_allocate_c, PMPI_Win_allocate_c",
    ".weak MPI_Win_allocate_shared",
    ".type MPI_Win_allocate_shared, @function",
    ".set MPI_Win_allocate_shared, PMPI_Win_allocate_shared",
    ".weak MPI_Win_allocate_shared_c",
    ".type MPI_Win_allocate_shared_c, @function",
    ".set MPI_Win_allocate_shared_c, PMPI_Win_allocate_shared_c",
    ".weak MPI_Win_attach",
    ".type MPI_Win_attach, @function",
    ".set MPI_Win_attach, PMPI_Win_attach",
    ".weak MPI_Win_call_errhandler",
    ".type MPI_Win_call_errhandler, @function",
    ".set MPI_Win_call_errhandler, PMPI_Win_call_errhandler",
    ".weak MPI_Win_complete",
    ".type MPI_Win_complete, @function",
    ".set MPI_Win_complete, PMPI_Win_complete",
    ".weak MPI_Win_create",
    ".type MPI_Win_create, @function",
    ".set MPI_Win_create, PMPI_Win_create",
    ".weak MPI_Win_create_c",
    ".type MPI_Win_create_c, @function",
    ".set MPI_Win_create_c, PMPI_Win_create_c",
    ".weak MPI_Win_create_dynamic",
    ".type MPI_Win_create_dynamic, @function",
    ".set MPI_Win_create_dynamic, PMPI_Win_create_dynamic",
    ".weak MPI_Win_create_errhandler",
    ".type MPI_Win_create_errhandler, @function",
    ".set MPI_Win_create_errhandler, PMPI_Win_create_errhandler",
    ".weak MPI_Win_create_keyval",
    ".type MPI_Win_create_keyval, @function",
    ".set MPI_Win_create_keyval, PMPI_Win_create_keyval",
    ".weak MPI_Win_delete_attr",
    ".type MPI_Win_delete_attr, @function",
    ".set MPI_Win_delete_attr, PMPI_Win_delete_attr",
    ".weak MPI_Win_detach",
    ".type MPI_Win_detach, @function",
    ".set MPI_Win_detach, PMPI_Win_detach",
    ".weak MPI_Win_fence",
    ".type MPI_Win_fence, @function",
    ".set MPI_Win_fence, PMPI_Win_fence",
    ".weak MPI_Win_flush",
    ".type MPI_Win_flush, @function",
    ".set MPI_Win_flush, PMPI_Win_flush",
    ".weak MPI_Win_flush_all",
    ".type MPI_Win_flush_all, @function",
    ".set MPI_Win_flush_all, PMPI_Win_flush_all",
    ".weak MPI_Win_flush_local",
    ".type MPI_Win_flush_local, @function",
    ".set MPI_Win_flush_local, PMPI_Win_flush_local",
    ".weak MPI_Win_flush_local_all",
    ".type MPI_Win_flush_local_all, @function",
    ".set MPI_Win_flush_local_all, PMPI_Win_flush_local_all",
    ".weak MPI_Win_free",
    ".type MPI_Win_free, @function",
    ".set MPI_Win_free, PMPI_Win_free",
    ".weak MPI_Win_free_keyval",
    ".type MPI_Win_free_keyval, @function",
    ".set MPI_Win_free_keyval, PMPI_Win_free_keyval",
    ".weak MPI_Win_fromint",
    ".type MPI_Win_fromint, @function",
    ".set MPI_Win_fromint, PMPI_Win_fromint",
    ".weak MPI_Win_get_attr",
    ".type MPI_Win_get_attr, @function",
    ".set MPI_Win_get_attr, PMPI_Win_get_attr",
    ".weak MPI_Win_get_errhandler",
    ".type MPI_Win_get_errhandler, @function",
    ".set MPI_Win_get_errhandler, PMPI_Win_get_errhandler",
    ".weak MPI_Win_get_group",
    ".type MPI_Win_get_group, @function",
    ".set MPI_Win_get_group, PMPI_Win_get_group",
    ".weak MPI_Win_get_info",
    ".type MPI_Win_get_info, @function",
    ".set MPI_Win_get_info, PMPI_Win_get_info",
    ".weak MPI_Win_get_name",
    ".type MPI_Win_get_name, @function",
    ".set MPI_Win_get_name, PMPI_Win_get_name",
    ".weak MPI_Win_lock",
    ".type MPI_Win_lock, @function",
    ".set MPI_Win_lock, PMPI_Win_lock",
    ".weak MPI_Win_lock_all",
    ".type MPI_Win_lock_all, @function",
    ".set MPI_Win_lock_all, PMPI_Win_lock_all",
    ".weak MPI_Win_post",
    ".type MPI_Win_post, @function",
    ".set MPI_Win_post, PMPI_Win_post",
    ".weak MPI_Win_set_attr",
    ".type MPI_Win_set_attr, @function",
    ".set MPI_Win_set_attr, PMPI_Win_set_attr",
    ".weak MPI_Win_set_errhandler",
    ".type MPI_Win_set_errhandler, @function",
    ".set MPI_Win_set_errhandler, PMPI_Win_set_errhandler",
    ".weak MPI_Win_set_info",
    ".type MPI_Win_set_info, @function",
    ".set MPI_Win_set_info, PMPI_Win_set_info",
    ".weak MPI_Win_set_name",
    ".type MPI_Win_set_name, @function",
    ".set MPI_Win_set_name, PMPI_Win_set_name",
    ".weak MPI_Win_shared_query",
    ".type MPI_Win_shared_query, @function",
    ".set MPI_Win_shared_query, PMPI_Win_shared_query",
    ".weak MPI_Win_shared_query_c",
    ".type MPI_Win_shared_query_c, @function",
    ".set MPI_Win_shared_query_c, PMPI_Win_shared_query_c",
    ".weak MPI_Win_start",
    ".type MPI_Win_start, @function",
    ".set MPI_Win_start, PMPI_Win_start",
    ".weak MPI_Win_sync",
    ".type MPI_Win_sync, @function",
    ".set MPI_Win_sync, PMPI_Win_sync",
    ".weak MPI_Win_test",
    ".type MPI_Win_test, @function",
    ".set MPI_Win_test, PMPI_Win_test",
    ".weak MPI_Win_toint",
    ".type MPI_Win_toint, @function",
    ".set MPI_Win_toint, PMPI_Win_toint",
    ".weak MPI_Win_unlock",
    ".type MPI_Win_unlock, @function",
    ".set MPI_Win_unlock, PMPI_Win_unlock",
    ".weak MPI_Win_unlock_all",
    ".type MPI_Win_unlock_all, @function",
    ".set MPI_Win_unlock_all, PMPI_Win_unlock_all",
    ".weak MPI_Win_wait",
    ".type MPI_Win_wait, @function",
    ".set MPI_Win_wait, PMPI_Win_wait",
    ".weak MPI_Wtick",
    ".type MPI_Wtick, @function",
    ".set MPI_Wtick, PMPI_Wtick",
    ".weak MPI_Wtime",
    ".type MPI_Wtime, @function",
    ".set MPI_Wtime, PMPI_Wtime",
    ".weak MPIX_Comm_ack_failed",
    ".type MPIX_Comm_ack_failed, @function",
    ".set MPIX_Comm_ack_failed, PMPIX_Comm_ack_failed",
    ".weak MPIX_Comm_agree",
    ".type MPIX_Comm_agree, @function",
    ".set MPIX_Comm_agree, PMPIX_Comm_agree",
    ".weak MPIX_Comm_failure_ack",
    ".type MPIX_Comm_failure_ack, @function",
    ".set MPIX_Comm_failure_ack, PMPIX_Comm_failure_ack",
    ".weak MPIX_Comm_failure_get_acked",
    ".type MPIX_Comm_failure_get_acked, @function",
    ".set MPIX_Comm_failure_get_acked, PMPIX_Comm_failure_get_acked",
    ".weak MPIX_Comm_get_failed",
    ".type MPIX_Comm_get_failed, @function",
    ".set MPIX_Comm_get_failed, PMPIX_Comm_get_failed",
    ".weak MPIX_Comm_iagree",
    ".type MPIX_Comm_iagree, @function",
    ".set MPIX_Comm_iagree, PMPIX_Comm_iagree",
    ".weak MPIX_Comm_is_revoked",
    ".type MPIX_Comm_is_revoked, @function",
    ".set MPIX_Comm_is_revoked, PMPIX_Comm_is_revoked",
    ".weak MPIX_Comm_ishrink",
    ".type MPIX_Comm_ishrink, @function",
    ".set MPIX_Comm_ishrink, PMPIX_Comm_ishrink",
    ".weak MPIX_Comm_revoke",
    ".type MPIX_Comm_revoke, @function",
    ".set MPIX_Comm_revoke, PMPIX_Comm_revoke",
    ".weak MPIX_Comm_shrink",
    ".type MPIX_Comm_shrink, @function",
    ".set MPIX_Comm_shrink, PMPIX_Comm_shrink",
);
