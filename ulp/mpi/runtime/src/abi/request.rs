//! Waiting for requests, and what a status says.

use super::general::{free, general, query};
use super::raise::on_any;
use super::values::{put, put_status};
use crate::constants::*;
use crate::errors::MpiError;
use crate::ground::status::{Array, Status};
use crate::job::state::Guard;
use crate::request::{EMPTY, Work};
use crate::runtime::{NOBODY, Runtime, SELF};
use crate::wait::{self, wait_for, wait_request};
use std::ffi::c_int;

/// A failure, and the communicator whose handler is asked.
pub(super) type Raised<T = ()> = Result<T, (u32, MpiError)>;

pub(super) fn at_self(error: MpiError) -> (u32, MpiError) {
    (SELF, error)
}

/// The request that a handle names; none for MPI_REQUEST_NULL and for one that is not active.
#[inline]
pub(super) fn resolve(guard: &Guard, handle: i32) -> Raised<Option<u32>> {
    if handle == MPI_REQUEST_NULL {
        return Ok(None);
    }
    let index = resolve_any(guard, handle)?;
    let is_idle = matches!(
        guard.requests[index].work,
        Work::Persistent { active: false }
    );
    Ok((!is_idle).then_some(index))
}

/// The request that a handle names, active or not.
#[inline]
pub(super) fn resolve_any(guard: &Guard, handle: i32) -> Raised<u32> {
    let found = guard.requests.index_of(handle);
    found
        .filter(|index| !guard.requests[*index].freed)
        .ok_or_else(|| at_self(MpiError::new(MPI_ERR_REQUEST)))
}

/// A request that was over.
struct Over {
    /// Its communicator.
    comm: u32,
    /// What it says.
    status: Status,
    /// The handle is still one: it can be started again.
    stays: bool,
}

impl Over {
    /// There was none.
    const NONE: Self = Self {
        comm: SELF,
        status: EMPTY,
        stays: true,
    };

    /// Takes a request that is over out.
    #[inline]
    fn take(guard: &mut Guard, index: u32) -> Self {
        if guard.requests[index].extra.is_some() {
            return Self::take_special(guard, index);
        }
        let (comm, status, stays) = guard.reap(index);
        Self {
            comm,
            status,
            stays,
        }
    }

    #[cold]
    fn take_special(guard: &mut Guard, index: u32) -> Self {
        let functions = general(guard, index);
        let told = functions.map(|functions| query(guard, &functions));
        let (comm, status, stays) = guard.reap(index);
        let mut status = told.unwrap_or(status);
        if let Some(functions) = functions {
            let code = free(guard, &functions);
            if status.error == MPI_SUCCESS {
                status.error = code;
            }
        }
        Self {
            comm,
            status,
            stays,
        }
    }
}

/// Turns the error of a status into the call's.
fn outcome(comm: u32, status: &Status) -> Raised {
    if status.error == MPI_SUCCESS {
        Ok(())
    } else {
        Err((comm, MpiError::new(status.error)))
    }
}

pub(super) fn is_done(guard: &Guard, index: Option<u32>) -> bool {
    index.is_none_or(|index| guard.requests[index].done)
}

/// A round of progress for a call that only asks.
pub(super) fn glance(guard: &mut Guard) -> Raised {
    wait::glance(guard).map_err(at_self)
}

/// The handle that a pointer names.
///
/// # Safety
/// It is null or may be read.
pub(super) unsafe fn single(request: *mut i32) -> Raised<i32> {
    if request.is_null() {
        return Err(at_self(MpiError::with(MPI_ERR_ARG, "a null pointer")));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { request.read() })
}

