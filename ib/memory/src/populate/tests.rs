//! Every kind of memory that a program may try to register, by the fast way and by looking at the mappings.

use super::*;
use std::fs::File;
use std::os::fd::AsRawFd;

const PAGE: usize = 4096;
const READ: i32 = libc::PROT_READ;
const WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// A mapping of the tests.
struct Map(*mut libc::c_void, usize);

impl Map {
    fn new(len: usize, prot: i32, flags: i32, file: Option<&File>) -> Map {
        let (fd, flags) = match file {
            Some(file) => (file.as_raw_fd(), flags),
            None => (-1, flags | libc::MAP_ANONYMOUS),
        };
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, fd, 0) };
        assert_ne!(base, libc::MAP_FAILED);
        Map(base, len)
    }

    fn private(pages: usize, prot: i32) -> Map {
        Map::new(pages * PAGE, prot, libc::MAP_PRIVATE, None)
    }

    /// Where the kernel maps nothing of its own accord: a hole stays a hole while other threads map memory.
    fn aside(pages: usize) -> Map {
        let at = std::ptr::without_provenance_mut(0x20_0000_0000);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: a new mapping; where there is one already, this fails.
        let base = unsafe { libc::mmap(at, pages * PAGE, WRITE, flags, -1, 0) };
        assert_eq!(base.addr(), at.addr());
        Map(base, pages * PAGE)
    }

    fn addr(&self) -> u64 {
        self.0.expose_provenance() as u64
    }

    fn page(&self, page: usize) -> u64 {
        self.addr() + (page * PAGE) as u64
    }

    fn protect(&self, page: usize, prot: i32) {
        let at = std::ptr::with_exposed_provenance_mut(self.page(page) as usize);
        // SAFETY: a page of our own mapping.
        assert_eq!(unsafe { libc::mprotect(at, PAGE, prot) }, 0);
    }

    fn unmap(&self, page: usize) {
        let at = std::ptr::with_exposed_provenance_mut(self.page(page) as usize);
        // SAFETY: a page of our own mapping, which nobody uses.
        assert_eq!(unsafe { libc::munmap(at, PAGE) }, 0);
    }

    /// How many of its first pages are there.
    fn resident(&self, pages: usize) -> usize {
        let mut states = vec![0u8; pages];
        // SAFETY: `states` has a byte for each page.
        let result = unsafe { libc::mincore(self.0, pages * PAGE, states.as_mut_ptr()) };
        assert_eq!(result, 0);
        states.iter().filter(|&&state| state & 1 == 1).count()
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: our own mapping; the holes in it are no error.
        unsafe { libc::munmap(self.0, self.1) };
    }
}

fn file(pages: usize) -> File {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let file = File::from(rustix::fs::memfd_create("populate", flags).unwrap());
    file.set_len((pages * PAGE) as u64).unwrap();
    file
}

/// The three ways: faulting in, PROCMAP_QUERY, the text of /proc/self/maps. They must agree.
#[track_caller]
fn errno(addr: u64, len: u64, writable: bool) -> i32 {
    let errno = |result: Result<(), Error>| result.map_or_else(|error| error.errno(), |()| 0);
    let fast = errno(prepare(addr, len, writable));
    let looked = errno(prepare_up_to(addr, len, writable, 0));
    assert_eq!(fast, looked, "faulting in and looking disagree");
    if let Ok(Some((start, end))) = pages(addr, len) {
        let areas = areas_in_text();
        let lookup = |at| Ok(areas.iter().find(|area| area.contains(at)).cloned());
        let by_text = look_by(start, end, writable, lookup).unwrap();
        assert_eq!(fast, errno(by_text), "the text disagrees");
    }
    fast
}

#[test]
fn ordinary_memory_is_accepted_at_any_alignment() {
    let map = Map::private(4, WRITE);
    for (off, len) in [
        (0, 1),
        (1, 4095),
        (4095, 2),
        (0, 4 * 4096),
        (4 * 4096 - 1, 1),
    ] {
        assert_eq!(errno(map.addr() + off, len, true), 0, "{len} at {off}");
        assert_eq!(errno(map.addr() + off, len, false), 0, "{len} at {off}");
    }
    assert_eq!(
        errno(0, 0, true),
        0,
        "nothing needs nothing, wherever it is"
    );
}

