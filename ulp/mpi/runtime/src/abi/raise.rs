//! What becomes of an error: the handler of the object decides.

use super::callback;
use crate::coll::state::{Guard, enter};
use crate::constants::*;
use crate::errors::{MpiError, Outcome, describe};
use crate::job::settings::initial_errhandler;
use crate::job::state::{Phase, phase};
use crate::job::wait::glance;
use crate::job::wireup;
use crate::objects::comms::SELF;
use crate::objects::process::process;
use crate::p2p::circles::revoked;
use crate::trace;
use ferriband_mpi_proto::segment::Life;
use std::ffi::c_int;

/// A call about the communicator that `comm` names.
#[inline]
pub fn on_comm(function: &str, comm: i32, body: impl FnOnce(&mut Guard, u32) -> Outcome) -> c_int {
    let _span = trace::span(function);
    let Some(mut guard) = enter() else {
        return outside(function);
    };
    let Some(index) = guard.point.objects.comms.index_of(comm) else {
        return raise(guard, SELF, function, &MpiError::new(MPI_ERR_COMM));
    };
    match body(&mut guard, index) {
        Ok(()) => MPI_SUCCESS,
        Err(error) => raise(guard, index, function, &error),
    }
}

/// A call about nothing that has an error handler, or about what `body` finds: it says with an error at which communicator to raise it.
#[inline]
pub fn on_any(
    function: &str,
    body: impl FnOnce(&mut Guard) -> Result<(), (u32, MpiError)>,
) -> c_int {
    let _span = trace::span(function);
    let Some(mut guard) = enter() else {
        return outside(function);
    };
    match body(&mut guard) {
        Ok(()) => MPI_SUCCESS,
        Err((index, error)) => raise(guard, index, function, &error),
    }
}

/// A call about nothing that has an error handler: MPI_COMM_SELF's is asked.
#[inline]
pub fn on_self(function: &str, body: impl FnOnce(&mut Guard) -> Outcome) -> c_int {
    on_any(function, |guard| body(guard).map_err(|error| (SELF, error)))
}

/// Hands an error to the handler of the communicator at `index`; what the call returns.
#[cold]
pub fn raise(mut guard: Guard, index: u32, function: &str, error: &MpiError) -> c_int {
    if error.class == MPI_ERR_PROC_ABORTED {
        // Who tries again and again is to learn of a revoke, though the calls end at once.
        let _ = glance(&mut guard);
    }
    let Some(comm) = guard.point.objects.comms.get(index) else {
        return decide(Some(guard), MPI_ERRORS_ARE_FATAL, "", 0, function, error);
    };
    let (own, name) = (comm.errhandler, comm.name.clone());
    // Messages name nobody in a communicator that is revoked.
    let is_about_ranks = [MPI_ERR_RANK, MPI_ERR_ROOT].contains(&error.class);
    let interrupted = (comm.revoked && is_about_ranks).then(revoked);
    let error = interrupted.as_ref().unwrap_or(error);
    // MPI_COMM_SELF is the world's: a session has only what the launch has set.
    let handler = if index == SELF && phase() != Phase::Alive {
        initial_errhandler()
    } else {
        own
    };
    let handle = guard.point.objects.comms.handle(index);
    decide(Some(guard), handler, &name, handle, function, error)
}

/// Hands an error to a handler; `object` and its name are what the call was about.
#[cold]
pub fn decide(
    guard: Option<Guard>,
    handler: i32,
    name: &str,
    object: i32,
    function: &str,
    error: &MpiError,
) -> c_int {
    if handler == MPI_ERRORS_RETURN {
        return error.class;
    }
    let own = process().handler(handler);
    if let Ok(Some(own)) = own {
        // The program's function may call MPI.
        drop(guard);
        // SAFETY: MPI_X_create_errhandler was given a handler of this kind of object.
        unsafe { callback::handle(own.call, object, error.class) };
        return error.class;
    }
    let who = guard
        .as_ref()
        .map(|guard| format!("rank {}: ", guard.point.rank));
    let on = if name.is_empty() { "" } else { " on " };
    complain!(
        "ferriband: {}{function}{on}{name}: {}",
        who.unwrap_or_default(),
        sentence(error)
    );
    abort(guard.as_ref(), error.class)
}

/// A call that may be made at any time, and about nothing that has an error handler.
pub fn at_any_time(function: &str, body: impl FnOnce() -> Outcome) -> c_int {
    let _span = trace::span(function);
    let Err(error) = body() else {
        return MPI_SUCCESS;
    };
    match enter() {
        Some(guard) => raise(guard, SELF, function, &error),
        None => decide(None, initial_errhandler(), "", 0, function, &error),
    }
}

/// A call of input and output. No file can be open, so the handler of MPI_FILE_NULL is asked (MPI 5.0, 14.7): the program is given errors unless it has set another.
pub fn on_no_file(function: &str, body: impl FnOnce() -> Outcome) -> c_int {
    let _span = trace::span(function);
    let guard = enter();
    let outcome = if guard.is_some() {
        body()
    } else {
        Err(not_now())
    };
    match outcome {
        Ok(()) => MPI_SUCCESS,
        Err(error) => raise_at_files(guard, function, &error),
    }
}

/// Hands an error to the handler of MPI_FILE_NULL.
#[cold]
pub fn raise_at_files(guard: Option<Guard>, function: &str, error: &MpiError) -> c_int {
    let handler = process().files;
    decide(guard, handler, "", MPI_FILE_NULL, function, error)
}

/// A call when MPI may not be used, and there is no communicator to ask: the initial error handler is.
#[cold]
pub fn outside(function: &str) -> c_int {
    decide(None, initial_errhandler(), "", 0, function, &not_now())
}

/// MPI may not be used.
#[cold]
fn not_now() -> MpiError {
    let when = match phase() {
        Phase::Before => "it was called before MPI_Init",
        Phase::Child => "it was called by a child of a rank, which is none itself",
        _ => "it was called after MPI_Finalize",
    };
    MpiError::with(MPI_ERR_OTHER, when)
}

/// The class's name, its sentence, and what happened.
pub fn sentence(error: &MpiError) -> String {
    let Some((name, text)) = describe(error.class) else {
        let text = process().text(error.class).unwrap_or_default().to_owned();
        return format!("error code {} of the program: {text}", error.class);
    };
    if error.text.is_empty() {
        format!("{name}: {text}")
    } else {
        format!("{name}: {text}: {}", error.text)
    }
}

/// Ends this process, and by the launcher all others.
pub fn abort(guard: Option<&Guard>, code: c_int) -> ! {
    if let Some(guard) = guard {
        guard.transports.leave_report();
    }
    if let Some(host) = guard.and_then(|guard| guard.transports.host.as_ref()) {
        host.set_abort_code(code);
        host.set_life(Life::Aborted);
    }
    // A child of a rank ends alone.
    if phase() != Phase::Child {
        wireup::abort(code, "MPI_Abort");
    }
    // What the program has printed is to be seen; its other ends are not waited for.
    // SAFETY: flushing all streams and leaving take no memory of ours.
    unsafe {
        libc::fflush(std::ptr::null_mut());
        libc::_exit(if code & 0xff == 0 { 1 } else { code & 0xff })
    }
}
