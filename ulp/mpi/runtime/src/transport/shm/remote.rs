//! Reading another process's memory.
//!
//! Owns: in which steps a range with gaps is read. Must not know: which message it is.

use crate::ground::memory::Sink;
use ferriband_host::cma::{self, Bounce};
use ferriband_mpi_data::Segment;
use std::io;

/// Bytes that are read from another process before they are unpacked: half of what a nearer cache
/// holds.
const STAGE: usize = 1 << 17;

/// Runs that are at least so long are read by the kernel to where they belong, in bytes: below that
/// its work for a run costs more than another copy.
const LONG_RUN: usize = 1 << 10;

/// Runs that are read in one call.
const BATCH: usize = 64;

/// Reads `sink.len()` bytes at `address` of process `pid`.
pub fn read_peer(pid: i32, address: u64, sink: &Sink) -> io::Result<()> {
    match sink.pointer() {
        // SAFETY: the range was promised.
        Some(to) => unsafe { cma::read(pid, address, to, sink.len()) },
        None if sink.run_length() < LONG_RUN => read_staged(pid, address, sink),
        None => read_runs(pid, address, sink),
    }
}

/// Lets the kernel copy each run of elements to where it belongs.
fn read_runs(pid: i32, address: u64, sink: &Sink) -> io::Result<()> {
    let mut done = 0;
    while done < sink.len() {
        let mut segments = [Segment::default(); BATCH];
        let limit = (sink.len() - done).min(1 << 30);
        let found = sink.runs(done, limit, &mut segments);
        let local = segments.map(|segment| libc::iovec {
            iov_base: std::ptr::with_exposed_provenance_mut(segment.address),
            iov_len: segment.len,
        });
        let from = address.wrapping_add(done as u64);
        // SAFETY: runs of elements, which may be written.
        done +=
            unsafe { cma::read_some(pid, from, &local[..found.segments], found.bytes as usize) }?;
    }
    Ok(())
}

/// Reads into memory of our own, and copies from there.
fn read_staged(pid: i32, address: u64, sink: &Sink) -> io::Result<()> {
    let mut bounce = Bounce::new(sink.len().min(STAGE));
    let mut done = 0;
    while done < sink.len() {
        let count = (sink.len() - done).min(STAGE);
        let from = address.wrapping_add(done as u64);
        let place = bounce.like(from);
        // SAFETY: memory of our own.
        unsafe { cma::read(pid, from, place, count) }?;
        sink.write(done, place, count);
        done += count;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_is_read_as_far_as_it_is_there() {
        let from: Vec<u8> = (0..=255).collect();
        let mut to = vec![0_u8; 256];
        // SAFETY: a local buffer.
        let sink = unsafe { Sink::new(to.as_mut_ptr(), to.len()) };
        let own = std::process::id().cast_signed();
        read_peer(own, from.as_ptr().addr() as u64, &sink).expect("one's own memory can be read");
        assert_eq!(to, from);
        assert!(read_peer(own, 8, &sink).is_err());
    }
}
