//! The file that a traced process writes to: mapped, of its whole length from the beginning, so
//! that nothing is lost with the process and no write can fail.

use crate::form::{EVENT, EVENTS, Event, Header, MOST_NAMES, NAME, NAMED, NAMES, WRITTEN};
use std::fmt;
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
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

/// Whose a tape is, as [`Header`] names it.
#[derive(Clone, Copy, Debug)]
pub struct Whose<'a> {
    /// The process's number,
    pub rank: u32,
    /// and how many numbers there are.
    pub ranks: u32,
    /// The job's number.
    pub job: u64,
    /// What people know the process by.
    pub label: &'a str,
    /// Events that the tape has room for.
    pub events: u64,
}

/// A tape that cannot be written.
#[derive(Debug)]
pub struct Unwritable {
    /// Its file.
    pub path: PathBuf,
    /// Why.
    pub error: io::Error,
}

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, error } = self;
        write!(f, "the trace {} cannot be written: {error}", path.display())
    }
}

impl std::error::Error for Unwritable {}

/// Nanoseconds by the clock that all processes of a host share.
pub fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a local variable.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

impl Tape {
    /// A new file of this process in `dir`, named by job, process and number.
    ///
    /// # Errors
    /// There is no room, or the directory cannot be written to.
    pub fn begin(dir: &Path, whose: &Whose<'_>) -> Result<Self, Unwritable> {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let boot = read("/proc/sys/kernel/random/boot_id");
        let header = Header {
            rank: whose.rank,
            ranks: whose.ranks,
            pid: std::process::id(),
            job: whose.job,
            capacity: whose.events,
            boot: boot.bytes().fold(0, |hash: u64, byte| {
                hash.wrapping_mul(31).wrapping_add(byte.into())
            }),
            monotonic_ns: now_ns(),
            realtime_ns: clock_ns(libc::CLOCK_REALTIME),
            host: read("/proc/sys/kernel/hostname").trim().to_owned(),
            label: whose.label.to_owned(),
        };
        let name = format!("{:016x}.{}.{}.trace", header.job, header.pid, header.rank);
        let path = dir.join(name);
        Self::create(&path, &header).map_err(|error| Unwritable { path, error })
    }

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
