//! What becomes of an error: the handler of the object decides.

use super::state::{Guard, Phase, enter, phase};
use crate::constants::*;
use crate::errors::{MpiError, Outcome, describe};
use crate::runtime::{SELF, WORLD};
use ferriband_mpi_proto::segment::Life;
use std::ffi::c_int;

/// A call about the communicator that `comm` names.
#[inline]
pub fn on_comm(function: &str, comm: i32, body: impl FnOnce(&mut Guard, u32) -> Outcome) -> c_int {
    let Some(mut guard) = enter() else {
        return outside(function);
    };
    let Some(index) = guard.comm_index(comm) else {
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
pub fn raise(guard: Guard, index: u32, function: &str, error: &MpiError) -> c_int {
    let handler = guard
        .comms
        .get(index)
        .map_or(MPI_ERRORS_ARE_FATAL, |comm| comm.errhandler);
    if handler == MPI_ERRORS_RETURN {
        return error.class;
    }
    let what = guard
        .comms
        .get(index)
        .map_or(String::new(), |comm| comm.name.clone());
    let rank = guard.rank;
    eprintln!(
        "ferriband: rank {rank}: {function} on {what}: {}",
        sentence(error)
    );
    abort(Some(&guard), error.class)
}

/// A call when MPI may not be used.
#[cold]
pub fn outside(function: &str) -> c_int {
    let when = match phase() {
        Phase::Before => "before MPI_Init",
        _ => "after MPI_Finalize",
    };
    eprintln!("ferriband: {function} was called {when}");
    abort(None, MPI_ERR_OTHER)
}

/// The class's name, its sentence, and what happened.
pub fn sentence(error: &MpiError) -> String {
    let (name, text) =
        describe(error.class).unwrap_or(("an error", "of a class that the program made"));
    if error.text.is_empty() {
        format!("{name}: {text}")
    } else {
        format!("{name}: {text}: {}", error.text)
    }
}

/// Ends this process, and by the launcher all others.
pub fn abort(guard: Option<&Guard>, code: c_int) -> ! {
    if let Some(host) = guard.and_then(|guard| guard.host.as_ref()) {
        host.set_abort_code(code);
        host.set_life(Life::Aborted);
    }
    // What the program has printed is to be seen; its other ends are not waited for.
    // SAFETY: flushing all streams and leaving take no memory of ours.
    unsafe {
        libc::fflush(std::ptr::null_mut());
        libc::_exit(if code & 0xff == 0 { 1 } else { code & 0xff })
    }
}

/// Keeps the launcher's knowledge of whether an error of the world ends this rank.
pub fn note_fatal(guard: &Guard) {
    if let Some(host) = &guard.host {
        host.set_fatal(guard.comms[WORLD].errhandler != MPI_ERRORS_RETURN);
    }
}
