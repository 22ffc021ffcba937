//! Handles of requests that a call passes.
//!
//! Owns: which request a handle names, and whose error handler learns of a wrong one. Must not
//! know:
//! how a request is waited for.

use crate::coll::state::Guard;
use crate::constants::*;
use crate::errors::MpiError;
use crate::ground::array::Array;
use crate::objects::comms::SELF;
use crate::p2p::request::Work;
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
        guard.point.requests[index].work,
        Work::Persistent { active: false }
    );
    Ok((!is_idle).then_some(index))
}

/// The request that a handle names, active or not.
#[inline]
pub(super) fn resolve_any(guard: &Guard, handle: i32) -> Raised<u32> {
    let found = guard.point.requests.slab.index_of(handle);
    found
        .filter(|index| !guard.point.requests[*index].freed)
        .ok_or_else(|| at_self(MpiError::new(MPI_ERR_REQUEST)))
}

pub(super) fn is_done(guard: &Guard, index: Option<u32>) -> bool {
    index.is_none_or(|index| guard.point.requests[index].done)
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

/// The request that was over first, if one is; false if none is active. Any of them would do (MPI
/// 5.0, 3.7.5), but a program whose messages end with one that says so would miss those
/// before it if that came out first (HPC Challenge's random access).
pub(super) fn any_done(guard: &Guard, indices: &[Option<u32>]) -> (Option<usize>, bool) {
    let age = |index: u32| {
        let request = &guard.point.requests[index];
        request
            .done
            .then(|| guard.point.requests.waits.ended.wrapping_sub(request.ended))
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
