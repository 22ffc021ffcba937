//! Messages that are taken out before they are received: MPI_Mprobe and its family.

use super::point::{finish, is_hopeless, nobody, status_of};
use super::raise::{on_any, on_comm};
use super::values::{put, put_status, receive_source, receive_tag, sink};
use crate::coll::state::Guard;
use crate::constants::*;
use crate::errors::{MpiError, Outcome};
use crate::ground::memory::Sink;
use crate::ground::status::{FROM_NOBODY, Status};
use crate::job::wait::{glance, wait_for};
use crate::objects::comms::SELF;
use crate::p2p::request::Request;
use ferriband_mpi_proto::matching;
use std::ffi::{c_int, c_void};

/// Takes a waiting message out: its handle and status.
fn take(
    guard: &mut Guard,
    comm: u32,
    source: matching::Source,
    tag: matching::Tag,
) -> Option<(i32, Status)> {
    let held = guard.point.objects.comms[comm].point.take(source, tag)?;
    let status = status_of(guard, comm, held)?;
    guard.point.unexpected.probed.insert(held, comm);
    Some((guard.point.unexpected.held.handle(held), status))
}

/// Gives the program the message.
///
/// # Safety
/// The program's pointers.
unsafe fn show((handle, found): (i32, Status), message: *mut i32, status: *mut Status) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe {
        put(message, handle)?;
        put_status(status, &found);
    }
    Ok(())
}

const NO_PROC: (i32, Status) = (MPI_MESSAGE_NO_PROC, FROM_NOBODY);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_mprobe(
    source: c_int,
    tag: c_int,
    comm: i32,
    message: *mut i32,
    status: *mut Status,
) -> c_int {
    on_comm("MPI_Mprobe", comm, |guard, comm| {
        let tag = receive_tag(tag)?;
        let mut found = Some(NO_PROC);
        if let Some(source) = receive_source(guard, comm, source)? {
            found = None;
            wait_for(guard, |guard| {
                found = take(guard, comm, source, tag);
                found.is_some() || is_hopeless(guard, comm, source)
            })?;
        }
        let found = found.ok_or_else(|| guard.point.hopeless(comm))?;
        // SAFETY: the program's pointers.
        unsafe { show(found, message, status) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_improbe(
    source: c_int,
    tag: c_int,
    comm: i32,
    flag: *mut c_int,
    message: *mut i32,
    status: *mut Status,
) -> c_int {
    on_comm("MPI_Improbe", comm, |guard, comm| {
        let tag = receive_tag(tag)?;
        let found = match receive_source(guard, comm, source)? {
            None => Some(NO_PROC),
            Some(source) => {
                let mut found = take(guard, comm, source, tag);
                if found.is_none() {
                    glance(guard)?;
                    found = take(guard, comm, source, tag);
                }
                found
            }
        };
        // SAFETY: the program's pointers.
        unsafe {
            put(flag, c_int::from(found.is_some()))?;
            match found {
                Some(found) => show(found, message, status),
                None => put(message, MPI_MESSAGE_NULL),
            }
        }
    })
}

/// A message that the program names: itself and its communicator; none for that of MPI_PROC_NULL.
///
/// # Safety
/// The program's pointer.
unsafe fn named(
    guard: &mut Guard,
    message: *mut i32,
) -> Result<Option<(u32, u32)>, (u32, MpiError)> {
    let bad = |text: &'static str| (SELF, MpiError::with(MPI_ERR_REQUEST, text));
    if message.is_null() {
        return Err((SELF, MpiError::with(MPI_ERR_ARG, "a null pointer")));
    }
    // SAFETY: the caller's promise, here and below.
    let handle = unsafe { message.read() };
    if handle == MPI_MESSAGE_NO_PROC {
        // SAFETY: as above.
        unsafe { message.write(MPI_MESSAGE_NULL) };
        return Ok(None);
    }
    let held = guard
        .point
        .unexpected
        .held
        .index_of(handle)
        .ok_or_else(|| bad("no such message"))?;
    let comm = guard
        .point
        .unexpected
        .probed
        .get(&held)
        .ok_or_else(|| bad("no such message"))?;
    Ok(Some((held, *comm)))
}

/// Begins to receive a message that was taken out.
///
/// # Safety
/// The program's pointer.
unsafe fn begin(
    guard: &mut Guard,
    (held, comm): (u32, u32),
    sink: Sink,
    message: *mut i32,
) -> Outcome<u32> {
    let context = guard.point.objects.comms[comm].context;
    let request = Request::receive(comm, context, matching::Source::Any, sink);
    let request = guard.point.requests.add(request)?;
    guard.point.unexpected.probed.remove(&held);
    // SAFETY: the caller's promise.
    unsafe { message.write(MPI_MESSAGE_NULL) };
    let met = guard.deliver_held(held, request);
    met.inspect_err(|_| guard.let_go(request))?;
    Ok(request)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_mrecv(
    buf: *mut c_void,
    count: i64,
    datatype: i32,
    message: *mut i32,
    status: *mut Status,
) -> c_int {
    on_any("MPI_Mrecv", |guard| {
        // SAFETY: the program's arguments, here and below.
        let found = unsafe { named(guard, message) }?;
        let comm = found.map_or(SELF, |(_, comm)| comm);
        let body = |guard: &mut Guard| {
            // SAFETY: as above.
            unsafe {
                let sink = sink(guard, buf, count, datatype)?;
                let request = match found {
                    Some(found) => Some(begin(guard, found, sink, message)?),
                    None => None,
                };
                finish(guard, request, status)
            }
        };
        body(guard).map_err(|error| (comm, error))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_imrecv(
    buf: *mut c_void,
    count: i64,
    datatype: i32,
    message: *mut i32,
    request: *mut i32,
) -> c_int {
    on_any("MPI_Imrecv", |guard| {
        // SAFETY: the program's arguments, here and below.
        let found = unsafe { named(guard, message) }?;
        let comm = found.map_or(SELF, |(_, comm)| comm);
        let body = |guard: &mut Guard| {
            // SAFETY: as above.
            unsafe {
                let sink = sink(guard, buf, count, datatype)?;
                let handle = match found {
                    Some(found) => {
                        let index = begin(guard, found, sink, message)?;
                        guard.point.requests.slab.handle(index)
                    }
                    None => nobody(guard, SELF)?,
                };
                put(request, handle)
            }
        };
        body(guard).map_err(|error| (comm, error))
    })
}
