//! Memory of a socket: what the other side writes into, what is sent from, and the program's own buffers.
//!
//! Owns mappings and registrations. Never forms a reference to a byte of them: the other side, or the program, may be
//! writing at that moment.

use crate::boundary::Errno;
use crate::verbs;
use ferriband_verbs_sys::{IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE, ibv_mr, ibv_pd};
use libc::{c_void, iovec};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// A mapping of whole pages.
pub struct Region {
    base: NonNull<u8>,
    length: usize,
    /// The file behind it stays open: a peer of the same host maps it, too, and writes without a system call.
    _file: Option<OwnedFd>,
}

// SAFETY: a mapping belongs to the process, and is reached by copies only.
unsafe impl Send for Region {}

impl Region {
    /// Memory that others will write into: a file without a name if a descriptor is left for it, otherwise private memory,
    /// which works as well and is slower on one host.
    ///
    /// ENOMEM.
    pub fn exposed(length: usize) -> Result<Self, Errno> {
        let length = length.next_multiple_of(PAGE);
        // SAFETY: the name is a C string.
        let fd = unsafe { libc::memfd_create(c"rsocket".as_ptr(), libc::MFD_CLOEXEC) };
        if fd >= 0 {
            // SAFETY: the descriptor was just made, and is owned here.
            let file = unsafe { OwnedFd::from_raw_fd(fd) };
            if ferriband_limit::set_length(file.as_fd(), length as u64).is_ok() {
                return Self::map(length, Some(file));
            }
        }
        Self::private(length)
    }

    /// Memory that nobody else sees.
    ///
    /// ENOMEM.
    pub fn private(length: usize) -> Result<Self, Errno> {
        Self::map(length.next_multiple_of(PAGE), None)
    }

