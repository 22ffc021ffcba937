//! Neighbourhood collectives: along the edges of a communicator's topology.

use super::blocks::{Types, Uneven, even, sources};
use super::collective_calls::{begin, entries, make, schedule};
use super::raise::on_comm;
use super::values::source;
use crate::coll::exec::{Buffers, Prepared};
use crate::coll::state::Guard;
use crate::constants::*;
use crate::errors::{MpiError, Outcome};
use crate::ground::array::Array;
use crate::ground::memory::{Sink, Source};
use crate::objects::topology::Around;
use ferriband_mpi_coll::{Blocks, NeighborCollective, Neighbors, Place, build_neighbor};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// Who is next to this process.
fn around(guard: &Guard, comm: u32) -> Outcome<Around> {
    let entry = &guard.point.objects.comms[comm];
    match &entry.topology {
        Some(topology) => Ok(topology.around(entry.rank)),
        None => Err(MpiError::with(MPI_ERR_TOPOLOGY, "it has no topology")),
    }
}

fn prepared(
    guard: &Guard,
    comm: u32,
    around: &Around,
    what: &NeighborCollective<'_>,
    (send, recv): (Vec<Source>, Vec<Sink>),
) -> Outcome<Prepared> {
    let entry = &guard.point.objects.comms[comm];
    let neighbors = Neighbors {
        sources: &around.sources,
        destinations: &around.destinations,
        cartesian: around.cartesian,
    };
    let built = build_neighbor(what, &neighbors, Place::new(entry.rank, entry.group.size()));
    let schedule = built.map_err(|error| MpiError::with(MPI_ERR_INTERN, error.to_string()))?;
    Ok(Prepared {
        schedule: Arc::new(schedule),
        shape: None,
        buffers: Buffers::new(1, send, recv),
        combine: None,
        after: None,
    })
}

/// # Safety
/// As the standard says of the buffers, here and below.
pub(super) unsafe fn allgather(
    guard: &mut Guard,
    comm: u32,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, i32),
    (recvbuf, recvcount, recvtype): (*mut c_void, i64, i32),
) -> Outcome<Prepared> {
    let around = around(guard, comm)?;
    let count = around.sources.len();
    // SAFETY: the program's buffers.
    let (send, (each, recv)) = unsafe {
        (
            source(guard, sendbuf, sendcount, sendtype)?,
            even(guard, recvbuf, recvcount, recvtype, count)?,
        )
    };
    let what = NeighborCollective::Allgather {
        count: send.len() as u64,
        recv: Blocks::Equal(each),
    };
    prepared(guard, comm, &around, &what, (vec![send], recv))
}

pub(super) unsafe fn allgatherv(
    guard: &mut Guard,
    comm: u32,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, i32),
    recv: Uneven,
) -> Outcome<Prepared> {
    let around = around(guard, comm)?;
    // SAFETY: the program's buffers and arrays.
    let (send, (lengths, recv)) = unsafe {
        (
            source(guard, sendbuf, sendcount, sendtype)?,
            recv.blocks(guard, around.sources.len())?,
        )
    };
    let what = NeighborCollective::Allgather {
        count: send.len() as u64,
        recv: Blocks::Each(&lengths),
    };
    prepared(guard, comm, &around, &what, (vec![send], recv))
}

pub(super) unsafe fn alltoall(
    guard: &mut Guard,
    comm: u32,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, i32),
    (recvbuf, recvcount, recvtype): (*mut c_void, i64, i32),
) -> Outcome<Prepared> {
    let around = around(guard, comm)?;
    let (out, inward) = (around.destinations.len(), around.sources.len());
    // SAFETY: the program's buffers; the first is only read.
    let ((goes, send), (comes, recv)) = unsafe {
        (
            even(guard, sendbuf.cast_mut(), sendcount, sendtype, out)?,
            even(guard, recvbuf, recvcount, recvtype, inward)?,
        )
    };
    let what = NeighborCollective::Alltoall {
        send: Blocks::Equal(goes),
        recv: Blocks::Equal(comes),
    };
    prepared(guard, comm, &around, &what, (sources(&send), recv))
}

