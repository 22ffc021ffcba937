//! Cartesian topologies, and what all topologies have in common.

use super::raise::{on_comm, on_self};
use super::values::{longs, put, rank_of};
use crate::coll::create;
use crate::coll::state::Guard;
use crate::constants::*;
use crate::errors::{MpiError, Outcome};
use crate::objects::topology::{Cart, Topology, balance};
use std::ffi::c_int;
use std::sync::Arc;

/// `count` numbers of the program.
///
/// # Safety
/// `list` has that many, or is null.
pub(super) unsafe fn numbers(list: *const c_int, count: c_int, class: i32) -> Outcome<Vec<c_int>> {
    let count =
        usize::try_from(count).map_err(|_| MpiError::with(class, format!("{count} numbers")))?;
    // SAFETY: the caller's promise.
    unsafe { longs(list, count) }
}

/// Writes as many of `list` as there is room for.
///
/// # Safety
/// `to` may be written for `room` numbers, or is null.
pub(super) unsafe fn show(list: &[c_int], to: *mut c_int, room: c_int) -> Outcome {
    let room = usize::try_from(room)
        .map_err(|_| MpiError::with(MPI_ERR_ARG, format!("room for {room} numbers")))?;
    let shown = &list[..list.len().min(room)];
    if to.is_null() && !shown.is_empty() {
        return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
    }
    for (at, number) in shown.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { to.add(at).write(*number) };
    }
    Ok(())
}

#[cold]
pub(super) fn no_topology(kind: &str) -> MpiError {
    MpiError::with(MPI_ERR_TOPOLOGY, format!("it has no {kind}"))
}

pub(super) fn topology(guard: &Guard, comm: u32) -> Option<Arc<Topology>> {
    guard.point.objects.comms[comm].topology.clone()
}

fn cart(guard: &Guard, comm: u32) -> Outcome<Cart> {
    match topology(guard, comm).as_deref() {
        Some(Topology::Cart(cart)) => Ok(cart.clone()),
        _ => Err(no_topology("Cartesian topology")),
    }
}

/// Makes a communicator of the first ranks of another one.
pub(super) fn first(
    guard: &mut Guard,
    comm: u32,
    count: u32,
    topology: Topology,
) -> Outcome<Option<u32>> {
    let rank = guard.point.objects.comms[comm].rank;
    let color = if rank < count { 0 } else { MPI_UNDEFINED };
    let made = create::split(guard, comm, color, rank.cast_signed())?;
    if let Some(made) = made {
        guard.point.objects.comms[made].topology = Some(Arc::new(topology));
    }
    Ok(made)
}

