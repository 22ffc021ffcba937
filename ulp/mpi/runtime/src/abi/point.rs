//! Messages between two ranks.

use super::raise::on_comm;
use super::short_path;
use super::values::{
    check_not_revoked, put, put_status, receive_source, receive_tag, send_tag, sink, source,
};
use crate::coll::state::Guard;
use crate::constants::*;
use crate::errors::{MpiError, Outcome};
use crate::ground::memory::Sink;
use crate::ground::status::{FROM_NOBODY, Status, status};
use crate::job::wait::{glance, wait_for, wait_request};
use crate::p2p::request::Request;
use crate::p2p::unexpected::Content;
use crate::p2p::{Started, Target};
use ferriband_mpi_proto::matching;
use std::ffi::{c_int, c_void};

/// Whom a send goes to; none for MPI_PROC_NULL.
#[inline(always)]
pub(super) fn target_of(
    guard: &Guard,
    comm: u32,
    dest: c_int,
    tag: c_int,
) -> Outcome<Option<Target>> {
    let tag = send_tag(tag)?;
    if dest == MPI_PROC_NULL {
        check_not_revoked(guard, comm)?;
        return Ok(None);
    }
    let target = u32::try_from(dest)
        .ok()
        .and_then(|rank| guard.point.target(comm, false, rank, tag));
    if target.is_none() {
        let size = guard.point.objects.comms[comm].peers();
        return Err(MpiError::with(MPI_ERR_RANK, format!("{dest} of {size}")));
    }
    Ok(target)
}

/// Begins a send; nothing for MPI_PROC_NULL.
///
/// # Safety
/// As the standard says of the send's arguments.
#[inline(always)]
unsafe fn start(
    guard: &mut Guard,
    comm: u32,
    buffer: *const c_void,
    count: i64,
    kind: i32,
    dest: c_int,
    tag: c_int,
    synchronous: bool,
) -> Outcome<Started> {
    // SAFETY: the caller's promise.
    let source = unsafe { source(guard, buffer, count, kind) }?;
    match target_of(guard, comm, dest, tag)? {
        Some(target) => guard.start_send(target, source, synchronous),
        None => Ok(Started::Done),
    }
}

/// A send that is over when the call returns.
#[inline(always)]
pub(super) fn over(guard: &mut Guard, started: Started) -> Outcome {
    match started {
        Started::Done => Ok(()),
        Started::Pending(request) => over_at_last(guard, request),
    }
}

#[cold]
fn over_at_last(guard: &mut Guard, request: u32) -> Outcome {
    if let Err(error) = wait_request(guard, request) {
        guard.let_go(request);
        return Err(error);
    }
    let class = guard
        .point
        .requests
        .slab
        .remove(request)
        .map_or(MPI_ERR_INTERN, |request| request.status.error);
    if class != MPI_SUCCESS {
        return Err(MpiError::new(class));
    }
    Ok(())
}

/// The handle of a send that was begun.
fn handle_of(guard: &Guard, started: Started) -> i32 {
    match started {
        Started::Done => guard.point.requests.over,
        Started::Pending(request) => guard.point.requests.slab.handle(request),
    }
}

/// A send of any kind that is over when the call returns.
///
/// # Safety
/// As the standard says of the send's arguments.
#[inline(never)]
unsafe fn send(
    name: &str,
    synchronous: bool,
    buf: *const c_void,
    count: i64,
    datatype: i32,
    dest: c_int,
    tag: c_int,
    comm: i32,
) -> c_int {
    on_comm(name, comm, |guard, comm| {
        // SAFETY: the program's arguments.
        let started = unsafe { start(guard, comm, buf, count, datatype, dest, tag, synchronous) }?;
        over(guard, started)
    })
}

/// The same with a request.
///
/// # Safety
/// As the standard says of the send's arguments.
#[inline(never)]
unsafe fn isend(
    name: &str,
    synchronous: bool,
    buf: *const c_void,
    count: i64,
    datatype: i32,
    dest: c_int,
    tag: c_int,
    comm: i32,
    request: *mut i32,
) -> c_int {
    on_comm(name, comm, |guard, comm| {
        // SAFETY: the program's arguments.
        let started = unsafe { start(guard, comm, buf, count, datatype, dest, tag, synchronous) }?;
        // SAFETY: the program's pointer.
        unsafe { put(request, handle_of(guard, started)) }
    })
}