pub(super) unsafe fn alltoallv(
    guard: &mut Guard,
    comm: u32,
    send: Uneven,
    recv: Uneven,
) -> Outcome<Prepared> {
    let around = around(guard, comm)?;
    // SAFETY: the program's buffers and arrays; the first is only read.
    let ((goes, send), (comes, recv)) = unsafe {
        (
            send.blocks(guard, around.destinations.len())?,
            recv.blocks(guard, around.sources.len())?,
        )
    };
    let what = NeighborCollective::Alltoall {
        send: Blocks::Each(&goes),
        recv: Blocks::Each(&comes),
    };
    prepared(guard, comm, &around, &what, (sources(&send), recv))
}

fn uneven(buffer: *const c_void, counts: Array, displacements: Array, types: Types) -> Uneven {
    Uneven {
        buffer: buffer.cast_mut(),
        counts,
        displacements,
        types,
    }
}

/// Displacements in bytes, which are 8 bytes wide in both forms.
fn bytes(displacements: *const i64) -> Array {
    Array {
        base: displacements.cast_mut().cast(),
        width: 8,
    }
}

/// MPI_IN_PLACE means nothing here.
#[inline]
fn refuse(buffer: *const c_void) -> Outcome {
    if super::values::is_in_place(buffer) {
        return Err(MpiError::with(MPI_ERR_BUFFER, "MPI_IN_PLACE"));
    }
    Ok(())
}

entries! {
    "MPI_Neighbor_allgather" ferriband_mpi_neighbor_allgather, "MPI_Ineighbor_allgather" ferriband_mpi_ineighbor_allgather, "MPI_Neighbor_allgather_init" ferriband_mpi_neighbor_allgather_init:
        (sendbuf: *const c_void, sendcount: i64, sendtype: i32, recvbuf: *mut c_void, recvcount: i64, recvtype: i32)
        => |guard, comm| refuse(sendbuf).and_then(|()| allgather(guard, comm, (sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype)));
    "MPI_Neighbor_allgatherv" ferriband_mpi_neighbor_allgatherv, "MPI_Ineighbor_allgatherv" ferriband_mpi_ineighbor_allgatherv, "MPI_Neighbor_allgatherv_init" ferriband_mpi_neighbor_allgatherv_init:
        (sendbuf: *const c_void, sendcount: i64, sendtype: i32, recvbuf: *mut c_void, recvcounts: Array, displs: Array, recvtype: i32)
        => |guard, comm| refuse(sendbuf).and_then(|()| allgatherv(guard, comm, (sendbuf, sendcount, sendtype), uneven(recvbuf, recvcounts, displs, Types::One(recvtype))));
    "MPI_Neighbor_alltoall" ferriband_mpi_neighbor_alltoall, "MPI_Ineighbor_alltoall" ferriband_mpi_ineighbor_alltoall, "MPI_Neighbor_alltoall_init" ferriband_mpi_neighbor_alltoall_init:
        (sendbuf: *const c_void, sendcount: i64, sendtype: i32, recvbuf: *mut c_void, recvcount: i64, recvtype: i32)
        => |guard, comm| refuse(sendbuf).and_then(|()| alltoall(guard, comm, (sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype)));
    "MPI_Neighbor_alltoallv" ferriband_mpi_neighbor_alltoallv, "MPI_Ineighbor_alltoallv" ferriband_mpi_ineighbor_alltoallv, "MPI_Neighbor_alltoallv_init" ferriband_mpi_neighbor_alltoallv_init:
        (sendbuf: *const c_void, sendcounts: Array, sdispls: Array, sendtype: i32, recvbuf: *mut c_void, recvcounts: Array, rdispls: Array, recvtype: i32)
        => |guard, comm| refuse(sendbuf).and_then(|()| alltoallv(guard, comm, uneven(sendbuf, sendcounts, sdispls, Types::One(sendtype)), uneven(recvbuf, recvcounts, rdispls, Types::One(recvtype))));
    "MPI_Neighbor_alltoallw" ferriband_mpi_neighbor_alltoallw, "MPI_Ineighbor_alltoallw" ferriband_mpi_ineighbor_alltoallw, "MPI_Neighbor_alltoallw_init" ferriband_mpi_neighbor_alltoallw_init:
        (sendbuf: *const c_void, sendcounts: Array, sdispls: *const i64, sendtypes: Array, recvbuf: *mut c_void, recvcounts: Array, rdispls: *const i64, recvtypes: Array)
        => |guard, comm| refuse(sendbuf).and_then(|()| alltoallv(guard, comm, uneven(sendbuf, sendcounts, bytes(sdispls), Types::Each(sendtypes)), uneven(recvbuf, recvcounts, bytes(rdispls), Types::Each(recvtypes))));
}