/// Takes out a request that is over, writes its status, and its handle unless that stays.
///
/// # Safety
/// The program's pointers.
#[inline]
unsafe fn reap_single(
    guard: &mut Guard,
    index: Option<u32>,
    request: *mut i32,
    status: *mut Status,
) -> Raised {
    let over = index.map_or(Over::NONE, |index| Over::take(guard, index));
    // SAFETY: the caller's promise.
    unsafe {
        if !over.stays {
            request.write(MPI_REQUEST_NULL);
        }
        put_status(status, &over.status);
    }
    outcome(over.comm, &over.status)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_wait(request: *mut i32, status: *mut Status) -> c_int {
    on_any("MPI_Wait", |guard| {
        // SAFETY: the program's pointers, here and below.
        let index = resolve(guard, unsafe { single(request) }?)?;
        if let Some(index) = index {
            wait_request(guard, index).map_err(at_self)?;
        }
        // SAFETY: as above.
        unsafe { reap_single(guard, index, request, status) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_test(
    request: *mut i32,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    on_any("MPI_Test", |guard| {
        // SAFETY: the program's pointers, here and below.
        let index = resolve(guard, unsafe { single(request) }?)?;
        if !is_done(guard, index) {
            glance(guard)?;
        }
        let done = is_done(guard, index);
        // SAFETY: as above.
        unsafe { put(flag, c_int::from(done)) }.map_err(at_self)?;
        if !done {
            return Ok(());
        }
        // SAFETY: as above.
        unsafe { reap_single(guard, index, request, status) }
    })
}

/// The request goes when it is over.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_request_free(request: *mut i32) -> c_int {
    on_any("MPI_Request_free", |guard| {
        // SAFETY: the program's pointer, here and below.
        let handle = unsafe { single(request) }?;
        let index = resolve_any(guard, handle)?;
        let is_idle = matches!(
            guard.requests[index].work,
            Work::Persistent { active: false }
        );
        if is_idle || (guard.requests[index].done && index != guard.nothing) {
            let functions = general(guard, index);
            guard.conclude(index);
            if let Some(functions) = functions {
                free(guard, &functions);
            }
        } else if index != guard.nothing {
            guard.requests[index].freed = true;
        }
        // SAFETY: as above.
        unsafe { request.write(MPI_REQUEST_NULL) };
        Ok(())
    })
}

/// All requests of an array.
///
/// # Safety
/// The array has `count` elements.
pub(super) unsafe fn all(guard: &Guard, count: c_int, requests: Array) -> Raised<Vec<Option<u32>>> {
    let count = usize::try_from(count)
        .map_err(|_| at_self(MpiError::with(MPI_ERR_COUNT, format!("{count} requests"))))?;
    if count != 0 && requests.base.is_null() {
        return Err(at_self(MpiError::with(MPI_ERR_ARG, "a null pointer")));
    }
    let mut indices = Vec::with_capacity(count);
    for at in 0..count {
        // SAFETY: the caller's promise.
        indices.push(resolve(guard, unsafe { requests.handle(at) })?);
    }
    Ok(indices)
}

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
        if handle != runtime.over && handle != MPI_REQUEST_NULL {
            match runtime.requests.named(handle) {
                Some((index, request))
                    if request.done
                        && request.is_plain()
                        && request.status.error == MPI_SUCCESS =>
                {
                    found = request.status;
                    runtime.put_back(index);
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
        if handle == guard.over || handle == MPI_REQUEST_NULL {
            continue;
        }
        let Some((index, request)) = guard.requests.named(handle) else {
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
        guard.awaited = index;
        let outcome = wait_for(guard, |guard| {
            if guard.requests[index].done {
                return true;
            }
            // SAFETY: as above; those before `taken` are out.
            taken = unsafe { reap_plain(guard, taken, at, requests, statuses) };
            false
        });
        guard.awaited = NOBODY;
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
        match guard.requests.named(handle) {
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
        if !guard.requests[*index].done {
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

/// The request that was over first, if one is; false if none is active. Any of them would do (MPI 5.0, 3.7.5), but a program whose messages end with one that says so would miss those
/// before it if that came out first (HPC Challenge's random access).
pub(super) fn any_done(guard: &Guard, indices: &[Option<u32>]) -> (Option<usize>, bool) {
    let age = |index: u32| {
        let request = &guard.requests[index];
        request
            .done
            .then(|| guard.ended.wrapping_sub(request.ended))
    };
    let mut first: Option<(usize, u32)> = None;
    for (place, index) in indices.iter().enumerate() {
        if let Some(age) = index.and_then(age)
            && first.is_none_or(|(_, oldest)| age > oldest)
        {
            first = Some((place, age));
        }
    }
    let place = first.map(|(place, _)| place);
    (place, indices.iter().any(Option::is_some))
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
        .filter(|place| indices[*place].is_some_and(|index| guard.requests[index].done))
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
