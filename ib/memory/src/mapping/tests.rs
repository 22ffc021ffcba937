//! Detection of every kind of memory, and the peer's mapping of what was found.

use super::*;
use crate::test_process::{Child, eventually};
use std::fs::File;
use std::io::Write;
use std::sync::atomic::Ordering;

const PAGE: usize = 4096;

/// A mapping of the tests, with any flags.
struct Map(*mut u8, usize);

impl Map {
    fn new(fd: Option<BorrowedFd<'_>>, len: usize, flags: i32, prot: i32, offset: i64) -> Map {
        let (fd, flags) = match fd {
            Some(fd) => (fd.as_raw_fd(), flags),
            None => (-1, flags | libc::MAP_ANONYMOUS),
        };
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, fd, offset) };
        assert_ne!(base, libc::MAP_FAILED);
        Map(base.cast(), len)
    }

    fn shared(fd: impl AsFd, len: usize, offset: i64) -> Map {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        Map::new(Some(fd.as_fd()), len, libc::MAP_SHARED, prot, offset)
    }

    /// Where the kernel maps nothing of its own accord: a hole stays a hole while other threads map memory.
    fn aside(fd: impl AsFd, len: usize) -> Map {
        let at = std::ptr::without_provenance_mut(0x22_0000_0000);
        let (prot, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE,
        );
        // SAFETY: a new mapping; where there is one already, this fails.
        let base = unsafe { libc::mmap(at, len, prot, flags, fd.as_fd().as_raw_fd(), 0) };
        assert_eq!(base.addr(), at.addr());
        Map(base.cast(), len)
    }

    fn addr(&self) -> u64 {
        self.0.expose_provenance() as u64
    }

    fn put(&self, at: usize, byte: u8) {
        assert!(at < self.1);
        // SAFETY: in range of a writable mapping.
        unsafe { self.0.add(at).write_volatile(byte) };
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: our own mapping.
        unsafe { libc::munmap(self.0.cast(), self.1) };
    }
}

/// Detects by both ways, which must agree on where; gives what the public way found.
fn detect(addr: u64, len: u64) -> Option<SharedMapping> {
    let text = SharedMapping::detect_in_text(addr, len);
    let maps = File::open("/proc/self/maps").unwrap();
    if let Ok(found) = covering(addr, len, |at| query(&maps, at, None)) {
        let named = found.map(|mut area| {
            let mut name = [0; 4096];
            area.name = query(&maps, addr, Some(&mut name)).unwrap().unwrap().name;
            area
        });
        assert_eq!(named, text, "PROCMAP_QUERY and /proc/self/maps disagree");
    }
    SharedMapping::detect(addr, len)
}

fn peer(found: &SharedMapping, len: usize) -> PeerMapping {
    match &found.backing {
        Backing::File(fd) => PeerMapping::map_file(fd.as_fd(), found.offset, len, found.writable),
        Backing::SysV(id) => PeerMapping::map_sysv(*id, found.offset, len, found.writable),
    }
    .unwrap()
}

/// Checks that the peer's mapping is the same memory: writes through one and reads through the other.
fn assert_same(map: &Map, at: usize, len: usize) -> SharedMapping {
    let found = detect(map.addr() + at as u64, len as u64).expect("detected");
    let peer = peer(&found, len);
    assert_eq!(peer.range_len(), len);
    assert_eq!(peer.addr() - peer.base_addr(), peer.start() as u64);
    let mut got = [0];
    for (place, byte) in [(0, 0x5a), (len - 1, 0xa5)] {
        map.put(at + place, byte);
        peer.copy_out(peer.start() + place, &mut got);
        assert_eq!(got[0], byte);
    }
    if found.writable {
        peer.copy_in(peer.start(), &[0x77]);
        // SAFETY: in range of a readable mapping.
        assert_eq!(unsafe { map.0.add(at).read_volatile() }, 0x77);
    }
    found
}

