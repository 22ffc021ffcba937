//! Memory that peers write to: never a reference to it, only single bytes by volatile access.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// What kind of memory a region is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Private,
    Shared,
    Device,
}

impl Kind {
    pub fn from_word(word: u64) -> Self {
        [Kind::Private, Kind::Shared, Kind::Device][word as usize]
    }
}

/// A mapping of this process.
#[derive(Debug)]
pub struct Memory {
    addr: u64,
    len: usize,
    owned: bool,
}

impl Memory {
    /// Zeroed memory, private or shared by a memfd whose descriptor stays open for peers to map.
    pub fn new(kind: Kind, len: usize) -> Memory {
        let mut flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let mut fd = None;
        if kind == Kind::Shared {
            // SAFETY: a new descriptor.
            let raw = unsafe { libc::memfd_create(c"ferriband-test".as_ptr(), libc::MFD_CLOEXEC) };
            assert!(raw >= 0);
            // SAFETY: just made, ours.
            let file = unsafe { OwnedFd::from_raw_fd(raw) };
            // SAFETY: sets the length of our own file.
            assert_eq!(unsafe { libc::ftruncate(raw, len as i64) }, 0);
            flags = libc::MAP_SHARED;
            fd = Some(file);
        }
        let raw = fd.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, raw, 0) };
        assert!(base != libc::MAP_FAILED);
        // a program may keep the descriptor or not; one that does lets peers map the memory
        std::mem::forget(fd);
        Memory {
            addr: base as u64,
            len,
            owned: true,
        }
    }

    /// Memory that somebody else owns.
    pub fn foreign(addr: u64, len: usize) -> Memory {
        Memory {
            addr,
            len,
            owned: false,
        }
    }

    pub fn addr(&self) -> u64 {
        self.addr
    }

    pub fn len(&self) -> usize {
        self.len
    }

    fn at(&self, at: usize) -> *mut u8 {
        assert!(at < self.len);
        std::ptr::with_exposed_provenance_mut(self.addr as usize + at)
    }

    pub fn byte(&self, at: usize) -> u8 {
        // SAFETY: inside the mapping.
        unsafe { self.at(at).read_volatile() }
    }

    pub fn set(&self, at: usize, value: u8) {
        // SAFETY: inside the mapping.
        unsafe { self.at(at).write_volatile(value) }
    }

    pub fn word(&self, at: usize) -> u64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.len);
        // SAFETY: inside the mapping, aligned.
        unsafe { self.at(at).cast::<u64>().read_volatile() }
    }

    pub fn fill(&self, at: usize, len: usize, value: u8) {
        (at..at + len).for_each(|at| self.set(at, value));
    }

    /// Smallest and largest byte of a range.
    pub fn extremes(&self, at: usize, len: usize) -> (u8, u8) {
        (at..at + len).fold((255, 0), |(low, high), at| {
            let byte = self.byte(at);
            (low.min(byte), high.max(byte))
        })
    }

    /// Unmaps it, and maps private memory of zeros at the same place at once: what a program's next use would find there.
    pub fn reuse(&self) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let at = std::ptr::with_exposed_provenance_mut(self.addr as usize);
        // SAFETY: replaces our own mapping.
        let base = unsafe { libc::mmap(at, self.len, prot, flags, -1, 0) };
        assert_eq!(base as u64, self.addr);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.owned {
            let at = std::ptr::with_exposed_provenance_mut(self.addr as usize);
            // SAFETY: our own mapping, not used any more.
            unsafe { libc::munmap(at, self.len) };
        }
    }
}
