//! Memory that processes of one host share: sealed memfds and their mappings.
//!
//! Owns: how such a file is made and checked, its mappings, and each access to mapped bytes. Must
//! not know: what lies where in a segment, and how a descriptor travels to another process.
//!
//! An access behind the end of a file is SIGBUS. So a file is mapped only if its seals say that
//! nobody can make it shorter, and if it is as long as the mapping. Another process may write to
//! the memory at any time: it is reached by atomic words and by copies, never by references to its
//! bytes, and what is read has to be checked by whoever reads it.

use crate::copy;
use crate::wake::{self, Until, Wait};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::CStr;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The seals of a segment: its length is fixed, and so are the seals.
const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);

/// The type of the file system in which the kernel keeps memfds of ordinary pages, as statfs(2)
/// tells it. Pages of another size may be missing when they are touched.
const TMPFS: u64 = 0x0102_1994;

/// Why a file is not mapped.
#[derive(Debug)]
pub enum MapError {
    /// The file is no memfd of ordinary pages.
    Kind,
    /// The file's length could still change.
    Unsealed {
        /// The seals that are missing.
        missing: SealFlags,
    },
    /// The file is shorter than the segment is said to be.
    Short {
        /// Bytes that were to be mapped.
        expected: u64,
        /// Bytes of the file.
        got: u64,
    },
    /// A segment of no bytes, or of more than the address space has.
    Length(u64),
    /// What a system call answered.
    System(Errno),
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind => write!(f, "the file is no memfd of ordinary pages"),
            Self::Unsealed { missing } => write!(f, "the file is not sealed: {missing:?} missing"),
            Self::Short { expected, got } => {
                write!(f, "the file has {got} bytes, the segment {expected}")
            }
            Self::Length(length) => write!(f, "a segment cannot have {length} bytes"),
            Self::System(errno) => write!(f, "the segment cannot be mapped: {errno}"),
        }
    }
}

impl std::error::Error for MapError {}

impl From<Errno> for MapError {
    fn from(errno: Errno) -> Self {
        Self::System(errno)
    }
}

impl From<MapError> for io::Error {
    fn from(error: MapError) -> Self {
        match error {
            MapError::System(errno) => errno.into(),
            error => Self::new(io::ErrorKind::InvalidData, error),
        }
    }
}

/// A range that does not lie inside a segment, or a word that is not aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfRange {
    /// Where it would begin, bytes from the segment's start.
    pub at: u64,
    /// How long it would be, bytes.
    pub length: usize,
    /// How long the segment is, bytes.
    pub size: usize,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, length, size } = self;
        write!(f, "{length} bytes at {at} of a segment of {size}")
    }
}

impl std::error::Error for OutOfRange {}

impl From<OutOfRange> for io::Error {
    fn from(error: OutOfRange) -> Self {
        Self::new(io::ErrorKind::InvalidInput, error)
    }
}

/// Makes a memfd of zeroed memory whose length is fixed for ever. Pages come when they are touched.
///
/// # Errors
/// EFBIG if the hard limit on the size of files (`ulimit -H -f`) is lower than `length`, which the
/// soft limit may be; EINVAL if `name` is longer than 249 bytes; EMFILE, ENFILE, ENOMEM.
pub fn create(name: &CStr, length: u64) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Linux knows NOEXEC_SEAL since 6.3, and an administrator may demand it (vm.memfd_noexec).
    let file = match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags)?,
        made => made?,
    };
    ferriband_limit::set_length(file.as_fd(), length)?;
    rustix::fs::fcntl_add_seals(&file, SEALS)?;
    Ok(file)
}

/// The length of a file in bytes, once it is certain that it is a memfd whose length is fixed.
///
/// # Errors
/// [`MapError::Kind`], [`MapError::Unsealed`], [`MapError::System`].
pub fn check(file: BorrowedFd<'_>) -> Result<u64, MapError> {
    if rustix::fs::fstatfs(file)?.f_type.cast_unsigned() != TMPFS {
        return Err(MapError::Kind);
    }
    // A file that somebody has made in a tmpfs can be sealed by nobody.
    let missing = SEALS - rustix::fs::fcntl_get_seals(file)?;
    if !missing.is_empty() {
        return Err(MapError::Unsealed { missing });
    }
    let length = rustix::fs::fstat(file)?.st_size;
    u64::try_from(length).map_err(|_| MapError::Kind)
}

