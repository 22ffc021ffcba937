//! Collectives that combine elements: what the program passed becomes a schedule and the places of
//! its blocks. The entries are in `collective_calls.rs`.
//!
//! Owns: which elements are read and written. Must not know: how an operation is done.

use super::blocks::{Elements, shape};
use super::inter;
use super::values::rank_of;
use crate::coll::exec::Prepared;
use crate::coll::state::Guard;
use crate::constants::*;
use crate::errors::{MpiError, Outcome};
use crate::ground::array::Array;
use ferriband_mpi_coll::{Blocks, Collective};
use std::ffi::c_int;

/// # Safety
/// As for [`super::collective::bcast`].
pub(super) unsafe fn reduce(
    guard: &mut Guard,
    comm: u32,
    elements: Elements,
    count: i64,
    root: c_int,
) -> Outcome<Prepared> {
    if inter::has_sides(guard, comm) {
        // SAFETY: the caller's promise.
        return unsafe { inter::reduce(guard, comm, elements, count, root) };
    }
    let root = rank_of(guard, comm, root, MPI_ERR_ROOT)?;
    let (rank, _) = shape(guard, comm);
    let units = count.max(0).cast_unsigned();
    let received = (rank == root).then_some(count);
    // SAFETY: the caller's promise.
    unsafe {
        elements.prepare(guard, comm, (count, received), |commutative, in_place| {
            Collective::Reduce {
                count: units,
                root,
                commutative,
                in_place,
            }
        })
    }
}

/// # Safety
/// As for [`super::collective::bcast`].
pub(super) unsafe fn allreduce(
    guard: &mut Guard,
    comm: u32,
    elements: Elements,
    count: i64,
) -> Outcome<Prepared> {
    if inter::has_sides(guard, comm) {
        // SAFETY: the caller's promise.
        return unsafe { inter::allreduce(guard, comm, elements, count) };
    }
    let units = count.max(0).cast_unsigned();
    // SAFETY: the caller's promise.
    unsafe {
        elements.prepare(
            guard,
            comm,
            (count, Some(count)),
            |commutative, in_place| Collective::Allreduce {
                count: units,
                commutative,
                in_place,
            },
        )
    }
}

/// MPI_Scan and MPI_Exscan.
///
/// # Safety
/// As for [`super::collective::bcast`].
pub(super) unsafe fn scan(
    guard: &mut Guard,
    comm: u32,
    elements: Elements,
    count: i64,
    exclusive: bool,
) -> Outcome<Prepared> {
    if inter::has_sides(guard, comm) {
        return Err(MpiError::with(MPI_ERR_COMM, "it is an inter-communicator"));
    }
    let units = count.max(0).cast_unsigned();
    // SAFETY: the caller's promise.
    unsafe {
        elements.prepare(
            guard,
            comm,
            (count, Some(count)),
            |commutative, in_place| Collective::Scan {
                count: units,
                exclusive,
                commutative,
                in_place,
            },
        )
    }
}

/// # Safety
/// As for [`super::collective::bcast`]; the array has an element for each rank.
pub(super) unsafe fn reduce_scatter(
    guard: &mut Guard,
    comm: u32,
    elements: Elements,
    counts: Array,
) -> Outcome<Prepared> {
    let (rank, size) = shape(guard, comm);
    counts.check(size)?;
    if inter::has_sides(guard, comm) {
        // SAFETY: the caller's promise.
        return unsafe { inter::reduce_scatter(guard, comm, elements, inter::each(counts)) };
    }
    let wrong = |count: i64| MpiError::with(MPI_ERR_COUNT, format!("{count} elements"));
    let (mut lengths, mut total) = (Vec::with_capacity(size), 0_i64);
    for at in 0..size {
        // SAFETY: the caller's promise.
        let count = unsafe { counts.count(at) };
        lengths.push(u64::try_from(count).map_err(|_| wrong(count))?);
        total = total.checked_add(count).ok_or_else(|| wrong(count))?;
    }
    let own = lengths[rank as usize].cast_signed();
    // SAFETY: the caller's promise.
    unsafe {
        elements.prepare(guard, comm, (total, Some(own)), |commutative, in_place| {
            Collective::ReduceScatter {
                blocks: Blocks::Each(&lengths),
                commutative,
                in_place,
            }
        })
    }
}

/// # Safety
/// As for [`super::collective::bcast`].
pub(super) unsafe fn reduce_scatter_block(
    guard: &mut Guard,
    comm: u32,
    elements: Elements,
    count: i64,
) -> Outcome<Prepared> {
    if inter::has_sides(guard, comm) {
        // SAFETY: the caller's promise.
        return unsafe { inter::reduce_scatter(guard, comm, elements, |_| count) };
    }
    let (_, size) = shape(guard, comm);
    let wrong = || MpiError::with(MPI_ERR_COUNT, format!("{count} elements"));
    let units = u64::try_from(count).map_err(|_| wrong())?;
    let total = count.checked_mul(size as i64).ok_or_else(wrong)?;
    // SAFETY: the caller's promise.
    unsafe {
        elements.prepare(
            guard,
            comm,
            (total, Some(count)),
            |commutative, in_place| Collective::ReduceScatter {
                blocks: Blocks::Equal(units),
                commutative,
                in_place,
            },
        )
    }
}
