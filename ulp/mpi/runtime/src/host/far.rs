//! Another process's memory, which the kernel copies from and to.
//!
//! *Where bytes lie in their pages.* The kernel copies by the string instruction, which has a thirtieth of its speed on Zen 3 where bytes come to lie 1 to 31 bytes farther in their page than they lay in their own
//! ([`super::choice`]): 64 KiB take 38 us there and 5 elsewhere. What would go so, goes by way of memory of our own that lies right for the kernel, and from or to there by registers.

use super::choice::is_ahead;
use super::copy;
use std::cell::Cell;
use std::io;
use std::sync::OnceLock;

/// The page that counts.
const PAGE: usize = 4096;
/// Bytes from which on the way round pays where the straight one is slow.
const LEAST: usize = 2048;
/// Bytes that go round at a time: they stay in this core's caches.
const PART: usize = 64 << 10;

thread_local! {
    /// What goes round: taken when something first does.
    static ROUND: Cell<Option<Stage>> = const { Cell::new(None) };
}

/// Memory of our own with room for bytes that lie in their pages as others do.
#[derive(Debug)]
pub(super) struct Stage(Box<[u8]>);

impl Stage {
    /// For `length` bytes.
    pub fn new(length: usize) -> Self {
        Self(vec![0; length + PAGE].into_boxed_slice())
    }

    /// Where bytes lie in their page as those at `address` do.
    pub fn like(&mut self, address: u64) -> *mut u8 {
        let start = self.0.as_mut_ptr();
        start.wrapping_add((address as usize).wrapping_sub(start.addr()) % PAGE)
    }
}

/// Whether the kernel had better not copy `length` bytes straight.
#[inline]
fn goes_round(from: usize, to: usize, length: usize) -> bool {
    length >= LEAST && is_ahead(from, to) && is_slow_ahead()
}

/// Whether this processor is slow there.
#[cold]
fn is_slow_ahead() -> bool {
    static SLOW: OnceLock<bool> = OnceLock::new();
    *SLOW.get_or_init(copy::is_slow_ahead)
}

/// What `part` does with each piece of `length` bytes and a stage, by its offset and length.
fn round(
    length: usize,
    mut part: impl FnMut(usize, usize, &mut Stage) -> io::Result<()>,
) -> io::Result<()> {
    // a thread that ends, in a destructor of the program, has none any more
    let kept = ROUND.try_with(Cell::take).ok().flatten();
    let mut stage = kept.unwrap_or_else(|| Stage::new(PART));
    let outcome = (0..length)
        .step_by(PART)
        .try_for_each(|done| part(done, PART.min(length - done), &mut stage));
    let _ = ROUND.try_with(|kept| kept.set(Some(stage)));
    outcome
}

/// Reads `length` bytes at `address` of process `pid` to `to`.
///
/// # Safety
/// `to` may be written.
pub(super) unsafe fn read_range(
    pid: i32,
    address: u64,
    to: *mut u8,
    length: usize,
) -> io::Result<()> {
    if !goes_round(address as usize, to.addr(), length) {
        // SAFETY: passed on.
        return unsafe { read_straight(pid, address, to, length) };
    }
    // SAFETY: passed on.
    unsafe { read_round(pid, address, to, length) }
}

/// As [`read_range`], by way of memory of our own.
///
/// # Safety
/// As there.
unsafe fn read_round(pid: i32, address: u64, to: *mut u8, length: usize) -> io::Result<()> {
    round(length, |done, count, stage| {
        let from = address.wrapping_add(done as u64);
        let place = stage.like(from);
        // SAFETY: the stage is our own and long enough; the rest is the caller's promise.
        unsafe {
            read_straight(pid, from, place, count)?;
            copy::plain(place, to.wrapping_add(done), count);
        }
        Ok(())
    })
}

/// As [`read_range`], as it is.
///
/// # Safety
/// As there.
unsafe fn read_straight(pid: i32, address: u64, to: *mut u8, length: usize) -> io::Result<()> {
    let mut done = 0;
    while done < length {
        let count = (length - done).min(1 << 30);
        let local = libc::iovec {
            iov_base: to.wrapping_add(done).cast(),
            iov_len: count,
        };
        // SAFETY: the caller's promise.
        done += unsafe { read_some(pid, address.wrapping_add(done as u64), &[local], count) }?;
    }
    Ok(())
}

