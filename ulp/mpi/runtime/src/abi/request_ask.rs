//! Looking at requests without ending them: MPI_Request_get_status and its family.

use super::general::{general, query};
use super::handles::{Raised, all, any_done, at_self, is_done, resolve};
use super::raise::on_any;
use super::request::glance;
use super::values::{put, put_status};
use crate::coll::state::Guard;
use crate::constants::*;
use crate::ground::array::Array;
use crate::ground::status::{EMPTY, Status};
use std::ffi::c_int;

/// What a request that is over says.
fn told(guard: &mut Guard, index: Option<u32>) -> Status {
    let Some(index) = index else {
        return EMPTY;
    };
    match general(guard, index) {
        Some(functions) => query(guard, &functions),
        None => guard.point.requests[index].status,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_request_get_status(
    request: i32,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    on_any("MPI_Request_get_status", |guard| {
        let index = resolve(guard, request)?;
        if !is_done(guard, index) {
            glance(guard)?;
        }
        let done = is_done(guard, index);
        // SAFETY: the program's pointers.
        unsafe {
            put(flag, c_int::from(done)).map_err(at_self)?;
            if done {
                put_status(status, &told(guard, index));
            }
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_request_get_status_all(
    count: c_int,
    requests: Array,
    flag: *mut c_int,
    statuses: *mut Status,
) -> c_int {
    on_any("MPI_Request_get_status_all", |guard| {
        // SAFETY: the program's arrays and pointer, here and below.
        let indices = unsafe { all(guard, count, requests) }?;
        let done = |guard: &Guard| indices.iter().all(|index| is_done(guard, *index));
        if !done(guard) {
            glance(guard)?;
        }
        let done = done(guard);
        // SAFETY: as above.
        unsafe { put(flag, c_int::from(done)) }.map_err(at_self)?;
        if done && !statuses.is_null() {
            for (nth, index) in indices.iter().enumerate() {
                let status = told(guard, *index);
                // SAFETY: as above.
                unsafe { put_status(statuses.add(nth), &status) };
            }
        }
        Ok(())
    })
}

/// The requests that are over, after a round of progress if there is none; and whether any is active.
fn over(guard: &mut Guard, indices: &[Option<u32>]) -> Raised<(Option<usize>, bool)> {
    let found = any_done(guard, indices);
    if found.0.is_some() || !found.1 {
        return Ok(found);
    }
    glance(guard)?;
    Ok(any_done(guard, indices))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_request_get_status_any(
    count: c_int,
    requests: Array,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    on_any("MPI_Request_get_status_any", |guard| {
        // SAFETY: the program's arrays and pointers, here and below.
        let indices = unsafe { all(guard, count, requests) }?;
        let (first, some) = over(guard, &indices)?;
        let shown = first.map_or(MPI_UNDEFINED, |place| place as c_int);
        let is_over = first.is_some() || !some;
        // SAFETY: as above.
        unsafe {
            put(flag, c_int::from(is_over)).map_err(at_self)?;
            put(index, shown).map_err(at_self)?;
            if is_over {
                let found = told(guard, first.and_then(|place| indices[place]));
                put_status(status, &found);
            }
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_request_get_status_some(
    count: c_int,
    requests: Array,
    outcount: *mut c_int,
    places: *mut c_int,
    statuses: *mut Status,
) -> c_int {
    on_any("MPI_Request_get_status_some", |guard| {
        // SAFETY: the program's arrays and pointers, here and below.
        let indices = unsafe { all(guard, count, requests) }?;
        let (_, some) = over(guard, &indices)?;
        let mut count = 0;
        for (place, index) in indices.iter().enumerate() {
            if index.is_none() || !is_done(guard, *index) {
                continue;
            }
            let status = told(guard, *index);
            // SAFETY: as above: there is room for as many as there are requests.
            unsafe {
                put(places.wrapping_add(count), place as c_int).map_err(at_self)?;
                if !statuses.is_null() {
                    put_status(statuses.add(count), &status);
                }
            }
            count += 1;
        }
        let shown = if some { count as c_int } else { MPI_UNDEFINED };
        // SAFETY: as above.
        unsafe { put(outcount, shown) }.map_err(at_self)
    })
}
