//! Blocking collectives that need no schedule: what the program passed becomes ranges, if they are
//! such. What they do is in `coll/direct/`.
//!
//! Each says whether it has done it. Where it has not, nothing has begun; and all ranks come to the same answer, which depends on what MPI wants to be the same everywhere.

use super::values::{are_distinct, bytes, is_in_place, rank_of, sink, source};
use crate::coll::direct::{self, Kind};
use crate::coll::state::Guard;
use crate::constants::MPI_ERR_ROOT;
use crate::errors::{MpiError, Outcome};
use crate::ground::memory::{Sink, Source};
use crate::objects::datatype::named;
use crate::objects::operation::Operation;
use ferriband_mpi_data::{Named, Op, Predefined};
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

/// Elements as they lie, without gaps, and an operation that needs nothing of the program's.
struct Plain {
    op: Op,
    kind: Named,
    unit: usize,
}

impl Plain {
    /// None if the elements of the call are not such, or are too many for `how` to be done here.
    #[inline(always)]
    fn of(
        guard: &mut Guard,
        (comm, how): (u32, Kind),
        (count, datatype): (i64, i32),
        op: i32,
    ) -> Outcome<Option<Self>> {
        if !guard.is_direct(comm, how, 0) {
            return Ok(None);
        }
        let (Some(kind), Operation::Own(op)) = (
            named(datatype),
            guard.point.objects.operations.operation(op)?,
        ) else {
            return Ok(None);
        };
        let unit = kind.extent();
        let is_plain = kind.kind().size() == unit;
        if !is_plain || op.is_for_windows_only() || unit <= 0 {
            return Ok(None);
        }
        let length = bytes(guard, count, datatype)?;
        if !guard.is_direct(comm, how, length) {
            return Ok(None);
        }
        op.check(kind)?;
        Ok(Some(Self {
            op,
            kind,
            unit: unit as usize,
        }))
    }

    /// Combines what is left with what is right, at `result`.
    #[inline(always)]
    fn combine(&self, [left, right]: [Source; 2], result: Sink) -> Outcome {
        let operands = left.pointer().zip(right.pointer());
        let all = operands.zip(result.pointer());
        let (from, to) = all.ok_or_else(|| MpiError::new(crate::constants::MPI_ERR_INTERN))?;
        let count = result.len() / self.unit;
        // SAFETY: all ranges have that many elements, which have no gaps; the operands lie in
        // slots, where the program sends from, or where the result goes.
        Ok(unsafe { ferriband_mpi_data::reduce_into(self.op, self.kind.kind(), from, to, count) }?)
    }
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
    let Some(plain) = Plain::of(guard, (comm, Kind::Allreduce), (count, datatype), op)? else {
        return Ok(false);
    };
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
    direct::allreduce(guard, comm, plain.unit, (send, recv), |operands, result| {
        plain.combine(operands, result)
    })?;
    Ok(true)
}

/// # Safety
/// As for [`bcast`].
#[inline]
pub(super) unsafe fn reduce(
    guard: &mut Guard,
    comm: u32,
    (sendbuf, recvbuf): (*const c_void, *mut c_void),
    (count, datatype): (i64, i32),
    op: i32,
    root: c_int,
) -> Outcome<bool> {
    let Some(plain) = Plain::of(guard, (comm, Kind::Reduce), (count, datatype), op)? else {
        return Ok(false);
    };
    let root = rank_of(guard, comm, root, MPI_ERR_ROOT)?;
    let is_root = guard.point.objects.comms[comm].rank == root;
    // SAFETY: the program's buffer, which means something at the root only.
    let recv = is_root.then(|| unsafe { sink(guard, recvbuf, count, datatype) });
    let recv = recv.transpose()?;
    let send = match &recv {
        Some(recv) if is_in_place(sendbuf) => recv.source(),
        // SAFETY: as above.
        _ => unsafe { source(guard, sendbuf, count, datatype) }?,
    };
    if let Some(recv) = &recv
        && !is_in_place(sendbuf)
    {
        are_distinct(&send, recv)?;
    }
    direct::reduce(guard, comm, plain.unit, (send, recv), |operands, result| {
        plain.combine(operands, result)
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
