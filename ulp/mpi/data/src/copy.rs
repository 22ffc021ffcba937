//! Moving data between an application's buffers and packed bytes.
//!
//! The one place of this crate, beside the reductions, that touches the application's memory: through addresses, never through
//! references. Runs go to `memcpy`; rows of small blocks, which a strided type consists of, have loops of their own for 1, 2, 4,
//! 8 and 16 bytes, and short runs are copied inline, since calling a function for 12 bytes costs more than moving them.
//!
//! Buffers here never overlap what they are copied to, and where elements of a receive buffer overlap each other the last one
//! written is not defined: MPI forbids both (5.1.11, 5.1.12).

use crate::datatype::Datatype;
use crate::error::Error;
use crate::external;
use crate::program::{Entry, Seq, Sink};
use crate::view::{Segment, View};
use ferriband_arithmetic::Kind;

/// Where `count` elements of a type are being packed from or unpacked to: the elements, the buffer, and a position in the stream
/// of packed bytes. Pieces may be of any size; seeking costs as much as going on.
#[derive(Debug, Clone)]
pub struct Cursor {
    view: View,
    base: usize,
    position: i64,
}

impl Cursor {
    /// At the beginning of the elements in the buffer at `base`, which is the address that MPI functions get as `buf`
    /// (0 for MPI_BOTTOM).
    pub fn new(view: View, base: usize) -> Self {
        Self {
            view,
            base,
            position: 0,
        }
    }

    /// The elements.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The address that was given.
    pub fn base(&self) -> usize {
        self.base
    }

    /// Bytes of packed data behind the cursor.
    pub fn position(&self) -> i64 {
        self.position
    }

    /// Bytes of packed data before the cursor.
    pub fn remaining(&self) -> i64 {
        self.view.size() - self.position
    }

    /// Moves to a position, at most the end.
    pub fn seek(&mut self, position: i64) {
        self.position = position.clamp(0, self.view.size());
    }

    /// The segments of memory from the position on; moves the cursor past them. Returns how many of `out` were filled, and the
    /// bytes in them; both are 0 at the end.
    pub fn segments(&mut self, limit: i64, out: &mut [Segment]) -> (usize, i64) {
        let filled = self.view.segments(self.base, self.position, limit, out);
        self.position += filled.bytes;
        (filled.segments, filled.bytes)
    }

    /// Packs the next bytes, at most `room`, to `out`, and returns how many there were.
    ///
    /// # Safety
    ///
    /// The elements can be read at the cursor's base, `room` bytes can be written at `out`, and the two do not overlap.
    pub unsafe fn pack(&mut self, out: *mut u8, room: usize) -> usize {
        let len = self
            .remaining()
            .min(i64::try_from(room).unwrap_or(i64::MAX));
        // SAFETY: the caller's promise.
        unsafe { self.view.pack(self.base, self.position, out, len as usize) };
        self.position += len;
        len as usize
    }

    /// Unpacks the next bytes from `input`, at most `len`, and returns how many it took: fewer only at the end.
    ///
    /// # Safety
    ///
    /// The elements can be written at the cursor's base, `len` bytes can be read at `input`, and the two do not overlap.
    pub unsafe fn unpack(&mut self, input: *const u8, len: usize) -> usize {
        let len = self.remaining().min(i64::try_from(len).unwrap_or(i64::MAX));
        // SAFETY: the caller's promise.
        unsafe {
            self.view
                .unpack(self.base, self.position, input, len as usize)
        };
        self.position += len;
        len as usize
    }
}

/// Without a cursor: for who keeps positions himself.
impl View {
    /// Packs `len` bytes of the stream from `from` on to `out`; panics if there are fewer.
    ///
    /// # Safety
    ///
    /// The elements can be read at `base`, `len` bytes can be written at `out`, and the two do not overlap.
    pub unsafe fn pack(&self, base: usize, from: i64, out: *mut u8, len: usize) {
        let to = self.end(from, len);
        self.walk(from, to, &mut Pack { base, out });
    }

    /// Unpacks `len` bytes at `input` to the stream's bytes from `from` on; panics if there are fewer.
    ///
    /// # Safety
    ///
    /// The elements can be written at `base`, `len` bytes can be read at `input`, and the two do not overlap.
    pub unsafe fn unpack(&self, base: usize, from: i64, input: *const u8, len: usize) {
        let to = self.end(from, len);
        self.walk(from, to, &mut Unpack { base, input });
    }

