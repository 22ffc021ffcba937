//! Copies between this process's memory and another one's, which the kernel makes (cross-memory
//! attach: process_vm_readv(2), process_vm_writev(2)).
//!
//! Owns: the calls, and the bounce buffer that some of them need. Must not know: whose memory it
//! is. A process id names another process after its own has ended, and other memory after an exec:
//! whoever passes one knows that the process lives and has that memory.
//!
//! *Bounce buffers.* The kernel copies by the string instruction, which has a small part of its
//! speed on Zen 3 where bytes get 1 to 31 bytes farther in their page than they were
//! ([`crate::copy`]): 64 KiB take 38 us there and 5 us elsewhere. There the kernel copies
//! from or to a buffer in which the bytes have their old place in the page, and registers copy
//! between that and where the bytes belong.

use crate::copy;
use std::cell::Cell;
use std::io;

/// Bytes of a page of the kernel's.
const PAGE: usize = 4096;
/// Bytes of the shortest copy for which a bounce buffer pays.
const LEAST: usize = 2048;
/// Bytes that the bounce buffer takes at a time: they stay in this core's caches.
const PART: usize = 64 << 10;
/// Bytes of one call: the kernel copies less than 2 GiB at a time.
const MOST: usize = 1 << 30;

thread_local! {
    /// The thread's bounce buffer, once it has needed one.
    static BOUNCE: Cell<Option<Bounce>> = const { Cell::new(None) };
}

/// A buffer in which bytes can have the place in a page that they have elsewhere.
#[derive(Debug)]
pub struct Bounce(Box<[u8]>);

impl Bounce {
    /// A buffer for `length` bytes, wherever in a page they begin.
    pub fn new(length: usize) -> Self {
        Self(vec![0; length + PAGE].into_boxed_slice())
    }

    /// The address in the buffer that has the place in its page that `address` has in its own.
    pub fn like(&mut self, address: u64) -> *mut u8 {
        let start = self.0.as_mut_ptr();
        start.wrapping_add((address as usize).wrapping_sub(start.addr()) % PAGE)
    }
}

/// Whether a copy of `length` bytes goes by way of the bounce buffer.
#[inline]
fn bounces(from: usize, to: usize, length: usize) -> bool {
    length >= LEAST && copy::is_slow(from, to)
}

/// Calls `part` for each part of `length` bytes, with its offset, its length and the bounce buffer.
fn by_parts(
    length: usize,
    mut part: impl FnMut(usize, usize, &mut Bounce) -> io::Result<()>,
) -> io::Result<()> {
    // A thread that ends may call this in a destructor, when it has no buffer any longer.
    let kept = BOUNCE.try_with(Cell::take).ok().flatten();
    let mut bounce = kept.unwrap_or_else(|| Bounce::new(PART));
    let outcome = (0..length)
        .step_by(PART)
        .try_for_each(|done| part(done, PART.min(length - done), &mut bounce));
    let _ = BOUNCE.try_with(|kept| kept.set(Some(bounce)));
    outcome
}

/// Reads `length` bytes at `address` of process `pid` to `to`.
///
/// # Errors
/// EFAULT if there is no such memory; EPERM if the kernel does not allow it; ESRCH if there is no
/// such process. Some of the bytes may have been read.
///
/// # Safety
/// `to` may be written so far.
pub unsafe fn read(pid: i32, address: u64, to: *mut u8, length: usize) -> io::Result<()> {
    if !bounces(address as usize, to.addr(), length) {
        // SAFETY: the caller's promise.
        return unsafe { read_straight(pid, address, to, length) };
    }
    // SAFETY: the caller's promise.
    unsafe { read_by_bounce(pid, address, to, length) }
}

/// Reads as [`read`] does, by way of the bounce buffer.
///
/// # Safety
/// `to` may be written so far.
unsafe fn read_by_bounce(pid: i32, address: u64, to: *mut u8, length: usize) -> io::Result<()> {
    by_parts(length, |done, count, bounce| {
        let from = address.wrapping_add(done as u64);
        let place = bounce.like(from);
        // SAFETY: the buffer has room for a part.
        unsafe { read_straight(pid, from, place, count) }?;
        // SAFETY: the buffer has so many bytes, and the part lies within the caller's range.
        unsafe { copy::plain(place, to.wrapping_add(done), count) };
        Ok(())
    })
}

