//! What most calls are, in as few steps as can be: messages of a predefined type in one run of bytes, of a process in which one thread calls and nothing is written down.
//!
//! Each of these does all of a call, or nothing: what is not as they want it, wrong arguments too, is left to the way that all calls can go.

use super::values::is_no_buffer;
use crate::coll::state::{Alone, alone};
use crate::constants::MPI_ANY_TAG;
use crate::ground::memory::{Sink, Source};
use crate::ground::status::Status;
use crate::objects::datatype;
use ferriband_mpi_proto::matching::Tag;
use std::ffi::{c_int, c_void};

/// Elements of which no more are sent or received here.
const MOST: u64 = 1 << 24;

/// Bytes of so many elements.
#[inline(always)]
fn length(count: i64, kind: i32) -> Option<usize> {
    let size = datatype::size(kind)?;
    (count.cast_unsigned() <= MOST).then(|| count as usize * size)
}

/// Sends a short message to a rank that shares memory with this one: over when this returns the runtime.
///
/// # Safety
/// As the standard says of the send's arguments.
#[inline(always)]
pub(super) unsafe fn send(
    buffer: *const c_void,
    count: i64,
    kind: i32,
    dest: c_int,
    tag: c_int,
    comm: i32,
) -> Option<Alone> {
    let mut runtime = alone()?;
    let length = length(count, kind)?;
    if tag < 0 || is_no_buffer(buffer) || length > runtime.transports.eager() {
        return None;
    }
    let comm = runtime.point.objects.comms.index_of(comm)?;
    let target = runtime
        .point
        .target(comm, false, u32::try_from(dest).ok()?, tag)?;
    // SAFETY: the caller's promise.
    let source = unsafe { Source::new(buffer.cast(), length) };
    runtime.try_send(&target, &source).then_some(runtime)
}

/// Begins a receive from one rank; the handle of its request.
///
/// # Safety
/// As the standard says of the receive's arguments.
#[inline(always)]
pub(super) unsafe fn receive(
    buffer: *mut c_void,
    count: i64,
    kind: i32,
    source: c_int,
    tag: c_int,
    comm: i32,
) -> Option<i32> {
    // SAFETY: the caller's promise.
    let (mut runtime, comm, source, tag, sink) =
        unsafe { receiver(buffer, count, kind, source, tag, comm) }?;
    let request = runtime.point.try_post(comm, 0, source, tag, sink)?;
    Some(runtime.point.requests.slab.handle(request))
}

/// Waits for a message from one rank that shares memory with this one, a while; its status.
///
/// # Safety
/// As the standard says of the receive's arguments.
#[inline(always)]
pub(super) unsafe fn receive_waited(
    buffer: *mut c_void,
    count: i64,
    kind: i32,
    source: c_int,
    tag: c_int,
    comm: i32,
) -> Option<Status> {
    // SAFETY: the caller's promise.
    let (mut runtime, comm, source, tag, sink) =
        unsafe { receiver(buffer, count, kind, source, tag, comm) }?;
    receive_straight(&mut runtime, (comm, source, tag), sink)
}

/// Sends a short message, and waits a while for one: none if neither has happened, else the status of what has come, if it has.
///
/// # Safety
/// As the standard says of the arguments of send and receive.
#[inline(always)]
pub(super) unsafe fn exchange(
    (out, out_count, out_kind): (*const c_void, i64, i32),
    (dest, send_tag): (c_int, c_int),
    (buffer, count, kind): (*mut c_void, i64, i32),
    (source, tag): (c_int, c_int),
    comm: i32,
) -> Option<Option<Status>> {
    // SAFETY: the caller's promise, here and below.
    let (runtime, index, source, tag, sink) =
        unsafe { receiver(buffer, count, kind, source, tag, comm) }?;
    // What is wrong with the receive is said before anything is sent.
    let from = runtime.point.target(index, false, source, 0)?.peer;
    if runtime.point.peers.get(from as usize)?.lost {
        return None;
    }
    // SAFETY: as above.
    let mut runtime = unsafe { send(out, out_count, out_kind, dest, send_tag, comm) }?;
    Some(receive_straight(&mut runtime, (index, source, tag), sink))
}

/// Waits a while for a message, unless a collective has to go on meanwhile.
#[inline(always)]
fn receive_straight(runtime: &mut Alone, name: (u32, u32, Tag), sink: Sink) -> Option<Status> {
    if runtime.coll.is_at_work() {
        return None;
    }
    let (comm, source, tag) = name;
    runtime.p2p.receive_straight(comm, source, tag, sink)
}

/// What a receive from one rank into one run of bytes is about: the runtime, the communicator's index, the rank in it, the tag, the bytes.
///
/// # Safety
/// As the standard says of the receive's arguments.
#[inline(always)]
unsafe fn receiver(
    buffer: *mut c_void,
    count: i64,
    kind: i32,
    source: c_int,
    tag: c_int,
    comm: i32,
) -> Option<(Alone, u32, u32, Tag, Sink)> {
    let runtime = alone()?;
    let length = length(count, kind)?;
    if is_no_buffer(buffer) {
        return None;
    }
    let tag = match tag {
        MPI_ANY_TAG => Tag::Any,
        0.. => Tag::Is(tag),
        _ => return None,
    };
    let comm = runtime.point.objects.comms.index_of(comm)?;
    let source = u32::try_from(source).ok()?;
    // SAFETY: the caller's promise.
    let sink = unsafe { Sink::new(buffer.cast(), length) };
    Some((runtime, comm, source, tag, sink))
}
