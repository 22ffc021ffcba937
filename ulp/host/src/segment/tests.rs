use super::*;
use crate::testing::fork;
use rustix::fs::{fcntl_add_seals, ftruncate, memfd_create};
use std::fs::File;
use std::io::Write;

/// A memfd of so many bytes with these seals.
fn memfd(length: u64, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create(c"test", flags).expect("a file");
    ftruncate(&file, length).expect("a length");
    fcntl_add_seals(&file, seals).expect("seals");
    file
}

#[test]
fn two_mappings_of_a_file_are_one_memory() {
    let first = Segment::create(c"test", 8192).expect("memory");
    let file = first.file().try_clone_to_owned().expect("a descriptor");
    let second = Segment::map(file, 8192).expect("a mapping");
    let reader = Reader::map(first.file(), 4104).expect("a mapping");
    assert_eq!((second.length(), reader.length()), (8192, 4104));
    first.write(4092, b"shared").expect("inside");
    first.word64(8).expect("inside").store(7, Ordering::Release);
    first.word32(4).expect("inside").store(5, Ordering::Release);
    let mut seen = [0; 6];
    second.read(4092, &mut seen).expect("inside");
    assert_eq!(&seen, b"shared");
    reader.read(4092, &mut seen).expect("inside");
    assert_eq!(&seen, b"shared");
    assert_eq!(reader.load64(8, Ordering::Acquire), Ok(7));
    assert_eq!(reader.load32(4, Ordering::Acquire), Ok(5));
    let woken = reader.wait(4, 4, Until::Woken).expect("a word");
    assert_eq!(woken, Wait::Changed);
    assert!(reader.load32(4104, Ordering::Acquire).is_err());
}

#[test]
fn copies_of_every_length_are_whole() {
    let segment = Segment::create(c"test", 300_000).expect("memory");
    let bytes: Vec<u8> = (0..200_000_u32)
        .map(|byte| (byte * 7 + byte / 251) as u8)
        .collect();
    for length in (0..70).chain([255, 1024, 4096, 65_537, 200_000]) {
        for at in [0, 1, 63, 4090] {
            let mut seen = vec![0xaa; length + 1];
            segment.write(at, &bytes[..length]).expect("inside");
            segment.read(at, &mut seen[..length]).expect("inside");
            assert!(seen[..length] == bytes[..length], "{length} bytes at {at}");
            assert_eq!(seen[length], 0xaa);
        }
    }
}

#[test]
fn what_lies_outside_or_is_not_aligned_is_refused() {
    let segment = Segment::create(c"test", 100).expect("memory");
    assert!(segment.write(96, &[0; 4]).is_ok());
    assert!(segment.write(97, &[0; 4]).is_err());
    assert!(segment.write(0, &[0; 101]).is_err());
    assert!(segment.read(u64::MAX, &mut [0; 2]).is_err());
    assert!(segment.read(100, &mut []).is_ok());
    assert!(segment.word64(4).is_err());
    assert!(segment.word32(2).is_err());
    assert!(segment.word32(96).is_ok());
    assert!(segment.word64(96).is_err());
    assert!(segment.word32(u64::MAX - 3).is_err());
    assert!(segment.address(99, 1).is_ok());
    let error = segment.address(99, 2).expect_err("behind the end");
    assert_eq!(error.to_string(), "2 bytes at 99 of a segment of 100");
}

#[test]
fn nobody_changes_the_length_of_a_segment() {
    let segment = Segment::create(c"test", 4096).expect("memory");
    assert_eq!(ftruncate(segment.file(), 0), Err(Errno::PERM));
    assert_eq!(ftruncate(segment.file(), 8192), Err(Errno::PERM));
    let seals = fcntl_add_seals(segment.file(), SealFlags::WRITE);
    assert_eq!(seals, Err(Errno::PERM));
    assert_eq!(check(segment.file()).ok(), Some(4096));
}

#[test]
fn a_file_whose_seals_are_missing_is_refused() {
    for missing in [SealFlags::SHRINK, SealFlags::GROW, SealFlags::SEAL] {
        let file = memfd(4096, SEALS - missing);
        let error = Segment::map(file, 4096).expect_err("its length may change");
        assert!(
            matches!(error, MapError::Unsealed { missing: found } if found == missing),
            "{error}"
        );
    }
}

