//! Shared memory segments: sealed memfds, mapped once, reached by checked byte offsets.
//!
//! Owns: the mapping, its descriptor, and every access to it. Must not know: what lies at an offset.
//!
//! *Truncation.* A peer's segment that shrank under us would be SIGBUS, so only memfds whose size is sealed are
//! mapped ([`Segment::from_fd`]).
//!
//! *Fork.* A child inherits the mappings (no MADV_DONTFORK). The rules above this room refuse a child every
//! inherited object with EIO, and to say so they read state that lies in segments: a missing mapping would turn
//! that answer into SIGSEGV, and device memory (`ibv_alloc_dm`) is the application's to read in the child too. What
//! the mapping costs is that a long-lived child keeps the pages of a dead parent; a segment for which that matters
//! and which no refused call reads may be taken from children by [`Segment::keep_from_children`].

use crate::Error;
use crate::copy::copy_ascending;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What the seals of a segment must include.
const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);

/// Pages are committed in steps of this many bytes: a signal interrupts fallocate and undoes it, so a step must
/// be short against the period of any profiling timer.
const COMMIT_STEP_BYTES: usize = 4 << 20;

/// How a segment is mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Loads and stores.
    ReadWrite,
    /// Loads only: a store panics, as an offset out of range does.
    ReadOnly,
}

/// Mapped bytes that somebody else may write: the accesses that [`Segment`] and
/// [`crate::mapping::PeerMapping`] share (both dereference to it).
///
/// All offsets are in bytes from the start of the mapping, which is page aligned. An offset that is out of range,
/// misaligned, or written to in a read-only mapping, is a bug of the caller: it panics.
#[derive(Debug)]
pub struct Span {
    base: NonNull<u8>,
    len: usize,
    /// `len` where stores are allowed, else 0, so that one compare checks range and right.
    writable_len: usize,
    /// Attached by shmat, so it ends by shmdt.
    attached: bool,
}

// SAFETY: a Span owns its mapping, and every access through it is atomic or a raw copy whose races yield
// unspecified bytes, never a broken reference.
unsafe impl Send for Span {}
// SAFETY: as above; no method needs exclusive access to the bytes.
unsafe impl Sync for Span {}

impl Span {
    /// Takes over a mapping, to be unmapped on drop.
    ///
    /// # Safety
    /// `base` must be page aligned, mapped for `len` bytes (rounded up to pages) with the rights that `access`
    /// names, owned by nobody else, and not subject to truncation unless the caller documents so.
    pub(crate) unsafe fn from_raw(base: NonNull<u8>, len: usize, access: Access) -> Span {
        let writable_len = if access == Access::ReadWrite { len } else { 0 };
        Span {
            base,
            len,
            writable_len,
            attached: false,
        }
    }

