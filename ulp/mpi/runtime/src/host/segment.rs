//! The mapping of the segment. It stays mapped as long as the process lives.

use super::choice;
use ferriband_mpi_proto::segment::{HEADER_BYTES, Layout, area};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The segment that the ranks of a host share.
pub struct Segment {
    fd: OwnedFd,
    base: NonNull<u8>,
    layout: Layout,
    job: u64,
}

// SAFETY: the mapping is shared memory anyway, read and written by atomic words or as bytes that somebody else may change.
unsafe impl Send for Segment {}

impl Segment {
    /// A new segment, sealed, with a header and a job's number that nobody can guess.
    pub(super) fn make(layout: Layout) -> io::Result<OwnedFd> {
        // SAFETY: a name that ends in zero.
        let fd = unsafe {
            libc::memfd_create(
                c"ferriband-mpi".as_ptr(),
                libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        let mut job = [0; 8];
        File::open("/dev/urandom")?.read_exact(&mut job)?;
        file.set_len(layout.total())?;
        file.write_all_at(&layout.header(u64::from_ne_bytes(job)), 0)?;
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: our own descriptor.
        if unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, seals) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(file.into())
    }

    /// Says that `rank` has come, to which host, and which cores it may use.
    pub(super) fn announce(&self, rank: u32, host: u32, cores: (u32, u64)) {
        let own = self.layout.area(rank);
        self.word32(own + area::CORES)
            .store(cores.0, Ordering::Relaxed);
        self.word64(own + area::CORES_ALIKE)
            .store(cores.1, Ordering::Relaxed);
        self.word32(own + area::HOST).store(host, Ordering::SeqCst);
    }

    /// Maps the segment behind `fd`, which must be as long as its header says and sealed at that, so that no access can fail later.
    pub fn map(fd: OwnedFd) -> io::Result<Self> {
        let bad = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text.to_owned());
        let mut header = [0_u8; HEADER_BYTES];
        // SAFETY: a local buffer of that length.
        let read =
            unsafe { libc::pread(fd.as_raw_fd(), header.as_mut_ptr().cast(), header.len(), 0) };
        if read != HEADER_BYTES as isize {
            return Err(bad("the host segment has no header"));
        }
        let (layout, job) = Layout::parse(header)
            .ok_or_else(|| bad("the host segment is of another kind or version"))?;
        // SAFETY: a query about our own descriptor.
        let seals = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) };
        if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
            return Err(bad("the host segment is not sealed"));
        }
        // SAFETY: a zeroed stat structure is valid to be filled.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: a local structure.
        if unsafe { libc::fstat(fd.as_raw_fd(), &raw mut stat) } != 0 {
            return Err(io::Error::last_os_error());
        }
        if stat.st_size.cast_unsigned() < layout.total() {
            return Err(bad("the host segment is too short"));
        }
        let length =
            usize::try_from(layout.total()).map_err(|_| bad("the host segment is too long"))?;
        // SAFETY: a new mapping at a place that the kernel chooses.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                fd.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| bad("the host segment lies at 0"))?;
        choice::share(base.addr().get(), base.addr().get() + length);
        Ok(Self {
            fd,
            base,
            layout,
            job,
        })
    }

    /// What lies where.
    #[inline]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The job's number.
    pub fn job(&self) -> u64 {
        self.job
    }

    /// The word of 32 bits at `at`.
    #[inline]
    pub fn word32(&self, at: u64) -> &AtomicU32 {
        debug_assert!(at.is_multiple_of(4) && at + 4 <= self.layout.total());
        // SAFETY: within the mapping, which is never unmapped, aligned, and only ever accessed by atomic operations.
        unsafe { &*self.base.as_ptr().add(at as usize).cast::<AtomicU32>() }
    }

    /// The word of 64 bits at `at`.
    #[inline]
    pub fn word64(&self, at: u64) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8) && at + 8 <= self.layout.total());
        // SAFETY: as for word32.
        unsafe { &*self.base.as_ptr().add(at as usize).cast::<AtomicU64>() }
    }

    /// Where the bytes from `at` on lie.
    pub(super) fn address(&self, at: u64) -> NonNull<u8> {
        debug_assert!(at < self.layout.total());
        // SAFETY: within the mapping.
        unsafe { self.base.add(at as usize) }
    }

    /// Sees to it that there is memory behind a range, so that writing to it cannot fail.
    pub(super) fn allocate(&self, at: u64, length: u32) -> io::Result<()> {
        // SAFETY: our own descriptor; the range lies within the file.
        let done =
            unsafe { libc::fallocate(self.fd.as_raw_fd(), 0, at.cast_signed(), i64::from(length)) };
        if done == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}
