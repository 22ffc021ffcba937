//! Arguments: what the program passed, checked.

use crate::coll::state::Guard;
use crate::constants::*;
use crate::errors::{MpiError, Outcome};
use crate::ground::array::Array;
use crate::ground::layout::Layout;
use crate::ground::memory::{Sink, Source};
use crate::ground::status::{EMPTY, Status};
use crate::objects::datatype;
use crate::p2p::circles::revoked;
use crate::p2p::runtime::Runtime;
use ferriband_mpi_data::View;
use ferriband_mpi_proto::matching;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

/// How many elements.
#[inline(always)]
fn elements(count: i64) -> Outcome<usize> {
    usize::try_from(count).map_err(|_| MpiError::with(MPI_ERR_COUNT, format!("{count} elements")))
}

/// Bytes of `count` elements of `size` bytes.
#[inline(always)]
fn product(count: i64, size: usize) -> Outcome<usize> {
    elements(count)?
        .checked_mul(size)
        .filter(|bytes| *bytes <= isize::MAX as usize)
        .ok_or_else(|| {
            MpiError::with(
                MPI_ERR_COUNT,
                format!("{count} elements are more than memory holds"),
            )
        })
}

/// Bytes that `count` elements are on their way.
pub fn bytes(guard: &Guard, count: i64, kind: i32) -> Outcome<usize> {
    match datatype::size(kind) {
        Some(size) => product(count, size),
        None => {
            let size = guard.point.objects.types.committed(kind)?.size();
            product(count, usize::try_from(size).unwrap_or(0))
        }
    }
}

/// Bytes from one element to the next.
pub fn extent(guard: &Guard, kind: i32) -> Outcome<i64> {
    match datatype::size(kind) {
        Some(size) => Ok(size as i64),
        None => Ok(guard.point.objects.types.committed(kind)?.extent()),
    }
}

/// What is sent.
///
/// # Safety
/// As the standard says of a send buffer.
#[inline(always)]
pub unsafe fn source(
    guard: &mut Guard,
    buffer: *const c_void,
    count: i64,
    kind: i32,
) -> Outcome<Source> {
    // SAFETY: the caller's promise, here and below.
    unsafe {
        let Some(size) = datatype::size(kind) else {
            return Ok(match derived(guard, buffer.cast_mut(), count, kind)? {
                Place::Plain(address, length) => Source::new(address, length),
                Place::LaidOut(layout) => Source::laid_out(&layout),
            });
        };
        let length = product(count, size)?;
        if is_no_buffer(buffer) && length != 0 {
            return Err(MpiError::new(MPI_ERR_BUFFER));
        }
        Ok(Source::new(buffer.cast(), length))
    }
}

/// Where something is received.
///
/// # Safety
/// As the standard says of a receive buffer.
#[inline(always)]
pub unsafe fn sink(guard: &mut Guard, buffer: *mut c_void, count: i64, kind: i32) -> Outcome<Sink> {
    // SAFETY: the caller's promise, here and below.
    unsafe {
        let Some(size) = datatype::size(kind) else {
            return Ok(match derived(guard, buffer, count, kind)? {
                Place::Plain(address, length) => Sink::new(address, length),
                Place::LaidOut(layout) => Sink::laid_out(&layout),
            });
        };
        let length = product(count, size)?;
        if is_no_buffer(buffer) && length != 0 {
            return Err(MpiError::new(MPI_ERR_BUFFER));
        }
        Ok(Sink::new(buffer.cast(), length))
    }
}

/// How elements lie: in one run of bytes, or with gaps.
enum Place {
    Plain(*mut u8, usize),
    LaidOut(Arc<Layout>),
}

/// Addresses below this are nobody's: a null pointer with a displacement that is none of an address.
const FIRST_PAGE: usize = 4096;

/// Where elements of a type lie that may have gaps. The call keeps the layout.
#[inline(never)]
fn derived(guard: &mut Guard, buffer: *mut c_void, count: i64, kind: i32) -> Outcome<Place> {
    let datatype = guard.point.objects.types.committed(kind)?;
    elements(count)?;
    let view = View::new(&datatype, count)?;
    let run = view.contiguous();
    let first = run.unwrap_or_else(|| view.span()).offset;
    let at = buffer.cast::<u8>().wrapping_offset(first as isize);
    // A null pointer is MPI_BOTTOM: the displacements are addresses then.
    if is_no_buffer(buffer) && at.addr() < FIRST_PAGE && view.size() != 0 {
        return Err(MpiError::new(MPI_ERR_BUFFER));
    }
    if let Some(run) = run {
        let at = if buffer.is_null() {
            std::ptr::with_exposed_provenance_mut(at.addr())
        } else {
            at
        };
        return Ok(Place::Plain(at, run.len as usize));
    }
    let layout = Arc::new(Layout::new(view, buffer.expose_provenance()));
    guard.keep(Arc::clone(&layout));
    Ok(Place::LaidOut(layout))
}

/// Whether nothing lies there: a null pointer, or MPI_IN_PLACE where there is no place to be in.
#[inline]
pub(super) fn is_no_buffer(buffer: *const c_void) -> bool {
    buffer.addr() <= MPI_IN_PLACE
}

/// Whether the buffer is MPI_IN_PLACE.
pub fn is_in_place(buffer: *const c_void) -> bool {
    buffer.addr() == MPI_IN_PLACE
}

