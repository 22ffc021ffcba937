//! Elements of the program that lie with gaps: seen as the stream of their bytes.

use ferriband_mpi_data::{Filled, Segment, View};

/// Elements of a derived datatype at an address.
#[derive(Debug)]
pub struct Layout {
    view: View,
    base: usize,
}

impl Layout {
    /// The elements of `view` at `base`, the address that MPI functions are given.
    pub fn new(view: View, base: usize) -> Self {
        Self { view, base }
    }

    /// Bytes of the stream.
    pub fn size(&self) -> usize {
        self.view.size() as usize
    }

    /// Copies `length` bytes of the stream from `at` on to `to`.
    ///
    /// # Safety
    /// The elements may be read, and `to` written.
    pub(super) unsafe fn read(&self, at: usize, to: *mut u8, length: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.view.pack(self.base, at as i64, to, length) };
    }

    /// Copies `length` bytes to the stream from `at` on.
    ///
    /// # Safety
    /// The elements may be written, and `from` read.
    pub(super) unsafe fn write(&self, at: usize, from: *const u8, length: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.view.unpack(self.base, at as i64, from, length) };
    }

    /// Bytes of a run of elements, on average.
    pub(super) fn run_length(&self) -> usize {
        let datatype = self.view.datatype();
        (datatype.size() / datatype.runs().max(1)) as usize
    }

    /// Fills `out` with the runs of memory that hold `length` bytes of the stream from `at` on.
    pub(super) fn runs(&self, at: usize, length: usize, out: &mut [Segment]) -> Filled {
        self.view.segments(self.base, at as i64, length as i64, out)
    }
}