    /// Takes over a System V segment that shmat attached, to be detached on drop.
    ///
    /// # Safety
    /// As for [`Span::from_raw`]; `base` came from shmat.
    pub(crate) unsafe fn from_attached(base: NonNull<u8>, len: usize, access: Access) -> Span {
        // SAFETY: the caller's promise.
        let mut span = unsafe { Span::from_raw(base, len, access) };
        span.attached = true;
        span
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// False: no mapping is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether stores are allowed.
    #[inline]
    pub fn is_writable(&self) -> bool {
        self.writable_len != 0
    }

    /// The address of offset 0 in this process, for memory that the application sees (device memory).
    #[inline]
    pub fn base_addr(&self) -> u64 {
        self.base.as_ptr().addr() as u64
    }

    /// Loads the 8 bytes at `off`.
    #[inline(always)]
    pub fn load(&self, off: usize, order: Ordering) -> u64 {
        self.word_to_read(off).load(order)
    }

    /// Stores 8 bytes at `off`.
    #[inline(always)]
    pub fn store(&self, off: usize, value: u64, order: Ordering) {
        self.word(off).store(value, order);
    }

    /// Exchanges the 8 bytes at `off`, giving the old value.
    #[inline(always)]
    pub fn swap(&self, off: usize, value: u64, order: Ordering) -> u64 {
        self.word(off).swap(value, order)
    }

    /// Stores `new` at `off` if `current` is there. Ok and Err carry the value found.
    #[inline(always)]
    pub fn compare_exchange(
        &self,
        off: usize,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.word(off)
            .compare_exchange(current, new, success, failure)
    }

    /// Adds to the 8 bytes at `off`, wrapping, giving the old value.
    #[inline(always)]
    pub fn fetch_add(&self, off: usize, value: u64, order: Ordering) -> u64 {
        self.word(off).fetch_add(value, order)
    }

    /// Subtracts from the 8 bytes at `off`, wrapping, giving the old value.
    #[inline(always)]
    pub fn fetch_sub(&self, off: usize, value: u64, order: Ordering) -> u64 {
        self.word(off).fetch_sub(value, order)
    }

    /// Sets bits in the 8 bytes at `off`, giving the old value.
    #[inline(always)]
    pub fn fetch_or(&self, off: usize, value: u64, order: Ordering) -> u64 {
        self.word(off).fetch_or(value, order)
    }

    /// Clears the bits that `value` lacks, giving the old value.
    #[inline(always)]
    pub fn fetch_and(&self, off: usize, value: u64, order: Ordering) -> u64 {
        self.word(off).fetch_and(value, order)
    }

    /// Loads the 4 bytes at `off` (futex words).
    #[inline(always)]
    pub fn load_u32(&self, off: usize, order: Ordering) -> u32 {
        self.half_to_read(off).load(order)
    }

    /// Stores 4 bytes at `off`.
    #[inline(always)]
    pub fn store_u32(&self, off: usize, value: u32, order: Ordering) {
        self.half(off).store(value, order);
    }

    /// Exchanges the 4 bytes at `off`, giving the old value.
    #[inline(always)]
    pub fn swap_u32(&self, off: usize, value: u32, order: Ordering) -> u32 {
        self.half(off).swap(value, order)
    }

    /// Adds to the 4 bytes at `off`, wrapping, giving the old value.
    #[inline(always)]
    pub fn fetch_add_u32(&self, off: usize, value: u32, order: Ordering) -> u32 {
        self.half(off).fetch_add(value, order)
    }

    /// Copies `bytes` to `off`, ascending, the last byte visible last.
    #[inline]
    pub fn copy_in(&self, off: usize, bytes: &[u8]) {
        let dst = self.write_ptr(off, bytes.len());
        // SAFETY: write_ptr checked the destination; the source is a slice.
        unsafe { copy_ascending(dst, bytes.as_ptr(), bytes.len()) };
    }

    /// Copies from `off` into `bytes`.
    #[inline]
    pub fn copy_out(&self, off: usize, bytes: &mut [u8]) {
        let src = self.read_ptr(off, bytes.len());
        // SAFETY: read_ptr checked the source; the destination is an exclusive slice.
        unsafe { copy_ascending(bytes.as_mut_ptr(), src, bytes.len()) };
    }

    /// Sets `len` bytes at `off` to zero.
    pub fn zero(&self, off: usize, len: usize) {
        let dst = self.write_ptr(off, len);
        // SAFETY: write_ptr checked the range.
        unsafe { dst.write_bytes(0, len) };
    }

    /// The address of `len` readable bytes at `off`.
    #[inline(always)]
    pub(crate) fn read_ptr(&self, off: usize, len: usize) -> *const u8 {
        if len > self.len || off > self.len - len {
            out_of_range(self, off, len);
        }
        self.base.as_ptr().wrapping_add(off)
    }

    /// The address of `len` writable bytes at `off`.
    #[inline(always)]
    pub(crate) fn write_ptr(&self, off: usize, len: usize) -> *mut u8 {
        if len > self.writable_len || off > self.writable_len - len {
            out_of_range(self, off, len);
        }
        self.base.as_ptr().wrapping_add(off)
    }

    /// The 4 bytes at `off` for a futex call.
    pub(crate) fn futex_word(&self, off: usize) -> &AtomicU32 {
        self.half_to_read(off)
    }

    #[inline(always)]
    fn word(&self, off: usize) -> &AtomicU64 {
        // Rotation moves misaligned bits to the top: one compare checks alignment, range and right.
        if off.rotate_right(3) >= self.writable_len / 8 {
            out_of_range(self, off, 8);
        }
        // SAFETY: in range and aligned (the base is page aligned), mapped while self lives, and only accessed
        // atomically where it is used as a word.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(off).cast()) }
    }

    #[inline(always)]
    fn word_to_read(&self, off: usize) -> &AtomicU64 {
        if off.rotate_right(3) >= self.len / 8 {
            out_of_range(self, off, 8);
        }
        // SAFETY: as in `word`; a load needs no right to write.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(off).cast()) }
    }

    #[inline(always)]
    fn half(&self, off: usize) -> &AtomicU32 {
        if off.rotate_right(2) >= self.writable_len / 4 {
            out_of_range(self, off, 4);
        }
        // SAFETY: as in `word`, for 4 bytes.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(off).cast()) }
    }

    #[inline(always)]
    fn half_to_read(&self, off: usize) -> &AtomicU32 {
        if off.rotate_right(2) >= self.len / 4 {
            out_of_range(self, off, 4);
        }
        // SAFETY: as in `half`; a load needs no right to write.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(off).cast()) }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if self.attached {
            // SAFETY: attached by shmat, ours alone (`from_attached`), and no access outlives self.
            let result = unsafe { libc::shmdt(self.base.as_ptr().cast()) };
            debug_assert_eq!(result, 0, "shmdt of our own segment failed");
            return;
        }
        // SAFETY: the mapping is ours alone (`from_raw`), and no access outlives self.
        let result = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(
            result.is_ok(),
            "munmap of our own mapping failed: {result:?}"
        );
    }
}

