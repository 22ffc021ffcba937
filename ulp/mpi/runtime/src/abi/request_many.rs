//! Waiting for several requests.
//!
//! Owns: which of them a call takes out, and how it tells that some have failed. Must not know:
//! what a request is for.

use super::handles::{Raised, all, any_done, at_self, is_done};
use super::raise::on_any;
use super::request::{Over, glance, outcome};
use super::values::{put, put_status};
use crate::coll::state::Guard;
use crate::constants::*;
use crate::errors::MpiError;
use crate::ground::array::Array;
use crate::ground::status::{EMPTY, Status};
use crate::handle::NOBODY;
use crate::job::wait::{wait_for, wait_request};
use crate::p2p::runtime::Runtime;
use std::ffi::c_int;

/// Takes requests that are over out of the array, and writes the statuses of those at `places`, the n-th to the n-th. MPI_ERROR is written if one
/// has failed, as the standard demands.
///
/// # Safety
/// The arrays are as long as the standard says.
unsafe fn reap_all(
    guard: &mut Guard,
    indices: &[Option<u32>],
    requests: Array,
    places: impl Iterator<Item = usize>,
    statuses: *mut Status,
) -> Raised {
    let mut failed = None;
    for (nth, place) in places.enumerate() {
        let over = indices[place].map_or(Over::NONE, |index| Over::take(guard, index));
        if over.status.error != MPI_SUCCESS {
            if failed.is_none() && !statuses.is_null() {
                // SAFETY: the caller's promise. What follows the first one that has failed says by itself how it went.
                unsafe { (0..nth).for_each(|at| (*statuses.add(at)).error = MPI_SUCCESS) };
            }
            failed = Some(over.comm);
        }
        // SAFETY: the caller's promise. A request of nothing may stand there twice, and is left alone.
        unsafe {
            if !over.stays {
                requests.set_handle(place, MPI_REQUEST_NULL);
            }
            if !statuses.is_null() {
                if failed.is_some() {
                    statuses.add(nth).write(over.status);
                } else {
                    put_status(statuses.add(nth), &over.status);
                }
            }
        }
    }
    match failed {
        Some(comm) => Err((comm, MpiError::new(MPI_ERR_IN_STATUS))),
        None => Ok(()),
    }
}

/// Takes requests that are over and nothing but messages out of an array, from `first` on, as most are: where it ends, before one that is not over, has failed, or is something
/// else.
///
/// # Safety
/// The program's arrays, of `count` elements.
#[inline(always)]
unsafe fn reap_plain(
    runtime: &mut Runtime,
    first: usize,
    count: usize,
    requests: Array,
    statuses: *mut Status,
) -> usize {
    for at in first..count {
        // SAFETY: the caller's promise, here and below.
        let handle = unsafe { requests.handle(at) };
        let mut found = EMPTY;
        if handle != runtime.point.requests.over && handle != MPI_REQUEST_NULL {
            match runtime.point.requests.slab.named(handle) {
                Some((index, request))
                    if request.done
                        && request.is_plain()
                        && request.status.error == MPI_SUCCESS =>
                {
                    found = request.status;
                    runtime.point.requests.put_back(index);
                }
                _ => return at,
            }
        }
        // SAFETY: as above.
        unsafe {
            requests.set_handle(at, MPI_REQUEST_NULL);
            if !statuses.is_null() {
                // MPI_SUCCESS, as in `reap_every`.
                statuses.add(at).write(found);
            }
        }
    }
    count
}

/// Takes all requests of the array out, which are over. Where all have gone well MPI_ERROR says so: the standard has it left alone then (MPI 5.0, 3.2.5), but MPICH and Open MPI
/// write it in MPI_Waitall, and there are programs that read it.
///
/// # Safety
/// As for [`reap_all`].
unsafe fn reap_every(
    guard: &mut Guard,
    indices: &[Option<u32>],
    requests: Array,
    statuses: *mut Status,
) -> Raised {
    // SAFETY: the caller's promise, here and below.
    unsafe {
        if !statuses.is_null() {
            (0..indices.len()).for_each(|at| (*statuses.add(at)).error = MPI_SUCCESS);
        }
        reap_all(guard, indices, requests, 0..indices.len(), statuses)
    }
}