/// Makes a communicator with a topology.
pub(super) unsafe fn make(
    function: &str,
    comm: i32,
    place: *mut i32,
    body: impl FnOnce(&mut Guard, u32) -> Outcome<Option<u32>>,
) -> c_int {
    on_comm(function, comm, |guard, index| {
        if place.is_null() {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        if guard.point.objects.comms[index].remote.is_some() {
            return Err(MpiError::with(MPI_ERR_COMM, "it is an inter-communicator"));
        }
        let made = body(guard, index);
        let handle = match made {
            Ok(Some(made)) => guard.point.objects.comms.handle(made),
            _ => MPI_COMM_NULL,
        };
        // SAFETY: the program's pointer. Where nothing was made it says so, too.
        unsafe { put(place, handle) }?;
        made.map(drop)
    })
}

/// The grid that a program describes.
unsafe fn described(
    guard: &Guard,
    comm: u32,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
) -> Outcome<Cart> {
    // SAFETY: the program's arrays.
    let (dims, periods) = unsafe {
        (
            numbers(dims, ndims, MPI_ERR_DIMS)?,
            numbers(periods, ndims, MPI_ERR_DIMS)?,
        )
    };
    let periods = periods.into_iter().map(|period| period != 0).collect();
    Cart::new(dims, periods, guard.point.objects.comms[comm].group.size())
}

/// Ranks keep their order: one host has no places that are nearer than others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_cart_create(
    comm: i32,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    _reorder: c_int,
    newcomm: *mut i32,
) -> c_int {
    let body = |guard: &mut Guard, index| {
        // SAFETY: the program's arrays.
        let cart = unsafe { described(guard, index, ndims, dims, periods) }?;
        first(guard, index, cart.size(), Topology::Cart(cart))
    };
    // SAFETY: the program's pointer, here and below.
    unsafe { make("MPI_Cart_create", comm, newcomm, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_cart_sub(
    comm: i32,
    keep: *const c_int,
    newcomm: *mut i32,
) -> c_int {
    let body = |guard: &mut Guard, index: u32| {
        let cart = cart(guard, index)?;
        // SAFETY: the program's array.
        let keep = unsafe { longs(keep, cart.dims.len()) }?;
        let keep: Vec<bool> = keep.into_iter().map(|keep| keep != 0).collect();
        let rank = guard.point.objects.comms[index].rank;
        let (slice, number) = cart.slice(rank, &keep);
        let made = create::split(guard, index, number, rank.cast_signed())?;
        if let Some(made) = made {
            guard.point.objects.comms[made].topology = Some(Arc::new(Topology::Cart(slice)));
        }
        Ok(made)
    };
    // SAFETY: as above.
    unsafe { make("MPI_Cart_sub", comm, newcomm, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_topo_test(comm: i32, status: *mut c_int) -> c_int {
    on_comm("MPI_Topo_test", comm, |guard, index| {
        let kind = match topology(guard, index).as_deref() {
            None => MPI_UNDEFINED,
            Some(Topology::Cart(_)) => MPI_CART,
            Some(Topology::Graph(_)) => MPI_GRAPH,
            Some(Topology::Distributed(_)) => MPI_DIST_GRAPH,
        };
        // SAFETY: the program's pointer.
        unsafe { put(status, kind) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_dims_create(
    nodes: c_int,
    ndims: c_int,
    dims: *mut c_int,
) -> c_int {
    on_self("MPI_Dims_create", |_| {
        // SAFETY: the program's array, here and below.
        let mut list = unsafe { numbers(dims, ndims, MPI_ERR_DIMS) }?;
        if list.is_empty() {
            return Ok(());
        }
        balance(nodes, &mut list)?;
        // SAFETY: as above.
        unsafe { show(&list, dims, ndims) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_cartdim_get(comm: i32, ndims: *mut c_int) -> c_int {
    on_comm("MPI_Cartdim_get", comm, |guard, index| {
        let count = cart(guard, index)?.dims.len();
        // SAFETY: the program's pointer.
        unsafe { put(ndims, count as c_int) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_cart_get(
    comm: i32,
    room: c_int,
    dims: *mut c_int,
    periods: *mut c_int,
    coords: *mut c_int,
) -> c_int {
    on_comm("MPI_Cart_get", comm, |guard, index| {
        let cart = cart(guard, index)?;
        let round: Vec<c_int> = cart.periods.iter().map(|one| c_int::from(*one)).collect();
        let here = cart.coordinates(guard.point.objects.comms[index].rank);
        // SAFETY: the program's arrays.
        unsafe {
            show(&cart.dims, dims, room)?;
            show(&round, periods, room)?;
            show(&here, coords, room)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_cart_rank(
    comm: i32,
    coords: *const c_int,
    rank: *mut c_int,
) -> c_int {
    on_comm("MPI_Cart_rank", comm, |guard, index| {
        let cart = cart(guard, index)?;
        // SAFETY: the program's array and pointer.
        unsafe {
            let found = cart.rank(&longs(coords, cart.dims.len())?)?;
            put(rank, found.cast_signed())
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_cart_coords(
    comm: i32,
    rank: c_int,
    room: c_int,
    coords: *mut c_int,
) -> c_int {
    on_comm("MPI_Cart_coords", comm, |guard, index| {
        let cart = cart(guard, index)?;
        let rank = rank_of(guard, index, rank, MPI_ERR_RANK)?;
        // SAFETY: the program's array.
        unsafe { show(&cart.coordinates(rank), coords, room) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_cart_shift(
    comm: i32,
    direction: c_int,
    by: c_int,
    source: *mut c_int,
    destination: *mut c_int,
) -> c_int {
    on_comm("MPI_Cart_shift", comm, |guard, index| {
        let cart = cart(guard, index)?;
        let dimension = usize::try_from(direction)
            .ok()
            .filter(|dimension| *dimension < cart.dims.len())
            .ok_or_else(|| MpiError::with(MPI_ERR_DIMS, format!("dimension {direction}")))?;
        let (from, to) = cart.shift(guard.point.objects.comms[index].rank, dimension, by);
        let shown = |rank: Option<u32>| rank.map_or(MPI_PROC_NULL, u32::cast_signed);
        // SAFETY: the program's pointers.
        unsafe {
            put(source, shown(from))?;
            put(destination, shown(to))
        }
    })
}

/// Where a process would be: ranks keep their order.
pub(super) unsafe fn placed(guard: &Guard, comm: u32, count: u32, place: *mut c_int) -> Outcome {
    let rank = guard.point.objects.comms[comm].rank;
    let there = if rank < count {
        rank.cast_signed()
    } else {
        MPI_UNDEFINED
    };
    // SAFETY: the program's pointer.
    unsafe { put(place, there) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_cart_map(
    comm: i32,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    rank: *mut c_int,
) -> c_int {
    on_comm("MPI_Cart_map", comm, |guard, index| {
        // SAFETY: the program's arrays and pointer.
        unsafe {
            let cart = described(guard, index, ndims, dims, periods)?;
            placed(guard, index, cart.size(), rank)
        }
    })
}