/// Sees to it that there is memory behind a range of a segment's file, so that no access to the
/// range can fail for want of memory.
///
/// # Errors
/// ENOSPC or ENOMEM if there is none; EPERM if the range does not lie in the file.
pub fn allocate(file: BorrowedFd<'_>, at: u64, length: u64) -> io::Result<()> {
    let flags = rustix::fs::FallocateFlags::empty();
    Ok(rustix::io::retry_on_intr(|| {
        rustix::fs::fallocate(file, flags, at, length)
    })?)
}

/// A mapping of a file that cannot become shorter. It is unmapped when this is dropped.
struct Mapping {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: no thread owns a mapping, and its bytes are reached by atomic words and copies only.
unsafe impl Send for Mapping {}
// SAFETY: as for Send.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: BorrowedFd<'_>, length: u64, access: ProtFlags) -> Result<Self, MapError> {
        let got = check(file)?;
        if length > got {
            let expected = length;
            return Err(MapError::Short { expected, got });
        }
        let length = usize::try_from(length)
            .ok()
            .filter(|bytes| *bytes > 0)
            .ok_or(MapError::Length(length))?;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a new mapping at a place that the kernel chooses.
        let base =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, access, flags, file, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(MapError::System(Errno::FAULT))?;
        copy::know_processor();
        Ok(Self { base, length })
    }

    /// The address of `length` bytes at `at`, which must be a multiple of `align`.
    #[inline]
    fn place(&self, at: u64, length: usize, align: u64) -> Result<NonNull<u8>, OutOfRange> {
        let is_inside = length <= self.length && at <= (self.length - length) as u64;
        if !is_inside || at & (align - 1) != 0 {
            return Err(self.out_of_range(at, length));
        }
        // SAFETY: `at` is no farther than the mapping's end.
        Ok(unsafe { self.base.add(at as usize) })
    }

    #[cold]
    fn out_of_range(&self, at: u64, length: usize) -> OutOfRange {
        let size = self.length;
        OutOfRange { at, length, size }
    }

    #[inline]
    fn word32(&self, at: u64) -> Result<&AtomicU32, OutOfRange> {
        let word = self.place(at, 4, 4)?.as_ptr().cast();
        // SAFETY: the word is mapped as long as `self`, aligned because mappings begin at a page,
        // and shared bytes are reached by atomic words and copies only.
        Ok(unsafe { AtomicU32::from_ptr(word) })
    }

    #[inline]
    fn word64(&self, at: u64) -> Result<&AtomicU64, OutOfRange> {
        let word = self.place(at, 8, 8)?.as_ptr().cast();
        // SAFETY: as in `word32`.
        Ok(unsafe { AtomicU64::from_ptr(word) })
    }

    fn read(&self, at: u64, to: &mut [u8]) -> Result<(), OutOfRange> {
        let from = self.place(at, to.len(), 1)?.as_ptr();
        // SAFETY: the range is mapped, and a slice of this process does not overlap it. If another
        // process writes to it meanwhile, the copy has some of the bytes of before and of after.
        unsafe { copy::bytes(from, to.as_mut_ptr(), to.len()) };
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this object's, and whatever was borrowed from it has ended.
        let done = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.length) };
        debug_assert!(done.is_ok(), "a whole mapping can be unmapped");
    }
}

/// Shared memory that this process may write to, and what keeps the file behind it open.
pub struct Segment<F = OwnedFd> {
    mapping: Mapping,
    file: F,
}

impl Segment {
    /// New zeroed memory of `length` bytes.
    ///
    /// # Errors
    /// What [`create`] and [`Segment::map`] answer.
    pub fn create(name: &CStr, length: u64) -> io::Result<Self> {
        Ok(Self::map(create(name, length)?, length)?)
    }
}