    /// The end of `len` bytes from `from` on.
    fn end(&self, from: i64, len: usize) -> i64 {
        let end = i64::try_from(len)
            .ok()
            .and_then(|len| from.checked_add(len))
            .filter(|end| from >= 0 && *end <= self.size());
        end.expect("a part of the stream")
    }
}

/// MPI_Pack: packs `count` elements at `base` into a buffer of `size` bytes from `position` on, and returns the position behind them.
/// [`Error::Room`] if they do not fit, or if the position is outside.
///
/// # Safety
///
/// The elements can be read at `base`, `size` bytes can be written at `out`, and the two do not overlap.
pub unsafe fn pack(
    datatype: &Datatype,
    count: i64,
    base: usize,
    out: *mut u8,
    size: i64,
    position: i64,
) -> Result<i64, Error> {
    let view = View::new(datatype, count)?;
    let len = view.size();
    room(len, size, position)?;
    // SAFETY: the caller's promise, less the bytes before the position.
    unsafe { Cursor::new(view, base).pack(out.wrapping_add(position as usize), len as usize) };
    Ok(position + len)
}

/// MPI_Unpack: unpacks `count` elements to `base` from a buffer of `size` bytes at `position`, and returns the position behind them.
/// [`Error::Room`] if the buffer holds fewer, or if the position is outside.
///
/// # Safety
///
/// The elements can be written at `base`, `size` bytes can be read at `input`, and the two do not overlap.
pub unsafe fn unpack(
    datatype: &Datatype,
    count: i64,
    base: usize,
    input: *const u8,
    size: i64,
    position: i64,
) -> Result<i64, Error> {
    let view = View::new(datatype, count)?;
    let len = view.size();
    room(len, size, position)?;
    let input = input.wrapping_add(position as usize);
    // SAFETY: the caller's promise, less the bytes before the position.
    unsafe { Cursor::new(view, base).unpack(input, len as usize) };
    Ok(position + len)
}

/// That `needed` bytes fit into `size` from `position` on.
fn room(needed: i64, size: i64, position: i64) -> Result<(), Error> {
    let room = match position {
        0.. => size.saturating_sub(position),
        _ => -1,
    };
    if room < needed {
        return Err(Error::Room { needed, room });
    }
    Ok(())
}

/// Bytes that go through a buffer of their own when neither side is contiguous.
const CHUNK: usize = 16 << 10;

/// Copies elements from one buffer to others of another type, as if they were sent: at most what both hold. Returns the bytes.
///
/// # Safety
///
/// `from`'s elements can be read at its base, `to`'s written at its base, and the two do not overlap.
pub unsafe fn copy(from: &View, from_base: usize, to: &View, to_base: usize) -> i64 {
    let len = from.size().min(to.size());
    let mut source = Cursor::new(from.clone(), from_base);
    let mut target = Cursor::new(to.clone(), to_base);
    if let Some(span) = to.contiguous() {
        let out = place(to_base, span.offset).cast_mut();
        // SAFETY: the range is the target's elements, which the caller promises.
        unsafe { source.pack(out, len as usize) };
    } else if let Some(span) = from.contiguous() {
        // SAFETY: the range is the source's elements, which the caller promises.
        unsafe { target.unpack(place(from_base, span.offset), len as usize) };
    } else {
        let mut chunk = [0_u8; CHUNK];
        while target.position() < len {
            let wanted = (len - target.position()).min(CHUNK as i64) as usize;
            // SAFETY: the chunk is ours; the elements are the caller's promise.
            let got = unsafe { source.pack(chunk.as_mut_ptr(), wanted) };
            // SAFETY: as above.
            unsafe { target.unpack(chunk.as_ptr(), got) };
        }
    }
    len
}

/// The memory at a place of a buffer. The application gave its address away, so any pointer to it is as good as its own.
fn place(base: usize, offset: i64) -> *const u8 {
    std::ptr::with_exposed_provenance(base.wrapping_add(offset as usize))
}

struct Pack {
    base: usize,
    out: *mut u8,
}

impl Sink for Pack {
    #[inline]
    fn run(&mut self, offset: i64, len: i64, _: Kind) -> bool {
        // SAFETY: runs are elements of the view, which can be read; `pack`'s caller has room for all of them.
        unsafe { transfer(place(self.base, offset), self.out, len as usize) };
        self.out = self.out.wrapping_add(len as usize);
        true
    }