fn memfd(len: u64) -> OwnedFd {
    let fd = rustix::fs::memfd_create("map-test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&fd, len).unwrap();
    fd
}

#[test]
fn memory_that_no_peer_can_map_is_private() {
    let rw = libc::PROT_READ | libc::PROT_WRITE;
    let fd = memfd(2 * PAGE as u64);
    let private = Map::new(None, PAGE, libc::MAP_PRIVATE, rw, 0);
    let shared = Map::new(None, PAGE, libc::MAP_SHARED, rw, 0);
    let copy = Map::new(Some(fd.as_fd()), PAGE, libc::MAP_PRIVATE, rw, 0);
    for map in [&private, &shared, &copy] {
        assert!(detect(map.addr(), 64).is_none());
    }
    let heap = Box::new([0u8; 100]);
    assert!(detect(heap.as_ptr().expose_provenance() as u64, 100).is_none());
    let map = Map::shared(&fd, PAGE, 0);
    for (addr, len) in [
        (map.addr(), 0),
        (map.addr(), u64::MAX),
        (4096, 8),
        (u64::MAX, 1),
    ] {
        assert!(detect(addr, len).is_none());
    }
    let closed = Map::shared(memfd(PAGE as u64), PAGE, 0);
    assert!(
        detect(closed.addr(), 64).is_none(),
        "closed and without a name"
    );
}

#[test]
fn shared_file_with_open_descriptor_is_found_at_its_offset() {
    let fd = memfd(4 * PAGE as u64);
    let map = Map::shared(&fd, 2 * PAGE, PAGE as i64);
    let found = assert_same(&map, 100, PAGE);
    assert_eq!(found.offset, PAGE as u64 + 100);
    assert!(found.readable && found.writable && !found.sealed);
    let segment = Segment::create("sealed", PAGE).unwrap();
    assert!(detect(segment.base_addr(), 8).unwrap().sealed);
    let read_only = Map::new(Some(fd.as_fd()), PAGE, libc::MAP_SHARED, libc::PROT_READ, 0);
    let found = detect(read_only.addr(), 8).unwrap();
    assert!(found.readable && !found.writable);
    assert!(!peer(&found, 8).is_writable());
}

#[test]
fn shared_file_whose_descriptor_was_closed_is_found_by_its_name() {
    let path = std::env::temp_dir().join(format!("ferriband map\n{}", std::process::id()));
    let mut file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .unwrap();
    file.write_all(&[0; 2 * PAGE]).unwrap();
    let map = Map::shared(&file, 2 * PAGE, 0);
    drop(file);
    let found = assert_same(&map, PAGE - 1, PAGE);
    assert!(found.writable);
    // Another file under the name is not mistaken for it.
    std::fs::remove_file(&path).unwrap();
    drop(found);
    assert!(detect(map.addr(), 8).is_none());
    std::fs::write(&path, [0; PAGE]).unwrap();
    let mistaken = detect(map.addr(), 8).is_some();
    std::fs::remove_file(&path).unwrap();
    assert!(!mistaken);
}

#[test]
fn pieces_of_one_file_join_and_holes_do_not() {
    let fd = memfd(8 * PAGE as u64);
    let map = Map::aside(&fd, 8 * PAGE);
    let page = |n: usize| map.0.wrapping_add(n * PAGE).cast();
    // SAFETY: changes the rights of one page of our own mapping, which splits it in three.
    assert_eq!(unsafe { libc::mprotect(page(2), PAGE, libc::PROT_READ) }, 0);
    let found = detect(map.addr() + 5, 6 * PAGE as u64).unwrap();
    assert!(
        found.readable && !found.writable,
        "the least right of all pieces"
    );
    assert!(
        detect(map.addr() + 3 * PAGE as u64, PAGE as u64)
            .unwrap()
            .writable
    );
    // SAFETY: replaces one page of our own mapping by the file's first page: same file, offset broken.
    let moved = unsafe {
        let (rw, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_FIXED,
        );
        libc::mmap(page(4), PAGE, rw, flags, fd.as_raw_fd(), 0)
    };
    assert_eq!(moved, page(4));
    assert!(detect(map.addr(), 8 * PAGE as u64).is_none());
    assert_eq!(detect(map.addr() + 4 * PAGE as u64, 8).unwrap().offset, 0);
    // SAFETY: unmaps one page of our own mapping.
    assert_eq!(unsafe { libc::munmap(page(6), PAGE) }, 0);
    assert!(detect(map.addr() + 5 * PAGE as u64, PAGE as u64 + 1).is_none());
    assert!(detect(map.addr() + 5 * PAGE as u64, PAGE as u64).is_some());
}

#[test]
fn read_only_descriptor_is_opened_again_for_writing() {
    let fd = memfd(PAGE as u64);
    let map = Map::shared(&fd, PAGE, 0);
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let _read_only = File::open(path).unwrap();
    drop(fd);
    assert!(assert_same(&map, 8, 8).writable);
}

/// What the child of the System V test does; see [`crate::test_process`].
pub(crate) fn child(segment: Segment) {
    let (id, offset) = (
        segment.load(0, Ordering::Relaxed),
        segment.load(8, Ordering::Relaxed),
    );
    let map = PeerMapping::map_sysv(id as i32, offset, 16, true).unwrap();
    map.copy_in(map.start(), b"from another one");
    segment.store(16, 1, Ordering::Release);
}

/// Removes a System V segment also when the test fails.
struct RemoveSysV(i32);

impl Drop for RemoveSysV {
    fn drop(&mut self) {
        // SAFETY: marks our own segment; it ends when the last process detaches.
        unsafe { libc::shmctl(self.0, libc::IPC_RMID, std::ptr::null_mut()) };
    }
}

#[test]
fn system_v_segment_is_found_and_mapped_by_another_process() {
    // SAFETY: makes a new segment.
    let id = unsafe { libc::shmget(libc::IPC_PRIVATE, 2 * PAGE, 0o600 | libc::IPC_CREAT) };
    assert!(id >= 0);
    let remove = RemoveSysV(id);
    // SAFETY: attaches it.
    let base = unsafe { libc::shmat(id, std::ptr::null(), 0) };
    let map = Map(base.cast(), 2 * PAGE);
    let found = assert_same(&map, 200, PAGE);
    assert!(matches!(found.backing, Backing::SysV(found) if found == id));
    assert_eq!((found.offset, found.sealed), (200, true));
    let control = Segment::create("control", PAGE).unwrap();
    control.store(0, id as u64, Ordering::Relaxed);
    control.store(8, 200, Ordering::Relaxed);
    let child = Child::spawn("mapping-sysv", &control);
    eventually("the child to write", || {
        control.load(16, Ordering::Acquire) == 1
    });
    let mut got = [0; 16];
    let ours = peer(&found, 16);
    ours.copy_out(ours.start(), &mut got);
    assert_eq!(&got, b"from another one");
    // The segment ends with the last process that has it: children of other tests have it, too.
    drop((ours, map, remove, child));
    eventually("the segment to end", || {
        matches!(
            PeerMapping::map_sysv(id, 0, 8, true),
            Err(Error::System { call: "shmctl", .. })
        )
    });
}

#[test]
fn ranges_beyond_the_file_are_errors() {
    let fd = memfd(PAGE as u64);
    let map = |offset, len| PeerMapping::map_file(fd.as_fd(), offset, len, true).unwrap_err();
    assert_eq!(
        map(1, PAGE),
        Error::TooSmall {
            expected: PAGE + 1,
            got: PAGE
        }
    );
    assert_eq!(map(u64::MAX, 2).errno(), libc::EINVAL);
    assert_eq!(map(0, 0).errno(), libc::EINVAL);
    let (pipe, _write) = std::io::pipe().unwrap();
    assert_eq!(
        PeerMapping::map_file(pipe.as_fd(), 0, 8, true)
            .unwrap_err()
            .errno(),
        libc::EINVAL
    );
}

#[test]
fn known_segments_are_found_by_address() {
    let segments = [
        Segment::private(PAGE).unwrap(),
        Segment::create("known", PAGE).unwrap(),
    ];
    let base = segments[1].base_addr();
    assert_eq!(find_known(base + 96, 4000, &segments), Some((1, 96)));
    assert_eq!(find_known(base + 97, 4000, &segments), None);
    assert_eq!(find_known(base.wrapping_sub(1), 8, &segments), None);
    assert_eq!(find_known(base, u64::MAX, &segments), None);
}

#[test]
fn lines_of_maps_are_read() {
    let line = b"7f12a000-7f12c000 rw-s 00001000 00:1a 4711                       /tmp/a b\\012c (deleted)";
    let area = parse_line(line).unwrap();
    assert_eq!(
        (area.start, area.end, area.offset),
        (0x7f12_a000, 0x7f12_c000, 0x1000)
    );
    assert_eq!((area.device, area.inode), (libc::makedev(0, 0x1a), 4711));
    assert!(area.readable && area.writable && area.shared);
    assert_eq!(area.name, b"/tmp/a b\nc (deleted)");
    let anonymous = parse_line(b"7f12a000-7f12c000 ---p 00000000 00:00 0 ").unwrap();
    assert!(
        !anonymous.readable
            && !anonymous.writable
            && !anonymous.shared
            && anonymous.name.is_empty()
    );
    for bad in [
        &b""[..],
        b"x",
        b"1-2 rw-p",
        b"1-2 rw-s zz 0:0 1",
        b"1 rw-s 0 0:0 1",
        b"1-2 rw-s 0 0 1",
    ] {
        assert_eq!(parse_line(bad), None);
    }
}