impl<F: AsFd> Segment<F> {
    /// Maps the first `length` bytes of a file that came from elsewhere.
    ///
    /// # Errors
    /// [`MapError`] says what is wrong with the file. EACCES if the descriptor is for reading only;
    /// EPERM if the file is sealed against writing.
    pub fn map(file: F, length: u64) -> Result<Self, MapError> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let mapping = Mapping::new(file.as_fd(), length, access)?;
        Ok(Self { mapping, file })
    }

    /// Bytes of the mapping.
    #[inline]
    pub fn length(&self) -> usize {
        self.mapping.length
    }

    /// The file, which other processes map.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The aligned word of 32 bits at `at`.
    ///
    /// # Errors
    /// The word is not inside the segment, or not aligned.
    #[inline]
    pub fn word32(&self, at: u64) -> Result<&AtomicU32, OutOfRange> {
        self.mapping.word32(at)
    }

    /// The aligned word of 64 bits at `at`.
    ///
    /// # Errors
    /// The word is not inside the segment, or not aligned.
    #[inline]
    pub fn word64(&self, at: u64) -> Result<&AtomicU64, OutOfRange> {
        self.mapping.word64(at)
    }

    /// Copies bytes out of the segment. Bytes that somebody writes meanwhile may be old or new.
    ///
    /// # Errors
    /// The range is not inside the segment.
    #[inline]
    pub fn read(&self, at: u64, to: &mut [u8]) -> Result<(), OutOfRange> {
        self.mapping.read(at, to)
    }

    /// Copies bytes into the segment. A release store to a word publishes them.
    ///
    /// # Errors
    /// The range is not inside the segment.
    #[inline]
    pub fn write(&self, at: u64, from: &[u8]) -> Result<(), OutOfRange> {
        let to = self.mapping.place(at, from.len(), 1)?.as_ptr();
        // SAFETY: the range is mapped for writing, and a slice of this process does not overlap it.
        unsafe { copy::bytes(from.as_ptr(), to, from.len()) };
        Ok(())
    }

    /// The address of `length` bytes at `at`, for copies that another call makes. It may be used
    /// as long as the segment is mapped, for atomic words and copies only.
    ///
    /// # Errors
    /// The range is not inside the segment.
    #[inline]
    pub fn address(&self, at: u64, length: usize) -> Result<NonNull<u8>, OutOfRange> {
        self.mapping.place(at, length, 1)
    }

    /// Sees to it that there is memory behind a range, so that no access to it can fail for want of
    /// memory.
    ///
    /// # Errors
    /// ENOSPC or ENOMEM if there is none; EPERM if the range does not lie in the file.
    pub fn allocate(&self, at: u64, length: u64) -> io::Result<()> {
        allocate(self.file(), at, length)
    }

    /// Keeps the mapping until the process ends: where it begins, and the file behind it.
    pub fn leak(self) -> (NonNull<u8>, F) {
        let base = self.mapping.base;
        std::mem::forget(self.mapping);
        (base, self.file)
    }
}

impl From<Segment> for OwnedFd {
    fn from(segment: Segment) -> Self {
        segment.file
    }
}

impl<F: AsFd> AsFd for Segment<F> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file()
    }
}

impl<F> fmt::Debug for Segment<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mapping { base, length } = self.mapping;
        write!(f, "Segment({base:p}, {length})")
    }
}

/// Shared memory that this process only reads. The file behind it is closed.
pub struct Reader(Mapping);

impl Reader {
    /// Maps the first `length` bytes of a file that came from elsewhere.
    ///
    /// # Errors
    /// [`MapError`] says what is wrong with the file.
    pub fn map(file: BorrowedFd<'_>, length: u64) -> Result<Self, MapError> {
        Ok(Self(Mapping::new(file, length, ProtFlags::READ)?))
    }

    /// Bytes of the mapping.
    #[inline]
    pub fn length(&self) -> usize {
        self.0.length
    }

    /// Loads the aligned word of 32 bits at `at`.
    ///
    /// # Errors
    /// The word is not inside the segment, or not aligned.
    #[inline]
    pub fn load32(&self, at: u64, ordering: Ordering) -> Result<u32, OutOfRange> {
        Ok(self.0.word32(at)?.load(ordering))
    }

    /// Loads the aligned word of 64 bits at `at`.
    ///
    /// # Errors
    /// The word is not inside the segment, or not aligned.
    #[inline]
    pub fn load64(&self, at: u64, ordering: Ordering) -> Result<u64, OutOfRange> {
        Ok(self.0.word64(at)?.load(ordering))
    }

    /// Copies bytes out of the segment. Bytes that somebody writes meanwhile may be old or new.
    ///
    /// # Errors
    /// The range is not inside the segment.
    #[inline]
    pub fn read(&self, at: u64, to: &mut [u8]) -> Result<(), OutOfRange> {
        self.0.read(at, to)
    }

    /// Sleeps while the word of 32 bits at `at` is `value`, as [`wake::wait`] does.
    ///
    /// # Errors
    /// The word is not inside the segment, or not aligned (`InvalidInput`); what [`wake::wait`]
    /// answers.
    pub fn wait(&self, at: u64, value: u32, until: Until) -> io::Result<Wait> {
        wake::wait(self.0.word32(at)?, value, until)
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mapping { base, length } = self.0;
        write!(f, "Reader({base:p}, {length})")
    }
}

#[cfg(test)]
mod tests;
