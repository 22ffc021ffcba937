//! Zeroed memory that is reserved at once and costs what is touched of it.
//!
//! Owns: anonymous mappings and words in them. Must not know: what the words mean.

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::process::Resource;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Who sees what is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    /// This process and children that fork from it.
    ByChildren,
    /// This process; a child begins with a copy.
    Copied,
    /// This process; a child begins with zeros, however it was forked.
    Wiped,
}

/// With a lower limit on the address space (RLIMIT_AS) nothing is reserved: it is the program's.
const LEAST_SPACE: u64 = 16 << 30;

/// The program locks all of its memory.
static IS_LOCKED: AtomicBool = AtomicBool::new(false);

/// Before the program locks all of its memory, what it will map included: nothing more is reserved.
/// Gives whether something was.
pub(crate) fn lock_all() -> bool {
    IS_LOCKED.store(true, Ordering::SeqCst);
    IS_RESERVED.load(Ordering::SeqCst)
}

static IS_RESERVED: AtomicBool = AtomicBool::new(false);

fn may_reserve() -> bool {
    let space = rustix::process::getrlimit(Resource::As).current;
    space.is_none_or(|space| space >= LEAST_SPACE) && !IS_LOCKED.load(Ordering::SeqCst)
}

/// Such memory.
#[derive(Debug)]
pub(crate) struct Pages {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: memory of this process that is reached by atomic words alone.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Reserves it.
    ///
    /// # Errors
    /// NOMEM, also where the program would lack what is reserved; INVAL if the kernel cannot wipe memory in a child (Linux 4.14).
    pub fn reserve(bytes: usize, seen: Seen) -> Result<Self, Errno> {
        if !may_reserve() {
            return Err(Errno::NOMEM);
        }
        IS_RESERVED.store(true, Ordering::SeqCst);
        let kind = match seen {
            Seen::ByChildren => MapFlags::SHARED,
            Seen::Copied | Seen::Wiped => MapFlags::PRIVATE,
        };
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses an address where nothing is.
        let at = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                access,
                kind | MapFlags::NORESERVE,
            )
        }?;
        let at = NonNull::new(at.cast()).ok_or(Errno::NOMEM)?;
        let pages = Pages { at, bytes };
        // a kernel that dumps it all the same does no harm
        let _ = pages.advise(Advice::LinuxDontDump);
        if seen == Seen::Wiped {
            pages.advise(Advice::LinuxWipeOnFork)?;
        }
        Ok(pages)
    }

    fn advise(&self, advice: Advice) -> Result<(), Errno> {
        // SAFETY: this mapping, whose content neither advice changes in this process.
        unsafe { rustix::mm::madvise(self.at.as_ptr().cast(), self.bytes, advice) }
    }

    /// A value of a type that is made of atomic words alone and may begin as zeros.
    ///
    /// # Safety
    /// `T` is such a type, and what lies at this place is always seen as one.
    #[inline]
    pub unsafe fn at<T>(&self, byte: usize) -> &T {
        debug_assert!(byte.is_multiple_of(align_of::<T>()));
        assert!(byte <= self.bytes && size_of::<T>() <= self.bytes - byte);
        // SAFETY: inside the mapping, aligned since that begins at a page; the caller's promise.
        unsafe { &*self.at.as_ptr().add(byte).cast() }
    }

    /// A word of 64 bits.
    #[inline]
    pub fn word(&self, byte: usize) -> &AtomicU64 {
        // SAFETY: a word is what it is.
        unsafe { self.at(byte) }
    }

    /// A word of 32 bits.
    #[inline]
    pub fn half(&self, byte: usize) -> &AtomicU32 {
        // SAFETY: a word is what it is.
        unsafe { self.at(byte) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: this mapping, to which nobody refers any more.
        let _ = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}
