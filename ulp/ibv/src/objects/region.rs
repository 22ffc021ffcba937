//! Memory of our own for adapters: a sealed memfd, mapped and shared.
//!
//! An adapter, a peer or another process may write it at any time, so no reference to its bytes is ever formed: they are reached by
//! copies and through atomic words.

use super::any_thread;
use std::ffi::CStr;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// A mapped range.
pub struct Region {
    at: NonNull<u8>,
    length: usize,
    file: OwnedFd,
}

any_thread!(Region);

/// A range that does not lie inside a region, or a word that is not aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfRange {
    /// Where it would begin, bytes from the region's start.
    pub at: usize,
    /// How long it would be, bytes.
    pub length: usize,
    /// How long the region is, bytes.
    pub size: usize,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OutOfRange { at, length, size } = self;
        write!(f, "{length} bytes at {at} of a region of {size}")
    }
}

impl std::error::Error for OutOfRange {}

/// What keeps a file from becoming shorter than its mappings.
const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;

impl Region {
    /// New zeroed memory. Pages come when they are first touched; the file can neither grow nor shrink.
    ///
    /// # Errors
    /// EINVAL for a length of 0; what `memfd_create`, `ftruncate` and `mmap` answer.
    pub fn create(name: &CStr, length: usize) -> io::Result<Arc<Region>> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a string.
        let fd = unsafe { libc::memfd_create(name.as_ptr(), flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and ours.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        ferriband_limit::set_length(file.as_fd(), length as u64)?;
        // SAFETY: an open descriptor.
        check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS) })?;
        Region::map(file, 0, length)
    }

    /// Maps a piece of a memfd that another process made.
    ///
    /// # Errors
    /// EINVAL if the file may still shrink (touching what is gone would be SIGBUS), if the piece does not lie in it or its start is
    /// not that of a page.
    pub fn map(file: OwnedFd, at: u64, length: usize) -> io::Result<Arc<Region>> {
        let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
        // SAFETY: an open descriptor.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        let size = std::fs::File::from(file.try_clone()?).metadata()?.len();
        let end = at.checked_add(length as u64).ok_or_else(invalid)?;
        if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 || end > size || length == 0 {
            return Err(invalid());
        }
        let start = libc::off_t::try_from(at).map_err(|_| invalid())?;
        let (read, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let mapped = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                read,
                shared,
                file.as_raw_fd(),
                start,
            )
        };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(mapped.cast()).ok_or_else(invalid)?;
        Ok(Arc::new(Region { at, length, file }))
    }

    /// Its length, bytes.
    pub fn size(&self) -> usize {
        self.length
    }

    /// Where it begins in this process.
    pub fn address(&self) -> u64 {
        self.at.as_ptr().expose_provenance() as u64
    }

    /// The file, for sending it to another process.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Copies bytes out.
    pub fn read(&self, at: usize, to: &mut [u8]) -> Result<(), OutOfRange> {
        let from = self.pointer(at, to.len(), 1)?;
        // SAFETY: the range is mapped, and nobody holds a reference into it; bytes that somebody writes meanwhile are any bytes.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    /// Copies bytes in.
    pub fn write(&self, at: usize, from: &[u8]) -> Result<(), OutOfRange> {
        let to = self.pointer(at, from.len(), 1)?;
        // SAFETY: as in `read`.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        Ok(())
    }

    /// The byte at `at`.
    pub fn byte(&self, at: usize) -> Result<&AtomicU8, OutOfRange> {
        let pointer = self.pointer(at, 1, 1)?;
        // SAFETY: mapped as long as `self`, and shared bytes are only ever reached atomically or by copies.
        Ok(unsafe { AtomicU8::from_ptr(pointer) })
    }

    /// The aligned 32-bit word at `at`.
    pub fn word32(&self, at: usize) -> Result<&AtomicU32, OutOfRange> {
        let pointer = self.pointer(at, 4, 4)?;
        // SAFETY: as in `byte`, and aligned.
        Ok(unsafe { AtomicU32::from_ptr(pointer.cast()) })
    }

    /// The aligned 64-bit word at `at`.
    pub fn word(&self, at: usize) -> Result<&AtomicU64, OutOfRange> {
        let pointer = self.pointer(at, 8, 8)?;
        // SAFETY: as in `byte`, and aligned.
        Ok(unsafe { AtomicU64::from_ptr(pointer.cast()) })
    }

    /// Where `length` bytes at `at` lie.
    fn pointer(&self, at: usize, length: usize, align: usize) -> Result<*mut u8, OutOfRange> {
        let inside = at.checked_add(length).is_some_and(|end| end <= self.length);
        if !inside || !at.is_multiple_of(align) {
            return Err(OutOfRange {
                at,
                length,
                size: self.length,
            });
        }
        // SAFETY: `at` lies in the mapping.
        Ok(unsafe { self.at.as_ptr().add(at) })
    }
}

fn check(returned: i32) -> io::Result<()> {
    if returned < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region({:#x}, {})", self.address(), self.length)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and memory regions that name it keep `self` alive.
        let returned = unsafe { libc::munmap(self.at.as_ptr().cast(), self.length) };
        debug_assert_eq!(returned, 0, "a whole mapping can be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn two_mappings_of_a_file_are_one_memory() {
        let first = Region::create(c"test", 8192).expect("memory");
        let file = first.file().try_clone_to_owned().expect("a descriptor");
        let second = Region::map(file, 4096, 4096).expect("a mapping");
        first.write(4100, b"both").expect("inside");
        let mut seen = [0; 4];
        second.read(4, &mut seen).expect("inside");
        assert_eq!(&seen, b"both");
        second.word(8).expect("aligned").store(7, Ordering::Release);
        assert_eq!(
            first.word(4104).expect("aligned").load(Ordering::Acquire),
            7
        );
    }

    #[test]
    fn what_lies_outside_or_askew_is_refused() {
        let region = Region::create(c"test", 100).expect("memory");
        assert!(region.write(96, &[0; 4]).is_ok());
        assert!(region.write(97, &[0; 4]).is_err());
        assert!(region.read(usize::MAX, &mut [0; 2]).is_err());
        assert!(region.word(4).is_err());
        assert!(region.word32(4).is_ok());
        assert!(region.word(96).is_err());
        let error = region.byte(100).expect_err("behind the end");
        assert_eq!(error.to_string(), "1 bytes at 100 of a region of 100");
    }

    #[test]
    fn a_file_that_may_shrink_is_not_mapped() {
        // SAFETY: a name.
        let fd = unsafe { libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(fd >= 0);
        // SAFETY: new and ours.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        let error = Region::map(file, 0, 4096).expect_err("not sealed");
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        assert!(Region::create(c"test", 0).is_err());
    }
}