#[test]
fn memory_that_is_not_there_is_efault() {
    let map = Map::aside(5);
    map.unmap(2);
    for writable in [false, true] {
        assert_eq!(errno(map.page(0), 2 * 4096, writable), 0);
        assert_eq!(errno(map.page(2), 1, writable), libc::EFAULT);
        assert_eq!(
            errno(map.page(0), 5 * 4096, writable),
            libc::EFAULT,
            "a hole"
        );
        assert_eq!(
            errno(map.page(1) + 4095, 2, writable),
            libc::EFAULT,
            "its end"
        );
        assert_eq!(errno(map.page(3), 2 * 4096, writable), 0);
        assert_eq!(errno(0, 8, writable), libc::EFAULT);
        assert_eq!(errno(u64::MAX - 100, 50, writable), libc::EFAULT);
        assert_eq!(errno(1 << 63, 4096, writable), libc::EFAULT, "the kernel's");
    }
}

#[test]
fn rights_are_those_of_every_page() {
    let map = Map::private(3, WRITE);
    map.protect(1, libc::PROT_NONE);
    assert_eq!(errno(map.page(0), 3 * 4096, false), libc::EFAULT);
    assert_eq!(errno(map.page(1), 1, true), libc::EFAULT);
    map.protect(1, READ);
    assert_eq!(errno(map.page(0), 3 * 4096, false), 0);
    assert_eq!(errno(map.page(0), 3 * 4096, true), libc::EFAULT);
    map.protect(1, libc::PROT_WRITE);
    assert_eq!(
        errno(map.page(1), 4096, true),
        0,
        "writing needs no more than its right"
    );
    assert_eq!(errno(map.page(1), 4096, false), libc::EFAULT);
}

#[test]
fn files_are_memory_up_to_their_end_and_with_the_rights_of_the_mapping() {
    let file = file(2);
    for flags in [libc::MAP_SHARED, libc::MAP_PRIVATE] {
        let map = Map::new(4 * PAGE, WRITE, flags, Some(&file));
        assert_eq!(errno(map.page(0), 2 * 4096, true), 0);
        assert_eq!(errno(map.page(1) + 4095, 2, true), libc::EFAULT);
        assert_eq!(errno(map.page(0), 4 * 4096, false), libc::EFAULT);
        assert_eq!(errno(map.page(3), 8, false), libc::EFAULT);
        let map = Map::new(2 * PAGE, READ, flags, Some(&file));
        assert_eq!(errno(map.page(0), 2 * 4096, false), 0);
        assert_eq!(errno(map.page(0), 2 * 4096, true), libc::EFAULT);
    }
    let shared = Map::new(2 * PAGE, WRITE, libc::MAP_SHARED, None);
    assert_eq!(errno(shared.addr(), 2 * 4096, true), 0);
}

#[test]
fn pages_come_with_the_registration_and_keep_their_bytes() {
    let map = Map::private(64, WRITE);
    let third = map.0.cast::<u8>().wrapping_add(2 * PAGE);
    // SAFETY: inside the mapping.
    unsafe { third.write_volatile(7) };
    assert_eq!(map.resident(64), 1);
    prepare(map.addr(), 64 * 4096, true).unwrap();
    assert_eq!(map.resident(64), 64);
    // SAFETY: inside the mapping.
    assert_eq!(unsafe { third.read_volatile() }, 7);
}

#[test]
fn a_large_reservation_takes_no_memory() {
    let bytes = 64 << 30;
    let flags = libc::MAP_PRIVATE | libc::MAP_NORESERVE;
    let map = Map::new(bytes, WRITE, flags, None);
    prepare(map.addr(), bytes as u64, true).unwrap();
    assert_eq!(map.resident(1024), 0);
    map.protect(bytes / PAGE / 2, READ);
    let refused = prepare(map.addr(), bytes as u64, true).unwrap_err();
    assert_eq!(refused.errno(), libc::EFAULT, "one page in its middle");
    prepare(map.addr(), bytes as u64, false).unwrap();
}

#[test]
fn a_large_sparse_file_that_ends_too_early_is_found_without_reading_it() {
    let bytes = 1 << 30;
    let file = file(bytes / PAGE);
    let map = Map::new(bytes, WRITE, libc::MAP_SHARED, Some(&file));
    prepare(map.addr(), bytes as u64, true).unwrap();
    assert_eq!(map.resident(bytes / PAGE), 1, "the last page was looked at");
    file.set_len((bytes - PAGE) as u64).unwrap();
    let refused = prepare(map.addr(), bytes as u64, true).unwrap_err();
    assert_eq!(refused.errno(), libc::EFAULT);
    prepare(map.addr(), (bytes - PAGE) as u64, true).unwrap();
}