    fn strided(&mut self, offset: i64, block: i64, count: i64, stride: i64, _: Kind) -> bool {
        let from = place(self.base, offset);
        // SAFETY: as in `run`, for each of the blocks.
        unsafe {
            rows(
                from,
                stride,
                self.out,
                block,
                block as usize,
                count as usize,
            )
        };
        self.out = self.out.wrapping_add((block * count) as usize);
        true
    }

    fn table(&mut self, origin: i64, entries: &[Entry], block: i64, _: Kind) -> bool {
        let base = place(self.base, origin);
        // SAFETY: as in `run`, for each of the entries.
        self.out = unsafe {
            match block {
                4 => gather::<4>(base, entries, self.out),
                8 => gather::<8>(base, entries, self.out),
                16 => gather::<16>(base, entries, self.out),
                _ => gather_any(base, entries, self.out),
            }
        };
        true
    }

    fn rounds(&mut self, origin: i64, count: i64, stride: i64, body: &Seq) -> bool {
        let mut from = place(self.base, origin);
        for rounds in chunks(count, body.size) {
            for item in &body.items {
                let from = from.wrapping_offset(item.offset as isize);
                let out = self.out.wrapping_add(item.before as usize);
                // SAFETY: as in `run`, for this item of each round.
                unsafe { rows(from, stride, out, body.size, item.size as usize, rounds) };
            }
            from = from.wrapping_offset(stride as isize * rounds as isize);
            self.out = self.out.wrapping_add(body.size as usize * rounds);
        }
        true
    }
}

struct Unpack {
    base: usize,
    input: *const u8,
}

impl Sink for Unpack {
    #[inline]
    fn run(&mut self, offset: i64, len: i64, _: Kind) -> bool {
        let out = place(self.base, offset).cast_mut();
        // SAFETY: runs are elements of the view, which can be written; `unpack`'s caller has as many bytes.
        unsafe { transfer(self.input, out, len as usize) };
        self.input = self.input.wrapping_add(len as usize);
        true
    }

    fn strided(&mut self, offset: i64, block: i64, count: i64, stride: i64, _: Kind) -> bool {
        let out = place(self.base, offset).cast_mut();
        // SAFETY: as in `run`, for each of the blocks.
        unsafe {
            rows(
                self.input,
                block,
                out,
                stride,
                block as usize,
                count as usize,
            )
        };
        self.input = self.input.wrapping_add((block * count) as usize);
        true
    }

    fn table(&mut self, origin: i64, entries: &[Entry], block: i64, _: Kind) -> bool {
        let base = place(self.base, origin).cast_mut();
        // SAFETY: as in `run`, for each of the entries.
        self.input = unsafe {
            match block {
                4 => scatter::<4>(base, entries, self.input),
                8 => scatter::<8>(base, entries, self.input),
                16 => scatter::<16>(base, entries, self.input),
                _ => scatter_any(base, entries, self.input),
            }
        };
        true
    }

    fn rounds(&mut self, origin: i64, count: i64, stride: i64, body: &Seq) -> bool {
        let mut out = place(self.base, origin).cast_mut();
        for rounds in chunks(count, body.size) {
            for item in &body.items {
                let out = out.wrapping_offset(item.offset as isize);
                let input = self.input.wrapping_add(item.before as usize);
                // SAFETY: as in `run`, for this item of each round.
                unsafe { rows(input, body.size, out, stride, item.size as usize, rounds) };
            }
            out = out.wrapping_offset(stride as isize * rounds as isize);
            self.input = self.input.wrapping_add(body.size as usize * rounds);
        }
        true
    }
}

/// Cuts `count` rounds of `size` bytes so that what one item of each leaves in the cache is still there for the next item.
fn chunks(count: i64, size: i64) -> impl Iterator<Item = usize> {
    let most = (4096 / size).max(1);
    let mut left = count;
    std::iter::from_fn(move || {
        let now = left.min(most);
        left -= now;
        (now > 0).then_some(now as usize)
    })
}

/// Copies entries of `N` bytes from a table's places to packed bytes, and returns the end of those.
///
/// # Safety
///
/// Each entry has `N` bytes that can be read, and written at `out` one after the other; they do not overlap.
unsafe fn gather<const N: usize>(base: *const u8, entries: &[Entry], out: *mut u8) -> *mut u8 {
    let mut out = out;
    for entry in entries {
        // SAFETY: the caller's promise.
        unsafe { piece::<N>(base.wrapping_offset(entry.offset as isize), out, 0) };
        out = out.wrapping_add(N);
    }
    out
}

