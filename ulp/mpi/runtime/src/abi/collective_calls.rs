//! Collectives, blocking and not: their entries. What they mean is in `collective.rs`.

use super::blocks::{Elements, Types, Uneven};
use super::collective as prepare;
use super::collective_short as short;
use super::raise::on_comm;
use super::reduce;
use super::values::{check_not_revoked, put};
use crate::coll;
use crate::coll::exec::Prepared;
use crate::coll::state::Guard;
use crate::constants::MPI_ERR_ARG;
use crate::errors::{MpiError, Outcome};
use crate::ground::array::Array;
use std::ffi::{c_int, c_void};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_barrier(comm: i32) -> c_int {
    on_comm("MPI_Barrier", comm, |guard, comm| {
        if super::inter::has_sides(guard, comm) {
            guard.check_whole(comm)?;
            let prepared = prepare::barrier(guard, comm)?;
            return coll::run(guard, comm, prepared);
        }
        match coll::barrier_as_chosen(guard, comm)? {
            true => Ok(()),
            false => schedule(guard, comm, prepare::barrier),
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_ibarrier(comm: i32, request: *mut i32) -> c_int {
    begin("MPI_Ibarrier", comm, request, prepare::barrier)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_barrier_init(
    comm: i32,
    _info: i32,
    request: *mut i32,
) -> c_int {
    make("MPI_Barrier_init", comm, request, prepare::barrier)
}

/// Does a collective to its end.
#[inline(never)]
pub(super) fn schedule(
    guard: &mut Guard,
    comm: u32,
    prepare: impl FnOnce(&mut Guard, u32) -> Outcome<Prepared>,
) -> Outcome {
    guard.blocks = true;
    guard.check_whole(comm)?;
    let prepared = prepare(guard, comm)?;
    coll::run(guard, comm, prepared)
}

/// Begins one.
pub(super) fn begin(
    function: &str,
    comm: i32,
    request: *mut i32,
    prepare: impl FnOnce(&mut Guard, u32) -> Outcome<Prepared>,
) -> c_int {
    on_comm(function, comm, |guard, comm| {
        if request.is_null() {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        guard.check_whole(comm)?;
        let prepared = prepare(guard, comm)?;
        let index = guard.start_collective(comm, prepared, true)?;
        // SAFETY: the program's pointer.
        unsafe { put(request, guard.point.requests.slab.handle(index)) }
    })
}

/// Makes a persistent one.
pub(super) fn make(
    function: &str,
    comm: i32,
    request: *mut i32,
    prepare: impl FnOnce(&mut Guard, u32) -> Outcome<Prepared>,
) -> c_int {
    on_comm(function, comm, |guard, comm| {
        if request.is_null() {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        check_not_revoked(guard, comm)?;
        let prepared = prepare(guard, comm)?;
        let index = guard.add_bound(comm, prepared)?;
        // SAFETY: the program's pointer.
        unsafe { put(request, guard.point.requests.slab.handle(index)) }
    })
}

/// The three entries of an operation: blocking, not, and persistent: names, symbols, the arguments, and what they come to; and what the blocking one tries first.
macro_rules! entries {
    ($($blocking:literal $name:ident, $beginning:literal $other:ident, $making:literal $init:ident:
        ($($arg:ident: $kind:ty),*) => |$guard:ident, $comm:ident| $prepare:expr $(, first $first:expr)?;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $kind,)* comm: i32) -> c_int {
            on_comm($blocking, comm, |$guard, $comm| {
                // SAFETY: the program's pointers.
                $(if unsafe { $first }? {
                    return Ok(());
                })?
                // SAFETY: as above.
                schedule($guard, $comm, |$guard, $comm| unsafe { $prepare })
            })
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $other($($arg: $kind,)* comm: i32, request: *mut i32) -> c_int {
            // SAFETY: the program's pointers.
            begin($beginning, comm, request, |$guard, $comm| unsafe { $prepare })
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $init($($arg: $kind,)* comm: i32, _info: i32, request: *mut i32) -> c_int {
            // SAFETY: the program's pointers.
            make($making, comm, request, |$guard, $comm| unsafe { $prepare })
        }
    )*};
}

pub(super) use entries;

/// A buffer whose blocks have one datatype.
fn uneven(buffer: *const c_void, counts: Array, displacements: Array, kind: i32) -> Uneven {
    Uneven {
        buffer: buffer.cast_mut(),
        counts,
        displacements,
        types: Types::One(kind),
    }
}

/// A buffer whose blocks have each their own.
fn mixed(buffer: *const c_void, counts: Array, displacements: Array, kinds: Array) -> Uneven {
    Uneven {
        buffer: buffer.cast_mut(),
        counts,
        displacements,
        types: Types::Each(kinds),
    }
}

fn elements(sendbuf: *const c_void, recvbuf: *mut c_void, datatype: i32, op: i32) -> Elements {
    Elements {
        sendbuf,
        recvbuf,
        datatype,
        op,
    }
}

entries! {
    "MPI_Bcast" ferriband_mpi_bcast, "MPI_Ibcast" ferriband_mpi_ibcast,
        "MPI_Bcast_init" ferriband_mpi_bcast_init:
        (buffer: *mut c_void, count: i64, datatype: i32, root: c_int)
        => |guard, comm| prepare::bcast(guard, comm, buffer, count, datatype, root),
        first short::bcast(guard, comm, buffer, count, datatype, root);
    "MPI_Gather" ferriband_mpi_gather, "MPI_Igather" ferriband_mpi_igather,
        "MPI_Gather_init" ferriband_mpi_gather_init:
        (sendbuf: *const c_void, sendcount: i64, sendtype: i32, recvbuf: *mut c_void, recvcount: i64, recvtype: i32, root: c_int)
        => |guard, comm| prepare::gather(guard, comm, (sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype), root);
    "MPI_Gatherv" ferriband_mpi_gatherv, "MPI_Igatherv" ferriband_mpi_igatherv,
        "MPI_Gatherv_init" ferriband_mpi_gatherv_init:
        (sendbuf: *const c_void, sendcount: i64, sendtype: i32, recvbuf: *mut c_void, recvcounts: Array, displs: Array, recvtype: i32, root: c_int)
        => |guard, comm| prepare::gatherv(guard, comm, (sendbuf, sendcount, sendtype), uneven(recvbuf, recvcounts, displs, recvtype), root);
    "MPI_Scatter" ferriband_mpi_scatter, "MPI_Iscatter" ferriband_mpi_iscatter,
        "MPI_Scatter_init" ferriband_mpi_scatter_init:
        (sendbuf: *const c_void, sendcount: i64, sendtype: i32, recvbuf: *mut c_void, recvcount: i64, recvtype: i32, root: c_int)
        => |guard, comm| prepare::scatter(guard, comm, (sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype), root);
    "MPI_Scatterv" ferriband_mpi_scatterv, "MPI_Iscatterv" ferriband_mpi_iscatterv,
        "MPI_Scatterv_init" ferriband_mpi_scatterv_init:
        (sendbuf: *const c_void, sendcounts: Array, displs: Array, sendtype: i32, recvbuf: *mut c_void, recvcount: i64, recvtype: i32, root: c_int)
        => |guard, comm| prepare::scatterv(guard, comm, uneven(sendbuf, sendcounts, displs, sendtype), (recvbuf, recvcount, recvtype), root);
    "MPI_Allgather" ferriband_mpi_allgather, "MPI_Iallgather" ferriband_mpi_iallgather,
        "MPI_Allgather_init" ferriband_mpi_allgather_init:
        (sendbuf: *const c_void, sendcount: i64, sendtype: i32, recvbuf: *mut c_void, recvcount: i64, recvtype: i32)
        => |guard, comm| prepare::allgather(guard, comm, (sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype));
    "MPI_Allgatherv" ferriband_mpi_allgatherv, "MPI_Iallgatherv" ferriband_mpi_iallgatherv,
        "MPI_Allgatherv_init" ferriband_mpi_allgatherv_init:
        (sendbuf: *const c_void, sendcount: i64, sendtype: i32, recvbuf: *mut c_void, recvcounts: Array, displs: Array, recvtype: i32)
        => |guard, comm| prepare::allgatherv(guard, comm, (sendbuf, sendcount, sendtype), uneven(recvbuf, recvcounts, displs, recvtype));
    "MPI_Alltoall" ferriband_mpi_alltoall, "MPI_Ialltoall" ferriband_mpi_ialltoall,
        "MPI_Alltoall_init" ferriband_mpi_alltoall_init:
        (sendbuf: *const c_void, sendcount: i64, sendtype: i32, recvbuf: *mut c_void, recvcount: i64, recvtype: i32)
        => |guard, comm| prepare::alltoall(guard, comm, (sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype)),
        first short::alltoall(guard, comm, (sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype));
    "MPI_Alltoallv" ferriband_mpi_alltoallv, "MPI_Ialltoallv" ferriband_mpi_ialltoallv,
        "MPI_Alltoallv_init" ferriband_mpi_alltoallv_init:
        (sendbuf: *const c_void, sendcounts: Array, sdispls: Array, sendtype: i32, recvbuf: *mut c_void, recvcounts: Array, rdispls: Array, recvtype: i32)
        => |guard, comm| prepare::alltoallv(guard, comm, uneven(sendbuf, sendcounts, sdispls, sendtype), uneven(recvbuf, recvcounts, rdispls, recvtype));
    "MPI_Alltoallw" ferriband_mpi_alltoallw, "MPI_Ialltoallw" ferriband_mpi_ialltoallw,
        "MPI_Alltoallw_init" ferriband_mpi_alltoallw_init:
        (sendbuf: *const c_void, sendcounts: Array, sdispls: Array, sendtypes: Array, recvbuf: *mut c_void, recvcounts: Array, rdispls: Array, recvtypes: Array)
        => |guard, comm| prepare::alltoallv(guard, comm, mixed(sendbuf, sendcounts, sdispls, sendtypes), mixed(recvbuf, recvcounts, rdispls, recvtypes));
    "MPI_Reduce" ferriband_mpi_reduce, "MPI_Ireduce" ferriband_mpi_ireduce,
        "MPI_Reduce_init" ferriband_mpi_reduce_init:
        (sendbuf: *const c_void, recvbuf: *mut c_void, count: i64, datatype: i32, op: i32, root: c_int)
        => |guard, comm| reduce::reduce(guard, comm, elements(sendbuf, recvbuf, datatype, op), count, root),
        first short::reduce(guard, comm, (sendbuf, recvbuf), (count, datatype), op, root);
    "MPI_Allreduce" ferriband_mpi_allreduce, "MPI_Iallreduce" ferriband_mpi_iallreduce,
        "MPI_Allreduce_init" ferriband_mpi_allreduce_init:
        (sendbuf: *const c_void, recvbuf: *mut c_void, count: i64, datatype: i32, op: i32)
        => |guard, comm| reduce::allreduce(guard, comm, elements(sendbuf, recvbuf, datatype, op), count),
        first short::allreduce(guard, comm, (sendbuf, recvbuf), count, datatype, op);
    "MPI_Scan" ferriband_mpi_scan, "MPI_Iscan" ferriband_mpi_iscan,
        "MPI_Scan_init" ferriband_mpi_scan_init:
        (sendbuf: *const c_void, recvbuf: *mut c_void, count: i64, datatype: i32, op: i32)
        => |guard, comm| reduce::scan(guard, comm, elements(sendbuf, recvbuf, datatype, op), count, false);
    "MPI_Exscan" ferriband_mpi_exscan, "MPI_Iexscan" ferriband_mpi_iexscan,
        "MPI_Exscan_init" ferriband_mpi_exscan_init:
        (sendbuf: *const c_void, recvbuf: *mut c_void, count: i64, datatype: i32, op: i32)
        => |guard, comm| reduce::scan(guard, comm, elements(sendbuf, recvbuf, datatype, op), count, true);
    "MPI_Reduce_scatter" ferriband_mpi_reduce_scatter, "MPI_Ireduce_scatter" ferriband_mpi_ireduce_scatter,
        "MPI_Reduce_scatter_init" ferriband_mpi_reduce_scatter_init:
        (sendbuf: *const c_void, recvbuf: *mut c_void, recvcounts: Array, datatype: i32, op: i32)
        => |guard, comm| reduce::reduce_scatter(guard, comm, elements(sendbuf, recvbuf, datatype, op), recvcounts);
    "MPI_Reduce_scatter_block" ferriband_mpi_reduce_scatter_block, "MPI_Ireduce_scatter_block" ferriband_mpi_ireduce_scatter_block,
        "MPI_Reduce_scatter_block_init" ferriband_mpi_reduce_scatter_block_init:
        (sendbuf: *const c_void, recvbuf: *mut c_void, recvcount: i64, datatype: i32, op: i32)
        => |guard, comm| reduce::reduce_scatter_block(guard, comm, elements(sendbuf, recvbuf, datatype, op), recvcount);
}
