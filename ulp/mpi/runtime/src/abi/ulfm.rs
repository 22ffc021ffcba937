//! User-level failure mitigation (ULFM): what a program asks and does about ranks that have died.
//! Declared in mpi-ext.h; no part of the standard.

use super::group::give as give_group;
use super::raise::on_comm;
use super::values::put;
use crate::coll::shrink;
use crate::coll::state::Guard;
use crate::constants::*;
use crate::errors::{MpiError, Outcome};
use crate::ground::memory::Sink;
use crate::job::wait::{glance, wait_request};
use crate::objects::group::Group;
use crate::p2p::circles::End;
use std::ffi::c_int;

/// A place that the program names, for nothing is told without one.
fn check_place<T>(place: *mut T) -> Outcome {
    if place.is_null() {
        return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
    }
    Ok(())
}

/// Nothing of the communicator begins or goes on at any of its ranks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpix_comm_revoke(comm: i32) -> c_int {
    on_comm("MPIX_Comm_revoke", comm, |guard, index| guard.revoke(index))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpix_comm_is_revoked(comm: i32, flag: *mut c_int) -> c_int {
    on_comm("MPIX_Comm_is_revoked", comm, |guard, index| {
        glance(guard)?;
        let is_revoked = guard.point.objects.comms[index].revoked;
        // SAFETY: the program's pointer.
        unsafe { put(flag, c_int::from(is_revoked)) }
    })
}

/// Gives the program the group of the first `count` ranks that have failed in a communicator.
///
/// # Safety
/// The program's pointer.
unsafe fn give_failed(guard: &mut Guard, index: u32, count: usize, place: *mut i32) -> Outcome {
    let mut failed = guard.failed_of(index);
    failed.truncate(count);
    let session = guard.point.objects.comms[index].session;
    // SAFETY: the caller's promise.
    unsafe { give_group(guard, Group::of(failed), session, place) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpix_comm_get_failed(comm: i32, failedgrp: *mut i32) -> c_int {
    on_comm("MPIX_Comm_get_failed", comm, |guard, index| {
        glance(guard)?;
        // SAFETY: the program's pointer.
        unsafe { give_failed(guard, index, usize::MAX, failedgrp) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpix_comm_ack_failed(
    comm: i32,
    num_to_ack: c_int,
    num_acked: *mut c_int,
) -> c_int {
    on_comm("MPIX_Comm_ack_failed", comm, |guard, index| {
        check_place(num_acked)?;
        let count = u32::try_from(num_to_ack)
            .map_err(|_| MpiError::with(MPI_ERR_ARG, format!("{num_to_ack} failures")))?;
        guard.look_for_losses();
        let acked = guard.point.acknowledge(index, count);
        // SAFETY: the program's pointer.
        unsafe { put(num_acked, acked.cast_signed()) }
    })
}

/// Acknowledges all failures that are known: what programs called before MPIX_Comm_ack_failed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpix_comm_failure_ack(comm: i32) -> c_int {
    on_comm("MPIX_Comm_failure_ack", comm, |guard, index| {
        guard.look_for_losses();
        guard.point.acknowledge(index, u32::MAX);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpix_comm_failure_get_acked(
    comm: i32,
    failedgrp: *mut i32,
) -> c_int {
    on_comm("MPIX_Comm_failure_get_acked", comm, |guard, index| {
        let acked = guard.point.objects.comms[index].acked as usize;
        // SAFETY: the program's pointer.
        unsafe { give_failed(guard, index, acked, failedgrp) }
    })
}

/// Waits for an agreement of this call.
fn wait_agreed(guard: &mut Guard, request: u32) -> Outcome {
    let waited = wait_request(guard, request);
    if waited.is_err() {
        guard.forget_agreement(request);
    }
    let over = guard.point.requests.slab.remove(request);
    waited?;
    match over {
        Some(over) if over.status.error != MPI_SUCCESS => Err(MpiError::new(over.status.error)),
        _ => Ok(()),
    }
}

/// Begins to agree about the bits at `flag`; the request.
///
/// # Safety
/// They may be read, and written until the request is over.
unsafe fn begin_agree(guard: &mut Guard, index: u32, flag: *mut c_int) -> Outcome<u32> {
    check_place(flag)?;
    // SAFETY: the caller's promise, here and below.
    let (bits, sink) = unsafe { (flag.read(), Sink::new(flag.cast(), size_of::<c_int>())) };
    guard.begin_agreement(index, bits.cast_unsigned(), End::Agree(sink))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpix_comm_agree(comm: i32, flag: *mut c_int) -> c_int {
    on_comm("MPIX_Comm_agree", comm, |guard, index| {
        // SAFETY: the program's pointer.
        let request = unsafe { begin_agree(guard, index, flag) }?;
        wait_agreed(guard, request)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpix_comm_iagree(
    comm: i32,
    flag: *mut c_int,
    request: *mut i32,
) -> c_int {
    on_comm("MPIX_Comm_iagree", comm, |guard, index| {
        check_place(request)?;
        // SAFETY: the program's pointers, here and below.
        let begun = unsafe { begin_agree(guard, index, flag) }?;
        // SAFETY: as above.
        unsafe { put(request, guard.point.requests.slab.handle(begun)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpix_comm_shrink(comm: i32, newcomm: *mut i32) -> c_int {
    on_comm("MPIX_Comm_shrink", comm, |guard, index| {
        check_place(newcomm)?;
        let (made, request) = shrink::begin(guard, index)?;
        let outcome = wait_agreed(guard, request);
        let handle = match &outcome {
            Ok(()) => guard.point.objects.comms.handle(made),
            Err(_) => MPI_COMM_NULL,
        };
        // SAFETY: the program's pointer.
        unsafe { put(newcomm, handle) }?;
        outcome
    })
}

/// The new communicator may be used once the request is over.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpix_comm_ishrink(
    comm: i32,
    newcomm: *mut i32,
    request: *mut i32,
) -> c_int {
    on_comm("MPIX_Comm_ishrink", comm, |guard, index| {
        check_place(newcomm)?;
        check_place(request)?;
        let (made, begun) = shrink::begin(guard, index)?;
        // SAFETY: the program's pointers.
        unsafe {
            put(newcomm, guard.point.objects.comms.handle(made))?;
            put(request, guard.point.requests.slab.handle(begun))
        }
    })
}