/// As [`gather`], for entries of any length.
///
/// # Safety
///
/// As [`gather`].
unsafe fn gather_any(base: *const u8, entries: &[Entry], out: *mut u8) -> *mut u8 {
    let mut out = out;
    for entry in entries {
        let from = base.wrapping_offset(entry.offset as isize);
        // SAFETY: the caller's promise.
        unsafe { transfer(from, out, entry.len as usize) };
        out = out.wrapping_add(entry.len as usize);
    }
    out
}

/// The other way round of [`gather`].
///
/// # Safety
///
/// As [`gather`], the other way round.
unsafe fn scatter<const N: usize>(base: *mut u8, entries: &[Entry], input: *const u8) -> *const u8 {
    let mut input = input;
    for entry in entries {
        // SAFETY: the caller's promise.
        unsafe { piece::<N>(input, base.wrapping_offset(entry.offset as isize), 0) };
        input = input.wrapping_add(N);
    }
    input
}

/// As [`scatter`], for entries of any length.
///
/// # Safety
///
/// As [`scatter`].
unsafe fn scatter_any(base: *mut u8, entries: &[Entry], input: *const u8) -> *const u8 {
    let mut input = input;
    for entry in entries {
        let out = base.wrapping_offset(entry.offset as isize);
        // SAFETY: the caller's promise.
        unsafe { transfer(input, out, entry.len as usize) };
        input = input.wrapping_add(entry.len as usize);
    }
    input
}

/// Copies a run: up to 64 bytes inline, as two or four overlapping moves of a power of two.
///
/// # Safety
///
/// `len` bytes can be read at `from` and written at `to`; the ranges do not overlap.
#[inline(always)]
unsafe fn transfer(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: each move lies within the `len` bytes: its beginning at 0, or its end at `len`, or (33 to 64) 16 further inwards.
    unsafe {
        match len {
            0 => {}
            1 => piece::<1>(from, to, 0),
            2..4 => {
                piece::<2>(from, to, 0);
                piece::<2>(from, to, len - 2);
            }
            4..8 => {
                piece::<4>(from, to, 0);
                piece::<4>(from, to, len - 4);
            }
            8..16 => {
                piece::<8>(from, to, 0);
                piece::<8>(from, to, len - 8);
            }
            16..=32 => {
                piece::<16>(from, to, 0);
                piece::<16>(from, to, len - 16);
            }
            33..=64 => {
                piece::<32>(from, to, 0);
                piece::<32>(from, to, len - 32);
            }
            _ => std::ptr::copy_nonoverlapping(from, to, len),
        }
    }
}

/// # Safety
///
/// `N` bytes can be read at `from + at` and written at `to + at`.
#[inline(always)]
unsafe fn piece<const N: usize>(from: *const u8, to: *mut u8, at: usize) {
    // SAFETY: the caller's promise; arrays of bytes need no alignment.
    unsafe {
        let bytes = from.add(at).cast::<[u8; N]>().read();
        to.add(at).cast::<[u8; N]>().write(bytes);
    }
}

/// Copies `count` blocks of `block` bytes, `from_stride` apart, to places `to_stride` apart.
///
/// # Safety
///
/// Each block can be read and written at its places; no block's source overlaps any block's target.
unsafe fn rows(
    from: *const u8,
    from_stride: i64,
    to: *mut u8,
    to_stride: i64,
    block: usize,
    count: usize,
) {
    let (from_stride, to_stride) = (from_stride as isize, to_stride as isize);
    // SAFETY: passed on.
    unsafe {
        match block {
            1 => fixed_rows::<1>(from, from_stride, to, to_stride, count),
            2 => fixed_rows::<2>(from, from_stride, to, to_stride, count),
            4 => fixed_rows::<4>(from, from_stride, to, to_stride, count),
            8 => fixed_rows::<8>(from, from_stride, to, to_stride, count),
            16 => fixed_rows::<16>(from, from_stride, to, to_stride, count),
            _ => {
                let (mut from, mut to) = (from, to);
                for _ in 0..count {
                    transfer(from, to, block);
                    from = from.wrapping_offset(from_stride);
                    to = to.wrapping_offset(to_stride);
                }
            }
        }
    }
}

