//! Blocking collectives that need no schedule: what the program passed becomes ranges, if they are
//! such. What they do is in `coll/direct/`.
//!
//! Each says whether it has done it. Where it has not, nothing has begun; and all ranks come to the same answer, which depends on what MPI wants to be the same everywhere.

use super::values::{are_distinct, bytes, is_in_place, rank_of, sink, source};
use crate::collective::direct::{self, Kind};
use crate::constants::MPI_ERR_ROOT;
use crate::datatype::named;
use crate::errors::{MpiError, Outcome};
use crate::job::state::Guard;
use crate::operation::Operation;
use ferriband_mpi_data::Predefined;
use std::ffi::{c_int, c_void};

/// # Safety
/// As the standard says of the buffer, here and below.
#[inline]
pub(super) unsafe fn bcast(
    guard: &mut Guard,
    comm: u32,
    buffer: *mut c_void,
    count: i64,
    datatype: i32,
    root: c_int,
) -> Outcome<bool> {
    if !guard.is_direct(comm, Kind::Bcast, 0) {
        return Ok(false);
    }
    let root = rank_of(guard, comm, root, MPI_ERR_ROOT)?;
    // SAFETY: the program's buffer.
    let place = unsafe { sink(guard, buffer, count, datatype) }?;
    if !guard.is_direct(comm, Kind::Bcast, place.len()) {
        return Ok(false);
    }
    direct::bcast(guard, comm, root, place)?;
    Ok(true)
}

/// # Safety
/// As for [`bcast`].
#[inline]
pub(super) unsafe fn allreduce(
    guard: &mut Guard,
    comm: u32,
    (sendbuf, recvbuf): (*const c_void, *mut c_void),
    count: i64,
    datatype: i32,
    op: i32,
) -> Outcome<bool> {
    if !guard.is_direct(comm, Kind::Allreduce, 0) {
        return Ok(false);
    }
    // Elements as they lie, without gaps, and operations that need nothing of the program's.
    let (Some(kind), Operation::Own(op)) = (
        named(datatype),
        guard.point.objects.operations.operation(op)?,
    ) else {
        return Ok(false);
    };
    let unit = kind.extent();
    let is_plain = kind.kind().size() == unit;
    if !is_plain || op.is_for_windows_only() || unit <= 0 {
        return Ok(false);
    }
    let length = bytes(guard, count, datatype)?;
    if !guard.is_direct(comm, Kind::Allreduce, length) {
        return Ok(false);
    }
    op.check(kind)?;
    // SAFETY: the program's buffer.
    let recv = unsafe { sink(guard, recvbuf, count, datatype) }?;
    let send = if is_in_place(sendbuf) {
        recv.source()
    } else {
        // SAFETY: as above.
        let send = unsafe { source(guard, sendbuf, count, datatype) }?;
        are_distinct(&send, &recv)?;
        send
    };
    let unit = unit as usize;
    direct::allreduce(guard, comm, unit, (send, recv), |[left, right], result| {
        let operands = left.pointer().zip(right.pointer());
        let all = operands.zip(result.pointer());
        let (from, to) = all.ok_or_else(|| MpiError::new(crate::constants::MPI_ERR_INTERN))?;
        let count = result.len() / unit;
        // SAFETY: all ranges have that many elements, which have no gaps; the operands lie in slots, where the program sends from, or where the result goes.
        Ok(unsafe { ferriband_mpi_data::reduce_into(op, kind.kind(), from, to, count) }?)
    })?;
    Ok(true)
}

/// # Safety
/// As for [`bcast`].
#[inline]
pub(super) unsafe fn alltoall(
    guard: &mut Guard,
    comm: u32,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, i32),
    (recvbuf, recvcount, recvtype): (*mut c_void, i64, i32),
) -> Outcome<bool> {
    if !guard.is_direct(comm, Kind::Alltoall, 0) {
        return Ok(false);
    }
    let each = bytes(guard, recvcount, recvtype)?;
    if !guard.is_direct(comm, Kind::Alltoall, each) {
        return Ok(false);
    }
    let size = i64::from(guard.point.objects.comms[comm].group.size());
    // SAFETY: the program's buffer.
    let recv = unsafe { sink(guard, recvbuf, recvcount.saturating_mul(size), recvtype) }?;
    let in_place = is_in_place(sendbuf);
    let send = if in_place {
        recv.source()
    } else {
        // SAFETY: as above.
        let send = unsafe { source(guard, sendbuf, sendcount.saturating_mul(size), sendtype) }?;
        are_distinct(&send, &recv)?;
        send
    };
    if send.len() != recv.len() {
        // The program is wrong, and is told so by who looks at each block.
        return Ok(false);
    }
    direct::alltoall(guard, comm, each, (send, recv), in_place)?;
    Ok(true)
}