macro_rules! sends {
    ($blocking:ident, $other:ident, $name:literal, $other_name:literal, $synchronous:literal) => {
        #[unsafe(no_mangle)]
        #[allow(clippy::undocumented_unsafe_blocks)] // the comments are there; the lint does not find them in a macro
        pub unsafe extern "C" fn $blocking(
            buf: *const c_void,
            count: i64,
            datatype: i32,
            dest: c_int,
            tag: c_int,
            comm: i32,
        ) -> c_int {
            // SAFETY: the program's arguments.
            unsafe {
                if !$synchronous
                    && short_path::send(buf, count, datatype, dest, tag, comm).is_some()
                {
                    return MPI_SUCCESS;
                }
                send($name, $synchronous, buf, count, datatype, dest, tag, comm)
            }
        }

        #[unsafe(no_mangle)]
        #[allow(clippy::undocumented_unsafe_blocks)] // as above
        pub unsafe extern "C" fn $other(
            buf: *const c_void,
            count: i64,
            datatype: i32,
            dest: c_int,
            tag: c_int,
            comm: i32,
            request: *mut i32,
        ) -> c_int {
            // SAFETY: the program's arguments and pointer.
            unsafe {
                if !$synchronous
                    && !request.is_null()
                    && let Some(runtime) = short_path::send(buf, count, datatype, dest, tag, comm)
                {
                    request.write(runtime.point.requests.over);
                    return MPI_SUCCESS;
                }
                isend(
                    $other_name,
                    $synchronous,
                    buf,
                    count,
                    datatype,
                    dest,
                    tag,
                    comm,
                    request,
                )
            }
        }
    };
}

sends!(
    ferriband_mpi_send,
    ferriband_mpi_isend,
    "MPI_Send",
    "MPI_Isend",
    false
);
sends!(
    ferriband_mpi_rsend,
    ferriband_mpi_irsend,
    "MPI_Rsend",
    "MPI_Irsend",
    false
);
sends!(
    ferriband_mpi_ssend,
    ferriband_mpi_issend,
    "MPI_Ssend",
    "MPI_Issend",
    true
);

/// Begins a receive; none for MPI_PROC_NULL.
#[inline(always)]
pub(super) fn begin(
    guard: &mut Guard,
    comm: u32,
    sink: Sink,
    source: c_int,
    tag: c_int,
) -> Outcome<Option<u32>> {
    let tag = receive_tag(tag)?;
    let Some(source) = receive_source(guard, comm, source)? else {
        return Ok(None);
    };
    let context = guard.point.objects.comms[comm].context;
    guard
        .start_receive(comm, context, source, tag, sink)
        .map(Some)
}

/// The handle of a receive from MPI_PROC_NULL, which is over.
pub(super) fn nobody(guard: &mut Guard, comm: u32) -> Outcome<i32> {
    let mut nobody = Request::receive(comm, 0, matching::Source::Any, Sink::EMPTY);
    nobody.done = true;
    nobody.status = FROM_NOBODY;
    let index = guard.point.requests.add(nobody)?;
    Ok(guard.point.requests.slab.handle(index))
}