/// Reads at most `length` bytes at `address` of process `pid`; how many came, at least one.
///
/// # Safety
/// The local ranges may be written.
pub(super) unsafe fn read_some(
    pid: i32,
    address: u64,
    local: &[libc::iovec],
    length: usize,
) -> io::Result<usize> {
    let remote = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(address as usize),
        iov_len: length,
    };
    loop {
        // SAFETY: the local ranges were promised; the other process's memory is read by the kernel, which checks it.
        let count = unsafe {
            libc::process_vm_readv(
                pid,
                local.as_ptr(),
                local.len() as libc::c_ulong,
                &raw const remote,
                1,
                0,
            )
        };
        match count {
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

/// Writes `length` bytes from `from` on to `address` of process `pid`.
///
/// # Safety
/// `from` may be read.
pub(super) unsafe fn write_range(
    pid: i32,
    address: u64,
    from: *const u8,
    length: usize,
) -> io::Result<()> {
    if !goes_round(from.addr(), address as usize, length) {
        // SAFETY: passed on.
        return unsafe { write_straight(pid, address, from, length) };
    }
    // SAFETY: passed on.
    unsafe { write_round(pid, address, from, length) }
}

/// As [`write_range`], by way of memory of our own.
///
/// # Safety
/// As there.
unsafe fn write_round(pid: i32, address: u64, from: *const u8, length: usize) -> io::Result<()> {
    round(length, |done, count, stage| {
        let to = address.wrapping_add(done as u64);
        let place = stage.like(to);
        // SAFETY: the stage is our own and long enough; the rest is the caller's promise.
        unsafe {
            copy::plain(from.wrapping_add(done), place, count);
            write_straight(pid, to, place, count)
        }
    })
}

/// As [`write_range`], as it is.
///
/// # Safety
/// As there.
unsafe fn write_straight(pid: i32, address: u64, from: *const u8, length: usize) -> io::Result<()> {
    let mut done = 0;
    while done < length {
        let local = libc::iovec {
            iov_base: from.wrapping_add(done).cast_mut().cast(),
            iov_len: (length - done).min(1 << 30),
        };
        let remote = libc::iovec {
            iov_base: std::ptr::without_provenance_mut(address.wrapping_add(done as u64) as usize),
            iov_len: local.iov_len,
        };
        // SAFETY: the local range was promised; the other process's memory is written by the kernel, which checks it.
        let count =
            unsafe { libc::process_vm_writev(pid, &raw const local, 1, &raw const remote, 1, 0) };
        match count {
            count if count > 0 => done += count.cast_unsigned(),
            0 => return Err(io::Error::from_raw_os_error(libc::EFAULT)),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 3 * PART;

    /// Copies `length` bytes from `from` bytes behind a page's beginning to `to` bytes behind one, through the kernel.
    fn copied(
        from: u64,
        to: u64,
        length: usize,
        copy: impl Fn(*const u8, *mut u8) -> io::Result<()>,
    ) {
        let (mut source, mut target) = (Stage::new(BYTES), Stage::new(BYTES));
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
    fn both_ways_copy_every_byte_and_no_other() {
        let own = std::process::id().cast_signed();
        for length in [1, 64, 65, 2047, 2048, 5000, PART, PART + 1, 2 * PART + 64] {
            for (from, to) in [(0, 16), (16, 0), (4090, 9), (8, 8), (64, 95)] {
                // SAFETY: the ranges are `length` long.
                unsafe {
                    copied(from, to, length, |s, d| {
                        read_range(own, s.addr() as u64, d, length)
                    });
                    copied(from, to, length, |s, d| {
                        read_round(own, s.addr() as u64, d, length)
                    });
                    copied(from, to, length, |s, d| {
                        write_range(own, d.addr() as u64, s, length)
                    });
                    copied(from, to, length, |s, d| {
                        write_round(own, d.addr() as u64, s, length)
                    });
                }
            }
        }
    }

    #[test]
    fn memory_that_is_not_there_is_an_error_either_way() {
        let (own, mut bytes) = (std::process::id().cast_signed(), [0; 4096]);
        // SAFETY: the range is our own.
        unsafe {
            assert!(read_round(own, 64, bytes.as_mut_ptr(), 4096).is_err());
            assert!(read_straight(own, 64, bytes.as_mut_ptr(), 4096).is_err());
            assert!(write_round(own, 64, bytes.as_ptr(), 4096).is_err());
            assert!(write_straight(own, 64, bytes.as_ptr(), 4096).is_err());
        }
    }

    #[test]
    fn a_stage_lies_as_is_asked_and_has_room() {
        let mut stage = Stage::new(100);
        for address in [0, 1, 4095, 4096 + 17, u64::MAX] {
            let place = stage.like(address);
            assert_eq!(place.addr() % PAGE, address as usize % PAGE);
            let offset = place.addr() - stage.0.as_ptr().addr();
            assert!(offset + 100 <= stage.0.len());
        }
    }
}
