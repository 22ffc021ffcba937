//! The program's memory: ranges that a call has named. No reference to it is ever made, because other threads of the program may write there.
//!
//! A range is either plain, or the packed stream of elements that lie with gaps ([`Layout`]); whoever copies it sees no difference.

use super::layout::Layout;
use ferriband_mpi_data::{Filled, Segment};
use std::ptr::NonNull;
use std::sync::Arc;

/// A range that may be read until its operation is over.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// The first byte; with a layout: its number in the packed stream.
    address: *const u8,
    length: usize,
    /// Kept by who keeps the operation: the call's guard, or the request.
    layout: Option<NonNull<Layout>>,
}

/// A range that may be written until its operation is over.
#[derive(Clone, Copy, Debug)]
pub struct Sink {
    /// As in [`Source`], like what follows.
    address: *mut u8,
    length: usize,
    layout: Option<NonNull<Layout>>,
}

// SAFETY: the ranges belong to operations, which any thread may drive.
unsafe impl Send for Source {}
// SAFETY: as above.
unsafe impl Send for Sink {}

impl Source {
    /// Nothing.
    pub const EMPTY: Self = Self {
        address: std::ptr::null(),
        length: 0,
        layout: None,
    };

    /// A range of the program.
    ///
    /// # Safety
    /// It may be read until the operation that it is given to is over.
    #[inline]
    pub unsafe fn new(address: *const u8, length: usize) -> Self {
        Self {
            address,
            length,
            layout: None,
        }
    }

    /// Elements of the program that lie with gaps, as a stream.
    ///
    /// # Safety
    /// They may be read, and the layout is kept, until the operation is over.
    pub unsafe fn laid_out(layout: &Arc<Layout>) -> Self {
        Self {
            address: std::ptr::null(),
            length: layout.size(),
            layout: Some(NonNull::from(&**layout)),
        }
    }

    /// Keeps the layout as long as the operation, if there is one.
    #[inline]
    pub fn keep(&self) -> Option<Arc<Layout>> {
        self.layout.map(share)
    }

    /// Bytes of the range.
    #[inline]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Where it lies, for a peer that reads it; none if there are gaps.
    pub fn address(&self) -> Option<u64> {
        self.layout.is_none().then(|| self.address.addr() as u64)
    }

    /// A part of it.
    #[inline]
    pub fn part(&self, at: usize, length: usize) -> Self {
        assert!(at <= self.length && length <= self.length - at);
        Self {
            address: self.address.wrapping_add(at),
            length,
            layout: self.layout,
        }
    }

    /// Copies `length` bytes from `at` on to `to`, which the caller owns.
    #[inline(always)]
    pub(crate) fn read(&self, at: usize, to: *mut u8, length: usize) {
        assert!(at <= self.length && length <= self.length - at);
        let from = self.address.wrapping_add(at);
        match self.layout {
            None => copy(from, to, length),
            // SAFETY: the layout is kept; the elements may be read; `to` is the caller's.
            Some(layout) => unsafe { layout.as_ref().read(from.addr(), to, length) },
        }
    }

    /// Copies all of it, if there is memory.
    pub fn to_bytes(self) -> Option<Box<[u8]>> {
        let mut bytes = zeroed(self.length)?;
        self.read(0, bytes.as_mut_ptr(), self.length);
        Some(bytes)
    }

    /// Copies as much as `to` takes to it.
    #[inline]
    pub fn copy_into(&self, to: &mut [u8]) {
        self.read(0, to.as_mut_ptr(), self.length.min(to.len()));
    }

    /// Its first byte, for those who promise to read no further than it goes; none if there are gaps.
    #[inline]
    pub fn pointer(&self) -> Option<*const u8> {
        self.layout.is_none().then_some(self.address)
    }

    /// This range and the next one as one, if they lie side by side.
    pub fn followed_by(&self, next: &Self) -> Option<Self> {
        let is_next =
            self.address.wrapping_add(self.length) == next.address && self.layout == next.layout;
        is_next.then_some(Self {
            length: self.length + next.length,
            ..*self
        })
    }

    /// Copies as much as `sink` takes to it.
    #[inline(always)]
    pub fn copy_to(&self, sink: &Sink) {
        let length = self.length.min(sink.length);
        if self.layout.is_none() {
            sink.write(0, self.address, length);
        } else if sink.layout.is_none() {
            self.read(0, sink.address, length);
        } else {
            self.stream_to(sink, length);
        }
    }

    /// The same where both have gaps.
    #[cold]
    fn stream_to(&self, sink: &Sink, length: usize) {
        let mut chunk = vec![0_u8; length.min(CHUNK)];
        let mut at = 0;
        while at < length {
            let count = (length - at).min(CHUNK);
            self.read(at, chunk.as_mut_ptr(), count);
            sink.write(at, chunk.as_ptr(), count);
            at += count;
        }
    }
}

impl Sink {
    /// Nothing.
    pub const EMPTY: Self = Self {
        address: std::ptr::null_mut(),
        length: 0,
        layout: None,
    };

    /// A range of the program.
    ///
    /// # Safety
    /// It may be written until the operation that it is given to is over.
    #[inline]
    pub unsafe fn new(address: *mut u8, length: usize) -> Self {
        Self {
            address,
            length,
            layout: None,
        }
    }

    /// Elements of the program that lie with gaps, as a stream.
    ///
    /// # Safety
    /// They may be written, and the layout is kept, until the operation is over.
    pub unsafe fn laid_out(layout: &Arc<Layout>) -> Self {
        Self {
            address: std::ptr::null_mut(),
            length: layout.size(),
            layout: Some(NonNull::from(&**layout)),
        }
    }