    fn map(length: usize, file: Option<OwnedFd>) -> Result<Self, Errno> {
        let (flags, fd) = match &file {
            Some(file) => (libc::MAP_SHARED, file.as_raw_fd()),
            None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
        };
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, where the system likes it.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), length, rights, flags, fd, 0) };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => Ok(Region {
                base,
                length,
                _file: file,
            }),
            _ => Err(libc::ENOMEM),
        }
    }

    /// The address of a byte, which must be in it.
    pub fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset <= self.length, "an offset in the region");
        self.base.as_ptr().wrapping_add(offset)
    }

    /// Reads one number that somebody else may be writing; `offset` is a multiple of its size.
    pub fn read<T: Copy>(&self, offset: usize) -> T {
        assert!(offset + size_of::<T>() <= self.length && offset.is_multiple_of(align_of::<T>()));
        // SAFETY: inside the mapping, aligned, and any bytes are a number.
        unsafe { self.at(offset).cast::<T>().read_volatile() }
    }

    /// Writes one number.
    pub fn write<T: Copy>(&self, offset: usize, value: T) {
        assert!(offset + size_of::<T>() <= self.length && offset.is_multiple_of(align_of::<T>()));
        // SAFETY: inside the mapping and aligned.
        unsafe { self.at(offset).cast::<T>().write_volatile(value) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody keeps its address.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

/// A registration, which goes with it.
pub struct Registration(*mut ibv_mr);

// SAFETY: libibverbs' objects may be used by any thread.
unsafe impl Send for Registration {}

impl Registration {
    /// Registers memory for what this side sends and, if `is_exposed`, for the other side's WRITEs.
    ///
    /// # Safety
    /// The memory stays mapped as long as the registration lives, `pd` is a protection domain that outlives it.
    pub unsafe fn new(
        pd: *mut ibv_pd,
        address: *mut u8,
        length: usize,
        is_exposed: bool,
    ) -> Result<Self, Errno> {
        let remote = if is_exposed {
            IBV_ACCESS_REMOTE_WRITE
        } else {
            0
        };
        // SAFETY: the caller's promise.
        unsafe { verbs::register(pd, address.cast(), length, IBV_ACCESS_LOCAL_WRITE | remote) }
            .map(Registration)
    }

    /// The L_Key.
    pub fn local_key(&self) -> u32 {
        // SAFETY: the region lives as long as this.
        unsafe { (*self.0).lkey }
    }

    /// The R_Key.
    pub fn remote_key(&self) -> u32 {
        // SAFETY: as above.
        unsafe { (*self.0).rkey }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: the region is ours. It cannot be refused: no window is bound to it.
        unsafe { verbs::ibv_dereg_mr(self.0) };
    }
}

/// The program's buffers of one call, and how far they have been used.
pub struct Vectors<'a> {
    list: &'a [iovec],
    /// Bytes of the first one that are used.
    used: usize,
    left: usize,
}

impl<'a> Vectors<'a> {
    /// The buffers of a call.
    ///
    /// EINVAL if they are longer than a result could say.
    ///
    /// # Safety
    /// Each buffer is what its length says, for as long as this is used.
    pub unsafe fn new(list: &'a [iovec]) -> Result<Self, Errno> {
        let left = list.iter().try_fold(0usize, |sum, buffer| {
            sum.checked_add(buffer.iov_len)
                .filter(|sum| isize::try_from(*sum).is_ok())
        });
        Ok(Vectors {
            list,
            used: 0,
            left: left.ok_or(libc::EINVAL)?,
        })
    }

    /// No buffers.
    pub const fn none() -> Self {
        Vectors {
            list: &[],
            used: 0,
            left: 0,
        }
    }

    /// Bytes that are left.
    pub fn left(&self) -> usize {
        self.left
    }

    /// The next `length` bytes count as used; there must be as many left.
    pub fn skip(&mut self, length: usize) {
        if length != 0 {
            self.each(length, |_, _, _| {});
        }
    }

    /// The next `length` bytes, if they lie in one buffer; they count as used.
    pub fn take_whole(&mut self, length: usize) -> Option<*const u8> {
        self.skip_empty();
        let first = self.list.first()?;
        if first.iov_len - self.used < length {
            return None;
        }
        let address = first.iov_base.cast::<u8>().wrapping_add(self.used);
        self.advance(length);
        Some(address)
    }

    /// Copies `length` bytes out of them; there must be as many left.
    pub fn copy_to(&mut self, to: *mut u8, length: usize) {
        self.each(length, |buffer, offset, part| {
            // SAFETY: both are as long as their owners promised.
            unsafe { copy(buffer, to.wrapping_add(offset), part) };
        });
    }

    /// Copies `length` bytes into them; there must be as many left.
    pub fn copy_from(&mut self, from: *const u8, length: usize) {
        self.each(length, |buffer, offset, part| {
            // SAFETY: both are as long as their owners promised.
            unsafe { copy(from.wrapping_add(offset), buffer, part) };
        });
    }

    fn each(&mut self, length: usize, mut act: impl FnMut(*mut u8, usize, usize)) {
        assert!(length <= self.left, "no more than is left");
        let mut done = 0;
        while done < length {
            self.skip_empty();
            let first = self.list.first().expect("bytes are left");
            let part = (first.iov_len - self.used).min(length - done);
            act(
                first.iov_base.cast::<u8>().wrapping_add(self.used),
                done,
                part,
            );
            self.advance(part);
            done += part;
        }
    }

    fn skip_empty(&mut self) {
        while self
            .list
            .first()
            .is_some_and(|first| first.iov_len == self.used)
        {
            self.list = &self.list[1..];
            self.used = 0;
        }
    }

    fn advance(&mut self, length: usize) {
        self.used += length;
        self.left -= length;
    }
}

/// Copies bytes that others may be writing: what arrives torn is the writer's own doing.
///
/// # Safety
/// Both places have `length` bytes.
unsafe fn copy(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: the caller's promise. The C library's copy, unlike Rust's own, is not a promise to the compiler that nobody
    // else writes there.
    unsafe { libc::memcpy(to.cast::<c_void>(), from.cast::<c_void>(), length) };
}