/// Reads as [`read`] does, straight to `to`.
///
/// # Safety
/// `to` may be written so far.
unsafe fn read_straight(pid: i32, address: u64, to: *mut u8, length: usize) -> io::Result<()> {
    let mut done = 0;
    while done < length {
        let count = (length - done).min(MOST);
        let local = libc::iovec {
            iov_base: to.wrapping_add(done).cast(),
            iov_len: count,
        };
        // SAFETY: the part lies within the caller's range.
        done += unsafe { read_some(pid, address.wrapping_add(done as u64), &[local], count) }?;
    }
    Ok(())
}

/// Reads at most `length` bytes at `address` of process `pid` to the local ranges, one after the
/// other: how many were read, at least one.
///
/// # Errors
/// EFAULT, EPERM and ESRCH as [`read`].
///
/// # Safety
/// The local ranges may be written.
pub unsafe fn read_some(
    pid: i32,
    address: u64,
    local: &[libc::iovec],
    length: usize,
) -> io::Result<usize> {
    let remote = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(address as usize),
        iov_len: length,
    };
    let (ranges, count) = (local.as_ptr(), local.len() as libc::c_ulong);
    // SAFETY: the local ranges may be written; the kernel checks the other process's memory.
    until_done(|| unsafe { libc::process_vm_readv(pid, ranges, count, &raw const remote, 1, 0) })
}

/// Writes `length` bytes from `from` on to `address` of process `pid`.
///
/// # Errors
/// EFAULT, EPERM and ESRCH as [`read`]. Some of the bytes may have been written.
///
/// # Safety
/// `from` may be read so far.
pub unsafe fn write(pid: i32, address: u64, from: *const u8, length: usize) -> io::Result<()> {
    if !bounces(from.addr(), address as usize, length) {
        // SAFETY: the caller's promise.
        return unsafe { write_straight(pid, address, from, length) };
    }
    // SAFETY: the caller's promise.
    unsafe { write_by_bounce(pid, address, from, length) }
}

/// Writes as [`write()`] does, by way of the bounce buffer.
///
/// # Safety
/// `from` may be read so far.
unsafe fn write_by_bounce(
    pid: i32,
    address: u64,
    from: *const u8,
    length: usize,
) -> io::Result<()> {
    by_parts(length, |done, count, bounce| {
        let to = address.wrapping_add(done as u64);
        let place = bounce.like(to);
        // SAFETY: the buffer has room for a part, which lies within the caller's range.
        unsafe { copy::plain(from.wrapping_add(done), place, count) };
        // SAFETY: the buffer has so many bytes.
        unsafe { write_straight(pid, to, place, count) }
    })
}

/// Writes as [`write()`] does, straight from `from`.
///
/// # Safety
/// `from` may be read so far.
unsafe fn write_straight(pid: i32, address: u64, from: *const u8, length: usize) -> io::Result<()> {
    let mut done = 0;
    while done < length {
        let local = libc::iovec {
            iov_base: from.wrapping_add(done).cast_mut().cast(),
            iov_len: (length - done).min(MOST),
        };
        let remote = libc::iovec {
            iov_base: std::ptr::without_provenance_mut(address.wrapping_add(done as u64) as usize),
            iov_len: local.iov_len,
        };
        let (local, remote) = (&raw const local, &raw const remote);
        // SAFETY: the part lies within the caller's range; the kernel checks the other process's
        // memory.
        done += until_done(|| unsafe { libc::process_vm_writev(pid, local, 1, remote, 1, 0) })?;
    }
    Ok(())
}

