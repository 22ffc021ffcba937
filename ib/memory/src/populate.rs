//! What a registration asks of the memory before peers may use it.
//!
//! Owns: the check that a range is there and allows what the region will be used for, and the early page faults. Must
//! not know: regions and keys.
//!
//! An adapter's driver pins the pages: memory that is not mapped, or mapped without the right, is EFAULT at once, and
//! every page is there before the first message comes. Here the kernel does both with one `madvise(MADV_POPULATE_READ)` or
//! `MADV_POPULATE_WRITE` (Linux 5.14), which faults the pages in as an access would, but fails where that would be a
//! signal. It changes no byte. As pinning does, it ends the sharing of pages with a forked process if
//! the region is writable, and gives a sparse file its blocks.
//!
//! *Large ranges.* Nothing here needs the pages: whoever copies faults them in. So only ranges of up to
//! [`PREFAULT_MAX_BYTES`] are faulted in. Of larger ones the mappings are looked at, one by one, and nothing is taken: a
//! program that reserves a terabyte and uses a little of it runs here, where pinning would need the terabyte.
//!
//! *Older kernels.* Without MADV_POPULATE all ranges are treated like large ones; then the end of a file within its
//! mapping is not found. Where /proc/self/maps cannot be opened either, nothing is found.
//!
//! *Afterwards.* Nothing is held: a program that unmaps or protects registered memory later takes it away, where an
//! adapter would keep the pages.

use crate::Error;
use crate::mapping::{Area, Unsupported, areas_in_text, query};

/// Ranges up to this size are faulted in when they are registered. 64 MiB took 16 ms on the development machine, or 1.3 ms
/// where the pages were there; 4 KiB take 0.3 us, and the page fault if there is no page yet.
pub const PREFAULT_MAX_BYTES: u64 = 64 << 20;

/// The most interruptions that a faulting call is repeated after.
const MAX_INTERRUPTIONS: u32 = 100;

/// Makes sure that the `len` bytes at `addr` of this process can be read, or written if `writable`; a range of up to
/// [`PREFAULT_MAX_BYTES`] has all its pages afterwards. A length of 0 needs nothing.
///
/// # Errors
/// `System` with EFAULT: something in the range is not mapped, does not allow the access, lies behind the end of its
/// file, or is memory of a device. `OutOfMemory` if there is no memory for the pages.
pub fn prepare(addr: u64, len: u64, writable: bool) -> Result<(), Error> {
    prepare_up_to(addr, len, writable, PREFAULT_MAX_BYTES)
}

fn prepare_up_to(addr: u64, len: u64, writable: bool, max_bytes: u64) -> Result<(), Error> {
    let Some((start, end)) = pages(addr, len)? else {
        return Ok(());
    };
    if end - start > max_bytes {
        return look(start, end, writable);
    }
    match fault_in(start, end - start, writable) {
        Ok(()) => Ok(()),
        Err(errno) => explain(errno, start, end, writable),
    }
}

/// The whole pages around a range: start and end. None for an empty range.
fn pages(addr: u64, len: u64) -> Result<Option<(u64, u64)>, Error> {
    let page = rustix::param::page_size() as u64;
    let end = addr
        .checked_add(len)
        .and_then(|end| end.checked_next_multiple_of(page))
        .ok_or(fault())?;
    Ok((len > 0).then_some((addr & !(page - 1), end)))
}

/// The answer for memory that cannot be had.
const fn fault() -> Error {
    Error::System {
        call: "madvise",
        errno: libc::EFAULT,
    }
}

/// Faults pages in; gives errno.
fn fault_in(start: u64, bytes: u64, writable: bool) -> Result<(), i32> {
    let advice = if writable {
        libc::MADV_POPULATE_WRITE
    } else {
        libc::MADV_POPULATE_READ
    };
    let at = std::ptr::without_provenance_mut(start as usize);
    let mut errno = 0;
    for _ in 0..MAX_INTERRUPTIONS {
        // SAFETY: faults pages in and changes nothing that can be read; what is no memory of ours is an error.
        if unsafe { libc::madvise(at, bytes as usize, advice) } == 0 {
            return Ok(());
        }
        errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        if errno != libc::EINTR {
            break;
        }
    }
    Err(errno)
}

/// Whether the kernel knows MADV_POPULATE: it refuses an unknown advice even for nothing.
fn can_fault_in() -> bool {
    fault_in(0, 0, false).is_ok()
}

/// What a failed [`fault_in`] means.
#[cold]
fn explain(errno: i32, start: u64, end: u64, writable: bool) -> Result<(), Error> {
    match errno {
        // The access is not allowed, or the advice is unknown.
        libc::EINVAL if can_fault_in() => Err(fault()),
        libc::EINVAL | libc::ENOSYS | libc::EPERM => look(start, end, writable),
        // The access would be SIGBUS: behind the end of a file, or a broken page.
        libc::EFAULT | libc::EHWPOISON => Err(fault()),
        // One errno for two things.
        libc::ENOMEM => look(start, end, writable).and(Err(Error::OutOfMemory {
            call: "madvise",
            bytes: (end - start) as usize,
        })),
        errno => Err(Error::System {
            call: "madvise",
            errno,
        }),
    }
}

/// Looks at the mappings of whole pages without faulting them in.
fn look(start: u64, end: u64, writable: bool) -> Result<(), Error> {
    let Ok(maps) = std::fs::File::open("/proc/self/maps") else {
        return Ok(());
    };
    match look_by(start, end, writable, |at| query(&maps, at, None)) {
        Ok(result) => result,
        Err(Unsupported) => {
            let areas = areas_in_text();
            let lookup = |at| {
                let after = areas.partition_point(|area: &Area| area.end <= at);
                Ok(areas.get(after).filter(|area| area.start <= at).cloned())
            };
            look_by(start, end, writable, lookup).unwrap_or(Ok(()))
        }
    }
}

/// Goes from mapping to mapping; `lookup` gives the one at an address. There are no more than the kernel allows a
/// process (vm.max_map_count), and each step goes on behind the one before.
fn look_by(
    start: u64,
    end: u64,
    writable: bool,
    mut lookup: impl FnMut(u64) -> Result<Option<Area>, Unsupported>,
) -> Result<Result<(), Error>, Unsupported> {
    let page = rustix::param::page_size() as u64;
    let mut at = start;
    while at < end {
        let allowed = |area: &Area| {
            area.contains(at)
                && if writable {
                    area.writable
                } else {
                    area.readable
                }
        };
        let Some(area) = lookup(at)?.filter(allowed) else {
            return Ok(Err(fault()));
        };
        let until = area.end.min(end);
        // A file may end within its mapping; then the last page is missing first.
        if area.is_file() {
            let last = fault_in(until - page, page, writable);
            if matches!(last, Err(libc::EFAULT | libc::EHWPOISON))
                || last == Err(libc::EINVAL) && can_fault_in()
            {
                return Ok(Err(fault()));
            }
        }
        at = until;
    }
    Ok(Ok(()))
}

#[cfg(test)]
mod tests;