/// What is sent and what is received begin in different places, unless there is nothing of one. MPI forbids a collective's buffers to overlap (MPI 5.0, 6.1 and 6.2.1: "no aliasing");
/// that they begin at the same byte, as where MPI_IN_PLACE was meant, is what is found out. Elements with gaps may lie between one another, so nothing is said of them.
#[inline]
pub fn are_distinct(send: &Source, recv: &Sink) -> Outcome {
    if send.is_empty() || recv.is_empty() {
        return Ok(());
    }
    let same = send.address().is_some_and(|address| {
        recv.pointer()
            .is_some_and(|start| start.addr() as u64 == address)
    });
    if same { Err(aliased()) } else { Ok(()) }
}

/// The error that says so.
#[cold]
pub fn aliased() -> MpiError {
    MpiError::with(
        MPI_ERR_BUFFER,
        "what is sent lies where something is received: MPI_IN_PLACE says that it does, where that is allowed",
    )
}

/// The tag of a send.
#[inline(always)]
pub fn send_tag(tag: c_int) -> Outcome<i32> {
    if tag < 0 {
        return Err(MpiError::with(MPI_ERR_TAG, format!("{tag}")));
    }
    Ok(tag)
}

/// The tag of a receive.
#[inline(always)]
pub fn receive_tag(tag: c_int) -> Outcome<matching::Tag> {
    match tag {
        MPI_ANY_TAG => Ok(matching::Tag::Any),
        tag => Ok(matching::Tag::Is(send_tag(tag)?)),
    }
}

/// The source of a receive; none for MPI_PROC_NULL.
#[inline(always)]
pub fn receive_source(
    runtime: &Runtime,
    comm: u32,
    source: c_int,
) -> Outcome<Option<matching::Source>> {
    match source {
        MPI_ANY_SOURCE => Ok(Some(matching::Source::Any)),
        MPI_PROC_NULL => check_not_revoked(runtime, comm).map(|()| None),
        rank => Ok(Some(matching::Source::Rank(rank_of(
            runtime,
            comm,
            rank,
            MPI_ERR_RANK,
        )?))),
    }
}

/// What goes to nobody ends in a communicator that is revoked, too.
pub fn check_not_revoked(runtime: &Runtime, comm: u32) -> Outcome {
    match runtime.point.objects.comms[comm].revoked {
        true => Err(revoked()),
        false => Ok(()),
    }
}

/// A rank of the communicator.
#[inline(always)]
pub fn rank_of(runtime: &Runtime, comm: u32, rank: c_int, class: i32) -> Outcome<u32> {
    let size = runtime.point.objects.comms[comm].peers();
    u32::try_from(rank)
        .ok()
        .filter(|rank| *rank < size)
        .ok_or_else(|| MpiError::with(class, format!("{rank} of {size}")))
}

/// Writes `value` where the program wants it; a null pointer is an error.
///
/// # Safety
/// `to` is null or may be written.
#[inline]
pub unsafe fn put<T>(to: *mut T, value: T) -> Outcome {
    if to.is_null() {
        return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
    }
    // SAFETY: the caller's promise.
    unsafe { to.write(value) };
    Ok(())
}

/// Writes a status, unless the program ignores it. MPI_ERROR is left alone, as the standard demands of calls with one status; but an empty one has it.
///
/// # Safety
/// `to` is null or may be written.
#[inline(always)]
pub unsafe fn put_status(to: *mut Status, status: &Status) {
    if !to.is_null() {
        // SAFETY: the caller's promise.
        unsafe {
            let is_empty = *status == EMPTY;
            let error = if is_empty { MPI_SUCCESS } else { (*to).error };
            to.write(Status { error, ..*status });
        }
    }
}

/// A string of the program, cut at what is no UTF-8.
///
/// # Safety
/// `text` is null or ends in a zero byte.
pub unsafe fn text<'a>(text: *const c_char) -> Outcome<std::borrow::Cow<'a, str>> {
    if text.is_null() {
        return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy())
}

/// Writes `text` with its end mark to `to`, which has room for `limit` bytes, and its length to `length`.
///
/// # Safety
/// `to` may be written for `limit` bytes, `length` may be written or is null.
pub unsafe fn put_string(text: &str, to: *mut c_char, limit: i32, length: *mut c_int) -> Outcome {
    if to.is_null() {
        return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
    }
    let room = usize::try_from(limit).unwrap_or(1).saturating_sub(1);
    let shown = &text.as_bytes()[..text.len().min(room)];
    // SAFETY: at most `limit` bytes with the end mark.
    unsafe {
        std::ptr::copy_nonoverlapping(shown.as_ptr(), to.cast::<u8>(), shown.len());
        to.add(shown.len()).write(0);
        if !length.is_null() {
            length.write(c_int::try_from(shown.len()).unwrap_or(c_int::MAX));
        }
    }
    Ok(())
}

/// The counts of an array.
///
/// # Safety
/// The array has `length` elements or is null.
pub unsafe fn list(array: &Array, length: usize) -> Outcome<Vec<i64>> {
    array.check(length)?;
    // SAFETY: the caller's promise.
    Ok((0..length)
        .map(|index| unsafe { array.count(index) })
        .collect())
}

/// The elements of an array whose width is always the same.
///
/// # Safety
/// The array has `length` elements or is null.
pub unsafe fn longs<T: Copy>(array: *const T, length: usize) -> Outcome<Vec<T>> {
    if array.is_null() && length > 0 {
        return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
    }
    // SAFETY: the caller's promise.
    Ok((0..length)
        .map(|index| unsafe { array.add(index).read_unaligned() })
        .collect())
}
