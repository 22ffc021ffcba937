//! Waiting for one request, and what a status says.

use super::general::{free, general, query};
use super::handles::{Raised, at_self, is_done, resolve, resolve_any, single};
use super::raise::on_any;
use super::values::{put, put_status};
use crate::coll::state::Guard;
use crate::constants::*;
use crate::errors::MpiError;
use crate::ground::status::{EMPTY, Status};
use crate::job::wait::{self, wait_request};
use crate::objects::comms::SELF;
use crate::p2p::request::{Request, Work};
use std::ffi::c_int;

/// A request that was over.
pub(super) struct Over {
    /// Its communicator.
    pub(super) comm: u32,
    /// What it says.
    pub(super) status: Status,
    /// The handle is still one: it can be started again.
    pub(super) stays: bool,
}

impl Over {
    /// There was none.
    pub(super) const NONE: Self = Self {
        comm: SELF,
        status: EMPTY,
        stays: true,
    };

    /// Takes a request that is over out.
    #[inline]
    pub(super) fn take(guard: &mut Guard, index: u32) -> Self {
        if guard.point.requests[index].extra.is_some() {
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
pub(super) fn outcome(comm: u32, status: &Status) -> Raised {
    if status.error == MPI_SUCCESS {
        Ok(())
    } else {
        Err((comm, MpiError::new(status.error)))
    }
}

/// Whether a request, which may be gone, is a receive that waits for the program's word about a
/// failure: it is not over.
fn waits_for_word(guard: &Guard, index: u32) -> bool {
    let request = guard.point.requests.slab.get(index);
    request.is_some_and(Request::is_stranded)
}

/// A round of progress for a call that only asks.
pub(super) fn glance(guard: &mut Guard) -> Raised {
    wait::glance(guard).map_err(at_self)
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
        let told = unsafe { reap_single(guard, index, request, status) };
        if index.is_some_and(|index| waits_for_word(guard, index)) {
            // SAFETY: as above.
            unsafe { put(flag, 0) }.map_err(at_self)?;
        }
        told
    })
}

/// The request goes when it is over.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_request_free(request: *mut i32) -> c_int {
    on_any("MPI_Request_free", |guard| {
        // SAFETY: the program's pointer, here and below.
        let handle = unsafe { single(request) }?;
        let index = resolve_any(guard, handle)?;
        guard.point.revive(index);
        let is_idle = matches!(
            guard.point.requests[index].work,
            Work::Persistent { active: false }
        );
        if is_idle || (guard.point.requests[index].done && index != guard.point.requests.nothing) {
            let functions = general(guard, index);
            guard.free_request(index);
            if let Some(functions) = functions {
                free(guard, &functions);
            }
        } else if index != guard.point.requests.nothing {
            guard.point.requests[index].freed = true;
        }
        // SAFETY: as above.
        unsafe { request.write(MPI_REQUEST_NULL) };
        Ok(())
    })
}
