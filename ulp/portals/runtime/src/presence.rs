//! Whether the program's memory is there.
//!
//! Owns: asking the kernel. Must not know: what the memory is used for. The answer holds until some
//! thread of the program unmaps the memory.

use ferriband_portals_proto::Piece;
use ferriband_registration::{Use, can};

/// The least page of any machine that this runs on.
const PAGE: u64 = 4096;
/// Where a program's memory ends on each of them (57 bits of address, the upper half is the
/// kernel's).
const END: u64 = 1 << 56;

/// Whether all bytes of pieces can be read, or also written. Nothing is changed. One system call a
/// page and piece.
pub(crate) fn is_there(pieces: &[Piece], writes: bool) -> bool {
    let what = if writes { Use::Write } else { Use::Read };
    pieces.iter().filter(|piece| piece.length > 0).all(|piece| {
        let Some(last) = piece.address.checked_add(piece.length - 1) else {
            return false;
        };
        let mut pages = piece.address / PAGE..=last / PAGE;
        pages.all(|page| can(page * PAGE, what))
    })
}

/// Whether memory could be there: not at addresses that no program has, nor in the first page,
/// which null pointers mean. No system call.
pub(crate) fn may_be_there(pieces: &[Piece]) -> bool {
    pieces.iter().filter(|piece| piece.length > 0).all(|piece| {
        let end = piece.address.checked_add(piece.length);
        piece.address >= PAGE && end.is_some_and(|end| end <= END)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::with_exposed_provenance_mut as pointer;

    fn mapped(pages: usize, protection: i32) -> u64 {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh mapping.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                pages * PAGE as usize,
                protection,
                flags,
                -1,
                0,
            )
        };
        assert_ne!(at, libc::MAP_FAILED);
        at.expose_provenance() as u64
    }

    fn piece(address: u64, length: u64) -> Piece {
        Piece { address, length }
    }

    #[test]
    fn memory_that_is_there_is_told_from_holes_and_stays_as_it_is() {
        let at = mapped(3, libc::PROT_READ | libc::PROT_WRITE);
        let word: *mut u32 = pointer(at as usize);
        for value in [5, u32::MAX, 0x8000_0000] {
            // SAFETY: the mapping's first word.
            unsafe { word.write_volatile(value) };
            assert!(is_there(&[piece(at, 8), piece(at + 4095, 2)], true));
            assert!(is_there(&[piece(at, 3 * PAGE)], false));
            // SAFETY: as above.
            assert_eq!(unsafe { word.read_volatile() }, value);
        }
        // SAFETY: the mapping's last page.
        let gone = unsafe { libc::munmap(pointer((at + 2 * PAGE) as usize), PAGE as usize) };
        assert_eq!(gone, 0);
        for writes in [false, true] {
            assert!(is_there(&[piece(at + 2 * PAGE - 8, 8)], writes));
            assert!(!is_there(&[piece(at + 2 * PAGE - 8, 9)], writes));
            assert!(!is_there(&[piece(at, 1), piece(8, 8)], writes));
            assert!(!is_there(&[piece(u64::MAX - 3, 8)], writes));
            assert!(is_there(&[piece(8, 0)], writes));
        }
        // SAFETY: the rest of the mapping.
        let gone = unsafe { libc::munmap(pointer(at as usize), 2 * PAGE as usize) };
        assert_eq!(gone, 0);
    }

    #[test]
    fn null_pointers_and_addresses_of_the_kernel_are_never_there() {
        assert!(!may_be_there(&[piece(8, 8)]));
        assert!(!may_be_there(&[piece(PAGE, 8), piece(END - 4, 8)]));
        assert!(!may_be_there(&[piece(u64::MAX - 3, 8)]));
        assert!(may_be_there(&[
            piece(PAGE, 8),
            piece(0, 0),
            piece(END - 8, 8)
        ]));
    }

    #[test]
    fn what_may_only_be_read_is_not_there_for_a_write() {
        let at = mapped(1, libc::PROT_READ);
        assert!(is_there(&[piece(at + 100, 8)], false));
        assert!(!is_there(&[piece(at + 100, 8)], true));
        // SAFETY: the mapping.
        let gone = unsafe { libc::munmap(pointer(at as usize), PAGE as usize) };
        assert_eq!(gone, 0);
    }
}