/// The bytes that a call has copied, at least one. A call that a signal has interrupted before it
/// copied anything is made again.
#[inline]
fn until_done(call: impl Fn() -> isize) -> io::Result<usize> {
    loop {
        match call() {
            count if count > 0 => return Ok(count.cast_unsigned()),
            0 => return Err(io::Error::from_raw_os_error(libc::EFAULT)),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Segment;
    use crate::testing::fork;
    use std::sync::atomic::Ordering;

    const BYTES: usize = 3 * PART;

    /// Copies `length` bytes from `from` bytes behind a page's beginning to `to` bytes behind one.
    fn copied(
        from: u64,
        to: u64,
        length: usize,
        copy: impl Fn(*const u8, *mut u8) -> io::Result<()>,
    ) {
        let (mut source, mut target) = (Bounce::new(BYTES), Bounce::new(BYTES));
        for (at, byte) in source.0.iter_mut().enumerate() {
            *byte = (at * 7 + at / 251) as u8;
        }
        let (source, target) = (source.like(from), target.like(to));
        copy(source, target).expect("it is our own memory");
        // SAFETY: both have so many bytes and one more, which nobody writes now.
        let [wanted, got] = [source.cast_const(), target]
            .map(|bytes| unsafe { std::slice::from_raw_parts(bytes, length + 1) });
        assert!(
            wanted[..length] == got[..length],
            "{length} bytes from {from} to {to}"
        );
        assert_eq!(got[length], 0);
    }

    #[test]
    fn copies_with_and_without_a_bounce_buffer_are_whole() {
        let own = std::process::id().cast_signed();
        for length in [1, 64, 65, 2047, 2048, 5000, PART, PART + 1, 2 * PART + 64] {
            for (from, to) in [(0, 16), (16, 0), (4090, 9), (8, 8), (64, 95)] {
                // SAFETY: the ranges are `length` long.
                unsafe {
                    copied(from, to, length, |s, d| {
                        read(own, s.addr() as u64, d, length)
                    });
                    copied(from, to, length, |s, d| {
                        read_by_bounce(own, s.addr() as u64, d, length)
                    });
                    copied(from, to, length, |s, d| {
                        write(own, d.addr() as u64, s, length)
                    });
                    copied(from, to, length, |s, d| {
                        write_by_bounce(own, d.addr() as u64, s, length)
                    });
                }
            }
        }
    }

    #[test]
    fn memory_that_is_not_there_is_an_error_with_and_without_a_bounce_buffer() {
        let (own, mut bytes) = (std::process::id().cast_signed(), [0; 4096]);
        // SAFETY: the range is our own.
        unsafe {
            assert!(read_by_bounce(own, 64, bytes.as_mut_ptr(), 4096).is_err());
            assert!(read_straight(own, 64, bytes.as_mut_ptr(), 4096).is_err());
            assert!(write_by_bounce(own, 64, bytes.as_ptr(), 4096).is_err());
            assert!(write_straight(own, 64, bytes.as_ptr(), 4096).is_err());
        }
    }

    #[test]
    fn another_processs_memory_is_read_and_written() {
        let mut bytes = vec![1_u8; 10_000];
        let (address, segment) = (
            bytes.as_mut_ptr().expose_provenance() as u64,
            Segment::create(c"cma", 4096).expect("memory"),
        );
        let word = segment.word32(0).expect("inside");
        let child = fork(|| {
            bytes.fill(2);
            word.store(1, Ordering::SeqCst);
            while word.load(Ordering::SeqCst) == 1 {
                std::thread::yield_now();
            }
            // The bytes are read from memory, which another process has written.
            let bytes = std::hint::black_box(&bytes);
            bytes.iter().all(|byte| *byte == 3)
        });
        while word.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        let (mut seen, threes) = (vec![0; 10_000], vec![3; 10_000]);
        // SAFETY: local buffers of that length.
        let read = unsafe { read(child.pid(), address, seen.as_mut_ptr(), 10_000) };
        // SAFETY: a local buffer of that length.
        let written = unsafe { write(child.pid(), address, threes.as_ptr(), 10_000) };
        word.store(2, Ordering::SeqCst);
        let end = child.end();
        // Some systems let no process read another one's memory.
        let is_forbidden = |done: &io::Result<()>| {
            (done.as_ref()).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
        };
        if is_forbidden(&read) {
            return assert!(is_forbidden(&written));
        }
        assert!(
            read.is_ok() && seen.iter().all(|byte| *byte == 2),
            "{read:?}"
        );
        assert!(written.is_ok() && end == Some(true), "{written:?}");
    }

    #[test]
    fn a_bounce_buffer_has_room_wherever_in_a_page_bytes_begin() {
        let mut bounce = Bounce::new(100);
        for address in [0, 1, 4095, 4096 + 17, u64::MAX] {
            let place = bounce.like(address);
            assert_eq!(place.addr() % PAGE, address as usize % PAGE);
            let offset = place.addr() - bounce.0.as_ptr().addr();
            assert!(offset + 100 <= bounce.0.len());
        }
    }
}
