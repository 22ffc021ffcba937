//! Whether memory that a program has given can be read or written.
//!
//! Owns: the question to the kernel, and which pages it was asked of. Must not know: what is copied.
//!
//! The kernel answers EFAULT where memory cannot be read or written; a copy of this library's would
//! end the program, and while it holds a connection's lock. So before a copy the first and the last
//! page of each piece are asked for (MADV_POPULATE_READ and MADV_POPULATE_WRITE, Linux 5.14), and
//! what is refused is left to the kernel's call, which answers as it does for TCP. These two pages
//! find what programs do wrong: NULL, a freed buffer, a length beyond the mapping, a file that was
//! cut. A question costs 0.3 us (16 pages 4 us), so each thread remembers pages that were good, and
//! one that has asked often enough asks of every eighth that is new to it: buffers that are used
//! again cost 2 ns.
//!
//! What is left: a page that was good and is not any more, and a hole between two good pages. A
//! copy that meets one is a SIGSEGV or SIGBUS at the program's call. If the program ends by it, its
//! peer has what was sent before, and other processes that hold the connection find the lock's
//! holder dead and finish its work: bytes are published after they are copied.

use rustix::io::Errno;
use rustix::mm::Advice;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

const PAGE: usize = 4096;
/// Pages that a thread remembers. They take 2 KiB of each thread's stack, of which some programs
/// give their threads no more than 16 KiB (PTHREAD_STACK_MIN).
const PLACES: usize = 512;
/// After so many questions a thread asks of one in [`SOME`] pages.
const OFTEN: u32 = 256;
const SOME: u32 = 8;

/// What is to be done with memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    Read,
    Write,
}

thread_local! {
    /// By a part of its address: what is kept of a page that was good. 0: none.
    static GOOD: [Cell<u32>; PLACES] = const { [const { Cell::new(0) }; PLACES] };
    static ASKED: Cell<u32> = const { Cell::new(0) };
}

/// Whether this kernel can be asked: 0 if that is not known so far.
static CAN_ASK: AtomicU32 = AtomicU32::new(0);
const YES: u32 = 1;
const NO: u32 = 2;

/// Whether the pieces can be accessed so, of the first `bytes` bytes.
#[inline]
pub(super) fn is_good(parts: &[libc::iovec], mut bytes: u64, access: Access) -> bool {
    for part in parts {
        let length = bytes.min(part.iov_len as u64) as usize;
        bytes -= length as u64;
        if !piece_is_good(part.iov_base.addr(), length, access) {
            return false;
        }
    }
    true
}

/// Whether one piece can be accessed so.
#[inline]
pub(super) fn piece_is_good(at: usize, length: usize, access: Access) -> bool {
    if length == 0 {
        return true;
    }
    let Some(last) = at.checked_add(length - 1) else {
        return false;
    };
    let (first, last) = (at & !(PAGE - 1), last & !(PAGE - 1));
    page_is_good(first, access) && (first == last || page_is_good(last, access))
}

#[inline]
fn page_is_good(page: usize, access: Access) -> bool {
    let known = GOOD.with(|good| good[page / PAGE % PLACES].get());
    let kept = kept(page, Access::Read);
    if kept != 0 && (known == kept | WRITABLE || access == Access::Read && known == kept) {
        return true;
    }
    ask(page, access)
}

/// A bit of what is kept of a page: it can be written.
const WRITABLE: u32 = 1;

/// What is kept of a page that was good: the part of its address that does not say its place. 0: it
/// cannot be kept, as page 0 and pages beyond address 2^52, which the kernel gives to nobody
/// without being asked.
#[inline]
fn kept(page: usize, access: Access) -> u32 {
    let writable = if access == Access::Write { WRITABLE } else { 0 };
    match u32::try_from((page / PAGE / PLACES + 1) << 1) {
        Ok(rest) if page != 0 => rest | writable,
        _ => 0,
    }
}

