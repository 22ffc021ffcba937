//! What the ranks of a job share: the segment and the bells.

use crate::failure::Failure;
use ferriband_mpi_proto::segment::{Layout, Life, area, slot};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;

/// The job's segment and one bell for each rank. None is inherited by any process that is not a rank.
pub struct Share {
    segment: File,
    layout: Layout,
    bells: Vec<OwnedFd>,
}

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
        // SAFETY: a name that ends in zero.
        let fd = unsafe {
            libc::memfd_create(
                c"ferriband-mpi".as_ptr(),
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
        segment
            .set_len(layout.total())
            .and_then(|()| segment.write_all_at(&layout.header(job), 0))
            .map_err(|error| Failure::io("lay out", "the ranks' shared memory", &error))?;
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
                    return Err(Failure::os("make", "a rank's bell"));
                }
                // SAFETY: a new descriptor.
                Ok(unsafe { OwnedFd::from_raw_fd(fd) })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            segment,
            layout,
            bells,
        })
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
    pub fn set_host(&self, rank: u32, host: u32) -> Result<(), Failure> {
        self.segment
            .write_all_at(&host.to_ne_bytes(), self.layout.area(rank) + area::HOST)
            .map_err(|error| Failure::io("write to", "the ranks' shared memory", &error))
    }

    /// Where in its life a rank says it is.
    pub fn life(&self, rank: u32) -> Life {
        self.word(rank, area::LIFE).map_or(Life::Unborn, Life::of)
    }

    /// Whether a rank goes on when another one has died: it has begun, and no error of MPI_COMM_WORLD ends it.
    pub fn survives(&self, rank: u32) -> bool {
        self.life(rank) != Life::Unborn && self.word(rank, area::FATAL) == Some(0)
    }

    /// Says that a rank has died, for the `number`th time in this job, and wakes all others.
    pub fn tell_death(&self, rank: u32, number: u32) -> Result<(), Failure> {
        let write = |rank, field, word: u32| {
            self.segment
                .write_all_at(&word.to_ne_bytes(), self.layout.area(rank) + field)
                .map_err(|error| Failure::io("write to", "the ranks' shared memory", &error))
        };
        write(rank, area::LIFE, Life::Dead as u32)?;
        for (other, bell) in (0..).zip(&self.bells) {
            write(other, area::LOSSES, number)?;
            let one = 1_u64;
            // SAFETY: a local word of eight bytes, as an eventfd takes. It does not block, and one that is full has rung.
            unsafe { libc::write(bell.as_raw_fd(), (&raw const one).cast(), 8) };
        }
        Ok(())
    }

    fn word(&self, rank: u32, field: u64) -> Option<u32> {
        let mut word = [0; 4];
        let at = self.layout.area(rank) + field;
        self.segment.read_exact_at(&mut word, at).ok()?;
        Some(u32::from_ne_bytes(word))
    }
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
