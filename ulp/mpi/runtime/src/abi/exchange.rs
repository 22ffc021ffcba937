//! A send and a receive in one call.

use super::point::{begin, finish, nobody, over, recv, target_of};
use super::raise::on_comm;
use super::short_path;
use super::values::{put, put_status, sink, source};
use crate::coll::state::Guard;
use crate::constants::*;
use crate::errors::{MpiError, Outcome};
use crate::ground::memory::{Buffer, Sink, Source};
use crate::ground::status::Status;
use crate::p2p::loss::dead;
use crate::p2p::request::{Request, Work};
use crate::p2p::{Started, Target};
use std::ffi::{c_int, c_void};

/// A copy of what is sent: the receive may come first.
fn copy(source: &Source) -> Buffer {
    let mut copy = Buffer::new(source.len());
    source.copy_to(&copy.sink());
    copy
}

/// Nothing is received for a call that cannot send.
fn living(guard: &Guard, to: Option<Target>) -> Outcome<Option<Target>> {
    match to {
        Some(to) if guard.point.peers[to.peer as usize].lost => Err(dead(to.peer)),
        to => Ok(to),
    }
}

fn start(guard: &mut Guard, to: Option<Target>, source: Source) -> Outcome<Started> {
    match to {
        Some(to) => guard.start_send(to, source, false),
        None => Ok(Started::Done),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_sendrecv(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: i32,
    dest: c_int,
    sendtag: c_int,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: i32,
    source: c_int,
    recvtag: c_int,
    comm: i32,
    status: *mut Status,
) -> c_int {
    let (out, to) = ((sendbuf, sendcount, sendtype), (dest, sendtag));
    let (into, from) = ((recvbuf, recvcount, recvtype), (source, recvtag));
    // SAFETY: the program's arguments.
    match unsafe { short_path::exchange(out, to, into, from, comm) } {
        Some(Some(found)) => {
            // SAFETY: the program's pointer.
            unsafe { put_status(status, &found) };
            return MPI_SUCCESS;
        }
        // SAFETY: as above.
        Some(None) => unsafe {
            let name = "MPI_Sendrecv";
            return recv(
                name, recvbuf, recvcount, recvtype, source, recvtag, comm, status,
            );
        },
        None => (),
    }
    on_comm("MPI_Sendrecv", comm, |guard, comm| {
        // SAFETY: the program's arguments.
        unsafe {
            let out = self::source(guard, sendbuf, sendcount, sendtype)?;
            let sink = sink(guard, recvbuf, recvcount, recvtype)?;
            let to = living(guard, target_of(guard, comm, dest, sendtag)?)?;
            let request = begin(guard, comm, sink, source, recvtag)?;
            let sent = start(guard, to, out).and_then(|started| over(guard, started));
            sent.inspect_err(|_| forget(guard, request))?;
            finish(guard, request, status)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_sendrecv_replace(
    buf: *mut c_void,
    count: i64,
    datatype: i32,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: i32,
    status: *mut Status,
) -> c_int {
    on_comm("MPI_Sendrecv_replace", comm, |guard, comm| {
        // SAFETY: the program's arguments; what is sent is a copy that is kept until it is over.
        unsafe {
            let copy = copy(&self::source(guard, buf, count, datatype)?);
            let sink = sink(guard, buf, count, datatype)?;
            let to = living(guard, target_of(guard, comm, dest, sendtag)?)?;
            let request = begin(guard, comm, sink, source, recvtag)?;
            let sent = start(guard, to, copy.source()).and_then(|started| over(guard, started));
            sent.inspect_err(|_| forget(guard, request))?;
            finish(guard, request, status)
        }
    })
}

/// The send has failed, so the call has: nothing is to come for its receive.
#[cold]
fn forget(guard: &mut Guard, receive: Option<u32>) {
    if let Some(receive) = receive {
        guard.let_go(receive);
    }
}

/// Begins both; the handle of the request that is over with both. `copy`: what is sent, if it is not the program's.
fn both(
    guard: &mut Guard,
    comm: u32,
    (out, copy): (Source, Option<Buffer>),
    (dest, sendtag): (c_int, c_int),
    sink: Sink,
    (source, recvtag): (c_int, c_int),
) -> Outcome<i32> {
    let to = living(guard, target_of(guard, comm, dest, sendtag)?)?;
    let Some(receive) = begin(guard, comm, sink, source, recvtag)? else {
        // The send's own request would not say that the receive was from nobody.
        let whole = nobody(guard, comm)?;
        if let Some(index) = guard.point.requests.slab.index_of(whole)
            && let Started::Pending(send) = start(guard, to, out)?
        {
            let entry = &mut guard.point.requests[index];
            entry.work = Work::Several(1);
            entry.done = false;
            entry.memory = copy;
            guard.adopt(index, send);
        }
        return Ok(whole);
    };
    let mut whole = Request::special(Work::Several(2), comm);
    whole.memory = copy;
    let whole = guard.point.requests.add(whole)?;
    // The receive may be over already, and is a part of nothing until the send has begun.
    let started = start(guard, to, out).inspect_err(|_| {
        guard.let_go(receive);
        guard.point.requests.slab.remove(whole);
    })?;
    let handle = guard.point.requests.slab.handle(whole);
    guard.adopt(whole, receive);
    match started {
        Started::Pending(send) => guard.adopt(whole, send),
        Started::Done => {
            if let Work::Several(left) = &mut guard.point.requests[whole].work {
                *left -= 1;
                if *left == 0 {
                    guard.finish(whole);
                }
            }
        }
    }
    Ok(handle)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_isendrecv(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: i32,
    dest: c_int,
    sendtag: c_int,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: i32,
    source: c_int,
    recvtag: c_int,
    comm: i32,
    request: *mut i32,
) -> c_int {
    on_comm("MPI_Isendrecv", comm, |guard, comm| {
        if request.is_null() {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        // SAFETY: the program's arguments.
        unsafe {
            let out = self::source(guard, sendbuf, sendcount, sendtype)?;
            let sink = sink(guard, recvbuf, recvcount, recvtype)?;
            let handle = both(
                guard,
                comm,
                (out, None),
                (dest, sendtag),
                sink,
                (source, recvtag),
            )?;
            put(request, handle)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_isendrecv_replace(
    buf: *mut c_void,
    count: i64,
    datatype: i32,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: i32,
    request: *mut i32,
) -> c_int {
    on_comm("MPI_Isendrecv_replace", comm, |guard, comm| {
        if request.is_null() {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        // SAFETY: the program's arguments.
        unsafe {
            let copy = copy(&self::source(guard, buf, count, datatype)?);
            let sink = sink(guard, buf, count, datatype)?;
            let out = copy.source();
            let handle = both(
                guard,
                comm,
                (out, Some(copy)),
                (dest, sendtag),
                sink,
                (source, recvtag),
            )?;
            put(request, handle)
        }
    })
}