#[test]
fn a_file_that_is_no_memfd_is_refused() {
    let (reader, _writer) = io::pipe().expect("a pipe");
    let null = File::open("/dev/null").expect("a device");
    let own = File::open("/proc/self/exe").expect("a program");
    for file in [OwnedFd::from(reader), null.into(), own.into()] {
        let error = Segment::map(file, 4096).expect_err("no memfd");
        // A system may keep its devices in a tmpfs.
        let is_other = matches!(error, MapError::Kind | MapError::Unsealed { .. })
            || matches!(error, MapError::System(Errno::INVAL));
        assert!(is_other, "{error:?}");
    }
}

#[test]
fn a_segment_that_is_shorter_than_told_is_refused() {
    let error = Segment::map(memfd(8191, SEALS), 8192).expect_err("too short");
    assert_eq!(
        error.to_string(),
        "the file has 8191 bytes, the segment 8192"
    );
    assert!(Segment::map(memfd(8192, SEALS), 8192).is_ok());
    let short = memfd(100, SEALS);
    assert!(Reader::map(short.as_fd(), u64::MAX).is_err());
    assert!(Reader::map(short.as_fd(), 101).is_err());
    assert!(Reader::map(short.as_fd(), 0).is_err());
    assert!(Segment::create(c"test", 0).is_err());
}

#[test]
fn what_may_only_be_read_is_mapped_by_a_reader_alone() {
    let file = memfd(4096, SealFlags::empty());
    (&File::from(file.try_clone().expect("a descriptor")))
        .write_all(b"told")
        .expect("bytes");
    fcntl_add_seals(&file, SEALS | SealFlags::WRITE).expect("seals");
    let reader = Reader::map(file.as_fd(), 4096).expect("a mapping");
    let mut seen = [0; 4];
    reader.read(0, &mut seen).expect("inside");
    assert_eq!(&seen, b"told");
    let error = Segment::map(file, 4096).expect_err("it cannot be written");
    assert!(matches!(error, MapError::System(Errno::PERM)), "{error}");
}

#[test]
fn memory_is_allocated_within_a_segment_only() {
    let segment = Segment::create(c"test", 1 << 20).expect("memory");
    let blocks = || rustix::fs::fstat(segment.file()).expect("a file").st_blocks;
    assert_eq!(blocks(), 0);
    segment.allocate(4096, 65_536).expect("memory");
    assert_eq!(blocks() * 512, 65_536);
    assert!(segment.allocate(1 << 20, 4096).is_err());
}

#[test]
fn a_mapping_goes_with_its_segment_unless_it_is_kept() {
    let is_mapped = |address: usize| {
        let page = std::ptr::with_exposed_provenance_mut(address);
        let mut resident = 0_u8;
        // SAFETY: a question about one page, answered in a local variable.
        unsafe { libc::mincore(page, 4096, &raw mut resident) == 0 }
    };
    // In a child, where no other thread maps something at the same place.
    let child = fork(|| {
        let segment = Segment::create(c"test", 4096).expect("memory");
        let at = segment.address(0, 1).expect("inside").addr().get();
        let before = is_mapped(at);
        drop(segment);
        let after = is_mapped(at);
        let kept = Segment::create(c"test", 4096).expect("memory");
        let (base, _file) = kept.leak();
        before && !after && is_mapped(base.addr().get())
    });
    assert_eq!(child.end(), Some(true));
}

#[test]
fn a_soft_limit_on_files_does_not_hold_for_segments() {
    let child = fork(|| {
        let limit = libc::rlimit {
            rlim_cur: 4096,
            rlim_max: libc::RLIM_INFINITY,
        };
        // SAFETY: a local structure.
        let done = unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) };
        let segment = Segment::create(c"test", 1 << 20);
        done != 0 || segment.is_ok_and(|segment| segment.write(1 << 19, b"far").is_ok())
    });
    assert_eq!(child.end(), Some(true));
}
