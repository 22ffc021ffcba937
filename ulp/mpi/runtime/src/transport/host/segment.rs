//! The mapping of the segment. It stays mapped as long as the process lives.

use ferriband_host::copy;
use ferriband_host::{Reader, segment};
use ferriband_mpi_proto::segment::{HEADER_BYTES, Layout, MEMFD, area};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The segment that the ranks of a host share.
pub struct Segment {
    /// None behind one of System V.
    file: Option<OwnedFd>,
    base: NonNull<u8>,
    layout: Layout,
    job: u64,
}

// SAFETY: the mapping is shared memory anyway, read and written by atomic words or as bytes that
// somebody else may change.
unsafe impl Send for Segment {}

impl Segment {
    /// A new segment, sealed, with a header and a job's number that nobody can guess.
    pub(in crate::transport) fn make(layout: Layout) -> io::Result<OwnedFd> {
        let mut job = [0; 8];
        File::open("/dev/urandom")?.read_exact(&mut job)?;
        let file = segment::create(&CString::new(MEMFD)?, layout.total())?;
        // It is stored: to write it would be forbidden where files may not be that long.
        let start = segment::Segment::map(file, HEADER_BYTES as u64)?;
        start.write(0, &layout.header(u64::from_ne_bytes(job)))?;
        Ok(start.into())
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

    /// Maps the segment behind an inherited descriptor, which stays as it is.
    pub fn open(fd: RawFd) -> io::Result<Self> {
        // SAFETY: the call takes no memory; it fails where there is no such descriptor.
        let own = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) };
        if own < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor.
        Self::map(unsafe { OwnedFd::from_raw_fd(own) })
    }

    /// The process that the launcher has started as `rank`, if it has said so.
    pub fn started(&self, rank: u32) -> Option<u32> {
        let at = self.layout.area(rank) + area::STARTED;
        Some(self.word32(at).load(Ordering::Relaxed)).filter(|pid| *pid != 0)
    }

    /// Makes this process `rank`, unless another one is; then its id.
    pub fn claim(&self, rank: u32) -> Result<(), u32> {
        let me = std::process::id();
        let at = self.layout.area(rank) + area::PID;
        let was = self
            .word32(at)
            .compare_exchange(0, me, Ordering::SeqCst, Ordering::SeqCst);
        match was {
            Err(other) if other != me => Err(other),
            _ => Ok(()),
        }
    }

    /// Maps the segment behind `file`, which must be as long as its header says and sealed at that,
    /// so that no access can fail later.
    pub fn map(file: OwnedFd) -> io::Result<Self> {
        let bad = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text.to_owned());
        let mut header = [0_u8; HEADER_BYTES];
        Reader::map(file.as_fd(), HEADER_BYTES as u64)?.read(0, &mut header)?;
        let (layout, job) = Layout::parse(header)
            .ok_or_else(|| bad("the host segment is of another kind or version"))?;
        let (base, file) = segment::Segment::map(file, layout.total())?.leak();
        Ok(Self::at(base, layout, job, Some(file)))
    }

    fn at(base: NonNull<u8>, layout: Layout, job: u64, file: Option<OwnedFd>) -> Self {
        copy::know_processor();
        Self {
            file,
            base,
            layout,
            job,
        }
    }

    /// Attaches to a segment of System V, which has one length for ever.
    pub fn attach(id: i32) -> io::Result<Self> {
        // SAFETY: a zeroed structure is a valid one, which the call fills.
        let mut found: libc::shmid_ds = unsafe { std::mem::zeroed() };
        // SAFETY: a local structure.
        if unsafe { libc::shmctl(id, libc::IPC_STAT, &raw mut found) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new mapping at a place that the kernel chooses.
        let base = unsafe { libc::shmat(id, std::ptr::null(), 0) };
        if base.addr() == usize::MAX {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::InvalidData)?;
        let parsed = (found.shm_segsz >= HEADER_BYTES)
            // SAFETY: the mapping is so long; the launcher wrote the header before any rank ran.
            .then(|| unsafe { base.cast::<[u8; HEADER_BYTES]>().read() })
            .and_then(Layout::parse);
        match parsed {
            Some((layout, job)) if found.shm_segsz as u64 >= layout.total() => {
                Ok(Self::at(base, layout, job, None))
            }
            _ => {
                // SAFETY: the mapping of above, which nobody else knows.
                unsafe { libc::shmdt(base.as_ptr().cast()) };
                Err(io::ErrorKind::InvalidData.into())
            }
        }
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
        // SAFETY: within the mapping, which is never unmapped, aligned, and only ever accessed by
        // atomic operations.
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
    pub(in crate::transport) fn address(&self, at: u64) -> NonNull<u8> {
        debug_assert!(at < self.layout.total());
        // SAFETY: within the mapping.
        unsafe { self.base.add(at as usize) }
    }

    fn populate(&self, at: u64, length: u32) -> io::Result<()> {
        let page = 4096;
        let first = at / page * page;
        let bytes = (at + u64::from(length) - first).next_multiple_of(page);
        // SAFETY: within the mapping, of whole pages; what is there stays.
        let done = unsafe {
            libc::madvise(
                self.base.as_ptr().add(first as usize).cast(),
                bytes as usize,
                libc::MADV_POPULATE_WRITE,
            )
        };
        match io::Error::last_os_error() {
            _ if done == 0 => Ok(()),
            // Before Linux 5.14 pages come when they are touched, as a program's own do.
            error if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            error => Err(error),
        }
    }

    /// Sees to it that there is memory behind a range, so that writing to it cannot fail.
    pub(in crate::transport) fn allocate(&self, at: u64, length: u32) -> io::Result<()> {
        let Some(file) = &self.file else {
            return self.populate(at, length);
        };
        segment::allocate(file.as_fd(), at, length.into())
    }
}
