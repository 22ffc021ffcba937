//! What the ranks of a job share: the segment and the bells.

use crate::failure::Failure;
use ferriband_host::Event;
use ferriband_mpi_proto::heals::RankReport;
use ferriband_mpi_proto::segment::{HEADER_BYTES, Layout, Life, MEMFD, SYSTEM_V, area, slot};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// The job's segment and one bell for each rank. None is inherited by any process that is not a rank.
pub struct Share {
    place: Place,
    control: Control,
    bells: Vec<Event>,
}

/// Where the segment is.
enum Place {
    Memfd(File),
    /// Of System V, with this number. It is marked to go when the last process that has it ends.
    SystemV(i32),
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
        // What names the job is also what tells its ranks from strangers on a network.
        let mut job = [0; 8];
        File::open("/dev/urandom")
            .and_then(|mut random| random.read_exact(&mut job))
            .map_err(|error| Failure::io("read", "/dev/urandom", &error))?;
        let made = match memfd(layout) {
            Err(error) if error.raw_os_error() == Some(libc::EFBIG) => system_v(layout),
            made => made,
        };
        let (place, control) =
            made.map_err(|error| Failure::io("make", "the ranks' shared memory", &error))?;
        let header = layout.header(u64::from_ne_bytes(job));
        // SAFETY: the mapping is longer than the header, and no other process has the segment yet.
        unsafe { control.base.cast::<[u8; HEADER_BYTES]>().write(header) };
        let bells = (0..ranks)
            .map(|_| {
                Event::new().map_err(|error| {
                    Failure::io("make", "a rank's bell", &error)
                        .remedy("each rank takes up to five descriptors: see ulimit -n")
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            place,
            control,
            bells,
        })
    }

    /// Where ranks say of themselves what the launcher asks.
    pub fn control(&self) -> Control {
        self.control
    }

    /// Descriptor of the segment, if it has one.
    pub fn fd(&self) -> Option<RawFd> {
        match &self.place {
            Place::Memfd(segment) => Some(segment.as_raw_fd()),
            Place::SystemV(_) => None,
        }
    }

    /// What a rank's environment says of the segment.
    pub fn words(&self) -> String {
        match &self.place {
            Place::Memfd(segment) => segment.as_raw_fd().to_string(),
            Place::SystemV(id) => format!("{SYSTEM_V}{id}"),
        }
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

    /// What a rank has moved, if it has said so: at its end.
    pub fn report(&self, rank: u32) -> Option<RankReport> {
        let half = |at: u64| u64::from(self.word(rank, area::REPORT + at));
        let words = std::array::from_fn(|at| {
            let at = at as u64 * 8;
            half(at) | half(at + 4) << 32
        });
        RankReport::parse(&words)
    }

    /// Whether a rank goes on when another one has died: it has begun, and no error of
    /// MPI_COMM_WORLD ends it, or it is to find out by itself (`tolerates`).
    pub fn survives(&self, rank: u32, tolerates: bool) -> bool {
        let goes_on = tolerates || self.word(rank, area::FATAL) == 0;
        self.life(rank) != Life::Unborn && goes_on
    }

    /// Says that a rank has died, for the `number`th time in this job, and wakes all others.
    pub fn tell_death(&self, rank: u32, number: u32) {
        let write = |rank, field, word: u32| {
            self.control.word(rank, field).store(word, Ordering::SeqCst);
        };
        write(rank, area::LIFE, Life::Dead as u32);
        for (other, bell) in (0..).zip(&self.bells) {
            write(other, area::LOSSES, number);
            bell.signal();
        }
    }

    fn word(&self, rank: u32, field: u64) -> u32 {
        self.control.word(rank, field).load(Ordering::SeqCst)
    }
}

fn memfd(layout: Layout) -> io::Result<(Place, Control)> {
    let segment = ferriband_host::segment::create(&CString::new(MEMFD)?, layout.total())?.into();
    let control = Control::map(&segment, layout)?;
    Ok((Place::Memfd(segment), control))
}

/// Makes the segment of System V's shared memory, for which no limit on files holds.
fn system_v(layout: Layout) -> io::Result<(Place, Control)> {
    let length =
        usize::try_from(layout.total()).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    let flags = libc::IPC_CREAT | libc::IPC_EXCL | libc::SHM_NORESERVE | 0o600;
    // SAFETY: the calls take no memory of ours.
    let (id, base) = unsafe {
        let id = libc::shmget(libc::IPC_PRIVATE, length, flags);
        if id < 0 {
            return Err(io::Error::last_os_error());
        }
        (id, libc::shmat(id, std::ptr::null(), 0))
    };
    let attached = match NonNull::new(base.cast()).filter(|_| base.addr() != usize::MAX) {
        Some(base) => Ok((Place::SystemV(id), Control { base, layout })),
        None => Err(io::Error::last_os_error()),
    };
    // Linux lets others attach to it as long as one has it, and it goes with the last.
    // SAFETY: our own segment.
    unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
    attached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_files_may_not_be_long_it_is_of_another_kind() {
        let layout = Layout::new(2, slot(2)).expect("a layout");
        let (place, control) = system_v(layout).expect("memory");
        assert!(matches!(place, Place::SystemV(_)));
        control.set_started(1);
        let word = control.word(1, area::STARTED).load(Ordering::SeqCst);
        assert_eq!(word, std::process::id());
    }

    #[test]
    fn a_job_shares_a_sealed_segment() {
        let share = Share::make(3).expect("memory");
        assert_eq!(share.bells().len(), 3);
        assert_eq!(share.life(2), Life::Unborn);
        let Place::Memfd(segment) = &share.place else {
            panic!("a memfd may be so long here");
        };
        assert!(segment.set_len(0).is_err(), "it cannot be cut");
        assert!(Share::make(0).is_err());
    }
}
