//! Elements of the program that lie with gaps: seen as the stream of their bytes.

use ferriband_host::cma::{self, Bounce};
use ferriband_mpi_data::{Segment, View};
use std::io;

/// Elements of a derived datatype at an address.
#[derive(Debug)]
pub struct Layout {
    view: View,
    base: usize,
}

/// Bytes that are read from another process before they are unpacked: half of what a nearer cache holds.
const STAGE: usize = 1 << 17;

/// Runs that are at least so long are read by the kernel to where they belong, in bytes: below that its work for a run costs more than another copy.
const LONG_RUN: i64 = 1 << 10;

/// Runs that are read in one call.
const BATCH: usize = 64;

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

    /// Reads `length` bytes at `address` of process `pid` to the stream from `at` on.
    ///
    /// # Safety
    /// The elements may be written.
    pub(crate) unsafe fn read_peer(
        &self,
        pid: i32,
        address: u64,
        at: usize,
        length: usize,
    ) -> io::Result<()> {
        let datatype = self.view.datatype();
        if datatype.size() / datatype.runs().max(1) < LONG_RUN {
            // SAFETY: passed on.
            return unsafe { self.read_staged(pid, address, at, length) };
        }
        let mut done = 0;
        while done < length {
            let mut segments = [Segment::default(); BATCH];
            let limit = (length - done).min(1 << 30);
            let found =
                self.view
                    .segments(self.base, (at + done) as i64, limit as i64, &mut segments);
            let local = segments.map(|segment| libc::iovec {
                iov_base: std::ptr::with_exposed_provenance_mut(segment.address),
                iov_len: segment.len,
            });
            let from = address.wrapping_add(done as u64);
            // SAFETY: runs of elements, which may be written.
            done += unsafe {
                cma::read_some(pid, from, &local[..found.segments], found.bytes as usize)
            }?;
        }
        Ok(())
    }

    /// The same by way of memory of our own.
    ///
    /// # Safety
    /// The elements may be written.
    unsafe fn read_staged(
        &self,
        pid: i32,
        address: u64,
        at: usize,
        length: usize,
    ) -> io::Result<()> {
        let mut bounce = Bounce::new(length.min(STAGE));
        let mut done = 0;
        while done < length {
            let count = (length - done).min(STAGE);
            let from = address.wrapping_add(done as u64);
            let place = bounce.like(from);
            // SAFETY: memory of our own; the elements are the caller's promise.
            unsafe {
                cma::read(pid, from, place, count)?;
                self.write(at + done, place, count);
            }
            done += count;
        }
        Ok(())
    }
}