    /// Keeps the layout as long as the operation, if there is one.
    #[inline]
    pub fn keep(&self) -> Option<Arc<Layout>> {
        self.layout.map(share)
    }

    /// Whether its elements lie with gaps.
    #[inline]
    pub fn has_gaps(&self) -> bool {
        self.layout.is_some()
    }

    /// Where it lies; none if there are gaps.
    pub fn address(&self) -> Option<u64> {
        self.layout.is_none().then(|| self.address.addr() as u64)
    }

    /// Bytes of the range.
    #[inline]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// A part of it.
    pub fn part(&self, at: usize, length: usize) -> Self {
        assert!(at <= self.length && length <= self.length - at);
        Self {
            address: self.address.wrapping_add(at),
            length,
            layout: self.layout,
        }
    }

    /// The same range, to be read.
    #[inline]
    pub fn source(&self) -> Source {
        Source {
            address: self.address,
            length: self.length,
            layout: self.layout,
        }
    }

    /// Bytes of a run of its elements, on average; of a range without gaps all.
    pub(crate) fn run_length(&self) -> usize {
        // SAFETY: the layout is kept as long as the operation.
        let layout = self.layout.map(|layout| unsafe { layout.as_ref() });
        layout.map_or(self.length, Layout::run_length)
    }

    /// Fills `out` with the runs of memory that `length` bytes from `at` on are written to, until
    /// `out` is full; nothing where there are no gaps.
    pub(crate) fn runs(&self, at: usize, length: usize, out: &mut [Segment]) -> Filled {
        assert!(at <= self.length && length <= self.length - at);
        // SAFETY: the layout is kept as long as the operation.
        let layout = self.layout.map(|layout| unsafe { layout.as_ref() });
        let none = Filled {
            segments: 0,
            bytes: 0,
        };
        layout.map_or(none, |layout| {
            layout.runs(self.address.addr() + at, length, out)
        })
    }

    /// Its first byte, for those who promise to write no further than it goes; none if there are gaps.
    #[inline]
    pub fn pointer(&self) -> Option<*mut u8> {
        self.layout.is_none().then_some(self.address)
    }

    /// This range and the next one as one, if they lie side by side.
    pub fn followed_by(&self, next: &Self) -> Option<Self> {
        let is_next =
            self.address.wrapping_add(self.length) == next.address && self.layout == next.layout;
        is_next.then_some(Self {
            length: self.length + next.length,
            ..*self
        })
    }

    /// Copies `length` bytes to `at`.
    #[inline(always)]
    pub(crate) fn write(&self, at: usize, from: *const u8, length: usize) {
        assert!(at <= self.length && length <= self.length - at);
        let to = self.address.wrapping_add(at);
        match self.layout {
            None => copy(from, to, length),
            // SAFETY: the layout is kept; the elements may be written; `from` is the caller's.
            Some(layout) => unsafe { layout.as_ref().write(to.addr(), from, length) },
        }
    }

    /// Copies as much of `bytes` as fits.
    pub fn fill(&self, bytes: &[u8]) {
        self.write(0, bytes.as_ptr(), bytes.len().min(self.length));
    }
}

/// Memory of the runtime's own that messages come into.
pub struct Buffer(Box<[u8]>);

impl Buffer {
    /// Of `length` bytes, for what is small.
    pub fn new(length: usize) -> Self {
        Self(vec![0; length].into_boxed_slice())
    }

    /// Of `length` bytes, if there is memory.
    pub fn try_new(length: usize) -> Option<Self> {
        zeroed(length).map(Self)
    }

    /// All of it, to receive into. The buffer must outlive the receive.
    pub fn sink(&mut self) -> Sink {
        Sink {
            address: self.0.as_mut_ptr(),
            length: self.0.len(),
            layout: None,
        }
    }

    /// All of it, to send from. The buffer must outlive the send.
    pub fn source(&self) -> Source {
        Source {
            address: self.0.as_ptr(),
            length: self.0.len(),
            layout: None,
        }
    }

    /// What has come, once nothing comes any more.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The same, to change.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// Copies bytes between ranges that have been checked; they do not overlap, or are the same.
#[inline(always)]
pub(crate) fn copy(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: both ranges were promised to this module or checked by it.
    unsafe { ferriband_host::copy::bytes(from, to, length) };
}

/// Another owner of a layout that somebody keeps.
fn share(layout: NonNull<Layout>) -> Arc<Layout> {
    let layout = layout.as_ptr().cast_const();
    // SAFETY: it was made from an `Arc` that is still kept, and here it gets an owner more.
    unsafe {
        Arc::increment_strong_count(layout);
        Arc::from_raw(layout)
    }
}

/// Bytes of a copy between two streams at a time: they stay in the nearest cache.
const CHUNK: usize = 1 << 13;

/// So many bytes of memory, if there are.
fn zeroed(length: usize) -> Option<Box<[u8]>> {
    if length == 0 {
        return Some(Box::default());
    }
    let layout = std::alloc::Layout::array::<u8>(length).ok()?;
    // SAFETY: the layout is not empty.
    let at = unsafe { std::alloc::alloc_zeroed(layout) };
    if at.is_null() {
        return None;
    }
    // SAFETY: allocated with the layout of a boxed slice of this length; zeros are bytes.
    Some(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(at, length)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_every_length_are_right() {
        let from: Vec<u8> = (0..100).collect();
        for length in 0..100 {
            let mut to = vec![0xff_u8; 100];
            // SAFETY: local buffers.
            let (source, sink) = unsafe {
                (
                    Source::new(from.as_ptr(), length),
                    Sink::new(to.as_mut_ptr(), 100),
                )
            };
            source.copy_to(&sink);
            assert_eq!(to[..length], from[..length]);
            assert!(to[length..].iter().all(|byte| *byte == 0xff));
        }
    }
}