/// Waits for requests that are nothing but messages, and takes them out: what most arrays hold. How many it has taken out, from the first one on: the next one is something else, or
/// has failed.
///
/// # Safety
/// The program's arrays.
#[inline(always)]
unsafe fn wait_plain(
    guard: &mut Guard,
    count: c_int,
    requests: Array,
    statuses: *mut Status,
) -> Raised<usize> {
    if count < 0 || requests.base.is_null() {
        return Ok(0);
    }
    let count = count as usize;
    let mut taken = 0;
    // The last one first: what comes before it is taken in the same rounds.
    for at in (0..count).rev() {
        // SAFETY: the caller's promise, here and below.
        let handle = unsafe { requests.handle(at) };
        if handle == guard.point.requests.over || handle == MPI_REQUEST_NULL {
            continue;
        }
        let Some((index, request)) = guard.point.requests.slab.named(handle) else {
            break;
        };
        if request.done || !request.is_plain() {
            break;
        }
        if guard.is_shared() {
            wait_request(guard, index).map_err(at_self)?;
            break;
        }
        // While nothing comes, those that have come are taken out.
        guard.point.requests.waits.awaited = index;
        let outcome = wait_for(guard, |guard| {
            if guard.point.requests[index].done {
                return true;
            }
            // SAFETY: as above; those before `taken` are out.
            taken = unsafe { reap_plain(guard, taken, at, requests, statuses) };
            false
        });
        guard.point.requests.waits.awaited = NOBODY;
        outcome.map_err(at_self)?;
        break;
    }
    loop {
        // SAFETY: as above.
        taken = unsafe { reap_plain(guard, taken, count, requests, statuses) };
        if taken == count {
            return Ok(count);
        }
        // SAFETY: as above.
        let handle = unsafe { requests.handle(taken) };
        match guard.point.requests.slab.named(handle) {
            Some((index, request)) if !request.done && request.is_plain() => {
                wait_request(guard, index).map_err(at_self)?;
            }
            _ => return Ok(taken),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_waitall(
    count: c_int,
    requests: Array,
    statuses: *mut Status,
) -> c_int {
    on_any("MPI_Waitall", |guard| {
        // SAFETY: the program's arrays, here and below.
        let taken = unsafe { wait_plain(guard, count, requests, statuses) }?;
        if taken == count as usize {
            return Ok(());
        }
        // SAFETY: as above.
        unsafe { wait_all(guard, taken, count, requests, statuses) }
    })
}

/// Waits for what is left of an array of requests, from `taken` on: of all before it the statuses are written.
///
/// # Safety
/// The program's arrays.
#[cold]
unsafe fn wait_all(
    guard: &mut Guard,
    taken: usize,
    count: c_int,
    requests: Array,
    statuses: *mut Status,
) -> Raised {
    let rest = Array {
        base: requests.base.wrapping_byte_add(taken * requests.width),
        ..requests
    };
    let left = if statuses.is_null() {
        statuses
    } else {
        statuses.wrapping_add(taken)
    };
    // SAFETY: the caller's promise, here and below.
    let indices = unsafe { all(guard, count - taken as c_int, rest) }?;
    // The last one first: what comes before it is taken in the same rounds.
    for index in indices.iter().rev().flatten() {
        if !guard.point.requests[*index].done {
            wait_request(guard, *index).map_err(at_self)?;
        }
    }
    // SAFETY: as above.
    unsafe { reap_every(guard, &indices, rest, left) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_testall(
    count: c_int,
    requests: Array,
    flag: *mut c_int,
    statuses: *mut Status,
) -> c_int {
    on_any("MPI_Testall", |guard| {
        // SAFETY: the program's arrays and pointer, here and below.
        let indices = unsafe { all(guard, count, requests) }?;
        let done = |guard: &Guard| indices.iter().all(|index| is_done(guard, *index));
        if !done(guard) {
            glance(guard)?;
        }
        let done = done(guard);
        // SAFETY: as above.
        unsafe { put(flag, c_int::from(done)) }.map_err(at_self)?;
        if !done {
            return Ok(());
        }
        // SAFETY: as above.
        unsafe { reap_every(guard, &indices, requests, statuses) }
    })
}

/// Takes out the request at `place`, none: there was no active one.
///
/// # Safety
/// The program's arrays and pointers.
unsafe fn reap_one(
    guard: &mut Guard,
    indices: &[Option<u32>],
    requests: Array,
    place: Option<usize>,
    index: *mut c_int,
    status: *mut Status,
) -> Raised {
    let shown = place.map_or(MPI_UNDEFINED, |place| place as c_int);
    // SAFETY: the caller's promise, here and below.
    unsafe { put(index, shown) }.map_err(at_self)?;
    let Some((place, request)) = place.and_then(|place| Some((place, indices[place]?))) else {
        // SAFETY: as above.
        unsafe { put_status(status, &EMPTY) };
        return Ok(());
    };
    let over = Over::take(guard, request);
    // SAFETY: as above.
    unsafe {
        if !over.stays {
            requests.set_handle(place, MPI_REQUEST_NULL);
        }
        put_status(status, &over.status);
    }
    outcome(over.comm, &over.status)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_waitany(
    count: c_int,
    requests: Array,
    index: *mut c_int,
    status: *mut Status,
) -> c_int {
    on_any("MPI_Waitany", |guard| {
        // SAFETY: the program's arrays and pointers, here and below.
        let indices = unsafe { all(guard, count, requests) }?;
        let mut found = (None, true);
        wait_for(guard, |guard| {
            found = any_done(guard, &indices);
            found.0.is_some() || !found.1
        })
        .map_err(at_self)?;
        // SAFETY: as above.
        unsafe { reap_one(guard, &indices, requests, found.0, index, status) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_testany(
    count: c_int,
    requests: Array,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    on_any("MPI_Testany", |guard| {
        // SAFETY: the program's arrays and pointers, here and below.
        let indices = unsafe { all(guard, count, requests) }?;
        let mut found = any_done(guard, &indices);
        if found.0.is_none() && found.1 {
            glance(guard)?;
            found = any_done(guard, &indices);
        }
        let is_over = found.0.is_some() || !found.1;
        // SAFETY: as above.
        unsafe { put(flag, c_int::from(is_over)) }.map_err(at_self)?;
        if is_over {
            // SAFETY: as above.
            return unsafe { reap_one(guard, &indices, requests, found.0, index, status) };
        }
        // SAFETY: as above.
        unsafe { put(index, MPI_UNDEFINED) }.map_err(at_self)
    })
}

/// Takes out all requests that are over.
///
/// # Safety
/// The program's arrays and pointers.
unsafe fn reap_some(
    guard: &mut Guard,
    indices: &[Option<u32>],
    requests: Array,
    outcount: *mut c_int,
    places: *mut c_int,
    statuses: *mut Status,
) -> Raised {
    let over: Vec<usize> = (0..indices.len())
        .filter(|place| indices[*place].is_some_and(|index| guard.point.requests[index].done))
        .collect();
    let count = if indices.iter().all(Option::is_none) {
        MPI_UNDEFINED
    } else {
        over.len() as c_int
    };
    // SAFETY: the caller's promise.
    unsafe {
        put(outcount, count).map_err(at_self)?;
        for (nth, place) in over.iter().enumerate() {
            put(places.wrapping_add(nth), *place as c_int).map_err(at_self)?;
        }
        reap_all(guard, indices, requests, over.iter().copied(), statuses)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_waitsome(
    count: c_int,
    requests: Array,
    outcount: *mut c_int,
    places: *mut c_int,
    statuses: *mut Status,
) -> c_int {
    on_any("MPI_Waitsome", |guard| {
        // SAFETY: the program's arrays and pointers, here and below.
        let indices = unsafe { all(guard, count, requests) }?;
        wait_for(guard, |guard| {
            let (first, some) = any_done(guard, &indices);
            first.is_some() || !some
        })
        .map_err(at_self)?;
        // SAFETY: as above.
        unsafe { reap_some(guard, &indices, requests, outcount, places, statuses) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_testsome(
    count: c_int,
    requests: Array,
    outcount: *mut c_int,
    places: *mut c_int,
    statuses: *mut Status,
) -> c_int {
    on_any("MPI_Testsome", |guard| {
        // SAFETY: the program's arrays and pointers, here and below.
        let indices = unsafe { all(guard, count, requests) }?;
        let (first, some) = any_done(guard, &indices);
        if first.is_none() && some {
            glance(guard)?;
        }
        // SAFETY: as above.
        unsafe { reap_some(guard, &indices, requests, outcount, places, statuses) }
    })
}