#[cold]
fn ask(page: usize, access: Access) -> bool {
    let asked = ASKED.get();
    ASKED.set(asked.wrapping_add(1).max(asked));
    if asked > OFTEN && !asked.is_multiple_of(SOME) {
        return true;
    }
    if !can_ask() {
        return true;
    }
    let is_good = match populate(page, access) {
        // not mapped, not so, behind a file's end, or a device's, which is the kernel's as well
        Err(Errno::NOMEM | Errno::INVAL | Errno::FAULT | Errno::HWPOISON) => false,
        Ok(()) | Err(_) => true,
    };
    if is_good {
        GOOD.with(|good| good[page / PAGE % PLACES].set(kept(page, access)));
    }
    is_good
}

fn can_ask() -> bool {
    match CAN_ASK.load(Ordering::Relaxed) {
        0 => {
            let here = 0_u8;
            let page = (&raw const here).addr() & !(PAGE - 1);
            let can = populate(page, Access::Read).is_ok();
            CAN_ASK.store(if can { YES } else { NO }, Ordering::Relaxed);
            can
        }
        known => known == YES,
    }
}

fn populate(page: usize, access: Access) -> Result<(), Errno> {
    let advice = match access {
        Access::Read => Advice::LinuxPopulateRead,
        Access::Write => Advice::LinuxPopulateWrite,
    };
    let at = std::ptr::without_provenance_mut(page);
    // SAFETY: what is mapped there keeps its content.
    unsafe { rustix::mm::madvise(at, PAGE, advice) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::{Pages, Seen};
    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

    fn piece(at: usize, length: usize) -> [libc::iovec; 1] {
        [libc::iovec {
            iov_base: std::ptr::without_provenance_mut(at),
            iov_len: length,
        }]
    }

    fn good(at: usize, length: usize, access: Access) -> bool {
        is_good(&piece(at, length), u64::MAX, access)
    }

    #[test]
    fn what_cannot_be_accessed_is_found() {
        use Access::{Read, Write};
        assert!(can_ask(), "Linux 5.14");
        let pages = Pages::reserve(16 * PAGE, Seen::Copied).expect("memory");
        let base = std::ptr::from_ref(pages.word(0)).addr();
        assert!(good(base, 16 * PAGE, Write) && good(base + 5, 1, Read));
        for (at, length) in [(0, 1), (usize::MAX, 1), (usize::MAX - 4, 100), (8, 100)] {
            assert!(!good(at, length, Read) && !good(at, length, Write), "{at}");
        }
        assert!(good(0, 0, Read), "nothing is read");
        let at = std::ptr::with_exposed_provenance_mut(base + 8 * PAGE);
        // SAFETY: the test's own pages, which nobody else uses.
        unsafe { rustix::mm::mprotect(at, PAGE, MprotectFlags::READ) }.expect("set");
        let fresh = std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    [
                        good(base + 8 * PAGE, 10, Read),
                        good(base + 8 * PAGE, 10, Write),
                        good(base + 7 * PAGE, PAGE + 1, Write),
                        is_good(&piece(base, 16 * PAGE), 10, Write),
                    ]
                })
                .join()
        });
        assert_eq!(fresh.expect("asked"), [true, false, false, true]);
    }

    #[test]
    fn what_is_behind_a_file_s_end_is_found() {
        let file = ferriband_host::segment::create(c"test", PAGE as u64).expect("memory");
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let (flags, none) = (MapFlags::SHARED, std::ptr::null_mut());
        // SAFETY: the kernel chooses an address where nothing is.
        let at = unsafe { rustix::mm::mmap(none, 2 * PAGE, access, flags, &file, 0) };
        let at = at.expect("mapped");
        assert!(good(at.addr(), PAGE, Access::Read));
        assert!(!good(at.addr(), PAGE + 1, Access::Read));
        assert!(!good(at.addr() + PAGE, 1, Access::Write));
        // SAFETY: the mapping from above.
        unsafe { rustix::mm::munmap(at, 2 * PAGE) }.expect("unmapped");
    }
}