/// # Safety
///
/// As [`rows`], for blocks of `N` bytes.
#[inline(always)]
unsafe fn fixed_rows<const N: usize>(
    mut from: *const u8,
    from_stride: isize,
    mut to: *mut u8,
    to_stride: isize,
    count: usize,
) {
    let mut left = count;
    // Four blocks are read before the first is written, so that the loads overlap.
    while left >= 4 {
        let source = |index| from.wrapping_offset(index * from_stride).cast::<[u8; N]>();
        let target = |index| to.wrapping_offset(index * to_stride).cast::<[u8; N]>();
        // SAFETY: the next four blocks can be read and written. Each has a variable of its own: an array of them would go
        // through memory.
        unsafe {
            let first = source(0).read();
            let second = source(1).read();
            let third = source(2).read();
            let fourth = source(3).read();
            target(0).write(first);
            target(1).write(second);
            target(2).write(third);
            target(3).write(fourth);
        }
        from = from.wrapping_offset(4 * from_stride);
        to = to.wrapping_offset(4 * to_stride);
        left -= 4;
    }
    for _ in 0..left {
        // SAFETY: this block can be read and written.
        unsafe { piece::<N>(from, to, 0) };
        from = from.wrapping_offset(from_stride);
        to = to.wrapping_offset(to_stride);
    }
}

/// MPI_Pack_external with "external32": as [`pack`], in the representation of MPI 14.5.2. [`Error::Conversion`] if a value does not fit;
/// then part of the buffer was written.
///
/// # Safety
///
/// As [`pack`].
pub(crate) unsafe fn pack_external(
    datatype: &Datatype,
    count: i64,
    base: usize,
    out: *mut u8,
    size: i64,
    position: i64,
) -> Result<i64, Error> {
    let view = View::new(datatype, count)?;
    let len = external::size(datatype, count)?;
    room(len, size, position)?;
    let mut sink = Encode {
        base,
        out: out.wrapping_add(position as usize),
        error: None,
    };
    view.walk_exact(&mut sink);
    match sink.error {
        Some(error) => Err(error),
        None => Ok(position + len),
    }
}

/// MPI_Unpack_external with "external32": as [`unpack`].
///
/// # Safety
///
/// As [`unpack`].
pub(crate) unsafe fn unpack_external(
    datatype: &Datatype,
    count: i64,
    base: usize,
    input: *const u8,
    size: i64,
    position: i64,
) -> Result<i64, Error> {
    let view = View::new(datatype, count)?;
    let len = external::size(datatype, count)?;
    room(len, size, position)?;
    let mut sink = Decode {
        base,
        input: input.wrapping_add(position as usize),
    };
    view.walk_exact(&mut sink);
    Ok(position + len)
}

/// The largest element here and in external32.
const LARGEST: usize = 32;

struct Encode {
    base: usize,
    out: *mut u8,
    error: Option<Error>,
}

impl Sink for Encode {
    fn run(&mut self, offset: i64, len: i64, kind: Kind) -> bool {
        let (native, foreign) = (kind.size() as usize, external::size_of(kind) as usize);
        let mut from = place(self.base, offset);
        let [mut value, mut encoded] = [[0; LARGEST]; 2];
        for _ in 0..len as usize / native {
            // SAFETY: the run is whole elements of the view; `pack_external` has checked the room for their encodings.
            unsafe { std::ptr::copy_nonoverlapping(from, value.as_mut_ptr(), native) };
            if let Err(error) = external::encode(kind, &value[..native], &mut encoded[..foreign]) {
                self.error = Some(error);
                return false;
            }
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(encoded.as_ptr(), self.out, foreign) };
            from = from.wrapping_add(native);
            self.out = self.out.wrapping_add(foreign);
        }
        true
    }
}

struct Decode {
    base: usize,
    input: *const u8,
}

impl Sink for Decode {
    fn run(&mut self, offset: i64, len: i64, kind: Kind) -> bool {
        let (native, foreign) = (kind.size() as usize, external::size_of(kind) as usize);
        let mut out = place(self.base, offset).cast_mut();
        let [mut value, mut encoded] = [[0; LARGEST]; 2];
        for _ in 0..len as usize / native {
            // SAFETY: `unpack_external` has checked that the encodings are there; the run is whole elements of the view.
            unsafe { std::ptr::copy_nonoverlapping(self.input, encoded.as_mut_ptr(), foreign) };
            external::decode(kind, &encoded[..foreign], &mut value[..native]);
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), out, native) };
            out = out.wrapping_add(native);
            self.input = self.input.wrapping_add(foreign);
        }
        true
    }
}
