//! What the ranks of a job share: the segment and the bells.

use crate::failure::Failure;
use ferriband_memory::limit;
use ferriband_mpi_proto::segment::{HEADER_BYTES, Layout, Life, MEMFD, area, slot};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// The job's segment and one bell for each rank. None is inherited by any process that is not a rank.
pub struct Share {
    segment: File,
    layout: Layout,
    control: Control,
    bells: Vec<OwnedFd>,
}

/// The segment's beginning: the header and the ranks' areas, mapped. What is stored here is never written to the file, whose length may be more than files may have
/// (`ulimit -f`).
#[derive(Clone, Copy)]
pub struct Control {
    base: NonNull<u8>,
    layout: Layout,
}

impl Control {
    fn map(segment: &File, layout: Layout) -> io::Result<Self> {
        // SAFETY: a new mapping at a place that the kernel chooses.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                layout.line(0, 0) as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                segment.as_raw_fd(),
                0,
            )
        };
        let base = NonNull::new(base.cast()).filter(|_| base != libc::MAP_FAILED);
        base.map(|base| Self { base, layout })
            .ok_or_else(io::Error::last_os_error)
    }

    /// A word of a rank's area.
    fn word(&self, rank: u32, field: u64) -> &AtomicU32 {
        let at = self.layout.area(rank) + field;
        // SAFETY: within the mapping, which is never unmapped, aligned, and accessed by atomic operations alone.
        unsafe { &*self.base.as_ptr().add(at as usize).cast::<AtomicU32>() }
    }

    /// Says that this process is the one that is started as `rank`. Signal-safe.
    pub fn set_started(&self, rank: u32) {
        self.word(rank, area::STARTED)
            .store(std::process::id(), Ordering::Relaxed);
    }
}

// SAFETY: the mapping stays as long as the process, and its words are atomic.
unsafe impl Send for Control {}
// SAFETY: as above.
unsafe impl Sync for Control {}

impl Share {
    /// For `ranks` ranks.
    pub fn make(ranks: u32) -> Result<Self, Failure> {
        let layout = Layout::new(ranks, slot(ranks)).ok_or_else(|| {
            Failure::new(format!("{ranks} ranks cannot share this machine"))
                .remedy(format!(
                    "between 1 and {} can",
                    ferriband_mpi_proto::segment::MAX_RANKS
                ))
                .status(2)
        })?;
        let name = CString::new(MEMFD).expect("a name has no zero in it");
        // SAFETY: a name that ends in zero.
        let fd = unsafe {
            libc::memfd_create(
                name.as_ptr(),
                libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING,
            )
        };
        if fd < 0 {
            return Err(Failure::os("make", "the ranks' shared memory"));
        }
        // SAFETY: a new descriptor.
        let segment = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        // What names the job is also what tells its ranks from strangers on a network.
        let mut job = [0; 8];
        File::open("/dev/urandom")
            .and_then(|mut random| random.read_exact(&mut job))
            .map_err(|error| Failure::io("read", "/dev/urandom", &error))?;
        let job = u64::from_ne_bytes(job);
        limit::set_length(segment.as_fd(), layout.total())
            .map_err(|error| too_long(&layout, &error))?;
        let control = Control::map(&segment, layout)
            .map_err(|error| Failure::io("map", "the ranks' shared memory", &error))?;
        let header = layout.header(job);
        // SAFETY: the mapping is longer than the header, and no other process has the segment yet.
        unsafe { control.base.cast::<[u8; HEADER_BYTES]>().write(header) };
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: our own descriptor.
        if unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, seals) } != 0 {
            return Err(Failure::os("seal", "the ranks' shared memory"));
        }
        let bells = (0..ranks)
            .map(|_| {
                // SAFETY: the call takes no memory.
                let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
                if fd < 0 {
                    return Err(Failure::os("make", "a rank's bell")
                        .remedy("each rank takes up to five descriptors: see ulimit -n"));
                }
                // SAFETY: a new descriptor.
                Ok(unsafe { OwnedFd::from_raw_fd(fd) })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            segment,
            layout,
            control,
            bells,
        })
    }

    /// Where ranks say of themselves what the launcher asks.
    pub fn control(&self) -> Control {
        self.control
    }

    /// Descriptor of the segment.
    pub fn fd(&self) -> RawFd {
        self.segment.as_raw_fd()
    }

    /// Descriptors of the bells, in the order of ranks.
    pub fn bells(&self) -> Vec<RawFd> {
        self.bells.iter().map(AsRawFd::as_raw_fd).collect()
    }

    /// Says which host a rank is on, before it runs.
    pub fn set_host(&self, rank: u32, host: u32) {
        let word = self.control.word(rank, area::HOST);
        word.store(host, Ordering::Relaxed);
    }

    /// Where in its life a rank says it is.
    pub fn life(&self, rank: u32) -> Life {
        Life::of(self.word(rank, area::LIFE))
    }

    /// Whether a rank goes on when another one has died: it has begun, and no error of MPI_COMM_WORLD ends it.
    pub fn survives(&self, rank: u32) -> bool {
        self.life(rank) != Life::Unborn && self.word(rank, area::FATAL) == 0
    }

    /// Says that a rank has died, for the `number`th time in this job, and wakes all others.
    pub fn tell_death(&self, rank: u32, number: u32) {
        let write = |rank, field, word: u32| {
            self.control
                .word(rank, field)
                .store(word, Ordering::SeqCst);
        };
        write(rank, area::LIFE, Life::Dead as u32);
        for (other, bell) in (0..).zip(&self.bells) {
            write(other, area::LOSSES, number);
            let one = 1_u64;
            // SAFETY: a local word of eight bytes, as an eventfd takes. It does not block, and one that is full has rung.
            unsafe { libc::write(bell.as_raw_fd(), (&raw const one).cast(), 8) };
        }
    }

    fn word(&self, rank: u32, field: u64) -> u32 {
        self.control.word(rank, field).load(Ordering::SeqCst)
    }
}

/// What to say where shared memory of that length cannot be had.
fn too_long(layout: &Layout, error: &io::Error) -> Failure {
    let failure = Failure::io("lay out", "the ranks' shared memory", error);
    if error.raw_os_error() != Some(libc::EFBIG) {
        return failure;
    }
    failure.remedy(format!(
        "it takes {} MiB, which is more than a file may have here, and shared memory counts as one: raise the limit (ulimit -f)",
        layout.total() >> 20
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_shares_a_sealed_segment() {
        let share = Share::make(3).expect("memory");
        assert_eq!(share.bells().len(), 3);
        assert_eq!(share.life(2), Life::Unborn);
        assert!(share.segment.set_len(0).is_err(), "it cannot be cut");
        assert!(Share::make(0).is_err());
    }
}
