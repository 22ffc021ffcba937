//! The file that a traced rank writes to: mapped, of its whole length from the beginning, so that nothing is lost with the process and no write can fail.

use ferriband_mpi_proto::trace::{
    EVENT, EVENTS, Event, Header, MOST_NAMES, NAME, NAMED, NAMES, WRITTEN,
};
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A mapped file of events.
pub struct Tape {
    base: NonNull<u8>,
    capacity: u64,
}

// SAFETY: the mapping stays as long as the process, and is only ever written by atomic words, or by whoever has claimed a name.
unsafe impl Send for Tape {}
// SAFETY: as above.
unsafe impl Sync for Tape {}

impl Tape {
    /// A new file, which must not be there.
    pub fn create(path: &Path, header: &Header) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        let made = Self::lay_out(&file, header);
        if made.is_err() {
            // What cannot be used is not left.
            let _ = std::fs::remove_file(path);
        }
        made
    }

    fn lay_out(file: &File, header: &Header) -> io::Result<Self> {
        let total = header.total();
        ferriband_limit::may_be_long(total)?;
        // Whoever reads it is of this user, whatever files are made like.
        file.set_permissions(Permissions::from_mode(0o600))?;
        // Blocks, not only a length: where a file system is full, a store into a hole would kill the program.
        // SAFETY: our own descriptor.
        let error = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, total.cast_signed()) };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        file.write_all_at(&header.emit(), 0)?;
        // SAFETY: a new mapping at a place that the kernel chooses.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                total as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>())
            .ok_or_else(|| io::Error::other("a mapping lies at 0"))?;
        Ok(Self {
            base,
            capacity: header.capacity,
        })
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        // SAFETY: within the mapping, which is never unmapped, and aligned: all that is asked for is a multiple of eight.
        unsafe { &*self.base.as_ptr().add(at as usize).cast::<AtomicU64>() }
    }

    /// Writes an event, over the oldest if there is no room.
    pub fn write(&self, event: &Event) {
        let place = self.word(WRITTEN).fetch_add(1, Ordering::Relaxed) % self.capacity;
        let at = EVENTS + place * EVENT;
        let words = event.words();
        // The second word says that there is an event.
        self.word(at + 8).store(0, Ordering::Relaxed);
        std::sync::atomic::fence(Ordering::Release);
        for part in [0, 2, 3] {
            self.word(at + part * 8)
                .store(words[part as usize], Ordering::Relaxed);
        }
        self.word(at + 8).store(words[1], Ordering::Release);
    }

    /// Writes a name; its index. Only one thread at a time may do that.
    pub fn name(&self, name: &str) -> u16 {
        // SAFETY: as for `word`; the place is a multiple of four.
        let named = unsafe { &*self.base.as_ptr().add(NAMED as usize).cast::<AtomicU32>() };
        let index = named.load(Ordering::Relaxed);
        if index >= MOST_NAMES {
            return (MOST_NAMES - 1) as u16;
        }
        let mut bytes = [0_u8; NAME as usize];
        let length = name.len().min(bytes.len());
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        let at = NAMES + u64::from(index) * NAME;
        for (place, eight) in (0..).zip(bytes.chunks_exact(8)) {
            let word = u64::from_ne_bytes(eight.try_into().expect("eight bytes"));
            self.word(at + place * 8).store(word, Ordering::Relaxed);
        }
        named.store(index + 1, Ordering::Release);
        index as u16
    }
}