/// Waits for a receive, and writes its status.
///
/// # Safety
/// `to` is null or may be written.
#[inline]
pub(super) unsafe fn finish(guard: &mut Guard, request: Option<u32>, to: *mut Status) -> Outcome {
    let found = match request {
        None => FROM_NOBODY,
        Some(request) => {
            if let Err(error) = wait_request(guard, request) {
                guard.let_go(request);
                return Err(error);
            }
            guard.point.give_up_stranded(request);
            guard
                .point
                .requests
                .slab
                .remove(request)
                .map_or(FROM_NOBODY, |request| request.status)
        }
    };
    // SAFETY: the caller's promise.
    unsafe { put_status(to, &found) };
    if found.error == MPI_SUCCESS {
        Ok(())
    } else {
        Err(MpiError::new(found.error))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_recv(
    buf: *mut c_void,
    count: i64,
    datatype: i32,
    source: c_int,
    tag: c_int,
    comm: i32,
    status: *mut Status,
) -> c_int {
    // SAFETY: the program's arguments and pointer.
    unsafe {
        if let Some(found) = short_path::receive_waited(buf, count, datatype, source, tag, comm) {
            put_status(status, &found);
            return MPI_SUCCESS;
        }
        recv("MPI_Recv", buf, count, datatype, source, tag, comm, status)
    }
}

/// A receive that is over when the call returns, of any kind.
///
/// # Safety
/// As the standard says of the receive's arguments.
#[inline(never)]
pub(super) unsafe fn recv(
    name: &str,
    buf: *mut c_void,
    count: i64,
    datatype: i32,
    source: c_int,
    tag: c_int,
    comm: i32,
    status: *mut Status,
) -> c_int {
    on_comm(name, comm, |guard, comm| {
        // SAFETY: the program's arguments.
        unsafe {
            let sink = sink(guard, buf, count, datatype)?;
            let tag = receive_tag(tag)?;
            let found = match receive_source(guard, comm, source)? {
                None => FROM_NOBODY,
                Some(source) => {
                    let context = guard.point.objects.comms[comm].context;
                    let request = guard.start_receive(comm, context, source, tag, sink)?;
                    if let Err(error) = wait_request(guard, request) {
                        guard.let_go(request);
                        return Err(error);
                    }
                    if guard.point.impaired {
                        guard.point.give_up_stranded(request);
                    }
                    guard.take_waited(request)
                }
            };
            put_status(status, &found);
            match found.error {
                MPI_SUCCESS => Ok(()),
                class => Err(MpiError::new(class)),
            }
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_irecv(
    buf: *mut c_void,
    count: i64,
    datatype: i32,
    source: c_int,
    tag: c_int,
    comm: i32,
    request: *mut i32,
) -> c_int {
    // SAFETY: the program's arguments and pointer.
    unsafe {
        if !request.is_null()
            && let Some(handle) = short_path::receive(buf, count, datatype, source, tag, comm)
        {
            request.write(handle);
            return MPI_SUCCESS;
        }
        irecv(buf, count, datatype, source, tag, comm, request)
    }
}

/// A receive with a request, of any kind.
///
/// # Safety
/// As the standard says of the receive's arguments.
#[inline(never)]
unsafe fn irecv(
    buf: *mut c_void,
    count: i64,
    datatype: i32,
    source: c_int,
    tag: c_int,
    comm: i32,
    request: *mut i32,
) -> c_int {
    on_comm("MPI_Irecv", comm, |guard, comm| {
        // SAFETY: the program's arguments.
        let sink = unsafe { sink(guard, buf, count, datatype) }?;
        let handle = match begin(guard, comm, sink, source, tag)? {
            Some(index) => guard.point.requests.slab.handle(index),
            None => nobody(guard, comm)?,
        };
        // SAFETY: the program's pointer.
        unsafe { put(request, handle) }
    })
}

/// A waiting message that matches, and its status.
pub(super) fn look(
    guard: &mut Guard,
    comm: u32,
    source: matching::Source,
    tag: matching::Tag,
) -> Option<Status> {
    let held = guard.point.objects.comms[comm].point.probe(source, tag)?;
    status_of(guard, comm, held)
}

/// What a waiting message of the communicator is.
pub(super) fn status_of(guard: &Guard, comm: u32, held: u32) -> Option<Status> {
    let message = guard.point.unexpected.held.get(held)?;
    let length = match &message.content {
        Content::Bytes(bytes) => bytes.len() as u64,
        Content::Remote { length, .. } => *length,
        Content::Own { request } => guard.point.requests[*request].source.len() as u64,
    };
    let rank = guard.point.objects.comms[comm].rank_of(0, message.from)?;
    Some(status(rank, message.tag, MPI_SUCCESS, length))
}

/// Whether no message can come any more that a probe looks for.
pub(super) fn is_hopeless(guard: &Guard, comm: u32, source: matching::Source) -> bool {
    guard.point.impaired && guard.point.is_hopeless(comm, 0, source)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_probe(
    source: c_int,
    tag: c_int,
    comm: i32,
    status: *mut Status,
) -> c_int {
    on_comm("MPI_Probe", comm, |guard, comm| {
        let tag = receive_tag(tag)?;
        let mut found = Some(FROM_NOBODY);
        if let Some(source) = receive_source(guard, comm, source)? {
            found = None;
            wait_for(guard, |guard| {
                found = look(guard, comm, source, tag);
                found.is_some() || is_hopeless(guard, comm, source)
            })?;
            if found.is_none() {
                return Err(guard.point.hopeless(comm));
            }
        }
        if let Some(found) = found {
            // SAFETY: the program's pointer.
            unsafe { put_status(status, &found) };
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_iprobe(
    source: c_int,
    tag: c_int,
    comm: i32,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    on_comm("MPI_Iprobe", comm, |guard, comm| {
        let tag = receive_tag(tag)?;
        let found = match receive_source(guard, comm, source)? {
            None => Some(FROM_NOBODY),
            Some(source) => {
                let mut found = look(guard, comm, source, tag);
                if found.is_none() {
                    glance(guard)?;
                    found = look(guard, comm, source, tag);
                }
                if found.is_none() && is_hopeless(guard, comm, source) {
                    return Err(guard.point.hopeless(comm));
                }
                found
            }
        };
        // SAFETY: the program's pointers.
        unsafe {
            put(flag, c_int::from(found.is_some()))?;
            if let Some(found) = found {
                put_status(status, &found);
            }
        }
        Ok(())
    })
}