/// A shared memory segment: a [`Span`] and, until it is closed, the descriptor that makes it known to peers.
#[derive(Debug)]
pub struct Segment {
    span: Span,
    fd: Option<OwnedFd>,
    /// Has no file: visible to this process (and to the copy that fork makes of it) only.
    private: bool,
}

impl std::ops::Deref for Segment {
    type Target = Span;

    #[inline(always)]
    fn deref(&self) -> &Span {
        &self.span
    }
}

impl Segment {
    /// Creates a memfd of `len` zero bytes, its size sealed, mapped for loads and stores. `name` is shown in
    /// /proc/PID/maps and identifies nothing. Pages are allocated when first touched, or by [`Segment::commit`].
    ///
    /// # Errors
    /// `Invalid` for a length of 0, above 2^62, or a name with a NUL or longer than 249 bytes; `OutOfMemory`;
    /// `System` (EMFILE and the like).
    pub fn create(name: &str, len: usize) -> Result<Segment, Error> {
        check_len(len)?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Kernels before 6.3 do not know NOEXEC_SEAL; later ones may demand it (vm.memfd_noexec).
        let fd = match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
            Err(rustix::io::Errno::INVAL) => rustix::fs::memfd_create(name, flags),
            other => other,
        }
        .map_err(|e| match e {
            rustix::io::Errno::INVAL => Error::Invalid {
                what: "segment name",
            },
            e => Error::from_errno("memfd_create", e.raw_os_error(), len),
        })?;
        ferriband_limit::set_length(fd.as_fd(), len as u64).map_err(|e| {
            Error::from_errno("ftruncate", e.raw_os_error().unwrap_or(libc::EIO), len)
        })?;
        rustix::fs::fcntl_add_seals(&fd, SEALS)
            .map_err(|e| Error::from_errno("fcntl(F_ADD_SEALS)", e.raw_os_error(), 0))?;
        let span = map_shared(fd.as_fd(), len, Access::ReadWrite)?;
        Ok(Segment {
            span,
            fd: Some(fd),
            private: false,
        })
    }

    /// Maps a segment that a peer created. The descriptor stays open until [`Segment::close_fd`].
    ///
    /// # Errors
    /// `NotSealed` unless it is a memfd whose size is sealed; `TooSmall` if it has fewer than `min_len` bytes;
    /// `System` if it cannot be mapped with `access`.
    pub fn from_fd(fd: OwnedFd, min_len: usize, access: Access) -> Result<Segment, Error> {
        // Files on any other file system answer EINVAL; a plain file on tmpfs has no size seals.
        let seals = rustix::fs::fcntl_get_seals(&fd).map_err(|_| Error::NotSealed)?;
        if !seals.contains(SEALS) {
            return Err(Error::NotSealed);
        }
        let size = rustix::fs::fstat(&fd)
            .map_err(|e| Error::from_errno("fstat", e.raw_os_error(), 0))?
            .st_size;
        let len = usize::try_from(size).unwrap_or(0);
        if len < min_len {
            return Err(Error::TooSmall {
                expected: min_len,
                got: len,
            });
        }
        check_len(len)?;
        let span = map_shared(fd.as_fd(), len, access)?;
        Ok(Segment {
            span,
            fd: Some(fd),
            private: false,
        })
    }

    /// Memory of this process only, for queues that no other process reaches: no descriptor.
    ///
    /// # Errors
    /// `Invalid` for a length of 0 or above 2^62; `OutOfMemory`.
    pub fn private(len: usize) -> Result<Segment, Error> {
        check_len(len)?;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing that exists.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }
        .map_err(|e| Error::from_errno("mmap", e.raw_os_error(), len))?;
        let base = NonNull::new(base.cast()).expect("mmap never gives address 0 unless asked");
        // SAFETY: just mapped, ours, without a file.
        let span = unsafe { Span::from_raw(base, len, Access::ReadWrite) };
        Ok(Segment {
            span,
            fd: None,
            private: true,
        })
    }

    /// The descriptor to send to a peer; None for private segments and after [`Segment::close_fd`].
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// Closes the descriptor; the mapping stays. A process holds O(1) descriptors per peer this way.
    pub fn close_fd(&mut self) {
        self.fd = None;
    }

    /// Gives the descriptor away; the mapping stays.
    pub fn take_fd(&mut self) -> Option<OwnedFd> {
        self.fd.take()
    }

    /// Allocates the pages of `len` bytes at `off`, so that touching them later cannot be SIGBUS on a full
    /// machine. A no-op for private segments, and it works with the descriptor closed (Linux 5.14).
    ///
    /// # Errors
    /// `OutOfMemory` if the pages cannot be had. Panics if the range is not within the segment.
    pub fn commit(&self, off: usize, len: usize) -> Result<(), Error> {
        let start = self.span.write_ptr(off, len);
        if self.private || len == 0 {
            return Ok(());
        }
        let mut done = 0;
        while done < len {
            let step = COMMIT_STEP_BYTES.min(len - done);
            let result = match &self.fd {
                Some(fd) => {
                    let (at, step) = ((off + done) as u64, step as u64);
                    rustix::fs::fallocate(fd, FallocateFlags::empty(), at, step)
                }
                None => {
                    let at = start.wrapping_add(done);
                    let lead = at.addr() % rustix::param::page_size();
                    // SAFETY: populating pages of our own mapping changes no byte.
                    unsafe {
                        rustix::mm::madvise(
                            at.wrapping_sub(lead).cast(),
                            step + lead,
                            Advice::LinuxPopulateWrite,
                        )
                    }
                }
            };
            match result {
                Ok(()) => done += step,
                Err(rustix::io::Errno::INTR) => {}
                // Populating answers EFAULT where touching would have been SIGBUS.
                Err(rustix::io::Errno::FAULT) => {
                    return Err(Error::OutOfMemory {
                        call: "madvise",
                        bytes: len,
                    });
                }
                Err(e) => return Err(Error::from_errno("fallocate", e.raw_os_error(), len)),
            }
        }
        Ok(())
    }

    /// Takes the mapping from children that are forked from now on (MADV_DONTFORK); an access there is SIGSEGV.
    /// See the module's text for what this trades.
    ///
    /// # Errors
    /// `System`, if the kernel refuses.
    pub fn keep_from_children(&self) -> Result<(), Error> {
        let base = self.span.base.as_ptr().cast();
        // SAFETY: changes what fork copies, not a byte of the mapping.
        unsafe { rustix::mm::madvise(base, self.span.len, Advice::LinuxDontFork) }
            .map_err(|e| Error::from_errno("madvise", e.raw_os_error(), 0))
    }
}

/// A length that mmap and offset arithmetic can bear.
fn check_len(len: usize) -> Result<(), Error> {
    if len == 0 || len > 1 << 62 {
        return Err(Error::Invalid {
            what: "segment length",
        });
    }
    Ok(())
}

/// Maps `len` bytes from the start of `fd`, shared.
fn map_shared(fd: BorrowedFd<'_>, len: usize, access: Access) -> Result<Span, Error> {
    let prot = match access {
        Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        Access::ReadOnly => ProtFlags::READ,
    };
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let base =
        unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, prot, MapFlags::SHARED, fd, 0) }
            .map_err(|e| Error::from_errno("mmap", e.raw_os_error(), len))?;
    let base = NonNull::new(base.cast()).expect("mmap never gives address 0 unless asked");
    // SAFETY: just mapped with these rights, ours; callers have seen the seals, so it cannot be truncated.
    Ok(unsafe { Span::from_raw(base, len, access) })
}

#[cold]
#[inline(never)]
fn out_of_range(span: &Span, off: usize, len: usize) -> ! {
    panic!(
        "access of {len} bytes at offset {off} of a {} segment of {} bytes is out of range or misaligned",
        if span.is_writable() {
            "writable"
        } else {
            "read-only"
        },
        span.len
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    const RLX: Ordering = Ordering::Relaxed;

    #[test]
    fn two_mappings_of_one_segment_share_words_and_bytes() {
        let a = Segment::create("test", 8192).unwrap();
        let fd = a.fd().unwrap().try_clone_to_owned().unwrap();
        let b = Segment::from_fd(fd, 8192, Access::ReadWrite).unwrap();
        assert_ne!(a.base_addr(), b.base_addr());
        a.store(8, 5, RLX);
        assert_eq!(b.fetch_add(8, 2, RLX), 5);
        assert_eq!(a.fetch_sub(8, 1, RLX), 7);
        assert_eq!(a.fetch_or(8, 0x10, RLX), 6);
        assert_eq!(b.fetch_and(8, 0x10, RLX), 0x16);
        assert_eq!(a.swap(8, 9, RLX), 0x10);
        assert_eq!(b.compare_exchange(8, 9, 11, RLX, RLX), Ok(9));
        assert_eq!(b.compare_exchange(8, 9, 12, RLX, RLX), Err(11));
        assert_eq!(a.load(8, RLX), 11);
        a.store_u32(20, 0xffff_ffff, RLX);
        assert_eq!(b.fetch_add_u32(20, 1, RLX), 0xffff_ffff);
        assert_eq!(b.swap_u32(20, 3, RLX), 0);
        assert_eq!(a.load_u32(20, RLX), 3);
        a.copy_in(8192 - 5, b"hello");
        let mut got = [0; 5];
        b.copy_out(8192 - 5, &mut got);
        assert_eq!(&got, b"hello");
        b.zero(8190, 2);
        a.copy_out(8192 - 5, &mut got);
        assert_eq!(&got, b"hel\0\0");
    }

    #[test]
    fn descriptor_closes_and_mapping_stays() {
        let mut a = Segment::create("test", 4096).unwrap();
        let fd = a.take_fd().unwrap();
        assert!(a.fd().is_none());
        a.store(0, 7, RLX);
        let mut b = Segment::from_fd(fd, 1, Access::ReadWrite).unwrap();
        let number = b.fd().unwrap().as_raw_fd();
        b.close_fd();
        assert!(b.fd().is_none());
        // Another test's thread may have reused the number by now, so only the mapping is asked about.
        assert!(number >= 0);
        assert_eq!(b.load(0, RLX), 7);
        assert_eq!(b.len(), 4096);
    }

    #[test]
    fn unsealed_foreign_or_short_descriptors_are_refused() {
        let plain = rustix::fs::memfd_create("plain", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&plain, 4096).unwrap();
        assert_eq!(
            Segment::from_fd(plain, 1, Access::ReadWrite).unwrap_err(),
            Error::NotSealed
        );
        let half =
            rustix::fs::memfd_create("half", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
                .unwrap();
        rustix::fs::fcntl_add_seals(&half, SealFlags::GROW).unwrap();
        assert_eq!(
            Segment::from_fd(half, 1, Access::ReadWrite).unwrap_err(),
            Error::NotSealed
        );
        let other = std::fs::File::open("/proc/self/exe").unwrap();
        assert_eq!(
            Segment::from_fd(other.into(), 1, Access::ReadOnly).unwrap_err(),
            Error::NotSealed
        );
        let mut small = Segment::create("small", 100).unwrap();
        let fd = small.take_fd().unwrap();
        assert_eq!(
            Segment::from_fd(fd, 101, Access::ReadOnly).unwrap_err(),
            Error::TooSmall {
                expected: 101,
                got: 100
            }
        );
    }

    #[test]
    fn size_of_a_segment_cannot_change() {
        let a = Segment::create("test", 8192).unwrap();
        for size in [0, 4096, 1 << 20] {
            assert_eq!(
                rustix::fs::ftruncate(a.fd().unwrap(), size),
                Err(rustix::io::Errno::PERM)
            );
        }
    }

    #[test]
    fn bad_lengths_and_names_are_errors() {
        for result in [
            Segment::create("x", 0),
            Segment::private(0),
            Segment::create("a\0b", 64),
        ] {
            assert_eq!(result.unwrap_err().errno(), libc::EINVAL);
        }
        assert_eq!(
            Segment::create(&"n".repeat(300), 64).unwrap_err().errno(),
            libc::EINVAL
        );
        assert_eq!(Segment::private(1 << 60).unwrap_err().errno(), libc::ENOMEM);
    }

    #[test]
    fn commit_allocates_pages_with_and_without_descriptor() {
        let blocks = |s: &Segment| rustix::fs::fstat(s.fd().unwrap()).unwrap().st_blocks;
        let mut a = Segment::create("test", 16 << 20).unwrap();
        assert_eq!(blocks(&a), 0);
        a.commit(4096, 6 << 20).unwrap();
        assert_eq!(blocks(&a), (6 << 20) / 512);
        let peer = a.fd().unwrap().try_clone_to_owned().unwrap();
        a.close_fd();
        a.commit((12 << 20) + 5, 1).unwrap();
        assert_eq!(
            rustix::fs::fstat(&peer).unwrap().st_blocks,
            ((6 << 20) + 4096) / 512
        );
        // A file larger than the memory there is: refused, not SIGBUS later.
        Segment::private(4096).unwrap().commit(0, 4096).unwrap();
    }

    #[test]
    fn out_of_range_misaligned_and_read_only_accesses_panic() {
        let a = Segment::create("test", 4096).unwrap();
        let fd = a.fd().unwrap().try_clone_to_owned().unwrap();
        let r = Segment::from_fd(fd, 4096, Access::ReadOnly).unwrap();
        assert!(!r.is_writable());
        assert_eq!(r.load(4088, RLX), 0);
        let panics = |f: &dyn Fn()| {
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err());
        };
        panics(&|| _ = a.load(4096, RLX));
        panics(&|| _ = a.load(4089, RLX));
        panics(&|| _ = a.load(4, RLX));
        panics(&|| _ = a.load(usize::MAX - 7, RLX));
        panics(&|| _ = a.load_u32(4096, RLX));
        panics(&|| _ = a.load_u32(2, RLX));
        panics(&|| a.copy_in(4095, b"ab"));
        panics(&|| a.copy_in(usize::MAX, b"ab"));
        panics(&|| a.copy_out(4097, &mut []));
        panics(&|| r.store(0, 1, RLX));
        panics(&|| r.store_u32(0, 1, RLX));
        panics(&|| r.copy_in(0, b"a"));
        a.copy_in(4096, b"");
    }

    #[test]
    fn private_segment_has_no_descriptor_and_starts_zero() {
        let p = Segment::private(100).unwrap();
        assert!(p.fd().is_none());
        assert_eq!(p.load(88, RLX), 0);
        p.store(88, 1, RLX);
        assert!(
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| p.load(96, RLX))).is_err()
        );
    }
}
